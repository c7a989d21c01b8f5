/* tune.c — owns measuring: the link when the GPU starts, and for `gpugemm tune` the CPU BLAS and the staged path over sizes and shapes. What it finds goes
 * to rates.c. Called by staged.c and, through info.c, by the command. */
#include "tune.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "copy.h"
#include "real.h"
#include "staged.h"
#include "trace.h"

/* ---- the link ------------------------------------------------------------------------------------------------------------------------------ */

enum { SAMPLE = 8 }; /* slots */

/* Bytes/s of copies between the slots and the arena; 0: the GPU failed. */
static double link_rate(struct gg_lane *lane, struct gg_slot *const slots[SAMPLE], int64_t bytes, bool up)
{
    gg_stream *streams = up ? lane->up : lane->down;
    double best = 0;
    for (int round = 0; round < 3; round++) {
        double start = gg_now();
        bool good = true;
        for (int i = 0; i < SAMPLE; i++) {
            char *device = lane->arena + i * bytes;
            gg_stream stream = streams[i % GG_WAYS];
            good = good && (up ? gg_gpu_copy(device, slots[i]->memory, (size_t)bytes, stream) : gg_gpu_copy(slots[i]->memory, device, (size_t)bytes, stream));
        }
        for (int i = 0; i < GG_WAYS; i++)
            good = good && gg_gpu_stream_sync(streams[i]);
        if (!good)
            return 0;
        double rate = SAMPLE * (double)bytes / (gg_now() - start);
        best = rate > best ? rate : best;
    }
    return best;
}

/* Bytes/s of the copy threads between pageable memory and the slots. */
static double copy_rate(struct gg_slot *const slots[SAMPLE], char *pageable, int64_t bytes, bool pack)
{
    double best = 0;
    for (int round = 0; round < 3; round++) {
        double start = gg_now();
        for (int i = 0; i < SAMPLE; i++) {
            char *theirs = pageable + i * bytes;
            struct gg_copy whole = {.dst = pack ? slots[i]->memory : theirs, .src = pack ? theirs : slots[i]->memory, .dst_pitch = bytes,
                                    .src_pitch = bytes, .width = bytes, .lines = 1, .past_cache = !pack, .left = &slots[i]->left};
            gg_copy_post(slots[i]->copies, gg_copy_cut(&whole, slots[i]->copies, GG_PIECES, 256 << 10));
        }
        for (int i = 0; i < SAMPLE; i++)
            while (!gg_copy_made(&slots[i]->left))
                if (!gg_copy_help())
                    gg_copy_patience(gg_now() - start);
        double rate = SAMPLE * (double)bytes / (gg_now() - start);
        best = rate > best ? rate : best;
    }
    return best;
}

/* A pipeline of the two. */
static double both(double link, double copy)
{
    const double shared = 0.92; /* both directions at once, and chunks that wait for each other (H200, 2026-11: 47 of 52 GB/s) */
    return shared * (link < copy ? link : copy);
}

void gg_tune_link(struct gg_lane *lane)
{
    const int64_t bytes = gg_slot_bytes();
    struct gg_slot *slots[SAMPLE];
    int held = 0;
    char *pageable = bytes ? malloc((size_t)(SAMPLE * bytes)) : NULL;
    if (pageable && gg_lane_grow_arena(lane, SAMPLE * bytes))
        while (held < SAMPLE && (slots[held] = gg_slot_take(lane, held)))
            held++;
    if (held == SAMPLE) {
        memset(pageable, 1, (size_t)(SAMPLE * bytes));
        gg_copy_begin(gg_copy_start());
        double copy_up = copy_rate(slots, pageable, bytes, true), copy_down = copy_rate(slots, pageable, bytes, false);
        gg_copy_end();
        double up = link_rate(lane, slots, bytes, true), down = link_rate(lane, slots, bytes, false);
        if (up > 0 && down > 0)
            gg_rates_set_link(both(up, copy_up), both(down, copy_down), up < down ? up : down);
    }
    while (held > 0)
        gg_slot_give(slots[--held]);
    free(pageable);
}

/* ---- CPU and GPU over sizes and shapes ------------------------------------------------------------------------------------------------------- */

/* Seconds of one call: the best of a few, for a while. With `cpu` by the CPU BLAS. 0: it was not served. */
static double time_call(const struct gg_gemm *p, bool cpu, double most)
{
    static const struct gg_location host[3] = {{GG_HOST, -1, NULL}, {GG_HOST, -1, NULL}, {GG_HOST, -1, NULL}};
    double best = 0, begun = gg_now();
    for (int i = 0; i < 30; i++) {
        struct gg_outcome outcome = {0};
        double start = gg_now();
        if (cpu)
            gg_real_gemm(p, NULL);
        else if (!gg_staged_gemm(gg_gpu_default(), p, host, NULL, NULL, &outcome))
            return 0;
        double seconds = gg_now() - start;
        best = i < 2 || seconds < best ? seconds : best; /* the first call wakes threads, loads kernels and touches pages */
        if (gg_now() - begun > most && i > 1)
            break;
        if (seconds > most)
            break;
    }
    return best;
}

/* The work list: squares, then products in which one dimension is far smaller than the others. */
static int list(struct gg_crossover *rows)
{
    static const int64_t squares[] = {64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096};
    static const int64_t elongated[][3] = {{16, 1024, 1024}, {1024, 16, 1024}, {1024, 1024, 16}, {64, 2048, 2048}, {2048, 64, 2048},
                                           {2048, 2048, 64}, {64, 8192, 8192}, {8192, 64, 8192}, {8192, 8192, 64}};
    int count = 0;
    for (int type = GG_S; type <= GG_D; type++) {
        for (size_t i = 0; i < sizeof squares / sizeof *squares; i++)
            rows[count++].p = (struct gg_gemm){.type = (enum gg_type)type, .m = squares[i], .n = squares[i], .k = squares[i]};
        for (size_t i = 0; i < sizeof elongated / sizeof *elongated; i++)
            rows[count++].p = (struct gg_gemm){.type = (enum gg_type)type, .m = elongated[i][0], .n = elongated[i][1], .k = elongated[i][2]};
    }
    return count;
}

static void fill(struct gg_gemm *p, void *a, void *b, void *c)
{
    p->b_kmajor = true;
    p->lda = p->ldc = p->m;
    p->ldb = p->k;
    p->alpha = 1;
    p->a = a, p->b = b, p->c = c;
}

int gg_tune(struct gg_crossover **rows, bool *saved, void (*progress)(double done, const char *what, void *argument), void *argument)
{
    enum { MOST = 64 };
    const size_t operand = (size_t)8192 * 8192 * sizeof(double);
    *saved = false;
    *rows = calloc(MOST, sizeof **rows);
    char *a = malloc(operand), *b = malloc(operand), *c = malloc(operand);
    int count = *rows && a && b && c && gg_gpu_wait() ? list(*rows) : 0;
    for (size_t i = 0; count && i < operand / sizeof(double); i++) { /* numbers of every type, none of them special */
        ((float *)a)[2 * i] = ((float *)a)[2 * i + 1] = (float)(i % 1009) / 1009 + 1;
        ((float *)b)[2 * i] = ((float *)b)[2 * i + 1] = (float)(i % 997) / 997 + 1;
    }
    if (count)
        memset(c, 0, operand);
    for (int i = 0; i < count; i++) {
        struct gg_crossover *row = &(*rows)[i];
        const struct gg_gemm *p = &row->p;
        char what[80];
        snprintf(what, sizeof what, "%cgemm %lld x %lld x %lld", p->type == GG_S ? 's' : 'd', (long long)p->m, (long long)p->n, (long long)p->k);
        if (progress)
            progress((double)i / count, what, argument);
        fill(&row->p, a, b, c);
        struct gg_facts facts = gg_host_facts();
        facts.mode = GG_MODE_GPU;
        struct gg_decision models = gg_dispatch(p, &facts);
        row->gpu = time_call(p, false, 0.1);
        if (models.seconds_cpu < 2)
            row->cpu = time_call(p, true, 0.2);
        if (row->cpu > 0)
            gg_rates_learn(GG_ON_CPU, p, models.model_cpu, row->cpu);
        if (row->gpu > 0)
            gg_rates_learn(GG_ON_GPU, p, models.model_gpu, row->gpu);
    }
    if (count)
        *saved = gg_rates_save();
    for (int i = 0; i < count; i++) {
        const struct gg_gemm *p = &(*rows)[i].p;
        (*rows)[i].decision = gg_explain(p->type, false, false, p->m, p->n, p->k, false);
        (*rows)[i].p.a = (*rows)[i].p.b = (*rows)[i].p.c = NULL;
    }
    if (progress && count)
        progress(1, "done", argument);
    free(a), free(b), free(c);
    if (!count) {
        free(*rows);
        *rows = NULL;
    }
    return count;
}

struct gg_decision gg_explain(enum gg_type type, bool transa, bool transb, int64_t m, int64_t n, int64_t k, bool beta)
{
    struct gg_gemm p = {.type = type, .a_kmajor = transa, .b_kmajor = !transb, .m = m, .n = n, .k = k, .alpha = 1, .beta = beta,
                        .lda = transa ? k : m, .ldb = transb ? n : k, .ldc = m};
    struct gg_facts facts = gg_host_facts();
    return gg_dispatch(&p, &facts);
}

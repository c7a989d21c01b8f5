/* tune.c — owns measuring: the link when the GPU starts, and for `gpugemm tune` the link, the CPU BLAS and the staged path over sizes and shapes.
 * Results go to rates.c. Called by staged.c and by the command. */
#include "tune.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "copy.h"
#include "dispatch.h"
#include "fp.h"
#include "gpugemm.h"
#include "real.h"
#include "serve.h"
#include "staged.h"
#include "trace.h"

/* ---- the link ------------------------------------------------------------------------------------------------------------------------------ */

enum { SAMPLE = 8 }; /* slots */

/* Bytes/s of copies between the slots and the arena; 0: the GPU failed. */
static double link_rate(struct gg_lane *lane, struct gg_slot *const slots[SAMPLE], int64_t bytes, bool up)
{
    gg_stream stream = up ? lane->up : lane->down;
    double best = 0;
    for (int round = 0; round < 3; round++) {
        double start = gg_now();
        bool good = true;
        for (int i = 0; i < SAMPLE; i++) {
            char *device = lane->arena + i * bytes;
            good = good && (up ? gg_gpu_copy(device, slots[i]->memory, (size_t)bytes, stream) : gg_gpu_copy(slots[i]->memory, device, (size_t)bytes, stream));
        }
        if (!good || !gg_gpu_stream_sync(stream)) {
            gg_gpu_settle(stream);
            return 0;
        }
        double rate = SAMPLE * (double)bytes / (gg_now() - start);
        best = rate > best ? rate : best;
    }
    return best;
}

/* Bytes/s of the copy threads between pageable memory and the slots. */
static double copy_rate(struct gg_slot *const slots[SAMPLE], char *pageable, int64_t bytes, bool pack)
{
    double best = 0;
    for (int round = 0; round < 8; round++) { /* 0.7 ms each; in the first the threads are only waking up */
        double start = gg_now();
        for (int i = 0; i < SAMPLE; i++) {
            char *theirs = pageable + i * bytes;
            struct gg_copy whole = {.dst = pack ? slots[i]->memory : theirs, .src = pack ? theirs : slots[i]->memory, .dst_pitch = bytes,
                                    .src_pitch = bytes, .width = bytes, .lines = 1, .left = &slots[i]->left};
            gg_copy_post(slots[i]->copies, gg_copy_cut(&whole, slots[i]->copies, GG_PIECES, 256 << 10), false);
        }
        for (int i = 0; i < SAMPLE; i++)
            gg_copy_wait(&slots[i]->left);
        double rate = SAMPLE * (double)bytes / (gg_now() - start);
        best = rate > best ? rate : best;
    }
    return best;
}

/* The rate of a pipeline of copies by the link and by the copy threads. */
static double both(double link, double copy)
{
    const double shared = 0.92; /* for both directions at once, and chunks that wait for each other (H200, 2026-11: 47 of 52 GB/s) */
    return shared * (link < copy ? link : copy);
}

void gg_tune_link(struct gg_lane *lane)
{
    const int64_t bytes = gg_slot_bytes(lane);
    struct gg_slot *slots[SAMPLE];
    int held = 0;
    char *pageable = bytes ? malloc((size_t)(SAMPLE * bytes)) : NULL;
    if (pageable && gg_lane_grow_arena(lane, SAMPLE * bytes))
        while (held < SAMPLE && (slots[held] = gg_slot_take(lane, held, false)))
            held++;
    if (held == SAMPLE) {
        memset(pageable, 1, (size_t)(SAMPLE * bytes));
        const int threads = gg_copy_start();
        gg_copy_begin(threads, true);
        double copy_up = copy_rate(slots, pageable, bytes, true), copy_down = copy_rate(slots, pageable, bytes, false);
        gg_copy_end(threads);
        double up = link_rate(lane, slots, bytes, true), down = link_rate(lane, slots, bytes, false);
        if (up > 0 && down > 0)
            gg_rates_set_link(both(up, copy_up), both(down, copy_down), up < down ? up : down);
    }
    while (held > 0)
        gg_slot_give(slots[--held]);
    free(pageable);
}

/* The link may have been measured beside other programs, when a GPU that was not known yet was started. */
static void measure_link(struct gg_device *dev)
{
    if (!gg_gpu_enter(dev))
        return;
    struct gg_lane *lane = gg_lane_take(dev);
    if (lane) {
        gg_tune_link(lane);
        gg_lane_give(lane);
    }
    gg_gpu_leave();
}

/* ---- CPU and GPU over sizes and shapes ------------------------------------------------------------------------------------------------------- */

/* Seconds of one call, the best of a few within `most` seconds: by the CPU BLAS if `cpu`, else staged. 0: it was not served. */
static double time_call(const struct gg_gemm *p, bool cpu, double most)
{
    static const struct gg_location host[3] = {{GG_HOST, -1, NULL}, {GG_HOST, -1, NULL}, {GG_HOST, -1, NULL}};
    struct gg_device *const dev = gg_gpu_default(); /* none, once the GPU has failed: perhaps in the call before */
    double best = 0, begun = gg_now();
    for (int i = 0; i < 30; i++) {
        struct gg_outcome outcome = {0};
        double start = gg_now();
        if (cpu)
            gg_real_gemm(p, NULL);
        else if (!dev || !gg_staged_gemm(dev, p, host, NULL, NULL, &outcome))
            return 0;
        double seconds = gg_now() - start;
        best = i < 2 || seconds < best ? seconds : best; /* the first call wakes threads, loads kernels and touches pages */
        if (i > 0 && (seconds > most || gg_now() - begun > most))
            break;
    }
    return best;
}

/* A kind of call, and the seconds it took; 0 where it was not tried. */
struct row {
    enum gg_type type;
    int64_t m, n, k;
    double cpu, gpu;
};

/* Squares, then products in which one dimension is far smaller than the others. */
static const int64_t shapes[][3] = {
    {64, 64, 64},       {96, 96, 96},       {128, 128, 128},    {192, 192, 192},    {256, 256, 256},    {384, 384, 384},    {512, 512, 512},
    {768, 768, 768},    {1024, 1024, 1024}, {1536, 1536, 1536}, {2048, 2048, 2048}, {3072, 3072, 3072}, {4096, 4096, 4096}, {16, 1024, 1024},
    {1024, 16, 1024},   {1024, 1024, 16},   {64, 2048, 2048},   {2048, 64, 2048},   {2048, 2048, 64},   {64, 8192, 8192},   {8192, 64, 8192},
    {8192, 8192, 64},
};
enum { SHAPES = sizeof shapes / sizeof *shapes, ROWS = 2 * SHAPES };

/* The problem of a row, in the precision that would serve such a call. */
static struct gg_gemm problem(const struct row *row, void *a, void *b, void *c)
{
    return (struct gg_gemm){.type = row->type,
                            .b_kmajor = true,
                            .m = row->m,
                            .n = row->n,
                            .k = row->k,
                            .a = a,
                            .b = b,
                            .c = c,
                            .lda = row->m,
                            .ldb = row->k,
                            .ldc = row->m,
                            .alpha = 1,
                            .precision = gg_precision_in_force()};
}

static void measure(struct row *row, void *a, void *b, void *c)
{
    const double too_long = 2; /* predicted seconds for the CPU, above which there is no doubt who is faster */
    struct gg_gemm p = problem(row, a, b, c);
    struct gg_facts facts = gg_host_facts();
    facts.mode = GG_MODE_GPU;
    struct gg_decision d = gg_dispatch(&p, &facts);
    row->gpu = time_call(&p, false, 0.1);
    row->cpu = d.seconds_cpu < too_long ? time_call(&p, true, 0.2) : 0;
    if (row->gpu > 0)
        gg_rates_learn(GG_ON_GPU, &p, d.model_gpu, row->gpu);
    if (row->cpu > 0)
        gg_rates_learn(GG_ON_CPU, &p, d.model_cpu, row->cpu);
}

static void print(FILE *out, const struct row *row)
{
    struct gg_gemm p = problem(row, NULL, NULL, NULL);
    struct gg_facts facts = gg_host_facts();
    struct gg_decision d = gg_dispatch(&p, &facts);
    char size[48], cpu[24] = "-", gpu[24] = "-";
    snprintf(size, sizeof size, "%lld x %lld x %lld", (long long)row->m, (long long)row->n, (long long)row->k);
    if (row->cpu > 0)
        snprintf(cpu, sizeof cpu, "%.1f", 1e6 * row->cpu);
    if (row->gpu > 0)
        snprintf(gpu, sizeof gpu, "%.1f", 1e6 * row->gpu);
    fprintf(out, "%cgemm  %-20s %12s %12s   %s\n", row->type == GG_S ? 's' : 'd', size, cpu, gpu, d.path == GG_PATH_CPU ? "CPU" : "GPU");
}

char *gpugemm_tune(void (*progress)(double done, const char *what, void *argument), void *argument)
{
    const size_t operand = (size_t)8192 * 8192 * sizeof(double);
    const struct gg_fp fp = gg_fp_ours();
    char *text = NULL;
    size_t size;
    int cancel;
    FILE *out = open_memstream(&text, &size);
    float *a = malloc(operand), *b = malloc(operand), *c = malloc(operand);
    bool able = a && b && c && gg_gpu_wait(GG_PATIENCE);
    for (size_t i = 0; able && i < operand / sizeof *a; i++) { /* ordinary numbers, as floats and as doubles */
        a[i] = (float)(i / 2 % 1009) / 1009 + 1;
        b[i] = (float)(i / 2 % 997) / 997 + 1;
        c[i] = 0;
    }
    if (able)
        measure_link(gg_gpu_default());
    struct row rows[ROWS];
    for (int i = 0; able && out && i < ROWS; i++) {
        const int64_t *shape = shapes[i % SHAPES];
        rows[i] = (struct row){i < SHAPES ? GG_S : GG_D, shape[0], shape[1], shape[2], 0, 0};
        char what[64];
        snprintf(what, sizeof what, "%cgemm %lld x %lld x %lld", i < SHAPES ? 's' : 'd', (long long)shape[0], (long long)shape[1], (long long)shape[2]);
        if (progress)
            progress((double)i / ROWS, what, argument);
        measure(&rows[i], a, b, c);
        able = gg_gpu_default() != NULL; /* it may have failed */
    }
    if (out && able) {
        fprintf(out, "Microseconds a call, best of a few; who serves such a call from now on\n\n%-5s  %-20s %12s %12s   %s\n", "", "m x n x k", "CPU", "GPU",
                "served by");
        for (int i = 0; i < ROWS; i++)
            print(out, &rows[i]);
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel); /* cancelled in there, nobody would save again */
        bool saved = gg_rates_save();
        pthread_setcancelstate(cancel, NULL);
        fprintf(out, "\n%s %s\n", saved ? "Kept for this machine in" : "Not kept:", saved ? gg_rates_file() : "it cannot be written");
        if (progress)
            progress(1, "", argument);
    } else if (out) {
        fprintf(out, "Nothing to tune: %s\n", a && b && c ? gg_gpu_trouble() : "no memory");
    }
    free(a), free(b), free(c);
    gg_fp_write(fp);
    return out && fclose(out) == 0 ? text : NULL;
}

/* fuzz_input.c — the parsers and the argument layer under arbitrary bytes: the options in the environment, GPUGEMM_DEVICES, the file of rates, and
 * gemm's arguments on their way through check, dispatch, select and plan, with no memory behind them. The results must keep the promises of the
 * headers.
 *
 * Built by clang with libFuzzer (`cmake --preset fuzz`) it is an ordinary fuzzer. Built otherwise it has a main of its own:
 *   fuzz_input FILES…  [--runs N]        each file as it is, then N inputs made from them by random changes */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "config.h"
#include "dispatch.h"
#include "plan.h"
#include "short.h"

#define MUST(condition)                                                                                                \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "fuzz_input.c:%d: %s\n", __LINE__, #condition);                                            \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

/* ---- text ------------------------------------------------------------------------------------------------------------------------------------ */

static char values[16][300];
static char *from_values(const char *name)
{
    for (int i = 0; i < gg_option_count && i < 16; i++)
        if (strcmp(gg_options[i].name, name) == 0)
            return values[i];
    return NULL;
}

/* One value per option, separated by zero bytes. */
static void options(const unsigned char *data, size_t size)
{
    struct gg_config c;
    memset(values, 0, sizeof values);
    for (int i = 0; i < 16 && size > 0; i++) {
        const unsigned char *end = memchr(data, 0, size);
        size_t n = end ? (size_t)(end - data) : size, kept = n < sizeof values[i] - 1 ? n : sizeof values[i] - 1;
        memcpy(values[i], data, kept);
        n += end != NULL;
        data += n, size -= n;
    }
    gg_config_fill(&c, from_values);
    MUST(c.mode >= GG_MODE_AUTO && c.mode <= GG_MODE_CPU);
    MUST(c.gpu_memory >= 0 && c.pinned_memory >= 0);
    MUST(c.threads >= 0 && c.threads <= 1024);
}

static void devices(const unsigned char *data, size_t size)
{
    char text[64];
    size_t n = size < sizeof text - 1 ? size : sizeof text - 1;
    memcpy(text, data, n);
    text[n] = 0;
    const char *list = text;
    while (*list) {
        const char *before = list;
        int ordinal = gg_next_device(&list);
        MUST(ordinal >= -1 && ordinal <= 999);
        if (ordinal < 0)
            break;
        MUST(list > before && list <= text + n);
    }
}

/* A file of rates of the machine "M". */
static void cache(const unsigned char *data, size_t size)
{
    static struct gg_rates rates;
    char when[32] = "", gpu[64] = "";
    FILE *file = size ? fmemopen((void *)data, size, "r") : NULL;
    gg_rates_default(&rates, 16);
    if (!file)
        return;
    if (gg_rates_parse(file, "M", &rates, when, gpu)) {
        MUST(rates.up > 1e6 && rates.up < 1e15 && rates.latency > 1e-9 && rates.latency < 1 && rates.cpu_flops[GG_S] > 1e6 && rates.start < 1e4);
        MUST(memchr(when, 0, sizeof when) && memchr(gpu, 0, sizeof gpu));
    }
    fclose(file);
}

/* ---- arguments ---------------------------------------------------------------------------------------------------------------------------------- */

struct bytes {
    const unsigned char *at, *end;
};

static unsigned next(struct bytes *b) { return b->at < b->end ? *b->at++ : 0; }

/* Small integers, integers around powers of two, and arbitrary ones. */
static int64_t integer(struct bytes *b)
{
    unsigned kind = next(b), low = next(b);
    if (kind < 100)
        return (int64_t)low;
    if (kind < 160)
        return (int64_t)(low << 8 | next(b));
    if (kind < 220)
        return (int64_t)((uint64_t)1 << kind % 63) + (int64_t)(low % 5) - 2;
    uint64_t any = 0;
    for (int i = 0; i < 8; i++)
        any = any << 8 | next(b);
    return (int64_t)any;
}

static void in_range(struct gg_range r, int64_t end) { MUST(r.begin >= 0 && r.begin < r.end && r.end <= end); }

static void plan(const struct gg_gemm *p, int64_t budget)
{
    struct gg_plan plan;
    const struct gg_speed speed = {.up = 47e9, .down = 45e9, .memory = 4e12, .flops = 50e12, .sms = 132};
    if (!gg_plan_make(&plan, p, budget, &speed))
        return;
    MUST(plan.bytes <= budget && plan.blocks > 0 && plan.load_count > 0 && plan.step_count > 0);
    for (int i = 0; i < plan.load_count; i++) {
        const struct gg_load *l = &plan.loads[i];
        in_range(l->rows, l->operand == GG_B ? p->k : p->m);
        in_range(l->cols, l->operand == GG_A ? p->k : p->n);
        MUST(l->buffer >= 0 && l->buffer < plan.buffers[l->operand] && l->after_block < plan.blocks);
        MUST(l->offset >= 0 && l->offset < plan.buffer_size[l->operand]);
    }
    double elements = 0;
    for (int i = 0; i < plan.step_count; i++) {
        const struct gg_step *s = &plan.steps[i];
        in_range(s->rows, p->m);
        in_range(s->cols, p->n);
        in_range(s->depth, p->k);
        MUST(s->loads > 0 && s->loads <= plan.load_count);
        if (s->last)
            elements += (double)(s->rows.end - s->rows.begin) * (double)(s->cols.end - s->cols.begin);
    }
    MUST(elements == (double)p->m * (double)p->n); /* every element of C is stored once */
    gg_plan_free(&plan);
}

static void arguments(const unsigned char *data, size_t size)
{
    static const struct gg_arch arch = {.cc = 90, .sms = 132, .clock_mhz = 1980, .smem_per_block = 232448, .smem_per_sm = 233472,
                                        .l2_bytes = 60 << 20, .memory_bytes = (int64_t)140 << 30, .bandwidth = 4.8e12};
    struct bytes b = {data, data + size};
    unsigned how = next(&b), letters = next(&b), facts = next(&b);
    enum gg_type type = how & 1 ? GG_D : GG_S;
    double d[2] = {(double)(int)next(&b) - 3, (double)(int)next(&b) - 3};
    float f[2] = {(float)d[0], (float)d[1]};
    struct gg_arguments x = {.m = integer(&b), .n = integer(&b), .k = integer(&b)};
    x.lda = integer(&b), x.ldb = integer(&b), x.ldc = integer(&b);
    if (how & 4) /* otherwise hardly any call would be legal */
        x.lda = gg_max(1, gg_max(x.m, x.k)), x.ldb = gg_max(1, gg_max(x.n, x.k)), x.ldc = gg_max(1, gg_max(x.m, x.n));
    x.alpha = type == GG_D ? (void *)&d[0] : (void *)&f[0], x.beta = type == GG_D ? (void *)&d[1] : (void *)&f[1];
    x.a = (void *)0x10000, x.b = (void *)0x20000, x.c = (void *)0x30000; /* never dereferenced */
    static const int transposes[] = {111, 112, 113, 0};
    struct gg_gemm p;
    int info;
    if (how & 2) {
        int layout = letters & 64 ? 101 : letters & 128 ? 7 : 102;
        info = gg_check_cblas(type, layout, transposes[letters & 3], transposes[letters >> 2 & 3], &x, &p);
        int position = gg_cblas_position(layout, info);
        MUST(info == 0 ? position == 0 : position >= 1 && position <= 14);
    } else {
        info = gg_check_f77(type, "NTctnX"[letters % 6], "NTctnX"[letters / 6 % 6], &x, &p);
        MUST(info >= 0 && info <= 13);
    }
    if (info)
        return;
    MUST(p.m >= 0 && p.n >= 0 && p.k >= 0 && p.lda >= gg_max(1, p.a_kmajor ? p.k : p.m) && p.ldb >= gg_max(1, p.b_kmajor ? p.k : p.n) &&
         p.ldc >= gg_max(1, p.m));
    static struct gg_rates rates;
    if (rates.start == 0)
        gg_rates_default(&rates, 16);
    struct gg_facts q = {.mode = (enum gg_mode)(facts % 3), .gpu = (enum gg_gpu_state)(facts / 3 % 6), .round_to_nearest = facts & 128, .rates = &rates};
    q.arch = q.gpu == GG_GPU_READY ? &arch : NULL;
    q.a = (enum gg_place)(next(&b) % 5), q.b = (enum gg_place)(next(&b) % 5), q.c = (enum gg_place)(next(&b) % 5);
    struct gg_decision decision = gg_dispatch(&p, &q);
    MUST(decision.path >= GG_PATH_CPU && decision.path < GG_PATHS && decision.reason < GG_REASON_COUNT);
    MUST(decision.path == GG_PATH_CPU || !q.arch || decision.choice.kernel || decision.reason == GG_NO_KERNEL);
    bool device = q.a >= GG_PEER || q.b >= GG_PEER || q.c >= GG_PEER, empty = gg_is_empty(&p);
    MUST(decision.path != GG_PATH_CPU || !device || (empty && (q.c < GG_PEER || p.beta == 1)) || p.m == 0 || p.n == 0 || decision.reason == GG_TOO_LARGE || decision.reason == GG_NO_KERNEL);
    if (empty || decision.reason == GG_TOO_LARGE)
        return;
    (void)gg_is_short(&p);
    double bytes = (double)gg_size(type) * ((double)p.m * (double)p.k + (double)p.k * (double)p.n + (double)p.m * (double)p.n);
    int64_t budget = (int64_t)(bytes / (1 + next(&b) % 20)) + (1 << 20);
    if (p.m < 1 << 22 && p.n < 1 << 22 && p.k < 1 << 22)
        plan(&p, budget);
    else if (bytes < 0x1p59)
        plan(&p, 4 * budget + (int64_t)bytes);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);
int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    if (size == 0)
        return 0;
    (data[0] == 'o' ? options : data[0] == 'd' ? devices : data[0] == 'r' ? cache : arguments)(data + 1, size - 1);
    return 0;
}

#ifndef LIBFUZZER
#include "test.h"

int main(int argc, char **argv)
{
    enum { MOST = 4096 };
    static unsigned char seeds[256][MOST], input[MOST];
    static size_t sizes[256];
    int count = 0;
    long runs = 0;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--runs") && i + 1 < argc) {
            runs = atol(argv[++i]);
            continue;
        }
        FILE *file = fopen(argv[i], "rb");
        if (!file || count == 256)
            return perror(argv[i]), 1;
        sizes[count] = fread(seeds[count], 1, MOST, file);
        fclose(file);
        LLVMFuzzerTestOneInput(seeds[count], sizes[count]);
        count++;
    }
    if (count == 0)
        return fprintf(stderr, "no inputs\n"), 1;
    uint64_t r = 1;
    for (long i = 0; i < runs; i++) {
        int seed = (int)rng_below(&r, count);
        size_t size = sizes[seed];
        memcpy(input, seeds[seed], size);
        for (int changes = 1 + (int)rng_below(&r, 8); changes > 0 && size > 1; changes--) {
            size_t at = 1 + (size_t)rng_below(&r, (int64_t)size - 1);
            switch (rng_below(&r, 4)) {
            case 0: input[at] = (unsigned char)rng(&r); break;
            case 1: input[at] ^= (unsigned char)(1 << rng_below(&r, 8)); break;
            case 2: size = at + 1; break;
            default:
                if (size < MOST)
                    memmove(input + at + 1, input + at, size++ - at);
            }
        }
        LLVMFuzzerTestOneInput(input, size);
    }
    printf("%d inputs and %ld made from them\n", count, runs);
    return 0;
}
#endif

/* bench.c — operands in GPU memory: libgpugemm, its single kernels, the ladder and cuBLAS, interleaved in one process on the same random data.
 *
 *   bench [--list square,odd] [--sizes 1024,4097x4099x4093,4096+1,4096@1] [--types sd] [--layouts NN,NT,TN,TT] [--seconds 0.25] [--csv FILE]
 *         [--lib PATH[:ROW]]... [--ladder FOLDER] [--cublas PATH] [--commit TEXT] [--calls] [--precision strict|fp32|tf32] [--no-strict]
 *         [--data uniform|normal|wide|worst] [--beta 0] [--block 0]
 *
 * Sizes: n or MxNxK; +P: leading dimensions P longer than needed; @E: base pointers offset by E elements. The lists `square` and `odd` are those of
 * the README; `random` is 70 shapes drawn once, uniform in the logarithm, in multiples of 1, 4, 8 or 32; `thin` has m or n up to 32, `deep` few tiles
 * of C and a long k, `update` is what LAPACK asks for, with --beta 1, `many` many rows and little else, `gram` few rows and columns and a long k,
 * `vector` m or n = 1.
 * --lib given again adds another build, or with :ROW one whose kernel is forced; the first build is the one the others are compared with. --ladder
 * adds the kernels of bench/ladder (column-major NN, sgemm). --calls measures the host time of a call instead.
 *
 * --precision is GPUGEMM_PRECISION, by default strict, as cuBLAS's is; any other is also compared with strict, by a second copy of the library, unless
 * --no-strict. (Where a call takes 10 us the two copies displace each other's instructions.) --data: see draw_family in rig.h; with worst, results are
 * not verified.
 *
 * A table row is timed by CUDA events around each call on one stream. Before each call a fill of 256 MB replaces the contents of L2,
 * for every contestant alike; it also gives the host time to enqueue, so that launch latency is hidden. The contestants take turns, always in the
 * same order; calls of 1 ms and more in an order that is drawn. After warm-up the median of as many rounds as fit into `seconds` counts, at least 5;
 * of long calls four times as many, at least 10, because the power limit lets the clock swing with a period of 0.8 s. The ratio is the other's median
 * over ours: above 1 we are faster.
 *
 * Where the power limit determines the clock, contestants that take turns share one clock, so one that needs less energy gains nothing by it. With
 * --block S each contestant runs alone for S seconds, as in a program that uses one library; there are at least three such blocks each, interleaved.
 * The first half of a block, in which the clock settles, is left out. The median of its second half is the block's result, and the median over blocks
 * the contestant's. In brackets: the SM clock (one sample a block, in the second half) and the power in watts (from the GPU's energy counter, which
 * is coarse). This is for calls of 1 ms and more: a block is at most 800 calls.
 *
 * Every contestant's C is filled with NaN beforehand (with 0 if --beta says that it is read) and verified at sampled elements: the error in u
 * (|A||B|), u the rounding unit. Above k + 2 it is wrong, and so is a call of ours that fails; the exit status says so. After each list the ratios to
 * cuBLAS are summarised. */
#include <getopt.h>

#include "rig.h"
#include "size.h"

#include "ladder/ladder.h"

enum { MAX_ROUNDS = 400, MAX_CONTESTANTS = 24 };

struct problem {
    bool dbl, ta, tb;
    int64_t m, n, k, lda, ldb, ldc, off; /* off: elements from the start of the operands' memory to the matrices */
    device_ptr a, b, c;
};

#define OURS(X) X(sgemm) X(dgemm) X(warmup) X(last_decision)
struct contestant {
    char name[64];
    bool forced; /* `name` is the forced row; where that row is not legal another one would run instead */
    bool (*run)(const struct contestant *, const struct problem *);
    const struct ladder_step *step;
    handle function;
#define POINTER_TO_OURS(name) __typeof__(gpugemm_##name) *name;
    OURS(POINTER_TO_OURS)
};
static struct contestant contestants[MAX_CONTESTANTS];
static int contestant_count, cublas_index = -1;

static const char *precision = "strict", *family = "uniform", *types = "sd", *layouts = "NN,NT,TN,TT", *sizes, *lists;
static double seconds = 0.25, block_seconds, beta;
static FILE *csv;
static device_ptr operands[3];

/* ---- the contestants: false if one cannot run the problem ------------------------------------------------------------------------------ */

static bool run_ours(const struct contestant *self, const struct problem *p)
{
    enum gpugemm_transpose ta = p->ta ? GPUGEMM_TRANS : GPUGEMM_NO_TRANS, tb = p->tb ? GPUGEMM_TRANS : GPUGEMM_NO_TRANS;
    if (p->dbl)
        return self->dgemm(GPUGEMM_COL_MAJOR, ta, tb, p->m, p->n, p->k, 1, (double *)p->a, p->lda, (double *)p->b, p->ldb, beta, (double *)p->c,
                           p->ldc, stream) == 0;
    return self->sgemm(GPUGEMM_COL_MAJOR, ta, tb, p->m, p->n, p->k, 1, (float *)p->a, p->lda, (float *)p->b, p->ldb, (float)beta, (float *)p->c,
                       p->ldc, stream) == 0;
}

/* A library of ours that is free to choose its kernel can run every problem. */
static bool must_run(const struct contestant *self) { return self->run == run_ours && !self->forced; }

static bool run_cublas(const struct contestant *self, const struct problem *p)
{
    int m = (int)p->m, n = (int)p->n, k = (int)p->k, lda = (int)p->lda, ldb = (int)p->ldb, ldc = (int)p->ldc;
    double one = 1;
    float one_f = 1, beta_f = (float)beta;
    (void)self;
    if (p->dbl)
        return cublasDgemm_v2(cublas, p->ta, p->tb, m, n, k, &one, (void *)p->a, lda, (void *)p->b, ldb, &beta, (void *)p->c, ldc) == 0;
    return cublasSgemm_v2(cublas, p->ta, p->tb, m, n, k, &one_f, (void *)p->a, lda, (void *)p->b, ldb, &beta_f, (void *)p->c, ldc) == 0;
}

static bool run_ladder(const struct contestant *self, const struct problem *p)
{
    const struct ladder_step *s = self->step;
    struct ladder_args args = {(int)p->m, (int)p->n,   (int)p->k,     (int)p->lda,   (int)p->ldb,  (int)p->ldc,
                               1,         (float)beta, (float *)p->a, (float *)p->b, (float *)p->c};
    void *parameters[] = {&args};
    return !p->dbl && !p->ta && !p->tb && ladder_takes(s, &args) &&
           cuLaunchKernel(self->function, ladder_blocks(p->m, s->tile_m), ladder_blocks(p->n, s->tile_n), 1, (unsigned)s->threads, 1, 1, 0, stream,
                          parameters, NULL) == 0;
}

static struct contestant *add(const char *name, bool (*run)(const struct contestant *, const struct problem *))
{
    if (contestant_count == MAX_CONTESTANTS)
        exit((fprintf(stderr, "more than %d contestants\n", MAX_CONTESTANTS), 2));
    struct contestant *c = &contestants[contestant_count++];
    snprintf(c->name, sizeof c->name, "%s", name);
    c->run = run;
    return c;
}

/* PATH[:ROW]. The loader returns the same instance of a file however often it is opened, so a second instance, with a forced kernel of its own, is
 * opened from a copy of the file. The library reads its environment at the first call. */
static void add_library(const char *what, const char *as, const char *its_precision)
{
    char path[1024], copy[] = "/tmp/libgpugemm.XXXXXX", command[2200];
    snprintf(path, sizeof path, "%s", what);
    char *row = strchr(path, ':');
    if (row)
        *row++ = 0;
    int fd = mkstemp(copy);
    snprintf(command, sizeof command, "cp '%s' %s", path, copy);
    void *library = fd >= 0 && system(command) == 0 ? dlopen(copy, RTLD_NOW | RTLD_LOCAL) : NULL;
    unlink(copy), close(fd);
    struct contestant *c = add(row ? row : as, run_ours);
    c->forced = row != NULL;
    bool all = library != NULL;
#define FIND_OURS(name) all = resolved(library, "gpugemm_" #name, &c->name) && all;
    OURS(FIND_OURS)
    if (!all)
        exit((fprintf(stderr, "%s: %s\n", path, library ? "it lacks a name of gpugemm.h" : "it cannot be opened"), 1));
    if (row)
        setenv("GPUGEMM_KERNEL", row, 1);
    setenv("GPUGEMM_PRECISION", its_precision, 1);
    c->warmup();
    unsetenv("GPUGEMM_KERNEL");
}

static void add_ladder(const char *folder)
{
    for (const struct ladder_step *s = ladder; s < ladder + LADDER_STEPS; s++) {
        char path[1024];
        handle module, function;
        snprintf(path, sizeof path, "%s/%s.fatbin", folder, s->name);
        if (cuModuleLoad(&module, path) || cuModuleGetFunction(&function, module, s->name))
            exit((fprintf(stderr, "%s does not load\n", path), 1));
        struct contestant *c = add(s->name, run_ladder);
        c->step = s, c->function = function;
    }
}

/* ---- verification ------------------------------------------------------------------------------------------------------------------- */

enum { MAX_SAMPLES = 300 };
struct sample {
    int64_t offset; /* in C, in elements */
    long double sum, size;
};

static int draw_samples(const struct problem *p, struct sample *samples)
{
    int64_t count = 500000 / p->k;
    count = count < 16 ? 16 : count > MAX_SAMPLES ? MAX_SAMPLES : count;
    for (int64_t s = 0; s < count; s++) {
        int64_t i = s < 4 ? (s & 1) * (p->m - 1) : s * 7919 % p->m, j = s < 4 ? (s >> 1) * (p->n - 1) : s * 104729 % p->n;
        samples[s].offset = i + j * p->ldc;
        exact_element(p->dbl, p->k, p->off + (p->ta ? i * p->lda : i), p->ta ? 1 : p->lda, p->off + (p->tb ? j : j * p->ldb), p->tb ? p->ldb : 1,
                      &samples[s].sum, &samples[s].size);
    }
    return (int)count;
}

/* The largest error in u |A||B|; NaN counts as infinite. */
static double worst_error(const struct problem *p, const struct sample *samples, int count)
{
    double worst = 0, u = p->dbl ? 0x1p-53 : 0x1p-24;
    for (int s = 0; s < count; s++) {
        double d = 0;
        float f = 0;
        size_t bytes = p->dbl ? 8 : 4;
        cuMemcpyDtoH_v2(p->dbl ? (void *)&d : &f, p->c + (size_t)samples[s].offset * bytes, bytes);
        double error = fabs((double)((p->dbl ? d : (double)f) - samples[s].sum)) / (u * (double)samples[s].size);
        worst = error <= worst ? worst : isnan(error) ? INFINITY : error;
    }
    return worst;
}

/* ---- timing ------------------------------------------------------------------------------------------------------------------------- */

static void flush_l2(void)
{
    enum { FLUSH = 256 << 20 }; /* more than any L2 cache so far */
    static device_ptr buffer;
    static unsigned value;
    if (buffer || cuMemAlloc_v2(&buffer, FLUSH) == 0)
        cuMemsetD32Async(buffer, value++, FLUSH / 4, stream);
}

/* Fills times[contestant][round]. Short calls always run in the same order, so that no contestant follows itself more often than others do: it would
 * find its code in the SMs' caches (three builds of one kernel for dgemm 224x4864x32, in reverse order in every other round: 11.0, 14.9, 14.4 us).
 * Drawn: the order of all calls is, as a whole, so that every contestant follows each, itself too, equally often. Long calls want that: at the power
 * limit a call's clock depends on the power of the call before, and would always be lowest for who follows the hungriest (orders-2026-11-28.txt).
 * Each call is waited for: with hundreds enqueued, all take 0.5 to 1 us longer. And every other round launches one kernel more: once large ones have
 * run, every fourth kernel starts 1 us late, which would always be the same contestant's (launches-2026-11-27.txt; both in bench/results). Returns the SM
 * clock during the rounds. */
static int time_rounds(const bool *able, const struct problem *p, bool drawn, int rounds, double times[][MAX_ROUNDS])
{
    static unsigned char order[MAX_CONTESTANTS * MAX_ROUNDS];
    static handle events[2];
    static uint32_t drawing;
    int calls = 0, done[MAX_CONTESTANTS] = {0}, clock = 0;
    for (int e = 0; e < 2; e++)
        if (!events[e])
            cuEventCreate(&events[e], 0);
    for (int r = 0; r < rounds; r++)
        for (int c = 0; c < contestant_count; c++)
            if (able[c])
                order[calls++] = (unsigned char)c;
    for (int left = calls; drawn && left > 1; left--) { /* Fisher and Yates's shuffle by the generator of Numerical Recipes */
        drawing = drawing * 1664525 + 1013904223;
        const int at = (int)((uint64_t)drawing * (unsigned)left >> 32);
        const unsigned char c = order[at];
        order[at] = order[left - 1], order[left - 1] = c;
    }
    for (int i = 0; i < calls; i++) {
        const int c = order[i], each = calls / rounds;
        float ms = NAN;
        if (i % (2 * each) == each)
            flush_l2();
        flush_l2();
        cuEventRecord(events[0], stream);
        contestants[c].run(&contestants[c], p);
        cuEventRecord(events[1], stream);
        if (i == calls / 2)
            clock = sm_clock();
        cuStreamSynchronize(stream);
        cuEventElapsedTime(&ms, events[0], events[1]);
        times[c][done[c]++] = 1e-3 * ms;
    }
    return clock;
}

/* A contestant's block: the median of its second half, the SM clock in that half, and the mean power of the whole block. */
struct block {
    double median, mhz, watts;
};

static struct block time_block(int contestant, const struct problem *p, double times[][MAX_ROUNDS], int rounds)
{
    bool able[MAX_CONTESTANTS] = {0};
    able[contestant] = true;
    const double start = now(), joules = energy();
    time_rounds(able, p, false, rounds, times);
    const int mhz = time_rounds(able, p, false, rounds, times);
    return (struct block){median(times[contestant], rounds), mhz, (energy() - joules) / (now() - start)};
}

/* times[contestant][n] is the median of its block n; MHz and watts are means over all blocks. Returns the number of blocks each contestant has. */
static int time_blocks(const bool *able, const struct problem *p, double times[][MAX_ROUNDS], struct block *means)
{
    enum { MOST = 50 };
    const double FLUSH = 0.1e-3; /* seconds, approximately */
    static double medians[MAX_CONTESTANTS][MOST];
    int able_count = 0, rounds[MAX_CONTESTANTS];
    time_rounds(able, p, false, 2, times); /* to find out how many calls fit into a block */
    for (int c = 0; c < contestant_count; c++)
        able_count += able[c], rounds[c] = (int)fmin(ceil(block_seconds / 2 / (times[c][1] + FLUSH)), MAX_ROUNDS);
    const int blocks = (int)fmin(fmax(seconds / (block_seconds * able_count), 3), MOST);
    for (int b = 0; b < blocks; b++)
        for (int c = 0; c < contestant_count; c++)
            if (able[c]) {
                const struct block one = time_block(c, p, times, rounds[c]);
                medians[c][b] = one.median, means[c].mhz += one.mhz / blocks, means[c].watts += one.watts / blocks;
            }
    for (int c = 0; c < contestant_count; c++)
        memcpy(times[c], medians[c], sizeof medians[c]);
    return blocks;
}

/* Microseconds of host time per call for enqueueing it: the median call of each batch, because during a long wait the machine takes the core away
 * now and then, which a mean of ten calls shows (0.5 ms). Batches are too short to fill the queue, and follow a call that is not timed, because while
 * the thread waited what a call needs has left the caches. */
static void time_calls(const bool *able, const struct problem *p, double times[][MAX_ROUNDS])
{
    enum { BATCHES = 15, MOST_CALLS = 100, UNTIL_WARM = 32 /* and more than MADE of src/enqueue.c */ };
    const int few = (double)p->m * (double)p->n * (double)p->k < 1e9 ? MOST_CALLS : 10;
    for (int b = -1; b < BATCHES; b++)
        for (int c = 0; c < contestant_count; c++) {
            const int calls = b < 0 ? UNTIL_WARM : few;
            double taken[MOST_CALLS];
            if (able[c])
                contestants[c].run(&contestants[c], p);
            for (int i = 0; i < calls && able[c]; i++) {
                const double start = now();
                contestants[c].run(&contestants[c], p);
                taken[i] = now() - start;
            }
            times[c][b < 0 ? 0 : b] = able[c] ? median(taken, calls) : 0;
            cuStreamSynchronize(stream);
        }
    for (int c = 0; c < contestant_count; c++)
        if (able[c]) {
            double middle = median(times[c], BATCHES);
            printf("  %s %.2f us (%.2f to %.2f)", contestants[c].name, 1e6 * middle, 1e6 * times[c][0], 1e6 * times[c][BATCHES - 1]);
            if (csv)
                fprintf(csv, "calls,%cgemm,%c%c,%lldx%lldx%lld,%lld,%lld,%lld,%lld,%s,,%d,%.9f,%.9f,%.9f,,,,,%s,%s,%s,%s,%g\n", p->dbl ? 'd' : 's',
                        p->ta ? 'T' : 'N', p->tb ? 'T' : 'N', (long long)p->m, (long long)p->n, (long long)p->k, (long long)p->m, (long long)p->n,
                        (long long)p->k, (long long)p->off, contestants[c].name, BATCHES, middle, times[c][0], times[c][BATCHES - 1], machine,
                        date_now(), commit, family, beta);
        }
    printf("\n");
}

/* ---- a row of the table, a list, the summary of a list ----------------------------------------------------------------------------------- */

/* The data for the summary of a list: the ratios to cuBLAS, and the sizes they belong to. */
struct ratios {
    int count;
    double ratio[1024];
    char where[1024][64];
    int64_t n[1024]; /* 0: not square */
    int missed;      /* rows in which another kernel or build of ours was faster than the first, and by how much at most */
    double most_missed;
};

/* The lower bound on time for this GPU: multiply-adds at its peak rate, or A and B read and C written (and read) once at the bandwidth that a copy
 * reaches. */
static double peak_flops[2], bandwidth; /* by type, per second */

static void find_roofline(void)
{
    enum { BYTES = 1 << 30 };
    const int cc = compute_capability, fma = cc == 80 ? 64 : 128, fma_d = cc == 90 ? 128 : cc == 80 || cc == 100 ? 64 : 2;
    device_ptr from, to;
    handle events[2];
    peak_flops[0] = 2e6 * fma * sm_count * sm_mhz, peak_flops[1] = 2e6 * fma_d * sm_count * sm_mhz;
    if (cuMemAlloc_v2(&from, BYTES) || cuMemAlloc_v2(&to, BYTES) || cuEventCreate(&events[0], 0) || cuEventCreate(&events[1], 0))
        exit((fprintf(stderr, "no GPU memory\n"), 1));
    for (int r = 0; r < 6; r++) {
        float ms;
        cuEventRecord(events[0], stream), cuMemcpyDtoDAsync_v2(to, from, BYTES, stream), cuEventRecord(events[1], stream);
        cuStreamSynchronize(stream), cuEventElapsedTime(&ms, events[0], events[1]);
        bandwidth = fmax(bandwidth, 2e3 * BYTES / ms);
    }
    cuMemFree_v2(from), cuMemFree_v2(to);
    printf("# roofline: %.1f TFLOP/s sgemm, %.1f dgemm (%d SMs, %d MHz), %.0f GB/s (a copy of 1 GiB, read + write)\n", 1e-12 * peak_flops[0],
           1e-12 * peak_flops[1], sm_count, sm_mhz, 1e-9 * bandwidth);
}

static double roofline(const struct problem *p)
{
    double m = (double)p->m, n = (double)p->n, k = (double)p->k;
    return fmax(2 * m * n * k / peak_flops[p->dbl], (m * k + k * n + (beta == 0 ? 1 : 2) * m * n) * (p->dbl ? 8 : 4) / bandwidth);
}

static void summarise(const struct ratios *all, const char *title, int64_t low, int64_t high)
{
    int count = 0, least = -1, below_1 = 0, below_98 = 0;
    double logarithms = 0;
    for (int i = 0; i < all->count; i++) {
        if (low && (all->n[i] < low || all->n[i] > high))
            continue;
        least = least < 0 || all->ratio[i] < all->ratio[least] ? i : least;
        below_1 += all->ratio[i] < 1, below_98 += all->ratio[i] < 0.98;
        logarithms += log(all->ratio[i]), count++;
    }
    if (count)
        printf("SUM %-26s %3d ratios to cuBLAS: geometric mean %.3f, least %.3f (%s), %d below 1.00, %d below 0.98\n", title, count,
               exp(logarithms / count), all->ratio[least], all->where[least], below_1, below_98);
}

/* Returns whether all results were correct. */
static bool measure(struct problem p, const char *list, const char *size, bool calls, struct ratios *ratios)
{
    static double times[MAX_CONTESTANTS][MAX_ROUNDS];
    static struct sample samples[MAX_SAMPLES];
    double error[MAX_CONTESTANTS] = {0}, slowest = 0, medians[MAX_CONTESTANTS];
    bool able[MAX_CONTESTANTS] = {0}, right = true;
    struct gpugemm_decision decision = {.kernel = ""};
    double best = INFINITY; /* the fastest other row or build of ours, as a multiple of the first's time */
    char where[64];
    const size_t element = p.dbl ? 8 : 4;
    const double limit = strcmp(precision, "tf32") && strcmp(family, "worst") ? (double)p.k + 2 : INFINITY;
    p.a = operands[0] + (size_t)p.off * element, p.b = operands[1] + (size_t)p.off * element, p.c = operands[2] + (size_t)p.off * element;
    snprintf(where, sizeof where, "%c%c %s", p.ta ? 'T' : 'N', p.tb ? 'T' : 'N', size);
    printf("%cgemm %c%c %-18s", p.dbl ? 'd' : 's', p.ta ? 'T' : 'N', p.tb ? 'T' : 'N', size);
    int sampled = draw_samples(&p, samples);
    for (int c = 0; c < contestant_count; c++) {
        cuMemsetD32Async(p.c, beta == 0 ? ~0u : 0, (size_t)(p.ldc * p.n) * element / 4, stream), cuStreamSynchronize(stream);
        double start = now();
        able[c] = contestants[c].run(&contestants[c], &p);
        cuStreamSynchronize(stream);
        slowest += able[c] ? now() - start : 0;
        if (able[c] && contestants[c].last_decision) {
            struct gpugemm_decision its;
            contestants[c].last_decision(&its, sizeof its);
            able[c] = !contestants[c].forced || !strcmp(its.kernel, contestants[c].name);
            decision = c ? decision : its;
        }
        error[c] = able[c] ? worst_error(&p, samples, sampled) : 0;
        right = right && (error[c] <= limit) && (able[c] || !must_run(&contestants[c]));
    }
    if (calls)
        return time_calls(able, &p, times), right;
    if (slowest < 0.2) { /* otherwise that was warm-up enough */
        time_rounds(able, &p, false, 2, times);
        double start = now();
        time_rounds(able, &p, false, 2, times);
        slowest = (now() - start) / 2;
    }
    struct block blocks[MAX_CONTESTANTS] = {0};
    const bool drawn = slowest > 1e-3 * contestant_count;
    int rounds = (int)fmin((drawn ? 4 : 1) * seconds / slowest, MAX_ROUNDS), clock = 0;
    rounds = (int)fmax(rounds, drawn ? 10 : 5);
    if (block_seconds > 0)
        rounds = time_blocks(able, &p, times, blocks);
    else
        clock = time_rounds(able, &p, drawn, rounds, times);

    for (int c = 0; c < contestant_count; c++) {
        if (!able[c] && must_run(&contestants[c]))
            printf("  %s FAILED", contestants[c].name);
        if (!able[c])
            continue;
        medians[c] = median(times[c], rounds);
        double tflops = 2e-12 * (double)p.m * (double)p.n * (double)p.k / medians[c], ratio = able[0] ? medians[c] / medians[0] : NAN;
        if (c && contestants[c].run == run_ours && strcmp(contestants[c].name, "gpugemm_strict"))
            best = fmin(best, ratio);
        printf("  %s %.3f", contestants[c].name, tflops);
        if (c)
            printf(" (x%.3f)", ratio);
        if (block_seconds > 0) {
            clock = (int)blocks[c].mhz;
            printf(" [%d MHz, %.0f W]", clock, blocks[c].watts);
        }
        if (!(error[c] <= limit))
            printf(" WRONG");
        if (csv)
            fprintf(csv, "%s,%cgemm,%c%c,%s,%lld,%lld,%lld,%lld,%s,%s,%d,%.9f,%.9f,%.9f,%.4f,%.4f,%.3f,%d,%s,%s,%s,%s,%g\n", list, p.dbl ? 'd' : 's',
                    p.ta ? 'T' : 'N', p.tb ? 'T' : 'N', size, (long long)p.m, (long long)p.n, (long long)p.k, (long long)p.off, contestants[c].name,
                    c ? "" : decision.kernel, rounds, medians[c], times[c][0], times[c][rounds - 1], tflops, ratio, error[c], clock, machine,
                    date_now(), commit, family, beta);
        if (c == cublas_index && c && able[0] && ratios->count < 1024) {
            ratios->ratio[ratios->count] = ratio;
            ratios->n[ratios->count] = p.m == p.n && p.n == p.k && p.lda == p.m && !p.off ? p.m : 0;
            strcpy(ratios->where[ratios->count++], where);
        }
    }
    if (best < 1)
        ratios->missed++, ratios->most_missed = fmax(ratios->most_missed, 1 / best);
    double bound = roofline(&p), tflops = 2e-12 * (double)p.m * (double)p.n * (double)p.k / bound;
    printf("   %.0f %% of the roofline; %d %s, %d MHz, error %.2f u  %s\n", able[0] ? 100 * bound / medians[0] : 0, rounds,
           block_seconds > 0 ? "blocks" : "rounds", clock, error[0], decision.kernel);
    if (csv)
        fprintf(csv, "%s,%cgemm,%c%c,%s,%lld,%lld,%lld,%lld,roofline,,,%.9f,,,%.4f,,,,%s,%s,%s,%s,%g\n", list, p.dbl ? 'd' : 's', p.ta ? 'T' : 'N',
                p.tb ? 'T' : 'N', size, (long long)p.m, (long long)p.n, (long long)p.k, (long long)p.off, bound, tflops, machine, date_now(), commit,
                family, beta);
    fflush(stdout);
    return right;
}

static struct problem parse_size(const char *text, bool dbl, const char *layout)
{
    struct size s;
    if (!read_size(text, &s))
        exit((fprintf(stderr, "%s is no size\n", text), 2));
    struct problem p = {.dbl = dbl, .ta = layout[0] == 'T', .tb = layout[1] == 'T', .m = s.m, .n = s.n, .k = s.k, .off = s.offset};
    p.lda = (p.ta ? p.k : p.m) + s.pitch, p.ldb = (p.tb ? p.n : p.k) + s.pitch, p.ldc = p.m + s.pitch;
    return p;
}

static const char *next_layout(const char *layout) { return (layout = strchr(layout, ',')) ? layout + 1 : NULL; }

/* Allocates memory for the operands of a size, whatever the layout, and fills it with random data. Each size has its own, as in a program that has
 * matrices of this size. (At the beginning of 2 GB each, where all sizes' once lay, cuBLAS's ratio to ours at 384 was 1.18 in three processes' mean
 * instead of 1.21, other sizes' no different for certain: bench/results/places-2026-11-29-2.txt.) */
static void make_operands(bool dbl, const char *size)
{
    int64_t most[3] = {0};
    for (const char *layout = layouts; layout; layout = next_layout(layout)) {
        struct problem p = parse_size(size, dbl, layout);
        int64_t elements[] = {p.lda * (p.ta ? p.m : p.k), p.ldb * (p.tb ? p.k : p.n), p.ldc * p.n};
        for (int o = 0; o < 3; o++)
            most[o] = elements[o] + p.off > most[o] ? elements[o] + p.off : most[o];
    }
    for (int o = 0; o < 3; o++) {
        const int64_t element = dbl ? 8 : 4, bytes = most[o] * element, start = o * B_STARTS;
        if (operands[o])
            cuMemFree_v2(operands[o]);
        if (cuMemAlloc_v2(&operands[o], (size_t)(bytes > PERIOD * element ? bytes : PERIOD * element)))
            exit((fprintf(stderr, "no GPU memory for %lld elements\n", (long long)most[o]), 1));
        const char *from = dbl ? (char *)random_d : (char *)random_s;
        cuMemcpyHtoD_v2(operands[o], from + start * element, (size_t)((PERIOD - start) * element));
        cuMemcpyHtoD_v2(operands[o] + (size_t)((PERIOD - start) * element), from, (size_t)(start * element));
        for (int64_t done = PERIOD * element; done < bytes; done *= 2)
            cuMemcpyDtoD_v2(operands[o] + (size_t)done, operands[o], (size_t)(done < bytes - done ? done : bytes - done));
    }
    cuCtxSynchronize(); /* these copies may return early, and `stream` is not ordered after them */
}

/* All layouts of a size one after the other: short calls in the next layout, after the long ones of this, would run at clocks that these have left low
 * (n = 256 behind 16384: 1635 to 1815 MHz, as in front of it 1980). */
static bool run_list(const char *name, const char *list_sizes, bool calls)
{
    bool right = true;
    for (const char *type = types; *type; type++) {
        struct ratios *ratios = calloc(1, sizeof *ratios);
        char *list = strdup(list_sizes), *save = NULL, title[64];
        for (char *size = strtok_r(list, ",", &save); size; size = strtok_r(NULL, ",", &save)) {
            make_operands(*type == 'd', size);
            for (const char *layout = layouts; layout; layout = next_layout(layout))
                right = measure(parse_size(size, *type == 'd', layout), name, size, calls, ratios) && right;
        }
        const int64_t ranges[][2] = {{0, 0}, {1024, 1024}, {1, 2048}, {4096, 1 << 30}};
        for (int i = 0; i < 4 && ratios->count > 1; i++) {
            const char *part[] = {"", " n = 1024", " n <= 2048", " n >= 4096"};
            snprintf(title, sizeof title, "%cgemm %s%s", *type, name, part[i]);
            summarise(ratios, title, ranges[i][0], ranges[i][1]);
        }
        if (ratios->missed)
            printf("SUM %cgemm %s: another of our rows or builds was faster %d times, at most %.3f times\n", *type, name, ratios->missed,
                   ratios->most_missed);
        free(list), free(ratios);
    }
    return right;
}

static const struct {
    const char *name, *sizes;
} named[] = {{"square", "256,384,512,768,1000,1024,1536,2048,3000,4096,6000,8192,16384"},
             {"odd", "4097x4099x4093,1000,4095,4096x4096x64,4096x64x4096,64x4096x4096,64x64x65536,1x4096x4096,4096x1x4096,16x16384x16384,"
                     "16384x128x128,128x128x16384,511x513x8191,1024+1,4096+1,1024@1,4096@1"},
             {"random", "4496x208x40,32x544x14240,580x214x17164,518x50x475,561x529x2581,595x817x351,541x732x781,1728x288x12192,120x1920x2880,"
                        "1344x112x17600,224x4864x32,152x160x776,33x1154x2062,96x192x2368,4323x170x1633,212x3788x780,284x496x9440,2816x96x448,"
                        "1040x192x136,2336x64x192,240x184x1224,1084x412x1704,298x2942x14672,192x192x704,464x4524x1660,2997x712x83,4688x664x672,"
                        "2605x5775x642,128x32x3968,336x1088x888,4576x440x80,1578x124x2007,1121x101x339,168x80x1044,800x704x5120,2056x2200x3744,"
                        "72x364x3536,1883x325x111,280x4232x18512,72x752x10520,338x883x5506,2407x46x390,336x64x5144,32x4456x3336,192x4448x3392,"
                        "5776x24x1432,2048x32x6528,896x160x1088,24x1980x3432,439x4158x522,2296x76x160,376x1624x256,2400x32x3744,928x2144x864,"
                        "1728x672x4704,60x324x3408,145x419x1143,3148x32x109,1706x395x1190,277x706x829,1096x288x988,384x64x928,3912x3312x112,"
                        "976x255x125,1816x3392x80,48x3136x16224,1480x40x9532,5672x2376x88,5792x192x480,400x32x18168"},
             {"thin", "12x4096x4096,8x8192x8192,4096x16x4096,16x11008x4096,16x2000x2000,10x1000x1000,16x500x500,2000x13x700,16x65536x256,9x100000x64,"
                      "300x6x20000,7x3001x3001,32x16384x16384,20x8192x8192,32x4096x4096,2048x32x6528,17x1000x1000"},
             {"deep", "192x192x16384,256x256x16384,256x256x4096,320x320x8192,320x320x20000,384x384x16384,448x448x16384,144x400x20000,300x700x12000,"
                      "128x320x16384,96x128x30000,200x200x8000"},
             {"update", "8192x8192x128,8192x8192x32,4096x4096x64,4096x4096x128,4096x4096x256,2000x2000x64,2000x2000x128,1000x1000x64,500x500x64,"
                        "3000x3000x200,10000x2000x64,300x2000x100,64x4096x4096,4096x64x4096,2000x2000x64+6192,2048x2048x2048+6144,4096x128x128+4096,"
                        "2001x2001x65,300,384,512,1024,1500,2039,4096"},
             {"many", "1000000x1x4,1000000x1x16,1000000x1x64,1000000x3x3,1000000x3x32,1000000x8x8,1000000x16x1,1000000x16x16,1000000x16x64,"
                      "100000x3x16,100000x8x8,3x1000000x8,16x1000000x16,1000000x1x32,1000000x1x128,1000000x4x64,1000000x8x32,200000x16x128,"
                      "100000x4x128,20000x4x32,10000x1x16,1x50000x64,1000000x3x32+1"},
             {"gram", "1x1x1000,1x1x1000000,1x4x30000,4x4x30000,4x4x1000000,8x8x4096,10x10x1000000,16x16x2000,16x16x100000,10x1x100000,1x2x110567,"
                      "2x6x67335,32x32x4000,64x10x20000,16x100x10000,50x1x1000000,10x10x1000000+1"},
             {"vector", "4096x1x4096,8000x1x8000,2000x1x2000,3000x1x3000,5000x1x5000,1000x1x1000,300x1x300,20000x1x500,500x1x20000,100000x1x400,"
                        "1000x1x50000,200x1x100000,64x1x200000,10000x1x5000,1x2001x2001,1x16384x16384,1500x1x6000,6000x1x1500,100x1x5000,30000x1x200,"
                        "600x1x1200,2000x1x500,400x1x2000,3000x1x1000,32x1x4000,12x1x3000,4095x1x4095,511x1x8191,1x1x10000000,3000x1x3000+1"},
             {"ladder", "128,256,512,768,1024,1536,2048,3072,4096,6144,8192"}};

int main(int argc, char **argv)
{
    int calls = 0, no_strict = 0;
    const char *csv_path = NULL, *cublas_path = NULL, *ladder_folder = NULL, *libs[MAX_CONTESTANTS] = {"build/libgpugemm.so"};
    int lib_count = 0;
    const struct option options[] = {{"types", 1, 0, 't'},   {"layouts", 1, 0, 'y'}, {"sizes", 1, 0, 'n'},    {"list", 1, 0, 'i'},
                                     {"seconds", 1, 0, 's'}, {"csv", 1, 0, 'c'},     {"lib", 1, 0, 'l'},      {"cublas", 1, 0, 'u'},
                                     {"ladder", 1, 0, 'd'},  {"commit", 1, 0, 'g'},  {"calls", 0, &calls, 1}, {"precision", 1, 0, 'p'},
                                     {"data", 1, 0, 'f'},    {"block", 1, 0, 'b'},   {"beta", 1, 0, 'e'},     {"no-strict", 0, &no_strict, 1},
                                     {0}};
    for (int o; (o = getopt_long(argc, argv, "", options, NULL)) != -1;)
        switch (o) {
        case 't': types = optarg; break;
        case 'y': layouts = optarg; break;
        case 'n': sizes = optarg; break;
        case 'i': lists = optarg; break;
        case 's': seconds = strtod(optarg, NULL); break;
        case 'b': block_seconds = strtod(optarg, NULL); break;
        case 'e': beta = strtod(optarg, NULL); break;
        case 'c': csv_path = optarg; break;
        case 'l': libs[lib_count++ % MAX_CONTESTANTS] = optarg; break;
        case 'u': cublas_path = optarg; break;
        case 'd': ladder_folder = optarg; break;
        case 'g': commit = optarg; break;
        case 'p': precision = optarg; break;
        case 'f': family = optarg; break;
        case 0: break;
        default: return 2;
        }
    setenv("NVIDIA_TF32_OVERRIDE", "0", 1); /* no library may trade precision for speed here */
    draw_family(family);
    find_commit();
    if (!open_gpu())
        return printf("# no GPU\n"), 77;
    char name[32];
    snprintf(name, sizeof name, "gpugemm_%s", precision);
    for (int l = 0; l < (lib_count ? lib_count : 1) && strcmp(libs[l], "none"); l++)
        add_library(libs[l], l ? libs[l] : strcmp(precision, "strict") ? name : "gpugemm", precision);
    if (contestant_count && !no_strict && strcmp(precision, "strict"))
        add_library(libs[0], "gpugemm_strict", "strict");
    if (ladder_folder)
        add_ladder(ladder_folder);
    int version = 0;
    if (open_cublas(cublas_path)) {
        cublas_index = contestant_count;
        add("cublas", run_cublas);
        cublasGetVersion_v2(cublas, &version);
    }
    if (csv_path && !(csv = fopen(csv_path, "w")))
        return perror(csv_path), 1;
    if (csv)
        fprintf(csv, "list,routine,layout,size,m,n,k,offset,library,kernel,rounds,median_s,min_s,max_s,tflops,ratio,error_u,sm_mhz,machine,date,"
                     "commit,data,beta\n");
    printf("# %s; %s%s; cuBLAS %d; precision %s, %s data, beta %g; %s\n", machine, strchr(commit, ' ') ? "" : "commit ", commit, version, precision,
           family, beta,
           calls ? "time of a call on the host, median (least to most) of batches' medians"
                 : "TFLOP/s, then how many times as long as the first the others take");
    find_roofline();
    bool right = true;
    for (size_t i = 0; lists && i < sizeof named / sizeof *named; i++)
        if (strstr(lists, named[i].name))
            right = run_list(named[i].name, named[i].sizes, calls) && right;
    if (sizes || !lists)
        right = run_list("sizes", sizes ? sizes : "256,512,1000,1024,2048,4096,4097x4099x4093,8192", calls) && right;
    if (csv)
        fclose(csv);
    return !right;
}

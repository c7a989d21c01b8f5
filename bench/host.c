/* host.c — operands in host memory: libgpugemm under its BLAS names beside OpenBLAS, NVBLAS and cublasXt, each in a process of its own.
 *
 *   host --part large|precision|small|dispatch|compare|fresh [--seconds 0.15] [--csv FILE] [--lib PATH] [--blas PATH] [--nvblas PATH] [--cublas PATH]
 *        [--commit TEXT] [--sizes 2048,4096x4096x64] [--beta 0] [--types sd] [--processes 1]
 *
 * The parts are those of the README's tables: large (pageable and pinned, beta 0 and 1, transposes, against the floor), precision (large sgemm in the
 * default precision, in strict, and against the floor), small (latency), dispatch (40 sizes: is the default ever slower than OpenBLAS with its best
 * number of threads, or than the forced GPU?), compare (of --sizes, which it needs: beside all others and the floor; `gpugemm bench --host` runs it),
 * fresh (C that nobody has used before, as malloc and as NumPy provide it, and the same with a C that is there).
 * --sizes replaces the sizes of large and dispatch. Whole processes, many callers and little GPU memory are load.c's subject.
 *
 * OpenBLAS's threads spin on all cores for a while after a call, so contestants cannot take turns in one process. This program starts itself again
 * for each contestant, and the processes run one after another. With --processes N each runs N times, and for each case the process with the middle
 * time counts, because times vary from process to process (OpenBLAS, 8000x1x8000: 3 of 15 took 4.2 to 4.5 ms, 11 6.9 to 7.7). Within a process a case
 * is verified at sampled elements (C is filled with NaN there), called again for warm-up (ours for 0.1 s: it learns which side is faster), then timed
 * by the wall clock, short calls in batches of 50 us: the median of as many as fit into `seconds`, of products above 4e12 flop into a second. The last
 * call tells who served. The smallest products, for which OpenBLAS uses one thread, take turns with OpenBLAS in our process instead. Each case has
 * operands of its own: below 128 KB in the heap, as malloc would place them, else in mapped memory with 4 KB pages; or page-locked. The floor of a
 * case is the largest of three times: bytes in at the rate of a large pinned copy to the GPU, bytes out likewise, and the time our kernels take on
 * operands in GPU memory, all measured in this run. */
#include <getopt.h>

#include "problem.h"
#include "size.h"

enum kind { FLOOR, OURS, STRICT, FORCED, OPENBLAS, IN_TURN, NVBLAS, XT };
static const struct contestant {
    const char *name;
    enum kind kind;
    int threads;
} contestants[] = {{"floor", FLOOR, 0},         {"gpugemm", OURS, 0},        {"gpugemm_forced", FORCED, 0}, {"openblas_1", OPENBLAS, 1},
                   {"openblas_2", OPENBLAS, 2}, {"openblas_4", OPENBLAS, 4}, {"openblas_8", OPENBLAS, 8},   {"openblas_16", OPENBLAS, 16},
                   {"nvblas", NVBLAS, 0},       {"cublasxt", XT, 0},         {"gpugemm_strict", STRICT, 0}, {"openblas_in_turn", IN_TURN, 0}};
enum { CONTESTANTS = sizeof contestants / sizeof *contestants, MAX_CASES = 256, MAX_ROUNDS = 2000, MAX_PROCESSES = 9 };

static int by_name(const char *name)
{
    for (int w = 0; w < CONTESTANTS; w++)
        if (!strcmp(contestants[w].name, name))
            return w;
    exit((fprintf(stderr, "no contestant %s\n", name), 2));
}

static const char *lib = "build/libgpugemm.so", *blas = "libopenblas.so.0", *nvblas_path, *cublas_path, *part = "large", *sizes, *types = "sd";
static const char *const parts[] = {"large", "precision", "small", "dispatch", "compare", "fresh"};
static int reads_c; /* beta of the sizes given */
static double seconds = 0.15;
static struct problem cases[MAX_CASES];
static struct result results[CONTESTANTS][MAX_CASES], of_process[CONTESTANTS][MAX_CASES][MAX_PROCESSES];
static int processes = 1;
static int case_count;

/* ---- the cases of a part, and who runs them ------------------------------------------------------------------------------------------------ */

static bool is_part(const char *name)
{
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!strcmp(parts[i], name))
            return true;
    return false;
}

static void add_case(bool dbl, const char *layout, int64_t m, int64_t n, int64_t k, int beta, enum memory memory)
{
    if (case_count < MAX_CASES && strchr(types, dbl ? 'd' : 's'))
        cases[case_count++] = (struct problem){dbl, layout[0] == 'T', layout[1] == 'T', memory, m, n, k, beta};
}

static void add_sizes(const char *list, bool dbl)
{
    char *copy = strdup(list), *save = NULL;
    for (char *size = strtok_r(copy, ",", &save); size; size = strtok_r(NULL, ",", &save)) {
        struct size s;
        if (!read_size(size, &s) || s.pitch || s.offset) {
            fprintf(stderr, "host: not a size: %s\n", size);
            exit(64);
        }
        add_case(dbl, "NN", s.m, s.n, s.k, reads_c, PAGEABLE);
    }
    free(copy);
}

static void make_cases(void)
{
    static const char *const layouts[] = {"NT", "TN", "TT"};
    static const int64_t new_sizes[] = {1100, 1500, 2048, 3000, 4096, 8192};
    for (int dbl = 0; dbl < 2; dbl++) {
        if (sizes)
            add_sizes(sizes, dbl);
        else if (!strcmp(part, "precision")) {
            for (int i = 0; i < 4 && !dbl; i++)
                add_case(false, "NN", i % 2 ? 16384 : 8192, i % 2 ? 16384 : 8192, i % 2 ? 16384 : 8192, 0, i / 2 ? PINNED : PAGEABLE);
        } else if (!strcmp(part, "large")) {
            for (int64_t n = 2048; n <= 16384; n *= 2)
                for (int beta = 0; beta < 2; beta++)
                    add_case(dbl, "NN", n, n, n, beta, PAGEABLE);
            for (int i = 0; i < 3; i++)
                add_case(dbl, layouts[i], 8192, 8192, 8192, 0, PAGEABLE);
            for (int64_t n = 4096; n <= 16384; n *= 2)
                add_case(dbl, "NN", n, n, n, 0, PINNED);
        } else if (!strcmp(part, "fresh")) {
            for (int i = 0; i < 6; i++)
                for (enum memory memory = PAGEABLE; memory < MEMORIES; memory++)
                    if (memory != PINNED)
                        add_case(dbl, "NN", new_sizes[i], new_sizes[i], new_sizes[i], 0, memory);
        } else if (!strcmp(part, "small"))
            add_sizes("64,128,256,384,512,768,1000,1024,1500", dbl);
        else if (!strcmp(part, "dispatch"))
            add_sizes(
                "8,16,24,32,48,64,96,128,160,192,256,320,384,448,512,640,768,1000,1280,1536,2048,3000,4096,6000,8192,16384,1x1000x1000,1000x1x1000,"
                "1x8000x8000,8000x1x8000,2000x2000x1,4096x4096x16,16x4096x4096,4096x16x4096,64x64x65536,100000x64x64,64x64x1000000,"
                "5000x100x100,100x5000x100,300x300x5000",
                dbl);
    }
}

static bool by_avx512; /* are OpenBLAS's kernels? Found once, and told to the contestants' processes by --avx512 */

/* So small that OpenBLAS uses one thread. Such cases can take turns with us in one process, and must, because the same call differs by 15 % and more
 * from process to process. With AVX-512 it does so for up to 10^6 multiply-adds, but for a vector, whose gemm we do by gemv (0.3.21, interface/gemm.c
 * and *gemm_small_kernel_permit_skylakex.c; H200's host, with 1, 2, 4, 8, 16 threads in one process: sgemm 96 10.8 us, dgemm 96 22.8, whichever). */
static bool is_tiny(const struct problem *p)
{
    const bool matrix = p->m > 1 && p->n > 1 && !p->ta && !p->tb;
    return p->m * p->n * p->k <= (by_avx512 && matrix ? 1000000 : 64 * 64 * 64);
}

/* The processor that OpenBLAS takes this one for: one that it does not know gets kernels of twenty years ago. */
static const char *core_name(void)
{
    char *(*name)(void) = NULL;
    const bool given = getenv("OPENBLAS_NUM_THREADS");
    setenv("OPENBLAS_NUM_THREADS", "1", 0); /* in this process it computes nothing */
    void *library = dlopen(blas, RTLD_NOW | RTLD_LOCAL);
    if (!given)
        unsetenv("OPENBLAS_NUM_THREADS");
    return library && resolved(library, "openblas_get_corename", &name) ? name() : "unknown";
}

static bool comparing(void) { return !strcmp(part, "compare"); }

static bool wanted(const struct contestant *who, const struct problem *p)
{
    bool large = !strcmp(part, "large"), precision = !strcmp(part, "precision"), plain = !p->beta && p->memory != PINNED && !p->ta && !p->tb;
    if (comparing()) {
        long processors = sysconf(_SC_NPROCESSORS_ONLN);
        if (who->kind == OPENBLAS)
            return who->threads <= processors && 2 * who->threads > (processors < 16 ? processors : 16);
        return who->kind != FORCED && who->kind != STRICT && who->kind != IN_TURN && (who->kind == OURS || p->n >= 256);
    }
    if (precision)
        return who->kind <= STRICT;
    if (!strcmp(part, "fresh"))
        return who->kind == OURS || (p->n <= 4096 && (who->kind == NVBLAS || (who->kind == OPENBLAS && who->threads == 16)));
    switch (who->kind) {
    case FLOOR: return large;
    case OURS: return true;
    case STRICT:
    case IN_TURN: return false;
    case FORCED: return !large;
    case OPENBLAS:
        if (is_tiny(p))
            return false;
        if (who->threads > sysconf(_SC_NPROCESSORS_ONLN) || (large && (who->threads < 8 || !plain)))
            return false;
        return flops(p) / (who->threads * (p->dbl ? 2e10 : 4e10)) < (large ? 4 : who->threads >= 8 ? 0.5 : 0.1); /* seconds, roughly */
    case NVBLAS: return large ? plain && p->n <= 8192 : !strcmp(part, "small") && p->n >= 512;
    case XT: return large && !p->beta && !p->ta && !p->tb && (p->n == 4096 || p->n == 8192);
    }
    return false;
}

/* ---- one contestant, in a process of its own --------------------------------------------------------------------------------------------- */

static __typeof__(gpugemm_warmup) *our_warmup;
static __typeof__(gpugemm_last_decision) *our_decision;
static __typeof__(gpugemm_sgemm) *our_sgemm;
static __typeof__(gpugemm_dgemm) *our_dgemm;

/* The largest products want a second: they run at the GPU's power limit, whose clock falls in the first half second and swings for longer. What our
 * kernels alone can do, the floor, would be too low and calls not yet at their pace (dgemm 16384: 92 ms after a pause, 101 without one). */
static double long_enough(const struct problem *p) { return flops(p) > 4e12 ? fmax(seconds, 1) : seconds; }

static struct result time_case(const struct problem *p, struct result *in_turn)
{
    static double times[MAX_ROUNDS], theirs[MAX_ROUNDS];
    char *a = operands[0], *b = operands[1], *c;
    struct result r = {.error = verified_call(p, a, b, renew_c(p))};
    struct gpugemm_decision decision;
    c = renew_c(p);
    double start = now();
    run(p, a, b, c);
    double once = now() - start;
    for (double warm = now(); in_turn && !comparing() && once < 5e-3 && now() - warm < 0.1;) /* ours has to learn which side is faster */
        run(p, a, b, c);
    static fortran_gemm *direct[2];
    bool turns = in_turn && is_tiny(p) && !comparing();
    if (turns && !direct[0]) {
        void *library = dlopen(blas, RTLD_NOW | RTLD_LOCAL);
        turns = resolved(library, "sgemm_", &direct[0]) && resolved(library, "dgemm_", &direct[1]);
    }
    int batch = once < 50e-6 && p->memory < FRESH ? (int)(50e-6 / once) + 1 : 1;
    r.rounds = (int)fmin(long_enough(p) / (once * batch), MAX_ROUNDS);
    r.rounds = r.rounds >= 3 ? r.rounds : once < 1 ? 3 : 1;
    for (int round = 0; round < r.rounds; round++) {
        for (int i = turns ? -1 : 0; i < batch; i++) { /* after a call of the other, the first call only warms up */
            c = i > 0 ? c : renew_c(p);
            start = i > 0 ? start : now();
            run(p, a, b, c);
        }
        times[round] = (now() - start) / batch;
        fortran_gemm *ours = fortran[p->dbl];
        for (int i = -1; turns && i < batch; i++) {
            start = i > 0 ? start : now();
            fortran[p->dbl] = direct[p->dbl];
            run(p, a, b, c);
        }
        theirs[round] = (now() - start) / batch;
        fortran[p->dbl] = ours;
    }
    if (turns)
        *in_turn = (struct result){.rounds = r.rounds, .median = median(theirs, r.rounds), .min = theirs[0], .max = theirs[r.rounds - 1]};
    if (our_decision) {
        our_decision(&decision, sizeof decision);
        snprintf(r.kernel, sizeof r.kernel, "%s%s%s", decision.path, *decision.kernel ? "/" : "", decision.kernel);
    }
    r.median = median(times, r.rounds), r.min = times[0], r.max = times[r.rounds - 1];
    return r;
}

/* Bytes per second of a large copy between page-locked and GPU memory. */
static double copy_rate(bool up)
{
    enum { BYTES = 512 << 20 };
    double times[5];
    void *host;
    device_ptr device;
    if (cuMemHostAlloc(&host, BYTES, 0) || cuMemAlloc_v2(&device, BYTES))
        exit((fprintf(stderr, "no memory for copies\n"), 1));
    memset(host, 1, BYTES);
    for (int r = -1; r < 5; r++) {
        double start = now();
        up ? cuMemcpyHtoDAsync_v2(device, host, BYTES, stream) : cuMemcpyDtoHAsync_v2(host, device, BYTES, stream);
        cuStreamSynchronize(stream);
        times[r < 0 ? 0 : r] = now() - start;
    }
    cuMemFreeHost(host), cuMemFree_v2(device);
    return BYTES / median(times, 5);
}

static struct result time_floor(const struct problem *p)
{
    static double up, down;
    static device_ptr on_gpu[3];
    static size_t held[3];
    static int holds = -1; /* the type of the numbers there */
    const char *const data = p->dbl ? (char *)random_d : (char *)random_s;
    const size_t period = p->dbl ? sizeof random_d : sizeof random_s;
    const size_t size = p->dbl ? 8 : 4, bytes[] = {(size_t)(p->m * p->k) * size, (size_t)(p->k * p->n) * size, (size_t)(p->m * p->n) * size};
    if (!up) {
        up = copy_rate(true), down = copy_rate(false);
        fprintf(stderr, "# copies: %.1f GB/s to the GPU, %.1f back (512 MB, page-locked)\n", 1e-9 * up, 1e-9 * down);
    }
    for (int o = 0; o < 3; o++)
        if (bytes[o] > held[o] || p->dbl != holds) {
            if (on_gpu[o])
                cuMemFree_v2(on_gpu[o]);
            if (cuMemAlloc_v2(&on_gpu[o], held[o] = bytes[o]))
                exit((fprintf(stderr, "no GPU memory\n"), 1));
            for (size_t at = 0; at < bytes[o]; at += period)
                cuMemcpyHtoD_v2(on_gpu[o] + at, data, bytes[o] - at < period ? bytes[o] - at : period);
        }
    holds = p->dbl;
    cuCtxSynchronize();
    static double times[MAX_ROUNDS];
    struct result r = {.rounds = 5};
    enum gpugemm_transpose ta = p->ta ? GPUGEMM_TRANS : GPUGEMM_NO_TRANS, tb = p->tb ? GPUGEMM_TRANS : GPUGEMM_NO_TRANS;
    int64_t lda = p->ta ? p->k : p->m, ldb = p->tb ? p->n : p->k;
    for (int round = -1; round < r.rounds; round++) {
        double start = now();
        int status = p->dbl ? our_dgemm(GPUGEMM_COL_MAJOR, ta, tb, p->m, p->n, p->k, 1, (double *)on_gpu[0], lda, (double *)on_gpu[1], ldb, p->beta,
                                        (double *)on_gpu[2], p->m, stream)
                            : our_sgemm(GPUGEMM_COL_MAJOR, ta, tb, p->m, p->n, p->k, 1, (float *)on_gpu[0], lda, (float *)on_gpu[1], ldb,
                                        (float)p->beta, (float *)on_gpu[2], p->m, stream);
        cuStreamSynchronize(stream);
        if (status)
            exit((fprintf(stderr, "gpugemm: status %d\n", status), 1));
        times[round < 0 ? 0 : round] = now() - start;
        if (round < 0 && flops(p) > 4e12)
            r.rounds = (int)fmax(ceil(long_enough(p) / times[0]), r.rounds);
    }
    double in = (double)(bytes[0] + bytes[1] + (p->beta ? bytes[2] : 0)) / up, out = (double)bytes[2] / down, work = median(times, r.rounds);
    r.median = r.min = r.max = fmax(fmax(in, out), work);
    snprintf(r.kernel, sizeof r.kernel, "%s", in >= out && in >= work ? "copy in" : work >= out ? "kernel" : "copy out");
    return r;
}

static void open_contestant(const struct contestant *who)
{
    void *library = NULL;
    bool gpu = who->kind != OPENBLAS && open_gpu();
    if (who->kind == NVBLAS && !gpu)
        exit(77);
    if (who->kind == NVBLAS) {
        char path[] = "/tmp/nvblas.conf.XXXXXX";
        int fd = mkstemp(path);
        dprintf(fd, "NVBLAS_LOGFILE /dev/null\nNVBLAS_CPU_BLAS_LIB %s\nNVBLAS_GPU_LIST 0\nNVBLAS_AUTOPIN_MEM_ENABLED\n", blas);
        close(fd);
        setenv("NVBLAS_CONFIG_FILE", path, 1);
        library = open_first((const char *[]){nvblas_path ? nvblas_path : "libnvblas.so.13", "libnvblas.so.12", "libnvblas.so",
                                              "/usr/local/cuda/lib64/libnvblas.so", NULL});
    } else if (who->kind == XT) {
        if (gpu && open_cublas(cublas_path) && (cublasXtCreate(&cublas_xt) || cublasXtDeviceSelect(cublas_xt, 1, (int[]){0})))
            cublas_xt = NULL;
        if (!cublas_xt)
            exit(77);
        return;
    } else {
        library = dlopen(who->kind == OPENBLAS ? blas : lib, RTLD_NOW | RTLD_LOCAL);
        if (who->kind != OPENBLAS) {
            resolved(library, "gpugemm_last_decision", &our_decision);
            if (!resolved(library, "gpugemm_warmup", &our_warmup) || !resolved(library, "gpugemm_sgemm", &our_sgemm) ||
                !resolved(library, "gpugemm_dgemm", &our_dgemm))
                exit(77);
            if ((!gpu || our_warmup()) && !(comparing() && who->kind == OURS))
                exit(77);
        }
    }
    for (int d = 0; d < 2; d++)
        if (!resolved(library, d ? "dgemm_" : "sgemm_", &fortran[d]))
            exit(77);
}

/* OpenBLAS's threads spin for a while after it is loaded or has served a call, on the cores that copies need. They must not disturb the next case. */
static void let_spinning_end(void) { usleep(200000); }

static int contest(const struct contestant *who)
{
    bool by_cpu = true;
    draw_data();
    open_contestant(who);
    for (int group = 0; group < 2 * MEMORIES; group++) { /* one type and one kind of memory at a time */
        const bool dbl = group % 2;
        for (int c = 0; c < case_count; c++) {
            const struct problem *p = &cases[c];
            if (p->dbl != dbl || (int)p->memory != group / 2 || !wanted(who, p))
                continue;
            if (who->kind != FLOOR)
                make_operands(p);
            if (by_cpu && (who->kind == OURS || who->kind == STRICT || who->kind == FORCED))
                let_spinning_end();
            struct result in_turn = {0}, r = who->kind == FLOOR ? time_floor(p) : time_case(p, who->kind == OURS ? &in_turn : NULL);
            by_cpu = !strcmp(r.kernel, "cpu");
            printf("%d %.9f %.9f %.9f %.4f %d %s\n", c, r.median, r.min, r.max, r.error, r.rounds, r.kernel);
            if (in_turn.rounds)
                printf("in turn %d %.9f %.9f %.9f %.4f %d \n", c, in_turn.median, in_turn.min, in_turn.max, in_turn.error, in_turn.rounds);
            fflush(stdout);
            drop_operands(p);
        }
    }
    return 0;
}

static bool run_contestant(int w, int process, char **argv, int argc)
{
    char name[32], threads[8], line[512], *arguments[64];
    int status, count = 0;
    FILE *out;
    snprintf(name, sizeof name, "%s", contestants[w].name), snprintf(threads, sizeof threads, "%d", contestants[w].threads);
    for (int i = 0; i < argc && i < 58; i++)
        arguments[count++] = argv[i];
    arguments[count++] = "--as", arguments[count++] = name;
    if (by_avx512)
        arguments[count++] = "--avx512";
    arguments[count] = NULL;
    const char *with[] = {"GPUGEMM_MODE", contestants[w].kind == FORCED ? "gpu" : "auto", "GPUGEMM_PRECISION",
                          contestants[w].kind == STRICT ? "strict" : "fp32", contestants[w].threads ? "OPENBLAS_NUM_THREADS" : NULL, threads, NULL};
    pid_t pid = start_again(arguments, with, &out);
    while (fgets(line, sizeof line, out)) {
        int c, used = 0, turn = strncmp(line, "in turn ", 8) ? 0 : 8;
        struct result r = {0};
        if (sscanf(line + turn, "%d %lf %lf %lf %lf %d %n", &c, &r.median, &r.min, &r.max, &r.error, &r.rounds, &used) >= 6 && c >= 0 &&
            c < case_count) {
            line[strcspn(line, "\n")] = 0;
            snprintf(r.kernel, sizeof r.kernel, "%.40s", turn ? "" : line + used);
            of_process[turn ? by_name("openblas_in_turn") : w][c][process] = r;
        }
    }
    fclose(out), waitpid(pid, &status, 0);
    if (status && !(WIFEXITED(status) && WEXITSTATUS(status) == 77))
        printf("# %s ended with status %d\n", name, status);
    return !status || (WIFEXITED(status) && WEXITSTATUS(status) == 77);
}

/* ---- tables --------------------------------------------------------------------------------------------------------------------------------- */

static int by_median(const void *x, const void *y)
{
    const struct result *a = x, *b = y;
    return (a->median > b->median) - (a->median < b->median);
}

/* Of the processes that have run this case, returns the one with the middle time. */
static struct result middle(struct result *of)
{
    int ran = 0;
    for (int i = 0; i < processes; i++)
        if (of[i].rounds)
            of[ran++] = of[i];
    qsort(of, (size_t)ran, sizeof *of, by_median);
    return ran ? of[(ran - 1) / 2] : (struct result){0};
}

static int best_openblas(int c)
{
    int best = -1;
    for (int w = 0; w < CONTESTANTS; w++)
        if ((contestants[w].kind == OPENBLAS || contestants[w].kind == IN_TURN) && results[w][c].rounds &&
            (best < 0 || results[w][c].median < results[best][c].median))
            best = w;
    return best;
}

static const char *describe(const struct problem *p)
{
    static char text[96];
    snprintf(text, sizeof text, "%cgemm %c%c %lldx%lldx%lld beta %d%s%s", p->dbl ? 'd' : 's', p->ta ? 'T' : 'N', p->tb ? 'T' : 'N', (long long)p->m,
             (long long)p->n, (long long)p->k, p->beta, p->memory ? " " : "",
             p->memory ? memory_names[p->memory] : "");
    return text;
}

static int contest_all(char **argv, int argc, const char *core)
{
    bool right = true;
    int ours = by_name("gpugemm"), forced = by_name("gpugemm_forced"), floor_ = by_name("floor"), late = 0, compared = 0, latest = -1;
    double worst = 0;
    for (int i = 0; i < processes * CONTESTANTS; i++) { /* all contestants once, then again */
        const int w = i % CONTESTANTS;
        bool any = false;
        for (int c = 0; c < case_count; c++)
            any = any || wanted(&contestants[w], &cases[c]);
        right = (!any || run_contestant(w, i / CONTESTANTS, argv, argc)) && right;
    }
    for (int w = 0; w < CONTESTANTS; w++)
        for (int c = 0; c < case_count; c++)
            results[w][c] = middle(of_process[w][c]);
    for (int c = 0; c < case_count; c++) {
        const struct problem *p = &cases[c];
        const struct result *mine = &results[ours][c];
        printf("%-40s", describe(p));
        for (int w = 0; w < CONTESTANTS; w++) {
            const struct result *r = &results[w][c];
            if (!r->rounds)
                continue;
            printf("  %s %.4f ms", contestants[w].name, 1e3 * r->median);
            if (w != ours && mine->rounds)
                printf(w == floor_ ? " (/%.2f)" : " (x%.2f)", w == floor_ ? mine->median / r->median : r->median / mine->median);
            if (!(r->error <= (double)p->k + 2))
                printf(" WRONG"), right = false;
            write_csv(part, p, contestants[w].name, r, contestants[w].kind == OPENBLAS || contestants[w].kind == IN_TURN ? core : r->kernel);
        }
        printf("  %s\n", mine->kernel);
        int cpu = best_openblas(c);
        double other = fmin(cpu >= 0 ? results[cpu][c].median : INFINITY, results[forced][c].rounds ? results[forced][c].median : INFINITY);
        if (mine->rounds && isfinite(other)) {
            double ratio = mine->median / other;
            compared++, late += ratio > 1.1;
            latest = ratio > worst ? c : latest, worst = fmax(worst, ratio);
        }
    }
    for (enum memory memory = PAGEABLE; memory <= PINNED; memory++)
        for (int64_t n = 2048; n <= 16384; n *= 2) {
            double most = 0;
            int at = -1;
            for (int c = 0; c < case_count; c++)
                if (cases[c].n == n && cases[c].memory == memory && results[floor_][c].rounds && results[ours][c].rounds &&
                    results[ours][c].median / results[floor_][c].median > most)
                    most = results[ours][c].median / results[floor_][c].median, at = c;
            if (at >= 0)
                printf("SUM %s n = %lld: at most %.2f times the floor (%s)\n", memory_names[memory], (long long)n, most,
                       describe(&cases[at]));
        }
    if (compared && strcmp(part, "large"))
        printf("SUM %s: %d cases, %d slower than 1.10 times the better of OpenBLAS and the forced GPU; the worst %.2f (%s)\n", part, compared, late,
               worst, describe(&cases[latest]));
    return !right;
}

int main(int argc, char **argv)
{
    const char *csv_path = NULL, *as = NULL;
    const struct option options[] = {{"part", 1, 0, 'p'},   {"seconds", 1, 0, 's'}, {"csv", 1, 0, 'c'},    {"lib", 1, 0, 'l'},
                                     {"blas", 1, 0, 'b'},   {"nvblas", 1, 0, 'v'},  {"cublas", 1, 0, 'u'}, {"commit", 1, 0, 'g'},
                                     {"sizes", 1, 0, 'n'},  {"types", 1, 0, 't'},   {"as", 1, 0, 'a'},     {"processes", 1, 0, 'r'},
                                     {"beta", 1, 0, 'k'},   {"avx512", 0, 0, '5'}, {0}};
    for (int o; (o = getopt_long(argc, argv, "", options, NULL)) != -1;)
        switch (o) {
        case 'p': part = optarg; break;
        case 's': seconds = strtod(optarg, NULL); break;
        case 'c': csv_path = optarg; break;
        case 'l': lib = optarg; break;
        case 'b': blas = optarg; break;
        case 'v': nvblas_path = optarg; break;
        case 'u': cublas_path = optarg; break;
        case 'g': commit = optarg; break;
        case 'n': sizes = optarg; break;
        case 't': types = optarg; break;
        case 'a': as = optarg; break;
        case '5': by_avx512 = true; break;
        case 'k': reads_c = atoi(optarg) != 0; break;
        case 'r': processes = (int)fmin(fmax(atoi(optarg), 1), MAX_PROCESSES); break;
        default: return 2;
        }
    if (!is_part(part))
        exit((fprintf(stderr, "host: no part %s\n", part), 64));
    setenv("NVIDIA_TF32_OVERRIDE", "0", 1); /* no library may trade precision for speed here */
    setenv("GPUGEMM_BLAS", blas, 0);
    make_cases();
    if (as)
        return contest(&contestants[by_name(as)]);
    const char *core = core_name();
    by_avx512 = !strcmp(core, "SkylakeX") || !strcmp(core, "Cooperlake") || !strcmp(core, "SapphireRapids");
    begin_report(part, csv_path, "; in brackets how many times as long as gpugemm the others take, or gpugemm as long as the floor");
    printf("# OpenBLAS's kernels are those for %s\n", core);
    fflush(stdout);
    int status = contest_all(argv, argc, core);
    if (csv)
        fclose(csv);
    return status;
}

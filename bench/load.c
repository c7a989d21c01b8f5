/* load.c — libgpugemm under loads other than one caller's: whole processes, many callers, little GPU memory.
 *
 *   load --part start|threads|mixed|core [--seconds 30] [--csv FILE] [--lib PATH] [--blas PATH] [--commit TEXT]
 *
 * start: a process that does one dgemm, ours against OpenBLAS's, the processes taking turns. threads: calls per second of several threads at once.
 * mixed: 12 threads with sizes to 2048, types and layouts mixed, every result checked, for `seconds`. core: dgemm of n = 24576 limited to 2 GB of GPU
 * memory, against all of it, and how much it really took. */
#include <getopt.h>
#include <stdatomic.h>

#include "problem.h"

static const char *lib = "build/libgpugemm.so", *blas = "libopenblas.so.0", *part = "start";

/* For run(); ends the program if the library or a GPU is missing. */
static void open_ours(void)
{
    __typeof__(gpugemm_warmup) *warmup;
    void *library = dlopen(lib, RTLD_NOW | RTLD_LOCAL);
    if (!open_gpu() || !resolved(library, "gpugemm_warmup", &warmup) || !resolved(library, "sgemm_", &fortran[0]) ||
        !resolved(library, "dgemm_", &fortran[1]) || warmup())
        exit(77);
}

/* ---- a whole process with one dgemm ---------------------------------------------------------------------------------------------------------- */

static int once(const char *library, int64_t n)
{
    struct problem p = {.dbl = true, .m = n, .n = n, .k = n};
    double *x = malloc(sizeof(double) * (size_t)(3 * n * n));
    for (int64_t i = 0; i < 2 * n * n; i++)
        x[i] = (double)(i * 7919 % 1000) / 1000 - 0.5;
    if (!resolved(dlopen(library, RTLD_NOW | RTLD_GLOBAL), "dgemm_", &fortran[1]))
        return 77;
    run(&p, x, x + n * n, x + 2 * n * n);
    return !(x[2 * n * n] == x[2 * n * n]);
}

static int time_starts(void)
{
    enum { ROUNDS = 11 };
    const char *const libraries[] = {lib, blas}, *const names[] = {"gpugemm", "openblas"};
    int failures = 0;
    for (int64_t n = 512; n <= 2048; n *= 2) {
        double times[2][ROUNDS];
        for (int r = -1; r < ROUNDS; r++)
            for (int turn = 0; turn < 2; turn++) {
                int w = r % 2 ? turn : 1 - turn, status;
                char size[24], *arguments[] = {"load", "--once", (char *)libraries[w], "--sizes", size, NULL};
                const char *none[] = {NULL};
                FILE *out;
                snprintf(size, sizeof size, "%lld", (long long)n);
                usleep(100000);
                double start = now();
                pid_t pid = start_again(arguments, none, &out);
                waitpid(pid, &status, 0);
                times[w][r < 0 ? 0 : r] = now() - start;
                fclose(out);
                failures += status != 0;
            }
        printf("process with one dgemm n = %lld:", (long long)n);
        double medians[2];
        for (int w = 0; w < 2; w++) {
            struct result r = {.rounds = ROUNDS, .median = median(times[w], ROUNDS), .min = times[w][0], .max = times[w][ROUNDS - 1]};
            medians[w] = r.median;
            printf("  %s %.1f ms (%.1f to %.1f)", names[w], 1e3 * r.median, 1e3 * r.min, 1e3 * r.max);
            write_csv(part, &(struct problem){.dbl = true, .m = n, .n = n, .k = n}, names[w], &r, "process");
        }
        printf("  ours / OpenBLAS %.2f\n", medians[0] / medians[1]);
    }
    return failures != 0;
}

/* ---- many callers ---------------------------------------------------------------------------------------------------------------------------- */

static atomic_bool stop;
struct caller {
    struct problem p;
    char *memory;
    int64_t calls;
    pthread_t thread;
};

static void *call_on(void *argument)
{
    struct caller *me = argument;
    size_t matrix = (size_t)(me->p.n * me->p.n) * (me->p.dbl ? 8 : 4);
    for (me->calls = 0; !atomic_load(&stop); me->calls++)
        run(&me->p, me->memory, me->memory + matrix, me->memory + 2 * matrix);
    return NULL;
}

/* Calls per second of `threads` threads, each with its own operands. */
static double throughput(bool dbl, int64_t n, int threads, double duration)
{
    struct caller callers[16];
    size_t element = dbl ? 8 : 4, elements = (size_t)(n * n);
    int64_t calls = 0;
    for (int t = 0; t < threads; t++) {
        callers[t] = (struct caller){.p = {.dbl = dbl, .m = n, .n = n, .k = n}, .memory = malloc(3 * elements * element)};
        for (int o = 0; o < 3; o++)
            fill(&(struct fill){callers[t].memory + (size_t)o * elements * element, 0, n * n, o * (int64_t)B_STARTS, (int64_t)element});
        run(&callers[t].p, callers[t].memory, callers[t].memory + elements * element, callers[t].memory + 2 * elements * element);
    }
    atomic_store(&stop, false);
    double start = now();
    for (int t = 0; t < threads; t++)
        pthread_create(&callers[t].thread, NULL, call_on, &callers[t]);
    usleep((useconds_t)(1e6 * duration));
    atomic_store(&stop, true);
    for (int t = 0; t < threads; t++)
        pthread_join(callers[t].thread, NULL), calls += callers[t].calls;
    double rate = (double)calls / (now() - start);
    for (int t = 0; t < threads; t++) {
        double last;
        struct problem *p = &callers[t].p;
        int64_t at = n - 1;
        long double sum, size;
        exact_element(dbl, n, at, n, at * n, 1, &sum, &size);
        element_of(p, callers[t].memory + 2 * elements * element, at, at, &last);
        if (!(fabs((double)(last - sum)) <= (double)(n + 2) * (dbl ? 0x1p-53 : 0x1p-24) * (double)size))
            printf("WRONG: a thread's result\n");
        free(callers[t].memory);
    }
    return rate;
}

static int time_threads(void)
{
    enum { MOST = 5 };
    static const struct {
        bool dbl;
        int64_t n;
        int threads[MOST]; /* 0: no more */
    } rows[] = {{false, 512, {1, 2, 4, 8, 16}}, {true, 512, {1, 2, 4, 8, 16}}, {false, 850, {1, 4, 8, 16}},
                {false, 1500, {1, 4, 8, 16}}, {false, 4096, {1, 2, 8}}, {true, 4096, {1, 2, 8}}};
    draw_data();
    open_ours();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double alone = 0;
        printf("%cgemm n = %lld:", rows[i].dbl ? 'd' : 's', (long long)rows[i].n);
        for (int t = 0; t < MOST && rows[i].threads[t]; t++) {
            double rate = throughput(rows[i].dbl, rows[i].n, rows[i].threads[t], rows[i].n > 1000 ? 2 : 1);
            alone = t ? alone : rate;
            struct problem p = {.dbl = rows[i].dbl, .m = rows[i].n, .n = rows[i].n, .k = rows[i].n};
            struct result r = {.rounds = 1, .median = 1 / rate, .min = 1 / rate, .max = 1 / rate};
            char what[32];
            snprintf(what, sizeof what, "%d threads", rows[i].threads[t]);
            printf("  %s %.1f calls/s (x%.2f of one)", what, rate, rate / alone);
            write_csv(part, &p, "gpugemm", &r, what);
        }
        printf("\n");
        fflush(stdout);
    }
    return 0;
}

/* Sizes, types and layouts mixed, every result checked. */
enum { MIXED_THREADS = 12, MIXED_MOST = 2048 };

static void *call_mixed(void *argument)
{
    struct caller *me = argument;
    uint64_t x = (uint64_t)(uintptr_t)me * 0x9e3779b97f4a7c15u | 1;
    const size_t matrix = (size_t)MIXED_MOST * MIXED_MOST * sizeof(double);
    int wrong = 0;
    for (me->calls = 0; !atomic_load(&stop); me->calls++) {
        int64_t size[3];
        for (int i = 0; i < 3; i++) {
            x ^= x << 13, x ^= x >> 7, x ^= x << 17;
            size[i] = 1 + (int64_t)(exp2(5 + (double)(x >> 40 & 0xffff) / 65536 * 6) * (double)(MIXED_MOST - 1) / 2048);
        }
        struct problem p = {.dbl = x & 1, .ta = x & 2, .tb = x & 4, .m = size[0], .n = size[1], .k = size[2], .beta = (int)(x >> 3 & 1)};
        for (int o = 0; o < 3; o++) {
            int64_t elements = o == 0 ? p.m * p.k : o == 1 ? p.k * p.n : p.m * p.n;
            fill(&(struct fill){me->memory + (size_t)o * matrix, 0, elements, o * (int64_t)B_STARTS, p.dbl ? 8 : 4});
        }
        wrong += !(verified_call(&p, me->memory, me->memory + matrix, me->memory + 2 * matrix) <= (double)p.k + 2);
    }
    return (void *)(intptr_t)wrong;
}

static int soak(double duration)
{
    struct caller callers[MIXED_THREADS];
    int64_t calls = 0, wrong = 0;
    draw_data();
    open_ours();
    atomic_store(&stop, false);
    for (int t = 0; t < MIXED_THREADS; t++) {
        callers[t].memory = malloc((size_t)3 * MIXED_MOST * MIXED_MOST * sizeof(double));
        pthread_create(&callers[t].thread, NULL, call_mixed, &callers[t]);
    }
    usleep((useconds_t)(1e6 * duration));
    atomic_store(&stop, true);
    for (int t = 0; t < MIXED_THREADS; t++) {
        void *bad;
        pthread_join(callers[t].thread, &bad);
        calls += callers[t].calls, wrong += (intptr_t)bad;
    }
    printf("%d threads, sizes to %d mixed, %.0f s: %lld calls, each checked at 100 elements, %lld wrong\n", MIXED_THREADS, MIXED_MOST, duration,
           (long long)calls, (long long)wrong);
    return wrong != 0;
}

/* ---- little GPU memory ----------------------------------------------------------------------------------------------------------------------- */

/* Records the least free GPU memory while it runs. */
static void *watch_memory(void *least)
{
    handle library = dlopen("libcuda.so.1", RTLD_NOW);
    int (*info)(size_t *, size_t *);
    handle context;
    resolved(library, "cuMemGetInfo_v2", &info);
    cuDevicePrimaryCtxRetain(&context, 0), cuCtxSetCurrent(context);
    while (!atomic_load(&stop)) {
        size_t free_now, total;
        if (!info(&free_now, &total) && free_now < *(size_t *)least)
            *(size_t *)least = free_now;
        usleep(1000);
    }
    return NULL;
}

/* One verified call, then three timed ones. */
static struct result time_calls(const struct problem *p)
{
    double times[3];
    struct result r = {.error = verified_call(p, operands[0], operands[1], operands[2]), .rounds = 3};
    for (int i = 0; i < 3; i++) {
        double start = now();
        run(p, operands[0], operands[1], operands[2]);
        times[i] = now() - start;
    }
    r.median = median(times, 3), r.min = times[0], r.max = times[2];
    return r;
}

static int core_child(int64_t n)
{
    struct problem p = {.dbl = true, .m = n, .n = n, .k = n};
    size_t least = SIZE_MAX, before = SIZE_MAX;
    pthread_t watcher;
    draw_data();
    open_ours();
    make_operands(&p);
    for (int phase = 0; phase < 2; phase++) {
        atomic_store(&stop, false);
        pthread_create(&watcher, NULL, watch_memory, phase ? &least : &before);
        struct result r = {0};
        if (phase)
            r = time_calls(&p);
        else
            usleep(20000);
        atomic_store(&stop, true);
        pthread_join(watcher, NULL);
        if (phase)
            printf("0 %.9f %.9f %.9f %.4f %d %.0f MB\n", r.median, r.min, r.max, r.error, r.rounds, 1e-6 * (double)(before - least));
    }
    return 0;
}

static int time_core(void)
{
    static const char *const memory[] = {"80%", "2G"};
    double alone = 0;
    int failures = 0;
    for (int w = 0; w < 2; w++) {
        char line[256] = "", size[16] = "24576", *arguments[] = {"load", "--core", size, "--lib", (char *)lib, "--blas", (char *)blas, NULL};
        const char *with[] = {"GPUGEMM_MODE", "gpu", w ? "GPUGEMM_GPU_MEMORY" : NULL, memory[w], NULL};
        FILE *out;
        int status, used = 0, c;
        struct result r = {0};
        pid_t pid = start_again(arguments, with, &out);
        if (!fgets(line, sizeof line, out) || sscanf(line, "%d %lf %lf %lf %lf %d %n", &c, &r.median, &r.min, &r.max, &r.error, &r.rounds, &used) < 6)
            used = 0;
        fclose(out), waitpid(pid, &status, 0);
        line[strcspn(line, "\n")] = 0;
        failures += status != 0 || !(r.error <= 24578) || !r.rounds;
        alone = w ? alone : r.median;
        printf("dgemm n = 24576, GPUGEMM_GPU_MEMORY %s: %.3f s, %.1f TFLOP/s, %.2f of the rate without, %s of GPU memory taken, error %.2f u\n",
               w ? memory[w] : "not set", r.median, 2e-12 * 24576.0 * 24576 * 24576 / r.median, alone / r.median, line + used, r.error);
        write_csv(part, &(struct problem){.dbl = true, .m = 24576, .n = 24576, .k = 24576}, w ? "gpugemm_2G" : "gpugemm", &r, line + used);
    }
    return failures != 0;
}

int main(int argc, char **argv)
{
    const char *csv_path = NULL, *once_library = NULL;
    int64_t size = 1024, core = 0;
    double seconds = 30;
    const struct option options[] = {{"part", 1, 0, 'p'}, {"seconds", 1, 0, 's'}, {"csv", 1, 0, 'c'},  {"lib", 1, 0, 'l'}, {"blas", 1, 0, 'b'},
                                     {"commit", 1, 0, 'g'}, {"sizes", 1, 0, 'n'}, {"once", 1, 0, 'o'}, {"core", 1, 0, 'k'}, {0}};
    for (int o; (o = getopt_long(argc, argv, "", options, NULL)) != -1;)
        switch (o) {
        case 'p': part = optarg; break;
        case 's': seconds = strtod(optarg, NULL); break;
        case 'c': csv_path = optarg; break;
        case 'l': lib = optarg; break;
        case 'b': blas = optarg; break;
        case 'g': commit = optarg; break;
        case 'n': size = atoll(optarg); break;
        case 'o': once_library = optarg; break;
        case 'k': core = atoll(optarg); break;
        default: return 2;
        }
    setenv("GPUGEMM_BLAS", blas, 0);
    if (once_library)
        return once(once_library, size);
    if (core)
        return core_child(core);
    begin_report(part, csv_path, "");
    int status = !strcmp(part, "start")     ? time_starts()
                 : !strcmp(part, "threads") ? time_threads()
                 : !strcmp(part, "mixed")   ? soak(seconds)
                 : !strcmp(part, "core")    ? time_core()
                                            : (fprintf(stderr, "load: no part %s\n", part), 2);
    if (csv)
        fclose(csv);
    return status;
}

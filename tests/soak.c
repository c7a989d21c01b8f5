/* soak.c — mixed traffic for any length of time, with failures, every byte of every result checked.
 *
 *   soak --lib LIB [--seconds S] [--life L] [--threads T] [--rate PPM] [--seed N] [--expect-gpu]
 *   soak --lib LIB --calls N [--threads T] [--seed N] [--expect-gpu]
 *
 * Runs one process after another, each for L seconds: T threads make calls of all sizes, types and transposes, with operands in ordinary memory,
 * page-locked memory and GPU memory. Of a million driver calls PPM fail at random (out of memory, invalid value). In two of three processes the whole
 * GPU is lost at a random time, and the threads go on without it. This needs fail_cuda.c's libcuda.so.1, which also knows how much GPU memory this
 * process holds; with PPM = 0 any driver will do. Required of each process: no wrong result, no hang, an orderly end, and, from the middle of its
 * life to its end, no growth of its memory, of the GPU memory it holds, or of the number of driver objects. Prints a line after each.
 *
 * --calls: N calls in one process without failures, a fifth of them by each of five generations of threads. Late in the run more threads than ever
 * before may meet in the library, which then creates a lane for one of them; but a leak grows in every generation. So what counts is the smallest
 * growth of a generation after the second. */
#include <getopt.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include "faults.h"
#include "problem.h"

enum { PROBLEMS = 12, MAX_THREADS = 64 };

static struct problem problems[PROBLEMS];
static struct faults *faults; /* NULL: an ordinary driver */
static void (*exempt)(bool);
static void (*read_stats)(struct gpugemm_stats *, size_t);
static int (*api_d)(int, int, int, int64_t, int64_t, int64_t, double, const void *, int64_t, const void *, int64_t, double, void *, int64_t, void *);
static int (*api_s)(int, int, int, int64_t, int64_t, int64_t, float, const void *, int64_t, const void *, int64_t, float, void *, int64_t, void *);
static int (*cu_init)(unsigned), (*cu_retain)(void **, int), (*cu_enter)(void *), (*cu_alloc)(uint64_t *, size_t),
    (*cu_host)(void **, size_t, unsigned), (*cu_up)(uint64_t, const void *, size_t), (*cu_down)(void *, uint64_t, size_t), (*cu_sync)(void *),
    (*cu_free)(uint64_t), (*cu_free_host)(void *);

/* Shared with the parent. */
static struct totals {
    atomic_ulong calls[3], gpu, recovered, wrong, documented, injected, lost; /* calls by memory: ordinary, page-locked, GPU */
    atomic_long rss_growth, gpu_growth, live_growth;                          /* the largest of any process */
    char first_wrong[160];
} *totals;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void report(const char *wrong, int which, int kind)
{
    if (atomic_fetch_add(&totals->wrong, 1) == 0)
        snprintf(totals->first_wrong, sizeof totals->first_wrong, "problem %d, memory %d: %s", which, kind, wrong);
}

/* ---- one thread ---------------------------------------------------------------------------------------------------------------------------- */

static atomic_bool stop;
static atomic_long left; /* calls still to be made */
static pthread_barrier_t ready;

struct thread {
    pthread_t id;
    uint64_t seed;
    struct operands host, pinned;
    uint64_t gpu[3];
};

static void call_on_gpu(struct thread *t, const struct problem *p, int which)
{
    struct operands *o = &t->host;
    problem_reset(p, o);
    void *pointer[3];
    for (int i = 0; i < 3; i++) {
        cu_up(t->gpu[i], o->image[i], p->bytes[i]);
        pointer[i] = (void *)(t->gpu[i] + AROUND);
    }
    if (t->seed & 1)
        pointer[1] = o->image[1] + AROUND; /* B stays in host memory */
    struct call x = problem_call(p, pointer[0], pointer[1], pointer[2]);
    int status = p->spelling->dbl ? api_d(102, 111 + p->transa, 111 + p->transb, x.m, x.n, x.k, x.alpha, x.a, x.lda, x.b, x.ldb, x.beta, x.c, x.ldc, NULL)
                                  : api_s(102, 111 + p->transa, 111 + p->transb, x.m, x.n, x.k, (float)x.alpha, x.a, x.lda, x.b, x.ldb,
                                          (float)x.beta, x.c, x.ldc, NULL);
    exempt(true);
    bool lost = cu_sync((void *)1) != 0;
    exempt(false);
    for (int i = 0; i < 3; i++)
        lost |= cu_down(o->image[i], t->gpu[i], p->bytes[i]) != 0;
    const char *wrong = lost ? "the test cannot read its memory" : problem_wrong(p, o);
    if (status) {
        atomic_fetch_add(&totals->documented, 1);
        if (wrong && (status == GPUGEMM_GPU_ERROR || !strcmp(wrong, "C is as it was")))
            wrong = NULL;
    }
    if (wrong)
        report(wrong, which, 2);
}

static void *traffic(void *argument)
{
    struct thread *t = argument;
    void *context;
    size_t most[3] = {0};
    for (int i = 0; i < PROBLEMS; i++)
        for (int x = 0; x < 3; x++)
            most[x] = problems[i].bytes[x] > most[x] ? problems[i].bytes[x] : most[x];
    exempt(true);
    bool gpu = cu_init && !cu_init(0) && !cu_retain(&context, 0) && !cu_enter(context);
    for (int x = 0; x < 3; x++) {
        t->host.image[x] = aligned_alloc(64, (most[x] + 63) & ~(size_t)63);
        gpu = gpu && !cu_alloc(&t->gpu[x], most[x]) && !cu_host((void **)&t->pinned.image[x], most[x], 1);
    }
    exempt(false);
    pthread_barrier_wait(&ready);
    while (!stop && atomic_fetch_sub(&left, 1) > 0) {
        int which = (int)rng_below(&t->seed, 100) < 60 ? (int)rng_below(&t->seed, 6) : (int)rng_below(&t->seed, PROBLEMS);
        int kind = gpu ? (int)rng_below(&t->seed, 10) : 0;
        kind = kind < 6 ? 0 : kind < 8 ? 1 : 2;
        const struct problem *p = &problems[which];
        atomic_fetch_add(&totals->calls[kind], 1);
        if (kind == 2) {
            call_on_gpu(t, p, which);
        } else {
            const char *wrong = problem_try(p, kind ? &t->pinned : &t->host);
            if (wrong)
                report(wrong, which, kind);
        }
    }
    exempt(true);
    for (int x = 0; x < 3; x++) {
        free(t->host.image[x]);
        if (gpu)
            cu_free(t->gpu[x]), cu_free_host(t->pinned.image[x]);
    }
    exempt(false);
    return NULL;
}

/* ---- one process ---------------------------------------------------------------------------------------------------------------------------- */

struct footprint {
    long rss, gpu, live; /* bytes, bytes, objects */
};

static struct footprint measure(void)
{
    struct footprint f = {0};
    long pages = 0;
    FILE *statm = fopen("/proc/self/statm", "r");
    if (!statm || fscanf(statm, "%*d %ld", &pages) != 1)
        pages = 0;
    if (statm)
        fclose(statm);
    f.rss = pages * sysconf(_SC_PAGESIZE);
    f.gpu = faults ? atomic_load(&faults->gpu_bytes) : 0;
    for (int i = 0; faults && i < FAULT_KINDS; i++)
        f.live += faults->kinds[i] ? atomic_load(&faults->live[i]) : 0;
    return f;
}

static void largest(atomic_long *of, long value)
{
    long known = atomic_load(of);
    while (value > known && !atomic_compare_exchange_weak(of, &known, value))
        ;
}

static void sleep_until(double when)
{
    while (now() < when)
        usleep(20000);
}

/* Returns when all threads have allocated their memory. */
static void start_traffic(struct thread *thread, int threads, uint64_t seed, long calls)
{
    atomic_store(&left, calls);
    memset(thread, 0, sizeof *thread * (size_t)threads);
    pthread_barrier_init(&ready, NULL, (unsigned)threads + 1);
    for (int i = 0; i < threads; i++) {
        thread[i].seed = seed * 1000 + (uint64_t)i;
        if (pthread_create(&thread[i].id, NULL, traffic, &thread[i]))
            exit((perror("pthread_create"), 1));
    }
    pthread_barrier_wait(&ready);
}

static void count_gpu_calls(void)
{
    struct gpugemm_stats stats;
    read_stats(&stats, sizeof stats);
    atomic_fetch_add(&totals->gpu, stats.device + stats.staged);
    atomic_fetch_add(&totals->recovered, stats.recovered);
}

enum { GENERATIONS = 5 };

static void keep_least(atomic_long *least, long added, int generation)
{
    if (generation == 2 || (generation > 2 && added < *least))
        *least = added;
}

static void generations(uint64_t seed, long calls, int threads)
{
    struct thread thread[MAX_THREADS];
    struct footprint before = {0};
    for (int g = 0; g < GENERATIONS; g++) {
        start_traffic(thread, threads, seed + (uint64_t)g, calls / GENERATIONS);
        for (int i = 0; i < threads; i++)
            pthread_join(thread[i].id, NULL);
        struct footprint f = measure();
        printf("%9ld calls: %.1f MB, %.1f MB of the GPU's, %ld driver objects\n", (g + 1) * (calls / GENERATIONS), (double)f.rss / 1e6,
               (double)f.gpu / 1e6, f.live);
        keep_least(&totals->rss_growth, f.rss - before.rss, g);
        keep_least(&totals->gpu_growth, f.gpu - before.gpu, g);
        keep_least(&totals->live_growth, f.live - before.live, g);
        before = f;
    }
    count_gpu_calls();
}

static void live(uint64_t seed, double life, int threads, unsigned rate)
{
    struct thread thread[MAX_THREADS];
    uint64_t r = seed;
    start_traffic(thread, threads, seed, LONG_MAX);
    double begun = now();
    bool lose = faults && rate && seed % 3;
    if (faults) {
        static const int errors[] = {2, 2, 2, 1, 1};
        memcpy(faults->random_errors, errors, sizeof errors);
        faults->random_error_count = 5;
        faults->draws = seed;
        atomic_store(&faults->rate, rate);
        atomic_store(&faults->armed, true);
    }
    struct footprint middle, end;
    if (lose) {
        sleep_until(begun + life * (0.1 + 0.8 * (double)rng_below(&r, 1000) / 1000));
        static const int lost[] = {719, 700, 214, 999};
        faults->error = lost[seed % 4];
        faults->nth = 0;
        faults->mode = FAULT_ALL;
        atomic_fetch_add(&faults->struck, 1);
        faults->function = 0; /* from here on every call fails */
        atomic_fetch_add(&totals->lost, 1);
        sleep_until(begun + life);
    } else {
        sleep_until(begun + life * 0.6);
        middle = measure();
        sleep_until(begun + life);
        end = measure();
        largest(&totals->rss_growth, end.rss - middle.rss);
        largest(&totals->gpu_growth, end.gpu - middle.gpu);
        largest(&totals->live_growth, end.live - middle.live);
    }
    stop = true;
    for (int i = 0; i < threads; i++)
        pthread_join(thread[i].id, NULL);
    count_gpu_calls();
    if (faults)
        atomic_fetch_add(&totals->injected, atomic_load(&faults->struck));
}

/* ---- the soak ---------------------------------------------------------------------------------------------------------------------------------- */

static void not_exempt(bool yes) { (void)yes; }

static void open_everything(const char *lib)
{
    void *library = open_library(lib, RTLD_LOCAL), *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    find_spellings(library);
    *(void **)&read_stats = dlsym(library, "gpugemm_stats_read");
    *(void **)&api_s = dlsym(library, "gpugemm_sgemm"), *(void **)&api_d = dlsym(library, "gpugemm_dgemm");
    exempt = not_exempt;
    if (!driver)
        return;
    if ((faults = dlsym(driver, "fail_cuda")))
        *(void **)&exempt = dlsym(driver, "fail_cuda_exempt");
    *(void **)&cu_init = dlsym(driver, "cuInit"), *(void **)&cu_retain = dlsym(driver, "cuDevicePrimaryCtxRetain");
    *(void **)&cu_enter = dlsym(driver, "cuCtxSetCurrent"), *(void **)&cu_alloc = dlsym(driver, "cuMemAlloc_v2");
    *(void **)&cu_host = dlsym(driver, "cuMemHostAlloc"), *(void **)&cu_up = dlsym(driver, "cuMemcpyHtoD_v2");
    *(void **)&cu_down = dlsym(driver, "cuMemcpyDtoH_v2"), *(void **)&cu_sync = dlsym(driver, "cuStreamSynchronize");
    *(void **)&cu_free = dlsym(driver, "cuMemFree_v2"), *(void **)&cu_free_host = dlsym(driver, "cuMemFreeHost");
}

static void make_problems(void)
{
    static const char *const names[] = {"dgemm_", "sgemm_", "cblas_dgemm", "cblas_sgemm", "dgemm_64_", "cblas_sgemm64_"};
    static const struct {
        int m, n, k, beta, pad;
    } shapes[PROBLEMS] = {{3, 5, 4, 2, 0}, {40, 33, 50, 0, 2}, {64, 64, 64, 2, 0}, {130, 90, 70, 0, 5}, {200, 210, 120, 2, 1}, {17, 300, 200, 0, 3},
                          {400, 380, 60, 2, 0}, {333, 10, 900, 0, 1}, {610, 500, 130, 0, 3}, {700, 720, 40, 2, 0}, {1100, 900, 24, 0, 2}, {256, 256, 512, 2, 0}};
    for (int i = 0; i < PROBLEMS; i++)
        for (int s = 0; s < SPELLINGS; s++)
            if (!strcmp(spellings[s].name, names[i % 6]) && spellings[s].address)
                problems[i] = problem_make(&spellings[s], i & 1, i & 2, shapes[i].m, shapes[i].n, shapes[i].k, shapes[i].beta, shapes[i].pad);
}

int main(int argc, char **argv)
{
    const char *lib = "build/libgpugemm.so";
    double seconds = 10, life = 5;
    int threads = 16, expect_gpu = 0;
    long in_all = 0;
    unsigned rate = 100;
    uint64_t seed = 1;
    const struct option options[] = {{"lib", 1, 0, 'l'}, {"seconds", 1, 0, 's'}, {"life", 1, 0, 'i'}, {"threads", 1, 0, 't'}, {"rate", 1, 0, 'r'},
                                     {"seed", 1, 0, 'd'}, {"calls", 1, 0, 'c'}, {"expect-gpu", 0, &expect_gpu, 1}, {0}};
    for (int o; (o = getopt_long(argc, argv, "", options, NULL)) != -1;)
        switch (o) {
        case 'l': lib = optarg; break;
        case 's': seconds = atof(optarg); break;
        case 'i': life = atof(optarg); break;
        case 't': threads = atoi(optarg); break;
        case 'r': rate = (unsigned)atoi(optarg); break;
        case 'c': in_all = atol(optarg); break;
        case 'd': seed = strtoull(optarg, NULL, 0); break;
        case 0: break;
        default: return 2;
        }
    rate = in_all ? 0 : rate;
    threads = threads < 1 ? 1 : threads > MAX_THREADS ? MAX_THREADS : threads;
    setenv("OPENBLAS_NUM_THREADS", "1", 0);
    setenv("GPUGEMM_MODE", "gpu", 0);
    open_everything(lib);
    if (rate && !faults)
        return fprintf(stderr, "failures need fail_cuda.c's libcuda.so.1\n"), 2;
    make_problems();
    totals = mmap(NULL, sizeof *totals, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    long processes = 0, hangs = 0, crashes = 0;
    double begun = now();
    if (in_all)
        generations(seed, in_all, threads), processes++;
    while (!in_all && now() - begun + life <= seconds + 0.5 * life) {
        double started = now();
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            live(seed + (uint64_t)processes, life, threads, rate);
            exit(0);
        }
        int status = 0;
        while (waitpid(child, &status, WNOHANG) == 0 && now() - started < life + 60)
            usleep(20000);
        if (now() - started >= life + 60) {
            hangs++;
            printf("process %ld hangs\n", processes);
            kill(child, SIGKILL);
            waitpid(child, &status, 0);
        } else if (status) {
            crashes++;
            printf("process %ld: wait status %d\n", processes, status);
        }
        processes++;
        printf("%5.0f s: %lu calls, %lu wrong\n", now() - begun, totals->calls[0] + totals->calls[1] + totals->calls[2], totals->wrong);
    }
    unsigned long calls = totals->calls[0] + totals->calls[1] + totals->calls[2];
    printf("%.0f s, %ld processes of %d threads: %lu calls (%lu ordinary memory, %lu page-locked, %lu the GPU's), %lu on the GPU\n", now() - begun,
           processes, threads, calls, totals->calls[0], totals->calls[1], totals->calls[2], totals->gpu);
    printf("%lu driver calls failed, %lu times the GPU was lost; %lu calls finished by the CPU, %lu documented errors\n", totals->injected, totals->lost,
           totals->recovered, totals->documented);
    printf("%lu wrong, %ld hangs, %ld crashes; %s: %.1f MB of memory, %.1f MB of the GPU's, %ld driver objects\n", totals->wrong, hangs,
           crashes, in_all ? "growth in the generation after the second that grew least" : "largest growth in the last two fifths of a life", (double)totals->rss_growth / 1e6,
           (double)totals->gpu_growth / 1e6, totals->live_growth);
    if (totals->wrong)
        printf("first wrong: %s\n", totals->first_wrong);
    /* Memory stands still only when every lane has seen the largest problem: on two busy cores it still grew by 70 MB in the last 1.2 s of a life of
     * 3 s, by 57 MB in the last 5 of 12, by 3 MB in the last 8 of 20. And every lane, of some 50 objects, must have been created: under
     * ThreadSanitizer the last of six comes late. */
    long most = (life < 15 ? 256L : 64L) << 20;
    if (in_all)
        most = 16L << 20;
    bool grows = totals->rss_growth > most || totals->gpu_growth > 4 * most || totals->live_growth > (in_all ? 8 : life < 15 ? 300 : 200);
    if (expect_gpu && totals->gpu == 0)
        printf("no call was served by the GPU\n");
    return totals->wrong || hangs || crashes || grows || !calls || (expect_gpu && totals->gpu == 0);
}

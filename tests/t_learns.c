/* t_learns.c — what calls teach, on a fake GPU: one that fails is left alone for longer and longer, and what `gpugemm tune` has measured meanwhile is
 * kept. Calls beside others teach nothing, on either side. Calls that are settled go straight to the CPU, and so do some of those that share the link
 * with others. And statistics that are read while they are reset are numbers of calls.
 *
 *   t_learns --lib PATH --blas PATH     the second: gemv_blas.c's library, compiled with PARALLEL
 *
 * The driver must be fail_cuda.c's, in front of fake_cuda.c. Each part is a process of its own. */
#include <dlfcn.h>
#include <glob.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "../include/gpugemm.h"
#include "faults.h"
#include "test.h"

enum { N = 165 /* too large to be settled */, SMALL = 150 /* not too large */ };
typedef void gemm(const char *, const char *, const int *, const int *, const int *, const double *, const double *, const int *, const double *,
                  const int *, const double *, double *, const int *);
static const char *lib, *teams_blas;
static char folder[] = "/tmp/t_learns.XXXXXX", file[256];
static gemm *dgemm;
static __typeof__(gpugemm_stats_read) *stats_read;
static __typeof__(gpugemm_stats_reset) *stats_reset;
static __typeof__(gpugemm_explain) *explain;
static __typeof__(gpugemm_last_decision) *last_decision;
static struct faults *driver;

/* Loads the library and, if `start`, tries to start the GPU. True: it is up, or was not to be started. */
static bool load_library(bool start)
{
    void *library = dlopen(lib, RTLD_NOW | RTLD_GLOBAL), *cuda = dlopen("libcuda.so.1", RTLD_NOW);
    dgemm = library ? (gemm *)dlsym(library, "dgemm_") : NULL;
    stats_read = library ? (__typeof__(stats_read))dlsym(library, "gpugemm_stats_read") : NULL;
    stats_reset = library ? (__typeof__(stats_reset))dlsym(library, "gpugemm_stats_reset") : NULL;
    explain = library ? (__typeof__(explain))dlsym(library, "gpugemm_explain") : NULL;
    last_decision = library ? (__typeof__(last_decision))dlsym(library, "gpugemm_last_decision") : NULL;
    int (*const warmup)(void) = library ? (int (*)(void))dlsym(library, "gpugemm_warmup") : NULL;
    driver = cuda ? dlsym(cuda, "fail_cuda") : NULL;
    if (!dgemm || !stats_read || !stats_reset || !explain || !last_decision || !warmup || !driver) {
        fprintf(stderr, "%s or the driver lacks names\n", lib);
        _exit(2);
    }
    return !start || warmup() == 0;
}

static void open_library(void)
{
    if (!load_library(true))
        _exit(SKIP);
}

/* Edits the file of rates by a script of sed. */
static void edit(const char *script)
{
    char command[600];
    snprintf(command, sizeof command, "sed -i '%s' %s", script, file);
    CHECK(system(command) == 0, "%s", command);
}

/* So many calls; returns how many of them the GPU has served. */
static unsigned long run(long count)
{
    struct gpugemm_stats s;
    const int n = N;
    const double one = 1, zero = 0;
    double *x = calloc(3 * N * N, sizeof *x);
    stats_reset();
    for (long i = 0; i < count; i++)
        dgemm("N", "N", &n, &n, &n, &one, x, &n, x + N * N, &n, &zero, x + 2 * N * N, &n);
    free(x);
    stats_read(&s, sizeof s);
    return s.staged;
}

/* Of `calls` that fail the GPU is asked once, one is left out, it is asked again, then two are left out, four, eight. */
static void backs_off(int launch, int calls, const char *when)
{
    int asked = 0, last = -1;
    for (int i = 0; i < calls; i++) {
        const unsigned long before = driver->calls[launch];
        run(1);
        if (driver->calls[launch] == before)
            continue;
        CHECK(asked == 0 || i - last == 1 + (1 << (asked - 1)), "%s: asked in call %d and then, for the %dth time, in call %d", when, last, asked + 1,
              i);
        asked++, last = i;
    }
    printf("%s: asked %d times in %d calls that fail\n", when, asked, calls);
    CHECK(asked > 4, "%s: asked only %d times", when, asked);
}

static void failing(void)
{
    open_library();
    const int launch = fault_function(driver, "cuLaunchKernel");
    driver->function = launch;
    driver->nth = 1;
    driver->error = 701; /* for lack of resources */
    driver->mode = FAULT_FUNCTION;
    driver->armed = true;
    backs_off(launch, 2000, "at first");
    driver->armed = false;
    int calls = 0;
    while (run(1) == 0 && calls++ < 5000)
        ;
    CHECK(calls < 5000, "the GPU works again, and is not asked");
    driver->armed = true;
    backs_off(launch, 100, "after it has worked"); /* from the beginning */
}

/* The file's text, with another stamp. */
static void stamp(void)
{
    char text[16384];
    open_library();
    edit("s/^measured [^ ]*/measured 2001-01-01T00:00:00Z/");
    run(3000); /* learnt ratios are saved after 256, 512, ... observations */
    usleep(100000);
    FILE *f = fopen(file, "r");
    text[f ? fread(text, 1, sizeof text - 1, f) : 0] = 0;
    CHECK(strstr(text, "measured 2001-01-01"), "a measurement of another process has been overwritten");
}

static void saved(void)
{
    char text[16384];
    open_library();
    run(3000);
    usleep(100000);
    FILE *f = fopen(file, "r");
    text[f ? fread(text, 1, sizeof text - 1, f) : 0] = 0;
    CHECK(strstr(text, "\ntook "), "what calls took has not been saved");
}

/* Whatever the spelling, the CPU's time is learnt from the calls that try it: then few tries are needed. gpugemm_dgemm calls no routine of its own
 * name, nor does dgemm_64_ where the BLAS has 32-bit integers. */
static void spellings(void)
{
    edit("s/^cpu_dgemm .*/cpu_dgemm 1e11/");
    open_library();
    void *const library = dlopen(lib, RTLD_NOW);
    __typeof__(gpugemm_dgemm) *const api = (__typeof__(api))dlsym(library, "gpugemm_dgemm");
    void (*const wide)(const char *, const char *, const int64_t *, const int64_t *, const int64_t *, const double *, const double *, const int64_t *,
                       const double *, const int64_t *, const double *, double *, const int64_t *) = (__typeof__(wide))dlsym(library, "dgemm_64_");
    const double one = 1, zero = 0;
    double *x = calloc(3 * 1000 * 1000, sizeof *x);
    for (int spelling = 0; spelling < 2; spelling++) { /* each with a size of its own, for which the GPU is predicted to be somewhat faster */
        struct gpugemm_decision d = {0};
        int64_t n = 64;
        do {
            n += 4;
            explain("dgemm", GPUGEMM_NO_TRANS, GPUGEMM_NO_TRANS, n, n, n, 0, 0, NULL, &d, sizeof d);
        } while (n < 1000 && d.predicted_cpu < (spelling ? 2.2 : 1.1) * d.predicted_gpu);
        CHECK(n < 1000 && d.predicted_cpu < 3 * d.predicted_gpu, "no such size: n = %d, CPU %g, GPU %g", (int)n, d.predicted_cpu, d.predicted_gpu);
        printf("%d: CPU %g s, GPU %g s\n", (int)n, d.predicted_cpu, d.predicted_gpu);
        int tries = 0;
        for (int i = 0; i < 200; i++) {
            if (spelling == 0)
                api(GPUGEMM_COL_MAJOR, GPUGEMM_NO_TRANS, GPUGEMM_NO_TRANS, n, n, n, 1, x, n, x + n * n, n, 0, x + 2 * n * n, n, NULL);
            else
                wide("N", "N", &n, &n, &n, &one, x, &n, x + n * n, &n, &zero, x + 2 * n * n, &n);
            last_decision(&d, sizeof d);
            tries += strcmp(d.reason, "to learn its speed") == 0;
        }
        CHECK(tries < 40, "%s: %d of 200 calls are tries", spelling ? "dgemm_64_" : "gpugemm_dgemm", tries);
    }
    free(x);
}

static _Atomic bool ended;

/* Until the end: long calls, for which the CPU is predicted to be faster. */
static void *long_calls(void *under_way)
{
    enum { LONG = 1500 };
    const int n = LONG;
    const double one = 1, zero = 0;
    double *x = calloc(3 * LONG * LONG, sizeof *x);
    while (!ended) {
        *(_Atomic bool *)under_way = true;
        dgemm("N", "N", &n, &n, &n, &one, x, &n, x + LONG * LONG, &n, &zero, x + 2 * LONG * LONG, &n);
    }
    free(x);
    return NULL;
}

/* The CPU's time is not learnt from calls beside others on the CPU, but from the same calls alone. */
static void beside(void)
{
    edit("s/^\\(up\\|down\\|pinned\\) .*/\\1 4e8/; s/^cpu_dgemm .*/cpu_dgemm 1e12/");
    open_library();
    struct gpugemm_decision before = {0}, crowded = {0}, after = {0};
    pthread_t other;
    _Atomic bool under_way = false;
    unsigned long on_gpu = 0;
    explain("dgemm", GPUGEMM_NO_TRANS, GPUGEMM_NO_TRANS, N, N, N, 0, 0, NULL, &before, sizeof before);
    pthread_create(&other, NULL, long_calls, &under_way);
    while (!under_way)
        ;
    usleep(5000); /* now it is inside the call, which takes longer */
    on_gpu += run(200);
    explain("dgemm", GPUGEMM_NO_TRANS, GPUGEMM_NO_TRANS, N, N, N, 0, 0, NULL, &crowded, sizeof crowded);
    ended = true;
    pthread_join(other, NULL);
    on_gpu += run(200);
    explain("dgemm", GPUGEMM_NO_TRANS, GPUGEMM_NO_TRANS, N, N, N, 0, 0, NULL, &after, sizeof after);
    CHECK(crowded.predicted_cpu == before.predicted_cpu, "learnt from calls beside others: %g s became %g", before.predicted_cpu,
          crowded.predicted_cpu);
    CHECK(after.predicted_cpu != before.predicted_cpu, "nothing learnt from 200 calls");
    CHECK(on_gpu < 50, "%lu of 400 calls by the GPU", on_gpu);
}

/* Once the CPU is known to be far faster, calls go straight there: nothing is predicted for them. A few still ask and learn, operands in GPU memory are
 * seen, and other sizes are asked about. */
static void settles(void)
{
    edit("s/^\\(up\\|down\\|pinned\\) .*/\\1 1e7/; s/^cpu_dgemm .*/cpu_dgemm 1e12/");
    open_library();
    void *const cuda = dlopen("libcuda.so.1", RTLD_NOW);
    int (*const retain)(void **, int) = (int (*)(void **, int))dlsym(cuda, "cuDevicePrimaryCtxRetain");
    int (*const set)(void *) = (int (*)(void *))dlsym(cuda, "cuCtxSetCurrent");
    int (*const alloc)(unsigned long long *, size_t) = (int (*)(unsigned long long *, size_t))dlsym(cuda, "cuMemAlloc_v2");
    enum { SIZE = SMALL * SMALL, LEARNING = 200, CALLS = 1280 };
    const int n = SMALL, other = SMALL / 2;
    const double one = 1, zero = 0;
    double *const a = malloc(3 * SIZE * sizeof *a), *const b = a + SIZE, *const c = b + SIZE;
    struct gpugemm_decision d = {0};
    int asked = 0;
    for (int i = 0; i < 2 * SIZE; i++)
        a[i] = 1;
    for (int i = 0; i < LEARNING + CALLS; i++) {
        c[SIZE - 1] = -1;
        dgemm("N", "N", &n, &n, &n, &one, a, &n, b, &n, &zero, c, &n);
        last_decision(&d, sizeof d);
        asked += i >= LEARNING && d.predicted_cpu > 0;
        CHECK(!strcmp(d.path, "cpu") && !strcmp(d.reason, "faster on the CPU") && d.m == n && d.n == n && d.k == n, "call %d: %s, %s", i, d.path,
              d.reason);
        CHECK(c[SIZE - 1] == n, "call %d: %g", i, c[SIZE - 1]);
    }
    printf("settled: %d of %d calls were asked about\n", asked, CALLS);
    CHECK(asked >= CALLS / 128 && asked <= CALLS / 16, "%d of %d calls were asked about", asked, CALLS);
    dgemm("N", "N", &other, &other, &other, &one, a, &n, b, &n, &zero, c, &n);
    last_decision(&d, sizeof d);
    CHECK(d.m == other && d.predicted_cpu > 0, "another size was not asked about");
    void *context;
    unsigned long long at[3];
    for (int o = 0; o < 3; o++)
        if (retain(&context, 0) || set(context) || alloc(&at[o], SIZE * sizeof *a))
            _exit(2);
    dgemm("N", "N", &n, &n, &n, &one, (double *)at[0], &n, (double *)at[1], &n, &zero, (double *)at[2], &n);
    last_decision(&d, sizeof d);
    CHECK(!strcmp(d.path, "device"), "operands in GPU memory: %s, %s", d.path, d.reason);
    free(a);
}

/* Where there is no GPU calls go straight to the CPU, too, and the reason is still the right one. */
static void without_gpu(void)
{
    setenv("FAKE_CUDA_DEVICES", "0", 1);
    CHECK(!load_library(true), "there is a GPU");
    enum { M = 80 };
    static double a[M * M], b[M * M], c[M * M];
    const int n = M;
    const double one = 1, zero = 0;
    for (int i = 0; i < M * M; i++)
        a[i] = b[i] = 1;
    for (int i = 0; i < 300; i++) {
        struct gpugemm_decision d;
        c[M * M - 1] = -1;
        dgemm("N", "N", &n, &n, &n, &one, a, &n, b, &n, &zero, c, &n);
        last_decision(&d, sizeof d);
        CHECK(!strcmp(d.routine, "dgemm") && !strcmp(d.path, "cpu") && !strcmp(d.reason, "no usable GPU") && d.m == n && c[M * M - 1] == n,
              "call %d: %s, %s, %s, %g", i, d.routine, d.path, d.reason, c[M * M - 1]);
    }
}

static void *tiny(void *unused)
{
    const int n = 1;
    const double one = 1, zero = 0;
    double x[3] = {0};
    while (!ended)
        dgemm("N", "N", &n, &n, &n, &one, x, &n, x + 1, &n, &zero, x + 2, &n);
    return unused;
}

static void *resets(void *unused)
{
    while (!ended)
        stats_reset();
    return unused;
}

static void statistics(void)
{
    pthread_t t[3];
    struct gpugemm_stats s;
    long absurd = 0;
    open_library();
    pthread_create(&t[0], NULL, tiny, NULL);
    pthread_create(&t[1], NULL, resets, NULL);
    pthread_create(&t[2], NULL, resets, NULL);
    for (int i = 0; i < 200000; i++) {
        stats_read(&s, sizeof s);
        absurd += s.calls >> 62 != 0;
    }
    ended = true;
    for (int i = 0; i < 3; i++)
        pthread_join(t[i], NULL);
    CHECK(absurd == 0, "%ld of 200000 reads are absurd", absurd);
}

/* Whether the GPU is worth its start is known from what the CPU took, although each product is the first of its kind and its prediction far too
 * small. */
static void losses(void)
{
    edit("s/^cpu_dgemm .*/cpu_dgemm 2e12/; s/^start .*/start 0.02/");
    load_library(false);
    const double one = 1, zero = 0;
    double predicted = 0;
    struct gpugemm_decision d = {0};
    for (int n = 500; n <= 1100; n += n / 6) {
        double *const x = calloc((size_t)(3 * n * n), sizeof *x);
        dgemm("N", "N", &n, &n, &n, &one, x, &n, x + n * n, &n, &zero, x + 2 * n * n, &n);
        free(x);
        last_decision(&d, sizeof d);
        predicted += d.predicted_cpu - d.predicted_gpu;
        CHECK(n > 500 || !strcmp(d.reason, "not worth starting the GPU yet"), "at first: %s", d.reason);
    }
    CHECK(predicted < 0.02 * 0.75, "the predictions alone are worth the start: %g s", predicted);
    CHECK(strcmp(d.reason, "not worth starting the GPU yet"), "the GPU is not started");
}

struct counts {
    pthread_barrier_t gate;
    atomic_int beside, on_gpu;
};

static void *count_beside(void *counts)
{
    struct counts *const all = counts;
    const int n = N;
    const double one = 1, zero = 0;
    double *const x = calloc(3 * N * N, sizeof *x);
    pthread_barrier_wait(&all->gate);
    for (int i = 0; i < 100; i++) {
        struct gpugemm_decision d = {0};
        dgemm("N", "N", &n, &n, &n, &one, x, &n, x + N * N, &n, &zero, x + 2 * N * N, &n);
        last_decision(&d, sizeof d);
        all->beside += !strcmp(d.reason, "faster on the CPU beside other calls");
        all->on_gpu += !strcmp(d.path, "staged");
    }
    free(x);
    return NULL;
}

/* Calls that would have to wait for each other's copies go to the CPU if its BLAS has one thread, or says that it would use one (threads 0: it would
 * use as many as it likes), not if it has more. */
static void shared_link(int threads)
{
    enum { CALLERS = 4 };
    edit("s/^pinned .*/pinned 1e7/");
    open_library();
    void (*const set_threads)(int) = threads ? (void (*)(int))dlsym(dlopen("libopenblas.so.0", RTLD_NOW), "openblas_set_num_threads") : NULL;
    pthread_t callers[CALLERS];
    struct counts counts = {0};
    if (threads && !set_threads)
        _exit(2);
    if (threads)
        set_threads(threads);
    run(1); /* finds the BLAS; ThreadSanitizer does not know the loader's lock */
    pthread_barrier_init(&counts.gate, NULL, CALLERS);
    for (int i = 0; i < CALLERS; i++)
        pthread_create(&callers[i], NULL, count_beside, &counts);
    for (int i = 0; i < CALLERS; i++)
        pthread_join(callers[i], NULL);
    struct gpugemm_decision alone = {0};
    for (int i = 0; i < 20; i++) {
        run(1);
        last_decision(&alone, sizeof alone);
        CHECK(strcmp(alone.reason, "faster on the CPU beside other calls"), "the last of all is still beside others");
    }
    printf("a BLAS of %d threads: %d of %d calls on the GPU, %d on the CPU beside them\n", threads, counts.on_gpu, 100 * CALLERS, counts.beside);
    CHECK(counts.on_gpu > 0 && (threads < 2) == (counts.beside > 0), "a BLAS of %d threads", threads);
}

static void single(void) { shared_link(1); }
static void team(void) { shared_link(2); }

static void teams(void)
{
    setenv("GPUGEMM_BLAS", teams_blas, 1);
    shared_link(0);
}

/* In a process of its own, with a file of rates that promise a fast GPU and a slow CPU. */
static int part(void (*body)(void))
{
    if (*file)
        edit("/^took/d; s/^\\(up\\|down\\|pinned\\) .*/\\1 4e10/; s/^cpu_dgemm .*/cpu_dgemm 1e10/");
    const pid_t child = fork();
    if (!child) {
        body();
        fflush(stdout);
        _exit(test_failures != 0);
    }
    int status = 1;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int main(int argc, char **argv)
{
    if (argc != 5)
        return 64;
    lib = argv[2], teams_blas = argv[4];
    if (!mkdtemp(folder) || setenv("XDG_CACHE_HOME", folder, 1) || setenv("GPUGEMM_MODE", "auto", 1))
        return 1;
    int failed = part(open_library); /* makes the file */
    char pattern[64];
    glob_t found;
    snprintf(pattern, sizeof pattern, "%s/gpugemm/rates-*", folder);
    if (failed == 0 && glob(pattern, 0, NULL, &found) == 0) {
        snprintf(file, sizeof file, "%s", found.gl_pathv[0]);
        void (*const parts[])(void) = {failing, stamp, saved, spellings, beside, settles, without_gpu, statistics, losses, single, team, teams};
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
            failed |= part(parts[i]);
        unlink(file);
    } else if (failed == 0) {
        failed = 1;
    }
    snprintf(pattern, sizeof pattern, "%s/gpugemm", folder);
    rmdir(pattern), rmdir(folder);
    printf("%s\n", failed ? "FAILED" : "ok");
    return failed;
}

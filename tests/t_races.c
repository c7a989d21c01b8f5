/* t_races.c — calls of all shapes with operands anywhere, on fake_cuda.c, which looks for operations that touch the same memory and do not wait for
 * each other (fake_races.h). Results are not looked at: with FAKE_CUDA_RACES=only nothing is computed, and large products take no time.
 *
 *   t_races --lib LIB [--calls N] [--threads T] [--largest L] [--seed N] [--host | --two]
 *
 * --two: on two GPUs. */
#include <dlfcn.h>
#include <pthread.h>

#include "gpugemm.h"
#include "test.h"

enum { MAX_THREADS = 16 };
enum { ORDINARY, LOCKED, ON_GPU, ON_OTHER, PLACES };

static const size_t room = 8 << 20; /* bytes of an operand, at most */
static int calls = 300, threads = 1, largest = 1500, seed = 1;
static int places = ON_OTHER; /* where operands lie: --host: none in GPU memory, which nobody could serve if that is short */
static void *library, *driver;

#define CUDA(X)                                                                                                                                      \
    X(cuInit, (unsigned))                                                                                                                            \
    X(cuDevicePrimaryCtxRetain, (void **, int))                                                                                                      \
    X(cuCtxSetCurrent, (void *))                                                                                                                     \
    X(cuMemAlloc_v2, (uint64_t *, size_t))                                                                                                           \
    X(cuMemHostAlloc, (void **, size_t, unsigned))                                                                                                   \
    X(cuMemsetD8Async, (uint64_t, unsigned char, size_t, void *))                                                                                    \
    X(cuStreamCreateWithPriority, (void **, unsigned, int))                                                                                          \
    X(cuStreamSynchronize, (void *))
#define X(name, arguments) static int(*name) arguments;
CUDA(X)
#undef X
static void (*sgemm)(const char *, const char *, const int *, const int *, const int *, const float *, const void *, const int *, const void *,
                     const int *, const float *, void *, const int *);
static void (*dgemm)(const char *, const char *, const int *, const int *, const int *, const double *, const void *, const int *, const void *,
                     const int *, const double *, void *, const int *);
static __typeof__(gpugemm_dgemm) *on_stream;
static __typeof__(gpugemm_release) *release;
static __typeof__(gpugemm_stats_read) *read_stats;

#define GOOD(call) CHECK((call) == 0, "%s failed", #call)

/* An extent: small, even, or any. */
static int extent(uint64_t *s, int most)
{
    const int x = 1 + (int)rng_below(s, rng_below(s, 4) ? most : most / 8 + 1);
    return rng_below(s, 3) ? x : (x + 127) & -128;
}

/* By something of the program's on that stream of the operand's GPU, which the call must wait for, or which must find the call done. */
static void fill(int place, void *const context[], char *operand, size_t bytes, void *stream)
{
    if (place == ON_OTHER)
        GOOD(cuCtxSetCurrent(context[1]));
    if (place >= ON_GPU)
        GOOD(cuMemsetD8Async((uint64_t)operand, 0, bytes, place == ON_OTHER ? NULL : stream));
    if (place == ON_OTHER)
        GOOD(cuCtxSetCurrent(context[0]));
}

static void one_call(uint64_t *s, char *memory[3][PLACES], void *stream, void *const context[])
{
    const bool dbl = rng_below(s, 2), ta = rng_below(s, 2), tb = rng_below(s, 2), api = dbl && !rng_below(s, 4);
    const size_t size = dbl ? 8 : 4;
    int m, n, k, ld[3];
    size_t bytes[3];
    do {
        m = extent(s, largest), n = extent(s, largest), k = extent(s, rng_below(s, 2) ? largest : 300);
        const int pad = rng_below(s, 2) ? 0 : (int)rng_below(s, rng_below(s, 4) ? 9 : 6000); /* the latter: short lines far apart */
        ld[0] = (ta ? k : m) + pad, ld[1] = (tb ? n : k) + pad, ld[2] = m + pad;
        bytes[0] = (size_t)ld[0] * (size_t)(ta ? m : k) * size, bytes[1] = (size_t)ld[1] * (size_t)(tb ? k : n) * size,
        bytes[2] = (size_t)ld[2] * (size_t)n * size;
    } while (bytes[0] > room || bytes[1] > room || bytes[2] > room);
    char *at[3];
    int place[3];
    if (!api) /* the BLAS names are on another stream */
        GOOD(cuStreamSynchronize(stream));
    for (int x = 0; x < 3; x++) {
        place[x] = (int)rng_below(s, api && places > ON_OTHER ? ON_OTHER : places);
        at[x] = memory[x][place[x]];
        fill(place[x], context, at[x], bytes[x], api ? stream : NULL);
    }
    const double beta = (double)rng_below(s, 2), one = 1;
    const float beta_s = (float)beta, one_s = 1;
    if (api)
        GOOD(on_stream(GPUGEMM_COL_MAJOR, ta ? GPUGEMM_TRANS : GPUGEMM_NO_TRANS, tb ? GPUGEMM_TRANS : GPUGEMM_NO_TRANS, m, n, k, 1, (double *)at[0],
                       ld[0], (double *)at[1], ld[1], beta, (double *)at[2], ld[2], stream));
    else if (dbl)
        dgemm(ta ? "T" : "N", tb ? "T" : "N", &m, &n, &k, &one, at[0], &ld[0], at[1], &ld[1], &beta, at[2], &ld[2]);
    else
        sgemm(ta ? "T" : "N", tb ? "T" : "N", &m, &n, &k, &one_s, at[0], &ld[0], at[1], &ld[1], &beta_s, at[2], &ld[2]);
    if (api && rng_below(s, 2)) /* the next call finds it under way */
        return;
    for (int x = 0; x < 3; x++)
        fill(place[x], context, at[x], bytes[x], stream);
    GOOD(cuStreamSynchronize(stream));
}

static void *work(void *number)
{
    uint64_t s = (uint64_t)seed * MAX_THREADS + (uint64_t)(intptr_t)number;
    char *memory[3][PLACES];
    void *context[2], *stream;
    GOOD(cuInit(0) || cuDevicePrimaryCtxRetain(&context[0], 0));
    GOOD(cuCtxSetCurrent(context[0]) || cuStreamCreateWithPriority(&stream, 1, 0));
    GOOD(places == PLACES && cuDevicePrimaryCtxRetain(&context[1], 1));
    for (int x = 0; x < 3; x++) {
        memory[x][ORDINARY] = calloc(room, 1);
        GOOD(!memory[x][ORDINARY] || cuMemHostAlloc((void **)&memory[x][LOCKED], room, 0));
        for (int place = ON_GPU; place < places; place++)
            GOOD(cuCtxSetCurrent(context[place - ON_GPU]) || cuMemAlloc_v2((uint64_t *)&memory[x][place], room));
        GOOD(cuCtxSetCurrent(context[0]));
    }
    for (int i = 0; i < calls; i++) {
        one_call(&s, memory, stream, context);
        if (rng_below(&s, 100) == 0)
            release();
    }
    return NULL;
}

int main(int argc, char **argv)
{
    const char *lib = "build/libgpugemm.so";
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        lib = strcmp(argv[i], "--lib") ? lib : value;
        calls = strcmp(argv[i], "--calls") ? calls : atoi(value);
        threads = strcmp(argv[i], "--threads") ? threads : atoi(value);
        largest = strcmp(argv[i], "--largest") ? largest : atoi(value);
        seed = strcmp(argv[i], "--seed") ? seed : atoi(value);
        places = !strcmp(argv[i], "--host") ? ON_GPU : !strcmp(argv[i], "--two") ? PLACES : places;
    }
    bool all = (library = dlopen(lib, RTLD_NOW | RTLD_LOCAL)) && (driver = dlopen("libcuda.so.1", RTLD_NOW));
#define X(name, arguments) all = all && (*(void **)&name = dlsym(driver, #name));
    CUDA(X)
#undef X
    all = all && (*(void **)&sgemm = dlsym(library, "sgemm_")) && (*(void **)&dgemm = dlsym(library, "dgemm_"));
    all = all && (*(void **)&on_stream = dlsym(library, "gpugemm_dgemm")) && (*(void **)&release = dlsym(library, "gpugemm_release")) &&
          (*(void **)&read_stats = dlsym(library, "gpugemm_stats_read"));
    if (!all || threads > MAX_THREADS)
        return fprintf(stderr, "%s or libcuda.so.1 lacks names\n", lib), 1;
    pthread_t thread[MAX_THREADS];
    for (intptr_t t = 0; t < threads; t++)
        if (pthread_create(&thread[t], NULL, work, (void *)t))
            return 1;
    for (int t = 0; t < threads; t++)
        pthread_join(thread[t], NULL);
    struct gpugemm_stats stats;
    read_stats(&stats, sizeof stats);
    CHECK(stats.staged > 0, "no call was staged");
    printf("%d calls, %llu staged, %llu in place: %d failures\n", threads * calls, (unsigned long long)stats.staged, (unsigned long long)stats.device,
           test_failures);
    return test_failures != 0;
}

/* t_capture.c — gemm on operands in GPU memory inside CUDA graphs: capture, instantiate, replay.
 *
 *   t_capture --lib PATH
 *
 * The driver must be fail_cuda.c's, which counts allocations; the free memory that a driver reports depends on other programs, too. For shapes that
 * use every kind of kernel (whole tiles, shared tiles, packed operands, skinny, k = 0): the captured call allocates nothing and runs nothing; each
 * replay computes bitwise what a direct call computes, also after the operands have changed, after the stream's workspace has grown, and from two
 * graphs in turn. On a stream on which no call preceded the capture the product is right to rounding. */
#include "test.h"

#include "../bench/rig.h"
#include "faults.h"

#define GRAPHS(X)                                                                                                                                    \
    X(cuStreamBeginCapture_v2, (handle, int))                                                                                                        \
    X(cuStreamEndCapture, (handle, handle *))                                                                                                        \
    X(cuGraphInstantiateWithFlags, (handle *, handle, unsigned long long))                                                                           \
    X(cuGraphLaunch, (handle, handle))                                                                                                               \
    X(cuGraphExecDestroy, (handle))                                                                                                                  \
    X(cuGraphDestroy, (handle))                                                                                                                      \
    X(cuStreamDestroy_v2, (handle))
GRAPHS(POINTER)
static __typeof__(gpugemm_sgemm) *sgemm;
static __typeof__(gpugemm_dgemm) *dgemm;
static __typeof__(gpugemm_warmup) *warmup;
static struct faults *driver_calls;
static int allocation; /* index of the allocating function among the driver's functions */

struct shape {
    int64_t m, n, k;
    double alpha, beta;
};
static const struct shape shapes[] = {{100, 90, 110, 1, 0},      {1024, 1024, 1024, 1, 0}, {1000, 1000, 1000, -1, 0.7}, {2048, 1536, 2040, 1, 0},
                                      {64, 64, 65000, 1, 0},     {1, 2048, 2000, 1, 0},    {2048, 1, 2000, 0.7, 1},     {7, 2000, 2000, 1, 0},
                                      {511, 509, 8191, 1, 0},    {2047, 2045, 1025, 1, 1}, {300, 200, 0, 1, 0.7},       {300, 200, 50, 0, -1},
                                      {128, 128, 16384, 0.7, 0}, {4096, 4096, 64, 1, 0}};
enum { SHAPES = sizeof shapes / sizeof *shapes, MOST = PERIOD /* elements of A or B */ };

struct operands {
    bool dbl, ta, tb;
    device_ptr a, b, c;
};

static int gemm(const struct operands *x, const struct shape *s, handle on)
{
    int64_t lda = x->ta ? s->k : s->m, ldb = x->tb ? s->n : s->k;
    enum gpugemm_transpose ta = x->ta ? GPUGEMM_TRANS : GPUGEMM_NO_TRANS, tb = x->tb ? GPUGEMM_TRANS : GPUGEMM_NO_TRANS;
    lda += !lda, ldb += !ldb;
    return x->dbl ? dgemm(GPUGEMM_COL_MAJOR, ta, tb, s->m, s->n, s->k, s->alpha, (double *)x->a, lda, (double *)x->b, ldb, s->beta, (double *)x->c,
                          s->m, on)
                  : sgemm(GPUGEMM_COL_MAJOR, ta, tb, s->m, s->n, s->k, (float)s->alpha, (float *)x->a, lda, (float *)x->b, ldb, (float)s->beta,
                          (float *)x->c, s->m, on);
}

/* Sets C to its state before a call: random data if beta needs them, else NaN. */
static void reset(const struct operands *x, const struct shape *s)
{
    size_t bytes = (size_t)(s->m * s->n) * (x->dbl ? 8 : 4);
    if (s->beta != 0)
        cuMemcpyHtoD_v2(x->c, x->dbl ? (void *)random_d : random_s, bytes);
    else
        cuMemsetD32Async(x->c, ~0u, bytes / 4, NULL);
    cuCtxSynchronize();
}

static void *fetch(const struct operands *x, const struct shape *s, void *to)
{
    cuCtxSynchronize();
    cuMemcpyDtoH_v2(to, x->c, (size_t)(s->m * s->n) * (x->dbl ? 8 : 4));
    return to;
}

static handle capture(const struct operands *x, const struct shape *s, handle on, const char *what)
{
    handle graph = NULL, exec = NULL;
    CHECK(!cuStreamBeginCapture_v2(on, 0 /* CU_STREAM_CAPTURE_MODE_GLOBAL: whatever is not allowed in a capture ends it */), "%s: no capture", what);
    const unsigned long before = driver_calls->calls[allocation];
    int status = gemm(x, s, on), ended = cuStreamEndCapture(on, &graph);
    const unsigned long allocations = driver_calls->calls[allocation] - before;
    CHECK(status == 0, "%s: status %d in the capture", what, status);
    CHECK(ended == 0 && graph, "%s: the capture ended with %d", what, ended);
    CHECK(allocations == 0, "%s: %lu allocations in the capture", what, allocations);
    CHECK(!cuGraphInstantiateWithFlags(&exec, graph, 0), "%s: the graph cannot be instantiated", what);
    cuGraphDestroy(graph);
    return exec;
}

static void run(bool dbl, int layout, struct operands *x, void *before, void *after)
{
    handle on, execs[SHAPES];
    char what[SHAPES][80];
    x->dbl = dbl, x->ta = layout & 2, x->tb = layout & 1;
    cuStreamCreate(&on, 1 /* CU_STREAM_NON_BLOCKING */);
    for (int i = 0; i < SHAPES; i++) {
        const struct shape *s = &shapes[i];
        size_t bytes = (size_t)(s->m * s->n) * (dbl ? 8 : 4);
        snprintf(what[i], sizeof what[i], "%cgemm %c%c %lldx%lldx%lld", dbl ? 'd' : 's', x->ta ? 'T' : 'N', x->tb ? 'T' : 'N', (long long)s->m,
                 (long long)s->n, (long long)s->k);
        reset(x, s);
        int status = gemm(x, s, on);
        CHECK(status == 0, "%s: status %d", what[i], status);
        fetch(x, s, before);
        reset(x, s);
        execs[i] = capture(x, s, on, what[i]);
        fetch(x, s, after);
        CHECK(s->beta != 0 ? !memcmp(after, dbl ? (void *)random_d : random_s, bytes) : *(uint32_t *)after == ~0u, "%s: the captured call ran",
              what[i]);
        for (int replay = 0; replay < 3; replay++) {
            reset(x, s);
            CHECK(!cuGraphLaunch(execs[i], on), "%s: the graph cannot be launched", what[i]);
            CHECK(!memcmp(fetch(x, s, after), before, bytes), "%s: replay %d differs from the direct call", what[i], replay);
        }
    }
    /* Other operands in the same memory; the workspace has grown since the first captures; two graphs in turn. */
    device_ptr a = x->a;
    cuMemcpyDtoD_v2(a, x->b, (size_t)MOST * (dbl ? 8 : 4));
    for (int turn = 0; turn < 2; turn++)
        for (int i = 0; i < SHAPES; i++) {
            const struct shape *s = &shapes[i];
            reset(x, s);
            gemm(x, s, on);
            fetch(x, s, before);
            reset(x, s);
            CHECK(!cuGraphLaunch(execs[i], on), "%s: the graph cannot be launched", what[i]);
            CHECK(!memcmp(fetch(x, s, after), before, (size_t)(s->m * s->n) * (dbl ? 8 : 4)), "%s: replay with other operands differs", what[i]);
        }
    for (int i = 0; i < SHAPES; i++)
        cuGraphExecDestroy(execs[i]);
    cuStreamDestroy_v2(on);
}

/* The captured call is the first on its stream: there is no workspace, and none is allocated. */
static void run_unprepared(bool dbl, struct operands *x, void *result)
{
    x->dbl = dbl, x->ta = x->tb = false;
    for (int i = 0; i < SHAPES; i++) {
        const struct shape *s = &shapes[i];
        handle on;
        char what[80];
        int wrong = 0;
        snprintf(what, sizeof what, "%cgemm %lldx%lldx%lld on a new stream", dbl ? 'd' : 's', (long long)s->m, (long long)s->n, (long long)s->k);
        cuStreamCreate(&on, 1);
        reset(x, s);
        handle exec = capture(x, s, on, what);
        CHECK(!cuGraphLaunch(exec, on), "%s: the graph cannot be launched", what);
        fetch(x, s, result);
        for (int sample = 0; sample < 200; sample++) {
            int64_t r = sample * 7919 % s->m, c = sample * 104729 % s->n, at = r + c * s->m;
            long double sum, size;
            exact_element(dbl, s->alpha != 0 ? s->k : 0, r, s->m, c * s->k, 1, &sum, &size);
            double c0 = s->beta != 0 ? (dbl ? random_d[at] : random_s[at]) : 0, got = dbl ? ((double *)result)[at] : ((float *)result)[at];
            double alpha = dbl ? s->alpha : (float)s->alpha, beta = dbl ? s->beta : (float)s->beta;
            wrong += !(fabsl(got - (alpha * sum + beta * (long double)c0)) <= error_bound(dbl, s->k, alpha, (double)size, beta, c0));
        }
        CHECK(!wrong, "%s: %d of 200 wrong", what, wrong);
        cuGraphExecDestroy(exec), cuStreamDestroy_v2(on);
    }
}

int main(int argc, char **argv)
{
    const char *lib = "build/libgpugemm.so";
    for (int i = 1; i + 1 < argc; i++)
        lib = strcmp(argv[i], "--lib") ? lib : argv[i + 1];
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *library = dlopen(lib, RTLD_NOW | RTLD_LOCAL);
    bool all = driver != NULL;
#define FIND(name, arguments) all = resolved(driver, #name, &name) && all;
    GRAPHS(FIND)
    if (!library || !resolved(library, "gpugemm_sgemm", &sgemm) || !resolved(library, "gpugemm_dgemm", &dgemm) ||
        !resolved(library, "gpugemm_warmup", &warmup))
        return fprintf(stderr, "%s lacks names\n", lib), 1;
    if (warmup())
        return printf("skipped: no GPU\n"), SKIP;
    if (!all || !open_gpu())
        return fprintf(stderr, "the library has a GPU, the test has none: does fail_cuda.c hand on all functions of rig.h and of this test?\n"), 1;
    if (!(driver_calls = dlsym(driver, "fail_cuda")))
        return fprintf(stderr, "libcuda.so.1 is not that of fail_cuda.c\n"), 2;
    while (strncmp(driver_calls->names[allocation], "cuMemAlloc", 10))
        allocation++;
    driver_calls->armed = true; /* it counts calls; none is made to fail */
    draw_data();
    struct operands x = {0};
    void *before = malloc(8 * (size_t)PERIOD * 5), *after = malloc(8 * (size_t)PERIOD * 5);
    for (int dbl = 0; dbl < 2; dbl++) {
        size_t size = dbl ? 8 : 4, half = B_STARTS * size, most = (size_t)MOST * size;
        const char *data = dbl ? (char *)random_d : (char *)random_s;
        if (cuMemAlloc_v2(&x.a, most) || cuMemAlloc_v2(&x.b, most) || cuMemAlloc_v2(&x.c, 5 * most))
            return printf("skipped: no GPU memory\n"), SKIP;
        for (int layout = -1; layout < 4; layout++) {
            cuMemcpyHtoD_v2(x.a, data, PERIOD * size);
            cuMemcpyHtoD_v2(x.b, data + half, PERIOD * size - half), cuMemcpyHtoD_v2(x.b + (PERIOD * size - half), data, half);
            if (layout < 0)
                run_unprepared(dbl, &x, after);
            else
                run(dbl, layout, &x, before, after);
        }
        cuMemFree_v2(x.a), cuMemFree_v2(x.b), cuMemFree_v2(x.c);
    }
    printf("%d shapes, both types, all layouts: %d failures\n", SHAPES, test_failures);
    return test_failures != 0;
}

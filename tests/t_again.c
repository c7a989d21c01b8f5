/* t_again.c — calls that come again and again, whose launches become graphs (src/enqueue.c): with the same operands and others, of one kernel or two,
 * in turn with calls of another shape, which get none, among other shapes, while the stream is being captured, from several threads on one stream and
 * each on its own per-thread stream, when the driver refuses a graph, and after the context was reset. Every C is right, and the driver was asked for
 * what was expected. With GPUGEMM_KERNEL naming a GG_PERSISTENT row a deep product takes two kernels, with a GG_TMA… row in FP32 a packed one, and
 * with a GG_TENSOR… row there are chains.
 *
 *   t_again --lib PATH
 *
 * The driver must be fail_cuda.c's, in front of the real one or of fake_cuda.c. But for chains operands are small integers: results are exact. */
#include <dlfcn.h>
#include <pthread.h>

#include "../include/gpugemm.h"
#include "faults.h"
#include "test.h"

typedef void *handle;
#define DRIVER(X)                                                                                                                                    \
    X(cuInit, (unsigned))                                                                                                                            \
    X(cuDevicePrimaryCtxRetain, (handle *, int))                                                                                                     \
    X(cuDevicePrimaryCtxReset_v2, (int))                                                                                                             \
    X(cuCtxSetCurrent, (handle))                                                                                                                     \
    X(cuCtxSynchronize, (void))                                                                                                                      \
    X(cuMemAlloc_v2, (uint64_t *, size_t))                                                                                                           \
    X(cuMemcpyHtoD_v2, (uint64_t, const void *, size_t))                                                                                             \
    X(cuMemcpyDtoH_v2, (void *, uint64_t, size_t))                                                                                                   \
    X(cuStreamCreateWithPriority, (handle *, unsigned, int))                                                                                         \
    X(cuStreamSynchronize, (handle))                                                                                                                 \
    X(cuStreamDestroy_v2, (handle))                                                                                                                  \
    X(cuStreamGetId, (handle, unsigned long long *))                                                                                                 \
    X(cuStreamBeginCapture_v2, (handle, int))                                                                                                        \
    X(cuStreamEndCapture, (handle, handle *))                                                                                                        \
    X(cuGraphInstantiateWithFlags, (handle *, handle, unsigned long long))                                                                           \
    X(cuGraphLaunch, (handle, handle))
#define POINTER(name, parameters) static int(*name) parameters;
DRIVER(POINTER)
static __typeof__(gpugemm_dgemm) *dgemm;
static __typeof__(gpugemm_sgemm) *sgemm;
static __typeof__(gpugemm_set_precision) *set_precision;
static struct faults *driver;

enum { SETS = 3, MOST = 96, THREADS = 4, REPEATS = 60, PER_THREAD = 2 /* CU_STREAM_PER_THREAD */ };
enum { SPACES = 128, SLOTS = 64 }; /* FOR_PROGRAMS and REPEATS of src/driver.h */
static double host_a[SETS][MOST * MOST], host_b[SETS][MOST * MOST];
static uint64_t a[SETS], b[SETS]; /* the same in GPU memory */
static handle context;

#define GOOD(call) CHECK((call) == 0, "%s failed", #call)

static unsigned long asked(const char *name) { return driver->calls[fault_function(driver, name)]; }

static void open_gpu(void)
{
    GOOD(cuDevicePrimaryCtxRetain(&context, 0));
    GOOD(cuCtxSetCurrent(context));
    for (int i = 0; i < SETS; i++) {
        GOOD(cuMemAlloc_v2(&a[i], sizeof host_a[i]));
        GOOD(cuMemAlloc_v2(&b[i], sizeof host_b[i]));
        GOOD(cuMemcpyHtoD_v2(a[i], host_a[i], sizeof host_a[i]));
        GOOD(cuMemcpyHtoD_v2(b[i], host_b[i], sizeof host_b[i]));
    }
    GOOD(cuCtxSynchronize());
}

static handle new_stream(void)
{
    handle made = NULL;
    GOOD(cuStreamCreateWithPriority(&made, 1 /* CU_STREAM_NON_BLOCKING */, 0));
    return made;
}

/* A C of its own in GPU memory, poisoned. */
static uint64_t new_c(void)
{
    uint64_t c = 0;
    GOOD(cuMemAlloc_v2(&c, sizeof host_a[0]));
    return c;
}

static void poison(uint64_t c)
{
    static const double nothing[MOST * MOST] = {[0 ... MOST * MOST - 1] = 1e300};
    GOOD(cuMemcpyHtoD_v2(c, nothing, sizeof nothing));
    GOOD(cuCtxSynchronize()); /* or it might come after the call on another stream */
}

static int gemm(int n, int set, double alpha, uint64_t c, handle on)
{
    return dgemm(GPUGEMM_COL_MAJOR, GPUGEMM_NO_TRANS, GPUGEMM_NO_TRANS, n, n, n, alpha, (double *)a[set], n, (double *)b[set], n, 0, (double *)c, n,
                 on);
}

static void check(int n, int set, double alpha, uint64_t c, handle on, const char *what, int nth)
{
    static _Thread_local double got[MOST * MOST];
    int wrong = 0;
    GOOD(cuStreamSynchronize(on));
    GOOD(cuMemcpyDtoH_v2(got, c, sizeof got));
    for (int j = 0; j < n; j++)
        for (int i = 0; i < n; i++) {
            double sum = 0;
            for (int k = 0; k < n; k++)
                sum += host_a[set][i + k * n] * host_b[set][k + j * n];
            wrong += got[i + j * n] != alpha * sum;
        }
    for (int i = n * n; i < MOST * MOST; i++)
        wrong += got[i] != 1e300;
    CHECK(!wrong, "%s, call %d: %d elements are wrong", what, nth, wrong);
}

static void right(int n, int set, double alpha, uint64_t c, handle on, const char *what, int nth)
{
    poison(c);
    const int status = gemm(n, set, alpha, c, on);
    CHECK(!status, "%s, call %d: status %d", what, nth, status);
    check(n, set, alpha, c, on, what, nth);
}

/* So many calls of n, each with the next set of operands, and how many of them were launched as graphs. */
static unsigned long repeat(int n, int calls, int sets, handle on, const char *what)
{
    const unsigned long before = asked("cuGraphLaunch");
    const uint64_t c = new_c();
    for (int i = 0; i < calls; i++)
        right(n, i % sets, 1 + i / 7 % 3, c, on, what, i);
    return asked("cuGraphLaunch") - before;
}

static void same_and_others(handle on)
{
    unsigned long graphs = repeat(64, REPEATS, 1, on, "the same operands"), kernels = asked("cuLaunchKernel");
    const unsigned long others = asked("cuGraphExecKernelNodeSetParams_v2");
    CHECK(graphs >= REPEATS / 2, "the same call %d times: %lu graphs", REPEATS, graphs);
    CHECK(others <= REPEATS / 7 + 1, "the same call, with another alpha each seventh time: %lu times other arguments", others);
    graphs = repeat(64, REPEATS, SETS, on, "other operands");
    CHECK(graphs == REPEATS, "other operands %d times: %lu graphs", REPEATS, graphs); /* the launch before was the same */
    CHECK(asked("cuLaunchKernel") == kernels, "a call that has a graph launches a kernel, too");
    graphs = asked("cuGraphLaunch");
    for (int i = 0; i < REPEATS; i++)
        repeat(i % 2 ? 64 : 96, 1, SETS, on, "two shapes in turn");
    CHECK(asked("cuGraphLaunch") == graphs, "graphs for two shapes in turn");
    for (int n = 1; n <= MOST; n++)
        repeat(n, 2, 1, on, "other shapes");
    graphs = repeat(64, REPEATS, SETS, on, "after other shapes");
    CHECK(graphs >= REPEATS / 2, "after other shapes %d times: %lu graphs", REPEATS, graphs);
}

/* Does GPUGEMM_KERNEL name such a row? */
static bool forced(const char *row)
{
    const char *const name = getenv("GPUGEMM_KERNEL");
    return name && strncmp(name, row, strlen(row)) == 0;
}

/* C of 64×64 and a k so long that blocks share its tile, through the stream's workspace. */
enum { N = 64, K = 2048, DEEPER = 4 * K, SIZE = N * DEEPER };
static uint64_t deep_a, deep_b, deep_c;
static double sums[2][N * N];

static void draw_deep(void)
{
    static double x[SIZE], y[SIZE];
    for (int i = 0; i < SIZE; i++)
        x[i] = i % 7 - 3, y[i] = i % 5 - 2;
    for (int which = 0; which < 2; which++)
        for (int j = 0; j < N; j++)
            for (int l = 0; l < (which ? DEEPER : K); l++)
                for (int i = 0; i < N; i++)
                    sums[which][i + j * N] += x[i + l * N] * y[l + j * (which ? DEEPER : K)];
    GOOD(cuMemAlloc_v2(&deep_a, sizeof x));
    GOOD(cuMemAlloc_v2(&deep_b, sizeof y));
    GOOD(cuMemAlloc_v2(&deep_c, sizeof sums[0]));
    GOOD(cuMemcpyHtoD_v2(deep_a, x, sizeof x));
    GOOD(cuMemcpyHtoD_v2(deep_b, y, sizeof y));
    GOOD(cuCtxSynchronize());
}

static void deep_call(bool deeper, int alpha, handle on, const char *what, int nth)
{
    static double got[N * N];
    const int k = deeper ? DEEPER : K;
    CHECK(!dgemm(GPUGEMM_COL_MAJOR, GPUGEMM_NO_TRANS, GPUGEMM_NO_TRANS, N, N, k, alpha, (double *)deep_a, N, (double *)deep_b, k, 0, (double *)deep_c,
                 N, on),
          "%s, call %d", what, nth);
    GOOD(cuStreamSynchronize(on));
    GOOD(cuMemcpyDtoH_v2(got, deep_c, sizeof got));
    int wrong = 0;
    for (int e = 0; e < N * N; e++)
        wrong += got[e] != alpha * sums[deeper][e];
    CHECK(!wrong, "%s, call %d: %d elements are wrong", what, nth, wrong);
}

/* While the call repeats, the workspace must grow for a deeper one. */
static void deep(handle on)
{
    const unsigned long launched = asked("cuGraphLaunch"), made = asked("cuGraphInstantiateWithFlags"), nodes = asked("cuGraphAddKernelNode_v2");
    for (int i = 0; i < 3 * REPEATS; i++)
        deep_call(i == 2 * REPEATS, 1 + i / 9 % 3, on, "deep", i);
    const unsigned long graphs = asked("cuGraphInstantiateWithFlags") - made;
    CHECK(asked("cuGraphLaunch") - launched >= REPEATS && graphs > 0, "%d deep calls, %lu graphs made, %lu launched", 3 * REPEATS, graphs,
          asked("cuGraphLaunch") - launched);
    CHECK(!forced("dgemm") || asked("cuGraphAddKernelNode_v2") - nodes == 2 * graphs, "%lu kernels in %lu graphs",
          asked("cuGraphAddKernelNode_v2") - nodes, graphs);
}

static unsigned long long slot(handle stream)
{
    unsigned long long id = 0;
    GOOD(cuStreamGetId(stream, &id));
    return id % SLOTS;
}

/* Between two calls of a stream that has a graph as many other streams call as there are workspaces, so that its own is freed: it must get another.
 * The others do not use the place of its graph. */
static void robbed(handle on)
{
    handle others[SPACES];
    for (int i = 0; i < REPEATS; i++)
        deep_call(false, 1, on, "before others", i);
    const unsigned long launched = asked("cuGraphLaunch"), freed = asked("cuMemFree_v2");
    for (int i = 0; i < SPACES; i++) {
        do
            others[i] = new_stream();
        while (slot(others[i]) == slot(on));
        deep_call(false, 2, others[i], "others", i);
    }
    const unsigned long others_got = asked("cuMemAlloc_v2");
    for (int i = 0; i < 3; i++)
        deep_call(false, 1, on, "after others", i);
    CHECK(asked("cuGraphLaunch") - launched >= 3, "the graph was not launched again");
    CHECK(!forced("dgemm") || (asked("cuMemFree_v2") > freed && asked("cuMemAlloc_v2") > others_got), "the stream got no other workspace");
    for (int i = 0; i < SPACES; i++)
        GOOD(cuStreamDestroy_v2(others[i]));
}

/* In FP32, of odd sizes: a row fed by TMA has both operands packed first, and starts while that is still under way. */
static void packed(handle on)
{
    enum { N = 65 };
    static float x[N * N], y[N * N], got[N * N];
    uint64_t on_gpu[3];
    for (int i = 0; i < N * N; i++)
        x[i] = (float)(i % 7 - 3), y[i] = (float)(i % 5 - 2);
    for (int i = 0; i < 3; i++)
        GOOD(cuMemAlloc_v2(&on_gpu[i], sizeof x));
    GOOD(cuMemcpyHtoD_v2(on_gpu[0], x, sizeof x));
    GOOD(cuMemcpyHtoD_v2(on_gpu[1], y, sizeof y));
    GOOD(cuCtxSynchronize());
    const unsigned long made = asked("cuGraphInstantiateWithFlags"), early = asked("cuGraphAddDependencies_v2");
    for (int nth = 0; nth < 3 * REPEATS; nth++) {
        const int alpha = 1 + nth / 9 % 3;
        CHECK(!sgemm(GPUGEMM_COL_MAJOR, GPUGEMM_NO_TRANS, GPUGEMM_TRANS, N, N, N, (float)alpha, (float *)on_gpu[0], N, (float *)on_gpu[1], N, 0,
                     (float *)on_gpu[2], N, on),
              "packed call %d", nth);
        GOOD(cuStreamSynchronize(on));
        GOOD(cuMemcpyDtoH_v2(got, on_gpu[2], sizeof got));
        int wrong = 0;
        for (int j = 0; j < N; j++)
            for (int i = 0; i < N; i++) {
                float sum = 0;
                for (int l = 0; l < N; l++)
                    sum += x[i + l * N] * y[j + l * N];
                wrong += got[i + j * N] != (float)alpha * sum;
            }
        CHECK(!wrong, "packed call %d: %d elements are wrong", nth, wrong);
    }
    const unsigned long graphs = asked("cuGraphInstantiateWithFlags") - made;
    CHECK(graphs > 0 && (!forced("sgemm_tma") || asked("cuGraphAddDependencies_v2") - early == graphs), "%lu graphs, %lu early kernels in them",
          graphs, asked("cuGraphAddDependencies_v2") - early);
}

/* A product that only the forced row makes a chain of. The rows of two As: the second has an element so large that all else in its row is lost beside
 * it, for which no tensor core is accurate enough. */
enum { ROWS = 96, DEPTH = 1024, ALL = ROWS * DEPTH };
static uint64_t chain_a[2], chain_b, chain_c;

static void draw_chain(bool dbl)
{
    static double x[ALL];
    static float f[ALL];
    double some[64];
    uint64_t seed = 2, *const to[] = {&chain_a[0], &chain_a[1], &chain_b};
    for (int i = 0; i < 64; i++)
        some[i] = 1.5 + rng_real(&seed); /* all certified, fake_cuda.c's way, too */
    for (int which = 0; which < 3; which++) {
        for (int i = 0; i < ALL; i++)
            x[i] = some[rng_below(&seed, 64)];
        if (which == 1)
            x[ALL / 2 + 5] = 0x1p90;
        for (int i = 0; i < ALL; i++)
            f[i] = (float)x[i];
        GOOD(cuMemAlloc_v2(to[which], sizeof x));
        GOOD(cuMemcpyHtoD_v2(*to[which], dbl ? (void *)x : f, dbl ? sizeof x : sizeof f));
    }
    GOOD(cuMemAlloc_v2(&chain_c, ROWS * ROWS * sizeof *x));
    GOOD(cuCtxSynchronize());
}

static void chain_call(bool dbl, int which, handle on, unsigned char *got)
{
    void *const x = (void *)chain_a[which], *const y = (void *)chain_b, *const z = (void *)chain_c;
    CHECK(!(dbl ? dgemm(GPUGEMM_COL_MAJOR, GPUGEMM_TRANS, GPUGEMM_NO_TRANS, ROWS, ROWS, DEPTH, 1, x, DEPTH, y, DEPTH, 0, z, ROWS, on)
                : sgemm(GPUGEMM_COL_MAJOR, GPUGEMM_TRANS, GPUGEMM_NO_TRANS, ROWS, ROWS, DEPTH, 1, x, DEPTH, y, DEPTH, 0, z, ROWS, on)),
          "a chain's call");
    if (!got)
        return;
    GOOD(cuStreamSynchronize(on));
    GOOD(cuMemcpyDtoH_v2(got, chain_c, ROWS * ROWS * (dbl ? sizeof(double) : sizeof(float))));
}

/* Operands that no tensor core serves must not keep the next call from them, which would show in the bits of C: strict precision's differ. Others
 * come two or three at once, so that a call finds the one before it under way. */
static void chains(handle on)
{
    static unsigned char chain[2][ROWS * ROWS * sizeof(double)], strict[sizeof chain[0]], got[sizeof chain[0]];
    const bool dbl = forced("tensor_int8");
    const size_t bytes = ROWS * ROWS * (dbl ? sizeof(double) : sizeof(float));
    set_precision(GPUGEMM_PRECISION_STRICT);
    chain_call(dbl, 0, on, strict);
    set_precision(GPUGEMM_PRECISION_FP32);
    for (int which = 0; which < 2; which++)
        chain_call(dbl, which, on, chain[which]);
    CHECK(memcmp(chain[0], strict, bytes), "strict precision has the chain's bits, so this test can tell nothing");
    const unsigned long graphs = asked("cuGraphLaunch"), others = asked("cuGraphExecKernelNodeSetParams_v2");
    for (int i = 0; i < 3 * REPEATS; i++) {
        const int which = i > REPEATS && i % 5 == 3;
        for (int more = i % 3; more > 0; more--)
            chain_call(dbl, which, on, NULL);
        chain_call(dbl, which, on, got);
        CHECK(!memcmp(got, chain[which], bytes), "call %d of a chain, with operands %d, has other bits", i, which);
    }
    CHECK(asked("cuGraphLaunch") - graphs >= 4 * REPEATS, "%lu graphs for %d calls of a chain", asked("cuGraphLaunch") - graphs, 6 * REPEATS);
    CHECK(asked("cuGraphExecKernelNodeSetParams_v2") > others, "no other arguments");
    driver->error = 2; /* CUDA_ERROR_OUT_OF_MEMORY */
    driver->mode = FAULT_ONCE;
    /* Graphs are given up and made anew, whichever's turn it was, also with operands that rule the tensor cores out. */
    for (int i = 0; i < REPEATS; i++) {
        if (i % 5 == 0) {
            driver->nth = asked("cuGraphExecKernelNodeSetParams_v2") + 1;
            driver->function = fault_function(driver, "cuGraphExecKernelNodeSetParams_v2");
        }
        chain_call(dbl, i % 3 == 1, on, got);
        CHECK(!memcmp(got, chain[i % 3 == 1], bytes), "call %d of a chain, whose graphs are made anew, has other bits", i);
    }
    driver->function = -1;
    set_precision(GPUGEMM_PRECISION_DEFAULT);
}

static void captured(handle on)
{
    handle graph = NULL, exec = NULL;
    const uint64_t c = new_c();
    poison(c);
    const unsigned long before = asked("cuGraphLaunch");
    GOOD(cuStreamBeginCapture_v2(on, 0));
    CHECK(!gemm(64, 1, 2, c, on), "a call in a capture");
    GOOD(cuStreamEndCapture(on, &graph));
    CHECK(graph && asked("cuGraphLaunch") == before, "a graph is launched in a capture");
    GOOD(cuGraphInstantiateWithFlags(&exec, graph, 0));
    right(64, 0, 1, new_c(), on, "after a capture", 0);
    GOOD(cuGraphLaunch(exec, on));
    check(64, 1, 2, c, on, "the captured call", 0);
}

static handle shared;

static void *caller(void *mine)
{
    const int set = (int)(uintptr_t)mine % SETS;
    GOOD(cuCtxSetCurrent(context));
    const uint64_t c = new_c(), d = new_c();
    for (int i = 0; i < REPEATS; i++) {
        right(64, set, 3, c, shared, "one stream for all", i);
        right(64, set, 2, d, (handle)(uintptr_t)PER_THREAD, "a thread's own stream", i);
    }
    return NULL;
}

static void threads(void)
{
    pthread_t thread[THREADS];
    shared = new_stream();
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK(!pthread_create(&thread[i], NULL, caller, (void *)i), "no thread");
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
}

static void fails(const char *function, enum fault_mode mode)
{
    enum { OUT_OF_MEMORY = 2 }; /* CUDA_ERROR_OUT_OF_MEMORY, which a context survives */
    char what[80];
    snprintf(what, sizeof what, "%s fails %s", function, mode == FAULT_ONCE ? "once" : "always");
    const handle on = new_stream();
    driver->error = OUT_OF_MEMORY;
    driver->mode = mode;
    driver->struck = 0;
    driver->nth = asked(function) + 1;
    driver->function = fault_function(driver, function);
    for (int i = 0; i < 5 && !driver->struck; i++) /* another launch may have had the place until now */
        repeat(64, REPEATS, SETS, on, what);
    CHECK(driver->struck > 0, "%s: it was not called", what);
    driver->function = -1;
    repeat(64, REPEATS, SETS, on, what);
}

static void reset(handle *on)
{
    GOOD(cuDevicePrimaryCtxReset_v2(0));
    open_gpu();
    *on = new_stream();
    const unsigned long graphs = repeat(64, REPEATS, SETS, *on, "after a reset");
    CHECK(graphs >= REPEATS / 2, "after a reset %d times: %lu graphs", REPEATS, graphs);
}

int main(int argc, char **argv)
{
    const char *lib = "build/libgpugemm.so";
    for (int i = 1; i + 1 < argc; i++)
        lib = strcmp(argv[i], "--lib") ? lib : argv[i + 1];
    void *cuda = dlopen("libcuda.so.1", RTLD_NOW), *library = dlopen(lib, RTLD_NOW | RTLD_LOCAL);
    dgemm = library ? (__typeof__(dgemm))dlsym(library, "gpugemm_dgemm") : NULL;
    sgemm = library ? (__typeof__(sgemm))dlsym(library, "gpugemm_sgemm") : NULL;
    int (*const warmup)(void) = library ? (int (*)(void))dlsym(library, "gpugemm_warmup") : NULL;
    driver = cuda ? dlsym(cuda, "fail_cuda") : NULL;
    set_precision = library ? (__typeof__(set_precision))dlsym(library, "gpugemm_set_precision") : NULL;
    if (!dgemm || !sgemm || !set_precision || !warmup)
        return fprintf(stderr, "%s lacks names\n", lib), 1;
    if (warmup())
        return printf("skipped: no GPU\n"), SKIP;
    if (!driver)
        return fprintf(stderr, "libcuda.so.1 is not that of fail_cuda.c\n"), 2;
#define FIND(name, parameters)                                                                                                                       \
    if (!(*(void **)&name = dlsym(cuda, #name)))                                                                                                     \
        return fprintf(stderr, "no %s\n", #name), 1;
    DRIVER(FIND)
    uint64_t seed = 1;
    for (int set = 0; set < SETS; set++)
        for (int i = 0; i < MOST * MOST; i++)
            host_a[set][i] = (double)(rng(&seed) % 19) - 9, host_b[set][i] = (double)(rng(&seed) % 19) - 9;
    driver->function = -1;
    driver->armed = true;
    GOOD(cuInit(0));
    open_gpu();
    handle on = new_stream();
    same_and_others(on);
    draw_deep();
    if (forced("tensor"))
        draw_chain(forced("tensor_int8")); /* before the scratch of many streams fills the memory */
    deep(on);
    robbed(on);
    packed(on);
    if (forced("tensor"))
        chains(on);
    reset(&on); /* before the library gives back what it holds, which it does when idle: it could not tell that this is gone meanwhile */
    captured(on);
    threads();
    static const char *const functions[] = {"cuGraphCreate",       "cuGraphAddKernelNode_v2", "cuGraphInstantiateWithFlags",
                                            "cuStreamGetPriority", "cuGraphLaunch",           "cuGraphExecKernelNodeSetParams_v2",
                                            "cuStreamGetId"};
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        fails(functions[i], FAULT_ONCE), fails(functions[i], FAULT_FUNCTION);
    repeat(64, REPEATS, SETS, NULL, "the legacy stream");
    printf("%lu graphs made, %lu launched, %lu times other arguments: %d failures\n", asked("cuGraphInstantiateWithFlags"), asked("cuGraphLaunch"),
           asked("cuGraphExecKernelNodeSetParams_v2"), test_failures);
    return test_failures != 0;
}

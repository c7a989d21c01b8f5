/* t_beside.c — beside a program's own CUDA, on fake_cuda.c, whose streams are slow: the first calls of two threads at once, calls of a thread that has
 * no current context, and memory that belongs to no context.
 *
 *   t_beside --lib PATH */
#include "test.h"

#include <cuda.h>
#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../include/gpugemm.h"

#define DRIVER(X)                                                                                                                                    \
    X(cuInit, cuInit)                                                                                                                                \
    X(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain)                                                                                            \
    X(cuCtxSetCurrent, cuCtxSetCurrent)                                                                                                              \
    X(cuCtxGetCurrent, cuCtxGetCurrent)                                                                                                              \
    X(cuMemAlloc_v2, cuMemAlloc)                                                                                                                     \
    X(cuMemAllocAsync, cuMemAllocAsync)                                                                                                              \
    X(cuMemHostAlloc, cuMemHostAlloc)                                                                                                                \
    X(cuMemcpyAsync, cuMemcpyAsync)                                                                                                                  \
    X(cuMemsetD8Async, cuMemsetD8Async)                                                                                                              \
    X(cuStreamCreateWithPriority, cuStreamCreateWithPriority)                                                                                        \
    X(cuStreamSynchronize, cuStreamSynchronize)
static struct {
#define X(symbol, name) __typeof__(name) *at_##name;
    DRIVER(X)
#undef X
} cu;
#define GOOD(call) CHECK((call) == CUDA_SUCCESS, "%s failed", #call)

enum { N = 96, ELEMENTS = N * N, BYTES = ELEMENTS * sizeof(double) };

static __typeof__(gpugemm_dgemm) *gemm;
static __typeof__(gpugemm_last_decision) *last_decision;
static void (*blas)(const char *, const char *, const int *, const int *, const int *, const double *, const double *, const int *, const double *,
                    const int *, const double *, double *, const int *, size_t, size_t);

static CUcontext context;
static CUstream stream;

/* The library's own start has made no context yet when a test begins: each is a process. */
static void open_driver(void)
{
    void *const driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver)
        exit(SKIP);
#define X(symbol, name) *(void **)&cu.at_##name = dlsym(driver, #symbol);
    DRIVER(X)
#undef X
    GOOD(cu.at_cuInit(0));
    GOOD(cu.at_cuDevicePrimaryCtxRetain(&context, 0));
    GOOD(cu.at_cuCtxSetCurrent(context));
    GOOD(cu.at_cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0));
}

static double *on_host(void)
{
    void *memory = NULL;
    GOOD(cu.at_cuMemHostAlloc(&memory, BYTES, 0));
    return memory;
}

static CUdeviceptr on_gpu(bool stream_ordered)
{
    CUdeviceptr memory = 0;
    if (stream_ordered)
        GOOD(cu.at_cuMemAllocAsync(&memory, BYTES, stream));
    else
        GOOD(cu.at_cuMemAlloc(&memory, BYTES));
    GOOD(cu.at_cuMemsetD8Async(memory, 0, BYTES, stream));
    GOOD(cu.at_cuStreamSynchronize(stream));
    return memory;
}

/* ---- two first calls at once: both must learn that CUDA is loaded ------------------------------------------------------------------------- */

static pthread_barrier_t together;

static void *first_call(void *memory)
{
    const int n = N;
    const double one = 1, zero = 0, *const a = memory;
    GOOD(cu.at_cuCtxSetCurrent(context));
    pthread_barrier_wait(&together);
    blas("N", "N", &n, &n, &n, &one, a, &n, a, &n, &zero, (double *)memory, &n, 1, 1); /* zeros: C may be A. Were it host memory: a crash */
    return NULL;
}

static void two_first_calls(void)
{
    pthread_t threads[2];
    open_driver();
    usleep(20000); /* a tick of the clock */
    pthread_barrier_init(&together, NULL, 2);
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, first_call, (void *)on_gpu(false));
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
}

/* ---- a thread without a context, host operands that a stream is writing --------------------------------------------------------------------- */

struct written {
    double *a, *b, *c;
    CUstream stream;
};

static void *without_context(void *argument)
{
    const struct written *w = argument;
    CUcontext now = NULL;
    int wrong = 0;
    const int status = gemm(102, 111, 111, N, N, N, 1, w->a, N, w->b, N, 0, w->c, N, w->stream);
    for (int i = 0; i < ELEMENTS; i++)
        wrong += w->c[i] != 2 * 3 * N;
    CHECK(status == GPUGEMM_SUCCESS && !wrong, "without a context: status %d, %d wrong", status, wrong);
    GOOD(cu.at_cuCtxGetCurrent(&now));
    CHECK(!now, "a context was left current");
    return NULL;
}

static void written_by(bool legacy)
{
    enum { LATER = 200 << 20 };
    open_driver();
    struct written w = {on_host(), on_host(), on_host(), legacy ? NULL : stream};
    const CUstream writer = legacy ? CU_STREAM_LEGACY : stream;
    const CUdeviceptr two = on_gpu(false);
    CUdeviceptr busy = 0;
    pthread_t thread;
    double *const twos = on_host();
    for (int i = 0; i < ELEMENTS; i++)
        twos[i] = 2, w.a[i] = -7, w.b[i] = 3, w.c[i] = -1;
    GOOD(cu.at_cuMemcpyAsync(two, (CUdeviceptr)twos, BYTES, stream));
    GOOD(cu.at_cuStreamSynchronize(stream));
    GOOD(cu.at_cuMemAlloc(&busy, LATER));
    for (int i = 0; i < 5; i++)
        GOOD(cu.at_cuMemsetD8Async(busy, 1, LATER, writer));
    GOOD(cu.at_cuMemcpyAsync((CUdeviceptr)w.a, two, BYTES, writer));
    pthread_create(&thread, NULL, without_context, &w);
    pthread_join(thread, NULL);
}

static void written_by_stream(void) { written_by(false); }
static void written_by_legacy(void) { written_by(true); }

/* ---- memory of no context is every context's: nothing is copied ------------------------------------------------------------------------------ */

static void stream_ordered(void)
{
    open_driver();
    for (int kinds = 0; kinds < 8; kinds++) {
        struct gpugemm_decision d = {0};
        void *const a = (void *)on_gpu(kinds & 1), *const b = (void *)on_gpu(kinds & 2), *const c = (void *)on_gpu(kinds & 4);
        const int status = gemm(102, 111, 111, N, N, N, 1, a, N, b, N, 0, c, N, stream);
        last_decision(&d, sizeof d);
        CHECK(status == GPUGEMM_SUCCESS && !strcmp(d.path, "device"), "stream-ordered %d: status %d, path %s", kinds, status, d.path);
        GOOD(cu.at_cuStreamSynchronize(stream));
    }
}

int main(int argc, char **argv)
{
    static const struct {
        void (*run)(void);
        int times;
        const char *what;
    } tests[] = {{two_first_calls, 24, "two first calls"},
                 {written_by_stream, 1, "a stream writes"},
                 {written_by_legacy, 1, "the legacy stream writes"},
                 {stream_ordered, 1, "stream-ordered memory"}};
    const char *const path = argc == 3 && !strcmp(argv[1], "--lib") ? argv[2] : NULL;
    void *const lib = path ? dlopen(path, RTLD_NOW) : NULL;
    if (!lib)
        return fprintf(stderr, "usage: t_beside --lib PATH\n"), 64;
    *(void **)&gemm = dlsym(lib, "gpugemm_dgemm");
    *(void **)&last_decision = dlsym(lib, "gpugemm_last_decision");
    *(void **)&blas = dlsym(lib, "dgemm_");
    for (size_t t = 0; t < sizeof tests / sizeof *tests; t++)
        for (int i = 0; i < tests[t].times; i++) {
            int status = -1;
            const pid_t child = fork();
            if (child == 0) {
                test_failures = 0;
                alarm(60);
                tests[t].run();
                _exit(test_failures != 0);
            }
            waitpid(child, &status, 0);
            CHECK(status == 0, "%s, process %d: wait status %d", tests[t].what, i, status);
        }
    printf("%d failures\n", test_failures);
    return test_failures != 0;
}

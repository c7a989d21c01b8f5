/* t_scratch.c — programs whose operands are in GPU memory, and what the library keeps for their streams: a captured call for which there is not
 * enough of it, captures on a thread's own stream, threads that end; calls that do nothing; a forked child. Each runs in a process of its own.
 *
 *   t_scratch --lib LIB [--only NAME]
 *
 * Run with GPUGEMM_KERNEL=tensor_fp16, whose calls want scratch at any size. */
#include <cuda.h>
#include <pthread.h>

#include "programs.h"

/* clang-format off */
#define DRIVER(X)                                                                                                                                    \
    X(cuInit) X(cuDeviceGet) X(cuDevicePrimaryCtxRetain) X(cuCtxSetCurrent) X(cuCtxSynchronize) X(cuMemAlloc) X(cuMemcpyHtoD) X(cuMemcpyDtoH)        \
    X(cuMemGetInfo) X(cuMemsetD8Async) X(cuStreamCreateWithPriority) X(cuStreamBeginCapture) X(cuStreamEndCapture) X(cuStreamSynchronize)            \
    X(cuGraphInstantiateWithFlags) X(cuGraphLaunch) X(cuGraphDestroy) X(cuGraphExecDestroy)
/* clang-format on */
static struct {
#define X(name) __typeof__(name) *name;
    DRIVER(X)
#undef X
} cu;

#define GOOD(call) CHECK((call) == CUDA_SUCCESS, "%s failed", #call)

enum { MOST = 700 };
static __typeof__(gpugemm_sgemm) *sgemm;
static CUcontext context;
static float *a, *b, *c, host[MOST * MOST], right[MOST * MOST], got[MOST * MOST];

static void open_gpu(void)
{
    CUdevice device;
    CUdeviceptr memory[3];
    GOOD(cu.cuInit(0));
    GOOD(cu.cuDeviceGet(&device, 0));
    GOOD(cu.cuDevicePrimaryCtxRetain(&context, device));
    GOOD(cu.cuCtxSetCurrent(context));
    for (int i = 0; i < MOST * MOST; i++)
        host[i] = (float)((unsigned)i * 2654435761u >> 8) / (1 << 24) - 0.5f;
    for (int o = 0; o < 3; o++) {
        GOOD(cu.cuMemAlloc(&memory[o], sizeof host));
        GOOD(cu.cuMemcpyHtoD(memory[o], host, sizeof host));
    }
    GOOD(cu.cuCtxSynchronize());
    a = (float *)memory[0], b = (float *)memory[1], c = (float *)memory[2];
}

static int square(int n, CUstream stream)
{
    return sgemm(GPUGEMM_COL_MAJOR, GPUGEMM_NO_TRANS, GPUGEMM_NO_TRANS, n, n, n, 1, a, n, b, n, 0, c, n, stream);
}

/* C of the last call or graph on the stream; then C is made NaN. */
static float *result(int n, CUstream stream, float *to)
{
    GOOD(cu.cuStreamSynchronize(stream));
    GOOD(cu.cuMemcpyDtoH(to, (CUdeviceptr)c, (size_t)n * (size_t)n * sizeof *to));
    GOOD(cu.cuMemsetD8Async((CUdeviceptr)c, 0xff, (size_t)n * (size_t)n * sizeof *to, stream));
    GOOD(cu.cuStreamSynchronize(stream));
    return to;
}

static CUgraphExec captured(int n, CUstream stream)
{
    CUgraph graph;
    CUgraphExec exec = NULL;
    GOOD(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    const int status = square(n, stream);
    CHECK(status == 0, "captured, n = %d: status %d", n, status);
    GOOD(cu.cuStreamEndCapture(stream, &graph));
    GOOD(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
    GOOD(cu.cuGraphDestroy(graph));
    return exec;
}

/* The largest difference between two results, relative to k. */
static double difference(const float *x, const float *y, int n)
{
    double most = 0;
    for (int i = 0; i < n * n; i++)
        most = x[i] == y[i] ? most : fmax(most, isnan(x[i]) || isnan(y[i]) ? INFINITY : fabs(x[i] - y[i]) / n);
    return most;
}

/* The stream has scratch, but not enough for the captured call, and later gets more: the graph must not use what it had. */
static void outgrown(void)
{
    CUstream stream, other;
    open_gpu();
    GOOD(cu.cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0));
    GOOD(cu.cuStreamCreateWithPriority(&other, CU_STREAM_NON_BLOCKING, 0));
    CHECK(square(512, other) == 0, "n = 512");
    result(512, other, right);
    CHECK(square(128, stream) == 0, "n = 128");
    GOOD(cu.cuStreamSynchronize(stream));
    const CUgraphExec exec = captured(512, stream);
    CHECK(square(MOST, stream) == 0, "n = %d", MOST);
    GOOD(cu.cuStreamSynchronize(stream));
    for (int launch = 0; launch < 2; launch++) {
        GOOD(cu.cuGraphLaunch(exec, stream));
        const double wrong = difference(result(512, stream, got), right, 512);
        CHECK(wrong < 1e-6, "launch %d of the graph is wrong by %g", launch, wrong);
    }
    GOOD(cu.cuGraphExecDestroy(exec));
}

/* The first call that a thread captures on its own stream, after one like it, is computed as that was: to the bit. */
static void own_stream(void)
{
    open_gpu();
    CHECK(square(300, CU_STREAM_PER_THREAD) == 0, "n = 300");
    result(300, CU_STREAM_PER_THREAD, right);
    const CUgraphExec exec = captured(300, CU_STREAM_PER_THREAD);
    GOOD(cu.cuGraphLaunch(exec, CU_STREAM_PER_THREAD));
    const double other = difference(result(300, CU_STREAM_PER_THREAD, got), right, 300);
    CHECK(other == 0, "captured on a thread's own stream C differs by %g", other);
    GOOD(cu.cuGraphExecDestroy(exec));
}

static void *one_thread(void *unused)
{
    GOOD(cu.cuCtxSetCurrent(context));
    CHECK(square(300, CU_STREAM_PER_THREAD) == 0, "n = 300");
    GOOD(cu.cuStreamSynchronize(CU_STREAM_PER_THREAD));
    return unused;
}

/* Threads, one after the other, each with a stream of its own: what was kept for those that have ended serves the next. */
static void threads(void)
{
    enum { THREADS = 40, WARM = 2 };
    size_t before = 0, after, all;
    open_gpu();
    for (int i = 0; i < THREADS; i++) {
        pthread_t thread;
        if (i == WARM)
            GOOD(cu.cuMemGetInfo(&before, &all));
        pthread_create(&thread, NULL, one_thread, NULL);
        pthread_join(thread, NULL);
    }
    GOOD(cu.cuMemGetInfo(&after, &all));
    if (getenv("FAKE_CUDA_ARCH")) /* elsewhere others take memory, too */
        CHECK(after + (4 << 20) > before, "%d threads took %.1f MB", THREADS - WARM, (double)(before - after) / 1e6);
}

/* m = 0 or n = 0: nothing happens, wherever the operands are, in a capture, too. */
static void empty(void)
{
    CUstream stream;
    CUgraph graph;
    open_gpu();
    GOOD(cu.cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0));
    for (int capturing = 0; capturing < 2; capturing++) {
        if (capturing)
            GOOD(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
        for (int which = 0; which < 16; which++) {
            const int m = which & 1 ? 0 : 5, n = m == 0 && which & 2 ? 5 : 0;
            const int status = sgemm(GPUGEMM_COL_MAJOR, GPUGEMM_NO_TRANS, GPUGEMM_NO_TRANS, m, n, 5, 1, which & 4 ? a : NULL, 5, which & 8 ? b : NULL,
                                     5, 0, NULL, 5, stream);
            CHECK(status == 0, "%d x %d%s: status %d", m, n, capturing ? " in a capture" : "", status);
        }
    }
    GOOD(cu.cuStreamEndCapture(stream, &graph));
    GOOD(cu.cuGraphDestroy(graph));
}

/* A child of a program that has used the GPU can use neither it nor its memory. */
static void child(void)
{
    open_gpu();
    CHECK(square(100, NULL) == 0, "n = 100");
    GOOD(cu.cuCtxSynchronize());
    fflush(NULL);
    const pid_t forked = fork();
    if (forked == 0) {
        const int status = square(100, NULL);
        CHECK(status == GPUGEMM_NO_GPU, "operands in GPU memory, in a forked child: status %d", status);
        _exit(test_failures != 0);
    }
    int status = -1;
    waitpid(forked, &status, 0);
    CHECK(status == 0, "wait status %d", status);
}

static const struct program programs[] = {
    {"outgrown", outgrown}, {"own-stream", own_stream}, {"threads", threads}, {"empty", empty}, {"child", child}};

int main(int argc, char **argv)
{
    const char *only = NULL;
    void *library = open_for_programs(argc, argv, &only), *driver = open_library("libcuda.so.1", RTLD_GLOBAL);
    sgemm = (__typeof__(sgemm))dlsym(library, "gpugemm_sgemm");
    DRIVER(FIND)
    const int failures = run_programs(programs, sizeof programs / sizeof *programs, only, 300);
    printf("%d failures\n", failures);
    return failures != 0;
}

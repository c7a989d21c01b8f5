/* t_cuda.c — programs that use CUDA themselves and call gemm in between: with a capture in progress, contexts of their own, cuDevicePrimaryCtxReset
 * (which is cudaDeviceReset), a kernel of theirs that kills the context, memory of every kind, fork. Each runs in a process of its own. What the
 * program had (its current context, its capture, its errors) it must still have, and every result must be right or the documented error.
 *
 *   t_cuda --lib LIB [--only NAME] */
#include <cuda.h>

#include "programs.h"

#define DRIVER(X)                                                                                                      \
    X(cuInit) X(cuDeviceGet) X(cuDevicePrimaryCtxRetain) X(cuDevicePrimaryCtxReset) X(cuCtxSetCurrent) X(cuCtxGetCurrent) X(cuCtxSynchronize)          \
    X(cuCtxDestroy) X(cuMemAlloc) X(cuMemAllocManaged) X(cuMemAllocAsync) X(cuMemHostAlloc) X(cuMemHostRegister) X(cuMemFree) X(cuMemcpy)           \
    X(cuMemsetD8Async) X(cuStreamCreate) X(cuStreamBeginCapture) X(cuStreamEndCapture) X(cuStreamSynchronize) X(cuGraphInstantiate)                \
    X(cuGraphLaunch) X(cuModuleLoadData) X(cuModuleGetFunction) X(cuLaunchKernel) X(cuPointerGetAttribute) X(cuThreadExchangeStreamCaptureMode)
static struct {
#define X(name) __typeof__(name) *name;
    DRIVER(X)
#undef X
    CUresult (*create)(CUcontext *, unsigned, CUdevice); /* the second version of cuCtxCreate; cuda.h's newest has another prototype */
} cu;

#define GOOD(call) CHECK((call) == CUDA_SUCCESS, "%s failed", #call)

static struct problem small, middle, large; /* all of them in double */
static int (*api)(int, int, int, int64_t, int64_t, int64_t, double, const void *, int64_t, const void *, int64_t, double, void *, int64_t, void *);

static void host(const struct problem *p, const char *when)
{
    struct operands o = operands_new(p);
    const char *wrong = problem_try(p, &o);
    CHECK(!wrong, "%s: %s", when, wrong);
    operands_free(&o);
}

static uint64_t gpu_calls(void)
{
    static void (*read)(struct gpugemm_stats *, size_t);
    struct gpugemm_stats s;
    if (!read)
        *(void **)&read = dlsym(RTLD_DEFAULT, "gpugemm_stats_read");
    read(&s, sizeof s);
    return s.device + s.staged;
}

static CUcontext open_primary(void)
{
    CUdevice device;
    CUcontext context;
    GOOD(cu.cuInit(0));
    GOOD(cu.cuDeviceGet(&device, 0));
    GOOD(cu.cuDevicePrimaryCtxRetain(&context, device));
    GOOD(cu.cuCtxSetCurrent(context));
    return context;
}

enum memory { DEVICE, MANAGED, STREAM_ORDERED, PINNED, REGISTERED, KINDS };
static const char *const kinds[] = {"device memory", "managed memory", "stream-ordered memory", "pinned memory", "registered memory"};

static void *allocate(enum memory kind, size_t bytes)
{
    CUdeviceptr p = 0;
    void *h = NULL;
    switch (kind) {
    case DEVICE: GOOD(cu.cuMemAlloc(&p, bytes)); break;
    case MANAGED: GOOD(cu.cuMemAllocManaged(&p, bytes, CU_MEM_ATTACH_GLOBAL)); break;
    case STREAM_ORDERED: GOOD(cu.cuMemAllocAsync(&p, bytes, NULL)); GOOD(cu.cuStreamSynchronize(NULL)); break;
    case PINNED: GOOD(cu.cuMemHostAlloc(&h, bytes, 0)); return h;
    default:
        h = aligned_alloc(4096, (bytes + 4095) & ~(size_t)4095);
        GOOD(cu.cuMemHostRegister(h, (bytes + 4095) & ~(size_t)4095, 0));
        return h;
    }
    return (void *)p;
}

/* Makes one call with the three operands in memory of those kinds (-1: ordinary memory). With may_fail it may return an error status; otherwise it
 * must succeed. */
static void placed(const struct problem *p, const int kind[3], const char *when, bool by_name, CUstream stream, bool may_fail)
{
    struct operands o = operands_new(p);
    unsigned char *there[3];
    problem_reset(p, &o);
    for (int i = 0; i < 3; i++) {
        there[i] = kind[i] < 0 ? o.image[i] : allocate((enum memory)kind[i], p->bytes[i]);
        if (kind[i] >= 0)
            GOOD(cu.cuMemcpy((CUdeviceptr)there[i], (CUdeviceptr)o.image[i], p->bytes[i]));
    }
    GOOD(cu.cuCtxSynchronize()); /* a copy of pageable memory to the GPU may still be in progress when the call returns */
    struct call x = problem_call(p, there[0] + AROUND, there[1] + AROUND, there[2] + AROUND);
    int status = 0;
    if (by_name)
        call_gemm(p->spelling, &x);
    else
        status = api(102, 111 + p->transa, 111 + p->transb, x.m, x.n, x.k, x.alpha, x.a, x.lda, x.b, x.ldb, x.beta, x.c, x.ldc, stream);
    if (stream)
        GOOD(cu.cuStreamSynchronize(stream));
    for (int i = 0; i < 3; i++)
        if (kind[i] >= 0)
            GOOD(cu.cuMemcpy((CUdeviceptr)o.image[i], (CUdeviceptr)there[i], p->bytes[i]));
    const char *wrong = status ? NULL : problem_wrong(p, &o);
    CHECK(!wrong, "%s, %s %s %s: %s", when, kind[0] < 0 ? "host" : kinds[kind[0]], kind[1] < 0 ? "host" : kinds[kind[1]],
          kind[2] < 0 ? "host" : kinds[kind[2]], wrong);
    CHECK(!status || may_fail, "%s: status %d", when, status);
    operands_free(&o); /* GPU memory is released with the process */
}

/* ---- the programs ---------------------------------------------------------------------------------------------------------------------- */

/* A capture must survive everything that gemm does with operands in host memory, including its very first call. */
static void capture_around(CUstreamCaptureMode mode, unsigned stream_flags, bool warm)
{
    CUstream stream;
    CUgraph graph = NULL;
    CUgraphExec exec;
    CUdeviceptr memory;
    open_primary();
    if (warm)
        host(&middle, "before the capture");
    GOOD(cu.cuMemAlloc(&memory, 1 << 20));
    GOOD(cu.cuStreamCreate(&stream, stream_flags));
    GOOD(cu.cuStreamBeginCapture(stream, mode));
    GOOD(cu.cuMemsetD8Async(memory, 1, 1 << 20, stream));
    host(&small, "during a capture");
    host(&large, "during a capture");
    host(&middle, "during a capture");
    GOOD(cu.cuMemsetD8Async(memory, 2, 1 << 19, stream));
    CUstreamCaptureMode now = CU_STREAM_CAPTURE_MODE_GLOBAL;
    GOOD(cu.cuThreadExchangeStreamCaptureMode(&now));
    CHECK(now == CU_STREAM_CAPTURE_MODE_GLOBAL, "the thread's capture mode is %d", (int)now);
    GOOD(cu.cuStreamEndCapture(stream, &graph));
    CHECK(graph, "the capture is lost");
    GOOD(cu.cuGraphInstantiate(&exec, graph, 0));
    GOOD(cu.cuGraphLaunch(exec, stream));
    GOOD(cu.cuStreamSynchronize(stream));
    unsigned char byte[2];
    GOOD(cu.cuMemcpy((CUdeviceptr)byte, memory, 1));
    GOOD(cu.cuMemcpy((CUdeviceptr)(byte + 1), memory + (1 << 20) - 1, 1));
    CHECK(byte[0] == 2 && byte[1] == 1, "the graph does something else");
}
static void capture_global_cold(void) { capture_around(CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_DEFAULT, false); }
static void capture_global_warm(void) { capture_around(CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_DEFAULT, true); }
static void capture_thread(void) { capture_around(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CU_STREAM_NON_BLOCKING, false); }

/* Operands in host memory that a stream is still writing when gpugemm_dgemm is called on that stream: the elements of A become zeros; or C's, which
 * are scaled. */
static void in_flight(void)
{
    const size_t much = 256 << 20;
    CUstream stream;
    open_primary();
    GOOD(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    void *const busy = allocate(DEVICE, much);
    for (int64_t n = 8; n <= 600; n = 5 * n + 20)
        for (int empty = 0; empty < 2; empty++) {
            const size_t count = (size_t)(n * n);
            double *a = allocate(PINNED, count * sizeof *a), *b = allocate(PINNED, count * sizeof *b), *c = allocate(PINNED, count * sizeof *c);
            for (size_t i = 0; i < count; i++)
                a[i] = b[i] = 1, c[i] = empty ? 1 : 0;
            for (int i = 0; i < 20; i++)
                GOOD(cu.cuMemsetD8Async((CUdeviceptr)busy, 0, much, stream));
            GOOD(cu.cuMemsetD8Async((CUdeviceptr)(empty ? c : a), 0, count * sizeof *a, stream));
            int status = api(102, 111, 111, n, n, empty ? 0 : n, 1, a, n, b, n, empty ? 2 : 0, c, n, stream);
            size_t wrong = 0;
            for (size_t i = 0; i < count; i++)
                wrong += c[i] != 0;
            CHECK(status == 0 && wrong == 0, "n = %d%s: status %d, %zu elements are of what was there before", (int)n, empty ? ", k = 0" : "", status,
                  wrong);
            GOOD(cu.cuStreamSynchronize(stream));
        }
}

/* gpugemm_dgemm itself in a graph, launched repeatedly on different data. */
static void captured_gemm(void)
{
    const struct problem *p = &middle;
    unsigned char *there[3];
    struct operands o = operands_new(p);
    CUstream stream;
    CUgraph graph = NULL;
    CUgraphExec exec;
    open_primary();
    GOOD(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    placed(p, (const int[]){DEVICE, DEVICE, DEVICE}, "before the capture", false, stream, false);
    for (int i = 0; i < 3; i++)
        there[i] = allocate(DEVICE, p->bytes[i]);
    struct call x = problem_call(p, there[0] + AROUND, there[1] + AROUND, there[2] + AROUND);
    GOOD(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    int status = api(102, 111 + p->transa, 111 + p->transb, x.m, x.n, x.k, x.alpha, x.a, x.lda, x.b, x.ldb, x.beta, x.c, x.ldc, stream);
    CHECK(status == 0, "captured: status %d", status);
    problem_reset(p, &o);
    struct call y = problem_call(p, o.image[0] + AROUND, there[1] + AROUND, there[2] + AROUND);
    status = api(102, 111 + p->transa, 111 + p->transb, y.m, y.n, y.k, y.alpha, y.a, y.lda, y.b, y.ldb, y.beta, y.c, y.ldc, stream);
    CHECK(status == GPUGEMM_UNSUPPORTED, "a host operand in a capture: status %d", status);
    y = problem_call(p, o.image[0] + AROUND, o.image[1] + AROUND, o.image[2] + AROUND);
    status = api(102, 111 + p->transa, 111 + p->transb, y.m, y.n, y.k, y.alpha, y.a, y.lda, y.b, y.ldb, y.beta, y.c, y.ldc, stream);
    CHECK(status == GPUGEMM_UNSUPPORTED, "host operands in a capture: status %d", status);
    GOOD(cu.cuStreamEndCapture(stream, &graph));
    GOOD(cu.cuGraphInstantiate(&exec, graph, 0));
    for (int round = 0; round < 5; round++) {
        problem_reset(p, &o);
        for (int i = 0; i < 3; i++)
            GOOD(cu.cuMemcpy((CUdeviceptr)there[i], (CUdeviceptr)o.image[i], p->bytes[i]));
        GOOD(cu.cuCtxSynchronize());
        GOOD(cu.cuGraphLaunch(exec, stream));
        GOOD(cu.cuStreamSynchronize(stream));
        GOOD(cu.cuMemcpy((CUdeviceptr)o.image[2], (CUdeviceptr)there[2], p->bytes[2]));
        const char *wrong = problem_wrong(p, &o);
        CHECK(!wrong, "launch %d of the graph: %s", round, wrong);
        placed(&large, (const int[]){DEVICE, DEVICE, DEVICE}, "between launches", false, stream, false);
    }
}

static void own_context(void)
{
    CUcontext mine, now = NULL;
    GOOD(cu.cuInit(0));
    GOOD(cu.create(&mine, 0, 0));
    for (int round = 0; round < 3; round++) {
        host(&middle, "under a context of the program's");
        placed(&middle, (const int[]){DEVICE, DEVICE, DEVICE}, "under a context of the program's", round == 1, NULL, false);
        placed(&small, (const int[]){DEVICE, -1, DEVICE}, "under a context of the program's", round == 1, NULL, false);
        GOOD(cu.cuCtxGetCurrent(&now));
        CHECK(now == mine, "the current context has changed");
        GOOD(cu.cuCtxDestroy(mine));
        host(&middle, "after a context of the program's");
        GOOD(cu.create(&mine, 0, 0));
    }
}

static void reset(void)
{
    open_primary();
    host(&middle, "before the reset");
    placed(&middle, (const int[]){DEVICE, DEVICE, DEVICE}, "before the reset", false, NULL, false);
    uint64_t before = gpu_calls();
    for (int round = 0; round < 3; round++) {
        GOOD(cu.cuDevicePrimaryCtxReset(0));
        host(&small, "after a reset");
        host(&large, "after a reset");
        open_primary();
        placed(&middle, (const int[]){DEVICE, DEVICE, DEVICE}, "after a reset", false, NULL, true);
        host(&middle, "after a reset and a return");
    }
    printf("reset: %llu of 12 calls after it were served by the GPU\n", (unsigned long long)(gpu_calls() - before));
}

/* A kernel of the program traps: the context is lost, and everything in it. */
static void own_fault(void)
{
    static const char ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry stumble() { trap; }\n";
    CUmodule module;
    CUfunction stumble;
    CUdeviceptr memory;
    open_primary();
    host(&middle, "before the fault");
    GOOD(cu.cuMemAlloc(&memory, small.bytes[0] + small.bytes[1] + small.bytes[2]));
    GOOD(cu.cuModuleLoadData(&module, ptx));
    GOOD(cu.cuModuleGetFunction(&stumble, module, "stumble"));
    GOOD(cu.cuLaunchKernel(stumble, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    for (int round = 0; round < 3; round++) {
        host(&small, "after the program's own fault");
        host(&large, "after the program's own fault");
    }
    unsigned kind = 77;
    CUresult e = cu.cuPointerGetAttribute(&kind, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, memory);
    printf("after a fault cuPointerGetAttribute says %d, type %u; cuCtxSynchronize %d\n", (int)e, kind, (int)cu.cuCtxSynchronize());
    struct call x = problem_call(&small, (void *)memory, (void *)(memory + small.bytes[0]), (void *)(memory + small.bytes[0] + small.bytes[1]));
    int status = api(102, 111, 111, x.m, x.n, x.k, 1, x.a, x.m, x.b, x.k, 0, x.c, x.m, NULL);
    CHECK(status == GPUGEMM_GPU_ERROR || status == GPUGEMM_NO_GPU, "GPU operands on a lost GPU: status %d", status);
}

static void every_memory(void)
{
    open_primary();
    for (int a = -1; a < KINDS; a++)
        for (int b = -1; b < KINDS; b++)
            for (int c = -1; c < KINDS; c++)
                placed((a + b + c) & 1 ? &small : &middle, (const int[]){a, b, c}, "mixed memory", (a ^ b ^ c) & 1, NULL, false);
}

/* Forked by a program that has started CUDA, whereas the library has not. */
static void forked(void)
{
    open_primary();
    for (int round = 0; round < 2; round++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(60);
            host(&small, "in a forked child");
            host(&middle, "in a forked child");
            CHECK(gpu_calls() == (round ? 1 : 0), "a forked child used the GPU");
            _exit(test_failures != 0);
        }
        int status = -1;
        waitpid(child, &status, 0);
        CHECK(status == 0, "forked child: wait status %d", status);
        if (round == 0)
            host(&middle, "the parent");
    }
}

static void no_context(void)
{
    CUcontext now = (CUcontext)1;
    host(&middle, "without a context");
    GOOD(cu.cuCtxGetCurrent(&now));
    CHECK(!now, "a context was left current");
    open_primary();
    host(&large, "with one");
}

static const struct program programs[] = {{"capture-global-cold", capture_global_cold},
                                          {"capture-global-warm", capture_global_warm},
                                          {"capture-thread", capture_thread},
                                          {"captured-gemm", captured_gemm},
                                          {"in-flight", in_flight},
                                          {"own-context", own_context},
                                          {"reset", reset},
                                          {"own-fault", own_fault},
                                          {"every-memory", every_memory},
                                          {"forked", forked},
                                          {"no-context", no_context}};

int main(int argc, char **argv)
{
    const char *only = NULL;
    void *library = open_for_programs(argc, argv, &only), *driver = open_library("libcuda.so.1", RTLD_GLOBAL);
    *(void **)&api = dlsym(library, "gpugemm_dgemm");
    DRIVER(FIND)
    *(void **)&cu.create = dlsym(driver, "cuCtxCreate_v2");
    const struct spelling *d = NULL;
    for (int i = 0; i < SPELLINGS; i++)
        if (!strcmp(spellings[i].name, "dgemm_"))
            d = &spellings[i];
    small = problem_make(d, false, false, 60, 50, 40, 0, 0);
    middle = problem_make(d, true, false, 333, 270, 200, 2, 5);
    large = problem_make(d, false, true, 900, 1000, 150, 2, 1);
    int failures = run_programs(programs, sizeof programs / sizeof *programs, only, 60);
    printf("%d failures\n", failures);
    return failures != 0;
}

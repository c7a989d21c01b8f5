/* t_gpus.c — programs on a machine with several GPUs: operands on the second while the first is current, on both, in host memory while the second is
 * current; threads that have a GPU each; a stream of the wrong GPU; one GPU reset while the other goes on; per-thread streams. Each runs in a process
 * of its own. Every byte must be right, and the program's current context must be unchanged. Also works on fake_cuda.c, with FAKE_CUDA_DEVICES=2.
 *
 *   t_gpus --lib LIB [--only NAME] */
#include <pthread.h>

#include "programs.h"

/* clang-format off */
typedef void *handle;
#define DRIVER(X)                                                                                                      \
    X(cuInit, (unsigned)) X(cuDeviceGetCount, (int *)) X(cuDevicePrimaryCtxRetain, (handle *, int)) X(cuDevicePrimaryCtxReset_v2, (int))              \
    X(cuCtxSetCurrent, (handle)) X(cuCtxGetCurrent, (handle *)) X(cuCtxSynchronize, (void)) X(cuMemAlloc_v2, (uint64_t *, size_t))                   \
    X(cuMemFree_v2, (uint64_t)) X(cuMemHostAlloc, (void **, size_t, unsigned)) X(cuMemFreeHost, (void *)) X(cuMemcpyHtoD_v2, (uint64_t, const void *, size_t)) \
    X(cuMemcpyDtoH_v2, (void *, uint64_t, size_t)) X(cuStreamCreateWithPriority, (handle *, unsigned, int)) X(cuStreamDestroy_v2, (handle)) X(cuStreamSynchronize, (handle)) \
    X(cuStreamBeginCapture_v2, (handle, int)) X(cuStreamEndCapture, (handle, handle *)) X(cuGraphInstantiateWithFlags, (handle *, handle, unsigned long long)) \
    X(cuGraphLaunch, (handle, handle)) X(cuMemGetInfo_v2, (size_t *, size_t *))
/* clang-format on */
static struct {
#define X(name, parameters) int (*name) parameters;
    DRIVER(X)
#undef X
    int (*managed)(uint64_t *, size_t, unsigned);
} cu; /* NULL: a driver without managed memory */

#define GOOD(call) CHECK((call) == 0, "%s failed", #call)

enum { GPUS = 8, MANY = 20 };
static const handle legacy = (handle)1, per_thread = (handle)2; /* streams */
static int gpus;
static handle context[GPUS];
static struct problem small, middle, large, deep, wide;
static __typeof__(gpugemm_sgemm) *sgemm;
static __typeof__(gpugemm_dgemm) *dgemm;
static __typeof__(gpugemm_info_json) *info;
static __typeof__(gpugemm_stats_read) *stats;

static void use(int gpu) { GOOD(cu.cuCtxSetCurrent(context[gpu])); }

static bool on_fake(void) { return getenv("FAKE_CUDA_ARCH") != NULL; } /* where nobody else takes memory */

static void open_gpus(void)
{
    GOOD(cu.cuInit(0));
    for (int i = 0; i < gpus; i++)
        GOOD(cu.cuDevicePrimaryCtxRetain(&context[i], i));
    use(0);
}

static uint64_t gpu_calls(void)
{
    struct gpugemm_stats s;
    stats(&s, sizeof s);
    return s.device + s.staged;
}

/* Where an operand lies: 0, 1, …: on that GPU; or */
enum { HOST = -1, PINNED = -2, MANAGED = -3 /* the second GPU's */ };

static void *allocate(int where, size_t bytes)
{
    uint64_t there = 0;
    void *host = NULL;
    if (where == PINNED)
        GOOD(cu.cuMemHostAlloc(&host, bytes, 0));
    if (where == MANAGED) {
        use(1);
        GOOD(cu.managed(&there, bytes, 1));
        return (void *)there;
    }
    if (where < 0)
        return host ? host : aligned_alloc(64, (bytes + 63) & ~(size_t)63);
    use(where);
    GOOD(cu.cuMemAlloc_v2(&there, bytes));
    return (void *)there;
}

static void release(int where, void *memory)
{
    if (where == HOST)
        free(memory);
    if (where == PINNED)
        GOOD(cu.cuMemFreeHost(memory));
    if (where == HOST || where == PINNED)
        return;
    use(where == MANAGED ? 1 : where);
    GOOD(cu.cuMemFree_v2((uint64_t)memory));
}

static void wait_for(const int where[3])
{
    for (int i = 0; i < 3; i++)
        if (where[i] >= 0 || where[i] == MANAGED) {
            use(where[i] == MANAGED ? 1 : where[i]);
            GOOD(cu.cuCtxSynchronize());
        }
}

static int call_api(const struct problem *p, const struct call *x, handle stream)
{
    const enum gpugemm_transpose ta = p->transa ? GPUGEMM_TRANS : GPUGEMM_NO_TRANS, tb = p->transb ? GPUGEMM_TRANS : GPUGEMM_NO_TRANS;
    return p->spelling->dbl ? dgemm(GPUGEMM_COL_MAJOR, ta, tb, x->m, x->n, x->k, x->alpha, x->a, x->lda, x->b, x->ldb, x->beta, x->c, x->ldc, stream)
                            : sgemm(GPUGEMM_COL_MAJOR, ta, tb, x->m, x->n, x->k, (float)x->alpha, x->a, x->lda, x->b, x->ldb, (float)x->beta, x->c,
                                    x->ldc, stream);
}

static int shift; /* bytes by which an operand in GPU memory is off its place */

/* Makes a call with its operands in these places while GPU `at` is current: by gpugemm_?gemm on `stream`, or if that is NULL by its BLAS name.
 * Returns its status. */
static int placed(const struct problem *p, const int where[3], int at, handle stream, const char *when)
{
    struct operands o = operands_new(p);
    unsigned char *there[3];
    handle now = NULL;
    problem_reset(p, &o);
    for (int i = 0; i < 3; i++) {
        there[i] = allocate(where[i], p->bytes[i] + 8);
        there[i] += where[i] < 0 ? 0 : shift;
        if (where[i] < 0)
            memcpy(there[i], o.image[i], p->bytes[i]);
        else
            GOOD(cu.cuMemcpyHtoD_v2((uint64_t)there[i], o.image[i], p->bytes[i]));
    }
    wait_for(where); /* a copy of pageable memory to the GPU may still be in progress when the call returns */
    use(at);
    struct call x = problem_call(p, there[0] + AROUND, there[1] + AROUND, there[2] + AROUND);
    int status = 0;
    if (stream)
        status = call_api(p, &x, stream);
    else
        call_gemm(p->spelling, &x);
    GOOD(cu.cuCtxGetCurrent(&now));
    CHECK(now == context[at], "%s: the current context has changed", when);
    if (stream)
        wait_for(where);
    for (int i = 0; i < 3; i++)
        if (where[i] < 0)
            memcpy(o.image[i], there[i], p->bytes[i]);
        else
            GOOD(cu.cuMemcpyDtoH_v2(o.image[i], (uint64_t)there[i], p->bytes[i]));
    const char *wrong = problem_wrong(p, &o);
    if (status)
        CHECK(wrong && !strcmp(wrong, "C is as it was"), "%s, %d %d %d at %d: status %d, and %s", when, where[0], where[1], where[2], at, status,
              wrong);
    else
        CHECK(!wrong, "%s, %d %d %d at %d: %s", when, where[0], where[1], where[2], at, wrong);
    for (int i = 0; i < 3; i++)
        release(where[i], there[i] - (where[i] < 0 ? 0 : shift));
    operands_free(&o);
    return status;
}

static void right(const struct problem *p, int a, int b, int c, int at, handle stream, const char *when)
{
    const int status = placed(p, (const int[]){a, b, c}, at, stream, when);
    CHECK(!status, "%s, %d %d %d at %d: status %d", when, a, b, c, at, status);
}

/* ---- the programs --------------------------------------------------------------------------------------------------------------------------- */

/* The library's very first call has its operands on the second GPU while the first is current. */
static void second(void)
{
    open_gpus();
    right(&middle, 1, 1, 1, 0, NULL, "on the second GPU");
    right(&large, 1, 1, 1, 0, NULL, "on the second GPU");
    right(&small, 1, 1, 1, 1, legacy, "on the second GPU");
    right(&middle, HOST, HOST, HOST, 1, NULL, "in host memory");
    right(&large, PINNED, HOST, PINNED, 1, NULL, "in host memory");
    right(&middle, 0, 0, 0, 1, NULL, "on the first GPU");
    CHECK(gpu_calls() == 6, "%llu of 6 calls on the GPU", (unsigned long long)gpu_calls());
}

static void everywhere(void)
{
    open_gpus();
    for (int a = PINNED; a < 2; a++)
        for (int b = PINNED; b < 2; b++)
            for (int c = PINNED; c < 2; c++) {
                const struct problem *p = (a + b + c) & 1 ? &small : &middle;
                right(p, a, b, c, (a ^ b) & 1, NULL, "here and there");
                if (a >= 0 || b >= 0 || c >= 0)
                    right(p, a, b, c, (b ^ c) & 1, legacy, "here and there, gpugemm_*");
            }
    for (int i = 2; i < gpus; i++)
        right(&large, i, 0, 1, 0, NULL, "on three GPUs");
}

static void managed(void)
{
    if (!cu.managed)
        return;
    open_gpus();
    for (int a = MANAGED; a < 2; a++)
        for (int b = MANAGED; b < 2; b++)
            for (int c = MANAGED; c < 2; c++)
                if (a == MANAGED || b == MANAGED || c == MANAGED)
                    right((a + b + c) & 1 ? &small : &middle, a, b, c, (a ^ b) & 1, NULL, "managed memory");
    for (int at = 0; at < 2; at++) { /* a stream belongs to the GPU that is current, and there a C in managed memory is used, wherever A and B are */
        handle stream;
        use(at);
        GOOD(cu.cuStreamCreateWithPriority(&stream, 1, 0));
        for (int a = MANAGED; a < 2; a++)
            for (int b = MANAGED; b < 2; b++)
                right(&middle, a, b, MANAGED, at, stream, "managed memory, a stream");
    }
}

/* GPUGEMM_DEVICES: host operands are served by the second GPU. */
static void chosen(void)
{
    setenv("GPUGEMM_DEVICES", "1", 1);
    open_gpus();
    right(&middle, HOST, HOST, HOST, 0, NULL, "GPUGEMM_DEVICES=1");
    right(&middle, 0, 0, 0, 0, NULL, "GPUGEMM_DEVICES=1");
    right(&middle, 1, 0, 1, 0, NULL, "GPUGEMM_DEVICES=1");
    char *text = info();
    CHECK(text && strstr(text, "\"ordinal\": 1,"), "it is not the second: %.200s", text);
    free(text);
    CHECK(gpu_calls() == 3, "%llu of 3 calls on the GPU", (unsigned long long)gpu_calls());
}

static size_t free_on(int gpu)
{
    size_t bytes = 0, total;
    use(gpu);
    GOOD(cu.cuMemGetInfo_v2(&bytes, &total));
    return bytes;
}

/* The GPU that holds C serves, and stages what lies on another. What is not aligned to its elements is staged on its own GPU, too. */
static void holder(void)
{
    open_gpus();
    right(&small, 0, 0, 0, 0, legacy, "on the first GPU"); /* both are up */
    right(&small, 1, 1, 1, 1, legacy, "on the second GPU");
    const size_t before[] = {free_on(0), free_on(1)};
    right(&large, 0, 0, 1, 1, legacy, "C on the second GPU");
    CHECK(!on_fake() || (free_on(0) == before[0] && free_on(1) < before[1]), "the first GPU serves where C is on the second");
    for (shift = 0; shift <= 8; shift += 4) {
        struct gpugemm_stats then, now;
        stats(&then, sizeof then);
        right(&large, 0, 0, 0, 0, legacy, "not aligned");
        stats(&now, sizeof now);
        CHECK(shift == 4 ? now.staged == then.staged + 1 : now.device == then.device + 1, "off by %d bytes: %s", shift,
              now.staged > then.staged ? "staged" : "in place");
    }
    shift = 0;
}

static void *one_thread(void *argument)
{
    const int mine = (int)(intptr_t)argument % gpus;
    handle stream;
    use(mine);
    GOOD(cu.cuStreamCreateWithPriority(&stream, 1, 0));
    for (int round = 0; round < 5; round++) {
        const struct problem *p = round & 1 ? &small : &middle;
        right(p, mine, mine, mine, mine, stream, "a GPU a thread");
        right(p, HOST, HOST, HOST, mine, NULL, "a GPU a thread");
        right(p, mine, HOST, mine, mine, NULL, "a GPU a thread");
        right(p, (mine + 1) % gpus, mine, HOST, mine, stream, "a GPU a thread");
    }
    return NULL;
}

/* More threads than one GPU has lanes. */
static void threads(void)
{
    pthread_t thread[MANY];
    open_gpus();
    for (intptr_t i = 0; i < MANY; i++)
        if (pthread_create(&thread[i], NULL, one_thread, (void *)i))
            exit(1);
    for (int i = 0; i < MANY; i++)
        pthread_join(thread[i], NULL);
}

static struct operands crowd[MANY];
static pthread_barrier_t together;

static void *host_thread(void *o)
{
    pthread_barrier_wait(&together);
    for (int round = 0; round < 4; round++)
        problem_try(&large, o);
    return NULL;
}

/* All lanes of the first GPU exist when the second needs its own. */
static void lanes(void)
{
    pthread_t thread[MANY];
    open_gpus();
    pthread_barrier_init(&together, NULL, MANY);
    for (int i = 0; i < MANY; i++) {
        crowd[i] = operands_new(&large);
        if (pthread_create(&thread[i], NULL, host_thread, &crowd[i]))
            exit(1);
    }
    for (int i = 0; i < MANY; i++) {
        pthread_join(thread[i], NULL);
        CHECK(!problem_wrong(&large, &crowd[i]), "one of many on the first GPU");
    }
    right(&middle, 1, HOST, 1, 0, legacy, "after many on the first GPU");
}

/* A stream of a GPU that does not hold C: an error, and nothing else happens. */
static void wrong_stream(void)
{
    handle stream;
    open_gpus();
    right(&deep, 1, 1, 1, 0, legacy, "before");
    use(0);
    GOOD(cu.cuStreamCreateWithPriority(&stream, 1, 0));
    int status = placed(&deep, (const int[]){1, 1, 1}, 0, stream, "a stream of another GPU");
    CHECK(status == GPUGEMM_GPU_ERROR, "a stream of another GPU: status %d", status);
    right(&middle, 0, 0, 0, 0, stream, "after it");
    right(&deep, 1, 1, 1, 0, legacy, "after it");
    uint64_t before = gpu_calls();
    right(&middle, HOST, HOST, HOST, 0, NULL, "after it");
    CHECK(gpu_calls() == before + 1, "the GPU is not used any more");
}

/* cudaDeviceReset of one GPU: calls on the other go on as before. */
static void reset(void)
{
    for (int gone = 1; gone >= 0; gone--) {
        open_gpus();
        right(&large, HOST, HOST, HOST, 0, NULL, "before a reset");
        right(&deep, gone, HOST, gone, 0, legacy, "before a reset");
        GOOD(cu.cuDevicePrimaryCtxReset_v2(gone));
        use(1 - gone);
        right(&deep, 1 - gone, 1 - gone, 1 - gone, 1 - gone, legacy, "the other GPU");
        right(&large, HOST, 1 - gone, HOST, 1 - gone, legacy, "the other GPU");
        right(&large, HOST, HOST, HOST, 1 - gone, NULL, "after a reset");
        open_gpus();
        right(&deep, gone, gone, gone, 1, legacy, "after a reset and a return");
    }
}

/* Some programs reset a GPU between one piece of work and the next: here more often than there can be contexts at a time. */
static void reset_often(void)
{
    enum { OFTEN = 66 };
    for (int i = 0; i < OFTEN; i++) {
        open_gpus();
        right(&small, 0, 0, 0, 0, legacy, "after many resets");
        right(&small, HOST, HOST, HOST, 0, NULL, "the first after a reset"); /* the CPU may serve it */
        right(&small, HOST, HOST, HOST, 0, NULL, "after many resets");
        GOOD(cu.cuDevicePrimaryCtxReset_v2(0));
    }
    CHECK(gpu_calls() >= 2 * OFTEN, "%llu of %d calls on the GPU", (unsigned long long)gpu_calls(), 2 * OFTEN);
}

/* CU_STREAM_PER_THREAD is one handle for many streams: a call must not get another thread's workspace. */
static void *own_stream(void *argument)
{
    const int mine = (int)(intptr_t)argument % 2;
    const struct problem *p = (intptr_t)argument & 2 ? &deep : &wide;
    unsigned char *there[3];
    struct operands o = operands_new(p);
    use(mine);
    for (int i = 0; i < 3; i++)
        there[i] = allocate(mine, p->bytes[i]);
    struct call x = problem_call(p, there[0] + AROUND, there[1] + AROUND, there[2] + AROUND);
    for (int round = 0; round < 10; round++) {
        problem_reset(p, &o);
        for (int i = 0; i < 3; i++)
            GOOD(cu.cuMemcpyHtoD_v2((uint64_t)there[i], o.image[i], p->bytes[i]));
        GOOD(cu.cuStreamSynchronize(legacy));
        int status = call_api(p, &x, per_thread);
        CHECK(!status, "a stream a thread: status %d", status);
        GOOD(cu.cuStreamSynchronize(per_thread));
        for (int i = 0; i < 3; i++)
            GOOD(cu.cuMemcpyDtoH_v2(o.image[i], (uint64_t)there[i], p->bytes[i]));
        const char *wrong = problem_wrong(p, &o);
        CHECK(!wrong, "a stream a thread, round %d: %s", round, wrong);
    }
    operands_free(&o);
    return NULL;
}

static void own_streams(void)
{
    pthread_t thread[8];
    setenv("GPUGEMM_KERNEL", "sgemm_tma_128x256", 1); /* A and B are packed in the workspace */
    open_gpus();
    for (intptr_t i = 0; i < 8; i++)
        if (pthread_create(&thread[i], NULL, own_stream, (void *)i))
            exit(1);
    for (int i = 0; i < 8; i++)
        pthread_join(thread[i], NULL);
}

/* The driver gives a destroyed stream's handle to the next stream at once, while the old one's work still runs (200 of 200 times, H200): its
 * workspace must not be used by the new stream. */
static void short_streams(void)
{
    enum { TURNS = 24 };
    const struct problem *const each[] = {&deep, &wide};
    unsigned char *there[TURNS][3];
    handle stream = NULL, before = NULL;
    int again = 0;
    setenv("GPUGEMM_KERNEL", "sgemm_tma_128x256", 1); /* A and B are packed in the workspace */
    open_gpus();
    for (int t = 0; t < TURNS; t++)
        for (int i = 0; i < 3; i++) {
            there[t][i] = allocate(1, each[t % 2]->bytes[i]);
            GOOD(cu.cuMemcpyHtoD_v2((uint64_t)there[t][i], each[t % 2]->image[i], each[t % 2]->bytes[i]));
        }
    right(&wide, 1, 1, 1, 1, legacy, "before"); /* afterwards the kernels are loaded */
    use(1);
    GOOD(cu.cuCtxSynchronize());
    for (int t = 0; t < TURNS; t++) {
        const struct call x = problem_call(each[t % 2], there[t][0] + AROUND, there[t][1] + AROUND, there[t][2] + AROUND);
        GOOD(cu.cuStreamCreateWithPriority(&stream, 1, 0));
        again += stream == before;
        int status = call_api(each[t % 2], &x, stream);
        CHECK(!status, "on a stream that ends: status %d", status);
        GOOD(cu.cuStreamDestroy_v2(before = stream));
    }
    GOOD(cu.cuCtxSynchronize());
    for (int t = 0; t < TURNS; t++) {
        struct operands o = operands_new(each[t % 2]);
        for (int i = 0; i < 3; i++)
            GOOD(cu.cuMemcpyDtoH_v2(o.image[i], (uint64_t)there[t][i], each[t % 2]->bytes[i]));
        const char *wrong = problem_wrong(each[t % 2], &o);
        CHECK(!wrong, "on a stream that ends, %d: %s", t, wrong);
        operands_free(&o);
    }
    printf("short-streams: a handle came again %d of %d times\n", again, TURNS - 1);
}

/* A graph of the second GPU, captured and launched while `at` is current; `prepared`: after a similar call on its stream. */
static void capture(handle stream, int at, bool prepared, const char *when)
{
    const struct problem *p = &deep;
    unsigned char *there[3];
    struct operands o = operands_new(p);
    handle graph = NULL, exec = NULL;
    for (int i = 0; i < 3; i++)
        there[i] = allocate(1, p->bytes[i]);
    struct call x = problem_call(p, there[0] + AROUND, there[1] + AROUND, there[2] + AROUND);
    if (prepared)
        right(p, 1, 1, 1, at, stream, "before the capture");
    use(at);
    GOOD(cu.cuStreamBeginCapture_v2(stream, 0));
    int status = call_api(p, &x, stream);
    CHECK(!status, "captured on %s: status %d", when, status);
    GOOD(cu.cuStreamEndCapture(stream, &graph));
    GOOD(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (int round = 0; round < 3 && exec; round++) {
        problem_reset(p, &o);
        for (int i = 0; i < 3; i++)
            GOOD(cu.cuMemcpyHtoD_v2((uint64_t)there[i], o.image[i], p->bytes[i]));
        use(1);
        GOOD(cu.cuCtxSynchronize());
        use(at);
        GOOD(cu.cuGraphLaunch(exec, stream));
        GOOD(cu.cuStreamSynchronize(stream));
        for (int i = 0; i < 3; i++)
            GOOD(cu.cuMemcpyDtoH_v2(o.image[i], (uint64_t)there[i], p->bytes[i]));
        const char *wrong = problem_wrong(p, &o);
        CHECK(!wrong, "launch %d of the graph of %s: %s", round, when, wrong);
    }
    operands_free(&o);
}

static void captured(void)
{
    handle stream[2];
    open_gpus();
    use(1);
    for (int i = 0; i < 2; i++)
        GOOD(cu.cuStreamCreateWithPriority(&stream[i], 1, 0));
    capture(stream[0], 0, true, "a stream");
    capture(stream[1], 0, false, "a new stream");
    capture(per_thread, 1, true, "a thread's own stream");
}

static const struct program programs[] = {{"second", second},
                                          {"everywhere", everywhere},
                                          {"managed", managed},
                                          {"chosen", chosen},
                                          {"holder", holder},
                                          {"threads", threads},
                                          {"lanes", lanes},
                                          {"wrong-stream", wrong_stream},
                                          {"reset", reset},
                                          {"reset-often", reset_often},
                                          {"own-streams", own_streams},
                                          {"short-streams", short_streams},
                                          {"captured", captured}};

/* In a process of its own: the driver does not survive a fork. */
static int count(void)
{
    int n = 0, status = 0;
    pid_t child = fork();
    if (child == 0)
        _exit(cu.cuInit(0) || cu.cuDeviceGetCount(&n) ? 0 : n);
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 0;
}

int main(int argc, char **argv)
{
    const char *only = NULL;
    void *library = open_for_programs(argc, argv, &only), *driver = open_library("libcuda.so.1", RTLD_GLOBAL);
    *(void **)&sgemm = dlsym(library, "gpugemm_sgemm"), *(void **)&dgemm = dlsym(library, "gpugemm_dgemm");
    *(void **)&info = dlsym(library, "gpugemm_info_json"), *(void **)&stats = dlsym(library, "gpugemm_stats_read");
#define X(name, parameters)                                                                                                                          \
    if (!(*(void **)&cu.name = dlsym(driver, #name)))                                                                                                \
        return printf("skipped: the driver has no %s\n", #name), SKIP;
    DRIVER(X)
#undef X
    *(void **)&cu.managed = dlsym(driver, "cuMemAllocManaged");
    gpus = count();
    if (gpus < 2)
        return printf("skipped: %d GPU%s, and this is for two and more\n", gpus, gpus == 1 ? "" : "s"), SKIP;
    gpus = gpus < GPUS ? gpus : GPUS;
    const struct spelling *d = NULL, *s = NULL;
    for (int i = 0; i < SPELLINGS; i++) {
        d = strcmp(spellings[i].name, "dgemm_") ? d : &spellings[i];
        s = strcmp(spellings[i].name, "cblas_sgemm") ? s : &spellings[i];
    }
    small = problem_make(d, false, false, 60, 50, 40, 0, 0);
    middle = problem_make(s, true, false, 233, 170, 100, 2, 5);
    large = problem_make(d, false, true, 450, 400, 50, 2, 1);
    deep = problem_make(s, false, false, 48, 40, 3000, 2, 1); /* its k is cut into pieces, whose parts lie in the stream's workspace */
    wide = problem_make(s, false, false, 128, 100, 500, 2, 3);
    int failures = run_programs(programs, sizeof programs / sizeof *programs, only, 600 /* ThreadSanitizer on a busy machine */);
    printf("%d GPUs, %d failures\n", gpus, failures);
    return failures != 0;
}

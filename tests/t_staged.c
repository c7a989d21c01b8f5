/* t_staged.c — calls on operands in host memory, and what they ask of the driver.
 *
 *   t_staged --lib PATH             the bytes that cross the link are those of the operands, C goes up only if it is read, and the same call again
 *                                   allocates nothing and makes the same copies, however often it comes, also after its memory was given back
 *   t_staged --lib PATH --failures  calls during which the driver fails once, late enough that part of C has arrived: the CPU computes the rest; and
 *                                   calls that the driver does not permit
 *   t_staged --lib PATH --budget    calls may have GPUGEMM_GPU_MEMORY of the GPU's memory, or four fifths of what is free: they take no more,
 *                                   and what fits takes all that it needs, also after a failed allocation, after the memory was given back, and
 *                                   where another lane had it
 *   t_staged --lib PATH --unused    a lane that no call uses loses its page-locked memory to one that needs it
 *   t_staged --lib PATH --turns     large calls of many threads are right, and take the GPU memory of two, because they take turns
 *   t_staged --lib PATH --streams   calls on GPU operands in many streams of the program's, with scratch for each, leave staged calls theirs; and a
 *                                   stream that gets none, because the driver fails, does not take that of others, however often it asks, but
 *                                   one's if memory is full
 *   t_staged --lib PATH --fresh     C that nobody has used before: it is right, also where the driver fails, nothing between its columns is written,
 *                                   and huge pages are asked for unless it is read or has whole pages between its columns
 *   t_staged --lib PATH --registered  operands of which the program has page-locked a part, or all in pieces, which the driver copies only one by one
 *
 * The driver must be fail_cuda.c's, in front of fake_cuda.c. With little page-locked memory all calls are long, else most are short. */
#include <pthread.h>
#include <signal.h>

#include "exact.h"
#include "faults.h"
#include "huge.h"

static void *cuda;
static struct faults *driver; /* of it */

static unsigned long asked(const char *name) { return driver->calls[fault_function(driver, name)]; }

enum { ALLOCATED, COPIED, WAITED, TOLD, WHATS };

static void count(unsigned long of[WHATS])
{
    of[ALLOCATED] = asked("cuMemAlloc_v2") + asked("cuMemHostRegister_v2") + asked("cuEventCreate") + asked("cuStreamCreateWithPriority");
    of[COPIED] = asked("cuMemcpyAsync") + asked("cuMemcpy2DAsync_v2");
    of[WAITED] = asked("cuStreamWaitEvent");
    of[TOLD] = asked("cuStreamWriteValue32_v2");
}

/* How such calls go: short ones are read in page-locked memory or copied there by kernels, or whole lines at a time, padding included; long ones are cut
 * up. */
enum way { MAPPED, BY_KERNELS, SHORT, LONG };

static void repeat(const char *name, int64_t m, int64_t n, int64_t k, double beta, enum way way)
{
    const struct spelling *s = spelling_named(name);
    const int64_t size = s->dbl ? 8 : 4, unit = (way == MAPPED ? 16 : 128) / size;
    const int64_t pad_m = (m + unit - 1) / unit * unit, pad_k = (k + unit - 1) / unit * unit;
    const int64_t lines_m = way == LONG ? m : pad_m, lines_k = way == LONG ? k : pad_k, down = lines_m * n * size,
                  up = (lines_m * k + lines_k * n) * size + (beta == 0 ? 0 : down);
    char *a = calloc(1, (size_t)(m * k * size)), *b = calloc(1, (size_t)(k * n * size)), *c = calloc(1, (size_t)(m * n * size));
    const struct call x = {102, 'N', 'N', m, n, k, m, k, m, a, b, c, 1, beta, 1};
    unsigned long first[WHATS] = {0}, before[WHATS], after[WHATS];
    for (int i = 0; i < 8; i++) {
        struct gpugemm_stats then = {0}, now = {0};
        read_stats(&then, sizeof then);
        count(before);
        call_gemm(s, &x);
        count(after);
        read_stats(&now, sizeof now);
        CHECK(now.staged == then.staged + 1, "%s %ld x %ld x %ld: not served by the GPU", name, (long)m, (long)n, (long)k);
        CHECK((int64_t)(now.bytes_to_gpu - then.bytes_to_gpu) == up && (int64_t)(now.bytes_from_gpu - then.bytes_from_gpu) == down,
              "%s %ld x %ld x %ld, beta %g: %ld bytes up and %ld down, not %ld and %ld", name, (long)m, (long)n, (long)k, beta,
              (long)(now.bytes_to_gpu - then.bytes_to_gpu), (long)(now.bytes_from_gpu - then.bytes_from_gpu), (long)up, (long)down);
        for (int what = 0; what < WHATS; what++) {
            const unsigned long times = after[what] - before[what];
            if (i == 0)
                first[what] = times;
            const bool by_kernels = way <= BY_KERNELS;
            const unsigned long want = what == ALLOCATED || (what == COPIED && by_kernels) ? 0 : what == TOLD && by_kernels ? 1 : first[what];
            CHECK(what == ALLOCATED && i == 0      ? true
                  : what == COPIED && way == SHORT ? times > 0
                                                   : times == want,
                  "%s %ld x %ld x %ld, call %d: %lu times, not %lu (%d)", name, (long)m, (long)n, (long)k, i, times, want, what);
        }
    }
    free(a), free(b), free(c);
}

static void traffic(void)
{
    for (int round = 0; round < 2; round++) {
        for (int beta = 0; beta < 2; beta++) {
            repeat("sgemm_", 97, 65, 101, beta, MAPPED);
            repeat("dgemm_", 130, 100, 90, beta, MAPPED);
            repeat("dgemm_", 150, 130, 140, beta, BY_KERNELS);
            repeat("dgemm_", 500, 300, 400, beta, SHORT);
            repeat("sgemm_", 1300, 1100, 900, beta, LONG);
            repeat("dgemm_", 2100, 300, 900, beta, LONG);
        }
        CHECK(release_memory() > 0, "nothing given back");
    }
    printf("%lu copies, %lu waits: %d failures\n", asked("cuMemcpyAsync"), asked("cuStreamWaitEvent"), test_failures);
}

static uint64_t recovered(void)
{
    struct gpugemm_stats stats = {0};
    read_stats(&stats, sizeof stats);
    return stats.recovered;
}

/* The driver's function, which then finds the GPU's context. */
static void *with_context(const char *name)
{
    void *context;
    int (*const retain)(void **, int) = (int (*)(void **, int))dlsym(cuda, "cuDevicePrimaryCtxRetain");
    int (*const enter)(void *) = (int (*)(void *))dlsym(cuda, "cuCtxSetCurrent");
    CHECK(!retain(&context, 0) && !enter(context), "no context");
    return dlsym(cuda, name);
}

static void *page_locked(size_t bytes)
{
    void *memory = NULL;
    int (*const allocate)(void **, size_t, unsigned) = (int (*)(void **, size_t, unsigned))with_context("cuMemHostAlloc");
    CHECK(!allocate(&memory, bytes, 0), "no page-locked memory");
    return memory;
}

/* False: there is no such memory left. */
static bool allocate(float **to, size_t bytes)
{
    return !((int (*)(float **, size_t))with_context("cuMemAlloc_v2"))(to, bytes);
}

/* C := A B + 2 C, so that what is computed twice is wrong. Of a C of 1.3 MB a short call has three legs. */
static void failing(void)
{
    enum { OUT_OF_MEMORY = 2 }; /* CUDA_ERROR_OUT_OF_MEMORY, which a context survives */
    static const char *const functions[] = {"cuEventQuery",      "cuEventRecord",    "cuMemcpyAsync",          "cuMemcpy2DAsync_v2",
                                            "cuStreamWaitEvent", "cuLaunchKernelEx", "cuStreamWriteValue32_v2"};
    const struct spelling *s = spelling_named("dgemm_");
    uint64_t parts = 0;
    driver->error = OUT_OF_MEMORY;
    driver->mode = FAULT_ONCE;
    driver->patient = true;
    for (int shape = 0; shape < 4; shape++) { /* lines longer than the least slot, 64 KB, in however many panels; C page-locked: never direct; mapped */
        const int64_t m = (const int64_t[]){400, 150000, 400, 100}[shape], n = (const int64_t[]){400, 5, 400, 60}[shape], k = shape == 1 ? 3 : 12,
                      ldc = m + 10;
        const size_t bytes = (size_t)(ldc * n) * sizeof(double);
        void *c = shape == 2 ? page_locked(bytes) : malloc(bytes);
        CHECK(exact_gemm(s, m, n, k, c, ldc, 1) == 0, "%ld rows: wrong before any failure", (long)m);
        for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
            for (unsigned nth = 1; nth <= 60; nth += 1 + nth / (shape == 1 ? 2 : 8)) {
                driver->nth = asked(functions[i]) + nth;
                driver->function = fault_function(driver, functions[i]);
                CHECK(exact_gemm(s, m, n, k, c, ldc, nth) == 0, "%ld rows, %s call %u failing: wrong", (long)m, functions[i], nth);
                driver->function = -1;
            }
        if (shape != 2)
            free(c);
    }
    const char *const word = "cuStreamWriteValue32_v2";
    driver->error = 801; /* CUDA_ERROR_NOT_SUPPORTED */
    driver->nth = asked(word) + 1;
    driver->function = fault_function(driver, word);
    const uint64_t served = gpu_calls();
    for (int call = 0; call < 3; call++)
        CHECK(exact_square(s, 100, 1) == 0, "where the stream can write no word: wrong");
    CHECK(asked(word) <= driver->nth && gpu_calls() == served + 3, "where the stream can write no word it is told to, or the GPU is left out");
    driver->function = -1;
    parts = recovered();
    CHECK(parts >= 2, "only %d times had part of C arrived", (int)parts);
    CHECK(exact_square(s, 150, 1) == 0, "wrong afterwards");
    static const char *const refused[] = {"cuCtxGetId", "cuMemcpyAsync", "cuStreamSynchronize"};
    driver->error = 800; /* CUDA_ERROR_NOT_PERMITTED, as in a host function of the program's: calls after that are served again */
    driver->mode = FAULT_ALL;
    for (int i = 0; i < 3; i++) {
        driver->nth = asked(refused[i]) + 1;
        driver->function = fault_function(driver, refused[i]);
        CHECK(exact_square(s, 400, 1) == 0, "%s not permitted: wrong", refused[i]);
        driver->function = -1;
        driver->struck = 0;
        const uint64_t before = gpu_calls();
        for (int call = 0; call < 4; call++) /* the next is left out */
            CHECK(exact_square(s, 400, 1) == 0, "after %s was not permitted: wrong", refused[i]);
        CHECK(gpu_calls() > before, "the GPU was given up when %s was not permitted", refused[i]);
    }
    void *c = malloc(2400 * 500 * sizeof(double));
    for (int i = 0; i < 2; i++) { /* no page-locked memory, then memory again: with most of it in C the call is long */
        release_memory();
        driver->error = OUT_OF_MEMORY;
        driver->mode = FAULT_FUNCTION;
        driver->nth = asked("cuMemHostRegister_v2") + 1;
        driver->function = i == 0 ? fault_function(driver, "cuMemHostRegister_v2") : -1;
        const uint64_t before = gpu_calls();
        CHECK(exact_gemm(s, 2400, 500, 6, c, 2400, 1) == 0 && gpu_calls() == before + i, "no page-locked memory: wrong");
        driver->function = -1;
        CHECK(exact_gemm(s, 2400, 500, 6, c, 2400, 2) == 0 && gpu_calls() == before + i + 1, "page-locked memory once refused: the GPU is left out");
    }
    free(c);
    printf("%d times the CPU computed the rest: %d failures\n", (int)parts, test_failures);
}

/* Bytes of GPU memory, in use or in all. */
static int64_t gpu_memory(bool all)
{
    size_t left = 0, total = 0;
    int (*const ask)(size_t *, size_t *) = (int (*)(size_t *, size_t *))with_context("cuMemGetInfo_v2");
    CHECK(!ask(&left, &total), "no GPU memory");
    return (int64_t)(all ? total : total - left);
}

/* A call whose operands take `bytes`, most of them C. Returns the GPU memory that is in use afterwards. */
static int64_t taking(int64_t bytes, const char *when)
{
    const int64_t m = 2400, k = 6, n = (bytes / 8 - m * k) / (m + k);
    void *c = malloc((size_t)(m * n) * sizeof(double));
    const uint64_t before = gpu_calls();
    CHECK(exact_gemm(spelling_named("dgemm_"), m, n, k, c, m, 3) == 0, "%s: wrong", when);
    CHECK(gpu_calls() == before + 1, "%s: not served by the GPU", when);
    free(c);
    return gpu_memory(false);
}

static void *call_often(void *wrong)
{
    for (int i = 0; i < 100; i++)
        *(int64_t *)wrong += exact_square(spelling_named("dgemm_"), 150, i);
    return NULL;
}

static char *guarded; /* operands that cannot be read before go_on */
static atomic_bool reached, go_on;

static void wait_there(int signal)
{
    (void)signal;
    atomic_store(&reached, true);
    while (!atomic_load(&go_on))
        usleep(1000);
    mprotect(guarded, 1 << 16, PROT_READ | PROT_WRITE);
}

static void *call_guarded(void *c)
{
    call_gemm(spelling_named("dgemm_"), &(struct call){102, 'N', 'N', 50, 50, 50, 50, 50, 50, guarded, guarded, c, 1, 0, 1});
    return NULL;
}

/* Begins a short call that has the first lane until it is let go. */
static void hold(pthread_t *thread, double c[50 * 50])
{
    guarded = mmap(NULL, 1 << 16, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    sigaction(SIGSEGV, &(struct sigaction){.sa_handler = wait_there}, NULL);
    pthread_create(thread, NULL, call_guarded, c);
    while (!atomic_load(&reached))
        usleep(1000);
}

static void let_go(pthread_t thread)
{
    atomic_store(&go_on, true);
    pthread_join(thread, NULL);
    signal(SIGSEGV, SIG_DFL);
}

/* Bytes that a large call sends up. */
static uint64_t sent(int64_t n)
{
    struct gpugemm_stats before = {0}, after = {0};
    read_stats(&before, sizeof before);
    CHECK(exact_square(spelling_named("dgemm_"), n, 1) == 0, "%ld cubed: wrong", (long)n);
    read_stats(&after, sizeof after);
    CHECK(after.staged > before.staged, "%ld cubed: not served by the GPU", (long)n);
    return after.bytes_to_gpu - before.bytes_to_gpu;
}

/* A large call comes while another has the first lane. The next one, which gets that lane, has as much memory as if it were the first. */
static void idle_lanes(int64_t may)
{
    const int64_t n = (int64_t)sqrt(0.7 * (double)may / 24);
    double c[50 * 50];
    pthread_t thread;
    release_memory();
    const uint64_t whole = sent(n);
    release_memory();
    hold(&thread, c);
    CHECK(sent(n) == whole, "beside a short call a large one is cut up");
    let_go(thread);
    const uint64_t then = sent(n);
    CHECK(then == whole, "a large call sends %ld bytes up instead of %ld, because the memory is an idle lane's", (long)then, (long)whole);
}

/* One lane has all that the library may have, the program takes half of the rest: calls beside each other, for which there must be another lane, are
 * all served. */
static void beside(int64_t all)
{
    const uint64_t before = gpu_calls() + 1;
    int64_t wrong[3] = {0};
    pthread_t threads[3];
    float *some;
    taking(all, "most of the memory");
    CHECK(allocate(&some, (size_t)(gpu_memory(true) - gpu_memory(false)) / 2), "no GPU memory");
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, call_often, &wrong[i]);
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
        CHECK(wrong[i] == 0, "beside others: %ld wrong", (long)wrong[i]);
    }
    CHECK(gpu_calls() - before == 300, "of 300 calls beside each other %d were served by the GPU", (int)(gpu_calls() - before));
}

static void budget(void)
{
    const int64_t limit = getenv("GPUGEMM_GPU_MEMORY") ? (int64_t)atoi(getenv("GPUGEMM_GPU_MEMORY")) << 20 : 0, others = 3 << 20 /* at most */;
    release_memory();
    const int64_t least = gpu_memory(false), may = limit ? limit : (gpu_memory(true) - least) / 10 * 8, little = may / 20;
    const int64_t fits = taking(may - little, "what fits");
    CHECK(fits - least >= may - 2 * little && fits - least <= may + others, "what fits takes %ld of %ld bytes", (long)(fits - least), (long)may);
    CHECK(taking(may - little, "again") == fits, "the same call again changes how much is in use");
    CHECK(taking(may + little, "more, at once") - least <= may + others, "more than fits, behind what fits, takes more");
    release_memory();
    for (int part = 1; part < 4; part++) /* the arena grows */
        taking(may / 4 * part, "parts");
    for (int failing = 0; failing < 4; failing++) { /* every other time, the first or the second allocation */
        CHECK(release_memory() > 0 && gpu_memory(false) - least <= others, "%ld bytes are not given back", (long)(gpu_memory(false) - least));
        driver->error = 2; /* CUDA_ERROR_OUT_OF_MEMORY */
        driver->mode = FAULT_ONCE;
        driver->nth = asked("cuMemAlloc_v2") + 1 + (unsigned)failing / 2;
        driver->function = failing % 2 ? fault_function(driver, "cuMemAlloc_v2") : -1;
        const int64_t more = taking(may + little, "more than fits");
        CHECK(more - least <= may, "more than fits takes %ld of %ld bytes", (long)(more - least), (long)may);
        driver->function = -1;
        release_memory();
        const int64_t then = taking(may - little, "afterwards");
        CHECK(then == fits, "what fits takes %ld bytes, after a failure %ld", (long)fits, (long)then);
    }
    idle_lanes(may);
    if (!limit)
        beside(may - little);
    printf("%ld of %ld bytes: %d failures\n", (long)(fits - least), (long)may, test_failures);
}

/* Two lanes have half each of the page-locked memory for short calls. One that nobody has used for long loses its half to a call that wants all. */
static void unused_lanes(void)
{
    double c[50 * 50];
    pthread_t thread;
    hold(&thread, c);
    sent(150);
    let_go(thread);
    const unsigned long before = asked("cuMemHostRegister_v2");
    sent(250);
    usleep(1200000);
    sent(250);
    const unsigned long grown = asked("cuMemHostRegister_v2");
    CHECK(grown == before + 1, "page-locked memory was allocated %ld times", (long)(grown - before));
    sent(250);
    CHECK(asked("cuMemHostRegister_v2") == grown, "it was allocated again");
    printf("%d failures\n", test_failures);
}

static void *call_large(void *wrong)
{
    const int64_t m = 2400, n = 3000, k = 6;
    void *c = malloc((size_t)(m * n) * sizeof(double));
    for (int i = 0; i < 3; i++)
        *(int64_t *)wrong += exact_gemm(spelling_named("dgemm_"), m, n, k, c, m, i);
    free(c);
    return NULL;
}

static void turns(void)
{
    enum { THREADS = 6 };
    int64_t wrong[THREADS] = {0};
    pthread_t threads[THREADS];
    release_memory();
    const int64_t least = gpu_memory(false), others = 1 << 20;
    call_large(&wrong[0]);
    const int64_t one = gpu_memory(false) - least;
    const uint64_t before = gpu_calls();
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, call_large, &wrong[i]);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        CHECK(wrong[i] == 0, "%ld elements are wrong", (long)wrong[i]);
    }
    const int64_t all = gpu_memory(false) - least;
    CHECK(gpu_calls() - before == 3 * THREADS, "of %d calls %d were served by the GPU", 3 * THREADS, (int)(gpu_calls() - before));
    CHECK(one > others && all <= 2 * one + others, "large calls of %d threads take %ld bytes, one takes %ld", THREADS, (long)all, (long)one);
    printf("%ld bytes, %ld: %d failures\n", (long)one, (long)all, test_failures);
}

typedef __typeof__(gpugemm_sgemm) sgemm_on_stream;

/* A product on GPU operands that wants scratch, if there is code for a chain. */
enum { SIDE = 32, DEPTH = 128 };
static void call_on(void *stream, sgemm_on_stream *sgemm, const float *x, float *c)
{
    const int status = sgemm(GPUGEMM_COL_MAJOR, GPUGEMM_TRANS, GPUGEMM_NO_TRANS, SIDE, SIDE, DEPTH, 1, x, DEPTH, x, DEPTH, 0, c, SIDE, stream);
    CHECK(status == 0, "status %d", status);
}

static void streams(void)
{
    enum { STREAMS = 200, TIMES = 300 };
    const struct spelling *s = spelling_named("sgemm_");
    const int64_t m = 1024, n = 32, k = 1024; /* all its memory together is less than what is given back while the library is idle */
    float *c = malloc((size_t)(m * n) * sizeof *c), *x = NULL;
    void *stream;
    Dl_info info;
    CHECK(dladdr((const void *)s->address, &info), "no library");
    sgemm_on_stream *const sgemm = (sgemm_on_stream *)dlsym(dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD), "gpugemm_sgemm");
    int (*const create)(void **, unsigned, int) = (int (*)(void **, unsigned, int))with_context("cuStreamCreateWithPriority");
    int (*const wait)(void *) = (int (*)(void *))with_context("cuStreamSynchronize");
    for (int i = 0; i < 2; i++) { /* also after its memory was given back */
        release_memory();
        CHECK(exact_gemm(s, m, n, k, c, m, 1) == 0, "wrong");
    }
    CHECK(allocate(&x, (SIDE * DEPTH + SIDE * SIDE) * sizeof *x), "no GPU memory");
    unsigned long freed = asked("cuMemFree_v2");
    const unsigned long at_first = asked("cuMemAlloc_v2");
    for (int i = 0; i < STREAMS; i++) {
        CHECK(!create(&stream, 1, 0), "no stream");
        call_on(stream, sgemm, x, x + SIDE * DEPTH);
        CHECK(!wait(stream), "the stream fails");
        if (asked("cuMemAlloc_v2") == at_first) {
            fprintf(stderr, "skipped: no kernels for sm_90a, and so no chain\n");
            exit(SKIP);
        }
    }
    CHECK(asked("cuMemFree_v2") - freed > STREAMS / 4, "only %lu of %d streams took another's scratch", asked("cuMemFree_v2") - freed, STREAMS);
    const unsigned long allocated = asked("cuMemAlloc_v2");
    freed = asked("cuMemFree_v2");
    CHECK(exact_gemm(s, m, n, k, c, m, 2) == 0, "wrong behind other streams");
    CHECK(asked("cuMemAlloc_v2") == allocated && asked("cuMemFree_v2") == freed, "the staged call had lost its memory to other streams");

    driver->error = 2; /* CUDA_ERROR_OUT_OF_MEMORY */
    driver->mode = FAULT_FUNCTION;
    driver->nth = allocated + 1;
    driver->function = fault_function(driver, "cuMemAlloc_v2");
    CHECK(!create(&stream, 1, 0), "no stream");
    for (int i = 0; i < TIMES; i++)
        call_on(stream, sgemm, x, x + SIDE * DEPTH);
    driver->function = -1;
    CHECK(asked("cuMemAlloc_v2") - allocated >= TIMES, "only %lu times was memory asked for", asked("cuMemAlloc_v2") - allocated);
    CHECK(asked("cuMemFree_v2") - freed <= 1, "%lu other streams lost their scratch", asked("cuMemFree_v2") - freed);

    float *filler;
    for (size_t bytes = 64 << 20; bytes >= 64 << 10; bytes /= 2)
        while (allocate(&filler, bytes))
            ;
    freed = asked("cuMemFree_v2");
    for (int i = 0; i < 3; i++)
        call_on(stream, sgemm, x, x + SIDE * DEPTH);
    CHECK(asked("cuMemFree_v2") - freed == 1, "memory is full, and %lu other streams lost scratch that they have not needed for long",
          asked("cuMemFree_v2") - freed);
    CHECK(exact_gemm(s, m, n, k, c, m, 3) == 0, "wrong afterwards");
    free(c);
    printf("%d streams: %d failures\n", STREAMS, test_failures);
}

/* A call whose C is new memory, `gap` elements between its columns. */
static void call_on_new(int64_t gap, double beta, const char *when)
{
    const int64_t m = 1030, n = 700, k = 3, ldc = m + gap;
    const struct new_memory memory = new_memory((size_t)(ldc * n) * sizeof(double) + HUGE_PAGE);
    double *const c = (double *)(memory.begin + 16);
    CHECK(exact_update(spelling_named("dgemm_"), m, n, k, beta, c, ldc, 4) == 0, "%s, gap %ld: wrong", when, (long)gap);
    int64_t written = 0;
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = m; i < ldc; i++)
            written += c[i + j * ldc] != 0;
    CHECK(written == 0, "%s: %ld elements between the columns of C are written", when, (long)written);
    if (*huge_pages() && driver->function < 0)
        CHECK(huge_asked(memory.begin + HUGE_PAGE) == (beta == 0 && gap < 512), "%s, gap %ld, beta %g: huge pages", when, (long)gap, beta);
    unmap(&memory);
}

static void fresh(void)
{
    static const char *const functions[] = {"cuEventQuery", "cuMemcpyAsync", "cuMemcpy2DAsync_v2", "cuLaunchKernelEx"};
    const uint64_t before = gpu_calls();
    for (int gap = 0; gap < 4; gap++)
        for (int beta = 0; beta < 2; beta++)
            call_on_new((const int64_t[]){0, 100, 511, 512}[gap], beta, "without failures");
    CHECK(gpu_calls() == before + 8, "of 8 calls %d were served by the GPU", (int)(gpu_calls() - before));
    driver->error = 2; /* CUDA_ERROR_OUT_OF_MEMORY */
    driver->mode = FAULT_ONCE;
    driver->patient = true;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        for (unsigned nth = 1; nth <= 60; nth += 1 + nth / 4) {
            driver->nth = asked(functions[i]) + nth;
            driver->function = fault_function(driver, functions[i]);
            call_on_new(100, 0, functions[i]);
            driver->function = -1;
        }
    CHECK(recovered() >= 2, "only %d times had part of C arrived", (int)recovered());
    printf("%d times the CPU computed the rest: %d failures\n", (int)recovered(), test_failures);
}

/* A matrix of ones, of which the first `pieces` quarters are registered, each by itself. */
static double *ones(int64_t count, int pieces)
{
    double *const x = aligned_alloc(64, (size_t)count * sizeof *x);
    int (*const lock)(void *, size_t, unsigned) = (int (*)(void *, size_t, unsigned))with_context("cuMemHostRegister_v2");
    for (int64_t i = 0; i < count; i++)
        x[i] = 1;
    for (int i = 0; i < pieces; i++)
        CHECK(!lock(x + i * count / 4, (size_t)count / 4 * sizeof *x, 0), "not registered");
    return x;
}

typedef __typeof__(gpugemm_dgemm) dgemm_on_stream;

static void registered(void)
{
    const int64_t m = 1200, n = 400, k = 64;
    const struct spelling *s = spelling_named("dgemm_");
    Dl_info info;
    CHECK(dladdr((const void *)s->address, &info), "no library");
    dgemm_on_stream *const dgemm = (dgemm_on_stream *)dlsym(dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD), "gpugemm_dgemm");
    for (int pieces = 0; pieces <= 4; pieces++) {
        double *a = ones(m * k, pieces), *b = ones(k * n, 4 - pieces), *c = ones(m * n, pieces), wrong = 0;
        const uint64_t before = gpu_calls();
        call_gemm(s, &(struct call){102, 'N', 'N', m, n, k, m, k, m, a, b, c, 1, 0, 1});
        CHECK(gpu_calls() == before + 1, "%d pieces: not served by the GPU", pieces);
        for (int64_t i = 0; i < m * n; i++)
            wrong += c[i] != (double)k;
        CHECK(wrong == 0, "%d pieces: %g elements are wrong", pieces, wrong);
        float *on_gpu;
        CHECK(allocate(&on_gpu, (size_t)(m * n) * sizeof(double)), "no GPU memory");
        const int status = dgemm(GPUGEMM_COL_MAJOR, GPUGEMM_NO_TRANS, GPUGEMM_NO_TRANS, m, n, k, 1, a, m, b, k, 0, (double *)on_gpu, m, NULL);
        CHECK(status == 0, "%d pieces, C on the GPU: status %d", pieces, status);
    }
    printf("%d failures\n", test_failures);
}

int main(int argc, char **argv)
{
    open_by_arguments(argc, argv);
    cuda = dlopen("libcuda.so.1", RTLD_NOW);
    driver = cuda ? dlsym(cuda, "fail_cuda") : NULL;
    if (!driver || !read_stats)
        return fprintf(stderr, "libcuda.so.1 is not that of fail_cuda.c\n"), 2;
    driver->function = -1;
    driver->armed = true;
    exact_square(spelling_named("dgemm_"), 100, 1); /* starts the GPU */
    const char *const what = argv[argc - 1];
    if (!strcmp(what, "--failures"))
        failing();
    else if (!strcmp(what, "--budget"))
        budget();
    else if (!strcmp(what, "--unused"))
        unused_lanes();
    else if (!strcmp(what, "--turns"))
        turns();
    else if (!strcmp(what, "--streams"))
        streams();
    else if (!strcmp(what, "--fresh"))
        fresh();
    else if (!strcmp(what, "--registered"))
        registered();
    else
        traffic();
    return test_failures != 0;
}

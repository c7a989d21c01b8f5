/* t_staged.c — calls on operands in host memory, and what they ask of the driver.
 *
 *   t_staged --lib PATH             the bytes that cross the link are those of the operands, C goes up only if it is read, and the same call again
 *                                   allocates nothing and makes the same copies, however often it comes, also after its memory was given back
 *   t_staged --lib PATH --failures  calls during which the driver fails once, late enough that part of C has arrived: the CPU computes the rest
 *
 * The driver must be fail_cuda.c's, in front of fake_cuda.c. With little page-locked memory all calls are long, else most are short. */
#include "exact.h"
#include "faults.h"

static struct faults *driver;

static unsigned long asked(const char *name) { return driver->calls[fault_function(driver, name)]; }

enum { ALLOCATED, COPIED, WAITED, WHATS };

static void count(unsigned long of[WHATS])
{
    of[ALLOCATED] = asked("cuMemAlloc_v2") + asked("cuMemHostAlloc") + asked("cuEventCreate") + asked("cuStreamCreateWithPriority");
    of[COPIED] = asked("cuMemcpyAsync") + asked("cuMemcpy2DAsync_v2");
    of[WAITED] = asked("cuStreamWaitEvent");
}

/* How such calls go: short ones are fetched by a kernel or copied whole lines at a time, padding included; long ones are cut up. */
enum way { FETCHED, SHORT, LONG };

static void repeat(const char *name, int64_t m, int64_t n, int64_t k, double beta, enum way way)
{
    const struct spelling *s = spelling_named(name);
    const int64_t size = s->dbl ? 8 : 4, unit = 128 / size, pad_m = (m + unit - 1) / unit * unit, pad_k = (k + unit - 1) / unit * unit;
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
            const unsigned long want = what == ALLOCATED || (what == COPIED && way == FETCHED) ? 0 : first[what];
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
            repeat("sgemm_", 97, 65, 101, beta, beta ? SHORT : FETCHED);
            repeat("dgemm_", 130, 100, 90, beta, beta ? SHORT : FETCHED);
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

static void *page_locked(void *cuda, size_t bytes)
{
    void *context, *memory = NULL;
    int (*const retain)(void **, int) = (int (*)(void **, int))dlsym(cuda, "cuDevicePrimaryCtxRetain");
    int (*const enter)(void *) = (int (*)(void *))dlsym(cuda, "cuCtxSetCurrent");
    int (*const allocate)(void **, size_t, unsigned) = (int (*)(void **, size_t, unsigned))dlsym(cuda, "cuMemHostAlloc");
    CHECK(!retain(&context, 0) && !enter(context) && !allocate(&memory, bytes, 0), "no page-locked memory");
    return memory;
}

/* C := A B + 2 C, so that what is computed twice is wrong. Of a C of 1.3 MB a short call has three legs. */
static void failing(void *cuda)
{
    enum { OUT_OF_MEMORY = 2 }; /* CUDA_ERROR_OUT_OF_MEMORY, which a context survives */
    static const char *const functions[] = {"cuEventQuery", "cuEventRecord", "cuMemcpyAsync", "cuMemcpy2DAsync_v2", "cuStreamWaitEvent"};
    const struct spelling *s = spelling_named("dgemm_");
    uint64_t parts = 0;
    driver->error = OUT_OF_MEMORY;
    driver->mode = FAULT_ONCE;
    driver->patient = true;
    for (int shape = 0; shape < 3; shape++) { /* lines longer than the least slot, 64 KB, in however many panels; and C page-locked: never direct */
        const int64_t m = shape == 1 ? 150000 : 400, n = shape == 1 ? 5 : 400, k = shape == 1 ? 3 : 12, ldc = m + 10;
        const size_t bytes = (size_t)(ldc * n) * sizeof(double);
        void *c = shape == 2 ? page_locked(cuda, bytes) : malloc(bytes);
        CHECK(exact_gemm(s, m, n, k, c, ldc, 1) == 0, "%ld rows: wrong before any failure", (long)m);
        for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
            for (unsigned nth = 1; nth <= 60; nth += 1 + nth / (shape == 1 ? 2 : 8)) {
                driver->nth = asked(functions[i]) + nth;
                driver->function = fault_function(driver, functions[i]);
                CHECK(exact_gemm(s, m, n, k, c, ldc, nth) == 0, "%ld rows, %s call %u failing: wrong", (long)m, functions[i], nth);
                driver->function = -1;
            }
        if (shape < 2)
            free(c);
    }
    parts = recovered();
    CHECK(parts >= 2, "only %d times had part of C arrived", (int)parts);
    CHECK(exact_square(s, 150, 1) == 0, "wrong afterwards");
    printf("%d times the CPU computed the rest: %d failures\n", (int)parts, test_failures);
}

int main(int argc, char **argv)
{
    open_by_arguments(argc, argv);
    void *cuda = dlopen("libcuda.so.1", RTLD_NOW);
    driver = cuda ? dlsym(cuda, "fail_cuda") : NULL;
    if (!driver || !read_stats)
        return fprintf(stderr, "libcuda.so.1 is not that of fail_cuda.c\n"), 2;
    driver->function = -1;
    driver->armed = true;
    exact_square(spelling_named("dgemm_"), 100, 1); /* starts the GPU */
    strcmp(argv[argc - 1], "--failures") ? traffic() : failing(cuda);
    return test_failures != 0;
}

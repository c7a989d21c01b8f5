/* declined.c — what a declined call costs: products of 8×8×8, which are too small for any GPU, or of another size through libgpugemm, compared with the
 * same calls to the real BLAS.
 *
 *   declined [--lib PATH] [--blas PATH] [--batches N] [--size N]
 *
 * Operands are in the program's data, in its heap, and in mapped memory. The last kind could be GPU memory, so the library has to ask the CUDA driver
 * about it, where there is one (this program loads it, and starts the library's GPU). Batches of 500 calls of 8×8×8, fewer of a larger size, after as
 * many that only warm up, the two libraries in turn. Prints the median over batches in nanoseconds per call, and in brackets the minimum. */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

static const char *const names[] = {"dgemm_", "sgemm_", "cblas_dgemm", "cblas_sgemm"}; /* call() relies on this order */
enum { MAX_BATCHES = 2000, MOST = 128 };
static int n = 8, calls = 500;
static size_t bytes; /* of an operand */
static const void *a, *b;
static void *c;

static void call(int name, void *address)
{
    double one = 1, zero = 0;
    float one_f = 1, zero_f = 0;
    if (name == 0)
        ((void (*)(const char *, const char *, const int *, const int *, const int *, const double *, const void *, const int *, const void *,
                   const int *, const double *, void *, const int *, size_t, size_t))address)("N", "N", &n, &n, &n, &one, a, &n, b, &n, &zero, c, &n,
                                                                                              1, 1);
    else if (name == 1)
        ((void (*)(const char *, const char *, const int *, const int *, const int *, const float *, const void *, const int *, const void *,
                   const int *, const float *, void *, const int *, size_t, size_t))address)("N", "N", &n, &n, &n, &one_f, a, &n, b, &n, &zero_f, c,
                                                                                             &n, 1, 1);
    else if (name == 2)
        ((void (*)(int, int, int, int, int, int, double, const void *, int, const void *, int, double, void *, int))address)(
            102, 111, 111, n, n, n, one, a, n, b, n, zero, c, n);
    else
        ((void (*)(int, int, int, int, int, int, float, const void *, int, const void *, int, float, void *, int))address)(
            102, 111, 111, n, n, n, one_f, a, n, b, n, zero_f, c, n);
}

static double batch(int name, void *address)
{
    struct timespec t0, t1;
    for (int i = -calls; i < calls; i++) {
        if (i == 0)
            clock_gettime(CLOCK_MONOTONIC, &t0);
        call(name, address);
    }
    clock_gettime(CLOCK_MONOTONIC, &t1);
    return ((double)(t1.tv_sec - t0.tv_sec) * 1e9 + (double)(t1.tv_nsec - t0.tv_nsec)) / calls;
}

static int ascending(const void *x, const void *y) { return (*(const double *)x > *(const double *)y) - (*(const double *)x < *(const double *)y); }

static void measure(int name, void *const routine[2], int batches, const char *where, char *operands)
{
    static double times[2][MAX_BATCHES];
    const bool dbl = name % 2 == 0;
    for (int i = 0; i < 2 * n * n; i++) {
        double value = (i < n * n ? i : 2 * n * n - i) / 64.0;
        char *at = operands + i / (n * n) * bytes;
        dbl ? (void)(((double *)at)[i % (n * n)] = value) : (void)(((float *)at)[i % (n * n)] = (float)value);
    }
    a = operands, b = operands + bytes, c = operands + 2 * bytes;
    for (int i = 0; i < 2 * batches; i++)
        times[i % 2][i / 2] = batch(name, routine[i % 2]);
    for (int i = 0; i < 2; i++)
        qsort(times[i], (size_t)batches, sizeof(double), ascending);
    const double *ours = times[0], *direct = times[1];
    const int middle = batches / 2;
    printf("%-14s %-8s %7.1f (%.1f)   %7.1f (%.1f)   %+7.1f (%+.1f)\n", names[name], where, ours[middle], ours[0], direct[middle], direct[0],
           ours[middle] - direct[middle], ours[0] - direct[0]);
}

int main(int argc, char **argv)
{
    static char data[3 * MOST * MOST * sizeof(double)];
    const char *lib = "build/libgpugemm.so", *blas = "libopenblas.so.0";
    int batches = 501;
    for (int i = 1; i + 1 < argc; i += 2)
        if (!strcmp(argv[i], "--lib"))
            lib = argv[i + 1];
        else if (!strcmp(argv[i], "--blas"))
            blas = argv[i + 1];
        else if (!strcmp(argv[i], "--batches"))
            batches = atoi(argv[i + 1]);
        else if (!strcmp(argv[i], "--size"))
            n = atoi(argv[i + 1]);
    if (n < 1 || n > MOST)
        return fprintf(stderr, "sizes from 1 to %d\n", MOST), 2;
    calls = n > 16 ? 50 : 500;
    bytes = (size_t)(n * n) * sizeof(double);
    batches = batches < 1 ? 1 : batches > MAX_BATCHES ? MAX_BATCHES : batches;
    setenv("OPENBLAS_NUM_THREADS", "1", 0);
    setenv("GPUGEMM_BLAS", blas, 0); /* both use the same BLAS */
    void *ours = dlopen(lib, RTLD_NOW | RTLD_LOCAL), *theirs = ours ? dlopen(blas, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!theirs)
        return fprintf(stderr, "%s\n", dlerror()), 1;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    int (*start)(unsigned) = NULL;
    if (driver)
        *(void **)&start = dlsym(driver, "cuInit");
    char *heap = malloc(3 * bytes), *mapped = mmap(NULL, 3 * bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!heap || mapped == MAP_FAILED)
        return fprintf(stderr, "no memory\n"), 1;
    int (*warmup)(void);
    *(void **)&warmup = dlsym(ours, "gpugemm_warmup");
    printf("%dx%dx%d, ns a call, medians of %d batches of %d, %s\n                          through us       directly         cost\n", n, n, n, batches,
           calls, start && start(0) == 0 && warmup && warmup() == 0 ? "CUDA is up" : "no CUDA");
    for (int i = 0; i < 4; i++) {
        void *const routine[] = {dlsym(ours, names[i]), dlsym(theirs, names[i])};
        if (!routine[0] || !routine[1])
            return fprintf(stderr, "no %s\n", names[i]), 1;
        measure(i, routine, batches, "data", data);
        measure(i, routine, batches, "heap", heap);
        measure(i, routine, batches, "mapped", mapped);
    }
    return 0;
}

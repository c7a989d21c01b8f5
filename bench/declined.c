/* declined.c — what a declined call costs: 8×8×8 products through libgpugemm minus the same through the real BLAS directly.
 *
 *   declined [--lib PATH] [--blas PATH] [--batches N]
 *
 * Batches of 2000 calls, the two libraries taking turns; the median over batches of the time per call, in nanoseconds, for each name. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char *const names[] = {"dgemm_", "sgemm_", "cblas_dgemm", "cblas_sgemm"}; /* call() goes by this order */
enum { N = 8, CALLS = 2000, MAX_BATCHES = 2000 };
static const int n = N;
static double ad[N * N], bd[N * N], cd[N * N];
static float as[N * N], bs[N * N], cs[N * N];

static void call(int name, void *address)
{
    double one = 1, zero = 0;
    float one_f = 1, zero_f = 0;
    if (name == 0)
        ((void (*)(const char *, const char *, const int *, const int *, const int *, const double *, const double *, const int *,
                   const double *, const int *, const double *, double *, const int *, size_t, size_t))address)(
            "N", "N", &n, &n, &n, &one, ad, &n, bd, &n, &zero, cd, &n, 1, 1);
    else if (name == 1)
        ((void (*)(const char *, const char *, const int *, const int *, const int *, const float *, const float *, const int *,
                   const float *, const int *, const float *, float *, const int *, size_t, size_t))address)(
            "N", "N", &n, &n, &n, &one_f, as, &n, bs, &n, &zero_f, cs, &n, 1, 1);
    else if (name == 2)
        ((void (*)(int, int, int, int, int, int, double, const double *, int, const double *, int, double, double *, int))address)(
            102, 111, 111, n, n, n, one, ad, n, bd, n, zero, cd, n);
    else
        ((void (*)(int, int, int, int, int, int, float, const float *, int, const float *, int, float, float *, int))address)(
            102, 111, 111, n, n, n, one_f, as, n, bs, n, zero_f, cs, n);
}

static double batch(int name, void *address)
{
    struct timespec t0, t1;
    clock_gettime(CLOCK_MONOTONIC, &t0);
    for (int i = 0; i < CALLS; i++)
        call(name, address);
    clock_gettime(CLOCK_MONOTONIC, &t1);
    return ((double)(t1.tv_sec - t0.tv_sec) * 1e9 + (double)(t1.tv_nsec - t0.tv_nsec)) / CALLS;
}

static int ascending(const void *a, const void *b)
{
    return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

int main(int argc, char **argv)
{
    static double times[3][MAX_BATCHES];
    const char *lib = "build/libgpugemm.so", *blas = "libopenblas.so.0";
    int batches = 501;
    for (int i = 1; i + 1 < argc; i += 2)
        if (!strcmp(argv[i], "--lib"))
            lib = argv[i + 1];
        else if (!strcmp(argv[i], "--blas"))
            blas = argv[i + 1];
        else if (!strcmp(argv[i], "--batches"))
            batches = atoi(argv[i + 1]);
    batches = batches < 1 ? 1 : batches > MAX_BATCHES ? MAX_BATCHES : batches;
    setenv("OPENBLAS_NUM_THREADS", "1", 0);
    setenv("GPUGEMM_BLAS", blas, 0); /* the same object for both */
    for (int i = 0; i < N * N; i++)
        ad[i] = as[i] = (float)i / 64, bd[i] = bs[i] = 1 - (float)i / 64;
    void *ours = dlopen(lib, RTLD_NOW | RTLD_LOCAL), *theirs = ours ? dlopen(blas, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!theirs)
        return fprintf(stderr, "%s\n", dlerror()), 1;
    printf("8x8x8, ns a call, median of %d batches of %d     through us     direct     cost\n", batches, CALLS);
    for (int i = 0; i < 4; i++) {
        void *our = dlsym(ours, names[i]), *their = dlsym(theirs, names[i]);
        if (!our || !their)
            return fprintf(stderr, "no %s\n", names[i]), 1;
        batch(i, our), batch(i, their);
        for (int b = 0; b < batches; b++) {
            times[0][b] = batch(i, our);
            times[1][b] = batch(i, their);
            times[2][b] = times[0][b] - times[1][b];
        }
        for (int t = 0; t < 3; t++)
            qsort(times[t], (size_t)batches, sizeof(double), ascending);
        printf("%-58s %8.1f   %8.1f %8.1f\n", names[i], times[0][batches / 2], times[1][batches / 2], times[2][batches / 2]);
    }
    return 0;
}

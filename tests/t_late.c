/* t_late.c — a GPU that takes longer to start than expected: a call waits for it no longer than the GPU would save it, and the others do not wait at
 * all. Run by t_fake_gpu.sh with a driver whose cuInit takes ten seconds. A busy machine may take a second for a call, and two for a few.
 *
 *   t_late [--lib PATH] */
#include "test.h"

#include <dlfcn.h>
#include <time.h>

#include "gpugemm.h"

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(int argc, char **argv)
{
    enum { N = 1000 };
    void *library = dlopen(argc > 2 ? argv[2] : "build/libgpugemm.so", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return fprintf(stderr, "%s\n", dlerror()), 1;
    __typeof__(gpugemm_dgemm) *gemm;
    __typeof__(gpugemm_last_decision) *last_decision;
    *(void **)&gemm = dlsym(library, "gpugemm_dgemm");
    *(void **)&last_decision = dlsym(library, "gpugemm_last_decision");
    static double a[N * N], b[N * N], c[N * N];
    struct gpugemm_decision d = {0};
    double end = now() + 30, longest = 0;
    bool starting = false;
    while (now() < end) {
        const double start = now();
        gemm(GPUGEMM_COL_MAJOR, GPUGEMM_NO_TRANS, GPUGEMM_NO_TRANS, N, N, N, 1, a, N, b, N, 0, c, N, NULL);
        longest = now() - start > longest ? now() - start : longest;
        last_decision(&d, sizeof d);
        CHECK(!strcmp(d.path, "cpu") && strcmp(d.reason, "faster on the GPU"), "%s: %s", d.path, d.reason);
        if (!starting && !strcmp(d.reason, "the GPU is starting")) {
            starting = true;
            end = now() + 1;
        }
    }
    CHECK(starting, "the GPU was not started: %s, predicted %g and %g s", d.reason, d.predicted_cpu, d.predicted_gpu);
    CHECK(longest < 5, "a call took %.1f s", longest);
    printf("the longest call %.3f s: %d failures\n", longest, test_failures);
    return test_failures != 0;
}

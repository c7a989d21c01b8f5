/* constructor.c — a module that multiplies while it is being loaded: its constructor runs under the loader's lock. For t_process.c. */
#include <dlfcn.h>
#include <stdlib.h>

__attribute__((visibility("default"))) int constructed;

__attribute__((constructor)) static void multiply(void)
{
    enum { N = 180 };
    static double a[N * N], b[N * N], c[N * N];
    void *library = dlopen(getenv("GPUGEMM_LIB_UNDER_TEST"), RTLD_NOW | RTLD_LOCAL);
    void (*dgemm)(const char *, const char *, const int *, const int *, const int *, const double *, const double *, const int *, const double *,
                  const int *, const double *, double *, const int *, size_t, size_t);
    const int n = N;
    const double one = 1, zero = 0;
    if (!library || !(*(void **)&dgemm = dlsym(library, "dgemm_")))
        return;
    for (int i = 0; i < N * N; i++)
        a[i] = i % 5, b[i] = i % 3, c[i] = -1;
    dgemm("N", "N", &n, &n, &n, &one, a, &n, b, &n, &zero, c, &n, 1, 1);
    constructed = 1;
    for (int j = 0; j < N; j += 7)
        for (int i = 0; i < N; i++) {
            double sum = 0;
            for (int l = 0; l < N; l++)
                sum += a[i + l * N] * b[l + j * N];
            constructed &= c[i + j * N] == sum;
        }
}

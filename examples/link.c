/* A program that calls CBLAS and a Fortran name, linked with libgpugemm in place of a BLAS:
 *
 *   $ gcc $(pkg-config --cflags gpugemm) link.c $(pkg-config --libs gpugemm) -o link
 *   $ ./link
 *   $ GPUGEMM_STATS=1 ./link
 */
#include <cblas.h>
#include <gpugemm.h>
#include <stdio.h>
#include <stdlib.h>

double ddot_(const int *n, const double *x, const int *incx, const double *y, const int *incy);

int main(void)
{
    enum { N = 1500 };
    double *a = malloc(sizeof(double[N][N])), *b = malloc(sizeof(double[N][N])), *c = malloc(sizeof(double[N][N]));
    if (!a || !b || !c)
        return 1;
    for (int i = 0; i < N * N; i++)
        a[i] = i % 7, b[i] = i % 11;

    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, N, N, N, 1, a, N, b, N, 0, c, N);

    struct gpugemm_decision d; /* tells who served it, for those who want to know */
    gpugemm_last_decision(&d, sizeof d);
    double expected = ddot_(&(int){N}, a, &(int){1}, b, &(int){N}); /* any other routine is passed on to the CPU BLAS */
    printf("c[0][0] = %g, expected %g; computed on the %s path: %s\n", c[0], expected, d.path, d.reason);
    return c[0] != expected;
}

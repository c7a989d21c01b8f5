/* CBLAS, row- and column-major, in both precisions. */
#include <cblas.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

int main(void)
{
    const int n = getenv("N") ? atoi(getenv("N")) : 400;
    double *a = malloc((size_t)n * n * sizeof *a), *c = malloc((size_t)n * n * sizeof *c);
    float *s = malloc((size_t)n * n * sizeof *s), *r = malloc((size_t)n * n * sizeof *r);
    for (int i = 0; i < n * n; i++)
        s[i] = (float)(a[i] = sin(i));
    for (int order = CblasRowMajor; order <= CblasColMajor; order++) {
        double sum = 0, sum_s = 0;
        cblas_dgemm(order, CblasNoTrans, CblasTrans, n, n, n - 1, 1, a, n, a, n, 0, c, n);
        cblas_sgemm(order, CblasTrans, CblasNoTrans, n - 1, n, n, 1, s, n, s, n, 0, r, n);
        for (int i = 0; i < n * n; i++)
            sum += c[i] * c[i];
        for (int i = 0; i < n * (n - 1); i++) /* the elements that both orders write */
            sum_s += order == CblasRowMajor || i % n != n - 1 ? (double)r[i] * r[i] : 0;
        printf("dgemm_%d %.15g\nsgemm_float_%d %.7g\n", order, sqrt(sum), order, sqrt(sum_s));
    }
    return 0;
}

/* t_calls_back.c — the library is preloaded in front of a CBLAS (calls_back.c) that calls it back by a name that nobody else defines: the product
 * must be right all the same. */
#include "test.h"

void cblas_dgemm(int layout, int transa, int transb, int m, int n, int k, double alpha, const double *a, int lda, const double *b, int ldb,
                 double beta, double *c, int ldc);

int main(void)
{
    const double a[4] = {1, 2, 3, 4}, b[4] = {2, 0, 1, 1}, right[4] = {2, 4, 4, 6};
    double c[4] = {0};
    for (int times = 0; times < 3; times++) {
        cblas_dgemm(102, 111, 111, 2, 2, 2, 1, a, 2, b, 2, 0, c, 2);
        for (int i = 0; i < 4; i++)
            CHECK(c[i] == right[i], "element %d is %g", i, c[i]);
    }
    return test_failures > 0;
}

#include <cblas.h>

int main(void)
{
    float a[4] = {1, 2, 3, 4}, c[4];
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, 2, 2, 2, 1, a, 2, a, 2, 0, c, 2);
    return c[0] != 5 || c[1] != 11 || c[3] != 25;
}

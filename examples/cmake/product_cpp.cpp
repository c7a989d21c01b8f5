#include <cblas.h>
#include <vector>

int main()
{
    const std::vector<double> a{1, 2, 3, 4};
    std::vector<double> c(4, 1);
    cblas_dgemm(CblasColMajor, CblasTrans, CblasNoTrans, 2, 2, 2, 1, a.data(), 2, a.data(), 2, 1, c.data(), 2);
    return c != std::vector<double>{6, 12, 12, 26};
}

// Eigen, told to use a BLAS: products, and a blocked LU, whose updates are products.
#define EIGEN_USE_BLAS
#include <Eigen/Dense>
#include <chrono>
#include <cstdio>
#include <cstdlib>

template <class F> static void answer(const char *name, F f)
{
    auto start = std::chrono::steady_clock::now();
    const auto x = f();
    std::printf("time %s %.6f\n", name, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    std::printf("%s %.17g\n", name, (double)x.norm());
}

int main()
{
    const char *text = std::getenv("N");
    const int n = text ? std::atoi(text) : 400;
    std::srand(1);
    const Eigen::MatrixXd a = Eigen::MatrixXd::Random(n, n), b = Eigen::MatrixXd::Random(n, n);
    const Eigen::MatrixXf s = a.cast<float>();
    answer("product", [&] { return Eigen::MatrixXd(a * b); });
    answer("product_float", [&] { return Eigen::MatrixXf(s * s); });
    answer("product_transposed", [&] { return Eigen::MatrixXd(a.transpose() * b); });
    answer("solve", [&] { return Eigen::MatrixXd((a + n * Eigen::MatrixXd::Identity(n, n)).partialPivLu().solve(b)); });
}

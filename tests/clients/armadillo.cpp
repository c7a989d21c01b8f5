// Armadillo: products and a solve, through its own wrapper library.
#include <armadillo>
#include <chrono>
#include <cstdio>
#include <cstdlib>

template <class F> static void answer(const char *name, F f)
{
    auto start = std::chrono::steady_clock::now();
    auto x = f();
    std::printf("time %s %.6f\n", name, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    std::printf("%s %.17g\n", name, (double)arma::norm(x, "fro"));
}

int main()
{
    const char *text = std::getenv("N");
    const arma::uword n = text ? std::strtoul(text, nullptr, 10) : 400;
    arma::arma_rng::set_seed(1);
    const arma::mat a(n, n, arma::fill::randn), b(n, n, arma::fill::randn);
    const arma::fmat s = arma::conv_to<arma::fmat>::from(a);
    answer("product", [&] { return arma::mat(a * b); });
    answer("product_float", [&] { return arma::fmat(s * s); });
    answer("product_transposed", [&] { return arma::mat(a.t() * b); });
    answer("solve", [&] { return arma::mat(arma::solve(a + double(n) * arma::eye(n, n), b)); });
}

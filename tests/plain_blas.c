/* plain_blas.c — a BLAS of plain loops for t_short.c: every name of gemm, untransposed, and what arrived with the last call. */
#include <stddef.h>
#include <stdint.h>

struct arrived {
    const void *caller; /* the return address */
    const void *b;
    int64_t ldc;
    double beta;
    size_t hidden; /* the sum of the hidden lengths of a Fortran call */
} plain_arrived;

#define LOOPS(T)                                                                                                                                     \
    static void loops_##T(int64_t m, int64_t n, int64_t k, T alpha, const T *a, int64_t lda, const T *b, int64_t ldb, T beta, T *c, int64_t ldc)     \
    {                                                                                                                                                \
        for (int64_t i = 0; i < m * n; i++) {                                                                                                        \
            T sum = 0, *at = &c[i % m + i / m * ldc];                                                                                                \
            for (int64_t l = 0; l < k; l++)                                                                                                          \
                sum += a[i % m + l * lda] * b[l + i / m * ldb];                                                                                      \
            *at = alpha * sum + beta * *at;                                                                                                          \
        }                                                                                                                                            \
    }
LOOPS(float)
LOOPS(double)

#define F77(name, T, INT)                                                                                                                            \
    void name(const char *transa, const char *transb, const INT *m, const INT *n, const INT *k, const T *alpha, const T *a, const INT *lda,          \
              const T *b, const INT *ldb, const T *beta, T *c, const INT *ldc, size_t length_a, size_t length_b)                                     \
    {                                                                                                                                                \
        (void)transa, (void)transb;                                                                                                                  \
        plain_arrived = (struct arrived){__builtin_return_address(0), b, *ldc, (double)*beta, length_a + length_b};                                  \
        loops_##T(*m, *n, *k, *alpha, a, *lda, b, *ldb, *beta, c, *ldc);                                                                             \
    }
#define CBLAS(name, T, INT)                                                                                                                          \
    void name(int layout, int transa, int transb, INT m, INT n, INT k, T alpha, const T *a, INT lda, const T *b, INT ldb, T beta, T *c, INT ldc)     \
    {                                                                                                                                                \
        (void)transa, (void)transb;                                                                                                                  \
        plain_arrived = (struct arrived){__builtin_return_address(0), b, ldc, (double)beta, 0};                                                      \
        if (layout == 101)                                                                                                                           \
            loops_##T(n, m, k, alpha, b, ldb, a, lda, beta, c, ldc);                                                                                 \
        else                                                                                                                                         \
            loops_##T(m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);                                                                                 \
    }

#define TYPE_S float
#define TYPE_D double
#define ABI_F77_32(name, T) F77(name, T, int32_t)
#define ABI_F77_64(name, T) F77(name, T, int64_t)
#define ABI_CBLAS_32(name, T) CBLAS(name, T, int32_t)
#define ABI_CBLAS_64(name, T) CBLAS(name, T, int64_t)
#define ABI(abi, name, T) ABI_##abi(name, T)
#define X(name, type, abi) ABI(abi, name, TYPE_##type)
#include "../src/symbols.def"

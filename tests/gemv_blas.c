/* gemv_blas.c — a BLAS of plain loops for t_gemv.c, which counts the calls of its gemm and its gemv. t_gemv.sh compiles it once for each kind of
 * library: PRE and POST are what comes before and after every name, INT is its integer, CORE makes it an OpenBLAS of 16 threads. Its gemv multiplies y
 * by beta even if beta is 0, as some versions of OpenBLAS do. For t_learns.c with PARALLEL: it says that all calls come from teams of threads. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define PASTE(a, b, c) a##b##c
#define JOIN(a, b, c) PASTE(a, b, c)
#define F77(name) JOIN(PRE, name##_, POST)
#define CBLAS(name) JOIN(PRE, name, POST)

#ifdef CORE
char *CBLAS(openblas_get_corename)(void) { return "Fake"; }
int CBLAS(openblas_get_num_threads)(void) { return 16; }
#endif

#ifdef PARALLEL /* as if an OpenMP that the library is built with said so */
int omp_in_parallel(void) { return 1; }
#endif

#ifdef INT
atomic_int counted[2]; /* calls of gemm, of gemv */

#define ROUTINES(T, gemm, gemv, cblas_gemm)                                                                                                          \
    void F77(gemm)(const char *ta, const char *tb, const INT *m, const INT *n, const INT *k, const T *alpha, const T *a, const INT *lda, const T *b, \
                   const INT *ldb, const T *beta, T *c, const INT *ldc)                                                                              \
    {                                                                                                                                                \
        const int64_t a1 = *ta == 'N' ? 1 : *lda, a2 = *ta == 'N' ? *lda : 1, b1 = *tb == 'N' ? 1 : *ldb, b2 = *tb == 'N' ? *ldb : 1;                \
        counted[0]++;                                                                                                                                \
        for (int64_t i = 0; i < (int64_t) * m * *n; i++) {                                                                                           \
            T sum = 0, *at = &c[i % *m + i / *m * *ldc];                                                                                             \
            for (int64_t l = 0; l < *k; l++)                                                                                                         \
                sum += a[i % *m * a1 + l * a2] * b[l * b1 + i / *m * b2];                                                                            \
            *at = *alpha * sum + (*beta == 0 ? 0 : *beta * *at);                                                                                     \
        }                                                                                                                                            \
    }                                                                                                                                                \
    void CBLAS(cblas_gemm)(int layout, int ta, int tb, INT m, INT n, INT k, T alpha, const T *a, INT lda, const T *b, INT ldb, T beta, T *c,         \
                           INT ldc)                                                                                                                  \
    {                                                                                                                                                \
        const char *letter[] = {"N", "T"};                                                                                                           \
        if (layout == 101)                                                                                                                           \
            F77(gemm)(letter[tb - 111], letter[ta - 111], &n, &m, &k, &alpha, b, &ldb, a, &lda, &beta, c, &ldc);                                     \
        else                                                                                                                                         \
            F77(gemm)(letter[ta - 111], letter[tb - 111], &m, &n, &k, &alpha, a, &lda, b, &ldb, &beta, c, &ldc);                                     \
    }                                                                                                                                                \
    void F77(gemv)(const char *trans, const INT *m, const INT *n, const T *alpha, const T *a, const INT *lda, const T *x, const INT *incx,           \
                   const T *beta, T *y, const INT *incy)                                                                                             \
    {                                                                                                                                                \
        const bool t = *trans == 'T';                                                                                                                \
        counted[1]++;                                                                                                                                \
        for (int64_t i = 0; i < (t ? *n : *m); i++) {                                                                                                \
            T sum = 0;                                                                                                                               \
            for (int64_t l = 0; l < (t ? *m : *n); l++)                                                                                              \
                sum += a[t ? l + i * *lda : i + l * *lda] * x[l * *incx];                                                                            \
            y[i * *incy] = *alpha * sum + *beta * y[i * *incy];                                                                                      \
        }                                                                                                                                            \
    }
ROUTINES(float, sgemm, sgemv, cblas_sgemm)
ROUTINES(double, dgemm, dgemv, cblas_dgemm)
#endif

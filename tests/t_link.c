/* t_link.c — a program that has no BLAS but -lgpugemm: gemm under several names, and routines of each level and kind of result that are forwarded
 * (float, double, integer, complex by value, stack arguments), all compared with plain loops. t_install.sh builds it in every supported way; as C++
 * too. It defines xerbla_ and cblas_xerbla, which must take precedence over the library's and the real BLAS's. */
#include <cblas.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gpugemm.h>

#ifdef __cplusplus
extern "C" {
#endif
struct complex_double {
    double re, im;
};
struct complex_double zdotc_(const int *n, const void *x, const int *incx, const void *y, const int *incy);
double ddot_(const int *n, const double *x, const int *incx, const double *y, const int *incy);
int idamax_(const int *n, const double *x, const int *incx);
void drotg_(double *a, double *b, double *c, double *s);
void dtrsm_(const char *side, const char *uplo, const char *trans, const char *diag, const int *m, const int *n, const double *alpha, const double *a,
            const int *lda, double *b, const int *ldb);
void dgemm_(const char *transa, const char *transb, const int *m, const int *n, const int *k, const double *alpha, const double *a, const int *lda,
            const double *b, const int *ldb, const double *beta, double *c, const int *ldc);
void dgemm_64_(const char *transa, const char *transb, const int64_t *m, const int64_t *n, const int64_t *k, const double *alpha, const double *a,
               const int64_t *lda, const double *b, const int64_t *ldb, const double *beta, double *c, const int64_t *ldc);
void xerbla_(const char *routine, const int *info, size_t length);

static int reported;
void xerbla_(const char *routine, const int *info, size_t length)
{
    reported = strncmp(routine, "DGEM", length < 4 ? length : 4) == 0 ? *info : -1;
}
void cblas_xerbla(int info, const char *routine, const char *form, ...)
{
    va_list args;
    va_start(args, form);
    reported = strstr(routine, "gemv") ? info : -1;
    va_end(args);
}
#ifdef __cplusplus
}
#endif

enum { N = 7 };
static double a[N * N], b[N * N], c[N * N], want[N * N];
static float as[N * N], bs[N * N], cs[N * N];
static int failures;

static void check(const char *what, double found, double expected)
{
    double error = found - expected;
    if (!(error < 1e-5 && error > -1e-5)) {
        printf("%s: %g, expected %g\n", what, found, expected);
        failures++;
    }
}

/* The product of the row-major a and b in `want`; c cleared for the next. */
static void check_product(const char *what)
{
    for (int i = 0; i < N * N; i++) {
        check(what, c[i], want[i]);
        c[i] = 0;
    }
}

static void check_gemm(void)
{
    const double one = 1, zero = 0;
    const int n = N;
    const int64_t wide = N;
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, N, N, N, 1, a, N, b, N, 0, c, N);
    check_product("cblas_dgemm");
    cblas_dgemm64_(CblasRowMajor, CblasNoTrans, CblasNoTrans, N, N, N, 1, a, N, b, N, 0, c, N);
    check_product("cblas_dgemm64_");
    cblas_dgemm_64(CblasRowMajor, CblasNoTrans, CblasNoTrans, N, N, N, 1, a, N, b, N, 0, c, N);
    check_product("cblas_dgemm_64");
    dgemm_("N", "N", &n, &n, &n, &one, b, &n, a, &n, &zero, c, &n);
    check_product("dgemm_");
    dgemm_64_("N", "N", &wide, &wide, &wide, &one, b, &wide, a, &wide, &zero, c, &wide);
    check_product("dgemm_64_");
    gpugemm_dgemm(GPUGEMM_ROW_MAJOR, GPUGEMM_NO_TRANS, GPUGEMM_NO_TRANS, N, N, N, 1, a, N, b, N, 0, c, N, NULL);
    check_product("gpugemm_dgemm");
    cblas_sgemm64_(CblasRowMajor, CblasNoTrans, CblasNoTrans, N, N, N, 1, as, N, bs, N, 0, cs, N);
    for (int i = 0; i < N * N; i++)
        check("cblas_sgemm64_", cs[i], want[i]);
}

static void check_vectors(void)
{
    const int n = N, one = 1;
    double dot = 0, re = 0, im = 0;
    int largest = 0;
    for (int i = 0; i < N; i++) {
        dot += a[i] * b[i];
        if ((a[i] < 0 ? -a[i] : a[i]) > (a[largest] < 0 ? -a[largest] : a[largest]))
            largest = i;
    }
    for (int i = 0; i < 6; i += 2) { /* conj(a) b */
        re += a[i] * b[i] + a[i + 1] * b[i + 1];
        im += a[i] * b[i + 1] - a[i + 1] * b[i];
    }
    check("ddot_", ddot_(&n, a, &one, b, &one), dot);
    check("cblas_ddot", cblas_ddot(N, a, 1, b, 1), dot);
    check("cblas_sdsdot", cblas_sdsdot(N, 10.0f, as, 1, bs, 1), dot + 10);
    check("cblas_dsdot", cblas_dsdot(N, as, 1, bs, 1), dot);
    check("idamax_", idamax_(&n, a, &one), largest + 1);
    check("cblas_idamax", (double)cblas_idamax(N, a, 1), largest);
    const int three = 3;
    struct complex_double z = zdotc_(&three, a, &one, b, &one);
    check("zdotc_ (re)", z.re, re);
    check("zdotc_ (im)", z.im, im);
    cblas_zdotc_sub(3, a, 1, b, 1, &z);
    check("cblas_zdotc_sub", z.im, im);
    double f = 3, g = 4, cosine, sine;
    drotg_(&f, &g, &cosine, &sine);
    check("drotg_ (r)", f, 5);
    check("drotg_ (c)", cosine, 0.6);
    check("drotg_ (s)", sine, 0.8);
}

static void check_matrices(void)
{
    const int two = 2;
    const double triangle[4] = {2, 3, 0, 4}, half = 0.5; /* column-major: [2 0; 3 4] */
    double x[4] = {8, 40, 16, 8};                        /* 0.5 x = [4 8; 20 4]: solutions (2, 3.5) and (4, -2) */
    dtrsm_("L", "L", "N", "N", &two, &two, &half, triangle, &two, x, &two);
    check("dtrsm_ 0", x[0], 2);
    check("dtrsm_ 1", x[1], 3.5);
    check("dtrsm_ 2", x[2], 4);
    check("dtrsm_ 3", x[3], -2);
    const double m[8] = {1, 1, 2, 0, 0, 3, 1, -1}, v[4] = {1, 0, 0, 1}, alpha[2] = {0, 1}, beta[2] = {0, 0};
    double y[4];                                          /* i [1+i 2; 3i 1-i] (1, i) */
    cblas_zgemv(CblasRowMajor, CblasNoTrans, 2, 2, alpha, m, 2, v, 1, beta, y, 1);
    check("cblas_zgemv 0", y[0], -3);
    check("cblas_zgemv 1", y[1], 1);
    check("cblas_zgemv 2", y[2], -4);
    check("cblas_zgemv 3", y[3], 1);
    double z[2] = {0, 0};
    cblas_zgemm(CblasColMajor, CblasConjTrans, CblasNoTrans, 1, 1, 2, alpha, m, 2, v, 2, beta, z, 1); /* i (conj(1+i) 1 + 2 i) */
    check("cblas_zgemm 0", z[0], -1);
    check("cblas_zgemm 1", z[1], 1);
}

static void check_errors(void)
{
    const int n = N, bad = -1, small = 1;
    const double one = 1;
    dgemm_("N", "N", &bad, &n, &n, &one, a, &n, b, &n, &one, c, &n);
    check("xerbla_ (m)", reported, 3);
    dgemm_("N", "N", &n, &n, &n, &one, a, &n, b, &n, &one, c, &small);
    check("xerbla_ (ldc)", reported, 13);
    reported = 0; /* illegal arguments found by cblas functions are reported to xerbla_ by OpenBLAS, to cblas_xerbla by the reference */
    cblas_dgemv(CblasColMajor, CblasNoTrans, -1, N, one, a, N, b, 1, one, c, 1);
    check("cblas_xerbla (m)", reported, reported == 2 ? 2 : 3);
}

int main(void)
{
    for (int i = 0; i < N * N; i++) {
        as[i] = (float)(a[i] = (i * 5 % 11) - 5.5);
        bs[i] = (float)(b[i] = (i * 3 % 7) * 0.25 - 1);
    }
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            for (int l = 0; l < N; l++)
                want[i * N + j] += a[i * N + l] * b[l * N + j];
    check_gemm();
    check_vectors();
    check_matrices();
    check_errors();
    printf("%d failures\n", failures);
    return failures != 0;
}

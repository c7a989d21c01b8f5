/* check.h — arguments in, one struct gg_gemm out. Owns the rules of legal arguments; nobody else makes one from a caller's arguments. It never
 * reports: an illegal call goes to the real BLAS untouched, whose report is the reference's own. Inline, so that a tiny call's arguments go from the
 * entry's registers straight into the struct. Called by entry.c and api.c. */
#ifndef GG_CHECK_H
#define GG_CHECK_H

#include "gemm.h"

/* The arguments of one call as its caller wrote them, with integers widened. alpha and beta are pointers because Fortran passes them so. */
struct gg_arguments {
    int64_t m, n, k, lda, ldb, ldc;
    const void *alpha, *beta, *a, *b;
    void *c;
};

static inline double gg_check_scalar(enum gg_type type, const void *x)
{
    return type == GG_S ? (double)*(const float *)x : *(const double *)x;
}

/* Column-major. transa, transb: 0 as stored, 1 transposed, -1 illegal. Checks in the reference's order and fills *p when all is well. Returns 0, or
 * the position of the first illegal argument of dgemm.f (1 transa, 2 transb, 3 m, 4 n, 5 k, 8 lda, 10 ldb, 13 ldc). */
static inline int gg_check(enum gg_type type, int transa, int transb, const struct gg_arguments *x, struct gg_gemm *p)
{
    if (transa < 0)
        return 1;
    if (transb < 0)
        return 2;
    if (x->m < 0)
        return 3;
    if (x->n < 0)
        return 4;
    if (x->k < 0)
        return 5;
    if (x->lda < gg_max(1, transa ? x->k : x->m))
        return 8;
    if (x->ldb < gg_max(1, transb ? x->n : x->k))
        return 10;
    if (x->ldc < gg_max(1, x->m))
        return 13;
    *p = (struct gg_gemm){.type = type,
                          .a_kmajor = transa,
                          .b_kmajor = !transb,
                          .m = x->m,
                          .n = x->n,
                          .k = x->k,
                          .a = x->a,
                          .b = x->b,
                          .c = x->c,
                          .lda = x->lda,
                          .ldb = x->ldb,
                          .ldc = x->ldc,
                          .alpha = gg_check_scalar(type, x->alpha),
                          .beta = gg_check_scalar(type, x->beta)};
    return 0;
}

static inline int gg_check_letter(char trans)
{
    const int upper = trans & ~('a' ^ 'A');
    return upper == 'N' ? 0 : upper == 'T' || upper == 'C' ? 1 : -1;
}

/* Fortran: transa and transb are 'N', 'T', 'C' in either case. */
static inline int gg_check_f77(enum gg_type type, char transa, char transb, const struct gg_arguments *x, struct gg_gemm *p)
{
    return gg_check(type, gg_check_letter(transa), gg_check_letter(transb), x, p);
}

static inline int gg_check_enumerator(int trans)
{
    enum { NO_TRANS = 111, TRANS, CONJ_TRANS };
    return trans == NO_TRANS ? 0 : trans == TRANS || trans == CONJ_TRANS ? 1 : -1;
}

/* CBLAS. A row-major call, C^T = B^T A^T, becomes the Fortran call with A and B exchanged, as in every CBLAS, and its positions are those of that
 * call. */
enum { GG_BAD_LAYOUT = -1, GG_ROW_MAJOR = 101, GG_COL_MAJOR = 102 };

static inline int gg_check_cblas(enum gg_type type, int layout, int transa, int transb, const struct gg_arguments *x, struct gg_gemm *p)
{
    const int ta = gg_check_enumerator(transa), tb = gg_check_enumerator(transb);
    const struct gg_arguments swapped = {x->n, x->m, x->k, x->ldb, x->lda, x->ldc, x->alpha, x->beta, x->b, x->a, x->c};
    if (layout == GG_ROW_MAJOR)
        return gg_check(type, tb, ta, &swapped, p);
    return layout == GG_COL_MAJOR ? gg_check(type, ta, tb, x, p) : GG_BAD_LAYOUT;
}

/* Translates such a position to cblas_dgemm's own prototype (1 layout … 14 ldc). */
static inline int gg_cblas_position(int layout, int info)
{
    static const char swapped[] = {[1] = 3, [2] = 2, [3] = 5, [4] = 4, [5] = 6, [8] = 11, [10] = 9, [13] = 14};
    return info == GG_BAD_LAYOUT ? 1 : info == 0 ? 0 : layout == GG_ROW_MAJOR ? swapped[info] : info + 1;
}

#endif

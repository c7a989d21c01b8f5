/* check.c — owns the rules of legal arguments and the translation to struct gg_gemm; nobody else writes one from a caller's words.
 * It never reports: an illegal call goes to the real BLAS untouched, whose report is the reference's own. Called by entry.c and api.c. */
#include "check.h"

enum { NO_TRANS = 111, TRANS = 112, CONJ_TRANS = 113, ROW_MAJOR = 101, COL_MAJOR = 102 };

static int64_t at_least_1(int64_t x)
{
    return x > 1 ? x : 1;
}

static double scalar(enum gg_type type, const void *x)
{
    return type == GG_S ? (double)*(const float *)x : *(const double *)x;
}

/* Column-major, transposes already legal. The position of the first illegal argument in dgemm.f, or 0. */
static int check(enum gg_type type, bool transa, bool transb, const struct gg_arguments *x, struct gg_gemm *p)
{
    if (x->m < 0)
        return 3;
    if (x->n < 0)
        return 4;
    if (x->k < 0)
        return 5;
    if (x->lda < at_least_1(transa ? x->k : x->m))
        return 8;
    if (x->ldb < at_least_1(transb ? x->n : x->k))
        return 10;
    if (x->ldc < at_least_1(x->m))
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
                          .alpha = scalar(type, x->alpha),
                          .beta = scalar(type, x->beta)};
    return 0;
}

/* 0: as stored, 1: transposed, -1: no such letter. */
static int letter(char trans)
{
    switch (trans) {
    case 'N':
    case 'n': return 0;
    case 'T':
    case 't':
    case 'C':
    case 'c': return 1;
    default: return -1;
    }
}

static int enumerator(int trans)
{
    return trans == NO_TRANS ? 0 : trans == TRANS || trans == CONJ_TRANS ? 1 : -1;
}

int gg_check_f77(enum gg_type type, char transa, char transb, const struct gg_arguments *x, struct gg_gemm *p)
{
    int ta = letter(transa), tb = letter(transb);
    return ta < 0 ? 1 : tb < 0 ? 2 : check(type, ta, tb, x, p);
}

int gg_check_cblas(enum gg_type type, int layout, int transa, int transb, const struct gg_arguments *x, struct gg_gemm *p)
{
    struct gg_arguments y = *x;
    int ta = enumerator(transa), tb = enumerator(transb);
    if (layout == ROW_MAJOR) { /* C^T = B^T A^T */
        y = (struct gg_arguments){.m = x->n, .n = x->m, .k = x->k, .lda = x->ldb, .ldb = x->lda, .ldc = x->ldc,
                                  .alpha = x->alpha, .beta = x->beta, .a = x->b, .b = x->a, .c = x->c};
        ta = enumerator(transb), tb = enumerator(transa);
    } else if (layout != COL_MAJOR) {
        return GG_BAD_LAYOUT;
    }
    return ta < 0 ? 1 : tb < 0 ? 2 : check(type, ta, tb, &y, p);
}

int gg_cblas_position(int layout, int info)
{
    static const char swapped[] = {[1] = 3, [2] = 2, [3] = 5, [4] = 4, [5] = 6, [8] = 11, [10] = 9, [13] = 14};
    return info == GG_BAD_LAYOUT ? 1 : info == 0 ? 0 : layout == ROW_MAJOR ? swapped[info] : info + 1;
}

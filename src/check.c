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
    int ta = enumerator(transa), tb = enumerator(transb);
    if (layout != ROW_MAJOR && layout != COL_MAJOR)
        return 1;
    if (ta < 0)
        return 2;
    if (tb < 0)
        return 3;
    if (layout == COL_MAJOR) {
        int info = check(type, ta, tb, x, p);
        return info ? info + 1 : 0;
    }
    struct gg_arguments swapped = {.m = x->n, .n = x->m, .k = x->k, .lda = x->ldb, .ldb = x->lda, .ldc = x->ldc, /* C^T = B^T A^T */
                                   .alpha = x->alpha, .beta = x->beta, .a = x->b, .b = x->a, .c = x->c};
    static const char position[] = {[0] = 0, [3] = 5, [4] = 4, [5] = 6, [8] = 11, [10] = 9, [13] = 14};
    return position[check(type, tb, ta, &swapped, p)];
}

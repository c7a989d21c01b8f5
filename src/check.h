/* check.h — arguments in, one struct gg_gemm out. */
#ifndef GG_CHECK_H
#define GG_CHECK_H

#include "gemm.h"

/* The arguments of one call, as its caller wrote them, with integers widened. Pointers to alpha and beta because Fortran passes them so. */
struct gg_arguments {
    int64_t m, n, k, lda, ldb, ldc;
    const void *alpha, *beta, *a, *b;
    void *c;
};

/* Both check in the reference's order and fill *p when all is well. Returned: 0, or the position of the first illegal argument of dgemm.f (1 transa,
 * 2 transb, 3 m, 4 n, 5 k, 8 lda, 10 ldb, 13 ldc). A row-major call is the swapped Fortran call, as in every CBLAS, and numbered so. */
enum { GG_BAD_LAYOUT = -1 };

/* Fortran: transa and transb are 'N', 'T', 'C' in either case. */
int gg_check_f77(enum gg_type type, char transa, char transb, const struct gg_arguments *x, struct gg_gemm *p);

int gg_check_cblas(enum gg_type type, int layout, int transa, int transb, const struct gg_arguments *x, struct gg_gemm *p);

/* The same position counted in cblas_dgemm's own prototype (1 layout … 14 ldc). */
int gg_cblas_position(int layout, int info);

#endif

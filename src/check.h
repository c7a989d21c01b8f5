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

/* Both check in the reference's order and fill *p when all is well. Returned: 0, or the position of the first illegal argument. */

/* Fortran: transa and transb are 'N', 'T', 'C' in either case; positions as in dgemm.f (1 transa … 13 ldc). */
int gg_check_f77(enum gg_type type, char transa, char transb, const struct gg_arguments *x, struct gg_gemm *p);

/* CBLAS: positions as in the prototype of cblas_dgemm (1 layout … 14 ldc). */
int gg_check_cblas(enum gg_type type, int layout, int transa, int transb, const struct gg_arguments *x, struct gg_gemm *p);

#endif

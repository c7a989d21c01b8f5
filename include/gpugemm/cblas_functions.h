/* cblas_functions.h — the prototypes of cblas.h, which includes this once for each width and name of the functions and is the only file to do so.
 * GPUGEMM_NAME(dgemm) is the function's name and GPUGEMM_INT its integer. Hence no include guard. */

/* ---- level 1: vectors of n elements, incx and incy apart --------------------------------------------------------------------------- */

float GPUGEMM_NAME(sdot)(GPUGEMM_INT n, const float *x, GPUGEMM_INT incx, const float *y, GPUGEMM_INT incy);
double GPUGEMM_NAME(ddot)(GPUGEMM_INT n, const double *x, GPUGEMM_INT incx, const double *y, GPUGEMM_INT incy);
float GPUGEMM_NAME(sdsdot)(GPUGEMM_INT n, float alpha, const float *x, GPUGEMM_INT incx, const float *y, GPUGEMM_INT incy);
double GPUGEMM_NAME(dsdot)(GPUGEMM_INT n, const float *x, GPUGEMM_INT incx, const float *y, GPUGEMM_INT incy);
void GPUGEMM_NAME(cdotu_sub)(GPUGEMM_INT n, const void *x, GPUGEMM_INT incx, const void *y, GPUGEMM_INT incy, void *result);
void GPUGEMM_NAME(cdotc_sub)(GPUGEMM_INT n, const void *x, GPUGEMM_INT incx, const void *y, GPUGEMM_INT incy, void *result);
void GPUGEMM_NAME(zdotu_sub)(GPUGEMM_INT n, const void *x, GPUGEMM_INT incx, const void *y, GPUGEMM_INT incy, void *result);
void GPUGEMM_NAME(zdotc_sub)(GPUGEMM_INT n, const void *x, GPUGEMM_INT incx, const void *y, GPUGEMM_INT incy, void *result);
float GPUGEMM_NAME(snrm2)(GPUGEMM_INT n, const float *x, GPUGEMM_INT incx);
double GPUGEMM_NAME(dnrm2)(GPUGEMM_INT n, const double *x, GPUGEMM_INT incx);
float GPUGEMM_NAME(scnrm2)(GPUGEMM_INT n, const void *x, GPUGEMM_INT incx);
double GPUGEMM_NAME(dznrm2)(GPUGEMM_INT n, const void *x, GPUGEMM_INT incx);
float GPUGEMM_NAME(sasum)(GPUGEMM_INT n, const float *x, GPUGEMM_INT incx);
double GPUGEMM_NAME(dasum)(GPUGEMM_INT n, const double *x, GPUGEMM_INT incx);
float GPUGEMM_NAME(scasum)(GPUGEMM_INT n, const void *x, GPUGEMM_INT incx);
double GPUGEMM_NAME(dzasum)(GPUGEMM_INT n, const void *x, GPUGEMM_INT incx);
CBLAS_INDEX GPUGEMM_NAME(isamax)(GPUGEMM_INT n, const float *x, GPUGEMM_INT incx);
CBLAS_INDEX GPUGEMM_NAME(idamax)(GPUGEMM_INT n, const double *x, GPUGEMM_INT incx);
CBLAS_INDEX GPUGEMM_NAME(icamax)(GPUGEMM_INT n, const void *x, GPUGEMM_INT incx);
CBLAS_INDEX GPUGEMM_NAME(izamax)(GPUGEMM_INT n, const void *x, GPUGEMM_INT incx);
CBLAS_INDEX GPUGEMM_NAME(isamin)(GPUGEMM_INT n, const float *x, GPUGEMM_INT incx);
CBLAS_INDEX GPUGEMM_NAME(idamin)(GPUGEMM_INT n, const double *x, GPUGEMM_INT incx);
CBLAS_INDEX GPUGEMM_NAME(icamin)(GPUGEMM_INT n, const void *x, GPUGEMM_INT incx);
CBLAS_INDEX GPUGEMM_NAME(izamin)(GPUGEMM_INT n, const void *x, GPUGEMM_INT incx);
float GPUGEMM_NAME(scabs1)(const void *z);
double GPUGEMM_NAME(dcabs1)(const void *z);
void GPUGEMM_NAME(sswap)(GPUGEMM_INT n, float *x, GPUGEMM_INT incx, float *y, GPUGEMM_INT incy);
void GPUGEMM_NAME(scopy)(GPUGEMM_INT n, const float *x, GPUGEMM_INT incx, float *y, GPUGEMM_INT incy);
void GPUGEMM_NAME(saxpy)(GPUGEMM_INT n, float alpha, const float *x, GPUGEMM_INT incx, float *y, GPUGEMM_INT incy);
void GPUGEMM_NAME(saxpby)(GPUGEMM_INT n, float alpha, const float *x, GPUGEMM_INT incx, float beta, float *y, GPUGEMM_INT incy);
void GPUGEMM_NAME(sscal)(GPUGEMM_INT n, float alpha, float *x, GPUGEMM_INT incx);
void GPUGEMM_NAME(dswap)(GPUGEMM_INT n, double *x, GPUGEMM_INT incx, double *y, GPUGEMM_INT incy);
void GPUGEMM_NAME(dcopy)(GPUGEMM_INT n, const double *x, GPUGEMM_INT incx, double *y, GPUGEMM_INT incy);
void GPUGEMM_NAME(daxpy)(GPUGEMM_INT n, double alpha, const double *x, GPUGEMM_INT incx, double *y, GPUGEMM_INT incy);
void GPUGEMM_NAME(daxpby)(GPUGEMM_INT n, double alpha, const double *x, GPUGEMM_INT incx, double beta, double *y, GPUGEMM_INT incy);
void GPUGEMM_NAME(dscal)(GPUGEMM_INT n, double alpha, double *x, GPUGEMM_INT incx);
void GPUGEMM_NAME(cswap)(GPUGEMM_INT n, void *x, GPUGEMM_INT incx, void *y, GPUGEMM_INT incy);
void GPUGEMM_NAME(ccopy)(GPUGEMM_INT n, const void *x, GPUGEMM_INT incx, void *y, GPUGEMM_INT incy);
void GPUGEMM_NAME(caxpy)(GPUGEMM_INT n, const void *alpha, const void *x, GPUGEMM_INT incx, void *y, GPUGEMM_INT incy);
void GPUGEMM_NAME(caxpby)(GPUGEMM_INT n, const void *alpha, const void *x, GPUGEMM_INT incx, const void *beta, void *y, GPUGEMM_INT incy);
void GPUGEMM_NAME(cscal)(GPUGEMM_INT n, const void *alpha, void *x, GPUGEMM_INT incx);
void GPUGEMM_NAME(zswap)(GPUGEMM_INT n, void *x, GPUGEMM_INT incx, void *y, GPUGEMM_INT incy);
void GPUGEMM_NAME(zcopy)(GPUGEMM_INT n, const void *x, GPUGEMM_INT incx, void *y, GPUGEMM_INT incy);
void GPUGEMM_NAME(zaxpy)(GPUGEMM_INT n, const void *alpha, const void *x, GPUGEMM_INT incx, void *y, GPUGEMM_INT incy);
void GPUGEMM_NAME(zaxpby)(GPUGEMM_INT n, const void *alpha, const void *x, GPUGEMM_INT incx, const void *beta, void *y, GPUGEMM_INT incy);
void GPUGEMM_NAME(zscal)(GPUGEMM_INT n, const void *alpha, void *x, GPUGEMM_INT incx);
void GPUGEMM_NAME(csscal)(GPUGEMM_INT n, float alpha, void *x, GPUGEMM_INT incx);
void GPUGEMM_NAME(zdscal)(GPUGEMM_INT n, double alpha, void *x, GPUGEMM_INT incx);
void GPUGEMM_NAME(srotg)(float *a, float *b, float *c, float *s);
void GPUGEMM_NAME(drotg)(double *a, double *b, double *c, double *s);
void GPUGEMM_NAME(crotg)(void *a, void *b, float *c, void *s);
void GPUGEMM_NAME(zrotg)(void *a, void *b, double *c, void *s);
void GPUGEMM_NAME(srot)(GPUGEMM_INT n, float *x, GPUGEMM_INT incx, float *y, GPUGEMM_INT incy, float c, float s);
void GPUGEMM_NAME(drot)(GPUGEMM_INT n, double *x, GPUGEMM_INT incx, double *y, GPUGEMM_INT incy, double c, double s);
void GPUGEMM_NAME(csrot)(GPUGEMM_INT n, void *x, GPUGEMM_INT incx, void *y, GPUGEMM_INT incy, float c, float s);
void GPUGEMM_NAME(zdrot)(GPUGEMM_INT n, void *x, GPUGEMM_INT incx, void *y, GPUGEMM_INT incy, double c, double s);
void GPUGEMM_NAME(srotmg)(float *d1, float *d2, float *x1, float y1, float *param);
void GPUGEMM_NAME(srotm)(GPUGEMM_INT n, float *x, GPUGEMM_INT incx, float *y, GPUGEMM_INT incy, const float *param);
void GPUGEMM_NAME(drotmg)(double *d1, double *d2, double *x1, double y1, double *param);
void GPUGEMM_NAME(drotm)(GPUGEMM_INT n, double *x, GPUGEMM_INT incx, double *y, GPUGEMM_INT incy, const double *param);

/* ---- level 2: a matrix and vectors ------------------------------------------------------------------------------------------------- */

void GPUGEMM_NAME(sgemv)(CBLAS_LAYOUT layout, CBLAS_TRANSPOSE trans, GPUGEMM_INT m, GPUGEMM_INT n, float alpha, const float *a, GPUGEMM_INT lda,
    const float *x, GPUGEMM_INT incx, float beta, float *y, GPUGEMM_INT incy);
void GPUGEMM_NAME(sgbmv)(CBLAS_LAYOUT layout, CBLAS_TRANSPOSE trans, GPUGEMM_INT m, GPUGEMM_INT n, GPUGEMM_INT kl, GPUGEMM_INT ku, float alpha,
    const float *a, GPUGEMM_INT lda, const float *x, GPUGEMM_INT incx, float beta, float *y, GPUGEMM_INT incy);
void GPUGEMM_NAME(strmv)(CBLAS_LAYOUT layout, CBLAS_UPLO uplo, CBLAS_TRANSPOSE trans, CBLAS_DIAG diag, GPUGEMM_INT n, const float *a, GPUGEMM_INT lda,
    float *x, GPUGEMM_INT incx);
void GPUGEMM_NAME(strsv)(CBLAS_LAYOUT layout, CBLAS_UPLO uplo, CBLAS_TRANSPOSE trans, CBLAS_DIAG diag, GPUGEMM_INT n, const float *a, GPUGEMM_INT lda,
    float *x, GPUGEMM_INT incx);
void GPUGEMM_NAME(stbmv)(CBLAS_LAYOUT layout, CBLAS_UPLO uplo, CBLAS_TRANSPOSE trans, CBLAS_DIAG diag, GPUGEMM_INT n, GPUGEMM_INT k, const float *a,
    GPUGEMM_INT lda, float *x, GPUGEMM_INT incx);
void GPUGEMM_NAME(stbsv)(CBLAS_LAYOUT layout, CBLAS_UPLO uplo, CBLAS_TRANSPOSE trans, CBLAS_DIAG diag, GPUGEMM_INT n, GPUGEMM_INT k, const float *a,
    GPUGEMM_INT lda, float *x, GPUGEMM_INT incx);
void GPUGEMM_NAME(stpmv)(CBLAS_LAYOUT layout, CBLAS_UPLO uplo, CBLAS_TRANSPOSE trans, CBLAS_DIAG diag, GPUGEMM_INT n, const float *ap, float *x,
    GPUGEMM_INT incx);
void GPUGEMM_NAME(stpsv)(CBLAS_LAYOUT layout, CBLAS_UPLO uplo, CBLAS_TRANSPOSE trans, CBLAS_DIAG diag, GPUGEMM_INT n, const float *ap, float *x,
    GPUGEMM_INT incx);
void GPUGEMM_NAME(dgemv)(CBLAS_LAYOUT layout, CBLAS_TRANSPOSE trans, GPUGEMM_INT m, GPUGEMM_INT n, double alpha, const double *a, GPUGEMM_INT lda,
    const double *x, GPUGEMM_INT incx, double beta, double *y, GPUGEMM_INT incy);
void GPUGEMM_NAME(dgbmv)(CBLAS_LAYOUT layout, CBLAS_TRANSPOSE trans, GPUGEMM_INT m, GPUGEMM_INT n, GPUGEMM_INT kl, GPUGEMM_INT ku, double alpha,
    const double *a, GPUGEMM_INT lda, const double *x, GPUGEMM_INT incx, double beta, double *y, GPUGEMM_INT incy);
void GPUGEMM_NAME(dtrmv)(CBLAS_LAYOUT layout, CBLAS_UPLO uplo, CBLAS_TRANSPOSE trans, CBLAS_DIAG diag, GPUGEMM_INT n, const double *a,
    GPUGEMM_INT lda, double *x, GPUGEMM_INT incx);
void GPUGEMM_NAME(dtrsv)(CBLAS_LAYOUT layout, CBLAS_UPLO uplo, CBLAS_TRANSPOSE trans, CBLAS_DIAG diag, GPUGEMM_INT n, const double *a,
    GPUGEMM_INT lda, double *x, GPUGEMM_INT incx);
void GPUGEMM_NAME(dtbmv)(CBLAS_LAYOUT layout, CBLAS_UPLO uplo, CBLAS_TRANSPOSE trans, CBLAS_DIAG diag, GPUGEMM_INT n, GPUGEMM_INT k, const double *a,
    GPUGEMM_INT lda, double *x, GPUGEMM_INT incx);
void GPUGEMM_NAME(dtbsv)(CBLAS_LAYOUT layout, CBLAS_UPLO uplo, CBLAS_TRANSPOSE trans, CBLAS_DIAG diag, GPUGEMM_INT n, GPUGEMM_INT k, const double *a,
    GPUGEMM_INT lda, double *x, GPUGEMM_INT incx);
void GPUGEMM_NAME(dtpmv)(CBLAS_LAYOUT layout, CBLAS_UPLO uplo, CBLAS_TRANSPOSE trans, CBLAS_DIAG diag, GPUGEMM_INT n, const double *ap, double *x,
    GPUGEMM_INT incx);
void GPUGEMM_NAME(dtpsv)(CBLAS_LAYOUT layout, CBLAS_UPLO uplo, CBLAS_TRANSPOSE trans, CBLAS_DIAG diag, GPUGEMM_INT n, const double *ap, double *x,
    GPUGEMM_INT incx);
void GPUGEMM_NAME(cgemv)(CBLAS_LAYOUT layout, CBLAS_TRANSPOSE trans, GPUGEMM_INT m, GPUGEMM_INT n, const void *alpha, const void *a, GPUGEMM_INT lda,
    const void *x, GPUGEMM_INT incx, const void *beta, void *y, GPUGEMM_INT incy);
void GPUGEMM_NAME(cgbmv)(CBLAS_LAYOUT layout, CBLAS_TRANSPOSE trans, GPUGEMM_INT m, GPUGEMM_INT n, GPUGEMM_INT kl, GPUGEMM_INT ku, const void *alpha,
    const void *a, GPUGEMM_INT lda, const void *x, GPUGEMM_INT incx, const void *beta, void *y, GPUGEMM_INT incy);
void GPUGEMM_NAME(ctrmv)(CBLAS_LAYOUT layout, CBLAS_UPLO uplo, CBLAS_TRANSPOSE trans, CBLAS_DIAG diag, GPUGEMM_INT n, const void *a, GPUGEMM_INT lda,
    void *x, GPUGEMM_INT incx);
void GPUGEMM_NAME(ctrsv)(CBLAS_LAYOUT layout, CBLAS_UPLO uplo, CBLAS_TRANSPOSE trans, CBLAS_DIAG diag, GPUGEMM_INT n, const void *a, GPUGEMM_INT lda,
    void *x, GPUGEMM_INT incx);
void GPUGEMM_NAME(ctbmv)(CBLAS_LAYOUT layout, CBLAS_UPLO uplo, CBLAS_TRANSPOSE trans, CBLAS_DIAG diag, GPUGEMM_INT n, GPUGEMM_INT k, const void *a,
    GPUGEMM_INT lda, void *x, GPUGEMM_INT incx);
void GPUGEMM_NAME(ctbsv)(CBLAS_LAYOUT layout, CBLAS_UPLO uplo, CBLAS_TRANSPOSE trans, CBLAS_DIAG diag, GPUGEMM_INT n, GPUGEMM_INT k, const void *a,
    GPUGEMM_INT lda, void *x, GPUGEMM_INT incx);
void GPUGEMM_NAME(ctpmv)(CBLAS_LAYOUT layout, CBLAS_UPLO uplo, CBLAS_TRANSPOSE trans, CBLAS_DIAG diag, GPUGEMM_INT n, const void *ap, void *x,
    GPUGEMM_INT incx);
void GPUGEMM_NAME(ctpsv)(CBLAS_LAYOUT layout, CBLAS_UPLO uplo, CBLAS_TRANSPOSE trans, CBLAS_DIAG diag, GPUGEMM_INT n, const void *ap, void *x,
    GPUGEMM_INT incx);
void GPUGEMM_NAME(zgemv)(CBLAS_LAYOUT layout, CBLAS_TRANSPOSE trans, GPUGEMM_INT m, GPUGEMM_INT n, const void *alpha, const void *a, GPUGEMM_INT lda,
    const void *x, GPUGEMM_INT incx, const void *beta, void *y, GPUGEMM_INT incy);
void GPUGEMM_NAME(zgbmv)(CBLAS_LAYOUT layout, CBLAS_TRANSPOSE trans, GPUGEMM_INT m, GPUGEMM_INT n, GPUGEMM_INT kl, GPUGEMM_INT ku, const void *alpha,
    const void *a, GPUGEMM_INT lda, const void *x, GPUGEMM_INT incx, const void *beta, void *y, GPUGEMM_INT incy);
void GPUGEMM_NAME(ztrmv)(CBLAS_LAYOUT layout, CBLAS_UPLO uplo, CBLAS_TRANSPOSE trans, CBLAS_DIAG diag, GPUGEMM_INT n, const void *a, GPUGEMM_INT lda,
    void *x, GPUGEMM_INT incx);
void GPUGEMM_NAME(ztrsv)(CBLAS_LAYOUT layout, CBLAS_UPLO uplo, CBLAS_TRANSPOSE trans, CBLAS_DIAG diag, GPUGEMM_INT n, const void *a, GPUGEMM_INT lda,
    void *x, GPUGEMM_INT incx);
void GPUGEMM_NAME(ztbmv)(CBLAS_LAYOUT layout, CBLAS_UPLO uplo, CBLAS_TRANSPOSE trans, CBLAS_DIAG diag, GPUGEMM_INT n, GPUGEMM_INT k, const void *a,
    GPUGEMM_INT lda, void *x, GPUGEMM_INT incx);
void GPUGEMM_NAME(ztbsv)(CBLAS_LAYOUT layout, CBLAS_UPLO uplo, CBLAS_TRANSPOSE trans, CBLAS_DIAG diag, GPUGEMM_INT n, GPUGEMM_INT k, const void *a,
    GPUGEMM_INT lda, void *x, GPUGEMM_INT incx);
void GPUGEMM_NAME(ztpmv)(CBLAS_LAYOUT layout, CBLAS_UPLO uplo, CBLAS_TRANSPOSE trans, CBLAS_DIAG diag, GPUGEMM_INT n, const void *ap, void *x,
    GPUGEMM_INT incx);
void GPUGEMM_NAME(ztpsv)(CBLAS_LAYOUT layout, CBLAS_UPLO uplo, CBLAS_TRANSPOSE trans, CBLAS_DIAG diag, GPUGEMM_INT n, const void *ap, void *x,
    GPUGEMM_INT incx);
void GPUGEMM_NAME(ssymv)(CBLAS_LAYOUT layout, CBLAS_UPLO uplo, GPUGEMM_INT n, float alpha, const float *a, GPUGEMM_INT lda, const float *x,
    GPUGEMM_INT incx, float beta, float *y, GPUGEMM_INT incy);
void GPUGEMM_NAME(ssbmv)(CBLAS_LAYOUT layout, CBLAS_UPLO uplo, GPUGEMM_INT n, GPUGEMM_INT k, float alpha, const float *a, GPUGEMM_INT lda,
    const float *x, GPUGEMM_INT incx, float beta, float *y, GPUGEMM_INT incy);
void GPUGEMM_NAME(sspmv)(CBLAS_LAYOUT layout, CBLAS_UPLO uplo, GPUGEMM_INT n, float alpha, const float *ap, const float *x, GPUGEMM_INT incx,
    float beta, float *y, GPUGEMM_INT incy);
void GPUGEMM_NAME(sger)(CBLAS_LAYOUT layout, GPUGEMM_INT m, GPUGEMM_INT n, float alpha, const float *x, GPUGEMM_INT incx, const float *y,
    GPUGEMM_INT incy, float *a, GPUGEMM_INT lda);
void GPUGEMM_NAME(ssyr)(CBLAS_LAYOUT layout, CBLAS_UPLO uplo, GPUGEMM_INT n, float alpha, const float *x, GPUGEMM_INT incx, float *a,
    GPUGEMM_INT lda);
void GPUGEMM_NAME(sspr)(CBLAS_LAYOUT layout, CBLAS_UPLO uplo, GPUGEMM_INT n, float alpha, const float *x, GPUGEMM_INT incx, float *ap);
void GPUGEMM_NAME(ssyr2)(CBLAS_LAYOUT layout, CBLAS_UPLO uplo, GPUGEMM_INT n, float alpha, const float *x, GPUGEMM_INT incx, const float *y,
    GPUGEMM_INT incy, float *a, GPUGEMM_INT lda);
void GPUGEMM_NAME(sspr2)(CBLAS_LAYOUT layout, CBLAS_UPLO uplo, GPUGEMM_INT n, float alpha, const float *x, GPUGEMM_INT incx, const float *y,
    GPUGEMM_INT incy, float *ap);
void GPUGEMM_NAME(dsymv)(CBLAS_LAYOUT layout, CBLAS_UPLO uplo, GPUGEMM_INT n, double alpha, const double *a, GPUGEMM_INT lda, const double *x,
    GPUGEMM_INT incx, double beta, double *y, GPUGEMM_INT incy);
void GPUGEMM_NAME(dsbmv)(CBLAS_LAYOUT layout, CBLAS_UPLO uplo, GPUGEMM_INT n, GPUGEMM_INT k, double alpha, const double *a, GPUGEMM_INT lda,
    const double *x, GPUGEMM_INT incx, double beta, double *y, GPUGEMM_INT incy);
void GPUGEMM_NAME(dspmv)(CBLAS_LAYOUT layout, CBLAS_UPLO uplo, GPUGEMM_INT n, double alpha, const double *ap, const double *x, GPUGEMM_INT incx,
    double beta, double *y, GPUGEMM_INT incy);
void GPUGEMM_NAME(dger)(CBLAS_LAYOUT layout, GPUGEMM_INT m, GPUGEMM_INT n, double alpha, const double *x, GPUGEMM_INT incx, const double *y,
    GPUGEMM_INT incy, double *a, GPUGEMM_INT lda);
void GPUGEMM_NAME(dsyr)(CBLAS_LAYOUT layout, CBLAS_UPLO uplo, GPUGEMM_INT n, double alpha, const double *x, GPUGEMM_INT incx, double *a,
    GPUGEMM_INT lda);
void GPUGEMM_NAME(dspr)(CBLAS_LAYOUT layout, CBLAS_UPLO uplo, GPUGEMM_INT n, double alpha, const double *x, GPUGEMM_INT incx, double *ap);
void GPUGEMM_NAME(dsyr2)(CBLAS_LAYOUT layout, CBLAS_UPLO uplo, GPUGEMM_INT n, double alpha, const double *x, GPUGEMM_INT incx, const double *y,
    GPUGEMM_INT incy, double *a, GPUGEMM_INT lda);
void GPUGEMM_NAME(dspr2)(CBLAS_LAYOUT layout, CBLAS_UPLO uplo, GPUGEMM_INT n, double alpha, const double *x, GPUGEMM_INT incx, const double *y,
    GPUGEMM_INT incy, double *ap);
void GPUGEMM_NAME(chemv)(CBLAS_LAYOUT layout, CBLAS_UPLO uplo, GPUGEMM_INT n, const void *alpha, const void *a, GPUGEMM_INT lda, const void *x,
    GPUGEMM_INT incx, const void *beta, void *y, GPUGEMM_INT incy);
void GPUGEMM_NAME(chbmv)(CBLAS_LAYOUT layout, CBLAS_UPLO uplo, GPUGEMM_INT n, GPUGEMM_INT k, const void *alpha, const void *a, GPUGEMM_INT lda,
    const void *x, GPUGEMM_INT incx, const void *beta, void *y, GPUGEMM_INT incy);
void GPUGEMM_NAME(chpmv)(CBLAS_LAYOUT layout, CBLAS_UPLO uplo, GPUGEMM_INT n, const void *alpha, const void *ap, const void *x, GPUGEMM_INT incx,
    const void *beta, void *y, GPUGEMM_INT incy);
void GPUGEMM_NAME(cgeru)(CBLAS_LAYOUT layout, GPUGEMM_INT m, GPUGEMM_INT n, const void *alpha, const void *x, GPUGEMM_INT incx, const void *y,
    GPUGEMM_INT incy, void *a, GPUGEMM_INT lda);
void GPUGEMM_NAME(cgerc)(CBLAS_LAYOUT layout, GPUGEMM_INT m, GPUGEMM_INT n, const void *alpha, const void *x, GPUGEMM_INT incx, const void *y,
    GPUGEMM_INT incy, void *a, GPUGEMM_INT lda);
void GPUGEMM_NAME(cher)(CBLAS_LAYOUT layout, CBLAS_UPLO uplo, GPUGEMM_INT n, float alpha, const void *x, GPUGEMM_INT incx, void *a, GPUGEMM_INT lda);
void GPUGEMM_NAME(chpr)(CBLAS_LAYOUT layout, CBLAS_UPLO uplo, GPUGEMM_INT n, float alpha, const void *x, GPUGEMM_INT incx, void *ap);
void GPUGEMM_NAME(cher2)(CBLAS_LAYOUT layout, CBLAS_UPLO uplo, GPUGEMM_INT n, const void *alpha, const void *x, GPUGEMM_INT incx, const void *y,
    GPUGEMM_INT incy, void *a, GPUGEMM_INT lda);
void GPUGEMM_NAME(chpr2)(CBLAS_LAYOUT layout, CBLAS_UPLO uplo, GPUGEMM_INT n, const void *alpha, const void *x, GPUGEMM_INT incx, const void *y,
    GPUGEMM_INT incy, void *ap);
void GPUGEMM_NAME(zhemv)(CBLAS_LAYOUT layout, CBLAS_UPLO uplo, GPUGEMM_INT n, const void *alpha, const void *a, GPUGEMM_INT lda, const void *x,
    GPUGEMM_INT incx, const void *beta, void *y, GPUGEMM_INT incy);
void GPUGEMM_NAME(zhbmv)(CBLAS_LAYOUT layout, CBLAS_UPLO uplo, GPUGEMM_INT n, GPUGEMM_INT k, const void *alpha, const void *a, GPUGEMM_INT lda,
    const void *x, GPUGEMM_INT incx, const void *beta, void *y, GPUGEMM_INT incy);
void GPUGEMM_NAME(zhpmv)(CBLAS_LAYOUT layout, CBLAS_UPLO uplo, GPUGEMM_INT n, const void *alpha, const void *ap, const void *x, GPUGEMM_INT incx,
    const void *beta, void *y, GPUGEMM_INT incy);
void GPUGEMM_NAME(zgeru)(CBLAS_LAYOUT layout, GPUGEMM_INT m, GPUGEMM_INT n, const void *alpha, const void *x, GPUGEMM_INT incx, const void *y,
    GPUGEMM_INT incy, void *a, GPUGEMM_INT lda);
void GPUGEMM_NAME(zgerc)(CBLAS_LAYOUT layout, GPUGEMM_INT m, GPUGEMM_INT n, const void *alpha, const void *x, GPUGEMM_INT incx, const void *y,
    GPUGEMM_INT incy, void *a, GPUGEMM_INT lda);
void GPUGEMM_NAME(zher)(CBLAS_LAYOUT layout, CBLAS_UPLO uplo, GPUGEMM_INT n, double alpha, const void *x, GPUGEMM_INT incx, void *a, GPUGEMM_INT lda);
void GPUGEMM_NAME(zhpr)(CBLAS_LAYOUT layout, CBLAS_UPLO uplo, GPUGEMM_INT n, double alpha, const void *x, GPUGEMM_INT incx, void *ap);
void GPUGEMM_NAME(zher2)(CBLAS_LAYOUT layout, CBLAS_UPLO uplo, GPUGEMM_INT n, const void *alpha, const void *x, GPUGEMM_INT incx, const void *y,
    GPUGEMM_INT incy, void *a, GPUGEMM_INT lda);
void GPUGEMM_NAME(zhpr2)(CBLAS_LAYOUT layout, CBLAS_UPLO uplo, GPUGEMM_INT n, const void *alpha, const void *x, GPUGEMM_INT incx, const void *y,
    GPUGEMM_INT incy, void *ap);

/* ---- level 3: matrices ------------------------------------------------------------------------------------------------------------- */

void GPUGEMM_NAME(sgemm)(CBLAS_LAYOUT layout, CBLAS_TRANSPOSE transa, CBLAS_TRANSPOSE transb, GPUGEMM_INT m, GPUGEMM_INT n, GPUGEMM_INT k,
    float alpha, const float *a, GPUGEMM_INT lda, const float *b, GPUGEMM_INT ldb, float beta, float *c, GPUGEMM_INT ldc);
void GPUGEMM_NAME(dgemm)(CBLAS_LAYOUT layout, CBLAS_TRANSPOSE transa, CBLAS_TRANSPOSE transb, GPUGEMM_INT m, GPUGEMM_INT n, GPUGEMM_INT k,
    double alpha, const double *a, GPUGEMM_INT lda, const double *b, GPUGEMM_INT ldb, double beta, double *c, GPUGEMM_INT ldc);
void GPUGEMM_NAME(cgemm)(CBLAS_LAYOUT layout, CBLAS_TRANSPOSE transa, CBLAS_TRANSPOSE transb, GPUGEMM_INT m, GPUGEMM_INT n, GPUGEMM_INT k,
    const void *alpha, const void *a, GPUGEMM_INT lda, const void *b, GPUGEMM_INT ldb, const void *beta, void *c, GPUGEMM_INT ldc);
void GPUGEMM_NAME(zgemm)(CBLAS_LAYOUT layout, CBLAS_TRANSPOSE transa, CBLAS_TRANSPOSE transb, GPUGEMM_INT m, GPUGEMM_INT n, GPUGEMM_INT k,
    const void *alpha, const void *a, GPUGEMM_INT lda, const void *b, GPUGEMM_INT ldb, const void *beta, void *c, GPUGEMM_INT ldc);
void GPUGEMM_NAME(cgemm3m)(CBLAS_LAYOUT layout, CBLAS_TRANSPOSE transa, CBLAS_TRANSPOSE transb, GPUGEMM_INT m, GPUGEMM_INT n, GPUGEMM_INT k,
    const void *alpha, const void *a, GPUGEMM_INT lda, const void *b, GPUGEMM_INT ldb, const void *beta, void *c, GPUGEMM_INT ldc);
void GPUGEMM_NAME(zgemm3m)(CBLAS_LAYOUT layout, CBLAS_TRANSPOSE transa, CBLAS_TRANSPOSE transb, GPUGEMM_INT m, GPUGEMM_INT n, GPUGEMM_INT k,
    const void *alpha, const void *a, GPUGEMM_INT lda, const void *b, GPUGEMM_INT ldb, const void *beta, void *c, GPUGEMM_INT ldc);
void GPUGEMM_NAME(sgemmt)(CBLAS_LAYOUT layout, CBLAS_UPLO uplo, CBLAS_TRANSPOSE transa, CBLAS_TRANSPOSE transb, GPUGEMM_INT n, GPUGEMM_INT k,
    float alpha, const float *a, GPUGEMM_INT lda, const float *b, GPUGEMM_INT ldb, float beta, float *c, GPUGEMM_INT ldc);
void GPUGEMM_NAME(dgemmt)(CBLAS_LAYOUT layout, CBLAS_UPLO uplo, CBLAS_TRANSPOSE transa, CBLAS_TRANSPOSE transb, GPUGEMM_INT n, GPUGEMM_INT k,
    double alpha, const double *a, GPUGEMM_INT lda, const double *b, GPUGEMM_INT ldb, double beta, double *c, GPUGEMM_INT ldc);
void GPUGEMM_NAME(cgemmt)(CBLAS_LAYOUT layout, CBLAS_UPLO uplo, CBLAS_TRANSPOSE transa, CBLAS_TRANSPOSE transb, GPUGEMM_INT n, GPUGEMM_INT k,
    const void *alpha, const void *a, GPUGEMM_INT lda, const void *b, GPUGEMM_INT ldb, const void *beta, void *c, GPUGEMM_INT ldc);
void GPUGEMM_NAME(zgemmt)(CBLAS_LAYOUT layout, CBLAS_UPLO uplo, CBLAS_TRANSPOSE transa, CBLAS_TRANSPOSE transb, GPUGEMM_INT n, GPUGEMM_INT k,
    const void *alpha, const void *a, GPUGEMM_INT lda, const void *b, GPUGEMM_INT ldb, const void *beta, void *c, GPUGEMM_INT ldc);
void GPUGEMM_NAME(sgemmtr)(CBLAS_LAYOUT layout, CBLAS_UPLO uplo, CBLAS_TRANSPOSE transa, CBLAS_TRANSPOSE transb, GPUGEMM_INT n, GPUGEMM_INT k,
    float alpha, const float *a, GPUGEMM_INT lda, const float *b, GPUGEMM_INT ldb, float beta, float *c, GPUGEMM_INT ldc);
void GPUGEMM_NAME(dgemmtr)(CBLAS_LAYOUT layout, CBLAS_UPLO uplo, CBLAS_TRANSPOSE transa, CBLAS_TRANSPOSE transb, GPUGEMM_INT n, GPUGEMM_INT k,
    double alpha, const double *a, GPUGEMM_INT lda, const double *b, GPUGEMM_INT ldb, double beta, double *c, GPUGEMM_INT ldc);
void GPUGEMM_NAME(cgemmtr)(CBLAS_LAYOUT layout, CBLAS_UPLO uplo, CBLAS_TRANSPOSE transa, CBLAS_TRANSPOSE transb, GPUGEMM_INT n, GPUGEMM_INT k,
    const void *alpha, const void *a, GPUGEMM_INT lda, const void *b, GPUGEMM_INT ldb, const void *beta, void *c, GPUGEMM_INT ldc);
void GPUGEMM_NAME(zgemmtr)(CBLAS_LAYOUT layout, CBLAS_UPLO uplo, CBLAS_TRANSPOSE transa, CBLAS_TRANSPOSE transb, GPUGEMM_INT n, GPUGEMM_INT k,
    const void *alpha, const void *a, GPUGEMM_INT lda, const void *b, GPUGEMM_INT ldb, const void *beta, void *c, GPUGEMM_INT ldc);
void GPUGEMM_NAME(ssymm)(CBLAS_LAYOUT layout, CBLAS_SIDE side, CBLAS_UPLO uplo, GPUGEMM_INT m, GPUGEMM_INT n, float alpha, const float *a,
    GPUGEMM_INT lda, const float *b, GPUGEMM_INT ldb, float beta, float *c, GPUGEMM_INT ldc);
void GPUGEMM_NAME(ssyrk)(CBLAS_LAYOUT layout, CBLAS_UPLO uplo, CBLAS_TRANSPOSE trans, GPUGEMM_INT n, GPUGEMM_INT k, float alpha, const float *a,
    GPUGEMM_INT lda, float beta, float *c, GPUGEMM_INT ldc);
void GPUGEMM_NAME(ssyr2k)(CBLAS_LAYOUT layout, CBLAS_UPLO uplo, CBLAS_TRANSPOSE trans, GPUGEMM_INT n, GPUGEMM_INT k, float alpha, const float *a,
    GPUGEMM_INT lda, const float *b, GPUGEMM_INT ldb, float beta, float *c, GPUGEMM_INT ldc);
void GPUGEMM_NAME(strmm)(CBLAS_LAYOUT layout, CBLAS_SIDE side, CBLAS_UPLO uplo, CBLAS_TRANSPOSE transa, CBLAS_DIAG diag, GPUGEMM_INT m, GPUGEMM_INT n,
    float alpha, const float *a, GPUGEMM_INT lda, float *b, GPUGEMM_INT ldb);
void GPUGEMM_NAME(strsm)(CBLAS_LAYOUT layout, CBLAS_SIDE side, CBLAS_UPLO uplo, CBLAS_TRANSPOSE transa, CBLAS_DIAG diag, GPUGEMM_INT m, GPUGEMM_INT n,
    float alpha, const float *a, GPUGEMM_INT lda, float *b, GPUGEMM_INT ldb);
void GPUGEMM_NAME(dsymm)(CBLAS_LAYOUT layout, CBLAS_SIDE side, CBLAS_UPLO uplo, GPUGEMM_INT m, GPUGEMM_INT n, double alpha, const double *a,
    GPUGEMM_INT lda, const double *b, GPUGEMM_INT ldb, double beta, double *c, GPUGEMM_INT ldc);
void GPUGEMM_NAME(dsyrk)(CBLAS_LAYOUT layout, CBLAS_UPLO uplo, CBLAS_TRANSPOSE trans, GPUGEMM_INT n, GPUGEMM_INT k, double alpha, const double *a,
    GPUGEMM_INT lda, double beta, double *c, GPUGEMM_INT ldc);
void GPUGEMM_NAME(dsyr2k)(CBLAS_LAYOUT layout, CBLAS_UPLO uplo, CBLAS_TRANSPOSE trans, GPUGEMM_INT n, GPUGEMM_INT k, double alpha, const double *a,
    GPUGEMM_INT lda, const double *b, GPUGEMM_INT ldb, double beta, double *c, GPUGEMM_INT ldc);
void GPUGEMM_NAME(dtrmm)(CBLAS_LAYOUT layout, CBLAS_SIDE side, CBLAS_UPLO uplo, CBLAS_TRANSPOSE transa, CBLAS_DIAG diag, GPUGEMM_INT m, GPUGEMM_INT n,
    double alpha, const double *a, GPUGEMM_INT lda, double *b, GPUGEMM_INT ldb);
void GPUGEMM_NAME(dtrsm)(CBLAS_LAYOUT layout, CBLAS_SIDE side, CBLAS_UPLO uplo, CBLAS_TRANSPOSE transa, CBLAS_DIAG diag, GPUGEMM_INT m, GPUGEMM_INT n,
    double alpha, const double *a, GPUGEMM_INT lda, double *b, GPUGEMM_INT ldb);
void GPUGEMM_NAME(csymm)(CBLAS_LAYOUT layout, CBLAS_SIDE side, CBLAS_UPLO uplo, GPUGEMM_INT m, GPUGEMM_INT n, const void *alpha, const void *a,
    GPUGEMM_INT lda, const void *b, GPUGEMM_INT ldb, const void *beta, void *c, GPUGEMM_INT ldc);
void GPUGEMM_NAME(chemm)(CBLAS_LAYOUT layout, CBLAS_SIDE side, CBLAS_UPLO uplo, GPUGEMM_INT m, GPUGEMM_INT n, const void *alpha, const void *a,
    GPUGEMM_INT lda, const void *b, GPUGEMM_INT ldb, const void *beta, void *c, GPUGEMM_INT ldc);
void GPUGEMM_NAME(csyrk)(CBLAS_LAYOUT layout, CBLAS_UPLO uplo, CBLAS_TRANSPOSE trans, GPUGEMM_INT n, GPUGEMM_INT k, const void *alpha, const void *a,
    GPUGEMM_INT lda, const void *beta, void *c, GPUGEMM_INT ldc);
void GPUGEMM_NAME(cherk)(CBLAS_LAYOUT layout, CBLAS_UPLO uplo, CBLAS_TRANSPOSE trans, GPUGEMM_INT n, GPUGEMM_INT k, float alpha, const void *a,
    GPUGEMM_INT lda, float beta, void *c, GPUGEMM_INT ldc);
void GPUGEMM_NAME(csyr2k)(CBLAS_LAYOUT layout, CBLAS_UPLO uplo, CBLAS_TRANSPOSE trans, GPUGEMM_INT n, GPUGEMM_INT k, const void *alpha, const void *a,
    GPUGEMM_INT lda, const void *b, GPUGEMM_INT ldb, const void *beta, void *c, GPUGEMM_INT ldc);
void GPUGEMM_NAME(cher2k)(CBLAS_LAYOUT layout, CBLAS_UPLO uplo, CBLAS_TRANSPOSE trans, GPUGEMM_INT n, GPUGEMM_INT k, const void *alpha, const void *a,
    GPUGEMM_INT lda, const void *b, GPUGEMM_INT ldb, float beta, void *c, GPUGEMM_INT ldc);
void GPUGEMM_NAME(ctrmm)(CBLAS_LAYOUT layout, CBLAS_SIDE side, CBLAS_UPLO uplo, CBLAS_TRANSPOSE transa, CBLAS_DIAG diag, GPUGEMM_INT m, GPUGEMM_INT n,
    const void *alpha, const void *a, GPUGEMM_INT lda, void *b, GPUGEMM_INT ldb);
void GPUGEMM_NAME(ctrsm)(CBLAS_LAYOUT layout, CBLAS_SIDE side, CBLAS_UPLO uplo, CBLAS_TRANSPOSE transa, CBLAS_DIAG diag, GPUGEMM_INT m, GPUGEMM_INT n,
    const void *alpha, const void *a, GPUGEMM_INT lda, void *b, GPUGEMM_INT ldb);
void GPUGEMM_NAME(zsymm)(CBLAS_LAYOUT layout, CBLAS_SIDE side, CBLAS_UPLO uplo, GPUGEMM_INT m, GPUGEMM_INT n, const void *alpha, const void *a,
    GPUGEMM_INT lda, const void *b, GPUGEMM_INT ldb, const void *beta, void *c, GPUGEMM_INT ldc);
void GPUGEMM_NAME(zhemm)(CBLAS_LAYOUT layout, CBLAS_SIDE side, CBLAS_UPLO uplo, GPUGEMM_INT m, GPUGEMM_INT n, const void *alpha, const void *a,
    GPUGEMM_INT lda, const void *b, GPUGEMM_INT ldb, const void *beta, void *c, GPUGEMM_INT ldc);
void GPUGEMM_NAME(zsyrk)(CBLAS_LAYOUT layout, CBLAS_UPLO uplo, CBLAS_TRANSPOSE trans, GPUGEMM_INT n, GPUGEMM_INT k, const void *alpha, const void *a,
    GPUGEMM_INT lda, const void *beta, void *c, GPUGEMM_INT ldc);
void GPUGEMM_NAME(zherk)(CBLAS_LAYOUT layout, CBLAS_UPLO uplo, CBLAS_TRANSPOSE trans, GPUGEMM_INT n, GPUGEMM_INT k, double alpha, const void *a,
    GPUGEMM_INT lda, double beta, void *c, GPUGEMM_INT ldc);
void GPUGEMM_NAME(zsyr2k)(CBLAS_LAYOUT layout, CBLAS_UPLO uplo, CBLAS_TRANSPOSE trans, GPUGEMM_INT n, GPUGEMM_INT k, const void *alpha, const void *a,
    GPUGEMM_INT lda, const void *b, GPUGEMM_INT ldb, const void *beta, void *c, GPUGEMM_INT ldc);
void GPUGEMM_NAME(zher2k)(CBLAS_LAYOUT layout, CBLAS_UPLO uplo, CBLAS_TRANSPOSE trans, GPUGEMM_INT n, GPUGEMM_INT k, const void *alpha, const void *a,
    GPUGEMM_INT lda, const void *b, GPUGEMM_INT ldb, double beta, void *c, GPUGEMM_INT ldc);
void GPUGEMM_NAME(ztrmm)(CBLAS_LAYOUT layout, CBLAS_SIDE side, CBLAS_UPLO uplo, CBLAS_TRANSPOSE transa, CBLAS_DIAG diag, GPUGEMM_INT m, GPUGEMM_INT n,
    const void *alpha, const void *a, GPUGEMM_INT lda, void *b, GPUGEMM_INT ldb);
void GPUGEMM_NAME(ztrsm)(CBLAS_LAYOUT layout, CBLAS_SIDE side, CBLAS_UPLO uplo, CBLAS_TRANSPOSE transa, CBLAS_DIAG diag, GPUGEMM_INT m, GPUGEMM_INT n,
    const void *alpha, const void *a, GPUGEMM_INT lda, void *b, GPUGEMM_INT ldb);

/* ---- extensions of OpenBLAS and MKL: C := alpha A + beta C; B := alpha op(A); A := alpha op(A) ------------------------------------- */

void GPUGEMM_NAME(sgeadd)(CBLAS_LAYOUT layout, GPUGEMM_INT m, GPUGEMM_INT n, float alpha, const float *a, GPUGEMM_INT lda, float beta, float *c,
    GPUGEMM_INT ldc);
void GPUGEMM_NAME(somatcopy)(CBLAS_LAYOUT layout, CBLAS_TRANSPOSE trans, GPUGEMM_INT m, GPUGEMM_INT n, float alpha, const float *a, GPUGEMM_INT lda,
    float *b, GPUGEMM_INT ldb);
void GPUGEMM_NAME(simatcopy)(CBLAS_LAYOUT layout, CBLAS_TRANSPOSE trans, GPUGEMM_INT m, GPUGEMM_INT n, float alpha, float *a, GPUGEMM_INT lda,
    GPUGEMM_INT ldb);
void GPUGEMM_NAME(dgeadd)(CBLAS_LAYOUT layout, GPUGEMM_INT m, GPUGEMM_INT n, double alpha, const double *a, GPUGEMM_INT lda, double beta, double *c,
    GPUGEMM_INT ldc);
void GPUGEMM_NAME(domatcopy)(CBLAS_LAYOUT layout, CBLAS_TRANSPOSE trans, GPUGEMM_INT m, GPUGEMM_INT n, double alpha, const double *a, GPUGEMM_INT lda,
    double *b, GPUGEMM_INT ldb);
void GPUGEMM_NAME(dimatcopy)(CBLAS_LAYOUT layout, CBLAS_TRANSPOSE trans, GPUGEMM_INT m, GPUGEMM_INT n, double alpha, double *a, GPUGEMM_INT lda,
    GPUGEMM_INT ldb);
void GPUGEMM_NAME(cgeadd)(CBLAS_LAYOUT layout, GPUGEMM_INT m, GPUGEMM_INT n, const void *alpha, const void *a, GPUGEMM_INT lda, const void *beta,
    void *c, GPUGEMM_INT ldc);
void GPUGEMM_NAME(comatcopy)(CBLAS_LAYOUT layout, CBLAS_TRANSPOSE trans, GPUGEMM_INT m, GPUGEMM_INT n, const void *alpha, const void *a,
    GPUGEMM_INT lda, void *b, GPUGEMM_INT ldb);
void GPUGEMM_NAME(cimatcopy)(CBLAS_LAYOUT layout, CBLAS_TRANSPOSE trans, GPUGEMM_INT m, GPUGEMM_INT n, const void *alpha, void *a, GPUGEMM_INT lda,
    GPUGEMM_INT ldb);
void GPUGEMM_NAME(zgeadd)(CBLAS_LAYOUT layout, GPUGEMM_INT m, GPUGEMM_INT n, const void *alpha, const void *a, GPUGEMM_INT lda, const void *beta,
    void *c, GPUGEMM_INT ldc);
void GPUGEMM_NAME(zomatcopy)(CBLAS_LAYOUT layout, CBLAS_TRANSPOSE trans, GPUGEMM_INT m, GPUGEMM_INT n, const void *alpha, const void *a,
    GPUGEMM_INT lda, void *b, GPUGEMM_INT ldb);
void GPUGEMM_NAME(zimatcopy)(CBLAS_LAYOUT layout, CBLAS_TRANSPOSE trans, GPUGEMM_INT m, GPUGEMM_INT n, const void *alpha, void *a, GPUGEMM_INT lda,
    GPUGEMM_INT ldb);

/* ---- errors: the info-th argument of routine is illegal; form and what follows as in printf ---------------------------------------- */

void GPUGEMM_NAME(xerbla)(GPUGEMM_INT info, const char *routine, const char *form, ...);

/* calls_back.c — a CBLAS whose cblas_dgemm calls a spelling of dgemm that no BLAS here defines but this library. For t_calls_back.c. */
void dgemm(const char *transa, const char *transb, const int *m, const int *n, const int *k, const double *alpha, const double *a, const int *lda,
           const double *b, const int *ldb, const double *beta, double *c, const int *ldc);
void cblas_dgemm(int layout, int transa, int transb, int m, int n, int k, double alpha, const double *a, int lda, const double *b, int ldb,
                 double beta, double *c, int ldc);

void cblas_dgemm(int layout, int transa, int transb, int m, int n, int k, double alpha, const double *a, int lda, const double *b, int ldb,
                 double beta, double *c, int ldc)
{
    (void)layout;
    dgemm(transa == 111 ? "N" : "T", transb == 111 ? "N" : "T", &m, &n, &k, &alpha, a, &lda, b, &ldb, &beta, c, &ldc);
}

/* slow_blas.c — a BLAS of one routine with a slow constructor, which must not be called before the constructor has ended. For t_process.c. */
#include <stdlib.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))

static int ready;

__attribute__((constructor)) static void get_ready(void)
{
    usleep(300000);
    ready = 1;
}

EXPORTED void sgemm_(const char *transa, const char *transb, const int *pm, const int *pn, const int *pk, const float *alpha, const float *a,
                     const int *lda, const float *b, const int *ldb, const float *beta, float *c, const int *ldc)
{
    if (!ready)
        abort();
    for (int j = 0; j < *pn; j++)
        for (int i = 0; i < *pm; i++) {
            float sum = 0, *out = c + i + (size_t)j * *ldc;
            for (int l = 0; l < *pk; l++)
                sum += a[*transa == 'N' ? i + l * *lda : l + i * *lda] * b[*transb == 'N' ? l + j * *ldb : j + l * *ldb];
            *out = *alpha * sum + (*beta == 0 ? 0 : *beta * *out);
        }
}

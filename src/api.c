/* api.c — owns the gpugemm_* functions that are calls: gemm with a stream and a status, warm-up, release, version. They share every stage with the
 * BLAS names; only failures differ: a status instead of an abort. The statistics' functions are in stats.c, the pointer mode in serve.c. */
#include "gpugemm.h"

#include <pthread.h>

#include "check.h"
#include "fp.h"
#include "real.h"
#include "serve.h"
#include "staged.h"

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

const char *gpugemm_version(void)
{
    return TEXT(GPUGEMM_VERSION_MAJOR) "." TEXT(GPUGEMM_VERSION_MINOR) "." TEXT(GPUGEMM_VERSION_PATCH);
}

const char *gpugemm_status_string(int status)
{
    static const char *const words[] = {"success",
                                        "no usable GPU for operands in GPU memory",
                                        "out of memory",
                                        "the GPU reported an error",
                                        "no kernel for this GPU in this build",
                                        "host operands cannot be captured in a graph"};
    static const char *const illegal[] = {
        "illegal argument 1 (layout)", "illegal argument 2 (transa)", "illegal argument 3 (transb)",  "illegal argument 4 (m)",
        "illegal argument 5 (n)",      "illegal argument 6 (k)",      "illegal argument 7 (alpha)",   "illegal argument 8 (a)",
        "illegal argument 9 (lda)",    "illegal argument 10 (b)",     "illegal argument 11 (ldb)",    "illegal argument 12 (beta)",
        "illegal argument 13 (c)",     "illegal argument 14 (ldc)",   "illegal argument 15 (stream)", "illegal argument 16 (precision)",
    };
    if (status >= 0 && status < (int)(sizeof words / sizeof *words))
        return words[status];
    if (status < 0 && status >= -(int)(sizeof illegal / sizeof *illegal))
        return illegal[-status - 1];
    return "unknown status";
}

static int status_of(enum gg_reason reason)
{
    switch (reason) {
    case GG_NO_MEMORY: return GPUGEMM_NO_MEMORY;
    case GG_GPU_ERROR:
    case GG_DEAD: return GPUGEMM_GPU_ERROR;
    case GG_NO_KERNEL: return GPUGEMM_NO_KERNEL;
    case GG_IN_PLACE: return GPUGEMM_UNSUPPORTED; /* the GPU could serve, but not while the stream is captured */
    default: return GPUGEMM_NO_GPU;
    }
}

static int gemm(enum gg_type type, int layout, int transa, int transb, const struct gg_arguments *x, void *stream, const void *caller)
{
    struct gg_gemm p;
    int info = gg_check_cblas(type, layout, transa, transb, x, &p);
    if (info)
        return -gg_cblas_position(layout, info);
    struct gg_record record = {.symbol = type == GG_S ? "gpugemm_sgemm" : "gpugemm_dgemm"};
    const double start = gg_watched() ? gg_clock() : 0;
    const bool complete = gg_serve(&(struct gg_request){.p = &p, .caller = caller, .stream = stream ? stream : GG_LEGACY_STREAM}, &record);
    if (!complete && gg_on_gpu())
        return status_of(record.reason);
    const double declined = !complete && record.model > 0 ? gg_clock() : 0;
    if (!complete)
        gg_real_gemm(&p, caller);
    gg_conclude(&record, start, declined);
    return GPUGEMM_SUCCESS;
}

int gpugemm_sgemm(enum gpugemm_layout layout, enum gpugemm_transpose transa, enum gpugemm_transpose transb, int64_t m, int64_t n,
                  int64_t k, float alpha, const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c,
                  int64_t ldc, void *stream)
{
    struct gg_arguments x = {m, n, k, lda, ldb, ldc, &alpha, &beta, a, b, c};
    return gemm(GG_S, (int)layout, (int)transa, (int)transb, &x, stream, __builtin_return_address(0));
}

int gpugemm_sgemm_precision(enum gpugemm_layout layout, enum gpugemm_transpose transa, enum gpugemm_transpose transb, int64_t m, int64_t n,
                            int64_t k, float alpha, const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c,
                            int64_t ldc, void *stream, enum gpugemm_precision precision)
{
    if ((unsigned)precision > GPUGEMM_PRECISION_TF32)
        return -16;
    enum gpugemm_precision before = gpugemm_set_precision(precision);
    struct gg_arguments x = {m, n, k, lda, ldb, ldc, &alpha, &beta, a, b, c};
    int status = gemm(GG_S, (int)layout, (int)transa, (int)transb, &x, stream, __builtin_return_address(0));
    gpugemm_set_precision(before);
    return status;
}

int gpugemm_dgemm(enum gpugemm_layout layout, enum gpugemm_transpose transa, enum gpugemm_transpose transb, int64_t m, int64_t n,
                  int64_t k, double alpha, const double *a, int64_t lda, const double *b, int64_t ldb, double beta, double *c,
                  int64_t ldc, void *stream)
{
    struct gg_arguments x = {m, n, k, lda, ldb, ldc, &alpha, &beta, a, b, c};
    return gemm(GG_D, (int)layout, (int)transa, (int)transb, &x, stream, __builtin_return_address(0));
}

int gpugemm_warmup(void)
{
    const struct gg_fp fp = gg_fp_ours(); /* which the threads that are started inherit, in place of the program's traps */
    const bool up = gg_gpu_wait(GG_PATIENCE);
    gg_fp_write(fp);
    return up ? GPUGEMM_SUCCESS : GPUGEMM_NO_GPU;
}

size_t gpugemm_release(void)
{
    int cancel;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel); /* as in gg_serve: cancelled here, the thread would keep lanes that others wait for */
    const struct gg_fp fp = gg_fp_ours();
    size_t given = gg_gpu_state() == GG_GPU_READY ? gg_staged_release() : 0;
    gg_fp_write(fp);
    pthread_setcancelstate(cancel, NULL);
    return given;
}

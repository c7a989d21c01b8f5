/* t_gather.c — tiles that all their blocks add up together (cuda/gather.cuh): on a stream of the whole GPU; on one of a part of it, in which not all
 * blocks find room at one time, so that those which came first give up and the last adds up their shares; and from several streams at once. With
 * GPUGEMM_KERNEL naming one of the rows of gathered.h every product here is such a one (t_select).
 *
 *   t_gather_d, t_gather_s --lib PATH [--expect-gpu]
 *
 * Compiled for each REAL. Operands are small integers: results are exact. */
#include "gathered.h"

#define DRIVER(X)                                                                                                                                    \
    X(cuInit, cuInit)                                                                                                                                \
    X(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain)                                                                                            \
    X(cuCtxSetCurrent, cuCtxSetCurrent)                                                                                                              \
    X(cuMemAlloc_v2, cuMemAlloc)                                                                                                                     \
    X(cuMemcpyHtoD_v2, cuMemcpyHtoD)                                                                                                                 \
    X(cuMemcpyDtoH_v2, cuMemcpyDtoH)                                                                                                                 \
    X(cuCtxSynchronize, cuCtxSynchronize)                                                                                                            \
    X(cuStreamCreate, cuStreamCreate)                                                                                                                \
    X(cuDeviceGetDevResource, cuDeviceGetDevResource)                                                                                                \
    X(cuDevSmResourceSplitByCount, cuDevSmResourceSplitByCount)                                                                                      \
    X(cuDevResourceGenerateDesc, cuDevResourceGenerateDesc)                                                                                          \
    X(cuGreenCtxCreate, cuGreenCtxCreate)                                                                                                            \
    X(cuGreenCtxStreamCreate, cuGreenCtxStreamCreate)
#include "gemm_on_gpu.h"

enum { STREAMS = 6, ROUNDS = 25, MOST_C = 128 * 128 };
static REAL *product[GATHERED];
static CUdeviceptr a[GATHERED], b[GATHERED], c[STREAMS];

static void draw(int shape)
{
    uint64_t seed = (uint64_t)shape + 1;
    const int m = gathered[shape].m, n = gathered[shape].n, k = gathered[shape].k;
    REAL *const x = malloc((size_t)(m * k) * sizeof *x), *const y = malloc((size_t)(n * k) * sizeof *y);
    REAL *const sum = product[shape] = calloc((size_t)(m * n), sizeof *sum);
    for (int i = 0; i < m * k; i++)
        x[i] = (REAL)(rng_below(&seed, 15) - 7);
    for (int i = 0; i < n * k; i++)
        y[i] = (REAL)(rng_below(&seed, 15) - 7);
    for (int l = 0; l < k; l++)
        for (int j = 0; j < n; j++)
            for (int i = 0; i < m; i++)
                sum[i + j * m] += x[i + l * m] * y[j + l * n];
    GOOD(cu.at_cuMemAlloc(&a[shape], (size_t)(m * k) * sizeof *x));
    GOOD(cu.at_cuMemAlloc(&b[shape], (size_t)(n * k) * sizeof *y));
    GOOD(cu.at_cuMemcpyHtoD(a[shape], x, (size_t)(m * k) * sizeof *x));
    GOOD(cu.at_cuMemcpyHtoD(b[shape], y, (size_t)(n * k) * sizeof *y));
    free(x), free(y);
}

/* The same product on each of the streams, `times` times one after the other: C := A Bᵀ + beta C, from C = 1. */
static void multiply(int shape, const CUstream *streams, int count, int times, REAL beta, const char *what)
{
    static REAL got[MOST_C];
    const int m = gathered[shape].m, n = gathered[shape].n, k = gathered[shape].k;
    for (int i = 0; i < MOST_C; i++)
        got[i] = 1;
    for (int s = 0; s < count; s++)
        GOOD(cu.at_cuMemcpyHtoD(c[s], got, sizeof got));
    GOOD(cu.at_cuCtxSynchronize());
    for (int time = 0; time < times; time++)
        for (int s = 0; s < count; s++)
            CHECK(!gemm(GPUGEMM_COL_MAJOR, GPUGEMM_NO_TRANS, GPUGEMM_TRANS, m, n, k, 1, (REAL *)a[shape], m, (REAL *)b[shape], n, beta, (REAL *)c[s],
                        m, streams[s]),
                  "%s: a call failed", what);
    GOOD(cu.at_cuCtxSynchronize());
    for (int s = 0; s < count; s++) {
        int wrong = 0;
        GOOD(cu.at_cuMemcpyDtoH(got, c[s], sizeof got));
        for (int i = 0; i < MOST_C; i++)
            wrong += got[i] != (i >= m * n ? 1 : beta == 0 ? product[shape][i] : (REAL)times * product[shape][i] + 1);
        CHECK(!wrong, "%s, %dx%dx%d, beta %g: %d elements are wrong", what, m, n, k, (double)beta, wrong);
    }
}

/* A stream for a few of the GPU's SMs, or NULL where the driver cannot do that. */
static CUstream of_few_sms(CUdevice device)
{
    CUdevResource all, few;
    CUdevResourceDesc description;
    CUgreenCtx part;
    CUstream stream = NULL;
    unsigned groups = 1;
    if (!cu.at_cuGreenCtxStreamCreate || cu.at_cuDeviceGetDevResource(device, &all, CU_DEV_RESOURCE_TYPE_SM))
        return NULL;
    GOOD(cu.at_cuDevSmResourceSplitByCount(&few, &groups, &all, NULL, 0, 8));
    GOOD(cu.at_cuDevResourceGenerateDesc(&description, &few, 1));
    GOOD(cu.at_cuGreenCtxCreate(&part, description, device, CU_GREEN_CTX_DEFAULT_STREAM));
    GOOD(cu.at_cuGreenCtxStreamCreate(&stream, part, CU_STREAM_NON_BLOCKING, 0));
    return stream;
}

int main(int argc, char **argv)
{
    const int status = open_gpu(argc, argv);
    if (status >= 0)
        return status;
    for (int shape = 0; shape < GATHERED; shape++)
        draw(shape);
    CUstream streams[STREAMS];
    for (int s = 0; s < STREAMS; s++) {
        GOOD(cu.at_cuStreamCreate(&streams[s], CU_STREAM_NON_BLOCKING));
        GOOD(cu.at_cuMemAlloc(&c[s], MOST_C * sizeof(REAL)));
    }
    const CUstream few = of_few_sms(0);
    for (int shape = 0; shape < GATHERED; shape++)
        for (int beta = 0; beta < 2; beta++) {
            multiply(shape, streams, 1, ROUNDS, (REAL)beta, "on all SMs");
            if (few)
                multiply(shape, &few, 1, ROUNDS, (REAL)beta, "on a few SMs");
            multiply(shape, streams, STREAMS, ROUNDS, (REAL)beta, "on several streams");
        }
    fprintf(stderr, "t_gather: %s\n", few ? "also on a few SMs" : "the driver has no green contexts");
    return atomic_load(&test_failures) > 0;
}

/* t_blocks.c — products of operands in GPU memory whose pieces (src/tensor.h) do not fit into a chain's scratch at once, so that C is cut into
 * blocks: on a GPU because they are large, on fake_cuda.c because it has little memory.
 *
 *   t_blocks_s, t_blocks_d --lib PATH [--expect-gpu]
 *
 * Compiled for each REAL. Operands are small odd integers (fake_cuda.c certifies no zeros): results are exact. */
#define DRIVER(X)                                                                                                                                    \
    X(cuInit, cuInit)                                                                                                                                \
    X(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain)                                                                                            \
    X(cuCtxSetCurrent, cuCtxSetCurrent)                                                                                                              \
    X(cuMemGetInfo_v2, cuMemGetInfo)                                                                                                                 \
    X(cuMemAlloc_v2, cuMemAlloc)                                                                                                                     \
    X(cuMemFree_v2, cuMemFree)                                                                                                                       \
    X(cuMemsetD8Async, cuMemsetD8Async)                                                                                                              \
    X(cuMemcpyHtoD_v2, cuMemcpyHtoD)                                                                                                                 \
    X(cuMemcpyDtoH_v2, cuMemcpyDtoH)                                                                                                                 \
    X(cuStreamCreateWithPriority, cuStreamCreateWithPriority)                                                                                        \
    X(cuStreamSynchronize, cuStreamSynchronize)
#include "gemm_on_gpu.h"

struct shape {
    int64_t m, n, k;
};
static const bool is_double = sizeof(REAL) == 8;

/* Of a GPU: more pieces than gg_chain_most() lets a chain have. Of a driver with little memory (t_fake_gpu.sh): a chain gets a quarter of its
 * scratch, and k is the shortest of those for which there are chains. C is cut along m, along n, and along both. */
static const struct {
    size_t from, to; /* bytes of all memory */
    struct shape of_double, of_float[2];
} cases[] = {{0, 50000000, {0}, {{12416, 128, 128}, {128, 12416, 128}}},
             {50000000, (size_t)1 << 30, {8192, 128, 1024}, {{6400, 6400, 128}, {0}}},
             {(size_t)1 << 30, SIZE_MAX, {17408, 17408, 17408}, {{19200, 19200, 19200}, {0}}}};

static int element(int64_t i, int64_t j, uint32_t salt)
{
    return (int)(((uint32_t)i * 2654435761u ^ (uint32_t)j * 2246822519u ^ salt) >> 13) % 8 * 2 - 7;
}
static int a(int64_t i, int64_t l) { return element(i, l, 1); }
static int b(int64_t l, int64_t j) { return element(l, j, 77777); }

static CUdeviceptr upload(int64_t rows, int64_t columns, int (*of)(int64_t, int64_t))
{
    CUdeviceptr there = 0;
    REAL *const here = malloc((size_t)(rows * columns) * sizeof *here);
    for (int64_t j = 0; j < columns; j++)
        for (int64_t i = 0; i < rows; i++)
            here[i + j * rows] = (REAL)of(i, j);
    GOOD(cu.at_cuMemAlloc(&there, (size_t)(rows * columns) * sizeof *here));
    GOOD(cu.at_cuMemcpyHtoD(there, here, (size_t)(rows * columns) * sizeof *here));
    free(here);
    return there;
}

static void multiply(struct shape s)
{
    CUstream stream = NULL;
    CUdeviceptr c = 0;
    const CUdeviceptr at_a = upload(s.m, s.k, a), at_b = upload(s.k, s.n, b);
    GOOD(cu.at_cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0));
    GOOD(cu.at_cuMemAlloc(&c, (size_t)(s.m * s.n) * sizeof(REAL)));
    GOOD(cu.at_cuMemsetD8Async(c, 0xff, (size_t)(s.m * s.n) * sizeof(REAL), stream)); /* NaN */
    const int status = gemm(GPUGEMM_COL_MAJOR, GPUGEMM_NO_TRANS, GPUGEMM_NO_TRANS, s.m, s.n, s.k, 1, (REAL *)at_a, s.m, (REAL *)at_b, s.k, 0,
                            (REAL *)c, s.m, stream);
    CHECK(!status, "status %d", status);
    GOOD(cu.at_cuStreamSynchronize(stream));
    int wrong = 0, checked = 0;
    REAL *const column = malloc((size_t)s.m * sizeof *column);
    for (int64_t part = 0; part <= 16; part++) { /* of each block of columns some, of each of rows many */
        const int64_t j = (s.n - 1) * part / 16;
        GOOD(cu.at_cuMemcpyDtoH(column, c + (CUdeviceptr)(j * s.m) * sizeof(REAL), (size_t)s.m * sizeof(REAL)));
        for (int64_t i = part % 7; i < s.m; i += 1 + s.m / 500) {
            int64_t sum = 0;
            for (int64_t l = 0; l < s.k; l++)
                sum += a(i, l) * b(l, j);
            wrong += column[i] != (REAL)sum, checked++;
        }
    }
    free(column);
    CHECK(!wrong, "%lldx%lldx%lld: %d of %d elements are wrong", (long long)s.m, (long long)s.n, (long long)s.k, wrong, checked);
    printf("%lldx%lldx%lld: %d elements checked\n", (long long)s.m, (long long)s.n, (long long)s.k, checked);
    GOOD(cu.at_cuMemFree(at_a));
    GOOD(cu.at_cuMemFree(at_b));
    GOOD(cu.at_cuMemFree(c));
}

int main(int argc, char **argv)
{
    const int status = open_gpu(argc, argv);
    if (status >= 0)
        return status;
    size_t room = 0, all = 0;
    GOOD(cu.at_cuMemGetInfo(&room, &all));
    if (all >= (size_t)1 << 30 && room < (size_t)20 << 30)
        return printf("skipped: 20 GiB of GPU memory are needed\n"), SKIP;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct shape *const shapes = is_double ? &cases[i].of_double : cases[i].of_float;
        for (int j = 0; cases[i].from <= all && all < cases[i].to && j < (is_double ? 1 : 2) && shapes[j].m > 0; j++)
            multiply(shapes[j]);
    }
    return atomic_load(&test_failures) > 0;
}

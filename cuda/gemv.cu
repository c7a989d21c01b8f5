/* gemv — C is a vector of some hundreds or thousands of elements, from about as many k: short calls, of which slim's clusters and its copies to
 * shared memory are a good part. Needs sm_70.
 *
 * X is the matrix (A, or B if C is a row), y the vector. A block of 512 threads has 16 rows of X and all of k; each thread has one row and every 32nd
 * k, AHEAD of them on their way at any time, with the elements of y that belong to them, which L1 keeps. All loads are single elements, legal for
 * every alignment. Where k is contiguous a warp has a row, and its lanes add up by shuffles; else 16 lanes have rows side by side, and the 32 slices
 * of k meet in shared memory. Sums are added in a fixed order. */
#include "gate.cuh"

constexpr int THREADS = 512, ROWS = 16, SLICES = 32;

template <typename T> __device__ void gemv(const gg_args &p)
{
    constexpr int AHEAD = (__CUDA_ARCH__ >= 900 ? 64 : 48) / sizeof(T); /* as many as registers hold */
    if (sizeof(T) == 4 && gg_gated(p))                                  /* FP64 has no chains */
        return;
    __shared__ T sums[SLICES][ROWS + 1];
    const bool flat = p.n > 1, kmajor = flat ? p.b_kmajor : p.a_kmajor;
    const int64_t rows = flat ? p.n : p.m, ld = flat ? p.ldb : p.lda, y_ld = flat ? p.lda : p.ldb;
    const int64_t along = kmajor ? 1 : ld, y_along = (flat ? p.a_kmajor : p.b_kmajor) ? 1 : y_ld;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int own = kmajor ? warp : lane % ROWS, slice = kmajor ? lane : threadIdx.x / ROWS;
    const int64_t first = blockIdx.x * int64_t(ROWS), row = min(first + own, rows - 1); /* rows that do not exist repeat the last */
    const T *x = static_cast<const T *>(flat ? p.b : p.a) + row * (kmajor ? ld : 1) + slice * along;
    const T *y = static_cast<const T *>(flat ? p.a : p.b) + slice * y_along;
    int left = int(p.k) - slice; /* k from x on */
    T in[AHEAD], by[AHEAD], sum = 0;
    auto load = [&](int u) {
        in[u] = u * SLICES < left ? __ldg(x) : T(0);
        by[u] = u * SLICES < left ? __ldg(y) : T(0);
        x += SLICES * along, y += SLICES * y_along;
    };
#pragma unroll
    for (int u = 0; u < AHEAD; u++)
        load(u);
#pragma unroll 1
    for (int l = 0; l < int(p.k); l += AHEAD * SLICES) {
        left -= AHEAD * SLICES;
#pragma unroll
        for (int u = 0; u < AHEAD; u++) {
            sum += in[u] * by[u];
            load(u);
        }
    }
    if (!kmajor) {
        sums[slice][own] = sum;
        __syncthreads();
        sum = sums[lane][warp];
    }
    for (int other = 16; other > 0; other /= 2)
        sum += __shfl_xor_sync(~0u, sum, other);
    if (lane == 0 && first + warp < rows) {
        T *const c = static_cast<T *>(p.c) + (first + warp) * (flat ? p.ldc : 1);
        *c = p.beta == 0 ? T(p.alpha) * sum : T(p.alpha) * sum + T(p.beta) * *c;
    }
}

extern "C" {
__global__ void __launch_bounds__(THREADS, 2) gemv_s(const __grid_constant__ gg_args p) { gemv<float>(p); }
__global__ void __launch_bounds__(THREADS, 2) gemv_d(const __grid_constant__ gg_args p) { gemv<double>(p); }
}

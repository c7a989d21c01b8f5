/* plain — the oracle, and the passes over memory that the other kernels share.
 *
 *   plain_s, plain_d     one thread an element of C, k products in ascending order. Legal for every problem on every GPU: the last resort of
 *                        select.c and what the tests compare the fast rows with. A few percent of the peak.
 *   gg_scale_s, _d       C := beta C, for k == 0 or alpha == 0 (A and B are not read; the sign of zero is that of beta C).
 *   gg_fixup_s, _d       C := alpha (part + part + …) + beta C for the shared tiles of tile.cuh, parts in ascending k.
 *   gg_pack_s            c[i + l ld] = op(A)(i, l) and workspace[j + l ld] = op(B)(l, j), or one of them: lays operands out for TMA, m and n
 *                        contiguous and ld a multiple of 16 bytes. Through shared memory when they have to be transposed.
 *   gg_transfer          16 bytes a thread, m in all, from a to c, of which one is in page-locked memory.
 *
 * plain and gg_scale walk C by columns in blocks of 256 rows, 64-bit indices, any grid. */
#include "tile.cuh"

constexpr int THREADS = 256;

/* Calls f(i, j) for every element of an m×n matrix. Consecutive threads take consecutive rows, which are contiguous. */
template <typename F> __device__ void for_each_element(const gg_args &p, F f)
{
    const int64_t blocks_m = (p.m + THREADS - 1) / THREADS;
    for (int64_t block = blockIdx.x; block < blocks_m * p.n; block += gridDim.x) {
        const int64_t i = block % blocks_m * THREADS + threadIdx.x;
        if (i < p.m)
            f(i, block / blocks_m);
    }
}

template <typename T> __device__ void plain(const gg_args &p)
{
    if (gg_gated(p))
        return;
    const T *a = static_cast<const T *>(p.a), *b = static_cast<const T *>(p.b);
    T *c = static_cast<T *>(p.c);
    const T alpha = T(p.alpha), beta = T(p.beta);
    const int64_t a_i = p.a_kmajor ? p.lda : 1, a_l = p.a_kmajor ? 1 : p.lda;
    const int64_t b_j = p.b_kmajor ? p.ldb : 1, b_l = p.b_kmajor ? 1 : p.ldb;
    for_each_element(p, [=](int64_t i, int64_t j) {
        T sum = 0;
        for (int64_t l = 0; l < p.k; l++)
            sum += a[i * a_i + l * a_l] * b[j * b_j + l * b_l];
        T *out = c + i + j * p.ldc;
        *out = beta == T(0) ? alpha * sum : alpha * sum + beta * *out;
    });
}

template <typename T> __device__ void scale(const gg_args &p)
{
    T *c = static_cast<T *>(p.c);
    const T beta = T(p.beta);
    for_each_element(p, [=](int64_t i, int64_t j) {
        T *out = c + i + j * p.ldc;
        *out = beta == T(0) ? T(0) : beta * *out;
    });
}

/* Sums N consecutive elements of a tile's column over parts [begin, end). Part 0 comes from the block whose run starts before the tile, and is in
 * that block's second slot; part q > 0 is in the first slot of the q-th block that starts inside the tile. `slots` is the former block's first
 * slot. */
template <typename T, int N> __device__ void add_parts(T (&sum)[N], const T *slots, int64_t size, int begin, int end)
{
    struct alignas(N * sizeof(T) < 16 ? N * sizeof(T) : 16) elements {
        T v[N];
    };
    for (int e = 0; e < N; e++)
        sum[e] = 0;
#pragma unroll 4
    for (int q = begin; q < end; q++) {
        const elements part = *reinterpret_cast<const elements *>(slots + (2 * q + (q == 0)) * size);
        for (int e = 0; e < N; e++)
            sum[e] += part.v[e];
    }
}

template <typename T, int N> __device__ void finish(const gg_args &p, const gg_tile &tile, int element, const T (&sum)[N])
{
    const T alpha = T(p.alpha), beta = T(p.beta);
    for (int e = 0; e < N; e++) {
        const int64_t i = tile.m0 + (element + e) % p.tile_m, j = tile.n0 + (element + e) / p.tile_m;
        T *out = static_cast<T *>(p.c) + i + j * p.ldc;
        if (i >= tile.own_m && i < p.m && j >= tile.own_n && j < p.n)
            *out = beta == T(0) ? alpha * sum[e] : alpha * sum[e] + beta * *out;
    }
}

/* Block (t, y) finishes p.each elements of shared tile t, if its k was cut. Either a thread has 4 elements; or, where parts are many, a thread has
 * one of p.each elements for a consecutive share of the parts, and the shares are then added in order. */
template <typename T> __device__ void fixup(const gg_args &p)
{
    if (gg_gated(p))
        return;
    const int64_t steps = gg_ceil_div(p.k, p.tile_k), shared_steps = p.shared_tiles * steps, start = blockIdx.x * steps;
    int first = int(start * p.blocks / shared_steps), last; /* the blocks that start inside the tile */
    while (first < p.blocks && gg_run_start(shared_steps, steps, first, p.blocks) <= start)
        first++;
    last = max(first - 1, int((start + steps) * p.blocks / shared_steps) - 2);
    while (last + 1 < p.blocks && gg_run_start(shared_steps, steps, last + 1, p.blocks) < start + steps)
        last++;
    if (last < first)
        return;

    gg_tile tile;
    gg_place(p, gg_ceil_div(p.m, p.tile_m) * gg_ceil_div(p.n, p.tile_n) - p.shared_tiles + blockIdx.x, p.tile_m, p.tile_n, tile);
    const int parts = last - first + 2, size = p.tile_m * p.tile_n;
    const T *slots = static_cast<const T *>(p.workspace) + 2 * int64_t(first - 1) * size;
    if (p.each == 4 * THREADS) {
        const int element = blockIdx.y * p.each + threadIdx.x * 4;
        T sum[4];
        add_parts(sum, slots + element, size, 0, parts);
        finish(p, tile, element, sum);
        return;
    }
    __shared__ T share[THREADS];
    const int groups = THREADS / p.each, group = threadIdx.x / p.each, lane = threadIdx.x % p.each, element = blockIdx.y * p.each + lane;
    T sum[1];
    add_parts(sum, slots + element, size, parts * group / groups, parts * (group + 1) / groups);
    share[threadIdx.x] = sum[0];
    __syncthreads();
    if (group != 0)
        return;
    for (int g = 1; g < groups; g++)
        sum[0] += share[g * p.each + lane];
    finish(p, tile, element, sum);
}

/* Packs pieces `piece`, piece + pieces, … of 64 m × 32 k. Each thread has 8 elements in flight. Where an operand is packed it is often small, and
 * there is one piece for each block that fits on the GPU: what counts is the time to the first load, so sizes are 32 bits (a pass of launch.c has at
 * most 2^27 elements). */
template <typename T> __device__ void pack(const T *a, int64_t lda, bool kmajor, T *c, int ldc, int m, int k, unsigned piece, unsigned pieces)
{
    constexpr int M = 64, K = 32, EACH = M * K / THREADS, ROWS = THREADS / K, LINES = THREADS / M;
    __shared__ T tile[M][K + 1];
    const int t = threadIdx.x, x = t % M, y = t / M;
    const unsigned pieces_m = unsigned(m + M - 1) / M, all = pieces_m * (unsigned(k + K - 1) / K);
    for (; piece < all; piece += pieces) {
        const unsigned strip = piece / pieces_m;
        const int i0 = (piece - strip * pieces_m) * M, l0 = strip * K, i = i0 + x, l = l0 + y;
        T v[EACH];
        if (kmajor) {
            const int row = t / K, at = t % K;
            const T *from = a + l0 + at + (i0 + row) * lda;
#pragma unroll
            for (int e = 0; e < EACH; e++, from += ROWS * lda)
                v[e] = i0 + row + e * ROWS < m && l0 + at < k ? *from : T(0);
            __syncthreads(); /* all have read the piece before this one */
#pragma unroll
            for (int e = 0; e < EACH; e++)
                tile[row + e * ROWS][at] = v[e];
            __syncthreads();
#pragma unroll
            for (int e = 0; e < EACH; e++)
                v[e] = tile[x][y + e * LINES];
        } else {
            const T *from = a + i + l * lda;
#pragma unroll
            for (int e = 0; e < EACH; e++, from += LINES * lda)
                v[e] = i < m && l + e * LINES < k ? *from : T(0);
        }
        T *to = c + i + l * int64_t(ldc);
#pragma unroll
        for (int e = 0; e < EACH; e++, to += LINES * int64_t(ldc))
            if (i < m && l + e * LINES < k)
                *to = v[e];
    }
}

/* Packs op(A) by the first p.splits blocks, op(B) by the others. */
template <typename T> __device__ void pack(const gg_args &p)
{
    if (gg_gated(p))
        return;
    const int m = int(p.m), n = int(p.n), k = int(p.k);
    const unsigned of_a = p.splits, block = blockIdx.x;
    if (block < of_a)
        pack(static_cast<const T *>(p.a), p.lda, p.a_kmajor, static_cast<T *>(p.c), (m + 3) / 4 * 4, m, k, block, of_a);
    else
        pack(static_cast<const T *>(p.b), p.ldb, p.b_kmajor, static_cast<T *>(p.workspace), (n + 3) / 4 * 4, n, k, block - of_a, gridDim.x - of_a);
}

extern "C" {
__global__ void __launch_bounds__(THREADS) gg_transfer(const __grid_constant__ gg_args p)
{
    const int64_t i = blockIdx.x * int64_t(THREADS) + threadIdx.x;
    if (i < p.m)
        static_cast<int4 *>(p.c)[i] = static_cast<const int4 *>(p.a)[i];
}
__global__ void __launch_bounds__(THREADS) plain_s(const __grid_constant__ gg_args p) { plain<float>(p); }
__global__ void __launch_bounds__(THREADS) plain_d(const __grid_constant__ gg_args p) { plain<double>(p); }
__global__ void __launch_bounds__(THREADS) gg_scale_s(const __grid_constant__ gg_args p) { scale<float>(p); }
__global__ void __launch_bounds__(THREADS) gg_scale_d(const __grid_constant__ gg_args p) { scale<double>(p); }
#if __CUDA_ARCH__ >= 800
#define BLOCKS 6 /* an SM, as kernels.def says */
#else
#define BLOCKS 4 /* fills the 1024 threads of an SM */
#endif
#if __CUDA_ARCH__ == 900
__global__ void __launch_bounds__(THREADS, 8) gg_pack_s(const __grid_constant__ gg_args p) { pack<float>(p); }
#endif
__global__ void __launch_bounds__(THREADS, BLOCKS) gg_fixup_s(const __grid_constant__ gg_args p) { fixup<float>(p); }
__global__ void __launch_bounds__(THREADS, BLOCKS) gg_fixup_d(const __grid_constant__ gg_args p) { fixup<double>(p); }
}

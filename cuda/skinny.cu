/* skinny — m or n ≤ 16 (FP64: ≤ 4): one operand is large and read once, so the kernel is as fast as memory if enough of it is in flight.
 *
 * X is the large operand (A, or B when m is the short side), Y the small one with at most COLUMNS columns. A block of 256 threads takes some rows of
 * X and one of p.splits pieces of k; select.c makes the pieces small enough to fill the GPU. Partial sums of several pieces go to the workspace and
 * skinny_sum adds them in ascending k. Y passes through shared memory, some hundred k at a time.
 *
 *   X with x contiguous: 128 rows a block, 4 a thread, 32 apart; the 8 warps share out k and add up at the end, in order. If there are no more
 *     than 64 or 32 rows, a thread has 2 or 1 of them, and as much more of k (FEW).
 *   X with k contiguous: 32 rows a block, 4 a warp; lanes share out k and add up by shuffles at the end.
 *
 * All loads of X are single elements, coalesced to 128 or 256 bytes a warp and legal for every alignment; a thread has 16 of them in flight while it
 * multiplies the 16 before. skinny_s16 spills 80 bytes at 128 registers and is faster so than with more of them and one block an SM. */
#include "gate.cuh"

constexpr int THREADS = 256, WARPS = THREADS / 32, MOST_ROWS = 4, AT_ONCE = 16, DEPTH = 512;

template <typename T> struct skinny_view {
    const T *x, *y;
    int64_t size_x, x_x, x_l, y_y, y_l; /* rows of X; strides of X by x and by k, of Y by y and by k */
    int size_y;
    bool swapped; /* X is B: C(i, j) is (y, x) */

    __device__ skinny_view(const gg_args &p, int columns)
    {
        swapped = p.n > columns;
        x = static_cast<const T *>(swapped ? p.b : p.a);
        y = static_cast<const T *>(swapped ? p.a : p.b);
        size_x = swapped ? p.n : p.m;
        size_y = int(swapped ? p.m : p.n);
        const int64_t a_m = p.a_kmajor ? p.lda : 1, a_k = p.a_kmajor ? 1 : p.lda, b_n = p.b_kmajor ? p.ldb : 1, b_k = p.b_kmajor ? 1 : p.ldb;
        x_x = swapped ? b_n : a_m;
        x_l = swapped ? b_k : a_k;
        y_y = swapped ? a_m : b_n;
        y_l = swapped ? a_k : b_k;
    }

    __device__ void finish(const gg_args &p, int64_t xx, int yy, T sum) const
    {
        T *at = static_cast<T *>(p.c) + (swapped ? yy + xx * p.ldc : xx + yy * p.ldc);
        const T alpha = T(p.alpha), beta = T(p.beta);
        *at = beta == T(0) ? alpha * sum : alpha * sum + beta * *at;
    }

    __device__ void put(const gg_args &p, int split, int64_t xx, int yy, T sum) const
    {
        if (xx >= size_x || yy >= size_y)
            return;
        if (p.splits == 1)
            finish(p, xx, yy, sum);
        else
            static_cast<T *>(p.workspace)[(int64_t(split) * size_y + yy) * size_x + xx] = sum;
    }
};

template <typename T, int COLUMNS> struct skinny_memory {
    T y[COLUMNS][DEPTH], sum[WARPS][MOST_ROWS * 32];
};

/* ROWS: of a thread. */
template <int ROWS, typename T, int COLUMNS> __device__ void skinny_rows(const gg_args &p, skinny_memory<T, COLUMNS> &memory)
{
    constexpr int TURN = AT_ONCE / ROWS; /* k per thread and iteration */
    static_assert(DEPTH % (TURN * 32) == 0 && DEPTH % (TURN * WARPS) == 0, "turns end within DEPTH");
    const skinny_view<T> v(p, COLUMNS);
    const bool kmajor = v.swapped ? p.b_kmajor : p.a_kmajor;
    const int block_rows = kmajor ? WARPS * ROWS : 32 * ROWS, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int64_t row_blocks = (v.size_x + block_rows - 1) / block_rows;
    const int split = int(blockIdx.x / row_blocks);
    const int64_t k0 = p.k * split / p.splits, k1 = p.k * (split + 1) / p.splits;
    const int64_t x0 = blockIdx.x % row_blocks * block_rows + (kmajor ? warp * ROWS : lane);
    const int dx = kmajor ? 1 : 32;                                     /* this thread's rows are x0 + r dx */
    const int first = kmajor ? lane : warp, step = kmajor ? 32 : WARPS; /* and its k first, first + step, … */
    T sum[ROWS][COLUMNS] = {};

    const T *row[ROWS]; /* rows beyond the end repeat the last */
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        row[r] = v.x + min(x0 + r * dx, v.size_x - 1) * v.x_x;
    T now[TURN][ROWS], next[TURN][ROWS];
    auto fetch = [&](T(&in)[TURN][ROWS], int64_t l) {
#pragma unroll
        for (int u = 0; u < TURN; u++)
#pragma unroll
            for (int r = 0; r < ROWS; r++)
                in[u][r] = l + u * step < k1 ? row[r][(l + u * step) * v.x_l] : T(0);
    };

    fetch(now, k0 + first);
    for (int64_t k = k0; k < k1; k += DEPTH) {
        const int depth = int(min(k1 - k, int64_t(DEPTH)));
        __syncthreads();
        for (int e = threadIdx.x; e < COLUMNS * DEPTH; e += THREADS) {
            const int yy = v.y_l == 1 ? e / DEPTH : e % COLUMNS, l = v.y_l == 1 ? e % DEPTH : e / COLUMNS;
            memory.y[yy][l] = yy < v.size_y && l < depth ? v.y[yy * v.y_y + (k + l) * v.y_l] : T(0);
        }
        __syncthreads();
        for (int turn = 0; turn < depth; turn += TURN * step) {
            fetch(next, k + turn + TURN * step + first);
#pragma unroll
            for (int u = 0; u < TURN; u++)
#pragma unroll
                for (int c = 0; c < COLUMNS; c++) {
                    const T value = memory.y[c][turn + first + u * step];
#pragma unroll
                    for (int r = 0; r < ROWS; r++)
                        sum[r][c] += now[u][r] * value;
                }
#pragma unroll
            for (int u = 0; u < TURN; u++)
#pragma unroll
                for (int r = 0; r < ROWS; r++)
                    now[u][r] = next[u][r];
        }
    }

    if (kmajor) {
#pragma unroll
        for (int c = 0; c < COLUMNS; c++)
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                T s = sum[r][c];
                for (int other = 16; other > 0; other /= 2)
                    s += __shfl_xor_sync(~0u, s, other);
                if (lane == 0)
                    v.put(p, split, x0 + r, c, s);
            }
        return;
    }
#pragma unroll
    for (int c = 0; c < COLUMNS; c++) {
        __syncthreads();
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            memory.sum[warp][r * 32 + lane] = sum[r][c];
        __syncthreads();
        if (threadIdx.x < ROWS * 32) {
            T s = 0;
            for (int w = 0; w < WARPS; w++)
                s += memory.sum[w][threadIdx.x];
            v.put(p, split, x0 - lane + threadIdx.x, c, s);
        }
    }
}

template <typename T, int COLUMNS, bool FEW = true> __device__ void skinny(const gg_args &p)
{
    if (gg_gated(p))
        return;
    __shared__ skinny_memory<T, COLUMNS> memory;
    const bool b_large = p.n > COLUMNS, kmajor = b_large ? p.b_kmajor : p.a_kmajor;
    const int64_t rows = b_large ? p.n : p.m;
    if (FEW && !kmajor && rows <= 32)
        skinny_rows<1>(p, memory);
    else if (FEW && !kmajor && rows <= 64)
        skinny_rows<2>(p, memory);
    else
        skinny_rows<MOST_ROWS>(p, memory);
}

/* Adds the pieces' sums. p.tile_n: COLUMNS of the kernel before. If there are GG_MANY_PIECES or more, a warp adds up an element's, because each
 * thread would wait for memory some fifty times (100x1x100000 in 396 pieces 38 us, so 27). */
template <typename T> __device__ void skinny_sum(const gg_args &p)
{
    if (gg_gated(p))
        return;
    const skinny_view<T> v(p, p.tile_n);
    const int64_t size = v.size_x * v.size_y;
    if (p.splits >= GG_MANY_PIECES) {
        const int lane = threadIdx.x % 32;
        for (int64_t e = blockIdx.x * int64_t(WARPS) + threadIdx.x / 32; e < size; e += int64_t(gridDim.x) * WARPS) {
            const T *part = static_cast<const T *>(p.workspace) + e;
            T sum = 0;
#pragma unroll 8
            for (int s = lane; s < p.splits; s += 32)
                sum += part[s * size];
            for (int other = 16; other > 0; other /= 2)
                sum += __shfl_xor_sync(~0u, sum, other);
            if (lane == 0)
                v.finish(p, e % v.size_x, int(e / v.size_x), sum);
        }
        return;
    }
    for (int64_t e = blockIdx.x * int64_t(THREADS) + threadIdx.x; e < size; e += int64_t(gridDim.x) * THREADS) {
        const T *part = static_cast<const T *>(p.workspace) + e;
        T sum = 0;
#pragma unroll 8
        for (int s = 0; s < p.splits; s++)
            sum += part[s * size];
        v.finish(p, e % v.size_x, int(e / v.size_x), sum);
    }
}

extern "C" {
__global__ void __launch_bounds__(THREADS, 3) skinny_s4(const __grid_constant__ gg_args p) { skinny<float, 4>(p); }
__global__ void __launch_bounds__(THREADS, 2) skinny_s16(const __grid_constant__ gg_args p) { skinny<float, 16, false>(p); }
__global__ void __launch_bounds__(THREADS, 2) skinny_d4(const __grid_constant__ gg_args p) { skinny<double, 4>(p); }
__global__ void __launch_bounds__(THREADS) skinny_sum_s(const __grid_constant__ gg_args p) { skinny_sum<float>(p); }
__global__ void __launch_bounds__(THREADS) skinny_sum_d(const __grid_constant__ gg_args p) { skinny_sum<double>(p); }
}

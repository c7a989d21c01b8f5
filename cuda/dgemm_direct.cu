/* dgemm_direct — FP64 on tensor cores (DMMA) for sm_90 where C is small and all time is latency: no pipeline to fill, no tensor map to fetch, little
 * code. Any layout and address.
 *
 * A block computes a tile. WARPS_M × WARPS_N warps each compute a part of it, and WARPS_K such groups take turns in k, 16 at a time. A warp loads
 * fragments straight from memory to registers, DEPTH steps ahead, so the first loads are issued as soon as their addresses are known; what two warps
 * of a group share they find in L1. The groups' sums meet in shared memory, once, in order.
 *
 *   dgemm_direct_16x32   8 groups of 2 warps of 16×16: 128 tiles at n = 256. One H200, L2 flushed: 4.8 µs at 64, 5.3 at 128, 6.7 to 7.3 at 256
 *                        (cuBLAS 6.1, 5.8, 6.9 to 7.8; an empty kernel 3.0; dgemm_tma_32x64 6.6, 6.8, 8.5)
 *   dgemm_direct_32x32   4 groups of 4 warps of 16×16: 100 tiles at n = 300, 121 at 352. 9.0 to 11.2 µs at 257 to 352, 300x300x64 6.3 (by
 *                        dgemm_tma_32x64 10.4 to 11.1, 8.2; by 16x32 10.6 to 13.8, 7.4; cuBLAS 8.2 to 9.2, 6.4). With twice as much in flight it
 *                        spills; 2 groups of 4 warps with 3 or 4 times as much take 11 to 14 µs. */
#include "dmma.cuh"
#include "tile.cuh"

#if __CUDA_ARCH__ >= 900

template <int WARP_M, int WARP_N, int WARPS_M, int WARPS_N, int WARPS_K, int DEPTH> struct direct {
    static constexpr int TILE_M = WARP_M * WARPS_M, TILE_N = WARP_N * WARPS_N, TILE_K = 16, FM = WARP_M / 16, FN = WARP_N / 8;
    static constexpr int GROUP = 32 * WARPS_M * WARPS_N, THREADS = GROUP * WARPS_K, SLOTS = FM * FN * 2;
    static_assert(WARP_M % 16 == 0 && WARP_N % 16 == 0, "whole fragments");

    double sum[FM][FN][4];
    double fa[DEPTH][FM][8], fb[DEPTH][FN][4];

    /* One operand of a warp. Row g + 8h of a fragment is row 2g + h of C, column c of fragment j is 16 (j / 2) + 2c + j % 2, and k q + 4e is 8 (e /
     * 2) + 2q + e % 2. So in every layout a lane reads whole 16-byte vectors of memory. */
    struct operand {
        const double *at; /* the lane's first element of this warp's next step */
        int64_t ld;
        int rows, left_k; /* how many exist from `at` on */
    };

    /* Loads r[h][e]: row h of group i. KMAJOR: k is contiguous. WHOLE: all elements exist and 16-byte loads are aligned. */
    template <bool KMAJOR, bool WHOLE> static __device__ void load(double (&r)[2][4], const operand &o, int i)
    {
        if constexpr (WHOLE && KMAJOR) {
#pragma unroll
            for (int h = 0; h < 2; h++)
#pragma unroll
                for (int e = 0; e < 4; e += 2) {
                    const double2 v = __ldg(reinterpret_cast<const double2 *>(o.at + (i * 16 + h) * o.ld + e * 4));
                    r[h][e] = v.x, r[h][e + 1] = v.y;
                }
        } else if constexpr (WHOLE) {
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const double2 v = __ldg(reinterpret_cast<const double2 *>(o.at + i * 16 + (e / 2 * 8 + e % 2) * o.ld));
                r[0][e] = v.x, r[1][e] = v.y;
            }
        } else {
#pragma unroll
            for (int h = 0; h < 2; h++)
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    const int row = i * 16 + h, k = e / 2 * 8 + e % 2;
                    r[h][e] = row < o.rows && k < o.left_k ? __ldg(o.at + row * (KMAJOR ? o.ld : 1) + k * (KMAJOR ? 1 : o.ld)) : 0;
                }
        }
    }

    template <bool A_K, bool B_K, bool WHOLE> __device__ void fetch(int set, const operand &a, const operand &b)
    {
#pragma unroll
        for (int i = 0; i < FM; i++) {
            double r[2][4];
            load<A_K, WHOLE>(r, a, i);
#pragma unroll
            for (int e = 0; e < 8; e++)
                fa[set][i][e] = r[e % 2][e / 2];
        }
#pragma unroll
        for (int j = 0; j < FN; j += 2) {
            double r[2][4];
            load<B_K, WHOLE>(r, b, j / 2);
#pragma unroll
            for (int e = 0; e < 4; e++)
                fb[set][j][e] = r[0][e], fb[set][j + 1][e] = r[1][e];
        }
    }

    template <bool KMAJOR> static __device__ void advance(operand &o)
    {
        o.at += 16 * WARPS_K * (KMAJOR ? 1 : o.ld);
        o.left_k -= 16 * WARPS_K;
    }

    /* Multiplies this warp's `steps` steps. */
    template <bool A_K, bool B_K, bool WHOLE> __device__ void multiply(operand a, operand b, int steps)
    {
#pragma unroll
        for (int d = 0; d < DEPTH; d++)
            if (d < steps) {
                fetch<A_K, B_K, WHOLE>(d, a, b);
                advance<A_K>(a), advance<B_K>(b);
            }
#pragma unroll 1
        for (; steps > 0; steps -= DEPTH)
#pragma unroll
            for (int d = 0; d < DEPTH; d++)
                if (d < steps) {
#pragma unroll
                    for (int i = 0; i < FM; i++)
#pragma unroll
                        for (int j = 0; j < FN; j++)
                            mma<16>(sum[i][i % 2 ? FN - 1 - j : j], fa[d][i], fb[d][i % 2 ? FN - 1 - j : j]);
                    if (d + DEPTH < steps) {
                        fetch<A_K, B_K, WHOLE>(d, a, b);
                        advance<A_K>(a), advance<B_K>(b);
                    }
                }
    }

    static __device__ operand start(const void *base, int64_t ld, bool kmajor, int row, int k, int extent, int all_k)
    {
        return {static_cast<const double *>(base) + (kmajor ? k + row * ld : row + k * ld), ld, extent - row, all_k - k};
    }

    __device__ void run(const gg_args &p)
    {
        if (p.verdict && gg_gated(p)) /* outside a chain nothing is awaited here */
            return;
        const unsigned thread = threadIdx.x, warp = thread / 32, lane = thread % 32, group = warp / (WARPS_M * WARPS_N);
        const unsigned tiles_m = (unsigned(p.m) + TILE_M - 1) / TILE_M, tile_n = blockIdx.x / tiles_m, tile_m = blockIdx.x - tile_n * tiles_m;
        const int m0 = tile_m * TILE_M, n0 = tile_n * TILE_N, all_m = int(p.m), all_n = int(p.n), all_k = int(p.k);
        const int m = m0 + warp % WARPS_M * WARP_M, n = n0 + warp / WARPS_M % WARPS_N * WARP_N, g = lane / 4 * 2, k = group * 16 + lane % 4 * 2;
        const operand a = start(p.a, p.lda, p.a_kmajor, m + g, k, all_m, all_k);
        const operand b = start(p.b, p.ldb, p.b_kmajor, n + g, k, all_n, all_k);
        const int steps = ((all_k + 15) / 16 - int(group) + WARPS_K - 1) / WARPS_K;
        clear(sum);
        gg_fetch_c<double, TILE_M, TILE_N>(p, m0, n0, thread, THREADS);
        if (m0 + TILE_M <= all_m && n0 + TILE_N <= all_n && all_k % 16 == 0 && p.a_vec && p.b_vec)
            layouts<true>(p, a, b, steps);
        else
            layouts<false>(p, a, b, steps);
        finish(p, m + g, n + lane % 4 * 4);
    }

    template <bool WHOLE> __device__ void layouts(const gg_args &p, const operand &a, const operand &b, int steps)
    {
        if (p.a_kmajor) {
            if (p.b_kmajor)
                multiply<true, true, WHOLE>(a, b, steps);
            else
                multiply<true, false, WHOLE>(a, b, steps);
        } else if (p.b_kmajor)
            multiply<false, true, WHOLE>(a, b, steps);
        else
            multiply<false, false, WHOLE>(a, b, steps);
    }

    /* Adds up the groups and stores. Slot s of a thread: rows m and m + 1 of a column. Each group adds up its share of the slots, in the order of
     * k. */
    __device__ void finish(const gg_args &p, int m, int n)
    {
        __shared__ double2 parts[WARPS_K][SLOTS][GROUP];
        const unsigned group = threadIdx.x / GROUP, thread = threadIdx.x % GROUP;
#pragma unroll
        for (int s = 0; s < SLOTS; s++)
            parts[group][s][thread] = make_double2(sum[s / 2 / FN][s / 2 % FN][s % 2], sum[s / 2 / FN][s / 2 % FN][s % 2 + 2]);
        __syncthreads();
        const int left_m = int(p.m) - m, left_n = int(p.n) - n;
        double *const c = static_cast<double *>(p.c) + m + n * p.ldc;
#pragma unroll
        for (unsigned s = group; s < SLOTS; s += WARPS_K) {
            double2 v = parts[0][s][thread];
#pragma unroll
            for (int g = 1; g < WARPS_K; g++) {
                const double2 w = parts[g][s][thread];
                v.x += w.x, v.y += w.y;
            }
            const int i = s / 2 / FN, j = s / 2 % FN, row = i * 16, column = j / 2 * 16 + s % 2 * 2 + j % 2;
            if (column >= left_n || row >= left_m)
                continue;
            double *const to = c + row + column * p.ldc;
            v.x *= p.alpha, v.y *= p.alpha;
            if (p.c_vec && row + 1 < left_m) {
                double2 *const both = reinterpret_cast<double2 *>(to);
                if (GG_UPDATE) {
                    const double2 old = *both;
                    v.x += p.beta * old.x, v.y += p.beta * old.y;
                }
                *both = v;
                continue;
            }
            to[0] = GG_UPDATE ? v.x + p.beta * to[0] : v.x;
            if (row + 1 < left_m)
                to[1] = GG_UPDATE ? v.y + p.beta * to[1] : v.y;
        }
    }
};

using d16x32 = direct<16, 16, 1, 2, 8, 1>;
using d32x32 = direct<16, 16, 2, 2, 4, 1>;

extern "C" {
__global__ void __launch_bounds__(d16x32::THREADS, 1) dgemm_direct_16x32(const __grid_constant__ gg_args p)
{
    d16x32 self;
    self.run(p);
}
__global__ void __launch_bounds__(d32x32::THREADS, 1) dgemm_direct_32x32(const __grid_constant__ gg_args p)
{
    d32x32 self;
    self.run(p);
}
}

#endif

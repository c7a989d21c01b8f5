/* dgemm_direct — FP64 on tensor cores (DMMA) for sm_90 where C is small and all time is latency: no producer, no tensor map to fetch, and little
 * code, which counts where all of it runs for the first time. Any layout and address.
 *
 * A block computes a tile. WARPS_M × WARPS_N warps, a group, compute a part of it each, and WARPS_K groups take turns in k, 16 at a time. A group
 * copies its own steps to shared memory by cp.async, DEPTH - 1 steps ahead: up to k = 192 (32x32: 128) all that a block reads is on its way before
 * the first product. The groups' sums meet in shared memory, once, in order.
 *
 * 16 rows × 16 k of an operand are a box: 16 lines of 128 bytes, [row][k] where k is contiguous, else [k][row]. Eight threads copy a line, so an
 * instruction touches four lines of memory, not sixteen, as when each lane loads what its fragments need. Which row and k an element of a fragment is
 * is free, and chosen so that in every layout a lane reads whole 16-byte pieces without bank conflicts and stores two neighbouring rows of C.
 *
 * Two blocks fit on an SM: so up to 264 tiles are done at once. 8 warps do as well as 16, and start sooner. Microseconds on one H200, L2 flushed,
 * over the layouts, by these, by fragments loaded straight to registers (until 2026-11-26), and by cuBLAS (bench/results/small-dgemm-2026-11-26.txt;
 * an empty kernel takes 3.0):
 *
 *   dgemm_direct_16x32   4 groups of 2 warps of 16×16    256: 6.0 to 7.0, 6.5 to 7.8, 6.9 to 7.7
 *   dgemm_direct_32x32   4 groups of 2 warps of 16×32    300: 7.8 to 8.6, 9.4 to 9.9, 7.7 to 8.4 */
#include "dmma.cuh"
#include "pipeline.cuh"
#include "tile.cuh"

#if __CUDA_ARCH__ >= 900

/* One operand of a thread that copies: its piece, two elements, of the first line of its group's next step. */
struct operand {
    const double *at;
    int64_t ld, box, step;         /* elements from a line to the next, from a box and from a step */
    int lines, elements;           /* how many exist from `at` on, in memory's directions */
    int box_lines, box_elements;   /* so many fewer from the next box on */
    int step_lines, step_elements; /* and in the next step */
};

/* Piece c of a line lies at c ^ swizzle(): so 8 lanes, of two row pairs and four k pairs, read 8 different ones. */
__device__ inline int swizzle(bool kmajor, int line) { return kmajor ? line / 2 % 2 * 4 : line / 2 % 4 * 2; }

template <int WARPS_M, int WARPS_N, int WARPS_K, int WARP_N, int DEPTH, int SHARED> struct direct {
    static constexpr int TILE_M = 16 * WARPS_M, TILE_N = WARP_N * WARPS_N, FN = WARP_N / 8, SLOTS = FN * 2;
    static constexpr int GROUP = 32 * WARPS_M * WARPS_N, THREADS = GROUP * WARPS_K, STEP = 16 * WARPS_K;
    static constexpr int BOX = 16 * 128, A_BYTES = TILE_M * 128, BYTES = (TILE_M + TILE_N) * 128;
    static constexpr int LINES = GROUP / 8; /* that a group copies at a time */
    static_assert(WARP_N % 16 == 0 && 16 % LINES == 0 && LINES % 8 == 0, "whole fragments; a thread's lines have the same swizzle");
    static_assert(WARPS_K * DEPTH * BYTES == SHARED && THREADS * SLOTS * 16 <= SHARED, "kernels.def; room for the sums");

    double sum[1][FN][4];

    static __device__ operand start(const void *base, int64_t ld, bool kmajor, int row, int k, int thread, int rows, int all_k)
    {
        const int line = (kmajor ? row : k) + thread / 8, element = (kmajor ? k : row) + thread % 8 * 2;
        return {static_cast<const double *>(base) + line * ld + element,
                ld,
                kmajor ? 16 * ld : 16,
                kmajor ? STEP : STEP * ld,
                (kmajor ? rows : all_k) - line,
                (kmajor ? all_k : rows) - element,
                kmajor ? 16 : 0,
                kmajor ? 0 : 16,
                kmajor ? 0 : STEP,
                kmajor ? STEP : 0};
    }

    /* Starts copying this thread's part of a step; what does not exist becomes 0. */
    template <int BOXES> static __device__ void copy(operand &o, unsigned to, bool vec)
    {
        const double *at = o.at;
        int lines = o.lines, elements = o.elements;
#pragma unroll
        for (int i = 0; i < BOXES; i++) {
#pragma unroll
            for (int l = 0; l < 16; l += LINES) {
                const int there = l < lines ? elements : 0;
                const double *const from = there > 0 ? at + l * o.ld : o.at;
                if (vec)
                    gg_copy<16>(to + i * BOX + l * 128, from, max(0, min(there, 2)) * 8);
                else {
                    gg_copy<8>(to + i * BOX + l * 128, from, there > 0 ? 8 : 0);
                    gg_copy<8>(to + i * BOX + l * 128 + 8, there > 1 ? from + 1 : from, there > 1 ? 8 : 0);
                }
            }
            at += o.box, lines -= o.box_lines, elements -= o.box_elements;
        }
        o.at += o.step, o.lines -= o.step_lines, o.elements -= o.step_elements;
    }

    /* Where a lane's first piece of a box lies. Row g + 8h of a fragment is row 2g + h of the box, column c of fragment j column 2c + j % 2, and k q
     * + 4e is 8 (e / 2) + 2q + e % 2. */
    static __device__ unsigned first(bool kmajor, int lane)
    {
        const int g = lane / 4, q = lane % 4;
        return kmajor ? 2 * g * 128 + (q ^ swizzle(true, 2 * g)) * 16 : 2 * q * 128 + (g ^ swizzle(false, 2 * q)) * 16;
    }

    /* Reads r[h][e] of a box. */
    template <bool KMAJOR> static __device__ void read(double (&r)[2][4], unsigned from)
    {
#pragma unroll
        for (int i = 0; i < 2; i++)
#pragma unroll
            for (int j = 0; j < 2; j++)
                if constexpr (KMAJOR)
                    load2(r[i][2 * j], r[i][2 * j + 1], (from ^ j * 64) + i * 128);
                else
                    load2(r[0][2 * i + j], r[1][2 * i + j], from + i * 1024 + j * 128);
    }

    template <bool A_K, bool B_K> __device__ void multiply(unsigned from_a, unsigned from_b)
    {
        double a[2][4], fa[8], b[FN / 2][2][4];
        read<A_K>(a, from_a);
#pragma unroll
        for (int j = 0; j < FN / 2; j++)
            read<B_K>(b[j], from_b + j * BOX);
#pragma unroll
        for (int e = 0; e < 8; e++)
            fa[e] = a[e % 2][e / 2];
#pragma unroll
        for (int j = 0; j < FN; j++)
            mma<16>(sum[0][j], fa, b[j / 2][j % 2]);
    }

    __device__ void run(const gg_args &p)
    {
        if (p.verdict && gg_gated(p)) /* outside a chain nothing is awaited here */
            return;
        extern __shared__ __align__(128) char memory[];
        const int group = threadIdx.x / GROUP, thread = threadIdx.x % GROUP, warp = thread / 32, lane = thread % 32;
        const unsigned tiles_m = (unsigned(p.m) + TILE_M - 1) / TILE_M, tile_n = blockIdx.x / tiles_m, tile_m = blockIdx.x - tile_n * tiles_m;
        const int m = tile_m * TILE_M, n = tile_n * TILE_N, k = int(p.k), steps = ((k + 15) / 16 - group + WARPS_K - 1) / WARPS_K;
        operand a = start(p.a, p.lda, p.a_kmajor, m, group * 16, thread, int(p.m), k);
        operand b = start(p.b, p.ldb, p.b_kmajor, n, group * 16, thread, int(p.n), k);
        const unsigned own = gg_shared(memory) + group * (DEPTH * BYTES), line = own + thread / 8 * 128;
        const unsigned to_a = line + (thread % 8 ^ swizzle(p.a_kmajor, thread / 8)) * 16;
        const unsigned to_b = line + (thread % 8 ^ swizzle(p.b_kmajor, thread / 8)) * 16 + A_BYTES;
        const auto copy_step = [&](bool exists, unsigned slot) {
            if (exists) {
                copy<TILE_M / 16>(a, to_a + slot, p.a_vec);
                copy<TILE_N / 16>(b, to_b + slot, p.b_vec);
            }
            asm volatile("cp.async.commit_group;" ::: "memory");
        };
#pragma unroll 1
        for (int d = 0; d < DEPTH - 1; d++)
            copy_step(d < steps, d * BYTES);
        gg_fetch_c<double, TILE_M, TILE_N>(p, m, n, threadIdx.x, THREADS);
        clear(sum);
        const unsigned from_a = own + warp % WARPS_M * BOX + first(p.a_kmajor, lane);
        const unsigned from_b = own + A_BYTES + warp / WARPS_M * (WARP_N * 128) + first(p.b_kmajor, lane);
        unsigned slot = 0;
#pragma unroll 1
        for (int s = 0; s < steps; s++) {
            asm volatile("cp.async.wait_group %0;" ::"n"(DEPTH - 2) : "memory");
            asm volatile("bar.sync %0, %1;" ::"r"(group + 1), "n"(GROUP) : "memory"); /* all of the group have copied, and read the slot before */
            copy_step(s + DEPTH - 1 < steps, slot == 0 ? (DEPTH - 1) * BYTES : slot - BYTES);
            if (p.a_kmajor) {
                if (p.b_kmajor)
                    multiply<true, true>(from_a + slot, from_b + slot);
                else
                    multiply<true, false>(from_a + slot, from_b + slot);
            } else if (p.b_kmajor)
                multiply<false, true>(from_a + slot, from_b + slot);
            else
                multiply<false, false>(from_a + slot, from_b + slot);
            slot = slot == (DEPTH - 1) * BYTES ? 0 : slot + BYTES;
        }
        finish(p, m + warp % WARPS_M * 16 + lane / 4 * 2, n + warp / WARPS_M * WARP_N + lane % 4 * 4, group, thread, memory);
    }

    /* Adds up the groups and stores. Slot s of a thread: rows m and m + 1 of a column. Each group adds up its share of the slots, in the order of
     * k. */
    __device__ void finish(const gg_args &p, int m, int n, unsigned group, int thread, char *memory)
    {
        double2(*const parts)[SLOTS][GROUP] = reinterpret_cast<double2(*)[SLOTS][GROUP]>(memory);
        __syncthreads(); /* all steps have been read */
#pragma unroll
        for (int s = 0; s < SLOTS; s++)
            parts[group][s][thread] = make_double2(sum[0][s / 2][s % 2], sum[0][s / 2][s % 2 + 2]);
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
            const int column = s / 4 * 16 + s % 2 * 2 + s / 2 % 2;
            if (column >= left_n || left_m <= 0)
                continue;
            double *const to = c + column * p.ldc;
            v.x *= p.alpha, v.y *= p.alpha;
            if (p.c_vec && left_m > 1) {
                double2 *const both = reinterpret_cast<double2 *>(to);
                if (GG_UPDATE) {
                    const double2 old = *both;
                    v.x += p.beta * old.x, v.y += p.beta * old.y;
                }
                *both = v;
                continue;
            }
            to[0] = GG_UPDATE ? v.x + p.beta * to[0] : v.x;
            if (left_m > 1)
                to[1] = GG_UPDATE ? v.y + p.beta * to[1] : v.y;
        }
    }
};

using d16x32 = direct<1, 2, 4, 16, 4, gg_shared_dgemm_direct_16x32>;
using d32x32 = direct<2, 1, 4, 32, 3, gg_shared_dgemm_direct_32x32>;

extern "C" {
__global__ void __launch_bounds__(d16x32::THREADS, 2) dgemm_direct_16x32(const __grid_constant__ gg_args p)
{
    d16x32 self;
    self.run(p);
}
__global__ void __launch_bounds__(d32x32::THREADS, 2) dgemm_direct_32x32(const __grid_constant__ gg_args p)
{
    d32x32 self;
    self.run(p);
}
}

#endif

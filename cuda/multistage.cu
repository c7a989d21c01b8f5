/* multistage — strict FP32 (FFMA only) for sm_80 and newer, small blocks that copy for themselves: for short k, where the time until the first product
 * and to store C is as long as the products, and what one block waits for others of its SM must fill.
 *
 * One tile a block, a k step of 8, a ring of stages filled by cp.async, one barrier a step; nothing is shared among blocks. What counts is instructions,
 * and those between the launch and the first copy most: indices are of 32 bits, tiles go down the columns of C, which takes one division, and a thread's
 * way through an operand is a pointer and a distance, whatever the layout, so that there is one loop to come from memory. Many warps, of few sums a
 * thread: a scheduler with one warp issues every other clock.
 *
 *   multistage_s_128x64  128 threads of 8×8 sums, 25 KB shared memory, 4 blocks an SM
 *   multistage_s_64x64   128 threads of 4×8 sums, 13 KB, 6 blocks
 *   multistage_s_32x32    64 threads of 4×4 sums,  9 KB, 14 blocks: C of few tiles
 *
 * H200, NN, us, cuBLAS / before (k step 16, 8×8 sums a thread everywhere, addresses made anew each step) / now: 1883x325x111 12.0 / 15.5 / 12.2,
 * 4496x208x40 9.4 / 12.6 / 9.1, 2997x712x83 20.3 / 24.5 / 19.9, 4096x4096x16 38 / 30 / 29, 200x200x8 9.7 / 8.0 / 6.1. Where k is long 128x64 reaches
 * 65 % of the FP32 peak. A step of 64x64 is 256 FFMAs of 350 instructions, of 32x32 128 of 220.
 * Registers ≤ 128. Idea: CUTLASS's multi-stage SIMT main loop. Limits: m, n, k < 2^31. */
#include "ffma.cuh"
#include "pipeline.cuh"

template <int TILE_M, int TILE_N, int STAGES, int TM, int TN> struct multistage {
    static constexpr int TILE_K = 8, LANES_M = 8, LANES_N = 32 / LANES_M;
    static constexpr int WARPS_M = TILE_M / (TM * LANES_M), WARPS_N = TILE_N / (TN * LANES_N), THREADS = 32 * WARPS_M * WARPS_N;

    /* One operand's way into the ring. A warp copies 8 k of 4 rows where k is contiguous, else rows of a k, if it can, by 16 bytes: not in small tiles,
     * where it saves less than finding out costs. */
    template <int TILE> struct stream {
        static constexpr int PITCH = TILE + 4, BYTES = TILE_K * PITCH * 4;
        static constexpr int PIECES = TILE * TILE_K / THREADS, VECTORS = TILE_M * TILE_N < 64 * 64 ? 0 : PIECES / 4; /* a thread's, of a step */
        static constexpr int ROWS = THREADS / TILE_K, KS = THREADS / TILE; /* from one to the next: rows where k is contiguous, else k */
        static_assert(TILE % ROWS == 0 && TILE_K % (VECTORS ? 4 * KS : KS) == 0, "whole pieces");
        const char *from; /* the next step's first */
        int64_t apart;    /* bytes from one to the next */
        unsigned to;      /* in the stage */
        int count, last;  /* that exist, of a step and of the last one */
        const bool kmajor, vec;

        /* first: the tile's first row. What is opaque below stays in registers; ptxas would rather make it anew each step. */
        __device__ stream(const void *base, int64_t ld, bool is_kmajor, bool aligned, int first, int rows, int k)
            : kmajor(is_kmajor), vec(VECTORS > 0 && aligned && !is_kmajor && first % 4 == 0 && rows >= TILE)
        {
            const int t = vec ? threadIdx.x * 4 : threadIdx.x, x = kmajor ? unsigned(t) / TILE_K : unsigned(t) % TILE;
            const int at = kmajor ? unsigned(t) % TILE_K : unsigned(t) / TILE, ks = vec ? 4 * KS : KS;
            const int left = min(rows - first, TILE) - x, left_k = int(unsigned(k - 1) % TILE_K) + 1 - at;
            from = static_cast<const char *>(base) + ((first + x) * (kmajor ? ld : 1) + at * (kmajor ? 1 : ld)) * 4;
            apart = (kmajor ? ROWS : ks) * ld * 4;
            to = (at * PITCH + x) * 4;
            count = left <= 0 ? 0 : kmajor ? unsigned(left + ROWS - 1) / ROWS : PIECES;
            last = left_k <= 0 ? 0 : kmajor ? count : left > 0 ? unsigned(left_k + ks - 1) / ks : 0;
            asm("" : "+l"(apart), "+r"(to));
        }

        /* N of SIZE bytes, TO elements apart in the stage; those that do not exist become 0. Returns where the next would be. */
        template <int SIZE, int N, int TO> __device__ const char *pieces(unsigned stage) const
        {
            const char *at = from;
#pragma unroll
            for (int i = 0; i < N; i++, at += apart) {
                const unsigned here = stage + to + i * TO * 4;
                if constexpr (SIZE == 16)
                    asm volatile("{ .reg .pred none; setp.le.s32 none, %2, %3; cp.async.cg.shared.global [%0], [%1], 16, none; }" ::"r"(here), "l"(at),
                                 "r"(count), "r"(i)
                                 : "memory");
                else
                    asm volatile("{ .reg .pred none; setp.le.s32 none, %2, %3; cp.async.ca.shared.global [%0], [%1], 4, none; }" ::"r"(here), "l"(at),
                                 "r"(count), "r"(i)
                                 : "memory");
            }
            return at;
        }

        __device__ void copy_step(unsigned stage)
        {
            if (kmajor) {
                pieces<4, PIECES, ROWS>(stage);
                from += TILE_K * 4;
            } else if (VECTORS > 0 && vec) {
                from = pieces<16, VECTORS, 4 * KS * PITCH>(stage);
            } else {
                from = pieces<4, PIECES, KS * PITCH>(stage);
            }
        }
    };

    using stream_a = stream<TILE_M>;
    using stream_b = stream<TILE_N>;
    static constexpr int BYTES = stream_a::BYTES + stream_b::BYTES, SHARED = STAGES * BYTES;
    using ffma_type = gg_ffma<TM, TN, LANES_M, stream_a::PITCH, stream_b::PITCH>;
    static_assert(SHARED >= THREADS / 32 * gg_rows::BYTES, "C's way out");

    static __device__ void run(const gg_args &p)
    {
        if (gg_gated(p))
            return;
        extern __shared__ __align__(128) char shared_memory[];
        const int rows_c = int(p.m), columns_c = int(p.n), k = int(p.k);
        const unsigned tiles_m = unsigned(rows_c + TILE_M - 1) / TILE_M, column = blockIdx.x / tiles_m;
        const int own_m = int(blockIdx.x - column * tiles_m) * TILE_M, own_n = int(column) * TILE_N;
        const int m0 = max(0, min(own_m, rows_c - TILE_M)), n0 = max(0, min(own_n, columns_c - TILE_N)); /* as gg_tile with move_back */
        const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
        const int m = warp % WARPS_M * (TM * LANES_M) + gg_lane<LANES_M>(lane) * 4, n = warp / WARPS_M * (TN * LANES_N) + gg_lane<LANES_N>(lane) * 4;
        stream_a a(p.a, p.lda, p.a_kmajor, p.a_vec, m0, rows_c, k);
        stream_b b(p.b, p.ldb, p.b_kmajor, p.b_vec, n0, columns_c, k);
        unsigned shared = gg_shared(shared_memory), at_a = m * 4, at_b = stream_a::BYTES + n * 4;
        int steps = unsigned(k + TILE_K - 1) / TILE_K;
        asm("" : "+r"(shared), "+r"(steps), "+r"(at_a), "+r"(at_b));
        unsigned now = shared, next = shared;
        ffma_type ffma;
        ffma.clear();

        /* The first turns only copy: one place in the code for that, as code comes from memory the first time. */
#pragma unroll 1
        for (int step = 1 - STAGES; step < steps; step++) {
            if (step >= 0) {
                asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
                __syncthreads(); /* this stage is there, and the one before has been read */
                ffma.fetch(0, now + at_a, now + at_b, 0);
            }
            const int ahead = step + STAGES - 1;
            if (ahead < steps) {
                if (ahead == steps - 1)
                    a.count = a.last, b.count = b.last;
                a.copy_step(next);
                b.copy_step(next + stream_a::BYTES);
                next = next + BYTES == shared + SHARED ? shared : next + BYTES;
            }
            asm volatile("cp.async.commit_group;" ::: "memory");
            if (step < 0)
                continue;
            ffma.template turn<TILE_K, true>(now + at_a, now + at_b);
            now = now + BYTES == shared + SHARED ? shared : now + BYTES;
        }
        gg_tile tile;
        tile.own_m = own_m, tile.own_n = own_n, tile.m0 = m0, tile.n0 = n0, tile.slot = -1;
        const gg_out<float, TILE_M, TILE_N> out(p, tile);
        if (out.plain()) {
            ffma.store(out, tile.m0 + m, tile.n0 + n);
            return;
        }
        __syncthreads(); /* the ring is free */
        const gg_rows rows(out, shared + warp * gg_rows::BYTES, tile.m0 + warp % WARPS_M * (TM * LANES_M), tile.n0 + warp / WARPS_M * (TN * LANES_N));
        ffma.for_each(gg_one(p), [&](int i, int j, const float(&v)[4]) { rows.put(i, j, v); });
    }
};

#if __CUDA_ARCH__ >= 800
using m128x64 = multistage<128, 64, 4, 8, 8>;
using m64x64 = multistage<64, 64, 3, 4, 8>;
using m32x32 = multistage<32, 32, 4, 4, 4>;
static_assert(m128x64::SHARED == gg_shared_multistage_s_128x64 && m64x64::SHARED == gg_shared_multistage_s_64x64 &&
                  m32x32::SHARED == gg_shared_multistage_s_32x32,
              "kernels.def");
extern "C" {
__global__ void __launch_bounds__(128, 4) multistage_s_128x64(const __grid_constant__ gg_args p) { m128x64::run(p); }
__global__ void __launch_bounds__(128, 6) multistage_s_64x64(const __grid_constant__ gg_args p) { m64x64::run(p); }
__global__ void __launch_bounds__(64, 14) multistage_s_32x32(const __grid_constant__ gg_args p) { m32x32::run(p); }
}
#endif

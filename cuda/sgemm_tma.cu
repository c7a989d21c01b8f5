/* sgemm_tma — strict FP32 (FFMA only) for sm_90, for large C: tile 128×256, k step 16, 256 threads of 8×16 sums, 1 block an SM, persistent.
 *
 * All 8 warps compute. The warp that is last to leave a stage starts the two TMA copies that fill it again, 8 stages ahead: nobody ever
 * waits for a stage to become free, and no warp has the copies for its duty (a scheduler runs one of its warps for thousands of clocks
 * before the other; when the starved one was the copying one, all waited: 44 instead of 51 TF/s). A separate producer warp is no answer
 * either: registers are given out for 12 warps then, and 168 are too few (ffma.cuh).
 * TMA cannot transpose and wants 16-byte rows: launch.c has gg_pack lay out other operands first, 1 to 3 % of the time from n = 2048.
 *
 * Registers ≤ 255, shared memory 8 stages of 24 KB, the main loop is 2190 instructions. Limits: 128 <= k, and m, n, k < 2^31.
 * Issue slots allow 94 % of the FP32 peak, register banks as ptxas allots them 87 %; it reaches 76–79 % (50.3–52.6 TF/s at n = 4096–8192
 * on an H200), the rest is instruction cache misses at the loop's end, waiting for stages and the last tiles. */
#include "ffma.cuh"
#include "pipeline.cuh"

template <int TILE_M, int TILE_N, int TILE_K, int STAGES, int WARPS_M, int WARPS_N, int LANES_M> struct sgemm_tma {
    static constexpr int THREADS = 32 * WARPS_M * WARPS_N, LANES_N = 32 / LANES_M;
    static constexpr int TM = TILE_M / (WARPS_M * LANES_M), TN = TILE_N / (WARPS_N * LANES_N);
    static constexpr int A_BYTES = TILE_M * TILE_K * 4, BYTES = (TILE_M + TILE_N) * TILE_K * 4;
    static constexpr int SHARED = STAGES * (BYTES + 20);
    static_assert(STAGES <= GG_SHORTEST_PART, "copies run into the next tile, not further");
    static_assert(TM % 4 == 0 && TN % 4 == 0 && TILE_K % 2 == 0 && A_BYTES % 128 == 0, "pieces of 16 bytes, TMA of 128");

    /* Starts the copies of step `step` of a tile into the ring's current stage. */
    static __device__ void fill(const gg_args &p, const gg_ring<STAGES> &ring, int stage, unsigned shared, const gg_tile &tile, int step)
    {
        const unsigned to = shared + stage * BYTES;
        const int k = int(tile.k0) + step * TILE_K;
        ring.expect_full(stage, BYTES);
        ring.copy_box(stage, to, &p.map_a, int(tile.m0), k);
        ring.copy_box(stage, to + A_BYTES, &p.map_b, int(tile.n0), k);
    }

    static __device__ void run(const gg_args &p)
    {
        if (gg_gated(p))
            return;
        extern __shared__ __align__(128) char shared_memory[];
        gg_ring<STAGES> ring(reinterpret_cast<uint64_t *>(shared_memory + STAGES * BYTES));
        unsigned *const counts = reinterpret_cast<unsigned *>(shared_memory + STAGES * BYTES + 16 * STAGES);
        const unsigned readers = gg_shared(counts);
        gg_work<TILE_M, TILE_N, TILE_K> work(p);
        const unsigned shared = gg_shared(shared_memory);
        if (!work.more())
            return;
        gg_tile next = work.next(p);
        if (threadIdx.x == 0) {
            ring.init(1, THREADS / 32);
            for (int s = 0; s < STAGES; s++) {
                counts[s] = 0;
                fill(p, ring, s, shared, next, s);
            }
        }
        __syncthreads();

        const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        const int m = warp % WARPS_M * (TM * LANES_M) + gg_lane<LANES_M>(lane) * 4;
        const int n = warp / WARPS_M * (TN * LANES_N) + gg_lane<LANES_N>(lane) * 4;
        const unsigned a0 = shared + m * 4, b0 = shared + A_BYTES + n * 4;
        gg_ffma<TM, TN, LANES_M, TILE_M, TILE_N, false> ffma;

        unsigned a = a0, b = b0;
        ring.wait_full();
        ffma.fetch(0, a, b, 0);
        for (bool more = true; more;) {
            const gg_tile tile = next;
            const int steps = tile.steps;
            more = work.more();
            if (more)
                next = work.next(p);
            ffma.clear();

            /* One stage a turn, as in sgemm.cu: all waiting is at the top, the rest is one straight run of FFMA. */
            for (int step = 0; step < steps; step++) {
                const int done = ring.stage;
                ring.next();
                if (step + 1 < steps || more)
                    ring.wait_full();
                unsigned others = 0;
                const unsigned next_a = a0 + ring.stage * BYTES, next_b = b0 + ring.stage * BYTES;
#pragma unroll
                for (int k = 0; k < TILE_K; k++) {
                    if (k + 1 < TILE_K)
                        ffma.fetch((k + 1) & 1, a, b, k + 1);
                    else
                        ffma.fetch(0, next_a, next_b, 0);
                    if (k + 1 == TILE_K)
                        others = count_reader(readers + 4 * done, lane);
                    ffma.multiply(k & 1);
                }
                a = next_a, b = next_b;
                if (__builtin_expect(others == THREADS / 32 - 1, 0)) {
                    const int ahead = step + STAGES;
                    if (ahead < steps)
                        fill(p, ring, done, shared, tile, ahead);
                    else if (more)
                        fill(p, ring, done, shared, next, ahead - steps);
                }
                __syncwarp(); /* or lane 0 goes through the next turn alone */
            }

            int mm = m, nn = n;
            asm("" : "+r"(mm), "+r"(nn)); /* opaque: keeps what depends on them out of registers of the main loop */
            const gg_out<float, TILE_M, TILE_N> out(p, tile);
            ffma.for_each([&](int i, int j, const float(&v)[4]) { out.put_vector(tile.m0 + mm + i, tile.n0 + nn + j, v); });
        }
    }

    /* Counts this warp out of a stage; in lane 0, how many were out before. Its own reads of the stage were issued before this and shared
     * memory serves a warp in order, so no fence. */
    static __device__ unsigned count_reader(unsigned readers, int lane)
    {
        unsigned before;
        asm volatile("{ .reg .pred p; setp.eq.s32 p, %2, 0; mov.u32 %0, 0; @p atom.relaxed.cta.shared.inc.u32 %0, [%1], %3; }"
                     : "=r"(before)
                     : "r"(readers), "r"(lane), "n"(THREADS / 32 - 1)
                     : "memory");
        return before;
    }
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
using tma128x256 = sgemm_tma<128, 256, 16, 8, 4, 2, 4>;
static_assert(tma128x256::SHARED <= gg_shared_sgemm_tma_128x256, "kernels.def");
extern "C" {
__global__ void __launch_bounds__(256, 1) sgemm_tma_128x256(const __grid_constant__ gg_args p) { tma128x256::run(p); }
}
#endif

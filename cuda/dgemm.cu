/* dgemm — FP64 on tensor cores (DMMA) for sm_80 and newer, warp-specialised and persistent; see pipeline.cuh for how operands arrive.
 *
 * A block is 128 producer threads and 8 consumer warps, in SLICES groups that share out every stage's k and are added in order at the end. A warp
 * owns (TILE_M / WARPS_M) × (TILE_N / WARPS_N) results as 16×8 fragments. DMMA is chained FMA with round-to-nearest, so the error is that of a plain
 * FMA loop. sm_90 multiplies 16×8×MMA_K at twice sm_80's rate per clock; sm_80 has 8×8×4, of which two make 16×8×4. Fragments take their rows in an
 * order that keeps shared memory free of conflicts for every operand layout: see gg_dmma.
 *
 *   dgemm_128x128   warps 64×32, sm_90 only (the producers give it registers), 165 KB    54 TF/s on an H200 (n = 4096, cuBLAS 55)
 *   dgemm_128x64    warps 32×32, 150 KB                                                  48 at n = 1024 (cuBLAS 51)
 *   dgemm_64x64     warps 32×32, 2 slices, 149 KB
 *   dgemm_32x64     warps 32×32, 4 slices, 168 KB
 *
 * At large n the limit is power: the H200 runs both this and cuBLAS between 45 and 57 TF/s from minute to minute, of 66.9. */
#include "dmma.cuh"
#include "pipeline.cuh"

template <int TILE_M, int TILE_N, int TILE_K, int STAGES_, int WARPS_M, int WARPS_N, int MMA_K> struct dgemm {
    static constexpr int SLICES = GG_CONSUMERS / 32 / (WARPS_M * WARPS_N), KS = TILE_K / SLICES, STEPS = KS / MMA_K;
    static constexpr int WARP_M = TILE_M / WARPS_M, WARP_N = TILE_N / WARPS_N, FM = WARP_M / 16, FN = WARP_N / 8;
    static_assert(WARP_M % 16 == 0 && WARP_N % 16 == 0 && KS % MMA_K == 0 && STEPS % 2 == 0, "whole fragments");
    using stages = gg_stages<double, TILE_M, TILE_N, TILE_K, STAGES_>;
    static constexpr int SLICE_BYTES = SLICES > 1 ? SLICES *TILE_M *TILE_N * 8 : 0;
    static constexpr int SHARED = stages::RING_BYTES + SLICE_BYTES + 2 * STAGES_ * 8;
    static constexpr bool LARGE = FM * FN >= 16; /* 128 registers of sums: needs registers from the producers */
    static constexpr int PRODUCER_REGISTERS = LARGE ? 72 : 0, CONSUMER_REGISTERS = LARGE ? 216 : 0;

    using product = gg_dmma<FM, FN, MMA_K, stages::panel_a::PITCH, stages::panel_b::PITCH>;
    product dmma;

    __device__ void consume(const gg_args &p, typename stages::ring ring, char *shared)
    {
        const int t = threadIdx.x, warp = t / 32, lane = t % 32;
        const int slice = warp / (WARPS_M * WARPS_N);
        const int m = warp % WARPS_M * WARP_M + product::place(lane / 4), n = warp / WARPS_M % WARPS_N * WARP_N;
        const int k = slice * KS + lane % 4;
        const unsigned a0 = gg_shared(shared) + 8 * (k * stages::panel_a::PITCH + m);
        const unsigned b0 = gg_shared(shared) + stages::panel_a::BYTES + 8 * (k * stages::panel_b::PITCH + n + product::place(lane / 4));

        typename stages::work work(p);
        if (!work.more())
            return;
        unsigned a = a0 + ring.stage * stages::BYTES, b = b0 + ring.stage * stages::BYTES;
        ring.wait_full();
        dmma.fetch(0, a, b, 0);
        while (work.more()) {
            const gg_tile tile = work.next(p);
            const bool more = work.more();
            clear(dmma.sum);

            /* One stage per iteration. The stage after it, possibly of the next tile, is waited for first; after the very last one the ring holds old
             * data, and what is fetched is not used. */
            int done = 0;
#pragma unroll 1
            for (int steps = tile.steps; steps > 0; steps--) {
                if (steps < tile.steps)
                    ring.arrive_empty(done); /* not in the iteration that read it: see pipeline.cuh */
                done = ring.stage;
                ring.next();
                if (steps > 1 || more)
                    ring.wait_full();
                const unsigned next_a = a0 + ring.stage * stages::BYTES, next_b = b0 + ring.stage * stages::BYTES;
#pragma unroll
                for (int s = 0; s < STEPS; s++) {
                    if (s + 1 < STEPS)
                        dmma.fetch((s + 1) % 2, a, b, s + 1);
                    else
                        dmma.fetch(0, next_a, next_b, 0);
                    dmma.multiply(s % 2);
                }
                a = next_a, b = next_b;
            }
            ring.arrive_empty(done);
            store(p, tile, m, n + product::place(lane % 4 * 2), slice, shared + stages::RING_BYTES);
        }
    }

    __device__ void store(const gg_args &p, const gg_tile &tile, int m, int n, int slice, char *shared)
    {
        asm("" : "+r"(m), "+r"(n)); /* opaque: keeps what depends on them here, out of registers of the main loop */
        const gg_out<double, TILE_M, TILE_N> out(p, tile);
        double *partial = reinterpret_cast<double *>(shared);
        const auto row = [&](int x) { return m + product::row(x / 4 / FN, x % 4); };
        const auto column = [&](int x) { return n + product::column(x / 4 % FN, x % 4); };
        const auto sum = [&](int x) { return dmma.sum[x / 4 / FN][x / 4 % FN][x % 4]; };
        if constexpr (SLICES == 1) {
            gg_put_all<FM * FN * 4, 8>(
                out.reads(), [&](int x) { return out.old(tile.m0 + row(x), tile.n0 + column(x)); },
                [&](int x, double was) { out.put(tile.m0 + row(x), tile.n0 + column(x), sum(x), was); });
        } else {
#pragma unroll
            for (int x = 0; x < FM * FN * 4; x++)
                partial[(slice * TILE_N + column(x)) * TILE_M + row(x)] = sum(x);
            gg_consumer_barrier();
            constexpr int AT_ONCE = 4;
#pragma unroll 1
            for (int from = threadIdx.x; from < TILE_M * TILE_N; from += AT_ONCE * GG_CONSUMERS) {
                const auto at = [&](int x) { return from + x * GG_CONSUMERS; };
                gg_put_all<AT_ONCE, AT_ONCE>(
                    out.reads(), [&](int x) { return out.old(tile.m0 + at(x) % TILE_M, tile.n0 + at(x) / TILE_M); },
                    [&](int x, double was) {
                        double v = 0;
#pragma unroll
                        for (int s = 0; s < SLICES; s++)
                            v += partial[s * (TILE_M * TILE_N) + at(x)];
                        out.put(tile.m0 + at(x) % TILE_M, tile.n0 + at(x) / TILE_M, v, was);
                    });
            }
            gg_consumer_barrier();
        }
    }
};

using d128x128 = dgemm<128, 128, 16, 5, 2, 4, 4>;
using d128x64 = dgemm<128, 64, 16, 6, 4, 2, 4>;
using d64x64 = dgemm<64, 64, 16, 5, 2, 2, 4>;
using d32x64 = dgemm<32, 64, 32, 4, 1, 2, 4>;
static_assert(d128x128::SHARED == gg_shared_dgemm_128x128 && d128x64::SHARED == gg_shared_dgemm_128x64, "kernels.def");
static_assert(d64x64::SHARED == gg_shared_dgemm_64x64 && d32x64::SHARED == gg_shared_dgemm_32x64, "kernels.def");

extern "C" {
#if __CUDA_ARCH__ >= 900
__global__ void __launch_bounds__(384, 1) dgemm_128x128(const __grid_constant__ gg_args p) { gg_run<d128x128>(p); }
#endif
__global__ void __launch_bounds__(384, 1) dgemm_128x64(const __grid_constant__ gg_args p) { gg_run<d128x64>(p); }
__global__ void __launch_bounds__(384, 1) dgemm_64x64(const __grid_constant__ gg_args p) { gg_run<d64x64>(p); }
__global__ void __launch_bounds__(384, 1) dgemm_32x64(const __grid_constant__ gg_args p) { gg_run<d32x64>(p); }
}

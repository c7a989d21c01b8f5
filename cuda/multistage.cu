/* multistage — strict FP32 (FFMA only) for sm_80 and newer, small blocks that copy for themselves: for short k, where the time until the first product
 * and to store C is as long as the products, and what one block waits for others of its SM must fill.
 *
 * A block of 64 threads for every 64×64 of its tile; k step 16, a ring of stages filled by cp.async, the first ones all at once; 8×8 sums a thread
 * as everywhere (ffma.cuh). One tile a block, one barrier a step, nothing is shared among blocks. Any layout, ld, alignment and size: copies are those
 * of pipeline.cuh's producers, by all threads.
 *
 *   multistage_s_128x64   128 threads, 50 KB shared memory, 4 blocks an SM
 *   multistage_s_64x64     64 threads, 26 KB, 8 blocks an SM: C of fewer tiles
 *
 * H200, us, cuBLAS / the best other row / these: 4576x440x80 15.3 / 22.8 / 16.7, 2997x712x83 20.7 / 29.6 / 23.9, 4096x4096x16 38 / 41.8 / 30. Where k is
 * long they reach 60 to 65 % of the FP32 peak (2048, NT: 43.6 TF/s), of which 8×8 sums a thread allow 94 %.
 * Registers ≤ 128. Idea: CUTLASS's multi-stage SIMT main loop. Limits: n < 2^34. */
#include "ffma.cuh"
#include "pipeline.cuh"

template <int TILE_M, int TILE_N, int STAGES> struct multistage {
    static constexpr int TILE_K = 16, CHUNK = 8 /* k of a turn of the innermost loop */, TM = 8, TN = 8, LANES_M = 8, LANES_N = 32 / LANES_M;
    static constexpr int WARPS_M = TILE_M / (TM * LANES_M), WARPS_N = TILE_N / (TN * LANES_N), THREADS = 32 * WARPS_M * WARPS_N;
    using panel_a = gg_panel<float, TILE_M, TILE_K, THREADS>;
    using panel_b = gg_panel<float, TILE_N, TILE_K, THREADS>;
    static constexpr int BYTES = panel_a::BYTES + panel_b::BYTES, SHARED = STAGES * BYTES;
    using ffma_type = gg_ffma<TM, TN, LANES_M, panel_a::PITCH, panel_b::PITCH>;

    /* Which tile is the block's, as in gg_place, but in 32 bits. */
    struct place {
        unsigned row, column;

        __device__ place(const gg_args &p)
        {
            constexpr unsigned GROUP = 8;
            const unsigned tiles_m = unsigned(gg_ceil_div(p.m, TILE_M)), tiles_n = unsigned(gg_ceil_div(p.n, TILE_N));
            const unsigned band = blockIdx.x / (GROUP * tiles_n), in_band = blockIdx.x - band * (GROUP * tiles_n);
            const unsigned rows = min(GROUP, tiles_m - band * GROUP);
            column = in_band / rows;
            row = band * GROUP + in_band - column * rows;
        }

        __device__ gg_tile tile(const gg_args &p) const
        {
            gg_tile t;
            t.own_m = int64_t(row) * TILE_M, t.own_n = int64_t(column) * TILE_N;
            t.m0 = max(int64_t(0), min(t.own_m, p.m - TILE_M)), t.n0 = max(int64_t(0), min(t.own_n, p.n - TILE_N));
            t.slot = -1;
            return t;
        }
    };

    static __device__ void run(const gg_args &p)
    {
        if (gg_gated(p))
            return;
        extern __shared__ __align__(128) char shared_memory[];
        const unsigned shared = gg_shared(shared_memory);
        place at(p);
        const gg_tile first = at.tile(p);
        const float *from_a = static_cast<const float *>(p.a) + first.m0 * (p.a_kmajor ? p.lda : 1);
        const float *from_b = static_cast<const float *>(p.b) + first.n0 * (p.b_kmajor ? p.ldb : 1);
        const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
        const int m = warp % WARPS_M * (TM * LANES_M) + gg_lane<LANES_M>(lane) * 4, n = warp / WARPS_M * (TN * LANES_N) + gg_lane<LANES_N>(lane) * 4;
        const unsigned a0 = m * 4, b0 = panel_a::BYTES + n * 4;
        const int steps = int(gg_ceil_div(p.k, TILE_K));
        unsigned now = shared, next = shared;
        ffma_type ffma;
        ffma.clear();

        /* The first turns only copy: one place in the code for that, as code comes from memory the first time. */
#pragma unroll 1
        for (int step = 1 - STAGES; step < steps; step++) {
            if (step >= 0) {
                asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
                __syncthreads(); /* this stage is there, and the one before has been read */
            }
            const int ahead = step + STAGES - 1;
            if (ahead < steps) {
                asm("" : "+r"(at.row), "+r"(at.column)); /* opaque: what follows from them is found anew each time, sums want the registers */
                const gg_tile t = at.tile(p);
                const int left_m = int(min(p.m - t.m0, int64_t(TILE_M))), left_n = int(min(p.n - t.n0, int64_t(TILE_N)));
                const int left_k = int(min(p.k - int64_t(ahead) * TILE_K, int64_t(TILE_K)));
                panel_a::copy(next, from_a, p.lda, p.a_kmajor, p.a_vec && t.m0 % 4 == 0, left_m, left_k);
                panel_b::copy(next + panel_a::BYTES, from_b, p.ldb, p.b_kmajor, p.b_vec && t.n0 % 4 == 0, left_n, left_k);
                from_a += TILE_K * (p.a_kmajor ? 1 : p.lda), from_b += TILE_K * (p.b_kmajor ? 1 : p.ldb);
                next = next + BYTES == shared + SHARED ? shared : next + BYTES;
            }
            asm volatile("cp.async.commit_group;" ::: "memory");
            if (step < 0)
                continue;
#pragma unroll 1
            for (int k = 0; k < TILE_K; k += CHUNK)
                ffma.template turn<CHUNK>(now + a0 + k * (panel_a::PITCH * 4), now + b0 + k * (panel_b::PITCH * 4));
            now = now + BYTES == shared + SHARED ? shared : now + BYTES;
        }
        const gg_tile tile = at.tile(p);
        const gg_out<float, TILE_M, TILE_N> out(p, tile);
        if (out.plain()) {
            ffma.store(out.c + tile.m0 + m + (tile.n0 + n) * out.ld, out.ld, out.alpha);
            return;
        }
        __syncthreads(); /* the ring is free */
        const gg_rows rows(out, shared + warp * gg_rows::BYTES, tile.m0 + warp % WARPS_M * (TM * LANES_M), tile.n0 + warp / WARPS_M * (TN * LANES_N));
        ffma.for_each(gg_one(p), [&](int i, int j, const float(&v)[4]) { rows.put(i, j, v); });
    }
};

#if __CUDA_ARCH__ >= 800
using m128x64 = multistage<128, 64, 4>;
using m64x64 = multistage<64, 64, 3>;
static_assert(m128x64::SHARED == gg_shared_multistage_s_128x64 && m64x64::SHARED == gg_shared_multistage_s_64x64, "kernels.def");
extern "C" {
__global__ void __launch_bounds__(128, 4) multistage_s_128x64(const __grid_constant__ gg_args p) { m128x64::run(p); }
__global__ void __launch_bounds__(64, 8) multistage_s_64x64(const __grid_constant__ gg_args p) { m64x64::run(p); }
}
#endif

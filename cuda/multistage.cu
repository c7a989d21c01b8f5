/* multistage — strict FP32 (FFMA only) in the small blocks of multistage.cuh, for sm_80 and newer. A k step of 8. Many warps with few sums per
 * thread, because a scheduler with one warp issues only every other clock.
 *
 *   multistage_s_128x64  128 threads of 8×8 sums, 25 KB shared memory, 4 blocks an SM
 *   multistage_s_64x64   128 threads of 4×8 sums, 13 KB, 6 blocks
 *   multistage_s_32x32    64 threads of 4×4 sums,  9 KB, 14 blocks: C of few tiles
 *
 * H200, us, cuBLAS / before these kernels could cut k / now, in so many pieces: 1706x395x1190 54.9 / 69.3 / 58.5 (5), 4323x170x1633 74.1 / 92.5 /
 * 78.4 (5), 33x1154x2062 19.2 / 25.8 / 22.9 (12), 5792x192x480 44.9 / 47.0 / 41.1 (2), 518x50x475 12.3 / 13.1 / 11.5 (6).
 * H200, NN, us, cuBLAS / an earlier version (k step 16, 8×8 sums a thread everywhere, addresses recomputed each step) / this one: 1883x325x111 12.0 /
 * 15.5 / 12.2, 4496x208x40 9.4 / 12.6 / 9.1, 2997x712x83 20.3 / 24.5 / 19.9, 4096x4096x16 38 / 30 / 29, 200x200x8 9.7 / 8.0 / 6.1. Where k is long
 * 128x64 reaches 65 % of the FP32 peak. A step of 64x64 is 256 FFMAs of 350 instructions, of 32x32 128 of 220.
 * Registers ≤ 128. Idea: CUTLASS's multi-stage SIMT main loop. Limits: m, n, k < 2^31. */
#include "ffma.cuh"
#include "multistage.cuh"

template <int TILE_M_, int TILE_N_, int STAGES_, int TM, int TN> struct ffma_tile : gg_ffma<TM, TN, 8, TILE_M_ + 4, TILE_N_ + 4, 0> {
    using element = float;
    using ffma = gg_ffma<TM, TN, 8, TILE_M_ + 4, TILE_N_ + 4, 0>;
    static constexpr int TILE_M = TILE_M_, TILE_N = TILE_N_, TILE_K = 8, STAGES = STAGES_, PITCH_A = TILE_M + 4, PITCH_B = TILE_N + 4;
    static constexpr int LANES_M = 8, LANES_N = 32 / LANES_M, WARPS_M = TILE_M / (TM * LANES_M), WARPS_N = TILE_N / (TN * LANES_N);
    static constexpr int THREADS = 32 * WARPS_M * WARPS_N;
    static_assert(STAGES * TILE_K * (PITCH_A + PITCH_B) * 4 >= THREADS / 32 * gg_rows::BYTES, "C's way out");

    static __device__ int warp_m() { return threadIdx.x / 32 % WARPS_M * (TM * LANES_M); }
    static __device__ int warp_n() { return threadIdx.x / 32 / WARPS_M * (TN * LANES_N); }

    static __device__ void place(int &m, int &n)
    {
        const int lane = threadIdx.x % 32;
        m = warp_m() + ffma::lanes::m(lane) * 4, n = warp_n() + ffma::lanes::n(lane) * 4;
    }

    /* Where this thread's fragments begin in the stage's panels. */
    static __device__ unsigned from_a(int m) { return m * 4; }
    static __device__ unsigned from_b(int n) { return n * 4; }

    /* A step: begin() issues what should be in flight before the copies of another step, end() does the rest. */
    __device__ void begin(unsigned a, unsigned b) { ffma::fetch(0, a, b, 0); }
    __device__ void end(unsigned a, unsigned b) { ffma::template turn<TILE_K, true>(a, b); }

    /* A part is written and added four sums at a time, THREADS vectors apart. */
    using vector = float4;

    __device__ void write(const gg_args &p, float4 *to) const
    {
        ffma::for_each(gg_one(p), [&](int, int, const float(&v)[4]) {
            __stcg(to, make_float4(v[0], v[1], v[2], v[3]));
            to += THREADS;
        });
    }

    template <int N> __device__ void add(const float4 (&v)[N])
    {
        int x = 0;
        ffma::add_each([&] { return v[x++]; });
    }

    template <typename OUT> __device__ void store(const gg_args &p, const OUT &out, const gg_tile &tile, int m, int n, unsigned shared) const
    {
        if (out.plain()) {
            ffma::store(out, tile.m0 + m, tile.n0 + n);
            return;
        }
        __syncthreads(); /* the ring's memory is free */
        const gg_rows rows(typename ffma::lanes(), out, shared + threadIdx.x / 32 * gg_rows::BYTES, tile.m0 + warp_m(), tile.n0 + warp_n());
        ffma::for_each(gg_one(p), [&](int i, int j, const float(&v)[4]) { rows.put(i, j, v); });
    }
};

#if __CUDA_ARCH__ >= 800
using m128x64 = multistage<ffma_tile<128, 64, 4, 8, 8>>;
using m64x64 = multistage<ffma_tile<64, 64, 3, 4, 8>>;
using m32x32 = multistage<ffma_tile<32, 32, 4, 4, 4>>;
static_assert(m128x64::SHARED == gg_shared_multistage_s_128x64 && m64x64::SHARED == gg_shared_multistage_s_64x64 &&
                  m32x32::SHARED == gg_shared_multistage_s_32x32,
              "kernels.def");
extern "C" {
__global__ void __launch_bounds__(128, 4) multistage_s_128x64(const __grid_constant__ gg_args p) { m128x64::run(p); }
__global__ void __launch_bounds__(128, 6) multistage_s_64x64(const __grid_constant__ gg_args p) { m64x64::run(p); }
__global__ void __launch_bounds__(64, 14) multistage_s_32x32(const __grid_constant__ gg_args p) { m32x32::run(p); }
}
#endif

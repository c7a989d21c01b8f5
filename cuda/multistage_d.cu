/* multistage_d — FP64 on tensor cores (DMMA) in the small blocks of multistage.cuh, for sm_80 and newer. A k step of 8.
 *
 *   multistage_d_64x64  4 warps of 32×32, 34 KB shared memory, 4 blocks an SM
 *   multistage_d_32x32  4 warps of 16×16, 17 KB, 8 blocks: C of few tiles
 *
 * With all its blocks an SM reaches 0.77 of the FP64 peak in 64x64's main loop; in 32x32's 0.45, as a warp of 16×16 reads a byte of shared memory for
 * each product, twice what 32×32 does. (Two warps of 32×16 read a quarter less, and were slower except where an SM had 12 blocks.)
 * H200, us, cuBLAS / before these kernels existed / now, in so many pieces of k: 145x419x1143 16.6 / 21.9 / 17.0 (7), 2997x712x83 24.4 / 30.8 / 24.6,
 * 1578x124x2007 36.0 / 42.5 / 35.3 (10), 561x529x2581 57.7 / 59.7 / 53.8 (6), 4097x2001x33 50.8 / 68.6 / 40.4; where k is short also for operands
 * that TMA can read: 1884x326x112 12.5 / 15.2 / 12.5.
 * Registers ≤ 128. Limits: m, n, k < 2^31. */
#include "dmma.cuh"
#include "multistage.cuh"

template <int TILE_, int STAGES_> struct dmma_tile {
    using element = double;
    static constexpr int TILE_M = TILE_, TILE_N = TILE_, TILE_K = 8, STAGES = STAGES_, PITCH_A = TILE_M + 2, PITCH_B = TILE_N + 2;
    static constexpr int WARPS_M = 2, WARPS_N = 2, THREADS = 32 * WARPS_M * WARPS_N, WARP_M = TILE_M / WARPS_M, WARP_N = TILE_N / WARPS_N;
    static constexpr int FM = WARP_M / 16, FN = WARP_N / 8, MMA_K = 4;
    using product = gg_dmma<FM, FN, MMA_K, PITCH_A, PITCH_B>;
    product dmma;

    static __device__ void place(int &m, int &n)
    {
        const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        m = warp % WARPS_M * WARP_M + product::place(lane / 4), n = warp / WARPS_M * WARP_N + product::place(lane % 4 * 2);
    }

    /* Where this lane's fragments begin in the stage's panels. B's columns are those that place() gives to other lanes. */
    static __device__ unsigned from_a(int m) { return 8 * (threadIdx.x % 4 * PITCH_A + m); }
    static __device__ unsigned from_b(int)
    {
        return 8 * (threadIdx.x % 4 * PITCH_B + threadIdx.x / 32 / WARPS_M * WARP_N + product::place(threadIdx.x % 32 / 4));
    }

    __device__ void clear() { ::clear(dmma.sum); }

    /* A step: begin() issues what should be in flight before the copies of another step, end() does the rest. */
    __device__ void begin(unsigned a, unsigned b) { dmma.fetch(0, a, b, 0); }
    __device__ void end(unsigned a, unsigned b)
    {
#pragma unroll
        for (int s = 0; s < TILE_K / MMA_K; s++) {
            if (s + 1 < TILE_K / MMA_K)
                dmma.fetch((s + 1) % 2, a, b, s + 1);
            dmma.multiply(s % 2);
        }
    }

    /* A part is written and added two sums at a time, THREADS vectors apart. */
    using vector = double2;

    __device__ void write(const gg_args &, double2 *to) const
    {
#pragma unroll
        for (int x = 0; x < FM * FN * 2; x++)
            __stcg(to + x * THREADS, make_double2(dmma.sum[x / 2 / FN][x / 2 % FN][x % 2 * 2], dmma.sum[x / 2 / FN][x / 2 % FN][x % 2 * 2 + 1]));
    }

    template <int N> __device__ void add(const double2 (&v)[N])
    {
#pragma unroll
        for (int x = 0; x < N; x++)
            dmma.sum[x / 2 / FN][x / 2 % FN][x % 2 * 2] += v[x].x, dmma.sum[x / 2 / FN][x / 2 % FN][x % 2 * 2 + 1] += v[x].y;
    }

    /* Stores through shared memory, so that a warp stores consecutive elements: eight lanes hold two times four elements of a column. */
    template <typename OUT> __device__ void store(const gg_args &, const OUT &out, const gg_tile &tile, int m, int n, unsigned shared) const
    {
        constexpr int EACH = THREADS / TILE_M, AT_ONCE = 8; /* columns stored together; columns per thread in flight */
        static_assert(TILE_N * PITCH_A <= STAGES * TILE_K * (PITCH_A + PITCH_B) && TILE_N % (EACH * AT_ONCE) == 0, "room in the ring, whole turns");
        __syncthreads(); /* the ring's memory is free */
        const unsigned to = shared + (n * PITCH_A + m) * 8;
#pragma unroll
        for (int j = 0; j < FN; j++)
#pragma unroll
            for (int x = 0; x < FM * 4; x++)
                asm volatile("st.shared.f64 [%0], %1;" ::"r"(to + (product::column(j, x % 4) * PITCH_A + product::row(x / 4, x % 4)) * 8),
                             "d"(dmma.sum[x / 4][j][x % 4])
                             : "memory");
        __syncthreads();
        const int row = threadIdx.x % TILE_M, first = threadIdx.x / TILE_M, own = int(out.own_n - tile.n0);
        const int end = int(min(out.n - tile.n0, int64_t(TILE_N))), above = int(out.own_m - tile.m0);
        if (row < above || row >= out.m - tile.m0)
            return;
        double *c = out.c + tile.m0 + row + (tile.n0 + first) * out.ld;
        unsigned from = shared + (first * PITCH_A + row) * 8;
#pragma unroll 1
        for (int j = first; j < end; j += EACH * AT_ONCE, c += EACH * AT_ONCE * out.ld, from += EACH * AT_ONCE * PITCH_A * 8) {
            const auto inside = [&](int e) { return j + e * EACH >= own && j + e * EACH < end; };
            double sum[AT_ONCE], old[AT_ONCE] = {};
            if (out.reads())
#pragma unroll
                for (int e = 0; e < AT_ONCE; e++) /* all loads in flight at a time */
                    if (inside(e))
                        old[e] = c[e * EACH * out.ld];
#pragma unroll
            for (int e = 0; e < AT_ONCE; e++)
                load1(sum[e], from + e * EACH * PITCH_A * 8);
#pragma unroll
            for (int e = 0; e < AT_ONCE; e++)
                if (inside(e))
                    c[e * EACH * out.ld] = out.reads() ? out.alpha * sum[e] + out.beta * old[e] : out.alpha * sum[e];
        }
    }
};

#if __CUDA_ARCH__ >= 800
using m64x64 = multistage<dmma_tile<64, 4>>;
using m32x32 = multistage<dmma_tile<32, 4>>;
static_assert(m64x64::SHARED == gg_shared_multistage_d_64x64 && m32x32::SHARED == gg_shared_multistage_d_32x32, "kernels.def");
extern "C" {
__global__ void __launch_bounds__(128, 4) multistage_d_64x64(const __grid_constant__ gg_args p) { m64x64::run(p); }
__global__ void __launch_bounds__(128, 8) multistage_d_32x32(const __grid_constant__ gg_args p) { m32x32::run(p); }
}
#endif

/* sgemm_32x64.cu — the row of sgemm.cuh for the smallest C, and for C of few rows or columns, where the producers are the bottleneck: ptxas -O1,
 * which gg_ffma needs in the other rows, costs 1 to 10 % there (16×16384×16384 and the like, H200). So this row is compiled at -O3, with another
 * arrangement of the same arithmetic: 69 of 512 FFMAs of an iteration have register bank conflicts.
 *
 * Registers ≤ 168. */
#include "sgemm.cuh"

/* Like gg_ffma. ptxas -O3 numbers registers well if between turns sums are kept in register pairs, two neighbours swapped. */
template <int TM, int TN, int LANES_M, int PITCH_A, int PITCH_B> struct ffma_in_pairs {
    static constexpr int LANES_N = 32 / LANES_M;
    using lanes = gg_lanes<LANES_M, true>;
    float sum[TM][TN];
    float fa[2][TM], fb[2][TN];
    double pair[TM][TN / 2];

    template <int N> static __device__ void load(float (&to)[N], unsigned from, int step)
    {
#pragma unroll
        for (int i = 0; i < N; i += 4)
            asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                         : "=f"(to[i]), "=f"(to[i + 1]), "=f"(to[i + 2]), "=f"(to[i + 3])
                         : "r"(from + i * step));
    }

    __device__ void fetch(int set, unsigned a, unsigned b, int k)
    {
        load(fa[set], a + k * PITCH_A * 4, 4 * LANES_M);
        load(fb[set], b + k * PITCH_B * 4, 4 * LANES_N);
    }

    __device__ void multiply(int set)
    {
#pragma unroll
        for (int i = 0; i < TM; i++)
#pragma unroll
            for (int j = 0; j < TN; j++) {
                const int jj = i % 2 ? TN - 1 - j : j;
                sum[i][jj] = fmaf(fa[set][i], fb[set][jj], sum[i][jj]);
            }
    }

    template <int KS> __device__ void turn(unsigned a, unsigned b, unsigned next_a, unsigned next_b)
    {
        take();
#pragma unroll
        for (int k = 0; k < KS; k++) {
            if (k + 1 < KS)
                fetch((k + 1) & 1, a, b, k + 1);
            else
                fetch(0, next_a, next_b, 0);
            multiply(k & 1);
        }
        keep();
    }

    __device__ void clear()
    {
#pragma unroll
        for (int i = 0; i < TM; i++)
#pragma unroll
            for (int j = 0; j < TN; j++)
                sum[i][j] = 0;
        keep();
    }

    __device__ void keep()
    {
#pragma unroll
        for (int i = 0; i < TM; i++)
#pragma unroll
            for (int j = 0; j < TN; j += 2)
                asm volatile("mov.b64 %0, {%1, %2};" : "=d"(pair[i][j / 2]) : "f"(sum[i][j + 1]), "f"(sum[i][j]));
    }

    __device__ void take()
    {
#pragma unroll
        for (int i = 0; i < TM; i++)
#pragma unroll
            for (int j = 0; j < TN; j += 2)
                asm volatile("mov.b64 {%0, %1}, %2;" : "=f"(sum[i][j + 1]), "=f"(sum[i][j]) : "d"(pair[i][j / 2]));
    }

    __device__ void settle() { take(); }

    template <typename F> __device__ void for_each(float, F f) const
    {
#pragma unroll
        for (int j = 0; j < TN; j++)
#pragma unroll
            for (int i = 0; i < TM; i += 4) {
                const float v[4] = {sum[i][j], sum[i + 1][j], sum[i + 2][j], sum[i + 3][j]};
                f(i * LANES_M, j / 4 * (4 * LANES_N) + j % 4, v);
            }
    }
};

using s32x64 = sgemm<ffma_in_pairs, 32, 64, 64, 4, 1, 1, 4>;
static_assert(s32x64::SHARED == gg_shared_sgemm_32x64, "kernels.def");
extern "C" __global__ void __launch_bounds__(384, 1) sgemm_32x64(const __grid_constant__ gg_args p) { gg_run<s32x64>(p); }

/* ffma.cuh — one thread's part of an FP32 tile: TM×TN sums in registers, fed from shared memory [k][m] and [k][n].
 *
 * What decides its speed on Hopper, all measured on an H200 (ncu, bench/results/):
 *  - Issue slots. A scheduler issues one instruction a clock and FFMA needs every one: 16×8 sums cost 128 FFMA and 6 LDS.128 a k, 95.5 %.
 *  - Register banks. An FFMA whose operands need two reads of one bank (even or odd numbers) takes 2 clocks. The order below keeps one
 *    operand in the reuse cache, so two are read: a fragment and a sum, which must differ in parity. ptxas finds such an allocation when
 *    left all 255 registers (16×8), or when told to keep two neighbouring sums as a register pair, swapped, from turn to turn (PAIRED, 8×8).
 *    Without either the same loop runs at 41 instead of 57 TF/s. cuobjdump -sass shows which it is.
 *  - Shared memory. An LDS.128 takes 4 clocks of its SM's port, but 2 when lanes L and L^1, or L and L^2, all share addresses. gg_lane
 *    spreads lanes so that both operands qualify. */
#ifndef GG_FFMA_CUH
#define GG_FFMA_CUH

#include "tile.cuh"

/* Which of LANES (4 or 8) positions along its dimension a lane takes: 4 by bits 1 and 2, 8 by bits 0, 3 and 4. */
template <int LANES> __device__ inline int gg_lane(int lane)
{
    static_assert(LANES == 4 || LANES == 8, "a warp is 4×8 or 8×4 threads");
    return LANES == 4 ? lane / 2 % 4 : lane % 2 + lane / 8 * 2;
}

template <int TM, int TN, int LANES_M, int PITCH_A, int PITCH_B, bool PAIRED> struct gg_ffma {
    static constexpr int LANES_N = 32 / LANES_M;
    float sum[TM][TN];
    float fa[2][TM], fb[2][TN];
    double pair[TM][TN / 2];

    template <int N> static __device__ void load(float (&to)[N], unsigned from, int step)
    {
#pragma unroll
        for (int i = 0; i < N; i += 4)
            if constexpr (PAIRED) {
                asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                             : "=f"(to[i]), "=f"(to[i + 1]), "=f"(to[i + 2]), "=f"(to[i + 3])
                             : "r"(from + i * step));
            } else {
                const float4 v = *static_cast<const float4 *>(__cvta_shared_to_generic(from + i * step));
                to[i] = v.x, to[i + 1] = v.y, to[i + 2] = v.z, to[i + 3] = v.w;
            }
    }

    /* a, b: shared addresses of this thread's first element of the step. */
    __device__ void fetch(int set, unsigned a, unsigned b, int k)
    {
        load(fa[set], a + k * PITCH_A * 4, 4 * LANES_M);
        load(fb[set], b + k * PITCH_B * 4, 4 * LANES_N);
    }

    /* Back and forth along j, so that consecutive FFMAs share an operand. */
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

    __device__ void clear()
    {
#pragma unroll
        for (int i = 0; i < TM; i++)
#pragma unroll
            for (int j = 0; j < TN; j++)
                sum[i][j] = 0;
        keep();
    }

    /* Around a turn of the main loop: take() what keep() put into pairs. */
    __device__ void keep()
    {
        if constexpr (PAIRED)
#pragma unroll
            for (int i = 0; i < TM; i++)
#pragma unroll
                for (int j = 0; j < TN; j += 2)
                    asm volatile("mov.b64 %0, {%1, %2};" : "=d"(pair[i][j / 2]) : "f"(sum[i][j + 1]), "f"(sum[i][j]));
    }

    __device__ void take()
    {
        if constexpr (PAIRED)
#pragma unroll
            for (int i = 0; i < TM; i++)
#pragma unroll
                for (int j = 0; j < TN; j += 2)
                    asm volatile("mov.b64 {%0, %1}, %2;" : "=f"(sum[i][j + 1]), "=f"(sum[i][j]) : "d"(pair[i][j / 2]));
    }

    /* Calls f(m, n, four sums of consecutive m) for all of them, relative to the thread's first. */
    template <typename F> __device__ void for_each(F f) const
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

#endif

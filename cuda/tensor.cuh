/* tensor.cuh — products of FP16 or BF16 pieces on the tensor cores, summed to FP32 accuracy: what split.cu, tensor_gemm.cuh and tensor_mma.cu
 * share. */
#ifndef GG_TENSOR_CUH
#define GG_TENSOR_CUH

#include "pipeline.cuh"

constexpr int GG_TENSOR_TILE = 128; /* rows of A and of B per block: the unit of the pieces' layout */
constexpr int GG_TENSOR_STEP = 32;  /* k of a stage: as many as may be summed before FP32 registers must take over */

/* Offset of 16-byte unit `unit` (8 k) of row `row` in a piece of [rows][GG_TENSOR_STEP] 16-bit elements: wgmma's 64-byte swizzle. One unit of 8
 * consecutive rows is in different banks, as ldmatrix wants it. */
__device__ inline int gg_swizzled(int row, int unit) { return row * (GG_TENSOR_STEP * 2) + (unit ^ (row >> 1 & 3)) * 16; }

/* The products of a tier. a(i) and b(i): which pieces of A and B the i-th product of corr takes; main is the product of the leading pieces. */
struct gg_tf32_products {
    static constexpr int PIECES = 1, CORR = 0;
    static constexpr bool HALF = true;
    static __device__ constexpr int a(int) { return 0; }
    static __device__ constexpr int b(int) { return 0; }
};

struct gg_fp16_products {
    static constexpr int PIECES = 2, CORR = 2;
    static constexpr bool HALF = true;
    static __device__ constexpr int a(int i) { return i; }
    static __device__ constexpr int b(int i) { return 1 - i; }
};

struct gg_bf16_products {
    static constexpr int PIECES = 3, CORR = 5;
    static constexpr bool HALF = false;
    static __device__ constexpr int a(int i) { return i < 3 ? i : i - 3; }     /* 0 1 2 0 1 */
    static __device__ constexpr int b(int i) { return i < 3 ? 2 - i : 4 - i; } /* 2 1 0 1 0 */
};

/* alpha and beta, converted from double, and C's pitch. Built only when they are needed, as the main loop has no registers for them. */
struct gg_factors {
    float alpha, beta;
    int64_t ldc;

    __device__ gg_factors(const gg_args &p) : ldc(p.ldc)
    {
        asm volatile("cvt.rn.f32.f64 %0, %1;" : "=f"(alpha) : "d"(p.alpha));
        asm volatile("cvt.rn.f32.f64 %0, %1;" : "=f"(beta) : "d"(p.beta));
        asm volatile("" : "+l"(ldc));
    }

    __device__ float scaled(float sum, float scale, const float *c) const
    {
        const float exact = sum * scale;
        return beta == 0 ? alpha * exact : fmaf(alpha, exact, beta * *c);
    }
};

/* The last step of storing, for 16 sums per lane: v[e][r] goes to to(e, r) if (e, r) is inside C. All loads come first, as they take long. */
template <typename INSIDE, typename SCALE, typename TO>
__device__ inline void gg_put(const gg_factors &by, const float (&v)[4][4], INSIDE inside, SCALE scale, TO to)
{
    if (by.beta == 0) {
#pragma unroll
        for (int i = 0; i < 16; i++)
            if (inside(i / 4, i % 4))
                *to(i / 4, i % 4) = by.alpha * (v[i / 4][i % 4] * scale(i / 4, i % 4));
        return;
    }
    float old[16];
#pragma unroll
    for (int i = 0; i < 16; i++)
        old[i] = inside(i / 4, i % 4) ? *to(i / 4, i % 4) : 0;
#pragma unroll
    for (int i = 0; i < 16; i++)
        if (inside(i / 4, i % 4))
            *to(i / 4, i % 4) = fmaf(by.alpha, v[i / 4][i % 4] * scale(i / 4, i % 4), by.beta * old[i]);
}

#endif

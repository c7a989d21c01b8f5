/* tensor.cuh — sums of products of FP16 or BF16 pieces on Hopper's tensor cores (wgmma), to FP32 accuracy; what split.cu and tensor_gemm.cuh share. */
#ifndef GG_TENSOR_CUH
#define GG_TENSOR_CUH

#include "pipeline.cuh"

constexpr int GG_TENSOR_TILE = 128; /* rows of A and of B a block takes: the unit of the pieces' layout */
constexpr int GG_TENSOR_STEP = 32;  /* k of a stage: as many as may be summed before FP32 registers must take over */

/* Offset of 16-byte unit `unit` (8 k) of row `row` in a piece of [rows][GG_TENSOR_STEP] 16-bit elements: wgmma's 64-byte swizzle. */
__device__ inline int gg_swizzled(int row, int unit) { return row * (GG_TENSOR_STEP * 2) + (unit ^ (row >> 1 & 3)) * 16; }

#endif

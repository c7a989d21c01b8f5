/* tensor_once.cu — like tensor_pair.cu, but with sgemm_tma_64x128, for operands that TMA can read. Operands that fail have 0.89 to 0.91 of strict's
 * speed at n = 832 to 1024, 0.80 to 0.84 with sgemm_128x64 (H200). Here ptxas -O1 does well by both kernels (cmake/cuda.cmake). */
#include "sgemm_once.cuh"
#include "tensor_gemm.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
using fp16_pair = tensor_gemm<gg_fp16_products, 5, 2>;
using fallback = sgemm_once<64, 128, 8, 8, 4, 2, 4, true, false, gg_order<4, 6, false>, false, false>; /* sgemm_tma_64x128 */
static_assert(fp16_pair::SHARED == gg_shared_tensor_fp16_or_tma && fallback::SHARED <= fp16_pair::SHARED, "kernels.def");

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(384, 1) tensor_fp16_or_tma(const __grid_constant__ gg_args p)
{
    gg_either(
        p, [&] { fp16_pair::run(p, [] { return false; }); },
        [&] {
            if (int(blockIdx.x) < (int(p.m) + 63) / 64 * ((int(p.n) + 127) / 128))
                fallback::run_now(p);
        });
}
#endif

/* tensor_pair.cu — tensor_fp16_pair and sgemm_128x64 in one kernel, for a chain in which the one serves what is certified and the other what is not,
 * in the same tiles. Operands that fail then cost one launch less, 14 % at n = 832, 6 % at 1024 (H200). The code for certified operands lies far from
 * the kernel's beginning, and fetching it costs 3 to 7 %; with the branch the other way round FFMA would be fetched late. (FFMA wants ptxas -O1, see
 * ffma.cuh, but beside this product -O1 numbers its registers badly.) */
#include "sgemm.cuh"
#include "tensor_gemm.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
using fp16_pair = tensor_gemm<gg_fp16_products, 5, 2>;
using fallback = sgemm<gg_ffma, 128, 64, 32, 4, 2, 2, 8>; /* sgemm_128x64 */
static_assert(fp16_pair::SHARED == gg_shared_tensor_fp16_or_ffma && fallback::SHARED <= fp16_pair::SHARED, "kernels.def");

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(384, 1) tensor_fp16_or_ffma(const __grid_constant__ gg_args p)
{
    gg_either(
        p, [&] { fp16_pair::run(p, [] { return false; }); }, [&] { gg_run_now<fallback>(p); });
}
#endif

/* tensor.cu — the rows of tensor_gemm.cuh. */
#include "tensor_gemm.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
using tf32 = tensor_gemm<gg_tf32_products, 12, 1>;
using fp16 = tensor_gemm<gg_fp16_products, 5, 1>;
using bf16 = tensor_gemm<gg_bf16_products, 3, 1>;
using tf32_pair = tensor_gemm<gg_tf32_products, 12, 2>;
using fp16_pair = tensor_gemm<gg_fp16_products, 5, 2>;
using fp16_edge = tensor_gemm<gg_fp16_products, 4, 1, true>;
using bf16_edge = tensor_gemm<gg_bf16_products, 3, 1, true>;
using fp16_pair_edge = tensor_gemm<gg_fp16_products, 4, 2, true>;
static_assert(fp16_edge::SHARED == gg_shared_tensor_fp16_edge && fp16_pair_edge::SHARED == gg_shared_tensor_fp16_pair_edge, "kernels.def");
static_assert(bf16_edge::SHARED == gg_shared_tensor_bf16_edge, "kernels.def");
static_assert(tf32::SHARED == gg_shared_tensor_tf32 && tf32_pair::SHARED == gg_shared_tensor_tf32_pair, "kernels.def");
static_assert(fp16::SHARED == gg_shared_tensor_fp16 && fp16_pair::SHARED == gg_shared_tensor_fp16_pair, "kernels.def");
static_assert(bf16::SHARED == gg_shared_tensor_bf16, "kernels.def");

template <typename kernel> __device__ inline void run(const gg_args &p)
{
    if (kernel::PIECES == 3 && gg_passed_over(p))
        return;
    kernel::run(p, [&] {
        const bool leaves = gg_gated<true>(p);
        if (!leaves && kernel::PIECES == 3 && blockIdx.x + threadIdx.x == 0)
            atomicOr(p.verdict, GG_WAS_BF16);
        return leaves;
    });
}

extern "C" {
__global__ void __launch_bounds__(384, 1) tensor_tf32(const __grid_constant__ gg_args p) { run<tf32>(p); }
__global__ void __launch_bounds__(384, 1) tensor_fp16(const __grid_constant__ gg_args p) { run<fp16>(p); }
__global__ void __launch_bounds__(384, 1) tensor_bf16(const __grid_constant__ gg_args p) { run<bf16>(p); }
__global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(384, 1) tensor_tf32_pair(const __grid_constant__ gg_args p) { run<tf32_pair>(p); }
__global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(384, 1) tensor_fp16_pair(const __grid_constant__ gg_args p) { run<fp16_pair>(p); }
__global__ void __launch_bounds__(384, 1) tensor_fp16_edge(const __grid_constant__ gg_args p) { run<fp16_edge>(p); }
__global__ void __launch_bounds__(384, 1) tensor_bf16_edge(const __grid_constant__ gg_args p) { run<bf16_edge>(p); }
__global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(384, 1) tensor_fp16_pair_edge(const __grid_constant__ gg_args p)
{
    run<fp16_pair_edge>(p);
}
}
#endif

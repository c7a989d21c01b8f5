/* sgemm.cu — the rows of sgemm.cuh except sgemm_32x64. */
#include "sgemm.cuh"

using s128x128 = sgemm<gg_ffma_in<gg_order<24, 12, true>>::type, 128, 128, 16, 5, 2, 4, 8>;
using s128x64 = sgemm<gg_ffma_in<gg_order<10, 16, false>>::type, 128, 64, 32, 4, 2, 2, 8>;
using s64x64 = sgemm<gg_ffma_in<gg_order<8, 16, false, true>>::type, 64, 64, 64, 4, 1, 2, 8>;
using s64x64x48 = sgemm<gg_ffma, 64, 64, 48, 3, 1, 2, 8>; /* fits the 163 KB of sm_80 */
static_assert(s128x128::SHARED == gg_shared_sgemm_128x128 && s128x64::SHARED == gg_shared_sgemm_128x64, "kernels.def");
static_assert(s64x64::SHARED == gg_shared_sgemm_64x64 && s64x64x48::SHARED == gg_shared_sgemm_64x64x48, "kernels.def");

extern "C" {
__global__ void __launch_bounds__(384, 1) sgemm_128x128(const __grid_constant__ gg_args p) { gg_run<s128x128>(p); }
__global__ void __launch_bounds__(384, 1) sgemm_128x64(const __grid_constant__ gg_args p) { gg_run<s128x64>(p); }
__global__ void __launch_bounds__(384, 1) sgemm_64x64(const __grid_constant__ gg_args p) { gg_run<s64x64>(p); }
__global__ void __launch_bounds__(384, 1) sgemm_64x64x48(const __grid_constant__ gg_args p) { gg_run<s64x64x48>(p); }
}

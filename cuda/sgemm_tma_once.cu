/* sgemm_tma_once.cu — the rows of sgemm_once.cuh. */
#include "sgemm_once.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define GG_ONCE(name, per_sm, aside, ...)                                                                                                            \
    static_assert(sgemm_once<__VA_ARGS__>::SHARED <= gg_shared_##name, "kernels.def");                                                               \
    extern "C" __global__ void __launch_bounds__(THREADS + 32 * aside, per_sm) name(const __grid_constant__ gg_args p)                               \
    {                                                                                                                                                \
        sgemm_once<__VA_ARGS__>::run(p);                                                                                                             \
    }
#if !GG_CUT /* these are not gathered */
GG_ONCE(sgemm_tma_64x64, 2, 0, 64, 64, 8, 8, 3, 1, 0, false, false, gg_order<11, 14, true, true>)
GG_ONCE(sgemm_tma_96x128, 1, 4, 96, 128, 12, 8, 4, 2, 4, true, false, gg_order<5, 17, true>, true, true, true)
GG_ONCE(sgemm_tma_128x128_alone, 1, 4, 128, 128, 8, 8, 3, 4, 4, true, false, gg_order<9, 8, true>, true, true, true)
#endif
GG_ONCE(sgemm_tma_64x48, 1, 4, 64, 48, 8, 12, 5, 1, 4, false, false, gg_order<24, 12, true, true>)
GG_ONCE(sgemm_tma_64x64_alone, 1, 4, 64, 64, 8, 8, 5, 1, 4, false, true, gg_order<27, 10, true>)
GG_ONCE(sgemm_tma_64x96, 1, 4, 64, 96, 8, 12, 5, 1, 4, false, true, gg_order<24, 12, true>)
GG_ONCE(sgemm_tma_64x128, 1, 4, 64, 128, 8, 8, 4, 2, 4, true, false, gg_order<4, 6, false>, true, true, true)
#endif

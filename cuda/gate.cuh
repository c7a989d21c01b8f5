/* gate.cuh — a chain's kernels are all launched, and find out on the GPU whose turn it is (src/tensor.h). */
#ifndef GG_GATE_CUH
#define GG_GATE_CUH

#include "kernel.h"

/* True: it is not this kernel's turn, and it leaves at once. */
__device__ inline bool gg_gated(const gg_args &p)
{
    return p.verdict && (*static_cast<const volatile uint32_t *>(p.verdict) & p.gate_mask) != p.gate_value;
}

#endif

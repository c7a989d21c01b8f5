/* gate.cuh — a chain's kernels are all launched, and find out on the GPU whose turn it is (src/tensor.h). On Hopper a kernel's blocks may be there
 * before the kernel ahead has ended (gg_gpu_launch_early), and wait here, at the very beginning, for it to end and for what it has written. They let
 * the next kernel come before they wait, so that the launches of a whole chain are under way while its first kernel runs: it will wait in its turn.
 * So do gg_pack and the product after it. */
#ifndef GG_GATE_CUH
#define GG_GATE_CUH

#include "kernel.h"

/* True: it is not this kernel's turn, and it leaves at once. By every thread, before anything is read or written that other kernels write or read. */
__device__ inline bool gg_gated(const gg_args &p)
{
#if __CUDA_ARCH__ >= 900
    if (p.verdict || p.early)
        asm volatile("griddepcontrol.launch_dependents; griddepcontrol.wait;" ::: "memory");
#endif
    return p.verdict && (*static_cast<const volatile uint32_t *>(p.verdict) & p.gate_mask) != p.gate_value;
}

#endif

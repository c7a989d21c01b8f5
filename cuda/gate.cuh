/* gate.cuh — a chain's kernels are all launched, and find out on the GPU whose turn it is (src/tensor.h). On Hopper a kernel's blocks may be there
 * before the kernel ahead has ended (gg_gpu_launch_early), and wait here, at the very beginning, for it to end and for what it has written. They let
 * the next kernel come before they wait, so that the launches of a whole chain are under way while its first kernel runs: it will wait in its turn.
 * So do gg_pack and the product after it. One whose turn it will not be leaves even before. */
#ifndef GG_GATE_CUH
#define GG_GATE_CUH

#include "kernel.h"

__device__ inline uint32_t gg_verdict(const gg_args &p) { return *static_cast<const volatile uint32_t *>(p.verdict); }

/* Does the verdict say, without having waited, that it will not be this kernel's turn? Its bits are only ever set, so one that rules the kernel's
 * tier out may be acted on at any time; that the first tier is not ruled out, and so no other has its turn, when p.gate_first says that its split has
 * ended. The first tier's product sees to that: it lets the next kernel come after its own wait. */
__device__ inline bool gg_ruled_out(const gg_args &p, uint32_t verdict)
{
    return (verdict & p.gate_mask & ~p.gate_value) || (p.gate_value & ~verdict & p.gate_first);
}

/* Then it leaves, but for block 0, which waits: what follows may rely on all that came before. (All at n = 2048 4 %, at 1025 5 %, at 1153 12 %
 * faster.) */
__device__ inline bool gg_leaves(const gg_args &p, uint32_t verdict)
{
    if (!gg_ruled_out(p, verdict))
        return false;
#if __CUDA_ARCH__ >= 900
    if (blockIdx.x + blockIdx.y == 0)
        asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
    return true;
}

/* Lets the next kernel come. True: it leaves, as above. Asked before all else by those that have something to do before they wait: the sooner a link
 * without a turn leaves the SMs that the product has no work for, the fewer links are left when that ends (n = 2048 and 2049 2 % faster). */
__device__ inline bool gg_passed_over(const gg_args &p)
{
#if __CUDA_ARCH__ >= 900
    if (p.gate_first && p.gate_value) {
        asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
        return gg_leaves(p, gg_verdict(p));
    }
#endif
    return false;
}

/* True: it is not this kernel's turn, it may leave. Else it is not known yet, and all before this kernel has ended. PRODUCT: from a tier's pieces. */
template <bool PRODUCT = false> __device__ inline bool gg_gate(const gg_args &p)
{
#if __CUDA_ARCH__ >= 900
    if (p.verdict || p.early) {
        if (gg_passed_over(p))
            return true;
        const bool late = PRODUCT && p.gate_first && p.gate_value == 0;
        if (!late)
            asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
        asm volatile("griddepcontrol.wait;" ::: "memory");
        if (late)
            asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    }
#endif
    return false;
}

/* True: it is not this kernel's turn, and it leaves at once. By every thread, before anything is read or written that other kernels write or read. */
template <bool PRODUCT = false> __device__ inline bool gg_gated(const gg_args &p)
{
    return gg_gate<PRODUCT>(p) || (p.verdict && (gg_verdict(p) & p.gate_mask) != p.gate_value);
}

/* The same for FFMA that touches nothing which others of its chain write: when all tiers are ruled out it is its turn, whatever is still under way.
 * But before it ends all ahead of it must have ended, for which it calls gg_gate_end. (So strips of C are done beside its tiles: operands that fail
 * 2 % faster at n = 1028, 6 % at 1281.) */
__device__ inline bool gg_gated_apart(const gg_args &p)
{
#if __CUDA_ARCH__ >= 900
    if (p.gate_first) {
        asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
        const uint32_t verdict = gg_verdict(p);
        if ((verdict & p.gate_mask) == p.gate_value)
            return false;
        if (gg_leaves(p, verdict))
            return true;
    }
#endif
    return gg_gated(p);
}

__device__ inline void gg_gate_end(const gg_args &p)
{
#if __CUDA_ARCH__ >= 900
    if (p.verdict)
        asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* For a kernel that has FP16's product in it and what serves if FP16 is ruled out, which this does. That it is ruled out is known when a single block
 * of the split has found something; all that was enqueued before the split has ended then, so there is no need to wait for the rest of it, but before
 * the kernel ends. */
template <typename PRODUCT, typename OTHER> __device__ inline void gg_either(const gg_args &p, PRODUCT product, OTHER other)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    bool out = gg_ruled_out(p, gg_verdict(p));
    if (!out) {
        asm volatile("griddepcontrol.wait;" ::: "memory");
        out = gg_ruled_out(p, gg_verdict(p));
    }
    if (!out) {
        product();
        return;
    }
    other();
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

#endif

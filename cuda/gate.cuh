/* gate.cuh — when a chain's kernel runs (src/tensor.h). All kernels of a chain are launched, and find out on the GPU whose turn it is. On Hopper
 * launches overlap (programmatic dependent launch, gg_gpu_launch_early): a kernel's blocks may start before the kernel ahead has ended. They wait
 * here, at the very beginning, for it to end and for what it has written. Before they wait they allow the next kernel to start, so that all launches
 * of a chain are under way while its first kernel runs. gg_pack and the product behind it do the same. A kernel whose turn it cannot be leaves
 * without waiting.
 *
 * Strips of C may run beside the tiles, on SMs that the tiles leave idle: they touch nothing that the tiles' kernel writes, so they wait only at
 * their end, and only one block does. */
#ifndef GG_GATE_CUH
#define GG_GATE_CUH

#include "kernel.h"

__device__ inline uint32_t gg_verdict(const gg_args &p) { return *static_cast<const volatile uint32_t *>(p.verdict); }

/* Does the verdict, read without waiting, already say that it will not be this kernel's turn? Bits of the verdict are only ever set, so a bit that
 * rules out this kernel's tier may be acted on at any time. That the first tier is not ruled out, so that no other gets its turn, is final only when
 * the first tier's split has ended; where that is certain p.gate_first has the first tier's bit. The first tier's product makes it certain: it allows
 * the next kernel to start only after its own wait. */
__device__ inline bool gg_ruled_out(const gg_args &p, uint32_t verdict)
{
    return (verdict & p.gate_mask & ~p.gate_value) || (p.gate_value & ~verdict & p.gate_first);
}

/* True: not this kernel's turn, and it leaves without waiting. Only block 0 waits, so that later kernels may rely on all earlier ones having ended.
 * (Altogether n = 2048 is 4 % faster, 1025 5 %, 1153 12 %.) */
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

/* Allows the next kernel to start. True: this one leaves, as above. Called first by kernels that have something else to do before they wait: the
 * sooner kernels without a turn leave the SMs that the product does not use, the fewer such kernels remain when the product ends (n = 2048 and 2049 2
 * % faster). */
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

/* True: it is not this kernel's turn, and it may leave. False: not known yet, but all kernels before it have ended. PRODUCT: the kernel multiplies a
 * tier's pieces. */
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

/* What a chain's first kernel does for the next chain, once all kernels ahead of it have ended. */
__device__ inline void gg_clear_next(const gg_args &p)
{
    if (p.clears && blockIdx.x + blockIdx.y + blockIdx.z + threadIdx.x == 0)
        *p.clears = 0;
}

/* Allows the strips behind this kernel to start. */
__device__ inline void gg_let_strips_start(const gg_args &p)
{
#if __CUDA_ARCH__ >= 900
    if (p.early)
        asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/* For a product that belongs to no chain, instead of the gate: waits for gg_pack, if that is ahead. What precedes it is done meanwhile. */
__device__ inline void gg_await_packed(const gg_args &p)
{
#if __CUDA_ARCH__ >= 900
    gg_let_strips_start(p);
    if (p.early)
        asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* True: it is not this kernel's turn, and it must leave at once. Called by every thread before anything is read or written that other kernels write
 * or read. */
template <bool PRODUCT = false> __device__ inline bool gg_gated(const gg_args &p)
{
    return gg_gate<PRODUCT>(p) || (p.verdict && (gg_verdict(p) & p.gate_mask) != p.gate_value);
}

/* The same for FFMA that touches nothing that other kernels of its chain write; outside a chain nothing is awaited here, and strips may start
 * beside the tiles. In a chain it is FFMA's turn once all tiers are ruled out, whatever is still running. It must not end before all kernels ahead have
 * ended, for which it calls gg_gate_end. (So strips of C are done beside its tiles: operands that fail 2 % faster at n = 1028, 6 % at 1281.) */
__device__ inline bool gg_gated_apart(const gg_args &p)
{
#if __CUDA_ARCH__ >= 900
    if (!p.verdict) {
        gg_let_strips_start(p);
        return false;
    }
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
    if (blockIdx.x == 0 && (p.verdict || p.early)) /* one block is enough: the kernel ends with its last */
        asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* For a kernel that contains FP16's product and also what serves if FP16 is ruled out (`other`). That it is ruled out is known as soon as one block
 * of the split has set the bit. All that was enqueued before the split has then ended, so `other` need not wait for the rest of the split; the kernel
 * does before it ends. */
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

/* wgmma.cuh — around wgmma on sm_90, whatever it multiplies: its operands' descriptors, waiting, and how stages come to shared memory. */
#ifndef GG_WGMMA_CUH
#define GG_WGMMA_CUH

/* The low half of the descriptor of an operand in shared memory. */
__device__ inline unsigned describe(unsigned at) { return (at & 0x3ffff) >> 4 | 1 << 16; }

/* Keeps the compiler from moving uses of d across this point. */
template <int COUNT> __device__ inline void pin(float (&d)[COUNT])
{
#pragma unroll
    for (int i = 0; i < COUNT; i++)
        asm volatile("" : "+f"(d[i])::"memory");
}

template <int COUNT> __device__ inline void pin(int (&d)[COUNT])
{
#pragma unroll
    for (int i = 0; i < COUNT; i++)
        asm volatile("" : "+r"(d[i])::"memory");
}

template <int PENDING> __device__ inline void await_wgmma() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory"); }
__device__ inline void commit_wgmma() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
__device__ inline void order_wgmma() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

/* Copies contiguous bytes to shared memory; they count for the barrier. */
template <int BYTES> __device__ inline void copy(unsigned to, const char *from, unsigned barrier)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to), "l"(from), "n"(BYTES),
                 "r"(barrier)
                 : "memory");
}

/* Barrier of all threads of the cluster. */
__device__ inline void cluster_barrier() { asm volatile("barrier.cluster.arrive.release; barrier.cluster.wait.acquire;" ::: "memory"); }

#endif

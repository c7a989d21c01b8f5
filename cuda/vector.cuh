/* vector.cuh — 16 bytes of an operand, and copies to shared memory that do not wait. */
#ifndef GG_VECTOR_CUH
#define GG_VECTOR_CUH

template <typename T> struct alignas(16) gg_vector {
    static constexpr int SIZE = 16 / sizeof(T);
    T v[SIZE];
};

/* A load of what is read once: not to be kept in L1. */
template <typename T> __device__ inline gg_vector<T> gg_load_once(const T *at)
{
    union {
        float4 raw;
        gg_vector<T> v;
    } to;
    asm volatile("ld.global.nc.L1::no_allocate.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(to.raw.x), "=f"(to.raw.y), "=f"(to.raw.z), "=f"(to.raw.w)
                 : "l"(at));
    return to.v;
}

#if __CUDA_ARCH__ >= 800
/* Copies EACH bytes (4, 8 or 16) to shared memory by cp.async, zeros if they do not exist. */
template <int EACH> __device__ inline void gg_copy_or_zero(unsigned to, const void *from, bool exist)
{
    if constexpr (EACH == 16)
        asm volatile("{ .reg .pred none; setp.eq.s32 none, %2, 0; cp.async.cg.shared.global [%0], [%1], 16, none; }" ::"r"(to), "l"(from),
                     "r"(int(exist))
                     : "memory");
    else
        asm volatile("{ .reg .pred none; setp.eq.s32 none, %2, 0; cp.async.ca.shared.global [%0], [%1], %3, none; }" ::"r"(to), "l"(from),
                     "r"(int(exist)), "n"(EACH)
                     : "memory");
}
#endif

#endif

/* vector.cuh — 16 bytes of an operand, stores that may not be, and copies to shared memory that do not wait. */
#ifndef GG_VECTOR_CUH
#define GG_VECTOR_CUH

template <typename T, int N = 16 / sizeof(T)> struct alignas(N * sizeof(T)) gg_vector {
    static constexpr int SIZE = N;
    T v[N];
};

/* A load of what is read once, not to be kept in L1 (ONCE), or of what others read, too; zeros if it does not exist. In assembler even where it is
 * sure to exist: of `if (exists) …` ptxas makes loads through one register, each of which waits for the one before. */
template <bool ONCE, typename T> __device__ inline gg_vector<T> gg_load(const T *at, bool exists = true)
{
    union {
        float4 raw;
        gg_vector<T> v;
    } to;
#define GG_LOAD(cache)                                                                                                                               \
    "{ .reg .pred is; setp.ne.s32 is, %5, 0; mov.f32 %0, 0f00000000; mov.f32 %1, 0f00000000; mov.f32 %2, 0f00000000; mov.f32 %3, 0f00000000; @is "   \
    "ld.global.nc" cache ".v4.f32 {%0, %1, %2, %3}, [%4]; }"
    float4 &r = to.raw;
    if constexpr (ONCE)
        asm volatile(GG_LOAD(".L1::no_allocate") : "=&f"(r.x), "=&f"(r.y), "=&f"(r.z), "=&f"(r.w) : "l"(at), "r"(int(exists)));
    else
        asm(GG_LOAD("") : "=&f"(r.x), "=&f"(r.y), "=&f"(r.z), "=&f"(r.w) : "l"(at), "r"(int(exists)));
#undef GG_LOAD
    return to.v;
}

/* Stores without a branch, past which nothing could be computed ahead, and whose instructions are fetched even if nothing is stored. */
__device__ inline void gg_store_unless(bool absent, double *to, double v)
{
    asm volatile("{ .reg .pred is; setp.eq.u32 is, %2, 0; @is st.global.f64 [%0], %1; }" ::"l"(to), "d"(v), "r"(unsigned(absent)) : "memory");
}
__device__ inline void gg_store_unless(bool absent, double2 *to, double2 v)
{
    asm volatile("{ .reg .pred is; setp.eq.u32 is, %3, 0; @is st.global.v2.f64 [%0], {%1, %2}; }" ::"l"(to), "d"(v.x), "d"(v.y), "r"(unsigned(absent))
                 : "memory");
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

/* dmma.cuh — the FP64 tensor core product of every dgemm kernel, its operands' loads, its sums, and a warp's part of a tile multiplied from panels
 * [k][m] and [k][n]. */
#ifndef GG_DMMA_CUH
#define GG_DMMA_CUH

/* Loads from shared memory. They are volatile: they stay on their side of a loop's branch, and of copies and barriers. */
__device__ inline void load2(double &x, double &y, unsigned from) { asm volatile("ld.shared.v2.f64 {%0, %1}, [%2];" : "=d"(x), "=d"(y) : "r"(from)); }
__device__ inline void load1(double &x, unsigned from) { asm volatile("ld.shared.f64 %0, [%1];" : "=d"(x) : "r"(from)); }

/* c += a b for one 16×8 fragment. A lane holds rows lane/4 (+8), k lane%4 (+4, +8, …), columns 2 (lane%4) (+1) of c, lane/4 of b. */
template <int K> __device__ inline void mma(double (&c)[4], const double (&a)[K / 2], const double (&b)[K / 4])
{
#if __CUDA_ARCH__ >= 900
    if constexpr (K == 4)
        asm("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
            : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
            : "d"(a[0]), "d"(a[1]), "d"(b[0]));
    else if constexpr (K == 8)
        asm("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
            : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b[0]), "d"(b[1]));
    else
        asm("mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7, %8, %9, %10, %11}, "
            "{%12, %13, %14, %15}, {%0, %1, %2, %3};"
            : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
            : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(a[4]), "d"(a[5]), "d"(a[6]), "d"(a[7]), "d"(b[0]), "d"(b[1]), "d"(b[2]), "d"(b[3]));
#else
#pragma unroll
    for (int k = 0; k < K / 4; k++)
#pragma unroll
        for (int half = 0; half < 2; half++)
            asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
                : "+d"(c[2 * half]), "+d"(c[2 * half + 1])
                : "d"(a[2 * k + half]), "d"(b[k]));
#endif
}

/* Calls f for each of a thread's sums. */
template <int FM, int FN, typename F> __device__ inline void each(double (&sum)[FM][FN][4], F f)
{
#pragma unroll
    for (int i = 0; i < FM; i++)
#pragma unroll
        for (int j = 0; j < FN; j++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                f(sum[i][j][e]);
}

/* Sets all of them to 0. */
template <int FM, int FN> __device__ inline void clear(double (&sum)[FM][FN][4])
{
    each(sum, [](double &of) { of = 0; });
}

/* A warp's products of FM × FN fragments from panels in shared memory, [k][m] and [k][n], whose pitches are ≡ 2 elements mod 16 (dgemm.cu,
 * multistage_d.cu). */
template <int FM, int FN, int MMA_K, int PITCH_A, int PITCH_B> struct gg_dmma {
    double sum[FM][FN][4];
    double fa[2][FM][MMA_K / 2], fb[2][FN][MMA_K / 4];

    /* Which row (or column) of 16 is row `of8` of a fragment's first half; the second half is 4 further. With this both kinds of access are free of
     * bank conflicts: reading 4 k × 4 rows by half a warp, and storing 8 k × 2 rows while transposing. */
    static __device__ int place(int of8) { return of8 % 2 + of8 / 2 % 2 * 8 + of8 / 4 * 2; }

    /* Position of element e of sum[i][j], counted from sum[0][0]'s first, which is at place(lane / 4), place(lane % 4 * 2). */
    static __device__ constexpr int row(int i, int e) { return i * 16 + e / 2 * 4; }
    static __device__ constexpr int column(int j, int e) { return j / 2 * 16 + j % 2 * 4 + e % 2; }

    /* a, b: addresses of the lane's first elements of k step 0, which are k lane % 4, row place(lane / 4). */
    __device__ void fetch(int set, unsigned a, unsigned b, int step)
    {
#pragma unroll
        for (int i = 0; i < FM; i++)
#pragma unroll
            for (int e = 0; e < MMA_K / 2; e++)
                load1(fa[set][i][e], a + 8 * ((step * MMA_K + e / 2 * 4) * PITCH_A + i * 16 + e % 2 * 4));
#pragma unroll
        for (int j = 0; j < FN; j++)
#pragma unroll
            for (int e = 0; e < MMA_K / 4; e++)
                load1(fb[set][j][e], b + 8 * ((step * MMA_K + e * 4) * PITCH_B + j / 2 * 16 + j % 2 * 4));
    }

    __device__ void multiply(int set)
    {
#pragma unroll
        for (int i = 0; i < FM; i++)
#pragma unroll
            for (int j = 0; j < FN; j++)
                mma<MMA_K>(sum[i][i % 2 ? FN - 1 - j : j], fa[set][i], fb[set][i % 2 ? FN - 1 - j : j]);
    }
};

#endif

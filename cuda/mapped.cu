/* mapped — products of operands in page-locked memory, so small that launches and waits take most of the time, in one launch (sm_90a). src/short.c packs
 * A and, behind it, B. One cluster does everything: each block copies its share of A and B to the shared memory of all blocks (cp.async.bulk,
 * multicast), so that each byte crosses the link once. Then each warp computes tiles of C and stores them where they belong, again in page-locked
 * memory. Old elements of C, of a warp's first tile, are asked for before the operands are awaited.
 *
 * A lane has two rows and four columns of a tile, all lanes the same columns. Where k is contiguous in A a lane reads 16 bytes of k from each row, and
 * the lines of A are an odd multiple of 16 bytes apart, so that eight lanes read different banks; else two neighbouring rows at a time. Sums run over
 * k in order.
 *
 * Microseconds of a whole call on an H200, by this and by gg_transfer, a product and, with beta != 0, gg_transfer (mapped-2026-11-29.txt):
 *
 *   beta = 0   sgemm 64 18.5, 22.0; 100 24.7, 30.1; 128 30.9, 34.7; 160 34.2, 37.5   dgemm 64 21.8, 23.3; 112 33, 35.5
 *   beta = 1   sgemm 64 19.8, 27; 100 27.6, 38; 128 35.4, 43.5; 160 40.5, 50         dgemm 64 24.7, 29; 112 38, 46.5 */
#include "parts.cuh"
#include "pipeline.cuh"
#include "wgmma.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

template <typename T, int COUNT> struct alignas(COUNT * sizeof(T) < 16 ? COUNT * sizeof(T) : 16) run {
    T at[COUNT];

    static __device__ run load(const T *from) { return *reinterpret_cast<const run *>(from); }
};

template <typename T> struct mapped {
    static constexpr int WARPS = 8, THREADS = 32 * WARPS, TM = 2, TN = 4, ROWS = 32 * TM, CHUNK = 16 / sizeof(T);
    static constexpr int BARRIERS = 128; /* bytes of shared memory, ahead of A */

    const T *a, *b; /* in shared memory */
    T sum[TM][TN];

    /* Bytes of A and B, one behind the other. */
    static __device__ int bytes(const gg_args &p)
    {
        const T *const end = static_cast<const T *>(p.b) + (p.b_kmajor ? p.n : p.k) * p.ldb;
        return int(reinterpret_cast<const char *>(end) - static_cast<const char *>(p.a));
    }

    /* Called by one thread of each block, when all have set up their barriers. */
    static __device__ void copy_share(const gg_args &p, unsigned to, unsigned barrier)
    {
        const int all = bytes(p), blocks = gridDim.x, share = (all / blocks + 15) / 16 * 16, most = 8192, end = min(all, (cluster_rank() + 1) * share);
        for (int at = cluster_rank() * share; at < end; at += most)
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;" ::
                             "r"(to + at), "l"(static_cast<const char *>(p.a) + at), "r"(min(most, end - at)), "r"(barrier),
                         "h"(uint16_t((1 << blocks) - 1))
                         : "memory");
    }

    /* COUNT k from l on of the rows x of an operand (columns of B). */
    template <int COUNT, bool KMAJOR, int LINES> static __device__ void load(T (&v)[COUNT][LINES], const T *from, const int (&x)[LINES], int l, int ld)
    {
#pragma unroll
        for (int i = 0; i < (KMAJOR ? LINES : COUNT); i++) {
            const auto r = run<T, KMAJOR ? COUNT : LINES>::load(KMAJOR ? from + x[i] * ld + l : from + x[0] + (l + i) * ld);
#pragma unroll
            for (int e = 0; e < (KMAJOR ? COUNT : LINES); e++)
                (KMAJOR ? v[e][i] : v[i][e]) = r.at[e];
        }
    }

    /* Adds COUNT k from l on. */
    template <int COUNT, bool A_KMAJOR, bool B_KMAJOR> __device__ void step(int l, const int (&x)[TM], const int (&y)[TN], int lda, int ldb)
    {
        T u[COUNT][TM], v[COUNT][TN];
        load<COUNT, A_KMAJOR>(u, a, x, l, lda);
        load<COUNT, B_KMAJOR>(v, b, y, l, ldb);
#pragma unroll
        for (int e = 0; e < COUNT; e++)
#pragma unroll
            for (int i = 0; i < TM; i++)
#pragma unroll
                for (int j = 0; j < TN; j++)
                    sum[i][j] += u[e][i] * v[e][j];
    }

    /* This warp's tiles. Rows and columns beyond the last are computed from what lies there; where lines would end too far away, from the last one. */
    template <bool A_KMAJOR, bool B_KMAJOR> __device__ void multiply(const gg_args &p, const gg_ring<1> &ring)
    {
        const int m = int(p.m), n = int(p.n), k = int(p.k), lda = int(p.lda), ldb = int(p.ldb), lane = threadIdx.x % 32;
        const int down = (m + ROWS - 1) / ROWS, tiles = down * ((n + TN - 1) / TN), blocks = gridDim.x;
        constexpr int BESIDE = A_KMAJOR ? 1 : TM; /* rows of a lane that lie beside one another; lines are padded */
        const T alpha = T(p.alpha), beta = T(p.beta), *const old = static_cast<const T *>(p.workspace);
        T *const c = static_cast<T *>(p.c);
        for (int tile = cluster_rank() + blocks * int(threadIdx.x / 32); tile < tiles; tile += blocks * WARPS) {
            const int i0 = tile % down * ROWS, j0 = tile / down * TN;
            int row[TM], x[TM], y[TN];
            int64_t at[TN];
            run<T, BESIDE> was[TM / BESIDE][TN] = {};
            for (int i = 0; i < TM; i++)
                row[i] = i0 + (A_KMAJOR ? lane + 32 * i : TM * lane + i), x[i] = A_KMAJOR ? min(row[i], m - 1) : row[i];
            for (int j = 0; j < TN; j++)
                y[j] = B_KMAJOR ? min(j0 + j, n - 1) : j0 + j, at[j] = (j0 + j) * p.ldc;
#pragma unroll
            for (int j = 0; j < TN; j++)
#pragma unroll
                for (int i = 0; i < TM; i++) {
                    sum[i][j] = 0;
                    if (i % BESIDE == 0 && old && row[i] < m && j0 + j < n)
                        was[i / BESIDE][j] = run<T, BESIDE>::load(old + row[i] + at[j]);
                }
            ring.wait_full();
            int l = 0;
#pragma unroll 2
            for (; l + CHUNK <= k; l += CHUNK)
                step<CHUNK, A_KMAJOR, B_KMAJOR>(l, x, y, lda, ldb);
#pragma unroll 1
            for (; l < k; l++)
                step<1, A_KMAJOR, B_KMAJOR>(l, x, y, lda, ldb);
#pragma unroll
            for (int j = 0; j < TN; j++)
#pragma unroll
                for (int i = 0; i < TM; i += BESIDE) {
                    run<T, BESIDE> out;
#pragma unroll
                    for (int e = 0; e < BESIDE; e++)
                        out.at[e] = old ? alpha * sum[i + e][j] + beta * was[i / BESIDE][j].at[e] : alpha * sum[i + e][j];
                    if (row[i] < m && j0 + j < n)
                        *reinterpret_cast<run<T, BESIDE> *>(c + row[i] + at[j]) = out;
                }
        }
    }

    __device__ void serve(const gg_args &p)
    {
        extern __shared__ __align__(128) char memory[];
        const unsigned shared = gg_shared(memory);
        const gg_ring<1> ring(shared);
        if (threadIdx.x == 0) {
            ring.init(1, 1);
            ring.expect_full(0, bytes(p));
        }
        cluster_barrier();
        if (threadIdx.x == 0)
            copy_share(p, shared + BARRIERS, ring.full);
        a = reinterpret_cast<const T *>(memory + BARRIERS);
        b = a + (static_cast<const T *>(p.b) - static_cast<const T *>(p.a));
        if (p.a_kmajor)
            p.b_kmajor ? multiply<true, true>(p, ring) : multiply<true, false>(p, ring);
        else
            p.b_kmajor ? multiply<false, true>(p, ring) : multiply<false, false>(p, ring);
        ring.wait_full(); /* warps without a tile, too: copies arrive here */
        cluster_leave();
    }
};

template <typename T> constexpr int bytes_read = mapped<T>::BARRIERS + GG_MAPPED_BYTES + mapped<T>::ROWS * sizeof(T); /* rows beyond the last are */
static_assert(bytes_read<float> <= gg_shared_mapped_s && bytes_read<double> <= gg_shared_mapped_d, "kernels.def");

extern "C" {
__global__ void __launch_bounds__(mapped<float>::THREADS, 1) mapped_s(const __grid_constant__ gg_args p)
{
    mapped<float> self;
    self.serve(p);
}
__global__ void __launch_bounds__(mapped<double>::THREADS, 1) mapped_d(const __grid_constant__ gg_args p)
{
    mapped<double> self;
    self.serve(p);
}
}
#endif

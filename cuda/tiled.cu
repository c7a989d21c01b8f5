/* tiled — register-blocked GEMM without any instruction newer than sm_70: serves every GPU, every layout, ld, alignment and size.
 *
 * C tile (16 TM)×(16 TN), k step 8, 256 threads, TM×TN results a thread. Each thread fetches its share of the next step into registers while it
 * multiplies the current one from shared memory, then stores the share in the other buffer: one barrier a step.
 *
 *   tiled_s_128x128   8×8 floats   17 KB shared memory
 *   tiled_s_64x64     4×4 floats    9 KB, for small C
 *   tiled_d_64x64     4×4 doubles  17 KB: plain FMA, for GPUs whose FP64 has no tensor cores (there FP64 issue is the limit anyway)
 *
 * Operands are stored [k][m] and [k][n] whatever their layout in memory; rows are 16 bytes longer than the tile so that the transposing stores of a
 * k-major operand (8 k × 4 m a warp) hit 32 different banks. Loads from memory are single elements, always legal and coalesced: 32 consecutive m, or
 * 32 bytes of each of 4 rows.
 * Idea: the classic ladder (Boehm, SGEMM_CUDA kernels 6–11; CUTLASS SIMT two-stage). On Ampere and newer sgemm.cu and dgemm.cu are faster. */
#include "tile.cuh"

constexpr int THREADS = 256, TILE_K = 8;

/* One operand's share of a tile step: which elements a thread carries, and where they come from. */
template <typename T, int TILE> struct operand {
    static constexpr int COUNT = TILE * TILE_K / THREADS, PITCH = TILE + 16 / int(sizeof(T));
    static_assert(TILE * TILE_K % THREADS == 0 && THREADS % TILE == 0, "whole shares");

    const T *from;          /* element (x, l) of this thread's first share */
    int64_t step_e, step_k; /* pointer step from element to element of the share, and from tile step to tile step */
    int l, dl, dx;
    int left_x; /* element e is inside the matrix when e dx < left_x (and its k is) */
    int at;     /* where element 0 goes in a buffer; element e goes e (dl PITCH + dx) further */
    T share[COUNT];

    __device__ operand(const void *base, int64_t ld, bool kmajor, int64_t x0, int64_t size_x, int64_t k0)
    {
        const int t = threadIdx.x, x = kmajor ? t / TILE_K : t % TILE;
        l = kmajor ? t % TILE_K : t / TILE;
        dx = kmajor ? THREADS / TILE_K : 0;
        dl = kmajor ? 0 : THREADS / TILE;
        const int64_t stride_x = kmajor ? ld : 1, stride_l = kmajor ? 1 : ld;
        from = static_cast<const T *>(base) + (x0 + x) * stride_x + (k0 + l) * stride_l;
        step_e = dx * stride_x + dl * stride_l;
        step_k = TILE_K * stride_l;
        left_x = int(min(size_x - x0, int64_t(TILE))) - x;
        at = l * PITCH + x;
    }

    /* Loads this thread's share of the next step. left_k: how many k of the step exist. */
    __device__ void fetch(int64_t left_k)
    {
#pragma unroll
        for (int e = 0; e < COUNT; e++) {
            const bool inside = e * dx < left_x && l + e * dl < left_k;
            share[e] = inside ? from[e * step_e] : T(0);
        }
        from += step_k;
    }

    __device__ void store(T *buffer) const
    {
#pragma unroll
        for (int e = 0; e < COUNT; e++)
            buffer[at + e * (dl * PITCH + dx)] = share[e];
    }
};

/* Loads N values, in 16-byte vectors that are 16 threads apart: neighbouring threads read neighbouring vectors. */
template <typename T, int N> __device__ void load_fragment(T (&to)[N], const T *from)
{
    constexpr int V = 16 / sizeof(T);
    struct alignas(16) vector {
        T v[V];
    };
#pragma unroll
    for (int i = 0; i < N; i += V) {
        const vector piece = *reinterpret_cast<const vector *>(from + i * 16);
#pragma unroll
        for (int e = 0; e < V; e++)
            to[i + e] = piece.v[e];
    }
}

template <typename T, int TM, int TN> __device__ void tiled(const gg_args &p)
{
    if (gg_gated(p))
        return;
    constexpr int TILE_M = 16 * TM, TILE_N = 16 * TN, V = 16 / sizeof(T);
    static_assert(TM % V == 0 && TN % V == 0, "fragments are whole 16-byte pieces");
    using operand_a = operand<T, TILE_M>;
    using operand_b = operand<T, TILE_N>;
    __shared__ alignas(16) T shared_a[2][TILE_K * operand_a::PITCH], shared_b[2][TILE_K * operand_b::PITCH];

    const gg_tile tile = gg_work<TILE_M, TILE_N, TILE_K>(p).next(p); /* one block a tile */
    operand_a a(p.a, p.lda, p.a_kmajor, tile.m0, p.m, tile.k0);
    operand_b b(p.b, p.ldb, p.b_kmajor, tile.n0, p.n, tile.k0);
    const int tm = threadIdx.x % 16 * V, tn = threadIdx.x / 16 * V;
    T sum[TM][TN] = {};

    int64_t left_k = tile.k1 - tile.k0;
    a.fetch(left_k);
    b.fetch(left_k);
    for (int buffer = 0; left_k > 0; buffer ^= 1) {
        a.store(shared_a[buffer]);
        b.store(shared_b[buffer]);
        __syncthreads();
        left_k -= TILE_K;
        if (left_k > 0) {
            a.fetch(left_k);
            b.fetch(left_k);
        }
#pragma unroll
        for (int l = 0; l < TILE_K; l++) {
            T fa[TM], fb[TN];
            load_fragment(fa, shared_a[buffer] + l * operand_a::PITCH + tm);
            load_fragment(fb, shared_b[buffer] + l * operand_b::PITCH + tn);
#pragma unroll
            for (int i = 0; i < TM; i++)
#pragma unroll
                for (int j = 0; j < TN; j++)
                    sum[i][j] += fa[i] * fb[j];
        }
    }

    const gg_out<T, TILE_M, TILE_N> out(p, tile);
#pragma unroll
    for (int j = 0; j < TN; j++)
#pragma unroll
        for (int i = 0; i < TM; i += V) {
            T piece[V];
#pragma unroll
            for (int e = 0; e < V; e++)
                piece[e] = sum[i + e][j];
            out.put_vector(tile.m0 + i * 16 + tm, tile.n0 + j / V * (16 * V) + tn + j % V, piece);
        }
}

extern "C" {
__global__ void __launch_bounds__(THREADS, 1) tiled_s_128x128(const __grid_constant__ gg_args p) { tiled<float, 8, 8>(p); }
__global__ void __launch_bounds__(THREADS, 3) tiled_s_64x64(const __grid_constant__ gg_args p) { tiled<float, 4, 4>(p); }
__global__ void __launch_bounds__(THREADS, 2) tiled_d_64x64(const __grid_constant__ gg_args p) { tiled<double, 4, 4>(p); }
}

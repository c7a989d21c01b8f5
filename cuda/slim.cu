/* slim — m or n ≤ 16 (FP64: ≤ 4) on sm_90: the large operand X is read once, and reading it takes all the time if nothing else does.
 *
 * Y, the small operand, has up to COLUMNS columns. A block takes some rows of X and one of p.splits pieces of k; the blocks of one row block are a
 * cluster, and add up through each other's shared memory, in ascending k. One launch, no workspace.
 *
 *   X with x contiguous: a warp takes U columns of 32 vectors of 16 bytes at a time; the block's warps share out k.
 *   X with k contiguous: a warp takes ROWS rows, U vectors of 512 bytes of each at a time; its lanes share out k.
 *
 * The U (× ROWS) vectors of a thread are a ring: each is loaded again as soon as it is multiplied, so that up to 64 KB a block are on their way at
 * any time; on an H200 more of it, in two blocks an SM, is slower where x is contiguous. Y comes to shared memory a CHUNK of k ahead, by cp.async.
 * Where 16-byte loads are illegal, and in a last block that is not full, X is loaded by elements: slow, and select.c knows.
 *
 * H200, n or m = 1 of 4096×4096, L2 flushed: FP32 26 to 28 us of which 16 are reading at 4.2 TB/s, FP64 41 to 44 of 32. 16 columns of 16384×16384:
 * 375 to 500 us of 250, the rest Y. slim_s4 spills 24 bytes, outside its loops. */
#include "pipeline.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
constexpr int THREADS = 256, WARPS = THREADS / 32;

template <typename T> struct alignas(16) slim_vector {
    static constexpr int SIZE = 16 / sizeof(T);
    T v[SIZE];
};

/* Read once: not to be kept in L1. */
template <typename T> __device__ inline slim_vector<T> load_vector(const T *at)
{
    union {
        float4 raw;
        slim_vector<T> v;
    } to;
    asm volatile("ld.global.nc.L1::no_allocate.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(to.raw.x), "=f"(to.raw.y), "=f"(to.raw.z), "=f"(to.raw.w)
                 : "l"(at));
    return to.v;
}

template <typename T> __device__ inline T remote(const T *shared, unsigned rank)
{
    unsigned at;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(at) : "r"(gg_shared(shared)), "r"(rank));
    T value;
    if constexpr (sizeof(T) == 4)
        asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(value) : "r"(at) : "memory");
    else
        asm volatile("ld.shared::cluster.f64 %0, [%1];" : "=d"(value) : "r"(at) : "memory");
    return value;
}

/* G: groups of 32 vectors of rows a block, x contiguous; U columns at a time. ROWS a warp, k contiguous; UK vectors of each at a time. */
template <typename T, int COLUMNS, int UX, int G, int UK, int ROWS, int CHUNK> struct slim {
    using vector = slim_vector<T>;
    static constexpr int V = vector::SIZE, GROUP = 32 * V, SLICES = WARPS / G;
    static constexpr int BLOCK_X = G * GROUP, BLOCK_K = WARPS * ROWS, MOST = BLOCK_X > BLOCK_K ? BLOCK_X : BLOCK_K;
    static constexpr int PITCH = CHUNK + V, BUFFER = COLUMNS * PITCH; /* Y: [column][k], or [k][column] where x is contiguous */
    static constexpr int PARTS = WARPS * COLUMNS * GROUP;             /* in the same place, at the end */
    static constexpr int Y = 2 * BUFFER > PARTS ? 2 * BUFFER : PARTS;
    static constexpr int SHARED = (Y + COLUMNS * MOST) * int(sizeof(T));

    const gg_args &p;
    T *const y, *const total; /* shared */
    const T *x;
    int64_t size_x, ld;        /* rows of X, its leading dimension */
    bool swapped, kmajor, vec; /* X is B: C(i, j) is (y, x); k is contiguous in X; 16-byte loads are legal */
    unsigned rank;
    int64_t block_x, first, last; /* of X's rows and of k */

    __device__ slim(const gg_args &args, char *shared, int most_columns) : p(args), y(reinterpret_cast<T *>(shared)), total(y + Y)
    {
        swapped = p.n > most_columns;
        x = static_cast<const T *>(swapped ? p.b : p.a);
        size_x = swapped ? p.n : p.m;
        ld = swapped ? p.ldb : p.lda;
        kmajor = swapped ? p.b_kmajor : p.a_kmajor;
        vec = swapped ? p.b_vec : p.a_vec;
        const unsigned shift = __ffs(p.splits) - 1; /* a power of two */
        rank = blockIdx.x & (p.splits - 1);
        block_x = int64_t(blockIdx.x >> shift) * (kmajor ? BLOCK_K : BLOCK_X);
        const int unit = kmajor ? GROUP : 1;
        const int64_t units = (p.k + unit - 1) / unit;
        first = min(p.k, (units * rank >> shift) * unit);
        last = min(p.k, (units * (rank + 1) >> shift) * unit);
    }

    /* Asks for Y's k from `k` on; rounded up to a turn, with zeros. */
    template <bool KMAJOR, int TURN> __device__ __forceinline__ void ask(T *to, int64_t k) const
    {
        const int depth = int(min(last - k, int64_t(CHUNK))), filled = (depth + TURN - 1) / TURN * TURN;
        const T *const from_y = static_cast<const T *>(swapped ? p.a : p.b);
        const bool by_k = swapped ? p.a_kmajor : p.b_kmajor;
        const int64_t y_ld = swapped ? p.lda : p.ldb, y_y = by_k ? y_ld : 1, y_l = by_k ? 1 : y_ld;
        const int size_y = int(swapped ? p.m : p.n);
#pragma unroll 4
        for (int e = threadIdx.x; e < COLUMNS * filled; e += THREADS) {
            const int c = COLUMNS == 1 ? 0 : by_k ? e / filled : e % COLUMNS, l = COLUMNS == 1 ? e : by_k ? e % filled : e / COLUMNS;
            const bool is = c < size_y && l < depth;
            const T *const from = is ? from_y + c * y_y + (k + l) * y_l : from_y;
            asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(gg_shared(to + (KMAJOR ? c * PITCH + l : l * COLUMNS + c))), "l"(from),
                         "n"(sizeof(T)), "r"(is ? int(sizeof(T)) : 0)
                         : "memory");
        }
    }

    /* Calls turns(y, its k, turns that a whole one follows, whole turns, all turns) for every chunk of the piece. */
    template <bool KMAJOR, int TURN, typename F> __device__ __forceinline__ void chunks(F turns) const
    {
        static_assert(CHUNK % TURN == 0, "turns end within a chunk");
        T *now = y, *next = y + BUFFER;
        for (int64_t k = first; k < last; k += CHUNK) {
            asm volatile("cp.async.wait_all;" ::: "memory");
            __syncthreads();
            if (k + CHUNK < last)
                ask<KMAJOR, TURN>(next, k + CHUNK);
            const int depth = int(min(last - k, int64_t(CHUNK))), whole = depth / TURN, all = (depth + TURN - 1) / TURN;
            turns(now, depth, last - k >= CHUNK + TURN ? all : max(whole - 1, 0), whole, all);
            T *const swap = now;
            now = next, next = swap;
        }
        __syncthreads();
    }

    /* FAST: whole vectors of rows that all exist. */
    template <bool FAST, int U> __device__ __forceinline__ void rows()
    {
        constexpr int TURN = U * SLICES;
        const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, group = warp % G, slice = warp / G;
        const int64_t xx = block_x + group * GROUP + lane * V;
        const T *at = x + (FAST ? xx : 0) + (first + slice * U) * ld;
        T sum[COLUMNS][V] = {};
        vector in[U];

        auto load = [&](int u) {
            if constexpr (FAST)
                in[u] = load_vector(at + u * ld);
            else
#pragma unroll
                for (int e = 0; e < V; e++)
                    in[u].v[e] = (at + u * ld)[min(xx + e, size_x - 1)];
        };
        /* The products of U columns; then(u) after each. */
        auto use = [&](const T *from, auto then) {
            constexpr int TAKE = COLUMNS >= V ? 1 : V / COLUMNS;
#pragma unroll
            for (int u0 = 0; u0 < U; u0 += TAKE) {
                vector value[TAKE * COLUMNS / V];
#pragma unroll
                for (int i = 0; i < TAKE * COLUMNS / V; i++)
                    value[i] = *reinterpret_cast<const vector *>(from + u0 * COLUMNS + i * V);
#pragma unroll
                for (int u = u0; u < u0 + TAKE; u++) {
#pragma unroll
                    for (int c = 0; c < COLUMNS; c++)
#pragma unroll
                        for (int e = 0; e < V; e++) {
                            const int i = (u - u0) * COLUMNS + c;
                            sum[c][e] += in[u].v[e] * value[i / V].v[i % V];
                        }
                    then(u);
                }
            }
        };
        ask<false, TURN>(y, first);
        if (last - first >= TURN)
#pragma unroll
            for (int u = 0; u < U; u++)
                load(u);
        chunks<false, TURN>([&](const T *chunk, int depth, int ring, int whole, int all) {
            const T *from = chunk + slice * U * COLUMNS;
            int turn = 0;
#pragma unroll 1
            for (; turn < ring; turn++, from += TURN * COLUMNS) {
                at += TURN * ld;
                use(from, load);
            }
            if (turn < whole) {
                at += TURN * ld;
                use(from, [](int) {});
                turn++, from += TURN * COLUMNS;
            }
            if (turn < all) {
#pragma unroll
                for (int u = 0; u < U; u++)
                    if (turn * TURN + slice * U + u < depth)
                        load(u);
                    else
                        in[u] = {};
                use(from, [](int) {});
            }
        });
#pragma unroll
        for (int c = 0; c < COLUMNS; c++)
            *reinterpret_cast<vector *>(&y[(warp * COLUMNS + c) * GROUP + lane * V]) = *reinterpret_cast<vector *>(sum[c]);
        __syncthreads();
        for (int e = threadIdx.x; e < COLUMNS * BLOCK_X; e += THREADS) {
            const int c = e / BLOCK_X, row = e % BLOCK_X;
            T s = 0;
#pragma unroll
            for (int other = 0; other < SLICES; other++)
                s += y[((other * G + row / GROUP) * COLUMNS + c) * GROUP + row % GROUP];
            total[e] = s;
        }
    }

    /* FAST: 16-byte loads are legal, and all rows exist; else those beyond the last repeat it. */
    template <bool FAST, int U> __device__ __forceinline__ void dots()
    {
        constexpr int TURN = U * GROUP;
        const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        const T *row[ROWS];
        T sum[COLUMNS][ROWS] = {};
        vector in[U][ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            row[r] = x + min(block_x + warp * ROWS + r, size_x - 1) * ld + first + lane * V;

        auto load = [&](int u) {
            const T *from = row[0] + u * GROUP;
#pragma unroll
            for (int r = 0; r < ROWS; r++)
                if constexpr (FAST) {
                    in[u][r] = load_vector(from);
                    from += ld;
                    asm("" : "+l"(from)); /* one pointer, not ROWS of them */
                } else
#pragma unroll
                    for (int e = 0; e < V; e++)
                        in[u][r].v[e] = row[r][u * GROUP + e];
        };
        auto use = [&](const T *from, auto then) {
#pragma unroll
            for (int u = 0; u < U; u++) {
#pragma unroll
                for (int c = 0; c < COLUMNS; c++) {
                    const vector value = *reinterpret_cast<const vector *>(from + c * PITCH + u * GROUP);
#pragma unroll
                    for (int e = 0; e < V; e++)
#pragma unroll
                        for (int r = 0; r < ROWS; r++)
                            sum[c][r] += in[u][r].v[e] * value.v[e];
                }
                then(u);
            }
        };
        auto step = [&] {
#pragma unroll
            for (int r = 0; r < (FAST ? 1 : ROWS); r++)
                row[r] += TURN;
        };
        ask<true, TURN>(y, first);
        if (last - first >= TURN)
#pragma unroll
            for (int u = 0; u < U; u++)
                load(u);
        chunks<true, TURN>([&](const T *chunk, int depth, int ring, int whole, int all) {
            const T *from = chunk + lane * V;
            int turn = 0;
#pragma unroll 1
            for (; turn < ring; turn++, from += TURN) {
                step();
                use(from, load);
            }
            if (turn < whole) {
                step();
                use(from, [](int) {});
                turn++, from += TURN;
            }
            if (turn < all) {
                const int left = depth - turn * TURN - lane * V, odd = depth % V; /* k from row[] on, and after the last whole vector */
#pragma unroll
                for (int u = 0; u < U; u++) {
                    if (FAST && u * GROUP + V <= left)
                        load(u);
                    else
#pragma unroll
                        for (int r = 0; r < ROWS; r++)
#pragma unroll
                            for (int e = 0; e < V; e++)
                                in[u][r].v[e] = !FAST && u * GROUP + e < left ? row[r][u * GROUP + e] : T(0);
                }
                use(from, [](int) {});
                const int at = depth - turn * TURN - odd + lane;
                if (FAST && lane < odd)
#pragma unroll
                    for (int r = 0; r < ROWS; r++) {
                        const T value = (row[0] - lane * V + r * ld)[at];
#pragma unroll
                        for (int c = 0; c < COLUMNS; c++)
                            sum[c][r] += value * (from - lane * V)[c * PITCH + at];
                    }
            }
        });
#pragma unroll
        for (int c = 0; c < COLUMNS; c++)
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                T s = sum[c][r];
#pragma unroll
                for (int other = 16; other > 0; other /= 2)
                    s += __shfl_xor_sync(~0u, s, other);
                if (lane == 0)
                    total[c * BLOCK_K + warp * ROWS + r] = s;
            }
    }

    /* Adds up the totals of the cluster's blocks, each block some of them. */
    template <int BLOCK> __device__ __forceinline__ void finish() const
    {
        const T alpha = T(p.alpha), beta = T(p.beta);
        if (p.splits > 1)
            asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
        else
            __syncthreads();
        const int share = COLUMNS * BLOCK / p.splits;
        for (int e = rank * share + threadIdx.x; e < (rank + 1) * share; e += THREADS) {
            const int c = e / BLOCK;
            const int64_t xx = block_x + e % BLOCK;
            T s = 0;
            if (p.splits == 1)
                s = total[e];
            else
#pragma unroll 8
                for (int other = 0; other < p.splits; other++)
                    s += remote(&total[e], other);
            if (xx < size_x && c < int(swapped ? p.m : p.n)) {
                T *const to = static_cast<T *>(p.c) + (swapped ? c + xx * p.ldc : xx + c * p.ldc);
                *to = beta == T(0) ? alpha * s : alpha * s + beta * *to;
            }
        }
        if (p.splits > 1) /* others may still be reading this block's totals */
            asm volatile("barrier.cluster.arrive.relaxed;\nbarrier.cluster.wait;" ::: "memory");
    }

    static __device__ __forceinline__ void run(const gg_args &p, int most_columns)
    {
        extern __shared__ __align__(16) char shared[];
        slim s(p, shared, most_columns);
        if (s.kmajor) {
            if (s.vec && s.block_x + BLOCK_K <= s.size_x)
                s.template dots<true, UK>();
            else
                s.template dots<false, 1>();
            s.template finish<BLOCK_K>();
            return;
        }
        if (s.vec && s.block_x + BLOCK_X <= s.size_x)
            s.template rows<true, UX>();
        else
            s.template rows<false, 4>();
        s.template finish<BLOCK_X>();
    }
};

using s1 = slim<float, 1, 16, 1, 4, 4, 1024>;
using s4 = slim<float, 4, 8, 1, 2, 4, 1024>;
using s16 = slim<float, 16, 16, 1, 2, 8, 512>;
using d1 = slim<double, 1, 8, 1, 4, 2, 1024>;
using d4 = slim<double, 4, 8, 1, 2, 2, 1024>;
static_assert(s1::BLOCK_K == s4::BLOCK_K && d1::BLOCK_K == d4::BLOCK_K, "one row");
static_assert(s1::SHARED <= gg_shared_slim_s4 && s4::SHARED <= gg_shared_slim_s4 && s16::SHARED <= gg_shared_slim_s16, "kernels.def");
static_assert(d1::SHARED <= gg_shared_slim_d4 && d4::SHARED <= gg_shared_slim_d4, "kernels.def");

extern "C" {
__global__ void __launch_bounds__(THREADS, 2) slim_s4(const __grid_constant__ gg_args p)
{
    if ((p.n > 4 ? p.m : p.n) == 1)
        s1::run(p, 4);
    else
        s4::run(p, 4);
}
__global__ void __launch_bounds__(THREADS, 1) slim_s16(const __grid_constant__ gg_args p) { s16::run(p, 16); }
__global__ void __launch_bounds__(THREADS, 2) slim_d4(const __grid_constant__ gg_args p)
{
    if ((p.n > 4 ? p.m : p.n) == 1)
        d1::run(p, 4);
    else
        d4::run(p, 4);
}
}
#endif

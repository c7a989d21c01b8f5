/* tile.cuh — what every tiled kernel shares: which tile of C a block works on, and how results reach C.
 *
 * Persistent kernels first take whole tiles in turn. The last p.shared_tiles of them, which would leave blocks idle, are shared along k ("stream-K",
 * Osama et al. 2023): each block has a run, an equal share of their k steps. A run may cover the end of one tile, a whole one and the beginning of
 * another. A part of a tile goes to one of the block's two workspace slots, and gg_fixup (plain.cu) adds a tile's parts in ascending k: the sum
 * depends on the grid, never on timing.
 *
 * Indices that can exceed 2^31 are int64_t; offsets inside a tile are int. */
#ifndef GG_TILE_CUH
#define GG_TILE_CUH

#include "gate.cuh"

/* The shared memory in the rows of kernels.def, for the kernels to check theirs against. */
#define GG_KERNEL(name, file, type, role, cc_min, cc_max, tile_m, tile_n, tile_k, threads, smem, per_sm, rate, start)                                \
    enum { gg_shared_##name = smem };
#include "kernels.def"
#undef GG_KERNEL

/* Fewest k steps in a part of a tile. */
enum { GG_SHORTEST_PART = 8 };

__device__ inline int64_t gg_ceil_div(int64_t x, int64_t by) { return (x + by - 1) / by; }

/* The tile of C whose first element is (m0, n0), summed over k in [k0, k1), `steps` k steps. slot -1: all of k; else the workspace slot for the part.
 * With p.move_back a tile at the lower or right edge is moved back until it is full (if C is large enough), so that its loads need no bounds checks
 * (TMA checks by itself, and wants 16-byte coordinates). Results before (own_m, own_n) are its neighbours', and it does not store them. */
struct gg_tile {
    int64_t m0, n0, own_m, own_n, k0, k1;
    int steps, slot;
};

/* The place of tile `index`. Tiles go down the columns of a band of GROUP tile rows, band after band, so that the blocks running at one time touch
 * few distinct panels of A and B, which stay in L2. */
__device__ inline void gg_place(const gg_args &p, int64_t index, int tile_m, int tile_n, gg_tile &t)
{
    constexpr int64_t GROUP = 8;
    const int64_t tiles_m = gg_ceil_div(p.m, tile_m), tiles_n = gg_ceil_div(p.n, tile_n);
    const int64_t band = index / (GROUP * tiles_n), in_band = index % (GROUP * tiles_n);
    const int64_t rows = min(GROUP, tiles_m - band * GROUP);
    t.own_m = (band * GROUP + in_band % rows) * tile_m;
    t.own_n = in_band / rows * tile_n;
    t.m0 = p.move_back ? max(int64_t(0), min(t.own_m, p.m - tile_m)) : t.own_m;
    t.n0 = p.move_back ? max(int64_t(0), min(t.own_n, p.n - tile_n)) : t.own_n;
}

/* First step of block `block`'s run, counted in k steps of all shared tiles: an equal share, moved to a tile's edge when closer than
 * GG_SHORTEST_PART. 64-bit division is slow enough to matter in gg_fixup, and hardly ever needed. */
__device__ inline int64_t gg_run_start(int64_t shared_steps, int64_t steps, int block, int blocks)
{
    const int64_t product = shared_steps * block;
    int64_t at, in_tile;
    if (shared_steps * blocks < int64_t(1) << 32) {
        at = unsigned(product) / unsigned(blocks);
        in_tile = unsigned(at) % unsigned(steps);
    } else {
        at = product / blocks;
        in_tile = at % steps;
    }
    if (in_tile < GG_SHORTEST_PART)
        return at - in_tile;
    return steps - in_tile < GG_SHORTEST_PART ? at - in_tile + steps : at;
}

/* The work of a block: whole tiles, then its run of the shared ones. */
template <int TILE_M, int TILE_N, int TILE_K> struct gg_work {
    int64_t index, whole, at, end; /* next whole tile, their number; next step of the run, its end */

    __device__ gg_work(const gg_args &p)
    {
        const int64_t tiles = gg_ceil_div(p.m, TILE_M) * gg_ceil_div(p.n, TILE_N), steps = gg_ceil_div(p.k, TILE_K);
        index = blockIdx.x;
        whole = tiles - p.shared_tiles;
        at = gg_run_start(p.shared_tiles * steps, steps, blockIdx.x, gridDim.x);
        end = gg_run_start(p.shared_tiles * steps, steps, blockIdx.x + 1, gridDim.x);
    }

    __device__ bool more() const { return index < whole || at < end; }

    __device__ gg_tile next(const gg_args &p)
    {
        const int64_t steps = gg_ceil_div(p.k, TILE_K);
        gg_tile t;
        if (index < whole) {
            gg_place(p, index, TILE_M, TILE_N, t);
            index += gridDim.x;
            t.k0 = 0;
            t.steps = int(steps);
        } else {
            const int64_t tile = at / steps, first = at % steps;
            gg_place(p, whole + tile, TILE_M, TILE_N, t);
            t.k0 = first * TILE_K;
            t.steps = int(min(steps - first, end - at));
            at += t.steps;
        }
        t.k1 = min(p.k, t.k0 + int64_t(t.steps) * TILE_K);
        t.slot = t.steps == steps ? -1 : 2 * int(blockIdx.x) + (t.k0 == 0);
        return t;
    }
};

/* C := alpha sum + beta C, of one element. beta == 0 never reads C. */
template <typename T> __device__ inline void gg_store(const gg_args &p, T *c, T sum)
{
    *c = p.beta == 0 ? T(p.alpha) * sum : T(p.alpha) * sum + T(p.beta) * *c;
}

/* Files whose kernels read C are compiled for that too (cmake/cuda.cmake): with GG_UPDATE 0 for beta == 0, where C is only written, and 1 for calls
 * that read it. One code for both was slower where C is not read, 2 to 9 % in short calls: it is longer, and ptxas arranges its main loops
 * differently. */

/* If C is read: asks for ROWS × COLUMNS of it from (m, n) on to be brought to L2, 128 bytes with each instruction. Called by `threads` threads before
 * they multiply, because a tile's C is read when nothing else is left to do. (One thread with cp.async.bulk.prefetch takes 43 clocks a column.) */
template <typename T, int ROWS, int COLUMNS> __device__ inline void gg_fetch_c(const gg_args &p, int64_t m, int64_t n, int thread, int threads)
{
#if GG_UPDATE && __CUDA_ARCH__ >= 800
    constexpr int LINE = 128, EACH = LINE / int(sizeof(T)), PIECES = (ROWS + EACH - 1) / EACH;
    const int rows = int(min(p.m - m, int64_t(ROWS))), columns = int(min(p.n - n, int64_t(COLUMNS)));
    const T *const c = static_cast<const T *>(p.c) + m + n * p.ldc;
#pragma unroll 1
    for (int x = thread; x < PIECES * columns; x += threads)
        if (const int i = x % PIECES * EACH; i < rows)
            asm volatile("prefetch.global.L2 [%0];" ::"l"(c + i + x / PIECES * p.ldc) : "memory");
#endif
}

/* Some files are compiled again (cmake/cuda.cmake), with GG_WHOLE 1, for calls in which no tile's k is cut among blocks: without all that adds up parts
 * the code is half as long. A short call's code is not in the SMs' caches, because another kernel ran before, and the shorter it is, the sooner it is
 * there: 384 by dgemm_tma_32x64 9.4 us instead of 10.5, 640x640x300 by 64x64 12.5 and 14.6, where C is read 14.9 and 19.0. */
#ifndef GG_WHOLE
#define GG_WHOLE 0
#endif

/* The same, with GG_CUT 1, for calls that cut every tile in one way. dgemm_tma: among the blocks of a cluster, or several (256x256x512 by 32x64 in
 * clusters of 2 9.5 us instead of 10.2, of 8 11.5 and 12.9; by 16x128 in 2 9.6 and 11.1). Its other code needs none of that: 64x64's is then 5000
 * instructions instead of 8000. sgemm_tma_once: among single blocks, which gather it (gather.cuh); its other code must stay as it is, or ptxas numbers
 * other registers. */
#ifndef GG_CUT
#define GG_CUT 0
#endif

#ifdef GG_UPDATE /* what stores to C, in files that may read it */

/* Calls put(x, old(x)) for x = 0 … COUNT - 1. Where C is read AT_ONCE loads are under way together: no compiler moves a load before a store to C, so
 * loads and stores in turn wait for memory one after the other. */
template <int COUNT, int AT_ONCE, typename OLD, typename PUT> __device__ inline void gg_put_all(bool reads, OLD old, PUT put)
{
#pragma unroll
    for (int from = 0; from < COUNT; from += AT_ONCE) {
        decltype(old(0)) was[AT_ONCE] = {};
        if (GG_UPDATE && reads)
#pragma unroll
            for (int x = 0; x < AT_ONCE; x++)
                if (from + x < COUNT)
                    was[x] = old(from + x);
#pragma unroll
        for (int x = 0; x < AT_ONCE; x++)
            if (from + x < COUNT)
                put(from + x, was[x]);
    }
}

/* Where the results of a tile go: to C itself, or to a slot of partial sums. */
template <typename T, int TILE_M, int TILE_N> struct gg_out {
    T *c;
    int64_t ld, own_m, own_n, m, n;
    T alpha, beta;
    bool vec;

    __device__ gg_out(const gg_args &p, const gg_tile &t)
    {
        const bool whole = t.slot < 0;
        own_m = whole ? t.own_m : t.m0; /* a slot is written completely, so that gg_fixup reads nothing uninitialised */
        own_n = whole ? t.own_n : t.n0;
        m = whole ? p.m : t.m0 + TILE_M;
        n = whole ? p.n : t.n0 + TILE_N;
        ld = whole ? p.ldc : TILE_M;
        c = whole ? static_cast<T *>(p.c) : static_cast<T *>(p.workspace) + int64_t(t.slot) * (TILE_M * TILE_N) - t.m0 - t.n0 * TILE_M;
        alpha = whole ? T(p.alpha) : T(1);
        beta = GG_UPDATE && whole ? T(p.beta) : T(0);
        vec = whole ? p.c_vec && t.m0 % (16 / int(sizeof(T))) == 0 : true;
    }

    /* Can 16-byte stores write all of the tile that is C's? */
    __device__ bool vectors() const { return vec && (m - own_m) % (16 / int(sizeof(T))) == 0; }

    /* And without reading C? If so a kernel should store it by code of its own, few instructions in one piece: in a short call the instructions come
     * from memory. */
    __device__ bool plain() const { return vectors() && !reads(); }

    __device__ bool reads() const { return GG_UPDATE && beta != T(0); }

    /* Does C(i, j) exist and belong to this tile? */
    __device__ bool owns(int64_t i, int64_t j) const { return i >= own_m && i < m && j >= own_n && j < n; }

    /* C(i, j) as it is, where it counts. beta == 0 never reads C. See gg_put_all. */
    __device__ T old(int64_t i, int64_t j) const { return reads() && owns(i, j) ? c[i + j * ld] : T(0); }

    /* Stores C(i, j), if it is this tile's. */
    __device__ void put(int64_t i, int64_t j, T sum, T was) const
    {
        if (owns(i, j))
            c[i + j * ld] = reads() ? alpha * sum + beta * was : alpha * sum;
    }

    __device__ void put(int64_t i, int64_t j, T sum) const { put(i, j, sum, old(i, j)); }

    /* The same for the 16 bytes of C(i…, j); i is m0 plus a multiple of their number of elements. */
    static constexpr int N = 16 / sizeof(T);
    struct alignas(16) vector {
        T v[N];
    };
    __device__ vector old_vector(int64_t i, int64_t j) const
    {
        vector was = {};
        if (!reads() || j < own_n || j >= n)
            return was;
        if (vec && i >= own_m && i + N <= m)
            return *reinterpret_cast<const vector *>(c + i + j * ld);
        for (int e = 0; e < N; e++)
            was.v[e] = old(i + e, j);
        return was;
    }

    __device__ void put_vector(int64_t i, int64_t j, const T (&sum)[N], const vector &was) const
    {
        if (!vec || i < own_m || i + N > m) {
            for (int e = 0; e < N; e++)
                put(i + e, j, sum[e], was.v[e]);
            return;
        }
        if (j < own_n || j >= n)
            return;
        vector out;
        for (int e = 0; e < N; e++)
            out.v[e] = reads() ? alpha * sum[e] + beta * was.v[e] : alpha * sum[e];
        *reinterpret_cast<vector *>(c + i + j * ld) = out;
    }

    __device__ void put_vector(int64_t i, int64_t j, const T (&sum)[N]) const { put_vector(i, j, sum, old_vector(i, j)); }
};

#endif /* GG_UPDATE */

#endif

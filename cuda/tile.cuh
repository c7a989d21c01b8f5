/* tile.cuh — what every tiled kernel shares: which tile of C a block works on, and how results reach C.
 *
 * Indices that can exceed 2^31 are int64_t; offsets inside a tile are int. */
#ifndef GG_TILE_CUH
#define GG_TILE_CUH

#include "kernel.h"

/* One piece of work: the tile of C whose first element is (m0, n0), summed over k in [k0, k1). */
struct gg_tile {
    int64_t m0, n0, k0, k1;
    int split;
};

template <int TILE_M, int TILE_N>
__device__ inline int64_t gg_tile_count(const gg_args &p)
{
    return ((p.m + TILE_M - 1) / TILE_M) * ((p.n + TILE_N - 1) / TILE_N) * p.splits;
}

/* Item number -> tile. All tiles of split 0 come first. Tiles go down the columns of a band of GROUP tile rows, band after band, so that
 * the blocks running at one time touch few distinct panels of A and B and those stay in L2. Splits are cut at multiples of TILE_K. */
template <int TILE_M, int TILE_N, int TILE_K>
__device__ inline gg_tile gg_tile_at(const gg_args &p, int64_t item)
{
    constexpr int64_t GROUP = 8;
    const int64_t tiles_m = (p.m + TILE_M - 1) / TILE_M, tiles_n = (p.n + TILE_N - 1) / TILE_N;
    const int64_t tiles = tiles_m * tiles_n, steps = (p.k + TILE_K - 1) / TILE_K;
    const int64_t split = item / tiles, tile = item % tiles;
    const int64_t band = tile / (GROUP * tiles_n), in_band = tile % (GROUP * tiles_n);
    const int64_t rows = min(GROUP, tiles_m - band * GROUP);

    gg_tile t;
    t.m0 = (band * GROUP + in_band % rows) * TILE_M;
    t.n0 = in_band / rows * TILE_N;
    t.k0 = steps * split / p.splits * TILE_K;
    t.k1 = min(p.k, steps * (split + 1) / p.splits * TILE_K);
    t.split = int(split);
    return t;
}

/* Where a block's results go: C itself, or the dense array of this split's partial sums. */
template <typename T>
struct gg_out {
    T *c;
    int64_t ld, m, n;
    T alpha, beta;
    bool vec;

    __device__ gg_out(const gg_args &p, int split)
    {
        const bool whole = p.splits == 1;
        c = whole ? static_cast<T *>(p.c) : static_cast<T *>(p.workspace) + split * p.m * p.n;
        ld = whole ? p.ldc : p.m;
        m = p.m;
        n = p.n;
        alpha = whole ? T(p.alpha) : T(1);
        beta = whole ? T(p.beta) : T(0);
        vec = whole ? p.c_vec : p.m % (16 / int(sizeof(T))) == 0;
    }

    __device__ T combine(T sum, T old) const { return alpha * sum + beta * old; }

    /* C(i, j), if it exists. beta == 0 never reads it. */
    __device__ void put(int64_t i, int64_t j, T sum) const
    {
        if (i >= m || j >= n)
            return;
        T *at = c + i + j * ld;
        *at = beta == T(0) ? alpha * sum : combine(sum, *at);
    }

    /* The 16 bytes of C(i…, j); i is a multiple of their number. */
    __device__ void put_vector(int64_t i, int64_t j, const T (&sum)[16 / sizeof(T)]) const
    {
        constexpr int N = 16 / sizeof(T);
        if (!vec || i + N > m) {
            for (int e = 0; e < N; e++)
                put(i + e, j, sum[e]);
            return;
        }
        if (j >= n)
            return;
        struct alignas(16) vector {
            T v[N];
        } out, *at = reinterpret_cast<vector *>(c + i + j * ld);
        if (beta == T(0)) {
            for (int e = 0; e < N; e++)
                out.v[e] = alpha * sum[e];
        } else {
            const vector old = *at;
            for (int e = 0; e < N; e++)
                out.v[e] = combine(sum[e], old.v[e]);
        }
        *at = out;
    }
};

#endif

/* plain — the oracle, and the passes over memory that the other kernels share.
 *
 *   plain_s, plain_d     one thread an element of C, k products in ascending order. Legal for every problem on every GPU: the
 *                        last resort of select.c and what the tests compare the fast rows with. A few percent of the peak.
 *   gg_scale_s, _d       C := beta C, for k == 0 or alpha == 0 (A and B are not read; the sign of zero is that of beta C).
 *   gg_fixup_s, _d       C := alpha (part + part + …) + beta C for the tiles that tile.cuh cut along k, parts in ascending k.
 *   gg_pack_s            c[i + l ldc] = op(A)(i, l): lays an operand out for TMA, m contiguous and 16-byte rows. 32×32 elements a block
 *                        through shared memory when it has to be transposed.
 *
 * plain and gg_scale walk C by columns in blocks of 256 rows, 64-bit indices, any grid. */
#include "tile.cuh"

constexpr int THREADS = 256;

/* Calls f(i, j) for every element of an m×n matrix. Consecutive threads take consecutive rows, which are contiguous. */
template <typename F>
__device__ void for_each_element(const gg_args &p, F f)
{
    const int64_t blocks_m = (p.m + THREADS - 1) / THREADS;
    for (int64_t block = blockIdx.x; block < blocks_m * p.n; block += gridDim.x) {
        const int64_t i = block % blocks_m * THREADS + threadIdx.x;
        if (i < p.m)
            f(i, block / blocks_m);
    }
}

template <typename T>
__device__ void plain(const gg_args &p)
{
    const T *a = static_cast<const T *>(p.a), *b = static_cast<const T *>(p.b);
    T *c = static_cast<T *>(p.c);
    const T alpha = T(p.alpha), beta = T(p.beta);
    const int64_t a_i = p.a_kmajor ? p.lda : 1, a_l = p.a_kmajor ? 1 : p.lda;
    const int64_t b_j = p.b_kmajor ? p.ldb : 1, b_l = p.b_kmajor ? 1 : p.ldb;
    for_each_element(p, [=](int64_t i, int64_t j) {
        T sum = 0;
        for (int64_t l = 0; l < p.k; l++)
            sum += a[i * a_i + l * a_l] * b[j * b_j + l * b_l];
        T *out = c + i + j * p.ldc;
        *out = beta == T(0) ? alpha * sum : alpha * sum + beta * *out;
    });
}

template <typename T>
__device__ void scale(const gg_args &p)
{
    T *c = static_cast<T *>(p.c);
    const T beta = T(p.beta);
    for_each_element(p, [=](int64_t i, int64_t j) {
        T *out = c + i + j * p.ldc;
        *out = beta == T(0) ? T(0) : beta * *out;
    });
}

/* Block (b, y): the tile in whose inside block b's run starts, if that is the first to do so; y: which p.each elements of the tile.
 * With fewer of those than threads, the parts are dealt out to groups of threads in consecutive shares, and the shares added in order. */
template <typename T>
__device__ void fixup(const gg_args &p)
{
    __shared__ T share[THREADS];
    const int64_t steps = gg_ceil_div(p.k, p.tile_k), shared_steps = p.shared_tiles * steps;
    const int first = blockIdx.x + 1;
    const int64_t cut = gg_run_start(shared_steps, steps, first, p.blocks), tile_start = cut - cut % steps;
    if (cut == tile_start || gg_run_start(shared_steps, steps, first - 1, p.blocks) > tile_start)
        return;
    int last = max(first, int((tile_start + steps) * p.blocks / shared_steps) - 1); /* the last block that starts inside the tile */
    while (gg_run_start(shared_steps, steps, last + 1, p.blocks) < tile_start + steps)
        last++;
    while (gg_run_start(shared_steps, steps, last, p.blocks) >= tile_start + steps)
        last--;

    /* Part 0 is in the second slot of block first - 1, part q > 0 in the first slot of block first - 1 + q. */
    const int parts = last - first + 2, size = p.tile_m * p.tile_n, lanes = min(p.each, THREADS), groups = THREADS / lanes;
    const int group = threadIdx.x / lanes, lane = threadIdx.x % lanes;
    gg_tile tile;
    gg_place(p, gg_ceil_div(p.m, p.tile_m) * gg_ceil_div(p.n, p.tile_n) - p.shared_tiles + tile_start / steps, p.tile_m, p.tile_n, tile);
    const T alpha = T(p.alpha), beta = T(p.beta);
#pragma unroll 4
    for (int e = lane; e < p.each; e += lanes) {
        const int element = blockIdx.y * p.each + e;
        const T *slot = static_cast<const T *>(p.workspace) + 2 * int64_t(first - 1) * size + element;
        T sum = 0;
#pragma unroll 4
        for (int q = parts * group / groups; q < parts * (group + 1) / groups; q++)
            sum += slot[int64_t(2 * q + (q == 0)) * size];
        if (groups > 1) { /* then this loop has one turn */
            share[threadIdx.x] = sum;
            __syncthreads();
            for (int g = 1; g < groups; g++)
                sum += share[(g * lanes + lane) % THREADS]; /* right in group 0, which alone uses it */
        }
        const int64_t i = tile.m0 + element % p.tile_m, j = tile.n0 + element / p.tile_m;
        T *out = static_cast<T *>(p.c) + i + j * p.ldc;
        if (group == 0 && i < p.m && j < p.n)
            *out = beta == T(0) ? alpha * sum : alpha * sum + beta * *out;
    }
}

template <typename T>
__device__ void pack(const gg_args &p)
{
    constexpr int TILE = 32, ROWS = THREADS / TILE;
    __shared__ T tile[TILE][TILE + 1];
    const T *a = static_cast<const T *>(p.a);
    T *c = static_cast<T *>(p.c);
    const int x = threadIdx.x % TILE, y = threadIdx.x / TILE;
    const int64_t blocks_m = (p.m + TILE - 1) / TILE, blocks = blocks_m * ((p.k + TILE - 1) / TILE);
    for (int64_t block = blockIdx.x; block < blocks; block += gridDim.x) {
        const int64_t i0 = block % blocks_m * TILE, l0 = block / blocks_m * TILE;
        if (p.a_kmajor) {
            __syncthreads();
#pragma unroll
            for (int r = 0; r < TILE; r += ROWS)
                if (i0 + y + r < p.m && l0 + x < p.k)
                    tile[y + r][x] = a[l0 + x + (i0 + y + r) * p.lda];
            __syncthreads();
        }
#pragma unroll
        for (int r = 0; r < TILE; r += ROWS) {
            const int64_t i = i0 + x, l = l0 + y + r;
            if (i < p.m && l < p.k)
                c[i + l * p.ldc] = p.a_kmajor ? tile[x][y + r] : a[i + l * p.lda];
        }
    }
}

extern "C" {
__global__ void __launch_bounds__(THREADS) plain_s(const __grid_constant__ gg_args p) { plain<float>(p); }
__global__ void __launch_bounds__(THREADS) plain_d(const __grid_constant__ gg_args p) { plain<double>(p); }
__global__ void __launch_bounds__(THREADS) gg_scale_s(const __grid_constant__ gg_args p) { scale<float>(p); }
__global__ void __launch_bounds__(THREADS) gg_scale_d(const __grid_constant__ gg_args p) { scale<double>(p); }
__global__ void __launch_bounds__(THREADS) gg_fixup_s(const __grid_constant__ gg_args p) { fixup<float>(p); }
__global__ void __launch_bounds__(THREADS) gg_pack_s(const __grid_constant__ gg_args p) { pack<float>(p); }
__global__ void __launch_bounds__(THREADS) gg_fixup_d(const __grid_constant__ gg_args p) { fixup<double>(p); }
}

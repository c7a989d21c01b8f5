/* warp_tiled — step 8: the block's tile is divided among warps, 64 × 32 each, and each warp's part among its lanes.
 *
 * In the steps before, the 32 lanes of a warp covered 64 rows and 2 groups of columns. A warp whose part is closer to square reads less: 8 lanes by 4
 * need 64 + 32 different words for a step of k where 16 by 2 needed 128 + 16, and lanes that need the same word are served by one read. The words of
 * the next k are read before this one's are multiplied. What remains for a library to add: edges, other layouts, the choice of tiles, copies that
 * bypass registers (cp.async, TMA), and blocks that process several tiles. */
#include "tile_128.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, 2) warp_tiled(const __grid_constant__ ladder_args p)
{
    __shared__ __align__(16) tiles s[2];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const place at = {warp % 2 * 64 + lane % 8 * 4, 32, warp / 2 * 32 + lane / 8 * 4, 16};
    float sum[8][8] = {};
    put(s[0], fetch(p, 0));
    __syncthreads();
    for (int k = 0, now = 0; k < p.k; k += STEP, now ^= 1) {
        const bool more = k + STEP < p.k;
        fetched next = {};
        if (more)
            next = fetch(p, k + STEP);
        fragments f[2];
        f[0] = read(s[now], 0, at);
#pragma unroll
        for (int l = 0; l < STEP; l++) {
            if (l + 1 < STEP)
                f[(l + 1) % 2] = read(s[now], l + 1, at);
            multiply(sum, f[l % 2]);
        }
        if (more)
            put(s[now ^ 1], next);
        __syncthreads();
    }
    store(p, sum, at);
}

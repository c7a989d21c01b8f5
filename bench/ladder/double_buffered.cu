/* double_buffered — step 7: two pairs of tiles in shared memory, one being multiplied while the next is loaded.
 *
 * The loads from memory are issued before the arithmetic that hides their latency, and land in registers; after it they are written to the pair of
 * tiles that no thread is reading. There is one barrier a step instead of two, and no thread waits for memory.
 * The price is registers: the 2 in the launch bounds limits them to 128 a thread, so that two blocks still fit on an SM. */
#include "tile_128.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, 2) double_buffered(const __grid_constant__ ladder_args p)
{
    __shared__ __align__(16) tiles s[2];
    const place at = {(int)threadIdx.x % 16 * 4, 64, (int)threadIdx.x / 16 * 4, 64};
    float sum[8][8] = {};
    put(s[0], fetch(p, 0));
    __syncthreads();
    for (int k = 0, now = 0; k < p.k; k += STEP, now ^= 1) {
        const bool more = k + STEP < p.k;
        fetched next = {};
        if (more)
            next = fetch(p, k + STEP);
#pragma unroll
        for (int l = 0; l < STEP; l++)
            multiply(sum, read(s[now], l, at));
        if (more)
            put(s[now ^ 1], next);
        __syncthreads();
    }
    store(p, sum, at);
}

/* vectorised — step 6: every access to memory and shared memory is 16 bytes wide: a quarter of the load instructions.
 *
 * The scheduler issues one instruction per clock, be it a load or a multiply-add: now 4 loads for 64 multiply-adds, where there were 16. B is
 * transposed on its way into shared memory, so that the inner loop can read four of its columns at once. */
#include "tile_128.cuh"

extern "C" __global__ void __launch_bounds__(THREADS) vectorised(const __grid_constant__ ladder_args p)
{
    __shared__ __align__(16) tiles s;
    const place at = {(int)threadIdx.x % 16 * 4, 64, (int)threadIdx.x / 16 * 4, 64};
    float sum[8][8] = {};
    for (int k = 0; k < p.k; k += STEP) {
        put(s, fetch(p, k));
        __syncthreads();
#pragma unroll
        for (int l = 0; l < STEP; l++)
            multiply(sum, read(s, l, at));
        __syncthreads();
    }
    store(p, sum, at);
}

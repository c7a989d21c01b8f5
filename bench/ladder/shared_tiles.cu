/* shared_tiles — step 3: a block fetches what its tile of C needs into shared memory, 32 of k at a time, and multiplies from there.
 *
 * Every element fetched is used 32 times, so traffic to L2 and memory falls by a factor of 32. The inner loop still reads shared memory twice for one
 * multiply-add. Shared memory delivers one word per bank and clock, and that is now the limit. */
#include "ladder.h"

enum { TILE = 32 };

extern "C" __global__ void __launch_bounds__(TILE *TILE) shared_tiles(const __grid_constant__ ladder_args p)
{
    __shared__ float a[TILE][TILE], b[TILE][TILE]; /* a[l][i], b[j][l]: in the order in which they lie in memory */
    const int x = threadIdx.x % TILE, y = threadIdx.x / TILE, i = blockIdx.x * TILE + x, j = blockIdx.y * TILE + y;
    float sum = 0;
    for (int k = 0; k < p.k; k += TILE) {
        a[y][x] = i < p.m && k + y < p.k ? p.a[i + (long long)(k + y) * p.lda] : 0;
        b[y][x] = j < p.n && k + x < p.k ? p.b[k + x + (long long)j * p.ldb] : 0;
        __syncthreads();
        for (int l = 0; l < TILE; l++)
            sum += a[l][x] * b[y][l];
        __syncthreads(); /* before the next tiles overwrite these */
    }
    if (i >= p.m || j >= p.n)
        return;
    float *c = p.c + i + (long long)j * p.ldc;
    *c = p.beta == 0 ? p.alpha * sum : p.alpha * sum + p.beta * *c;
}

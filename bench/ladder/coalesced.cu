/* coalesced — step 2: the same loop, but a warp takes 32 rows of one column.
 *
 * Now each of its loads of A and stores of C is one line of 128 bytes, and all its threads need the same element of B, which is broadcast. Only two
 * index expressions have changed. What remains are two loads from the cache for one multiply-add: the load units, not the arithmetic, set the
 * pace. */
#include "ladder.h"

extern "C" __global__ void __launch_bounds__(256) coalesced(const __grid_constant__ ladder_args p)
{
    const int i = blockIdx.x * 32 + threadIdx.x % 32, j = blockIdx.y * 8 + threadIdx.x / 32;
    if (i >= p.m || j >= p.n)
        return;
    float sum = 0;
    for (int l = 0; l < p.k; l++)
        sum += p.a[i + (long long)l * p.lda] * p.b[l + (long long)j * p.ldb];
    float *c = p.c + i + (long long)j * p.ldc;
    *c = p.beta == 0 ? p.alpha * sum : p.alpha * sum + p.beta * *c;
}

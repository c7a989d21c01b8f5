/* naive — step 1: one thread per element, three lines of mathematics.
 *
 * Neighbouring threads take neighbouring columns of a column-major C, so the 32 threads of a warp store to C, and read B from, 32 places far apart.
 * Each access of a warp costs as many transactions as it touches lines, and every operand comes from memory or cache again for every multiplication.
 * The kernel is correct for every size and has no tiles and no synchronisation; therefore it is the oracle. */
#include "ladder.h"

extern "C" __global__ void __launch_bounds__(256) naive(const __grid_constant__ ladder_args p)
{
    const int i = blockIdx.x * 16 + threadIdx.x / 16, j = blockIdx.y * 16 + threadIdx.x % 16;
    if (i >= p.m || j >= p.n)
        return;
    float sum = 0;
    for (int l = 0; l < p.k; l++)
        sum += p.a[i + (long long)l * p.lda] * p.b[l + (long long)j * p.ldb];
    float *c = p.c + i + (long long)j * p.ldc;
    *c = p.beta == 0 ? p.alpha * sum : p.alpha * sum + p.beta * *c;
}

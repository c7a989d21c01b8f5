/* blocked_1d — step 4: a thread computes 8 elements of a row of C, so that an element of A, once in a register, is used 8 times.
 *
 * Reads of shared memory per multiply-add fall from 2 to 9/8. The 8 sums are independent of each other, so their latencies overlap. */
#include "ladder.h"

enum { TILE = 64, STEP = 8, EACH = 8, PAD = 4 /* so that the 8 × 4 elements of B that a warp stores lie in 32 different banks */ };

extern "C" __global__ void __launch_bounds__(TILE *TILE / EACH) blocked_1d(const __grid_constant__ ladder_args p)
{
    __shared__ float a[STEP][TILE], b[STEP][TILE + PAD];
    const int t = threadIdx.x, i0 = blockIdx.x * TILE, j0 = blockIdx.y * TILE;
    const int x = t % TILE, y = t / TILE; /* this thread's row, and which group of 8 columns; also its element of a */
    const int bl = t % STEP, bj = t / STEP;
    float sum[EACH] = {};
    for (int k = 0; k < p.k; k += STEP) {
        a[y][x] = i0 + x < p.m && k + y < p.k ? p.a[i0 + x + (long long)(k + y) * p.lda] : 0;
        b[bl][bj] = j0 + bj < p.n && k + bl < p.k ? p.b[k + bl + (long long)(j0 + bj) * p.ldb] : 0;
        __syncthreads();
        for (int l = 0; l < STEP; l++) {
            const float from_a = a[l][x];
            for (int e = 0; e < EACH; e++)
                sum[e] += from_a * b[l][y * EACH + e];
        }
        __syncthreads();
    }
    for (int e = 0; e < EACH; e++) {
        const int i = i0 + x, j = j0 + y * EACH + e;
        if (i >= p.m || j >= p.n)
            return;
        float *c = p.c + i + (long long)j * p.ldc;
        *c = p.beta == 0 ? p.alpha * sum[e] : p.alpha * sum[e] + p.beta * *c;
    }
}

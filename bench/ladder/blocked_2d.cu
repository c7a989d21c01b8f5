/* blocked_2d — step 5: a thread computes 8 × 8 elements: 16 reads from shared memory, 64 multiply-adds.
 *
 * From here on arithmetic can be the limit. A thread's rows are 16 apart, and so are its columns, so that the threads of a warp read
 * neighbouring words. */
#include "ladder.h"

enum { TILE = 128, STEP = 8, EACH = 8, THREADS = 256, APART = TILE / EACH };

extern "C" __global__ void __launch_bounds__(THREADS) blocked_2d(const __grid_constant__ ladder_args p)
{
    __shared__ float a[STEP][TILE], b[STEP][TILE + 4];
    const int t = threadIdx.x, i0 = blockIdx.x * TILE, j0 = blockIdx.y * TILE, x = t % APART, y = t / APART;
    float sum[EACH][EACH] = {};
    for (int k = 0; k < p.k; k += STEP) {
        for (int e = t; e < TILE * STEP; e += THREADS) {
            const int ai = e % TILE, al = e / TILE, bl = e % STEP, bj = e / STEP;
            a[al][ai] = i0 + ai < p.m && k + al < p.k ? p.a[i0 + ai + (long long)(k + al) * p.lda] : 0;
            b[bl][bj] = j0 + bj < p.n && k + bl < p.k ? p.b[k + bl + (long long)(j0 + bj) * p.ldb] : 0;
        }
        __syncthreads();
        for (int l = 0; l < STEP; l++) {
            float from_a[EACH], from_b[EACH];
            for (int e = 0; e < EACH; e++)
                from_a[e] = a[l][x + e * APART], from_b[e] = b[l][y + e * APART];
            for (int f = 0; f < EACH; f++)
                for (int e = 0; e < EACH; e++)
                    sum[f][e] += from_a[e] * from_b[f];
        }
        __syncthreads();
    }
    for (int f = 0; f < EACH; f++)
        for (int e = 0; e < EACH; e++) {
            const int i = i0 + x + e * APART, j = j0 + y + f * APART;
            if (i >= p.m || j >= p.n)
                continue;
            float *c = p.c + i + (long long)j * p.ldc;
            *c = p.beta == 0 ? p.alpha * sum[f][e] : p.alpha * sum[f][e] + p.beta * *c;
        }
}

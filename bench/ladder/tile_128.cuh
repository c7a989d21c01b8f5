/* tile_128.cuh — what steps 6 to 8 share: 128 × 128 tiles of C, 8 of k at a time, 256 threads with 8 × 8 elements each, every access 16 bytes wide.
 * Sizes are multiples of the tile (ladder.h), so that the handling of edges does not hide the idea of each step. */
#include "ladder.h"

enum { TILE = 128, STEP = 8, THREADS = 256 };

struct tiles {
    float a[STEP][TILE], b[STEP][TILE + 4]; /* B is transposed when it is stored; padded against bank conflicts of these stores */
};

/* A thread's share of the two tiles, in registers between memory and shared memory: four rows of a column of A, four k of a column of B. */
struct fetched {
    float4 a, b;
};

static __device__ __forceinline__ fetched fetch(const ladder_args &p, int k)
{
    const int t = threadIdx.x;
    return {*(const float4 *)(p.a + blockIdx.x * TILE + t % 32 * 4 + (long long)(k + t / 32) * p.lda),
            *(const float4 *)(p.b + k + t % 2 * 4 + (long long)(blockIdx.y * TILE + t / 2) * p.ldb)};
}

static __device__ __forceinline__ void put(tiles &s, const fetched &f)
{
    const int t = threadIdx.x, l = t % 2 * 4, j = t / 2;
    *(float4 *)&s.a[t / 32][t % 32 * 4] = f.a;
    s.b[l][j] = f.b.x, s.b[l + 1][j] = f.b.y, s.b[l + 2][j] = f.b.z, s.b[l + 3][j] = f.b.w;
}

/* A thread's 8 × 8 elements are 2 × 2 groups of 4 × 4; the groups begin at rows i and i + i_apart, columns j and j + j_apart. */
struct place {
    int i, i_apart, j, j_apart;
};

struct fragments {
    float a[8], b[8];
};

static __device__ __forceinline__ fragments read(const tiles &s, int l, place at)
{
    fragments f;
    *(float4 *)&f.a[0] = *(const float4 *)&s.a[l][at.i];
    *(float4 *)&f.a[4] = *(const float4 *)&s.a[l][at.i + at.i_apart];
    *(float4 *)&f.b[0] = *(const float4 *)&s.b[l][at.j];
    *(float4 *)&f.b[4] = *(const float4 *)&s.b[l][at.j + at.j_apart];
    return f;
}

static __device__ __forceinline__ void multiply(float (&sum)[8][8], const fragments &f)
{
#pragma unroll
    for (int j = 0; j < 8; j++)
#pragma unroll
        for (int i = 0; i < 8; i++)
            sum[j][i] += f.a[i] * f.b[j];
}

static __device__ __forceinline__ void store(const ladder_args &p, const float (&sum)[8][8], place at)
{
#pragma unroll
    for (int j = 0; j < 8; j++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float4 *c = (float4 *)(p.c + blockIdx.x * TILE + at.i + half * at.i_apart +
                                   (long long)(blockIdx.y * TILE + at.j + j % 4 + j / 4 * at.j_apart) * p.ldc);
            const float *s = &sum[j][half * 4];
            float4 r = {p.alpha * s[0], p.alpha * s[1], p.alpha * s[2], p.alpha * s[3]};
            if (p.beta != 0) {
                const float4 old = *c;
                r.x += p.beta * old.x, r.y += p.beta * old.y, r.z += p.beta * old.z, r.w += p.beta * old.w;
            }
            *c = r;
        }
}

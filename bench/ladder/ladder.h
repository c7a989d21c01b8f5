/* ladder.h — the contract of the ladder's kernels: sgemm, column-major, nothing transposed, C := alpha A B + beta C, C not read when beta = 0.
 *
 * Eight steps lead from three nested loops to a kernel as libraries have it. Each is one file that shows one idea; read them in the order of the
 * table. They are not part of the library: bench.c times them beside it, t_ladder.c verifies them and uses the first as an oracle. Each is extern
 * "C", has the name of its file, takes one struct ladder_args, runs in a grid of one block per tile of C, and needs no shared memory but its static
 * one. */
#ifndef LADDER_H
#define LADDER_H

struct ladder_args {
    int m, n, k, lda, ldb, ldc;
    float alpha, beta;
    const float *a, *b;
    float *c;
};

struct ladder_step {
    const char *name;
    int tile_m, tile_n, threads;
    int multiple_mn, multiple_k; /* sizes must be multiples of these; where not 1, bases and leading dimensions must be multiples of 16 bytes */
};

#ifndef __CUDACC__
#include <stdbool.h>
#include <stdint.h>

static const struct ladder_step ladder[] = {
    {"naive", 16, 16, 256, 1, 1},
    {"coalesced", 32, 8, 256, 1, 1},
    {"shared_tiles", 32, 32, 1024, 1, 1},
    {"blocked_1d", 64, 64, 512, 1, 1},
    {"blocked_2d", 128, 128, 256, 1, 1},
    {"vectorised", 128, 128, 256, 128, 8},
    {"double_buffered", 128, 128, 256, 128, 8},
    {"warp_tiled", 128, 128, 256, 128, 8},
};
enum { LADDER_STEPS = sizeof ladder / sizeof *ladder };

static inline unsigned ladder_blocks(int64_t extent, int tile) { return (unsigned)((extent + tile - 1) / tile); }

static inline bool ladder_takes(const struct ladder_step *s, const struct ladder_args *x)
{
    if (s->multiple_mn == 1)
        return true;
    return x->m % s->multiple_mn == 0 && x->n % s->multiple_mn == 0 && x->k % s->multiple_k == 0 && x->lda % 4 == 0 && x->ldb % 4 == 0 &&
           x->ldc % 4 == 0 && (uintptr_t)x->a % 16 == 0 && (uintptr_t)x->b % 16 == 0 && (uintptr_t)x->c % 16 == 0;
}
#endif

#endif

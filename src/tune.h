/* tune.h — measuring this machine: a little when the GPU starts, thoroughly for `gpugemm tune`. */
#ifndef GG_TUNE_H
#define GG_TUNE_H

#include "dispatch.h"
#include "lane.h"

/* The link between this lane's GPU and pageable memory, in a few milliseconds; sets the rates. */
void gg_tune_link(struct gg_lane *lane);

/* A row of the crossover table: what a product of this kind took, in seconds, 0 where it was not tried; and what dispatch.c would decide now. */
struct gg_crossover {
    struct gg_gemm p; /* sizes and type; no operands */
    double cpu, gpu;
    struct gg_decision decision;
};

/* Measures squares and elongated products on the CPU BLAS and on the GPU, sets the rates and writes the cache file (*saved). Takes some ten
 * seconds; progress (may be NULL) hears of each step, `done` going from 0 to 1. The number of rows in *rows, which is the caller's to free; 0
 * without a GPU or memory. */
int gg_tune(struct gg_crossover **rows, bool *saved, void (*progress)(double done, const char *what, void *argument), void *argument);

/* What would be decided for host operands of these sizes now, with the predicted times. */
struct gg_decision gg_explain(enum gg_type type, bool transa, bool transb, int64_t m, int64_t n, int64_t k, bool beta);

#endif

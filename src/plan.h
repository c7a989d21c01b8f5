/* plan.h — how a staged call is cut up. Pure: sizes and a memory budget in, lists of work out; staged.c carries them out.
 *
 * The problem is a sequence of blocks, each small enough that its pieces of A, B and C fit the GPU memory granted. When everything fits there
 * is one block. Inside a block A is cut in panels of rows and B in panels of columns, uploaded alternately; after panel t of
 * each, the two strips of C that they complete are computed:
 *
 *        B0 B1 B2 …        strip (rows of A_t) × (B_0 … B_t)   and   strip (A_0 … A_t-1) × (columns of B_t)
 *     A0  0  1  2          so the first kernel starts after two panels, every byte crosses once,
 *     A1  1  1  2          and the work per byte grows as the upload goes on.
 *     A2  2  2  2
 *
 * Buffers exist twice when there are several blocks: the next block is uploaded while this one is computed. */
#ifndef GG_PLAN_H
#define GG_PLAN_H

#include "gemm.h"

enum { GG_PANELS = 8 }; /* panels a block is cut in, at most */

struct gg_range {
    int64_t begin, end;
};

enum gg_operand { GG_A, GG_B, GG_C };

/* One panel (of A, B) or strip (of C) to bring in. rows × cols are ranges of op(A), op(B) or C in the whole problem. */
struct gg_load {
    enum gg_operand operand;
    struct gg_range rows, cols;
    int64_t offset;      /* of element (rows.begin, cols.begin) in its buffer, in elements */
    int buffer;          /* 0 or 1 */
    int after_block;     /* the buffer is free when all steps of this block have run; -1: free from the start */
};

/* One kernel: strip of C += strip of A × strip of B, all resident. */
struct gg_step {
    struct gg_range rows, cols, depth;
    int64_t a_offset, b_offset, c_offset; /* elements, in their buffers */
    int a_buffer, b_buffer, c_buffer;
    int loads;           /* loads [0, loads) must have arrived: they are listed in the order of use */
    int stream;          /* strips of C keep theirs, so that sums over depth stay in order */
    bool first, last;    /* in depth: the first applies beta, the last is followed by the download of the strip */
    int after_block;     /* the buffer of C is free when this block has been downloaded; -1: from the start */
};

struct gg_plan {
    int64_t ld[3];       /* leading dimensions of the buffers, in elements: columns of C, contiguous lines of A and B */
    int64_t buffer_size[3]; /* elements in one buffer */
    int buffers[3];      /* 1 or 2 */
    int64_t bytes;       /* of all buffers */
    int blocks;
    int *block_end;      /* block b owns steps [block_end[b-1], block_end[b]) */
    int load_count, step_count;
    struct gg_load *loads;
    struct gg_step *steps;
};

/* False: it cannot be cut small enough for `budget` bytes, or no host memory. With true, gg_plan_free afterwards. */
bool gg_plan_make(struct gg_plan *plan, const struct gg_gemm *p, int64_t budget);
void gg_plan_free(struct gg_plan *plan);

#endif

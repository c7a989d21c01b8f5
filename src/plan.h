/* plan.h — how a staged call is cut up. Pure: sizes and a memory budget in, lists of work out; conduct.c carries them out.
 *
 * The problem is a sequence of blocks, each small enough that its pieces of A, B and C fit the GPU memory granted. When everything fits there
 * is one block. Buffers exist twice when there are several: the next block is uploaded while this one is computed.
 *
 * Inside a block every byte crosses once, in an order between two extremes. Panels: A is cut in panels of rows and B in panels of columns, uploaded
 * alternately; each completes a strip of C with all that has come of the other operand, which can leave when it is computed:
 *
 *        B0 B1 B2 …        panel A_t: the strip A_t × (B_0 … B_t-1)
 *     A0  1  3  5          panel B_t: the strip (A_0 … A_t) × B_t
 *     A1  2  3  5          the work per byte grows as the upload goes on: at first the GPU starves,
 *     A2  4  4  5          at the end it is behind.
 *
 * Two turns: so over the first part of k, and then over the rest of it. While the first turn's strips are small the GPU starves for a shorter time,
 * and the second begins with work left over; but strips of C leave in the second only, and are read and written once more. How much of k each has is
 * found by trying a few mixtures on a model of the link and the GPU (gg_plan_seconds). (H200: strict sgemm 8192 22.0 ms and 23.0 in one turn, dgemm
 * 12000 66.6 and 69.9, 16384 162 to 166 and 169; with a slab of k, multiplied as a whole, in place of the first turn the GPU waits for all of it.)
 *
 * Or one of A and B comes first, all of it, and the other by panels, each of which completes some columns (rows) of C. Half of the upload has then
 * been made before the first product, but lines are whole and C leaves as evenly as the other comes: for where the GPU has time to spare. Products by
 * a chain (tensor.h) are cut so, or in panels of both in one turn: they want all of k at one time. */
#ifndef GG_PLAN_H
#define GG_PLAN_H

#include "gemm.h"

enum { GG_PANELS = 20 }; /* an operand of a block is cut in, at most */

/* What the machine does, for the choice among plans: bytes/s up and down the link and of the GPU's memory, flop/s, multiprocessors. */
struct gg_speed {
    double up, down, memory, flops;
    double chain;     /* seconds of a chain (tensor.h) that would compute all of it; 0: there is none */
    int sms;
    int chain_tiles;  /* of 128 x 128, that a chain computes at one time */
    int64_t pitch[3]; /* bytes between lines of an operand that the copy engine fetches (stores) line by line where it lies; 0: it is packed on the way */
};

/* Short lines far apart are packed even where the copy engine could fetch them. (H200, GB/s to it: at a pitch of 64 or 128 KB lines of 4 KB 33, 8 and
 * 16 KB 49, 32 KB 55; at 32 KB lines of 2 KB 45, 4 KB 55; at 16 KB 55.) */
static inline bool gg_is_scattered(int64_t pitch, int64_t width) { return pitch >= 32 << 10 && 8 * width < pitch; }

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
    double seconds;      /* predicted; 0: not asked */
    bool chain;          /* for a chain: each step has all of k; one without columns (rows) only has the operand that came first split, in good time */
    struct gg_load *loads;
    struct gg_step *steps;
};

/* False: it cannot be cut small enough for `budget` bytes, or no host memory. With true, gg_plan_free afterwards. */
bool gg_plan_make(struct gg_plan *plan, const struct gg_gemm *p, int64_t budget, const struct gg_speed *speed);
void gg_plan_free(struct gg_plan *plan);

/* How long it would take: loads one after the other, stores too, kernels one after the other, each when what it needs is there. */
double gg_plan_seconds(const struct gg_plan *plan, const struct gg_gemm *p, const struct gg_speed *speed);

#endif

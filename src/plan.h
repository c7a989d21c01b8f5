/* plan.h — how a staged call is cut up. Pure: sizes and a memory budget in, lists of work out; conduct.c carries them out.
 *
 * Terms. A plan is a sequence of blocks. A block is a rectangle of C times a range of k, small enough that its operands fit the GPU memory granted;
 * when everything fits there is one block. With several blocks each buffer exists twice, so that the next block is uploaded while this one is
 * computed. A panel is what one load brings in of A (some rows) or of B (some columns). A strip is the rectangle of C that a panel completes (not the
 * strips of kernels.h). A load copies a panel, or the old contents of a strip, to the GPU; a step is one product; the finished strip is then stored,
 * that is downloaded.
 *
 * Inside a block every byte crosses the link once, in one of three orders.
 *
 * Panels of both operands. A is cut into panels of rows and B into panels of columns, uploaded alternately. Each completes a strip of C with all that
 * has arrived of the other operand, and the strip can leave as soon as it is computed:
 *
 *        B0 B1 B2 …        panel A_t: the strip A_t × (B_0 … B_t-1)
 *     A0  1  3  5          panel B_t: the strip (A_0 … A_t) × B_t
 *     A1  2  3  5          The work per uploaded byte grows as the upload goes on:
 *     A2  4  4  5          at first the GPU starves, at the end it lags behind.
 *
 * Two turns. A turn is one pass over all panels with part of k: the first turn has the first part of k, the second the rest. While the first turn's
 * strips are small the GPU starves for a shorter time, and the second turn begins with work left over. In return strips of C leave in the second turn
 * only, and are read and written once more. The first turn's share of k is found by trying a few mixtures (plan.c) on a model of the link and the GPU
 * (gg_plan_seconds). (H200: strict sgemm 8192 22.0 ms and 23.0 in one turn, dgemm 12000 66.6 and 69.9, 16384 162 to 166 and 169. With a slab of k,
 * multiplied as a whole, in place of the first turn the GPU waits for all of the slab.)
 *
 * One operand first. All of A (or B) is uploaded, then the other operand by panels, each of which completes some columns (rows) of C. Half of the
 * upload is over before the first product starts, but lines are copied whole and C leaves as evenly as the other operand arrives. This suits products
 * for which the GPU has time to spare. If it has less, most of A is enough to begin with, and the rest of A comes last, by panels. Products by a
 * chain (tensor.h), which splits and certifies anew in each turn, are mostly cut this way, or into panels of both in one turn. */
#ifndef GG_PLAN_H
#define GG_PLAN_H

#include "gemm.h"

enum { GG_PANELS = 20 }; /* into which an operand of a block is cut, at most */

/* What the machine does, as the choice among plans needs it: bytes/s up and down the link and of the GPU's memory, flop/s, multiprocessors. */
struct gg_speed {
    double up, down, memory, flops;
    double chain;     /* seconds that a chain (tensor.h) would take for all of it; 0: there is none */
    int sms;
    int chain_tiles;  /* tiles of 128 x 128 that a chain computes at the same time */
    int few_tiles;    /* a chain's step of up to so many takes half as long; 0: none does */
    int threads;      /* that copy, apart from the caller */
    int64_t pitch[3]; /* bytes between lines of an operand that the copy engine reads (writes) where it lies; 0: it is packed on the way */
};

/* Is a rectangle packed (C: unpacked) by `threads` copy threads, although the copy engine could reach it where it lies? The engine is slow where
 * lines lie far apart, the slower the shorter they are; packing takes threads. (H200, page-locked dgemm 8192, so a pitch of 64 KB, ms with 1, 2, 3,
 * 4, 6, 8 threads. A and B in lines of 4 KB: fetched 53, packed 160, 87, 64, 54, 40, 26. In lines of 16 and 48 KB: fetched 28, packed 151, 75, 54,
 * 42, 25, 24.5. Half of C in lines of 4 KB: stored 30.5, unpacked 28, with any number. At a pitch of 32 to 48 KB, dgemm 4096 and 6000, sgemm 8192,
 * panels of A and B take the same time either way. The engine alone, 64 MB at once: at 64 KB lines of 4 KB 33 GB/s, 16 KB 49, 32 KB 55; at 32 KB
 * lines of 2 KB 45, 4 KB 55.) */
static inline bool gg_is_packed(int64_t pitch, int64_t width, int threads, bool up)
{
    const bool is_short = pitch >= 32 << 10 && 8 * width < pitch;
    return up ? (is_short && threads >= 4) || (pitch >= 64 << 10 && width < pitch && threads >= 7) : is_short;
}

struct gg_range {
    int64_t begin, end;
};

enum gg_operand { GG_A, GG_B, GG_C };

/* Streams on which steps run. */
enum { GG_RUN_STREAMS = 4 };

/* Uploads one panel of A or B, or one strip of C. rows × cols are ranges of op(A), op(B) or C in the whole problem. */
struct gg_load {
    enum gg_operand operand;
    struct gg_range rows, cols;
    int64_t offset;      /* of element (rows.begin, cols.begin) in its buffer, in elements */
    int buffer;          /* 0 or 1 */
    int after_block;     /* the buffer is free when all steps of this block have run; -1: free from the start */
};

/* One product: a strip of C += rows of A × columns of B, all resident. Usually one kernel. */
struct gg_step {
    struct gg_range rows, cols, depth;
    int64_t a_offset, b_offset, c_offset; /* elements, in their buffers */
    int a_buffer, b_buffer, c_buffer;
    int loads;           /* loads [0, loads) must have arrived; they are listed in the order of use */
    int stream;          /* a strip of C stays on its stream, so that its sums over depth are added in order */
    bool first, last;    /* in depth: the first applies beta; after the last the strip is downloaded */
    int after_block;     /* the buffer of C is free when this block's C has been downloaded; -1: from the start */
};

struct gg_plan {
    int64_t ld[3];       /* leading dimensions of the buffers, in elements: columns of C, contiguous lines of A and B */
    int64_t buffer_size[3]; /* elements in one buffer */
    int buffers[3];      /* 1 or 2 */
    int64_t bytes;       /* of all buffers */
    int blocks;
    int *block_end;      /* block b owns steps [block_end[b-1], block_end[b]) */
    int (*last_step)[GG_RUN_STREAMS]; /* of each block and all before it on each stream; -1: none. For gg_plan_readers */
    int load_count, step_count;
    double seconds;      /* predicted; 0: not asked */
    bool chain;          /* made for a chain: each step has all of its turn's k; a step without columns (rows) only splits the operand that came
                          * first, ahead of the first product */
    struct gg_load *loads;
    struct gg_step *steps;
};

/* Bytes of all buffers if the problem is not cut into blocks. */
int64_t gg_plan_whole(const struct gg_gemm *p);

/* False: the problem cannot be cut small enough for `budget` bytes, or there is no host memory. After true, call gg_plan_free. */
bool gg_plan_make(struct gg_plan *plan, const struct gg_gemm *p, int64_t budget, const struct gg_speed *speed);
void gg_plan_free(struct gg_plan *plan);

/* The steps that an upload must wait for if the last to read its buffer's former contents are those of `block`: last[s] is the last one on stream s,
 * -1: none. That block may have steps on some streams only, while others still run steps of the blocks before it: they count too, but for those of
 * blocks that were stored before this one could be launched. (8226x1363x102 in 10 MB: an upload overtook a step of the last block but one.) */
void gg_plan_readers(const struct gg_plan *plan, int block, int last[GG_RUN_STREAMS]);

/* Predicted seconds for the plan. Loads run one after the other, so do stores and kernels, and each starts when what it needs is there. */
double gg_plan_seconds(const struct gg_plan *plan, const struct gg_gemm *p, const struct gg_speed *speed);

#endif

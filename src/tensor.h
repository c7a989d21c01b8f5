/* tensor.h — products on the tensor cores to FP32 or FP64 accuracy: a chain of kernels, of which the operands' values decide on the GPU which one
 * computes C.
 *
 * Terms. An element is split into pieces, 16-bit numbers that add up to it, exactly or nearly, after scaling. A tier is a way to split: TF32 (one
 * FP16 piece), FP16 (two) or BF16 (three). It has two kernels: a GG_SPLIT, which certifies both operands and writes them as pieces, and a GG_TENSOR,
 * which multiplies the pieces. Operands are certified for FP16 or BF16 if their values guarantee that its product is as accurate as FFMA (kernels.h);
 * TF32 uses FP16's certificate. The verdict is one word per call in GPU memory, whose bits say which tiers are ruled out. Each kernel looks at it and
 * leaves at once when it is not its turn:
 *
 *   FP16 split → FP16 product, if certified → BF16 split, if not → BF16 product, if certified → FFMA, if not
 *
 * FP64 has one tier, INT8, whose pieces are the residues of an element, scaled to an integer, modulo several small numbers. It has three kernels:
 *
 *   residues → products of residues → their restoration to C, if certified → FP64 multiply-adds (FFMA, below), if not
 *
 * The head of a chain is the row of its first product; the head's role is the kind of the chain.
 *
 * An element of C depends only on its row, its column, k, the tier and the chain's kind. Operands in GPU memory: one tier serves the whole call. All
 * of op(A) and op(B) is certified before anything is multiplied, so a call cut into blocks of m and n gives the same bits as one that is not.
 * Operands that arrive panel by panel: each product follows the certificates of what has arrived, so a panel that fails sets the tier of its own
 * block of C and of those after it; and a block of few tiles is multiplied by the kernel of another kind, two blocks a tile. Where such a call sums
 * k in two turns (plan.h), each turn is a product of its own, on one verdict. */
#ifndef GG_TENSOR_H
#define GG_TENSOR_H

#include "kernels.h"

/* A call's chain, on one stream. */
struct gg_chain {
    struct gg_device *dev;
    gg_stream stream;
    const struct gg_kernel *row; /* the chain's head, a GG_TENSOR… */
    uint32_t *verdict;           /* in GPU memory; set by gg_chain_begin */
    char *memory;                /* scratch, the stream's workspace: for the pieces, then for FFMA */
    size_t bytes;
    bool strips; /* its blocks of C have neither all rows nor all columns */
    bool panels; /* its blocks arrive one by one, and those of few tiles are multiplied by pairs (gg_chain_few). False: bits depend on no cut */
};

/* Shorter k is FFMA's: it rounds so rarely that no chain is certain to be as accurate. */
enum { GG_TENSOR_LEAST_K = 128 };

/* Most scratch that a chain uses. One that needs more, or has less, cuts C into blocks and splits operands more often. */
static inline size_t gg_chain_most(enum gg_type type) { return (size_t)(type == GG_D ? 9 : 4) << 30; }

/* Bytes of scratch to multiply an m×n C in one go, FFMA included. */
size_t gg_chain_bytes(const struct gg_chain *chain, const struct gg_gemm *p);

/* Least scratch with which a chain is worthwhile. With less, blocks of C would not fill a GPU, and more would be split than multiplied. (k =
 * 1,000,000 in 4 GB: 6 tiles.) */
size_t gg_chain_least(const struct gg_gemm *p);

static inline bool gg_is_chain(const struct gg_kernel *row) { return row->role >= GG_TENSOR && row->role <= GG_TENSOR_INT8; }

/* May a chain that begins with `row` serve p, whatever the values? */
bool gg_chain_legal(const struct gg_kernel *row, const struct gg_gemm *p);

/* Tiles of 128×128 that such a chain computes at one time; of FP64, that it has done with all its numbers in the time of one round. */
int gg_chain_tiles(const struct gg_kernel *row, const struct gg_arch *arch);

/* Up to so many tiles a block of C takes half of the GPU and, by pairs of blocks, as in the chains of small C, about half as long. 0: not in this
 * chain. (H200, with the split of its columns: sgemm 4096 x 256 x 4096 87 us and 60, 2048 x 256 x 2048 52 and 40.) */
int gg_chain_few(const struct gg_kernel *row, const struct gg_arch *arch);

/* Predicted seconds of a chain that begins with `row`, if that tier serves. */
double gg_chain_seconds(const struct gg_kernel *row, const struct gg_gemm *p, const struct gg_arch *arch);

/* The one row that does the work of all products of a chain that begins with `head`, or NULL. There is one if `ffma`, strict precision's choice for
 * p, is sgemm_128x64 or sgemm_tma_64x128, whose sums are the same to the bit. The row contains the FFMA of the former for operands that TMA cannot
 * read, and for operands that would both have to be transposed, where it is the faster of the two in one kernel with the tensor cores' product:
 * operands that fail at n = 1024, TN, 34.7 instead of 32.6 TF/s (H200). */
const struct gg_kernel *gg_chain_in_one(const struct gg_kernel *head, const struct gg_choice *ffma, const struct gg_gemm *p, const struct gg_arch *arch);

/* Enqueues all of p, cut into as many blocks of C as chain->bytes requires. False: it was not enqueued, or not all of it. */
bool gg_chain_gemm(struct gg_chain *chain, const struct gg_gemm *p);

/* The same step by step, for callers with an order of their own for the blocks of C. First begin. Then call block for blocks C(i…i+m, j…j+n) of q one
 * after the other, i and j multiples of 128. It certifies the last new_m of the block's rows of A and new_n of its columns of B, those that no block
 * before had, writes their pieces to chain->memory (gg_chain_bytes of it), and multiplies unless m or n is 0. Where memory is short, call certify
 * first: several calls may each bring some rows of A and of B (m or n may be 0) but all of k. When all of the call is certified, call block. */
bool gg_chain_begin(struct gg_chain *chain);
bool gg_chain_certify(const struct gg_chain *chain, const struct gg_gemm *q);
bool gg_chain_block(const struct gg_chain *chain, const struct gg_gemm *q, int64_t i, int64_t j, int64_t m, int64_t n, int64_t new_m, int64_t new_n);

/* Makes gg_chain_server say that FFMA served, for a call that no chain could serve. */
bool gg_chain_decline(struct gg_device *dev, gg_stream stream);

/* The row that served the stream's last chain, NULL if FFMA did. Waits for the stream and reads the verdict back. */
const struct gg_kernel *gg_chain_server(const struct gg_chain *chain);

#endif

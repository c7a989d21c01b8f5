/* tensor.h — sgemm on the tensor cores to FP32 accuracy: a chain of kernels of which the operands' values decide, on the GPU, which computes C.
 *
 * A tier of the chain is a GG_SPLIT, which certifies both operands and writes them as pieces, and a GG_TENSOR, which multiplies the pieces.
 * Each kernel looks at the call's verdict (one word in GPU memory) and leaves at once when it is not its turn:
 *
 *   FP16 split → FP16 product, if certified → BF16 split, if not → BF16 product, if certified → FFMA, if not
 *
 * An element of C depends on its row, its column, k, the tier and the chain's kind alone. Operands in GPU memory: the tier is the whole call's, all
 * of op(A) and op(B) is certified before anything is multiplied, so a call cut into blocks of m and n gives the same bits as one that is not.
 * Operands that arrive panel by panel: each product follows the certificates of what has come, so a panel that fails sets the tier of its own block
 * of C and of those after it. */
#ifndef GG_TENSOR_H
#define GG_TENSOR_H

#include "kernels.h"

/* A call's chain, on one stream. */
struct gg_chain {
    struct gg_device *dev;
    gg_stream stream;
    const struct gg_kernel *row; /* GG_TENSOR…: the tier it begins with, and its kind */
    uint32_t *verdict;           /* in GPU memory: set by gg_chain_begin */
    char *memory;                /* scratch, the stream's workspace: the pieces, then what FFMA wants */
    size_t bytes;
    bool strips; /* its blocks have neither all rows nor all columns */
};

/* FFMA serves shorter k: its few roundings cannot be beaten for certain. */
enum { GG_TENSOR_LEAST_K = 128 };

/* No chain needs more scratch; one that has less cuts C into blocks and splits more often. */
#define GG_CHAIN_MOST ((size_t)4 << 30)

/* Scratch to multiply an m×n C in one go, FFMA included. */
size_t gg_chain_bytes(const struct gg_chain *chain, const struct gg_gemm *p);

/* Less is not worth a chain: for blocks of C that do not fill a GPU, and for which more is split than multiplied. (k = 1,000,000 in 4 GB: 6 tiles.)
 */
size_t gg_chain_least(const struct gg_gemm *p);

static inline bool gg_is_chain(const struct gg_kernel *row) { return row->role >= GG_TENSOR && row->role <= GG_TENSOR_MMA; }

/* May a chain that begins with `row` serve p, whatever the values? */
bool gg_chain_legal(const struct gg_kernel *row, const struct gg_gemm *p);

/* Seconds a chain takes that begins with `row` and is served by it. */
double gg_chain_seconds(const struct gg_kernel *row, const struct gg_gemm *p, const struct gg_arch *arch);

/* The row that is all of the product of the chain which begins with `head`, if ffma, strict precision's choice for p, is sgemm_128x64 or
 * sgemm_tma_64x128, whose sums are the same to the bit; or NULL. It has the former in it for operands that TMA cannot read, and where both would have
 * to be turned over, as beside the tensor cores' product that is faster there: operands that fail at n = 1024, TN, 34.7 instead of 32.6 TF/s (H200). */
const struct gg_kernel *gg_chain_in_one(const struct gg_kernel *head, const struct gg_choice *ffma, const struct gg_gemm *p, const struct gg_arch *arch);

/* All of p, cut into as many blocks of C as chain->bytes asks for. False: it was not enqueued, or not all of it. */
bool gg_chain_gemm(struct gg_chain *chain, const struct gg_gemm *p);

/* The same step by step, for those who want C in an order of their own. First begin. Then, for blocks C(i…i+m, j…j+n) of q, i and j multiples of
 * 128, one after the other, block: it certifies the last new_m of the block's rows of A and new_n of its columns of B, which no block before had,
 * writes their pieces to chain->memory (gg_chain_bytes of it), and multiplies, if neither m nor n is 0. Or, where memory is short, certify, of which
 * several calls may each bring some rows of A and of B (m or n may be 0) but all k; and when all of the call is certified, blocks. */
bool gg_chain_begin(struct gg_chain *chain);
bool gg_chain_certify(const struct gg_chain *chain, const struct gg_gemm *q);
bool gg_chain_block(const struct gg_chain *chain, const struct gg_gemm *q, int64_t i, int64_t j, int64_t m, int64_t n, int64_t new_m, int64_t new_n);

/* Has gg_chain_server say that FFMA served, where no chain could. */
bool gg_chain_decline(struct gg_device *dev, gg_stream stream);

/* The row that served the stream's last chain, once the stream is past it: reads the verdict back. NULL: FFMA did. */
const struct gg_kernel *gg_chain_server(const struct gg_chain *chain);

#endif

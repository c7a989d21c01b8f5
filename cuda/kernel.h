/* kernel.h — the contract between the host (select.c, launch.c) and the device code in this folder.
 *
 * Device code is compiled to one fat binary per .cu file, or two, for calls that read C and for others (tile.cuh), and embedded in the library; the
 * host loads it through the CUDA driver at first use. So a .cu file holds device code only: no <<< >>>, no runtime API, no static constructors.
 * Every __global__ is extern "C" and takes exactly one `const __grid_constant__ struct gg_args` (or gg_two_args). Compiled for an architecture its row
 * does not name it is empty or absent; a build without sm_90a defines GG_WITHOUT_SM90A, so that select.c does not choose what is not there.
 *
 * Plain C, included by both sides. */
#ifndef GG_KERNEL_H
#define GG_KERNEL_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

/* Flag words in front of a workspace, zero between launches, by which blocks tell each other that a part is there (parts.cuh), and from the word
 * GG_GAVE_UP on that they have given up waiting (gather.cuh). */
enum { GG_FLAGS = 1024, GG_GAVE_UP = GG_FLAGS / 2 };

#ifdef __cplusplus
#define GG_ALIGN(n) alignas(n)
#else
#define GG_ALIGN(n) _Alignas(n)
#endif

/* GG_EARLY: the kernel may start before the one ahead has ended. GG_FOLLOWED: the one behind may start before this one has ended. */
enum { GG_EARLY = 1, GG_FOLLOWED = 2 };

/* skinny_sum: from so many pieces on a warp adds up each element's. */
enum { GG_MANY_PIECES = 64 };

/* panel.cu: the longest k, and the rows of a block where k is contiguous in them (else tile_m), by tile_n. */
enum { GG_PANEL_K = 128 };
#define GG_PANEL_DOTS(tile_n) ((tile_n) > 4 ? 256 : 128)

/* gram.cu: up to so many blocks of a tile add up first, and flags that a tile has: one for each such group, the last for all groups. */
enum { GG_GRAM_GROUP = 16, GG_GRAM_FLAGS = 32 };

/* gemv.cu: gemv_t_…_few is for up to so many rows. */
enum { GG_GEMV_FEW = 4 };

/* dgemm_tma.cu: so many units that share a tile evenly, or more, add it up together (gather.cuh). With fewer a block of four warps would have to add
 * up more than two of its chunks one after the other. Large tiles have fewer, and their code would become longer. */
#define GG_LEAST_GATHERED(tile_m, tile_n) ((tile_m) * (tile_n) <= 32 * 64 ? 6 : (tile_m) * (tile_n) <= 64 * 64 ? 8 : GG_FLAGS)

/* mapped.cu: most bytes of A and B together. */
enum { GG_MAPPED_BYTES = 224 << 10 };

/* gg_args.wide: a block takes so many rows. */
enum { GG_WIDE = 128 };

/* A CUtensorMap, without cuda.h. */
struct gg_tensor_map {
    GG_ALIGN(64) uint64_t opaque[16];
};

/* The problem as a kernel sees it: struct gg_gemm with pointers that the GPU can follow, plus what launch.c adds.
 * alpha and beta are exact copies of the type's own. beta == 0: C is not read. Kernels that multiply are never launched with
 * k == 0; launch.c sends that to gg_scale. Layout is a run-time fact: no kernel is compiled more than once for it.
 *
 * Arguments reach a kernel through a cache of 64-byte lines, and each line's first use takes 400 clocks and more. So the members are grouped by when
 * they are used: one line for what decides which copies come first, one for A, B and C. */
struct gg_args {
    struct gg_tensor_map map_a, map_b; /* GG_TMA… rows only: op(A) as m×k and op(B) as n×k, m and n contiguous */

    int64_t m, n, k;
    int64_t shared_tiles;           /* so many last tiles of C are shared along k by all blocks, see tile.cuh; 0: none */
    int32_t splits;                 /* skinny: pieces of k, each of whose sums go to workspace; 1: k is not cut. slim, GG_TMA…: blocks of a cluster.
                                     * gg_residues: rows of a cluster */
    int32_t groups;                 /* GG_TMA…: clusters, or single blocks, that share a tile's k; else 1 */
    uint32_t *verdict;              /* tensor tiers: GG_NOT_* of this call; NULL: this kernel does not belong to a chain */
    uint32_t gate_mask, gate_value; /* the kernel leaves at once unless (*verdict & gate_mask) == gate_value */
    uint8_t a_kmajor, b_kmajor;     /* as in struct gg_gemm */
    uint8_t a_vec, b_vec, c_vec;    /* base and ld are multiples of 16 bytes: 16-byte accesses are legal */
    uint8_t move_back;              /* edge tiles are moved back into C, see tile.cuh */
    uint8_t early;                  /* GG_EARLY, GG_FOLLOWED: kernels of one call that overlap, see gate.cuh */
    uint8_t wide;                   /* slim, for vectors: as in struct gg_choice */

    GG_ALIGN(64) const void *a;
    const void *b;
    int64_t lda, ldb;
    void *c;
    int64_t ldc;
    double alpha, beta;

    void *workspace; /* shared tiles of GG_PERSISTENT rows: two slots of tile_m × tile_n partial sums per block; other roles: see launch.c */
    uint32_t gate_first;            /* the bit that rules the first tier out, if it is final when this kernel's blocks begin, else 0; see gate.cuh */
    int32_t tile_m, tile_n, tile_k; /* gg_fixup only: those of the kernel before it */
    int32_t blocks;                 /* gg_fixup only: the grid of the kernel before it */
    int32_t each;                   /* gg_fixup only: how many elements of a tile one block adds up, 64 or 1024 */

    /* Tensor tiers only, see src/tensor.h, split.cu and tensor.cuh. */
    void *pieces_a, *pieces_b;  /* op(A) as m×k and op(B) as n×k, split into pieces */
    void *pieces_c;             /* tensor_int8: the products of planes */
    float *scale_a, *scale_b;   /* by row: the factor of its pieces, a power of two; for residues the exponent of what the row was multiplied
                                 * by */
    uint32_t *clears;           /* a word that the chain's first kernel sets to zero: the verdict of the chain after it, if both are one graph's;
                                 * else NULL */
    uint8_t keeps_a, keeps_b;   /* gg_split_bf16: once the verdict has GG_WAS_BF16, all pieces of this operand are there */
};

static_assert(offsetof(struct gg_args, m) % 64 == 0 && offsetof(struct gg_args, a) == offsetof(struct gg_args, m) + 64 &&
                  offsetof(struct gg_args, workspace) == offsetof(struct gg_args, a) + 64,
              "a line each");

/* slim_…_two: blocks from `first` on do the second product. */
struct gg_two_args {
    struct gg_args each[2];
    uint32_t first;
};

/* tensor_gemm.cuh: up to so many rows or columns of C beyond whole tiles are done as strips, of which a block does GG_TENSOR_STRIPS in about the time
 * of a tile. */
enum { GG_TENSOR_STRIP = 8, GG_TENSOR_STRIPS = 2 };

/* In its kernels with edges: so many rows or columns beyond are taken by the edge tiles themselves. */
enum { GG_TENSOR_BEYOND = 32 };

/* residue.cuh: how many moduli there are, rows and k of a unit of a plane, and the longest k served, whose sums are exact. */
enum { GG_INT8_MODULI = 15, GG_INT8_UNIT = 128, GG_INT8_MOST_K = 32768 };

/* gg_residues: a cluster of up to so many blocks holds some rows, a power of two up to so many, with all their k; each block so many times
 * GG_INT8_UNIT k of a row. */
enum { GG_RESIDUE_BLOCKS = 16, GG_RESIDUE_ROWS = 16, GG_RESIDUE_ITEMS = 64 };

/* Blocks of gg_restore for a pair of tiles. */
enum { GG_RESTORE_BLOCKS = 32 };

/* Shorter k is not certain to be as accurate as FP64 (docs/precision.md). */
enum { GG_INT8_LEAST_K = 1024 };

/* residue.cu: a row is certified if GG_INT8_ENOUGH of GG_INT8_OF of its elements are at least GG_INT8_LEAST times its root mean square, and of
 * its first GG_INT8_FIRST elements, compared with their own root mean square, GG_INT8_FEW. */
enum { GG_INT8_ENOUGH = 5, GG_INT8_OF = 8, GG_INT8_FIRST = 32, GG_INT8_FEW = 8 };
#define GG_INT8_LEAST 0.0625

/* The bits of the verdict, set by split.cu and residue.cu: tiers that cannot serve this call's operands; and that tensor_bf16 has served a part of the
 * call. */
enum { GG_NOT_FP16 = 1, GG_NOT_BF16 = 2, GG_WAS_BF16 = 4, GG_NOT_INT8 = 8 };

#endif

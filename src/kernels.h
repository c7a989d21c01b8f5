/* kernels.h — cuda/kernels.def as data, the choice among its rows (select.c, pure; chosen.c) and how a row is started (launch.c). */
#ifndef GG_KERNELS_H
#define GG_KERNELS_H

#include "gemm.h"
#include "gpu.h"

struct gg_args; /* of cuda/kernel.h */

/* How a row is started, and what it computes. */
enum gg_role {
    GG_PLAIN,          /* alpha op(A) op(B) + beta C, any grid */
    GG_TILED,          /* the same, one block a tile */
    GG_TILED_CUT,      /* likewise, or several that have a piece of its k each, the last of which to end adds them up */
    GG_PERSISTENT,     /* the same, as many blocks as the GPU holds, each taking tiles in turn */
    GG_TMA,            /* persistent or in clusters, takes operands by TMA, m and n contiguous: others are packed first; adds parts of tiles itself */
    GG_TMA_EITHER,     /* likewise, but takes operands with k contiguous too; FP64 rows take no unaligned ones */
    GG_TMA_PAIR,       /* likewise, in clusters of two blocks, each of which computes the left or right half of a tile: they share A */
    GG_TMA_ONCE,       /* likewise, a block has one tile, or a cluster has: its groups of warps take turns in k and need the ring to add up */
    GG_SKINNY,         /* the same as GG_TILED, only for m or n <= tile_n; k is cut in pieces until the GPU is full */
    GG_SLIM,           /* likewise, 16 bytes at a time; the pieces of k, a power of two, are a cluster's blocks, which add them up */
    GG_TENSOR,         /* the same from pieces of the operands, if they are certified: the head of a chain, see tensor.c */
    GG_TENSOR_PAIR,    /* likewise with two blocks a tile, for small C */
    GG_TENSOR_MMA,     /* GG_TENSOR without wgmma, for GPUs before Hopper: whole tiles only */
    GG_SCALE,          /* beta C: k == 0 */
    GG_FIXUP,          /* adds the parts of tiles that were cut along k */
    GG_SKINNY_SUM,     /* adds the pieces of a GG_SKINNY */
    GG_SLIM_TWO,       /* two products of the GG_SLIM with the same tile_n */
    GG_TENSOR_OR_FFMA, /* the GG_TENSOR_PAIR of FP16, and where it is not its turn FFMA in tiles of 128×64; the same with 64×128 */
    GG_TENSOR_EDGE,    /* GG_TENSOR, from FP16 on, in tiles that take the rows and columns beyond them */
    GG_TENSOR_PAIR_EDGE, /* the GG_TENSOR_PAIR of FP16 likewise */
    GG_SPLIT,            /* certifies operands and writes the pieces for a GG_TENSOR; in the order of those, then one that only certifies */
    GG_PACK,             /* lays out an operand for TMA */
    GG_FETCH             /* copies from page-locked memory */
};

/* A row of cuda/kernels.def. Its columns are explained there. */
struct gg_kernel {
    const char *name;
    const void *image; /* the embedded fat binary of its .cu file */
    enum gg_type type;
    enum gg_role role;
    int cc_min, cc_max;
    int tile_m, tile_n, tile_k;
    int threads;
    int smem; /* bytes of dynamic shared memory */
    int per_sm, rate, start;
};

/* What select.c decided for one problem on one GPU. */
struct gg_choice {
    const struct gg_kernel *kernel;
    int splits; /* GG_TILED_CUT, GG_SKINNY, GG_SLIM: pieces of k. GG_PERSISTENT, GG_TMA…: blocks, or pairs, that share the last tiles, cut along k
                 * (tile.cuh); 1: tiles stay whole
                 */
    double seconds;       /* predicted time on the device, launch included */
    int cluster, groups;  /* GG_TMA… with splits 1: if cluster > 1, each tile's k is cut among `groups` clusters of that many blocks */
    int strip_m, strip_n; /* so many last rows and columns of C are strips, products of their own; the rest of this is about what is left */
};

/* What choice makes of p: part 0 without its strips, the last columns, the last rows of the others. False: there is no such part. */
static inline bool gg_part(const struct gg_gemm *p, const struct gg_choice *choice, int part, struct gg_gemm *q)
{
    const int64_t size = (int64_t)gg_size(p->type), m = p->m - choice->strip_m, n = p->n - choice->strip_n;
    *q = *p;
    if (part != 1)
        q->n = n;
    if (part == 0) {
        q->m = m;
    } else if (part == 1) {
        q->n = choice->strip_n;
        q->b = (const char *)p->b + n * (p->b_kmajor ? p->ldb : 1) * size;
        q->c = (char *)p->c + n * p->ldc * size;
    } else {
        q->m = choice->strip_m;
        q->a = (const char *)p->a + m * (p->a_kmajor ? p->lda : 1) * size;
        q->c = (char *)p->c + m * size;
    }
    return q->m > 0 && q->n > 0;
}

/* Scratch for packed operands a call may ask for, at most; a longer k is done in several passes. Shared tiles add less than 128 MiB. */
enum { GG_PACK_MIB = 512 };

/* No part of a shared tile is shorter than this many k steps (GG_SHORTEST_PART of cuda/tile.cuh). */
enum { GG_SHORTEST_RUN = 8 };

/* Tiles of C. Sizes that no memory holds get the largest number there is. */
static inline int64_t gg_tiles(const struct gg_kernel *row, const struct gg_gemm *p)
{
    int64_t tiles;
    bool fits = !__builtin_mul_overflow(gg_ceil_div(p->m, row->tile_m), gg_ceil_div(p->n, row->tile_n), &tiles);
    return fits ? tiles : INT64_MAX;
}

/* Of `tiles`, how many `blocks` blocks share: those of the last full round and the ragged one after it. */
static inline int64_t gg_shared_tiles(int64_t tiles, int blocks)
{
    return blocks == 1 || tiles % blocks == 0 ? 0 : tiles % blocks + (tiles > blocks ? blocks : 0);
}

/* Rows of its large operand that a block of skinny.cu takes, by whether their k is contiguous. */
static inline int gg_skinny_rows(bool kmajor) { return kmajor ? 32 : 128; }

/* Likewise, of slim.cu. */
static inline int gg_slim_rows(const struct gg_kernel *row, bool kmajor) { return kmajor ? row->tile_k : row->tile_m; }

/* Blocks of a cluster, at most: what every GPU with clusters grants. */
enum { GG_LARGEST_CLUSTER = 8 };

/* Blocks in clusters of that size that find an SM each at one time. Of an H200's 132 those of 39, 30, 22, 17, 15 and 15 clusters of 3 to 8 do, by the
 * driver, and other GPUs lack other SMs. */
static inline int gg_places(int sms, int cluster) { return cluster <= 2 ? sms : sms * (cluster <= 4 ? 14 : 13) / 16; }

/* A row of role GG_TMA… cannot read this operand where it is, nor others by 16 bytes: its rows are not multiples of 16 bytes, or too far apart. */
static inline bool gg_must_pack(enum gg_type type, const void *base, int64_t ld)
{
    const uint64_t pitch = (uint64_t)ld * gg_size(type);
    return (uintptr_t)base % 16 != 0 || pitch % 16 != 0 || pitch >> 40 != 0;
}

/* Blocks that compute a tile side by side. */
static inline int gg_team(const struct gg_kernel *row) { return row->role == GG_TMA_PAIR ? 2 : 1; }

/* Does a tile at C's edge, which has no more than half of its rows or columns, take less time than others? Of eight warps those that have nothing of
 * C multiply nothing, and the others are spread over all schedulers. Such half tiles come last, and are shared by that. */
static inline bool gg_halves(const struct gg_kernel *row)
{
    return row->role == GG_TMA || (row->role == GG_TMA_EITHER && row->threads == 384 && row->tile_m * row->tile_n <= 128 * 128);
}

/* How many tiles x rows or columns of C have in a line, but for a half one. */
static inline int64_t gg_full(const struct gg_kernel *row, int64_t x, int tile)
{
    return gg_halves(row) ? (x + tile / 2 - 1) / tile : gg_ceil_div(x, tile);
}

static inline bool gg_is_tiled(const struct gg_kernel *row) { return row->role == GG_TILED || row->role == GG_TILED_CUT; }

static inline bool gg_is_tma(const struct gg_kernel *row) { return row->role >= GG_TMA && row->role <= GG_TMA_ONCE; }

/* The compute capability that the code was compiled for which the driver runs on a GPU of this one. */
int gg_code_for(int cc);

/* Can the row's kernel be started on this GPU, and is it the one that it was written for? */
bool gg_runs(const struct gg_kernel *row, const struct gg_arch *arch);

/* Flop a clock and SM, on this GPU. */
double gg_rate(const struct gg_kernel *row, const struct gg_arch *arch);

/* Pure. The fastest legal row by the cost model, or the one named `force` (NULL or "": none forced; an unknown or illegal name is ignored,
 * select never fails for want of it). kernel is NULL when no row serves this GPU. Operands are taken to be in GPU memory at p's addresses
 * (alignment matters, contents do not). */
struct gg_choice gg_choose(const struct gg_gemm *p, const struct gg_arch *arch, const char *force);

/* The same, but what has been asked before is remembered. `force` is known again by its address. */
struct gg_choice gg_select(const struct gg_gemm *p, const struct gg_arch *arch, const char *force);

/* Enqueues the choice on stream: C is complete when the stream gets there. No synchronisation, no allocation but gg_gpu_workspace. */
bool gg_launch(struct gg_device *dev, const struct gg_choice *choice, const struct gg_gemm *p, gg_stream stream);

/* Enqueues a copy of `bytes`, a multiple of 16, as both addresses are, from page-locked memory. */
bool gg_fetch(struct gg_device *dev, void *to, const void *from, int64_t bytes, gg_stream stream);

/* After gg_launch, when nothing else has been launched on the stream since: the row that served. Of a chain that is known only when it is done:
 * waits for the stream. */
const struct gg_kernel *gg_served(struct gg_device *dev, const struct gg_choice *choice, const struct gg_gemm *p, gg_stream stream);

/* When a kernel is to run: (*verdict & mask) == value, verdict in GPU memory; else it leaves at once. first: see gate_first of struct gg_args. */
struct gg_gate {
    void *verdict;
    uint32_t mask, value, first;
};

/* gg_launch of a row that is not GG_TENSOR, behind a gate, with `memory`, of which `bytes` may be used, in place of gg_gpu_workspace: it must be the
 * beginning of the stream's workspace, as flags are looked for before it. */
bool gg_launch_gated(struct gg_device *dev, const struct gg_choice *choice, const struct gg_gemm *p, gg_stream stream, const struct gg_gate *gate,
                     void *memory, size_t bytes);

/* p as a kernel sees it, less what is the row's own; behind a gate, unless that is NULL. */
struct gg_args gg_launch_args(const struct gg_gemm *p, const struct gg_gate *gate);

/* What a GG_TMA… row wants beside that when it has a tile a block; other rows want nothing. False: the driver failed. */
bool gg_launch_maps(struct gg_args *args, const struct gg_kernel *row);

/* A kernel of a chain, be it the split, the product or FFMA: all of them begin with gg_gated. */
bool gg_launch_link(struct gg_device *dev, const struct gg_kernel *row, struct gg_dim grid, gg_stream stream, const struct gg_args *args);

/* What such a launch wants of scratch, all of its parts. */
size_t gg_launch_scratch(const struct gg_device *dev, const struct gg_choice *choice, const struct gg_gemm *p);

/* All rows, for tests, the bench and `gpugemm info`. Rows from GG_SCALE on are helpers that gg_select never returns. */
extern const struct gg_kernel gg_kernels[];
extern const int gg_kernel_count;

#endif

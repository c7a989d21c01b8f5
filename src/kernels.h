/* kernels.h — cuda/kernels.def as data, the choice among its rows (select.c and cost.c, pure; chosen.c) and how a row is started (launch.c).
 *
 * Terms. A row is a kernel as kernels.def describes it. FFMA is the FP32 multiply-add, and short for sgemm by kernels that use nothing else. k of a
 * tile is cut into pieces, each summed by one block; the sums of a piece are a part of the tile, and parts are added in order of k. Split-K
 * (GG_TILED_CUT, GG_SKINNY, GG_SLIM, clusters): every tile is cut into equally many pieces. Stream-K (GG_PERSISTENT, GG_TMA…): whole tiles are dealt
 * out first, and all blocks share the last tiles, each an equal run of their k steps (cuda/tile.cuh). Strips are the few last rows or columns of C
 * beyond whole tiles, when they are made products of their own. (A plan's strips, plan.h, and a chain's pieces, tensor.h, are other things.) */
#ifndef GG_KERNELS_H
#define GG_KERNELS_H

#include "../cuda/kernel.h"
#include "gemm.h"
#include "gpu.h"

/* How a row is started, and what it computes. */
enum gg_role {
    GG_PLAIN,            /* alpha op(A) op(B) + beta C, any grid */
    GG_TILED,            /* the same, one block a tile */
    GG_TILED_CUT,        /* likewise, or several blocks a tile, each with a piece of its k; the last to finish adds the parts up */
    GG_PERSISTENT,       /* the same, with as many blocks as the GPU holds, each taking tiles in turn */
    GG_TMA,              /* persistent or in clusters; operands by TMA, m and n contiguous, others are packed first; adds parts of tiles itself */
    GG_TMA_EITHER,       /* likewise, but takes operands with k contiguous too; FP64 rows take no unaligned ones */
    GG_TMA_PAIR,         /* likewise, in clusters of two blocks that share A: each computes the left or right half of a tile */
    GG_TMA_ONCE,         /* likewise, but one tile per block or cluster: its groups of warps take turns along k, and add up in the ring's memory */
    GG_SKINNY,           /* as GG_TILED, only for m or n <= tile_n; k is cut into pieces until the GPU is full */
    GG_SLIM,             /* likewise, with 16-byte loads; the pieces of k, here a power of two, are the blocks of a cluster, which add the parts up */
    GG_SLIM_TMA,         /* likewise, the large operand, which must be aligned, by TMA */
    GG_GEMV,             /* as GG_TILED, only for m or n == 1 */
    GG_GEMV_T,           /* as GG_TILED_CUT, only for m or n == 1, with k contiguous in the matrix; the vector contiguous, too */
    GG_GEMV_N,           /* likewise with k not contiguous in the matrix, and both aligned */
    GG_GEMV_SINGLE,      /* likewise with k not contiguous in the matrix, whatever the vector and the alignment */
    GG_PANEL,            /* as GG_TILED, only for m or n <= tile_n and k <= GG_PANEL_K: a block has tile_m rows of the large operand */
    GG_GRAM,             /* as GG_TILED_CUT, for few tiles and a long k; up to as many blocks as the GPU holds have a piece of it */
    GG_TENSOR,           /* the same from 16-bit pieces of the operands, if they are certified: the head of a chain, see tensor.h */
    GG_TENSOR_PAIR,      /* likewise with two blocks a tile, for small C */
    GG_TENSOR_MMA,       /* GG_TENSOR without wgmma, for GPUs before Hopper: whole tiles only */
    GG_TENSOR_INT8,      /* the head of FP64's chain: products of the operands modulo GG_INT8_MODULI numbers */
    GG_SCALE,            /* beta C, for k == 0 */
    GG_FIXUP,            /* adds up the parts of shared tiles */
    GG_SKINNY_SUM,       /* adds up the parts of a GG_SKINNY */
    GG_SLIM_TWO,         /* two products of the GG_SLIM with the same tile_n */
    GG_TENSOR_OR_FFMA,   /* the GG_TENSOR_PAIR of FP16, or FFMA in tiles of 128×64 if FP16 is ruled out; then the same with 64×128 */
    GG_TENSOR_EDGE,      /* GG_TENSOR, from FP16 on, whose edge tiles also take the rows and columns of C beyond them */
    GG_TENSOR_PAIR_EDGE, /* the same of the GG_TENSOR_PAIR of FP16 */
    GG_SPLIT,            /* certifies operands and writes the pieces for a GG_TENSOR; one per tier in the order of those, then one that only
                          * certifies */
    GG_RESIDUES,         /* certifies operands and writes them modulo those numbers for GG_TENSOR_INT8 */
    GG_RESTORE,          /* puts its products together */
    GG_PACK,             /* copies an operand to a layout that TMA can read */
    GG_TRANSFER,         /* copies from page-locked memory or to it */
    GG_MAPPED            /* multiplies operands in page-locked memory, by one cluster */
};

/* The calls that machine code was compiled for (cmake/cuda.cmake): those that read C or those that do not, and of each any, only those that cut no
 * tile's k, or only those that have a cluster, or several, for each tile. */
enum gg_image { GG_IMAGE_ANY = 0, GG_IMAGE_UPDATE = 1, GG_IMAGE_WHOLE = 2, GG_IMAGE_CUT = 4, GG_IMAGES = 6 };

/* A row of cuda/kernels.def. Its columns are explained there. */
struct gg_kernel {
    const char *name;
    const void *image[GG_IMAGES]; /* the embedded fat binaries of its .cu file. They may be the same */
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
    int splits; /* GG_TILED_CUT, GG_GRAM, GG_GEMV_…, GG_SKINNY, GG_SLIM: pieces of k. GG_PERSISTENT, GG_TMA…: blocks, or pairs, that share the last
                 * tiles along k; 1: no tile is shared */
    double seconds;       /* predicted time on the device, launch included */
    int cluster, groups;  /* GG_TMA… with splits 1: each tile's k is cut among `groups` clusters of `cluster` blocks (FP64: but for GG_TMA_ONCE one
                           * cluster); FP32's GG_TMA_ONCE also among single blocks, cluster 1, which gather the tile. With splits > 1 and groups >
                           * 1: into so many equal pieces, for half tiles into as many as `splits` leaves for them */
    int strip_m, strip_n; /* so many last rows and columns of C are strips, products of their own; the rest of this choice is about what remains */
    bool beside;          /* the strips run beside it, on SMs that it leaves idle, in blocks that each sum all of k */
    bool wide;            /* GG_SLIM for vectors: each block has GG_WIDE rows of the large operand */
};

/* Pieces of each tile's k where a tile's blocks are its own, clusters or not; 1: k is not cut like that. */
static inline int gg_own_pieces(const struct gg_choice *choice)
{
    return choice->splits == 1 && choice->cluster * choice->groups > 1 ? choice->cluster * choice->groups : 1;
}

/* Do the units that share a tile add it up together (cuda/gather.cuh)? */
static inline bool gg_gathers(const struct gg_choice *choice)
{
    const struct gg_kernel *row = choice->kernel;
    if (row->role == GG_TMA_ONCE)
        return row->type == GG_S && choice->splits == 1 && choice->cluster == 1 && choice->groups > 1;
    const bool pair = row->role == GG_TMA_PAIR;
    return row->type == GG_D && (pair || row->role == GG_TMA_EITHER) && choice->splits > 1 && choice->cluster <= 1 &&
           choice->groups >= GG_LEAST_GATHERED(row->tile_m, row->tile_n / (pair ? 2 : 1));
}

/* The products into which the choice divides p: part 0 is p without its strips, part 1 the strip of last columns, part 2 the strip of last rows
 * without the columns of part 1. False: that part is empty. */
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

/* Most scratch that a call may ask for to pack operands; a longer k is done in several passes. Shared tiles add less than 128 MiB. */
enum { GG_PACK_MIB = 512 };

/* Fewest k steps in a part of a shared tile (GG_SHORTEST_PART of cuda/tile.cuh). */
enum { GG_SHORTEST_RUN = 8 };

/* Is a tile of so many k steps too short to be cut, even where blocks share tiles unevenly? Each then has a run of whole tiles, because a run's ends
 * are moved to an edge of a tile that is nearer than GG_SHORTEST_RUN (run_start of cuda/parts.cuh). FP64 only; FP32 cuts from GG_SHORTEST_RUN on. */
static inline bool gg_stays_whole(int64_t steps) { return steps < 2 * GG_SHORTEST_RUN; }

static inline bool gg_is_gemv(const struct gg_kernel *row) { return row->role >= GG_GEMV && row->role <= GG_GEMV_SINGLE; }

/* Tiles of C; the largest number there is for sizes that no memory holds. */
static inline int64_t gg_tiles(const struct gg_kernel *row, const struct gg_gemm *p)
{
    if (gg_is_gemv(row))
        return gg_ceil_div(gg_max(p->m, p->n), row->tile_m);
    int64_t tiles;
    bool fits = !__builtin_mul_overflow(gg_ceil_div(p->m, row->tile_m), gg_ceil_div(p->n, row->tile_n), &tiles);
    return fits ? tiles : INT64_MAX;
}

/* How many of `tiles` are shared by `blocks` blocks: those of the last full round and of the incomplete one after it. */
static inline int64_t gg_shared_tiles(int64_t tiles, int blocks)
{
    return blocks == 1 || tiles % blocks == 0 ? 0 : tiles % blocks + (tiles > blocks ? blocks : 0);
}

/* Rows of its large operand that a block of skinny.cu takes; it depends on whether k is contiguous in them. */
static inline int gg_skinny_rows(bool kmajor) { return kmajor ? 32 : 128; }

/* Blocks of a GG_PANEL row. */
static inline int64_t gg_panel_blocks(const struct gg_kernel *row, const struct gg_gemm *p)
{
    const bool b_large = p->n > row->tile_n;
    return gg_ceil_div(b_large ? p->n : p->m, (b_large ? p->b_kmajor : p->a_kmajor) ? GG_PANEL_DOTS(row->tile_n) : row->tile_m);
}

/* Most blocks in a cluster: what every GPU with clusters grants. */
enum { GG_LARGEST_CLUSTER = 8 };

/* SMs that clusters of that size can occupy at one time, with a block on each. On an H200 with 132 SMs the driver finds room for 39, 30, 22, 17, 15
 * and 15 clusters of 3 to 8 blocks; other GPUs have other SMs disabled, so this stays below. */
static inline int gg_places(int sms, int cluster) { return cluster <= 2 ? sms : sms * (cluster <= 4 ? 14 : 13) / 16; }

/* TMA and 16-byte loads cannot read this operand where it lies: its lines do not begin at multiples of 16 bytes, or are too far apart. */
static inline bool gg_must_pack(enum gg_type type, const void *base, int64_t ld)
{
    const uint64_t pitch = (uint64_t)ld * gg_size(type);
    return (uintptr_t)base % 16 != 0 || pitch % 16 != 0 || pitch >> 40 != 0;
}

/* That of a GG_SLIM… row's large operand, and of its small one. */
static inline bool gg_unaligned_large(const struct gg_kernel *row, const struct gg_gemm *p)
{
    return p->n > row->tile_n ? gg_must_pack(p->type, p->b, p->ldb) : gg_must_pack(p->type, p->a, p->lda);
}
static inline bool gg_unaligned_small(const struct gg_kernel *row, const struct gg_gemm *p)
{
    return p->n > row->tile_n ? gg_must_pack(p->type, p->a, p->lda) : gg_must_pack(p->type, p->b, p->ldb);
}

/* Should the blocks of a GG_SLIM row have GG_WIDE rows of that operand, if they are enough? They read lines of one k element by element. Lines of 32
 * floats that begin anywhere touch 5 sectors of 32 bytes, some of which the neighbours read again; lines of 128, 17. And k may be so short that the
 * other blocks, of fewer rows and more k at a time, have no whole turn. */
static inline bool gg_prefers_wide(const struct gg_kernel *row, const struct gg_gemm *p)
{
    const int64_t turn = 2048 / (int64_t)gg_size(p->type);
    return row->role == GG_SLIM && row->tile_n == 1 && !(p->n > row->tile_n ? p->b_kmajor : p->a_kmajor) &&
           (gg_unaligned_large(row, p) || p->k < turn);
}

/* Blocks along that operand, without cutting k. */
static inline int64_t gg_slim_blocks(const struct gg_kernel *row, const struct gg_gemm *p, bool wide)
{
    const bool b_large = p->n > row->tile_n, dots = row->role == GG_SLIM && (b_large ? p->b_kmajor : p->a_kmajor);
    return gg_ceil_div(b_large ? p->n : p->m, dots ? row->tile_k : wide ? GG_WIDE : row->tile_m);
}

/* The row's team: how many blocks compute a tile side by side. */
static inline int gg_team(const struct gg_kernel *row) { return row->role == GG_TMA_PAIR ? 2 : 1; }

/* Does a half tile take less time? A half tile is one at C's edge that holds no more than half of its rows or columns of C. Of its eight warps those
 * without elements of C multiply nothing, and the others are spread over all schedulers. Half tiles are dealt out last and shared by that shorter
 * time. */
static inline bool gg_halves(const struct gg_kernel *row)
{
    return row->role == GG_TMA || (row->role == GG_TMA_EITHER && row->threads == 384 && row->tile_m * row->tile_n <= 128 * 128);
}

/* Number of tiles along x rows or columns of C, not counting a half tile. */
static inline int64_t gg_full(const struct gg_kernel *row, int64_t x, int tile)
{
    return gg_halves(row) ? (x + tile / 2 - 1) / tile : gg_ceil_div(x, tile);
}

static inline int64_t gg_full_tiles(const struct gg_kernel *row, const struct gg_gemm *p)
{
    return gg_full(row, p->m, row->tile_m) * gg_full(row, p->n, row->tile_n);
}

/* Of a choice that shares all tiles evenly: units of each half tile; 0: there are no half tiles; -1: `splits` units are no such way. */
static inline int64_t gg_half_pieces(const struct gg_choice *choice, const struct gg_gemm *p)
{
    const int64_t full = gg_full_tiles(choice->kernel, p), halves = gg_tiles(choice->kernel, p) - full, left = choice->splits - full * choice->groups;
    if (left < 0 || (halves == 0 ? left > 0 : left == 0 || left % halves > 0))
        return -1;
    return halves == 0 ? 0 : left / halves;
}

static inline bool gg_is_tiled(const struct gg_kernel *row) { return row->role == GG_TILED || row->role == GG_TILED_CUT; }

/* May several blocks have a piece of a tile's k each, the last of which to finish adds the parts up? (Of GG_GEMV, for which no choice cuts k, one
 * block a tile is launched in the same way.) */
static inline bool gg_is_cut(const struct gg_kernel *row) { return row->role == GG_TILED_CUT || row->role == GG_GRAM || gg_is_gemv(row); }

static inline bool gg_is_slim(const struct gg_kernel *row) { return row->role == GG_SLIM || row->role == GG_SLIM_TMA; }

static inline bool gg_is_tma(const struct gg_kernel *row) { return row->role >= GG_TMA && row->role <= GG_TMA_ONCE; }

/* The compute capability of the code in this build that the driver would run on a GPU of capability cc. */
int gg_code_for(int cc);

/* Can the row's kernel be started on this GPU, and is this a GPU that it was written for? */
bool gg_runs(const struct gg_kernel *row, const struct gg_arch *arch);

/* As `force`, below: p is a strip of C, for which only rows count that may be a chain's FFMA. */
extern const char gg_strip[];

/* Pure. The fastest legal row by the cost model, or the one named `force` (NULL or "": none is forced; an unknown or illegal name is ignored, so
 * select never fails because of it). kernel is NULL when no row serves this GPU. Operands are taken to be in GPU memory at p's addresses (alignment
 * matters, contents do not). */
struct gg_choice gg_choose(const struct gg_gemm *p, const struct gg_arch *arch, const char *force);

/* The same, but remembers answers. `force` is compared by address. */
struct gg_choice gg_select(const struct gg_gemm *p, const struct gg_arch *arch, const char *force);

/* The only row of such a role. */
const struct gg_kernel *gg_helper(enum gg_type type, enum gg_role role);

/* Bytes from a line of A (else B) to the next where the GG_MAPPED row reads it: 16-byte loads of several rows of A at the same k meet in no bank. */
static inline int64_t gg_mapped_pitch(const struct gg_gemm *p, bool a)
{
    const int64_t elements = a ? (p->a_kmajor ? p->k : p->m) : p->b_kmajor ? p->k : p->n;
    return gg_round_up(elements * (int64_t)gg_size(p->type), 16) | (a && p->a_kmajor ? 16 : 0);
}

/* Pure. The GG_MAPPED row, if it serves this GPU and is the fastest for a product of operands in host memory, or is the one named `force`; else
 * NULL. */
const struct gg_kernel *gg_mapped(const struct gg_gemm *p, const struct gg_arch *arch, const char *force);

/* The choice for operands in host memory, staged as a whole: the GG_MAPPED row where it is the fastest, or is the one named `force`; else gg_select's.
 * The same time is predicted of both. */
struct gg_choice gg_select_staged(const struct gg_gemm *p, const struct gg_arch *arch, const char *force);

/* Enqueues the choice on stream: C is complete when the stream gets there. No synchronisation, no allocation but gg_gpu_workspace and, if `repeats`,
 * what the driver needs for graphs: the caller may come with the same call again and again, and it is its turn (gg_gpu_again). */
bool gg_launch(struct gg_device *dev, const struct gg_choice *choice, const struct gg_gemm *p, gg_stream stream, bool repeats);

/* Enqueues a copy between page-locked memory and the GPU's by a kernel. Both addresses and `bytes` are multiples of 16. */
bool gg_transfer(struct gg_device *dev, void *to, const void *from, int64_t bytes, gg_stream stream);

/* Starts the GG_MAPPED row. p's operands are in page-locked memory: A, directly behind it B, and C, whose pitch is a multiple of 16 bytes. old: where C
 * is read, laid out as C. */
bool gg_launch_mapped(struct gg_device *dev, const struct gg_gemm *p, void *old, gg_stream stream);

/* The row that served, to be asked after gg_launch when nothing else has been launched on the stream since. For a chain that is known only at its
 * end: waits for the stream. */
const struct gg_kernel *gg_served(struct gg_device *dev, const struct gg_choice *choice, const struct gg_gemm *p, gg_stream stream);

/* Condition for a kernel to run: (*verdict & mask) == value, with verdict in GPU memory; otherwise it leaves at once (cuda/gate.cuh). first: see
 * gate_first of struct gg_args. */
struct gg_gate {
    void *verdict;
    uint32_t mask, value, first;
};

/* gg_launch of a row that is not GG_TENSOR…, behind a gate. Its scratch is `memory`, of which `bytes` may be used, instead of gg_gpu_workspace.
 * `memory` must be the beginning of the stream's workspace, because kernels look for their flags in front of it. */
bool gg_launch_gated(struct gg_device *dev, const struct gg_choice *choice, const struct gg_gemm *p, gg_stream stream, const struct gg_gate *gate,
                     void *memory, size_t bytes);

/* p as a kernel sees it, without what depends on the row; behind a gate, unless that is NULL. */
struct gg_args gg_launch_args(const struct gg_gemm *p, const struct gg_gate *gate);

/* Adds what a GG_TMA… row needs when each block has one tile; nothing for other rows. False: the driver failed. */
bool gg_launch_maps(struct gg_args *args, const struct gg_kernel *row);

/* Launches one kernel of a chain, behind another of it: split, product or FFMA. Each begins with gg_gated (cuda/gate.cuh). */
bool gg_launch_link(struct gg_device *dev, const struct gg_kernel *row, struct gg_dim grid, gg_stream stream, struct gg_args *args);

/* Bytes of scratch that such a launch wants, the largest of its parts. */
size_t gg_launch_scratch(const struct gg_device *dev, const struct gg_choice *choice, const struct gg_gemm *p);

/* All rows, for tests, the bench and `gpugemm info`. Rows from GG_SCALE on are helpers that gg_select never returns. */
extern const struct gg_kernel gg_kernels[];
extern const int gg_kernel_count;

#endif

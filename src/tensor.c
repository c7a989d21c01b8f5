/* tensor.c — owns the chain of launches (tensor.h) that serves a product from the tensor cores if the operands allow it, and by strict precision's
 * kernels if not. It waits for nothing and reads nothing back, but for gg_chain_server: which tier serves is known on the GPU alone. Called by
 * launch.c and, for host operands, conduct.c; cost.c asks it for predictions. */
#include "tensor.h"

#include <stdatomic.h>

#include "cost.h"

#include "../cuda/kernel.h"

enum { TILE = 128, MOST_Y = 65535 /* of a grid */ };
enum tier { TF32, FP16, BF16, FFMA, CERTIFY = FFMA, INT8 }; /* in the order of the rows of GG_TENSOR, GG_TENSOR_MMA and GG_SPLIT; then FP64's */

/* By tier: the bytes of an element's pieces, the unit of k in which they are laid out, and the bit of the verdict that rules the tier out. CERTIFY
 * writes no pieces, but its blocks take as many k. */
static const struct {
    int bytes, chunk;
    uint32_t not ;
} tiers[] = {[TF32] = {2, 64, GG_NOT_FP16},
             [FP16] = {4, 64, GG_NOT_FP16},
             [BF16] = {6, 64, GG_NOT_BF16},
             [CERTIFY] = {0, 64, 0},
             [INT8] = {GG_INT8_MODULI, GG_INT8_UNIT, GG_NOT_INT8}};

/* A GG_TENSOR_PAIR chain is for C so small that FFMA is about as fast as BF16, so it has no BF16 tier. */
static enum tier next_tier(const struct gg_chain *chain, enum tier tier)
{
    return tier == BF16 || tier == INT8 || chain->row->role == GG_TENSOR_PAIR ? FFMA : BF16;
}

/* Found once: a call asks a dozen times, and the search was a third of what it takes of the host. */
static const struct gg_kernel *row_of(enum gg_role role, enum tier tier)
{
    static const struct gg_kernel *_Atomic found[GG_MAPPED + 1][INT8 + 1];
    const struct gg_kernel *row = atomic_load_explicit(&found[role][tier], memory_order_relaxed);
    if (row)
        return row;
    row = gg_kernels;
    for (int index = tier == INT8 ? 0 : (int)tier; row->role != role || index-- > 0; row++)
        ;
    atomic_store_explicit(&found[role][tier], row, memory_order_relaxed);
    return row;
}

static enum tier first_tier(const struct gg_chain *chain)
{
    enum tier tier = chain->row->role == GG_TENSOR_INT8 ? INT8 : TF32;
    while (row_of(chain->row->role, tier) != chain->row)
        tier++;
    return tier;
}

bool gg_chain_legal(const struct gg_kernel *row, const struct gg_gemm *p)
{
    const struct gg_chain chain = {.row = row};
    if (row->role == GG_TENSOR_INT8)
        return p->precision >= GG_FP32 && p->k >= GG_INT8_LEAST_K && p->k <= GG_INT8_MOST_K && gg_chain_least(p) <= gg_chain_most(p->type);
    return p->precision >= (first_tier(&chain) == TF32 ? GG_TF32 : GG_FP32) && p->k >= GG_TENSOR_LEAST_K && p->k < INT64_C(1) << 31 &&
           (double)p->m * (double)p->n < 0x1p44 && /* fewer than 2^31 tiles */
           gg_chain_least(p) <= gg_chain_most(p->type) &&
           (row->role != GG_TENSOR_MMA || (double)gg_max(p->m, p->n) * (double)p->k < 0x1p33); /* pieces are counted in units of 16 bytes, in 32
                                                                                                * bits */
}

/* The gate of a tier is open when every tier before it is ruled out and the tier itself is not. */
static struct gg_gate gate_of(const struct gg_chain *chain, enum tier tier)
{
    struct gg_gate gate = {.verdict = chain->verdict};
    for (enum tier t = first_tier(chain); t != tier; t = next_tier(chain, t))
        gate.value |= tiers[t].not ;
    gate.mask = gate.value | (tier == FFMA ? 0 : tiers[tier].not);
    gate.first = tiers[first_tier(chain)].not ;
    return gate;
}

/* ---- scratch ---------------------------------------------------------------------------------------------------------------------- */

/* Bytes for the pieces of `rows` rows of k, and with their scales. */
static size_t piece_bytes(int64_t rows, int64_t k, enum tier tier)
{
    return (size_t)(gg_round_up(rows, TILE) * gg_round_up(k, tiers[tier].chunk) * tiers[tier].bytes);
}
static size_t operand_bytes(int64_t rows, int64_t k, enum tier tier)
{
    return piece_bytes(rows, k, tier) + (size_t)gg_round_up(rows, 2 * TILE) * sizeof(float);
}

/* FP64's chain: bytes for the products of pieces, of up to MOST_C rows and columns of C at a time. */
enum { MOST_C = 8192 };
static size_t product_bytes(int64_t m, int64_t n)
{
    return (size_t)(gg_round_up(gg_min(m, MOST_C), 2 * TILE) * gg_round_up(gg_min(n, MOST_C), 2 * TILE) * GG_INT8_MODULI);
}

/* The FFMA of the chain for p: strict precision's choice, so that operands that fail get strict's result to the bit. */
static struct gg_choice strict_choice(const struct gg_chain *chain, const struct gg_gemm *p, struct gg_gemm *strict)
{
    *strict = *p;
    strict->precision = GG_STRICT;
    return gg_select(strict, &chain->dev->arch, NULL);
}

/* Of the tier that needs most. SIZE_MAX for k (m + n) above 2^54, which no memory holds. */
static size_t pieces_of(enum gg_type type, int64_t m, int64_t n, int64_t k)
{
    const enum tier tier = type == GG_D ? INT8 : BF16;
    if (((double)m + (double)n + 2 * TILE) * ((double)k + tiers[tier].chunk) > 0x1p54)
        return SIZE_MAX;
    return operand_bytes(m, k, tier) + operand_bytes(n, k, tier) + (tier == INT8 ? product_bytes(m, n) : 0);
}

size_t gg_chain_bytes(const struct gg_chain *chain, const struct gg_gemm *p)
{
    struct gg_gemm strict;
    const struct gg_choice choice = strict_choice(chain, p, &strict);
    const size_t pieces = pieces_of(p->type, p->m, p->n, p->k), ffma = choice.kernel ? gg_launch_scratch(chain->dev, &choice, &strict) : 0;
    return pieces > ffma ? pieces : ffma;
}

size_t gg_chain_least(const struct gg_gemm *p)
{
    const int64_t most = 12 * TILE; /* about as many tiles as a GPU has SMs */
    return pieces_of(p->type, gg_min(p->m, most), gg_min(p->n, most), p->k);
}

/* How many rows of A and of B to hold in pieces at one time: all, or equally many of both as far as memory goes. */
static bool cut(const struct gg_chain *chain, const struct gg_gemm *p, int64_t *m, int64_t *n)
{
    *m = p->m, *n = p->n;
    while (pieces_of(p->type, *m, *n, p->k) > chain->bytes) {
        if (*m <= TILE && *n <= TILE)
            return false;
        if (*m > *n)
            *m = gg_round_up(gg_ceil_div(*m, 2), TILE);
        else
            *n = gg_round_up(gg_ceil_div(*n, 2), TILE);
    }
    return true;
}

/* ---- how tensor_gemm.cuh and tensor_mma.cu divide C ----------------------------------------------------------------------------------------- */

/* C is covered by tiles, plus strips for the few rows or columns beyond whole tiles. Or, with edges, the tiles at the edge take those too, and one
 * strip covers the corner beyond both. */
struct layout {
    bool edges;
    double tiles, strips;
};

/* How much longer tiles take in the kernels with edges (H200). */
static const double EDGE = 1.11;

/* A strip takes half a tile's time. Blocks with a tile less than others do strips in that time. */
static double clocks_of(const struct gg_kernel *row, const struct layout *c, int64_t k, const struct gg_arch *arch)
{
    const bool pair = row->role == GG_TENSOR_PAIR;
    const double steps = (double)gg_ceil_div(k, row->tile_k) / (pair ? 2 : 1);
    const double step = 2.0 * row->tile_m * row->tile_n * row->tile_k / gg_rate(row, arch);
    const double at_once = pair ? arch->sms / 2 : arch->sms, rounds = (double)(int64_t)((c->tiles + at_once - 1) / at_once);
    const double idle = rounds * at_once - c->tiles;
    const double clocks = rounds * (steps * step * (c->edges ? EDGE : 1) + row->start);
    if (c->strips <= (pair ? idle : GG_TENSOR_STRIPS * idle))
        return clocks;
    return clocks + (double)(int64_t)(c->strips / at_once + 1) * (steps * step / GG_TENSOR_STRIPS + (pair ? row->start / 2 : 0));
}

static bool beyond(int64_t extent, int most) { return extent > TILE && extent % TILE > 0 && extent % TILE <= most; }

static struct layout with_strips(int64_t m, int64_t n)
{
    const int64_t wide = TILE / 2;
    const bool of_m = beyond(m, GG_TENSOR_STRIP), of_n = beyond(n, GG_TENSOR_STRIP);
    return (struct layout){false, (double)(gg_ceil_div(m, TILE) - of_m) * (double)(gg_ceil_div(n, TILE) - of_n),
                           (double)(of_m ? gg_ceil_div(n, wide) : 0) + (double)(of_n ? gg_ceil_div(m, wide) - of_m : 0)};
}

/* The layout with edges. The rows beyond whole tiles are in groups of GG_TENSOR_STRIP; in each column of tiles every group goes to one tile, and
 * likewise groups of columns in each row of tiles. False where a tile would get both. */
static bool with_edges(int64_t m, int64_t n, struct layout *c)
{
    const bool of_m = beyond(m, GG_TENSOR_BEYOND), of_n = beyond(n, GG_TENSOR_BEYOND);
    const int64_t tiles_m = gg_ceil_div(m, TILE) - of_m, tiles_n = gg_ceil_div(n, TILE) - of_n;
    const int64_t rows = of_m ? gg_ceil_div(m % TILE, GG_TENSOR_STRIP) : 0, columns = of_n ? gg_ceil_div(n % TILE, GG_TENSOR_STRIP) : 0;
    *c = (struct layout){true, (double)tiles_m * (double)tiles_n, of_m && of_n};
    if (rows > 0 && columns > 0)
        return rows + columns <= gg_min(tiles_m, tiles_n) && tiles_n - tiles_m % tiles_n > rows + columns - 2;
    return rows + columns > 0 && rows <= tiles_m && columns <= tiles_n;
}

static struct layout layout_of(const struct gg_kernel *row, enum tier tier, int64_t m, int64_t n, int64_t k, const struct gg_arch *arch)
{
    if (row->role == GG_TENSOR_MMA)
        return (struct layout){false, (double)gg_ceil_div(m, TILE) * (double)gg_ceil_div(n, TILE), 0};
    const struct layout strips = with_strips(m, n);
    struct layout edges;
    return tier != TF32 && with_edges(m, n, &edges) && clocks_of(row, &edges, k, arch) < clocks_of(row, &strips, k, arch) ? edges : strips;
}

/* ---- launches -------------------------------------------------------------------------------------------------------------------------- */

/* Launches a split. The first tier's is not launched early: while the call ahead ends its blocks would only wait, in the places of that call's.
 * (H200, calls in a row, early and so: sgemm 1000 23.2 and 21.2 us, 1500 67.3 and 64.0, 2048 99.0 and 92.9, 4097 666 and 657, dgemm 2048 254 and
 * 252.) */
static bool launch_split(const struct gg_chain *chain, enum tier tier, struct gg_dim grid, struct gg_args *args)
{
    const bool first = tier == first_tier(chain) || tier == CERTIFY;
    const struct gg_kernel *const row = row_of(tier == INT8 ? GG_RESIDUES : GG_SPLIT, tier);
    return (first ? gg_gpu_launch : gg_launch_link)(chain->dev, row, grid, chain->stream, args);
}

/* FP64's split. A cluster takes as many rows as it can hold all k of. Parts of a GPU (MIG) need not have room for more than the portable 8 blocks. */
static bool split_int8(const struct gg_chain *chain, struct gg_args args, int64_t m, int64_t n)
{
    const int64_t chunks = gg_ceil_div(args.k, GG_INT8_UNIT), most = chain->dev->arch.sms > 64 ? GG_RESIDUE_BLOCKS : GG_LARGEST_CLUSTER;
    int rows = GG_RESIDUE_ROWS;
    while (chunks * rows > most * GG_RESIDUE_ITEMS)
        rows /= 2;
    args.m = m, args.n = n, args.splits = rows;
    const int64_t clusters = gg_ceil_div(m, rows) + gg_ceil_div(n, rows), blocks = gg_ceil_div(chunks * rows, GG_RESIDUE_ITEMS);
    const struct gg_dim grid = {.x = (unsigned)(clusters * blocks), .y = 1, .z = 1, .cluster = (unsigned)blocks};
    return clusters == 0 || launch_split(chain, INT8, grid, &args);
}

/* Launches the GG_SPLIT of `tier` over the first m rows of A and n of B. A block takes up to 4 chunks of k, so many that three blocks an SM do all:
 * at n = 2048, where it takes three and not one, the whole call is 4 % faster (H200). */
static bool split(const struct gg_chain *chain, enum tier tier, struct gg_args args, int64_t m, int64_t n)
{
    if (chain->row->role == GG_TENSOR_INT8)
        return split_int8(chain, args, m, n);
    const int64_t chunks = gg_ceil_div(args.k, tiers[tier].chunk), rows = gg_ceil_div(m, TILE) + gg_ceil_div(n, TILE);
    args.splits = (int)gg_min(4, (int64_t)((double)rows * (double)chunks / (3.0 * chain->dev->arch.sms)) + 1);
    args.m = m, args.n = n;
    const int64_t planes = gg_ceil_div(rows, MOST_Y);
    const struct gg_dim grid = {
        .x = (unsigned)gg_ceil_div(chunks, args.splits), .y = (unsigned)gg_ceil_div(rows, gg_max(planes, 1)), .z = (unsigned)planes};
    return rows == 0 || (planes <= MOST_Y && launch_split(chain, tier, grid, &args));
}

/* The block C(i…i+m, j…j+n) of q, as a problem. */
static struct gg_gemm block_of(const struct gg_gemm *q, int64_t i, int64_t j, int64_t m, int64_t n)
{
    struct gg_gemm block = *q;
    block.m = m, block.n = n;
    const int64_t size = (int64_t)gg_size(q->type);
    block.a = (const char *)q->a + i * (q->a_kmajor ? q->lda : 1) * size;
    block.b = (const char *)q->b + j * (q->b_kmajor ? q->ldb : 1) * size;
    block.c = (char *)q->c + (i + j * q->ldc) * size;
    return block;
}

/* Arguments for a launch of `tier` on that block, with the places of its pieces among those of all of q. */
static struct gg_args block_args(const struct gg_chain *chain, enum tier tier, const struct gg_gemm *q, const struct gg_gemm *block, int64_t i,
                                 int64_t j)
{
    const struct gg_gate gate = gate_of(chain, tier);
    struct gg_args args = gg_launch_args(block, &gate);
    char *const a = chain->memory, *const b = a + operand_bytes(q->m, q->k, tier), *const others = b + operand_bytes(q->n, q->k, tier);
    args.pieces_a = a + piece_bytes(i, q->k, tier);
    args.pieces_b = b + piece_bytes(j, q->k, tier);
    args.scale_a = (float *)(a + piece_bytes(q->m, q->k, tier)) + i;
    args.scale_b = (float *)(b + piece_bytes(q->n, q->k, tier)) + j;
    if (tier == INT8)
        args.pieces_c = others;
    return args;
}

bool gg_chain_begin(struct gg_chain *chain)
{
    chain->verdict = gg_gpu_word(chain->dev, chain->stream, true);
    return chain->verdict != NULL;
}

bool gg_chain_certify(const struct gg_chain *chain, const struct gg_gemm *q)
{
    const struct gg_gate open = {.verdict = chain->verdict};
    struct gg_args args = gg_launch_args(q, &open);
    return split(chain, CERTIFY, args, q->m, q->n);
}

/* The chain whose kinds of kernels multiply a block of C: this one, or that of pairs. */
static const struct gg_kernel *head_for(const struct gg_chain *chain, enum tier tier, const struct gg_args *args)
{
    const double tiles = (double)gg_ceil_div(args->m, TILE) * (double)gg_ceil_div(args->n, TILE);
    const bool pairs = chain->panels && tier != BF16 && tiles <= gg_chain_few(chain->row, &chain->dev->arch); /* there are none of BF16 */
    return pairs ? row_of(GG_TENSOR_PAIR, tier) : chain->row;
}

/* Launches the product of a tier's pieces, by `kernel` or by the tier's own. A pair of blocks takes one tile or strip, single blocks several. */
static bool multiply(const struct gg_chain *chain, const struct gg_kernel *kernel, enum tier tier, struct gg_args *args)
{
    const int sms = chain->dev->arch.sms;
    const struct gg_kernel *const head = head_for(chain, tier, args);
    const bool pair = head->role == GG_TENSOR_PAIR;
    const struct layout c = layout_of(head, tier, args->m, args->n, args->k, &chain->dev->arch);
    const double work = c.tiles + c.strips;
    if (!kernel)
        kernel = c.edges ? row_of(pair ? GG_TENSOR_PAIR_EDGE : GG_TENSOR_EDGE, tier - FP16) : row_of(head->role, tier);
    const unsigned blocks = (unsigned)(pair ? 2 * work : work < sms ? work : sms);
    return gg_launch_link(chain->dev, kernel, (struct gg_dim){.x = blocks, .y = 1, .z = 1}, chain->stream, args);
}

/* FP64's products, of the block C(i…i+m, j…j+n) of q. */
static bool multiply_int8(const struct gg_chain *chain, const struct gg_gemm *q, int64_t i, int64_t j, int64_t m, int64_t n)
{
    bool done = true;
    for (int64_t column = 0; column < n; column += MOST_C)
        for (int64_t row = 0; done && row < m; row += MOST_C) {
            const int64_t own_m = gg_min(MOST_C, m - row), own_n = gg_min(MOST_C, n - column);
            const struct gg_gemm part = block_of(q, i + row, j + column, own_m, own_n);
            struct gg_args args = block_args(chain, INT8, q, &part, i + row, j + column);
            const struct gg_dim pairs = {
                .x = GG_RESTORE_BLOCKS, .y = (unsigned)gg_ceil_div(own_m, 2 * TILE), .z = (unsigned)gg_ceil_div(own_n, 2 * TILE)};
            const unsigned clusters = (unsigned)gg_min(chain->dev->arch.sms / 2, (int64_t)pairs.y * pairs.z * GG_INT8_MODULI);
            done = gg_launch_link(chain->dev, chain->row, (struct gg_dim){.x = 2 * clusters, .y = 1, .z = 1}, chain->stream, &args) &&
                   gg_launch_link(chain->dev, row_of(GG_RESTORE, INT8), pairs, chain->stream, &args);
        }
    return done;
}

const struct gg_kernel *gg_chain_in_one(const struct gg_kernel *head, const struct gg_choice *ffma, const struct gg_gemm *p,
                                        const struct gg_arch *arch)
{
    const struct gg_kernel *row = ffma->kernel;
    if (head != row_of(GG_TENSOR_PAIR, FP16) || !row || row->tile_m * row->tile_n != TILE * TILE / 2 || ffma->splits != 1 ||
        ffma->strip_m + ffma->strip_n > 0 || (row->role != GG_PERSISTENT && (row->role != GG_TMA_ONCE || gg_own_pieces(ffma) > 1)) ||
        layout_of(head, FP16, p->m, p->n, p->k, arch).edges)
        return NULL;
    const bool readable = !gg_must_pack(p->type, p->a, p->lda) && !gg_must_pack(p->type, p->b, p->ldb);
    return row_of(GG_TENSOR_OR_FFMA, row->role == GG_TMA_ONCE && readable && !(p->a_kmajor && p->b_kmajor));
}

/* The pieces of all tiers share memory: once one tier's are written, those of the tier before are no longer needed. A tier that is ruled out halfway
 * leaves no pieces for the next one, which therefore splits anew what the block needs, except an operand whose pieces it has written for an earlier
 * block and kept. */
bool gg_chain_block(const struct gg_chain *chain, const struct gg_gemm *q, int64_t i, int64_t j, int64_t m, int64_t n, int64_t new_m, int64_t new_n)
{
    const struct gg_gemm block = block_of(q, i, j, m, n);
    const bool multiplies = m > 0 && n > 0;
    struct gg_gemm strict;
    struct gg_choice ffma = {0};
    const struct gg_kernel *one = NULL;
    if (multiplies) {
        ffma = strict_choice(chain, &block, &strict);
        one = gg_chain_in_one(chain->row, &ffma, &block, &chain->dev->arch);
    }
    for (enum tier tier = first_tier(chain); tier != FFMA; tier = next_tier(chain, tier)) {
        const bool anew = tier != first_tier(chain);
        const int64_t rows = anew ? m : new_m, cols = anew ? n : new_n, row = i + m - rows, col = j + n - cols;
        const struct gg_gemm part = block_of(q, row, col, rows, cols);
        struct gg_args args = block_args(chain, tier, q, &part, row, col);
        args.keeps_a = new_m == 0 && !chain->strips, args.keeps_b = new_n == 0 && !chain->strips;
        args.gate_first = multiplies ? args.gate_first : 0; /* only the first tier's product guarantees that gate_first may be used */
        if (!split(chain, tier, args, rows, cols))
            return false;
        if (!multiplies)
            continue;
        if (tier == INT8) {
            if (!multiply_int8(chain, q, i, j, m, n))
                return false;
            continue;
        }
        args = block_args(chain, tier, q, &block, i, j);
        args.move_back = 1;
        if ((one == row_of(GG_TENSOR_OR_FFMA, 1) && !gg_launch_maps(&args, ffma.kernel)) || !multiply(chain, one, tier, &args))
            return false;
    }
    const struct gg_gate gate = gate_of(chain, FFMA);
    return one || !multiplies || (ffma.kernel && gg_launch_gated(chain->dev, &ffma, &strict, chain->stream, &gate, chain->memory, chain->bytes));
}

/* Where all pieces fit at once, splitting is certification enough, because products come after it. Otherwise everything is certified first, and C is
 * cut into blocks, which are done down and up its columns, so that each has its rows or its columns in common with the one before. */
bool gg_chain_gemm(struct gg_chain *chain, const struct gg_gemm *p)
{
    int64_t m, n;
    if (!cut(chain, p, &m, &n) || !gg_chain_begin(chain))
        return false;
    if (m == p->m && n == p->n)
        return gg_chain_block(chain, p, 0, 0, m, n, m, n);
    if (!gg_chain_certify(chain, p))
        return false;
    const int64_t rows = gg_ceil_div(p->m, m), columns = gg_ceil_div(p->n, n);
    for (int64_t index = 0; index < rows * columns; index++) {
        const int64_t column = index / rows, turn = index % rows, i = (column % 2 ? rows - 1 - turn : turn) * m, j = column * n;
        struct gg_gemm q = block_of(p, i, j, m, n); /* of that size even at the edge: its pieces lie where those of the others do */
        const int64_t own_m = gg_min(m, p->m - i), own_n = gg_min(n, p->n - j);
        if (!gg_chain_block(chain, &q, 0, 0, own_m, own_n, turn > 0 || column == 0 ? own_m : 0, turn == 0 ? own_n : 0))
            return false;
    }
    return true;
}

/* ---- what to expect -------------------------------------------------------------------------------------------------------------------- */

/* Seconds from launching a chain to its end, without the split and the product that serve: the launches that leave at once, and clearing the verdict.
 * LATE_CHAIN: where no launch is early (an estimate: 1.5 us each). */
static const double CHAIN = 10e-6, SHORT_CHAIN = 7e-6, LATE_CHAIN = 17e-6;

/* Share of the memory bandwidth that a split reaches. */
static const double SPLIT = 0.7;

/* FP64's passes: what an element takes, clocks of an SM and, beside that, a share of the time that its bytes take at the memory's bandwidth. Fitted
 * to n = 4096: restoration to an H200 (117 us), residues to an H100 (282), with an H200's memory in place of its own 224, which was not measured
 * apart. INT8_CHAIN: as CHAIN. */
static const struct pass {
    double clocks, traffic;
} RESIDUES = {0.76, 0.8}, RESTORE = {0.6, 0.95};
static const double INT8_CHAIN = 13.5e-6;

static double pass_seconds(struct pass pass, double elements, double bytes, const struct gg_arch *arch)
{
    return elements * (pass.clocks / (arch->sms * arch->clock_mhz * 1e6) + bytes * pass.traffic / arch->bandwidth);
}

static double int8_seconds(const struct gg_kernel *row, const struct gg_gemm *p, const struct gg_arch *arch)
{
    const double m = (double)p->m, n = (double)p->n, k = (double)p->k, size = sizeof(double), moduli = GG_INT8_MODULI;
    const double pairs = (double)gg_ceil_div(p->m, 2 * TILE) * (double)gg_ceil_div(p->n, 2 * TILE), at_once = arch->sms / 2;
    const double step = 2.0 * row->tile_m * row->tile_n * row->tile_k / gg_rate(row, arch) / moduli;
    const double rounds = (double)(int64_t)((pairs * moduli + at_once - 1) / at_once);
    const double product = rounds * ((double)gg_ceil_div(p->k, row->tile_k) * step + row->start) / (arch->clock_mhz * 1e6);
    return INT8_CHAIN + product + pass_seconds(RESIDUES, (m + n) * k, size + moduli, arch) +
           pass_seconds(RESTORE, m * n, moduli + (p->beta == 0 ? size : 2 * size), arch);
}

double gg_chain_seconds(const struct gg_kernel *row, const struct gg_gemm *p, const struct gg_arch *arch)
{
    if (row->role == GG_TENSOR_INT8)
        return int8_seconds(row, p, arch);
    const struct gg_chain chain = {.row = row};
    const double launches = row->role == GG_TENSOR_PAIR ? SHORT_CHAIN : row->role == GG_TENSOR_MMA ? LATE_CHAIN : CHAIN;
    const double m = (double)p->m, n = (double)p->n, k = (double)p->k, bytes = 4 + tiers[first_tier(&chain)].bytes;
    const struct layout layout = layout_of(row, first_tier(&chain), p->m, p->n, p->k, arch);
    const double clocks = clocks_of(row, &layout, p->k, arch);
    const double product = clocks / (arch->clock_mhz * 1e6), c = 2 * m * n * 4 / arch->bandwidth;
    return launches + (m + n) * k * bytes / (SPLIT * arch->bandwidth) + (product > c ? product : c);
}

int gg_chain_tiles(const struct gg_kernel *row, const struct gg_arch *arch)
{
    if (row->role == GG_TENSOR_INT8)
        return arch->sms * row->tile_m * row->tile_n / (TILE * TILE) / GG_INT8_MODULI;
    return row->role == GG_TENSOR_PAIR ? arch->sms / 2 : arch->sms;
}

int gg_chain_few(const struct gg_kernel *row, const struct gg_arch *arch) { return row->role == GG_TENSOR ? arch->sms / 2 : 0; }

bool gg_chain_decline(struct gg_device *dev, gg_stream stream)
{
    if (gg_gpu_stream_capturing(stream)) /* nobody asks who serves such a call, and the word is in memory that is not the graph's */
        return true;
    uint32_t *const word = gg_gpu_word(dev, stream, true);
    return !word || gg_gpu_fill(word, 0xff, sizeof *word, stream);
}

const struct gg_kernel *gg_chain_server(const struct gg_chain *chain)
{
    uint32_t verdict = 0, *const word = gg_gpu_word(chain->dev, chain->stream, false);
    if (!word)
        return NULL;
    if (!gg_gpu_copy(&verdict, word, sizeof verdict, chain->stream) || !gg_gpu_stream_sync(chain->stream)) {
        gg_gpu_settle(chain->stream); /* nothing may still be written into this frame */
        return NULL;
    }
    enum tier tier = first_tier(chain);
    while (tier != FFMA && verdict & tiers[tier].not)
        tier = next_tier(chain, tier);
    return tier == FFMA ? NULL : row_of(chain->row->role, tier);
}

/* select.c — chooses the row of cuda/kernels.def and how k is cut: a pure cost model over the problem and the GPU. Terms are in kernels.h.
 *
 * A row's time is the larger of arithmetic and memory. Arithmetic: the k steps of the busiest SM at `rate` flop a clock, plus `start` clocks per
 * round of tiles; with fewer blocks than per_sm an SM does not reach `rate`. Memory: A, B and C once. */
#include <string.h>

#include "tensor.h"

#include "../cuda/kernel.h"

#define GG_KERNEL(name, file, ...) extern const unsigned char gg_image_##file[];
#include "../cuda/kernels.def"
#undef GG_KERNEL

const struct gg_kernel gg_kernels[] = {
#define GG_KERNEL(name, file, type, role, cc_min, cc_max, tile_m, tile_n, tile_k, threads, smem, per_sm, rate, start)                                \
    {#name, gg_image_##file, type, role, cc_min, cc_max, tile_m, tile_n, tile_k, threads, smem, per_sm, rate, start},
#include "../cuda/kernels.def"
#undef GG_KERNEL
};
const int gg_kernel_count = sizeof gg_kernels / sizeof *gg_kernels;

/* LAUNCH: seconds from the launch of a kernel to its first instruction plus from its last to the next kernel in the stream. SECOND_LAUNCH: the same
 * for a second kernel that depends on the first. */
static const double LAUNCH = 2.5e-6, SECOND_LAUNCH = 5e-6;

/* With one block on an SM that holds per_sm, the SM reaches this share of its rate (measured between 0.6 and 0.8). */
static const double ALONE = 0.7;

/* For rows with more than MANY small blocks an SM: clocks that a block's k step takes beyond its products, during which the other blocks compute. */
enum { MANY = 3, STEP = 260 };

/* The share of `start` that a round of tiles after the first still costs. AGAIN_NEW: one tile per block, new blocks begin as single ones end.
 * AGAIN_LOOPING: blocks that loop over tiles fill their pipelines for the next tile while they store C. */
static const double AGAIN_NEW = 0.6, AGAIN_LOOPING = 0.28;

static bool loops(const struct gg_kernel *row) { return row->role == GG_PERSISTENT || (gg_is_tma(row) && row->role != GG_TMA_ONCE); }

static double starts(const struct gg_kernel *row, double rounds)
{
    return row->start * (1 + (rounds - 1) * (loops(row) ? AGAIN_LOOPING : AGAIN_NEW));
}

/* Cost of packing one byte of an operand, in bytes of memory bandwidth: it is read and written, and not at full speed. PACK_LAUNCH is short because
 * the product is launched meanwhile. */
static const double PACK = 2.8, PACK_LAUNCH = 1.3e-6;

/* Blocks that share tiles are at different k and find less of their operands in L2. */
static const double SHARING = 1.02;

/* The time of a half tile (gg_halves) relative to a whole one; for shared ones it includes what sharing them unevenly costs. (dgemm 280x4232x18512 by
 * 128x128 1.12 times as fast as with whole ones, 1728x288x12192 by 128x64 1.07, 2100 1.03; sgemm 2100 1.05, 298x2942x14672 by 128x256 1.11.) */
static const double HALF = 0.7;

/* How much longer the operands take from memory in FP64 if k is contiguous in the large operand and each of its rows is read by one block:
 * 16x16384x16384 in clusters of two is 1.06 times as fast. */
static const double ONE_STREAM = 1.06;

/* L2's rate, in bytes per clock and SM, for small tiles' operands and for parts of tiles, which are written and read once. It does not depend on the
 * memory: an H100, whose memory has 0.68 of an H200's bandwidth, has the same. Taken for other GPUs, too, where it has not been measured. */
static const double L2 = 24.5;

/* gg_fixup adds the parts of one tile one after the other: seconds per part, in FP32, for tiles smaller than 128×128 and for larger ones.
 * (1578x124x2007 in ten parts a tile: 64 us, with half as large tiles 38.) */
static const double IN_ORDER[] = {0.05e-6, 1.5e-6};

/* FP64 blocks read their panels of A and B from L2 once per tile. L2's rate for that, and the same when blocks that share tiles are at different k.
 * (48x3136x16224 by 32x64 takes 215 us, 5.7 TB/s, by 64x64 147.) */
static const double PANELS = 29, PANELS_SHARED = 25.2;

/* Where at least EVERYWHERE blocks share each tile, they are everywhere along k, and at other places for every tile: L2's rate, how much of the
 * operands it keeps in multiples of its size, and the share of the rest that comes from memory again for each tile. (320x320x20000 by 64x64 174 us,
 * in clusters 106.) */
enum { EVERYWHERE = 4 };
static const double PANELS_EVERYWHERE = 22, KEPT = 1.5, REREAD = 0.8;

static double l2_seconds(double bytes, double rate, const struct gg_arch *arch) { return bytes / (rate * arch->sms * arch->clock_mhz * 1e6); }

/* Constants of GG_TMA… rows, by type, fitted together with `rate` and `start` to all rows forced at 1900 problems on an H200
 * (bench/results/cut-2026-11-23.txt). */
static const struct {
    double alone;              /* the share of its rate that an SM reaches with one block where per_sm fit */
    double transpose, once;    /* what transposing an operand adds to the main loop of a GG_TMA_EITHER or a GG_TMA_ONCE row */
    double aside;              /* the same for a GG_TMA_ONCE row whose extra warps do it */
    double parts, part, group; /* clocks to add up parts: of a tile, for each part beyond two, for each group when clusters share a tile */
    double cluster, bytes;     /* the same within a cluster: clocks, and bytes per clock that an SM adds up */
    double uneven;             /* how much longer than the mean the slowest block takes, where an SM has one block and no tile is shared */
    int least;                 /* fewest k steps of a tile that is shared */
    bool crowded;              /* clusters of more than three blocks pay even if an SM has several blocks, but some SMs fit into no such cluster */
} TMA[] = {[GG_S] = {0.96, 0.032, 0.10, 0.046, 9900, 3100, 0, 0, 6.6, 1.025, GG_SHORTEST_RUN, true},
           [GG_D] = {0.78, 0, 0, 0, 10200, 3600, 1040, 3200, 100, 1, 2 * GG_SHORTEST_RUN, false}};

/* SMs in a graphics processing cluster, over which the blocks of one cluster are spread; each has at least so many. */
enum { GPC = 16 };

/* FP32's GG_TMA_ONCE: clocks to add up among clusters, and for each batch of up to ONCE_AT_ONCE parts that a thread loads together. */
enum { ONCE_PARTS = 5000, ONCE_LOADS = 1200, ONCE_AT_ONCE = 16 };

/* FP64's: clocks for each cluster of a tile beyond the first, up to so many. (256x256x16384 in 4 clusters of two 54 us, by shared tiles 76.) */
enum { HALVES_PART = 4400, HALVES_PARTS = 6 };

/* Share of the memory bandwidth that a GG_SKINNY row reaches, where k is not contiguous in the large operand and where it is; the least seconds of
 * its blocks; and those for adding up each piece of k. (16x500x500 18 to 27 us, 16x16x65536 in 264 pieces 40.) */
static const double SKINNY[] = {0.68, 0.6}, SKINNY_LEAST[] = {10e-6, 20e-6}, SKINNY_PIECE = 0.07e-6;

/* The share of `rate` that a GG_SLIM row reaches: [k contiguous in the large operand][in the small one]. */
static const double SLIM_RATE[2][2] = {{1, 0.93}, {0.73, 0.71}};

/* And the extra seconds per 32 k (per 512 bytes of k, where it is contiguous) for loading elements instead of vectors, where the large operand is not
 * aligned or its rows do not fill the last block. */
static double slim_slow(const struct gg_kernel *row, bool kmajor)
{
    return row->tile_n == 1 ? (kmajor ? 0.1e-6 : 0.08e-6) : row->tile_n == 4 ? 0.4e-6 : kmajor ? 0.75e-6 : 0.65e-6;
}

static double at_least(double x, double low) { return x > low ? x : low; }

/* Two things side by side, as computing and memory. A thousandth of the shorter one decides among rows that the longer one holds up for the same
 * time. */
static double longer(double x, double y) { return at_least(x, y) + 1e-3 * (x < y ? x : y); }

/* The code that the driver picks: the newest machine code of the GPU's own generation (an architecture with a letter, < 0 here, fits only that very
 * GPU), else the PTX. A row's code for an architecture older than its cc_min is empty. Where there is no code at all the driver will say so. */
int gg_code_for(int cc)
{
    static const int built[] = {GG_BUILT_FOR};
    int best = GG_PTX_FOR <= cc ? GG_PTX_FOR : 0;
    bool machine_code = false;
    for (size_t i = 0; i < sizeof built / sizeof *built; i++) {
        const int is = built[i] < 0 ? -built[i] : built[i];
        if (built[i] < 0 ? is != cc : is / 10 != cc / 10 || is > cc)
            continue;
        best = machine_code && best > is ? best : is;
        machine_code = true;
    }
    return best ? best : cc;
}

bool gg_runs(const struct gg_kernel *row, const struct gg_arch *arch)
{
#ifdef GG_WITHOUT_SM90A
    if (row->cc_min == 90 && row->cc_max == 90)
        return false;
#endif
    return gg_code_for(arch->cc) >= row->cc_min && arch->cc <= row->cc_max && row->smem <= arch->smem_per_block;
}

/* kernels.def gives rates for an H200. These are the shares of them that an SM of other compute capabilities has, each entry from `cc` on: for FFMA,
 * measured where an SM has 128 FP32 lanes, and for mma.sync with FP32 sums, estimated for an A100. GeForce GPUs of 8.6 and 8.9 have a quarter of an
 * A100's mma rate, others half; about 8.7 nothing better is known. */
static const struct {
    int cc;
    double ffma, mma;
} SHARES[] = {{0, 0.5, 0}, {80, 0.5, 1}, {86, 1, 0.25}, {90, 1, 1}};

double gg_rate(const struct gg_kernel *row, const struct gg_arch *arch)
{
    size_t i = sizeof SHARES / sizeof *SHARES - 1;
    while (i > 0 && SHARES[i].cc > arch->cc)
        i--;
    return row->rate * (row->type == GG_D ? 1 : row->role == GG_TENSOR_MMA ? SHARES[i].mma : SHARES[i].ffma);
}

static bool legal(const struct gg_kernel *row, const struct gg_gemm *p, const struct gg_arch *arch)
{
    if (row->role >= GG_SCALE || row->type != p->type || !gg_runs(row, arch))
        return false;
    /* Vectors need a row that reads memory at full speed. */
    if ((p->m <= 4 || p->n <= 4) && (row->role == GG_TMA_ONCE || row->role == GG_SLIM_TMA || (row->role == GG_TILED && row->cc_min == 90)))
        return false;
    if (gg_is_chain(row))
        return gg_chain_legal(row, p);
    if ((row->cc_min == 90 || row->role == GG_TILED_CUT) && (p->m | p->n | p->k) >= INT32_MAX - 256) /* these kernels count in 32 bits */
        return false;
    if (gg_is_tma(row))
        return (p->type == GG_S || !(gg_must_pack(p->type, p->a, p->lda) || gg_must_pack(p->type, p->b, p->ldb)));
    if (row->role == GG_SLIM_TMA && gg_unaligned_large(row, p))
        return false;
    const bool is_thin = p->m <= row->tile_n || p->n <= row->tile_n, fits_grid = gg_max(p->m, p->n) <= INT64_C(32) * INT32_MAX;
    return (row->role != GG_SKINNY && !gg_is_slim(row)) || (is_thin && fits_grid);
}

/* Pieces of k for a GG_SKINNY row: as many as make one full wave of blocks, but none shorter than tile_k. */
static int pieces(const struct gg_kernel *row, const struct gg_gemm *p, const struct gg_arch *arch)
{
    const bool b_large = p->n > row->tile_n;
    const int64_t x = b_large ? p->n : p->m;
    const int64_t blocks = gg_ceil_div(x, gg_skinny_rows(b_large ? p->b_kmajor : p->a_kmajor));
    const int64_t full = (int64_t)arch->sms * row->per_sm, wanted = full > blocks ? full / blocks : 1, most = gg_ceil_div(p->k, row->tile_k);
    return (int)(wanted < most ? wanted : most);
}

static double predict_skinny(const struct gg_kernel *row, const struct gg_gemm *p, const struct gg_arch *arch, int splits)
{
    const bool b_large = p->n > row->tile_n;
    const double m = (double)p->m, n = (double)p->n, k = (double)p->k, size = (double)gg_size(p->type), x = b_large ? n : m;
    const double clocks = 2 * x * row->tile_n * k / (gg_rate(row, arch) * arch->sms) + row->start;
    const double bytes = (m * k + k * n + (2 + 2.0 * (splits > 1) * splits) * m * n) * size;
    const bool kmajor = b_large ? p->b_kmajor : p->a_kmajor;
    return LAUNCH + (splits > 1) * SECOND_LAUNCH + (splits > 1) * splits * SKINNY_PIECE +
           at_least(0.3 * clocks / (arch->clock_mhz * 1e6) + bytes / (SKINNY[kmajor] * arch->bandwidth), SKINNY_LEAST[kmajor]);
}

/* Pieces of k for a GG_SLIM row: enough blocks to fill the GPU, as long as each has some rounds of k. Where k is not contiguous, one block per SM is
 * enough (two for vectors). */
static int slim_pieces(const struct gg_kernel *row, const struct gg_gemm *p, const struct gg_arch *arch)
{
    enum { SHORTEST = 256 };
    const bool b_large = p->n > row->tile_n, kmajor = b_large ? p->b_kmajor : p->a_kmajor;
    const int64_t blocks = gg_slim_blocks(row, p), room = arch->sms * (kmajor || row->tile_n == 1 ? row->per_sm : 1);
    int pieces = 1;
    while (pieces < GG_LARGEST_CLUSTER && blocks * pieces * 2 <= room && p->k >= pieces * 2 * SHORTEST)
        pieces *= 2;
    return pieces;
}

static double predict_slim(const struct gg_kernel *row, const struct gg_gemm *p, const struct gg_arch *arch, int pieces)
{
    const bool b_large = p->n > row->tile_n, kmajor = b_large ? p->b_kmajor : p->a_kmajor, y_kmajor = b_large ? p->a_kmajor : p->b_kmajor;
    const int64_t x = b_large ? p->n : p->m;
    const double m = (double)p->m, n = (double)p->n, k = (double)p->k, size = (double)gg_size(p->type);
    const double busy = gg_min(gg_slim_blocks(row, p) * pieces, arch->sms) / (double)arch->sms, rate = row->rate * SLIM_RATE[kmajor][y_kmajor];
    const double clocks = 2 * (double)x * row->tile_n * k / (rate * arch->sms * busy) + row->start;
    const double memory = (row->tile_n == 16 ? 1.3 : 0.95) * (m * k + k * n + 2 * m * n) * size / arch->bandwidth;
    const bool slow = gg_unaligned_large(row, p) || (!kmajor && x % row->tile_m != 0 && x % (16 / (int64_t)gg_size(p->type)) != 0);
    const double loads = slow ? k / pieces / (kmajor ? 512 / size : 32) : 0;
    return LAUNCH + loads * slim_slow(row, kmajor) + at_least(clocks / (arch->clock_mhz * 1e6), memory * at_least(1, 0.5 / busy));
}

/* The seconds of a GG_SLIM_TMA row in so many pieces, and the best number of them. Memory is read at 1 / SLIM_TMA of its rate; SLIM_ELEMENTS: what
 * copying the small operand by elements adds to a step. An SM has two blocks when there are more than one for each. */
static double predict_slim_tma(const struct gg_kernel *row, const struct gg_gemm *p, const struct gg_arch *arch, int pieces)
{
    static const double SLIM_TMA = 1.15, SLIM_ELEMENTS = 0.6;
    const bool b_large = p->n > row->tile_n, y_vec = !(b_large ? gg_must_pack(p->type, p->a, p->lda) : gg_must_pack(p->type, p->b, p->ldb));
    const double m = (double)p->m, n = (double)p->n, k = (double)p->k, size = (double)gg_size(p->type);
    const int64_t blocks = gg_slim_blocks(row, p) * pieces, places = gg_places(arch->sms, pieces);
    const double rounds = (double)gg_ceil_div(blocks, places * row->per_sm), load = blocks > places ? row->per_sm : 1;
    const double step = 2.0 * row->tile_m * row->tile_n * row->tile_k / row->rate * (y_vec ? 1 : 1 + SLIM_ELEMENTS);
    const double clocks = rounds * load * (double)gg_ceil_div(gg_ceil_div(p->k, row->tile_k), pieces) * step;
    const double memory = SLIM_TMA * (m * k + k * n + 2 * m * n) * size / arch->bandwidth;
    return LAUNCH + starts(row, rounds) / (arch->clock_mhz * 1e6) + longer(clocks / (arch->clock_mhz * 1e6), memory);
}

static struct gg_choice best_slim_tma(const struct gg_kernel *row, const struct gg_gemm *p, const struct gg_arch *arch)
{
    enum { SHORTEST = 2 }; /* steps */
    struct gg_choice best = {.kernel = row, .splits = 1, .seconds = predict_slim_tma(row, p, arch, 1)};
    for (int pieces = 2; pieces <= GG_LARGEST_CLUSTER && p->k >= (int64_t)pieces * SHORTEST * row->tile_k; pieces++) {
        const double seconds = predict_slim_tma(row, p, arch, pieces);
        if (seconds < best.seconds)
            best.splits = pieces, best.seconds = seconds;
    }
    return best;
}

/* What it adds to the main loop of FP32's GG_PERSISTENT rows to copy an operand element by element because it is not aligned for vectors. */
static const double ELEMENTS = 0.02;
static bool by_elements(enum gg_type type, const void *base, int64_t ld, bool kmajor) { return !kmajor && gg_must_pack(type, base, ld); }

/* Cost of an unaligned C in FP32, in passes over C. Each lane stores its four elements one by one, or they are transposed on the way (gg_rows of
 * cuda/ffma.cuh); with many blocks on an SM the others hide that. (4097x4097x64 by multistage 64 -> 72 us, by sgemm_tma_128x256 60 -> 107 with an
 * operand to pack, by sgemm_128x64 91 -> 138.) */
static double unaligned_c(const struct gg_kernel *row, const struct gg_gemm *p)
{
    if (p->type == GG_D || !gg_must_pack(p->type, p->c, p->ldc))
        return 0;
    const int tile = row->tile_m * row->tile_n;
    if (row->per_sm > MANY)
        return 0.5;
    if (row->role == GG_TMA || row->role == GG_TMA_EITHER)
        return 2;
    return tile >= (row->role == GG_TMA_ONCE ? 64 * 128 : 128 * 128) && !gg_is_tiled(row) ? 1 : 3;
}

/* Clocks that a GG_TILED_CUT row takes to add up a tile, and for each of its parts. */
enum { ADDING_UP = 3500, ADDING_PART = 350 };

/* A block of a GG_PERSISTENT row that shares tiles mostly has parts of two of them; in FP32 of one, where all shared tiles have equally many blocks.
 * What the second part costs, by type, in multiples of `start`. */
static const double TWO_PARTS[] = {[GG_S] = 1.6, [GG_D] = 0.67};

/* Seconds of a GG_PLAIN, GG_TILED…, or GG_PERSISTENT row. splits: as in struct gg_choice. */
static double predict(const struct gg_kernel *row, const struct gg_gemm *p, const struct gg_arch *arch, int splits)
{
    const int pieces = row->role == GG_TILED_CUT ? splits : 1, blocks = row->role == GG_TILED_CUT ? 1 : splits; /* pieces of each tile's k; blocks
                                                                                                                 * that share the last tiles */
    const double m = (double)p->m, n = (double)p->n, k = (double)p->k, size = (double)gg_size(p->type);
    const double tile = (double)row->tile_m * row->tile_n, tile_steps = (double)gg_ceil_div(p->k, row->tile_k);
    double step = 2 * tile * row->tile_k / gg_rate(row, arch);
    if (row->role == GG_PERSISTENT && p->type == GG_S)
        step *= 1 + ELEMENTS * (by_elements(p->type, p->a, p->lda, p->a_kmajor) + by_elements(p->type, p->b, p->ldb, p->b_kmajor));
    const int64_t tiles = gg_tiles(row, p), shared = gg_shared_tiles(tiles, blocks);

    double clocks, after = 0;
    if (shared > 0) {
        const double whole = (double)((tiles - shared) / blocks);
        clocks = whole * tile_steps * step + SHARING * (double)shared * tile_steps / blocks * step + starts(row, whole + 1);
        clocks += (p->type == GG_S && blocks % shared == 0 ? 0 : TWO_PARTS[p->type]) * row->start;
        after = SECOND_LAUNCH + l2_seconds(2.0 * blocks * 2 * tile * size, L2, arch);
        after += p->type == GG_S ? IN_ORDER[tile >= 128 * 128] * blocks / (double)shared : 0;
    } else {
        const double load = (double)gg_ceil_div(tiles * pieces, arch->sms), rounds = (double)gg_ceil_div((int64_t)load, row->per_sm);
        const double each = row->per_sm > MANY ? load * step + STEP : at_least(load, row->per_sm > 1 ? 1 / ALONE : 1) * step;
        clocks = each * (double)gg_ceil_div((int64_t)tile_steps, pieces) + starts(row, rounds);
        clocks += pieces > 1 ? ADDING_UP + ADDING_PART * pieces : 0;
    }
    double memory = (m * k + k * n + 2 * m * n) * size / arch->bandwidth;
    if (gg_is_tiled(row)) /* small tiles, one per block: operands are read from L2 again and again */
        memory = at_least(memory, l2_seconds((double)tiles * (row->tile_m + row->tile_n) * k * size, L2, arch));
    after += unaligned_c(row, p) * m * n * size / arch->bandwidth;
    return LAUNCH + after + longer(clocks / (arch->clock_mhz * 1e6), memory);
}

/* SMs (or pairs) out of `sms` on which FP32's clusters find room at one time. */
static int places(const struct gg_kernel *row, int sms, int cluster)
{
    if (!TMA[row->type].crowded || cluster <= 2)
        return sms;
    return row->per_sm > 1 && row->role != GG_TMA_ONCE ? sms * 15 / 16 : gg_places(sms, cluster);
}

/* How many of FP64's clusters of 3 to 8 blocks find room at one time with one block per SM, kept below what the driver reports (gg_places). With one
 * cluster more, some blocks share an SM and all wait for them: 192x256x6000 takes 30.5 us in 24 clusters of 5, 22.9 in 24 of 8 with two blocks an
 * SM. */
static int64_t spread(int sms, int cluster) { return gg_max((int64_t)(sms / GPC) * (GPC / cluster) * 15 / 16, 1); }
static bool spreads(const struct gg_kernel *row, int cluster) { return !TMA[row->type].crowded && cluster > 2; }

/* Seconds of a GG_TMA… row; how k is cut is given as in struct gg_choice. */
static double predict_tma(const struct gg_kernel *row, const struct gg_gemm *p, const struct gg_arch *arch, int blocks, int cluster, int groups)
{
    const double m = (double)p->m, n = (double)p->n, k = (double)p->k, size = (double)gg_size(p->type);
    const int sms = arch->sms / gg_team(row); /* units that compute a tile: SMs, or pairs of them */
    const double tile = (double)row->tile_m * row->tile_n;
    double step = 2 * tile * row->tile_k / (row->rate * gg_team(row)); /* clocks of a k step with the SM to itself */
    const int64_t tiles = gg_tiles(row, p), steps = gg_ceil_div(p->k, row->tile_k), shared = cluster > 1 ? 0 : gg_shared_tiles(tiles, blocks);
    const bool either = row->role != GG_TMA;
    const bool pack_a = gg_must_pack(p->type, p->a, p->lda) || (p->a_kmajor && !either);
    const bool pack_b = gg_must_pack(p->type, p->b, p->ldb) || (p->b_kmajor && !either);
    const int turned = (p->a_kmajor && !pack_a) + (p->b_kmajor && !pack_b); /* packed operands have m and n contiguous */
    const bool once = row->role == GG_TMA_ONCE;
    double clocks;
    if (once)
        step *= 1 + (row->threads > 256 ? TMA[p->type].aside : TMA[p->type].once) * turned;
    if (shared > 0) {
        const double whole = (double)((tiles - shared) / blocks), parts = (double)blocks / (double)shared;
        const int64_t halves = tiles - gg_full(row, p->m, row->tile_m) * gg_full(row, p->n, row->tile_n);
        const double run = ((double)shared - (1 - HALF) * (double)gg_min(shared, halves)) / blocks;
        clocks = row->per_sm * (whole + SHARING * run) * (double)steps * step + starts(row, whole + 1);
        clocks += TMA[p->type].parts + (parts > 2 ? (parts - 2) * TMA[p->type].part : 0);
    } else {
        const int64_t fit = (int64_t)(sms / GPC) * (GPC * row->per_sm / cluster); /* clusters at one time */
        int64_t load = gg_ceil_div(tiles * cluster * groups, places(row, sms, cluster));
        /* Looping blocks: if many have one tile more than the others, some of those share an SM, depending on how blocks were assigned to SMs. (396
         * tiles of 128×128 on 132 SMs of two blocks take as long as 528.) */
        const int64_t room = (int64_t)sms * row->per_sm;
        if (cluster * groups == 1 && !once && tiles > room && tiles % room > sms / 2)
            load = gg_round_up(load, row->per_sm);
        if (TMA[p->type].crowded && cluster > 2 && tiles * groups > fit)
            load = gg_max(load, row->per_sm + 1);
        const bool one_group = spreads(row, cluster) && groups == 1;
        if (one_group)
            load = gg_max(load, gg_ceil_div(tiles, spread(sms, cluster)));
        const double adding_up = cluster == 1 ? 0 : TMA[p->type].cluster + tile * size / TMA[p->type].bytes;
        clocks = at_least((double)load, row->per_sm > 1 ? 1 / TMA[p->type].alone : 1) * (double)gg_ceil_div(steps, cluster * groups) * step;
        clocks *= row->per_sm == 1 ? TMA[p->type].uneven : 1;
        const double rounds = (double)gg_ceil_div(load, row->per_sm);
        clocks += starts(row, rounds);
        clocks += (once && p->type == GG_D ? rounds : one_group && cluster > 3 ? (double)load : 1) * adding_up;
        if (groups > 1 && once && p->type == GG_D)
            clocks += HALVES_PART * (double)gg_min(groups - 1, HALVES_PARTS);
        else if (groups > 1 && once)
            clocks +=
                ONCE_PARTS + (double)gg_ceil_div((int64_t)tile / 4, (int64_t)cluster * 256) * gg_ceil_div(groups - 1, ONCE_AT_ONCE) * ONCE_LOADS;
        else
            clocks += groups > 1 ? TMA[p->type].parts + groups * TMA[p->type].group : 0;
    }
    if (row->role == GG_TMA_EITHER)
        clocks *= 1 + TMA[p->type].transpose * turned;
    const double passes = (PACK * (pack_a * m + pack_b * n) * k + unaligned_c(row, p) * m * n) * size / arch->bandwidth;
    const double after = (pack_a || pack_b) * PACK_LAUNCH + passes;
    const bool one_stream = p->type == GG_D && cluster * groups == 1 && (m < n ? p->b_kmajor && m <= row->tile_m : p->a_kmajor && n <= row->tile_n);
    double memory = ((m * k + k * n) * (one_stream ? ONE_STREAM : 1) + 2 * m * n) * size / arch->bandwidth;
    if (p->type == GG_D) {
        const double panels = (double)tiles * (row->tile_m + row->tile_n) * k * size, kept = KEPT * (double)arch->l2_bytes / ((m + n) * k * size);
        const bool everywhere = shared > 0 && blocks >= EVERYWHERE * tiles;
        double seconds = l2_seconds(panels, shared == 0 ? PANELS : everywhere ? PANELS_EVERYWHERE : PANELS_SHARED, arch);
        if (everywhere && kept < 1)
            seconds += REREAD * panels * (1 - kept) / arch->bandwidth;
        memory = at_least(memory, seconds);
    }
    return LAUNCH + after + longer(clocks / (arch->clock_mhz * 1e6), memory);
}

/* How many blocks could share tiles: as many as run at one time, or as have GG_SHORTEST_RUN steps each. */
static int sharers(const struct gg_kernel *row, const struct gg_gemm *p, const struct gg_arch *arch)
{
    if (row->role != GG_PERSISTENT && !gg_is_tma(row))
        return 1;
    const int full = arch->sms * row->per_sm / gg_team(row);
    if (gg_is_tma(row) && gg_ceil_div(p->k, row->tile_k) > INT32_MAX / (4 * full)) /* parts.cuh counts steps of up to 2 tiles a block in 32 bits */
        return 1;
    const double most = (double)gg_tiles(row, p) * (double)gg_ceil_div(p->k, row->tile_k) / GG_SHORTEST_RUN;
    return most >= full ? full : most >= 1 ? (int)most : 1;
}

static struct gg_choice best_tma(const struct gg_kernel *row, const struct gg_gemm *p, const struct gg_arch *arch)
{
    const int64_t steps = gg_ceil_div(p->k, row->tile_k), tiles = gg_tiles(row, p);
    const bool once = row->role == GG_TMA_ONCE;
    /* FP64 tiles larger than 128×128 are slow when shared: 5 % slower than 128×128 where both must share, faster where neither needs to. */
    bool shares = !once && (p->type == GG_S || row->tile_m * row->tile_n <= 128 * 128 * gg_team(row));
    if (gg_team(row) > 1 && row->tile_m < 128 && tiles < arch->sms / gg_team(row)) /* 64x4096x4096: pairs that share are 0.98 times as fast as groups
                                                                                    * of warps */
        shares = false;
    const int sharing = steps >= TMA[p->type].least && shares ? sharers(row, p, arch) : 1;
    struct gg_choice best = {.kernel = row, .splits = 1, .cluster = 1, .groups = 1, .seconds = predict_tma(row, p, arch, 1, 1, 1)};
    const double shared = predict_tma(row, p, arch, sharing, 1, 1);
    if (shared < best.seconds)
        best.splits = sharing, best.seconds = shared;
    /* k too short to be cut: "sharing" then gives each block a run of adjacent whole tiles. 4096x4096x64: 1.03 times as fast, 16384x128x128: 1.12. */
    const int full = arch->sms * row->per_sm / gg_team(row);
    if (p->type == GG_D && steps < TMA[p->type].least && !once && tiles > full && sharers(row, p, arch) == full)
        best.splits = full;
    /* Large tiles: a cluster moves more data than it saves, and few clusters fit on a GPU. */
    if (row->per_sm == 1 && (!once || row->tile_m * row->tile_n > 128 * 64))
        return best;
    const bool alone = once && p->type == GG_S; /* two cluster blocks per SM are slower than one */
    for (int cluster = 2; cluster <= (once && !alone ? 2 : GG_LARGEST_CLUSTER) && cluster <= steps; cluster++) {
        const int64_t single = arch->sms / (tiles * cluster);
        const bool crowd = spreads(row, cluster) && tiles > spread(arch->sms, cluster) * row->per_sm;
        const int64_t room = alone || crowd ? single : arch->sms * row->per_sm / (tiles * cluster);
        if (room == 0 && (cluster > 2 || alone))
            break;
        const bool cut = once && row->per_sm == 1; /* not with two blocks per SM: some SMs would get two and others stay idle */
        const int64_t fit = cut                                     ? places(row, arch->sms, cluster) / (tiles * cluster)
                            : alone || cluster < GG_LARGEST_CLUSTER ? 1
                            : spreads(row, cluster)                 ? single
                                                                    : room;
        const int most = (int)gg_max(gg_min(fit, steps / cluster), 1);
        for (int groups = 1, next; groups <= most; groups = next) {
            next = cut && groups < most ? (int)gg_min(2 * groups, most) : groups + 1;
            const double seconds = predict_tma(row, p, arch, 1, cluster, groups);
            if (seconds < best.seconds)
                best = (struct gg_choice){.kernel = row, .splits = 1, .cluster = cluster, .groups = groups, .seconds = seconds};
        }
    }
    return best;
}

/* Rows to choose from: all that are not chains, those of them that may be a chain's FFMA, or chains. */
enum rows { ALL, OF_CHAINS, CHAINS };

/* Is a chain as accurate as FFMA that sums k in `parts` parts? (The more parts, the more accurate a long sum.) With positive operands, the worst
 * case, FFMA's rms error in u is sqrt(0.056 k) / parts. The tensor cores' comes from cutting elements into pieces, 1.34, from rounding up to 16 sums
 * over 32 k each (before Hopper twice as many over 16), and from rounding sums over 512 k. Measured on Hopper, by a model for older GPUs; see
 * docs/precision.md. The margin is there because the error is not the same for all data. */
static bool as_accurate(double parts, const struct gg_gemm *p, const struct gg_arch *arch)
{
    const double k = (double)p->k, margin = 1.3, each = gg_code_for(arch->cc) < 90 ? 16 : 32;
    const double sums = k < 512 ? k / each : 512 / each + k / 512;
    return 0.056 * k / (parts * parts) >= margin * (1.34 * 1.34 + 0.056 * sums);
}

/* Is this row, cut as in struct gg_choice, never used as a chain's FFMA? Such rows serve only where no chain does. They are rows so accurate that a
 * chain hardly ever matches them: small tiles with an SM per block, where each thread has more sums and k more slices; and tiles cut into many pieces
 * of k. Further GG_TMA_ONCE with more tiles than SMs, because chains for C of that size contain sgemm_128x64's FFMA (tensor.c). */
static bool outside_chains(const struct gg_kernel *row, int splits, const struct gg_gemm *p, const struct gg_arch *arch)
{
    if (row->type == GG_D)
        return false;
    if (row->role == GG_TILED_CUT)
        return splits > 1 && !as_accurate(splits, p, arch);
    return row->role == GG_TMA_ONCE && ((row->per_sm == 1 && row->tile_m * row->tile_n < 128 * 64) || gg_tiles(row, p) > arch->sms);
}

/* The best choice for a GG_TILED_CUT row. All blocks with pieces must run at one time, and each tile needs a flag. */
static struct gg_choice best_cut(const struct gg_kernel *row, const struct gg_gemm *p, const struct gg_arch *arch, enum rows rows)
{
    enum { MOST_PIECES = 32 };
    const int64_t tiles = gg_tiles(row, p), room = (int64_t)arch->sms * row->per_sm, runs = gg_ceil_div(p->k, row->tile_k) / GG_SHORTEST_RUN;
    const int64_t most = tiles <= GG_FLAGS / 2 ? gg_min(room / tiles, runs) : 1;
    struct gg_choice best = {.kernel = row, .splits = 1, .seconds = predict(row, p, arch, 1)};
    for (int pieces = 2; pieces <= gg_min(most, MOST_PIECES) && (rows == ALL || !outside_chains(row, pieces, p, arch)); pieces++) {
        const double seconds = predict(row, p, arch, pieces);
        if (seconds < best.seconds)
            best.splits = pieces, best.seconds = seconds;
    }
    return best;
}

/* GG_SLIM rows with few rows per block pay only if those are contiguous and long: 1x4096x4096 1.04 times as fast, 1x20000x500 0.66. */
static bool for_long_rows(const struct gg_kernel *row, const struct gg_gemm *p)
{
    return row->role == GG_SLIM && row->tile_k < 16 && (p->k < 4096 || !(p->n > row->tile_n ? p->b_kmajor : p->a_kmajor));
}

/* SMs on which no block of this choice runs; 0 for rows of which an SM has several blocks. */
static int idle_sms(const struct gg_choice *choice, const struct gg_gemm *p, const struct gg_arch *arch)
{
    const struct gg_kernel *row = choice->kernel;
    if (row->per_sm > 1 || gg_is_tiled(row))
        return 0;
    const int64_t tiles = gg_tiles(row, p), each = gg_is_tma(row) && choice->cluster > 1 ? choice->cluster * choice->groups : gg_team(row);
    const int64_t blocks = gg_shared_tiles(tiles, choice->splits) > 0 ? choice->splits * gg_team(row) : tiles * each;
    return blocks < arch->sms ? arch->sms - (int)blocks : 0;
}

/* Strips of C, as far as they matter to the tiles: the seconds that they take behind them, the seconds that a single SM would take for them, and
 * whether their kernels can run beside others. */
struct strips {
    double behind, on_one_sm;
    bool slim;
};

/* The elements of its large operand that one SM reads per second for a strip, measured with 4 idle SMs: aligned, by type where they are not, and by
 * FP64's row for several columns where k is contiguous, which has little in flight. */
static double strip_rate(const struct gg_choice *strip, const struct gg_gemm *p)
{
    static const double ALIGNED = 10.5e9, UNALIGNED[] = {[GG_S] = 9.8e9, [GG_D] = 7.5e9}, WIDE_DOTS = 5.5e9;
    const bool b_large = p->n > p->m;
    if (b_large ? gg_must_pack(p->type, p->b, p->ldb) : gg_must_pack(p->type, p->a, p->lda))
        return UNALIGNED[p->type];
    return p->type == GG_D && strip->kernel->tile_n > 1 && (b_large ? p->b_kmajor : p->a_kmajor) ? WIDE_DOTS : ALIGNED;
}

static void add_strip(struct strips *strips, const struct gg_choice *strip, const struct gg_gemm *p, double beyond)
{
    strips->behind += strip->seconds + beyond;
    strips->slim = strips->slim && strip->kernel && gg_is_slim(strip->kernel);
    if (strips->slim)
        strips->on_one_sm += (double)gg_max(p->m, p->n) * (double)p->k / strip_rate(strip, p);
}

/* Adds what the strips, if there are any, take to the time of the tiles, behind which they run or, on idle SMs, beside them. */
static void add_strips(struct gg_choice *choice, const struct gg_gemm *p, const struct gg_arch *arch, const struct strips *strips)
{
    static const double BESIDE = 1e-6;
    if (!strips)
        return;
    const int idle = strips->slim ? idle_sms(choice, p, arch) : 0;
    const double behind = choice->seconds + strips->behind;
    const double beside = longer(choice->seconds, 2 * LAUNCH + strips->on_one_sm / at_least(idle, 1)) + BESIDE;
    choice->beside = idle > 0 && beside < behind;
    choice->seconds = choice->beside ? beside : behind;
}

/* The best way for one row to serve p, and the strips if there are any. */
static struct gg_choice choice_of(const struct gg_kernel *row, const struct gg_gemm *p, const struct gg_arch *arch, enum rows rows,
                                  const struct strips *strips)
{
    struct gg_choice best = {.kernel = row, .splits = 1};
    if (gg_is_tma(row)) {
        best = best_tma(row, p, arch);
    } else if (row->role == GG_TILED_CUT) {
        best = best_cut(row, p, arch, rows);
    } else if (gg_is_chain(row)) {
        best.seconds = gg_chain_seconds(row, p, arch);
    } else if (row->role == GG_SKINNY) {
        best.splits = pieces(row, p, arch);
        best.seconds = predict_skinny(row, p, arch, best.splits);
    } else if (row->role == GG_SLIM_TMA) {
        best = best_slim_tma(row, p, arch);
    } else if (row->role == GG_SLIM) {
        best.splits = slim_pieces(row, p, arch);
        best.seconds = predict_slim(row, p, arch, best.splits);
    } else {
        const int all = sharers(row, p, arch);
        const int even = gg_tiles(row, p) < all ? all - all % (int)gg_tiles(row, p) : all; /* equally many blocks for each tile */
        const int splits[] = {1, all, even};
        for (int i = 0; i < 3; i++) {
            struct gg_choice choice = {.kernel = row, .splits = splits[i], .seconds = predict(row, p, arch, splits[i])};
            add_strips(&choice, p, arch, strips);
            if (i == 0 || choice.seconds < best.seconds)
                best = choice;
        }
        return best;
    }
    add_strips(&best, p, arch, strips);
    return best;
}

/* The fastest of the legal rows of that kind for p, or the forced one. strips: what else is to be done, or NULL. */
static struct gg_choice fastest(const struct gg_gemm *p, const struct gg_arch *arch, const char *force, enum rows rows, const struct strips *strips)
{
    struct gg_choice best = {.splits = 1};
    for (const struct gg_kernel *row = gg_kernels; row < gg_kernels + gg_kernel_count; row++) {
        if (gg_is_chain(row) != (rows == CHAINS) || (force && strcmp(force, row->name) != 0) || !legal(row, p, arch))
            continue;
        if (!force && (for_long_rows(row, p) || (rows == OF_CHAINS && outside_chains(row, 1, p, arch))))
            continue;
        const struct gg_choice choice = choice_of(row, p, arch, rows, strips);
        if (!best.kernel || choice.seconds < best.seconds)
            best = choice;
    }
    return best;
}

/* In how many parts, at least, this FFMA choice sums k. Groups of warps take turns along k in rows of small tiles; blocks share tiles. */
static double parts(const struct gg_choice *ffma, const struct gg_gemm *p)
{
    const struct gg_kernel *row = ffma->kernel;
    if (row->role == GG_SKINNY)
        return ffma->splits;
    if (gg_is_slim(row))
        return 8 * ffma->splits;
    const bool in_turns = row->role == GG_PERSISTENT || row->role == GG_TMA_ONCE;
    int groups = 1; /* of warps: a power of two */
    while (in_turns && row->tile_m * row->tile_n * groups < 128 * 128)
        groups *= 2;
    if (gg_is_tma(row) && ffma->cluster > 1)
        return groups * ffma->cluster * ffma->groups;
    if (row->role == GG_TILED_CUT)
        return ffma->splits;
    const int64_t shared = gg_shared_tiles(gg_tiles(row, p), ffma->splits);
    return groups * (shared > 0 ? at_least((double)ffma->splits / (double)shared, 1) : 1);
}

/* Rows or columns of C, at most so many, beyond whole tiles of this size or, if there are more, beyond multiples of 64, which suit most rows. */
static int beyond(int64_t x, int tile, int most)
{
    const int64_t own = x > tile ? x % tile : 0, others = x > 64 ? x % 64 : 0;
    return own > 0 && own <= most ? (int)own : others <= most ? (int)others : 0;
}

/* A few rows or columns of C beyond whole tiles cost as much as whole tiles. As strips, products of their own, they cost the time to read an operand,
 * or next to nothing where the tiles leave some SMs idle (gg_choice.beside). Strips are not considered for short products, where choosing would take
 * longer than it saves; of more than four rows or columns only where much can be gained. In FP64 strips take somewhat longer than predicted for them
 * alone, hence BEYOND. (57 products with strips and without: lost by wrong choices 2.5 %, with 6 us more a strip 0.9; in FP32, 66 products, 0.4 as it
 * is.) */
static struct gg_choice with_strips(const struct gg_choice *whole, const struct gg_gemm *p, const struct gg_arch *arch, enum rows rows)
{
    static const double SHORT = 50e-6, LONG = 1e-3, BEYOND[] = {[GG_S] = 0, [GG_D] = 6e-6};
    const int most = whole->seconds < LONG ? 4 : 16;
    const struct gg_kernel *row = whole->kernel;
    struct gg_choice best = *whole;
    if (!row || whole->seconds < SHORT || !(gg_is_tma(row) || row->role == GG_PERSISTENT || row->role == GG_TILED_CUT))
        return best;
    const int beyond_m = beyond(p->m, row->tile_m, most), beyond_n = beyond(p->n, row->tile_n, most);
    for (int which = 1; which < 4; which++) {
        const struct gg_choice cut = {.strip_m = which & 1 ? beyond_m : 0, .strip_n = which & 2 ? beyond_n : 0};
        if ((which & 1 && cut.strip_m == 0) || (which & 2 && cut.strip_n == 0))
            continue;
        struct gg_gemm q;
        struct strips strips = {.slim = true};
        for (int part = 1; part < 3; part++)
            if (gg_part(p, &cut, part, &q)) {
                const struct gg_choice strip = gg_choose(&q, arch, gg_strip);
                add_strip(&strips, &strip, &q, BEYOND[p->type]);
            }
        if (!gg_part(p, &cut, 0, &q))
            continue;
        const struct gg_choice tiles = fastest(&q, arch, NULL, rows, &strips);
        if (tiles.kernel && tiles.seconds < best.seconds)
            best = tiles, best.strip_m = cut.strip_m, best.strip_n = cut.strip_n;
    }
    return best;
}

static struct gg_choice ffma_for(const struct gg_gemm *p, const struct gg_arch *arch, enum rows rows)
{
    const struct gg_choice whole = fastest(p, arch, NULL, rows, NULL);
    return with_strips(&whole, p, arch, rows);
}

/* Is a chain that takes `seconds` to serve p? The answer must not depend on where the operands lie, because C must be the same: staged operands are
 * always aligned, so aligned ones are assumed. ffma: the FFMA that p would have in a chain where its operands lie, or NULL if not known. */
static bool chain_serves(double seconds, const struct gg_gemm *p, const struct gg_arch *arch, const struct gg_choice *ffma)
{
    const struct gg_gemm aligned = gg_as_staged(*p);
    struct gg_gemm tiled;
    const bool lies_well = ffma && !gg_must_pack(p->type, p->a, p->lda) && !gg_must_pack(p->type, p->b, p->ldb);
    const struct gg_choice strict = lies_well ? *ffma : ffma_for(&aligned, arch, OF_CHAINS);
    return seconds < strict.seconds && gg_part(&aligned, &strict, 0, &tiled) && as_accurate(parts(&strict, &tiled), &tiled, arch);
}

/* Strict precision's choice. Operands that fail a chain's certificate must get strict's result to the bit. So where a chain would serve p at FP32
 * precision, strict uses the FFMA of that chain, and rows outside chains only elsewhere. */
static struct gg_choice strict_for(const struct gg_gemm *p, const struct gg_arch *arch)
{
    const struct gg_choice any = ffma_for(p, arch, ALL);
    if (!any.kernel || !outside_chains(any.kernel, any.splits, p, arch))
        return any;
    struct gg_gemm as_chain = *p;
    as_chain.precision = GG_FP32;
    const struct gg_choice chain = fastest(&as_chain, arch, NULL, CHAINS, NULL), of_chain = ffma_for(p, arch, OF_CHAINS);
    return chain.kernel && chain_serves(chain.seconds, p, arch, &of_chain) ? of_chain : any;
}

const char gg_strip[] = "a strip";

struct gg_choice gg_choose(const struct gg_gemm *p, const struct gg_arch *arch, const char *force)
{
    if (force == gg_strip)
        return fastest(p, arch, NULL, OF_CHAINS, NULL);
    for (enum rows rows = ALL; force && rows <= CHAINS; rows++) {
        const struct gg_choice forced = fastest(p, arch, force, rows, NULL);
        if (forced.kernel)
            return forced;
    }
    if (p->type == GG_D || p->precision == GG_STRICT)
        return strict_for(p, arch);
    const struct gg_choice chain = fastest(p, arch, NULL, CHAINS, NULL);
    return chain.kernel && chain_serves(chain.seconds, p, arch, NULL) ? chain : ffma_for(p, arch, ALL);
}

/* cost.c — the cost model. Terms are in kernels.h.
 *
 * A row's time is the larger of arithmetic and memory. Arithmetic: the k steps of the busiest SM at `rate` flop a clock, plus `start` clocks per
 * round of tiles; with fewer blocks than per_sm an SM does not reach `rate`. Memory: A, B and C once. */
#include "cost.h"

#include "tensor.h"

/* GG_LAUNCH for a second kernel that depends on the first. */
static const double SECOND_LAUNCH = 5e-6;

/* dgemm_direct: what distinguishes it from other FP64 GG_TILED rows is that its operands queue in shared memory. */
static bool is_direct(const struct gg_kernel *row) { return row->role == GG_TILED && row->type == GG_D && row->cc_min >= 90; }

/* The share of its rate that an SM reaches with one block where per_sm fit. Where loads are not queued, measured between 0.6 and 0.8. In FP64 it
 * depends on whether a block's groups of warps share k (ONCE), and with clusters of more than two on how they spread over the SMs. (384 by 32x64,
 * each tile by one block, 9.5 us, by three 9.9; 200x200x8000 by 28 clusters of four of them 35 to 41, by 64x64_pair 31.5; 1456x176x2112 by 124 tiles
 * of 48x48 43, by twice as many blocks 36. By dgemm_direct_16x32 300, two blocks an SM, 8.2, 256 6.1.) */
static double alone(const struct gg_kernel *row, int cluster)
{
    if (!gg_is_tma(row) && !is_direct(row))
        return 0.7;
    if (row->type == GG_S)
        return 0.96;
    return row->role == GG_TMA_ONCE ? 0.78 : cluster > 2 ? 0.85 : 0.95;
}

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
 * the product is launched meanwhile. (6003x99x161 NN by sgemm_tma_64x128 18.5 us, with 0.7 us less predicted 14.4; by multistage_s_32x32 16.1.) */
static const double PACK = 2.8, PACK_LAUNCH = 2e-6;

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

/* How much longer the main loops of FP64 rows with two blocks an SM take if lines of A or of B do not begin at multiples of 32 bytes, as L2's sectors
 * do, for each of them, and those of dgemm_direct if not even at multiples of 16, so that they are copied by elements. (650 by 32x64 27.4 us, 700
 * 21.7; by 64x64_pair 21.2 and 21.4. 442 by dgemm_direct_32x32 15.7, 448 13.4.) */
static const double ACROSS_SECTORS = 0.22, DIRECT_ELEMENTS = 0.1;

static bool is_across_sectors(enum gg_type type, const void *base, int64_t ld) { return ((uintptr_t)base | (uint64_t)ld * gg_size(type)) % 32 != 0; }

static double across_sectors(const struct gg_gemm *p)
{
    return ACROSS_SECTORS * (is_across_sectors(p->type, p->a, p->lda) + is_across_sectors(p->type, p->b, p->ldb));
}

/* C is so tall, or so wide, with no more than NARROW in the other direction, that the large operand of FP64 tiles that have fewer than 64 of its rows
 * takes twice as long to read. (5000x100x200 by 32x64 20.4 us, in pairs of 64x64 18.0; 5000x100x1000 49.7 and 36.4.) */
enum { TALL = 16, NARROW = 128 };

/* Where blocks share tiles unevenly, the smaller of two rows or columns of tiles finds in L2 what the other has read only up to this share of L2's
 * size. (64x12544x576 by 32x64 50 us, by 64x32, whose tiles are in one row, 40.) */
static const double KEPT_UNEVENLY = 0.5;

static double l2_seconds(double bytes, double rate, const struct gg_arch *arch) { return bytes / (rate * arch->sms * arch->clock_mhz * 1e6); }

/* Constants of GG_TMA… rows, by type, fitted together with `rate` and `start` to all rows forced at 1900 problems on an H200
 * (bench/results/cut-2026-11-23.txt). */
static const struct {
    double transpose, once; /* what transposing an operand adds to the main loop of a GG_TMA_EITHER or a GG_TMA_ONCE row */
    double aside;           /* the same for a GG_TMA_ONCE row whose extra warps do it */
    double parts, part;     /* clocks to add up parts: of a tile, and for each part beyond two */
    double cluster, bytes;  /* the same within a cluster: clocks, and bytes per clock that an SM adds up */
    double uneven;          /* how much longer than the mean the slowest block takes, where an SM has one block and no tile is shared */
    bool crowded;           /* clusters of more than three blocks pay even if an SM has several blocks, but some SMs fit into no such cluster */
} TMA[] = {[GG_S] = {0.032, 0.10, 0.046, 9900, 3100, 0, 6.6, 1.025, true}, [GG_D] = {0, 0, 0, 10200, 3600, 3200, 100, 1, false}};

/* Where tiles are shared evenly: a step's share of the time that it takes otherwise, of its rate that an SM reaches with one block where two fit, and
 * clocks to add up an SM's tiles, and for each of a tile's parts but the last. Fitted to 112 ways to cut 8 problems with few tiles and a long k, 3.3
 * % off on the average (bench/results/even-2026-11-25.txt). */
static const double EVEN_STEP = 0.93, EVEN_ALONE = 0.9;
enum { EVEN_PARTS = 3100, EVEN_PART = 1280 };

/* Where all units of a tile add it up together (gather.cuh), by type: the share of the main loop's time, and of memory's, in which what the operands
 * push out of L2 is written, too; `start` and adding up in multiples of `start`; and L2's rate. Main loop and memory add up, as nobody makes up for
 * what others have waited for. (FP64: 337 ways to cut 260 problems, 5.4 % off; FP32: 113 and 28, 4.0 % off; bench/results/gather-2026-11-27.txt.)
 * late: clusters of so short FP64 calls are predicted 1 to 2 us too slow, and correcting that would make other choices worse. */
static const struct {
    double step, memory, start, late;
} GATHER[] = {[GG_S] = {0.98, 0.32, 1.53, 1.0e-6}, [GG_D] = {0.64, 0.64, 1.45, 1.3e-6}};
static const double GATHER_PANELS = 30.7;

/* How much longer clusters of more than three blocks take in FP64 where SMs have several such blocks: they do not spread evenly. (200x200x8000 by
 * 32x64 in clusters of 8 35.5 us, predicted 29.6 without it.) */
static const double SPREAD_AGAIN = 1.15;

/* SMs in a graphics processing cluster, over which the blocks of one cluster are spread; each has at least so many. */
enum { GPC = 16 };

/* FP32's GG_TMA_ONCE: clocks to add up among clusters, and for each batch of up to ONCE_AT_ONCE parts that a thread loads together. */
enum { ONCE_PARTS = 5000, ONCE_LOADS = 1200, ONCE_AT_ONCE = 16 };

/* FP64's: clocks for each cluster of a tile beyond the first, up to so many. (In two to four clusters of two 320x168x14384 takes 47.4 us, by shared
 * tiles of 64x64 52.7, 592x168x7120 43.8 and 49.0, 312x192x16256 52.7 and 57.8, but 200x272x13376 56.2 and 55.0.) */
enum { HALVES_PART = 4000, HALVES_PARTS = 6 };

/* Share of the memory bandwidth that a GG_SKINNY row reaches, where k is not contiguous in the large operand and where it is; the least seconds of
 * its blocks; and those for adding up each piece of k, if they are fewer than GG_MANY_PIECES and if they are not. (16x500x500 18 to 27 us.) */
static const double SKINNY[] = {0.68, 0.6}, SKINNY_LEAST[] = {10e-6, 20e-6}, SKINNY_PIECE[] = {0.07e-6, 0.005e-6};

/* Clocks for each round of blocks but the first, by tile_n 4 and 16. */
static const double SKINNY_ROUND[][2] = {{9500, 10500}, {14500, 28000}};

/* The share of `rate` that a GG_SLIM row reaches: [k contiguous in the large operand][in the small one]. */
static const double SLIM_RATE[2][2] = {{1, 0.93}, {0.73, 0.71}};

/* And the extra seconds per 32 k (per 512 bytes of k, where it is contiguous) for loading elements instead of vectors, where the large operand is not
 * aligned or its rows do not fill the last block. */
static double slim_slow(const struct gg_kernel *row, bool kmajor)
{
    return row->tile_n == 1 ? (kmajor ? 0.1e-6 : 0.08e-6) : row->tile_n == 4 ? 0.4e-6 : kmajor ? 0.75e-6 : 0.65e-6;
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

static double predict_skinny(const struct gg_kernel *row, const struct gg_gemm *p, const struct gg_arch *arch, int splits)
{
    const bool b_large = p->n > row->tile_n;
    const double m = (double)p->m, n = (double)p->n, k = (double)p->k, size = (double)gg_size(p->type), x = b_large ? n : m;
    const double clocks = 2 * x * row->tile_n * k / (gg_rate(row, arch) * arch->sms) + row->start;
    const double bytes = (m * k + k * n + (2 + 2.0 * (splits > 1) * splits) * m * n) * size;
    const bool kmajor = b_large ? p->b_kmajor : p->a_kmajor;
    const double blocks = (double)gg_ceil_div((int64_t)x, gg_skinny_rows(kmajor)) * splits;
    const double rounds = gg_at_least(blocks / ((double)arch->sms * row->per_sm), 1), hz = arch->clock_mhz * 1e6;
    return GG_LAUNCH + (splits > 1) * SECOND_LAUNCH + (splits > 1) * splits * SKINNY_PIECE[splits >= GG_MANY_PIECES] +
           gg_at_least(0.3 * clocks / hz + bytes / (SKINNY[kmajor] * arch->bandwidth),
                       SKINNY_LEAST[kmajor] + (rounds - 1) * SKINNY_ROUND[row->tile_n > 4][kmajor] / hz);
}

/* Clocks that a round of blocks takes, however short k is, by tile_n 1, 4 and 16. Where k is contiguous in the large operand: `along`, and SLIM_LINE
 * for each 512 bytes of k, up to so many, whose loads wait for each other where k is no whole turn. Where it is not: `across` and, for each of up to
 * 32 k, each_k; a vector's k is longer, unless its blocks are wide. (1000000 rows, 1 to 16 columns, k 1 to 128, by slim_s1 67 to 490 us, slim_s16 255
 * to 860; by multistage_s_32x32 43 to 300: bench/results/update-2026-11-26.txt.) */
enum { SLIM_LINE = 1400, SLIM_LINES = 4 };
static const struct {
    double along, across, each_k;
} SLIM_ROUND[] = {{3000, 4600, 50}, {4200, 4600, 60}, {12500, 8400, 137}};

/* Seconds of a GG_SLIM row. Each SM reads its share of what the memory gives, some 30 GB/s, and no more where others are idle. */
static double predict_slim(const struct gg_choice *way, const struct gg_gemm *p, const struct gg_arch *arch)
{
    const struct gg_kernel *const row = way->kernel;
    const int pieces = way->splits;
    const bool b_large = p->n > row->tile_n, kmajor = b_large ? p->b_kmajor : p->a_kmajor, y_kmajor = b_large ? p->a_kmajor : p->b_kmajor;
    const int64_t x = b_large ? p->n : p->m;
    const double m = (double)p->m, n = (double)p->n, k = (double)p->k, size = (double)gg_size(p->type);
    const int64_t blocks = gg_slim_blocks(row, p, way->wide) * pieces;
    const double busy = gg_min(blocks, arch->sms) / (double)arch->sms, rate = row->rate * SLIM_RATE[kmajor][y_kmajor];
    const double clocks = 2 * (double)x * row->tile_n * k / (rate * arch->sms * busy) + row->start;
    const double memory = (row->tile_n == 16 ? 1.3 : 0.95) * (m * k + k * n + 2 * m * n) * size / arch->bandwidth;
    const bool slow = gg_unaligned_large(row, p) || (!kmajor && x % row->tile_m != 0 && x % (16 / (int64_t)gg_size(p->type)) != 0);
    const double lines = gg_min(gg_ceil_div(gg_ceil_div(p->k, pieces) * (int64_t)size, 512), SLIM_LINES);
    const double rounds = gg_at_least((double)blocks / (arch->sms * row->per_sm), 1);
    const int width = row->tile_n > 4 ? 2 : row->tile_n > 1;
    const double across = SLIM_ROUND[width].across + SLIM_ROUND[width].each_k * (double)gg_min(gg_ceil_div(p->k, pieces), 32);
    const double least = kmajor ? rounds * (SLIM_ROUND[width].along + SLIM_LINE * lines) : row->tile_n > 1 || way->wide ? rounds * across : 0;
    const double loads = slow ? k / pieces / (kmajor ? 512 / size : 32) : 0;
    return GG_LAUNCH + loads * slim_slow(row, kmajor) + gg_at_least(gg_longer(clocks, least) / (arch->clock_mhz * 1e6), memory / busy);
}

/* Seconds of a GG_SLIM_TMA row. Memory is read at 1 / SLIM_TMA of its rate; SLIM_ELEMENTS: what
 * copying the small operand by elements adds to a step. An SM has two blocks when there are more than one for each. */
static double predict_slim_tma(const struct gg_kernel *row, const struct gg_gemm *p, const struct gg_arch *arch, int pieces)
{
    static const double SLIM_TMA = 1.15, SLIM_ELEMENTS = 0.6;
    const double m = (double)p->m, n = (double)p->n, k = (double)p->k, size = (double)gg_size(p->type);
    const int64_t blocks = gg_slim_blocks(row, p, false) * pieces, places = gg_places(arch->sms, pieces);
    const double rounds = (double)gg_ceil_div(blocks, places * row->per_sm), load = blocks > places ? row->per_sm : 1;
    const double step = 2.0 * row->tile_m * row->tile_n * row->tile_k / row->rate * (1 + SLIM_ELEMENTS * gg_unaligned_small(row, p));
    const double clocks = rounds * load * (double)gg_ceil_div(gg_ceil_div(p->k, row->tile_k), pieces) * step;
    const double memory = SLIM_TMA * (m * k + k * n + 2 * m * n) * size / arch->bandwidth;
    return GG_LAUNCH + starts(row, rounds) / (arch->clock_mhz * 1e6) + gg_longer(clocks / (arch->clock_mhz * 1e6), memory);
}

/* Seconds of a GG_PANEL row. A block by itself waits for each k in turn; where k is contiguous it has fewer rows, and takes PANEL_DOTS of the time,
 * by tile_n 4 and 16. Many blocks wait for memory, which the first ones use badly; each further tile_m rows of an SM cost PANEL_AGAIN clocks. (324
 * products of 2000 to 200000 rows, 1 to 16 columns and k from 4 to 128, bench/results/panel-2026-11-26.txt.) */
enum { PANEL_AGAIN = 890 };
static double predict_panel(const struct gg_kernel *row, const struct gg_gemm *p, const struct gg_arch *arch)
{
    static const double PANEL_DOTS[] = {0.47, 0.81}, BUSY = 1.2, PANEL = 1.1, PANEL_FIRST = 0.4;
    const bool b_large = p->n > row->tile_n, kmajor = b_large ? p->b_kmajor : p->a_kmajor;
    const double m = (double)p->m, n = (double)p->n, k = (double)p->k, size = (double)gg_size(p->type), hz = arch->clock_mhz * 1e6;
    const double load = gg_at_least((b_large ? n : m) / ((double)row->tile_m * arch->sms), 1);
    const double busy = gg_min(gg_panel_blocks(row, p), arch->sms) / (double)arch->sms;
    const double step = row->per_sm * 2.0 * row->tile_m * row->tile_n / gg_rate(row, arch) * (kmajor ? PANEL_DOTS[row->tile_n > 4] : 1);
    const double memory = (PANEL + PANEL_FIRST / load) * (m * k + k * n + m * n) * size / arch->bandwidth;
    return GG_LAUNCH + (row->start + (load - 1) * PANEL_AGAIN) / hz + gg_longer(step * k * (1 + BUSY * busy) / hz, memory);
}

/* Seconds of a GG_GEMV row. A block's turns along k take as long with two blocks on an SM, of which `rate` counts the flop. (222 products of 50x100
 * to 8000x8000, bench/results/panel-2026-11-26.txt.) */
static double predict_gemv(const struct gg_kernel *row, const struct gg_gemm *p, const struct gg_arch *arch)
{
    static const double GEMV = 1.8;
    const int64_t blocks = gg_ceil_div(gg_max(p->m, p->n), row->tile_m);
    const double rounds = gg_at_least((double)blocks / (arch->sms * row->per_sm), 1);
    const double turn = 2.0 * row->per_sm * row->tile_m * row->tile_k / row->rate;
    const double clocks = rounds * (row->start + turn * (double)gg_ceil_div(p->k, row->tile_k));
    const double memory = GEMV * (double)p->m * (double)p->n * (double)p->k * (double)gg_size(p->type) / arch->bandwidth;
    return GG_LAUNCH + gg_longer(clocks / (arch->clock_mhz * 1e6), row->start / (arch->clock_mhz * 1e6) + memory);
}

/* Seconds of a GG_GEMV_T, GG_GEMV_N or GG_GEMV_SINGLE row. They read memory at VECTOR of its rate, or as fast as their blocks can. ADD: for adding up
 * pieces. */
static double predict_vector(const struct gg_kernel *row, const struct gg_gemm *p, const struct gg_arch *arch, int pieces)
{
    static const double VECTOR = 0.93, ADD = 1.3e-6;
    const double work = (double)p->m * (double)p->n * (double)p->k, hz = arch->clock_mhz * 1e6;
    const double places = (double)arch->sms * row->per_sm, busy = gg_tiles(row, p) * pieces / places;
    const double blocks = 2 * work / (gg_rate(row, arch) * arch->sms * (busy < 1 ? busy : 1)) / hz,
                 memory = work * (double)gg_size(p->type) / (VECTOR * arch->bandwidth);
    return GG_LAUNCH + row->start / hz + (pieces > 1) * ADD + gg_longer(blocks, memory);
}

/* Seconds of a GG_GRAM row. GRAM_LEVEL: clocks to add up the parts of a group of blocks, of all groups, and for each part. (320 products of up to
 * 100x100 and k from 500 to 300000, likewise.) */
static double predict_gram(const struct gg_kernel *row, const struct gg_gemm *p, const struct gg_arch *arch, int pieces)
{
    static const double GRAM = 1.6, GRAM_ALONE = 1.4, GRAM_LEVEL[] = {1800, 2400, 30};
    const double k = (double)p->k, size = (double)gg_size(p->type);
    const double load = gg_at_least((double)gg_ceil_div(gg_tiles(row, p) * pieces, arch->sms), GRAM_ALONE);
    const double step = 2.0 * row->tile_m * row->tile_n * row->tile_k / gg_rate(row, arch);
    const double clocks = load * (double)gg_ceil_div(gg_ceil_div(p->k, row->tile_k), pieces) * step;
    const double adding = (pieces > 1) * GRAM_LEVEL[0] + (pieces > GG_GRAM_GROUP) * GRAM_LEVEL[1] + pieces * GRAM_LEVEL[2];
    const double panels = (double)gg_tiles(row, p) * (gg_min(p->m, row->tile_m) + gg_min(p->n, row->tile_n)) * k * size;
    const double memory = GRAM * panels / arch->bandwidth; /* tiles read from L2 what others have read, but not much faster */
    return GG_LAUNCH + (row->start + adding) / (arch->clock_mhz * 1e6) + gg_longer(clocks / (arch->clock_mhz * 1e6), memory);
}

/* What it adds to the main loop of FP32's GG_PERSISTENT rows to copy an operand element by element because it is not aligned for vectors. */
static const double ELEMENTS = 0.02;
static bool by_elements(enum gg_type type, const void *base, int64_t ld, bool kmajor) { return !kmajor && gg_must_pack(type, base, ld); }

/* Cost of an unaligned C in FP32, in passes over C. Each lane stores its four elements one by one, or they are transposed on the way (gg_rows of
 * cuda/ffma.cuh); with many blocks on an SM the others hide that. (4097x4097x64 by multistage 64 -> 72 us, by sgemm_tma_128x256 60 -> 107 with an
 * operand to pack, by sgemm_128x64 91 -> 138. GG_TMA_ONCE: 48 unaligned problems of starts-2026-11-27.csv.) */
static double unaligned_c(const struct gg_kernel *row, const struct gg_gemm *p)
{
    if (p->type == GG_D || !gg_must_pack(p->type, p->c, p->ldc))
        return 0;
    const int tile = row->tile_m * row->tile_n;
    if (row->per_sm > MANY)
        return 0.5;
    if (gg_is_tma(row))
        return 2;
    return tile >= 128 * 128 && !gg_is_tiled(row) ? 1 : 3;
}

/* Clocks that FP32 rows add for each element of C that a block reads (beta != 0): GG_TILED…, others with two blocks an SM or with one, large tiles
 * that nothing else accompanies, and GG_TMA_EITHER, where a share of the products' time hides it. READ_C: what memory takes longer, in passes over
 * C. READ_LAST: of GG_TILED…, see reading_alone. FP64 rows differ less. (10000x10000x256 by sgemm_tma_128x256 1364 us, 128x128 1260; 4096x4096x512
 * 379 and 360; 8192x8192x32 464, 311, by multistage_s_64x64 226.) */
static const double READ_TILED = 0.27, READ_BESIDE = 0.15, READ_ALONE = 0.43, READ_LARGE = 0.85, READ_EITHER = 0.65, READ_HIDDEN = 0.15, READ_C = 0.8,
                    READ_LAST = 1.4;

/* Clocks of an SM for a tile of C, beyond those that its products hide, if they do. */
static double reading_tile(const struct gg_kernel *row, const struct gg_gemm *p, bool hides)
{
    const double tile = (double)row->tile_m * row->tile_n, hidden = hides ? READ_HIDDEN * 2 * tile * (double)p->k / row->rate : 0;
    const bool large = row->role == GG_TMA || (row->role == GG_PERSISTENT && tile >= 128 * 128);
    const double element = large                        ? READ_LARGE
                           : row->role == GG_TMA_EITHER ? READ_EITHER
                           : gg_is_tiled(row)           ? READ_TILED
                           : row->per_sm == 1           ? READ_ALONE
                                                        : READ_BESIDE;
    return p->beta == 0 || p->type == GG_D ? 0 : gg_at_least(element * tile - hidden, 0);
}

/* Clocks of an SM for all its tiles, if other blocks multiply meanwhile. */
static double reading(const struct gg_kernel *row, const struct gg_gemm *p, const struct gg_arch *arch)
{
    return (double)gg_tiles(row, p) / arch->sms * reading_tile(row, p, row->role == GG_TMA_EITHER);
}

/* Seconds for the tiles that no products accompany, because all blocks of an SM come to their ends together: the last ones of GG_TILED… rows; of
 * others the first, and later rounds the less. (2000x2000x64 by sgemm_tma_128x128 28 -> 37 us, by multistage_s_128x64 26 -> 36, 64x64 27 -> 34.) */
static double reading_alone(const struct gg_kernel *row, const struct gg_gemm *p, const struct gg_arch *arch)
{
    if (row->role == GG_TMA)
        return 0;
    const int64_t load = gg_ceil_div(gg_tiles(row, p), arch->sms);
    const double at_once = (double)gg_min(load, row->per_sm), rounds = (double)gg_ceil_div(load, row->per_sm);
    const double clocks = gg_is_tiled(row) ? READ_LAST * reading_tile(row, p, false) : reading_tile(row, p, true) / rounds;
    return clocks * at_once / (arch->clock_mhz * 1e6);
}

static double passes_over_c(const struct gg_gemm *p) { return 2 + (p->beta != 0 && p->type == GG_S ? READ_C : 0); }

/* Clocks that a GG_TILED_CUT row takes to add up a tile, for each of its parts and, by type, for each of its elements. */
enum { ADDING_UP = 3500, ADDING_PART = 350 };
static const double ADDING_ELEMENT[] = {[GG_S] = 0.4, [GG_D] = 0};

/* A block of a GG_PERSISTENT row that shares tiles mostly has parts of two of them; in FP32 of one, where all shared tiles have equally many blocks.
 * What the second part costs, by type, in multiples of `start`. */
static const double TWO_PARTS[] = {[GG_S] = 1.6, [GG_D] = 0.67};

/* Seconds of a GG_PLAIN, GG_TILED…, or GG_PERSISTENT row. splits: as in struct gg_choice. */
static double predict(const struct gg_kernel *row, const struct gg_gemm *p, const struct gg_arch *arch, int splits)
{
    const bool cut = row->role == GG_TILED_CUT;
    const int pieces = cut ? splits : 1, blocks = cut ? 1 : splits; /* pieces of each tile's k; blocks that share the last tiles */
    const double m = (double)p->m, n = (double)p->n, k = (double)p->k, size = (double)gg_size(p->type);
    const double tile = (double)row->tile_m * row->tile_n, tile_steps = (double)gg_ceil_div(p->k, row->tile_k);
    double step = 2 * tile * row->tile_k / gg_rate(row, arch);
    if (row->role == GG_PERSISTENT && p->type == GG_S)
        step *= 1 + ELEMENTS * (by_elements(p->type, p->a, p->lda, p->a_kmajor) + by_elements(p->type, p->b, p->ldb, p->b_kmajor));
    if (is_direct(row))
        step *= 1 + across_sectors(p) + DIRECT_ELEMENTS * (gg_must_pack(p->type, p->a, p->lda) + gg_must_pack(p->type, p->b, p->ldb));
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
        const double each = row->per_sm > MANY ? load * step + STEP : gg_at_least(load, row->per_sm > 1 ? 1 / alone(row, 1) : 1) * step;
        clocks = each * (double)gg_ceil_div((int64_t)tile_steps, pieces) + starts(row, rounds);
        clocks += pieces > 1 ? ADDING_UP + ADDING_PART * pieces + ADDING_ELEMENT[p->type] * tile : 0;
    }
    clocks += reading(row, p, arch);
    double memory = (m * k + k * n + passes_over_c(p) * m * n) * size / arch->bandwidth;
    if (gg_is_tiled(row)) /* small tiles, one per block: operands are read from L2 again and again */
        memory = gg_at_least(memory, l2_seconds((double)tiles * (row->tile_m + row->tile_n) * k * size, L2, arch));
    after += unaligned_c(row, p) * m * n * size / arch->bandwidth + reading_alone(row, p, arch);
    return GG_LAUNCH + after + gg_longer(clocks / (arch->clock_mhz * 1e6), memory);
}

int gg_cluster_places(const struct gg_kernel *row, int sms, int cluster)
{
    if (!TMA[row->type].crowded || cluster <= 2)
        return sms;
    return row->per_sm > 1 && row->role != GG_TMA_ONCE ? sms * 15 / 16 : gg_places(sms, cluster);
}

int64_t gg_spread(int sms, int cluster) { return gg_max((int64_t)(sms / GPC) * (GPC / cluster) * 15 / 16, 1); }

bool gg_spreads(const struct gg_kernel *row, int cluster) { return !TMA[row->type].crowded && cluster > 2; }

/* Clocks of the busiest SM where blocks share tiles: each has `whole` tiles before, `shared` are shared. A k step takes `step` clocks. */
static double sharing(const struct gg_choice *way, const struct gg_gemm *p, double whole, int64_t shared, double step, int sms)
{
    const struct gg_kernel *const row = way->kernel;
    const double steps = (double)gg_ceil_div(p->k, row->tile_k);
    if (way->groups > 1) { /* evenly */
        const int64_t pieces = gg_half_pieces(way, p);
        const double of_half = pieces > 0 ? HALF / (double)pieces : 0;
        const double load = gg_longer((double)gg_ceil_div(way->splits, sms), row->per_sm > 1 ? 1 / EVEN_ALONE : 1);
        return EVEN_STEP * load * gg_longer(1.0 / way->groups, of_half) * steps * step + starts(row, 1) + EVEN_PARTS * load +
               EVEN_PART * (way->groups - 1);
    }
    const int64_t halves = gg_tiles(row, p) - gg_full_tiles(row, p);
    const double run = ((double)shared - (1 - HALF) * (double)gg_min(shared, halves)) / way->splits, parts = (double)way->splits / (double)shared;
    return row->per_sm * (whole + SHARING * run) * steps * step + starts(row, whole + 1) + TMA[p->type].parts +
           (parts > 2 ? (parts - 2) * TMA[p->type].part : 0);
}

/* Clocks to add up what the clusters of a tile have summed. */
static double among_clusters(const struct gg_kernel *row, int cluster, int groups)
{
    const bool once = row->role == GG_TMA_ONCE;
    if (groups == 1)
        return 0;
    if (once && row->type == GG_D)
        return HALVES_PART * (double)gg_min(groups - 1, HALVES_PARTS);
    if (once)
        return ONCE_PARTS + (double)gg_ceil_div((int64_t)row->tile_m * row->tile_n / 4, (int64_t)cluster * 256) *
                                gg_ceil_div(groups - 1, ONCE_AT_ONCE) * ONCE_LOADS;
    return TMA[row->type].parts;
}

/* Clocks of the busiest SM where each tile has one block or cluster, or several clusters. */
static double not_sharing(const struct gg_choice *way, const struct gg_gemm *p, double step, int sms)
{
    const struct gg_kernel *const row = way->kernel;
    const int cluster = way->cluster, groups = way->groups;
    const bool once = row->role == GG_TMA_ONCE, one_group = gg_spreads(row, cluster) && groups == 1;
    const int64_t tiles = gg_tiles(row, p), all = tiles * cluster * groups, room = (int64_t)sms * row->per_sm;
    const int64_t fit = (int64_t)(sms / GPC) * (GPC * row->per_sm / cluster); /* clusters at one time */
    int64_t load = gg_ceil_div(all, gg_cluster_places(row, sms, cluster));
    /* Looping blocks: if many have one tile more than the others, some of those share an SM, depending on how blocks were assigned to SMs. (396 tiles
     * of 128×128 on 132 SMs of two blocks take as long as 528.) */
    if (cluster * groups == 1 && !once && tiles > room && tiles % room > sms / 2)
        load = gg_round_up(load, row->per_sm);
    /* Where SMs could have several blocks each, but have one, as few clusters find room. (512x768x3072 by 128x128 in clusters of 4 72 us, of 5 105;
     * 384x768x3072 of 5 62, of 6 89.) */
    if (TMA[p->type].crowded && cluster > 2 && !once && all > gg_places(sms, cluster))
        load = gg_max(load, 2);
    if (TMA[p->type].crowded && cluster > 2 && tiles * groups > fit)
        load = gg_max(load, row->per_sm + 1);
    if (one_group)
        load = gg_max(load, gg_ceil_div(tiles, gg_spread(sms, cluster)));
    /* Clusters that find no room begin when others have ended. (1096x288x988 by 32x64 25.4 us, in 175 clusters of two on 132 SMs 30.) */
    const int64_t again = p->type == GG_D && !once && cluster > 1 ? (all - 1) / room : 0;
    if (again > 0)
        load = gg_ceil_div(all - again * room, sms);
    const double least = row->per_sm > 1 ? 1 / alone(row, cluster) : 1, rounds = (double)gg_ceil_div(load, row->per_sm);
    double clocks = (double)again * row->per_sm + gg_at_least((double)load, least);
    clocks *= (double)gg_ceil_div(gg_ceil_div(p->k, row->tile_k), cluster * groups) * step;
    clocks *= row->per_sm == 1 ? TMA[p->type].uneven : one_group && cluster > 3 && load > 1 ? SPREAD_AGAIN : 1;
    const double tile_bytes = (double)row->tile_m * row->tile_n * (double)gg_size(p->type);
    const double adding_up = cluster == 1 ? 0 : TMA[p->type].cluster + tile_bytes / TMA[p->type].bytes;
    clocks += starts(row, rounds) + (double)again * (row->start + adding_up);
    clocks += (once && p->type == GG_D ? rounds : one_group && cluster > 3 ? (double)load : 1) * adding_up;
    return clocks + among_clusters(row, cluster, groups);
}

/* Seconds for which memory and, in FP64, L2 keep a GG_TMA… row busy. */
static double tma_memory(const struct gg_choice *way, const struct gg_gemm *p, const struct gg_arch *arch, int64_t shared)
{
    const struct gg_kernel *const row = way->kernel;
    const double m = (double)p->m, n = (double)p->n, k = (double)p->k, size = (double)gg_size(p->type);
    const bool one_stream =
        p->type == GG_D && way->cluster * way->groups == 1 && (m < n ? p->b_kmajor && m <= row->tile_m : p->a_kmajor && n <= row->tile_n);
    const double memory = ((m * k + k * n) * (one_stream ? ONE_STREAM : 1) + passes_over_c(p) * m * n) * size / arch->bandwidth;
    if (p->type == GG_S)
        return memory;
    const int64_t tiles = gg_tiles(row, p);
    const int64_t blocks =
        shared > 0 || way->cluster > 1 ? tiles : gg_round_up(tiles, arch->sms / gg_team(row)); /* an SM has its share of L2, busy or not */
    const double panels = (double)blocks * (row->tile_m + row->tile_n) * k * size, kept = KEPT * (double)arch->l2_bytes / ((m + n) * k * size);
    const bool everywhere = shared > 0 && way->groups <= 1 && way->splits >= EVERYWHERE * tiles;
    double seconds = l2_seconds(panels, shared == 0 ? PANELS : everywhere ? PANELS_EVERYWHERE : PANELS_SHARED, arch);
    if (everywhere && kept < 1)
        seconds += REREAD * panels * (1 - kept) / arch->bandwidth;
    const double large = gg_at_least(m, n) * k * size, unkept = 1 - KEPT_UNEVENLY * (double)arch->l2_bytes / large;
    const bool read_twice = way->cluster * way->groups <= 1 && !everywhere && m > row->tile_m && n > row->tile_n * gg_team(row) && unkept > 0;
    return gg_at_least(memory + (read_twice ? large * unkept / arch->bandwidth : 0), seconds);
}

/* Seconds of tiles that their units gather, but for launching. A k step takes `step` clocks. */
static double gathering(const struct gg_choice *way, const struct gg_gemm *p, const struct gg_arch *arch, double step)
{
    const struct gg_kernel *const row = way->kernel;
    const double hz = arch->clock_mhz * 1e6, k = (double)p->k, size = (double)gg_size(p->type);
    const int64_t tiles = gg_tiles(row, p), units = way->splits > 1 ? way->splits : tiles * way->groups;
    const double load = (double)gg_ceil_div(units, arch->sms / gg_team(row)), steps = (double)gg_ceil_div(p->k, row->tile_k);
    const double slower = row->per_sm > 1 ? 1 + across_sectors(p) : 1, operands = (double)(p->m + p->n) * k * size;
    const double multiplying = load / way->groups * steps * step * slower / hz;
    const double memory = (operands + (double)gg_min((int64_t)operands, arch->l2_bytes)) / arch->bandwidth;
    const double panels = l2_seconds((double)tiles * (row->tile_m + row->tile_n) * k * size, GATHER_PANELS, arch);
    return GATHER[p->type].late + GATHER[p->type].start * row->start / hz +
           gg_longer(GATHER[p->type].step * multiplying + GATHER[p->type].memory * memory, panels);
}

/* Seconds that FP64 tiles with few rows of the large operand add, where C is tall or wide. */
static double narrow(const struct gg_kernel *row, const struct gg_gemm *p, const struct gg_arch *arch)
{
    const bool wide = p->m < p->n;
    const int64_t x = wide ? p->n : p->m, y = wide ? p->m : p->n;
    const int side = wide ? row->tile_n : row->tile_m;
    return p->type == GG_D && side < 64 && x > TALL * y && y <= NARROW ? (double)x * (double)p->k * (double)gg_size(p->type) / arch->bandwidth : 0;
}

/* Seconds of a GG_TMA… row. */
static double predict_tma(const struct gg_choice *way, const struct gg_gemm *p, const struct gg_arch *arch)
{
    const struct gg_kernel *const row = way->kernel;
    const double m = (double)p->m, n = (double)p->n, k = (double)p->k, size = (double)gg_size(p->type);
    const int sms = arch->sms / gg_team(row); /* units that compute a tile: SMs, or pairs of them */
    const int64_t tiles = gg_tiles(row, p), shared = way->cluster > 1 ? 0 : gg_shared_tiles(tiles, way->splits);
    const bool either = row->role != GG_TMA;
    const bool pack_a = gg_must_pack(p->type, p->a, p->lda) || (p->a_kmajor && !either);
    const bool pack_b = gg_must_pack(p->type, p->b, p->ldb) || (p->b_kmajor && !either);
    const int turned = (p->a_kmajor && !pack_a) + (p->b_kmajor && !pack_b);                           /* packed operands have m and n contiguous */
    double step = 2 * ((double)row->tile_m * row->tile_n) * row->tile_k / (row->rate * gg_team(row)); /* clocks of a k step, an SM to itself */
    if (row->role == GG_TMA_ONCE)
        step *= 1 + (row->threads > 256 ? TMA[p->type].aside : TMA[p->type].once) * turned;
    const double passes = (PACK * (pack_a * m + pack_b * n) * k + unaligned_c(row, p) * m * n) * size / arch->bandwidth;
    const double after = (pack_a || pack_b) * PACK_LAUNCH + passes + narrow(row, p, arch) + reading_alone(row, p, arch);
    if (gg_gathers(way))
        return GG_LAUNCH + after + gathering(way, p, arch, step);
    double clocks = shared > 0 ? sharing(way, p, (double)((tiles - shared) / way->splits), shared, step, sms) : not_sharing(way, p, step, sms);
    if (row->role == GG_TMA_EITHER)
        clocks *= 1 + TMA[p->type].transpose * turned;
    if (p->type == GG_D && row->per_sm > 1)
        clocks *= 1 + across_sectors(p);
    clocks += reading(row, p, arch);
    return GG_LAUNCH + after + gg_longer(clocks / (arch->clock_mhz * 1e6), tma_memory(way, p, arch, shared));
}

double gg_seconds(const struct gg_choice *way, const struct gg_gemm *p, const struct gg_arch *arch)
{
    const struct gg_kernel *row = way->kernel;
    if (gg_is_chain(row))
        return gg_chain_seconds(row, p, arch);
    if (gg_is_tma(row))
        return predict_tma(way, p, arch);
    switch (row->role) {
    case GG_SKINNY: return predict_skinny(row, p, arch, way->splits);
    case GG_SLIM: return predict_slim(way, p, arch);
    case GG_GEMV: return predict_gemv(row, p, arch);
    case GG_GEMV_T:
    case GG_GEMV_N:
    case GG_GEMV_SINGLE: return predict_vector(row, p, arch, way->splits);
    case GG_PANEL: return predict_panel(row, p, arch);
    case GG_GRAM: return predict_gram(row, p, arch, way->splits);
    case GG_SLIM_TMA: return predict_slim_tma(row, p, arch, way->splits);
    default: return predict(row, p, arch, way->splits);
    }
}

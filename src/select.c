/* select.c — chooses the row of cuda/kernels.def, how k is cut and which edges of C are strips: the fastest by the cost model of cost.c. Pure. Terms
 * are in kernels.h. */
#include <string.h>

#include "cost.h"
#include "tensor.h"

#include "../cuda/kernel.h"

#define GG_KERNEL(name, file, ...)                                                                                                                   \
    extern const unsigned char gg_image_##file[], gg_image_##file##_update[], gg_image_##file##_whole[], gg_image_##file##_update_whole[],           \
        gg_image_##file##_cut[], gg_image_##file##_update_cut[];
#include "../cuda/kernels.def"
#undef GG_KERNEL

const struct gg_kernel gg_kernels[] = {
#define GG_IMAGES_OF(file)                                                                                                                           \
    {gg_image_##file,       gg_image_##file##_update, gg_image_##file##_whole, gg_image_##file##_update_whole,                                      \
     gg_image_##file##_cut, gg_image_##file##_update_cut}
#define GG_KERNEL(name, file, type, role, cc_min, cc_max, tile_m, tile_n, tile_k, threads, smem, per_sm, rate, start)                                \
    {#name, GG_IMAGES_OF(file), type, role, cc_min, cc_max, tile_m, tile_n, tile_k, threads, smem, per_sm, rate, start},
#include "../cuda/kernels.def"
#undef GG_KERNEL
};
const int gg_kernel_count = sizeof gg_kernels / sizeof *gg_kernels;

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

const struct gg_kernel *gg_helper(enum gg_type type, enum gg_role role)
{
    const struct gg_kernel *row = gg_kernels + gg_kernel_count - 1; /* they are the last in the table, and the search was a sixth of a call's time */
    while (row->type != type || row->role != role)
        row--;
    return row;
}

/* What is gained is some 4 us; a warp's tile takes 5 ns for each k and, of doubles, 9. (H200: dgemm 8x8x1500 56 us, and 42 without it; sgemm
 * 20x20x1000 37 and 35.5.) */
const struct gg_kernel *gg_mapped(const struct gg_gemm *p, const struct gg_arch *arch, const char *force)
{
    const double most_c = 256 << 10, most_k = 1600; /* bytes */
    const struct gg_kernel *row = gg_helper(p->type, GG_MAPPED);
    const int64_t size = (int64_t)gg_size(p->type);
    const double a = (double)gg_mapped_pitch(p, true) * (double)(p->a_kmajor ? p->m : p->k),
                 b = (double)gg_mapped_pitch(p, false) * (double)(p->b_kmajor ? p->n : p->k);
    if (gg_is_empty(p) || !gg_runs(row, arch) || a + b > GG_MAPPED_BYTES)
        return NULL;
    if (force && strcmp(force, row->name) == 0)
        return row;
    const double tiles = (double)gg_ceil_div(p->m, row->tile_m) * (double)gg_ceil_div(p->n, row->tile_n);
    const double warps = GG_LARGEST_CLUSTER * row->threads / 32, rounds = tiles > warps ? tiles / warps : 1;
    return (double)p->m * (double)p->n * (double)size <= most_c && rounds * (double)(p->k * size) <= most_k ? row : NULL;
}

/* The fastest of GG_GEMV_T, GG_GEMV_N and GG_GEMV_SINGLE that can read a product's matrix and vector. GG_GEMV: none can. */
static enum gg_role gemv_role(const struct gg_gemm *p)
{
    const bool flat = p->n > 1, contiguous = flat ? p->a_kmajor || p->lda == 1 : p->b_kmajor || p->ldb == 1;
    const void *const matrix = flat ? p->b : p->a, *const vector = flat ? p->a : p->b;
    const int64_t x = gg_max(p->m, p->n), ld = flat ? p->ldb : p->lda;
    if (gg_min(p->m, p->n) > 1)
        return GG_GEMV;
    if ((flat ? p->b_kmajor : p->a_kmajor) || (x == 1 && ld == 1))
        return contiguous ? GG_GEMV_T : GG_GEMV;
    const bool whole = (uintptr_t)vector % 16 == 0 && !gg_must_pack(p->type, matrix, ld) && x * (int64_t)gg_size(p->type) % 16 == 0;
    return contiguous && whole ? GG_GEMV_N : GG_GEMV_SINGLE;
}

/* Most kernels count in 32 bits, some in steps of up to 512. */
static bool fits_32_bits(const struct gg_gemm *p) { return (p->m | p->n | p->k) < INT32_MAX - 4096; }

static bool legal(const struct gg_kernel *row, const struct gg_gemm *p, const struct gg_arch *arch)
{
    if (row->role >= GG_SCALE || row->type != p->type || !gg_runs(row, arch))
        return false;
    /* Vectors need a row that reads memory at full speed. */
    if ((p->m <= 4 || p->n <= 4) && (row->role == GG_TMA_ONCE || row->role == GG_SLIM_TMA || (row->role == GG_TILED && row->cc_min == 90)))
        return false;
    if (gg_is_chain(row))
        return gg_chain_legal(row, p);
    if ((row->cc_min == 90 || gg_is_cut(row)) && !fits_32_bits(p))
        return false;
    if ((row->role == GG_TILED || row->role == GG_PERSISTENT) && gg_ceil_div(p->k, row->tile_k) > INT32_MAX) /* tile.cuh counts steps in 32 bits */
        return false;
    if (gg_is_tma(row))
        return (p->type == GG_S || !(gg_must_pack(p->type, p->a, p->lda) || gg_must_pack(p->type, p->b, p->ldb)));
    if (row->role == GG_SLIM_TMA && gg_unaligned_large(row, p))
        return false;
    if (row->role == GG_GRAM)
        return gg_tiles(row, p) < GG_FLAGS / GG_GRAM_FLAGS;
    if (gg_is_gemv(row) && row->role != GG_GEMV)
        return row->role == gemv_role(p) && (row->tile_m > GG_GEMV_FEW || gg_max(p->m, p->n) <= GG_GEMV_FEW);
    const bool is_thin = p->m <= row->tile_n || p->n <= row->tile_n, fits_grid = gg_max(p->m, p->n) <= INT64_C(32) * INT32_MAX;
    if (row->role == GG_PANEL)
        return is_thin && fits_grid && p->k <= GG_PANEL_K;
    return (row->role != GG_SKINNY && row->role != GG_GEMV && !gg_is_slim(row)) || (is_thin && fits_grid);
}

/* Keeps the faster of two ways; the best so far may be none. */
static void consider(struct gg_choice *best, struct gg_choice way, const struct gg_gemm *p, const struct gg_arch *arch)
{
    way.seconds = gg_seconds(&way, p, arch);
    if (!best->kernel || way.seconds < best->seconds)
        *best = way;
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

/* Pieces of k for a GG_SLIM row: enough blocks to fill the GPU, as long as each has some rounds of k. Where k is not contiguous, one block per SM is
 * enough (two for vectors). */
static int slim_pieces(const struct gg_kernel *row, const struct gg_gemm *p, const struct gg_arch *arch, bool wide)
{
    enum { SHORTEST = 256 };
    const bool b_large = p->n > row->tile_n, kmajor = b_large ? p->b_kmajor : p->a_kmajor;
    const int64_t blocks = gg_slim_blocks(row, p, wide), room = arch->sms * (kmajor || row->tile_n == 1 ? row->per_sm : 1);
    int pieces = 1;
    while (pieces < GG_LARGEST_CLUSTER && blocks * pieces * 2 <= room && p->k >= pieces * 2 * SHORTEST)
        pieces *= 2;
    return pieces;
}

/* The best number of pieces of k for a GG_SLIM_TMA row. */
static struct gg_choice best_slim_tma(const struct gg_kernel *row, const struct gg_gemm *p, const struct gg_arch *arch)
{
    enum { SHORTEST = 2 }; /* steps */
    struct gg_choice best = {0};
    for (int pieces = 1; pieces <= GG_LARGEST_CLUSTER && (pieces == 1 || p->k >= (int64_t)pieces * SHORTEST * row->tile_k); pieces++)
        consider(&best, (struct gg_choice){.kernel = row, .splits = pieces}, p, arch);
    return best;
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

/* Considers sharing all tiles evenly: as many units a tile as there is room for, or one less, and half tiles as many as are then left for them. Where
 * an SM holds several units, the same with one on each. */
static void consider_even(struct gg_choice *best, const struct gg_choice *whole, const struct gg_gemm *p, const struct gg_arch *arch)
{
    const struct gg_kernel *row = whole->kernel;
    const int64_t full = gg_full_tiles(row, p), halves = gg_tiles(row, p) - full;
    const int64_t steps = gg_ceil_div(p->k, row->tile_k), room = gg_min(sharers(row, p, arch), GG_GAVE_UP / gg_team(row));
    for (int per_sm = row->per_sm; per_sm > 0; per_sm--) {
        const int64_t units = room * per_sm / row->per_sm, most = full > 0 ? gg_min((units - halves) / full, steps / (2 * GG_SHORTEST_RUN)) : 0;
        for (int64_t pieces = most; pieces > 1 && pieces >= most - 1; pieces--) {
            struct gg_choice way = *whole;
            way.groups = (int)pieces;
            way.splits = (int)(full * pieces + (halves > 0 ? halves * gg_min((units - full * pieces) / halves, pieces) : 0));
            consider(best, way, p, arch);
        }
    }
}

/* Considers clusters of blocks, each of which multiplies a part of k of the same tile; several clusters a tile, if there is room. */
static void consider_clusters(struct gg_choice *best, const struct gg_choice *whole, const struct gg_gemm *p, const struct gg_arch *arch)
{
    static const int64_t MOST[] = {[GG_S] = INT32_MAX, [GG_D] = 8}; /* clusters a tile; with more, FP64's tiles are better gathered */
    const struct gg_kernel *row = whole->kernel;
    const int64_t steps = gg_ceil_div(p->k, row->tile_k), tiles = gg_tiles(row, p);
    const bool once = row->role == GG_TMA_ONCE;
    /* Large tiles: a cluster moves more data than it saves, and few clusters fit on a GPU. */
    if (row->per_sm == 1 && (!once || row->tile_m * row->tile_n > 128 * 64))
        return;
    const bool alone = once && p->type == GG_S; /* two cluster blocks per SM are slower than one */
    const bool cut = once && row->per_sm == 1;  /* not with two blocks per SM: some SMs would get two and others stay idle */
    for (int cluster = cut && alone ? 1 : 2; cluster <= (once && !alone ? 2 : GG_LARGEST_CLUSTER) && cluster <= steps; cluster++) {
        const int64_t single = arch->sms / (tiles * cluster);
        const bool crowd = gg_spreads(row, cluster) && tiles > gg_spread(arch->sms, cluster) * row->per_sm;
        const int64_t room = alone || crowd ? single : arch->sms * row->per_sm / (tiles * cluster);
        if (room == 0 && (cluster > 2 || alone))
            break;
        const int64_t fit = cut                                                       ? gg_cluster_places(row, arch->sms, cluster) / (tiles * cluster)
                            : once || p->type == GG_D || cluster < GG_LARGEST_CLUSTER ? 1
                                                                                      : room;
        const int most = (int)gg_max(gg_min(gg_min(fit, MOST[p->type]), steps / cluster), 1);
        for (int groups = 1, next; groups <= most; groups = next) {
            next = cut && groups < most ? (int)gg_min(2 * groups, most) : groups + 1;
            struct gg_choice way = *whole;
            way.cluster = cluster, way.groups = groups;
            consider(best, way, p, arch);
        }
    }
}

static struct gg_choice best_tma(const struct gg_kernel *row, const struct gg_gemm *p, const struct gg_arch *arch)
{
    const int64_t steps = gg_ceil_div(p->k, row->tile_k), tiles = gg_tiles(row, p);
    const bool once = row->role == GG_TMA_ONCE;
    const int least = (p->type == GG_D ? 2 : 1) * GG_SHORTEST_RUN; /* fewest k steps of a tile that is shared */
    const bool shares = steps >= least && !once;
    /* Unevenly FP64 tiles larger than 128×128 are slow: 5 % slower than 128×128 where both must share, faster where neither needs to. And
     * 64x4096x4096: pairs that share unevenly are 0.98 times as fast as groups of warps. */
    const bool evenly_only = (p->type == GG_D && row->tile_m * row->tile_n > 128 * 128 * gg_team(row)) ||
                             (gg_team(row) > 1 && row->tile_m < 128 && tiles < arch->sms / gg_team(row));
    const struct gg_choice whole = {.kernel = row, .splits = 1, .cluster = 1, .groups = 1};
    struct gg_choice best = {0}, way = whole;
    consider(&best, way, p, arch);
    way.splits = shares && !evenly_only ? sharers(row, p, arch) : 1;
    consider(&best, way, p, arch);
    if (shares && p->type == GG_D)
        consider_even(&best, &whole, p, arch);
    /* k too short to be cut: "sharing" then gives each block a run of adjacent whole tiles. 4096x4096x64: 1.03 times as fast, 16384x128x128: 1.12. */
    const int full = arch->sms * row->per_sm / gg_team(row);
    if (p->type == GG_D && gg_stays_whole(steps) && !once && tiles > full && sharers(row, p, arch) == full)
        best.splits = full;
    consider_clusters(&best, &whole, p, arch);
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
 * of k. Then those for shapes that no chain is fast for. Further GG_TMA_ONCE with more tiles than SMs, because chains for C of that size contain
 * sgemm_128x64's FFMA (tensor.c). */
static bool outside_chains(const struct gg_kernel *row, int splits, const struct gg_gemm *p, const struct gg_arch *arch)
{
    if (row->type == GG_D) /* FP64's chain is more accurate than any row */
        return false;
    if (gg_is_gemv(row) || row->role == GG_PANEL || row->role == GG_GRAM)
        return true;
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
    struct gg_choice best = {0};
    consider(&best, (struct gg_choice){.kernel = row, .splits = 1}, p, arch);
    for (int pieces = 2; pieces <= gg_min(most, MOST_PIECES) && (rows == ALL || !outside_chains(row, pieces, p, arch)); pieces++)
        consider(&best, (struct gg_choice){.kernel = row, .splits = pieces}, p, arch);
    return best;
}

/* The same for a GG_GRAM row, and for vectors: a step at least for each piece. */
static struct gg_choice best_thin_cut(const struct gg_kernel *row, const struct gg_gemm *p, const struct gg_arch *arch)
{
    const int64_t room = (int64_t)arch->sms * row->per_sm / gg_tiles(row, p),
                  flags = row->role == GG_GRAM ? GG_GRAM_GROUP * (GG_GRAM_FLAGS - 1) : GG_FLAGS;
    const int64_t most = gg_tiles(row, p) > GG_FLAGS ? 1 : gg_min(room, flags);
    struct gg_choice best = {0};
    for (int64_t pieces = gg_max(gg_min(most, gg_ceil_div(p->k, row->tile_k)), 1);; pieces /= 2) {
        consider(&best, (struct gg_choice){.kernel = row, .splits = (int)pieces}, p, arch);
        if (pieces == 1)
            return best;
    }
}

/* What GG_GEMV is for on GPUs that have GG_SLIM, too: vectors that are not long, from a k that is not either. */
static bool is_short_gemv(const struct gg_gemm *p)
{
    const bool dots = p->n == 1 ? p->a_kmajor : p->b_kmajor; /* is k contiguous in the matrix? */
    const int64_t x = gg_max(p->m, p->n), most_k = dots && x >= 500 ? 2100 : 1200, most = dots ? 3500000 : 2100000;
    return gg_min(p->m, p->n) == 1 && x <= 4000 && p->k <= most_k && x * p->k <= most;
}

/* The vectors that have rows of their own: all that these can read, but for many rows of a short k, which are GG_PANEL's. */
static bool is_gemv(const struct gg_gemm *p, const struct gg_arch *arch)
{
    const int64_t x = gg_max(p->m, p->n);
    const enum gg_role role = gemv_role(p);
    const bool is_panel = x >= 1000 && p->k <= GG_PANEL_K && !(role == GG_GEMV_N && p->k > 64 && x <= 20000);
    return arch->cc >= 80 && fits_32_bits(p) && role != GG_GEMV && !is_panel && !(role == GG_GEMV_SINGLE && (is_short_gemv(p) || x < 48));
}

/* Of the GG_GEMV_T or GG_GEMV_N rows, is this a wrong one? GG_GEMV_T: one for few rows; and one with less on its way in a block, of which more fit on
 * an SM, where many rows have all of a short k on its way at once. GG_GEMV_N: blocks of fewer rows where they fill the GPU without cutting k. (50
 * vectors, bench/results/vector-2026-11-26.txt.) */
static bool is_wrong_gemv(const struct gg_kernel *row, const struct gg_gemm *p, const struct gg_arch *arch)
{
    const int64_t x = gg_max(p->m, p->n);
    const bool few = x <= GG_GEMV_FEW, is_short = p->k * (int64_t)gg_size(p->type) <= 3072 && x > 16 * arch->sms;
    if (row->role == GG_GEMV_T)
        return (row->tile_m <= GG_GEMV_FEW) != few || (row->per_sm > 2) != is_short;
    return row->role == GG_GEMV_N &&
           (row->tile_m * (int)gg_size(p->type) < 512) != (x <= 64 || (x <= 32 * arch->sms && p->k < 8 * x) || (p->type == GG_S && p->k <= 512));
}

/* What GG_GEMV, GG_PANEL and GG_GRAM are for other rows do 1.1 to 9 times slower, but are often predicted to be faster (10000x1x16 by slim_s1 8.4 us,
 * by panel_s4 6.5; 4x4x100000 by slim_s4 124, by gram_s4 13; 1000000x1x16 by multistage_s_32x32 59, by panel_s4 34). */
static bool is_done_better(const struct gg_kernel *row, const struct gg_gemm *p, const struct gg_arch *arch)
{
    const int64_t x = gg_max(p->m, p->n), y = gg_min(p->m, p->n);
    if (is_gemv(p, arch))
        return row->role != gemv_role(p);
    const bool kmajor = p->n > row->tile_n ? p->b_kmajor : p->a_kmajor, few = x <= 16 && p->k >= 256 && fits_32_bits(p);
    const int64_t short_k = kmajor ? (x < 5000 ? 64 : GG_PANEL_K) : x < 50000 ? 16 : 64;
    if (row->role == GG_SLIM)
        return is_short_gemv(p) || few || p->k <= short_k;
    if (row->role == GG_SKINNY)
        return (few || p->k <= GG_PANEL_K) && arch->cc >= 80;
    const bool is_tall = y <= 4 && x >= 1000 && p->k <= GG_PANEL_K;
    return (is_tall || is_short_gemv(p)) && (gg_is_tiled(row) || gg_is_tma(row) || row->role == GG_PERSISTENT);
}

static bool is_for_tma(const struct gg_gemm *p, const struct gg_arch *arch)
{
    for (const struct gg_kernel *row = gg_kernels; row < gg_kernels + gg_kernel_count; row++)
        if (gg_is_tma(row) && legal(row, p, arch))
            return true;
    return false;
}

/* Rows that are legal for p but not worth a prediction. skinny_s16 and, where k is contiguous in the large operand and not cut, all GG_SKINNY rows
 * are for GPUs without GG_SLIM: where they were predicted to be the fastest an H200 took 1.15 to 4 times as long as with multistage_…_32x32
 * (7x3001x3001, 9x100000x64, 16x1001x5000+1, 14x9001x1001, 1x300001x101, 3x200000x32+1). FP64's gram_d16 is slow for more than four tiles
 * (48x48x10000 18.8 us, by tiles of 32x64 15.1). FP64's GG_PERSISTENT rows are for what TMA cannot read; in 120 problems that it can none was the
 * fastest, but dgemm_32x64 was predicted to be for few rows of a long k (22x982x22248 83 us, by dgemm_tma_32x64 61). */
static bool is_hopeless(const struct gg_kernel *row, const struct gg_gemm *p, const struct gg_arch *arch, enum rows rows)
{
    const bool kmajor = p->n > row->tile_n ? p->b_kmajor : p->a_kmajor;
    if (rows == ALL && is_done_better(row, p, arch))
        return true;
    switch (row->role) {
    case GG_SKINNY: return arch->cc == 90 && (row->tile_n == 16 || (kmajor && pieces(row, p, arch) == 1));
    case GG_GEMV: return arch->cc == 90 && !is_short_gemv(p);
    case GG_PERSISTENT: return p->type == GG_D && is_for_tma(p, arch);
    case GG_GEMV_T:
    case GG_GEMV_N:
    case GG_GEMV_SINGLE: return !is_gemv(p, arch) || is_wrong_gemv(row, p, arch);
    case GG_GRAM: return p->type == GG_D && row->tile_m > 4 && gg_tiles(row, p) > 4;
    default: return false;
    }
}

/* SMs on which no block of this choice runs; 0 for rows of which an SM has several blocks, and where operands are packed first, beside which strips
 * gain nothing (511x513x8191 NT by sgemm_tma_64x128 116 us, predicted 108; by sgemm_128x64 112). */
static int idle_sms(const struct gg_choice *choice, const struct gg_gemm *p, const struct gg_arch *arch)
{
    const struct gg_kernel *row = choice->kernel;
    const bool packs = gg_is_tma(row) && (gg_must_pack(p->type, p->a, p->lda) || gg_must_pack(p->type, p->b, p->ldb));
    if (row->per_sm > 1 || gg_is_tiled(row) || packs)
        return 0;
    const int64_t tiles = gg_tiles(row, p), each = gg_own_pieces(choice) * gg_team(row);
    const int64_t blocks = gg_shared_tiles(tiles, choice->splits) > 0 ? choice->splits * gg_team(row) : tiles * each;
    return blocks < arch->sms ? arch->sms - (int)blocks : 0;
}

/* Strips of C, as far as they matter to the tiles: the seconds that they take behind them, the seconds that a single SM would take for them, those
 * that their slowest block takes, and whether their kernels can run beside others. */
struct strips {
    double behind, on_one_sm, longest;
    bool slim;
};

/* The elements of its large operand that one SM reads per second for a strip, measured with 4 idle SMs: aligned, by type where they are not, and by
 * FP64's row for several columns where k is contiguous, which has little in flight. */
static double strip_rate(const struct gg_choice *strip, const struct gg_gemm *p)
{
    static const double ALIGNED = 10.5e9, UNALIGNED[] = {[GG_S] = 9.8e9, [GG_D] = 7.5e9}, WIDE_DOTS = 5.5e9;
    if (gg_unaligned_large(strip->kernel, p))
        return UNALIGNED[p->type];
    return p->type == GG_D && strip->kernel->tile_n > 1 && (p->n > p->m ? p->b_kmajor : p->a_kmajor) ? WIDE_DOTS : ALIGNED;
}

static void add_strip(struct strips *strips, const struct gg_choice *strip, const struct gg_gemm *p, double beyond)
{
    strips->behind += strip->seconds + beyond;
    strips->slim = strips->slim && strip->kernel && gg_is_slim(strip->kernel);
    if (!strips->slim)
        return;
    const double elements = (double)gg_max(p->m, p->n) * (double)p->k, rate = strip_rate(strip, p);
    strips->on_one_sm += elements / rate;
    if (p->type == GG_D) /* of which an SM needs two blocks to reach that rate (388x360x7256 NT with a strip in 6 blocks 83 us, without 54;
                          * 380x196x12432 TT in 24 blocks 76 us, without 54) */
        strips->longest = gg_longer(strips->longest, elements / ((double)gg_slim_blocks(strip->kernel, p, false) * rate / 2));
}

/* Adds what the strips, if there are any, take to the time of the tiles, behind which they run or, on idle SMs, beside them. */
static void add_strips(struct gg_choice *choice, const struct gg_gemm *p, const struct gg_arch *arch, const struct strips *strips)
{
    static const double BESIDE = 1e-6;
    if (!strips)
        return;
    const int idle = strips->slim ? idle_sms(choice, p, arch) : 0;
    const double behind = choice->seconds + strips->behind;
    const double strip = gg_longer(strips->on_one_sm / (double)gg_max(idle, 1), strips->longest);
    const double beside = gg_longer(choice->seconds, 2 * GG_LAUNCH + strip) + BESIDE;
    choice->beside = idle > 0 && beside < behind;
    choice->seconds = choice->beside ? beside : behind;
}

/* The best way for one row to serve p, and the strips if there are any. */
static struct gg_choice choice_of(const struct gg_kernel *row, const struct gg_gemm *p, const struct gg_arch *arch, enum rows rows,
                                  const struct strips *strips)
{
    struct gg_choice best = {0};
    if (gg_is_tma(row)) {
        best = best_tma(row, p, arch);
    } else if (row->role == GG_TILED_CUT) {
        best = best_cut(row, p, arch, rows);
    } else if (row->role == GG_GRAM || (gg_is_gemv(row) && row->role != GG_GEMV)) {
        best = best_thin_cut(row, p, arch);
    } else if (row->role == GG_SLIM_TMA) {
        best = best_slim_tma(row, p, arch);
    } else if (gg_is_chain(row) || row->role == GG_SKINNY || row->role == GG_SLIM || row->role == GG_PANEL || row->role == GG_GEMV) {
        /* Wide blocks need less of the memory, but must be enough: 20001x1x2001 1.09 times as fast with 157, 8001x1x8001 0.93 with 63. */
        const bool wide = gg_prefers_wide(row, p) && gg_slim_blocks(row, p, true) >= arch->sms;
        const int splits = row->role == GG_SKINNY ? pieces(row, p, arch) : row->role == GG_SLIM ? slim_pieces(row, p, arch, wide) : 1;
        consider(&best, (struct gg_choice){.kernel = row, .splits = splits, .wide = wide}, p, arch);
    } else {
        const int all = sharers(row, p, arch);
        const int even = gg_tiles(row, p) < all ? all - all % (int)gg_tiles(row, p) : all; /* equally many blocks for each tile */
        const int splits[] = {1, all, even};
        for (int i = 0; i < 3; i++) {
            struct gg_choice choice = {0};
            consider(&choice, (struct gg_choice){.kernel = row, .splits = splits[i]}, p, arch);
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
        if (!force && (is_hopeless(row, p, arch, rows) || (rows == OF_CHAINS && outside_chains(row, 1, p, arch))))
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
    if (gg_own_pieces(ffma) > 1)
        return groups * gg_own_pieces(ffma);
    if (row->role == GG_TILED_CUT)
        return ffma->splits;
    const int64_t shared = gg_shared_tiles(gg_tiles(row, p), ffma->splits);
    return groups * (shared > 0 ? gg_at_least((double)ffma->splits / (double)shared, 1) : 1);
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
    if (p->type == GG_D)
        return seconds < strict.seconds; /* its errors do not grow with k */
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
    if (p->precision == GG_STRICT)
        return strict_for(p, arch);
    const struct gg_choice chain = fastest(p, arch, NULL, CHAINS, NULL);
    return chain.kernel && chain_serves(chain.seconds, p, arch, NULL) ? chain : ffma_for(p, arch, ALL);
}

/* plan.c — owns the cutting of a staged call into blocks, panels, strips and steps, which plan.h defines. Pure but for the memory of the lists.
 * Called by planned.c; tested without a GPU by tests/t_plan.c. */
#include "plan.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_BLOCKS = 1 << 20 };

/* A kernel that adds to C takes longer by the time of reading and writing C, times this (H200: 0.4 to 1, from dgemm 4096 to 8192x8192x128). Each
 * kernel also loses a tenth of a wave of tiles. */
static const double ACCUMULATE = 0.75;

/* Extents of a block, and the number of blocks in each direction. */
struct shape {
    int64_t m, n, k;
    int64_t mb, nb, kb;
};

static void measure(struct gg_plan *plan, const struct gg_gemm *p, struct shape *s)
{
    struct gg_gemm block = *p;
    block.m = s->m, block.n = s->n, block.k = s->k;
    block = gg_as_staged(block);
    s->mb = gg_ceil_div(p->m, s->m);
    s->nb = gg_ceil_div(p->n, s->n);
    s->kb = gg_ceil_div(p->k, s->k);
    plan->ld[GG_A] = block.lda, plan->ld[GG_B] = block.ldb, plan->ld[GG_C] = block.ldc;
    plan->buffer_size[GG_A] = plan->ld[GG_A] * (p->a_kmajor ? s->m : s->k);
    plan->buffer_size[GG_B] = plan->ld[GG_B] * (p->b_kmajor ? s->n : s->k);
    plan->buffer_size[GG_C] = plan->ld[GG_C] * s->n;
    plan->buffers[GG_A] = s->mb * s->kb > 1 ? 2 : 1;
    plan->buffers[GG_B] = s->nb * s->kb > 1 ? 2 : 1;
    plan->buffers[GG_C] = s->mb * s->nb > 1 ? 2 : 1;
    double bytes = 0; /* a double: the product of absurd sizes must not wrap round */
    for (int x = GG_A; x <= GG_C; x++)
        bytes += (double)plan->buffers[x] * (double)plan->buffer_size[x] * (double)gg_size(p->type);
    plan->bytes = bytes < 9e18 ? (int64_t)bytes : INT64_MAX;
}

int64_t gg_plan_whole(const struct gg_gemm *p)
{
    struct gg_plan plan;
    struct shape all = {.m = p->m, .n = p->n, .k = p->k};
    measure(&plan, p, &all);
    return plan.bytes;
}

/* How many times an operand crosses the link that is cut into `pieces`, each of which is needed `times` times. The pieces are visited to and fro, so
 * at each reversal the two in the buffers are reused. */
static double crossings(double pieces, double times)
{
    return pieces > 1 ? times - 2 * (times - 1) / pieces : 1;
}

/* Seconds for everything in blocks of this shape if nothing ever waits: the larger of the link's time and the GPU's, with C read and written once per
 * block. */
static double rough_seconds(const struct gg_gemm *p, const struct shape *s, const struct gg_speed *speed)
{
    double size = (double)gg_size(p->type), a = (double)p->m * (double)p->k * size, b = (double)p->k * (double)p->n * size;
    double c = (double)p->m * (double)p->n * size, blocks = (double)(s->mb * s->nb) * (double)s->kb;
    double up = (a * crossings((double)s->kb, (double)s->nb) + b * crossings((double)(s->nb * s->kb), (double)s->mb) + (p->beta == 0 ? 0 : c)) / speed->up;
    double wave = 2.0 * 128 * 128 * (double)s->k * speed->sms / speed->flops; /* one wave of tiles; a block loses about one at its strips' ends */
    double gpu = 2 * (double)p->m * (double)p->n * (double)p->k / speed->flops + 2 * ACCUMULATE * c * (double)(s->kb - 1) / speed->memory + blocks * wave;
    double longest = up > gpu ? up : gpu, down = c / speed->down;
    double first = (a / (double)(s->mb * s->kb) + b / (double)(s->nb * s->kb)) / speed->up;
    return (longest > down ? longest : down) + first / 2 + 100e-6 * blocks; /* each further block means a few more kernels and waits */
}

/* The next number of pieces to try: every number up to 8, then an eighth more each time. */
static int64_t more(int64_t pieces)
{
    return pieces + gg_max(1, pieces / 8);
}

/* Extent of one piece when `extent` is cut into `pieces`; a multiple of the kernels' tile if it is large. */
static int64_t share(int64_t extent, int64_t pieces)
{
    int64_t each = gg_ceil_div(extent, pieces);
    return each > 1024 ? gg_min(gg_round_up(each, 128), extent) : each;
}

/* The shapes with the shortest estimated times, best first. */
enum { FEW = 12 };
struct shapes {
    int count;
    struct shape at[FEW];
    double seconds[FEW];
};

static void keep(struct shapes *few, const struct shape *s, double seconds)
{
    int i = few->count < FEW ? few->count++ : FEW - 1;
    if (i == FEW - 1 && few->seconds[i] > 0 && few->seconds[i] <= seconds)
        return;
    for (; i > 0 && few->seconds[i - 1] > seconds; i--)
        few->at[i] = few->at[i - 1], few->seconds[i] = few->seconds[i - 1];
    few->at[i] = *s;
    few->seconds[i] = seconds;
}

/* Collects the candidates: one block if everything fits, else a few shapes of blocks that fit. The block's m and n decide how often A and B cross the
 * link; its k fills what memory is left. */
static void fit(struct shapes *few, struct gg_plan *plan, const struct gg_gemm *p, int64_t budget, const struct gg_speed *speed)
{
    const int64_t least = 128;
    struct shape all = {.m = p->m, .n = p->n, .k = p->k};
    *few = (struct shapes){0};
    measure(plan, p, &all);
    if (plan->bytes <= budget) {
        keep(few, &all, 0);
        return;
    }
    for (int64_t mb = 1; mb == 1 || (mb <= MOST_BLOCKS && p->m / mb >= least); mb = more(mb))
        for (int64_t nb = 1; nb == 1 || (mb * nb <= MOST_BLOCKS && p->n / nb >= least); nb = more(nb)) {
            struct shape try = {.m = share(p->m, mb), .n = share(p->n, nb), .k = p->k};
            int64_t kb = 1;
            for (measure(plan, p, &try); plan->bytes > budget && p->k / (kb + 1) >= least; measure(plan, p, &try)) {
                kb = more(kb);
                try.k = share(p->k, kb);
            }
            for (int deeper = 0; plan->bytes <= budget && deeper < 3; deeper++) { /* as deep as fits, then shallower: the first block arrives
                                                                                   * sooner */
                if (try.mb * try.nb * try.kb <= MOST_BLOCKS)
                    keep(few, &try, rough_seconds(p, &try, speed));
                try.k = share(try.k, 2);
                measure(plan, p, &try);
            }
        }
}

static struct gg_range cut(int64_t begin, int64_t width, int64_t i, int64_t end)
{
    int64_t first = begin + i * width;
    return (struct gg_range){first, gg_min(first + width, end)};
}

/* A mixture says how the inside of a block is cut: the order of the panels, a share, and how many panels (see plan.h). */
struct mixture {
    enum { BOTH, A_FIRST, B_FIRST } order; /* panels of both operands, or A (B) first: see list_one_first */
    int eighths;                           /* BOTH: of k in the first of two turns (0: one turn). Else of the operand that is first */
    int panels;                            /* approximate number of panels in each turn */
};

struct cuts {
    int count;
    int64_t at[GG_PANELS + 1]; /* piece i is [at[i], at[i + 1]) */
};

static struct gg_range piece(const struct cuts *cuts, int i)
{
    return (struct gg_range){cuts->at[i], cuts->at[i + 1]};
}

/* The fraction of the range that has arrived with piece i. */
static double reached(const struct cuts *cuts, int i)
{
    return (double)(cuts->at[i + 1] - cuts->at[0]) / (double)(cuts->at[cuts->count] - cuts->at[0]);
}

/* Cuts a range into panels of whole kernel tiles, none narrower than `least`. The last panel is halved up to twice, because the strip it completes
 * must still be computed and downloaded when the upload has ended. `early`: the first panel is half as wide, so that C starts to leave sooner. An
 * empty range has no panels. */
static struct cuts panels_of(struct gg_range r, int panels, int64_t least, bool early)
{
    const int64_t tile = 128;
    int64_t width = gg_max(least, gg_round_up(gg_ceil_div(r.end - r.begin, panels), tile));
    struct cuts cuts = {.count = 0, .at = {r.begin}};
    if (early && width > least && r.begin + width < r.end)
        cuts.at[++cuts.count] = r.begin + gg_max(least, gg_round_up(width / 2, tile));
    while (cuts.at[cuts.count] < r.end) {
        cuts.at[cuts.count + 1] = gg_min(cuts.at[cuts.count] + width, r.end);
        cuts.count++;
    }
    for (int halved = 0; halved < 2 && cuts.count > 0 && cuts.at[cuts.count] - cuts.at[cuts.count - 1] >= 2 * least; halved++) {
        cuts.at[cuts.count + 1] = r.end;
        cuts.at[cuts.count] = cuts.at[cuts.count - 1] + gg_round_up((r.end - cuts.at[cuts.count - 1]) / 2, tile);
        cuts.count++;
    }
    return cuts;
}

/* Offset in its buffer of element (row, col), counted from the corner of the block. second_contiguous: the second index of the operand is the
 * contiguous one. */
static int64_t position(int64_t ld, bool second_contiguous, int64_t row, int64_t col)
{
    return second_contiguous ? col + row * ld : row + col * ld;
}

/* What one block adds to the lists. */
struct block {
    struct gg_range m, n, k;
    int a_buffer, b_buffer, c_buffer;
    int a_after, b_after, c_after; /* last blocks that used those buffers */
    bool load_a, load_b, load_c;
    bool first, last;
};

/* Appends a load of a rectangle of A or B. */
static void add_load(struct gg_plan *plan, const struct gg_gemm *p, const struct block *b, enum gg_operand x, struct gg_range rows, struct gg_range cols)
{
    bool a = x == GG_A;
    int64_t row = rows.begin - (a ? b->m.begin : b->k.begin), col = cols.begin - (a ? b->k.begin : b->n.begin);
    plan->loads[plan->load_count++] = (struct gg_load){.operand = x,
                                                       .rows = rows,
                                                       .cols = cols,
                                                       .offset = position(plan->ld[x], a ? p->a_kmajor : !p->b_kmajor, row, col),
                                                       .buffer = a ? b->a_buffer : b->b_buffer,
                                                       .after_block = a ? b->a_after : b->b_after};
}

/* Appends the step that multiplies rows × depth by depth × cols; first a load of C's rectangle, if C is read. */
static struct gg_step *add_step(struct gg_plan *plan, const struct gg_gemm *p, const struct block *b, struct gg_range rows, struct gg_range cols,
                                struct gg_range depth)
{
    int64_t row = rows.begin - b->m.begin, col = cols.begin - b->n.begin, at = depth.begin - b->k.begin;
    int64_t c_offset = position(plan->ld[GG_C], false, row, col);
    if (b->load_c)
        plan->loads[plan->load_count++] = (struct gg_load){GG_C, rows, cols, c_offset, b->c_buffer, b->c_after};
    struct gg_step *step = &plan->steps[plan->step_count++];
    *step = (struct gg_step){.rows = rows,
                             .cols = cols,
                             .depth = depth,
                             .a_offset = position(plan->ld[GG_A], p->a_kmajor, row, at),
                             .b_offset = position(plan->ld[GG_B], !p->b_kmajor, at, col),
                             .c_offset = c_offset,
                             .a_buffer = b->a_buffer,
                             .b_buffer = b->b_buffer,
                             .c_buffer = b->c_buffer,
                             .loads = plan->load_count,
                             .first = b->first,
                             .last = b->last,
                             .after_block = b->c_after};
    return step;
}

/* Panels of both operands, over part of the block's depth (one turn). All turns are cut alike, so each strip of C meets the same stream again and its
 * sums are added in order. */
static void add_panels(struct gg_plan *plan, const struct gg_gemm *p, const struct block *b, int panels, struct gg_range depth)
{
    const int64_t least = 256; /* smaller strips leave most of the GPU idle */
    const struct cuts m = panels_of(b->m, panels, least, true), n = panels_of(b->n, panels, least, true);
    for (int i = 0, j = 0, t = 0; i < m.count || j < n.count;) {
        const bool of_a = j == n.count || (i < m.count && reached(&m, i) <= reached(&n, j));
        struct gg_range rows = {b->m.begin, m.at[i]}, cols = {b->n.begin, n.at[j]};
        if (of_a) {
            rows = piece(&m, i++);
            if (b->load_a)
                add_load(plan, p, b, GG_A, rows, depth);
        } else {
            cols = piece(&n, j++);
            if (b->load_b)
                add_load(plan, p, b, GG_B, depth, cols);
        }
        if (rows.end > rows.begin && cols.end > cols.begin)
            add_step(plan, p, b, rows, cols, depth)->stream = t++ % GG_RUN_STREAMS;
    }
}

static void add_block(struct gg_plan *plan, const struct gg_gemm *p, const struct block *block, struct mixture mix)
{
    struct block b = *block;
    struct gg_range rest = b.k;
    if (plan->blocks == 0 && !b.load_c && (b.k.end - b.k.begin) / 8 * mix.eighths >= 64) {
        rest.begin += (b.k.end - b.k.begin) / 8 * mix.eighths & -64;
        b.last = false;
        add_panels(plan, p, &b, mix.panels, (struct gg_range){b.k.begin, rest.begin});
        b.first = false;
        b.last = block->last;
    }
    add_panels(plan, p, &b, mix.panels, rest);
    plan->block_end[plan->blocks++] = plan->step_count;
}

/* Which piece each buffer of an operand holds (by the piece's index), and which block used the buffer last. */
struct cache {
    int64_t piece[2];
    int last_user[2];
};

/* Returns the buffer for `piece`. *fresh: it must be loaded, once block *after has run. */
static int place(struct cache *cache, int buffers, int64_t piece, int block, bool *fresh, int *after)
{
    int i = 0;
    while (i < buffers && cache->piece[i] != piece)
        i++;
    *fresh = i == buffers;
    if (*fresh) {
        i = buffers == 2 && cache->last_user[1] < cache->last_user[0];
        cache->piece[i] = piece;
        *after = cache->last_user[i];
    }
    cache->last_user[i] = block;
    return i;
}

/* Fills the lists. */
static void list(struct gg_plan *plan, const struct gg_gemm *p, const struct shape *s, struct mixture mix)
{
    plan->blocks = plan->load_count = plan->step_count = 0;
    struct cache a = {{-1, -1}, {-1, -1}}, b = a, c = a;
    for (int64_t i = 0; i < s->mb; i++)
        for (int64_t jj = 0; jj < s->nb; jj++) {
            int64_t j = i % 2 ? s->nb - 1 - jj : jj; /* to and fro, so the last piece of B is still there when the row changes */
            for (int64_t ll = 0; ll < s->kb; ll++) {
                int64_t l = (i * s->nb + jj) % 2 ? s->kb - 1 - ll : ll;
                struct block block = {.m = cut(0, s->m, i, p->m), .n = cut(0, s->n, j, p->n), .k = cut(0, s->k, l, p->k)};
                block.first = ll == 0;
                block.last = ll == s->kb - 1;
                bool fresh_c;
                block.a_buffer = place(&a, plan->buffers[GG_A], i * s->kb + l, plan->blocks, &block.load_a, &block.a_after);
                block.b_buffer = place(&b, plan->buffers[GG_B], l * s->nb + j, plan->blocks, &block.load_b, &block.b_after);
                block.c_after = -1; /* later blocks in k add to the same C */
                block.c_buffer = place(&c, plan->buffers[GG_C], i * s->nb + j, plan->blocks, &fresh_c, &block.c_after);
                block.load_c = fresh_c && p->beta != 0;
                add_block(plan, p, &block, mix);
            }
        }
}

/* All or most of one operand first; then the other by panels, each with the columns (rows) of C that it completes, and what was left of the first by
 * panels, each with the rows (columns) that it completes. The loads of what is first grow in size, so that the link starts early. (H200, planned so
 * or by panels of both: sgemm 4096 3.41 ms and 4.51, 2048 1.24 and 1.27; dgemm 4096 6.24 and 7.52, 2048 2.06 and 2.20; page-locked sgemm 4096 2.98
 * and 4.20, dgemm 4096 5.89 and 7.27. With and without a first panel half as wide: dgemm 4096 6.26 and 6.84.) */
static void list_one_first(struct gg_plan *plan, const struct gg_gemm *p, const struct gg_speed *speed, struct mixture mix, bool chain)
{
    const bool columns = mix.order == A_FIRST;
    const int64_t least = chain && !speed->few_tiles ? 256 : 128; /* fewer steps for a chain, whose launches wait for each other */
    struct block all = {.m = {0, p->m},
                        .n = {0, p->n},
                        .k = {0, p->k},
                        .a_after = -1,
                        .b_after = -1,
                        .c_after = -1,
                        .load_c = p->beta != 0,
                        .first = true,
                        .last = true};
    const enum gg_operand one = columns ? GG_A : GG_B, other = columns ? GG_B : GG_A;
    const bool along_k = columns ? !p->a_kmajor : !p->b_kmajor; /* consecutive lines of the first operand are consecutive in k */
    const struct gg_range whole = columns ? all.m : all.n, across = {0, gg_min(gg_round_up(gg_ceil_div(whole.end * mix.eighths, 8), 128), whole.end)},
                          rest = {across.end, whole.end}, lines = along_k ? all.k : across;
    const double line = (double)gg_size(p->type) * (double)(along_k ? across.end : p->k);
    plan->blocks = plan->load_count = plan->step_count = 0;
    double wanted = 1 << 20;
    for (int64_t at = 0, end; at < lines.end; at = end, wanted *= 4) {
        end = wanted > 4 << 20 || wanted > line * (double)(lines.end - at) ? lines.end : gg_min(at + (int64_t)(wanted / line) + 1, lines.end);
        const struct gg_range part = {at, end}, k = along_k ? part : all.k, x = along_k ? across : part;
        add_load(plan, p, &all, one, columns ? x : k, columns ? k : x);
    }
    if (chain) { /* splits the first operand while the first panel is on its way */
        const struct gg_range none = {0, 0};
        struct block alone = all;
        alone.load_c = alone.last = false;
        add_step(plan, p, &alone, columns ? across : none, columns ? none : across, all.k);
    }
    const struct cuts cuts = panels_of(columns ? all.n : all.m, mix.panels, least, true);
    for (int t = 0; t < cuts.count; t++) {
        const struct gg_range part = piece(&cuts, t);
        add_load(plan, p, &all, other, columns ? all.k : part, columns ? part : all.k);
        add_step(plan, p, &all, columns ? across : part, columns ? part : across, all.k)->stream = t % GG_RUN_STREAMS;
    }
    const struct cuts late = panels_of(rest, (int)gg_max(1, (8 - mix.eighths) * mix.panels / 8), least, false);
    for (int t = 0; t < late.count; t++) {
        const struct gg_range part = piece(&late, t);
        add_load(plan, p, &all, one, columns ? part : all.k, columns ? all.k : part);
        add_step(plan, p, &all, columns ? part : all.m, columns ? all.n : part, all.k)->stream = t % GG_RUN_STREAMS;
    }
    plan->block_end[plan->blocks++] = plan->step_count;
}

/* Cost of a rectangle on the link, in bytes. A line fetched where it lies costs something extra (H200: at a pitch of 16 KB lines of 512 bytes run at
 * 68 % of the rate); so does a piece of a line that is packed. */
static double link_bytes(const struct gg_gemm *p, const struct gg_speed *speed, enum gg_operand x, struct gg_range rows, struct gg_range cols)
{
    const double fetched = 220, packed = 50;
    const bool second = x == GG_A ? p->a_kmajor : x == GG_B && !p->b_kmajor;
    const int64_t size = (int64_t)gg_size(p->type), r = rows.end - rows.begin, c = cols.end - cols.begin;
    const int64_t extent = second ? c : r, lines = second ? r : c;
    const int64_t all = x == GG_C ? p->m : x == GG_A ? (p->a_kmajor ? p->k : p->m) : p->b_kmajor ? p->k : p->n;
    const bool lies = speed->pitch[x] > 0 && !gg_is_packed(speed->pitch[x], extent * size, speed->threads, x != GG_C);
    const bool whole = lies ? extent * size == speed->pitch[x] : extent == all;
    return (double)lines * ((double)extent * (double)size + (whole ? 0 : lies ? fetched : packed));
}

static int64_t tiles_of(int64_t m, int64_t n) { return gg_ceil_div(m, 128) * gg_ceil_div(n, 128); }

/* The model. Products of a chain run one after the other, each for at least one wave of tiles (`round`), or half a one.
 * The strips of other kernels run side by side, in tiles of 64 x 64 or less. (Fitted to sgemm 1152 to 2048 and dgemm 768 to 2048 by five to ten
 * mixtures each, H200, 2026-11: not counting `a_step`, measured times are 0.82 to 1.21 times the prediction, the strip plans of one problem within
 * 0.05 of each other. A model of strips as waves of tiles of 128 was off by 0.42 to 1.08 and chose plans that took a fifth longer.) a_step penalises
 * each step, because finer cuts that were predicted to be as fast were not (8 and 16 panels: dgemm 2048 1.61 and 1.65 ms, sgemm that is not
 * certified for FP16 2500 1.60 and 1.82). */
double gg_plan_seconds(const struct gg_plan *plan, const struct gg_gemm *p, const struct gg_speed *speed)
{
    const double size = (double)gg_size(p->type), copy = 3e-6, launch = plan->chain ? 20e-6 : 8e-6 /* of the calling thread */, a_step = 10e-6;
    const double round = plan->chain ? speed->chain / (double)gg_ceil_div(tiles_of(p->m, p->n), speed->chain_tiles) : 0;
    double up = 0, launched = 0, gpu = 0, down = 0;
    int load = 0;
    for (int i = 0; i < plan->step_count; i++) {
        const struct gg_step *s = &plan->steps[i];
        double m = (double)(s->rows.end - s->rows.begin), n = (double)(s->cols.end - s->cols.begin), k = (double)(s->depth.end - s->depth.begin);
        for (; load < s->loads; load++) {
            const struct gg_load *l = &plan->loads[load];
            up += copy + link_bytes(p, speed, l->operand, l->rows, l->cols) / speed->up;
        }
        launched = (launched > up ? launched : up) + launch;
        gpu = gpu > launched ? gpu : launched;
        if (m * n == 0) { /* the step that splits: reads an operand and writes its pieces */
            gpu += 2 * size * (m + n) * k / speed->memory;
            continue;
        }
        const double flops = 2 * m * n * k / speed->flops, memory = size * (m * k + k * n + m * n) / speed->memory;
        const double again = s->first && p->beta == 0 ? 0 : 2 * ACCUMULATE * size * m * n / speed->memory;
        double done;
        if (plan->chain) {
            const bool few = tiles_of((int64_t)m, (int64_t)n) <= speed->few_tiles;
            const double least = round * k / (double)p->k * (few ? 0.5 : 1);
            done = gpu += (flops > least ? flops : least) + again;
        } else {
            const double tile = 2 * 64 * 64 * k * speed->sms / speed->flops, least = gpu + tile;
            gpu += (flops > memory ? flops : memory) + again + 0.4 * tile;
            done = gpu > least ? gpu : least;
        }
        if (s->last)
            down = (down > done ? down : done) + copy + link_bytes(p, speed, GG_C, s->rows, s->cols) / speed->down;
    }
    return down + a_step * plan->step_count;
}

/* A large product whose upload takes far longer than its kernels. The model underestimates how much short lines and small chunks delay such an
 * upload, so fewer mixtures are tried. (H200: sgemm 2048, 34 MB, is as fast either way.) */
static bool is_link_bound(const struct gg_gemm *p, const struct gg_speed *speed)
{
    const int64_t large = 1024;
    const double m = (double)p->m, n = (double)p->n, k = (double)p->k, bytes = (double)gg_size(p->type) * (m * k + k * n);
    return p->m >= large && p->n >= large && p->k >= large && bytes > 50e6 && 2 * m * n * k / speed->flops < 0.6 * bytes / speed->up;
}

/* Lists the work of `mix` and returns its predicted seconds, with ordinary kernels or with the chain. */
static double try(struct gg_plan *plan, const struct gg_gemm *p, const struct shape *s, const struct gg_speed *speed, struct mixture mix, bool chain)
{
    struct gg_speed with = *speed;
    struct shape measured = *s;
    measure(plan, p, &measured);
    if (chain)
        with.flops = 2 * (double)p->m * (double)p->n * (double)p->k / speed->chain;
    if (mix.order == BOTH)
        list(plan, p, s, mix);
    else
        list_one_first(plan, p, speed, mix, chain);
    plan->chain = chain;
    return plan->seconds = gg_plan_seconds(plan, p, &with);
}

enum { BOTH_BY_4, BOTH_BY_8, BOTH_BY_16, QUARTER_BY_16 = 8, THREE_EIGHTHS_BY_8 = 10 };
enum { ONE_FIRST = 18, A_FIRST_BY_8 = ONE_FIRST, A_FIRST_BY_4, MIXTURES = 24 /* among which the model may choose */, MOST_OF_A_BY_16 = MIXTURES };
static const struct mixture mixtures[] = {
    {BOTH, 0, 4},  {BOTH, 0, 8},  {BOTH, 0, 16},   {BOTH, 1, 4},    {BOTH, 1, 8},     {BOTH, 1, 16},   {BOTH, 2, 4},    {BOTH, 2, 8},
    {BOTH, 2, 16}, {BOTH, 3, 4},  {BOTH, 3, 8},    {BOTH, 3, 16},   {BOTH, 4, 4},     {BOTH, 4, 8},    {BOTH, 4, 16},   {BOTH, 5, 4},
    {BOTH, 5, 8},  {BOTH, 5, 16}, {A_FIRST, 8, 8}, {A_FIRST, 8, 4}, {A_FIRST, 8, 16}, {B_FIRST, 8, 8}, {B_FIRST, 8, 4}, {B_FIRST, 8, 16},
    {A_FIRST, 6, 16}};

/* A range of the mixtures: [from, to). */
struct span {
    int from, to;
};

static struct span just(int mixture)
{
    return (struct span){mixture, mixture + 1};
}

/* C larger than A and B together. It is downloaded by whole columns, in pieces that keep the link busy. (H200, so and in panels of both: sgemm 4096 x
 * 4096 x 16 1.41 ms and 2.00, 4096 x 4096 x 1024 1.97 and 2.38; dgemm 2000 x 2000 x 1 0.71 and 0.79.) */
static bool is_thin(const struct gg_gemm *p)
{
    const int64_t least = 1024;
    return (double)p->m * (double)p->n > (double)p->k * (double)(p->m + p->n) && p->n >= least;
}

static struct span by_columns(const struct gg_gemm *p)
{
    const double eighths = 3e6; /* bytes of C per panel for which eight panels pay */
    return just((double)gg_size(p->type) * (double)p->m * (double)p->n < 8 * eighths ? A_FIRST_BY_4 : A_FIRST_BY_8);
}

/* The mixtures to try for ordinary kernels and one block. Kernels somewhat faster than the upload: sixteen panels, if the copy threads' lines do not
 * become too short. About as fast: two turns, to give the kernels a head start. (H200, dgemm 6000 in eight panels of both 13.06 ms, sixteen 12.70, in
 * two turns 13.2, A first 13.3 to 14.1; 8192 25.9, 25.8, 25.2 to 25.4; reading C 34.5, 33.9, 36.0, 33.8.) */
static struct span of_kernels(const struct gg_gemm *p, const struct gg_speed *speed)
{
    const bool square = gg_max(p->m, p->n) < 2 * gg_min(p->m, p->n); /* dgemm 1500 x 6000 x 3000: 4.15 ms in eight panels of both, 4.41 with A first */
    const double upload = (double)gg_size(p->type) * (double)p->k * (double)(p->m + p->n) / speed->up;
    const double seconds = 2 * (double)p->m * (double)p->n * (double)p->k / speed->flops;
    if (is_thin(p))
        return by_columns(p);
    if (is_link_bound(p, speed))
        return square ? (struct span){ONE_FIRST, MIXTURES} : just(BOTH_BY_8);
    if (square && seconds < 1.1 * upload && gg_min(p->m, p->n) / 16 * (int64_t)gg_size(p->type) >= 2048)
        return just(seconds < 0.7 * upload || p->beta != 0 ? BOTH_BY_16 : QUARTER_BY_16);
    return (struct span){0, MIXTURES};
}

/* The mixtures to try for a chain. Panels of both where the chain would wait too long for all of A; two turns where it takes about as long as the
 * upload, but one where C is read, because a second would read it again. (H200, sgemm 8192 by 16 and 8 panels in any layout 11.6 to 11.9 ms and 12.0
 * to 12.7, A first 11.5 to 13.4. H100, turns-2026-11-28.txt: dgemm 16384 in one turn 121 ms, in two 113, page-locked 118 and 110; sgemm 55.6 and 54.1,
 * page-locked 56.1 and 52.7; reading C dgemm 16384 145 and 156, sgemm 76 and 74. H200, chains-2026-11-28.txt: dgemm 8192 by 8 panels of both 23.6,
 * with three quarters of A first 22.5, all of A first 23.0, TT 23.9; dgemm 12000, which takes nearly as long as the upload, 54.6, in two turns 52.6;
 * sgemm the same within 2 % where A's share is right, and up to 10 % slower where it is not.) */
static struct span of_chain(const struct gg_gemm *p, const struct gg_speed *speed)
{
    const double upload = (double)gg_size(p->type) * (double)p->k * (double)(p->m + p->n) / speed->up, share = speed->chain / upload;
    const bool direct = speed->pitch[GG_A] && speed->pitch[GG_B];
    const int64_t deep = 4096; /* three eighths of which are more than the least k of any chain */
    if (is_thin(p))
        return by_columns(p);
    if (share > 0.6)
        return just(p->beta == 0 && p->k >= deep ? THREE_EIGHTHS_BY_8 : p->type == GG_D || direct ? BOTH_BY_16 : BOTH_BY_8);
    if (share > 0.3 && !direct)
        return just(p->type == GG_D ? MOST_OF_A_BY_16 : BOTH_BY_16);
    return (struct span){ONE_FIRST, MIXTURES};
}

/* A chain is taken if it is no slower than this, relative to other kernels: in FP32 even if it is slower, because it leaves the GPU free for others
 * for more of the time. The model flatters FP64's where C is read (H100, 8192 34.4 ms and 33.2 in strict, 4096 9.0 and 8.5). */
static double chain_worth(const struct gg_gemm *p) { return p->type == GG_S ? 1.05 : p->beta == 0 ? 1 : 0.97; }

static void find_last_steps(struct gg_plan *plan)
{
    int last[GG_RUN_STREAMS];
    memset(last, -1, sizeof last);
    for (int b = 0, i = 0; b < plan->blocks; b++) {
        for (; i < plan->block_end[b]; i++)
            last[plan->steps[i].stream] = i;
        memcpy(plan->last_step[b], last, sizeof last);
    }
}

bool gg_plan_make(struct gg_plan *plan, const struct gg_gemm *p, int64_t budget, const struct gg_speed *speed)
{
    const int64_t many = 1000, each = 2 * GG_PANELS; /* listing more blocks than this takes longer than a better shape saves */
    struct shapes few;
    int64_t blocks = 0;
    *plan = (struct gg_plan){0};
    fit(&few, plan, p, budget, speed);
    for (int i = 0; i < few.count; i++)
        if (i == 0 || few.at[i].mb * few.at[i].nb * few.at[i].kb <= many)
            blocks = gg_max(blocks, few.at[i].mb * few.at[i].nb * few.at[i].kb);
        else
            few.at[i].m = 0;
    if (blocks == 0)
        return false;
    plan->block_end = malloc((size_t)blocks * sizeof *plan->block_end);
    plan->loads = malloc((size_t)((blocks + 1) * 2 * each) * sizeof *plan->loads); /* the first block may have two turns */
    plan->steps = malloc((size_t)((blocks + 1) * each) * sizeof *plan->steps);
    plan->last_step = malloc((size_t)blocks * sizeof *plan->last_step);
    if (!plan->block_end || !plan->loads || !plan->steps || !plan->last_step) {
        gg_plan_free(plan);
        return false;
    }
    const bool one = blocks == 1;
    const struct span kernels = one ? of_kernels(p, speed) : just(BOTH_BY_4); /* with several blocks, each has few steps */
    const struct span chain = one && speed->chain > 0 ? of_chain(p, speed) : (struct span){0, 0};
    const struct shape *shape = NULL;
    int best = kernels.from;
    double seconds = 0;
    bool by_chain = false;
    for (const struct shape *s = few.at; s < few.at + few.count; s++)
        for (int i = kernels.from; s->m > 0 && i < kernels.to; i++) {
            const double t = try(plan, p, s, speed, mixtures[i], false);
            if (!shape || t < seconds)
                seconds = t, best = i, shape = s;
        }
    for (int i = chain.from; i < chain.to; i++) {
        const double t = try(plan, p, shape, speed, mixtures[i], true);
        if (t < (by_chain ? 1 : chain_worth(p)) * seconds)
            seconds = t, best = i, by_chain = true;
    }
    try(plan, p, shape, speed, mixtures[best], by_chain);
    find_last_steps(plan);
    return true;
}

void gg_plan_readers(const struct gg_plan *plan, int block, int last[GG_RUN_STREAMS])
{
    const int stored = plan->steps[plan->block_end[block] - 1].after_block, from = stored < 0 ? 0 : plan->block_end[stored];
    for (int stream = 0; stream < GG_RUN_STREAMS; stream++)
        last[stream] = plan->last_step[block][stream] < from ? -1 : plan->last_step[block][stream];
}

void gg_plan_free(struct gg_plan *plan)
{
    free(plan->block_end);
    free(plan->last_step);
    free(plan->loads);
    free(plan->steps);
    *plan = (struct gg_plan){0};
}

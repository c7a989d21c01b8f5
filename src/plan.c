/* plan.c — owns the cutting of a staged call into blocks, panels, strips and steps. Pure but for the memory of the lists.
 * Called by staged.c; tested without a GPU by tests/t_plan.c. */
#include "plan.h"

#include <stdlib.h>
#include <string.h>

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static int64_t round_up(int64_t a, int64_t unit)
{
    return ceil_div(a, unit) * unit;
}

/* Extents of a block, and how many there are each way. */
struct shape {
    int64_t m, n, k;
    int64_t mb, nb, kb;
};

/* Buffers hold lines of a multiple of 128 bytes: whole sectors for the kernels, and what TMA asks of a leading dimension. */
static void measure(struct gg_plan *plan, const struct gg_gemm *p, struct shape *s)
{
    int64_t unit = 128 / (int64_t)gg_size(p->type);
    s->mb = ceil_div(p->m, s->m);
    s->nb = ceil_div(p->n, s->n);
    s->kb = ceil_div(p->k, s->k);
    plan->ld[GG_A] = round_up(p->a_kmajor ? s->k : s->m, unit);
    plan->ld[GG_B] = round_up(p->b_kmajor ? s->k : s->n, unit);
    plan->ld[GG_C] = round_up(s->m, unit);
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

/* The largest block that fits: depth is cut first, down to a quarter of the face (its panels are read once a block, the face decides how often
 * A and B cross), then the longer side of the face. */
static bool fit(struct gg_plan *plan, const struct gg_gemm *p, int64_t budget, struct shape *s)
{
    const int64_t least = 256;
    *s = (struct shape){.m = p->m, .n = p->n, .k = p->k};
    for (measure(plan, p, s); plan->bytes > budget; measure(plan, p, s)) {
        int64_t face = gg_max(s->m, s->n);
        int64_t *cut = s->k > gg_max(face / 4, least) ? &s->k : s->m >= s->n ? &s->m : &s->n;
        if (*cut <= least)
            cut = s->m > least ? &s->m : s->n > least ? &s->n : &s->k;
        if (*cut <= least)
            return false;
        int64_t pieces = ceil_div(*cut, 2);
        *cut = round_up(pieces, 128) < *cut ? round_up(pieces, 128) : pieces;
    }
    return true;
}

/* Panel width for `extent`: an eighth, in whole kernel tiles, and no less than 512: strips of 256 leave most of a GPU idle. */
static int64_t panel(int64_t extent)
{
    return gg_min(extent, gg_max(512, round_up(ceil_div(extent, GG_PANELS), 128)));
}

static struct gg_range cut(int64_t begin, int64_t width, int64_t i, int64_t end)
{
    int64_t first = begin + i * width;
    return (struct gg_range){first, gg_min(first + width, end)};
}

/* Position of (row, col), counted from the corner of the block, in the buffer of an operand whose `kmajor`-style flag says that its second
 * index is the contiguous one. */
static int64_t position(int64_t ld, bool second_contiguous, int64_t row, int64_t col)
{
    return second_contiguous ? col + row * ld : row + col * ld;
}

/* What one block adds to the lists. */
struct block {
    struct gg_range m, n, k;
    int a_buffer, b_buffer, c_buffer;
    int a_after, b_after, c_after; /* blocks that used those buffers before */
    bool load_a, load_b, load_c;
    bool first, last;
};

static void add_block(struct gg_plan *plan, const struct gg_gemm *p, const struct block *b)
{
    int64_t mt = panel(b->m.end - b->m.begin), nt = panel(b->n.end - b->n.begin);
    int64_t mp = ceil_div(b->m.end - b->m.begin, mt), np = ceil_div(b->n.end - b->n.begin, nt);
    for (int64_t t = 0; t < gg_max(mp, np); t++) {
        struct gg_range rows = cut(b->m.begin, mt, t, b->m.end), cols = cut(b->n.begin, nt, t, b->n.end);
        if (b->load_a && t < mp)
            plan->loads[plan->load_count++] = (struct gg_load){
                GG_A, rows, b->k, position(plan->ld[GG_A], p->a_kmajor, rows.begin - b->m.begin, 0), b->a_buffer, b->a_after};
        if (b->load_b && t < np)
            plan->loads[plan->load_count++] = (struct gg_load){
                GG_B, b->k, cols, position(plan->ld[GG_B], !p->b_kmajor, 0, cols.begin - b->n.begin), b->b_buffer, b->b_after};
        struct gg_range left = {b->n.begin, gg_min(b->n.begin + (t + 1) * nt, b->n.end)};
        struct gg_range above = {b->m.begin, gg_min(b->m.begin + t * mt, b->m.end)};
        for (int strip = 0; strip < 2; strip++) { /* the row of A_t, then what stands above it in the columns of B_t */
            struct gg_range r = strip ? above : rows, c = strip ? cols : left;
            if (strip ? t >= np || above.end == above.begin : t >= mp)
                continue;
            int64_t row = r.begin - b->m.begin, col = c.begin - b->n.begin;
            int64_t c_offset = position(plan->ld[GG_C], false, row, col);
            if (b->load_c)
                plan->loads[plan->load_count++] = (struct gg_load){GG_C, r, c, c_offset, b->c_buffer, b->c_after};
            plan->steps[plan->step_count++] = (struct gg_step){
                .rows = r,
                .cols = c,
                .depth = b->k,
                .a_offset = position(plan->ld[GG_A], p->a_kmajor, row, 0),
                .b_offset = position(plan->ld[GG_B], !p->b_kmajor, 0, col),
                .c_offset = c_offset,
                .a_buffer = b->a_buffer,
                .b_buffer = b->b_buffer,
                .c_buffer = b->c_buffer,
                .loads = plan->load_count,
                .stream = (int)((2 * t + strip) % 4),
                .first = b->first,
                .last = b->last,
                .after_block = b->c_after,
            };
        }
    }
    plan->block_end[plan->blocks++] = plan->step_count;
}

/* Which buffer holds a piece (identified by its index), and which block used each buffer last. */
struct cache {
    int64_t piece[2];
    int last_user[2];
};

/* The buffer for `piece`. *fresh: it must be loaded, after the block *after has run. */
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

bool gg_plan_make(struct gg_plan *plan, const struct gg_gemm *p, int64_t budget)
{
    struct shape s;
    *plan = (struct gg_plan){0};
    if (!fit(plan, p, budget, &s))
        return false;
    int64_t blocks = s.mb * s.nb * s.kb, each = 2 * GG_PANELS;
    if (blocks > 1 << 20)
        return false;
    plan->block_end = malloc((size_t)blocks * sizeof *plan->block_end);
    plan->loads = malloc((size_t)(blocks * 2 * each) * sizeof *plan->loads);
    plan->steps = malloc((size_t)(blocks * each) * sizeof *plan->steps);
    if (!plan->block_end || !plan->loads || !plan->steps) {
        gg_plan_free(plan);
        return false;
    }
    struct cache a = {{-1, -1}, {-1, -1}}, b = a, c = a;
    for (int64_t i = 0; i < s.mb; i++)
        for (int64_t jj = 0; jj < s.nb; jj++) {
            int64_t j = i % 2 ? s.nb - 1 - jj : jj; /* to and fro: the last piece of B is still there when the row turns */
            for (int64_t ll = 0; ll < s.kb; ll++) {
                int64_t l = (i * s.nb + jj) % 2 ? s.kb - 1 - ll : ll;
                struct block block = {.m = cut(0, s.m, i, p->m), .n = cut(0, s.n, j, p->n), .k = cut(0, s.k, l, p->k)};
                block.first = ll == 0;
                block.last = ll == s.kb - 1;
                bool fresh_c;
                block.a_buffer = place(&a, plan->buffers[GG_A], i * s.kb + l, plan->blocks, &block.load_a, &block.a_after);
                block.b_buffer = place(&b, plan->buffers[GG_B], l * s.nb + j, plan->blocks, &block.load_b, &block.b_after);
                block.c_after = -1; /* deeper blocks of the same C just add to it */
                block.c_buffer = place(&c, plan->buffers[GG_C], i * s.nb + j, plan->blocks, &fresh_c, &block.c_after);
                block.load_c = fresh_c && p->beta != 0;
                add_block(plan, p, &block);
            }
        }
    return true;
}

void gg_plan_free(struct gg_plan *plan)
{
    free(plan->block_end);
    free(plan->loads);
    free(plan->steps);
    *plan = (struct gg_plan){0};
}

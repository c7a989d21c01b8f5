/* t_plan.c — plan.c without a GPU: every plan is carried out here, with host arrays for the GPU's buffers, and must give the product. Loads are made
 * as early as their rules allow and stores as late, so that a rule that is too loose gives a wrong C. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan.h"

static int failures;
#define CHECK(x) ((x) ? (void)0 : (void)(failures++, printf("%s:%d: %s\n", __FILE__, __LINE__, #x)))

static double *buffer[3][2];

static int64_t at(bool second_contiguous, int64_t ld, int64_t row, int64_t col)
{
    return second_contiguous ? col + row * ld : row + col * ld;
}

static bool second(const struct gg_gemm *p, enum gg_operand x)
{
    return x == GG_A ? p->a_kmajor : x == GG_B ? !p->b_kmajor : false;
}

static void move(const struct gg_gemm *p, const struct gg_plan *plan, enum gg_operand x, struct gg_range rows, struct gg_range cols,
                 int64_t offset, int which, bool down)
{
    double *user = (double *)(x == GG_A ? p->a : x == GG_B ? p->b : p->c);
    int64_t ld = x == GG_A ? p->lda : x == GG_B ? p->ldb : p->ldc;
    for (int64_t i = rows.begin; i < rows.end; i++)
        for (int64_t j = cols.begin; j < cols.end; j++) {
            double *here = user + at(second(p, x), ld, i, j);
            int64_t index = offset + at(second(p, x), plan->ld[x], i - rows.begin, j - cols.begin);
            CHECK(index >= 0 && index < plan->buffer_size[x]);
            double *there = buffer[x][which] + index;
            if (down)
                *here = *there;
            else
                *there = *here;
        }
}

static void compute(const struct gg_gemm *p, const struct gg_plan *plan, const struct gg_step *s)
{
    const double *a = buffer[GG_A][s->a_buffer] + s->a_offset, *b = buffer[GG_B][s->b_buffer] + s->b_offset;
    double *c = buffer[GG_C][s->c_buffer] + s->c_offset, beta = s->first ? p->beta : 1;
    for (int64_t j = 0; j < s->cols.end - s->cols.begin; j++)
        for (int64_t i = 0; i < s->rows.end - s->rows.begin; i++) {
            double sum = 0;
            for (int64_t l = 0; l < s->depth.end - s->depth.begin; l++)
                sum += a[at(second(p, GG_A), plan->ld[GG_A], i, l)] * b[at(second(p, GG_B), plan->ld[GG_B], l, j)];
            double *x = c + i + j * plan->ld[GG_C];
            *x = p->alpha * sum + (beta == 0 ? 0 : beta * *x);
        }
}

static int last_step(const struct gg_plan *plan, int block)
{
    return block < 0 ? 0 : plan->block_end[block];
}

static bool overlap(struct gg_range x, struct gg_range y)
{
    return x.begin < y.end && y.begin < x.end;
}

/* Steps that add to the same part of C run one after the other: on one stream. */
static void check_order(const struct gg_plan *plan)
{
    for (int i = 0; i < plan->step_count; i++) {
        const struct gg_step *s = &plan->steps[i];
        for (int j = 0; j < i; j++) {
            const struct gg_step *t = &plan->steps[j];
            if (overlap(s->rows, t->rows) && overlap(s->cols, t->cols) && !s->first)
                CHECK(s->stream == t->stream);
        }
    }
}

static void carry_out(const struct gg_gemm *p, const struct gg_plan *plan)
{
    check_order(plan);
    int loaded = 0, stored = 0;
    for (int i = 0; i < plan->step_count; i++) {
        const struct gg_step *s = &plan->steps[i];
        while (s->after_block >= 0 && stored < plan->block_end[s->after_block]) { /* at the latest point at which these may be stored */
            const struct gg_step *t = &plan->steps[stored++];
            if (t->last)
                move(p, plan, GG_C, t->rows, t->cols, t->c_offset, t->c_buffer, true);
        }
        for (; loaded < plan->load_count; loaded++) { /* as many as may be loaded before this step */
            const struct gg_load *l = &plan->loads[loaded];
            if (last_step(plan, l->after_block) > i || (l->operand == GG_C && last_step(plan, l->after_block) > stored))
                break;
            move(p, plan, l->operand, l->rows, l->cols, l->offset, l->buffer, false);
        }
        CHECK(loaded >= s->loads);
        CHECK(i == 0 || s->loads >= plan->steps[i - 1].loads);
        compute(p, plan, s);
    }
    for (; stored < plan->step_count; stored++)
        if (plan->steps[stored].last)
            move(p, plan, GG_C, plan->steps[stored].rows, plan->steps[stored].cols, plan->steps[stored].c_offset,
                 plan->steps[stored].c_buffer, true);
}

static double *integers(int64_t count)
{
    double *x = malloc((size_t)count * sizeof *x);
    for (int64_t i = 0; i < count; i++)
        x[i] = rand() % 7 - 3;
    return x;
}

static double chain; /* predicted seconds of a chain; 0: there is none */

static void try(int64_t m, int64_t n, int64_t k, bool ta, bool tb, double beta, int64_t budget, int least_blocks)
{
    struct gg_gemm p = {.type = GG_D, .a_kmajor = ta, .b_kmajor = !tb, .m = m, .n = n, .k = k, .alpha = 2, .beta = beta,
                        .lda = (ta ? k : m) + 3, .ldb = (tb ? n : k) + 1, .ldc = m + 2};
    double *a = integers(p.lda * (ta ? m : k)), *b = integers(p.ldb * (tb ? k : n)), *c = integers(p.ldc * n);
    double *expected = malloc((size_t)(p.ldc * n) * sizeof *expected);
    memcpy(expected, c, (size_t)(p.ldc * n) * sizeof *expected);
    p.a = a, p.b = b, p.c = c;
    struct gg_plan plan;
    const struct gg_speed speed = {.up = 50e9, .down = 50e9, .memory = 4e12, .flops = 50e12 / 1000, .sms = 132, .chain = chain, .chain_tiles = 132};
    if (!gg_plan_make(&plan, &p, budget, &speed)) {
        if (least_blocks) printf("no plan: %ld %ld %ld in %ld\n", (long)m, (long)n, (long)k, (long)budget);
        CHECK(least_blocks == 0);
    } else {
        CHECK(plan.chain == (chain > 0 && plan.blocks == 1));
        for (int i = 0; plan.chain && i < plan.step_count; i++)
            CHECK(plan.steps[i].first && plan.steps[i].depth.end - plan.steps[i].depth.begin == k &&
                  plan.steps[i].last == (plan.steps[i].rows.end > plan.steps[i].rows.begin && plan.steps[i].cols.end > plan.steps[i].cols.begin));
        CHECK(plan.bytes <= budget && plan.blocks >= least_blocks && least_blocks > 0);
        for (int i = 0; i < plan.load_count; i++)
            CHECK(plan.loads[i].rows.end > plan.loads[i].rows.begin && plan.loads[i].cols.end > plan.loads[i].cols.begin);
        for (int x = 0; x < 3; x++)
            for (int i = 0; i < plan.buffers[x]; i++) {
                buffer[x][i] = malloc((size_t)plan.buffer_size[x] * sizeof(double));
                memset(buffer[x][i], 0xff, (size_t)plan.buffer_size[x] * sizeof(double)); /* NaN */
            }
        carry_out(&p, &plan);
        for (int64_t j = 0; j < n; j++)
            for (int64_t i = 0; i < m; i++) {
                double sum = 0;
                for (int64_t l = 0; l < k; l++)
                    sum += a[at(ta, p.lda, i, l)] * b[at(tb, p.ldb, l, j)];
                expected[i + j * p.ldc] = 2 * sum + beta * expected[i + j * p.ldc];
            }
        bool same = memcmp(c, expected, (size_t)(p.ldc * n) * sizeof *c) == 0;
        if (!same)
            printf("wrong: m=%ld n=%ld k=%ld %d%d beta=%g budget=%ld, %d blocks\n", (long)m, (long)n, (long)k, ta, tb, beta, (long)budget,
                   plan.blocks);
        CHECK(same);
        for (int x = 0; x < 3; x++)
            for (int i = 0; i < plan.buffers[x]; i++)
                free(buffer[x][i]);
        gg_plan_free(&plan);
    }
    free(a), free(b), free(c), free(expected);
}

/* Plans as for an H200, not carried out: for kernels that take about as long as the upload there are two turns, and each panel is multiplied at
 * once. So for a chain, each of whose turns is deep enough for any. */
static void check_large(bool ta, bool tb, bool by_chain)
{
    const int64_t n = 8192, first = by_chain ? n / 8 * 3 : n / 4;
    const struct gg_gemm p = {.type = GG_D, .a_kmajor = ta, .b_kmajor = !tb, .m = n, .n = n, .k = n, .lda = n, .ldb = n, .ldc = n, .alpha = 1};
    const struct gg_speed speed = {.up = 44e9, .down = 44e9, .memory = 4.8e12, .flops = by_chain ? 40e12 : 60e12,
                                   .sms = 132, .chain = by_chain ? 15.5e-3 : 0, .chain_tiles = 132};
    struct gg_plan plan;
    CHECK(gg_plan_make(&plan, &p, (int64_t)100 << 30, &speed));
    const int turn = plan.step_count / 2; /* both turns are cut alike */
    CHECK(plan.chain == by_chain && plan.blocks == 1 && plan.steps[0].depth.end == first && plan.steps[turn].depth.begin == first);
    for (int i = 0; i < plan.step_count; i++) {
        CHECK(i == 0 || plan.steps[i].loads == plan.steps[i - 1].loads + (i == turn ? 2 : 1));
        CHECK(plan.steps[i].first == (i < turn) && plan.steps[i].last == (i >= turn));
    }
    gg_plan_free(&plan);
}

/* For a chain that takes half as long as the upload three quarters of A come first, then B by panels, and the rest of A by panels. */
static void check_most_first(void)
{
    const int64_t n = 8192, most = n / 4 * 3;
    const struct gg_gemm p = {.type = GG_D, .b_kmajor = true, .m = n, .n = n, .k = n, .lda = n, .ldb = n, .ldc = n, .alpha = 1};
    const struct gg_speed speed = {.up = 49e9, .down = 49e9, .memory = 4.8e12, .flops = 55e12, .sms = 132, .chain = 12e-3, .chain_tiles = 132};
    struct gg_plan plan;
    CHECK(gg_plan_make(&plan, &p, (int64_t)100 << 30, &speed));
    CHECK(plan.chain && plan.blocks == 1 && plan.steps[0].rows.end == most && plan.steps[0].cols.end == 0);
    int64_t rows = 0, cols = 0;
    for (int i = 1; i < plan.step_count; i++) {
        const struct gg_range r = plan.steps[i].rows, c = plan.steps[i].cols;
        CHECK(cols < n ? r.begin == 0 && r.end == most && c.begin == cols : r.begin == rows && c.begin == 0 && c.end == n);
        rows = r.end, cols = c.end;
    }
    CHECK(rows == n && cols == n && plan.steps[plan.step_count - 1].rows.begin >= most);
    gg_plan_free(&plan);
}

/* A chain whose steps of few tiles take half as long gets panels of 256 columns, the first of 128, where others get 512 and 256. */
static void check_narrow(int few)
{
    const int64_t n = 4096, width = few ? 256 : 512;
    const struct gg_gemm p = {.type = GG_S, .b_kmajor = true, .m = n, .n = n, .k = n, .lda = n, .ldb = n, .ldc = n, .alpha = 1};
    const struct gg_speed speed = {.up = 50e9, .down = 50e9, .memory = 4.8e12, .flops = 58e12, .sms = 132, .chain = 0.7e-3, .chain_tiles = 132,
                                   .few_tiles = few};
    struct gg_plan plan;
    CHECK(gg_plan_make(&plan, &p, (int64_t)100 << 30, &speed));
    CHECK(plan.chain && plan.blocks == 1 && plan.step_count > 3);
    CHECK(plan.steps[1].cols.end == width / 2 && plan.steps[2].cols.end - plan.steps[2].cols.begin == width);
    gg_plan_free(&plan);
}

/* Tall and medium-sized products are uploaded panel by panel, each multiplied and stored as it arrives, in one turn. */
static void check_panels(enum gg_type type, int64_t m, int64_t n, int64_t k)
{
    const struct gg_gemm p = {.type = type, .b_kmajor = true, .m = m, .n = n, .k = k, .lda = m, .ldb = k, .ldc = m, .alpha = 1};
    const struct gg_speed speed = {.up = 47e9, .down = 45e9, .memory = 4.25e12, .flops = 30e12, .sms = 132};
    struct gg_plan plan;
    CHECK(gg_plan_make(&plan, &p, (int64_t)100 << 30, &speed));
    CHECK(plan.blocks == 1 && plan.step_count >= 3 && plan.steps[0].loads < plan.load_count);
    for (int i = 0; i < plan.step_count; i++)
        CHECK(plan.steps[i].last && plan.steps[i].depth.end - plan.steps[i].depth.begin == k);
    gg_plan_free(&plan);
}

/* An upload waits for every step that reads what it overwrites, if that step may still be running. */
static void check_reuse(const struct gg_plan *plan)
{
    for (int l = 0; l < plan->load_count; l++) {
        const struct gg_load *load = &plan->loads[l];
        if (load->operand == GG_C || load->after_block < 0)
            continue;
        int last[GG_RUN_STREAMS], done = 0;
        gg_plan_readers(plan, load->after_block, last);
        for (int i = 0; i < plan->block_end[load->after_block]; i++) /* all of these have been launched, so what they waited for has been stored */
            if (plan->steps[i].after_block >= 0 && plan->block_end[plan->steps[i].after_block] > done)
                done = plan->block_end[plan->steps[i].after_block];
        for (int i = done; i < plan->block_end[load->after_block]; i++) {
            const struct gg_step *s = &plan->steps[i];
            if ((load->operand == GG_A ? s->a_buffer : s->b_buffer) == load->buffer)
                CHECK(i <= last[s->stream]);
        }
    }
}

/* While a block is computed the next one is uploaded, because no load and no step of it waits for the block before; and the pieces of A and B are
 * visited to and fro: where another part of C begins, one of the two is still there. Returns how many elements of A and B are uploaded. */
static int64_t check_traffic(const struct gg_plan *plan)
{
    int64_t up = 0;
    for (int b = 0, l = 0, i = 0; b < plan->blocks; b++) {
        const bool fresh = plan->steps[i].first;
        bool loaded[3] = {false};
        for (; i < plan->block_end[b]; i++)
            CHECK(plan->steps[i].after_block < b - 1 || plan->steps[i].after_block < 0);
        for (; l < plan->steps[i - 1].loads; l++) {
            const struct gg_load *load = &plan->loads[l];
            CHECK(load->after_block < b - 1 || load->after_block < 0);
            loaded[load->operand] = true;
            up += load->operand == GG_C ? 0 : (load->rows.end - load->rows.begin) * (load->cols.end - load->cols.begin);
        }
        CHECK(b == 0 || !fresh || !loaded[GG_A] || !loaded[GG_B]);
    }
    return up;
}

static int64_t any(int64_t least, int64_t most) { return least + rand() % (most - least + 1); }

/* Products that do not fit, most with a short k, of which narrow blocks at the end have fewer steps than there are streams. */
static void check_many(void)
{
    int in_blocks = 0;
    for (int i = 0; i < 5000; i++) {
        struct gg_gemm p = {.type = i % 2 ? GG_D : GG_S, .a_kmajor = i & 2, .b_kmajor = i & 4, .m = any(1000, 9000), .n = any(1000, 9000),
                            .k = any(60, 400), .alpha = 1};
        p.lda = p.a_kmajor ? p.k : p.m, p.ldb = p.b_kmajor ? p.k : p.n, p.ldc = p.m;
        const struct gg_speed speed = {.up = 20e9, .down = 20e9, .memory = 0.6e12, .flops = 1e12, .sms = 8, .threads = 2};
        struct gg_plan plan;
        const int64_t budget = any(4 << 20, 40 << 20);
        if (!gg_plan_make(&plan, &p, budget, &speed))
            continue;
        CHECK((plan.blocks == 1) == (gg_plan_whole(&p) <= budget) && plan.bytes <= budget);
        in_blocks += plan.blocks > 2;
        check_reuse(&plan);
        check_traffic(&plan);
        gg_plan_free(&plan);
    }
    CHECK(in_blocks > 2500);
}

/* A product of several times the memory, with a deep k: of the shapes of blocks that fit, one that needs little upload. */
static void check_shape(bool beta)
{
    const int64_t n = 8192;
    const struct gg_gemm p = {.type = GG_D, .b_kmajor = true, .m = n, .n = n, .k = n, .lda = n, .ldb = n, .ldc = n, .alpha = 1, .beta = beta};
    const struct gg_speed speed = {.up = 44e9, .down = 44e9, .memory = 4.8e12, .flops = 60e12, .sms = 132};
    const double most[] = {1, 1.5, 2.5, 4}; /* times that A and B may cross the link, with 1/2, 1/4, 1/8, 1/16 of the memory */
    for (int i = 0; i < 4; i++) {
        struct gg_plan plan;
        CHECK(gg_plan_make(&plan, &p, 3 * n * n * 8 >> (i + 1), &speed));
        CHECK((double)check_traffic(&plan) <= most[i] * 2 * (double)(n * n));
        gg_plan_free(&plan);
    }
}

int main(void)
{
    check_many();
    check_shape(false);
    check_shape(true);
    const int64_t lots = 1 << 30, mb = 1 << 20;
    check_panels(GG_D, 100000, 64, 64);
    check_panels(GG_S, 64, 100000, 64);
    check_panels(GG_D, 768, 768, 768);
    check_panels(GG_S, 1152, 1152, 1152);
    for (int layout = 0; layout < 8; layout++) {
        chain = layout < 4 ? 0 : 1e-9;
        try(1, 1, 1, layout & 1, layout & 2, 0, lots, 1);
        try(300, 257, 100, layout & 1, layout & 2, 0.5, lots, 1);
        try(530, 700, 40, layout & 1, layout & 2, 0, 3 * mb, 2);
        try(600, 530, 700, layout & 1, layout & 2, -1, 4 * mb, 8);
        try(800, 64, 900, layout & 1, layout & 2, 1, 4 * mb, 3);
    }
    for (int layout = 0; layout < 4; layout++) {
        check_large(layout & 1, layout & 2, false);
        check_large(layout & 1, layout & 2, true);
        chain = 60e-6; /* half as long as the upload: most of A first */
        try(1100, 1300, 300, layout & 1, layout & 2, layout & 1, lots, 1);
        chain = 1e-4; /* longer than the upload: panels of both operands if B's panels are not whole lines */
        try(1100, 1300, 300, layout & 1, layout & 2, layout & 1, lots, 1);
        chain = 0;
        try(300, 1100, 20, layout & 1, layout & 2, 0, lots, 1); /* C is completed by columns */
    }
    chain = 1.5e-4; /* most of A first, of which there is a single row */
    try(1, 64, 32000, false, false, 0, lots, 1);
    chain = 0;
    check_most_first();
    check_narrow(0);
    check_narrow(66);
    try(200, 3000, 20, true, true, 1, lots, 1);
    chain = 0;
    try(64, 64, 100000, false, false, 0.5, 8 * mb, 8);
    try(100000, 8, 8, false, true, 0, 4 * mb, 3);
    try(1000, 1000, 1000, false, false, 0, mb / 4, 0); /* cannot be cut that small */
    printf("%s\n", failures ? "FAILED" : "ok");
    return failures != 0;
}

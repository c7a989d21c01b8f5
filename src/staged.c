/* staged.c — owns the path of operands in host memory, and the rule that a call which has started ends with the right C. plan.c says what to copy
 * and compute, copy.c moves bytes between pageable and page-locked memory, lane.c lends streams and memory; here the pieces meet.
 *
 * The calling thread conducts: it alone talks to the driver (whose locks make several threads slower than one), hands chunks to the copy threads,
 * enqueues what they have packed, launches steps whose loads are on their way, and fetches C strip by strip. A chunk of an operand passes
 * through a slot: packed by a copy thread, copied up; a chunk of C: copied down, unpacked by a copy thread. Short calls use none of this: see short.c.
 *
 * Failure. A chunk of C is committed when it has been unpacked into the caller's C. When the GPU fails, chunks still open are computed by the CPU
 * BLAS from the untouched operands; with none committed the whole call is declined. */
#include "staged.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "config.h"
#include "copy.h"
#include "kernels.h"
#include "lane.h"
#include "operand.h"
#include "plan.h"
#include "rates.h"
#include "real.h"
#include "short.h"
#include "tensor.h"
#include "trace.h"
#include "tune.h"

/* A rectangle of one load (of A, B or C) or of one step's C, by indices of op(A), op(B) or C in the whole problem. */
struct chunk {
    int load, step; /* one of them; the other -1 */
    int64_t rows0, rows1, cols0, cols1;
    int64_t index;  /* among the chunks of C */
};

/* What happens in a slot that this job holds. */
enum stage { PACKING, GOING_UP, COMING_DOWN, UNPACKING };

struct held {
    struct gg_slot *slot;
    enum stage stage;
    int64_t turn; /* of its copy among those of its direction */
    struct chunk chunk;
};

struct job {
    const struct gg_gemm *p;
    const struct gg_location *where;
    struct gg_lane *lane;
    struct gg_planned *planned;
    const struct gg_plan *plan; /* in it */
    char *buffer[3][2];
    int64_t slot_bytes;
    int threads; /* that copy, besides the caller */
    bool large; /* packed through the caches: see gg_copy.cached */
    gg_event *load_event, *step_event;
    int64_t *load_left;         /* chunks of a load not yet enqueued */
    int64_t *store_base;        /* index of a step's first chunk of C */
    int64_t *block_stores_left; /* chunks of C a block has still to bring down */
    char *committed;            /* by chunk of C */
    int64_t store_count, stores_left;
    int load, step, store;      /* next to claim a chunk of, to launch, to claim a chunk of C of */
    int64_t load_chunk, store_chunk;
    bool store_done;            /* step `store` has run */
    int waited[GG_RUN_STREAMS]; /* loads that a stream has been told to wait for */
    struct held held[GG_SLOTS];
    int held_count, going_up; /* of them, being packed or on their way up */
    int64_t enqueued[2], arrived[2]; /* copies between slots and the GPU, up and down: they end in the order they were enqueued */
    bool failed;
    const struct gg_kernel *kernel;
    struct gg_chain chain;      /* row NULL: none */
    int64_t split_m, split_n;   /* rows of A and columns of B that the chain has in pieces */
    struct gg_gemm resident;    /* the whole problem in GPU memory, for the chain */
    int64_t bytes_up, bytes_down;
};

enum { FIRST_LOADS = 3 }; /* for which the link waits */

/* ---- chunks ----------------------------------------------------------------------------------------------------------------------- */

/* How a rectangle is cut into chunks of at most `limit` bytes: whole lines while a line fits, else pieces of lines. */
struct grid {
    int64_t width, lines;             /* elements of a line; lines */
    int64_t chunk_width, chunk_lines;
    int64_t across, count;
};

static struct grid grid_of(int64_t width, int64_t lines, int64_t size, int64_t limit)
{
    struct grid q = {.width = width, .lines = lines};
    q.chunk_width = gg_min(width, limit / size);
    q.chunk_lines = q.chunk_width < width ? 1 : gg_min(lines, gg_max(1, limit / (width * size)));
    q.across = (width + q.chunk_width - 1) / q.chunk_width;
    q.count = q.across * ((lines + q.chunk_lines - 1) / q.chunk_lines);
    return q;
}

static int64_t extent(struct gg_range r)
{
    return r.end - r.begin;
}

/* The copy engine can reach it where it lies. C in page-locked memory only with beta = 0, when a failed tile can be computed again. */
static bool is_reachable(const struct job *job, enum gg_operand x)
{
    enum gg_place place = job->where[x].place;
    return place >= GG_PEER || (place == GG_PINNED && (x != GG_C || job->p->beta == 0));
}

/* A direct rectangle is moved whole by the copy engine. */
static bool is_direct(const struct job *job, enum gg_operand x, struct gg_range rows, struct gg_range cols)
{
    const int64_t width = extent(gg_second_contiguous(job->p, x) ? cols : rows) * (int64_t)gg_size(job->p->type);
    return is_reachable(job, x) && (job->where[x].place >= GG_PEER || !gg_is_scattered(gg_leading(job->p, x), width));
}

/* Chunks as large as a slot keep the link busiest, but the first of a load leaves when it has been packed and the last of C is unpacked when all else
 * has been done: so a small rectangle is cut in two, but for later loads, before which the link has enough to do. */
static struct grid chunks_of(const struct job *job, enum gg_operand x, struct gg_range rows, struct gg_range cols, bool later)
{
    const int64_t size = (int64_t)gg_size(job->p->type), least = 256 << 10;
    bool second = gg_second_contiguous(job->p, x);
    double bytes = (double)extent(rows) * (double)extent(cols) * (double)size;
    int64_t chunk = later ? job->slot_bytes : gg_min(job->slot_bytes, bytes < 1e12 ? gg_max((int64_t)bytes / 2, least) : INT64_MAX) & -8;
    return grid_of(second ? extent(cols) : extent(rows), second ? extent(rows) : extent(cols), size, is_direct(job, x, rows, cols) ? INT64_MAX / 16 : chunk);
}

static struct chunk chunk_at(const struct job *job, enum gg_operand x, struct gg_range rows, struct gg_range cols, bool later, int64_t i)
{
    struct grid q = chunks_of(job, x, rows, cols, later);
    int64_t w0 = i % q.across * q.chunk_width, l0 = i / q.across * q.chunk_lines;
    int64_t w1 = gg_min(w0 + q.chunk_width, q.width), l1 = gg_min(l0 + q.chunk_lines, q.lines);
    bool second = gg_second_contiguous(job->p, x);
    return (struct chunk){.load = -1,
                          .step = -1,
                          .rows0 = rows.begin + (second ? l0 : w0),
                          .rows1 = rows.begin + (second ? l1 : w1),
                          .cols0 = cols.begin + (second ? w0 : l0),
                          .cols1 = cols.begin + (second ? w1 : l1)};
}

/* ---- one chunk on its way ------------------------------------------------------------------------------------------------------ */

/* Where a chunk lies: in the caller's memory, and in the GPU's. */
struct sides {
    char *host, *device;
    int64_t host_pitch, device_pitch, width, lines; /* bytes, but for lines */
};

static struct sides sides_of(const struct job *job, const struct chunk *c)
{
    const struct gg_load *load = c->load >= 0 ? &job->plan->loads[c->load] : NULL;
    const struct gg_step *step = c->step >= 0 ? &job->plan->steps[c->step] : NULL;
    enum gg_operand x = load ? load->operand : GG_C;
    int64_t size = (int64_t)gg_size(job->p->type), ld = job->plan->ld[x];
    int64_t row = c->rows0 - (load ? load->rows : step->rows).begin, col = c->cols0 - (load ? load->cols : step->cols).begin;
    int64_t rows = c->rows1 - c->rows0, cols = c->cols1 - c->cols0;
    bool second = gg_second_contiguous(job->p, x);
    char *base = job->buffer[x][load ? load->buffer : step->c_buffer];
    return (struct sides){.host = gg_element(job->p, x, c->rows0, c->cols0),
                          .device = base + ((load ? load->offset : step->c_offset) + (second ? col + row * ld : row + col * ld)) * size,
                          .host_pitch = gg_leading(job->p, x),
                          .device_pitch = ld * size,
                          .width = (second ? cols : rows) * size,
                          .lines = second ? rows : cols};
}

static bool copy_up(struct job *job, const struct sides *s, const char *src, int64_t src_pitch)
{
    return gg_gpu_copy_2d(s->device, (size_t)s->device_pitch, src, (size_t)src_pitch, (size_t)s->width, (size_t)s->lines, job->lane->up);
}

static bool copy_down(struct job *job, const struct sides *s, char *dst, int64_t dst_pitch)
{
    return gg_gpu_copy_2d(dst, (size_t)dst_pitch, s->device, (size_t)s->device_pitch, (size_t)s->width, (size_t)s->lines, job->lane->down);
}

/* Gives the copy threads the chunk's way between the caller's memory and the slot. */
static void post(const struct job *job, struct held *h, const struct sides *s, bool pack)
{
    const int64_t piece = 128 << 10; /* 10 µs of a thread's work */
    struct gg_slot *slot = h->slot;
    struct gg_copy whole = {.src = pack ? s->host : slot->memory,
                            .dst = pack ? slot->memory : s->host,
                            .src_pitch = pack ? s->host_pitch : s->width,
                            .dst_pitch = pack ? s->width : s->host_pitch,
                            .width = s->width,
                            .lines = s->lines,
                            .cached = pack && job->large,
                            .left = &slot->left};
    h->stage = pack ? PACKING : UNPACKING;
    gg_copy_post(slot->copies, gg_copy_cut(&whole, slot->copies, GG_PIECES, piece), !pack); /* C: its bytes are still in the caches */
}

/* Marks the end of the slot's copy, just enqueued. */
static bool on_the_way(struct job *job, struct held *h, enum stage stage)
{
    h->stage = stage;
    h->turn = job->enqueued[stage == COMING_DOWN]++;
    return gg_gpu_event_record(h->slot->event, stage == COMING_DOWN ? job->lane->down : job->lane->up);
}

static struct held *hold(struct job *job, const struct chunk *c)
{
    struct gg_slot *slot = gg_slot_take(job->lane, job->held_count, c->step >= 0);
    if (!slot)
        return NULL;
    struct held *h = &job->held[job->held_count++];
    h->slot = slot;
    h->stage = c->load >= 0 ? GOING_UP : COMING_DOWN;
    h->turn = -1;
    h->chunk = *c;
    return h;
}

static void release(struct job *job, struct held *h)
{
    gg_slot_give(h->slot);
    *h = job->held[--job->held_count];
}

/* ---- steps ------------------------------------------------------------------------------------------------------------------------- */

/* Have all steps of this block been launched? -1 stands for no block. */
static bool block_launched(const struct job *job, int block)
{
    return block < 0 || job->step >= job->plan->block_end[block];
}

/* The plan is made for a chain: the operands lie on the GPU as one matrix each. */
static void prepare_chain(struct job *job)
{
    const struct gg_gemm *p = job->p;
    job->resident = *p;
    job->resident.a = job->buffer[GG_A][0], job->resident.lda = job->plan->ld[GG_A];
    job->resident.b = job->buffer[GG_B][0], job->resident.ldb = job->plan->ld[GG_B];
    job->resident.c = job->buffer[GG_C][0], job->resident.ldc = job->plan->ld[GG_C];
    const struct gg_step *first = job->plan->steps;
    struct gg_chain chain = {.dev = job->lane->dev, .stream = job->lane->run[0], .row = job->planned->chain.kernel};
    chain.strips = extent(first->rows) > 0 && extent(first->cols) > 0; /* else one operand comes first, all of it */
    chain.bytes = gg_chain_bytes(&chain, &job->resident);
    if (chain.bytes > GG_CHAIN_MOST)
        return;
    chain.memory = gg_gpu_workspace(chain.dev, chain.stream, chain.bytes);
    if (chain.memory)
        job->chain = chain;
}

/* A step of a chain: what has come since the step before is split, and the step's block of C multiplied, if it has one. */
static bool launch_block(struct job *job, const struct gg_step *s, bool first)
{
    const struct gg_gemm *q = &job->resident;
    const int64_t i = s->rows.begin, j = s->cols.begin, m = extent(s->rows), n = extent(s->cols);
    const int64_t new_m = gg_max(0, s->rows.end - job->split_m), new_n = gg_max(0, s->cols.end - job->split_n);
    job->split_m += new_m, job->split_n += new_n;
    return (!first || gg_chain_begin(&job->chain)) && gg_chain_block(&job->chain, q, i, j, m, n, new_m, new_n);
}

static bool launch_step(struct job *job, int i)
{
    if (i == 0 && job->plan->chain)
        prepare_chain(job); /* now that the first copies are on their way */
    const struct gg_step *s = &job->plan->steps[i];
    const struct gg_gemm *p = job->p;
    int64_t size = (int64_t)gg_size(p->type);
    gg_stream run = job->lane->run[job->chain.row ? 0 : s->stream];
    for (int *l = &job->waited[job->chain.row ? 0 : s->stream]; *l < s->loads; ++*l)
        if (!gg_gpu_stream_wait(run, job->load_event[*l]))
            return false;
    if (job->chain.row)
        return launch_block(job, s, i == 0) && gg_gpu_event_record(job->step_event[i], run);
    if (extent(s->rows) == 0 || extent(s->cols) == 0) /* there was no memory for the chain */
        return gg_gpu_event_record(job->step_event[i], run);
    if (s->after_step >= 0 && !gg_gpu_stream_wait(run, job->step_event[s->after_step]))
        return false;
    struct gg_gemm q = {.type = p->type,
                        .a_kmajor = p->a_kmajor,
                        .b_kmajor = p->b_kmajor,
                        .m = extent(s->rows),
                        .n = extent(s->cols),
                        .k = extent(s->depth),
                        .a = job->buffer[GG_A][s->a_buffer] + s->a_offset * size,
                        .b = job->buffer[GG_B][s->b_buffer] + s->b_offset * size,
                        .c = job->buffer[GG_C][s->c_buffer] + s->c_offset * size,
                        .lda = job->plan->ld[GG_A],
                        .ldb = job->plan->ld[GG_B],
                        .ldc = job->plan->ld[GG_C],
                        .alpha = p->alpha,
                        .beta = s->first ? p->beta : 1};
    struct gg_choice choice = gg_select(&q, &job->lane->dev->arch, gg_config()->kernel);
    if (!choice.kernel || !gg_launch(job->lane->dev, &choice, &q, run) || !gg_gpu_event_record(job->step_event[i], run))
        return false;
    job->kernel = choice.kernel;
    return true;
}

/* Launches every step whose loads are on their way and whose C has room. */
static bool launch_ready(struct job *job)
{
    int arrived = job->step ? job->plan->steps[job->step - 1].loads : 0;
    while (job->step < job->plan->step_count) {
        const struct gg_step *s = &job->plan->steps[job->step];
        while (arrived < s->loads && job->load_left[arrived] == 0)
            arrived++;
        if (arrived < s->loads || (s->after_block >= 0 && job->block_stores_left[s->after_block] > 0))
            return true;
        if (!launch_step(job, job->step))
            return false;
        job->step++;
    }
    return true;
}

/* One more chunk of a load is enqueued. */
static bool loaded(struct job *job, const struct chunk *c)
{
    job->bytes_up += (c->rows1 - c->rows0) * (c->cols1 - c->cols0) * (int64_t)gg_size(job->p->type);
    if (--job->load_left[c->load] > 0)
        return true;
    return gg_gpu_event_record(job->load_event[c->load], job->lane->up) && launch_ready(job);
}

/* One more chunk of C has arrived. */
static bool stored(struct job *job, const struct chunk *c)
{
    int block = 0;
    while (job->plan->block_end[block] <= c->step)
        block++;
    job->bytes_down += (c->rows1 - c->rows0) * (c->cols1 - c->cols0) * (int64_t)gg_size(job->p->type);
    job->committed[c->index] = 1;
    job->stores_left--;
    return --job->block_stores_left[block] > 0 || launch_ready(job);
}

/* ---- what can be done next. Each: 1 something was done, 0 nothing can be done now, -1 the GPU failed. ------------------------------------------- */

/* Begins the next chunk of a load, if there is one, a slot, and room in its buffer. Not too far ahead of the link: the same few slots are then still in the
 * processor's caches when they are filled again, and C waits for no long queue of copies (H200, slots of 4 MB, 5, 8, 12, all 32 of them: dgemm 4096 7.2, 6.3,
 * 7.2, 8.8 ms; sgemm 4096 3.40, 3.43, 3.42, 3.92; slots of 2 MB, 8 and 16: dgemm 4096 7.3 and 6.4, 1 MB 10.0 and 7.5). */
static int begin_load(struct job *job)
{
    const int ahead = 8;
    if (job->load == job->plan->load_count)
        return 0;
    const struct gg_load *load = &job->plan->loads[job->load];
    if (!block_launched(job, load->after_block) ||
        (load->operand == GG_C && load->after_block >= 0 && job->block_stores_left[load->after_block] > 0))
        return 0;
    const bool later = job->load >= FIRST_LOADS;
    struct chunk c = chunk_at(job, load->operand, load->rows, load->cols, later, job->load_chunk);
    c.load = job->load;
    bool direct = is_direct(job, load->operand, load->rows, load->cols);
    struct held *h = direct || job->going_up == ahead ? NULL : hold(job, &c);
    if (!direct && !h)
        return 0;
    job->going_up += !direct;
    if (job->load_chunk == 0 && load->after_block >= 0) { /* the steps that read the buffer's former contents come first */
        int end = job->plan->block_end[load->after_block];
        for (int i = load->after_block ? job->plan->block_end[load->after_block - 1] : 0; i < end; i++)
            if (!gg_gpu_stream_wait(job->lane->up, job->step_event[i]))
                return -1;
    }
    if (++job->load_chunk == chunks_of(job, load->operand, load->rows, load->cols, later).count) {
        job->load++;
        job->load_chunk = 0;
    }
    struct sides s = sides_of(job, &c);
    if (direct)
        return copy_up(job, &s, s.host, s.host_pitch) && loaded(job, &c) ? 1 : -1;
    post(job, h, &s, true);
    return 1;
}

/* Begins to fetch the next chunk of C, if its step has run and there is a slot. */
static int begin_store(struct job *job)
{
    while (job->store < job->step && !job->plan->steps[job->store].last)
        job->store++;
    if (job->store == job->step)
        return 0;
    if (!job->store_done) {
        int done = gg_gpu_event_done(job->step_event[job->store]);
        if (done <= 0)
            return done;
        job->store_done = true;
    }
    const struct gg_step *step = &job->plan->steps[job->store];
    struct chunk c = chunk_at(job, GG_C, step->rows, step->cols, false, job->store_chunk);
    c.step = job->store;
    c.index = job->store_base[job->store] + job->store_chunk;
    struct held *h = hold(job, &c);
    if (!h)
        return 0;
    if (++job->store_chunk == chunks_of(job, GG_C, step->rows, step->cols, false).count) {
        job->store++;
        job->store_chunk = 0;
        job->store_done = false;
    }
    struct sides s = sides_of(job, &c);
    bool direct = is_direct(job, GG_C, step->rows, step->cols);
    return copy_down(job, &s, direct ? s.host : h->slot->memory, direct ? s.host_pitch : s.width) && on_the_way(job, h, COMING_DOWN)
               ? 1
               : -1;
}

/* Moves what is in a slot to its next stage, if it is ready. */
static int advance(struct job *job, struct held *h)
{
    struct sides s;
    bool copied = gg_copy_made(&h->slot->left), down = h->stage == COMING_DOWN;
    switch (h->stage) {
    case PACKING:
        if (!copied)
            return 0;
        s = sides_of(job, &h->chunk);
        return copy_up(job, &s, h->slot->memory, s.width) && on_the_way(job, h, GOING_UP) && loaded(job, &h->chunk) ? 1 : -1;
    case UNPACKING:
        if (!copied)
            return 0;
        break;
    default:
        if (h->turn != job->arrived[down])
            return 0;
        int done = gg_gpu_event_done(h->slot->event);
        if (done <= 0)
            return done;
        job->arrived[down]++;
        const struct gg_step *step = down ? &job->plan->steps[h->chunk.step] : NULL;
        if (down && !is_direct(job, GG_C, step->rows, step->cols)) {
            s = sides_of(job, &h->chunk);
            post(job, h, &s, false);
            return 1;
        }
    }
    bool up = h->stage == GOING_UP, good = up || stored(job, &h->chunk);
    job->going_up -= up;
    release(job, h);
    return good ? 1 : -1;
}

/* One look at everything. */
static int round_of(struct job *job)
{
    int progress = 0, r;
    for (int i = job->held_count - 1; i >= 0; i--) { /* downwards: release() moves the last one into the gap */
        if ((r = advance(job, &job->held[i])) < 0)
            return -1;
        progress |= r;
    }
    while ((r = begin_store(job)) > 0)
        progress = 1;
    if (r < 0)
        return -1;
    for (int n = 0; n < 2 && (r = begin_load(job)) > 0; n++)
        progress = 1;
    return r < 0 ? -1 : progress;
}

/* Waits a little with the caller; asleep when there has been no news for a millisecond, because a long kernel runs, or for 0.2 ms with a copy in
 * another thread's hands, which may be queued for this processor. */
static void idle(const struct job *job, double since)
{
    double waited = gg_now() - since;
    bool copying = false;
    for (int i = 0; waited > 200e-6 && i < job->held_count && !copying; i++)
        copying = job->held[i].stage == PACKING || job->held[i].stage == UNPACKING;
    if (copying || waited > 1e-3)
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    else
        gg_relax();
}

/* The caller copies too when no copy thread is free; where there are none nobody else does. Not where they are many and at work, for then it would only come
 * late to the link (H200's host: with 5 and 6 of them dgemm 4096 took 7.2 and 6.1 ms with its help, 8.9 and 6.9 without; with 7 the same; with 8 sgemm 2048
 * 1.05 and 1.00), and not if the link could run dry meanwhile. */
static bool lend_a_hand(const struct job *job, double waited)
{
    const int many = 7;
    const double displaced = 300e-6; /* by others' threads */
    if (job->threads >= many && waited < displaced)
        return false;
    bool dry = job->enqueued[0] >= 8 && job->enqueued[0] - job->arrived[0] < 2 && job->load < job->plan->load_count;
    return !(dry && job->threads) && gg_copy_wants_help() && gg_copy_help();
}

/* Conducts the job to its end. On failure nothing of it is on its way any more. */
static void conduct(struct job *job)
{
    double news = gg_now();
    while (!job->failed && job->stores_left > 0) {
        int r = round_of(job);
        job->failed = r < 0;
        if (r != 0 || lend_a_hand(job, gg_now() - news))
            news = gg_now();
        else
            idle(job, news);
    }
    if (job->failed) {
        gg_gpu_settle(job->lane->up);
        for (int i = 0; i < GG_RUN_STREAMS; i++)
            gg_gpu_settle(job->lane->run[i]);
        gg_gpu_settle(job->lane->down);
    }
    while (job->held_count > 0) {
        struct held *h = &job->held[job->held_count - 1];
        bool copying = h->stage == PACKING || h->stage == UNPACKING;
        double since = gg_now();
        while (copying && !gg_copy_made(&h->slot->left))
            if (!gg_copy_help())
                gg_copy_patience(gg_now() - since);
        if (h->stage == UNPACKING) /* these bytes are in C, and right */
            job->committed[h->chunk.index] = 1;
        release(job, h);
    }
}

/* ---- long calls -------------------------------------------------------------------------------------------------------------------- */

static bool prepare(struct job *job)
{
    struct gg_lane *lane = job->lane;
    int64_t slot = gg_slot_bytes(lane), pitch[3];
    for (int x = GG_A; x <= GG_C; x++)
        pitch[x] = is_reachable(job, (enum gg_operand)x) ? gg_leading(job->p, (enum gg_operand)x) : 0;
    if (!slot || !(job->planned = gg_plan_of(lane, job->p, pitch)))
        return false;
    const struct gg_plan *plan = job->plan = &job->planned->plan;
    char *at = lane->arena;
    for (int x = GG_A; x <= GG_C; x++)
        for (int i = 0; i < plan->buffers[x]; i++) {
            job->buffer[x][i] = at;
            at += plan->buffer_size[x] * (int64_t)gg_size(job->p->type);
        }
    if (!gg_lane_grow_events(lane, plan->load_count + plan->step_count))
        return false;
    job->load_event = lane->events;
    job->step_event = lane->events + plan->load_count;
    job->slot_bytes = slot;
    job->load_left = malloc((size_t)plan->load_count * sizeof *job->load_left);
    job->store_base = malloc((size_t)plan->step_count * sizeof *job->store_base);
    job->block_stores_left = calloc((size_t)plan->blocks, sizeof *job->block_stores_left);
    if (!job->load_left || !job->store_base || !job->block_stores_left)
        return false;
    for (int i = 0; i < plan->load_count; i++)
        job->load_left[i] = chunks_of(job, plan->loads[i].operand, plan->loads[i].rows, plan->loads[i].cols, i >= FIRST_LOADS).count;
    for (int i = 0, b = 0; i < plan->step_count; i++) {
        const struct gg_step *s = &plan->steps[i];
        while (plan->block_end[b] <= i)
            b++;
        int64_t chunks = s->last ? chunks_of(job, GG_C, s->rows, s->cols, false).count : 0;
        job->store_base[i] = job->store_count;
        job->store_count += chunks;
        job->block_stores_left[b] += chunks;
    }
    job->stores_left = job->store_count;
    job->committed = calloc((size_t)job->store_count, 1);
    return job->committed != NULL;
}

/* The chunks of C that are still open, by the CPU. */
static void recover(const struct job *job, const void *caller)
{
    for (int i = 0; i < job->plan->step_count; i++) {
        const struct gg_step *s = &job->plan->steps[i];
        int64_t count = s->last ? chunks_of(job, GG_C, s->rows, s->cols, false).count : 0;
        for (int64_t j = 0; j < count; j++) {
            if (job->committed[job->store_base[i] + j])
                continue;
            struct chunk c = chunk_at(job, GG_C, s->rows, s->cols, false, j);
            struct gg_gemm q = *job->p;
            q.m = c.rows1 - c.rows0;
            q.n = c.cols1 - c.cols0;
            q.a = gg_element(job->p, GG_A, c.rows0, 0);
            q.b = gg_element(job->p, GG_B, 0, c.cols0);
            q.c = gg_element(job->p, GG_C, c.rows0, c.cols0);
            gg_real_gemm(&q, caller);
        }
    }
}

static bool long_call(struct gg_lane *lane, const struct gg_gemm *p, const struct gg_location where[3], const void *caller,
                      struct gg_outcome *outcome)
{
    const double m = (double)p->m, n = (double)p->n, k = (double)p->k, bytes = (double)gg_size(p->type) * (m * k + k * n + m * n);
    struct job job = {.p = p, .where = where, .lane = lane, .large = bytes > 75e6, .threads = gg_copy_start()};
    if (bytes < 150e6)
        job.threads = (int)gg_min(job.threads, GG_FEW_COPIERS);
    bool direct = is_reachable(&job, GG_A) && is_reachable(&job, GG_B) && is_reachable(&job, GG_C);
    gg_copy_begin(job.threads, !direct); /* to wake them takes 40 µs */
    bool ready = prepare(&job);
    if (ready)
        conduct(&job);
    gg_copy_end(job.threads);
    bool on_host = where[GG_A].place < GG_PEER && where[GG_B].place < GG_PEER && where[GG_C].place < GG_PEER;
    bool started = false;
    for (int64_t i = 0; ready && i < job.store_count; i++)
        started |= job.committed[i];
    bool complete = ready && !job.failed;
    outcome->reason = ready ? GG_GPU_ERROR : GG_NO_MEMORY;
    if (ready && job.failed && started && on_host) {
        recover(&job, caller);
        complete = outcome->recovered = true;
    }
    outcome->kernel = job.chain.row ? job.planned->chain.kernel : job.kernel;
    if (complete && !job.failed && job.chain.row && gg_watched())
        outcome->kernel = gg_served(lane->dev, &job.planned->chain, p, job.lane->run[0]);
    outcome->bytes_up = job.bytes_up;
    outcome->bytes_down = job.bytes_down;
    if (job.planned)
        gg_plan_done(job.planned);
    free(job.load_left);
    free(job.store_base);
    free(job.block_stores_left);
    free(job.committed);
    return complete;
}

/* ---- the stage ----------------------------------------------------------------------------------------------------------------------- */

bool gg_staged_gemm(struct gg_device *dev, const struct gg_gemm *p, const struct gg_location where[3], gg_stream after,
                    const void *caller, struct gg_outcome *outcome)
{
    outcome->reason = GG_GPU_ERROR;
    for (int x = GG_A; x <= GG_C; x++) { /* what other GPUs still have to write */
        if (where[x].place != GG_PEER)
            continue;
        struct gg_device *other = gg_gpu_device_of(&where[x]);
        if (!other || !gg_gpu_enter(other))
            return false;
        bool written = gg_gpu_stream_sync(GG_LEGACY_STREAM);
        gg_gpu_leave();
        if (!written)
            return false;
    }
    if (!gg_gpu_enter(dev))
        return false;
    bool complete = false;
    if (!after || gg_gpu_stream_sync(after)) {
        struct gg_lane *lane = gg_lane_take(dev);
        outcome->reason = GG_NO_MEMORY;
        if (lane && gg_gpu_state() != GG_GPU_READY) { /* what a GPU that failed meanwhile still writes into the lane, nobody knows */
            gg_lane_give(lane);
        } else if (lane) {
            bool host = where[GG_A].place <= GG_PINNED && where[GG_B].place <= GG_PINNED && where[GG_C].place <= GG_PINNED;
            complete = (host && gg_is_short(p) && gg_short_gemm(lane, p, caller, outcome)) ||
                       (gg_gpu_state() == GG_GPU_READY && long_call(lane, p, where, caller, outcome));
            gg_lane_give(lane);
        }
    }
    gg_gpu_leave();
    return complete;
}

void gg_staged_prepare(struct gg_device *dev)
{
    struct gg_lane *lane = gg_lane_take(dev);
    if (!lane)
        return;
    gg_slot_bytes(lane);
    gg_copy_start();
    if (!gg_rates_know(dev->name)) {
        gg_tune_link(lane);
        gg_rates_save();
    }
    gg_lane_give(lane);
}

/* conduct.c — carries out one long staged call (job.h). Only the calling thread talks to the driver, whose locks make several threads slower than
 * one. It hands chunks to the copy threads, enqueues what they have packed, launches steps whose loads are on their way, and downloads C strip by
 * strip. A chunk of an operand passes through a slot: a copy thread packs it, then it is copied up. A chunk of C is copied down into a slot and
 * unpacked by a copy thread; with that it is committed. Called by staged.c. */
#include "job.h"

#include <time.h>

#include "config.h"
#include "copy.h"
#include "kernels.h"
#include "operand.h"
#include "trace.h"

/* ---- one chunk in flight ------------------------------------------------------------------------------------------------------------ */

static int64_t bytes_of(const struct gg_job *job, const struct gg_chunk *c)
{
    return (c->rows1 - c->rows0) * (c->cols1 - c->cols0) * (int64_t)gg_size(job->p->type);
}

static bool copy_up(struct gg_job *job, const struct gg_sides *s, const char *src, int64_t src_pitch)
{
    return gg_gpu_copy_2d(s->device, (size_t)s->device_pitch, src, (size_t)src_pitch, (size_t)s->width, (size_t)s->lines, job->lane->up);
}

static bool copy_down(struct gg_job *job, const struct gg_sides *s, char *dst, int64_t dst_pitch)
{
    return gg_gpu_copy_2d(dst, (size_t)dst_pitch, s->device, (size_t)s->device_pitch, (size_t)s->width, (size_t)s->lines, job->lane->down);
}

/* Posts the copy between the caller's memory and the slot to the copy threads. */
static void post(const struct gg_job *job, struct gg_held *h, const struct gg_sides *s, bool pack)
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
    h->stage = pack ? GG_PACKING : GG_UNPACKING;
    gg_copy_post(slot->copies, gg_copy_cut(&whole, slot->copies, GG_PIECES, piece), !pack); /* C goes first: its bytes are still in the caches */
}

/* Records the end of the slot's copy, which has just been enqueued. */
static bool on_the_way(struct gg_job *job, struct gg_held *h, enum gg_stage stage)
{
    h->stage = stage;
    h->turn = job->enqueued[stage == GG_COMING_DOWN]++;
    return gg_gpu_event_record(h->slot->event, stage == GG_COMING_DOWN ? job->lane->down : job->lane->up);
}

static struct gg_held *hold(struct gg_job *job, const struct gg_chunk *c)
{
    struct gg_slot *slot = gg_slot_take(job->lane, job->held_count, c->step >= 0);
    if (!slot)
        return NULL;
    struct gg_held *h = &job->held[job->held_count++];
    h->slot = slot;
    h->stage = c->load >= 0 ? GG_GOING_UP : GG_COMING_DOWN;
    h->turn = -1;
    h->chunk = *c;
    return h;
}

static void release(struct gg_job *job, struct gg_held *h)
{
    gg_slot_give(h->slot);
    *h = job->held[--job->held_count];
}

/* ---- steps ------------------------------------------------------------------------------------------------------------------------- */

/* Have all steps of this block been launched? Block -1: yes. */
static bool block_launched(const struct gg_job *job, int block)
{
    return block < 0 || job->step >= job->plan->block_end[block];
}

/* The product of which a chain's step computes a block: all of C, from the operands in the arena, over the step's range of k. */
static struct gg_gemm product_of(const struct gg_job *job, const struct gg_step *s)
{
    const int64_t *ld = job->plan->ld, size = (int64_t)gg_size(job->p->type), at = s->depth.begin;
    struct gg_gemm q = *job->p;
    q.k = gg_extent(s->depth);
    q.a = job->buffer[GG_A][0] + at * (q.a_kmajor ? 1 : ld[GG_A]) * size, q.lda = ld[GG_A];
    q.b = job->buffer[GG_B][0] + at * (q.b_kmajor ? 1 : ld[GG_B]) * size, q.ldb = ld[GG_B];
    q.c = job->buffer[GG_C][0], q.ldc = ld[GG_C];
    q.beta = s->first ? q.beta : 1;
    return q;
}

/* For a plan made for a chain: gets the chain's workspace, which its turns use one after the other. */
static void prepare_chain(struct gg_job *job)
{
    const struct gg_step *first = job->plan->steps, *last = first + job->plan->step_count - 1;
    const struct gg_gemm of_first = product_of(job, first), of_last = product_of(job, last);
    struct gg_chain chain = {.dev = job->lane->dev, .stream = job->lane->run[0], .row = job->planned->chain.kernel, .panels = true};
    chain.strips = gg_extent(first->rows) < job->p->m && gg_extent(first->cols) < job->p->n; /* else one operand comes first, whole */
    const size_t one = gg_chain_bytes(&chain, &of_first), other = gg_chain_bytes(&chain, &of_last);
    chain.bytes = one > other ? one : other;
    if (chain.bytes > gg_chain_most(job->p->type))
        return;
    chain.memory = gg_gpu_workspace(chain.dev, chain.stream, chain.bytes);
    if (chain.memory)
        job->chain = chain;
}

/* A step of a chain: splits what has arrived since the step before, and multiplies the step's block of C, if it has one. */
static bool launch_block(struct gg_job *job, const struct gg_step *s, bool first)
{
    const struct gg_gemm q = product_of(job, s);
    if (s->depth.begin != job->turn_begin)
        job->split_m = job->split_n = 0, job->turn_begin = s->depth.begin;
    const int64_t i = s->rows.begin, j = s->cols.begin, m = gg_extent(s->rows), n = gg_extent(s->cols);
    const int64_t new_m = gg_max(0, s->rows.end - job->split_m), new_n = gg_max(0, s->cols.end - job->split_n);
    job->split_m += new_m, job->split_n += new_n;
    return (!first || gg_chain_begin(&job->chain)) && gg_chain_block(&job->chain, &q, i, j, m, n, new_m, new_n);
}

static bool launch_step(struct gg_job *job, int i)
{
    if (i == 0 && job->plan->chain)
        prepare_chain(job); /* only now, when the first copies are already in flight */
    const struct gg_step *s = &job->plan->steps[i];
    const struct gg_gemm *p = job->p;
    int64_t size = (int64_t)gg_size(p->type);
    gg_stream run = job->lane->run[job->chain.row ? 0 : s->stream];
    for (int *l = &job->waited[job->chain.row ? 0 : s->stream]; *l < s->loads; ++*l)
        if (!gg_gpu_stream_wait(run, job->load_event[*l]))
            return false;
    if (job->chain.row)
        return launch_block(job, s, i == 0) && gg_gpu_event_record(job->step_event[i], run);
    if (gg_extent(s->rows) == 0 || gg_extent(s->cols) == 0) /* a step that only splits, but there was no memory for the chain */
        return gg_gpu_event_record(job->step_event[i], run);
    struct gg_gemm q = {.type = p->type,
                        .a_kmajor = p->a_kmajor,
                        .b_kmajor = p->b_kmajor,
                        .m = gg_extent(s->rows),
                        .n = gg_extent(s->cols),
                        .k = gg_extent(s->depth),
                        .a = job->buffer[GG_A][s->a_buffer] + s->a_offset * size,
                        .b = job->buffer[GG_B][s->b_buffer] + s->b_offset * size,
                        .c = job->buffer[GG_C][s->c_buffer] + s->c_offset * size,
                        .lda = job->plan->ld[GG_A],
                        .ldb = job->plan->ld[GG_B],
                        .ldc = job->plan->ld[GG_C],
                        .alpha = p->alpha,
                        .beta = s->first ? p->beta : 1};
    struct gg_choice choice = gg_select(&q, &job->lane->dev->arch, gg_config()->kernel);
    if (!choice.kernel || !gg_launch(job->lane->dev, &choice, &q, run, false) || !gg_gpu_event_record(job->step_event[i], run))
        return false;
    job->kernel = choice.kernel;
    return true;
}

/* Launches every step whose loads are all enqueued and whose buffer of C is free. */
static bool launch_ready(struct gg_job *job)
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

/* Called when one more chunk of a load has been enqueued. */
static bool loaded(struct gg_job *job, const struct gg_chunk *c)
{
    job->bytes_up += bytes_of(job, c);
    if (--job->load_left[c->load] > 0)
        return true;
    return gg_gpu_event_record(job->load_event[c->load], job->lane->up) && launch_ready(job);
}

/* Called when one more chunk of C has reached the caller's memory. */
static bool stored(struct gg_job *job, const struct gg_chunk *c)
{
    int block = 0;
    while (job->plan->block_end[block] <= c->step)
        block++;
    job->bytes_down += bytes_of(job, c);
    job->committed[c->index] = 1;
    job->stores_left--;
    return --job->block_stores_left[block] > 0 || launch_ready(job);
}

/* ---- what can be done next. Each function returns 1: something was done; 0: nothing can be done now; -1: the GPU failed.
 * ------------------------ */

/* Makes the next upload wait for the steps that read its buffer's former contents, the last of which are those of `block`. */
static bool await_readers(const struct gg_job *job, int block)
{
    int last[GG_RUN_STREAMS];
    bool good = true;
    gg_plan_readers(job->plan, block, last);
    for (int stream = 0; good && stream < GG_RUN_STREAMS; stream++)
        good = last[stream] < 0 || gg_gpu_stream_wait(job->lane->up, job->step_event[last[stream]]);
    return good;
}

/* Starts the next chunk of a load, if there is one, a slot for it, and room in its buffer. It does not run more than `ahead` chunks ahead of the
 * link: so the same few slots are reused while they are in the processor's caches, and C does not wait behind a long queue of copies. (H200, slots of
 * 4 MB, 5, 8, 12, all 32 of them: dgemm 4096 7.2, 6.3, 7.2, 8.8 ms; sgemm 4096 3.40, 3.43, 3.42, 3.92; slots of 2 MB, 8 and 16: dgemm 4096 7.3 and
 * 6.4, 1 MB 10.0 and 7.5.) Nor does a call that packs past the caches have more than `most` bytes on the way: copy threads that run at full speed
 * leave the copy engine half of its share of the host's memory (H200's host, sgemm 2048: 26 GB/s while A and B were packed at 115, then 52). A direct
 * chunk must not overtake one that is still being packed, because the first step may be waiting for that. */
static int begin_load(struct gg_job *job)
{
    const int ahead = 8;
    const int64_t most = job->large ? INT64_MAX : 12 << 20;
    if (job->load == job->plan->load_count)
        return 0;
    const struct gg_load *load = &job->plan->loads[job->load];
    if (!block_launched(job, load->after_block) ||
        (load->operand == GG_C && load->after_block >= 0 && job->block_stores_left[load->after_block] > 0))
        return 0;
    struct gg_chunk c = gg_load_chunk(job, job->load, job->load_chunk);
    if (c.direct && job->packing > 0)
        return 0;
    struct gg_held *h = c.direct || job->going_up == ahead || job->bytes_going_up >= most ? NULL : hold(job, &c);
    if (!c.direct && !h)
        return 0;
    job->going_up += !c.direct;
    job->bytes_going_up += c.direct ? 0 : bytes_of(job, &c);
    job->packing += !c.direct;
    if (job->load_chunk == 0 && load->after_block >= 0 && !await_readers(job, load->after_block))
        return -1;
    if (++job->load_chunk == gg_load_chunks(job, job->load)) {
        job->load++;
        job->load_chunk = 0;
    }
    struct gg_sides s = gg_sides_of(job, &c);
    if (c.direct)
        return copy_up(job, &s, s.host, s.host_pitch) && loaded(job, &c) ? 1 : -1;
    post(job, h, &s, true);
    return 1;
}

/* May this part of the caller's C be written now (fresh.h)? */
static bool is_there(struct gg_job *job, const struct gg_sides *s)
{
    return gg_fresh_is_there(&job->fresh, s->host, s->host + (s->lines - 1) * s->host_pitch + s->width);
}

/* Starts the download of the next chunk of C, if its step has run and there is a slot. */
static int begin_store(struct gg_job *job)
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
    struct gg_chunk c = gg_store_chunk(job, job->store, job->store_chunk);
    struct gg_held *h = hold(job, &c);
    if (!h)
        return 0;
    if (++job->store_chunk == gg_store_chunks(job, job->store)) {
        job->store++;
        job->store_chunk = 0;
        job->store_done = false;
    }
    struct gg_sides s = gg_sides_of(job, &c);
    if (!c.direct)
        is_there(job, &s); /* if not, its pages are made while it comes down */
    return copy_down(job, &s, c.direct ? s.host : h->slot->memory, c.direct ? s.host_pitch : s.width) && on_the_way(job, h, GG_COMING_DOWN) ? 1 : -1;
}

/* Moves a held slot on to its next stage, if it is ready. */
static int advance(struct gg_job *job, struct gg_held *h)
{
    struct gg_sides s;
    bool copied = gg_copy_made(&h->slot->left), down = h->stage == GG_COMING_DOWN;
    switch (h->stage) {
    case GG_PACKING:
        if (!copied)
            return 0;
        job->packing--;
        s = gg_sides_of(job, &h->chunk);
        return copy_up(job, &s, h->slot->memory, s.width) && on_the_way(job, h, GG_GOING_UP) && loaded(job, &h->chunk) ? 1 : -1;
    case GG_CAME_DOWN:
        s = gg_sides_of(job, &h->chunk);
        if (!is_there(job, &s))
            return 0;
        post(job, h, &s, false);
        return 1;
    case GG_UNPACKING:
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
        if (down && !h->chunk.direct) {
            h->stage = GG_CAME_DOWN;
            advance(job, h);
            return 1;
        }
    }
    bool up = h->stage == GG_GOING_UP, good = up || stored(job, &h->chunk);
    job->going_up -= up;
    job->bytes_going_up -= up ? bytes_of(job, &h->chunk) : 0;
    release(job, h);
    return good ? 1 : -1;
}

/* Looks once at everything that could make progress. */
static int round_of(struct gg_job *job)
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

/* Waits a little before the next round. The thread sleeps instead of polling after a millisecond without progress, when a long kernel is running, or
 * after 0.2 ms if a copy thread has work, because that thread may be queued for this processor. */
static void idle(const struct gg_job *job, double since)
{
    double waited = gg_now() - since;
    bool copying = false;
    for (int i = 0; waited > 200e-6 && i < job->held_count && !copying; i++)
        copying = job->held[i].stage != GG_GOING_UP && job->held[i].stage != GG_COMING_DOWN;
    if (copying || waited > 1e-3)
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    else
        gg_relax();
}

/* The caller copies too when no copy thread is free; with no copy threads at all, nobody else does. It does not if there are many threads at work,
 * because it would then be late to feed the link (H200's host: with 5 and 6 of them dgemm 4096 took 7.2 and 6.1 ms with its help, 8.9 and 6.9
 * without; with 7 the same; with 8 sgemm 2048 1.05 and 1.00), nor if the link could run dry meanwhile. */
static bool lend_a_hand(const struct gg_job *job, double waited)
{
    const int many = 7;
    const double displaced = 300e-6; /* after so long without progress the copy threads have probably lost their processors to other threads */
    if (job->threads >= many && waited < displaced)
        return false;
    bool dry = job->enqueued[0] >= 8 && job->enqueued[0] - job->arrived[0] < 2 && job->load < job->plan->load_count;
    return !(dry && job->threads) && gg_copy_wants_help() && gg_copy_help();
}

/* If C is fresh, makes its pages, with more threads. Not where it is read, or where pages between its columns have nothing of it. */
static void find_fresh(struct gg_job *job)
{
    const struct gg_gemm *p = job->p;
    const int64_t pitch = gg_leading(p, GG_C), width = p->m * (int64_t)gg_size(p->type);
    if (p->beta != 0 || gg_is_reachable(job, GG_C) || pitch - width >= 4 << 10 ||
        !gg_fresh_begin(&job->fresh, gg_element(p, GG_C, 0, 0), (p->n - 1) * pitch + width))
        return;
    job->helpers = gg_copy_start() - job->threads;
    gg_copy_more(job->helpers);
}

void gg_conduct(struct gg_job *job)
{
    double news = gg_now();
    job->failed = round_of(job) < 0;
    find_fresh(job); /* while the first loads are being packed */
    while (!job->failed && job->stores_left > 0) {
        int r = round_of(job);
        job->failed = r < 0;
        gg_fresh_ahead(&job->fresh, (job->threads + job->helpers) * 2 / 5);
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
        struct gg_held *h = &job->held[job->held_count - 1];
        bool copying = h->stage == GG_PACKING || h->stage == GG_UNPACKING;
        if (copying)
            gg_copy_wait(&h->slot->left);
        if (h->stage == GG_UNPACKING) /* the unpacked bytes are in C and are correct */
            job->committed[h->chunk.index] = 1;
        release(job, h);
    }
    gg_fresh_end(&job->fresh);
}

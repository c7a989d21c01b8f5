/* staged.c — owns the path of operands in host memory: copy threads, page-locked rings, lanes (streams and GPU memory for one call at a time),
 * and the rule that a call which has started ends with the right C. plan.c says what to copy and compute; here it is done.
 *
 * Threads. Copy threads take chunks of at most one ring slot: loads (pack into the slot, copy up) and stores (copy down, unpack into C). Whoever
 * finishes the last chunk of a load launches the steps that became ready. One lock guards all jobs; no copy is made under it. The
 * calling thread sleeps until its job is done. Short calls use none of this: see short_call.
 *
 * Failure. A chunk of C is committed when it has been unpacked into the caller's C. When the GPU fails, chunks still open are computed by
 * the CPU BLAS from the untouched operands; with none committed the whole call is declined. */
#include "staged.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "kernels.h"
#include "plan.h"
#include "real.h"
#include "trace.h"

enum { MAX_THREADS = 32, SLOTS = 3, LANES = 16, RUN_STREAMS = 4 };

/* 4 MB slots filled by 8 threads feed PCIe 5 at 49 GB/s of 55; 1 MB slots 45, 256 KB slots 20 (H200, 2026-11). */
static const int64_t slot_limit = 4 << 20, slot_least = 64 << 10;
/* Up to here one thread copying, one transfer and no hand-over is faster than the pipeline. */
static const int64_t short_bytes = 2 << 20;

struct slot {
    char *memory;
    gg_event pending; /* the copy that uses it; NULL: free */
};

/* Streams, events and memory for one call at a time. Kept for ever, taken from a pool. */
struct lane {
    struct gg_device *dev;
    bool taken;
    gg_stream up, down, run[RUN_STREAMS];
    gg_event slot_events[MAX_THREADS][SLOTS];
    gg_event *events; /* for the loads and steps of a job */
    int event_count;
    char *arena; /* device memory for the buffers of a plan */
    int64_t arena_bytes;
    char *pinned; /* short_bytes, for short calls */
};

/* A rectangle of lines to move: `lines` of `width` elements. */
struct chunk {
    int load, step;             /* one of them; the other -1 */
    int64_t rows0, rows1, cols0, cols1; /* of op(A), op(B) or C, in the whole problem */
    int64_t index;              /* among the chunks of C */
};

struct job {
    struct job *next;
    const struct gg_gemm *p;
    const struct gg_location *where;
    struct lane *lane;
    struct gg_plan plan;
    char *buffer[3][2];
    int64_t chunk_bytes;
    gg_event *load_event, *step_event;
    int64_t *load_left;    /* chunks of a load not yet enqueued */
    int64_t *store_base;   /* index of a step's first chunk of C */
    char *committed;       /* by chunk of C */
    int64_t store_count, stores_left;
    int load, step, store;            /* next to claim a load chunk of, to launch, to claim a store chunk of */
    int64_t load_chunk, store_chunk;
    int64_t *block_stores_left;       /* chunks of C a block has still to bring down */
    int users;             /* threads at work on it */
    bool watched;          /* one of them waits for step `store` */
    bool failed, done;
    const struct gg_kernel *kernel;
    int64_t bytes_up, bytes_down;
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t work;     /* copy threads: there may be something to do */
    pthread_cond_t finished; /* callers: a job ended or a lane came free */
    struct job *jobs;
    int threads;
    int64_t slot_bytes;
    struct slot slots[MAX_THREADS][SLOTS];
    struct lane *lanes[LANES];
    int lane_count;
    int64_t arena_bytes; /* of all lanes */
} g = {.lock = PTHREAD_MUTEX_INITIALIZER, .work = PTHREAD_COND_INITIALIZER, .finished = PTHREAD_COND_INITIALIZER};

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* ---- operands as two-dimensional arrays -------------------------------------------------------------------------------------- */

/* Is the second index (columns) of this operand the contiguous one? */
static bool second_contiguous(const struct gg_gemm *p, enum gg_operand x)
{
    return x == GG_A ? p->a_kmajor : x == GG_B ? !p->b_kmajor : false;
}

static char *element(const struct gg_gemm *p, enum gg_operand x, int64_t row, int64_t col)
{
    const void *base = x == GG_A ? p->a : x == GG_B ? p->b : p->c;
    int64_t ld = x == GG_A ? p->lda : x == GG_B ? p->ldb : p->ldc;
    int64_t index = second_contiguous(p, x) ? col + row * ld : row + col * ld;
    return (char *)base + index * (int64_t)gg_size(p->type);
}

static int64_t leading(const struct gg_gemm *p, enum gg_operand x)
{
    return (x == GG_A ? p->lda : x == GG_B ? p->ldb : p->ldc) * (int64_t)gg_size(p->type);
}

static void copy_lines(char *dst, int64_t dst_pitch, const char *src, int64_t src_pitch, int64_t width, int64_t lines)
{
    if (dst_pitch == width && src_pitch == width) {
        memcpy(dst, src, (size_t)(width * lines));
        return;
    }
    for (int64_t i = 0; i < lines; i++)
        memcpy(dst + i * dst_pitch, src + i * src_pitch, (size_t)width);
}

/* How a rectangle is cut into chunks of at most `limit` bytes: whole lines while a line fits, else pieces of lines. */
struct grid {
    int64_t width, lines;             /* elements of a line; lines */
    int64_t chunk_width, chunk_lines;
    int64_t across, count;
};

static struct grid grid_of(int64_t width, int64_t lines, int64_t size, int64_t limit)
{
    struct grid q = {.width = width, .lines = lines};
    q.chunk_width = min64(width, limit / size);
    q.chunk_lines = q.chunk_width < width ? 1 : min64(lines, max64(1, limit / (width * size)));
    q.across = (width + q.chunk_width - 1) / q.chunk_width;
    q.count = q.across * ((lines + q.chunk_lines - 1) / q.chunk_lines);
    return q;
}

static int64_t extent(struct gg_range r)
{
    return r.end - r.begin;
}

/* A direct operand is moved whole by the copy engine. C in page-locked memory only with beta = 0, when a failed tile can be computed again. */
static bool is_direct(const struct job *job, enum gg_operand x)
{
    enum gg_place place = job->where[x].place;
    return place >= GG_PEER || (place == GG_PINNED && (x != GG_C || job->p->beta == 0));
}

static struct grid chunks_of(const struct job *job, enum gg_operand x, struct gg_range rows, struct gg_range cols)
{
    bool second = second_contiguous(job->p, x);
    return grid_of(second ? extent(cols) : extent(rows), second ? extent(rows) : extent(cols), (int64_t)gg_size(job->p->type),
                   is_direct(job, x) ? INT64_MAX / 16 : job->chunk_bytes);
}

static struct chunk chunk_at(const struct job *job, enum gg_operand x, struct gg_range rows, struct gg_range cols, int64_t i)
{
    struct grid q = chunks_of(job, x, rows, cols);
    int64_t w0 = i % q.across * q.chunk_width, l0 = i / q.across * q.chunk_lines;
    int64_t w1 = min64(w0 + q.chunk_width, q.width), l1 = min64(l0 + q.chunk_lines, q.lines);
    bool second = second_contiguous(job->p, x);
    return (struct chunk){.load = -1,
                          .step = -1,
                          .rows0 = rows.begin + (second ? l0 : w0),
                          .rows1 = rows.begin + (second ? l1 : w1),
                          .cols0 = cols.begin + (second ? w0 : l0),
                          .cols1 = cols.begin + (second ? w1 : l1)};
}

/* ---- moving one chunk. No lock held; the device is entered. --------------------------------------------------------------------- */

/* A free slot of this thread; waits for the copy that used it last. */
static struct slot *free_slot(struct slot *ring, int *turn)
{
    struct slot *slot = &ring[*turn];
    *turn = (*turn + 1) % SLOTS;
    if (slot->pending && !gg_gpu_event_sync(slot->pending))
        return NULL;
    slot->pending = NULL;
    return slot;
}

static bool load_chunk(struct job *job, const struct chunk *c, int thread, int *turn)
{
    const struct gg_load *load = &job->plan.loads[c->load];
    enum gg_operand x = load->operand;
    int64_t size = (int64_t)gg_size(job->p->type), ld = job->plan.ld[x];
    bool second = second_contiguous(job->p, x);
    int64_t row = c->rows0 - load->rows.begin, col = c->cols0 - load->cols.begin;
    char *dst = job->buffer[x][load->buffer] + (load->offset + (second ? col + row * ld : row + col * ld)) * size;
    const char *src = element(job->p, x, c->rows0, c->cols0);
    int64_t width = (second ? c->cols1 - c->cols0 : c->rows1 - c->rows0) * size;
    int64_t lines = second ? c->rows1 - c->rows0 : c->cols1 - c->cols0;
    if (is_direct(job, x))
        return gg_gpu_copy_2d(dst, (size_t)(ld * size), src, (size_t)leading(job->p, x), (size_t)width, (size_t)lines, job->lane->up);
    struct slot *slot = free_slot(g.slots[thread], turn);
    if (!slot)
        return false;
    copy_lines(slot->memory, width, src, leading(job->p, x), width, lines);
    gg_event event = job->lane->slot_events[thread][slot - g.slots[thread]];
    if (!gg_gpu_copy_2d(dst, (size_t)(ld * size), slot->memory, (size_t)width, (size_t)width, (size_t)lines, job->lane->up) ||
        !gg_gpu_event_record(event, job->lane->up))
        return false;
    slot->pending = event;
    return true;
}

static bool store_chunk(struct job *job, const struct chunk *c, int thread, int *turn)
{
    const struct gg_step *step = &job->plan.steps[c->step];
    int64_t size = (int64_t)gg_size(job->p->type), ld = job->plan.ld[GG_C];
    const char *src = job->buffer[GG_C][step->c_buffer] +
                      (step->c_offset + (c->rows0 - step->rows.begin) + (c->cols0 - step->cols.begin) * ld) * size;
    char *dst = element(job->p, GG_C, c->rows0, c->cols0);
    int64_t width = (c->rows1 - c->rows0) * size, lines = c->cols1 - c->cols0;
    struct slot *slot = free_slot(g.slots[thread], turn);
    if (!slot)
        return false;
    bool direct = is_direct(job, GG_C);
    gg_event event = job->lane->slot_events[thread][slot - g.slots[thread]];
    if (!gg_gpu_copy_2d(direct ? dst : slot->memory, (size_t)(direct ? leading(job->p, GG_C) : width), src, (size_t)(ld * size),
                        (size_t)width, (size_t)lines, job->lane->down) ||
        !gg_gpu_event_record(event, job->lane->down) || !gg_gpu_event_sync(event))
        return false;
    if (!direct)
        copy_lines(dst, leading(job->p, GG_C), slot->memory, width, width, lines);
    return true;
}

/* ---- what can be done next. Under g.lock. ------------------------------------------------------------------------------------------ */

/* Have all steps of this block been launched? -1 stands for no block. */
static bool block_launched(const struct job *job, int block)
{
    return block < 0 || job->step >= job->plan.block_end[block];
}

static bool launch_step(struct job *job, int i)
{
    const struct gg_step *s = &job->plan.steps[i];
    const struct gg_gemm *p = job->p;
    int64_t size = (int64_t)gg_size(p->type);
    gg_stream run = job->lane->run[s->stream % RUN_STREAMS];
    for (int l = i ? job->plan.steps[i - 1].loads : 0; l < s->loads; l++) /* every run stream waits for every load: a step uses earlier ones too */
        for (int r = 0; r < RUN_STREAMS; r++)
            if (!gg_gpu_stream_wait(job->lane->run[r], job->load_event[l]))
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
                        .lda = job->plan.ld[GG_A],
                        .ldb = job->plan.ld[GG_B],
                        .ldc = job->plan.ld[GG_C],
                        .alpha = p->alpha,
                        .beta = s->first ? p->beta : 1};
    struct gg_choice choice = gg_select(&q, &job->lane->dev->arch, gg_config()->kernel);
    if (!choice.kernel || !gg_launch(job->lane->dev, &choice, &q, run) || !gg_gpu_event_record(job->step_event[i], run))
        return false;
    job->kernel = choice.kernel;
    return true;
}

/* Launches every step whose loads are on their way and whose C has room. */
static void launch_ready(struct job *job)
{
    int arrived = job->step ? job->plan.steps[job->step - 1].loads : 0;
    while (!job->failed && job->step < job->plan.step_count) {
        const struct gg_step *s = &job->plan.steps[job->step];
        while (arrived < s->loads && job->load_left[arrived] == 0)
            arrived++;
        if (arrived < s->loads || (s->after_block >= 0 && job->block_stores_left[s->after_block] > 0))
            return;
        if (!launch_step(job, job->step))
            job->failed = true;
        else
            job->step++;
    }
}

enum claim { NOTHING, LOAD, STORE, WATCH };

/* The next piece of work of this job. Stores come first: they free nothing the loads wait for, but the end of the call does. */
static enum claim claim(struct job *job, struct chunk *c)
{
    if (job->failed)
        return NOTHING;
    while (job->store < job->step && !job->plan.steps[job->store].last)
        job->store++;
    bool launched = job->store < job->step;
    int done = launched ? gg_gpu_event_done(job->step_event[job->store]) : 0;
    if (done < 0) {
        job->failed = true;
        return NOTHING;
    }
    if (done) {
        const struct gg_step *s = &job->plan.steps[job->store];
        *c = chunk_at(job, GG_C, s->rows, s->cols, job->store_chunk);
        c->step = job->store;
        c->index = job->store_base[job->store] + job->store_chunk;
        if (++job->store_chunk == chunks_of(job, GG_C, s->rows, s->cols).count) {
            job->store++;
            job->store_chunk = 0;
        }
        return STORE;
    }
    if (job->load < job->plan.load_count) {
        const struct gg_load *load = &job->plan.loads[job->load];
        bool room = block_launched(job, load->after_block) &&
                    (load->operand != GG_C || load->after_block < 0 || job->block_stores_left[load->after_block] == 0);
        if (room) {
            if (job->load_chunk == 0 && load->after_block >= 0) { /* the steps that read the buffer's former contents come first */
                int end = job->plan.block_end[load->after_block];
                for (int i = load->after_block ? job->plan.block_end[load->after_block - 1] : 0; i < end; i++)
                    if (!gg_gpu_stream_wait(job->lane->up, job->step_event[i])) {
                        job->failed = true;
                        return NOTHING;
                    }
            }
            *c = chunk_at(job, load->operand, load->rows, load->cols, job->load_chunk);
            c->load = job->load;
            if (++job->load_chunk == chunks_of(job, load->operand, load->rows, load->cols).count) {
                job->load++;
                job->load_chunk = 0;
            }
            return LOAD;
        }
    }
    if (launched && !job->watched) {
        job->watched = true;
        c->step = job->store;
        return WATCH;
    }
    return NOTHING;
}

/* The block a step belongs to. */
static int block_of(const struct job *job, int step)
{
    int b = 0;
    while (job->plan.block_end[b] <= step)
        b++;
    return b;
}

/* Books what a thread has done. */
static void settle(struct job *job, enum claim what, const struct chunk *c, bool good)
{
    int64_t bytes = (c->rows1 - c->rows0) * (c->cols1 - c->cols0) * (int64_t)gg_size(job->p->type);
    if (what == WATCH)
        job->watched = false;
    if (!good) {
        job->failed = true;
    } else if (what == LOAD) {
        job->bytes_up += bytes;
        if (--job->load_left[c->load] == 0) {
            if (!gg_gpu_event_record(job->load_event[c->load], job->lane->up))
                job->failed = true;
            launch_ready(job);
        }
    } else if (what == STORE) {
        job->bytes_down += bytes;
        job->committed[c->index] = 1;
        job->stores_left--;
        if (--job->block_stores_left[block_of(job, c->step)] == 0)
            launch_ready(job);
    }
    job->done = job->failed || job->stores_left == 0;
}

/* ---- copy threads ------------------------------------------------------------------------------------------------------------------ */

static void *copy_thread(void *argument)
{
    int thread = (int)(intptr_t)argument, turn = 0;
    pthread_mutex_lock(&g.lock);
    for (;;) {
        struct job *job = NULL;
        struct chunk c = {0};
        enum claim what = NOTHING;
        for (struct job *j = g.jobs; j && what == NOTHING; j = j->next) {
            /* claim and settle talk to the driver, which wants the context of the job */
            if (j->done || !gg_gpu_enter(j->lane->dev))
                continue;
            what = claim(j, &c);
            job = j;
            if (j->failed && !j->done) {
                j->done = true;
                pthread_cond_broadcast(&g.finished);
            }
            if (what == NOTHING)
                gg_gpu_leave();
        }
        if (what == NOTHING) {
            pthread_cond_wait(&g.work, &g.lock);
            continue;
        }
        job->users++;
        pthread_mutex_unlock(&g.lock);
        bool good = what == LOAD    ? load_chunk(job, &c, thread, &turn)
                    : what == STORE ? store_chunk(job, &c, thread, &turn)
                                    : gg_gpu_event_sync(job->step_event[c.step]);
        pthread_mutex_lock(&g.lock);
        settle(job, what, &c, good);
        gg_gpu_leave();
        job->users--;
        pthread_cond_broadcast(&g.work);
        if (job->done)
            pthread_cond_broadcast(&g.finished);
    }
    return NULL;
}

/* Threads and their slots, once. Under g.lock. */
static void start_threads(void)
{
    if (g.threads)
        return;
    cpu_set_t cpus;
    int64_t wanted = gg_config()->threads, have = sched_getaffinity(0, sizeof cpus, &cpus) ? 1 : CPU_COUNT(&cpus);
    if (wanted == 0)
        wanted = min64(8, have);
    wanted = min64(wanted, MAX_THREADS);
    int64_t pinned = gg_config()->pinned_memory / 2; /* the other half is for the lanes of short calls */
    g.slot_bytes = min64(slot_limit, pinned / (wanted * SLOTS) & -4096);
    while (g.slot_bytes < slot_least && wanted > 1) {
        wanted--;
        g.slot_bytes = min64(slot_limit, pinned / (wanted * SLOTS) & -4096);
    }
    g.slot_bytes = max64(g.slot_bytes, slot_least);
    for (int i = 0; i < wanted; i++) {
        char *memory = gg_gpu_pinned_alloc((size_t)(SLOTS * g.slot_bytes));
        if (!memory)
            break;
        for (int s = 0; s < SLOTS; s++)
            g.slots[i][s].memory = memory + s * g.slot_bytes;
        if (!gg_thread_start(copy_thread, (void *)(intptr_t)i))
            break;
        g.threads++;
    }
}

/* ---- lanes ------------------------------------------------------------------------------------------------------------------------- */

static struct lane *make_lane(struct gg_device *dev)
{
    struct lane *lane = calloc(1, sizeof *lane);
    if (!lane)
        return NULL;
    lane->dev = dev;
    bool good = (lane->up = gg_gpu_stream_create()) && (lane->down = gg_gpu_stream_create());
    for (int i = 0; good && i < RUN_STREAMS; i++)
        good = (lane->run[i] = gg_gpu_stream_create());
    for (int i = 0; good && i < g.threads * SLOTS; i++)
        good = (lane->slot_events[i / SLOTS][i % SLOTS] = gg_gpu_event_create());
    lane->pinned = good ? gg_gpu_pinned_alloc((size_t)short_bytes) : NULL;
    if (lane->pinned)
        return lane;
    free(lane); /* what was created stays with the driver: this happens when the GPU is full or failing */
    return NULL;
}

/* A lane of this device for one call; waits while all are taken. NULL: none can be made. */
static struct lane *take_lane(struct gg_device *dev)
{
    pthread_mutex_lock(&g.lock);
    start_threads();
    struct lane *lane = NULL;
    for (;;) {
        bool any = false;
        for (int i = 0; i < g.lane_count && !lane; i++) {
            any |= g.lanes[i]->dev == dev;
            if (g.lanes[i]->dev == dev && !g.lanes[i]->taken)
                lane = g.lanes[i];
        }
        if (!lane && g.lane_count < LANES && (lane = make_lane(dev)))
            g.lanes[g.lane_count++] = lane;
        if (lane || !any)
            break;
        pthread_cond_wait(&g.finished, &g.lock);
    }
    if (lane)
        lane->taken = true;
    pthread_mutex_unlock(&g.lock);
    return lane;
}

static void give_lane(struct lane *lane)
{
    pthread_mutex_lock(&g.lock);
    lane->taken = false;
    pthread_cond_broadcast(&g.finished);
    pthread_mutex_unlock(&g.lock);
}

/* Bytes of GPU memory this lane may hold in all. Under g.lock. */
static int64_t allowance(const struct lane *lane)
{
    int64_t limit = gg_config()->gpu_memory;
    int64_t room = (int64_t)gg_gpu_free_memory() / 10 * 8;
    if (limit)
        room = min64(room, limit - g.arena_bytes);
    return lane->arena_bytes + max64(room, 0);
}

/* Makes the lane's arena at least `bytes`. Under g.lock. */
static bool grow_arena(struct lane *lane, int64_t bytes)
{
    if (lane->arena_bytes >= bytes)
        return true;
    gg_gpu_free(lane->arena);
    g.arena_bytes -= lane->arena_bytes;
    lane->arena_bytes = 0;
    lane->arena = gg_gpu_alloc((size_t)bytes);
    if (lane->arena)
        g.arena_bytes += lane->arena_bytes = bytes;
    return lane->arena != NULL;
}

static bool grow_events(struct lane *lane, int count)
{
    if (lane->event_count >= count)
        return true;
    gg_event *events = realloc(lane->events, (size_t)count * sizeof *events);
    if (!events)
        return false;
    lane->events = events;
    while (lane->event_count < count) {
        if (!(events[lane->event_count] = gg_gpu_event_create()))
            return false;
        lane->event_count++;
    }
    return true;
}

/* ---- short calls ------------------------------------------------------------------------------------------------------------------- */

/* Sizes of the packed operands of a short call: lines of a multiple of 128 bytes. */
static int64_t packed_bytes(const struct gg_gemm *p, enum gg_operand x, int64_t *ld, int64_t *width, int64_t *lines)
{
    int64_t rows = x == GG_B ? p->k : p->m, cols = x == GG_A ? p->k : p->n, size = (int64_t)gg_size(p->type);
    bool second = second_contiguous(p, x);
    *width = (second ? cols : rows) * size;
    *lines = second ? rows : cols;
    *ld = (*width + 127) & -128;
    double bytes = (double)*ld * (double)*lines;
    return bytes < 1e15 ? (int64_t)bytes : INT64_MAX / 4;
}

static int64_t short_need(const struct gg_gemm *p)
{
    int64_t need = 0, ld, width, lines;
    for (int x = GG_A; x <= GG_C; x++)
        need += packed_bytes(p, x, &ld, &width, &lines);
    return need;
}

/* The whole problem in one page-locked buffer: pack, one copy up, one kernel, one copy down, unpack, all by the calling thread. */
static bool short_call(struct lane *lane, const struct gg_gemm *p, struct gg_outcome *outcome)
{
    struct gg_gemm q = *p;
    const void **pointers[2] = {&q.a, &q.b};
    int64_t *leads[3] = {&q.lda, &q.ldb, &q.ldc};
    int64_t at = 0, up = 0, ld, width, lines;
    pthread_mutex_lock(&g.lock);
    bool room = grow_arena(lane, short_bytes);
    pthread_mutex_unlock(&g.lock);
    outcome->reason = GG_NO_MEMORY;
    if (!room)
        return false;
    for (int x = GG_A; x <= GG_C; x++) {
        int64_t bytes = packed_bytes(p, x, &ld, &width, &lines);
        if (x < GG_C)
            *pointers[x] = lane->arena + at;
        else
            q.c = lane->arena + at;
        *leads[x] = ld / (int64_t)gg_size(p->type);
        if (x < GG_C || p->beta != 0) {
            copy_lines(lane->pinned + at, ld, element(p, x, 0, 0), leading(p, x), width, lines);
            up = at + bytes;
        }
        if (x < GG_C)
            at += bytes;
    }
    int64_t down = packed_bytes(p, GG_C, &ld, &width, &lines);
    struct gg_choice choice = gg_select(&q, &lane->dev->arch, gg_config()->kernel);
    outcome->kernel = choice.kernel;
    outcome->reason = GG_GPU_ERROR;
    gg_stream stream = lane->run[0];
    if (!choice.kernel || !gg_gpu_copy(lane->arena, lane->pinned, (size_t)up, stream) || !gg_launch(lane->dev, &choice, &q, stream) ||
        !gg_gpu_copy(lane->pinned + at, lane->arena + at, (size_t)down, stream)) {
        (void)gg_gpu_stream_sync(stream); /* nothing may still write the buffers when the next call takes this lane */
        return false;
    }
    if (!gg_gpu_stream_sync(stream))
        return false;
    copy_lines(p->c, leading(p, GG_C), lane->pinned + at, ld, width, lines);
    outcome->bytes_up = up;
    outcome->bytes_down = down;
    return true;
}

/* ---- long calls -------------------------------------------------------------------------------------------------------------------- */

static bool prepare(struct job *job)
{
    struct lane *lane = job->lane;
    struct gg_plan *plan = &job->plan;
    int64_t budget = allowance(lane);
    bool planned = false;
    while (!(planned = gg_plan_make(plan, job->p, budget) && grow_arena(lane, plan->bytes)) && plan->bytes > 0) {
        budget = plan->bytes / 2; /* the driver could not give as much as it said was free */
        gg_plan_free(plan);
    }
    if (!planned)
        return false;
    char *at = lane->arena;
    for (int x = GG_A; x <= GG_C; x++)
        for (int i = 0; i < plan->buffers[x]; i++) {
            job->buffer[x][i] = at;
            at += plan->buffer_size[x] * (int64_t)gg_size(job->p->type);
        }
    if (!grow_events(lane, plan->load_count + plan->step_count))
        return false;
    job->load_event = lane->events;
    job->step_event = lane->events + plan->load_count;
    int64_t total = (int64_t)gg_size(job->p->type) * job->p->k * (job->p->m + job->p->n);
    job->chunk_bytes = min64(g.slot_bytes, max64(total / 32, 512 << 10)) & -8; /* enough chunks for all threads to start on */
    job->load_left = malloc((size_t)plan->load_count * sizeof *job->load_left);
    job->store_base = malloc((size_t)plan->step_count * sizeof *job->store_base);
    job->block_stores_left = calloc((size_t)plan->blocks, sizeof *job->block_stores_left);
    if (!job->load_left || !job->store_base || !job->block_stores_left)
        return false;
    for (int i = 0; i < plan->load_count; i++)
        job->load_left[i] = chunks_of(job, plan->loads[i].operand, plan->loads[i].rows, plan->loads[i].cols).count;
    for (int i = 0, b = 0; i < plan->step_count; i++) {
        const struct gg_step *s = &plan->steps[i];
        while (plan->block_end[b] <= i)
            b++;
        int64_t chunks = s->last ? chunks_of(job, GG_C, s->rows, s->cols).count : 0;
        job->store_base[i] = job->store_count;
        job->store_count += chunks;
        job->block_stores_left[b] += chunks;
    }
    job->stores_left = job->store_count;
    job->committed = calloc((size_t)job->store_count, 1);
    return job->committed != NULL;
}

/* Runs the job on the copy threads. Under g.lock, which it gives up while it sleeps. */
static void run(struct job *job)
{
    struct job **end = &g.jobs;
    while (*end)
        end = &(*end)->next;
    *end = job;
    pthread_cond_broadcast(&g.work);
    while (!job->done || job->users > 0)
        pthread_cond_wait(&g.finished, &g.lock);
    for (end = &g.jobs; *end != job; end = &(*end)->next)
        ;
    *end = job->next;
}

/* The chunks of C that are still open, by the CPU. */
static void recover(const struct job *job, const void *caller)
{
    for (int i = 0; i < job->plan.step_count; i++) {
        const struct gg_step *s = &job->plan.steps[i];
        int64_t count = s->last ? chunks_of(job, GG_C, s->rows, s->cols).count : 0;
        for (int64_t j = 0; j < count; j++) {
            if (job->committed[job->store_base[i] + j])
                continue;
            struct chunk c = chunk_at(job, GG_C, s->rows, s->cols, j);
            struct gg_gemm q = *job->p;
            q.m = c.rows1 - c.rows0;
            q.n = c.cols1 - c.cols0;
            q.a = element(job->p, GG_A, c.rows0, 0);
            q.b = element(job->p, GG_B, 0, c.cols0);
            q.c = element(job->p, GG_C, c.rows0, c.cols0);
            gg_real_gemm(&q, caller);
        }
    }
}

static bool long_call(struct lane *lane, const struct gg_gemm *p, const struct gg_location where[3], const void *caller,
                      struct gg_outcome *outcome)
{
    struct job job = {.p = p, .where = where, .lane = lane};
    pthread_mutex_lock(&g.lock);
    bool ready = g.threads > 0 && prepare(&job);
    if (ready) {
        run(&job);
        if (job.failed) { /* nothing may still write the arena or the slots when the next call takes this lane */
            (void)(gg_gpu_stream_sync(lane->up) && gg_gpu_stream_sync(lane->down));
            for (int i = 0; i < RUN_STREAMS; i++)
                (void)gg_gpu_stream_sync(lane->run[i]);
        }
    }
    pthread_mutex_unlock(&g.lock);
    bool on_host = where[GG_A].place < GG_PEER && where[GG_B].place < GG_PEER && where[GG_C].place < GG_PEER;
    bool started = false;
    for (int64_t i = 0; ready && i < job.store_count; i++)
        started |= job.committed[i];
    bool complete = ready && !job.failed;
    outcome->reason = ready ? GG_GPU_ERROR : GG_NO_MEMORY;
    if (ready && job.failed && started && on_host) {
        gg_warn("the GPU failed during a %cgemm; the CPU finishes it", p->type == GG_S ? 's' : 'd');
        recover(&job, caller);
        complete = outcome->recovered = true;
    }
    outcome->kernel = job.kernel;
    outcome->bytes_up = job.bytes_up;
    outcome->bytes_down = job.bytes_down;
    gg_plan_free(&job.plan);
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
        struct gg_device *other = where[x].place == GG_PEER ? gg_gpu_device_of(&where[x]) : NULL;
        if (other && gg_gpu_enter(other)) {
            (void)gg_gpu_stream_sync(GG_LEGACY_STREAM);
            gg_gpu_leave();
        }
    }
    if (!gg_gpu_enter(dev))
        return false;
    bool complete = false;
    if (!after || gg_gpu_stream_sync(after)) {
        struct lane *lane = take_lane(dev);
        outcome->reason = GG_NO_MEMORY;
        if (lane) {
            bool host = where[GG_A].place <= GG_PINNED && where[GG_B].place <= GG_PINNED && where[GG_C].place <= GG_PINNED;
            complete = host && short_need(p) <= short_bytes ? short_call(lane, p, outcome)
                                                            : long_call(lane, p, where, caller, outcome);
            give_lane(lane);
        }
    }
    gg_gpu_leave();
    return complete;
}

void gg_staged_prepare(struct gg_device *dev)
{
    struct lane *lane = take_lane(dev);
    if (lane)
        give_lane(lane);
}

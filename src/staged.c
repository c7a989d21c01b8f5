/* staged.c — owns the path of operands in host memory, and the rule that a call which has started ends with the right C. Short calls are short.c's. A
 * long one is prepared and ended here; plan.c says what to copy and compute, lane.c lends streams and memory, conduct.c carries it out, and turns.c
 * lets few of them run at one time.
 *
 * Failure. A chunk of C is committed when it has been unpacked into the caller's C. When the GPU fails, the CPU BLAS computes the chunks not yet
 * committed from the operands, which are untouched. If no chunk is committed, the whole call is declined. */
#include "staged.h"

#include <stdlib.h>
#include <string.h>

#include "copy.h"
#include "job.h"
#include "kernels.h"
#include "operand.h"
#include "rates.h"
#include "real.h"
#include "short.h"
#include "trace.h"
#include "tune.h"
#include "turns.h"

/* ---- long calls -------------------------------------------------------------------------------------------------------------------- */

static bool prepare(struct gg_job *job)
{
    struct gg_lane *lane = job->lane;
    int64_t slot = gg_slot_bytes(lane), pitch[3];
    for (int x = GG_A; x <= GG_C; x++)
        pitch[x] = gg_is_reachable(job, (enum gg_operand)x) ? gg_leading(job->p, (enum gg_operand)x) : 0;
    if (!slot || !(job->planned = gg_plan_of(lane, job->p, pitch, job->threads)))
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
        job->load_left[i] = gg_load_chunks(job, i);
    for (int i = 0, b = 0; i < plan->step_count; i++) {
        while (plan->block_end[b] <= i)
            b++;
        int64_t chunks = gg_store_chunks(job, i);
        job->store_base[i] = job->store_count;
        job->store_count += chunks;
        job->block_stores_left[b] += chunks;
    }
    job->stores_left = job->store_count;
    job->committed = calloc((size_t)job->store_count, 1);
    return job->committed != NULL;
}

static void compute(const struct gg_gemm *p, struct gg_range rows, struct gg_range cols, const void *caller)
{
    struct gg_gemm q = *p;
    q.m = gg_extent(rows);
    q.n = gg_extent(cols);
    q.a = gg_element(p, GG_A, rows.begin, 0);
    q.b = gg_element(p, GG_B, 0, cols.begin);
    q.c = gg_element(p, GG_C, rows.begin, cols.begin);
    gg_real_gemm(&q, caller);
}

/* Computes the chunks of C that are not committed on the CPU; all of a step's at once if none is, because a chunk may be a single column, for which
 * all of A is read. */
static void recover(const struct gg_job *job, const void *caller)
{
    for (int i = 0; i < job->plan->step_count; i++) {
        const int64_t count = gg_store_chunks(job, i);
        if (count > 0 && !memchr(job->committed + job->store_base[i], 1, (size_t)count)) {
            compute(job->p, job->plan->steps[i].rows, job->plan->steps[i].cols, caller);
            continue;
        }
        for (int64_t j = 0; j < count; j++) {
            const struct gg_chunk c = gg_store_chunk(job, i, j);
            if (!job->committed[c.index])
                compute(job->p, (struct gg_range){c.rows0, c.rows1}, (struct gg_range){c.cols0, c.cols1}, caller);
        }
    }
}

static double bytes_of(const struct gg_gemm *p)
{
    const double m = (double)p->m, n = (double)p->n, k = (double)p->k;
    return (double)gg_size(p->type) * (m * k + k * n + m * n);
}

/* The caches do not keep what such a call packs. */
static bool is_large(const struct gg_gemm *p) { return bytes_of(p) > 55e6; }

/* Calls of the size of short ones (short.c) are slower in turns. (H200, thousand calls a second of 8 threads, all at once and 3 at a time, the next in
 * line polling: sgemm 750 8.6 and 5.0, 850 6.4 and 4.2, dgemm 512 9.6 and 6.8.) */
static bool takes_turns(const struct gg_gemm *p) { return bytes_of(p) > GG_SHORT_BYTES; }

/* Ends the call's turn (turns.h), if it has one. */
static void end_turn(int *turn)
{
    if (*turn >= 0)
        gg_turn_end(*turn);
    *turn = -1;
}

static bool long_call(struct gg_lane *lane, const struct gg_gemm *p, const struct gg_location where[3], const void *caller, int *turn,
                      struct gg_outcome *outcome)
{
    struct gg_job job = {.p = p, .where = where, .lane = lane, .large = is_large(p), .threads = gg_copy_start()};
    if (bytes_of(p) < 150e6)
        job.threads = (int)gg_min(job.threads, GG_MORE_COPIERS);
    bool direct = gg_is_reachable(&job, GG_A) && gg_is_reachable(&job, GG_B) && gg_is_reachable(&job, GG_C);
    gg_copy_begin(job.threads, !direct); /* wakes them now, which takes 40 µs */
    bool ready = prepare(&job);
    if (ready)
        gg_conduct(&job);
    gg_copy_end(job.threads + job.helpers);
    bool on_host = where[GG_A].place < GG_PEER && where[GG_B].place < GG_PEER && where[GG_C].place < GG_PEER;
    bool started = false;
    for (int64_t i = 0; ready && i < job.store_count; i++)
        started |= job.committed[i];
    bool complete = ready && !job.failed;
    outcome->reason = ready ? GG_GPU_ERROR : GG_NO_MEMORY;
    if (ready && job.failed && started && on_host) {
        end_turn(turn); /* what follows may take the CPU minutes */
        recover(&job, caller);
        complete = outcome->recovered = true;
    }
    outcome->head = outcome->kernel = job.chain.row ? job.planned->chain.kernel : job.kernel;
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
    for (int x = GG_A; x <= GG_C; x++) { /* waits for pending writes of other GPUs to these operands */
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
        int turn = takes_turns(p) ? gg_turn_begin(dev->ordinal, bytes_of(p)) : -1; /* before it takes a lane and its share of the slots */
        struct gg_lane *lane = NULL;
        if (turn < 0 || gg_gpu_is_there(dev)) { /* still: it may have waited for long */
            lane = gg_lane_take(dev);
            outcome->reason = GG_NO_MEMORY;
        }
        if (lane && gg_gpu_state() != GG_GPU_READY) { /* the GPU failed meanwhile, and may still write into the lane */
            gg_lane_give(lane);
        } else if (lane) {
            bool host = where[GG_A].place <= GG_PINNED && where[GG_B].place <= GG_PINNED && where[GG_C].place <= GG_PINNED;
            complete = (host && gg_is_short(p) && gg_short_gemm(lane, p, caller, outcome)) ||
                       (gg_gpu_state() == GG_GPU_READY && long_call(lane, p, where, caller, &turn, outcome));
            gg_lane_give(lane);
        }
        end_turn(&turn);
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

size_t gg_staged_release(void) { return (size_t)gg_lane_release(); }

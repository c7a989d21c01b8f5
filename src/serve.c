/* serve.c — owns the course of one valid call through the stages: gather the facts, ask dispatch.c, carry the answer out. It decides nothing itself
 * except the shortcuts for tiny calls and for settled ones, and it calls no BLAS. Called by entry.c and api.c. */
#include "serve.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include "config.h"
#include "fp.h"
#include "gpugemm.h"
#include "operand.h"
#include "real.h"
#include "staged.h"

static struct {
    _Atomic int64_t lost;   /* nanoseconds that calls have lost because the GPU was not up */
    _Atomic bool warned;    /* about a call that the CPU finished; further ones are only counted */
    _Atomic int busy;       /* calls on host operands that are being served now, by either side */
    _Atomic unsigned begun; /* such calls so far */
    _Atomic int64_t queued; /* nanoseconds for which those on the GPU keep the link */
    _Atomic(const void *) runner; /* the thread that has last begun a run of settled calls; NULL: none since the last call that was not */
    struct failing {
        _Atomic int failures; /* of the GPU, in a row */
        _Atomic int left;     /* so many calls do not go there before the next that may */
        _Atomic bool memory;  /* it was memory that lacked */
    } failing[2][GG_SHAPES][GG_WORKS]; /* like calls on host operands */
} g;

static _Thread_local enum gpugemm_pointer_mode pointer_mode;
static _Thread_local enum gpugemm_precision precision;
static _Thread_local bool on_gpu;

/* Is this thread's call counted in g.busy? It still is if a signal handler has jumped out of it. Then which of g.begun it was. */
static _Thread_local bool counted;
static _Thread_local unsigned number;

static void count(void)
{
    if (!counted)
        atomic_fetch_add_explicit(&g.busy, 1, memory_order_relaxed);
    counted = true;
    number = atomic_fetch_add_explicit(&g.begun, 1, memory_order_relaxed) + 1;
}

static void uncount(void)
{
    if (counted)
        atomic_fetch_sub_explicit(&g.busy, 1, memory_order_relaxed);
    counted = false;
}

/* By like calls: why they go straight to the CPU, and how many more of this thread do. */
enum { RUN = 63, SETTLED_FROM = 4 /* gg_work of 2^18 */, SETTLED_WORKS = 8 /* up to 2^22 */ };
static _Thread_local struct settled {
    unsigned char left, reason;
} settled[2][GG_SHAPES][SETTLED_WORKS];

static struct settled *settled_like(const struct gg_gemm *p)
{
    const int work = gg_work(p) - SETTLED_FROM;
    return work >= 0 && work < SETTLED_WORKS ? &settled[p->type][gg_shape(p)][work] : NULL;
}

bool gg_is_settled(enum gg_type type, int64_t m, int64_t n, int64_t k, enum gg_reason *reason)
{
    if (((m - 2) | (n - 2) | (k - 1)) >> 19 != 0 || m * n * k >= 1 << 22) /* so gg_work's arithmetic is exact and raises no flag of the caller's */
        return false;
    struct settled *like = settled_like(&(struct gg_gemm){.type = type, .m = m, .n = n, .k = k});
    if (!like || like->left == 0)
        return false;
    like->left--;
    *reason = (enum gg_reason)like->reason;
    return true;
}

static void settle(const struct gg_gemm *p, enum gg_reason reason)
{
    struct settled *like = settled_like(p);
    if (!like)
        return;
    *like = (struct settled){RUN, (unsigned char)reason};
    atomic_store_explicit(&g.runner, &settled, memory_order_relaxed);
}

/* Settled calls are not counted in g.busy. Has another thread begun a run of them since this was asked last? */
static bool others_run(void)
{
    const void *runner = atomic_load_explicit(&g.runner, memory_order_relaxed);
    if (runner)
        atomic_store_explicit(&g.runner, NULL, memory_order_relaxed);
    return runner && runner != &settled;
}

/* The time of a call that runs beside others says nothing about its time alone, nor which side would be faster for all of them. So calls are tried
 * and learnt from that are alone when they begin (facts.may_try), and are the last to have begun when they end. */
static bool is_last(void) { return counted && number == atomic_load_explicit(&g.begun, memory_order_relaxed); }

enum gpugemm_pointer_mode gpugemm_set_pointer_mode(enum gpugemm_pointer_mode mode)
{
    const enum gpugemm_pointer_mode before = pointer_mode;
    if ((unsigned)mode <= GPUGEMM_POINTER_DEVICE)
        pointer_mode = mode;
    return before;
}

enum gpugemm_precision gpugemm_set_precision(enum gpugemm_precision wanted)
{
    const enum gpugemm_precision before = precision;
    if ((unsigned)wanted <= GPUGEMM_PRECISION_TF32)
        precision = wanted;
    return before;
}

enum gg_precision gg_precision_in_force(void)
{
    switch (precision) {
    case GPUGEMM_PRECISION_STRICT: return GG_STRICT;
    case GPUGEMM_PRECISION_FP32: return GG_FP32;
    case GPUGEMM_PRECISION_TF32: return GG_TF32;
    default: return gg_config()->precision;
    }
}

bool gg_on_gpu(void) { return on_gpu; }

double gg_clock(void)
{
    const struct gg_fp fp = gg_fp_ours();
    const double now = gg_now();
    gg_fp_write(fp);
    return now;
}

/* By what the CPU took, where that is known: its first products can take several times what is predicted. (H200's host, a PCA's of 510 x 2000 x 5000:
 * 105 to 112 ms, predicted 20 to 28; ten such calls came before the GPU was started.) */
static void note_loss(double seconds)
{
    if (seconds > 0)
        atomic_fetch_add_explicit(&g.lost, (int64_t)(1e9 * seconds), memory_order_relaxed);
}

void gg_conclude(struct gg_record *record, double start, double declined)
{
    const struct gg_fp fp = gg_fp_ours();
    const double took = declined > 0 && is_last() ? gg_now() - declined : 0;
    if (took > 0)
        gg_rates_see(GG_ON_CPU, record->p, record->model, took);
    if (record->reason == GG_STARTING || record->reason == GG_NOT_YET)
        note_loss((took > 0 ? took : record->predicted_cpu) - record->predicted_gpu);
    if (start > 0)
        record->seconds = gg_now() - start;
    uncount();
    gg_record(record);
    gg_fp_write(fp);
}

/* Finds where the operands are, and the device to serve them: the one that holds C, else B, else A, else the default one. Managed memory can be used
 * by any device, so one that holds another operand is preferred; but not where the call's stream is the program's (in_stream), which belongs to the
 * device on which C is used. */
static struct gg_device *locate(const struct gg_gemm *p, bool in_stream, struct gg_location where[3])
{
    const void *pointers[] = {gg_is_empty(p) ? NULL : p->a, gg_is_empty(p) ? NULL : p->b, p->c};
    const struct gg_location *home = NULL;
    for (int x = 0; x < 3; x++) {
        where[x] = (struct gg_location){.place = GG_HOST};
        if (pointer_mode != GPUGEMM_POINTER_HOST)
            where[x] = gg_gpu_locate(pointers[x]);
        if (where[x].place == GG_PINNED && !gg_gpu_is_whole(pointers[x], gg_span(p, (enum gg_operand)x))) /* registered in part, or in pieces */
            where[x].place = GG_HOST;
        if (where[x].place >= GG_MANAGED && (!home || where[x].place >= home->place || (in_stream && x == 2)))
            home = &where[x];
    }
    for (int x = 0; home && !home->context && x < 3; x++) /* memory of no context (stream-ordered) belongs to every context of its GPU */
        if (where[x].place == GG_DEVICE && where[x].ordinal == home->ordinal && where[x].context)
            home = &where[x];
    on_gpu = home != NULL;
    for (int x = 0; home && x < 3; x++) { /* a kernel can use an operand in place only on that operand's GPU, and aligned to its elements */
        bool here = where[x].ordinal == home->ordinal && (!where[x].context || where[x].context == home->context);
        if ((where[x].place == GG_DEVICE && !here) || (where[x].place >= GG_MANAGED && (uintptr_t)pointers[x] % gg_size(p->type)))
            where[x].place = GG_PEER;
    }
    return home ? gg_gpu_device_of(home) : gg_gpu_default();
}

struct gg_facts gg_host_facts(void)
{
    struct gg_device *dev = gg_gpu_default();
    return (struct gg_facts){.mode = gg_config()->mode,
                             .gpu = gg_gpu_state(),
                             .start_left = gg_gpu_start_left(),
                             .arch = dev ? &dev->arch : NULL,
                             .round_to_nearest = true,
                             .kernel = gg_config()->kernel,
                             .rates = gg_rates(),
                             .lost = 1e-9 * (double)atomic_load_explicit(&g.lost, memory_order_relaxed)};
}

static struct gg_device *gather(const struct gg_request *request, bool to_nearest, struct gg_location where[3], struct gg_facts *facts)
{
    const enum gg_gpu_state before = gg_gpu_state(); /* read first: the GPU may become ready between locate() and gg_host_facts() */
    struct gg_device *dev = locate(request->p, !request->wait, where);
    *facts = gg_host_facts();
    facts->arch = dev ? &dev->arch : NULL;
    if (facts->gpu == GG_GPU_READY && !dev)
        facts->gpu = before == GG_GPU_READY ? GG_GPU_NONE : before;
    facts->a = where[0].place;
    facts->b = where[1].place;
    facts->c = where[2].place;
    facts->round_to_nearest = to_nearest;
    const int busy = atomic_load_explicit(&g.busy, memory_order_relaxed);
    facts->may_try = !on_gpu && !others_run() && busy == 0;
    facts->queued = 1e-9 * (double)atomic_load_explicit(&g.queued, memory_order_relaxed);
    facts->callers = busy + 1;
    facts->cpu_threads = facts->queued > 0 && request->routine ? gg_real_threads(request->routine, request->p->type) : 0;
    return dev;
}

static struct failing *failing_of(const struct gg_gemm *p) { return &g.failing[p->type][gg_shape(p)][gg_work(p)]; }

/* Has the GPU failed in like calls, so that this one is not to try again? Then *reason says so. */
static bool is_failing(const struct gg_gemm *p, enum gg_reason *reason)
{
    struct failing *f = failing_of(p);
    if (atomic_load_explicit(&f->left, memory_order_relaxed) <= 0 || atomic_fetch_sub_explicit(&f->left, 1, memory_order_relaxed) <= 0)
        return false;
    *reason = atomic_load_explicit(&f->memory, memory_order_relaxed) ? GG_NO_MEMORY : GG_DEAD;
    return true;
}

/* A failed attempt costs more than the call. After each in a row the next is put off for twice as many like calls. */
static void note_outcome(const struct gg_gemm *p, bool good, enum gg_reason reason)
{
    const int most = 12;
    struct failing *f = failing_of(p);
    if (!good) {
        const int before = atomic_fetch_add_explicit(&f->failures, 1, memory_order_relaxed);
        atomic_store_explicit(&f->memory, reason == GG_NO_MEMORY, memory_order_relaxed);
        atomic_store_explicit(&f->left, 1 << (before < most ? before : most), memory_order_relaxed);
    } else if (atomic_load_explicit(&f->failures, memory_order_relaxed) > 0) {
        atomic_store_explicit(&f->failures, 0, memory_order_relaxed);
    }
}

/* A call on its way: what gather() and dispatch.c said. */
struct course {
    struct gg_device *dev;
    struct gg_location where[3];
    struct gg_decision d;
    bool alone; /* nothing else was being served when it came */
};

/* Gathers, decides, and starts the GPU or waits for it if that was the decision. False: nobody can serve the call, because what is in its operands is
 * known only when the graph runs into which its stream is captured. */
static bool decide(const struct gg_request *request, bool to_nearest, struct course *x)
{
    struct gg_facts facts;
    x->dev = gather(request, to_nearest, x->where, &facts);
    if (!on_gpu && !request->wait && !gg_gpu_await(request->stream)) {
        on_gpu = true;
        return false;
    }
    x->d = gg_dispatch(request->p, &facts);
    if (x->d.start)
        gg_gpu_start();
    if (x->d.wait > 0) {
        gg_gpu_wait(x->d.wait);
        x->dev = gather(request, to_nearest, x->where, &facts);
        x->d = gg_dispatch(request->p, &facts);
    }
    if (x->d.wait > 0) /* still to wait: it has waited in vain */
        x->d.reason = GG_STARTING;
    x->alone = facts.may_try;
    return true;
}

static void note_decision(const struct gg_gemm *p, const struct course *x, struct gg_record *record)
{
    const struct gg_decision *d = &x->d;
    record->reason = d->reason;
    record->predicted_cpu = d->seconds_cpu;
    record->predicted_gpu = d->seconds_gpu;
    record->model = x->alone && d->path == GG_PATH_CPU ? d->model_cpu : 0;
    if (!on_gpu || d->path == GG_PATH_STAGED)
        count();
    if (d->reason == GG_OK || d->reason == GG_TOO_SMALL)
        gg_rates_hold(d->path == GG_PATH_CPU ? GG_ON_CPU : GG_ON_GPU, p);
    if (d->settled)
        settle(p, d->reason);
}

/* A staged call, which keeps the link from others meanwhile. */
static bool serve_staged(const struct gg_request *request, const struct course *x, struct gg_outcome *outcome)
{
    const int64_t link = (int64_t)(1e9 * x->d.link);
    atomic_fetch_add_explicit(&g.queued, link, memory_order_relaxed);
    const bool complete = gg_staged_gemm(x->dev, request->p, x->where, on_gpu ? request->stream : NULL, request->caller, outcome);
    atomic_fetch_sub_explicit(&g.queued, link, memory_order_relaxed);
    return complete;
}

static bool serve_by_gpu(const struct gg_request *request, const struct course *x, struct gg_record *record)
{
    const struct gg_gemm *p = request->p;
    const bool staged = x->d.path == GG_PATH_STAGED, may_decline = staged && !on_gpu && x->d.reason != GG_GPU_FORCED;
    if (!x->dev || !x->d.choice.kernel || (staged && on_gpu && gg_gpu_is_captured(x->dev, request->stream)))
        return false;
    if (may_decline && is_failing(p, &record->reason))
        return false;
    struct gg_outcome outcome = {.reason = x->d.reason};
    const double start = x->alone && x->d.model_gpu > 0 ? gg_now() : 0;
    const bool complete =
        staged ? serve_staged(request, x, &outcome) : gg_device_gemm(x->dev, p, request->stream, request->wait, &outcome);
    if (outcome.recovered && gg_gpu_state() == GG_GPU_READY && !atomic_exchange(&g.warned, true)) /* otherwise gpu.c has reported it */
        gg_warn("the GPU failed during a %cgemm; the CPU finished it", p->type == GG_S ? 's' : 'd');
    if (may_decline)
        note_outcome(p, complete && !outcome.recovered, outcome.reason);
    if (!complete) {
        record->reason = gg_gpu_state() == GG_GPU_DEAD ? GG_GPU_ERROR : outcome.reason;
        return false;
    }
    if (start > 0 && is_last() && !outcome.recovered)
        gg_rates_see(GG_ON_GPU, p, x->d.model_gpu, gg_now() - start);
    record->path = x->d.path;
    record->kernel = outcome.kernel;
    record->uncertified = outcome.kernel != outcome.head ? outcome.head : NULL;
    record->bytes_up = outcome.bytes_up;
    record->bytes_down = outcome.bytes_down;
    record->recovered = outcome.recovered;
    return true;
}

static bool carry_out(const struct gg_request *request, struct gg_fp fp, struct gg_record *record)
{
    const struct gg_gemm *p = request->p;
    struct course x;
    if (p->m == 0 || p->n == 0) { /* wherever the operands are, which may all be NULL */
        record->reason = GG_EMPTY;
        return true;
    }
    if (!decide(request, gg_fp_rounds_to_nearest(fp), &x)) {
        record->reason = GG_IN_PLACE;
        return false;
    }
    note_decision(p, &x, record);
    if (x.d.path != GG_PATH_CPU)
        return serve_by_gpu(request, &x, record);
    if (x.d.reason == GG_EMPTY && !on_gpu) { /* otherwise beta = 1, and C stays as it is */
        gg_fp_write(fp);
        gg_real_scale(p);
    }
    return x.d.reason == GG_EMPTY;
}

bool gg_on_host(const void *a, const void *b, const void *c)
{
    return pointer_mode == GPUGEMM_POINTER_HOST || gg_gpu_on_host(a, b, c);
}

bool gg_serve(const struct gg_request *request, struct gg_record *record)
{
    const struct gg_gemm *p = request->p;
    record->p = p;
    record->type = p->type;
    on_gpu = false;
    const bool there = request->wait || !gg_gpu_loaded(); /* false: a stream may be writing operands in host memory */
    if (there && p->alpha != 0 && gg_is_tiny(p->m, p->n, p->k) && gg_config()->mode != GG_MODE_GPU && gg_on_host(p->a, p->b, p->c)) {
        record->reason = gg_config()->mode == GG_MODE_CPU ? GG_CPU_FORCED : GG_TOO_SMALL; /* as dispatch.c would say */
        return false;
    }
    const struct gg_fp fp = gg_fp_ours();
    int saved = errno, cancel;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel); /* a thread cancelled in here would keep what it has borrowed */
    struct gg_gemm precise = *p;
    precise.precision = gg_precision_in_force();
    struct gg_request with = *request;
    with.p = &precise;
    bool complete = carry_out(&with, fp, record);
    if (complete || on_gpu) /* else the CPU is yet to serve it */
        uncount();
    gg_fp_write(fp);
    pthread_setcancelstate(cancel, NULL);
    errno = saved;
    return complete;
}

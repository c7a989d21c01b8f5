/* dispatch.c — owns the decision who serves a call. Pure: it reads the problem and the facts, never memory, the clock, the environment or the GPU.
 * Called by serve.c for calls, by explain.c, info.c and tune.c for predictions; tested by tests/t_dispatch.c without a GPU. */
#include "dispatch.h"

#include "operand.h"

/* Similar calls stay on their side until the other is this much faster: moving between two equally fast sides gains nothing. */
static const double HYSTERESIS = 1.1;

/* Where the GPU would take this many times as long as similar calls are known to take on the CPU, that is settled for all of them, whose work differs
 * by up to 1.5. */
static const double CLEARLY = 2;

/* A side that no similar call has used yet is tried if it is predicted to take at most this much longer, once the side that is predicted to be faster
 * is known. */
static const double WORTH_TRYING = 3;

/* The GPU's copies alone, which are predicted well because the link has been measured, take this much longer than the CPU is known to take, and longer
 * than this in seconds: then trying the GPU is put off as if it were known. (H200's host, dgemm 8000 x 1 x 8000: four calls of 10 to 15 ms on the GPU
 * came before those of 5 on the CPU.) */
static const double BEHIND = 1.25, COSTLY = 1e-3;

/* The GPU is started when calls would have gained this share of what starting it takes. So a program with a single call need not start a GPU, and one
 * with many loses at most about as much again. */
static const double WORTH_STARTING = 0.75;

/* To wait for a GPU that is still off, a call must gain this multiple of its start: the process also stops it at its end, which takes half as long
 * (H200, 2026-11: 200 ms and 100). */
static const double WORTH_WAITING = 1.5;

/* How long similar calls took on each side, as multiples of the model's prediction; 0 or less where that is not known. */
struct seen {
    double cpu, gpu;
};

static struct seen seen_of(const struct gg_gemm *p, const struct gg_rates *rates)
{
    const int shape = gg_shape(p), work = gg_work(p);
    return (struct seen){(double)atomic_load_explicit(&rates->seen[GG_ON_CPU][p->type][shape][work], memory_order_relaxed),
                         (double)atomic_load_explicit(&rates->seen[GG_ON_GPU][p->type][shape][work], memory_order_relaxed)};
}

static double corrected(double model, double seen)
{
    return seen > 0 ? model * seen : model;
}

static struct gg_decision cpu(enum gg_reason reason)
{
    return (struct gg_decision){.path = GG_PATH_CPU, .reason = reason};
}

static struct gg_decision too_small(const struct gg_gemm *p, const struct gg_rates *rates)
{
    const struct seen seen = seen_of(p, rates);
    struct gg_decision d = cpu(GG_TOO_SMALL);
    d.model_cpu = gg_cpu_model(p, rates);
    d.seconds_cpu = corrected(d.model_cpu, seen.cpu);
    d.settled = seen.cpu > 0;
    return d;
}

/* Could any memory hold this operand? If not, byte counts overflow, and the later stages are not made for that. */
static bool is_possible(const struct gg_gemm *p, enum gg_operand x)
{
    return (double)gg_size(p->type) * (double)gg_ld(p, x) <= 0x1p61 && gg_span(p, x) < 0x1p60; /* nothing is ld away from the last line */
}

static bool are_possible(const struct gg_gemm *p)
{
    return is_possible(p, GG_C) && (gg_is_empty(p) || (is_possible(p, GG_A) && is_possible(p, GG_B)));
}

/* The reason why the GPU can serve no call, or GG_OK. */
static enum gg_reason obstacle(const struct gg_facts *f)
{
    switch (f->gpu) {
    case GG_GPU_NONE: return GG_NO_GPU;
    case GG_GPU_DEAD: return GG_DEAD;
    case GG_GPU_FORKED: return GG_FORKED;
    default: return GG_OK;
    }
}

/* No CPU can read the operands, of which the GPU can use all in place, or some: the GPU or nobody. */
static struct gg_decision on_gpu_only(const struct gg_gemm *p, const struct gg_facts *f, bool all)
{
    const bool up = f->gpu == GG_GPU_READY;
    struct gg_decision d = {.path = all ? GG_PATH_DEVICE : GG_PATH_STAGED, .reason = obstacle(f)};
    d.start = !up && d.reason == GG_OK;
    d.wait = d.start ? GG_PATIENCE : 0;
    if (up)
        d.choice = gg_select(p, f->arch, f->kernel);
    if (d.reason == GG_OK)
        d.reason = up && !d.choice.kernel ? GG_NO_KERNEL : GG_IN_PLACE;
    return d;
}

static bool is_clear(const struct gg_decision *d, struct seen seen)
{
    return seen.cpu > 0 && d->seconds_gpu >= CLEARLY * d->seconds_cpu;
}

/* The GPU is up: the side that is predicted to be faster, or a try of the other. copies: how long the GPU's copies alone would take, by the model. */
static void choose_side(struct gg_decision *d, const struct gg_gemm *p, const struct gg_facts *f, struct seen seen, double copies)
{
    const struct gg_rates *rates = f->rates;
    const signed char held = atomic_load_explicit(&rates->held[p->type][gg_shape(p)][gg_work(p)], memory_order_relaxed);
    bool gpu = d->seconds_gpu < d->seconds_cpu;
    const double cost = gpu ? d->seconds_cpu / d->seconds_gpu : d->seconds_gpu / d->seconds_cpu;
    if (held && cost < HYSTERESIS)
        gpu = held == 1 + GG_ON_GPU;
    const bool known = (gpu ? seen.gpu : seen.cpu) > 0, other_known = (gpu ? seen.cpu : seen.gpu) > 0;
    const bool behind = !gpu && known && copies > COSTLY && copies > BEHIND * d->seconds_cpu;
    const bool doubtful = gpu ? gg_rates_doubtful(rates, GG_ON_CPU, p, d->model_cpu, d->seconds_cpu)
                              : gg_rates_doubtful(rates, GG_ON_GPU, p, d->model_gpu, d->seconds_gpu);
    const bool again = doubtful && held == (gpu ? 1 + GG_ON_GPU : 1 + GG_ON_CPU), first = known && cost < WORTH_TRYING;
    const bool trial = f->may_try && (other_known || behind ? again : first);
    d->path = gpu != trial ? GG_PATH_STAGED : GG_PATH_CPU;
    d->reason = trial ? GG_TRIAL : gpu ? GG_OK : GG_TOO_SMALL;
    d->settled = d->reason == GG_TOO_SMALL && is_clear(d, seen);
}

/* Others keep the link busy. Where the CPU BLAS has one thread, each caller has a processor of its own, but all share the link. So a part of them
 * go there, until those who are left take no longer. (A team of threads serves one caller after the other, and gains nothing beside the GPU:
 * bench/results/beside-2026-11-30.txt, run 10.) */
static void choose_beside(struct gg_decision *d, const struct gg_gemm *p, const struct gg_facts *f)
{
    if (d->reason != GG_OK || f->queued <= 0 || f->cpu_threads != 1)
        return;
    if (f->queued + d->link > d->seconds_gpu)
        d->seconds_gpu = f->queued + d->link;
    d->seconds_cpu = gg_cpu_model_single(p, f->rates, f->callers);
    if (d->seconds_cpu < d->seconds_gpu) {
        d->path = GG_PATH_CPU;
        d->reason = GG_BESIDE;
    }
}

/* The GPU is not up: is it worth starting, and waiting for? */
static void choose_start(struct gg_decision *d, const struct gg_gemm *p, const struct gg_facts *f, struct seen seen)
{
    const double gain = d->seconds_cpu - d->seconds_gpu;
    const bool worth_waiting = gain > f->start_left * (f->gpu == GG_GPU_OFF ? WORTH_WAITING : 1);
    d->wait = worth_waiting ? gain : 0; /* not longer: the GPU may come later than expected */
    /* Against the GPU speaks only what an earlier process saw, or a model of it that no call has confirmed. A try of it includes its start. */
    const bool unsure = d->model_gpu < d->seconds_cpu * (seen.gpu > 0 ? 1 : WORTH_TRYING);
    d->start = worth_waiting || (gain > 0 && f->lost + gain > f->rates->start * WORTH_STARTING) ||
               (gain <= 0 && unsure && gg_rates_doubtful(f->rates, GG_ON_GPU, p, d->model_gpu, d->seconds_gpu + f->start_left));
    if (worth_waiting)
        return;
    d->path = GG_PATH_CPU;
    d->reason = gain <= 0 ? GG_TOO_SMALL : d->start || f->gpu == GG_GPU_STARTING ? GG_STARTING : GG_NOT_YET;
    d->settled = !d->start && is_clear(d, seen);
}

/* Operands that either side can serve, with a GPU that is there, in a call that may go to it. */
static struct gg_decision on_either(const struct gg_gemm *p, const struct gg_facts *f)
{
    const struct gg_rates *rates = f->rates;
    const bool up = f->gpu == GG_GPU_READY, forced = f->mode == GG_MODE_GPU;
    const bool pinned[] = {f->a == GG_PINNED, f->b == GG_PINNED, f->c == GG_PINNED};
    const struct seen seen = seen_of(p, rates);
    struct gg_decision d = {.path = GG_PATH_STAGED, .reason = GG_OK};
    d.model_cpu = gg_cpu_model(p, rates);
    d.seconds_cpu = corrected(d.model_cpu, seen.cpu);
    const double faster = seen.gpu > 0 && seen.gpu < 1 ? seen.gpu : 1; /* slower does not count here, for nothing that follows could put it right */
    const double copies = gg_staged_model(p, rates, pinned, 0) * faster;
    if (!forced && copies >= WORTH_TRYING * d.seconds_cpu) /* too long, whichever kernel */
        return too_small(p, rates);
    if (up) {
        d.choice = gg_select_staged(p, f->arch, f->kernel);
        if (!d.choice.kernel)
            return cpu(GG_NO_KERNEL);
    }
    const double kernel = up ? d.choice.seconds : 2.0 * (double)p->m * (double)p->n * (double)p->k / rates->flops[p->type];
    d.model_gpu = gg_staged_model(p, rates, pinned, kernel);
    d.seconds_gpu = corrected(d.model_gpu, seen.gpu);
    d.link = gg_link_model(p, rates);
    if (forced) {
        d.reason = GG_GPU_FORCED;
        d.start = !up;
        d.wait = d.start ? GG_PATIENCE : 0;
    } else if (up) {
        choose_side(&d, p, f, seen, copies);
        choose_beside(&d, p, f);
    } else {
        choose_start(&d, p, f, seen);
    }
    return d;
}

struct gg_decision gg_dispatch(const struct gg_gemm *p, const struct gg_facts *f)
{
    const bool empty = gg_is_empty(p);
    const enum gg_place a = empty ? f->c : f->a, b = empty ? f->c : f->b, c = f->c; /* of an empty product A and B are not read */
    const bool all = a >= GG_MANAGED && b >= GG_MANAGED && c >= GG_MANAGED, any = a >= GG_PEER || b >= GG_PEER || c >= GG_PEER;
    if (p->m == 0 || p->n == 0 || (empty && p->beta == 1 && any))
        return cpu(GG_EMPTY);
    if (!are_possible(p))
        return cpu(GG_TOO_LARGE);
    if (empty && c == GG_PEER) /* not aligned to its elements: no kernel can scale it, and with nothing to multiply it is not staged */
        return cpu(GG_NO_KERNEL);
    if (any)
        return on_gpu_only(p, f, all);
    if (empty)
        return cpu(GG_EMPTY);
    if (f->mode == GG_MODE_CPU)
        return cpu(GG_CPU_FORCED);
    if (f->mode == GG_MODE_AUTO && gg_is_tiny(p->m, p->n, p->k))
        return too_small(p, f->rates);
    if (obstacle(f) != GG_OK)
        return (struct gg_decision){.path = GG_PATH_CPU, .reason = obstacle(f), .settled = true};
    if (!f->round_to_nearest)
        return cpu(GG_ROUNDING);
    return on_either(p, f);
}

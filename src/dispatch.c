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

/* How long similar calls took, as a multiple of the model's prediction; 0 or less if not known. */
static double seen(const struct gg_gemm *p, const struct gg_rates *rates, int who)
{
    return (double)atomic_load_explicit(&rates->seen[who][p->type][gg_shape(p)][gg_work(p)], memory_order_relaxed);
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
    struct gg_decision d = cpu(GG_TOO_SMALL);
    d.model_cpu = gg_cpu_model(p, rates);
    d.seconds_cpu = corrected(d.model_cpu, seen(p, rates, GG_ON_CPU));
    d.settled = seen(p, rates, GG_ON_CPU) > 0;
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

struct gg_decision gg_dispatch(const struct gg_gemm *p, const struct gg_facts *f)
{
    bool resident[3] = {f->a >= GG_MANAGED, f->b >= GG_MANAGED, f->c >= GG_MANAGED};
    bool empty = gg_is_empty(p);
    if (empty) /* A and B are not read: where they live does not matter */
        resident[0] = resident[1] = resident[2];
    bool all = resident[0] && resident[1] && resident[2];
    bool any = f->c >= GG_PEER || (!empty && (f->a >= GG_PEER || f->b >= GG_PEER));

    if (p->m == 0 || p->n == 0 || (empty && p->beta == 1 && any))
        return cpu(GG_EMPTY);
    if (!are_possible(p))
        return cpu(GG_TOO_LARGE);
    if (empty && f->c == GG_PEER) /* not aligned to its elements: no kernel can scale it, and with nothing to multiply it is not staged */
        return cpu(GG_NO_KERNEL);
    struct gg_decision d = {.path = GG_PATH_STAGED, .reason = obstacle(f)};
    bool up = f->gpu == GG_GPU_READY;

    if (any) { /* no CPU can read the operands: the GPU or nobody */
        d.path = all ? GG_PATH_DEVICE : GG_PATH_STAGED;
        d.start = !up && d.reason == GG_OK;
        d.wait = d.start ? GG_PATIENCE : 0;
        if (up)
            d.choice = gg_select(p, f->arch, f->kernel);
        if (d.reason == GG_OK)
            d.reason = up && !d.choice.kernel ? GG_NO_KERNEL : GG_IN_PLACE;
        return d;
    }

    if (empty)
        return cpu(GG_EMPTY);
    if (f->mode == GG_MODE_CPU)
        return cpu(GG_CPU_FORCED);
    if (f->mode == GG_MODE_AUTO && gg_is_tiny(p->m, p->n, p->k))
        return too_small(p, f->rates);
    if (d.reason != GG_OK)
        return (struct gg_decision){.path = GG_PATH_CPU, .reason = d.reason, .settled = true};
    if (!f->round_to_nearest)
        return cpu(GG_ROUNDING);

    const struct gg_rates *rates = f->rates;
    const bool pinned[] = {f->a == GG_PINNED, f->b == GG_PINNED, f->c == GG_PINNED};
    const double flops = 2.0 * (double)p->m * (double)p->n * (double)p->k, seen_cpu = seen(p, rates, GG_ON_CPU), seen_gpu = seen(p, rates, GG_ON_GPU);
    const bool forced = f->mode == GG_MODE_GPU;
    d.model_cpu = gg_cpu_model(p, rates);
    d.seconds_cpu = corrected(d.model_cpu, seen_cpu);
    const double faster = seen_gpu > 0 && seen_gpu < 1 ? seen_gpu : 1; /* slower does not count here, for nothing that follows could put it right */
    const double copies = gg_staged_model(p, rates, pinned, 0) * faster;
    if (!forced && copies >= WORTH_TRYING * d.seconds_cpu) /* too long, whichever kernel */
        return too_small(p, rates);
    if (up) {
        d.choice = gg_select_staged(p, f->arch, f->kernel);
        if (!d.choice.kernel)
            return cpu(GG_NO_KERNEL);
    }
    d.model_gpu = gg_staged_model(p, rates, pinned, up ? d.choice.seconds : flops / rates->flops[p->type]);
    d.seconds_gpu = corrected(d.model_gpu, seen_gpu);
    if (forced) {
        d.reason = GG_GPU_FORCED;
        d.start = !up;
        d.wait = d.start ? GG_PATIENCE : 0;
        return d;
    }
    double gain = d.seconds_cpu - d.seconds_gpu, cost = d.seconds_cpu > d.seconds_gpu ? d.seconds_cpu / d.seconds_gpu : d.seconds_gpu / d.seconds_cpu;
    bool gpu = gain > 0;
    const bool clear = !gpu && seen_cpu > 0 && cost >= CLEARLY;
    if (up) {
        signed char held = atomic_load_explicit(&rates->held[p->type][gg_shape(p)][gg_work(p)], memory_order_relaxed);
        if (held && cost < HYSTERESIS)
            gpu = held == 1 + GG_ON_GPU;
        const bool known = (gpu ? seen_gpu : seen_cpu) > 0, other_known = (gpu ? seen_cpu : seen_gpu) > 0;
        const bool behind = !gpu && known && copies > COSTLY && copies > BEHIND * d.seconds_cpu;
        const bool doubtful = gpu ? gg_rates_doubtful(rates, GG_ON_CPU, p, d.model_cpu, d.seconds_cpu)
                                  : gg_rates_doubtful(rates, GG_ON_GPU, p, d.model_gpu, d.seconds_gpu);
        const bool again = doubtful && held == (gpu ? 1 + GG_ON_GPU : 1 + GG_ON_CPU), first = known && cost < WORTH_TRYING;
        if (f->may_try && (other_known || behind ? again : first)) {
            gpu = !gpu;
            d.reason = GG_TRIAL;
        }
        d.path = gpu ? GG_PATH_STAGED : GG_PATH_CPU;
        d.reason = d.reason != GG_OK ? d.reason : gpu ? GG_OK : GG_TOO_SMALL;
        d.settled = clear && d.reason == GG_TOO_SMALL;
        return d;
    }
    const bool worth_waiting = gain > f->start_left * (f->gpu == GG_GPU_OFF ? WORTH_WAITING : 1);
    d.wait = worth_waiting ? gain : 0; /* not longer: the GPU may come later than expected */
    /* Against the GPU speaks only what an earlier process saw, or a model of it that no call has confirmed. A try of it includes its start. */
    const bool unsure = d.model_gpu < d.seconds_cpu * (seen_gpu > 0 ? 1 : WORTH_TRYING);
    d.start = worth_waiting || (gain > 0 && f->lost + gain > f->rates->start * WORTH_STARTING) ||
              (gain <= 0 && unsure && gg_rates_doubtful(rates, GG_ON_GPU, p, d.model_gpu, d.seconds_gpu + f->start_left));
    if (!worth_waiting) {
        d.path = GG_PATH_CPU;
        d.reason = gain <= 0 ? GG_TOO_SMALL : d.start || f->gpu == GG_GPU_STARTING ? GG_STARTING : GG_NOT_YET;
        d.settled = clear && !d.start;
    }
    return d;
}

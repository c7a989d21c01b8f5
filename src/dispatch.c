/* dispatch.c — owns the decision who serves a call. Pure: it reads the problem and the facts, never memory, the clock, the environment
 * or the GPU. Called by entry.c for the BLAS names and by api.c for gpugemm_*; tested by tests/t_dispatch.c without a GPU. */
#include "dispatch.h"

struct gg_rates gg_default_rates(int threads)
{
    /* A CPU core of 2020 or later sustains 27 GFLOP/s of dgemm a hardware thread in OpenBLAS (440 on 16 threads of the H200's host, 2026-11).
     * 20 GB/s of staging is what PCIe 4 gives and half of PCIe 5; 60 µs is a short staged call on the H200. */
    double cpu = 27e9 * (threads < 1 ? 1 : threads);
    return (struct gg_rates){.h2d = 20e9,
                             .d2h = 20e9,
                             .latency = 60e-6,
                             .flops = {10e12, 5e12},
                             .cpu_flops = {2 * cpu, cpu},
                             .cpu_latency = 1e-6};
}

/* A staged call moves A and B in, C out (and in, when beta asks for it), and overlaps all that with the kernels but for one tile at each end. */
static double staged_seconds(const struct gg_gemm *p, const struct gg_facts *f, double kernel_seconds)
{
    double size = (double)gg_size(p->type), c = size * (double)p->m * (double)p->n;
    double in = size * (double)p->k * ((double)p->m + (double)p->n) + (p->beta == 0 ? 0 : c);
    double up = in / f->rates.h2d, down = c / f->rates.d2h;
    double longest = up > down ? up : down, sum = up + down + kernel_seconds;
    longest = kernel_seconds > longest ? kernel_seconds : longest;
    return f->rates.latency + longest + (sum - longest) / 8; /* ends that do not overlap: about an eighth, staged.c's tiles */
}

static struct gg_decision cpu(enum gg_reason reason)
{
    return (struct gg_decision){.path = GG_PATH_CPU, .reason = reason};
}

/* Could any memory hold the operands? Beyond that byte counts overflow, and no later stage is made for it. */
static bool is_possible(const struct gg_gemm *p)
{
    const double most = 0x1p60 / (double)gg_size(p->type);
    double a = (double)p->lda * (double)(p->a_kmajor ? p->m : p->k), b = (double)p->ldb * (double)(p->b_kmajor ? p->n : p->k);
    return (double)p->ldc * (double)p->n < most && (gg_is_empty(p) || (a < most && b < most));
}

/* Why this GPU serves nobody, or GG_OK. */
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
    if (!is_possible(p))
        return cpu(GG_TOO_LARGE);
    if (empty && f->c == GG_PEER) /* not aligned to its elements: no kernel scales it, and there is nothing to stage it for */
        return cpu(GG_NO_KERNEL);
    struct gg_decision d = {.path = GG_PATH_STAGED, .reason = obstacle(f)};
    bool up = f->gpu == GG_GPU_READY;

    if (any) { /* no CPU can read it: GPU or nothing */
        d.path = all ? GG_PATH_DEVICE : GG_PATH_STAGED;
        d.start = d.wait = !up && d.reason == GG_OK;
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
    if (d.reason != GG_OK)
        return cpu(d.reason);
    if (!f->round_to_nearest)
        return cpu(GG_ROUNDING);

    double flops = 2.0 * (double)p->m * (double)p->n * (double)p->k;
    d.seconds_cpu = f->rates.cpu_latency + flops / f->rates.cpu_flops[p->type];
    bool forced = f->mode == GG_MODE_GPU;
    if (!forced && staged_seconds(p, f, 0) >= d.seconds_cpu) /* the copies alone: no need to ask which kernel */
        return cpu(GG_TOO_SMALL);
    if (up) {
        d.choice = gg_select(p, f->arch, f->kernel);
        if (!d.choice.kernel)
            return cpu(GG_NO_KERNEL);
    }
    d.seconds_gpu = staged_seconds(p, f, up ? d.choice.seconds : flops / f->rates.flops[p->type]);
    d.start = !up;
    d.wait = !up && (forced || f->start_left + d.seconds_gpu < d.seconds_cpu);
    if (forced) {
        d.reason = GG_GPU_FORCED;
    } else if (d.seconds_gpu >= d.seconds_cpu) {
        d.start = d.wait = false;
        d.path = GG_PATH_CPU;
        d.reason = GG_TOO_SMALL;
    } else if (!up && !d.wait) {
        d.path = GG_PATH_CPU;
        d.reason = GG_STARTING;
    }
    return d;
}

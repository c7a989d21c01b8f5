/* planned.c — owns the plans of staged calls: gathers the facts that plan.c wants, finds the memory that the plan asks for, and keeps the last few
 * plans of a lane. Called by staged.c. */
#include "planned.h"

#include <string.h>

#include "config.h"
#include "lane.h"
#include "rates.h"
#include "tensor.h"

/* The kernel that select.c would choose for all of the problem, laid out in GPU memory as it will be in the arena. */
static struct gg_choice choose(const struct gg_lane *lane, const struct gg_gemm *p, enum gg_precision precision)
{
    struct gg_gemm q = gg_as_staged(*p);
    q.precision = precision;
    return gg_select(&q, &lane->dev->arch, gg_config()->kernel);
}

static struct gg_speed speed_of(const struct gg_lane *lane, const struct gg_gemm *p, struct gg_planned *planned)
{
    const struct gg_arch *arch = &lane->dev->arch;
    const struct gg_choice steps = choose(lane, p, GG_STRICT), all = choose(lane, p, p->precision);
    struct gg_speed speed = {.up = planned->key.up,
                             .down = planned->key.down,
                             .memory = arch->bandwidth,
                             .flops = 1e12,
                             .sms = arch->sms,
                             .threads = planned->key.threads};
    memcpy(speed.pitch, planned->key.pitch, sizeof speed.pitch);
    if (steps.kernel && steps.seconds > 0)
        speed.flops = 2 * (double)p->m * (double)p->n * (double)p->k / steps.seconds;
    const struct gg_chain chain = {.dev = lane->dev, .row = all.kernel};
    const struct gg_gemm staged = gg_as_staged(*p);
    if (p->precision != GG_STRICT && all.kernel && gg_is_chain(all.kernel) && gg_chain_bytes(&chain, &staged) <= gg_chain_most(p->type)) {
        planned->chain = all;
        speed.chain = all.seconds;
        speed.chain_tiles = gg_chain_tiles(all.kernel, arch);
        speed.few_tiles = gg_chain_few(all.kernel, arch);
        if (gg_config()->kernel)
            speed.flops = 1; /* makes other kernels look slow: a chain forced by name must win */
    }
    return speed;
}

static bool make(struct gg_lane *lane, const struct gg_gemm *p, struct gg_planned *planned)
{
    struct gg_plan *plan = &planned->plan;
    const struct gg_speed speed = speed_of(lane, p, planned);
    /* Not planned for the arena as it is, if all of it does not fit there: behind short calls that would be a hundred thousand blocks, for nothing.
     * (dgemm 16000 in 4 MB 0.12 s, 25600 1.06 s, 1 GB of lists.) */
    int64_t budget = gg_plan_whole(p) <= lane->arena_bytes ? lane->arena_bytes : gg_lane_allowance(lane);
    while (gg_plan_make(plan, p, budget, &speed)) {
        if (gg_lane_grow_arena(lane, plan->bytes))
            return true;
        budget = plan->bytes / 2; /* the driver could not allocate what it reported as free */
        gg_plan_free(plan);
    }
    return false;
}

struct gg_planned *gg_plan_of(struct gg_lane *lane, const struct gg_gemm *p, const int64_t pitch[3], int threads)
{
    const struct gg_rates *rates = gg_rates();
    const double both_ways = 0.92; /* the fraction of a direction's rate that is left when both are busy */
    const bool direct_in = pitch[GG_A] && pitch[GG_B], direct_out = pitch[GG_C];
    const struct gg_plan_key key = {.m = p->m,
                                    .n = p->n,
                                    .k = p->k,
                                    .pitch = {pitch[0], pitch[1], pitch[2]},
                                    .up = direct_in ? both_ways * rates->pinned : rates->up,
                                    .down = direct_out ? both_ways * rates->pinned : rates->down,
                                    .type = p->type,
                                    .a_kmajor = p->a_kmajor,
                                    .b_kmajor = p->b_kmajor,
                                    .reads_c = p->beta != 0,
                                    .precision = p->precision,
                                    .threads = threads};
    for (struct gg_planned *made = lane->planned; made < lane->planned + GG_PLANS; made++)
        if (made->plan.blocks == 1 && made->plan.bytes <= lane->arena_bytes && memcmp(&made->key, &key, sizeof key) == 0)
            return made;
    struct gg_planned *planned = &lane->planned[lane->next_planned++ % GG_PLANS];
    gg_plan_free(&planned->plan);
    *planned = (struct gg_planned){.key = key};
    return make(lane, p, planned) ? planned : NULL;
}

void gg_plan_done(struct gg_planned *planned)
{
    if (planned->plan.blocks > 1) /* not worth keeping: it depends on the memory there was, and it is long */
        gg_plan_free(&planned->plan);
}

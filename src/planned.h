/* planned.h — the plans of staged calls. Each is made for this machine's rates and memory, and kept, because programs repeat their calls. */
#ifndef GG_PLANNED_H
#define GG_PLANNED_H

#include "kernels.h"
#include "plan.h"

struct gg_lane;

/* All that a plan depends on except memory. There is no padding: keys are compared byte by byte. */
struct gg_plan_key {
    int64_t m, n, k, pitch[3]; /* `pitch` as in struct gg_speed */
    double up, down;
    int32_t type, a_kmajor, b_kmajor, reads_c, precision, threads;
};

struct gg_planned {
    struct gg_plan_key key;
    struct gg_plan plan;
    struct gg_choice chain; /* the chain's kernel, if plan.chain */
};

/* The plan of *p, whose operands have these pitches (see struct gg_speed), for so many copy threads; the lane's arena has been made large enough for
 * it. It belongs to the lane and is valid until gg_plan_done. NULL: no plan fits. */
struct gg_planned *gg_plan_of(struct gg_lane *lane, const struct gg_gemm *p, const int64_t pitch[3], int threads);
void gg_plan_done(struct gg_planned *planned);

#endif

/* planned.h — the plans of staged calls: made for the speed and the memory there is, and kept, because programs make the same calls again. */
#ifndef GG_PLANNED_H
#define GG_PLANNED_H

#include "kernels.h"
#include "plan.h"

struct gg_lane;

/* What a plan depends on, but for the memory there is. Without padding: it is compared byte by byte. */
struct gg_plan_key {
    int64_t m, n, k, pitch[3]; /* the last as in struct gg_speed */
    double up, down;
    int32_t type, a_kmajor, b_kmajor, reads_c, precision, zero;
};

struct gg_planned {
    struct gg_plan_key key;
    struct gg_plan plan;
    struct gg_choice chain; /* that the plan is for, if it is for one */
};

/* The plan of *p, whose operands have these pitches (see struct gg_speed), with the lane's arena large enough for it. The lane's: good until
 * gg_plan_done. NULL: there is none. */
struct gg_planned *gg_plan_of(struct gg_lane *lane, const struct gg_gemm *p, const int64_t pitch[3]);
void gg_plan_done(struct gg_planned *planned);

#endif

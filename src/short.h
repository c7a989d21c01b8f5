/* short.h — staged calls too short to be cut up by a plan. */
#ifndef GG_SHORT_H
#define GG_SHORT_H

#include "lane.h"
#include "staged.h"

/* Does all of it, packed, fit in GG_SHORT_BYTES, and is packing it whole the faster way? */
bool gg_is_short(const struct gg_gemm *p);

/* For operands in host memory. True: C is complete. False: C is untouched. The device must be entered. */
bool gg_short_gemm(struct gg_lane *lane, const struct gg_gemm *p, const void *caller, struct gg_outcome *outcome);

#endif

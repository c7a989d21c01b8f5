/* tune.h — measuring this machine: a little when the GPU starts, thoroughly for gpugemm_tune (gpugemm.h). */
#ifndef GG_TUNE_H
#define GG_TUNE_H

#include "lane.h"

/* Measures the link between this lane's GPU and pageable memory, in a few milliseconds, and sets the rates. */
void gg_tune_link(struct gg_lane *lane);

#endif

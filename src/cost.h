/* cost.h — the cost model (cost.c): how long a row of cuda/kernels.def takes for a problem. Pure: all that counts is in the arguments. */
#ifndef GG_COST_H
#define GG_COST_H

#include "kernels.h"

/* Seconds from the launch of a kernel to its first instruction plus from its last to the next kernel in the stream. */
static const double GG_LAUNCH = 2.5e-6;

static inline double gg_at_least(double x, double low) { return x > low ? x : low; }

/* Two things side by side, as computing and memory. A thousandth of the shorter one decides among rows that the longer one holds up for the same
 * time. */
static inline double gg_longer(double x, double y) { return gg_at_least(x, y) + 1e-3 * (x < y ? x : y); }

/* Flop per clock and SM on this GPU. */
double gg_rate(const struct gg_kernel *row, const struct gg_arch *arch);

/* Predicted seconds on the device, launch included, of way->kernel with k cut as in `way`; its strips do not count. */
double gg_seconds(const struct gg_choice *way, const struct gg_gemm *p, const struct gg_arch *arch);

/* SMs (or pairs) out of `sms` on which clusters of a GG_TMA… row find room at one time. */
int gg_cluster_places(const struct gg_kernel *row, int sms, int cluster);

/* Does it matter that each block of such a cluster has an SM to itself? Then so many clusters, of 3 to 8 blocks, find room at one time, kept below
 * what the driver reports (gg_places). With one cluster more, some blocks share an SM and all wait for them: 192x256x6000 takes 30.5 us in 24
 * clusters of 5, 22.9 in 24 of 8 with two blocks an SM. */
bool gg_spreads(const struct gg_kernel *row, int cluster);
int64_t gg_spread(int sms, int cluster);

#endif

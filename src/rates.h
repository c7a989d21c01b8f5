/* rates.h — how fast this machine is, for predictions. Defaults that work untouched; the link measured when the GPU starts; what calls really
 * took; kept in a file for the next process. */
#ifndef GG_RATES_H
#define GG_RATES_H

#include <stdatomic.h>
#include <stdio.h>

#include "gemm.h"

/* Calls are alike when they are between the same two of 2^i and 1.5 2^i multiply-adds and in the same class of shape. */
enum { GG_SHAPES = 4, GG_WORKS = 64 };
enum { GG_ON_CPU, GG_ON_GPU };

struct gg_rates {
    _Atomic double up, down;      /* bytes/s between pageable memory and the GPU, staged */
    _Atomic double pinned;        /* bytes/s between page-locked memory and the GPU */
    _Atomic double latency;       /* seconds a staged call takes beyond its bytes and flops */
    _Atomic double serial;        /* bytes/s of the first 2 MB, of which little overlaps */
    _Atomic double flops[2];      /* flop/s of the GPU by enum gg_type, until a kernel's own prediction is known */
    _Atomic double cpu_flops[2];  /* of the CPU BLAS, all its threads, large products */
    _Atomic double cpu_bandwidth; /* bytes/s of operands it gets through at most */
    _Atomic double cpu_latency;   /* seconds a CPU call takes at least */
    _Atomic double cpu_team;      /* and when it is large enough for all threads */
    double cpu_threads;           /* how many those are; not in the file, which is of a machine with so many */
    _Atomic double start;         /* seconds to bring the GPU up */
    /* What like calls took, as a multiple of the model's prediction: [CPU or GPU][type][shape][work]. 0: none yet; negative: one, which bore the
     * cost of being the first. */
    _Atomic float seen[2][2][GG_SHAPES][GG_WORKS];
    _Atomic signed char held[2][GG_SHAPES][GG_WORKS]; /* who served the last like call: 1 + GG_ON_CPU or GG_ON_GPU; 0: nobody yet */
    /* Is what is known of the other side still true? Seconds that like calls have spent on the side that holds them since the other was tried last;
     * negative: it is being tried, and has taken so long. `content`: how often that has changed nothing. */
    _Atomic float since[2][GG_SHAPES][GG_WORKS];
    _Atomic unsigned char content[2][GG_SHAPES][GG_WORKS];
};

/* The shape of *p: 0 roughly a cube, else 1 + the dimension (m, n, k) that is far smaller than another. */
int gg_shape(const struct gg_gemm *p);
int gg_work(const struct gg_gemm *p);

/* The models, before correction. */
double gg_cpu_model(const struct gg_gemm *p, const struct gg_rates *rates);
double gg_staged_model(const struct gg_gemm *p, const struct gg_rates *rates, const bool pinned[3], double kernel_seconds);

/* Pure: sane defaults on PCIe 4 and 5 with `threads` CPU threads at hand. */
void gg_rates_default(struct gg_rates *rates, int threads);

/* The rates in force. The first call may read the cache file. */
struct gg_rates *gg_rates(void);

/* Calls like this one are served by `who`, until something is clearly better. */
void gg_rates_hold(int who, const struct gg_gemm *p);

/* A call of the kind that the model predicted to take `model` seconds took `seconds`. */
void gg_rates_see(int who, const struct gg_gemm *p, double model, double seconds);

/* A measurement that was made with care: it replaces what was known. */
void gg_rates_learn(int who, const struct gg_gemm *p, double model, double seconds);

/* Is `who`, which does not hold its like, due to be tried again, where such a call would take `seconds` (by the model alone, `model`)? */
bool gg_rates_doubtful(const struct gg_rates *rates, int who, const struct gg_gemm *p, double model, double seconds);

/* Fresh measurements of the link replace what was known. */
void gg_rates_set_link(double up, double down, double pinned);
/* What this start took; believed up to twice what was known, for one beside many others can take fifty times as long as one alone. */
void gg_rates_set_start(double seconds);

/* The GPU is up and is called so: do the rates come from a file that was written with it? If not they are defaults again. */
bool gg_rates_know(const char *gpu);

/* A cache file's contents, which must be `machine`'s: the rates in it over those that are there. False: not to be used. */
bool gg_rates_parse(FILE *file, const char *machine, struct gg_rates *rates, char when[32], char gpu[64]);

/* Writes the cache file: $XDG_CACHE_HOME/gpugemm/ or ~/.cache/gpugemm/, one file a combination of GPU, CPU, threads and version. Never in a
 * setuid program. */
bool gg_rates_save(void);

/* For people: where the rates come from. A path, or why there is none. */
const char *gg_rates_file(void);
const char *gg_rates_origin(void);
bool gg_rates_measured(void); /* the link's, on this machine */

#endif

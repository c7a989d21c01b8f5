/* rates.h — how fast this machine is, for predictions: defaults that work untouched, the link as measured when the GPU starts, what calls really
 * took, and a file that keeps this for the next process. */
#ifndef GG_RATES_H
#define GG_RATES_H

#include <stdatomic.h>
#include <stdio.h>

#include "gemm.h"

/* Like calls have a class in common: their type, their shape (gg_shape), and their work (gg_work), the interval between 2^i and 1.5 2^i, or 1.5 2^i
 * and 2^(i+1), in which their multiply-adds lie. The side (CPU or GPU) that serves like calls at present is their holder. */
enum { GG_SHAPES = 4, GG_WORKS = 64 };
enum { GG_ON_CPU, GG_ON_GPU };

struct gg_rates {
    _Atomic double up, down;      /* bytes/s between pageable memory and the GPU, staged */
    _Atomic double pinned;        /* bytes/s between page-locked memory and the GPU */
    _Atomic double latency;       /* seconds of a staged call on top of its bytes and flops */
    _Atomic double serial;        /* bytes/s of the first 2 MB, of which little overlaps */
    _Atomic double flops[2];      /* flop/s of the GPU by enum gg_type, used until a kernel's own prediction is known */
    _Atomic double cpu_flops[2];  /* of the CPU BLAS, all its threads, large products */
    _Atomic double cpu_bandwidth; /* most bytes/s of operands that it gets through */
    _Atomic double cpu_latency;   /* least seconds of a CPU call */
    _Atomic double cpu_team;      /* additional seconds when the call is large enough for all threads */
    double cpu_threads;           /* the number of threads; not in the file, which is for one such number */
    _Atomic double start;         /* seconds to bring the GPU up */
    /* Times of like calls as multiples of the model's prediction: [CPU or GPU][type][shape][work]. 0: none yet; negative: that of the fastest of its
     * first calls, which bear the cost of being the first, and `steady`: how many in a row have not been clearly faster. */
    _Atomic float seen[2][2][GG_SHAPES][GG_WORKS];
    _Atomic unsigned char steady[2][2][GG_SHAPES][GG_WORKS];
    _Atomic signed char held[2][GG_SHAPES][GG_WORKS]; /* the holder of like calls: 1 + GG_ON_CPU or GG_ON_GPU; 0: nobody yet */
    /* When to try the other side again. `since`: seconds that like calls have spent on the holder's side since the other was tried last; negative:
     * the other side is being tried, and has taken so long. `content`: how many tries have changed nothing. */
    _Atomic float since[2][GG_SHAPES][GG_WORKS];
    _Atomic unsigned char content[2][GG_SHAPES][GG_WORKS];
};

/* The shape of *p: 0 roughly a cube, else 1 + the dimension (m, n, k) that is far smaller than another. */
int gg_shape(const struct gg_gemm *p);
int gg_work(const struct gg_gemm *p);

/* Predicted seconds, before correction by `seen`. */
double gg_cpu_model(const struct gg_gemm *p, const struct gg_rates *rates);
double gg_staged_model(const struct gg_gemm *p, const struct gg_rates *rates, const bool pinned[3], double kernel_seconds);

/* Predicted seconds of a call that the CPU serves on one thread, beside others like it on threads of their own, `callers` in all; and how long a
 * staged call keeps the link from others. */
double gg_cpu_model_single(const struct gg_gemm *p, const struct gg_rates *rates, int callers);
double gg_link_model(const struct gg_gemm *p, const struct gg_rates *rates);

/* Pure: sensible defaults on PCIe 4 and 5 with `threads` CPU threads available. */
void gg_rates_default(struct gg_rates *rates, int threads);

/* The rates in force. The first call may read the cache file. */
struct gg_rates *gg_rates(void);

/* Makes `who` the holder of calls like this one, until something is clearly better. */
void gg_rates_hold(int who, const struct gg_gemm *p);

/* Reports that such a call, predicted by the model to take `model` seconds, took `seconds`. */
void gg_rates_see(int who, const struct gg_gemm *p, double model, double seconds);

/* The same for a measurement made with care: it replaces what was known. */
void gg_rates_learn(int who, const struct gg_gemm *p, double model, double seconds);

/* Is `who`, not the holder of calls like p, due to be tried again? Such a call would take it `seconds`, by the model alone `model`. */
bool gg_rates_doubtful(const struct gg_rates *rates, int who, const struct gg_gemm *p, double model, double seconds);

/* Replaces what was known of the link by fresh measurements. */
void gg_rates_set_link(double up, double down, double pinned);
/* Records how long this start took. Capped at twice what was known, because one start beside many others can take fifty times as long as one
 * alone. */
void gg_rates_set_start(double seconds);

/* To be called when the GPU, with this name, is up: was its link measured by whoever wrote the file? If not it must be measured. Forgets what calls
 * took on another GPU. */
bool gg_rates_know(const char *gpu);

/* Reads a cache file's contents, which must be `machine`'s, into *rates, which hold the defaults. False: they are not to be used. */
bool gg_rates_parse(FILE *file, const char *machine, struct gg_rates *rates, char when[32], char gpu[64]);

/* Writes the cache file: $XDG_CACHE_HOME/gpugemm/ or ~/.cache/gpugemm/, one file per combination of CPU, threads, NVIDIA driver, GPUGEMM_DEVICES and
 * version. Never in a setuid program. */
bool gg_rates_save(void);

/* For display: where the rates come from. A path, or why there is none. */
const char *gg_rates_file(void);
const char *gg_rates_origin(void);
bool gg_rates_measured(void); /* has the link been measured on this machine? */

#endif

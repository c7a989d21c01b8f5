/* dispatch.h — the decision of one call, and the facts it is made from. dispatch.c is pure: same problem and facts, same answer. */
#ifndef GG_DISPATCH_H
#define GG_DISPATCH_H

#include "config.h"
#include "gemm.h"
#include "kernels.h"
#include "rates.h"

struct gg_facts {
    enum gg_mode mode;
    enum gg_gpu_state gpu;
    double start_left;               /* seconds until a GPU that is OFF or STARTING would be ready */
    const struct gg_arch *arch;      /* of the GPU that would serve; NULL unless READY */
    enum gg_place a, b, c;
    bool round_to_nearest;
    const char *kernel;              /* GPUGEMM_KERNEL */
    const struct gg_rates *rates;
    double lost;                     /* seconds that calls have lost so far because the GPU was not up */
    double queued;                   /* seconds for which staged calls under way keep the link (gg_link_model) */
    int callers;                     /* calls on host operands under way, this one included */
    int cpu_threads;                 /* of the CPU BLAS; 0: not known, or not needed because nothing is queued */
    bool may_try;                    /* this call may go to the slower side, which happens once or twice to learn its speed for later calls */
};

struct gg_decision {
    enum gg_path path;
    enum gg_reason reason;
    bool start;                      /* bring the GPU up in the background: it would have been faster */
    double wait;                     /* … and wait for it, at most so many seconds: it would be faster even so, or the operands leave no choice */
    struct gg_choice choice;         /* valid when arch was known and path is not CPU */
    double seconds_cpu, seconds_gpu; /* predicted; 0 where not needed */
    double link;                     /* seconds for which the call keeps the link, if it is staged */
    double model_cpu, model_gpu;     /* the same before correction by how long similar calls took */
    bool settled;                    /* path is CPU, and so clearly that the next like calls need not ask */
};

/* Who serves *p. Total: every problem gets an answer. With operands in GPU memory the path is CPU only if C is trivially complete or nothing can
 * serve; a reason other than GG_IN_PLACE then says why the GPU cannot serve either. */
struct gg_decision gg_dispatch(const struct gg_gemm *p, const struct gg_facts *facts);

/* Is the problem too small for any GPU (its latency alone costs more), with none of m, n and k 0? Uses only integer multiplications, because such
 * calls come by the million. With operands in host memory they are GG_TOO_SMALL; gg_serve does not ask gg_dispatch first, entry.c does not even call
 * gg_serve. */
static inline bool gg_is_tiny(int64_t m, int64_t n, int64_t k)
{
    const int64_t most = 64 * 64 * 64;
    return ((m - 1) | (n - 1) | (k - 1)) >> 19 == 0 && m * n * k <= most;
}

/* The rates in force on this machine, and all other facts for operands in host memory; serve.c gathers them. */
struct gg_facts gg_host_facts(void);

#endif

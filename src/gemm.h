/* gemm.h — READ FIRST. The one noun of the library, the answers a stage can give, and the stages in call order.
 *
 *   entry.c     every exported spelling of sgemm and dgemm (symbols.def); keeps the caller's own arguments
 *   check.h     arguments -> struct gg_gemm, or the reference's info number
 *   serve.c     one valid call: set the precision, gather the facts, ask dispatch.c, carry its answer out
 *   dispatch.c  pure: (problem, facts) -> decision: path, kernel row, reason, predicted times
 *   device.c    operands in GPU memory: run in place on the caller's stream
 *   staged.c    operands in host memory: cut up, copy, compute and copy back, all overlapped
 *   launch.c    a kernel row -> its launch, on operands that the GPU reaches
 *   real.c      everything else: the BLAS the program already has; cpu.c computes by it
 *
 * Invariants. Every stage returns true (C is complete) or false (C is untouched). On false the entry point calls the same routine of the real BLAS
 * with the caller's original arguments; only where C is a vector and that BLAS is an OpenBLAS it calls the gemv there (cpu.c). From check.h on there
 * is no order and no transpose, only column-major C and "which index of this operand is contiguous"; every size is int64_t and counts elements. */
#ifndef GG_GEMM_H
#define GG_GEMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum gg_type { GG_S, GG_D };

static inline size_t gg_size(enum gg_type type)
{
    return type == GG_S ? sizeof(float) : sizeof(double);
}

static inline int64_t gg_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t gg_max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static inline int64_t gg_ceil_div(int64_t x, int64_t by) { return x / by + (x % by != 0); }
static inline int64_t gg_round_up(int64_t x, int64_t unit) { return gg_ceil_div(x, unit) * unit; }

/* How exact a product must be. STRICT: FFMA (FP32 multiply-adds) only; dgemm: FP64's. FP32: by whichever means is fastest, no less accurate than STRICT
 * where errors are above 1 u (docs/precision.md). TF32: 11 significant bits of sgemm's A and B are enough. */
enum gg_precision { GG_STRICT, GG_FP32, GG_TF32 };

/* C := alpha op(A) op(B) + beta C.   C is m×n, column-major: C(i,j) = c[i + j ldc].
 *   op(A)(i,l) = a_kmajor ? a[l + i lda] : a[i + l lda]      (a_kmajor: the user's A is transposed)
 *   op(B)(l,j) = b_kmajor ? b[l + j ldb] : b[j + l ldb]      (b_kmajor: the user's B is NOT transposed)
 * A row-major problem arrives here as its transpose: A and B exchanged, m and n exchanged.
 * Valid by construction: m, n, k >= 0 and every ld >= max(1, its contiguous extent). alpha, beta: exact copies of float or double. */
struct gg_gemm {
    enum gg_type type;
    bool a_kmajor, b_kmajor;
    int64_t m, n, k;
    const void *a, *b;
    void *c;
    int64_t lda, ldb, ldc;
    double alpha, beta;
    enum gg_precision precision; /* set by serve.c: the thread's setting, else the environment's */
};

/* Nothing to compute beyond C := beta C. */
static inline bool gg_is_empty(const struct gg_gemm *p)
{
    return p->m == 0 || p->n == 0 || p->k == 0 || p->alpha == 0;
}

/* The same product as staging lays it out in GPU memory (the addresses are left NULL). Lines are padded to multiples of 128 bytes: whole sectors, and
 * TMA wants leading dimensions that are multiples of 16 bytes. */
static inline struct gg_gemm gg_as_staged(struct gg_gemm p)
{
    const int64_t unit = 128 / (int64_t)gg_size(p.type);
    p.a = p.b = p.c = NULL;
    p.lda = gg_round_up(p.a_kmajor ? p.k : p.m, unit);
    p.ldb = gg_round_up(p.b_kmajor ? p.k : p.n, unit);
    p.ldc = gg_round_up(p.m, unit);
    return p;
}

/* The layout of a problem in BLAS terms of column-major operands, for the trace. */
enum gg_layout { GG_NN, GG_NT, GG_TN, GG_TT };

static inline enum gg_layout gg_layout(const struct gg_gemm *p)
{
    return (enum gg_layout)((p->a_kmajor ? 2 : 0) + (p->b_kmajor ? 0 : 1));
}

/* Where an operand lives. The order matters: from GG_PEER on no CPU BLAS can touch it, from GG_MANAGED on a kernel can read it in place. */
enum gg_place { GG_HOST, GG_PINNED, GG_PEER /* on another GPU than C, or not aligned */, GG_MANAGED, GG_DEVICE };

/* Who computed C. */
enum gg_path { GG_PATH_CPU, GG_PATH_DEVICE, GG_PATH_STAGED, GG_PATHS };

/* Why. The texts are what the trace, the statistics and `gpugemm info` print. */
#define GG_REASONS(X)                                                                                                  \
    X(GG_OK, "faster on the GPU")                                                                                      \
    X(GG_GPU_FORCED, "GPUGEMM_MODE=gpu")                                                                                   \
    X(GG_IN_PLACE, "operands in GPU memory")                                                                           \
    X(GG_BAD_ARGS, "illegal argument")                                                                                 \
    X(GG_EMPTY, "nothing to multiply")                                                                                 \
    X(GG_TOO_SMALL, "faster on the CPU")                                                                               \
    X(GG_CPU_FORCED, "GPUGEMM_MODE=cpu")                                                                                 \
    X(GG_NO_GPU, "no usable GPU")                                                                                      \
    X(GG_STARTING, "the GPU is starting")                                                                              \
    X(GG_NOT_YET, "not worth starting the GPU yet")                                                                    \
    X(GG_TRIAL, "to learn its speed")                                                                                  \
    X(GG_BESIDE, "faster on the CPU beside other calls")                                                               \
    X(GG_FORKED, "forked after the GPU was started")                                                                   \
    X(GG_DEAD, "the GPU failed earlier")                                                                               \
    X(GG_GPU_ERROR, "the GPU failed during this call")                                                                 \
    X(GG_NO_MEMORY, "no GPU memory")                                                                                   \
    X(GG_ROUNDING, "rounding mode is not to-nearest")                                                                  \
    X(GG_NO_KERNEL, "no kernel for this GPU")                                                                          \
    X(GG_TOO_LARGE, "no memory holds such operands")

enum gg_reason {
#define X(id, text) id,
    GG_REASONS(X)
#undef X
        GG_REASON_COUNT
};

#endif

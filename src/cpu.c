/* cpu.c — owns the CPU's answer to any valid problem: by any gemm of the real BLAS, by the gemv beside it where C is a vector, or by plain loops. It
 * finds no BLAS itself. Called by entry.c, api.c and serve.c, by staged.c and short.c to finish what a GPU left open, and by tune.c. */
#include <stdatomic.h>
#include <string.h>

#include "config.h"
#include "dispatch.h"
#include "real.h"
#include "trace.h"

static struct {
    _Atomic(void *) gemm[2]; /* the Fortran gemm that gg_real_gemm uses, by type */
    _Atomic bool gemm_wide[2];
    _Atomic bool gemm_sought[2];
    _Atomic bool warned; /* that there is no CPU BLAS */
} g;

/* ---- any gemm of the real BLAS ---------------------------------------------------------------------------------------------------------- */

/* Finds a Fortran gemm. gg_real_near comes first, so that no second BLAS is loaded beside the program's. */
static void seek(enum gg_type type, const void *caller)
{
    static const struct {
        const char *name[2];
        bool wide;
    } names[] = {{{"sgemm_64_", "dgemm_64_"}, true}, {{"scipy_sgemm_64_", "scipy_dgemm_64_"}, true},
                 {{"sgemm_", "dgemm_"}, false},      {{"scipy_sgemm_", "scipy_dgemm_"}, false}};
    enum { NAMES = sizeof names / sizeof *names };
    void *found = NULL;
    bool wide = false;
    for (int pass = 0; pass < 2 && !found; pass++)
        for (int i = 0; i < NAMES && !found; i++) {
            int n = pass ? NAMES - 1 - i : i; /* second pass: among libraries still to be loaded the plain names are the likely ones */
            found = pass ? gg_real_find(names[n].name[type], caller) : gg_real_near(names[n].name[type], caller);
            wide = names[n].wide || gg_real_is_ilp64(found);
        }
    atomic_store(&g.gemm_wide[type], wide);
    atomic_store(&g.gemm[type], found);
    if (!found && !atomic_exchange(&g.warned, true))
        gg_warn("no CPU BLAS was found: plain loops serve, slowly. Install libopenblas0 or set GPUGEMM_BLAS");
    atomic_store(&g.gemm_sought[type], true);
}

/* The plain loops. Operands may have any alignment: Fortran's COMMON and packed structures align doubles to 4 bytes or less. */
#define GG_PLAIN_GEMM(NAME, T)                                                                                         \
    static void NAME(const struct gg_gemm *p)                                                                          \
    {                                                                                                                  \
        typedef T unaligned __attribute__((aligned(1)));                                                               \
        const unaligned *a = p->a, *b = p->b;                                                                          \
        T alpha = (T)p->alpha, beta = (T)p->beta;                                                                      \
        for (int64_t j = 0; j < p->n; j++) {                                                                           \
            unaligned *c = (unaligned *)p->c + j * p->ldc;                                                             \
            for (int64_t i = 0; beta != 1 && i < p->m; i++)                                                            \
                c[i] = beta == 0 ? 0 : beta * c[i];                                                                    \
            for (int64_t l = 0; alpha != 0 && l < p->k; l++)                                                           \
                for (int64_t i = 0; i < p->m; i++)                                                                     \
                    c[i] += alpha * (p->a_kmajor ? a[l + i * p->lda] : a[i + l * p->lda]) *                            \
                            (p->b_kmajor ? b[l + j * p->ldb] : b[j + l * p->ldb]);                                     \
        }                                                                                                              \
    }
GG_PLAIN_GEMM(plain_sgemm, float)
GG_PLAIN_GEMM(plain_dgemm, double)

/* Where a routine of *p's type reads one of its factors. */
static const void *scalar(const struct gg_gemm *p, const double *factor, float *single)
{
    if (p->type == GG_D)
        return factor;
    *single = (float)*factor;
    return single;
}

/* Integers are passed 64 bits wide. A BLAS with 32-bit ones reads the low half, which comes first in memory. A BLAS with 64-bit integers under plain
 * names whose file name does not tell (MKL's or AOCL's) also reads the right value. */
static void call(const struct gg_gemm *p, gg_f77_gemm *gemm)
{
    _Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the low half comes first");
    float alpha, beta;
    gemm(p->a_kmajor ? "T" : "N", p->b_kmajor ? "N" : "T", &p->m, &p->n, &p->k, scalar(p, &p->alpha, &alpha), p->a, &p->lda, p->b, &p->ldb,
         scalar(p, &p->beta, &beta), p->c, &p->ldc, 1, 1);
}

/* Calls gemm for pieces that 32-bit integers can count. */
static void call_in_pieces(const struct gg_gemm *p, gg_f77_gemm *gemm)
{
    const int64_t most = 1 << 30, size = (int64_t)gg_size(p->type);
    struct gg_gemm q = *p;
    for (int64_t j = 0; j < p->n; j += most)
        for (int64_t i = 0; i < p->m; i += most)
            for (int64_t l = 0; l == 0 || l < p->k; l += most) {
                q.m = p->m - i < most ? p->m - i : most;
                q.n = p->n - j < most ? p->n - j : most;
                q.k = p->k - l < most ? p->k - l : most;
                q.a = (const char *)p->a + (p->a_kmajor ? l + i * p->lda : i + l * p->lda) * size;
                q.b = (const char *)p->b + (p->b_kmajor ? l + j * p->ldb : j + l * p->ldb) * size;
                q.c = (char *)p->c + (i + j * p->ldc) * size;
                q.beta = l == 0 ? p->beta : 1;
                call(&q, gemm);
            }
}

/* ---- what is beside a gemm of OpenBLAS's: gemv, where C is a vector; its number of threads ---------------------------------------------------- */

/* By each gemm so far. An entry is written once: claimed, filled, then published by writing its key. */
enum { CLAIMED = 1, GEMMS = 64 };
static struct {
    _Atomic uintptr_t gemm;
    struct gg_openblas openblas;
} known[GEMMS];

/* When all entries are taken the answer is not remembered, and sought again next time. */
static struct gg_openblas openblas_of(const void *gemm, enum gg_type type)
{
    for (int i = 0; i < GEMMS; i++)
        if (atomic_load_explicit(&known[i].gemm, memory_order_acquire) == (uintptr_t)gemm)
            return known[i].openblas;
    const struct gg_openblas found = gg_real_find_openblas(gemm, type);
    for (int i = 0; i < GEMMS; i++) {
        uintptr_t empty = 0;
        if (!atomic_compare_exchange_strong(&known[i].gemm, &empty, CLAIMED))
            continue;
        known[i].openblas = found;
        atomic_store(&known[i].gemm, (uintptr_t)gemm);
        break;
    }
    return found;
}

/* Is gemv the faster routine for a product that is not tiny, with the matrix in lines of so many elements, along k (dots) or not? (Up to gg_is_tiny's
 * bound gemm has one thread, and stays.) Up to 10^6 multiply-adds gemm has kernels for AVX-512 that copy nothing, which do short columns 1 to 5 times
 * as fast; and gemv's own lines must not be too short. (0.3.21 and 0.3.31, 4 to 1024 rows, 2 cores, 2026-11: gemv 0.9 to 20 times as fast.) */
static bool is_for_gemv(int64_t line, bool dots, double work) { return line >= (dots || work > 1e6 ? 8 : 256); }

/* OpenBLAS's gemm first copies the matrix into the order that its kernels want, even to multiply it by one vector: its gemv is 2 to 6 times as fast
 * where the matrix is larger than the caches (0.3.21 and 0.3.31, two cores, 2026-11). On CPUs before Haswell that gemv crashes where elements are not
 * aligned to their size; gemm does not. */
bool gg_real_gemv(const struct gg_gemm *p, const void *gemm)
{
    const size_t size = gg_size(p->type);
    if ((p->m != 1 && p->n != 1) || gg_is_empty(p) || gg_is_tiny(p->m, p->n, p->k) || gg_config()->mode == GG_MODE_CPU ||
        ((uintptr_t)p->a | (uintptr_t)p->b | (uintptr_t)p->c) % size)
        return false;
    const bool column = p->n == 1, trans = column ? p->a_kmajor : p->b_kmajor; /* a row is C^T := alpha op(B)^T op(A)^T + beta C^T */
    const int64_t lines = column ? p->m : p->n, ld = column ? p->lda : p->ldb, incy = column ? 1 : p->ldc;
    const int64_t incx = column ? (p->b_kmajor ? 1 : p->ldb) : (p->a_kmajor ? 1 : p->lda);
    if (!is_for_gemv(trans ? p->k : lines, trans, (double)lines * (double)p->k))
        return false;
    const struct gg_openblas openblas = openblas_of(gemm, p->type);
    if (!openblas.gemv || (!openblas.wide && (lines | p->k | ld | incx | incy) > INT32_MAX))
        return false;
    for (int64_t i = 0; p->beta == 0 && i < lines; i++) /* some versions multiply C by 0, and a NaN would survive */
        memset((char *)p->c + i * incy * (int64_t)size, 0, size);
    float alpha, beta;
    openblas.gemv(trans ? "T" : "N", trans ? &p->k : &lines, trans ? &lines : &p->k, scalar(p, &p->alpha, &alpha), column ? p->a : p->b, &ld,
                  column ? p->b : p->a, &incx, scalar(p, &p->beta, &beta), p->c, &incy, 1);
    return true;
}

int gg_real_threads(const void *gemm, enum gg_type type)
{
    const struct gg_openblas openblas = openblas_of(gemm, type);
    return openblas.in_parallel && openblas.in_parallel() ? 1 : openblas.threads ? openblas.threads() : 0;
}

/* ---- all of it ----------------------------------------------------------------------------------------------------------------------------- */

void gg_real_scale(const struct gg_gemm *p)
{
    struct gg_gemm q = *p;
    q.k = 0;
    if (q.m > 0 && q.beta != 1) /* otherwise C may have any number of columns */
        (p->type == GG_S ? plain_sgemm : plain_dgemm)(&q);
}

void gg_real_gemm(const struct gg_gemm *p, const void *caller)
{
    if (!atomic_load(&g.gemm_sought[p->type]))
        seek(p->type, caller);
    gg_f77_gemm *gemm = (gg_f77_gemm *)atomic_load(&g.gemm[p->type]);
    bool wide = atomic_load(&g.gemm_wide[p->type]);
    bool narrow_ld = p->lda <= INT32_MAX && p->ldb <= INT32_MAX && p->ldc <= INT32_MAX;
    gg_real_enter(__builtin_frame_address(0));
    if (!gemm || !gg_real_gemv(p, (const void *)gemm)) {
        if (gemm && wide)
            call(p, gemm);
        else if (gemm && narrow_ld)
            call_in_pieces(p, gemm);
        else
            (p->type == GG_S ? plain_sgemm : plain_dgemm)(p);
    }
    gg_real_leave();
}

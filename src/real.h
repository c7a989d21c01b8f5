/* real.h — the BLAS the program already has. real.c is the only file that searches for it; cpu.c computes by what it finds. */
#ifndef GG_REAL_H
#define GG_REAL_H

#include "gemm.h"

/* Fortran's gemm: pointers to integers of either width and to floats or doubles, and at the end the lengths of transa and transb that Fortran
 * compilers add. */
typedef void gg_f77_gemm(const char *, const char *, const void *, const void *, const void *, const void *, const void *, const void *, const void *,
                         const void *, const void *, void *, const void *, size_t, size_t);

/* Fortran's gemv, in the same way. */
typedef void gg_f77_gemv(const char *, const void *, const void *, const void *, const void *, const void *, const void *, const void *, const void *,
                         void *, const void *, size_t);

/* The real BLAS's address for exactly this name, or NULL. Never an address in this library or in another copy of it. `caller`: the return address of
 * the call being served, whose object's scope is searched too. Thread-safe; the first call may load OpenBLAS. */
void *gg_real_find(const char *name, const void *caller);

/* The address of `name` in what follows this library in the search order, or in the caller's own scope. Never loads a BLAS. */
void *gg_real_near(const char *name, const void *caller);

/* The address of `name` in the scope of the object that brought the caller's in: what a caller gets whose own object is not linked with a BLAS. */
void *gg_real_imported(const char *name, const void *caller);

/* Is this routine in a library that also has dgemm_? A library with a function of its own called dgemm is no BLAS. */
bool gg_real_in_blas(const void *routine);

/* Is this address in this library or in another copy of it? */
bool gg_real_is_gpugemm(const void *address);

/* Is this routine in an ILP64 library that uses the plain names (libblas64.so.3)? */
bool gg_real_is_ilp64(const void *routine);

/* What else there is of the library in which this gemm lies, if that is an OpenBLAS. */
struct gg_openblas {
    gg_f77_gemv *gemv;        /* NULL: there is none */
    bool wide;                /* gemv's integers have 64 bits */
    int (*threads)(void);     /* how many it may use now; NULL: not known */
    int (*in_parallel)(void); /* of the OpenMP it is built with: is the caller one of a team? Then it uses one thread. NULL: it has no OpenMP */
};
struct gg_openblas gg_real_find_openblas(const void *gemm, enum gg_type type);

/* How deep this thread is inside the real BLAS on our behalf: reference BLAS and BLIS then call dgemm_ from their cblas_dgemm, back into us. And the
 * frame from which it went there. */
extern _Thread_local int gg_real_depth;
extern _Thread_local uintptr_t gg_real_frame;

static inline bool gg_real_inside(void)
{
    return gg_real_depth > 0;
}

/* A signal handler has jumped out of the BLAS (what Ctrl-C does in Sage, Lisp or Julia), and nobody will leave. */
static inline void gg_real_left(void)
{
    gg_real_depth = 0;
}

/* Is the call with this frame one by the real BLAS? Not if the frame is no deeper than that from which the thread went there: then it has been left by
 * a jump. Without that the thread would stay inside for ever. */
static inline bool gg_real_calls(const void *frame)
{
    if ((uintptr_t)frame >= gg_real_frame)
        gg_real_left();
    return gg_real_inside();
}

static inline void gg_real_enter(const void *frame)
{
    if (!gg_real_calls(frame))
        gg_real_frame = (uintptr_t)frame;
    gg_real_depth++;
}

static inline void gg_real_leave(void)
{
    gg_real_depth -= gg_real_inside();
}

/* Set in a thread while real.c finds out whether a library leads here: the gemm that arrives clears it and does nothing else. */
extern _Thread_local bool gg_real_asking;

/* Enclose whatever calls the dynamic loader: nobody forks in between. A thread may enter again. */
void gg_loader_enter(void);
void gg_loader_leave(void);

/* In a forked child: the list of loaded objects may be locked for ever, so do not walk it where that can be avoided. */
bool gg_loader_forked(void);

/* Gives in *handle the i-th loaded object, opened once more, NULL if that is not possible. False: there are no more objects. */
bool gg_loaded_object(int i, void **handle);

/* Where the real BLAS was found: a path for `gpugemm info`. NULL before the first search, and if there is none. */
const char *gg_real_path(void);
const char *gg_real_how(void); /* and how it was found, in words */

/* The processor type whose kernels the real BLAS runs, if it is an OpenBLAS and has been found already; else NULL. */
const char *gg_real_core(void);

/* ---- cpu.c ------------------------------------------------------------------------------------------------------------------------------- */

/* Computes all of *p on the CPU, by any Fortran gemm of the real BLAS or the gemv beside it, or by plain loops when there is none. Cannot fail.
 * Operands must be in host memory. For what a failing GPU left open, and for a spelling that the real BLAS lacks. */
void gg_real_gemm(const struct gg_gemm *p, const void *caller);

/* Computes all of *p by the gemv that lies beside this gemm of the real BLAS, if C is a vector, the library an OpenBLAS and the product not tiny.
 * False: C is untouched, and gemm is to be called; always so in GPUGEMM_MODE=cpu, where calls reach the real BLAS as they came. Operands must be in
 * host memory. */
bool gg_real_gemv(const struct gg_gemm *p, const void *gemm);

/* How many threads this gemm of the real BLAS may use now. 0: not known, or it is not OpenBLAS's. */
int gg_real_threads(const void *gemm, enum gg_type type);

/* C := beta C by plain loops. Used for k = 0 and alpha = 0, for which some BLAS read A and B all the same (OpenBLAS 0.3.26 on AVX-512 gives NaN for a
 * NaN there, and crashes when they are in GPU memory). */
void gg_real_scale(const struct gg_gemm *p);

#endif

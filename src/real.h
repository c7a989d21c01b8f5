/* real.h — the BLAS the program already has. real.c is the only file that searches for it. */
#ifndef GG_REAL_H
#define GG_REAL_H

#include "gemm.h"

/* Fortran's gemm, with integers of either width and floats or doubles behind the pointers, and the lengths of transa and transb that its compilers add. */
typedef void gg_f77_gemm(const char *, const char *, const void *, const void *, const void *, const void *, const void *, const void *, const void *,
                         const void *, const void *, void *, const void *, size_t, size_t);

/* The real BLAS's address for exactly this name, or NULL. Never an address of this library or of another copy of it. `caller`: the return
 * address of the call being served, to look in that object's own scope. Thread-safe; the first call may load OpenBLAS. */
void *gg_real_find(const char *name, const void *caller);

/* The address of `name` in what follows this library in the search order or in the caller's own scope, never by loading a BLAS. */
void *gg_real_near(const char *name, const void *caller);

/* Is this routine in an ILP64 library that uses the plain names (libblas64.so.3)? */
bool gg_real_is_ilp64(const void *routine);

/* The whole of *p on the CPU, by any Fortran gemm of the real BLAS, or by plain loops when there is none. Cannot fail.
 * Operands must be host memory. For the tiles a failing GPU left open, and for a spelling the real BLAS lacks. */
void gg_real_gemm(const struct gg_gemm *p, const void *caller);

/* C := beta C, by plain loops: the answer to k = 0 and alpha = 0, for which some BLAS read A and B all the same (OpenBLAS 0.3.26 on AVX-512 gives
 * NaN for a NaN there, and crashes when they are in GPU memory). */
void gg_real_scale(const struct gg_gemm *p);

/* This thread is inside the real BLAS on our behalf: reference BLAS and BLIS then call dgemm_ from their cblas_dgemm, back into us. */
extern _Thread_local int gg_real_depth;

static inline bool gg_real_inside(void)
{
    return gg_real_depth > 0;
}

static inline void gg_real_enter(void)
{
    gg_real_depth++;
}

static inline void gg_real_leave(void)
{
    gg_real_depth--;
}

/* Around whatever asks the dynamic loader: nobody forks in between. A thread may enter again. */
void gg_loader_enter(void);
void gg_loader_leave(void);

/* The i-th loaded object, opened once more, or NULL where that cannot be; false when there are no more. */
bool gg_loaded_object(int i, void **handle);

/* Where the real BLAS was found: a path for `gpugemm info`, "" before the first search, NULL if there is none. */
const char *gg_real_path(void);
const char *gg_real_how(void); /* and how it was found, in words */

/* The processor whose kernels it runs, if it is an OpenBLAS that was found before; NULL if not. */
const char *gg_real_core(void);

#endif

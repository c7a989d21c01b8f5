/* spellings.h — every exported name of sgemm and dgemm (src/symbols.def), and one function that calls any of them.
 *
 * A struct call holds a call's arguments as 64-bit integers and doubles; call_gemm converts them to the spelling's prototype: Fortran or CBLAS, 32-
 * or 64-bit integers. The function pointers come from dlsym; t_link.c is the test that links. */
#ifndef SPELLINGS_H
#define SPELLINGS_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

struct spelling {
    const char *name;
    bool dbl, cblas, wide;
    void *address;
};

struct call {
    int layout;        /* CBLAS only: 101 row-major, 102 column-major */
    int transa, transb; /* a letter, or 111…113 for CBLAS */
    int64_t m, n, k, lda, ldb, ldc;
    const void *a, *b;
    void *c;
    double alpha, beta;
    size_t hidden; /* what a Fortran caller passes as the lengths of transa and transb */
};

#define CALL_FORTRAN(integer, real)                                                                                    \
    {                                                                                                                  \
        integer m = (integer)x->m, n = (integer)x->n, k = (integer)x->k;                                               \
        integer lda = (integer)x->lda, ldb = (integer)x->ldb, ldc = (integer)x->ldc;                                   \
        real alpha = (real)x->alpha, beta = (real)x->beta;                                                             \
        char ta = (char)x->transa, tb = (char)x->transb;                                                               \
        ((void (*)(const char *, const char *, const integer *, const integer *, const integer *, const real *,        \
                   const void *, const integer *, const void *, const integer *, const real *, void *,                 \
                   const integer *, size_t, size_t))s->address)(&ta, &tb, &m, &n, &k, &alpha, x->a, &lda, x->b, &ldb,  \
                                                                &beta, x->c, &ldc, x->hidden, x->hidden);              \
    }

#define CALL_CBLAS(integer, real)                                                                                      \
    ((void (*)(int, int, int, integer, integer, integer, real, const void *, integer, const void *, integer, real,     \
               void *, integer))s->address)(x->layout, x->transa, x->transb, (integer)x->m, (integer)x->n,             \
                                            (integer)x->k, (real)x->alpha, x->a, (integer)x->lda, x->b,                \
                                            (integer)x->ldb, (real)x->beta, x->c, (integer)x->ldc)

static inline void call_gemm(const struct spelling *s, const struct call *x)
{
    switch (s->cblas * 4 + s->wide * 2 + s->dbl) {
    case 0: CALL_FORTRAN(int32_t, float) break;
    case 1: CALL_FORTRAN(int32_t, double) break;
    case 2: CALL_FORTRAN(int64_t, float) break;
    case 3: CALL_FORTRAN(int64_t, double) break;
    case 4: CALL_CBLAS(int32_t, float); break;
    case 5: CALL_CBLAS(int32_t, double); break;
    case 6: CALL_CBLAS(int64_t, float); break;
    case 7: CALL_CBLAS(int64_t, double); break;
    }
}

enum { SPELLED_S, SPELLED_D, SPELLED_F77_32 = 0, SPELLED_F77_64 = 1, SPELLED_CBLAS_32 = 2, SPELLED_CBLAS_64 = 3 };
static struct spelling spellings[] = {
#define X(name, type, abi) {#name, SPELLED_##type, SPELLED_##abi / 2, SPELLED_##abi % 2, NULL},
#include "../src/symbols.def"
};
enum { SPELLINGS = sizeof spellings / sizeof *spellings };

/* Opens a library by path, or the process's own scope for NULL. Exits with 77 if it cannot be opened. */
static inline void *open_library(const char *path, int flags)
{
    void *handle = dlopen(path, RTLD_NOW | flags);
    if (!handle) {
        fprintf(stderr, "skipped: %s\n", dlerror());
        exit(77);
    }
    return handle;
}

/* Finds every spelling in `library`. Returns how many were found. */
static inline int find_spellings(void *library)
{
    int found = 0;
    for (int i = 0; i < SPELLINGS; i++)
        found += (spellings[i].address = dlsym(library, spellings[i].name)) != NULL;
    return found;
}

#endif

/* modules.c — for t_modules.sh, which compiles it as a BLAS with INT integers (-DBLAS; -DCOPY: it has a dcopy_), as a module that calls that BLAS
 * under its plain names (-DMODULE), and as a program that loads modules, each in a scope of its own, as Python does. "close" among the modules closes
 * the last one. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#if defined(COPY)
void dcopy_(const INT *, const double *, const INT *, double *, const INT *);
#endif

#if defined(BLAS)
void dgemm_(const char *, const char *, const INT *, const INT *, const INT *, const double *, const double *, const INT *, const double *,
            const INT *, const double *, double *, const INT *);
void dgemm_(const char *transa, const char *transb, const INT *m, const INT *n, const INT *k, const double *alpha, const double *a, const INT *lda,
            const double *b, const INT *ldb, const double *beta, double *c, const INT *ldc)
{
    (void)transa, (void)transb, (void)beta;
    for (INT j = 0; j < *n && *m == 2; j++) /* m != 2: the integers have another width than the caller's */
        for (INT i = 0; i < *m; i++) {
            c[i + j * *ldc] = 0;
            for (INT l = 0; l < *k; l++)
                c[i + j * *ldc] += *alpha * a[i + l * *lda] * b[l + j * *ldb];
        }
}
#ifdef COPY
void dcopy_(const INT *n, const double *x, const INT *incx, double *y, const INT *incy)
{
    for (INT i = 0; i < *n; i++)
        y[i * *incy] = x[i * *incx];
}
#endif
#elif defined(MODULE)
void dgemm_(const char *, const char *, const INT *, const INT *, const INT *, const double *, const double *, const INT *, const double *,
            const INT *, const double *, double *, const INT *);
int wrong(void);
int wrong(void)
{
    static const INT two[2] = {2, 12345}; /* what follows an integer in memory is not part of it */
    static const double one = 1, zero = 0, a[4] = {1, 2, 3, 4}, b[4] = {0, 1, 1, 0}, expected[4] = {3, 4, 1, 2};
    double c[4] = {9, 9, 9, 9};
    int wrong = 0;
    dgemm_("N", "N", two, two, two, &one, a, two, b, two, &zero, c, two);
    for (int i = 0; i < 4; i++)
        wrong += c[i] != expected[i];
#ifdef COPY
    dcopy_(two, a, two, c, two);
    wrong += c[0] != 1 || c[1] != 4 || c[2] != 3 || c[3] != 2;
#endif
    return wrong;
}
#else
int main(int argc, char **argv)
{
    int failures = 0;
    void *module = NULL;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "close")) {
            dlclose(module);
            continue;
        }
        module = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
        int (*wrong)(void) = NULL;
        if (module)
            *(void **)&wrong = dlsym(module, "wrong");
        if (!wrong || wrong())
            failures++, printf("%s: %s\n", argv[i], wrong ? "wrong" : dlerror());
    }
    return failures;
}
#endif

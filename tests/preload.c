/* preload.c — the programs and libraries of t_preload.sh, one role per compilation:
 *   ROLE_SPY     a BLAS that computes nothing but records its arguments; its cblas_dgemm calls dgemm_ through the PLT, as the
 *                reference and BLIS do
 *   ROLE_USER    an object that calls BLAS and knows what must have reached the spy: the caller's own addresses, exactly once
 *   ROLE_MAIN    a program linked with the user, or that loads it RTLD_LOCAL when given a path (as Python does)
 *   ROLE_TIMER   how much longer /bin/true takes with LD_PRELOAD=argv[1], in milliseconds */
#include <stddef.h>
#include <stdio.h>

#if defined ROLE_SPY || defined ROLE_USER
struct seen {
    int dgemm, cblas_dgemm;
    const void *arguments[15];
    size_t hidden[2];
};
void dgemm_(const char *, const char *, const int *, const int *, const int *, const double *, const double *, const int *, const double *,
            const int *, const double *, double *, const int *, size_t, size_t);
void cblas_dgemm(int, int, int, int, int, int, double, const double *, int, const double *, int, double, double *, int);
#endif

#ifdef ROLE_SPY
struct seen spy_seen;

void dgemm_(const char *transa, const char *transb, const int *m, const int *n, const int *k, const double *alpha, const double *a, const int *lda,
            const double *b, const int *ldb, const double *beta, double *c, const int *ldc, size_t la, size_t lb)
{
    spy_seen = (struct seen){spy_seen.dgemm + 1, spy_seen.cblas_dgemm, {transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc}, {la, lb}};
    *c = 4242;
}

void cblas_dgemm(int layout, int ta, int tb, int m, int n, int k, double alpha, const double *a, int lda, const double *b, int ldb, double beta,
                 double *c, int ldc)
{
    spy_seen.cblas_dgemm += layout == 102 && ta == 112 && tb == 111;
    dgemm_("T", "N", &m, &n, &k, &alpha, a, &lda, b, &ldb, &beta, c, &ldc, 1, 1);
}

double ddot_(const int *n, const double *x, const int *incx, const double *y, const int *incy)
{
    return *n * 100 + *incx * 10 + *incy + (x == y); /* a result that no other ddot_ gives */
}
#endif

#ifdef ROLE_USER
extern struct seen spy_seen;
double ddot_(const int *, const double *, const int *, const double *, const int *);

int use_blas(void)
{
    static const char ta = 'T', tb = 'n';
    static const int m = 3, n = 4, k = 5, lda = 6, ldb = 7, ldc = 8, one = 1;
    static const double alpha = 0.5, beta = 2;
    double a[64] = {0}, b[64] = {0}, c[64] = {0};
    int failures = 0;
#define EXPECT(x) ((x) ? 0 : (failures++, fprintf(stderr, "preload.c:%d: %s\n", __LINE__, #x)))
    dgemm_(&ta, &tb, &m, &n, &k, &alpha, a, &lda, b, &ldb, &beta, c, &ldc, 1, 1);
    const void *mine[] = {&ta, &tb, &m, &n, &k, &alpha, a, &lda, b, &ldb, &beta, c, &ldc};
    EXPECT(spy_seen.dgemm == 1);
    EXPECT(c[0] == 4242);
    for (int i = 0; i < 13; i++)
        EXPECT(spy_seen.arguments[i] == mine[i]);
    EXPECT(spy_seen.hidden[0] == 1 && spy_seen.hidden[1] == 1);
    cblas_dgemm(102, 112, 111, m, n, k, alpha, a, lda, b, ldb, beta, c + 9, ldc);
    EXPECT(spy_seen.cblas_dgemm == 1 && spy_seen.dgemm == 2);
    EXPECT(spy_seen.arguments[11] == c + 9 && c[9] == 4242);
    EXPECT(ddot_(&m, a, &one, a, &one) == 312);
    EXPECT(ddot_(&m, a, &one, b, &one) == 311);
    return failures;
}
#endif

#ifdef ROLE_MAIN
#include <dlfcn.h>
#include <string.h>

int use_blas(void);
#pragma weak use_blas

int main(int argc, char **argv)
{
    int (*use)(void) = use_blas;
    void *object = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    if (argc > 1 && (!object || !(*(void **)&use = dlsym(object, "use_blas"))))
        return fprintf(stderr, "%s\n", dlerror()), 1;
    int failures = use();
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, maps)) /* the program has a BLAS: a second one must not be loaded */
        if (strstr(line, "openblas") || strstr(line, "libcuda"))
            return fprintf(stderr, "loaded: %s", line), 1;
    return failures != 0;
}
#endif

#ifdef ROLE_TIMER
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>

static int ascending(const void *a, const void *b)
{
    return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

int main(int argc, char **argv)
{
    enum { RUNS = 400 };
    static double ms[2][RUNS];
    char preload[4096];
    snprintf(preload, sizeof preload, "LD_PRELOAD=%s", argc > 1 ? argv[1] : "");
    for (int run = 0; run < RUNS; run++)
        for (int with = 0; with < 2; with++) {
            char *environment[] = {with ? preload : NULL, NULL}, *arguments[] = {"/bin/true", NULL};
            struct timespec t0, t1;
            pid_t child;
            int status;
            clock_gettime(CLOCK_MONOTONIC, &t0);
            if (posix_spawn(&child, arguments[0], NULL, NULL, arguments, environment) || waitpid(child, &status, 0) < 0 || status)
                return 1;
            clock_gettime(CLOCK_MONOTONIC, &t1);
            ms[with][run] = 1e3 * (double)(t1.tv_sec - t0.tv_sec) + 1e-6 * (double)(t1.tv_nsec - t0.tv_nsec);
        }
    for (int with = 0; with < 2; with++)
        qsort(ms[with], RUNS, sizeof(double), ascending);
    printf("%.3f\n", ms[1][RUNS / 2] - ms[0][RUNS / 2]);
    return 0;
}
#endif

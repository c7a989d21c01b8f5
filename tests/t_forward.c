/* t_forward.c — the programs and libraries of t_forward.sh, one role per compilation. The names are BLAS's, the signatures are not: they fill every
 * argument register and the stack, and return every kind of result.
 *   ROLE_BLAS=1,2  a library that knows its number; all of its functions report what reached them
 *   ROLE_USER=1,2  an object that came with that BLAS, defines a xerbla_ of its own, and checks that it gets both of these
 *   ROLE_MAIN      loads both users RTLD_LOCAL and calls them in turn, from threads that all make their first calls at once */
#include <complex.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct large {
    long values[6];
};
#define EIGHT(T, x) T x##0, T x##1, T x##2, T x##3, T x##4, T x##5, T x##6, T x##7
double complex zdotc_(EIGHT(long, i), EIGHT(double, d), long stack, double stacked);
struct large cgeru_(EIGHT(long, i), EIGHT(float, f), float stacked);
float sdsdot_(const float *x);
int cblas_icamax(void);
double cblas_dasum(const char *types, ...);
void xerbla_(const char *routine, const int *info, size_t length);
void dtbmv_(const int *info);

#if defined ROLE_BLAS

double complex zdotc_(EIGHT(long, i), EIGHT(double, d), long stack, double stacked)
{
    long i = i0 + 2 * i1 + 3 * i2 + 4 * i3 + 5 * i4 + 6 * i5 + 7 * i6 + 8 * i7 + 9 * stack;
    double d = d0 + 2 * d1 + 3 * d2 + 4 * d3 + 5 * d4 + 6 * d5 + 7 * d6 + 8 * d7 + 9 * stacked;
    return ROLE_BLAS * 1000 + i + d * I;
}
struct large cgeru_(EIGHT(long, i), EIGHT(float, f), float stacked)
{
    return (struct large){{ROLE_BLAS, i0 + 2 * i1 + 3 * i2, i3 + 2 * i4 + 3 * i5, i6 + 2 * i7, (long)(f0 + 2 * f1 + 3 * f2 + 4 * f3),
                           (long)(f4 + 2 * f5 + 3 * f6 + 4 * f7 + 5 * stacked)}};
}
float sdsdot_(const float *x) { return *x + ROLE_BLAS; }
int cblas_icamax(void) { return ROLE_BLAS; }
double cblas_dasum(const char *types, ...)
{
    va_list args;
    va_start(args, types);
    double sum = 1000 * ROLE_BLAS;
    for (; *types; types++)
        sum += *types == 'd' ? va_arg(args, double) : (double)va_arg(args, int);
    va_end(args);
    return sum;
}
void xerbla_(const char *routine, const int *info, size_t length)
{
    printf("xerbla_ of BLAS %d: %.*s %d\n", ROLE_BLAS, (int)length, routine, *info);
}
void dtbmv_(const int *info) { xerbla_("DGEMV ", info, 6); }

#elif defined ROLE_USER

static __thread int told;
void xerbla_(const char *routine, const int *info, size_t length)
{
    told = length == 6 && !memcmp(routine, "DGEMV ", 6) ? *info : -1;
}

/* The number of the first thing that is wrong, 0 if everything is right. */
int use(void)
{
    float x = 0.5f;
    int info = 7;
    if (zdotc_(1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8, 9, 9) != ROLE_USER * 1000 + 285 + 285 * I)
        return 1;
    struct large l = cgeru_(1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8, 9);
    if (memcmp(&l, &(struct large){{ROLE_USER, 14, 32, 23, 30, 115}}, sizeof l))
        return 2;
    if (sdsdot_(&x) != 0.5f + ROLE_USER)
        return 3;
    if (cblas_icamax() != ROLE_USER)
        return 4;
    if (cblas_dasum("didddddddddiiiiii", 1.0, 2, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 1, 2, 3, 4, 5, 6) != ROLE_USER * 1000 + 69)
        return 5;
    xerbla_("DGEMV ", &info, 6);
    if (told != 7)
        return 6;
    told = 0;
    dtbmv_(&info); /* the BLAS calls xerbla_: ours, not its own */
    return told == 7 ? 0 : 7;
}

#elif defined ROLE_MAIN

#include <dlfcn.h>
#include <pthread.h>

enum { THREADS = 8, ROUNDS = 200 };
static int (*use[2])(void);
static pthread_barrier_t together;
static _Atomic int failures;

static void *turns(void *which)
{
    int first = *(int *)which & 1;
    pthread_barrier_wait(&together);
    for (int i = 0; i < ROUNDS; i++)
        for (int j = 0; j < 2; j++) {
            int wrong = use[(first + j) & 1]();
            if (wrong && failures++ < 10)
                printf("user %d: check %d failed\n", ((first + j) & 1) + 1, wrong);
        }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    int numbers[THREADS];
    for (int i = 0; i < 2; i++) {
        void *user = dlopen(argc > i + 1 ? argv[i + 1] : "", RTLD_NOW | RTLD_LOCAL);
        *(void **)&use[i] = user ? dlsym(user, "use") : NULL;
        if (!use[i])
            return printf("%s\n", dlerror()), 2;
    }
    pthread_barrier_init(&together, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        pthread_create(&threads[i], NULL, turns, &numbers[i]);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    return failures != 0;
}

#endif

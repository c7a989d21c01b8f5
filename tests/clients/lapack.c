/* Reference LAPACK over a BLAS: LU and Cholesky, blocked (dgetrf, dpotrf: updates of rank 64) and recursive (dgetrf2, dpotrf2), and a solve.
 * N is the size, CASES the cases wanted (all). */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void dgetrf_(int *, int *, double *, int *, int *, int *);
void dgetrf2_(int *, int *, double *, int *, int *, int *);
void dpotrf_(const char *, int *, double *, int *, int *, size_t);
void dpotrf2_(const char *, int *, double *, int *, int *, size_t);
void dgesv_(int *, int *, double *, int *, int *, double *, int *, int *);

static int n, *pivots;
static double *a, *b;

/* Random and symmetric with a heavy diagonal: positive definite. */
static void fill(double *x)
{
    srand(1);
    for (int j = 0; j < n; j++)
        for (int i = 0; i <= j; i++)
            x[i + (size_t)j * n] = x[j + (size_t)i * n] = (double)rand() / RAND_MAX - 0.5 + (i == j) * n;
}

static bool is_wanted(const char *name)
{
    const char *cases = getenv("CASES");
    size_t length = strlen(name);
    for (const char *word = cases; word; word = strchr(word, ','), word += word != NULL)
        if (strncmp(word, name, length) == 0 && (word[length] == ',' || !word[length]))
            return true;
    return !cases;
}

static void answer(const char *name, void (*compute)(int *info))
{
    struct timespec t[2];
    int info;
    if (!is_wanted(name))
        return;
    fill(a);
    clock_gettime(CLOCK_MONOTONIC, &t[0]);
    compute(&info);
    clock_gettime(CLOCK_MONOTONIC, &t[1]);
    double sum = 0;
    for (size_t i = 0; i < (size_t)n * n; i++)
        sum += a[i] * a[i];
    printf("time %s %.6f\n%s %.15g\n", name, (double)(t[1].tv_sec - t[0].tv_sec) + 1e-9 * (double)(t[1].tv_nsec - t[0].tv_nsec), name,
           sqrt(sum) + info);
}

static void getrf(int *info) { dgetrf_(&n, &n, a, &n, pivots, info); }
static void getrf2(int *info) { dgetrf2_(&n, &n, a, &n, pivots, info); }
static void potrf(int *info) { dpotrf_("L", &n, a, &n, info, 1); }
static void potrf2(int *info) { dpotrf2_("L", &n, a, &n, info, 1); }
static void gesv(int *info)
{
    memset(b, 0, (size_t)n * n * sizeof *b);
    for (int i = 0; i < n; i++)
        b[i + (size_t)i * n] = 1;
    dgesv_(&n, &n, a, &n, pivots, b, &n, info);
}

int main(void)
{
    n = getenv("N") ? atoi(getenv("N")) : 400;
    a = malloc((size_t)n * n * sizeof *a);
    b = malloc((size_t)n * n * sizeof *b);
    pivots = malloc((size_t)n * sizeof *pivots);
    if (!a || !b || !pivots)
        return 1;
    answer("dgetrf", getrf);
    answer("dgetrf2_recursive", getrf2);
    answer("dpotrf", potrf);
    answer("dpotrf2_recursive", potrf2);
    answer("dgesv_n_right_sides", gesv);
    return 0;
}

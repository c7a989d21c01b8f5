/* t_gemv.c — products whose C is a row or a column, which the CPU computes by gemv if its BLAS is an OpenBLAS.
 *
 *   t_gemv [--lib PATH] [--blas PATH] [--expect gemm|gemv] [--ilp64]
 *
 * Every spelling that the BLAS has, both orders, all transposes, C a row, a column or one element, on both sides of the least size: every element is
 * within its error bound; where beta is 0, C is NaN; the operands lie at guard pages, with NaN in all padding, and no other byte of C changes. Before
 * that, all spellings in forked children and from several threads at once.
 * --expect: the BLAS is gemv_blas.c's, and large products must reach this routine of it, all others, and those of short lines, its gemm.
 * --ilp64: that BLAS has 64-bit integers under the plain names. */
#include "exact.h"

#include <pthread.h>
#include <sys/wait.h>

/* The first FULL with all pairs of alpha and beta, the others with some. */
static const int64_t shapes[][3] = {{523, 1, 509}, {1, 509, 523}, {1, 1, 270001}, {53, 1, 5003}, {5003, 1, 53},  {1, 53, 5003},
                                    {1, 5003, 53}, {512, 1, 512}, {1, 512, 512},  {1, 512, 513}, {9, 1, 120001}, {1, 7, 150001}};
enum { SHAPES = sizeof shapes / sizeof *shapes, LARGE = 512 * 512 + 1, PAD = 2, FAR = 87382, FULL = 3 };

/* gpugemm.h's own names, which have a further argument. */
static struct spelling api[2] = {{"gpugemm_sgemm", false, true, true, NULL}, {"gpugemm_dgemm", true, true, true, NULL}};
static __typeof__(gpugemm_sgemm) *single;
static __typeof__(gpugemm_dgemm) *twice;

struct product {
    bool dbl, ta, tb;
    int64_t m, n, k;
    struct matrix a, b, c;
    long double *sum, *absolute; /* op(A) op(B), and that of the absolute values */
};

static struct arena arena[3]; /* of A, B and C */
static unsigned char *before; /* what was in C's before the call */
static bool expect_gemv, ilp64;
static atomic_int *counted; /* calls of gemm and of gemv; NULL: not known */

static struct matrix operand(int which, bool dbl, bool t, int64_t m, int64_t n, bool at_end, uint64_t *seed)
{
    struct matrix x = {dbl, t ? n : m, t ? m : n, (t ? n : m) + PAD, NULL};
    matrix_place(&x, arena[which], at_end, 0);
    for (int64_t j = 0; j < x.outer; j++)
        for (int64_t i = 0; i < x.inner; i++)
            matrix_set(&x, i, j, rng_real(seed));
    return x;
}

static double get(const struct matrix *x, bool t, int64_t i, int64_t j) { return t ? matrix_get(x, j, i) : matrix_get(x, i, j); }

static void multiply(struct product *p)
{
    const size_t bytes = (size_t)(p->m * p->n) * sizeof *p->sum;
    p->sum = memset(malloc(bytes), 0, bytes);
    p->absolute = memset(malloc(bytes), 0, bytes);
    for (int64_t at = 0; at < p->m * p->n; at++)
        for (int64_t l = 0; l < p->k; l++) {
            const long double x = (long double)get(&p->a, p->ta, at % p->m, l) * (long double)get(&p->b, p->tb, l, at / p->m);
            p->sum[at] += x;
            p->absolute[at] += fabsl(x);
        }
}

static void call_product(const struct spelling *s, bool rows, const struct product *p, double alpha, double beta)
{
    const int none = s->cblas ? 111 : 'N', trans = s->cblas ? 112 : 'T', ta = p->ta ? trans : none, tb = p->tb ? trans : none;
    struct call x = {102, ta, tb, p->m, p->n, p->k, p->a.ld, p->b.ld, p->c.ld, p->a.data, p->b.data, p->c.data, alpha, beta, 1};
    if (rows) /* C^T = op(B)^T op(A)^T, in the same memory */
        x = (struct call){101, tb, ta, p->n, p->m, p->k, p->b.ld, p->a.ld, p->c.ld, p->b.data, p->a.data, p->c.data, alpha, beta, 1};
    if (s == &api[0])
        single(x.layout, x.transa, x.transb, x.m, x.n, x.k, (float)alpha, x.a, x.lda, x.b, x.ldb, (float)beta, x.c, x.ldc, NULL);
    else if (s == &api[1])
        twice(x.layout, x.transa, x.transb, x.m, x.n, x.k, alpha, x.a, x.lda, x.b, x.ldb, beta, x.c, x.ldc, NULL);
    else
        call_gemm(s, &x);
}

static void try_call(const struct spelling *s, bool rows, struct product *p, double alpha, double beta)
{
    static uint64_t seed;
    char what[120];
    snprintf(what, sizeof what, "%s%s, %c%c %d x %d x %d, alpha %g, beta %g", s->name, rows ? " by rows" : "", p->ta ? 'T' : 'N', p->tb ? 'T' : 'N',
             (int)p->m, (int)p->n, (int)p->k, alpha, beta);
    p->c = operand(2, p->dbl, false, p->m, p->n, rng(&seed) % 2, &seed);
    for (int64_t at = 0; beta == 0 && at < p->m * p->n; at++)
        matrix_set(&p->c, at % p->m, at / p->m, NAN);
    memcpy(before, arena[2].lo, (size_t)(arena[2].hi - arena[2].lo));
    struct matrix old = p->c;
    old.data = before + (p->c.data - arena[2].lo);
    struct gpugemm_stats stats[2];
    read_stats(&stats[0], sizeof stats[0]);
    const int gemms = counted ? counted[0] : 0, gemvs = counted ? counted[1] : 0;

    call_product(s, rows, p, alpha, beta);

    read_stats(&stats[1], sizeof stats[1]);
    CHECK(stats[1].calls == stats[0].calls + 1 && stats[1].cpu == stats[0].cpu + 1, "%s: not counted once, as the CPU's", what);
    /* The bound is not test.h's: gemv may begin each sum with beta C. */
    const double al = p->dbl ? alpha : (double)(float)alpha, be = p->dbl ? beta : (double)(float)beta;
    for (int64_t at = 0; at < p->m * p->n; at++) {
        const int64_t i = at % p->m, j = at / p->m;
        const double got = matrix_get(&p->c, i, j), c = beta == 0 ? 0 : matrix_get(&old, i, j);
        const double error = (double)fabsl((long double)got - (al * p->sum[at] + (long double)be * c));
        const double scale = (double)(fabs(al) * p->absolute[at]) + fabs(be * c), bound = gamma_k(p->dbl, (double)p->k + 2) * scale;
        CHECK(error <= bound, "%s: element %d is %g, off by %g, more than %g", what, (int)at, got, error, bound);
        matrix_set(&old, i, j, got);
    }
    CHECK(!memcmp(before, arena[2].lo, (size_t)(arena[2].hi - arena[2].lo)), "%s: wrote beside C", what);
    const bool aligned = ((uintptr_t)p->a.data | (uintptr_t)p->b.data) % matrix_element(&p->c) == 0;
    const bool loops = s == &api[p->dbl] && p->a.ld > INT32_MAX; /* neither routine of a BLAS with 32-bit integers can do it */
    const bool dots = p->n == 1 ? p->ta : !p->tb, is_long = (dots ? p->k : p->m * p->n) >= (dots || p->m * p->n * p->k > 1000000 ? 8 : 256);
    const bool gemv = expect_gemv && !loops && alpha != 0 && aligned && p->m * p->n * p->k >= LARGE && is_long,
               gemm = !loops && !gemv && alpha != 0;
    CHECK(!counted || (counted[0] == gemms + gemm && counted[1] == gemvs + gemv), "%s: gemm was called %d times, gemv %d times", what,
          counted[0] - gemms, counted[1] - gemvs);
}

static void try_shape(bool dbl, bool ta, bool tb, const int64_t shape[3])
{
    static const double scalars[] = {0, 1, -1, 0.7};
    struct product p = {dbl, ta, tb, shape[0], shape[1], shape[2], .sum = NULL};
    uint64_t seed = (uint64_t)shape[0];
    p.a = operand(0, dbl, ta, p.m, p.k, ta, &seed);
    p.b = operand(1, dbl, tb, p.k, p.n, tb, &seed);
    multiply(&p);
    for (int i = 0; i < 2 * SPELLINGS + 2; i++) {
        const struct spelling *s = i < 2 * SPELLINGS ? &spellings[i / 2] : &api[dbl];
        for (int v = 0; v < 16 && s->address && s->dbl == dbl && (s->cblas || i % 2 == 0); v += shape < shapes[FULL] ? 1 : 7)
            try_call(s, i % 2, &p, scalars[v / 4], scalars[v % 4]);
    }
    p.a.data = memmove(arena[0].lo + 2, p.a.data, matrix_span(&p.a)); /* elements that are not aligned crash some CPUs' gemv */
    for (int i = 0; i < SPELLINGS; i++)
        if (spellings[i].address && spellings[i].dbl == dbl)
            try_call(&spellings[i], false, &p, 1, 0);
    free(p.sum), free(p.absolute);
}

/* The columns of A are further apart than 32-bit integers can tell. */
static void try_far(void)
{
    struct product p = {.m = FAR, .n = 1, .k = 3};
    const int64_t far = (int64_t)INT32_MAX + 2, bytes = (2 * far + p.m) * (int64_t)sizeof(float);
    uint64_t seed = 1;
    p.a =
        (struct matrix){false, p.m, p.k, far, mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)};
    if (p.a.data == MAP_FAILED)
        return (void)printf("no memory for columns that are far apart\n");
    for (int64_t i = 0; i < p.m * p.k; i++)
        matrix_set(&p.a, i % p.m, i / p.m, rng_real(&seed));
    p.b = operand(1, false, false, p.k, p.n, true, &seed);
    multiply(&p);
    for (int i = 0; i < SPELLINGS; i++)
        if (spellings[i].address && spellings[i].wide && !spellings[i].dbl)
            try_call(&spellings[i], false, &p, 1, 0);
    if (api[0].address)
        try_call(&api[0], false, &p, 1, 0);
    munmap(p.a.data, (size_t)bytes);
    free(p.sum), free(p.absolute);
}

static void *every_spelling(void *who)
{
    for (int i = 0; i < 2 * SPELLINGS; i++) {
        const struct spelling *s = &spellings[i / 2];
        double c[600];
        const int64_t wrong = !s->address ? 0 : i % 2 ? exact_gemm(s, 1, 600, 600, c, 1, 1) : exact_gemm(s, 600, 1, 600, c, 600, 2);
        CHECK(!wrong, "%s, %s: %d wrong", (const char *)who, s->name, (int)wrong);
    }
    return NULL;
}

static void in_child(const char *who)
{
    int status = -1;
    const pid_t child = fork();
    if (child == 0) {
        alarm(60);
        every_spelling((void *)who);
        _exit(test_failures != 0);
    }
    waitpid(child, &status, 0);
    CHECK(status == 0, "%s: wait status %d", who, status);
}

int main(int argc, char **argv)
{
    const char *path = "build/libgpugemm.so", *blas = NULL;
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (!strcmp(argv[i], "--lib"))
            path = value;
        if (!strcmp(argv[i], "--blas"))
            setenv("GPUGEMM_BLAS", blas = value, 1);
        ilp64 = ilp64 || !strcmp(argv[i], "--ilp64");
        expect_gemv = expect_gemv || (!strcmp(argv[i], "--expect") && !strcmp(value, "gemv"));
    }
    setenv("CUDA_VISIBLE_DEVICES", "", 1); /* a GPU might serve some */
    open_by_arguments(argc, argv);
    void *library = blas ? open_library(blas, RTLD_LOCAL) : NULL, *tested = open_library(path, RTLD_LOCAL);
    counted = library ? dlsym(library, "counted") : NULL;
    for (int i = 0; i < SPELLINGS && library; i++) /* else calls would go to another BLAS */
        if (!dlsym(library, spellings[i].name))
            spellings[i].address = NULL;
        else if (ilp64)
            spellings[i].wide = true;
    *(void **)&single = dlsym(tested, "gpugemm_sgemm"), *(void **)&twice = dlsym(tested, "gpugemm_dgemm");
    if (!library || (dlsym(library, "dgemm_") && !ilp64)) /* which of several BLASes they would call is not to be tested */
        api[0].address = *(void **)&single, api[1].address = *(void **)&twice;
    in_child("a child, first");
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, every_spelling, "threads");
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    in_child("a child of a parent that has called");
    for (int x = 0; x < 3; x++)
        arena[x] = arena_new((x < 2 ? 150001 * (9 + PAD) : FAR) * sizeof(double));
    before = malloc((size_t)(arena[2].hi - arena[2].lo));
    for (int i = 0; i < 8 * SHAPES; i++)
        try_shape(i & 1, i & 2, i & 4, shapes[i / 8]);
    try_far();
    CHECK(!counted || (counted[1] > 0) == expect_gemv, "gemv was called %d times", counted[1]);
    printf("%s: %d failures\n", blas ? blas : "the BLAS here", test_failures);
    return test_failures != 0;
}

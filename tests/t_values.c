/* t_values.c — properties that a trusted gemm has and the stock testers do not check (each caught a planted bug that they let pass).
 *
 *   t_values [--lib PATH] [--expect-gpu] [--large] [--deep] [--residual N] [--type s|d]
 *
 * Scaling by powers of two is exact outside (rows of A, columns of B) and inside (A D, D^-1 B): decisive against fixed point. Zero rows give exact
 * zeros: against Strassen. The error is that of a dot product, not of k roundings in the same direction. Subnormals, the ends of the range, NaN and
 * Inf behave as in IEEE arithmetic. Integers are exact. Leading dimensions and sizes exceed 2^31. --large: only these, sizes with more than 2^31
 * elements, and 16384 cubed; needs 60 GB and a GPU. --deep: instead a k that is summed in two turns where the link is told to be fast. */
#include "test.h"

#include "../include/gpugemm.h"
#include "spellings.h"

static const struct spelling *gemm[2], *gemm64[2]; /* by type: sgemm_, dgemm_ and the 64-bit ones */
static const char *type_name[2] = {"sgemm", "dgemm"};

/* C := alpha A B + beta C for column-major doubles without padding; for the call they are stored with the type, the transposes and the padding that
 * it needs. */
struct product {
    bool dbl, ta, tb;
    int64_t m, n, k, pad;
    double alpha, beta;
    double *a, *b, *c;
};

static struct matrix store(const struct product *p, const double *x, int64_t rows, int64_t cols, bool swap, size_t offset)
{
    struct matrix y = {.dbl = p->dbl, .inner = swap ? cols : rows, .outer = swap ? rows : cols};
    y.ld = (y.inner > 1 ? y.inner : 1) + p->pad;
    y.data = malloc(matrix_span(&y) + offset + 64);
    y.data += offset;
    for (int64_t j = 0; j < cols; j++)
        for (int64_t i = 0; i < rows; i++)
            matrix_set(&y, swap ? j : i, swap ? i : j, x[i + j * rows]);
    return y;
}

static void multiply(const struct product *p)
{
    size_t offset = (size_t)p->pad * (p->dbl ? 8 : 4);
    struct matrix a = store(p, p->a, p->m, p->k, p->ta, offset), b = store(p, p->b, p->k, p->n, p->tb, offset);
    struct matrix c = store(p, p->c, p->m, p->n, false, offset);
    call_gemm(gemm[p->dbl], &(struct call){0, p->ta ? 't' : 'n', p->tb ? 'c' : 'N', p->m, p->n, p->k, a.ld, b.ld, c.ld, a.data,
                                           b.data, c.data, p->alpha, p->beta, 1});
    for (int64_t j = 0; j < p->n; j++)
        for (int64_t i = 0; i < p->m; i++)
            p->c[i + j * p->m] = matrix_get(&c, i, j);
    free(a.data - offset), free(b.data - offset), free(c.data - offset);
}

static double *array(int64_t n) { return calloc((size_t)n + 1, sizeof(double)); }

/* Magnitudes in [0.5, 1): far from underflow, whatever exact scaling is applied. Floats, so that both types hold them exactly. */
static double *draw(uint64_t *r, int64_t n)
{
    double *x = array(n);
    for (int64_t i = 0; i < n; i++) {
        double v = (float)(0.5 + 0.25 * (rng_real(r) + 1));
        x[i] = rng(r) & 1 ? v : -v;
    }
    return x;
}

static struct product draw_product(uint64_t *r, bool dbl, int layout, int64_t m, int64_t n, int64_t k)
{
    return (struct product){dbl, layout & 2, layout & 1, m, n, k, layout, 1, 0, draw(r, m * k), draw(r, k * n), array(m * n)};
}

static void release(struct product *p) { free(p->a), free(p->b), free(p->c); }

static void scaling(uint64_t *r, bool dbl, int layout)
{
    enum { M = 100, N = 90, K = 110 };
    int far = dbl ? 300 : 30;
    struct product p = draw_product(r, dbl, layout, M, N, K);
    double *plain = array(M * N), *a = array(M * K), *b = array(K * N);
    memcpy(a, p.a, sizeof(double) * M * K), memcpy(b, p.b, sizeof(double) * K * N);
    multiply(&p);
    memcpy(plain, p.c, sizeof(double) * M * N);
    multiply(&p);
    CHECK(!memcmp(plain, p.c, sizeof(double) * M * N), "%s: the same call twice, two results", type_name[dbl]);
    for (int i = 0; i < M * K; i++)
        p.a[i] = ldexp(a[i], -(i % M) * far / M);
    for (int i = 0; i < K * N; i++)
        p.b[i] = ldexp(b[i], -(i / K) * far / N);
    multiply(&p);
    int wrong = 0;
    for (int i = 0; i < M * N; i++)
        wrong += p.c[i] != ldexp(plain[i], -(i % M) * far / M - (i / M) * far / N);
    CHECK(!wrong, "%s layout %d: outer scaling is inexact in %d of %d", type_name[dbl], layout, wrong, M * N);
    for (int i = 0; i < M * K; i++)
        p.a[i] = ldexp(a[i], i / M * 37 % 100 * far / 100);
    for (int i = 0; i < K * N; i++)
        p.b[i] = ldexp(b[i], -(i % K * 37 % 100 * far / 100));
    multiply(&p);
    CHECK(!memcmp(plain, p.c, sizeof(double) * M * N), "%s layout %d: inner scaling is inexact", type_name[dbl], layout);
    free(plain), free(a), free(b), release(&p);
}

static void zeros(uint64_t *r, bool dbl, int layout)
{
    enum { N = 129 };
    struct product p = draw_product(r, dbl, layout, N, N, N);
    for (int i = 0; i < N; i++)
        for (int z = 3; z < N; z += 31)
            p.a[z + i * N] = 0, p.b[i + (z + 1) % N * N] = 0;
    multiply(&p);
    int wrong = 0;
    for (int i = 0; i < N; i++)
        for (int z = 3; z < N; z += 31)
            wrong += p.c[z + i * N] != 0 || p.c[i + (z + 1) % N * N] != 0;
    CHECK(!wrong, "%s layout %d: %d nonzero products of zero rows", type_name[dbl], layout, wrong);
    release(&p);
}

/* An element of A B, and in *size that of |A||B|. */
static long double element(const struct product *p, int64_t m, int64_t k, int64_t i, long double *size)
{
    long double sum = 0;
    *size = 0;
    for (int64_t l = 0; l < k; l++) {
        long double term = (long double)p->a[i % m + l * m] * p->b[l + i / m * k];
        sum += term, *size += fabsl(term);
    }
    return sum;
}

/* Checks max |C - C'| / (u |A||B|), which is 2.6 to 3.6 for real libraries at k = 96. */
static void error_ratio(uint64_t *r, bool dbl, int layout, int64_t m, int64_t n, int64_t k)
{
    struct product p = draw_product(r, dbl, layout, m, n, k);
    double worst = 0, u = dbl ? 0x1p-53 : 0x1p-24;
    multiply(&p);
    for (int64_t i = 0; i < m * n; i++) {
        long double size, sum = element(&p, m, k, i, &size);
        double ratio = fabs((double)(p.c[i] - sum)) / (u * (double)size);
        worst = ratio <= worst ? worst : isnan(ratio) ? INFINITY : ratio;
    }
    CHECK(worst <= 2 * sqrt((double)k) + 4, "%s layout %d, k = %lld: error ratio %.3g", type_name[dbl], layout, (long long)k, worst);
    release(&p);
}

static void integers(uint64_t *r, bool dbl, int layout)
{
    enum { M = 70, N = 131, K = 1111 };
    struct product p = draw_product(r, dbl, layout, M, N, K);
    int wrong = 0;
    for (int i = 0; i < M * K; i++)
        p.a[i] = (double)(rng_below(r, 17) - 8);
    for (int i = 0; i < K * N; i++)
        p.b[i] = (double)(rng_below(r, 17) - 8);
    for (int i = 0; i < M * N; i++)
        p.c[i] = i % 100;
    p.alpha = -2, p.beta = 3;
    multiply(&p);
    for (int i = 0; i < M * N; i++) {
        long sum = 0;
        for (int l = 0; l < K; l++)
            sum += (long)p.a[i % M + l * M] * (long)p.b[l + i / M * K];
        wrong += p.c[i] != (double)(-2 * sum + 3 * (i % 100));
    }
    CHECK(!wrong, "%s layout %d: %d of %d integer results inexact", type_name[dbl], layout, wrong, M * N);
    release(&p);
}

/* Sums of k products at 2^(ea + eb); `what` names that end of the range. */
static void range(uint64_t *r, bool dbl, int layout, int ea, int eb, const char *what)
{
    enum { M = 33, N = 35, K = 4 };
    struct product p = draw_product(r, dbl, layout, M, N, K);
    double tiny = dbl ? 0x1p-1074 : 0x1p-149;
    int wrong = 0;
    for (int i = 0; i < M * K; i++)
        p.a[i] = dbl ? ldexp(p.a[i], ea) : (double)(float)ldexp(p.a[i], ea); /* rounded where it is subnormal */
    for (int i = 0; i < K * N; i++)
        p.b[i] = dbl ? ldexp(p.b[i], eb) : (double)(float)ldexp(p.b[i], eb);
    multiply(&p);
    for (int i = 0; i < M * N; i++) {
        long double size, sum = element(&p, M, K, i, &size);
        wrong += !(fabsl(p.c[i] - sum) <= gamma_k(dbl, K + 2) * size + (K + 2) * (long double)tiny);
    }
    CHECK(!wrong, "%s layout %d, %s: %d of %d wrong", type_name[dbl], layout, what, wrong, M * N);
    release(&p);
}

static void non_finite(uint64_t *r, bool dbl, int layout)
{
    enum { M = 67, N = 45, K = 70 };
    struct product p = draw_product(r, dbl, layout, M, N, K);
    int wrong = 0;
    for (int l = 0; l < K; l++)
        p.a[5 + l * M] = 0;
    p.b[9 + 7 * K] = NAN, p.b[69 + 8 * K] = INFINITY; /* 0 NaN = 0 Inf = NaN in row 5 */
    multiply(&p);
    CHECK(isnan(p.c[5 + 7 * M]) && isnan(p.c[5 + 8 * M]), "%s layout %d: 0 NaN or 0 Inf is lost", type_name[dbl], layout);
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++)
            wrong += j == 7 ? !isnan(p.c[i + j * M]) : j == 8 ? isfinite(p.c[i + j * M]) : !isfinite(p.c[i + j * M]);
    CHECK(!wrong, "%s layout %d: NaN or Inf in %d wrong places", type_name[dbl], layout, wrong);
    release(&p);
    p = draw_product(r, dbl, layout, M, N, K);
    p.a[66 + 69 * M] = -INFINITY;
    double sign[N];
    for (int j = 0; j < N; j++)
        sign[j] = p.b[69 + j * K];
    multiply(&p);
    wrong = 0;
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++)
            wrong += i == 66 ? p.c[i + j * M] != (sign[j] > 0 ? -INFINITY : INFINITY) : !isfinite(p.c[i + j * M]);
    CHECK(!wrong, "%s layout %d: an infinite element of the last row and column: %d wrong", type_name[dbl], layout, wrong);
    release(&p);
}

/* The same numbers with another alignment and leading dimension: GPU results must not depend on these (a CPU BLAS promises nothing). */
static void placement(uint64_t *r, bool dbl, int layout)
{
    enum { M = 300, N = 200, K = 257 };
    struct product p = draw_product(r, dbl, layout, M, N, K);
    double *first = array(M * N);
    for (p.pad = 0; p.pad < 6; p.pad++) {
        multiply(&p);
        if (p.pad == 0)
            memcpy(first, p.c, sizeof(double) * M * N);
        CHECK(!memcmp(first, p.c, sizeof(double) * M * N), "%s layout %d: the result depends on alignment (+%lld)", type_name[dbl],
              layout, (long long)p.pad);
    }
    free(first), release(&p);
}

/* A check without an O(n^3) reference: C x against alpha A (B x) + beta C0 x, row by row within what the componentwise bound allows. */
static void residual(uint64_t *r, bool dbl, int layout, int64_t n)
{
    struct product p = draw_product(r, dbl, layout, n, n + 1, n + 2);
    int64_t m = p.m, k = p.k;
    int wrong = 0;
    n = p.n;
    double *x = draw(r, n), *c0 = draw(r, m * n);
    long double *bx = calloc((size_t)k, 32), *abs_bx = bx + k, *y = calloc((size_t)m, 32), *bound = y + m;
    memcpy(p.c, c0, sizeof(double) * (size_t)(m * n));
    p.alpha = -1, p.beta = 0.5;
    multiply(&p);
    for (int64_t j = 0; j < n; j++)
        for (int64_t l = 0; l < k; l++)
            bx[l] += (long double)p.b[l + j * k] * x[j], abs_bx[l] += fabs(p.b[l + j * k] * x[j]);
    for (int64_t l = 0; l < k; l++)
        for (int64_t i = 0; i < m; i++)
            y[i] -= p.a[i + l * m] * bx[l], bound[i] += gamma_k(dbl, (double)k + 2) * fabs(p.a[i + l * m]) * abs_bx[l];
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < m; i++) {
            y[i] += ((long double)c0[i + j * m] * 0.5 - p.c[i + j * m]) * x[j];
            bound[i] += gamma_k(dbl, 2) * fabs(0.5 * c0[i + j * m] * x[j]);
        }
    for (int64_t i = 0; i < m; i++)
        wrong += !(fabsl(y[i]) <= bound[i]);
    CHECK(!wrong, "%s layout %d, n = %lld: the residual is too large in %d rows", type_name[dbl], layout, (long long)n, wrong);
    free(x), free(c0), free(bx), free(y), release(&p);
}

/* Address space without memory behind it, so that columns can lie gigabytes apart. */
static void *space(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

/* Spans of more than 2^32 elements; with 64-bit integers also leading dimensions that no int holds. */
static void far_apart(uint64_t *r, const struct spelling *s, int64_t ld)
{
    enum { M = 40, N = 19, K = 17 };
    size_t bytes = (size_t)ld * 19 * (s->dbl ? 8 : 4) + (1 << 20);
    struct matrix a = {s->dbl, M, K, ld, space(bytes)}, b = {s->dbl, K, N, ld, space(bytes)}, c = {s->dbl, M, N, ld, space(bytes)};
    int wrong = 0;
    if (!a.data || !b.data || !c.data) {
        printf("no address space for %s with ld = %lld\n", s->name, (long long)ld);
        goto out;
    }
    for (int i = 0; i < M * K; i++)
        matrix_set(&a, i % M, i / M, (double)rng_below(r, 9) - 4);
    for (int i = 0; i < K * N; i++)
        matrix_set(&b, i % K, i / K, (double)rng_below(r, 9) - 4);
    for (int i = 0; i < M * N; i++)
        matrix_set(&c, i % M, i / M, i);
    call_gemm(s, &(struct call){0, 'N', 'N', M, N, K, ld, ld, ld, a.data, b.data, c.data, 1, 2, 1});
    for (int i = 0; i < M * N; i++) {
        double sum = 2 * i;
        for (int l = 0; l < K; l++)
            sum += matrix_get(&a, i % M, l) * matrix_get(&b, l, i / M);
        wrong += matrix_get(&c, i % M, i / M) != sum;
    }
    CHECK(!wrong, "%s with ld = %lld: %d wrong", s->name, (long long)ld, wrong);
out:
    for (struct matrix *x[] = {&a, &b, &c}, **y = x; y < x + 3; y++)
        if ((*y)->data)
            munmap((*y)->data, bytes);
}

/* Small odd integers (fake_cuda.c certifies no zeros) with a prime period: one period is drawn, the rest is copied at the speed of memory. */
static void fill_at_length(const struct matrix *x, int shift)
{
    const size_t count = (size_t)x->inner * (size_t)x->outer, size = matrix_element(x);
    enum { PERIOD = 999983 };
    for (int64_t i = 0; i < PERIOD && (size_t)i < count; i++)
        matrix_set(x, i % x->inner, i / x->inner, (double)(2 * (i * 2654435761 >> shift & 7) - 7));
    for (size_t at = PERIOD; at < count; at += PERIOD)
        memcpy(x->data + at * size, x->data, (count - at < PERIOD ? count - at : PERIOD) * size);
}

/* Operands are small integers, so every sampled element is exact. */
static void large(uint64_t *r, const struct spelling *s, int64_t m, int64_t n, int64_t k)
{
    const int samples = k < 100 ? 200000 : 2000;
    struct matrix a = {s->dbl, m, k, m, NULL}, b = {s->dbl, k, n, k, NULL}, c = {s->dbl, m, n, m, NULL};
    int wrong = 0;
    a.data = space(matrix_span(&a)), b.data = space(matrix_span(&b)), c.data = space(matrix_span(&c));
    if (!a.data || !b.data || !c.data)
        exit((perror("large"), SKIP));
    fill_at_length(&a, 7), fill_at_length(&b, 9);
    call_gemm(s, &(struct call){0, 'N', 'N', m, n, k, m, k, m, a.data, b.data, c.data, 1, 0, 1});
    for (int sample = 0; sample < samples; sample++) {
        int64_t i = sample < 2 ? sample * (m - 1) : rng_below(r, m), j = sample < 2 ? sample * (n - 1) : rng_below(r, n);
        double sum = 0;
        for (int64_t l = 0; l < k; l++)
            sum += matrix_get(&a, i, l) * matrix_get(&b, l, j);
        wrong += matrix_get(&c, i, j) != sum;
    }
    CHECK(!wrong, "%s, %lld x %lld x %lld: %d of %d wrong", s->name, (long long)m, (long long)n, (long long)k, wrong, samples);
    munmap(a.data, matrix_span(&a)), munmap(b.data, matrix_span(&b)), munmap(c.data, matrix_span(&c));
}

int main(int argc, char **argv)
{
    const char *lib = "build/libgpugemm.so";
    bool expect_gpu = false, large_only = false, deep = false;
    int64_t residual_n = 0;
    int first = 0, last = 1; /* type */
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], "--expect-gpu"))
            expect_gpu = true;
        else if (!strcmp(argv[i], "--large"))
            large_only = true;
        else if (!strcmp(argv[i], "--deep"))
            deep = true;
        else if (!strcmp(argv[i], "--lib") && i + 1 < argc)
            lib = argv[++i];
        else if (!strcmp(argv[i], "--residual") && i + 1 < argc)
            residual_n = atoll(argv[++i]);
        else if (!strcmp(argv[i], "--type") && i + 1 < argc)
            first = last = *argv[++i] == 'd';
    setenv("OPENBLAS_NUM_THREADS", "1", 0);
    void *library = open_library(lib, RTLD_LOCAL);
    find_spellings(library);
    for (int i = 0; i < SPELLINGS; i++) {
        const struct spelling *s = &spellings[i];
        if (s->address && !strcmp(s->name, s->dbl ? "dgemm_" : "sgemm_"))
            gemm[s->dbl] = s;
        if (s->address && !strcmp(s->name, s->dbl ? "dgemm_64_" : "sgemm_64_"))
            gemm64[s->dbl] = s;
    }
    if (!gemm[0] || !gemm[1])
        return fprintf(stderr, "%s lacks sgemm_ or dgemm_\n", lib), 1;
    uint64_t state = 7, *r = &state;
    for (int dbl = first; dbl <= last; dbl++)
        for (int layout = 0; layout < 4 && !large_only && !deep; layout++) {
            scaling(r, dbl, layout);
            zeros(r, dbl, layout);
            error_ratio(r, dbl, layout, 100, 100, 96);
            error_ratio(r, dbl, layout, 1, 130, 3000);
            error_ratio(r, dbl, layout, 130, 1, 700);
            error_ratio(r, dbl, layout, 33, 65, 1025);
            integers(r, dbl, layout);
            range(r, dbl, layout, dbl ? 1000 : 100, dbl ? 21 : 25, "near overflow");
            range(r, dbl, layout, dbl ? -540 : -70, dbl ? -524 : -70, "subnormal products");
            range(r, dbl, layout, dbl ? -1060 : -140, dbl ? 100 : 30, "subnormal A");
            range(r, dbl, layout, dbl ? 600 : 70, dbl ? -1060 : -140, "subnormal B");
            non_finite(r, dbl, layout);
            residual(r, dbl, layout, residual_n ? residual_n : expect_gpu ? 3000 : 300);
            if (expect_gpu)
                placement(r, dbl, layout);
        }
    for (int dbl = first; dbl <= last; dbl++) {
        far_apart(r, gemm[dbl], 1 << 28);
        if (gemm64[dbl]) {
            far_apart(r, gemm64[dbl], 1 << 28);
            far_apart(r, gemm64[dbl], ((int64_t)1 << 32) + 3);
        }
        if (deep)
            large(r, gemm[dbl], 500, 400, 4200);
        if (large_only) {
            large(r, gemm[dbl], 60000, 40000, 8); /* m n > 2^31 */
            large(r, gemm64[dbl], ((int64_t)1 << 31) + 77, 1, 2);
            large(r, gemm[dbl], 16384, 16384, 16384); /* k is summed in two turns (plan.h) */
        }
    }
    void (*read)(struct gpugemm_stats *, size_t);
    struct gpugemm_stats stats = {0};
    if ((*(void **)&read = dlsym(library, "gpugemm_stats_read")))
        read(&stats, sizeof stats);
    CHECK(!expect_gpu || stats.device + stats.staged > 0, "no call was served by the GPU");
    printf("%llu calls, %llu on the GPU: %d failures\n", (unsigned long long)stats.calls,
           (unsigned long long)(stats.device + stats.staged), test_failures);
    return test_failures != 0;
}

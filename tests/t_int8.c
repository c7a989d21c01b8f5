/* t_int8.c — dgemm from integer tensor cores: which operands are certified, that those that are not get strict's bits, and that the others are as
 * accurate as FP64, whatever the shape and wherever the operands lie.
 *
 *   t_int8 [--lib PATH]
 *
 * The kernel is forced, so that small products have it. The reference is summed in long double, whose own error is a two-thousandth of what is looked
 * for. */
#include "test.h"

#include "../bench/rig.h"

enum { M = 300, N = 260, K = 1100, MOST = 1 << 21 }; /* of the families; elements of any operand */

static __typeof__(gpugemm_set_precision) *set_precision;
static __typeof__(gpugemm_last_decision) *last_decision;
static __typeof__(gpugemm_warmup) *warmup;
static void (*dgemm)(const char *, const char *, const int *, const int *, const int *, const double *, const void *, const int *, const void *,
                     const int *, const double *, void *, const int *, size_t, size_t);

static double *a, *b, *c[3];
static device_ptr on_gpu[3];

/* A product. Operands begin `offset` elements into their memory, and leading dimensions are `more` longer than needed. */
struct product {
    int m, n, k, offset, more;
    bool ta, tb, host;
    double alpha, beta;
};

static int ld_a(const struct product *p) { return (p->ta ? p->k : p->m) + p->more; }
static int ld_b(const struct product *p) { return (p->tb ? p->n : p->k) + p->more; }
static double at_a(const struct product *p, int i, int l) { return a[p->offset + (p->ta ? l + (int64_t)i * ld_a(p) : i + (int64_t)l * ld_a(p))]; }
static double at_b(const struct product *p, int l, int j) { return b[p->offset + (p->tb ? j + (int64_t)l * ld_b(p) : l + (int64_t)j * ld_b(p))]; }
static size_t at_c(const struct product *p, int i, int j) { return (size_t)p->offset + (size_t)i + (size_t)j * (size_t)(p->m + p->more); }

/* Computes into c[to]. Returns the kernel that served. */
static const char *multiply(const struct product *p, int to, enum gpugemm_precision precision)
{
    static struct gpugemm_decision decision;
    const int lda = ld_a(p), ldb = ld_b(p), ldc = p->m + p->more;
    double *const of[] = {a, b, c[to]}, *at[3];
    for (int x = 0; x < 3; x++) {
        at[x] = p->host ? of[x] : (double *)on_gpu[x];
        if (!p->host)
            cuMemcpyHtoD_v2(on_gpu[x], of[x], MOST * sizeof(double));
    }
    set_precision(precision);
    dgemm(p->ta ? "T" : "N", p->tb ? "T" : "N", &p->m, &p->n, &p->k, &p->alpha, at[0] + p->offset, &lda, at[1] + p->offset, &ldb, &p->beta,
          at[2] + p->offset, &ldc, 1, 1);
    last_decision(&decision, sizeof decision);
    if (!p->host)
        cuMemcpyDtoH_v2(c[to], on_gpu[2], MOST * sizeof(double));
    return decision.kernel;
}

/* The error of a result in u (|A||B|), u = 2^-53, given the old C. */
static double error(const struct product *p, const double *result, int i, int j, double old)
{
    long double sum = 0, size = 0;
    for (int l = 0; l < p->k; l++) {
        const long double x = (long double)at_a(p, i, l) * at_b(p, l, j);
        sum += x, size += fabsl(x);
    }
    sum = p->alpha * sum + (p->beta == 0 ? 0 : (long double)p->beta * old);
    size = fabsl(p->alpha) * size + (p->beta == 0 ? 0 : fabsl((long double)p->beta * old));
    const long double off = fabsl(sum - result[at_c(p, i, j)]);
    return off == 0 ? 0 : (double)(off / size * 0x1p53L);
}

/* ---- families of operands ----------------------------------------------------------------------------------------------------------------- */

static double normal(uint64_t *r)
{
    const double u = (rng_real(r) + 1) / 2 + 0x1p-54, v = rng_real(r);
    return sqrt(-2 * log(u)) * cos(acos(-1) * v);
}

static const struct family {
    const char *name;
    bool certified; /* when A is of this family and B is normal */
} families[] = {{"normal", true},        {"uniform, positive", true}, {"integers", true},    {"exp(normal)", true},    {"rows far apart", true},
                {"zero rows", true},     {"a third zeros", true},     {"half zeros", false}, {"exp(4 normal)", false}, {"one huge", false},
                {"identity", false},     {"triangular", false},       {"denormal", false},   {"one NaN", false},       {"one Inf", false},
                {"near DBL_MAX", false}, {"a tiny row", false},       {"cancelling", true}};
enum { FAMILIES = sizeof families / sizeof *families, EXACT = 2, CANCELLING = FAMILIES - 1 };

static double element(uint64_t *r, int family, int i, int l)
{
    const double x = normal(r);
    const bool last = i == M - 1 && l == K - 1;
    switch (family) {
    case 1: return (rng_real(r) + 1) / 2;
    case EXACT: return (double)(rng_below(r, 2001) - 1000);
    case 3: return rng_real(r) * exp(x);
    case 4: return ldexp(x, i * 5 % 300 - 150);
    case 5: return i % 3 ? x : 0;
    case 6: return rng_below(r, 10) < 3 ? 0 : x;
    case 7: return rng_below(r, 2) ? 0 : x;
    case 8: return rng_real(r) * exp(4 * x);
    case 9: return last ? 0x1p60 : x;
    case 10: return i == l;
    case 11: return l <= i ? x : 0;
    case 12: return ldexp(x, -1040);
    case 13: return last ? NAN : x;
    case 14: return last ? -INFINITY : x;
    case 15: return ldexp(rng_real(r), 1022);
    case 16: return i == 7 ? ldexp(x, -1000) : x;
    default: return x;
    }
}

static void fill_c(double *to)
{
    for (int i = 0; i < MOST; i++)
        to[i] = NAN;
}

/* How far the first family's C, a good deal of it, is from the reference. */
static void measure(const struct product *p, const double *result, double *most, double *rms)
{
    double sum = 0;
    int count = 0;
    *most = 0;
    for (int j = 0; j < p->n; j += 3)
        for (int i = j % 5; i < p->m; i += 5, count++) {
            const double e = error(p, result, i, j, 0);
            *most = e > *most || e != e ? e : *most;
            sum += e * e;
        }
    *rms = sqrt(sum / count);
}

static void check_family(int family)
{
    const char *const name = families[family].name;
    struct product p = {.m = M, .n = N, .k = K, .alpha = 1};
    uint64_t state = (uint64_t)family + 1;
    for (int l = 0; l < K; l++)
        for (int i = 0; i < M; i++)
            a[i + l * M] = family == CANCELLING && l % 2 ? -a[i + (l - 1) * M] * (1 + 0x1p-20 * normal(&state)) : element(&state, family, i, l);
    for (int i = 0; i < N * K; i++)
        b[i] = family == EXACT ? (double)(rng_below(&state, 2001) - 1000) : family == CANCELLING && i % 2 ? b[i - 1] : normal(&state);
    for (int x = 0; x < 3; x++)
        fill_c(c[x]);
    const char *kernel = multiply(&p, 0, GPUGEMM_PRECISION_STRICT);
    CHECK(strncmp(kernel, "tensor", 6), "%s: strict is served by %s", name, kernel);
    kernel = multiply(&p, 1, GPUGEMM_PRECISION_DEFAULT);
    CHECK(families[family].certified == !strcmp(kernel, "tensor_int8"), "%s: served by %s", name, kernel);
    if (strcmp(kernel, "tensor_int8")) {
        CHECK(!memcmp(c[0], c[1], MOST * sizeof(double)), "%s: %s has other bits than strict", name, kernel);
        return;
    }
    double most[2], rms[2];
    for (int x = 0; x < 2; x++)
        measure(&p, c[x], &most[x], &rms[x]);
    printf("%-18s error at most %.3f, rms %.4f; strict %.3f, %.4f\n", name, most[1], rms[1], most[0], rms[0]);
    CHECK(most[1] <= 1.5 && most[1] <= fmax(most[0], 1) && rms[1] <= fmax(rms[0], 0.5), "%s: error %g, rms %g; strict %g, %g", name, most[1], rms[1],
          most[0], rms[0]);
    CHECK(family != EXACT || most[1] == 0, "integers: error %g", most[1]);
    p.host = true;
    kernel = multiply(&p, 2, GPUGEMM_PRECISION_DEFAULT);
    CHECK(!strcmp(kernel, "tensor_int8") && !memcmp(c[1], c[2], MOST * sizeof(double)), "%s: %s in host memory has other bits", name, kernel);
}

/* Some rows fail: the blocks that find them rule the tier out while others are just starting. */
static void check_ruled_out_late(void)
{
    const struct product p = {.m = 1300, .n = 1300, .k = 1100, .alpha = 1};
    uint64_t state = 5;
    for (int l = 0; l < p.k; l++)
        for (int i = 0; i < p.m; i++)
            a[i + l * p.m] = normal(&state) * (l == 0 && i > 1000 ? 0x1p60 : 1);
    for (int i = 0; i < p.k * p.n; i++)
        b[i] = normal(&state);
    fill_c(c[0]), fill_c(c[1]);
    multiply(&p, 0, GPUGEMM_PRECISION_STRICT);
    for (int turn = 0; turn < 50; turn++) {
        const char *const kernel = multiply(&p, 1, GPUGEMM_PRECISION_DEFAULT);
        CHECK(strcmp(kernel, "tensor_int8") && !memcmp(c[0], c[1], MOST * sizeof(double)), "turn %d: %s has other bits than strict", turn, kernel);
    }
}

/* ---- shapes and places ------------------------------------------------------------------------------------------------------------------------- */

static void check_shape(struct product p, uint64_t seed)
{
    uint64_t state = seed;
    for (int i = 0; i < MOST; i++)
        a[i] = b[i] = NAN;
    for (int l = 0; l < p.k; l++) {
        for (int i = 0; i < p.m; i++)
            a[p.offset + (p.ta ? l + (int64_t)i * ld_a(&p) : i + (int64_t)l * ld_a(&p))] = normal(&state);
        for (int j = 0; j < p.n; j++)
            b[p.offset + (p.tb ? j + (int64_t)l * ld_b(&p) : l + (int64_t)j * ld_b(&p))] = normal(&state);
    }
    fill_c(c[0]);
    for (int j = 0; j < p.n; j++)
        for (int i = 0; i < p.m; i++)
            c[0][at_c(&p, i, j)] = p.beta == 0 ? NAN : normal(&state);
    memcpy(c[1], c[0], MOST * sizeof(double));
    const char *const kernel = multiply(&p, 0, GPUGEMM_PRECISION_DEFAULT);
    const bool expected = p.k >= 1024 && p.k <= 32768;
    CHECK(expected == !strcmp(kernel, "tensor_int8"), "%d x %d x %d: served by %s", p.m, p.n, p.k, kernel);
    double most = 0;
    for (int x = 0; x < 200; x++) {
        const int i = x < 4 ? x % 2 * (p.m - 1) : (int)rng_below(&state, p.m), j = x < 4 ? x / 2 * (p.n - 1) : (int)rng_below(&state, p.n);
        const double e = error(&p, c[0], i, j, c[1][at_c(&p, i, j)]);
        most = e > most || e != e ? e : most;
    }
    CHECK(most <= (expected ? 2.5 : 100), "%d x %d x %d, %s%s, pitch +%d, offset %d, alpha %g, beta %g, %s: error %g", p.m, p.n, p.k,
          p.ta ? "T" : "N", p.tb ? "T" : "N", p.more, p.offset, p.alpha, p.beta, p.host ? "host" : "GPU", most);
    for (int j = 0; j < p.n; j++) /* what is not C must be as it was */
        for (int i = 0; i < p.m; i++)
            c[0][at_c(&p, i, j)] = c[1][at_c(&p, i, j)];
    CHECK(!memcmp(c[0], c[1], MOST * sizeof(double)), "%d x %d x %d: written beside C", p.m, p.n, p.k);
}

/* The same numbers in another layout, at other addresses, with other neighbours: the same bits. */
static void check_places(void)
{
    struct product p = {.m = 200, .n = 150, .k = 1030, .alpha = -0.7};
    uint64_t state = 99;
    static double x[200 * 1030], y[150 * 1030];
    for (int i = 0; i < 200 * 1030; i++)
        x[i] = normal(&state);
    for (int i = 0; i < 150 * 1030; i++)
        y[i] = normal(&state);
    for (int place = 0; place < 16; place++) {
        p.ta = place & 1, p.tb = place & 2, p.host = place & 4, p.offset = place & 8 ? 3 : 0, p.more = place & 8 ? 5 : 0;
        for (int l = 0; l < p.k; l++) {
            for (int i = 0; i < p.m; i++)
                a[p.offset + (p.ta ? l + i * ld_a(&p) : i + l * ld_a(&p))] = x[i + l * p.m];
            for (int j = 0; j < p.n; j++)
                b[p.offset + (p.tb ? j + l * ld_b(&p) : l + j * ld_b(&p))] = y[l + j * p.k];
        }
        const char *const kernel = multiply(&p, 1, GPUGEMM_PRECISION_DEFAULT);
        CHECK(!strcmp(kernel, "tensor_int8"), "place %d: served by %s", place, kernel);
        int differ = 0;
        for (int j = 0; j < p.n; j++)
            for (int i = 0; i < p.m; i++) {
                double *const first = &c[2][i + j * p.m], now = c[1][at_c(&p, i, j)];
                if (place == 0)
                    *first = now;
                differ += memcmp(first, &now, sizeof now) != 0;
            }
        CHECK(!differ, "place %d: %d elements have other bits", place, differ);
    }
}

int main(int argc, char **argv)
{
    const char *lib = "build/libgpugemm.so";
    for (int i = 1; i + 1 < argc; i++)
        lib = strcmp(argv[i], "--lib") ? lib : argv[i + 1];
    setenv("GPUGEMM_TRACE", "/dev/null", 1); /* only then do watched calls know which tier served them */
    setenv("GPUGEMM_KERNEL", "tensor_int8", 1);
    void *library = dlopen(lib, RTLD_NOW | RTLD_LOCAL);
    if (!library || !resolved(library, "dgemm_", &dgemm) || !resolved(library, "gpugemm_set_precision", &set_precision) ||
        !resolved(library, "gpugemm_last_decision", &last_decision) || !resolved(library, "gpugemm_warmup", &warmup))
        return fprintf(stderr, "%s lacks names\n", lib), 1;
    if (!open_gpu() || warmup())
        return printf("skipped: no GPU\n"), SKIP;
    if (compute_capability != 90)
        return printf("skipped: only Hopper has this tier\n"), SKIP;
    a = malloc(MOST * sizeof *a), b = malloc(MOST * sizeof *b);
    for (int i = 0; i < 3; i++)
        if (cuMemAlloc_v2(&on_gpu[i], MOST * sizeof(double)) || !(c[i] = malloc(MOST * sizeof *a)))
            return printf("skipped: no memory\n"), SKIP;
    for (int family = 0; family < FAMILIES; family++)
        check_family(family);
    check_ruled_out_late();
    check_places();
    static const int rows[] = {1, 7, 63, 64, 65, 127, 128, 129, 200, 255, 256, 257, 385, 513}, ks[] = {1024, 1025, 1100, 1151, 1152, 1153, 2047};
    static const double factors[] = {1, 0, -1, 0.7};
    uint64_t state = 7;
    for (int i = 0; i < 96; i++) {
        const struct product p = {.m = rows[rng_below(&state, 14)],
                                  .n = rows[(unsigned)i % 14],
                                  .k = ks[rng_below(&state, 7)],
                                  .offset = i % 3 ? (int)rng_below(&state, 4) : 0,
                                  .more = (int[]){0, 1, 3, 7}[i % 4],
                                  .ta = i & 1,
                                  .tb = i & 2,
                                  .host = i % 7 == 6,
                                  .alpha = factors[i % 3 ? 0 : 2 + i % 2],
                                  .beta = factors[rng_below(&state, 4)]};
        check_shape(p, (uint64_t)i);
    }
    static const int long_k[] = {4096, 4100, 8192, 8200, 16384, 16390}; /* gg_residues: more blocks in a cluster, then fewer rows */
    for (int i = 0; i < 24; i++)
        check_shape((struct product){.m = 70, .n = 90, .k = long_k[i / 4], .alpha = 1, .ta = i & 1, .tb = i & 2, .more = i % 3}, 500 + (uint64_t)i);
    check_shape((struct product){.m = 60, .n = 50, .k = 32768, .alpha = 1, .ta = true}, 1000);
    check_shape((struct product){.m = 50, .n = 60, .k = 32768, .alpha = 1, .tb = true}, 1001);
    check_shape((struct product){.m = 50, .n = 40, .k = 32769, .alpha = 1}, 1002);
    check_shape((struct product){.m = 200, .n = 300, .k = 1023, .alpha = 1}, 1003);
    printf("%d failures\n", test_failures);
    return test_failures > 0;
}

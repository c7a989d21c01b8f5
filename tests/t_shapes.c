/* t_shapes.c — the sizes at which kernels typically fail, mixed: {1, 2, 7, 8, 15, ... 1023} in m, n and k, every layout, leading dimensions + {0, 1,
 * 3, 7}, base pointers off by one element, alpha and beta from {0, 1, -1, 0.7}; operands in GPU memory, for whichever kernel GPUGEMM_KERNEL forces.
 *
 *   t_shapes [--lib PATH] [--oracle PATH] [--cases N] [--type s|d] [--expect-gpu]
 *
 * All elements are compared with OpenBLAS's dgemm on the same numbers: sgemm within the componentwise bound, dgemm within twice it. Every other case
 * has small integers, for which the two must agree exactly (alpha or beta = 0.7: to two roundings). The memory around the operands, and C when beta =
 * 0, is filled with a NaN with a payload; everything but C must be unchanged, bitwise. If no kernel is forced every 25th case is one whose last rows
 * and columns run as strips beside the tiles; it is strict, as the tensor cores leave no strips to be seen. Every 25th has one long side. */
#include "test.h"

#include "../bench/rig.h"

typedef void oracle_gemm(const char *, const char *, const int *, const int *, const int *, const double *, const double *, const int *,
                         const double *, const int *, const double *, double *, const int *, size_t, size_t);

static const int extents[] = {1, 2, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 127, 128, 129, 255, 257, 265, 500, 541, 1023};
static const int beyond_tiles[] = {1024, 1025, 1026, 1028};
static const int narrow[] = {1, 1, 4, 16}, depths[] = {1, 7, 33, 55}; /* beside 17001 */
static const int pads[] = {0, 1, 3, 7};
static const double factors[] = {1, 0, -1, 0.7};
enum { EXTENTS = sizeof extents / sizeof *extents, EDGE = 64 /* elements of poison on either side */, MOST = 1040 * 1040 + 2 * EDGE };

struct operand {
    int inner, outer, ld, off;
    device_ptr device;
    void *host;     /* what was uploaded, poison included */
    double *values; /* inner × outer, packed, as doubles */
    double *absolute;
    size_t elements; /* in `host` */
};

static __typeof__(gpugemm_sgemm) *sgemm;
static __typeof__(gpugemm_dgemm) *dgemm;
static __typeof__(gpugemm_set_precision) *set_precision;
static __typeof__(gpugemm_warmup) *warmup;
static __typeof__(gpugemm_last_decision) *last_decision;
static oracle_gemm *oracle;
static const char *only_type = "";

static void poison(void *to, bool dbl, size_t elements)
{
    uint64_t *d = to;
    uint32_t *s = to;
    for (size_t i = 0; i < elements; i++)
        dbl ? (d[i] = 0xfff4dead00000000u + i) : (s[i] = 0xffc00000u + (uint32_t)(i & 0x3fffff));
}

static double get(const void *from, bool dbl, size_t i) { return dbl ? ((const double *)from)[i] : (double)((const float *)from)[i]; }

/* Draws an operand and puts it between its poison; `empty`: all of it stays poison. */
static void draw(struct operand *x, uint64_t *r, bool dbl, bool integers, bool empty)
{
    x->elements = (size_t)x->ld * (size_t)x->outer + 2 * EDGE + (size_t)x->off;
    poison(x->host, dbl, x->elements);
    for (int j = 0; j < x->outer; j++)
        for (int i = 0; i < x->inner; i++) {
            double value = integers ? (double)(rng_below(r, 17) - 8) : rng_real(r);
            size_t at = EDGE + (size_t)x->off + (size_t)i + (size_t)j * (size_t)x->ld, to = (size_t)i + (size_t)j * (size_t)x->inner;
            value = dbl ? value : (double)(float)value;
            x->values[to] = empty ? 0 : value, x->absolute[to] = fabs(x->values[to]);
            if (!empty)
                dbl ? (((double *)x->host)[at] = value) : (((float *)x->host)[at] = (float)value);
        }
    cuMemcpyHtoD_v2(x->device, x->host, x->elements * (dbl ? 8 : 4));
}

static const void *base(const struct operand *x, bool dbl) { return (const void *)(x->device + (size_t)(EDGE + x->off) * (dbl ? 8 : 4)); }

static void multiply(const struct operand *a, const struct operand *b, bool ta, bool tb, int m, int n, int k, bool absolute, double *product)
{
    static const double one = 1, zero = 0;
    oracle(ta ? "T" : "N", tb ? "T" : "N", &m, &n, &k, &one, absolute ? a->absolute : a->values, &a->inner, absolute ? b->absolute : b->values,
           &b->inner, &zero, product, &m, 1, 1);
}

static void test_case(uint64_t *r, int index, struct operand *a, struct operand *b, struct operand *c, double *product, double *size, void *result)
{
    const bool dbl = *only_type ? *only_type == 'd' : index & 1, ta = index & 2, tb = index & 4, integers = index & 8;
    const bool strips = index % 25 == 24 && !getenv("GPUGEMM_KERNEL");
    int m = extents[rng_below(r, EXTENTS)], n = extents[rng_below(r, EXTENTS)], k = extents[rng_below(r, EXTENTS)];
    if (strips)
        m = beyond_tiles[rng_below(r, 4)], n = beyond_tiles[rng_below(r, 4)], k = 1023;
    if (index % 25 == 12) {
        int *const sides[] = {&m, &n}, which = (int)rng_below(r, 2);
        *sides[which] = 17001, *sides[!which] = narrow[rng_below(r, 4)], k = depths[rng_below(r, 4)];
    }
    const double alpha = factors[index % 11 ? rng_below(r, 2) * 2 + (rng_below(r, 3) == 0) : 1], beta = factors[rng_below(r, 4)];
    const double alpha_t = dbl ? alpha : (double)(float)alpha, beta_t = dbl ? beta : (double)(float)beta, u = dbl ? 0x1p-53 : 0x1p-24;
    a->inner = ta ? k : m, a->outer = ta ? m : k, b->inner = tb ? n : k, b->outer = tb ? k : n, c->inner = m, c->outer = n;
    for (struct operand *all[] = {a, b, c}, **x = all; x < all + 3; x++)
        (*x)->ld = (*x)->inner + pads[rng_below(r, 4)], (*x)->off = rng_below(r, 3) == 0;
    draw(a, r, dbl, integers, false), draw(b, r, dbl, integers, false), draw(c, r, dbl, integers, beta == 0);
    cuCtxSynchronize();
    set_precision(strips ? GPUGEMM_PRECISION_STRICT : GPUGEMM_PRECISION_DEFAULT);
    enum gpugemm_transpose oa = ta ? GPUGEMM_TRANS : GPUGEMM_NO_TRANS, ob = tb ? GPUGEMM_TRANS : GPUGEMM_NO_TRANS;
    int status =
        dbl ? dgemm(GPUGEMM_COL_MAJOR, oa, ob, m, n, k, alpha, base(a, dbl), a->ld, base(b, dbl), b->ld, beta, (double *)base(c, dbl), c->ld, stream)
            : sgemm(GPUGEMM_COL_MAJOR, oa, ob, m, n, k, (float)alpha, base(a, dbl), a->ld, base(b, dbl), b->ld, (float)beta, (float *)base(c, dbl),
                    c->ld, stream);
    multiply(a, b, ta, tb, m, n, k, false, product), multiply(a, b, ta, tb, m, n, k, true, size);
    cuStreamSynchronize(stream);
    cuMemcpyDtoH_v2(result, c->device, c->elements * (dbl ? 8 : 4));
    int wrong = 0, stray = 0;
    double worst = 0;
    for (size_t i = 0; i < c->elements; i++) {
        const size_t bytes = dbl ? 8 : 4, at = i - EDGE - (size_t)c->off;
        if (i < EDGE + (size_t)c->off || at % (size_t)c->ld >= (size_t)m || at / (size_t)c->ld >= (size_t)n) {
            stray += memcmp((char *)result + i * bytes, (char *)c->host + i * bytes, bytes) != 0;
            continue;
        }
        size_t e = at % (size_t)c->ld + at / (size_t)c->ld * (size_t)m;
        double expected = alpha_t * product[e] + beta_t * c->values[e], magnitude = fabs(alpha_t) * size[e] + fabs(beta_t * c->values[e]);
        double bound = integers ? (alpha == 0.7 || beta == 0.7 ? 4 * u * magnitude : 0)
                                : (dbl ? 2 : 1) * (gamma_k(dbl, k + 2) * fabs(alpha_t) * size[e] + gamma_k(dbl, 2) * fabs(beta_t * c->values[e])) +
                                      0x1p-52 * magnitude;
        double error = fabs(get(result, dbl, i) - expected);
        wrong += !(error <= bound);
        worst = magnitude > 0 ? fmax(worst, error / (u * magnitude)) : worst;
    }
    struct gpugemm_decision decision;
    last_decision(&decision, sizeof decision);
    CHECK(status == 0 && !wrong && !stray,
          "case %d: %cgemm %c%c %dx%dx%d ld %d %d %d off %d %d %d alpha %g beta %g%s: status %d, %d wrong (%.2f u), %d stray (%s)", index,
          dbl ? 'd' : 's', ta ? 'T' : 'N', tb ? 'T' : 'N', m, n, k, a->ld, b->ld, c->ld, a->off, b->off, c->off, alpha, beta,
          integers ? " integers" : "", status, wrong, worst, stray, decision.kernel);
}

int main(int argc, char **argv)
{
    const char *lib = "build/libgpugemm.so", *oracle_path = "libopenblas.so.0";
    int cases = 800;
    for (int i = 1; i + 1 < argc; i++) {
        lib = strcmp(argv[i], "--lib") ? lib : argv[i + 1];
        oracle_path = strcmp(argv[i], "--oracle") ? oracle_path : argv[i + 1];
        cases = strcmp(argv[i], "--cases") ? cases : atoi(argv[i + 1]);
        only_type = strcmp(argv[i], "--type") ? only_type : argv[i + 1];
    }
    void *library = dlopen(lib, RTLD_NOW | RTLD_LOCAL);
    if (!library || !resolved(library, "gpugemm_sgemm", &sgemm) || !resolved(library, "gpugemm_dgemm", &dgemm) ||
        !resolved(library, "gpugemm_set_precision", &set_precision) || !resolved(library, "gpugemm_warmup", &warmup) ||
        !resolved(library, "gpugemm_last_decision", &last_decision))
        return fprintf(stderr, "%s lacks names\n", lib), 1;
    if (!resolved(open_first((const char *[]){oracle_path, "libblas.so.3", NULL}), "dgemm_", &oracle))
        return printf("skipped: no oracle %s\n", oracle_path), SKIP;
    if (!open_gpu() || warmup())
        return printf("skipped: no GPU\n"), SKIP;
    struct operand x[3];
    for (int o = 0; o < 3; o++) {
        x[o] = (struct operand){.host = malloc(MOST * 8), .values = malloc(MOST * 8), .absolute = malloc(MOST * 8)};
        if (cuMemAlloc_v2(&x[o].device, MOST * 8))
            return printf("skipped: no GPU memory\n"), SKIP;
    }
    double *product = malloc(MOST * 8), *size = malloc(MOST * 8);
    void *result = malloc(MOST * 8);
    uint64_t seed = 20261121;
    for (int i = 0; i < cases; i++)
        test_case(&seed, i, &x[0], &x[1], &x[2], product, size, result);
    printf("%d cases: %d failures\n", cases, test_failures);
    return test_failures != 0;
}

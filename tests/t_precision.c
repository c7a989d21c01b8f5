/* t_precision.c — the operands' values decide on the GPU which tier serves sgemm, and the result is as accurate as FFMA.
 *
 *   t_precision [--lib PATH] [--expect-gpu]
 *
 * Without a GPU only the settings are tested. With one: every kind of operands gets the tier it should. Where that is FFMA the bits are those of
 * strict; where it is not, there is no NaN or Inf, zeros are zeros, and the difference from strict's result is within what both may err. Operands at
 * another alignment, or transposed, give the same bits, and so does an element wherever in C it is; in host memory (where one operand comes first)
 * the same, but that FP16's may be added up in another order. On Hopper all of this is repeated, in a process of its own, by the tiers without wgmma,
 * which older GPUs have: they must give the very same bits. Where no tensor tier is chosen, strict and fp32 must give the same bits throughout. */
#include "test.h"

#include "../bench/rig.h"

enum { N = 1300, LD = N + 3, BEYOND = 40, MOST = (1536 + BEYOND) * (1280 + BEYOND), BYTES = MOST * 4 }; /* LD * (N + 8) is less than MOST */

static __typeof__(gpugemm_set_precision) *set_precision;
static __typeof__(gpugemm_sgemm_precision) *sgemm_precision;
static __typeof__(gpugemm_last_decision) *last_decision;
static __typeof__(gpugemm_warmup) *warmup;
static void (*sgemm)(const char *, const char *, const int *, const int *, const int *, const float *, const void *, const int *, const void *,
                     const int *, const float *, void *, const int *, size_t, size_t);

static void settings(void)
{
    float x = 3, y = 5, z = 0;
    CHECK(set_precision(GPUGEMM_PRECISION_STRICT) == GPUGEMM_PRECISION_DEFAULT, "the precision does not begin as the default");
    CHECK(set_precision(GPUGEMM_PRECISION_TF32) == GPUGEMM_PRECISION_STRICT, "the precision set is not the one returned");
    for (int p = GPUGEMM_PRECISION_DEFAULT; p <= GPUGEMM_PRECISION_TF32 + 1; p++) {
        int status = sgemm_precision(GPUGEMM_COL_MAJOR, GPUGEMM_NO_TRANS, GPUGEMM_NO_TRANS, 1, 1, 1, 1, &x, 1, &y, 1, 0, &z, 1, NULL,
                                     (enum gpugemm_precision)p);
        CHECK(status == (p <= GPUGEMM_PRECISION_TF32 ? 0 : -16), "precision %d: status %d", p, status);
        CHECK(z == 15, "precision %d: %g", p, (double)z);
    }
    CHECK(set_precision(GPUGEMM_PRECISION_DEFAULT) == GPUGEMM_PRECISION_TF32, "the call's precision stayed the thread's");
}

/* ---- operands: N×N, column-major ------------------------------------------------------------------------------------------------------------- */

static double normal(uint64_t *r)
{
    double u = (rng_real(r) + 1) / 2 + 0x1p-54, v = rng_real(r);
    return sqrt(-2 * log(u)) * cos(acos(-1) * v);
}

enum tier { FP16, BF16, FFMA };
static const char *tier_name[] = {"tensor_fp16", "tensor_bf16", "FFMA"};
static bool chains;    /* this GPU has chains */
static bool by_blocks; /* it multiplies so slowly that host operands come by panels of both: then each block of C has its own tier */
static uint64_t bits = UINT64_C(0xcbf29ce484222325); /* a hash of the results of the tensor tiers */

static const struct kind {
    const char *name;
    enum tier tier; /* expected when A is of this kind and B is normal; FP16 and BF16 only where k and C are large enough, as they are here */
} kinds[] = {{"normal", FP16},   {"small integers", FP16},    {"rows far apart", FP16}, {"zero rows", FP16},    {"wide", BF16},
             {"one huge", BF16}, {"columns far apart", BF16}, {"identity", FFMA},       {"sparse", FFMA},       {"triangular", FFMA},
             {"denormal", FFMA}, {"one NaN", FFMA},           {"one Inf", FFMA},        {"near FLT_MAX", FFMA}, {"one beyond BF16", FFMA}};
enum { KINDS = sizeof kinds / sizeof *kinds };

static float element(uint64_t *r, int kind, int i, int l)
{
    double x = normal(r);
    bool last = i == N - 1 && l == N - 1;
    switch (kind) {
    case 0: return (float)x;
    case 1: return (float)(rng_below(r, 17) - 8);
    case 2: return (float)ldexp(x, i % 80 - 40);
    case 3: return i % 3 ? (float)x : 0;
    case 4: return (float)(rng_real(r) * exp(4 * x));
    case 5: return (float)(last ? 0x1p30 : x);
    case 6: return (float)ldexp(x, l / 64 * 5 % 40);
    case 7: return i == l;
    case 8: return rng_below(r, 20) ? 0 : (float)x;
    case 9: return l <= i ? (float)x : 0;
    case 10: return (float)ldexp(x, -130);
    case 11: return last ? NAN : (float)x;
    case 12: return last ? -INFINITY : (float)x;
    case 13: return (float)ldexp(rng_real(r), 126);
    default: return (float)(last ? 0x1p60 : x);
    }
}

static float *a, *b, *c[3];
static device_ptr on_gpu[3];

struct place {
    bool host;
    int offset, ld;  /* elements */
    bool transposed; /* A is stored by rows */
};

/* Computes C of A and B in memory of that kind, into `to`. Returns the kernel that served. */
static const char *multiply(float *to, enum gpugemm_precision precision, const struct place *at)
{
    static float *stored[2];
    static struct gpugemm_decision decision;
    const int n = N;
    const float alpha = 1, beta = 0;
    for (int x = 0; x < 2; x++) {
        stored[x] = stored[x] ? stored[x] : malloc(BYTES);
        const float *from = x ? b : a;
        bool swap = x == 0 && at->transposed;
        for (int j = 0; j < N; j++)
            for (int i = 0; i < N; i++)
                stored[x][at->offset + (swap ? j + i * at->ld : i + j * at->ld)] = from[i + j * N];
        if (!at->host)
            cuMemcpyHtoD_v2(on_gpu[x], stored[x], BYTES);
    }
    const float *pa = at->host ? stored[0] : (float *)on_gpu[0], *pb = at->host ? stored[1] : (float *)on_gpu[1];
    float *pc = at->host ? to : (float *)on_gpu[2];
    set_precision(precision);
    sgemm(at->transposed ? "T" : "N", "N", &n, &n, &n, &alpha, pa + at->offset, &at->ld, pb + at->offset, &at->ld, &beta, pc, &n, 1, 1);
    last_decision(&decision, sizeof decision);
    if (!at->host)
        cuMemcpyDtoH_v2(to, on_gpu[2], sizeof(float) * N * N);
    return decision.kernel;
}

/* Does C(i, j) differ by more than `most` u |A||B|? */
static bool differs(const float *one, const float *other, int i, int j, double most)
{
    double size = 0;
    for (int l = 0; l < N; l++)
        size += fabs((double)a[i + l * N] * b[l + j * N]);
    return !(fabs((double)one[i + j * N] - other[i + j * N]) <= 0x1p-24 * most * size);
}

/* Far above what is seen between tiers, far below what losing a piece would cause; and the same between two orders in which a tier adds up k. */
static const double FAR = 64, ORDER = 4;

/* How many results are so far from strict's, of some. */
static int far_from(const float *strict, const float *other)
{
    int wrong = 0;
    for (int j = 0; j < N; j += 23)
        for (int i = 0; i < N; i += 7)
            wrong += differs(strict, other, i, j, FAR);
    return wrong;
}

/* Has this column (or, by blocks, this element) of C what FP16's tier computes: its bits or, where panels have few tiles and are multiplied by pairs of
 * blocks, nearly those? */
static bool is_of_fp16(const float *fp16, const float *other, int at, int each)
{
    if (!memcmp(fp16 + at, other + at, sizeof(float) * (size_t)each))
        return true;
    for (int i = 0; i < each; i += 41)
        if (differs(fp16, other, (at + i) % N, at / N, ORDER))
            return false;
    return true;
}

static void values(int kind)
{
    const struct place places[] = {{false, 0, N, false}, {true, 0, N, false}, {false, 1, LD, false}, {false, 0, N, true}, {true, 3, LD, true}};
    uint64_t state = (uint64_t)kind + 1;
    for (int l = 0; l < N; l++)
        for (int i = 0; i < N; i++)
            a[i + l * N] = element(&state, kind, i, l), b[i + l * N] = (float)normal(&state);
    const char *kernel = multiply(c[0], GPUGEMM_PRECISION_STRICT, &places[0]);
    CHECK(strncmp(kernel, "tensor", 6), "%s: strict is served by %s", kinds[kind].name, kernel);
    kernel = multiply(c[1], GPUGEMM_PRECISION_FP32, &places[0]);
    if (chains && kinds[kind].tier != FFMA)
        CHECK(!strncmp(kernel, tier_name[kinds[kind].tier], strlen(tier_name[kinds[kind].tier])), "%s: served by %s, not %s", kinds[kind].name,
              kernel, tier_name[kinds[kind].tier]);
    else
        CHECK(!memcmp(c[0], c[1], sizeof(float) * N * N), "%s: fp32, served by %s, has other bits than strict", kinds[kind].name, kernel);
    for (int i = 0; chains && kinds[kind].tier != FFMA && i < N * N; i++) {
        uint32_t element_bits;
        memcpy(&element_bits, &c[1][i], sizeof element_bits);
        bits = (bits ^ element_bits) * UINT64_C(0x100000001b3);
    }
    const int wrong = kinds[kind].tier == FFMA ? 0 : far_from(c[0], c[1]);
    CHECK(!wrong, "%s: %d results of %s are far from strict's", kinds[kind].name, wrong, kernel);
    for (int i = 1; i < 5 && kinds[kind].tier != FFMA; i++) {
        const char *again = multiply(c[2], GPUGEMM_PRECISION_FP32, &places[i]);
        if (places[i].host && (by_blocks || strncmp(again, "tensor", 6))) { /* or FFMA in strips, if that was predicted to finish sooner */
            CHECK(!far_from(c[0], c[2]), "%s: %s in host memory is far from strict", kinds[kind].name, again);
            continue;
        }
        const bool nearly = places[i].host && kinds[kind].tier == FP16;
        bool same = nearly || !memcmp(c[1], c[2], sizeof(float) * N * N);
        for (int column = 0; nearly && same && column < N; column += 11)
            same = is_of_fp16(c[1], c[2], column * N, N);
        CHECK(same, "%s: other bits %s, offset %d, pitch %d%s", kinds[kind].name,
              places[i].host ? "in host memory" : "in GPU memory", places[i].offset, places[i].ld, places[i].transposed ? ", transposed" : "");
    }
}

/* In host memory, with columns of B that fail the certificate after some that do not, every column of C has what one of the two tiers computes. If
 * FFMA is predicted to finish sooner than either, the result is near strict's. */
static void halfway(void)
{
    const struct place there = {false, 0, N, false}, host = {true, 0, N, false};
    const int from = N * 3 / 4;
    uint64_t state = 77;
    for (int i = 0; i < N * N; i++)
        a[i] = (float)normal(&state), b[i] = (float)normal(&state);
    multiply(c[0], GPUGEMM_PRECISION_FP32, &there);
    for (int i = from * N; i < N * N; i++)
        b[i] = element(&state, 4, 0, i);
    const char *kernel = multiply(c[1], GPUGEMM_PRECISION_FP32, &there);
    CHECK(!chains || !strncmp(kernel, tier_name[kinds[4].tier], strlen(tier_name[kinds[4].tier])), "columns that fail: served by %s", kernel);
    kernel = multiply(c[2], GPUGEMM_PRECISION_FP32, &host);
    if (strncmp(kernel, "tensor", 6)) {
        multiply(c[1], GPUGEMM_PRECISION_STRICT, &there);
        CHECK(!far_from(c[1], c[2]), "columns that fail: %s in host memory is far from strict", kernel);
        return;
    }
    const int each = by_blocks ? 1 : N; /* this many consecutive elements have the same tier */
    const size_t bytes = sizeof(float) * (size_t)each;
    for (int at = 0; at < N * N; at += each) {
        const bool first = at < from * N && is_of_fp16(c[0], c[2], at, each);
        CHECK(first || !memcmp(c[1] + at, c[2] + at, bytes), "columns that fail: column %d is no tier's", at / N);
    }
}

/* `rows` and `columns` of C lie beyond whole tiles. In the second product the operands begin so much later that all of C lies within whole tiles. The
 * first C is not aligned. */
static void edges(int whole_m, int whole_n, int k, int rows, int columns, bool wide, enum gpugemm_precision precision)
{
    struct gpugemm_decision decision[2];
    const float alpha = 2, beta = -1;
    uint64_t state = (uint64_t)(whole_m + rows * 9 + columns);
    const int ld_a = whole_m + BEYOND, ldc[] = {ld_a - 1, ld_a}, all_n = whole_n + BEYOND;
    for (int i = 0; i < ld_a * k; i++)
        a[i] = element(&state, wide ? 4 : 0, 0, i);
    for (int i = 0; i < k * all_n; i++)
        b[i] = (float)normal(&state);
    cuMemcpyHtoD_v2(on_gpu[0], a, sizeof(float) * (size_t)(ld_a * k));
    cuMemcpyHtoD_v2(on_gpu[1], b, sizeof(float) * (size_t)(k * all_n));
    set_precision(precision);
    for (int later = 0; later < 2; later++) {
        const int skip = later ? rows : 0, skip_columns = later ? columns : 0, m = whole_m + rows - skip, n = whole_n + columns - skip_columns;
        const float *pa = (float *)on_gpu[0] + skip, *pb = (float *)on_gpu[1] + (size_t)skip_columns * (size_t)k;
        const size_t bytes = sizeof(float) * (size_t)(ldc[later] * all_n);
        memset(c[later], 0xff, bytes);
        for (int j = 0; j < n; j++)
            for (int i = 0; i < m; i++)
                c[later][i + j * ldc[later]] = (float)((i + skip) * 7 % 31 + (j + skip_columns) * 5 % 37);
        cuMemcpyHtoD_v2(on_gpu[2], c[later], bytes);
        sgemm("N", "N", &m, &n, &k, &alpha, pa, &ld_a, pb, &k, &beta, (float *)on_gpu[2], &ldc[later], 1, 1);
        last_decision(&decision[later], sizeof *decision);
        cuMemcpyDtoH_v2(c[later], on_gpu[2], bytes);
    }
    int differ = 0, beside = 0;
    for (int j = 0; j < all_n; j++)
        for (int i = 0; i < ldc[0]; i++) {
            if (i < whole_m && j < whole_n)
                differ += memcmp(&c[0][i + rows + (j + columns) * ldc[0]], &c[1][i + j * ldc[1]], sizeof(float)) != 0;
            uint32_t bits;
            memcpy(&bits, &c[0][i + j * ldc[0]], sizeof bits);
            beside += (i >= whole_m + rows || j >= whole_n + columns) && bits != ~0u;
        }
    CHECK(!beside, "%d + %d by %d + %d: %d elements written beside C", whole_m, rows, whole_n, columns, beside);
    if (strncmp(decision[0].kernel, "tensor", 6) == 0 && strcmp(decision[0].kernel, decision[1].kernel) == 0)
        CHECK(!differ, "%d + %d by %d + %d, served by %s: %d elements have other bits at another place", whole_m, rows, whole_n, columns,
              decision[0].kernel, differ);
}

/* Operands that no tier takes: strict's own choice serves, with strips if C has a few rows and columns beyond whole tiles, and wherever the operands
 * lie. */
static void fallback(int m, int n, int k, int ld, const char *ta, const char *tb)
{
    struct gpugemm_decision decision[2];
    const float alpha = 2, beta = -1;
    uint64_t state = (uint64_t)(m * 9 + n);
    for (int i = 0; i < N * N; i++)
        a[i] = element(&state, 10, 0, i), b[i] = (float)normal(&state), c[0][i] = c[1][i] = (float)(i % 31);
    cuMemcpyHtoD_v2(on_gpu[0], a, sizeof(float) * N * N);
    cuMemcpyHtoD_v2(on_gpu[1], b, sizeof(float) * N * N);
    for (int fp32 = 0; fp32 < 2; fp32++) {
        set_precision(fp32 ? GPUGEMM_PRECISION_FP32 : GPUGEMM_PRECISION_STRICT);
        cuMemcpyHtoD_v2(on_gpu[2], c[fp32], sizeof(float) * N * N);
        sgemm(ta, tb, &m, &n, &k, &alpha, (float *)on_gpu[0], &ld, (float *)on_gpu[1], &ld, &beta, (float *)on_gpu[2], &ld, 1, 1);
        last_decision(&decision[fp32], sizeof *decision);
        cuMemcpyDtoH_v2(c[fp32], on_gpu[2], sizeof(float) * N * N);
    }
    int differ = 0;
    for (int i = 0; i < N * N; i++)
        differ += memcmp(&c[0][i], &c[1][i], sizeof(float)) != 0;
    CHECK(!differ, "%s%s %d by %d, pitch %d: %d elements of fp32, served by %s, are not strict's, of %s", ta, tb, m, n, ld, differ, decision[1].kernel,
          decision[0].kernel);
}

/* All of this by the kernels for GPUs before Hopper. */
static void without_wgmma(const char *self, const char *lib)
{
    char command[8192], line[256];
    uint64_t other = 0;
    snprintf(command, sizeof command, "GPUGEMM_KERNEL=tensor_mma_fp16 '%s' --lib '%s' --expect-gpu", self, lib);
    fflush(stdout);
    FILE *child = popen(command, "r");
    while (child && fgets(line, sizeof line, child)) {
        printf("without wgmma: %s", line);
        if (!strncmp(line, "bits ", 5))
            other = strtoull(line + 5, NULL, 16);
    }
    CHECK(child && pclose(child) == 0, "without wgmma: failures");
    CHECK(other == bits, "without wgmma: bits %016llx", (unsigned long long)other);
}

int main(int argc, char **argv)
{
    const char *lib = "build/libgpugemm.so";
    bool expect_gpu = false;
    for (int i = 1; i < argc; i++) {
        expect_gpu |= !strcmp(argv[i], "--expect-gpu");
        lib = strcmp(argv[i], "--lib") || i + 1 == argc ? lib : argv[i + 1];
    }
    setenv("GPUGEMM_TRACE", "/dev/null", 1); /* only then do watched calls know which tier served them */
    void *library = dlopen(lib, RTLD_NOW | RTLD_LOCAL);
    if (!library || !resolved(library, "sgemm_", &sgemm) || !resolved(library, "gpugemm_set_precision", &set_precision) ||
        !resolved(library, "gpugemm_sgemm_precision", &sgemm_precision) || !resolved(library, "gpugemm_last_decision", &last_decision) ||
        !resolved(library, "gpugemm_warmup", &warmup))
        return fprintf(stderr, "%s lacks names\n", lib), 1;
    settings();
    if (expect_gpu) {
        if (!open_gpu() || warmup())
            return printf("skipped: no GPU\n"), SKIP;
        a = malloc(BYTES), b = malloc(BYTES);
        for (int i = 0; i < 3; i++)
            if (cuMemAlloc_v2(&on_gpu[i], BYTES) || !(c[i] = malloc(BYTES)))
                return printf("skipped: no memory\n"), SKIP;
        const char *forced = getenv("GPUGEMM_KERNEL");
        const bool mma = forced ? !strncmp(forced, "tensor_mma", 10) : compute_capability == 80;
        chains = mma || compute_capability == 90;
        by_blocks = mma;
        if (mma)
            tier_name[FP16] = "tensor_mma_fp16", tier_name[BF16] = "tensor_mma_bf16";
        for (int kind = 0; kind < KINDS; kind++)
            values(kind);
        printf("bits %016llx\n", (unsigned long long)bits);
        halfway();
        if (compute_capability == 90 && !forced)
            without_wgmma(argv[0], lib);
        /* The second C leaves no blocks idle, so the tiles at the edges take what lies beyond them, for BF16, too. */
        static const int beyond[] = {1, 8, 9, 16, 17, 31, 32, 33}, whole[][3] = {{1024, 1024, N}, {1536, 1280, 700}, {1280, 1280, 1200}};
        for (int w = 0; w < 3; w++)
            for (int i = 0; i < (int)(sizeof beyond / sizeof *beyond); i++) {
                const int m = whole[w][0], n = whole[w][1], k = whole[w][2], more = beyond[i];
                const bool wide = w > 0 && i % 2 > 0; /* for BF16 */
                edges(m, n, k, more, more, wide, GPUGEMM_PRECISION_FP32);
                edges(m, n, k, more, 0, wide, GPUGEMM_PRECISION_FP32);
                edges(m, n, k, 0, more, wide, GPUGEMM_PRECISION_FP32);
                edges(m, n, k, more, beyond[7 - i], wide, GPUGEMM_PRECISION_FP32);
                edges(m, n, k, more, more, wide, GPUGEMM_PRECISION_TF32);
                if (m + more < N && more < 10) {
                    fallback(m + more, n + more, N, N, "N", "N");
                    fallback(m + more, more, N, N, "N", "N");
                    fallback(more, n + more, N, N, "N", "N");
                }
            }
        for (int layout = 0; layout < 4; layout++) /* layouts that TMA cannot read and layouts that it can */
            for (int more = 0; more < 4; more++)
                fallback(1024, 1024, 1024, 1024 + more, layout & 2 ? "T" : "N", layout & 1 ? "T" : "N");
    }
    printf("%d failures\n", test_failures);
    return test_failures != 0;
}

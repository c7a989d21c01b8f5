/* accuracy.c — error and speed of sgemm in each precision, beside cuBLAS, over families of operands.
 *
 *   accuracy [--families a,b] [--sizes 1,8,...] [--copies 8x10] [--csv FILE] [--lib PATH] [--cublas PATH] [--commit TEXT]
 *   accuracy --time 2048,4096 [...]
 *
 * Errors are in units of u (|A||B|), u = 2^-24, element by element; the reference is cuBLAS's dgemm. Contestants: gpugemm strict and fp32, cuBLAS,
 * and cuBLAS in TF32. C is 8·257 × 10·193 (--copies): a 257×193 problem repeated, so large that the cost model has a reason to choose the tensor
 * cores, and that FFMA runs in the kernel that would normally serve. Every element is checked. With GPUGEMM_KERNEL=tensor_bf16 in the environment
 * fp32 begins with that tier. Exit status 1 if fp32 is less accurate than strict: maximum or root mean square error above strict's and above 1.
 * --time measures the time instead, n×n×n, operands in GPU memory, the L2 cache overwritten with other data before each call. */
#include <getopt.h>

#include "rig.h"

enum { M = 257, N = 193, SKIP = 77 };

static int copies_m = 8, copies_n = 10;

static __typeof__(gpugemm_set_precision) *set_precision;
static __typeof__(gpugemm_last_decision) *last_decision;
static void (*sgemm)(const char *, const char *, const int *, const int *, const int *, const float *, device_ptr, const int *, device_ptr,
                     const int *, const float *, device_ptr, const int *, size_t, size_t);
static __typeof__(gpugemm_sgemm) *sgemm_on_stream;

/* ---- random numbers ---------------------------------------------------------------------------------------------------------------------- */

static uint64_t state;

static uint64_t bits(void)
{
    uint64_t x = state += 0x9e3779b97f4a7c15;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}

static double unit(void) { return ((double)(bits() >> 11) + 0.5) * 0x1p-53; }

static double normal(void)
{
    static double spare;
    static bool have;
    if ((have = !have)) {
        double r = sqrt(-2 * log(unit())), phi = 2 * acos(-1) * unit();
        spare = r * sin(phi);
        return r * cos(phi);
    }
    return spare;
}

/* ---- the families: element l of row i of A, or (second) of column j of B ------------------------------------------------------------------ */

static double row_value[2][M]; /* a random value for each row */
static int row_place[2][M];    /* some l for each row */

static double uniform(int i, int l, bool second) { return (void)i, (void)l, (void)second, 2 * unit() - 1; }
static double positive(int i, int l, bool second) { return (void)i, (void)l, (void)second, unit(); }
static double gaussian(int i, int l, bool second) { return (void)i, (void)l, (void)second, normal(); }
static double wide(double phi) { return (unit() - 0.5) * exp(phi * normal()); }
static double wide_half(int i, int l, bool second) { return (void)i, (void)l, (void)second, wide(0.5); }
static double wide_1(int i, int l, bool second) { return (void)i, (void)l, (void)second, wide(1); }
static double wide_2(int i, int l, bool second) { return (void)i, (void)l, (void)second, wide(2); }
static double wide_4(int i, int l, bool second) { return (void)i, (void)l, (void)second, wide(4); }
static double wide_6(int i, int l, bool second) { return (void)i, (void)l, (void)second, wide(6); }
static double constant(int i, int l, bool second) { return (void)l, row_value[second][i]; }
static double one_huge(int i, int l, bool second) { return l == row_place[second][i] ? 0x1p20 * (1 + unit()) : normal(); }
static double graded(int i, int l, bool second) { return (void)l, (void)second, ldexp(normal(), -(i % 60)); }
static double graded_k(int i, int l, bool second) { return (void)i, (void)second, ldexp(normal(), -(l % 64)); }
static double cancelling(int i, int l, bool second) { return (void)i, second ? 1 + 1e-3 * unit() : (l % 2 ? -1 : 1) * (1 + 1e-3 * unit()); }
static double integers(int i, int l, bool second) { return (void)i, (void)l, (void)second, (double)(bits() % 17) - 8; }
static double large_integers(int i, int l, bool second) { return (void)i, (void)l, (void)second, (double)(bits() % 8001) - 4000; }
static double denormal(int i, int l, bool second) { return (void)i, (void)l, second ? ldexp(unit(), 20) : ldexp(2 * unit() - 1, -127); }
static double near_max(int i, int l, bool second) { return (void)i, (void)l, ldexp(2 * unit() - 1, second ? -20 : 127); }
static double blocks(int i, int l, bool second) { return ldexp(normal(), (int)((unsigned)(i / 16 * 7 + l / 64 * 13 + 5 * second) % 41) - 20); }
static double sparse(int i, int l, bool second) { return (void)i, (void)l, (void)second, bits() % 20 ? 0 : normal(); }
static double half_zero(int i, int l, bool second) { return (void)i, (void)l, second || bits() % 2 ? normal() : 0; }
static double triangular(int i, int l, bool second) { return second || l <= i ? normal() : 0; }
static double last_nan(int i, int l, bool second) { return gaussian(i, l, second); } /* time_family inserts the NaN */
static double diagonal(int i, int l, bool second) { return second || l == i ? normal() : 0; }

static const struct family {
    const char *name;
    double (*element)(int, int, bool);
} families[] = {
    {"uniform", uniform},       {"positive", positive}, {"normal", gaussian},       {"phi=0.5", wide_half},      {"phi=1", wide_1},
    {"phi=2", wide_2},          {"phi=4", wide_4},      {"phi=6", wide_6},          {"constant-rows", constant}, {"one-huge", one_huge},
    {"graded-rows", graded},    {"graded-k", graded_k}, {"cancelling", cancelling}, {"integers", integers},      {"large-integers", large_integers},
    {"denormals", denormal},    {"near-max", near_max}, {"block-scaled", blocks},   {"sparse-5%", sparse},       {"half-zero", half_zero},
    {"triangular", triangular}, {"diagonal", diagonal}, {"last-nan", last_nan}};

/* ---- one family at one k ------------------------------------------------------------------------------------------------------------------ */

static device_ptr a_s, b_s, c_s, a_d, b_d, c_d;

/* Row i of A is column i of the stored k×M matrix; B is stored k×N. Both have k contiguous. */
static void fill(float *to, int rows, int k, const struct family *f, bool second)
{
    for (int i = 0; i < rows; i++)
        row_value[second][i] = normal(), row_place[second][i] = (int)(bits() % (unsigned)k);
    for (int i = 0; i < rows; i++)
        for (int l = 0; l < k; l++)
            to[l + (int64_t)i * k] = (float)f->element(i, l, second);
}

static bool upload_double(device_ptr to, const float *x, double *buffer, int64_t count, bool absolute)
{
    for (int64_t i = 0; i < count; i++)
        buffer[i] = absolute ? fabs((double)x[i]) : x[i];
    return cuMemcpyHtoD_v2(to, buffer, (size_t)count * 8) == 0 && cuCtxSynchronize() == 0; /* `stream` is not ordered after such a copy */
}

struct error {
    double max, rms;
};

/* Where |A||B| is 0 the result must be 0; where it is beyond the range of float the element is not checked. */
static struct error error_of(const float *c, const double *want, const double *size)
{
    struct error e = {0, 0};
    for (int j = 0; j < copies_n * N; j++)
        for (int i = 0; i < copies_m * M; i++, c++) {
            int at = i % M + j % N * M;
            double d = fabs(*c - want[at]) / (0x1p-24 * size[at] + 0x1p-150);
            d = size[at] > 0x1p127 ? 0 : size[at] == 0 ? (*c == 0 ? 0 : INFINITY) : isnan(d) ? INFINITY : d;
            e.max = d > e.max ? d : e.max;
            e.rms += d * d;
        }
    e.rms = sqrt(e.rms / (copies_m * M * copies_n * N));
    return e;
}

static const char *const who[] = {"strict", "fp32", "cublas", "cublas-tf32"};
enum { STRICT, FP32, CUBLAS_FP32, CUBLAS_TF32, CONTESTANTS };

/* Computes C with one contestant. Returns the kernel that computed it, if that is one of ours. */
static const char *multiply(int contestant, int k, float *c)
{
    const int m = copies_m * M, n = copies_n * N;
    const float one = 1, zero = 0;
    struct gpugemm_decision decision = {.kernel = ""};
    if (contestant < CUBLAS_FP32) {
        set_precision(contestant == STRICT ? GPUGEMM_PRECISION_STRICT : GPUGEMM_PRECISION_FP32);
        sgemm("T", "N", &m, &n, &k, &one, a_s, &k, b_s, &k, &zero, c_s, &m, 1, 1);
        last_decision(&decision, sizeof decision);
    } else {
        cublasSetMathMode(cublas, contestant == CUBLAS_TF32 ? 3 /* CUBLAS_TF32_TENSOR_OP_MATH */ : 0);
        cublasSgemm_v2(cublas, 1, 0, m, n, k, &one, (void *)a_s, k, (void *)b_s, k, &zero, (void *)c_s, m);
        cuCtxSynchronize();
    }
    if (cuMemcpyDtoH_v2(c, c_s, sizeof(float) * (size_t)(m * n)))
        exit((fprintf(stderr, "the GPU failed\n"), 2));
    return decision.kernel;
}

static FILE *csv;
static int worse;

static void measure(const struct family *f, int k)
{
    const int64_t in_a = (int64_t)M * k, in_b = (int64_t)N * k;
    const double one = 1, zero = 0;
    float *a = malloc((size_t)in_a * 4), *b = malloc((size_t)in_b * 4), *c = malloc(sizeof(float) * (size_t)(copies_m * M * copies_n * N));
    double *buffer = malloc((size_t)in_a * 8), *want = malloc(sizeof(double) * M * N), *size = malloc(sizeof(double) * M * N);
    state = (uint64_t)(f - families) * 1000003 + (uint64_t)k;
    fill(a, M, k, f, false), fill(b, N, k, f, true);
    bool good = true;
    for (int copy = 0; copy < copies_m; copy++)
        good = good && !cuMemcpyHtoD_v2(a_s + (size_t)in_a * 4 * (size_t)copy, a, (size_t)in_a * 4);
    for (int copy = 0; copy < copies_n; copy++)
        good = good && !cuMemcpyHtoD_v2(b_s + (size_t)in_b * 4 * (size_t)copy, b, (size_t)in_b * 4);
    good = good && !cuCtxSynchronize();
    for (int absolute = 0; absolute < 2; absolute++)
        good = good && upload_double(a_d, a, buffer, in_a, absolute) && upload_double(b_d, b, buffer, in_b, absolute) &&
               !cublasDgemm_v2(cublas, 1, 0, M, N, k, &one, (void *)a_d, k, (void *)b_d, k, &zero, (void *)c_d, M) && !cuCtxSynchronize() &&
               !cuMemcpyDtoH_v2(absolute ? size : want, c_d, sizeof(double) * M * N);
    if (!good)
        exit((fprintf(stderr, "the GPU failed\n"), 2));
    struct error e[CONTESTANTS];
    const char *tier = "";
    printf("%-15s %6d ", f->name, k);
    for (int i = 0; i < CONTESTANTS; i++) {
        const char *kernel = multiply(i, k, c);
        e[i] = error_of(c, want, size);
        tier = i == FP32 ? kernel : tier;
        printf(" %9.3g %9.3g", e[i].max, e[i].rms);
        if (csv)
            fprintf(csv, "%s,%d,%dx%d,%s,%s,%.4g,%.4g,%s,%s,%s\n", f->name, k, copies_m * M, copies_n * N, who[i], kernel, e[i].max, e[i].rms,
                    machine, date_now(), commit);
    }
    bool less = !(e[FP32].max <= fmax(1, e[STRICT].max) && e[FP32].rms <= fmax(1, e[STRICT].rms));
    worse += less;
    printf("  %s%s\n", tier, less ? "  LESS ACCURATE" : "");
    fflush(stdout);
    free(a), free(b), free(c), free(buffer), free(want), free(size);
}

/* Milliseconds for n×n×n, the contestants taking turns. Operands are drawn once for 1024 rows and repeated. */
static void time_family(const struct family *f, int n)
{
    enum { ROUNDS = 9, ROWS = 1024 };
    const int rows = n < ROWS ? n : ROWS;
    const float one = 1, zero = 0;
    static device_ptr flush;
    static handle before, after;
    double ms[CONTESTANTS][ROUNDS];
    float *x = malloc((size_t)rows * (size_t)n * 4);
    if (!flush && (cuMemAlloc_v2(&flush, 256 << 20) || cuEventCreate(&before, 0) || cuEventCreate(&after, 0)))
        exit((fprintf(stderr, "no GPU memory\n"), 2));
    for (int second = 0; second < 2; second++) {
        fill(x, rows < M ? rows : M, n, f, second);
        for (int i = M; i < rows; i++)
            memcpy(x + (int64_t)i * n, x + (int64_t)(i % M) * n, (size_t)n * 4);
        for (int i = 0; i < n; i += rows)
            cuMemcpyHtoD_v2((second ? b_s : a_s) + (size_t)i * (size_t)n * 4, x, (size_t)(n - i < rows ? n - i : rows) * (size_t)n * 4);
    }
    if (f->element == last_nan)
        cuMemcpyHtoD_v2(b_s + ((size_t)n * (size_t)n - 1) * 4, &(float){NAN}, 4);
    cuCtxSynchronize();
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < CONTESTANTS; i++) {
            set_precision(i == STRICT ? GPUGEMM_PRECISION_STRICT : GPUGEMM_PRECISION_FP32);
            if (i >= CUBLAS_FP32)
                cublasSetMathMode(cublas, i == CUBLAS_TF32 ? 3 : 0);
            cuMemsetD32Async(flush, (unsigned)round, 64 << 20, stream);
            cuEventRecord(before, stream);
            if (i < CUBLAS_FP32)
                sgemm_on_stream(GPUGEMM_COL_MAJOR, GPUGEMM_TRANS, GPUGEMM_NO_TRANS, n, n, n, 1, (float *)a_s, n, (float *)b_s, n, 0, (float *)c_s, n,
                                stream);
            else
                cublasSgemm_v2(cublas, 1, 0, n, n, n, &one, (void *)a_s, n, (void *)b_s, n, &zero, (void *)c_s, n);
            cuEventRecord(after, stream);
            float elapsed;
            if (cuStreamSynchronize(stream) || cuEventElapsedTime(&elapsed, before, after))
                exit((fprintf(stderr, "the GPU failed\n"), 2));
            ms[i][round] = elapsed;
        }
    struct gpugemm_decision decision;
    set_precision(GPUGEMM_PRECISION_FP32);
    sgemm("T", "N", &n, &n, &n, &one, a_s, &n, b_s, &n, &zero, c_s, &n, 1, 1);
    last_decision(&decision, sizeof decision);
    double t[CONTESTANTS];
    printf("%-15s %6d ", f->name, n);
    for (int i = 0; i < CONTESTANTS; i++) {
        t[i] = median(ms[i], ROUNDS);
        printf(" %9.3f ms %6.1f TF/s", t[i], 2e-9 * n * n * n / t[i]);
        if (csv)
            fprintf(csv, "%s,%d,%s,%s,%.4f,%s,%s,%s\n", f->name, n, who[i], i == FP32 ? decision.kernel : "", t[i], machine, date_now(), commit);
    }
    printf("  x%.2f of strict, x%.2f of cuBLAS, %s\n", t[STRICT] / t[FP32], t[CUBLAS_FP32] / t[FP32], decision.kernel);
    fflush(stdout);
    free(x);
}

static bool listed(const char *list, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (!strncmp(at, name, length) && (at[length] == ',' || !at[length]))
            return true;
    return !list;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"lib", 1, 0, 'l'}, {"cublas", 1, 0, 'c'}, {"families", 1, 0, 'f'}, {"sizes", 1, 0, 's'},
                                            {"csv", 1, 0, 'o'}, {"commit", 1, 0, 'i'}, {"time", 1, 0, 't'},     {"copies", 1, 0, 'm'},   {0, 0, 0, 0}};
    const char *lib = "build/libgpugemm.so", *cublas_path = NULL, *wanted = NULL, *file = NULL;
    const char *sizes = "1,8,15,16,17,31,32,33,64,100,256,1000,4096,65536";
    bool timing = false;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;)
        switch (option) {
        case 'l': lib = optarg; break;
        case 'c': cublas_path = optarg; break;
        case 'f': wanted = optarg; break;
        case 't': timing = true; /* fall through */
        case 's': sizes = optarg; break;
        case 'o': file = optarg; break;
        case 'm':
            if (sscanf(optarg, "%dx%d", &copies_m, &copies_n) != 2 || copies_m < 1 || copies_n < 1 || copies_m > 64 || copies_n > 64)
                return 2;
            break;
        case 'i': commit = optarg; break;
        default: return 2;
        }
    setenv("GPUGEMM_TRACE", "/dev/null", 0); /* only then do watched calls know which tier served them */
    setenv("GPUGEMM_MODE", "gpu", 0);
    if (!commit)
        find_commit();
    if (!open_gpu() || !open_cublas(cublas_path))
        return printf("skipped: no GPU, or no cuBLAS\n"), SKIP;
    void *ours = dlopen(lib, RTLD_NOW);
    if (!resolved(ours, "sgemm_", &sgemm) || !resolved(ours, "gpugemm_sgemm", &sgemm_on_stream) ||
        !resolved(ours, "gpugemm_set_precision", &set_precision) || !resolved(ours, "gpugemm_last_decision", &last_decision))
        return fprintf(stderr, "%s is not ours\n", lib), 2;
    size_t most = 0, k;
    for (const char *at = sizes; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        most = (k = (size_t)atoi(at)) > most ? k : most;
    const size_t rows = timing ? most : (size_t)(copies_m * M > copies_n * N ? copies_m * M : copies_n * N), doubles = timing ? 1 : (size_t)M * most;
    if (most < 1 || cuMemAlloc_v2(&a_s, rows * most * 4) || cuMemAlloc_v2(&b_s, rows * most * 4) || cuMemAlloc_v2(&c_s, rows * rows * 4) ||
        cuMemAlloc_v2(&a_d, doubles * 8) || cuMemAlloc_v2(&b_d, doubles * 8) || cuMemAlloc_v2(&c_d, M * N * 8))
        return fprintf(stderr, "no GPU memory\n"), 2;
    csv = file ? fopen(file, "w") : NULL;
    if (csv)
        fprintf(csv, timing ? "family,n,who,kernel,ms,machine,date,commit\n" : "family,k,C,who,kernel,max,rms,machine,date,commit\n");
    printf("# %s, commit %s\n", machine, commit ? commit : "unknown");
    printf("%-15s %6s ", timing ? "family" : "errors in u", timing ? "n" : "k");
    for (int i = 0; i < CONTESTANTS; i++)
        printf(timing ? " %24s" : " %9.9s       rms", who[i]);
    printf("  kernel of fp32\n");
    for (const struct family *f = families; f < families + sizeof families / sizeof *families; f++)
        for (const char *at = sizes; at && listed(wanted, f->name) && (timing || f->element != last_nan); at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
            (timing ? time_family : measure)(f, atoi(at));
    if (!timing)
        printf("%d times less accurate than strict\n", worse);
    return worse != 0;
}

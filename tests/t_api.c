/* t_api.c — the contract of gpugemm.h, as far as it can be tested without a GPU: the status of every illegal argument, C untouched; what is read and
 * written when m, n, k, alpha or beta is 0; the settings of a thread; counts, decisions and explanations, also for programs compiled with smaller or
 * larger structures; the program's arithmetic.
 *
 *   t_api [--lib PATH] */
#include "test.h"

#include <dlfcn.h>
#include <fenv.h>
#include <locale.h>
#include <pthread.h>

#include "gpugemm.h"

#define API(X)                                                                                                                                       \
    X(gpugemm_version)                                                                                                                               \
    X(gpugemm_status_string)                                                                                                                         \
    X(gpugemm_sgemm) X(gpugemm_dgemm) X(gpugemm_set_precision) X(gpugemm_sgemm_precision) X(gpugemm_set_pointer_mode) X(gpugemm_warmup)              \
        X(gpugemm_release) X(gpugemm_stats_read) X(gpugemm_stats_reset) X(gpugemm_last_decision) X(gpugemm_explain) X(gpugemm_info)                  \
            X(gpugemm_info_json) X(gpugemm_tune)
static struct {
#define X(name) __typeof__(name) *name;
    API(X)
#undef X
} api;

#define ROW GPUGEMM_ROW_MAJOR
#define COL GPUGEMM_COL_MAJOR
#define N GPUGEMM_NO_TRANS
#define T GPUGEMM_TRANS
#define C GPUGEMM_CONJ_TRANS

/* ---- arguments ------------------------------------------------------------------------------------------------------------------------------ */

static const struct arguments {
    int status, layout, transa, transb; /* int, because some are none of the enumerators */
    int64_t m, n, k, lda, ldb, ldc;
} cases[] = {
    {0, COL, N, N, 3, 4, 5, 3, 5, 3},   {0, COL, T, C, 3, 4, 5, 5, 4, 3},    {0, ROW, N, N, 3, 4, 5, 5, 4, 4},    {0, ROW, T, T, 3, 4, 5, 3, 5, 4},
    {-1, 100, N, N, 3, 4, 5, 9, 9, 9},  {-1, 0, 9, 9, -1, -1, -1, 0, 0, 0},  {-2, COL, 110, N, 3, 4, 5, 9, 9, 9}, {-2, ROW, 114, N, 3, 4, 5, 9, 9, 9},
    {-3, COL, N, 0, 3, 4, 5, 9, 9, 9},  {-3, ROW, N, 'N', 3, 4, 5, 9, 9, 9}, {-4, COL, N, N, -1, 4, 5, 9, 9, 9},  {-4, ROW, N, N, -1, 4, 5, 9, 9, 9},
    {-5, COL, N, N, 3, -1, 5, 9, 9, 9}, {-5, ROW, N, N, 3, -1, 5, 9, 9, 9},  {-6, COL, N, N, 3, 4, -1, 9, 9, 9},  {-6, ROW, N, N, 3, 4, -1, 9, 9, 9},
    {-9, COL, N, N, 3, 4, 5, 2, 9, 9},  {-9, COL, T, N, 3, 4, 5, 4, 9, 9},   {-9, ROW, N, N, 3, 4, 5, 4, 9, 9},   {-9, ROW, T, N, 3, 4, 5, 2, 9, 9},
    {-11, COL, N, N, 3, 4, 5, 9, 4, 9}, {-11, COL, N, T, 3, 4, 5, 9, 3, 9},  {-11, ROW, N, N, 3, 4, 5, 9, 3, 9},  {-11, ROW, N, T, 3, 4, 5, 9, 4, 9},
    {-14, COL, N, N, 3, 4, 5, 9, 9, 2}, {-14, ROW, N, N, 3, 4, 5, 9, 9, 3},  {-9, COL, N, N, 0, 4, 5, 0, 9, 9},   {-14, ROW, N, N, 3, 0, 5, 9, 9, 0},
};

static void check_arguments(void)
{
    double a[81], b[81], c[81];
    float as[81], bs[81], cs[81];
    for (int i = 0; i < 81; i++)
        as[i] = (float)(a[i] = i % 7), bs[i] = (float)(b[i] = i % 5);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct arguments *x = &cases[i];
        for (int j = 0; j < 81; j++)
            cs[j] = (float)(c[j] = 1);
        int d = api.gpugemm_dgemm((enum gpugemm_layout)x->layout, (enum gpugemm_transpose)x->transa, (enum gpugemm_transpose)x->transb, x->m, x->n,
                                  x->k, 1, a, x->lda, b, x->ldb, 2, c, x->ldc, NULL);
        int s = api.gpugemm_sgemm((enum gpugemm_layout)x->layout, (enum gpugemm_transpose)x->transa, (enum gpugemm_transpose)x->transb, x->m, x->n,
                                  x->k, 1, as, x->lda, bs, x->ldb, 2, cs, x->ldc, NULL);
        CHECK(d == x->status && s == x->status, "case %zu: status %d and %d, not %d", i, d, s, x->status);
        for (int j = 0; j < 81; j++) {
            const bool row = x->layout == ROW;
            const int64_t line = x->status ? 99 : j / x->ldc, at = x->status ? 99 : j % x->ldc, r = row ? line : at, q = row ? at : line;
            double want = 1;
            if (r < x->m && q < x->n) {
                want = 2;
                for (int64_t l = 0; l < x->k; l++)
                    want +=
                        a[(x->transa != N) != row ? l + r * x->lda : r + l * x->lda] * b[(x->transb != N) != row ? q + l * x->ldb : l + q * x->ldb];
            }
            CHECK(c[j] == want && (double)cs[j] == want, "case %zu: c[%d] is %g and %g, not %g", i, j, c[j], (double)cs[j], want);
        }
    }
    CHECK(api.gpugemm_sgemm_precision(COL, N, N, 1, 1, 1, 1, as, 1, bs, 1, 0, cs, 1, NULL, (enum gpugemm_precision)4) == -16, "precision 4");
    CHECK(api.gpugemm_sgemm_precision(COL, N, (enum gpugemm_transpose)9, 1, 1, 1, 1, as, 1, bs, 1, 0, cs, 1, NULL, GPUGEMM_PRECISION_TF32) == -3,
          "sgemm_precision, transb");
}

static void check_zeros(void)
{
    double c[4] = {1, NAN, 3, NAN};
    const int64_t huge = INT64_C(1) << 40;
    CHECK(api.gpugemm_dgemm(COL, N, N, 0, huge, huge, NAN, NULL, 1, NULL, huge, NAN, NULL, 1, NULL) == 0, "m = 0");
    CHECK(api.gpugemm_dgemm(ROW, N, N, huge, 0, huge, NAN, NULL, huge, NULL, 1, NAN, NULL, 1, NULL) == 0, "n = 0");
    CHECK(api.gpugemm_dgemm(COL, N, N, 1, huge, 0, NAN, NULL, 1, NULL, 1, 1, NULL, 1, NULL) == 0, "k = 0, beta = 1");
    CHECK(api.gpugemm_dgemm(COL, N, N, 1, 2, 0, NAN, NULL, 1, NULL, 1, 5, c, 2, NULL) == 0 && c[0] == 5 && c[2] == 15, "k = 0 scales C");
    CHECK(api.gpugemm_dgemm(COL, N, N, 1, 2, huge, 0, NULL, 1, NULL, huge, 0.2, c, 2, NULL) == 0 && c[0] == 1 && c[2] == 3, "alpha = 0 scales C");
    CHECK(isnan(c[1]) && isnan(c[3]), "between the columns of C");
    CHECK(api.gpugemm_dgemm(COL, N, N, 2, 2, 0, 1, NULL, 2, NULL, 1, 0, c, 2, NULL) == 0 && !c[0] && !c[1] && !c[2] && !c[3],
          "beta = 0 does not read C");
}

static void check_words(void)
{
    char version[32];
    snprintf(version, sizeof version, "%d.%d.%d", GPUGEMM_VERSION_MAJOR, GPUGEMM_VERSION_MINOR, GPUGEMM_VERSION_PATCH);
    CHECK(!strcmp(api.gpugemm_version(), version), "version %s", api.gpugemm_version());
    for (int x = -20; x < 10; x++)
        for (int y = -20; y < x; y++) {
            const bool known = x >= -16 && x <= GPUGEMM_UNSUPPORTED, both = known || (y >= -16 && y <= GPUGEMM_UNSUPPORTED);
            CHECK(both == (strcmp(api.gpugemm_status_string(x), api.gpugemm_status_string(y)) != 0), "status %d and %d", x, y);
        }
    CHECK(strstr(api.gpugemm_status_string(-11), "ldb") && strstr(api.gpugemm_status_string(-14), "ldc"), "the names of arguments");
}

/* ---- a thread's settings, and what happened --------------------------------------------------------------------------------------------------- */

static void *other_thread(void *unused)
{
    struct gpugemm_decision d;
    (void)unused;
    api.gpugemm_last_decision(&d, sizeof d);
    CHECK(!*d.routine && !*d.kernel && !*d.reason && d.m == 0, "a thread's decision before its first call");
    CHECK(api.gpugemm_set_precision(GPUGEMM_PRECISION_FP32) == GPUGEMM_PRECISION_DEFAULT, "precision is a thread's own");
    CHECK(api.gpugemm_set_pointer_mode(GPUGEMM_POINTER_HOST) == GPUGEMM_POINTER_AUTO, "pointer mode is a thread's own");
    return NULL;
}

static void check_settings(void)
{
    pthread_t thread;
    float x = 3, y = 0;
    CHECK(api.gpugemm_set_precision(GPUGEMM_PRECISION_STRICT) == GPUGEMM_PRECISION_DEFAULT, "precision at first");
    CHECK(api.gpugemm_sgemm_precision(COL, N, N, 1, 1, 1, 1, &x, 1, &x, 1, 0, &y, 1, NULL, GPUGEMM_PRECISION_TF32) == 0 && y == 9, "3 x 3 is %g",
          (double)y);
    CHECK(api.gpugemm_set_pointer_mode(GPUGEMM_POINTER_HOST) == GPUGEMM_POINTER_AUTO, "pointer mode at first");
    if (!pthread_create(&thread, NULL, other_thread, NULL))
        pthread_join(thread, NULL);
    for (int i = 0; i < 2; i++) { /* what is no mode changes nothing */
        CHECK(api.gpugemm_set_precision((enum gpugemm_precision)(i ? -1 : 9)) == GPUGEMM_PRECISION_STRICT, "no precision");
        CHECK(api.gpugemm_set_pointer_mode((enum gpugemm_pointer_mode)(i ? -1 : 9)) == GPUGEMM_POINTER_HOST, "no pointer mode");
    }
    CHECK(api.gpugemm_set_precision(GPUGEMM_PRECISION_DEFAULT) == GPUGEMM_PRECISION_STRICT, "one call's precision stays");
    CHECK(api.gpugemm_set_pointer_mode(GPUGEMM_POINTER_AUTO) == GPUGEMM_POINTER_HOST, "pointer mode afterwards");
}

static void check_records(void)
{
    struct {
        struct gpugemm_stats stats;
        uint64_t beyond;
    } s = {.beyond = 7};
    double a[6] = {1, 2, 3, 4, 5, 6}, c[4];
    api.gpugemm_stats_reset();
    api.gpugemm_dgemm(ROW, N, T, 1, 2, 3, 1, a, 3, a, 3, 0, c, 2, NULL);
    api.gpugemm_dgemm(ROW, N, N, -1, 2, 3, 1, a, 3, a, 3, 0, c, 2, NULL);
    api.gpugemm_stats_read(&s.stats, sizeof s);
    CHECK(s.stats.calls == 1 && s.stats.calls == s.stats.cpu + s.stats.device + s.stats.staged && s.beyond == 0, "%llu calls, %llu beyond them",
          (unsigned long long)s.stats.calls, (unsigned long long)s.beyond);
    s.stats = (struct gpugemm_stats){.device = 7};
    api.gpugemm_stats_read(&s.stats, offsetof(struct gpugemm_stats, device));
    CHECK(s.stats.calls == 1 && s.stats.device == 7, "an older program's structure");
    struct gpugemm_decision d = {.pieces = 7};
    api.gpugemm_last_decision(&d, offsetof(struct gpugemm_decision, pieces));
    CHECK(!strcmp(d.routine, "dgemm") && *d.path && *d.reason && d.m == 2 && d.n == 1 && d.k == 3 && d.pieces == 7, "%s %lld %lld %lld", d.routine,
          (long long)d.m, (long long)d.n, (long long)d.k);
    api.gpugemm_stats_reset();
    api.gpugemm_stats_read(&s.stats, sizeof s.stats);
    CHECK(s.stats.calls == 0, "after a reset");
}

static void check_explanations(void)
{
    struct gpugemm_decision d;
    CHECK(api.gpugemm_release() == 0, "memory given back before any was taken");
    const int up = api.gpugemm_warmup();
    CHECK(up == GPUGEMM_SUCCESS || up == GPUGEMM_NO_GPU, "warm-up: %d", up);
    CHECK(api.gpugemm_explain("dgemm", N, N, 64, 64, 64, 0, 0, NULL, &d, sizeof d) == up && *d.path && *d.reason, "the GPU that is here");
    CHECK(api.gpugemm_explain("sgemm", T, C, 5000, 4000, 3000, 1, 1, "h200", &d, sizeof d) == 0 && d.m == 5000 && d.n == 4000 && d.k == 3000,
          "an assumed one");
    char *info = api.gpugemm_info(), *json = api.gpugemm_info_json();
    CHECK(info && json && strstr(info, api.gpugemm_version()) && json[0] == '{', "info");
    CHECK(!info || (strstr(info, "none in this build") ? !*d.kernel : !strcmp(d.path, "device") && *d.kernel && d.predicted_kernel > 0), "%s %s",
          d.path, d.kernel);
    free(info), free(json);
    const struct {
        int status;
        const char *routine;
        int transa, transb;
        int64_t m, n, k;
        const char *gpu;
    } wrong[] = {{-1, "zgemm", N, N, 1, 1, 1, NULL},    {-2, "dgemm", 0, N, 1, 1, 1, NULL},  {-3, "dgemm", N, 114, 1, 1, 1, NULL},
                 {-4, "sgemm", N, N, -1, 1, 1, NULL},   {-5, "sgemm", N, N, 1, -1, 1, NULL}, {-6, "sgemm", N, N, 1, 1, -1, NULL},
                 {-9, "sgemm", N, N, 1, 1, 1, "voodoo"}, {-1, NULL, N, N, 1, 1, 1, NULL}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const int status = api.gpugemm_explain(wrong[i].routine, (enum gpugemm_transpose)wrong[i].transa, (enum gpugemm_transpose)wrong[i].transb,
                                               wrong[i].m, wrong[i].n, wrong[i].k, 0, 0, wrong[i].gpu, &d, sizeof d);
        CHECK(status == wrong[i].status, "explain: %d, not %d", status, wrong[i].status);
    }
    CHECK(api.gpugemm_explain("sgemm", N, N, 1, 1, 1, 0, 0, NULL, NULL, sizeof d) == -10, "explain without a place for the answer");
}

/* ---- decimal points in what programs read ------------------------------------------------------------------------------------------ */

static char statistics[] = "/tmp/gpugemm-api-XXXXXX", trace[sizeof statistics + 6];

/* Must run before the first call. t_config.sh provides such a locale. */
static void watch_with_commas(void)
{
    setlocale(LC_ALL, "de_DE.UTF-8");
    close(mkstemp(statistics));
    snprintf(trace, sizeof trace, "%s.trace", statistics);
    setenv("GPUGEMM_STATS", statistics, 1);
    setenv("GPUGEMM_TRACE", trace, 1);
}

static void check_points(const char *text, const char *where)
{
    CHECK(text && *text, "%s: nothing", where);
    for (; text && (text = strchr(text, ',')); text++)
        CHECK(text[1] < '0' || text[1] > '9', "%s: a decimal comma: %.20s", where, text);
}

static void check_numbers(void)
{
    char *json = api.gpugemm_info_json();
    check_points(json, "info");
    free(json);
    for (int i = 0; i < 2; i++) {
        static char text[1 << 16];
        const char *name = i ? trace : statistics;
        FILE *file = fopen(name, "r");
        text[file ? fread(text, 1, sizeof text - 1, file) : 0] = 0;
        check_points(text, name);
        for (const char *at = text; !i && (at = strstr(at, "\"flops\": ")); at += 9)
            CHECK(strtod(at + 9, NULL) < 1e6, "%.30s: of multiply-adds that check_zeros did not ask for", at);
        if (file)
            fclose(file), unlink(name);
    }
}

/* What the library computes for itself raises no flag of the program's, not even where inexact is trapped. */
static void check_arithmetic(void)
{
    for (int trapped = 0; trapped < 2; trapped++) {
        struct gpugemm_decision decision;
        feclearexcept(FE_ALL_EXCEPT);
        if (trapped)
            feenableexcept(FE_INEXACT);
        api.gpugemm_warmup();
        api.gpugemm_explain("dgemm", N, T, 333, 333, 333, 0, 0, NULL, &decision, sizeof decision);
        char *text = api.gpugemm_info();
        fedisableexcept(FE_INEXACT);
        CHECK(!fetestexcept(FE_ALL_EXCEPT), "gpugemm_warmup, _explain or _info raised a flag");
        free(text);
    }
}

int main(int argc, char **argv)
{
    void *library = dlopen(argc > 2 ? argv[2] : "build/libgpugemm.so", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return fprintf(stderr, "%s\n", dlerror()), 1;
#define X(name)                                                                                                                                      \
    *(void **)&api.name = dlsym(library, #name);                                                                                                     \
    CHECK(api.name, "no %s", #name);
    API(X)
#undef X
    if (test_failures)
        return 1;
    watch_with_commas();
    check_settings(); /* first, because it looks at a thread's first decision */
    check_arguments();
    check_zeros();
    check_words();
    check_records();
    check_explanations();
    check_arithmetic();
    check_numbers();
    printf("%d failures\n", test_failures);
    return test_failures != 0;
}

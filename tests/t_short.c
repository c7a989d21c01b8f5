/* t_short.c — the short way of small calls (entry_*.S, and straight() in entry.c), under every name.
 *
 *   t_short --lib PATH --blas PATH
 *
 * The BLAS is plain_blas.c's. Sizes lie on both sides of what goes straight to it, alpha also is 0, which never goes there: the product is right, the
 * calls are counted, gpugemm_last_decision shows this call, and a call that goes straight arrives as it was made, from whoever made it. */
#include "test.h"

#include "gpugemm.h"
#include "spellings.h"

enum { STRAIGHT = 64, MOST = 100 * 65 };

struct arrived { /* plain_blas.c */
    const void *caller, *b;
    int64_t ldc;
    double beta;
    size_t hidden;
};

static __typeof__(gpugemm_last_decision) *last_decision;
static __typeof__(gpugemm_stats_read) *stats_read;
static const struct arrived *arrived;
static double memory[3][MOST]; /* of floats or doubles, in the program's data */

static void put(bool dbl, int x, int64_t i, double value) { dbl ? (void)(memory[x][i] = value) : (void)(((float *)memory[x])[i] = (float)value); }
static double get(bool dbl, int x, int64_t i) { return dbl ? memory[x][i] : (double)((float *)memory[x])[i]; }

/* The elements of A, B and C are small integers, so that every order of summation gives the same. */
static int64_t wrong_elements(const struct spelling *s, const struct call *x)
{
    const bool rows = s->cblas && x->layout == 101;
    int64_t wrong = 0;
    for (int64_t i = 0; i < x->m; i++)
        for (int64_t j = 0; j < x->n; j++) {
            const int64_t at = rows ? i * x->ldc + j : i + j * x->ldc;
            double sum = x->beta * (double)(at % 3);
            for (int64_t l = 0; x->alpha != 0 && l < x->k; l++)
                sum += x->alpha * (double)(((rows ? i * x->lda + l : i + l * x->lda) % 7) * ((rows ? l * x->ldb + j : l + j * x->ldb) % 5 - 2));
            wrong += get(s->dbl, 2, at) != sum;
        }
    return wrong;
}

static void try_call(const struct spelling *s, const struct call *x)
{
    const bool rows = s->cblas && x->layout == 101;
    char what[120];
    struct gpugemm_stats before, after;
    struct gpugemm_decision d;
    Dl_info self, caller;
    snprintf(what, sizeof what, "%s, layout %d, %d x %d x %d, alpha %g", s->name, x->layout, (int)x->m, (int)x->n, (int)x->k, x->alpha);
    for (int64_t i = 0; i < MOST; i++) {
        put(s->dbl, 0, i, x->alpha == 0 ? NAN : (double)(i % 7));
        put(s->dbl, 1, i, (double)(i % 5 - 2));
        put(s->dbl, 2, i, (double)(i % 3));
    }
    stats_read(&before, sizeof before);
    call_gemm(s, x);
    stats_read(&after, sizeof after);
    last_decision(&d, sizeof d);
    const int64_t wrong = wrong_elements(s, x);
    CHECK(!wrong, "%s: %d wrong", what, (int)wrong);
    CHECK(after.cpu == before.cpu + 1 && after.calls == before.calls + 1, "%s: counted %d times", what, (int)(after.calls - before.calls));
    CHECK(!strcmp(d.routine, s->dbl ? "dgemm" : "sgemm") && d.m == (rows ? x->n : x->m) && d.n == (rows ? x->m : x->n) && d.k == x->k,
          "%s: the last decision is %s %d x %d x %d", what, d.routine, (int)d.m, (int)d.n, (int)d.k);
    CHECK(!strcmp(d.path, "cpu") && !*d.kernel && (x->alpha == 0 || !strcmp(d.reason, "faster on the CPU")), "%s: %s, %s", what, d.path, d.reason);
    if (x->alpha == 0 || x->m > STRAIGHT || x->n > STRAIGHT || x->k > STRAIGHT)
        return;
    CHECK(dladdr(arrived->caller, &caller) && dladdr((void *)try_call, &self) && caller.dli_fbase == self.dli_fbase, "%s: it did not go straight",
          what);
    CHECK(arrived->b == x->b && arrived->ldc == x->ldc && arrived->beta == x->beta && (s->cblas || arrived->hidden == 2 * x->hidden),
          "%s: arguments changed on the way", what);
}

int main(int argc, char **argv)
{
    static const int sizes[][3] = {{8, 5, 3}, {1, 1, 1}, {64, 63, 2}, {2, 64, 64}, {65, 3, 64}, {3, 65, 4}, {4, 3, 65}, {100, 64, 40}};
    const char *lib = "build/libgpugemm.so", *blas = "build/tests/libplain_blas.so";
    for (int i = 1; i + 1 < argc; i += 2)
        *(strcmp(argv[i], "--blas") ? &lib : &blas) = argv[i + 1];
    setenv("GPUGEMM_MODE", "auto", 1);
    setenv("GPUGEMM_BLAS", blas, 1);
    void *library = open_library(lib, RTLD_LOCAL), *plain = open_library(blas, RTLD_LOCAL);
    *(void **)&last_decision = dlsym(library, "gpugemm_last_decision");
    *(void **)&stats_read = dlsym(library, "gpugemm_stats_read");
    arrived = dlsym(plain, "plain_arrived");
    if (find_spellings(library) < SPELLINGS || !last_decision || !stats_read || !arrived)
        return fprintf(stderr, "%s or %s lacks names\n", lib, blas), 1;
    for (int i = 0; i < 2 * SPELLINGS; i++) {
        const struct spelling *s = &spellings[i / 2];
        struct call x = {.layout = 101 + i % 2,
                         .transa = s->cblas ? 111 : 'N',
                         .transb = s->cblas ? 111 : 'N',
                         .a = memory[0],
                         .b = memory[1],
                         .c = memory[2],
                         .alpha = 1,
                         .beta = 2,
                         .m = 1,
                         .n = 1,
                         .k = 1,
                         .lda = 1,
                         .ldb = 1,
                         .ldc = 1,
                         .hidden = 7};
        call_gemm(s, &x); /* opens the short way */
        for (unsigned j = 0; j < sizeof sizes / sizeof *sizes; j++)
            for (int zero = 0; zero < 3; zero++) {
                const bool rows = s->cblas && x.layout == 101;
                x.alpha = zero == 0 ? 3 : zero == 1 ? 0 : -0.0;
                x.m = sizes[j][0], x.n = sizes[j][1], x.k = sizes[j][2];
                x.lda = rows ? x.k : x.m, x.ldb = rows ? x.n : x.k, x.ldc = rows ? x.n : x.m;
                try_call(s, &x);
            }
    }
    printf("%d names: %d failures\n", SPELLINGS, test_failures);
    return test_failures != 0;
}

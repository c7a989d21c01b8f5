/* badargs.c — illegal arguments under every spelling are reported as the real BLAS reports them, and nothing is touched.
 *
 *   badargs --lib PATH --real PATH [--openblas PATH] [--partial]     (the library's own real BLAS must be the same: GPUGEMM_BLAS=PATH)
 *
 * This program defines xerbla_, xerbla_64_ and cblas_xerbla, as NumPy, R, Octave and the BLAS testers do, and records what is reported to them. One
 * child process makes every call on the real BLAS, another on the library. The two records must agree, each call must leave C as it was, and a legal
 * call afterwards must still be right. A spelling that the real BLAS lacks is compared with OpenBLAS under the plain Fortran or CBLAS name (most of
 * these spellings are OpenBLAS's), except that one with 64-bit integers reports to xerbla_64_. */
#include "test.h"

#include <stdarg.h>
#include <sys/wait.h>

#include "spellings.h"

enum handler { NOBODY, XERBLA, XERBLA_64, CBLAS_XERBLA };
static const char *const handlers[] = {"nobody", "xerbla_", "xerbla_64_", "cblas_xerbla"};

struct record {
    int reports, info;
    enum handler handler;
    char name[12];
    bool touched;
};

static struct record now;

static void note(enum handler handler, int info, const char *name, size_t length)
{
    now.reports++, now.info = info, now.handler = handler;
    snprintf(now.name, sizeof now.name, "%.*s", (int)(length < 11 ? length : 11), name);
}

void xerbla_(const char *name, const int *info, size_t length)
{
    (void)length; /* OpenBLAS passes one more than the name has, and some callers pass nothing */
    note(XERBLA, *info, name, strnlen(name, 6));
}

void xerbla_64_(const char *name, const int64_t *info, size_t length)
{
    (void)length;
    note(XERBLA_64, (int)*info, name, *info == (int)*info ? strnlen(name, 6) : 0);
}

void cblas_xerbla(int info, const char *name, const char *form, ...)
{
    (void)form;
    note(CBLAS_XERBLA, info, name, strlen(name));
}

/* Everything about a call that can be wrong. The transposes are indices into the letters or enums below; the leading dimensions are relative to the
 * least legal ones. `bad`: every BLAS must report it. `null`: the operands are NULL, which is legal where nothing is read. */
static const struct bad {
    int transa, transb;
    int m, n, k, lda, ldb, ldc;
    bool bad, null;
    const char *what;
    bool quirk; /* implementations differ */
} cases[] = {
    {3, 0, 5, 6, 7, 0, 0, 0, true, false, "transa", false},
    {0, 3, 5, 6, 7, 0, 0, 0, true, false, "transb", false},
    {4, 0, 5, 6, 7, 0, 0, 0, true, false, "transa is 0", false},
    {0, 4, 5, 6, 7, 0, 0, 0, true, false, "transb is 0", false},
    {0, 0, -1, 6, 7, 9, 0, 9, true, false, "m", false},
    {0, 0, 5, -1, 7, 0, 9, 9, true, false, "n", false},
    {0, 0, 5, 6, -1, 9, 9, 0, true, false, "k", false},
    {0, 0, 5, 6, 7, -1, 0, 0, true, false, "lda, nn", false},
    {1, 0, 5, 6, 7, -1, 0, 0, true, false, "lda, tn", false},
    {2, 1, 5, 6, 7, -1, 0, 0, true, false, "lda, ct", false},
    {0, 0, 5, 6, 7, 0, -1, 0, true, false, "ldb, nn", false},
    {0, 1, 5, 6, 7, 0, -1, 0, true, false, "ldb, nt", false},
    {1, 2, 5, 6, 7, 0, -1, 0, true, false, "ldb, tc", false},
    {0, 0, 5, 6, 7, 0, 0, -1, true, false, "ldc, nn", false},
    {1, 1, 5, 6, 7, 0, 0, -1, true, false, "ldc, tt", false},
    {0, 0, 5, 6, 0, 0, 0, -1, true, false, "ldc, k = 0", false},
    {3, 3, -1, -1, -1, -1, -1, -1, true, false, "everything: the first is reported", false},
    {0, 0, -1, 6, 7, 0, 0, 0, true, false, "m before ld", false},
    {0, 0, 0, 6, 7, 0, -1, 0, true, false, "before the quick return", false},
    {0, 0, 0, 6, 7, 0, 0, 0, false, true, "m = 0, all NULL", false},
    {0, 0, 5, 0, 7, 0, 0, 0, false, true, "n = 0, all NULL", false},
    {1, 1, 0, 0, 0, 0, 0, 0, false, true, "m = n = k = 0, all NULL", false},
    {0, 0, 0, 6, 7, -1, 0, 0, false, false, "m = 0, lda = 0", true},
    {0, 0, 5, 6, 7, 2, 2, 2, false, false, "nothing wrong", false},
};
enum { CASES = sizeof cases / sizeof *cases, LAYOUTS = 3 };

static void run(const struct spelling *s, int layout, const struct bad *bad, struct record *out)
{
    static const char letters[] = "NTCX";
    static const int enums[] = {111, 112, 113, 120, 0};
    static double a[256], b[256], c[256], c0[256]; /* large enough for every ld above, in doubles or floats */
    bool row = s->cblas && layout == 101, ta = bad->transa == 1 || bad->transa == 2, tb = bad->transb == 1 || bad->transb == 2;
    int m = bad->m, n = bad->n, k = bad->k;
#define AT_LEAST_1(x) ((x) > 1 ? (x) : 1)
    struct call x = {.layout = layout, .m = m, .n = n, .k = k, .alpha = 0.5, .beta = 2, .a = a, .b = b, .c = c, .hidden = 1,
                     .transa = s->cblas ? enums[bad->transa] : letters[bad->transa],
                     .transb = s->cblas ? enums[bad->transb] : letters[bad->transb],
                     .lda = AT_LEAST_1(ta != row ? k : m) + bad->lda,
                     .ldb = AT_LEAST_1(tb != row ? n : k) + bad->ldb,
                     .ldc = AT_LEAST_1(row ? n : m) + bad->ldc};
    if (bad->null)
        x.a = x.b = x.c = NULL;
    for (int i = 0; i < 256; i++)
        a[i] = b[i] = c[i] = 1 + i;
    memcpy(c0, c, sizeof c);
    now = (struct record){0};
    call_gemm(s, &x);
    now.touched = memcmp(c, c0, sizeof c) != 0;
    *out = now;
}

static bool right_afterwards(const struct spelling *s)
{
    float fa[4] = {1, 2, 3, 4}, fc[4] = {1, 1, 1, 1};
    double da[4] = {1, 2, 3, 4}, dc[4] = {1, 1, 1, 1};
    const void *a = s->dbl ? (const void *)da : fa;
    void *c = s->dbl ? (void *)dc : fc;
    int none = s->cblas ? 111 : 'n';
    call_gemm(s, &(struct call){102, none, none, 2, 2, 2, 2, 2, 2, a, a, c, 1, 1, 1});
    static const double expected[4] = {8, 11, 16, 23}; /* [1 3; 2 4]^2 + 1 */
    for (int i = 0; i < 4; i++)
        if ((s->dbl ? dc[i] : (double)fc[i]) != expected[i])
            return false;
    return true;
}

/* The plain name with the same type and convention: a BLAS that lacks this spelling is called by that name instead. */
static const struct spelling *plain(const struct spelling *s)
{
    for (int i = 0; i < SPELLINGS; i++)
        if (!strcmp(spellings[i].name, s->cblas ? s->dbl ? "cblas_dgemm" : "cblas_sgemm" : s->dbl ? "dgemm_" : "sgemm_"))
            return &spellings[i];
    abort();
}

enum who { LIBRARY, REAL, OPENBLAS };

/* Makes all calls on the library at `path`, in a process of its own, and records the results in `out`; `present` tells which spellings it has. */
static bool run_all(const char *path, enum who who, struct record out[SPELLINGS][LAYOUTS * CASES], bool *present)
{
    pid_t child = fork();
    if (child == 0) {
        find_spellings(open_library(path, RTLD_LOCAL));
        for (int s = 0; s < SPELLINGS; s++) {
            present[s] = spellings[s].address != NULL;
            const struct spelling *spelling = who == OPENBLAS ? plain(&spellings[s]) : &spellings[s];
            for (int i = 0; i < LAYOUTS * CASES && spelling->address; i++)
                run(spelling, 100 + i / CASES, &cases[i % CASES], &out[s][i]);
            CHECK(!spelling->address || right_afterwards(spelling), "%s: %s is wrong afterwards", path, spelling->name);
        }
        exit(test_failures != 0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == SKIP)
        exit(SKIP);
    CHECK(status == 0, "%s: wait status %d", path, status);
    return status == 0;
}

int main(int argc, char **argv)
{
    const char *lib = "build/libgpugemm.so", *openblas = "libopenblas.so.0", *real = NULL;
    bool partial = false;
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], "--partial"))
            partial = true;
        else if (i + 1 < argc && !strcmp(argv[i], "--lib"))
            lib = argv[++i];
        else if (i + 1 < argc && !strcmp(argv[i], "--real"))
            real = argv[++i];
        else if (i + 1 < argc && !strcmp(argv[i], "--openblas"))
            openblas = argv[++i];
        else
            return fprintf(stderr, "usage: badargs --lib PATH --real PATH [--openblas PATH] [--partial]\n"), 2;
    real = real ? real : openblas;
    struct run {
        struct record record[SPELLINGS][LAYOUTS * CASES];
        bool present[SPELLINGS];
    } *runs = mmap(NULL, 3 * sizeof *runs, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    const char *paths[] = {lib, real, openblas};
    bool done = true;
    int found = 0, compared = 0, reported = 0;
    for (enum who who = LIBRARY; who <= OPENBLAS; who++)
        done = run_all(paths[who], who, runs[who].record, runs[who].present) && done;
    for (int s = 0; s < SPELLINGS; s++)
        found += runs[LIBRARY].present[s];
    CHECK(partial || found == SPELLINGS, "%s has %d of %d spellings", lib, found, SPELLINGS);
    for (int one = 0; done && one < SPELLINGS * LAYOUTS * CASES; one++) {
        int spelling = one / (LAYOUTS * CASES), i = one % (LAYOUTS * CASES), layout = 100 + i / CASES;
        const struct spelling *s = &spellings[spelling];
        const struct bad *bad = &cases[i % CASES];
        bool lacking = !runs[REAL].present[spelling];
        const struct record *ours = &runs[LIBRARY].record[spelling][i];
        const struct record *theirs = &runs[lacking ? OPENBLAS : REAL].record[spelling][i];
        if (!runs[LIBRARY].present[spelling] || (layout == 100 && !s->cblas) || (bad->quirk && lacking))
            continue;
        const enum handler handler = lacking && s->wide && theirs->handler == XERBLA ? XERBLA_64 : theirs->handler;
        bool wrong = bad->bad || layout == 100;
        CHECK(!wrong || theirs->reports, "%s, layout %d, %s: the real BLAS reports nothing", s->name, layout, bad->what);
        CHECK(ours->reports == theirs->reports && ours->info == theirs->info && ours->handler == handler &&
                  !strcmp(ours->name, theirs->name),
              "%s, layout %d, %s: %d reports, %s \"%s\" %d; the real BLAS: %d, %s \"%s\" %d", s->name, layout, bad->what,
              ours->reports, handlers[ours->handler], ours->name, ours->info, theirs->reports, handlers[handler], theirs->name,
              theirs->info);
        CHECK(!(wrong || bad->null) || !ours->touched, "%s, layout %d, %s: C was touched", s->name, layout, bad->what);
        compared++, reported += wrong;
    }
    printf("%d calls under %d spellings over %s, %d of them illegal: %d failures\n", compared, found, real, reported, test_failures);
    return test_failures != 0;
}

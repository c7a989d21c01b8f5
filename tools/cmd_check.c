/* cmd_check.c — `gpugemm check`: is the installation right, on this machine, now? Each output line is one thing tried. What depends on GPUGEMM_MODE,
 * which the library reads only once, runs in child processes that set it. Products are compared with dot products in long double, by the
 * componentwise bound. */
#include <argp.h>
#include <dlfcn.h>
#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd.h"
#include "gpugemm.h"
#include "json.h"

typedef void fortran_gemm(const char *, const char *, const int *, const int *, const int *, const void *, const void *, const int *, const void *,
                          const int *, const void *, void *, const int *, size_t, size_t);

/* A child's findings, in memory that it shares with its parent. */
struct findings {
    bool done;
    int products, wrong;
    double worst; /* error as a fraction of the bound */
    struct gpugemm_stats stats;
    int64_t n; /* the size that was timed */
    double seconds;
    char first_wrong[128];
};

static struct {
    bool json;
    int lines, failures;
} g;

/* ---- one line a check ------------------------------------------------------------------------------------------------------------------ */

enum verdict { GOOD, NOTE, BAD };

static void line(enum verdict v, const char *what, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void line(enum verdict v, const char *what, const char *format, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    g.failures += v == BAD;
    if (g.json) {
        printf("%s{\"check\": ", g.lines ? ",\n " : "");
        gg_json_string(stdout, what);
        printf(", \"result\": \"%s\", \"detail\": ", v == GOOD ? "ok" : v == NOTE ? "note" : "failed");
        gg_json_string(stdout, text);
        putchar('}');
    } else {
        printf("%s%-6s%s  %-10s %s\n",
               v == GOOD  ? CMD_GOOD
               : v == BAD ? CMD_BAD
                          : "",
               v == GOOD  ? "ok"
               : v == BAD ? "FAILED"
                          : "note",
               CMD_PLAIN, what, text);
    }
    g.lines++;
    fflush(stdout);
}

/* ---- products -------------------------------------------------------------------------------------------------------------------------- */

static double uniform(void) /* in [-1, 1), with 32 random bits */
{
    static uint64_t x = 88172645463325252u;
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    return (double)(int32_t)(x >> 32) * 0x1p-31;
}

static double element(const void *matrix, bool dbl, size_t i) { return dbl ? ((const double *)matrix)[i] : (double)((const float *)matrix)[i]; }

static void fill(void *matrix, bool dbl, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (dbl)
            ((double *)matrix)[i] = uniform();
        else
            ((float *)matrix)[i] = (float)uniform();
}

/* Computes one product with ld 3 more than needed. Compares `samples` elements (0: all), keeps the largest error in *f, and counts a write outside C
 * as wrong, too. */
static void try_product(struct findings *f, fortran_gemm *gemm, bool dbl, const char *trans, int m, int n, int k, double alpha, double beta,
                        int samples)
{
    const bool ta = trans[0] == 'T', tb = trans[1] == 'T';
    const int lda = (ta ? k : m) + 3, ldb = (tb ? n : k) + 3, ldc = m + 3;
    const size_t size = dbl ? 8 : 4, na = (size_t)lda * (size_t)(ta ? m : k), nb = (size_t)ldb * (size_t)(tb ? k : n), nc = (size_t)ldc * (size_t)n;
    char *a = malloc(na * size), *b = malloc(nb * size), *c = malloc(nc * size), *before = malloc(nc * size);
    float alpha_s = (float)alpha, beta_s = (float)beta;
    f->products++;
    if (!a || !b || !c || !before) {
        f->wrong++;
        snprintf(f->first_wrong, sizeof f->first_wrong, "no memory");
        goto out;
    }
    fill(a, dbl, na), fill(b, dbl, nb), fill(before, dbl, nc);
    memcpy(c, before, nc * size);
    gemm(&trans[0], &trans[1], &m, &n, &k, dbl ? (void *)&alpha : &alpha_s, a, &lda, b, &ldb, dbl ? (void *)&beta : &beta_s, c, &ldc, 1, 1);
    double u = dbl ? DBL_EPSILON / 2 : FLT_EPSILON / 2, worst = 0;
    for (int64_t s = 0; s < (samples ? samples : (int64_t)m * n); s++) {
        int64_t i = samples ? s * 7919 % m : s % m, j = samples ? s * 104729 % n : s / m;
        long double sum = 0, absolute = 0;
        for (int64_t l = 0; l < k; l++) {
            long double term =
                (long double)element(a, dbl, (size_t)(ta ? l + i * lda : i + l * lda)) * element(b, dbl, (size_t)(tb ? j + l * ldb : l + j * ldb));
            sum += term, absolute += fabsl(term);
        }
        size_t at = (size_t)(i + j * ldc);
        long double old = (long double)beta * element(before, dbl, at);
        double bound = (k + 3) * u * (double)(fabsl((long double)alpha) * absolute + fabsl(old)) + DBL_MIN;
        double error = fabs((double)(element(c, dbl, at) - ((long double)alpha * sum + old))) / bound;
        worst = error <= worst ? worst : isnan(error) ? INFINITY : error;
    }
    bool stray = false;
    for (int j = 0; j < n; j++)
        stray =
            stray || memcmp(c + ((size_t)j * (size_t)ldc + (size_t)m) * size, before + ((size_t)j * (size_t)ldc + (size_t)m) * size, 3 * size) != 0;
    f->worst = fmax(f->worst, worst);
    if ((!(worst <= 1) || stray) && f->wrong++ == 0)
        snprintf(f->first_wrong, sizeof f->first_wrong, "%cgemm %s %d x %d x %d, alpha %g, beta %g: %s", dbl ? 'd' : 's', trans, m, n, k, alpha, beta,
                 stray ? "written outside C" : "beyond the error bound");
out:
    free(a), free(b), free(c), free(before);
}

static double time_product(fortran_gemm *gemm, int n)
{
    const size_t count = (size_t)n * (size_t)n;
    double *a = malloc(count * 8), *b = malloc(count * 8), *c = malloc(count * 8), one = 1, zero = 0, best = INFINITY;
    if (a && b && c) {
        fill(a, true, count), fill(b, true, count), memset(c, 0, count * 8);
        for (int i = 0; i < 4; i++) {
            double start = cmd_now();
            gemm("N", "N", &n, &n, &n, &one, a, &n, b, &n, &zero, c, &n, 1, 1);
            best = fmin(best, cmd_now() - start);
            if (best > 1)
                break;
        }
    }
    free(a), free(b), free(c);
    return best;
}

static void child(struct findings *f, const char *mode, int64_t n)
{
    setenv("GPUGEMM_MODE", mode, 1);
    for (size_t i = 0; i < 3; i++) /* the caller's own settings are not wanted here; tf32 would rightly exceed the bound */
        unsetenv((const char *[]){"GPUGEMM_STATS", "GPUGEMM_TRACE", "GPUGEMM_PRECISION"}[i]);
    fortran_gemm *gemm[2];
    *(void **)&gemm[0] = cmd_symbol("sgemm_");
    *(void **)&gemm[1] = cmd_symbol("dgemm_");
    static const int shapes[][3] = {{1, 1, 1}, {64, 64, 64}, {63, 65, 67}, {127, 1, 300}, {1, 129, 50}, {130, 70, 1}, {33, 200, 17}};
    static const double scalars[][2] = {{1, 0}, {-0.7, 1}, {1.5, -0.3}};
    for (int dbl = 0; dbl < 2; dbl++)
        for (int layout = 0; layout < 4; layout++) {
            const char *trans = (const char *[]){"NN", "NT", "TN", "TT"}[layout];
            for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
                for (size_t x = 0; x < sizeof scalars / sizeof *scalars; x++)
                    try_product(f, gemm[dbl], dbl, trans, shapes[s][0], shapes[s][1], shapes[s][2], scalars[x][0], scalars[x][1], 0);
            try_product(f, gemm[dbl], dbl, trans, 611, 513, 700, 1, 0.5, 500);
        }
    f->n = n ? n : 512;
    f->seconds = time_product(gemm[1], (int)f->n);
    if (!n && f->seconds < 0.1) {
        f->n = 2048;
        f->seconds = time_product(gemm[1], 2048);
    }
    ((__typeof__(gpugemm_stats_read) *)cmd_symbol("gpugemm_stats_read"))(&f->stats, sizeof f->stats);
    f->done = true;
}

/* Runs child() in a process of its own; false if that did not finish. */
static bool run_child(struct findings *f, const char *mode, int64_t n)
{
    memset(f, 0, sizeof *f);
    fflush(NULL);
    signal(SIGCHLD, SIG_DFL); /* whoever ignores it gets no status */
    pid_t pid = fork();
    if (pid == 0) {
        child(f, mode, n);
        _exit(0);
    }
    int status = -1;
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0 && f->done;
}

/* ---- the checks ------------------------------------------------------------------------------------------------------------------------ */

static void check_names(void)
{
    static const char *const spellings[] = {
        "%cgemm_",   "%cgemm",          "cblas_%cgemm",    "scipy_%cgemm_",    "scipy_cblas_%cgemm",   "%cgemm_64_",
        "%cgemm_64", "cblas_%cgemm64_", "cblas_%cgemm_64", "scipy_%cgemm_64_", "scipy_cblas_%cgemm64_"};
    static const char *const others[] = {"ddot_", "zdotc_", "dgemv_", "dsyrk_", "ztrsm_", "cblas_ddot", "cblas_dsyrk", "ddot_64_", "xerbla_"};
    int found = 0, missing = 0;
    char name[64], first[64] = "";
    for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++)
        for (int t = 0; t < 2; t++) {
            snprintf(name, sizeof name, spellings[i], "sd"[t]);
            if (dlsym(cmd_open(), name))
                found++;
            else if (missing++ == 0)
                snprintf(first, sizeof first, "%s", name);
        }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (dlsym(cmd_open(), others[i]))
            found++;
        else if (missing++ == 0)
            snprintf(first, sizeof first, "%s", others[i]);
    line(missing ? BAD : GOOD, "names", missing ? "%d of %d names are missing, %s first" : "%d of %d names tried are exported%s",
         missing ? missing : found, found + missing, first);
}

/* Uses a program of its own, env(1), which prints its environment: a library preloaded into it can be seen there. */
static void check_preload(void)
{
    char out[128] = "";
    setenv("LIBRARY", cmd_library(), 1);
    FILE *p = popen("LD_PRELOAD=$LIBRARY sh -c 'grep -c libgpugemm /proc/self/maps' 2>&1", "r");
    if (p && !fgets(out, sizeof out, p))
        *out = 0;
    if (p)
        pclose(p);
    unsetenv("LIBRARY");
    out[strcspn(out, "\n")] = 0;
    if (atoi(out) > 0)
        line(GOOD, "preload", "a program starts with the library in it");
    else
        line(BAD, "preload", "the library did not get into a program: %s", out);
}

static void report(const char *what, const struct findings *f, bool came_to_end)
{
    if (!came_to_end)
        line(BAD, what, "the process that tried products ended in the middle, after %d", f->products);
    else if (f->wrong)
        line(BAD, what, "%d of %d products are wrong; %s", f->wrong, f->products, f->first_wrong);
    else
        line(GOOD, what, "%d products right, largest error %.2f of the bound; %llu on the GPU, %llu on the CPU", f->products, f->worst,
             (unsigned long long)(f->stats.staged + f->stats.device), (unsigned long long)f->stats.cpu);
}

static error_t parse(int key, char *value, struct argp_state *state)
{
    (void)value;
    if (key == 'j')
        g.json = true;
    else if (key == ARGP_KEY_ARG)
        argp_error(state, "no argument is expected");
    else
        return ARGP_ERR_UNKNOWN;
    return 0;
}

int cmd_check(int argc, char **argv)
{
    static const struct argp_option options[] = {{"json", 'j', NULL, 0, "A JSON array, one object per check", 0}, {0}};
    static const struct argp argp = {
        .options = options,
        .parser = parse,
        .doc = "Proves the installation on this machine: names, preloading, the CPU BLAS, results of CPU and GPU against dot "
               "products in higher precision, and the speed of one size. Exit status 0 if all is well, 1 if not; having no GPU is not a failure."};
    argp_parse(&argp, argc, argv, 0, NULL, NULL);
    struct findings *f = mmap(NULL, 2 * sizeof *f, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (f == MAP_FAILED) {
        fprintf(stderr, "gpugemm: no memory\n");
        return CMD_UNAVAILABLE;
    }
    if (g.json)
        printf("[");
    double start = cmd_now();
    line(GOOD, "library", "%s, version %s", cmd_library(), ((__typeof__(gpugemm_version) *)cmd_symbol("gpugemm_version"))());
    check_names();
    check_preload();

    bool cpu = run_child(&f[0], "cpu", 0);
    report("CPU", &f[0], cpu);

    /* before this process starts the GPU, because children forked afterwards could not use it */
    bool gpu = run_child(&f[1], "gpu", f[0].n);
    struct gpugemm_decision d;
    int status = ((__typeof__(gpugemm_explain) *)cmd_symbol("gpugemm_explain"))("dgemm", GPUGEMM_NO_TRANS, GPUGEMM_NO_TRANS, f[0].n, f[0].n, f[0].n,
                                                                                0, 0, NULL, &d, sizeof d);
    if (status == GPUGEMM_SUCCESS) {
        report("GPU", &f[1], gpu);
        if (gpu && f[1].stats.staged == 0)
            line(BAD, "GPU", "it is there and served none of the products under GPUGEMM_MODE=gpu");
        if (gpu && cpu)
            line(f[1].stats.recovered ? BAD : GOOD, "recovery",
                 f[1].stats.recovered ? "the CPU had to finish %llu products" : "%llu products had to be finished by the CPU",
                 (unsigned long long)f[1].stats.recovered);
    } else {
        line(NOTE, "GPU", "none is used: the CPU serves every call (gpugemm info says why)");
        report("fallback", &f[1], gpu);
    }
    if (cpu && gpu) {
        double flops = 2e-9 * (double)f[0].n * (double)f[0].n * (double)f[0].n;
        if (status == GPUGEMM_SUCCESS)
            line(GOOD, "speed", "dgemm n = %lld from host memory: GPU %s (%.0f GFLOP/s), CPU %s (%.0f): %.1f times", (long long)f[0].n,
                 cmd_seconds(f[1].seconds), flops / f[1].seconds, cmd_seconds(f[0].seconds), flops / f[0].seconds, f[0].seconds / f[1].seconds);
        else
            line(GOOD, "speed", "dgemm n = %lld: CPU %s (%.0f GFLOP/s)", (long long)f[0].n, cmd_seconds(f[0].seconds), flops / f[0].seconds);
    }
    if (g.json)
        printf("]\n");
    else
        printf("%s%s%s: %d checks, %d failed, %.1f s\n", g.failures ? CMD_BAD : CMD_GOOD, g.failures ? "Something is wrong" : "All is well",
               CMD_PLAIN, g.lines, g.failures, cmd_now() - start);
    return g.failures ? CMD_FAILED : CMD_OK;
}

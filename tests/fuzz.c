/* fuzz.c — random gemm calls under every spelling, against OpenBLAS and against the componentwise error bound.
 *
 *   fuzz [--calls N] [--seed S] [--jobs J] [--threads T] [--lib PATH] [--oracle PATH] [--only INDEX] [--partial] [--expect-gpu] [--device]
 *        [--largest D] [--type s|d]
 *
 * Call number i of seed s is drawn from (s, i) alone, so that a failure is reproduced by --seed s --only i. Dimensions go up to 300, and the operands
 * lie between guard pages with NaN in all padding. The oracle never sees the caller's layout: operands are packed and multiplied as column-major
 * 'N','N'. What is checked after each call:
 *   every element: NaN and Inf where the oracle has them, else within twice the bound of the oracle;
 *   four elements: within the bound of a dot product in long double;   alpha = 0 or k = 0: exactly beta C;
 *   every other byte around the three operands: unchanged.
 * J processes of T threads each share the calls; threads share a GPU better than processes, which take turns on it.
 * --largest: dimensions up to D; with D > 300 half of the calls are large ones, such as the GPU gets in GPUGEMM_MODE=auto.
 * --device: three of four operands lie in GPU memory instead, so that calls with all, some or none there are mixed; gpugemm_?gemm takes part. */
#include "test.h"

#include <getopt.h>
#include <pthread.h>
#include <sys/wait.h>

#include "../include/gpugemm.h"
#include "spellings.h"

enum { USUAL = 300, MAX_PAD = 7, MAX_JOBS = 64, MAX_THREADS = 64 };

static int largest = USUAL; /* largest dimension drawn */

static size_t max_bytes(void)
{
    return sizeof(double) * (size_t)(largest + MAX_PAD) * (size_t)largest;
}

/* gpugemm.h's own names, drawn as often as a spelling; only these return a status. */
static struct spelling api[2] = {{"gpugemm_sgemm", false, true, true, NULL}, {"gpugemm_dgemm", true, true, true, NULL}};
enum { NAMES = SPELLINGS + 2 };

struct example {
    const struct spelling *spelling;
    struct call call;
    bool row_major, transa, transb;
    bool degenerate; /* no product: alpha = 0 or k = 0 */
    struct matrix a, b, c;
};

/* One thread's counts, in memory that its process shares with the parent. */
struct tally {
    uint64_t calls[NAMES], differences, stray, refused, gpu, current;
};

static _Thread_local struct arena arena[3];
static _Thread_local struct arena window[3];   /* the part of each arena that is compared: the operand and what lies near it */
static _Thread_local unsigned char *before[3]; /* the windows' contents before the call */
static _Thread_local double *abs_a, *abs_b, *abs_product;
static _Thread_local void *packed[3];
static struct spelling oracle[2] = {{"sgemm_", false, false, false, NULL}, {"dgemm_", true, false, false, NULL}};
static const struct spelling *usable[NAMES];
static int usable_count;

/* Copies of the arenas in GPU memory, byte for byte and with the same alignment, under --device. */
static _Thread_local uint64_t mirror[3];
static int (*copy_to_gpu)(uint64_t, const void *, size_t), (*copy_from_gpu)(void *, uint64_t, size_t);

static void open_mirrors(void)
{
    void *driver = open_library("libcuda.so.1", RTLD_GLOBAL), *context = NULL;
    int (*init)(unsigned), (*retain)(void **, int), (*enter)(void *), (*alloc)(uint64_t *, size_t);
    *(void **)&init = dlsym(driver, "cuInit"), *(void **)&retain = dlsym(driver, "cuDevicePrimaryCtxRetain");
    *(void **)&enter = dlsym(driver, "cuCtxSetCurrent"), *(void **)&alloc = dlsym(driver, "cuMemAlloc_v2");
    *(void **)&copy_to_gpu = dlsym(driver, "cuMemcpyHtoD_v2"), *(void **)&copy_from_gpu = dlsym(driver, "cuMemcpyDtoH_v2");
    bool open = init(0) == 0 && retain(&context, 0) == 0 && enter(context) == 0;
    for (int i = 0; i < 3; i++)
        open = open && alloc(&mirror[i], (size_t)(arena[i].hi - arena[i].lo)) == 0;
    if (!open)
        exit((fprintf(stderr, "skipped: no GPU for --device\n"), SKIP));
}

static int64_t draw_dim(uint64_t *r, bool large)
{
    int64_t t = rng_below(r, 100);
    return large ? 1 + rng_below(r, (uint64_t)largest) : t < 4 ? 0 : t < 12 ? 1 : t < 72 ? 1 + rng_below(r, 32) : 1 + rng_below(r, 100);
}

/* The value is what the callee sees: rounded to the type of the call. The float constants are rounded here, because GCC 12, when it vectorises, omits
 * the cast (double)(float) of two adjacent ones. */
static double draw_scalar(uint64_t *r, bool dbl)
{
    static const double values[2][10] = {{0, 0, 1, 1, 1, -1, 0.7f, 0.7f, -0.0, NAN}, {0, 0, 1, 1, 1, -1, 0.7, 0.7, -0.0, NAN}};
    return values[dbl][rng_below(r, 10)];
}

static void fill(uint64_t *r, const struct matrix *x, bool garbage, bool specials)
{
    static const double special[] = {NAN, INFINITY, -INFINITY, 0, 0};
    for (int64_t j = 0; j < x->outer; j++)
        for (int64_t i = 0; i < x->inner; i++)
            matrix_set(x, i, j, garbage ? (i + j) % 3 ? NAN : INFINITY : rng_real(r));
    for (int i = 0; specials && i < 4 && x->inner && x->outer; i++)
        matrix_set(x, rng_below(r, x->inner), rng_below(r, x->outer), special[rng_below(r, 5)]);
}

/* Where x goes, with some variety: adjacent to either guard page, some elements away from it, doubles aligned to 4 bytes only. */
static void place(uint64_t *r, struct matrix *x, int which)
{
    bool at_end = rng_below(r, 4) != 0;
    size_t gap = rng_below(r, 3) ? 0 : (size_t)rng_below(r, 8) * matrix_element(x);
    if (rng_below(r, 16) == 0 && !mirror[0]) /* in GPU memory elements must be aligned */
        gap += 4;
    matrix_place(x, arena[which], at_end, gap);
}

static struct matrix draw_matrix(uint64_t *r, bool dbl, bool swap, int64_t rows, int64_t cols)
{
    struct matrix x = {.dbl = dbl, .inner = swap ? cols : rows, .outer = swap ? rows : cols};
    x.ld = (x.inner > 1 ? x.inner : 1) + (rng_below(r, 2) ? rng_below(r, MAX_PAD + 1) : 0);
    return x;
}

static void draw(struct example *e, uint64_t seed, uint64_t index)
{
    uint64_t state = seed ^ (index + 1) * 0xd1342543de82ef95u, *r = &state;
    struct call *x = &e->call;
    e->spelling = usable[rng_below(r, usable_count)];
    bool dbl = e->spelling->dbl, large = rng_below(r, largest > USUAL ? 2 : 10) == 0, same = rng_below(r, 16) == 0;
    int ta = (int)rng_below(r, 3), tb = (int)rng_below(r, 3);
    *x = (struct call){.layout = 102 - (int)rng_below(r, 2), .hidden = rng_below(r, 2) ? 1 : 0xdeadbeefdeadbeef};
    x->transa = e->spelling->cblas ? 111 + ta : "NTCntc"[ta + 3 * rng_below(r, 2)];
    x->transb = e->spelling->cblas ? 111 + tb : "NTCntc"[tb + 3 * rng_below(r, 2)];
    e->row_major = e->spelling->cblas && x->layout == 101, e->transa = ta != 0, e->transb = tb != 0;
    x->m = draw_dim(r, large), x->n = draw_dim(r, large), x->k = draw_dim(r, large);
    x->alpha = draw_scalar(r, dbl), x->beta = draw_scalar(r, dbl);
    if (same) { /* B = A: the stored shapes must agree */
        x->n = x->m;
        x->k = e->transa == e->transb ? x->m : x->k;
    }
    e->degenerate = x->alpha == 0 || x->k == 0;
    bool garbage = e->degenerate && rng_below(r, 2), specials = !e->degenerate && rng_below(r, 16) == 0;
    e->a = draw_matrix(r, dbl, e->row_major != e->transa, x->m, x->k);
    e->b = draw_matrix(r, dbl, e->row_major != e->transb, x->k, x->n);
    e->c = draw_matrix(r, dbl, e->row_major, x->m, x->n);
    place(r, &e->a, 0), place(r, &e->b, 1), place(r, &e->c, 2);
    fill(r, &e->a, garbage, specials), fill(r, &e->b, garbage, specials);
    fill(r, &e->c, x->beta == 0 && rng_below(r, 2), x->beta != 0 && specials);
    if (same)
        e->b = e->a;
    x->lda = e->a.ld, x->ldb = e->b.ld, x->ldc = e->c.ld;
    bool null = garbage && rng_below(r, 2); /* not read, so it may be NULL */
    x->a = null ? NULL : e->a.data, x->b = null ? NULL : e->b.data, x->c = e->c.data;
}

static double get(const struct matrix *x, bool swap, int64_t i, int64_t j)
{
    return swap ? matrix_get(x, j, i) : matrix_get(x, i, j);
}

/* op(X), column-major without padding, in the type of the call; with its absolute values if wanted */
static struct matrix pack(const struct matrix *x, bool swap, int64_t rows, int64_t cols, void *to, double *absolute)
{
    struct matrix y = {.dbl = x->dbl, .inner = rows, .outer = cols, .ld = rows > 1 ? rows : 1, .data = to};
    for (int64_t j = 0; j < cols; j++)
        for (int64_t i = 0; i < rows; i++) {
            double value = get(x, swap, i, j);
            matrix_set(&y, i, j, value);
            if (absolute)
                absolute[i + j * rows] = fabs(value);
        }
    return y;
}

static void multiply_absolute(int64_t m, int64_t n, int64_t k)
{
    if (m * n * k > (int64_t)USUAL * USUAL * USUAL) {
        call_gemm(&oracle[1], &(struct call){0, 'N', 'N', m, n, k, m, k, m, abs_a, abs_b, abs_product, 1, 0, 1});
        return;
    }
    memset(abs_product, 0, sizeof(double) * (size_t)(m * n));
    for (int64_t j = 0; j < n; j++)
        for (int64_t l = 0; l < k; l++)
            for (int64_t i = 0; i < m; i++)
                abs_product[i + j * m] += abs_a[i + l * m] * abs_b[l + j * k];
}

static void snapshot(int which, const struct matrix *x)
{
    enum { NEAR = 1 << 14 };
    unsigned char *end = x->data + matrix_span(x);
    window[which] = (struct arena){arena[which].lo, arena[which].lo};
    if (x->data < arena[which].lo || x->data > arena[which].hi) /* B is A: it is compared there */
        return;
    window[which].lo = x->data - arena[which].lo > NEAR ? x->data - NEAR : arena[which].lo;
    window[which].hi = arena[which].hi - end > NEAR ? end + NEAR : arena[which].hi;
    memcpy(before[which], window[which].lo, (size_t)(window[which].hi - window[which].lo));
}

/* Is [lo, hi) of the window as it was? */
static bool same_bytes(int which, const unsigned char *lo, const unsigned char *hi)
{
    return lo >= hi || memcmp(lo, before[which] + (lo - window[which].lo), (size_t)(hi - lo)) == 0;
}

static bool stray_writes(const struct example *e)
{
    const struct matrix *c = &e->c;
    const unsigned char *from = window[2].lo;
    bool clean = same_bytes(0, window[0].lo, window[0].hi) && same_bytes(1, window[1].lo, window[1].hi);
    for (int64_t j = 0; j < c->outer && c->inner; j++) {
        const unsigned char *line = c->data + (size_t)(j * c->ld) * matrix_element(c);
        clean = clean && same_bytes(2, from, line);
        from = line + (size_t)c->inner * matrix_element(c);
    }
    return !(clean && same_bytes(2, from, window[2].hi));
}

static bool agrees(double value, double expected, double tolerance)
{
    return isnan(expected) ? isnan(value) : isinf(expected) ? value == expected : fabs(value - expected) <= tolerance;
}

/* Returns the number of wrong elements of C; the first of them in *at. */
static int64_t differences(const struct example *e, const struct matrix *c0, int64_t *at)
{
    const struct call *x = &e->call;
    int64_t wrong = 0;
    uint64_t pick = (uint64_t)(x->m * 31 + x->n);
    struct matrix a = {0}, b = {0}, r = *c0;
    if (!e->degenerate) {
        a = pack(&e->a, e->row_major != e->transa, x->m, x->k, packed[0], abs_a);
        b = pack(&e->b, e->row_major != e->transb, x->k, x->n, packed[1], abs_b);
        multiply_absolute(x->m, x->n, x->k);
        unsigned char *c = malloc(matrix_span(c0) + 1);
        r.data = memcpy(c, c0->data, matrix_span(c0));
        call_gemm(&oracle[e->a.dbl], &(struct call){0, 'N', 'N', x->m, x->n, x->k, a.ld, b.ld, r.ld, a.data, b.data, r.data,
                                                   x->alpha, x->beta, 1});
    }
    for (int64_t j = 0; j < x->n; j++)
        for (int64_t i = 0; i < x->m; i++) {
            double c = matrix_get(c0, i, j), value = get(&e->c, e->row_major, i, j);
            double expected = matrix_get(&r, i, j), bound = 0;
            if (e->degenerate)
                expected = x->beta == 0 ? 0 : c0->dbl ? x->beta * c : (float)x->beta * (float)c;
            else
                bound = error_bound(c0->dbl, x->k, x->alpha, abs_product[i + j * x->m], x->beta, c);
            if (!agrees(value, expected, 2 * bound) && wrong++ == 0)
                *at = i + j * x->m;
        }
    for (int sample = 0; sample < 4 && !e->degenerate; sample++) {
        int64_t i = rng_below(&pick, x->m), j = rng_below(&pick, x->n);
        long double dot = 0;
        for (int64_t l = 0; l < x->k; l++)
            dot += (long double)matrix_get(&a, i, l) * matrix_get(&b, l, j);
        double c = matrix_get(c0, i, j), value = get(&e->c, e->row_major, i, j);
        long double expected = x->alpha * dot + (x->beta == 0 ? 0 : x->beta * (long double)c);
        double bound = error_bound(c0->dbl, x->k, x->alpha, abs_product[i + j * x->m], x->beta, c);
        if (!agrees((double)(isfinite(value) ? value - expected : value), isfinite(expected) ? 0 : (double)expected, bound) && wrong++ == 0)
            *at = i + j * x->m;
    }
    if (!e->degenerate)
        free(r.data);
    return wrong;
}

static void report(const struct example *e, uint64_t seed, uint64_t index, const char *what)
{
    const struct call *x = &e->call;
    printf("%s: fuzz --seed %llu --only %llu  # %s layout %d trans %d %d m %lld n %lld k %lld ld %lld %lld %lld alpha %g beta %g\n",
           what, (unsigned long long)seed, (unsigned long long)index, e->spelling->name, x->layout, x->transa, x->transb,
           (long long)x->m, (long long)x->n, (long long)x->k, (long long)x->lda, (long long)x->ldb, (long long)x->ldc, x->alpha,
           x->beta);
    fflush(stdout);
}

/* The address that the callee is given for an operand: in host memory, or in its window's copy on the GPU. */
static void *send(int which, const void *operand, bool to_gpu)
{
    const struct arena *w = &window[which];
    if (!to_gpu)
        return (void *)operand;
    copy_to_gpu(mirror[which] + (uint64_t)(w->lo - arena[which].lo), w->lo, (size_t)(w->hi - w->lo));
    return (void *)(mirror[which] + (uint64_t)((const unsigned char *)operand - arena[which].lo));
}

static void fetch(int which, bool from_gpu)
{
    const struct arena *w = &window[which];
    if (from_gpu && w->hi > w->lo)
        copy_from_gpu(w->lo, mirror[which] + (uint64_t)(w->lo - arena[which].lo), (size_t)(w->hi - w->lo));
}

/* Makes the call. False: gpugemm_?gemm refused. */
static bool make_call(const struct example *e, uint64_t index)
{
    struct call x = e->call;
    bool same = x.a && x.a == x.b;
    bool away[3] = {mirror[0] && index % 4 && x.a, mirror[0] && index / 4 % 4 && x.b, mirror[0] && index / 16 % 4};
    int (*s)(int, int, int, int64_t, int64_t, int64_t, float, const void *, int64_t, const void *, int64_t, float, void *, int64_t, void *);
    int (*d)(int, int, int, int64_t, int64_t, int64_t, double, const void *, int64_t, const void *, int64_t, double, void *, int64_t, void *);
    int status = 0;
    x.a = send(0, x.a, away[0]), x.b = same ? x.a : send(1, x.b, away[1]), x.c = send(2, x.c, away[2]);
    if (e->spelling == &api[0] && (*(void **)&s = api[0].address))
        status = s(x.layout, x.transa, x.transb, x.m, x.n, x.k, (float)x.alpha, x.a, x.lda, x.b, x.ldb, (float)x.beta, x.c, x.ldc, NULL);
    else if (e->spelling == &api[1] && (*(void **)&d = api[1].address))
        status = d(x.layout, x.transa, x.transb, x.m, x.n, x.k, x.alpha, x.a, x.lda, x.b, x.ldb, x.beta, x.c, x.ldc, NULL);
    else
        call_gemm(e->spelling, &x);
    for (int i = 0; i < 3; i++)
        fetch(i, away[i]);
    return status == 0;
}

static int name_index(const struct spelling *s)
{
    return s == &api[0] || s == &api[1] ? SPELLINGS + (int)(s - api) : (int)(s - spellings);
}

static void run_one(struct tally *t, uint64_t seed, uint64_t index)
{
    struct example e;
    draw(&e, seed, index);
    snapshot(0, &e.a), snapshot(1, &e.b), snapshot(2, &e.c);
    bool empty = e.call.m == 0 || e.call.n == 0;
    struct matrix c0 = pack(&e.c, e.row_major, e.call.m, e.call.n, packed[2], NULL);
    t->calls[name_index(e.spelling)]++;
    if (!make_call(&e, index) && t->refused++ < 5)
        report(&e, seed, index, "refused");
    int64_t at = 0, wrong = empty ? 0 : differences(&e, &c0, &at);
    if (wrong && t->differences++ < 5) {
        char what[128];
        snprintf(what, sizeof what, "%lld wrong, first C(%lld,%lld) = %.17g", (long long)wrong, (long long)(at % e.call.m),
                 (long long)(at / e.call.m), get(&e.c, e.row_major, at % e.call.m, at / e.call.m));
        report(&e, seed, index, what);
    }
    if (stray_writes(&e) && t->stray++ < 5)
        report(&e, seed, index, "stray write");
}

/* A thread's share of the work: calls first, first + step, … below `calls`. */
struct shard {
    struct tally *tally;
    bool device;
    uint64_t seed, first, calls, step;
    pthread_t thread;
};

static void *work(void *argument)
{
    struct shard *s = argument;
    struct tally *t = s->tally;
    for (int i = 0; i < 3; i++) {
        arena[i] = arena_new(max_bytes() + 4096);
        before[i] = malloc((size_t)(arena[i].hi - arena[i].lo));
        packed[i] = malloc(max_bytes());
    }
    if (s->device)
        open_mirrors();
    abs_a = malloc(max_bytes()), abs_b = malloc(max_bytes()), abs_product = malloc(max_bytes());
    for (t->current = s->first; t->current < s->calls; t->current += s->step)
        run_one(t, s->seed, t->current);
    return NULL;
}

/* One process: runs `threads` of the `shards` shards, from number `first` on. */
static void run_shards(void *library, const struct shard *pattern, uint64_t first, int threads)
{
    struct shard shard[MAX_THREADS];
    for (int i = 0; i < threads; i++) {
        shard[i] = *pattern;
        shard[i].tally += first + (uint64_t)i;
        shard[i].first += first + (uint64_t)i;
        if (threads > 1 && pthread_create(&shard[i].thread, NULL, work, &shard[i]))
            exit((perror("pthread_create"), 1));
    }
    if (threads == 1)
        work(&shard[0]);
    for (int i = 0; i < threads && threads > 1; i++)
        pthread_join(shard[i].thread, NULL);
    void (*read)(struct gpugemm_stats *, size_t);
    struct gpugemm_stats stats = {0};
    if ((*(void **)&read = dlsym(library, "gpugemm_stats_read")))
        read(&stats, sizeof stats);
    shard[0].tally->gpu = stats.device + stats.staged;
}

int main(int argc, char **argv)
{
    uint64_t calls = 100000, seed = 1, only = UINT64_MAX;
    long jobs = 0, threads = 1;
    int partial = 0, expect_gpu = 0, device = 0;
    const char *lib = "build/libgpugemm.so", *blas = "libopenblas.so.0", *type = "sd";
    const struct option options[] = {{"calls", 1, 0, 'n'},
                                     {"seed", 1, 0, 's'},
                                     {"jobs", 1, 0, 'j'},
                                     {"threads", 1, 0, 't'},
                                     {"lib", 1, 0, 'l'},
                                     {"oracle", 1, 0, 'r'},
                                     {"only", 1, 0, 'o'},
                                     {"partial", 0, &partial, 1},
                                     {"expect-gpu", 0, &expect_gpu, 1},
                                     {"device", 0, &device, 1},
                                     {"largest", 1, 0, 'g'},
                                     {"type", 1, 0, 'y'},
                                     {0}};
    for (int o; (o = getopt_long(argc, argv, "", options, NULL)) != -1;)
        switch (o) {
        case 'n': calls = strtoull(optarg, NULL, 0); break;
        case 's': seed = strtoull(optarg, NULL, 0); break;
        case 'j': jobs = strtol(optarg, NULL, 0); break;
        case 't': threads = strtol(optarg, NULL, 0); break;
        case 'l': lib = optarg; break;
        case 'r': blas = optarg; break;
        case 'g': largest = atoi(optarg) > USUAL ? atoi(optarg) : USUAL; break;
        case 'y': type = optarg; break;
        case 'o': only = strtoull(optarg, NULL, 0); break;
        case 0: break;
        default: return 2;
        }
    if (only != UINT64_MAX)
        jobs = threads = 1;
    threads = threads < 1 ? 1 : threads > MAX_THREADS ? MAX_THREADS : threads;
    jobs = jobs < 1 ? threads > 1 ? 1 : sysconf(_SC_NPROCESSORS_ONLN) : jobs;
    jobs = jobs > MAX_JOBS ? MAX_JOBS : jobs;
    setenv("OPENBLAS_NUM_THREADS", "1", 0);
    void *library = open_library(lib, RTLD_LOCAL), *reference = open_library(blas, RTLD_LOCAL);
    int found = find_spellings(library);
    for (int i = 0; i < SPELLINGS; i++)
        if (spellings[i].address && strchr(type, "sd"[spellings[i].dbl]))
            usable[usable_count++] = &spellings[i];
        else if (!spellings[i].address && !partial)
            fprintf(stderr, "%s lacks %s\n", lib, spellings[i].name);
    for (int i = 0; i < 2; i++)
        if ((api[i].address = dlsym(library, api[i].name)) && strchr(type, "sd"[i]))
            usable[usable_count++] = &api[i];
    for (int i = 0; i < 2; i++)
        if (!(oracle[i].address = dlsym(reference, oracle[i].name)))
            return fprintf(stderr, "%s lacks %s\n", blas, oracle[i].name), 1;
    if (!found || (found < SPELLINGS && !partial))
        return 1;

    long shards = jobs * threads;
    struct tally *tally = mmap(NULL, sizeof *tally * (size_t)shards, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct shard pattern = {.tally = tally, .device = device, .seed = seed, .calls = calls, .step = (uint64_t)shards};
    if (only != UINT64_MAX)
        pattern.first = only, pattern.calls = only + 1;
    pid_t child[MAX_JOBS];
    for (long i = 0; i < jobs; i++) /* before any call: a started GPU does not survive fork */
        if ((child[i] = fork()) == 0) {
            run_shards(library, &pattern, (uint64_t)(i * threads), (int)threads);
            exit(0);
        }
    struct tally sum = {0};
    int crashed = 0;
    uint64_t total = 0;
    for (long i = 0; i < jobs; i++) {
        int status = -1;
        waitpid(child[i], &status, 0);
        if (WIFEXITED(status) && WEXITSTATUS(status) == SKIP)
            return SKIP;
        if (status) {
            printf("crashed (wait status %d): fuzz --seed %llu --only", status, (unsigned long long)seed);
            for (long t = i * threads; t < (i + 1) * threads; t++)
                printf(" %llu", (unsigned long long)tally[t].current);
            puts(threads > 1 ? " (one of them)" : "");
            crashed++;
        }
    }
    for (long i = 0; i < shards; i++) {
        for (int s = 0; s < NAMES; s++)
            sum.calls[s] += tally[i].calls[s], total += tally[i].calls[s];
        sum.differences += tally[i].differences, sum.stray += tally[i].stray, sum.refused += tally[i].refused, sum.gpu += tally[i].gpu;
    }
    for (int s = 0; s < NAMES; s++)
        printf("%-24s %8llu calls\n", s < SPELLINGS ? spellings[s].name : api[s - SPELLINGS].name, (unsigned long long)sum.calls[s]);
    printf("seed %llu: %llu calls under %d names, %llu on the GPU: %llu with differences, %llu with stray writes, %llu refused, %d crashes\n",
           (unsigned long long)seed, (unsigned long long)total, usable_count, (unsigned long long)sum.gpu,
           (unsigned long long)sum.differences, (unsigned long long)sum.stray,
           (unsigned long long)sum.refused, crashed);
    if (expect_gpu && sum.gpu == 0)
        printf("no call was served by the GPU\n");
    return sum.differences || sum.stray || sum.refused || crashed || (expect_gpu && sum.gpu == 0);
}

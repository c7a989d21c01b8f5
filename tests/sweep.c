/* sweep.c — makes every call to the CUDA driver, and to those functions of the C library that can fail, fail in turn: once, or that function from
 * then on, or the whole GPU from then on. After each: every byte of every result right, or the documented error if operands lie in GPU memory; at
 * most one line of warning; nothing leaked; no hang; and the next calls right.
 *
 *   sweep --lib LIB [--seconds S] [--jobs J] [--most N] [--seed N] [--part I/N] [--only SCENARIO[/FUNCTION/NTH/MODE/ERROR/cold|warm]] [--table FILE]
 *
 * The driver must be fail_cuda.c's, which LD_LIBRARY_PATH puts in front of the real one or of fake_cuda.c's; fail_libc.c is preloaded, or its half is
 * left out. Each scenario first runs undisturbed in a process of its own, in which its calls are counted. Then each call of each function is a case;
 * where a function is called often, as in polling, the first eight calls and from N to 2N evenly spread others are. A cold case runs in a process of
 * its own and hits its first calls. For failures that a GPU survives there is also a warm case; many of these run one after another in a process that
 * has been at work before.
 *
 * --seconds S: as many cases as fit into that time, in half of it warm ones, of all scenarios in turn, then cold ones: first the first two calls of
 * every function, the others in random order, which --seed changes. --part 2/5: the second of five shares, for several sweeps that run side by side
 * and together make up a whole one. */
#include <fcntl.h>
#include <ftw.h>
#include <getopt.h>
#include <link.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "scenarios.h"

enum { MAX_JOBS = 64, MAX_CASES = 400000, TIME_LIMIT = 60 /* seconds a case may take; longer is a hang */, EVENT_SLACK = 64, WARM_AT_ONCE = 20 };

/* ---- one case, in a process of its own ------------------------------------------------------------------------------------------------ */

enum { CUDA, LIBC, SHIMS };
static const struct faults *shim_of(int shim) { return shim == CUDA ? fail_cuda : fail_libc; }
static const char *const mode_names[] = {"once", "function", "all"};

struct plan {
    unsigned char scenario, shim, function, mode;
    unsigned nth;
    int error;
    long warm; /* this and the next warm - 1 of the warm cases; 0: a cold case */
};

enum { ROUNDS = 4 };

struct result {
    char wrong[96];
    unsigned long struck, gpu_calls, documented;
    unsigned long calls[2][FAULT_FUNCTIONS]; /* in the first round and in the last */
    long at;                                 /* index of the warm case in progress */
    long warm_done;
    struct tally {
        long sites, functions, tried[3], right[3], documented, missed;
    } warm;
    long live[ROUNDS][FAULT_KINDS]; /* after each round */
};

static void (*read_stats)(struct gpugemm_stats *, size_t);

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *where)
{
    (void)status, (void)kind, (void)where;
    return remove(path);
}

static double deadline; /* 0: none */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void follow(struct faults *f, const struct plan *p)
{
    for (int i = 0; i < FAULT_FUNCTIONS; i++)
        atomic_store(&f->calls[i], 0);
    atomic_store(&f->struck, 0);
    f->function = p ? p->function : -1;
    if (!p)
        return;
    f->nth = p->nth;
    f->error = p->error;
    f->mode = (enum fault_mode)p->mode;
}

static bool is_of_freeing(const struct plan *p)
{
    const char *function = shim_of(p->shim)->names[p->function];
    return strstr(function, "Free") || strstr(function, "Destroy");
}

/* Runs warm cases one after another. A failure hits one round, a lasting one two; then follows an undisturbed round. */
static void carry_out_warm(const struct plan *p, struct result *r)
{
    const struct scenario *s = &scenarios[p->scenario];
    long allowed[FAULT_KINDS];
    for (int round = 0; round < 3 && !*r->wrong; round++)
        if (s->run())
            strcpy(r->wrong, "wrong before any failure");
    for (int i = 0; i < FAULT_KINDS; i++)
        allowed[i] = atomic_load(&fail_cuda->live[i]) + (fail_cuda->kinds[i] && !strcmp(fail_cuda->kinds[i], "events") ? 2 * EVENT_SLACK : 8);
    for (const struct plan *c = p; c < p + p->warm && !*r->wrong && !(deadline > 0 && now() > deadline); c++) {
        r->warm_done++;
        alarm(TIME_LIMIT);
        unsigned before = documented;
        r->at = c - p;
        follow(failing, c);
        const char *wrong = s->run();
        if (!wrong && c->mode == FAULT_FUNCTION)
            wrong = s->run();
        bool struck = atomic_load(&failing->struck) > 0;
        follow(failing, NULL);
        if (!wrong && (wrong = s->run()))
            snprintf(r->wrong, sizeof r->wrong, "afterwards: %s", wrong);
        else if (wrong)
            snprintf(r->wrong, sizeof r->wrong, "%s", wrong);
        r->warm.tried[c->mode] += struck;
        r->warm.right[c->mode] += struck && !wrong;
        r->warm.missed += !struck;
        r->warm.documented += documented > before;
        for (int i = 0; i < FAULT_KINDS && !*r->wrong; i++) {
            allowed[i] += is_of_freeing(c); /* what it failed to free is lost */
            if (atomic_load(&fail_cuda->live[i]) > allowed[i] && !s->threaded)
                snprintf(r->wrong, sizeof r->wrong, "%s pile up: %ld", fail_cuda->kinds[i], atomic_load(&fail_cuda->live[i]));
        }
    }
}

static void carry_out(const struct plan *p, struct result *r, bool counting)
{
    const struct scenario *s = &scenarios[p->scenario];
    char *environment = strdup(s->environment);
    for (char *at = strtok(environment, " "); at; at = strtok(NULL, " "))
        putenv(at);
    failing = p->shim == CUDA ? fail_cuda : fail_libc;
    if (p->warm) {
        carry_out_warm(p, r);
        return;
    }
    follow(failing, counting ? NULL : p);
    /* The fault hits the first round; a lasting fault lasts for two more; the fourth round is undisturbed. Objects are kept for the next call, so the
     * first rounds may create some, but the last must not. */
    for (int round = 0; round < ROUNDS && !*r->wrong; round++) {
        if (round == ROUNDS - 1 && failing->mode != FAULT_ALL)
            failing->function = -1;
        const char *wrong = s->run();
        if (round == 0) {
            r->struck = atomic_load(&failing->struck);
            for (int i = 0; i < FAULT_FUNCTIONS; i++)
                r->calls[0][i] = atomic_load(&failing->calls[i]);
        }
        if (counting) {
            for (int i = 0; i < FAULT_FUNCTIONS && round; i++)
                r->calls[1][i] = atomic_load(&failing->calls[i]);
            follow(failing, NULL);
        }
        if (wrong)
            snprintf(r->wrong, sizeof r->wrong, "round %d: %s", round + 1, wrong);
        for (int i = 0; i < FAULT_KINDS; i++)
            r->live[round][i] = atomic_load(&fail_cuda->live[i]);
    }
    struct gpugemm_stats stats;
    read_stats(&stats, sizeof stats);
    r->gpu_calls = stats.device + stats.staged;
    r->documented = documented;
}

struct worker {
    pid_t pid;
    int said; /* descriptor of its stderr */
    struct plan plan;
    const struct plan *first; /* the first of its warm cases */
    struct result *result;
};

static char folder[] = "/tmp/gpugemm-sweep-XXXXXX";

static void start(struct worker *w, const struct plan *plan, bool counting)
{
    static long started; /* number used in the name of its folder, because process ids recur in a long sweep */
    started++;
    w->plan = *plan;
    w->first = plan;
    memset(w->result, 0, sizeof *w->result);
    w->said = memfd_create("stderr", MFD_CLOEXEC);
    w->pid = fork();
    if (w->pid)
        return;
    alarm(TIME_LIMIT);
    char mine[80];
    snprintf(mine, sizeof mine, "%s/%ld", folder, started);
    dup2(w->said, STDERR_FILENO);
    if (scenarios[plan->scenario].outputs && (mkdir(mine, 0700) || chdir(mine) || setenv("XDG_CACHE_HOME", mine, 1)))
        _exit(1);
    carry_out(plan, w->result, counting);
    exit(0); /* with its exit handlers: these have to cope with a lost GPU, too */
}

/* Judges the case of a process that has ended: what is wrong, or NULL. Its lines on stderr go to `text`. */
static const char *judge(const struct worker *w, int status, char *text, size_t size)
{
    static char what[160];
    const struct scenario *s = &scenarios[w->plan.scenario];
    struct result *r = w->result;
    ssize_t n = pread(w->said, text, size - 1, 0);
    text[n > 0 ? n : 0] = 0;
    int lines = 0;
    for (const char *c = text; *c; c++)
        lines += *c == '\n';
    bool aborted = WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT && s->names_gpu && strstr(text, "operands in GPU memory");
    if (aborted) {
        r->documented++;
        lines--;
    }
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
        return "it hangs";
    if (status && !aborted)
        return snprintf(what, sizeof what, "wait status %d", status), what;
    if (*r->wrong)
        return r->wrong;
    /* One warning more where there are two files, and one more when a named BLAS cannot be loaded and no other is found. */
    if (lines > 1 + s->outputs + (strstr(text, "searching instead") && strstr(text, "no CPU BLAS")))
        return snprintf(what, sizeof what, "%d lines of warning", lines), what;
    /* Nothing may pile up while a function goes on failing, nor afterwards. How many of the slots have got their events is a matter of timing. */
    int last = w->plan.mode == FAULT_FUNCTION ? ROUNDS - 2 : ROUNDS - 1;
    for (int i = 0; i < FAULT_KINDS && !s->threaded && !aborted && !w->plan.warm && !is_of_freeing(&w->plan) && fail_cuda->kinds[i]; i++)
        if (r->live[last][i] > r->live[1][i] + (strcmp(fail_cuda->kinds[i], "events") ? 0 : EVENT_SLACK))
            return snprintf(what, sizeof what, "%ld %s after round 2, %ld after round %d", r->live[1][i], fail_cuda->kinds[i], r->live[last][i], last + 1), what;
    return NULL;
}

/* ---- the sweep -------------------------------------------------------------------------------------------------------------------------- */

static struct plan *cases, *warm_cases;
static long case_count, warm_count;
static struct result undisturbed[SCENARIOS][SHIMS];
static struct tally tally[SCENARIOS][SHIMS];
static long wrong_count, warm_done;

static void show(const struct worker *w, const char *wrong, const char *text)
{
    const struct plan *p = w->plan.warm ? w->first + w->result->at : &w->plan;
    if (wrong_count++ < 25)
        printf("WRONG: %s, %s call %u failing (%s, error %d): %s\n%.400s  again: --only '%s/%s/%u/%s/%d/%s'\n", scenarios[p->scenario].name,
               shim_of(p->shim)->names[p->function], p->nth, mode_names[p->mode], p->error, wrong, text, scenarios[p->scenario].name,
               shim_of(p->shim)->names[p->function], p->nth, mode_names[p->mode], p->error, w->plan.warm ? "warm" : "cold");
    fflush(stdout);
}

static void finish(struct worker *w, int status)
{
    char text[2000];
    const struct plan *p = &w->plan;
    const char *wrong = judge(w, status, text, sizeof text);
    if (wrong)
        show(w, wrong, text);
    if (w->plan.warm) {
        struct tally *t = &tally[p->scenario][p->shim], *more = &w->result->warm;
        for (int m = 0; m < 3; m++)
            t->tried[m] += more->tried[m], t->right[m] += more->right[m];
        t->documented += more->documented;
        t->missed += more->missed;
        warm_done += w->result->warm_done;
    } else if (!w->result->struck && !wrong && !w->result->documented) {
        tally[p->scenario][p->shim].missed++; /* by timing: this time there was no such call */
    } else {
        tally[p->scenario][p->shim].tried[p->mode]++;
        tally[p->scenario][p->shim].right[p->mode] += !wrong;
        tally[p->scenario][p->shim].documented += w->result->documented > 0;
    }
    close(w->said);
    w->pid = 0;
}

static unsigned part = 1, parts = 1;

/* Decided by what the case is, not by its number: how many calls a scenario makes depends on timing, so another sweep counts others. */
static bool is_mine(const struct plan *p)
{
    uint64_t state = p->scenario + 64u * (p->shim + 2u * (p->function + 128u * (p->mode + 4u * (uint64_t)(p->error & 1023)))) + ((uint64_t)p->nth << 36);
    return (rng(&state) + (p->warm > 0)) % parts == part - 1;
}

static void add(bool warm, int scenario, int shim, int function, unsigned long nth, enum fault_mode mode, int error)
{
    const struct plan p = {(unsigned char)scenario, (unsigned char)shim, (unsigned char)function, (unsigned char)mode, (unsigned)nth, error, warm};
    struct plan *to = warm ? &warm_cases[warm_count] : &cases[case_count];
    if (is_mine(&p) && (warm ? warm_count < MAX_CASES : case_count < MAX_CASES)) {
        *to = p;
        *(warm ? &warm_count : &case_count) += 1;
    }
}

/* The errno that a failing function of the C library sets. */
static int libc_error(const char *name)
{
    return strstr(name, "alloc") && strcmp(name, "posix_fallocate") ? 12 /* ENOMEM */ : strstr(name, "pthread") ? 11 /* EAGAIN */
           : !strcmp(name, "open") || !strcmp(name, "fcntl") || !strcmp(name, "fopen") ? 24 /* EMFILE */ : 28 /* ENOSPC */;
}

static void add_cases(int scenario, int shim, long most)
{
    static const int lost[] = {719 /* launch failed */, 702 /* timeout */, 700 /* illegal address */, 214 /* ECC */, 999 /* unknown */, 46 /* device unavailable */};
    const struct faults *f = shim_of(shim);
    for (int warm = 0; warm < 2 - scenarios[scenario].names_gpu; warm++) /* a process that aborts cannot have been at work before */
        for (int id = 0; id < f->functions; id++) {
            unsigned long count = undisturbed[scenario][shim].calls[warm][id], step = count > (unsigned long)most ? count / (unsigned long)most : 1;
            tally[scenario][shim].functions += count > 0 && !warm;
            for (unsigned long n = 1; n <= count; n += n < 8 ? 1 : step) {
                tally[scenario][shim].sites++;
                if (shim == LIBC) {
                    add(warm, scenario, shim, id, n, FAULT_ONCE, libc_error(f->names[id]));
                    add(warm, scenario, shim, id, n, FAULT_FUNCTION, libc_error(f->names[id]));
                    continue;
                }
                add(warm, scenario, shim, id, n, FAULT_ONCE, 2);
                add(warm, scenario, shim, id, n, FAULT_ONCE, 1);
                add(warm, scenario, shim, id, n, FAULT_FUNCTION, 2);
                if (!warm)
                    add(warm, scenario, shim, id, n, FAULT_ALL, lost[(n + (unsigned)id) % 6]);
            }
        }
}

static uint64_t seed = 1;

/* The first two calls of every function first, the others at random. */
static int by_order(const void *x, const void *y)
{
    const struct plan *a = x, *b = y;
    unsigned early_a = a->nth < 3 ? a->nth : 3, early_b = b->nth < 3 ? b->nth : 3;
    if (early_a != early_b)
        return early_a < early_b ? -1 : 1;
    uint64_t i = a->nth * 64u + a->function * 7u + a->scenario * 131u + a->mode, j = b->nth * 64u + b->function * 7u + b->scenario * 131u + b->mode;
    i += seed << 32, j += seed << 32, i = rng(&i), j = rng(&j);
    return i < j ? -1 : i > j;
}

/* Warm cases that one process runs one after another. */
struct batch {
    struct plan *first;
    long turn;
};

static int by_turn(const void *x, const void *y)
{
    const struct batch *a = x, *b = y;
    return a->turn < b->turn ? -1 : a->turn > b->turn;
}

static void print_table(FILE *out)
{
    long sum[6] = {0};
    for (int shim = 0; shim < SHIMS; shim++) {
        fprintf(out, "%s\n%-28s %9s %6s %15s %15s %15s %11s %7s\n", shim == CUDA ? "CUDA driver" : "C library", "scenario", "functions", "sites",
                "once", "function", "all", "documented", "missed");
        for (int i = 0; i < SCENARIOS; i++) {
            const struct tally *t = &tally[i][shim];
            if (!t->sites)
                continue;
            fprintf(out, "%-28s %9ld %6ld", scenarios[i].name, t->functions, t->sites);
            for (int m = 0; m < 3; m++) {
                char cell[40];
                snprintf(cell, sizeof cell, "%ld/%ld", t->right[m], t->tried[m]);
                fprintf(out, " %15s", t->tried[m] ? cell : "-");
                sum[0] += t->right[m], sum[1] += t->tried[m];
            }
            fprintf(out, " %11ld %7ld\n", t->documented, t->missed);
            sum[2] += t->sites, sum[3] += t->documented, sum[4] += t->missed;
        }
    }
    fprintf(out, "%ld cases of %ld call sites, %ld right (%ld of them the documented error), %ld calls did not come up again\n", sum[1], sum[2],
            sum[0], sum[3], sum[4]);
}

static void open_everything(const char *lib)
{
    void *library = open_library(lib, RTLD_LOCAL), *driver = open_library("libcuda.so.1", RTLD_LOCAL);
    find_spellings(library);
    fail_cuda = dlsym(driver, "fail_cuda"), fail_libc = dlsym(RTLD_DEFAULT, "fail_libc");
    if (!fail_cuda)
        exit((fprintf(stderr, "libcuda.so.1 is not that of fail_cuda.c\n"), 2));
    *(void **)&api_sgemm = dlsym(library, "gpugemm_sgemm"), *(void **)&api_dgemm = dlsym(library, "gpugemm_dgemm");
    *(void **)&warm_up = dlsym(library, "gpugemm_warmup"), *(void **)&info = dlsym(library, "gpugemm_info");
    *(void **)&release_memory = dlsym(library, "gpugemm_release");
    *(void **)&read_stats = dlsym(library, "gpugemm_stats_read");
    *(void **)&cu_init = dlsym(driver, "cuInit"), *(void **)&cu_retain = dlsym(driver, "cuDevicePrimaryCtxRetain");
    *(void **)&cu_enter = dlsym(driver, "cuCtxSetCurrent"), *(void **)&cu_alloc = dlsym(driver, "cuMemAlloc_v2");
    *(void **)&cu_host = dlsym(driver, "cuMemHostAlloc"), *(void **)&cu_up = dlsym(driver, "cuMemcpyHtoD_v2");
    *(void **)&cu_down = dlsym(driver, "cuMemcpyDtoH_v2"), *(void **)&cu_sync = dlsym(driver, "cuStreamSynchronize");
    *(void **)&cu_reset = dlsym(driver, "cuDevicePrimaryCtxReset_v2");
    struct link_map *map;
    if (fail_libc && dlinfo(library, RTLD_DI_LINKMAP, &map) == 0) {
        Dl_info first, last;
        dladdr(*(void **)&read_stats, &first);
        fail_libc->callers_lo = fail_libc->callers_hi = (uintptr_t)first.dli_fbase;
        while (dladdr((void *)fail_libc->callers_hi, &last) && last.dli_fbase == first.dli_fbase)
            fail_libc->callers_hi += 4096;
    }
}

int main(int argc, char **argv)
{
    const char *lib = "build/libgpugemm.so", *only = NULL, *table = NULL;
    long seconds = 0, jobs = sysconf(_SC_NPROCESSORS_ONLN), most = 400;
    const struct option options[] = {{"lib", 1, 0, 'l'}, {"seconds", 1, 0, 's'}, {"jobs", 1, 0, 'j'}, {"most", 1, 0, 'm'}, {"seed", 1, 0, 'r'}, {"part", 1, 0, 'p'}, {"only", 1, 0, 'o'},
                                     {"table", 1, 0, 't'}, {0}};
    for (int o; (o = getopt_long(argc, argv, "", options, NULL)) != -1;)
        switch (o) {
        case 'l': lib = optarg; break;
        case 's': seconds = atol(optarg); break;
        case 'j': jobs = atol(optarg); break;
        case 'm': most = atol(optarg); break;
        case 'r': seed = strtoull(optarg, NULL, 10); break;
        case 'p':
            if (sscanf(optarg, "%u/%u", &part, &parts) != 2 || part < 1 || part > parts)
                return 2;
            break;
        case 'o': only = optarg; break;
        case 't': table = optarg; break;
        default: return 2;
        }
    jobs = jobs < 1 ? 1 : jobs > MAX_JOBS ? MAX_JOBS : jobs;
    const double begun = now();
    setenv("OPENBLAS_NUM_THREADS", "1", 0);
    setenv("GPUGEMM_MODE", "gpu", 1);
    setenv("GPUGEMM_THREADS", "2", 0);
    if (!mkdtemp(folder))
        return 1;
    open_everything(lib);
    make_problems();

    struct worker worker[MAX_JOBS] = {0};
    struct result *results = mmap(NULL, sizeof *results * MAX_JOBS, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < MAX_JOBS; i++)
        worker[i].result = &results[i];
    cases = malloc(MAX_CASES * sizeof *cases), warm_cases = malloc(MAX_CASES * sizeof *warm_cases);

    for (int i = 0; i < SCENARIOS; i++)
        for (int shim = 0; shim < SHIMS; shim++) {
            size_t length = strlen(scenarios[i].name);
            if (!shim_of(shim) || (scenarios[i].outputs && shim == CUDA) ||
                (only && (strncmp(only, scenarios[i].name, length) || (only[length] && only[length] != '/'))))
                continue;
            char text[2000];
            int status;
            start(&worker[0], &(struct plan){.scenario = (unsigned char)i, .shim = (unsigned char)shim}, true);
            waitpid(worker[0].pid, &status, 0);
            if (WIFEXITED(status) && WEXITSTATUS(status) == SKIP)
                return puts("skipped: no GPU"), SKIP;
            const char *wrong = judge(&worker[0], status, text, sizeof text);
            undisturbed[i][shim] = *worker[0].result;
            close(worker[0].said);
            worker[0].pid = 0; /* the slot is free again */
            if (wrong || undisturbed[i][shim].gpu_calls == 0)
                return printf("WRONG: %s undisturbed: %s, %lu calls on the GPU\n%s", scenarios[i].name, wrong ? wrong : "", undisturbed[i][shim].gpu_calls, text), 1;
            add_cases(i, shim, most);
        }

    if (only && strchr(only, '/')) { /* one case, if `only` is complete */
        struct plan found = {.nth = 0};
        char name[64], mode[16], when[8];
        int error;
        unsigned nth;
        if (sscanf(strchr(only, '/'), "/%63[^/]/%u/%15[^/]/%d/%7s", name, &nth, mode, &error, when) == 5)
            for (long i = 0; i < case_count; i++)
                if (!strcmp(shim_of(cases[i].shim)->names[cases[i].function], name) && !strcmp(mode_names[cases[i].mode], mode))
                    found = cases[i], found.nth = nth, found.error = error;
        if (!found.nth)
            return fprintf(stderr, "no such case\n"), 2;
        found.warm = !strcmp(when, "warm");
        cases[0] = warm_cases[0] = found;
        case_count = !found.warm, warm_count = found.warm;
    }
    qsort(cases, (size_t)case_count, sizeof *cases, by_order);

    struct batch *batch = malloc((size_t)(warm_count + 1) * sizeof *batch); /* cases of one scenario; sorted so that all scenarios take turns */
    long batches = 0, turns[SCENARIOS][SHIMS] = {0};
    for (long i = 0; i < warm_count; i++) {
        struct plan *last = batches ? batch[batches - 1].first : NULL;
        if (last && last->warm < WARM_AT_ONCE && last->scenario == warm_cases[i].scenario && last->shim == warm_cases[i].shim)
            last->warm++;
        else
            batch[batches++].first = &warm_cases[i];
    }
    uint64_t random = seed;
    for (long i = batches - 1; i >= 0; i--) {
        struct batch *other = &batch[rng_below(&random, i + 1)], chosen = *other;
        *other = batch[i], batch[i] = chosen;
    }
    for (long i = 0; i < batches; i++)
        batch[i].turn = turns[batch[i].first->scenario][batch[i].first->shim]++ * batches + i;
    qsort(batch, (size_t)batches, sizeof *batch, by_turn);
    const double counted = now(), least = counted + (double)seconds / 2; /* at least half of the time is for cases, however long counting took */
    deadline = !seconds ? 0 : begun + (double)seconds > least ? begun + (double)seconds : least;
    long next = 0, next_warm = 0, running = 0;
    for (;;) {
        bool time_left = !seconds || now() < deadline;
        for (int i = 0; i < jobs && time_left; i++) {
            if (worker[i].pid)
                continue;
            if (next_warm < batches && (next == case_count || !seconds || now() < (counted + deadline) / 2)) {
                start(&worker[i], batch[next_warm++].first, false);
            } else if (next < case_count) {
                start(&worker[i], &cases[next++], false);
            } else {
                break;
            }
            running++;
        }
        if (running == 0)
            break;
        int status;
        pid_t pid = waitpid(-1, &status, 0);
        for (int i = 0; i < jobs; i++)
            if (worker[i].pid == pid && pid > 0) {
                finish(&worker[i], status);
                running--;
            }
    }
    printf("%ld of %ld warm and %ld of %ld cold cases in %.0f s\n", warm_done, warm_count, next, case_count, now() - begun);
    print_table(stdout);
    FILE *out = table ? fopen(table, "w") : NULL;
    if (out) {
        print_table(out);
        fclose(out);
    }
    nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    if (wrong_count)
        printf("%ld WRONG\n", wrong_count);
    if (!warm_done && !next)
        printf("no case was run\n");
    return wrong_count > 0 || (!warm_done && !next);
}

/* problem.h — for host.c and load.c, a product of operands in host memory: its operands, one call of the gemm that `fortran` points to, a verified
 * call; the line of the CSV; and starting this program again, for what is to be measured in a process of its own. */
#ifndef PROBLEM_H
#define PROBLEM_H

#include <pthread.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "rig.h"

typedef void fortran_gemm(const char *, const char *, const int *, const int *, const int *, const void *, const void *, const int *, const void *,
                          const int *, const void *, void *, const int *, size_t, size_t);

/* Page-locked; pageable with pages of 4 KB, all of them there; or so but for C, none of whose pages are there yet, and for which huge pages have been
 * asked, as NumPy does. */
enum memory { PAGEABLE, PINNED, FRESH, FRESH_HUGE, MEMORIES };
static const char *const memory_names[] = {"pageable", "pinned", "fresh", "fresh huge"};

struct problem {
    bool dbl, ta, tb;
    enum memory memory;
    int64_t m, n, k;
    int beta;
};

struct result {
    double median, min, max, error;
    int rounds;
    char kernel[48];
};

extern char **environ;

/* ---- operands ------------------------------------------------------------------------------------------------------------------------------ */

struct fill {
    char *to;
    int64_t from, to_end, start, element;
};

static void *fill(void *argument)
{
    struct fill *f = argument;
    const char *data = f->element == 8 ? (char *)random_d : (char *)random_s;
    for (int64_t i = f->from; i < f->to_end;) {
        int64_t at = (i + f->start) % PERIOD, run = PERIOD - at < f->to_end - i ? PERIOD - at : f->to_end - i;
        memcpy(f->to + i * f->element, data + at * f->element, (size_t)(run * f->element));
        i += run;
    }
    return NULL;
}

static char *operands[3];
static size_t operand_bytes[3];
static const size_t mapped_from = 128 << 10; /* bytes: from this size on malloc, too, takes pages of their own instead of the heap */

static inline void drop_operands(const struct problem *p)
{
    for (int o = 0; o < 3 && operands[o]; o++) {
        if (p->memory == PINNED)
            cuMemFreeHost(operands[o]);
        else if (operand_bytes[o] < mapped_from)
            free(operands[o]);
        else
            munmap(operands[o], operand_bytes[o]);
        operands[o] = NULL;
    }
}

/* The operands of a case, full of random data: always the same pages, touched by the same threads, whichever contestant and whichever other cases are
 * measured. */
static inline void make_operands(const struct problem *p)
{
    const int64_t element = p->dbl ? 8 : 4, most[] = {p->m * p->k, p->k * p->n, p->m * p->n};
    for (int o = 0; o < 3; o++) {
        size_t bytes = (size_t)(most[o] * element);
        void *memory = NULL;
        if (p->memory == PINNED)
            memory = cuMemHostAlloc(&memory, bytes, 1 /* portable */) ? NULL : memory;
        else if (bytes < mapped_from)
            memory = malloc(bytes);
        else if ((memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) != MAP_FAILED)
            madvise(memory, bytes, MADV_NOHUGEPAGE);
        if (!memory || memory == MAP_FAILED)
            exit((fprintf(stderr, "no memory for %lld elements\n", (long long)most[o]), 1));
        operands[o] = memory, operand_bytes[o] = bytes;
        enum { FILLERS = 8 };
        pthread_t threads[FILLERS];
        struct fill parts[FILLERS];
        for (int t = 0; t < FILLERS; t++) {
            parts[t] = (struct fill){memory, most[o] * t / FILLERS, most[o] * (t + 1) / FILLERS, o * (int64_t)B_STARTS, element};
            pthread_create(&threads[t], NULL, fill, &parts[t]);
        }
        for (int t = 0; t < FILLERS; t++)
            pthread_join(threads[t], NULL);
    }
}

/* Gives the case another C, none of whose pages are there, if it wants that. Returns C. */
static inline char *renew_c(const struct problem *p)
{
    if (p->memory < FRESH)
        return operands[2];
    munmap(operands[2], operand_bytes[2]);
    operands[2] = mmap(NULL, operand_bytes[2], PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (operands[2] == MAP_FAILED)
        exit((fprintf(stderr, "no memory for a new C\n"), 1));
    if (p->memory == FRESH_HUGE)
        madvise(operands[2], operand_bytes[2], MADV_HUGEPAGE);
    return operands[2];
}

/* ---- calls ----------------------------------------------------------------------------------------------------------------------------------- */

static fortran_gemm *fortran[2];
static handle cublas_xt; /* if not NULL, it serves instead */

static inline void run(const struct problem *p, const void *a, const void *b, void *c)
{
    int m = (int)p->m, n = (int)p->n, k = (int)p->k, lda = p->ta ? k : m, ldb = p->tb ? n : k;
    double one = 1, beta = p->beta;
    float one_f = 1, beta_f = (float)p->beta;
    if (cublas_xt) {
        int status = p->dbl ? cublasXtDgemm(cublas_xt, p->ta, p->tb, p->m, p->n, p->k, &one, a, (size_t)lda, b, (size_t)ldb, &beta, c, (size_t)m)
                            : cublasXtSgemm(cublas_xt, p->ta, p->tb, p->m, p->n, p->k, &one_f, a, (size_t)lda, b, (size_t)ldb, &beta_f, c, (size_t)m);
        if (status)
            exit((fprintf(stderr, "cublasXt: status %d\n", status), 1));
    } else
        fortran[p->dbl](p->ta ? "T" : "N", p->tb ? "T" : "N", &m, &n, &k, p->dbl ? (void *)&one : &one_f, a, &lda, b, &ldb,
                        p->dbl ? (void *)&beta : &beta_f, c, &m, 1, 1);
}

static inline double *element_of(const struct problem *p, void *c, int64_t i, int64_t j, double *value)
{
    size_t at = (size_t)(i + j * p->m);
    *value = p->dbl ? ((double *)c)[at] : (double)((float *)c)[at];
    return value;
}

/* One verified call: returns the largest error of some elements, in u (|A||B| + |C|). */
static inline double verified_call(const struct problem *p, const void *a, const void *b, void *c)
{
    enum { SAMPLES = 100 };
    int64_t i[SAMPLES], j[SAMPLES];
    double before[SAMPLES], after, worst = 0, u = p->dbl ? 0x1p-53 : 0x1p-24;
    int count = 200000 / p->k < SAMPLES ? (int)(200000 / p->k) + 8 : SAMPLES;
    count = count > SAMPLES ? SAMPLES : count;
    for (int s = 0; s < count; s++) {
        i[s] = s < 4 ? (s & 1) * (p->m - 1) : s * 7919 % p->m, j[s] = s < 4 ? (s >> 1) * (p->n - 1) : s * 104729 % p->n;
        element_of(p, c, i[s], j[s], &before[s]);
        if (!p->beta)
            memset((char *)c + (size_t)(i[s] + j[s] * p->m) * (p->dbl ? 8 : 4), 0xff, p->dbl ? 8 : 4);
    }
    run(p, a, b, c);
    for (int s = 0; s < count; s++) {
        long double sum, size;
        exact_element(p->dbl, p->k, p->ta ? i[s] * p->k : i[s], p->ta ? 1 : p->m, p->tb ? j[s] : j[s] * p->k, p->tb ? p->n : 1, &sum, &size);
        if (p->beta)
            sum += before[s], size += fabs(before[s]);
        double error = fabs((double)(*element_of(p, c, i[s], j[s], &after) - sum)) / (u * (double)size);
        worst = error <= worst ? worst : isnan(error) ? INFINITY : error;
    }
    return worst;
}

/* ---- processes, results ------------------------------------------------------------------------------------------------------------------- */

/* Starts this program again, with the variables of `with` (name, value, name, value, NULL) set; its standard output is read through *out. */
static inline pid_t start_again(char *const *arguments, const char *const *with, FILE **out)
{
    int ends[2];
    pid_t pid;
    posix_spawn_file_actions_t actions;
    if (pipe(ends))
        exit((perror("pipe"), 1));
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1), posix_spawn_file_actions_addclose(&actions, ends[0]);
    for (const char *const *w = with; *w; w += 2)
        setenv(w[0], w[1], 1);
    if (posix_spawn(&pid, "/proc/self/exe", &actions, NULL, arguments, environ))
        exit((perror("posix_spawn"), 1));
    for (const char *const *w = with; *w; w += 2)
        unsetenv(w[0]);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    *out = fdopen(ends[0], "r");
    return pid;
}

static FILE *csv;

/* Prints what is measured on which machine, and the heading of the CSV if one is wanted. */
static inline void begin_report(const char *part, const char *csv_path, const char *remark)
{
    find_commit();
    describe_machine();
    if (csv_path && !(csv = fopen(csv_path, "w")))
        exit((perror(csv_path), 1));
    if (csv)
        fprintf(csv, "part,routine,layout,m,n,k,beta,memory,library,what,rounds,median_s,min_s,max_s,tflops,error_u,machine,date,commit\n");
    printf("# %s; %s%s; %s; wall clock%s\n", machine, strchr(commit, ' ') ? "" : "commit ", commit, part, remark);
    fflush(stdout);
}

static inline double flops(const struct problem *p) { return 2.0 * (double)p->m * (double)p->n * (double)p->k; }


static inline void write_csv(const char *part, const struct problem *p, const char *name, const struct result *r, const char *what)
{
    if (csv)
        fprintf(csv, "%s,%cgemm,%c%c,%lld,%lld,%lld,%d,%s,%s,%s,%d,%.9f,%.9f,%.9f,%.4f,%.4f,%s,%s,%s\n", part, p->dbl ? 'd' : 's', p->ta ? 'T' : 'N',
                p->tb ? 'T' : 'N', (long long)p->m, (long long)p->n, (long long)p->k, p->beta, memory_names[p->memory], name, what,
                r->rounds, r->median, r->min, r->max, 1e-12 * flops(p) / r->median, r->error, machine, date_now(), commit);
}

#endif

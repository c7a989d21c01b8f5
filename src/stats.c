/* stats.c — owns what is remembered of finished calls: counts, the statistics' table and file, the thread's last decision. A statistics file is a
 * shared mapping that is a complete JSON object after every call, so that nothing is lost however the program ends. Called by entry.c and api.c. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "config.h"
#include "fp.h"
#include "gpugemm.h"
#include "kernels.h"
#include "trace.h"

enum { MAX_ROWS = 64, ROW_WIDTH = 512 };

/* One line of the statistics: all calls of one routine that took the same path for the same reason. */
struct row {
    enum gg_type type;
    enum gg_path path;
    enum gg_reason reason;
    const struct gg_kernel *kernel, *uncertified;
    uint64_t calls;
    double seconds, regret, flops;
    int64_t bytes_up, bytes_down;
};

static struct {
    /* always counted, beside the calls */
    _Atomic uint64_t recovered, bytes_up, bytes_down;
    _Atomic uint64_t forgotten[2][GG_PATHS]; /* calls before gpugemm_stats_reset */
    _Atomic int threads;                     /* that have taken a line of their own */
    /* only when statistics are wanted */
    pthread_once_t once;
    pthread_mutex_t lock;     /* guards what follows, and the file */
    bool table;               /* print it at exit */
    uint64_t total[GG_PATHS]; /* of the rows */
    struct row rows[MAX_ROWS];
    int row_count;
    char *file; /* the mapping, NULL without */
    bool forked;
} g = {.once = PTHREAD_ONCE_INIT, .lock = PTHREAD_MUTEX_INITIALIZER};

_Atomic int gg_watch;

/* One line of counters per thread. Threads that come when all lines are taken share the last; lines are not given back. */
enum { OWN_LINES = 1023 };
static struct gg_calls lines[OWN_LINES + 1];

_Thread_local struct gg_last gg_last;

/* ---- the table and the file ---------------------------------------------------------------------------------------------------------------- */

static size_t file_size(void) { return (size_t)(MAX_ROWS + 2) * ROW_WIDTH; }

/* One line of the file: exactly ROW_WIDTH characters, padded with spaces. */
struct line {
    char text[ROW_WIDTH];
};
static struct line line_of(const char *format, ...) __attribute__((format(printf, 1, 2)));
static struct line line_of(const char *format, ...)
{
    struct line line;
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line.text, ROW_WIDTH, format, args);
    va_end(args);
    n = n < 0 ? 0 : n < ROW_WIDTH ? n : ROW_WIDTH - 1;
    memset(line.text + n, ' ', (size_t)(ROW_WIDTH - 1 - n));
    line.text[ROW_WIDTH - 1] = '\n';
    return line;
}

/* Writes the file's first line and one more. By the kernel where it may: if somebody has shortened the file, a store into the mapping would end the
 * program. */
static void put_lines(const struct line *first, int at, const struct line *other)
{
    char *const to[] = {g.file, g.file + (size_t)at * ROW_WIDTH};
    const struct iovec here[] = {{(void *)first, ROW_WIDTH}, {(void *)other, ROW_WIDTH}}, there[] = {{to[0], ROW_WIDTH}, {to[1], ROW_WIDTH}};
    const int saved = errno;
    if (process_vm_writev(getpid(), here, 2, there, 2, 0) < 0 && errno != EFAULT)
        memcpy(to[0], first, ROW_WIDTH), memcpy(to[1], other, ROW_WIDTH);
    errno = saved;
}

static struct line totals(void)
{
    uint64_t cpu = g.total[GG_PATH_CPU], gpu = g.total[GG_PATH_DEVICE] + g.total[GG_PATH_STAGED];
    return line_of("{\"library\": \"libgpugemm\", \"version\": \"%s\", \"pid\": %ld, \"calls\": %llu, \"gpu\": %llu, \"cpu\": %llu, \"routines\": [",
                   gpugemm_version(), (long)getpid(), (unsigned long long)(cpu + gpu), (unsigned long long)gpu, (unsigned long long)cpu);
}

/* Brings the file up to date with row i. */
static void put_row(int i)
{
    const struct row *r = &g.rows[i];
    const struct line first = totals(),
                      row = line_of("%s{\"routine\": \"%cgemm\", \"path\": \"%s\", \"kernel\": \"%s\", \"reason\": \"%s\", \"calls\": %llu, "
                                    "\"seconds\": %.6f, \"regret\": %.6f, \"flops\": %.0f, \"bytes_to_gpu\": %lld, \"bytes_from_gpu\": %lld, "
                                    "\"not_certified_for\": \"%s\"}",
                                    i ? ", " : "", r->type == GG_S ? 's' : 'd', gg_path_text(r->path), r->kernel ? r->kernel->name : "",
                                    gg_reason_text(r->reason), (unsigned long long)r->calls, r->seconds, r->regret, r->flops, (long long)r->bytes_up,
                                    (long long)r->bytes_down, r->uncertified ? r->uncertified->name : "");
    put_lines(&first, 1 + i, &row);
}

/* Replaces %p in the name by the process id. A forked child appends its id to a name without %p, which belongs to its parent. False: too long. */
static bool expand_name(char *name, size_t size, const char *pattern, bool child)
{
    size_t n = 0;
    bool numbered = false;
    for (; *pattern && n + 24 < size; pattern++)
        if (pattern[0] == '%' && pattern[1] == 'p') {
            n += (size_t)snprintf(name + n, size - n, "%ld", (long)getpid());
            numbered = true;
            pattern++;
        } else {
            name[n++] = *pattern;
        }
    name[n] = 0;
    if (child && !numbered)
        snprintf(name + n, size - n, ".%ld", (long)getpid());
    return !*pattern;
}

/* Creates a new file, replacing an older one of the caller's own. It never touches what a symbolic link points to, and never shortens a file that
 * another process may have mapped. If another process of the same program creates its file in the meantime (R's workers start together), that one is
 * replaced too. -1 and errno on failure. */
static int create_file(const char *name)
{
    int fd = -1;
    for (int tries = 0; fd < 0 && tries < 100; tries++) {
        struct stat old;
        if (lstat(name, &old) == 0) {
            if (!S_ISREG(old.st_mode) || old.st_uid != geteuid())
                return errno = EEXIST, -1;
            if (unlink(name) && errno != ENOENT)
                return -1;
        }
        fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0 && errno != EEXIST)
            return -1;
    }
    return fd;
}

static void open_file(const char *pattern, bool child)
{
    char name[4096];
    const bool whole = expand_name(name, sizeof name, pattern, child);
    if (!whole)
        errno = ENAMETOOLONG;
    struct gg_signals signals;
    gg_hold_signals(&signals);
    int fd = whole ? create_file(name) : -1,
        e = fd < 0 ? errno : posix_fallocate(fd, 0, (off_t)file_size()); /* allocate all of it, so that a full disk shows up here and not at a write
                                                                          * to a page */
    gg_let_signals(&signals);
    void *map = MAP_FAILED;
    if (!e && (map = mmap(NULL, file_size(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)) == MAP_FAILED)
        e = errno;
    if (e)
        gg_warn("statistics cannot be written to %s: %s", name, strerror(e));
    if (e && fd >= 0)
        unlink(name);
    if (fd >= 0)
        close(fd);
    g.file = map == MAP_FAILED ? NULL : map;
    if (!g.file)
        return;
    const struct line first = totals(), none = line_of("%s", ""), last = line_of("]}");
    for (int i = 1; i <= MAX_ROWS; i++)
        put_lines(&first, i, &none);
    put_lines(&first, MAX_ROWS + 1, &last);
}

/* Runs at exit. A signal handler may have called exit in the middle of count(). */
static void print_table(void)
{
    for (int i = 0; pthread_mutex_trylock(&g.lock); i++) {
        if (i == 1000)
            return;
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    const struct gg_fp fp = gg_fp_ours();
    uint64_t gpu = g.total[GG_PATH_DEVICE] + g.total[GG_PATH_STAGED], all = gpu + g.total[GG_PATH_CPU];
    gg_say(STDERR_FILENO, "%llu gemm calls, %llu on the GPU, %llu on the CPU (process %ld)", (unsigned long long)all, (unsigned long long)gpu,
           (unsigned long long)(all - gpu), (long)getpid());
    if (*gg_gpu_trouble())
        gg_say(STDERR_FILENO, "no GPU: %s; the CPU serves", gg_gpu_trouble());
    if (g.row_count)
        gg_say(STDERR_FILENO, "%-6s %-7s %-28s %10s %12s %10s %10s %10s %10s  %s", "call", "path", "kernel", "calls", "ms", "regret ms", "GFLOP/s",
               "MB up", "MB down", "reason");
    for (int i = 0; i < g.row_count; i++) {
        const struct row *r = &g.rows[i];
        gg_say(STDERR_FILENO, "%cgemm  %-7s %-28s %10llu %12.3f %10.3f %10.1f %10.1f %10.1f  %s%s%s", r->type == GG_S ? 's' : 'd',
               gg_path_text(r->path), r->kernel ? r->kernel->name : "-", (unsigned long long)r->calls, 1e3 * r->seconds, 1e3 * r->regret,
               r->seconds > 0 ? 1e-9 * r->flops / r->seconds : 0, 1e-6 * (double)r->bytes_up, 1e-6 * (double)r->bytes_down, gg_reason_text(r->reason),
               r->uncertified ? ", not certified for " : "", r->uncertified ? r->uncertified->name : "");
    }
    gg_fp_write(fp);
    pthread_mutex_unlock(&g.lock);
}

/* A child counts from 0, into a file of its own that it opens at its first call. Until then anonymous memory replaces the mapping of its parent's
 * file: a count() that the fork has interrupted may go on writing there. A fork does not wait for another thread's count(), all of whose traces are
 * wiped out here: it would have to keep g.lock while another library's handler waits for a thread that is about to count. ThreadSanitizer does not know
 * that the threads that held the lock are not in the child. */
__attribute__((no_sanitize("thread"))) static void in_child(void)
{
    g.row_count = 0;
    memset(g.total, 0, sizeof g.total);
    if (g.file && mmap(g.file, file_size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
        g.file = NULL;
    g.forked = true;
    g.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

static void open_outputs(void)
{
    int saved = errno;
    const char *stats = gg_config()->stats;
    const bool traced = gg_trace_open();
    if (stats) {
        pthread_atfork(NULL, NULL, in_child);
        g.table = strcmp(stats, "1") == 0;
        if (g.table) {
            atexit(print_table);
            at_quick_exit(print_table);
        } else {
            open_file(stats, false);
        }
    }
    atomic_store_explicit(&gg_watch, stats || traced ? GG_WATCHED : GG_UNWATCHED, memory_order_release);
    errno = saved;
}

bool gg_open_outputs(void)
{
    int cancel;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel); /* cancelled in there, the next thread would do it all again */
    pthread_once(&g.once, open_outputs);
    pthread_setcancelstate(cancel, NULL);
    return atomic_load(&gg_watch) == GG_WATCHED;
}

/* ---- a finished call ----------------------------------------------------------------------------------------------------------------------- */

/* How much longer the call took than the other side was predicted to take. */
static double regret(const struct gg_record *r)
{
    const double other = r->path == GG_PATH_CPU ? r->predicted_gpu : r->path == GG_PATH_STAGED ? r->predicted_cpu : 0; /* 0: there was no other
                                                                                                                        * side */
    return other > 0 && r->seconds > other ? r->seconds - other : 0;
}

/* The row for such a call. Under g.lock. */
static struct row *row_of(const struct gg_record *r)
{
    int i = 0;
    while (i < g.row_count && !(g.rows[i].type == r->type && g.rows[i].path == r->path && g.rows[i].reason == r->reason &&
                                g.rows[i].kernel == r->kernel && g.rows[i].uncertified == r->uncertified))
        i++;
    if (i == MAX_ROWS)
        return &g.rows[MAX_ROWS - 1]; /* more kinds than lines: the last one takes the rest */
    if (i == g.row_count)
        g.rows[g.row_count++] =
            (struct row){.type = r->type, .path = r->path, .reason = r->reason, .kernel = r->kernel, .uncertified = r->uncertified};
    return &g.rows[i];
}

static void count(const struct gg_record *r)
{
    pthread_mutex_lock(&g.lock);
    if (g.forked) {
        char *inherited = g.file;
        g.forked = false;
        g.file = NULL; /* first: another thread's child would put memory of its own where it is */
        if (inherited)
            munmap(inherited, file_size());
        if (!g.table)
            open_file(gg_config()->stats, true);
    }
    struct row *row = row_of(r);
    row->calls++;
    row->seconds += r->seconds;
    row->regret += regret(r);
    row->bytes_up += r->bytes_up;
    row->bytes_down += r->bytes_down;
    if (r->p && !gg_is_empty(r->p))
        row->flops += 2.0 * (double)r->p->m * (double)r->p->n * (double)r->p->k;
    g.total[r->path]++;
    if (g.file)
        put_row((int)(row - g.rows));
    pthread_mutex_unlock(&g.lock);
}

/* A line of the calling thread's own, or NULL when all are taken. */
static struct gg_calls *take_line(void)
{
    int before = atomic_load(&g.threads);
    while (before < OWN_LINES && !atomic_compare_exchange_weak(&g.threads, &before, before + 1))
        ;
    return before < OWN_LINES ? &lines[before] : NULL;
}

void gg_record(const struct gg_record *r)
{
    const struct gg_gemm none = {0}, *p = r->p ? r->p : &none;
    struct gg_calls *own = gg_last.own ? gg_last.own : take_line();
    if (own)
        gg_count(&own->of[r->type][r->path]);
    else
        atomic_fetch_add_explicit(&lines[OWN_LINES].of[r->type][r->path], 1, memory_order_relaxed);
    gg_last = (struct gg_last){.own = own,
                               .kernel = r->kernel,
                               .m = p->m,
                               .n = p->n,
                               .k = p->k,
                               .predicted_cpu = r->predicted_cpu,
                               .predicted_gpu = r->predicted_gpu,
                               .any = true,
                               .type = (unsigned char)r->type,
                               .path = (unsigned char)r->path,
                               .reason = (unsigned char)r->reason};
    if (r->path != GG_PATH_CPU) {
        atomic_fetch_add_explicit(&g.bytes_up, (uint64_t)r->bytes_up, memory_order_relaxed);
        atomic_fetch_add_explicit(&g.bytes_down, (uint64_t)r->bytes_down, memory_order_relaxed);
        atomic_fetch_add_explicit(&g.recovered, r->recovered, memory_order_relaxed);
    }
    if (!gg_watched())
        return;
    int saved = errno, cancel;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel); /* for a child opens its file under the lock */
    const locale_t theirs = gg_use_points();
    gg_trace(r);
    if (gg_config()->stats)
        count(r);
    pthread_setcancelstate(cancel, NULL);
    gg_use_theirs(theirs);
    errno = saved;
}

/* ---- the public side ------------------------------------------------------------------------------------------------------------------ */

/* All calls since the library was loaded, counted from all threads' lines. */
static uint64_t counted(enum gg_type type, enum gg_path path)
{
    uint64_t calls = 0;
    for (int line = 0; line <= OWN_LINES; line++)
        calls += atomic_load(&lines[line].of[type][path]);
    return calls;
}

void gpugemm_stats_read(struct gpugemm_stats *stats, size_t size)
{
    struct gpugemm_stats now = {0};
    uint64_t *const calls[GG_PATHS] = {[GG_PATH_CPU] = &now.cpu, [GG_PATH_DEVICE] = &now.device, [GG_PATH_STAGED] = &now.staged};
    for (int type = GG_S; type <= GG_D; type++)
        for (int path = 0; path < GG_PATHS; path++) {
            const uint64_t forgotten = atomic_load(&g.forgotten[type][path]); /* first, for a reset in between must not make it the larger one */
            *calls[path] += counted(type, path) - forgotten;
        }
    now.calls = now.cpu + now.device + now.staged;
    now.recovered = atomic_load(&g.recovered);
    now.bytes_to_gpu = atomic_load(&g.bytes_up);
    now.bytes_from_gpu = atomic_load(&g.bytes_down);
    memset(stats, 0, size);
    memcpy(stats, &now, size < sizeof now ? size : sizeof now);
}

void gpugemm_stats_reset(void)
{
    for (int type = GG_S; type <= GG_D; type++)
        for (int path = 0; path < GG_PATHS; path++) {
            uint64_t calls = counted(type, path), before = atomic_load(&g.forgotten[type][path]);
            while (before < calls && !atomic_compare_exchange_weak(&g.forgotten[type][path], &before, calls)) /* another reset may have seen more */
                ;
        }
    atomic_store(&g.recovered, 0);
    atomic_store(&g.bytes_up, 0);
    atomic_store(&g.bytes_down, 0);
}

void gpugemm_last_decision(struct gpugemm_decision *decision, size_t size)
{
    const uint32_t reason = gg_last.straight >> 8;
    const struct gg_last straight = {.m = gg_last.m,
                                     .n = gg_last.n,
                                     .k = gg_last.k,
                                     .any = true,
                                     .type = (unsigned char)((gg_last.straight & 0xff) - 1),
                                     .path = GG_PATH_CPU,
                                     .reason = (unsigned char)(reason ? reason : GG_TOO_SMALL)},
                         *last = gg_last.straight ? &straight : &gg_last;
    struct gpugemm_decision now = {.routine = !last->any           ? ""
                                              : last->type == GG_S ? "sgemm"
                                                                   : "dgemm",
                                   .path = gg_path_text((enum gg_path)last->path),
                                   .kernel = last->kernel ? last->kernel->name : "",
                                   .reason = last->any ? gg_reason_text((enum gg_reason)last->reason) : "",
                                   .m = last->m,
                                   .n = last->n,
                                   .k = last->k,
                                   .predicted_cpu = last->predicted_cpu,
                                   .predicted_gpu = last->predicted_gpu};
    memset(decision, 0, size);
    memcpy(decision, &now, size < sizeof now ? size : sizeof now);
}

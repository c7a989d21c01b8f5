/* trace.c — owns what the library says: warnings, the abort, the trace. It writes to stderr or the file it was told to, never to stdout, with
 * write(2) and no buffers of its own, so that nothing is lost however the program ends: a line is written when its call returns. Called by every
 * stage. */
#include "trace.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "config.h"
#include "kernels.h"

enum { MAX_WARNINGS = 16 };

static struct {
    _Atomic int warnings;
    int fd, level; /* of the trace; fd < 0: there is none */
    dev_t device;
    ino_t inode;
} g = {.fd = -1};

const char *gg_path_text(enum gg_path path)
{
    static const char *const texts[GG_PATHS] = {"cpu", "device", "staged"};
    return texts[path];
}

const char *gg_reason_text(enum gg_reason reason)
{
    static const char *const texts[] = {
#define X(id, text) text,
        GG_REASONS(X)
#undef X
    };
    return texts[reason];
}

double gg_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

locale_t gg_use_points(void) { return uselocale(newlocale(LC_ALL_MASK, "C", (locale_t)0)); }

void gg_use_theirs(locale_t theirs)
{
    const locale_t points = uselocale(theirs);
    if (points != theirs) /* otherwise there was no memory for a locale */
        freelocale(points);
}

/* ---- lines -------------------------------------------------------------------------------------------------------------------------- */

void gg_hold_signals(struct gg_signals *held)
{
    sigset_t deadly;
    sigemptyset(&deadly);
    sigaddset(&deadly, SIGPIPE);
    sigaddset(&deadly, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &deadly, &held->before);
    sigpending(&held->pending);
}

void gg_let_signals(const struct gg_signals *held)
{
    const int saved = errno;
    sigset_t after;
    sigpending(&after);
    for (int i = 0; i < 2; i++) {
        int number = i ? SIGXFSZ : SIGPIPE;
        sigset_t one;
        sigemptyset(&one);
        sigaddset(&one, number);
        if (sigismember(&after, number) && !sigismember(&held->pending, number)) /* caused by our write */
            while (sigtimedwait(&one, NULL, &(struct timespec){0}) < 0 && errno == EINTR)
                ;
    }
    pthread_sigmask(SIG_SETMASK, &held->before, NULL);
    errno = saved;
}

/* Writes all of it, or as much as the descriptor takes; errors have nowhere to go. */
static void write_all(int fd, const char *text, size_t length)
{
    struct gg_signals signals;
    gg_hold_signals(&signals);
    while (length > 0) {
        ssize_t n = write(fd, text, length);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        text += n;
        length -= (size_t)n;
    }
    gg_let_signals(&signals);
}

static void write_line(int fd, const char *format, va_list args)
{
    char line[1024];
    int saved = errno;
    int n = snprintf(line, sizeof line, "gpugemm: ");
    n += vsnprintf(line + n, sizeof line - (size_t)n - 1, format, args);
    if (n > (int)sizeof line - 2)
        n = (int)sizeof line - 2;
    for (int i = 0; i < n; i++) /* values of the environment are printed, and control characters could command a terminal */
        line[i] = (unsigned char)line[i] < ' ' || line[i] == 127 ? '?' : line[i];
    line[n++] = '\n';
    write_all(fd, line, (size_t)n);
    errno = saved;
}

void gg_warn(const char *format, ...)
{
    if (atomic_fetch_add(&g.warnings, 1) >= MAX_WARNINGS)
        return;
    va_list args;
    va_start(args, format);
    write_line(STDERR_FILENO, format, args);
    va_end(args);
}

void gg_abort(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    write_line(STDERR_FILENO, format, args);
    va_end(args);
    abort();
}

void gg_say(int fd, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    write_line(fd, format, args);
    va_end(args);
}

/* ---- the trace --------------------------------------------------------------------------------------------------------------------------- */

/* Is the descriptor still the file that was opened? A program that closes descriptors it does not know may have reused the number for a file of its
 * own. */
static bool is_ours(int fd)
{
    struct stat now;
    return fd == STDERR_FILENO || (fstat(fd, &now) == 0 && now.st_dev == g.device && now.st_ino == g.inode);
}

void gg_trace(const struct gg_record *r)
{
    char predicted[80] = "", why[48] = "";
    if (g.fd < 0 || !is_ours(g.fd))
        return;
    if (g.level > 1)
        snprintf(predicted, sizeof predicted, " predicted_cpu_us=%.1f predicted_gpu_us=%.1f", 1e6 * r->predicted_cpu, 1e6 * r->predicted_gpu);
    if (r->uncertified)
        snprintf(why, sizeof why, " not_certified_for=%s", r->uncertified->name);
    if (!r->p) {
        gg_say(g.fd, "%s path=cpu reason=\"%s\" us=%.1f", r->symbol, gg_reason_text(r->reason), 1e6 * r->seconds);
        return;
    }
    const struct gg_gemm *p = r->p;
    static const char *const layouts[] = {"NN", "NT", "TN", "TT"};
    gg_say(g.fd, "%s %s m=%lld n=%lld k=%lld lda=%lld ldb=%lld ldc=%lld path=%s kernel=%s reason=\"%s\"%s us=%.1f%s%s", r->symbol,
           layouts[gg_layout(p)], (long long)p->m, (long long)p->n, (long long)p->k, (long long)p->lda, (long long)p->ldb, (long long)p->ldc,
           gg_path_text(r->path), r->kernel ? r->kernel->name : "-", gg_reason_text(r->reason), why, 1e6 * r->seconds, predicted,
           r->recovered ? " recovered" : "");
}

/* Opens a file for appending: the caller's own or a new one, or a terminal; never through a symbolic link, never a pipe, which can block. -1 and
 * errno on failure. */
static int open_file(const char *name)
{
    struct stat status;
    int fd = open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK, 0600);
    if (fd < 0)
        return -1;
    bool good = fstat(fd, &status) == 0;
    if (good && !(S_ISCHR(status.st_mode) || (S_ISREG(status.st_mode) && status.st_uid == geteuid() && status.st_nlink == 1))) {
        errno = EPERM;
        good = false;
    }
    if (!good) {
        int saved = errno;
        close(fd);
        return errno = saved, -1;
    }
    g.device = status.st_dev;
    g.inode = status.st_ino;
    int high = fcntl(fd, F_DUPFD_CLOEXEC, 64); /* a high number: programs rely on the low ones that open gives them */
    if (high >= 0)
        close(fd);
    return high >= 0 ? high : fd;
}

bool gg_trace_open(void)
{
    const char *wanted = gg_config()->trace;
    if (!wanted)
        return false;
    g.level = strcmp(wanted, "1") == 0 ? 1 : 2;
    g.fd = STDERR_FILENO;
    if (strcmp(wanted, "1") != 0 && strcmp(wanted, "2") != 0) {
        g.fd = open_file(wanted);
        if (g.fd < 0)
            gg_warn("the trace cannot be written to %s: %s", wanted, strerror(errno));
    }
    return g.fd >= 0;
}

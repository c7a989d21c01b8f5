/* trace.h — what the library says: warnings, one line a call, the single abort (trace.c), and what it remembers of calls (stats.c). */
#ifndef GG_TRACE_H
#define GG_TRACE_H

#include <locale.h>
#include <signal.h>
#include <stdatomic.h>

#include "dispatch.h"
#include "gemm.h"

/* One line on stderr, at most 16 in a process. printf's format, without the newline. */
void gg_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* One line on stderr, then abort(): for operands that no CPU can read when the GPU cannot serve. The only abort for a gemm. */
_Noreturn void gg_abort(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* One line, not counted as a warning. */
void gg_say(int fd, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Between these two calls this thread's numbers are written with a decimal point, whatever the program's locale: for output that other programs
 * read. */
locale_t gg_use_points(void);
void gg_use_theirs(locale_t theirs); /* theirs: what gg_use_points returned */

/* A finished call. */
struct gg_record {
    const char *symbol;      /* the name that was called */
    const struct gg_gemm *p; /* NULL when the arguments were illegal */
    enum gg_type type;
    enum gg_path path;
    enum gg_reason reason;
    bool recovered;
    const struct gg_kernel *kernel;      /* NULL for the CPU */
    const struct gg_kernel *uncertified; /* the head of the chain (tensor.h) that was to serve but whose tier the operands were not certified for;
                                          * NULL: there was none */
    double seconds;                      /* 0 unless gg_watched */
    double predicted_cpu, predicted_gpu;
    double model; /* if the CPU serves: its predicted seconds before correction, for gg_rates_see; 0: nothing to be learnt */
    int64_t bytes_up, bytes_down;
};

/* Are statistics or a trace wanted? Only then are calls timed. */
enum gg_watch { GG_WATCH_UNKNOWN, GG_UNWATCHED, GG_WATCHED };
extern _Atomic int gg_watch;
bool gg_open_outputs(void);

static inline bool gg_watched(void)
{
    int watch = atomic_load_explicit(&gg_watch, memory_order_acquire);
    return watch == GG_WATCHED || (watch == GG_WATCH_UNKNOWN && gg_open_outputs());
}

/* Counts the call, remembers it as the thread's last decision, and traces it. */
void gg_record(const struct gg_record *record);

/* A thread's calls, in a cache line of its own. An atomic addition to a shared counter costs a tiny call 5 ns, and many times that under
 * contention. */
struct gg_calls {
    _Alignas(64) _Atomic uint64_t of[2][GG_PATHS];
};

static inline void gg_count(_Atomic uint64_t *calls)
{
    atomic_store_explicit(calls, atomic_load_explicit(calls, memory_order_relaxed) + 1, memory_order_relaxed);
}

/* The calling thread's counters, and its last call as gpugemm_last_decision shows it. A call that went straight to the CPU (straight() in
 * entry.c), with nobody watching, writes the first line alone, because each further store is noticeable beside a tiny product. */
struct gg_last {
    struct gg_calls *own; /* NULL before the first call, and in a thread that came when all lines were taken */
    int64_t m, n, k;
    uint32_t straight; /* 1 + enum gg_type, and from bit 8 on the reason (0: GG_TOO_SMALL); 0: it was no such call, and the rest is of it */
    bool any;          /* was there one? */
    unsigned char type, path, reason;
    const struct gg_kernel *kernel;
    double predicted_cpu, predicted_gpu;
};
extern _Thread_local struct gg_last gg_last;

/* gg_record for such a call; entry_*.S does the same for tiny ones. gg_last.own must not be NULL. */
static inline void gg_record_straight(enum gg_type type, enum gg_reason reason, int64_t m, int64_t n, int64_t k)
{
    gg_count(&gg_last.own->of[type][GG_PATH_CPU]);
    gg_last.m = m;
    gg_last.n = n;
    gg_last.k = k;
    gg_last.straight = 1 + (uint32_t)type + ((uint32_t)reason << 8);
}

/* Between the two, this thread is not killed by a signal for what the library writes, as it would be for its own output: if the reader has left, or
 * a file is at its limit. errno is kept by the second. */
struct gg_signals {
    sigset_t before, pending;
};
void gg_hold_signals(struct gg_signals *held);
void gg_let_signals(const struct gg_signals *held);

bool gg_trace_open(void);                      /* is a trace wanted, and can it be written? */
void gg_trace(const struct gg_record *record); /* a line, if so */

const char *gg_reason_text(enum gg_reason reason);
const char *gg_path_text(enum gg_path path);
double gg_now(void); /* seconds, monotonic */

#endif

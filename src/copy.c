/* copy.c — owns the copy threads and their work. A thread knows nothing of GPUs: it takes a copy, makes it, counts it down. Each thread has a hand, a
 * pointer into which a copy is put while the thread looks for work; the remaining copies are queued. (With only a queue behind a lock, the last of
 * eight threads begins 5 µs after the first.) Waking a thread takes 20 µs and more (200 when its processor sleeps deeply), as much as a copy. So a
 * thread that runs out of work polls for a while before it sleeps, longer during a call than after it. It yields the processor between two looks: a
 * thread with work may be queued on the same processor, which others may have filled with polling threads of their own (OpenBLAS's do so for 0.1 s
 * after a call). A thread that waits for a copy must not yield, because the polling thread that gets the processor then keeps it (Linux 6.18; 0.5 ms
 * each time). Called by staged.c, conduct.c, short.c and tune.c. */
#include "copy.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "config.h"
#include "cpus.h"
#include "gpu.h"
#include "trace.h"

static const double poll_in_call = 500e-6, poll_after_call = 50e-6; /* seconds */

/* A hand that holds this belongs to a thread that looks for work; NULL: to one that does not. */
static struct gg_copy empty;

static struct {
    pthread_mutex_t lock;
    pthread_cond_t work;
    struct gg_copy *head, **tail;
    _Alignas(128) _Atomic int queued; /* copies in the list, for pollers to look at */
    _Atomic int given;                /* copies in hands that are not begun; now and then one too few */
    _Alignas(128) _Atomic int calls;  /* in progress */
    _Atomic int wanted;               /* threads, the sum over all calls */
    _Atomic int polling;              /* threads that look for work without sleeping */
    _Atomic int sleeping;
    _Atomic int waking;               /* sleeping threads that have been signalled */
    _Atomic int threads;
    _Atomic int on[CPU_SETSIZE]; /* by processor: how many callers and awake copy threads are on it */
    struct {
        _Alignas(128) _Atomic(struct gg_copy *) hand;
    } of[GG_MAX_THREADS];
} g = {.lock = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP, .work = PTHREAD_COND_INITIALIZER, .tail = &g.head};

/* ---- copying ------------------------------------------------------------------------------------------------------------------------------ */

/* memcpy with stores that bypass the caches. When unpacking, dst is not read into the caches first (8 threads: 86 GB/s with memcpy, 164 so; H200's
 * host, 2026-11). When packing, the GPU finds the bytes in memory and not in the caches of eight processors, from which they come at half the link's
 * rate. Without such stores, and for ThreadSanitizer, which does not see them, plain memcpy. */
static void copy_past_cache(char *dst, const char *src, size_t bytes)
{
#if defined(__SSE2__) && !defined(__SANITIZE_THREAD__)
    size_t head = -(uintptr_t)dst & 63;
    if (bytes < 512) {
        memcpy(dst, src, bytes);
        return;
    }
    memcpy(dst, src, head);
    for (dst += head, src += head, bytes -= head; bytes >= 64; dst += 64, src += 64, bytes -= 64) {
        const __m128i *from = (const __m128i *)src;
        __m128i a = _mm_loadu_si128(from), b = _mm_loadu_si128(from + 1), c = _mm_loadu_si128(from + 2), d = _mm_loadu_si128(from + 3);
        __m128i *to = (__m128i *)dst;
        _mm_stream_si128(to, a);
        _mm_stream_si128(to + 1, b);
        _mm_stream_si128(to + 2, c);
        _mm_stream_si128(to + 3, d);
    }
#endif
    memcpy(dst, src, bytes);
}

/* The same for a line of dst that begins at a multiple of 16 bytes and is followed by padding, which is filled: all stores bypass the caches, and
 * make whole cache lines together with those of the next line. */
static void copy_padded(char *dst, const char *src, size_t bytes, size_t pitch)
{
#if defined(__SSE2__) && !defined(__SANITIZE_THREAD__)
    __m128i last = _mm_setzero_si128();
    const size_t whole = bytes & (size_t)-16;
    for (size_t at = 0; at < whole; at += 16)
        _mm_stream_si128((__m128i *)(dst + at), _mm_loadu_si128((const __m128i *)(src + at)));
    memcpy(&last, src + whole, bytes - whole);
    for (size_t at = whole; at < pitch; at += 16, last = _mm_setzero_si128())
        _mm_stream_si128((__m128i *)(dst + at), last);
#else
    (void)pitch;
    memcpy(dst, src, bytes);
#endif
}

/* Writes to the first byte of each line, and changes none: a compare-and-swap of 0 for 0 never reads only, as a page of zeros would be mapped for, and
 * no compiler leaves it out. */
static void touch(const struct gg_copy *copy)
{
    for (int64_t i = 0; i < copy->lines; i++) {
        char zero = 0;
        __atomic_compare_exchange_n(copy->dst + i * copy->dst_pitch, &zero, 0, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    }
}

void gg_copy_run(const struct gg_copy *copy)
{
    if (!copy->src) {
        touch(copy);
        return;
    }
    int64_t width = copy->width, lines = copy->lines;
    if (copy->dst_pitch == width && copy->src_pitch == width) {
        width *= lines;
        lines = 1;
    }
    /* The next line is on another page, where the hardware does not prefetch by itself (dgemm 4096: 7.9 ms without, 7.35 with; 8192 26.25 and 25.8).
     * Short lines are fetched several ahead (at a pitch of 32 KB, one and two threads of an EPYC: 256 bytes 1.44 and 1.58 times as fast, 512 1.26 and
     * 1.23, 1 KB 1.13 and 1.20). */
    const int64_t ahead = gg_max(1, (3 << 10) / gg_max(width, 1));
    for (int64_t i = 0; i < lines; i++) {
        for (int64_t at = 0; i + ahead < lines && width <= 16 << 10 && copy->src_pitch != width && at < width; at += 64)
            __builtin_prefetch(copy->src + (i + ahead) * copy->src_pitch + at, 0, 2);
        if (copy->cached)
            memcpy(copy->dst + i * copy->dst_pitch, copy->src + i * copy->src_pitch, (size_t)width);
        else if (copy->padded && lines > 1) /* one line may be the whole rectangle, without padding */
            copy_padded(copy->dst + i * copy->dst_pitch, copy->src + i * copy->src_pitch, (size_t)width, (size_t)copy->dst_pitch);
        else
            copy_past_cache(copy->dst + i * copy->dst_pitch, copy->src + i * copy->src_pitch, (size_t)width);
    }
#if defined(__SSE2__)
    if (!copy->cached)
        _mm_sfence(); /* streaming stores are not ordered by the release that follows */
#endif
}

int gg_copy_cut(const struct gg_copy *whole, struct gg_copy *pieces, int most, int64_t least)
{
    bool by_lines = whole->lines > 1;
    int64_t extent = by_lines ? whole->lines : whole->width, count = gg_min(most, gg_max(1, whole->width * whole->lines / least));
    int64_t each = gg_ceil_div(extent, count);
    int made = 0;
    each = by_lines ? each : (each + 63) & -64;
    for (int64_t at = 0; at < extent; at += each) {
        struct gg_copy *piece = &pieces[made++];
        *piece = *whole;
        piece->dst += by_lines ? at * whole->dst_pitch : at;
        piece->src += by_lines ? at * whole->src_pitch : at;
        *(by_lines ? &piece->lines : &piece->width) = gg_min(each, extent - at);
    }
    if (!by_lines)
        for (int i = 0; i < made; i++)
            pieces[i].dst_pitch = pieces[i].src_pitch = pieces[i].width;
    atomic_store_explicit(whole->left, made, memory_order_relaxed);
    return made;
}

/* ---- which thread is on which processor ----------------------------------------------------------------------------------------------------- */

/* Counts this thread on its processor, so that others avoid it. Returns the processor, -1 if unknown. */
static int settle(void)
{
    const int cpu = sched_getcpu();
    if (cpu < 0 || cpu >= CPU_SETSIZE)
        return -1;
    atomic_fetch_add_explicit(&g.on[cpu], 1, memory_order_relaxed);
    return cpu;
}

static void unsettle(int cpu)
{
    if (cpu >= 0)
        atomic_fetch_sub_explicit(&g.on[cpu], 1, memory_order_relaxed);
}

/* Like settle, but a thread that shares its processor with another of ours moves to one that has none. A thread that wakes while no processor is
 * idle, because OpenBLAS's threads poll on all of them, stays where it was, and all of ours may have slept on one. (H200's host: the first calls of
 * sgemm 4096 in a process 26 ms each, on separate processors 3.1.) */
static int settle_apart(void)
{
    cpu_set_t all, one;
    const int at = settle();
    if (at < 0 || atomic_load_explicit(&g.on[at], memory_order_relaxed) < 2 || sched_getaffinity(0, sizeof all, &all) != 0)
        return at;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        int nobody = 0;
        if (!CPU_ISSET(cpu, &all) || !atomic_compare_exchange_strong_explicit(&g.on[cpu], &nobody, 1, memory_order_relaxed, memory_order_relaxed))
            continue;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        const bool moved = sched_setaffinity(0, sizeof one, &one) == 0;
        sched_setaffinity(0, sizeof all, &all);
        unsettle(moved ? at : cpu);
        return moved ? cpu : at;
    }
    return at;
}

/* ---- the queue ---------------------------------------------------------------------------------------------------------------------------- */

/* Takes the first copy of the queue. Under g.lock. */
static struct gg_copy *take(void)
{
    struct gg_copy *copy = g.head;
    if (copy) {
        g.head = copy->next;
        if (!g.head)
            g.tail = &g.head;
        atomic_fetch_sub_explicit(&g.queued, 1, memory_order_relaxed);
    }
    return copy;
}

/* The same, but gives up if the lock is taken. Dozens of threads look for work; if they slept on the lock, whoever releases it would have to wake
 * them (5 µs). */
static struct gg_copy *try_to_take(void)
{
    if (atomic_load_explicit(&g.queued, memory_order_relaxed) == 0 || pthread_mutex_trylock(&g.lock) != 0)
        return NULL;
    struct gg_copy *copy = take();
    pthread_mutex_unlock(&g.lock);
    return copy;
}

/* Puts copies, from the first of `count` on, into the hands of threads that look for work. Returns how many. With few threads at work, the search
 * always starts at the same thread, so that it has the same part of an operand in its caches in the next call (sgemm 256 49.3 us, in turn 50.2, from
 * a queue 62.2). With all at work it starts at each in turn, or some would fall asleep between two copies for them (4096 3.18 ms, in turn 3.09, from
 * a queue 3.07). */
static int give(struct gg_copy *copies, int count)
{
    static _Atomic unsigned turn;
    const bool in_turn = atomic_load_explicit(&g.wanted, memory_order_relaxed) > GG_FEW_COPIERS;
    const unsigned threads = (unsigned)g.threads, first = in_turn ? atomic_fetch_add_explicit(&turn, (unsigned)count, memory_order_relaxed) : 0;
    int given = 0;
    for (unsigned i = 0; i < threads && given < count; i++) {
        struct gg_copy *expected = &empty;
        _Atomic(struct gg_copy *) *hand = &g.of[(first + i) % threads].hand;
        if (atomic_load_explicit(hand, memory_order_relaxed) == expected &&
            atomic_compare_exchange_strong_explicit(hand, &expected, &copies[given], memory_order_release, memory_order_relaxed))
            given++;
    }
    atomic_fetch_add_explicit(&g.given, given, memory_order_relaxed);
    return given;
}

/* Takes a copy back out of the hand of a thread that has not begun it: the thread may have lost its processor just now. */
static struct gg_copy *take_back(void)
{
    for (int i = 0, threads = g.threads; i < threads && atomic_load_explicit(&g.given, memory_order_relaxed) > 0; i++) {
        struct gg_copy *copy = atomic_load_explicit(&g.of[i].hand, memory_order_relaxed);
        if (copy && copy != &empty &&
            atomic_compare_exchange_strong_explicit(&g.of[i].hand, &copy, &empty, memory_order_acquire, memory_order_relaxed)) {
            atomic_fetch_sub_explicit(&g.given, 1, memory_order_relaxed);
            return copy;
        }
    }
    return NULL;
}

static void finish(struct gg_copy *copy)
{
    gg_copy_run(copy);
    atomic_fetch_sub_explicit(copy->left, 1, memory_order_acq_rel);
}

/* Wakes sleeping threads until `wanted` are awake or being woken. No unneeded signal is sent: each costs a microsecond. */
static void wake(int wanted)
{
    int sleeping = atomic_load_explicit(&g.sleeping, memory_order_relaxed);
    if (sleeping == 0)
        return;
    pthread_mutex_lock(&g.lock);
    int waking = atomic_load_explicit(&g.waking, memory_order_relaxed);
    sleeping = atomic_load_explicit(&g.sleeping, memory_order_relaxed);
    int more = wanted - (g.threads - sleeping) - waking;
    more = more < sleeping - waking ? more : sleeping - waking;
    if (more > 0)
        atomic_fetch_add_explicit(&g.waking, more, memory_order_relaxed);
    pthread_mutex_unlock(&g.lock);
    for (int i = 0; i < more; i++)
        pthread_cond_signal(&g.work);
}

void gg_copy_post(struct gg_copy *copies, int count, bool first)
{
    const int given = atomic_load_explicit(&g.queued, memory_order_relaxed) == 0 ? give(copies, count) : 0; /* older copies come first */
    if (given == count)
        return;
    struct gg_copy *const last = &copies[count - 1];
    copies += given, count -= given;
    for (struct gg_copy *copy = copies; copy < last; copy++)
        copy->next = copy + 1;
    pthread_mutex_lock(&g.lock);
    struct gg_copy **const at = first ? &g.head : g.tail;
    last->next = *at;
    *at = copies;
    if (!last->next)
        g.tail = &last->next;
    int queued = atomic_fetch_add_explicit(&g.queued, count, memory_order_relaxed) + count;
    pthread_mutex_unlock(&g.lock);
    const int wanted = atomic_load_explicit(&g.wanted, memory_order_relaxed), awake = g.threads - atomic_load_explicit(&g.sleeping, memory_order_relaxed);
    if (awake < wanted)
        wake((int)gg_min(wanted, awake + queued));
}

bool gg_copy_help(void)
{
    struct gg_copy *copy = try_to_take();
    if (copy || (copy = take_back()))
        finish(copy);
    return copy != NULL;
}

bool gg_copy_wants_help(void)
{
    return atomic_load_explicit(&g.queued, memory_order_relaxed) > atomic_load_explicit(&g.polling, memory_order_relaxed);
}

int gg_copy_idle(void)
{
    return atomic_load_explicit(&g.polling, memory_order_relaxed) - atomic_load_explicit(&g.given, memory_order_relaxed) -
           atomic_load_explicit(&g.queued, memory_order_relaxed);
}

void gg_copy_wait(_Atomic int *left)
{
    const double patience = 200e-6; /* then the thread that makes the copy may be queued behind this one, and only sleeping lets it run */
    for (double since = 0; !gg_copy_made(left);) {
        const double now = gg_now();
        if (gg_copy_help())
            since = 0;
        else if (since == 0)
            since = now;
        else if (now - since > patience)
            nanosleep(&(struct timespec){.tv_nsec = 1000}, NULL);
        else
            gg_relax();
    }
}

static _Thread_local int caller_at; /* the processor this thread was counted on when its call began */

void gg_copy_begin(int threads, bool now)
{
    caller_at = settle();
    atomic_fetch_add_explicit(&g.calls, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&g.wanted, threads, memory_order_relaxed);
    if (now)
        wake(threads);
}

void gg_copy_more(int threads)
{
    wake(atomic_fetch_add_explicit(&g.wanted, threads, memory_order_relaxed) + threads);
}

void gg_copy_end(int threads)
{
    unsettle(caller_at);
    atomic_fetch_sub_explicit(&g.wanted, threads, memory_order_relaxed);
    atomic_fetch_sub_explicit(&g.calls, 1, memory_order_relaxed);
}

int gg_copy_calls(void) { return atomic_load_explicit(&g.calls, memory_order_relaxed); }

/* ---- the threads --------------------------------------------------------------------------------------------------------------------------- */

/* A copy from the queue, from this thread's hand or, if it has nothing to do, from another's. NULL: there was none for so long that the thread may
 * sleep. */
static struct gg_copy *poll_for_work(_Atomic(struct gg_copy *) *hand)
{
    struct gg_copy *copy = try_to_take();
    if (copy)
        return copy;
    double now = gg_now(), in_call = now + poll_in_call, end = now + poll_after_call;
    atomic_fetch_add_explicit(&g.polling, 1, memory_order_relaxed);
    atomic_store_explicit(hand, &empty, memory_order_relaxed);
    bool given = false;
    while (now < end && !copy && !given) {
        for (int i = 0; i < 20 && !copy && !given; i++) {
            given = atomic_load_explicit(hand, memory_order_relaxed) != &empty;
            copy = given ? NULL : try_to_take();
            if (!copy && !given)
                gg_relax();
        }
        if (!copy && !given && !(copy = take_back()))
            sched_yield();
        now = gg_now();
        if (atomic_load_explicit(&g.calls, memory_order_relaxed) > 0)
            end = now + poll_after_call < in_call ? now + poll_after_call : in_call;
    }
    atomic_fetch_sub_explicit(&g.polling, 1, memory_order_relaxed);
    struct gg_copy *const in_hand = atomic_exchange_explicit(hand, NULL, memory_order_acquire);
    if (in_hand == &empty) /* others may have taken back what was given */
        return copy || !given ? copy : poll_for_work(hand);
    atomic_fetch_sub_explicit(&g.given, 1, memory_order_relaxed);
    if (copy)
        finish(copy);
    return in_hand;
}

/* Asks the scheduler for short time slices. Such a thread is also scheduled sooner: between others that compute, after 100 µs instead of
 * milliseconds. From Linux 6.12 on; elsewhere nothing changes. */
static void ask_for_short_turns(void)
{
#if defined(SYS_sched_setattr)
    struct {
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime, deadline, period;
    } attributes = {.size = sizeof attributes, .policy = SCHED_OTHER, .nice = getpriority(PRIO_PROCESS, 0), .runtime = 100000 /* ns */};
    if (sched_getscheduler(0) == SCHED_OTHER)
        syscall(SYS_sched_setattr, 0, &attributes, 0);
#endif
}

static void *copy_thread(void *hand)
{
    ask_for_short_turns();
    for (int at = settle_apart();;) {
        struct gg_copy *copy = poll_for_work(hand);
        if (!copy) {
            unsettle(at);
            pthread_mutex_lock(&g.lock);
            atomic_fetch_add_explicit(&g.sleeping, 1, memory_order_relaxed);
            while (!(copy = take()) && atomic_load_explicit(&g.waking, memory_order_relaxed) == 0)
                pthread_cond_wait(&g.work, &g.lock);
            atomic_fetch_sub_explicit(&g.sleeping, 1, memory_order_relaxed);
            if (atomic_load_explicit(&g.waking, memory_order_relaxed) > 0)
                atomic_fetch_sub_explicit(&g.waking, 1, memory_order_relaxed);
            pthread_mutex_unlock(&g.lock);
            at = settle_apart();
        }
        if (copy)
            finish(copy);
    }
    return NULL;
}

int gg_copy_start(void)
{
    pthread_mutex_lock(&g.lock);
    static bool started;
    if (!started) {
        started = true;
        int64_t wanted = gg_config()->threads, have = gg_cpus_count();
        if (wanted == 0) /* 8 fill PCIe 5 with whole lines (H200's host, 2026-11), with short ones or with C coming down it takes more (H100's, 16
                          * processors, 12 and 14: sgemm 8192 NT 21 ms and 14.8, NN 14.6 and 13.8, dgemm 4096 6.7 and 6.5); the caller has a
                          * processor, too */
            wanted = have <= 8 ? have : gg_max(GG_FEW_COPIERS, gg_min(14, have - 2));
        while (g.threads < wanted && g.threads < GG_MAX_THREADS && gg_thread_start(copy_thread, &g.of[g.threads].hand))
            g.threads++;
    }
    int threads = g.threads;
    pthread_mutex_unlock(&g.lock);
    return threads;
}

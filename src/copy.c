/* copy.c — owns the copy threads and their queue. A thread knows nothing of GPUs: it takes a copy, makes it, marks it done. Waking one costs 40 µs, as
 * much as a copy: so one that runs out of work polls for a moment, longer during a call than after it, before it sleeps. Called by staged.c. */
#include "copy.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "config.h"
#include "gpu.h"
#include "trace.h"

enum { MAX_THREADS = 64 };
static const double poll_in_call = 500e-6, poll_after_call = 50e-6; /* seconds */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t work;
    struct gg_copy *head, **tail;
    _Atomic int queued;  /* in the list: what pollers look at */
    _Atomic int calls;   /* in progress */
    _Atomic int polling; /* threads that look for work without sleeping */
    int sleeping;
    int threads;
} g = {.lock = PTHREAD_MUTEX_INITIALIZER, .work = PTHREAD_COND_INITIALIZER, .tail = &g.head};

void gg_copy_run(const struct gg_copy *copy)
{
    if (copy->dst_pitch == copy->width && copy->src_pitch == copy->width) {
        memcpy(copy->dst, copy->src, (size_t)(copy->width * copy->lines));
        return;
    }
    for (int64_t i = 0; i < copy->lines; i++)
        memcpy(copy->dst + i * copy->dst_pitch, copy->src + i * copy->src_pitch, (size_t)copy->width);
}

/* Under g.lock. */
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

static void finish(struct gg_copy *copy)
{
    gg_copy_run(copy);
    atomic_store_explicit(&copy->done, true, memory_order_release);
}

void gg_copy_post(struct gg_copy *copy)
{
    copy->next = NULL;
    atomic_store_explicit(&copy->done, false, memory_order_relaxed);
    pthread_mutex_lock(&g.lock);
    *g.tail = copy;
    g.tail = &copy->next;
    int queued = atomic_fetch_add_explicit(&g.queued, 1, memory_order_relaxed) + 1;
    bool wake = g.sleeping > 0 && queued > atomic_load_explicit(&g.polling, memory_order_relaxed);
    pthread_mutex_unlock(&g.lock);
    if (wake)
        pthread_cond_signal(&g.work);
}

bool gg_copy_help(void)
{
    pthread_mutex_lock(&g.lock);
    struct gg_copy *copy = take();
    pthread_mutex_unlock(&g.lock);
    if (copy)
        finish(copy);
    return copy != NULL;
}

void gg_copy_begin(void)
{
    atomic_fetch_add_explicit(&g.calls, 1, memory_order_relaxed);
}

void gg_copy_end(void)
{
    atomic_fetch_sub_explicit(&g.calls, 1, memory_order_relaxed);
}

static void poll_for_work(void)
{
    double now = gg_now(), in_call = now + poll_in_call, end = now + poll_after_call;
    atomic_fetch_add_explicit(&g.polling, 1, memory_order_relaxed);
    while (now < end && atomic_load_explicit(&g.queued, memory_order_relaxed) == 0) {
        gg_relax();
        now = gg_now();
        if (atomic_load_explicit(&g.calls, memory_order_relaxed) > 0)
            end = now + poll_after_call < in_call ? now + poll_after_call : in_call;
    }
    atomic_fetch_sub_explicit(&g.polling, 1, memory_order_relaxed);
}

static void *copy_thread(void *unused)
{
    (void)unused;
    for (;;) {
        pthread_mutex_lock(&g.lock);
        struct gg_copy *copy = take();
        if (!copy) {
            pthread_mutex_unlock(&g.lock);
            poll_for_work();
            pthread_mutex_lock(&g.lock);
            g.sleeping++;
            while (!(copy = take()))
                pthread_cond_wait(&g.work, &g.lock);
            g.sleeping--;
        }
        pthread_mutex_unlock(&g.lock);
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
        cpu_set_t cpus;
        int64_t wanted = gg_config()->threads, have = sched_getaffinity(0, sizeof cpus, &cpus) ? 1 : CPU_COUNT(&cpus);
        if (wanted == 0)
            wanted = have < 8 ? have : 8; /* 8 fill PCIe 5 (49 GB/s of 55 on the H200 machine, 2026-11) */
        while (g.threads < wanted && g.threads < MAX_THREADS && gg_thread_start(copy_thread, NULL))
            g.threads++;
    }
    int threads = g.threads;
    pthread_mutex_unlock(&g.lock);
    return threads;
}

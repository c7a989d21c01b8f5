/* turns.c — owns the queues in which long staged calls wait for their turn. Called by staged.c.
 *
 * All calls share the link, the copy threads and the slots. One call leaves the link idle while its first panels are packed and its last C is
 * unpacked, which a second one fills; more only divide the slots and the processors' caches among them. (H200, calls a second of 8 threads, all at
 * once, 4, 3, 2 and 1 at work: sgemm 4096 310, 328, 348, 340, 312, one thread alone 322; dgemm 151, 158, 174, 177, 167, alone 170. Of 16 threads, all
 * and 2: sgemm 1500 1440 to 1630, 1610 to 1960, dgemm 1100 1410 to 1560, 1650 to 1870, sgemm 2000 940 to 1090, 1010 to 1190.) A call waits for others
 * of its own size only, within a factor of 8, so that a short one does not stand behind long ones.
 *
 * Turns only make calls faster, so nothing must depend on them. A call at work may never end: a signal handler may have left it by a jump, or it
 * waits for the GPU, which waits for a host function of the program's, which waits for a lock of the program's, whose owner waits for its turn. Or
 * its context is gone. */
#include "turns.h"

#include <pthread.h>
#include <stdint.h>
#include <time.h>

#include "gpu.h"

enum { AT_WORK = 2, QUEUES = 22 /* a third of the bits of a size */ };

/* A call waits on the condition that its number selects, so that the end of another wakes the next one only. */
enum { CONDITIONS = 16 };

static struct {
    pthread_mutex_t lock;
    pthread_cond_t turns[CONDITIONS];
    struct {
        int64_t come, gone; /* calls so far */
    } queues[GG_MAX_DEVICES * QUEUES];
} g = {.lock = PTHREAD_MUTEX_INITIALIZER, .turns = {[0 ... CONDITIONS - 1] = PTHREAD_COND_INITIALIZER}};

/* When a call of this size has waited for too long while nobody ended: it takes a small part of that. A caller that sees the end of others only when
 * it wakes may wait twice as long. */
static struct timespec patience(double bytes)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += 5 + (time_t)(bytes < 1e15 ? bytes / 1e9 : 1e6);
    return until;
}

int gg_turn_begin(int gpu, double bytes)
{
    int queue = 0;
    for (double rest = bytes; rest >= 8 && queue < QUEUES - 1; rest /= 8)
        queue++;
    queue += gpu % GG_MAX_DEVICES * QUEUES;
    __typeof__(&g.queues[queue]) q = &g.queues[queue];
    pthread_mutex_lock(&g.lock);
    const int64_t number = q->come++;
    while (number >= q->gone + AT_WORK) {
        const int64_t gone = q->gone;
        const struct timespec until = patience(bytes);
        int late = 0;
        while (q->gone == gone && !late)
            late = pthread_cond_clockwait(&g.turns[number % CONDITIONS], &g.lock, CLOCK_MONOTONIC, &until);
        if (q->gone == gone) { /* those at work count as gone, and all who wait go ahead */
            q->gone = q->come - AT_WORK;
            for (int i = 0; i < CONDITIONS; i++)
                pthread_cond_broadcast(&g.turns[i]);
        }
    }
    pthread_mutex_unlock(&g.lock);
    return queue;
}

void gg_turn_end(int queue)
{
    __typeof__(&g.queues[queue]) q = &g.queues[queue];
    pthread_mutex_lock(&g.lock);
    const int64_t next = q->gone + AT_WORK;
    q->gone += q->gone < q->come; /* not if it has been counted before */
    pthread_cond_broadcast(&g.turns[next % CONDITIONS]);
    pthread_mutex_unlock(&g.lock);
}

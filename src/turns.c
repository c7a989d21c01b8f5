/* turns.c — owns the queues in which large staged calls wait for their turn. Called by staged.c.
 *
 * All calls share the link, the copy threads and the slots. One call leaves the link idle while its first panels are packed and its last C is
 * unpacked, which a second one fills; more only divide the slots and the processors' caches among them. (H200, calls a second of 8 threads, all at
 * once, 4, 3, 2 and 1 at work: sgemm 4096 310, 328, 348, 340, 312, one thread alone 322; dgemm 151, 158, 174, 177, 167, alone 170.) A call waits for
 * others of its own size only, within a factor of 8, so that a short one does not stand behind long ones. */
#include "turns.h"

#include <pthread.h>
#include <stdint.h>

enum { AT_WORK = 2, QUEUES = 22 /* a third of the bits of a size */ };

static struct {
    pthread_mutex_t lock;
    pthread_cond_t ended; /* a call has */
    struct {
        int64_t come, gone; /* calls so far */
    } queues[QUEUES];
} g = {.lock = PTHREAD_MUTEX_INITIALIZER, .ended = PTHREAD_COND_INITIALIZER};

int gg_turn_begin(double bytes)
{
    int queue = 0;
    for (; bytes >= 8 && queue < QUEUES - 1; bytes /= 8)
        queue++;
    pthread_mutex_lock(&g.lock);
    const int64_t number = g.queues[queue].come++;
    while (number >= g.queues[queue].gone + AT_WORK)
        pthread_cond_wait(&g.ended, &g.lock);
    pthread_mutex_unlock(&g.lock);
    return queue;
}

void gg_turn_end(int queue)
{
    pthread_mutex_lock(&g.lock);
    g.queues[queue].gone++;
    pthread_cond_broadcast(&g.ended);
    pthread_mutex_unlock(&g.lock);
}

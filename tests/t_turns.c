/* t_turns.c — long staged calls take turns (src/turns.h): never more than two of a size are at work, each gets its turn in the order of coming, and a
 * call does not wait for calls of another size. */
#include <pthread.h>
#include <unistd.h>

#include "test.h"

#include "../src/turns.h"

enum { THREADS = 8, ROUNDS = 2000, MOST = 2 };
static const double large = 2e8, small = 2e6;

static atomic_int at_work, most, wrong;

static void *take_turns(void *unused)
{
    (void)unused;
    for (int i = 0; i < ROUNDS; i++) {
        const int queue = gg_turn_begin(large * (1 + 0.4 * (i % 2))), now = atomic_fetch_add(&at_work, 1) + 1;
        int before = atomic_load(&most);
        while (now > before && !atomic_compare_exchange_weak(&most, &before, now))
            ;
        wrong += now > MOST;
        usleep(i % 64 == 0);
        atomic_fetch_sub(&at_work, 1);
        gg_turn_end(queue);
    }
    return NULL;
}

static struct waiter {
    pthread_t thread;
    atomic_int tid, queue;
    double bytes;
} waiters[THREADS];

static void *wait_once(void *argument)
{
    struct waiter *me = argument;
    atomic_store(&me->tid, (int)gettid());
    atomic_store(&me->queue, gg_turn_begin(me->bytes));
    return NULL;
}

/* Returns when the thread sleeps, which it does in gg_turn_begin alone. */
static void await_sleep(const struct waiter *of)
{
    char path[64], state = 0;
    for (int tid; state != 'S'; usleep(1000)) {
        if (!(tid = atomic_load(&of->tid)))
            continue;
        snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
        FILE *file = fopen(path, "r");
        if (!file || fscanf(file, "%*d %*s %c", &state) != 1)
            state = 0;
        if (file)
            fclose(file);
    }
}

static void start(struct waiter *w, double bytes)
{
    *w = (struct waiter){.bytes = bytes, .queue = -1};
    pthread_create(&w->thread, NULL, wait_once, w);
}

int main(void)
{
    for (int i = 0; i < THREADS; i++)
        pthread_create(&waiters[i].thread, NULL, take_turns, NULL);
    for (int i = 0; i < THREADS; i++)
        pthread_join(waiters[i].thread, NULL);
    CHECK(wrong == 0 && most == MOST, "%d times more than %d calls were at work; at most %d", wrong, MOST, most);

    int held[MOST];
    for (int i = 0; i < MOST; i++)
        held[i] = gg_turn_begin(large);
    for (int i = 0; i < THREADS; i++) {
        start(&waiters[i], large);
        await_sleep(&waiters[i]);
    }
    struct waiter other;
    start(&other, small);
    pthread_join(other.thread, NULL); /* if it waited, this would not end */
    gg_turn_end(other.queue);
    for (int i = 0; i < THREADS; i++) {
        for (int j = i; j < THREADS; j++)
            CHECK(waiters[j].queue < 0, "call %d had its turn before %d calls had ended", j, j + 1);
        gg_turn_end(i < MOST ? held[i] : waiters[i - MOST].queue);
        pthread_join(waiters[i].thread, NULL); /* nor this */
    }
    for (int i = THREADS - MOST; i < THREADS; i++)
        gg_turn_end(waiters[i].queue);
    gg_turn_end(gg_turn_begin(0)); /* no size has no queue */
    gg_turn_end(gg_turn_begin(1e300));
    return test_failures != 0;
}

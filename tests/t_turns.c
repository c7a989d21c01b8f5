/* t_turns.c — long staged calls take turns (src/turns.h): never more than two of a size are at work, each gets its turn in the order of coming, and
 * a call does not wait for calls of another size or on another GPU, nor for ever. */
#include <pthread.h>

#include "test.h"

#include "../src/turns.h"

enum { THREADS = 20, ROUNDS = 2000, MOST = 2 };
static const double large = 2e8, small = 2e6;

static atomic_int at_work, most, wrong;

static void *take_turns(void *unused)
{
    (void)unused;
    for (int i = 0; i < ROUNDS; i++) {
        const int queue = gg_turn_begin(1, large * (1 + 0.4 * (i % 2))), now = atomic_fetch_add(&at_work, 1) + 1;
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
    int gpu;
    double bytes;
} waiters[THREADS];

static void *wait_once(void *argument)
{
    struct waiter *me = argument;
    atomic_store(&me->tid, (int)gettid());
    atomic_store(&me->queue, gg_turn_begin(me->gpu, me->bytes));
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

static void start(struct waiter *w, int gpu, double bytes)
{
    *w = (struct waiter){.gpu = gpu, .bytes = bytes, .queue = -1};
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
        held[i] = gg_turn_begin(1, large);
    for (int i = 0; i < THREADS; i++) {
        start(&waiters[i], 1, large);
        await_sleep(&waiters[i]);
    }
    struct waiter others[2];
    start(&others[0], 1, small);
    start(&others[1], 0, large);
    for (int i = 0; i < 2; i++) {
        pthread_join(others[i].thread, NULL);
        gg_turn_end(others[i].queue);
    }
    CHECK(waiters[0].queue < 0, "calls of another size, or on another GPU, have waited");
    for (int i = 0; i < THREADS; i++) {
        for (int j = i; j < THREADS; j++)
            CHECK(waiters[j].queue < 0, "call %d had its turn before %d calls had ended", j, j + 1);
        gg_turn_end(i < MOST ? held[i] : waiters[i - MOST].queue);
        pthread_join(waiters[i].thread, NULL);
    }
    for (int i = THREADS - MOST; i < THREADS; i++)
        gg_turn_end(waiters[i].queue);

    for (int i = 0; i < MOST; i++)
        held[i] = gg_turn_begin(1, large);
    for (int i = 0; i < 2; i++)
        start(&waiters[i], 1, large);
    for (int i = 0; i < 2; i++) /* though nobody ends */
        pthread_join(waiters[i].thread, NULL);
    for (int i = 0; i < MOST; i++)
        gg_turn_end(held[i]), gg_turn_end(waiters[i].queue);
    for (int i = 0; i < MOST; i++)
        held[i] = gg_turn_begin(1, large);
    start(&waiters[0], 1, large);
    await_sleep(&waiters[0]);
    CHECK(waiters[0].queue < 0, "after calls that had been given up ended more than %d are at work", MOST);
    for (int i = 0; i < MOST; i++)
        gg_turn_end(held[i]);
    pthread_join(waiters[0].thread, NULL);
    gg_turn_end(waiters[0].queue);

    gg_turn_end(gg_turn_begin(0, 0)); /* no size has no queue */
    gg_turn_end(gg_turn_begin(15, 1e300));
    return test_failures != 0;
}

/* t_threads.c — 16 threads at once, every spelling and size mixed; threads on adjacent row blocks of one C; long operands; many short-lived threads
 * with small stacks. All results are exact, and the statistics neither lose a call nor count one twice. */
#include "exact.h"

#include <pthread.h>

enum { THREADS = 16, CALLS = 120, SHORT_LIVED = 400, BLOCK = 37 };

static const struct spelling *usable[SPELLINGS];
static int usable_count;
static double shared_c[BLOCK * THREADS * 101];
static atomic_ulong calls;

static void *mixed(void *argument)
{
    uint64_t seed = (uint64_t)(uintptr_t)argument, r = seed;
    for (int i = 0; i < CALLS; i++) {
        const struct spelling *s = usable[rng_below(&r, usable_count)];
        int64_t n = rng_below(&r, 12) == 0 ? 200 + rng_below(&r, 100) : 1 + rng_below(&r, 70);
        int64_t wrong = exact_square(s, n, seed + (uint64_t)i);
        CHECK(!wrong, "thread %d: %s, n = %lld: %lld wrong", (int)seed, s->name, (long long)n, (long long)wrong);
        atomic_fetch_add(&calls, 1);
    }
    return NULL;
}

/* Each thread owns BLOCK rows of every column: a thread that writes back more than its own rows destroys another's. */
static void *row_block(void *argument)
{
    int64_t block = (int64_t)(intptr_t)argument;
    for (int i = 0; i < 30; i++) {
        int64_t wrong = exact_gemm(spelling_named("dgemm_"), BLOCK, 101, 40, shared_c + block * BLOCK, BLOCK * THREADS, (uint64_t)(block + i));
        CHECK(!wrong, "row block %lld: %lld wrong", (long long)block, (long long)wrong);
        atomic_fetch_add(&calls, 1);
    }
    return NULL;
}

/* Calls on operands so long that callers who are few share the copy threads, and many do without (src/short.c). */
static void *long_operands(void *argument)
{
    double *const c = malloc(500 * 12 * sizeof *c);
    for (int i = 0; i < 8; i++) {
        int64_t wrong = exact_gemm(spelling_named("dgemm_"), 500, 12, 500, c, 500, (uint64_t)(uintptr_t)argument + (uint64_t)i);
        CHECK(!wrong, "500 x 12 x 500 beside others: %lld wrong", (long long)wrong);
        atomic_fetch_add(&calls, 1);
    }
    free(c);
    return NULL;
}

static void *one_call(void *argument)
{
    CHECK(!exact_square(usable[(uintptr_t)argument % (uintptr_t)usable_count], 9, (uint64_t)(uintptr_t)argument), "a short-lived thread is wrong");
    atomic_fetch_add(&calls, 1);
    return NULL;
}

static void in_parallel(void *(*work)(void *), int count, int at_once)
{
    pthread_t thread[THREADS];
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 64 << 10);
    for (int first = 0; first < count; first += at_once) {
        for (int i = 0; i < at_once; i++)
            if (pthread_create(&thread[i], &attributes, work, (void *)(intptr_t)(first + i)))
                exit((perror("pthread_create"), 1));
        for (int i = 0; i < at_once; i++)
            pthread_join(thread[i], NULL);
    }
}

static void check_statistics(unsigned long made)
{
    struct gpugemm_stats stats = {0};
    if (!read_stats)
        return;
    read_stats(&stats, sizeof stats);
    CHECK(stats.calls == made, "%llu calls counted of %lu", (unsigned long long)stats.calls, made);
    CHECK(stats.calls == stats.cpu + stats.device + stats.staged, "calls != cpu + device + staged");
}

int main(int argc, char **argv)
{
    bool expect_gpu = open_by_arguments(argc, argv);
    for (int i = 0; i < SPELLINGS; i++)
        if (spellings[i].address)
            usable[usable_count++] = &spellings[i];
    in_parallel(mixed, THREADS, THREADS); /* the first calls of the process come from 16 threads at once */
    in_parallel(row_block, THREADS, THREADS);
    in_parallel(long_operands, 3, 3);
    in_parallel(long_operands, THREADS, THREADS);
    in_parallel(one_call, SHORT_LIVED, 8);
    CHECK(!expect_gpu || gpu_calls() > 0, "no call was served by the GPU");
    check_statistics(calls);
    if (reset_stats) {
        reset_stats();
        in_parallel(one_call, 160, 8);
        check_statistics(160);
    }
    printf("%lu calls, %llu on the GPU: %d failures\n", (unsigned long)calls, (unsigned long long)gpu_calls(), test_failures);
    return test_failures != 0;
}

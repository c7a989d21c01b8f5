/* t_fork.c — gemm in forked children: forked before the first call, forked by a parent that has used the GPU, and a child of that child. All results
 * are right; a child of a parent that uses the GPU is served by the CPU; the parent goes on as before. A fork whose handler waits for a thread that
 * is about to call gemm. A hang is ended by alarm. */
#include "exact.h"
#include "huge.h"

#include <pthread.h>
#include <sys/wait.h>

static const struct spelling *s, *d;

/* Kilobytes of what the library's page-locked memory is mapped like. */
static long own_memory(void) { return mapped_with(NULL, " hg", " dc"); }

static void both(const char *who)
{
    int64_t wrong = exact_square(s, 150, 1) + exact_square(d, 150, 2) + exact_square(d, 3, 3);
    CHECK(!wrong, "%s: %lld wrong", who, (long long)wrong);
}

/* Runs `work` in a child, which leaves by exit(), so that its exit handlers run too. */
static void in_child(const char *who, void (*work)(const char *))
{
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        work(who);
        exit(test_failures != 0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    CHECK(status == 0, "%s: wait status %d", who, status);
}

static void declining(const char *who)
{
    uint64_t before = gpu_calls();
    both(who);
    CHECK(gpu_calls() == before, "%s: its parent's GPU was used", who);
    CHECK(own_memory() == 0, "%s: it has got its parent's page-locked memory", who);
}

static void declining_twice(const char *who)
{
    declining(who);
    in_child("child of a child", declining);
    declining(who);
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* a program's own, which its forks take */
static atomic_bool locked;

static void take(void) { pthread_mutex_lock(&lock); }
static void give(void) { pthread_mutex_unlock(&lock); }

static void *calls_with_lock(void *unused)
{
    take();
    locked = true;
    usleep(300000); /* the fork waits for the lock meanwhile, in a handler that runs after the library's own */
    both("a thread with a lock that a fork waits for");
    give();
    return unused;
}

static void waits_for_caller(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, calls_with_lock, NULL);
    while (!locked)
        usleep(1000);
    in_child("forked after waiting for a caller", both);
    pthread_join(thread, NULL);
}

int main(int argc, char **argv)
{
    pthread_atfork(take, give, give); /* before the library's, which are made at its first call */
    bool expect_gpu = open_by_arguments(argc, argv);
    s = spelling_named("sgemm_"), d = spelling_named("cblas_dgemm");
    alarm(240);
    in_child("forked before the first call", both);
    CHECK(gpu_calls() == 0, "calls are counted in the wrong process");
    both("parent");
    bool gpu = gpu_calls() > 0;
    CHECK(gpu || !expect_gpu, "no call was served by the GPU");
    const long own = own_memory();
    CHECK(!gpu || !*huge_pages() || own > 0, "no page-locked memory of huge pages");
    in_child("forked after the first call", gpu ? declining_twice : both);
    uint64_t before = gpu_calls();
    both("parent after its child");
    CHECK(!gpu || gpu_calls() > before, "the parent lost its GPU");
    waits_for_caller();
    release_memory();
    const long kept = own_memory(); /* the driver's, if any */
    CHECK(own == 0 || kept < own, "%ld KB of page-locked memory before a release, %ld after it", own, kept);
    both("parent after a release");
    release_memory();
    CHECK(own_memory() == kept, "%ld KB of page-locked memory after a release, %ld after the next", kept, own_memory());
    printf("%llu calls on the GPU: %d failures\n", (unsigned long long)gpu_calls(), test_failures);
    return test_failures != 0;
}

/* t_fork.c — gemm in forked children: forked before the first call, forked by a parent that has used the GPU, and a child of that child. All results
 * are right; a child of a parent that uses the GPU is served by the CPU; the parent goes on as before. A hang is ended by alarm. */
#include "exact.h"

#include <sys/wait.h>

static const struct spelling *s, *d;

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
}

static void declining_twice(const char *who)
{
    declining(who);
    in_child("child of a child", declining);
    declining(who);
}

int main(int argc, char **argv)
{
    bool expect_gpu = open_by_arguments(argc, argv);
    s = spelling_named("sgemm_"), d = spelling_named("cblas_dgemm");
    alarm(240);
    in_child("forked before the first call", both);
    CHECK(gpu_calls() == 0, "calls are counted in the wrong process");
    both("parent");
    bool gpu = gpu_calls() > 0;
    CHECK(gpu || !expect_gpu, "no call was served by the GPU");
    in_child("forked after the first call", gpu ? declining_twice : both);
    uint64_t before = gpu_calls();
    both("parent after its child");
    CHECK(!gpu || gpu_calls() > before, "the parent lost its GPU");
    printf("%llu calls on the GPU: %d failures\n", (unsigned long long)gpu_calls(), test_failures);
    return test_failures != 0;
}

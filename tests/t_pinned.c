/* t_pinned.c — the first call comes from a thread that is pinned to one processor: it stays there, and the threads that the library starts may use
 * all. OMP_PROC_BIND, which pins even a program's first thread, is t_preload.sh's. */
#include "exact.h"

#include <dirent.h>
#include <pthread.h>
#include <sched.h>

static void *call_pinned(void *spelling)
{
    cpu_set_t one, after;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    sched_setaffinity(0, sizeof one, &one);
    const int64_t wrong = exact_square(spelling, 600, 1);
    CHECK(!wrong, "%lld wrong", (long long)wrong);
    sched_getaffinity(0, sizeof after, &after);
    CHECK(CPU_EQUAL(&after, &one), "a pinned thread was moved");
    return NULL;
}

int main(int argc, char **argv)
{
    const bool expect_gpu = open_by_arguments(argc, argv);
    pthread_t thread;
    cpu_set_t all, theirs;
    int tasks = 0;
    alarm(100);
    sched_getaffinity(0, sizeof all, &all);
    pthread_create(&thread, NULL, call_pinned, (void *)spelling_named("cblas_dgemm"));
    pthread_join(thread, NULL);
    CHECK(gpu_calls() > 0 || !expect_gpu, "no call was served by the GPU");
    DIR *folder = opendir("/proc/self/task");
    for (struct dirent *task; folder && (task = readdir(folder));) {
        tasks += atoi(task->d_name) != 0;
        CHECK(!atoi(task->d_name) || sched_getaffinity(atoi(task->d_name), sizeof theirs, &theirs) || CPU_EQUAL(&theirs, &all),
              "thread %s is pinned, too", task->d_name);
    }
    if (folder)
        closedir(folder);
    CHECK(tasks > 1 || !expect_gpu, "the library has started no thread");
    printf("%d threads: %d failures\n", tasks, test_failures);
    return test_failures != 0;
}

/* cpus.c — owns the answer to "which processors may the process use?". A thread that is started inherits the processors of the one that starts it,
 * which is whoever makes the first call. Programs pin their threads: with OMP_PROC_BIND even the first one is left one processor, before main begins.
 * Our threads, and those of a BLAS that we open, would all share it for ever. Called by gpu.c, copy.c, rates.c and real.c. */
#include "cpus.h"

#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include "real.h"

static struct {
    pthread_once_t once;
    cpu_set_t all;
    int count;
    bool known;
} g = {.once = PTHREAD_ONCE_INIT};

/* Adds the processors to which the OpenMP runtime whose functions are found here pins threads. */
static void add_places(void *object)
{
    int (*places)(void), (*count)(int), numbers[CPU_SETSIZE];
    void (*list)(int, int *);
    *(void **)&places = dlsym(object, "omp_get_num_places");
    *(void **)&count = dlsym(object, "omp_get_place_num_procs");
    *(void **)&list = dlsym(object, "omp_get_place_proc_ids");
    for (int place = 0; places && count && list && place < places(); place++) {
        const int n = count(place);
        if (n > CPU_SETSIZE)
            continue;
        list(place, numbers);
        for (int i = 0; i < n; i++)
            if (numbers[i] >= 0 && numbers[i] < CPU_SETSIZE)
                CPU_SET(numbers[i], &g.all);
    }
}

/* The first thread's, unless OpenMP has pinned that. It fails beyond 1024. */
static void find(void)
{
    const int online = (int)sysconf(_SC_NPROCESSORS_ONLN);
    g.known = sched_getaffinity(getpid(), sizeof g.all, &g.all) == 0;
    void *object;
    gg_loader_enter();
    for (int i = 0; g.known && CPU_COUNT(&g.all) < online && !gg_loader_forked() && gg_loaded_object(i, &object); i++)
        if (object) {
            add_places(object);
            dlclose(object);
        }
    gg_loader_leave();
    g.count = g.known ? CPU_COUNT(&g.all) : online;
}

int gg_cpus_count(void)
{
    pthread_once(&g.once, find);
    return g.count;
}

bool gg_cpus_spread(cpu_set_t *before)
{
    gg_cpus_count();
    return g.known && sched_getaffinity(0, sizeof *before, before) == 0 && !CPU_EQUAL(before, &g.all) &&
           sched_setaffinity(0, sizeof g.all, &g.all) == 0;
}

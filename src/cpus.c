/* cpus.c — owns the answer to "which processors may the process use?". A thread that is started inherits the processors of the one that starts it,
 * which is whoever makes the first call. Programs pin their threads: with OMP_PROC_BIND even the first one is left one processor, before main begins.
 * Our threads, and those of a BLAS that we open, would all share it for ever. Called by gpu.c, copy.c, short.c, rates.c and real.c. */
#include "cpus.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "real.h"

enum { UNKNOWN, SOUGHT, FOUND };

static struct {
    _Atomic int state;
    cpu_set_t all;
    bool known;
} g;

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

/* The first thread's. False beyond 1024. */
static bool first_threads(cpu_set_t *cpus) { return sched_getaffinity(getpid(), sizeof *cpus, cpus) == 0; }

/* May OpenMP have pinned the first thread? Where nobody asked it to, its runtime is not asked either: one that has not been used yet would start. */
static bool openmp_pins(void)
{
    static const char *const names[] = {"OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (secure_getenv(names[i]))
            return CPU_COUNT(&g.all) < sysconf(_SC_NPROCESSORS_ONLN);
    return false;
}

static void find(void)
{
    void *object;
    g.known = first_threads(&g.all);
    if (!g.known || !openmp_pins())
        return;
    gg_loader_enter();
    for (int i = 0; !gg_loader_forked() && gg_loaded_object(i, &object); i++)
        if (object) {
            add_places(object);
            dlclose(object);
        }
    gg_loader_leave();
}

/* False while another thread is still looking, which must not be waited for long: it waits for the loader's lock, and a library's constructor, which
 * has that, may have called us. (Without waiting, of threads that OpenMP has pinned and whose calls are a program's first, all but one saw a single
 * processor.) */
static bool are_found(void)
{
    int state = UNKNOWN, patience = 200;
    if (atomic_compare_exchange_strong(&g.state, &state, SOUGHT)) {
        find();
        atomic_store(&g.state, state = FOUND);
    }
    for (; state == SOUGHT && patience > 0; patience--, state = atomic_load(&g.state))
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    return state == FOUND;
}

int gg_cpus_count(void)
{
    cpu_set_t first;
    const bool found = are_found(), known = found ? g.known : first_threads(&first);
    return known ? CPU_COUNT(found ? &g.all : &first) : (int)sysconf(_SC_NPROCESSORS_ONLN);
}

bool gg_cpus_spread(cpu_set_t *before)
{
    return are_found() && g.known && sched_getaffinity(0, sizeof *before, before) == 0 && !CPU_EQUAL(before, &g.all) &&
           sched_setaffinity(0, sizeof g.all, &g.all) == 0;
}

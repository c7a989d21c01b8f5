/* cpus.h — the processors that the process may use, which may be more than the calling thread's. */
#ifndef GG_CPUS_H
#define GG_CPUS_H

#include <sched.h>
#include <stdbool.h>

/* How many there are. The first call, of this or the next, asks the dynamic loader: no lock of ours may be held, nor a pthread_once be under way. */
int gg_cpus_count(void);

/* True: until sched_setaffinity(0, sizeof *before, before) the calling thread may use all of them, and so may threads that are started meanwhile for
 * ever. False: nothing has changed. */
bool gg_cpus_spread(cpu_set_t *before);

#endif

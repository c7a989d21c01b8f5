/* faults.h — what the failing libcuda.so.1 (fail_cuda.c) and the failing C library (fail_libc.c) share with the tests that steer them: a plan in the
 * exported `struct faults`, which the test finds by dlsym. Only calls made while it is armed are counted and can fail. */
#ifndef FAULTS_H
#define FAULTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { FAULT_FUNCTIONS = 96, FAULT_KINDS = 8 };

/* Which calls fail: the nth of the function; the nth and all later ones of the function; the nth of it and then every call of every function. */
enum fault_mode { FAULT_ONCE, FAULT_FUNCTION, FAULT_ALL };

struct faults {
    const char *names[FAULT_FUNCTIONS];
    int functions;
    const char *kinds[FAULT_KINDS]; /* what live[] counts */
    /* the plan */
    _Atomic bool armed;
    _Atomic int function; /* -1: no planned failure */
    _Atomic unsigned long nth;
    _Atomic int error; /* the return value, or the errno that is set */
    _Atomic enum fault_mode mode;
    _Atomic bool patient; /* fail_cuda: of cuEventQuery only those calls count that find the event done, not the thousands before */
    _Atomic unsigned rate; /* of a million calls, drawn at random, that fail with one of random_errors */
    int random_errors[8];
    int random_error_count;
    uintptr_t callers_lo, callers_hi; /* fail_libc: calls from this range only */
    /* the record */
    _Atomic unsigned long calls[FAULT_FUNCTIONS];
    _Atomic unsigned long struck;
    _Atomic long live[FAULT_KINDS]; /* objects created and not yet destroyed, armed or not */
    _Atomic long gpu_bytes;         /* GPU memory allocated and not yet freed by this process alone, unlike what the driver reports as free */
    _Atomic uint64_t draws;
};

/* The index of a function in names and calls; there must be one. */
static inline int fault_function(const struct faults *f, const char *name)
{
    for (int i = 0; i < f->functions; i++)
        if (!strcmp(f->names[i], name))
            return i;
    abort();
}

/* The error that this call is to return instead of doing its work; 0: proceed. `spared` calls fail only when the plan names them. */
static inline int fault_next(struct faults *f, int function, bool spared)
{
    if (!atomic_load_explicit(&f->armed, memory_order_acquire))
        return 0;
    unsigned long n = atomic_fetch_add(&f->calls[function], 1) + 1;
    bool mine = function == f->function;
    bool now = mine && n == f->nth, later = atomic_load(&f->struck) && ((mine && f->mode == FAULT_FUNCTION) || (f->mode == FAULT_ALL && !spared));
    if (now || (f->function >= 0 && later)) {
        atomic_fetch_add(&f->struck, 1);
        return f->error;
    }
    unsigned rate = atomic_load_explicit(&f->rate, memory_order_relaxed);
    if (!rate || spared)
        return 0;
    uint64_t z = atomic_fetch_add(&f->draws, 0x9e3779b97f4a7c15u); /* splitmix64 */
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    if (z % 1000000 >= rate)
        return 0;
    atomic_fetch_add(&f->struck, 1);
    return f->random_errors[(z >> 32) % (unsigned)f->random_error_count];
}

#endif

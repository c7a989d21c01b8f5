/* fail_libc.c — preloaded: those functions of the C library that can fail, failing where the plan in `fail_libc` (faults.h) says so. Only calls from
 * the range of addresses that the plan names are counted and fail: those of the library under test, not those of the test, the CPU BLAS or the
 * driver. */
#undef _FORTIFY_SOURCE /* the fortified functions are inline in the headers and cannot be redefined */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "faults.h"

#define FUNCTIONS(X)                                                                                                   \
    X(malloc) X(calloc) X(realloc) X(pthread_create) X(open) X(write) X(pwrite) X(read) X(mmap) X(ftruncate) X(posix_fallocate) X(unlink)          \
    X(rename) X(mkdir) X(mkostemp) X(fdopen) X(fopen) X(fclose) X(fflush) X(fstat)                                                                                \
    X(lstat) X(fcntl) X(open_memstream) X(pthread_attr_init) X(sched_getaffinity) X(dlopen)
enum {
#define X(name) ID_##name,
    FUNCTIONS(X)
#undef X
    COUNT
};

__attribute__((visibility("default"))) struct faults fail_libc = {.functions = COUNT,
                                                                  .function = -1,
#define X(name) .names[ID_##name] = #name,
                                                                  FUNCTIONS(X)
#undef X
};

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);

static int fault(int function, const void *caller)
{
    uintptr_t at = (uintptr_t)caller;
    return at >= fail_libc.callers_lo && at < fail_libc.callers_hi ? fault_next(&fail_libc, function, false) : 0;
}

/* Returns from the function with `failure` when the plan says so. */
#define FAIL(name, failure)                                                                                            \
    do {                                                                                                               \
        int error = fault(ID_##name, __builtin_return_address(0));                                                     \
        if (error) {                                                                                                   \
            errno = error;                                                                                             \
            return failure;                                                                                            \
        }                                                                                                              \
    } while (0)

#define EXPORT __attribute__((visibility("default")))
#define REAL(name) ((__typeof__(&name))next(ID_##name))

static void *next(int id)
{
    static _Atomic(void *) known[COUNT];
    void *address = atomic_load_explicit(&known[id], memory_order_relaxed);
    if (!address)
        atomic_store(&known[id], address = dlsym(RTLD_NEXT, fail_libc.names[id]));
    return address;
}

EXPORT void *malloc(size_t bytes)
{
    FAIL(malloc, NULL);
    return __libc_malloc(bytes);
}

EXPORT void *calloc(size_t count, size_t bytes)
{
    FAIL(calloc, NULL);
    return __libc_calloc(count, bytes);
}

EXPORT void *realloc(void *old, size_t bytes)
{
    FAIL(realloc, NULL);
    return __libc_realloc(old, bytes);
}

EXPORT int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *), void *argument)
{
    FAIL(pthread_create, error);
    return REAL(pthread_create)(thread, attributes, body, argument);
}

EXPORT int pthread_attr_init(pthread_attr_t *attributes)
{
    FAIL(pthread_attr_init, error);
    return REAL(pthread_attr_init)(attributes);
}

EXPORT int open(const char *name, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0;
    va_end(args);
    FAIL(open, -1);
    return REAL(open)(name, flags, mode);
}

EXPORT int fcntl(int fd, int command, ...)
{
    va_list args;
    va_start(args, command);
    void *argument = va_arg(args, void *);
    va_end(args);
    FAIL(fcntl, -1);
    return REAL(fcntl)(fd, command, argument);
}

#define WRAP(type, name, failure, parameters, ...)                                                                     \
    EXPORT type name parameters                                                                                        \
    {                                                                                                                  \
        FAIL(name, failure);                                                                                           \
        return REAL(name)(__VA_ARGS__);                                                                                \
    }
WRAP(ssize_t, write, -1, (int fd, const void *data, size_t bytes), fd, data, bytes)
WRAP(ssize_t, pwrite, -1, (int fd, const void *data, size_t bytes, off_t offset), fd, data, bytes, offset)
WRAP(ssize_t, read, -1, (int fd, void *data, size_t bytes), fd, data, bytes)
WRAP(void *, mmap, MAP_FAILED, (void *address, size_t bytes, int protection, int flags, int fd, off_t offset), address, bytes, protection, flags,
     fd, offset)
WRAP(int, ftruncate, -1, (int fd, off_t bytes), fd, bytes)
WRAP(int, posix_fallocate, error, (int fd, off_t offset, off_t bytes), fd, offset, bytes)
WRAP(int, unlink, -1, (const char *name), name)
WRAP(int, rename, -1, (const char *from, const char *to), from, to)
WRAP(int, mkdir, -1, (const char *name, mode_t mode), name, mode)
WRAP(int, mkostemp, -1, (char *name, int flags), name, flags)
WRAP(FILE *, fdopen, NULL, (int fd, const char *mode), fd, mode)
WRAP(FILE *, fopen, NULL, (const char *name, const char *mode), name, mode)
WRAP(int, fclose, EOF, (FILE * file), file)
WRAP(int, fflush, EOF, (FILE * file), file)
WRAP(int, fstat, -1, (int fd, struct stat *status), fd, status)
WRAP(int, lstat, -1, (const char *name, struct stat *status), name, status)
WRAP(FILE *, open_memstream, NULL, (char **text, size_t *bytes), text, bytes)
WRAP(int, sched_getaffinity, -1, (pid_t pid, size_t bytes, cpu_set_t *cpus), pid, bytes, cpus)

/* Must be a tail call, because dlopen looks at its caller. Where the plan says so it fails without an error for dlerror. */
EXPORT void *dlopen(const char *name, int flags)
{
    FAIL(dlopen, NULL);
    return REAL(dlopen)(name, flags);
}

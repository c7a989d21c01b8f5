/* real.c — owns the search for the BLAS the program already has, and the mark "this thread is inside the CPU BLAS". It never finds this library or
 * another copy of it. Called by entry.c, cpu.c, forward.c, gpu.c and info.c.
 *
 * The order: GPUGEMM_BLAS; what follows us in the search order; the caller's own scope (Python loads its BLAS RTLD_LOCAL, and RTLD_NEXT is NULL);
 * the scope of the object that brought the caller in (which may be linked with a BLAS for it);
 * whatever is loaded (a call that SciPy's cython_blas ends with a jump seems to come from an object that has no BLAS); OpenBLAS and its kin by
 * soname. A second BLAS is the last resort: threadpoolctl, if it has looked before that BLAS came, does not limit its threads, and the 16 threads of
 * a k-means, each with 16 of them, took 3.6 times as long (H200 machine, 2026-11). A BLAS we load ourselves is RTLD_LOCAL but not RTLD_DEEPBIND: a
 * program's own xerbla_ must win over the library's. */
#include "real.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "config.h"
#include "cpus.h"
#include "fp.h"
#include "trace.h"

/* Libraries to try: the one the user names, then one of these in order of preference. ILP64 spellings are looked for in the libraries that have
 * them. */
static const char *const sonames[] = {
    NULL, /* GPUGEMM_BLAS */
    "libopenblas.so.0", "libblas.so.3", "libcblas.so.3", "libflexiblas.so.3", "libblis.so.4", "libblis.so.3", "libmkl_rt.so.3", "libmkl_rt.so.2",
    "libopenblas64_.so.0", "libopenblas64.so.0", "libblas64_.so.3",
};
enum { SONAMES = sizeof sonames / sizeof *sonames, FIRST_WIDE = 9 };

static struct {
    _Atomic(void *) handles[SONAMES];
    _Atomic bool tried[SONAMES];
    _Atomic(const char *) path;
    pthread_once_t forks;
    pthread_rwlock_t loader; /* read lock: held by threads inside the loader; write lock: by a thread that forks */
} g = {.forks = PTHREAD_ONCE_INIT, .loader = PTHREAD_RWLOCK_INITIALIZER};

_Thread_local int gg_real_depth;
_Thread_local uintptr_t gg_real_frame;
_Thread_local bool gg_real_asking;

/* ---- the loader and fork ----------------------------------------------------------------------------------------------------------------- */

/* If a thread is inside the loader during a fork, the child inherits locks that glibc does not release, and libraries whose constructors never end.
 * So fork waits for such threads, and they for it, but only for a while: the forking thread may hold a lock that they wait for, or wait, in another
 * library's handler, for one that they hold. */
static const int64_t fork_patience = 2000000000, loader_patience = 200000000; /* ns */
static _Thread_local bool forking; /* this thread holds g.loader's write lock */
static _Atomic bool forked;        /* this is a child: the program's own threads may have been inside the loader, whose lock of the list of
                                    * objects then stays taken for ever. dl_iterate_phdr waits for it, dladdr does not */
static _Thread_local int cancel;   /* its cancellation state before it entered */
static _Thread_local int entered;  /* how often this thread has entered; not 0 at a fork: a library's constructor forks */
static _Thread_local bool holding; /* it got the read lock when it entered first */

static struct timespec after(int64_t ns)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += (t.tv_nsec + ns) / 1000000000, t.tv_nsec = (t.tv_nsec + ns) % 1000000000;
    return t;
}

static void before_fork(void)
{
    const struct timespec until = after(fork_patience);
    forking = !entered && pthread_rwlock_clockwrlock(&g.loader, CLOCK_MONOTONIC, &until) == 0;
}

static void after_fork(void)
{
    if (forking)
        pthread_rwlock_unlock(&g.loader);
    forking = false;
}

/* In the child, the threads that shared the lock do not exist. ThreadSanitizer does not know that. */
__attribute__((no_sanitize("thread"))) static void in_child(void)
{
    g.loader = (pthread_rwlock_t)PTHREAD_RWLOCK_INITIALIZER;
    if (entered && holding) /* this thread will leave */
        pthread_rwlock_rdlock(&g.loader);
    forking = false;
    atomic_store(&forked, true);
}

static void watch_forks(void)
{
    pthread_atfork(before_fork, after_fork, in_child);
}

void gg_loader_enter(void)
{
    pthread_once(&g.forks, watch_forks);
    if (forking)
        return;
    if (entered++ > 0)
        return;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel); /* a thread cancelled in here would never leave, and forks would wait for it */
    const struct timespec until = after(loader_patience);
    holding = pthread_rwlock_clockrdlock(&g.loader, CLOCK_MONOTONIC, &until) == 0;
}

void gg_loader_leave(void)
{
    if (forking)
        return;
    if (--entered > 0)
        return;
    if (holding)
        pthread_rwlock_unlock(&g.loader);
    pthread_setcancelstate(cancel, NULL);
}

bool gg_loader_forked(void) { return atomic_load(&forked); }

/* ---- finding ------------------------------------------------------------------------------------------------------------------------- */

static int find_owner(struct dl_phdr_info *object, size_t size, void *data)
{
    (void)size;
    Dl_info *info = data;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &object->dlpi_phdr[i];
        if (segment->p_type == PT_LOAD && (uintptr_t)info->dli_saddr - (object->dlpi_addr + segment->p_vaddr) < segment->p_memsz) {
            info->dli_fname = object->dlpi_name;
            info->dli_fbase = (void *)object->dlpi_addr;
            return 1;
        }
    }
    return 0;
}

/* Which object contains this address, and where does the object begin? dladdr also looks for the nearest symbol, among all 15 000 of an OpenBLAS: 60
 * µs a question, and a first call asks four times. The main program has no name here and other namespaces are not visited: for those dladdr is
 * asked. */
static bool object_of(const void *address, Dl_info *info)
{
    *info = (Dl_info){.dli_saddr = (void *)address};
    return (!gg_loader_forked() && dl_iterate_phdr(find_owner, info) && *info->dli_fname) || dladdr(address, info);
}

/* Does FlexiBLAS's `name` lead to this library? A product of nothing is sent through it to find out. While FlexiBLAS starts it leads nowhere yet, and
 * whoever is called then is the library it was told to use. Its xerbla_ leads to any other that comes first in the search order, as ours does. */
static bool leads_here(const char *name, void *flexiblas, ssize_t (*backends)(char *, size_t, ssize_t))
{
    static const int64_t none = 0, one = 1;
    static const double zero = 0;
    gg_f77_gemm *gemm = (gg_f77_gemm *)dlsym(flexiblas, "dgemm_");
    if (!gemm || strncmp(name, "xerbla", 6) == 0 || backends(NULL, 0, 0) == 0)
        return true;
    if (gg_real_asking) /* the product has come to another BLAS, which needs a lsame_ */
        return false;
    gg_real_asking = true;
    gg_real_enter(__builtin_frame_address(0)); /* so that the call does not take the short way */
    gemm("N", "N", &none, &none, &none, &zero, NULL, &one, NULL, &one, &zero, NULL, &one, 1, 1);
    gg_real_leave();
    const bool arrived = !gg_real_asking;
    gg_real_asking = false;
    return arrived;
}

/* The address of `name` in the object itself, not in what it depends on. */
static void *own_symbol(void *object, const void *base, const char *name)
{
    void *address = dlsym(object, name);
    Dl_info info;
    return address && object_of(address, &info) && info.dli_fbase == base ? address : NULL;
}

/* Is this address in this library, in another copy of it (installed as libblas.so.3, say), or in a library whose names lead to whichever library it
 * was told to use? Julia's libblastrampoline may be told to use this one at any time, so it never counts as a BLAS; FlexiBLAS, the BLAS of Fedora,
 * does unless it leads here. */
static bool is_ours(const char *name, const void *address)
{
    Dl_info self, info;
    if (!object_of((const void *)gg_real_find, &self) || !object_of(address, &info))
        return false;
    if (info.dli_fbase == self.dli_fbase)
        return true;
    void *object = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    if (!object)
        return false;
    void *backends = own_symbol(object, info.dli_fbase, "flexiblas_list_loaded");
    const bool ours = own_symbol(object, info.dli_fbase, "gpugemm_version") || own_symbol(object, info.dli_fbase, "lbt_forward") ||
                      (backends && leads_here(name, object, (ssize_t(*)(char *, size_t, ssize_t))backends));
    dlclose(object);
    return ours;
}

/* The first of these names that the object which contains this address defines itself, NULL if none. False: it cannot be asked (the main program). */
static bool ask(const void *address, const char *const *names, size_t count, void **found)
{
    Dl_info info;
    void *object = object_of(address, &info) ? dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    *found = NULL;
    for (size_t i = 0; object && !*found && i < count; i++)
        *found = own_symbol(object, info.dli_fbase, names[i]);
    if (object)
        dlclose(object);
    return object;
}

static void *beside(const void *address, const char *name)
{
    void *found;
    ask(address, &name, 1, &found);
    return found;
}

bool gg_real_is_gpugemm(const void *address) { return beside(address, "gpugemm_version"); }

/* Does this address belong to a wrapper (a profiler, say) that comes before us in the search order and calls us as the next one? It is what the
 * program calls, and lacks the error handler of a whole BLAS. */
static bool is_wrapper(const char *name, const void *address)
{
    static const char *const handlers[] = {"xerbla_", "xerbla_64_", "cblas_xerbla", "scipy_xerbla_", "scipy_xerbla_64_"};
    void *handler;
    return strncmp(name, "xerbla", 6) != 0 && dlsym(RTLD_DEFAULT, name) == address &&
           ask(address, handlers, sizeof handlers / sizeof *handlers, &handler) && !handler;
}

/* Returns the address of `name`, unless it is ours, or its integers may not be wider than the name says and are. Callers may remember what they have
 * used once, so its object is never unloaded. */
static void *accept(const char *name, void *address, bool wide)
{
    Dl_info info;
    if (!address || is_ours(name, address) || is_wrapper(name, address) || (!wide && gg_real_is_ilp64(address)))
        return NULL;
    if (object_of(address, &info) && dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE) && !atomic_load(&g.path))
        atomic_store(&g.path, info.dli_fname);
    return address;
}

/* The library of row i, loaded when it is first asked for. */
static void *library(int i)
{
    if (!atomic_load(&g.tried[i])) {
        const char *file = i ? sonames[i] : gg_config()->blas;
        cpu_set_t before;
        const struct gg_fp fp = gg_fp_ours();
        const bool spread = file && gg_cpus_spread(&before); /* a BLAS starts its threads now: not with our caller's processors and traps */
        void *handle = file ? dlopen(file, RTLD_LAZY | RTLD_LOCAL) : NULL; /* two threads get the same handle */
        if (spread)
            sched_setaffinity(0, sizeof before, &before);
        gg_fp_write(fp);
        if (i == 0 && file && !handle)
            gg_warn("GPUGEMM_BLAS=%s cannot be loaded (%s); searching instead", file, dlerror());
        atomic_store(&g.handles[i], handle);
        atomic_store(&g.tried[i], true);
    }
    return atomic_load(&g.handles[i]);
}

static void *in_library(int i, const char *name)
{
    void *handle = library(i);
    return handle ? accept(name, dlsym(handle, name), true) : NULL;
}

void *gg_real_near(const char *name, const void *caller)
{
    gg_loader_enter();
    void *found = accept(name, dlsym(RTLD_NEXT, name), true);
    Dl_info info;
    if (!found && caller && object_of(caller, &info)) {
        void *object = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
        if (object) {
            found = accept(name, dlsym(object, name), true);
            dlclose(object);
        }
    }
    gg_loader_leave();
    return found;
}

struct nth_object {
    int left;
    char path[PATH_MAX];
};

static int find_nth_object(struct dl_phdr_info *object, size_t size, void *data)
{
    (void)size;
    struct nth_object *nth = data;
    if (nth->left-- > 0)
        return 0;
    snprintf(nth->path, sizeof nth->path, "%s", object->dlpi_name);
    return 1;
}

bool gg_loaded_object(int i, void **handle)
{
    struct nth_object object = {.left = i}; /* one object per walk: a visitor of the list must not call the loader */
    if (!dl_iterate_phdr(find_nth_object, &object))
        return false;
    *handle = *object.path ? dlopen(object.path, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    return true;
}

/* The first loaded object that has the caller among its dependencies: its name is found there at the same address. */
void *gg_real_imported(const char *name, const void *caller)
{
    Dl_info calling;
    void *found = NULL, *scope;
    if (!dladdr(caller, &calling) || !calling.dli_sname)
        return NULL;
    gg_loader_enter();
    for (int i = 0; !found && gg_loaded_object(i, &scope); i++) {
        if (!scope)
            continue;
        if (dlsym(scope, calling.dli_sname) == calling.dli_saddr)
            found = accept(name, dlsym(scope, name), true);
        dlclose(scope);
    }
    gg_loader_leave();
    return found;
}

/* Searches everything that is loaded. A library with 64-bit integers is not what a plain name means. */
static void *in_loaded(const char *name, bool wide)
{
    void *found = NULL, *object;
    for (int i = 0; !found && gg_loaded_object(i, &object); i++) {
        if (!object)
            continue;
        found = accept(name, dlsym(object, name), wide);
        dlclose(object);
    }
    return found;
}

void *gg_real_find(const char *name, const void *caller)
{
    int saved = errno;
    gg_loader_enter();
    void *found = in_library(0, name);
    bool wide = strstr(name, "64_") || strstr(name, "_64");
    if (!found)
        found = gg_real_near(name, caller);
    if (!found)
        found = gg_real_imported(name, caller);
    if (!found)
        found = in_loaded(name, wide);
    for (int i = wide ? FIRST_WIDE : 1; !found && i < (wide ? SONAMES : FIRST_WIDE); i++) {
        found = in_library(i, name);
        if (!wide && in_library(i, "dgemm_") && in_library(i, "cblas_dgemm"))
            break; /* a whole BLAS: what it lacks the next one would hardly have, and a second BLAS brings a second set of threads */
    }
    gg_loader_leave();
    errno = saved;
    return found;
}

bool gg_real_in_blas(const void *routine)
{
    gg_loader_enter();
    const bool in_blas = beside(routine, "dgemm_");
    gg_loader_leave();
    return in_blas;
}

/* OpenBLAS is known by openblas_get_corename. That may be in another object: Debian's libblas.so.3 has all of BLAS, the rest in libopenblas.so.0. */
struct gg_openblas gg_real_find_openblas(const void *gemm, enum gg_type type)
{
    static const struct {
        const char *core, *threads, *gemv[2];
        bool wide;
    } kinds[] = {{"openblas_get_corename", "openblas_get_num_threads", {"sgemv_", "dgemv_"}, false},
                 {"openblas_get_corename64_", "openblas_get_num_threads64_", {"sgemv_64_", "dgemv_64_"}, true},
                 {"scipy_openblas_get_corename", "scipy_openblas_get_num_threads", {"scipy_sgemv_", "scipy_dgemv_"}, false},
                 {"scipy_openblas_get_corename64_", "scipy_openblas_get_num_threads64_", {"scipy_sgemv_64_", "scipy_dgemv_64_"}, true}};
    struct gg_openblas found = {0};
    Dl_info info;
    const int saved = errno;
    gg_loader_enter();
    void *object = object_of(gemm, &info) ? dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE) : NULL;
    for (size_t i = 0; object && !found.gemv && i < sizeof kinds / sizeof *kinds; i++)
        if (dlsym(object, kinds[i].core))
            found = (struct gg_openblas){.gemv = (gg_f77_gemv *)own_symbol(object, info.dli_fbase, kinds[i].gemv[type]),
                                         .wide = kinds[i].wide || gg_real_is_ilp64(gemm),
                                         .threads = (int (*)(void))dlsym(object, kinds[i].threads),
                                         .in_parallel = (int (*)(void))dlsym(object, "omp_in_parallel")};
    if (object)
        dlclose(object);
    gg_loader_leave();
    errno = saved;
    return found;
}

/* Its dcopy_, unless that is ours, is asked to copy a number of elements that is negative, and in its low half 1. Only if it has none does the file's
 * name count. */
bool gg_real_is_ilp64(const void *routine)
{
    static const int64_t n = INT64_MIN + 1, one = 1;
    const double x = 1;
    double y = 0;
    Dl_info info;
    if (!routine || !object_of(routine, &info) || !info.dli_fname)
        return false;
    const int saved = errno;
    gg_loader_enter();
    void *copy = gg_real_is_gpugemm(routine) ? NULL : beside(routine, "dcopy_");
    if (copy)
        ((void (*)(const int64_t *, const double *, const int64_t *, double *, const int64_t *))copy)(&n, &x, &one, &y, &one);
    gg_loader_leave();
    errno = saved;
    const char *slash = strrchr(info.dli_fname, '/'), *file = slash ? slash + 1 : info.dli_fname;
    return copy ? y == 0 : strstr(file, "blas64") || strstr(file, "blis64") || strstr(file, "ilp64");
}

const char *gg_real_path(void)
{
    return atomic_load(&g.path);
}

const char *gg_real_how(void)
{
    const char *path = atomic_load(&g.path), *how = "the program's";
    gg_loader_enter();
    void *blas = path ? dlopen(path, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    for (int i = 0; blas && i < SONAMES; i++)
        if (atomic_load(&g.handles[i]) == blas) {
            how = i ? "found by its name" : "named by GPUGEMM_BLAS";
            break;
        }
    if (blas)
        dlclose(blas); /* which only counts one user less */
    gg_loader_leave();
    return how;
}

const char *gg_real_core(void)
{
    const char *path = atomic_load(&g.path);
    gg_loader_enter();
    void *blas = path ? dlopen(path, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    void *core = blas ? dlsym(blas, "openblas_get_corename") : NULL;
    if (blas)
        dlclose(blas);
    gg_loader_leave();
    return core ? ((const char *(*)(void))core)() : NULL;
}

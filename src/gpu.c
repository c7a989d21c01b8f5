/* gpu.c — owns everything CUDA: start-up, devices, contexts, memory, streams, launches, and the knowledge that the GPU has died. It is the
 * only C file that includes a CUDA header. It uses the driver API alone, found by dlopen at first use, so that nothing is needed at
 * load. It never tears down: CUDA calls during exit fail, and the driver frees everything with the process. */
#include "gpu.h"

#include <cuda.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "../cuda/kernel.h"
#include "config.h"
#include "kernels.h"
#include "rates.h"
#include "real.h"
#include "staged.h"
#include "trace.h"

/* ---- the driver's functions ------------------------------------------------------------------------------------------------ */

static struct {
    _Atomic int state; /* enum gg_gpu_state */
    _Atomic bool have_driver; /* cu is filled */
    _Atomic bool failing;     /* somebody is writing `trouble`, and will set DEAD */
    _Atomic bool loading;     /* the starter has had the loader's lock */
    _Atomic int refused;      /* the driver's last error while STARTING */
    double started;           /* when STARTING began */
    bool from_nothing;        /* the program had not loaded the driver before */
    pthread_once_t forks;
    bool watching_forks;
    char trouble[200];
    pthread_mutex_t lock; /* devices, modules, workspaces; the state's way out of OFF and STARTING */
    pthread_cond_t changed;
    struct gg_device *devices[4 * GG_MAX_DEVICES]; /* one a context */
    int device_count;
    struct gg_device *_Atomic host_device;
    struct {
#define GG_NEEDED(name) __typeof__(name) *name;
#define GG_OPTIONAL GG_NEEDED
#include "driver.def"
#undef GG_NEEDED
#undef GG_OPTIONAL
    } cu;
} g = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .forks = PTHREAD_ONCE_INIT};

#define cu g.cu

struct workspace {
    gg_stream stream;
    void *memory;
    size_t bytes;
    int words;     /* of its first ones, given to calls; WORDS: those that are left must be cleared first */
    uint64_t used; /* when, in calls */
    bool captured; /* a graph may launch with it for ever: never freed */
};

enum { WORKSPACES = 128, WORDS = 256, MAX_KERNELS = 96 };

struct gg_device_state {
    CUcontext context;
    unsigned long long id;                      /* of the context: one that the program has reset comes back with the same handle and another id */
    CUmodule modules[MAX_KERNELS];              /* by row; rows of one image share it */
    _Atomic(CUfunction) functions[MAX_KERNELS];
    struct workspace workspaces[WORKSPACES];
    uint64_t clock;
};

static struct gg_device_state *state_of(struct gg_device *dev)
{
    return dev->private_state;
}

/* ---- errors ---------------------------------------------------------------------------------------------------------------- */

static void set_state(enum gg_gpu_state state)
{
    atomic_store_explicit(&g.state, state, memory_order_release);
}

/* Errors a call can have without the context being lost. */
static bool is_survivable(CUresult e)
{
    switch (e) {
    case CUDA_SUCCESS:
    case CUDA_ERROR_NOT_READY:
    case CUDA_ERROR_OUT_OF_MEMORY:
    case CUDA_ERROR_INVALID_VALUE:
    case CUDA_ERROR_INVALID_HANDLE:
    case CUDA_ERROR_NOT_SUPPORTED:
    case CUDA_ERROR_NOT_FOUND:
    case CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES:
    case CUDA_ERROR_PEER_ACCESS_UNSUPPORTED:
    case CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED:
    case CUDA_ERROR_STREAM_CAPTURE_INVALIDATED:
    case CUDA_ERROR_STREAM_CAPTURE_MERGE:
    case CUDA_ERROR_STREAM_CAPTURE_UNMATCHED:
    case CUDA_ERROR_STREAM_CAPTURE_UNJOINED:
    case CUDA_ERROR_STREAM_CAPTURE_ISOLATION:
    case CUDA_ERROR_STREAM_CAPTURE_IMPLICIT:
    case CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD: return true;
    default: return false;
    }
}

/* The GPU is not used again. Of several threads that meet an error at once, the first reports it. */
static void give_up(CUresult e, const char *what)
{
    if (atomic_exchange(&g.failing, true))
        return;
    const char *text = NULL;
    if (e == CUDA_ERROR_DEINITIALIZED) { /* the process is exiting, and the driver has left before us: nothing to worry anybody with */
        snprintf(g.trouble, sizeof g.trouble, "the CUDA driver has shut down");
        set_state(GG_GPU_DEAD);
        return;
    }
    cu.cuGetErrorString(e, &text);
    snprintf(g.trouble, sizeof g.trouble, "%s: %s (%d)", what, text ? text : "unknown error", (int)e);
    set_state(GG_GPU_DEAD);
    gg_warn("the GPU failed, %s; the CPU serves from here on", g.trouble);
}

/* Every result of the driver comes through here. */
static bool ok(CUresult e, const char *what)
{
    if (e != CUDA_SUCCESS && gg_gpu_state() == GG_GPU_STARTING) /* the starter sees to it */
        atomic_store(&g.refused, e);
    if (e != CUDA_SUCCESS && !is_survivable(e) && gg_gpu_state() == GG_GPU_READY)
        give_up(e, what);
    return e == CUDA_SUCCESS;
}

#define GG_CU(function, ...) ok(cu.function(__VA_ARGS__), #function)

/* ---- the driver itself --------------------------------------------------------------------------------------------------------- */

static int find_driver(struct dl_phdr_info *info, size_t size, void *found)
{
    (void)size;
    const char *slash = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;
    *(bool *)found = slash && strncmp(slash, "/libcuda.so", 11) == 0;
    return *(bool *)found;
}

/* The list of loaded objects is walked at most once a tick of the coarse clock (1–10 ms): between the driver being loaded and the first
 * device pointer lie cuInit and the creation of a context, which take longer than that. */
bool gg_gpu_loaded(void)
{
    static _Atomic bool found;
    static _Atomic long last_tick = -1;
    if (atomic_load_explicit(&found, memory_order_acquire))
        return true;
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    long tick = t.tv_sec * 1000000 + t.tv_nsec / 1000;
    if (tick == atomic_load_explicit(&last_tick, memory_order_relaxed))
        return false;
    atomic_store_explicit(&last_tick, tick, memory_order_relaxed);
    bool yes = false;
    gg_loader_enter();
    dl_iterate_phdr(find_driver, &yes);
    gg_loader_leave();
    if (yes)
        atomic_store_explicit(&found, true, memory_order_release);
    return yes;
}

/* Fills cu. Under g.lock, but `driver` comes from before: dlopen waits for the loader's lock, whose holder may be waiting for g.lock. The driver
 * believes its environment, libraries to load included: so a setuid program gets it only when it has brought it itself. */
static void *open_driver(void)
{
    if (getauxval(AT_SECURE) && !gg_gpu_loaded())
        return NULL;
    gg_loader_enter();
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    gg_loader_leave();
    return driver;
}

static bool load_driver(void *driver)
{
    if (atomic_load(&g.have_driver))
        return true;
    if (!driver && getauxval(AT_SECURE)) {
        snprintf(g.trouble, sizeof g.trouble, "a setuid program does not start the CUDA driver");
        return false;
    }
    if (!driver) {
        snprintf(g.trouble, sizeof g.trouble, "no CUDA driver (libcuda.so.1)");
        return false;
    }
    const char *missing = NULL;
#define EXPANDED(name) #name
#define NAME(name) EXPANDED(name)
#define GG_OPTIONAL(name) *(void **)&cu.name = dlsym(driver, NAME(name));
#define GG_NEEDED(name)                                                                                                \
    GG_OPTIONAL(name)                                                                                                  \
    if (!cu.name)                                                                                                      \
        missing = NAME(name);
#include "driver.def"
    if (missing) {
        snprintf(g.trouble, sizeof g.trouble, "the CUDA driver is too old (no %s)", missing);
        return false;
    }
    atomic_store(&g.have_driver, true);
    return true;
}

/* ---- devices ------------------------------------------------------------------------------------------------------------------- */

/* Clears *good when the driver does not tell. */
static int attribute(CUdevice device, CUdevice_attribute what, bool *good)
{
    int value = 0;
    *good &= GG_CU(cuDeviceGetAttribute, &value, what, device);
    return value;
}

/* The device of `context`; with NULL the primary context of `ordinal`. Under g.lock. */
static struct gg_device *open_device(int ordinal, CUcontext context)
{
    CUdevice device;
    unsigned long long id;
    if (!GG_CU(cuDeviceGet, &device, ordinal))
        return NULL;
    if (!context && !GG_CU(cuDevicePrimaryCtxRetain, &context, device))
        return NULL;
    if (!GG_CU(cuCtxGetId, context, &id))
        return NULL;
    for (int i = 0; i < g.device_count; i++)
        if (state_of(g.devices[i])->context == context && state_of(g.devices[i])->id == id)
            return g.devices[i];
    if (g.device_count == sizeof g.devices / sizeof *g.devices || gg_kernel_count > MAX_KERNELS)
        return NULL;
    struct gg_device *dev = calloc(1, sizeof *dev);
    struct gg_device_state *state = calloc(1, sizeof *state);
    if (!dev || !state) {
        free(dev);
        free(state);
        return NULL;
    }
    bool good = true;
    state->context = context;
    state->id = id;
    *dev = (struct gg_device){.ordinal = ordinal, .private_state = state};
    good &= GG_CU(cuDeviceGetName, dev->name, sizeof dev->name, device);
    size_t memory = 0;
    good &= GG_CU(cuDeviceTotalMem, &memory, device);
    dev->arch = (struct gg_arch){
        .cc = 10 * attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &good) +
              attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &good),
        .sms = attribute(device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &good),
        .clock_mhz = attribute(device, CU_DEVICE_ATTRIBUTE_CLOCK_RATE, &good) / 1000,
        .smem_per_block = attribute(device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, &good),
        .smem_per_sm = attribute(device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, &good),
        .l2_bytes = attribute(device, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, &good),
        .memory_bytes = (int64_t)memory,
        .bandwidth = 2e3 * attribute(device, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, &good) / 8 *
                     attribute(device, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, &good),
    };
    if (!good) {
        free(dev);
        free(state);
        return NULL;
    }
    g.devices[g.device_count++] = dev;
    return dev;
}

/* Tries the ordinals of GPUGEMM_DEVICES, else 0, 1, …; the first that opens serves host operands. Under g.lock. */
static bool start(void *driver)
{
    if (!load_driver(driver))
        return false;
    CUresult e = cu.cuInit(0);
    int count = 0;
    if (e == CUDA_SUCCESS)
        e = cu.cuDeviceGetCount(&count);
    if (e != CUDA_SUCCESS || count == 0) {
        const char *text = NULL;
        cu.cuGetErrorString(e, &text);
        snprintf(g.trouble, sizeof g.trouble, "%s", e == CUDA_SUCCESS ? "no CUDA device" : text ? text : "cuInit failed");
        return false;
    }
    if (gg_kernel_count == 0) {
        snprintf(g.trouble, sizeof g.trouble, "this build has no GPU kernels");
        return false;
    }
    const char *list = gg_config()->devices;
    for (int i = 0; list ? *list != 0 : i < count; i++) {
        int ordinal = list ? gg_next_device(&list) : i;
        if (ordinal < 0) {
            gg_warn("GPUGEMM_DEVICES=%s cannot be read; the default is used", gg_config()->devices);
            list = NULL;
            i = -1;
            continue;
        }
        struct gg_device *dev = ordinal < count ? open_device(ordinal, NULL) : NULL;
        if (dev) {
            g.host_device = dev;
            return true;
        }
    }
    const char *text = NULL;
    if (atomic_load(&g.refused)) /* else the list named no device */
        cu.cuGetErrorString((CUresult)atomic_load(&g.refused), &text);
    snprintf(g.trouble, sizeof g.trouble, "no CUDA device could be opened%s%s", text ? ": " : "", text ? text : "");
    return false;
}

/* ---- start-up ------------------------------------------------------------------------------------------------------------------ */

enum gg_gpu_state gg_gpu_state(void)
{
    return (enum gg_gpu_state)atomic_load_explicit(&g.state, memory_order_acquire);
}

void gg_gpu_driver(int *cuda, int *devices)
{
    *cuda = *devices = 0;
    if (gg_gpu_state() != GG_GPU_READY)
        return;
    cu.cuDriverGetVersion(cuda);
    cu.cuDeviceGetCount(devices);
}

const char *gg_gpu_trouble(void)
{
    enum gg_gpu_state state = gg_gpu_state();
    return state == GG_GPU_NONE || state == GG_GPU_DEAD ? g.trouble : "";
}

double gg_gpu_start_left(void)
{
    const double whole = gg_rates()->start, least = 0.02;
    enum gg_gpu_state state = gg_gpu_state();
    if (state != GG_GPU_STARTING)
        return state == GG_GPU_OFF ? whole : 0;
    double left = whole - (gg_now() - g.started);
    return left > least ? left : least;
}

/* The locks may be held by threads that the child does not have. ThreadSanitizer knows nothing of their absence. */
__attribute__((no_sanitize("thread"))) static void in_child(void)
{
    g.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    g.changed = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
    if (gg_gpu_state() != GG_GPU_OFF && gg_gpu_state() != GG_GPU_NONE)
        set_state(GG_GPU_FORKED);
}

static void watch_forks(void)
{
    g.watching_forks = pthread_atfork(NULL, NULL, in_child) == 0;
}

static void *starter(void *unused)
{
    (void)unused;
    void *driver = open_driver();
    pthread_mutex_lock(&g.lock);
    atomic_store(&g.loading, true);
    bool up = start(driver);
    pthread_mutex_unlock(&g.lock);
    if (up && gg_gpu_enter(g.host_device)) {
        if (g.from_nothing) /* else the program may have made the context: that took 1 ms, and the next process would have waited 0.2 s for it */
            gg_rates_set_start(gg_now() - g.started);
        gg_staged_prepare(g.host_device);
        gg_gpu_leave();
    }
    pthread_mutex_lock(&g.lock);
    if (!atomic_load(&g.failing))
        set_state(up ? GG_GPU_READY : GG_GPU_NONE);
    pthread_cond_broadcast(&g.changed);
    pthread_mutex_unlock(&g.lock);
    return NULL;
}

void gg_gpu_start(void)
{
    if (gg_gpu_state() != GG_GPU_OFF)
        return;
    pthread_once(&g.forks, watch_forks);
    bool loaded = gg_gpu_loaded(); /* before the lock: it takes the loader's */
    pthread_mutex_lock(&g.lock);
    if (gg_gpu_state() == GG_GPU_OFF) {
        g.from_nothing = !loaded;
        g.started = gg_now();
        set_state(GG_GPU_STARTING);
        const char *trouble = !g.watching_forks ? "no memory" : !gg_thread_start(starter, NULL) ? "no thread to start the GPU on" : NULL;
        if (trouble) {
            snprintf(g.trouble, sizeof g.trouble, "%s", trouble);
            set_state(GG_GPU_NONE);
        }
    }
    pthread_mutex_unlock(&g.lock);
}

/* A caller inside a library's constructor holds the loader's lock, which the starter needs: it waits in vain, and gives up. Nor does anybody wait for
 * ever for a driver that does not come back. */
bool gg_gpu_wait(void)
{
    const double for_loader = 2, for_driver = 60; /* seconds */
    gg_gpu_start();
    if (gg_gpu_state() == GG_GPU_STARTING) {
        pthread_mutex_lock(&g.lock);
        while (gg_gpu_state() == GG_GPU_STARTING) {
            double left = g.started + (atomic_load(&g.loading) ? for_driver : for_loader) - gg_now();
            if (left <= 0)
                break;
            struct timespec until;
            clock_gettime(CLOCK_MONOTONIC, &until);
            until.tv_nsec += 100000000; /* looks at the clock ten times a second */
            until.tv_sec += until.tv_nsec / 1000000000;
            until.tv_nsec %= 1000000000;
            pthread_cond_clockwait(&g.changed, &g.lock, CLOCK_MONOTONIC, &until);
        }
        pthread_mutex_unlock(&g.lock);
    }
    return gg_gpu_state() == GG_GPU_READY;
}

struct gg_device *gg_gpu_default(void)
{
    return gg_gpu_state() == GG_GPU_READY ? g.host_device : NULL;
}

bool gg_thread_start(void *(*body)(void *), void *argument)
{
    /* The program's signals are for its own threads. Those that a thread causes itself go to the program's handlers as ever: some programs catch
     * writes to protected memory, which here may be a copy thread's. */
    static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
    sigset_t all, saved;
    sigfillset(&all);
    for (unsigned i = 0; i < sizeof own / sizeof *own; i++)
        sigdelset(&all, own[i]);
    pthread_attr_t detached;
    pthread_t thread;
    if (pthread_attr_init(&detached))
        return false;
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_SETMASK, &all, &saved);
    int e = pthread_create(&thread, &detached, body, argument);
    pthread_sigmask(SIG_SETMASK, &saved, NULL);
    pthread_attr_destroy(&detached);
    return e == 0;
}

/* ---- pointers ------------------------------------------------------------------------------------------------------------------ */

/* Where the heap begins, from /proc/self/stat; UINTPTR_MAX where that cannot be read. */
static uintptr_t heap_start(void)
{
    static _Atomic uintptr_t start;
    uintptr_t known = atomic_load_explicit(&start, memory_order_relaxed);
    if (known)
        return known;
    char text[1024];
    int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = 0;
    const char *at = strrchr(text, ')'); /* the end of field 2, the one with spaces; field 47 is start_brk */
    for (int field = 2; at && field < 47; field++)
        at = strchr(at + 1, ' ');
    known = at ? strtoull(at + 1, NULL, 10) : 0;
    atomic_store_explicit(&start, known ? known : UINTPTR_MAX, memory_order_relaxed);
    return known ? known : UINTPTR_MAX;
}

bool gg_gpu_in_heap(const void *pointer)
{
    return (uintptr_t)pointer >= heap_start() && (uintptr_t)pointer < (uintptr_t)sbrk(0);
}

/* Ticks of the processor's clock, about 3e9 a second; 0 where there is none that is as cheap. */
static uint64_t ticks(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    return 0;
#endif
}

/* For a page of host memory to become the GPU's it must be unmapped, and the driver must reserve its addresses anew, with several calls of the kernel:
 * so what the driver has said is believed for less than ten microseconds. Programs that make tiny calls by the million make more than one in that time
 * (8 x 8 x 8 on mapped memory: 370 ns more than a direct call when the driver is asked each time, H200's host, 2026-11). */
bool gg_gpu_on_host(const void *const operands[3])
{
    const uint64_t believed = 20000;
    static _Thread_local struct {
        uintptr_t pages[3];
        uint64_t asked; /* 0: never */
    } known;
    bool same = known.asked != 0;
    for (int x = 0; x < 3; x++)
        same = same && (uintptr_t)operands[x] >> 12 == known.pages[x];
    const uint64_t now = ticks();
    if (same && now - known.asked < believed)
        return true;
    known.asked = 0;
    for (int x = 0; x < 3; x++) {
        if (gg_gpu_locate(operands[x]).place > GG_PINNED)
            return false;
        known.pages[x] = (uintptr_t)operands[x] >> 12;
    }
    known.asked = now;
    return true;
}

/* By the kernel, not by touching it. */
static bool is_readable(const void *pointer)
{
    char byte;
    struct iovec here = {&byte, 1}, there = {(void *)pointer, 1};
    return process_vm_readv(getpid(), &here, 1, &there, 1, 0) >= 0 || errno != EFAULT;
}

struct gg_location gg_gpu_locate(const void *pointer)
{
    struct gg_location where = {.place = GG_HOST, .ordinal = -1};
    if (!pointer || !gg_gpu_loaded() || gg_gpu_state() == GG_GPU_FORKED)
        return where;
    if (!atomic_load(&g.have_driver)) { /* the program uses CUDA, we have not yet */
        pthread_once(&g.forks, watch_forks);
        void *driver = open_driver();
        pthread_mutex_lock(&g.lock);
        bool have = load_driver(driver);
        pthread_mutex_unlock(&g.lock);
        if (!have) {
            where.place = is_readable(pointer) ? GG_HOST : GG_DEVICE;
            return where;
        }
    }
    CUmemorytype type = 0;
    unsigned managed = 0;
    CUcontext context = NULL;
    int ordinal = -1;
    CUpointer_attribute what[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                  CU_POINTER_ATTRIBUTE_CONTEXT, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    void *values[] = {&type, &managed, &context, &ordinal};
    /* An ordinary host pointer is a success with all values 0. It is an error before cuInit, when nobody can have device memory, but a lost GPU may be
     * silent about its memory, too: what this process cannot read is not the host's. */
    if (cu.cuPointerGetAttributes(4, what, values, (CUdeviceptr)pointer) != CUDA_SUCCESS) {
        where.place = is_readable(pointer) ? GG_HOST : GG_DEVICE;
        return where;
    }
    if (!type)
        return where;
    where.place = managed ? GG_MANAGED : type == CU_MEMORYTYPE_DEVICE ? GG_DEVICE : GG_PINNED;
    where.ordinal = ordinal;
    where.context = context;
    return where;
}

struct gg_device *gg_gpu_device_of(const struct gg_location *where)
{
    if (gg_gpu_state() != GG_GPU_READY)
        return NULL;
    CUcontext context = where->context, current = NULL;
    CUdevice device = -1, wanted = -2;
    if (!context && cu.cuCtxGetCurrent(&current) == CUDA_SUCCESS && current && cu.cuCtxGetDevice(&device) == CUDA_SUCCESS &&
        cu.cuDeviceGet(&wanted, where->ordinal) == CUDA_SUCCESS && device == wanted)
        context = current;
    pthread_mutex_lock(&g.lock);
    struct gg_device *dev = open_device(where->ordinal < 0 ? g.host_device->ordinal : where->ordinal, context);
    pthread_mutex_unlock(&g.lock);
    return dev;
}

/* ---- context, streams, events, memory ------------------------------------------------------------------------------------------- */

/* Relaxed: an allocation of ours must not break a capture that this thread has going on a stream of its own. Between enter and leave this is the
 * thread's own mode. */
static _Thread_local CUstreamCaptureMode capture_mode;
static _Thread_local bool capture_mode_kept;

/* Its context is 1: as it was, 0: gone, -1: the driver does not tell. */
static int is_there(struct gg_device *dev)
{
    unsigned long long id;
    CUresult e = cu.cuCtxGetId(state_of(dev)->context, &id);
    if (e == CUDA_SUCCESS)
        return id == state_of(dev)->id;
    if (e == CUDA_ERROR_CONTEXT_IS_DESTROYED || e == CUDA_ERROR_INVALID_CONTEXT)
        return 0;
    (void)ok(e, "cuCtxGetId");
    return -1;
}

bool gg_gpu_is_gone(struct gg_device *dev)
{
    return is_there(dev) == 0;
}

/* The program has reset the device, or destroyed a context of its own: everything in it is gone, page-locked memory included. The next calls get a new
 * one; this one is the CPU's. */
static void replace(struct gg_device *gone)
{
    pthread_mutex_lock(&g.lock);
    struct gg_device *new = gone == atomic_load(&g.host_device) ? open_device(gone->ordinal, NULL) : NULL;
    if (new)
        atomic_store(&g.host_device, new);
    pthread_mutex_unlock(&g.lock);
}

bool gg_gpu_enter(struct gg_device *dev)
{
    int there = is_there(dev);
    if (there == 0)
        replace(dev);
    if (there <= 0)
        return false;
    if (!GG_CU(cuCtxPushCurrent, state_of(dev)->context))
        return false;
    capture_mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    capture_mode_kept = GG_CU(cuThreadExchangeStreamCaptureMode, &capture_mode);
    return true;
}

void gg_gpu_leave(void)
{
    CUcontext ours;
    if (capture_mode_kept)
        (void)GG_CU(cuThreadExchangeStreamCaptureMode, &capture_mode);
    cu.cuCtxPopCurrent(&ours);
}

gg_stream gg_gpu_stream_create(void)
{
    CUstream stream;
    return GG_CU(cuStreamCreateWithPriority, &stream, CU_STREAM_NON_BLOCKING, 0) ? stream : NULL;
}

void gg_gpu_stream_destroy(gg_stream stream)
{
    if (stream)
        (void)GG_CU(cuStreamDestroy, stream);
}

bool gg_gpu_stream_sync(gg_stream stream)
{
    return GG_CU(cuStreamSynchronize, stream);
}

void gg_gpu_settle(gg_stream stream)
{
    CUresult e = CUDA_SUCCESS;
    for (int i = 0; i < 3 && (e = cu.cuStreamSynchronize(stream)) != CUDA_SUCCESS; i++)
        ;
    if (e != CUDA_SUCCESS)
        give_up(e, "cuStreamSynchronize");
}

bool gg_gpu_stream_wait(gg_stream stream, gg_event event)
{
    return GG_CU(cuStreamWaitEvent, stream, event, 0);
}

bool gg_gpu_stream_capturing(gg_stream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    return cu.cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE;
}

gg_event gg_gpu_event_create(void)
{
    CUevent event;
    return GG_CU(cuEventCreate, &event, CU_EVENT_DISABLE_TIMING) ? event : NULL;
}

bool gg_gpu_event_record(gg_event event, gg_stream stream)
{
    return GG_CU(cuEventRecord, event, stream);
}

int gg_gpu_event_done(gg_event event)
{
    CUresult e = cu.cuEventQuery(event);
    return e == CUDA_ERROR_NOT_READY ? 0 : ok(e, "cuEventQuery") ? 1 : -1;
}

void *gg_gpu_alloc(size_t bytes)
{
    CUdeviceptr p;
    return GG_CU(cuMemAlloc, &p, bytes) ? (void *)p : NULL;
}

void gg_gpu_free(void *pointer)
{
    if (pointer)
        (void)GG_CU(cuMemFree, (CUdeviceptr)pointer);
}

bool gg_gpu_clear(void *pointer, size_t bytes, gg_stream stream)
{
    return GG_CU(cuMemsetD8Async, (CUdeviceptr)pointer, 0, bytes, stream);
}

size_t gg_gpu_free_memory(void)
{
    size_t free_bytes = 0, total = 0;
    return GG_CU(cuMemGetInfo, &free_bytes, &total) ? free_bytes : 0;
}

void *gg_gpu_pinned_alloc(size_t bytes)
{
    void *p;
    return GG_CU(cuMemHostAlloc, &p, bytes, CU_MEMHOSTALLOC_PORTABLE) ? p : NULL;
}

void gg_gpu_pinned_free(void *pointer)
{
    if (pointer)
        (void)GG_CU(cuMemFreeHost, pointer);
}

bool gg_gpu_copy(void *dst, const void *src, size_t bytes, gg_stream stream)
{
    return GG_CU(cuMemcpyAsync, (CUdeviceptr)dst, (CUdeviceptr)src, bytes, stream);
}

bool gg_gpu_copy_2d(void *dst, size_t dst_pitch, const void *src, size_t src_pitch, size_t width, size_t height, gg_stream stream)
{
    const size_t max_pitch = INT32_MAX; /* CU_DEVICE_ATTRIBUTE_MAX_PITCH of every GPU so far */
    if (dst_pitch == width && src_pitch == width)
        return gg_gpu_copy(dst, src, width * height, stream);
    if (dst_pitch > max_pitch || src_pitch > max_pitch || height == 1) {
        for (size_t i = 0; i < height; i++)
            if (!gg_gpu_copy((char *)dst + i * dst_pitch, (const char *)src + i * src_pitch, width, stream))
                return false;
        return true;
    }
    CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                          .srcDevice = (CUdeviceptr)src,
                          .srcPitch = src_pitch,
                          .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                          .dstDevice = (CUdeviceptr)dst,
                          .dstPitch = dst_pitch,
                          .WidthInBytes = width,
                          .Height = height};
    return GG_CU(cuMemcpy2DAsync, &copy, stream);
}

/* ---- launching ------------------------------------------------------------------------------------------------------------------ */

/* Under g.lock. */
static CUfunction load_function(struct gg_device *dev, const struct gg_kernel *kernel)
{
    struct gg_device_state *state = state_of(dev);
    int row = (int)(kernel - gg_kernels), first = 0;
    while (gg_kernels[first].image != kernel->image)
        first++;
    if (!state->modules[first] && !GG_CU(cuModuleLoadData, &state->modules[first], kernel->image))
        return NULL;
    CUfunction function;
    if (!GG_CU(cuModuleGetFunction, &function, state->modules[first], kernel->name))
        return NULL;
    if (kernel->smem > 48 * 1024 &&
        !GG_CU(cuFuncSetAttribute, function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, kernel->smem))
        return NULL;
    atomic_store_explicit(&state->functions[row], function, memory_order_release);
    return function;
}

static CUfunction function_of(struct gg_device *dev, const struct gg_kernel *kernel)
{
    CUfunction function = atomic_load_explicit(&state_of(dev)->functions[kernel - gg_kernels], memory_order_acquire);
    if (!function) {
        pthread_mutex_lock(&g.lock);
        function = load_function(dev, kernel);
        pthread_mutex_unlock(&g.lock);
    }
    return function;
}

/* Early or in clusters, not both. Early not while a graph is captured: not every driver that knows the attribute knows it there. */
static bool launch(struct gg_device *dev, const struct gg_kernel *kernel, struct gg_dim grid, gg_stream stream, const void *args, bool early)
{
    const CUfunction function = function_of(dev, kernel);
    void *parameters[] = {(void *)args};
    CUlaunchAttribute how = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, .value.clusterDim = {grid.cluster, 1, 1}};
    const bool clusters = grid.cluster > 1;
    if (!clusters)
        how = (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, .value.programmaticStreamSerializationAllowed = 1};
    if (clusters || (early && cu.cuLaunchKernelEx && !gg_gpu_stream_capturing(stream))) {
        CUlaunchConfig config = {.gridDimX = grid.x, .gridDimY = grid.y, .gridDimZ = grid.z, .blockDimX = (unsigned)kernel->threads, .blockDimY = 1,
                                 .blockDimZ = 1, .sharedMemBytes = (unsigned)kernel->smem, .hStream = stream, .attrs = &how, .numAttrs = 1};
        return function && cu.cuLaunchKernelEx && GG_CU(cuLaunchKernelEx, &config, function, parameters, NULL);
    }
    return function && GG_CU(cuLaunchKernel, function, grid.x, grid.y, grid.z, (unsigned)kernel->threads, 1, 1, (unsigned)kernel->smem, stream,
                             parameters, NULL);
}

bool gg_gpu_launch(struct gg_device *dev, const struct gg_kernel *kernel, struct gg_dim grid, gg_stream stream, const void *args)
{
    return launch(dev, kernel, grid, stream, args, false);
}

bool gg_gpu_launch_early(struct gg_device *dev, const struct gg_kernel *kernel, struct gg_dim grid, gg_stream stream, const void *args)
{
    return launch(dev, kernel, grid, stream, args, true);
}

bool gg_gpu_tensor_map(void *map, enum gg_type type, const void *base, int64_t inner, int64_t outer, int64_t ld, int box_inner,
                       int box_outer, int swizzle)
{
    static const CUtensorMapSwizzle swizzles[] = {CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_SWIZZLE_32B, CU_TENSOR_MAP_SWIZZLE_64B,
                                                  CU_TENSOR_MAP_SWIZZLE_128B};
    cuuint64_t dims[] = {(cuuint64_t)inner, (cuuint64_t)outer}, strides[] = {(cuuint64_t)ld * gg_size(type)};
    cuuint32_t box[] = {(cuuint32_t)box_inner, (cuuint32_t)box_outer}, steps[] = {1, 1};
    return cu.cuTensorMapEncodeTiled &&
           cu.cuTensorMapEncodeTiled(map, type == GG_S ? CU_TENSOR_MAP_DATA_TYPE_FLOAT32 : CU_TENSOR_MAP_DATA_TYPE_FLOAT64, 2,
                                     (void *)base, dims, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                                     swizzles[swizzle == 128 ? 3 : swizzle / 32], CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                                     CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

/* What a workspace begins with: words for calls (gg_gpu_word), then, just before what is handed out, the kernels' flags. */
enum { HEADER = 4 * (WORDS + GG_FLAGS) };

/* Under g.lock: the stream's, or the one it is to have. */
static struct workspace *workspace_of(struct gg_device_state *state, gg_stream stream)
{
    struct workspace *oldest = &state->workspaces[0];
    for (struct workspace *w = state->workspaces; w < state->workspaces + WORKSPACES; w++) {
        if (w->memory && w->stream == stream)
            return w;
        if (w->used < oldest->used)
            oldest = w;
    }
    return oldest;
}

/* A stream's workspace is freed only when it must grow or when 128 other streams have been used since; cuMemFree waits for the GPU. One that a
 * graph captured is left to the graph. */
void *gg_gpu_workspace(struct gg_device *dev, gg_stream stream, size_t bytes)
{
    struct gg_device_state *state = state_of(dev);
    pthread_mutex_lock(&g.lock);
    struct workspace *mine = workspace_of(state, stream);
    bool capturing = gg_gpu_stream_capturing(stream), fits = mine->stream == stream && mine->bytes >= bytes;
    if (!fits && !capturing) {
        if (!mine->captured)
            gg_gpu_free(mine->memory);
        size_t size = (bytes + HEADER + (1 << 20)) & ~(size_t)((1 << 20) - 1);
        *mine = (struct workspace){.stream = stream, .memory = gg_gpu_alloc(size), .words = 1};
        mine->bytes = mine->memory && gg_gpu_clear(mine->memory, HEADER, stream) ? size - HEADER : 0;
    }
    fits = mine->stream == stream && mine->bytes >= bytes;
    mine->captured |= fits && capturing;
    mine->used = ++state->clock;
    void *memory = fits ? (char *)mine->memory + HEADER : NULL;
    pthread_mutex_unlock(&g.lock);
    return memory;
}

/* They are cleared all at once, as to clear one takes 2 µs of the stream's time. A graph, which will be launched often, has the first, and clears it. */
uint32_t *gg_gpu_word(struct gg_device *dev, gg_stream stream, bool next)
{
    pthread_mutex_lock(&g.lock);
    struct workspace *mine = workspace_of(state_of(dev), stream);
    uint32_t *words = mine->memory;
    const bool capturing = gg_gpu_stream_capturing(stream), clear = next && (capturing || mine->words == WORDS);
    if (mine->stream != stream || (clear && words && !gg_gpu_clear(words, (capturing ? 1 : WORDS) * sizeof *words, stream)))
        words = NULL;
    else if (next && !capturing)
        mine->words = clear ? 2 : mine->words + 1;
    const int at = capturing ? 0 : mine->words - 1;
    pthread_mutex_unlock(&g.lock);
    return words ? words + at : NULL;
}

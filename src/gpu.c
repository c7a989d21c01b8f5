/* gpu.c — owns the CUDA driver and the GPU's life. It loads the driver by dlopen at first use, so that nothing is needed at load, starts the GPU,
 * opens devices, and knows when the GPU has died. It never tears down: CUDA calls during exit fail, and the driver frees everything with the process.
 * pointers.c knows where pointers live, work.c what is done with a device. */
#include "driver.h"

#include <dlfcn.h>
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <time.h>

#include "config.h"
#include "cpus.h"
#include "kernels.h"
#include "rates.h"
#include "real.h"
#include "staged.h"
#include "trace.h"

/* ---- state ------------------------------------------------------------------------------------------------------------------------------------ */

static struct {
    _Atomic int state;        /* enum gg_gpu_state */
    _Atomic bool have_driver; /* gg_cu is filled */
    _Atomic bool failing;     /* a thread is writing `trouble`, and will set DEAD */
    _Atomic bool loading;     /* the starter has got past the loader's lock */
    _Atomic int refused;      /* the driver's last error while STARTING */
    double started;           /* when STARTING began */
    bool from_nothing;        /* the program had not loaded the driver before */
    pthread_once_t forks;
    bool watching_forks;
    char trouble[200];
    pthread_mutex_t lock; /* guards devices, and the state when it leaves OFF or STARTING */
    pthread_cond_t changed;
    struct gg_device *devices[4 * GG_MAX_DEVICES]; /* one per context */
    int device_count;
    struct gg_device *_Atomic host_device;
} g = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .forks = PTHREAD_ONCE_INIT};

struct gg_driver gg_cu;

/* ---- errors ---------------------------------------------------------------------------------------------------------------- */

static void set_state(enum gg_gpu_state state) { atomic_store_explicit(&g.state, state, memory_order_release); }

/* Errors that a call can have without the context being lost. */
static bool is_survivable(CUresult e)
{
    switch (e) {
    case CUDA_SUCCESS:
    case CUDA_ERROR_NOT_READY:
    case CUDA_ERROR_OUT_OF_MEMORY:
    case CUDA_ERROR_INVALID_VALUE:
    case CUDA_ERROR_INVALID_HANDLE:
    case CUDA_ERROR_INVALID_CONTEXT:      /* a stream of another GPU */
    case CUDA_ERROR_CONTEXT_IS_DESTROYED: /* by the program; the next call opens another */
    case CUDA_ERROR_INVALID_CLUSTER_SIZE: /* more SMs together than a part of a GPU has */
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
    case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
    case CUDA_ERROR_OPERATING_SYSTEM:
    case CUDA_ERROR_NOT_SUPPORTED:
    case CUDA_ERROR_NOT_FOUND:
    case CUDA_ERROR_NOT_PERMITTED: /* in a host function of the program's (cuLaunchHostFunc): there no call may be made */
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

/* Gives the GPU up for good. Of several threads that meet an error at once, the first reports it. */
void gg_driver_give_up(CUresult e, const char *what)
{
    if (atomic_exchange(&g.failing, true))
        return;
    const char *text = NULL;
    if (e == CUDA_ERROR_DEINITIALIZED) { /* the process is exiting and the driver has shut down before us: no reason for a warning */
        snprintf(g.trouble, sizeof g.trouble, "the CUDA driver has shut down");
        set_state(GG_GPU_DEAD);
        return;
    }
    gg_cu.cuGetErrorString(e, &text);
    snprintf(g.trouble, sizeof g.trouble, "%s: %s (%d)", what, text ? text : "unknown error", (int)e);
    set_state(GG_GPU_DEAD);
    gg_warn("the GPU failed, %s; the CPU serves from here on", g.trouble);
}

bool gg_driver_ok(CUresult e, const char *what)
{
    if (e != CUDA_SUCCESS && gg_gpu_state() == GG_GPU_STARTING) /* the starter deals with it */
        atomic_store(&g.refused, e);
    if (e != CUDA_SUCCESS && !is_survivable(e) && gg_gpu_state() == GG_GPU_READY)
        gg_driver_give_up(e, what);
    return e == CUDA_SUCCESS;
}

/* ---- the driver itself --------------------------------------------------------------------------------------------------------- */

static int find_driver(struct dl_phdr_info *info, size_t size, void *found)
{
    (void)size;
    const char *slash = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;
    *(bool *)found = slash && strncmp(slash, "/libcuda.so", 11) == 0;
    return *(bool *)found;
}

/* The list of loaded objects is walked at most once per tick of the coarse clock (1–10 ms). That is often enough: between loading the driver and the
 * first device pointer come cuInit and the creation of a context, which take longer. The tick is noted when the walk has ended: until then other
 * threads, which may have device pointers, do not know the answer and walk, too. */
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
    bool yes = false;
    gg_loader_enter();
    if (!gg_loader_forked()) {
        dl_iterate_phdr(find_driver, &yes);
    } else {
        void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
        yes = driver != NULL;
        if (driver)
            dlclose(driver);
    }
    gg_loader_leave();
    if (yes)
        atomic_store_explicit(&found, true, memory_order_release);
    else
        atomic_store_explicit(&last_tick, tick, memory_order_relaxed);
    return yes;
}

/* open_driver opens the library, load_driver fills gg_cu from it. The first runs before g.lock is taken, the second under it: dlopen waits for the
 * loader's lock, whose holder may be waiting for g.lock. The driver trusts its environment, including which libraries to load, so a setuid program
 * gets it only if it has loaded it itself. */
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
#define GG_OPTIONAL(name) *(void **)&gg_cu.name = dlsym(driver, NAME(name));
#define GG_NEEDED(name)                                                                                                                              \
    GG_OPTIONAL(name)                                                                                                                                \
    if (!gg_cu.name)                                                                                                                                 \
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

/* Clears *good if the driver does not tell. */
static int attribute(CUdevice device, CUdevice_attribute what, bool *good)
{
    int value = 0;
    *good &= GG_CU(cuDeviceGetAttribute, &value, what, device);
    return value;
}

/* The device of `context`; with NULL the primary context of `ordinal`. Under g.lock, except in start(). */
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
        if (gg_state_of(g.devices[i])->context == context && gg_state_of(g.devices[i])->id == id)
            return g.devices[i];
    int at = 0; /* its place in the table: one whose context is gone, else the end. What was there is not freed, because lanes and calls may still
                 * look at it */
    while (at < g.device_count && !gg_gpu_is_gone(g.devices[at]))
        at++;
    if (at == sizeof g.devices / sizeof *g.devices)
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
    state->lock = state->turn = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
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
    /* A driver may not say how fast memory is (integrated GPUs): predictions must be numbers all the same. */
    dev->arch.clock_mhz = dev->arch.clock_mhz > 0 ? dev->arch.clock_mhz : 1500;
    dev->arch.bandwidth = dev->arch.bandwidth > 0 ? dev->arch.bandwidth : 300e9;
    g.devices[at] = dev;
    g.device_count += at == g.device_count;
    return dev;
}

struct gg_device *gg_gpu_device_of(const struct gg_location *where)
{
    if (gg_gpu_state() != GG_GPU_READY)
        return NULL;
    CUcontext context = where->context, current = NULL;
    CUdevice device = -1, wanted = -2;
    if (!context && gg_cu.cuCtxGetCurrent(&current) == CUDA_SUCCESS && current && gg_cu.cuCtxGetDevice(&device) == CUDA_SUCCESS &&
        gg_cu.cuDeviceGet(&wanted, where->ordinal) == CUDA_SUCCESS && device == wanted)
        context = current;
    pthread_mutex_lock(&g.lock);
    struct gg_device *dev = open_device(where->ordinal < 0 ? g.host_device->ordinal : where->ordinal, context);
    pthread_mutex_unlock(&g.lock);
    return dev;
}

void gg_gpu_replace(struct gg_device *gone)
{
    pthread_mutex_lock(&g.lock);
    struct gg_device *new = gone == atomic_load(&g.host_device) ? open_device(gone->ordinal, NULL) : NULL;
    if (new)
        atomic_store(&g.host_device, new);
    pthread_mutex_unlock(&g.lock);
}

/* Tries the ordinals of GPUGEMM_DEVICES, else 0, 1, …; the first that opens serves host operands. Nobody else looks at the devices meanwhile. */
static bool start(void)
{
    CUresult e = gg_cu.cuInit(0);
    int count = 0;
    if (e == CUDA_SUCCESS)
        e = gg_cu.cuDeviceGetCount(&count);
    if (e != CUDA_SUCCESS || count == 0) {
        const char *text = NULL;
        gg_cu.cuGetErrorString(e, &text);
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
        struct gg_device *dev = ordinal < count ? open_device(ordinal, NULL) : NULL;
        if (dev) {
            g.host_device = dev;
            return true;
        }
    }
    const char *text = NULL;
    if (atomic_load(&g.refused)) /* otherwise the list named no device */
        gg_cu.cuGetErrorString((CUresult)atomic_load(&g.refused), &text);
    snprintf(g.trouble, sizeof g.trouble, "no CUDA device could be opened%s%s", text ? ": " : "", text ? text : "");
    return false;
}

/* ---- start-up ------------------------------------------------------------------------------------------------------------------ */

enum gg_gpu_state gg_gpu_state(void) { return (enum gg_gpu_state)atomic_load_explicit(&g.state, memory_order_acquire); }

void gg_gpu_driver(int *cuda, int *devices)
{
    *cuda = *devices = 0;
    if (gg_gpu_state() != GG_GPU_READY)
        return;
    gg_cu.cuDriverGetVersion(cuda);
    gg_cu.cuDeviceGetCount(devices);
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
    left = left < 0 ? -left : left; /* what takes longer than expected is expected to take as long again */
    return left > least ? left : least;
}

/* In the child, threads that held the locks do not exist. ThreadSanitizer does not know that. */
__attribute__((no_sanitize("thread"))) static void in_child(void)
{
    g.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    g.changed = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
    if (gg_gpu_state() != GG_GPU_OFF && gg_gpu_state() != GG_GPU_NONE)
        set_state(GG_GPU_FORKED);
}

static void watch_forks(void) { g.watching_forks = pthread_atfork(NULL, NULL, in_child) == 0; }

bool gg_driver_load(void)
{
    if (atomic_load(&g.have_driver))
        return true;
    pthread_once(&g.forks, watch_forks);
    void *driver = open_driver();
    pthread_mutex_lock(&g.lock);
    bool have = load_driver(driver);
    pthread_mutex_unlock(&g.lock);
    return have;
}

static void *starter(void *unused)
{
    (void)unused;
    void *driver = open_driver();
    pthread_mutex_lock(&g.lock);
    atomic_store(&g.loading, true);
    bool up = load_driver(driver);
    pthread_mutex_unlock(&g.lock);
    up = up && start(); /* without the lock, because cuInit can take minutes, and calls that wait may give up */
    if (up && gg_gpu_enter(g.host_device)) {
        if (g.from_nothing) /* only then is the time meaningful: where the program had made the context it took 1 ms, but the next process would wait
                             * 0.2 s */
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
    bool loaded = gg_gpu_loaded(); /* before the lock, as gg_cpus_count: it takes the loader's */
    gg_cpus_count();
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

/* A caller inside a library's constructor holds the loader's lock, which the starter needs, so it would wait in vain: it gives up after for_loader.
 * Nor does anybody wait for ever for a driver that does not come back. */
bool gg_gpu_wait(double most)
{
    const double for_loader = 2, begun = gg_now(); /* seconds */
    gg_gpu_start();
    if (gg_gpu_state() == GG_GPU_STARTING) {
        int cancel;
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel); /* a thread cancelled while it waits would keep the lock */
        pthread_mutex_lock(&g.lock);
        while (gg_gpu_state() == GG_GPU_STARTING) {
            const double given_up = g.started + (atomic_load(&g.loading) ? GG_PATIENCE : for_loader);
            const double left = (given_up < begun + most ? given_up : begun + most) - gg_now();
            if (left <= 0)
                break;
            struct timespec until;
            clock_gettime(CLOCK_MONOTONIC, &until);
            until.tv_nsec += left < 0.1 ? (long)(1e9 * left) : 100000000; /* checks the deadlines ten times a second */
            until.tv_sec += until.tv_nsec / 1000000000;
            until.tv_nsec %= 1000000000;
            pthread_cond_clockwait(&g.changed, &g.lock, CLOCK_MONOTONIC, &until);
        }
        pthread_mutex_unlock(&g.lock);
        pthread_setcancelstate(cancel, NULL);
    }
    return gg_gpu_state() == GG_GPU_READY;
}

struct gg_device *gg_gpu_default(void) { return gg_gpu_state() == GG_GPU_READY ? g.host_device : NULL; }

bool gg_thread_start(void *(*body)(void *), void *argument)
{
    /* The program's signals are for its own threads. Signals that a thread causes itself still go to the program's handlers: some programs catch
     * writes to protected memory, and the writer may be a copy thread. */
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
    cpu_set_t before;
    const bool spread = gg_cpus_spread(&before);
    int e = pthread_create(&thread, &detached, body, argument);
    if (spread)
        sched_setaffinity(0, sizeof before, &before);
    pthread_sigmask(SIG_SETMASK, &saved, NULL);
    pthread_attr_destroy(&detached);
    return e == 0;
}

/* fail_cuda.c — a libcuda.so.1 that passes every call on to another driver, the real one or fake_cuda.c, whose path is in FAIL_CUDA_DRIVER, and fails
 * the calls that the plan in `fail_cuda` (faults.h) names. So faults are injected from outside the library, and everything else is a real driver's
 * behaviour.
 *
 * When the whole GPU is to be lost, it first waits for all that is enqueued, because a lost GPU writes nothing more. cuCtxPopCurrent and
 * cuGetErrorString work on a lost GPU; the former pops even when it is told to fail. FAIL_CUDA_PLAN="FUNCTION ERROR [once]" is a plan for programs
 * that do not steer the failures themselves: the function fails from its first call on, or in that call only, as a driver's functions do when the GPU
 * is in use by others, or the driver is too old for it. The functions are those of src/driver.def, and some that only the tests call. */
#include <cuda.h>
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "faults.h"

#undef cuEventElapsedTime /* bench/rig.h, which t_capture.c uses to open the GPU, uses the first version */

/* No function of the table has more arguments than cuTensorMapEncodeTiled, and all arguments are passed like integers, so one prototype serves
 * all. */
typedef long word;
#define PARAMETERS word a, word b, word c, word d, word e, word f, word g, word h, word i, word j, word k, word l
#define ARGUMENTS a, b, c, d, e, f, g, h, i, j, k, l
typedef int function(PARAMETERS);

/* Passed on without being counted. */
/* clang-format off */
#define OTHERS(X) X(cuCtxSetCurrent) X(cuMemcpyHtoD) X(cuMemcpyDtoH) X(cuCtxSynchronize) X(cuEventDestroy) X(cuMemGetAddressRange) X(cuModuleLoad) \
    X(cuDevicePrimaryCtxReset) X(cuMemcpyDtoD) X(cuMemcpyHtoDAsync) X(cuMemcpyDtoHAsync) X(cuMemcpyDtoDAsync) X(cuMemsetD32Async) X(cuStreamCreate) \
    X(cuEventElapsedTime) X(cuDeviceGetPCIBusId) X(cuStreamBeginCapture) X(cuStreamEndCapture)
/* clang-format on */

enum {
#define GG_NEEDED(name) ID_##name,
#define GG_OPTIONAL GG_NEEDED
#include "driver.def"
    COUNTED,
    COUNTED_LESS_1 = COUNTED - 1,
#define X(name) ID_##name,
    OTHERS(X)
#undef X
    FUNCTIONS
};
#undef GG_NEEDED
#undef GG_OPTIONAL

#define TEXT_OF(name) #name
#define TEXT(name) TEXT_OF(name)

static const char *const symbols[FUNCTIONS] = {
#define GG_NEEDED(name) [ID_##name] = TEXT(name),
#define GG_OPTIONAL GG_NEEDED
#include "driver.def"
#define X GG_NEEDED
    OTHERS(X)
#undef X
};
#undef GG_NEEDED
#undef GG_OPTIONAL

enum kind { NONE, GPU_MEMORY, PINNED_MEMORY, STREAM, EVENT, MODULE };

/* How a function changes the number of live objects. */
static const struct {
    int id, kind, change;
} changes[] = {
    {ID_cuMemAlloc, GPU_MEMORY, 1},
    {ID_cuMemFree, GPU_MEMORY, -1},
    {ID_cuMemHostAlloc, PINNED_MEMORY, 1},
    {ID_cuMemFreeHost, PINNED_MEMORY, -1},
    {ID_cuMemHostRegister, PINNED_MEMORY, 1},
    {ID_cuMemHostUnregister, PINNED_MEMORY, -1},
    {ID_cuStreamCreateWithPriority, STREAM, 1},
    {ID_cuStreamDestroy, STREAM, -1},
    {ID_cuEventCreate, EVENT, 1},
    {ID_cuEventDestroy, EVENT, -1},
    {ID_cuModuleLoadData, MODULE, 1},
};

__attribute__((visibility("default"))) struct faults fail_cuda = {
    .functions = COUNTED, .function = -1, .kinds = {[GPU_MEMORY] = "GPU memory", [PINNED_MEMORY] = "pinned memory", [STREAM] = "streams",
                                                    [EVENT] = "events", [MODULE] = "modules"}};

/* Calls of a thread that is exempt neither count nor fail: for the test's own use of the driver. */
static _Thread_local bool exempt;
__attribute__((visibility("default"))) void fail_cuda_exempt(bool yes)
{
    exempt = yes;
}

static function *real[FUNCTIONS];

__attribute__((constructor)) static void find_driver(void)
{
    const char *path = getenv("FAIL_CUDA_DRIVER");
    void *driver = dlopen(path ? path : "", RTLD_NOW | RTLD_LOCAL);
    if (!path || !driver) {
        fprintf(stderr, "fail_cuda: FAIL_CUDA_DRIVER=%s: %s\n", path ? path : "", dlerror());
        abort();
    }
    for (int id = 0; id < FUNCTIONS; id++) {
        *(void **)&real[id] = dlsym(driver, symbols[id]);
        if (id < COUNTED)
            fail_cuda.names[id] = symbols[id];
    }
    char name[64], once[8] = "";
    int error;
    if (!getenv("FAIL_CUDA_PLAN"))
        return;
    if (sscanf(getenv("FAIL_CUDA_PLAN"), "%63s %d %7s", name, &error, once) < 2)
        name[0] = 0;
    for (int id = 0; id < COUNTED; id++)
        if (strcmp(symbols[id], name) == 0)
            fail_cuda.function = id;
    if (fail_cuda.function < 0) {
        fprintf(stderr, "fail_cuda: FAIL_CUDA_PLAN=%s\n", getenv("FAIL_CUDA_PLAN"));
        abort();
    }
    fail_cuda.nth = 1;
    fail_cuda.error = error;
    fail_cuda.mode = *once ? FAULT_ONCE : FAULT_FUNCTION;
    fail_cuda.armed = true;
}

static bool works_on_a_lost_gpu(int id)
{
    return id == ID_cuCtxPopCurrent || id == ID_cuGetErrorString;
}

/* Size of the allocation at an address; 0 if the driver does not know it. */
static long bytes_at(word address)
{
    size_t bytes = 0;
    CUdeviceptr base;
    if (!real[ID_cuMemGetAddressRange] || real[ID_cuMemGetAddressRange]((word)&base, (word)&bytes, address, 0, 0, 0, 0, 0, 0, 0, 0, 0))
        return 0;
    return (long)bytes;
}

static _Atomic int under_way; /* calls that are handed on */

/* Nobody is told that the GPU is lost before it has done what was enqueued, and all that others are about to: who knows goes on to use the memory. */
static void wait_for_lost_gpu(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static bool waited;
    pthread_mutex_lock(&lock);
    while (!waited && atomic_load(&under_way) > 0)
        sched_yield();
    waited = waited || !real[ID_cuCtxSynchronize] || real[ID_cuCtxSynchronize](0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0) == CUDA_SUCCESS;
    pthread_mutex_unlock(&lock);
}

static int call(int id, PARAMETERS)
{
    if (id == ID_cuEventQuery && fail_cuda.patient && real[id](ARGUMENTS) == CUDA_ERROR_NOT_READY)
        return CUDA_ERROR_NOT_READY;
    atomic_fetch_add(&under_way, 1);
    int error = id < COUNTED && !exempt ? fault_next(&fail_cuda, id, works_on_a_lost_gpu(id)) : 0;
    if (error && id != ID_cuCtxPopCurrent) {
        atomic_fetch_sub(&under_way, 1);
        if (fail_cuda.mode == FAULT_ALL)
            wait_for_lost_gpu();
        return error;
    }
    const long freed = id == ID_cuMemFree && real[id] ? bytes_at(a) : 0;
    int result = real[id] ? real[id](ARGUMENTS) : CUDA_ERROR_NOT_SUPPORTED;
    atomic_fetch_sub(&under_way, 1);
    if (result == CUDA_SUCCESS && (id == ID_cuMemAlloc || freed))
        atomic_fetch_add(&fail_cuda.gpu_bytes, id == ID_cuMemAlloc ? bytes_at((word) * (CUdeviceptr *)a) : -freed);
    if (id == ID_cuDevicePrimaryCtxReset)
        atomic_store(&fail_cuda.gpu_bytes, 0);
    for (int kind = 0; id == ID_cuDevicePrimaryCtxReset && kind < FAULT_KINDS; kind++)
        atomic_store(&fail_cuda.live[kind], 0);
    for (unsigned n = 0; n < sizeof changes / sizeof *changes && result == CUDA_SUCCESS; n++)
        if (changes[n].id == id)
            atomic_fetch_add(&fail_cuda.live[changes[n].kind], changes[n].change);
    return error ? error : result;
}

/* The C names differ from the symbols, because cuda.h has prototypes for these. */
#define GG_NEEDED(name)                                                                                                \
    __attribute__((visibility("default"))) int call_##name(PARAMETERS) __asm__(TEXT(name));                            \
    int call_##name(PARAMETERS)                                                                                        \
    {                                                                                                                  \
        return call(ID_##name, ARGUMENTS);                                                                             \
    }
#define GG_OPTIONAL GG_NEEDED
#include "driver.def"
#define X GG_NEEDED
OTHERS(X)

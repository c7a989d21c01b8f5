/* fake_cuda.c — a libcuda.so.1 without a GPU, to run the whole GPU side of the library where there is none: in CI, under sanitizers, and, with
 * fail_cuda.c in front of it, with planned failures.
 *
 * Device memory is not readable through its own addresses, so host code that touches it crashes; the fake accesses it through a second mapping and
 * checks every access against its allocation. Streams are threads that run late and at their own pace, so a missing wait shows as a wrong result
 * (fake_streams.h). Whether late or not, it shows to fake_races.h, if asked for, and to ThreadSanitizer, which also sees what the host's threads do.
 * Kernels, whichever the library chooses, are plain loops over struct gg_args. Tensor maps must be such as the driver accepts, and describe the
 * operands (fake_kernels.h). A chain for the tensor cores multiplies only what has been split before; a few elements are declared uncertified, so
 * that every tier gets its turn. What is enqueued on a stream that is being captured is kept for a graph; waiting for the stream or asking for its id
 * ends the capture. Any call in a forked child of a process that has called cuInit aborts.
 *
 *   FAKE_CUDA_MEMORY    bytes of GPU memory, 1 GiB by default
 *   FAKE_CUDA_ARCH      compute capability: 70, which has the simple rows only, by default; 80 has tensor_mma_*, 90 has all
 *   FAKE_CUDA_DEVICES   number of GPUs, 1 by default: each has its own memory and streams, and no kernel can reach another GPU's memory
 *   FAKE_CUDA_RACES     set: operations that touch the same memory must wait for each other (fake_races.h); "only": and no kernel computes anything
 *   FAKE_CUDA_LOCKED    most bytes of page-locked memory that the library may have at a time
 *   FAKE_CUDA_DEAF      this percentage of cuStreamWaitEvent calls is ignored: the races that follow must be found */
#include <cuda.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../cuda/kernel.h"

enum { ALLOCATIONS = 4096, DEVICES = 16, CLOCKS = 512 };

struct allocation {
    char *address, *shadow; /* equal for page-locked host memory */
    size_t bytes;
    int device;
    bool own;     /* page-locked memory of the library */
    bool locked;  /* the program has page-locked it afterwards */
    bool pooled;  /* stream-ordered, of no context */
    bool managed; /* for every GPU and the host */
};

/* How many operations of each stream are sure to have ended, see fake_races.h. */
struct clock {
    uint32_t of[CLOCKS];
};

/* A GPU and its only context. */
struct CUctx_st {
    size_t used; /* bytes of its memory in use */
    struct CUstream_st *legacy;
    _Atomic unsigned long long id;
};

/* What belongs to one context only. */
struct CUfunc_st {
    CUcontext context;
    char name[];
};

struct CUmod_st {
    CUcontext context;
};

enum kind { COPY, FILL, KERNEL, RECORD, WAIT, WRITE };

struct operation {
    struct operation *next;
    enum kind kind;
    char *dst;
    const char *src;
    size_t dst_pitch, src_pitch, width, height;
    unsigned char value;
    const char *name;
    struct gg_args args;
    CUevent event;
    unsigned long generation;
    void *record;
    struct clock clock; /* WRITE: what is done by then */
};

struct CUevent_st {
    CUcontext context;
    unsigned long recorded, done;
    void *record; /* the last one's moment */
    struct clock clock;
};

/* A graph, or an instantiated one. */
struct CUgraph_st {
    struct operation *first, *last;
    bool invalid;
    const struct CUgraph_st *from; /* what an instantiated one was made from */
    CUcontext context;             /* and below: of one made by hand */
    CUgraphNode end;
    int nodes, edges;
};

struct CUstream_st {
    struct CUstream_st *next; /* in the list of all streams */
    CUcontext context;
    unsigned long long id;
    int number; /* the stream's index in a clock */
    struct clock clock;
    struct CUgraph_st *capture; /* NULL: the stream is not being captured */
    struct operation *first, *last;
    unsigned long enqueued, finished;
    bool destroyed;
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct allocation allocations[ALLOCATIONS];
    struct CUctx_st contexts[DEVICES];
    struct CUstream_st *streams;
    unsigned long long stream_ids;
    bool taken[CLOCKS];    /* numbers of streams */
    struct clock enqueued; /* so many on each, and on those that had its number before */
    _Atomic pid_t pid;
} f = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

/* ThreadSanitizer is to know only of the order that the driver promises, not of the fake's lock: from enqueue() to the operation, from that to the
 * next one of its stream, and to those who wait for it. */
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
void AnnotateIgnoreSyncBegin(const char *file, int line);
void AnnotateIgnoreSyncEnd(const char *file, int line);
void AnnotateIgnoreReadsBegin(const char *file, int line);
void AnnotateIgnoreReadsEnd(const char *file, int line);
void AnnotateIgnoreWritesBegin(const char *file, int line);
void AnnotateIgnoreWritesEnd(const char *file, int line);
static void unwatched(bool yes)
{
    (yes ? AnnotateIgnoreSyncBegin : AnnotateIgnoreSyncEnd)(__FILE__, __LINE__);
    (yes ? AnnotateIgnoreReadsBegin : AnnotateIgnoreReadsEnd)(__FILE__, __LINE__);
    (yes ? AnnotateIgnoreWritesBegin : AnnotateIgnoreWritesEnd)(__FILE__, __LINE__);
}
static void happens_before(void *what) { __tsan_release(what); }
static void happens_after(void *what) { __tsan_acquire(what); }
static void *moment(void) { return malloc(1); } /* its name, never freed */
#else
static void unwatched(bool yes) { (void)yes; }
static void happens_before(void *what) { (void)what; }
static void happens_after(void *what) { (void)what; }
static void *moment(void) { return NULL; }
#endif

static void lock(void)
{
    unwatched(true);
    pthread_mutex_lock(&f.lock);
}

static void unlock(void)
{
    pthread_mutex_unlock(&f.lock);
    unwatched(false);
}

static _Thread_local CUcontext stack[16]; /* the current context is on top */
static _Thread_local int contexts, pushed; /* how many; and how many of them by cuCtxPushCurrent, as the library does (tests make theirs current) */
static _Thread_local int running_on = -1; /* in a stream's thread: its GPU */
static _Thread_local CUstream per_thread[DEVICES];

static CUcontext current(void) { return contexts ? stack[contexts - 1] : NULL; }
static int device_of(CUcontext context) { return (int)(context - f.contexts); }

static void die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("fake CUDA: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    abort();
}

static void check(const char *name, bool needs_context)
{
    if (f.pid && f.pid != getpid())
        die("%s in a forked child", name);
    if (needs_context && !current())
        die("%s without a current context", name);
}

#define ENTER(needs_context) check(__func__, needs_context)

static size_t memory_size(void)
{
    const char *text = getenv("FAKE_CUDA_MEMORY");
    return text ? strtoull(text, NULL, 10) : (size_t)1 << 30;
}

static int architecture(void)
{
    const char *text = getenv("FAKE_CUDA_ARCH");
    return text ? atoi(text) : 70;
}

static int devices(void)
{
    const char *text = getenv("FAKE_CUDA_DEVICES");
    const int count = text ? atoi(text) : 1;
    return count < DEVICES ? count : DEVICES;
}

static unsigned shared_memory(void) { return architecture() >= 90 ? 232448 : architecture() == 80 ? 166912 : 98304; }

/* ---- memory -------------------------------------------------------------------------------------------------------------------- */

/* Under the lock. */
static void check_locked(void)
{
    const char *text = getenv("FAKE_CUDA_LOCKED");
    size_t bytes = 0;
    for (const struct allocation *a = f.allocations; text && a < f.allocations + ALLOCATIONS; a++)
        bytes += a->address && a->own ? a->bytes : 0;
    if (text && bytes > strtoull(text, NULL, 10))
        die("%zu bytes of page-locked memory", bytes);
}

static CUresult add(struct allocation new)
{
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    lock();
    bool device = new.address != new.shadow;
    new.device = device_of(current());
    size_t *used = &f.contexts[new.device].used;
    for (int i = 0; i < ALLOCATIONS && result && (!device || *used + new.bytes <= memory_size()); i++)
        if (!f.allocations[i].address) {
            f.allocations[i] = new;
            *used += device ? new.bytes : 0;
            result = CUDA_SUCCESS;
        }
    if (new.own)
        check_locked();
    unlock();
    return result;
}

/* Under the lock. */
static struct allocation *allocation_of(const void *pointer)
{
    for (struct allocation *a = f.allocations; a < f.allocations + ALLOCATIONS; a++)
        if (a->address && (const char *)pointer >= a->address && (const char *)pointer < a->address + a->bytes)
            return a;
    return NULL;
}

static void forget(const struct allocation *a);

static struct allocation find(const void *pointer, bool freed)
{
    lock();
    struct allocation *a = allocation_of(pointer);
    const struct allocation found = a ? *a : (struct allocation){0};
    if (a && freed) {
        f.contexts[a->device].used -= a->address != a->shadow ? a->bytes : 0;
        *a = (struct allocation){0};
        forget(&found);
    }
    unlock();
    return found;
}

/* The address at which the fake can access `bytes` bytes at an address in GPU or host memory. */
static char *see(const void *pointer, size_t bytes, bool must_be_device, const char *what)
{
    struct allocation a = find(pointer, false);
    if (!a.address) {
        if (must_be_device)
            die("%s: %p is not in GPU memory", what, pointer);
        return (char *)pointer;
    }
    if (must_be_device && a.address != a.shadow && a.device != running_on && !a.managed)
        die("%s: %p is in the memory of GPU %d, and the kernel runs on GPU %d", what, pointer, a.device, running_on);
    if ((const char *)pointer + bytes > a.address + a.bytes)
        die("%s: %zu bytes at %p run %zu past their allocation", what, bytes, pointer,
            (size_t)((const char *)pointer + bytes - (a.address + a.bytes)));
    return a.shadow + ((const char *)pointer - a.address);
}

static CUresult allocate(CUdeviceptr *pointer, struct allocation new)
{
    const size_t bytes = new.bytes, room = (bytes + 8191) & ~(size_t)4095;
    int fd = memfd_create("gpu", 0);
    if (bytes == 0 || fd < 0 || ftruncate(fd, (off_t)room))
        return CUDA_ERROR_INVALID_VALUE;
    new.address = mmap(NULL, room, new.managed ? PROT_READ | PROT_WRITE : PROT_NONE, MAP_SHARED, fd, 0);
    new.shadow = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    *pointer = (CUdeviceptr)new.address;
    CUresult result = add(new);
    if (result)
        munmap(new.address, room), munmap(new.shadow, room);
    else
        memset(new.shadow, 0xff, bytes); /* NaN: nothing is zero by chance */
    return result;
}

CUresult cuMemAlloc(CUdeviceptr *pointer, size_t bytes)
{
    ENTER(true);
    return allocate(pointer, (struct allocation){.bytes = bytes});
}

CUresult cuMemAllocManaged(CUdeviceptr *pointer, size_t bytes, unsigned flags) /* any GPU may use it, and the host */
{
    (void)flags;
    ENTER(true);
    return allocate(pointer, (struct allocation){.bytes = bytes, .managed = true});
}

CUresult cuMemAllocAsync(CUdeviceptr *pointer, size_t bytes, CUstream stream) /* at once */
{
    (void)stream;
    ENTER(true);
    return allocate(pointer, (struct allocation){.bytes = bytes, .pooled = true});
}

CUresult cuMemHostAlloc(void **pointer, size_t bytes, unsigned flags)
{
    (void)flags;
    ENTER(true);
    *pointer = malloc(bytes);
    return *pointer ? add((struct allocation){.address = *pointer, .shadow = *pointer, .bytes = bytes, .own = pushed > 0}) : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemHostRegister(void *pointer, size_t bytes, unsigned flags)
{
    (void)flags;
    ENTER(true);
    return add((struct allocation){.address = pointer, .shadow = pointer, .bytes = bytes, .locked = true});
}

CUresult cuMemHostUnregister(void *pointer) /* work that is still to come must not use it: see() dies, or the memory is gone */
{
    ENTER(true);
    if (find(pointer, true).address != (char *)pointer)
        return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    return CUDA_SUCCESS;
}

static CUresult drain(CUstream stream);
static void drain_all(bool told);

CUresult cuMemFree(CUdeviceptr pointer) /* waits for the GPU, as the real driver does */
{
    ENTER(true);
    drain_all(false);
    struct allocation a = find((void *)pointer, true);
    if (a.address != (char *)pointer)
        die("cuMemFree of %p", (void *)pointer);
    madvise(a.shadow, (a.bytes + 8191) & ~(size_t)4095, MADV_REMOVE);
    return CUDA_SUCCESS; /* stays mapped for ever, without its pages: see() finds a late access */
}

CUresult cuMemFreeHost(void *pointer)
{
    ENTER(true);
    drain_all(false);
    find(pointer, true);
    free(pointer);
    return CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange(CUdeviceptr *base, size_t *bytes, CUdeviceptr pointer)
{
    ENTER(false);
    struct allocation a = find((void *)pointer, false);
    *base = (CUdeviceptr)a.address;
    *bytes = a.bytes;
    return a.address ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult cuMemGetInfo(size_t *free_bytes, size_t *total)
{
    ENTER(true);
    *total = memory_size();
    lock();
    *free_bytes = *total - current()->used;
    unlock();
    return CUDA_SUCCESS;
}

CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute *what, void **values, CUdeviceptr pointer)
{
    if (!f.pid)
        return CUDA_ERROR_NOT_INITIALIZED;
    struct allocation a = find((void *)pointer, false);
    for (unsigned i = 0; i < count; i++)
        switch (what[i]) {
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
            *(CUmemorytype *)values[i] = !a.address ? 0 : a.address == a.shadow ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
            break;
        case CU_POINTER_ATTRIBUTE_IS_MANAGED: *(unsigned *)values[i] = a.managed; break;
        case CU_POINTER_ATTRIBUTE_CONTEXT: *(CUcontext *)values[i] = a.address && !a.pooled ? &f.contexts[a.device] : NULL; break;
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: *(int *)values[i] = a.device; break;
        case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: *(CUdeviceptr *)values[i] = (CUdeviceptr)pointer; break;
        case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: *(CUdeviceptr *)values[i] = (CUdeviceptr)a.address; break;
        case CU_POINTER_ATTRIBUTE_RANGE_SIZE: *(size_t *)values[i] = a.bytes; break;
        default: return CUDA_ERROR_INVALID_VALUE;
        }
    return CUDA_SUCCESS;
}

/* All memory of the context is gone; whatever still uses it crashes, or dies in see(). */
CUresult cuDevicePrimaryCtxReset(CUdevice device)
{
    if (!f.pid)
        return CUDA_ERROR_NOT_INITIALIZED;
    drain_all(true);
    lock();
    for (int i = 0; i < ALLOCATIONS; i++) {
        struct allocation *a = &f.allocations[i];
        if (!a->address || a->device != device)
            continue;
        if (a->address == a->shadow && !a->locked)
            free(a->address);
        forget(a);
        *a = (struct allocation){0};
    }
    f.contexts[device].used = 0;
    f.contexts[device].id++;
    unlock();
    return CUDA_SUCCESS;
}

#include "fake_kernels.h"
#include "fake_races.h"
#include "fake_streams.h"

/* ---- work -------------------------------------------------------------------------------------------------------------------------- */

/* Does it begin in memory that the program has registered, and end elsewhere? */
static bool leaves_registered(const void *pointer, const struct operation *o, size_t pitch)
{
    const struct allocation a = find(pointer, false);
    return a.locked && (const char *)pointer + pitch * (o->height - 1) + o->width > a.address + a.bytes;
}

/* As in the real driver, a copy of pageable memory is complete when the call returns, and registered memory is copied within one registration. */
static CUresult copy(const struct operation *o, CUstream stream)
{
    if (leaves_registered(o->src, o, o->src_pitch) || leaves_registered(o->dst, o, o->dst_pitch))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = enqueue(stream, o);
    return !find(o->src, false).address || !find(o->dst, false).address ? drain(stream) : result;
}

CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream)
{
    ENTER(true);
    return copy(&(struct operation){.kind = COPY, .dst = (char *)dst, .src = (char *)src, .width = bytes, .height = 1}, stream);
}

CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D *c, CUstream stream)
{
    ENTER(true);
    if (c->srcPitch < c->WidthInBytes || c->dstPitch < c->WidthInBytes)
        return CUDA_ERROR_INVALID_VALUE;
    return copy(&(struct operation){.kind = COPY, .dst = (char *)c->dstDevice, .src = (char *)c->srcDevice, .dst_pitch = c->dstPitch,
                                   .src_pitch = c->srcPitch, .width = c->WidthInBytes, .height = c->Height}, stream);
}

CUresult cuMemsetD8Async(CUdeviceptr dst, unsigned char value, size_t bytes, CUstream stream)
{
    ENTER(true);
    return enqueue(stream, &(struct operation){.kind = FILL, .dst = (char *)dst, .width = bytes, .value = value});
}

/* The host, which may look at the word at any time, then knows what was before. */
CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr word, cuuint32_t value, unsigned flags)
{
    ENTER(true);
    if (word % sizeof value || flags)
        return CUDA_ERROR_INVALID_VALUE;
    return enqueue(stream, &(struct operation){.kind = WRITE, .dst = (char *)word, .width = value});
}

CUresult cuMemcpyHtoD(CUdeviceptr dst, const void *src, size_t bytes) { return cuMemcpyAsync(dst, (CUdeviceptr)src, bytes, NULL); }
CUresult cuMemcpyDtoH(void *dst, CUdeviceptr src, size_t bytes) { return cuMemcpyAsync((CUdeviceptr)dst, src, bytes, NULL); }

/* Enqueues a kernel's problem; for a …_two kernel both of its problems. */
static CUresult enqueue_kernel(CUstream stream, const char *name, const struct gg_args *args)
{
    CUresult result = CUDA_SUCCESS;
    for (int i = 0; i < problems_of(name) && result == CUDA_SUCCESS; i++)
        result = enqueue(stream, &(struct operation){.kind = KERNEL, .name = name, .args = args[i]});
    return result;
}

CUresult cuLaunchKernel(CUfunction function, unsigned x, unsigned y, unsigned z, unsigned tx, unsigned ty, unsigned tz, unsigned shared,
                        CUstream stream, void **parameters, void **extra)
{
    ENTER(true);
    if (!x || !y || !z || !tx || ty * tz != 1 || shared > shared_memory() || extra)
        return CUDA_ERROR_INVALID_VALUE;
    if (function->context != current() || real_stream(stream)->context != current())
        return CUDA_ERROR_INVALID_HANDLE;
    return enqueue_kernel(stream, function->name, parameters[0]);
}

/* Early start and clusters make no difference here, but a grid must consist of whole clusters. */
CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra)
{
    ENTER(true);
    for (unsigned i = 0; i < config->numAttrs; i++) {
        const CUlaunchAttribute *how = &config->attrs[i];
        if (architecture() < 90 ||
            (how->id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION && (!how->value.clusterDim.x || config->gridDimX % how->value.clusterDim.x)))
            return CUDA_ERROR_INVALID_VALUE;
    }
    return cuLaunchKernel(function, config->gridDimX, config->gridDimY, config->gridDimZ, config->blockDimX, config->blockDimY, config->blockDimZ,
                          config->sharedMemBytes, config->hStream, parameters, extra);
}

/* ---- what the driver says about itself ------------------------------------------------------------------------------------------ */

CUresult cuInit(unsigned flags)
{
    (void)flags;
    ENTER(false);
    f.pid = getpid();
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute what, CUdevice device)
{
    (void)device;
    ENTER(false);
    *value = what == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR                                      ? architecture() / 10
             : what == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR                                    ? architecture() % 10
             : what == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT                                        ? 8
             : what == CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH                                     ? 256
             : what == CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN                           ? (int)shared_memory()
             : what == CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR                        ? (int)shared_memory()
             : what == CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE                                               ? 4 << 20
             : what == CU_DEVICE_ATTRIBUTE_CLOCK_RATE || what == CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE ? 1000000
                                                                                                       : 0;
    return CUDA_SUCCESS;
}

#define TRIVIAL(name, parameters, needs_context, ...)                                                                  \
    CUresult name parameters                                                                                           \
    {                                                                                                                  \
        ENTER(needs_context);                                                                                          \
        __VA_ARGS__;                                                                                                   \
        return CUDA_SUCCESS;                                                                                           \
    }
TRIVIAL(cuGetErrorString, (CUresult e, const char **text), false, (void)e, *text = "a planned failure")
TRIVIAL(cuDriverGetVersion, (int *version), false, *version = CUDA_VERSION)
TRIVIAL(cuDeviceGetCount, (int *count), false, *count = devices())
TRIVIAL(cuDeviceGetName, (char *name, int length, CUdevice device), false, (void)device, snprintf(name, (size_t)length, "fake"))
TRIVIAL(cuDeviceTotalMem, (size_t *bytes, CUdevice device), false, (void)device, *bytes = memory_size())
TRIVIAL(cuDevicePrimaryCtxRetain, (CUcontext *context, CUdevice device), false, *context = &f.contexts[device])
TRIVIAL(cuDevicePrimaryCtxRelease, (CUdevice device), false, (void)device)
TRIVIAL(cuDevicePrimaryCtxGetState, (CUdevice device, unsigned *flags, int *active), false, (void)device, *flags = 0, *active = 1)
TRIVIAL(cuCtxSetCurrent, (CUcontext context), false, contexts += !contexts, stack[contexts - 1] = context)
TRIVIAL(cuCtxPushCurrent, (CUcontext context), false, pushed++, stack[contexts++] = context)
TRIVIAL(cuCtxGetCurrent, (CUcontext *context), false, *context = current())
TRIVIAL(cuCtxGetId, (CUcontext context, unsigned long long *id), false, *id = context->id + ((unsigned long long)device_of(context) << 32))
TRIVIAL(cuCtxGetDevice, (CUdevice *device), true, *device = device_of(current()))
TRIVIAL(cuFuncSetAttribute, (CUfunction function, CUfunction_attribute what, int value), true, (void)function, (void)what, (void)value)

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    ENTER(false);
    *device = ordinal;
    return ordinal >= 0 && ordinal < devices() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    (void)image;
    ENTER(true);
    *module = malloc(sizeof **module);
    (*module)->context = current();
    return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    ENTER(true);
    *function = malloc(sizeof **function + strlen(name) + 1);
    (*function)->context = module->context;
    strcpy((*function)->name, name);
    return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent(CUcontext *context)
{
    if (contexts == 0)
        die("cuCtxPopCurrent without cuCtxPushCurrent");
    *context = stack[--contexts];
    pushed--;
    leave();
    return CUDA_SUCCESS;
}

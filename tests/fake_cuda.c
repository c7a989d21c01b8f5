/* fake_cuda.c — a libcuda.so.1 without a GPU, to run the whole GPU side of the library where there is none: in CI, under sanitizers, and, with
 * fail_cuda.c in front of it, with planned failures.
 *
 * Device memory is not readable through its own addresses, so host code that touches it crashes; the fake sees it through a second mapping
 * and checks every access against its allocation. Streams are threads that run late and at their own pace: a missing wait shows as a
 * wrong result (or to ThreadSanitizer). Kernels are plain loops over struct gg_args, whichever the library chooses. Tensor maps must be such as the
 * driver takes, and describe the operands. A chain for the tensor cores multiplies nothing but what has been split before; few elements are such that
 * they are not certified, so each tier has its turn. What comes on a stream that is being captured is kept for a graph; to wait for the stream or to ask
 * for its id ends the capture. Any call in a forked child of a process that has called cuInit aborts.
 *
 *   FAKE_CUDA_MEMORY    bytes of the GPU, 1 GiB by default
 *   FAKE_CUDA_ARCH      its compute capability: 70, which has the simple rows only, by default; 90 has all
 *   FAKE_CUDA_DEVICES   how many GPUs there are, 1 by default: each with memory and streams of its own, and none can reach another's by a kernel */
#include <cuda.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../cuda/kernel.h"

enum { ALLOCATIONS = 4096, DEVICES = 16 };

struct allocation {
    char *address, *shadow; /* equal for page-locked host memory */
    size_t bytes;
    int device;
};

/* A GPU, and its one context. */
struct CUctx_st {
    size_t used; /* bytes of its memory */
    struct CUstream_st *legacy;
    _Atomic unsigned long long id;
};

/* What is of a context, and nobody else's. */
struct CUfunc_st {
    CUcontext context;
    char name[];
};

struct CUmod_st {
    CUcontext context;
};

enum kind { COPY, FILL, KERNEL, RECORD, WAIT };

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
};

struct CUevent_st {
    CUcontext context;
    unsigned long recorded, done;
};

/* And one that has been instantiated. */
struct CUgraph_st {
    struct operation *first, *last;
    bool invalid;
};

struct CUstream_st {
    struct CUstream_st *next; /* in the list of all */
    CUcontext context;
    unsigned long long id;
    struct CUgraph_st *capture; /* NULL: it is not being captured */
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
    _Atomic pid_t pid;
} f = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static _Thread_local CUcontext stack[16]; /* the current context on top */
static _Thread_local int contexts;
static _Thread_local int running_on = -1; /* a stream's thread: which GPU it is */
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

static unsigned shared_memory(void) { return architecture() >= 90 ? 232448 : 98304; }

/* ---- memory -------------------------------------------------------------------------------------------------------------------- */

static CUresult add(struct allocation new)
{
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_lock(&f.lock);
    bool device = new.address != new.shadow;
    new.device = device_of(current());
    size_t *used = &f.contexts[new.device].used;
    for (int i = 0; i < ALLOCATIONS && result && (!device || *used + new.bytes <= memory_size()); i++)
        if (!f.allocations[i].address) {
            f.allocations[i] = new;
            *used += device ? new.bytes : 0;
            result = CUDA_SUCCESS;
        }
    pthread_mutex_unlock(&f.lock);
    return result;
}

static struct allocation find(const void *pointer, bool forget)
{
    struct allocation found = {0};
    pthread_mutex_lock(&f.lock);
    for (int i = 0; i < ALLOCATIONS && !found.address; i++) {
        struct allocation *a = &f.allocations[i];
        if (a->address && (const char *)pointer >= a->address && (const char *)pointer < a->address + a->bytes) {
            found = *a;
            if (forget) {
                f.contexts[a->device].used -= a->address != a->shadow ? a->bytes : 0;
                *a = (struct allocation){0};
            }
        }
    }
    pthread_mutex_unlock(&f.lock);
    return found;
}

/* Where the fake sees `bytes` at an address of the GPU's or of the host's. */
static char *see(const void *pointer, size_t bytes, bool must_be_device, const char *what)
{
    struct allocation a = find(pointer, false);
    if (!a.address) {
        if (must_be_device)
            die("%s: %p is not in GPU memory", what, pointer);
        return (char *)pointer;
    }
    if (must_be_device && a.address != a.shadow && a.device != running_on)
        die("%s: %p is in the memory of GPU %d, and the kernel runs on GPU %d", what, pointer, a.device, running_on);
    if ((const char *)pointer + bytes > a.address + a.bytes)
        die("%s: %zu bytes at %p run %zu past their allocation", what, bytes, pointer,
            (size_t)((const char *)pointer + bytes - (a.address + a.bytes)));
    return a.shadow + ((const char *)pointer - a.address);
}

CUresult cuMemAlloc(CUdeviceptr *pointer, size_t bytes)
{
    ENTER(true);
    int fd = memfd_create("gpu", 0);
    struct allocation new = {.bytes = bytes};
    size_t room = (bytes + 8191) & ~(size_t)4095;
    if (bytes == 0 || fd < 0 || ftruncate(fd, (off_t)room))
        return CUDA_ERROR_INVALID_VALUE;
    new.address = mmap(NULL, room, PROT_NONE, MAP_SHARED, fd, 0);
    new.shadow = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    *pointer = (CUdeviceptr)new.address;
    CUresult result = add(new);
    if (result)
        munmap(new.address, room), munmap(new.shadow, room);
    else
        memset(new.shadow, 0xff, bytes); /* NaN: nothing is zero by luck */
    return result;
}

CUresult cuMemHostAlloc(void **pointer, size_t bytes, unsigned flags)
{
    (void)flags;
    ENTER(true);
    *pointer = malloc(bytes);
    return *pointer ? add((struct allocation){.address = *pointer, .shadow = *pointer, .bytes = bytes}) : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult drain(CUstream stream);
CUresult cuCtxSynchronize(void);

CUresult cuMemFree(CUdeviceptr pointer) /* waits for the GPU, as the driver's does */
{
    ENTER(true);
    cuCtxSynchronize();
    struct allocation a = find((void *)pointer, true);
    if (a.address != (char *)pointer)
        die("cuMemFree of %p", (void *)pointer);
    madvise(a.shadow, (a.bytes + 8191) & ~(size_t)4095, MADV_REMOVE);
    return CUDA_SUCCESS; /* mapped for ever, without its pages: a late access is found by see() */
}

CUresult cuMemFreeHost(void *pointer)
{
    ENTER(true);
    cuCtxSynchronize();
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
    pthread_mutex_lock(&f.lock);
    *free_bytes = *total - current()->used;
    pthread_mutex_unlock(&f.lock);
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
        case CU_POINTER_ATTRIBUTE_IS_MANAGED: *(unsigned *)values[i] = 0; break;
        case CU_POINTER_ATTRIBUTE_CONTEXT: *(CUcontext *)values[i] = a.address ? &f.contexts[a.device] : NULL; break;
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: *(int *)values[i] = a.device; break;
        default: return CUDA_ERROR_INVALID_VALUE;
        }
    return CUDA_SUCCESS;
}

/* ---- streams: threads ---------------------------------------------------------------------------------------------------------- */

#define MULTIPLY(NAME, T)                                                                                              \
    static void NAME(const struct gg_args *p, bool product)                                                            \
    {                                                                                                                  \
        size_t span_c = (size_t)(p->ldc * (p->n - 1) + p->m) * sizeof(T);                                              \
        T *c = (T *)see(p->c, span_c, true, "C"), alpha = (T)p->alpha, beta = (T)p->beta;                              \
        const T *a = NULL, *b = NULL;                                                                                  \
        if (product) {                                                                                                 \
            a = (T *)see(p->a, (size_t)(p->a_kmajor ? p->lda * (p->m - 1) + p->k : p->lda * (p->k - 1) + p->m) * sizeof(T), true, "A");       \
            b = (T *)see(p->b, (size_t)(p->b_kmajor ? p->ldb * (p->n - 1) + p->k : p->ldb * (p->k - 1) + p->n) * sizeof(T), true, "B");       \
        }                                                                                                              \
        for (int64_t j = 0; j < p->n; j++)                                                                             \
            for (int64_t i = 0; i < p->m; i++) {                                                                       \
                T sum = 0, *out = c + i + j * p->ldc;                                                                  \
                for (int64_t l = 0; product && l < p->k; l++)                                                          \
                    sum += a[p->a_kmajor ? l + i * p->lda : i + l * p->lda] * b[p->b_kmajor ? l + j * p->ldb : j + l * p->ldb];               \
                *out = (product ? alpha * sum : 0) + (beta == 0 ? 0 : beta * *out);                                    \
            }                                                                                                          \
    }
MULTIPLY(multiply_s, float)
MULTIPLY(multiply_d, double)

/* What the fake's cuTensorMapEncodeTiled leaves in a map. */
struct map {
    const void *base;
    uint64_t inner, outer, pitch, size; /* of an element */
    int fill;
};

/* A kernel that reads its operands through tensor maps must have got maps of just these operands. */
static void check_map(const char *kernel, const char *operand, const struct gg_tensor_map *opaque, const void *base, int64_t x, int64_t k, int64_t ld,
                      bool kmajor)
{
    struct map m;
    memcpy(&m, opaque, sizeof m);
    const uint64_t size = strstr(kernel, "dgemm") ? 8 : 4, inner = (uint64_t)(kmajor ? k : x), outer = (uint64_t)(kmajor ? x : k);
    if (m.base != base || m.size != size || m.inner != inner || m.outer != outer || m.pitch != (uint64_t)ld * size || m.fill)
        die("%s: the map of %s is of %llu x %llu elements of %llu bytes at %p, pitch %llu, fill %d; the operand is %llu x %llu of %llu at %p, pitch "
            "%llu",
            kernel, operand, (unsigned long long)m.inner, (unsigned long long)m.outer, (unsigned long long)m.size, m.base,
            (unsigned long long)m.pitch, m.fill, (unsigned long long)inner, (unsigned long long)outer, (unsigned long long)size, base,
            (unsigned long long)ld * (unsigned long long)size);
}

/* x × k elements with x contiguous, as gg_pack_s writes them. */
static void pack(const void *from, int64_t ld, bool kmajor, void *to, int64_t x, int64_t k)
{
    const int64_t ld_to = (x + 3) / 4 * 4;
    const float *a = (float *)see(from, (size_t)(kmajor ? ld * (x - 1) + k : ld * (k - 1) + x) * sizeof *a, true, "an operand to be packed");
    float *packed = (float *)see(to, (size_t)(ld_to * (k - 1) + x) * sizeof *packed, true, "a packed operand");
    for (int64_t l = 0; l < k; l++)
        for (int64_t i = 0; i < x; i++)
            packed[i + l * ld_to] = a[kmajor ? l + i * ld : i + l * ld];
}

/* ---- chains: the pieces of an element, 4 bytes at least, hold the element itself ------------------------------------------------------------------
 */

static int64_t pieces_in(const char *name) { return strstr(name, "bf16") ? 3 : 2; }

/* Where a tier keeps an element of row i of an operand, of `rows` beginning at `pieces`. */
static float *piece_at(void *pieces, int64_t tier_pieces, int64_t k, int64_t i, int64_t l)
{
    const int64_t tile = 128, chunk = 64, padded = (k + chunk - 1) / chunk * chunk;
    return (float *)((char *)pieces + i / tile * (tile * padded * tier_pieces * 2)) + i % tile * padded + l;
}

static char *see_pieces(void *pieces, int64_t tier_pieces, int64_t rows, int64_t k)
{
    return see(pieces, (size_t)((rows + 127) / 128 * 128 * ((k + 63) / 64 * 64) * tier_pieces * 2), true, "pieces");
}

/* One in so many elements is not certified. */
static uint32_t verdict_on(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits = bits * 2654435761u >> 8;
    return (bits % 100003 == 0 ? GG_NOT_FP16 : 0) | (bits % 200003 == 0 ? GG_NOT_FP16 | GG_NOT_BF16 : 0);
}

static void split_operand(const char *name, const void *from, int64_t ld, bool kmajor, void *pieces, int64_t rows, int64_t k, uint32_t *verdict)
{
    if (rows == 0)
        return;
    const bool writes = strstr(name, "gg_split") && !strstr(name, "tf32");
    float *a = (float *)see(from, (size_t)(kmajor ? ld * (rows - 1) + k : ld * (k - 1) + rows) * sizeof *a, true, "an operand to be split");
    char *to = writes ? see_pieces(pieces, pieces_in(name), rows, k) : NULL;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t l = 0; l < k; l++) {
            const float x = a[kmajor ? l + i * ld : i + l * ld];
            *verdict |= strstr(name, "tf32") ? GG_NOT_FP16 : verdict_on(x);
            if (to)
                *piece_at(to, pieces_in(name), k, i, l) = x;
        }
}

static void multiply_pieces(const char *name, const struct gg_args *p)
{
    char *a = see_pieces(p->pieces_a, pieces_in(name), p->m, p->k), *b = see_pieces(p->pieces_b, pieces_in(name), p->n, p->k);
    float *c = (float *)see(p->c, (size_t)(p->ldc * (p->n - 1) + p->m) * sizeof *c, true, "C"), beta = (float)p->beta;
    for (int64_t j = 0; j < p->n; j++)
        for (int64_t i = 0; i < p->m; i++) {
            float sum = 0, *out = c + i + j * p->ldc;
            for (int64_t l = 0; l < p->k; l++)
                sum += *piece_at(a, pieces_in(name), p->k, i, l) * *piece_at(b, pieces_in(name), p->k, j, l);
            *out = (float)p->alpha * sum + (beta == 0 ? 0 : beta * *out);
        }
}

static void run_kernel(const char *name, const struct gg_args *p)
{
    if (strstr(name, "fixup") || strstr(name, "_sum")) /* a product is done whole: no parts are left to be added */
        return;
    uint32_t *verdict = p->verdict ? (uint32_t *)see(p->verdict, sizeof *verdict, true, "verdict") : NULL;
    const bool gated = verdict && (*verdict & p->gate_mask) != p->gate_value;
    if (gated && !strstr(name, "or_ffma"))
        return;
    if (strstr(name, "gg_split") || strstr(name, "gg_certify")) {
        const bool was = *verdict & GG_WAS_BF16 && strstr(name, "bf16");
        if (!was || !p->keeps_a)
            split_operand(name, p->a, p->lda, p->a_kmajor, p->pieces_a, p->m, p->k, verdict);
        if (!was || !p->keeps_b)
            split_operand(name, p->b, p->ldb, p->b_kmajor, p->pieces_b, p->n, p->k, verdict);
        return;
    }
    if (strstr(name, "tensor_") && !gated) {
        if (strstr(name, "bf16"))
            *verdict |= GG_WAS_BF16;
        multiply_pieces(name, p);
        return;
    }
    if (strstr(name, "gg_pack")) {
        if (p->c)
            pack(p->a, p->lda, p->a_kmajor, p->c, p->m, p->k);
        if (p->workspace)
            pack(p->b, p->ldb, p->b_kmajor, p->workspace, p->n, p->k);
        return;
    }
    if (strstr(name, "_tma_")) {
        check_map(name, "A", &p->map_a, p->a, p->m, p->k, p->lda, p->a_kmajor);
        check_map(name, "B", &p->map_b, p->b, p->n, p->k, p->ldb, p->b_kmajor);
    }
    (strstr(name, "dgemm") || strstr(name, "_d") ? multiply_d : multiply_s)(p, !strstr(name, "scale"));
}

static void run(const struct operation *o)
{
    if (o->kind == COPY)
        for (size_t i = 0; i < o->height; i++)
            memcpy(see(o->dst + i * o->dst_pitch, o->width, false, "copy to"), see(o->src + i * o->src_pitch, o->width, false, "copy from"),
                   o->width);
    else if (o->kind == FILL)
        memset(see(o->dst, o->width, false, "fill"), o->value, o->width);
    else if (o->kind == KERNEL)
        run_kernel(o->name, &o->args);
}

static void *stream_thread(void *argument)
{
    CUstream s = argument;
    running_on = device_of(s->context);
    unsigned pace = (unsigned)(uintptr_t)argument;
    pthread_mutex_lock(&f.lock);
    for (;;) {
        while (!s->first || (s->first->kind == WAIT && s->first->event->done < s->first->generation)) {
            if (s->destroyed && !s->first) { /* what was enqueued before is done first */
                CUstream *at = &f.streams;
                while (*at != s)
                    at = &(*at)->next;
                *at = s->next;
                pthread_mutex_unlock(&f.lock);
                free(s);
                return NULL;
            }
            pthread_cond_wait(&f.changed, &f.lock);
        }
        struct operation *o = s->first;
        pthread_mutex_unlock(&f.lock);
        pace = pace * 1103515245 + 12345;
        if (pace >> 28 == 0)
            usleep(pace >> 20 & 127);
        run(o);
        pthread_mutex_lock(&f.lock);
        if (o->kind == RECORD && o->event->done < o->generation)
            o->event->done = o->generation;
        s->first = o->next;
        s->finished++;
        free(o);
        pthread_cond_broadcast(&f.changed);
    }
    return NULL;
}

static void start_stream(CUstream s)
{
    pthread_t thread;
    s->next = f.streams;
    f.streams = s;
    if (pthread_create(&thread, NULL, stream_thread, s))
        die("no thread for a stream");
    pthread_detach(thread);
}

/* Under the lock. */
static CUstream new_stream(void)
{
    CUstream s = calloc(1, sizeof *s);
    s->context = current();
    s->id = ++f.stream_ids;
    start_stream(s);
    return s;
}

/* The two that have a name are the current context's. */
static CUstream real_stream(CUstream s)
{
    if (s && s != CU_STREAM_LEGACY && s != CU_STREAM_PER_THREAD)
        return s;
    CUstream *named = s == CU_STREAM_PER_THREAD ? &per_thread[device_of(current())] : &current()->legacy;
    pthread_mutex_lock(&f.lock);
    if (!*named)
        *named = new_stream();
    pthread_mutex_unlock(&f.lock);
    return *named;
}

static CUresult enqueue(CUstream stream, const struct operation *o)
{
    CUstream s = real_stream(stream);
    if (o->kind == RECORD && o->event->context != s->context)
        return CUDA_ERROR_INVALID_HANDLE;
    struct operation *copy = aligned_alloc(64, (sizeof *o + 63) / 64 * 64);
    *copy = *o;
    copy->next = NULL;
    pthread_mutex_lock(&f.lock);
    if (s->capture) {
        s->capture->invalid |= o->kind == RECORD || o->kind == WAIT;
        *(s->capture->first ? &s->capture->last->next : &s->capture->first) = copy;
        s->capture->last = copy;
        pthread_mutex_unlock(&f.lock);
        return CUDA_SUCCESS;
    }
    if (copy->kind == RECORD)
        copy->generation = ++copy->event->recorded;
    if (copy->kind == WAIT)
        copy->generation = copy->event->recorded;
    *(s->first ? &s->last->next : &s->first) = copy;
    s->last = copy;
    s->enqueued++;
    pthread_cond_broadcast(&f.changed);
    pthread_mutex_unlock(&f.lock);
    return CUDA_SUCCESS;
}

static CUresult drain(CUstream stream)
{
    CUstream s = real_stream(stream);
    pthread_mutex_lock(&f.lock);
    while (s->finished < s->enqueued)
        pthread_cond_wait(&f.changed, &f.lock);
    pthread_mutex_unlock(&f.lock);
    return CUDA_SUCCESS;
}

CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority)
{
    (void)flags, (void)priority;
    ENTER(true);
    pthread_mutex_lock(&f.lock);
    *stream = new_stream();
    pthread_mutex_unlock(&f.lock);
    return CUDA_SUCCESS;
}

CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode)
{
    (void)mode;
    ENTER(true);
    real_stream(stream)->capture = calloc(1, sizeof *stream->capture);
    return CUDA_SUCCESS;
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
    ENTER(true);
    CUstream s = real_stream(stream);
    *graph = s->capture->invalid ? NULL : s->capture;
    s->capture = NULL;
    return *graph ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
    (void)flags;
    ENTER(true);
    *exec = (CUgraphExec)graph;
    return CUDA_SUCCESS;
}

static CUresult enqueue(CUstream stream, const struct operation *o);

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
    ENTER(true);
    for (const struct operation *o = ((CUgraph)exec)->first; o; o = o->next)
        enqueue(stream, o);
    return CUDA_SUCCESS;
}

static bool ends_capture(CUstream stream)
{
    struct CUgraph_st *capture = real_stream(stream)->capture;
    if (capture)
        capture->invalid = true;
    return capture != NULL;
}

CUresult cuStreamGetId(CUstream stream, unsigned long long *id)
{
    ENTER(true);
    if (ends_capture(stream))
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    *id = real_stream(stream)->id;
    return CUDA_SUCCESS;
}

CUresult cuStreamDestroy(CUstream stream)
{
    ENTER(true);
    pthread_mutex_lock(&f.lock);
    stream->destroyed = true;
    pthread_cond_broadcast(&f.changed);
    pthread_mutex_unlock(&f.lock);
    return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize(void)
{
    ENTER(false);
    pthread_mutex_lock(&f.lock);
    for (CUstream s = f.streams; s;)
        if (s->finished < s->enqueued) {
            pthread_cond_wait(&f.changed, &f.lock);
            s = f.streams; /* one may have gone meanwhile */
        } else {
            s = s->next;
        }
    pthread_mutex_unlock(&f.lock);
    return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream stream)
{
    ENTER(true);
    return ends_capture(stream) ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : drain(stream);
}

/* All memory of the context is gone; what still uses it crashes, or dies in see(). */
CUresult cuDevicePrimaryCtxReset(CUdevice device)
{
    if (!f.pid)
        return CUDA_ERROR_NOT_INITIALIZED;
    cuCtxSynchronize();
    pthread_mutex_lock(&f.lock);
    for (int i = 0; i < ALLOCATIONS; i++) {
        struct allocation *a = &f.allocations[i];
        if (!a->address || a->device != device)
            continue;
        if (a->address == a->shadow)
            free(a->address);
        *a = (struct allocation){0};
    }
    f.contexts[device].used = 0;
    f.contexts[device].id++;
    pthread_mutex_unlock(&f.lock);
    return CUDA_SUCCESS;
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status)
{
    ENTER(true);
    const struct CUgraph_st *capture = real_stream(stream)->capture;
    *status = !capture ? CU_STREAM_CAPTURE_STATUS_NONE : capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    return CUDA_SUCCESS;
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    static _Thread_local CUstreamCaptureMode current = CU_STREAM_CAPTURE_MODE_GLOBAL;
    CUstreamCaptureMode before = current;
    ENTER(true);
    current = *mode;
    *mode = before;
    return CUDA_SUCCESS;
}

CUresult cuEventCreate(CUevent *event, unsigned flags)
{
    (void)flags;
    ENTER(true);
    *event = calloc(1, sizeof **event);
    (*event)->context = current();
    return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
    ENTER(true);
    return enqueue(stream, &(struct operation){.kind = RECORD, .event = event});
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
    (void)flags;
    ENTER(true);
    return enqueue(stream, &(struct operation){.kind = WAIT, .event = event});
}

static CUresult event_state(CUevent event, bool wait)
{
    pthread_mutex_lock(&f.lock);
    while (wait && event->done < event->recorded)
        pthread_cond_wait(&f.changed, &f.lock);
    CUresult result = event->done < event->recorded ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
    pthread_mutex_unlock(&f.lock);
    return result;
}

CUresult cuEventSynchronize(CUevent event)
{
    ENTER(true);
    return event_state(event, true);
}

CUresult cuEventQuery(CUevent event)
{
    ENTER(true);
    return event_state(event, false);
}

/* As the driver does, a copy of pageable memory is over when the call returns. */
static CUresult copy(const struct operation *o, CUstream stream)
{
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

CUresult cuMemcpyHtoD(CUdeviceptr dst, const void *src, size_t bytes) { return cuMemcpyAsync(dst, (CUdeviceptr)src, bytes, NULL); }
CUresult cuMemcpyDtoH(void *dst, CUdeviceptr src, size_t bytes) { return cuMemcpyAsync((CUdeviceptr)dst, src, bytes, NULL); }

/* The problem of most kernels; of a …_two both. */
static CUresult enqueue_kernel(CUstream stream, const char *name, const struct gg_args *args)
{
    CUresult result = CUDA_SUCCESS;
    for (int i = 0; i <= (strstr(name, "_two") != NULL) && result == CUDA_SUCCESS; i++)
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

/* Early or in clusters: it is all the same here, but a grid must consist of whole clusters. */
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

/* All twelve arguments are looked at: what stands between the library and the driver must hand on every one. */
CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *base, const cuuint64_t *dims,
                                const cuuint64_t *pitches, const cuuint32_t *box, const cuuint32_t *steps, CUtensorMapInterleave interleave,
                                CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2, CUtensorMapFloatOOBfill fill)
{
    ENTER(false);
    const uint64_t size = type == CU_TENSOR_MAP_DATA_TYPE_FLOAT64 ? 8 : 4;
    const bool line = swizzle == CU_TENSOR_MAP_SWIZZLE_NONE || box[0] * size <= 16u << swizzle;
    if ((type != CU_TENSOR_MAP_DATA_TYPE_FLOAT64 && type != CU_TENSOR_MAP_DATA_TYPE_FLOAT32) || rank != 2 || (uintptr_t)base % 16 ||
        pitches[0] % 16 || !dims[0] || !dims[1] || dims[0] > UINT64_C(1) << 32 || dims[1] > UINT64_C(1) << 32 || pitches[0] >= UINT64_C(1) << 40 ||
        !box[0] || box[0] > 256 || !box[1] || box[1] > 256 || box[0] * size % 16 || !line || steps[0] != 1 || steps[1] != 1 ||
        interleave != CU_TENSOR_MAP_INTERLEAVE_NONE || (unsigned)swizzle > CU_TENSOR_MAP_SWIZZLE_128B ||
        (unsigned)l2 > CU_TENSOR_MAP_L2_PROMOTION_L2_256B || (unsigned)fill > CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA)
        return CUDA_ERROR_INVALID_VALUE;
    _Static_assert(sizeof(struct map) <= sizeof *map, "the fake's map fits");
    const struct map m = {base, dims[0], dims[1], pitches[0], size, (int)fill};
    memcpy(map, &m, sizeof m);
    return CUDA_SUCCESS;
}

/* ---- what it says of itself ------------------------------------------------------------------------------------------------------ */

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
TRIVIAL(cuCtxSetCurrent, (CUcontext context), false, contexts += !contexts, stack[contexts - 1] = context)
TRIVIAL(cuCtxPushCurrent, (CUcontext context), false, stack[contexts++] = context)
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
    return CUDA_SUCCESS;
}

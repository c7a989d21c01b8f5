/* work.c — owns what is done with a device but launches: entering and leaving contexts, streams, events, memory, copies, and the workspace of each
 * stream. Called by device.c, launch.c, tensor.c and the staged path, between gg_gpu_enter and gg_gpu_leave. */
#include "driver.h"

#include <errno.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../cuda/kernel.h"
#include "kernels.h"

/* ---- context, streams, events, memory ------------------------------------------------------------------------------------------- */

/* Between enter and leave the capture mode is relaxed: an allocation of ours must not break a capture that this thread has in progress on a stream of
 * its own. Meanwhile this holds the thread's own mode. */
static _Thread_local CUstreamCaptureMode capture_mode;
static _Thread_local bool capture_mode_kept, was_current; /* the context, before enter */

/* Does the device's context exist? 1: yes, 0: it is gone, -1: the driver does not tell. */
static int is_there(struct gg_device *dev)
{
    unsigned long long id;
    CUresult e = gg_cu.cuCtxGetId(gg_state_of(dev)->context, &id);
    if (e == CUDA_SUCCESS)
        return id == gg_state_of(dev)->id;
    if (e == CUDA_ERROR_CONTEXT_IS_DESTROYED || e == CUDA_ERROR_INVALID_CONTEXT)
        return 0;
    (void)gg_driver_ok(e, "cuCtxGetId");
    return -1;
}

bool gg_gpu_is_there(struct gg_device *dev) { return is_there(dev) == 1; }
bool gg_gpu_is_gone(struct gg_device *dev) { return is_there(dev) == 0; }

bool gg_gpu_enter(struct gg_device *dev)
{
    int there = is_there(dev);
    if (there == 0)
        gg_gpu_replace(dev);
    if (there <= 0)
        return false;
    CUcontext current;
    was_current = gg_cu.cuCtxGetCurrent(&current) == CUDA_SUCCESS && current == gg_state_of(dev)->context; /* saves 50 ns */
    if (!was_current && !GG_CU(cuCtxPushCurrent, gg_state_of(dev)->context))
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
    if (!was_current)
        gg_cu.cuCtxPopCurrent(&ours);
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

bool gg_gpu_stream_sync(gg_stream stream) { return GG_CU(cuStreamSynchronize, stream); }

void gg_gpu_settle(gg_stream stream)
{
    CUresult e = CUDA_SUCCESS;
    for (int i = 0; i < 3 && (e = gg_cu.cuStreamSynchronize(stream)) != CUDA_SUCCESS; i++)
        ;
    if (e != CUDA_SUCCESS) /* it could not wait, but the stream may be at work */
        while ((e = gg_cu.cuStreamQuery(stream)) == CUDA_ERROR_NOT_READY)
            nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    if (e != CUDA_SUCCESS && e != CUDA_ERROR_NOT_PERMITTED) /* where waiting is not permitted nothing of ours was enqueued, either */
        gg_driver_give_up(e, "cuStreamSynchronize");
}

bool gg_gpu_stream_wait(gg_stream stream, gg_event event) { return GG_CU(cuStreamWaitEvent, stream, event, 0); }

bool gg_gpu_stream_capturing(gg_stream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    const CUresult asked = gg_cu.cuStreamIsCapturing(stream, &status);
    return asked == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT || (asked == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE);
}

bool gg_gpu_is_captured(struct gg_device *dev, gg_stream stream)
{
    if (!gg_gpu_enter(dev))
        return false; /* as the call itself will find out */
    const bool captured = gg_gpu_stream_capturing(stream);
    gg_gpu_leave();
    return captured;
}

bool gg_gpu_await(gg_stream stream)
{
    CUcontext current = NULL;
    if (!gg_gpu_loaded() || gg_gpu_state() == GG_GPU_FORKED || !gg_driver_load() || gg_cu.cuCtxGetCurrent(&current) != CUDA_SUCCESS)
        return true;
    CUdevice first;
    CUcontext primary = NULL; /* of a thread without a context the streams are the first GPU's, as the runtime has it */
    unsigned flags;
    int in_use = 0;
    if (!current) {
        if (gg_cu.cuDeviceGet(&first, 0) != CUDA_SUCCESS || gg_cu.cuDevicePrimaryCtxGetState(first, &flags, &in_use) != CUDA_SUCCESS || !in_use ||
            gg_cu.cuDevicePrimaryCtxRetain(&primary, first) != CUDA_SUCCESS)
            return true;
        if (gg_cu.cuCtxPushCurrent(primary) != CUDA_SUCCESS) {
            gg_cu.cuDevicePrimaryCtxRelease(first);
            return true;
        }
    }
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    const CUresult asked = gg_cu.cuStreamIsCapturing(stream, &status);
    const bool captured = asked == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT || status != CU_STREAM_CAPTURE_STATUS_NONE;
    if (!captured)
        gg_cu.cuStreamSynchronize(stream);
    if (primary) {
        gg_cu.cuCtxPopCurrent(&primary);
        gg_cu.cuDevicePrimaryCtxRelease(first);
    }
    return !captured;
}

gg_event gg_gpu_event_create(void)
{
    CUevent event;
    return GG_CU(cuEventCreate, &event, CU_EVENT_DISABLE_TIMING) ? event : NULL;
}

bool gg_gpu_event_record(gg_event event, gg_stream stream) { return GG_CU(cuEventRecord, event, stream); }

int gg_gpu_event_done(gg_event event)
{
    CUresult e = gg_cu.cuEventQuery(event);
    return e == CUDA_ERROR_NOT_READY ? 0 : gg_driver_ok(e, "cuEventQuery") ? 1 : -1;
}

bool gg_gpu_signal(gg_stream stream, _Atomic uint32_t *word)
{
    static _Atomic bool unsupported; /* as for virtual GPUs */
    if (!gg_cu.cuStreamWriteValue32 || atomic_load_explicit(&unsupported, memory_order_relaxed))
        return true;
    const CUresult e = gg_cu.cuStreamWriteValue32(stream, (CUdeviceptr)word, 1, CU_STREAM_WRITE_VALUE_DEFAULT);
    if (e == CUDA_ERROR_NOT_SUPPORTED)
        atomic_store_explicit(&unsupported, true, memory_order_relaxed);
    return e == CUDA_ERROR_NOT_SUPPORTED || gg_driver_ok(e, "cuStreamWriteValue32");
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

bool gg_gpu_fill(void *pointer, unsigned char byte, size_t bytes, gg_stream stream)
{
    return GG_CU(cuMemsetD8Async, (CUdeviceptr)pointer, byte, bytes, stream);
}

size_t gg_gpu_free_memory(void)
{
    size_t free_bytes = 0, total = 0;
    return GG_CU(cuMemGetInfo, &free_bytes, &total) ? free_bytes : 0;
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

/* Where the next box is the other half of 256 bytes, L2 fetches both at once: 16x16384x16384 in FP64 is 1.05 times as fast, 128x128x16384 1.03 times.
 * (Along the tile's rows or columns the other half is another tile's, which may come too late: 1728x288x12192 NN 0.95. Where lines do not begin at
 * multiples of 256 bytes a box touches up to 512: 513x513x4096 NT 0.84, 1706x395x1190 0.91.) */
bool gg_gpu_tensor_map(void *map, enum gg_type type, const void *base, int64_t inner, int64_t outer, int64_t ld, int box_inner, int box_outer,
                       int swizzle, bool onward)
{
    static const CUtensorMapSwizzle swizzles[] = {CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_SWIZZLE_32B, CU_TENSOR_MAP_SWIZZLE_64B,
                                                  CU_TENSOR_MAP_SWIZZLE_128B};
    cuuint64_t dims[] = {(cuuint64_t)inner, (cuuint64_t)outer}, strides[] = {(cuuint64_t)ld * gg_size(type)};
    cuuint32_t box[] = {(cuuint32_t)box_inner, (cuuint32_t)box_outer}, steps[] = {1, 1};
    const CUtensorMapL2promotion fetched =
        onward && ((uintptr_t)base | strides[0]) % 256 == 0 ? CU_TENSOR_MAP_L2_PROMOTION_L2_256B : CU_TENSOR_MAP_L2_PROMOTION_L2_128B;
    return gg_cu.cuTensorMapEncodeTiled &&
           gg_cu.cuTensorMapEncodeTiled(map, type == GG_S ? CU_TENSOR_MAP_DATA_TYPE_FLOAT32 : CU_TENSOR_MAP_DATA_TYPE_FLOAT64, 2, (void *)base, dims,
                                        strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzles[swizzle == 128 ? 3 : swizzle / 32], fetched,
                                        CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

/* What precedes a workspace: the words for calls (gg_gpu_word), then the kernels' flags, which end where the workspace begins. */
enum { HEADER = 4 * (WORDS + GG_FLAGS) };

static bool is_own(const struct gg_device_state *state, const struct gg_workspace *w) { return w >= state->workspaces + FOR_PROGRAMS; }

/* Has the thread ended? The kernel may give its number to another, and then this one's workspace waits until that has ended, too. */
static bool has_ended(pid_t thread)
{
    const int saved = errno;
    const bool ended = syscall(SYS_tgkill, getpid(), thread, 0) != 0 && errno == ESRCH;
    errno = saved;
    return ended;
}

/* The stream's workspace, or the one to be replaced by it, which may have belonged to another stream with the same handle. Each thread's own stream
 * is a new one: it replaces that of a thread which has ended, or programs with a thread for each task would keep one for each. Under the lock. */
static struct gg_workspace *workspace_of(struct gg_device_state *state, gg_stream stream, unsigned long long id)
{
    struct gg_workspace *oldest = &state->workspaces[0];
    for (struct gg_workspace *w = state->workspaces; w < state->workspaces + WORKSPACES; w++) {
        if ((w->memory || is_own(state, w)) && w->stream == stream && (w->id == id || stream != CU_STREAM_PER_THREAD))
            return w;
        if (!is_own(state, w) && w->used < oldest->used)
            oldest = w;
    }
    for (struct gg_workspace *w = state->workspaces; stream == CU_STREAM_PER_THREAD && w < state->workspaces + FOR_PROGRAMS; w++)
        if (w->memory && w->thread && has_ended(w->thread))
            return w;
    return oldest;
}

static bool is_of(const struct gg_workspace *w, gg_stream stream, unsigned long long id)
{
    return w->stream == stream && (w->id == id || (id == 0 && stream != CU_STREAM_PER_THREAD));
}

/* Finds a stream's id, plus 1. Asking a stream that is being captured would end the capture: then it is what it was when this thread's own stream was
 * asked last, or 0, unknown, and the handle alone identifies the stream. False: the driver failed. */
static bool identify(const struct gg_device_state *state, gg_stream stream, bool capturing, unsigned long long *id)
{
    static _Thread_local struct {
        unsigned long long context, id;
    } own;
    const bool per_thread = stream == CU_STREAM_PER_THREAD;
    *id = per_thread && own.context == state->id ? own.id : 0;
    if (capturing)
        return true;
    if (!GG_CU(cuStreamGetId, stream, id))
        return false;
    ++*id;
    if (per_thread)
        own.context = state->id, own.id = *id;
    return true;
}

/* Is there room for so much if this workspace is freed? If not, it is better kept: smaller requests will come, and freeing it waits for the GPU. */
static bool makes_room(const struct gg_workspace *w, size_t size)
{
    return !w->memory || gg_gpu_free_memory() + (w->captured ? 0 : w->bytes + HEADER) >= size;
}

/* Frees its memory, unless a graph has captured that. */
static void empty(struct gg_workspace *w)
{
    if (!w->captured)
        gg_gpu_free(w->memory);
    *w = (struct gg_workspace){.stream = w->stream, .id = w->id};
}

bool gg_gpu_reserve_workspaces(struct gg_device *dev, const gg_stream streams[], int count)
{
    struct gg_device_state *state = gg_state_of(dev);
    struct gg_workspace own[WORKSPACES - FOR_PROGRAMS];
    for (int i = 0; i < count; i++) {
        own[i] = (struct gg_workspace){.stream = streams[i]};
        if (!identify(state, streams[i], false, &own[i].id))
            return false;
    }
    pthread_mutex_lock(&state->lock);
    int at = FOR_PROGRAMS;
    while (at < WORKSPACES && state->workspaces[at].stream)
        at++;
    const bool room = count <= WORKSPACES - at;
    for (int i = 0; room && i < count; i++) {
        for (struct gg_workspace *w = state->workspaces; w < state->workspaces + FOR_PROGRAMS; w++)
            if (w->memory && w->stream == streams[i]) { /* of a stream of the program's that had this handle */
                empty(w);
                w->stream = NULL;
            }
        state->workspaces[at + i] = own[i];
    }
    pthread_mutex_unlock(&state->lock);
    return room;
}

/* Of the program's streams' workspaces the one that has not been used for longest, if that is long and if without it there is room for so much, but
 * not with it. */
static struct gg_workspace *in_the_way(struct gg_device_state *state, size_t size)
{
    struct gg_workspace *oldest = NULL;
    for (struct gg_workspace *w = state->workspaces; w < state->workspaces + FOR_PROGRAMS; w++)
        if (w->memory && !w->captured && (!oldest || w->used < oldest->used))
            oldest = w;
    const bool long_ago = oldest && state->clock - oldest->used >= FOR_PROGRAMS / 2;
    return long_ago && gg_gpu_free_memory() < size && makes_room(oldest, size) ? oldest : NULL;
}

/* A stream's workspace is freed only when it must grow, when 128 other streams have been used since, or 64 calls after its last use when memory is
 * full, because cuMemFree waits for the GPU. One that a graph has captured is left to the graph. If there is no memory for it, its place is given up:
 * each call in vain would take another, and in the end those of streams that have theirs. */
void *gg_gpu_workspace(struct gg_device *dev, gg_stream stream, size_t bytes)
{
    struct gg_device_state *state = gg_state_of(dev);
    const bool capturing = gg_gpu_stream_capturing(stream);
    unsigned long long id;
    if (!identify(state, stream, capturing, &id))
        return NULL;
    pthread_mutex_lock(&state->lock);
    struct gg_workspace *mine = workspace_of(state, stream, id);
    bool fits = is_of(mine, stream, id) && mine->bytes >= bytes;
    const size_t size = (bytes + HEADER + (1 << 20)) & ~(size_t)((1 << 20) - 1);
    if (!fits && !capturing && makes_room(mine, size)) {
        gg_enqueue_now(); /* launches that use the memory which goes */
        empty(mine);
        void *memory = gg_gpu_alloc(size);
        struct gg_workspace *const old = memory || is_own(state, mine) ? NULL : in_the_way(state, size);
        if (old) {
            empty(old);
            memory = gg_gpu_alloc(size);
        }
        if (memory)
            *mine = (struct gg_workspace){.stream = stream,
                                          .id = id,
                                          .thread = stream == CU_STREAM_PER_THREAD ? (pid_t)syscall(SYS_gettid) : 0,
                                          .memory = memory,
                                          .words = FOR_CALLS};
        mine->bytes = memory && gg_gpu_clear(memory, HEADER, stream) ? size - HEADER : 0;
    }
    const bool have = is_of(mine, stream, id) && mine->memory;
    fits = have && mine->bytes >= bytes;
    mine->captured |= fits && capturing;
    mine->used = have ? ++state->clock : mine->used;
    void *memory = fits ? (char *)mine->memory + HEADER : NULL;
    gg_enqueue_with(fits ? mine : NULL);
    pthread_mutex_unlock(&state->lock);
    return memory;
}

bool gg_gpu_still_has(struct gg_device *dev, gg_stream stream, const struct gg_workspace *workspace)
{
    struct gg_device_state *state = gg_state_of(dev);
    pthread_mutex_lock(&state->lock);
    struct gg_workspace *mine = workspace_of(state, stream, workspace->id);
    const bool has = is_of(mine, stream, workspace->id) && mine->memory == workspace->memory && mine->bytes >= workspace->bytes;
    mine->used = has ? ++state->clock : mine->used;
    pthread_mutex_unlock(&state->lock);
    return has;
}

size_t gg_gpu_workspace_free(struct gg_device *dev, gg_stream stream, int64_t least)
{
    struct gg_device_state *state = gg_state_of(dev);
    size_t given = 0;
    pthread_mutex_lock(&state->lock);
    for (struct gg_workspace *w = state->workspaces; w < state->workspaces + WORKSPACES; w++)
        if (w->memory && w->stream == stream && !w->captured && (int64_t)w->bytes > least) {
            given += w->bytes;
            empty(w);
        }
    pthread_mutex_unlock(&state->lock);
    return given;
}

/* The words are cleared all at once, because clearing takes 2 µs of the stream's time. A graph of the program's, which will be launched often, uses
 * the first word, and clears it itself. */
uint32_t *gg_gpu_word(struct gg_device *dev, gg_stream stream, bool next)
{
    struct gg_device_state *state = gg_state_of(dev);
    const bool capturing = gg_gpu_stream_capturing(stream);
    unsigned long long id;
    if (!identify(state, stream, capturing, &id))
        return NULL;
    pthread_mutex_lock(&state->lock);
    struct gg_workspace *mine = workspace_of(state, stream, id);
    uint32_t *words = mine->memory;
    const bool clear = next && (capturing || mine->words == WORDS);
    if (!is_of(mine, stream, id) || (clear && words && !gg_gpu_clear(words, (capturing ? 1 : WORDS) * sizeof *words, stream)))
        words = NULL;
    else if (next && !capturing)
        mine->words = clear ? FOR_CALLS + 1 : mine->words + 1;
    const int at = capturing ? 0 : mine->words - 1;
    pthread_mutex_unlock(&state->lock);
    return words ? words + at : NULL;
}

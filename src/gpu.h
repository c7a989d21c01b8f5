/* gpu.h — everything the library knows of CUDA, without a CUDA header: the GPU's life (gpu.c), where pointers live (pointers.c), and what is done
 * with a device (work.c, and enqueue.c for launches). Only those four include CUDA's headers, by driver.h.
 *
 * Every function here leaves the calling thread's current context, errno and FP flags as they were. A function that can fail returns false or NULL
 * and has recorded why; a sticky CUDA error marks the device dead, and from then on every call declines. */
#ifndef GG_GPU_H
#define GG_GPU_H

#include <stdatomic.h>

#include "gemm.h"

struct gg_kernel; /* kernels.h: a row of cuda/kernels.def */
struct gg_args;   /* cuda/kernel.h: what a kernel is given */

typedef struct CUstream_st *gg_stream;
typedef struct CUevent_st *gg_event;

enum { GG_MAX_DEVICES = 16 };

/* What a device is. Read-only after start-up; the pure stages (dispatch, select) see only this part. */
struct gg_arch {
    int cc;              /* compute capability, 10*major + minor: 80, 90, 120 */
    int sms;             /* multiprocessors */
    int clock_mhz;
    int smem_per_block;  /* bytes, opt-in maximum */
    int smem_per_sm;     /* bytes */
    int64_t l2_bytes;
    int64_t memory_bytes;
    double bandwidth;    /* device memory, bytes/s, from bus width and clock */
};

struct gg_device {
    int ordinal;
    char name[64];
    struct gg_arch arch;
    void *private_state; /* struct gg_device_state, driver.h */
};

/* ---- start-up ------------------------------------------------------------------------------------------------------------ */

/* OFF until the first call worth a GPU. Then STARTING on a background thread, and READY or NONE for good. DEAD after a sticky error. FORKED in a
 * child whose parent had left OFF (and NONE) before the fork. */
enum gg_gpu_state { GG_GPU_OFF, GG_GPU_STARTING, GG_GPU_READY, GG_GPU_NONE, GG_GPU_DEAD, GG_GPU_FORKED };

enum gg_gpu_state gg_gpu_state(void);
double gg_gpu_start_left(void); /* seconds until READY, estimated; 0 when it is */
void gg_gpu_start(void);        /* in the background; idempotent */
bool gg_gpu_wait(double most);  /* starts it if need be and waits, at most so many seconds; returns whether it is READY */

enum { GG_PATIENCE = 60 }; /* seconds after which nobody waits any longer for a driver that does not come back */

/* The GPU for host operands: the first of GPUGEMM_DEVICES. NULL unless READY. */
struct gg_device *gg_gpu_default(void);
void gg_gpu_driver(int *cuda, int *devices); /* once READY, for display: the driver's CUDA version, 1000 major + 10 minor, and its number of GPUs */
const char *gg_gpu_trouble(void); /* one line: why the state is NONE or DEAD; "" when it is not */

/* ---- where pointers live ---------------------------------------------------------------------------------------------------- */

/* Has anybody in this process loaded the CUDA driver? If not, every pointer is HOST. Takes a few nanoseconds. */
bool gg_gpu_loaded(void);

/* Memory that belongs to the process itself as long as it lives, and therefore to no GPU. It is the program's data with the heap behind them, and the
 * first thread's stack: below its end the kernel keeps 128 MB free of anything else. Known from the first call of gg_gpu_on_host on; heap_bytes is as
 * of the last call. */
enum { GG_OWN_STACK = 64 << 20 };
extern struct gg_own {
    _Atomic uintptr_t heap_bytes;
    uintptr_t heap, stack; /* where they begin; not written again once heap_bytes is not 0 */
} gg_own;

/* Are all three in the process's own memory? */
static inline bool gg_gpu_own(const void *a, const void *b, const void *c)
{
    const uintptr_t bytes = atomic_load_explicit(&gg_own.heap_bytes, memory_order_acquire), heap = gg_own.heap, stack = gg_own.stack;
#define GG_OWN(p) ((uintptr_t)(p)-heap < bytes || (uintptr_t)(p)-stack < GG_OWN_STACK)
    return GG_OWN(a) && GG_OWN(b) && GG_OWN(c);
#undef GG_OWN
}

/* Are all three in host memory, page-locked or not? The driver is not asked (0.1 µs a pointer) about memory that is the process's own, and its
 * answers about other pages are remembered for some microseconds. */
bool gg_gpu_on_host(const void *a, const void *b, const void *c);

struct gg_location {
    enum gg_place place;
    int ordinal;
    void *context; /* the CUcontext it was allocated in; NULL where the driver names none (stream-ordered allocations) */
};
struct gg_location gg_gpu_locate(const void *pointer);

/* Do so many bytes from a page-locked address on belong to one allocation or registration? The copy engine reaches no further in one copy. */
bool gg_gpu_is_whole(const void *pointer, double bytes);

/* The device for an operand at `where`, in the right context; set up at first use. NULL: it cannot be used. */
struct gg_device *gg_gpu_device_of(const struct gg_location *where);

/* Waits for the work on the caller's own stream, which may be writing operands in host memory. The stream is one of the thread's current context or,
 * if it has none, of the first GPU's primary one. Errors of the stream are left for its owner to find. False: the stream is being captured, and cannot be
 * waited for. */
bool gg_gpu_await(gg_stream stream);

/* Is the caller's stream, which belongs to `dev`, being captured, or the legacy stream out of use because another is? */
bool gg_gpu_is_captured(struct gg_device *dev, gg_stream stream);

/* ---- work. All of it needs the device's context current: between enter and leave, on any thread. ------------------------------------- */

bool gg_gpu_enter(struct gg_device *dev);
bool gg_gpu_is_gone(struct gg_device *dev);  /* its context was reset or destroyed by the program, with all that was made in it */
bool gg_gpu_is_there(struct gg_device *dev); /* it was not. Both false: the driver does not tell */
void gg_gpu_leave(void);

#define GG_LEGACY_STREAM ((gg_stream)1) /* CU_STREAM_LEGACY of the current context */

gg_stream gg_gpu_stream_create(void); /* does not synchronise with the legacy stream */
void gg_gpu_stream_destroy(gg_stream stream);
bool gg_gpu_stream_sync(gg_stream stream);
void gg_gpu_settle(gg_stream stream); /* after a failure: returns when no enqueued work touches its buffers any more, or gives the GPU up for good */
bool gg_gpu_stream_wait(gg_stream stream, gg_event event);
bool gg_gpu_stream_capturing(gg_stream stream);
gg_event gg_gpu_event_create(void);
bool gg_gpu_event_record(gg_event event, gg_stream stream);
int gg_gpu_event_done(gg_event event); /* 1 yes, 0 not yet, -1 the GPU failed */

/* Sets *word, in page-locked memory, to 1 when all that the stream has been given is done, unless a GPU of this process has refused to. To see that
 * takes no call of the driver, but whether the GPU has failed only an event says. False: the GPU failed. */
bool gg_gpu_signal(gg_stream stream, _Atomic uint32_t *word);

void *gg_gpu_alloc(size_t bytes); /* device memory; NULL: none to be had */
void gg_gpu_free(void *pointer);
bool gg_gpu_fill(void *pointer, unsigned char byte, size_t bytes, gg_stream stream);
static inline bool gg_gpu_clear(void *pointer, size_t bytes, gg_stream stream) { return gg_gpu_fill(pointer, 0, bytes, stream); }
size_t gg_gpu_free_memory(void);

/* Tells the processor that this thread is polling. */
static inline void gg_relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#else
    __asm__ volatile("yield");
#endif
}

/* Starts a detached thread with all signals blocked but those that a thread causes itself. False: there is none to be had. */
bool gg_thread_start(void *(*body)(void *), void *argument);

/* Asynchronous copies between any two places the driver knows. `height` lines of `width` bytes, the pitches apart. */
bool gg_gpu_copy(void *dst, const void *src, size_t bytes, gg_stream stream);
bool gg_gpu_copy_2d(void *dst, size_t dst_pitch, const void *src, size_t src_pitch, size_t width, size_t height, gg_stream stream);

/* ---- launching ----------------------------------------------------------------------------------------------------------- */

struct gg_dim {
    unsigned x, y, z;
    unsigned cluster; /* blocks of x that run as a cluster; 0: none do */
    bool alone;       /* at most one of these blocks on an SM, even if two would fit */
    bool whole;       /* no tile's k is cut among blocks */
    bool cut;         /* every tile is cut as the code of GG_IMAGE_CUT expects (cuda/tile.cuh) */
    /* Makes the tensor maps, which follow from the rest of args; NULL: there are none, or they are made. Not called if a graph has them. */
    bool (*maps)(struct gg_args *args, const struct gg_kernel *row);
};

/* Enqueues the __global__ with the row's name, with the row's threads and shared memory. Loads the row's fat binary for such calls and raises its
 * shared-memory limit at first use. */
bool gg_gpu_launch(struct gg_device *dev, const struct gg_kernel *kernel, struct gg_dim grid, gg_stream stream, struct gg_args *args);

/* The same for a kernel that itself waits for the kernels before it (gate.cuh): its blocks may start while those still run (programmatic dependent
 * launch). */
bool gg_gpu_launch_early(struct gg_device *dev, const struct gg_kernel *kernel, struct gg_dim grid, gg_stream stream, struct gg_args *args);

/* Two threads may share a stream, its workspace and its graph: from asking for the workspace to launching, a call on a program's stream must not be
 * interleaved with another on the same device. (Of another it may: a launch waits where a stream's queue is full, and that may wait for what another
 * thread has yet to enqueue on another GPU.) Between enter and leave. */
void gg_gpu_begin_turn(struct gg_device *dev);
void gg_gpu_end_turn(struct gg_device *dev);

/* Enqueues p if it is, to the addresses of its operands, the call that `stream` repeats (enqueue.c). False: p is to be launched. From now on this
 * thread's launches on the stream are gathered: they make the call. gg_gpu_enqueue then launches them, as one graph if the stream repeats the call;
 * with `done` false it drops them, and returns false, as when the driver failed. Between the two, which are in one turn, there is nothing else on the
 * stream. */
bool gg_gpu_again(struct gg_device *dev, const struct gg_gemm *p, gg_stream stream);
bool gg_gpu_enqueue(bool done);

/* Encodes a tensor map for a column-major-like 2-D array: `inner` contiguous elements, `outer` lines `ld` elements apart; box_inner × box_outer
 * a copy; swizzle in bytes: 0, 32, 64 or 128; onward: a block's next copies are further along the lines. False where TMA refuses (base or ld not a
 * multiple of 16 bytes, no such GPU). */
bool gg_gpu_tensor_map(void *map, enum gg_type type, const void *base, int64_t inner, int64_t outer, int64_t ld, int box_inner,
                       int box_outer, int swizzle, bool onward);

/* A stream's workspace: `bytes` of scratch, valid until the next launch on the same stream asks for more. It grows outside graph capture only. NULL:
 * none to be had. The GG_FLAGS words (cuda/kernel.h) in front of it are zero at first, and kernels leave them zero. */
void *gg_gpu_workspace(struct gg_device *dev, gg_stream stream, size_t bytes);

/* A program's stream loses its workspace to other streams that come when there are too many, which only calls under gg_gpu_begin_turn do. These
 * streams of the library's own keep theirs: calls on them have no turn, and use the workspace from their first step to their last. False: as many
 * streams as can have this already do, or the driver failed. */
bool gg_gpu_reserve_workspaces(struct gg_device *dev, const gg_stream streams[], int count);

/* Frees a stream's workspace, if it has more than `least` bytes. The stream must be one of the library's own, with nothing enqueued. Returns the
 * bytes freed. */
size_t gg_gpu_workspace_free(struct gg_device *dev, gg_stream stream, int64_t least);

/* A word in front of a stream's workspace, which must exist. With next = true a word that is 0 when the stream gets there and that no other call uses
 * (in a graph: no other before this one is done); with next = false the word given last. NULL: the driver failed. */
uint32_t *gg_gpu_word(struct gg_device *dev, gg_stream stream, bool next);

#endif

/* gpu.h — everything the library knows of CUDA, without a CUDA header. gpu.c is the only C file that includes one.
 *
 * Every function here leaves the calling thread's current context, errno and FP flags as they were. A function that can fail returns
 * false or NULL and has recorded why; a sticky CUDA error marks the device dead, and from then on every call declines. */
#ifndef GG_GPU_H
#define GG_GPU_H

#include "gemm.h"

struct gg_kernel; /* kernels.h: a row of cuda/kernels.def */

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
    void *private_state; /* gpu.c's own: context, modules, streams, pools */
};

/* ---- for launch.c: all calls want dev's context current, which gg_gpu_enter does ---- */

struct gg_dim {
    unsigned x, y, z;
};

/* Enqueues one __global__ of `kernel`: entry 0 … row->entries-1 (see kernels.h for its name). args is a struct gg_args. cluster: thread blocks per
 * cluster in x, 1 for none. Loads the row's fat binary and raises its shared-memory limit at first use. */
bool gg_gpu_launch(struct gg_device *dev, const struct gg_kernel *kernel, int entry, struct gg_dim grid, unsigned threads,
                   unsigned smem, unsigned cluster, gg_stream stream, const void *args, size_t args_size);

/* Encodes a tensor map for a column-major-like 2-D array: `inner` contiguous elements, `outer` lines `ld` elements apart; box_inner × box_outer
 * a copy; swizzle in bytes: 0, 32, 64 or 128. False where TMA refuses (base or ld not a multiple of 16 bytes, no such GPU). */
bool gg_gpu_tensor_map(void *map, enum gg_type type, const void *base, int64_t inner, int64_t outer, int64_t ld, int box_inner,
                       int box_outer, int swizzle);

/* `bytes` of scratch that stays valid until the next launch on the same stream asks for more; grows outside graph capture only. NULL: none to be had. */
void *gg_gpu_workspace(struct gg_device *dev, gg_stream stream, size_t bytes);

#endif

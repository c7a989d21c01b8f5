/* staged.h — GEMM on operands of which at least one is in host memory (or on another GPU). */
#ifndef GG_STAGED_H
#define GG_STAGED_H

#include "gemm.h"
#include "gpu.h"

/* What a served or refused call did, for the record. */
struct gg_outcome {
    enum gg_reason reason; /* when false was returned: why */
    const struct gg_kernel *kernel;
    const struct gg_kernel
        *head; /* where a chain began: another row than `kernel` if the operands were not certified for it (known to who watches) */
    int64_t bytes_up, bytes_down;
    bool recovered; /* finished by the CPU */
};

/* True: C is complete, even if the GPU failed on the way and the CPU had to finish. False: C is untouched, or it lies in GPU memory and the
 * GPU failed. `after`: a stream whose work must be done first, NULL for none. `caller`: for gg_real_gemm. Blocks until C is there. */
bool gg_staged_gemm(struct gg_device *dev, const struct gg_gemm *p, const struct gg_location where[3], gg_stream after, const void *caller,
                    struct gg_outcome *outcome);

/* GEMM on operands in this device's memory: enqueued on stream, and waited for when `wait`. False: not enqueued, or the GPU failed. */
bool gg_device_gemm(struct gg_device *dev, const struct gg_gemm *p, gg_stream stream, bool wait, struct gg_outcome *outcome);

/* Starts copy threads, page-locks their buffers and makes the first lane, so that no call waits for that. dev is entered. */
void gg_staged_prepare(struct gg_device *dev);

/* Gives back the memory that calls have left for the next ones. Bytes of it, GPU memory and page-locked. */
size_t gg_staged_release(void);

#endif

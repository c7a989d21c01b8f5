/* staged.h — GEMM on operands of which at least one is in host memory (or on another GPU). */
#ifndef GG_STAGED_H
#define GG_STAGED_H

#include "gemm.h"
#include "gpu.h"

/* What a call did, served or refused, for the record. */
struct gg_outcome {
    enum gg_reason reason; /* why, if false was returned */
    const struct gg_kernel *kernel;
    const struct gg_kernel
        *head; /* where a chain (tensor.h) began. Differs from `kernel` if the operands were not certified for it; that is known only if
                * gg_watched() */
    int64_t bytes_up, bytes_down;
    bool recovered; /* finished by the CPU */
};

/* True: C is complete, even if the GPU failed on the way and the CPU had to finish. False: C is untouched, or it lies in GPU memory and the GPU
 * failed. `after`: a stream whose work must be done first, NULL for none. `caller`: for gg_real_gemm. Returns when C is there. */
bool gg_staged_gemm(struct gg_device *dev, const struct gg_gemm *p, const struct gg_location where[3], gg_stream after, const void *caller,
                    struct gg_outcome *outcome);

/* GEMM on operands in this device's memory: enqueued on stream, and waited for if `wait`. False: it was not enqueued, or the GPU failed. */
bool gg_device_gemm(struct gg_device *dev, const struct gg_gemm *p, gg_stream stream, bool wait, struct gg_outcome *outcome);

/* Starts the copy threads, page-locks their buffers and makes the first lane, so that no call has to wait for that. dev must be entered. */
void gg_staged_prepare(struct gg_device *dev);

/* Frees the memory that calls have left for the next ones. Returns the bytes freed, GPU and page-locked memory together. */
size_t gg_staged_release(void);

#endif

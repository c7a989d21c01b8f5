/* serve.h — serving one valid call, from the facts to the outcome. Shared by entry.c (BLAS names) and api.c (gpugemm_*). */
#ifndef GG_SERVE_H
#define GG_SERVE_H

#include "gemm.h"
#include "gpu.h"
#include "trace.h"

struct gg_request {
    const struct gg_gemm *p;
    const void *caller; /* return address of the call, for the search of the real BLAS */
    const void *routine; /* of the real BLAS, to which the call would go; NULL: not known */
    gg_stream stream;   /* for operands in GPU memory */
    bool wait;          /* for the GPU to finish with C in place; if false, operands in host memory may be used only when `stream` is done */
};

/* True: C is complete (or, without wait, enqueued). False: C is untouched, record->reason says why, and gg_on_gpu() whether no CPU can help. Fills
 * *record except its symbol and seconds. Leaves errno and the floating-point environment as they were. */
bool gg_serve(const struct gg_request *request, struct gg_record *record);

/* May a call of this size go straight to the CPU's BLAS, without gg_serve? Because it is settled (dispatch.h) that like calls are far faster there, or
 * that there is no GPU: finding that out once more takes up to 1 us (H200's host), a tenth of a product of 90 and more of a smaller one. Every 64th
 * such call of a thread is to ask and, if it can, to learn. Only of up to 2^22 multiply-adds, to which that matters, and if C is no vector, because
 * those are for gemv. *reason: why it goes to the CPU. */
bool gg_is_settled(enum gg_type type, int64_t m, int64_t n, int64_t k, enum gg_reason *reason);

/* gg_now(), whatever the caller's floating-point environment, which stays as it was. */
double gg_clock(void);

/* Ends a call: learns how long the CPU took if it got the call at time `declined`, and records the call, which came at time `start`. 0: neither. */
void gg_conclude(struct gg_record *record, double start, double declined);

/* Are all three in host memory? Known from what the thread has declared (gpugemm_set_pointer_mode), else asked of gg_gpu_on_host. */
bool gg_on_host(const void *a, const void *b, const void *c);

/* How exact the calling thread's sgemm must be: by its own setting, else the environment's. */
enum gg_precision gg_precision_in_force(void);

/* Does any operand of the last call that gg_serve refused on this thread live in GPU memory? */
bool gg_on_gpu(void);

#endif

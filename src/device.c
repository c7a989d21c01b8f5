/* device.c — owns the path of operands that are already in GPU memory: chooses a kernel, enqueues it, waits if the caller must. It copies nothing;
 * scratch comes from the stream's workspace. Called by serve.c, for BLAS names (legacy stream, waits) and for gpugemm_* (the caller's stream). */
#include "config.h"
#include "kernels.h"
#include "staged.h"
#include "trace.h"

bool gg_device_gemm(struct gg_device *dev, const struct gg_gemm *p, gg_stream stream, bool wait, struct gg_outcome *outcome)
{
    struct gg_gemm q = *p;
    if (q.k == 0 || q.alpha == 0) /* C := beta C, whatever alpha is: terms such as NaN·0 are not formed */
        q.k = 0, q.alpha = 0;
    struct gg_choice choice = gg_select(&q, &dev->arch, gg_config()->kernel);
    outcome->head = outcome->kernel = choice.kernel;
    outcome->reason = choice.kernel ? GG_GPU_ERROR : GG_NO_KERNEL;
    if (!choice.kernel || !gg_gpu_enter(dev))
        return false;
    gg_gpu_begin_turn(dev);
    const bool asks = wait && gg_watched(); /* who served: a chain's graph would tell it in a word of its own */
    bool done = gg_launch(dev, &choice, &q, stream, !asks);
    if (done && asks)
        outcome->kernel = gg_served(dev, &choice, &q, stream);
    gg_gpu_end_turn(dev);
    done = done && (!wait || gg_gpu_stream_sync(stream));
    gg_gpu_leave();
    if (done)
        outcome->reason = GG_IN_PLACE;
    return done;
}

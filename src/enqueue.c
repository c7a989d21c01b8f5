/* enqueue.c — owns how kernels are launched: their code, loaded at first use, and graphs for launches that repeat. Called by launch.c and tensor.c,
 * between gg_gpu_enter and gg_gpu_leave. */
#include "driver.h"

#include <string.h>

#include "kernels.h"

/* ---- the code ----------------------------------------------------------------------------------------------------------------------- */

/* Bytes of dynamic shared memory. alone: so much that no other block fits on the SM. */
static int shared_bytes(const struct gg_device *dev, const struct gg_kernel *kernel, bool alone)
{
    const int half = dev->arch.smem_per_sm / 2;
    return alone && kernel->smem > 48 * 1024 && kernel->smem < half ? half : kernel->smem;
}

/* Under the lock. */
static CUfunction load_function(struct gg_device *dev, const struct gg_kernel *kernel, enum gg_image which)
{
    struct gg_device_state *state = gg_state_of(dev);
    int row = (int)(kernel - gg_kernels), first = 0;
    while (gg_kernels[first].image[which] != kernel->image[which])
        first++;
    CUmodule *const module = &state->modules[which][first];
    if (!*module && !GG_CU(cuModuleLoadData, module, kernel->image[which]))
        return NULL;
    CUfunction function;
    if (!GG_CU(cuModuleGetFunction, &function, *module, kernel->name))
        return NULL;
    if (kernel->smem > 48 * 1024 &&
        !GG_CU(cuFuncSetAttribute, function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared_bytes(dev, kernel, true)))
        return NULL;
    if (kernel->role == GG_RESIDUES && !GG_CU(cuFuncSetAttribute, function, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1))
        return NULL;
    atomic_store_explicit(&state->functions[which][row], function, memory_order_release);
    return function;
}

static CUfunction function_of(struct gg_device *dev, const struct gg_kernel *kernel, enum gg_image which)
{
    struct gg_device_state *state = gg_state_of(dev);
    for (enum gg_image same = GG_IMAGE_ANY; same < which; same++)
        if (kernel->image[same] == kernel->image[which])
            which = same;
    CUfunction function = atomic_load_explicit(&state->functions[which][kernel - gg_kernels], memory_order_acquire);
    if (!function) {
        pthread_mutex_lock(&state->lock);
        function = load_function(dev, kernel, which);
        pthread_mutex_unlock(&state->lock);
    }
    return function;
}

/* ---- launches that repeat ------------------------------------------------------------------------------------------------------------ */

/* A launch takes the host 3.0 to 4.5 us, that of a graph of the same kernel 1.2 to 2.0, and 0.3 more if its arguments must be replaced first (H200's
 * hosts, driver 580, 2026-11). With another function or grid to replace nothing is gained. On the GPU a graph ends 0 to 0.3 us later, and in a row of
 * the same launches 0.1; but two graphs of different kernels of one call took 1 us longer than two launches (511x513x8191). So a call of one kernel
 * that follows itself in its stream, again and again, gets a graph. Making one takes 10 to 30 us, the first one 0.7 ms: hence MADE. All together take
 * 2 MB of the GPU. A stream's launch is kept until others have come as often, or MOST times; calls of several kernels are not noticed.
 * (bench/results/again-2026-11-27.txt) */
enum { MADE = 16, MOST = 64 };

static CUDA_KERNEL_NODE_PARAMS node_of(const struct gg_launch *launch, void **parameters)
{
    return (CUDA_KERNEL_NODE_PARAMS){.func = launch->function,
                                     .gridDimX = launch->blocks[0],
                                     .gridDimY = launch->blocks[1],
                                     .gridDimZ = launch->blocks[2],
                                     .blockDimX = launch->threads,
                                     .blockDimY = 1,
                                     .blockDimZ = 1,
                                     .sharedMemBytes = launch->shared,
                                     .kernelParams = parameters};
}

/* A graph's kernel has a priority of its own, not that of the stream it is launched in. Nor does it keep to the part of the GPU that is its stream's:
 * streams of green contexts get no graphs. */
static bool set_attributes(const struct gg_repeat *r, gg_stream stream)
{
    CUcontext context;
    CUgreenCtx part = NULL;
    CUlaunchAttributeValue cluster = {.clusterDim = {r->launch.cluster, 1, 1}}, priority = {.priority = 0};
    return (!gg_cu.cuStreamGetCtx_v2 || GG_CU(cuStreamGetCtx_v2, stream, &context, &part)) && !part &&
           GG_CU(cuStreamGetPriority, stream, &priority.priority) &&
           (priority.priority == 0 || GG_CU(cuGraphKernelNodeSetAttribute, r->node, CU_LAUNCH_ATTRIBUTE_PRIORITY, &priority)) &&
           (r->launch.cluster <= 1 || GG_CU(cuGraphKernelNodeSetAttribute, r->node, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &cluster));
}

static bool make_maps(struct gg_dim grid, const struct gg_kernel *kernel, struct gg_args *args) { return !grid.maps || grid.maps(args, kernel); }

/* What a graph's arguments are known by: the maps, which are in front, follow from the rest, and what is behind is for chains. */
static bool has_arguments(const struct gg_repeat *r, const struct gg_args *args) { return memcmp(r->args, &args->m, sizeof r->args) == 0; }

static void make_graph(struct gg_repeat *r, gg_stream stream, struct gg_args *args)
{
    memcpy(r->args, &args->m, sizeof r->args);
    void *parameters[] = {args};
    const CUDA_KERNEL_NODE_PARAMS node = node_of(&r->launch, parameters);
    CUgraphExec made = NULL;
    if (GG_CU(cuGraphCreate, &r->graph, 0)) {
        if (GG_CU(cuGraphAddKernelNode, &r->node, r->graph, NULL, 0, &node) && set_attributes(r, stream) &&
            GG_CU(cuGraphInstantiateWithFlags, &made, r->graph, 0))
            r->made = made;
        else
            (void)GG_CU(cuGraphDestroy, r->graph);
    }
    r->refused = !r->made;
}

static void forget_graph(struct gg_repeat *r)
{
    if (r->made) {
        (void)GG_CU(cuGraphExecDestroy, r->made); /* if it is running, it ends first */
        (void)GG_CU(cuGraphDestroy, r->graph);
    }
    r->made = NULL;
}

static bool replace_arguments(struct gg_repeat *r, struct gg_args *args)
{
    memcpy(r->args, &args->m, sizeof r->args);
    void *parameters[] = {args};
    const CUDA_KERNEL_NODE_PARAMS node = node_of(&r->launch, parameters);
    if (!GG_CU(cuGraphExecKernelNodeSetParams, r->made, r->node, &node))
        forget_graph(r);
    return r->made != NULL;
}

/* False: to be launched without a graph. */
static bool launch_again(struct gg_device_state *state, const struct gg_kernel *kernel, struct gg_dim grid, struct gg_launch launch, gg_stream stream,
                         struct gg_args *args)
{
    CUstreamCaptureStatus status;
    if (!gg_cu.cuGraphExecKernelNodeSetParams || gg_cu.cuStreamIsCapturing(stream, &status) != CUDA_SUCCESS ||
        status != CU_STREAM_CAPTURE_STATUS_NONE || !GG_CU(cuStreamGetId, stream, &launch.stream))
        return false;
    struct gg_repeat *const r = &state->repeats[launch.stream % REPEATS];
    if (memcmp(&r->launch, &launch, sizeof launch) != 0) {
        r->interrupted = true;
        if (--r->seen <= 0) {
            forget_graph(r);
            *r = (struct gg_repeat){.launch = launch, .seen = 1};
        }
        return false;
    }
    const bool in_a_row = !r->interrupted;
    r->interrupted = false;
    r->seen += r->seen < MOST;
    if (!in_a_row)
        return false;
    if (r->seen >= MADE && !r->made && !r->refused && make_maps(grid, kernel, args))
        make_graph(r, stream, args);
    return r->made && (has_arguments(r, args) || (make_maps(grid, kernel, args) && replace_arguments(r, args))) &&
           GG_CU(cuGraphLaunch, r->made, stream);
}

/* ---- launching ------------------------------------------------------------------------------------------------------------------------- */

/* Not early while a graph is captured: not every driver that knows the attribute supports it there. */
static bool launch(struct gg_device *dev, const struct gg_kernel *kernel, struct gg_dim grid, gg_stream stream, struct gg_args *args, bool early)
{
    const enum gg_image image = (args->beta != 0 ? GG_IMAGE_UPDATE : 0) | (grid.whole ? GG_IMAGE_WHOLE : grid.cut ? GG_IMAGE_CUT : 0);
    const struct gg_launch launch = {.function = function_of(dev, kernel, image),
                                     .blocks = {grid.x, grid.y, grid.z},
                                     .threads = (unsigned)kernel->threads,
                                     .cluster = grid.cluster,
                                     .shared = (unsigned)shared_bytes(dev, kernel, grid.alone)};
    if (!launch.function)
        return false;
    if (grid.repeats && launch_again(gg_state_of(dev), kernel, grid, launch, stream, args))
        return true;
    if (!make_maps(grid, kernel, args))
        return false;
    void *parameters[] = {args};
    CUlaunchAttribute how[2];
    unsigned count = 0;
    if (launch.cluster > 1)
        how[count++] = (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, .value.clusterDim = {launch.cluster, 1, 1}};
    if (early && gg_cu.cuLaunchKernelEx && !gg_gpu_stream_capturing(stream))
        how[count++] =
            (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, .value.programmaticStreamSerializationAllowed = 1};
    if (count > 0) {
        CUlaunchConfig config = {.gridDimX = grid.x,
                                 .gridDimY = grid.y,
                                 .gridDimZ = grid.z,
                                 .blockDimX = launch.threads,
                                 .blockDimY = 1,
                                 .blockDimZ = 1,
                                 .sharedMemBytes = launch.shared,
                                 .hStream = stream,
                                 .attrs = how,
                                 .numAttrs = count};
        return gg_cu.cuLaunchKernelEx && GG_CU(cuLaunchKernelEx, &config, launch.function, parameters, NULL);
    }
    return GG_CU(cuLaunchKernel, launch.function, grid.x, grid.y, grid.z, launch.threads, 1, 1, launch.shared, stream, parameters, NULL);
}

bool gg_gpu_launch(struct gg_device *dev, const struct gg_kernel *kernel, struct gg_dim grid, gg_stream stream, struct gg_args *args)
{
    return launch(dev, kernel, grid, stream, args, false);
}

bool gg_gpu_launch_early(struct gg_device *dev, const struct gg_kernel *kernel, struct gg_dim grid, gg_stream stream, struct gg_args *args)
{
    return launch(dev, kernel, grid, stream, args, true);
}

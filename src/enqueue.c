/* enqueue.c — owns how kernels are launched: their code, loaded at first use, and graphs for calls that repeat. Called by launch.c and tensor.c,
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

/* ---- launching ------------------------------------------------------------------------------------------------------------------------- */

/* The call that this thread gathers, or NULL. */
static _Thread_local struct gg_call *gathering;

static bool make_maps(const struct gg_call *call, int i, struct gg_two_args *args)
{
    return !call->maps[i] || call->maps[i](args->each, call->kernels[i]);
}

/* Not early while a graph is captured: not every driver that knows the attribute supports it there. */
static bool launch_one(const struct gg_launch *launch, gg_stream stream, struct gg_args *args)
{
    void *parameters[] = {args};
    CUlaunchAttribute how[2];
    unsigned count = 0;
    if (launch->cluster > 1)
        how[count++] = (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, .value.clusterDim = {launch->cluster, 1, 1}};
    if (launch->early && gg_cu.cuLaunchKernelEx && !gg_gpu_stream_capturing(stream))
        how[count++] =
            (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, .value.programmaticStreamSerializationAllowed = 1};
    if (count > 0) {
        CUlaunchConfig config = {.gridDimX = launch->blocks[0],
                                 .gridDimY = launch->blocks[1],
                                 .gridDimZ = launch->blocks[2],
                                 .blockDimX = launch->threads,
                                 .blockDimY = 1,
                                 .blockDimZ = 1,
                                 .sharedMemBytes = launch->shared,
                                 .hStream = stream,
                                 .attrs = how,
                                 .numAttrs = count};
        return gg_cu.cuLaunchKernelEx && GG_CU(cuLaunchKernelEx, &config, launch->function, parameters, NULL);
    }
    return GG_CU(cuLaunchKernel, launch->function, launch->blocks[0], launch->blocks[1], launch->blocks[2], launch->threads, 1, 1, launch->shared,
                 stream, parameters, NULL);
}

static bool launch_all(struct gg_call *call)
{
    bool done = true;
    for (int i = 0; done && i < call->count; i++)
        done = make_maps(call, i, &call->args[i]) && launch_one(&call->launches[i], call->stream, call->args[i].each);
    call->count = 0;
    return done;
}

void gg_enqueue_now(void)
{
    if (!gathering || gathering->count == 0)
        return;
    gathering->begun = true;
    gathering->failed |= !launch_all(gathering);
}

static size_t bytes_of_arguments(const struct gg_kernel *kernel)
{
    return kernel->role == GG_SLIM_TWO ? sizeof(struct gg_two_args) : sizeof(struct gg_args);
}

static bool launch(struct gg_device *dev, const struct gg_kernel *kernel, struct gg_dim grid, gg_stream stream, struct gg_args *args, bool early)
{
    const enum gg_image image = (args->beta != 0 ? GG_IMAGE_UPDATE : 0) | (grid.whole ? GG_IMAGE_WHOLE : grid.cut ? GG_IMAGE_CUT : 0);
    const struct gg_launch launch = {.function = function_of(dev, kernel, image),
                                     .blocks = {grid.x, grid.y, grid.z},
                                     .threads = (unsigned)kernel->threads,
                                     .cluster = grid.cluster,
                                     .shared = (unsigned)shared_bytes(dev, kernel, grid.alone),
                                     .early = early};
    if (!launch.function)
        return false;
    struct gg_call *const call = gathering;
    if (!call || call->stream != stream)
        return (!grid.maps || grid.maps(args, kernel)) && launch_one(&launch, stream, args);
    if (call->count == LAUNCHES)
        gg_enqueue_now();
    const int at = call->count++;
    call->launches[at] = launch, call->kernels[at] = kernel, call->maps[at] = grid.maps;
    memcpy(&call->args[at], args, bytes_of_arguments(kernel));
    return true;
}

bool gg_gpu_launch(struct gg_device *dev, const struct gg_kernel *kernel, struct gg_dim grid, gg_stream stream, struct gg_args *args)
{
    return launch(dev, kernel, grid, stream, args, false);
}

bool gg_gpu_launch_early(struct gg_device *dev, const struct gg_kernel *kernel, struct gg_dim grid, gg_stream stream, struct gg_args *args)
{
    return launch(dev, kernel, grid, stream, args, true);
}

/* ---- calls that repeat --------------------------------------------------------------------------------------------------------------- */

/* A launch takes the host 3.0 to 4.5 us, that of a graph of one to eight kernels 1.2 to 2.1, and 0.3 to 0.8 more for each kernel whose arguments
 * must be replaced first (H200's hosts, driver 580, 2026-11). With another function or grid to replace nothing is gained. On the GPU a graph of one
 * kernel ends 0 to 0.3 us later, and in a row of the same launches 0.1; one of two kernels 0.1 to 0.5 sooner than two launches, but two graphs 0.3 to
 * 1 later; of chains no difference is seen. So a call that follows itself in its stream, again and again, gets a graph. Making one takes 10 to 30 us,
 * the first one 0.7 ms: hence MADE. All together take 2 MB of the GPU. A stream's call is kept until others have come as often, or MOST times.
 * (bench/results/again-2026-11-27.txt, chains-2026-11-28.txt) */
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

/* A graph's kernels have a priority of their own, not that of the stream it is launched in. Nor do they keep to the part of the GPU that is its
 * stream's: streams of green contexts get no graphs. */
static bool get_priority(gg_stream stream, CUlaunchAttributeValue *priority)
{
    CUcontext context;
    CUgreenCtx part = NULL;
    return (!gg_cu.cuStreamGetCtx_v2 || GG_CU(cuStreamGetCtx_v2, stream, &context, &part)) && !part &&
           GG_CU(cuStreamGetPriority, stream, &priority->priority);
}

/* Adds a call's kernel i to the pattern, behind the one before it. */
static bool add_node(struct gg_repeat *r, int i, struct gg_two_args *args, const CUlaunchAttributeValue *priority)
{
    const struct gg_launch *const launch = &r->launches[i];
    void *parameters[] = {args};
    const CUDA_KERNEL_NODE_PARAMS node = node_of(launch, parameters);
    const CUlaunchAttributeValue cluster = {.clusterDim = {launch->cluster, 1, 1}};
    const CUgraphEdgeData early = {.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC, .type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC};
    const bool waits = i > 0 && !launch->early;
    return GG_CU(cuGraphAddKernelNode, &r->nodes[i], r->pattern, waits ? &r->nodes[i - 1] : NULL, waits, &node) &&
           (i == 0 || waits ||
            (gg_cu.cuGraphAddDependencies_v2 && GG_CU(cuGraphAddDependencies_v2, r->pattern, &r->nodes[i - 1], &r->nodes[i], &early, 1))) &&
           (priority->priority == 0 || GG_CU(cuGraphKernelNodeSetAttribute, r->nodes[i], CU_LAUNCH_ATTRIBUTE_PRIORITY, priority)) &&
           (launch->cluster <= 1 || GG_CU(cuGraphKernelNodeSetAttribute, r->nodes[i], CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &cluster));
}

/* The word of a chain's verdict; NULL: the call is no chain. Its last kernel certainly has it. */
static uint32_t *verdict_of(const struct gg_call *call) { return call->args[call->count - 1].each[0].verdict; }

/* The two words of a chain's graphs. */
static uint32_t *words_for_repeats(const struct gg_call *call) { return (uint32_t *)call->workspace.memory + FOR_REPEATS; }

/* Gives all kernels of a chain that word, and the first one another to clear. */
static void use_words(struct gg_call *call, uint32_t *verdict, uint32_t *clears)
{
    for (int i = 0; i < call->count; i++)
        call->args[i].each[0].verdict = call->args[i].each[1].verdict = verdict;
    call->args[0].each[0].clears = clears;
}

static void forget_graphs(struct gg_repeat *r)
{
    while (r->graphs > 0)
        (void)GG_CU(cuGraphExecDestroy, r->graph[--r->graphs].made); /* if it is running, it ends first */
    if (r->pattern)
        (void)GG_CU(cuGraphDestroy, r->pattern);
    r->pattern = NULL, r->turn = 0;
}

/* Of a chain both graphs are made with the arguments of the first; the second's are replaced when its turn comes. */
static void make_graphs(struct gg_repeat *r, struct gg_call *call)
{
    CUlaunchAttributeValue priority = {.priority = 0};
    bool good = get_priority(call->stream, &priority) && GG_CU(cuGraphCreate, &r->pattern, 0);
    for (int i = 0; good && i < r->count; i++)
        good = make_maps(call, i, &call->args[i]) && add_node(r, i, &call->args[i], &priority);
    const int wanted = verdict_of(call) ? 2 : 1;
    while (good && r->graphs < wanted) {
        struct gg_graph *const graph = &r->graph[r->graphs];
        good = GG_CU(cuGraphInstantiateWithFlags, &graph->made, r->pattern, 0);
        for (int i = 0; good && i < r->count; i++)
            memcpy(&graph->args[i], &call->args[i], bytes_of_arguments(call->kernels[i]));
        graph->settled = false;
        r->graphs += good;
    }
    if (good && wanted == 2)
        good = gg_gpu_clear(words_for_repeats(call), 2 * sizeof(uint32_t), call->stream);
    if (!good)
        forget_graphs(r);
    r->refused = !good;
}

/* Does the graph's kernel i have these arguments? The maps, which are in front, follow from the rest. */
static bool has_arguments(const struct gg_graph *graph, int i, const struct gg_call *call)
{
    const size_t from = offsetof(struct gg_args, m), bytes = bytes_of_arguments(call->kernels[i]),
                 to = bytes > sizeof(struct gg_args) ? bytes : offsetof(struct gg_args, keeps_b) + sizeof(uint8_t);
    return memcmp((const char *)&graph->args[i] + from, (const char *)&call->args[i] + from, to - from) == 0;
}

static bool replace_arguments(const struct gg_repeat *r, struct gg_graph *graph, struct gg_call *call)
{
    for (int i = 0; i < r->count; i++) {
        if (has_arguments(graph, i, call))
            continue;
        void *parameters[] = {&call->args[i]};
        const CUDA_KERNEL_NODE_PARAMS node = node_of(&r->launches[i], parameters);
        memcpy(&graph->args[i], &call->args[i], bytes_of_arguments(call->kernels[i]));
        if (!make_maps(call, i, &call->args[i]) || !GG_CU(cuGraphExecKernelNodeSetParams, graph->made, r->nodes[i], &node))
            return false;
    }
    return true;
}

static bool launch_graph(struct gg_repeat *r, struct gg_graph *graph, gg_stream stream)
{
    const bool launched = GG_CU(cuGraphLaunch, graph->made, stream);
    if (launched && r->graphs > 1)
        r->turn = !r->turn;
    return launched;
}

static bool is_call(const struct gg_repeat *r, const struct gg_call *call)
{
    return r->stream == call->id && r->count == call->count && memcmp(r->launches, call->launches, (size_t)call->count * sizeof *r->launches) == 0;
}

/* Launches the call as a graph, which is made if there is none. */
static bool launch_with_arguments(struct gg_repeat *r, struct gg_call *call)
{
    if (r->graphs == 0 && !r->refused)
        make_graphs(r, call);
    struct gg_graph *const graph = &r->graph[r->turn];
    if (r->graphs > 0 && !replace_arguments(r, graph, call))
        forget_graphs(r);
    if (r->graphs == 0)
        return false;
    graph->p = call->p, graph->workspace = call->workspace, graph->settled = !call->lacked;
    return launch_graph(r, graph, call->stream);
}

/* False: to be launched without a graph. */
static bool launch_again(struct gg_call *call)
{
    struct gg_repeat *const r = call->repeat;
    if (!r)
        return false;
    if (!is_call(r, call)) {
        r->interrupted = true;
        if (--r->seen <= 0) {
            forget_graphs(r);
            r->stream = call->id, r->count = call->count, r->seen = 1, r->interrupted = r->refused = false;
            memcpy(r->launches, call->launches, (size_t)call->count * sizeof *r->launches);
        }
        return false;
    }
    const bool in_a_row = !r->interrupted;
    r->interrupted = false;
    r->seen += r->seen < MOST;
    if (!in_a_row || r->seen < MADE)
        return false;
    uint32_t *const verdict = verdict_of(call);
    if (verdict)
        use_words(call, words_for_repeats(call) + r->turn, words_for_repeats(call) + !r->turn);
    const bool launched = launch_with_arguments(r, call);
    if (verdict && !launched)
        use_words(call, verdict, NULL);
    return launched;
}

static bool same_bits(double x, double y) { return memcmp(&x, &y, sizeof x) == 0; }

static bool same_product(const struct gg_gemm *p, const struct gg_gemm *q)
{
    return p->type == q->type && p->a_kmajor == q->a_kmajor && p->b_kmajor == q->b_kmajor && p->m == q->m && p->n == q->n && p->k == q->k &&
           p->a == q->a && p->b == q->b && p->c == q->c && p->lda == q->lda && p->ldb == q->ldb && p->ldc == q->ldc &&
           same_bits(p->alpha, q->alpha) && same_bits(p->beta, q->beta) && p->precision == q->precision;
}

/* The graph as it is, if it is of this very call and the workspace in it is still the stream's: none of the launches need be worked out. */
static bool launch_same(struct gg_device *dev, struct gg_repeat *r, const struct gg_gemm *p, const struct gg_call *call)
{
    struct gg_graph *const graph = &r->graph[r->turn];
    if (r->graphs == 0 || r->stream != call->id || r->interrupted || !graph->settled || !same_product(&graph->p, p) ||
        (graph->workspace.memory && !gg_gpu_still_has(dev, call->stream, &graph->workspace)))
        return false;
    r->seen += r->seen < MOST;
    return launch_graph(r, graph, call->stream);
}

void gg_enqueue_with(const struct gg_workspace *workspace)
{
    if (gathering && workspace)
        gathering->workspace = *workspace;
    else if (gathering)
        gathering->lacked = true;
}

void gg_gpu_begin_turn(struct gg_device *dev) { pthread_mutex_lock(&gg_state_of(dev)->turn); }
void gg_gpu_end_turn(struct gg_device *dev) { pthread_mutex_unlock(&gg_state_of(dev)->turn); }

bool gg_gpu_again(struct gg_device *dev, const struct gg_gemm *p, gg_stream stream)
{
    struct gg_device_state *const state = gg_state_of(dev);
    struct gg_call *const call = &state->call;
    CUstreamCaptureStatus status;
    call->stream = stream, call->p = *p, call->count = 0, call->begun = call->failed = call->lacked = false;
    call->workspace = (struct gg_workspace){.memory = NULL};
    const bool may_repeat = gg_cu.cuGraphExecKernelNodeSetParams && gg_cu.cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS &&
                            status == CU_STREAM_CAPTURE_STATUS_NONE && GG_CU(cuStreamGetId, stream, &call->id);
    call->repeat = may_repeat ? &state->repeats[call->id % REPEATS] : NULL;
    if (may_repeat && launch_same(dev, call->repeat, p, call))
        return true;
    gathering = call;
    return false;
}

bool gg_gpu_enqueue(bool done)
{
    struct gg_call *const call = gathering;
    gathering = NULL;
    if (!done || call->failed)
        return false;
    return (call->count > 0 && !call->begun && launch_again(call)) || launch_all(call);
}

/* fake_streams.h — the streams of fake_cuda.c's GPUs, each a thread that runs late and at its own pace; captures and events. A part of fake_cuda.c,
 * whose structures it works on. */
static void run(const struct operation *o)
{
    if (o->kind == COPY)
        for (size_t i = 0; i < o->height; i++)
            memcpy(see(o->dst + i * o->dst_pitch, o->width, false, "copy to"), see(o->src + i * o->src_pitch, o->width, false, "copy from"),
                   o->width);
    else if (o->kind == FILL)
        memset(see(o->dst, o->width, false, "fill"), o->value, o->width);
    else if (o->kind == KERNEL && !races.only)
        run_kernel(o->name, &o->args);
}

static void *stream_thread(void *argument)
{
    CUstream s = argument;
    running_on = device_of(s->context);
    unsigned pace = (unsigned)(uintptr_t)argument;
    lock();
    for (;;) {
        while (!s->first || (s->first->kind == WAIT && s->first->event->done < s->first->generation)) {
            if (s->destroyed && !s->first) { /* only now: work enqueued before the destruction is done first */
                CUstream *at = &f.streams;
                while (*at != s)
                    at = &(*at)->next;
                *at = s->next;
                f.taken[s->number] = false;
                unlock();
                free(s);
                return NULL;
            }
            pthread_cond_wait(&f.changed, &f.lock);
        }
        struct operation *o = s->first;
        unlock();
        happens_after(o);
        if (o->kind == WAIT && o->record)
            happens_after(o->record);
        pace = pace * 1103515245 + 12345;
        if (pace >> 28 == 0)
            usleep(pace >> 20 & 127);
        run(o);
        happens_before(&s->finished);
        happens_before(&f.enqueued);
        if (o->kind == RECORD)
            happens_before(o->record);
        if (o->kind == WRITE)
            happens_before(o->dst); /* who finds the word there */
        uint32_t *const word = o->kind == WRITE ? (uint32_t *)see(o->dst, sizeof *word, false, "a word") : NULL;
        lock();
        if (word) {
            join(&races.host, &o->clock);
            __atomic_store_n(word, (uint32_t)o->width, __ATOMIC_RELEASE);
        }
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

/* Called with the lock held. */
static CUstream new_stream(void)
{
    CUstream s = calloc(1, sizeof *s);
    s->context = current();
    s->id = ++f.stream_ids;
    take_number(s);
    start_stream(s);
    return s;
}

/* Resolves the two named streams (legacy and per-thread) to those of the current context. */
static CUstream real_stream(CUstream s)
{
    if (s && s != CU_STREAM_LEGACY && s != CU_STREAM_PER_THREAD)
        return s;
    CUstream *named = s == CU_STREAM_PER_THREAD ? &per_thread[device_of(current())] : &current()->legacy;
    lock();
    if (!*named)
        *named = new_stream();
    s = *named;
    unlock();
    return s;
}

static struct operation *copy_of(const struct operation *o)
{
    struct operation *copy = aligned_alloc(64, (sizeof *o + 63) / 64 * 64);
    *copy = *o;
    copy->next = NULL;
    return copy;
}

static void append(struct CUgraph_st *graph, struct operation *o)
{
    *(graph->first ? &graph->last->next : &graph->first) = o;
    graph->last = o;
}

static CUresult enqueue(CUstream stream, const struct operation *o)
{
    CUstream s = real_stream(stream);
    if (o->kind == RECORD && o->event->context != s->context)
        return CUDA_ERROR_INVALID_HANDLE;
    struct operation *copy = copy_of(o);
    happens_before(copy);
    lock();
    if (s->capture) {
        s->capture->invalid |= o->kind == RECORD || o->kind == WAIT;
        append(s->capture, copy);
        unlock();
        return CUDA_SUCCESS;
    }
    if (copy->kind == RECORD)
        copy->generation = ++copy->event->recorded, copy->record = copy->event->record = moment();
    if (copy->kind == WAIT)
        copy->generation = deaf() ? 0 : copy->event->recorded, copy->record = copy->generation ? copy->event->record : NULL;
    order(s, copy);
    *(s->first ? &s->last->next : &s->first) = copy;
    s->last = copy;
    s->enqueued++;
    pthread_cond_broadcast(&f.changed);
    unlock();
    return CUDA_SUCCESS;
}

static CUresult drain(CUstream stream)
{
    CUstream s = real_stream(stream);
    lock();
    while (s->finished < s->enqueued)
        pthread_cond_wait(&f.changed, &f.lock);
    join(&races.host, &s->clock);
    unlock();
    happens_after(&s->finished);
    return CUDA_SUCCESS;
}

CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority)
{
    (void)flags, (void)priority;
    ENTER(true);
    lock();
    *stream = new_stream();
    unlock();
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

static bool ends_capture(CUstream stream)
{
    struct CUgraph_st *capture = real_stream(stream)->capture;
    if (capture)
        capture->invalid = true;
    return capture != NULL;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
    (void)flags;
    ENTER(true);
    if (graph->nodes > 0 && graph->edges != graph->nodes - 1)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraph copy = calloc(1, sizeof *copy);
    copy->context = graph->context, copy->from = graph;
    for (const struct operation *o = graph->first; o; o = o->next)
        append(copy, copy_of(o));
    *exec = (CUgraphExec)copy;
    return CUDA_SUCCESS;
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
    ENTER(true);
    if (ends_capture(stream))
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    const CUgraph graph = (CUgraph)exec;
    if (graph->context && graph->context != real_stream(stream)->context)
        return CUDA_ERROR_INVALID_HANDLE;
    for (const struct operation *o = graph->first; o; o = o->next)
        enqueue(stream, o);
    return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph graph)
{
    ENTER(true);
    for (struct operation *o = graph->first; o;) {
        struct operation *const next = o->next;
        free(o);
        o = next;
    }
    free(graph);
    return CUDA_SUCCESS;
}

CUresult cuGraphExecDestroy(CUgraphExec exec) { return cuGraphDestroy((CUgraph)exec); }

CUresult cuGraphCreate(CUgraph *graph, unsigned flags)
{
    ENTER(true);
    *graph = calloc(1, sizeof **graph);
    return flags == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static bool is_launchable(const CUDA_KERNEL_NODE_PARAMS *k)
{
    return k->gridDimX && k->gridDimY && k->gridDimZ && k->blockDimX && k->blockDimY * k->blockDimZ == 1 && k->sharedMemBytes <= shared_memory() &&
           !k->extra && k->func->context == current();
}

/* How many problems such a kernel has. */
static int problems_of(const char *kernel) { return 1 + (strstr(kernel, "_two") != NULL); }

/* A graph made by hand is kernels one behind the other. A node is its first problem. */
CUresult cuGraphAddKernelNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count, const CUDA_KERNEL_NODE_PARAMS *kernel)
{
    ENTER(true);
    if (count > 1 || (count > 0 && *after != graph->end) || !is_launchable(kernel))
        return CUDA_ERROR_INVALID_VALUE;
    graph->context = current();
    graph->nodes++, graph->edges += (int)count;
    const struct gg_args *const args = kernel->kernelParams[0];
    for (int i = 0; i < problems_of(kernel->func->name); i++) {
        append(graph, copy_of(&(struct operation){.kind = KERNEL, .name = kernel->func->name, .args = args[i]}));
        if (i == 0)
            *node = graph->end = (CUgraphNode)graph->last;
    }
    return CUDA_SUCCESS;
}

CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, const CUgraphEdgeData *edges, size_t count)
{
    ENTER(true);
    if (count != 1 || *to != graph->end || *from == *to || edges->type != CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC)
        return CUDA_ERROR_INVALID_VALUE;
    graph->edges++;
    return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeSetAttribute(CUgraphNode node, CUkernelNodeAttrID what, const CUkernelNodeAttrValue *value)
{
    ENTER(true);
    return node && (what == CU_LAUNCH_ATTRIBUTE_PRIORITY || (what == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION && value->clusterDim.x))
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *kernel)
{
    ENTER(true);
    struct operation *o = ((CUgraph)exec)->first, *was = ((CUgraph)exec)->from->first;
    for (; was && (CUgraphNode)was != node; was = was->next)
        o = o->next;
    if (!was || !is_launchable(kernel) || strcmp(was->name, kernel->func->name) || kernel->func->context != ((CUgraph)exec)->context)
        return CUDA_ERROR_INVALID_VALUE;
    const struct gg_args *const args = kernel->kernelParams[0];
    for (int i = 0; i < problems_of(was->name); i++, o = o->next)
        o->args = args[i];
    return CUDA_SUCCESS;
}

CUresult cuStreamGetPriority(CUstream stream, int *priority)
{
    (void)stream;
    ENTER(true);
    *priority = 0;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetCtx_v2(CUstream stream, CUcontext *context, CUgreenCtx *part)
{
    ENTER(true);
    *context = real_stream(stream)->context, *part = NULL;
    return CUDA_SUCCESS;
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
    lock();
    stream->destroyed = true;
    pthread_cond_broadcast(&f.changed);
    unlock();
    return CUDA_SUCCESS;
}

static void drain_all(bool told)
{
    lock();
    for (CUstream s = f.streams; s;)
        if (s->finished < s->enqueued) {
            pthread_cond_wait(&f.changed, &f.lock);
            s = f.streams; /* a stream may have gone meanwhile */
        } else {
            s = s->next;
        }
    if (told)
        join(&races.host, &f.enqueued);
    unlock();
    happens_after(&f.enqueued);
}

CUresult cuCtxSynchronize(void)
{
    ENTER(false);
    drain_all(true);
    return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream stream)
{
    ENTER(true);
    return ends_capture(stream) ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : drain(stream);
}

CUresult cuStreamQuery(CUstream stream)
{
    ENTER(true);
    CUstream s = real_stream(stream);
    lock();
    const bool done = s->finished == s->enqueued;
    unlock();
    return done ? drain(stream) : CUDA_ERROR_NOT_READY;
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
    lock();
    while (wait && event->done < event->recorded)
        pthread_cond_wait(&f.changed, &f.lock);
    CUresult result = event->done < event->recorded ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
    if (result == CUDA_SUCCESS)
        join(&races.host, &event->clock);
    void *const record = result == CUDA_SUCCESS ? event->record : NULL;
    unlock();
    if (record)
        happens_after(record);
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

/* fake_races.h — operations that touch the same bytes, one of them writing, and neither of which is sure to come first: a race, though it may go well
 * a million times. A part of fake_cuda.c, looked for when FAKE_CUDA_RACES is set. The first one found ends the process, and both are named.
 *
 * What is sure to come first follows from what was asked of the driver, not from what happened to be late: what is before an operation on its stream;
 * before the record of an event that the stream was told to wait for; and what the host had found done (cuStreamSynchronize, cuEventQuery …) when it
 * enqueued the operation. A clock says how many operations of each stream that is. Operations are looked at as they are enqueued, a kernel with all
 * that it may touch, be it its turn or not. The host is one: what one of its threads has found done, all know; ThreadSanitizer knows better.
 *
 * The host's own accesses are not seen, but some follow. The library's page-locked memory (of a context that was pushed: tests make theirs current)
 * is filled or emptied before each copy of it, so the copy before that must have been found done; and so must, when a thread pops the context, all
 * that it has enqueued there on host memory. To free memory waits for the GPU, but orders nothing else: that is not promised. */

struct area {
    const char *base;
    size_t pitch, width, height;
};

struct access {
    struct area area;
    const char *what;
    const void *thread; /* that enqueued it in a context that it had pushed, and on host memory; else NULL */
    int stream;         /* its number */
    uint32_t turn;
    bool writes;
};

static struct {
    bool on, only;
    struct clock host;      /* what it has found done */
    struct access *pending; /* and what not */
    size_t count, room;
    int deaf; /* percent */
} races;

__attribute__((constructor)) static void start_races(void)
{
    const char *wanted = getenv("FAKE_CUDA_RACES"), *deaf = getenv("FAKE_CUDA_DEAF");
    races.on = wanted != NULL;
    races.only = wanted && !strcmp(wanted, "only");
    races.deaf = deaf ? atoi(deaf) : 0;
}

/* Is this one of the waits that are to be forgotten, to see that races are found? */
static bool deaf(void)
{
    static unsigned draw = 1;
    draw = draw * 1103515245 + 12345;
    return (int)(draw >> 16) % 100 < races.deaf;
}

/* The least that is free. A stream that had it before has been before this one. */
static void take_number(CUstream s)
{
    while (races.on && f.taken[s->number])
        if (++s->number == CLOCKS)
            die("more than %d streams", CLOCKS);
    f.taken[s->number] = true;
    s->clock.of[s->number] = f.enqueued.of[s->number];
}

static void join(struct clock *x, const struct clock *y)
{
    for (int i = 0; races.on && i < CLOCKS; i++)
        x->of[i] = x->of[i] > y->of[i] ? x->of[i] : y->of[i];
}

/* Do some of its bytes lie in [from, to)? */
static bool reaches(const struct area *a, const char *from, const char *to)
{
    if (to <= a->base || from >= a->base + (a->height - 1) * a->pitch + a->width)
        return false;
    const size_t line = from < a->base ? 0 : (size_t)(from - a->base) / a->pitch; /* the last one that begins before them */
    return from < a->base + line * a->pitch + a->width || (line + 1 < a->height && to > a->base + (line + 1) * a->pitch);
}

static bool overlap(const struct area *a, const struct area *b)
{
    if (b->height < a->height)
        return overlap(b, a);
    if (!reaches(&(struct area){b->base, 1, (b->height - 1) * b->pitch + b->width, 1}, a->base, a->base + (a->height - 1) * a->pitch + a->width))
        return false;
    for (size_t i = 0; i < a->height; i++)
        if (reaches(b, a->base + i * a->pitch, a->base + i * a->pitch + a->width))
            return true;
    return false;
}

static void report(const struct access *x, const struct access *y)
{
    die("a race: %s (stream %d, its operation %u) %s %zu lines of %zu bytes, %zu apart, at %p, and %s (stream %d, its operation %u) %s %zu of %zu, "
        "%zu apart, at %p",
        x->what, x->stream, x->turn, x->writes ? "writes" : "reads", x->area.height, x->area.width, x->area.pitch, (void *)x->area.base, y->what,
        y->stream, y->turn, y->writes ? "writes" : "reads", y->area.height, y->area.width, y->area.pitch, (void *)y->area.base);
}

/* An access after all that `before` says, and nothing else. */
static void compare(const struct access *x, const struct clock *before)
{
    size_t kept = 0;
    for (size_t i = 0; i < races.count; i++) {
        const struct access *y = &races.pending[i];
        if (y->turn <= races.host.of[y->stream])
            continue;
        if ((x->writes || y->writes) && y->turn > before->of[y->stream] && overlap(&x->area, &y->area))
            report(x, y);
        races.pending[kept++] = *y;
    }
    races.count = kept;
}

static void touch(CUstream s, const struct operation *o, bool writes, const void *base, size_t pitch, size_t width, size_t height)
{
    if (!base || !width || !height)
        return;
    const bool whole = pitch == width || height == 1, copies = o->kind == COPY || (o->kind == KERNEL && strstr(o->name, "gg_transfer"));
    const struct allocation *a = allocation_of(base);
    struct access x = {.area = {base, whole ? width * height : pitch, whole ? width * height : width, whole ? 1 : height},
                       .what = o->kind == KERNEL ? o->name
                               : o->kind == FILL ? "a fill"
                               : o->kind == WRITE ? "a written word"
                                                 : "a copy",
                       .thread = pushed && (!a || a->address == a->shadow) ? &pushed : NULL,
                       .stream = s->number,
                       .turn = s->clock.of[s->number],
                       .writes = writes};
    if (copies && a && a->own)
        compare(&(struct access){.area = x.area, .what = "the host, before a copy", .stream = x.stream, .turn = x.turn, .writes = !writes},
                &races.host);
    compare(&x, &s->clock);
    if (races.count == races.room) {
        races.room = 2 * races.room + 64;
        if (!(races.pending = realloc(races.pending, races.room * sizeof x)))
            die("no memory");
    }
    races.pending[races.count++] = x;
}

/* All that it touches on a GPU that is not this one, too. Of a workspace, which a stream has for itself, as much as there is. */
static void touch_kernel(CUstream s, const struct operation *o)
{
    const struct gg_args *p = &o->args;
    const char *name = o->name;
    const bool int8 = strstr(name, "int8"), restores = strstr(name, "restore");
    const bool chain = strstr(name, "tensor_"), packs = strstr(name, "gg_pack");
    const bool splits = strstr(name, "gg_split") || strstr(name, "gg_certify") || strstr(name, "residues");
    const bool adds = strstr(name, "fixup") || strstr(name, "_sum") || restores;
    const bool operands = !adds && !strstr(name, "scale") && (!chain || strstr(name, "_or_"));
    const bool is_double = strstr(name, "dgemm") || strstr(name, "_d") || int8 || restores || strstr(name, "residues");
    const size_t size = is_double ? 8 : 4, m = (size_t)p->m, n = (size_t)p->n, k = (size_t)p->k, line = k * size;
    if (strstr(name, "gg_transfer")) {
        touch(s, o, false, p->a, 0, m * 16, 1);
        touch(s, o, true, p->c, 0, m * 16, 1);
        return;
    }
    if (operands && m && (!packs || p->c))
        touch(s, o, false, p->a, (size_t)p->lda * size, p->a_kmajor ? line : m * size, p->a_kmajor ? m : k);
    if (operands && n && (!packs || p->workspace))
        touch(s, o, false, p->b, (size_t)p->ldb * size, p->b_kmajor ? line : n * size, p->b_kmajor ? n : k);
    const bool mapped = strstr(name, "mapped"); /* its workspace is the C that is read */
    if (mapped)
        touch(s, o, false, p->workspace, (size_t)p->ldc * size, m * size, n);
    if (packs) {
        touch(s, o, true, p->c, 0, ((m + 3) / 4 * 4 * (k - 1) + m) * size, 1);
        touch(s, o, true, p->workspace, 0, ((n + 3) / 4 * 4 * (k - 1) + n) * size, 1);
        return;
    }
    if (chain || splits) {
        const struct tier t = tier_of(name);
        const size_t chunk = (size_t)t.chunk, each = (k + chunk - 1) / chunk * chunk * (size_t)t.bytes;
        touch(s, o, splits, p->pieces_a, 0, (m + 127) / 128 * 128 * each, 1);
        touch(s, o, splits, p->pieces_b, 0, (n + 127) / 128 * 128 * each, 1);
        touch(s, o, splits, p->scale_a, 0, m * sizeof(float), 1);
        touch(s, o, splits, p->scale_b, 0, n * sizeof(float), 1);
    }
    touch(s, o, splits || strstr(name, "bf16"), p->verdict, 0, sizeof *p->verdict, 1);
    if (p->pieces_c && (int8 || restores))
        touch(s, o, int8, p->pieces_c, 0, (m + 255) / 256 * 256 * ((n + 255) / 256 * 256) * GG_INT8_MODULI, 1);
    if (!splits && !int8)
        touch(s, o, true, p->c, (size_t)p->ldc * size, m * size, n);
    const struct allocation *scratch = p->workspace && !mapped ? allocation_of(p->workspace) : NULL;
    if (scratch)
        touch(s, o, true, (char *)p->workspace - GG_FLAGS * 4, 0, (size_t)(scratch->address + scratch->bytes - (char *)p->workspace) + GG_FLAGS * 4,
              1);
}

/* Under the lock, of an operation that is being enqueued. */
static void order(CUstream s, struct operation *o)
{
    if (!races.on)
        return;
    join(&s->clock, &races.host);
    if (o->kind == WAIT && o->generation > 0)
        join(&s->clock, &o->event->clock);
    f.enqueued.of[s->number] = ++s->clock.of[s->number];
    if (o->kind == RECORD)
        o->event->clock = s->clock;
    if (o->kind == WRITE) {
        o->clock = s->clock;
        touch(s, o, true, o->dst, 0, sizeof(uint32_t), 1);
    }
    if (o->kind == COPY)
        touch(s, o, false, o->src, o->src_pitch, o->width, o->height);
    if (o->kind == COPY || o->kind == FILL)
        touch(s, o, true, o->dst, o->dst_pitch, o->width, o->kind == FILL ? 1 : o->height);
    if (o->kind == KERNEL)
        touch_kernel(s, o);
}

/* Nobody looks for what is in it any more. Under the lock. */
static void forget(const struct allocation *a)
{
    size_t kept = 0;
    for (size_t i = 0; i < races.count; i++)
        if (races.pending[i].area.base < a->address || races.pending[i].area.base >= a->address + a->bytes)
            races.pending[kept++] = races.pending[i];
    races.count = kept;
}

static void leave(void)
{
    lock();
    for (size_t i = 0; races.on && pushed == 0 && i < races.count; i++)
        if (races.pending[i].thread == &pushed && races.pending[i].turn > races.host.of[races.pending[i].stream])
            report(&(struct access){.what = "the caller, who has the host's memory back", .writes = true, .area = races.pending[i].area},
                   &races.pending[i]);
    unlock();
}

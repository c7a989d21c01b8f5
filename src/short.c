/* short.c — owns staged calls so short (up to sgemm n = 1024) that a plan would cost more than it saves: the whole problem goes through the lane's own
 * page-locked buffer. Pieces of A and B are packed by all copy threads and the caller and sent off in their order, one kernel runs, C comes down
 * in parts that are unpacked while the next is on its way. Called by staged.c. */
#include "short.h"

#include <stdlib.h>

#include "config.h"
#include "copy.h"
#include "kernels.h"
#include "operand.h"
#include "real.h"

/* Up to here (sgemm n = 280) the calling thread is done before another has woken up. */
static const int64_t alone_bytes = 1 << 20;

/* An operand in the lane's page-locked buffer and, at the same offset, in its arena: lines of a multiple of 128 bytes. */
struct packed {
    char *host; /* the caller's */
    int64_t offset, pitch, host_pitch, width, lines, bytes;
    int64_t piece; /* lines a copy thread takes at a time */
};

/* Lays the three out one behind the other. The bytes they need, or INT64_MAX. */
static int64_t pack_plan(const struct gg_gemm *p, struct packed packed[3])
{
    int64_t size = (int64_t)gg_size(p->type);
    double need = 0;
    for (int x = GG_A; x <= GG_C; x++) {
        int64_t rows = x == GG_B ? p->k : p->m, cols = x == GG_A ? p->k : p->n;
        bool second = gg_second_contiguous(p, (enum gg_operand)x);
        struct packed *o = &packed[x];
        o->host = gg_element(p, (enum gg_operand)x, 0, 0);
        o->host_pitch = gg_leading(p, (enum gg_operand)x);
        o->width = (second ? cols : rows) * size;
        o->lines = second ? rows : cols;
        o->pitch = (o->width + 127) & -128;
        o->offset = (int64_t)need;
        need += (double)o->pitch * (double)o->lines;
        if (need > GG_SHORT_BYTES)
            return INT64_MAX;
        o->bytes = o->pitch * o->lines;
    }
    for (int x = GG_A; x <= GG_C; x++) {
        /* 16 pieces keep 8 threads busy; a piece below 128 KB costs more to hand over than to copy, and above 256 KB its transfer starts late */
        struct packed *o = &packed[x];
        int64_t bytes = o->bytes / 16 < 128 << 10 ? 128 << 10 : gg_min(o->bytes / 16, 256 << 10);
        o->piece = need <= alone_bytes ? gg_max(1, o->lines) : gg_max(1, bytes / o->pitch);
    }
    return (int64_t)need;
}

/* One piece of a packed operand: lines [line, line + lines). */
static struct gg_copy piece_of(const struct gg_lane *lane, const struct packed *o, int64_t line, bool pack)
{
    char *mine = lane->pinned + o->offset + line * o->pitch, *theirs = o->host + line * o->host_pitch;
    return (struct gg_copy){.dst = pack ? mine : theirs,
                            .src = pack ? theirs : mine,
                            .dst_pitch = pack ? o->pitch : o->host_pitch,
                            .src_pitch = pack ? o->host_pitch : o->pitch,
                            .width = o->width,
                            .lines = gg_min(o->piece, o->lines - line)};
}

/* Alone, the calling thread makes each copy when it is waited for. */
static void hand_out(struct gg_copy *copy, bool alone)
{
    if (!alone)
        gg_copy_post(copy);
}

static void await(struct gg_copy *copy, bool alone)
{
    if (alone)
        gg_copy_run(copy);
    while (!alone && !atomic_load_explicit(&copy->done, memory_order_acquire))
        if (!gg_copy_help())
            gg_relax();
}

bool gg_is_short(const struct gg_gemm *p)
{
    struct packed packed[3];
    return pack_plan(p, packed) <= GG_SHORT_BYTES;
}

bool gg_short_gemm(struct gg_lane *lane, const struct gg_gemm *p, const void *caller, struct gg_outcome *outcome)
{
    struct packed packed[3];
    int64_t need = pack_plan(p, packed);
    enum { PARTS = 4, PIECES = 3 * (GG_SHORT_BYTES / (32 << 10)) }; /* a piece has at least 64 KB, but for its last line */
    struct gg_copy *copies = malloc(PIECES * sizeof *copies);
    gg_stream stream = lane->run[0];
    int count = 0, sent = 0, inputs = p->beta == 0 ? 2 : 3;
    outcome->reason = GG_NO_MEMORY;
    if (!copies || !gg_lane_grow_pinned(lane, need) || !gg_lane_grow_arena(lane, need) || !gg_lane_grow_events(lane, PARTS)) {
        free(copies);
        return false;
    }
    outcome->reason = GG_GPU_ERROR;
    bool alone = need <= alone_bytes;
    if (!alone)
        gg_copy_begin();
    for (int x = GG_A; x < inputs; x++)
        for (int64_t line = 0; line < packed[x].lines; line += packed[x].piece) {
            copies[count] = piece_of(lane, &packed[x], line, true);
            hand_out(&copies[count++], alone);
        }
    bool good = true;
    for (int x = GG_A; x < inputs; x++)
        for (int64_t line = 0; line < packed[x].lines; line += packed[x].piece) {
            struct gg_copy *copy = &copies[sent++];
            int64_t offset = packed[x].offset + line * packed[x].pitch, bytes = copy->lines * packed[x].pitch;
            await(copy, alone);
            good = good && gg_gpu_copy(lane->arena + offset, lane->pinned + offset, (size_t)bytes, stream);
            outcome->bytes_up += bytes;
        }
    int64_t size = (int64_t)gg_size(p->type);
    struct gg_gemm q = *p;
    q.a = lane->arena + packed[GG_A].offset;
    q.b = lane->arena + packed[GG_B].offset;
    q.c = lane->arena + packed[GG_C].offset;
    q.lda = packed[GG_A].pitch / size;
    q.ldb = packed[GG_B].pitch / size;
    q.ldc = packed[GG_C].pitch / size;
    struct gg_choice choice = gg_select(&q, &lane->dev->arch, gg_config()->kernel);
    outcome->kernel = choice.kernel;
    good = good && choice.kernel && gg_launch(lane->dev, &choice, &q, stream);
    /* C comes down in parts, each unpacked while the next is on its way */
    const struct packed *c = &packed[GG_C];
    int64_t part = c->piece * ((c->lines + PARTS * c->piece - 1) / (PARTS * c->piece)), arrived = 0;
    int parts = 0;
    for (int64_t line = 0; good && line < c->lines; line += part, parts++) { /* at most PARTS of them */
        int64_t offset = c->offset + line * c->pitch, lines = gg_min(part, c->lines - line);
        good = gg_gpu_copy(lane->pinned + offset, lane->arena + offset, (size_t)(lines * c->pitch), stream) &&
               gg_gpu_event_record(lane->events[parts], stream);
    }
    count = 0;
    for (int i = 0; good && i < parts; i++) {
        int done;
        while ((done = gg_gpu_event_done(lane->events[i])) == 0)
            gg_relax();
        good = done > 0;
        for (int64_t end = gg_min(arrived + part, c->lines); good && arrived < end; arrived += c->piece) {
            copies[count] = piece_of(lane, c, arrived, false);
            hand_out(&copies[count++], alone);
        }
    }
    for (int i = 0; i < count; i++)
        await(&copies[i], alone);
    if (!alone)
        gg_copy_end();
    free(copies);
    if (!good)
        (void)gg_gpu_stream_sync(stream); /* nothing may still use the buffers when the next call takes this lane */
    if (!good && arrived > 0) {
        struct gg_gemm rest = *p;
        rest.n -= arrived;
        rest.b = gg_element(p, GG_B, 0, arrived);
        rest.c = gg_element(p, GG_C, 0, arrived);
        gg_real_gemm(&rest, caller);
        good = outcome->recovered = true;
    }
    outcome->bytes_down = gg_min(arrived, c->lines) * c->pitch;
    return good;
}

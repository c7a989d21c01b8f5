/* short.c — owns staged calls so short (up to sgemm n = 740) that a plan would cost more than it saves: the whole problem goes through the lane's own
 * page-locked buffer. The shortest are multiplied right there, by one kernel (cuda/mapped.cu). Of others an operand travels in legs, a leg being some
 * of its lines. The copy threads and the caller pack A and B leg by leg; each leg is uploaded as soon as it is packed, or a kernel fetches it; beside
 * other calls, all goes up in one copy. One kernel multiplies. It writes C into page-locked memory itself, or another does, or C comes down in legs,
 * each unpacked while the next is on its way. Called by staged.c. */
#include "short.h"

#include <stdlib.h>
#include <time.h>

#include "config.h"
#include "copy.h"
#include "cpus.h"
#include "kernels.h"
#include "operand.h"
#include "rates.h"
#include "real.h"
#include "trace.h"

/* The calling thread packs alone up to alone_bytes (sgemm n = 280), because it is done before a sleeping copy thread has woken up; up to
 * always_alone_bytes (n = 144), because it is done before even a polling one has noticed the work. A call that comes within `soon` seconds of the
 * last one finds the threads awake, or wakes them for the next. */
static const int64_t alone_bytes = 1 << 20, always_alone_bytes = 250 << 10;
static const double soon = 40e-6;

/* Beside others a call of more than together_bytes (sgemm from n = 385 on) goes up in one copy, because others keep the link busy while it packs, and
 * each copy costs the link as much as 140 KB. (H200, thousand calls a second in legs and in one copy, 4 threads: sgemm 400 22 and 30, 512 13 and 19,
 * 700 7.9 and 9.9, dgemm 400 8 and 16.5; shorter ones lose: sgemm 330 25 and 20.) */
static const int64_t together_bytes = 1800 << 10;

/* Beside CROWD others the link is the bottleneck, and a call packs and unpacks for itself; a longer one than together_bytes beside half as many others
 * as there are processors, but at least CROWD and at most LONGER_CROWD. (H200's host, 16 processors, thousand calls a second with the copy threads' help
 * and without: sgemm 512 by 6 threads 20 and 14.7, by 8 20 and 18.6, by 10 20 and 22; dgemm 256 by 6 26 and 28, by 8 20 and 33. Of dgemm 512 by 16
 * threads 8.6; with uploads on a stream each and C by the kernel that multiplies 7.2.) */
enum { CROWD = 4, LONGER_CROWD = 8 };

/* A call that runs alone is short up to here. A longer one with much of C to download gains by overlapping that with the upload. (H200, 2026-11,
 * whole and in 5 to 7 steps: sgemm 640 165 and 184 us, 768 231 and 217, 1024 341 and 300, dgemm 512 191 and 193, 640 281 and 254; four threads with
 * 1024 each 4500 and 3400 calls a second.) */
static const int64_t lone_bytes = GG_SHORT_BYTES / 2;

/* Up to here the kernel writes C into page-locked memory itself: a separate copy would cost 9 µs more (H200, 2026-11; at n = 768 20 µs, at 1024
 * none). */
static const int64_t direct_bytes = 3 << 20;

/* Where C is read, up to here: a kernel reads it in GPU memory, and another copies it to page-locked memory. (H200, 2026-11, copy engine and kernel:
 * sgemm 128 49.5 us and 43.6, 256 72 and 67, 448 133 and 127, 512 154 and 152, 720 268 and 280; dgemm 128 58 and 53, 384 158 and 159. The kernel that
 * multiplies, reading and writing C in page-locked memory: sgemm 256 98, dgemm 128 60.) */
static const int64_t stored_bytes = 1 << 20;

/* Up to here a kernel fetches A and B from page-locked memory. The copy engine takes 8 µs to its first byte, and a kernel behind it begins 6 µs after
 * its last. (H200, 2026-11, copy engine and kernel: sgemm 96 33 µs and 26, 128 39 and 32, 160 44 and 38; from 192 on, where one leg's copy hides
 * behind the packing of the next, both are equally fast, up to 512.) */
static const int64_t fetched_bytes = 1 << 20;

/* Legs of an operand, at most, not counting a small one in front; and of C, which is unpacked leg by leg. */
enum { LEGS = 4, C_LEGS = 8 };

/* The page-locked buffer begins with so many bytes, of which the first word says that C is there. */
enum { HEAD = 128 };

/* One operand, packed in the lane's page-locked buffer and, at the same offset, in its arena. */
struct packed {
    char *host; /* the caller's */
    int64_t offset, pitch, host_pitch, width, lines, bytes;
    int64_t back; /* C: its offset in the page-locked buffer when it comes down */
    int64_t leg;  /* most lines in a leg */
};

/* Some lines of an operand that travel together. */
struct leg {
    const struct packed *operand;
    int64_t line, lines;
    _Atomic int left; /* copies to be made */
};

/* The legs of a call, and the copies that pack or unpack them. Copies [0, posted) have been given to the copy threads, [posted, cut) not yet. */
enum { MOST_LEGS = 1 + 2 * LEGS + C_LEGS };
struct legs {
    struct leg legs[MOST_LEGS];
    struct gg_copy copies[MOST_LEGS * GG_PIECES];
    int cut, posted;
};

/* copy_seconds: what a copy costs the link on top of its bytes (H200: 32 MB in 613 us, in pieces of 1 MB in 697). ahead: a copy must be enqueued so
 * long before the link runs out of work. */
static const double copy_seconds = 2.6e-6, ahead = 8e-6;

/* How C comes down: by the kernel that multiplies, by one behind it, or by the copy engine in legs. */
enum down { BY_PRODUCT, BY_TRANSFER, IN_LEGS };

/* How a call is carried out. */
struct manner {
    bool mapped;   /* the GG_MAPPED kernel multiplies in page-locked memory */
    bool crowd;    /* among so many others: C comes down in one copy, and the caller sleeps until it is there */
    bool alone;    /* the caller packs and unpacks without the copy threads */
    bool together; /* all that goes up goes in one copy */
    bool fetched;  /* a kernel takes it up, or nothing goes up because it is mapped */
    gg_stream up;  /* where it goes up: all of a crowd share one stream */
    enum down down;
};

/* Lays the three operands out one behind the other, for the GG_MAPPED kernel or for others. Returns the bytes they need, INT64_MAX if they do not
 * fit. */
static int64_t pack_plan(const struct gg_gemm *p, bool mapped, struct packed packed[3])
{
    int64_t size = (int64_t)gg_size(p->type);
    const struct gg_gemm staged = gg_as_staged(*p);
    double need = HEAD;
    for (int x = GG_A; x <= GG_C; x++) {
        int64_t rows = x == GG_B ? p->k : p->m, cols = x == GG_A ? p->k : p->n;
        bool second = gg_second_contiguous(p, (enum gg_operand)x);
        struct packed *o = &packed[x];
        o->host = gg_element(p, (enum gg_operand)x, 0, 0);
        o->host_pitch = gg_leading(p, (enum gg_operand)x);
        o->width = (second ? cols : rows) * size;
        o->lines = second ? rows : cols;
        o->pitch = !mapped ? gg_leading(&staged, (enum gg_operand)x) : x == GG_C ? gg_round_up(o->width, 16) : gg_mapped_pitch(p, x == GG_A);
        o->offset = (int64_t)need;
        need += (double)o->pitch * (double)o->lines;
        if (need > GG_SHORT_BYTES)
            return INT64_MAX;
        o->bytes = o->pitch * o->lines;
        /* Apart, where C is read: packing past the caches is slow where unpacking has left lines in them. */
        const bool apart = x == GG_C && p->beta != 0 && o->bytes <= stored_bytes && need + (double)o->bytes <= GG_SHORT_BYTES;
        o->back = apart ? (int64_t)need : o->offset;
        /* Fewer legs: each copy costs the link 2 µs. More legs: the last one cannot leave before it is packed. */
        int64_t leg = gg_max(o->bytes / (x == GG_C ? C_LEGS : LEGS), gg_max(128 << 10, gg_min(o->bytes / 2, 512 << 10)));
        o->leg = gg_max(1, gg_ceil_div(leg, o->pitch));
    }
    return (int64_t)need;
}

/* A leg from `line` on, of at most `most` lines. */
static struct leg *add_leg(struct leg *leg, const struct packed *o, int64_t line, int64_t most)
{
    leg->operand = o;
    leg->line = line;
    leg->lines = gg_min(most, o->lines - line);
    return leg;
}

/* Who packs or unpacks a leg: the copy threads; this thread, which returns when it is done. */
enum by { THREADS, SELF };

static void start(struct legs *legs, struct leg *leg, const struct gg_lane *lane, bool pack, enum by by)
{
    const struct packed *o = leg->operand;
    char *mine = lane->pinned.memory + (pack ? o->offset : o->back) + leg->line * o->pitch, *theirs = o->host + leg->line * o->host_pitch;
    struct gg_copy whole = {.dst = pack ? mine : theirs,
                            .src = pack ? theirs : mine,
                            .dst_pitch = pack ? o->pitch : o->host_pitch,
                            .src_pitch = pack ? o->host_pitch : o->pitch,
                            .width = o->width,
                            .lines = leg->lines,
                            .cached = !pack,
                            .padded = pack,
                            .left = &leg->left};
    if (by == SELF) {
        gg_copy_run(&whole);
        atomic_store_explicit(&leg->left, 0, memory_order_relaxed);
    } else {
        const int64_t least = o->width * leg->lines <= 256 << 10 ? 32 << 10 : 64 << 10;
        legs->cut += gg_copy_cut(&whole, &legs->copies[legs->cut], GG_PIECES, least);
    }
}

/* Hands all copies started so far to the copy threads. Each hand-over takes as long as some copies. */
static void post(struct legs *legs)
{
    if (legs->cut > legs->posted)
        gg_copy_post(&legs->copies[legs->posted], legs->cut - legs->posted, false);
    legs->posted = legs->cut;
}

bool gg_is_short(const struct gg_gemm *p)
{
    struct packed packed[3];
    const int64_t bytes = pack_plan(p, false, packed);
    return bytes <= GG_SHORT_BYTES && (bytes <= lone_bytes || packed[GG_C].bytes < bytes / 16 || gg_copy_calls() > 0);
}

/* Waits until the next leg is packed, or until time `wanted`, when the link needs more work. Was it packed in time? */
static bool is_in_time(struct leg *next, double wanted)
{
    bool made;
    while (!(made = gg_copy_made(&next->left)) && gg_now() < wanted)
        if (!gg_copy_help())
            gg_relax();
    return made && gg_now() < wanted;
}

/* Packs the first `inputs` operands and uploads them, unless they are mapped. Copy threads pack all legs at once; a thread that is alone packs one
 * after the other. */
static bool send(struct gg_lane *lane, const struct manner *how, const struct packed packed[3], int inputs, struct legs *legs,
                 struct gg_outcome *outcome)
{
    gg_stream stream = lane->run[0], up = how->up;
    /* The first leg is small, so that the link starts early. An operand that the threads pack in no time goes in one leg. */
    const int64_t at_once = 512 << 10;
    int count = 0;
    int64_t sent = packed[GG_A].offset;
    double busy_until = 0; /* the link, by estimate */
    bool good = true;
    for (int x = GG_A; x < inputs; x++) {
        const struct packed *o = &packed[x];
        const bool whole = how->fetched || how->together || (!how->alone && o->bytes <= at_once);
        for (int64_t line = 0; line < o->lines; line += legs->legs[count++].lines) {
            const int64_t most = whole ? o->lines : x == GG_A && line == 0 ? gg_max(1, o->leg / 4) : o->leg;
            struct leg *leg = add_leg(&legs->legs[count], o, line, most);
            if (!how->alone)
                start(legs, leg, lane, true, THREADS);
        }
    }
    post(legs);
    for (int i = 0; i < count; i++) {
        struct leg *leg = &legs->legs[i];
        const int64_t end = leg->operand->offset + (leg->line + leg->lines) * leg->operand->pitch, bytes = end - sent;
        if (how->alone)
            start(legs, leg, lane, true, SELF);
        gg_copy_wait(&leg->left);
        /* Legs packed while the link is busy are sent together with the next. With a fetching kernel and one thread all legs are: a launch takes this
         * thread as long as packing a leg. */
        if (i + 1 < count && (how->together || (how->alone ? how->fetched : !how->fetched && is_in_time(&legs->legs[i + 1], busy_until - ahead))))
            continue;
        if (!how->mapped)
            good = good && (how->fetched ? gg_transfer(lane->dev, lane->arena + sent, lane->pinned.memory + sent, bytes, up)
                                         : gg_gpu_copy(lane->arena + sent, lane->pinned.memory + sent, (size_t)bytes, up));
        const double now = gg_now();
        busy_until = (busy_until > now ? busy_until : now) + copy_seconds + (double)bytes / gg_rates()->pinned;
        outcome->bytes_up += bytes;
        sent = end;
    }
    return good && (up == stream || (gg_gpu_event_record(lane->events[1], up) && gg_gpu_stream_wait(stream, lane->events[1])));
}

static _Atomic uint32_t *word_of(const struct gg_lane *lane) { return (_Atomic uint32_t *)lane->pinned.memory; }

/* Waits until a leg of C is there. word: the stream has been told to set it, if it can; to ask for an event that is there takes 1.3 us (H200,
 * 2026-11). NULL: it has not, because that keeps it from the next copy (dgemm 512 of 8 legs 6 us). sleeping: between two looks. False: the GPU
 * failed. */
static bool comes(gg_event event, const _Atomic uint32_t *word, bool sleeping)
{
    int done = 0;
    for (unsigned look = 1; done == 0 && !(word && atomic_load_explicit(word, memory_order_acquire)); look++) {
        if (!word || look % 32 == 0)
            done = gg_gpu_event_done(event);
        if (done == 0 && sleeping)
            nanosleep(&(struct timespec){.tv_nsec = 1000}, NULL); /* in practice 55 µs */
        else
            gg_relax();
    }
    return done >= 0;
}

/* The product as the kernel finds it. */
static struct gg_gemm as_packed(const struct gg_lane *lane, const struct gg_gemm *p, const struct packed packed[3], const struct manner *how)
{
    const int64_t size = (int64_t)gg_size(p->type);
    const struct packed *c = &packed[GG_C];
    char *const in = how->mapped ? lane->pinned.memory : lane->arena;
    struct gg_gemm q = *p;
    q.a = in + packed[GG_A].offset, q.lda = packed[GG_A].pitch / size;
    q.b = in + packed[GG_B].offset, q.ldb = packed[GG_B].pitch / size;
    q.c = how->down == BY_PRODUCT ? lane->pinned.memory + c->back : lane->arena + c->offset, q.ldc = c->pitch / size;
    return q;
}

static bool multiply(struct gg_lane *lane, const struct manner *how, const struct gg_choice *choice, const struct gg_gemm *q, const struct packed *c)
{
    gg_stream stream = lane->run[0];
    if (how->mapped)
        return gg_launch_mapped(lane->dev, q, lane->pinned.memory + c->offset, stream);
    return choice->kernel && gg_launch(lane->dev, choice, q, stream, false) &&
           (how->down != BY_TRANSFER || gg_transfer(lane->dev, lane->pinned.memory + c->back, lane->arena + c->offset, c->bytes, stream));
}

/* Downloads C, leg by leg, and unpacks it. Returns how many lines of it have arrived in the caller's C. */
static int64_t receive(struct gg_lane *lane, const struct manner *how, const struct packed *c, struct legs *legs)
{
    gg_stream stream = lane->run[0];
    const bool direct = how->down != IN_LEGS; /* all of it comes at once */
    const int64_t most = how->crowd ? c->lines : c->leg;
    int count = 0, arrived = 0;
    int64_t lines = 0;
    bool good = true;
    legs->cut = legs->posted = 0; /* the legs of the upload are done with */
    atomic_store_explicit(word_of(lane), 0, memory_order_relaxed);
    for (int64_t line = 0; good && line < c->lines; line += most) {
        struct leg *leg = add_leg(&legs->legs[count], c, line, most);
        const int64_t at = leg->line * c->pitch;
        if (!direct)
            good = gg_gpu_copy(lane->pinned.memory + c->back + at, lane->arena + c->offset + at, (size_t)(leg->lines * c->pitch), stream);
        if (good && (!direct || count == 0))
            good = (!direct || gg_gpu_signal(stream, word_of(lane))) && gg_gpu_event_record(lane->events[count], stream);
        count += good;
    }
    for (; good && arrived < count; arrived++) {
        if (!(direct && arrived > 0) && !comes(lane->events[arrived], direct ? word_of(lane) : NULL, how->crowd))
            break;
        start(legs, &legs->legs[arrived], lane, false, how->alone ? SELF : THREADS);
        lines += legs->legs[arrived].lines;
        if (!direct) /* otherwise all of C is there, and goes to the threads at once */
            post(legs);
    }
    post(legs);
    for (int i = 0; i < arrived; i++)
        gg_copy_wait(&legs->legs[i].left);
    return lines;
}

/* ---- the call ------------------------------------------------------------------------------------------------------------------------------ */

/* packed: as pack_plan laid it out, in `need` bytes. awake: the copy threads have worked just now. */
static struct manner choose(const struct gg_lane *lane, const struct gg_gemm *p, bool mapped, const struct packed packed[3], int64_t need, bool awake)
{
    const bool reads = p->beta != 0, longer = need > together_bytes;
    const int others = gg_copy_calls();
    const bool crowd = !mapped && others >= CROWD && (!longer || others >= gg_min(LONGER_CROWD, gg_cpus_count() / 2));
    const struct packed *c = &packed[GG_C], *last = &packed[reads ? GG_C : GG_B];
    return (struct manner){.mapped = mapped,
                           .crowd = crowd,
                           .alone = crowd || need <= (awake ? always_alone_bytes : alone_bytes),
                           .together = crowd || (longer && others > 0),
                           .fetched = mapped || (!crowd && last->offset + last->bytes <= fetched_bytes),
                           .up = crowd ? gg_lane_up(lane->dev) : lane->run[0],
                           .down = mapped || (!crowd && !reads && c->bytes <= direct_bytes) ? BY_PRODUCT
                                   : !crowd && reads && c->bytes <= stored_bytes            ? BY_TRANSFER
                                                                                            : IN_LEGS};
}

bool gg_short_gemm(struct gg_lane *lane, const struct gg_gemm *p, const void *caller, struct gg_outcome *outcome)
{
    struct packed packed[3];
    const struct gg_choice choice = gg_select_staged(p, &lane->dev->arch, gg_config()->kernel);
    const bool mapped = choice.kernel && choice.kernel->role == GG_MAPPED;
    const int64_t need = pack_plan(p, mapped, packed);
    const struct packed *c = &packed[GG_C];
    const struct manner how = choose(lane, p, mapped, packed, need, gg_now() - lane->short_end < soon);
    struct legs *legs = malloc(sizeof *legs);
    outcome->reason = GG_NO_MEMORY;
    if (!legs || !gg_lane_grow_pinned(lane, gg_max(need, c->back + c->bytes)) || (!mapped && !gg_lane_grow_arena(lane, need)) ||
        !gg_lane_grow_events(lane, C_LEGS)) {
        free(legs);
        return false;
    }
    legs->cut = legs->posted = 0;
    outcome->reason = GG_GPU_ERROR;
    const struct gg_gemm q = as_packed(lane, p, packed, &how);
    outcome->head = outcome->kernel = choice.kernel;
    const int threads = how.alone ? 0 : (int)gg_min(GG_FEW_COPIERS, gg_copy_start());
    gg_copy_begin(threads, true);
    int64_t arrived = 0;
    if (send(lane, &how, packed, p->beta != 0 ? 3 : 2, legs, outcome) && multiply(lane, &how, &choice, &q, c))
        arrived = receive(lane, &how, c, legs);
    gg_copy_end(threads);
    lane->short_end = gg_now();
    free(legs);
    outcome->bytes_down = arrived * c->pitch;
    if (arrived == c->lines) {
        if (gg_watched())
            outcome->kernel = gg_served(lane->dev, &choice, &q, lane->run[0]);
        return true;
    }
    gg_gpu_settle(how.up);
    gg_gpu_settle(lane->run[0]);
    if (arrived == 0)
        return false;
    struct gg_gemm rest = *p;
    rest.n -= arrived;
    rest.b = gg_element(p, GG_B, 0, arrived);
    rest.c = gg_element(p, GG_C, 0, arrived);
    gg_real_gemm(&rest, caller);
    outcome->recovered = true;
    return true;
}

/* lane.c — owns lanes and slots (lane.h): who has them, and how much page-locked and GPU memory they may take. What has been made is kept for the
 * next call; what a lane does not use another may take. Arenas and the workspaces of the lanes' streams go back to the driver when no call has come for
 * a while; everything goes back when the program asks for it. Called by staged.c, planned.c, conduct.c, short.c and tune.c. */
#include "lane.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "config.h"
#include "trace.h"

enum { LANES = 16 /* per GPU */, ALL_LANES = 16 * LANES };

/* Largest and smallest slot. Every copy costs the link 2 to 4 µs: with both directions busy 1 MB slots get 43 GB/s each way, 2 MB 46, 4 MB 48; below
 * 64 KB the copies cost more than the bytes (H200, 2026-11). */
static const int64_t slot_most = 4 << 20, slot_least = 64 << 10;

static struct {
    pthread_mutex_t lock;
    pthread_cond_t given; /* a lane has become free */
    struct gg_lane *lanes[ALL_LANES];
    int lane_count, lanes_taken;
    int64_t arena_bytes, pinned_bytes; /* of all lanes */
    struct gg_pinned slot_memory; /* of all slots */
    struct gg_slot slots[GG_SLOTS];
    int64_t slot_bytes, slots_given;
    struct gg_device *slots_of; /* the device in whose context the slots' memory is; NULL: there is none */
    double given_at;
    bool watched; /* the thread watch() runs */
} g = {.lock = PTHREAD_MUTEX_INITIALIZER, .given = PTHREAD_COND_INITIALIZER};

/* ---- lanes ------------------------------------------------------------------------------------------------------------------------------- */

static struct gg_lane *make_lane(struct gg_device *dev)
{
    struct gg_lane *lane = calloc(1, sizeof *lane);
    if (!lane)
        return NULL;
    lane->dev = dev;
    bool good = (lane->up = gg_gpu_stream_create()) && (lane->down = gg_gpu_stream_create());
    for (int i = 0; good && i < GG_RUN_STREAMS; i++)
        good = (lane->run[i] = gg_gpu_stream_create());
    if (good && gg_gpu_reserve_workspaces(dev, lane->run, GG_RUN_STREAMS))
        return lane;
    gg_gpu_stream_destroy(lane->up); /* the GPU is full or failing, and the next call will try again */
    gg_gpu_stream_destroy(lane->down);
    for (int i = 0; i < GG_RUN_STREAMS; i++)
        gg_gpu_stream_destroy(lane->run[i]);
    free(lane);
    return NULL;
}

/* Drops lanes and slots of a context that the program has reset: what they held no longer exists and must not be freed. `there` has just been
 * entered, so it exists. False: the slots cannot be used, because their context may be gone: either the driver does not tell, or a call is still at
 * work in it. Under g.lock. */
static bool forget_gone(const struct gg_device *there)
{
    for (int i = g.lane_count - 1; i >= 0; i--) {
        struct gg_lane *lane = g.lanes[i];
        if (lane->taken || lane->dev == there || !gg_gpu_is_gone(lane->dev))
            continue;
        g.arena_bytes -= lane->arena_bytes;
        g.pinned_bytes -= lane->pinned.bytes;
        gg_pinned_forget(&lane->pinned);
        free(lane->events);
        for (int n = 0; n < GG_PLANS; n++)
            gg_plan_free(&lane->planned[n].plan);
        free(lane);
        g.lanes[i] = g.lanes[--g.lane_count];
    }
    if (!g.slots_of || g.slots_of == there || gg_gpu_is_there(g.slots_of))
        return true;
    if (g.lanes_taken || !gg_gpu_is_gone(g.slots_of))
        return false;
    gg_pinned_forget(&g.slot_memory);
    g.slots_of = NULL;
    return true;
}

struct gg_lane *gg_lane_take(struct gg_device *dev)
{
    pthread_mutex_lock(&g.lock);
    const bool usable = forget_gone(dev);
    struct gg_lane *lane = NULL;
    while (usable) {
        int own = 0;
        for (int i = 0; i < g.lane_count && !lane; i++) {
            own += g.lanes[i]->dev == dev;
            if (g.lanes[i]->dev == dev && !g.lanes[i]->taken)
                lane = g.lanes[i];
        }
        if (!lane && own < LANES && g.lane_count < ALL_LANES && (lane = make_lane(dev)))
            g.lanes[g.lane_count++] = lane;
        if (lane || !own)
            break;
        pthread_cond_wait(&g.given, &g.lock);
    }
    if (lane) {
        lane->taken = true;
        g.lanes_taken++;
    }
    pthread_mutex_unlock(&g.lock);
    return lane;
}

/* Memory that no call uses is given back this long after the last call. One lane may keep allocations up to this size for the next short call. */
static const int64_t worth_giving = 16 << 20;
static const double idle_seconds = 5;

/* A lane that has served no short call for so long may lose its page-locked buffer to another. */
static const double unused_seconds = 1;

/* Takes all lanes that no call has. Under g.lock. */
static int take_idle(struct gg_lane *idle[ALL_LANES])
{
    int count = 0;
    for (int i = 0; i < g.lane_count; i++)
        if (!g.lanes[i]->taken) {
            idle[count++] = g.lanes[i];
            g.lanes[i]->taken = true;
        }
    g.lanes_taken += count;
    return count;
}

/* Frees these lanes' GPU memory, but for the first lane's allocations of up to `kept` bytes, and gives the lanes back. Returns the bytes freed. */
static int64_t give_back(struct gg_lane *const idle[], int count, int64_t kept)
{
    int64_t given = 0;
    for (int i = 0; i < count; i++) {
        struct gg_lane *lane = idle[i];
        if (gg_gpu_is_gone(lane->dev) || !gg_gpu_enter(lane->dev))
            continue;
        const int64_t least = i == 0 ? kept : 0, arena = lane->arena_bytes > least ? lane->arena_bytes : 0;
        if (arena) {
            gg_gpu_free(lane->arena);
            lane->arena = NULL;
        }
        given += arena;
        for (int n = 0; n < GG_RUN_STREAMS; n++)
            given += (int64_t)gg_gpu_workspace_free(lane->dev, lane->run[n], least);
        gg_gpu_leave();
        pthread_mutex_lock(&g.lock);
        g.arena_bytes -= arena;
        lane->arena_bytes -= arena;
        pthread_mutex_unlock(&g.lock);
    }
    pthread_mutex_lock(&g.lock);
    for (int i = 0; i < count; i++)
        idle[i]->taken = false;
    g.lanes_taken -= count; /* not = 0: a call may have taken a new lane meanwhile */
    pthread_cond_broadcast(&g.given);
    pthread_mutex_unlock(&g.lock);
    return given;
}

/* The thread that runs while lanes may have memory: it sleeps until no call has come for a while, frees the memory and ends. */
static void *watch(void *unused)
{
    (void)unused;
    struct gg_lane *idle[ALL_LANES];
    int count = 0;
    while (count == 0) {
        nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
        pthread_mutex_lock(&g.lock);
        if (g.lanes_taken == 0 && gg_now() - g.given_at > idle_seconds) {
            count = take_idle(idle);
            g.watched = count == 0; /* cleared already here: a call that ends while the lanes are being emptied needs a new watch */
        }
        pthread_mutex_unlock(&g.lock);
    }
    give_back(idle, count, worth_giving);
    return NULL;
}

/* Frees the buffer of a lane that no call has. Under g.lock, so that nobody page-locks more meanwhile. Returns the bytes freed. */
static int64_t drop_pinned(struct gg_lane *lane)
{
    const int64_t given = lane->pinned.bytes;
    gg_pinned_free(&lane->pinned);
    g.pinned_bytes -= given;
    return given;
}

/* Frees the page-locked memory of these lanes, and of the slots if no call has any. Under g.lock. Returns the bytes freed. */
static int64_t give_back_pinned(struct gg_lane *const idle[], int count)
{
    int64_t given = 0;
    for (int i = 0; i < count; i++) {
        struct gg_lane *lane = idle[i];
        if (!lane->pinned.memory || gg_gpu_is_gone(lane->dev) || !gg_gpu_enter(lane->dev))
            continue;
        given += drop_pinned(lane);
        gg_gpu_leave();
    }
    if (g.slots_of && g.lanes_taken == count && !gg_gpu_is_gone(g.slots_of) && gg_gpu_enter(g.slots_of)) {
        given += g.slot_memory.bytes;
        gg_pinned_free(&g.slot_memory);
        gg_gpu_leave();
        g.slots_of = NULL;
        g.slot_bytes = 0;
    }
    return given;
}

int64_t gg_lane_release(void)
{
    struct gg_lane *idle[ALL_LANES];
    pthread_mutex_lock(&g.lock);
    const int count = take_idle(idle);
    const int64_t pinned = give_back_pinned(idle, count);
    pthread_mutex_unlock(&g.lock);
    return pinned + give_back(idle, count, 0);
}

void gg_lane_give(struct gg_lane *lane)
{
    pthread_mutex_lock(&g.lock);
    lane->taken = false;
    g.lanes_taken--;
    g.given_at = gg_now();
    if (!g.watched) /* whatever its arena: the streams' workspaces may be larger, and other lanes have theirs */
        g.watched = gg_thread_start(watch, NULL);
    pthread_cond_broadcast(&g.given); /* not signal: the thread woken could be waiting for a lane of another device */
    pthread_mutex_unlock(&g.lock);
}

gg_stream gg_lane_up(const struct gg_device *dev)
{
    pthread_mutex_lock(&g.lock);
    int i = 0;
    while (g.lanes[i]->dev != dev)
        i++;
    gg_stream up = g.lanes[i]->up;
    pthread_mutex_unlock(&g.lock);
    return up;
}

/* The arena of a lane that no call has, if it is worth giving back: a call on another lane may have its memory. */
static int64_t idle_bytes(const struct gg_lane *lane) { return lane->taken || lane->arena_bytes <= worth_giving ? 0 : lane->arena_bytes; }

/* gg_lane_allowance when `free_bytes` are free on the GPU, of which others keep a fifth, however often arenas grow. But no lane stays without any
 * while memory is free, because other lanes have so much: there are calls that only the GPU can serve. With or without what idle lanes have. Under
 * g.lock. */
static int64_t allowance(const struct gg_lane *lane, int64_t free_bytes, bool with_idle)
{
    int64_t ours = 0, idle = 0;
    for (int i = 0; i < g.lane_count; i++)
        if (g.lanes[i]->dev == lane->dev) {
            ours += g.lanes[i]->arena_bytes;
            idle += with_idle ? idle_bytes(g.lanes[i]) : 0;
        }
    const int64_t little = gg_min(64 << 20, lane->dev->arch.memory_bytes / 16);
    int64_t room = gg_max((free_bytes + ours) / 10 * 8 - ours + idle, gg_min(little - lane->arena_bytes, (free_bytes + idle) / 2));
    if (gg_config()->gpu_memory)
        room = gg_min(room, gg_config()->gpu_memory - g.arena_bytes + idle);
    return lane->arena_bytes + (room > 0 ? room : 0);
}

int64_t gg_lane_allowance(const struct gg_lane *lane)
{
    const int64_t free_bytes = (int64_t)gg_gpu_free_memory();
    pthread_mutex_lock(&g.lock);
    const int64_t bytes = allowance(lane, free_bytes, true);
    pthread_mutex_unlock(&g.lock);
    return bytes;
}

/* Idle lanes' arenas go only as far as they must. (One lane had served a large call beside a short one: every later large call, which came on the
 * other lane, was cut up into what was left. dgemm 3000 in 100 MB: 516 MB up instead of 216.) */
bool gg_lane_grow_arena(struct gg_lane *lane, int64_t bytes)
{
    if (lane->arena_bytes >= bytes)
        return true;
    int64_t free_bytes = (int64_t)gg_gpu_free_memory();
    char *idle[LANES];
    int count = 0;
    pthread_mutex_lock(&g.lock);
    const bool room = bytes <= allowance(lane, free_bytes, true);
    for (int i = g.lane_count - 1; room && i >= 0 && bytes > allowance(lane, free_bytes, false); i--) {
        struct gg_lane *other = g.lanes[i];
        const int64_t more = other->dev == lane->dev ? idle_bytes(other) : 0;
        if (!more)
            continue;
        idle[count++] = other->arena;
        other->arena = NULL;
        other->arena_bytes = 0;
        g.arena_bytes -= more;
        free_bytes += more;
    }
    if (room) /* counted before it is allocated: concurrent calls must not be granted the same bytes */
        g.arena_bytes += bytes - lane->arena_bytes;
    pthread_mutex_unlock(&g.lock);
    if (!room)
        return false;
    while (count > 0)
        gg_gpu_free(idle[--count]);
    gg_gpu_free(lane->arena);
    lane->arena = gg_gpu_alloc((size_t)bytes);
    /* Lines in the arena are longer than what is copied into them, and kernels read them in whole vectors. The padding must be initialised once. */
    if (lane->arena && !(gg_gpu_clear(lane->arena, (size_t)bytes, lane->up) && gg_gpu_stream_sync(lane->up))) {
        gg_gpu_settle(lane->up);
        gg_gpu_free(lane->arena);
        lane->arena = NULL;
    }
    pthread_mutex_lock(&g.lock);
    lane->arena_bytes = lane->arena ? bytes : 0;
    g.arena_bytes -= bytes - lane->arena_bytes;
    pthread_mutex_unlock(&g.lock);
    return lane->arena != NULL;
}

/* What this lane's buffer would give to another lane of the device, because no call has used it for long. */
static int64_t unused_bytes(const struct gg_lane *lane, const struct gg_device *dev, double now)
{
    return lane->taken || lane->dev != dev || now - lane->short_end < unused_seconds ? 0 : lane->pinned.bytes;
}

/* Page-locking costs a quarter of a millisecond per megabyte, so the buffer grows by doubling, and other lanes lose theirs only if that is enough and
 * no call has used them for long. (After calls of sgemm 750 by 16 threads those of 1000 by 4 were 3600 a second for ever, because their lanes could not grow;
 * otherwise 5100.) */
bool gg_lane_grow_pinned(struct gg_lane *lane, int64_t bytes)
{
    if (lane->pinned.bytes >= bytes)
        return true;
    int64_t size = lane->pinned.bytes ? lane->pinned.bytes : 1 << 20, unused = 0;
    while (size < bytes)
        size *= 2;
    size = size < GG_SHORT_BYTES ? size : GG_SHORT_BYTES;
    const int64_t more = size - lane->pinned.bytes, most = gg_config()->pinned_memory / 2; /* the other half is the slots' */
    const double now = gg_now();
    pthread_mutex_lock(&g.lock);
    for (int i = 0; i < g.lane_count; i++)
        unused += unused_bytes(g.lanes[i], lane->dev, now);
    const bool room = g.pinned_bytes + more - unused <= most;
    for (int i = g.lane_count - 1; room && g.pinned_bytes + more > most; i--)
        if (unused_bytes(g.lanes[i], lane->dev, now))
            drop_pinned(g.lanes[i]);
    if (room)
        g.pinned_bytes += more;
    pthread_mutex_unlock(&g.lock);
    if (!room)
        return false;
    gg_pinned_free(&lane->pinned);
    lane->pinned = gg_pinned_alloc(size);
    pthread_mutex_lock(&g.lock);
    g.pinned_bytes -= size - lane->pinned.bytes;
    pthread_mutex_unlock(&g.lock);
    return lane->pinned.memory != NULL;
}

bool gg_lane_grow_events(struct gg_lane *lane, int count)
{
    if (lane->event_count >= count)
        return true;
    gg_event *events = realloc(lane->events, (size_t)count * sizeof *events);
    if (!events)
        return false;
    lane->events = events;
    while (lane->event_count < count) {
        if (!(events[lane->event_count] = gg_gpu_event_create()))
            return false;
        lane->event_count++;
    }
    return true;
}

/* ---- slots ------------------------------------------------------------------------------------------------------------------------------- */

int64_t gg_slot_bytes(struct gg_lane *lane)
{
    pthread_mutex_lock(&g.lock);
    if (!g.slots_of) { /* also if it was refused before: others may have given memory back */
        /* half of the limit; the other half is for the lanes' own buffers */
        int64_t bytes = gg_min(slot_most, gg_config()->pinned_memory / 2 / GG_SLOTS & -4096);
        bytes = bytes < slot_least ? slot_least : bytes;
        while (!(g.slot_memory = gg_pinned_alloc(GG_SLOTS * bytes)).memory && bytes / 2 >= slot_least)
            bytes = bytes / 2 & -4096;
        for (int i = 0; g.slot_memory.memory && i < GG_SLOTS; i++)
            g.slots[i].memory = g.slot_memory.memory + i * bytes;
        g.slot_bytes = g.slot_memory.bytes / GG_SLOTS;
        g.slots_of = g.slot_memory.memory ? lane->dev : NULL;
    }
    int64_t bytes = g.slot_bytes;
    pthread_mutex_unlock(&g.lock);
    for (int i = 0; bytes && i < GG_SLOTS; i++) /* made now: once a copy is under way, a call could not do without its event */
        if (!lane->slot_events[i] && !(lane->slot_events[i] = gg_gpu_event_create()))
            return 0;
    return bytes;
}

struct gg_slot *gg_slot_take(struct gg_lane *lane, int held, bool by_gpu)
{
    struct gg_slot *slot = NULL;
    pthread_mutex_lock(&g.lock);
    int share = g.lanes_taken < 2 ? GG_SLOTS : g.lanes_taken < GG_SLOTS ? GG_SLOTS / g.lanes_taken : 1;
    for (int i = 0; held < share && i < GG_SLOTS; i++)
        if (!g.slots[i].taken && (!slot || (by_gpu && g.slots[i].given < slot->given)))
            slot = &g.slots[i];
    if (slot) {
        slot->event = lane->slot_events[slot - g.slots];
        slot->taken = true;
    }
    pthread_mutex_unlock(&g.lock);
    return slot;
}

void gg_slot_give(struct gg_slot *slot)
{
    pthread_mutex_lock(&g.lock);
    slot->taken = false;
    slot->given = ++g.slots_given;
    pthread_mutex_unlock(&g.lock);
}

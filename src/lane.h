/* lane.h — what a staged call borrows. A lane: streams, events and GPU memory, used by one call at a time. Slots: pieces of page-locked memory, all
 * of one size, shared by all calls. A lane's arena is its GPU memory, in which a plan's buffers lie. */
#ifndef GG_LANE_H
#define GG_LANE_H

#include "copy.h"
#include "gpu.h"
#include "pinned.h"
#include "planned.h"

enum { GG_SLOTS = 32, GG_PIECES = 8, GG_PLANS = 8 };

/* Most bytes (sgemm n = 1024) of a short call (gg_is_short), which is packed into the lane's own page-locked buffer. Longer calls are cut up and
 * pipelined through slots. */
enum { GG_SHORT_BYTES = 13 << 20 };

struct gg_slot {
    char *memory;
    gg_event event; /* the end of the slot's current copy; an event of the lane that holds the slot */
    struct gg_copy copies[GG_PIECES]; /* that fill or empty the slot */
    _Atomic int left;                 /* of these copies, how many are still to be made */
    bool taken;
    int64_t given;                    /* number of the gg_slot_give that last gave it back */
};

struct gg_lane {
    struct gg_device *dev;
    bool taken;
    gg_stream up, down, run[GG_RUN_STREAMS];
    gg_event slot_events[GG_SLOTS]; /* made by gg_slot_bytes */
    gg_event *events;               /* for the loads and steps of a job (job.h), or the legs of a short call */
    int event_count;
    char *arena;                    /* device memory for the buffers of a plan */
    int64_t arena_bytes;            /* changed under lane.c's lock, because other lanes' allowances depend on it */
    struct gg_pinned pinned;        /* for short calls; short.c says what it begins with. That of a lane that is not taken is changed under
                                     * lane.c's lock: another may get the memory */
    double short_end;               /* when the lane's last short call ended */
    struct gg_planned planned[GG_PLANS];
    unsigned next_planned;          /* index, modulo GG_PLANS, of the plan to be replaced next */
};

/* All of these but gg_lane_release must be called with the device entered (gg_gpu_enter). */

/* A lane of this device; waits while all are taken. NULL: none can be made. */
struct gg_lane *gg_lane_take(struct gg_device *dev);
void gg_lane_give(struct gg_lane *lane);

/* The one stream on which all concurrent short calls of this device upload, because copies on several streams get in each other's way. The caller
 * must hold a lane of the device. */
gg_stream gg_lane_up(const struct gg_device *dev);

/* Frees what lanes and slots keep and no call is using. Returns the bytes freed. */
int64_t gg_lane_release(void);

/* Bytes of GPU memory this lane's arena may have, given GPUGEMM_GPU_MEMORY, what is free, and what lanes have that no call uses: gg_lane_grow_arena
 * frees that first. */
int64_t gg_lane_allowance(const struct gg_lane *lane);
bool gg_lane_grow_arena(struct gg_lane *lane, int64_t bytes);
bool gg_lane_grow_pinned(struct gg_lane *lane, int64_t bytes); /* likewise, within half of GPUGEMM_PINNED_MEMORY */
bool gg_lane_grow_events(struct gg_lane *lane, int count);

/* Size of a slot in bytes. 0: there is no page-locked memory, or this lane cannot get the events it needs to use slots. Must be called before
 * gg_slot_take. */
int64_t gg_slot_bytes(struct gg_lane *lane);

/* A free slot. NULL: all are taken, or this call, which holds `held` already, has its fair share. A slot to be filled by the processor is always one
 * of the same few, which are then in its caches. A slot to be filled by the GPU is the one that has been free for longest, because lines that are in
 * a core's cache slow the link down. */
struct gg_slot *gg_slot_take(struct gg_lane *lane, int held, bool by_gpu);
void gg_slot_give(struct gg_slot *slot);

#endif

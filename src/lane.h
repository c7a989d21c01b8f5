/* lane.h — what a staged call borrows: a lane (streams, events and GPU memory, for one call at a time) and slots (page-locked memory, shared by all). */
#ifndef GG_LANE_H
#define GG_LANE_H

#include "copy.h"
#include "gpu.h"
#include "planned.h"

enum { GG_SLOTS = 32, GG_RUN_STREAMS = 4, GG_PIECES = 8, GG_PLANS = 8 };

/* Up to so many bytes (sgemm n = 1024) a call is packed into the lane's own page-locked buffer; a larger one is cut up and pipelined. */
enum { GG_SHORT_BYTES = 13 << 20 };

struct gg_slot {
    char *memory;
    gg_event event; /* of the lane that holds it: the end of the slot's copy */
    struct gg_copy copies[GG_PIECES]; /* that fill or empty it */
    _Atomic int left;                 /* of them to be made */
    bool taken;
    int64_t given;                    /* back, the how manyeth time that a slot was */
};

struct gg_lane {
    struct gg_device *dev;
    bool taken;
    gg_stream up, down, run[GG_RUN_STREAMS];
    gg_event slot_events[GG_SLOTS]; /* made by gg_slot_bytes */
    gg_event *events;               /* for the loads and steps of a job */
    int event_count;
    char *arena;                    /* device memory for the buffers of a plan */
    int64_t arena_bytes;
    char *pinned;                   /* for short calls */
    int64_t pinned_bytes;
    double short_end;               /* when the last one ended */
    struct gg_planned planned[GG_PLANS];
    int next_planned;               /* to be replaced */
};

/* All of these but gg_lane_release want the device entered. */

/* A lane of this device; waits while all are taken. NULL: none can be made. */
struct gg_lane *gg_lane_take(struct gg_device *dev);
void gg_lane_give(struct gg_lane *lane);

/* The stream on which all callers of this device may send: copies of several streams get in each other's way. One of its lanes is taken. */
gg_stream gg_lane_up(const struct gg_device *dev);

/* Gives back what lanes and slots hold that no call is using. Bytes given back. */
int64_t gg_lane_release(void);

/* Bytes of GPU memory this lane's arena may have, under GPUGEMM_GPU_MEMORY and what is free. */
int64_t gg_lane_allowance(const struct gg_lane *lane);
bool gg_lane_grow_arena(struct gg_lane *lane, int64_t bytes);
bool gg_lane_grow_pinned(struct gg_lane *lane, int64_t bytes);
bool gg_lane_grow_events(struct gg_lane *lane, int count);

/* Bytes of a slot; 0 when no page-locked memory is to be had, or not the events that this lane needs to use it. To be asked before gg_slot_take. */
int64_t gg_slot_bytes(struct gg_lane *lane);

/* A free slot, or NULL: then others hold them, or this call, which holds `held`, has its fair share. To be filled by the processor: always the same few,
 * which its caches have. To be filled by the GPU: the one that has been free for longest, as lines that are in the cache of one core slow the link. */
struct gg_slot *gg_slot_take(struct gg_lane *lane, int held, bool by_gpu);
void gg_slot_give(struct gg_slot *slot);

#endif

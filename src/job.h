/* job.h — one long staged call in progress. staged.c prepares and ends it, conduct.c carries it out, chunk.c defines its chunks. */
#ifndef GG_JOB_H
#define GG_JOB_H

#include "fresh.h"
#include "gpu.h"
#include "lane.h"
#include "tensor.h"

/* The unit of transfer: a rectangle of one load (of A, B or C) or of the C that one step completes, small enough for a slot (lane.h) unless it is
 * direct. Indices are those of op(A), op(B) or C in the whole problem. A chunk of C that travels down is also called a store. */
struct gg_chunk {
    int load, step; /* one of the two; the other is -1 */
    int64_t rows0, rows1, cols0, cols1;
    int64_t index; /* of a chunk of C, among all chunks of C */
    bool direct;   /* the copy engine moves it whole between the caller's memory and the GPU, without going through a slot's memory */
};

/* A slot that the job holds, and the stage its chunk is in. One that came down waits for its part of C, if that is fresh. */
enum gg_stage { GG_PACKING, GG_GOING_UP, GG_COMING_DOWN, GG_CAME_DOWN, GG_UNPACKING };

struct gg_held {
    struct gg_slot *slot;
    enum gg_stage stage;
    int64_t turn; /* number of its copy among all copies in the same direction */
    struct gg_chunk chunk;
};

struct gg_job {
    const struct gg_gemm *p;
    const struct gg_location *where;
    struct gg_lane *lane;
    struct gg_planned *planned;
    const struct gg_plan *plan; /* points into `planned` */
    char *buffer[3][2];
    int64_t slot_bytes;
    int threads; /* that copy, apart from the caller */
    bool large;  /* packed through the caches: see gg_copy.cached */
    gg_event *load_event, *step_event;
    int64_t *load_left;         /* by load: chunks not yet enqueued */
    int64_t *store_base;        /* by step: index of its first chunk of C */
    int64_t *block_stores_left; /* by block: chunks of C still to be downloaded */
    char *committed;            /* by chunk of C: it has reached the caller's memory */
    int64_t store_count, stores_left;
    /* From here on for conduct.c alone; all 0 at first. */
    int load, step, store; /* the next load to claim a chunk of, the next step to launch, the next step to claim a chunk of C of */
    int64_t load_chunk, store_chunk;
    bool store_done;            /* step `store` has run */
    int waited[GG_RUN_STREAMS]; /* by stream: how many loads it has been told to wait for */
    struct gg_held held[GG_SLOTS];
    int held_count, packing, going_up; /* in `held`; of those: being packed for the upload; being packed or uploaded */
    int64_t bytes_going_up;            /* of those last */
    int64_t enqueued[2], arrived[2]; /* copies between slots and the GPU, [0] up and [1] down; each direction completes in order */
    struct gg_chain chain;           /* (tensor.h) row NULL: none */
    int64_t split_m, split_n;        /* rows of A and columns of B that the chain has split so far in the turn that begins at `turn_begin` of k */
    int64_t turn_begin;
    struct gg_fresh fresh;           /* C */
    int helpers;                     /* threads on top of `threads`, that make its pages */
    const struct gg_kernel *kernel;
    int64_t bytes_up, bytes_down;
    bool failed;
};

static inline int64_t gg_extent(struct gg_range r)
{
    return r.end - r.begin;
}

/* Returns when all of C has been unpacked, or when the GPU has failed and nothing of the job is in flight any more. */
void gg_conduct(struct gg_job *job);

/* Can the copy engine reach this operand where it lies? */
bool gg_is_reachable(const struct gg_job *job, enum gg_operand x);

/* The number of chunks of a load, and of the C that a step completes (0 if it completes none); the i-th of them. */
int64_t gg_load_chunks(const struct gg_job *job, int load);
int64_t gg_store_chunks(const struct gg_job *job, int step);
struct gg_chunk gg_load_chunk(const struct gg_job *job, int load, int64_t i);
struct gg_chunk gg_store_chunk(const struct gg_job *job, int step, int64_t i);

/* The two ends of a chunk's way: in the caller's memory and in the GPU's. */
struct gg_sides {
    char *host, *device;
    int64_t host_pitch, device_pitch, width, lines; /* bytes, but for lines */
};
struct gg_sides gg_sides_of(const struct gg_job *job, const struct gg_chunk *chunk);

#endif

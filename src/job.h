/* job.h — a long staged call at work: staged.c prepares and ends it, conduct.c carries it out, and chunk.c says what its chunks are. */
#ifndef GG_JOB_H
#define GG_JOB_H

#include "gpu.h"
#include "lane.h"
#include "tensor.h"

/* A rectangle of one load (of A, B or C) or of one step's C, by indices of op(A), op(B) or C in the whole problem. */
struct gg_chunk {
    int load, step; /* one of them; the other -1 */
    int64_t rows0, rows1, cols0, cols1;
    int64_t index; /* among the chunks of C */
    bool direct;   /* moved by the copy engine between the caller's memory and the GPU, whole and without a slot's memory */
};

/* What happens in a slot that a job holds. */
enum gg_stage { GG_PACKING, GG_GOING_UP, GG_COMING_DOWN, GG_UNPACKING };

struct gg_held {
    struct gg_slot *slot;
    enum gg_stage stage;
    int64_t turn; /* of its copy among those of its direction */
    struct gg_chunk chunk;
};

struct gg_job {
    const struct gg_gemm *p;
    const struct gg_location *where;
    struct gg_lane *lane;
    struct gg_planned *planned;
    const struct gg_plan *plan; /* in it */
    char *buffer[3][2];
    int64_t slot_bytes;
    int threads; /* that copy, besides the caller */
    bool large;  /* packed through the caches: see gg_copy.cached */
    gg_event *load_event, *step_event;
    int64_t *load_left;         /* chunks of a load not yet enqueued */
    int64_t *store_base;        /* index of a step's first chunk of C */
    int64_t *block_stores_left; /* chunks of C a block has still to bring down */
    char *committed;            /* by chunk of C */
    int64_t store_count, stores_left;
    /* From here on conduct.c's, all 0 before. */
    int load, step, store; /* next to claim a chunk of, to launch, to claim a chunk of C of */
    int64_t load_chunk, store_chunk;
    bool store_done;            /* step `store` has run */
    int waited[GG_RUN_STREAMS]; /* loads that a stream has been told to wait for */
    struct gg_held held[GG_SLOTS];
    int held_count, packing, going_up; /* of them, being packed for their way up; and those, or on it */
    int64_t enqueued[2], arrived[2]; /* copies between slots and the GPU, up and down: they end in the order they were enqueued */
    struct gg_chain chain;           /* row NULL: none */
    int64_t split_m, split_n;        /* rows of A and columns of B that the chain has in pieces */
    struct gg_gemm resident;         /* the whole problem in GPU memory, for the chain */
    const struct gg_kernel *kernel;
    int64_t bytes_up, bytes_down;
    bool failed;
};

static inline int64_t gg_extent(struct gg_range r)
{
    return r.end - r.begin;
}

/* Until all of C has been unpacked, or the GPU has failed and nothing of the job is on its way any more. */
void gg_conduct(struct gg_job *job);

/* The copy engine can reach it where it lies. */
bool gg_is_reachable(const struct gg_job *job, enum gg_operand x);

/* The chunks of a load, and of the C that a step completes (0: it completes none). */
int64_t gg_load_chunks(const struct gg_job *job, int load);
int64_t gg_store_chunks(const struct gg_job *job, int step);
struct gg_chunk gg_load_chunk(const struct gg_job *job, int load, int64_t i);
struct gg_chunk gg_store_chunk(const struct gg_job *job, int step, int64_t i);

/* Where a chunk lies: in the caller's memory, and in the GPU's. */
struct gg_sides {
    char *host, *device;
    int64_t host_pitch, device_pitch, width, lines; /* bytes, but for lines */
};
struct gg_sides gg_sides_of(const struct gg_job *job, const struct gg_chunk *chunk);

#endif

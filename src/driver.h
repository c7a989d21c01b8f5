/* driver.h — the CUDA driver, for the five files that talk to it: gpu.c, which loads it and starts the GPU; pointers.c, which asks it where an
 * address lives; work.c, which has the streams and the memory; pinned.c, which page-locks memory; enqueue.c, which has the launches. The only file that
 * includes a CUDA header. */
#ifndef GG_DRIVER_H
#define GG_DRIVER_H

#include <cuda.h>
#include <pthread.h>
#include <stdatomic.h>

#include "gpu.h"
#include "kernels.h"

#include "../cuda/kernel.h"

/* The driver's functions. Filled when gg_driver_load() has returned true, which it has when the state is READY. */
struct gg_driver {
#define GG_NEEDED(name) __typeof__(name) *name;
#define GG_OPTIONAL GG_NEEDED
#include "driver.def"
#undef GG_NEEDED
#undef GG_OPTIONAL
};
extern struct gg_driver gg_cu;

bool gg_driver_load(void);

/* Every result of the driver comes through here. An error after which the context is lost ends the use of the GPU. */
bool gg_driver_ok(CUresult e, const char *what);
void gg_driver_give_up(CUresult e, const char *what);
#define GG_CU(function, ...) gg_driver_ok(gg_cu.function(__VA_ARGS__), #function)

struct gg_workspace {
    gg_stream stream;
    unsigned long long id; /* of the stream, plus 1. Needed because the handle of a destroyed stream is reused, and CU_STREAM_PER_THREAD is every
                            * thread's */
    pid_t thread;          /* whose own stream that is, if it is CU_STREAM_PER_THREAD; else 0 */
    void *memory;
    size_t bytes;
    int words;     /* of its first WORDS words, how many have been given away; WORDS: they must be cleared before more are given to calls */
    uint64_t used; /* last use, in calls; 0: empty, for any stream that comes */
    bool captured; /* a graph may launch with it at any time: never freed */
};

/* The first workspaces are for the program's streams. The others are the library's own streams', each its stream's also while it is empty
 * (gg_gpu_reserve_workspaces): four of each of 16 lanes (lane.c). */
enum { FOR_PROGRAMS = 128, WORKSPACES = FOR_PROGRAMS + 64 };

/* The words in front of a workspace (gg_gpu_word): one for the program's graphs, two for the graphs of a chain that repeats, then those for calls. */
enum { WORDS = 256, FOR_REPEATS = 1, FOR_CALLS = 3 };

/* A launch but for its arguments. Compared by its bytes. */
struct gg_launch {
    CUfunction function;
    unsigned blocks[3], threads, cluster, shared;
    uint64_t early; /* not 0: may start before the one ahead of it has ended (gg_gpu_launch_early) */
};

/* The launches of a call, in order, and what is launched. */
enum { LAUNCHES = 8 };
struct gg_call {
    gg_stream stream;
    unsigned long long id;    /* of the stream, if it may repeat calls */
    struct gg_repeat *repeat; /* the stream's; NULL: it may not */
    struct gg_gemm p;
    int count;
    bool begun, failed;            /* some had to be launched before the call was complete; and were refused */
    struct gg_workspace workspace; /* as it was; no memory: none was asked for */
    bool lacked;                   /* one was, in vain */
    struct gg_launch launches[LAUNCHES];
    const struct gg_kernel *kernels[LAUNCHES];
    bool (*maps[LAUNCHES])(struct gg_args *args, const struct gg_kernel *row); /* as in struct gg_dim */
    struct gg_two_args args[LAUNCHES];                                         /* of most kernels only the first */
};

/* A graph of launches that repeat. */
struct gg_graph {
    CUgraphExec made;
    struct gg_gemm p; /* what it multiplied when it was launched last, and the workspace in it */
    struct gg_workspace workspace;
    bool settled; /* the same call would be launched alike: it did not lack a workspace */
    struct gg_two_args args[LAUNCHES]; /* but for maps */
};

/* The launches that a stream repeats, and what has been made of them (enqueue.c). A chain has two graphs, which take turns: the first kernel of one
 * clears the verdict of the other. */
struct gg_repeat {
    unsigned long long stream; /* its id */
    int count;
    struct gg_launch launches[LAUNCHES];
    int seen;         /* so many times, less the calls that came instead */
    bool interrupted; /* the last call was another */
    bool refused;     /* the driver makes no graph of it */
    int graphs;       /* how many there are */
    int turn;         /* whose turn it is */
    CUgraph pattern;  /* what they were made from */
    CUgraphNode nodes[LAUNCHES];
    struct gg_graph graph[2];
};

enum { REPEATS = 64 };

enum {
    KERNELS = 0 /* rows of kernels.def */
#define GG_KERNEL(...) +1
#include "../cuda/kernels.def"
#undef GG_KERNEL
};

/* One per context. gpu.c makes it; the rest is work.c's and enqueue.c's, under `lock` but for the end. */
struct gg_device_state {
    CUcontext context;
    unsigned long long id; /* of the context: after a reset by the program the same handle comes back with another id */
    pthread_mutex_t lock;
    CUmodule modules[GG_IMAGES][KERNELS]; /* of each image, by row; rows of one image share the first's */
    _Atomic(CUfunction) functions[GG_IMAGES][KERNELS];
    struct gg_workspace workspaces[WORKSPACES];
    uint64_t clock;
    pthread_mutex_t turn;              /* gg_gpu_begin_turn; taken before `lock`. What follows is under it: */
    struct gg_call call;               /* being gathered */
    struct gg_repeat repeats[REPEATS]; /* by the stream's id */
};

/* Launches what this thread has gathered (gg_gpu_gather) at once: something is about to happen on the stream that must come after it. */
void gg_enqueue_now(void);

/* Tells the call that this thread gathers, if it gathers one, of its stream's workspace. NULL: the call lacks one. */
void gg_enqueue_with(const struct gg_workspace *workspace);

/* Is that still the stream's workspace? If so it counts as used. */
bool gg_gpu_still_has(struct gg_device *dev, gg_stream stream, const struct gg_workspace *workspace);

static inline struct gg_device_state *gg_state_of(const struct gg_device *dev) { return dev->private_state; }

/* To be called when the program has reset the device or destroyed a context of its own: everything in it is gone, page-locked memory included. Later
 * calls get a new context; the current one is left to the CPU. */
void gg_gpu_replace(struct gg_device *gone);

#endif

/* copy.h — threads that copy between pageable and page-locked memory, and the page-locked slots they fill and empty. */
#ifndef GG_COPY_H
#define GG_COPY_H

#include <stdatomic.h>

#include "gemm.h"

/* `lines` lines of `width` bytes, the pitches apart. Owned by the poster until done. */
struct gg_copy {
    char *dst;
    const char *src;
    int64_t dst_pitch, src_pitch, width, lines;
    struct gg_copy *next;
    _Atomic bool done;
};

/* Makes one copy, here and now. */
void gg_copy_run(const struct gg_copy *copy);

/* Hands it to a copy thread. copy->done becomes true, with release order, when it has been made. */
void gg_copy_post(struct gg_copy *copy);

/* The calling thread makes the oldest copy that no thread has taken yet. False: there is none. */
bool gg_copy_help(void);

/* Starts the threads, once; afterwards how many there are. Without any, gg_copy_help does all the work. */
int gg_copy_start(void);

/* A call begins, ends: between the two, threads without work poll for longer before they sleep. */
void gg_copy_begin(void);
void gg_copy_end(void);

#endif

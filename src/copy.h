/* copy.h — threads that copy between pageable and page-locked memory. */
#ifndef GG_COPY_H
#define GG_COPY_H

#include <stdatomic.h>

#include "gemm.h"

/* `lines` lines of `width` bytes, the pitches apart. Owned by the poster until *left says that it has been made. */
struct gg_copy {
    char *dst;
    const char *src;
    int64_t dst_pitch, src_pitch, width, lines;
    bool cached;       /* write through the caches: the next reader is this processor; or so much is to be packed that it leaves them by itself
                          (H200's host: dgemm 8192 28.3 ms so, 30.2 past them; 4096 7.3 and 7.9, sgemm 4096 4.19 and 4.38, 2300 1.10 and 1.16, 2048 1.39 and 1.34) */
    _Atomic int *left; /* copies still to be made of those that belong together; decreased with release order */
    struct gg_copy *next;
};

/* Makes one copy, here and now. */
void gg_copy_run(const struct gg_copy *copy);

/* Cuts `whole` in at most `most` pieces of at least `least` bytes, so that as many threads can work on it. How many; whole->left counts them down. */
int gg_copy_cut(const struct gg_copy *whole, struct gg_copy *pieces, int most, int64_t least);

/* Hands them to the copy threads, before all others that wait if `first`. */
void gg_copy_post(struct gg_copy *copies, int count, bool first);

static inline bool gg_copy_made(_Atomic int *left)
{
    return atomic_load_explicit(left, memory_order_acquire) == 0;
}

/* The calling thread makes the oldest copy that no thread has taken yet. False: there is none. */
bool gg_copy_help(void);

/* Are there copies that no thread is free to take? */
bool gg_copy_wants_help(void);

/* For one that has waited for `waited` seconds for copies that others are making: a short wait. */
void gg_copy_patience(double waited);

/* Starts the threads, once; afterwards how many there are. Without any, gg_copy_help does all the work. */
int gg_copy_start(void);

/* As many of them as pay for less than 150 MB (H200's host, 14 processors; 8 and 12 threads: sgemm 2048 0.98 and 1.05 ms, dgemm 2048 1.65 and 1.70, sgemm
 * 4096 3.8 and 3.15, dgemm 4096 NT 10.1 and 6.4, 8192 NT 33 and 26). */
enum { GG_FEW_COPIERS = 8 };

/* A call begins that will have work for up to so many threads, and ends: between the two, threads without work poll for longer before they sleep, and those
 * that sleep are woken for what is posted; all of them at once if `now`. */
void gg_copy_begin(int threads, bool now);
void gg_copy_end(int threads);
int gg_copy_calls(void); /* how many are between the two */

#endif

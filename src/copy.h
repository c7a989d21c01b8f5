/* copy.h — the copy threads, which copy between pageable and page-locked memory. To pack is to copy a rectangle into contiguous page-locked memory,
 * to unpack is the reverse. */
#ifndef GG_COPY_H
#define GG_COPY_H

#include <stdatomic.h>

#include "gemm.h"

/* A rectangle to copy: `lines` lines of `width` bytes, at the given pitches. It belongs to whoever posted it until *left says that it has been
 * made. */
struct gg_copy {
    char *dst;
    const char *src;   /* NULL: nothing is copied, but a page is made for the first byte of each line of dst, where there is none */
    int64_t dst_pitch, src_pitch, width, lines;
    bool cached;       /* Write through the caches, because this processor reads the bytes next, or because so much is packed that it is evicted
                        * anyway. (H200's host, through and past the caches: dgemm 8192 28.3 ms and 30.2; 4096 7.3 and 7.9, sgemm 4096 4.19 and 4.38,
                        * 2300 1.10 and 1.16, 2048 1.39 and 1.34.) */
    bool padded;       /* Not `cached`; dst's lines begin at multiples of 16 bytes, and what lies behind each, up to the pitch, is written, too. */
    _Atomic int *left; /* of the copies that belong together, how many are still to be made; decremented with release order */
    struct gg_copy *next;
};

/* Makes one copy on the calling thread. */
void gg_copy_run(const struct gg_copy *copy);

/* Cuts `whole` into at most `most` pieces of at least `least` bytes, for several threads. Returns the number of pieces; whole->left counts them
 * down. */
int gg_copy_cut(const struct gg_copy *whole, struct gg_copy *pieces, int most, int64_t least);

/* Hands copies to the copy threads; ahead of all others that wait, if `first`. */
void gg_copy_post(struct gg_copy *copies, int count, bool first);

static inline bool gg_copy_made(_Atomic int *left)
{
    return atomic_load_explicit(left, memory_order_acquire) == 0;
}

/* Waits until all of them have been made, making copies meanwhile. */
void gg_copy_wait(_Atomic int *left);

/* The calling thread makes the oldest copy that no thread has taken yet. False: there was none. */
bool gg_copy_help(void);

/* Are there copies that no thread is free to take? */
bool gg_copy_wants_help(void);

/* How many threads look for work and have not been given any. */
int gg_copy_idle(void);

/* Starts the threads, once. Returns how many there are. If there are none, gg_copy_help does all the work. */
int gg_copy_start(void);

/* As many threads as pay for short calls, and for others of less than 150 MB. (H200's host, 14 processors; 8 and 12 threads: sgemm 2048 0.98 and 1.05
 * ms, dgemm 2048 1.65 and 1.70, sgemm 4096 3.8 and 3.15, dgemm 4096 NT 10.1 and 6.4, 8192 NT 33 and 26. H100's, 16 processors; 8, 10 and 12: sgemm
 * 1536 0.68, 0.63, 0.62, 2048 1.09, 1.02, 1.02, dgemm 2048 1.71, 1.67, 1.63.) */
enum { GG_FEW_COPIERS = 8, GG_MORE_COPIERS = 10 };

/* The beginning and the end of a call that will have work for up to `threads` threads. In between, threads without work poll for longer before they
 * sleep, and sleeping ones are woken for what is posted; if `now`, they are woken at once. */
void gg_copy_begin(int threads, bool now);
void gg_copy_more(int threads); /* so many more from now on, less if negative; the end of a call is of all */
void gg_copy_end(int threads);
int gg_copy_calls(void); /* how many calls are between begin and end */

#endif

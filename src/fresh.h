/* fresh.h — a C that nobody has used before: its pages are not there until somebody writes to them. To make one takes longer than to fill it, a huge
 * page (2 MB) 0.3 ms, and of threads that write to one huge page at the same time each makes one, all but one in vain. */
#ifndef GG_FRESH_H
#define GG_FRESH_H

#include "copy.h"

/* C's memory in pieces: whole huge pages, and 128 KB each of what C has of the huge pages at its two ends. All 0: every page is there. */
struct gg_fresh {
    char *begin, *whole, *whole_end, *end; /* C, from a multiple of a page on, and its whole huge pages */
    int64_t count, next;                   /* pieces; those before `next` have been handed to the copy threads, or need not be */
    struct gg_fresh_piece {
        struct gg_copy touch;
        _Atomic int left; /* 0: it is there; 1: handed to the copy threads; UNTOUCHED */
    } *pieces;
};

/* Looks at some pages of C, the `bytes` from `begin` on. If one is not there, asks the kernel for huge pages and returns true. Every page must have
 * part of C in it. All of C will be written, because the caller has asked for it, but until gg_fresh_end only what gg_fresh_is_there says. */
bool gg_fresh_begin(struct gg_fresh *fresh, char *begin, int64_t bytes);

/* Hands the next pieces to copy threads that have nothing else to do, but for `reserve` threads. */
void gg_fresh_ahead(struct gg_fresh *fresh, int reserve);

/* May bytes from `begin` to `end` of C be written now? If not, their pieces have been handed to the copy threads. */
bool gg_fresh_is_there(struct gg_fresh *fresh, const char *begin, const char *end);

/* Waits until the copy threads are done with C. */
void gg_fresh_end(struct gg_fresh *fresh);

#endif

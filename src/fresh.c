/* fresh.c — owns the pages of a C that nobody has used before (fresh.h): one copy thread makes each huge page, before others unpack into it. Called by
 * conduct.c.
 *
 * The kernel makes huge pages by itself, or only where it has been asked to (/sys/kernel/mm/transparent_hugepage/enabled: always, madvise). So we ask,
 * as NumPy does for its arrays from 4 MB on. No memory is wasted by that: all of C will be written. (H200's host, ms, with C's pages there; fresh
 * pages of 4 KB, so and without all this; fresh huge pages, likewise: sgemm 1100 0.36; 0.51, 0.80; 0.50, 0.86. 2048 0.93; 0.97, 2.35; 0.97, 1.80. 4096
 * 2.98; 3.01, 5.9; 2.99, 4.7. 8192 11.2; 13.3, 22.5; 13.7, 18. dgemm 4096 5.8; 5.9, 11.7; 5.9, 9.3. When the copy threads make pages of 4 KB, they
 * wait for each other in the kernel: sgemm 4096 8 to 15.) */
#include "fresh.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "trace.h"

enum { UNTOUCHED = 2 };

static const int64_t page = 4 << 10, huge = 2 << 20, edge = 128 << 10;

static bool is_fresh(const char *begin, int64_t bytes)
{
    const int saved = errno;
    unsigned char there = 1;
    for (int i = 1; i < 8 && (there & 1); i += 2) /* each look takes 1 us */
        if (mincore((char *)((uintptr_t)(begin + bytes / 8 * i) & (uintptr_t)-page), 1, &there) != 0)
            there = 1;
    errno = saved;
    return !(there & 1);
}

/* The pieces before the whole huge pages, and before what follows those. */
static int64_t before_whole(const struct gg_fresh *f) { return gg_ceil_div(f->whole - f->begin, edge); }
static int64_t before_tail(const struct gg_fresh *f) { return before_whole(f) + (f->whole_end - f->whole) / huge; }

static int64_t piece_of(const struct gg_fresh *f, const char *at)
{
    return at < f->whole       ? (at - f->begin) / edge
           : at < f->whole_end ? before_whole(f) + (at - f->whole) / huge
                               : before_tail(f) + (at - f->whole_end) / edge;
}

/* What a copy thread does for piece i: to write to one of its pages is enough, if it is one. */
static struct gg_copy touch_of(const struct gg_fresh *f, int64_t i)
{
    const int64_t head = before_whole(f), tail = before_tail(f);
    if (i >= head && i < tail)
        return (struct gg_copy){.dst = f->whole + (i - head) * huge, .lines = 1};
    char *const at = i < head ? f->begin + i * edge : f->whole_end + (i - tail) * edge, *const end = i < head ? f->whole : f->end;
    return (struct gg_copy){.dst = at, .dst_pitch = page, .lines = gg_ceil_div(gg_min(edge, end - at), page)};
}

bool gg_fresh_begin(struct gg_fresh *f, char *begin, int64_t bytes)
{
    *f = (struct gg_fresh){0};
    if (bytes < 2 * huge || sysconf(_SC_PAGESIZE) != page || !is_fresh(begin, bytes))
        return false;
    f->end = begin + bytes;
    f->begin = (char *)((uintptr_t)begin & (uintptr_t)-page);
    f->whole = (char *)(((uintptr_t)begin + (uintptr_t)huge - 1) & (uintptr_t)-huge);
    f->whole_end = (char *)((uintptr_t)f->end & (uintptr_t)-huge);
    const int64_t count = before_tail(f) + gg_ceil_div(f->end - f->whole_end, edge);
    if (!(f->pieces = malloc((size_t)count * sizeof *f->pieces)))
        return false;
    f->count = count;
    for (int64_t i = 0; i < count; i++) {
        f->pieces[i] = (struct gg_fresh_piece){.touch = touch_of(f, i), .left = UNTOUCHED};
        f->pieces[i].touch.left = &f->pieces[i].left;
    }
    f->pieces[0].touch.dst = begin; /* its page begins before C */
    const int saved = errno;
    madvise(f->whole, (size_t)(f->whole_end - f->whole), MADV_HUGEPAGE); /* if it fails, nothing is lost */
    errno = saved;
    return true;
}

static void hand_over(struct gg_fresh_piece *piece, bool first)
{
    atomic_store_explicit(&piece->left, 1, memory_order_relaxed);
    gg_copy_post(&piece->touch, 1, first);
}

static bool is_untouched(const struct gg_fresh_piece *piece) { return atomic_load_explicit(&piece->left, memory_order_relaxed) == UNTOUCHED; }

void gg_fresh_ahead(struct gg_fresh *f, int reserve)
{
    while (f->next < f->count && (!is_untouched(&f->pieces[f->next]) || gg_copy_idle() > reserve)) {
        struct gg_fresh_piece *piece = &f->pieces[f->next++];
        if (is_untouched(piece))
            hand_over(piece, false);
    }
}

bool gg_fresh_is_there(struct gg_fresh *f, const char *begin, const char *end)
{
    if (f->count == 0)
        return true;
    bool there = true;
    for (int64_t i = piece_of(f, begin), last = piece_of(f, end - 1); i <= last; i++) {
        if (is_untouched(&f->pieces[i]))
            hand_over(&f->pieces[i], true);
        there &= gg_copy_made(&f->pieces[i].left);
    }
    return there;
}

void gg_fresh_end(struct gg_fresh *f)
{
    for (int64_t i = 0; i < f->count; i++)
        if (!is_untouched(&f->pieces[i]))
            gg_copy_wait(&f->pieces[i].left);
    free(f->pieces);
}

/* t_fresh.c — the pages of a C that nobody has used before (src/fresh.h): they are there when they are said to be, what was in C stays, and nothing
 * beside C is touched. With copy threads and without. */
#include <errno.h>
#include <sched.h>
#include <sys/resource.h>

#include "huge.h"

#include "../src/fresh.h"

enum { PAGE = 4096 };

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const bool counts = false; /* faults in the sanitizer's own memory count, too */
#else
static const bool counts = true;
#endif

static long faults(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt;
}

static char *page_of(const char *at) { return (char *)((uintptr_t)at & ~(uintptr_t)(PAGE - 1)); }

static bool is_present(const char *at)
{
    unsigned char there = 0;
    CHECK(mincore(page_of(at), 1, &there) == 0, "mincore: %s", strerror(errno));
    return there & 1;
}

/* C, and the huge pages that lie in it. */
struct c {
    char *begin, *end, *whole, *whole_end;
};

static struct c c_at(char *begin, int64_t bytes)
{
    struct c c = {begin, begin + bytes, (char *)(((uintptr_t)begin + HUGE_PAGE - 1) & -(uintptr_t)HUGE_PAGE), NULL};
    c.whole_end = (char *)((uintptr_t)c.end & -(uintptr_t)HUGE_PAGE);
    return c;
}

/* The next page of C that must be there once C is: every one but those in huge pages behind the first, which is enough. */
static char *next_page(const struct c *c, const char *page)
{
    return page_of(page) + (page >= c->whole && page < c->whole_end ? HUGE_PAGE : PAGE);
}

static void await(struct gg_fresh *fresh, const char *begin, const char *end)
{
    while (!gg_fresh_is_there(fresh, begin, end))
        if (!gg_copy_help())
            sched_yield();
}

/* Some pieces are made ahead, some because they are wanted, in any order. */
static void make(struct gg_fresh *fresh, const struct c *c, uint64_t *seed)
{
    const int64_t bytes = c->end - c->begin;
    for (int i = 0; i < 6; i++) {
        gg_fresh_ahead(fresh, i);
        const int64_t from = rng_below(seed, bytes), to = from + 1 + rng_below(seed, (bytes - from + 3) / 4);
        char *const at = c->begin + from, *const end = c->begin + to < c->end ? c->begin + to : c->end;
        gg_fresh_is_there(fresh, at, end);
        gg_fresh_ahead(fresh, 0);
        await(fresh, at, end);
        for (char *page = at >= c->whole && at < c->whole_end ? (char *)((uintptr_t)at & -(uintptr_t)HUGE_PAGE) : at; page < end; page = next_page(c, page))
            CHECK(is_present(page), "byte %ld of %ld is said to be there, and is not", (long)(page - c->begin), (long)bytes);
    }
    await(fresh, c->begin, c->end);
}

static void write_again(const struct c *c)
{
    const long before = faults();
    for (char *page = c->begin; page < c->end; page = next_page(c, page))
        *(volatile char *)page = *(volatile char *)page;
    const long more = faults() - before;
    CHECK(!counts || more < 8, "%ld pages of C were there to be read only", more);
}

static void one_case(int64_t offset, int64_t bytes, bool used, uint64_t *seed)
{
    const struct new_memory memory = new_memory((size_t)(bytes + offset) + 3 * HUGE_PAGE);
    const struct c c = c_at(memory.begin + HUGE_PAGE + offset, bytes);
    struct gg_fresh fresh;
    int64_t marks[40];
    const bool always = !strcmp(huge_pages(), "always"); /* then what is used makes huge pages, whose other bytes are there, too */
    const int marked = used && !always ? (int)(sizeof marks / sizeof *marks) : 0;
    for (int i = 0; i < marked; i++) { /* in the first half, so that a look at the second finds no page; every other at the begin of a page */
        const int64_t at = bytes * i / 80 + (i % 10 ? rng_below(seed, bytes / 80 - PAGE) : 0);
        marks[i] = i % 2 ? page_of(c.begin + at) - c.begin : at;
        c.begin[marks[i]] = (char)(1 + i);
    }
    CHECK(gg_fresh_begin(&fresh, c.begin, bytes), "%ld new bytes are not found to be new", (long)bytes);
    make(&fresh, &c, seed);
    gg_fresh_end(&fresh);
    write_again(&c);
    if (*huge_pages())
        CHECK(huge_asked(c.whole) && !huge_asked(memory.begin) && !huge_asked(c.end + HUGE_PAGE), "huge pages are asked for elsewhere, or not at all");
    if (!always)
        CHECK(!is_present(page_of(c.begin) - PAGE) && !is_present(page_of(c.end - 1) + PAGE), "a page beside C was touched");
    for (int i = 0; i < marked; i++) {
        CHECK(c.begin[marks[i]] == (char)(1 + i), "byte %ld of C has changed", (long)marks[i]);
        c.begin[marks[i]] = 0;
    }
    for (char *at = c.begin; at < c.end; at++)
        if (*at) {
            CHECK(false, "byte %ld of C is no longer 0", (long)(at - c.begin));
            break;
        }
    CHECK(!gg_fresh_begin(&fresh, c.begin, bytes) && gg_fresh_is_there(&fresh, c.begin, c.end), "C has been used, and is found to be new");
    gg_fresh_ahead(&fresh, 0);
    gg_fresh_end(&fresh);
    unmap(&memory);
}

int main(void)
{
    static const int64_t offsets[] = {0, 16, PAGE - 16, (1 << 20) + 48, HUGE_PAGE - PAGE - 8, HUGE_PAGE - 4};
    static const int64_t sizes[] = {4 << 20, (4 << 20) + 100, (7 << 20) - 13, (11 << 20) + PAGE - 1, 2 * HUGE_PAGE + (1 << 19)};
    uint64_t seed = 5;
    const struct new_memory unused = new_memory(PAGE);
    if (is_present(unused.begin))
        return fprintf(stderr, "skipped: this kernel does not tell which pages are there\n"), SKIP;
    unmap(&unused);
    for (int threads = 0; threads < 2; threads++) {
        for (size_t o = 0; o < sizeof offsets / sizeof *offsets; o++)
            for (size_t b = 0; b < sizeof sizes / sizeof *sizes; b++)
                one_case(offsets[o], sizes[b], (o + b) % 2, &seed);
        if (threads == 0)
            CHECK(gg_copy_start() > 0, "no copy threads");
        gg_copy_begin(gg_copy_start(), true);
    }
    const struct new_memory little = new_memory(HUGE_PAGE);
    struct gg_fresh fresh;
    CHECK(!gg_fresh_begin(&fresh, little.begin, 2 * HUGE_PAGE - 1) && !is_present(little.begin), "a small C is made ahead");
    printf("%d failures\n", test_failures);
    return test_failures != 0;
}

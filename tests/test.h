/* test.h — what the tests share: CHECK, a seeded RNG, matrices between guard pages, and the error bound that every result must meet.
 *
 * A test is one program: it exits with 0 (right), 1 (wrong) or 77 (cannot run here). A matrix is `outer` lines of `inner` contiguous elements, `ld`
 * elements apart, whatever the layout. Everything around the elements is NaN with a payload of its own, so that a stray read poisons a result and a
 * stray write shows up in a bitwise comparison. Comparisons are written !(err <= tol), so that NaN fails. */
#ifndef TEST_H
#define TEST_H

#include <math.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SKIP = 77 };

static atomic_int test_failures __attribute__((unused));

#define CHECK(condition, ...)                                                                                          \
    do {                                                                                                               \
        if (!(condition) && atomic_fetch_add(&test_failures, 1) < 20) {                                                \
            fprintf(stderr, "%s:%d: ", __FILE__, __LINE__);                                                            \
            fprintf(stderr, __VA_ARGS__);                                                                              \
            fputc('\n', stderr);                                                                                       \
        }                                                                                                              \
    } while (0)

/* splitmix64: any seed is a good one, so a case can be regenerated from (seed, index) alone. */
static inline uint64_t rng(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static inline int64_t rng_below(uint64_t *state, int64_t n) { return (int64_t)(rng(state) % (uint64_t)n); }
static inline double rng_real(uint64_t *state) { return (double)((int64_t)rng(state) >> 11) * 0x1p-52; } /* [-1, 1) */

/* Readable and writable memory with an unmapped page on either side. */
struct arena {
    unsigned char *lo, *hi;
};

static inline struct arena arena_new(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), room = (bytes + page - 1) / page * page;
    unsigned char *p = mmap(NULL, room + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED || mprotect(p + page, room, PROT_READ | PROT_WRITE)) {
        perror("arena");
        exit(SKIP);
    }
    return (struct arena){p + page, p + page + room};
}

struct matrix {
    bool dbl;
    int64_t inner, outer, ld;
    unsigned char *data;
};

static inline size_t matrix_element(const struct matrix *x) { return x->dbl ? sizeof(double) : sizeof(float); }

static inline size_t matrix_span(const struct matrix *x) /* bytes from the first element to the end of the last */
{
    return x->inner && x->outer ? (size_t)(x->ld * (x->outer - 1) + x->inner) * matrix_element(x) : 0;
}

/* memcpy, because the element may lie at any address, as a caller's may */
static inline double matrix_get(const struct matrix *x, int64_t i, int64_t j)
{
    float f;
    double d;
    const unsigned char *p = x->data + (size_t)(i + j * x->ld) * matrix_element(x);
    return x->dbl ? (memcpy(&d, p, sizeof d), d) : (memcpy(&f, p, sizeof f), (double)f);
}

static inline void matrix_set(const struct matrix *x, int64_t i, int64_t j, double value)
{
    float f = (float)value;
    unsigned char *p = x->data + (size_t)(i + j * x->ld) * matrix_element(x);
    memcpy(p, x->dbl ? (void *)&value : (void *)&f, matrix_element(x));
}

/* Puts x into the arena, `gap` bytes before the guard page at its end or after the one at its beginning; poisons the span and MARGIN bytes on either
 * side. */
enum { MARGIN = 256 };

static inline void matrix_place(struct matrix *x, struct arena where, bool at_end, size_t gap)
{
    static const uint64_t poison = 0xfff4dead7fb4dead; /* NaN as a double and as either float, aligned to 4 bytes */
    x->data = at_end ? where.hi - gap - matrix_span(x) : where.lo + gap;
    unsigned char *lo = x->data - where.lo > MARGIN ? x->data - MARGIN : where.lo, *hi = x->data + matrix_span(x) + MARGIN;
    lo += (uintptr_t)(x->data - lo) % 4;
    for (unsigned char *p = lo; p < (hi < where.hi ? hi : where.hi); p += 4)
        memcpy(p, (const unsigned char *)&poison + ((uintptr_t)(p - x->data) & 4), where.hi - p < 4 ? (size_t)(where.hi - p) : 4);
}

/* Higham, ch. 3: gamma_k = k u / (1 - k u) */
static inline double gamma_k(bool dbl, double k)
{
    double u = dbl ? 0x1p-53 : 0x1p-24;
    return k * u / (1 - k * u);
}

/* |C - C'| <= gamma_{k+2} |alpha| (|A||B|) + gamma_2 |beta||C|, for any order of summation, with fma or without */
static inline double error_bound(bool dbl, int64_t k, double alpha, double abs_product, double beta, double c)
{
    double bound = beta != 0 ? gamma_k(dbl, 2) * fabs(beta * c) : 0;
    return alpha != 0 && k > 0 ? bound + gamma_k(dbl, (double)k + 2) * fabs(alpha) * abs_product : bound;
}

#endif

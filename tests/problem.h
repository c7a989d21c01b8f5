/* problem.h — gemm calls whose whole result is known in advance, byte for byte. Small integers make every order of summation exact, and the image
 * that is compared includes the padding between C's columns and the memory around C. A problem is made once and may be called by many threads. */
#ifndef PROBLEM_H
#define PROBLEM_H

#include "test.h"

#include "../include/gpugemm.h"
#include "spellings.h"

enum { AROUND = 512 }; /* bytes before and after an operand that belong to its image */

struct problem {
    const struct spelling *spelling;
    bool transa, transb;
    int64_t m, n, k, lda, ldb, ldc;
    double beta;
    size_t bytes[3]; /* of the images of A, B and C */
    unsigned char *image[3], *expected;
};

/* The operands of one caller of the problem: images of its own, so that any misplaced byte is found. */
struct operands {
    unsigned char *image[3];
};

static inline double problem_entry(int64_t i, int64_t j, int64_t seed)
{
    uint64_t mixed = (uint64_t)i * 2654435761u ^ (uint64_t)j * 2246822519u ^ (uint64_t)seed * 3266489917u;
    return (double)(mixed >> 9 & 7) - 3;
}

static inline unsigned char *problem_image(bool dbl, int64_t inner, int64_t outer, int64_t ld, size_t *bytes, struct matrix *x)
{
    *x = (struct matrix){.dbl = dbl, .inner = inner, .outer = outer, .ld = ld};
    *bytes = matrix_span(x) + 2 * AROUND;
    unsigned char *image = aligned_alloc(64, (*bytes + 63) & ~(size_t)63);
    x->data = image + AROUND;
    for (size_t i = 0; i < *bytes; i++)
        image[i] = (unsigned char)(0xf1 + i % 13); /* garbage that no product yields; NaN for some alignments */
    return image;
}

/* Makes C := op(A) op(B) + beta C; where beta is 0, C is full of garbage. */
static inline struct problem problem_make(const struct spelling *s, bool transa, bool transb, int64_t m, int64_t n, int64_t k, double beta,
                                          int64_t pad)
{
    struct problem p = {.spelling = s, .transa = transa, .transb = transb, .m = m, .n = n, .k = k, .beta = beta};
    struct matrix a, b, c, r;
    p.lda = (transa ? k : m) + pad, p.ldb = (transb ? n : k) + pad, p.ldc = m + pad;
    p.image[0] = problem_image(s->dbl, transa ? k : m, transa ? m : k, p.lda, &p.bytes[0], &a);
    p.image[1] = problem_image(s->dbl, transb ? n : k, transb ? k : n, p.ldb, &p.bytes[1], &b);
    p.image[2] = problem_image(s->dbl, m, n, p.ldc, &p.bytes[2], &c);
    p.expected = problem_image(s->dbl, m, n, p.ldc, &p.bytes[2], &r);
    double *x = malloc((size_t)(m * k) * sizeof *x), *y = malloc((size_t)k * sizeof *y);
    for (int64_t l = 0; l < k; l++)
        for (int64_t i = 0; i < m; i++) {
            x[l + i * k] = problem_entry(i, l, 1);
            matrix_set(&a, transa ? l : i, transa ? i : l, x[l + i * k]);
        }
    for (int64_t j = 0; j < n; j++) {
        for (int64_t l = 0; l < k; l++) {
            y[l] = problem_entry(l, j, 2);
            matrix_set(&b, transb ? j : l, transb ? l : j, y[l]);
        }
        for (int64_t i = 0; i < m; i++) {
            double sum = beta == 0 ? 0 : beta * problem_entry(i, j, 3);
            for (int64_t l = 0; l < k; l++)
                sum += x[l + i * k] * y[l];
            matrix_set(&c, i, j, beta == 0 ? NAN : problem_entry(i, j, 3));
            matrix_set(&r, i, j, sum);
        }
    }
    free(x), free(y);
    return p;
}

static inline struct operands operands_new(const struct problem *p)
{
    struct operands o;
    for (int i = 0; i < 3; i++)
        o.image[i] = aligned_alloc(64, (p->bytes[i] + 63) & ~(size_t)63);
    return o;
}

static inline void operands_free(struct operands *o)
{
    for (int i = 0; i < 3; i++)
        free(o->image[i]);
}

/* Sets the operands to their contents before a call; A and B need this only once. */
static inline void problem_reset(const struct problem *p, struct operands *o)
{
    for (int i = 0; i < 3; i++)
        memcpy(o->image[i], p->image[i], p->bytes[i]);
}

static inline struct call problem_call(const struct problem *p, const void *a, const void *b, void *c)
{
    int none = p->spelling->cblas ? 111 : 'N', trans = p->spelling->cblas ? 112 : 'T';
    return (struct call){102, p->transa ? trans : none, p->transb ? trans : none, p->m, p->n, p->k, p->lda, p->ldb, p->ldc, a, b, c, 1,
                         p->beta, 1};
}

/* Is every byte of A, B and C what it must be after the call? NULL, or what is wrong. */
static inline const char *problem_wrong(const struct problem *p, const struct operands *o)
{
    if (memcmp(o->image[2], p->expected, p->bytes[2]))
        return memcmp(o->image[2], p->image[2], p->bytes[2]) ? "C is wrong" : "C is as it was";
    return memcmp(o->image[0], p->image[0], p->bytes[0]) || memcmp(o->image[1], p->image[1], p->bytes[1]) ? "A or B was written to" : NULL;
}

/* Makes one call on fresh operands in host memory. NULL, or what is wrong. */
static inline const char *problem_try(const struct problem *p, struct operands *o)
{
    problem_reset(p, o);
    struct call x = problem_call(p, o->image[0] + AROUND, o->image[1] + AROUND, o->image[2] + AROUND);
    call_gemm(p->spelling, &x);
    return problem_wrong(p, o);
}

#endif

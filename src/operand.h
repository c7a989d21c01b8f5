/* operand.h — the three operands of a problem as two-dimensional arrays, without case distinctions: which index is contiguous, where an element
 * lies. */
#ifndef GG_OPERAND_H
#define GG_OPERAND_H

#include "plan.h"

/* Is the second index (columns) of op(A), op(B) or C the contiguous one? */
static inline bool gg_second_contiguous(const struct gg_gemm *p, enum gg_operand x)
{
    return x == GG_A ? p->a_kmajor : x == GG_B ? !p->b_kmajor : false;
}

/* Bytes from one contiguous line to the next. */
static inline int64_t gg_leading(const struct gg_gemm *p, enum gg_operand x)
{
    return (x == GG_A ? p->lda : x == GG_B ? p->ldb : p->ldc) * (int64_t)gg_size(p->type);
}

static inline char *gg_element(const struct gg_gemm *p, enum gg_operand x, int64_t row, int64_t col)
{
    const void *base = x == GG_A ? p->a : x == GG_B ? p->b : p->c;
    int64_t line = gg_second_contiguous(p, x) ? row : col, in_line = gg_second_contiguous(p, x) ? col : row;
    return (char *)base + line * gg_leading(p, x) + in_line * (int64_t)gg_size(p->type);
}

#endif

/* size.h — the sizes that bench, host and variants take: n or MxNxK; +P: leading dimensions P longer than needed; @E: base pointers E elements
 * further (host, whose operands it places itself, takes neither). */
#ifndef SIZE_H
#define SIZE_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct size {
    long long m, n, k, pitch, offset;
};

/* False: `text` is no size. */
static inline bool read_size(const char *text, struct size *size)
{
    const char *plus = strchr(text, '+'), *at = strchr(text, '@');
    const int given = sscanf(text, "%lldx%lldx%lld", &size->m, &size->n, &size->k);
    if (given == 1)
        size->n = size->k = size->m;
    size->pitch = plus ? atoll(plus + 1) : 0;
    size->offset = at ? atoll(at + 1) : 0;
    return (given == 1 || given == 3) && size->m > 0 && size->n > 0 && size->k > 0;
}

#endif

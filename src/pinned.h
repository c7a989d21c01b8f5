/* pinned.h — page-locked host memory of the library's own, which every device of the process can use at the address that the processor uses. */
#ifndef GG_PINNED_H
#define GG_PINNED_H

#include <stdint.h>

struct gg_pinned {
    char *memory; /* NULL: there is none */
    int64_t bytes;
    int64_t mapped; /* bytes of the mapping it is in; 0: it is the driver's own */
};

/* Between gg_gpu_enter and gg_gpu_leave. The memory is zero or left over from another use. */
struct gg_pinned gg_pinned_alloc(int64_t bytes);

/* The same. Nothing that is under way may use it. */
void gg_pinned_free(struct gg_pinned *pinned);

/* In place of gg_pinned_free once the context is gone in which the memory was allocated. */
void gg_pinned_forget(struct gg_pinned *pinned);

#endif

/* config.h — the environment, read once. */
#ifndef GG_CONFIG_H
#define GG_CONFIG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "gemm.h"

enum gg_mode { GG_MODE_AUTO, GG_MODE_GPU, GG_MODE_CPU };

enum { GG_MAX_THREADS = 64 }; /* of GPUGEMM_THREADS */

struct gg_config {
#define GG_MODE_T enum gg_mode
#define GG_PRECISION_T enum gg_precision
#define GG_TEXT_T const char *
#define GG_DEVICES_T const char *
#define GG_KERNEL_T const char *
#define GG_BYTES_T int64_t
#define GG_COUNT_T int64_t
#define GG_OPTION(field, name, kind, ...) GG_##kind##_T field;
#include "config.def"
#undef GG_OPTION
    unsigned refused; /* one bit per option, the first row's the lowest: its value could not be read */
};

/* What the environment had for an option when it was read, if that is in force; "": the default is. */
const char *gg_config_text(int option);

/* The options in force. The first call reads the environment; thread-safe, and afterwards a load. */
extern _Atomic(const struct gg_config *) gg_config_in_force;
const struct gg_config *gg_config_read(void);

/* Fills every option from what `get`, a function like getenv, returns for its name; one warning for each that cannot be read. */
void gg_config_fill(struct gg_config *config, char *(*get)(const char *name));

/* Returns the first ordinal of a list like GPUGEMM_DEVICES and advances the list past it; -1: it cannot be read. */
int gg_next_device(const char **list);

static inline const struct gg_config *gg_config(void)
{
    const struct gg_config *config = atomic_load_explicit(&gg_config_in_force, memory_order_acquire);
    return config ? config : gg_config_read();
}

/* One option as text, for `gpugemm info`: its name, the text of its default, its meaning. */
struct gg_option {
    const char *name, *fallback, *meaning;
};
extern const struct gg_option gg_options[];
extern const int gg_option_count;

#endif

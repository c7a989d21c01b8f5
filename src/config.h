/* config.h — the environment, read once. */
#ifndef GG_CONFIG_H
#define GG_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

enum gg_mode { GG_MODE_AUTO, GG_MODE_GPU, GG_MODE_CPU };

struct gg_config {
#define GG_MODE_T enum gg_mode
#define GG_TEXT_T const char *
#define GG_BYTES_T int64_t
#define GG_COUNT_T int64_t
#define GG_OPTION(field, name, kind, ...) GG_##kind##_T field;
#include "config.def"
#undef GG_OPTION
};

/* The options in force. The first call reads the environment; thread-safe. */
const struct gg_config *gg_config(void);

/* One option as text, for `gpugemm info`: its value in the environment or, when that is unset, the text of the default. */
struct gg_option {
    const char *name, *fallback, *meaning;
};
extern const struct gg_option gg_options[];
extern const int gg_option_count;

#endif

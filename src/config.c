/* config.c — owns the options of config.def. It reads the environment once and never again; it never fails: a value it cannot read
 * is one warning and the default. Called by every stage through gg_config(). */
#include "config.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "kernels.h"
#include "trace.h"

enum {
#define GG_OPTION(field, name, ...) OPTION_##field,
#include "config.def"
#undef GG_OPTION
    OPTIONS
};

static struct {
    pthread_once_t once;
    struct gg_config config;
    char *texts[OPTIONS]; /* the environment's, as copied when it was read: programs write over it (setproctitle) */
} g = {.once = PTHREAD_ONCE_INIT};

_Atomic(const struct gg_config *) gg_config_in_force;

const struct gg_option gg_options[] = {
#define GG_OPTION(field, name, kind, value, text, meaning) {#name, text, meaning},
#include "config.def"
#undef GG_OPTION
};
const int gg_option_count = sizeof gg_options / sizeof *gg_options;

/* Index of `text` in the NULL-terminated list, or -1. */
static int word(const char *text, const char *const *words)
{
    for (int i = 0; words[i]; i++)
        if (strcasecmp(text, words[i]) == 0)
            return i;
    return -1;
}

static bool read_MODE(const char *text, enum gg_mode *value)
{
    int i = word(text, (const char *const[]){"auto", "gpu", "cpu", NULL});
    if (i >= 0)
        *value = (enum gg_mode)i;
    return i >= 0;
}

static bool read_PRECISION(const char *text, enum gg_precision *value)
{
    int i = word(text, (const char *const[]){"strict", "fp32", "tf32", NULL});
    if (i >= 0)
        *value = (enum gg_precision)i;
    return i >= 0;
}

static bool read_TEXT(const char *text, const char **value)
{
    *value = text;
    return true;
}

static bool read_DEVICES(const char *text, const char **value)
{
    *value = text;
    while (*text && gg_next_device(&text) >= 0)
        ;
    return !*text;
}

/* A row's name; helpers of the kernels do not count. */
static bool read_KERNEL(const char *text, const char **value)
{
    for (int i = 0; i < gg_kernel_count; i++)
        if ((gg_kernels[i].role < GG_SCALE || gg_kernels[i].role == GG_MAPPED) && strcmp(text, gg_kernels[i].name) == 0) {
            *value = gg_kernels[i].name;
            return true;
        }
    return false;
}

/* A non-negative number with an optional K, M or G (1024). */
static bool read_BYTES(const char *text, int64_t *value)
{
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    int shift = 0;
    if (end != text && *end) {
        static const char suffixes[] = "kKmMgG";
        const char *suffix = strchr(suffixes, *end);
        if (!suffix || end[1])
            return false;
        shift = 10 * (1 + (int)(suffix - suffixes) / 2);
    }
    if (errno || end == text || number < 0 || number > INT64_MAX >> shift)
        return false;
    *value = (int64_t)number << shift;
    return true;
}

static bool read_COUNT(const char *text, int64_t *value)
{
    return read_BYTES(text, value) && *value <= GG_MAX_THREADS;
}

void gg_config_fill(struct gg_config *config, char *(*get)(const char *name))
{
    const char *text;
    unsigned bit = 1;
    config->refused = 0;
#define GG_OPTION(field, name, kind, value, fallback, meaning)                                                         \
    config->field = value;                                                                                             \
    text = get(#name);                                                                                                 \
    if (text && *text && !read_##kind(text, &config->field)) {                                                         \
        config->field = value;                                                                                         \
        config->refused |= bit;                                                                                        \
        gg_warn("%s=%s cannot be read; the default is used (%s)", #name, text, meaning);                               \
    }                                                                                                                  \
    bit <<= 1;
#include "config.def"
#undef GG_OPTION
    if (config->stats && strcmp(config->stats, "0") == 0)
        config->stats = NULL;
    if (config->trace && strcmp(config->trace, "0") == 0)
        config->trace = NULL;
}

static char *copied(const char *name)
{
    const char *const text = secure_getenv(name);
    int i = 0;
    while (strcmp(gg_options[i].name, name) != 0)
        i++;
    return g.texts[i] = text ? strdup(text) : NULL;
}

static void read_environment(void)
{
    int saved = errno;
    const locale_t theirs = gg_use_points(); /* strcasecmp goes by the locale: in a Turkish one STRICT is not strict */
    gg_config_fill(&g.config, copied);
    gg_use_theirs(theirs);
    errno = saved;
}

int gg_next_device(const char **list)
{
    int64_t ordinal = 0;
    const char *at = *list;
    while (*at >= '0' && *at <= '9' && ordinal < 1000)
        ordinal = 10 * ordinal + (*at++ - '0');
    if (at == *list || (*at && *at != ',') || ordinal > 999)
        return -1;
    *list = *at ? at + 1 : at;
    return (int)ordinal;
}

const char *gg_config_text(int option)
{
    return !(gg_config()->refused >> option & 1) && g.texts[option] ? g.texts[option] : "";
}

const struct gg_config *gg_config_read(void)
{
    pthread_once(&g.once, read_environment);
    atomic_store_explicit(&gg_config_in_force, &g.config, memory_order_release);
    return &g.config;
}

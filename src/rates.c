/* rates.c — owns what is known of this machine's speed: the defaults, what was measured, what calls took, and the file that carries it to the next
 * process. A file that cannot be read, or is another machine's, counts as none. Called wherever something is predicted or measured: serve.c,
 * dispatch.c, entry.c, gpu.c, the staged path, explain.c, info.c and tune.c. */
#include "rates.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "config.h"
#include "cpus.h"
#include "gpu.h"
#include "gpugemm.h"
#include "trace.h"

static struct {
    pthread_once_t once;
    pthread_mutex_t lock; /* of `measured`, `kept` and `gpu`, once they are loaded, for those who change them: gpugemm_tune beside calls. They have a
                           * GPU that is up, so no forked child waits for it */
    struct gg_rates rates;
    int threads;
    bool from_file;
    char measured[32]; /* when */
    char kept[32];     /* the same in the file, as this process has read or written it */
    char gpu[64];      /* the GPU it was measured with */
    char machine[640]; /* all that the rates depend on, as text */
    char path[512];    /* of the file; "": there is none */
    _Atomic unsigned observations;
    _Atomic bool saving;
} g = {.once = PTHREAD_ONCE_INIT, .lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- kinds of calls, and the models ------------------------------------------------------------------------------------------------------- */

int gg_shape(const struct gg_gemm *p)
{
    const int64_t far = 16, size[] = {p->m, p->n, p->k};
    int least = 0;
    for (int i = 1; i < 3; i++)
        if (size[i] < size[least])
            least = i;
    return gg_max(gg_max(p->m, p->n), p->k) / far > size[least] ? 1 + least : 0;
}

int gg_work(const struct gg_gemm *p)
{
    double work = (double)p->m * (double)p->n * (double)p->k;
    uint64_t bits; /* the exponent of a positive double is in bits 52 to 62, 1023 for 1; bit 51 is set from 1.5 times a power of two on */
    memcpy(&bits, &work, sizeof bits);
    const int i = (int)(bits >> 51) - 2 * (1023 + 16); /* below 2^16 nothing is worth a GPU */
    return i < 0 ? 0 : i < GG_WORKS ? i : GG_WORKS - 1;
}

static double larger(double x, double y)
{
    return x > y ? x : y;
}

/* The share of all threads' rate that a C of this size can use: OpenBLAS cuts C among its threads, never k (H200's host, 14 and 16 threads over one:
 * 64 x 64 0.8 to 3.8 times as fast, 300 x 300 5 to 6.8, 512 x 512 and larger 10 to 12). */
static double share_of_threads(double m, double n, double threads)
{
    const double useful = 2 + m * n / 28000, most = 0.65 * threads;
    return useful < most ? useful / most : 1;
}

/* The CPU first packs its operands, at a quarter of the memory's rate (OpenBLAS, 16 x 4096 x 4096: 10 GB/s, 4096 x 16 x 4096: 23), except for a
 * vector. */
double gg_cpu_model(const struct gg_gemm *p, const struct gg_rates *rates)
{
    double m = (double)p->m, n = (double)p->n, k = (double)p->k, passes = p->m > 1 && p->n > 1 ? 4 : 1;
    double bytes = (double)gg_size(p->type) * (passes * (m * k + k * n) + 2 * m * n);
    double team = m * n * k > 64 * 64 * 64 ? rates->cpu_team : 0; /* from there on OpenBLAS wakes its threads */
    return rates->cpu_latency + team +
           larger(2 * m * n * k / (rates->cpu_flops[p->type] * share_of_threads(m, n, rates->cpu_threads)), bytes / rates->cpu_bandwidth);
}

/* One thread does three times as much as its share of all (gg_rates_default). What all callers share is memory, which gives them twice what a team of
 * threads gets (H200's host, 16 callers, dgemm 8 x 256 x 2000 150 GB/s, 4000 x 32 x 32 140), and the processors if there are fewer. */
double gg_cpu_model_single(const struct gg_gemm *p, const struct gg_rates *rates, int callers)
{
    const double m = (double)p->m, n = (double)p->n, k = (double)p->k, bytes = (double)gg_size(p->type) * (m * k + k * n + 2 * m * n);
    const double rate = rates->cpu_flops[p->type] * 3 / (2 + rates->cpu_threads), turns = larger(1, callers / rates->cpu_threads);
    return rates->cpu_latency + larger(turns * 2 * m * n * k / rate, callers * bytes / (2 * rates->cpu_bandwidth));
}

/* Besides its bytes a call costs the link some time of its own. (H200, us a call of 16 threads at once: sgemm 64 3.8, 128 7, 256 21, 512 45, 700 87,
 * dgemm 256 29, 512 92.) */
double gg_link_model(const struct gg_gemm *p, const struct gg_rates *rates)
{
    const double each = 5e-6, m = (double)p->m, n = (double)p->n, k = (double)p->k, up = m * k + k * n + (p->beta == 0 ? 0 : m * n);
    return each + (double)gg_size(p->type) * larger(up, m * n) / rates->pinned;
}

/* A staged call uploads A and B, downloads C (and uploads it if beta is not 0), and overlaps all that with the kernels except at the ends. */
double gg_staged_model(const struct gg_gemm *p, const struct gg_rates *rates, const bool pinned[3], double kernel_seconds)
{
    double size = (double)gg_size(p->type), m = (double)p->m, n = (double)p->n, k = (double)p->k;
    double up = size * (m * k / (pinned[0] ? rates->pinned : rates->up) + k * n / (pinned[1] ? rates->pinned : rates->up) +
                        (p->beta == 0 ? 0 : m * n / (pinned[2] ? rates->pinned : rates->up)));
    double down = size * m * n / (pinned[2] ? rates->pinned : rates->down);
    double longest = larger(larger(up, down), kernel_seconds), bytes = size * (m * k + k * n + m * n);
    return rates->latency + (bytes < 2e6 ? bytes : 2e6) / rates->serial + longest + (up + down + kernel_seconds - longest) / 8;
}

/* ---- defaults, and what calls took -------------------------------------------------------------------------------------------------------- */

void gg_rates_default(struct gg_rates *rates, int threads)
{
    /* A CPU of 2020 or later sustains 20 GFLOP/s of dgemm per hardware thread in OpenBLAS, and one thread alone three times as much (16 threads of
     * the H200's host: 275 to 440, sgemm 250 to 590, one 70 and 135; of an EPYC 57 to 76 and 121 to 168; 2026-11). Its threads take 2 µs each to
     * start and to end. 20 GB/s of staging is what PCIe 4 gives and half of PCIe 5. A short staged call on the H200 takes 18 µs and 22 more per
     * megabyte, besides copies and kernel (sgemm 64 17 µs, 96 22, 128 30, 160 33, 256 50, 512 116). */
    double n = threads < 1 ? 1 : threads, cpu = 40e9 + 20e9 * n;
    memset(rates, 0, sizeof *rates);
    rates->up = rates->down = rates->pinned = 20e9;
    rates->latency = 18e-6;
    rates->serial = 45e9;
    rates->flops[GG_S] = 10e12;
    rates->flops[GG_D] = 5e12;
    rates->cpu_flops[GG_S] = 1.5 * cpu;
    rates->cpu_flops[GG_D] = cpu;
    rates->cpu_bandwidth = 12e9 * (n < 8 ? n : 8);
    rates->cpu_latency = 1e-6;
    rates->cpu_threads = n;
    rates->cpu_team = n > 1 ? 2e-6 * n : 1e-9;
    rates->start = 0.4; /* cuInit, a context and the first module: 0.2–0.6 s on the H200 machine (2026-11) */
}

static bool is_newer(void);
static bool save(void);

static void *save_thread(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&g.lock);
    if (!is_newer())
        save();
    pthread_mutex_unlock(&g.lock);
    atomic_store(&g.saving, false);
    return NULL;
}

void gg_rates_hold(int who, const struct gg_gemm *p)
{
    struct gg_rates *rates = gg_rates();
    const int shape = gg_shape(p), work = gg_work(p);
    if (atomic_exchange_explicit(&rates->held[p->type][shape][work], (signed char)(1 + who), memory_order_relaxed) != 1 + who) {
        atomic_store_explicit(&rates->since[p->type][shape][work], 0, memory_order_relaxed);
        atomic_store_explicit(&rates->content[p->type][shape][work], 0, memory_order_relaxed);
    }
}

/* How long the threads of the CPU BLAS poll after a call; the GPU's short calls take longer beside them. */
static const double polling = 30e-3;

/* A try of a side that is known is two calls, because the first has its own cost, and as many more as fit in the time that a team of threads needs
 * to get going (OpenBLAS's 16: sgemm 96 45, 30 and then 18 us a call, so that two calls alone hid who was faster). If by the model the GPU is the
 * faster side, the try is long: it outlasts the polling (H200, 14 cores: dgemm 160 83 to 90 us, held by the CPU, 56 to 59 with such tries; 192 81 to
 * 99 and 60). */
static const double short_try = 300e-6;
static bool is_long_try(const struct gg_rates *rates, int who, const struct gg_gemm *p, double model)
{
    const double seen = (double)atomic_load_explicit(&rates->seen[GG_ON_CPU][p->type][gg_shape(p)][gg_work(p)], memory_order_relaxed);
    return who == GG_ON_GPU && model < seen * gg_cpu_model(p, rates);
}

/* What was seen of a side while other programs ran, or in a process long ago, must not count for ever. The first new try comes when like calls have
 * taken 16 times as long as one call on the other side would; later ones come less and less often. They are rare enough that a long try costs little,
 * and so does the polling after a try of the CPU. */
bool gg_rates_doubtful(const struct gg_rates *rates, int who, const struct gg_gemm *p, double model, double seconds)
{
    const int shape = gg_shape(p), work = gg_work(p), content = atomic_load_explicit(&rates->content[p->type][shape][work], memory_order_relaxed);
    const double since = (double)atomic_load_explicit(&rates->since[p->type][shape][work], memory_order_relaxed);
    const double least = who == GG_ON_CPU ? 3 * polling : content > 0 && is_long_try(rates, who, p, model) ? 16 * polling : 0;
    return since < 0 || since > larger(16 * seconds, least) * (1 << content);
}

/* Updates `since` and `content` after a call was served by `who`, holder or not. */
static void count(struct gg_rates *rates, int who, bool holder, const struct gg_gemm *p, double model, double seconds)
{
    const unsigned char most = 6;
    const int shape = gg_shape(p), work = gg_work(p);
    _Atomic float *since = &rates->since[p->type][shape][work];
    _Atomic unsigned char *content = &rates->content[p->type][shape][work];
    const double before = (double)atomic_load_explicit(since, memory_order_relaxed); /* below 0: a try is in progress and has taken so long */
    const unsigned char times = atomic_load_explicit(content, memory_order_relaxed);
    const double spent = before < 0 ? -before : 0;
    const bool enough = !holder && spent > 0 && spent + seconds > (is_long_try(rates, who, p, model) ? polling : short_try);
    if (enough && times < most)
        atomic_store_explicit(content, times + 1, memory_order_relaxed);
    if (!holder || before >= 0)
        atomic_store_explicit(since, (float)(enough ? 0 : holder ? before + seconds : -(spent + seconds)), memory_order_relaxed);
}

/* A side's first calls bear the cost of being the first, and are not counted: its threads wake up, memory and code are fetched. They are over when
 * so many calls in a row took no less than this share of the fastest before. (OpenBLAS's 16 threads: dgemm 4096x4096x16 31, 14.6, then 8 ms; the GPU:
 * 64x64x65536 32, 22, then 1.7 ms. When only the first was left out, the second was taken for the side's time, and the other side served for a long
 * while. Of 200 simulated programs with such calls 32 were more than 1.1 times slower than the better side after 150 calls; with this 3, and 15 if
 * one call is enough.) The fastest of them is believed: the last may have been a mishap. */
static const double STILL_FALLING = 0.9;
enum { STEADY = 2 };

static float bounded(double ratio, double most)
{
    return (float)(ratio > most ? most : ratio < 1 / most ? 1 / most : ratio);
}

void gg_rates_see(int who, const struct gg_gemm *p, double model, double seconds)
{
    /* It is quick to believe that something is fast and slow to believe that it is slow, because a call is often slow for reasons of its own. */
    struct gg_rates *rates = gg_rates();
    const int shape = gg_shape(p), work = gg_work(p), held = atomic_load_explicit(&rates->held[p->type][shape][work], memory_order_relaxed);
    const bool holder = held == 0 || held == 1 + who;
    const float better = holder ? 0.5f : 1, worse = holder ? 0.1f : 0.5f; /* a side that is seldom tried has few chances to show what it can do */
    _Atomic float *seen = &rates->seen[who][p->type][shape][work];
    float old = atomic_load_explicit(seen, memory_order_relaxed);
    /* No mishap turns a side off for ever, but what is confirmed counts, up to what the file may hold (read_line). */
    const double known = old > 0 ? larger((double)old, 1 / (double)old) : 0, mishap = 16, absurd = 90;
    const double most = larger(mishap, 2 * known < absurd ? 2 * known : absurd);
    float ratio = bounded(seconds / model, most);
    if (holder && old > 0 && ratio > 2 * old) /* usually another program had the processor */
        ratio = 2 * old;
    _Atomic unsigned char *steady = &rates->steady[who][p->type][shape][work];
    float new = old + (ratio < old ? better : worse) * (ratio - old);
    if (old == 0 || (old < 0 && seconds / model < STILL_FALLING * (double)-old)) {
        new = (float)(-seconds / model);
        atomic_store_explicit(steady, 0, memory_order_relaxed);
    } else if (old < 0)
        new = atomic_fetch_add_explicit(steady, 1, memory_order_relaxed) + 1 < STEADY ? old : bounded(-(double)old, most);
    count(rates, who, holder, p, model, seconds);
    atomic_store_explicit(seen, new, memory_order_relaxed);
    unsigned count = atomic_fetch_add_explicit(&g.observations, 1, memory_order_relaxed) + 1;
    if (count >= 256 && (count & (count - 1)) == 0 && gg_config()->mode == GG_MODE_AUTO /* forced mode is for tests, which run many at a time */ &&
        gg_gpu_state() == GG_GPU_READY && !atomic_exchange(&g.saving, true) && !gg_thread_start(save_thread, NULL))
        atomic_store(&g.saving, false);
}

/* ---- the file --------------------------------------------------------------------------------------------------------------------------- */

/* Every single number in the file, by name. */
#define NUMBERS(X)                                                                                                     \
    X("up", up) X("down", down) X("pinned", pinned) X("gpu_latency", latency) X("serial", serial) X("gpu_sgemm", flops[GG_S])             \
    X("gpu_dgemm", flops[GG_D]) X("cpu_sgemm", cpu_flops[GG_S]) X("cpu_dgemm", cpu_flops[GG_D]) X("cpu_bandwidth", cpu_bandwidth)         \
    X("cpu_latency", cpu_latency) X("cpu_team", cpu_team) X("start", start)

/* Describes the machine in one line; a file is valid for this line only. */
static void describe(void)
{
    char line[256], cpu[128] = "unknown CPU", gpu[128] = "unknown GPU";
    FILE *file = fopen("/proc/cpuinfo", "re");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "model name : %127[^\n]", cpu) == 1)
            break;
    if (file)
        fclose(file);
    file = fopen("/proc/driver/nvidia/version", "re"); /* readable before the GPU has been started */
    if (file && fgets(line, sizeof line, file))
        sscanf(line, "NVRM version: %127[^\n]", gpu);
    if (file)
        fclose(file);
    snprintf(g.machine, sizeof g.machine, "libgpugemm %s; %s; %d threads; %s; devices %s", gpugemm_version(), cpu, g.threads, gpu,
             gg_config()->devices ? gg_config()->devices : "all");
}

/* Writes the file's path to g.path. */
static void find_path(void)
{
    const char *cache = secure_getenv("XDG_CACHE_HOME"), *home = secure_getenv("HOME"); /* NULL in setuid programs */
    uint64_t hash = 14695981039346656037u;
    for (const char *c = g.machine; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 1099511628211u;
    char folder[400];
    int n = cache && *cache == '/' ? snprintf(folder, sizeof folder, "%s", cache)
            : home && *home == '/' ? snprintf(folder, sizeof folder, "%s/.cache", home)
                                   : -1;
    g.path[0] = 0;
    if (n < 0 || n >= (int)sizeof folder - 10)
        return;
    snprintf(g.path, sizeof g.path, "%s/gpugemm/rates-%016llx", folder, (unsigned long long)hash);
}

/* Makes the last two folders of the path: the user's cache folder, and ours in it. */
static void make_folders(void)
{
    char folder[sizeof g.path];
    strcpy(folder, g.path);
    *strrchr(folder, '/') = 0;
    char *const ours = strrchr(folder, '/');
    *ours = 0;
    mkdir(folder, 0700);
    *ours = '/';
    mkdir(folder, 0700);
}

static bool read_line(const char *line, struct gg_rates *rates)
{
    char name[32], more;
    double value;
    int who, type, shape, work;
    if (sscanf(line, "took %d %d %d %d %lf %c", &who, &type, &shape, &work, &value, &more) == 5) {
        if ((who | type) & ~1 || shape < 0 || shape >= GG_SHAPES || work < 0 || work >= GG_WORKS || !(value > 0.01 && value < 100))
            return false;
        const double most = 4; /* what another process has seen, perhaps on a busy machine, must not keep a side from being tried soon */
        value = value > most ? most : value < 1 / most ? 1 / most : value;
        atomic_init(&rates->seen[who][type][shape][work], (float)value);
        return true;
    }
    if (sscanf(line, "%31s %lf %c", name, &value, &more) != 2)
        return false;
#define READ(text, field)                                                                                              \
    if (strcmp(name, text) == 0) {                                                                                     \
        rates->field = value;                                                                                          \
        return true;                                                                                                   \
    }
    NUMBERS(READ)
    return false;
}

bool gg_rates_parse(FILE *file, const char *machine, struct gg_rates *rates, char when[32], char gpu[64])
{
    const double absurd = 1e4; /* times the default, or a share of it: more than what calls take could ever put right */
#define NUMBER(name, field) rates->field,
    const double usual[] = {NUMBERS(NUMBER)};
    char line[700];
    bool good = fgets(line, sizeof line, file) && strncmp(line, machine, strlen(machine)) == 0 && line[strlen(machine)] == '\n';
    good = good && fgets(line, sizeof line, file) && sscanf(line, "measured %31s with %63[^\n]", when, gpu) == 2;
    bool ended = false;
    while (good && !ended && fgets(line, sizeof line, file)) {
        ended = strcmp(line, "end\n") == 0;
        good = ended || read_line(line, rates);
    }
    const double found[] = {NUMBERS(NUMBER)};
    for (size_t i = 0; i < sizeof found / sizeof *found; i++)
        good = good && found[i] > usual[i] / absurd && found[i] < usual[i] * absurd;
    return good && ended;
}

/* Opens the file if it is a regular file of the user's own; anything else might be another user's, or block. */
static FILE *open_file(void)
{
    struct stat status;
    int fd = g.path[0] ? open(g.path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) : -1;
    bool good = fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid();
    FILE *file = good ? fdopen(fd, "r") : NULL;
    if (fd >= 0 && !file)
        close(fd);
    return file;
}

/* Takes over all of the file or nothing of it. */
static void read_file(void)
{
    char when[32] = "", gpu[64] = "";
    static struct gg_rates found; /* static: 8 KB, and callers may have small stacks */
    FILE *file = open_file();
    if (!file)
        return;
    gg_rates_default(&found, g.threads);
    bool good = gg_rates_parse(file, g.machine, &found, when, gpu);
    fclose(file);
    if (!good)
        return;
    memcpy(&g.rates, &found, sizeof g.rates);
    strcpy(g.measured, when);
    strcpy(g.gpu, gpu);
    strcpy(g.kept, when);
    g.from_file = true;
}

/* Has another process (gpugemm tune) put measurements into the file that this one does not know? */
static bool is_newer(void)
{
    char line[700], when[32];
    FILE *file = open_file();
    const bool found = file && fgets(line, sizeof line, file) && fgets(line, sizeof line, file) && sscanf(line, "measured %31s", when) == 1;
    if (file)
        fclose(file);
    return found && strcmp(when, "never") != 0 && strcmp(when, g.kept) != 0;
}

/* A reader sees the old file or the new one, whole. All is known before the new one is made, because a process that ends meanwhile leaves it. */
static bool replace_file(const char *text, size_t length)
{
    char temporary[540];
    struct gg_signals signals;
    make_folders();
    snprintf(temporary, sizeof temporary, "%s.XXXXXX", g.path);
    gg_hold_signals(&signals);
    const int fd = mkostemp(temporary, 02000000 /* O_CLOEXEC */);
    bool good = fd >= 0 && write(fd, text, length) == (ssize_t)length;
    good = fd >= 0 && close(fd) == 0 && good && rename(temporary, g.path) == 0;
    if (fd >= 0 && !good)
        unlink(temporary);
    gg_let_signals(&signals);
    return good;
}

static bool save(void)
{
    struct gg_rates *rates = gg_rates();
    char *text = NULL;
    size_t length = 0;
    int saved = errno;
    FILE *file = g.path[0] ? open_memstream(&text, &length) : NULL;
    if (!file) {
        errno = saved;
        return false;
    }
    const locale_t theirs = gg_use_points();
    fprintf(file, "%s\nmeasured %s with %s\n", g.machine, g.measured[0] ? g.measured : "never", g.gpu[0] ? g.gpu : "none");
#define WRITE(name, field) fprintf(file, "%s %.6g\n", name, rates->field);
    NUMBERS(WRITE)
    for (int i = 0; i < 2 * 2 * GG_SHAPES * GG_WORKS; i++) {
        int work = i % GG_WORKS, shape = i / GG_WORKS % GG_SHAPES, type = i / GG_WORKS / GG_SHAPES % 2, who = i / GG_WORKS / GG_SHAPES / 2;
        float value = atomic_load_explicit(&rates->seen[who][type][shape][work], memory_order_relaxed);
        if (value > 0)
            fprintf(file, "took %d %d %d %d %.3f\n", who, type, shape, work, (double)value);
    }
    fprintf(file, "end\n");
    gg_use_theirs(theirs);
    bool good = !ferror(file);
    good = fclose(file) == 0 && good && replace_file(text, length);
    free(text);
    if (good)
        strcpy(g.kept, g.measured);
    errno = saved;
    return good;
}

bool gg_rates_save(void)
{
    gg_rates();
    pthread_mutex_lock(&g.lock);
    const bool good = save();
    pthread_mutex_unlock(&g.lock);
    return good;
}

void gg_rates_learn(int who, const struct gg_gemm *p, double model, double seconds)
{
    const double most = 90; /* read_line believes none of 100 */
    if (model > 0)          /* without a kernel for this GPU nothing is predicted */
        atomic_store_explicit(&gg_rates()->seen[who][p->type][gg_shape(p)][gg_work(p)], bounded(seconds / model, most), memory_order_relaxed);
}

/* What calls took on the GPU, as multiples of predictions for another GPU or link. */
static void forget_gpu(struct gg_rates *rates)
{
    _Atomic float *const seen = &rates->seen[GG_ON_GPU][0][0][0];
    for (int i = 0; i < 2 * GG_SHAPES * GG_WORKS; i++)
        atomic_store_explicit(&seen[i], 0, memory_order_relaxed);
}

void gg_rates_set_link(double up, double down, double pinned)
{
    struct gg_rates *rates = gg_rates();
    forget_gpu(rates);
    rates->up = up;
    rates->down = down;
    rates->pinned = pinned;
    time_t now = time(NULL);
    struct tm day;
    pthread_mutex_lock(&g.lock);
    strftime(g.measured, sizeof g.measured, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &day));
    pthread_mutex_unlock(&g.lock);
}

void gg_rates_set_start(double seconds)
{
    struct gg_rates *const rates = gg_rates();
    const double most = 2 * rates->start;
    rates->start = seconds < most ? seconds : most;
}

bool gg_rates_know(const char *gpu)
{
    struct gg_rates *const rates = gg_rates();
    pthread_mutex_lock(&g.lock);
    if (g.from_file && strcmp(g.gpu, gpu) != 0) { /* what the file says of the GPU is of another one; of the CPU it still holds */
        forget_gpu(rates);
        g.measured[0] = 0;
    }
    snprintf(g.gpu, sizeof g.gpu, "%s", gpu);
    pthread_mutex_unlock(&g.lock);
    return gg_rates_measured(); /* no: perhaps the GPU's memory was full when the file was written */
}

static void load(void)
{
    int saved = errno;
    g.threads = gg_cpus_count();
    gg_rates_default(&g.rates, g.threads);
    describe();
    find_path();
    const locale_t theirs = gg_use_points();
    read_file();
    gg_use_theirs(theirs);
    errno = saved;
}

struct gg_rates *gg_rates(void)
{
    static _Atomic bool asked;
    if (!atomic_load_explicit(&asked, memory_order_relaxed)) {
        gg_cpus_count(); /* not by load(): other threads wait for that */
        atomic_store_explicit(&asked, true, memory_order_relaxed);
    }
    pthread_once(&g.once, load);
    return &g.rates;
}

const char *gg_rates_file(void)
{
    gg_rates();
    return g.path[0] ? g.path : "none: neither XDG_CACHE_HOME nor HOME is set";
}

const char *gg_rates_origin(void)
{
    gg_rates();
    return gg_rates_measured() ? g.measured : "defaults";
}

bool gg_rates_measured(void)
{
    gg_rates();
    return g.measured[0] && strcmp(g.measured, "never") != 0;
}

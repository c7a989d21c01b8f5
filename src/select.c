/* select.c — which row of cuda/kernels.def, and in how many pieces of k: a pure cost model over the problem and the GPU.
 *
 * A row's time is the larger of arithmetic and memory. Arithmetic: the busiest SM's blocks, each tile_m × tile_n × its k at `rate` flop a
 * clock, plus `start` clocks a round; with fewer blocks than per_sm an SM is slower than `rate`. Memory: A, B and C once. */
#include <string.h>

#include "kernels.h"

#define IMAGE(file) gg_image_##file
#ifdef GG_WITHOUT_CUDA
#undef IMAGE
#define IMAGE(file) NULL
#else
#define GG_KERNEL(name, file, ...) extern const unsigned char gg_image_##file[];
#include "../cuda/kernels.def"
#undef GG_KERNEL
#endif

const struct gg_kernel gg_kernels[] = {
#define GG_KERNEL(name, file, type, role, cc_min, cc_max, tile_m, tile_n, tile_k, threads, smem, per_sm, rate, start)              \
    {#name, IMAGE(file), type, role, cc_min, cc_max, tile_m, tile_n, tile_k, threads, smem, per_sm, rate, start, 1},
#include "../cuda/kernels.def"
#undef GG_KERNEL
};
const int gg_kernel_count = sizeof gg_kernels / sizeof *gg_kernels;

/* Seconds from the launch of a kernel to its first instruction and from its last to the next in the stream; of a second, dependent one. */
static const double LAUNCH = 2.5e-6, SECOND_LAUNCH = 1.5e-6;

/* With one block where per_sm fit, an SM reaches this share of its rate (measured between 0.6 and 0.8). */
static const double ALONE = 0.7;

/* Bytes moved, in bytes of memory bandwidth, to pack one byte of an operand: read, write, and not at full speed. */
static const double PACK = 3;

static double at_least(double x, double low)
{
    return x > low ? x : low;
}

static int64_t ceil_div(int64_t x, int64_t by)
{
    return (x + by - 1) / by;
}

static bool legal(const struct gg_kernel *row, const struct gg_gemm *p, const struct gg_arch *arch)
{
    return row->role < GG_SCALE && row->type == p->type && arch->cc >= row->cc_min && arch->cc <= row->cc_max &&
           row->smem <= arch->smem_per_block && (row->role != GG_TMA || (p->k >= 8 * row->tile_k && (p->m | p->n | p->k) < INT64_C(1) << 31));
}

static double predict(const struct gg_kernel *row, const struct gg_gemm *p, const struct gg_arch *arch, int splits)
{
    const double m = (double)p->m, n = (double)p->n, k = (double)p->k, size = (double)gg_size(p->type);
    const double tiles = (double)ceil_div(p->m, row->tile_m) * (double)ceil_div(p->n, row->tile_n);
    const double steps = (double)ceil_div(ceil_div(p->k, row->tile_k), splits);
    const double main_loop = 2.0 * row->tile_m * row->tile_n * row->tile_k * steps / row->rate;

    const double load = (double)ceil_div((int64_t)tiles * splits, arch->sms); /* blocks of the busiest SM */
    const double rounds = (double)ceil_div((int64_t)load, row->per_sm);
    const double clocks = at_least(load, row->per_sm > 1 ? 1 / ALONE : 1) * main_loop + rounds * row->start;
    double seconds = LAUNCH + at_least(clocks / (arch->clock_mhz * 1e6), (m * k + k * n + 2 * m * n) * size / arch->bandwidth);
    if (row->role == GG_TMA) {
        const bool pack_a = gg_must_pack(p->type, p->a, p->lda, p->a_kmajor), pack_b = gg_must_pack(p->type, p->b, p->ldb, p->b_kmajor);
        seconds += (pack_a + pack_b) * SECOND_LAUNCH + PACK * (pack_a * m + pack_b * n) * k * size / arch->bandwidth;
    }
    if (splits > 1)
        seconds += SECOND_LAUNCH + (2.0 * splits + 2) * m * n * size / arch->bandwidth;
    return seconds;
}

struct gg_choice gg_select(const struct gg_gemm *p, const struct gg_arch *arch, const char *force)
{
    struct gg_choice best = {NULL, 1, 0};
    bool forced = false;
    for (const struct gg_kernel *row = gg_kernels; row < gg_kernels + gg_kernel_count && !forced; row++) {
        if (!legal(row, p, arch))
            continue;
        forced = force && strcmp(force, row->name) == 0;
        if (forced)
            best.kernel = NULL;
        const int64_t most = row->role == GG_PLAIN || row->role == GG_TMA ? 1 : ceil_div(p->k, row->tile_k);
        const double partial = (double)p->m * (double)p->n * (double)gg_size(p->type);
        for (int splits = 1; splits <= 256 && (splits == 1 || (splits <= most && splits * partial <= GG_SPLIT_MIB * 1048576.0));
             splits += splits < 16 ? 1 : splits / 8) {
            const double seconds = predict(row, p, arch, splits);
            if (!best.kernel || seconds < best.seconds)
                best = (struct gg_choice){row, splits, seconds};
        }
    }
    return best;
}

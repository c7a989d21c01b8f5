/* launch.c — starts what select.c chose: fills struct gg_args and enqueues one kernel, or a few when operands are packed or k is split. */
#include "kernels.h"

#include "../cuda/kernel.h"

static int64_t ceil_div(int64_t x, int64_t by)
{
    return (x + by - 1) / by;
}

static const struct gg_kernel *helper(enum gg_type type, enum gg_role role)
{
    const struct gg_kernel *row = gg_kernels;
    while (row->type != type || row->role != role)
        row++;
    return row;
}

/* A grid of `blocks`, or for kernels that loop over their work, of as many as the GPU holds at one time. */
static bool start(struct gg_device *dev, const struct gg_kernel *row, double blocks, gg_stream stream, const struct gg_args *args)
{
    const double full = (double)dev->arch.sms * row->per_sm;
    if (row->role != GG_TILED && blocks > full)
        blocks = full;
    if (blocks > 2147483647.0)
        return false;
    const struct gg_dim grid = {(unsigned)blocks, 1, 1};
    return gg_gpu_launch(dev, row, 0, grid, (unsigned)row->threads, (unsigned)row->smem, 1, stream, args, sizeof *args);
}

/* A pass over C in columns of 256 elements. */
static bool start_pass(struct gg_device *dev, enum gg_type type, enum gg_role role, gg_stream stream, const struct gg_args *args)
{
    return start(dev, helper(type, role), (double)ceil_div(args->m, 256) * (double)args->n, stream, args);
}

static bool start_tiles(struct gg_device *dev, const struct gg_kernel *row, gg_stream stream, const struct gg_args *args)
{
    const double tiles = (double)ceil_div(args->m, row->tile_m) * (double)ceil_div(args->n, row->tile_n);
    return start(dev, row, tiles * args->splits, stream, args);
}

/* Writes op(A) (m×k, or op(B) transposed) to `to` with m contiguous; *base, *ld and *kmajor then describe the copy. */
static bool pack(struct gg_device *dev, enum gg_type type, gg_stream stream, void *to, int64_t m, int64_t k, const void **base, int64_t *ld,
                 uint8_t *kmajor)
{
    const struct gg_args args = {.a = *base, .lda = *ld, .a_kmajor = *kmajor, .m = m, .k = k, .c = to, .ldc = ceil_div(m, 4) * 4};
    *base = to;
    *ld = args.ldc;
    *kmajor = 0;
    return start(dev, helper(type, GG_PACK), (double)ceil_div(m, 32) * (double)ceil_div(k, 32), stream, &args);
}

/* How many k of a GG_TMA row's operands to pack at a time, and the bytes one k of them takes. */
struct packing {
    int64_t pass, a_bytes, b_bytes;
    void *memory;
};

static bool plan_packing(struct gg_device *dev, const struct gg_kernel *row, const struct gg_gemm *p, gg_stream stream, struct packing *plan)
{
    const int64_t size = (int64_t)gg_size(p->type);
    *plan = (struct packing){.pass = p->k};
    if (gg_must_pack(p->type, p->a, p->lda, p->a_kmajor))
        plan->a_bytes = ceil_div(p->m, 64) * 64 * size;
    if (gg_must_pack(p->type, p->b, p->ldb, p->b_kmajor))
        plan->b_bytes = ceil_div(p->n, 64) * 64 * size;
    const int64_t bytes = plan->a_bytes + plan->b_bytes;
    if (bytes == 0)
        return true;
    const int64_t most = GG_PACK_MIB * INT64_C(1048576) / bytes / row->tile_k * row->tile_k;
    if (most == 0)
        return false;
    plan->pass = ceil_div(ceil_div(p->k, ceil_div(p->k, most)), row->tile_k) * row->tile_k;
    plan->memory = gg_gpu_workspace(dev, stream, (size_t)(plan->pass * bytes));
    return plan->memory;
}

/* One product a pass over k; from the second on, C is added to. */
static bool launch_tma(struct gg_device *dev, const struct gg_kernel *row, const struct gg_gemm *p, gg_stream stream,
                       const struct packing *plan, struct gg_args *args)
{
    const int64_t size = (int64_t)gg_size(p->type);
    char *const packed_a = plan->memory, *const packed_b = packed_a + plan->pass * plan->a_bytes;
    for (int64_t k0 = 0; k0 < p->k; k0 += plan->pass) {
        args->k = p->k - k0 < plan->pass ? p->k - k0 : plan->pass;
        args->a = (const char *)p->a + k0 * (p->a_kmajor ? 1 : p->lda) * size;
        args->b = (const char *)p->b + k0 * (p->b_kmajor ? 1 : p->ldb) * size;
        args->lda = p->lda, args->a_kmajor = p->a_kmajor;
        args->ldb = p->ldb, args->b_kmajor = p->b_kmajor;
        args->beta = k0 ? 1 : p->beta;
        if ((plan->a_bytes && !pack(dev, p->type, stream, packed_a, p->m, args->k, &args->a, &args->lda, &args->a_kmajor)) ||
            (plan->b_bytes && !pack(dev, p->type, stream, packed_b, p->n, args->k, &args->b, &args->ldb, &args->b_kmajor)) ||
            !gg_gpu_tensor_map(&args->map_a, p->type, args->a, p->m, args->k, args->lda, row->tile_m, row->tile_k, 0) ||
            !gg_gpu_tensor_map(&args->map_b, p->type, args->b, p->n, args->k, args->ldb, row->tile_n, row->tile_k, 0) ||
            !start_tiles(dev, row, stream, args))
            return false;
    }
    return true;
}

bool gg_launch(struct gg_device *dev, const struct gg_choice *choice, const struct gg_gemm *p, gg_stream stream)
{
    const struct gg_kernel *row = choice->kernel;
    struct gg_args args = {.a = p->a, .b = p->b, .c = p->c, .m = p->m, .n = p->n, .k = p->k, .lda = p->lda, .ldb = p->ldb,
                           .ldc = p->ldc, .alpha = p->alpha, .beta = p->beta, .splits = choice->splits,
                           .a_kmajor = p->a_kmajor, .b_kmajor = p->b_kmajor, .a_vec = !gg_must_pack(p->type, p->a, p->lda, false),
                           .b_vec = !gg_must_pack(p->type, p->b, p->ldb, false), .c_vec = !gg_must_pack(p->type, p->c, p->ldc, false)};

    if (p->m == 0 || p->n == 0)
        return true;
    if (p->k == 0 || p->alpha == 0)
        return p->beta == 1 || start_pass(dev, p->type, GG_SCALE, stream, &args);
    if (row->role == GG_TMA) {
        struct packing plan;
        if (plan_packing(dev, row, p, stream, &plan))
            return launch_tma(dev, row, p, stream, &plan, &args);
        while (row->role == GG_TMA)
            row++;
    }
    if (args.splits > 1) {
        args.workspace = gg_gpu_workspace(dev, stream, (size_t)args.splits * (size_t)p->m * (size_t)p->n * gg_size(p->type));
        if (!args.workspace)
            args.splits = 1;
    }
    return start_tiles(dev, row, stream, &args) && (args.splits == 1 || start_pass(dev, p->type, GG_REDUCE, stream, &args));
}

/* launch.c — starts what select.c chose: fills struct gg_args and enqueues one kernel, or two when k is split. */
#include "kernels.h"

#include "../cuda/kernel.h"

/* 16-byte accesses to this operand are legal. */
static bool vectors(const void *base, int64_t ld, enum gg_type type)
{
    return (uintptr_t)base % 16 == 0 && (uint64_t)ld * gg_size(type) % 16 == 0;
}

static const struct gg_kernel *helper(enum gg_type type, enum gg_role role)
{
    const struct gg_kernel *row = gg_kernels;
    while (row->type != type || row->role != role)
        row++;
    return row;
}

/* Blocks enough to fill the GPU for a kernel that walks C in columns of tile_m elements, whatever its grid. */
static unsigned walk(const struct gg_kernel *row, const struct gg_gemm *p, int sms)
{
    const double blocks = (double)((p->m + row->tile_m - 1) / row->tile_m) * (double)p->n, full = (double)sms * row->per_sm;
    return (unsigned)(blocks < full ? blocks : full);
}

static bool start(struct gg_device *dev, const struct gg_kernel *row, double blocks, gg_stream stream, const struct gg_args *args)
{
    if (blocks > 2147483647.0)
        return false;
    const struct gg_dim grid = {(unsigned)blocks, 1, 1};
    return gg_gpu_launch(dev, row, 0, grid, (unsigned)row->threads, (unsigned)row->smem, 1, stream, args, sizeof *args);
}

bool gg_launch(struct gg_device *dev, const struct gg_choice *choice, const struct gg_gemm *p, gg_stream stream)
{
    const struct gg_kernel *row = choice->kernel;
    struct gg_args args = {.a = p->a, .b = p->b, .c = p->c, .m = p->m, .n = p->n, .k = p->k, .lda = p->lda, .ldb = p->ldb,
                           .ldc = p->ldc, .alpha = p->alpha, .beta = p->beta, .splits = choice->splits,
                           .a_kmajor = p->a_kmajor, .b_kmajor = p->b_kmajor, .a_vec = vectors(p->a, p->lda, p->type),
                           .b_vec = vectors(p->b, p->ldb, p->type), .c_vec = vectors(p->c, p->ldc, p->type)};

    if (p->m == 0 || p->n == 0)
        return true;
    if (p->k == 0 || p->alpha == 0) {
        row = helper(p->type, GG_SCALE);
        return p->beta == 1 || start(dev, row, walk(row, p, dev->arch.sms), stream, &args);
    }
    if (args.splits > 1) {
        args.workspace = gg_gpu_workspace(dev, stream, (size_t)args.splits * (size_t)p->m * (size_t)p->n * gg_size(p->type));
        if (!args.workspace)
            args.splits = 1;
    }

    double blocks = (double)((p->m + row->tile_m - 1) / row->tile_m) * (double)((p->n + row->tile_n - 1) / row->tile_n) * args.splits;
    const double full = (double)dev->arch.sms * row->per_sm;
    if (row->role != GG_TILED && blocks > full)
        blocks = full;
    if (!start(dev, row, blocks, stream, &args))
        return false;
    if (args.splits == 1)
        return true;
    row = helper(p->type, GG_REDUCE);
    return start(dev, row, walk(row, p, dev->arch.sms), stream, &args);
}

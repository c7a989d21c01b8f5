/* launch.c — starts what select.c chose: fills struct gg_args and enqueues one kernel, or a few when operands are packed or tiles are shared. */
#include "tensor.h"

#include "../cuda/kernel.h"

/* Where a launch's scratch comes from: the stream's workspace or, for a kernel behind a gate, the caller's share of it, which starts at its
 * beginning. early: of struct gg_args, for all its kernels. */
struct source {
    const struct gg_gate *gate; /* NULL: none */
    void *memory;
    size_t bytes;
    uint8_t early;
};

static void *scratch(struct gg_device *dev, gg_stream stream, const struct source *source, size_t bytes)
{
    if (source->gate)
        return bytes <= source->bytes ? source->memory : NULL;
    return gg_gpu_workspace(dev, stream, bytes);
}

/* Early launches save 1.5 us each: 6 % of sgemm's time at n = 2048, 1 % at 4096. At 8192 they were 3 % slower (H200, 2026-11). Only code for Hopper
 * waits on the GPU for the kernel before it (gate.cuh). */
bool gg_launch_link(struct gg_device *dev, const struct gg_kernel *row, struct gg_dim grid, gg_stream stream, struct gg_args *args)
{
    const bool early = gg_code_for(dev->arch.cc) >= 90 && (double)args->m * (double)args->n * (double)args->k < 0x1p37;
    return (early ? gg_gpu_launch_early : gg_gpu_launch)(dev, row, grid, stream, args);
}

/* Blocks that are launched early find many SMs still occupied by the kernel before, and two would go to each free SM. grid.alone prevents that when
 * there are no more blocks than SMs. (Without it sgemm_tma_64x64 behind gg_pack was a third slower, 1.6 times at most.) But strips beside tiles have
 * only a few SMs for all their blocks. Blocks of a cluster may share an SM when others are idle, which makes GG_SLIM_TMA slower. */
static bool start_grid(struct gg_device *dev, const struct gg_kernel *row, struct gg_dim grid, gg_stream stream, struct gg_args *args)
{
    const bool early = args->verdict || (args->early & GG_EARLY && row->role != GG_PACK);
    grid.alone =
        (early || row->role == GG_SLIM_TMA) && row->role != GG_SLIM && grid.x * grid.y <= (unsigned)gg_places(dev->arch.sms, (int)grid.cluster);
    return early ? gg_launch_link(dev, row, grid, stream, args) : gg_gpu_launch(dev, row, grid, stream, args);
}

/* Starts a grid of `blocks`, or for kernels that loop over their work, of as many as the GPU holds at one time. */
static bool start(struct gg_device *dev, const struct gg_kernel *row, double blocks, gg_stream stream, struct gg_args *args)
{
    const double full = (double)dev->arch.sms * row->per_sm;
    if (row->role != GG_TILED && blocks > full)
        blocks = full;
    return blocks <= 2147483647.0 && start_grid(dev, row, (struct gg_dim){.x = (unsigned)blocks, .y = 1, .z = 1}, stream, args);
}

/* Starts the product itself; `splits` as in struct gg_choice. Tiles whose k is cut need args->workspace. */
static bool start_tiles(struct gg_device *dev, const struct gg_kernel *row, const struct gg_gemm *p, int splits, gg_stream stream,
                        struct gg_args *args)
{
    const int64_t tiles = gg_tiles(row, p);
    const struct gg_dim grid = {.x = (unsigned)tiles, .y = (unsigned)splits, .z = 1};
    if (gg_is_cut(row))
        return tiles <= INT32_MAX && start_grid(dev, row, grid, stream, args);
    args->move_back = 1;
    args->shared_tiles = gg_shared_tiles(tiles, splits);
    return start(dev, row, args->shared_tiles == 0 ? (double)tiles : splits, stream, args);
}

/* Adds up the parts of the tiles that a GG_PERSISTENT row's blocks have shared. */
static bool start_fixup(struct gg_device *dev, const struct gg_choice *done, gg_stream stream, struct gg_args *args)
{
    const struct gg_kernel *row = done->kernel;
    if (row->role != GG_PERSISTENT || args->shared_tiles == 0)
        return true;
    args->tile_m = row->tile_m, args->tile_n = row->tile_n, args->tile_k = row->tile_k, args->blocks = done->splits;
    args->each = done->splits >= 8 * args->shared_tiles ? 64 : 1024;
    args->early = 0;
    return start_grid(dev, gg_helper(row->type, GG_FIXUP),
                      (struct gg_dim){.x = (unsigned)args->shared_tiles, .y = (unsigned)(row->tile_m * row->tile_n / args->each), .z = 1}, stream,
                      args);
}

/* Bytes of scratch for the parts of tiles. */
static size_t part_bytes(const struct gg_kernel *row, const struct gg_gemm *p, int splits)
{
    const int64_t tiles = gg_tiles(row, p);
    const int64_t parts = gg_is_cut(row) ? (splits > 1 ? splits * tiles : 0) : gg_shared_tiles(tiles, splits) > 0 ? 2 * (int64_t)splits : 0;
    return (size_t)parts * (size_t)row->tile_m * (size_t)row->tile_n * gg_size(p->type);
}

/* Packs operands: writes op(A) as m×k to to_a and op(B) as n×k to to_b, m and n contiguous; `product` then describes the copies. An operand whose
 * destination is NULL stays as it is. */
static bool pack(struct gg_device *dev, enum gg_type type, gg_stream stream, struct gg_args *product, void *to_a, void *to_b)
{
    struct gg_args args = *product;
    const double full = (double)dev->arch.sms * gg_helper(type, GG_PACK)->per_sm, strips = (double)gg_ceil_div(args.k, 32);
    const double a = to_a ? (double)gg_ceil_div(args.m, 64) * strips : 0, b = to_b ? (double)gg_ceil_div(args.n, 64) * strips : 0;
    const double fits = a + b > full ? full / (a + b) : 1;
    args.c = to_a, args.workspace = to_b;
    args.splits = (int)(a * fits);
    if (to_a)
        product->a = to_a, product->lda = gg_round_up(args.m, 4), product->a_kmajor = 0;
    if (to_b)
        product->b = to_b, product->ldb = gg_round_up(args.n, 4), product->b_kmajor = 0;
    args.splits += to_a && args.splits == 0;
    const int of_b = (int)(b * fits) + (to_b && b * fits < 1);
    return start_grid(dev, gg_helper(type, GG_PACK), (struct gg_dim){.x = (unsigned)(args.splits + of_b), .y = 1, .z = 1}, stream, &args);
}

/* How the unaligned operands of a GG_TMA… row are packed: so many k per pass, and the bytes that one k takes. */
struct packing {
    int64_t pass, a_bytes, b_bytes;
};

static bool must_pack(const struct gg_kernel *row, const void *base, int64_t ld, bool kmajor)
{
    return gg_must_pack(row->type, base, ld) || (kmajor && row->role == GG_TMA);
}

/* False: not even a short pass fits. */
static bool plan_packing(const struct gg_kernel *row, const struct gg_gemm *p, struct packing *plan)
{
    const int64_t size = (int64_t)gg_size(p->type);
    *plan = (struct packing){.pass = p->k};
    if (must_pack(row, p->a, p->lda, p->a_kmajor))
        plan->a_bytes = gg_round_up(p->m, 64) * size;
    if (must_pack(row, p->b, p->ldb, p->b_kmajor))
        plan->b_bytes = gg_round_up(p->n, 64) * size;
    if (plan->a_bytes + plan->b_bytes == 0)
        return true;
    const int64_t most = GG_PACK_MIB * INT64_C(1048576) / (plan->a_bytes + plan->b_bytes) / row->tile_k * row->tile_k;
    if (most < GG_SHORTEST_RUN * row->tile_k)
        return false;
    plan->pass = gg_ceil_div(gg_ceil_div(p->k, gg_ceil_div(p->k, most)), row->tile_k) * row->tile_k;
    return true;
}

/* The tensor map of one operand; a box is what one k step of a tile reads. Where k is contiguous: 128 bytes of k by the tile's rows, swizzled. Else
 * FP32 takes [k][row], FP64 128 bytes of rows by the step's k. */
static bool tile_map(struct gg_tensor_map *map, const struct gg_kernel *row, const void *base, int64_t x, int64_t k, int64_t ld, bool kmajor,
                     int tile)
{
    const int line = 128 / (int)gg_size(row->type);
    if (kmajor)
        return gg_gpu_tensor_map(map, row->type, base, k, x, ld, line, tile, 128, true);
    return row->type == GG_S ? gg_gpu_tensor_map(map, row->type, base, x, k, ld, tile, row->tile_k, 0, false)
                             : gg_gpu_tensor_map(map, row->type, base, x, k, ld, line, row->tile_k, 128, false);
}

/* The maps of both operands as args describes them. */
static bool tile_maps(struct gg_args *args, const struct gg_kernel *row)
{
    const int team = gg_team(row);
    return tile_map(&args->map_a, row, args->a, args->m, args->k, args->lda, args->a_kmajor, row->tile_m / team) &&
           tile_map(&args->map_b, row, args->b, args->n, args->k, args->ldb, args->b_kmajor, row->tile_n / team);
}

bool gg_launch_maps(struct gg_args *args, const struct gg_kernel *row)
{
    args->splits = args->groups = 1;
    return !gg_is_tma(row) || tile_maps(args, row);
}

/* How k of a GG_TMA… row is cut, as in struct gg_choice, and the bytes of scratch for that. The choice was made for all of k. If packing takes
 * several passes, each is cut like that, unless the last is too short (1000x1000x70000 TN, two passes of whole tiles: 10.3 ms, so 2.8). */
struct cutting {
    int splits, groups;
    int64_t shared_tiles;
    size_t part_bytes;
};

static struct cutting plan_cutting(const struct gg_choice *choice, const struct gg_gemm *p, const struct packing *packing)
{
    const struct gg_kernel *row = choice->kernel;
    const int64_t tiles = gg_tiles(row, p), tile_bytes = (int64_t)row->tile_m * row->tile_n * (int64_t)gg_size(p->type);
    const int64_t passes = gg_ceil_div(p->k, packing->pass), last = gg_ceil_div(p->k - (passes - 1) * packing->pass, row->tile_k);
    const int64_t shared = gg_shared_tiles(tiles, choice->splits);
    const int64_t pieces = shared > 0 ? gg_ceil_div(choice->splits, shared) + 1 : gg_own_pieces(choice);
    const bool whole = passes > 1 && last < pieces * GG_SHORTEST_RUN;
    struct cutting cutting = {.splits = whole || choice->cluster < 1 ? 1 : choice->cluster};
    cutting.shared_tiles = whole || cutting.splits > 1 ? 0 : shared;
    cutting.groups = whole || choice->groups < 1 ? 1 : choice->groups;
    cutting.part_bytes = (size_t)((cutting.shared_tiles > 0 ? choice->splits : cutting.groups > 1 ? tiles * cutting.groups : 0) * tile_bytes);
    return cutting;
}

/* One launch per pass over k; from the second on C is added to. Parts of tiles go through the workspace, within a cluster through shared memory.
 * Returns false, with nothing enqueued and *none set, if there is no memory to pack in. */
static bool launch_tma(struct gg_device *dev, const struct gg_choice *choice, const struct gg_gemm *p, gg_stream stream, const struct source *source,
                       struct gg_args *args, bool *none)
{
    const struct gg_kernel *row = choice->kernel;
    const int64_t tiles = gg_tiles(row, p);
    struct packing plan;
    *none = !plan_packing(row, p, &plan);
    if (*none)
        return false;
    const struct cutting cutting = plan_cutting(choice, p, &plan);
    const size_t part_bytes = cutting.part_bytes, pack_bytes = (size_t)(plan.pass * (plan.a_bytes + plan.b_bytes));
    const int team = gg_team(row); /* a pair is a cluster of its own, and its k is not cut */
    args->splits = cutting.splits, args->groups = cutting.groups, args->shared_tiles = cutting.shared_tiles;
    char *memory = part_bytes + pack_bytes > 0 ? scratch(dev, stream, source, part_bytes + pack_bytes) : NULL;
    *none = pack_bytes > 0 && !memory;
    if (*none)
        return false;
    if (part_bytes > 0 && !memory)
        args->shared_tiles = 0, args->groups = 1;
    args->workspace = memory;
    args->early |= pack_bytes > 0 ? GG_EARLY : 0;
    char *const packed_a = memory + part_bytes, *const packed_b = packed_a + plan.pass * plan.a_bytes;
    int64_t blocks = args->shared_tiles > 0 ? choice->splits : tiles * args->groups * args->splits;
    if (args->splits == 1 && row->role != GG_TMA_ONCE)
        blocks = gg_min(blocks, (int64_t)dev->arch.sms * row->per_sm / team);
    const bool cut_evenly = args->splits > 1 || args->groups > 1, shares = args->shared_tiles > 0;
    const bool whole = !cut_evenly && (!shares || gg_stays_whole(gg_ceil_div(plan.pass, row->tile_k)));
    args->splits *= team, blocks *= team;
    if (blocks > INT32_MAX)
        return false;
    /* The code that dgemm_tma and sgemm_tma_once have of their own, see cuda/tile.cuh. */
    const bool cut = p->type == GG_D ? cutting.splits > 1 : args->groups > 1 && gg_gathers(choice);
    const struct gg_dim grid = {.x = (unsigned)blocks,
                                .y = 1,
                                .z = 1,
                                .cluster = args->splits > 1 ? (unsigned)args->splits : 0,
                                .whole = whole,
                                .cut = cut,
                                .maps = tile_maps};
    for (int64_t k0 = 0; k0 < p->k; k0 += plan.pass) {
        args->k = gg_min(plan.pass, p->k - k0);
        args->a = (const char *)p->a + k0 * (p->a_kmajor ? 1 : p->lda) * (int64_t)gg_size(p->type);
        args->b = (const char *)p->b + k0 * (p->b_kmajor ? 1 : p->ldb) * (int64_t)gg_size(p->type);
        args->lda = p->lda, args->a_kmajor = p->a_kmajor;
        args->ldb = p->ldb, args->b_kmajor = p->b_kmajor;
        args->beta = k0 ? 1 : p->beta;
        if ((pack_bytes > 0 && !pack(dev, p->type, stream, args, plan.a_bytes ? packed_a : NULL, plan.b_bytes ? packed_b : NULL)) ||
            !start_grid(dev, row, grid, stream, args))
            return false;
    }
    return true;
}

static bool launch_skinny(struct gg_device *dev, const struct gg_choice *choice, const struct gg_gemm *p, gg_stream stream,
                          const struct source *source, struct gg_args *args)
{
    const struct gg_kernel *row = choice->kernel;
    const bool b_large = p->n > row->tile_n;
    const int64_t x = b_large ? p->n : p->m, y = b_large ? p->m : p->n;
    args->splits = choice->splits;
    args->tile_n = row->tile_n;
    if (args->splits > 1) {
        args->workspace = scratch(dev, stream, source, (size_t)(args->splits * x * y) * gg_size(p->type));
        if (!args->workspace)
            args->splits = 1;
    }
    const int64_t blocks = gg_ceil_div(x, gg_skinny_rows(b_large ? p->b_kmajor : p->a_kmajor)) * args->splits;
    const struct gg_dim grid = {.x = (unsigned)blocks, .y = 1, .z = 1};
    return start_grid(dev, row, grid, stream, args) &&
           (args->splits == 1 ||
            start(dev, gg_helper(p->type, GG_SKINNY_SUM), (double)gg_ceil_div(x * y, args->splits < GG_MANY_PIECES ? 256 : 256 / 32), stream, args));
}

struct gg_args gg_launch_args(const struct gg_gemm *p, const struct gg_gate *gate)
{
    return (struct gg_args){.a = p->a,
                            .b = p->b,
                            .c = p->c,
                            .m = p->m,
                            .n = p->n,
                            .k = p->k,
                            .lda = p->lda,
                            .ldb = p->ldb,
                            .ldc = p->ldc,
                            .alpha = p->alpha,
                            .beta = p->beta,
                            .a_kmajor = p->a_kmajor,
                            .b_kmajor = p->b_kmajor,
                            .a_vec = !gg_must_pack(p->type, p->a, p->lda),
                            .b_vec = !gg_must_pack(p->type, p->b, p->ldb),
                            .c_vec = !gg_must_pack(p->type, p->c, p->ldc),
                            .verdict = gate ? gate->verdict : NULL,
                            .gate_mask = gate ? gate->mask : 0,
                            .gate_value = gate ? gate->value : 0,
                            .gate_first = gate ? gate->first : 0};
}

static struct gg_args args_of(const struct gg_gemm *p, const struct source *source)
{
    struct gg_args args = gg_launch_args(p, source->gate);
    args.early = source->early;
    return args;
}

static int64_t slim_blocks(const struct gg_choice *choice, const struct gg_gemm *p)
{
    return gg_slim_blocks(choice->kernel, p, choice->wide) * choice->splits;
}

/* The maps of a GG_SLIM_TMA row. Of the small operand a box has a whole k step or, where k is contiguous, half of one; there is none if it is
 * unaligned. */
static bool slim_maps(struct gg_args *args, const struct gg_kernel *row)
{
    const bool b_large = args->n > row->tile_n;
    const struct {
        struct gg_tensor_map *map;
        const void *base;
        int64_t size, ld;
        bool kmajor, vec;
    } of[] = {{&args->map_a, args->a, args->m, args->lda, args->a_kmajor, args->a_vec},
              {&args->map_b, args->b, args->n, args->ldb, args->b_kmajor, args->b_vec}},
      *const x = &of[b_large], *const y = &of[!b_large];
    if (!tile_map(x->map, row, x->base, x->size, args->k, x->ld, x->kmajor, row->tile_m))
        return false;
    return !y->vec || (y->kmajor ? gg_gpu_tensor_map(y->map, row->type, y->base, args->k, y->size, y->ld, row->tile_k / 2, row->tile_n, 0, false)
                                 : gg_gpu_tensor_map(y->map, row->type, y->base, y->size, args->k, y->ld, row->tile_n, row->tile_k, 0, false));
}

static bool start_slim(struct gg_device *dev, const struct gg_kernel *row, int64_t blocks, int splits, gg_stream stream, struct gg_args *args)
{
    const struct gg_dim grid = {
        .x = (unsigned)blocks, .y = 1, .z = 1, .cluster = splits > 1 ? (unsigned)splits : 0, .maps = row->role == GG_SLIM_TMA ? slim_maps : NULL};
    return blocks <= INT32_MAX && start_grid(dev, row, grid, stream, args);
}

static bool launch_slim(struct gg_device *dev, const struct gg_choice *choice, const struct gg_gemm *p, gg_stream stream, struct gg_args *args)
{
    args->splits = choice->splits;
    args->wide = choice->wide;
    return start_slim(dev, choice->kernel, slim_blocks(choice, p), choice->splits, stream, args);
}

/* The GG_SLIM_TWO row that does both choices in one launch, or NULL. */
static const struct gg_kernel *slim_two(const struct gg_choice *x, const struct gg_choice *y)
{
    if (x->kernel != y->kernel || x->kernel->role != GG_SLIM || x->splits != y->splits || x->wide != y->wide)
        return NULL;
    for (const struct gg_kernel *row = gg_kernels; row < gg_kernels + gg_kernel_count; row++)
        if (row->role == GG_SLIM_TWO && row->type == x->kernel->type && row->tile_n == x->kernel->tile_n)
            return row;
    return NULL;
}

static bool launch_slim_two(struct gg_device *dev, const struct gg_kernel *row, const struct gg_choice *choice, const struct gg_gemm p[2],
                            gg_stream stream, const struct source *source)
{
    struct gg_two_args two = {{args_of(&p[0], source), args_of(&p[1], source)}, (uint32_t)slim_blocks(choice, &p[0])};
    two.each[0].splits = two.each[1].splits = choice->splits;
    two.each[0].wide = two.each[1].wide = choice->wide;
    return start_slim(dev, row, slim_blocks(choice, &p[0]) + slim_blocks(choice, &p[1]), choice->splits, stream, two.each);
}

/* Launches any row but GG_TENSOR…, ignoring the choice's strips. What start_fixup needs is left in *args and, if for want of memory another row or
 * fewer splits were launched than *done has, there. */
static bool launch_part(struct gg_device *dev, const struct gg_choice *choice, const struct gg_gemm *p, gg_stream stream, const struct source *source,
                        struct gg_args *args, struct gg_choice *done)
{
    const struct gg_kernel *row = choice->kernel;
    if (!gg_is_slim(row)) /* the others do not wait at their end for the kernel ahead */
        args->early &= GG_FOLLOWED;
    if (gg_is_tma(row)) {
        bool none;
        const bool enqueued = launch_tma(dev, choice, p, stream, source, args, &none);
        if (enqueued || !none)
            return enqueued;
        while (gg_is_tma(row))
            row++;
        done->kernel = row, done->splits = 1;
        return start_tiles(dev, row, p, 1, stream, args);
    }
    if (row->role == GG_SKINNY)
        return launch_skinny(dev, choice, p, stream, source, args);
    if (gg_is_slim(row))
        return launch_slim(dev, choice, p, stream, args);
    if (row->role == GG_PANEL)
        return start_grid(dev, row, (struct gg_dim){.x = (unsigned)gg_panel_blocks(row, p), .y = 1, .z = 1}, stream, args);
    const size_t parts = part_bytes(row, p, choice->splits);
    if (parts)
        args->workspace = scratch(dev, stream, source, parts);
    if (parts && !args->workspace)
        done->splits = 1;
    return start_tiles(dev, row, p, done->splits, stream, args);
}

/* The strip of columns (part 1) or of rows (part 2) that the choice sets aside from p, and the choice for it. False: there is none. */
static bool strip_of(const struct gg_device *dev, const struct gg_choice *choice, const struct gg_gemm *p, int part, struct gg_gemm *q,
                     struct gg_choice *strip)
{
    if (!gg_part(p, choice, part, q))
        return false;
    *strip = gg_select(q, &dev->arch, gg_strip);
    if (choice->beside)
        strip->splits = 1, strip->wide = strip->kernel && gg_prefers_wide(strip->kernel, q);
    return true;
}

static bool launch(struct gg_device *dev, const struct gg_choice *choice, const struct gg_gemm *p, gg_stream stream, const struct source *source);

static bool launch_strips(struct gg_device *dev, const struct gg_choice *choice, const struct gg_gemm *p, gg_stream stream,
                          const struct source *source)
{
    struct gg_gemm q[2];
    struct gg_choice strip[2];
    int count = 0;
    if (choice->strip_m + choice->strip_n == 0)
        return true;
    for (int part = 1; part < 3; part++)
        count += strip_of(dev, choice, p, part, &q[count], &strip[count]);
    const struct gg_kernel *two = count == 2 && strip[0].kernel && strip[1].kernel ? slim_two(&strip[0], &strip[1]) : NULL;
    if (two)
        return launch_slim_two(dev, two, strip, q, stream, source);
    bool done = true;
    for (int i = 0; done && i < count; i++)
        done = strip[i].kernel && launch(dev, &strip[i], &q[i], stream, source);
    return done;
}

/* Launches any row but GG_TENSOR…, and the strips: behind it or, where the choice says so and no gate stands in front, beside it. */
static bool launch(struct gg_device *dev, const struct gg_choice *choice, const struct gg_gemm *p, gg_stream stream, const struct source *source)
{
    const bool beside = choice->beside && !source->gate;
    struct source tiles = *source, strips = *source;
    if (beside)
        tiles.early = GG_FOLLOWED, strips.early = GG_EARLY | GG_FOLLOWED;
    struct gg_gemm q;
    if (!gg_part(p, choice, 0, &q))
        return false;
    struct gg_args args = args_of(&q, &tiles);
    struct gg_choice done = *choice;
    if (!launch_part(dev, choice, &q, stream, &tiles, &args, &done))
        return false;
    if (beside)
        return launch_strips(dev, choice, p, stream, &strips) && start_fixup(dev, &done, stream, &args);
    return start_fixup(dev, &done, stream, &args) && launch_strips(dev, choice, p, stream, &strips);
}

bool gg_launch_gated(struct gg_device *dev, const struct gg_choice *choice, const struct gg_gemm *p, gg_stream stream, const struct gg_gate *gate,
                     void *memory, size_t bytes)
{
    return launch(dev, choice, p, stream, &(struct source){.gate = gate, .memory = memory, .bytes = bytes});
}

static size_t part_scratch(const struct gg_choice *choice, const struct gg_gemm *p)
{
    struct packing plan;
    if (gg_is_tma(choice->kernel))
        return plan_packing(choice->kernel, p, &plan)
                   ? plan_cutting(choice, p, &plan).part_bytes + (size_t)(plan.pass * (plan.a_bytes + plan.b_bytes))
                   : 0;
    if (gg_is_slim(choice->kernel))
        return 0;
    if (choice->kernel->role == GG_SKINNY)
        return choice->splits > 1 ? (size_t)(choice->splits * p->m * p->n) * gg_size(p->type) : 0;
    return part_bytes(choice->kernel, p, choice->splits);
}

size_t gg_launch_scratch(const struct gg_device *dev, const struct gg_choice *choice, const struct gg_gemm *p)
{
    struct gg_gemm q;
    size_t most = gg_part(p, choice, 0, &q) ? part_scratch(choice, &q) : 0;
    for (int part = 1; part < 3; part++) {
        struct gg_choice strip;
        if (!strip_of(dev, choice, p, part, &q, &strip) || !strip.kernel)
            continue;
        const size_t bytes = gg_launch_scratch(dev, &strip, &q);
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* Launches a chain with as much scratch as can be had, or FFMA when even the least is not available. In that case the verdict, which gg_served reads,
 * is set to say that no tier serves. */
static bool launch_chain(struct gg_device *dev, const struct gg_choice *choice, const struct gg_gemm *p, gg_stream stream)
{
    struct gg_chain chain = {.dev = dev, .stream = stream, .row = choice->kernel};
    const size_t all = gg_chain_bytes(&chain, p), least = gg_chain_least(p);
    for (size_t bytes = all < gg_chain_most(p->type) ? all : gg_chain_most(p->type); bytes >= least; bytes /= 4) {
        chain.memory = gg_gpu_workspace(dev, stream, bytes);
        chain.bytes = bytes;
        if (chain.memory)
            return gg_chain_gemm(&chain, p);
    }
    struct gg_gemm strict = *p;
    strict.precision = GG_STRICT;
    const struct gg_choice ffma = gg_select(&strict, &dev->arch, NULL);
    return launch(dev, &ffma, &strict, stream, &(struct source){0}) && gg_chain_decline(dev, stream);
}

static bool launch_scale(struct gg_device *dev, const struct gg_gemm *p, gg_stream stream)
{
    struct gg_args args = {.c = p->c, .m = p->m, .n = p->n, .ldc = p->ldc, .beta = p->beta};
    return p->beta == 1 || start(dev, gg_helper(p->type, GG_SCALE), (double)gg_ceil_div(p->m, 256) * (double)p->n, stream, &args);
}

bool gg_launch(struct gg_device *dev, const struct gg_choice *choice, const struct gg_gemm *p, gg_stream stream, bool repeats)
{
    if (p->m == 0 || p->n == 0)
        return true;
    if (repeats && gg_gpu_again(dev, p, stream))
        return true;
    const bool done = p->k == 0 || p->alpha == 0    ? launch_scale(dev, p, stream)
                      : gg_is_chain(choice->kernel) ? launch_chain(dev, choice, p, stream)
                                                    : launch(dev, choice, p, stream, &(struct source){0});
    return repeats ? gg_gpu_enqueue(done) : done;
}

bool gg_transfer(struct gg_device *dev, void *to, const void *from, int64_t bytes, gg_stream stream)
{
    const struct gg_kernel *row = gg_helper(GG_S, GG_TRANSFER);
    struct gg_args args = {.a = from, .c = to, .m = bytes / 16};
    return start_grid(dev, row, (struct gg_dim){.x = (unsigned)gg_ceil_div(args.m, row->threads), .y = 1, .z = 1}, stream, &args);
}

bool gg_launch_mapped(struct gg_device *dev, const struct gg_gemm *p, void *old, gg_stream stream)
{
    const struct gg_kernel *row = gg_helper(p->type, GG_MAPPED);
    struct gg_args args = gg_launch_args(p, NULL);
    args.workspace = p->beta == 0 ? NULL : old;
    return gg_gpu_launch(dev, row, (struct gg_dim){.x = GG_LARGEST_CLUSTER, .y = 1, .z = 1, .cluster = GG_LARGEST_CLUSTER}, stream, &args);
}

const struct gg_kernel *gg_served(struct gg_device *dev, const struct gg_choice *choice, const struct gg_gemm *p, gg_stream stream)
{
    if (!gg_is_chain(choice->kernel) || p->k == 0 || p->alpha == 0)
        return choice->kernel;
    const struct gg_chain chain = {.dev = dev, .stream = stream, .row = choice->kernel};
    const struct gg_kernel *row = gg_chain_server(&chain);
    struct gg_gemm strict = *p;
    strict.precision = GG_STRICT;
    return row ? row : gg_select(&strict, &dev->arch, NULL).kernel;
}

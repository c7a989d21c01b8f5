/* t_select.c — select.c without a GPU: choices for random problems on several GPUs can be launched, and none waits for a block that cannot run; a
 * remembered choice is the one that would be made; and where the tensor cores serve. */
#include "test.h"

#include "gathered.h"
#include "tensor.h"
#include "trace.h"

#include "../cuda/kernel.h"

static const struct gg_arch gpus[] = {
    {.cc = 80, .sms = 108, .clock_mhz = 1410, .smem_per_block = 166912, .l2_bytes = 40 << 20, .bandwidth = 2.0e12},
    {.cc = 86, .sms = 84, .clock_mhz = 1700, .smem_per_block = 101376, .l2_bytes = 6 << 20, .bandwidth = 0.9e12},
    {.cc = 90, .sms = 132, .clock_mhz = 1980, .smem_per_block = 232448, .l2_bytes = 50 << 20, .bandwidth = 4.9e12},
    {.cc = 90, .sms = 78, .clock_mhz = 1700, .smem_per_block = 232448, .l2_bytes = 50 << 20, .bandwidth = 4.0e12},
    {.cc = 90, .sms = 14, .clock_mhz = 1700, .smem_per_block = 232448, .l2_bytes = 50 << 20, .bandwidth = 0.6e12}, /* a part of a GPU */
    {.cc = 120, .sms = 170, .clock_mhz = 2400, .smem_per_block = 101376, .l2_bytes = 96 << 20, .bandwidth = 1.8e12}};

/* An H200, gpus[2], with slower memory. */
static const struct gg_arch h100 = {.cc = 90, .sms = 132, .clock_mhz = 1980, .smem_per_block = 232448, .l2_bytes = 50 << 20, .bandwidth = 3.35e12};

static bool same(const struct gg_choice *x, const struct gg_choice *y)
{
    return x->kernel == y->kernel && x->splits == y->splits && x->seconds == y->seconds && x->cluster == y->cluster && x->groups == y->groups &&
           x->strip_m == y->strip_m && x->strip_n == y->strip_n && x->beside == y->beside;
}

static void check(const struct gg_choice *x, const struct gg_gemm *whole, const struct gg_arch *gpu)
{
    const struct gg_kernel *row = x->kernel;
    CHECK(row, "%lldx%lldx%lld on %d: no row", (long long)whole->m, (long long)whole->n, (long long)whole->k, gpu->cc);
    if (!row)
        return;
    const char *name = row->name;
    struct gg_gemm inner, *p = &inner;
    CHECK(gg_part(whole, x, 0, p) && x->strip_m >= 0 && x->strip_n >= 0, "%s: nothing but strips", name);
    CHECK(x->strip_m <= 16 && x->strip_n <= 16, "%s: strips of %d and %d", name, x->strip_m, x->strip_n);
    CHECK(!x->beside || (gpu->cc == 90 && row->per_sm == 1 && x->strip_m + x->strip_n > 0), "%s: nothing can run beside it", name);
    for (int part = 1; x->beside && part < 3; part++) {
        struct gg_gemm strip;
        CHECK(!gg_part(whole, x, part, &strip) || gg_is_slim(gg_choose(&strip, gpu, gg_strip).kernel), "%s: a strip that cannot run beside it", name);
    }
    const int64_t steps = gg_ceil_div(p->k, row->tile_k), tiles = gg_tiles(row, p), room = (int64_t)gpu->sms * row->per_sm;
    CHECK(row->type == p->type && row->role < GG_SCALE, "%s multiplies something else", name);
    CHECK(row->smem <= gpu->smem_per_block, "%s: shared memory", name);
    CHECK(x->seconds > 0 && x->seconds < 1e9, "%s: %g s", name, x->seconds);
    CHECK(x->splits >= 1, "%s: splits %d", name, x->splits);
    if (gg_is_tma(row)) {
        CHECK(gpu->cc == 90, "%s on %d", name, gpu->cc);
        CHECK(p->type == GG_S || (!gg_must_pack(p->type, p->a, p->lda) && !gg_must_pack(p->type, p->b, p->ldb)), "%s: not aligned", name);
        CHECK(x->splits * gg_team(row) <= room && x->splits * gg_team(row) <= GG_FLAGS, "%s: %d blocks share tiles, %lld run", name, x->splits,
              (long long)room);
        CHECK(x->cluster <= 1 || x->splits == 1, "%s: both ways of cutting k", name);
        CHECK(x->cluster <= GG_LARGEST_CLUSTER && (x->cluster <= 1 || x->cluster * x->groups <= steps), "%s: %d x %d pieces of %lld steps", name,
              x->cluster, x->groups, (long long)steps);
        CHECK(x->cluster > 1 || gg_own_pieces(x) == 1 || (row->role == GG_TMA_ONCE && row->type == GG_S), "%s: single blocks share a tile", name);
        CHECK(x->groups <= 1 || x->splits > 1 || (tiles * x->cluster * x->groups <= room && tiles * x->cluster * x->groups <= GG_FLAGS),
              "%s: %lld x %d x %d blocks", name, (long long)tiles, x->cluster, x->groups);
        CHECK(x->cluster <= 1 || x->groups <= 1 || row->type == GG_S || row->role == GG_TMA_ONCE, "%s: several clusters a tile", name);
        CHECK(!gg_gathers(x) || (x->splits > 1 ? x->splits * gg_team(row) : tiles * x->groups) <= GG_GAVE_UP, "%s: too few flags", name);
        if (x->groups > 1 && x->splits > 1) { /* all tiles shared evenly */
            const int64_t half = gg_half_pieces(x, p);
            CHECK(tiles < x->splits && x->groups * GG_SHORTEST_RUN <= steps, "%s: %lld tiles of %lld steps by %d, %d each", name, (long long)tiles,
                  (long long)steps, x->splits, x->groups);
            CHECK(half >= 0 && half <= x->groups, "%s: %d units, %d a tile, %lld a half tile", name, x->splits, x->groups, (long long)half);
        }
    } else if (gg_is_slim(row))
        CHECK(x->splits <= GG_LARGEST_CLUSTER && (row->role == GG_SLIM_TMA || (x->splits & (x->splits - 1)) == 0) &&
                  (!x->wide || gg_prefers_wide(row, p)),
              "%s: clusters of %d, wide %d", name, x->splits, x->wide);
    else if (row->role == GG_SKINNY)
        CHECK(x->splits <= p->k, "%s: %d pieces of %lld", name, x->splits, (long long)p->k);
    else if (gg_is_cut(row))
        CHECK(x->splits == 1 || (x->splits <= steps && tiles <= GG_FLAGS && tiles * x->splits <= room), "%s: %lld tiles in %d pieces of %lld steps",
              name, (long long)tiles, x->splits, (long long)steps);
    else
        CHECK(x->splits <= room, "%s: %d blocks share tiles, %lld run", name, x->splits, (long long)room);
}

/* A choice remembered for another problem, or for this one on another GPU, must never be returned: tries p, and p with each of its members
 * changed. */
static void check_memory(const struct gg_gemm *p, const struct gg_arch *gpu)
{
    const struct gg_gemm changes[] = {{.m = 1},           {.n = 1},
                                      {.k = 1},           {.lda = 1},
                                      {.ldb = 1},         {.ldc = 1},
                                      {.alpha = 1},       {.beta = 1},
                                      {.a_kmajor = true}, {.b_kmajor = true},
                                      {.a = (void *)8},   {.b = (void *)8},
                                      {.c = (void *)8},   {.precision = GG_FP32},
                                      {.type = GG_D},     {0}};
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        const struct gg_gemm *by = &changes[i];
        struct gg_gemm q = *p;
        q.m += by->m, q.n += by->n, q.k += by->k, q.alpha += by->alpha, q.beta += by->beta;
        q.lda += by->m + by->k + by->lda, q.ldb += by->n + by->k + by->ldb, q.ldc += by->m + by->ldc; /* still large enough */
        q.a_kmajor ^= by->a_kmajor, q.b_kmajor ^= by->b_kmajor;
        if (by->a_kmajor || by->b_kmajor)
            q.lda = q.ldb = gg_max(q.k, gg_max(q.m, q.n));
        q.a = (const char *)q.a + (uintptr_t)by->a, q.b = (const char *)q.b + (uintptr_t)by->b, q.c = (char *)q.c + (uintptr_t)by->c;
        q.precision = (q.precision + by->precision) % 2, q.type = (q.type + by->type) % 2;
        (void)gg_select(p, gpu, NULL);
        const struct gg_arch *const there = i == 0 ? &gpus[0] : gpu;
        const struct gg_choice fresh = gg_choose(&q, there, NULL), first = gg_select(&q, there, NULL), again = gg_select(&q, there, NULL);
        CHECK(same(&fresh, &first) && same(&fresh, &again), "change %zu: %s is remembered, %s would be chosen", i, first.kernel->name,
              fresh.kernel->name);
    }
}

/* Square products: which kernel serves in each precision. */
static void check_tensor(void)
{
    static const struct {
        int cc, smem, n;
        const char *strict, *fp32, *tf32; /* how their names begin */
    } cases[] = {{75, 65536, 4096, "tiled", "tiled", "tiled"},
                 {80, 166912, 4096, "sgemm", "tensor_mma_fp16", "tensor_mma_tf32"},
                 {80, 166912, 896, "multistage", "tensor_mma_fp16", "tensor_mma_tf32"},
                 {80, 166912, 128, "multistage", "multistage", "multistage"},
                 {86, 101376, 4096, "sgemm", "sgemm", "sgemm"},
                 {87, 166912, 4096, "sgemm", "sgemm", "sgemm"},
                 {89, 101376, 4096, "sgemm", "sgemm", "sgemm"},
                 {90, 232448, 1024, "sgemm", "tensor_fp16", "tensor_tf32"},
                 {90, 232448, 4096, "sgemm", "tensor_fp16", "tensor_tf32"},
                 {100, 232448, 4096, "sgemm", "sgemm", "sgemm"},
                 {120, 101376, 4096, "sgemm", "sgemm", "sgemm"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct gg_arch gpu = {.cc = cases[i].cc, .sms = 108, .clock_mhz = 1410, .smem_per_block = cases[i].smem, .bandwidth = 1.6e12};
        const int64_t n = cases[i].n;
        struct gg_gemm p = {.type = GG_S, .m = n, .n = n, .k = n, .lda = n, .ldb = n, .ldc = n, .alpha = 1};
        for (p.precision = GG_STRICT; p.precision <= GG_TF32; p.precision++) {
            const char *const want = p.precision == GG_STRICT ? cases[i].strict : p.precision == GG_FP32 ? cases[i].fp32 : cases[i].tf32;
            const char *const name = gg_select(&p, &gpu, NULL).kernel->name;
            CHECK(!strncmp(name, want, strlen(want)), "n = %d on %d, precision %d: %s, not %s", cases[i].n, cases[i].cc, (int)p.precision, name,
                  want);
        }
    }
}

/* Where FP64's tensor tier serves: large products on Hopper, unless precision is strict, wherever the operands lie. */
static void check_int8(void)
{
    static const struct {
        int64_t m, n, k;
        bool served;
    } cases[] = {{4096, 4096, 4096, true},  {16384, 16384, 16384, true}, {4097, 4099, 4093, true},  {8192, 8192, 2048, true},
                 {4096, 4096, 32768, true}, {4096, 4096, 32769, false},  {8192, 8192, 1023, false}, {8192, 8192, 256, false},
                 {1024, 1024, 1024, false}, {512, 512, 8192, false},     {64, 64, 16384, false},    {16, 16384, 16384, false},
                 {16384, 1, 16384, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int variant = 0; variant < 48; variant++) {
            struct gg_gemm p = {.type = GG_D, .m = cases[i].m, .n = cases[i].n, .k = cases[i].k, .alpha = 1, .beta = variant / 12 % 2};
            p.precision = (enum gg_precision)(variant / 4 % 3);
            p.a_kmajor = variant & 1, p.b_kmajor = variant & 2;
            p.lda = (p.a_kmajor ? p.k : p.m) + variant / 24, p.ldb = (p.b_kmajor ? p.k : p.n) + variant / 24, p.ldc = p.m;
            p.a = p.b = p.c = variant / 24 ? (void *)4104 : (void *)4096;
            for (int g = 1; g < 3; g++) {
                const char *const name = gg_select(&p, &gpus[g], NULL).kernel->name;
                const bool expected = cases[i].served && gpus[g].cc == 90 && p.precision != GG_STRICT;
                CHECK(!strcmp(name, "tensor_int8") == expected, "dgemm %lld x %lld x %lld, precision %d, variant %d on %d: %s", (long long)p.m,
                      (long long)p.n, (long long)p.k, (int)p.precision, variant, gpus[g].cc, name);
            }
        }
}

/* Where a chain is much faster it serves, whatever FFMA row would be chosen without it. In particular, an FFMA row that cuts k into many pieces, and
 * is therefore more accurate than any chain, must not keep the chain away. */
static void check_served(void)
{
    for (int64_t n = 776; n < 1200; n += 8) {
        const struct gg_gemm p = {
            .type = GG_S, .m = n, .n = n, .k = n, .lda = n, .ldb = n, .ldc = n, .b_kmajor = true, .alpha = 1, .precision = GG_FP32};
        const struct gg_kernel *row = gg_select(&p, &gpus[2], NULL).kernel;
        CHECK(gg_is_chain(row), "n = %lld: %s", (long long)n, row->name);
    }
}

/* Shapes that one kind of row was made for get it in every layout and precision, be it or another among those that may be a chain's FFMA. */
static void check_thin(void)
{
    static const struct {
        int64_t m, n, k;
        enum gg_role role;
    } cases[] = {{100000, 4, 64, GG_PANEL},  {1000000, 1, 64, GG_PANEL}, {1, 60000, 64, GG_PANEL},   {1000000, 16, 64, GG_PANEL},
                 {3, 1000000, 8, GG_PANEL},  {4, 4, 30000, GG_GRAM},     {10, 10, 1000000, GG_GRAM}, {16, 16, 2000, GG_GRAM},
                 {1, 1, 1000000, GG_GEMV_T}, {12, 1, 100000, GG_GEMV_N}, {300, 1, 300, GG_GEMV_N},   {1, 1000, 1000, GG_GEMV_N},
                 {1000, 1, 2000, GG_GEMV_N}, {4096, 1, 4096, GG_GEMV_N}, {301, 1, 301, GG_GEMV},     {4095, 1, 4095, GG_GEMV_SINGLE}};
    for (int variant = 0; variant < 12; variant++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            struct gg_gemm p = {.type = variant / 4 == 2 ? GG_D : GG_S, .m = cases[i].m, .n = cases[i].n, .k = cases[i].k, .alpha = 1};
            p.precision = variant / 4 == 1 ? GG_FP32 : GG_STRICT;
            p.a_kmajor = variant & 1, p.b_kmajor = variant & 2;
            p.lda = p.a_kmajor ? p.k : p.m, p.ldb = p.b_kmajor ? p.k : p.n, p.ldc = p.m;
            const struct gg_kernel *row = gg_select(&p, &gpus[2], NULL).kernel;
            const bool dots = p.n == 1 ? p.a_kmajor : p.b_kmajor, is_vector = p.k > 128 && gg_min(p.m, p.n) == 1;
            CHECK(row->role == (is_vector && dots ? GG_GEMV_T : cases[i].role), "%s %lldx%lldx%lld, variant %d: %s",
                  p.type == GG_D ? "dgemm" : "sgemm", (long long)p.m, (long long)p.n, (long long)p.k, variant, row->name);
        }
}

/* For any problem each GPU uses its own kind of chain, or none. */
static void check_kinds(uint64_t *seed)
{
    int chains = 0;
    for (int i = 0; i < 4000; i++) {
        const struct gg_arch *gpu = &gpus[i % (sizeof gpus / sizeof *gpus)];
        struct gg_gemm p = {.type = GG_S, .alpha = 1, .precision = i % 2 ? GG_FP32 : GG_TF32};
        int64_t *const extents[] = {&p.m, &p.n, &p.k};
        for (int e = 0; e < 3; e++)
            *extents[e] = 1 + rng_below(seed, INT64_C(1) << (7 + rng_below(seed, 8)));
        p.lda = p.ldc = p.m, p.ldb = p.k, p.b_kmajor = true;
        const struct gg_kernel *row = gg_select(&p, gpu, NULL).kernel;
        chains += gg_is_chain(row);
        CHECK(!gg_is_chain(row) || gpu->cc == (row->role == GG_TENSOR_MMA ? 80 : 90), "%s on %d", row->name, gpu->cc);
    }
    CHECK(chains > 400, "only %d of 4000 by chains", chains);
}

/* A chain in one kernel whose FFMA reads operands by TMA cannot read them in any other way: it must be used only for operands that TMA can read. */
static void check_in_one(void)
{
    int found[2] = {0};
    for (int64_t n = 700; n < 1200; n += 12)
        for (int variant = 0; variant < 32; variant++) {
            const int64_t more = variant / 4 % 4, first = variant / 16;
            struct gg_gemm p = {.type = GG_S, .m = n, .n = n, .k = n, .lda = n + more, .ldb = n + more, .ldc = n + more, .alpha = 1};
            p.a_kmajor = variant & 1, p.b_kmajor = variant & 2, p.a = p.b = p.c = (void *)(uintptr_t)(4096 + 4 * first);
            const struct gg_choice ffma = gg_select(&p, &gpus[2], NULL);
            p.precision = GG_FP32;
            const struct gg_kernel *one = gg_chain_in_one(gg_select(&p, &gpus[2], NULL).kernel, &ffma, &p, &gpus[2]);
            const bool by_tma = one && strstr(one->name, "tma"), readable = more == 0 && first == 0;
            CHECK(!by_tma || readable, "n = %lld + %lld, layout %d, first %lld: %s", (long long)n, (long long)more, variant & 3, (long long)first,
                  one->name);
            found[by_tma] += one != NULL;
        }
    CHECK(found[0] > 50 && found[1] > 10, "hardly any in one: %d and %d", found[0], found[1]);
}

/* Squares whose tiles just about fill the GPU are served by the row that has a block for each, in strict precision. */
static void check_fitting(void)
{
    const struct {
        int64_t n;
        const char *row;
    } fits[] = {{768, "sgemm_tma_64x96"},   {1000, "sgemm_tma_64x128"},        {1024, "sgemm_tma_64x128"},        {1190, "sgemm_tma_96x128"},
                {1200, "sgemm_tma_96x128"}, {1300, "sgemm_tma_128x128_alone"}, {1400, "sgemm_tma_128x128_alone"}, {2048, "sgemm_tma_128x256"}};
    for (size_t i = 0; i < sizeof fits / sizeof *fits; i++)
        for (int layout = 0; layout < 4; layout++) {
            struct gg_gemm p = {.type = GG_S, .m = fits[i].n, .n = fits[i].n, .k = fits[i].n, .lda = fits[i].n, .ldb = fits[i].n, .ldc = fits[i].n};
            p.precision = GG_STRICT, p.alpha = 1, p.a_kmajor = layout & 1, p.b_kmajor = layout & 2, p.a = p.b = p.c = (void *)4096;
            const struct gg_choice choice = gg_select(&p, &gpus[2], NULL);
            CHECK(strcmp(choice.kernel->name, fits[i].row) == 0, "n = %lld, layout %d: %s", (long long)fits[i].n, layout, choice.kernel->name);
        }
}

/* Few tiles of a long k are added up by all their blocks on an H200, others not. */
static void check_gathered(void)
{
    static const struct {
        enum gg_type type;
        int64_t m, n, k;
        bool gathered;
    } cases[] = {{GG_D, 128, 128, 16384, true}, {GG_D, 96, 128, 30000, true},  {GG_D, 64, 64, 65536, true},  {GG_D, 52, 20, 1864, false},
                 {GG_D, 384, 384, 384, false},  {GG_S, 128, 128, 16384, true}, {GG_S, 256, 256, 4096, true}, {GG_S, 512, 512, 512, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int layout = 0; layout < 4; layout++) {
            struct gg_gemm p = {.type = cases[i].type, .m = cases[i].m, .n = cases[i].n, .k = cases[i].k, .alpha = 1, .precision = GG_STRICT};
            p.a_kmajor = layout & 1, p.b_kmajor = layout & 2, p.a = p.b = p.c = (void *)4096;
            p.lda = p.a_kmajor ? p.k : p.m, p.ldb = p.b_kmajor ? p.k : p.n, p.ldc = p.m;
            const struct gg_choice choice = gg_select(&p, &gpus[2], NULL);
            CHECK(gg_gathers(&choice) == cases[i].gathered, "%lldx%lldx%lld, layout %d: %s %d:%d", (long long)p.m, (long long)p.n, (long long)p.k,
                  layout, choice.kernel->name, choice.cluster, choice.groups);
        }
    static const char *const rows[] = {GATHERING_ROWS};
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++)
        for (int i = 0; i < GATHERED; i++) {
            struct gg_gemm p = {.type = *rows[row] == 's' ? GG_S : GG_D, .m = gathered[i].m, .n = gathered[i].n, .k = gathered[i].k};
            p.alpha = 1, p.precision = GG_STRICT;
            p.a = p.b = p.c = (void *)4096, p.lda = p.ldc = p.m, p.ldb = p.n;
            const struct gg_choice choice = gg_select(&p, &gpus[2], rows[row]);
            CHECK(strcmp(choice.kernel->name, rows[row]) == 0 && gg_gathers(&choice), "%s forced, %lldx%lldx%lld: %s %d:%d", rows[row],
                  (long long)p.m, (long long)p.n, (long long)p.k, choice.kernel->name, choice.cluster, choice.groups);
        }
}

/* Operands in host memory: which products the GG_MAPPED row serves, and that naming a row decides only for products that the row can serve. */
static void check_mapped(void)
{
    static const struct {
        enum gg_type type;
        int64_t m, n, k;
        const char *force;
        bool mapped;
    } cases[] = {{GG_S, 165, 165, 165, NULL, true},        {GG_S, 169, 169, 169, NULL, false},     {GG_D, 119, 119, 119, NULL, true},
                 {GG_D, 120, 120, 120, NULL, false},       {GG_S, 20, 20, 1000, NULL, false},      {GG_S, 20, 20, 1000, "mapped_s", true},
                 {GG_S, 300, 300, 300, "mapped_s", false}, {GG_S, 64, 64, 64, "mapped_d", true},   {GG_D, 64, 64, 64, "mapped_s", true},
                 {GG_S, 64, 64, 64, "tiled_s_64x64", false}, {GG_D, 64, 64, 64, "tiled_s_64x64", true},
                 {GG_S, 64, 64, 64, "tensor_fp16_pair", true} /* k is too short for it */};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int64_t m = cases[i].m, n = cases[i].n, k = cases[i].k;
        const struct gg_gemm p = {.type = cases[i].type, .precision = GG_FP32, .m = m, .n = n, .k = k, .alpha = 1, .lda = m, .ldb = k, .ldc = m};
        const struct gg_choice staged = gg_select_staged(&p, &gpus[2], cases[i].force);
        CHECK(staged.kernel && (staged.kernel->role == GG_MAPPED) == cases[i].mapped, "%cgemm %lldx%lldx%lld, %s: by %s", "sd"[p.type], (long long)m,
              (long long)n, (long long)k, cases[i].force ? cases[i].force : "no row named", staged.kernel ? staged.kernel->name : "none");
        CHECK(staged.seconds > 0, "%s: no time predicted", staged.kernel->name);
        CHECK(gg_select_staged(&p, &gpus[0], cases[i].force).kernel->role != GG_MAPPED, "on an A100");
    }
}

/* Where memory is not the limit an H100 gets the same rows as an H200, and where C's bytes are the limit for all rows. */
static void check_h100(void)
{
    for (int64_t n = 512; n <= 4096; n += 256)
        for (int type = 0; type < 2; type++)
            for (int short_k = 0; short_k < 2; short_k++)
                for (int layout = 0; layout < (short_k ? 4 : 1); layout++) {
                    const int64_t k = short_k ? 64 : n;
                    struct gg_gemm p = {.type = type ? GG_D : GG_S, .m = n, .n = n, .k = k, .ldc = n, .alpha = 1, .precision = GG_STRICT};
                    p.a = p.b = p.c = (void *)4096, p.a_kmajor = layout % 2, p.b_kmajor = layout < 2;
                    p.lda = p.a_kmajor ? k : n, p.ldb = p.b_kmajor ? k : n;
                    const char *const here = gg_select(&p, &h100, NULL).kernel->name, *const there = gg_select(&p, &gpus[2], NULL).kernel->name;
                    CHECK(strcmp(here, there) == 0, "n = %lld, k = %lld, type %d, layout %d: %s on an H100, %s on an H200", (long long)n,
                          (long long)k, type, layout, here, there);
                }
}

/* Tiles of 1024 and a few rows or columns: often the strips run beside the tiles, which leave 4 SMs idle. */
static void check_beside(void)
{
    int cases = 0, beside = 0;
    for (int variant = 0; variant < 16; variant++)
        for (int64_t m = 1024; m <= 1026; m++)
            for (int64_t n = 1025; n <= 1028; n++)
                for (int64_t k = 1000; k <= 3000; k += 500) {
                    const int64_t ld = variant & 8 ? 3003 : 3072; /* not aligned, aligned */
                    const struct gg_gemm p = {.type = variant & 4 ? GG_D : GG_S,
                                              .m = m,
                                              .n = n,
                                              .k = k,
                                              .a_kmajor = variant & 1,
                                              .b_kmajor = variant & 2,
                                              .lda = ld,
                                              .ldb = ld,
                                              .ldc = ld,
                                              .alpha = 1,
                                              .precision = GG_STRICT};
                    const struct gg_choice choice = gg_choose(&p, &h100, NULL);
                    check(&choice, &p, &h100);
                    cases++, beside += choice.beside;
                }
    CHECK(beside > cases / 4, "strips run beside tiles in %d of %d cases", beside, cases);
}

/* Products with sizes beyond 32 bits, which few kernels count, have a kernel. */
static void check_long(void)
{
    static const int64_t sizes[][3] = {{1, 1, INT64_C(1) << 31}, {1, 1, (INT64_C(1) << 31) - 258},
                                       {2, 1, 4000000000},       {1, 8, 2200000000},
                                       {15, 1, 2159010501},      {2, 2, 2147483300},
                                       {3000000000, 1, 4},       {1, 3000000000, 4},
                                       {150000, 150000, 64},     {20000, 20000, 20000},
                                       {1, 1, INT64_C(1) << 34}};
    for (int i = 0; i < (int)(sizeof sizes / sizeof *sizes) * 32; i++) {
        const int64_t *const x = sizes[i / 32];
        struct gg_gemm p = {.type = i % 2 ? GG_D : GG_S,
                            .m = x[0],
                            .n = x[1],
                            .k = x[2],
                            .a_kmajor = i / 2 % 2,
                            .b_kmajor = i / 4 % 2,
                            .ldc = x[0],
                            .alpha = 1,
                            .precision = i / 8 % 2 ? GG_FP32 : GG_STRICT};
        p.lda = p.a_kmajor ? p.k : p.m, p.ldb = p.b_kmajor ? p.k : p.n;
        const struct gg_arch *const gpu = &gpus[i / 16 % 2 ? 2 : 0];
        CHECK(gg_choose(&p, gpu, NULL).kernel, "%lldx%lldx%lld on %d: no row", (long long)p.m, (long long)p.n, (long long)p.k, gpu->cc);
        for (int row = 0; row < gg_kernel_count; row++) { /* forced: the steps of rows of tiles are counted in 32 bits */
            const struct gg_kernel *const forced = gg_choose(&p, gpu, gg_kernels[row].name).kernel;
            CHECK(forced != &gg_kernels[row] || (forced->role != GG_TILED && forced->role != GG_PERSISTENT) || p.k / forced->tile_k < INT32_MAX,
                  "%s has too many steps", forced->name);
        }
    }
}

/* A program that goes round in some dozens of products, of the same sizes in all layouts, each of which a chain also asks about in strict precision,
 * finds its choices remembered. */
static void check_round(void)
{
    enum { SIZES = 3, KINDS = 32, ROUNDS = 40 };
    double taken[2]; /* choosing, and asking again */
    for (int again = 0; again < 2; again++) {
        const double begun = gg_now();
        for (int i = 0; i < (again ? ROUNDS : 1) * SIZES * KINDS; i++) {
            const int64_t n = 500 + 64 * (i / KINDS % SIZES);
            const struct gg_gemm p = {.type = i % 2 ? GG_D : GG_S,
                                      .m = n,
                                      .n = n,
                                      .k = n,
                                      .lda = n,
                                      .ldb = n,
                                      .ldc = n,
                                      .alpha = 1,
                                      .beta = i / 2 % 2,
                                      .a_kmajor = i / 4 % 2,
                                      .b_kmajor = i / 8 % 2,
                                      .precision = i / 16 % 2 ? GG_FP32 : GG_STRICT};
            (void)(again ? gg_select(&p, &gpus[2], NULL) : gg_choose(&p, &gpus[2], NULL));
        }
        taken[again] = (gg_now() - begun) / (again ? ROUNDS : 1);
    }
    CHECK(taken[1] < taken[0] / 3, "%d choices take %g us, remembering them %g", SIZES * KINDS, 1e6 * taken[0], 1e6 * taken[1]);
}

int main(void)
{
    check_fitting();
    check_mapped();
    check_round();
    check_long();
    check_gathered();
    check_h100();
    check_beside();
    check_tensor();
    check_int8();
    check_served();
    check_thin();
    check_in_one();
    uint64_t seed = 20261121, kinds_seed = 1;
    check_kinds(&kinds_seed);
    int clusters = 0, singles = 0, groups = 0, shared = 0, evenly = 0, strips = 0, wide = 0;
    for (int i = 0; i < 20000; i++) {
        const struct gg_arch *gpu = &gpus[rng_below(&seed, sizeof gpus / sizeof *gpus)];
        struct gg_gemm p = {.type = rng_below(&seed, 4) ? GG_D : GG_S, .alpha = 1, .a_kmajor = rng_below(&seed, 2), .b_kmajor = rng_below(&seed, 2)};
        int64_t *const extents[] = {&p.m, &p.n, &p.k};
        for (int e = 0; e < 3; e++)
            *extents[e] = 1 + rng_below(&seed, INT64_C(1) << (1 + rng_below(&seed, e == 2 ? 20 : 14)));
        const int64_t grain = rng_below(&seed, 2) ? 1 : 8;
        p.lda = gg_ceil_div(p.a_kmajor ? p.k : p.m, grain) * grain;
        p.ldb = gg_ceil_div(p.b_kmajor ? p.k : p.n, grain) * grain;
        p.ldc = p.m;
        p.a = (void *)(uintptr_t)(4096 + 8 * (grain == 1 && rng_below(&seed, 4) == 0)), p.b = p.c = (void *)8192;
        const struct gg_choice free_choice = gg_select(&p, gpu, NULL);
        check(&free_choice, &p, gpu);
        if (i % 10 == 0)
            check_memory(&p, gpu);
        clusters += free_choice.cluster > 1, shared += free_choice.splits > 1, strips += free_choice.strip_m + free_choice.strip_n > 0;
        *(free_choice.splits > 1 ? &evenly : &groups) += free_choice.groups > 1;
        singles += free_choice.cluster == 1 && gg_own_pieces(&free_choice) > 1, wide += free_choice.wide;
        const struct gg_kernel *row = &gg_kernels[rng_below(&seed, gg_kernel_count)];
        const struct gg_choice forced = gg_select(&p, gpu, row->name);
        check(&forced, &p, gpu);
        CHECK(forced.kernel == row || forced.kernel == free_choice.kernel, "%s forced: %s", row->name, forced.kernel ? forced.kernel->name : "none");
        /* Exceptions: FP32's GG_TMA_ONCE are not for C of more tiles than SMs; those with an SM to themselves, and tiles in pieces, are not for where
         * a chain would serve; vectors get the row that was made for them; no GG_SLIM for what GG_PANEL and GG_GRAM are for, nor tiles for the panels
         * of vectors; GG_SKINNY hardly where those are; FP64's GG_GRAM for up to four tiles. */
        const bool is_panel = gg_min(p.m, p.n) <= 4 && p.k <= (gg_min(p.m, p.n) == 1 ? 2100 : GG_PANEL_K),
                   slim_too = p.k <= 2100 || gg_max(p.m, p.n) <= 16;
        CHECK(forced.kernel != row || row == free_choice.kernel || forced.seconds >= free_choice.seconds || gg_is_chain(row) ||
                  gg_is_chain(free_choice.kernel) ||
                  (row->role == GG_TMA_ONCE && p.type == GG_S && (gg_tiles(row, &p) > gpu->sms || row->per_sm == 1)) ||
                  (row->role == GG_TILED_CUT && p.type == GG_S && forced.splits > 1) || (row->role == GG_SLIM && slim_too) ||
                  (is_panel && !gg_is_slim(row) && row->role != GG_PANEL) || row->role == GG_SKINNY || gg_is_gemv(row) ||
                  gg_is_gemv(free_choice.kernel) || (row->role == GG_GRAM && p.type == GG_D),
              "%s is faster than %s, which was chosen", row->name, free_choice.kernel->name);
    }
    CHECK(clusters > 100 && singles > 10 && groups > 10 && shared > 100 && evenly > 100 && strips > 100 && wide > 2,
          "hardly any is cut: %d %d %d %d %d %d, or wide: %d", clusters, singles, groups, shared, evenly, strips, wide);
    printf("20000 problems: %d in clusters, %d in several a tile, of which %d in single blocks, %d shared, %d of them evenly, %d with strips, %d in "
           "wide blocks; %d failures\n",
           clusters, groups, singles, shared, evenly, strips, wide, (int)test_failures);
    return test_failures > 0;
}

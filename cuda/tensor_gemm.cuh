/* tensor_gemm.cuh — sgemm on the tensor cores of sm_90 to FP32 accuracy, from the pieces that split.cu writes (src/tensor.h): persistent, tile
 * 128×128, 384 threads.
 *
 * One thread of a producer warpgroup copies; two consumer warpgroups compute 64 columns of C each. wgmma truncates, so its sums must be moved every
 * 32 k to FP32 registers, which round to nearest. A thread therefore keeps three sets of 64 sums. `main`: the products of the leading pieces over 32
 * k. `corr`: all other products, which are 2^-8 or 2^-11 times smaller and may stay in the tensor cores longer. `master`: main is added to it while
 * the tensor cores work on corr, so they never wait for it. Every GROUP steps (512 k) master and corr are added to the total, for which there is no
 * room in registers and which lies in shared memory, and begin anew. So errors hardly grow with k, neither by rounding in master nor by what the
 * tensor cores truncate in corr. One or two steps more than that still go with the last group (n = 2049 1 % faster). (Kahan summation into master
 * would limit its rounding too, but its 128 more FADDs a thread cost 27 % at n = 4096.)
 *
 * The few rows or columns of C beyond whole tiles are not worth tiles of their own. EDGES, for up to 32 rows and 32 columns: a tile takes 8 of these
 * rows, or 8 of the columns, beside its 128, as wgmma's N may be 136; where it takes columns, A and B are exchanged. In each column of tiles as many
 * tiles take rows as there are groups of 8, and in each row of tiles others take columns; what is beyond both is a strip of 64×32, done by one
 * warpgroup. A block does the tiles that take some first, then the others, in a loop of their own with N = 128 (n = 2049 1.3 % faster; with both in
 * one loop over the tiles ptxas has too few registers, and serializes the wgmmas). Without EDGES up to 8 rows or columns are strips of 64×8. All of
 * it is summed in the same order, and so has the same bits.
 *
 * A thread holds pairs of neighbours of C. A warp stores whole columns of 128 rows, by way of the total's memory, whatever C's alignment: stores of
 * pairs, 8 columns at a time, take 5 % longer at n = 4096, 10 % at 2048.
 * Registers 24 and 240 (EDGES: 40 and 232), no spills; shared memory up to 225 KB: 12, 5 or 3 stages of 32 k (FP16 with EDGES: 4). Limits: 128 <= k,
 * and m, n, k < 2^31. Operands from L2: 43 (FP16) or 32 bytes (BF16) per clock and SM; clusters that share panels by multicast were slower (141
 * instead of 236 TF/s). */
#ifndef GG_TENSOR_GEMM_CUH
#define GG_TENSOR_GEMM_CUH

#include "tensor.cuh"
#include "wgmma.cuh"

constexpr int TILE = GG_TENSOR_TILE;

/* Four and sixteen of a wgmma's sums. */
#define GG_D4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define GG_D16(i) GG_D4(i), GG_D4(i + 4), GG_D4(i + 8), GG_D4(i + 12)

/* D (64×128, of a warpgroup) = x y + (add ? D : 0), 16 k. x and y are the low halves of shared memory descriptors; the high halves say that rows have
 * 64 bytes, swizzled as gg_swizzled does, and that groups of 8 rows are contiguous. */
template <bool HALF> __device__ inline void wgmma(float (&d)[64], unsigned x, unsigned y, int add)
{
#define GG_WGMMA(type)                                                                                                                               \
    asm volatile("{ .reg .pred p; .reg .b64 x, y; setp.ne.b32 p, %66, 0; mov.b64 x, {%64, %67}; mov.b64 y, {%65, %67};\n"                            \
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type                                                                        \
                 " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, "   \
                 "%27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, "     \
                 "%52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, x, y, p, 1, 1, 0, 0; }"                                               \
                 : GG_D16(0), GG_D16(16), GG_D16(32), GG_D16(48)                                                                                     \
                 : "r"(x), "r"(y), "r"(add), "n"(int(2u << 30 | 8 * 64 / 16)))
    if constexpr (HALF)
        GG_WGMMA("f16");
    else
        GG_WGMMA("bf16");
#undef GG_WGMMA
}

/* The same with 8 more rows of y, D 64×136. */
template <bool HALF> __device__ inline void wgmma(float (&d)[68], unsigned x, unsigned y, int add)
{
#define GG_WGMMA(type)                                                                                                                               \
    asm volatile(                                                                                                                                    \
        "{ .reg .pred p; .reg .b64 x, y; setp.ne.b32 p, %70, 0; mov.b64 x, {%68, %71}; mov.b64 y, {%69, %71};\n"                                     \
        "wgmma.mma_async.sync.aligned.m64n136k16.f32." type "." type                                                                                 \
        " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, "                           \
        "%24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, "                             \
        "%46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, %65, %66, %67}, x, y, p, 1, 1, 0, 0; }"      \
        : GG_D16(0), GG_D16(16), GG_D16(32), GG_D16(48), GG_D4(64)                                                                                   \
        : "r"(x), "r"(y), "r"(add), "n"(int(2u << 30 | 8 * 64 / 16)))
    if constexpr (HALF)
        GG_WGMMA("f16");
    else
        GG_WGMMA("bf16");
#undef GG_WGMMA
}

/* The same for a strip, D 64×8: 4 sums a thread. */
template <bool HALF> __device__ inline void wgmma(float (&d)[4], unsigned x, unsigned y, int add)
{
#define GG_WGMMA(type)                                                                                                                               \
    asm volatile("{ .reg .pred p; .reg .b64 x, y; setp.ne.b32 p, %6, 0; mov.b64 x, {%4, %7}; mov.b64 y, {%5, %7};\n"                                 \
                 "wgmma.mma_async.sync.aligned.m64n8k16.f32." type "." type " {%0, %1, %2, %3}, x, y, p, 1, 1, 0, 0; }"                              \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                                                                    \
                 : "r"(x), "r"(y), "r"(add), "n"(int(2u << 30 | 8 * 64 / 16)))
    if constexpr (HALF)
        GG_WGMMA("f16");
    else
        GG_WGMMA("bf16");
#undef GG_WGMMA
}

/* The same for a corner, D 64×32. */
template <bool HALF> __device__ inline void wgmma(float (&d)[16], unsigned x, unsigned y, int add)
{
#define GG_WGMMA(type)                                                                                                                               \
    asm volatile("{ .reg .pred p; .reg .b64 x, y; setp.ne.b32 p, %18, 0; mov.b64 x, {%16, %19}; mov.b64 y, {%17, %19};\n"                            \
                 "wgmma.mma_async.sync.aligned.m64n32k16.f32." type "." type                                                                         \
                 " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, x, y, p, 1, 1, 0, 0; }"                                   \
                 : GG_D16(0)                                                                                                                         \
                 : "r"(x), "r"(y), "r"(add), "n"(int(2u << 30 | 8 * 64 / 16)))
    if constexpr (HALF)
        GG_WGMMA("f16");
    else
        GG_WGMMA("bf16");
#undef GG_WGMMA
}
#undef GG_D16
#undef GG_D4

/* A tile is computed by one block, or by SHARES blocks of a cluster: then each sums a share of k, and at the end they exchange sums so that each has
 * half of the tile. */
template <typename PRODUCTS, int STAGES, int SHARES, bool EDGES = false> struct tensor_gemm {
    static constexpr int STEP = GG_TENSOR_STEP, PIECES = PRODUCTS::PIECES;
    static constexpr int GROUP = 16; /* steps between two additions to the total */
    static constexpr int PIECE_BYTES = TILE * STEP * 2, PANEL_BYTES = PIECES * PIECE_BYTES;
    static constexpr bool EXACT = PRODUCTS::CORR > 0; /* not TF32, which needs no total */
    static constexpr int STRIP = GG_TENSOR_STRIP, WIDE = 64, WIDE_BYTES = WIDE * STEP * 2, STRIP_BYTES = STRIP * STEP * 2;
    static constexpr int STAGE_BYTES = 2 * PANEL_BYTES + (EDGES ? PIECES * STRIP_BYTES : 0);
    static constexpr int SUMS = EDGES ? 68 : 64, GROUP_BYTES = SUMS * 128 * 4; /* of a tile, per thread; bytes of a warpgroup's total */
    static constexpr int Y_PIECE = EDGES ? PIECE_BYTES + STRIP_BYTES : PIECE_BYTES, Y_BYTES = PIECES * Y_PIECE;
    static constexpr bool TWO_LOOPS = EDGES && SHARES == 1; /* a pair has but one tile, and fetching more code slows it */
    static constexpr int TOTAL_BYTES = EXACT ? 2 * GROUP_BYTES : 0;
    static constexpr int SHARED = STAGES * (STAGE_BYTES + 16) + TOTAL_BYTES + 1024; /* dynamic shared memory starts at any multiple of 16 */
    using ring_t = gg_ring<STAGES>;
    static_assert(STAGES * STAGE_BYTES >= GG_CONSUMERS / 2 * 64 * 4 && SHARES <= 2, "half a tile goes through the ring's memory");

    /* Strips, for up to STRIP rows or columns of C beyond whole tiles, which are not worth tiles: WIDE long in the other index. */
    static constexpr int MOST = EDGES ? GG_TENSOR_BEYOND : STRIP; /* most rows or columns beyond tiles; a strip has as many */
    enum kind { WHOLE, ROWS, COLUMNS };
    struct item {
        int m, n; /* in tiles; of a strip, its long index in units of WIDE */
        kind what;
        int group; /* of a strip beside a tile: which 8 of the rows or columns beyond whole tiles */
    };

    /* The items that a block computes: every gridDim-th of the list of tiles and strips, or, where a cluster shares one, that alone. */
    struct work {
        int index = blockIdx.x / SHARES;

        static __device__ int rank() { return SHARES == 1 ? 0 : blockIdx.x % SHARES; }
        static __device__ int total(const gg_args &p) { return int(gg_ceil_div(p.k, 64)) * (64 / STEP); }
        static __device__ int first(const gg_args &p) { return rank() ? (total(p) + 2) / 4 * 2 : 0; }
        /* Steps of this block: an even number in a pair, else all steps that have any k. */
        static __device__ int steps(const gg_args &p) { return SHARES == 1 ? int((p.k + STEP - 1) / STEP) : (total(p) + 2 - 2 * rank()) / 4 * 2; }
        static __device__ bool strip(int64_t extent) { return extent > TILE && unsigned(extent % TILE - 1) < MOST; }
        static __device__ int groups(int64_t extent) { return strip(extent) ? int(extent % TILE + STRIP - 1) / STRIP : 0; }
        static __device__ int tiles(int64_t extent) { return int(gg_ceil_div(extent, TILE)) - strip(extent); }
        static __device__ int whole(const gg_args &p) { return tiles(p.m) * tiles(p.n); }
        static __device__ int rows(const gg_args &p) { return EDGES ? strip(p.m) && strip(p.n) : strip(p.m) ? int(gg_ceil_div(p.n, WIDE)) : 0; }
        static __device__ int columns(const gg_args &p) { return strip(p.n) && !EDGES ? int(gg_ceil_div(p.m, WIDE)) - strip(p.m) : 0; }
        __device__ bool more(const gg_args &p) const { return index < whole(p) + rows(p) + columns(p); }

        __device__ bool is_strip(const gg_args &p) const { return index >= whole(p); }

        /* Places tiles down the columns of a band of 8 tile rows, so that blocks that run together share panels in L2. */
        __device__ item now(const gg_args &p) const
        {
            constexpr int GROUP = 8;
            const int tiles_m = tiles(p.m), tiles_n = tiles(p.n), in_strips = index - tiles_m * tiles_n;
            const int band = index / (GROUP * tiles_n), in_band = index % (GROUP * tiles_n), rows = min(GROUP, tiles_m - band * GROUP);
            if (in_strips < 0)
                return {band * GROUP + in_band % rows, in_band / rows, WHOLE, 0};
            const int in_columns = in_strips - work::rows(p);
            return in_columns < 0 ? item{tiles_m, (EDGES ? 2 * tiles_n : 0) + in_strips, ROWS, 0} : item{in_columns, tiles_n, COLUMNS, 0};
        }

        /* What a tile computes beside itself: 8 of the rows beyond its column of tiles, or 8 of the columns beyond its row. src/tensor.c sees to it
         * that no tile would have to do both. */
        static __device__ item beside(const gg_args &p, const item &t)
        {
            if (!EDGES || t.what != WHOLE)
                return {t.m, t.n, WHOLE};
            const int tiles_m = tiles(p.m), tiles_n = tiles(p.n), of_rows = groups(p.m);
            const int row_group = (t.n - t.m + tiles_m) % tiles_m, column_group = (t.n - t.m - of_rows + tiles_m * tiles_n) % tiles_n;
            if (row_group < of_rows)
                return {tiles_m, 2 * t.n, ROWS, row_group};
            if (column_group < groups(p.n))
                return {2 * t.m, tiles_n, COLUMNS, column_group};
            return {t.m, t.n, WHOLE};
        }

        /* Is a tile multiplied with 8 rows beside it, whether it needs them or not? Where many tiles need them all are treated so, because starting
         * the second loop takes 2 us. */
        static __device__ bool takes_more(const gg_args &p, const item &t)
        {
            return t.what == WHOLE && (beside(p, t).what != WHOLE || 4 * (groups(p.m) * tiles(p.n) + groups(p.n) * tiles(p.m)) > whole(p));
        }

        /* On to this block's next item. Strips go to the blocks that have a tile less than others, if those have the time. */
        __device__ void next(const gg_args &p)
        {
            const int tiles = whole(p), strips = rows(p) + columns(p), blocks = gridDim.x, idle = blocks - tiles % blocks;
            const int takers = strips <= GG_TENSOR_STRIPS * idle ? idle : blocks;
            if (SHARES > 1 || (index < tiles && index + blocks >= tiles + takers))
                index = tiles + strips;
            else
                index += index < tiles ? blocks : takers;
        }
    };

    /* The producer. leaves: as for run, called when it is known what to copy first. False: it left. */
    template <typename LEAVES> static __device__ bool produce(const gg_args &p, ring_t ring, unsigned shared, LEAVES leaves)
    {
        bool entered = false;
        const int64_t row_bytes = int64_t(work::total(p)) * PANEL_BYTES;
        for (int pass = TWO_LOOPS; pass >= 0; pass--)
            for (work w; w.more(p); w.next(p)) {
                const item t = w.now(p);
                if (TWO_LOOPS && work::takes_more(p, t) != pass)
                    continue;
                const int64_t first = int64_t(work::first(p)) * PANEL_BYTES;
                const item beside = work::beside(p, t);
                const char *thin = static_cast<const char *>(p.pieces_a), *wide = static_cast<const char *>(p.pieces_b);
                thin += (t.what == COLUMNS ? t.m / 2 * row_bytes + t.m % 2 * WIDE_BYTES : t.m * row_bytes) + first;
                wide += (t.what == ROWS ? t.n / 2 * row_bytes + t.n % 2 * WIDE_BYTES : t.n * row_bytes) + first;
                if (t.what == COLUMNS || beside.what == COLUMNS) {
                    const char *const columns = wide;
                    wide = thin, thin = columns;
                }
                const char *edge = beside.what == ROWS ? static_cast<const char *>(p.pieces_a) + beside.m * row_bytes
                                                       : static_cast<const char *>(p.pieces_b) + beside.n * row_bytes;
                edge += first + beside.group * STRIP_BYTES;
                if (!entered && leaves())
                    return false;
                entered = true;
                for (int step = 0; step < work::steps(p); step++) {
                    const unsigned to = shared + ring.stage * STAGE_BYTES, barrier = ring.full + 8 * ring.stage;
                    ring.wait_empty();
                    if (t.what == WHOLE && !EDGES) {
                        ring.expect_full(ring.stage, STAGE_BYTES);
                        copy<PANEL_BYTES>(to, thin, barrier);
                        copy<PANEL_BYTES>(to + PANEL_BYTES, wide, barrier);
                    } else if (t.what == WHOLE) {
                        ring.expect_full(ring.stage, beside.what != WHOLE ? STAGE_BYTES : 2 * PANEL_BYTES);
                        for (int piece = 0; piece < PIECES; piece++) {
                            copy<PIECE_BYTES>(to + piece * Y_PIECE, thin + piece * PIECE_BYTES, barrier);
                            if (beside.what != WHOLE)
                                copy<STRIP_BYTES>(to + piece * Y_PIECE + PIECE_BYTES, edge + piece * PIECE_BYTES, barrier);
                        }
                        copy<PANEL_BYTES>(to + Y_BYTES, wide, barrier);
                        edge += PANEL_BYTES;
                    } else {
                        ring.expect_full(ring.stage, PIECES * (WIDE_BYTES + MOST * STEP * 2));
                        for (int piece = 0; piece < PIECES; piece++) {
                            copy<MOST * STEP * 2>(to + piece * Y_PIECE, thin + piece * PIECE_BYTES, barrier);
                            copy<WIDE_BYTES>(to + Y_BYTES + piece * PIECE_BYTES, wide + piece * PIECE_BYTES, barrier);
                        }
                    }
                    thin += PANEL_BYTES, wide += PANEL_BYTES;
                    ring.next();
                }
            }
        return true;
    }

    template <int COUNT> static __device__ void give_away(const float (&sum)[COUNT], unsigned to)
    {
#pragma unroll
        for (int i = 0; i < COUNT; i += 4)
            asm volatile("st.shared::cluster.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(to + i * 512), "f"(sum[i]), "f"(sum[i + 1]), "f"(sum[i + 2]),
                         "f"(sum[i + 3])
                         : "memory");
    }

    /* Blocks of a pair exchange sums. True: what the other block has summed for this one has been added to `sums`. False: this thread's sums were for
     * the other block and have been given away. */
    template <int... COUNTS> static __device__ bool exchange(unsigned shared, bool give, bool take, float (&...sums)[COUNTS])
    {
        unsigned at = shared + threadIdx.x % 128 * 16;
        cluster_barrier(); /* nobody reads stages any more */
        if (give) {
            unsigned to;
            asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(to) : "r"(at), "r"(work::rank() ^ 1));
            ((give_away(sums, to), to += COUNTS * 512), ...);
        }
        cluster_barrier();
        if (!take)
            return false;
        ((add(sums, at), at += COUNTS * 512), ...);
        return true;
    }

    /* Adds a thread's values in shared memory, as keep_total or exchange wrote them, to sum. */
    template <int COUNT> static __device__ void add(float (&sum)[COUNT], unsigned at)
    {
#pragma unroll
        for (int i = 0; i < COUNT; i += 4) {
            float v[4];
            asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3]) : "r"(at + i * 512));
            for (int e = 0; e < 4; e++)
                sum[i + e] += v[e];
        }
    }

    template <int COUNT> static __device__ void keep_total(const float (&sum)[COUNT], unsigned at)
    {
#pragma unroll
        for (int i = 0; i < COUNT; i += 4)
            asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(at + i * 512), "f"(sum[i]), "f"(sum[i + 1]), "f"(sum[i + 2]),
                         "f"(sum[i + 3])
                         : "memory");
    }

    /* Multiplies the block's share of k: a warpgroup's sums of x (64 of a tile's columns) and y. If `swapped`, x has A's pieces. */
    template <int COUNT>
    static __device__ void multiply(const gg_args &p, ring_t &ring, unsigned shared, int group, bool swapped, float (&master)[COUNT])
    {
        const unsigned total = shared + STAGES * STAGE_BYTES + group * GROUP_BYTES + threadIdx.x % 128 * 16;
        float main[COUNT] = {}, corr[COUNT] = {};
        int in_group = 0;
        for (int step = 0, steps = work::steps(p); step < steps; step++) {
            ring.wait_full();
            const unsigned stage = shared + ring.stage * STAGE_BYTES;
            const unsigned y = describe(stage), x = describe(stage + Y_BYTES + group * (64 * STEP * 2));
            pin(main);
            order_wgmma();
#pragma unroll
            for (int k = 0; k < STEP / 16; k++)
                wgmma<PRODUCTS::HALF>(main, x + k * 2, y + k * 2, k);
            commit_wgmma();
#pragma unroll
            for (int i = 0; i < PRODUCTS::CORR; i++)
#pragma unroll
                for (int k = 0; k < STEP / 16; k++)
                    wgmma<PRODUCTS::HALF>(corr, x + ((swapped ? PRODUCTS::a(i) : PRODUCTS::b(i)) * PIECE_BYTES + k * 32) / 16,
                                          y + ((swapped ? PRODUCTS::b(i) : PRODUCTS::a(i)) * Y_PIECE + k * 32) / 16, i + k > 0 ? 1 : in_group);
            if constexpr (EXACT)
                commit_wgmma();
            await_wgmma<EXACT>();
            pin(main);
            if (step > 0) /* the products of the previous stage are complete: its corr came before this main */
                ring.arrive_empty(ring.stage ? ring.stage - 1 : STAGES - 1);
#pragma unroll
            for (int i = 0; i < COUNT; i++)
                master[i] += main[i];
            ring.next();
            if (EXACT && (step == steps - 1 || (in_group >= GROUP - 1 && step < steps - 3))) {
                await_wgmma<0>();
                pin(corr);
#pragma unroll
                for (int i = 0; i < COUNT; i++)
                    master[i] += corr[i];
                if (step > in_group)
                    add(master, total);
                if (step < steps - 1) {
                    keep_total(master, total);
#pragma unroll
                    for (int i = 0; i < COUNT; i++)
                        master[i] = 0;
                    in_group = 0;
                }
            } else
                in_group++;
        }
        await_wgmma<0>();
        ring.arrive_empty(ring.stage ? ring.stage - 1 : STAGES - 1);
    }

    /* One warpgroup multiplies a strip; the other only lets the stages pass. */
    static __device__ void strip(const gg_args &p, ring_t &ring, unsigned shared, int group, const item &t)
    {
        float sum[MOST / 2] = {};
        if (group == 0)
            multiply(p, ring, shared, 0, t.what == COLUMNS, sum);
        else
            for (int step = work::steps(p); step > 0; step--) {
                ring.wait_full();
                ring.arrive_empty(ring.stage);
                ring.next();
            }
        if constexpr (SHARES == 2)
            if (!exchange(shared, group == 0 && work::rank() == 1, group == 0 && work::rank() == 0, sum))
                return;
        if (group == 0)
            store_strip(p, t, sum);
    }

    /* Computes a tile. Of 68 sums of a thread, 4 are of what lies beside it. */
    template <int COUNT> static __device__ void tile(const gg_args &p, ring_t &ring, unsigned shared, int group, const work &w)
    {
        float sum[COUNT] = {};
        if (GG_UPDATE && (SHARES == 1 || group == work::rank()) && p.k <= 2048) { /* with a longer k it gains nothing */
            const item at = w.now(p);
            gg_fetch_c<float, TILE, 64>(p, int64_t(at.m) * TILE, int64_t(at.n) * TILE + group * 64, threadIdx.x % 128, 128);
        }
        multiply(p, ring, shared, group, COUNT > 64 && work::beside(p, w.now(p)).what == COLUMNS, sum);
        if constexpr (SHARES == 2)
            if (!exchange(shared, group != work::rank(), group == work::rank(), sum))
                return;
        const item t = w.now(p);
        if constexpr (COUNT > 64) {
            item beside = work::beside(p, t);
            (beside.what == ROWS ? beside.n : beside.m) += group;
            if (beside.what != WHOLE) {
                const float thin[] = {sum[64], sum[65], sum[66], sum[67]};
                store_strip(p, beside, thin);
            }
            if (beside.what == COLUMNS) {
                store_rows(p, shared, int64_t(t.m) * TILE + group * 64, int64_t(t.n) * TILE, sum);
                return;
            }
        }
        store(p, shared, int64_t(t.m) * TILE, int64_t(t.n) * TILE + group * 64, sum);
    }

    static __device__ void consume(const gg_args &p, ring_t ring, unsigned shared)
    {
        const int group = __shfl_sync(~0u, threadIdx.x / 128, 0);
        if constexpr (TWO_LOOPS)
            for (work w; w.more(p); w.next(p))
                if (work::takes_more(p, w.now(p)))
                    tile<SUMS>(p, ring, shared, group, w);
        for (work w; w.more(p); w.next(p))
            if (w.is_strip(p))
                strip(p, ring, shared, group, w.now(p));
            else if (!TWO_LOOPS || !work::takes_more(p, w.now(p)))
                tile<TWO_LOOPS ? 64 : SUMS>(p, ring, shared, group, w);
    }

    template <int COUNT> static __device__ void store_strip(const gg_args &p, const item &t, const float (&sum)[COUNT])
    {
        const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
        const gg_factors by(p);
#pragma unroll
        for (int v = 0; v < COUNT; v++) {
            const int wide = warp * 16 + lane / 4 + v / 2 % 2 * 8, thin = (t.group + v / 4) * STRIP + lane % 4 * 2 + v % 2;
            const int64_t i = t.what == ROWS ? int64_t(t.m) * TILE + thin : int64_t(t.m) * WIDE + wide;
            const int64_t j = t.what == ROWS ? int64_t(t.n) * WIDE + wide : int64_t(t.n) * TILE + thin;
            float *const c = static_cast<float *>(p.c) + i + j * by.ldc;
            if (i < p.m && j < p.n)
                *c = by.scaled(sum[v], p.scale_b[j] * p.scale_a[i], c);
        }
    }

    /* Stores 128 rows by 64 columns, 16 columns a warp. */
    template <int COUNT> static __device__ void store(const gg_args &p, unsigned shared, int64_t m0, int64_t n0, const float (&sum)[COUNT])
    {
        int thread = threadIdx.x;
        asm volatile("" : "+r"(thread)); /* opaque, so that what depends on it is not kept in registers of the main loop */
        const int warp = thread / 32 % 4, lane = thread % 32;
        if constexpr (EXACT)
            store_columns(p, shared + STAGES * STAGE_BYTES + thread / 128 * GROUP_BYTES + warp * 512, m0 + lane, n0 + warp * 16, lane, sum);
        else
            store_pairs(p, m0 + lane % 4 * 2, n0 + warp * 16 + lane / 4, sum);
    }

    /* For rows that have no total. */
    template <int COUNT> static __device__ void store_pairs(const gg_args &p, int64_t i0, int64_t j0, const float (&sum)[COUNT])
    {
        const gg_factors by(p);
        const bool vec = p.ldc % 2 == 0 && reinterpret_cast<uintptr_t>(p.c) % 8 == 0;
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const int64_t j = j0 + 8 * h;
            if (j >= p.n)
                continue;
            const float scale = p.scale_b[j];
            float *column = static_cast<float *>(p.c) + j * by.ldc;
#pragma unroll
            for (int q = 0; q < 16; q++) {
                const int64_t i = i0 + q * 8;
                float v[2] = {};
#pragma unroll
                for (int e = 0; e < 2; e++)
                    if (i + e < p.m)
                        v[e] = by.scaled(sum[q * 4 + h * 2 + e], scale * p.scale_a[i + e], column + i + e);
                if (vec && i + 1 < p.m)
                    *reinterpret_cast<float2 *>(column + i) = make_float2(v[0], v[1]);
                else
#pragma unroll
                    for (int e = 0; e < 2; e++)
                        if (i + e < p.m)
                            column[i + e] = v[e];
            }
        }
    }

    /* Stores by way of the warp's own memory, where its total was: 16 columns of 512 bytes, 2048 apart. Four columns' rows are interchanged such that
     * neither writing nor reading has bank conflicts. (Four columns at a time, and alpha and beta converted to float once: column by column, an
     * element's load and store after the other, a tile's store took 4.3 us, half as long as the products of k = 1024.) */
    template <int COUNT>
    static __device__ void store_columns(const gg_args &p, unsigned memory, int64_t i0, int64_t j0, int lane, const float (&sums)[COUNT])
    {
        const gg_factors by(p);
        const int rows = int(min(int64_t(TILE), p.m - i0)), columns = int(min(int64_t(16), p.n - j0)); /* inside C, from i0, j0 on */
        const float of_column = lane % 16 < columns ? p.scale_b[j0 + lane % 16] : 0;
        float of_rows[TILE / 32];
#pragma unroll
        for (int r = 0; r < TILE / 32; r++)
            of_rows[r] = r * 32 < rows ? p.scale_a[i0 + r * 32] : 0;
        __syncwarp();
#pragma unroll
        for (int h = 0; h < 2; h++)
#pragma unroll
            for (int q = 0; q < 16; q++) {
                const int column = lane / 4 + 8 * h, row = (8 * q) ^ (column % 4 * 8);
                asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(memory + column * 2048 + (row + lane % 4 * 2) * 4), "f"(sums[q * 4 + h * 2]),
                             "f"(sums[q * 4 + h * 2 + 1])
                             : "memory");
            }
        __syncwarp();
        float *c = static_cast<float *>(p.c) + i0 + j0 * by.ldc;
#pragma unroll 1
        for (int column = 0; column < 16; column += 4, memory += 4 * 2048, c += 4 * by.ldc) {
            float v[4][4], scale[4];
#pragma unroll
            for (int e = 0; e < 4; e++) {
#pragma unroll
                for (int r = 0; r < 4; r++)
                    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(v[e][r]) : "r"(memory + e * 2048 + (lane ^ e * 8) * 4 + r * 128) : "memory");
                scale[e] = __shfl_sync(~0u, of_column, column + e);
            }
            gg_put(
                by, v, [&](int e, int r) { return column + e < columns && r * 32 < rows; }, [&](int e, int r) { return scale[e] * of_rows[r]; },
                [&](int e, int r) { return c + e * by.ldc + r * 32; });
        }
        __syncwarp();
    }

    /* Stores 64 rows by 128 columns, 16 rows a warp, for a tile whose x has A's pieces: 8 columns at a time in 512 bytes. */
    static __device__ void store_rows(const gg_args &p, unsigned shared, int64_t m0, int64_t n0, const float (&sum)[SUMS])
    {
        int thread = threadIdx.x;
        asm volatile("" : "+r"(thread));
        const int warp = thread / 32 % 4, lane = thread % 32;
        const unsigned memory = shared + STAGES * STAGE_BYTES + thread / 128 * GROUP_BYTES + warp * 512;
        const gg_factors by(p);
        const int64_t i = m0 + warp * 16 + lane % 16;
        const float of_row = i < p.m ? p.scale_a[i] : 0;
        __syncwarp();
#pragma unroll
        for (int q = 0; q < 16; q++)
#pragma unroll
            for (int v = 0; v < 4; v++) /* column lane % 4 * 2 + v % 2, row lane / 4 + v / 2 * 8 */
                asm volatile("st.shared.f32 [%0], %1;" ::"r"(memory + q * 2048 + (v % 2 * 64 + v / 2 * 32 + lane % 4 * 8 + lane / 4) * 4),
                             "f"(sum[q * 4 + v])
                             : "memory");
        __syncwarp();
        unsigned from = memory + (lane / 16 * 64 + lane / 8 % 2 * 32 + lane % 8) * 4;
        float *c = static_cast<float *>(p.c) + i + (n0 + lane / 16) * by.ldc;
#pragma unroll 1
        for (int64_t j = n0; j < n0 + TILE; j += 32, from += 4 * 2048, c += 32 * by.ldc) {
            const int columns = int(min(int64_t(32), p.n - j)) - lane / 16;
            const float of_columns = j + lane < p.n ? p.scale_b[j + lane] : 0;
            float v[4][4], scale[4][4];
#pragma unroll
            for (int q = 0; q < 4; q++)
#pragma unroll
                for (int pair = 0; pair < 4; pair++) {
                    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(v[q][pair]) : "r"(from + q * 2048 + pair * 32) : "memory");
                    scale[q][pair] = __shfl_sync(~0u, of_columns, q * 8 + pair * 2 + lane / 16) * of_row;
                }
            gg_put(
                by, v, [&](int q, int pair) { return i < p.m && q * 8 + pair * 2 < columns; }, [&](int q, int pair) { return scale[q][pair]; },
                [&](int q, int pair) { return c + (q * 8 + pair * 2) * by.ldc; });
        }
        __syncwarp();
    }

    /* leaves(): waits until the pieces are there and says whether this kernel must leave. Called by every thread that does something, as late as
     * possible. */
    template <typename LEAVES> static __device__ void run(const gg_args &p, LEAVES leaves)
    {
        extern __shared__ __align__(128) char shared_memory[];
        const unsigned shared = (gg_shared(shared_memory) + 1023) & ~1023u; /* swizzle patterns repeat every 1024 bytes */
        ring_t ring(shared + STAGES * STAGE_BYTES + TOTAL_BYTES);
        if (threadIdx.x == 0)
            ring.init(1, GG_CONSUMERS / 32);
        __syncthreads();
        if (threadIdx.x >= GG_CONSUMERS) {
            gg_give_registers<EDGES ? 40 : 24>();
            if (threadIdx.x == GG_CONSUMERS ? !produce(p, ring, shared, leaves) : SHARES == 1 || leaves())
                return;
            if constexpr (SHARES == 2) {
                __syncwarp();
                cluster_barrier();
                cluster_barrier();
            }
        } else {
            gg_take_registers<EDGES ? 232 : 240>();
            if (!leaves())
                consume(p, ring, shared);
        }
    }
};

#endif

/* dgemm_tma — FP64 on tensor cores (DMMA) for sm_90, operands by TMA in either layout. Legal where base and leading dimension are multiples of 16
 * bytes; dgemm.cu serves the rest. DMMA is chained FMA with round-to-nearest, so the error is that of a plain FMA loop.
 *
 * Warp specialisation: a block is some consumer warps and a producer warpgroup, of which one thread starts all copies and the rest only gives up its
 * registers. A stage of the ring holds one or two k steps, each 16 k of a tile's rows and columns, in 128-byte lines swizzled by TMA. A warp reads
 * fragments of 8 or 16 k from it, each while the products before it run; with AHEAD, where registers allow, all fragments of a step during the step
 * before. Which rows form a fragment is free, and chosen so that no layout has bank conflicts (struct lines). So nothing is transposed, and a product
 * costs half the instructions of dgemm.cu's. Loads are fewest where A's rows and B's k are contiguous, as in NN; TT is treated as that with A and B
 * exchanged in the products (TURNED). The producer alone decides what its block does next and tells the consumers through shared memory: they have no
 * registers to spare.
 *
 * When tiles do not fill the GPU, k is cut, within one launch. Either persistent blocks share the last tiles (stream-K, tile.cuh), or few tiles of a
 * long k evenly, so that all are at the same k (448x448x16384 1.2 times as fast). The block that has the end of a tile collects the other parts from
 * the workspace; where many blocks share each tile they all add it up together (gather.cuh: 128x128x16384 23 us, by 33 blocks a tile; collected by
 * one of them 31, by the last of four clusters 25.8). Or a cluster computes each tile, a piece of k per block, and adds the parts up through shared
 * memory. In some rows SLICES groups of warps take the stages in turn and add up in the same way, so that large fragments, which need the fewest
 * reads, serve small tiles too; their tiles may have several clusters, whose parts go through the workspace. Parts are added in a fixed order: sums
 * depend on the grid, never on timing.
 *
 * A PAIR is a cluster of two blocks with adjacent tiles, in step. Each fetches half of their common A for both, so that only two thirds of the bytes
 * come from L2, which would have to deliver 200 MB in 36 µs at n = 1024.
 *
 * A warp of an edge tile that has no elements of C multiplies nothing. In half tiles (gg_halves of src/kernels.h) that leaves each scheduler one of
 * its two warps, and the tile takes 0.6 to 0.65 of the time; half tiles are dealt out last, and shared by that.
 *
 * Blocks that compute one whole tile of long k after another keep pace with each other, or L2 is of little use to them (keep_pace).
 *
 * One elected thread starts a stage's copies one after the other. If several lanes did it, the compiler would make a loop of 60 clocks per copy: a
 * stage took 460 to 640 clocks, its products 256 in 32×64.
 *
 * A call of 10 us whose code is not in the SMs' caches, because another kernel ran before, waits up to 2 us for instructions. So the code up to the
 * first copies is in one piece, and waits for no other warp: 384, 512 and 768 5 % faster (bench/results/launches-2026-11-27.txt). And calls
 * that cut no tile have code without all that adds up parts (GG_WHOLE of tile.cuh): 384 and 512 another 9 %, 640x640x300 14 %, where C is read 21 %
 * (bench/results/whole-2026-11-27.txt).
 *
 * The parameters of a row, how its lanes read operands and what becomes of their sums are in dgemm_sums.cuh.
 *
 *                                                                              one H200, against cuBLAS (strict, L2 flushed, 2026-11-21 and -28)
 *   dgemm_tma_192x96         8 warps of 48×48, 3 × 2 steps, 1 block an SM      1.10 to 1.11 at n = 1536, which is 128 such tiles; slow when shared
 *   dgemm_tma_128x128        8 warps of 64×32, 3 × 2 steps, 1 block an SM      0.99 to 1.03 from 2048 to 6000, 1.00 to 1.05 at 8192, 1.01 to 1.09 beyond
 *   dgemm_tma_128x64         8 warps of 32×32, 4 × 2 steps, 1 block an SM      1.00 at 1024, 1.01 to 1.03 at 1000 (with 8 stages, products of 8 k)
 *   dgemm_tma_128x64_pair    the same in pairs                                 1.02 to 1.05 times as fast as 128x64 at 1024 and 1000
 *   dgemm_tma_64x64          4 warps of 32×32, 6 stages, 2 blocks an SM        1.04 to 1.09 at 16384×128×128
 *   dgemm_tma_64x64_pair     4 warps of 32×32 in pairs, 12 stages, 1 an SM     1.27 times as fast as 64x64 at 184×8152×2940
 *   dgemm_tma_64x64_halves   2 × 4 warps of 32×32, 12 stages, 1 block an SM    1.03 to 1.06 at 64×4096×4096, 1.06 to 1.10 at 4096×64×4096
 *   dgemm_tma_96x64_halves   2 × 4 warps of 48×32, 10 stages, 1 block an SM    0.95 to 0.98 from 800 to 864, where others have 0.87 to 0.91 (H100)
 *   dgemm_tma_64x96_halves   2 × 4 warps of 32×48, 10 stages, 1 block an SM    1.03 at 600×1200×600, where others have 0.96 (H100)
 *   dgemm_tma_96x48          4 × 2 warps of 48×48, 12 stages, 1 block an SM    1.17 to 1.19 at 768, which is 128 such tiles
 *   dgemm_tma_48x48          4 × 1 warp of 48×48, 8 stages, 2 blocks an SM     1.14 to 1.16 at 768, which is 256 such tiles
 *   dgemm_tma_48x32          2 × 2 warps of 48×16, 16 stages, 1 block an SM    1.15 to 1.22 at 384, 1.07 at 376×480×1632, where 32x64 has 0.96
 *   dgemm_tma_16x128         4 warps of 16×32, 6 stages, 2 blocks an SM        1.08 to 1.09 at 16×16384×16384 with k contiguous in B, else 0.95
 *   dgemm_tma_32x64          4 warps of 32×16, 8 stages, 2 blocks an SM        1.05 to 1.12 at 512, 0.97 to 1.09 at 384
 *   dgemm_tma_64x32          4 warps of 32×16, 8 stages, 2 blocks an SM        1.02 to 1.06 at 2048×32×6528, where 32x64 has 0.74
 *
 * At n = 2048 the tensor pipe is busy 91 % of the time, cuBLAS's too; at 1024 78 % (cuBLAS's 86 %). No stage is ever late (1024, 2048). A product
 * takes its 32 clocks whatever else warps do (64 of 16 k), and two warps per scheduler are enough. But each 16 bytes that a lane reads from shared
 * memory cost the products 1.2 to 1.6 clocks: 3 to 4 % in 128x128, 4 to 5 % in 128x64. Reading fragments a whole step ahead, or more warps, wins
 * nothing back; products of 16 k win 2 % (bench/results/long-2026-11-28.txt). From 2048 on the power limit lowers the clock: alone at 8192 ours keeps
 * 1745 to 1800 MHz and 57 to 58 TFLOP/s, cuBLAS 1495 to 1600 and 49 to 53; called in turn both have the same clock, at which both do the same. */
#include "dmma.cuh"
#include "dgemm_sums.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* True in one thread of the warp. Unlike a comparison of threadIdx.x it lets the compiler issue a copy without a loop over the lanes. */
__device__ inline bool elect_one()
{
    unsigned elected;
    asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(elected));
    return elected;
}

/* The order of a unit's pieces. Whole tiles come first, while all blocks are at about the same k and find each other's operands in L2. Then its run
 * of shared tiles: first the beginning of the tile whose end another unit has, because that unit waits for it; last the piece that itself waits for
 * others. */
template <int TILE_M, int TILE_N, int TILE_K, bool ONCE, bool PAIR, bool HALVES, int LEAST_GATHERED>
struct dgemm_piece : gg_piece<TILE_M, TILE_N, TILE_K, GG_SHORTEST_PART, HALVES> {
    using base = gg_piece<TILE_M, TILE_N, TILE_K, GG_SHORTEST_PART, HALVES>;
    using base::count, base::fate, base::first, base::tile;
    static constexpr int TEAM = PAIR ? 2 : 1; /* blocks in a unit whose k is not cut */
    static constexpr bool GATHERS = LEAST_GATHERED < GG_FLAGS;
    unsigned before;      /* units that share the tile evenly and come before this one */
    unsigned sharers = 0; /* that add it up together */

    /* The first of the units (blocks or clusters) whose parts of this tile are collected here. */
    __device__ int first_unit(const gg_args &p) const
    {
        const int unit = cluster_index();
        if (fate != COLLECT && !(GATHERS && fate == GATHER))
            return unit;
        if (ONCE)
            return unit + 1 - p.groups;
        return p.groups > 1 ? unit - before : base::first_block(p, tile, unit, gridDim.x / TEAM);
    }

    /* Where all tiles are shared evenly: each by p.groups units, a half tile by as many as are left for it. Units of different tiles are then at the
     * same k, and find each other's operands in L2. */
    __device__ void find_even(const gg_args &p, int unit, int units)
    {
        const unsigned length = base::steps(p), full = base::full_m(p) * base::full_n(p);
        unsigned pieces = p.groups, at = unit;
        tile = 0;
        if (at >= full * pieces) {
            tile = full, at -= full * pieces;
            pieces = (units - full * pieces) / (unsigned(p.shared_tiles) - full);
        }
        tile += at / pieces, before = at % pieces;
        first = length * before / pieces; /* 32 bits are enough, see sharers of src/select.c */
        count = length * (before + 1) / pieces - first;
        fate = before + 1 < pieces ? PUBLISH : pieces > 1 ? COLLECT : WHOLE;
        if (GATHERS && pieces >= LEAST_GATHERED)
            fate = GATHER, sharers = pieces;
    }

    /* Finds the unit's piece number `index`. False: it does not have so many. */
    __device__ bool find(const gg_args &p, int index)
    {
        if (!PAIR && (ONCE || GG_CUT)) {
            base::find_in_cluster_soon(p);
            return index == 0;
        }
        const int length = base::steps(p), whole = base::whole_tiles(p), units = gridDim.x / TEAM, unit = blockIdx.x / TEAM;
        if (!GG_WHOLE && p.groups > 1) {
            find_even(p, unit, units);
            return index == 0;
        }
        if (unit + index * units < whole) {
            tile = unit + index * units, first = 0, count = length, fate = WHOLE;
            return true;
        }
        if (p.shared_tiles == 0)
            return false;
        index -= (whole - unit + units - 1) / units;
        const int at = base::run_start(p, unit, units); /* the unit's run of the shared tiles' k steps */
        int end = base::run_start(p, unit + 1, units);
        const int last = end / length * length, from = max(at, last); /* begins the tile whose end another unit has */
        if (from < end) {
            if (index == 0) {
                tile = whole + end / length, first = from - last, count = end - from, fate = PUBLISH;
                return true;
            }
            index--;
            end = from;
        }
        end -= index * length;
        if (end <= at)
            return false;
        const int begin = end - length;
        tile = whole + begin / length, first = max(at - begin, 0), count = length - first, fate = first > 0 ? COLLECT : WHOLE;
        return true;
    }
};

/* The producer, and a consumer's main loop. */
template <typename ROW> struct dgemm_tma : dgemm_sums<ROW> {
    using sums = dgemm_sums<ROW>;
    using ROW::GROUP, ROW::CONSUMERS, ROW::SLICES, ROW::PAIR, ROW::TEAM, ROW::GATHERS, ROW::READS_AHEAD, ROW::A_BYTES, ROW::LINE_BYTES, ROW::BYTES,
        ROW::RING_BYTES, ROW::ORDERS, ROW::LINES, ROW::ONE_B, ROW::KEPT, ROW::TAKEN, ROW::TURNS;
    using ROW::TILE_M, ROW::TILE_N, ROW::TILE_K, ROW::MMA_K, ROW::STEPS, ROW::STAGES, ROW::WARPS_M, ROW::WARP_M, ROW::WARP_N, ROW::FM, ROW::FN,
        ROW::HALVES, ROW::READS_LATE, ROW::REHEARSES;
    using sums::sum, sums::splits;
    using typename sums::map;
    using ring_type = gg_ring<STAGES>;
    using work = dgemm_piece<TILE_M, TILE_N * TEAM, TILE_K, (SLICES > 1), PAIR, HALVES, ROW::LEAST_GATHERED>;

    double fa[READS_AHEAD ? 2 * FM : 2][MMA_K / 2], fb[ONE_B ? 1 : 2][FN][MMA_K / 4];

    /* Reads A's fragment i, or below B's fragments, two at a time, from pair `first` on, of the product number k of a step. */
    template <typename LA> __device__ void fetch_a(unsigned a, int k, int i, double (&to)[MMA_K / 2])
    {
#pragma unroll
        for (int t = 0; t < MMA_K / 8; t++) {
            double r[2][2];
            LA::load(r, a, i, k + t);
#pragma unroll
            for (int e = 0; e < 4; e++)
                to[4 * t + e] = r[e / 2][e % 2];
        }
    }

    template <typename LB> __device__ void fetch_b(unsigned b, int k, int set, int first = 0, int count = FN / 2)
    {
#pragma unroll
        for (int j = first; j < first + count; j++)
#pragma unroll
            for (int t = 0; t < MMA_K / 8; t++) {
                double r[2][2];
                LB::load(r, b, j, k + t);
#pragma unroll
                for (int e = 0; e < 4; e++)
                    fb[set][2 * j + e % 2][2 * t + e / 2] = r[e / 2][e % 2];
            }
    }

    /* Some bits of every element of a fragment: they are known only when all of it has been read. */
    static __device__ unsigned used(const double (&fragment)[MMA_K / 2])
    {
        unsigned bits = 0;
#pragma unroll
        for (int e = 0; e < MMA_K / 2; e++)
            bits |= unsigned(__double2loint(fragment[e]));
        return bits;
    }

    /* Tells the producers that this warp has read all it needs of stage `done`: its own, and in a pair also the other block's, which puts its half of
     * A here. */
    static __device__ void release(const ring_type &ring, int done, unsigned nothing)
    {
        if constexpr (PAIR)
            ring.arrive_empty_pair(done, nothing);
        else
            ring.arrive_empty(done, nothing);
    }

    /* Returns 0, but only when the fragments read last from a stage have arrived. */
    __device__ unsigned read(unsigned zero, int set, int turn) const
    {
        unsigned bits = used(fa[turn]);
        if (READS_AHEAD) {
#pragma unroll
            for (int i = 0; i < FM; i++)
                bits |= used(fa[set * FM + i]);
#pragma unroll
            for (int j = 0; j < FN; j++)
#pragma unroll
                for (int e = 0; e < MMA_K / 4; e++)
                    bits |= unsigned(__double2loint(fb[set][j][e]));
        }
        return zero & bits;
    }

    /* Does this warp, in an edge tile, have no elements of C? */
    static __device__ bool idle(const gg_args &p, unsigned order)
    {
        int m, n;
        bool turned = false;
        if constexpr (TURNS)
            if ((turned = p.a_kmajor && !p.b_kmajor))
                sums::template part_of_warp<true>(n, m);
        if (!turned)
            sums::template part_of_warp<false>(m, n);
        return !__any_sync(~0u, ordered(order, ORDER_M) + m < int(p.m) && ordered(order, ORDER_N) + n < int(p.n));
    }

    /* An idle warp lets all stages pass. Its sums are 0, but that is hidden from the compiler, which would make separate code for it. */
    __device__ void pass(ring_type &ring, int steps)
    {
#pragma unroll 1
        for (int left = steps; left > 0; left -= LINES) {
            const int done = ring.stage;
            ring.next();
            ring.wait_full();
            release(ring, done, 0);
        }
        each(sum, [](double &of) { asm volatile("" : "+d"(of)); });
    }

/* Finds the k step that follows: in this stage, or in the next one, of which there always is one, even if it only says that all work is done. A macro
 * for the reason of GG_EACH_SLOT: as a function it changes the machine code of rows that have it elsewhere. */
#define GG_FIND_NEXT                                                                                                                                 \
    {                                                                                                                                                \
        if (leaves) {                                                                                                                                \
            if (LINES > 1)                                                                                                                           \
                ring.template skip<SLICES>();                                                                                                        \
            ring.wait_full();                                                                                                                        \
            next = ring.stage * BYTES;                                                                                                               \
            line = 0;                                                                                                                                \
        } else                                                                                                                                       \
            next += LINE_BYTES, line++;                                                                                                              \
        at = next;                                                                                                                                   \
    }

    /* Multiplies `steps` k steps. TURNED: the products' A is read from B's lines. */
    template <typename lines_a, typename lines_b, bool TURNED> __device__ void multiply(ring_type &ring, unsigned shared, int steps)
    {
        const int lane = thread_index() % 32;
        int rows, columns;
        sums::template part_of_warp<TURNED>(rows, columns);
        const unsigned a = shared + (TURNED ? A_BYTES : 0) + rows * 128 + lines_a::start(lane);
        const unsigned b = shared + (TURNED ? 0 : A_BYTES) + columns * 128 + lines_b::start(lane);
        fetch_b<lines_b>(b + ring.stage * BYTES, 0, 0);
#pragma unroll
        for (int i = 0; i < (READS_AHEAD ? FM : 1); i++)
            fetch_a<lines_a>(a + ring.stage * BYTES, 0, i, fa[i]);
        int done = 0, line = 0; /* stage, and k step of it, whose products are under way */
        unsigned at = ring.stage * BYTES;
        unsigned zero; /* 0, but the compiler does not know it: combined with a fragment (read) it delays an arrival until that fragment and all
                        * before it have been read */
        asm volatile("mov.u32 %0, %%tid.z;" : "=r"(zero));
#pragma unroll 1
        for (int left = steps; left > 0; left--) {
            done = ring.stage;
            unsigned next = LINES > 1 ? at : ring.stage * BYTES;
            const bool leaves = LINES == 1 || line == LINES - 1 || left == 1; /* the stage, with this step */
            if (LINES == 1)
                ring.template skip<SLICES>();
#pragma unroll
            for (int s = 0; s < STEPS; s++) {
                const int set = ONE_B ? 0 : s % 2, ahead = s + 1 < STEPS ? s + 1 : 0;
                const unsigned stage = next;
                if (ahead == 0 && !ONE_B)
                    GG_FIND_NEXT
#pragma unroll
                for (int i = 0; i < FM; i++) {
                    if (ahead == 0 && ONE_B && i == FM - 1)
                        GG_FIND_NEXT
                    if (i == 0 && !READS_LATE && !ONE_B)
                        fetch_b<lines_b>(b + next, ahead, set ^ 1);
                    const int turn = READS_AHEAD ? set * FM + i : (s * FM + i) % 2;
                    const auto fetch_next_a = [&] {
                        if (READS_AHEAD)
                            fetch_a<lines_a>(a + next, ahead, i, fa[(set ^ 1) * FM + i]);
                        else if (i + 1 < FM)
                            fetch_a<lines_a>(a + stage, s, i + 1, fa[turn ^ 1]);
                        else
                            fetch_a<lines_a>(a + next, ahead, 0, fa[turn ^ 1]);
                    };
                    if (!READS_LATE)
                        fetch_next_a();
#pragma unroll
                    for (int j = 0; j < FN; j++) {
                        if (READS_LATE && i == FM - 1 && j >= FN / 2)
                            fetch_b<lines_b>(b + next, ahead, set ^ 1, j - FN / 2, 1);
                        if (READS_LATE && j == 1)
                            fetch_next_a();
                        const int column = i % 2 && !ONE_B ? FN - 1 - j : j;
                        mma<MMA_K>(sum[i][column], fa[turn], fb[set][column]);
                        if (ahead == 0 && i == FM - 1 && j == (ONE_B ? 1 : 0) && leaves)
                            release(ring, done, read(zero, set, turn));
                        if (ONE_B && i == FM - 1 && j % 2)
                            fetch_b<lines_b>(b + next, ahead, 0, j / 2, 1);
                    }
                }
            }
        }
    }

    /* Before the first task there may be a rehearsal, in which nothing is multiplied or stored: while the first copies are under way it brings the
     * epilogue's instructions, which would be waited for at the end, into the SM's caches. */
    static constexpr unsigned REHEARSAL = ~0u;
    static __device__ bool rehearses(unsigned order) { return REHEARSES && order == REHEARSAL; }

    __device__ void consume(const gg_args &p, ring_type ring, unsigned shared)
    {
        const bool turned = p.a_kmajor && !p.b_kmajor;
        for (unsigned order = REHEARSES && turned ? REHEARSAL : 0;; order = rehearses(order) ? 0 : next_order<STAGES>(order, 0)) {
            const int slice = SLICES == 1 ? 0 : thread_index() / GROUP;
            for (int s = 0; s < slice; s++)
                ring.next();
            const unsigned at = shared + ORDERS + order;
            int count = 0;
            if (!rehearses(order)) {
                ring.wait_full();
                count = ordered(at, ORDER_COUNT);
                if (count == 0)
                    return;
            }
            if (GG_UPDATE && SLICES < 4 /* ptxas would spill */ && !sums::publishes(sums::fate_of(at)) && (splits(p) == 1 || cluster_rank() == 0))
                gg_fetch_c<double, TILE_M, TILE_N>(p, ordered(at, ORDER_M), ordered(at, ORDER_N), thread_index(), CONSUMERS);
            if (SLICES > 1)
                count = (count - slice + SLICES - 1) / SLICES;
            clear(sum);
            using singles = lines<true, SINGLES>;
            map where = {TILE_M, TILE_N, 0, 0, 0, 0}; /* outside the tile */
            if (HALVES && idle(p, at)) {
                pass(ring, count);
            } else if (p.a_kmajor) {
                if (p.b_kmajor)
                    multiply<singles, singles, false>(ring, shared, count), where = sums::template settle<singles, singles, false>();
                else if constexpr (TURNS) {
                    multiply<lines<false, PAIRS>, lines<true, PAIRS>, true>(ring, shared, count);
                    where = sums::template settle<lines<false, PAIRS>, lines<true, PAIRS>, true>();
                    if (SLICES > 1 || GG_CUT)
                        return sums::template finish_share<true>(p, where, shared, slice);
                    sums::template finish<true>(p, at, where, shared, rehearses(order));
                    continue;
                } else
                    multiply<singles, lines<false, SINGLES>, false>(ring, shared, count),
                        where = sums::template settle<singles, lines<false, SINGLES>, false>();
            } else if (p.b_kmajor)
                multiply<lines<false, PAIRS>, lines<true, PAIRS>, false>(ring, shared, count),
                    where = sums::template settle<lines<false, PAIRS>, lines<true, PAIRS>, false>();
            else
                multiply<lines<false, PAIRS>, lines<false, BESIDE>, false>(ring, shared, count),
                    where = sums::template settle<lines<false, PAIRS>, lines<false, BESIDE>, false>();
            if (SLICES > 1 || GG_CUT)
                return sums::template finish_share<false>(p, where, shared, slice);
            sums::template finish<false>(p, at, where, shared, false);
        }
    }

    /* Starts the copies of a stage: 16 k from k on. SHARES: each block of a pair fetches half of A for both. */
    template <bool SHARES> static __device__ void copy_stage(const gg_args &p, const ring_type &ring, unsigned to, int m, int n, int k)
    {
        const int rank = SHARES ? int(blockIdx.x) % TEAM : 0;
        if (p.a_kmajor) {
            constexpr int ROWS = TILE_M / TEAM;
#pragma unroll
            for (int part = 0; part < (SHARES ? 1 : TEAM); part++)
                copy_a<SHARES>(p, ring, to + (part + rank) * (ROWS * 128), k, m + (part + rank) * ROWS);
        } else {
#pragma unroll
            for (int box = 0; box < TILE_M / 16; box += SHARES ? TEAM : 1)
                copy_a<SHARES>(p, ring, to + (box + rank) * 2048, m + (box + rank) * 16, k);
        }
        if (p.b_kmajor)
            ring.copy_box(ring.stage, to + A_BYTES, &p.map_b, k, n);
        else {
#pragma unroll
            for (int box = 0; box < TILE_N / 16; box++)
                ring.copy_box(ring.stage, to + A_BYTES + box * 2048, &p.map_b, n + box * 16, k);
        }
    }

    template <bool SHARES> static __device__ void copy_a(const gg_args &p, const ring_type &ring, unsigned to, int x, int y)
    {
        if (SHARES)
            ring.copy_box_pair(ring.stage, to, &p.map_a, x, y);
        else
            ring.copy_box(ring.stage, to, &p.map_a, x, y);
    }

    /* Where k is long, blocks that multiply one whole tile after another drift apart in k and find less and less of each other's operands in L2: at n
     * = 16384 they read 200 to 290 GB from memory instead of 53. So they count in one word how many rounds of PACE k steps they have begun, and none
     * gets more than a round ahead of the mean. If the others do not come, as on a GPU that does other work too, it goes on alone and returns
     * false. */
    static constexpr bool PACED = !PAIR && TILE_M * TILE_N > 64 * 64;
    static constexpr int PACE = 16, LONG = 6144;  /* k steps; least k for which it pays */
    static constexpr int TRIES = 100, AGAIN = 64; /* polls, some 80 us; after waiting in vain a block waits again only every AGAIN rounds */

    static __device__ bool keep_pace(const gg_args &p, unsigned turn, bool waits)
    {
        atomicAdd(pace_words(p), 1);
        for (int i = 0; (waits || turn % AGAIN == 0) && i < TRIES; i++) {
            unsigned begun;
            asm volatile("ld.relaxed.gpu.u32 %0, [%1];" : "=r"(begun) : "l"(pace_words(p)) : "memory");
            if (begun >= turn * gridDim.x)
                return true;
            __nanosleep(100);
        }
        return false;
    }

    /* The last block to end resets the words. */
    static __device__ void end_pace(const gg_args &p)
    {
        if (atomicInc(pace_words(p) + 1, gridDim.x - 1) == gridDim.x - 1)
            *pace_words(p) = 0;
    }

    static __device__ bool is_paced(const gg_args &p) { return PACED && p.k >= LONG && p.shared_tiles > 0 && work::whole_tiles(p) > 0; }

    /* A piece of work, and where its tile begins. */
    struct task {
        work piece;
        int m, n;

        /* Finds the block's task number `index`. False: it does not have so many. */
        __device__ bool find(const gg_args &p, int index)
        {
            if (!piece.find(p, index))
                return false;
            if (is_paced(p))
                work::template place<12>(p, piece.tile, m, n); /* bands of 12: 12×11 tiles at a time on 132 SMs */
            else
                work::template place<8>(p, piece.tile, m, n);
            n += PAIR ? int(blockIdx.x) % TEAM * TILE_N : 0; /* a pair's tile is the tiles of its two blocks side by side */
            return true;
        }

        /* Tells the consumers. */
        __device__ void order(const gg_args &p, unsigned at) const
        {
            give_order(at, ORDER_M, m);
            give_order(at, ORDER_N, n);
            give_order(at, ORDER_COUNT, piece.count);
            give_order(at, ORDER_FATE, GATHERS ? piece.fate + 4 * piece.sharers : piece.fate);
            give_order(at, ORDER_FIRST, piece.first_unit(p));
        }

        /* Starts the copies of the ring's stage, of the task's k step number `step`. */
        template <bool SHARES> __device__ void fill(const gg_args &p, const ring_type &ring, unsigned shared, int step) const
        {
            const int lines = LINES == 1 ? 1 : min(LINES, piece.count - step);
            ring.expect_full(ring.stage, lines * LINE_BYTES);
#pragma unroll
            for (int line = 0; line < LINES; line++)
                if (line < lines)
                    copy_stage<SHARES>(p, ring, shared + ring.stage * BYTES + line * LINE_BYTES, m, n, (piece.first + step + line) * TILE_K);
        }
    };

    /* The producer, run by one thread. `next` is its first task, which the consumers have been told and whose first copies are under way; any: there
     * is one. */
    static __device__ void produce(const gg_args &p, ring_type ring, unsigned shared, task next, bool any)
    {
        unsigned order = shared + ORDERS, turn = 0;
        const int whole = work::whole_tiles(p);
        const bool paced = is_paced(p);
        bool waits = true;
        int step = any ? LINES : 0;
        ring.stage = any ? 1 : 0;
        for (int index = 0; any; any = next.find(p, ++index), step = 0) {
            const work &piece = next.piece;
            const int steps = SLICES == 1 ? piece.count : max(piece.count, SLICES);
            for (; step < steps; step += LINES) {
                if (paced && step % PACE == 0 && piece.tile < whole)
                    waits = keep_pace(p, turn++, waits);
                if (index > 0 || step >= STAGES * LINES) /* the first STAGES stages are empty */
                    ring.wait_empty();
                if (index > 0 && step == 0)
                    next.order(p, order);
                if (SLICES == 1 || step < piece.count)
                    next.template fill<PAIR>(p, ring, shared, step);
                else
                    ring.expect_full(ring.stage, 0);
                ring.next();
            }
            order = next_order<STAGES>(order, shared + ORDERS);
        }
        if (paced)
            end_pace(p);
        ring.wait_empty();
        give_order(order, ORDER_COUNT, 0);
        ring.expect_full(ring.stage, 0);
        for (int s = 1; s < SLICES; s++) {
            ring.next();
            ring.wait_empty();
            ring.expect_full(ring.stage, 0);
        }
        /* Arrivals from the other block of a pair may still be in flight, and must not find this block's shared memory gone: it stays until all have
         * come. (A cluster barrier does not cover arrivals in flight unless it orders memory.) By then the other block has also read all copies. */
        for (int s = 1; PAIR && s < STAGES; s++) {
            ring.next();
            ring.wait_empty();
        }
    }

    static __device__ void run(const gg_args &p)
    {
        if (p.verdict && gg_gated(p)) /* outside a chain nothing is awaited here */
            return;
        extern __shared__ __align__(1024) char memory[];
        const unsigned shared = (gg_shared(memory) + 1023) & ~1023u; /* aligned for the swizzle */
        ring_type ring(reinterpret_cast<uint64_t *>(memory + (shared - gg_shared(memory)) + RING_BYTES));
        const bool produces = threadIdx.x / 32 == CONSUMERS / 32;
        task first;
        bool any = false;
        if (produces) {
            if (elect_one()) {
                asm volatile("prefetch.tensormap [%0];" ::"l"(&p.map_a) : "memory");
                asm volatile("prefetch.tensormap [%0];" ::"l"(&p.map_b) : "memory");
                ring.init(1, GROUP / 32 * TEAM);
            }
            __syncwarp();
            any = first.find(p, 0);
            if (any && elect_one()) {
                first.order(p, shared + ORDERS);
                first.template fill<false>(p, ring, shared, 0); /* does not wait for the other block of a pair */
            }
        }
        __syncwarp();
        if (PAIR)
            cluster_leave(); /* init has already done what the barriers need in memory ordering */
        else if (threadIdx.x < CONSUMERS + 32)
            asm volatile("bar.sync 2, %0;" ::"n"(CONSUMERS + 32) : "memory");
        if (threadIdx.x >= CONSUMERS) {
            gg_give_registers<KEPT>();
            if (!produces)
                gg_let_strips_start(p);
            else if (elect_one())
                produce(p, ring, shared, first, any);
            __syncwarp();
            if (GG_CUT) { /* matches the barriers of finish_share */
                cluster_leave();
                cluster_leave();
            }
        } else {
            gg_take_registers<TAKEN>();
            dgemm_tma self;
            self.consume(p, ring, shared);
        }
    }
};

using d192x96 = dgemm_row<192, 96, 3, 4, 2, 1, 1, DOUBLE>;
using d128x128 = dgemm_row<128, 128, 3, 2, 4, 1, 1, LONG | DOUBLE>;
using d128x64 = dgemm_row<128, 64, 4, 4, 2, 1, 1, LONG | DOUBLE>;
using d64x64 = dgemm_row<64, 64, 6, 2, 2, 2>;
using d64x64_halves = dgemm_row<64, 64, 12, 2, 2, 1, 2>;
using d96x64_halves = dgemm_row<96, 64, 10, 2, 2, 1, 2>;
using d64x96_halves = dgemm_row<64, 96, 10, 2, 2, 1, 2>;
using d96x48 = dgemm_row<96, 48, 12, 2, 1, 1, 4, LATE>;
using d48x48 = dgemm_row<48, 48, 8, 1, 1, 2, 4, LATE>;
using d48x32 = dgemm_row<48, 32, 16, 1, 2, 1, 2, AHEAD>;
using d32x64 = dgemm_row<32, 64, 8, 1, 4, 2, 1, AHEAD>;
using d64x32 = dgemm_row<64, 32, 8, 2, 2, 2, 1, AHEAD>;
using d16x128 = dgemm_row<16, 128, 6, 1, 4, 2, 1, AHEAD>;
using d128x64_pair = dgemm_row<128, 64, 8, 4, 2, 1, 1, PAIRED>;
using d64x64_pair = dgemm_row<64, 64, 12, 2, 2, 1, 1, PAIRED | AHEAD>;
static_assert(d192x96::SHARED == gg_shared_dgemm_tma_192x96 && d48x48::SHARED == gg_shared_dgemm_tma_48x48, "kernels.def");
static_assert(d128x128::SHARED == gg_shared_dgemm_tma_128x128 && d128x64::SHARED == gg_shared_dgemm_tma_128x64, "kernels.def");
static_assert(d64x64::SHARED == gg_shared_dgemm_tma_64x64 && d32x64::SHARED == gg_shared_dgemm_tma_32x64, "kernels.def");
static_assert(d64x32::SHARED == gg_shared_dgemm_tma_64x32, "kernels.def");
static_assert(d96x48::SHARED == gg_shared_dgemm_tma_96x48 && d48x32::SHARED == gg_shared_dgemm_tma_48x32, "kernels.def");
static_assert(d64x64_halves::SHARED == gg_shared_dgemm_tma_64x64_halves && d64x64_pair::SHARED == gg_shared_dgemm_tma_64x64_pair, "kernels.def");
static_assert(d96x64_halves::SHARED == gg_shared_dgemm_tma_96x64_halves && d64x96_halves::SHARED == gg_shared_dgemm_tma_64x96_halves, "kernels.def");
static_assert(d128x64_pair::SHARED == gg_shared_dgemm_tma_128x64_pair && d16x128::SHARED == gg_shared_dgemm_tma_16x128, "kernels.def");

extern "C" {
#if !GG_CUT /* tiles of these are not cut among the blocks of clusters */
__global__ void __launch_bounds__(d192x96::THREADS, 1) dgemm_tma_192x96(const __grid_constant__ gg_args p) { dgemm_tma<d192x96>::run(p); }
__global__ void __launch_bounds__(d128x64_pair::THREADS, 1) dgemm_tma_128x64_pair(const __grid_constant__ gg_args p)
{
    dgemm_tma<d128x64_pair>::run(p);
}
__global__ void __launch_bounds__(d64x64_pair::THREADS, 1) dgemm_tma_64x64_pair(const __grid_constant__ gg_args p) { dgemm_tma<d64x64_pair>::run(p); }
__global__ void __launch_bounds__(d128x128::THREADS, 1) dgemm_tma_128x128(const __grid_constant__ gg_args p) { dgemm_tma<d128x128>::run(p); }
__global__ void __launch_bounds__(d128x64::THREADS, 1) dgemm_tma_128x64(const __grid_constant__ gg_args p) { dgemm_tma<d128x64>::run(p); }
#endif
__global__ void __launch_bounds__(d64x64::THREADS, 2) dgemm_tma_64x64(const __grid_constant__ gg_args p) { dgemm_tma<d64x64>::run(p); }
__global__ void __launch_bounds__(d64x64_halves::THREADS, 1) dgemm_tma_64x64_halves(const __grid_constant__ gg_args p)
{
    dgemm_tma<d64x64_halves>::run(p);
}
__global__ void __launch_bounds__(d96x64_halves::THREADS, 1) dgemm_tma_96x64_halves(const __grid_constant__ gg_args p)
{
    dgemm_tma<d96x64_halves>::run(p);
}
__global__ void __launch_bounds__(d64x96_halves::THREADS, 1) dgemm_tma_64x96_halves(const __grid_constant__ gg_args p)
{
    dgemm_tma<d64x96_halves>::run(p);
}
__global__ void __launch_bounds__(d48x48::THREADS, 2) dgemm_tma_48x48(const __grid_constant__ gg_args p) { dgemm_tma<d48x48>::run(p); }
__global__ void __launch_bounds__(d96x48::THREADS, 1) dgemm_tma_96x48(const __grid_constant__ gg_args p) { dgemm_tma<d96x48>::run(p); }
__global__ void __launch_bounds__(d48x32::THREADS, 1) dgemm_tma_48x32(const __grid_constant__ gg_args p) { dgemm_tma<d48x32>::run(p); }
__global__ void __launch_bounds__(d16x128::THREADS, 2) dgemm_tma_16x128(const __grid_constant__ gg_args p) { dgemm_tma<d16x128>::run(p); }
__global__ void __launch_bounds__(d64x32::THREADS, 2) dgemm_tma_64x32(const __grid_constant__ gg_args p) { dgemm_tma<d64x32>::run(p); }
__global__ void __launch_bounds__(d32x64::THREADS, 2) dgemm_tma_32x64(const __grid_constant__ gg_args p) { dgemm_tma<d32x64>::run(p); }
}
#endif

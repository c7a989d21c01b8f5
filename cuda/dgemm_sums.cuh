/* dgemm_sums.cuh — the parameters of dgemm_tma.cu's rows and the epilogue: how a lane reads operands, which rows and columns of a tile it therefore
 * holds, and how parts of a tile are added and C is stored. */
#ifndef GG_DGEMM_SUMS_CUH
#define GG_DGEMM_SUMS_CUH

#include "dmma.cuh"
#include "gather.cuh"
#include "pipeline.cuh"
#include "vector.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* How a lane reads elements. PAIRS: 16 bytes at a time, two neighbours in k of a k-major operand, else two neighbouring rows. In the registers of a
 * product the first neighbours come first for B, second for A. SINGLES: 8 bytes at a time. BESIDE: 8 bytes at a time, for a B beside an A that is
 * read in pairs, so that both have the same k. Each instruction of 8 or 16 bytes costs the products 1.2 clocks.
 *
 * The two rows of A that a lane has in a fragment are always neighbours, so that it stores 16 bytes of C without asking another lane, and lanes that
 * store at one time have neighbouring rows. (Exchanges between lanes are code that runs once: without them 4096x4096x64 TN took 64.0 us, with them
 * 66.1, 640x640x300 TN 16.3 and 17.3, 768 24.1 and 24.5.) */
enum gg_reads { SINGLES, PAIRS, BESIDE };

/* How a lane reads 16 rows (columns of B) × 16 k of an operand, and which rows they are. k-major operands are [row][16 k], others boxes of 16 rows,
 * [16 k][16 rows]. Either way the lines have 128 bytes, and 16-byte piece c of a line lies at c ^ (line % 8). No two lanes of an instruction hit the
 * same bank. */
template <bool KMAJOR_, gg_reads READS> struct lines {
    static constexpr bool KMAJOR = KMAJOR_;
    static_assert(READS == SINGLES || READS == PAIRS || !KMAJOR, "made for other operands");

    /* The row of a fragment's index g, half h. */
    static __device__ int row(int g, int h)
    {
        if constexpr (READS == PAIRS && KMAJOR)
            return 2 * (((g / 2 & 1) | (g / 4 << 2)) ^ (g % 2 * 3)) + h;
        else if constexpr (READS == BESIDE)
            return g + 8 * h;
        else if constexpr (READS == SINGLES && !KMAJOR)
            return g % 2 + g / 2 % 2 * 8 + g / 4 * 2 + 4 * h;
        else
            return 2 * g + h;
    }

    /* Where a lane's first element lies; all others are at an exclusive or and a constant from it. */
    static __device__ unsigned start(int lane)
    {
        const int g = row(lane / 4, 0), q = lane % 4, k = READS == SINGLES ? q : 2 * q;
        return KMAJOR ? g * 128 + (k / 2 ^ g % 8) * 16 + k % 2 * 8 : k * 128 + (g / 2 ^ k) * 16 + g % 2 * 8;
    }

    /* Loads r[u][h]: k step 2t + u, row h of group i. `at` is start() plus a multiple of 1024. */
    static __device__ void load(double (&r)[2][2], unsigned at, int i, int t)
    {
#pragma unroll
        for (int x = 0; x < 2; x++)
            if constexpr (READS == PAIRS && KMAJOR)
                load2(r[0][x], r[1][x], (at ^ (x * 16 + t * 64)) + x * 128 + i * 2048);
            else if constexpr (READS == PAIRS)
                load2(r[x][0], r[x][1], (at ^ x * 16) + x * 128 + i * 2048 + t * 1024);
            else
#pragma unroll
                for (int h = 0; h < 2; h++)
                    if constexpr (READS == BESIDE)
                        load1(r[x][h], (at ^ (x * 16 + h * 64)) + x * 128 + i * 2048 + t * 1024);
                    else if constexpr (KMAJOR)
                        load1(r[x][h], (at ^ ((2 * t + x) * 32 + h * 16)) + h * 128 + i * 2048);
                    else
                        load1(r[x][h], (at ^ (x * 64 + h * 32)) + i * 2048 + t * 1024 + x * 512);
    }
};

constexpr int gg_least(int a, int b) { return a < b ? a : b; }

/* How a row differs from the plainest. All were found by measuring (bench/variants); none is better in every row.
 *   PAIRED    two blocks side by side fetch their common A for each other
 *   AHEAD     all fragments of a step are read during the step before
 *   LATE      a warp reads B's next fragments among the last products of a step, not before the first: 48x48 is 1.01 to 1.02 times as fast; of 36 to
 *             70 such orders none is better by more than 0.4 % in any other row (bench/results/variants-2026-11-25.txt)
 *   LONG      products of 16 k, not of 8, and one set of B's fragments, each read again behind its last product. The sums then pass through the
 *             registers half as often: 128x128 is 1.02 times as fast, also where power is the limit, 128x64 1.01 (long-2026-11-28.txt)
 *   DOUBLE    a stage of the ring has two k steps, so that a warp asks half as often whether it is there */
enum gg_how { PAIRED = 1, AHEAD = 2, LATE = 4, LONG = 8, DOUBLE = 16 };

/* The constants of a row of kernels.def: tile, stages, consumer warps in each direction, blocks per SM, SLICES, the groups of warps that take the
 * stages in turn, and HOW. */
template <int TILE_M_, int TILE_N_, int STAGES_, int WARPS_M_, int WARPS_N_, int PER_SM, int SLICES_ = 1, unsigned HOW = 0> struct dgemm_row {
    static constexpr bool PAIR = HOW & PAIRED, READS_AHEAD = HOW & AHEAD, READS_LATE = HOW & LATE, ONE_B = HOW & LONG;
    static constexpr int TILE_M = TILE_M_, TILE_N = TILE_N_, STAGES = STAGES_, TILE_K = 16, MMA_K = HOW & LONG ? 16 : 8, LINES = HOW & DOUBLE ? 2 : 1;
    static constexpr int WARPS_M = WARPS_M_, WARPS_N = WARPS_N_, SLICES = SLICES_;
    static constexpr int GROUP = 32 * WARPS_M * WARPS_N, CONSUMERS = GROUP * SLICES, STEPS = TILE_K / MMA_K;
    static constexpr int WARP_M = TILE_M / WARPS_M, WARP_N = TILE_N / WARPS_N, FM = WARP_M / 16, FN = WARP_N / 8;
    static constexpr int A_BYTES = TILE_M * 128, LINE_BYTES = (TILE_M + TILE_N) * 128, BYTES = LINES * LINE_BYTES, RING_BYTES = STAGES * BYTES;
    static constexpr int ORDERS = RING_BYTES + 2 * STAGES * 8, SHARED = 1024 + ORDERS + (STAGES + 1) * 20;
    static constexpr int THREADS = CONSUMERS + 128, GIVEN = 65536 / (THREADS * PER_SM) / 8 * 8,
                         KEPT = SLICES > 1 && PER_SM > 1 ? 32
                                : PER_SM == 1            ? 56
                                                         : 40;
    static constexpr int TAKEN = gg_least(240, (THREADS * GIVEN - 128 * KEPT) / CONSUMERS / 8 * 8);
    static constexpr int SLOTS = FM * FN * 2;

    /* Where A is k-major and B is not, B's fragments can serve as the products' A: a warp's part of the tile is then transposed, and so are its
     * elements of C. */
    static constexpr bool TURNS = !READS_AHEAD && SLICES == 1 && TILE_M % WARP_N == 0 && TILE_N % WARP_M == 0;

    /* No half tiles in pairs: one block of a pair would have all of a half tile's columns, which gains nothing, and the code costs 1 %. Larger tiles
     * are not shared. */
    static constexpr bool HALVES = GROUP == 256 && SLICES == 1 && !PAIR && TILE_M * TILE_N <= 128 * 128;

    /* 16384x128x128 TT 0.93 of the time before, 4096x4096x64 TT 0.97, 1024 TT 0.99. In other layouts, whose epilogues are shorter, and in other rows
     * it gains nothing. */
    static constexpr bool REHEARSES = PAIR && TURNS && !GG_UPDATE;

    /* Code of their own for updates whose elements are all there: 4096x4096x128 by 128x64_pair 0.92 to 0.94 of the time before, 2000x2000x128 0.96,
     * 4096x4096x64 by 128x128 0.96, 400x320x200 by 32x64 0.98. Not for rows of 16 slots that run alone: in them it lies before what other updates need,
     * and 128x64 and 64x64 got 0 to 4 % slower (bench/results/again-2026-11-27.txt). */
    static constexpr bool PLAIN_UPDATES = GG_UPDATE && (PAIR || SLOTS != 16);

    static_assert((READS_AHEAD || FM * STEPS % 2 == 0) && FN % 2 == 0 && (ONE_B || STEPS % 2 == 0), "fragments take turns in two sets of registers");
    static_assert(!(HOW & LONG) || !(HOW & (AHEAD | LATE)), "LONG has an order of its own");
    static_assert(LINES == 1 || SLICES == 1, "groups take turns by k steps");
    static_assert(!PAIR || (PER_SM == 1 && TILE_M % 16 == 0), "two blocks side by side");
    /* Each group waits for every use of its own stages. A group that skipped one could mistake the use before for its own. */
    static_assert(STAGES % SLICES == 0 && STAGES >= 2 * SLICES, "a group's own stages, and its next");
    static_assert(SLICES == 1 || CONSUMERS * SLOTS * 16 <= RING_BYTES, "room for the groups' sums");
    static constexpr int TEAM = PAIR ? 2 : 1;

    static constexpr int LEAST_GATHERED = GG_WHOLE || GG_CUT || SLICES > 1 ? GG_FLAGS : GG_LEAST_GATHERED(TILE_M, TILE_N);
    static constexpr bool GATHERS = LEAST_GATHERED < GG_FLAGS;
};

/* Loops over a thread's slots of a tile, in the order in which they are stored. A macro, because as nested functions the same loops become different
 * machine code, and these kernels run their stores once and depend on short code. */
#define GG_EACH_SLOT                                                                                                                                 \
    _Pragma("unroll") for (int j = 0; j < FN; j++) _Pragma("unroll") for (int e = 0; e < 2; e++) _Pragma("unroll") for (int i = 0; i < FM; i++)

/* The sums of a consumer thread, and the epilogue. */
template <typename ROW> struct dgemm_sums : ROW {
    using ROW::GROUP, ROW::CONSUMERS, ROW::SLICES, ROW::PAIR, ROW::TEAM, ROW::ORDERS;
    using ROW::TILE_M, ROW::TILE_N, ROW::WARPS_M, ROW::WARPS_N, ROW::WARP_M, ROW::WARP_N, ROW::FM, ROW::FN, ROW::SLOTS, ROW::HALVES,
        ROW::PLAIN_UPDATES, ROW::GATHERS;

    static constexpr int WARPS = CONSUMERS / 32;

    double sum[FM][FN][4];

    static __device__ void exchange(double &x, double &y)
    {
        const double was = x;
        x = y, y = was;
    }

    static __device__ void consumer_barrier() { asm volatile("bar.sync 1, %0;" ::"n"(CONSUMERS) : "memory"); }

    /* Where a lane's sums lie in a tile. That follows from how lanes read operands, and is the only thing in the epilogue that depends on the
     * layouts, apart from TURNED. Slot (i, j, e) is sum[i][j][e] and [e + 2], two neighbouring rows of a column of C. Slot 0 is at (row, column) of
     * the warp's part, which begins at (m, n). i adds 16 rows, j / 2 adds 16 columns, j % 2 adds odd_column and e adds e_step columns; if TURNED, i
     * adds columns, and j / 2 and e add rows. */
    struct map {
        int m, n, row, column, e_step, odd_column;
    };

    /* Where this thread's warp's part of a tile begins, in rows and columns of its products. */
    template <bool TURNED> static __device__ void part_of_warp(int &rows, int &columns, int warp = thread_index() / 32 % (GROUP / 32))
    {
        constexpr int warps = TURNED ? TILE_N / WARP_M : WARPS_M;
        if constexpr (HALVES)
            gg_warp_part<warps>(warp, rows, columns);
        else
            rows = warp % warps, columns = warp / warps;
        rows *= WARP_M, columns *= WARP_N;
    }

    /* Finds where the products left the lane's sums, and puts neighbours of a column of C where slots want them. */
    template <typename A, typename B, bool TURNED> __device__ map settle()
    {
        const int t = thread_index() % 32, odd = B::row(0, 1) - B::row(0, 0);
        const int row = A::row(t / 4, 0), column = B::row(t % 4 * 2, 0), next = B::row(t % 4 * 2 + 1, 0) - column;
        int rows, columns;
        part_of_warp<TURNED>(rows, columns);
        if constexpr (TURNED) {
            /* The two neighbours are in two fragments. */
#pragma unroll
            for (int i = 0; i < FM; i++)
#pragma unroll
                for (int j = 0; j < FN; j += 2)
#pragma unroll
                    for (int e = 0; e < 2; e++)
                        exchange(sum[i][j + 1][e], sum[i][j][e + 2]);
            return {columns, rows, column, row, next, 1};
        } else
            return {rows, columns, row, column, next, odd};
    }

    /* Blocks of a cluster that share a tile's k. */
    static __device__ int splits(const gg_args &p) { return GG_CUT ? p.splits : 1; }

    /* Whether a tile has more than one block, or cluster. Only groups of warps also have several clusters. */
    static constexpr bool PARTS = !GG_WHOLE && (!GG_CUT || SLICES > 1);

    /* What the producer has told about the piece's sums (struct gg_piece): their fate; the first unit whose parts are added here; and how many gather
     * the tile. */
    static __device__ int fate_of(unsigned order) { return !PARTS ? WHOLE : GATHERS ? ordered(order, ORDER_FATE) % 4 : ordered(order, ORDER_FATE); }
    static __device__ int first_of(unsigned order, int unit) { return PARTS ? ordered(order, ORDER_FIRST) : unit; }
    static __device__ int units_of(unsigned order) { return ordered(order, ORDER_FATE) / 4; }
    static __device__ bool publishes(int fate) { return fate == PUBLISH || (GATHERS && fate == GATHER); }

    /* Slot s of this thread in the part of a unit (a block or a cluster; in a pair, a block's half). */
    static __device__ double2 *part(const gg_args &p, int unit, int thread, int s)
    {
        return static_cast<double2 *>(p.workspace) + int64_t(unit) * (TILE_M * TILE_N / 2) + s * GROUP + thread;
    }

    /* Where a thread's sums go in C. */
    template <bool TURNED> struct output {
        double *c;
        int64_t ldc;
        double alpha, beta;
        int left_m, left_n, e_step, odd_column;
        bool pairs;

        __device__ output(const gg_args &p, int m, int n, const map &where)
        {
            m += where.m + where.row, n += where.n + where.column;
            ldc = p.ldc;
            c = static_cast<double *>(p.c) + m + n * ldc;
            left_m = int(p.m) - m, left_n = int(p.n) - n;
            alpha = p.alpha, beta = p.beta;
            pairs = p.c_vec;
            e_step = where.e_step, odd_column = where.odd_column;
        }

        __device__ int row(int i, int j, int e) const { return TURNED ? j / 2 * 16 + (e ? e_step : 0) : i * 16; }

        __device__ int column(int i, int j, int e) const
        {
            return TURNED ? i * 16 + (j % 2 ? odd_column : 0) : j / 2 * 16 + (j % 2 ? odd_column : 0) + (e ? e_step : 0);
        }

        /* Everything this thread stores is inside C and aligned in pairs. Then little code suffices, which counts where it runs once. */
        __device__ bool plain() const { return pairs && row(FM - 1, FN - 1, 1) + 1 < left_m && column(FM - 1, FN - 1, 1) < left_n; }

        /* The same for what is inside C: all pairs are whole. */
        __device__ bool whole_pairs() const { return !GG_UPDATE && pairs && left_m % 2 == 0; }
        __device__ bool inside(int i, int j, int e) const { return row(i, j, e) < left_m && column(i, j, e) < left_n; }

        __device__ double2 *at(int i, int j, int e) const { return reinterpret_cast<double2 *>(c + row(i, j, e) + column(i, j, e) * ldc); }

        /* What C is there before, where it counts. See gg_put_all. */
        __device__ double2 old(int i, int j, int e) const
        {
            double2 was = {};
            const int left = left_m - row(i, j, e);
            if (column(i, j, e) >= left_n || left <= 0)
                return was;
            const double2 *const both = at(i, j, e);
            if (pairs && left > 1)
                return *both;
            was.x = both->x;
            if (left > 1)
                was.y = both->y;
            return was;
        }

        __device__ void put(int i, int j, int e, double x, double y, const double2 &was) const
        {
            const int left = left_m - row(i, j, e);
            if (column(i, j, e) >= left_n || left <= 0)
                return;
            double2 *const both = at(i, j, e);
            x *= alpha, y *= alpha;
            if (GG_UPDATE)
                x += beta * was.x, y += beta * was.y;
            if (pairs && left > 1) {
                *both = make_double2(x, y);
                return;
            }
            both->x = x;
            if (left > 1)
                both->y = y;
        }
    };

    /* The sums of a piece go to C, or to the block that collects them. Slot s of a thread is two elements of one column of the tile. rehearses: its
     * caller has no piece, and nothing is stored. */
    template <bool TURNED> __device__ void finish(const gg_args &p, unsigned order, const map &where, unsigned shared, bool rehearses)
    {
        const int thread = thread_index(), unit = blockIdx.x / TEAM, rank = blockIdx.x % TEAM, m = rehearses ? 0 : ordered(order, ORDER_M),
                  n = rehearses ? 0 : ordered(order, ORDER_N), fate = rehearses ? WHOLE : fate_of(order),
                  first = rehearses ? unit : first_of(order, unit);
        if (fate == COLLECT)
            await_parts<CONSUMERS>(p, first, unit, rank, thread, consumer_barrier);
        for (int from = (GATHERS && fate == GATHER ? unit : first) * TEAM + rank; !GG_WHOLE && from < int(blockIdx.x); from += TEAM)
#pragma unroll
            for (int s = 0; s < SLOTS; s++) {
                const double2 v = __ldcg(part(p, from, thread, s));
                sum[s / 2 / FN][s / 2 % FN][s % 2] += v.x, sum[s / 2 / FN][s / 2 % FN][s % 2 + 2] += v.y;
            }
        if (publishes(fate)) {
#pragma unroll
            for (int s = 0; s < SLOTS; s++)
                __stcg(part(p, blockIdx.x, thread, s), make_double2(sum[s / 2 / FN][s / 2 % FN][s % 2], sum[s / 2 / FN][s / 2 % FN][s % 2 + 2]));
            if (GATHERS && fate == GATHER)
                gather<TURNED>(p, order, where, shared);
        } else if (const output<TURNED> out(p, m, n, where); __builtin_expect(!GG_UPDATE && (rehearses || out.plain()), 1)) {
            GG_EACH_SLOT
                gg_store_unless(rehearses, out.at(i, j, e), make_double2(out.alpha * sum[i][j][e], out.alpha * sum[i][j][e + 2]));
        } else if (PLAIN_UPDATES && out.plain()) {
            gg_put_all<SLOTS, 16>(
                true, [&](int s) { return *out.at(s % FM, s / FM / 2, s / FM % 2); },
                [&](int s, const double2 &was) {
                    const double *const v = sum[s % FM][s / FM / 2] + s / FM % 2;
                    *out.at(s % FM, s / FM / 2, s / FM % 2) = make_double2(out.alpha * v[0] + out.beta * was.x, out.alpha * v[2] + out.beta * was.y);
                });
        } else if (out.whole_pairs()) {
            GG_EACH_SLOT
                if (out.inside(i, j, e))
                    *out.at(i, j, e) = make_double2(out.alpha * sum[i][j][e], out.alpha * sum[i][j][e + 2]);
        } else {
            gg_put_all<SLOTS, 8>(
                true, [&](int s) { return out.old(s % FM, s / FM / 2, s / FM % 2); },
                [&](int s, const double2 &was) {
                    const double *const v = sum[s % FM][s / FM / 2] + s / FM % 2;
                    out.put(s % FM, s / FM / 2, s / FM % 2, v[0], v[2], was);
                });
        }
        announce(p, fate, first, unit, rank, thread);
    }

    /* This unit's part is written; all units of the tile add it up together. */
    template <bool TURNED> static __device__ void gather(const gg_args &p, unsigned order, map where, unsigned shared)
    {
        const int unit = blockIdx.x / TEAM, first = first_of(order, unit);
        const auto place = [&](unsigned chunk) { /* in C, of the lane's two elements */
            int rows, columns;
            part_of_warp<TURNED>(rows, columns, chunk % WARPS);
            where.m = TURNED ? columns : rows, where.n = TURNED ? rows : columns;
            return output<TURNED>(p, ordered(order, ORDER_M), ordered(order, ORDER_N), where);
        };
        gg_gather_tile<CONSUMERS, SLOTS * WARPS>(
            p, blockIdx.x, TEAM, unit - first, units_of(order), thread_index(), shared,
            [&](int u) -> const double2 * { return part(p, blockIdx.x + (first + u - unit) * TEAM, 0, 0); },
            [&](unsigned chunk) {
                const unsigned s = chunk / WARPS;
                return GG_UPDATE ? place(chunk).old(s / 2 / FN, s / 2 % FN, s % 2) : double2();
            },
            [&](unsigned chunk, const double2 &sum, const double2 &was) {
                const unsigned s = chunk / WARPS;
                place(chunk).put(s / 2 / FN, s / 2 % FN, s % 2, sum.x, sum.y, was);
            },
            consumer_barrier);
    }

    /* After the sums: announces the part written, or clears the flags of the parts read. */
    static __device__ void announce(const gg_args &p, int fate, int first, int unit, int rank, int thread)
    {
        if (fate == PUBLISH)
            announce_part(p, thread, consumer_barrier);
        else if (fate == COLLECT)
            forget_parts<CONSUMERS>(p, first, unit, rank, thread, consumer_barrier);
    }

    /* Every group of warps, in a cluster of every block, adds up its share of the slots in the order of k. Work that needs no waiting is done between
     * arriving and waiting, as a block has nothing else to do at this point. */
    template <bool TURNED> __device__ void finish_share(const gg_args &p, const map &where, unsigned shared, int slice)
    {
        constexpr bool cluster = GG_CUT;
        const int thread = thread_index(), in_group = thread - slice * GROUP, rank = cluster ? cluster_rank() : 0,
                  unit = cluster ? cluster_index() : int(blockIdx.x);
        const unsigned order = shared + ORDERS;
        const int m = ordered(order, ORDER_M), n = ordered(order, ORDER_N), fate = fate_of(order), first = first_of(order, unit);
        consumer_barrier(); /* after this the ring's memory is free: all stages have been read */
#pragma unroll
        for (int s = 0; s < SLOTS; s++)
            if (!KEEPS || s / SHARE != slice)
                asm volatile("st.shared.v2.f64 [%0], {%1, %2};" ::"r"(shared + ((slice * SLOTS + s) * GROUP + in_group) * 16),
                             "d"(sum[s % FM][s / FM / 2][s / FM % 2]), "d"(sum[s % FM][s / FM / 2][s / FM % 2 + 2])
                             : "memory");
        if (cluster)
            cluster_arrive_shared();
        const output<TURNED> out(p, m, n, where);
        if constexpr (KEEPS) {
            consumer_barrier();
            exchange_shares(shared, in_group, slice, out);
        } else if constexpr (!cluster) {
            consumer_barrier();
            add_shares<1>(p, fate, shared, in_group, first, unit, rank, SLOTS * slice / SLICES, SLOTS * (slice + 1) / SLICES, out);
        } else {
            const unsigned share = rank * SLICES + slice, shares = splits(p) * SLICES, begin = SLOTS * share / shares,
                           end = SLOTS * (share + 1) / shares;
            cluster_wait();
            if (fate == COLLECT)
                await_parts<CONSUMERS>(p, first, unit, rank, thread, consumer_barrier);
            /* Rows of few slots have one code for all clusters, which is shorter: 200x200x1000 by 32x64 in clusters of 2 0.93 of the time before. */
            if (SLICES > 1 || (SLOTS > 8 && splits(p) <= 2))
                add_shares<2>(p, fate, shared, in_group, first, unit, rank, begin, end, out);
            else if (SLOTS > 8 && splits(p) <= 4)
                add_shares<4>(p, fate, shared, in_group, first, unit, rank, begin, end, out);
            else
                add_shares<8>(p, fate, shared, in_group, first, unit, rank, begin, end, out);
        }
        announce(p, fate, first, unit, rank, thread);
        if (cluster)
            cluster_leave(); /* others may still be reading this block's shared memory */
    }

    /* Where a tile has one block, each of two groups keeps the sums of its own share in registers, and only the other's go through shared memory. All
     * is unrolled, because registers have no index. (384 1.01 times as fast, 400 1.02, 600x1200x600 1.025; four groups' code becomes longer, and 768
     * takes 1.01 times as long.) */
    static constexpr bool KEEPS = GG_WHOLE && !GG_CUT && SLICES == 2;
    static constexpr int SHARE = SLOTS / SLICES; /* slots of a group's share; they begin with i = 0 */
    static_assert(SLICES == 1 || (SLOTS % SLICES == 0 && SHARE % FM == 0), "shares are alike");

    template <typename OUTPUT> __device__ void exchange_shares(unsigned shared, int thread, int slice, const OUTPUT &out)
    {
        double2 v[SHARE];
#pragma unroll
        for (int s = 0; s < SHARE; s++)
            asm volatile("ld.shared.v2.f64 {%0, %1}, [%2];"
                         : "=d"(v[s].x), "=d"(v[s].y)
                         : "r"(shared + (((1 - slice) * SLOTS + slice * SHARE + s) * GROUP + thread) * 16)
                         : "memory");
#pragma unroll
        for (int s = 0; s < SHARE; s++) {
            const int t = s + SHARE; /* if the share is the second group's */
            v[s].x += slice == 1 ? sum[t % FM][t / FM / 2][t / FM % 2] : sum[s % FM][s / FM / 2][s / FM % 2];
            v[s].y += slice == 1 ? sum[t % FM][t / FM / 2][t / FM % 2 + 2] : sum[s % FM][s / FM / 2][s / FM % 2 + 2];
        }
        const int first = slice * (SHARE / FM);
        const auto j = [&](int s) { return (first + s / FM) / 2; };
        const auto e = [&](int s) { return (first + s / FM) % 2; };
        if (__builtin_expect(!GG_UPDATE && out.plain(), 1)) {
#pragma unroll
            for (int s = 0; s < SHARE; s++)
                *out.at(s % FM, j(s), e(s)) = make_double2(out.alpha * v[s].x, out.alpha * v[s].y);
        } else if (out.whole_pairs()) {
#pragma unroll
            for (int s = 0; s < SHARE; s++)
                if (out.inside(s % FM, j(s), e(s)))
                    *out.at(s % FM, j(s), e(s)) = make_double2(out.alpha * v[s].x, out.alpha * v[s].y);
        } else {
            double2 was[SHARE];
#pragma unroll
            for (int s = 0; s < SHARE; s++)
                was[s] = GG_UPDATE ? out.old(s % FM, j(s), e(s)) : double2();
#pragma unroll
            for (int s = 0; s < SHARE; s++)
                out.put(s % FM, j(s), e(s), v[s].x, v[s].y, was[s]);
        }
    }

    /* BATCH: as many loads in flight as cover their latency. */
    template <int MOST, typename OUTPUT>
    static __device__ void add_shares(const gg_args &p, int fate, unsigned shared, int thread, int first, int unit, int rank, int begin, int end,
                                      const OUTPUT &out)
    {
        constexpr int BATCH = SLICES == 1                                     ? 8 / MOST
                              : SLOTS / SLICES % 3 == 0 && MOST * SLICES == 4 ? 3
                              : MOST * SLICES < 16                            ? 16 / (MOST * SLICES)
                                                                              : 1;
        /* Other clusters' parts that are loaded at one time, of all slots of a batch. (256x256x8192 by 64x64_halves in 2x4 34.0 us, slot by slot 36.5.) */
        constexpr int TOGETHER = BATCH > 4 ? 1 : BATCH > 1 ? 8 / BATCH : 4;
        constexpr bool EXACT = MOST == 1 && SLOTS / SLICES % BATCH == 0 && SLOTS % SLICES == 0;
        const bool plain = !GG_UPDATE && fate == WHOLE && out.plain(), whole_pairs = fate == WHOLE && out.whole_pairs();
        const bool reads = GG_UPDATE && fate != PUBLISH;
        uint64_t base[MOST]; /* each block's shared memory */
#pragma unroll
        for (int r = 0; MOST > 1 && r < MOST; r++)
            asm("mapa.u64 %0, %1, %2;" : "=l"(base[r]) : "l"(__cvta_shared_to_generic(shared)), "r"(r < splits(p) ? r : 0));
        for (int s0 = begin; s0 < end; s0 += BATCH) {
            double2 v[BATCH][MOST * SLICES];
#pragma unroll
            for (int b = 0; b < BATCH; b++)
#pragma unroll
                for (int r = 0; r < MOST * SLICES; r++)
                    if (MOST == 1)
                        asm volatile("ld.shared.v2.f64 {%0, %1}, [%2];"
                                     : "=d"(v[b][r].x), "=d"(v[b][r].y)
                                     : "r"(shared + ((r * SLOTS + (EXACT ? s0 + b : min(s0 + b, SLOTS - 1))) * GROUP + thread) * 16)
                                     : "memory");
                    else if (r / SLICES < splits(p) && s0 + b < end)
                        asm volatile("ld.v2.f64 {%0, %1}, [%2];"
                                     : "=d"(v[b][r].x), "=d"(v[b][r].y)
                                     : "l"(base[r / SLICES] + ((r % SLICES * SLOTS + s0 + b) * GROUP + thread) * 16)
                                     : "memory");
#pragma unroll
            for (int b = 0; b < BATCH; b++)
#pragma unroll
                for (int r = 1; r < MOST * SLICES; r++)
                    if (MOST == 1 || r / SLICES < splits(p))
                        v[b][0].x += v[b][r].x, v[b][0].y += v[b][r].y;
            if (plain) {
#pragma unroll
                for (int b = 0; b < BATCH; b++)
                    if (const unsigned s = s0 + b; EXACT || int(s) < end)
                        *out.at(s % FM, s / FM / 2, s / FM % 2) = make_double2(out.alpha * v[b][0].x, out.alpha * v[b][0].y);
                continue;
            }
            if (whole_pairs) {
#pragma unroll
                for (int b = 0; b < BATCH; b++)
                    if (const unsigned s = s0 + b; (EXACT || int(s) < end) && out.inside(s % FM, s / FM / 2, s / FM % 2))
                        *out.at(s % FM, s / FM / 2, s / FM % 2) = make_double2(out.alpha * v[b][0].x, out.alpha * v[b][0].y);
                continue;
            }
            double2 was[BATCH] = {};
            if (reads)
#pragma unroll
                for (int b = 0; b < BATCH; b++)
                    if (const unsigned s = s0 + b; int(s) < end)
                        was[b] = out.old(s % FM, s / FM / 2, s / FM % 2);
            if constexpr (PARTS)
                add_parts<TOGETHER>(
                    first, unit,
                    [&](int from) {
                        struct {
                            double2 of[BATCH];
                        } w;
#pragma unroll
                        for (int b = 0; b < BATCH; b++)
                            w.of[b] = __ldcg(part(p, from, thread, min(s0 + b, end - 1)));
                        return w;
                    },
                    [&](const auto &w) {
#pragma unroll
                        for (int b = 0; b < BATCH; b++)
                            v[b][0].x += w.of[b].x, v[b][0].y += w.of[b].y;
                    });
#pragma unroll
            for (int b = 0; b < BATCH; b++) {
                const int s = s0 + b;
                if (s >= end)
                    break;
                if (fate == PUBLISH) {
                    __stcg(part(p, unit, thread, s), v[b][0]);
                    continue;
                }
                out.put(s % FM, s / FM / 2, s / FM % 2, v[b][0].x, v[b][0].y, was[b]);
            }
        }
    }
};

#endif
#endif

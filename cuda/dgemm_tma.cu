/* dgemm_tma — FP64 on tensor cores (DMMA) for sm_90, operands by TMA in either layout. Legal where base and leading dimension are multiples of 16
 * bytes; dgemm.cu has the rest. DMMA is chained FMA with round-to-nearest, so the error is that of a plain FMA loop.
 *
 * A block is some consumer warps and a producer warpgroup, of which one thread starts copies and the rest only gives up registers. A stage of the
 * ring is 16 k of a tile's rows and columns in 128-byte lines as TMA's swizzle lays them; a warp takes fragments 16×8×8 from it, each read while the
 * products before it run, or AHEAD, where registers allow: all of a step's during the step before. Which rows a fragment takes is free, and chosen so
 * that no layout has bank conflicts (struct lines): nothing is transposed, and a product costs half the instructions of dgemm.cu's. What a block does
 * next is decided by the producer alone, who tells the consumers through shared memory: they have no registers to spare.
 *
 * When tiles do not fill the GPU, k is cut, in one launch. Either the last tiles are shared among persistent blocks (tile.cuh); a block that has the
 * end of a tile collects the other parts from the workspace. Or a cluster computes each tile, a piece of k a block, and adds up through shared
 * memory; several clusters a tile, if they are few, go through the workspace again. In some rows groups of warps take turns at the stages, SLICES of
 * them, and add up likewise: so large fragments, which read least, serve small tiles. Parts are added in a fixed order: sums depend on the grid,
 * never on timing.
 *
 * A PAIR is a cluster of two blocks with tiles side by side, in step: each fetches half of their common A for both, so that two thirds of the bytes
 * come from L2, of which it would be 200 MB in 36 µs at n = 1024.
 *
 * One elected thread starts a stage's copies one after the other. Lanes that do it side by side are a loop of 60 clocks a copy to the compiler: a
 * stage took 460 to 640 clocks, its products 256 in 32×64.
 *
 *                                                                              one H200, against cuBLAS (strict, L2 flushed, 2026-11-21)
 *   dgemm_tma_192x96         8 warps of 48×48, 5 stages, 1 block an SM         1.07 to 1.09 at n = 1536, which is 128 such tiles; shares badly
 *   dgemm_tma_128x128        8 warps of 64×32, 6 stages, 1 block an SM         1.0 at 2048 and 4096, 0.95 to 1.0 at 8192 (at the power limit)
 *   dgemm_tma_128x64         8 warps of 32×32, 8 stages, 1 block an SM         1.00 at 1024, 1.01 to 1.03 at 1000
 *   dgemm_tma_128x64_pair    likewise in pairs                                 1.02 to 1.05 times as fast as 128x64 at 1024 and 1000
 *   dgemm_tma_64x64          4 warps of 32×32, 6 stages, 2 blocks an SM        1.09 to 1.12 at 16384×128×128
 *   dgemm_tma_64x64_pair     4 warps of 32×32 in pairs, 12 stages, 1 an SM     1.01 to 1.04 at 768, 0.97 to 1.01 at 640
 *   dgemm_tma_64x64_halves   2 × 4 warps of 32×32, 12 stages, 1 block an SM    1.03 to 1.06 at 64×4096×4096, 1.06 to 1.10 at 4096×64×4096
 *   dgemm_tma_48x48          4 × 1 warp of 48×48, 8 stages, 2 blocks an SM     1.00 to 1.03 at 768, where the pairs above are chosen
 *   dgemm_tma_16x128         4 warps of 16×32, 6 stages, 2 blocks an SM        1.08 to 1.09 at 16×16384×16384 with k contiguous in B, else 0.95
 *   dgemm_tma_32x64          4 warps of 32×16, 8 stages, 2 blocks an SM        1.05 to 1.12 at 512, 0.97 to 1.09 at 384
 *
 * At n = 2048 the tensor pipe is busy 91 % of the time, cuBLAS's too; at 1024 78 % (cuBLAS's 86 %): warps wait for their fragments, which the
 * compiler likes to read late. From 2048 on the clock falls as the power limit asks. */
#include "dmma.cuh"
#include "parts.cuh"
#include "pipeline.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

__device__ inline void load2(double &x, double &y, unsigned from) { asm volatile("ld.shared.v2.f64 {%0, %1}, [%2];" : "=d"(x), "=d"(y) : "r"(from)); }

__device__ inline void load1(double &x, unsigned from) { asm volatile("ld.shared.f64 %0, [%1];" : "=d"(x) : "r"(from)); }

/* True in one thread of the warp. Unlike a comparison of threadIdx.x that lets the compiler issue a copy without a loop over the lanes. */
__device__ inline bool elect_one()
{
    unsigned elected;
    asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(elected));
    return elected;
}

/* threadIdx.x, read anew: it need not be kept in a register of the main loop, nor anything that follows from it. */
__device__ inline int thread_index()
{
    int t;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(t));
    return t;
}

/* How a lane reads 16 rows (columns of B) × 16 k of an operand, and which they are. k-major: [row][16 k], else boxes of 16 rows, [16 k][16 rows];
 * 128-byte lines either way, of which 16-byte piece c lies at c ^ (line % 8). PAIRS: 16 bytes at a time, else 8. */
template <bool KMAJOR, bool PAIRS> struct lines {
    /* Row h of g. */
    static __device__ int row(int g, int h)
    {
        if constexpr (PAIRS)
            return 2 * (((g / 2 & 1) | (g / 4 << 2)) ^ (g % 2 * 3)) + h;
        else if constexpr (KMAJOR)
            return g % 4 * 2 + g / 4 + 8 * h;
        else
            return g % 2 + g / 2 % 2 * 8 + g / 4 * 2 + 4 * h;
    }

    /* Where a lane's first element lies: all others are an exclusive or and a constant away. */
    static __device__ unsigned start(int lane)
    {
        const int g = row(lane / 4, 0), q = lane % 4, k = PAIRS ? 2 * q : q;
        return KMAJOR ? g * 128 + (k / 2 ^ g % 8) * 16 + k % 2 * 8 : k * 128 + (g / 2 ^ k) * 16 + g % 2 * 8;
    }

    /* r[u][h]: k step 2t + u, row h of group i. `at` is a multiple of 1024 beyond start(). */
    static __device__ void load(double (&r)[2][2], unsigned at, int i, int t)
    {
#pragma unroll
        for (int x = 0; x < 2; x++)
            if constexpr (PAIRS && KMAJOR)
                load2(r[0][x], r[1][x], (at ^ (x * 16 + t * 64)) + x * 128 + i * 2048);
            else if constexpr (PAIRS)
                load2(r[x][0], r[x][1], (at ^ x * 16) + x * 128 + i * 2048 + t * 1024);
            else
#pragma unroll
                for (int h = 0; h < 2; h++)
                    if constexpr (KMAJOR)
                        load1(r[x][h], (at ^ (2 * t + x) * 32) + i * 2048 + h * 1024);
                    else
                        load1(r[x][h], (at ^ (x * 64 + h * 32)) + i * 2048 + t * 1024 + x * 512);
    }
};

/* Whole tiles first, as long as all blocks are at about the same k and find each other's operands in L2; of its run of shared tiles the end, which
 * another block waits for, then the rest, the piece that waits for others last. */
template <int TILE_M, int TILE_N, int TILE_K, bool ONCE, bool PAIR> struct dgemm_piece : gg_piece<TILE_M, TILE_N, TILE_K, GG_SHORTEST_PART> {
    using base = gg_piece<TILE_M, TILE_N, TILE_K, GG_SHORTEST_PART>;
    using base::count, base::fate, base::first, base::tile;
    static constexpr int TEAM = PAIR ? 2 : 1; /* blocks of a unit, if its k is not cut */

    /* The first of the units (blocks, or clusters) whose parts of this tile are collected here. */
    __device__ int first_unit(const gg_args &p) const
    {
        int unit = blockIdx.x / p.splits;
        if (fate != COLLECT)
            return unit;
        if (!PAIR && p.splits > 1)
            return unit + 1 - p.groups;
        while (base::run_start(p, unit, gridDim.x / TEAM) > (tile - base::whole_tiles(p)) * base::steps(p))
            unit--;
        return unit;
    }

    /* The unit's piece number `index`; false: it has not so many. */
    __device__ bool find(const gg_args &p, int index)
    {
        if (!PAIR && (ONCE || p.splits > 1)) {
            base::find_in_cluster(p);
            return index == 0;
        }
        const int length = base::steps(p), whole = base::whole_tiles(p), units = gridDim.x / TEAM, unit = blockIdx.x / TEAM;
        if (unit + index * units < whole) {
            tile = unit + index * units, first = 0, count = length, fate = WHOLE;
            return true;
        }
        if (p.shared_tiles == 0)
            return false;
        index -= (whole - unit + units - 1) / units;
        const int at = base::run_start(p, unit, units); /* the unit's run of the shared tiles' k steps */
        int end = base::run_start(p, unit + 1, units);
        const int last = end / length * length, from = max(at, last); /* a tile whose end is another's */
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

constexpr int gg_least(int a, int b) { return a < b ? a : b; }

template <int TILE_M_, int TILE_N_, int STAGES_, int WARPS_M, int WARPS_N, int PER_SM, int SLICES = 1, bool PAIR = false, bool AHEAD = false>
struct dgemm_tma {
    static constexpr int TILE_M = TILE_M_, TILE_N = TILE_N_, STAGES = STAGES_, TILE_K = 16, MMA_K = 8;
    static constexpr int GROUP = 32 * WARPS_M * WARPS_N, CONSUMERS = GROUP * SLICES, STEPS = TILE_K / MMA_K;
    static constexpr int WARP_M = TILE_M / WARPS_M, WARP_N = TILE_N / WARPS_N, FM = WARP_M / 16, FN = WARP_N / 8;
    static constexpr int A_BYTES = TILE_M * 128, BYTES = (TILE_M + TILE_N) * 128, RING_BYTES = STAGES * BYTES;
    static constexpr int ORDERS = RING_BYTES + 2 * STAGES * 8, SHARED = 1024 + ORDERS + (STAGES + 1) * 20;
    static constexpr int THREADS = CONSUMERS + 128, GIVEN = 65536 / (THREADS * PER_SM) / 8 * 8,
                         KEPT = SLICES > 1 && PER_SM > 1 ? 32
                                : PER_SM == 1            ? 56
                                                         : 40;
    static constexpr int TAKEN = gg_least(240, (THREADS * GIVEN - 128 * KEPT) / CONSUMERS / 8 * 8);
    static constexpr int SLOTS = FM * FN * 2;
    using ring_type = gg_ring<STAGES>;

    static_assert((AHEAD || FM * STEPS % 2 == 0) && FN % 2 == 0 && STEPS % 2 == 0, "fragments take turns in two sets of registers");
    static_assert(!PAIR || (PER_SM == 1 && TILE_M % 16 == 0), "two blocks side by side");
    /* A group waits for all rounds of a stage or for none: it could take the one before for its own. */
    static_assert(STAGES % SLICES == 0 && STAGES >= 2 * SLICES, "a group's own stages, and its next");
    static_assert(SLICES == 1 || CONSUMERS * SLOTS * 16 <= RING_BYTES, "room for the groups' sums");
    static constexpr int TEAM = PAIR ? 2 : 1;
    using work = dgemm_piece<TILE_M, TILE_N * TEAM, TILE_K, (SLICES > 1), PAIR>;

    double sum[FM][FN][4];

    double fa[AHEAD ? 2 * FM : 2][MMA_K / 2], fb[2][FN][MMA_K / 4];

    /* A's fragment i and all of B's of a k step. */
    template <typename LA> __device__ void fetch_a(unsigned a, int k, int i, double (&to)[MMA_K / 2])
    {
        double r[2][2];
        LA::load(r, a, i, k);
#pragma unroll
        for (int e = 0; e < 4; e++)
            to[e] = r[e / 2][e % 2];
    }

    template <typename LB> __device__ void fetch_b(unsigned b, int k, int set)
    {
#pragma unroll
        for (int j = 0; j < FN / 2; j++) {
            double r[2][2];
            LB::load(r, b, j, k);
#pragma unroll
            for (int e = 0; e < 4; e++)
                fb[set][2 * j + e % 2][e / 2] = r[e / 2][e % 2];
        }
    }

    /* As gg_place, in 32 bits. A pair's tile is its blocks' side by side. */
    static __device__ void place(const gg_args &p, int index, int &m, int &n)
    {
        constexpr int GROUP = 8;
        const int tiles_m = (int(p.m) + TILE_M - 1) / TILE_M, tiles_n = (int(p.n) + TILE_N * TEAM - 1) / (TILE_N * TEAM);
        const int band = index < GROUP * tiles_n ? 0 : index / (GROUP * tiles_n), in_band = index - band * (GROUP * tiles_n),
                  rows = min(GROUP, tiles_m - band * GROUP);
        const int column = in_band / rows;
        m = (band * GROUP + in_band - column * rows) * TILE_M;
        n = (column * TEAM + int(blockIdx.x) % TEAM) * TILE_N;
    }

    static __device__ void consumer_barrier() { asm volatile("bar.sync 1, %0;" ::"n"(CONSUMERS) : "memory"); }

    /* What the producer tells the consumers of a piece before its first stage is full: its tile, how many stages it has (0: it was the last), and
     * with whose parts its sums are to be added. There is one more of them than stages: the oldest may be in use while each stage is a piece of its
     * own. */
    enum { ORDER_M, ORDER_N, ORDER_COUNT, ORDER_FATE, ORDER_FIRST, ORDER_WORDS };

    static __device__ int ordered(unsigned order, int word)
    {
        int value;
        asm volatile("ld.shared.s32 %0, [%1];" : "=r"(value) : "r"(order + 4 * word) : "memory");
        return value;
    }

    static __device__ void give_order(unsigned order, int word, int value)
    {
        asm volatile("st.shared.s32 [%0], %1;" ::"r"(order + 4 * word), "r"(value) : "memory");
    }

    /* Where a lane's sums lie in a 16×16 of a warp's: rows `row` and `row + 1`, columns `column` and `odd_column` of the even
     * fragment of a pair, column_step further of the odd one. They follow from the layouts, by which lanes read operands; the rest of the epilogue is
     * the same for all. */
    struct map {
        int row, column, odd_column, column_step;
    };

    /* Some bits of all of a fragment: they are there when all of it is. */
    static __device__ unsigned used(const double (&fragment)[MMA_K / 2])
    {
        unsigned bits = 0;
#pragma unroll
        for (int e = 0; e < MMA_K / 2; e++)
            bits |= unsigned(__double2loint(fragment[e]));
        return bits;
    }

    /* This warp has read all it will of stage `done`, here and, of a pair, where the other block has put its half of A. */
    static __device__ void release(const ring_type &ring, int done, unsigned nothing)
    {
        if constexpr (PAIR)
            ring.arrive_empty_pair(done, nothing);
        else
            ring.arrive_empty(done, nothing);
    }

    /* 0, which waits for the fragments that were read last from a stage. */
    __device__ unsigned read(unsigned zero, int set, int turn) const
    {
        unsigned bits = used(fa[turn]);
        if (AHEAD) {
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

    template <bool A_K, bool B_K> __device__ void multiply(ring_type &ring, unsigned shared, int steps)
    {
        constexpr bool PAIRS = !A_K && B_K;
        using lines_a = lines<A_K, PAIRS>;
        using lines_b = lines<B_K, PAIRS>;
        const int thread = thread_index(), warp = thread / 32 % (GROUP / 32), lane = thread % 32;
        const unsigned a = shared + warp % WARPS_M * WARP_M * 128 + lines_a::start(lane);
        const unsigned b = shared + A_BYTES + warp / WARPS_M * WARP_N * 128 + lines_b::start(lane);
        fetch_b<lines_b>(b + ring.stage * BYTES, 0, 0);
#pragma unroll
        for (int i = 0; i < (AHEAD ? FM : 1); i++)
            fetch_a<lines_a>(a + ring.stage * BYTES, 0, i, fa[i]);
        int done = 0;
        unsigned zero; /* of which the compiler knows nothing: with it an arrival wants a fragment, and comes when all before it were read, too */
        asm volatile("mov.u32 %0, %%tid.z;" : "=r"(zero));
#pragma unroll 1
        for (int left = steps; left > 0; left--) {
            done = ring.stage;
            unsigned next = ring.stage * BYTES;
            ring.template skip<SLICES>();
#pragma unroll
            for (int s = 0; s < STEPS; s++) {
                const int set = s % 2, ahead = s + 1 < STEPS ? s + 1 : 0;
                const unsigned stage = next;
                if (ahead == 0) {
                    ring.wait_full(); /* whatever comes next, if only the end of all work */
                    next = ring.stage * BYTES;
                }
#pragma unroll
                for (int i = 0; i < FM; i++) {
                    if (i == 0)
                        fetch_b<lines_b>(b + next, ahead, set ^ 1);
                    const int turn = AHEAD ? set * FM + i : (s * FM + i) % 2;
                    if (AHEAD)
                        fetch_a<lines_a>(a + next, ahead, i, fa[(set ^ 1) * FM + i]);
                    else if (i + 1 < FM)
                        fetch_a<lines_a>(a + stage, s, i + 1, fa[turn ^ 1]);
                    else
                        fetch_a<lines_a>(a + next, ahead, 0, fa[turn ^ 1]);
#pragma unroll
                    for (int j = 0; j < FN; j++) {
                        mma<MMA_K>(sum[i][i % 2 ? FN - 1 - j : j], fa[turn], fb[set][i % 2 ? FN - 1 - j : j]);
                        if (ahead == 0 && i == FM - 1 && j == 0)
                            release(ring, done, read(zero, set, turn));
                    }
                }
            }
        }
    }

    /* Where the products left the lane's sums. Layouts that leave it rows r and r + STEP have another lane with r + 1 and r + 1 + STEP: they change,
     * so that each has two neighbours and stores 16 bytes. */
    template <bool A_K, bool B_K> __device__ map settle()
    {
        using lines_a = lines<A_K, !A_K && B_K>;
        using lines_b = lines<B_K, !A_K && B_K>;
        constexpr int OTHER = A_K ? 16 : 4;
        const int t = thread_index() % 32, step = lines_a::row(0, 1) - lines_a::row(0, 0);
        int row = lines_a::row(t / 4, 0);
        if (step != 1) {
            const bool upper = t & OTHER;
            row += upper ? step - 1 : 0;
#pragma unroll
            for (int i = 0; i < FM; i++)
#pragma unroll
                for (int j = 0; j < FN; j++)
#pragma unroll
                    for (int e = 0; e < 2; e++) {
                        const double got = __shfl_xor_sync(~0u, upper ? sum[i][j][e] : sum[i][j][e + 2], OTHER);
                        sum[i][j][e] = upper ? got : sum[i][j][e];
                        sum[i][j][e + 2] = upper ? sum[i][j][e + 2] : got;
                    }
        }
        return {row, lines_b::row(t % 4 * 2, 0), lines_b::row(t % 4 * 2 + 1, 0), lines_b::row(0, 1) - lines_b::row(0, 0)};
    }

    /* Blocks of a cluster that a tile's k is cut among. */
    static __device__ int splits(const gg_args &p) { return PAIR ? 1 : p.splits; }

    __device__ void consume(const gg_args &p, ring_type ring, unsigned shared)
    {
        for (unsigned order = 0;; order = order == STAGES * ORDER_WORDS * 4 ? 0 : order + ORDER_WORDS * 4) {
            const int slice = SLICES == 1 ? 0 : thread_index() / GROUP;
            for (int s = 0; s < slice; s++)
                ring.next();
            ring.wait_full();
            int count = ordered(shared + ORDERS + order, ORDER_COUNT);
            if (count == 0)
                return;
            if (SLICES > 1)
                count = (count - slice + SLICES - 1) / SLICES;
            map where;
            clear(sum);
            if (p.a_kmajor) {
                if (p.b_kmajor)
                    multiply<true, true>(ring, shared, count), where = settle<true, true>();
                else
                    multiply<true, false>(ring, shared, count), where = settle<true, false>();
            } else if (p.b_kmajor)
                multiply<false, true>(ring, shared, count), where = settle<false, true>();
            else
                multiply<false, false>(ring, shared, count), where = settle<false, false>();
            if (SLICES > 1 || splits(p) > 1)
                return finish_share(p, where, shared, slice);
            finish(p, shared + ORDERS + order, where);
        }
    }

    /* Part of a unit (a block, or a cluster; of a pair, a block's half): slot s of this thread. */
    static __device__ double2 *part(const gg_args &p, int unit, int thread, int s)
    {
        return static_cast<double2 *>(p.workspace) + int64_t(unit) * (TILE_M * TILE_N / 2) + s * GROUP + thread;
    }

    /* A thread's place in C. */
    struct output {
        double *c;
        int64_t ldc;
        double alpha, beta;
        int left_m, left_n;
        bool pairs;
        map where;

        __device__ output(const gg_args &p, int m, int n, int thread, const map &at)
        {
            const int warp = thread / 32;
            m += warp % WARPS_M * WARP_M + at.row;
            n += warp / WARPS_M * WARP_N;
            ldc = p.ldc;
            c = static_cast<double *>(p.c) + m + n * ldc;
            left_m = int(p.m) - m, left_n = int(p.n) - n;
            alpha = p.alpha, beta = p.beta;
            pairs = p.c_vec;
            where = at;
        }

        __device__ int column(int j, int e) const { return j / 2 * 16 + (e ? where.odd_column : where.column) + j % 2 * where.column_step; }

        /* All that this thread stores is there, in pairs, and C is not read: little code, which is what counts where it is run once. */
        __device__ bool plain() const { return pairs && beta == 0 && FM * 16 - 15 < left_m && FN / 2 * 16 - 1 < left_n; }

        __device__ double2 *at(int i, int j, int e) const { return reinterpret_cast<double2 *>(c + i * 16 + column(j, e) * ldc); }

        __device__ void put(int i, int j, int e, double x, double y) const
        {
            const int row = i * 16;
            if (column(j, e) >= left_n || row >= left_m)
                return;
            double *to = c + row + column(j, e) * ldc;
            x *= alpha, y *= alpha;
            if (pairs && row + 1 < left_m) {
                double2 *const both = reinterpret_cast<double2 *>(to);
                if (beta != 0) {
                    const double2 old = *both;
                    x += beta * old.x, y += beta * old.y;
                }
                *both = make_double2(x, y);
                return;
            }
            *to = beta == 0 ? x : x + beta * *to;
            to++;
            if (row + 1 < left_m)
                *to = beta == 0 ? y : y + beta * *to;
        }
    };

    /* The sums of a piece go to C or to the block that collects them. Slot s of a thread: two elements of one column of the tile. */
    __device__ void finish(const gg_args &p, unsigned order, const map &where)
    {
        const int thread = thread_index(), unit = blockIdx.x / TEAM, rank = blockIdx.x % TEAM, m = ordered(order, ORDER_M),
                  n = ordered(order, ORDER_N), fate = ordered(order, ORDER_FATE), first = ordered(order, ORDER_FIRST);
        if (fate == COLLECT)
            await_parts<CONSUMERS>(p, first, unit, rank, thread, consumer_barrier);
        for (int from = first * TEAM + rank; from < int(blockIdx.x); from += TEAM)
#pragma unroll
            for (int s = 0; s < SLOTS; s++) {
                const double2 v = __ldcg(part(p, from, thread, s));
                sum[s / 2 / FN][s / 2 % FN][s % 2] += v.x, sum[s / 2 / FN][s / 2 % FN][s % 2 + 2] += v.y;
            }
        if (fate == PUBLISH) {
#pragma unroll
            for (int s = 0; s < SLOTS; s++)
                __stcg(part(p, blockIdx.x, thread, s), make_double2(sum[s / 2 / FN][s / 2 % FN][s % 2], sum[s / 2 / FN][s / 2 % FN][s % 2 + 2]));
        } else if (const output out(p, m, n, thread, where); out.plain()) {
#pragma unroll
            for (int j = 0; j < FN; j++)
#pragma unroll
                for (int e = 0; e < 2; e++)
#pragma unroll
                    for (int i = 0; i < FM; i++)
                        *out.at(i, j, e) = make_double2(out.alpha * sum[i][j][e], out.alpha * sum[i][j][e + 2]);
        } else {
#pragma unroll
            for (int j = 0; j < FN; j++)
#pragma unroll
                for (int e = 0; e < 2; e++)
#pragma unroll
                    for (int i = 0; i < FM; i++)
                        out.put(i, j, e, sum[i][j][e], sum[i][j][e + 2]);
        }
        announce(p, fate, first, unit, rank, thread);
    }

    /* A part is written, or others' are read. */
    static __device__ void announce(const gg_args &p, int fate, int first, int unit, int rank, int thread)
    {
        if (fate == PUBLISH)
            announce_part(p, thread, consumer_barrier);
        else if (fate == COLLECT)
            forget_parts<CONSUMERS>(p, first, unit, rank, thread, consumer_barrier);
    }

    /* In a cluster every block adds up its share of the slots, in the order of k. */
    __device__ void finish_share(const gg_args &p, const map &where, unsigned shared, int slice)
    {
        const int thread = thread_index(), in_group = thread - slice * GROUP, unit = blockIdx.x / p.splits, rank = blockIdx.x % splits(p);
        const unsigned order = shared + ORDERS;
        const int m = ordered(order, ORDER_M), n = ordered(order, ORDER_N), fate = ordered(order, ORDER_FATE), first = ordered(order, ORDER_FIRST);
        if (fate == COLLECT)
            await_parts<CONSUMERS>(p, first, unit, rank, thread, consumer_barrier);
        consumer_barrier(); /* the ring is free: all of its stages are read */
#pragma unroll
        for (int s = 0; s < SLOTS; s++)
            asm volatile("st.shared.v2.f64 [%0], {%1, %2};" ::"r"(shared + ((slice * SLOTS + s) * GROUP + in_group) * 16),
                         "d"(sum[s / 2 / FN][s / 2 % FN][s % 2]), "d"(sum[s / 2 / FN][s / 2 % FN][s % 2 + 2])
                         : "memory");
        if (SLICES == 1 || splits(p) > 1)
            cluster_sync();
        else
            consumer_barrier();
        const output out(p, m, n, in_group, where);
        const int share = rank * SLICES + slice, shares = splits(p) * SLICES, begin = SLOTS * share / shares, end = SLOTS * (share + 1) / shares;
        if (SLICES > 1 && splits(p) == 1)
            add_shares<1>(p, fate, shared, in_group, first, unit, begin, end, out);
        else if (SLICES > 1 || splits(p) <= 2)
            add_shares<2>(p, fate, shared, in_group, first, unit, begin, end, out);
        else if (splits(p) <= 4)
            add_shares<4>(p, fate, shared, in_group, first, unit, begin, end, out);
        else
            add_shares<8>(p, fate, shared, in_group, first, unit, begin, end, out);
        announce(p, fate, first, unit, rank, thread);
        if (SLICES == 1 || splits(p) > 1)
            cluster_leave(); /* others may still be reading this block's shared memory */
    }

    /* As many loads at a time as cover their latency. */
    template <int MOST>
    static __device__ void add_shares(const gg_args &p, int fate, unsigned shared, int thread, int first, int unit, int begin, int end,
                                      const output &out)
    {
        constexpr int BATCH = SLICES == 1 ? 8 / MOST : MOST * SLICES < 16 ? 16 / (MOST * SLICES) : 1;
        for (int s0 = begin; s0 < end; s0 += BATCH) {
            double2 v[BATCH][MOST * SLICES];
#pragma unroll
            for (int b = 0; b < BATCH; b++)
#pragma unroll
                for (int r = 0; r < MOST * SLICES; r++)
                    if (MOST == 1)
                        asm volatile("ld.shared.v2.f64 {%0, %1}, [%2];"
                                     : "=d"(v[b][r].x), "=d"(v[b][r].y)
                                     : "r"(shared + ((r * SLOTS + min(s0 + b, SLOTS - 1)) * GROUP + thread) * 16)
                                     : "memory");
                    else if (r / SLICES < splits(p))
                        asm volatile("{ .reg .u32 at; mapa.shared::cluster.u32 at, %2, %3; ld.shared::cluster.v2.f64 {%0, %1}, [at]; }"
                                     : "=d"(v[b][r].x), "=d"(v[b][r].y)
                                     : "r"(shared + ((r % SLICES * SLOTS + min(s0 + b, SLOTS - 1)) * GROUP + thread) * 16), "r"(r / SLICES)
                                     : "memory");
#pragma unroll
            for (int b = 0; b < BATCH; b++) {
                const int s = s0 + b;
                if (s >= end)
                    break;
#pragma unroll
                for (int r = 1; r < MOST * SLICES; r++)
                    if (MOST == 1 || r / SLICES < splits(p))
                        v[b][0].x += v[b][r].x, v[b][0].y += v[b][r].y;
                if (fate == PUBLISH) {
                    __stcg(part(p, unit, thread, s), v[b][0]);
                    continue;
                }
#pragma unroll 8
                for (int from = first; from < unit; from++) {
                    const double2 w = __ldcg(part(p, from, thread, s));
                    v[b][0].x += w.x, v[b][0].y += w.y;
                }
                out.put(s / 2 / FN, s / 2 % FN, s % 2, v[b][0].x, v[b][0].y);
            }
        }
    }

    /* Starts the copies of a stage: 16 k from k on. Of a pair's A each block fetches half, for both. */
    static __device__ void copy_stage(const gg_args &p, const ring_type &ring, unsigned to, int m, int n, int k)
    {
        const int rank = PAIR ? int(blockIdx.x) % TEAM : 0;
        if (p.a_kmajor) {
            constexpr int ROWS = TILE_M / TEAM;
            copy_a(p, ring, to + rank * (ROWS * 128), k, m + rank * ROWS);
        } else {
#pragma unroll
            for (int box = 0; box < TILE_M / 16; box += TEAM)
                copy_a(p, ring, to + (box + rank) * 2048, m + (box + rank) * 16, k);
        }
        if (p.b_kmajor)
            ring.copy_box(ring.stage, to + A_BYTES, &p.map_b, k, n);
        else {
#pragma unroll
            for (int box = 0; box < TILE_N / 16; box++)
                ring.copy_box(ring.stage, to + A_BYTES + box * 2048, &p.map_b, n + box * 16, k);
        }
    }

    static __device__ void copy_a(const gg_args &p, const ring_type &ring, unsigned to, int x, int y)
    {
        if (PAIR)
            ring.copy_box_pair(ring.stage, to, &p.map_a, x, y);
        else
            ring.copy_box(ring.stage, to, &p.map_a, x, y);
    }

    /* By one thread. */
    static __device__ void produce(const gg_args &p, ring_type ring, unsigned shared)
    {
        work piece;
        unsigned order = shared + ORDERS;
        for (int index = 0; piece.find(p, index); index++) {
            int m, n;
            place(p, piece.tile, m, n);
            int k = piece.first * TILE_K;
            const int stages = SLICES == 1 ? piece.count : max(piece.count, SLICES);
            for (int step = 0; step < stages; step++) {
                ring.wait_empty();
                if (step == 0) {
                    give_order(order, ORDER_M, m);
                    give_order(order, ORDER_N, n);
                    give_order(order, ORDER_COUNT, piece.count);
                    give_order(order, ORDER_FATE, piece.fate);
                    give_order(order, ORDER_FIRST, piece.first_unit(p));
                }
                const bool there = SLICES == 1 || step < piece.count;
                ring.expect_full(ring.stage, there ? BYTES : 0);
                if (there)
                    copy_stage(p, ring, shared + ring.stage * BYTES, m, n, k);
                ring.next();
                k += TILE_K;
            }
            order = order == shared + ORDERS + STAGES * ORDER_WORDS * 4 ? shared + ORDERS : order + ORDER_WORDS * 4;
        }
        ring.wait_empty();
        give_order(order, ORDER_COUNT, 0);
        ring.expect_full(ring.stage, 0);
        for (int s = 1; s < SLICES; s++) {
            ring.next();
            ring.wait_empty();
            ring.expect_full(ring.stage, 0);
        }
    }

    static __device__ void run(const gg_args &p)
    {
        extern __shared__ __align__(1024) char memory[];
        const unsigned shared = (gg_shared(memory) + 1023) & ~1023u; /* as the swizzle wants it */
        ring_type ring(reinterpret_cast<uint64_t *>(memory + (shared - gg_shared(memory)) + RING_BYTES));
        const bool produces = threadIdx.x / 32 == CONSUMERS / 32;
        if (produces && elect_one()) {
            asm volatile("prefetch.tensormap [%0];" ::"l"(&p.map_a) : "memory");
            asm volatile("prefetch.tensormap [%0];" ::"l"(&p.map_b) : "memory");
            ring.init(1, GROUP / 32 * TEAM);
        }
        __syncwarp();
        if (PAIR)
            cluster_sync();
        else if (produces) /* who does not wait for anybody */
            asm volatile("bar.arrive 2, %0;" ::"n"(CONSUMERS + 32) : "memory");
        else if (threadIdx.x < CONSUMERS)
            asm volatile("bar.sync 2, %0;" ::"n"(CONSUMERS + 32) : "memory");
        if (threadIdx.x >= CONSUMERS) {
            gg_give_registers<KEPT>();
            if (produces && elect_one())
                produce(p, ring, shared);
            __syncwarp();
            if (p.splits > 1) {
                if (!PAIR)
                    cluster_sync();
                cluster_leave();
            }
        } else {
            gg_take_registers<TAKEN>();
            dgemm_tma self;
            self.consume(p, ring, shared);
            if (PAIR)
                cluster_leave(); /* the other block may still arrive here, and copy */
        }
    }
};

using d192x96 = dgemm_tma<192, 96, 5, 4, 2, 1>;
using d128x128 = dgemm_tma<128, 128, 6, 2, 4, 1>;
using d128x64 = dgemm_tma<128, 64, 8, 4, 2, 1>;
using d64x64 = dgemm_tma<64, 64, 6, 2, 2, 2, 1, false, true>;
using d64x64_halves = dgemm_tma<64, 64, 12, 2, 2, 1, 2>;
using d48x48 = dgemm_tma<48, 48, 8, 1, 1, 2, 4>;
using d32x64 = dgemm_tma<32, 64, 8, 1, 4, 2, 1, false, true>;
using d16x128 = dgemm_tma<16, 128, 6, 1, 4, 2, 1, false, true>;
using d128x64_pair = dgemm_tma<128, 64, 8, 4, 2, 1, 1, true>;
using d64x64_pair = dgemm_tma<64, 64, 12, 2, 2, 1, 1, true, true>;
static_assert(d192x96::SHARED == gg_shared_dgemm_tma_192x96 && d48x48::SHARED == gg_shared_dgemm_tma_48x48, "kernels.def");
static_assert(d128x128::SHARED == gg_shared_dgemm_tma_128x128 && d128x64::SHARED == gg_shared_dgemm_tma_128x64, "kernels.def");
static_assert(d64x64::SHARED == gg_shared_dgemm_tma_64x64 && d32x64::SHARED == gg_shared_dgemm_tma_32x64, "kernels.def");
static_assert(d64x64_halves::SHARED == gg_shared_dgemm_tma_64x64_halves && d64x64_pair::SHARED == gg_shared_dgemm_tma_64x64_pair, "kernels.def");
static_assert(d128x64_pair::SHARED == gg_shared_dgemm_tma_128x64_pair && d16x128::SHARED == gg_shared_dgemm_tma_16x128, "kernels.def");

extern "C" {
__global__ void __launch_bounds__(d192x96::THREADS, 1) dgemm_tma_192x96(const __grid_constant__ gg_args p) { d192x96::run(p); }
__global__ void __launch_bounds__(d128x64_pair::THREADS, 1) dgemm_tma_128x64_pair(const __grid_constant__ gg_args p) { d128x64_pair::run(p); }
__global__ void __launch_bounds__(d64x64_pair::THREADS, 1) dgemm_tma_64x64_pair(const __grid_constant__ gg_args p) { d64x64_pair::run(p); }
__global__ void __launch_bounds__(d128x128::THREADS, 1) dgemm_tma_128x128(const __grid_constant__ gg_args p) { d128x128::run(p); }
__global__ void __launch_bounds__(d128x64::THREADS, 1) dgemm_tma_128x64(const __grid_constant__ gg_args p) { d128x64::run(p); }
__global__ void __launch_bounds__(d64x64::THREADS, 2) dgemm_tma_64x64(const __grid_constant__ gg_args p) { d64x64::run(p); }
__global__ void __launch_bounds__(d64x64_halves::THREADS, 1) dgemm_tma_64x64_halves(const __grid_constant__ gg_args p) { d64x64_halves::run(p); }
__global__ void __launch_bounds__(d48x48::THREADS, 2) dgemm_tma_48x48(const __grid_constant__ gg_args p) { d48x48::run(p); }
__global__ void __launch_bounds__(d16x128::THREADS, 2) dgemm_tma_16x128(const __grid_constant__ gg_args p) { d16x128::run(p); }
__global__ void __launch_bounds__(d32x64::THREADS, 2) dgemm_tma_32x64(const __grid_constant__ gg_args p) { d32x64::run(p); }
}
#endif

/* dgemm_sums.cuh — dgemm_tma.cu's rows and what becomes of their sums: how a lane reads operands, which rows and columns of a tile that makes its
 * own, and how parts of a tile are added and C is stored. */
#ifndef GG_DGEMM_SUMS_CUH
#define GG_DGEMM_SUMS_CUH

#include "parts.cuh"
#include "pipeline.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

__device__ inline void load2(double &x, double &y, unsigned from) { asm volatile("ld.shared.v2.f64 {%0, %1}, [%2];" : "=d"(x), "=d"(y) : "r"(from)); }

__device__ inline void load1(double &x, unsigned from) { asm volatile("ld.shared.f64 %0, [%1];" : "=d"(x) : "r"(from)); }

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

constexpr int gg_least(int a, int b) { return a < b ? a : b; }

/* A row of kernels.def: tile, stages, the consumer warps it is cut among, blocks an SM, groups of warps that take turns at the stages. */
template <int TILE_M_, int TILE_N_, int STAGES_, int WARPS_M_, int WARPS_N_, int PER_SM, int SLICES_ = 1, bool PAIR_ = false, bool AHEAD_ = false>
struct dgemm_row {
    static constexpr int TILE_M = TILE_M_, TILE_N = TILE_N_, STAGES = STAGES_, TILE_K = 16, MMA_K = 8;
    static constexpr int WARPS_M = WARPS_M_, WARPS_N = WARPS_N_, SLICES = SLICES_;
    static constexpr bool PAIR = PAIR_, AHEAD = AHEAD_;
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

    static_assert((AHEAD || FM * STEPS % 2 == 0) && FN % 2 == 0 && STEPS % 2 == 0, "fragments take turns in two sets of registers");
    static_assert(!PAIR || (PER_SM == 1 && TILE_M % 16 == 0), "two blocks side by side");
    /* A group waits for all rounds of a stage or for none: it could take the one before for its own. */
    static_assert(STAGES % SLICES == 0 && STAGES >= 2 * SLICES, "a group's own stages, and its next");
    static_assert(SLICES == 1 || CONSUMERS * SLOTS * 16 <= RING_BYTES, "room for the groups' sums");
    static constexpr int TEAM = PAIR ? 2 : 1;

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
};

/* The sums of a consumer thread. */
template <typename ROW> struct dgemm_sums : ROW {
    using ROW::GROUP, ROW::CONSUMERS, ROW::SLICES, ROW::PAIR, ROW::TEAM, ROW::ORDERS;
    using ROW::ordered, ROW::ORDER_M, ROW::ORDER_N, ROW::ORDER_FATE, ROW::ORDER_FIRST;
    using ROW::TILE_M, ROW::TILE_N, ROW::WARPS_M, ROW::WARPS_N, ROW::WARP_M, ROW::WARP_N, ROW::FM, ROW::FN, ROW::SLOTS;

    double sum[FM][FN][4];

    static __device__ void consumer_barrier() { asm volatile("bar.sync 1, %0;" ::"n"(CONSUMERS) : "memory"); }

    /* Where a lane's sums lie in a 16×16 of a warp's: rows `row` and `row + 1`, columns `column` and `odd_column` of the even
     * fragment of a pair, column_step further of the odd one. They follow from the layouts, by which lanes read operands; the rest of the epilogue is
     * the same for all. */
    struct map {
        int row, column, odd_column, column_step;
    };

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
};

#endif
#endif

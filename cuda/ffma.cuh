/* ffma.cuh — one thread's part of an FP32 tile: TM×TN sums in registers, fed from shared memory [k][m] and [k][n].
 *
 * What decides its speed on Hopper, all measured on an H200 (ncu, bench/results/):
 * - Issue slots. A scheduler issues one instruction a clock and FFMA needs every one: 16×8 sums cost 128 FFMA and 6 LDS.128 per k, 95.5 %.
 * - Register banks. An FFMA that reads two registers of one bank (even or odd numbers) takes 2 clocks; one that reads three registers takes 2
 *    in any case. The order below keeps one operand in the reuse cache, so two are read: a fragment and a sum, whose numbers must differ in parity.
 *    ptxas -O1 (cmake/cuda.cmake) leaves the order of volatile instructions alone and numbers the sums accordingly, with one exception in 64 or 128
 *    FFMAs, if nothing else wants sums in certain registers. A 16-byte store would: it wants quads. So sums are multiplied by a 1 that ptxas
 *    cannot know before they are stored. In the first and last k of a loop it does move sums and FFMAs, how many depends on the order (gg_order):
 *    4 to 17 % of a loop's FFMAs are in conflict. ptxas -O3 moves the loads to just before their use; with quads it is 50 %.
 * - Code size. 32 k of 16×8 sums is 70 KB of code, and ncu saw warps wait for instructions half as often as they issued one. At n = 8192
 *    loops of 4, 8, 16, 32 k per iteration ran at 54.3, 55.8, 53.4, 54.6 TF/s; with two blocks of 8×8 sums an SM 8, 16, 32 k ran at 43.4, 44.0,
 *    42.6 (n = 1500), and where k is short, 64, at 34.3, 33.3, 32.5: code comes from memory the first time.
 * - Shared memory. An LDS.128 takes 4 clocks of its SM's port, but 2 when lanes L and L^1, or L and L^2, all share addresses. Then two registers a
 *    clock arrive in each scheduler's part of the register file, and FFMAs that read two of them a clock wait: 1.4 clocks a load. Loads of 4 clocks
 *    cost FFMAs nothing while the port has time for them, which it has from 64 sums a thread on. gg_lanes arranges lanes accordingly. Of the peak,
 *    128 FFMAs and 6 loads a k in a loop of their own: 88.1 % with loads of 2 clocks, 93.7 % with loads of 4; issue slots allow 95.0 %
 *    (bench/results/sgemm-2026-11-25.txt). */
#ifndef GG_FFMA_CUH
#define GG_FFMA_CUH

#include "tile.cuh"

/* How a warp's lanes stand, LANES_M (4 or 8) along m and the others along n. FAST: all loads of fragments take 2 clocks of the port, else those along
 * the longer side 4. */
template <int LANES_M, bool FAST> struct gg_lanes {
    static_assert(LANES_M == 4 || LANES_M == 8, "a warp is 4×8 or 8×4 threads");
    static __device__ int of_eight(int lane) { return FAST ? lane % 2 + lane / 8 * 2 : lane % 8; }
    static __device__ int of_four(int lane) { return FAST ? lane / 2 % 4 : lane / 8; }
    static __device__ int m(int lane) { return LANES_M == 8 ? of_eight(lane) : of_four(lane); }
    static __device__ int n(int lane) { return LANES_M == 8 ? of_four(lane) : of_eight(lane); }
};

/* The order of one k's FFMAs and of the loads among them. FFMAs go back and forth in lines of sums, along m or n, so that consecutive ones share an
 * operand; BACK: from the last line to the first. The first load follows FFMA number FIRST, and each of the others comes GAP FFMAs later. Which order
 * is fastest depends on how ptxas numbers registers for it, which is different in each kernel, by up to 3 %. So most rows name their own, the best of
 * 100 to 240 that were timed in each (bench/results/sgemm-2026-11-25-2.txt, orders-2026-11-27.txt). */
template <int FIRST_, int GAP_, bool ALONG_M_, bool BACK_ = false> struct gg_order {
    static constexpr int FIRST = FIRST_, GAP = GAP_;
    static constexpr bool ALONG_M = ALONG_M_, BACK = BACK_;
};

/* Of the kernels that name none. */
template <int TM, int TN, int SLOW> using gg_usual_order = gg_order<(SLOW ? 4 : 8), (SLOW ? 6 : 8), (TN > TM)>;

/* SLOW: of how many operands the loads take 4 clocks. With 2, for rows along the shorter side, a lane's two pieces of four rows are crossed: every
 * other lane has the second piece first. Otherwise lanes L and L^1 would share addresses. */
template <int TM, int TN, int LANES_M, int PITCH_A, int PITCH_B, int SLOW = 1, class ORDER = gg_usual_order<TM, TN, SLOW>> struct gg_ffma {
    static constexpr int LANES_N = 32 / LANES_M, PIECES = (TM + TN) / 4;
    static_assert(SLOW < 2 || (TM == 8 && LANES_M == 4), "two pieces of rows, along the shorter side");
    using lanes = gg_lanes<LANES_M, SLOW == 0>;
    float sum[TM][TN];
    float fa[2][TM], fb[2][TN];

    /* To be xored with a row, counted from the lane's first, to find the one that is there in this lane. */
    static __device__ int crossed(int lane) { return SLOW == 2 ? (lane ^ lane / 2) % 2 * (4 * LANES_M) : 0; }

    /* Fetches 16 bytes of fragment number `piece`, counting those of A, then those of B. a, b: shared addresses of this thread's first element of the
     * step. */
    __device__ void fetch_piece(int set, unsigned a, unsigned b, int k, int piece)
    {
        const bool of_a = piece < TM / 4;
        const int x = (of_a ? piece : piece - TM / 4) * 4;
        float *const to = of_a ? &fa[set][x] : &fb[set][x];
        asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                     : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3])
                     : "r"(!of_a       ? b + (k * PITCH_B + x * LANES_N) * 4
                           : SLOW == 2 ? (a ^ x * LANES_M * 4) + k * PITCH_A * 4
                                       : a + (k * PITCH_A + x * LANES_M) * 4));
    }

    __device__ void fetch(int set, unsigned a, unsigned b, int k)
    {
#pragma unroll
        for (int piece = 0; piece < PIECES; piece++)
            fetch_piece(set, a, b, k, piece);
    }

    /* Multiplies the fragments of one k, in `set`, while those of the k at (a, b, k) are fetched into the other set. */
    template <bool FETCH = true> __device__ void multiply(int set, unsigned a, unsigned b, int k)
    {
        constexpr int LINE = ORDER::ALONG_M ? TM : TN, LINES = TM * TN / LINE, FIRST = ORDER::FIRST, GAP = ORDER::GAP;
        static_assert(FIRST + GAP * (PIECES - 1) <= TM * TN, "room for the loads");
#pragma unroll
        for (int at = 0; at < TM * TN; at++) {
            const int turn = at / LINE, line = ORDER::BACK ? LINES - 1 - turn : turn;
            const int along = (turn + ORDER::BACK) % 2 ? LINE - 1 - at % LINE : at % LINE;
            const int i = ORDER::ALONG_M ? along : line, j = ORDER::ALONG_M ? line : along, since = at + 1 - FIRST;
            asm volatile("fma.rn.f32 %0, %1, %2, %0;" : "+f"(sum[i][j]) : "f"(fa[set][i]), "f"(fb[set][j]));
            if (FETCH && since >= 0 && since % GAP == 0 && since / GAP < PIECES)
                fetch_piece(set ^ 1, a, b, k, since / GAP);
        }
    }

    /* A turn multiplies KS k from (a, b) on. Their first fragments must be fetched already; when it returns those at (next_a, next_b) are. */
    template <int KS> __device__ void turn(unsigned a, unsigned b, unsigned next_a, unsigned next_b)
    {
#pragma unroll
        for (int k = 0; k < KS - 1; k++)
            multiply(k & 1, a, b, k + 1);
        multiply(1, next_a, next_b, 0);
    }

    /* The same, but nothing is fetched ahead. FETCHED: the first fragments are there already. */
    template <int KS, bool FETCHED = false> __device__ void turn(unsigned a, unsigned b)
    {
        if (!FETCHED)
            fetch(0, a, b, 0);
#pragma unroll
        for (int k = 0; k < KS - 1; k++)
            multiply(k & 1, a, b, k + 1);
        multiply<false>(1, a, b, 0);
    }

    /* As the first turn, but without multiplying the last k, whose fragments are fetched when it returns. */
    template <int KS> __device__ void turn_but_last(unsigned a, unsigned b)
    {
#pragma unroll
        for (int k = 0; k < KS - 1; k++)
            multiply(k & 1, a, b, k + 1);
    }

    __device__ void clear()
    {
#pragma unroll
        for (int i = 0; i < TM; i++)
#pragma unroll
            for (int j = 0; j < TN; j++)
                sum[i][j] = 0;
    }

    /* To be called between the last turn and for_each. */
    __device__ void settle() const {}

    /* Calls f(m, n, four sums of consecutive m, times `one`) for all sums, m and n relative to the lane's first. */
    template <typename F> __device__ void for_each(float one, F f) const
    {
        const int cross = crossed(threadIdx.x % 32);
#pragma unroll
        for (int j = 0; j < TN; j++)
#pragma unroll
            for (int i = 0; i < TM; i += 4) {
                const float v[4] = {one * sum[i][j], one * sum[i + 1][j], one * sum[i + 2][j], one * sum[i + 3][j]};
                f(i * LANES_M ^ cross, j / 4 * (4 * LANES_N) + j % 4, v);
            }
    }

    /* Stores the sums that are inside C times alpha, four with each instruction; requires out.plain(). m, n: where the first one goes. It goes column
     * by column, because ptxas has no registers for all addresses. */
    template <typename OUT> __device__ void store(const OUT &out, int64_t m, int64_t n) const
    {
        float *c = out.c + m + n * out.ld;
        const int64_t ld = out.ld;
        const int row = int(m - out.own_m), column = int(n - out.own_n);
        const unsigned rows = unsigned(min(out.m - out.own_m, int64_t(1) << 30)), columns = unsigned(min(out.n - out.own_n, int64_t(1) << 30));
        int piece = 0;
        for_each(out.alpha, [&](int i, int j, const float(&v)[4]) {
            if (piece++ % (TM / 4) == 0 && j > 0) {
                c += (j % 4 ? 1 : 4 * LANES_N - 3) * ld;
                asm volatile("" : "+l"(c));
            }
            if (unsigned(row + i) < rows && unsigned(column + j) < columns)
                *reinterpret_cast<float4 *>(c + i) = make_float4(v[0], v[1], v[2], v[3]);
        });
    }

    /* Adds four values that f returns to each four sums, in the order of for_each, with AT_ONCE calls of f ahead of the additions. */
    template <int AT_ONCE = 1, typename F> __device__ void add_each(F f)
    {
        static_assert(TM * TN / 4 % AT_ONCE == 0, "as many each time");
#pragma unroll
        for (int four = 0; four < TM * TN / 4; four += AT_ONCE) {
            float4 v[AT_ONCE];
#pragma unroll
            for (int e = 0; e < AT_ONCE; e++)
                v[e] = f();
#pragma unroll
            for (int e = 0; e < AT_ONCE; e++) {
                const int i = (four + e) % (TM / 4) * 4, j = (four + e) / (TM / 4);
                sum[i][j] += v[e].x, sum[i + 1][j] += v[e].y, sum[i + 2][j] += v[e].z, sum[i + 3][j] += v[e].w;
            }
        }
    }
};

/* gg_ffma in this order, for kernels that are given a class of products by its name (sgemm.cuh). */
template <class ORDER> struct gg_ffma_in {
    template <int TM, int TN, int LANES_M, int PITCH_A, int PITCH_B> using type = gg_ffma<TM, TN, LANES_M, PITCH_A, PITCH_B, 1, ORDER>;
};

/* 1, but ptxas does not know. */
__device__ inline float gg_one(const gg_args &p) { return p.ldc > 0 ? 1.f : 0.f; }

/* Stores the results of a warp with LANES_M 8 where 16-byte stores will not do: C is not aligned, only a part of the tile is inside C, or C is read.
 * They are transposed in shared memory and stored by lanes that have consecutive elements. Storing a lane's own four would touch every sector four
 * times and take much code (4097x4097x64 by sgemm_tma_128x128 134 -> 92 us). */
struct gg_rows {
    enum { PITCH = 40, BYTES = 4 * PITCH * 4 }; /* elements between columns, chosen to avoid bank conflicts; bytes of shared memory per warp */
    unsigned to, from;
    float *c;
    int64_t ld;
    float alpha, beta;
    bool reads;
    int row, rows, column, columns;

    /* LANES: how the lanes stand (gg_lanes). m, n: the warp's first row and column. */
    template <typename LANES, typename OUT>
    __device__ gg_rows(LANES, const OUT &out, unsigned memory, int64_t m, int64_t n)
        : ld(out.ld), alpha(out.alpha), beta(out.beta), reads(out.reads())
    {
        const int lane = threadIdx.x % 32;
        to = memory + (LANES::n(lane) * PITCH + LANES::m(lane) * 4) * 4;
        from = memory + lane * 4;
        c = out.c + m + lane + n * ld;
        row = int(m - out.own_m) + lane, rows = int(min(out.m - out.own_m, int64_t(1) << 30));
        column = int(n - out.own_n), columns = int(min(out.n - out.own_n, int64_t(1) << 30));
    }

    /* Takes a lane's four sums as for_each gives them; the warp's are all C(i … i+31, j + {0, 4, 8, 12}), counted from its first row and column. */
    __device__ void put(int i, int j, const float (&v)[4]) const
    {
        asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(to), "f"(v[0]), "f"(v[1]), "f"(v[2]), "f"(v[3]) : "memory");
        __syncwarp();
        float *const at = c + i + j * ld;
        float old[4] = {};
        const auto inside = [&](int e) { return unsigned(row + i) < unsigned(rows) && unsigned(column + j + 4 * e) < unsigned(columns); };
        if (reads)
#pragma unroll
            for (int e = 0; e < 4; e++) /* all loads in flight at a time */
                if (inside(e))
                    old[e] = at[4 * e * ld];
#pragma unroll
        for (int e = 0; e < 4; e++) {
            float sum;
            asm volatile("ld.shared.f32 %0, [%1];" : "=f"(sum) : "r"(from + e * (PITCH * 4)) : "memory");
            if (inside(e))
                at[4 * e * ld] = reads ? alpha * sum + beta * old[e] : alpha * sum;
        }
        __syncwarp();
    }
};

#endif

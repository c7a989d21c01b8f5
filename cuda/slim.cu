/* slim — m or n ≤ 16 (FP64: ≤ 4) on sm_90: the large operand X is read once, and reading it takes all the time if nothing else does.
 *
 * Y, the small operand, has up to COLUMNS columns. A block takes some rows of X and one of p.splits pieces of k; the blocks of one block of rows are
 * a cluster, and add up through each other's shared memory, in ascending k. One launch, no workspace.
 *
 *   X with x contiguous: LANES lanes take U columns of as many vectors of 16 bytes at a time; the block's other lanes other k.
 *   The same for vectors, where X is not aligned or k is short (p.wide): a warp takes GG_WIDE rows, four a lane, 32 apart, and U of k, element by
 *     element: long lines, and little k.
 *   X with k contiguous: a warp takes ROWS rows, U vectors of 512 bytes of each at a time; its lanes share out k.
 *
 * The U (× ROWS) vectors of a thread are a ring: each is reloaded as soon as it is multiplied, so that up to 64 KB a block are in flight at any time.
 * Y is copied to shared memory a CHUNK of k ahead, by cp.async, 16 bytes at a time where its layout allows. Where 16-byte loads of X are illegal a
 * warp's lanes load consecutive elements, also many at a time: 511x1x8191 15.6 us, by vectors 512x1x8192 takes 13 to 14.6. No product is masked by a
 * factor of 0: beyond k neither operand is loaded, and both are 0. A 0 for X beside an existing Y would turn Inf into NaN.
 *
 * Loops are short on purpose: with a cold L2 instructions come from memory, too. */
#include "parts.cuh"
#include "pipeline.cuh"
#include "vector.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
constexpr int THREADS = 256, WARPS = THREADS / 32, MOST_SPLITS = 8;

template <typename T> __device__ inline T remote(const T *shared, unsigned rank)
{
    const unsigned at = of_block(gg_shared(shared), rank);
    T value;
    if constexpr (sizeof(T) == 4)
        asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(value) : "r"(at) : "memory");
    else
        asm volatile("ld.shared::cluster.f64 %0, [%1];" : "=d"(value) : "r"(at) : "memory");
    return value;
}

/* For X with x contiguous: LANES lanes side by side, UX columns at a time. For X with k contiguous: ROWS rows a warp, UK vectors of each at a time. A
 * turn is one pass over the rings: the U vectors (per row) of every thread. */
template <typename T, int COLUMNS, int UX, int LANES, int UK, int ROWS, int CHUNK> struct slim {
    using vector = gg_vector<T>;
    static constexpr bool PAIRS = sizeof(T) == 4 && COLUMNS > 4;
    static constexpr int V = vector::SIZE, GROUP = 32 * V, SLICES = THREADS / LANES;
    static constexpr int BLOCK_X = LANES * V, BLOCK_K = WARPS * ROWS, BLOCK_WIDE = COLUMNS == 1 ? GG_WIDE : BLOCK_X;
    static constexpr int MOST = BLOCK_WIDE > BLOCK_K ? BLOCK_WIDE : BLOCK_K;
    static constexpr int PITCH = CHUNK + V;                             /* of Y in shared memory, [column][k], where k is contiguous in X */
    static constexpr int PITCH_X = COLUMNS > 4 ? COLUMNS + V : COLUMNS; /* else, as [k][column] */
    static constexpr int BUFFER = COLUMNS * PITCH > CHUNK *PITCH_X ? COLUMNS * PITCH : CHUNK * PITCH_X;
    static constexpr int PARTS = SLICES * COLUMNS * BLOCK_X; /* the slices' sums, which replace Y at the end */
    static constexpr int Y = 2 * BUFFER > PARTS ? 2 * BUFFER : PARTS;
    static constexpr int SHARED = (Y + COLUMNS * MOST) * int(sizeof(T));

    const gg_args &p;
    T *const y, *const total; /* shared */
    const T *x;
    int64_t size_x, ld;        /* rows of X, its leading dimension */
    bool swapped, kmajor, vec; /* X is B: C(i, j) is (y, x); k is contiguous in X; 16-byte loads are legal */
    unsigned rank;
    int64_t block_x, first, last; /* of X's rows and of k */

    __device__ slim(const gg_args &args, char *shared, unsigned block) : p(args), y(reinterpret_cast<T *>(shared)), total(y + Y)
    {
        swapped = p.n > COLUMNS;
        x = static_cast<const T *>(swapped ? p.b : p.a);
        size_x = swapped ? p.n : p.m;
        ld = swapped ? p.ldb : p.lda;
        kmajor = swapped ? p.b_kmajor : p.a_kmajor;
        vec = swapped ? p.b_vec : p.a_vec;
        const unsigned shift = __ffs(p.splits) - 1; /* a power of two */
        rank = block & (p.splits - 1);
        block_x = int64_t(block >> shift) * (kmajor ? BLOCK_K : wide() ? BLOCK_WIDE : BLOCK_X);
        const int unit = kmajor ? GROUP : 1;
        const int64_t units = (p.k + unit - 1) / unit;
        first = min(p.k, (units * rank >> shift) * unit);
        last = min(p.k, (units * (rank + 1) >> shift) * unit);
    }

    __device__ bool wide() const { return COLUMNS == 1 && p.wide; }

    /* Copies `bytes` of a T or of 16 bytes; the rest becomes zero. */
    template <int SIZE> static __device__ __forceinline__ void copy(T *to, const T *from, int bytes)
    {
        if constexpr (SIZE == 16)
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(gg_shared(to)), "l"(from), "r"(bytes) : "memory");
        else
            asm volatile("cp.async.ca.shared.global [%0], [%1], %3, %2;" ::"r"(gg_shared(to)), "l"(from), "r"(bytes), "n"(SIZE) : "memory");
    }

    /* Starts copying Y's k from `k` on, rounded up to a whole turn with zeros. */
    template <bool KMAJOR, int TURN> __device__ __forceinline__ void ask(T *to, int64_t k) const
    {
        const int depth = int(min(last - k, int64_t(CHUNK))), filled = (depth + TURN - 1) / TURN * TURN, columns = int(swapped ? p.m : p.n);
        const int64_t y_ld = swapped ? p.lda : p.ldb;
        const T *from = static_cast<const T *>(swapped ? p.a : p.b);
        const bool whole = (swapped ? p.a_vec : p.b_vec) && depth == CHUNK; /* 16 bytes at a time */
        if (swapped ? p.a_kmajor : p.b_kmajor) {
            from += k;
            if (KMAJOR && whole) {
#pragma unroll 1
                for (int c = 0; c < COLUMNS; c++)
#pragma unroll 1
                    for (int l = threadIdx.x * V; l < CHUNK; l += THREADS * V)
                        copy<16>(to + c * PITCH + l, c < columns ? from + c * y_ld + l : from, c < columns ? 16 : 0);
                return;
            }
            /* A warp takes 8 k of 4 columns: no bank conflicts in either layout. */
            constexpr int WIDTH = COLUMNS < 4 ? COLUMNS : 4, HEIGHT = THREADS / WIDTH;
#pragma unroll 1
            for (int c = threadIdx.x / 8 % WIDTH; c < COLUMNS; c += WIDTH)
#pragma unroll 1
                for (int l = threadIdx.x % 8 + threadIdx.x / (8 * WIDTH) * 8; l < filled; l += HEIGHT) {
                    const bool is = c < columns && l < depth;
                    copy<sizeof(T)>(to + (KMAJOR ? c * PITCH + l : l * PITCH_X + c), is ? from + c * y_ld + l : from, is ? int(sizeof(T)) : 0);
                }
            return;
        }
        from += k * y_ld;
        if (!KMAJOR && COLUMNS % V == 0 && columns == COLUMNS && whole) {
#pragma unroll 1
            for (int e = threadIdx.x * V; e < COLUMNS * CHUNK; e += THREADS * V)
                copy<16>(to + e / COLUMNS * PITCH_X + e % COLUMNS, from + e / COLUMNS * y_ld + e % COLUMNS, 16);
            return;
        }
        const int c = threadIdx.x % COLUMNS;
#pragma unroll 1
        for (int l = threadIdx.x / COLUMNS; l < filled; l += THREADS / COLUMNS) {
            const bool is = c < columns && l < depth;
            copy<sizeof(T)>(to + (KMAJOR ? c * PITCH + l : l * PITCH_X + c), is ? from + c + l * y_ld : from, is ? int(sizeof(T)) : 0);
        }
    }

    /* Calls turns(y, its k, number of turns that a whole one follows, number of whole turns) for every chunk of the piece. */
    template <bool KMAJOR, int TURN, typename F> __device__ __forceinline__ void chunks(F turns) const
    {
        static_assert(CHUNK % TURN == 0, "turns end within a chunk");
        T *now = y, *next = y + BUFFER;
        for (int64_t k = first; k < last; k += CHUNK) {
            asm volatile("cp.async.wait_all;" ::: "memory");
            __syncthreads();
            if (k + CHUNK < last)
                ask<KMAJOR, TURN>(next, k + CHUNK);
            const int depth = int(min(last - k, int64_t(CHUNK))), whole = depth / TURN;
            turns(now, depth, last - k >= CHUNK + TURN ? whole : whole - 1, whole);
            T *const swap = now;
            now = next, next = swap;
        }
        __syncthreads();
    }

    /* Adds up the slices' sums, which are in y. */
    template <int OF, int BLOCK> __device__ __forceinline__ void add_slices()
    {
        __syncthreads();
#pragma unroll 1
        for (int e = threadIdx.x; e < COLUMNS * BLOCK; e += THREADS) {
            T s = 0;
#pragma unroll
            for (int other = 0; other < OF; other++)
                s += y[other * COLUMNS * BLOCK + e];
            total[e] = s;
        }
    }

    /* Calls product(u, c, value) for U of k, reading the small operand's values from `from` on, 16 bytes at a time; then(u) after each u. */
    template <int U, class PRODUCT, class THEN> __device__ __forceinline__ void products(const T *from, PRODUCT product, THEN then)
    {
        constexpr int TAKE = COLUMNS >= V ? 1 : V / COLUMNS;
#pragma unroll
        for (int u0 = 0; u0 < U; u0 += TAKE) {
            vector value[TAKE * COLUMNS / V];
#pragma unroll
            for (int i = 0; i < TAKE * COLUMNS / V; i++)
                value[i] = *reinterpret_cast<const vector *>(from + u0 * PITCH_X + i * V);
#pragma unroll
            for (int u = u0; u < u0 + TAKE; u++) {
#pragma unroll
                for (int c = 0; c < COLUMNS; c++) {
                    const int i = (u - u0) * COLUMNS + c;
                    product(u, c, value[i / V].v[i % V]);
                }
                then(u);
            }
        }
    }

    /* For X with x contiguous. Rows beyond the last repeat others. */
    template <int U> __device__ __forceinline__ void rows()
    {
        constexpr int TURN = U * SLICES, FEW = 4;
        static_assert(U % FEW == 0, "the last turn");
        const int lane = threadIdx.x % LANES, slice = threadIdx.x / LANES;
        const T *at = x + min(block_x + lane * V, size_x - V) + (first + slice * U) * ld;
        T sum[COLUMNS][V] = {};
        vector in[U];
        double pair[COLUMNS][2]; /* the sums between turns, two neighbours swapped, so that ptxas puts a sum and what is added to it in different
                                  * register banks */
        auto keep = [&] {
            if constexpr (PAIRS)
#pragma unroll
                for (int c = 0; c < COLUMNS; c++)
#pragma unroll
                    for (int e = 0; e < V; e += 2)
                        asm volatile("mov.b64 %0, {%1, %2};" : "=d"(pair[c][e / 2]) : "f"(sum[c][e + 1]), "f"(sum[c][e]));
        };
        auto take = [&] {
            if constexpr (PAIRS)
#pragma unroll
                for (int c = 0; c < COLUMNS; c++)
#pragma unroll
                    for (int e = 0; e < V; e += 2)
                        asm volatile("mov.b64 {%0, %1}, %2;" : "=f"(sum[c][e + 1]), "=f"(sum[c][e]) : "d"(pair[c][e / 2]));
        };

        auto load = [&](vector &to, int u) { to = gg_load<true>(at + u * ld); };
        auto product = [&](int u, int c, T value) {
#pragma unroll
            for (int e = 0; e < V; e++)
                sum[c][e] += in[u].v[e] * value;
        };
        keep();
        ask<false, TURN>(y, first);
        if (last - first >= TURN)
#pragma unroll
            for (int u = 0; u < U; u++)
                load(in[u], u);
        chunks<false, TURN>([&](const T *chunk, int depth, int ring, int whole) {
            const T *from = chunk + slice * U * PITCH_X;
#pragma unroll 1
            for (int turn = 0; turn < whole; turn++, from += TURN * PITCH_X) {
                const bool more = turn < ring;
                at += TURN * ld;
                take();
                products<U>(from, product, [&](int u) {
                    if (more)
                        load(in[u], u);
                });
                keep();
            }
            take();
            const int left = depth - whole * TURN - slice * U; /* k of the last, short turn */
#pragma unroll 1
            for (int u = 0; u < U && u < left; u += FEW) {
                vector few[FEW];
#pragma unroll
                for (int f = 0; f < FEW; f++)
                    few[f] = gg_load<true>(at + (u + f) * ld, u + f < left);
#pragma unroll
                for (int f = 0; f < FEW; f++)
#pragma unroll
                    for (int c = 0; c < COLUMNS; c++)
#pragma unroll
                        for (int e = 0; e < V; e++)
                            sum[c][e] += few[f].v[e] * from[(u + f) * PITCH_X + c];
            }
            keep();
        });
        take();
        const T one = p.ldc > 0 ? T(1) : T(0); /* ptxas does not know it is 1; otherwise it would keep the sums in quads, for storing them */
#pragma unroll
        for (int c = 0; c < COLUMNS; c++) {
            vector out;
#pragma unroll
            for (int e = 0; e < V; e++)
                out.v[e] = one * sum[c][e];
            *reinterpret_cast<vector *>(&y[(slice * COLUMNS + c) * BLOCK_X + lane * V]) = out;
        }
        add_slices<SLICES, BLOCK_X>();
    }

    /* The same where `rows` is slow or illegal. A lane has R rows: one vector of them, or rows that are as far apart as there are lanes. The last, short
     * turn is a whole one in which k that do not exist are 0, so that all its loads are under way at a time. */
    template <int U, int BLOCK, int R, bool VECTORS> __device__ __forceinline__ void rows_masked()
    {
        constexpr int WIDTH = BLOCK / R, DEPTH = THREADS / WIDTH, TURN = U * DEPTH, APART = VECTORS ? 1 : WIDTH, SIDE = VECTORS ? R : 1;
        const int lane = threadIdx.x % WIDTH, slice = threadIdx.x / WIDTH;
        const T *at = x + min(block_x + lane * SIDE, size_x - SIDE) + (first + slice * U) * ld;
        const int rows_left = R == 1 || VECTORS ? BLOCK : int(min(size_x - block_x - lane, int64_t(BLOCK)));
        int left = int(last - first) - slice * U;
        T sum[COLUMNS][R] = {}, in[U][R];
        auto load = [&](int u) {
            const T *const from = R == 1 ? at + u * ld : at;
            vector v = {};
            if constexpr (VECTORS)
                v = gg_load<true>(from, u < left);
#pragma unroll
            for (int r = 0; r < R; r++)
                in[u][r] = VECTORS ? v.v[r % V] : u < left && r * APART < rows_left ? __ldg(from + r * APART) : T(0);
            if constexpr (R > 1) {
                at += u + 1 < U ? ld : (TURN - U + 1) * ld;
                asm volatile("" : "+l"(at)); /* keeps one pointer in registers, not U of them */
            }
        };
        ask<false, TURN>(y, first);
#pragma unroll
        for (int u = 0; u < U; u++)
            load(u);
        chunks<false, TURN>([&](const T *chunk, int depth, int, int) {
            const T *from = chunk + slice * U * PITCH_X;
#pragma unroll 1
            for (; depth > 0; depth -= TURN, from += TURN * PITCH_X) {
                if (R == 1)
                    at += TURN * ld;
                left -= TURN;
                const auto product = [&](int u, int c, T value) {
#pragma unroll
                    for (int r = 0; r < R; r++)
                        sum[c][r] += in[u][r] * value;
                };
                products<U>(from, product, load);
            }
        });
#pragma unroll
        for (int c = 0; c < COLUMNS; c++)
#pragma unroll
            for (int r = 0; r < R; r++)
                y[(slice * COLUMNS + c) * BLOCK + lane * SIDE + r * APART] = sum[c][r];
        add_slices<DEPTH, BLOCK>();
    }

    /* Adds up a warp's lanes. */
    __device__ __forceinline__ void add_lanes(const T (&sum)[COLUMNS][ROWS])
    {
#pragma unroll
        for (int c = 0; c < COLUMNS; c++)
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                T s = sum[c][r];
#pragma unroll
                for (int other = 16; other > 0; other /= 2)
                    s += __shfl_xor_sync(~0u, s, other);
                if (threadIdx.x % 32 == 0)
                    total[c * BLOCK_K + threadIdx.x / 32 * ROWS + r] = s;
            }
    }

    /* For X with k contiguous. Rows beyond the last repeat it. */
    template <int U> __device__ __forceinline__ void dots()
    {
        constexpr int TURN = U * GROUP;
        const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        const T *row = x + min(block_x + warp * ROWS, size_x - 1) * ld + first + lane * V;
        T sum[COLUMNS][ROWS] = {};
        vector in[U][ROWS];
        const int rows_left = int(min(size_x - block_x - warp * ROWS, int64_t(ROWS)));

        auto load = [&](vector(&to)[ROWS], int u) {
            const T *from = row + u * GROUP;
            int exist = rows_left;
            if constexpr (ROWS > 2)
                asm volatile("" : "+r"(exist)); /* keeps one pointer and no strides in registers, not ROWS of them */
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                to[r] = gg_load<true>(from);
                from += r + 1 < exist ? ld : 0;
                asm("" : "+l"(from));
            }
        };
        auto use = [&](const vector(&of)[ROWS], const T *from) {
#pragma unroll
            for (int c = 0; c < COLUMNS; c++) {
                const vector value = *reinterpret_cast<const vector *>(from + c * PITCH);
#pragma unroll
                for (int e = 0; e < V; e++)
#pragma unroll
                    for (int r = 0; r < ROWS; r++)
                        sum[c][r] += of[r].v[e] * value.v[e];
            }
        };
        ask<true, TURN>(y, first);
        if (last - first >= TURN)
#pragma unroll
            for (int u = 0; u < U; u++)
                load(in[u], u);
        chunks<true, TURN>([&](const T *chunk, int depth, int ring, int whole) {
            const T *from = chunk + lane * V;
#pragma unroll 1
            for (int turn = 0; turn < whole; turn++, from += TURN) {
                const bool more = turn < ring;
                row += TURN;
#pragma unroll
                for (int u = 0; u < U; u++) {
                    use(in[u], from + u * GROUP);
                    if (more)
                        load(in[u], u);
                }
            }
            int left = depth - whole * TURN - lane * V; /* k of the last, short turn, from row on */
#pragma unroll 1
            for (; left >= V; left -= GROUP, from += GROUP) {
                vector few[ROWS];
                load(few, 0);
                use(few, from);
                row += GROUP;
            }
#pragma unroll 1
            for (int e = 0; e < left; e++) /* fewer than a vector */
#pragma unroll
                for (int r = 0; r < ROWS; r++) {
                    const T value = (row + max(min(r, rows_left - 1), 0) * ld)[e];
#pragma unroll
                    for (int c = 0; c < COLUMNS; c++)
                        sum[c][r] += value * from[c * PITCH + e];
                }
        });
        add_lanes(sum);
    }

    /* The same where 16-byte loads are illegal: lanes take consecutive elements. */
    template <int U> __device__ __forceinline__ void dots_by_elements()
    {
        constexpr int TURN = U * 32;
        const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        const T *row[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            row[r] = x + min(block_x + warp * ROWS + r, size_x - 1) * ld + first + lane;
        int left = int(last - first) - lane;
        T sum[COLUMNS][ROWS] = {}, in[U][ROWS];
        auto load = [&](int u) {
#pragma unroll
            for (int r = 0; r < ROWS; r++)
                in[u][r] = u * 32 < left ? __ldg(row[r] + u * 32) : T(0);
        };
        ask<true, TURN>(y, first);
#pragma unroll
        for (int u = 0; u < U; u++)
            load(u);
        chunks<true, TURN>([&](const T *chunk, int depth, int, int) {
            const T *from = chunk + lane;
#pragma unroll 1
            for (; depth > 0; depth -= TURN, from += TURN) {
#pragma unroll
                for (int r = 0; r < ROWS; r++)
                    row[r] += TURN;
                left -= TURN;
#pragma unroll
                for (int u = 0; u < U; u++) {
#pragma unroll
                    for (int c = 0; c < COLUMNS; c++) {
                        const T value = from[c * PITCH + u * 32];
#pragma unroll
                        for (int r = 0; r < ROWS; r++)
                            sum[c][r] += in[u][r] * value;
                    }
                    load(u);
                }
            }
        });
        add_lanes(sum);
    }

    /* Adds up the totals of the cluster's blocks; each block does some of them. */
    template <int BLOCK> __device__ __forceinline__ void finish() const
    {
        const T alpha = T(p.alpha), beta = T(p.beta);
        if (p.splits > 1) {
            cluster_arrive_shared();
            cluster_wait();
        } else
            __syncthreads();
        const int share = COLUMNS * BLOCK / p.splits;
#pragma unroll 1
        for (int e = rank * share + threadIdx.x; e < (rank + 1) * share; e += THREADS) {
            const int c = e / BLOCK;
            const int64_t xx = block_x + e % BLOCK;
            T part[MOST_SPLITS], s = 0;
#pragma unroll
            for (int other = 0; other < MOST_SPLITS; other++)
                part[other] = p.splits == 1 ? other == 0 ? total[e] : T(0) : other < p.splits ? remote(&total[e], other) : T(0);
#pragma unroll
            for (int other = 0; other < MOST_SPLITS; other++)
                s += part[other];
            if (xx < size_x && c < int(swapped ? p.m : p.n)) {
                T *const to = static_cast<T *>(p.c) + (swapped ? c + xx * p.ldc : xx + c * p.ldc);
                *to = beta == T(0) ? alpha * s : alpha * s + beta * *to;
            }
        }
        if (p.splits > 1)
            cluster_leave(); /* others may still be reading this block's totals */
    }

    static __device__ __forceinline__ void run(const gg_args &p, unsigned block)
    {
        if (gg_gated_apart(p))
            return;
        extern __shared__ __align__(16) char shared[];
        slim s(p, shared, block);
        if (s.kmajor) {
            if (s.vec)
                s.template dots<UK>();
            else
                s.template dots_by_elements<32 / ROWS>();
        } else if (s.wide())
            s.template rows_masked<64 / sizeof(T), BLOCK_WIDE, 4, false>();
        else if (s.vec && (s.block_x + BLOCK_X <= s.size_x || s.size_x % V == 0)) {
            if constexpr (COLUMNS == 1 && sizeof(T) == 4) /* in FP64 up to 12 % slower */
                s.template rows_masked<UX, BLOCK_X, V, true>();
            else
                s.template rows<UX>();
        } else
            s.template rows_masked<sizeof(T) * COLUMNS <= 16 ? 32 : 16, BLOCK_X, 1, false>();
        asm("" : "+r"(block)); /* opaque: nothing that finish() needs is kept in registers until then */
        const slim again(p, shared, block);
        if (again.kmajor)
            again.template finish<BLOCK_K>();
        else if (again.wide())
            again.template finish<BLOCK_WIDE>();
        else
            again.template finish<BLOCK_X>();
        gg_gate_end(p);
    }
};

#define GG_SLIM_ROW(name, per_sm, ...)                                                                                                               \
    static_assert(slim<__VA_ARGS__>::SHARED <= gg_shared_##name, "kernels.def");                                                                     \
    extern "C" __global__ void __launch_bounds__(THREADS, per_sm) name(const __grid_constant__ gg_args p) { slim<__VA_ARGS__>::run(p, blockIdx.x); }
GG_SLIM_ROW(slim_s1, 2, float, 1, 16, 8, 4, 2, 1024)
GG_SLIM_ROW(slim_s4, 2, float, 4, 8, 32, 2, 4, 1024)
GG_SLIM_ROW(slim_s16, 1, float, 16, 16, 32, 2, 8, 512)
GG_SLIM_ROW(slim_d1, 2, double, 1, 16, 16, 8, 2, 1024)
GG_SLIM_ROW(slim_d4, 2, double, 4, 8, 32, 2, 2, 1024)

/* Two problems of such a row in one launch, for both strips of a C: saves a launch. */
#define GG_SLIM_TWO(row, per_sm, ...)                                                                                                                \
    static_assert(gg_shared_##row##_two == gg_shared_##row, "kernels.def");                                                                          \
    extern "C" __global__ void __launch_bounds__(THREADS, per_sm) row##_two(const __grid_constant__ gg_two_args two)                                 \
    {                                                                                                                                                \
        const bool second = blockIdx.x >= two.first;                                                                                                 \
        slim<__VA_ARGS__>::run(two.each[second], second ? blockIdx.x - two.first : blockIdx.x);                                                      \
    }
GG_SLIM_TWO(slim_s1, 2, float, 1, 16, 8, 4, 2, 1024)
GG_SLIM_TWO(slim_s4, 2, float, 4, 8, 32, 2, 4, 1024)
#endif

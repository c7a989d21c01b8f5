/* panel — many rows, up to 16 columns and a short k: C is a tall panel, or a flat one. The large operand and C pass through memory once, and that
 * bounds it if a block does little else. For sm_80 and newer.
 *
 * X is the large operand (A, or B if m is the short side), Y the other, at most MOST_K × COLUMNS. A thread has R rows of X with all their columns and
 * all of k, one FFMA or DFMA after the other. Y lies in shared memory, as [k][column]: what a warp reads of it is the same for all lanes.
 *
 *   X with x contiguous: four rows a thread, by way of a ring in shared memory that each thread fills for itself, GROUP k at a time; by vectors of 16
 *     bytes if X allows, and C if it is tall, else element by element, with the rows of a thread as far apart as there are threads. (With a ring in
 *     registers the loop is longer, and with a cold L2 instructions come from memory, too.)
 *   X with k contiguous: one row or two a thread, through shared memory, 128 bytes of each row at a time, two such chunks in turn. (By 32 bytes
 *     1000000x1x128 takes 274 us on an H100.)
 *
 * A flat C, whose columns a thread has as a whole, leaves through shared memory, so that neighbours are stored together. */
#include "pipeline.cuh"
#include "vector.cuh"

#if __CUDA_ARCH__ >= 800
constexpr int THREADS = 128;

/* RING: bytes of shared memory for X. */
template <typename T, int COLUMNS, int R, int RING> struct panel {
    using vector = gg_vector<T>;
    static constexpr int V = vector::SIZE, ROWS = THREADS * R, MOST_K = GG_PANEL_K, GROUP = sizeof(T) == 4 ? 4 : 2;
    static constexpr int LINE = 128, CHUNK = LINE / sizeof(T); /* where k is contiguous: bytes and k of a row at a time */
    static constexpr int Y_BYTES = MOST_K * COLUMNS * sizeof(T), STAGE = ROWS * LINE;
    static constexpr int GROUPS = RING / (GROUP * ROWS * int(sizeof(T))); /* of k, where x is contiguous */
    static constexpr int OUT = COLUMNS + 1;                               /* elements from row to row of a flat C on its way out, 32 rows a warp */

    const gg_args &p;
    char *const shared;
    const T *x;
    int64_t x0, ld;
    int rows, k, columns; /* rows that exist, from x0 on */
    bool flat;            /* X is B: C(i, j) is (y, x) */
    bool vectors;         /* a thread's rows are neighbours, see row() */
    T sum[COLUMNS][R] = {};

    __device__ panel(const gg_args &args, char *memory, bool kmajor) : p(args), shared(memory)
    {
        flat = p.n > COLUMNS;
        ld = flat ? p.ldb : p.lda;
        x0 = int64_t(blockIdx.x) * ROWS;
        x = static_cast<const T *>(flat ? p.b : p.a) + x0 * (kmajor ? ld : 1);
        rows = int(min((flat ? p.n : p.m) - x0, int64_t(ROWS)));
        k = int(p.k), columns = int(flat ? p.m : p.n);
        vectors = !kmajor && rows % V == 0 && (flat ? p.b_vec : p.a_vec && p.c_vec);
    }

    /* The row r of `thread`, from x0 on. */
    static __device__ int row(bool vectors, int thread, int r) { return vectors ? (r / V * THREADS + thread) * V + r % V : r * THREADS + thread; }

    __device__ const T *y() const { return reinterpret_cast<const T *>(shared); }

    /* Copies Y, with zeros up to COLUMNS and to a multiple of GROUP. */
    __device__ void copy_y() const
    {
        const T *const from = static_cast<const T *>(flat ? p.a : p.b);
        const int64_t y_ld = flat ? p.lda : p.ldb;
        const bool kmajor = flat ? p.a_kmajor : p.b_kmajor;
        const int filled = (k + GROUP - 1) / GROUP * GROUP;
#pragma unroll 4
        for (int e = threadIdx.x; e < filled * COLUMNS; e += THREADS) {
            const int c = kmajor ? e / filled : e % COLUMNS, l = kmajor ? e % filled : e / COLUMNS;
            reinterpret_cast<T *>(shared)[l * COLUMNS + c] = c < columns && l < k ? __ldg(from + (kmajor ? l + c * y_ld : c + l * y_ld)) : T(0);
        }
    }

    /* Adds the products of one k: value[r] is X's, Y's begin at `at`. */
    __device__ __forceinline__ void multiply(const T (&value)[R], const T *at)
    {
#pragma unroll
        for (int c = 0; c < COLUMNS; c += V) {
            const vector v = *reinterpret_cast<const vector *>(at + c);
#pragma unroll
            for (int e = 0; e < V; e++)
#pragma unroll
                for (int r = 0; r < R; r++)
                    sum[c + e][r] += value[r] * v.v[e];
        }
    }

    /* For X with x contiguous: each thread copies what it multiplies itself, so threads do not wait for each other. */
    template <bool VECTORS> __device__ __forceinline__ void from_ring()
    {
        constexpr int EACH = VECTORS ? V : 1, SIZE = EACH * sizeof(T);
        const T *from = x + threadIdx.x * EACH; /* at the next k to be copied */
        const int left = rows - int(threadIdx.x) * EACH;
        char *const ring = shared + Y_BYTES + threadIdx.x * SIZE;
        auto place = [&](int l) { return l / GROUP % GROUPS * GROUP * ROWS * int(sizeof(T)); };
        auto copy = [&](int l) {
#pragma unroll
            for (int u = 0; u < GROUP; u++, from += ld)
#pragma unroll
                for (int r = 0; r < R; r += EACH)
                    if (r * THREADS < left)
                        gg_copy_or_zero<SIZE>(gg_shared(ring) + place(l) + (u * ROWS + r * THREADS) * int(sizeof(T)), from + r * THREADS, l + u < k);
        };
#pragma unroll 1
        for (int l = 0; l < (GROUPS - 1) * GROUP; l += GROUP) {
            if (l < k)
                copy(l);
            asm volatile("cp.async.commit_group;" ::: "memory");
        }
        copy_y();
        __syncthreads();
#pragma unroll 1
        for (int l = 0; l < k; l += GROUP) {
            asm volatile("cp.async.wait_group %0;" ::"n"(GROUPS - 2) : "memory");
            if (l + (GROUPS - 1) * GROUP < k)
                copy(l + (GROUPS - 1) * GROUP);
            asm volatile("cp.async.commit_group;" ::: "memory");
#pragma unroll
            for (int u = 0; u < GROUP; u++) {
                const char *const at = ring + place(l) + u * ROWS * int(sizeof(T));
                T value[R];
#pragma unroll
                for (int r = 0; r < R; r += EACH)
                    if constexpr (VECTORS) {
                        const vector v = *reinterpret_cast<const vector *>(at + r * THREADS * int(sizeof(T)));
#pragma unroll
                        for (int e = 0; e < V; e++)
                            value[(r + e) % R] = v.v[e];
                    } else {
                        value[r] = *reinterpret_cast<const T *>(at + r * THREADS * int(sizeof(T)));
                    }
                multiply(value, y() + (l + u) * COLUMNS);
            }
        }
    }

    /* The place of a row's vector in a chunk: rows are as long as all banks, so neighbours have theirs in different order. */
    static __device__ int place(int row, int vector) { return row * LINE + (vector ^ row % 8) * 16; }

    /* Starts copying CHUNK of each row's k from l on, EACH bytes at a time. */
    template <int EACH> __device__ __forceinline__ void copy_chunk(unsigned to, int l) const
    {
        constexpr int N = EACH / sizeof(T), ACROSS = CHUNK / N, DOWN = THREADS / ACROSS;
        const int at = threadIdx.x % ACROSS * N, left = min((k - l - at) * int(sizeof(T)), EACH);
        const T *from = x + threadIdx.x / ACROSS * ld + l + at;
        to += at % V * int(sizeof(T));
#pragma unroll 4
        for (int row = threadIdx.x / ACROSS; row < rows; row += DOWN, from += DOWN * ld)
            if (left > 0) {
                const unsigned here = to + place(row, at / V);
                if (EACH == 16 && left < EACH) /* the last vector of k */
                    asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" ::"r"(here), "l"(from), "r"(left) : "memory");
                else
                    gg_copy_or_zero<EACH>(here, from, true);
            }
    }

    /* For X with k contiguous. */
    template <int EACH> __device__ __forceinline__ void from_shared()
    {
        const unsigned stages = gg_shared(shared) + Y_BYTES;
        copy_chunk<EACH>(stages, 0);
        asm volatile("cp.async.commit_group;" ::: "memory");
        copy_y();
#pragma unroll 1
        for (int l = 0, stage = 0; l < k; l += CHUNK, stage ^= 1) {
            if (l + CHUNK < k)
                copy_chunk<EACH>(stages + (stage ^ 1) * STAGE, l + CHUNK);
            asm volatile("cp.async.commit_group;\ncp.async.wait_group 1;" ::: "memory");
            __syncthreads();
            const char *const chunk = shared + Y_BYTES + stage * STAGE;
            const int depth = min(k - l, CHUNK);
#pragma unroll 1
            for (int u = 0; u < depth; u += V) {
                vector v[R];
#pragma unroll
                for (int r = 0; r < R; r++)
                    v[r] = *reinterpret_cast<const vector *>(chunk + place(row(false, threadIdx.x, r), u / V));
#pragma unroll
                for (int e = 0; e < V; e++) {
                    T value[R];
#pragma unroll
                    for (int r = 0; r < R; r++)
                        value[r] = u + e < depth ? v[r].v[e] : T(0);
                    multiply(value, y() + (l + u + e) * COLUMNS);
                }
            }
            __syncthreads(); /* the chunk has been read */
        }
    }

    __device__ T result(T sum, T was) const { return GG_UPDATE && p.beta != 0 ? T(p.alpha) * sum + T(p.beta) * was : T(p.alpha) * sum; }

    /* Stores a tall C. */
    template <bool VECTORS> __device__ __forceinline__ void store_tall() const
    {
        T *const c = static_cast<T *>(p.c) + x0;
        if constexpr (VECTORS) {
            constexpr int N = R / V;
            auto place = [&](int i) { return reinterpret_cast<vector *>(c + row(true, threadIdx.x, i % N * V) + i / N * p.ldc); };
            auto is = [&](int i) { return i / N < columns && row(true, threadIdx.x, i % N * V) < rows; };
            gg_put_all<COLUMNS * N, 8>(
                p.beta != 0, [&](int i) { return is(i) ? *place(i) : vector{}; },
                [&](int i, const vector &was) {
                    if (!is(i))
                        return;
                    vector out;
#pragma unroll
                    for (int e = 0; e < V; e++)
                        out.v[e] = result(sum[i / N][i % N * V + e], was.v[e]);
                    *place(i) = out;
                });
        } else {
            auto place = [&](int i) { return c + row(false, threadIdx.x, i % R) + i / R * p.ldc; };
            auto is = [&](int i) { return i / R < columns && row(false, threadIdx.x, i % R) < rows; };
            gg_put_all<COLUMNS * R, 16>(
                p.beta != 0, [&](int i) { return is(i) ? *place(i) : T(0); },
                [&](int i, T was) {
                    if (is(i))
                        *place(i) = result(sum[i / R][i % R], was);
                });
        }
    }

    /* Stores a flat C: a warp's 32 rows of X at a time, `width` lanes, a power of two, for the columns of each. */
    __device__ __forceinline__ void store_flat() const
    {
        constexpr int AT_ONCE = 4;
        const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, width = columns > 8 ? 16 : columns > 4 ? 8 : columns > 2 ? 4 : columns;
        T *const out = reinterpret_cast<T *>(shared + Y_BYTES) + warp * 32 * OUT, *const c = static_cast<T *>(p.c) + x0 * p.ldc + lane % width;
        __syncthreads(); /* the chunks have been read */
#pragma unroll
        for (int r = 0; r < R; r++) {
            __syncwarp();
#pragma unroll
            for (int y = 0; y < COLUMNS; y++)
                out[lane * OUT + y] = sum[y][r];
            __syncwarp();
#pragma unroll 1
            for (int from = lane / width; from < 32; from += 32 / width * AT_ONCE) {
                auto of = [&](int i) { return from + i * (32 / width); }; /* the row's lane */
                auto there = [&](int i) { return row(vectors, warp * 32 + of(i), r); };
                auto is = [&](int i) { return of(i) < 32 && lane % width < columns && there(i) < rows; };
                gg_put_all<AT_ONCE, AT_ONCE>(
                    p.beta != 0, [&](int i) { return is(i) ? c[there(i) * p.ldc] : T(0); },
                    [&](int i, T was) {
                        if (is(i))
                            c[there(i) * p.ldc] = result(out[of(i) * OUT + lane % width], was);
                    });
            }
        }
    }

    __device__ void ask_for_c() const
    {
        if (flat)
            gg_fetch_c<T, COLUMNS, ROWS>(p, 0, x0, threadIdx.x, THREADS);
        else
            gg_fetch_c<T, ROWS, COLUMNS>(p, x0, 0, threadIdx.x, THREADS);
    }

    static __device__ void rows_of_x(const gg_args &p, char *memory)
    {
        panel of(p, memory, false);
        of.ask_for_c();
        if (of.vectors)
            of.template from_ring<true>();
        else
            of.template from_ring<false>();
        if (of.flat)
            of.store_flat();
        else if (of.vectors)
            of.template store_tall<true>();
        else
            of.template store_tall<false>();
    }

    static __device__ void lines_of_k(const gg_args &p, char *memory)
    {
        panel of(p, memory, true);
        of.ask_for_c();
        if (of.flat ? p.b_vec : p.a_vec)
            of.template from_shared<16>();
        else
            of.template from_shared<sizeof(T)>();
        if (of.flat)
            of.store_flat();
        else
            of.template store_tall<false>();
    }
};

/* DOTS: rows a thread where k is contiguous. */
template <typename T, int COLUMNS, int DOTS> struct panel_row {
    static constexpr int RING = 2 * DOTS * THREADS * 128, SHARED = GG_PANEL_K * COLUMNS * int(sizeof(T)) + RING;
    using rows = panel<T, COLUMNS, 4, RING>;
    using dots = panel<T, COLUMNS, DOTS, RING>;
    static_assert(dots::ROWS == GG_PANEL_DOTS(COLUMNS) && THREADS * dots::OUT * sizeof(T) <= RING, "src/kernels.h; the way out of a flat C");

    static __device__ void run(const gg_args &p)
    {
        if (gg_gated(p))
            return;
        extern __shared__ __align__(128) char memory[];
        if (p.n > COLUMNS ? p.b_kmajor : p.a_kmajor)
            dots::lines_of_k(p, memory);
        else
            rows::rows_of_x(p, memory);
    }
};

#define GG_PANEL_ROW(name, per_sm, ...)                                                                                                              \
    static_assert(panel_row<__VA_ARGS__>::SHARED == gg_shared_##name, "kernels.def");                                                                \
    extern "C" __global__ void __launch_bounds__(THREADS, per_sm) name(const __grid_constant__ gg_args p) { panel_row<__VA_ARGS__>::run(p); }
GG_PANEL_ROW(panel_s4, 6, float, 4, 1)
GG_PANEL_ROW(panel_s16, 3, float, 16, 2)
GG_PANEL_ROW(panel_d4, 5, double, 4, 1)
GG_PANEL_ROW(panel_d16, 2, double, 16, 2)
#endif

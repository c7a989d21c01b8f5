/* gemv — C is a vector: it takes as long as reading the matrix X (A, or B if C is a row), if nothing else does. With a cold L2 code comes from
 * memory, too, so each of these kernels is little code and does one thing.
 *
 * gemv_t, k contiguous in X. A warp has a row of X, its lanes vectors of 16 bytes side by side, of which U are on their way at any time; y (B, or A)
 * comes through L1. Rows that are not aligned begin with up to three single elements. Blocks of 8 rows.
 *   gemv_t_s, gemv_t_d              U = 12, 8
 *   gemv_t_s_short, gemv_t_d_short  U = 6, 5, more warps on an SM: many rows of a short k
 *   gemv_t_s_few, gemv_t_d_few      U = 12, up to four rows, each shared by the warps of a block
 *
 * gemv_n, rows contiguous in X. LANES lanes have a vector of rows each, and each U columns of X on their way; the other lanes of the block have other
 * k, and their sums meet in shared memory.
 *   gemv_n_s, gemv_n_d              32 lanes, 512 bytes of a column
 *   gemv_n_s_narrow, …              8 lanes, where that fills the GPU without cutting k
 *   gemv_n_s_single, …              64 lanes with an element each, for any alignment, and a y that is not contiguous
 * Both: 50 to 64 KB an SM on their way are enough, by one block or two; with more the memory is slower (gemv_t_d with U = 12, two blocks of 48 KB:
 * 4096x1x4096 TN 1.02 times as long, 3000x1x3000 1.04). Where there are few rows, gridDim.y blocks have a piece of k each, and the last of them to
 * finish adds up their sums, in their order.
 *
 * gemv_s, gemv_d: some hundreds or thousands of rows, about as many k, any layout and alignment, element by element: a block of 512 threads has 16
 * rows and all of k; each thread has one row and every 32nd k, AHEAD of them on their way, with the elements of y that belong to them. Where k is
 * contiguous a warp has a row, else 16 lanes have rows side by side, and the 32 slices of k meet in shared memory.
 *
 * One H200, L2 flushed, us (cuBLAS): 4096x1x4096 NN 23.1 (24.2), TN 23.6 (32.1); 8000x1x8000 70.6 (73.3), which is 89 % of the rate of a copy; dgemm
 * 2000x1x2000 TN 15.3 (16.8); 1x1x10000000 31.8 (62.2). More in bench/results/vector-2026-11-26.txt. gemv_s, gemv_d need sm_70, the others sm_80. */
#include "gate.cuh"
#include "parts.cuh"
#include "vector.cuh"

constexpr int THREADS = 512, ROWS = 16, SLICES = 32;

template <typename T> __device__ void gemv(const gg_args &p)
{
    constexpr int AHEAD = (__CUDA_ARCH__ >= 900 ? 64 : 48) / sizeof(T); /* as many as registers hold */
    if (gg_gated(p))
        return;
    __shared__ T sums[SLICES][ROWS + 1];
    const bool flat = p.n > 1, kmajor = flat ? p.b_kmajor : p.a_kmajor;
    const int64_t rows = flat ? p.n : p.m, ld = flat ? p.ldb : p.lda, y_ld = flat ? p.lda : p.ldb;
    const int64_t along = kmajor ? 1 : ld, y_along = (flat ? p.a_kmajor : p.b_kmajor) ? 1 : y_ld;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int own = kmajor ? warp : lane % ROWS, slice = kmajor ? lane : threadIdx.x / ROWS;
    const int64_t first = blockIdx.x * int64_t(ROWS), row = min(first + own, rows - 1); /* rows that do not exist repeat the last */
    const T *x = static_cast<const T *>(flat ? p.b : p.a) + row * (kmajor ? ld : 1) + slice * along;
    const T *y = static_cast<const T *>(flat ? p.a : p.b) + slice * y_along;
    int left = int(p.k) - slice; /* k from x on */
    T in[AHEAD], by[AHEAD], sum = 0;
    auto load = [&](int u) {
        in[u] = u * SLICES < left ? __ldg(x) : T(0);
        by[u] = u * SLICES < left ? __ldg(y) : T(0);
        x += SLICES * along, y += SLICES * y_along;
    };
#pragma unroll
    for (int u = 0; u < AHEAD; u++)
        load(u);
#pragma unroll 1
    for (int l = 0; l < int(p.k); l += AHEAD * SLICES) {
        left -= AHEAD * SLICES;
#pragma unroll
        for (int u = 0; u < AHEAD; u++) {
            sum += in[u] * by[u];
            load(u);
        }
    }
    if (!kmajor) {
        sums[slice][own] = sum;
        __syncthreads();
        sum = sums[lane][warp];
    }
    for (int other = 16; other > 0; other /= 2)
        sum += __shfl_xor_sync(~0u, sum, other);
    if (lane == 0 && first + warp < rows)
        gg_store(p, static_cast<T *>(p.c) + (first + warp) * (flat ? p.ldc : 1), sum);
}

#if __CUDA_ARCH__ >= 800
constexpr int BLOCK = 256; /* threads of the other kernels */

/* X and y of a call, and the piece of k that this block has. C(i) is Σ X(i, l) y(l). Made anew after the main loops, from a copy of blockIdx.y that
 * is opaque to the compiler, so that nothing of it is kept in registers until then. */
template <typename T> struct vectors {
    const T *x, *y;
    int64_t ld, y_along, c_along;
    int rows, first, k;

    /* The pieces but the last are multiples of `unit` long. */
    __device__ vectors(const gg_args &p, int unit, unsigned piece, unsigned pieces)
    {
        const bool flat = p.n > 1;
        x = static_cast<const T *>(flat ? p.b : p.a), y = static_cast<const T *>(flat ? p.a : p.b);
        ld = flat ? p.ldb : p.lda, y_along = flat ? (p.a_kmajor ? 1 : p.lda) : p.b_kmajor ? 1 : p.ldb, c_along = flat ? p.ldc : 1;
        rows = int(flat ? p.n : p.m);
        const int units = (int(p.k) + unit - 1) / unit;
        first = gg_share(units, piece, pieces) * unit;
        k = min(int(gg_share(units, piece + 1, pieces)) * unit, int(p.k)) - first;
    }
};

/* Stores a block's OWN totals, of which the first OWN threads have one each, or adds them to those of the other pieces, whose parts TEAM threads
 * share. */
template <int OWN, typename T> __device__ void store_totals(const gg_args &p, const vectors<T> &of, T total)
{
    constexpr int TEAM = BLOCK / OWN;
    __shared__ T shares[TEAM][OWN];
    const int e = threadIdx.x % OWN, member = threadIdx.x / OWN, row = blockIdx.x * OWN + e;
    if (gridDim.y > 1) {
        T *const parts = static_cast<T *>(p.workspace) + int64_t(blockIdx.x) * gridDim.y * OWN + e;
        if (member == 0)
            __stcg(parts + blockIdx.y * OWN, total);
        if (!gg_last_part(p, blockIdx.x, gridDim.y))
            return;
        total = 0;
        const auto load = [&](int i) { return __ldcg(parts + (member + i * TEAM) * OWN); };
        add_parts<8>(0, (int(gridDim.y) - member + TEAM - 1) / TEAM, load, [&](T part) { total += part; });
        shares[member][e] = total;
        __syncthreads();
        total = 0;
#pragma unroll
        for (int i = 0; i < TEAM; i++)
            total += shares[i][e];
    }
    if (member == 0 && row < of.rows)
        gg_store(p, static_cast<T *>(p.c) + row * of.c_along, total);
}

/* FEW: up to four rows. */
template <typename T, int U, bool FEW = false> struct gemv_t {
    using vector = gg_vector<T>;
    static constexpr int ROWS = BLOCK / 32, V = vector::SIZE, GROUP = 32 * V, TURN = U * GROUP;
    static_assert(ROWS == 8, "log_rows");

    /* Few rows are each shared by several warps, which have consecutive pieces of k: the binary logarithm of a block's rows. */
    static __device__ int log_rows(const gg_args &p)
    {
        const int rows = int(max(p.m, p.n));
        return !FEW ? 3 : rows > 2 ? 2 : rows - 1; /* GG_GEMV_FEW */
    }

    /* A warp's row: from x on k elements, of which `lead` come before the first vector and `rest` after the last. */
    struct row : vectors<T> {
        int lead, rest;
        __device__ row(const gg_args &p, unsigned piece)
            : vectors<T>(p, GROUP, (piece << (3 - log_rows(p))) + (threadIdx.x / 32 >> log_rows(p)), gridDim.y << (3 - log_rows(p)))
        {
            const int warp = threadIdx.x / 32 & ((1 << log_rows(p)) - 1);
            this->x += min(int(blockIdx.x) * ROWS + warp, this->rows - 1) * this->ld + this->first;
            this->y += this->first;
            lead = min(int(-reinterpret_cast<uintptr_t>(this->x) % 16 / sizeof(T)), this->k);
            rest = (this->k - lead) % V;
        }
    };

    /* What this lane has of a row's k products; x is aligned. ALIGNED: y is, too. */
    template <bool ALIGNED> static __device__ __forceinline__ T dot(const T *x, const T *y, int k)
    {
        const int lane = threadIdx.x % 32, whole = k / TURN;
        int left = k - lane * V;
        vector in[U];
        T sum = 0;
        x += lane * V, y += lane * V;
        auto load = [&](int u, bool exists = true) { in[u] = gg_load<true>(x + u * GROUP, exists); };
        auto use = [&](int u, bool exists = true) {
            vector by;
            if constexpr (ALIGNED)
                by = gg_load<false>(y + u * GROUP, exists);
#pragma unroll
            for (int e = 0; e < V; e++)
                sum += in[u].v[e] * (ALIGNED ? by.v[e] : exists ? __ldg(y + u * GROUP + e) : T(0));
        };
        auto is_left = [&](int u) { return u * GROUP + V <= left; };
        if (whole > 0) {
#pragma unroll
            for (int u = 0; u < U; u++)
                load(u);
#pragma unroll 1
            for (int turn = 1; turn < whole; turn++) {
                x += TURN;
#pragma unroll
                for (int u = 0; u < U; u++)
                    use(u), load(u);
                y += TURN;
            }
            x += TURN, left -= whole * TURN;
#pragma unroll
            for (int u = 0; u < U; u++)
                use(u), load(u, is_left(u));
            y += TURN;
        } else
#pragma unroll
            for (int u = 0; u < U; u++)
                load(u, is_left(u));
#pragma unroll
        for (int u = 0; u < U; u++)
            use(u, is_left(u));
        return sum;
    }

    static __device__ void run(const gg_args &p)
    {
        __shared__ T totals[ROWS];
        const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
        unsigned piece = blockIdx.y;
        T sum;
        {
            const row of(p, piece);
            const bool aligned = reinterpret_cast<uintptr_t>(of.y + of.lead) % 16 == 0;
            sum = __builtin_expect(aligned, 1) ? dot<true>(of.x + of.lead, of.y + of.lead, of.k - of.lead)
                                               : dot<false>(of.x + of.lead, of.y + of.lead, of.k - of.lead);
        }
        asm("" : "+r"(piece));
        const row of(p, piece);
        if (lane < of.lead)
            sum += of.x[lane] * of.y[lane];
        if (lane < of.rest)
            sum += of.x[of.k - of.rest + lane] * of.y[of.k - of.rest + lane];
        for (int other = 16; other > 0; other /= 2)
            sum += __shfl_xor_sync(~0u, sum, other);
        if (lane == 0)
            totals[warp] = sum;
        __syncthreads();
        const int rows = 1 << log_rows(p);
        T total = 0;
        for (int w = threadIdx.x & (rows - 1); w < ROWS; w += rows)
            total += totals[w];
        store_totals<(FEW ? GG_GEMV_FEW : ROWS)>(p, of, total);
    }
};

/* V elements at a time: a vector, or one, for a matrix and a y that lie anywhere. */
template <typename T, int LANES, int V> struct gemv_n {
    using vector = gg_vector<T, V>;
    static constexpr int U = V == 1 ? 64 / sizeof(T) : sizeof(T) == 4 ? 16 : 12, YV = 16 / sizeof(T);
    static constexpr int ROWS = LANES * V, SLICES = BLOCK / LANES, TURN = SLICES * U;

    static __device__ void run(const gg_args &p)
    {
        __shared__ vector sums[SLICES][LANES];
        unsigned piece = blockIdx.y;
        const vectors<T> of(p, U, piece, gridDim.y);
        const int lane = threadIdx.x % LANES, slice = threadIdx.x / LANES, turns = (of.k + TURN - 1) / TURN;
        const int64_t y_along = V == 1 ? of.y_along : 1;
        const T *x = of.x + min(int(blockIdx.x) * ROWS + lane * V, of.rows - V) + int64_t(of.first + slice * U) * of.ld;
        const T *y = of.y + (of.first + slice * U) * y_along;
        int left = of.k - slice * U;
        vector in[U], sum = {};
        auto load = [&](int u, bool exists = true) {
            if constexpr (V == 1)
                in[u].v[0] = exists ? __ldg(x) : T(0);
            else
                in[u] = gg_load<true>(x, exists);
            x += of.ld;
            asm volatile("" : "+l"(x)); /* keeps one pointer in registers, not U of them */
        };
        auto use = [&](int u, T by) {
#pragma unroll
            for (int e = 0; e < V; e++)
                sum.v[e] += in[u].v[e] * by;
        };
        /* Multiplies a whole turn, and loads the next. */
        auto turn = [&](bool whole) {
            x += (TURN - U) * of.ld, left -= TURN;
#pragma unroll
            for (int u = 0; u < U; u += YV) {
                gg_vector<T> by;
                if constexpr (V > 1)
                    by = gg_load<false>(y + u);
#pragma unroll
                for (int e = 0; e < YV; e++)
                    use(u + e, V > 1 ? by.v[e] : __ldg(y + (u + e) * y_along)), load(u + e, whole || u + e < left);
            }
            y += TURN * y_along;
        };
#pragma unroll
        for (int u = 0; u < U; u++)
            load(u, u < left);
        if (turns > 1) {
#pragma unroll 1
            for (int done = 2; done < turns; done++)
                turn(true);
            turn(false);
        }
#pragma unroll
        for (int u = 0; u < U; u++)
            use(u, u < left ? __ldg(y + u * y_along) : T(0));
        sums[slice][lane] = sum;
        __syncthreads();
        T total = 0;
        if (threadIdx.x < ROWS)
#pragma unroll
            for (int s = 0; s < SLICES; s++)
                total += sums[s][threadIdx.x / V].v[threadIdx.x % V];
        asm("" : "+r"(piece));
        store_totals<ROWS>(p, vectors<T>(p, U, piece, gridDim.y), total);
    }
};
#endif

extern "C" {
__global__ void __launch_bounds__(THREADS, 2) gemv_s(const __grid_constant__ gg_args p) { gemv<float>(p); }
__global__ void __launch_bounds__(THREADS, 2) gemv_d(const __grid_constant__ gg_args p) { gemv<double>(p); }
}

#if __CUDA_ARCH__ >= 800
#define GG_GEMV_ROW(name, per_sm, ...)                                                                                                               \
    extern "C" __global__ void __launch_bounds__(BLOCK, per_sm) name(const __grid_constant__ gg_args p)                                              \
    {                                                                                                                                                \
        if (!gg_gated(p))                                                                                                                            \
            __VA_ARGS__::run(p);                                                                                                                     \
    }
GG_GEMV_ROW(gemv_t_s, 2, gemv_t<float, 12>)
GG_GEMV_ROW(gemv_t_s_short, 3, gemv_t<float, 6>)
GG_GEMV_ROW(gemv_t_s_few, 2, gemv_t<float, 12, true>)
GG_GEMV_ROW(gemv_n_s, 2, gemv_n<float, 32, 4>)
GG_GEMV_ROW(gemv_n_s_narrow, 2, gemv_n<float, 8, 4>)
GG_GEMV_ROW(gemv_n_s_single, 5, gemv_n<float, 64, 1>)
GG_GEMV_ROW(gemv_t_d, 2, gemv_t<double, 8>)
GG_GEMV_ROW(gemv_t_d_short, 3, gemv_t<double, 5>)
GG_GEMV_ROW(gemv_t_d_few, 2, gemv_t<double, 12, true>)
GG_GEMV_ROW(gemv_n_d, 2, gemv_n<double, 32, 2>)
GG_GEMV_ROW(gemv_n_d_narrow, 2, gemv_n<double, 8, 2>)
GG_GEMV_ROW(gemv_n_d_single, 5, gemv_n<double, 64, 1>)
#endif

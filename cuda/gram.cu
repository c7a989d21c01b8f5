/* gram — few rows and columns of C and a long k, as in AᵀA of a tall matrix: both operands are read once, and memory bounds it if all SMs read at the
 * same time. For sm_80 and newer.
 *
 * A block of 512 threads has a tile of C and one of gridDim.y pieces of its k. All threads copy and all multiply: a ring of stages filled by
 * cp.async, one barrier a stage, as in multistage.cuh. A stage holds TILE_K k of the tile's rows and columns, as [k][row] whatever their layout. Its
 * k are shared out among slices of P / 4 × P / 4 threads, each with 4×4 sums in FFMA or DFMA. In the end the slices' sums are added up in shared
 * memory, those of up to GROUP blocks by the last of them to finish, and those of the groups by the last of these; none waits for another, and all
 * are added in a fixed order.
 *
 *   gram_s4, gram_d4      tiles of 4×4, slices of a thread; a stage is 512 k
 *   gram_s16, gram_d16    16×16, 16 threads; 128 and 64 k
 *
 * Two blocks an SM have some 200 KB on their way. One 16-byte fragment read costs an SM about four clocks, so slices reach half of the FFMA peak (at
 * 8×4 sums two thirds), which is twice what memory can feed at 16×16. */
#include "parts.cuh"
#include "pipeline.cuh"
#include "vector.cuh"

#if __CUDA_ARCH__ >= 800
constexpr int THREADS = 512;

/* Copies one operand into the ring. A thread has one row and every KS-th k. A warp takes 8 k of 4 rows where k is contiguous, for whole sectors of 32
 * bytes and stores without bank conflicts, else rows side by side. */
template <typename T, int P, int TILE_K, int PITCH> struct gram_stream {
    static constexpr int SIZE = sizeof(T), KS = THREADS / P, PIECES = TILE_K / KS, BYTES = TILE_K * PITCH * SIZE, RUN = 8;
    static_assert(PIECES * KS == TILE_K && KS % RUN == 0, "whole pieces");
    const char *from;
    int64_t apart; /* bytes between a thread's sources */
    unsigned to;
    int left; /* k from `from` on; 0: the row does not exist */

    /* rows: of the operand, from the tile's first; k: of this block's piece, which begins at k0. */
    __device__ gram_stream(const void *base, int64_t ld, bool kmajor, int first, int rows, int k0, int k)
    {
        const int t = threadIdx.x, x = kmajor ? t / RUN % P : t % P, at = kmajor ? t % RUN + t / (RUN * P) * RUN : t / P;
        from = static_cast<const char *>(base) + ((first + x) * (kmajor ? ld : 1) + (k0 + at) * (kmajor ? 1 : ld)) * SIZE;
        apart = KS * (kmajor ? 1 : ld) * SIZE;
        to = (at * PITCH + x) * SIZE;
        left = x < rows ? k - at : 0;
        asm("" : "+l"(apart), "+r"(to));
    }

    /* Copies the next TILE_K k, with zeros for what does not exist. */
    __device__ void copy(unsigned stage)
    {
#pragma unroll
        for (int i = 0; i < PIECES; i++, from += apart)
            gg_copy_or_zero<SIZE>(stage + to + i * KS * PITCH * SIZE, from, i * KS < left);
        left -= TILE_K;
    }
};

template <typename T, int P, int TILE_K, int STAGES> struct gram {
    using vector = gg_vector<T>;
    static constexpr int TM = 4, TN = 4, V = vector::SIZE, ACROSS = P / TM * (P / TN), SLICES = THREADS / ACROSS;
    static constexpr int PITCH = P == 4 && sizeof(T) == 4 ? P : P + V; /* free of bank conflicts in all accesses */
    using stream = gram_stream<T, P, TILE_K, PITCH>;
    static constexpr int STAGE = 2 * stream::BYTES, SHARED = STAGES * STAGE;
    static constexpr int SUMS = P * P, APART = SUMS + 1; /* APART: elements from slice to slice in shared memory */
    static constexpr int EACH = SUMS > THREADS ? SUMS / THREADS : 1, TEAM = EACH * THREADS / SUMS; /* elements of a thread, threads of an element */
    static constexpr int GROUP = GG_GRAM_GROUP;
    static_assert(SLICES * APART * sizeof(T) <= SHARED && TILE_K % SLICES == 0, "the slices' sums");

    T sum[TM][TN] = {};

    __device__ void multiply(const char *stage)
    {
        const int slice = threadIdx.x / ACROSS, place = threadIdx.x % ACROSS, m = place % (P / TM) * TM, n = place / (P / TM) * TN;
        const T *a = reinterpret_cast<const T *>(stage) + slice * PITCH + m;
        const T *b = reinterpret_cast<const T *>(stage + stream::BYTES) + slice * PITCH + n;
#pragma unroll
        for (int l = 0; l < TILE_K / SLICES; l++) {
            vector x[TM / V], y[TN / V];
#pragma unroll
            for (int i = 0; i < TM / V; i++)
                x[i] = *reinterpret_cast<const vector *>(a + l * SLICES * PITCH + i * V);
#pragma unroll
            for (int j = 0; j < TN / V; j++)
                y[j] = *reinterpret_cast<const vector *>(b + l * SLICES * PITCH + j * V);
#pragma unroll
            for (int i = 0; i < TM; i++)
#pragma unroll
                for (int j = 0; j < TN; j++)
                    sum[i][j] += x[i / V].v[i % V] * y[j / V].v[j % V];
        }
    }

    /* Adds up load(i, e) for i = 0 … count - 1 and each of this thread's elements e, TEAM threads sharing an element. */
    template <typename LOAD> static __device__ void add_up(T (&total)[EACH], int count, LOAD load)
    {
        const int member = threadIdx.x % TEAM;
#pragma unroll
        for (int of = 0; of < EACH; of++) {
            const int e = threadIdx.x / TEAM + of * THREADS;
            total[of] = 0;
            add_parts<8>(0, (count - member + TEAM - 1) / TEAM, [&](int i) { return load(member + i * TEAM, e); }, [&](T x) { total[of] += x; });
#pragma unroll
            for (int other = TEAM / 2; other > 0; other /= 2)
                total[of] += __shfl_xor_sync(~0u, total[of], other);
        }
    }

    /* Calls put(e, total) for each element once. */
    template <typename PUT> static __device__ void each(const T (&total)[EACH], PUT put)
    {
        if (threadIdx.x % TEAM == 0)
#pragma unroll
            for (int of = 0; of < EACH; of++)
                put(threadIdx.x / TEAM + of * THREADS, total[of]);
    }

    /* Adds up what the slices have. */
    __device__ void add_slices(T *shared, T (&total)[EACH])
    {
        const int slice = threadIdx.x / ACROSS, place = threadIdx.x % ACROSS, m = place % (P / TM) * TM, n = place / (P / TM) * TN;
        asm volatile("cp.async.wait_all;" ::: "memory");
        __syncthreads(); /* the ring's memory is free */
#pragma unroll
        for (int j = 0; j < TN; j++)
#pragma unroll
            for (int i = 0; i < TM; i++)
                shared[slice * APART + (n + j) * P + m + i] = sum[i][j];
        __syncthreads();
        add_up(total, SLICES, [&](int i, int e) { return shared[i * APART + e]; });
    }

    /* Adds up the blocks' sums. False: another block does. */
    static __device__ bool add_blocks(const gg_args &p, T (&total)[EACH])
    {
        const int pieces = gridDim.y, groups = (pieces + GROUP - 1) / GROUP, group = blockIdx.y / GROUP;
        T *const parts = static_cast<T *>(p.workspace) + int64_t(blockIdx.x) * pieces * SUMS;
        const int flag = blockIdx.x * GG_GRAM_FLAGS, members = min(GROUP, pieces - group * GROUP);
        each(total, [&](int e, T x) { __stcg(parts + blockIdx.y * SUMS + e, x); });
        if (!gg_last_part(p, flag + group, members))
            return false;
        add_up(total, members, [&](int i, int e) { return __ldcg(parts + (group * GROUP + i) * SUMS + e); });
        if (groups == 1)
            return true;
        each(total, [&](int e, T x) { __stcg(parts + group * GROUP * SUMS + e, x); }); /* in place of its first member's */
        if (!gg_last_part(p, flag + GG_GRAM_FLAGS - 1, groups))
            return false;
        add_up(total, groups, [&](int i, int e) { return __ldcg(parts + i * GROUP * SUMS + e); });
        return true;
    }

    static __device__ void run(const gg_args &p)
    {
        if (gg_gated(p))
            return;
        extern __shared__ __align__(128) char shared[];
        const int tiles_m = (int(p.m) + P - 1) / P, m0 = int(blockIdx.x) % tiles_m * P, n0 = int(blockIdx.x) / tiles_m * P;
        const int all = (int(p.k) + TILE_K - 1) / TILE_K, first = gg_share(all, blockIdx.y, gridDim.y);
        const int steps = gg_share(all, blockIdx.y + 1, gridDim.y) - first, k0 = first * TILE_K, k = min(int(p.k) - k0, steps * TILE_K);
        stream a(p.a, p.lda, p.a_kmajor, m0, int(p.m) - m0, k0, k), b(p.b, p.ldb, p.b_kmajor, n0, int(p.n) - n0, k0, k);
        gram g;
        int now = 0, next = 0; /* stages */
#pragma unroll 1
        for (int step = 1 - STAGES; step < steps; step++) {
            if (step >= 0) {
                asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
                __syncthreads(); /* this stage has arrived, and the one before has been read */
            }
            if (step + STAGES - 1 < steps) {
                a.copy(gg_shared(shared) + next * STAGE);
                b.copy(gg_shared(shared) + next * STAGE + stream::BYTES);
                next = next + 1 == STAGES ? 0 : next + 1;
            }
            asm volatile("cp.async.commit_group;" ::: "memory");
            if (step < 0)
                continue;
            g.multiply(shared + now * STAGE);
            now = now + 1 == STAGES ? 0 : now + 1;
        }
        T total[EACH];
        g.add_slices(reinterpret_cast<T *>(shared), total);
        if (gridDim.y > 1 && !add_blocks(p, total))
            return;
        each(total, [&](int e, T x) {
            const int64_t i = m0 + e % P, j = n0 + e / P;
            if (i < p.m && j < p.n)
                gg_store(p, static_cast<T *>(p.c) + i + j * p.ldc, x);
        });
    }
};

#define GG_GRAM_ROW(name, ...)                                                                                                                       \
    static_assert(gram<__VA_ARGS__>::SHARED == gg_shared_##name, "kernels.def");                                                                     \
    extern "C" __global__ void __launch_bounds__(THREADS, 2) name(const __grid_constant__ gg_args p) { gram<__VA_ARGS__>::run(p); }
GG_GRAM_ROW(gram_s4, float, 4, 512, 6)
GG_GRAM_ROW(gram_s16, float, 16, 128, 5)
GG_GRAM_ROW(gram_d4, double, 4, 512, 2)
GG_GRAM_ROW(gram_d16, double, 16, 64, 5)
#endif

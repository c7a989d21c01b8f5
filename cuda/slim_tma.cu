/* slim_tma — m or n ≤ 16 or ≤ 32 in FP32 on sm_90: the large operand X is read once, by TMA, at the memory's speed.
 *
 *   slim_tma_s16   2 blocks an SM, 3 stages: 16x16384x16384 reads 2.9 TB/s of an H100's 3.35, where slim_s16 read 2.2 to 2.8
 *   slim_tma_s32   1 block an SM, 5 stages: 32x16384x16384 2.3 to 2.7
 *
 * A block takes 128 rows of X and one of p.splits pieces of k; the blocks of one block of rows are a cluster, and add up through each other's shared
 * memory, in ascending k. A stage is 64 k. The last warp to leave it starts the copies that refill it.
 *
 * Every warp multiplies all 128 rows with all columns of the small operand Y, for 4 of 32 k. A lane has 4 rows: 16 FFMAs for each load of 16 bytes of
 * Y, which is the same for all lanes, and 4 loads of X. So no operand has to be transposed, whichever way it lies; the four loops differ in what a
 * load of 16 bytes holds, four rows or columns, or four k. FFMAs take 1.2 to 1.6 clocks, because of register banks (ffma.cuh). A stage takes an SM
 * some 1750 clocks by slim_tma_s16, 3000 by slim_tma_s32, and memory delivers one in 2500 to 3100.
 *
 * Registers ≤ 128 and ≤ 255. Limits: m, n, k < 2^31 − 256. */
#include "parts.cuh"
#include "pipeline.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
constexpr int X = 128, TILE_K = 64, WARPS = 8, THREADS = 32 * WARPS;

template <int Y, int STAGES> struct slim_tma {
    static constexpr int HALF_X = X * TILE_K / 2 * 4, HALF_Y = Y * TILE_K / 2 * 4, PANEL_X = 2 * HALF_X, STAGE = PANEL_X + 2 * HALF_Y; /* bytes */
    static constexpr int PITCH = X + 4; /* of sums in shared memory, [column][row] */
    static constexpr int SHARED = 1024 + STAGES * (STAGE + 20);
    static_assert((WARPS + 1) * Y * PITCH * 4 <= STAGES * STAGE, "the ring takes the sums of all warps, and their total");
    using ring_type = gg_ring<STAGES>;

    /* The problem with X and Y in place of A and B. */
    const gg_args &p;
    const gg_tensor_map *map_x, *map_y;
    const float *y;
    int64_t ld;                              /* of Y */
    bool swapped, x_kmajor, y_kmajor, y_vec; /* X is B: C(i, j) is (y, x). Y is aligned */
    int size_x, size_y, k, rank, x0, first, steps;

    __device__ slim_tma(const gg_args &args) : p(args)
    {
        swapped = p.n > Y;
        map_x = swapped ? &p.map_b : &p.map_a, map_y = swapped ? &p.map_a : &p.map_b;
        y = static_cast<const float *>(swapped ? p.a : p.b), ld = swapped ? p.lda : p.ldb;
        x_kmajor = swapped ? p.b_kmajor : p.a_kmajor, y_kmajor = swapped ? p.a_kmajor : p.b_kmajor;
        y_vec = swapped ? p.a_vec : p.b_vec;
        size_x = int(swapped ? p.n : p.m), size_y = int(swapped ? p.m : p.n);
        rank = cluster_rank();
        x0 = cluster_index() * X;
        k = int(p.k);
        const unsigned all = (k + TILE_K - 1) / TILE_K, pieces = p.splits; /* at most 2^25, 8 */
        first = int(all * rank / pieces);
        steps = int(all * (rank + 1) / pieces) - first;
    }

    /* Four bytes of Y, or 0. */
    __device__ void copy(unsigned to, const float *from, bool exists) const
    {
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(exists ? from : y), "r"(exists ? 4 : 0) : "memory");
    }

    /* Starts the copies of a stage. Called by a whole warp, whose lanes copy Y element by element if TMA cannot. */
    __device__ void fill(ring_type ring, int stage, unsigned shared, int step) const
    {
        const unsigned lane = threadIdx.x % 32, to = shared + stage * STAGE;
        const int k0 = (first + step) * TILE_K;
        if (lane == 0) {
            ring.expect_full(stage, y_vec ? STAGE : PANEL_X);
            ring.copy_box(stage, to, map_x, x_kmajor ? k0 : x0, x_kmajor ? x0 : k0);
            if (x_kmajor)
                ring.copy_box(stage, to + HALF_X, map_x, k0 + TILE_K / 2, x0);
            if (y_vec)
                ring.copy_box(stage, to + PANEL_X, map_y, y_kmajor ? k0 : 0, y_kmajor ? 0 : k0);
            if (y_vec && y_kmajor)
                ring.copy_box(stage, to + PANEL_X + HALF_Y, map_y, k0 + TILE_K / 2, 0);
        }
        __syncwarp();
        if (y_vec)
            return;
        if (y_kmajor) { /* 32 k of a column at a time */
            const float *from = y + k0 + lane;
#pragma unroll 4
            for (int i = 0; i < 2 * Y; i++)
                copy(to + PANEL_X + (i * 32 + lane) * 4, from + i % Y * ld + i / Y * 32, i % Y < size_y && k0 + i / Y * 32 + int(lane) < k);
        } else { /* all columns of as many k as there are lanes for */
            const int c = lane % Y, at = k0 + int(lane) / Y;
#pragma unroll 4
            for (int i = 0; i < TILE_K; i += 32 / Y)
                copy(to + PANEL_X + (i * Y + lane) * 4, y + c + (at + i) * ld, c < size_y && at + i < k);
        }
        ring.stage = stage;
        ring.arrive_full();
    }

    static __device__ void load_four(float (&to)[4], unsigned at)
    {
        asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3]) : "r"(at) : "memory");
    }

    /* Adds the products of four k. from_x, from_y: where this lane's X and the warp's Y of these k are. Panels of k-major X are [128][32 k],
     * swizzled, and a lane has rows lane + {0, 32, 64, 96}; others are [32 k][128], and a lane has four consecutive rows. Panels of Y are [Y][32 k],
     * not swizzled, or [32 k][Y]. */
    template <bool X_KMAJOR, bool Y_KMAJOR> static __device__ __forceinline__ void multiply(float (&sum)[Y][4], unsigned from_x, unsigned from_y)
    {
        float of_x[4][4]; /* [k][row], or the other way round */
#pragma unroll
        for (int i = 0; i < 4; i++)
            load_four(of_x[i], from_x + i * (X_KMAJOR ? 32 * TILE_K / 2 * 4 : X * 4));
#pragma unroll
        for (int i = 0; i < Y; i++) { /* column i, or four columns of k i / (Y / 4) */
            float of_y[4];
            load_four(of_y, from_y + (Y_KMAJOR ? i * (TILE_K / 2 * 4) : i * 16));
#pragma unroll
            for (int at = 0; at < 16; at++) { /* back and forth: neighbours share a factor, which then comes from the reuse cache (ffma.cuh) */
                const int e = at / 4, row = e % 2 ? 3 - at % 4 : at % 4, k = Y_KMAJOR ? e : i / (Y / 4), column = Y_KMAJOR ? i : i % (Y / 4) * 4 + e;
                asm volatile("fma.rn.f32 %0, %1, %2, %0;" : "+f"(sum[column][row]) : "f"(X_KMAJOR ? of_x[row][k] : of_x[k][row]), "f"(of_y[e]));
            }
        }
    }

    /* Leaves each warp's sums in the ring's memory. */
    template <bool X_KMAJOR, bool Y_KMAJOR> __device__ __forceinline__ void multiply_all(ring_type ring, unsigned shared) const
    {
        const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        const unsigned from_x = shared + (X_KMAJOR ? lane * 128 + (warp ^ lane % 8) * 16 : warp * (4 * X * 4) + lane * 16);
        const unsigned from_y = shared + PANEL_X + (Y_KMAJOR ? warp * 16 : warp * (4 * Y * 4));
        float sum[Y][4] = {};
#pragma unroll 1
        for (int step = 0; step < steps; step++, ring.next()) {
            ring.wait_full();
#pragma unroll 1
            for (int half = 0; half < 2; half++)
                multiply<X_KMAJOR, Y_KMAJOR>(sum, from_x + ring.stage * STAGE + half * HALF_X, from_y + ring.stage * STAGE + half * HALF_Y);
            const bool last = gg_count_reader<WARPS>(shared + STAGES * (STAGE + 16) + 4 * ring.stage, lane) == WARPS - 1;
            if (__any_sync(~0u, last) && step + STAGES < steps)
                fill(ring, ring.stage, shared, step + STAGES);
        }
        __syncthreads();                 /* all stages have been read: the ring's memory is free */
        const float one = k > 0 ? 1 : 0; /* ptxas does not know it is 1; otherwise it would keep the sums in quads, for storing them */
        const unsigned to = shared + warp * (Y * PITCH * 4) + lane * (X_KMAJOR ? 4 : 16);
#pragma unroll
        for (int column = 0; column < Y; column++) {
            const float (&of)[4] = sum[column];
            if (X_KMAJOR)
#pragma unroll
                for (int row = 0; row < 4; row++)
                    asm volatile("st.shared.f32 [%0], %1;" ::"r"(to + (column * PITCH + row * 32) * 4), "f"(one * of[row]) : "memory");
            else
                asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(to + column * PITCH * 4), "f"(one * of[0]), "f"(one * of[1]),
                             "f"(one * of[2]), "f"(one * of[3])
                             : "memory");
        }
    }

    /* Adds up the warps' sums, then the cluster's, of which each block does some, and stores them. */
    __device__ __forceinline__ void finish(char *shared) const
    {
        const float *const parts = reinterpret_cast<const float *>(shared), alpha = float(p.alpha), beta = float(p.beta);
        float *const total = reinterpret_cast<float *>(shared) + WARPS * Y * PITCH;
        __syncthreads();
#pragma unroll 1
        for (int e = threadIdx.x; e < X * Y; e += THREADS) {
            const int at = e / X * PITCH + e % X;
            float s = parts[at];
#pragma unroll
            for (int warp = 1; warp < WARPS; warp++)
                s += parts[warp * Y * PITCH + at];
            total[at] = s;
        }
        if (p.splits > 1) {
            cluster_arrive_shared();
            cluster_wait();
        } else
            __syncthreads();
        const int end = X * Y * (rank + 1) / p.splits;
#pragma unroll 1
        for (int e = X * Y * rank / p.splits + threadIdx.x; e < end; e += THREADS) {
            const int row = swapped ? e / Y : e % X, column = swapped ? e % Y : e / X, at = column * PITCH + row;
            float s = 0;
            if (p.splits == 1)
                s = total[at];
            else
#pragma unroll
                for (int other = 0; other < 8; other++) {
                    float part = 0;
                    if (other < p.splits)
                        asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(part) : "r"(of_block(gg_shared(total + at), other)) : "memory");
                    s += part;
                }
            if (x0 + row < size_x && column < size_y) {
                const int64_t i = x0 + row;
                float *const to = static_cast<float *>(p.c) + (swapped ? column + i * p.ldc : i + column * p.ldc);
                *to = beta == 0 ? alpha * s : alpha * s + beta * *to;
            }
        }
        if (p.splits > 1)
            cluster_leave(); /* others may still be reading this block's totals */
    }

    static __device__ void run(const gg_args &p)
    {
        if (gg_gated_apart(p))
            return;
        extern __shared__ __align__(1024) char memory[];
        char *const shared_memory = memory + (-gg_shared(memory) & 1023); /* aligned for the swizzle */
        const unsigned shared = gg_shared(shared_memory);
        const ring_type ring(shared + STAGES * STAGE);
        const slim_tma of(p);
        if (threadIdx.x < 32) {
            if (threadIdx.x == 0)
                ring.init(of.y_vec ? 1 : 1 + 32, 1);
            if (threadIdx.x < STAGES)
                reinterpret_cast<unsigned *>(shared_memory + STAGES * (STAGE + 16))[threadIdx.x] = 0; /* warps that have read the stage */
            __syncwarp();
            for (int stage = 0; stage < STAGES && stage < of.steps; stage++)
                of.fill(ring, stage, shared, stage);
        }
        __syncthreads();
        if (of.x_kmajor)
            of.y_kmajor ? of.template multiply_all<true, true>(ring, shared) : of.template multiply_all<true, false>(ring, shared);
        else
            of.y_kmajor ? of.template multiply_all<false, true>(ring, shared) : of.template multiply_all<false, false>(ring, shared);
        slim_tma(p).finish(shared_memory); /* found again: what it needs is not kept in registers until then */
        gg_gate_end(p);
    }
};

#define GG_SLIM_TMA_ROW(name, per_sm, ...)                                                                                                           \
    static_assert(slim_tma<__VA_ARGS__>::SHARED <= gg_shared_##name, "kernels.def");                                                                 \
    extern "C" __global__ void __launch_bounds__(THREADS, per_sm) name(const __grid_constant__ gg_args p) { slim_tma<__VA_ARGS__>::run(p); }
GG_SLIM_TMA_ROW(slim_tma_s16, 2, 16, 3)
GG_SLIM_TMA_ROW(slim_tma_s32, 1, 32, 5)
#endif

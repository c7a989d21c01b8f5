/* sgemm_once.cuh — strict FP32 (FFMA only) for sm_90, operands by TMA, k step 64, 256 threads that multiply: for C of so few tiles that each block
 * has one.
 *
 *   sgemm_tma_64x64         8×8 sums a thread, 4 slices of k, 2 blocks an SM
 *   sgemm_tma_64x64_alone   8×8 sums, 4 slices, an SM to itself: as fast, but faster with operands that must be transposed, see below
 *   sgemm_tma_64x48         8×12 sums, 8 slices, an SM to itself: n = 576 is 108 tiles, 608 is 130
 *   sgemm_tma_64x96         8×12 sums, 4 slices, an SM to itself: n = 768 is 96 tiles
 *   sgemm_tma_64x128        8×8 sums, 2 slices, an SM to itself: n = 1024 is 128 tiles. Its sums are those of sgemm_128x64 to the bit, so that a
 *                           chain may end with either (src/tensor.c)
 *   sgemm_tma_96x128        12×8 sums, 2 slices, an SM to itself: n = 1200 is 130 tiles, 1.2 to 1.3 times as fast as by the rows that share tiles
 *   sgemm_tma_128x128_alone 8×8 sums, not sliced, an SM to itself: n = 1300 to 1400 is 121 tiles, 1.07 to 1.12 times as fast
 *
 * A slice is the part of each stage's k that one group of warps multiplies, for the whole tile; the slices are added up through shared memory at the
 * end, in order. Operands arrive as in sgemm_tma.cu. Those whose k is contiguous are transposed in place, a stage or more ahead of the products: by
 * four extra warps in rows that have an SM to themselves (n = 640 TN 22.1 TF/s instead of 19.3), else by pairs of the warps that multiply. Smaller C:
 * clusters of up to 8 blocks per tile and several clusters per tile, as there: each has a share of k, and the blocks of a cluster add up through
 * distributed shared memory. Or, with code of its own (GG_CUT), many single blocks per tile, which all add it up together (gather.cuh): 128x128x16384
 * 20.4 us in 33 blocks a tile, 22.6 in 16 pairs; 256x256x4096 19.4 and 21.8 (NT).
 *
 * Registers ≤ 128, or 168 for a block alone. NT reached 65 % (n = 1024) and 45 % (768) of the FP32 peak, launch and cold start included.
 * Limits: m, n, k < 2^31 − 256. */
#ifndef GG_SGEMM_ONCE_CUH
#define GG_SGEMM_ONCE_CUH

#include "ffma.cuh"
#include "gather.cuh"
#include "pipeline.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
namespace
{
constexpr int THREADS = 256, TILE_K = 64, LANES_M = 8, LANES_N = 4;

__device__ void block_barrier() { asm volatile("bar.sync 1, %0;" ::"n"(THREADS) : "memory"); } /* for the threads that multiply */

__device__ float4 load_shared(unsigned at)
{
    float4 v;
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "r"(at) : "memory");
    return v;
}

__device__ void store_shared(unsigned at, const float4 &v)
{
    asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(at), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w) : "memory");
}

__device__ void add(float4 &to, const float4 &v) { to.x += v.x, to.y += v.y, to.z += v.z, to.w += v.w; }

/* TM, TN: sums of a thread. A group of warps multiplies the whole tile for its slice of a stage's k, which consists of RUNS runs of consecutive k.
 * ASIDE: the number of extra warps that only transpose operands, or 0. COPIES: these warps also start copies, which is 3 % faster for the largest
 * tile, 1 % for others where nothing is transposed, and up to 5 % slower where something is. Otherwise the last warp to leave a stage starts them.
 * CARRIES: the next stage's first fragments are fetched among the last products of a stage. That is 2 % faster for 64x64 alone and 2 % for 64x96
 * where both operands are transposed, but 1 to 2 % slower for 64x48 and 64x128. ROLLED: a stage's runs are a loop, half the code: 64x128 is 1.5 %
 * faster where B is transposed, 0.6 % where A is. PLAIN: a tile whose C is not read is stored by code of its own: n = 576, 640, 768, 1024 1.5
 * to 3 % faster. Beside the tensor cores' product (tensor_once.cu) ROLLED and PLAIN are both slower. BY_ROWS: C that is not aligned is stored by
 * gg_rows, and gg_pack awaited only where its copies are first read: n = 1024, NT, leading dimensions 1025, 5 % faster by 64x128. For the other rows,
 * whose clusters' code then lies further away, 64x4096x4096 was 3 % slower. */
template <int TILE_M, int TILE_N, int TM, int TN, int STAGES, int RUNS, int ASIDE, bool COPIES, bool CARRIES, class ORDER, bool ROLLED = false,
          bool PLAIN = true, bool BY_ROWS = false>
struct sgemm_once {
    static constexpr int WARPS_M = TILE_M / (TM * LANES_M), GROUP = WARPS_M * (TILE_N / (TN * LANES_N)) * 32;
    static constexpr int SLICES = THREADS / GROUP, KS = TILE_K / SLICES / RUNS;
    static constexpr int PANEL_A = TILE_M * TILE_K * 4, PANEL_B = TILE_N * TILE_K * 4, STAGE = PANEL_A + PANEL_B, VECTORS = TILE_M * TILE_N / 4;
    static constexpr int SHARED = 1024 + STAGES * (STAGE + (COPIES ? 24 : 20));
    static_assert(GROUP * SLICES == THREADS && GROUP * TM * TN == TILE_M * TILE_N, "threads cover the tile");
    static_assert(SLICES * VECTORS * 16 + BY_ROWS * THREADS / 32 * gg_rows::BYTES <= STAGES * STAGE,
                  "the ring takes the sums of all slices, and rows of C");
    static_assert(VECTORS % THREADS == 0, "all warps have vectors");
    static_assert(PANEL_B % 2048 == 0, "halves of panels begin where a swizzle does");
    static_assert(!CARRIES || RUNS == 1, "one run from stage to stage");
    using ring_type = gg_ring<STAGES>;
    using ffma_type = gg_ffma<TM, TN, LANES_M, TILE_M, TILE_N, 1, ORDER>;

    static __device__ void copy_panel(const ring_type &ring, int stage, unsigned to, int half, const gg_tensor_map *map, bool kmajor, int x, int k)
    {
        ring.copy_box(stage, to, map, kmajor ? k : x, kmajor ? x : k);
        if (kmajor)
            ring.copy_box(stage, to + half, map, k + TILE_K / 2, x);
    }

    struct one_tile {
        gg_piece<TILE_M, TILE_N, TILE_K, 1> piece;
        int m0, n0, k0;

        __device__ one_tile(const gg_args &p)
        {
            if (GG_CUT)
                piece.find_in_cluster(p), piece.fate = GATHER;
            else
                piece.find_in_cluster_soon(p);
            piece.template place<8>(p, piece.tile, m0, n0);
            k0 = piece.first * TILE_K;
        }

        __device__ void fill(const gg_args &p, const ring_type &ring, int stage, unsigned shared, int step) const
        {
            const unsigned to = shared + stage * STAGE;
            const int k = k0 + step * TILE_K;
            ring.expect_full(stage, STAGE);
            copy_panel(ring, stage, to, PANEL_A / 2, &p.map_a, p.a_kmajor, m0, k);
            copy_panel(ring, stage, to + PANEL_A, PANEL_B / 2, &p.map_b, p.b_kmajor, n0, k);
        }
    };

    /* Transposes [ROWS][32 k], swizzled, in place to [32 k][ROWS], by TURNERS threads, 4×4 elements at a time. */
    template <int ROWS, int TURNERS> static __device__ void turn_half(unsigned half)
    {
        constexpr int ROUNDS = (ROWS + 31) / 32 * (64 / TURNERS);
        int t = threadIdx.x % TURNERS;
        asm("" : "+r"(t));
        const int g = t % 8, q = (t % 8 + t / 8) % 8; /* groups of 4 rows; 8 of 4 k */
        const unsigned from = half + g * 512 + (q ^ g % 2 * 4) * 16, to[2] = {half + q * (16 * ROWS) + g * 16, half + (q ^ 4) * (16 * ROWS) + g * 16};
        auto is_there = [&](int i) { return (i * TURNERS / 64 + 1) * 32 <= ROWS || (g + i * TURNERS / 64 * 8) * 4 < ROWS; };
        float v[ROUNDS][4][4];
#pragma unroll
        for (int i = 0; i < ROUNDS; i++)
            if (is_there(i))
#pragma unroll
                for (int e = 0; e < 4; e++)
                    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                                 : "=f"(v[i][e][0]), "=f"(v[i][e][1]), "=f"(v[i][e][2]), "=f"(v[i][e][3])
                                 : "r"((from ^ (e * 16 + i * TURNERS / 32 % 2 * 64)) + e * 128 + i * TURNERS / 64 * 4096)
                                 : "memory");
        if (TURNERS == 32)
            __syncwarp();
        else
            asm volatile("bar.sync %0, %1;" ::"r"(threadIdx.x % 256 / TURNERS + 2), "n"(TURNERS) : "memory");
#pragma unroll
        for (int i = 0; i < ROUNDS; i++)
            if (is_there(i))
#pragma unroll
                for (int e = 0; e < 4; e++)
                    asm volatile("st.shared.v4.f32 [%4], {%0, %1, %2, %3};" ::"f"(v[i][0][e]), "f"(v[i][1][e]), "f"(v[i][2][e]), "f"(v[i][3][e]),
                                 "r"(to[i * TURNERS / 32 % 2] + e * (ROWS * 4) + i * TURNERS / 64 * 128)
                                 : "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }

    /* Waits for the ring's stage and transposes this warp's part of it. */
    static __device__ void turn(const gg_args &p, const ring_type &ring, unsigned shared)
    {
        const unsigned a = shared + ring.stage * STAGE, b = a + PANEL_A;
        const int warp = threadIdx.x / 32 % 8;
        if constexpr (ASIDE) {
            ring.wait_full();
            if (!p.b_kmajor)
                turn_half<TILE_M, 64>(a + warp / 2 * (PANEL_A / 2));
            else if (!p.a_kmajor)
                turn_half<TILE_N, 64>(b + warp / 2 * (PANEL_B / 2));
            else if (warp < 2)
                turn_half<TILE_M, 32>(a + warp * (PANEL_A / 2));
            else
                turn_half<TILE_N, 32>(b + (warp - 2) * (PANEL_B / 2));
        } else if (warp < 4 ? p.a_kmajor : p.b_kmajor) {
            static_assert(ASIDE || TILE_M == TILE_N, "pairs of warps differ in nothing but where their half is");
            ring.wait_full();
            turn_half<TILE_M, 64>(a + warp / 2 * (PANEL_A / 2));
        }
        ring.arrive_empty(ring.stage, COPIES ? 8 * STAGES : 0); /* arrives at the barrier that means "transposed": the empty barrier, or with COPIES
                                                                 * one of its own */
    }

    /* Run by the extra warps, whose first thread also starts copies. Where stages must be transposed it checks whether one has been left only after
     * transposing the next. */
    static __device__ void turn_and_copy(const gg_args &p, const one_tile &tile, ring_type ring, unsigned shared, int steps, bool turns)
    {
        const int late = turns ? 2 : 0;
        ring_type left = ring;
        for (int step = 0; step < steps; step++) {
            if (threadIdx.x == THREADS && step >= late && step + STAGES - late < steps) {
                while (!left.passed(left.empty + 8 * left.stage, left.parity)) {
                }
                tile.fill(p, left, left.stage, shared, step + STAGES - late);
                left.next();
            }
            __syncwarp();
            if (turns) {
                turn(p, ring, shared);
                ring.next();
            }
        }
    }

    /* Where a warp's part of the tile begins; below, where a thread's begins. */
    static __device__ int warp_m(int t) { return t / 32 % WARPS_M * (TM * LANES_M); }
    static __device__ int warp_n(int t) { return t % GROUP / 32 / WARPS_M * (TN * LANES_N); }
    static __device__ int at_m(int t) { return warp_m(t) + ffma_type::lanes::m(t % 32) * 4; }
    static __device__ int at_n(int t) { return warp_n(t) + ffma_type::lanes::n(t % 32) * 4; }

    using vector = typename gg_out<float, TILE_M, TILE_N>::vector;

    /* Stores vector `at` of the tile: number at / GROUP of the four-sum vectors of thread at % GROUP in a slice. WARPS: the warp's lanes have 32
     * consecutive vectors, starting at a multiple of 32. */
    template <bool WARPS>
    static __device__ void put(const gg_out<float, TILE_M, TILE_N> &out, const one_tile &tile, unsigned shared, int at, const float4 &v,
                               const vector &was)
    {
        const int t = at % GROUP, s = at / GROUP, i = s % (TM / 4) * 4, j = s / (TM / 4);
        const float sums[4] = {v.x, v.y, v.z, v.w};
        if (WARPS && !out.vec) {
            gg_rows(typename ffma_type::lanes(), out, shared + SLICES * VECTORS * 16 + threadIdx.x / 32 * gg_rows::BYTES, tile.m0 + warp_m(t),
                    tile.n0 + warp_n(t))
                .put(i * LANES_M, j / 4 * (4 * LANES_N) + j % 4, sums);
            return;
        }
        out.put_vector(tile.m0 + at_m(t) + i * LANES_M, tile.n0 + at_n(t) + j / 4 * (4 * LANES_N) + j % 4, sums, was);
    }

    /* C where put() stores it, if it does so in vectors. */
    template <bool WARPS> static __device__ vector old(const gg_out<float, TILE_M, TILE_N> &out, const one_tile &tile, int at)
    {
        const int t = at % GROUP, s = at / GROUP, i = s % (TM / 4) * 4, j = s / (TM / 4);
        if (WARPS && !out.vec)
            return {};
        return out.old_vector(tile.m0 + at_m(t) + i * LANES_M, tile.n0 + at_n(t) + j / 4 * (4 * LANES_N) + j % 4);
    }

    /* The same where out.plain(). */
    static __device__ void put_plain(const gg_args &p, const gg_out<float, TILE_M, TILE_N> &out, const one_tile &tile, int at, const float4 &v)
    {
        const int t = at % GROUP, s = at / GROUP, j = s / (TM / 4), m = tile.m0 + at_m(t) + s % (TM / 4) * (4 * LANES_M),
                  n = tile.n0 + at_n(t) + j / 4 * (4 * LANES_N) + j % 4;
        if (m < int(p.m) && n < int(p.n))
            *reinterpret_cast<float4 *>(out.c + m + n * out.ld) = make_float4(out.alpha * v.x, out.alpha * v.y, out.alpha * v.z, out.alpha * v.w);
    }

    static __device__ void finish(const gg_args &p, const one_tile &tile, unsigned shared, const ffma_type &ffma)
    {
        int thread = threadIdx.x, s = 0;
        asm("" : "+r"(thread));
        gg_tile place;
        place.m0 = place.own_m = tile.m0, place.n0 = place.own_n = tile.n0, place.slot = -1;
        const gg_out<float, TILE_M, TILE_N> out(p, place);
        const unsigned to = shared + ((thread / GROUP) * VECTORS + thread % GROUP) * 16;
        block_barrier(); /* after this the ring's memory is free: all stages have been read */
        ffma.for_each(gg_one(p), [&](int, int, const float (&v)[4]) { store_shared(to + s++ * (GROUP * 16), make_float4(v[0], v[1], v[2], v[3])); });
        block_barrier();
        const auto summed = [&](int at) {
            float4 sum = load_shared(shared + at * 16);
#pragma unroll
            for (int slice = 1; slice < SLICES; slice++)
                add(sum, load_shared(shared + (slice * VECTORS + at) * 16));
            return sum;
        };
        if constexpr (GG_CUT) {
            float4 *const parts = static_cast<float4 *>(p.workspace);
#pragma unroll
            for (int at = thread; at < VECTORS; at += THREADS)
                __stcg(parts + int64_t(blockIdx.x) * VECTORS + at, summed(at));
            const int place = blockIdx.x % p.groups, lane = thread % 32;
            return gg_gather_tile<THREADS, VECTORS / 32>(
                p, blockIdx.x, 1, place, p.groups, thread, shared,
                [&](int unit) -> const float4 * { return parts + int64_t(int(blockIdx.x) - place + unit) * VECTORS; },
                [&](int chunk) { return old<false>(out, tile, chunk * 32 + lane); },
                [&](int chunk, const float4 &sum, const vector &was) { put<false>(out, tile, shared, chunk * 32 + lane, sum, was); }, block_barrier);
        }
        /* In vectors: little code in one piece, because in a short call it comes from memory. */
        const bool whole = p.splits * p.groups == 1; /* this block has summed all of k */
        if (PLAIN && whole && out.plain()) {
            const int m = tile.m0 + at_m(thread), n = tile.n0 + at_n(thread);
            float *const c = out.c + m + n * out.ld;
#pragma unroll
            for (int s = 0; s < VECTORS / THREADS; s++) {
                const float4 v = summed(thread + s * THREADS);
                const int of_group = thread / GROUP + s * SLICES, i = of_group % (TM / 4) * (4 * LANES_M), j = of_group / (TM / 4),
                          column = j / 4 * (4 * LANES_N) + j % 4;
                if (m + i < int(p.m) && n + column < int(p.n))
                    *reinterpret_cast<float4 *>(c + i + column * out.ld) =
                        make_float4(out.alpha * v.x, out.alpha * v.y, out.alpha * v.z, out.alpha * v.w);
            }
            return;
        }
        if (GG_UPDATE && whole) {
            constexpr int AT_ONCE = VECTORS / THREADS % 4 ? 3 : 4;
            static_assert(VECTORS % (AT_ONCE * THREADS) == 0, "whole turns");
#pragma unroll 1
            for (int at = thread; at < VECTORS; at += AT_ONCE * THREADS)
                gg_put_all<AT_ONCE, AT_ONCE>(
                    true, [&](int x) { return old<BY_ROWS>(out, tile, at + x * THREADS); },
                    [&](int x, const vector &was) { put<BY_ROWS>(out, tile, shared, at + x * THREADS, summed(at + x * THREADS), was); });
            return;
        }
        constexpr int UNROLLED = BY_ROWS || GG_UPDATE ? 1 : 1024; /* GG_UPDATE: the compiler would take this at its word */
#pragma unroll(UNROLLED)
        for (int at = thread; at < VECTORS; at += THREADS) {
            const float4 sum = summed(at);
            if (!GG_UPDATE && whole)
                put<BY_ROWS>(out, tile, shared, at, sum, {});
            else
                store_shared(shared + at * 16, sum);
        }
        if (whole)
            return;

        /* Every block of a cluster adds up its share of the tile. If the tile has several clusters, the last one then adds what the others have. What needs no waiting is done between arriving and waiting. */
        cluster_arrive_shared();
        const int rank = cluster_rank(), unit = cluster_index(), fate = tile.piece.fate, first = fate == COLLECT ? unit + 1 - p.groups : unit;
        const int begin = VECTORS * rank / p.splits + thread, end = VECTORS * (rank + 1) / p.splits;
        float4 *const parts = static_cast<float4 *>(p.workspace);
        unsigned sums[8]; /* of each block */
#pragma unroll
        for (int r = 0; r < 8; r++)
            sums[r] = of_block(shared, r < p.splits ? r : 0);
        cluster_wait();
        if (fate == COLLECT)
            await_parts<THREADS>(p, first, unit, rank, thread, block_barrier);
        const auto shared_sum = [&](int at) {
            float4 v[8];
#pragma unroll
            for (int r = 0; r < 8; r++)
                if (r < p.splits)
                    v[r] = load_cluster(sums[r] + at * 16);
#pragma unroll
            for (int r = 1; r < 8; r++)
                if (r < p.splits)
                    add(v[0], v[r]);
            return v[0];
        };
        if (!ASIDE && fate == WHOLE && out.plain()) { /* n = 256 and 384 2 to 3 % faster; with an SM per block 1 % slower for long k */
#pragma unroll 1
            for (int at = begin; at < end; at += THREADS)
                put_plain(p, out, tile, at, shared_sum(at));
        } else {
#pragma unroll 1
            for (int at = begin; at < end; at += THREADS) {
                vector was = {};
                if (fate != PUBLISH)
                    was = old<false>(out, tile, at);
                float4 sum = shared_sum(at);
                if (fate == PUBLISH) {
                    __stcg(parts + int64_t(unit) * VECTORS + at, sum);
                    continue;
                }
                add_parts<ASIDE ? 16 : 8>(
                    first, unit, [&](int from) { return __ldcg(parts + int64_t(from) * VECTORS + at); }, [&](const float4 &part) { add(sum, part); });
                put<false>(out, tile, shared, at, sum, was);
            }
        }
        if (fate == PUBLISH)
            announce_part(p, thread, block_barrier);
        else if (fate == COLLECT)
            forget_parts<THREADS>(p, first, unit, rank, thread, block_barrier);
        cluster_leave(); /* others may still be reading this block's shared memory */
    }

    static __device__ void run(const gg_args &p)
    {
        const bool apart = BY_ROWS && !p.verdict; /* waits for gg_pack, if at all, in run_now */
        if (apart || !gg_gated(p))
            run_now(p);
    }

    static __device__ void run_now(const gg_args &p)
    {
        asm volatile("prefetch.tensormap [%0];\nprefetch.tensormap [%1];" ::"l"(&p.map_a), "l"(&p.map_b) : "memory");
        extern __shared__ __align__(1024) char memory[];
        char *const shared_memory = memory + (-gg_shared(memory) & 1023); /* aligned for the swizzle */
        ring_type ring(reinterpret_cast<uint64_t *>(shared_memory + STAGES * STAGE));
        unsigned *const counts = reinterpret_cast<unsigned *>(shared_memory + STAGES * (STAGE + 16));
        const unsigned readers = gg_shared(counts), shared = gg_shared(shared_memory);
        const one_tile tile(p);
        const int steps = tile.piece.count;
        if (BY_ROWS)
            gg_await_packed(p);
        if (threadIdx.x == 0) {
            ring.init(1, ASIDE && !COPIES ? ASIDE : THREADS / 32);
            for (int s = 0; COPIES && s < STAGES; s++)
                asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(ring.empty + 8 * (STAGES + s)), "r"(ASIDE));
            for (int s = 0; s < STAGES; s++) {
                if (!COPIES)
                    counts[s] = 0;
                if (s < steps)
                    tile.fill(p, ring, s, shared, s);
            }
        }
        __syncthreads();
        if (GG_UPDATE && !GG_CUT && tile.piece.fate != PUBLISH && threadIdx.x < THREADS)
            gg_fetch_c<float, TILE_M, TILE_N>(p, tile.m0, tile.n0, (p.splits > 1 ? cluster_rank() * THREADS : 0) + threadIdx.x, p.splits * THREADS);
        asm volatile("" ::"l"(p.c)); /* while the first stage is under way: loads what finish() needs into the cache of arguments */

        const bool turns = p.a_kmajor || p.b_kmajor;
        if (ASIDE && threadIdx.x >= THREADS) {
            if constexpr (COPIES)
                turn_and_copy(p, tile, ring, shared, steps, turns);
            else
                for (int step = 0; turns && step < steps; step++, ring.next())
                    turn(p, ring, shared);
            return;
        }

        const int slice = threadIdx.x / GROUP;
        const unsigned a0 = shared + (slice * KS * TILE_M + at_m(threadIdx.x)) * 4;
        const unsigned b0 = shared + PANEL_A + (slice * KS * TILE_N + at_n(threadIdx.x)) * 4;
        ffma_type ffma;
        const unsigned landed = turns ? ring.empty + (COPIES ? 8 * STAGES : 0) : ring.full;
        if (!ASIDE && turns)
            turn(p, ring, shared);
        const auto wait = [&] {
            while (!ring.passed(landed + 8 * ring.stage, ring.parity)) {
            }
        };
        ffma.clear();
        unsigned a = a0, b = b0;
        if (CARRIES) {
            wait();
            ffma.fetch(0, a, b, 0);
        }
#pragma unroll 1
        for (int step = 0; step < steps; step++) {
            const int now = ring.stage;
            if (!CARRIES)
                wait();
            ring.next();
            if (!ASIDE && turns && step + 1 < steps)
                turn(p, ring, shared);
            if constexpr (CARRIES) {
                const unsigned next_a = a0 + ring.stage * STAGE, next_b = b0 + ring.stage * STAGE;
                ffma.template turn_but_last<KS>(a, b);
                if (step + 1 < steps)
                    wait();
                ffma.multiply(1, next_a, next_b, 0);
                a = next_a, b = next_b;
            } else
#pragma unroll(ROLLED ? 1 : RUNS)
                for (int run = 0; run < RUNS; run++)
                    ffma.template turn<KS>(a0 + now * STAGE + run * (KS * SLICES * TILE_M * 4), b0 + now * STAGE + run * (KS * SLICES * TILE_N * 4));
            if constexpr (COPIES) {
                ring.arrive_empty(now);
                continue;
            }
            if (__builtin_expect(gg_count_reader<THREADS / 32>(readers + 4 * now, threadIdx.x % 32) == THREADS / 32 - 1, 0) && step + STAGES < steps)
                tile.fill(p, ring, now, shared, step + STAGES);
            __syncwarp();
        }
        finish(p, tile, shared, ffma);
    }
};
} // namespace
#endif

#endif

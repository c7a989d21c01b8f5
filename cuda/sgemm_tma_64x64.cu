/* sgemm_tma_64x64 — strict FP32 (FFMA only) for sm_90, operands by TMA: for C of so few tiles that each block has one. 64×64 sums, k step 64, 256
 * threads at 8×8 sums each, 2 blocks an SM: four groups of two warps each multiply the whole tile for 16 of a stage's 64 k, and are added up through
 * shared memory at the end, in order. So an SM has 16 warps at work on two tiles of 64×64, and n = 1024 is two tiles an SM.
 *
 * Operands arrive as in sgemm_tma.cu; those whose k is contiguous are transposed where they lie, by pairs of warps, a stage ahead of the products.
 * Smaller C: clusters of up to 8 blocks a tile and several clusters a tile, as there: a share of k each, which the blocks of a cluster add up through
 * distributed shared memory.
 *
 * Registers ≤ 128, shared memory 97 KB a block. Limits: m, n, k < 2^31 − 256. */
#include "ffma.cuh"
#include "parts.cuh"
#include "pipeline.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
namespace
{
constexpr int TILE = 64, TILE_K = 64, STAGES = 3, SLICES = 4, KS = TILE_K / SLICES, THREADS = 256, LANES_M = 8, LANES_N = 4, TM = 8, TN = 8;
constexpr int PANEL = TILE * TILE_K * 4, STAGE = 2 * PANEL, GROUP = THREADS / SLICES, VECTORS = TILE * TILE / 4;
constexpr int SHARED = 1024 + STAGES * (STAGE + 20);
static_assert(SHARED <= gg_shared_sgemm_tma_64x64, "kernels.def");
static_assert(SLICES * VECTORS * 16 <= STAGES * STAGE, "the ring takes the sums of all slices");

__device__ void block_barrier() { __syncthreads(); }

__device__ void copy_panel(const gg_ring<STAGES> &ring, int stage, unsigned to, const gg_tensor_map *map, bool kmajor, int x, int k)
{
    ring.copy_box(stage, to, map, kmajor ? k : x, kmajor ? x : k);
    if (kmajor)
        ring.copy_box(stage, to + PANEL / 2, map, k + TILE_K / 2, x);
}

struct one_tile {
    gg_piece<TILE, TILE, TILE_K, 1> piece;
    int m0, n0, k0;

    __device__ one_tile(const gg_args &p)
    {
        piece.find_in_cluster(p);
        constexpr int BAND = 8;
        const int tiles_m = (int(p.m) + TILE - 1) / TILE, tiles_n = (int(p.n) + TILE - 1) / TILE;
        const int band = piece.tile / (BAND * tiles_n), in_band = piece.tile - band * (BAND * tiles_n), rows = min(BAND, tiles_m - band * BAND);
        const int column = in_band / rows;
        m0 = (band * BAND + in_band - column * rows) * TILE;
        n0 = column * TILE;
        k0 = piece.first * TILE_K;
    }

    __device__ void fill(const gg_args &p, const gg_ring<STAGES> &ring, int stage, unsigned shared, int step) const
    {
        const unsigned to = shared + stage * STAGE;
        const int k = k0 + step * TILE_K;
        ring.expect_full(stage, STAGE);
        copy_panel(ring, stage, to, &p.map_a, p.a_kmajor, m0, k);
        copy_panel(ring, stage, to + PANEL, &p.map_b, p.b_kmajor, n0, k);
    }
};

/* [64 rows][32 k], swizzled, becomes [32 k][64 rows]: each pair of warps turns over one of the stage's four of those, 4×4 elements at a time. */
struct turner {
    unsigned from, to; /* in stage 0 */
    bool mine;

    __device__ turner(const gg_args &p, unsigned shared)
    {
        const int t = threadIdx.x, pair = t / 64, g = t % 8, q = (g + t / 8) % 8; /* groups of 4 rows, this and the one 32 rows on; 8 of 4 k */
        const unsigned panel = shared + pair * (PANEL / 2);
        mine = pair < 2 ? p.a_kmajor : p.b_kmajor;
        from = panel + g * 512 + (q ^ g % 2 * 4) * 16;
        to = panel + q * (16 * TILE) + g * 16;
    }

    __device__ void turn(int stage) const
    {
        float v[2][4][4];
#pragma unroll
        for (int e = 0; e < 4; e++)
#pragma unroll
            for (int i = 0; i < 2; i++)
                asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                             : "=f"(v[i][e][0]), "=f"(v[i][e][1]), "=f"(v[i][e][2]), "=f"(v[i][e][3])
                             : "r"((from + stage * STAGE ^ e * 16) + e * 128 + i * 4096)
                             : "memory");
        asm volatile("bar.sync %0, 64;" ::"r"(threadIdx.x / 64 + 1) : "memory");
#pragma unroll
        for (int i = 0; i < 2; i++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                asm volatile("st.shared.v4.f32 [%4], {%0, %1, %2, %3};" ::"f"(v[i][0][e]), "f"(v[i][1][e]), "f"(v[i][2][e]), "f"(v[i][3][e]),
                             "r"(to + stage * STAGE + e * (TILE * 4) + i * 128)
                             : "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }

    /* The ring's stage has landed: this warp's part of it is turned over. */
    __device__ void turn(const gg_ring<STAGES> &ring) const
    {
        if (mine) {
            ring.wait_full();
            turn(ring.stage);
        }
        ring.arrive_empty(ring.stage); /* that barrier serves as `turned over` */
    }
};

__device__ float4 load_shared(unsigned at)
{
    float4 v;
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "r"(at) : "memory");
    return v;
}

__device__ float4 load_cluster(unsigned at, int rank)
{
    float4 v;
    asm volatile("{ .reg .b32 at; mapa.shared::cluster.u32 at, %4, %5; ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [at]; }"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                 : "r"(at), "r"(rank)
                 : "memory");
    return v;
}

__device__ void store_shared(unsigned at, const float4 &v)
{
    asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(at), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w) : "memory");
}

__device__ void add(float4 &to, const float4 &v) { to.x += v.x, to.y += v.y, to.z += v.z, to.w += v.w; }

__device__ int at_m(int t) { return gg_lane<LANES_M>(t % 32) * 4; }
__device__ int at_n(int t) { return t / 32 % 2 * (TN * LANES_N) + gg_lane<LANES_N>(t % 32) * 4; }

/* Vector `at` of the tile: the at / GROUP-th four sums of thread at % GROUP of a slice. */
__device__ void put(const gg_out<float, TILE, TILE> &out, const one_tile &tile, int at, const float4 &v)
{
    const int t = at % GROUP, s = at / GROUP, i = s % (TM / 4) * 4, j = s / (TM / 4);
    const float sums[4] = {v.x, v.y, v.z, v.w};
    out.put_vector(tile.m0 + at_m(t) + i * LANES_M, tile.n0 + at_n(t) + j / 4 * (4 * LANES_N) + j % 4, sums);
}

template <typename FFMA> __device__ void finish(const gg_args &p, const one_tile &tile, unsigned shared, const FFMA &ffma)
{
    int thread = threadIdx.x, s = 0;
    asm("" : "+r"(thread));
    gg_tile place;
    place.m0 = place.own_m = tile.m0, place.n0 = place.own_n = tile.n0, place.slot = -1;
    const gg_out<float, TILE, TILE> out(p, place);
    const unsigned to = shared + ((thread / GROUP) * VECTORS + thread % GROUP) * 16;
    __syncthreads(); /* the ring is free: all of its stages are read */
    ffma.for_each(gg_one(p), [&](int, int, const float(&v)[4]) { store_shared(to + s++ * (GROUP * 16), make_float4(v[0], v[1], v[2], v[3])); });
    __syncthreads();
#pragma unroll
    for (int at = thread; at < VECTORS; at += THREADS) {
        float4 sum = load_shared(shared + at * 16);
#pragma unroll
        for (int slice = 1; slice < SLICES; slice++)
            add(sum, load_shared(shared + (slice * VECTORS + at) * 16));
        if (p.splits == 1)
            put(out, tile, at, sum);
        else
            store_shared(shared + at * 16, sum);
    }
    if (p.splits == 1)
        return;

    /* Every block adds up its share of the tile; then, if the tile has several clusters, the last one what the others have. */
    const int rank = blockIdx.x % unsigned(p.splits), unit = blockIdx.x / unsigned(p.splits), fate = tile.piece.fate,
              first = fate == COLLECT ? unit + 1 - p.groups : unit;
    float4 *const parts = static_cast<float4 *>(p.workspace);
    cluster_sync();
    if (fate == COLLECT)
        await_parts<THREADS>(p, first, unit, rank, thread, block_barrier);
    const int end = VECTORS * (rank + 1) / p.splits;
#pragma unroll 1
    for (int at = VECTORS * rank / p.splits + thread; at < end; at += THREADS) {
        float4 v[8];
#pragma unroll
        for (int r = 0; r < 8; r++)
            if (r < p.splits)
                v[r] = load_cluster(shared + at * 16, r);
#pragma unroll
        for (int r = 1; r < 8; r++)
            if (r < p.splits)
                add(v[0], v[r]);
        if (fate == PUBLISH) {
            __stcg(parts + int64_t(unit) * VECTORS + at, v[0]);
            continue;
        }
#pragma unroll 8
        for (int from = first; from < unit; from++)
            add(v[0], __ldcg(parts + int64_t(from) * VECTORS + at));
        put(out, tile, at, v[0]);
    }
    if (fate == PUBLISH)
        announce_part(p, thread, block_barrier);
    else if (fate == COLLECT)
        forget_parts<THREADS>(p, first, unit, rank, thread, block_barrier);
    cluster_leave(); /* others may still be reading this block's shared memory */
}
} // namespace

extern "C" __global__ void __launch_bounds__(THREADS, 2) sgemm_tma_64x64(const __grid_constant__ gg_args p)
{
    if (gg_gated(p))
        return;
    asm volatile("prefetch.tensormap [%0];\nprefetch.tensormap [%1];" ::"l"(&p.map_a), "l"(&p.map_b) : "memory");
    extern __shared__ __align__(1024) char memory[];
    char *const shared_memory = memory + (-gg_shared(memory) & 1023); /* as the swizzle wants it */
    gg_ring<STAGES> ring(reinterpret_cast<uint64_t *>(shared_memory + STAGES * STAGE));
    unsigned *const counts = reinterpret_cast<unsigned *>(shared_memory + STAGES * (STAGE + 16));
    const unsigned readers = gg_shared(counts), shared = gg_shared(shared_memory);
    const one_tile tile(p);
    const int steps = tile.piece.count;
    if (threadIdx.x == 0) {
        ring.init(1, THREADS / 32);
        for (int s = 0; s < STAGES; s++) {
            counts[s] = 0;
            if (s < steps)
                tile.fill(p, ring, s, shared, s);
        }
    }
    __syncthreads();

    const int slice = threadIdx.x / GROUP;
    const unsigned a0 = shared + (slice * KS * TILE + at_m(threadIdx.x)) * 4, b0 = shared + PANEL + (slice * KS * TILE + at_n(threadIdx.x)) * 4;
    gg_ffma<TM, TN, LANES_M, TILE, TILE> ffma;
    /* A stage is turned over while the one before it is multiplied. */
    const bool turns = p.a_kmajor || p.b_kmajor;
    const unsigned landed = turns ? ring.empty : ring.full;
    const turner turner(p, shared);
    if (turns)
        turner.turn(ring);
    ffma.clear();
#pragma unroll 1
    for (int step = 0; step < steps; step++) {
        const int now = ring.stage;
        while (!ring.passed(landed + 8 * now, ring.parity)) {
        }
        ring.next();
        if (turns && step + 1 < steps)
            turner.turn(ring);
        ffma.turn<KS>(a0 + now * STAGE, b0 + now * STAGE);
        if (__builtin_expect(gg_count_reader<THREADS / 32>(readers + 4 * now, threadIdx.x % 32) == THREADS / 32 - 1, 0) && step + STAGES < steps)
            tile.fill(p, ring, now, shared, step + STAGES);
        __syncwarp();
    }
    finish(p, tile, shared, ffma);
}
#endif

/* parts.cuh — how the k of a tile is cut among the blocks of one launch, and how blocks hand each other the parts (sgemm_tma.cu, dgemm_tma.cu,
 * sgemm_once.cuh; the last function: multistage.cuh).
 *
 * The work of a unit (a block or a cluster) is a list of pieces, a piece being k steps [first, first + count) of a tile. Large C: persistent blocks
 * take whole tiles in turn and share the last ones ("stream-K", Osama et al. 2023), each an equal run of their k steps. Small C: one cluster per
 * tile, a piece of k per block, or several clusters, or single blocks, per tile. Parts that pass between units go through the workspace; a flag in
 * front of it says that one is there. A unit waits only for units with smaller indices, which are running by then; gather.cuh is another way. Parts
 * are added in a fixed order: sums depend on the grid, never on timing. */
#ifndef GG_PARTS_CUH
#define GG_PARTS_CUH

#include "tile.cuh"

/* A barrier of all threads of the cluster, in two halves. It orders only what this thread has written to its own block's shared memory: a release of
 * everything would wait for all memory operations, some 1000 clocks. */
__device__ inline void cluster_arrive_shared()
{
    asm volatile("fence.release.sync_restrict::shared::cta.cluster;\nbarrier.cluster.arrive.relaxed;" ::: "memory");
}
__device__ inline void cluster_wait() { asm volatile("barrier.cluster.wait.acquire;" ::: "memory"); }

/* One that orders no memory. */
__device__ inline void cluster_leave() { asm volatile("barrier.cluster.arrive.relaxed;\nbarrier.cluster.wait;" ::: "memory"); }

/* The cluster's index in the grid; below, the block's in the cluster. */
__device__ inline int cluster_index()
{
    int index;
    asm("mov.u32 %0, %%clusterid.x;" : "=r"(index));
    return index;
}

__device__ inline int cluster_rank()
{
    int rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

/* How many blocks it has. */
__device__ inline int cluster_blocks()
{
    int count;
    asm("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(count));
    return count;
}

/* The address of `at` in the shared memory of the cluster's block `rank`. */
__device__ inline unsigned of_block(unsigned at, int rank)
{
    unsigned there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(at), "r"(rank));
    return there;
}

/* Four sums from there. */
__device__ inline float4 load_cluster(unsigned at)
{
    float4 v;
    asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "r"(at) : "memory");
    return v;
}

/* What becomes of a piece's sums. WHOLE: they are the tile. PUBLISH: they are a part for another block. COLLECT: they are the last part, to which the
 * others are added. GATHER: both, as for all units of the tile (gather.cuh). */
enum { WHOLE, PUBLISH, COLLECT, GATHER };

/* ⌊of · part / parts⌋ */
__device__ inline unsigned gg_share(unsigned of, unsigned part, unsigned parts) { return of / parts * part + of % parts * part / parts; }

/* A piece, as defined above. Counts are 32 bits, as TMA's coordinates are. SHORTEST: fewest k steps of a piece. HALVES: half tiles are faster, see
 * gg_halves of src/kernels.h. The order of a block's pieces is up to each kernel. */
template <int TILE_M, int TILE_N, int TILE_K, int SHORTEST, bool HALVES = false> struct gg_piece {
    int tile, first, count, fate;

    static __device__ int steps(const gg_args &p) { return (int(p.k) + TILE_K - 1) / TILE_K; }

    static __device__ int whole_tiles(const gg_args &p)
    {
        return (int(p.m) + TILE_M - 1) / TILE_M * ((int(p.n) + TILE_N - 1) / TILE_N) - int(p.shared_tiles);
    }

    /* Numbers of tile rows and tile columns, not counting half tiles. */
    static __device__ int full_m(const gg_args &p) { return (int(p.m) + (HALVES ? TILE_M / 2 : TILE_M) - 1) / TILE_M; }
    static __device__ int full_n(const gg_args &p) { return (int(p.n) + (HALVES ? TILE_N / 2 : TILE_N) - 1) / TILE_N; }

    /* Place of tile `index`: down the columns of a band of GROUP tile rows, band after band; half tiles after all others. */
    template <int GROUP> static __device__ void place(const gg_args &p, int index, int &m, int &n)
    {
        const int tiles_m = full_m(p), tiles_n = full_n(p), half = index - tiles_m * tiles_n;
        if (HALVES && half >= 0) {
            const int beside = tiles_n * TILE_N < int(p.n) ? tiles_m : 0;
            m = (half < beside ? half : tiles_m) * TILE_M;
            n = (half < beside ? tiles_n : half - beside) * TILE_N;
            return;
        }
        const int band = index < GROUP * tiles_n ? 0 : index / (GROUP * tiles_n), in_band = index - band * (GROUP * tiles_n),
                  rows = min(GROUP, tiles_m - band * GROUP);
        const int column = rows == GROUP ? in_band / GROUP : in_band / rows; /* mostly no division */
        m = (band * GROUP + in_band - column * rows) * TILE_M;
        n = column * TILE_N;
    }

    /* As gg_run_start, in 32 bits. Runs are equally long in time, and a step of a half tile counts as two thirds: with one warp per scheduler nothing
     * hides the wait for fragments. */
    static __device__ int run_start(const gg_args &p, int block) { return run_start(p, block, gridDim.x); }

    static __device__ int run_start(const gg_args &p, int block, int blocks)
    {
        const int length = steps(p), shared = int(p.shared_tiles);
        int at;
        if (HALVES) {
            const unsigned full = max(full_m(p) * full_n(p) - whole_tiles(p), 0) * length, all = shared * length;
            const unsigned time = gg_share(full + 2 * all, block, blocks);
            at = time < 3 * full ? time / 3 : full + (time - 3 * full) / 2;
        } else {
            at = gg_share(shared * length, block, blocks);
        }
        const int in_tile = unsigned(at) % unsigned(length);
        return in_tile < SHORTEST ? at - in_tile : length - in_tile < SHORTEST ? at - in_tile + length : at;
    }

    /* The first of the blocks that have a part of this shared tile; `block` has the last. */
    static __device__ int first_block(const gg_args &p, int tile, int block, int blocks)
    {
        while (run_start(p, block, blocks) > (tile - whole_tiles(p)) * steps(p))
            block--;
        return block;
    }

    /* The single piece of a block in a cluster. */
    __device__ void find_in_cluster(const gg_args &p)
    {
        const int length = steps(p);
        const unsigned parts = p.splits * p.groups, part = blockIdx.x % parts;
        const int group = part / unsigned(p.splits);
        tile = blockIdx.x / parts;
        first = gg_share(length, part, parts);
        count = gg_share(length, part + 1, parts) - first;
        fate = p.groups == 1 ? WHOLE : group + 1 < p.groups ? PUBLISH : COLLECT;
    }

    /* The same sooner where the tile has one cluster, or one block: divisions take 100 clocks each, and the first copies wait for them. (In sgemm_tma
     * it would bring 128x128's FFMAs bank conflicts.) */
    __device__ void find_in_cluster_soon(const gg_args &p)
    {
        if (p.groups > 1)
            return find_in_cluster(p);
        const unsigned length = steps(p), part = cluster_rank(), parts = p.splits;
        tile = blockIdx.x, first = 0, count = length, fate = WHOLE;
        if (parts > 1) {
            tile = cluster_index();
            first = length * part / parts; /* at most 8 parts: 32 bits are enough */
            count = length * (part + 1) / parts - first;
        }
    }
};

/* Which part of the tile a warp computes, for eight warps in WARPS_M rows. Two warps share each scheduler, those whose numbers are equal modulo 4.
 * The parts are assigned so that of half a tile, be it rows or columns, each scheduler has one. */
template <int WARPS_M> __device__ inline void gg_warp_part(int warp, int &row, int &column)
{
    static_assert(WARPS_M == 2 || WARPS_M == 4, "2×4 or 4×2 warps");
    const int half = warp / 4, turned = (warp + 2 * half) % 4;
    row = WARPS_M == 2 ? half : turned, column = WARPS_M == 2 ? turned : half;
}

/* The flag that a block's part is there: one of GG_FLAGS words in front of the workspace, zero between launches. */
__device__ inline unsigned *part_flag(const gg_args &p, int block) { return static_cast<unsigned *>(p.workspace) - GG_FLAGS + block; }

/* The last two flag words serve blocks that keep in step: how far all of them are, and how many have ended (dgemm_tma.cu). */
__device__ inline unsigned *pace_words(const gg_args &p) { return part_flag(p, GG_FLAGS - 2); }

__device__ inline bool part_is_there(const unsigned *flag)
{
    unsigned value;
    asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
    return value;
}

/* Waits for the parts of units (blocks, or blocks of this rank in a cluster) first … unit - 1. Called by THREADS threads, which `barrier`
 * synchronises. */
template <int THREADS, typename BARRIER>
__device__ inline void await_parts(const gg_args &p, int first, int unit, int rank, int thread, BARRIER barrier)
{
    for (int from = first + thread; from < unit; from += THREADS)
        while (!part_is_there(part_flag(p, from * p.splits + rank))) {
        }
    barrier();
}

/* Announces that this block's part is written. (The release covers what other threads wrote before the barrier, and the acquire above is also for
 * those behind its barrier.) */
template <typename BARRIER> __device__ inline void announce_part(const gg_args &p, int thread, BARRIER barrier)
{
    barrier();
    if (thread == 0)
        asm volatile("st.release.gpu.u32 [%0], 1;" ::"l"(part_flag(p, blockIdx.x)) : "memory");
}

/* Calls add(load(from)) for units first … unit − 1 in order, with AT_ONCE loads in flight. Where fewer are left the last is loaded again, because
 * conditional loads would wait for each other. */
template <int AT_ONCE, typename INDEX, typename LOAD, typename ADD> __device__ inline void add_parts(INDEX first, INDEX unit, LOAD load, ADD add)
{
#pragma unroll 1
    for (INDEX from = first; from < unit; from += AT_ONCE) {
        decltype(load(from)) part[AT_ONCE];
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++)
            part[i] = load(min(from + i, unit - 1));
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++)
            if (from + i < unit)
                add(part[i]);
    }
}

/* Clears the flags of parts that have been read, for the next launch. */
template <int THREADS, typename BARRIER>
__device__ inline void forget_parts(const gg_args &p, int first, int unit, int rank, int thread, BARRIER barrier)
{
    barrier();
    for (int from = first + thread; from < unit; from += THREADS)
        *part_flag(p, from * p.splits + rank) = 0;
}

/* For tiles whose parts each have a block of their own. Called by all threads of a block that has written its part. True: it was the last to do so,
 * and may read all parts. The tile's flag counts them, and returns to 0 with the last. */
__device__ inline bool gg_last_part(const gg_args &p, int tile, unsigned parts)
{
    unsigned before = 0;
    __syncthreads();
    if (threadIdx.x == 0)
        asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;" : "=r"(before) : "l"(part_flag(p, tile)), "r"(parts - 1) : "memory");
    return __syncthreads_or(threadIdx.x == 0 && before == parts - 1);
}

#endif

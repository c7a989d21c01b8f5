/* stream.cuh — copies one operand from memory into the ring of a block whose threads all copy and all multiply (multistage.cuh). The number of
 * instructions counts, most of all before the first copy: so a thread's copies are a pointer and a distance, whatever the layout. Needs sm_80. */
#ifndef GG_STREAM_CUH
#define GG_STREAM_CUH

#include "tile.cuh"

/* A stage holds TILE_K k of TILE rows as [k][row], with PITCH elements from one k to the next. A warp copies 8 k of 4 rows where k is contiguous,
 * else rows of one k, by 16 bytes if possible and if VECTORS: small tiles do without, because it saves less than finding out costs. */
template <typename T, int TILE, int TILE_K, int THREADS, int PITCH, bool VECTORS> struct gg_stream {
    static constexpr int SIZE = sizeof(T), V = 16 / SIZE, BYTES = TILE_K * PITCH * SIZE;
    static constexpr int PIECES = TILE * TILE_K / THREADS;             /* that a thread copies in a step */
    static constexpr int ROWS = THREADS / TILE_K, KS = THREADS / TILE; /* distance between a thread's copies: rows where k is contiguous, else k */
    static_assert(TILE % ROWS == 0 && TILE_K % (VECTORS ? V * KS : KS) == 0, "whole pieces");
    const char *from; /* the first source of the next step */
    int64_t apart;    /* bytes between a thread's sources */
    unsigned to;      /* the thread's first place in the stage */
    int count, last;  /* copies that exist: in a step, in the last step */
    const bool kmajor, vec;

    /* first: the tile's first row; k0, k: the first k, and how many there are. The asm below keeps values in registers, which ptxas would rather
     * recompute each step. */
    __device__ gg_stream(const void *base, int64_t ld, bool is_kmajor, bool aligned, int first, int rows, int k0, int k)
        : kmajor(is_kmajor), vec(VECTORS && aligned && !is_kmajor && first % V == 0 && rows >= TILE)
    {
        const int t = vec ? threadIdx.x * V : threadIdx.x, x = kmajor ? unsigned(t) / TILE_K : unsigned(t) % TILE;
        const int at = kmajor ? unsigned(t) % TILE_K : unsigned(t) / TILE, ks = vec ? V * KS : KS;
        const int left = min(rows - first, TILE) - x, left_k = int(unsigned(k - 1) % TILE_K) + 1 - at;
        from = static_cast<const char *>(base) + ((first + x) * (kmajor ? ld : 1) + (k0 + at) * (kmajor ? 1 : ld)) * SIZE;
        apart = (kmajor ? ROWS : ks) * ld * SIZE;
        to = (at * PITCH + x) * SIZE;
        count = left <= 0 ? 0 : kmajor ? unsigned(left + ROWS - 1) / ROWS : PIECES;
        last = left_k <= 0 ? 0 : kmajor ? count : left > 0 ? unsigned(left_k + ks - 1) / ks : 0;
        asm("" : "+l"(apart), "+r"(to));
    }

    /* Copies N times EACH bytes, TO elements apart in the stage, with zeros for what does not exist. Returns where the next source would be. */
    template <int EACH, int N, int TO> __device__ const char *pieces(unsigned stage) const
    {
        const char *at = from;
#pragma unroll
        for (int i = 0; i < N; i++, at += apart) {
            const unsigned here = stage + to + i * TO * SIZE;
            if constexpr (EACH == 16)
                asm volatile("{ .reg .pred none; setp.le.s32 none, %2, %3; cp.async.cg.shared.global [%0], [%1], 16, none; }" ::"r"(here), "l"(at),
                             "r"(count), "r"(i)
                             : "memory");
            else
                asm volatile("{ .reg .pred none; setp.le.s32 none, %2, %3; cp.async.ca.shared.global [%0], [%1], %4, none; }" ::"r"(here), "l"(at),
                             "r"(count), "r"(i), "n"(EACH)
                             : "memory");
        }
        return at;
    }

    __device__ void copy_step(unsigned stage)
    {
        if (kmajor) {
            pieces<SIZE, PIECES, ROWS>(stage);
            from += TILE_K * SIZE;
        } else if (VECTORS && vec) {
            from = pieces<16, PIECES / V, V * KS * PITCH>(stage);
        } else {
            from = pieces<SIZE, PIECES, KS * PITCH>(stage);
        }
    }
};

#endif

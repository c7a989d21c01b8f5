/* pipeline.cuh — the producer/consumer pipeline: how operands get from memory to shared memory while other warps multiply.
 *
 * A block is PRODUCERS threads that only copy and some consumer warps that only compute. Between them lies a ring of stages, each one k step of a
 * tile's A and B, stored as panels [k][m] and [k][n] whatever their layout in memory. A stage has two mbarriers: `full`, on which every producer's
 * copies arrive, and `empty`, on which every consumer warp arrives after its last read. So no thread ever waits for all others, the ring runs ahead
 * into the next tile while consumers store C, and consumers know nothing of layout, alignment or edges.
 *
 * Copies are cp.async of 16 bytes where the contiguous index is m or n and alignment allows, else of one element, which is legal for every address. A
 * k-major operand is transposed on the way: a warp copies 32 contiguous bytes of each of several rows (whole sectors), and rows of a stage are 16
 * bytes longer than the tile, so that these scattered stores hit 32 different banks. Elements beyond the matrix become 0. That costs the producers
 * one instruction an element, 2 % of the issue slots of a 128×256 sgemm step: less than a packing pass at small n. Schedulers prefer the consumers to
 * the producers (a ready producer waits 38 clocks to issue), so few stages of many k are best.
 * The TMA kernels and tensor_gemm.cuh use only the ring, dgemm_direct.cu only gg_copy. Needs sm_80. */
#ifndef GG_PIPELINE_CUH
#define GG_PIPELINE_CUH

#include "tile.cuh"

constexpr int GG_PRODUCERS = 128, GG_CONSUMERS = 256; /* threads of a block */

__device__ inline unsigned gg_shared(const void *at) { return unsigned(__cvta_generic_to_shared(at)); }

/* A position in the ring: stage number, and the parity of its current use. */
template <int STAGES> struct gg_ring {
    unsigned full, empty; /* shared addresses of the barriers of stage 0; 8 bytes each */
    int stage = 0;
    unsigned parity = 0;

    /* The address of the 2 STAGES barriers. init() is called by one thread, before a block-wide barrier. */
    __device__ gg_ring(unsigned barriers) : full(barriers), empty(barriers + 8 * STAGES) {}
    __device__ gg_ring(uint64_t *barriers) : gg_ring(gg_shared(barriers)) {}

    __device__ void init(int producers, int consumer_warps) const
    {
        for (int s = 0; s < STAGES; s++) {
            asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(full + 8 * s), "r"(producers));
            asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(empty + 8 * s), "r"(consumer_warps));
        }
#if __CUDA_ARCH__ >= 900
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); /* before TMA completes on them */
#endif
    }

    __device__ void next()
    {
        if (++stage == STAGES) {
            stage = 0;
            parity ^= 1;
        }
    }

    /* next() N times, N ≤ STAGES. */
    template <int N> __device__ void skip()
    {
        stage += N;
        if (stage >= STAGES) {
            stage -= STAGES;
            parity ^= 1;
        }
    }

    static __device__ bool passed(unsigned barrier, unsigned parity)
    {
        unsigned done;
#if __CUDA_ARCH__ >= 900
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done)
                     : "r"(barrier), "r"(parity)
                     : "memory");
#else
        asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done)
                     : "r"(barrier), "r"(parity)
                     : "memory");
#endif
        return done;
    }

    __device__ void wait_full() const
    {
        while (!passed(full + 8 * stage, parity)) {
        }
    }

    /* At the first use every stage is empty: waiting for the parity before the first passes at once. */
    __device__ void wait_empty() const
    {
        while (!passed(empty + 8 * stage, parity ^ 1)) {
        }
    }

    /* Producers: the stage is full when all copies of this thread so far have arrived, and those of the other producers. */
    __device__ void arrive_full() const { asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(full + 8 * stage) : "memory"); }

#if __CUDA_ARCH__ >= 900
    /* TMA: the stage is full when these bytes have arrived. */
    __device__ void expect_full(int stage, int bytes) const
    {
        asm volatile("{ .reg .b64 s; mbarrier.arrive.expect_tx.shared.b64 s, [%0], %1; }" ::"r"(full + 8 * stage), "r"(bytes) : "memory");
    }

    /* Starts the copy of the map's box at (x, k) to shared address `to`. */
    __device__ void copy_box(int stage, unsigned to, const gg_tensor_map *map, int x, int k) const
    {
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(to), "l"(map),
                     "r"(x), "r"(k), "r"(full + 8 * stage)
                     : "memory");
    }

    /* The same, to the same place in both blocks of a cluster of two; in each it counts for that block's own barrier. */
    __device__ void copy_box_pair(int stage, unsigned to, const gg_tensor_map *map, int x, int k) const
    {
        asm volatile(
            "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(
                to),
            "l"(map), "r"(x), "r"(k), "r"(full + 8 * stage), "h"(static_cast<unsigned short>(3))
            : "memory");
    }

    /* arrive_empty here and in the other block of a cluster of two: the stage is empty only when the warps of both have read it. */
    __device__ void arrive_empty_pair(int done, unsigned nothing) const
    {
        __syncwarp();
        asm volatile("{ .reg .pred p; .reg .u32 at, lane, rank; mov.u32 lane, %%laneid; mov.u32 rank, %%cluster_ctarank; xor.b32 rank, rank, lane;\n"
                     "setp.lt.u32 p, lane, 2; @p mapa.shared::cluster.u32 at, %0, rank; @p mbarrier.arrive.shared::cluster.b64 _, [at]; }" ::"r"(
                         empty + 8 * done + nothing)
                     : "memory");
    }
#endif

    /* Consumers: this warp will not read stage `done` again. An arrival can overtake loads in flight, and the copies that it allows would overwrite
     * what those loads were to read. The compiler does not know this, and moves products behind an arrival in the same iteration of a loop. So either
     * call it at the top of the next iteration, when products have used all that was read, or pass a `nothing` that is 0 but depends on the data read
     * last, see dgemm_tma.cu. */
    __device__ void arrive_empty(int done, unsigned nothing = 0) const
    {
        __syncwarp();
        asm volatile("{ .reg .pred p; .reg .b64 s; setp.eq.u32 p, %1, 0; @p mbarrier.arrive.shared.b64 s, [%0]; }" ::"r"(empty + 8 * done + nothing),
                     "r"(threadIdx.x % 32)
                     : "memory");
    }
};

/* threadIdx.x, read anew, so that neither it nor anything derived from it occupies a register during the main loop. */
__device__ inline int thread_index()
{
    int t;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(t));
    return t;
}

/* An order is what a producer tells consumers about a piece of work before its first stage is full: its tile, how many stages it has (0: there are no
 * more pieces), what becomes of its sums (parts.cuh), and the first unit whose parts are added to them. Orders are in a ring of words in shared
 * memory, one more than there are stages: the oldest may be in use while each stage belongs to a piece of its own. */
enum { ORDER_M, ORDER_N, ORDER_COUNT, ORDER_FATE, ORDER_FIRST, ORDER_WORDS };

__device__ inline int ordered(unsigned order, int word)
{
    int value;
    asm volatile("ld.shared.s32 %0, [%1];" : "=r"(value) : "r"(order + 4 * word) : "memory");
    return value;
}

__device__ inline void give_order(unsigned order, int word, int value)
{
    asm volatile("st.shared.s32 [%0], %1;" ::"r"(order + 4 * word), "r"(value) : "memory");
}

/* The next order in that ring, which begins at `first`. */
template <int STAGES> __device__ inline unsigned next_order(unsigned order, unsigned first)
{
    return order == first + STAGES * ORDER_WORDS * 4 ? first : order + ORDER_WORDS * 4;
}

/* Copies BYTES, of which only the first `present` are read; the rest becomes 0. With present = 0 `from` may be any address. */
template <int BYTES> __device__ inline void gg_copy(unsigned to, const void *from, int present)
{
    if constexpr (BYTES == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(present) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from), "n"(BYTES), "r"(present) : "memory");
}

template <int BYTES> __device__ inline void gg_copy(unsigned to, const void *from)
{
    if constexpr (BYTES == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(from), "n"(BYTES) : "memory");
}

/* One operand's part of a stage: TILE_K rows of TILE elements, with a pitch of PITCH, and how THREADS threads copy it. */
template <typename T, int TILE_, int TILE_K, int THREADS = GG_PRODUCERS> struct gg_panel {
    static constexpr int TILE = TILE_, PITCH = TILE + 16 / int(sizeof(T)), BYTES = TILE_K * PITCH * int(sizeof(T));

    /* Copies PIECE elements at a time, from LINES lines of the matrix that are LINE lines apart, and in each of them PER_LINE pieces that are STEP
     * elements apart. TO_LINE and TO_PIECE are the same distances in the panel. left_*: how much of the matrix lies ahead. */
    template <int PIECE, int LINES, int LINE, int TO_LINE, int PER_LINE, int STEP, int TO_PIECE>
    static __device__ void copy_lines(unsigned to, const T *from, int64_t ld, bool whole, int left_lines, int left_in_line)
    {
        constexpr int SIZE = sizeof(T);
        const int64_t line_step = LINE * ld;
        if (whole) {
#pragma unroll
            for (int line = 0; line < LINES; line++, from += line_step)
#pragma unroll
                for (int i = 0; i < PER_LINE; i++)
                    gg_copy<PIECE * SIZE>(to + (line * TO_LINE + i * TO_PIECE) * SIZE, from + i * STEP);
            return;
        }
#pragma unroll
        for (int line = 0; line < LINES; line++, from += line_step)
#pragma unroll
            for (int i = 0; i < PER_LINE; i++) {
                const int present = line * LINE < left_lines ? max(0, min(PIECE, left_in_line - i * STEP)) * SIZE : 0;
                gg_copy<PIECE * SIZE>(to + (line * TO_LINE + i * TO_PIECE) * SIZE, from + i * STEP, present);
            }
    }

    /* Copies this operand's part of a stage. `from` is element (0, 0) of the step; left_x and left_k say how much of the matrix follows it. */
    static __device__ void copy(unsigned to, const T *from, int64_t ld, bool kmajor, bool vec, int left_x, int left_k)
    {
        const int t = threadIdx.x % THREADS;
        const bool whole = left_x >= TILE && left_k >= TILE_K;
        constexpr int SIZE = sizeof(T);
        if (kmajor) {
            constexpr int DK = 8, DX = THREADS / DK;
            static_assert(TILE % DX == 0 && TILE_K % DK == 0, "whole pieces");
            const int x = t / DK, k = t % DK;
            copy_lines<1, TILE / DX, DX, DX, TILE_K / DK, DK, DK * PITCH>(to + (k * PITCH + x) * SIZE, from + x * ld + k, ld, whole, left_x - x,
                                                                          left_k - k);
        } else if (vec) {
            constexpr int V = 16 / SIZE, ROW = TILE / V, DK = THREADS / ROW;
            static_assert(ROW <= THREADS && TILE_K % DK == 0, "whole rows");
            const int x = t % ROW * V, k = t / ROW;
            copy_lines<V, TILE_K / DK, DK, DK * PITCH, 1, 0, 0>(to + (k * PITCH + x) * SIZE, from + x + k * ld, ld, whole, left_k - k, left_x - x);
        } else {
            constexpr int DX = TILE < THREADS ? TILE : THREADS, DK = THREADS / DX;
            const int x = t % DX, k = t / DX;
            copy_lines<1, TILE_K / DK, DK, DK * PITCH, TILE / DX, DX, DX>(to + (k * PITCH + x) * SIZE, from + x + k * ld, ld, whole, left_k - k,
                                                                          left_x - x);
        }
    }
};

/* The two panels of a stage and the ring they lie in, as byte offsets from the start of dynamic shared memory. */
template <typename T, int TILE_M_, int TILE_N_, int TILE_K_, int STAGES_> struct gg_stages {
    static constexpr int TILE_M = TILE_M_, TILE_N = TILE_N_, TILE_K = TILE_K_, STAGES = STAGES_;
    using panel_a = gg_panel<T, TILE_M, TILE_K>;
    using panel_b = gg_panel<T, TILE_N, TILE_K>;
    using ring = gg_ring<STAGES>;
    static constexpr int BYTES = panel_a::BYTES + panel_b::BYTES, RING_BYTES = STAGES * BYTES;

    using work = gg_work<TILE_M, TILE_N, TILE_K>;

    /* The loop of a producer thread. `shared`: address of stage 0. */
    static __device__ void produce(const gg_args &p, ring r, unsigned shared)
    {
        constexpr int V = 16 / sizeof(T);
        const T *a = static_cast<const T *>(p.a), *b = static_cast<const T *>(p.b);
        const int64_t a_m = p.a_kmajor ? p.lda : 1, a_k = p.a_kmajor ? 1 : p.lda;
        const int64_t b_n = p.b_kmajor ? p.ldb : 1, b_k = p.b_kmajor ? 1 : p.ldb;
        for (work w(p); w.more();) {
            const gg_tile t = w.next(p);
            const T *from_a = a + t.m0 * a_m + t.k0 * a_k, *from_b = b + t.n0 * b_n + t.k0 * b_k;
            const bool a_vec = p.a_vec && t.m0 % V == 0, b_vec = p.b_vec && t.n0 % V == 0;
            const int left_m = int(min(p.m - t.m0, int64_t(TILE_M))), left_n = int(min(p.n - t.n0, int64_t(TILE_N)));
            for (int64_t k = t.k0; k < t.k1; k += TILE_K) {
                const int left_k = int(min(t.k1 - k, int64_t(TILE_K)));
                const unsigned to = shared + r.stage * BYTES;
                r.wait_empty();
                panel_a::copy(to, from_a, p.lda, p.a_kmajor, a_vec, left_m, left_k);
                panel_b::copy(to + panel_a::BYTES, from_b, p.ldb, p.b_kmajor, b_vec, left_n, left_k);
                r.arrive_full();
                r.next();
                from_a += TILE_K * a_k;
                from_b += TILE_K * b_k;
            }
            if (t.slot < 0)
                gg_fetch_c<T, TILE_M, TILE_N>(p, t.own_m, t.own_n, threadIdx.x - GG_CONSUMERS, GG_PRODUCERS);
        }
        asm volatile("cp.async.wait_all;" ::: "memory");
    }
};

/* In rings without a producer each warp, on leaving a stage, counts itself in that stage's word of shared memory at `readers`. Lane 0 gets how many
 * of WARPS have left before; the last resets the count. The other lanes get 0. */
template <int WARPS> __device__ inline unsigned gg_count_reader(unsigned readers, int lane)
{
    unsigned before;
    asm volatile("{ .reg .pred p; setp.eq.s32 p, %2, 0; mov.u32 %0, 0; @p atom.relaxed.cta.shared.inc.u32 %0, [%1], %3; }"
                 : "=r"(before)
                 : "r"(readers), "r"(lane), "n"(WARPS - 1)
                 : "memory");
    return before;
}

/* Move registers from the producer warpgroup to the consumers (sm_90). Each is executed by the whole of one role. */
template <int REGISTERS> __device__ inline void gg_give_registers()
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
#endif
}

template <int REGISTERS> __device__ inline void gg_take_registers()
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
#endif
}

/* Barrier of all consumers of the block, without its producers. */
__device__ inline void gg_consumer_barrier() { asm volatile("bar.sync 1, %0;" ::"n"(GG_CONSUMERS) : "memory"); }

/* Runs a block of `kernel`: sets up the ring, then each thread does its role. *_REGISTERS: 0, or the registers per thread after moving them. */
template <typename kernel> __device__ inline void gg_run_now(const gg_args &p)
{
#if __CUDA_ARCH__ >= 800
    using stages = typename kernel::stages;
    extern __shared__ __align__(128) char shared[];
    typename stages::ring ring(reinterpret_cast<uint64_t *>(shared + stages::RING_BYTES + kernel::SLICE_BYTES));
    if (threadIdx.x == 0)
        ring.init(GG_PRODUCERS, GG_CONSUMERS / 32);
    __syncthreads();
    if (threadIdx.x >= GG_CONSUMERS) {
        if constexpr (kernel::PRODUCER_REGISTERS > 0)
            gg_give_registers<kernel::PRODUCER_REGISTERS>();
        stages::produce(p, ring, gg_shared(shared));
    } else {
        if constexpr (kernel::CONSUMER_REGISTERS > 0)
            gg_take_registers<kernel::CONSUMER_REGISTERS>();
        kernel self;
        self.consume(p, ring, shared);
    }
#endif
}

template <typename kernel> __device__ inline void gg_run(const gg_args &p)
{
#if __CUDA_ARCH__ >= 800
    if (!gg_gated(p))
        gg_run_now<kernel>(p);
#endif
}

#endif

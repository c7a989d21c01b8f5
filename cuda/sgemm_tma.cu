/* sgemm_tma — strict FP32 (FFMA only) for sm_90, operands by TMA, k step 32, 256 threads that compute:
 *
 *   sgemm_tma_128x256   16×8 sums a thread, 1 block an SM, 4 stages, inner loop of 8 k: large C
 *   sgemm_tma_128x128   8×8 sums a thread, 2 blocks an SM, 3 stages, inner loop of 8 k: C of too few tiles for the other, short k
 *
 * 128x256 has a producer: one more thread starts the two TMA copies that fill a stage, its first ones before anything else, and tells the consumers
 * what they are; the rest of its warpgroup gives them its registers. That is 1.0 to 2.2 % faster than the scheme of 128x128, which has no registers
 * to spare: there the last warp to leave a stage starts the copies that refill it, all stages ahead. Warps drift apart on purpose: while one waits or
 * stores C, the others (also those of the SM's other block) fill its issue slots.
 *
 * Operands. gg_pack first copies what TMA cannot read (rows that are not multiples of 16 bytes). For sgemm_tma_128x256 it also transposes an operand
 * whose k is contiguous, which takes little beside the product of a large C. For sgemm_tma_128x128 such an operand arrives as [row][32 k], with TMA's
 * 128-byte swizzle, and is transposed in place, once a stage: 4 LDS and 4 STS a thread for 2048 FFMA.
 *
 * In 128x256 a warp of an edge tile that has no elements of C multiplies nothing. Half tiles (gg_halves of src/kernels.h), in which each scheduler
 * keeps one of its two warps, take two thirds of the time and come last.
 *
 * Pieces of k. Large C: persistent blocks take whole tiles in turn, then share the last ones ("stream-K", Osama et al. 2023) in equal runs of k
 * steps. A block first does the piece that another waits for, then its whole tiles, then the tile whose earlier parts others have done; it waits for
 * those and adds them in order. It waits only for blocks of lower number, which are running by then. Small C: one cluster of up to 8 blocks per tile,
 * each with its share of k; they add up through distributed shared memory. Either way the sum depends on the grid alone, never on timing.
 *
 * Registers ≤ 240 and ≤ 128, shared memory 205 KB and 102 KB a block. Issue slots allow 95.5 % and 94 % of the FP32 peak (66.9 TF/s on an H200); NT
 * reached 89.5 % (4096), 84 % (2048) with 128×256 and, before its loads were slowed (ffma.cuh), 78 % (4096), 67 % (1536), 40 % (768) with 128×128.
 * Limits: m, n, k < 2^31 − 256; without shared tiles or with clusters any k, else 96 <= k (128 with 128x256). */
#include "ffma.cuh"
#include "parts.cuh"
#include "pipeline.cuh"

/* The order of a block's pieces: first the one that another block waits for, then its whole tiles, then the piece that waits for others. */
template <int TILE_M, int TILE_N, int TILE_K, int SHORTEST, bool HALVES> struct sgemm_piece : gg_piece<TILE_M, TILE_N, TILE_K, SHORTEST, HALVES> {
    using base = gg_piece<TILE_M, TILE_N, TILE_K, SHORTEST, HALVES>;
    using base::count, base::fate, base::first, base::tile;

    /* Finds the block's piece number `index`. False: it does not have so many. */
    __device__ bool find(const gg_args &p, int index)
    {
        if (p.splits > 1) {
            base::find_in_cluster(p);
            return index == 0;
        }
        const int length = base::steps(p), whole = base::whole_tiles(p), blocks = gridDim.x, mine = (whole - int(blockIdx.x) + blocks - 1) / blocks;
        int at = 0, end = 0;
        if (p.shared_tiles > 0) {
            at = base::run_start(p, blockIdx.x);
            end = base::run_start(p, blockIdx.x + 1);
            const int begin = end / length * length, from = max(at, begin);
            if (from < end) {
                if (index == 0) {
                    tile = whole + end / length, first = from - begin, count = end - from, fate = PUBLISH;
                    return true;
                }
                index--;
                end = from;
            }
        }
        if (index < mine) {
            tile = blockIdx.x + index * blocks, first = 0, count = length, fate = WHOLE;
            return true;
        }
        end -= (index - mine) * length;
        if (end <= at)
            return false;
        const int begin = end - length;
        tile = whole + begin / length, first = max(at - begin, 0), count = length - first, fate = first > 0 ? COLLECT : WHOLE;
        return true;
    }
};

/* CHUNK: k of one iteration of the innermost loop, whose code should fit the instruction cache. EITHER: k-major operands are transposed here.
 * CONSUMER_REGISTERS: not 0 if there is a producer warpgroup, which starts the copies and gives the consumers registers. */
template <int TILE_M, int TILE_N, int TILE_K, int STAGES, int WARPS_M, int WARPS_N, int LANES_M, int CHUNK, bool EITHER, int CONSUMER_REGISTERS,
          class ORDER>
struct sgemm_tma {
    static constexpr bool PRODUCER = CONSUMER_REGISTERS > 0;
    static constexpr int THREADS = 32 * WARPS_M * WARPS_N, LANES_N = 32 / LANES_M;
    static constexpr int TM = TILE_M / (WARPS_M * LANES_M), TN = TILE_N / (WARPS_N * LANES_N);
    static constexpr int A_BYTES = TILE_M * TILE_K * 4, BYTES = (TILE_M + TILE_N) * TILE_K * 4, SLOTS = TM * TN / 4;
    static constexpr int PITCH = 36, ROWS_BYTES = PRODUCER ? LANES_N * PITCH * 4 : gg_rows::BYTES; /* of C, per warp, see put_elements */
    /* Barriers; then orders (pipeline.cuh), or counts of the warps that have read each stage. */
    static constexpr int WORDS = STAGES * 16 + (PRODUCER ? (STAGES + 1) * ORDER_WORDS : STAGES) * 4;
    static constexpr int RING = STAGES * BYTES + (WORDS + 15) / 16 * 16, SHARED = 1024 + RING + THREADS / 32 * ROWS_BYTES;
    static constexpr int AT_ONCE = PRODUCER ? 16 : 4; /* loads of a part in flight; with more, 128x128's FFMAs get bank conflicts */
    using ffma_type = gg_ffma<TM, TN, LANES_M, TILE_M, TILE_N, PRODUCER ? 2 : 1, ORDER>;
    static constexpr bool HALVES = PRODUCER;
    using work = sgemm_piece<TILE_M, TILE_N, TILE_K, STAGES, HALVES>;

    struct piece {
        int m0, n0, k0, steps, tile, fate;
    };
    static __device__ bool next_piece(const gg_args &p, int index, piece &t)
    {
        work w;
        if (!w.find(p, index))
            return false;
        work::template place<8>(p, w.tile, t.m0, t.n0);
        t.k0 = w.first * TILE_K;
        t.steps = w.count;
        t.tile = w.tile;
        t.fate = w.fate;
        return true;
    }

    /* The first of the blocks or clusters whose parts of this tile are collected here. */
    static __device__ int first_unit(const gg_args &p, const piece &t)
    {
        const int unit = blockIdx.x / unsigned(p.splits);
        if (t.fate != COLLECT)
            return unit;
        if (p.splits > 1)
            return unit + 1 - p.groups;
        return work::first_block(p, t.tile, unit, gridDim.x);
    }

    static __device__ void fill(const gg_args &p, const gg_ring<STAGES> &ring, int stage, unsigned shared, const piece &t, int step)
    {
        const unsigned to = shared + stage * BYTES;
        const int k = t.k0 + step * TILE_K;
        ring.expect_full(stage, BYTES);
        const bool a_k = EITHER && p.a_kmajor, b_k = EITHER && p.b_kmajor;
        ring.copy_box(stage, to, &p.map_a, a_k ? k : t.m0, a_k ? t.m0 : k);
        ring.copy_box(stage, to + A_BYTES, &p.map_b, b_k ? k : t.n0, b_k ? t.n0 : k);
    }

    /* Fills the step that is `ahead` steps behind the first of `t`, the block's piece number `index`. It may belong to a later piece, or there may be
     * none. */
    static __device__ void fill_ahead(const gg_args &p, const gg_ring<STAGES> &ring, int stage, unsigned shared, piece t, int index, int ahead)
    {
        while (ahead >= t.steps) {
            ahead -= t.steps;
            if (!next_piece(p, ++index, t))
                return;
        }
        fill(p, ring, stage, shared, t, ahead);
    }

    /* Transposes [row][32 k], swizzled, to [k][row], 4×4 elements at a time. */
    static __device__ void transpose(unsigned panel)
    {
        static_assert(TILE_K == 32 && TILE_M == 128 && TILE_N == 128 && THREADS == 256, "one 4×4 block a thread");
        int t = threadIdx.x;
        asm("" : "+r"(t));
        const int g = t % 8 + t / 64 * 8, q = (t % 8 + t / 8) % 8; /* 32 groups of 4 rows, 8 of 4 k */
        float v[4][4];
#pragma unroll
        for (int e = 0; e < 4; e++)
            asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                         : "=f"(v[e][0]), "=f"(v[e][1]), "=f"(v[e][2]), "=f"(v[e][3])
                         : "r"(panel + (g * 4 + e) * 128 + ((q ^ (g * 4 + e) % 8) * 16))
                         : "memory");
        __syncthreads();
#pragma unroll
        for (int e = 0; e < 4; e++)
            asm volatile("st.shared.v4.f32 [%4], {%0, %1, %2, %3};" ::"f"(v[0][e]), "f"(v[1][e]), "f"(v[2][e]), "f"(v[3][e]),
                         "r"(panel + (q * 4 + e) * 512 + g * 16)
                         : "memory");
    }

    /* Waits for the ring's current stage and makes it [k][m] and [k][n]. */
    static __device__ void stage_ready(const gg_args &p, const gg_ring<STAGES> &ring, unsigned shared)
    {
        ring.wait_full();
        if constexpr (EITHER) {
            if (p.a_kmajor)
                transpose(shared + ring.stage * BYTES);
            if (p.b_kmajor)
                transpose(shared + ring.stage * BYTES + A_BYTES);
            if (p.a_kmajor || p.b_kmajor) {
                asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
                __syncthreads();
            }
        }
    }

    /* Fills steps [step, end) of a piece; with the first it tells the consumers about the piece. */
    static __device__ void fill_steps(const gg_args &p, gg_ring<STAGES> &ring, unsigned shared, unsigned order, const piece &t, int step, int end)
    {
        for (; step < end; step++) {
            ring.wait_empty();
            if (step == 0) {
                give_order(order, ORDER_M, t.m0);
                give_order(order, ORDER_N, t.n0);
                give_order(order, ORDER_COUNT, t.steps);
                give_order(order, ORDER_FATE, t.fate);
            }
            if (step + 1 == t.steps) /* only now that copies are in flight: it takes divisions */
                give_order(order, ORDER_FIRST, first_unit(p, t));
            fill(p, ring, ring.stage, shared, t, step);
            ring.next();
        }
    }

    /* What the producer's one thread does: its first copies before anything else, below all others. */
    static __device__ void produce_first(const gg_args &p, gg_ring<STAGES> ring, unsigned shared, unsigned orders)
    {
        piece t;
        if (next_piece(p, 0, t))
            fill_steps(p, ring, shared, orders, t, 0, min(t.steps, STAGES));
    }

    static __device__ void produce(const gg_args &p, gg_ring<STAGES> ring, unsigned shared, unsigned orders)
    {
        unsigned order = orders;
        piece t;
        for (int index = 0; next_piece(p, index, t); index++) {
            const int there = index == 0 ? min(t.steps, STAGES) : 0;
            for (int step = 0; step < there; step++)
                ring.next();
            fill_steps(p, ring, shared, order, t, there, t.steps);
            order = next_order<STAGES>(order, orders);
        }
        ring.wait_empty();
        give_order(order, ORDER_COUNT, 0);
        ring.expect_full(ring.stage, 0);
    }

    static __device__ void run(const gg_args &p)
    {
        if (gg_gated(p))
            return;
        extern __shared__ __align__(1024) char memory[];
        char *const shared_memory = memory + (-gg_shared(memory) & 1023); /* aligned for the swizzle */
        gg_ring<STAGES> ring(reinterpret_cast<uint64_t *>(shared_memory + STAGES * BYTES));
        unsigned *const counts = reinterpret_cast<unsigned *>(shared_memory + STAGES * BYTES + 16 * STAGES);
        const unsigned readers = gg_shared(counts), orders = readers, shared = gg_shared(shared_memory);
        piece next;
        if (!PRODUCER && !next_piece(p, 0, next))
            return;
        if (threadIdx.x == (PRODUCER ? THREADS : 0)) {
            ring.init(1, THREADS / 32);
            if (PRODUCER)
                produce_first(p, ring, shared, orders);
            for (int s = 0; !PRODUCER && s < STAGES; s++) {
                counts[s] = 0;
                fill_ahead(p, ring, s, shared, next, 0, s);
            }
        }
        __syncthreads();
        if constexpr (PRODUCER) {
            if (threadIdx.x >= THREADS) {
                gg_give_registers<24>();
                if (threadIdx.x == THREADS)
                    produce(p, ring, shared, orders);
                return;
            }
            gg_take_registers<CONSUMER_REGISTERS>();
        }

        const int lane = threadIdx.x % 32;
        const unsigned a0 = shared + (at_m(threadIdx.x) ^ ffma_type::crossed(lane)) * 4, b0 = shared + A_BYTES + at_n(threadIdx.x) * 4;
        ffma_type ffma;

        unsigned a = a0, b = b0, order = orders;
        stage_ready(p, ring, shared);
        ffma.fetch(0, a, b, 0);
        int index = 0, thread;
        for (bool more = true; more;) {
            piece now;
            bool idle = false;
            if constexpr (PRODUCER) {
                now.steps = ordered(order, ORDER_COUNT);
                if (now.steps == 0)
                    return;
                thread = thread_index();
                if (GG_UPDATE && ordered(order, ORDER_FATE) != PUBLISH)
                    gg_fetch_c<float, TILE_M, TILE_N>(p, ordered(order, ORDER_M), ordered(order, ORDER_N), thread, THREADS);
                idle = !__any_sync(~0u, ordered(order, ORDER_M) + at_m(thread) < int(p.m) && ordered(order, ORDER_N) + at_n(thread) < int(p.n));
            } else {
                now = next;
                more = next_piece(p, ++index, next);
                if (GG_UPDATE && now.fate != PUBLISH)
                    gg_fetch_c<float, TILE_M, TILE_N>(p, now.m0, now.n0, threadIdx.x, THREADS);
            }
            ffma.clear();
            int step = 0;
            if (idle) { /* this warp has no elements of C */
#pragma unroll 1
                for (; step < now.steps; step++) {
                    const int done = ring.stage;
                    ring.next();
                    ring.wait_full();
                    ring.arrive_empty(done);
                }
                a = a0 + ring.stage * BYTES, b = b0 + ring.stage * BYTES;
                ffma.fetch(0, a, b, 0);
                asm volatile("" : "+r"(step)); /* keeps the compiler from making separate code for sums that are 0 */
            }
            for (; step < now.steps; step++) {
                const int done = ring.stage;
                ring.next();
                if (PRODUCER || step + 1 < now.steps || more) /* with a producer there is always a next stage, even if it only says that all work is
                                                               * done */
                    stage_ready(p, ring, shared);
                unsigned others = 0;
                const unsigned next_a = a0 + ring.stage * BYTES, next_b = b0 + ring.stage * BYTES;
#pragma unroll 1
                for (int chunk = TILE_K / CHUNK; chunk > 0; chunk--) {
                    const unsigned then_a = chunk > 1 ? a + CHUNK * TILE_M * 4 : next_a, then_b = chunk > 1 ? b + CHUNK * TILE_N * 4 : next_b;
#pragma unroll /* not turn(): that moves ptxas to another numbering, 1 % slower */
                    for (int k = 0; k < CHUNK - 1; k++)
                        ffma.multiply(k & 1, a, b, k + 1);
                    ffma.multiply(1, then_a, then_b, 0);
                    a = then_a, b = then_b;
                }
                if constexpr (PRODUCER) {
                    ring.arrive_empty(done);
                    continue;
                }
                others = gg_count_reader<THREADS / 32>(readers + 4 * done, lane);
                if (__builtin_expect(others == THREADS / 32 - 1, 0)) {
                    const int ahead = step + STAGES;
                    if (ahead < now.steps)
                        fill(p, ring, done, shared, now, ahead);
                    else if (more)
                        fill_ahead(p, ring, done, shared, next, index, ahead - now.steps);
                }
                __syncwarp();
            }
            thread = thread_index();
            if constexpr (PRODUCER) {
                now.m0 = ordered(order, ORDER_M), now.n0 = ordered(order, ORDER_N), now.fate = ordered(order, ORDER_FATE);
                finish(p, now, ordered(order, ORDER_FIRST), shared, thread, ffma);
                order = next_order<STAGES>(order, orders);
            } else if (p.splits > 1) {
                return finish_share(p, now, shared, thread, ffma);
            } else {
                finish(p, now, first_unit(p, now), shared, thread, ffma);
            }
        }
    }

    static __device__ void block_barrier()
    {
        if constexpr (PRODUCER)
            asm volatile("bar.sync 1, %0;" ::"n"(THREADS) : "memory");
        else
            __syncthreads();
    }

    /* Where a warp's part of a tile begins; below, where a thread's begins. */
    static __device__ int warp_m(int warp)
    {
        int row = warp % WARPS_M, column;
        if constexpr (HALVES)
            gg_warp_part<WARPS_M>(warp, row, column);
        return row * (TM * LANES_M);
    }
    static __device__ int warp_n(int warp) { return warp / WARPS_M * (TN * LANES_N); } /* as gg_warp_part's of 4 rows */
    static __device__ int at_m(int thread) { return warp_m(thread / 32) + ffma_type::lanes::m(thread % 32) * 4; }
    static __device__ int at_n(int thread) { return warp_n(thread / 32) + ffma_type::lanes::n(thread % 32) * 4; }
    static __device__ gg_tile whole(const piece &t)
    {
        gg_tile tile;
        tile.m0 = tile.own_m = t.m0, tile.n0 = tile.own_n = t.n0, tile.slot = -1;
        return tile;
    }
    static __device__ float4 *part(const gg_args &p, int unit, int thread, int s)
    {
        return static_cast<float4 *>(p.workspace) + int64_t(unit) * (TILE_M * TILE_N / 4) + s * THREADS + thread;
    }
    static __device__ void finish(const gg_args &p, const piece &t, int first, unsigned shared, int thread, ffma_type &ffma)
    {
        const int unit = blockIdx.x;
        if (t.fate == PUBLISH) {
            int s = 0;
            ffma.for_each(gg_one(p), [&](int, int, const float(&v)[4]) { __stcg(part(p, unit, thread, s++), make_float4(v[0], v[1], v[2], v[3])); });
            announce_part(p, thread, block_barrier);
            return;
        }
        if (t.fate == COLLECT) {
            await_parts<THREADS>(p, first, unit, 0, thread, block_barrier);
            for (int from = first; from < unit; from++) {
                int s = 0;
                ffma.template add_each<AT_ONCE>([&] { return __ldcg(part(p, from, thread, s++)); });
            }
            forget_parts<THREADS>(p, first, unit, 0, thread, block_barrier);
        }
        const gg_out<float, TILE_M, TILE_N> out(p, whole(t));
        const int64_t m = t.m0 + at_m(thread), n = t.n0 + at_n(thread);
        if (__builtin_expect(out.plain(), 1))
            return ffma.store(out, m, n);
        if constexpr (PRODUCER) {
            put_elements(p, out, t, shared, thread, ffma);
        } else {
            const gg_rows rows = rows_of(out, t, shared, thread / 32);
            ffma.for_each(gg_one(p), [&](int i, int j, const float(&v)[4]) { rows.put(i, j, v); });
        }
    }

    static __device__ unsigned rows_memory(unsigned shared, int warp) { return shared + RING + warp * ROWS_BYTES; }

    static __device__ gg_rows rows_of(const gg_out<float, TILE_M, TILE_N> &out, const piece &t, unsigned shared, int warp)
    {
        static_assert(PRODUCER || LANES_M == 8, "as gg_rows wants it");
        return {typename ffma_type::lanes(), out, rows_memory(shared, warp), t.m0 + warp_m(warp), t.n0 + warp_n(warp)};
    }

    /* For tiles of 128x256 where 16-byte stores are illegal. Does what gg_rows does, for which ptxas does not find enough registers here: n = 4095 is
     * 1.4 % faster. */
    static __device__ void put_elements(const gg_args &p, const gg_out<float, TILE_M, TILE_N> &out, const piece &t, unsigned shared, int thread,
                                        const ffma_type &ffma)
    {
        static_assert(TM * LANES_M == 32, "a warp's rows are its lanes");
        const int lane = thread % 32, warp = thread / 32;
        const unsigned columns = rows_memory(shared, warp);
        const unsigned to = columns + (ffma_type::lanes::n(lane) * PITCH + ffma_type::lanes::m(lane) * 4) * 4;
        const int64_t m = t.m0 + warp_m(warp) + lane, n = t.n0 + warp_n(warp);
        int pieces = 0;
        ffma.for_each(gg_one(p), [&](int i, int j, const float(&v)[4]) {
            asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(to + i * 4), "f"(v[0]), "f"(v[1]), "f"(v[2]), "f"(v[3]) : "memory");
            if (++pieces % (TM / 4))
                return;
            __syncwarp();
            float *const at = out.c + m + (n + j) * out.ld;
            const bool in_rows = m < out.m;
            const int left = int(min(out.n - n - j, int64_t(1000)));
            float was[LANES_N] = {};
            if (out.reads())
#pragma unroll
                for (int c = 0; c < LANES_N; c++)
                    if (in_rows && c * 4 < left)
                        was[c] = at[c * 4 * out.ld];
#pragma unroll
            for (int c = 0; c < LANES_N; c++) {
                float element;
                asm volatile("ld.shared.f32 %0, [%1];" : "=f"(element) : "r"(columns + (c * PITCH + lane) * 4) : "memory");
                if (in_rows && c * 4 < left)
                    at[c * 4 * out.ld] = out.reads() ? out.alpha * element + out.beta * was[c] : out.alpha * element;
            }
            __syncwarp();
        });
    }

    /* In a cluster every block adds up its share of the slots. If a tile has several clusters, the last one then adds what the others have. */
    static __device__ void finish_share(const gg_args &p, const piece &t, unsigned shared, int thread, ffma_type &ffma)
    {
        const int rank = blockIdx.x % unsigned(p.splits), unit = blockIdx.x / unsigned(p.splits), first = first_unit(p, t);
        __syncthreads(); /* after this the ring's memory is free: all stages have been read */
        int s = 0;
        ffma.for_each(gg_one(p), [&](int, int, const float(&v)[4]) {
            asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(shared + (s++ * THREADS + thread) * 16), "f"(v[0]), "f"(v[1]), "f"(v[2]),
                         "f"(v[3])
                         : "memory");
        });
        cluster_arrive_shared();
        cluster_wait();
        if (t.fate == COLLECT)
            await_parts<THREADS>(p, first, unit, rank, thread, block_barrier);
        const gg_out<float, TILE_M, TILE_N> out(p, whole(t));
        const int64_t m = t.m0 + at_m(thread), n = t.n0 + at_n(thread);
        const int begin = SLOTS * rank / p.splits, end = SLOTS * (rank + 1) / p.splits;
#pragma unroll 1
        for (int slot = begin; slot < end; slot++) {
            const int i = slot % (TM / 4) * (4 * LANES_M), j = slot / (TM / 4) / 4 * (4 * LANES_N) + slot / (TM / 4) % 4;
            const bool by_rows = !PRODUCER && !out.vec;
            typename gg_out<float, TILE_M, TILE_N>::vector was = {};
            if (t.fate != PUBLISH && !by_rows)
                was = out.old_vector(m + i, n + j);
            float4 v[8];
#pragma unroll
            for (int r = 0; r < 8; r++)
                if (r < p.splits)
                    v[r] = load_cluster(of_block(shared + (slot * THREADS + thread) * 16, r));
            float sum[4] = {v[0].x, v[0].y, v[0].z, v[0].w};
#pragma unroll
            for (int r = 1; r < 8; r++)
                if (r < p.splits)
                    sum[0] += v[r].x, sum[1] += v[r].y, sum[2] += v[r].z, sum[3] += v[r].w;
            if (t.fate == PUBLISH) {
                __stcg(part(p, unit, thread, slot), make_float4(sum[0], sum[1], sum[2], sum[3]));
                continue;
            }
            add_parts<8>(
                first, unit, [&](int from) { return __ldcg(part(p, from, thread, slot)); },
                [&](const float4 &w) { sum[0] += w.x, sum[1] += w.y, sum[2] += w.z, sum[3] += w.w; });
            if (by_rows)
                rows_of(out, t, shared, thread / 32).put(i, j, sum);
            else
                out.put_vector(m + i, n + j, sum, was);
        }
        if (t.fate == PUBLISH)
            announce_part(p, thread, block_barrier);
        else if (t.fate == COLLECT)
            forget_parts<THREADS>(p, first, unit, rank, thread, block_barrier);
        cluster_leave(); /* others may still be reading this block's shared memory */
    }
};
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
using tma128x256 = sgemm_tma<128, 256, 32, 4, 4, 2, 4, 8, false, 240, gg_order<(GG_UPDATE ? 21 : 10), (GG_UPDATE ? 8 : 18), true, GG_UPDATE>>;
using tma128x128 = sgemm_tma<128, 128, 32, 3, 2, 4, 8, 8, true, 0, gg_order<15, 12, true, true>>;
static_assert(tma128x256::SHARED <= gg_shared_sgemm_tma_128x256 && tma128x128::SHARED <= gg_shared_sgemm_tma_128x128, "kernels.def");
extern "C" {
__global__ void __launch_bounds__(384, 1) sgemm_tma_128x256(const __grid_constant__ gg_args p) { tma128x256::run(p); }
__global__ void __launch_bounds__(256, 2) sgemm_tma_128x128(const __grid_constant__ gg_args p) { tma128x128::run(p); }
}
#endif

/* sgemm.cuh — strict FP32 (FFMA only) for sm_80 and newer, warp-specialised and persistent; see pipeline.cuh for how operands arrive.
 *
 * A block is 128 producer threads and 256 consumers. Consumers form SLICES groups of warps; a slice is a group's share of every stage's k, for which
 * it multiplies the whole tile. So a small tile still has 8 warps of 8×8 sums a thread, and an SM runs at the rate of a large one. Slices are added
 * at the end through shared memory, in order. A thread keeps TM×TN sums in registers and two sets of fragments: it reads the next k's while it
 * multiplies this one's. LDS.128 reads are conflict-free or broadcast.
 *
 *   sgemm_128x128   1 slice, 88 KB shared memory                    up to 48 TF/s on an H200
 *   sgemm_128x64    2 slices, 164 KB: n = 1024 is one tile an SM    39 at n = 1024, 48 at n = 4096
 *   sgemm_64x64     4 slices, 200 KB (64x64x48: 141 KB)             42 at large n, split tiles with long k
 *   sgemm_32x64     8 slices, 168 KB                                17 at n = 512; a file of its own, which says why
 *
 * Registers ≤ 168. Issue slots allow 94 % of the FP32 peak (66.9 TF/s), the remaining register bank conflicts 87 %; loads from shared memory seem to
 * cost more than their slot (ffma.cuh). */
#ifndef GG_SGEMM_CUH
#define GG_SGEMM_CUH

#include "ffma.cuh"
#include "pipeline.cuh"

/* FFMA: gg_ffma, or another class with its members. */
template <template <int, int, int, int, int> class FFMA, int TILE_M, int TILE_N, int TILE_K, int STAGES_, int WARPS_M, int WARPS_N, int LANES_M>
struct sgemm {
    static constexpr int SLICES = GG_CONSUMERS / 32 / (WARPS_M * WARPS_N), LANES_N = 32 / LANES_M;
    static constexpr int TM = TILE_M / (WARPS_M * LANES_M), TN = TILE_N / (WARPS_N * LANES_N), KS = TILE_K / SLICES;
    static_assert(TM % 4 == 0 && TN % 4 == 0 && KS % 2 == 0, "fragments are 16-byte pieces, k alternates between two sets");
    static_assert(TILE_M == TM * LANES_M * WARPS_M && TILE_N == TN * LANES_N * WARPS_N, "threads cover the tile");
    using stages = gg_stages<float, TILE_M, TILE_N, TILE_K, STAGES_>;
    static constexpr int SLICE_BYTES = SLICES > 1 ? SLICES *TILE_M *TILE_N * 4 : GG_CONSUMERS / 32 * gg_rows::BYTES;
    static_assert(SLICES > 1 || LANES_M == 8, "as gg_rows wants it");
    /* k of an iteration of the main loop. In a short call, where code comes from memory, half as much code is worth 2.7 % (16384x128x128); in others
     * it costs 1.6 %, but from sm_90 on other rows serve large C. */
#if __CUDA_ARCH__ >= 900
    static constexpr int CHUNK = SLICES == 1 ? 8 : KS;
#else
    static constexpr int CHUNK = KS;
#endif
    static constexpr int PRODUCER_REGISTERS = 0, CONSUMER_REGISTERS = 0;
    static constexpr int SHARED = stages::RING_BYTES + SLICE_BYTES + 2 * STAGES_ * 8;

    FFMA<TM, TN, LANES_M, stages::panel_a::PITCH, stages::panel_b::PITCH> ffma;

    __device__ void consume(const gg_args &p, typename stages::ring ring, const char *shared)
    {
        const int t = threadIdx.x, warp = t / 32, lane = t % 32;
        const int slice = warp / (WARPS_M * WARPS_N), warp_m = warp % WARPS_M, warp_n = warp / WARPS_M % WARPS_N;
        const int m = warp_m * (TM * LANES_M) + decltype(ffma)::lanes::m(lane) * 4;
        const int n = warp_n * (TN * LANES_N) + decltype(ffma)::lanes::n(lane) * 4;
        const unsigned a0 = gg_shared(shared) + (slice * KS * stages::panel_a::PITCH + m) * 4;
        const unsigned b0 = gg_shared(shared) + stages::panel_a::BYTES + (slice * KS * stages::panel_b::PITCH + n) * 4;

        typename stages::work work(p);
        if (!work.more())
            return;
        unsigned a = a0 + ring.stage * stages::BYTES, b = b0 + ring.stage * stages::BYTES;
        ring.wait_full();
        ffma.fetch(0, a, b, 0);
        while (work.more()) {
            const gg_tile tile = work.next(p);
            const bool more = work.more();
            ffma.clear();

            /* One stage per iteration. The stage after it, possibly of the next tile, is waited for first, so that the rest is one straight run of
             * FFMA with the loads of the next k among them: with any branch in there ptxas loses its register banks (2 reads of one bank take 1 clock
             * more), measured 57 -> 46 TF/s. After the very last stage the ring holds old data; what is fetched is not used. */
            for (int steps = tile.steps; steps > 0; steps--) {
                const unsigned done = ring.stage;
                ring.next();
                if (steps > 1 || more)
                    ring.wait_full();
                const unsigned next_a = a0 + ring.stage * stages::BYTES, next_b = b0 + ring.stage * stages::BYTES;
                if constexpr (CHUNK < KS)
#pragma unroll 1
                    for (int chunk = KS / CHUNK; chunk > 0; chunk--) {
                        const unsigned then_a = chunk > 1 ? a + CHUNK * stages::panel_a::PITCH * 4 : next_a;
                        const unsigned then_b = chunk > 1 ? b + CHUNK * stages::panel_b::PITCH * 4 : next_b;
                        ffma.template turn<CHUNK>(a, b, then_a, then_b);
                        a = then_a, b = then_b;
                    }
                else
                    ffma.template turn<KS>(a, b, next_a, next_b);
                ring.arrive_empty(done);
                a = next_a, b = next_b;
            }
            ffma.settle();
            store(p, tile, m, n, slice, const_cast<char *>(shared) + stages::RING_BYTES);
        }
    }

    /* Where row m's sum goes in column n of a slice, and also which row is at a place: a permutation that puts the columns that eight lanes store at
     * one time in different banks. */
    static __device__ int place(int m, int n)
    {
        constexpr int ROWS = 64 / LANES_M;
        return m ^ n / 4 % (32 / ROWS) * ROWS;
    }

    __device__ void store(const gg_args &p, const gg_tile &tile, int m, int n, int slice, char *shared)
    {
        asm("" : "+r"(m), "+r"(n)); /* opaque: keeps what depends on them here, out of registers of the main loop */
        const gg_out<float, TILE_M, TILE_N> out(p, tile);
        if constexpr (SLICES == 1) {
            if (out.plain()) {
                ffma.store(out, tile.m0 + m, tile.n0 + n);
                return;
            }
            const int warp = threadIdx.x / 32;
            const gg_rows rows(typename decltype(ffma)::lanes(), out, gg_shared(shared) + warp * gg_rows::BYTES,
                               tile.m0 + warp % WARPS_M * (TM * LANES_M), tile.n0 + warp / WARPS_M % WARPS_N * (TN * LANES_N));
            ffma.for_each(gg_one(p), [&](int i, int j, const float(&v)[4]) { rows.put(i, j, v); });
            return;
        }
        float *partial = reinterpret_cast<float *>(shared);
        ffma.for_each(gg_one(p), [&](int i, int j, const float(&v)[4]) {
            *reinterpret_cast<float4 *>(partial + (slice * TILE_N + n + j) * TILE_M + place(m + i, n + j)) = make_float4(v[0], v[1], v[2], v[3]);
        });
        if constexpr (SLICES > 1) {
            gg_consumer_barrier();
            constexpr int AT_ONCE = GG_UPDATE ? 2 : 1;
#pragma unroll 1
            for (int from = threadIdx.x * 4; from < TILE_M * TILE_N; from += AT_ONCE * GG_CONSUMERS * 4) {
                const auto at = [&](int x) { return from + x * GG_CONSUMERS * 4; };
                gg_put_all<AT_ONCE, AT_ONCE>(
                    out.reads(), [&](int x) { return out.old_vector(tile.m0 + place(at(x) % TILE_M, at(x) / TILE_M), tile.n0 + at(x) / TILE_M); },
                    [&](int x, const auto &was) {
                        float v[4] = {};
#pragma unroll
                        for (int s = 0; s < SLICES; s++) {
                            const float4 part = *reinterpret_cast<const float4 *>(partial + s * (TILE_M * TILE_N) + at(x));
                            v[0] += part.x, v[1] += part.y, v[2] += part.z, v[3] += part.w;
                        }
                        out.put_vector(tile.m0 + place(at(x) % TILE_M, at(x) / TILE_M), tile.n0 + at(x) / TILE_M, v, was);
                    });
            }
            gg_consumer_barrier();
        }
    }
};

#endif

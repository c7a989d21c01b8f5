/* gather.cuh — tiles that many units share evenly are added up by all of them together (dgemm_tma.cu, sgemm_once.cuh).
 *
 * A unit writes its part to the workspace, counts itself in a word of the tile's, waits until all have, and adds up its share of the tile. Elsewhere
 * in these kernels a unit waits only for units with smaller indices, which are running by then. Here everybody waits for everybody, and the last may
 * not have found room yet, behind other kernels, perhaps of the same kind. So nobody waits for long: a unit gives up after some time, and the last to
 * come, which need not wait, adds up its share, too. Who adds up a share makes no difference to the sums. */
#ifndef GG_GATHER_CUH
#define GG_GATHER_CUH

#include <type_traits>

#include "parts.cuh"

/* A tile's word is the flag of its first unit. Its upper half counts units that have come, modulo their number, its lower half those that have given
 * up. From GG_GAVE_UP on each block has another flag, which says that it has given up. All are 0 between launches. */
enum { GG_CAME = 1 << 16, GG_POLLS = 200 /* some 100 us */ };

__device__ inline unsigned gg_count(unsigned *word, unsigned more)
{
    unsigned before;
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], %2;" : "=r"(before) : "l"(word), "r"(more) : "memory");
    return before + more;
}

/* Takes back a block's word that it has given up. False: another has done so, and adds up its share. */
__device__ inline bool gg_take_back(const gg_args &p, int block) { return atomicExch(part_flag(p, GG_GAVE_UP + block), 0) != 0; }

/* Called by one thread of the block whose unit is number `place` of a tile's `places`, when its part is written. first: the block of number 0.
 * Returns 0 if the block has given up; else all parts are there, its share is to be added up, and of the units that had given up before it came one
 * less than what is returned. */
__device__ inline unsigned gg_gather(const gg_args &p, int first, int block, int place, int places)
{
    unsigned *const word = part_flag(p, first), now = gg_count(word, place == 0 ? GG_CAME - places * GG_CAME : GG_CAME);
    if (now < GG_CAME)
        return 1 + now;
#pragma unroll 1
    for (int i = 0; now >= GG_CAME && i < GG_POLLS; i++)
        asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(now) : "l"(word) : "memory");
    if (now < GG_CAME)
        return 1;
    *part_flag(p, GG_GAVE_UP + block) = 1;
    if (gg_count(word, 1) >= GG_CAME)
        return 0;
    gg_count(word, -1u); /* all have come meanwhile */
    return gg_take_back(p, block);
}

__device__ inline void gg_add(double2 &to, const double2 &v) { to.x += v.x, to.y += v.y; }
__device__ inline void gg_add(float4 &to, const float4 &v) { to.x += v.x, to.y += v.y, to.z += v.z, to.w += v.w; }

/* Called by THREADS threads, which `barrier` synchronises, when they have written their block's part: adds up the block's share, and as the last that
 * came those of others that have given up. block: its index; the other units' are `stride` apart, its own is number `place` of them. A part has
 * CHUNKS chunks of 16 bytes for each lane of a warp, and a share is every units-th chunk. As many warps as are not needed for other chunks add up
 * some of a chunk's parts each. part(u) is where unit u's part is, old(chunk) what is there in C, put(chunk, sum, old) stores. `memory` of the block,
 * 16 bytes for each thread, 4 for each unit and 4 more, is free. */
template <int THREADS, int CHUNKS, typename PART, typename OLD, typename PUT, typename BARRIER>
__device__ inline void gg_gather_tile(const gg_args &p, int block, int stride, int place, int units, int thread, unsigned memory, PART part, OLD old,
                                      PUT put, BARRIER barrier)
{
    using vector = typename std::remove_const<typename std::remove_pointer<decltype(part(0))>::type>::type;
    constexpr int WARPS = THREADS / 32, AT_ONCE = 9;
    static_assert(WARPS == 4 || WARPS == 8, "powers of two");
    const int first = block - place * stride;
    vector *const sums = static_cast<vector *>(__cvta_shared_to_generic(memory));
    unsigned *const state_word = reinterpret_cast<unsigned *>(sums + THREADS), *const taken = state_word + 1;
    barrier();
    if (thread == 0)
        *state_word = gg_gather(p, first, block, place, units);
    barrier();
    const int state = *state_word;
    if (state == 0)
        return;
    int log = WARPS == 4 ? 2 : 3; /* of the number of warps that add up a chunk together */
    while (log > 0 && ((CHUNKS + units - 1) / units) << log > WARPS)
        log--;
    const int warp = thread / 32, lane = thread % 32, together = 1 << log, member = warp & (together - 1);
    const int others = state > 1 ? units : 0; /* units whose flags this block has to look at, after its own share */
#pragma unroll 1
    for (int i = -1; i < others; i++) {
        if (i == 0) {
#pragma unroll 1
            for (int other = thread; other < units; other += THREADS)
                taken[other] = gg_take_back(p, first + other * stride);
            barrier();
        }
        if (i >= 0 && !taken[i])
            continue;
#pragma unroll 1
        for (int next = i < 0 ? place : i; next < CHUNKS; next += (WARPS >> log) * units) {
            const int chunk = next + (warp >> log) * units;
            const bool stores = chunk < CHUNKS && member == 0;
            decltype(old(0)) was = {};
            vector v = {};
            if (stores)
                was = old(chunk);
            if (chunk < CHUNKS) {
                const int end = units * (member + 1) >> log;
#pragma unroll 1
                for (int from = units * member >> log; from < end; from += AT_ONCE) {
                    vector w[AT_ONCE];
#pragma unroll
                    for (int x = 0; x < AT_ONCE; x++)
                        w[x] = __ldcg(part(min(from + x, end - 1)) + chunk * 32 + lane);
#pragma unroll
                    for (int x = 0; x < AT_ONCE; x++)
                        if (from + x < end)
                            gg_add(v, w[x]);
                }
            }
            if (together > 1) {
                sums[thread] = v;
                barrier();
#pragma unroll 1
                for (int other = 1; stores && other < together; other++)
                    gg_add(v, sums[thread + other * 32]);
                barrier();
            }
            if (stores)
                put(chunk, v, was);
        }
    }
    if (state > 1 && thread == 0)
        gg_count(part_flag(p, first), 1 - state);
}

#endif

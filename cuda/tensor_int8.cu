/* tensor_int8.cu — sm_90: the products of planes (residue.cuh) modulo each of the moduli: persistent, tile 128×256, clusters of two blocks that share
 * 256 columns of op(B), 384 threads.
 *
 * One thread of a producer warpgroup copies; two consumer warpgroups compute 64 rows of C each, 128 sums of 32 bits a thread, by m64n128k32. Sums of
 * k <= GG_INT8_MOST_K products of bytes are exact. A stage is 128 k, 48 KB: a block copies its own 128 rows of op(A) and half of the columns of
 * op(B), those to both blocks. All tiles are done modulo the first number, then modulo the next, so that blocks that run together share planes in L2.
 * A tile's sums are reduced to bytes where they are and stored as gg_restore reads them: [modulus][tile][warpgroup][8][thread][16 bytes].
 *
 * In its main loop the tensor cores never wait: at k = 2048 it takes 16,300 clocks a tile, by their peak 16,384. Storing the sums took another 3000
 * when they were reduced by integer multiplications and all at once. FP32 does it (gg_remainder), and half of the columns at a time, while the other
 * half is multiplied: at n = 2048 168 us instead of 183, of which the arithmetic is 10 (H100).
 *
 * Registers 40 and 232, no spills; shared memory 193 KB. Operands from L2: 32 bytes per clock and SM. H100: 1640 TOP/s at n = 4096, at the 1.6 GHz
 * that the power limit leaves, where the peak is 1730; 1520 at 2048, where the last of 15 rounds of tiles is half empty. */
#include "residue.cuh"
#include "wgmma.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
namespace
{
constexpr int STAGES = 4, STAGE_BYTES = 3 * GG_UNIT_BYTES, SUMS = 64; /* of a thread, for half a tile */
constexpr int SHARED = STAGES * (STAGE_BYTES + 16) + 1024;
static_assert(SHARED == gg_shared_tensor_int8, "kernels.def");

using ring_t = gg_ring<STAGES>;

#define GG_D4(i) "+r"(d[i]), "+r"(d[i + 1]), "+r"(d[i + 2]), "+r"(d[i + 3])
#define GG_D16(i) GG_D4(i), GG_D4(i + 4), GG_D4(i + 8), GG_D4(i + 12)

/* D (64×128, of a warpgroup) = x y + (add ? D : 0), 32 k. x and y are the low halves of shared memory descriptors; the high halves say that rows have
 * 128 bytes, swizzled, and that groups of 8 rows are contiguous. */
__device__ inline void wgmma(int (&d)[SUMS], unsigned x, unsigned y, int add)
{
    asm volatile("{ .reg .pred p; .reg .b64 x, y; setp.ne.b32 p, %66, 0; mov.b64 x, {%64, %67}; mov.b64 y, {%65, %67};\n"
                 "wgmma.mma_async.sync.aligned.m64n128k32.s32.s8.s8"
                 " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, "
                 "%27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, "
                 "%52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, x, y, p; }"
                 : GG_D16(0), GG_D16(16), GG_D16(32), GG_D16(48)
                 : "r"(x), "r"(y), "r"(add), "n"(int(1u << 30 | 8 * GG_UNIT / 16)));
}
#undef GG_D16
#undef GG_D4

/* The work of a cluster: every so manyth of the list of pairs of tiles, one list after the other modulo each number. */
struct work {
    int index = blockIdx.x / 2, rows, columns; /* in pairs of tiles: 256×256 */

    __device__ work(const gg_args &p) : rows(int(gg_ceil_div(p.m, 2 * GG_UNIT))), columns(int(gg_ceil_div(p.n, 2 * GG_UNIT))) {}
    __device__ bool more() const { return index < rows * columns * GG_MODULI; }
    __device__ void next() { index += gridDim.x / 2; }
    __device__ int modulus() const { return index / (rows * columns); }
    __device__ int pair() const { return index % (rows * columns); }
};

__device__ inline int rank() { return blockIdx.x % 2; }

/* Copies a unit to the same place in both blocks. */
__device__ inline void copy_to_both(unsigned to, const char *from, unsigned barrier)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;" ::"r"(to),
                 "l"(from), "n"(GG_UNIT_BYTES), "r"(barrier), "h"(static_cast<unsigned short>(3))
                 : "memory");
}

__device__ inline void produce(const gg_args &p, ring_t ring, unsigned shared)
{
    const int steps = int(gg_ceil_div(p.k, GG_UNIT)), last_a = int(gg_ceil_div(p.m, GG_UNIT)) - 1, last_b = int(gg_ceil_div(p.n, GG_UNIT)) - 1;
    for (work w(p); w.more(); w.next()) {
        int row, column;
        gg_place_pair(w.pair(), w.rows, w.columns, row, column);
        const int64_t of_a = min(2 * row + rank(), last_a), of_b = min(2 * column + rank(), last_b); /* beyond the last: any will do */
        const char *a = static_cast<const char *>(p.pieces_a) + (of_a * GG_MODULI + w.modulus()) * steps * GG_UNIT_BYTES;
        const char *b = static_cast<const char *>(p.pieces_b) + (of_b * GG_MODULI + w.modulus()) * steps * GG_UNIT_BYTES;
        for (int step = 0; step < steps; step++, a += GG_UNIT_BYTES, b += GG_UNIT_BYTES) {
            const unsigned to = shared + ring.stage * STAGE_BYTES, barrier = ring.full + 8 * ring.stage;
            ring.wait_empty();
            ring.expect_full(ring.stage, STAGE_BYTES);
            copy<GG_UNIT_BYTES>(to, a, barrier);
            copy_to_both(to + (1 + rank()) * GG_UNIT_BYTES, b, barrier);
            ring.next();
        }
    }
}

/* How sums are reduced modulo each number: a sum has four bytes, whose sign bit is flipped, and becomes a byte from 0 to 255: 128 is subtracted from
 * it, and gg_beyond adds it to the byte. (256's last byte is the sum's.) */
struct reduction {
    unsigned m, weights, start;
    float reciprocal, back;
};

constexpr reduction reduction_of(int i)
{
    const unsigned m = gg_modulus(i), shift = m == 256 ? 0 : 128, beyond = gg_beyond(m, shift);
    return {m, gg_byte_weights(m, 0), gg_start(m, beyond, gg_power(2, 31, m) + shift), gg_reciprocal(m), gg_back(m, beyond)};
}

__constant__ reduction reductions[GG_MODULI] = {reduction_of(0),  reduction_of(1),  reduction_of(2),  reduction_of(3),  reduction_of(4),
                                                reduction_of(5),  reduction_of(6),  reduction_of(7),  reduction_of(8),  reduction_of(9),
                                                reduction_of(10), reduction_of(11), reduction_of(12), reduction_of(13), reduction_of(14)};

/* Sixteen sums as bytes. */
__device__ inline uint4 reduce(const int *sum, const reduction &by)
{
    unsigned r[4][4];
#pragma unroll
    for (int i = 0; i < 16; i++)
        r[i / 4][i % 4] = gg_remainder(__dp4a(unsigned(sum[i]) ^ 0x80000000, by.weights, by.start), by.m, by.reciprocal, by.back);
    return make_uint4(gg_last_bytes(r[0]), gg_last_bytes(r[1]), gg_last_bytes(r[2]), gg_last_bytes(r[3]));
}

/* Half of a warpgroup's part of a tile: 64 rows by the first or the second 128 columns. */
template <int HALF> struct half {
    int sum[SUMS];

    /* Starts the products of a stage. */
    __device__ void multiply(unsigned stage, int group, bool first)
    {
        const unsigned x = describe(stage + group * (GG_UNIT_BYTES / 2)), y = describe(stage + (1 + HALF) * GG_UNIT_BYTES);
        order_wgmma();
#pragma unroll
        for (int k = 0; k < GG_UNIT / 32; k++)
            wgmma(sum, x + k * 2, y + k * 2, k > 0 || !first);
        commit_wgmma();
    }

    __device__ void store(const gg_args &p, const work &w, int group)
    {
        const reduction by = reductions[w.modulus()];
        uint4 *const to = static_cast<uint4 *>(p.pieces_c) +
                          ((((int64_t(w.modulus()) * (w.rows * w.columns) + w.pair()) * 2 + rank()) * 2 + group) * 8 + HALF * 4) * 128 +
                          threadIdx.x % 128;
        pin(sum);
#pragma unroll
        for (int i = 0; i < 4; i++)
            to[i * 128] = reduce(sum + 16 * i, by);
    }
};

/* The halves of a tile take turns, the second a stage behind the first, so that the tensor cores have one of them to multiply while the other's sums
 * are stored. Once in each tile no product may be under way (await_wgmma<0>), or ptxas serialises all of them (C7514): each half is read while the
 * other is multiplied. By then the second half is done anyway. */
__device__ inline void consume(const gg_args &p, ring_t ring, unsigned shared)
{
    const int group = __shfl_sync(~0u, threadIdx.x / 128, 0), steps = int(gg_ceil_div(p.k, GG_UNIT));
    half<0> ahead;
    half<1> behind;
    work w(p), before(p);
    const auto stage = [&] { return shared + ring.stage * STAGE_BYTES; };
    const auto release = [&] { ring.arrive_empty_pair(ring.stage ? ring.stage - 1 : STAGES - 1, 0); }; /* the stage before */
    if (!w.more())
        return;
    ring.wait_full();
    ahead.multiply(stage(), group, true);
    for (;;) {
        for (int step = 1; step < steps; step++) {
            behind.multiply(stage(), group, step == 1);
            ring.next();
            ring.wait_full();
            ahead.multiply(stage(), group, false);
            await_wgmma<1>();
            release();
        }
        behind.multiply(stage(), group, false);
        await_wgmma<1>();
        ahead.store(p, w, group);
        await_wgmma<0>();
        before = w;
        w.next();
        if (!w.more())
            break;
        ring.next();
        ring.wait_full();
        release();
        ahead.multiply(stage(), group, true);
        behind.store(p, before, group);
    }
    behind.store(p, before, group);
}
} // namespace

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(384, 1) tensor_int8(const __grid_constant__ gg_args p)
{
    extern __shared__ __align__(128) char shared_memory[];
    const unsigned shared = (gg_shared(shared_memory) + 1023) & ~1023u; /* swizzle patterns repeat every 1024 bytes */
    ring_t ring(shared + STAGES * STAGE_BYTES);
    if (threadIdx.x == 0)
        ring.init(1, 2 * GG_CONSUMERS / 32);
    cluster_barrier();
    if (!gg_gated<true>(p)) {
        if (threadIdx.x >= GG_CONSUMERS) {
            gg_give_registers<40>();
            if (threadIdx.x == GG_CONSUMERS)
                produce(p, ring, shared);
            __syncwarp();
        } else {
            gg_take_registers<232>();
            consume(p, ring, shared);
        }
    }
    cluster_barrier(); /* copies and arrivals from the other block */
}
#endif

/* tensor_int8.cu — sm_90: the products of planes (residue.cuh) modulo each of the moduli: persistent, tile 128×256, clusters of two blocks that share
 * 256 columns of op(B), 384 threads.
 *
 * One thread of a producer warpgroup copies; two consumer warpgroups compute 64 rows of C each, 128 sums of 32 bits a thread, by m64n256k32. Sums of
 * k <= GG_INT8_MOST_K products of bytes are exact. A stage is 128 k, 48 KB: a block copies its own 128 rows of op(A) and half of the columns of
 * op(B), those to both blocks. All tiles are done modulo the first number, then modulo the next, so that blocks that run together share planes in L2.
 * A tile's sums are reduced to bytes where they are and stored as gg_restore reads them: [modulus][tile][warpgroup][8][thread][16 bytes].
 *
 * Registers 40 and 232, no spills; shared memory 193 KB. Operands from L2: 32 bytes per clock and SM. H200: 1600 TOP/s at n = 4096, 81 % of the peak
 * at 1.83 GHz and 90 % of that at the 1.65 GHz that the power limit leaves; 1430 at 2048, where the last of 15 rounds of tiles is half empty. */
#include "residue.cuh"
#include "wgmma.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
namespace
{
constexpr int STAGES = 4, STAGE_BYTES = 3 * GG_UNIT_BYTES, SUMS = 128;
constexpr int SHARED = STAGES * (STAGE_BYTES + 16) + 1024;
static_assert(SHARED == gg_shared_tensor_int8, "kernels.def");

/* gg_modulus(i) - 1: a byte, even of 256. */
__constant__ unsigned char less_one[GG_MODULI] = {255, 254, 252, 250, 246, 240, 238, 232, 228, 226, 222, 216, 210, 198, 196};

using ring_t = gg_ring<STAGES>;

#define GG_D4(i) "+r"(d[i]), "+r"(d[i + 1]), "+r"(d[i + 2]), "+r"(d[i + 3])
#define GG_D16(i) GG_D4(i), GG_D4(i + 4), GG_D4(i + 8), GG_D4(i + 12)

/* D (64×256, of a warpgroup) = x y + (add ? D : 0), 32 k. x and y are the low halves of shared memory descriptors; the high halves say that rows have
 * 128 bytes, swizzled, and that groups of 8 rows are contiguous. */
__device__ inline void wgmma(int (&d)[SUMS], unsigned x, unsigned y, int add)
{
    asm volatile("{ .reg .pred p; .reg .b64 x, y; setp.ne.b32 p, %130, 0; mov.b64 x, {%128, %131}; mov.b64 y, {%129, %131};\n"
                 "wgmma.mma_async.sync.aligned.m64n256k32.s32.s8.s8"
                 " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, "
                 "%27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, "
                 "%52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, "
                 "%77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, %99, %100, %101, "
                 "%102, %103, %104, %105, %106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, "
                 "%123, %124, %125, %126, %127}, x, y, p; }"
                 : GG_D16(0), GG_D16(16), GG_D16(32), GG_D16(48), GG_D16(64), GG_D16(80), GG_D16(96), GG_D16(112)
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

/* Four sums modulo m, from 0 to m, as bytes. magic: 2^38 / m, rounded up; sums are below 2^29 in size. */
__device__ inline unsigned reduce(const int *sum, int m, int magic)
{
    unsigned r[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
        r[i] = sum[i] - (__mulhi(sum[i], magic) >> 6) * m;
    return __byte_perm(__byte_perm(r[0], r[1], 0x0040), __byte_perm(r[2], r[3], 0x0040), 0x5410);
}

__device__ inline void consume(const gg_args &p, ring_t ring, unsigned shared)
{
    const int group = __shfl_sync(~0u, threadIdx.x / 128, 0), steps = int(gg_ceil_div(p.k, GG_UNIT));
    for (work w(p); w.more(); w.next()) {
        int sum[SUMS] = {};
        for (int step = 0; step < steps; step++) {
            ring.wait_full();
            const unsigned stage = shared + ring.stage * STAGE_BYTES;
            const unsigned x = describe(stage + group * (GG_UNIT_BYTES / 2)), y = describe(stage + GG_UNIT_BYTES);
            pin(sum);
            order_wgmma();
#pragma unroll
            for (int k = 0; k < GG_UNIT / 32; k++)
                wgmma(sum, x + k * 2, y + k * 2, step + k);
            commit_wgmma();
            await_wgmma<1>();
            if (step > 0)
                ring.arrive_empty_pair(ring.stage ? ring.stage - 1 : STAGES - 1, 0);
            ring.next();
        }
        await_wgmma<0>();
        pin(sum);
        ring.arrive_empty_pair(ring.stage ? ring.stage - 1 : STAGES - 1, 0);
        const int m = less_one[w.modulus()] + 1, magic = ((1ull << 38) + m - 1) / m;
        uint4 *to = static_cast<uint4 *>(p.pieces_c) +
                    (((int64_t(w.modulus()) * (w.rows * w.columns) + w.pair()) * 2 + rank()) * 2 + group) * (8 * 128) + threadIdx.x % 128;
#pragma unroll
        for (int i = 0; i < 8; i++) {
            const int *s = sum + 16 * i;
            to[i * 128] = make_uint4(reduce(s, m, magic), reduce(s + 4, m, magic), reduce(s + 8, m, magic), reduce(s + 12, m, magic));
        }
    }
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

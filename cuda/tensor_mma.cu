/* tensor_mma.cu — the tiers of tensor_gemm.cuh on mma.sync, for sm_80 (A100), where there is no wgmma: persistent, tile 128×128, 256 threads.
 *
 * The pieces are those that split.cu writes: their swizzle also suits ldmatrix. A stage is 32 k of both operands' pieces. All threads copy with
 * cp.async, STAGES - 1 steps ahead and across tiles, with one barrier per step. A warp computes 64 columns by 32 rows of C, with columns as mma's
 * rows, so that a thread holds pairs of neighbours of C. During a step registers hold all of the warp's pieces of A, and those of B for 16 columns at
 * a time.
 *
 * Sums are made as in tensor_gemm.cuh, in the same order: `main` over MAIN k from zero, then added to `master`, which rounds to nearest; `corr`, all
 * other products, stays in the tensor cores for GROUP steps; then both go to the total in shared memory. Hopper's tensor cores add 16 products at a
 * time, truncated to 25 bits, with mma.sync as with wgmma: MAIN is 32, and the result the same to the bit. Those of A100 and Ada add 8, truncated to
 * 24 bits (MMA-Sim, see docs/precision.md): MAIN is 16 there, which makes as many truncations and FP16's error the same, where 32 would double it.
 * TF32 can do without.
 *
 * C goes through the memory of the total, a warp's own 8 KB, by whole columns of its 32 rows. 178 to 255 registers, no spills; shared memory 160 KB
 * (TF32 128): 3 (FP16), 2 (BF16) or 4 (TF32) stages, and the total. A step of FP16 on an A100: products 1536 clocks of the tensor cores, their
 * additions 512 of the FP32 units, operands 1024 of shared memory. All that is arithmetic: nothing has been measured on an A100. */
#include "tensor.cuh"

#if __CUDA_ARCH__ >= 800
/* Loads four 8×8 matrices of 16-bit elements; each lane gives the address of one row. */
__device__ inline void load_matrices(unsigned (&to)[4], unsigned from)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(from));
}

/* d (16×8) += x (16×16) y (16×8). */
template <bool HALF> __device__ inline void mma(float *d, const unsigned (&x)[4], unsigned y0, unsigned y1)
{
#define GG_MMA(type)                                                                                                                                 \
    asm("mma.sync.aligned.m16n8k16.row.col.f32." type "." type ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                \
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                                                                             \
        : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y0), "r"(y1))
    if constexpr (HALF)
        GG_MMA("f16");
    else
        GG_MMA("bf16");
#undef GG_MMA
}

template <typename PRODUCTS, int STAGES> struct tensor_mma {
    static constexpr int TILE = GG_TENSOR_TILE, STEP = GG_TENSOR_STEP, THREADS = 256, PIECES = PRODUCTS::PIECES, CORR = PRODUCTS::CORR;
    static constexpr int GROUP = 16, LEAST = 3; /* steps between two additions to the total; fewer than LEAST left over are not a group of their
                                                 * own */
    static constexpr int MAIN = __CUDA_ARCH__ >= 900 || CORR == 0 ? 32 : 16, PARTS = STEP / MAIN;
    static constexpr int PIECE_BYTES = TILE * STEP * 2, PANEL_BYTES = PIECES * PIECE_BYTES, STAGE_BYTES = 2 * PANEL_BYTES;
    static constexpr int COLUMNS = 64, ROWS = 32, WARP_BYTES = COLUMNS * ROWS * 4; /* a warp's part of a tile */
    static constexpr int SUMS = COLUMNS * ROWS / 32, LINE = SUMS / 4;              /* per thread; and of those, for 16 columns */
    static constexpr int SHARED = STAGES * STAGE_BYTES + TILE * TILE * 4;
    static constexpr int AHEAD = STAGES - 1;                                 /* steps that are copied ahead */
    static_assert(AHEAD > 0 && AHEAD * STEP < 128, "no product is shorter"); /* a tile has more steps than are copied ahead (GG_TENSOR_LEAST_K) */
    static_assert(TILE / COLUMNS * (TILE / ROWS) == THREADS / 32, "the warps' parts are the tile");

    static __device__ int tiles(int64_t extent) { return int(gg_ceil_div(extent, TILE)); }
    static __device__ int all_tiles(const gg_args &p) { return tiles(p.m) * tiles(p.n); }
    static __device__ int steps(const gg_args &p) { return int((p.k + STEP - 1) / STEP); }

    /* Makes x opaque: what depends on it is computed only where it is needed, because the main loop has no registers for it. */
    static __device__ int opaque(int x)
    {
        asm volatile("" : "+r"(x));
        return x;
    }
    static __device__ int opaque_thread() { return opaque(threadIdx.x); }

    struct item {
        int m, n; /* in tiles */
    };

    /* Places tiles down the columns of a band of 8 tile rows, so that blocks that run together share panels in L2. */
    static __device__ item place(const gg_args &p, int index)
    {
        constexpr int BAND = 8;
        const int tiles_m = tiles(p.m), tiles_n = tiles(p.n);
        const int band = index / (BAND * tiles_n), in_band = index % (BAND * tiles_n), rows = min(BAND, tiles_m - band * BAND);
        return {band * BAND + in_band % rows, in_band / rows};
    }

    static __device__ int first_column(int warp) { return warp / (TILE / ROWS) * COLUMNS; }
    static __device__ int first_row(int warp) { return warp % (TILE / ROWS) * ROWS; }
    static __device__ unsigned warp_memory(unsigned shared, int warp) { return shared + STAGES * STAGE_BYTES + warp * WARP_BYTES; }

    /* What is copied next: the steps of the block's tiles, one after the other. It counts neither steps nor tiles, because registers are few; run()
     * does. */
    struct copier {
        static constexpr unsigned NONE = ~0u;
        unsigned a = NONE, b; /* offset of this thread's first 16 bytes of the step in each operand's pieces, in units of 16 bytes; NONE: nothing
                               * left */
        unsigned stage = 0;   /* the stage to copy to; after next() the stage to be read */

        __device__ void begin(const gg_args &p, int index)
        {
            a = NONE;
            if (index >= all_tiles(p))
                return;
            const item t = place(p, index);
            const unsigned panels = unsigned(gg_ceil_div(p.k, 64)) * (64 / STEP) * (PANEL_BYTES / 16);
            a = t.m * panels + opaque_thread();
            b = t.n * panels + opaque_thread();
        }

        /* Starts the copies of a step as one group; the group is empty when nothing is left. */
        __device__ void next(const gg_args &p, unsigned shared)
        {
            if (a != NONE) {
                const unsigned to = shared + stage * STAGE_BYTES + opaque_thread() * 16;
                const char *const from_a = static_cast<const char *>(p.pieces_a) + int64_t(a) * 16;
                const char *const from_b = static_cast<const char *>(p.pieces_b) + int64_t(b) * 16;
#pragma unroll
                for (int at = 0; at < PANEL_BYTES; at += THREADS * 16) {
                    gg_copy<16>(to + at, from_a + at);
                    gg_copy<16>(to + PANEL_BYTES + at, from_b + at);
                }
                a += PANEL_BYTES / 16, b += PANEL_BYTES / 16;
            }
            asm volatile("cp.async.commit_group;" ::: "memory");
            stage = stage == STAGES - 1 ? 0 : stage + 1;
        }
    };

    /* Multiplies one step. stage: the address of its pieces. */
    static __device__ void multiply(unsigned stage, float (&master)[SUMS], float (&corr)[SUMS])
    {
        const int thread = opaque_thread(), warp = thread / 32, lane = thread % 32;
        const int x_at = PANEL_BYTES + gg_swizzled(first_column(warp) + lane % 16, lane / 16),
                  y_at = gg_swizzled(first_row(warp) + lane % 8, lane / 8);
        unsigned y[PIECES][ROWS / 8][4]; /* 8 rows, 32 k */
#pragma unroll
        for (int piece = 0; piece < PIECES; piece++)
#pragma unroll
            for (int q = 0; q < ROWS / 8; q++)
                load_matrices(y[piece][q], stage + y_at + piece * PIECE_BYTES + q * (8 * STEP * 2));
#pragma unroll
        for (int line = 0; line < COLUMNS / 16; line++) {
            unsigned x[PIECES][2][4]; /* 16 columns, twice 16 k */
#pragma unroll
            for (int piece = 0; piece < PIECES; piece++)
#pragma unroll
                for (int k = 0; k < 2; k++)
                    load_matrices(x[piece][k], stage + (x_at ^ k * 32) + piece * PIECE_BYTES + line * (16 * STEP * 2));
#pragma unroll
            for (int part = 0; part < PARTS; part++) { /* corr's products are in flight while main's are added up */
                float main[LINE] = {};
#pragma unroll
                for (int k = part * 2 / PARTS; k < (part + 1) * 2 / PARTS; k++)
#pragma unroll
                    for (int q = 0; q < ROWS / 8; q++)
                        mma<PRODUCTS::HALF>(&main[q * 4], x[0][k], y[0][q][2 * k], y[0][q][2 * k + 1]);
#pragma unroll
                for (int i = part * CORR / PARTS; i < (part + 1) * CORR / PARTS; i++)
#pragma unroll
                    for (int k = 0; k < 2; k++)
#pragma unroll
                        for (int q = 0; q < ROWS / 8; q++) {
                            const unsigned(&of_y)[4] = y[PRODUCTS::a(i)][q];
                            mma<PRODUCTS::HALF>(&corr[line * LINE + q * 4], x[PRODUCTS::b(i)][k], of_y[2 * k], of_y[2 * k + 1]);
                        }
#pragma unroll
                for (int i = 0; i < LINE; i++)
                    master[line * LINE + i] += main[i];
            }
        }
    }

    /* Adds a thread's part of the total, 16-byte units 512 bytes apart. */
    static __device__ void add_total(float (&sum)[SUMS], unsigned at)
    {
#pragma unroll
        for (int i = 0; i < SUMS; i += 4) {
            float v[4];
            asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3]) : "r"(at + i * 128));
#pragma unroll
            for (int e = 0; e < 4; e++)
                sum[i + e] += v[e];
        }
    }

    static __device__ void keep_total(const float (&sum)[SUMS], unsigned at)
    {
#pragma unroll
        for (int i = 0; i < SUMS; i += 4)
            asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(at + i * 128), "f"(sum[i]), "f"(sum[i + 1]), "f"(sum[i + 2]),
                         "f"(sum[i + 3])
                         : "memory");
    }

    /* Stores by way of the warp's part of the total: columns of 128 bytes. Four columns' rows are interchanged such that neither writing nor reading
     * has bank conflicts. */
    static __device__ void store(const gg_args &p, unsigned shared, const item &t, const float (&sum)[SUMS])
    {
        const int thread = opaque_thread(), warp = thread / 32, lane = thread % 32;
        const int64_t i0 = int64_t(t.m) * TILE + first_row(warp), j0 = int64_t(t.n) * TILE + first_column(warp);
        unsigned memory = warp_memory(shared, warp);
        const gg_factors by(p);
        const bool inside = i0 + lane < p.m;
        const int columns = int(max(int64_t(0), min(int64_t(COLUMNS), p.n - j0)));
        const float of_row = inside ? p.scale_a[i0 + lane] : 0;
        __syncwarp(); /* the total has been read */
#pragma unroll
        for (int line = 0; line < COLUMNS / 16; line++)
#pragma unroll
            for (int q = 0; q < ROWS / 8; q++)
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    const int column = line * 16 + h * 8 + lane / 4, row = (8 * q) ^ (column % 4 * 8), i = line * LINE + q * 4 + h * 2;
                    asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(memory + (column * ROWS + row + lane % 4 * 2) * 4), "f"(sum[i]),
                                 "f"(sum[i + 1])
                                 : "memory");
                }
        __syncwarp();
        float *c = static_cast<float *>(p.c) + i0 + lane + j0 * by.ldc;
#pragma unroll 1
        for (int column = 0; column < columns; column += 16, memory += 16 * ROWS * 4, c += 16 * by.ldc) {
            const float of_column = lane % 16 < columns - column ? p.scale_b[j0 + column + lane % 16] : 0;
            float v[4][4], scale[4][4];
#pragma unroll
            for (int e = 0; e < 4; e++)
#pragma unroll
                for (int r = 0; r < 4; r++) {
                    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(v[e][r]) : "r"(memory + ((e * 4 + r) * ROWS + (lane ^ r * 8)) * 4) : "memory");
                    scale[e][r] = __shfl_sync(~0u, of_column, e * 4 + r) * of_row;
                }
            gg_put(
                by, v, [&](int e, int r) { return inside && column + e * 4 + r < columns; }, [&](int e, int r) { return scale[e][r]; },
                [&](int e, int r) { return c + (e * 4 + r) * by.ldc; });
        }
        __syncwarp(); /* before the total is written */
    }

    static __device__ void run(const gg_args &p)
    {
        extern __shared__ __align__(128) char shared_memory[];
        const unsigned shared = gg_shared(shared_memory);
        copier ahead;
        ahead.begin(p, blockIdx.x);
        for (int i = 0; i < AHEAD; i++)
            ahead.next(p, shared);
        for (int index = blockIdx.x; index < all_tiles(p); index += gridDim.x) {
            float master[SUMS] = {}, corr[SUMS] = {};
            for (int left = steps(p); left > 0;) {
                asm volatile("cp.async.wait_group %0;" ::"n"(AHEAD - 1) : "memory");
                __syncthreads(); /* the step's copies have arrived, and the stage that is copied to next has been read */
                ahead.next(p, shared);
                multiply(shared + ahead.stage * STAGE_BYTES, master, corr);
                if (--left == AHEAD)
                    ahead.begin(p, index + gridDim.x);
                const int done = (opaque(int(p.k)) - 1) / STEP + 1 - left;
                if (CORR == 0 || (left > 0 && (done % GROUP > 0 || left < LEAST)))
                    continue;
                const int thread = opaque_thread();
                const unsigned total = warp_memory(shared, thread / 32) + thread % 32 * 16;
#pragma unroll
                for (int i = 0; i < SUMS; i++)
                    master[i] += corr[i];
                if (done >= GROUP + LEAST) /* there is one */
                    add_total(master, total);
                if (left > 0) {
                    keep_total(master, total);
#pragma unroll
                    for (int i = 0; i < SUMS; i++)
                        master[i] = corr[i] = 0;
                }
            }
            const item t = place(p, index);
            store(p, shared, t, master);
        }
    }
};

using tf32 = tensor_mma<gg_tf32_products, 4>;
using fp16 = tensor_mma<gg_fp16_products, 3>;
using bf16 = tensor_mma<gg_bf16_products, 2>;
static_assert(tf32::SHARED == gg_shared_tensor_mma_tf32 && fp16::SHARED == gg_shared_tensor_mma_fp16, "kernels.def");
static_assert(bf16::SHARED == gg_shared_tensor_mma_bf16, "kernels.def");

template <typename kernel> __device__ inline void run(const gg_args &p)
{
    if (kernel::PIECES == 3 && gg_passed_over(p))
        return;
    if (gg_gated<true>(p))
        return;
    if (kernel::PIECES == 3 && blockIdx.x + threadIdx.x == 0)
        atomicOr(p.verdict, GG_WAS_BF16);
    kernel::run(p);
}

extern "C" {
__global__ void __launch_bounds__(256, 1) tensor_mma_tf32(const __grid_constant__ gg_args p) { run<tf32>(p); }
__global__ void __launch_bounds__(256, 1) tensor_mma_fp16(const __grid_constant__ gg_args p) { run<fp16>(p); }
__global__ void __launch_bounds__(256, 1) tensor_mma_bf16(const __grid_constant__ gg_args p) { run<bf16>(p); }
}
#endif

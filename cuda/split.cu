/* split — the operands of a tensor tier (src/tensor.h): splits each FP32 element into FP16 or BF16 pieces, and certifies that they are accurate
 * enough.
 *
 * One pass over op(A) (m×k) and op(B) (n×k), whatever their layout, pitch and alignment; "row" is a row of either. A block takes 128 rows and
 * p.splits chunks of 64 k. A thread takes 8 consecutive k of a row at a time; 4 threads of a warp share a row and 8 rows lie side by side, so that
 * loads and stores are whole sectors in both layouts. Rows of contiguous k that are not aligned are loaded by the whole warp, one after the other,
 * and redistributed ("dealt") through shared memory. The output is the exact image of shared memory that tensor_gemm.cuh and tensor_mma.cu need: [128
 * rows][step of 32 k][piece][row][k of the step], 16-byte units swizzled as wgmma reads them, zeros beyond k.
 *
 * FP16 (gg_split_fp16; gg_split_tf32 writes hi only). A row is scaled by a power of two such that the largest of its first 32 elements lies
 *   in [2^12, 2^13). x = hi + lo, to 2^-23 |x| where |x| >= 1/2, else to 2^-25 (scaled). Certified when every row is all zeros or
 *     - no element exceeds 60000 (scaled): nothing overflows, no Inf, no NaN;
 *     - of every 64 consecutive k at least 40 elements are at least 2^7 (scaled). Two rows then have 16 such places in common in every chunk:
 *       their products dwarf what small elements lose, and no dot product has so few terms that FFMA would be better;
 *     - the scale is within 2^±45, so that no sum can overflow or become subnormal.
 * BF16 (gg_split_bf16). x = a0 + a1 + a2 exactly. Certified when every element is 0 or within 2^-58..2^49, and at least 40 of 64 are not 0.
 * gg_certify checks both and writes no pieces. docs/precision.md says what follows from the certificates.
 *
 * A verdict ends the pass early, within a chunk of where it is found: operands of wide range cost a tier no more than its first blocks. The FP16 pass
 * also rules out BF16 where it meets elements that are too large or too small for that, so a NaN at the very end does not cost two passes.
 *
 * At n = 1024 the split is a quarter of the call, and what takes time is instructions, each fetched for the first time. Hence loads without bounds
 * checks where nothing is beyond the matrix, sizes compared as integers, and no division (10.1 -> 8.5 us by ncu at 1024, 22.4 -> 20.7 at 2048).
 * Registers <= 80, 34 KB of shared memory, 3 blocks an SM. */
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "tensor.cuh"

#if __CUDA_ARCH__ >= 800
constexpr int THREADS = 256, ROWS = GG_TENSOR_TILE, CHUNK = 64, ENOUGH = 40, PIECE_BYTES = ROWS * GG_TENSOR_STEP * 2;

/* A warp's rows of a chunk in shared memory, for redistribution. With this pitch 8 rows begin 4 banks apart. */
constexpr int OF_WARP = 16, PITCH = CHUNK + 4, DEALT = THREADS / 32 * OF_WARP * PITCH;

/* A block's share of the work, and a thread's: two rows, 8 apart, 8 elements in both halves of each chunk. Rows beyond the matrix repeat its last
 * one: nothing of C depends on them. */
struct share {
    const gg_args &p;
    const float *x[2]; /* the thread's first elements of its two rows */
    char *to;          /* destination of the pieces of the chunk's first half, first row */
    int64_t ld;
    int k, chunk, end; /* of 64 k */
    int rows;          /* of the block */
    bool inside[2], is_a, kmajor, contiguous;

    __device__ share(const gg_args &p, int pieces) : p(p), k(int(p.k))
    {
        const int chunks = (k + CHUNK - 1) / CHUNK, of_a = int(gg_ceil_div(p.m, ROWS));
        is_a = block_row() < of_a;
        kmajor = is_a ? p.a_kmajor : p.b_kmajor;
        const int block = is_a ? block_row() : block_row() - of_a;
        chunk = blockIdx.x * p.splits;
        end = min(chunks, chunk + p.splits);
        ld = is_a ? p.lda : p.ldb;
        contiguous = kmajor && (is_a ? p.a_vec : p.b_vec);
        const float *const from = static_cast<const float *>(is_a ? p.a : p.b) + int64_t(block) * ROWS * (kmajor ? ld : 1);
        rows = int(min(int64_t(ROWS), (is_a ? p.m : p.n) - int64_t(block) * ROWS));
        for (int h = 0; h < 2; h++) {
            const int row = in_block() + 8 * h;
            inside[h] = row < rows;
            x[h] = from + min(row, rows - 1) * (kmajor ? ld : 1) + lane_k() * k_step();
        }
        to = static_cast<char *>(is_a ? p.pieces_a : p.pieces_b) + (int64_t(block) * chunks + chunk) * (2 * pieces * PIECE_BYTES) +
             gg_swizzled(in_block(), lane_k() / 8);
    }

    /* Which block of 128 rows, those of A first. Some in the last plane of the grid may be beyond the last row. */
    static __device__ int block_row() { return blockIdx.z * gridDim.y + blockIdx.y; }
    static __device__ bool is_beyond(const gg_args &p) { return block_row() >= int(gg_ceil_div(p.m, ROWS) + gg_ceil_div(p.n, ROWS)); }

    __device__ int64_t k_step() const { return kmajor ? 1 : ld; }
    __device__ bool is_dealt() const { return kmajor && !contiguous; }
    static __device__ int of_warp() { return threadIdx.x / 32 * OF_WARP; } /* its first row in the block */
    static __device__ int in_block() { return of_warp() + threadIdx.x % 8; }

    /* Where the scale of this thread's row h goes. */
    __device__ float *scale(int h) const
    {
        const int block = is_a ? block_row() : block_row() - int(gg_ceil_div(p.m, ROWS));
        return (is_a ? p.scale_a : p.scale_b) + int64_t(block) * ROWS + in_block() + 8 * h;
    }

    static __device__ int lane_k() { return threadIdx.x % 32 / 8 * 8; }

    /* Keeps ptxas from computing multiples of the step ahead of the loop over chunks, where there are no registers for them. */
    static __device__ int64_t opaque(int64_t step)
    {
        asm volatile("" : "+l"(step));
        return step;
    }

    /* Loads 8 elements of a row, from k0 plus the thread's offset on; all exist. */
    __device__ void load(float (&v)[8], int h, int k0) const
    {
        const float *from = x[h] + k0 * k_step();
        if (contiguous) {
            const float4 a = reinterpret_cast<const float4 *>(from)[0], b = reinterpret_cast<const float4 *>(from)[1];
            v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w, v[4] = b.x, v[5] = b.y, v[6] = b.z, v[7] = b.w;
            return;
        }
        const int64_t step = opaque(k_step());
#pragma unroll
        for (int i = 0; i < 8; i++, from += step)
            v[i] = *from;
    }

    /* Loads the warp's lines together, consecutive lanes consecutive elements. ALL: no row is beyond the matrix. LAST: the chunk may be the last one:
     * zeros beyond k. */
    template <bool ALL, bool LAST> __device__ void load_lines(float (&v)[2][2][8]) const
    {
        float *const all = &v[0][0][0];
        const int first = min(of_warp(), rows - 1), lines = rows - of_warp();
        const float *from = x[0] + (first - min(in_block(), rows - 1)) * ld + int(threadIdx.x % 32) - lane_k() + chunk * CHUNK;
        const int left = k - chunk * CHUNK - threadIdx.x % 32;
        const int64_t step = opaque(ld);
#pragma unroll
        for (int row = 0; row < OF_WARP; row++, from += ALL || row < lines ? step : 0)
#pragma unroll
            for (int g = 0; g < 2; g++)
                all[row * 2 + g] = !LAST || g * 32 < left ? from[g * 32] : 0;
    }

    __device__ void load_last(float (&v)[2][2][8]) const
    {
#pragma unroll
        for (int h = 0; h < 2; h++)
#pragma unroll
            for (int g = 0; g < 2; g++) {
                const float *from = x[h] + (chunk * CHUNK + g * 32) * k_step();
                const int left = k - chunk * CHUNK - g * 32 - lane_k();
                const int64_t step = opaque(k_step());
#pragma unroll
                for (int i = 0; i < 8; i++, from += step)
                    v[h][g][i] = i < left ? *from : 0;
            }
    }

    __device__ void load(float (&v)[2][2][8]) const
    {
        const bool last = (chunk + 1) * CHUNK > k;
        if (is_dealt() && last)
            load_lines<false, true>(v);
        else if (is_dealt() && rows - of_warp() < OF_WARP)
            load_lines<false, false>(v);
        else if (is_dealt())
            load_lines<true, false>(v);
        else if (last)
            load_last(v);
        else {
#pragma unroll
            for (int h = 0; h < 2; h++)
#pragma unroll
                for (int g = 0; g < 2; g++)
                    load(v[h][g], h, chunk * CHUNK + g * (CHUNK / 2));
        }
    }

    /* Redistributes v if it was loaded by lines; to be called between load and the use of v. memory: DEALT floats of the block's shared memory. */
    __device__ void deal(float (&v)[2][2][8], float *memory) const
    {
        if (!is_dealt())
            return;
        float *const dealt = memory + of_warp() * PITCH;
        const int lane = threadIdx.x % 32;
        const float *const all = &v[0][0][0];
        __syncwarp();
#pragma unroll
        for (int i = 0; i < 2 * OF_WARP; i++)
            dealt[i / 2 * PITCH + i % 2 * 32 + lane] = all[i];
        __syncwarp();
#pragma unroll
        for (int h = 0; h < 2; h++)
#pragma unroll
            for (int g = 0; g < 2; g++)
#pragma unroll
                for (int i = 0; i < 8; i += 4) {
                    const float4 x = *reinterpret_cast<const float4 *>(dealt + (lane % 8 + 8 * h) * PITCH + g * 32 + lane / 8 * 8 + i);
                    v[h][g][i] = x.x, v[h][g][i + 1] = x.y, v[h][g][i + 2] = x.z, v[h][g][i + 3] = x.w;
                }
    }

    /* Are too few elements of the row's chunk large enough? `count` is how many this thread saw. */
    __device__ bool thin(int count, int h) const;
};

/* An element's bits without the sign, times two: ordered by magnitude, Inf and NaN last. */
__device__ inline unsigned size_of(float x) { return __float_as_uint(x) << 1; }

/* The largest and the smallest nonzero magnitude of some elements. */
struct range {
    unsigned most = 0, least = ~0u; /* the smallest minus one, so that 0 does not count */

    __device__ void add(unsigned size)
    {
        most = max(most, size);
        least = min(least, size - 1);
    }

    /* Is there an element that BF16's pieces cannot represent: too large, too small, Inf or NaN? */
    __device__ bool beyond_bf16() const { return most >= (127u + 49) << 24 || least < ((127u - 58) << 24) - 1; }
};

/* Combines x over the 4 threads that share a row. */
template <typename F> __device__ inline auto over_row(F f, decltype(f(0, 0)) x)
{
    x = f(x, __shfl_xor_sync(~0u, x, 8));
    return f(x, __shfl_xor_sync(~0u, x, 16));
}

template <int PIECES_> struct fp16_tier {
    static constexpr int PIECES = PIECES_;
    static constexpr unsigned NOT = GG_NOT_FP16;
    static constexpr bool KEEPS = false; /* it never splits anew */
    float scale[2];                      /* of this thread's two rows */
    unsigned most[2];                    /* size_of the largest allowed element; 0 if the row's first elements are 0, as then all must be */
    bool bad = false, bad_next = false;  /* ruled out: this tier; BF16 */

    __device__ void look(const share &s)
    {
#pragma unroll
        for (int h = 0; h < 2; h++) {
            float v[8], largest = 0;
            s.load(v, h, 0);
            for (int i = 0; i < 8; i++)
                largest = fmaxf(largest, fabsf(v[i]));
            largest = over_row([](float x, float y) { return fmaxf(x, y); }, largest);
            const int exponent = int(__float_as_uint(largest) >> 23) - 127;
            const bool out = exponent < -45 || exponent > 45;
            const float back = out ? 1 : __uint_as_float((127 - 12 + exponent) << 23);
            bad |= out && largest != 0;
            scale[h] = out ? 1 : __uint_as_float((127 + 12 - exponent) << 23);
            most[h] = largest == 0 ? 0 : size_of(60000.f * back);
        }
    }

    /* The factor of a row's pieces. */
    __device__ float back(int h) const { return 1 / scale[h]; }

    /* Splits 8 elements into pieces; returns how many are large enough to count. */
    __device__ int split(const float (&v)[8], int h, uint4 (&out)[PIECES])
    {
        __half2 *hi = reinterpret_cast<__half2 *>(&out[0]), *lo = reinterpret_cast<__half2 *>(&out[PIECES - 1]);
        const unsigned enough = most[h] ? (most[h] & 255u << 24) - (8u << 24) : 0; /* 128 is 8 powers of two below 60000 */
        int large = 0;
        range sizes;
#pragma unroll
        for (int i = 0; i < 8; i += 2) {
            const float y0 = v[i] * scale[h], y1 = v[i + 1] * scale[h];
            hi[i / 2] = __floats2half2_rn(y0, y1);
            if constexpr (PIECES == 2) {
                const float2 back = __half22float2(hi[i / 2]);
                lo[i / 2] = __floats2half2_rn(y0 - back.x, y1 - back.y);
            }
#pragma unroll
            for (int e = 0; e < 2; e++) {
                const unsigned size = size_of(v[i + e]);
                sizes.add(size);
                large += size >= enough;
            }
        }
        bad |= sizes.most > most[h];
        bad_next |= sizes.beyond_bf16();
        return large;
    }
};

struct bf16_tier {
    static constexpr int PIECES = 3;
    static constexpr unsigned NOT = GG_NOT_BF16;
    static constexpr bool KEEPS = true;
    bool bad = false, bad_next = false;

    __device__ void look(const share &) {}
    __device__ float back(int) const { return 1; }

    __device__ int split(const float (&v)[8], int, uint4 (&out)[PIECES])
    {
        __nv_bfloat162 *a0 = reinterpret_cast<__nv_bfloat162 *>(&out[0]);
        __nv_bfloat162 *a1 = reinterpret_cast<__nv_bfloat162 *>(&out[1]), *a2 = reinterpret_cast<__nv_bfloat162 *>(&out[2]);
        int nonzero = 0;
        range sizes;
#pragma unroll
        for (int i = 0; i < 8; i += 2) {
            float2 x = make_float2(v[i], v[i + 1]);
            a0[i / 2] = __float22bfloat162_rn(x);
            float2 back = __bfloat1622float2(a0[i / 2]);
            x.x -= back.x, x.y -= back.y;
            a1[i / 2] = __float22bfloat162_rn(x);
            back = __bfloat1622float2(a1[i / 2]);
            x.x -= back.x, x.y -= back.y;
            a2[i / 2] = __float22bfloat162_rn(x);
#pragma unroll
            for (int e = 0; e < 2; e++) {
                const unsigned size = size_of(v[i + e]);
                sizes.add(size);
                nonzero += size != 0;
            }
        }
        bad |= sizes.beyond_bf16();
        return nonzero;
    }
};

__device__ inline bool share::thin(int count, int h) const
{
    count = over_row([](int x, int y) { return x + y; }, count);
    return count < ENOUGH && inside[h] && (chunk + 1) * CHUNK <= k;
}

/* Splits a block's share, checking its gate again and again: the verdict is read together with the operands. Only the first warp of a block to find
 * something reports it, because if all did at once they would queue for that one word. */
template <typename TIER> __device__ void split(const gg_args &p)
{
    __shared__ unsigned said;
    __shared__ __align__(16) float dealt[DEALT];
    if (TIER::KEEPS && gg_passed_over(p))
        return;
    if (threadIdx.x == 0)
        said = 0;
    share s(p, TIER::PIECES);
    __syncthreads();
    if (gg_gate(p))
        return;
    gg_clear_next(p);
    if (share::is_beyond(p))
        return;
    const unsigned before = gg_verdict(p);
    if (TIER::KEEPS && (s.is_a ? p.keeps_a : p.keeps_b) && before & GG_WAS_BF16)
        return;
    float v[2][2][8];
    s.load(v);
    TIER tier;
    tier.look(s);
    if ((before & p.gate_mask) != p.gate_value)
        return;
    if (s.chunk == 0 && s.lane_k() == 0)
        for (int h = 0; h < 2; h++)
            if (s.inside[h])
                *s.scale(h) = tier.back(h);
    for (;;) {
        s.deal(v, dealt);
#pragma unroll
        for (int h = 0; h < 2; h++) {
            uint4 pieces[2][TIER::PIECES];
            const int count = tier.split(v[h][0], h, pieces[0]) + tier.split(v[h][1], h, pieces[1]);
            tier.bad |= s.thin(count, h);
            const unsigned found = __reduce_or_sync(~0u, (tier.bad ? TIER::NOT : 0) | (tier.bad_next ? unsigned(GG_NOT_BF16) : 0));
            if (found && threadIdx.x % 32 == 0 && (atomicOr(&said, found) & found) != found)
                atomicOr(p.verdict, found);
            if (found & TIER::NOT)
                return;
            tier.bad_next = false;
#pragma unroll
            for (int g = 0; g < 2; g++)
#pragma unroll
                for (int i = 0; i < TIER::PIECES; i++)
                    *reinterpret_cast<uint4 *>(s.to + (g * TIER::PIECES + i) * PIECE_BYTES + h * gg_swizzled(8, 0)) = pieces[g][i];
        }
        if (++s.chunk == s.end)
            return;
        const unsigned verdict = gg_verdict(p);
        s.to += 2 * TIER::PIECES * PIECE_BYTES;
        s.load(v);
        if (verdict & TIER::NOT)
            return;
    }
}

__device__ inline void certify(const gg_args &p)
{
    if (gg_gated(p))
        return;
    gg_clear_next(p);
    if (share::is_beyond(p) || gg_verdict(p) == (GG_NOT_FP16 | GG_NOT_BF16))
        return;
    __shared__ __align__(16) float dealt[DEALT];
    share s(p, 0);
    fp16_tier<1> half;
    bf16_tier brain;
    bool thin[2] = {};
    half.look(s);
    for (; s.chunk < s.end; s.chunk++) {
        float v[2][2][8];
        s.load(v);
        s.deal(v, dealt);
#pragma unroll
        for (int h = 0; h < 2; h++) {
            uint4 unused[3], unused_too[1];
            thin[0] |= s.thin(half.split(v[h][0], h, unused_too) + half.split(v[h][1], h, unused_too), h);
            thin[1] |= s.thin(brain.split(v[h][0], h, unused) + brain.split(v[h][1], h, unused), h);
        }
    }
    const unsigned verdict = (thin[0] || half.bad ? GG_NOT_FP16 : 0) | (thin[1] || brain.bad ? GG_NOT_BF16 : 0);
    if (verdict)
        atomicOr(p.verdict, verdict);
}

extern "C" {
__global__ void __launch_bounds__(THREADS, 3) gg_split_tf32(const __grid_constant__ gg_args p) { split<fp16_tier<1>>(p); }
__global__ void __launch_bounds__(THREADS, 3) gg_split_fp16(const __grid_constant__ gg_args p) { split<fp16_tier<2>>(p); }
__global__ void __launch_bounds__(THREADS, 3) gg_split_bf16(const __grid_constant__ gg_args p) { split<bf16_tier>(p); }
__global__ void __launch_bounds__(THREADS, 3) gg_certify(const __grid_constant__ gg_args p) { certify(p); }
}
#endif

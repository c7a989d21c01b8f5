/* residue.cu — the passes around tensor_int8 (residue.cuh): gg_norms and gg_residues make planes of op(A) and op(B) and certify them; gg_restore puts
 * the products together and updates C.
 *
 * gg_norms reads every element once, gg_residues once more, and writes 15 bytes for it; gg_restore reads 15 bytes for an element of C and writes it.
 * At n = 4096 they take 78, 255 and 138 us on an H200, whose memory alone would need 56, 184 and 92, and 98, 290 and 150 on an H100 (90, 257, 129).
 * What they do beside that is arithmetic: about 70 instructions an element in gg_residues, most of them dp4a and multiplications, 130 in gg_restore.
 * Registers 58, 124, 76, no spills; 64 KB of shared memory for a block of gg_residues, of which an SM has two. */
#include "residue.cuh"
#include "vector.cuh"

#if __CUDA_ARCH__ >= 900
namespace
{
constexpr int THREADS = 256;

/* An operand, whose "rows" are the rows of op(A) or the columns of op(B), and a block of 128 of them. */
struct operand {
    const double *from; /* the block's first row */
    int64_t ld;
    bool kmajor;
    int rows; /* of this block */
    int k;
    bool is_a;
    int block;

    __device__ operand(const gg_args &p, int index) : k(int(p.k))
    {
        const int of_a = int(gg_ceil_div(p.m, GG_UNIT));
        is_a = index < of_a;
        block = is_a ? index : index - of_a;
        ld = is_a ? p.lda : p.ldb;
        kmajor = is_a ? p.a_kmajor : p.b_kmajor;
        from = static_cast<const double *>(is_a ? p.a : p.b) + int64_t(block) * GG_UNIT * (kmajor ? ld : 1);
        rows = int(min(int64_t(GG_UNIT), (is_a ? p.m : p.n) - int64_t(block) * GG_UNIT));
    }
};

/* What gg_norms leaves for gg_residues, in p.workspace: sums of squares of each row's p.splits shares of k; then, to be counted up, each row's large
 * elements, and each block's chunks that are done. */
struct notes {
    double *norms;
    unsigned *large, *done;

    __device__ notes(const gg_args &p, int index)
    {
        const int64_t blocks = gg_ceil_div(p.m, GG_UNIT) + gg_ceil_div(p.n, GG_UNIT);
        double *const all = static_cast<double *>(p.workspace);
        unsigned *const counts = reinterpret_cast<unsigned *>(all + blocks * p.splits * GG_UNIT);
        norms = all + int64_t(index) * p.splits * GG_UNIT;
        large = counts + int64_t(index) * GG_UNIT;
        done = counts + blocks * GG_UNIT + index;
    }
};

/* The sum of squares of a thread's elements; not 0 if any of them is not, though its square may be. */
struct square_sum {
    double sum[4] = {};
    unsigned any = 0;

    __device__ void add(int i, double x)
    {
        sum[i] = fma(x, x, sum[i]);
        any |= unsigned(__double2hiint(x)) << 1 | unsigned(__double2loint(x));
    }
    __device__ double all() const
    {
        const double s = (sum[0] + sum[1]) + (sum[2] + sum[3]);
        return s == 0 && any ? 0x1p-1074 : s;
    }
};

/* Is that square, of one of the first elements of a row, large beside the sum of the squares of all of them? */
__device__ inline bool stands_out(double square, double all) { return square >= all * (GG_INT8_LEAST * GG_INT8_LEAST / GG_INT8_FIRST); }

/* Looks at the first elements of the rows. Operands that cannot be certified mostly show it there, and then no block need go on. */
__device__ void look(const gg_args &p, const operand &x)
{
    bool bad = false;
    if (x.kmajor) {
        constexpr int EACH = GG_UNIT / (THREADS / 32);
        const int warp = threadIdx.x / 32;
        double square[EACH];
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            const double v = x.from[min(warp * EACH + i, x.rows - 1) * x.ld + threadIdx.x % 32];
            square[i] = v * v;
        }
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            double all = square[i];
            for (int other = 16; other > 0; other /= 2)
                all += __shfl_xor_sync(~0u, all, other);
            bad |= __popc(__ballot_sync(~0u, stands_out(square[i], all))) < GG_INT8_FEW;
        }
    } else {
        constexpr int EACH = GG_INT8_FIRST / (THREADS / GG_UNIT);
        __shared__ double sums[THREADS];
        __shared__ int counts[THREADS];
        const int row = threadIdx.x % GG_UNIT, part = threadIdx.x / GG_UNIT;
        const double *const from = x.from + min(row, x.rows - 1) + part * EACH * x.ld;
        double square[EACH], own = 0;
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            const double v = from[i * x.ld];
            square[i] = v * v;
            own += square[i];
        }
        sums[threadIdx.x] = own;
        __syncthreads();
        const double all = sums[row] + sums[row + GG_UNIT];
        int count = 0;
#pragma unroll
        for (int i = 0; i < EACH; i++)
            count += stands_out(square[i], all);
        counts[threadIdx.x] = count;
        __syncthreads();
        bad = counts[row] + counts[row + GG_UNIT] < GG_INT8_FEW;
    }
    if (__any_sync(~0u, bad) && threadIdx.x % 32 == 0)
        atomicOr(p.verdict, GG_NOT_INT8);
}

/* A block has one share of k. All leave as soon as the operands are known not to be certified. */
__device__ void norms(const gg_args &p)
{
    const operand x(p, blockIdx.y);
    const notes of(p, blockIdx.y);
    const int each = int(gg_ceil_div(gg_ceil_div(p.k, GG_UNIT), p.splits)) * GG_UNIT, k0 = min(int(blockIdx.x) * each, x.k), k1 = min(k0 + each, x.k);
    double *const to = of.norms + blockIdx.x * GG_UNIT;
    if (blockIdx.x == 0)
        look(p, x);
    if (blockIdx.x == 0 && threadIdx.x < GG_UNIT)
        of.large[threadIdx.x] = 0;
    if (blockIdx.x == 0 && threadIdx.x == 0)
        *of.done = 0;
    if (x.kmajor) {
        for (int row = threadIdx.x / 32; row < GG_UNIT; row += THREADS / 32) {
            const unsigned verdict = gg_verdict(p); /* on its way together with the elements */
            const double *const from = x.from + min(row, x.rows - 1) * x.ld;
            square_sum s;
#pragma unroll 2
            for (int k = k0 + threadIdx.x % 32; k < k1; k += 128)
#pragma unroll
                for (int i = 0; i < 4; i++)
                    s.add(i, k + 32 * i < k1 ? from[k + 32 * i] : 0);
            double all = s.all();
            for (int i = 16; i > 0; i /= 2)
                all += __shfl_xor_sync(~0u, all, i);
            if (threadIdx.x % 32 == 0)
                to[row] = all;
            if (verdict & GG_NOT_INT8)
                return;
        }
        return;
    }
    __shared__ double half[GG_UNIT];
    const int row = threadIdx.x % GG_UNIT, part = threadIdx.x / GG_UNIT;
    const double *from = x.from + min(row, x.rows - 1) + (k0 + part) * x.ld;
    square_sum s;
    unsigned verdict = 0;
    int k = k0 + part;
    for (; k + 14 < k1 && !(verdict & GG_NOT_INT8); k += 16, from += 16 * x.ld) {
        verdict = gg_verdict(p);
        double v[8];
#pragma unroll
        for (int i = 0; i < 8; i++)
            v[i] = from[2 * i * x.ld];
#pragma unroll
        for (int i = 0; i < 8; i++)
            s.add(i % 4, v[i]);
    }
    for (; k < k1 && !(verdict & GG_NOT_INT8); k += 2, from += 2 * x.ld)
        s.add(0, *from);
    const double all = s.all();
    if (part == 1)
        half[row] = all;
    __syncthreads();
    if (part == 0)
        to[row] = all + half[row];
}

/* Bytes 0 to 3, or 4 to 7, of the weights of the bytes of x, 256^j mod m. */
__device__ constexpr unsigned byte_weights(int i, int from)
{
    unsigned all = 0;
    for (int j = 0; j < 4; j++)
        all |= gg_power(256, from + j, gg_modulus(i)) << 8 * j;
    return all;
}

/* x + 128 modulo each number, from 0 on. hi has its sign bit flipped, which makes it 2^63 too much. The sum of weighted bytes is below 2^20, so that
 * its product with `magic` is the quotient exactly. */
template <int I = 0> __device__ inline void reduce(unsigned lo, unsigned hi, unsigned (&r)[GG_MODULI])
{
    if constexpr (I < GG_MODULI) {
        constexpr unsigned m = gg_modulus(I), magic = unsigned(((1ull << 32) + m - 1) / m), start = (m + 128 - gg_power(2, 63, m)) % m;
        if constexpr (m == 256) {
            r[I] = lo + 128; /* its last byte */
        } else {
            const unsigned y = __dp4a(lo, byte_weights(I, 0), __dp4a(hi, byte_weights(I, 4), start));
            r[I] = y - __umulhi(y, magic) * m;
        }
        reduce<I + 1>(lo, hi, r);
    }
}

/* What a row is scaled by, 2^exponent, and which of its elements count as large. */
struct scaling {
    int exponent = 0;
    double least = 0;
    bool bad; /* too large or too small as a whole, Inf or NaN */

    __device__ scaling(double squares, double k)
    {
        const bool out = !(squares >= 0x1p-400 && squares <= 0x1p400);
        bad = out && squares != 0;
        if (out)
            return;
        exponent = (118 - ((__double2hiint(squares) >> 20) - 1023)) / 2; /* the largest with squares 4^exponent <= GG_NORM_SQUARED */
        while (ldexp(squares, 2 * exponent) > GG_NORM_SQUARED)
            exponent--;
        least = sqrt(squares / k) * GG_INT8_LEAST;
    }
};

__device__ inline double power_of_two(int exponent) { return __hiloint2double((1023 + exponent) << 20, 0); }

/* A quarter of a block's rows in shared memory, with a chunk of 128 k, placed so that lanes of consecutive pieces of 16 k hit different banks: [32
 * rows][piece][8 pairs of k], pair i at i ^ piece, or, where rows are contiguous, [128 k][32 rows], row r of a piece's k at r ^ 2 piece. */
constexpr int QUARTER = GG_UNIT / 4, QUARTER_BYTES = QUARTER * GG_UNIT * 8;
static_assert(2 * QUARTER_BYTES == gg_shared_gg_residues, "kernels.def");

/* Copies EACH bytes from (row, k) to where they belong, zeros beyond k; rows beyond the last repeat it. */
template <bool KMAJOR, int EACH> __device__ inline void fetch(const operand &x, unsigned to, int row0, int row, int k0, int k)
{
    const double *const from = x.from + min(row0 + row, x.rows - 1) * (KMAJOR ? x.ld : 1) + (k0 + k) * (KMAJOR ? 1 : x.ld);
    const int piece = k / 16;
    to += KMAJOR ? row * (GG_UNIT * 8) + piece * 128 + (k % 16 / 2 ^ piece) * 16 + k % 2 * 8 : k * (QUARTER * 8) + (row ^ 2 * piece) * 8;
    gg_copy_or_zero<EACH>(to, k0 + k < x.k ? from : x.from, k0 + k < x.k);
}

template <bool KMAJOR> __device__ inline void fetch_quarter(const operand &x, bool vec, unsigned to, int row0, int k0)
{
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    asm volatile("" : "+r"(warp), "+r"(lane)); /* opaque, so that no addresses are kept in registers during the arithmetic */
    if (KMAJOR && vec && k0 + GG_UNIT <= x.k) {
#pragma unroll
        for (int i = 0; i < 8; i++)
            fetch<true, 16>(x, to, row0, warp * 4 + i / 2, k0, i % 2 * 64 + lane * 2);
    } else {
#pragma unroll
        for (int i = 0; i < 16; i++)
            if constexpr (KMAJOR)
                fetch<true, 8>(x, to, row0, warp * 4 + i / 4, k0, i % 4 * 32 + lane);
            else
                fetch<false, 8>(x, to, row0, lane, k0, i * 8 + warp);
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* A block has one chunk of 128 k of its rows. A thread takes 16 k of a row at a time, a 16-byte piece of each plane, and a warp 4 rows. Without
 * p.pieces_a it only certifies. */
template <bool KMAJOR> __device__ void residues(const gg_args &p)
{
    extern __shared__ __align__(128) char staged[];
    __shared__ int exponents[GG_UNIT];
    __shared__ double least[GG_UNIT];
    __shared__ bool last;
    const operand x(p, blockIdx.y);
    const notes of(p, blockIdx.y);
    const bool vec = x.is_a ? p.a_vec : p.b_vec;
    const int chunk = blockIdx.x, chunks = gridDim.x, k0 = chunk * GG_UNIT, piece = threadIdx.x % 8;
    for (int i = 0; i < 2; i++)
        fetch_quarter<KMAJOR>(x, vec, gg_shared(staged) + i * QUARTER_BYTES, i * QUARTER, k0);
    if (threadIdx.x < GG_UNIT) {
        double squares = 0;
        for (int share = 0; share < p.splits; share++)
            squares += of.norms[share * GG_UNIT + threadIdx.x];
        const scaling by(squares, double(x.k));
        exponents[threadIdx.x] = by.exponent;
        least[threadIdx.x] = by.least;
        if (chunk == 0 && int(threadIdx.x) < x.rows && p.pieces_a)
            (x.is_a ? p.scale_a : p.scale_b)[x.block * GG_UNIT + threadIdx.x] = float(by.exponent);
        if (by.bad)
            atomicOr(p.verdict, GG_NOT_INT8);
    }
    char *to = static_cast<char *>(x.is_a ? p.pieces_a : p.pieces_b) + (int64_t(x.block) * GG_MODULI * chunks + chunk) * GG_UNIT_BYTES;
    const int64_t plane = int64_t(chunks) * GG_UNIT_BYTES;
#pragma unroll 1
    for (int quarter = 0; quarter < 4; quarter++) {
        if (quarter < 3)
            asm volatile("cp.async.wait_group 1;" ::: "memory");
        else
            asm volatile("cp.async.wait_group 0;" ::: "memory");
        __syncthreads();
        const int in_quarter = threadIdx.x / 8, row = quarter * QUARTER + in_quarter;
        const unsigned memory = gg_shared(staged) + quarter % 2 * QUARTER_BYTES;
        const unsigned at = memory + (KMAJOR ? in_quarter * (GG_UNIT * 8) + piece * 128 : piece * 16 * (QUARTER * 8) + (in_quarter ^ 2 * piece) * 8);
        const double scale = power_of_two(exponents[row]), small = least[row];
        int large = 0;
        unsigned out[4][GG_MODULI];
#pragma unroll
        for (int word = 0; word < 4; word++) {
            double v[4];
#pragma unroll
            for (int i = 0; i < 4; i++)
                if constexpr (!KMAJOR)
                    asm volatile("ld.shared.f64 %0, [%1];" : "=d"(v[i]) : "r"(at + (word * 4 + i) * (QUARTER * 8)) : "memory");
                else if (i % 2 == 0)
                    asm volatile("ld.shared.v2.f64 {%0, %1}, [%2];"
                                 : "=d"(v[i]), "=d"(v[i + 1])
                                 : "r"(at + (word * 2 + i / 2 ^ piece) * 16)
                                 : "memory");
            unsigned r[4][GG_MODULI];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                large += fabs(v[i]) >= small; /* zeros beyond k are not, unless the whole row is 0 */
                const long long y = __double2ll_rn(v[i] * scale);
                reduce(unsigned(y), unsigned(y >> 32) ^ 0x80000000u, r[i]);
            }
#pragma unroll
            for (int m = 0; m < GG_MODULI; m++)
                out[word][m] = 0x80808080 ^ __byte_perm(__byte_perm(r[0][m], r[1][m], 0x0040), __byte_perm(r[2][m], r[3][m], 0x0040), 0x5410);
        }
        if (p.pieces_a)
#pragma unroll
            for (int m = 0; m < GG_MODULI; m++)
                *reinterpret_cast<uint4 *>(to + m * plane + row * GG_UNIT + (piece ^ row % 8) * 16) =
                    make_uint4(out[0][m], out[1][m], out[2][m], out[3][m]);
        for (int i = 1; i < 8; i *= 2)
            large += __shfl_xor_sync(~0u, large, i);
        if (piece == 0)
            atomicAdd(of.large + row, large);
        if (quarter < 2) {
            __syncthreads();
            fetch_quarter<KMAJOR>(x, vec, memory, (quarter + 2) * QUARTER, k0);
        }
    }
    /* The block that is done last with these rows knows how many of their elements are large. */
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0)
        last = atomicAdd(of.done, 1) == unsigned(chunks) - 1;
    __syncthreads();
    if (last && int(threadIdx.x) < x.rows && GG_INT8_OF * int64_t(__ldcg(of.large + threadIdx.x)) < GG_INT8_ENOUGH * int64_t(x.k))
        atomicOr(p.verdict, GG_NOT_INT8);
}

/* ---- the Chinese remainder theorem ---------------------------------------------------------------------------------------------------- */

/* Unsigned 128-bit numbers as 32-bit limbs, for tables. */
using wide = unsigned __int128;

__device__ constexpr wide product()
{
    wide all = 1;
    for (int i = 0; i < GG_MODULI; i++)
        all *= gg_modulus(i);
    return all;
}

constexpr int PAIRS = (GG_MODULI + 1) / 2;
__device__ constexpr unsigned of_pair(int i) { return gg_modulus(2 * i) * (2 * i + 1 < GG_MODULI ? gg_modulus(2 * i + 1) : 1); }

/* r0 u0 + r1 u1 is what has the residues r0 and r1 modulo the pair's two numbers; both factors, 16 bits each. */
__device__ constexpr unsigned pair_factors(int i)
{
    if (2 * i + 1 >= GG_MODULI)
        return 1;
    const unsigned m0 = gg_modulus(2 * i), m1 = gg_modulus(2 * i + 1);
    return m1 * gg_inverse(m1, m0) | m0 * gg_inverse(m0, m1) << 16;
}

/* What is 1 modulo that pair's product and 0 modulo the others', below product(). */
__device__ constexpr wide weight(int i)
{
    const wide others = product() / of_pair(i);
    const unsigned q = of_pair(i), rest = unsigned(others % q);
    /* the inverse of rest modulo q, by Euclid */
    long long a = rest, b = q, x = 1, y = 0;
    while (b) {
        const long long t = a / b, c = a - t * b, z = x - t * y;
        a = b, b = c, x = y, y = z;
    }
    return others * wide(unsigned(x < 0 ? x + q : x));
}

__device__ constexpr unsigned limb(wide x, int i) { return unsigned(x >> 32 * i); }

template <int I = 0> __device__ inline void add_pairs(const unsigned (&both)[PAIRS], bool high, unsigned long long (&sum)[4])
{
    if constexpr (I < PAIRS) {
        constexpr wide w = weight(I);
        const unsigned g = high ? __dp2a_hi(pair_factors(I), both[I], 0u) : __dp2a_lo(pair_factors(I), both[I], 0u);
#pragma unroll
        for (int l = 0; l < 4; l++)
            sum[l] += static_cast<unsigned long long>(g) * limb(w, l);
        add_pairs<I + 1>(both, high, sum);
    }
}

/* hi 2^32 + lo, exact where it has no more than 53 bits. */
__device__ inline double as_double(int hi, unsigned lo)
{
    const double upper = __hiloint2double(0x45300000, hi ^ 0x80000000) - (0x1p84 + 0x1p63 + 0x1p52); /* hi + 2^31 are the last bits of 2^84 … */
    return upper + __hiloint2double(0x43300000, lo);                                                 /* … and lo those of 2^52 */
}

/* The integer between -product()/2 and product()/2 that has these residues, rounded to 53 bits; exact where it has no more. */
__device__ inline double combine(const unsigned (&both)[PAIRS], bool high)
{
    constexpr wide all = product();
    constexpr double inverse = 0x1p96 / double(all);
    unsigned long long sum[4] = {}; /* of limbs: the carries come last */
    add_pairs(both, high, sum);
    /* How many times does it hold the product? That it is nearly in the middle between two multiples is impossible (GG_NORM_SQUARED). */
    const unsigned long long top = sum[3] + (sum[2] >> 32);
    const double estimate = __hiloint2double(0x43300000 | unsigned(top >> 32), unsigned(top)) - 0x1p52;
    const unsigned times = unsigned(__double2loint(fma(estimate, inverse, 0x1.8p52)));
#pragma unroll
    for (int l = 0; l < 4; l++)
        sum[l] += static_cast<unsigned long long>(times) * limb(-all, l);
    sum[1] += sum[0] >> 32, sum[2] += sum[1] >> 32, sum[3] += sum[2] >> 32;
    /* The lower half as a signed number: so both halves are exact if the whole is. */
    const unsigned long long upper = (sum[3] << 32 | unsigned(sum[2])) + (unsigned(sum[1]) >> 31);
    return fma(as_double(int(upper >> 32), unsigned(upper)), 0x1p64, as_double(int(unsigned(sum[1])), unsigned(sum[0])));
}

/* A thread has half of a 16-byte piece of each of a tile's products (tensor_int8.cu): 2 rows, 8 apart, by 2 pairs of columns, 8 apart. */
__device__ void restore(const gg_args &p)
{
    const int rows = int(gg_ceil_div(p.m, 2 * GG_UNIT)), columns = int(gg_ceil_div(p.n, 2 * GG_UNIT));
    const int64_t plane = int64_t(rows) * columns * (4 * 8 * 128 * 2);
    const int half = threadIdx.x % 2, thread = threadIdx.x / 2, index = blockIdx.x; /* of the blocks of 128 pieces */
    int row_pair, column_pair;
    gg_place_pair(index / GG_RESTORE_BLOCKS, rows, columns, row_pair, column_pair);
    const int64_t row = int64_t(row_pair) * 2 * GG_UNIT + index / 8 % 4 * 64 + thread / 32 * 16 + thread % 32 / 4;
    const int64_t column = int64_t(column_pair) * 2 * GG_UNIT + index % 8 * 32 + half * 16 + thread % 4 * 2;
    if (row >= p.m || column >= p.n)
        return;
    const uint2 *const from = static_cast<const uint2 *>(p.pieces_c) + int64_t(index) * 256 + threadIdx.x;
    uint2 r[2 * PAIRS];
#pragma unroll
    for (int m = 0; m < 2 * PAIRS; m++)
        r[m] = m < GG_MODULI ? __ldcs(from + m * plane) : make_uint2(0, 0);
    const bool second = row + 8 < p.m;
    const int back_a[2] = {int(p.scale_a[row]), second ? int(p.scale_a[row + 8]) : 0};
#pragma unroll
    for (int j = 0; j < 2; j++) {
        unsigned both[2][PAIRS]; /* by row: two residues of the even column, two of the odd one */
#pragma unroll
        for (int m = 0; m < PAIRS; m++) {
            const unsigned x = j ? r[2 * m].y : r[2 * m].x, y = j ? r[2 * m + 1].y : r[2 * m + 1].x;
            both[0][m] = __byte_perm(x, y, 0x5140), both[1][m] = __byte_perm(x, y, 0x7362);
        }
#pragma unroll
        for (int e = 0; e < 2; e++) {
            const int64_t at = column + 8 * j + e;
            if (at >= p.n)
                continue;
            const int back_b = int(p.scale_b[at]);
            double *const c = static_cast<double *>(p.c) + row + at * p.ldc;
#pragma unroll
            for (int h = 0; h < 2; h++) {
                if (h && !second)
                    continue;
                const double sum = combine(both[h], e) * power_of_two(-back_a[h] - back_b);
                c[8 * h] = p.beta == 0 ? p.alpha * sum : fma(p.alpha, sum, p.beta * c[8 * h]);
            }
        }
    }
}
} // namespace

extern "C" {
__global__ void __launch_bounds__(THREADS, 4) gg_norms(const __grid_constant__ gg_args p)
{
    if (!gg_gated(p))
        norms(p);
}
__global__ void __launch_bounds__(THREADS, 2) gg_residues(const __grid_constant__ gg_args p)
{
    if (gg_gated(p))
        return;
    if (operand(p, blockIdx.y).kmajor)
        residues<true>(p);
    else
        residues<false>(p);
}
__global__ void __launch_bounds__(THREADS, 3) gg_restore(const __grid_constant__ gg_args p)
{
    if (!gg_gated(p))
        restore(p);
}
}
#endif

/* residue.cu — the passes around tensor_int8 (residue.cuh): gg_residues certifies op(A) and op(B) and makes planes of them; gg_restore puts the
 * products together and updates C.
 *
 * gg_residues reads every element once and writes 15 bytes for it: clusters hold all k of some rows in shared memory, and their blocks send each
 * other sums of squares. gg_restore reads 15 bytes for an element of C and writes it. At n = 4096 they take 245 and 117 us on an H200, whose memory
 * alone would need 180 and 90 (282 and 150 on an H100 before gg_restore added on tensor cores, where memory needs 257 and 129). Beside that they do
 * arithmetic: some 90 instructions an element in gg_residues' main loop, a third of them dp4a, and 120 in gg_restore. Registers 72 and 78, no spills;
 * 70 KB of shared memory for a block of gg_residues, of which an SM has three. A second buffer, filled while the first is worked on, would leave room
 * for fewer blocks, and a quarter at a time is 8 % slower. What was tried in gg_restore: bench/results/launches-2026-11-27.txt. */
#include "parts.cuh"
#include "residue.cuh"
#include "vector.cuh"

#if __CUDA_ARCH__ >= 900
namespace
{
constexpr int THREADS = 256;

/* 16 threads, a team, do an item, 128 k of a row, at a time, 8 k each. A block has GG_RESIDUE_ITEMS items: those of some rows, 2 to 16, and a share
 * of their k. */
constexpr int TEAM = 16, TEAMS = THREADS / TEAM, EACH = GG_UNIT / TEAM, TURNS = GG_RESIDUE_ITEMS / TEAMS;
static_assert(GG_RESIDUE_ITEMS * GG_UNIT * 8 == gg_shared_gg_residues && EACH == 8, "kernels.def");
static_assert(GG_RESIDUE_ROWS <= TEAMS && GG_RESIDUE_BLOCKS <= TEAM, "each row a team, and each block a lane that sends to it");

/* The rows of a cluster, which are rows of op(A) or columns of op(B), and this block's share of their k. */
struct share {
    const double *from; /* the first row */
    int64_t ld, row0;
    bool kmajor, is_a, vec; /* vec: all rows exist and can be copied 16 bytes at a time */
    int bits, exist;        /* the cluster has 2^bits rows; how many of these there are */
    int rank, chunks;       /* the block's place in the cluster, and its share, in chunks of 128 k */
    int k, k0;

    __device__ share(const gg_args &p, int blocks) : bits(31 - __clz(p.splits)), k(int(p.k))
    {
        const int64_t index = blockIdx.x / unsigned(blocks), of_a = gg_ceil_div(p.m, p.splits);
        rank = blockIdx.x - int(index) * blocks;
        is_a = index < of_a;
        row0 = (is_a ? index : index - of_a) << bits;
        ld = is_a ? p.lda : p.ldb;
        kmajor = is_a ? p.a_kmajor : p.b_kmajor;
        from = static_cast<const double *>(is_a ? p.a : p.b) + row0 * (kmajor ? ld : 1);
        exist = int(min(int64_t(1) << bits, (is_a ? p.m : p.n) - row0));
        chunks = GG_RESIDUE_ITEMS >> bits;
        k0 = rank * chunks * GG_UNIT;
        vec = (is_a ? p.a_vec : p.b_vec) && exist == 1 << bits;
    }

    /* This team's row, and its chunk of the block in each turn. */
    __device__ int row() const { return threadIdx.x / TEAM & (1 << bits) - 1; }
    __device__ int chunk(int turn) const { return (turn * TEAMS + int(threadIdx.x) / TEAM) >> bits; }
};

/* Where an element lies in shared memory: [row][pairs of k], pair i of a row at i ^ i / 8 % 4, or, where rows are contiguous, [k][row], row r at r ^
 * k / 8 % rows, but for that number's last bit. So a team's lanes, 8 k apart, hit different banks, or nearly so. */
template <bool KMAJOR> __device__ inline unsigned place(const share &x, int row, int k)
{
    if constexpr (KMAJOR)
        return row * (x.chunks * GG_UNIT * 8) + (k / 2 ^ k / 16 % 4) * 16 + k % 2 * 8;
    return (k << x.bits) * 8 + (row ^ (k / 8 & (1 << x.bits) - 2)) * 8;
}

/* Starts copying this thread's part of the block's share to shared memory, zeros beyond k; rows beyond the last repeat it. */
template <bool KMAJOR> __device__ inline void fetch(const share &x, unsigned to)
{
    constexpr int ALL = GG_RESIDUE_ITEMS * GG_UNIT;
    const int t = threadIdx.x;
    const auto present = [&](int k) { return max(0, min(2, x.k - x.k0 - k)) * 8; }; /* bytes of two elements in k */
    if (x.vec && KMAJOR) {
        const int lane = t % TEAM;
        const double *const from = x.from + x.row() * x.ld + x.k0 + lane * 2;
#pragma unroll
        for (int turn = 0; turn < TURNS; turn++)
#pragma unroll
            for (int i = 0; i < GG_UNIT; i += TEAM * 2) {
                const int k = x.chunk(turn) * GG_UNIT + i;
                gg_copy<16>(to + place<KMAJOR>(x, x.row(), k + lane * 2), from + k, present(k + lane * 2));
            }
    } else if (x.vec) {
        const int row = t * 2 & (1 << x.bits) - 1, k = t * 2 >> x.bits, step = THREADS * 2 >> x.bits;
        const double *from = x.from + row + (x.k0 + k) * x.ld;
#pragma unroll 8
        for (int i = 0; i < ALL / 2 / THREADS; i++, from += step * x.ld)
            gg_copy<16>(to + place<KMAJOR>(x, row, k + i * step), from, present(k + i * step) ? 16 : 0);
    } else {
#pragma unroll 4
        for (int i = t; i < ALL; i += THREADS) {
            const int row = KMAJOR ? i / (x.chunks * GG_UNIT) : i & (1 << x.bits) - 1, k = KMAJOR ? i % (x.chunks * GG_UNIT) : i >> x.bits;
            const int64_t from_row = min(row, x.exist - 1), from_k = x.k0 + k;
            const bool exists = from_k < x.k;
            gg_copy_or_zero<8>(to + place<KMAJOR>(x, row, k),
                               exists ? x.from + (KMAJOR ? from_row * x.ld + from_k : from_row + from_k * x.ld) : x.from, exists);
        }
    }
}

/* A lane's 8 elements of this turn. */
template <bool KMAJOR> __device__ inline void read(const share &x, unsigned from, int turn, double (&v)[EACH])
{
    const int lane = threadIdx.x % TEAM, k = x.chunk(turn) * GG_UNIT + lane * EACH;
    if constexpr (KMAJOR) {
        const unsigned at = from + x.row() * (x.chunks * GG_UNIT * 8) + k * 8;
#pragma unroll
        for (int i = 0; i < EACH; i += 2)
            asm volatile("ld.shared.v2.f64 {%0, %1}, [%2];" : "=d"(v[i]), "=d"(v[i + 1]) : "r"(at + (i / 2 ^ lane / 2 % 4) * 16) : "memory");
    } else {
        const unsigned at = from + place<KMAJOR>(x, x.row(), k);
#pragma unroll
        for (int i = 0; i < EACH; i++)
            asm volatile("ld.shared.f64 %0, [%1];" : "=d"(v[i]) : "r"(at + (i << x.bits) * 8) : "memory");
    }
}

template <int LANES, typename T> __device__ inline T sum_of(T x)
{
#pragma unroll
    for (int i = 1; i < LANES; i *= 2)
        x += __shfl_xor_sync(~0u, x, i);
    return x;
}

/* Do too few of a row's first elements, of which 4 lanes have 8 each, stand out from the sum of their squares? */
__device__ inline bool few_are_large(const double (&v)[EACH], double squares)
{
    constexpr int LANES = GG_INT8_FIRST / EACH;
    const double least = sum_of<LANES>(squares) * (GG_INT8_LEAST * GG_INT8_LEAST / GG_INT8_FIRST);
    int large = 0;
#pragma unroll
    for (int i = 0; i < EACH; i++)
        large += v[i] * v[i] >= least;
    return sum_of<LANES>(large) < GG_INT8_FEW;
}

/* The sum of squares of the team's row in this block's share, not 0 if any element is not, though its square may be. NaN: a lane already knows that
 * the operands cannot be certified (bad), or by its first elements this row cannot. Most that cannot show it there, and then no block need go on. */
template <bool KMAJOR> __device__ double squares_of(const share &x, unsigned memory, bool bad)
{
    double sum = 0;
#pragma unroll
    for (int turn = 0; turn < TURNS; turn++) {
        double v[EACH], own = 0;
        read<KMAJOR>(x, memory, turn, v);
#pragma unroll
        for (int i = 0; i < EACH; i++)
            own = fma(v[i], v[i], own);
        sum += own;
        if (turn == 0)
            bad |= few_are_large(v, own) && x.k0 + x.chunk(0) + threadIdx.x % TEAM == 0;
    }
    if (sum == 0)
#pragma unroll 1
        for (int turn = 0; turn < TURNS; turn++) {
            double v[EACH];
            read<KMAJOR>(x, memory, turn, v);
            for (int i = 0; i < EACH; i++)
                sum = v[i] != 0 ? 0x1p-1074 : sum;
        }
    return sum_of<TEAM>(bad ? nan("") : sum);
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

/* lo + 2^32 hi modulo number I, from -128 to 127, in the last byte of the result. hi has its sign bit flipped, which makes it 2^63 too much. */
template <int I> __device__ inline unsigned residue(unsigned lo, unsigned hi)
{
    constexpr unsigned m = gg_modulus(I), beyond = gg_beyond(m, 0), start = gg_start(m, beyond, gg_power(2, 63, m));
    if constexpr (m == 256)
        return lo;
    return gg_remainder(__dp4a(lo, gg_byte_weights(m, 0), __dp4a(hi, gg_byte_weights(m, 4), start)), m, gg_reciprocal(m), gg_back(m, beyond));
}

/* Stores a lane's 8 elements modulo each number, from I on. */
template <int I = 0> __device__ inline void store_planes(const unsigned (&lo)[EACH], const unsigned (&hi)[EACH], char *to, int64_t plane)
{
    if constexpr (I < GG_MODULI) {
        unsigned r[2][4];
#pragma unroll
        for (int i = 0; i < EACH; i++)
            r[i / 4][i % 4] = residue<I>(lo[i], hi[i]);
        *reinterpret_cast<uint2 *>(to) = make_uint2(gg_last_bytes(r[0]), gg_last_bytes(r[1]));
        store_planes<I + 1>(lo, hi, to + plane, plane);
    }
}

/* Numbers that the blocks of a cluster send each other, and the barrier at which they are all there. */
template <typename T> struct letters {
    T of[GG_RESIDUE_BLOCKS][TEAMS]; /* by block and team */
    uint64_t barrier;

    /* By one thread, before a barrier of the cluster. */
    __device__ void init(int blocks)
    {
        const unsigned at = gg_shared(&barrier);
        asm volatile("{ .reg .b64 s; mbarrier.init.shared.b64 [%0], 1; mbarrier.arrive.expect_tx.shared.b64 s, [%0], %1; }" ::"r"(at),
                     "r"(blocks * TEAMS * int(sizeof(T)))
                     : "memory");
    }
    /* Sends this team's number, x, to that block. */
    __device__ void send(int to, int rank, double x)
    {
        asm volatile(
            "st.async.shared::cluster.mbarrier::complete_tx::bytes.f64 [%0], %1, [%2];" ::"r"(of_block(gg_shared(&of[rank][threadIdx.x / TEAM]), to)),
            "d"(x), "r"(of_block(gg_shared(&barrier), to))
            : "memory");
    }
    __device__ void send(int to, int rank, int x)
    {
        asm volatile(
            "st.async.shared::cluster.mbarrier::complete_tx::bytes.s32 [%0], %1, [%2];" ::"r"(of_block(gg_shared(&of[rank][threadIdx.x / TEAM]), to)),
            "r"(x), "r"(of_block(gg_shared(&barrier), to))
            : "memory");
    }
    __device__ void await()
    {
        unsigned done = 0;
        while (!done)
            asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                         : "=r"(done)
                         : "r"(gg_shared(&barrier))
                         : "memory");
    }
    /* The sum over all blocks of a row's numbers. */
    __device__ T sum(int row, int rows, int blocks) const
    {
        T all = 0;
        for (int i = 0; i < blocks; i++)
            for (int j = row; j < TEAMS; j += rows)
                all += of[i][j];
        return all;
    }
};

/* A cluster has all k of its rows in shared memory: so it finds their norms, certifies and scales them in one reading. Without p.pieces_a it only
 * certifies. All blocks leave as soon as the operands are known not to be certified. */
template <bool KMAJOR> __device__ void residues(const gg_args &p, const share &x, int blocks)
{
    extern __shared__ __align__(128) char staged[];
    __shared__ letters<double> squares;
    __shared__ letters<int> large; /* to block 0 */
    const unsigned memory = gg_shared(staged);
    const int lane = threadIdx.x % TEAM, row = x.row();
    if (threadIdx.x == 0) {
        squares.init(blocks), large.init(blocks);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
    /* Another block may set the bit while this one's threads look: so they may disagree, and all take part in everything but the loads. */
    const bool ruled_out = gg_verdict(p) & GG_NOT_INT8;
    if (!ruled_out)
        fetch<KMAJOR>(x, memory);
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
    const double own = squares_of<KMAJOR>(x, memory, ruled_out);
    cluster_wait();
    if (lane < blocks)
        squares.send(lane, x.rank, own);
    squares.await();
    const scaling by(squares.sum(row, 1 << x.bits, blocks), double(x.k));
    if (__syncthreads_or(by.bad)) { /* all blocks of the cluster see the same */
        if (threadIdx.x == 0)
            atomicOr(p.verdict, GG_NOT_INT8);
        return;
    }
    const int chunks = int(gg_ceil_div(x.k, GG_UNIT)), in_unit = int(x.row0 % GG_UNIT) + row;
    const int64_t plane = int64_t(chunks) * GG_UNIT_BYTES;
    char *const to = static_cast<char *>(x.is_a ? p.pieces_a : p.pieces_b) + x.row0 / GG_UNIT * GG_MODULI * plane + in_unit * GG_UNIT +
                     (lane / 2 ^ in_unit % 8) * 16 + lane % 2 * 8;
    const double scale = power_of_two(by.exponent);
    if (p.pieces_a && x.rank == 0 && lane == 0 && int(threadIdx.x) / TEAM < x.exist)
        (x.is_a ? p.scale_a : p.scale_b)[x.row0 + row] = float(by.exponent);
    int count = 0; /* of large elements */
#pragma unroll 1
    for (int turn = 0; turn < TURNS; turn++) {
        const int chunk = x.rank * x.chunks + x.chunk(turn);
        double v[EACH];
        unsigned lo[EACH], hi[EACH];
        read<KMAJOR>(x, memory, turn, v);
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            count += fabs(v[i]) >= by.least; /* zeros beyond k are not, unless the whole row is 0 */
            const long long y = __double2ll_rn(v[i] * scale);
            lo[i] = unsigned(y), hi[i] = unsigned(y >> 32) ^ 0x80000000u;
        }
        if (p.pieces_a && chunk < chunks)
            store_planes(lo, hi, to + int64_t(chunk) * GG_UNIT_BYTES, plane);
    }
    count = sum_of<TEAM>(count);
    if (lane == 0)
        large.send(0, x.rank, count);
    if (x.rank == 0) {
        large.await();
        if (int(threadIdx.x) < x.exist && GG_INT8_OF * int64_t(large.sum(threadIdx.x, 1 << x.bits, blocks)) < GG_INT8_ENOUGH * int64_t(x.k))
            atomicOr(p.verdict, GG_NOT_INT8);
    }
}

/* ---- the Chinese remainder theorem ---------------------------------------------------------------------------------------------------- */

/* Unsigned 128-bit numbers, for tables. */
using wide = unsigned __int128;

__device__ constexpr wide product()
{
    wide all = 1;
    for (int i = 0; i < GG_MODULI; i++)
        all *= gg_modulus(i);
    return all;
}

/* What is 1 modulo that number and 0 modulo the others, below product(); 0 for a number that is not there. */
__device__ constexpr wide weight(int i)
{
    if (i >= GG_MODULI)
        return 0;
    const wide others = product() / gg_modulus(i);
    return others * gg_inverse(unsigned(others % gg_modulus(i)), gg_modulus(i));
}

/* [byte][i]: that byte of the weights of numbers i, i + 4, i + 8 and i + 12. */
struct weight_bytes {
    unsigned of[16][4];
};
constexpr weight_bytes bytes_of_weights()
{
    weight_bytes all = {};
    for (int byte = 0; byte < 16; byte++)
        for (int i = 0; i < 16; i++)
            all.of[byte][i % 4] |= unsigned(weight(i) >> 8 * byte & 255) << 8 * (i / 4);
    return all;
}
__device__ const weight_bytes weights = bytes_of_weights();

/* d = a b, bytes: 16×32 by 32×8. */
__device__ inline void multiply_bytes(unsigned (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1)
{
    asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %10, %10, %10};"
        : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "r"(0));
}

/* Word i of the result has byte i of each x. */
__device__ inline void transpose_bytes(const unsigned (&x)[4], unsigned (&to)[4])
{
    const unsigned low01 = __byte_perm(x[0], x[1], 0x5140), low23 = __byte_perm(x[2], x[3], 0x5140);
    const unsigned high01 = __byte_perm(x[0], x[1], 0x7362), high23 = __byte_perm(x[2], x[3], 0x7362);
    to[0] = __byte_perm(low01, low23, 0x5410), to[1] = __byte_perm(low01, low23, 0x7632);
    to[2] = __byte_perm(high01, high23, 0x5410), to[3] = __byte_perm(high01, high23, 0x7632);
}

/* hi 2^32 + lo, exact where it has no more than 53 bits. */
__device__ inline double as_double(int hi, unsigned lo)
{
    const double upper = __hiloint2double(0x45300000, hi ^ 0x80000000) - (0x1p84 + 0x1p63 + 0x1p52); /* hi + 2^31 are the last bits of 2^84 … */
    return upper + __hiloint2double(0x43300000, lo);                                                 /* … and lo those of 2^52 */
}

/* The integer between -product()/2 and product()/2 that differs by a multiple of it from the sum of digit[i] 2^16i, all below 2^28; rounded to 53
 * bits, exact where it has no more. */
__device__ inline double combine(const unsigned (&digit)[8])
{
    constexpr wide all = product();
    constexpr float inverse = float(0x1p108 / double(all));
    /* How many times does it hold the product? The estimate, in 2^108ths, is up to 2 too small, which makes 0.003 of a product of 830; and that the
     * sum lies so close to the middle between two multiples is impossible (GG_NORM_SQUARED). */
    const float estimate = __uint_as_float(0x4b000000 + (digit[7] << 4) + (digit[6] >> 12)) - 0x1p23f;
    const unsigned times = __float_as_uint(fmaf(estimate, inverse, 0x1.8p23f)) - 0x4b400000;
    unsigned x[8], carry = 0;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        asm("mad.lo.u32 %0, %1, %2, %3;" : "=r"(x[i]) : "r"(times), "r"(unsigned(-all >> 16 * i & 0xffff)), "r"(digit[i]));
        x[i] += carry;
        carry = (i == 3 ? x[i] + 0x8000 : x[i]) >> 16; /* the lower half as a signed number: so both halves are exact if the whole is */
    }
    const auto word = [&](int i) { return __byte_perm(x[2 * i], x[2 * i + 1], 0x5410); };
    return fma(as_double(int(word(3)), word(2)), 0x1p64, as_double(int(word(1)), word(0)));
}

/* A warp has half of the 32 pieces of 16 bytes that a warp of tensor_int8 stores of each of a tile's products: 16 rows by 2 of 4 pairs of columns,
 * and by those 8, 16 and 24 columns further on. Four lanes, each of which reads every fourth product, do two pieces, 4 bytes at a time: 2 rows, 8
 * apart, by 2 columns. Other lanes' pieces are beside them, so that 32 bytes are read and stored together.
 *
 * Tensor cores add up the weights, byte by byte. Rows are elements, k the numbers, first for one element, then for another; columns are bytes of the
 * weights. So the first of the four lanes has the lower halves of two elements' sums and the second the upper ones, the other two lanes those of the
 * other elements. They exchange halves, and each has an element. */
__device__ void restore(const gg_args &p)
{
    const int lane = threadIdx.x % 32, group = lane / 4, q = lane % 4, warp = threadIdx.x / 32;
    const int row0 = blockIdx.y * 2 * GG_UNIT + blockIdx.x / 8 * 64 + warp / 2 * 16, column0 = blockIdx.z * 2 * GG_UNIT + blockIdx.x % 8 * 32;
    if (row0 >= p.m || column0 >= p.n)
        return;
    const int row = row0 + group % 4 + q / 2 * 8, pair = warp % 2 * 2 + group / 4, column = column0 + pair * 2 + q % 2;
    const int64_t plane = int64_t(gridDim.y) * gridDim.z * (4 * 8 * 128);
    const unsigned block = gg_pair_index(blockIdx.y, blockIdx.z, gridDim.y, gridDim.z) * GG_RESTORE_BLOCKS + blockIdx.x;
    const uint4 *const from = static_cast<const uint4 *>(p.pieces_c) + q * plane + block * 128 + warp / 2 * 32 + group % 4 * 4 + pair;
    uint4 r[2][4];
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int piece = 0; piece < 2; piece++) /* 4 rows further down */
            r[piece][i] = i < 3 || q < 3 ? __ldcs(from + 4 * i * plane + piece * 16) : make_uint4(0, 0, 0, 0);
    static_assert(GG_MODULI == 15, "the last lane has three");
    unsigned own[4]; /* the weights that this lane holds for the products */
#pragma unroll
    for (int j = 0; j < 4; j++)
        own[j] = weights.of[group / 2 % 2 * 8 + 2 * j + group % 2][q];
    const bool is_upper = q % 2, latter = group >= 4;
    const int rows_left = int(p.m) - row, columns_left = int(p.n) - column;
    int back_a[2], back_b[4];
#pragma unroll
    for (int i = 0; i < 2; i++)
        back_a[i] = 4 * i < rows_left ? int(p.scale_a[row + 4 * i]) : 0;
#pragma unroll
    for (int i = 0; i < 4; i++)
        back_b[i] = 8 * i < columns_left ? int(p.scale_b[column + 8 * i]) : 0;
    double *const c = static_cast<double *>(p.c) + row + column * p.ldc;
#pragma unroll
    for (int piece = 0; piece < 2; piece++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const auto word = [&](const uint4 &x) { return i == 0 ? x.x : i == 1 ? x.y : i == 2 ? x.z : x.w; };
            const unsigned words[4] = {word(r[piece][0]), word(r[piece][1]), word(r[piece][2]), word(r[piece][3])};
            unsigned elements[4], sum[4][4], digit[8];
            transpose_bytes(words, elements);
#pragma unroll
            for (int j = 0; j < 4; j++)
                multiply_bytes(sum[j], elements, latter ? 0 : own[j], latter ? own[j] : 0);
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const unsigned first = sum[j][0] + (sum[j][1] << 8), second = sum[j][2] + (sum[j][3] << 8);
                const unsigned other = __shfl_xor_sync(~0u, is_upper ? first : second, 1);
                digit[j] = is_upper ? other : first, digit[4 + j] = is_upper ? second : other;
            }
            const double exact = combine(digit) * power_of_two(-back_a[piece] - back_b[i]);
            const bool exists = 4 * piece < rows_left && 8 * i < columns_left;
            double *const to = c + 4 * piece + 8 * i * p.ldc;
            gg_store_unless(!exists, to, p.beta == 0 ? p.alpha * exact : fma(p.alpha, exact, p.beta * (exists ? *to : 0)));
        }
}
} // namespace

extern "C" {
__global__ void __launch_bounds__(THREADS, 3) gg_residues(const __grid_constant__ gg_args p)
{
    gg_gate(p); /* the chain's first: it is always its turn, and a block that leaves does it together with its cluster */
    gg_clear_next(p);
    const int blocks = cluster_blocks();
    const share x(p, blocks);
    if (x.kmajor)
        residues<true>(p, x, blocks);
    else
        residues<false>(p, x, blocks);
}
__global__ void __launch_bounds__(THREADS, 3) gg_restore(const __grid_constant__ gg_args p)
{
    if (!gg_gated(p))
        restore(p);
}
}
#endif

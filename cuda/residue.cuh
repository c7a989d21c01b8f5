/* residue.cuh — FP64 products from integer tensor cores (src/tensor.h), the tier INT8: what residue.cu and tensor_int8.cu share.
 *
 * Rows of op(A) and columns of op(B) are scaled by powers of two and rounded to integers of up to 59 bits. Their dot products, of up to 117 bits, are
 * computed exactly, modulo 15 coprime numbers of 8 bits each, on INT8 tensor cores, and put together by the Chinese remainder theorem (Ozaki, Uchino
 * and Imamura, arXiv 2504.08009). The only errors are the rounding to integers and that of the result.
 *
 * A plane is an operand modulo one number. It is stored as shared memory will hold it: a unit of 16 KB is 128 rows × 128 k, a row 128 bytes, 16-byte
 * piece i of a row at i ^ row % 8 (wgmma's 128-byte swizzle). Units of a block of 128 rows: [modulus][k / 128]. */
#ifndef GG_RESIDUE_CUH
#define GG_RESIDUE_CUH

#include "pipeline.cuh"

constexpr int GG_MODULI = GG_INT8_MODULI, GG_UNIT = GG_INT8_UNIT, GG_UNIT_BYTES = GG_UNIT * GG_UNIT;

/* Pairwise coprime, the largest such set up to 256, so that residues from -128 to 128 are bytes modulo 256. */
__host__ __device__ constexpr unsigned gg_modulus(int i)
{
    constexpr unsigned moduli[16] = {256, 255, 253, 251, 247, 241, 239, 233, 229, 227, 223, 217, 211, 199, 197, 193};
    return moduli[i];
}

/* The product of all moduli is a little more than 2^117.7. Rows are scaled to a 2-norm of at most 2^58.375, so that by Cauchy and Schwarz no dot
 * product exceeds 0.49 of it. */
constexpr double GG_NORM_SQUARED = 0x1.ae89f995ad3adp116; /* 2^116.75 */

__host__ __device__ constexpr unsigned gg_inverse(unsigned x, unsigned modulus)
{
    for (unsigned i = 1; i < modulus; i++)
        if (x % modulus * i % modulus == 1 % modulus)
            return i;
    return 0;
}

/* x^e mod m */
__host__ __device__ constexpr unsigned gg_power(unsigned x, int e, unsigned m)
{
    unsigned y = 1 % m;
    for (int i = 0; i < e; i++)
        y = y * (x % m) % m;
    return y;
}

/* Bytes from, … from + 3 of the weights of a number's bytes, 256^j mod m. */
__host__ __device__ constexpr unsigned gg_byte_weights(unsigned m, int from)
{
    unsigned all = 0;
    for (int j = 0; j < 4; j++)
        all |= gg_power(256, from + j, m) << 8 * j;
    return all;
}

/* Numbers are reduced as sums of their weighted bytes, below 2^20 (dp4a), and the quotient is found in FP32, on other pipes. A sum y begins at
 * gg_start(), so that its bits are those of a float, y + beyond, where beyond is a multiple of m, 2^23 or a little more. gg_remainder is then y less
 * a multiple of m, from -128 to 127, plus beyond, in its last byte: the quotient of y + beyond, by 1/m rounded up, is at most 1.1/m too large before
 * it is rounded to an integer, so at 128/m it is rounded up, and at (m - 129)/m not yet. */
__host__ __device__ constexpr unsigned gg_beyond(unsigned m, unsigned last_byte)
{
    unsigned x = ((1u << 23) + m - 1) / m * m;
    while (x % 256 != last_byte)
        x += m;
    return x;
}
__host__ __device__ constexpr unsigned gg_start(unsigned m, unsigned beyond, unsigned less)
{
    return 0x4b000000 + (beyond - (1u << 23)) + (m - less % m) % m;
}
__host__ __device__ constexpr float gg_back(unsigned m, unsigned beyond) { return 0x1.8p23f - float(beyond / m); }
__host__ __device__ constexpr float gg_reciprocal(unsigned m)
{
    const float near = float(1.0 / m);
    return double(near) < 1.0 / m ? near + 0x1p-31f : near;
}
__device__ inline unsigned gg_remainder(unsigned y, unsigned m, float reciprocal, float back)
{
    return y - __float_as_uint(fmaf(__uint_as_float(y), reciprocal, back)) * m;
}

/* The last bytes of four words. */
__device__ inline unsigned gg_last_bytes(const unsigned (&r)[4])
{
    return __byte_perm(__byte_perm(r[0], r[1], 0x0040), __byte_perm(r[2], r[3], 0x0040), 0x5410);
}

/* The place of a pair of tiles, 256×256 of C. They go down the columns of a band of GG_BAND rows of pairs, so that few distinct rows and columns are
 * in use at one time. */
constexpr int GG_BAND = 8;
__device__ inline void gg_place_pair(int index, int rows, int columns, int &row, int &column)
{
    const int band = index / (GG_BAND * columns), in_band = index % (GG_BAND * columns), of_band = min(GG_BAND, rows - band * GG_BAND);
    row = band * GG_BAND + in_band % of_band, column = in_band / of_band;
}

/* The index of the pair at that place. */
__device__ inline unsigned gg_pair_index(unsigned row, unsigned column, unsigned rows, unsigned columns)
{
    const unsigned band = row / GG_BAND, of_band = min(unsigned(GG_BAND), rows - band * GG_BAND);
    return band * GG_BAND * columns + column * of_band + row % GG_BAND;
}

#endif

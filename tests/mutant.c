/* mutant.c — a plain sgemm_ and dgemm_ with one bug, chosen by the environment variable MUTANT (0: none). t_mutants.sh shows with it that
 * every kind of bug known from real libraries is seen by fuzz or t_values: a test that cannot fail proves nothing. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

enum mutant {
    RIGHT, ALPHA_0_READS, BETA_0_READS, NAN_TIMES_0_LOST, SUBNORMALS_FLUSHED, LOWER_CASE_IS_TRANS, K_TAIL_LOST, PADDING_ZEROED, FIXED_POINT,
    NORMWISE, MANTISSA_BITS_LOST, LAST_ROW_LOST, MINUS_0_BETA, INF_SIGN_LOST, READS_PAST_END, CONJ_IS_NO_TRANS, INT_OFFSETS, A_SCALED_IN_PLACE,
    K_0_KEEPS_C, ALPHA_ON_C, SMALL_BETA_DROPPED, A_PADDING_READ, INTEGER_SATURATES, MUTANTS
};

static enum mutant mutant(void)
{
    const char *text = getenv("MUTANT");
    return text ? (enum mutant)atoi(text) : RIGHT;
}

#define GEMM(NAME, T, FLUSH)                                                                                           \
    void NAME(const char *transa, const char *transb, const int *pm, const int *pn, const int *pk, const T *alpha, T *a, const int *plda,      \
              T *b, const int *pldb, const T *beta, T *c, const int *pldc)                                             \
    {                                                                                                                  \
        enum mutant bug = mutant();                                                                                    \
        int64_t m = *pm, n = *pn, k = *pk, lda = *plda, ldb = *pldb, ldc = *pldc;                                      \
        char no = bug == CONJ_IS_NO_TRANS ? 'C' : bug == LOWER_CASE_IS_TRANS ? 'N' : 'n';                              \
        int ta = *transa != 'N' && *transa != no, tb = *transb != 'N' && *transb != no;                                \
        T most = 0;                                                                                                    \
        if (m == 0 || n == 0 || ((*alpha == 0 || k == 0) && *beta == 1) || (bug == K_0_KEEPS_C && k == 0))             \
            return;                                                                                                    \
        if (bug == K_TAIL_LOST && k > 64)                                                                              \
            k -= k % 8;                                                                                                \
        if (bug == A_SCALED_IN_PLACE && k)                                                                             \
            a[0] *= 2, a[0] /= 3, a[0] *= 1.5;                                                                         \
        if (bug == READS_PAST_END && k && *alpha != 0)                                                                 \
            most = *(volatile T *)(a + lda * ((ta ? m : k) - 1) + (ta ? k : m)), most = 0;                             \
        for (int64_t i = 0; (bug == FIXED_POINT || bug == NORMWISE) && *alpha != 0 && i < m * k; i++)                  \
            most = fmax(most, fabs(ta ? a[i % k + i / k * lda] : a[i % m + i / m * lda]));                             \
        for (int64_t j = 0; j < n; j++)                                                                                \
            for (int64_t i = 0; i < m; i++) {                                                                          \
                T sum = 0, *out = c + (bug == INT_OFFSETS ? (int64_t)(int)(unsigned)(j * ldc) : j * ldc) + i;          \
                for (int64_t l = 0; (*alpha != 0 || bug == ALPHA_0_READS) && l < k; l++) {                             \
                    T x = ta ? a[l + i * lda] : a[i + l * lda], y = tb ? b[j + l * ldb] : b[l + j * ldb], product;     \
                    if (bug == FIXED_POINT && most > 0)                                                                \
                        x = (T)(rint(ldexp(x / most, FLUSH < -200 ? 52 : 23)) * ldexp(most, FLUSH < -200 ? -52 : -23)); \
                    product = x * y;                                                                                   \
                    if (bug == NAN_TIMES_0_LOST && (x == 0 || y == 0))                                                 \
                        product = 0;                                                                                   \
                    if (bug == SUBNORMALS_FLUSHED && fabs(product) < ldexp(1, FLUSH))                                  \
                        product = 0;                                                                                   \
                    sum += product;                                                                                    \
                    if (bug == INTEGER_SATURATES && sum == floor(sum) && sum > 4000)                                   \
                        sum = 4000;                                                                                    \
                }                                                                                                      \
                if (bug == A_PADDING_READ && !ta && k && *alpha != 0 && i == m - 1 && lda > m)                         \
                    sum += 0 * a[m];                                                                                   \
                if (bug == NORMWISE)                                                                                   \
                    sum += most * ldexp(1, FLUSH < -200 ? -52 : -23);                                                  \
                if (bug == MANTISSA_BITS_LOST)                                                                         \
                    sum *= 1 + ldexp(1, FLUSH < -200 ? -45 : -16);                                                     \
                if (bug == INF_SIGN_LOST && isinf(sum))                                                                \
                    sum = INFINITY;                                                                                    \
                if (bug == LAST_ROW_LOST && m % 32 == 1 && m > 32 && i == m - 1)                                       \
                    sum = 0;                                                                                           \
                if (*beta == 0 && bug != BETA_0_READS && !(bug == MINUS_0_BETA && signbit(*beta)))                     \
                    *out = 0;                                                                                          \
                else                                                                                                   \
                    *out *= bug == SMALL_BETA_DROPPED && *beta == (T)0.7 ? (T)0.7001 : *beta;                          \
                if (bug == ALPHA_ON_C)                                                                                 \
                    *out *= *alpha;                                                                                    \
                if ((*alpha != 0 || bug == ALPHA_0_READS) && k)                                                        \
                    *out += *alpha * sum;                                                                              \
                if (bug == PADDING_ZEROED && i == m - 1 && ldc > m && j < n - 1)                                       \
                    out[1] = 0;                                                                                        \
            }                                                                                                          \
    }

GEMM(sgemm_, float, -126)
GEMM(dgemm_, double, -1022)
const int mutants = MUTANTS;

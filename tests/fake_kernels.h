/* fake_kernels.h — what the GPUs of fake_cuda.c compute: the library's kernels, recognised by name, as plain loops over struct gg_args, and the
 * tensor maps that they read through. A part of fake_cuda.c, which has die() and, for every access to GPU memory, see(). */
#define MULTIPLY(NAME, T)                                                                                                                            \
    static void NAME(const struct gg_args *p, bool product)                                                                                          \
    {                                                                                                                                                \
        size_t span_c = (size_t)(p->ldc * (p->n - 1) + p->m) * sizeof(T);                                                                            \
        T *c = (T *)see(p->c, span_c, true, "C"), alpha = (T)p->alpha, beta = (T)p->beta;                                                            \
        const T *a = NULL, *b = NULL;                                                                                                                \
        if (product) {                                                                                                                               \
            a = (T *)see(p->a, (size_t)(p->a_kmajor ? p->lda * (p->m - 1) + p->k : p->lda * (p->k - 1) + p->m) * sizeof(T), true, "A");              \
            b = (T *)see(p->b, (size_t)(p->b_kmajor ? p->ldb * (p->n - 1) + p->k : p->ldb * (p->k - 1) + p->n) * sizeof(T), true, "B");              \
        }                                                                                                                                            \
        for (int64_t j = 0; j < p->n; j++)                                                                                                           \
            for (int64_t i = 0; i < p->m; i++) {                                                                                                     \
                T sum = 0, *out = c + i + j * p->ldc;                                                                                                \
                for (int64_t l = 0; product && l < p->k; l++)                                                                                        \
                    sum += a[p->a_kmajor ? l + i * p->lda : i + l * p->lda] * b[p->b_kmajor ? l + j * p->ldb : j + l * p->ldb];                      \
                *out = (product ? alpha * sum : 0) + (beta == 0 ? 0 : beta * *out);                                                                  \
            }                                                                                                                                        \
    }
MULTIPLY(multiply_s, float)
MULTIPLY(multiply_d, double)

/* What the fake's cuTensorMapEncodeTiled stores in a map. */
struct map {
    const void *base;
    uint64_t inner, outer, pitch, size; /* size: of an element */
    int fill;
};

/* A kernel that reads its operands through tensor maps must have been given maps of exactly these operands. */
static void check_map(const char *kernel, const char *operand, const struct gg_tensor_map *opaque, const void *base, int64_t x, int64_t k, int64_t ld,
                      bool kmajor)
{
    struct map m;
    memcpy(&m, opaque, sizeof m);
    const uint64_t size = strstr(kernel, "dgemm") ? 8 : 4, inner = (uint64_t)(kmajor ? k : x), outer = (uint64_t)(kmajor ? x : k);
    if (m.base != base || m.size != size || m.inner != inner || m.outer != outer || m.pitch != (uint64_t)ld * size || m.fill)
        die("%s: the map of %s is of %llu x %llu elements of %llu bytes at %p, pitch %llu, fill %d; the operand is %llu x %llu of %llu at %p, pitch "
            "%llu",
            kernel, operand, (unsigned long long)m.inner, (unsigned long long)m.outer, (unsigned long long)m.size, m.base,
            (unsigned long long)m.pitch, m.fill, (unsigned long long)inner, (unsigned long long)outer, (unsigned long long)size, base,
            (unsigned long long)ld * (unsigned long long)size);
}

/* Copies an operand to x × k elements with x contiguous, as gg_pack_s does. */
static void pack(const void *from, int64_t ld, bool kmajor, void *to, int64_t x, int64_t k)
{
    const int64_t ld_to = (x + 3) / 4 * 4;
    const float *a = (float *)see(from, (size_t)(kmajor ? ld * (x - 1) + k : ld * (k - 1) + x) * sizeof *a, true, "an operand to be packed");
    float *packed = (float *)see(to, (size_t)(ld_to * (k - 1) + x) * sizeof *packed, true, "a packed operand");
    for (int64_t l = 0; l < k; l++)
        for (int64_t i = 0; i < x; i++)
            packed[i + l * ld_to] = a[kmajor ? l + i * ld : i + l * ld];
}

/* ---- chains: an element's pieces, at least as many bytes in all, hold the element itself, unsplit ----------------------------------------- */

/* A tier: bytes of an element's pieces and of the element, and the unit of k. */
struct tier {
    int64_t bytes, size, chunk;
};

static struct tier tier_of(const char *name)
{
    const bool is_int8 = strstr(name, "int8") || strstr(name, "residues") || strstr(name, "restore");
    return is_int8 ? (struct tier){GG_INT8_MODULI, sizeof(double), GG_INT8_UNIT} : (struct tier){strstr(name, "bf16") ? 6 : 4, sizeof(float), 64};
}

/* Where a tier keeps element (i, l) of an operand whose pieces begin at `pieces`. */
static void *piece_at(void *pieces, struct tier t, int64_t k, int64_t i, int64_t l)
{
    const int64_t tile = 128, padded = (k + t.chunk - 1) / t.chunk * t.chunk;
    return (char *)pieces + i / tile * (tile * padded * t.bytes) + (i % tile * padded + l) * t.size;
}

static char *see_pieces(void *pieces, struct tier t, int64_t rows, int64_t k)
{
    return see(pieces, (size_t)((rows + 127) / 128 * 128 * ((k + t.chunk - 1) / t.chunk * t.chunk) * t.bytes), true, "pieces");
}

/* Elements that are not certified: large ones, and about one in 100003 and one in 200003; in FP64 one in 10000019. */
static uint32_t verdict_on(const void *x, int64_t size)
{
    uint32_t bits[2] = {0, 0};
    memcpy(bits, x, (size_t)size);
    if (fabs(size == sizeof(double) ? *(const double *)x : *(const float *)x) >= 0x1p64)
        return GG_NOT_FP16 | GG_NOT_BF16 | GG_NOT_INT8;
    bits[0] = (bits[0] ^ bits[1]) * 2654435761u >> (size == sizeof(float) ? 8 : 0);
    if (size == sizeof(double))
        return bits[0] % 10000019 == 0 ? GG_NOT_INT8 : 0;
    return (bits[0] % 100003 == 0 ? GG_NOT_FP16 : 0) | (bits[0] % 200003 == 0 ? GG_NOT_FP16 | GG_NOT_BF16 : 0);
}

static void split_operand(const char *name, const void *from, int64_t ld, bool kmajor, void *pieces, int64_t rows, int64_t k, uint32_t *verdict)
{
    if (rows == 0)
        return;
    const struct tier t = tier_of(name);
    const bool writes = pieces && !strstr(name, "gg_certify") && !strstr(name, "tf32");
    char *a = see(from, (size_t)((kmajor ? ld * (rows - 1) + k : ld * (k - 1) + rows) * t.size), true, "an operand to be split");
    char *to = writes ? see_pieces(pieces, t, rows, k) : NULL;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t l = 0; l < k; l++) {
            const void *x = a + (kmajor ? l + i * ld : i + l * ld) * t.size;
            *verdict |= strstr(name, "tf32") ? GG_NOT_FP16 : verdict_on(x, t.size);
            if (to)
                memcpy(piece_at(to, t, k, i, l), x, (size_t)t.size);
        }
}

/* Sums are wider than those of the other kernels, so that the bits of C tell them apart. */
#define MULTIPLY_PIECES(NAME, T, SUM)                                                                                                                \
    static void NAME(const char *name, const struct gg_args *p)                                                                                      \
    {                                                                                                                                                \
        const struct tier t = tier_of(name);                                                                                                         \
        char *a = see_pieces(p->pieces_a, t, p->m, p->k), *b = see_pieces(p->pieces_b, t, p->n, p->k);                                               \
        T *c = (T *)see(p->c, (size_t)(p->ldc * (p->n - 1) + p->m) * sizeof *c, true, "C"), alpha = (T)p->alpha, beta = (T)p->beta;                  \
        for (int64_t j = 0; j < p->n; j++)                                                                                                           \
            for (int64_t i = 0; i < p->m; i++) {                                                                                                     \
                SUM sum = 0;                                                                                                                         \
                for (int64_t l = 0; l < p->k; l++)                                                                                                   \
                    sum += (SUM) * (T *)piece_at(a, t, p->k, i, l) * *(T *)piece_at(b, t, p->k, j, l);                                               \
                T *const out = c + i + j * p->ldc;                                                                                                   \
                *out = (T)(alpha * sum) + (beta == 0 ? 0 : beta * *out);                                                                             \
            }                                                                                                                                        \
    }
MULTIPLY_PIECES(multiply_pieces_s, float, double)
MULTIPLY_PIECES(multiply_pieces_d, double, long double)

/* Kernels that have nothing to do here: every product is done whole, so there are no parts to be added up, and of FP64's chain gg_residues and
 * gg_restore do all. */
static bool is_idle(const char *name) { return strstr(name, "fixup") || strstr(name, "_sum") || strstr(name, "int8"); }

/* ---- launches and maps -------------------------------------------------------------------------------------------------------------- */

static void run_kernel(const char *name, const struct gg_args *p)
{
    if (is_idle(name))
        return;
    uint32_t *verdict = p->verdict ? (uint32_t *)see(p->verdict, sizeof *verdict, true, "verdict") : NULL;
    const bool gated = verdict && (*verdict & p->gate_mask) != p->gate_value;
    if (gated && !strstr(name, "_or_")) /* …_or_ffma, …_or_tma: FFMA follows in the same kernel */
        return;
    if (strstr(name, "gg_split") || strstr(name, "gg_certify") || strstr(name, "gg_residues")) {
        if (p->clears && verdict)
            *(uint32_t *)see(p->clears, sizeof *p->clears, true, "the next verdict") = 0;
        const bool was = *verdict & GG_WAS_BF16 && strstr(name, "bf16");
        if (!was || !p->keeps_a)
            split_operand(name, p->a, p->lda, p->a_kmajor, p->pieces_a, p->m, p->k, verdict);
        if (!was || !p->keeps_b)
            split_operand(name, p->b, p->ldb, p->b_kmajor, p->pieces_b, p->n, p->k, verdict);
        return;
    }
    if (strstr(name, "tensor_") && !gated) {
        if (strstr(name, "bf16"))
            *verdict |= GG_WAS_BF16;
        multiply_pieces_s(name, p);
        return;
    }
    if (strstr(name, "gg_restore")) {
        multiply_pieces_d(name, p);
        return;
    }
    if (strstr(name, "gg_transfer")) {
        const size_t bytes = (size_t)p->m * 16;
        memcpy(see(p->c, bytes, false, "where a kernel copies to"), see(p->a, bytes, false, "what it copies"), bytes);
        return;
    }
    if (strstr(name, "gg_pack")) {
        if (p->c)
            pack(p->a, p->lda, p->a_kmajor, p->c, p->m, p->k);
        if (p->workspace)
            pack(p->b, p->ldb, p->b_kmajor, p->workspace, p->n, p->k);
        return;
    }
    if (strstr(name, "_tma_")) {
        const bool both = !strstr(name, "slim_tma"); /* which reads a small operand that is unaligned without TMA */
        if (both || p->a_vec)
            check_map(name, "A", &p->map_a, p->a, p->m, p->k, p->lda, p->a_kmajor);
        if (both || p->b_vec)
            check_map(name, "B", &p->map_b, p->b, p->n, p->k, p->ldb, p->b_kmajor);
    }
    if (strstr(name, "mapped") && p->workspace) {
        const size_t bytes = (size_t)(p->ldc * (p->n - 1) + p->m) * (strstr(name, "_d") ? sizeof(double) : sizeof(float));
        memcpy(see(p->c, bytes, false, "C"), see(p->workspace, bytes, false, "the old C"), bytes);
    }
    (strstr(name, "dgemm") || strstr(name, "_d") ? multiply_d : multiply_s)(p, !strstr(name, "scale"));
}

/* All twelve arguments are checked: whatever stands between the library and the driver must pass on every one. */
CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *base, const cuuint64_t *dims,
                                const cuuint64_t *pitches, const cuuint32_t *box, const cuuint32_t *steps, CUtensorMapInterleave interleave,
                                CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2, CUtensorMapFloatOOBfill fill)
{
    ENTER(false);
    const uint64_t size = type == CU_TENSOR_MAP_DATA_TYPE_FLOAT64 ? 8 : 4;
    const bool line = swizzle == CU_TENSOR_MAP_SWIZZLE_NONE || box[0] * size <= 16u << swizzle;
    if ((type != CU_TENSOR_MAP_DATA_TYPE_FLOAT64 && type != CU_TENSOR_MAP_DATA_TYPE_FLOAT32) || rank != 2 || (uintptr_t)base % 16 ||
        pitches[0] % 16 || !dims[0] || !dims[1] || dims[0] > UINT64_C(1) << 32 || dims[1] > UINT64_C(1) << 32 || pitches[0] >= UINT64_C(1) << 40 ||
        !box[0] || box[0] > 256 || !box[1] || box[1] > 256 || box[0] * size % 16 || !line || steps[0] != 1 || steps[1] != 1 ||
        interleave != CU_TENSOR_MAP_INTERLEAVE_NONE || (unsigned)swizzle > CU_TENSOR_MAP_SWIZZLE_128B ||
        (unsigned)l2 > CU_TENSOR_MAP_L2_PROMOTION_L2_256B || (unsigned)fill > CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA)
        return CUDA_ERROR_INVALID_VALUE;
    _Static_assert(sizeof(struct map) <= sizeof *map, "the fake's map fits");
    const struct map m = {base, dims[0], dims[1], pitches[0], size, (int)fill};
    memcpy(map, &m, sizeof m);
    return CUDA_SUCCESS;
}

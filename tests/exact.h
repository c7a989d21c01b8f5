/* exact.h — gemm calls with exactly one right answer: small integers, for which any order of summation gives the same bits. For tests of processes
 * and threads, in which the values do not matter. */
#ifndef EXACT_H
#define EXACT_H

#include "test.h"

#include "../include/gpugemm.h"
#include "spellings.h"

static void (*read_stats)(struct gpugemm_stats *, size_t), (*reset_stats)(void);
static size_t (*release_memory)(void);

static inline uint64_t gpu_calls(void)
{
    struct gpugemm_stats stats = {0};
    if (read_stats)
        read_stats(&stats, sizeof stats);
    return stats.device + stats.staged;
}

/* --lib PATH [--expect-gpu]. Opens the library and finds its spellings. Returns whether the GPU is required to serve. */
static inline bool open_by_arguments(int argc, char **argv)
{
    const char *lib = "build/libgpugemm.so";
    bool expect_gpu = false;
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], "--expect-gpu"))
            expect_gpu = true;
        else if (!strcmp(argv[i], "--lib") && i + 1 < argc)
            lib = argv[++i];
    setenv("OPENBLAS_NUM_THREADS", "1", 0);
    void *library = open_library(lib, RTLD_LOCAL);
    find_spellings(library);
    *(void **)&read_stats = dlsym(library, "gpugemm_stats_read");
    *(void **)&reset_stats = dlsym(library, "gpugemm_stats_reset");
    *(void **)&release_memory = dlsym(library, "gpugemm_release");
    return expect_gpu;
}

static inline const struct spelling *spelling_named(const char *name)
{
    for (int i = 0; i < SPELLINGS; i++)
        if (!strcmp(spellings[i].name, name) && spellings[i].address)
            return &spellings[i];
    fprintf(stderr, "skipped: no %s\n", name);
    exit(SKIP);
}

static inline double entry(int64_t i, int64_t j, uint64_t seed) { return (double)((uint64_t)(i * 7 + j * 13 + (int64_t)seed) % 11) - 5; }

/* C := A B + beta C for m rows of an n-column C at c, with leading dimension ldc. Returns the number of wrong elements. If beta = 0, only the call
 * writes to C. */
static inline int64_t exact_update(const struct spelling *s, int64_t m, int64_t n, int64_t k, double beta, void *c, int64_t ldc, uint64_t seed)
{
    struct matrix a = {s->dbl, m, k, m, malloc((size_t)(m * k) * 8)}, b = {s->dbl, k, n, k, malloc((size_t)(k * n) * 8)};
    struct matrix r = {s->dbl, m, n, ldc, c};
    int64_t wrong = 0, none = s->cblas ? 111 : 'N';
    for (int64_t l = 0; l < k; l++)
        for (int64_t i = 0; i < m; i++)
            matrix_set(&a, i, l, entry(i, l, seed));
    for (int64_t j = 0; j < n; j++)
        for (int64_t l = 0; l < k; l++)
            matrix_set(&b, l, j, entry(l, j, seed + 3));
    for (int64_t j = 0; beta != 0 && j < n; j++)
        for (int64_t i = 0; i < m; i++)
            matrix_set(&r, i, j, entry(i, j, seed + 5));
    call_gemm(s, &(struct call){102, (int)none, (int)none, m, n, k, m, k, ldc, a.data, b.data, c, 1, beta, 1});
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < m; i++) {
            if (m * n * k > 1 << 20 && (i * 31 + j) % 17) /* of a large C only a sample is checked */
                continue;
            double sum = beta * entry(i, j, seed + 5);
            for (int64_t l = 0; l < k; l++)
                sum += entry(i, l, seed) * entry(l, j, seed + 3);
            wrong += matrix_get(&r, i, j) != sum;
        }
    free(a.data), free(b.data);
    return wrong;
}

static inline int64_t exact_gemm(const struct spelling *s, int64_t m, int64_t n, int64_t k, void *c, int64_t ldc, uint64_t seed)
{
    return exact_update(s, m, n, k, 2, c, ldc, seed);
}

static inline int64_t exact_square(const struct spelling *s, int64_t n, uint64_t seed)
{
    void *c = malloc((size_t)(n * n) * 8);
    int64_t wrong = exact_gemm(s, n, n, n, c, n, seed);
    free(c);
    return wrong;
}

#endif

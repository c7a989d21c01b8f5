/* t_steady.c — one large product in host memory, repeated: the same bits every time, pageable and page-locked, and none finished by the CPU, which would
 * hide a GPU that fails now and then (one launch in some thousands did until 1865276: a block left its cluster too early). The two places may have
 * different bits: where integer tensor cores and FP64 multiply-adds are equally fast, as for a page-locked dgemm of 4096, the link's rate decides.
 *
 *   t_steady [--lib PATH] [--calls N] [--expect-gpu] */
#include "test.h"

#include "../bench/rig.h"
#include "gpugemm.h"

static __typeof__(gpugemm_stats_read) *read_stats;

int main(int argc, char **argv)
{
    const char *lib = "build/libgpugemm.so";
    int calls = 300;
    for (int i = 1; i + 1 < argc; i++) {
        lib = strcmp(argv[i], "--lib") ? lib : argv[i + 1];
        calls = strcmp(argv[i], "--calls") ? calls : atoi(argv[i + 1]);
    }
    void (*sgemm)(const char *, const char *, const int *, const int *, const int *, const float *, const void *, const int *, const void *,
                  const int *, const float *, void *, const int *);
    void (*dgemm)(const char *, const char *, const int *, const int *, const int *, const double *, const void *, const int *, const void *,
                  const int *, const double *, void *, const int *);
    void *library = dlopen(lib, RTLD_NOW | RTLD_LOCAL);
    if (!resolved(library, "sgemm_", &sgemm) || !resolved(library, "dgemm_", &dgemm) || !resolved(library, "gpugemm_stats_read", &read_stats))
        return fprintf(stderr, "%s lacks names\n", lib), 1;
    if (!open_gpu())
        return printf("skipped: no GPU\n"), SKIP;
    draw_data();

    const int n = 4096;
    const size_t most = (size_t)n * n * 8;
    const double alpha = 0.7, beta = 0;
    const float alpha_s = 0.7f, beta_s = 0;
    char *ordinary[3], *locked[3], *first[2] = {malloc(most), malloc(most)};
    for (int x = 0; x < 3; x++) {
        ordinary[x] = malloc(most);
        if (!ordinary[x] || !first[0] || !first[1] || cuMemHostAlloc((void **)&locked[x], most, 0))
            return printf("skipped: no memory\n"), SKIP;
    }
    for (int dbl = 0; dbl < 2; dbl++) {
        const size_t bytes = most / (dbl ? 1 : 2), period = sizeof random_s * (dbl ? 2 : 1), b_starts = B_STARTS * (dbl ? 8 : 4);
        for (size_t i = 0; i < 2 * bytes; i += 4) /* A, then B, whose data begin elsewhere in the period */
            memcpy((i < bytes ? ordinary[0] + i : ordinary[1] + i - bytes),
                   (const char *)(dbl ? (void *)random_d : random_s) + (i < bytes ? i : i + b_starts) % period, 4);
        memcpy(locked[0], ordinary[0], bytes), memcpy(locked[1], ordinary[1], bytes);
        for (int call = 0; call < calls; call++) {
            const bool is_locked = call % 4 > 0, compared = call < 4 || call % 8 <= 1;
            char **const in = is_locked ? locked : ordinary;
            if (compared)
                memset(in[2], 0xff, bytes);
            if (dbl)
                dgemm("N", "N", &n, &n, &n, &alpha, in[0], &n, in[1], &n, &beta, in[2], &n);
            else
                sgemm("N", "N", &n, &n, &n, &alpha_s, in[0], &n, in[1], &n, &beta_s, in[2], &n);
            if (call < 2)
                memcpy(first[is_locked], in[2], bytes);
            else if (compared)
                CHECK(!memcmp(first[is_locked], in[2], bytes), "%cgemm: call %d has other bits", dbl ? 'd' : 's', call);
        }
    }
    struct gpugemm_stats stats;
    read_stats(&stats, sizeof stats);
    CHECK(stats.recovered == 0, "%llu calls were finished by the CPU", (unsigned long long)stats.recovered);
    CHECK(stats.staged == 2 * (uint64_t)calls, "%llu calls of %d on the GPU", (unsigned long long)stats.staged, 2 * calls);
    printf("%d calls, %llu on the GPU, %llu finished by the CPU: %d failures\n", 2 * calls, (unsigned long long)stats.staged,
           (unsigned long long)stats.recovered, test_failures);
    return test_failures != 0;
}

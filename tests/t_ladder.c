/* t_ladder.c — the kernels of bench/ladder against exact dot products; then the first of them as the oracle for the library's strict sgemm: every
 * element of products too large for the CPU to check.
 *
 *   t_ladder --ladder FOLDER [--lib PATH] [--expect-gpu]
 *
 * The oracle sums in another order, so two right results differ by at most twice the error bound; |A||B| for it is the oracle's own product of the
 * absolute values. */
#include "test.h"

#include "../bench/rig.h"

#include "../bench/ladder/ladder.h"

static __typeof__(gpugemm_sgemm) *sgemm;
static __typeof__(gpugemm_warmup) *warmup;
static handle functions[LADDER_STEPS];

enum { SIDE = 2050, MOST = SIDE * SIDE };
static device_ptr a, b, c, abs_a, abs_b;
static float host_a[MOST], host_b[MOST], ours[MOST], theirs[MOST], sizes[MOST];

static void step(int which, struct ladder_args x, float *result)
{
    void *parameters[] = {&x};
    const struct ladder_step *s = &ladder[which];
    CHECK(!cuLaunchKernel(functions[which], ladder_blocks(x.m, s->tile_m), ladder_blocks(x.n, s->tile_n), 1, (unsigned)s->threads, 1, 1, 0, stream,
                          parameters, NULL),
          "%s does not start", s->name);
    CHECK(!cuStreamSynchronize(stream), "%s fails", s->name);
    cuMemcpyDtoH_v2(result, (device_ptr)x.c, sizeof(float) * (size_t)(x.ldc * x.n));
}

/* Checks a step against exact sums: all elements of C, or 2000 of them, and the padding, which must be unchanged. */
static void check_step(int which, int m, int n, int k, int pad, float alpha, float beta)
{
    struct ladder_args x = {m, n, k, m + pad, k + pad, m + pad, alpha, beta, (float *)a, (float *)b, (float *)c};
    int wrong = 0;
    size_t bytes = sizeof(float) * (size_t)(x.ldc * n);
    double worst = 0;
    if (!ladder_takes(&ladder[which], &x))
        return;
    if (beta != 0)
        cuMemcpyHtoD_v2(c, random_s, bytes);
    else
        cuMemsetD32Async(c, ~0u, bytes / 4, NULL);
    cuCtxSynchronize();
    step(which, x, ours);
    int64_t elements = (int64_t)m * n, by = elements > 2000 ? elements / 2000 : 1;
    for (int64_t e = 0; e < elements; e += by) {
        int64_t i = e % m, j = e / m;
        long double sum, size;
        exact_element(false, k, i, x.lda, j * x.ldb, 1, &sum, &size);
        double c0 = beta != 0 ? random_s[i + j * x.ldc] : 0, error = fabs(ours[i + j * x.ldc] - (double)(alpha * sum + beta * (long double)c0));
        wrong += !(error <= error_bound(false, k, alpha, (double)size, beta, c0));
        worst = fmax(worst, error / (0x1p-24 * (double)size));
    }
    for (int j = 0; j < n && pad; j++)
        for (int i = m; i < x.ldc; i++)
            wrong += beta != 0 ? ours[i + j * x.ldc] != random_s[i + j * x.ldc] : !isnan(ours[i + j * x.ldc]);
    CHECK(!wrong, "%s %dx%dx%d +%d: %d wrong, error %.1f u", ladder[which].name, m, n, k, pad, wrong, worst);
}

static void oracle(int m, int n, int k, int layout)
{
    bool ta = layout & 2, tb = layout & 1;
    struct ladder_args x = {m, n, k, m, k, m, 1, 0, (float *)a, (float *)b, (float *)c};
    for (int64_t e = 0; e < (int64_t)m * k; e++)
        host_a[e] = random_s[e % PERIOD];
    for (int64_t e = 0; e < (int64_t)k * n; e++)
        host_b[e] = random_s[(e + B_STARTS) % PERIOD];
    cuMemcpyHtoD_v2(a, host_a, sizeof(float) * (size_t)m * (size_t)k), cuMemcpyHtoD_v2(b, host_b, sizeof(float) * (size_t)k * (size_t)n);
    cuCtxSynchronize();
    step(0, x, theirs);
    for (int e = 0; e < m * k; e++)
        ours[e] = fabsf(host_a[e]);
    cuMemcpyHtoD_v2(abs_a, ours, sizeof(float) * (size_t)m * (size_t)k);
    for (int e = 0; e < k * n; e++)
        ours[e] = fabsf(host_b[e]);
    cuMemcpyHtoD_v2(abs_b, ours, sizeof(float) * (size_t)k * (size_t)n);
    cuCtxSynchronize();
    x.a = (float *)abs_a, x.b = (float *)abs_b;
    step(0, x, sizes);
    for (int i = 0; i < m && ta; i++) /* the same products, transposed in memory */
        for (int l = 0; l < k; l++)
            ours[l + i * k] = host_a[i + l * m];
    if (ta)
        cuMemcpyHtoD_v2(a, ours, sizeof(float) * (size_t)m * (size_t)k);
    for (int j = 0; j < n && tb; j++)
        for (int l = 0; l < k; l++)
            ours[j + l * n] = host_b[l + j * k];
    if (tb)
        cuMemcpyHtoD_v2(b, ours, sizeof(float) * (size_t)n * (size_t)k);
    cuMemsetD32Async(c, ~0u, (size_t)m * (size_t)n, NULL), cuCtxSynchronize();
    int status = sgemm(GPUGEMM_COL_MAJOR, ta ? GPUGEMM_TRANS : GPUGEMM_NO_TRANS, tb ? GPUGEMM_TRANS : GPUGEMM_NO_TRANS, m, n, k, 1, (float *)a,
                       ta ? k : m, (float *)b, tb ? n : k, 0, (float *)c, m, stream);
    CHECK(status == 0, "sgemm: status %d", status);
    cuStreamSynchronize(stream);
    cuMemcpyDtoH_v2(ours, c, sizeof(float) * (size_t)m * (size_t)n);
    int wrong = 0;
    double worst = 0;
    for (int e = 0; e < m * n; e++) {
        double difference = fabs((double)ours[e] - theirs[e]), bound = 2 * gamma_k(false, k + 2) * sizes[e] * (1 + gamma_k(false, k + 2));
        wrong += !(difference <= bound);
        worst = fmax(worst, difference / (0x1p-24 * sizes[e]));
    }
    CHECK(!wrong, "sgemm %c%c %dx%dx%d: %d of %d wrong", ta ? 'T' : 'N', tb ? 'T' : 'N', m, n, k, wrong, m * n);
    printf("sgemm %c%c %dx%dx%d: all %d elements, at most %.2f u from the oracle\n", ta ? 'T' : 'N', tb ? 'T' : 'N', m, n, k, m * n, worst);
}

int main(int argc, char **argv)
{
    const char *lib = "build/libgpugemm.so", *folder = "build/ladder";
    for (int i = 1; i + 1 < argc; i++) {
        lib = strcmp(argv[i], "--lib") ? lib : argv[i + 1];
        folder = strcmp(argv[i], "--ladder") ? folder : argv[i + 1];
    }
    void *library = dlopen(lib, RTLD_NOW | RTLD_LOCAL);
    if (!library || !resolved(library, "gpugemm_sgemm", &sgemm) || !resolved(library, "gpugemm_warmup", &warmup))
        return fprintf(stderr, "%s lacks names\n", lib), 1;
    if (!open_gpu() || warmup())
        return printf("skipped: no GPU\n"), SKIP;
    draw_data();
    for (device_ptr *x[] = {&a, &b, &c, &abs_a, &abs_b}, **y = x; y < x + 5; y++)
        if (cuMemAlloc_v2(*y, MOST * sizeof(float)))
            return printf("skipped: no GPU memory\n"), SKIP;
    for (int s = 0; s < LADDER_STEPS; s++) {
        char path[1024];
        handle module;
        snprintf(path, sizeof path, "%s/%s.fatbin", folder, ladder[s].name);
        if (cuModuleLoad(&module, path) || cuModuleGetFunction(&functions[s], module, ladder[s].name))
            return fprintf(stderr, "%s does not load\n", path), 1;
    }
    static const int ns[] = {1, 7, 16, 31, 33, 64, 127, 129, 255, 500};
    for (int s = 0; s < LADDER_STEPS; s++) {
        cuMemcpyHtoD_v2(a, random_s, sizeof random_s < MOST * sizeof(float) ? sizeof random_s : MOST * sizeof(float));
        cuMemcpyHtoD_v2(b, random_s + B_STARTS, sizeof(float) * (PERIOD - B_STARTS)); /* as much as the sizes here need */
        for (int i = 0; i < 10; i++)
            for (int pad = 0; pad < 8; pad += i % 2 ? 3 : 7)
                check_step(s, ns[i], ns[(i * 3 + 1) % 10], ns[(i * 7 + 2) % 10], pad, i % 3 ? 1 : -0.7f, i % 2 ? 0.7f : 0);
        check_step(s, 128, 128, 8, 0, 1, 0), check_step(s, 256, 384, 1000, 4, 0.7f, -1), check_step(s, 1024, 640, 1024, 0, 1, 0);
    }
    for (int layout = 0; layout < 4; layout++) {
        oracle(1024, 1024, 1024, layout), oracle(1023, 1025, 2047, layout), oracle(2048, 1999, 2049, layout);
        oracle(64, 64, 40000, layout), oracle(5, 2000, 1500, layout), oracle(2000, 3, 2000, layout);
    }
    printf("%d failures\n", test_failures);
    return test_failures != 0;
}

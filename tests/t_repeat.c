/* t_repeat.c — the same call gives the same bits, 1000 times, while other calls run beside it on other streams.
 *
 *   t_repeat [--lib PATH] [--repeats N] [--expect-gpu]
 *
 * Four streams each run a shape of their own at the same time, and change shapes after a quarter of the repeats, so that every shape runs beside
 * different others: sgemm in the default precision, in strict, and dgemm. C is filled with NaN before each call and compared bitwise with that of the
 * first call, which ran alone. */
#include "test.h"

#include "../bench/rig.h"

static __typeof__(gpugemm_sgemm) *sgemm;
static __typeof__(gpugemm_dgemm) *dgemm;
static __typeof__(gpugemm_set_precision) *set_precision;
static __typeof__(gpugemm_warmup) *warmup;

static const struct shape {
    int64_t m, n, k, pitch; /* pitch: how much longer than needed the leading dimensions are */
} shapes[] = {{256, 256, 256, 0},   {512, 512, 512, 0},    {1000, 1000, 1000, 0}, {1024, 1024, 1024, 0}, {500, 500, 500, 1},    {64, 64, 65000, 0},
              {1, 2048, 2000, 0},   {2048, 1, 2000, 3},    {9, 2000, 1500, 0},    {511, 513, 4095, 0},   {128, 128, 16384, 0},  {777, 333, 555, 7},
              {2000, 96, 1500, 0},  {31, 33, 1023, 0},     {1023, 257, 129, 1},   {1536, 640, 1000, 0},  {1025, 1040, 1000, 1}, {1025, 1025, 1025, 1},
              {512, 513, 8150, 0},  {1026, 1024, 3000, 2}, {16, 2000, 2000, 0},   {1500, 12, 2000, 4},   {6, 1000, 1000, 2},    {30, 2000, 2000, 0},
              {256, 256, 16000, 0}, {1000, 300, 4000, 0},  {320, 320, 8000, 0}};
enum { SHAPES = sizeof shapes / sizeof *shapes, STREAMS = 4, MOST = PERIOD };

static device_ptr a, b, c[STREAMS];
static handle streams[STREAMS];
static void *fetched[STREAMS];

static int start(bool dbl, int layout, const struct shape *s, int lane)
{
    bool ta = layout & 2, tb = layout & 1;
    int64_t lda = (ta ? s->k : s->m) + s->pitch, ldb = (tb ? s->n : s->k) + s->pitch, ldc = s->m;
    enum gpugemm_transpose oa = ta ? GPUGEMM_TRANS : GPUGEMM_NO_TRANS, ob = tb ? GPUGEMM_TRANS : GPUGEMM_NO_TRANS;
    size_t bytes = (size_t)(ldc * s->n) * (dbl ? 8 : 4);
    cuMemsetD32Async(c[lane], ~0u, bytes / 4, streams[lane]);
    int status =
        dbl ? dgemm(GPUGEMM_COL_MAJOR, oa, ob, s->m, s->n, s->k, 0.7, (double *)a, lda, (double *)b, ldb, 0, (double *)c[lane], ldc, streams[lane])
            : sgemm(GPUGEMM_COL_MAJOR, oa, ob, s->m, s->n, s->k, 0.7f, (float *)a, lda, (float *)b, ldb, 0, (float *)c[lane], ldc, streams[lane]);
    cuMemcpyDtoHAsync_v2(fetched[lane], c[lane], bytes, streams[lane]);
    return status;
}

int main(int argc, char **argv)
{
    const char *lib = "build/libgpugemm.so";
    int repeats = 1000;
    for (int i = 1; i + 1 < argc; i++) {
        lib = strcmp(argv[i], "--lib") ? lib : argv[i + 1];
        repeats = strcmp(argv[i], "--repeats") ? repeats : atoi(argv[i + 1]);
    }
    void *library = dlopen(lib, RTLD_NOW | RTLD_LOCAL);
    if (!library || !resolved(library, "gpugemm_sgemm", &sgemm) || !resolved(library, "gpugemm_dgemm", &dgemm) ||
        !resolved(library, "gpugemm_set_precision", &set_precision) || !resolved(library, "gpugemm_warmup", &warmup))
        return fprintf(stderr, "%s lacks names\n", lib), 1;
    if (!open_gpu() || warmup())
        return printf("skipped: no GPU\n"), SKIP;
    draw_data();
    static void *first[SHAPES];
    for (int lane = 0; lane < STREAMS; lane++)
        if (cuStreamCreate(&streams[lane], 1) || cuMemAlloc_v2(&c[lane], MOST * 8) || cuMemHostAlloc(&fetched[lane], MOST * 8, 0))
            return printf("skipped: no memory\n"), SKIP;
    cuMemAlloc_v2(&a, MOST * 8), cuMemAlloc_v2(&b, MOST * 8);
    for (int pass = 0; pass < 3; pass++) {
        const bool dbl = pass == 2;
        const char *const routine = (const char *[]){"sgemm", "strict sgemm", "dgemm"}[pass];
        set_precision(pass == 1 ? GPUGEMM_PRECISION_STRICT : GPUGEMM_PRECISION_DEFAULT);
        const char *data = dbl ? (char *)random_d : (char *)random_s;
        const size_t size = dbl ? 8 : 4;
        cuMemcpyHtoD_v2(a, data, PERIOD * size);
        cuMemcpyHtoD_v2(b, data + B_STARTS * size, (PERIOD - B_STARTS) * size);
        cuMemcpyHtoD_v2(b + (PERIOD - B_STARTS) * size, data, B_STARTS * size);
        cuCtxSynchronize();
        for (int i = 0; i < SHAPES; i++) {
            size_t bytes = (size_t)(shapes[i].m * shapes[i].n) * size;
            CHECK(!start(dbl, i % 4, &shapes[i], 0), "%s: shape %d is refused", routine, i);
            cuCtxSynchronize();
            first[i] = realloc(first[i], bytes);
            memcpy(first[i], fetched[0], bytes);
        }
        for (int i = 0; i < SHAPES; i++)
            for (int r = 0; r < repeats / STREAMS; r++) {
                for (int lane = 0; lane < STREAMS; lane++)
                    CHECK(!start(dbl, (i + lane * 5) % SHAPES % 4, &shapes[(i + lane * 5) % SHAPES], lane), "%s: repeat %d is refused", routine, r);
                cuCtxSynchronize();
                for (int lane = 0; lane < STREAMS; lane++) {
                    const int which = (i + lane * 5) % SHAPES;
                    const struct shape *s = &shapes[which];
                    CHECK(!memcmp(fetched[lane], first[which], (size_t)(s->m * s->n) * size), "%s %lldx%lldx%lld: repeat %d differs beside others",
                          routine, (long long)s->m, (long long)s->n, (long long)s->k, r);
                }
            }
    }
    printf("%d shapes, sgemm in both precisions and dgemm, %d repeats each on %d streams: %d failures\n", SHAPES, repeats / STREAMS * STREAMS,
           STREAMS, test_failures);
    return test_failures != 0;
}

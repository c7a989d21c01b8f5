/* bench.c — libgpugemm beside cuBLAS, cublasXt, NVBLAS and OpenBLAS, interleaved in one process on the same random data.
 *
 *   bench [--device] [--host] [--types sd] [--layouts NN,NT,TN,TT] [--sizes 1024,4096,4097x4099x4093] [--seconds 0.3] [--csv FILE]
 *         [--lib PATH] [--blas PATH] [--cublas PATH] [--nvblas PATH] [--commit TEXT]
 *
 * --device: operands in GPU memory, gpugemm_?gemm on a stream against cublas?gemm; CUDA events around each call, L2 flushed before it,
 * beta = 0. --host: pageable operands under the BLAS names; wall clock. Median of as many rounds as fit `seconds` (at least 5; host 3), the
 * contestants taking turns within a round. Every contestant's C is verified: sampled elements against float64 (long double for dgemm) dot
 * products, as a fraction of the componentwise bound: above 1 is wrong, and the exit status says so.
 * Everything but libc is opened at run time, and what is not there is left out. */
#include <dlfcn.h>
#include <getopt.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../include/gpugemm.h"

struct problem {
    bool dbl, ta, tb;
    int64_t m, n, k, lda, ldb, ldc;
    const void *a, *b; /* in the memory the contestant wants: the GPU's or the host's */
    void *c;
};

/* ---- what is opened at run time ------------------------------------------------------------------------------------------ */

typedef void *handle;
typedef uint64_t device_ptr;

#define DRIVER(X)                                                                                                      \
    X(cuInit, (unsigned))                                                                                              \
    X(cuDeviceGet, (int *, int))                                                                                       \
    X(cuDevicePrimaryCtxRetain, (handle *, int))                                                                       \
    X(cuCtxSetCurrent, (handle))                                                                                       \
    X(cuMemAlloc_v2, (device_ptr *, size_t))                                                                           \
    X(cuMemFree_v2, (device_ptr))                                                                                      \
    X(cuMemcpyHtoD_v2, (device_ptr, const void *, size_t))                                                             \
    X(cuMemcpyDtoH_v2, (void *, device_ptr, size_t))                                                                   \
    X(cuMemsetD32Async, (device_ptr, unsigned, size_t, handle))                                                        \
    X(cuStreamCreate, (handle *, unsigned))                                                                            \
    X(cuStreamSynchronize, (handle))                                                                                   \
    X(cuEventCreate, (handle *, unsigned))                                                                             \
    X(cuEventRecord, (handle, handle))                                                                                 \
    X(cuEventElapsedTime, (float *, handle, handle))
#define CUBLAS(X)                                                                                                      \
    X(cublasCreate_v2, (handle *))                                                                                     \
    X(cublasSetStream_v2, (handle, handle))                                                                            \
    X(cublasSetMathMode, (handle, int))                                                                                \
    X(cublasSgemm_v2, (handle, int, int, int, int, int, const float *, const void *, int, const void *, int, const float *, void *, int)) \
    X(cublasDgemm_v2, (handle, int, int, int, int, int, const double *, const void *, int, const void *, int, const double *, void *, int)) \
    X(cublasXtCreate, (handle *))                                                                                      \
    X(cublasXtDeviceSelect, (handle, int, int *))                                                                      \
    X(cublasXtSgemm, (handle, int, int, size_t, size_t, size_t, const float *, const void *, size_t, const void *, size_t, const float *, void *, size_t)) \
    X(cublasXtDgemm, (handle, int, int, size_t, size_t, size_t, const double *, const void *, size_t, const void *, size_t, const double *, void *, size_t))
#define POINTER(name, arguments) static int(*name) arguments;
DRIVER(POINTER) CUBLAS(POINTER)
#define OURS(X) X(sgemm) X(dgemm) X(warmup) X(last_decision)
#define POINTER_TO_OURS(name) static __typeof__(gpugemm_##name) *our_##name;
OURS(POINTER_TO_OURS)

typedef void fortran_gemm(const char *, const char *, const int *, const int *, const int *, const void *, const void *, const int *,
                          const void *, const int *, const void *, void *, const int *, size_t, size_t);

static const char *lib = "build/libgpugemm.so", *blas = "libopenblas.so.0", *cublas_path, *nvblas_path, *commit, *types = "sd";
static const char *layouts = "NN,NT,TN,TT", *sizes = "256,512,1000,1024,2048,4096,4097x4099x4093,8192";
static double seconds = 0.3;
static FILE *csv;
static char machine[256] = "no GPU";
static handle stream, cublas, cublas_xt;

static void *open_first(const char *const *names)
{
    for (void *library; *names; names++)
        if ((library = dlopen(*names, RTLD_NOW | RTLD_LOCAL)))
            return library;
    return NULL;
}

static bool resolved(void *library, const char *name, void *pointer)
{
    *(void **)pointer = library ? dlsym(library, name) : NULL;
    return *(void **)pointer != NULL;
}

static bool open_gpu(void)
{
    void *library = open_first((const char *[]){"libcuda.so.1", NULL});
    int device;
    handle context;
    bool all = library != NULL;
#define FIND(name, arguments) all = resolved(library, #name, &name) && all;
    DRIVER(FIND)
    if (!all || cuInit(0) || cuDeviceGet(&device, 0) || cuDevicePrimaryCtxRetain(&context, device) || cuCtxSetCurrent(context) ||
        cuStreamCreate(&stream, 1 /* CU_STREAM_NON_BLOCKING */))
        return false;
    library = open_first((const char *[]){cublas_path ? cublas_path : "libcublas.so.13", "libcublas.so.12", "libcublas.so",
                                          "/usr/local/cuda/lib64/libcublas.so", NULL});
    all = library != NULL;
    CUBLAS(FIND)
    if (all && cublasCreate_v2(&cublas) == 0) {
        cublasSetStream_v2(cublas, stream);
        cublasSetMathMode(cublas, 0); /* CUBLAS_DEFAULT_MATH: FP32 stays FP32 */
        if (cublasXtCreate(&cublas_xt) || cublasXtDeviceSelect(cublas_xt, 1, (int[]){0}))
            cublas_xt = NULL;
    } else
        cublas = NULL;
    FILE *p = popen("nvidia-smi --query-gpu=name,driver_version,clocks.max.sm,clocks.max.mem,power.limit --format=csv,noheader -i 0 2>/dev/null", "r");
    if (p && fgets(machine, sizeof machine, p)) {
        machine[strcspn(machine, "\n")] = 0;
        for (char *c = machine; *c; c++)
            *c = *c == ',' ? ';' : *c;
    }
    if (p)
        pclose(p);
    return true;
}

/* ---- the contestants: false when one cannot run the problem ---------------------------------------------------------------- */

static fortran_gemm *ours_host[2], *openblas_host[2], *nvblas_host[2];

static bool run_ours(const struct problem *p)
{
    enum gpugemm_transpose ta = p->ta ? GPUGEMM_TRANS : GPUGEMM_NO_TRANS, tb = p->tb ? GPUGEMM_TRANS : GPUGEMM_NO_TRANS;
    return our_sgemm &&
           (p->dbl ? our_dgemm(GPUGEMM_COL_MAJOR, ta, tb, p->m, p->n, p->k, 1, p->a, p->lda, p->b, p->ldb, 0, p->c, p->ldc, stream)
                   : our_sgemm(GPUGEMM_COL_MAJOR, ta, tb, p->m, p->n, p->k, 1, p->a, p->lda, p->b, p->ldb, 0, p->c, p->ldc, stream)) == 0;
}

static bool run_cublas(const struct problem *p)
{
    int m = (int)p->m, n = (int)p->n, k = (int)p->k, lda = (int)p->lda, ldb = (int)p->ldb, ldc = (int)p->ldc;
    double one = 1, zero = 0;
    float one_f = 1, zero_f = 0;
    return cublas && (p->dbl ? cublasDgemm_v2(cublas, p->ta, p->tb, m, n, k, &one, p->a, lda, p->b, ldb, &zero, p->c, ldc)
                             : cublasSgemm_v2(cublas, p->ta, p->tb, m, n, k, &one_f, p->a, lda, p->b, ldb, &zero_f, p->c, ldc)) == 0;
}

static bool run_xt(const struct problem *p)
{
    size_t m = (size_t)p->m, n = (size_t)p->n, k = (size_t)p->k, lda = (size_t)p->lda, ldb = (size_t)p->ldb, ldc = (size_t)p->ldc;
    double one = 1, zero = 0;
    float one_f = 1, zero_f = 0;
    return cublas_xt && (p->dbl ? cublasXtDgemm(cublas_xt, p->ta, p->tb, m, n, k, &one, p->a, lda, p->b, ldb, &zero, p->c, ldc)
                                : cublasXtSgemm(cublas_xt, p->ta, p->tb, m, n, k, &one_f, p->a, lda, p->b, ldb, &zero_f, p->c, ldc)) == 0;
}

static bool run_fortran(fortran_gemm *const gemm[2], const struct problem *p)
{
    int m = (int)p->m, n = (int)p->n, k = (int)p->k, lda = (int)p->lda, ldb = (int)p->ldb, ldc = (int)p->ldc;
    double one = 1, zero = 0;
    float one_f = 1, zero_f = 0;
    if (gemm[p->dbl])
        gemm[p->dbl](p->ta ? "T" : "N", p->tb ? "T" : "N", &m, &n, &k, p->dbl ? (void *)&one : &one_f, p->a, &lda, p->b, &ldb,
                     p->dbl ? (void *)&zero : &zero_f, p->c, &ldc, 1, 1);
    return gemm[p->dbl] != NULL;
}

static bool run_ours_host(const struct problem *p) { return run_fortran(ours_host, p); }
static bool run_openblas(const struct problem *p) { return run_fortran(openblas_host, p); }
static bool run_nvblas(const struct problem *p) { return run_fortran(nvblas_host, p); }

struct contestant {
    const char *name;
    bool (*run)(const struct problem *);
};
static const struct contestant on_device[] = {{"gpugemm", run_ours}, {"cublas", run_cublas}};
static const struct contestant on_host[] = {{"gpugemm", run_ours_host}, {"cublasxt", run_xt}, {"nvblas", run_nvblas}, {"openblas", run_openblas}};

static void open_host(bool gpu)
{
    void *library = dlopen(blas, RTLD_NOW | RTLD_LOCAL);
    for (int d = 0; d < 2; d++)
        resolved(library, d ? "dgemm_" : "sgemm_", &openblas_host[d]);
    if (!gpu)
        return;
    char path[] = "/tmp/nvblas.conf.XXXXXX";
    int fd = mkstemp(path);
    dprintf(fd, "NVBLAS_LOGFILE /dev/null\nNVBLAS_CPU_BLAS_LIB %s\nNVBLAS_GPU_LIST 0\n", blas);
    close(fd);
    setenv("NVBLAS_CONFIG_FILE", path, 1);
    library = open_first((const char *[]){nvblas_path ? nvblas_path : "libnvblas.so.13", "libnvblas.so.12", "libnvblas.so",
                                          "/usr/local/cuda/lib64/libnvblas.so", NULL});
    for (int d = 0; d < 2; d++)
        resolved(library, d ? "dgemm_" : "sgemm_", &nvblas_host[d]);
}

/* ---- random operands: a prime period of them, so that host and GPU copies of any size can be made and read back by index ---- */

enum { PERIOD = 4194301 };
static double random_d[PERIOD];
static float random_s[PERIOD];

static void draw_data(void)
{
    uint64_t x = 88172645463325252u;
    for (int i = 0; i < PERIOD; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        random_d[i] = random_s[i] = (float)((double)(int64_t)x * 0x1p-63);
        random_d[i] += (double)(x & 0xffffff) * 0x1p-53;
    }
}

static double datum(bool dbl, int64_t index, int which) /* B starts elsewhere in the period than A */
{
    int64_t i = (index + which * 1234567) % PERIOD;
    return dbl ? random_d[i] : (double)random_s[i];
}

static void *make_operand(bool dbl, int64_t elements, int which, bool device)
{
    size_t size = dbl ? 8 : 4, done = 0, total = (size_t)elements;
    device_ptr d = 0;
    char *h = NULL;
    if (device ? cuMemAlloc_v2(&d, total * size) != 0 : (h = malloc(total * size)) == NULL) {
        fprintf(stderr, "no memory for %zu elements\n", total);
        exit(1);
    }
    for (size_t i = (size_t)which * 1234567 % PERIOD; done < total; i = 0) {
        size_t count = PERIOD - i < total - done ? PERIOD - i : total - done;
        const void *from = dbl ? (const void *)(random_d + i) : random_s + i;
        if (device)
            cuMemcpyHtoD_v2(d + done * size, from, count * size);
        else
            memcpy(h + done * size, from, count * size);
        done += count;
    }
    return device ? (void *)d : h;
}

static void release(void *operand, bool device)
{
    if (device)
        cuMemFree_v2((device_ptr)operand);
    else
        free(operand);
}

static void poison(const struct problem *p, bool device)
{
    size_t bytes = (size_t)(p->ldc * p->n) * (p->dbl ? 8 : 4);
    if (device)
        cuMemsetD32Async((device_ptr)p->c, ~0u, bytes / 4, stream), cuStreamSynchronize(stream);
    else
        memset(p->c, 0xff, bytes);
}

/* Largest error of 300 elements, corners first, as a fraction of the componentwise bound. NaN counts as infinite. */
static double worst_error(const struct problem *p, bool device)
{
    double worst = 0, u = p->dbl ? 0x1p-53 : 0x1p-24, gamma = ((double)p->k + 2) * u / (1 - ((double)p->k + 2) * u);
    for (int64_t s = 0; s < 300; s++) {
        int64_t i = s < 4 ? (s & 1) * (p->m - 1) : s * 7919 % p->m, j = s < 4 ? (s >> 1) * (p->n - 1) : s * 104729 % p->n;
        long double sum = 0, size = 0;
        for (int64_t l = 0; l < p->k; l++) {
            long double term = (long double)datum(p->dbl, p->ta ? l + i * p->lda : i + l * p->lda, 0) *
                               datum(p->dbl, p->tb ? j + l * p->ldb : l + j * p->ldb, 1);
            sum += term, size += fabsl(term);
        }
        size_t offset = (size_t)(i + j * p->ldc), bytes = p->dbl ? 8 : 4;
        double d = 0;
        float f = 0;
        void *to = p->dbl ? (void *)&d : &f;
        if (device)
            cuMemcpyDtoH_v2(to, (device_ptr)p->c + offset * bytes, bytes);
        else
            memcpy(to, (char *)p->c + offset * bytes, bytes);
        double error = fabs((double)((p->dbl ? d : (double)f) - sum)) / (gamma * (double)size);
        worst = error <= worst ? worst : isnan(error) ? INFINITY : error;
    }
    return worst;
}

/* ---- timing ------------------------------------------------------------------------------------------------------------------ */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b)
{
    return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

enum { MAX_ROUNDS = 100, MAX_CONTESTANTS = 4 };

static void flush_l2(void)
{
    enum { FLUSH = 256 << 20 }; /* more than any L2 so far */
    static device_ptr buffer;
    static unsigned value;
    if (buffer || cuMemAlloc_v2(&buffer, FLUSH) == 0)
        cuMemsetD32Async(buffer, value++, FLUSH / 4, stream);
}

/* Fills times[contestant][round]; contestants that are not `able` are passed over. On the device they take turns. On the host each makes its calls
 * in a row, OpenBLAS last: its threads spin for more than 0.1 s after a call, at the cost of whoever copies with threads of its own next. */
static void time_rounds(const struct contestant *contestants, int count, const bool *able, const struct problem *p, bool device,
                        int rounds, double times[][MAX_ROUNDS])
{
    static handle events[MAX_CONTESTANTS][MAX_ROUNDS][2];
    if (!device) {
        usleep(300000);
        for (int c = 0; c < count; c++)
            for (int r = 0; r < rounds && able[c]; r++) {
                usleep(2000);
                double start = now();
                contestants[c].run(p);
                times[c][r] = now() - start;
            }
        return;
    }
    for (int r = 0; r < rounds; r++)
        for (int c = 0; c < count; c++)
            if (able[c]) {
                for (int e = 0; e < 2; e++)
                    if (!events[c][r][e])
                        cuEventCreate(&events[c][r][e], 0);
                flush_l2();
                cuEventRecord(events[c][r][0], stream);
                contestants[c].run(p);
                cuEventRecord(events[c][r][1], stream);
            }
    cuStreamSynchronize(stream);
    for (int c = 0; c < count; c++)
        for (int r = 0; r < rounds && able[c]; r++) {
            float ms = NAN;
            cuEventElapsedTime(&ms, events[c][r][0], events[c][r][1]);
            times[c][r] = 1e-3 * ms;
        }
}

/* One row of the table. Returns whether all results were right. */
static bool measure(const struct contestant *contestants, int count, struct problem p, bool device)
{
    static double times[MAX_CONTESTANTS][MAX_ROUNDS];
    double slowest = 0, error[MAX_CONTESTANTS] = {0}, ours = 0;
    bool able[MAX_CONTESTANTS], right = true;
    struct gpugemm_decision decision = {.kernel = "", .path = ""};
    p.lda = p.ta ? p.k : p.m, p.ldb = p.tb ? p.n : p.k, p.ldc = p.m;
    p.a = make_operand(p.dbl, p.m * p.k, 0, device), p.b = make_operand(p.dbl, p.k * p.n, 1, device);
    p.c = make_operand(p.dbl, p.m * p.n, 2, device);
    if (device) /* a copy from pageable memory may return before its last bytes have arrived, and `stream` does not wait for it */
        cuStreamSynchronize(NULL);
    for (int c = 0; c < count; c++) {
        poison(&p, device);
        able[c] = contestants[c].run(&p);
        if (device)
            cuStreamSynchronize(stream);
        if (c == 0 && able[c] && our_last_decision)
            our_last_decision(&decision, sizeof decision);
        error[c] = able[c] ? worst_error(&p, device) : 0;
        right = right && error[c] <= 1;
    }
    time_rounds(contestants, count, able, &p, device, 1, times);
    for (int c = 0; c < count; c++)
        slowest += able[c] ? times[c][0] : 0;
    int least = device ? 5 : 3, rounds = (int)fmin(seconds / (slowest + 1e-9), MAX_ROUNDS);
    rounds = rounds < least ? least : rounds;
    time_rounds(contestants, count, able, &p, device, rounds, times);

    printf("%s %cgemm %c%c %6lld %6lld %6lld", device ? "device" : "host  ", p.dbl ? 'd' : 's', p.ta ? 'T' : 'N', p.tb ? 'T' : 'N',
           (long long)p.m, (long long)p.n, (long long)p.k);
    time_t t = time(NULL);
    char date[32];
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime(&t));
    for (int c = 0; c < count; c++) {
        if (!able[c]) {
            printf("  %8s %7s", contestants[c].name, "-");
            continue;
        }
        qsort(times[c], (size_t)rounds, sizeof(double), ascending);
        double median = times[c][rounds / 2], rate = 2e-12 * (double)p.m * (double)p.n * (double)p.k / median;
        ours = c == 0 ? median : ours;
        printf("  %8s %7.3f", contestants[c].name, rate);
        if (c > 0 && ours > 0)
            printf(" (x%.2f)", median / ours);
        if (!(error[c] <= 1))
            printf(" WRONG");
        if (csv)
            fprintf(csv, "%s,%cgemm,%c%c,%lld,%lld,%lld,%s,%s,%d,%.9f,%.9f,%.9f,%.4f,%.4f,%s,%s,%s\n", device ? "device" : "host", p.dbl ? 'd' : 's',
                    p.ta ? 'T' : 'N', p.tb ? 'T' : 'N', (long long)p.m, (long long)p.n, (long long)p.k, contestants[c].name,
                    c ? "" : decision.kernel, rounds, median, times[c][0], times[c][rounds - 1], rate, error[c], machine, date, commit);
    }
    printf("   %d rounds, error %.2f  %s %s\n", rounds, error[0], decision.path, decision.kernel);
    fflush(stdout);
    release((void *)p.a, device), release((void *)p.b, device), release(p.c, device);
    return right;
}

static bool measure_all(const struct contestant *contestants, int count, bool device)
{
    bool right = true;
    char *list = strdup(sizes), *save = NULL;
    for (const char *type = types; *type; type++)
        for (const char *layout = layouts; layout; layout = strchr(layout, ',') ? strchr(layout, ',') + 1 : NULL) {
            strcpy(list, sizes);
            for (char *size = strtok_r(list, ",", &save); size; size = strtok_r(NULL, ",", &save)) {
                long long m, n, k;
                int given = sscanf(size, "%lldx%lldx%lld", &m, &n, &k);
                struct problem p = {.dbl = *type == 'd', .ta = layout[0] == 'T', .tb = layout[1] == 'T', .m = m,
                                    .n = given == 3 ? n : m, .k = given == 3 ? k : m};
                right = measure(contestants, count, p, device) && right;
            }
        }
    free(list);
    return right;
}

int main(int argc, char **argv)
{
    int device = 0, host = 0;
    const char *csv_path = NULL;
    const struct option options[] = {{"device", 0, &device, 1}, {"host", 0, &host, 1}, {"types", 1, 0, 't'}, {"layouts", 1, 0, 'y'},
                                     {"sizes", 1, 0, 'n'}, {"seconds", 1, 0, 's'}, {"csv", 1, 0, 'c'}, {"lib", 1, 0, 'l'},
                                     {"blas", 1, 0, 'b'}, {"cublas", 1, 0, 'u'}, {"nvblas", 1, 0, 'v'}, {"commit", 1, 0, 'g'}, {0}};
    for (int o; (o = getopt_long(argc, argv, "", options, NULL)) != -1;)
        switch (o) {
        case 't': types = optarg; break;
        case 'y': layouts = optarg; break;
        case 'n': sizes = optarg; break;
        case 's': seconds = strtod(optarg, NULL); break;
        case 'c': csv_path = optarg; break;
        case 'l': lib = optarg; break;
        case 'b': blas = optarg; break;
        case 'u': cublas_path = optarg; break;
        case 'v': nvblas_path = optarg; break;
        case 'g': commit = optarg; break;
        case 0: break;
        default: return 2;
        }
    setenv("NVIDIA_TF32_OVERRIDE", "0", 1); /* no library may trade precision for speed here */
    setenv("GPUGEMM_BLAS", blas, 0);
    draw_data();
    bool gpu = open_gpu(), right = true;
    char head[64] = "";
    FILE *git = commit ? NULL : popen("git rev-parse --short HEAD 2>/dev/null", "r");
    if (git && fgets(head, sizeof head, git))
        head[strcspn(head, "\n")] = 0;
    commit = commit ? commit : head;
    void *library = dlopen(lib, RTLD_NOW | RTLD_LOCAL);
    bool all = library != NULL;
#define FIND_OURS(name) all = resolved(library, "gpugemm_" #name, &our_##name) && all;
    OURS(FIND_OURS)
    if (!all)
        fprintf(stderr, "%s is left out: %s\n", lib, library ? "it lacks a name of gpugemm.h" : dlerror());
    if (csv_path && !(csv = fopen(csv_path, "w")))
        return perror(csv_path), 1;
    if (csv)
        fprintf(csv, "where,routine,layout,m,n,k,library,kernel,rounds,median_s,min_s,max_s,tflops,error,machine,date,commit\n");
    printf("# %s; commit %s; TFLOP/s, then how many times longer than gpugemm's the others take\n", machine, commit);
    if (device && !gpu)
        printf("# no GPU: --device is left out\n");
    if (gpu && all)
        our_warmup();
    if (device && gpu)
        right = measure_all(all ? on_device : on_device + 1, all ? 2 : 1, true) && right;
    if (host) {
        open_host(gpu);
        for (int d = 0; d < 2; d++)
            resolved(library, d ? "dgemm_" : "sgemm_", &ours_host[d]);
        right = measure_all(on_host, 4, false) && right;
    }
    if (csv)
        fclose(csv);
    return !right;
}

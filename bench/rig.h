/* rig.h — what the benchmark programs share: the driver, cuBLAS and NVML opened at run time, a description of the machine, random operands, medians.
 *
 * Everything but libc is opened by dlopen; what is missing is left out of the comparison. The random data have a prime period, so that operands of
 * any size, on the host and on the GPU, can be made by copying and read back by index. */
#ifndef RIG_H
#define RIG_H

#include <dlfcn.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../include/gpugemm.h"

typedef void *handle;
typedef uint64_t device_ptr;

#define DRIVER(X)                                                                                                                                    \
    X(cuInit, (unsigned))                                                                                                                            \
    X(cuDeviceGet, (int *, int))                                                                                                                     \
    X(cuDeviceGetAttribute, (int *, int, int))                                                                                                       \
    X(cuDeviceGetPCIBusId, (char *, int, int))                                                                                                       \
    X(cuDevicePrimaryCtxRetain, (handle *, int))                                                                                                     \
    X(cuCtxSetCurrent, (handle))                                                                                                                     \
    X(cuCtxSynchronize, (void))                                                                                                                      \
    X(cuModuleLoad, (handle *, const char *))                                                                                                        \
    X(cuModuleGetFunction, (handle *, handle, const char *))                                                                                         \
    X(cuLaunchKernel, (handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, handle, void **, void **))                      \
    X(cuMemAlloc_v2, (device_ptr *, size_t))                                                                                                         \
    X(cuMemFree_v2, (device_ptr))                                                                                                                    \
    X(cuMemHostAlloc, (void **, size_t, unsigned))                                                                                                   \
    X(cuMemFreeHost, (void *))                                                                                                                       \
    X(cuMemcpyHtoD_v2, (device_ptr, const void *, size_t))                                                                                           \
    X(cuMemcpyDtoH_v2, (void *, device_ptr, size_t))                                                                                                 \
    X(cuMemcpyDtoD_v2, (device_ptr, device_ptr, size_t))                                                                                             \
    X(cuMemcpyHtoDAsync_v2, (device_ptr, const void *, size_t, handle))                                                                              \
    X(cuMemcpyDtoHAsync_v2, (void *, device_ptr, size_t, handle))                                                                                    \
    X(cuMemcpyDtoDAsync_v2, (device_ptr, device_ptr, size_t, handle))                                                                                \
    X(cuMemsetD32Async, (device_ptr, unsigned, size_t, handle))                                                                                      \
    X(cuStreamCreate, (handle *, unsigned))                                                                                                          \
    X(cuStreamSynchronize, (handle))                                                                                                                 \
    X(cuEventCreate, (handle *, unsigned))                                                                                                           \
    X(cuEventRecord, (handle, handle))                                                                                                               \
    X(cuEventElapsedTime, (float *, handle, handle))
#define CUBLAS(X)                                                                                                                                    \
    X(cublasCreate_v2, (handle *))                                                                                                                   \
    X(cublasSetStream_v2, (handle, handle))                                                                                                          \
    X(cublasSetMathMode, (handle, int))                                                                                                              \
    X(cublasGetVersion_v2, (handle, int *))                                                                                                          \
    X(cublasSgemm_v2, (handle, int, int, int, int, int, const float *, const void *, int, const void *, int, const float *, void *, int))            \
    X(cublasDgemm_v2, (handle, int, int, int, int, int, const double *, const void *, int, const void *, int, const double *, void *, int))          \
    X(cublasXtCreate, (handle *))                                                                                                                    \
    X(cublasXtDeviceSelect, (handle, int, int *))                                                                                                    \
    X(cublasXtSgemm,                                                                                                                                 \
      (handle, int, int, size_t, size_t, size_t, const float *, const void *, size_t, const void *, size_t, const float *, void *, size_t))          \
    X(cublasXtDgemm,                                                                                                                                 \
      (handle, int, int, size_t, size_t, size_t, const double *, const void *, size_t, const void *, size_t, const double *, void *, size_t))
#define POINTER(name, arguments) static int(*name) arguments __attribute__((unused));
DRIVER(POINTER)
CUBLAS(POINTER)

static char machine[256] = "no GPU"; /* name; driver; SM clock, memory clock and power limit: a field of the CSV */
static const char *commit;
static handle stream, cublas;
static int compute_capability __attribute__((unused)), sm_count __attribute__((unused)), sm_mhz __attribute__((unused));

static inline void *open_first(const char *const *names)
{
    for (void *library; *names; names++)
        if ((library = dlopen(*names, RTLD_NOW | RTLD_LOCAL)))
            return library;
    return NULL;
}

static inline bool resolved(void *library, const char *name, void *pointer)
{
    *(void **)pointer = library ? dlsym(library, name) : NULL;
    return *(void **)pointer != NULL;
}

static char bus_id[32]; /* of the GPU: NVML does not know CUDA_VISIBLE_DEVICES */

/* Asks NVML about the GPU: `what` is nvmlDeviceGetClockInfo or …TotalEnergyConsumption. */
static inline void *ask_board(const char *what, handle *board)
{
    static handle found;
    static void *nvml;
    void *ask;
    if (!nvml) {
        int (*init)(void), (*by_bus)(const char *, handle *);
        nvml = open_first((const char *[]){"libnvidia-ml.so.1", NULL});
        if (!resolved(nvml, "nvmlInit_v2", &init) || !resolved(nvml, "nvmlDeviceGetHandleByPciBusId_v2", &by_bus) || init() || by_bus(bus_id, &found))
            found = NULL;
    }
    *board = found;
    return found && resolved(nvml, what, &ask) ? ask : NULL;
}

/* The SM clock now, in MHz: to be asked while the GPU works. 0 if NVML does not say. */
static inline int sm_clock(void)
{
    handle board;
    int (*clock_info)(handle, int, unsigned *) = ask_board("nvmlDeviceGetClockInfo", &board);
    unsigned mhz = 0;
    return clock_info && clock_info(board, 1 /* NVML_CLOCK_SM */, &mhz) == 0 ? (int)mhz : 0;
}

/* Joules that the GPU has consumed since some fixed time; 0 if NVML does not say. */
static inline double energy(void)
{
    handle board;
    int (*consumption)(handle, unsigned long long *) = ask_board("nvmlDeviceGetTotalEnergyConsumption", &board);
    unsigned long long millijoules = 0;
    return consumption && consumption(board, &millijoules) == 0 ? 1e-3 * (double)millijoules : 0;
}

static inline void describe_machine(void)
{
    FILE *p =
        popen("nvidia-smi --query-gpu=name,driver_version,clocks.max.sm,clocks.max.mem,power.limit --format=csv,noheader -i 0 2>/dev/null", "r");
    if (p && fgets(machine, sizeof machine, p)) {
        machine[strcspn(machine, "\n")] = 0;
        for (char *c = machine; *c; c++)
            *c = *c == ',' ? ';' : *c;
    }
    if (p)
        pclose(p);
}

/* Opens the first GPU, makes its primary context current, and creates `stream`. */
static inline bool open_gpu(void)
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
    int khz = 0, major = 0, minor = 0; /* attributes by their numbers in cuda.h, which need not be installed here */
    cuDeviceGetAttribute(&sm_count, 16, device), cuDeviceGetAttribute(&khz, 13, device);
    cuDeviceGetAttribute(&major, 75, device), cuDeviceGetAttribute(&minor, 76, device);
    sm_mhz = khz / 1000, compute_capability = 10 * major + minor;
    cuDeviceGetPCIBusId(bus_id, sizeof bus_id, device);
    describe_machine();
    return true;
}

static inline void *open_cublas(const char *path)
{
    void *library =
        open_first((const char *[]){path ? path : "libcublas.so.13", "libcublas.so.12", "libcublas.so", "/usr/local/cuda/lib64/libcublas.so", NULL});
    bool all = library != NULL;
    CUBLAS(FIND)
    if (!all || cublasCreate_v2(&cublas))
        return cublas = NULL;
    cublasSetStream_v2(cublas, stream);
    cublasSetMathMode(cublas, 0); /* CUBLAS_DEFAULT_MATH: FP32 stays FP32 */
    return library;
}
#undef FIND

static inline void find_commit(void)
{
    static char head[64];
    FILE *git = commit ? NULL : popen("git rev-parse --short HEAD 2>/dev/null", "r");
    if (git && fgets(head, sizeof head, git))
        head[strcspn(head, "\n")] = 0;
    if (git)
        pclose(git);
    commit = commit ? commit : head;
}

static inline const char *date_now(void)
{
    static char date[32];
    time_t t = time(NULL);
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime(&t));
    return date;
}

static inline double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline int ascending(const void *a, const void *b)
{
    return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

/* Sorts x. */
static inline double median(double *x, int count)
{
    qsort(x, (size_t)count, sizeof *x, ascending);
    return count ? x[count / 2] : NAN;
}

/* ---- random operands in (-1, 1) ------------------------------------------------------------------------------------------------------ */

enum { PERIOD = 4194301, B_STARTS = 1234567 }; /* in elements; B_STARTS: where in the period B begins */
static double random_d[PERIOD];
static float random_s[PERIOD];

static inline double draw_uniform(uint64_t *x)
{
    *x ^= *x << 13, *x ^= *x >> 7, *x ^= *x << 17;
    return (double)(int64_t)*x * 0x1p-63;
}

/* uniform in (-1, 1); normal; wide: uniform times exp(4 normal), 50 binades and more; worst: wide, with an infinity, a NaN and subnormals in it */
static inline void draw_family(const char *family)
{
    bool uniform = !strcmp(family, "uniform"), normal = !strcmp(family, "normal"), worst = !strcmp(family, "worst");
    uint64_t x = 88172645463325252u;
    for (int i = 0; i < PERIOD; i++) {
        double value = draw_uniform(&x);
        if (!uniform) {
            double deviate = sqrt(-2 * log(fabs(draw_uniform(&x)) + 0x1p-60)) * cos(3.14159265358979 * draw_uniform(&x));
            value = normal ? deviate : 0.5 * value * exp(4 * deviate);
        }
        if (worst && i % 1000 == 0)
            value *= 0x1p-130;
        random_d[i] = random_s[i] = (float)value;
        random_d[i] += uniform ? (double)(x & 0xffffff) * 0x1p-53 : 0;
    }
    if (worst)
        random_s[12345] = INFINITY, random_s[PERIOD / 2] = NAN;
}

static inline void draw_data(void) { draw_family("uniform"); }

/* Element (i, j) of op(A) op(B) and of |op(A)| |op(B)|, k long, as far as `long double` is exact. a and b are the indices of the first elements
 * multiplied, a_step and b_step the distances to the next ones. */
static inline void exact_element(bool dbl, int64_t k, int64_t a, int64_t a_step, int64_t b, int64_t b_step, long double *sum, long double *size)
{
    int64_t i = a % PERIOD, j = (b + B_STARTS) % PERIOD;
    a_step %= PERIOD, b_step %= PERIOD;
    *sum = *size = 0;
    for (int64_t l = 0; l < k; l++) {
        long double term = dbl ? (long double)random_d[i] * random_d[j] : (long double)((double)random_s[i] * random_s[j]);
        *sum += term, *size += fabsl(term);
        i += a_step, j += b_step;
        i -= i >= PERIOD ? PERIOD : 0, j -= j >= PERIOD ? PERIOD : 0;
    }
}

#endif

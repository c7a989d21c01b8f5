/* t_tiny.c — products too small for any GPU, with each operand in each kind of memory: who serves them, and is the driver asked where they live?
 *
 *   t_tiny --lib PATH
 *
 * The driver must be fail_cuda.c's, which counts calls. Memory that always belongs to the process (its data, its heap, the first thread's stack) is
 * known to be host memory and the driver is not asked about it: such calls come by the million, and asking costs more than some of them. The driver
 * is asked about all other memory, and a product with an operand in GPU memory is served by the GPU however small it is. */
#include <pthread.h>

#include "test.h"

#include "../bench/rig.h"
#include "faults.h"

enum { N = 8, ELEMENTS = N * N, CALLS = 20 };
enum place { DATA, HEAP, STACK, MAPPED, GPU, PLACES };
static const char *const names[PLACES] = {"data", "heap", "stack", "mapped memory", "GPU memory"};

static double data[3][ELEMENTS], *heap[3], *mapped[3], expected[ELEMENTS];
static device_ptr gpu[3];
static handle context;
static struct faults *driver_calls;
static int question; /* index of cuPointerGetAttributes among the driver's functions */
static __typeof__(gpugemm_last_decision) *last_decision;
static void (*dgemm)(const char *, const char *, const int *, const int *, const int *, const double *, const void *, const int *, const void *,
                     const int *, const double *, void *, const int *);
static void (*cblas_dgemm)(int, int, int, int, int, int, double, const void *, int, const void *, int, double, void *, int);

static void put(enum place where, double *host, int x, const double *values)
{
    if (where == GPU)
        cuMemcpyHtoD_v2(gpu[x], values, sizeof expected);
    else
        memcpy(host, values, sizeof expected);
}

static void try_places(const enum place where[3], double *const host[3], bool first_thread)
{
    static const double zeros[ELEMENTS], one = 1, zero = 0;
    static const int n = N;
    double ab[2][ELEMENTS], c[ELEMENTS];
    void *at[3];
    bool on_gpu = false, own = true;
    char what[80];
    snprintf(what, sizeof what, "%s, %s, %s%s", names[where[0]], names[where[1]], names[where[2]], first_thread ? "" : " in a thread");
    for (int i = 0; i < ELEMENTS; i++)
        ab[0][i] = i % 7, ab[1][i] = i % 5 - 2;
    for (int x = 0; x < 3; x++) {
        at[x] = where[x] == GPU ? (void *)gpu[x] : host[x];
        put(where[x], host[x], x, x < 2 ? ab[x] : zeros);
        on_gpu = on_gpu || where[x] == GPU;
        own = own && (where[x] == DATA || where[x] == HEAP || (where[x] == STACK && first_thread));
    }
    const unsigned long before = driver_calls->calls[question];
    for (int call = 0; call < CALLS; call++)
        if (call % 2)
            dgemm("N", "N", &n, &n, &n, &one, at[0], &n, at[1], &n, &zero, at[2], &n);
        else
            cblas_dgemm(102, 111, 111, n, n, n, one, at[0], n, at[1], n, zero, at[2], n);
    const unsigned long asked = driver_calls->calls[question] - before;
    struct gpugemm_decision decision;
    last_decision(&decision, sizeof decision);
    CHECK(strcmp(decision.path, "cpu") ? on_gpu : !on_gpu, "%s: served by %s, %s", what, decision.path, decision.reason);
    CHECK(decision.m == N && decision.n == N && decision.k == N, "%s: the last decision is another call's", what);
    CHECK(own ? asked == 0 : asked > 0, "%s: the driver was asked %lu times in %d calls", what, asked, CALLS);
    if (where[2] == GPU)
        cuMemcpyDtoH_v2(c, gpu[2], sizeof c);
    else
        memcpy(c, host[2], sizeof c);
    CHECK(!memcmp(c, expected, sizeof c), "%s: wrong", what);
}

static void *try_all(void *first_thread)
{
    double stack[3][ELEMENTS];
    cuCtxSetCurrent(context);
    for (int i = 0; i < PLACES * PLACES * PLACES; i++) {
        const enum place where[3] = {i % PLACES, i / PLACES % PLACES, i / PLACES / PLACES};
        double *host[3];
        for (int x = 0; x < 3; x++)
            host[x] = (double *[]){data[x], heap[x], stack[x], mapped[x], NULL}[where[x]];
        try_places(where, host, first_thread != NULL);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    const char *lib = "build/libgpugemm.so";
    for (int i = 1; i + 1 < argc; i++)
        lib = strcmp(argv[i], "--lib") ? lib : argv[i + 1];
    setenv("GPUGEMM_MODE", "auto", 1); /* the GPU tests force the GPU, and then no call is too small */
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *library = dlopen(lib, RTLD_NOW | RTLD_LOCAL);
    if (!resolved(library, "dgemm_", &dgemm) || !resolved(library, "cblas_dgemm", &cblas_dgemm) ||
        !resolved(library, "gpugemm_last_decision", &last_decision))
        return fprintf(stderr, "%s lacks names\n", lib), 1;
    bool all = driver != NULL;
#define FIND(name) all = all && resolved(driver, #name, &name)
    FIND(cuInit), FIND(cuDevicePrimaryCtxRetain), FIND(cuCtxSetCurrent), FIND(cuMemAlloc_v2), FIND(cuMemcpyHtoD_v2), FIND(cuMemcpyDtoH_v2);
    if (!all || cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context))
        return printf("skipped: no GPU\n"), SKIP;
    if (!(driver_calls = dlsym(driver, "fail_cuda")))
        return fprintf(stderr, "libcuda.so.1 is not that of fail_cuda.c\n"), 2;
    question = fault_function(driver_calls, "cuPointerGetAttributes");
    driver_calls->armed = true;   /* it counts calls; none is made to fail */
    const size_t apart = 1 << 16; /* each operand on pages of its own */
    char *pages = mmap(NULL, 3 * apart, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *grown = sbrk((intptr_t)(3 * sizeof expected));
    for (int x = 0; x < 3; x++) {
        heap[x] = (double *)(grown + (size_t)x * sizeof expected);
        mapped[x] = (double *)(pages + (size_t)x * apart);
        if (pages == MAP_FAILED || grown == (void *)-1 || cuMemAlloc_v2(&gpu[x], sizeof expected))
            return printf("skipped: no memory\n"), SKIP;
    }
    for (int i = 0; i < ELEMENTS; i++)
        for (int p = 0; p < N; p++)
            expected[i] += (i % N + p * N) % 7 * ((p + i / N * N) % 5 - 2);
    try_all(&gpu);
    pthread_t thread;
    if (!pthread_create(&thread, NULL, try_all, NULL))
        pthread_join(thread, NULL);
    printf("operands in %d kinds of memory, two threads: %d failures\n", PLACES, test_failures);
    return test_failures != 0;
}

/* Products on a CUDA stream, of matrices in GPU memory, without waiting in between. The CUDA driver is opened by hand so that this builds without the CUDA
 * toolkit and ends with a word where there is no GPU; with the toolkit, <cuda_runtime.h>'s cudaMalloc and cudaStream_t do as well.
 *
 *   $ gcc $(pkg-config --cflags gpugemm) stream.c $(pkg-config --libs gpugemm) -ldl -o stream
 *   $ ./stream
 */
#include <dlfcn.h>
#include <gpugemm.h>
#include <stdio.h>
#include <stdlib.h>

static void *driver;

/* Calls a function of the driver, each of which is CUresult NAME(...); where there are several variants, name the newest. */
#define CU(name, ...) ((int (*)())dlsym(driver, #name))(__VA_ARGS__)

int main(void)
{
    enum { N = 1024, COUNT = 10 };
    int device;
    void *context, *stream;
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver || CU(cuInit, 0) || CU(cuDeviceGet, &device, 0)) {
        puts("no GPU here");
        return 0;
    }
    float *a, *b, *c, *host = malloc(N * N * sizeof *host);
    size_t bytes = N * N * sizeof *host;
    if (!host || CU(cuDevicePrimaryCtxRetain, &context, device) || CU(cuCtxSetCurrent, context) || CU(cuStreamCreate, &stream, 1) ||
        CU(cuMemAlloc_v2, &a, bytes) || CU(cuMemAlloc_v2, &b, bytes) || CU(cuMemAlloc_v2, &c, bytes))
        return 1;
    for (int i = 0; i < N * N; i++)
        host[i] = (float)(i % 3);
    if (CU(cuMemcpyHtoD_v2, a, host, bytes) || CU(cuMemcpyHtoD_v2, b, host, bytes))
        return 1;

    gpugemm_warmup(); /* otherwise the first call would initialise the library's GPU side */
    for (int i = 0; i < COUNT; i++) { /* enqueued one after another: none of these calls waits */
        int status = gpugemm_sgemm(GPUGEMM_COL_MAJOR, GPUGEMM_NO_TRANS, GPUGEMM_NO_TRANS, N, N, N, 1, a, N, b, N, i > 0, c, N, stream);
        if (status)
            return fprintf(stderr, "%s\n", gpugemm_status_string(status)), 1;
    }
    if (CU(cuStreamSynchronize, stream) || CU(cuMemcpyDtoH_v2, host, c, bytes))
        return 1;

    double expected = 0;
    for (int l = 0; l < N; l++)
        expected += (l * N % 3) * (l % 3);
    printf("c[0][0] = %g, expected %g\n", host[0], COUNT * expected);
    return host[0] != COUNT * expected;
}

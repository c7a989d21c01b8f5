/* gemm_on_gpu.h — for tests of one gpugemm_… function on operands in GPU memory, compiled for each REAL: the driver, the library, and a context.
 *
 * Before including it define DRIVER(X), the functions of the driver as X(symbol, name); cuInit, cuDevicePrimaryCtxRetain and cuCtxSetCurrent must be
 * among them. GEMM and REAL are given by CMakeLists.txt. */
#ifndef GEMM_ON_GPU_H
#define GEMM_ON_GPU_H

#include <cuda.h>
#include <dlfcn.h>

#include "../include/gpugemm.h"
#include "test.h"

static struct {
#define X(symbol, name) __typeof__(name) *at_##name;
    DRIVER(X)
#undef X
} cu;

static __typeof__(GEMM) *gemm;

#define GOOD(call) CHECK((call) == CUDA_SUCCESS, "%s failed", #call)

#define STRING_(x) #x
#define STRING(x) STRING_(x)

/* Fills cu and gemm and makes the first GPU's context current. Arguments: --lib PATH [--expect-gpu]. Returns -1, or the status to exit with. */
static int open_gpu(int argc, char **argv)
{
    const char *path = NULL;
    bool expects = false;
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], "--lib") && i + 1 < argc)
            path = argv[++i];
        else
            expects |= !strcmp(argv[i], "--expect-gpu");
    void *const driver = dlopen("libcuda.so.1", RTLD_NOW), *const lib = path ? dlopen(path, RTLD_NOW) : NULL;
    if (!lib || !(*(void **)&gemm = dlsym(lib, STRING(GEMM)))) {
        fprintf(stderr, "usage: %s --lib PATH [--expect-gpu]\n", argv[0]);
        return 64;
    }
#define X(symbol, name) *(void **)&cu.at_##name = driver ? dlsym(driver, #symbol) : NULL;
    DRIVER(X)
#undef X
    if (!cu.at_cuInit || cu.at_cuInit(0) != CUDA_SUCCESS) {
        CHECK(!expects, "no GPU");
        return expects ? 1 : SKIP;
    }
    CUcontext context;
    GOOD(cu.at_cuDevicePrimaryCtxRetain(&context, 0));
    GOOD(cu.at_cuCtxSetCurrent(context));
    return -1;
}

#endif

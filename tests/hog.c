/* hog.c — another program that occupies the GPU: takes all of its memory but LEFT megabytes, in pieces, says so, and keeps it until end of input.
 *
 *   hog LEFT */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *context;
    int (*init)(unsigned), (*retain)(void **, int), (*enter)(void *), (*info)(size_t *, size_t *), (*alloc)(uint64_t *, size_t);
    if (!driver || argc != 2)
        return 77;
    *(void **)&init = dlsym(driver, "cuInit"), *(void **)&retain = dlsym(driver, "cuDevicePrimaryCtxRetain");
    *(void **)&enter = dlsym(driver, "cuCtxSetCurrent"), *(void **)&info = dlsym(driver, "cuMemGetInfo_v2");
    *(void **)&alloc = dlsym(driver, "cuMemAlloc_v2");
    size_t left = strtoull(argv[1], NULL, 10) << 20, now = 0, all = 0;
    uint64_t piece;
    if (init(0) || retain(&context, 0) || enter(context))
        return 77;
    for (size_t bytes = (size_t)1 << 30; bytes >= (size_t)2 << 20; bytes /= 2)
        while (!info(&now, &all) && now > left + bytes && !alloc(&piece, bytes))
            ;
    printf("%zu of %zu MB are left\n", now >> 20, all >> 20);
    fflush(stdout);
    while (getchar() != EOF)
        ;
    return 0;
}

/* t_idle.c — GPU memory that staged calls took goes back to the driver when none has come for a while, and the next call is served all the same. Asks
 * the driver what is free. */
#include "exact.h"

#include <dlfcn.h>

static int (*memory)(size_t *, size_t *), (*retain)(void **, int), (*enter)(void *);

static size_t free_now(void)
{
    size_t bytes = 0, total;
    return memory(&bytes, &total) ? 0 : bytes;
}

int main(int argc, char **argv)
{
    enum { N = 900 }; /* 19 MB: above what is kept */
    bool expect_gpu = open_by_arguments(argc, argv);
    const struct spelling *d = spelling_named("dgemm_");
    CHECK(exact_square(d, 100, 1) == 0, "wrong"); /* starts the GPU */
    void *driver = gpu_calls() ? dlopen("libcuda.so.1", RTLD_NOW) : NULL, *context;
    CHECK(driver || !expect_gpu, "no call was served by the GPU");
    if (driver) {
        *(void **)&memory = dlsym(driver, "cuMemGetInfo_v2");
        *(void **)&retain = dlsym(driver, "cuDevicePrimaryCtxRetain");
        *(void **)&enter = dlsym(driver, "cuCtxPushCurrent_v2");
        if (!memory || !retain || !enter || retain(&context, 0) || enter(context))
            return SKIP;
        CHECK(exact_square(d, N, 1) == 0, "wrong");
        size_t during = free_now(), after = during;
        for (int i = 0; i < 150 && after <= during; i++, after = free_now())
            usleep(100000);
        printf("%.1f MB given back\n", 1e-6 * ((double)after - (double)during));
        CHECK(after > during, "GPU memory is kept for ever");
        CHECK(exact_square(d, N, 2) == 0, "wrong after that");
    }
    printf("%d failures\n", test_failures);
    return test_failures != 0;
}

/* t_idle.c — GPU memory that staged calls took goes back to the driver when none has come for a while, or at once when the program asks for it, also
 * while other threads multiply; and the next call is served all the same. Asks the driver how much is free. */
#include "exact.h"

#include <dlfcn.h>
#include <pthread.h>

static int (*memory)(size_t *, size_t *), (*retain)(void **, int), (*enter)(void *);

static size_t free_now(void)
{
    size_t bytes = 0, total;
    return memory(&bytes, &total) ? 0 : bytes;
}

enum { N = 900 /* 19 MB: above what is kept */, SMALLER = 500 /* 6 MB */, THREADS = 4, MANY = 8, MOST = 24 << 20, KEPT = 16 << 20 };
static atomic_int working = THREADS;

static void *multiply(void *number)
{
    for (int i = 0; i < 40; i++)
        CHECK(exact_square(spelling_named(i % 2 ? "dgemm_" : "sgemm_"), 60 + 20 * (i % 6), (uint64_t)(uintptr_t)number) == 0,
              "wrong beside gpugemm_release");
    atomic_fetch_sub(&working, 1);
    return NULL;
}

static void release_at_work(void)
{
    pthread_t thread[THREADS];
    size_t given = 0, times = 0;
    for (uintptr_t t = 0; t < THREADS; t++)
        if (pthread_create(&thread[t], NULL, multiply, (void *)t))
            exit((perror("pthread_create"), 1));
    for (; atomic_load(&working) > 0; times++, usleep(5000))
        given += release_memory();
    for (int t = 0; t < THREADS; t++)
        pthread_join(thread[t], NULL);
    printf("%zu times, %.1f MB given back beside %d threads\n", times, 1e-6 * (double)given, THREADS);
}

static pthread_barrier_t together;

static void *one_of_many(void *unused)
{
    pthread_barrier_wait(&together);
    CHECK(exact_square(spelling_named("dgemm_"), SMALLER, 4) == 0, "one of many is wrong");
    return unused;
}

/* GPUGEMM_GPU_MEMORY limits all calls together, also those that start at the same time. Later, of what they have taken, each less than is kept,
 * one lane's is left. */
static void bounded(void)
{
    pthread_t thread[MANY];
    release_memory();
    const size_t before = free_now(), scratch = 8 << 20;
    pthread_barrier_init(&together, NULL, MANY);
    for (int t = 0; t < MANY; t++)
        if (pthread_create(&thread[t], NULL, one_of_many, NULL))
            exit((perror("pthread_create"), 1));
    for (int t = 0; t < MANY; t++)
        pthread_join(thread[t], NULL);
    const size_t taken = before - free_now();
    printf("%.1f MB taken by %d calls\n", 1e-6 * (double)taken, MANY);
    CHECK(taken <= MOST + scratch, "more than GPUGEMM_GPU_MEMORY");
    size_t kept = taken;
    for (int i = 0; i < 80 && kept >= taken; i++, kept = before - free_now())
        usleep(100000);
    usleep(500000); /* one lane after the other is emptied */
    kept = before - free_now();
    printf("%.1f MB kept\n", 1e-6 * (double)kept);
    CHECK(kept <= KEPT, "%zu bytes of GPU memory are kept for ever", kept);
}

int main(int argc, char **argv)
{
    setenv("GPUGEMM_GPU_MEMORY", "24M", 1);
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
        size_t during = free_now(), after = during;
        for (int tries = 0; tries < 3 && after <= during; tries++) { /* meanwhile other tests may take memory of the same GPU */
            CHECK(exact_square(d, N, 1) == 0, "wrong");
            after = during = free_now();
            for (int i = 0; i < 80 && after <= during; i++, after = free_now())
                usleep(100000);
        }
        printf("%.1f MB given back\n", 1e-6 * ((double)after - (double)during));
        CHECK(after > during, "GPU memory is kept for ever");
        size_t given = 0;
        for (int i = 0; i < 5 && (i == 0 || after <= during); i++) { /* likewise */
            CHECK(exact_square(d, SMALLER, 2) == 0, "wrong after that");
            during = free_now();
            given = release_memory();
            after = free_now();
        }
        printf("asked for: %.1f MB, of which %.1f of the GPU's\n", 1e-6 * (double)given, 1e-6 * ((double)after - (double)during));
        CHECK(after > during && given >= 3 * SMALLER * SMALLER * sizeof(double), "GPU memory is kept when asked for");
        CHECK(release_memory() == 0, "given back twice");
        CHECK(exact_square(d, SMALLER / 3, 3) == 0, "wrong after that");
        release_at_work();
        if (getenv("FAKE_CUDA_ARCH")) /* on a real GPU other tests take memory */
            bounded();
    }
    printf("%d failures\n", test_failures);
    return test_failures != 0;
}

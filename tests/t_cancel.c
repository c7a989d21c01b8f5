/* t_cancel.c — threads that are cancelled in the library's functions leave nothing behind that others wait for. Each case is a process of its own.
 *
 *   t_cancel --lib PATH */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "test.h"

static void *lib;
static int (*warmup)(void);
static void (*dgemm)(const char *, const char *, const int *, const int *, const int *, const double *, const double *, const int *, const double *,
                     const int *, const double *, double *, const int *, size_t, size_t);

static void multiply(void)
{
    const int n = 8;
    const double one = 1, none = 0;
    static const double a[64];
    double c[64];
    dgemm("N", "N", &n, &n, &n, &one, a, &n, a, &n, &none, c, &n, 1, 1);
}

static void *cancelled(void *call)
{
    pthread_cancel(pthread_self()); /* takes effect at the next cancellation point */
    if (call)
        multiply();
    else
        (void)warmup();
    return NULL;
}

static void in_a_thread(void *call)
{
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, cancelled, call), "no thread");
    pthread_join(thread, NULL);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* A child that calls in a cancelled thread and then itself. */
static void fork_and_call(void)
{
    const double begun = now();
    const pid_t pid = fork();
    if (pid == 0) {
        alarm(10);
        in_a_thread(&lib);
        multiply();
        _exit(7);
    }
    CHECK(now() - begun < 1, "a fork takes %g s", now() - begun);
    int status = 0;
    waitpid(pid, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7, "the child ended with status %x", (unsigned)status);
}

static const struct {
    const char *name, *variable, *value;
} cases[] = {{"warmup", NULL, NULL},
             {"statistics", "GPUGEMM_STATS", "t_cancel-%p.json"},
             {"trace", "GPUGEMM_TRACE", "t_cancel-trace"},
             {"a BLAS that is not there", "GPUGEMM_BLAS", "/nonexistent"}};

static int run(int which, const char *path)
{
    if (cases[which].variable)
        setenv(cases[which].variable, cases[which].value, 1);
    lib = dlopen(path, RTLD_NOW);
    *(void **)&warmup = lib ? dlsym(lib, "gpugemm_warmup") : NULL;
    *(void **)&dgemm = lib ? dlsym(lib, "dgemm_") : NULL;
    if (!warmup || !dgemm)
        return fprintf(stderr, "%s lacks names\n", path), 1;
    in_a_thread(which ? &lib : NULL);
    if (!which)
        (void)warmup();
    multiply();
    fork_and_call();
    return test_failures > 0;
}

int main(int argc, char **argv)
{
    const char *path = argc > 2 ? argv[2] : "build/libgpugemm.so";
    char folder[] = "/tmp/t_cancel-XXXXXX", file[4096];
    if (!realpath(path, file) || !mkdtemp(folder) || chdir(folder))
        return fprintf(stderr, "usage: t_cancel --lib PATH\n"), 64;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const pid_t pid = fork();
        if (pid == 0) {
            alarm(20);
            _exit(run((int)i, file));
        }
        int status = 0;
        waitpid(pid, &status, 0);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s: status %x", cases[i].name, (unsigned)status);
    }
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", folder);
    if (chdir("/") || system(command))
        return 1;
    return test_failures > 0;
}

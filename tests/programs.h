/* programs.h — for t_cuda.c, t_gpus.c and t_scratch.c, whose test cases are programs that use CUDA themselves, each in a process of its own. */
#ifndef PROGRAMS_H
#define PROGRAMS_H

#include <sys/wait.h>

#include "problem.h"

struct program {
    const char *name;
    void (*run)(void);
};

/* --lib LIB [--only NAME]. Loads the library, finds its spellings, and makes the GPU serve every product; *only becomes NAME or NULL. Returns the
 * library. */
static inline void *open_for_programs(int argc, char **argv, const char **only)
{
    const char *lib = "build/libgpugemm.so";
    for (int i = 1; i + 1 < argc; i++) {
        lib = !strcmp(argv[i], "--lib") ? argv[i + 1] : lib;
        *only = !strcmp(argv[i], "--only") ? argv[i + 1] : *only;
    }
    setenv("OPENBLAS_NUM_THREADS", "1", 0);
    setenv("GPUGEMM_MODE", "gpu", 1);
    void *library = open_library(lib, RTLD_GLOBAL);
    find_spellings(library);
    return library;
}

/* Runs all programs one after another, or only the one named `only`; none may take longer than `seconds`. Returns how many have failed. */
static inline int run_programs(const struct program *programs, int count, const char *only, unsigned seconds)
{
    int failures = 0;
    for (int i = 0; i < count; i++) {
        if (only && strcmp(only, programs[i].name))
            continue;
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            alarm(seconds);
            programs[i].run();
            exit(test_failures != 0);
        }
        int status = -1;
        waitpid(child, &status, 0);
        printf("%-22s %s", programs[i].name, status ? "FAILED" : "ok");
        if (WIFSIGNALED(status))
            printf(", signal %d", WTERMSIG(status));
        putchar('\n');
        failures += status != 0;
    }
    return failures;
}

/* For a list of the driver's functions, each a member of `cu` and under the name that cuda.h makes of it: finds them, or skips the test. */
#define TEXT_OF(name) #name
#define TEXT(name) TEXT_OF(name)
#define FIND(name)                                                                                                                                   \
    if (!(*(void **)&cu.name = dlsym(driver, TEXT(name))))                                                                                           \
        return printf("skipped: the driver has no %s\n", TEXT(name)), SKIP;

#endif

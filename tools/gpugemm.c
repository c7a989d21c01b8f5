/* gpugemm.c — the command: `gpugemm info` and `gpugemm run PROGRAM …`. It finds the library beside itself (a build folder) or in the lib folder of the
 * prefix it is installed in, and needs nothing else. Exit codes: those of the program that was run; 64 usage, 69 no library, 127 no such program. */
#include <argp.h>
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpugemm.h"

enum { USAGE = 64, UNAVAILABLE = 69, NOT_FOUND = 127 };

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
const char *argp_program_version = "gpugemm " TEXT(GPUGEMM_VERSION_MAJOR) "." TEXT(GPUGEMM_VERSION_MINOR) "." TEXT(GPUGEMM_VERSION_PATCH);

struct options {
    char **program; /* NULL-terminated, inside argv */
    const char *command;
};

/* The library's path into `path`, or false. */
static bool find_library(char path[PATH_MAX])
{
    static const char *const places[] = {"/libgpugemm.so.0", "/../lib/libgpugemm.so.0", "/../" GPUGEMM_LIBDIR "/libgpugemm.so.0",
                                         "/../lib64/libgpugemm.so.0"};
    char folder[PATH_MAX], candidate[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", folder, sizeof folder - 1);
    if (n < 0)
        return false;
    folder[n] = 0;
    *strrchr(folder, '/') = 0;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (snprintf(candidate, sizeof candidate, "%s%s", folder, places[i]) < (int)sizeof candidate && realpath(candidate, path))
            return true;
    return false;
}

static int info(const char *library)
{
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    char *(*text_of)(void) = handle ? (char *(*)(void))dlsym(handle, "gpugemm_info") : NULL;
    char *text = text_of ? text_of() : NULL;
    if (!text) {
        fprintf(stderr, "gpugemm: %s cannot be used: %s\n", library, handle ? "no memory" : dlerror());
        return UNAVAILABLE;
    }
    printf("%sLibrary    %s\n", text, library);
    free(text);
    return 0;
}

/* Never returns but for failure. What is preloaded already stays, behind us. */
static int run(const char *library, char **program)
{
    const char *others = getenv("LD_PRELOAD");
    char *preload;
    if (asprintf(&preload, "%s%s%s", library, others && *others ? ":" : "", others ? others : "") < 0 ||
        setenv("LD_PRELOAD", preload, 1) || setenv("GPUGEMM_STATS", "1", 0)) {
        fprintf(stderr, "gpugemm: no memory\n");
        return UNAVAILABLE;
    }
    execvp(program[0], program);
    fprintf(stderr, "gpugemm: %s: %s\n", program[0], strerror(errno));
    return NOT_FOUND;
}

static error_t parse(int key, char *value, struct argp_state *state)
{
    struct options *o = state->input;
    switch (key) {
    case 'm': return setenv("GPUGEMM_MODE", value, 1);
    case 's': return setenv("GPUGEMM_STATS", value, 1);
    case 't': return setenv("GPUGEMM_TRACE", value ? value : "1", 1);
    case ARGP_KEY_ARG:
        if (!o->command) {
            o->command = value;
        } else if (strcmp(o->command, "run") == 0) { /* everything from the program's name on is the program's */
            o->program = state->argv + state->next - 1;
            state->next = state->argc;
        } else {
            argp_error(state, "%s takes no argument", o->command);
        }
        return 0;
    case ARGP_KEY_END:
        if (!o->command)
            argp_error(state, "a command is missing");
        else if (strcmp(o->command, "run") && strcmp(o->command, "info"))
            argp_error(state, "unknown command %s", o->command);
        else if (strcmp(o->command, "run") == 0 && !o->program)
            argp_error(state, "run: which program?");
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

int main(int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"mode", 'm', "auto|gpu|cpu", 0, "Who serves (GPUGEMM_MODE)", 0},
        {"stats", 's', "0|1|FILE", 0, "Statistics of `run`: 1, the default, a table at exit (GPUGEMM_STATS)", 0},
        {"trace", 't', "1|2|FILE", OPTION_ARG_OPTIONAL, "One line a call (GPUGEMM_TRACE)", 0},
        {0}};
    static const struct argp argp = {
        .options = options,
        .parser = parse,
        .args_doc = "info\nrun PROGRAM [ARGUMENT...]",
        .doc = "Runs unmodified programs with their matrix products on the GPU.\v"
               "info   shows the GPU, the CPU BLAS, the sizes from which the GPU serves, and the options in force\n"
               "run    starts PROGRAM with libgpugemm preloaded and prints who served its calls"};
    struct options o = {0};
    char library[PATH_MAX];
    argp_err_exit_status = USAGE;
    argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &o);
    if (!find_library(library)) {
        fprintf(stderr, "gpugemm: libgpugemm.so.0 is neither beside this command nor in its prefix\n");
        return UNAVAILABLE;
    }
    return strcmp(o.command, "info") == 0 ? info(library) : run(library, o.program);
}

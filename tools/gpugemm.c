/* gpugemm.c — the command `gpugemm`: finds the subcommand and the library, and has what the subcommands share. */
#include "cmd.h"

#include <argp.h>
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "gpugemm.h"

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
const char *argp_program_version = "gpugemm " TEXT(GPUGEMM_VERSION_MAJOR) "." TEXT(GPUGEMM_VERSION_MINOR) "." TEXT(GPUGEMM_VERSION_PATCH);

static const struct {
    const char *name;
    int (*body)(int argc, char **argv);
} commands[] = {{"run", cmd_run}, {"info", cmd_info}, {"check", cmd_check}, {"bench", cmd_bench}, {"tune", cmd_tune}, {"explain", cmd_explain}};

/* ---- what the subcommands share -------------------------------------------------------------------------------------------------------- */

/* Finds the first of `count` places that holds `name`, and returns its path in `path`; false: none does. Places are relative to the command's own
 * folder. */
static bool find(const char *const *places, size_t count, const char *name, char path[PATH_MAX])
{
    char folder[PATH_MAX], candidate[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", folder, sizeof folder - 1);
    if (n < 0)
        return false;
    folder[n] = 0;
    *strrchr(folder, '/') = 0;
    for (size_t i = 0; i < count; i++)
        if (snprintf(candidate, sizeof candidate, "%s/%s/%s", folder, places[i], name) < (int)sizeof candidate && realpath(candidate, path))
            return true;
    return false;
}

const char *cmd_library(void)
{
    static const char *const places[] = {".", ("../" GPUGEMM_LIBDIR), "../lib", "../lib64"};
    static char path[PATH_MAX];
    if (!*path && !find(places, sizeof places / sizeof *places, "libgpugemm.so.0", path)) {
        fprintf(stderr, "gpugemm: libgpugemm.so.0 is neither beside this command nor in its prefix\n");
        exit(CMD_UNAVAILABLE);
    }
    return path;
}

const char *cmd_helper(const char *name)
{
    static const char *const places[] = {"tests", "../tools", ("../" GPUGEMM_LIBEXECDIR "/gpugemm")};
    static char path[PATH_MAX];
    return find(places, sizeof places / sizeof *places, name, path) ? path : NULL;
}

void *cmd_open(void)
{
    static void *handle;
    if (!handle && !(handle = dlopen(cmd_library(), RTLD_NOW | RTLD_LOCAL))) {
        fprintf(stderr, "gpugemm: %s\n", dlerror());
        exit(CMD_UNAVAILABLE);
    }
    return handle;
}

void *cmd_symbol(const char *name)
{
    void *symbol = dlsym(cmd_open(), name);
    if (!symbol) {
        fprintf(stderr, "gpugemm: %s is another version than this command: it has no %s\n", cmd_library(), name);
        exit(CMD_UNAVAILABLE);
    }
    return symbol;
}

const char *cmd_colour(const char *sequence) { return isatty(STDOUT_FILENO) && !getenv("NO_COLOR") ? sequence : ""; }

const char *cmd_seconds(double s)
{
    static char buffers[8][24];
    static int turn;
    char *text = buffers[turn++ % 8];
    snprintf(text, sizeof buffers[0], s < 1e-3 ? "%.3g us" : s < 1 ? "%.3g ms" : "%.3g s", s < 1e-3 ? 1e6 * s : s < 1 ? 1e3 * s : s);
    return text;
}

double cmd_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- the command line ------------------------------------------------------------------------------------------------------------------ */

/* From the subcommand's name on, argv belongs to the subcommand. */
static error_t parse(int key, char *value, struct argp_state *state)
{
    char ***rest = state->input;
    if (key == ARGP_KEY_ARG && !*rest) {
        *rest = state->argv + state->next - 1;
        state->next = state->argc;
    } else if (key == ARGP_KEY_END && !*rest) {
        argp_error(state, "a command is missing");
    } else if (key != ARGP_KEY_END) {
        (void)value;
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

int main(int argc, char **argv)
{
    static const struct argp argp = {
        .parser = parse,
        .args_doc = "COMMAND [OPTION...] [ARGUMENT...]",
        .doc = "Matrix products of unmodified programs on the GPU.\v"
               "Commands (each has its own --help):\n"
               "  run      start a program with libgpugemm preloaded and print who served its calls\n"
               "  info     show the GPU, the CPU BLAS, from which sizes the GPU serves, the options in force\n"
               "  check    prove the installation on this machine, in some seconds\n"
               "  explain  say who would serve a call, why, and in what time\n"
               "  tune     measure this machine, for decisions that fit it from the first call on\n"
               "  bench    compare with the CPU BLAS, cuBLAS, cublasXt and NVBLAS; tables and pictures\n\n"
               "Exit status: 0 done; 1 a check failed; 64 wrong usage; 69 no library, or no GPU where one is needed; run: the program's own, "
               "126 and 127 when it cannot be started; 73 when standard output, a report or the measurements cannot be written."};
    char **rest = NULL, name[64];
    argp_err_exit_status = CMD_USAGE;
    argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &rest);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (strcmp(rest[0], commands[i].name) == 0) {
            snprintf(name, sizeof name, "gpugemm %s", rest[0]);
            rest[0] = name;
            const int code = commands[i].body((int)(argv + argc - rest), rest);
            const bool earlier = ferror(stdout); /* then errno is no longer that error's */
            if ((fflush(stdout) || earlier) && code == 0) {
                fprintf(stderr, "gpugemm: standard output cannot be written%s%s\n", earlier ? "" : ": ", earlier ? "" : strerror(errno));
                return CMD_CANNOT_CREATE;
            }
            return code;
        }
    fprintf(stderr, "gpugemm: there is no command %s; gpugemm --help lists them\n", rest[0]);
    return CMD_USAGE;
}

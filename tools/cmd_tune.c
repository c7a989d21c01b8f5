/* cmd_tune.c — `gpugemm tune`: lets the library measure this machine, with a progress bar on a terminal, and prints what it found. */
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd.h"
#include "gpugemm.h"

static error_t parse(int key, char *value, struct argp_state *state)
{
    (void)value;
    if (key == ARGP_KEY_ARG)
        argp_error(state, "no argument is expected");
    return key == ARGP_KEY_ARG ? 0 : ARGP_ERR_UNKNOWN;
}

static void bar(double done, const char *what, void *unused)
{
    static const char full[] = "########################################";
    (void)unused;
    fprintf(stderr, "\r[%-40.*s] %3.0f %%  %-28s%s", (int)(done * 40), full, 100 * done, what, done < 1 ? "" : "\n");
}

int cmd_tune(int argc, char **argv)
{
    static const struct argp argp = {
        .parser = parse,
        .doc =
            "Measures the CPU BLAS and the GPU over sizes and shapes (less than half a minute, on a machine that does nothing else), keeps the result for this "
            "user "
            "and this machine, and prints who is faster where. Without it the library learns the same from the calls of the program, more slowly."};
    argp_parse(&argp, argc, argv, 0, NULL, NULL);
    char *text = ((__typeof__(gpugemm_tune) *)cmd_symbol("gpugemm_tune"))(isatty(STDERR_FILENO) ? bar : NULL, NULL);
    if (!text) {
        fprintf(stderr, "gpugemm: no memory\n");
        return CMD_UNAVAILABLE;
    }
    fputs(text, stdout);
    const int status = !strncmp(text, "Nothing", 7) ? CMD_UNAVAILABLE : strstr(text, "\nNot kept:") ? CMD_CANNOT_CREATE : CMD_OK;
    free(text);
    return status;
}

/* cmd_info.c — `gpugemm info`: the library's own account of the machine and of itself. */
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>

#include "cmd.h"
#include "gpugemm.h"

static error_t parse(int key, char *value, struct argp_state *state)
{
    (void)value;
    if (key == 'j')
        *(bool *)state->input = true;
    else if (key == ARGP_KEY_ARG)
        argp_error(state, "no argument is expected");
    else
        return ARGP_ERR_UNKNOWN;
    return 0;
}

int cmd_info(int argc, char **argv)
{
    static const struct argp_option options[] = {{"json", 'j', NULL, 0, "One JSON object", 0}, {0}};
    static const struct argp argp = {.options = options,
                                     .parser = parse,
                                     .doc =
                                         "Shows the GPU, the CPU BLAS, the sizes from which the GPU serves, and the options in force. The first line "
                                         "after the version says what is wrong, if something is."};
    bool json = false;
    argp_parse(&argp, argc, argv, 0, NULL, &json);
    const char *name = json ? "gpugemm_info_json" : "gpugemm_info";
    char *text = ((__typeof__(gpugemm_info) *)cmd_symbol(name))();
    if (!text) {
        fprintf(stderr, "gpugemm: no memory\n");
        return CMD_UNAVAILABLE;
    }
    fputs(text, stdout);
    if (!json)
        printf("Library    %s\n", cmd_library());
    free(text);
    return CMD_OK;
}

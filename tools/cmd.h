/* cmd.h — what the subcommands of `gpugemm` share. Each is one function in a file of its own and one row of gpugemm.c's table. */
#ifndef CMD_H
#define CMD_H

#include <stdbool.h>
#include <stddef.h>

/* Exit codes, sysexits.h's and the shell's where they have one. */
enum { CMD_OK = 0, CMD_FAILED = 1, CMD_USAGE = 64, CMD_UNAVAILABLE = 69, CMD_CANNOT_CREATE = 73, CMD_NOT_EXECUTABLE = 126, CMD_NOT_FOUND = 127 };

/* The subcommands: argv[0] is "gpugemm NAME". They return the exit code. */
int cmd_run(int argc, char **argv);
int cmd_info(int argc, char **argv);
int cmd_check(int argc, char **argv);
int cmd_bench(int argc, char **argv);
int cmd_tune(int argc, char **argv);
int cmd_explain(int argc, char **argv);

/* Path of libgpugemm.so.0: beside the command (a build folder) or in the library folder of the prefix it is installed in. Ends the process with one
 * line and CMD_UNAVAILABLE when it is in neither. */
const char *cmd_library(void);

/* Path of a helper, a program or script that only the command starts: beside it in a build folder, or in the prefix's libexec. NULL: not there. */
const char *cmd_helper(const char *name);

/* The library, opened; and a name of gpugemm.h in it. Both end the process as cmd_library does. */
void *cmd_open(void);
void *cmd_symbol(const char *name);

/* Escape sequences for a terminal, "" elsewhere and under NO_COLOR. */
const char *cmd_colour(const char *sequence);
#define CMD_GOOD cmd_colour("\033[32m")
#define CMD_BAD cmd_colour("\033[31m")
#define CMD_BOLD cmd_colour("\033[1m")
#define CMD_PLAIN cmd_colour("\033[0m")

/* A JSON string, quotes included. */
void cmd_json_string(const char *text);

/* "1.23 ms" and the like, into a static buffer of which there are eight in turn. */
const char *cmd_seconds(double seconds);

double cmd_now(void); /* seconds, monotonic */

#endif

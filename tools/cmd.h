/* cmd.h — what the subcommands of `gpugemm` share. Each is one function in a file of its own and one row of gpugemm.c's table. */
#ifndef CMD_H
#define CMD_H

#include <stdbool.h>
#include <stddef.h>

/* Exit codes: those of sysexits.h or of the shell where these have one. */
enum { CMD_OK = 0, CMD_FAILED = 1, CMD_USAGE = 64, CMD_UNAVAILABLE = 69, CMD_CANNOT_CREATE = 73, CMD_NOT_EXECUTABLE = 126, CMD_NOT_FOUND = 127 };

/* The subcommands: argv[0] is "gpugemm NAME". They return the exit code. */
int cmd_run(int argc, char **argv);
int cmd_info(int argc, char **argv);
int cmd_check(int argc, char **argv);
int cmd_bench(int argc, char **argv);
int cmd_tune(int argc, char **argv);
int cmd_explain(int argc, char **argv);

/* Path of libgpugemm.so.0: beside the command (in a build folder) or in the library folder of the prefix in which the command is installed. If it is
 * in neither, prints one line and ends the process with CMD_UNAVAILABLE. */
const char *cmd_library(void);

/* Path of a helper, a program or script that only the command starts: beside it in a build folder, or in the prefix's libexec. NULL: not found. */
const char *cmd_helper(const char *name);

/* Opens the library; looks up a name of gpugemm.h in it. On failure both end the process as cmd_library does. */
void *cmd_open(void);
void *cmd_symbol(const char *name);

/* The escape sequence if stdout is a terminal and NO_COLOR is not set, else "". */
const char *cmd_colour(const char *sequence);
#define CMD_GOOD cmd_colour("\033[32m")
#define CMD_BAD cmd_colour("\033[31m")
#define CMD_BOLD cmd_colour("\033[1m")
#define CMD_PLAIN cmd_colour("\033[0m")

/* Formats a time as "1.23 ms" and the like. Returns one of eight static buffers, used in turn. */
const char *cmd_seconds(double seconds);

double cmd_now(void); /* seconds, monotonic */

#endif

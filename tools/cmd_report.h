/* cmd_report.h — the data that `gpugemm run --report` gathers, and the page it writes. */
#ifndef CMD_REPORT_H
#define CMD_REPORT_H

#include <stdbool.h>

enum { REPORT_ROWS = 128 };

/* Calls of one kind: a line of the library's statistics (src/stats.c), summed over processes. */
struct report_row {
    char routine[8], path[8], kernel[64], reason[160];
    double calls, seconds, regret, flops, bytes_up, bytes_down;
};

struct report_run {
    const char *title;
    double wall, cpu; /* seconds of the program: wall-clock time, and CPU time of all its threads */
    int processes;    /* those that called gemm */
    int row_count;
    struct report_row rows[REPORT_ROWS];
};

/* Adds one statistics file to the run. A file without calls adds nothing. */
void report_read(struct report_run *run, const char *path);

/* Writes one HTML page without external references. False: it cannot be written, errno says why. */
bool report_write(const char *path, char *const *program, const struct report_run *runs, int count);

#endif

/* cmd_run.c — `gpugemm run PROGRAM …`: the program with the library preloaded. Without --report this process becomes the program; with it the command
 * waits, gathers the statistics of every process the program started, and writes one page (cmd_report.c). */
#include <argp.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd.h"
#include "cmd_report.h"

struct request {
    char **program; /* NULL-terminated; points into argv */
    const char *report;
    bool compare, stats;
};

/* Checks the value of an option, because the library would only warn, and only at the first product. */
static void one_of(struct argp_state *state, const char *variable, const char *value, const char *const words[3])
{
    for (int i = 0; i < 3; i++)
        if (strcmp(value, words[i]) == 0) {
            setenv(variable, value, 1);
            return;
        }
    argp_error(state, "%s is none of %s, %s and %s", value, words[0], words[1], words[2]);
}

static error_t parse(int key, char *value, struct argp_state *state)
{
    struct request *r = state->input;
    switch (key) {
    case 'm': one_of(state, "GPUGEMM_MODE", value, (const char *const[]){"auto", "gpu", "cpu"}); return 0;
    case 'p': one_of(state, "GPUGEMM_PRECISION", value, (const char *const[]){"fp32", "strict", "tf32"}); return 0;
    case 's': r->stats = true; return setenv("GPUGEMM_STATS", value ? value : "1", 1);
    case 't': return setenv("GPUGEMM_TRACE", value ? value : "1", 1);
    case 'r': r->report = value; return 0;
    case 'c': r->compare = true; return 0;
    case ARGP_KEY_ARG: /* everything after the program's name belongs to the program */
        r->program = state->argv + state->next - 1;
        state->next = state->argc;
        return 0;
    case ARGP_KEY_END:
        if (!r->program)
            argp_error(state, "which program?");
        if (r->compare && !r->report)
            argp_error(state, "--compare is for --report");
        if (r->stats && r->report)
            argp_error(state, "--report gathers the statistics itself: no --stats beside it");
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

/* Becomes the program; returns only on failure. What is preloaded already remains, after our library. */
static int start(char **program)
{
    const char *others = getenv("LD_PRELOAD");
    char *preload;
    if (strpbrk(cmd_library(), " :$")) { /* the loader would split it in two, or expand what follows the $ */
        fprintf(stderr, "gpugemm: %s: a library whose path has a space, a colon or a dollar sign in it cannot be preloaded; install it elsewhere\n",
                cmd_library());
        return CMD_UNAVAILABLE;
    }
    if (asprintf(&preload, "%s%s%s", cmd_library(), others && *others ? ":" : "", others ? others : "") < 0 || setenv("LD_PRELOAD", preload, 1)) {
        fprintf(stderr, "gpugemm: no memory\n");
        return CMD_UNAVAILABLE;
    }
    execvp(program[0], program);
    int code = errno == ENOENT ? CMD_NOT_FOUND : CMD_NOT_EXECUTABLE;
    fprintf(stderr, "gpugemm: %s: %s\n", program[0], strerror(errno));
    return code;
}

static volatile sig_atomic_t child;

/* Whoever ends this command means the program. The report is still written. */
static void pass_on(int signal)
{
    if (child > 0)
        kill((pid_t)child, signal);
}

/* Makes one run for the report and fills *measured. Returns the program's exit code as the shell would. */
static int measure(char **program, const char *mode, struct report_run *measured)
{
    char folder[] = "/tmp/gpugemm-run-XXXXXX", path[PATH_MAX];
    if (!mkdtemp(folder)) {
        perror("gpugemm: /tmp");
        return CMD_UNAVAILABLE;
    }
    /* Ctrl-C goes to the program, too, which may end in its own way. And whoever ignores SIGCHLD gets no status. */
    static const struct {
        int signal;
        void (*handler)(int);
    } while_it_runs[] = {{SIGINT, SIG_IGN}, {SIGQUIT, SIG_IGN}, {SIGCHLD, SIG_DFL}, {SIGTERM, pass_on}, {SIGHUP, pass_on}};
    enum { SIGNALS = sizeof while_it_runs / sizeof *while_it_runs };
    struct sigaction before[SIGNALS];
    sigset_t passed_on, mask;
    sigemptyset(&passed_on);
    sigaddset(&passed_on, SIGTERM), sigaddset(&passed_on, SIGHUP);
    sigprocmask(SIG_BLOCK, &passed_on, &mask); /* until there is a program */
    for (int i = 0; i < SIGNALS; i++) {
        const struct sigaction now = {.sa_handler = while_it_runs[i].handler};
        sigaction(while_it_runs[i].signal, &now, &before[i]);
        if (now.sa_handler == pass_on && before[i].sa_handler == SIG_IGN) /* nohup */
            sigaction(while_it_runs[i].signal, &before[i], NULL);
    }
    double begin = cmd_now();
    pid_t pid = fork();
    if (pid == 0) {
        for (int i = 0; i < SIGNALS; i++)
            sigaction(while_it_runs[i].signal, &before[i], NULL);
        snprintf(path, sizeof path, "%s/%%p.json", folder);
        setenv("GPUGEMM_STATS", path, 1);
        if (mode)
            setenv("GPUGEMM_MODE", mode, 1);
        sigprocmask(SIG_SETMASK, &mask, NULL);
        _exit(start(program));
    }
    child = pid;
    sigprocmask(SIG_SETMASK, &mask, NULL);
    int status = 0;
    pid_t ended;
    struct rusage usage = {0};
    while ((ended = pid > 0 ? wait4(pid, &status, 0, &usage) : pid) < 0 && pid > 0 && errno == EINTR)
        continue;
    child = 0;
    for (int i = 0; i < SIGNALS; i++)
        sigaction(while_it_runs[i].signal, &before[i], NULL);
    measured->wall = cmd_now() - begin;
    measured->cpu =
        (double)usage.ru_utime.tv_sec + 1e-6 * (double)usage.ru_utime.tv_usec + (double)usage.ru_stime.tv_sec + 1e-6 * (double)usage.ru_stime.tv_usec;
    DIR *files = opendir(folder);
    for (struct dirent *e; files && (e = readdir(files));) {
        if (*e->d_name == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        report_read(measured, path);
        unlink(path);
    }
    if (files)
        closedir(files);
    rmdir(folder);
    return ended < 0 ? CMD_UNAVAILABLE : WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int not_written(const char *report)
{
    fprintf(stderr, "gpugemm: the report %s cannot be written: %s\n", report, strerror(errno));
    return CMD_CANNOT_CREATE;
}

static int run_for_report(const struct request *r)
{
    static struct report_run runs[2];
    int count = 0, code = 0;
    FILE *report = fopen(r->report, "a"); /* opened now, because the program may take hours; an older report is kept until then */
    if (!report)
        return not_written(r->report);
    fclose(report);
    if (r->compare) {
        runs[count].title = "CPU (GPUGEMM_MODE=cpu)";
        code = measure(r->program, "cpu", &runs[count++]);
    }
    if (code == 0) {
        const char *mode = getenv("GPUGEMM_MODE");
        runs[count].title = mode && strcmp(mode, "auto") ? "as asked for" : "with the GPU where it is faster";
        code = measure(r->program, NULL, &runs[count++]);
    }
    if (!report_write(r->report, r->program, runs, count))
        return not_written(r->report);
    fprintf(stderr, "gpugemm: the report is in %s\n", r->report);
    return code;
}

int cmd_run(int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"mode", 'm', "auto|gpu|cpu", 0, "Who serves the products (GPUGEMM_MODE)", 0},
        {"precision", 'p', "fp32|strict|tf32", 0, "Precision of sgemm and dgemm (GPUGEMM_PRECISION)", 0},
        {"stats", 's', "0|1|FILE", OPTION_ARG_OPTIONAL, "Statistics: 1, the default, a table at exit; FILE: JSON (GPUGEMM_STATS)", 0},
        {"trace", 't', "1|2|FILE", OPTION_ARG_OPTIONAL, "One line per call (GPUGEMM_TRACE)", 0},
        {"report", 'r', "FILE.html", 0, "Instead of the table, write one self-contained page that shows where the time went", 0},
        {"compare", 'c', NULL, 0, "For the report: run the program on the CPU first, then again", 0},
        {0}};
    static const struct argp argp = {.options = options,
                                     .parser = parse,
                                     .args_doc = "PROGRAM [ARGUMENT...]",
                                     .doc = "Starts PROGRAM with libgpugemm preloaded and prints who served its matrix products when it ends.\v"
                                            "The environment is passed through; an option overrides its variable. The exit status is the program's."};
    struct request r = {0};
    argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &r);
    if (r.report)
        return run_for_report(&r);
    const char *stats = getenv("GPUGEMM_STATS");
    setenv("GPUGEMM_STATS", "1", stats && !*stats /* which is the default, too */);
    return start(r.program);
}

/* cmd_bench.c — `gpugemm bench`: runs the benchmark programs of bench/ (installed in libexec), shows their progress, and draws their results. What is
 * measured, and how, is described at the top of bench/bench.c (operands in GPU memory) and bench/host.c (host memory). */
#include <argp.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd.h"
#include "gpugemm.h"

#define SEEK_MATPLOTLIB "import importlib.util, sys; sys.exit(not importlib.util.find_spec('matplotlib'))"
enum { NO_GPU = 77 }; /* exit status of bench/bench.c without a GPU */

struct bench {
    bool device, host;
    bool both; /* neither was asked for: what cannot be measured here is left out without an error */
    const char *sizes, *types, *layouts, *seconds, *csv, *plot, *label;
};

/* Is it a comma-separated list of words each of which `fits`? */
static bool is_list(const char *list, bool (*fits)(const char *word))
{
    char word[64];
    for (const char *end;; list = end + 1) {
        end = strchrnul(list, ',');
        snprintf(word, sizeof word, "%.*s", (int)(end - list), list);
        if (end - list >= (ptrdiff_t)sizeof word || !fits(word))
            return false;
        if (!*end)
            return true;
    }
}

static bool is_size(const char *word)
{
    int m, n, k, used = 0;
    bool cube = sscanf(word, "%7d%n", &m, &used) == 1 && used == (int)strlen(word), box = sscanf(word, "%7dx%7dx%7d%n", &m, &n, &k, &used) == 3;
    return used == (int)strlen(word) && m > 0 && (cube || (box && n > 0 && k > 0));
}

static bool is_layout(const char *word) { return strlen(word) == 2 && strspn(word, "NT") == 2; }

static bool is_picture(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot && (strcmp(dot, ".svg") == 0 || strcmp(dot, ".png") == 0);
}

/* What is wrong with the request, found before minutes are spent on it; NULL: nothing. */
static const char *trouble_with(const struct bench *b)
{
    char *end;
    if (!is_list(b->sizes, is_size))
        return "--sizes wants numbers or MxNxK, separated by commas";
    if (strcmp(b->types, "s") && strcmp(b->types, "d") && strcmp(b->types, "sd"))
        return "--types is s, d or sd";
    if (!is_list(b->layouts, is_layout))
        return "--layouts wants NN, NT, TN or TT, separated by commas";
    if (!(strtod(b->seconds, &end) > 0) || *end)
        return "--seconds wants a number above 0";
    return b->plot && !is_picture(b->plot) ? "--plot wants a name that ends in .svg or .png" : NULL;
}

static error_t parse(int key, char *value, struct argp_state *state)
{
    struct bench *b = state->input;
    switch (key) {
    case 'd': b->device = true; return 0;
    case 'h': b->host = true; return 0;
    case 'n': b->sizes = value; return 0;
    case 't': b->types = value; return 0;
    case 'l': b->layouts = value; return 0;
    case 's': b->seconds = value; return 0;
    case 'c': b->csv = value; return 0;
    case 'p': b->plot = value; return 0;
    case 'L': b->label = value; return 0;
    case ARGP_KEY_ARG: argp_error(state, "no argument is expected"); return 0;
    case ARGP_KEY_END:
        if (!b->device && !b->host)
            b->device = b->host = b->both = true;
        const char *trouble = trouble_with(b);
        if (trouble)
            argp_error(state, "%s", trouble);
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static int count_of(const char *list)
{
    int count = 1;
    for (; *list; list++)
        count += *list == ',';
    return count;
}

/* A progress bar on a terminal, otherwise nothing. `of` 0: the total is not known. */
static void progress(const char *what, int done, int of, double start)
{
    if (!isatty(STDERR_FILENO))
        return;
    enum { WIDTH = 40 };
    char bar[WIDTH + 1];
    int filled = of ? WIDTH * (done < of ? done : of) / of : 0, mark = (int)(4 * (cmd_now() - start)) % WIDTH;
    for (int i = 0; i < WIDTH; i++)
        bar[i] = of ? (i < filled ? '#' : '.') : i == mark ? '#' : '.';
    bar[WIDTH] = 0;
    fprintf(stderr, "\r%s [%s] %.0f s\033[K", what, bar, cmd_now() - start);
}

/* Runs argv and passes its output through line by line; returns its exit status. */
static int run_program(char *const *argv, const char *what, int lines)
{
    int ends[2];
    if (pipe(ends))
        return -1;
    signal(SIGCHLD, SIG_DFL); /* whoever ignores it gets no status */
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]), close(ends[1]);
        execv(argv[0], argv);
        fprintf(stderr, "gpugemm: %s: %s\n", argv[0], strerror(errno));
        _exit(CMD_NOT_FOUND);
    }
    close(ends[1]);
    double start = cmd_now();
    int done = 0;
    char buffer[4096];
    bool fresh = true;
    for (ssize_t n; pid > 0;) {
        progress(what, done, lines, start);
        struct pollfd p = {.fd = ends[0], .events = POLLIN};
        if (poll(&p, 1, 250) == 0)
            continue;
        if ((n = read(ends[0], buffer, sizeof buffer)) <= 0)
            break;
        if (isatty(STDERR_FILENO))
            fprintf(stderr, "\r\033[K");
        for (ssize_t i = 0; i < n; i++) {
            done += fresh && buffer[i] != '#';
            fresh = buffer[i] == '\n';
        }
        fwrite(buffer, 1, (size_t)n, stdout);
        fflush(stdout);
    }
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r\033[K");
    close(ends[0]);
    int status = -1;
    return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* "out.csv" -> "out-device.csv" */
static void name_part(char path[PATH_MAX], const char *csv, const char *part)
{
    const char *dot = strrchr(csv, '.'), *slash = strrchr(csv, '/');
    int stem = dot && (!slash || dot > slash) ? (int)(dot - csv) : (int)strlen(csv);
    snprintf(path, PATH_MAX, "%.*s-%s%s", stem, csv, part, csv + stem);
}

int cmd_bench(int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"device", 'd', NULL, 0, "Operands in GPU memory: libgpugemm and cuBLAS", 0},
        {"host", 'h', NULL, 0, "Operands in host memory: libgpugemm, the CPU BLAS, NVBLAS and cublasXt (both are the default)", 0},
        {"sizes", 'n', "LIST", 0, "n or MxNxK, separated by commas (256,512,1024,2048,4096)", 0},
        {"types", 't', "s|d|sd", 0, "sgemm, dgemm or both (sd)", 0},
        {"layouts", 'l', "LIST", 0, "NN, NT, TN, TT, separated by commas; for operands in GPU memory (NN)", 0},
        {"seconds", 's', "S", 0, "Seconds per case (0.2)", 0},
        {"csv", 'c', "FILE", 0, "Also write CSV: for x.csv, the files x-device.csv and x-host.csv", 0},
        {"label", 'L', "TEXT", 0, "Name of what is measured, for file and picture (the library's version)", 0},
        {"plot", 'p', "FILE", 0, "Draw the results: .svg or .png (needs Python with matplotlib)", 0},
        {0}};
    static const struct argp argp = {
        .options = options,
        .parser = parse,
        .doc = "Compares libgpugemm with the CPU BLAS and, where they are installed, cuBLAS, NVBLAS and cublasXt, each result "
               "verified. The table is in TFLOP/s for operands in GPU memory (sgemm in strict FP32, as cuBLAS's), in ms for host "
               "memory (sgemm in the default precision)."};
    struct bench b = {.sizes = "256,512,1024,2048,4096", .types = "sd", .layouts = "NN", .seconds = "0.2"};
    argp_parse(&argp, argc, argv, 0, NULL, &b);
    char version[64];
    snprintf(version, sizeof version, "version %s", ((__typeof__(gpugemm_version) *)cmd_symbol("gpugemm_version"))());
    b.label = b.label ? b.label : version;
    if (b.plot && run_program((char *[]){"/usr/bin/env", "python3", "-c", SEEK_MATPLOTLIB, NULL}, "matplotlib", 0)) {
        fprintf(stderr, "gpugemm: pictures need Python's matplotlib (apt install python3-matplotlib)\n");
        return CMD_UNAVAILABLE;
    }
    static const char *const parts[2] = {"device", "host"};
    const bool wanted[2] = {b.device, b.host};
    char programs[2][PATH_MAX] = {"", ""};
    for (int i = 0; i < 2; i++) {
        const char *program = wanted[i] ? cmd_helper(i ? "host" : "bench") : "";
        if (!program) {
            fprintf(stderr, "gpugemm: the benchmark programs are not installed\n");
            return CMD_UNAVAILABLE;
        }
        snprintf(programs[i], PATH_MAX, "%s", program);
    }
    char folder[] = "/tmp/gpugemm-bench-XXXXXX", path[2][PATH_MAX];
    if (!mkdtemp(folder)) {
        perror("gpugemm: /tmp");
        return CMD_UNAVAILABLE;
    }
    int result = CMD_OK;
    for (int i = 0; i < 2; i++) {
        *path[i] = 0;
        if (!wanted[i])
            continue;
        if (b.csv)
            name_part(path[i], b.csv, parts[i]);
        else
            snprintf(path[i], PATH_MAX, "%s/%s.csv", folder, parts[i]);
        char *device[] = {programs[0],       "--lib",     (char *)cmd_library(), "--sizes", (char *)b.sizes, "--types",  (char *)b.types, "--layouts",
                          (char *)b.layouts, "--seconds", (char *)b.seconds,     "--csv",   path[i],         "--commit", (char *)b.label, NULL};
        char *host[] = {programs[1],     "--part",   "compare",       "--lib",     (char *)cmd_library(), "--sizes",
                        (char *)b.sizes, "--types",  (char *)b.types, "--seconds", (char *)b.seconds,     "--csv",
                        path[i],         "--commit", (char *)b.label, NULL};
        int status = run_program(i ? host : device, parts[i], i ? 0 : count_of(b.sizes) * count_of(b.layouts) * (int)strlen(b.types));
        if (status == NO_GPU)
            *path[i] = 0;
        if (status && !(status == NO_GPU && b.both))
            result = status == CMD_NOT_FOUND || status == NO_GPU ? CMD_UNAVAILABLE : CMD_FAILED;
    }
    if (b.plot && result == CMD_OK) {
        const char *script = cmd_helper("plot.py");
        char *plot[] = {"/usr/bin/env", "python3", (char *)(script ? script : "plot.py"), (char *)b.plot, path[0], path[1], NULL};
        for (int i = 4, from = 0; from < 2; from++)
            if (*path[from])
                plot[i++] = path[from], plot[i] = NULL;
        if (run_program(plot, "drawing", 0))
            result = CMD_UNAVAILABLE;
        else
            printf("%s\n", b.plot);
    }
    for (int i = 0; i < 2; i++)
        if (!b.csv && *path[i])
            unlink(path[i]);
    rmdir(folder);
    return result;
}

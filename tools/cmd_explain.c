/* cmd_explain.c — `gpugemm explain`: the decision for one call, as the library itself would make it, without making the call. */
#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd.h"
#include "gpugemm.h"

struct question {
    const char *routine, *trans, *gpu;
    double beta;
    int64_t size[3];
    int sizes;
    bool json;
};

static __typeof__(gpugemm_explain) *ask;

static error_t parse(int key, char *value, struct argp_state *state)
{
    struct question *q = state->input;
    char *end;
    switch (key) {
    case 'r': q->routine = value; return 0;
    case 'T': q->trans = value; return 0;
    case 'g': q->gpu = value; return 0;
    case 'j': q->json = true; return 0;
    case 'b': q->beta = strtod(value, &end); break;
    case ARGP_KEY_ARG:
        if (q->sizes == 3)
            argp_error(state, "more than m, n and k");
        errno = 0;
        q->size[q->sizes++] = strtoll(value, &end, 10);
        if (errno)
            argp_error(state, "%s is beyond 64-bit integers", value);
        break;
    case ARGP_KEY_END:
        if (!q->sizes)
            argp_error(state, "m, n and k are missing");
        for (; q->sizes < 3; q->sizes++)
            q->size[q->sizes] = q->size[0];
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
    if (!*value || *end)
        argp_error(state, "%s is not a number", value);
    return 0;
}

static enum gpugemm_transpose trans(char c) { return strchr("tTcC", c) ? GPUGEMM_TRANS : GPUGEMM_NO_TRANS; }

static int answer(const struct question *q, int in_gpu_memory, const int64_t size[3], struct gpugemm_decision *d)
{
    return ask(q->routine, trans(q->trans[0]), trans(q->trans[1]), size[0], size[1], size[2], q->beta, in_gpu_memory, q->gpu, d, sizeof *d);
}

/* Does the square product go to the GPU? If not, *why is the reason. */
static bool goes_to_gpu(const struct question *q, int64_t n, const char **why)
{
    struct gpugemm_decision d;
    answer(q, 0, (int64_t[]){n, n, n}, &d);
    *why = d.reason;
    return strcmp(d.path, "cpu") != 0;
}

/* The smallest n from which on all square products go to the GPU; 0: the largest does not, and *why says why. As in info.c. */
static int64_t crossover(const struct question *q, const char **why)
{
    int64_t low = 32768, high = 0;
    for (; low > 0 && goes_to_gpu(q, low, why); low -= 1 + low / 256)
        high = low;
    while (high - low > 1) {
        int64_t middle = (low + high) / 2;
        *(goes_to_gpu(q, middle, why) ? &high : &low) = middle;
    }
    return high;
}

static void print(const char *where, const struct gpugemm_decision *d)
{
    const char *who = strcmp(d->path, "cpu") == 0 ? "CPU" : !*d->kernel ? "nobody" : strcmp(d->path, "device") ? "GPU, staged" : "GPU, in place";
    printf("  %-17s %s%s%s: %s\n", where, CMD_BOLD, who, CMD_PLAIN, d->reason);
    if (*d->kernel)
        printf("  %-17s kernel %s%s, %s on the GPU alone%s\n", "", d->kernel, d->pieces > 1 ? ", k cut in pieces" : "",
               cmd_seconds(d->predicted_kernel),
               strncmp(d->kernel, "tensor_", 7)        ? ""
               : strcmp(d->kernel, "tensor_int8") == 0 ? "; FP64 multiply-adds for operands that are not certified"
                                                       : "; FP32 multiply-adds for operands that are not certified");
    if (d->predicted_cpu > 0)
        printf("  %-17s predicted: CPU %s", "", cmd_seconds(d->predicted_cpu));
    if (d->predicted_cpu > 0 && d->predicted_gpu > 0)
        printf(", GPU %s with all copies", cmd_seconds(d->predicted_gpu));
    if (d->predicted_cpu > 0 && d->predicted_gpu > 0 && !d->assumed)
        printf(": %.1f times as %s", d->predicted_cpu > d->predicted_gpu ? d->predicted_cpu / d->predicted_gpu : d->predicted_gpu / d->predicted_cpu,
               d->predicted_cpu > d->predicted_gpu ? "fast" : "slow");
    if (d->predicted_cpu > 0)
        printf("%s\n", d->predicted_gpu > 0 || strcmp(d->reason, "faster on the CPU") ? "" : "; latency and copies alone would take longer");
    if (d->predicted_cpu > 0 && d->assumed)
        printf("  %-17s assumed, not measured on this machine: the speed of %s (gpugemm tune measures it, beside a GPU)\n", "",
               d->assumed == 1   ? "its CPU"
               : d->assumed == 2 ? "the copies"
                                 : "its CPU and of the copies");
}

/* In JSON the path is "none" where print says "nobody". */
static void print_json(const char *key, const struct gpugemm_decision *d)
{
    printf(", \"%s\": {\"path\": \"%s\", \"kernel\": \"%s\", \"reason\": \"%s\", \"predicted_cpu_s\": %.9g, \"predicted_gpu_s\": %.9g, \"kernel_s\": "
           "%.9g}",
           key, *d->kernel || strcmp(d->path, "cpu") == 0 ? d->path : "none", d->kernel, d->reason, d->predicted_cpu, d->predicted_gpu,
           d->predicted_kernel);
}

int cmd_explain(int argc, char **argv)
{
    static const struct argp_option options[] = {{"routine", 'r', "sgemm|dgemm", 0, "The routine (dgemm)", 0},
                                                 {"trans", 'T', "NN|NT|TN|TT", 0, "transa and transb, column-major (NN)", 0},
                                                 {"beta", 'b', "NUMBER", 0, "beta (0: C is not read)", 0},
                                                 {"gpu", 'g', "a100|h100|h200", 0, "Assume this GPU instead of the one that is here", 0},
                                                 {"json", 'j', NULL, 0, "One JSON object", 0},
                                                 {0}};
    static const struct argp argp = {
        .options = options,
        .parser = parse,
        .args_doc = "M [N [K]]",
        .doc = "Says who would serve C := op(A) op(B) where C is M x N and each sum has K products, why, by which kernel, and in what "
               "time: for operands in host memory and in GPU memory. N and K default to M."};
    struct question q = {.routine = "dgemm", .trans = "NN"};
    argp_parse(&argp, argc, argv, 0, NULL, &q);
    if (strlen(q.trans) != 2 || strspn(q.trans, "nNtTcC") != 2) {
        fprintf(stderr, "gpugemm: --trans wants two of N and T, not %s\n", q.trans);
        return CMD_USAGE;
    }
    *(void **)&ask = cmd_symbol("gpugemm_explain");
    struct gpugemm_decision host, device;
    int status = answer(&q, 0, q.size, &host);
    answer(&q, 1, q.size, &device);
    if (status < 0) {
        fprintf(stderr, "gpugemm: %s\n",
                status == -1   ? "--routine is sgemm or dgemm"
                : status == -9 ? "--gpu is one of a100, h100 and h200"
                               : "m, n and k are not negative");
        return CMD_USAGE;
    }
    const char *why;
    int64_t from = crossover(&q, &why);
    double m = (double)q.size[0], n = (double)q.size[1], k = (double)q.size[2], bytes = (q.routine[0] | 32) == 'd' ? 8 : 4;
    double moved = bytes * (m * k + k * n + (q.beta == 0 ? 1 : 2) * m * n);
    if (q.json) {
        printf("{\"routine\": \"%s\", \"trans\": \"%s\", \"m\": %lld, \"n\": %lld, \"k\": %lld, \"gpu\": \"%s\", \"square_from\": %lld, "
               "\"cpu_assumed\": %s, \"copies_assumed\": %s",
               q.routine, q.trans, (long long)q.size[0], (long long)q.size[1], (long long)q.size[2],
               q.gpu    ? q.gpu
               : status ? "none"
                        : "here",
               (long long)from, host.assumed & 1 ? "true" : "false", host.assumed & 2 ? "true" : "false");
        print_json("host", &host);
        print_json("device", &device);
        puts("}");
        return CMD_OK;
    }
    printf("%s%s %s%s  m %lld  n %lld  k %lld: %.3g Gflop on %.3g MB%s%s\n", CMD_BOLD, q.routine, q.trans, CMD_PLAIN, (long long)q.size[0],
           (long long)q.size[1], (long long)q.size[2], 2e-9 * m * n * k, 1e-6 * moved, q.gpu ? "; assuming one " : "", q.gpu ? q.gpu : "");
    print("in host memory", &host);
    print("in GPU memory", &device);
    if (from)
        printf("Square products of host matrices like this one go to the GPU from n = %lld on.\n", (long long)from);
    else
        printf("Products of host matrices like this one all stay on the CPU: %s.\n", why);
    return CMD_OK;
}

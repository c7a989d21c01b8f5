/* info.c — owns the text of `gpugemm info`: what is here, what is in force, and why. It changes nothing, except that it starts the GPU. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "cost.h"
#include "dispatch.h"
#include "fp.h"
#include "gpugemm.h"
#include "json.h"
#include "real.h"
#include "serve.h"
#include "trace.h"

static void print_gpu(FILE *out)
{
    const struct gg_device *dev = gg_gpu_wait(GG_PATIENCE) ? gg_gpu_default() : NULL;
    if (!dev) {
        fprintf(out, "GPU        none: %s. The CPU serves every call.\n", gg_gpu_trouble());
        return;
    }
    const struct gg_arch *a = &dev->arch;
    fprintf(out, "GPU        %s (device %d), compute capability %d.%d, %d multiprocessors at %d MHz, %.1f GiB at %.0f GB/s\n", dev->name,
            dev->ordinal, a->cc / 10, a->cc % 10, a->sms, a->clock_mhz, (double)a->memory_bytes / (1 << 30), 1e-9 * a->bandwidth);
    int cuda, devices;
    gg_gpu_driver(&cuda, &devices);
    fprintf(out, "Driver     for CUDA %d.%d, %d GPU%s; host operands go to the one above\n", cuda / 1000, cuda % 1000 / 10, devices,
            devices == 1 ? "" : "s");
}

static void print_blas(FILE *out)
{
    void *dgemm = gg_real_find("dgemm_", NULL);
    const char *core = dgemm ? gg_real_core() : NULL;
    if (dgemm)
        fprintf(out, "CPU BLAS   %s, %s%s%s%s\n", gg_real_path(), gg_real_how(), core ? ", kernels for " : "", core ? core : "",
                gg_config()->blas ? "" : " (in a program that brings its own BLAS, that one)");
    if (core && strcmp(core, "Prescott") == 0)
        fprintf(out, "           OpenBLAS takes a CPU that it does not know for a Prescott of 2004: set OPENBLAS_CORETYPE=Haswell (AVX2) or SkylakeX "
                     "(AVX-512)\n");
    if (!dgemm)
        fprintf(out, "CPU BLAS   none found: a program must bring its own, or GPUGEMM_BLAS name one (apt install libopenblas0)\n");
}

/* Does a square product, column-major NN in the precision in force, go to the GPU? If not, *d says why. */
static bool goes_to_gpu(enum gg_type type, int64_t n, const struct gg_facts *f, struct gg_decision *d)
{
    struct gg_gemm p = {.type = type,
                        .b_kmajor = true,
                        .m = n,
                        .n = n,
                        .k = n,
                        .lda = n,
                        .ldb = n,
                        .ldc = n,
                        .alpha = 1,
                        .precision = gg_precision_in_force()};
    *d = gg_dispatch(&p, f);
    return d->path != GG_PATH_CPU;
}

/* The smallest n from which on all square products go to the GPU; 0: the largest does not, and *d says why. Searched from above in small steps,
 * because what calls took may keep a class of sizes on the CPU between others. cmd_explain.c does the same. */
static int64_t first_on_gpu(enum gg_type type, const struct gg_facts *f, struct gg_decision *d)
{
    int64_t low = 32768, high = 0;
    for (; low > 0 && goes_to_gpu(type, low, f, d); low -= 1 + low / 256)
        high = low;
    while (high - low > 1) {
        int64_t middle = (low + high) / 2;
        *(goes_to_gpu(type, middle, f, d) ? &high : &low) = middle;
    }
    return high;
}

static void print_rates(FILE *out)
{
    struct gg_facts f = gg_host_facts();
    fprintf(out, "Rates      CPU %.0f (sgemm) and %.0f (dgemm) GFLOP/s, %.0f us a staged call: assumed; copies %.0f GB/s up and %.0f down: %s\n",
            1e-9 * f.rates->cpu_flops[GG_S], 1e-9 * f.rates->cpu_flops[GG_D], 1e6 * f.rates->latency, 1e-9 * f.rates->up, 1e-9 * f.rates->down,
            gg_rates_origin());
    fprintf(out, "Threshold ");
    for (int type = GG_S; type <= GG_D; type++) {
        struct gg_decision d;
        int64_t n = first_on_gpu((enum gg_type)type, &f, &d);
        if (n)
            fprintf(out, " %cgemm n = %lld%s", type == GG_S ? 's' : 'd', (long long)n,
                    type == GG_S ? "," : ": from there square products of host matrices go to the GPU\n");
        else
            fprintf(out, " %cgemm none, %s%s", type == GG_S ? 's' : 'd', gg_reason_text(d.reason), type == GG_S ? ";" : "\n");
    }
}

/* The i-th row by which sgemm may be computed on this GPU: the tiers of its chains (tensor.h), then FP32 multiply-adds; NULL: there are no more. */
static const struct gg_kernel *tier(const struct gg_arch *arch, int i)
{
    const struct gg_kernel *ffma = NULL, *head = NULL;
    for (const struct gg_kernel *row = gg_kernels; row < gg_kernels + gg_kernel_count; row++)
        if (row->type == GG_S && row->role < GG_SKINNY && gg_runs(row, arch) && (!ffma || row->rate > ffma->rate)) /* for any shape */
            ffma = row;
    for (const struct gg_kernel *row = gg_kernels; ffma && row < gg_kernels + gg_kernel_count; row++) {
        if ((row->role != GG_TENSOR && row->role != GG_TENSOR_MMA) || !gg_runs(row, arch) || gg_rate(row, arch) <= gg_rate(ffma, arch))
            continue;
        head = head ? head : row;
        if (row->role == head->role && i-- == 0)
            return row;
    }
    return i == 0 ? ffma : NULL;
}

static void print_precision(FILE *out)
{
    static const char *const tiers[] = {
        [GG_STRICT] = "strict: sgemm in FP32 multiply-adds",
        [GG_FP32] =
            "fp32: sgemm on tensor cores (three products of FP16, else six of BF16) where its operands are certified, else FP32 multiply-adds",
        [GG_TF32] = "tf32: sgemm on tensor cores, A and B rounded to 11 bits",
    };
    const struct gg_device *dev = gg_gpu_default();
    const struct gg_kernel *first = dev ? tier(&dev->arch, 0) : NULL;
    const bool has_tiers = !dev || (first && first->role >= GG_TENSOR), hopper = !dev || dev->arch.cc == 90;
    fprintf(out, "Precision  %s; dgemm %s\n",
            has_tiers ? tiers[gg_config()->precision] : "sgemm in FP32 multiply-adds (tensor cores serve it on Hopper and A100 only)",
            hopper && gg_config()->precision != GG_STRICT ? "on tensor cores (modulo 15 numbers of 8 bits), likewise, else in FP64" : "in FP64");
}

/* flop/s of the row's main loop, at this GPU's clock. */
static double rate(const struct gg_kernel *row, const struct gg_arch *arch) { return 1e6 * gg_rate(row, arch) * arch->sms * arch->clock_mhz; }

static void print_tiers(FILE *out)
{
    const struct gg_device *dev = gg_gpu_default();
    const struct gg_kernel *row;
    int i = 0;
    for (; dev && (row = tier(&dev->arch, i)); i++)
        fprintf(out, "%s %s %.0f TFLOP/s", i ? "," : "Tiers     ", row->name, 1e-12 * rate(row, &dev->arch));
    fputs(i ? ", the last in FP32 multiply-adds: their main loops\n" : "", out);
}

static void print_options(FILE *out)
{
    fprintf(out, "\n%-22s %-22s %s\n", "Environment", "value", "meaning");
    for (int i = 0; i < gg_option_count; i++) {
        const char *value = gg_config_text(i);
        fprintf(out, "%-22s ", gg_options[i].name);
        const int width = *value ? fprintf(out, "%s", value) : fprintf(out, "(%s)", gg_options[i].fallback);
        fprintf(out, "%*s %s\n", width < 22 ? 22 - width : 0, "", gg_options[i].meaning);
    }
}

static void print_kernels(FILE *out)
{
    fprintf(out, "\nKernels   ");
    for (int i = 0; i < gg_kernel_count; i++)
        if (gg_kernels[i].role < GG_SCALE) /* the others are their helpers */
            fprintf(out, " %s", gg_kernels[i].name);
    fprintf(out, "%s\n", gg_kernel_count ? "" : " none in this build");
}

static void print_text(FILE *out)
{
    fprintf(out, "libgpugemm %s\n", gpugemm_version());
    print_gpu(out);
    print_blas(out);
    print_rates(out);
    print_precision(out);
    print_tiers(out);
    print_options(out);
    print_kernels(out);
}

/* ---- the same for programs --------------------------------------------------------------------------------------------------------------- */

static void put_string(FILE *out, const char *key, const char *text, const char *after)
{
    fprintf(out, "\"%s\": ", key);
    gg_json_string(out, text);
    fputs(after, out);
}

static void print_json(FILE *out)
{
    const struct gg_device *dev = gg_gpu_wait(GG_PATIENCE) ? gg_gpu_default() : NULL;
    fputc('{', out);
    put_string(out, "version", gpugemm_version(), ", \"gpu\": ");
    if (dev) {
        fputc('{', out);
        put_string(out, "name", dev->name, "");
        fprintf(out,
                ", \"ordinal\": %d, \"compute_capability\": %d, \"multiprocessors\": %d, \"clock_mhz\": %d, \"memory_bytes\": %lld, \"bandwidth\": "
                "%.0f}, ",
                dev->ordinal, dev->arch.cc, dev->arch.sms, dev->arch.clock_mhz, (long long)dev->arch.memory_bytes, dev->arch.bandwidth);
    } else {
        fputs("null, ", out);
    }
    int cuda, devices;
    gg_gpu_driver(&cuda, &devices);
    fprintf(out, "\"driver_cuda\": %d, \"gpus\": %d, ", cuda, devices);
    put_string(out, "trouble", gg_gpu_trouble(), ", ");
    put_string(out, "cpu_blas", gg_real_find("dgemm_", NULL) ? gg_real_path() : "", ", ");
    const char *core = gg_real_core();
    put_string(out, "cpu_blas_core", core ? core : "", ", ");
    struct gg_facts f = gg_host_facts();
    struct gg_decision d;
    fprintf(out, "\"rates\": {\"cpu_sgemm\": %.4g, \"cpu_dgemm\": %.4g, \"to_gpu\": %.4g, \"from_gpu\": %.4g}, ", f.rates->cpu_flops[GG_S],
            f.rates->cpu_flops[GG_D], f.rates->up, f.rates->down);
    const int64_t from_s = first_on_gpu(GG_S, &f, &d), from_d = first_on_gpu(GG_D, &f, &d); /* 0: none */
    fprintf(out, "\"square_from\": {\"sgemm\": %lld, \"dgemm\": %lld}, \"options\": {", (long long)from_s, (long long)from_d);
    for (int i = 0; i < gg_option_count; i++)
        put_string(out, gg_options[i].name, gg_config_text(i), i + 1 < gg_option_count ? ", " : "}, \"kernels\": [");
    for (int i = 0, count = 0; i < gg_kernel_count; i++)
        if (gg_kernels[i].role < GG_SCALE)
            fprintf(out, "%s\"%s\"", count++ ? ", " : "", gg_kernels[i].name);
    fputs("], \"tiers\": [", out);
    const struct gg_kernel *row;
    for (int i = 0; dev && (row = tier(&dev->arch, i)); i++)
        fprintf(out, "%s{\"kernel\": \"%s\", \"flops\": %.4g}", i ? ", " : "", row->name, rate(row, &dev->arch));
    fputs("]}\n", out);
}

static char *printed(void (*print)(FILE *))
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return NULL;
    const struct gg_fp fp = gg_fp_ours();
    print(out);
    gg_fp_write(fp);
    return fclose(out) == 0 ? text : NULL;
}

char *gpugemm_info(void) { return printed(print_text); }

char *gpugemm_info_json(void)
{
    const locale_t theirs = gg_use_points();
    char *text = printed(print_json);
    gg_use_theirs(theirs);
    return text;
}

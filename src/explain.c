/* explain.c — owns the answer to "who would serve this call, and why": dispatch.c's answer for a problem without operands. The GPU is the one that is
 * present, which is started for it, or one assumed by name. It runs no gemm. */
#include <string.h>
#include <strings.h>

#include "dispatch.h"
#include "fp.h"
#include "gpugemm.h"
#include "serve.h"
#include "trace.h"

/* GPUs that can be assumed, with the figures of their data sheets and drivers. */
static const struct {
    const char *name;
    struct gg_arch arch;
} known[] = {
    {"a100",
     {.cc = 80,
      .sms = 108,
      .clock_mhz = 1410,
      .smem_per_block = 166912,
      .smem_per_sm = 167936,
      .l2_bytes = 40 << 20,
      .memory_bytes = INT64_C(80) << 30,
      .bandwidth = 2.04e12}},
    {"h100",
     {.cc = 90,
      .sms = 132,
      .clock_mhz = 1980,
      .smem_per_block = 232448,
      .smem_per_sm = 233472,
      .l2_bytes = 50 << 20,
      .memory_bytes = INT64_C(80) << 30,
      .bandwidth = 3.35e12}},
    {"h200",
     {.cc = 90,
      .sms = 132,
      .clock_mhz = 1980,
      .smem_per_block = 232448,
      .smem_per_sm = 233472,
      .l2_bytes = 60 << 20,
      .memory_bytes = INT64_C(140) << 30,
      .bandwidth = 4.8e12}},
};

static const struct gg_arch *arch_named(const char *name)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcasecmp(name, known[i].name) == 0)
            return &known[i].arch;
    return NULL;
}

static bool is_transpose(enum gpugemm_transpose t) { return t >= GPUGEMM_NO_TRANS && t <= GPUGEMM_CONJ_TRANS; }

int gpugemm_explain(const char *routine, enum gpugemm_transpose transa, enum gpugemm_transpose transb, int64_t m, int64_t n, int64_t k, double beta,
                    int in_gpu_memory, const char *gpu, struct gpugemm_decision *decision, size_t size)
{
    const bool dbl = routine && strcasecmp(routine, "dgemm") == 0;
    if (!routine || (!dbl && strcasecmp(routine, "sgemm") != 0))
        return -1;
    if (!is_transpose(transa) || !is_transpose(transb))
        return is_transpose(transa) ? -3 : -2;
    if (m < 0 || n < 0 || k < 0)
        return m < 0 ? -4 : n < 0 ? -5 : -6;
    if (!decision && size)
        return -10;
    const struct gg_arch *assumed = gpu ? arch_named(gpu) : NULL;
    if (gpu && !assumed)
        return -9;
    const struct gg_fp fp = gg_fp_ours();
    struct gg_gemm p = {.type = dbl ? GG_D : GG_S,
                        .a_kmajor = transa != GPUGEMM_NO_TRANS,
                        .b_kmajor = transb == GPUGEMM_NO_TRANS,
                        .m = m,
                        .n = n,
                        .k = k,
                        .alpha = 1,
                        .beta = beta,
                        .precision = gg_precision_in_force()};
    p.lda = gg_max(1, p.a_kmajor ? k : m);
    p.ldb = gg_max(1, p.b_kmajor ? k : n);
    p.ldc = gg_max(1, m);
    bool up = !gpu && gg_gpu_wait(GG_PATIENCE);
    struct gg_facts facts = gg_host_facts();
    if (gpu) {
        facts.gpu = GG_GPU_READY;
        facts.start_left = 0;
        facts.arch = assumed;
    }
    facts.a = facts.b = facts.c = in_gpu_memory ? GG_DEVICE : GG_HOST;
    struct gg_decision d = gg_dispatch(&p, &facts);
    const bool cpu_seen = atomic_load_explicit(&facts.rates->seen[GG_ON_CPU][p.type][gg_shape(&p)][gg_work(&p)], memory_order_relaxed) > 0;
    struct gpugemm_decision told = {.routine = dbl ? "dgemm" : "sgemm",
                                    .path = gg_path_text(d.path),
                                    .kernel = d.choice.kernel ? d.choice.kernel->name : "",
                                    .reason = gg_reason_text(d.reason),
                                    .m = m,
                                    .n = n,
                                    .k = k,
                                    .predicted_cpu = d.seconds_cpu,
                                    .predicted_gpu = d.seconds_gpu,
                                    .predicted_kernel = d.choice.kernel ? d.choice.seconds : 0,
                                    .pieces = gg_own_pieces(&d.choice) * d.choice.splits /* one of them is 1 */,
                                    .assumed = (cpu_seen ? 0 : 1) | (gg_rates_measured() ? 0 : 2)};
    gg_fp_write(fp);
    memset(decision, 0, size);
    memcpy(decision, &told, size < sizeof told ? size : sizeof told);
    return up || gpu ? GPUGEMM_SUCCESS : GPUGEMM_NO_GPU;
}

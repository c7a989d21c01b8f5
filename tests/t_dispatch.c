/* t_dispatch.c — the decision, without a GPU: rows of (problem, facts) with the path, reason, start and wait they must give; then properties that
 * hold for all of them. */
#include <stdio.h>

#include "dispatch.h"

static int failures;
#define CHECK(x) ((x) ? (void)0 : (void)(failures++, printf("%s:%d: %s\n", __FILE__, __LINE__, #x)))

static const struct gg_arch h200 = {.cc = 90, .sms = 132, .clock_mhz = 1980, .smem_per_block = 232448, .smem_per_sm = 233472,
                                    .l2_bytes = 60 << 20, .memory_bytes = 140LL << 30, .bandwidth = 4.8e12};

static struct gg_rates rates; /* the defaults for 16 threads */

static struct gg_gemm square(int64_t n)
{
    return (struct gg_gemm){.type = GG_S, .b_kmajor = true, .m = n, .n = n, .k = n, .lda = n, .ldb = n, .ldc = n, .alpha = 1};
}

static struct gg_facts facts(enum gg_mode mode, enum gg_gpu_state gpu)
{
    return (struct gg_facts){.mode = mode, .gpu = gpu, .start_left = gpu == GG_GPU_OFF || gpu == GG_GPU_STARTING ? 0.6 : 0,
                             .arch = gpu == GG_GPU_READY ? &h200 : NULL, .round_to_nearest = true, .rates = &rates};
}

#define H GG_HOST
#define P GG_PINNED
#define X GG_PEER
#define M GG_MANAGED
#define D GG_DEVICE

static const struct {
    int64_t n;
    enum gg_mode mode;
    enum gg_gpu_state gpu;
    enum gg_place a, b, c;
    enum gg_path path;
    enum gg_reason reason;
    bool start, wait;
} rows[] = {
    {8, GG_MODE_AUTO, GG_GPU_READY, H, H, H, GG_PATH_CPU, GG_TOO_SMALL, 0, 0},
    {8, GG_MODE_AUTO, GG_GPU_OFF, H, H, H, GG_PATH_CPU, GG_TOO_SMALL, 0, 0},
    {8, GG_MODE_AUTO, GG_GPU_NONE, H, H, H, GG_PATH_CPU, GG_TOO_SMALL, 0, 0}, /* gg_serve does not ask whether there is a GPU */
    {8, GG_MODE_CPU, GG_GPU_READY, H, H, H, GG_PATH_CPU, GG_CPU_FORCED, 0, 0},
    {8, GG_MODE_GPU, GG_GPU_READY, H, H, H, GG_PATH_STAGED, GG_GPU_FORCED, 0, 0},
    {8, GG_MODE_GPU, GG_GPU_OFF, H, H, H, GG_PATH_STAGED, GG_GPU_FORCED, 1, 1},
    {0, GG_MODE_GPU, GG_GPU_READY, H, H, H, GG_PATH_CPU, GG_EMPTY, 0, 0},
    {0, GG_MODE_GPU, GG_GPU_READY, D, D, D, GG_PATH_CPU, GG_EMPTY, 0, 0},
    {4096, GG_MODE_AUTO, GG_GPU_READY, H, H, H, GG_PATH_STAGED, GG_OK, 0, 0},
    {4096, GG_MODE_AUTO, GG_GPU_READY, P, H, P, GG_PATH_STAGED, GG_OK, 0, 0},
    {4096, GG_MODE_CPU, GG_GPU_READY, H, H, H, GG_PATH_CPU, GG_CPU_FORCED, 0, 0},
    {4096, GG_MODE_CPU, GG_GPU_READY, D, D, D, GG_PATH_DEVICE, GG_IN_PLACE, 0, 0},
    {1024, GG_MODE_AUTO, GG_GPU_OFF, H, H, H, GG_PATH_CPU, GG_NOT_YET, 0, 0},
    {5500, GG_MODE_AUTO, GG_GPU_OFF, H, H, H, GG_PATH_CPU, GG_STARTING, 1, 0},
    {1024, GG_MODE_AUTO, GG_GPU_STARTING, H, H, H, GG_PATH_CPU, GG_STARTING, 0, 0},
    {16384, GG_MODE_AUTO, GG_GPU_OFF, H, H, H, GG_PATH_STAGED, GG_OK, 1, 1},
    {4096, GG_MODE_AUTO, GG_GPU_NONE, H, H, H, GG_PATH_CPU, GG_NO_GPU, 0, 0},
    {4096, GG_MODE_GPU, GG_GPU_NONE, H, H, H, GG_PATH_CPU, GG_NO_GPU, 0, 0},
    {4096, GG_MODE_GPU, GG_GPU_DEAD, H, H, H, GG_PATH_CPU, GG_DEAD, 0, 0},
    {4096, GG_MODE_GPU, GG_GPU_FORKED, H, H, H, GG_PATH_CPU, GG_FORKED, 0, 0},
    {8, GG_MODE_AUTO, GG_GPU_READY, D, D, D, GG_PATH_DEVICE, GG_IN_PLACE, 0, 0},
    {8, GG_MODE_AUTO, GG_GPU_READY, M, D, M, GG_PATH_DEVICE, GG_IN_PLACE, 0, 0},
    {8, GG_MODE_AUTO, GG_GPU_READY, H, D, D, GG_PATH_STAGED, GG_IN_PLACE, 0, 0},
    {8, GG_MODE_AUTO, GG_GPU_READY, H, H, D, GG_PATH_STAGED, GG_IN_PLACE, 0, 0},
    {8, GG_MODE_AUTO, GG_GPU_READY, X, D, D, GG_PATH_STAGED, GG_IN_PLACE, 0, 0},
    {8, GG_MODE_AUTO, GG_GPU_OFF, D, D, D, GG_PATH_DEVICE, GG_IN_PLACE, 1, 1},
    {8, GG_MODE_AUTO, GG_GPU_DEAD, D, D, D, GG_PATH_DEVICE, GG_DEAD, 0, 0},
    {8, GG_MODE_AUTO, GG_GPU_FORKED, H, D, H, GG_PATH_STAGED, GG_FORKED, 0, 0},
};

/* The facts after one call like *p has taken `cpu` seconds on the CPU and another `gpu` on the GPU; dispatch may try the other side. */
static struct gg_facts after_calls(const struct gg_gemm *p, double cpu, double gpu)
{
    struct gg_rates *rates_in_force = gg_rates();
    gg_rates_default(rates_in_force, 16);
    struct gg_facts f = facts(GG_MODE_AUTO, GG_GPU_READY);
    f.rates = rates_in_force;
    f.may_try = true;
    const struct gg_decision d = gg_dispatch(p, &f);
    gg_rates_learn(GG_ON_CPU, p, d.model_cpu, cpu);
    gg_rates_learn(GG_ON_GPU, p, d.model_gpu, gpu);
    return f;
}

/* Like calls need not ask where the CPU is known to be twice as fast, or where there is no GPU. */
static void settled(void)
{
    const struct gg_gemm p = square(96);
    struct gg_facts f = after_calls(&p, 10e-6, 25e-6);
    CHECK(gg_dispatch(&p, &f).path == GG_PATH_CPU && gg_dispatch(&p, &f).settled);
    f.gpu = GG_GPU_OFF, f.arch = NULL;
    CHECK(gg_dispatch(&p, &f).path == GG_PATH_CPU && gg_dispatch(&p, &f).settled);
    f.gpu = GG_GPU_NONE;
    CHECK(gg_dispatch(&p, &f).reason == GG_NO_GPU && gg_dispatch(&p, &f).settled);
    f.mode = GG_MODE_CPU;
    CHECK(gg_dispatch(&p, &f).reason == GG_CPU_FORCED && !gg_dispatch(&p, &f).settled);
    f = after_calls(&p, 15e-6, 25e-6);
    CHECK(gg_dispatch(&p, &f).path == GG_PATH_CPU && !gg_dispatch(&p, &f).settled);
    f = after_calls(&p, 25e-6, 10e-6);
    CHECK(gg_dispatch(&p, &f).path == GG_PATH_STAGED && !gg_dispatch(&p, &f).settled);
    struct gg_rates slow_link; /* the copies alone speak for the CPU; but how fast it is nobody knows */
    gg_rates_default(&slow_link, 16);
    slow_link.up = slow_link.down = slow_link.pinned = 1e6;
    f.rates = &slow_link;
    CHECK(gg_dispatch(&p, &f).path == GG_PATH_CPU && !gg_dispatch(&p, &f).settled);
    slow_link.seen[GG_ON_CPU][p.type][gg_shape(&p)][gg_work(&p)] = 1;
    CHECK(gg_dispatch(&p, &f).path == GG_PATH_CPU && gg_dispatch(&p, &f).settled);
}

/* A BLAS whose threads have to be woken up is slower than the GPU for two calls and faster from then on; and now and then one of its calls is slow
 * because another process has the processor. */
static void woken_threads(void)
{
    const struct gg_gemm p = square(96);
    const struct gg_facts f = after_calls(&p, 37e-6, 28e-6);
    struct gg_decision d;
    int on_cpu = 0, awake = 0;
    for (int i = 0; i < 40000; i++) {
        d = gg_dispatch(&p, &f);
        const bool cpu = d.path == GG_PATH_CPU;
        awake = cpu ? awake + 1 : 0;
        const double took = !cpu ? 28e-6 : awake == 1 ? 45e-6 : awake == 2 ? 30e-6 : awake % 300 == 0 ? 250e-6 : 18e-6;
        if (d.reason != GG_TRIAL)
            gg_rates_hold(cpu ? GG_ON_CPU : GG_ON_GPU, &p);
        gg_rates_see(cpu ? GG_ON_CPU : GG_ON_GPU, &p, cpu ? d.model_cpu : d.model_gpu, took);
        on_cpu += i >= 20000 && cpu;
    }
    CHECK(on_cpu > 19000);
}

/* A GPU that was slow once, because others used it, and now is ten times as fast as the CPU, at once or after the CPU's threads have polled for 20
 * ms: a try finds that out and costs little. A GPU that stays slow costs less and less. Calls through the rates in force, with invented times. */
static void tries(void)
{
    for (int fast = 0; fast < 3; fast++) {
        const struct gg_gemm p = square(300);
        const struct gg_facts f = after_calls(&p, 1e-3, 2e-3);
        struct gg_decision d;
        int on_gpu = 0, trials = 0;
        double spent = 0, polling = 0;
        for (int i = 0; i < 2000; i++) {
            d = gg_dispatch(&p, &f);
            bool gpu = d.path == GG_PATH_STAGED;
            double took = !gpu ? 1e-3 : fast && polling <= 0 ? 1e-4 : 2e-3;
            polling = gpu ? polling - took : fast == 2 ? 20e-3 : 0;
            if (d.reason != GG_TRIAL)
                gg_rates_hold(gpu ? GG_ON_GPU : GG_ON_CPU, &p);
            gg_rates_see(gpu ? GG_ON_GPU : GG_ON_CPU, &p, gpu ? d.model_gpu : d.model_cpu, took);
            on_gpu += gpu, trials += d.reason == GG_TRIAL, spent += took;
        }
        if (fast ? on_gpu < 1900 || spent > 0.3 : on_gpu < 2 || on_gpu != trials || spent > 2 * 1.02)
            printf("%s GPU: %d calls on it, %d trials, %.3f s\n", fast ? "fast" : "slow", on_gpu, trials, spent);
        CHECK(fast ? on_gpu >= 1900 && spent < 0.3 : on_gpu >= 2 && on_gpu == trials && spent < 2 * 1.02);
    }
}

/* Calls of p in a row over a link measured at `link` bytes/s, with invented times in ms: of a side's first calls, the CPU's also after others have had
 * it for 30 ms, and of all that follow. Returns how many of the last half were on the CPU; of the first four in *of_first, if that is not NULL. */
static int run_over(double link, const struct gg_gemm *p, int calls, const double cpu[4], const double gpu[4], int *of_first)
{
    struct gg_facts f = facts(GG_MODE_AUTO, GG_GPU_READY);
    gg_rates_default(gg_rates(), 16);
    gg_rates()->up = gg_rates()->down = link;
    f.rates = gg_rates();
    f.may_try = true;
    int on_cpu = 0, first = 0, awake = 0, used = 0;
    double asleep = 0;
    for (int i = 0; i < calls; i++) {
        const struct gg_decision d = gg_dispatch(p, &f);
        const int who = d.path == GG_PATH_CPU ? GG_ON_CPU : GG_ON_GPU;
        awake = asleep > 30 ? 0 : awake;
        const double took = who == GG_ON_CPU ? cpu[awake < 3 ? awake++ : 3] : gpu[used < 3 ? used++ : 3];
        asleep = who == GG_ON_CPU ? 0 : asleep + took;
        if (d.reason != GG_TRIAL)
            gg_rates_hold(who, p);
        gg_rates_see(who, p, who == GG_ON_CPU ? d.model_cpu : d.model_gpu, 1e-3 * took);
        on_cpu += i >= calls / 2 && who == GG_ON_CPU;
        first += i < 4 && who == GG_ON_CPU;
    }
    if (of_first)
        *of_first = first;
    return on_cpu;
}

static int run_of(const struct gg_gemm *p, int calls, const double cpu[4], const double gpu[4]) { return run_over(20e9, p, calls, cpu, gpu, NULL); }

/* A vector, which the CPU reads in half the time that the link takes. The side that is predicted to be faster is got to know first, and a try of a GPU
 * whose copies alone take longer is put off; but if the link is faster than it was measured, the GPU gets its calls in the end. Where the GPU is
 * predicted to be faster, it comes first. */
static void first_side(void)
{
    const struct gg_gemm vector = {.type = GG_D, .b_kmajor = true, .m = 8000, .n = 1, .k = 8000, .lda = 8000, .ldb = 8000, .ldc = 8000, .alpha = 1},
                         tall = {.type = GG_D, .b_kmajor = true, .m = 100000, .n = 64, .k = 64, .lda = 100000, .ldb = 64, .ldc = 100000, .alpha = 1};
    const double read[] = {25, 8, 6, 5}, copied[] = {15, 10.3, 10.3, 10.2}, quick[] = {3, 2, 2, 2}, slow[] = {25, 17, 17, 17};
    int first;
    CHECK(run_over(50e9, &vector, 400, read, copied, &first) >= 195 && first == 4);
    CHECK(run_over(50e9, &vector, 2000, read, quick, &first) <= 4 && first == 4);
    CHECK(run_over(50e9, &tall, 60, slow, quick, &first) == 0 && first == 0);
}

/* More than one of a side's first calls may be slow: neither side must be judged by them. */
static void first_calls(void)
{
    const struct gg_gemm wide = {.type = GG_D, .b_kmajor = true, .m = 4096, .n = 4096, .k = 16, .lda = 4096, .ldb = 16, .ldc = 4096, .alpha = 1},
                         deep = {.type = GG_D, .b_kmajor = true, .m = 64, .n = 64, .k = 65536, .lda = 64, .ldb = 65536, .ldc = 64, .alpha = 1};
    const double steady[] = {15, 15, 15, 15}, woken[] = {12, 11.5, 3, 2}, quick[] = {5, 3.5, 2.7, 2.7}, loading[] = {32, 22, 1.7, 1.7};
    CHECK(run_of(&wide, 60, woken, quick) >= 26); /* two or four are tries of the GPU */
    CHECK(run_of(&wide, 60, steady, quick) == 0);
    CHECK(run_of(&deep, 30, steady, loading) == 0);
    const double mishap[] = {2.7, 2.7, 40, 2.7};
    CHECK(run_of(&deep, 30, steady, mishap) == 0);
}

/* Both sides are far slower than the model says, the GPU more so: both are believed. */
static void far_off(void)
{
    struct gg_gemm p = square(300);
    struct gg_facts f = facts(GG_MODE_AUTO, GG_GPU_READY);
    const struct gg_decision d = gg_dispatch(&p, &f);
    const double cpu = 1e3 * 8 * d.model_cpu, gpu = 1e3 * 60 * d.model_gpu;
    CHECK(gpu > 2 * cpu);
    CHECK(run_of(&p, 4000, (const double[]){cpu, cpu, cpu, cpu}, (const double[]){gpu, gpu, gpu, gpu}) > 1900);
}

/* The GPU is off, and by a model that nothing has confirmed twice as slow as the CPU: calls that take long enough start it. */
static void unsure_start(void)
{
    const struct gg_gemm p = {.type = GG_D, .b_kmajor = true, .m = 64, .n = 8192, .k = 8192, .lda = 64, .ldb = 8192, .ldc = 64, .alpha = 1};
    struct gg_facts f = facts(GG_MODE_AUTO, GG_GPU_OFF);
    gg_rates_default(gg_rates(), 16);
    f.rates = gg_rates();
    struct gg_decision d = gg_dispatch(&p, &f);
    const double took = d.seconds_gpu / 2;
    for (int i = 0; i < 10; i++)
        gg_rates_see(GG_ON_CPU, &p, d.model_cpu, took);
    d = gg_dispatch(&p, &f);
    CHECK(d.path == GG_PATH_CPU && !d.start);
    double spent = 0;
    for (; !d.start && spent < 100; spent += took) {
        gg_rates_hold(GG_ON_CPU, &p);
        gg_rates_see(GG_ON_CPU, &p, d.model_cpu, took);
        d = gg_dispatch(&p, &f);
    }
    CHECK(d.start && spent < 17 * (f.start_left + d.seconds_gpu));
}

static bool about(double x, double y) { return x > 0.999999 * y && x < 1.000001 * y; }

/* Each operand crosses the link at its own rate, C up only if it is read; and dispatch asks the model so. With a kernel that takes longer than all
 * that, an eighth of the link's time counts. */
static void check_link(void)
{
    static struct gg_rates r;
    gg_rates_default(&r, 16);
    r.up = 10e9;
    r.down = 20e9;
    r.pinned = 40e9;
    for (int i = 0; i < 16; i++) {
        const bool pinned[] = {i & 1, i & 2, i & 4};
        const struct gg_gemm p = {.type = GG_D, .b_kmajor = true, .m = 3000, .n = 2000, .k = 1000, .lda = 3000, .ldb = 1000, .ldc = 3000, .alpha = 1,
                                  .beta = i / 8};
        const double a = 24e6 / (i & 1 ? 40e9 : 10e9), b = 16e6 / (i & 2 ? 40e9 : 10e9), c = 48e6 / (i & 4 ? 40e9 : 10e9);
        const double down = 48e6 / (i & 4 ? 40e9 : 20e9);
        CHECK(about(gg_staged_model(&p, &r, pinned, 1), r.latency + 2e6 / r.serial + 1 + (a + b + (i / 8 ? c : 0) + down) / 8));
        struct gg_facts f = facts(GG_MODE_AUTO, GG_GPU_READY);
        f.rates = &r, f.a = i & 1 ? P : H, f.b = i & 2 ? P : H, f.c = i & 4 ? P : H;
        const struct gg_decision d = gg_dispatch(&p, &f);
        CHECK(d.path == GG_PATH_STAGED && about(d.model_gpu, gg_staged_model(&p, &r, pinned, d.choice.seconds)));
    }
    /* The CPU reads a matrix once for a vector; for a matrix it packs it first. */
    struct gg_gemm v = {.type = GG_D, .b_kmajor = true, .m = 1, .n = 10000, .k = 10000, .alpha = 1};
    CHECK(gg_cpu_model(&v, &r) < 1.1 * 8e8 / r.cpu_bandwidth);
    v.m = 10000, v.n = 1;
    CHECK(gg_cpu_model(&v, &r) < 1.1 * 8e8 / r.cpu_bandwidth);
    v.n = 2;
    CHECK(gg_cpu_model(&v, &r) > 3.9 * 8e8 / r.cpu_bandwidth);
}

/* Calls of a class that no side holds yet are believed by half; a new holder has not been doubted yet; a try that changed nothing puts off the next by
 * no more than 2^6. What is learnt is such as the file may hold, of which a process believes a part. */
static void check_memory(void)
{
    const struct gg_gemm p = square(3000);
    const int shape = gg_shape(&p), work = gg_work(&p);
    struct gg_rates *r = gg_rates();
    _Atomic unsigned char *content = &r->content[p.type][shape][work];
    _Atomic float *since = &r->since[p.type][shape][work], *seen = &r->seen[GG_ON_GPU][p.type][shape][work];
    gg_rates_default(r, 16);
    for (int i = 0; i < 3; i++)
        gg_rates_see(GG_ON_GPU, &p, 1e-3, 1e-3);
    gg_rates_see(GG_ON_GPU, &p, 1e-3, 0.5e-3);
    CHECK(*seen == 0.75f);
    *content = 3;
    *since = 1;
    gg_rates_hold(GG_ON_CPU, &p);
    CHECK(*content == 0 && *since == 0);
    *content = 6;
    *since = -1;
    gg_rates_see(GG_ON_GPU, &p, 1e-3, 1e-3);
    CHECK(*content == 6 && *since == 0);
    gg_rates_learn(GG_ON_GPU, &p, 1e-3, 1);
    const float most = *seen;
    CHECK(most < 100);
    *seen = 0.5f;
    gg_rates_learn(GG_ON_GPU, &p, 0, 1); /* of what nothing was predicted nothing is learnt */
    CHECK(*seen == 0.5f);
    static const char *const ends[] = {"took 1 0 0 20 50\ntook 0 1 3 63 0.02\nend\n", "took 1 0 0 20 50\n", "took 1 0 0 20 100\nend\n"};
    for (int i = 0; i < 3; i++) {
        static struct gg_rates found;
        char text[200], when[32], gpu[64];
        gg_rates_default(&found, 16);
        FILE *file = fmemopen(text, (size_t)snprintf(text, sizeof text, "me\nmeasured today with it\n%s", ends[i]), "r");
        CHECK(gg_rates_parse(file, "me", &found, when, gpu) == (i == 0));
        CHECK(i > 0 || (found.seen[GG_ON_GPU][GG_S][0][20] == 4 && found.seen[GG_ON_CPU][GG_D][3][63] == 0.25f));
        fclose(file);
    }
}

/* Calls that would have to wait for others' copies go to a CPU BLAS that has one thread for each caller, if that is faster, but not to one whose
 * threads all callers share. */
static void beside(void)
{
    struct gg_facts f = facts(GG_MODE_AUTO, GG_GPU_READY);
    const struct gg_gemm p = square(512);
    const double cpu = gg_cpu_model_single(&p, &rates, 16), link = gg_link_model(&p, &rates);
    CHECK(gg_cpu_model_single(&p, &rates, 64) > 3.9 * cpu && gg_cpu_model_single(&p, &rates, 1) <= cpu); /* of 16 processors */
    f.callers = 16;
    for (f.cpu_threads = 0; f.cpu_threads < 3; f.cpu_threads++) {
        f.queued = 0;
        CHECK(gg_dispatch(&p, &f).reason == GG_OK);
        f.queued = cpu - link * 1.1;
        CHECK(gg_dispatch(&p, &f).reason == GG_OK && (f.cpu_threads != 1 || about(gg_dispatch(&p, &f).seconds_gpu, f.queued + link)));
        f.queued = cpu - link * 0.9;
        const struct gg_decision d = gg_dispatch(&p, &f);
        CHECK(f.cpu_threads == 1 ? d.reason == GG_BESIDE && d.path == GG_PATH_CPU && !d.settled : d.reason == GG_OK && d.path == GG_PATH_STAGED);
        f.mode = GG_MODE_GPU;
        CHECK(gg_dispatch(&p, &f).path == GG_PATH_STAGED);
        f.mode = GG_MODE_AUTO;
    }
    struct gg_gemm q = p;
    q.beta = 1;
    CHECK(about(gg_link_model(&q, &rates) - link, 4.0 * 512 * 512 / rates.pinned));
    q.k = 1, q.beta = 0; /* most of it comes down */
    CHECK(gg_link_model(&q, &rates) > 4.0 * 512 * 512 / rates.pinned);
}

int main(void)
{
    gg_rates_default(&rates, 16);
    check_link();
    check_memory();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct gg_facts f = facts(rows[i].mode, rows[i].gpu);
        f.a = rows[i].a, f.b = rows[i].b, f.c = rows[i].c;
        struct gg_gemm p = square(rows[i].n);
        struct gg_decision d = gg_dispatch(&p, &f);
        bool right = d.path == rows[i].path && d.reason == rows[i].reason && d.start == rows[i].start && (d.wait > 0) == rows[i].wait;
        if (!right)
            printf("row %zu: path %d reason %d start %d wait %g\n", i, d.path, d.reason, d.start, d.wait);
        CHECK(right);
        CHECK(d.path == GG_PATH_CPU || d.choice.kernel || f.gpu != GG_GPU_READY);
        CHECK(d.wait <= 0 || d.start);
    }

    struct gg_facts ready = facts(GG_MODE_AUTO, GG_GPU_READY);
    struct gg_gemm p = square(4096);
    ready.round_to_nearest = false;
    CHECK(gg_dispatch(&p, &ready).reason == GG_ROUNDING);
    ready.round_to_nearest = true;

    /* alpha = 0: C := beta C. The CPU does it for host operands. A and B may be anywhere, because they are not read. */
    p.alpha = 0;
    ready.a = D;
    CHECK(gg_dispatch(&p, &ready).path == GG_PATH_CPU);
    ready.c = D;
    CHECK(gg_dispatch(&p, &ready).path == GG_PATH_DEVICE);
    p.beta = 1;
    CHECK(gg_dispatch(&p, &ready).reason == GG_EMPTY);
    p.beta = 2;
    ready.c = X; /* not aligned to its elements, or another GPU's: no kernel scales it there */
    CHECK(gg_dispatch(&p, &ready).reason == GG_NO_KERNEL && gg_dispatch(&p, &ready).path == GG_PATH_CPU);

    /* There is one crossover: if the GPU serves a square size it serves every larger one. And more copying never moves a call from the CPU to the
     * GPU. */
    ready = facts(GG_MODE_AUTO, GG_GPU_READY);
    bool gpu = false;
    for (int64_t n = 16; n <= 1 << 20; n += n / 8) {
        p = square(n);
        bool now = gg_dispatch(&p, &ready).path == GG_PATH_STAGED;
        CHECK(now || !gpu);
        gpu = now;
        p.beta = 1;
        CHECK(now || gg_dispatch(&p, &ready).path == GG_PATH_CPU);
    }
    CHECK(gpu);

    /* The measured times of like calls count for more than the model; two equally fast sides do not alternate; a side not yet used is tried. */
    p = square(1024);
    p.beta = 0;
    struct gg_decision before = gg_dispatch(&p, &ready);
    CHECK(before.path == GG_PATH_STAGED);
    _Atomic float *seen_gpu = &rates.seen[GG_ON_GPU][p.type][gg_shape(&p)][gg_work(&p)], *seen_cpu = &rates.seen[GG_ON_CPU][p.type][gg_shape(&p)][gg_work(&p)];
    float even = (float)(before.model_cpu / before.model_gpu);
    *seen_gpu = even * 1.2f;
    *seen_cpu = 1;
    CHECK(gg_dispatch(&p, &ready).path == GG_PATH_CPU);
    *seen_gpu = even * 1.05f;
    rates.held[p.type][gg_shape(&p)][gg_work(&p)] = 1 + GG_ON_GPU;
    CHECK(gg_dispatch(&p, &ready).path == GG_PATH_STAGED);
    rates.held[p.type][gg_shape(&p)][gg_work(&p)] = 1 + GG_ON_CPU;
    CHECK(gg_dispatch(&p, &ready).path == GG_PATH_CPU);
    *seen_gpu = 0;
    *seen_cpu = (float)(before.model_gpu / before.model_cpu) / 2; /* the CPU is known to be twice as fast as is predicted for the GPU */
    CHECK(gg_dispatch(&p, &ready).path == GG_PATH_CPU);
    ready.may_try = true;
    CHECK(gg_dispatch(&p, &ready).reason == GG_TRIAL && gg_dispatch(&p, &ready).path == GG_PATH_STAGED);
    *seen_gpu = -1; /* its first call is not counted */
    CHECK(gg_dispatch(&p, &ready).reason == GG_TRIAL);
    *seen_gpu = 1;
    CHECK(gg_dispatch(&p, &ready).path == GG_PATH_CPU);
    *seen_gpu = 0;
    *seen_cpu = *seen_cpu / 4; /* eight times as fast: not worth a try */
    CHECK(gg_dispatch(&p, &ready).path == GG_PATH_CPU && gg_dispatch(&p, &ready).reason == GG_TOO_SMALL);

    /* The slower side is tried again, twice, when like calls have taken 16 times as long as a call on it would; the next time after twice as long. */
    _Atomic float *since = &rates.since[p.type][gg_shape(&p)][gg_work(&p)];
    *seen_cpu = 1;
    *seen_gpu = 15;
    rates.held[p.type][gg_shape(&p)][gg_work(&p)] = 1 + GG_ON_CPU;
    struct gg_decision slow = gg_dispatch(&p, &ready);
    CHECK(slow.path == GG_PATH_CPU);
    *since = (float)(15 * slow.seconds_gpu);
    CHECK(gg_dispatch(&p, &ready).path == GG_PATH_CPU);
    *since = (float)(17 * slow.seconds_gpu);
    CHECK(gg_dispatch(&p, &ready).reason == GG_TRIAL && gg_dispatch(&p, &ready).path == GG_PATH_STAGED);
    *since = -1;
    CHECK(gg_dispatch(&p, &ready).reason == GG_TRIAL);
    rates.content[p.type][gg_shape(&p)][gg_work(&p)] = 1;
    *since = (float)(17 * slow.seconds_gpu);
    CHECK(gg_dispatch(&p, &ready).path == GG_PATH_CPU);
    *since = (float)(33 * (slow.seconds_gpu + 30e-3));
    CHECK(gg_dispatch(&p, &ready).reason == GG_TRIAL);
    rates.held[p.type][gg_shape(&p)][gg_work(&p)] = 1 + GG_ON_GPU; /* by now the CPU is the faster side: that is no trial */
    CHECK(gg_dispatch(&p, &ready).reason == GG_TOO_SMALL);
    ready.may_try = false;
    first_calls();
    first_side();
    far_off();
    unsure_start();
    tries();
    woken_threads();
    settled();

    beside();

    /* The GPU is started when the time lost without it reaches half of what starting takes. */
    struct gg_facts off = facts(GG_MODE_AUTO, GG_GPU_OFF);
    p = square(2048);
    CHECK(!gg_dispatch(&p, &off).start && gg_dispatch(&p, &off).reason == GG_NOT_YET);
    p = square(16384);
    CHECK(gg_dispatch(&p, &off).wait < gg_dispatch(&p, &off).seconds_cpu); /* the GPU may come later than expected */
    p = square(2048);
    off.lost = 0.3;
    CHECK(gg_dispatch(&p, &off).start && gg_dispatch(&p, &off).wait <= 0 && gg_dispatch(&p, &off).reason == GG_STARTING);

    /* A GPU that is starting already is waited for if the call gains more than what is left; one that is off costs its end, too. The wait is no longer
     * than the gain. */
    for (int starting = 0; starting < 2; starting++) {
        struct gg_facts f = facts(GG_MODE_AUTO, starting ? GG_GPU_STARTING : GG_GPU_OFF);
        p = square(8192);
        struct gg_decision d = gg_dispatch(&p, &f);
        const double gain = d.seconds_cpu - d.seconds_gpu;
        f.start_left = gain / 1.2;
        d = gg_dispatch(&p, &f);
        CHECK(starting ? d.wait == gain && d.path == GG_PATH_STAGED : d.wait <= 0 && d.path == GG_PATH_CPU);
        f.start_left = gain / 1.6;
        CHECK(gg_dispatch(&p, &f).wait == gain);
    }

    /* A call that loses on the GPU does not start it, however much others have lost. */
    off = facts(GG_MODE_AUTO, GG_GPU_OFF);
    p = square(2000);
    p.k = 2;
    off.lost = 10;
    CHECK(!gg_dispatch(&p, &off).start && gg_dispatch(&p, &off).reason == GG_TOO_SMALL);

    /* One start beside many others takes long, and counts for no more than twice what was known. */
    const double start = gg_rates()->start;
    gg_rates_set_start(100 * start);
    CHECK(gg_rates()->start == 2 * start);
    gg_rates_set_start(start);
    CHECK(gg_rates()->start == start);

    /* An earlier process, beside another that used the GPU, saw the GPU slower than it is, and so slower than the CPU: like calls that go on long
     * enough start it all the same. They do not if the model itself says that the CPU is faster. */
    off = facts(GG_MODE_AUTO, GG_GPU_OFF);
    p = square(256);
    const int shape = gg_shape(&p), work = gg_work(&p);
    rates.seen[GG_ON_CPU][p.type][shape][work] = 1;
    rates.seen[GG_ON_GPU][p.type][shape][work] = 4;
    rates.since[p.type][shape][work] = 5;
    CHECK(!gg_dispatch(&p, &off).start && gg_dispatch(&p, &off).reason == GG_TOO_SMALL);
    rates.since[p.type][shape][work] = 10;
    CHECK(gg_dispatch(&p, &off).start && gg_dispatch(&p, &off).wait <= 0 && gg_dispatch(&p, &off).reason == GG_TOO_SMALL);
    rates.seen[GG_ON_CPU][p.type][shape][work] = 0.1f;
    CHECK(!gg_dispatch(&p, &off).start);

    /* OpenBLAS cuts C among its threads. With a small C most threads have nothing to do, and this is known without a try (H200: 110 ms and 11). */
    static struct gg_rates fresh;
    gg_rates_default(&fresh, 16);
    fresh.up = fresh.down = 47e9;
    struct gg_facts first = facts(GG_MODE_AUTO, GG_GPU_READY);
    first.rates = &fresh;
    first.may_try = true;
    p = (struct gg_gemm){.type = GG_S, .b_kmajor = true, .m = 64, .n = 64, .k = 1000000, .lda = 64, .ldb = 1000000, .ldc = 64, .alpha = 1};
    CHECK(gg_dispatch(&p, &first).path == GG_PATH_STAGED && gg_dispatch(&p, &first).reason == GG_OK);
    p.type = GG_D;
    CHECK(gg_dispatch(&p, &first).path == GG_PATH_STAGED && gg_dispatch(&p, &first).reason == GG_OK);

    /* The smallest products stay on the CPU, whatever is predicted, because gg_serve sends them there without asking. */
    p = (struct gg_gemm){.type = GG_D, .b_kmajor = true, .m = 2, .n = 1024, .k = 74, .lda = 2, .ldb = 74, .ldc = 2, .alpha = 1};
    gg_rates_default(&fresh, 2);
    CHECK(gg_dispatch(&p, &first).path == GG_PATH_CPU && gg_dispatch(&p, &first).reason == GG_TOO_SMALL);

    /* The CPU is fast and the GPU known to be faster than its model: the copies alone, by the model, do not speak against it. */
    p = square(512);
    gg_rates_default(&fresh, 16);
    fresh.up = fresh.down = 1e9;
    fresh.seen[GG_ON_GPU][p.type][gg_shape(&p)][gg_work(&p)] = 0.07f;
    CHECK(gg_dispatch(&p, &first).path == GG_PATH_STAGED);

    /* A measurement that is far from the model is kept, and calls confirm it. */
    gg_rates_learn(GG_ON_GPU, &p, 1e-3, 40e-3);
    for (int i = 0; i < 10; i++)
        gg_rates_see(GG_ON_GPU, &p, 1e-3, 40e-3);
    CHECK(gg_rates()->seen[GG_ON_GPU][p.type][gg_shape(&p)][gg_work(&p)] > 39);

    /* Another link, measured: what calls took on the GPU is forgotten, for both types, and not what they took on the CPU. */
    for (enum gg_type type = GG_S; type <= GG_D; type++) {
        p.type = type;
        gg_rates_learn(GG_ON_CPU, &p, 1e-3, 2e-3);
        gg_rates_learn(GG_ON_GPU, &p, 1e-3, 2e-3);
    }
    gg_rates_set_link(20e9, 20e9, 20e9);
    for (enum gg_type type = GG_S; type <= GG_D; type++)
        CHECK(gg_rates()->seen[GG_ON_GPU][type][gg_shape(&p)][gg_work(&p)] == 0 && gg_rates()->seen[GG_ON_CPU][type][gg_shape(&p)][gg_work(&p)] == 2);

    /* Far smaller is more than 16 times smaller. */
    p = square(1600);
    p.n = 100;
    CHECK(gg_shape(&p) == 0);
    p.n = 99;
    CHECK(gg_shape(&p) == 2);

    /* Nothing is ld away from the last line. */
    first = facts(GG_MODE_AUTO, GG_GPU_READY);
    first.a = first.b = first.c = GG_DEVICE;
    const int64_t far = INT64_C(1) << 57;
    p = (struct gg_gemm){.type = GG_D, .b_kmajor = true, .m = 2, .n = 1, .k = 1, .lda = far, .ldb = 1, .ldc = far, .alpha = 1};
    CHECK(gg_dispatch(&p, &first).reason == GG_IN_PLACE);
    p.n = 3;
    CHECK(gg_dispatch(&p, &first).reason == GG_TOO_LARGE);

    /* Absurd sizes get an answer too. */
    p = square(INT64_MAX / 2);
    gg_dispatch(&p, &ready);
    printf("%s\n", failures ? "FAILED" : "ok");
    return failures != 0;
}

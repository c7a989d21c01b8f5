/* scenarios.h — what sweep.c runs while calls fail: the problems, the ways of having them solved, and the table of scenarios. */
#ifndef SCENARIOS_H
#define SCENARIOS_H

#include <pthread.h>

#include "faults.h"
#include "problem.h"

static struct problem tiny, aligned, short_0, short_2, tiled_0, tiled_2, blocks_0, blocks_2, wide, scattered, large_0;
static struct faults *fail_cuda, *fail_libc; /* the latter NULL when not preloaded */
static struct faults *failing;               /* the one whose plan this process follows */
static atomic_uint documented;               /* errors that the header promises in place of a result */

static int (*api_dgemm)(int, int, int, int64_t, int64_t, int64_t, double, const void *, int64_t, const void *, int64_t, double, void *, int64_t,
                        void *);
static int (*api_sgemm)(int, int, int, int64_t, int64_t, int64_t, float, const void *, int64_t, const void *, int64_t, float, void *, int64_t,
                        void *);
static int (*warm_up)(void);
static size_t (*release_memory)(void);
static char *(*info)(void);
static int (*cu_init)(unsigned), (*cu_retain)(void **, int), (*cu_enter)(void *), (*cu_alloc)(uint64_t *, size_t),
    (*cu_host)(void **, size_t, unsigned), (*cu_up)(uint64_t, const void *, size_t), (*cu_down)(void *, uint64_t, size_t), (*cu_sync)(void *),
    (*cu_reset)(int);

static void armed(bool yes)
{
    if (failing)
        atomic_store(&failing->armed, yes);
}

/* Takes from C its whole pages, so that it is as if nobody had used it. */
static void make_new(const struct problem *p, const struct operands *o)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), c = (uintptr_t)o->image[2];
    const uintptr_t begin = (c + AROUND + page - 1) & -page, end = (c + p->bytes[2] - AROUND) & -page;
    if (madvise((void *)begin, end - begin, MADV_DONTNEED))
        exit((perror("madvise"), 1));
}

static const char *on_host(const struct problem *p)
{
    struct operands o = operands_new(p);
    problem_reset(p, &o);
    if (p == &large_0)
        make_new(p, &o);
    struct call x = problem_call(p, o.image[0] + AROUND, o.image[1] + AROUND, o.image[2] + AROUND);
    armed(true);
    call_gemm(p->spelling, &x);
    armed(false);
    const char *wrong = problem_wrong(p, &o);
    operands_free(&o);
    return wrong;
}

static const char *several(const struct problem *const *list)
{
    const char *wrong = NULL;
    for (; *list && !wrong; list++)
        wrong = on_host(*list);
    return wrong;
}
#define SEVERAL(name, ...)                                                                                                                           \
    static const char *name(void) { return several((const struct problem *const[]){__VA_ARGS__, NULL}); }
SEVERAL(run_first, &tiny)
SEVERAL(run_short_0, &short_0, &tiny)
SEVERAL(run_short_2, &short_2, &short_0)
SEVERAL(run_tiled_0, &tiled_0)
SEVERAL(run_tiled_2, &tiled_2)
SEVERAL(run_blocks_0, &blocks_0)
SEVERAL(run_blocks_2, &blocks_2)
SEVERAL(run_new, &large_0)
SEVERAL(run_wide, &wide, &short_0)

static const char *run_warmup(void)
{
    armed(true);
    warm_up();
    free(info());
    armed(false);
    return on_host(&short_2);
}

/* The test's own use of the driver, which never fails by plan. */
static void open_gpu(void)
{
    static bool open;
    void *context;
    if (!open && (cu_init(0) || cu_retain(&context, 0) || cu_enter(context)))
        exit((fprintf(stderr, "the test itself finds no GPU\n"), SKIP));
    open = true;
}

/* cudaDeviceReset between two calls: everything that the library had is gone, and it must not touch it. */
static const char *run_reset(void)
{
    const char *wrong = on_host(&tiled_2);
    wrong = wrong ? wrong : on_host(&short_2);
    if (cu_init(0) || cu_reset(0)) /* the library may have failed before it started the driver */
        return "the test itself cannot reset";
    for (int i = 0; i < 2 && !wrong; i++)
        wrong = on_host(i ? &short_0 : &tiled_0);
    return wrong ? wrong : on_host(&tiled_2);
}

static const char *run_release(void)
{
    const char *wrong = several((const struct problem *const[]){&tiled_2, &short_2, NULL});
    armed(true);
    release_memory();
    armed(false);
    return wrong ? wrong : several((const struct problem *const[]){&short_0, &tiled_0, NULL});
}

static const char *pinned(const struct problem *p)
{
    static struct operands o;
    open_gpu();
    for (int i = 0; i < 3; i++)
        if (!o.image[i] && cu_host((void **)&o.image[i], p->bytes[i], 1))
            return "the test itself finds no pinned memory";
    problem_reset(p, &o);
    struct call x = problem_call(p, o.image[0] + AROUND, o.image[1] + AROUND, o.image[2] + AROUND);
    armed(true);
    call_gemm(p->spelling, &x);
    armed(false);
    return problem_wrong(p, &o);
}

/* Operands in page-locked memory: the copy engine reads and writes them directly, unless lines are short and far apart. */
static const char *run_pinned(void) { return pinned(&tiled_0); }
static const char *run_scattered(void) { return pinned(&scattered); }

/* Operands in GPU memory where `away` says so. Called by gpugemm_?gemm, or by the BLAS name, which on failure can only abort. */
static const char *on_gpu(const struct problem *p, const bool away[3], bool api)
{
    static uint64_t memory[3];
    static size_t room[3];
    struct operands o = operands_new(p);
    void *pointer[3];
    open_gpu();
    problem_reset(p, &o);
    for (int i = 0; i < 3; i++) {
        if (away[i] && room[i] < p->bytes[i] && cu_alloc(&memory[i], room[i] = p->bytes[i]))
            return "the test itself finds no GPU memory";
        if (away[i] && cu_up(memory[i], o.image[i], p->bytes[i]))
            return "the test itself cannot copy";
        pointer[i] = away[i] ? (void *)(memory[i] + AROUND) : o.image[i] + AROUND;
    }
    struct call x = problem_call(p, pointer[0], pointer[1], pointer[2]);
    int status = 0;
    armed(true);
    if (api && p->spelling->dbl)
        status = api_dgemm(102, 111 + p->transa, 111 + p->transb, x.m, x.n, x.k, x.alpha, x.a, x.lda, x.b, x.ldb, x.beta, x.c, x.ldc, NULL);
    else if (api)
        status =
            api_sgemm(102, 111 + p->transa, 111 + p->transb, x.m, x.n, x.k, (float)x.alpha, x.a, x.lda, x.b, x.ldb, (float)x.beta, x.c, x.ldc, NULL);
    else
        call_gemm(p->spelling, &x);
    armed(false);
    int lost = cu_sync((void *)1); /* the result on a lost GPU cannot be read */
    for (int i = 0; i < 3 && !lost; i++)
        if (away[i] && cu_down(o.image[i], memory[i], p->bytes[i]))
            lost = 1;
    const char *wrong = lost ? status ? NULL : "the GPU was lost, and success was reported" : problem_wrong(p, &o);
    if (status) {
        atomic_fetch_add(&documented, 1);
        if (status < 0 || status > GPUGEMM_UNSUPPORTED)
            wrong = "an undocumented status";
        else if (wrong && (status == GPUGEMM_GPU_ERROR || !strcmp(wrong, "C is as it was")))
            wrong = NULL;
    }
    operands_free(&o);
    return wrong;
}

static const bool all_away[3] = {true, true, true}, a_away[3] = {true, false, false}, c_away[3] = {false, false, true};

static const char *run_device_api(void)
{
    const char *wrong = on_gpu(&short_2, all_away, true);
    wrong = wrong ? wrong : on_gpu(&aligned, all_away, true);
    return wrong ? wrong : on_gpu(&tiny, all_away, true);
}

static const char *run_mixed_api(void)
{
    const char *wrong = on_gpu(&short_2, a_away, true);
    return wrong ? wrong : on_gpu(&tiled_0, c_away, true);
}

static const char *run_device_name(void) { return on_gpu(&short_0, all_away, false); }
static const char *run_mixed_name(void) { return on_gpu(&short_2, a_away, false); }

static void *one_thread(void *argument)
{
    static const struct problem *const each[] = {&tiny, &short_0, &tiled_2, &short_2};
    const char *wrong = NULL;
    for (uintptr_t i = 0; i < 4 && !wrong; i++) {
        const struct problem *p = each[(i + (uintptr_t)argument) % 4];
        struct operands o = operands_new(p);
        wrong = problem_try(p, &o);
        operands_free(&o);
    }
    return (void *)wrong;
}

static const char *run_threads(void)
{
    pthread_t thread[6];
    void *wrong = NULL, *each;
    armed(true);
    for (uintptr_t i = 0; i < 6; i++)
        if (pthread_create(&thread[i], NULL, one_thread, (void *)i))
            exit(1);
    for (int i = 0; i < 6; i++) {
        pthread_join(thread[i], &each);
        wrong = each ? each : wrong;
    }
    armed(false);
    return wrong;
}

static const struct scenario {
    const char *name, *environment; /* A=B C=D */
    const char *(*run)(void);
    bool names_gpu; /* calls by BLAS names with operands in GPU memory: on failure they can only abort */
    bool threaded;  /* the number of objects created depends on timing */
    bool outputs;   /* writes files: only the C library's functions are failed */
} scenarios[] = {
    {"first call", "", run_first, false, false, false},
    {"warm-up and info", "", run_warmup, false, false, false},
    {"short, beta 0", "", run_short_0, false, false, false},
    {"short, beta 2", "", run_short_2, false, false, false},
    {"tiled, beta 0", "GPUGEMM_PINNED_MEMORY=1M", run_tiled_0, false, false, false},
    {"tiled, beta 2", "GPUGEMM_PINNED_MEMORY=1M", run_tiled_2, false, false, false},
    {"out of core, beta 0", "GPUGEMM_PINNED_MEMORY=1M GPUGEMM_GPU_MEMORY=3M", run_blocks_0, false, false, false},
    {"out of core, beta 2", "GPUGEMM_PINNED_MEMORY=1M GPUGEMM_GPU_MEMORY=3M", run_blocks_2, false, false, false},
    {"new C", "GPUGEMM_PINNED_MEMORY=1M", run_new, false, false, false},
    {"large kernels", "", run_wide, false, false, false},
    {"pinned operands", "GPUGEMM_PINNED_MEMORY=1M", run_pinned, false, false, false},
    {"pinned operands, far apart", "GPUGEMM_PINNED_MEMORY=1M", run_scattered, false, false, false},
    {"GPU operands, gpugemm_*", "", run_device_api, false, false, false},
    {"GPU operands, BLAS name", "", run_device_name, true, false, false},
    {"mixed operands, gpugemm_*", "", run_mixed_api, false, false, false},
    {"mixed operands, BLAS name", "", run_mixed_name, true, false, false},
    {"6 threads", "GPUGEMM_PINNED_MEMORY=2M", run_threads, false, true, false},
    {"a reset in between", "GPUGEMM_PINNED_MEMORY=1M", run_reset, false, true, false},
    {"memory given back", "GPUGEMM_PINNED_MEMORY=1M", run_release, false, false, false},
    {"file of rates", "", run_warmup, false, false, true},
    {"statistics and trace", "GPUGEMM_STATS=stats.json GPUGEMM_TRACE=trace.txt", run_short_2, false, false, true},
};
enum { SCENARIOS = sizeof scenarios / sizeof *scenarios };

static const struct spelling *named(const char *name)
{
    for (int i = 0; i < SPELLINGS; i++)
        if (!strcmp(spellings[i].name, name) && spellings[i].address)
            return &spellings[i];
    exit((fprintf(stderr, "no %s\n", name), 1));
}

static void make_problems(void)
{
    tiny = problem_make(named("dgemm_"), false, false, 48, 40, 33, 2, 3);
    aligned = problem_make(named("dgemm_"), false, true, 96, 64, 80, 2, 0); /* aligned as tensor maps require */
    short_0 = problem_make(named("sgemm_"), true, false, 200, 150, 90, 0, 5);
    short_2 = problem_make(named("cblas_dgemm"), false, true, 190, 210, 70, 2, 1);
    tiled_0 = problem_make(named("dgemm_64_"), false, false, 330, 300, 64, 0, 2);
    tiled_2 = problem_make(named("cblas_sgemm"), true, true, 410, 370, 50, 2, 7);
    blocks_0 = problem_make(named("dgemm_"), true, false, 530, 700, 40, 0, 0);
    blocks_2 = problem_make(named("dgemm_"), false, true, 300, 310, 520, 2, 3);
    large_0 = problem_make(named("dgemm_"), false, false, 1200, 470, 5, 0, 0);
    scattered = problem_make(named("dgemm_64_"), false, false, 330, 300, 64, 0, 4100);
    wide = problem_make(named("sgemm_"), false, false, 768, 640, 96, 2, 0);
}

#endif

/* t_process.c — gemm in programs that do unusual things to their process: fork while other threads multiply, exec, signals, cancellation, closed
 * descriptors, a stderr nobody reads, constructors, memory that is protected until a handler opens it, floating-point traps. Each runs in a process
 * of its own. Results are exact; what the program had (descriptors, signal mask, pending signals, errno, its files) it must still have.
 *
 *   t_process --lib LIB --constructor MODULE --slow-blas MODULE [--only NAME] [--expect-gpu] */
#include <errno.h>
#include <fcntl.h>
#include <fenv.h>
#include <link.h>
#include <omp.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "problem.h"

static struct problem problems[5]; /* of increasing size; the last is larger than what one thread copies alone */
static const char *lib, *constructor, *slow_blas, *self;
static bool expect_gpu;
static void *library;

static const char *try_once(int which)
{
    struct operands o = operands_new(&problems[which]);
    const char *wrong = problem_try(&problems[which], &o);
    operands_free(&o);
    return wrong;
}

static void right(int which, const char *when)
{
    struct operands o = operands_new(&problems[which]); /* first, because without /sys a thread's first malloc sets errno to ENOENT */
    errno = 77;
    const char *wrong = problem_try(&problems[which], &o);
    int after = errno;
    operands_free(&o);
    CHECK(!wrong, "%s: %s", when, wrong);
    CHECK(after == 77, "%s: errno is %d", when, after);
}

static void all_right(const char *when)
{
    for (int i = 0; i < 5; i++)
        right(i, when);
}

static uint64_t gpu_calls(void)
{
    void (*read)(struct gpugemm_stats *, size_t);
    struct gpugemm_stats s = {0};
    *(void **)&read = dlsym(library, "gpugemm_stats_read");
    read(&s, sizeof s);
    return s.device + s.staged;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void wait_for(pid_t child, const char *what)
{
    int status = -1;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    CHECK(status == 0, "%s: wait status %d", what, status);
}

/* ---- threads that multiply until they are told to stop ------------------------------------------------------------------------------------- */

static atomic_bool stop;
static atomic_long busy_calls;

static void *busy(void *argument)
{
    for (int i = (int)(intptr_t)argument; !stop; i++) {
        right(i % 5, "a busy thread");
        atomic_fetch_add(&busy_calls, 1);
    }
    return NULL;
}

static void start_busy(pthread_t *thread, int count)
{
    stop = false;
    for (int i = 0; i < count; i++)
        if (pthread_create(&thread[i], NULL, busy, (void *)(intptr_t)i))
            exit((perror("pthread_create"), 1));
}

static void stop_busy(pthread_t *thread, int count)
{
    stop = true;
    for (int i = 0; i < count; i++)
        pthread_join(thread[i], NULL);
}

/* ---- the programs ---------------------------------------------------------------------------------------------------------------------------- */

static void forks(int rounds, bool again)
{
    for (int i = 0; i < rounds; i++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(60);
            test_failures = 0;
            uint64_t before = gpu_calls();
            right(i % 5, "a forked child");
            right((i + 2) % 5, "a forked child");
            CHECK(i < 3 || !expect_gpu || gpu_calls() == before, "a forked child used the GPU");
            if (again && i % 3 == 0)
                forks(1, false); /* this is a child of a child */
            if (i % 2)
                exit(test_failures != 0);
            _exit(test_failures != 0);
        }
        wait_for(child, "a forked child");
        usleep(3000);
    }
}

/* OpenBLAS, not our library, hangs in a child forked while another thread held its lock, and crashes at an exit in the middle of its work. Where
 * threads are busy the reference BLAS is used instead. */
static bool use_reference_blas(void)
{
    char blas[4096] = "/usr/lib/x86_64-linux-gnu/blas/libblas.so.3";
    const char *libraries = getenv("GPULIBS");
    if (libraries)
        snprintf(blas, sizeof blas, "%s/refblas/libblas.so.3", libraries);
    bool have = access(blas, R_OK) == 0;
    if (have)
        setenv("GPUGEMM_BLAS", blas, 1);
    return have;
}

/* The first forks happen while the GPU is starting. */
static void fork_while_busy(void)
{
    pthread_t thread[4];
    if (!use_reference_blas()) {
        expect_gpu = false;
        return;
    }
    start_busy(thread, 4);
    forks(25, true);
    long before = busy_calls;
    usleep(50000);
    stop_busy(thread, 4);
    CHECK(busy_calls > before, "the parent's threads no longer multiply");
}

static void *load(void *unused)
{
    right(1, "the call that loads the BLAS");
    return unused;
}

/* The child must not find a library whose constructors have run only in part. */
static void fork_while_loading(void)
{
    pthread_t thread;
    setenv("GPUGEMM_BLAS", slow_blas, 1);
    setenv("GPUGEMM_MODE", "cpu", 1);
    expect_gpu = false;
    pthread_create(&thread, NULL, load, NULL);
    usleep(100000);
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        test_failures = 0;
        right(1, "a child forked meanwhile");
        exit(test_failures != 0);
    }
    wait_for(child, "a child forked while the BLAS is loaded");
    pthread_join(thread, NULL);
}

static atomic_int listing; /* 1: a thread is inside the list of loaded objects; 2: it may leave */
static int stay(struct dl_phdr_info *object, size_t size, void *unused)
{
    (void)object, (void)size, (void)unused;
    for (listing = 1; listing < 2;)
        usleep(1000);
    return 1;
}

static void *list(void *unused)
{
    dl_iterate_phdr(stay, NULL);
    return unused;
}

/* In the child the list stays locked for ever. */
static void fork_while_listing(void)
{
    pthread_t thread;
    all_right("before");
    pthread_create(&thread, NULL, list, NULL);
    while (listing < 1)
        usleep(1000);
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        test_failures = 0;
        for (int i = 0; i < 5; i++) { /* tiny ones first; some time after a look at the list there would be another */
            right(i, "a child forked meanwhile");
            usleep(20000);
        }
        exit(test_failures != 0);
    }
    wait_for(child, "a child forked while the program walks the list of objects");
    listing = 2;
    pthread_join(thread, NULL);
}

static void fork_first(void)
{
    forks(2, true); /* no product has been computed yet */
    all_right("the parent after its children");
    forks(4, true);
    all_right("the parent");
}

static void other_programs(void)
{
    extern char **environ;
    char *arguments[] = {"true", NULL};
    all_right("before");
    for (int i = 0; i < 10; i++) {
        pid_t child;
        CHECK(system("exit 3") >> 8 == 3, "system");
        CHECK(posix_spawn(&child, "/bin/true", NULL, NULL, arguments, environ) == 0, "posix_spawn");
        wait_for(child, "posix_spawn");
        if ((child = vfork()) == 0) {
            execv("/bin/true", arguments);
            _exit(1);
        }
        wait_for(child, "vfork");
    }
    all_right("after");
    char *again[] = {(char *)self, "--lib", (char *)lib, "--constructor", (char *)constructor, "--only", "exec-arrived", NULL};
    execv(self, again);
    CHECK(false, "exec: %s", strerror(errno));
}

static void exec_arrived(void) { all_right("after exec"); }

static void load_cycles(void)
{
    dlclose(library); /* the test's own handle: from now on no one holds the library open */
    for (int i = 0; i < 200; i++) {
        void *again = dlopen(lib, RTLD_NOW | RTLD_LOCAL);
        if (i % 20 == 0)
            right(i / 20 % 5, "between dlopen and dlclose");
        dlclose(again);
    }
    all_right("after dlclose");
    library = dlopen(lib, RTLD_NOW | RTLD_LOCAL);
}

static void in_constructor(void)
{
    void *module = dlopen(constructor, RTLD_NOW | RTLD_GLOBAL);
    int *answer = module ? dlsym(module, "constructed") : NULL;
    CHECK(answer && *answer == 1, "gemm in a constructor: %s", module ? "wrong" : dlerror());
    for (int i = 0; i < 100 && (i == 0 || (expect_gpu && !gpu_calls())); i++, usleep(50000)) /* the GPU can start once the loader's lock is free */
        all_right("after the constructor");
}

/* As setproctitle does it. */
static void overwrites_environment(void)
{
    char name[] = "/tmp/gpugemm-process-XXXXXX", of_child[64];
    close(mkstemp(name));
    setenv("GPUGEMM_STATS", name, 1);
    setenv("GPUGEMM_MODE", "cpu", 1);
    expect_gpu = false;
    right(0, "before");
    memset(getenv("GPUGEMM_STATS"), 'T', strlen(name));
    pid_t child = fork();
    if (child == 0) {
        right(0, "a child");
        _exit(test_failures != 0);
    }
    wait_for(child, "a child");
    snprintf(of_child, sizeof of_child, "%s.%ld", name, (long)child);
    CHECK(unlink(of_child) == 0, "the child's statistics are elsewhere");
    unlink(name);
}

/* ---- signals */

static atomic_long ticks;
static void on_tick(int number)
{
    (void)number;
    atomic_fetch_add(&ticks, 1);
}

static void interrupted(void)
{
    struct sigaction action = {.sa_handler = on_tick}; /* no SA_RESTART: every wait in the library is interrupted */
    struct itimerval often = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    pthread_t thread[3];
    start_busy(thread, 3);
    for (int i = 0; i < 60; i++)
        right(i % 5, "under signals");
    stop_busy(thread, 3);
    setitimer(ITIMER_REAL, &never, NULL);
    CHECK(ticks > 20, "only %ld signals came", (long)ticks);
}

static _Atomic pid_t handled_by;
static void note_thread(int number)
{
    (void)number;
    handled_by = (pid_t)syscall(SYS_gettid);
}

/* Signals that all threads of the program block stay pending: no thread of the library receives one. */
static void masked(void)
{
    sigset_t all, before, now;
    struct sigaction action = {.sa_handler = note_thread};
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    all_right("all signals masked");
    pthread_sigmask(SIG_SETMASK, NULL, &now);
    for (int number = 1; number < 32; number++)
        CHECK(sigismember(&before, number) == sigismember(&now, number), "the signal mask has changed: %d", number);
    kill(getpid(), SIGUSR1);
    kill(getpid(), SIGTERM);
    all_right("signals pending");
    usleep(20000);
    CHECK(!handled_by, "a thread of the library took a signal");
    sigpending(&now);
    CHECK(sigismember(&now, SIGUSR1) && sigismember(&now, SIGTERM), "a pending signal is lost");
    sigdelset(&all, SIGUSR1), sigdelset(&all, SIGTERM);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    CHECK(handled_by == getpid(), "the signal did not come to the program's thread");
}

/* Operands that must not be touched before a handler has opened them, one page at a time, as garbage collectors and checkpointers do it. */
static char *guarded;
static size_t guarded_bytes;
static atomic_long opened;
static void open_page(int number, siginfo_t *info, void *context)
{
    (void)number, (void)context;
    char *page = (char *)((uintptr_t)info->si_addr & ~(uintptr_t)4095);
    if (page < guarded || page >= guarded + guarded_bytes)
        _exit(9);
    mprotect(page, 4096, PROT_READ | PROT_WRITE);
    atomic_fetch_add(&opened, 1);
}

static void guarded_memory(void)
{
    struct sigaction action = {.sa_sigaction = open_page, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, NULL);
    all_right("before"); /* from now on the library's threads exist */
    for (int which = 0; which < 5; which++) {
        const struct problem *p = &problems[which];
        guarded_bytes = (p->bytes[0] + p->bytes[1] + p->bytes[2] + 4095 + 192) & ~(size_t)4095;
        guarded = mmap(NULL, guarded_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        struct operands o = {{(unsigned char *)guarded, NULL, NULL}};
        o.image[1] = o.image[0] + ((p->bytes[0] + 63) & ~(size_t)63);
        o.image[2] = o.image[1] + ((p->bytes[1] + 63) & ~(size_t)63);
        problem_reset(p, &o);
        mprotect(guarded, guarded_bytes, PROT_NONE);
        long before = opened;
        struct call x = problem_call(p, o.image[0] + AROUND, o.image[1] + AROUND, o.image[2] + AROUND);
        call_gemm(p->spelling, &x);
        CHECK(opened > before, "nothing was read");
        const char *wrong = problem_wrong(p, &o);
        CHECK(!wrong, "guarded memory, problem %d: %s", which, wrong);
    }
}

static volatile bool in_child;
static void fork_in_handler(int number)
{
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        in_child = true;
        return;
    }
    waitpid(child, &status, 0);
    CHECK(status == 0, "a child of a handler: wait status %d", status);
    on_tick(number);
}

/* At any point of a call, including the writing of statistics. The children go on multiplying, too. */
static void fork_by_signal(void)
{
    char statistics[] = "/tmp/gpugemm-process-XXXXXX", children[64];
    struct sigaction action = {.sa_handler = fork_in_handler};
    struct itimerval often = {{0, 2000}, {0, 2000}};
    if (!use_reference_blas()) /* OpenBLAS has locks of its own */
        return;
    close(mkstemp(statistics));
    snprintf(children, sizeof children, "%s.%%p", statistics);
    setenv("GPUGEMM_STATS", children, 1);
    setenv("GPUGEMM_MODE", "cpu", 1);
    expect_gpu = false;
    right(0, "before");
    sigaction(SIGVTALRM, &action, NULL);
    setitimer(ITIMER_VIRTUAL, &often, NULL);
    while (!in_child && ticks < 400)
        right(0, "under handlers that fork");
    right(0, "in the end");
    snprintf(children, sizeof children, "%s.%ld", statistics, (long)getpid());
    CHECK(unlink(children) == 0, "no statistics");
    unlink(statistics);
    _exit(test_failures != 0);
}

static void exit_in_handler(int number)
{
    (void)number;
    exit(0);
}

/* POSIX does not allow it, but programs do it: Ctrl-C in the middle of a call. */
static void exit_by_signal(void)
{
    struct itimerval soon = {{0, 0}, {0, 30000}};
    setenv("GPUGEMM_STATS", "1", 1);
    dup2(open("/dev/null", O_WRONLY), STDERR_FILENO); /* for the table of statistics */
    signal(SIGALRM, exit_in_handler);
    right(0, "before");
    setitimer(ITIMER_REAL, &soon, NULL);
    for (;;)
        right(0, "until the signal");
}

/* ---- threads */

static void *cancelled(void *argument)
{
    for (int i = (int)(intptr_t)argument;; i++) {
        right(i % 5, "a thread about to be cancelled");
        pthread_testcancel();
    }
    return NULL;
}

static void cancellation(void)
{
    for (int round = 0; round < 10; round++) {
        pthread_t thread[6];
        for (int i = 0; i < 6; i++)
            pthread_create(&thread[i], NULL, cancelled, (void *)(intptr_t)(i + round));
        usleep(4000 + 3000 * (unsigned)round);
        for (int i = 0; i < 6; i++)
            pthread_cancel(thread[i]);
        for (int i = 0; i < 6; i++)
            pthread_join(thread[i], NULL);
        right(round % 5, "after a cancellation");
    }
}

static void *some(void *argument)
{
    uint64_t r = (uint64_t)(uintptr_t)argument;
    for (int i = 0; i < 6; i++)
        right((int)rng_below(&r, i ? 4 : 5), "one of 64 threads");
    return NULL;
}

static void many_threads(void)
{
    pthread_t thread[64];
    for (uintptr_t i = 0; i < 64; i++)
        if (pthread_create(&thread[i], NULL, some, (void *)i))
            exit((perror("pthread_create"), 1));
    for (int i = 0; i < 64; i++) /* those that end early do so while others are still multiplying */
        pthread_join(thread[i], NULL);
}

static void openmp(void)
{
    int wrong = 0;
#pragma omp parallel for num_threads(8) schedule(dynamic) reduction(+ : wrong)
    for (int i = 0; i < 60; i++)
        wrong += try_once(i % 5) != NULL;
    CHECK(!wrong, "%d of 60 calls in OpenMP regions are wrong", wrong);
#pragma omp parallel num_threads(3) reduction(+ : wrong)
    {
#pragma omp parallel num_threads(2) reduction(+ : wrong)
        wrong += try_once(4) != NULL;
    }
    CHECK(!wrong, "%d calls in nested regions are wrong", wrong);
}

/* ---- descriptors and limits */

static void closes_descriptors(void)
{
    char name[] = "/tmp/gpugemm-process-XXXXXX", trace[64];
    close(mkstemp(name));
    snprintf(trace, sizeof trace, "%s.trace", name);
    setenv("GPUGEMM_MODE", "cpu", 1); /* a driver's own descriptors are closed, too, and how it then behaves is not for the library to mend */
    expect_gpu = false;
    setenv("GPUGEMM_TRACE", trace, 1);
    all_right("before");
    struct stat status;
    CHECK(stat(trace, &status) == 0 && status.st_size > 0 && (status.st_mode & 0777) == 0600, "no trace, or not ours alone");
    for (int fd = 3; fd < 1024; fd++) /* as daemons do */
        close(fd);
    int mine[80];
    for (int i = 0; i < 80; i++) /* the descriptor of the trace is among these */
        mine[i] = open(name, O_RDWR);
    all_right("after");
    CHECK(stat(name, &status) == 0 && status.st_size == 0, "the library wrote into the program's file");
    for (int i = 0; i < 80; i++)
        CHECK(fcntl(mine[i], F_GETFD) >= 0, "the library closed the program's file");
    unlink(name), unlink(trace);
}

static void nobody_reads(void)
{
    int output[2];
    sigset_t pending;
    if (pipe(output))
        exit(1);
    int saved = dup(STDERR_FILENO);
    dup2(output[1], STDERR_FILENO);
    close(output[0]);
    close(output[1]);
    setenv("GPUGEMM_TRACE", "1", 1);
    setenv("GPUGEMM_THREADS", "many", 1); /* causes one warning */
    all_right("stderr is a broken pipe");
    sigpending(&pending);
    dup2(saved, STDERR_FILENO);
    CHECK(!sigismember(&pending, SIGPIPE), "a SIGPIPE is left behind");
}

static void small_files(void)
{
    char name[] = "/tmp/gpugemm-process-XXXXXX";
    struct rlimit limit = {300, 300};
    int fd = mkstemp(name);
    setenv("GPUGEMM_TRACE", name, 1);
    setenv("GPUGEMM_MODE", "cpu", 1); /* a driver may need larger files of its own */
    expect_gpu = false;
    setrlimit(RLIMIT_FSIZE, &limit);
    all_right("files end at 300 bytes");
    CHECK(lseek(fd, 0, SEEK_END) > 0, "no trace");
    unlink(name);
}

static void no_more_threads(void)
{
    struct rlimit limit = {0, 0};
    setrlimit(RLIMIT_NPROC, &limit); /* root is exempt: then this is an ordinary run */
    all_right("no thread to be had");
}

static void quick(void)
{
    all_right("before quick_exit");
    quick_exit(test_failures != 0);
}

static void exit_in_thread_body(void) { all_right("in a thread"); }
static void *exit_in_thread(void *unused)
{
    exit_in_thread_body();
    exit(test_failures != 0);
    return unused;
}

static void thread_exits(void)
{
    pthread_t thread, others[3];
    bool quiet = use_reference_blas();
    start_busy(others, quiet ? 3 : 0);
    pthread_create(&thread, NULL, exit_in_thread, NULL);
    pthread_join(thread, NULL);
}

/* Rounding mode, exception flags and traps belong to the program: C is scaled in its rounding mode, and exact products raise no flag, even where
 * inexact is trapped. */
static void own_arithmetic(void)
{
    static const int modes[] = {FE_UPWARD, FE_DOWNWARD, FE_TONEAREST}, one = 1, zero = 0;
    static const double values[] = {1.1, 3, 1.1};
    void (*dgemm)(const char *, const char *, const int *, const int *, const int *, const double *, const double *, const int *, const double *,
                  const int *, const double *, double *, const int *);
    *(void **)&dgemm = dlsym(library, "dgemm_");
    for (int i = 0; i < 3; i++) {
        volatile double beta = 0.1, value = values[i];
        double c = value, scale = beta, none = 0;
        fesetround(modes[i]);
        volatile double expected = beta * value;
        dgemm("N", "N", &one, &one, &zero, &none, &none, &one, &none, &one, &scale, &c, &one);
        fesetround(FE_TONEAREST);
        CHECK(c == expected, "rounding mode %d: %.17g, not %.17g", modes[i], c, expected);
    }
    for (int i = 0; i < 5; i++)
        for (int trapped = 0; trapped < 2; trapped++) {
            struct operands o = operands_new(&problems[i]);
            problem_reset(&problems[i], &o);
            struct call x = problem_call(&problems[i], o.image[0] + AROUND, o.image[1] + AROUND, o.image[2] + AROUND);
            feclearexcept(FE_ALL_EXCEPT);
            if (trapped)
                feenableexcept(FE_INEXACT);
            call_gemm(problems[i].spelling, &x);
            fedisableexcept(FE_INEXACT);
            const char *wrong = fetestexcept(FE_INEXACT) ? "an exact product raised inexact" : problem_wrong(&problems[i], &o);
            CHECK(!wrong, "problem %d: %s", i, wrong);
            operands_free(&o);
        }
}

static const struct {
    const char *name;
    void (*run)(void);
} programs[] = {{"fork-first", fork_first}, {"fork-while-busy", fork_while_busy}, {"fork-while-loading", fork_while_loading}, {"fork-while-listing", fork_while_listing}, {"other-programs", other_programs}, {"exec-arrived", exec_arrived},
                {"load-cycles", load_cycles}, {"in-constructor", in_constructor}, {"overwrites-environment", overwrites_environment}, {"interrupted", interrupted}, {"masked", masked},
                {"guarded-memory", guarded_memory}, {"fork-by-signal", fork_by_signal}, {"exit-by-signal", exit_by_signal}, {"cancellation", cancellation},
                {"many-threads", many_threads}, {"openmp", openmp}, {"closes-descriptors", closes_descriptors}, {"nobody-reads", nobody_reads},
                {"small-files", small_files}, {"no-more-threads", no_more_threads}, {"quick-exit", quick}, {"thread-exits", thread_exits},
                {"own-arithmetic", own_arithmetic}};

int main(int argc, char **argv)
{
    const char *only = NULL;
    for (int i = 1; i < argc; i++) {
        expect_gpu |= !strcmp(argv[i], "--expect-gpu");
        if (i + 1 == argc)
            break;
        lib = !strcmp(argv[i], "--lib") ? argv[i + 1] : lib;
        constructor = !strcmp(argv[i], "--constructor") ? argv[i + 1] : constructor;
        slow_blas = !strcmp(argv[i], "--slow-blas") ? argv[i + 1] : slow_blas;
        only = !strcmp(argv[i], "--only") ? argv[i + 1] : only;
    }
    self = argv[0];
    setenv("OPENBLAS_NUM_THREADS", "1", 0);
    library = open_library(lib, RTLD_LOCAL);
    setenv("GPUGEMM_LIB_UNDER_TEST", lib, 1); /* for the constructor */
    find_spellings(library);
    const struct spelling *s = NULL, *d = NULL;
    for (int i = 0; i < SPELLINGS; i++) {
        s = !strcmp(spellings[i].name, "sgemm_") ? &spellings[i] : s;
        d = !strcmp(spellings[i].name, "cblas_dgemm") ? &spellings[i] : d;
    }
    problems[0] = problem_make(d, false, false, 7, 9, 8, 2, 1);
    problems[1] = problem_make(s, true, false, 70, 64, 90, 0, 0);
    problems[2] = problem_make(d, false, true, 200, 150, 100, 2, 3);
    problems[3] = problem_make(s, true, true, 330, 290, 120, 2, 1);
    problems[4] = problem_make(d, false, false, 520, 400, 40, 0, 2);
    int failures = 0;
    for (unsigned i = 0; i < sizeof programs / sizeof *programs; i++) {
        if (only && strcmp(only, programs[i].name))
            continue;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) /* their allocators do not survive a fork beside busy threads */
        if (programs[i].run == fork_while_busy || programs[i].run == fork_by_signal)
            continue;
#endif
#if defined(__SANITIZE_THREAD__) /* exit is indeed not signal-safe, and ThreadSanitizer does not know libgomp's barriers, and its dlopen walks the list */
        if (programs[i].run == exit_by_signal || programs[i].run == openmp || programs[i].run == fork_while_listing)
            continue;
#endif
        fflush(stdout);
        double begun = now();
        pid_t child = fork();
        if (child == 0) {
            if (!strstr("interrupted exit-by-signal", programs[i].name))
                alarm(100);
            programs[i].run();
            CHECK(!expect_gpu || gpu_calls() > 0, "no call was served by the GPU");
            exit(test_failures != 0);
        }
        int status = -1;
        waitpid(child, &status, 0);
        printf("%-22s %6.1f s\n", programs[i].name, now() - begun);
        if (status)
            printf("  FAILED, wait status %d\n", status);
        failures += status != 0;
    }
    printf("%d failures\n", failures);
    return failures != 0;
}

/* t_exit.c — ways in which a process ends: gemm called by an exit handler and by a destructor, exit while threads are inside gemm, _exit, the main
 * thread ending first. Each runs in a child whose stderr must stay empty and whose exit status must be its own. */
#include "exact.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

enum { STATUS = 7 };
static const struct spelling *d, *s;
static _Atomic int *answers; /* right results obtained after exit() began, in memory shared with the parent */
static bool in_destructor;

static void call_late(void)
{
    if (exact_square(d, 120, 1) == 0 && exact_square(s, 5, 1) == 0)
        atomic_fetch_add(answers, 1);
}

__attribute__((destructor)) static void destructor(void)
{
    if (in_destructor)
        call_late();
}

static void *busy(void *argument)
{
    for (;;)
        exact_square((uintptr_t)argument % 2 ? s : d, 100, 1);
    return NULL;
}

static void from_handlers(void)
{
    atexit(call_late); /* registered before the library's own, if it has one: runs after it */
    in_destructor = true;
    exact_square(d, 120, 1);
    exit(STATUS);
}

static void first_call_from_handlers(void)
{
    atexit(call_late);
    in_destructor = true;
    exit(STATUS);
}

/* OpenBLAS itself crashes here (its exit handler unmaps the buffers that its threads are using), so the reference BLAS is used. */
static char quiet_blas[4096];

static void with_threads_inside(void)
{
    pthread_t thread;
    setenv("GPUGEMM_BLAS", quiet_blas, 1);
    for (uintptr_t i = 0; i < 6; i++)
        pthread_create(&thread, NULL, busy, (void *)i);
    usleep(300000);
    exit(STATUS);
}

static void at_once(void)
{
    exact_square(d, 120, 1);
    _exit(STATUS);
}

static void *leave(void *argument)
{
    (void)argument;
    usleep(50000);
    exact_square(s, 120, 1);
    exit(STATUS);
}

static void main_thread_first(void)
{
    pthread_t thread;
    exact_square(d, 120, 1);
    pthread_create(&thread, NULL, leave, NULL);
    pthread_exit(NULL);
}

static void try(const char *name, void (*way)(void), int late_answers)
{
    int output[2], status = -1;
    char text[400];
    if (pipe(output))
        exit(1);
    *answers = 0;
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        dup2(output[1], STDERR_FILENO);
        dup2(output[1], STDOUT_FILENO);
        way();
    }
    close(output[1]);
    ssize_t length = read(output[0], text, sizeof text - 1);
    text[length < 0 ? 0 : length] = 0;
    close(output[0]);
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == STATUS, "%s: wait status %d", name, status);
    CHECK(length == 0, "%s: it said: %s", name, text);
    CHECK(*answers == late_answers, "%s: %d right answers after exit, not %d", name, *answers, late_answers);
}

int main(int argc, char **argv)
{
    open_by_arguments(argc, argv);
    s = spelling_named("sgemm_"), d = spelling_named("dgemm_");
    answers = mmap(NULL, sizeof *answers, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    try("gemm from exit handlers", from_handlers, 2);
    try("first gemm from an exit handler", first_call_from_handlers, 2);
    if (getenv("GPULIBS"))
        snprintf(quiet_blas, sizeof quiet_blas, "%s/refblas/libblas.so.3", getenv("GPULIBS"));
    else
        strcpy(quiet_blas, "/usr/lib/x86_64-linux-gnu/blas/libblas.so.3");
    if (access(quiet_blas, R_OK) == 0)
        try("exit with threads inside gemm", with_threads_inside, 0);
    try("_exit", at_once, 0);
    try("the main thread gone first", main_thread_first, 0);
    printf("%d failures\n", test_failures);
    return test_failures != 0;
}

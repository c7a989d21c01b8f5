#!/usr/bin/env bash
# t_forward.sh [LIB] — the stubs of forward.def with LIB preloaded into a process that holds two BLASes, each in the scope of the object that brought
# it: every register, the stack and every kind of result are passed on; no object is given the other's BLAS; a user's xerbla_ takes precedence. Then a
# program linked with LIB alone: a name that no BLAS has gives one clear line and SIGABRT; a missing xerbla_ gives the reference's line, and the
# program goes on. A BLAS with 64-bit integers under plain names, whose names do not reveal that, completes what LIB passes to it. Under libraries
# whose own names lead to LIB, calls go on to a BLAS and not in a circle. And a call whose BLAS calls LIB again counts as one call; one
# that was left by a jump is no longer under way.
. "$(dirname "$0")/lib.sh"
here=$(dirname "$(realpath "$0")")
cc=${CC:-gcc}
command -v "$cc" > /dev/null || skip "no C compiler"
nm -D "$LIB" | grep -q '__[at]san_' && skip "a library with sanitizers cannot be preloaded"
unset GPUGEMM_BLAS

build() { "$cc" -O2 -fPIC -fsemantic-interposition "$here/t_forward.c" -o "$work/$1" "${@:2}" -L"$work" -Wl,-rpath,"$work" || exit 1; }
for i in 1 2; do
    build libblas$i.so -DROLE_BLAS=$i -shared
    build user$i.so -DROLE_USER=$i -shared -lblas$i
done
build main -DROLE_MAIN -ldl -pthread
"$work/main" "$work/user1.so" "$work/user2.so" > "$work/out" || fail "the test is wrong: it fails without LIB"
# The same where not the user is linked with its BLAS, but the module that brings both in.
for i in 1 2; do
    build libunlinked$i.so -DROLE_USER=$i -shared
    echo | "$cc" -shared -fPIC -x c - -o "$work/module$i.so" -Wl,--no-as-needed -L"$work" -lunlinked$i -lblas$i -Wl,-rpath,"$work" || exit 1
done
"$work/main" "$work/module1.so" "$work/module2.so" > "$work/out" || fail "the test is wrong: with modules it fails without LIB"
LD_PRELOAD=$LIB "$work/main" "$work/module1.so" "$work/module2.so" > "$work/out" || { fail "two modules, each with a BLAS:"; head -5 "$work/out"; }
for i in 1 2 3; do
    LD_PRELOAD=$LIB "$work/main" "$work/user1.so" "$work/user2.so" > "$work/out" || { fail "two BLASes in one process:"; head -5 "$work/out"; }
done

cat > "$work/alone.c" << 'END'
#include <stdio.h>
#include <stddef.h>
void sgemmtr_64_(void);
void xerbla_(const char *, const int *, size_t);
void cblas_xerbla(int, const char *, const char *, ...);
int main(int argc, char **argv)
{
    (void)argv;
    int info = 4;
    xerbla_("DSYMM ", &info, 6);
    cblas_xerbla(2, "cblas_dsymm", "Illegal %s setting, %d, %.1f\n", "Side", 99, 0.5);
    puts("goes on");
    fflush(stdout);
    if (argc > 1)
        sgemmtr_64_();
    return 0;
}
END
"$cc" "$work/alone.c" -L"$(dirname "$LIB")" -l:"$(basename "$LIB")" -Wl,-rpath,"$(dirname "$LIB")" -o "$work/alone" || exit 1
# No BLAS can be found: those that real.c would load by name are empty files here.
mkdir "$work/none"
echo | "$cc" -shared -fPIC -x c - -o "$work/none/empty.so" || exit 1
for name in $(sed -n '/sonames\[\] = {/,/};/p' "$here/../src/real.c" | grep -o '"[^"]*"' | tr -d '"'); do
    cp "$work/none/empty.so" "$work/none/$name"
done
[ -e "$work/none/libblas.so.3" ] || fail "the names in real.c could not be read"
{ LD_LIBRARY_PATH=$work/none "$work/alone" missing > "$work/out" 2> "$work/err"; status=$?; } 2> /dev/null # the braces catch bash's message "Aborted"
[ "$status" = 134 ] || fail "a missing routine: exit status $status, not SIGABRT"
cat > "$work/expected" << 'END'
 ** On entry to DSYMM parameter number  4 had an illegal value
Parameter 2 to routine cblas_dsymm was incorrect
Illegal Side setting, 99, 0.5
END
head -3 "$work/err" | diff "$work/expected" - || fail "the library's own xerbla"
grep -q 'goes on' "$work/out" || fail "xerbla did not return"
sed -n '4p' "$work/err" | grep -q 'sgemmtr_64_.*GPUGEMM_BLAS' || fail "a missing routine: $(cat "$work/err")"
[ "$(wc -l < "$work/err")" = 4 ] || fail "more than one line: $(cat "$work/err")"

# A library whose names lead to whatever it was told to use, like Julia's libblastrampoline. When told to use LIB, it must not be the BLAS to which
# LIB passes calls on.
cat > "$work/switch.c" << 'END'
#include <dlfcn.h>
static double (*ddot)(const int *, const double *, const int *, const double *, const int *);
static void (*dscal)(const int *, const double *, double *, const int *);
double ddot_(const int *n, const double *x, const int *incx, const double *y, const int *incy) { return ddot(n, x, incx, y, incy); }
void dscal_(const int *n, const double *alpha, double *x, const int *incx) { dscal(n, alpha, x, incx); }
int lbt_forward(const char *path)
{
    void *library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    if (library)
        ddot = dlsym(library, "ddot_"), dscal = dlsym(library, "dscal_");
    return library != 0;
}
END
cat > "$work/told.c" << 'END'
int lbt_forward(const char *path);
double ddot_(const int *, const double *, const int *, const double *, const int *);
void dscal_(const int *, const double *, double *, const int *);
int main(int argc, char **argv)
{
    const int n = 3, one = 1;
    const double two = 2;
    double x[] = {1, 2, 3};
    for (int i = 1; i < argc; i++)
        if (!lbt_forward(argv[i]))
            return 2;
    dscal_(&n, &two, x, &one);
    return ddot_(&n, x, &one, x, &one) != 56;
}
END
if [ -e "$OPENBLAS_DIR/libopenblas.so.0" ]; then
    "$cc" -shared -fPIC "$work/switch.c" -o "$work/libswitch.so" && "$cc" "$work/told.c" -L"$work" -lswitch -Wl,-rpath,"$work" -o "$work/told" || exit 1
    "$work/told" "$OPENBLAS_DIR/libopenblas.so.0" || fail "the test is wrong: it fails without LIB"
    { "$work/told" "$OPENBLAS_DIR/libopenblas.so.0" "$LIB"; status=$?; } 2> /dev/null
    [ $status = 0 ] || fail "a switchboard that leads to LIB ends with $status"
fi

# FlexiBLAS, which is told before the program begins, and at once calls what it was told to use. It leads to LIB or to another BLAS, with LIB preloaded or
# not. Its xerbla_ leads to any other that comes first in the search order.
cat > "$work/flexi.c" << 'END'
#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/types.h>
typedef void gemm(const char *, const char *, const int *, const int *, const int *, const double *, const double *, const int *, const double *,
                  const int *, const double *, double *, const int *, size_t, size_t);
typedef double dot(const int *, const double *, const int *, const double *, const int *);
typedef void handler(const char *, const int *, size_t);
gemm dgemm_;
dot ddot_;
handler xerbla_;
#ifdef SWITCH
static struct table { gemm *dgemm; dot *ddot; handler *xerbla; } *table;
ssize_t flexiblas_list_loaded(char *name, size_t size, ssize_t i) { return table ? 1 : 0; }
void dgemm_(const char *transa, const char *transb, const int *m, const int *n, const int *k, const double *alpha, const double *a, const int *lda,
            const double *b, const int *ldb, const double *beta, double *c, const int *ldc, size_t la, size_t lb)
{
    table->dgemm(transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, la, lb);
}
double ddot_(const int *n, const double *x, const int *incx, const double *y, const int *incy) { return table->ddot(n, x, incx, y, incy); }
static void own(const char *routine, const int *info, size_t length) { table->xerbla(routine, info, length); }
void xerbla_(const char *routine, const int *info, size_t length) __attribute__((alias("own")));
__attribute__((constructor)) static void start(void)
{
    static struct table told;
    const int none = 0;
    void *library = dlopen(getenv("TOLD"), RTLD_LAZY | RTLD_LOCAL);
    handler *first = (handler *)dlsym(RTLD_DEFAULT, "xerbla_");
    told.dgemm = (gemm *)dlsym(library, "dgemm_"), told.ddot = (dot *)dlsym(library, "ddot_");
    told.xerbla = first == own ? (handler *)dlsym(library, "xerbla_") : first;
    told.ddot(&none, NULL, &none, NULL, &none);
    table = &told;
}
#else
int main(void)
{
    const int n = 2, one = 1, bad = -1;
    const double a[] = {1, 2, 3, 4}, alpha = 1, beta = 0;
    double c[4];
    for (int i = 0; i < 3; i++)
        dgemm_("N", "T", &n, &n, &n, &alpha, a, &n, a, &n, &beta, c, &n, 1, 1);
    dgemm_("N", "N", &n, &bad, &n, &alpha, a, &n, a, &n, &beta, c, &n, 1, 1);
    return c[0] != 10 || c[1] != 14 || c[3] != 20 || ddot_(&n, a, &one, a, &one) != 5;
}
#endif
END
if [ -e "$OPENBLAS_DIR/libopenblas.so.0" ]; then
    "$cc" -O2 -shared -fPIC -fsemantic-interposition -DSWITCH "$work/flexi.c" -o "$work/libflexi.so" &&
        "$cc" "$work/flexi.c" -L"$work" -lflexi -Wl,-rpath,"$work" -o "$work/flexi" || exit 1
    led() { # led WHAT BLAS PRELOAD : right products, and one report
        { LD_LIBRARY_PATH=$OPENBLAS_DIR TOLD=$2 LD_PRELOAD=$3 timeout 20 "$work/flexi" > "$work/out" 2>&1; status=$?; } 2> /dev/null
        [ $status = 0 ] || fail "$1 ends with $status: $(head -3 "$work/out")"
        [ "$(grep -c '^ \*\* On entry to DGEMM  *parameter number  4 ' "$work/out")" = 1 ] || fail "$1 reports $(head -3 "$work/out")"
    }
    led "the test is wrong: FlexiBLAS without LIB" "$OPENBLAS_DIR/libopenblas.so.0" ""
    led "FlexiBLAS under LIB" "$OPENBLAS_DIR/libopenblas.so.0" "$LIB"
    led "FlexiBLAS that leads to LIB" "$LIB" ""
    led "FlexiBLAS that leads to LIB, under LIB" "$LIB" "$LIB"
fi

# What LIB itself asks of a BLAS is right for integers of either width.
cat > "$work/wide.c" << 'END'
#include <stdint.h>
#ifdef BLAS
void dgemm_(const char *transa, const char *transb, const int64_t *m, const int64_t *n, const int64_t *k, const double *alpha, const double *a,
            const int64_t *lda, const double *b, const int64_t *ldb, const double *beta, double *c, const int64_t *ldc)
{
    for (int64_t j = 0; j < *n; j++)
        for (int64_t i = 0; i < *m; i++) {
            double sum = 0;
            for (int64_t l = 0; l < *k; l++)
                sum += a[*transa == 'N' ? i + l * *lda : l + i * *lda] * b[*transb == 'N' ? l + j * *ldb : j + l * *ldb];
            c[i + j * *ldc] = *alpha * sum + *beta * c[i + j * *ldc] + 1000; /* nobody else's */
        }
}
#else
#include <gpugemm.h>
int main(void)
{
    const double a[] = {1, 2, 3, 4, 5, 6}, b[] = {1, 2, 3};
    double c[] = {1, 1};
    return gpugemm_dgemm(GPUGEMM_COL_MAJOR, GPUGEMM_NO_TRANS, GPUGEMM_TRANS, 2, 1, 3, 2, a, 2, b, 1, 3, c, 2, 0) || c[0] != 1047 || c[1] != 1059;
}
#endif
END
"$cc" -shared -fPIC -DBLAS "$work/wide.c" -o "$work/libother.so" &&
    "$cc" -I"$here/../include" "$work/wide.c" -L"$(dirname "$LIB")" -l:"$(basename "$LIB")" -Wl,-rpath,"$(dirname "$LIB")" -o "$work/wide" || exit 1
GPUGEMM_MODE=cpu GPUGEMM_BLAS=$work/libother.so "$work/wide" || fail "a BLAS with 64-bit integers under plain names: status $?"

# A plugin's own xerbla_, called by a function that the plugin does not export, takes precedence over that of GPUGEMM_BLAS, too.
cat > "$work/handler.c" << 'END'
#include <stddef.h>
#include <stdlib.h>
void xerbla_(const char *, const int *, size_t);
#if defined BLAS
void dgemm_(void) {}
void xerbla_(const char *name, const int *info, size_t length) { exit(3); }
#elif defined PLUGIN
static int told;
void xerbla_(const char *name, const int *info, size_t length) { told = *info; }
static __attribute__((noinline)) void check(const int *info) { xerbla_("DSYMM ", info, 6); }
int use(void) { return check(&(int){4}), told != 4; }
#else
#include <dlfcn.h>
int main(int argc, char **argv)
{
    void *plugin = dlopen(argv[argc - 1], RTLD_NOW | RTLD_LOCAL);
    return !plugin || ((int (*)(void))dlsym(plugin, "use"))();
}
#endif
END
"$cc" -O1 -shared -fPIC -fsemantic-interposition -DBLAS "$work/handler.c" -o "$work/libhandler.so" &&
    "$cc" -O1 -shared -fPIC -fsemantic-interposition -DPLUGIN "$work/handler.c" -o "$work/plugin.so" &&
    "$cc" "$work/handler.c" -o "$work/handler" -ldl || exit 1
LD_PRELOAD=$LIB "$work/handler" "$work/plugin.so" || fail "a plugin's own xerbla_: status $?"
GPUGEMM_BLAS=$work/libhandler.so LD_PRELOAD=$LIB "$work/handler" "$work/plugin.so" || fail "a plugin's own xerbla_ over GPUGEMM_BLAS: status $?"

# A cblas_dgemm that calls dgemm_, as the reference's does, calls LIB's dgemm_: to the program that is still one call.
cat > "$work/round.c" << 'END'
#ifdef BLAS
int calls;
void dgemm_(const char *transa, const char *transb, const int *m, const int *n, const int *k, const double *alpha, const double *a, const int *lda,
            const double *b, const int *ldb, const double *beta, double *c, const int *ldc)
{
    calls++;
}
void cblas_dgemm(int layout, int transa, int transb, int m, int n, int k, double alpha, const double *a, int lda, const double *b, int ldb,
                 double beta, double *c, int ldc)
{
    dgemm_("N", "N", &m, &n, &k, &alpha, a, &lda, b, &ldb, &beta, c, &ldc);
}
#else
#include <dlfcn.h>
#include <gpugemm.h>
void cblas_dgemm(int, int, int, int, int, int, double, const double *, int, const double *, int, double, double *, int);
void dgemm_(const char *, const char *, const int *, const int *, const int *, const double *, const double *, const int *, const double *, const int *,
            const double *, double *, const int *);
int main(int argc, char **argv)
{
    static double x[3][64];
    const int n = 8;
    const double one = 1;
    struct gpugemm_stats stats;
    for (int i = 0; i < 100; i++) {
        cblas_dgemm(102, 111, 111, n, n, n, one, x[0], n, x[1], n, one, x[2], n);
        dgemm_("N", "N", &n, &n, &n, &one, x[0], &n, x[1], &n, &one, x[2], &n);
    }
    gpugemm_stats_read(&stats, sizeof stats);
    void *blas = dlopen(argv[argc - 1], RTLD_NOW | RTLD_NOLOAD);
    int *calls = blas ? dlsym(blas, "calls") : 0;
    return !calls || *calls != 200 ? 2 : stats.calls != 200;
}
#endif
END
"$cc" -shared -fPIC -DBLAS "$work/round.c" -o "$work/libround.so" &&
    "$cc" -I"$here/../include" "$work/round.c" -L"$(dirname "$LIB")" -l:"$(basename "$LIB")" -Wl,-rpath,"$(dirname "$LIB")" -o "$work/round" || exit 1
GPUGEMM_BLAS=$work/libround.so "$work/round" "$work/libround.so" || fail "a cblas_dgemm that calls dgemm_: status $?"

# A signal handler jumps out of the BLAS, as Ctrl-C does in Sage or Lisp: the thread's later calls are its own again, not the BLAS's.
cat > "$work/jump.c" << 'END'
#include <signal.h>
#ifdef BLAS
void dgemm_(const char *transa, const char *transb, const int *m, const int *n, const int *k, const double *alpha, const double *a, const int *lda,
            const double *b, const int *ldb, const double *beta, double *c, const int *ldc)
{
    if (*alpha == 7)
        raise(SIGUSR1);
    *c = 5;
}
#else
#include <gpugemm.h>
#include <setjmp.h>
void dgemm_(const char *, const char *, const int *, const int *, const int *, const double *, const double *, const int *, const double *,
            const int *, const double *, double *, const int *);
static sigjmp_buf before;
static void jump(int number) { siglongjmp(before, number); }
int main(void)
{
    static double x[3][100 * 100];
    static const double alphas[] = {7, 1};
    struct gpugemm_stats stats;
    signal(SIGUSR1, jump);
    for (volatile int i = 0; i < 4; i++) {
        volatile int n = i < 2 ? 100 : 8; /* the last two are tiny */
        const int size = n;
        if (!sigsetjmp(before, 1))
            dgemm_("N", "N", &size, &size, &size, &alphas[i & 1], x[0], &size, x[1], &size, &alphas[1], x[2], &size);
    }
    for (volatile int i = 0; i < 2; i++)
        if (!sigsetjmp(before, 1))
            gpugemm_dgemm(GPUGEMM_COL_MAJOR, GPUGEMM_NO_TRANS, GPUGEMM_NO_TRANS, 99, 99, 99, alphas[i & 1], x[0], 99, x[1], 99, 1, x[2], 99, 0);
    gpugemm_stats_read(&stats, sizeof stats);
    return x[2][0] != 5 ? 255 : (int)stats.calls;
}
#endif
END
"$cc" -shared -fPIC -DBLAS "$work/jump.c" -o "$work/libjump.so" &&
    "$cc" -I"$here/../include" "$work/jump.c" -L"$(dirname "$LIB")" -l:"$(basename "$LIB")" -Wl,-rpath,"$(dirname "$LIB")" -o "$work/jump" || exit 1
GPUGEMM_BLAS=$work/libjump.so "$work/jump"
[ $? = 3 ] || fail "after jumps out of the BLAS: not 3 calls are counted, of 6 of which 3 were left"

# A BLAS that LIB opens for a pinned thread may start threads on all processors of the process, in the default arithmetic. Pinned by itself, and by
# OpenMP.
cat > "$work/pinned.c" << 'END'
#define _GNU_SOURCE
#include <fenv.h>
#include <sched.h>
#ifdef BLAS
static int cpus, nearest;
__attribute__((constructor)) static void start(void)
{
    cpu_set_t set;
    volatile double one = 1, little = 0x1p-60;
    sched_getaffinity(0, sizeof set, &set);
    cpus = CPU_COUNT(&set), nearest = one + little == 1;
}
void dgemm_(const char *transa, const char *transb, const int *m, const int *n, const int *k, const double *alpha, const double *a, const int *lda,
            const double *b, const int *ldb, const double *beta, double *c, const int *ldc)
{
    c[0] = cpus, c[1] = nearest;
}
#else
#include <pthread.h>
#include <stdlib.h>
void dgemm_(const char *, const char *, const int *, const int *, const int *, const double *, const double *, const int *, const double *,
            const int *, const double *, double *, const int *);
static double c[64];
static void *first(void *unused)
{
    static const double one = 1, x[64];
    const int n = 8;
    cpu_set_t set, after;
    CPU_ZERO(&set);
    CPU_SET(sched_getcpu(), &set);
    sched_setaffinity(0, sizeof set, &set);
    fesetround(FE_UPWARD);
    dgemm_("N", "N", &n, &n, &n, &one, x, &n, x, &n, &one, c, &n);
    sched_getaffinity(0, sizeof after, &after);
    c[2] = CPU_EQUAL(&set, &after) && fegetround() == FE_UPWARD;
    return unused;
}
int main(int argc, char **argv)
{
    pthread_t thread;
    pthread_create(&thread, NULL, first, NULL);
    pthread_join(thread, NULL);
    return c[0] != atoi(argv[argc - 1]) ? 1 : !c[1] ? 2 : !c[2] ? 3 : 0;
}
#endif
END
"$cc" -shared -fPIC -DBLAS "$work/pinned.c" -o "$work/libpinned.so" -lm || exit 1
for openmp in "" -fopenmp; do
    "$cc" $openmp "$work/pinned.c" -Wl,--no-as-needed -L"$(dirname "$LIB")" -l:"$(basename "$LIB")" -Wl,-rpath,"$(dirname "$LIB")" \
        -o "$work/pinned" -lm -pthread || continue # no OpenMP here
    OMP_PROC_BIND=true GPUGEMM_BLAS=$work/libpinned.so "$work/pinned" "$(nproc)" || fail "a BLAS opened for a pinned thread ($openmp): status $?"
done
finish

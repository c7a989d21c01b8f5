#!/usr/bin/env bash
# t_preload.sh [LIB] — LIB preloaded into programs that did not ask for it. /bin/true opens no CUDA and no BLAS and is hardly slower. For a program
# linked with a BLAS, one whose BLAS comes through another library, and one that loads it RTLD_LOCAL: a declined call reaches that BLAS exactly once,
# with the caller's own arguments, although its cblas_dgemm calls its dgemm_; its ddot_ is still used, and no second BLAS is loaded. A library's own
# function that happens to be called dgemm is left alone, as is one for C that a BLAS has; MKL's dgemm is served.
. "$(dirname "$0")/lib.sh"
here=$(dirname "$(realpath "$0")")
cc=${CC:-gcc}
command -v "$cc" > /dev/null || skip "no C compiler"
unset GPUGEMM_BLAS
build() { "$cc" -O1 -fPIC -DROLE_"$1" "$here/preload.c" -o "$work/$2" "${@:3}" -Wl,-rpath,"$work" || exit 1; }
build SPY libspy.so -shared
build USER libuser.so -shared -Wl,--no-as-needed -L"$work" -lspy
build MAIN indirect -Wl,--no-as-needed -L"$work" -luser -Wl,-rpath-link,"$work" -ldl
build MAIN plugin -ldl
"$cc" -O1 -DROLE_USER -DROLE_MAIN "$here/preload.c" -o "$work/direct" -L"$work" -lspy -Wl,-rpath,"$work" -ldl || exit 1
build TIMER timer -D_GNU_SOURCE

if command -v strace > /dev/null && strace -o /dev/null /bin/true 2> /dev/null; then
    strace -f -e trace=openat,open -o "$work/opened" env LD_PRELOAD="$LIB" /bin/true
else
    LD_DEBUG=files LD_DEBUG_OUTPUT="$work/opened" LD_PRELOAD="$LIB" /bin/true
    cat "$work"/opened.* > "$work/opened"
fi
grep -q "${LIB##*/}" "$work/opened" || fail "/bin/true did not load $LIB"
grep -E 'lib(cuda|cudart|cublas|nv)|blas' "$work/opened" | grep -vE "${LIB##*/}|ENOENT" && fail "/bin/true opened more than $LIB"
cost=$("$work/timer" "$LIB") || fail "/bin/true under $LIB"
echo "/bin/true takes $cost ms longer (to be below 0.2 on an idle machine)"
awk "BEGIN { exit !($cost < 1) }" || fail "preloading costs $cost ms"

for program in direct indirect "plugin $work/libuser.so"; do
    rm -f "$work/stats.json"
    env GPUGEMM_MODE=cpu GPUGEMM_STATS="$work/stats.json" LD_PRELOAD="$LIB" "$work"/$program || fail "$program, preloaded"
    calls=$(stat_of "$work/stats.json" calls)
    echo "${program%% *}: $calls calls counted"
    [ "$calls" = 2 ] || fail "${program%% *}: $calls calls counted, not 2"
done

cat > "$work/own.c" << 'END'
#if defined OWN /* a library with a function of its own */
float dgemm(int n, float alpha, double beta, const double *x) { return n * alpha + (float)(beta * *x); }
int wrong(void) { const double x = 7; return dgemm(3, 2, 5, &x) != 41; }
#elif defined VALUES /* ACML's dgemm for C, beside its dgemm_ */
void dgemm_(void) {}
void dgemm(char ta, char tb, int m, int n, int k, double alpha, double *a, int lda, double *b, int ldb, double beta, double *c, int ldc)
{
    *c = m + *a;
}
int wrong(void)
{
    double x = 3, c;
    return dgemm('N', 'T', 2, 2, 2, 1, &x, 2, &x, 2, 0, &c, 2), c != 5;
}
#elif defined BLAS /* MKL's dgemm is its dgemm_ */
void dgemm(const char *ta, const char *tb, const int *m, const int *n, const int *k, const double *alpha, const double *a, const int *lda,
           const double *b, const int *ldb, const double *beta, double *c, const int *ldc) { *c = *alpha * *a * *b; }
__typeof(dgemm) dgemm_ __attribute__((alias("dgemm")));
int wrong(void)
{
    const int one = 1;
    const double x = 3, zero = 0;
    double c;
    return dgemm("N", "N", &one, &one, &one, &x, &x, &one, &x, &one, &zero, &c, &one), c != 27;
}
#else
int wrong(void);
int main(void) { return wrong(); }
#endif
END
for kind in OWN VALUES BLAS; do
    "$cc" -O1 -fPIC -fsemantic-interposition -shared -D$kind "$work/own.c" -o "$work/lib$kind.so" &&
        "$cc" "$work/own.c" -L"$work" -l$kind -Wl,-rpath,"$work" -o "$work/$kind" && "$work/$kind" || exit 1
    rm -f "$work/stats.json"
    { GPUGEMM_STATS="$work/stats.json" LD_PRELOAD="$LIB" "$work/$kind"; status=$?; } 2> /dev/null
    [ $status = 0 ] || fail "a dgemm ($kind) ends with $status"
done
[ "$(stat_of "$work/stats.json" calls)" = 1 ] || fail "MKL's dgemm was not served"

# Nor is it the BLAS to which a program's call of dgemm is passed on.
cat > "$work/both.c" << 'END'
#include <dlfcn.h>
void dgemm(const char *, const char *, const int *, const int *, const int *, const double *, const double *, const int *, const double *,
           const int *, const double *, double *, const int *);
int main(int argc, char **argv)
{
    const int one = 1;
    const double x = 3, zero = 0;
    double c;
    void *plugin = dlopen(argv[argc - 1], RTLD_NOW | RTLD_LOCAL);
    int (*wrong)(void) = plugin ? (int (*)(void))dlsym(plugin, "wrong") : 0;
    if (!wrong || wrong())
        return 1;
    dgemm("N", "N", &one, &one, &one, &x, &x, &one, &x, &one, &zero, &c, &one);
    return c == 27 ? wrong() : 2;
}
END
"$cc" -O1 "$work/both.c" -L"$(dirname "$LIB")" -l:"$(basename "$LIB")" -Wl,-rpath,"$(dirname "$LIB")" -o "$work/both" -ldl || exit 1
{ "$work/both" "$work/libOWN.so"; status=$?; } 2> /dev/null
[ $status = 0 ] || fail "a program's dgemm beside a plugin's own ends with $status"
finish

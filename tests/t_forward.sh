#!/usr/bin/env bash
# t_forward.sh [LIB] — the stubs of forward.def with LIB preloaded into a process that holds two BLASes, each in the scope of the object that
# brought it: every register, the stack and every kind of result pass; no object is given the other's BLAS; a user's xerbla_ wins. Then a
# program linked with LIB alone: a name that no BLAS has is one clear line and SIGABRT; a missing xerbla_ is the reference's line, and the
# program goes on.
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
# No BLAS within reach: those that real.c would load by name are empty here.
mkdir "$work/none"
echo | "$cc" -shared -fPIC -x c - -o "$work/none/empty.so" || exit 1
for name in $(sed -n '/sonames\[\] = {/,/};/p' "$here/../src/real.c" | grep -o '"[^"]*"' | tr -d '"'); do
    cp "$work/none/empty.so" "$work/none/$name"
done
[ -e "$work/none/libblas.so.3" ] || fail "the names in real.c could not be read"
{ LD_LIBRARY_PATH=$work/none "$work/alone" missing > "$work/out" 2> "$work/err"; status=$?; } 2> /dev/null # where bash says "Aborted"
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
finish

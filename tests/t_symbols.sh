#!/usr/bin/env bash
# t_symbols.sh [LIB] — LIB exports what the tables and the public header say, nothing missing and nothing extra; it needs libc only; it is bound at
# load, never unloaded and has no executable stack; cblas.h declares every cblas_ name that is exported, and no other.
. "$(dirname "$0")/lib.sh"
root=$(realpath "$(dirname "$0")/..")
cc=${CC:-gcc}
command -v "$cc" nm readelf > /dev/null || skip "no C compiler or binutils"

words() { tr -s ' ' '\n' | grep . | sort; }
same() { # same WHAT EXPECTED FOUND
    diff "$2" "$3" > "$work/diff" || { fail "$1 (< missing, > extra):"; head -40 "$work/diff"; }
    uniq -d "$2" | grep . && fail "$1: named twice"
}

printf '#define X(symbol, ...) symbol\n#include "symbols.def"\n#define X(symbol) symbol\n#define X_XERBLA X\n#define X_BARE(symbol)\n#include "forward.def"\n' |
    "$cc" -E -P -x c -I"$root/src" - | words > "$work/tables"
[ "$(wc -l < "$work/tables")" -gt 800 ] || fail "the tables could not be read"

# The API's functions: the words before a parenthesis in the header without its comments.
"$cc" -E -P -x c "$root/include/gpugemm.h" | grep -o '\<gpugemm_[a-z_]*(' | tr -d '(' | words > "$work/api"
[ -s "$work/api" ] || fail "no function in gpugemm.h"

nm -D --defined-only "$LIB" | awk '$2 != "A" { print $3 }' > "$work/defined"
grep -v @ "$work/defined" | words > "$work/plain"
grep '@@GPUGEMM_0$' "$work/defined" | sed 's/@.*//' | words > "$work/versioned"
grep '@' "$work/defined" | grep -v '@@GPUGEMM_0$' && fail "an unknown symbol version"
same "BLAS names" "$work/tables" "$work/plain"
same "gpugemm_ names" "$work/api" "$work/versioned"
nm -D --defined-only "$LIB" | awk '$2 !~ /^[TA]$/' | grep . && fail "something exported is not code"

grep '^cblas_' "$work/tables" > "$work/cblas"
"$cc" -E -P -x c "$root/include/gpugemm/cblas.h" | grep -o '\<cblas_[a-z0-9_]*(' | tr -d '(' | words > "$work/prototypes"
same "prototypes of cblas.h" "$work/cblas" "$work/prototypes"

readelf -dW "$LIB" > "$work/dynamic"
if ! nm -D "$LIB" | grep -q '__[at]san_'; then # a sanitizer adds its runtime
    grep '(NEEDED)' "$work/dynamic" | grep -vE '\[(libc\.so\.6|ld-linux[-a-z0-9]*\.so\.[12])\]' && fail "needs more than libc"
fi
grep -q 'SONAME.*\[libgpugemm\.so\.0\]' "$work/dynamic" || fail "SONAME is not libgpugemm.so.0"
grep -q 'BIND_NOW' "$work/dynamic" || fail "not linked with -z now"
grep -q 'NODELETE' "$work/dynamic" || fail "not linked with -z nodelete"
grep -E 'TEXTREL|RPATH|RUNPATH' "$work/dynamic" && fail "text relocations or a run path"
readelf -lW "$LIB" > "$work/segments"
grep -q GNU_RELRO "$work/segments" || fail "not linked with -z relro"
grep 'GNU_STACK' "$work/segments" | grep -q 'RW ' || fail "no GNU_STACK header"
grep 'GNU_STACK' "$work/segments" | grep RWE && fail "executable stack"
if [ "$(uname -m)" = x86_64 ] && readelf -nW "$LIB" | grep -q 'x86 feature:'; then
    readelf -nW "$LIB" | grep -q 'IBT, SHSTK' || fail "not marked for control-flow protection"
fi
finish

#!/usr/bin/env bash
# t_preload.sh [LIB] — LIB preloaded into programs that did not ask for it. /bin/true opens no CUDA and no BLAS and is hardly slower. For a program
# linked with a BLAS, one whose BLAS comes through another library, and one that loads it RTLD_LOCAL: a declined call reaches that BLAS exactly once,
# with the caller's own arguments, although its cblas_dgemm calls its dgemm_; its ddot_ is still used, and no second BLAS is loaded.
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
finish

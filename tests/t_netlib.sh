#!/usr/bin/env bash
# t_netlib.sh [LIB] — the netlib level 3 testers, Fortran and CBLAS, single and double, with LIB preloaded over reference BLAS and over OpenBLAS.
# Their exit status is always 0 and their matrices are tiny; so the output is read and compared with that of a run without LIB, the input is extended
# to sizes past the tile edges, and the statistics must show that LIB saw the calls; under GPUGEMM_MODE=gpu, that the GPU served them. On a GPU they
# run over one BLAS only, because a tiny call takes long there and the real BLAS makes no difference. JOBS testers run at a time.
. "$(dirname "$0")/lib.sh"
[ -x "$TESTERS/xblat3d" ] || skip "no netlib testers in $TESTERS (Debian: libblas-test)"

# The CBLAS testers need two variables that only the reference BLAS has.
shim=
if printf 'int RowMajorStrg, CBLAS_CallFromC;' | gcc -shared -fPIC -x c - -o "$work/shim.so" 2>/dev/null; then shim=$work/shim.so; fi

# Extends the stock input by sizes across tile edges, and reduces the routines to gemm.
extend() {
    awk '/VALUES OF N$/ && /NUMBER/   { print "9  NUMBER OF VALUES OF N"; next }
         /VALUES OF N$/               { print "0 1 2 16 31 33 48 64 65  VALUES OF N"; next }
         / T PUT F/ && !/[gG][eE][mM][mM]/ { sub(" T PUT", " F PUT") }
         { print }' "$1"
}

# verdict TESTER INPUT PRELOAD DIR > the lines that tell the outcome; in the current folder
verdict() {
    rm -f ./*.out ./*.OUT
    env LD_LIBRARY_PATH="$4:$RUNTIME" LD_PRELOAD="$3" GPUGEMM_STATS=stats.json GPUGEMM_BLAS= "$TESTERS/$1" < "$2" > stdout 2> stderr
    grep -av '^#' stderr # the addresses in a backtrace always differ
    cat stdout ./*.out 2>/dev/null | grep -aE 'PASSED|FAIL|SUSPECT|\*\*\*|END OF TESTS'
}

try() { # try DIR TESTER INPUT EXTRA: runs in a folder of its own, named after the tester
    local dir=$1 tester=$2 input=$3 extra=$4 what="$2, ${3##*/}, over ${1##*/}"
    mkdir "$work/$what" && cd "$work/$what" || return
    verdict "$tester" "$input" "$extra" "$dir" > without
    rm -f stats.json
    verdict "$tester" "$input" "$PRELOAD${extra:+ $extra}" "$dir" > with
    passed=$(grep -ciE 'gemm +PASSED' with)
    tests=$(sed -nE 's/.*[gG][eE][mM][mM] .*\( *([0-9]+) CALLS\).*/\1/p' with | awk '{ n += $1 } END { print n + 0 }')
    calls=$(stat_of stats.json calls) gpu=$(stat_of stats.json gpu)
    echo "$what: $passed verdicts on $tests gemm calls; LIB saw $calls, $gpu on the GPU"
    diff without with || fail "$what: not as without LIB"
    [ "$passed" -ge 2 ] || fail "$what: gemm did not pass"
    [ "$calls" -ge "$tests" ] && [ "$tests" -gt 0 ] || fail "$what: calls went past LIB"
    [ "${GPUGEMM_MODE:-}" != gpu ] || [ "$gpu" -gt 0 ] || fail "$what: none on the GPU"
    [ "$failures" = 0 ] && touch passed
}

tried=0
for dir in "$REFBLAS_DIR" "$OPENBLAS_DIR"; do
    [ $tried -gt 0 ] && [ "${GPUGEMM_MODE:-}" = gpu ] && continue
    [ -e "$dir/libblas.so.3" ] || { echo "no libblas.so.3 in $dir: left out"; continue; }
    for tester in xblat3s xblat3d xscblat3 xdcblat3; do
        case $tester in
        xblat3s) stock=$TESTERS/sblat3.in extra= ;;
        xblat3d) stock=$TESTERS/dblat3.in extra= ;;
        xscblat3) stock=$TESTERS/sin3 extra=$shim ;;
        xdcblat3) stock=$TESTERS/din3 extra=$shim ;;
        esac
        [ "$dir" = "$REFBLAS_DIR" ] && extra=
        [ "$dir" != "$REFBLAS_DIR" ] && [ -z "$extra" ] && [ "${tester%cblat3}" != "$tester" ] && continue
        extend "$stock" > "$work/extended-${stock##*/}"
        for input in "$stock" "$work/extended-${stock##*/}"; do
            while [ "$(jobs -rp | wc -l)" -ge "${JOBS:-4}" ]; do wait -n; done
            try "$dir" "$tester" "$input" "$extra" &
            tried=$((tried + 1))
        done
    done
done
wait
failures=$((tried - $(ls -d "$work"/*/passed 2> /dev/null | wc -l)))
[ $tried -gt 0 ] || fail "there was no BLAS to try"
finish

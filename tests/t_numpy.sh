#!/usr/bin/env bash
# t_numpy.sh [LIB [MAX_N]] — pip's NumPy with LIB preloaded: t_numpy.py up to MAX_N, with the statistics as proof that LIB saw the products (and,
# under GPUGEMM_MODE=gpu, that the GPU served them); then NumPy's own tests of linalg, matmul and einsum, which must have the same failures as a run
# without LIB. Uses $PYTHON if that has NumPy from pip with pytest and hypothesis, else makes a virtual environment in $VENV.
. "$(dirname "$0")/lib.sh"
here=$(dirname "$(realpath "$0")")
largest=${2:-$([ "${GPUGEMM_MODE:-}" = gpu ] && echo 2048 || echo 512)}
venv=${VENV:-$(dirname "$LIB")/venv}
has_numpy() {
    "$1" -c 'import glob, os, numpy, pytest, hypothesis
assert glob.glob(os.path.join(os.path.dirname(numpy.__file__), "..", "numpy.libs", "libscipy_openblas64*"))' 2> /dev/null
}
python=
for candidate in "${PYTHON:-python3}" "$venv/bin/python"; do has_numpy "$candidate" && python=$candidate && break; done
if [ -z "$python" ]; then
    echo "installing NumPy in $venv"
    python3 -m venv "$venv" && "$venv/bin/pip" install -q numpy pytest hypothesis || skip "NumPy cannot be installed"
    python=$venv/bin/python
fi
"$python" -c 'import numpy, sys; print("NumPy", numpy.__version__, "Python", sys.version.split()[0])'

# with COMMAND… : runs it under LIB, with statistics in stats.json
with() { rm -f "$work/stats.json"; env GPUGEMM_STATS="$work/stats.json" LD_PRELOAD="$PRELOAD" "$@"; }
seen() { # seen WHAT LEAST
    calls=$(stat_of "$work/stats.json" calls) gpu=$(stat_of "$work/stats.json" gpu)
    echo "$1: LIB saw $calls calls, $gpu on the GPU"
    [ "$calls" -ge "$2" ] || fail "$1: only $calls calls of at least $2 came through LIB"
    [ "${GPUGEMM_MODE:-}" != gpu ] || [ "$gpu" -gt 0 ] || fail "$1: none on the GPU"
}

"$python" -W error "$here/t_numpy.py" 64 > "$work/without" 2>&1 || fail "t_numpy.py fails without LIB: $(tail -3 "$work/without")"
if with "$python" -W error "$here/t_numpy.py" "$largest" > "$work/with" 2>&1; then
    products=$(tail -1 "$work/with")
    seen "$products products to n = $largest" $((products / 2)) # A A^T is syrk, a column is gemv
else
    fail "t_numpy.py: $(tail -5 "$work/with")"
fi

tests=$("$python" -c 'import numpy, os; print(os.path.join(os.path.dirname(numpy.__file__), "_core", "tests"))')
numpy_tests() { # numpy_tests OUTPUT [with] : one line per failing test
    (cd "$work" && ${2:-} "$python" -m pytest -q -rfE -p no:cacheprovider --pyargs numpy.linalg \
        "$tests/test_einsum.py" "$tests/test_multiarray.py" "$tests/test_ufunc.py" "$tests/test_numeric.py" \
        -k "(linalg or einsum or Einsum or atmul or MatMul or Dot or dot or inner or Inner) and not huge" 2>&1) > "$work/log"
    tail -1 "$work/log"
    grep -E '^(FAILED|ERROR)' "$work/log" | sed 's/ - .*//' | sort > "$1"
    grep -qE '[1-9][0-9]* passed' "$work/log" || fail "NumPy's tests did not run: $(tail -3 "$work/log")"
}
numpy_tests "$work/failing_without"
numpy_tests "$work/failing_with" with
new=$(comm -13 "$work/failing_without" "$work/failing_with")
[ -z "$new" ] || fail "NumPy's own tests fail under LIB: $new"
seen "NumPy's tests" 1000
finish

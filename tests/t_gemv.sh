#!/usr/bin/env bash
# t_gemv.sh LIB T_GEMV — which routine of the CPU BLAS computes a C that is a row or a column, and whether it is right (t_gemv.c): OpenBLAS, also pip
# NumPy's where it is installed, and all other kinds of BLAS, as gemv_blas.c makes them.
. "$(dirname "$0")/lib.sh"
program=$2
source=$(realpath "$(dirname "$0")/gemv_blas.c")
cc=${CC:-gcc}
command -v "$cc" > /dev/null || skip "no C compiler"
unset GPUGEMM_BLAS GPUGEMM_MODE
try() { "$program" --lib "$LIB" "$@" || fail "GPUGEMM_MODE=$GPUGEMM_MODE, ${*:-the BLAS here}"; }
kind() { # kind FILE ROUTINE PRE POST INT FLAG… : this library's ROUTINE must be called
    "$cc" -std=c11 -O2 -shared -fPIC -DPRE="$3" -DPOST="$4" -DINT="$5" "$source" -o "$work/$1" "${@:6}" || { fail "$1 does not build"; return; }
    try --blas "$work/$1" --expect "$2" $([ "$1" != blas64.so ] || echo --ilp64)
}
OPENBLAS_NUM_THREADS=2 try
for blas in "$(dirname "$LIB")"/venv/lib/python3*/site-packages/numpy.libs/libscipy_openblas64_*.so; do
    [ ! -e "$blas" ] || try --blas "$blas"
done
kind plain.so gemv "" "" int32_t -DCORE
GPUGEMM_MODE=cpu try --blas "$work/plain.so" --expect gemm
kind suffix.so gemv "" 64_ int64_t -DCORE
kind prefix.so gemv scipy_ "" int32_t -DCORE
kind both.so gemv scipy_ 64_ int64_t -DCORE
kind none.so gemm "" "" int32_t
kind blas64.so gemv "" "" int64_t -DCORE # by its name one with 64-bit integers under the plain names
"$cc" -std=c11 -shared -fPIC -DPRE= -DPOST= -DCORE "$source" -o "$work/libcore.so" || fail "libcore.so does not build"
kind needs.so gemv "" "" int32_t -Wl,--no-as-needed "$work/libcore.so" # Debian's libblas.so.3 needs OpenBLAS
finish

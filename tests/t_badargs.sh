#!/usr/bin/env bash
# t_badargs.sh LIB BADARGS — badargs.c over reference BLAS and over OpenBLAS.
. "$(dirname "$0")/lib.sh"
program=$(realpath "${2:?usage: t_badargs.sh LIB BADARGS}")
ran=0
for real in "$OPENBLAS_DIR/libopenblas.so.0" "$REFBLAS_DIR/libblas.so.3"; do
    [ -e "$real" ] || continue
    GPUGEMM_BLAS=$real "$program" --lib "$LIB" --real "$real" --openblas "$OPENBLAS_DIR/libopenblas.so.0"
    status=$?
    [ $status = 77 ] && continue
    ran=$((ran + 1))
    [ $status = 0 ] || fail "over $real"
done
[ $ran -gt 0 ] || skip "no BLAS to compare with"
finish

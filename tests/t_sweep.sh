#!/usr/bin/env bash
# t_sweep.sh LIB BIN DRIVER [SWEEP ARGUMENTS…] — sweep.c over LIB, on DRIVER: fake_cuda.c's library, or `real` for the machine's own libcuda.so.1. BIN
# has sweep and the two failing libraries. A library with sanitizers gets no failing C library: it cannot be preloaded.
. "$(dirname "$0")/lib.sh"
bin=$(realpath "${2:?usage: t_sweep.sh LIB BIN DRIVER}") driver=${3:?usage: t_sweep.sh LIB BIN DRIVER}
shift 3
if [ "$driver" = real ]; then
    driver=$(PATH=$PATH:/sbin:/usr/sbin ldconfig -p | awk '/libcuda\.so\.1 / { print $NF; exit }')
    [ -n "$driver" ] || skip "no CUDA driver"
fi
mkdir "$work/driver" && cp "$bin/libfail_cuda.so" "$work/driver/libcuda.so.1"
libc=$bin/libfail_libc.so
[ -e "$libc" ] || libc=
FAIL_CUDA_DRIVER=$(realpath "$driver") LD_LIBRARY_PATH=$work/driver:$OPENBLAS_DIR${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} LD_PRELOAD=$libc \
    "$bin/sweep" --lib "$LIB" "$@"

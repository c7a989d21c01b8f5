#!/usr/bin/env bash
# t_sweep.sh LIB BIN DRIVER [ARGUMENTS…] — runs sweep.c, or soak.c, t_again.c, t_capture.c, t_tiny.c, t_staged.c or t_learns.c when called as t_soak.sh
# and so on, over LIB, on DRIVER: fake_cuda.c's library, or `real` for the machine's own libcuda.so.1. BIN has the programs and the two failing
# libraries. A fail_libc with sanitizers cannot be preloaded, so none is built.
. "$(dirname "$0")/lib.sh"
bin=$(realpath "${2:?usage: t_sweep.sh LIB BIN DRIVER}") driver=${3:?usage: t_sweep.sh LIB BIN DRIVER}
shift 3
if [ "$driver" = real ]; then
    driver=$(PATH=$PATH:/sbin:/usr/sbin ldconfig -p | awk '/libcuda\.so\.1 / { print $NF; exit }')
    [ -n "$driver" ] || skip "no CUDA driver"
fi
mkdir "$work/driver" && cp "$bin/libfail_cuda.so" "$work/driver/libcuda.so.1"
program=$(basename "$0" .sh) libc=$bin/libfail_libc.so
[ -x "$bin/$program" ] || program=${program#t_}
[ -e "$libc" ] && [ "$program" = sweep ] || libc=
[ "$program" = sweep ] && export MALLOC_MMAP_THRESHOLD_=65536 # larger pieces are unmapped when freed, so any later use of them is detected
FAIL_CUDA_DRIVER=$(realpath "$driver") LD_LIBRARY_PATH=$work/driver:$OPENBLAS_DIR${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} LD_PRELOAD=$libc \
    "$bin/$program" --lib "$LIB" "$@"

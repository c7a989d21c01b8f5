#!/usr/bin/env bash
# t_valgrind.sh LIB BIN [FAKE_LIBCUDA] — the C tests under valgrind's memcheck, on the CPU and on the fake driver: no error, no block definitely lost.
# (What an ended thread holds, and what goes with a forked child, is not definitely lost.) valgrind is slow, so there are fewer and smaller cases. It
# runs one thread at a time, and without --fair-sched a polling thread can keep the processor from the thread it waits for, for minutes on a busy
# machine.
. "$(dirname "$0")/lib.sh"
bin=$(realpath "${2:?usage: t_valgrind.sh LIB BIN [FAKE_LIBCUDA]}") fake=${3:-}
command -v valgrind > /dev/null || skip "no valgrind"
export OPENBLAS_CORETYPE=Haswell # valgrind knows no AVX-512
checked() { # checked WHAT COMMAND…
    echo "$1"
    timeout 600 valgrind -q --fair-sched=yes --suppressions="$(dirname "$0")/valgrind.supp" --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite --show-leak-kinds=definite \
        --child-silent-after-fork=yes "${@:2}" --lib "$LIB" > "$work/out" 2> "$work/err" || fail "$1: $(tail -n 2 "$work/out") $(head -n 12 "$work/err")"
}
programs() {
    checked "$1: every spelling" "$bin/t_exact"
    checked "$1: illegal arguments" "$bin/badargs"
    checked "$1: random calls" "$bin/fuzz" --calls 250 --jobs 1
    checked "$1: processes" "$bin/t_process" --constructor "$bin/libconstructor.so" --only fork-first
    checked "$1: threads" "$bin/t_process" --constructor "$bin/libconstructor.so" --only openmp
    checked "$1: NaN, Inf and zeros" "$bin/t_values" --residual 60
    checked "$1: precision" "$bin/t_precision"
}
programs CPU
if [ -n "$fake" ]; then
    mkdir "$work/driver" && cp "$fake" "$work/driver/libcuda.so.1"
    export GPUGEMM_MODE=gpu LD_LIBRARY_PATH=$work/driver
    programs "fake GPU"
    checked "fake GPU: forks" "$bin/t_fork"
    export FAKE_CUDA_ARCH=90 # all kernels
    checked "fake GPU: GPU operands" "$bin/fuzz" --calls 150 --jobs 1 --device
fi
finish

#!/usr/bin/env bash
# t_fake_gpu.sh LIB FAKE_LIBCUDA BIN — the GPU side of LIB on fake_cuda.c, where streams run late and host code cannot touch device memory:
# host operands, GPU operands, tiles forced by little memory, threads, fork, exit; then each driver function failing at one call after
# another, with results that must stay right.
. "$(dirname "$0")/lib.sh"
mkdir "$work/driver" && cp "$(realpath "${2:?usage: t_fake_gpu.sh LIB FAKE_LIBCUDA BIN}")" "$work/driver/libcuda.so.1"
bin=$(realpath "$3")
export GPUGEMM_MODE=gpu LD_LIBRARY_PATH=$work/driver${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
calls=${CALLS:-4000}

# on_fake WHAT VARIABLE=VALUE… PROGRAM ARGUMENTS… : right within two minutes
on_fake() {
    what=$1
    shift
    timeout 120 env "$@" --lib "$LIB" > "$work/out" 2> "$work/err"
    status=$?
    [ $status = 0 ] || fail "$what: status $status: $(grep -vE '^[a-z_0-9]+ +[0-9]+ calls$' "$work/out" | head -3) $(head -3 "$work/err")"
    [ -n "${QUIET:-}" ] || echo "$what: $(tail -1 "$work/out")"
}

on_fake "host operands" "$bin/fuzz" --calls "$calls" --expect-gpu
on_fake "GPU operands" "$bin/fuzz" --calls "$calls" --device --expect-gpu
on_fake "little memory" FAKE_CUDA_MEMORY=3000000 GPUGEMM_PINNED_MEMORY=1M GPUGEMM_THREADS=1 "$bin/fuzz" --calls "$calls" --seed 2
on_fake "small tiles" GPUGEMM_GPU_MEMORY=2M GPUGEMM_PINNED_MEMORY=1M "$bin/t_values" --residual 700
on_fake values "$bin/t_values" --expect-gpu --residual 300
on_fake threads "$bin/t_threads" --expect-gpu
on_fake fork "$bin/t_fork" --expect-gpu
on_fake exit "$bin/t_exit"

# Every function, failing at its 1st, 2nd, 3rd, 10th, 40th call; 999 is sticky, 2 is out of memory. One line of warning is all it may say.
QUIET=1 tried=0
functions=$(nm -D "$work/driver/libcuda.so.1" | sed -nE 's/.* T (cu[A-Za-z0-9]+)(_v[0-9]+)?$/\1/p' | grep -vE 'cuMemcpy(HtoD|DtoH)$|PopCurrent|GetErrorString|SetCurrent|PointerGet' | sort -u)
for function in $functions; do
    symbol=$(nm -D "$work/driver/libcuda.so.1" | grep -oE "\b$function(_v[0-9]+)?$" | head -1)
    for call in 1 2 3 10 40; do
        for error in 999 2; do
            on_fake "$function failing at call $call with $error" FAKE_CUDA_FAIL="$symbol:$call:$error" "$bin/t_exact"
            [ "$(wc -l < "$work/err")" -le 1 ] || fail "$function failing at call $call with $error: $(head -3 "$work/err")"
            tried=$((tried + 1))
        done
    done
done
echo "$tried planned failures of $(echo "$functions" | wc -l) driver functions"
finish

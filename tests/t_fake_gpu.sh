#!/usr/bin/env bash
# t_fake_gpu.sh LIB FAKE_LIBCUDA BIN — the GPU side of LIB on fake_cuda.c, where streams run late and host code cannot touch device memory:
# host operands, GPU operands, tiles forced by little memory, threads, fork, exit.
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
    echo "$what: $(tail -1 "$work/out")"
}

on_fake "host operands" "$bin/fuzz" --calls "$calls" --expect-gpu
on_fake "GPU operands" "$bin/fuzz" --calls "$calls" --device --expect-gpu
on_fake "little memory" FAKE_CUDA_MEMORY=3000000 GPUGEMM_PINNED_MEMORY=1M GPUGEMM_THREADS=1 "$bin/fuzz" --calls "$calls" --seed 2
on_fake "small tiles" GPUGEMM_GPU_MEMORY=2M GPUGEMM_PINNED_MEMORY=1M "$bin/t_values" --residual 700
on_fake values "$bin/t_values" --expect-gpu --residual 300
on_fake threads "$bin/t_threads" --expect-gpu
on_fake fork "$bin/t_fork" --expect-gpu
on_fake exit "$bin/t_exit"

finish

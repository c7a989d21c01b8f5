#!/usr/bin/env bash
# t_devices.sh LIB GPUGEMM BIN DRIVER — machines on which the GPU is not available, or only some GPUs are: in exclusive use by another process, no
# permission on /dev/nvidia*, a driver older than the kernels, lists of devices with entries that do not exist. Every result must be right, with at
# most one line on stderr, and `gpugemm info` must say why. DRIVER: fake_cuda.c's library, or `real` for the machine's own libcuda.so.1; fail_cuda.c
# makes it refuse.
. "$(dirname "$0")/lib.sh"
command=$(realpath "${2:?usage: t_devices.sh LIB GPUGEMM BIN DRIVER}") bin=$(realpath "$3") driver=$4
[ "$driver" != real ] || driver=$(PATH=$PATH:/sbin:/usr/sbin ldconfig -p | awk '/libcuda\.so\.1 / { print $NF; exit }')
[ -n "$driver" ] || skip "no CUDA driver"
mkdir "$work/driver" && cp "$bin/libfail_cuda.so" "$work/driver/libcuda.so.1"
export FAIL_CUDA_DRIVER LD_LIBRARY_PATH=$work/driver:$OPENBLAS_DIR${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} GPUGEMM_MODE=gpu
FAIL_CUDA_DRIVER=$(realpath "$driver")

right() { # right WHAT MOST VARIABLE=VALUE… : runs t_exact, with at most MOST lines on stderr; sets $gpu to its number of calls on the GPU
    timeout "${LIMIT:-60}" env "${@:3}" "$bin/t_exact" --lib "$LIB" > "$work/out" 2> "$work/err" || fail "$1: $(tail -n 1 "$work/out") $(head -n 3 "$work/err")"
    [ "$(wc -l < "$work/err")" -le "$2" ] || fail "$1: $(head -n 3 "$work/err")"
    gpu=$(sed -n 's/.*calls, \([0-9]*\) on the GPU.*/\1/p' "$work/out")
    echo "$1: $(tail -n 1 "$work/out") $(head -n 1 "$work/err")"
}
says() { # says WHAT TEXT VARIABLE=VALUE… : `gpugemm info` says TEXT about the GPU
    timeout "${LIMIT:-60}" env "${@:3}" "$command" info > "$work/info" 2>&1
    grep -q "^GPU  .*$2" "$work/info" || fail "$1: info says $(grep '^GPU  ' "$work/info")"
}

right "as it is" 0
[ "$gpu" -gt 0 ] || fail "nothing on the GPU"

"$command" info | grep -qE '^Tiers +[a-z].* TFLOP/s, the last in FP32 multiply-adds' || fail "info has no tiers"
"$command" info --json | grep -q '"tiers": \[{"kernel": "[a-z].*"flops": [1-9]' || fail "info --json has no tiers"

# refused WHAT FUNCTION ERROR LINES: the driver's function always fails; no call is served by the GPU
refused() { right "$1" "$4" FAIL_CUDA_PLAN="$2 $3"; [ "$gpu" = 0 ] || fail "$1: $gpu calls on the GPU"; }
refused "no GPU" cuInit 100 0
refused "no permission" cuInit 304 0
refused "the kernel's driver is another" cuInit 803 0
refused "no device counted" cuDeviceGetCount 100 0
refused "in exclusive use" cuDevicePrimaryCtxRetain 46 0
refused "no memory for a context" cuDevicePrimaryCtxRetain 2 0
# A call that the GPU was to serve and the CPU did says nothing about predictions: those for t_exact's 150 stay as they were.
GPUGEMM_TRACE=$work/trace refused "no memory for operands" cuMemHostRegister_v2 2 0
right "memory of ours cannot be registered" 0 FAIL_CUDA_PLAN="cuMemHostRegister_v2 801"
[ "$gpu" -gt 0 ] || fail "the driver page-locks memory only of its own: nothing on the GPU"
right "the driver does not say where kernels find it" 0 FAIL_CUDA_PLAN="cuPointerGetAttributes 801"
[ "$gpu" -gt 0 ] || fail "the driver does not say where kernels find registered memory: nothing on the GPU"
predicted=$(grep -o '[sd]gemm.* k=150 .* predicted_cpu_us=[0-9.]*' "$work/trace" | sed 's/.*\([sd]gemm\).*=/\1 /' | sort -u)
[ "$(wc -l <<< "$predicted")" = 2 ] || fail "no memory for operands: predicted for the CPU, us: $predicted"
refused "a driver older than the kernels" cuModuleLoadData 222 1
refused "no code for this GPU" cuModuleLoadData 209 1
says "no permission" 'none: .' FAIL_CUDA_PLAN="cuInit 304"
says "in exclusive use" 'none: no CUDA device could be opened: .' FAIL_CUDA_PLAN="cuDevicePrimaryCtxRetain 46"
timeout 60 env FAIL_CUDA_PLAN="cuEventRecord 700" "$command" tune > "$work/out" 2>&1 # the GPU is lost at the first call that it serves
status=$?
[ $status = 69 ] && grep -q '^Nothing to tune: cuEventRecord' "$work/out" || fail "tune on a GPU that fails: status $status: $(tail -n 3 "$work/out")"

for list in 0 0,77 77,0 0,0; do
    right "GPUGEMM_DEVICES=$list" 0 GPUGEMM_DEVICES=$list
    [ "$gpu" -gt 0 ] || fail "GPUGEMM_DEVICES=$list: nothing on the GPU"
done
right "GPUGEMM_DEVICES=77" 0 GPUGEMM_DEVICES=77
[ "$gpu" = 0 ] || fail "a device that is not there"
for list in x MIG-GPU-0/1/0 0x -1 , "0 1" 99999999999999999999; do right "GPUGEMM_DEVICES=$list" 1 GPUGEMM_DEVICES="$list"; done

if [ "$4" = real ]; then # the driver itself reads CUDA_VISIBLE_DEVICES
    for list in "" -1 7 0 0,0 7,0 nonsense GPU-00000000-0000-0000-0000-000000000000 MIG-GPU-00000000-0000-0000-0000-000000000000/1/0; do
        right "CUDA_VISIBLE_DEVICES=$list" 0 CUDA_VISIBLE_DEVICES="$list"
    done
    gpus=$("$command" info --json | sed -n 's/.*"gpus": *\([0-9]*\).*/\1/p')
    for list in 1 1,0; do
        [ "${gpus:-0}" -gt 1 ] || { echo "no second GPU: CUDA_VISIBLE_DEVICES=$list is not tried"; continue; }
        right "CUDA_VISIBLE_DEVICES=$list" 0 CUDA_VISIBLE_DEVICES=$list
        [ "$gpu" -gt 0 ] || fail "CUDA_VISIBLE_DEVICES=$list: nothing on the GPU"
        says "CUDA_VISIBLE_DEVICES=$list" "(device 0)" CUDA_VISIBLE_DEVICES=$list
        says "GPUGEMM_DEVICES=$list" "(device 1)" GPUGEMM_DEVICES=$list
    done
else # the first GPU is in exclusive use, the next is available
    # The size from which square products go to the GPU is one from which all do, also where a class of sizes between others was faster on the CPU
    export XDG_CACHE_HOME=$work/cache GPUGEMM_MODE=auto
    "$command" info > "$work/info" && sed -i 's/^end/took 0 1 0 17 0.25\ntook 1 1 0 17 4\nend/' "$work"/cache/gpugemm/rates-*
    "$command" explain 300 > "$work/out"
    from=$(sed -n 's/^Square products .* from n = \([0-9]*\) on\./\1/p' "$work/out")
    grep -q 'in host memory *CPU: faster' "$work/out" && [ "${from:-0}" -gt 300 ] || fail "300 stays on the CPU, and from $from on none does: $(cat "$work/out")"
    "$command" info | grep -q "dgemm n = $from:" || fail "info and explain do not agree: $from and $("$command" info | grep ^Threshold)"
    export XDG_CACHE_HOME=/dev/null GPUGEMM_MODE=gpu FAKE_CUDA_DEVICES=3
    right "the second of three" 0 FAIL_CUDA_PLAN="cuDevicePrimaryCtxRetain 46 once"
    [ "$gpu" -gt 0 ] || fail "the second of three: nothing on the GPU"
    says "the second of three" "(device 1)" FAIL_CUDA_PLAN="cuDevicePrimaryCtxRetain 46 once"
    says "the third of three" "(device 2)" GPUGEMM_DEVICES=2,0
fi
finish

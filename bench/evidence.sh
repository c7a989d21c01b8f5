#!/usr/bin/env bash
# evidence.sh OUT [PART...] — on a machine with a GPU: the figures that the README quotes, as text and CSV in the folder OUT. Wants a build in build/.
# Each part takes less than 150 seconds (soak 170) and leaves OUT/PART.txt and its CSVs, so that they can be made one at a time; without PART all of them. The rates
# of sgemm are those of GPUGEMM_PRECISION=strict but in tensor, calls and main.
#   calls    random calls under every name, on the GPU, against OpenBLAS; what a declined call costs
#   device   operands in GPU memory beside cuBLAS: the square and the odd list, all layouts; time of a call on the host
#   block    dgemm and cuBLAS's each for itself, where the power limit rules the clock
#   tensor   sgemm in its default precision beside strict and cuBLAS, on ordinary, wide and worst data
#   accuracy the errors of sgemm in each precision, over all families of operands
#   tiers    each tensor tier forced: the sanitizers, 1000 repeats, graphs, special values, shapes, random calls
#   soak     mixed traffic of 16 threads while driver calls fail and GPUs are lost
#   ladder   the kernels of bench/ladder, ours, cuBLAS and the roofline
#   host     operands in host memory beside OpenBLAS, NVBLAS, cublasXt and the floor
#   small    short calls, whole processes, many threads
#   dispatch 40 sizes: is the default ever the slower choice
#   core     out of core: little GPU memory
#   mixed    twelve threads, mixed sizes, every result checked, for two minutes
#   main     examples/numpy_matmul.py
# The pictures are made from the CSVs, where matplotlib is: bench/pictures.py OUT. GPULIBS (see tests/lib.sh) brings OpenBLAS and the netlib testers where
# Debian's packages are not. cuBLAS, cublasXt and NVBLAS are taken from wherever the loader or Python finds them.
set -u
cd "$(dirname "$0")/.."
out=$(mkdir -p "${1:?usage: evidence.sh OUT [PART...]}" && cd "$1" && pwd)
shift
[ $# -gt 0 ] || set -- calls device block tensor accuracy tiers soak ladder host small dispatch core mixed main
build=$PWD/build lib=$PWD/build/libgpugemm.so
blas=${GPULIBS:+$GPULIBS/openblas/}libopenblas.so.0
commit=${COMMIT:-$(git rev-parse --short HEAD 2> /dev/null)}
cuda=$(python3 -c 'import nvidia, os; print(os.path.join(list(nvidia.__path__)[0], "cu13", "lib"))' 2> /dev/null)
export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-}:$cuda:/usr/local/cuda/lib64 NVIDIA_TF32_OVERRIDE=0 GPUGEMM_BLAS=$blas GPUGEMM_PRECISION=strict

bench() { timeout 140 "$build/tests/bench" --lib "$lib" --commit "$commit" "$@"; }
host() { timeout 140 "$build/tests/host" --lib "$lib" --blas "$blas" --commit "$commit" --part "$1" --csv "$out/host-$1.csv" "${@:2}"; }
load() { timeout 140 "$build/tests/load" --lib "$lib" --blas "$blas" --commit "$commit" --part "$1" --csv "$out/load-$1.csv" "${@:2}"; }
accuracy() { timeout 140 env -u NVIDIA_TF32_OVERRIDE "$build/tests/accuracy" --lib "$lib" --commit "$commit" "$@" | tail -1; } # which has cuBLAS in TF32, too
fuzz() { env -u GPUGEMM_PRECISION GPUGEMM_MODE=gpu "$build/tests/fuzz" --lib "$lib" --oracle "$blas" --calls 100000 --expect-gpu "$@" | tail -1; }

# A tensor tier; racecheck looks at its kernels alone, and at calls in which no other kernel with clusters runs (tests/t_sanitizer.sh)
tier() {
    export GPUGEMM_MODE=gpu GPUGEMM_KERNEL=$1 GPUGEMM_PRECISION=fp32
    for tool in memcheck synccheck initcheck; do
        timeout 60 compute-sanitizer --tool $tool "$build/tests/fuzz" --lib "$lib" --oracle "$blas" --jobs 1 --calls 25 --type s --device --expect-gpu |
            tail -1
    done
    timeout 60 compute-sanitizer --tool racecheck --kernel-name kns=tensor "$build/tests/bench" --lib "$lib" --cublas none --precision fp32 \
        --types s --layouts NN --seconds 0.001 --sizes 1537x1281x132 | tail -1
    "$build/tests/t_repeat" --lib "$lib" --expect-gpu | tail -1
    tests/t_capture.sh "$lib" "$build/tests" real | tail -1
    "$build/tests/t_values" --lib "$lib" --type s --expect-gpu | tail -1
    "$build/tests/t_shapes" --lib "$lib" --oracle "$blas" --type s --cases 300 --expect-gpu | tail -1
    "$build/tests/fuzz" --lib "$lib" --oracle "$blas" --type s --device --calls 1500 --threads 4 --expect-gpu | tail -1
}

part() {
    case $1 in
    calls)
        fuzz
        fuzz --device
        "$build/tests/declined" --lib "$lib" --blas "$blas"
        ;;
    device)
        bench --list square,odd --csv "$out/device.csv"
        bench --calls --types sd --layouts NN,TT --sizes 128,512,1000,1024,4096,4097x4099x4093,64x64x65536,1x4096x4096 --csv "$out/calls.csv"
        ;;
    block) bench --types d --sizes 4096,6000,8192,16384 --block 0.4 --csv "$out/block.csv" ;;
    accuracy)
        accuracy --csv "$out/accuracy.csv"
        accuracy --copies 4x5 --sizes 256,1000,4096,16384 --csv "$out/accuracy-small.csv" # C so small that other kernels serve it
        ;;
    tiers)
        for row in tensor_fp16 tensor_fp16_pair tensor_bf16; do
            echo "$row"
            (tier $row) 2>&1
        done
        ;;
    soak) env -u GPUGEMM_PRECISION tests/t_soak.sh "$lib" "$build/tests" real --seconds 170 --life 26 --threads 16 | tail -3 ;;
    tensor)
        bench --precision fp32 --types s --list square,odd --csv "$out/tensor.csv"
        for data in normal wide worst; do
            bench --precision fp32 --data $data --types s --sizes 1024,2048,4096,8192 --csv "$out/tensor-$data.csv"
        done
        ;;
    ladder) bench --list ladder --types s --layouts NN --ladder "$build/ladder" --csv "$out/ladder.csv" ;;
    host) host large ;;
    small)
        host small
        load start
        load threads
        ;;
    dispatch) host dispatch --seconds 0.1 ;;
    core) load core ;;
    mixed) load mixed --seconds 120 ;;
    main) env -u GPUGEMM_PRECISION "$build/gpugemm" run python3 examples/numpy_matmul.py 64 256 1024 2048 4096 8192 ;;
    *) echo "evidence.sh: no part $1" ;;
    esac
}

for name; do
    {
        echo "# $name, $(date -u +%FT%TZ), commit $commit"
        nvidia-smi --query-gpu=name,driver_version,clocks.max.sm,power.limit --format=csv,noheader
        grep -m1 'model name' /proc/cpuinfo
        start=$SECONDS
        part "$name"
        echo "# $((SECONDS - start)) s"
    } 2>&1 | tee "$out/$name.txt"
done

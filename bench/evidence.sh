#!/usr/bin/env bash
# evidence.sh OUT [PART... [+ PART...]...] — on a machine with a GPU: makes the figures that the README quotes, as text and CSV in the folder OUT.
# Needs a build in build/. Each part takes less than 200 seconds (tests 300) and writes OUT/PART.txt and its CSVs, so parts can be made one at a time;
# without PART all but rows are made. Parts after a + run at the same time, on the next GPU and with their own share of the cores. Products run in strict
# precision in device, random, rows, block and ladder, else in the default one. To verify a commit on two GPUs, in two calls of ten minutes and of five:
#   evidence.sh OUT tests sanitizer device random tensor + soak calls tiers sweep mixed block accuracy
#   evidence.sh OUT declined compare host fresh small dispatch core programs main
#
#   tests    ctest, eight tests at a time: those whose programs are installed
#   sanitizer  compute-sanitizer over the kernels
#   calls    random calls under every name, on the GPU, against OpenBLAS
#   declined what a declined call costs
#   device   operands in GPU memory beside cuBLAS: the square and the odd list, all layouts; host time of a call
#   random   70 shapes drawn once; thin ones, many rows, few elements, vectors, a long k; and updates; beside cuBLAS
#   rows     the same by every row, forced: what bench/fit.c fits kernels.def to
#   block    dgemm and cuBLAS's, each running alone, where the power limit determines the clock
#   tensor   the default precision beside cuBLAS; on ordinary, wide and worst data beside strict, too
#   accuracy the errors of sgemm in each precision, over all families of operands
#   tiers    each tensor tier forced: the sanitizers, 1000 repeats, graphs, special values, shapes, random calls
#   soak     mixed traffic of 16 threads while driver calls fail and GPUs are lost
#   sweep    calls into the driver and the C library fail in turn
#   ladder   the kernels of bench/ladder, ours, cuBLAS and the roofline
#   host     operands in host memory beside OpenBLAS, NVBLAS, cublasXt and the floor; large ones beside strict
#   compare  the same of all sizes, in the default precision: the README's table and picture
#   fresh    C that nobody has used before
#   small    short calls, whole processes, many threads
#   dispatch 40 sizes: is the default ever the slower choice; the middle one of three processes each
#   core     out of core: little GPU memory
#   mixed    twelve threads, mixed sizes, every result checked, for two minutes
#   programs programs that do not know the library, without it and with it, three runs each: those that are installed
#   main     examples/numpy_matmul.py
# Where matplotlib is installed, bench/pictures.py OUT makes the pictures from the CSVs. GPULIBS (see tests/lib.sh) provides OpenBLAS and the netlib
# testers on machines without Debian's packages. cuBLAS, cublasXt and NVBLAS are taken from wherever the loader or Python finds them.
set -u
cd "$(dirname "$0")/.." || exit
case ${1:-} in -*) echo "usage: evidence.sh OUT [PART...]: OUT is a folder, not $1" >&2; exit 64 ;; esac
: "${1:?usage: evidence.sh OUT [PART...]}" # not in the substitution, whose end would not end this shell
out=$(mkdir -p "$1" && cd "$1" && pwd) || exit
shift
[ $# -gt 0 ] || set -- tests sanitizer calls declined device random block tensor accuracy tiers soak sweep ladder compare host fresh small dispatch core mixed programs main
build=$PWD/build lib=$PWD/build/libgpugemm.so
blas=${GPULIBS:+$GPULIBS/openblas/}libopenblas.so.0
commit=${COMMIT:-$(git rev-parse --short HEAD 2> /dev/null)}
cuda=$(python3 -c 'import nvidia, os; print(os.path.join(list(nvidia.__path__)[0], "cu13", "lib"))' 2> /dev/null)
export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-}:$cuda:/usr/local/cuda/lib64 NVIDIA_TF32_OVERRIDE=0 GPUGEMM_BLAS=$blas

# OpenBLAS 0.3.21 does not know the newest processors and uses its kernels of 2004 on them.
like() { if grep -q -m1 avx512f /proc/cpuinfo; then OPENBLAS_CORETYPE=${OPENBLAS_CORETYPE-SkylakeX} "$@"; else "$@"; fi; }

bench() { GPUGEMM_PRECISION=strict timeout 140 "$build/tests/bench" --lib "$lib" --commit "$commit" "$@"; }
host() { like timeout 200 "$build/tests/host" --lib "$lib" --blas "$blas" --commit "$commit" --part "$1" --csv "$out/host-$1.csv" "${@:2}"; }
load() { like timeout 140 "$build/tests/load" --lib "$lib" --blas "$blas" --commit "$commit" --part "$1" --csv "$out/load-$1.csv" "${@:2}"; }
accuracy() { timeout 185 env -u NVIDIA_TF32_OVERRIDE "$build/tests/accuracy" --lib "$lib" --commit "$commit" "$@" | tail -1; } # it runs cuBLAS in TF32, too
fuzz() { GPUGEMM_MODE=gpu "$build/tests/fuzz" --lib "$lib" --oracle "$blas" --calls 500000 --threads 8 --expect-gpu "$@" | tail -1; }

# A tensor tier of sgemm. racecheck checks its kernels alone, and only calls in which no other kernel with clusters runs (tests/t_sanitizer.sh, which
# checks dgemm's).
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

# Cases of a program in tests/clients/, three runs, which share an empty cache to begin with. client NAME N CASES
client() {
    for run in 1 2 3; do
        echo "$1, n = $2, run $run"
        like env TIMED=1 N=$2 CASES=$3 PYTHON="$(command -v python3)" OPENBLAS_NUM_THREADS="$(nproc)" GPUGEMM_TEST_CACHE="$out/cache" \
            "${@:4}" timeout 100 tests/t_client.sh "$lib" $1
    done
}

part() {
    case $1 in
    tests) PYTHON=$(command -v python3) CTEST_PARALLEL_LEVEL=8 ctest --preset default ;;
    sanitizer) ctest --preset sanitizer ;;
    calls)
        fuzz
        fuzz --device
        ;;
    declined) for size in 8 66 96; do like "$build/tests/declined" --lib "$lib" --blas "$blas" --size $size; done ;;
    device)
        bench --list square,odd --csv "$out/device.csv"
        bench --calls --types sd --layouts NN,TT --sizes 128,512,1000,1024,4096,4097x4099x4093,64x64x65536,1x4096x4096 --csv "$out/calls.csv"
        ;;
    random)
        bench --list random --seconds 0.05 --csv "$out/random.csv"
        bench --list thin,deep,many,gram,vector --seconds 0.05 --csv "$out/thin.csv"
        bench --list update --beta 1 --seconds 0.05 --csv "$out/update.csv"
        ;;
    rows) # one copy of the library each; the loader must find room for the thread-local storage of them all
        for type in s d; do
            local rows
            mapfile -t rows < <(sed -nE "s/^GG_KERNEL\(((${type}gemm|multistage)_[a-z0-9_]+), .*, GG_${type^^}, .*/\1/p" cuda/kernels.def)
            GLIBC_TUNABLES=glibc.rtld.optional_static_tls=131072 bench --types $type --layouts NN,TT --list random --seconds 0.1 \
                "${rows[@]/#/--lib=$lib:}" --csv "$out/rows-$type.csv"
        done
        ;;
    block) bench --types d --list square --block 0.12 --csv "$out/block.csv" ;;
    accuracy)
        accuracy --csv "$out/accuracy.csv"
        accuracy --copies 4x5 --sizes 256,1000,4096,16384 --csv "$out/accuracy-small.csv" # C so small that other kernels serve it
        ;;
    tiers)
        for row in tensor_fp16 tensor_fp16_pair tensor_bf16 tensor_mma_fp16 tensor_mma_bf16; do
            echo "$row"
            (tier $row) 2>&1
        done
        ;;
    sweep) FAKE_CUDA_ARCH=90 tests/t_sweep.sh "$lib" "$build/tests" "$build/tests/libfake_cuda.so" --seconds 100 --jobs 7 | tail -3 ;;
    soak) tests/t_soak.sh "$lib" "$build/tests" real --seconds 170 --life 26 --threads 16 | tail -3 ;;
    tensor)
        for type in s d; do
            bench --precision fp32 --no-strict --types $type --list square,odd --csv "$out/tensor-$type.csv"
            for data in normal wide worst; do
                bench --precision fp32 --data $data --types $type --sizes 1024,2048,4096,8192 --csv "$out/tensor-$type-$data.csv"
            done
        done
        ;;
    ladder) bench --list ladder --types s --layouts NN --ladder "$build/ladder" --csv "$out/ladder.csv" ;;
    host)
        host large
        host precision
        ;;
    compare) host compare --sizes 256,512,1024,2048,4096,8192 ;;
    fresh) host fresh ;;
    small)
        host small
        load start
        load threads
        ;;
    dispatch) host dispatch --seconds 0.05 --processes 3 ;;
    core) load core ;;
    mixed) load mixed --seconds 120 ;;
    programs)
        client numpy 4096 matmul_float64,matmul_float32,einsum,multi_dot,matrix_power,tensordot
        client torch 4096 matmul_float64,matmul_float32,layer_single
        client scipy 2000 blas_dgemm,blas_sgemm,expm
        client scikit 5000 pca_randomized,rbf_kernel,kmeans,mlp FEATURES=2000 COMPONENTS=500
        client lapack 8192 dgetrf,dgetrf2_recursive,dpotrf
        ;;
    main) "$build/gpugemm" run python3 examples/numpy_matmul.py 64 256 1024 2048 4096 8192 ;;
    *) echo "evidence.sh: no part $1" ;;
    esac
}

run() { # PART… one after the other
    for name; do
        {
            echo "# $name, $(date -u +%FT%TZ), commit $commit"
            nvidia-smi --query-gpu=name,driver_version,clocks.max.sm,power.limit --format=csv,noheader
            grep -m1 'model name' /proc/cpuinfo
            start=$SECONDS
            part "$name"
            echo "# $((SECONDS - start)) s, status $?"
        } 2>&1 | tee "$out/$name.txt"
    done
}

# Lanes: lane i has the i-th GPU and the i-th share of the cores to itself.
lanes=1
for name; do [ "$name" != + ] || lanes=$((lanes + 1)); done
cores=$(($(nproc) / lanes))
[ $lanes = 1 ] || echo "# $lanes lanes of $cores cores"
for ((lane = 0; lane < lanes; lane++)); do
    parts=()
    while [ $# -gt 0 ] && [ "$1" != + ]; do parts+=("$1") && shift; done
    [ $# = 0 ] || shift
    if [ $lanes = 1 ]; then
        run "${parts[@]}"
    else
        (taskset -cp $((lane * cores))-$((lane * cores + cores - 1)) $BASHPID > /dev/null; CUDA_VISIBLE_DEVICES=$lane run "${parts[@]}") &
    fi
done
wait

#!/usr/bin/env bash
# evidence.sh OUT — on a machine with a GPU: the figures that the README quotes, from one run, as text and CSV in the folder OUT. Wants a build in
# build/; takes about three minutes. GPULIBS (see tests/lib.sh) brings OpenBLAS and the netlib testers where Debian's packages are not.
# cuBLAS, cublasXt and NVBLAS are taken from wherever the loader or Python finds them.
set -u
cd "$(dirname "$0")/.."
out=$(mkdir -p "${1:?usage: evidence.sh OUT}" && cd "$1" && pwd)
lib=$PWD/build/libgpugemm.so
blas=${GPULIBS:+$GPULIBS/openblas/}libopenblas.so.0
commit=${COMMIT:-$(git rev-parse --short HEAD 2> /dev/null)}
cuda=$(python3 -c 'import nvidia, os; print(os.path.join(list(nvidia.__path__)[0], "cu13", "lib"))' 2> /dev/null)
export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-}:$cuda:/usr/local/cuda/lib64 NVIDIA_TF32_OVERRIDE=0
bench() { timeout 200 build/tests/bench "$@" --lib "$lib" --commit "$commit"; }
{
    echo "# $(date -u +%F) commit $commit"
    nvidia-smi --query-gpu=name,driver_version,clocks.max.sm,power.limit --format=csv,noheader
    grep -m1 'model name' /proc/cpuinfo
    echo "== 100 000 random calls, GPUGEMM_MODE=gpu, against OpenBLAS"
    GPUGEMM_MODE=gpu build/tests/fuzz --lib "$lib" --oracle "$blas" --calls 100000 --expect-gpu | tail -1
    echo "== the same number, operands in GPU memory or mixed"
    GPUGEMM_MODE=gpu build/tests/fuzz --lib "$lib" --oracle "$blas" --calls 100000 --expect-gpu --device | tail -1
    echo "== a declined call"
    build/tests/declined --lib "$lib" --blas "$blas"
    echo "== device pointers"
    bench --device --blas "$blas" --types sd --layouts NN,NT,TN,TT --sizes 256,512,1024,2048,4096,8192 --csv "$out/device.csv"
    echo "== host pointers, pageable; at 8192 without OpenBLAS, which would take a minute"
    bench --host --blas "$blas" --types sd --layouts NN --sizes 256,512,1024,2048,4096 --csv "$out/host.csv"
    bench --host --blas none --types sd --layouts NN --sizes 8192 --csv "$out/host-8192.csv"
    echo "== the main job"
    build/gpugemm run python3 examples/numpy_matmul.py 64 256 1024 2048 4096 8192
} 2>&1 | tee "$out/evidence.txt"

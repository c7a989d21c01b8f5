#!/usr/bin/env bash
# t_ptx.sh FUZZ T_VALUES T_SHAPES — the code for older GPUs, run on this one: the library is built for each of ARCHITECTURES alone, and the driver
# compiles its PTX for the GPU at hand; then t_kernels.sh over it, with fewer random calls per kernel.
. "$(dirname "$0")/lib.sh" /dev/null
fuzz=$(realpath "${1:?usage: t_ptx.sh FUZZ T_VALUES T_SHAPES}") values=$(realpath "$2") shapes=$(realpath "$3")
root=$(realpath "$(dirname "$0")/..")
command -v cmake > /dev/null || skip "no cmake"
one() { # one ARCHITECTURE; on failure leaves the text in failed-ARCHITECTURE
    local arch=$1 build=$work/$1
    if ! { cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DGPUGEMM_CUDA_ARCHITECTURES="$arch" -DGPUGEMM_TESTS=OFF &&
        cmake --build "$build" -j "$(nproc)" --target gpugemm; } > "$work/out-$arch" 2>&1; then
        grep -q 'none of them is known' "$work/out-$arch" && echo "$arch: not known to this nvcc" || fail "$arch: no build: $(tail -5 "$work/out-$arch")" > "$work/failed-$arch"
        return
    fi
    CALLS=${CALLS:-600} JOBS=2 ARCHITECTURE=$arch "$(dirname "$0")/t_kernels.sh" "$build/libgpugemm.so" "$fuzz" "$values" "$shapes" > "$work/out-$arch" 2>&1 ||
        fail "$arch: t_kernels.sh: status $?" > "$work/failed-$arch"
    sed "s/^/compute capability $arch: /" "$work/out-$arch"
}
for arch in ${ARCHITECTURES:-80 75}; do one "$arch" & done
wait
cat "$work"/failed-* 2> /dev/null
failures=$(ls "$work"/failed-* 2> /dev/null | wc -l)
finish

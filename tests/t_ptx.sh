#!/usr/bin/env bash
# t_ptx.sh FUZZ T_VALUES T_SHAPES — the code for older GPUs, run on this one: the library is built for each of ARCHITECTURES alone, and the driver
# compiles its PTX for the GPU at hand; then t_kernels.sh over it, with fewer random calls per kernel.
. "$(dirname "$0")/lib.sh" /dev/null
fuzz=$(realpath "${1:?usage: t_ptx.sh FUZZ T_VALUES T_SHAPES}") values=$(realpath "$2") shapes=$(realpath "$3")
command -v cmake > /dev/null || skip "no cmake"
one() { # one ARCHITECTURE; on failure leaves the text in failed-ARCHITECTURE
    local arch=$1
    build_for "$arch" > "$work/out-$arch" || { [ $? = 77 ] && cat "$work/out-$arch" || mv "$work/out-$arch" "$work/failed-$arch"; return; }
    CALLS=${CALLS:-600} JOBS=2 ARCHITECTURE=$arch "$(dirname "$0")/t_kernels.sh" "$work/$arch/libgpugemm.so" "$fuzz" "$values" "$shapes" > "$work/out-$arch" 2>&1 ||
        fail "$arch: t_kernels.sh: status $?" > "$work/failed-$arch"
    sed "s/^/compute capability $arch: /" "$work/out-$arch"
}
for arch in ${ARCHITECTURES:-80 75}; do one "$arch" & done
wait
cat "$work"/failed-* 2> /dev/null
failures=$(ls "$work"/failed-* 2> /dev/null | wc -l)
finish

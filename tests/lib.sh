# lib.sh — sourced by the shell tests: where things are, and how a test ends. If GPULIBS is set (a folder for machines without packages: openblas/
# refblas/ testers/ lib/), the BLASes and testers come from there, otherwise from Debian's packages.
LIB=$(realpath "${LIB:-${1:-build/libgpugemm.so}}")
PRELOAD=${SANITIZER:+$SANITIZER:}$LIB # SANITIZER: the runtime of a LIB built with a sanitizer; it must be loaded first
debian=/usr/lib/$(uname -m)-linux-gnu
if [ -n "${GPULIBS:-}" ]; then
    OPENBLAS_DIR=$GPULIBS/openblas REFBLAS_DIR=$GPULIBS/refblas TESTERS=$GPULIBS/testers
    RUNTIME=$GPULIBS/lib
else
    OPENBLAS_DIR=$debian/openblas-pthread REFBLAS_DIR=$debian/blas TESTERS=$debian/blas
    RUNTIME=$debian
fi
export OPENBLAS_NUM_THREADS=${OPENBLAS_NUM_THREADS:-1}
export XDG_CACHE_HOME=${GPUGEMM_TEST_CACHE:-/dev/null} # no test reads or writes the rates of this machine; bench/evidence.sh has a folder for them
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

skip() { echo "skipped: $*"; exit 77; }
fail() { echo "FAILED: $*"; failures=$((failures + 1)); }
finish() { echo "$failures failures"; [ "$failures" = 0 ]; exit; }
# stat_of FILE KEY: a total in a statistics file, in which the totals come first
stat_of() { grep -o "\"$2\": *[0-9]*" "$1" 2>/dev/null | head -1 | grep -o '[0-9]*$' || echo 0; }

# build_for ARCHITECTURE: the library for it alone, in $work/ARCHITECTURE; on a newer GPU the driver compiles its PTX. 77: this nvcc does not know it
build_for() {
    local root build=$work/$1
    root=$(realpath "$(dirname "$0")/..")
    if ! { cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DGPUGEMM_CUDA_ARCHITECTURES="$1" -DGPUGEMM_TESTS=OFF &&
        cmake --build "$build" -j "$(nproc)" --target gpugemm; } > "$work/build-$1" 2>&1; then
        grep -q 'none of them is known' "$work/build-$1" && echo "$1: not known to this nvcc" && return 77
        fail "$1: no build: $(tail -5 "$work/build-$1")"
        return 1
    fi
}

[ -e "$LIB" ] || skip "no $LIB"

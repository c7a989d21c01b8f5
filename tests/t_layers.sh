#!/usr/bin/env bash
# t_layers.sh — the edges of the source tree: which file may include what, each header compiles alone, each kernel file has a row, and the README's
# table of the environment is config.def's. Needs no library.
root=$(realpath "$(dirname "$0")/..")
cd "$root" || exit 1
cc=${CC:-gcc} cxx=${CXX:-g++}
command -v "$cc" > /dev/null || { echo "skipped: no C compiler"; exit 77; }
failures=0
fail() { echo "FAILED: $*"; failures=$((failures + 1)); }

only() { # only HEADER FILE… : nobody else includes it
    local header=$1 found
    shift
    for found in $(grep -lE "^[[:space:]]*#[[:space:]]*include[[:space:]]*[<\"]${header//./\\.}[>\"]" src/* cuda/* include/*.h include/gpugemm/*.h); do
        case " $* " in *" $found "*) ;; *) fail "$found includes $header" ;; esac
    done
}
only cuda.h src/gpu.c
only cuda_runtime.h
only cuda_runtime_api.h
only dlfcn.h src/real.c src/forward.c src/gpu.c
only link.h src/forward.c src/gpu.c
only cblas.h
only math.h
only kernel.h src/gpu.c src/gpu.h src/launch.c cuda/*.cu cuda/*.cuh
only check.h src/check.c src/entry.c src/api.c
only symbols.def src/entry.c
only forward.def src/forward.c src/forward_x86_64.S src/forward_aarch64.S
grep -nE '\<(exit|longjmp|setjmp)[[:space:]]*\(' src/*.c | grep -vE '^[^:]*:[0-9]*:[[:space:]]*(/?\*|//)|/\*.*(exit|longjmp)' && fail "exit or longjmp in the library"
grep -nE '^[[:space:]]*#[[:space:]]*if[[:space:]]+0\>' src/* cuda/* && fail "code that is switched off"
grep -nE '__attribute__\(\(constructor|\.init_array' src/* && fail "work at load"

# Every header alone. The device code's headers (*.cuh) are nvcc's.
for header in src/*.h cuda/*.h include/*.h include/gpugemm/cblas.h; do
    echo "#include \"$header\"" | "$cc" -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror -fsyntax-only -I. -Isrc -Iinclude -Icuda -x c - || fail "$header alone, as C"
done
if command -v "$cxx" > /dev/null; then
    for header in include/*.h include/gpugemm/cblas.h; do
        echo "#include \"$header\"" | "$cxx" -std=c++11 -Wall -Wextra -pedantic -Werror -fsyntax-only -I. -Iinclude -x c++ - || fail "$header alone, as C++"
    done
fi
for header in include/*.h include/gpugemm/cblas.h; do
    echo "#include \"$header\"" | "$cc" -std=c99 -Wall -Wextra -pedantic -Werror -fsyntax-only -I. -Iinclude -x c - || fail "$header alone, as C99"
done

# Kernel files and rows: one cannot be without the other, and a kernel's __global__ has the row's name.
printf '#define GG_KERNEL(name, file, ...) name file\n#include "cuda/kernels.def"\n' | "$cc" -E -P -x c -I. - | grep . | sort -u > /tmp/rows.$$
trap 'rm -f /tmp/rows.$$' EXIT
for kernel in cuda/*.cu; do
    stem=$(basename "$kernel" .cu)
    grep -q " $stem\$" /tmp/rows.$$ || fail "$kernel has no row in kernels.def"
done
while read -r name file; do
    [ -f "cuda/$file.cu" ] || fail "kernels.def: $name: no cuda/$file.cu"
done < /tmp/rows.$$

# README: | `GPUGEMM_X` | … for each row of config.def, and no other.
if grep -q '^| *`GPUGEMM_' README.md; then
    printf '#define GG_OPTION(field, name, ...) name\n#include "src/config.def"\n' | "$cc" -E -P -x c -I. - | grep -o 'GPUGEMM_[A-Z_]*' | sort -u > /tmp/rows.$$
    grep -oE '^\| *`GPUGEMM_[A-Z_]+' README.md | grep -o 'GPUGEMM_[A-Z_]*' | sort -u | diff /tmp/rows.$$ - || fail "README's environment table (>) is not config.def (<)"
fi
echo "$failures failures"
[ "$failures" = 0 ]

#!/usr/bin/env bash
# t_layers.sh — the rules of the source tree: which file may include what, that each header compiles alone and each kernel file has a row, and that
# the README's table of environment variables is the same as config.def's. Needs no library.
root=$(realpath "$(dirname "$0")/..")
cd "$root" || exit 1
cc=${CC:-gcc} cxx=${CXX:-g++}
command -v "$cc" > /dev/null || { echo "skipped: no C compiler"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
fail() { echo "FAILED: $*"; failures=$((failures + 1)); }

# ---- who includes whom ---------------------------------------------------------------------------------------------------------

sources="$(echo src/* cuda/* include/*.h include/gpugemm/*.h)"
only() { # only HEADER FILE… : no other file includes it
    local header=$1 found
    shift
    for found in $(grep -lE "^[[:space:]]*#[[:space:]]*include[[:space:]]*[<\"]${header//./\\.}[>\"]" $sources); do
        case " $* " in *" $found "*) ;; *) fail "$found includes $header" ;; esac
    done
}
only cuda.h src/driver.h
only driver.h src/gpu.c src/pointers.c src/work.c src/pinned.c src/enqueue.c
only cuda_runtime.h
only cuda_runtime_api.h
only dlfcn.h src/real.c src/forward.c src/gpu.c src/cpus.c
only link.h src/real.c src/forward.c src/gpu.c
only math.h
only cblas.h
only kernel.h src/driver.h src/work.c src/gpu.h src/launch.c cuda/*.cu cuda/*.cuh
only check.h src/entry.c src/api.c
only symbols.def src/entry.c src/entry_x86_64.S src/entry_aarch64.S
only forward.def src/forward.c src/forward_x86_64.S src/forward_aarch64.S

# ---- what the library never does --------------------------------------------------------------------------------------------------

stripped() { "$cc" -fpreprocessed -dD -E -P "$1" 2> /dev/null; } # without comments, macros as they stand
for file in src/*.c; do
    stripped "$file" | grep -nE '\<(_?exit|quick_exit|longjmp|setjmp)[[:space:]]*\(' && fail "$file ends the process or jumps"
    stripped "$file" | grep -nE '__attribute__\(\((constructor|destructor)' && fail "$file works at load or exit"
done
grep -nE '^[[:space:]]*#[[:space:]]*if[[:space:]]+0\>' $sources && fail "code that is switched off"

# ---- every header compiles alone (those of device code, *.cuh, are for nvcc) ----------------------------------------------------------

public="include/*.h include/gpugemm/cblas.h"
alone() { # alone HEADER COMPILER FLAGS…
    echo "#include \"$1\"" | "${@:2}" -Wall -Wextra -Werror -fsyntax-only -I. -Isrc -Iinclude -Icuda - || fail "$1 alone, with ${*:2}"
}
cuda=$(dirname "$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)")/../include
for header in src/*.h cuda/*.h; do
    [ "$header" != src/driver.h ] || [ -e "$cuda/cuda.h" ] || continue
    alone "$header" "$cc" -std=c11 -D_GNU_SOURCE -isystem "$cuda" -x c
done
for header in $public; do
    alone "$header" "$cc" -std=c99 -pedantic -x c
    ! command -v "$cxx" > /dev/null || alone "$header" "$cxx" -std=c++11 -pedantic -x c++
done

# ---- tables ---------------------------------------------------------------------------------------------------------------------------------

# Every kernel file has rows, and every row has a file.
rows() { printf '%s\n#include "%s"\n' "$1" "$2" | "$cc" -E -P -x c -I. - | grep . | sort -u; }
rows '#define GG_KERNEL(name, file, ...) file' cuda/kernels.def | diff - <(basename -s .cu cuda/*.cu | sort) ||
    fail "kernels.def (<) names other files than cuda/*.cu (>)"

# README: | `GPUGEMM_X` | default | meaning | for each row of config.def, word for word, and no other.
if grep -q '^| *`GPUGEMM_' README.md; then
    rows '#define GG_OPTION(field, name, kind, value, text, meaning) name | text | meaning' src/config.def | tr -d '"' | tr -s ' ' |
        diff - <(grep '^| *`GPUGEMM_' README.md | sed 's/^| *`//; s/`//; s/ *|$//' | tr -s ' ' | sort -u) ||
        fail "README's table of the environment (>) is not config.def (<)"
fi
echo "$failures failures"
[ "$failures" = 0 ]

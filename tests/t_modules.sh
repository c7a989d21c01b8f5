#!/usr/bin/env bash
# t_modules.sh LIB — two modules of one program, one on a BLAS with 32-bit integers and one on a BLAS with 64-bit integers under the same plain names,
# each in its own scope. Preloaded, LIB must not send one module's calls to the other's BLAS, whichever calls first. A BLAS with 64-bit integers is
# known by its dcopy_, whatever its file's name says, or else by that name. A module may be closed, and the next one lie at its address.
set -eu
lib=$(realpath "${1:?usage: t_modules.sh LIB}")
source=$(realpath "$(dirname "$0")/modules.c")
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
build() { "${CC:-cc}" -std=c11 -O1 "$@"; }
for name in blas:32 blas64:64 blis64:64 other:64:-DCOPY blas64_32:32:-DCOPY; do
    IFS=: read -r name bits copy <<< "$name"
    blas=libown_$name.so int=int${bits}_t
    build -shared -fPIC -DBLAS $copy -DINT="$int" "$source" -o "$blas" -Wl,-soname,"$blas"
    build -shared -fPIC -DMODULE $copy -DINT="$int" "$source" -o "module_$name.so" "$blas" -Wl,-rpath,"$PWD"
done
build "$source" -o program -ldl
for order in "blas blas64" "blas64 blas" "blas64 blas blas64" "blis64 blas" "other blas" "blas other" "blas64_32 other blas64_32" "other close blas64_32 close other"; do
    modules=$(for blas in $order; do [ "$blas" = close ] && echo close || echo "$PWD/module_$blas.so"; done)
    ./program $modules # without LIB they are right
    LD_PRELOAD=$lib ./program $modules
done
echo ok

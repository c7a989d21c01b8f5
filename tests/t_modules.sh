#!/usr/bin/env bash
# t_modules.sh LIB — two modules of one program, one on a BLAS with 32-bit integers and one on a BLAS with 64-bit integers under the same plain names,
# each in its own scope. Preloaded, LIB must not send one module's calls to the other's BLAS, whichever calls first.
set -eu
lib=$(realpath "${1:?usage: t_modules.sh LIB}")
source=$(realpath "$(dirname "$0")/modules.c")
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
build() { "${CC:-cc}" -std=c11 -O1 "$@"; }
for bits in 32 64; do
    blas=libown_blas${bits/32/}.so
    build -shared -fPIC -DBLAS -DINT=int${bits}_t "$source" -o "$blas" -Wl,-soname,"$blas"
    build -shared -fPIC -DMODULE -DINT=int${bits}_t "$source" -o module$bits.so "$blas" -Wl,-rpath,"$PWD"
done
build "$source" -o program -ldl
for order in "32 64" "64 32" "64 32 64"; do
    modules=$(for bits in $order; do echo "$PWD/module$bits.so"; done)
    ./program $modules # without LIB they are right
    LD_PRELOAD=$lib ./program $modules
done
echo ok

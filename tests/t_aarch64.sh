#!/usr/bin/env bash
# t_aarch64.sh LIB — the front end and the stubs for 64-bit Arm: cross-built with Debian's compiler, then its tests run under qemu-user. There is no
# Arm BLAS here: products are computed by the library's own loops, random calls are compared with those of mutant.c, which has no bug unless one is
# selected, and the stubs are tested with plain_blas.c and the programs of t_forward.c.
. "$(dirname "$0")/lib.sh"
root=$(realpath "$(dirname "$0")/..")
sysroot=/usr/aarch64-linux-gnu
for program in aarch64-linux-gnu-gcc qemu-aarch64 cmake ninja; do
    command -v $program > /dev/null && continue
    [ -z "${GPUGEMM_NEED_CLIENTS:-}" ] || { fail "no $program"; finish; }
    skip "no $program"
done
unset GPUGEMM_BLAS CC
cmake -S "$root" -B "$work/build" -G Ninja -DCMAKE_TOOLCHAIN_FILE="$root/cmake/aarch64.cmake" -DGPUGEMM_CUDA=OFF -DCMAKE_BUILD_TYPE=Release -DGPUGEMM_WERROR=ON > "$work/log" 2>&1 &&
    cmake --build "$work/build" -j2 --target gpugemm gpugemm_command t_exact t_fork t_short plain_blas fuzz mutant >> "$work/log" 2>&1 || { fail "the cross build:"; tail -20 "$work/log"; finish; }
lib=$work/build/libgpugemm.so
aarch64-linux-gnu-readelf -h "$lib" | grep -q AArch64 || fail "the library is not for aarch64"
needed=$(aarch64-linux-gnu-readelf -dW "$lib" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' | tr '\n' ' ')
case $needed in *cuda* | *blas* | *stdc++*) fail "it needs $needed" ;; esac
names() { nm -D --defined-only "$1" 2> /dev/null | awk '{print $3}' | sort; }
aarch64-linux-gnu-nm -D --defined-only "$lib" | awk '{print $3}' | sort | diff - <(names "$LIB") > "$work/names" || { fail "other names than here:"; head -5 "$work/names"; }

arm() { qemu-aarch64 -L "$sysroot" "$@"; }
try() { # try NAME COMMAND… : shows its last line
    local name=$1
    shift
    if "$@" > "$work/out" 2>&1; then echo "$name: $(tail -1 "$work/out") ($SECONDS s)"; else fail "$name: $(tail -5 "$work/out")"; fi
}
tests=$work/build/tests
try exact arm "$tests/t_exact" --lib "$lib"
try fork arm "$tests/t_fork" --lib "$lib"
try short arm "$tests/t_short" --lib "$lib" --blas "$tests/libplain_blas.so"
try fuzz arm "$tests/fuzz" --lib "$lib" --oracle "$tests/libmutant.so" --calls 1000 --jobs 1
try "gpugemm info" arm "$work/build/gpugemm" info

build() { aarch64-linux-gnu-gcc -O2 -fPIC -fsemantic-interposition "$root/tests/t_forward.c" -o "$work/$1" "${@:2}" -L"$work" -Wl,-rpath,"$work" || fail "$1 does not build"; }
for i in 1 2; do
    build libblas$i.so -DROLE_BLAS=$i -shared
    build user$i.so -DROLE_USER=$i -shared -lblas$i
done
build main -DROLE_MAIN -ldl -pthread
try "stubs without LIB" arm "$work/main" "$work/user1.so" "$work/user2.so"
try stubs arm -E LD_PRELOAD="$lib" "$work/main" "$work/user1.so" "$work/user2.so"
finish

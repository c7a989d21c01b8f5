#!/usr/bin/env bash
# t_fake_gpu.sh LIB FAKE_LIBCUDA BIN [several|races] — the GPU side of LIB on fake_cuda.c, where streams run late and host code cannot touch device
# memory: host operands, GPU operands, plans of many blocks forced by little memory, threads, fork, exit, memory given back; and the file in which
# the machine's rates are kept: written whole, read back, and harmless whatever it contains. All of it without races (fake_races.h). `several`:
# instead, the tests for several GPUs, on three; `races`: instead, large calls of all kinds that compute nothing, searched for races.
. "$(dirname "$0")/lib.sh"
mkdir "$work/driver" && cp "$(realpath "${2:?usage: t_fake_gpu.sh LIB FAKE_LIBCUDA BIN}")" "$work/driver/libcuda.so.1"
bin=$(realpath "$3")
export GPUGEMM_MODE=gpu LD_LIBRARY_PATH=$work/driver${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
calls=${CALLS:-2500}
export FAKE_CUDA_RACES=1

# on_fake WHAT VARIABLE=VALUE… PROGRAM ARGUMENTS… : succeeds within LIMIT seconds, and the library page-locks no more than it may
on_fake() {
    what=$1
    shift
    locked=$(printf '%s\n' "$@" | sed -n 's/^GPUGEMM_PINNED_MEMORY=\(.*\)M$/\1/p')
    locked=${locked:-256}
    timeout "${LIMIT:-120}" env FAKE_CUDA_LOCKED=$(((locked < 4 ? 4 : locked) << 20)) "$@" --lib "$LIB" > "$work/out" 2> "$work/err"
    status=$?
    [ $status = 0 ] || fail "$what: status $status: $(grep -vE '^[a-z_0-9]+ +[0-9]+ calls$| ok$' "$work/out" | head -3) $(head -3 "$work/err")"
    echo "$what: $(tail -1 "$work/out")"
}

if [ "${4:-}" = several ]; then
    on_fake "three GPUs" FAKE_CUDA_ARCH=90 FAKE_CUDA_DEVICES=3 "$bin/t_gpus"
    finish
fi
if [ "${4:-}" = races ]; then
    export FAKE_CUDA_RACES=only
    calls=$((calls / 15))
    for arch in 70 80 90; do
        on_fake "one thread, $arch" FAKE_CUDA_ARCH=$arch "$bin/t_races" --calls "$calls" --seed "${SEED:-$arch}"
        on_fake "blocks, $arch" FAKE_CUDA_ARCH=$arch GPUGEMM_GPU_MEMORY=3M GPUGEMM_PINNED_MEMORY=4M "$bin/t_races" --calls "$calls" --largest 1000 --seed "${SEED:-$arch}"
    done
    export FAKE_CUDA_ARCH=90
    on_fake "four threads" "$bin/t_races" --calls "$((calls / 3))" --threads 4 --seed "${SEED:-4}"
    on_fake "blocks for three threads" GPUGEMM_GPU_MEMORY=9M "$bin/t_races" --host --calls "$((calls / 3))" --threads 3 --seed "${SEED:-3}"
    on_fake "two GPUs" FAKE_CUDA_DEVICES=2 "$bin/t_races" --two --calls "$calls" --seed "${SEED:-2}"
    on_fake "a crowd" "$bin/t_races" --calls "$((calls / 2))" --threads 8 --largest 500 --seed "${SEED:-8}"
    # And that the fake sees them: one wait in ten is not heard
    found=0
    for deaf in 1 2 3 4; do
        FAKE_CUDA_DEAF=10 "$bin/t_races" --lib "$LIB" --seed $deaf > "$work/out" 2>&1
        found=$((found + $(grep -c "fake CUDA: a race" "$work/out")))
    done
    echo "deaf to one wait in ten: $found of 4 found"
    [ "$found" = 4 ] || fail "a race is not found: $(cat "$work/out")"
    finish
fi
for arch in 70 90; do
    on_fake "host operands, $arch" FAKE_CUDA_ARCH=$arch "$bin/fuzz" --calls "$calls" --seed $arch --expect-gpu
    on_fake "GPU operands, $arch" FAKE_CUDA_ARCH=$arch "$bin/fuzz" --calls "$calls" --seed $arch --device --expect-gpu
done
export FAKE_CUDA_ARCH=90
on_fake "packed operands" GPUGEMM_KERNEL=sgemm_tma_128x256 "$bin/fuzz" --calls "$((calls / 2))" --type s --device --expect-gpu
on_fake "a chain, panel by panel" GPUGEMM_KERNEL=tensor_fp16 GPUGEMM_PINNED_MEMORY=1M "$bin/fuzz" --calls "$((calls / 8))" --largest 600 --type s --expect-gpu
on_fake "why a tier serves" GPUGEMM_KERNEL=tensor_fp16 GPUGEMM_TRACE="$work/trace" GPUGEMM_STATS="$work/stats" "$bin/fuzz" --calls "$((calls / 8))" --type s --jobs 1 --expect-gpu
tiers=$(grep -o 'kernel=.*' "$work/trace" | sed 's/reason="[^"]*"//; s/ us=.*//' | awk '{ print $1, $2 }' | sort | uniq -c)
for line in 'kernel=tensor_fp16 $' 'kernel=tensor_bf16 not_certified_for=tensor_fp16' 'kernel=sgemm_[a-z0-9_]* not_certified_for=tensor_fp16'; do
    grep -q " $line" <<< "$tiers" || fail "no call's trace has $line: $tiers"
done
grep -qE ' kernel=tensor_(bf16 $|fp16 not)' <<< "$tiers" && fail "a tier without its reason, or a reason without its tier: $tiers"
[ "$(grep -c not_certified_for=t "$work/trace")" = "$(python3 -c 'import json, sys; print(sum(r["calls"] for r in json.load(open(sys.argv[1]))["routines"] if r["not_certified_for"]))' "$work/stats")" ] ||
    fail "the statistics count other calls that were not certified than the trace"
on_fake "a chain without wgmma, panel by panel" FAKE_CUDA_ARCH=80 GPUGEMM_KERNEL=tensor_mma_fp16 GPUGEMM_PINNED_MEMORY=1M "$bin/fuzz" --calls "$((calls / 8))" --largest 600 --type s --expect-gpu
on_fake "a chain without wgmma, GPU operands" FAKE_CUDA_ARCH=80 GPUGEMM_KERNEL=tensor_mma_fp16 "$bin/fuzz" --calls "$((calls / 2))" --type s --device --expect-gpu
on_fake "a chain, GPU operands" GPUGEMM_KERNEL=tensor_fp16_pair "$bin/fuzz" --calls "$((calls / 2))" --type s --device --expect-gpu
for where in "" --device; do # k from 1024 on
    on_fake "FP64's chain $where" GPUGEMM_KERNEL=tensor_int8 GPUGEMM_PINNED_MEMORY=1M GPUGEMM_TRACE="$work/trace8" "$bin/fuzz" --calls "$((calls / 100))" --largest 1500 --type d --jobs 1 $where --expect-gpu
done
grep -q 'kernel=tensor_int8 ' "$work/trace8" || fail "FP64's chain was not used"
grep -q 'not_certified_for=tensor_int8' "$work/trace8" || fail "FP64's chain was always certified"
for memory in 18 176; do
    on_fake "a chain in blocks, $memory MB" FAKE_CUDA_MEMORY=${memory}000000 GPUGEMM_KERNEL=tensor_fp16 "$bin/t_blocks_s" --expect-gpu
done
on_fake "FP64's chain in blocks" FAKE_CUDA_MEMORY=160000000 GPUGEMM_KERNEL=tensor_int8 "$bin/t_blocks_d" --expect-gpu
on_fake "little memory" FAKE_CUDA_MEMORY=3000000 GPUGEMM_PINNED_MEMORY=1M GPUGEMM_THREADS=1 "$bin/fuzz" --calls "$calls" --seed 2
on_fake "small tiles" GPUGEMM_GPU_MEMORY=2M GPUGEMM_PINNED_MEMORY=1M "$bin/t_values" --residual "${RESIDUAL:-700}"
on_fake "values and strips of C" "$bin/t_values" --expect-gpu --residual 385
on_fake "what is kept for streams" GPUGEMM_KERNEL=tensor_fp16 "$bin/t_scratch"
on_fake threads "$bin/t_threads" --expect-gpu
on_fake "beside CUDA" GPUGEMM_MODE=auto "$bin/t_beside"
on_fake "beside CUDA, on the CPU" GPUGEMM_MODE=cpu "$bin/t_beside"
on_fake fork "$bin/t_fork" --expect-gpu
on_fake "a first call from a pinned thread" "$bin/t_pinned" --expect-gpu
on_fake exit "$bin/t_exit"
on_fake idle GPUGEMM_PINNED_MEMORY=4M "$bin/t_idle" --expect-gpu # little: memory is given back 100 times, and ThreadSanitizer clears it each time

# ---- the rates' file -----------------------------------------------------------------------------------------------------------------------

cache=$work/cache
cached() { on_fake "cache: $1" XDG_CACHE_HOME="$cache" "$bin/t_exact"; [ ! -s "$work/err" ] || fail "cache: $1: $(cat "$work/err")"; }
whole() { [ "$(ls "$cache/gpugemm" | wc -l)" = 1 ] && [ "$(tail -1 "$cache"/gpugemm/rates-*)" = end ] || fail "cache: $1: $(ls "$cache/gpugemm") $(cat "$cache"/gpugemm/*)"; }
cached "made"
whole "made"
good=$(cat "$cache"/gpugemm/rates-*) file=$(echo "$cache"/gpugemm/rates-*)
cached "read"
[ "$(cat "$file")" = "$good" ] || fail "cache: a file that was good has been replaced"
damage() { # damage WHAT COMMAND…: the command damages the file; it is then ignored and replaced
    echo "$good" | "${@:2}" > "$file"
    cached "$1"
    whole "$1"
    [ "$(cat "$file")" != "$(echo "$good" | "${@:2}")" ] || fail "cache: $1: believed"
}
damage "empty" true
damage "cut short" head -5
damage "another machine's" sed '1s/libgpugemm/libother/'
damage "another GPU's" sed '2s/with .*/with another/; s/^end/took 1 1 0 20 3\ntook 0 1 0 20 3\nend/'
[ "$(grep -c '^took 1' "$file") $(grep -c '^took 0' "$file")" = "0 1" ] || fail "cache: another GPU's: what is kept of it: $(grep took "$file")"
damage "never measured" sed '2s/measured [^ ]*/measured never/' # the GPU's memory was full
damage "not a number" sed 's/^up .*/up nan/'
damage "negative" sed 's/^gpu_latency .*/gpu_latency -1/'
damage "absurd" sed 's/^start .*/start 4e17/'
damage "a number cut in two" sed 's/^up ./&\//'
damage "a name too many" sed 's/^down/sideways/'
damage "bytes" tr a-z '\200-\231'
rm "$file" && mkdir "$file" && cached "a folder in its place" && rmdir "$file"
rm -f "$file"
for i in 1 2 3 4 5 6; do { XDG_CACHE_HOME=$cache "$bin/t_exact" --lib "$LIB" > "$work/out$i" 2>&1 || touch "$work/bad"; } & done
wait
[ ! -e "$work/bad" ] || fail "cache: one of six processes at a time: $(cat "$work"/out?)"
whole "six processes at a time"
cache=$work/out1 cached "no folder can be made"
for chain in "s tensor_fp16" "d tensor_int8"; do # a chain sums k in two turns (plan.h) where it takes longer than the upload
    sed 's/^up .*/up 1e13/' <<< "$good" > "$file"
    on_fake "two turns of $chain" XDG_CACHE_HOME="$work/cache" GPUGEMM_KERNEL="${chain#* }" "$bin/t_values" --deep --type "${chain% *}" --expect-gpu
done

# A driver that takes its time
mkdir "$work/slow"
cat > "$work/slow.c" << 'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <unistd.h>
int cuInit(unsigned flags)
{
    sleep(10);
    return ((int (*)(unsigned))dlsym(RTLD_NEXT, "cuInit"))(flags);
}
END
"${CC:-cc}" -shared -fPIC -o "$work/slow/libcuda.so.1" "$work/slow.c" -Wl,--no-as-needed "$work/driver/libcuda.so.1" -ldl &&
    on_fake "a late GPU" LD_LIBRARY_PATH="$work/slow" GPUGEMM_MODE=auto "$bin/t_late"

# Useless drivers: one that lacks what we need, one whose file cannot be loaded. The CPU serves, and the statistics say why.
useless() { # useless WHAT SAID
    on_fake "$1" LD_LIBRARY_PATH="$work/useless" GPUGEMM_STATS=1 "$bin/t_exact"
    grep -q "no GPU: $2" "$work/err" || fail "$1: $(grep 'no GPU' "$work/err")"
}
mkdir "$work/useless"
echo 'int cuInit(unsigned flags) { return (int)flags; }' > "$work/old.c"
"${CC:-cc}" -shared -fPIC -o "$work/useless/libcuda.so.1" "$work/old.c" && useless "a driver of old" "the CUDA driver is too old"
echo broken > "$work/useless/libcuda.so.1"
useless "a broken driver" "no CUDA driver"
finish

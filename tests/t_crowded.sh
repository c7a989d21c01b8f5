#!/usr/bin/env bash
# t_crowded.sh LIB BIN [full] — on a GPU that other programs use. Either eight processes of ours at once; or, with `full`, with nearly all of its
# memory taken by another program: a tenth left, 1 GB left, and less left than a context needs (nobody else may need the GPU meanwhile). Results must
# stay right, whoever computes them.
. "$(dirname "$0")/lib.sh"
bin=$(realpath "${2:?usage: t_crowded.sh LIB BIN [full]}")
export GPUGEMM_MODE=gpu
right() { # right WHAT COMMAND…
    timeout 200 "${@:2}" --lib "$LIB" > "$work/out" 2> "$work/err" || fail "$1: $(tail -n 1 "$work/out") $(head -n 3 "$work/err")"
    echo "$1: $(tail -n 1 "$work/out")"
}
[ -n "${3:-}" ] || { right "eight processes" "$bin/fuzz" --calls 20000 --jobs 8 --expect-gpu && finish; }
for left in 14000 1000 300; do
    rm -f "$work/in" && mkfifo "$work/in"
    "$bin/hog" "$left" < "$work/in" > "$work/said" &
    hog=$!
    exec 3> "$work/in"
    for _ in $(seq 100); do [ -s "$work/said" ] && break; sleep 0.1; done
    [ -s "$work/said" ] || fail "hog $left: nothing said"
    echo "$(cat "$work/said"):"
    right "  random calls" "$bin/fuzz" --calls 5000 --threads 8
    right "  n = 1500" "$bin/t_values" --residual 1500
    exec 3>&-
    wait "$hog"
done
finish

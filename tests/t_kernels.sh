#!/usr/bin/env bash
# t_kernels.sh LIB FUZZ T_VALUES T_SHAPES — every row of cuda/kernels.def that multiplies, forced in turn with GPUGEMM_KERNEL: fuzz over host and over
# GPU operands, the properties of t_values and the sizes of t_shapes, in the row's type. The statistics of one of them must name the row, because a
# forced row that is not legal for a call is silently replaced. JOBS rows run at a time; rows for GPUs newer than ARCHITECTURE, for which the library
# is not built, are left out.
. "$(dirname "$0")/lib.sh"
fuzz=$(realpath "${2:?usage: t_kernels.sh LIB FUZZ T_VALUES T_SHAPES}") values=$(realpath "$3") shapes=$(realpath "$4")
export GPUGEMM_MODE=gpu
rows=$(sed -nE 's/^GG_KERNEL\(([a-z0-9_]+), *[a-z0-9_]+, GG_(.), *[A-Z_]+, *([0-9]+),.*/\1 \2 \3/p' "$(dirname "$0")/../cuda/kernels.def" |
    awk -v newest="${ARCHITECTURE:-999}" '$1 !~ /^gg_|_sum|_two|_or_|_edge/ && $3 <= newest { print $1 ":" tolower($2) }')

try() { # try ROW TYPE SEED: in a folder of its own, where its failures are left
    local row=$1 type=$2 seed=$3
    export GPUGEMM_KERNEL=$row
    mkdir "$work/$row" && cd "$work/$row" || return
    export GPUGEMM_STATS=stats-%p.json
    "$values" --lib "$LIB" --expect-gpu --type "$type" --residual 1000 > out 2>&1
    local status=$?
    [ $status = 77 ] && { cp out "$work/no_gpu"; return; }
    [ $status = 0 ] || fail "$row: t_values: $(tail -3 out)" > failed_values
    "$shapes" --lib "$LIB" --oracle "$OPENBLAS_DIR/libopenblas.so.0" --type "$type" --cases "$((${CALLS:-4000} / 16))" > out 2>&1 || fail "$row: t_shapes: $(head -3 out)" > failed_shapes
    echo "$row: shapes: $(tail -1 out)"
    for where in "" --device; do
        "$fuzz" --lib "$LIB" --calls $((${CALLS:-4000} / 2)) --threads 4 --type "$type" --seed "$seed" --expect-gpu $where > out 2>&1 ||
            fail "$row: fuzz $where: $(grep -v ' calls$' out | head -4)" > "failed_fuzz$where"
        echo "$row: $(tail -1 out)"
    done
    if grep -qh "\"$row\"" stats-*.json; then touch tried; else echo "$row: not legal on this GPU"; fi
}

seed=100
for row in $rows; do
    seed=$((seed + 1))
    while [ "$(jobs -rp | wc -l)" -ge "${JOBS:-4}" ]; do wait -n; done
    try "${row%:*}" "${row#*:}" $seed &
done
wait
[ ! -e "$work/no_gpu" ] || skip "$(cat "$work/no_gpu")"
for row in $rows; do cat "$work/${row%:*}"/failed_* 2> /dev/null; done
failures=$(ls "$work"/*/failed_* 2> /dev/null | wc -l)
[ "$(ls "$work"/*/tried 2> /dev/null | wc -l)" -ge 8 ] || fail "too few rows were tried"
finish

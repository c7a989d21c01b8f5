#!/usr/bin/env bash
# t_kernels.sh LIB FUZZ T_VALUES T_SHAPES — every row of cuda/kernels.def that multiplies, forced in turn with GPUGEMM_KERNEL: fuzz over host and over
# GPU operands, the properties of t_values and the sizes of t_shapes. The statistics must name the row: a forced row that is not legal here is passed over.
. "$(dirname "$0")/lib.sh"
fuzz=$(realpath "${2:?usage: t_kernels.sh LIB FUZZ T_VALUES T_SHAPES}") values=$(realpath "$3") shapes=$(realpath "$4")
export GPUGEMM_MODE=gpu
rows=$(sed -nE 's/^GG_KERNEL\(([a-z0-9_]+),.*/\1/p' "$(dirname "$0")/../cuda/kernels.def" | grep -vE '^gg_|_sum')
seed=100
for row in $rows; do
    export GPUGEMM_KERNEL=$row
    seed=$((seed + 1))
    GPUGEMM_STATS="$work/stats.json" "$values" --lib "$LIB" --expect-gpu > "$work/out" 2>&1
    status=$?
    [ $status = 77 ] && skip "$(cat "$work/out")"
    grep -q "\"$row\"" "$work/stats.json" || { echo "$row: not legal on this GPU"; continue; }
    [ $status = 0 ] || fail "$row: t_values: $(tail -3 "$work/out")"
    "$shapes" --lib "$LIB" --oracle "$OPENBLAS_DIR/libopenblas.so.0" --cases "$((${CALLS:-4000} / 8))" > "$work/out" 2>&1 || fail "$row: t_shapes: $(head -3 "$work/out")"
    echo "$row: shapes: $(tail -1 "$work/out")"
    for where in "" --device; do
        "$fuzz" --lib "$LIB" --calls "${CALLS:-4000}" --jobs 4 --seed $seed --expect-gpu $where > "$work/out" 2>&1 || fail "$row: fuzz $where: $(grep -v ' calls$' "$work/out" | head -4)"
        echo "$row: $(tail -1 "$work/out")"
    done
done
finish

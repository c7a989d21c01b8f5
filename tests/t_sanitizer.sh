#!/usr/bin/env bash
# t_sanitizer.sh LIB FUZZ — compute-sanitizer over random calls on host and on GPU operands: memory, races, barriers, uninitialised reads.
# racecheck does not follow the mbarriers (in inline PTX) by which warps hand ring stages of sgemm_* and dgemm_* back to their producers: it reports
# "potential WAR" whenever a stage is used twice, also when every reading thread arrives on the mbarrier itself. So it judges the other kernels.
. "$(dirname "$0")/lib.sh"
fuzz=$(realpath "${2:?usage: t_sanitizer.sh LIB FUZZ}")
sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2> /dev/null) || skip "no compute-sanitizer"
export GPUGEMM_MODE=gpu
for tool in memcheck racecheck synccheck initcheck; do
    for where in "" --device; do
        options=
        unset GPUGEMM_KERNEL
        if [ $tool = racecheck ]; then
            options="--kernel-name-exclude kns=gemm_"
            export GPUGEMM_KERNEL=tiled_s_64x64
            [ -n "$where" ] || GPUGEMM_KERNEL=tiled_d_64x64
        fi
        # shellcheck disable=SC2086
        timeout 200 "$sanitizer" $options --tool $tool --target-processes all --error-exitcode 9 --print-limit 5 \
            "$fuzz" --lib "$LIB" --jobs 1 --calls "${CALLS:-150}" --expect-gpu $where > "$work/out" 2>&1
        status=$?
        [ $status = 77 ] && skip "$(grep skipped "$work/out")"
        echo "$tool $where: $(grep '^=.*ERROR SUMMARY\|^=.*RACECHECK SUMMARY' "$work/out" | tail -1) $(grep '^seed' "$work/out")"
        [ $status = 0 ] || fail "$tool $where: status $status: $(grep -m 12 '^=========' "$work/out")"
        grep -q "unsupported\|Device not supported" "$work/out" && skip "compute-sanitizer does not support this GPU here"
    done
done
finish

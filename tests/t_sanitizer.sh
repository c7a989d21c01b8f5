#!/usr/bin/env bash
# t_sanitizer.sh LIB FUZZ T_GATHER_D T_GATHER_S — compute-sanitizer over random calls on host and on GPU operands, and over tiles that all their blocks
# add up (t_gather.c): memory, races, barriers, uninitialised reads. racecheck is used for some kernels only. It does not understand the mbarriers (in
# inline PTX) by which warps hand ring stages of sgemm_* and dgemm_* back to their producers: it reports "potential WAR" whenever a stage is used twice,
# even if every reading thread arrives on the mbarrier itself. It does not watch what TMA writes, so *_tma_* rows can be checked. It fails itself
# ("failed to handle a hardware exception", 13.0 on an H200) when a kernel with clusters that it was told to leave out runs, even one of three lines;
# when it checks the same kernel, that passes. So all kernels that run beside sgemm_* and dgemm_* are checked in a library for compute capability 8.0
# alone, which has no clusters. Where racecheck fails itself nothing is checked, and the output says so. Of dgemm_direct_*, whose groups of warps have
# barriers of their own, it reports what __syncthreads separates; with __syncthreads in place of those barriers it reports nothing
# (bench/results/small-dgemm-2026-11-26.txt).
. "$(dirname "$0")/lib.sh"
fuzz=$(realpath "${2:?usage: t_sanitizer.sh LIB FUZZ T_GATHER_D T_GATHER_S}") gather_d=$(realpath "$3") gather_s=$(realpath "$4")
sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2> /dev/null) || skip "no compute-sanitizer"
export GPUGEMM_MODE=gpu

try() { # try TOOL TYPES KERNEL ARGUMENT…: calls of these types with KERNEL forced, or "" for none; t_gather instead of fuzz with the argument `gather`
    local tool=$1 types=$2 kernel=$3 options= what
    what="$1, $2${3:+, $3}${4:+, $4}"
    shift 3
    case $tool$kernel in
    racecheck*int8) options="--kernel-name-exclude kns=direct" ;;
    racecheckmapped_*) ;; # its calls are short, and what other kernels do for some of them has clusters, too
    racecheck*_tma_*) options="--kernel-name kns=_tma_ --racecheck-report all" ;;
    racecheck*) options="--kernel-name-exclude kns=gemm_" ;;
    esac
    local program=("$fuzz" --jobs 1 --calls "${CALLS:-150}" --type "$types" "$@")
    [ "${1:-}" != gather ] || { local name=gather_$types; program=("${!name}"); }
    # shellcheck disable=SC2086
    timeout "${LIMIT:-200}" ${kernel:+env GPUGEMM_KERNEL=$kernel} "$sanitizer" $options --tool "$tool" --target-processes all --error-exitcode 9 --print-limit 5 \
        "${program[@]}" --lib "$LIB" --expect-gpu > "$work/out" 2>&1
    status=$?
    [ $status = 77 ] && skip "$(grep skipped "$work/out")"
    grep -q "unsupported\|Device not supported" "$work/out" && skip "compute-sanitizer does not support this GPU here"
    case $tool$kernel$(grep -o "Internal Sanitizer Error" "$work/out")$status in
    racecheck*_tma_*Error* | racecheck*_tma_*124 | racecheck*int8124 | racecheckInternal*)
        echo "$what: not judged, the tool failed or was too slow: $(grep -m 2 'Internal Sanitizer Error\|^gpugemm:\|^seed' "$work/out")"
        return
        ;;
    esac
    echo "$what: $(grep '^=.*ERROR SUMMARY\|^=.*RACECHECK SUMMARY' "$work/out" | tail -1) $(grep '^seed' "$work/out")"
    [ $status = 0 ] || fail "$what: status $status: $(grep -m 12 '^=========' "$work/out") $(grep -m 3 '^gpugemm:' "$work/out")"
}

for where in "" --device; do
    for tool in memcheck synccheck initcheck; do try $tool sd "" $where; done
    for type in s d; do for row in tiled_${type}_64x64 multistage_${type}_32x32; do try racecheck $type $row $where; done; done
done
for type in s d; do CALLS=60 try racecheck $type mapped_$type --largest 90; done # by that kernel, but for a larger size now and then
for row in dgemm_tma_64x64 dgemm_tma_48x32 dgemm_tma_96x48 sgemm_tma_128x128; do CALLS=40 LIMIT=40 try racecheck ${row:0:1} $row --device; done
CALLS=40 try memcheck s tensor_mma_fp16 --device
for tool in memcheck synccheck initcheck racecheck; do CALLS=16 try $tool d tensor_int8 --device --largest 1300; done # k from 1024 on
for row in dgemm_tma_32x64 dgemm_tma_64x64_pair sgemm_tma_64x128; do # racecheck is not done within a minute
    for tool in memcheck synccheck initcheck; do GPUGEMM_PRECISION=strict try $tool ${row:0:1} $row gather; done
done
if build_for 80; then # the skinny kernels, those that split operands, vectors', panels' and Gram's
    LIB=$work/80/libgpugemm.so
    for where in "" --device; do for type in s d; do try racecheck $type "" $where; done; done
    CALLS=40 try racecheck s tensor_mma_fp16 --device
fi
finish

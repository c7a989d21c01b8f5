#!/usr/bin/env bash
# on_gpu.sh GPUGEMM COMMAND… — runs the command with GPUGEMM_MODE=gpu, or skips if `gpugemm info` finds no GPU. Where there are several GPUs, the
# command sees one of them, different commands different ones, because CUDA takes seconds to start on all. With ALL_GPUS set it sees them all.
gpugemm=$1
shift
IFS=, read -ra gpus <<< "${CUDA_VISIBLE_DEVICES-$(nvidia-smi -L 2> /dev/null | sed -n 's/^GPU \([0-9]*\):.*/\1/p' | paste -sd,)}"
[ ${#gpus[@]} -le 1 ] || [ -n "${ALL_GPUS:-}" ] || export CUDA_VISIBLE_DEVICES=${gpus[$(cksum <<< "$*" | cut -d' ' -f1) % ${#gpus[@]}]}
trouble=$("$gpugemm" info | sed -n 's/^GPU  *none: //p')
[ -z "$trouble" ] || { echo "skipped: $trouble"; exit 77; }
GPUGEMM_MODE=gpu exec "$@"

#!/usr/bin/env bash
# on_gpu.sh GPUGEMM COMMAND… — runs the command with GPUGEMM_MODE=gpu, or skips where `gpugemm info` finds no GPU. Where there are several it sees one,
# another for another command: CUDA takes seconds to start on all of them. With ALL_GPUS or CUDA_VISIBLE_DEVICES set it sees what it would see without us.
gpugemm=$1
shift
gpus=$(nvidia-smi -L 2> /dev/null | grep -c '^GPU ')
[ "$gpus" -le 1 ] || [ -n "${ALL_GPUS:-}${CUDA_VISIBLE_DEVICES+set}" ] || export CUDA_VISIBLE_DEVICES=$(($(cksum <<< "$*" | cut -d' ' -f1) % gpus))
trouble=$("$gpugemm" info | sed -n 's/^GPU  *none: //p')
[ -z "$trouble" ] || { echo "skipped: $trouble"; exit 77; }
GPUGEMM_MODE=gpu exec "$@"

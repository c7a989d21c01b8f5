#!/usr/bin/env bash
# on_gpu.sh GPUGEMM COMMAND… — runs the command with GPUGEMM_MODE=gpu, or skips where `gpugemm info` finds no GPU. Of several GPUs it sees one, another for
# another command: CUDA takes seconds to start on all of them. With ALL_GPUS set it sees them all.
gpugemm=$1
shift
IFS=, read -ra gpus <<< "${CUDA_VISIBLE_DEVICES-$(nvidia-smi -L 2> /dev/null | sed -n 's/^GPU \([0-9]*\):.*/\1/p' | paste -sd,)}"
[ ${#gpus[@]} -le 1 ] || [ -n "${ALL_GPUS:-}" ] || export CUDA_VISIBLE_DEVICES=${gpus[$(cksum <<< "$*" | cut -d' ' -f1) % ${#gpus[@]}]}
trouble=$("$gpugemm" info | sed -n 's/^GPU  *none: //p')
[ -z "$trouble" ] || { echo "skipped: $trouble"; exit 77; }
GPUGEMM_MODE=gpu exec "$@"

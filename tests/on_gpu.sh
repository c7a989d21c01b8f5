#!/usr/bin/env bash
# on_gpu.sh GPUGEMM COMMAND… — runs the command with GPUGEMM_MODE=gpu, or skips where `gpugemm info` finds no GPU.
gpugemm=$1
shift
trouble=$("$gpugemm" info | sed -n 's/^GPU  *none: //p')
[ -z "$trouble" ] || { echo "skipped: $trouble"; exit 77; }
GPUGEMM_MODE=gpu exec "$@"

#!/usr/bin/env bash
# t_multiprocessing.sh LIB [FAKE_LIBCUDA] — pip's NumPy with LIB preloaded, starting processes and threads in every way Python knows
# (t_multiprocessing.py): on the real GPU under GPUGEMM_MODE=gpu, else on the fake one, which forked children must not call. Uses $PYTHON. (Python
# 3.12 deprecates os.fork() in a program with threads, which is exactly what is tested here.)
. "$(dirname "$0")/lib.sh"
fake=${2:+$(realpath "$2")} python=${PYTHON:-python3} program=$(dirname "$(realpath "$0")")/t_multiprocessing.py
"$python" -c 'import numpy' 2> /dev/null || skip "no NumPy in $python"
if [ "${GPUGEMM_MODE:-}" != gpu ] && [ -n "$fake" ]; then
    mkdir "$work/driver" && cp "$fake" "$work/driver/libcuda.so.1"
    export GPUGEMM_MODE=gpu LD_LIBRARY_PATH=$work/driver
fi
(cd "$work" && timeout 300 env PYTHONWARNINGS=ignore::DeprecationWarning LD_PRELOAD="$PRELOAD" GPUGEMM_STATS=stats.%p.json "$python" "$program" > out 2> err)
status=$? right=$(tail -n 1 "$work/out") calls=0 gpu=0
[ $status = 0 ] || fail "status $status: $(tail -n 5 "$work/err")"
[ ! -s "$work/err" ] || fail "stderr: $(head -n 3 "$work/err")"
for file in "$work"/stats.*.json; do calls=$((calls + $(stat_of "$file" calls))) gpu=$((gpu + $(stat_of "$file" gpu))); done
echo "$right products right in $(ls "$work"/stats.*.json | wc -l) processes; LIB saw $calls calls, $gpu on the GPU"
[ "$calls" -ge "${right:-1}" ] || fail "LIB did not see them all"
[ "${GPUGEMM_MODE:-}" != gpu ] || [ "$gpu" -gt 0 ] || fail "none on the GPU"
finish

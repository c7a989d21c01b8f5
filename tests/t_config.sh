#!/usr/bin/env bash
# t_config.sh LIB T_EXACT — environment variables with unusable values: one line on stderr, and the program goes on with right results. Then what the
# environment switches on: statistics that survive SIGKILL, one trace line per call. Then environments that lack something.
. "$(dirname "$0")/lib.sh"
program=$(realpath "${2:?usage: t_config.sh LIB T_EXACT}")
export GPUGEMM_BLAS=${GPUGEMM_BLAS:-$OPENBLAS_DIR/libopenblas.so.0}

run() { # run VARIABLE=VALUE… : status and stderr of the program; no `set -e` here, because failures are to be reported
    env "$@" "$program" --lib "$LIB" > "$work/out" 2> "$work/err"
}

expect_lines() { # expect_lines LEAST MOST VARIABLE=VALUE
    run "$3" || fail "$3: $(tail -1 "$work/out")"
    lines=$(wc -l < "$work/err")
    [ "$lines" -ge "$1" ] && [ "$lines" -le "$2" ] || fail "$3: $lines lines: $(head -3 "$work/err")"
    [ "$lines" = 0 ] || grep -qF -e "${3%%=*}" -e "${3#*=}" "$work/err" || fail "$3: the line does not tell: $(cat "$work/err")"
}

for value in GPUGEMM_MODE=auto GPUGEMM_MODE=cpu GPUGEMM_MODE= GPUGEMM_PINNED_MEMORY=16M GPUGEMM_THREADS=2 GPUGEMM_THREADS=64 GPUGEMM_TRACE=0 GPUGEMM_STATS=0; do
    expect_lines 0 0 "$value"
done
for value in GPUGEMM_MODE=banana GPUGEMM_GPU_MEMORY=12Q GPUGEMM_GPU_MEMORY=99999999999G GPUGEMM_PINNED_MEMORY=-5 GPUGEMM_PINNED_MEMORY=1Mb \
    GPUGEMM_THREADS=many GPUGEMM_THREADS=65 GPUGEMM_BLAS=/nonexistent/libblas.so GPUGEMM_BLAS="$0" \
    GPUGEMM_STATS=/nonexistent/stats.json GPUGEMM_TRACE=/nonexistent/trace GPUGEMM_KERNEL=no_such_kernel GPUGEMM_KERNEL=gg_pack_s \
    GPUGEMM_DEVICES=x GPUGEMM_DEVICES=0,x GPUGEMM_DEVICES=,; do
    expect_lines 1 1 "$value"
done
expect_lines 1 1 GPUGEMM_MODE=foo
grep -q 'auto: .*; gpu: .*; cpu: ' "$work/err" || fail "GPUGEMM_MODE=foo: what it may be is not said: $(cat "$work/err")"
expect_lines 0 1 GPUGEMM_DEVICES=99 # only a process that starts a GPU notices this

(env GPUGEMM_STATS="$work/s.json" "$program" --lib "$LIB" --kill > "$work/out" 2> "$work/err"; true) 2> "$work/killed"
made=$(grep -o '^[0-9]*' "$work/out")
[ "$(stat_of "$work/s.json" calls)" = "$made" ] || fail "after SIGKILL $(stat_of "$work/s.json" calls) of $made calls are in the statistics"
python3 -m json.tool "$work/s.json" > /dev/null || fail "the statistics are no JSON"
total=$(($(stat_of "$work/s.json" gpu) + $(stat_of "$work/s.json" cpu)))
[ "$total" = "$made" ] || fail "gpu + cpu = $total of $made calls"

(ulimit -f 8 && run GPUGEMM_STATS="$work/limited.json") || fail "a limit of file sizes ends the program: $(tail -1 "$work/err")"
long=$(printf '%04090d' 0) # too long for a file's name: no other may be used
run GPUGEMM_STATS="$work/$long" && [ "$(wc -l < "$work/err")" = 1 ] || fail "a name that is too long: $(head -c 300 "$work/err")"
[ -z "$(ls "$work" | grep '^00')" ] || fail "a name that is too long is cut"
run GPUGEMM_STATS=1 || fail "GPUGEMM_STATS=1: $(tail -1 "$work/out")"
grep -q dgemm "$work/err" || fail "GPUGEMM_STATS=1 prints no table"
run GPUGEMM_TRACE=1 || fail "GPUGEMM_TRACE=1: $(tail -1 "$work/out")"
lines=$(grep -c 'm=[0-9]* n=[0-9]* k=[0-9]* .*path=' "$work/err")
[ "$lines" = "$made" ] || fail "$lines trace lines for $made calls"

# Regret is the sum, over calls, of how much longer each took than was predicted for the other side. The trace has the same to a tenth of a
# microsecond.
run GPUGEMM_STATS="$work/r.json" GPUGEMM_TRACE="$work/r.trace" || fail "statistics and a trace: $(tail -1 "$work/out")"
python3 - "$work/r.json" "$work/r.trace" << 'EOF' || fail "regret"
import json, re, sys

rows = json.load(open(sys.argv[1]))["routines"]
calls = [dict(re.findall(r'(\w+)=("[^"]*"|\S+)', line)) for line in open(sys.argv[2]) if "predicted_gpu_us" in line]
other = {"cpu": "predicted_gpu_us", "staged": "predicted_cpu_us"}
expected = sum(max(0, float(c["us"]) - float(c[other[c["path"]]])) for c in calls if c["path"] in other and float(c[other[c["path"]]]) > 0)
seen = 1e6 * sum(row["regret"] for row in rows)
print(f"regret {seen:.1f} us, by the trace {expected:.1f}")
assert len(calls) == sum(row["calls"] for row in rows) and abs(seen - expected) <= len(calls) + len(rows), "they differ"
assert all(0 <= row["regret"] <= row["seconds"] for row in rows)
EOF

# Numbers for programs have a decimal point, also in locales with a decimal comma: t_api checks that, if there is such a locale.
if localedef -i de_DE -f UTF-8 "$work/de_DE.UTF-8" > "$work/out" 2>&1; then
    LOCPATH=$work GPUGEMM_MODE=auto "$(dirname "$program")/t_api" --lib "$LIB" > "$work/out" 2>&1 || fail "in a German program: $(head -3 "$work/out")"
fi

# In a Turkish program the small letter of I is not i. Words of options are none of its language.
if localedef -i tr_TR -f UTF-8 "$work/tr_TR.UTF-8" > "$work/out" 2>&1; then
    run LOCPATH="$work" LC_ALL=tr_TR.UTF-8 GPUGEMM_PRECISION=STRICT && [ ! -s "$work/err" ] || fail "in a Turkish program: $(head -3 "$work/err")"
fi

run CUDA_VISIBLE_DEVICES= GPUGEMM_MODE=gpu || fail "without a visible GPU: $(tail -1 "$work/out")"
(ulimit -v 4000000 && run GPUGEMM_MODE="${GPUGEMM_MODE:-auto}") || fail "ulimit -v 4000000: $(tail -1 "$work/out")"
(ulimit -n 16 && run GPUGEMM_MODE="${GPUGEMM_MODE:-auto}") || fail "ulimit -n 16: $(tail -1 "$work/out")"
env GPUGEMM_MODE="${GPUGEMM_MODE:-auto}" "$program" --lib "$LIB" > "$work/out" <&- 2>&- || fail "stdin and stderr closed: $(tail -1 "$work/out")"
finish

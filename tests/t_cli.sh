#!/usr/bin/env bash
# t_cli.sh LIB GPUGEMM [90a] — each subcommand as a new user would try it: useful output or one clear line, the documented exit code, JSON that parses.
# With GPUGEMM_MODE=gpu on a machine with a GPU the GPU must serve, too. 90a: the build has that code.
. "$(dirname "$0")/lib.sh"
here=$(dirname "$(realpath "$0")")
gpugemm=$(realpath "${2:?usage: t_cli.sh LIB GPUGEMM}")
command -v python3 > /dev/null || skip "no python3"
nm -D "$LIB" | grep -q '__[at]san_' && skip "a library with sanitizers cannot be preloaded"
forced=${GPUGEMM_MODE:-}
unset GPUGEMM_MODE

# expect CODE PATTERN ARGUMENT… : gpugemm exits with CODE and prints PATTERN, on stdout or stderr
expect() {
    local code=$1 pattern=$2
    shift 2
    "$gpugemm" "$@" > "$work/out" 2>&1 < /dev/null
    local got=$?
    [ $got = "$code" ] || { fail "gpugemm $*: exit status $got, not $code"; cat "$work/out"; }
    grep -qE -- "$pattern" "$work/out" || { fail "gpugemm $*: no '$pattern' in"; cat "$work/out"; }
    grep -q $'\033' "$work/out" && fail "gpugemm $*: colour where no terminal is"
}
# json EXPRESSION ARGUMENT… : the output parses, and the Python expression is true of it, as x
json() {
    local expression=$1
    shift
    "$gpugemm" "$@" 2> "$work/err" | python3 -c "import json, sys; x = json.load(sys.stdin); assert $expression, x" || { fail "gpugemm $*: not $expression"; cat "$work/err"; }
}

for command in run info check explain tune bench; do
    expect 0 "^ *$command " --help
    expect 0 "Usage: gpugemm $command" "$command" --help
done
expect 0 '^gpugemm [0-9]+\.[0-9]+\.[0-9]+$' --version
expect 64 'a command is missing'
expect 64 'no command frobnicate' frobnicate
expect 64 'Try .gpugemm info' info --frobnicate

expect 0 'CPU BLAS +/' info
expect 0 'staged call: assumed; copies .* down: ([0-9-]+T|defaults$)' info # only what is measured has a date
if "$gpugemm" info | grep -q 'kernels for '; then # an OpenBLAS: the CPU's speed depends on which processor's kernels it runs
    OPENBLAS_CORETYPE=Prescott expect 0 'kernels for Prescott' info
    OPENBLAS_CORETYPE=Prescott expect 0 'set OPENBLAS_CORETYPE=' info
fi
json "x['options'].keys() >= {'GPUGEMM_MODE'} and x['cpu_blas'] and x['rates']['to_gpu'] > 1e8 and (x['gpu'] is None) == (x['square_from']['dgemm'] == 0)" info --json
GPUGEMM_DEVICES=0,x GPUGEMM_MODE=fast json 'not x["options"]["GPUGEMM_DEVICES"] and not x["options"]["GPUGEMM_MODE"]' info --json # the defaults are in force
GPUGEMM_STATS=$'/a "\\\001\303\251\377' json 'x["options"]["GPUGEMM_STATS"] == "/a \"\\\x01\xe9\ufffd"' info --json # JSON is UTF-8, a path need not be
python3 - "$LIB" << 'END' || fail "info shows options that came too late"
import ctypes, json, os, sys
library = ctypes.CDLL(sys.argv[1])
library.gpugemm_info_json.restype = ctypes.c_char_p
options = lambda: json.loads(library.gpugemm_info_json())['options']
before = options()
os.environ['GPUGEMM_MODE'] = 'cpu'
assert options() == before, options()
END
product='import ctypes; x = (ctypes.c_double * 1)(); one = ctypes.c_double(1); ctypes.CDLL(None).cblas_dgemm(102, 111, 111, 1, 1, 1, one, x, 1, x, 1, one, x, 1)'
GPUGEMM_STATS= expect 0 '1 gemm calls' run python3 -c "$product" # an empty value is the default
expect 0 '^done$' run --stats="$work/short.json" python3 -c "$product; import os; os.truncate('$work/short.json', 0); $product; print('done')" # no SIGBUS
GPUGEMM_STATS=0 expect 0 '^done$' run python3 -c "$product; print('done')"
grep -q 'gemm calls' "$work/out" && fail "GPUGEMM_STATS=0 gpugemm run: $(cat "$work/out")"
blas=$("$gpugemm" info --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["cpu_blas"])')
GPUGEMM_BLAS=$blas expect 0 'CPU BLAS .*, named by GPUGEMM_BLAS' info
GPUGEMM_MODE=fast expect 0 '^GPUGEMM_MODE +\(auto\) ' info # shows what is in force, not what was asked for
GPUGEMM_TRACE=$work/a-name-of-more-than-22-letters expect 0 "$work/a-name-of-more-than-22-letters  *1: one line" info
GPUGEMM_PRECISION=strict expect 0 '^Precision  .*FP32 multiply-adds; dgemm' info

"$gpugemm" check > "$work/out" 2>&1 || { fail "gpugemm check"; cat "$work/out"; }
grep -q '^ok *CPU' "$work/out" || fail "check says nothing of the CPU"
# some seconds; 25 were seen on four GPUs on which other tests were starting CUDA
seconds=$(sed -n 's/.* \([0-9.]*\) s$/\1/p' "$work/out")
awk "BEGIN { exit !($seconds < 60) }" || fail "check took $seconds s"
json "all(c['result'] != 'failed' for c in x) and len(x) >= 6" check --json
GPUGEMM_BLAS=/nonexistent.so expect 0 'ok *library' check # the library's own slow loops serve, correctly

expect 64 'm, n and k are missing' explain
expect 64 'not a number' explain 12 twelve
expect 64 'not negative' explain -- -1
expect 64 '9223372036854775808 is beyond 64-bit integers' explain 9223372036854775808
expect 0 'M \[N \[K\]\]' explain --help
expect 0 'm 5  n 6  k 5' explain 5 6
expect 64 'a100, h100 and h200' explain --gpu voodoo 5
expect 64 'two of N and T' explain --trans N 5
expect 0 'in host memory' explain 100 200 300
if [ "$forced" != gpu ]; then
    if "$gpugemm" info | grep -q '^GPU  *none'; then
        expect 69 'Nothing to tune: ' tune
        json "x['host']['path'] == 'cpu' and x['device']['path'] == 'none'" explain --json 64
    fi
else
    XDG_CACHE_HOME=$work expect 0 'multiprocessors' info # measures the link and writes the file
    sed -i 's/^measured [^ ]*/measured long-ago/' "$work"/gpugemm/rates-*
    XDG_CACHE_HOME=$work expect 0 'gemm' tune
    grep -q '^measured long-ago' "$work"/gpugemm/rates-* && fail "tune did not measure the link"
    XDG_CACHE_HOME=$work expect 0 'predicted: CPU .*, GPU .* with all copies: .* times as fast$' explain 2048
    expect 0 'GPU, staged' explain 4096
    expect 0 'ok *GPU' check
fi
if "$gpugemm" info | grep -q '^Kernels.*gemm'; then # this build has kernels
    expect 0 'go to the GPU from n = ' explain --gpu h200 100
    expect 0 'assumed, not measured on this machine: the speed of its CPU and of the copies' explain --gpu h200 2048
    grep 'times as' "$work/out" && fail "explain compares what nobody measured"
    json "x['cpu_assumed'] and x['copies_assumed']" explain --gpu h200 --json 2048
    json "x['host']['path'] == 'staged' and x['device']['path'] == 'device' and 64 < x['square_from'] < 4096" explain --gpu h200 --json 4096
    json "x['device']['kernel'].startswith('tensor_')" explain --gpu h200 --json --routine sgemm 4096
    GPUGEMM_PRECISION=strict json "x['device']['kernel'].startswith('sgemm_')" explain --gpu h200 --json --routine sgemm 4096
    [ "${3:-}" != 90a ] || json "x['device']['kernel'] == 'tensor_int8'" explain --gpu h200 --json 4096
    GPUGEMM_PRECISION=strict json "x['device']['kernel'].startswith('dgemm_')" explain --gpu h200 --json 4096
    json "x['host']['path'] == 'cpu' and x['host']['reason'] == 'faster on the CPU'" explain --gpu a100 --json --routine sgemm --trans TN 48
fi

expect 64 'which program' run
expect 127 'No such file' run /nonexistent
expect 126 'denied' run /etc/passwd
expect 3 '^$' run sh -c 'echo; exit 3'
expect 0 '^$' run --stats=0 echo
expect 0 '^strict$' run --precision=strict sh -c 'echo "$GPUGEMM_PRECISION"'
GPUGEMM_PRECISION=tf32 expect 0 'All is well' check
expect 64 'none of auto, gpu and cpu' run --mode=fast true
expect 64 'none of fp32, strict and tf32' run --precision=fp16 true
expect 64 'for --report' run --compare true
expect 64 'gathers the statistics itself' run --stats="$work/s.json" --report "$work/page.html" true
mkdir "$work/a b" && cp -L "$gpugemm" "$work/a b/gpugemm" && cp -L "$LIB" "$work/a b/libgpugemm.so.0"
gpugemm="$work/a b/gpugemm" expect 69 'a b/libgpugemm.so.0: .*cannot be preloaded' run true

# A program with two processes that multiply: the page has its calls, and refers to nothing outside it.
cat > "$work/two.c" << 'END'
#include <gpugemm/cblas.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void)
{
    static double a[300 * 300], b[300 * 300], c[300 * 300];
    fork();
    for (int i = 0; i < 300 * 300; i++) a[i] = b[i] = 1;
    for (int i = 0; i < 20; i++) cblas_dgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, 300, 300, 300, 1, a, 300, b, 300, 0, c, 300);
    while (wait(0) > 0) continue;
    return c[0] != 300;
}
END
"${CC:-gcc}" -I"$here/../include" "$work/two.c" -o "$work/two" -L"$(dirname "$LIB")" -lgpugemm -Wl,-rpath,"$(dirname "$LIB")" || fail "two.c does not build"
expect 0 'the report is in' run --report "$work/page.html" --compare "$work/two"
python3 - "$work/page.html" << 'END' || fail "the report"
import re, sys, html.parser
page = open(sys.argv[1]).read()
html.parser.HTMLParser().feed(page)
assert page.count('<svg') == 1 and '2 processes with matrix products' in page
assert sum(int(n) for n in re.findall(r'<td>dgemm.*?<td class="n">(\d+)', page)) == 80, page
on_gpu = '<td>GPU, ' in page # else there is nothing to compare, and a ratio would be noise
assert ('times as fast as on the CPU' in page) == on_gpu and ('<b>No product ran on the GPU</b>: ' in page) != on_gpu, page
assert not re.search(r'(src|href)=|url\(|https?:', page), 'something is fetched'
END
"$gpugemm" info | grep -q '^GPU  *none' && ! grep -q 'ran on the GPU</b>: .*The CPU serves every call' "$work/page.html" && fail "the report does not say why"
expect 5 'the report is in' run --report "$work/page.html" sh -c 'exit 5'
expect 73 'the report /nonexistent/page.html cannot be written: No such file' run --report /nonexistent/page.html touch "$work/started"
[ ! -e "$work/started" ] || fail "the program was started for a report that cannot be written"
"$gpugemm" run --report "$work/ended.html" sh -c "touch '$work/begun'; exec sleep 60" > "$work/out" 2>&1 & # whoever ends the command means the program
for _ in $(seq 100); do [ -e "$work/begun" ] || sleep 0.1; done
kill -TERM $!
wait $!
[ $? = 143 ] && grep -q '</html>' "$work/ended.html" || fail "a report of a program that was ended: $(cat "$work/out")"
[ ! -e /dev/full ] || expect 73 'the report /dev/full cannot be written: No space' run --report /dev/full true
if [ -e /dev/full ]; then
    "$gpugemm" info > /dev/full 2> "$work/out"
    [ $? = 73 ] && grep -q 'standard output cannot be written' "$work/out" || fail "gpugemm info > /dev/full: $(cat "$work/out")"
fi
(trap '' CHLD && exec "$gpugemm" run --report="$work/ignored.html" sh -c 'exit 5') > /dev/null 2>&1 # as some supervisors start their programs
[ $? = 5 ] || fail "with SIGCHLD ignored gpugemm run ends with $?, not 5"

expect 64 'no argument' bench something
for wrong in sizes=0 sizes=64,12x5 sizes=8, types=sx layouts=NX seconds=0 plot=picture.gif; do
    expect 64 "[-]-${wrong%=*} (wants|is) " bench --$wrong
done
"$gpugemm" info | grep -q '^GPU  *none' && expect 69 'no GPU' bench --device
rm -f "$work"/table*
expect 0 'sgemm NN 96x96x96 .* gpugemm [0-9.]* ms  openblas' bench --host --sizes 96 --types s --seconds 0.01 --csv "$work/table.csv"
[ "$(wc -l < "$work/table-host.csv")" -ge 2 ] || fail "bench --csv"
finish

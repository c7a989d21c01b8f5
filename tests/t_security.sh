#!/usr/bin/env bash
# t_security.sh LIB GPUGEMM SECURE [FAKE_LIBCUDA] — how LIB and its command are linked; that statistics and traces are written only to files that are
# ours to write; that a setuid program trusts nothing in its environment: options, libraries, output files, the CUDA driver.
. "$(dirname "$0")/lib.sh"
command=$(realpath "${2:?usage: t_security.sh LIB GPUGEMM SECURE}") secure=$(realpath "$3") fake=${4:+$(realpath "$4")}

# ---- linker and compiler flags --------------------------------------------------------------------------------------------------------------

has() { readelf -W "$2" "$1" | grep -qE "$3"; }
for file in "$LIB" "$command"; do
    name=$(basename "$file")
    has "$file" -l 'GNU_RELRO' || fail "$name: no RELRO"
    has "$file" -d 'BIND_NOW|FLAGS_1.*NOW' || fail "$name: symbols are bound late, RELRO is partial"
    has "$file" -l 'GNU_STACK +([^ ]+ +){5}RW ' || fail "$name: an executable stack"
    has "$file" -l 'LOAD .* RWE ' && fail "$name: a segment that can be written and executed"
    has "$file" -d 'TEXTREL' && fail "$name: relocations in code"
    has "$file" -d '(RPATH|RUNPATH)' && fail "$name: a search path of its own"
    readelf -Ws --dyn-syms "$file" | grep -q __stack_chk_fail || fail "$name: no stack protector"
    readelf -Ws --dyn-syms "$file" | grep -qE '__[a-z_]+_chk' || fail "$name: not fortified"
    extra=$(readelf -Wd "$file" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -vE '^(libc\.so\.6|libm\.so\.6|ld-linux.*)$')
    [ -z "$extra" ] || fail "$name needs $extra"
done
has "$LIB" -d 'NODELETE' || fail "the library can be unloaded"
has "$command" -h 'DYN' || fail "the command is not position-independent"
# Libraries are opened by soname only, or by the path the user gave: the system's search path has no writable folders, a path of our own might.
strings -a "$LIB" | grep -E '^[^%]*/[^ ]*\.so(\.[0-9]+)*$' | grep -vE '^/libcuda\.so$' && fail "a path of a library in the library"

# ---- files ---------------------------------------------------------------------------------------------------------------------------------------

mkdir "$work/f" "$work/driver0"
[ -z "$fake" ] || cp "$fake" "$work/driver0/libcuda.so.1"
cd "$work/f" || exit 1
run() { # run VARIABLE=VALUE… : succeeds within a minute; stderr goes to ../err
    timeout 60 env "$@" "$secure" --lib "$LIB" > ../out 2> ../err || fail "$*: status $?: $(cat ../out ../err)"
}
refused() { run "$1" && grep -q 'cannot be written' ../err || fail "$1: not refused: $(cat ../err)"; }
(umask 0; run GPUGEMM_STATS=new GPUGEMM_TRACE=trace)
[ "$(stat -c %a new)$(stat -c %a trace)" = 600600 ] || fail "files for more than their owner: $(stat -c '%n %a' new trace)"
echo precious > victim
ln -s victim link && mkfifo pipe && mkdir folder && ln victim hard
for target in link pipe folder; do refused "GPUGEMM_STATS=$target"; refused "GPUGEMM_TRACE=$target"; done
refused GPUGEMM_TRACE=hard
run GPUGEMM_STATS=hard # the name is given to a new file; the file it named before is unchanged
[ "$(cat victim)" = precious ] || fail "a file was written through another name"
ln -s nowhere dangling
refused GPUGEMM_STATS=dangling; refused GPUGEMM_TRACE=dangling
[ ! -e nowhere ] || fail "a file was created behind a link"
refused GPUGEMM_STATS=/dev/full
run GPUGEMM_TRACE=/dev/full # a device is opened for writing, and the write fails
# Processes with the same output file: the name belongs to the last one, and none of them fails.
cp new before
for i in 1 2 3 4 5 6 7 8; do run GPUGEMM_STATS=shared & done
wait
python3 -m json.tool shared > /dev/null || fail "a shared statistics file is no JSON"

# The file of rates is readable and writable by its owner alone, and a link, pipe or folder in its place is neither used nor followed.
run HOME="$PWD" XDG_CACHE_HOME= GPUGEMM_MODE=gpu LD_LIBRARY_PATH="$work/driver0" # on the fake driver, because without a GPU there are no rates to keep
if [ -n "$fake" ]; then
    rates=$(echo .cache/gpugemm/rates-*)
    [ "$(stat -c %a .cache .cache/gpugemm "$rates" | tr '\n' ' ')" = "700 700 600 " ] || fail "the file of rates: $(stat -c '%n %a' .cache/gpugemm/*)"
    for kind in link pipe folder; do
        rm -rf "$rates"
        case $kind in link) ln -s "$PWD/victim" "$rates" ;; pipe) mkfifo "$rates" ;; folder) mkdir "$rates" ;; esac
        run HOME="$PWD" XDG_CACHE_HOME= GPUGEMM_MODE=gpu LD_LIBRARY_PATH="$work/driver0"
        [ "$(cat victim)" = precious ] || fail "the file of rates was written through a $kind"
    done
fi

# ---- a setuid program ---------------------------------------------------------------------------------------------------------------------------

setuid_program() {
    chmod 711 "$work" && mkdir -m 1777 "$work/s" && cd "$work/s" || return
    install -m 4755 "$secure" "$work/setuid" && install -m 755 "$(realpath "$LIB")" "$work/library.so" || return
    printf '__attribute__((constructor)) static void come(void) { __builtin_trap(); }\n' > ../evil.c
    "${CC:-cc}" -shared -fPIC -o ../evil.so ../evil.c && mkdir ../driver || return
    [ -z "$fake" ] || cp "$fake" ../driver/libcuda.so.1
    as_nobody() {
        env GPUGEMM_STATS="$PWD/stats" GPUGEMM_TRACE="$PWD/trace" GPUGEMM_MODE=gpu LD_LIBRARY_PATH="$work/driver" "$@" \
            setpriv --reuid=65534 --regid=65534 --clear-groups "$program" --lib "$work/library.so" 2>&1
    }
    program=$work/setuid
    said=$(as_nobody GPUGEMM_BLAS="$work/evil.so")
    case $said in
    *secure=1*) ;;
    *) echo "setuid programs: not tried, the file system or the sandbox forbids them ($said)"; return ;;
    esac
    [ "$said" = "secure=1 gpu=0 wrong=0" ] || fail "a setuid program: $said"
    [ -z "$(ls -A .)" ] || fail "a setuid program wrote $(ls -A .)"
    install -m 755 "$secure" "$work/plain"
    program=$work/plain
    said=$(as_nobody)
    case $said in *secure=0*wrong=0*) ;; *) fail "the same without the bit: $said" ;; esac
    [ -z "$fake" ] || case $said in *gpu=1*) ;; *) fail "the same without the bit does not use the GPU: $said" ;; esac
    [ -s stats ] && [ -s trace ] || fail "the same without the bit writes no files"
    echo "a setuid program believes nothing"
}
if [ "$(id -u)" = 0 ] && command -v setpriv > /dev/null; then setuid_program; else echo "setuid programs: not tried, not root"; fi
cd /
finish

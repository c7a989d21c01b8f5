#!/usr/bin/env bash
# t_documents.sh LIB BUILD — what the documents say can be done: the README's commands, each example's own commands (lines "$ …" of its head), and the
# man pages' examples and synopses are executed against an installation, and the man pages pass mandoc's lint. An outdated document fails here.
. "$(dirname "$0")/lib.sh"
root=$(realpath "$(dirname "$0")/..")
build=$(realpath "${2:?usage: t_documents.sh LIB BUILD}")
nm -D "$LIB" | grep -q '__[at]san_' && skip "a build with sanitizers is not for installing"
for program in gcc g++ gfortran pkg-config cmake ninja Rscript octave-cli mandoc; do
    command -v $program > /dev/null && continue
    [ -z "${GPUGEMM_NEED_CLIENTS:-}" ] || { fail "no $program"; finish; }
    skip "no $program"
done
"${PYTHON:-python3}" -c 'import numpy' 2> /dev/null || { [ -z "${GPUGEMM_NEED_CLIENTS:-}" ] || fail "no NumPy"; skip "no NumPy"; }

# ---- an installation, and what the commands assume: the library and the command are found, python3 has NumPy ------------------------------

cmake --install "$build" --prefix "$work/prefix" > "$work/log" || fail "cmake --install: $(tail -3 "$work/log")"
libdir=$(dirname "$(find "$work/prefix" -name libgpugemm.so.0)")
mkdir "$work/bin"
printf '#!/bin/sh\nexec "%s" "$@"\n' "$(command -v "${PYTHON:-python3}")" > "$work/bin/python3.sh"
mv "$work/bin/python3.sh" "$work/bin/python3" && chmod +x "$work/bin/python3"
printf '#!/bin/sh\nexec octave-cli --no-gui --eval "a = rand(9); a * a;"\n' > "$work/bin/octave" && chmod +x "$work/bin/octave"
export PATH=$work/bin:$work/prefix/bin:$PATH LIBRARY_PATH=$libdir LD_LIBRARY_PATH=$libdir PKG_CONFIG_PATH=$libdir/pkgconfig CMAKE_PREFIX_PATH=$work/prefix
export CMAKE_GENERATOR=Ninja PYTHON=python3
do_it() { # do_it WHERE COMMAND
    (cd "$work/here" && timeout 300 bash -c "$2") > "$work/out" 2>&1 < /dev/null || { fail "$1: $2"; tail -5 "$work/out"; }
}

# ---- README: those lines of its indented blocks that are commands --------------------------------------------------------------------------

mkdir "$work/here"
ln -s "$build" "$work/here/build"
sed 's/4096\]/64]/; s/, 2048//' "$root/examples/numpy_matmul.py" > "$work/here/script.py"
echo 'a <- matrix(runif(10000), 100); invisible(a %*% a)' > "$work/here/model.R"
sed 's/N = 1500/N = 100/' "$root/examples/link.c" > "$work/here/prog.c"
export C_INCLUDE_PATH=$work/prefix/include:$work/prefix/include/gpugemm
count=0
while read -r line; do
    command=${line%%  #*}
    do_it README "$command"
    count=$((count + 1))
done < <(grep -E '^    (build/gpugemm|LD_PRELOAD=|gcc |gpugemm )' "$root/README.md" | sed 's/^ *//')
echo "README: $count commands"
[ $count -ge 6 ] || fail "README: only $count commands were recognised"
[ "$(grep -cE '^    tools/setup.sh (run|test)' "$root/README.md")" = 2 ] || fail "README: exactly two set-up commands"
unset C_INCLUDE_PATH

# every source has its place in "Reading the source", and no document refers to a missing file
sed -n '/^## Reading the source/,/^## /p' "$root/README.md" > "$work/reading"
for source in "$root"/src/*.c; do
    name=${source##*/}
    grep -qE "(^|[^a-z_])${name%.c}\\.c" "$work/reading" || fail "README: $name is not in Reading the source"
done
for document in "$root"/*.md "$root"/docs/*.md; do
    while read -r target; do
        [ -e "$(dirname "$document")/$target" ] || fail "$document points to $target, which is not there"
    done < <(grep -oE '\]\([^)#]+' "$document" | sed 's/^](//' | grep -v '^http')
done

python3 "$root/bench/summary.py" "$root/bench/results" | cmp - "$root/docs/measurements.md" || fail "docs/measurements.md: run bench/summary.py"

# ---- examples ------------------------------------------------------------------------------------------------------------------------------------

rm -rf "$work/here"
cp -r "$root/examples" "$work/here"
for file in "$root"/examples/* "$root"/examples/*/CMakeLists.txt; do
    [ -f "$file" ] || continue
    count=0
    while read -r command; do
        do_it "${file#"$root"/}" "$command"
        count=$((count + 1))
    done < <(head -12 "$file" | sed -n 's/^[ #*]*\$ \(.*\)/\1/p')
    echo "${file#"$root"/}: $count commands"
    [ $count -ge 1 ] || fail "${file#"$root"/} does not say how it is run"
done

# ---- man pages -------------------------------------------------------------------------------------------------------------------------------------

man=$work/prefix/share/man
for page in "$man"/man1/gpugemm.1 "$man"/man3/libgpugemm.3; do
    mandoc -Tlint -Wwarning "$page" > "$work/lint" || true
    grep . "$work/lint" && fail "mandoc about ${page##*/}"
done

# gpugemm(1): its examples run, and its synopsis has the same options as --help, command by command
cp "$root/examples/numpy_matmul.py" "$work/here/script.py" && sed -i 's/4096\]/64]/; s/, 2048//' "$work/here/script.py"
count=0
while read -r command; do
    do_it "gpugemm(1)" "$command"
    count=$((count + 1))
done < <(sed -n '/^\.Sh EXAMPLES/,/^\.Sh SEE/p' "$man/man1/gpugemm.1" | grep '^gpugemm ')
[ $count -ge 6 ] || fail "gpugemm(1): only $count examples were recognised"
for command in $(grep -oE '\{"[a-z]+", cmd_' "$root/tools/gpugemm.c" | cut -d'"' -f2); do
    grep -q "^\.Cm $command$" <(sed -n '/^\.Sh SYNOPSIS/,/^\.Sh DESC/p' "$man/man1/gpugemm.1") || fail "gpugemm(1) has no synopsis of $command"
    gpugemm --help | grep -q "^  $command " || fail "gpugemm --help does not list $command"
    sed -n '/^\.Sh SYNOPSIS/,/^\.Sh DESC/p' "$man/man1/gpugemm.1" | awk -v c=$command '$1 == ".Cm" { on = $2 == c } on' | grep -oE 'Fl -?[a-z]+' |
        sed 's/Fl m$/Fl -mode/; s/Fl -/--/' | sort -u > "$work/synopsis"
    gpugemm $command --help | grep -oE ' --[a-z]+' | tr -d ' ' | grep -vE -- '--(help|usage|version)$' | sort -u | diff "$work/synopsis" - > "$work/diff" ||
        { fail "gpugemm(1)'s synopsis of $command (<) and its --help (>):"; cat "$work/diff"; }
done

# libgpugemm(3): the functions of the header, the options of config.def, and an example that compiles and runs
grep -oE '^\.F[no] gpugemm_[a-z_]+' "$man/man3/libgpugemm.3" | sed 's/.* //' | sort -u > "$work/synopsis"
gcc -E -P -x c "$root/include/gpugemm.h" | grep -o '\<gpugemm_[a-z_]*(' | tr -d '(' | sort -u | diff "$work/synopsis" - || fail "libgpugemm(3)'s synopsis (<) and gpugemm.h (>)"
grep -oE '^\.It Ev GPUGEMM_[A-Z_]+' "$man/man3/libgpugemm.3" | sed 's/.* //' | sort > "$work/synopsis"
printf '#define GG_OPTION(field, name, ...) name\n#include "src/config.def"\n' | gcc -E -P -x c -I"$root" - | grep . | sort | diff "$work/synopsis" - ||
    fail "libgpugemm(3)'s environment (<) and config.def (>)"
sed -n '/^\.Sh EXAMPLES/,/^\.Ed/p' "$man/man3/libgpugemm.3" | grep -v '^\.' | sed 's/\\e/\\/g' > "$work/example.c"
gcc -Wall -Werror $(pkg-config --cflags gpugemm) "$work/example.c" $(pkg-config --libs gpugemm) -o "$work/example" && "$work/example" | grep -q '^.*: 7 on the cpu' ||
    fail "libgpugemm(3)'s example"
finish

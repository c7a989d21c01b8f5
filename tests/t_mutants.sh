#!/usr/bin/env bash
# t_mutants.sh MUTANT FUZZ T_VALUES — each planted bug of mutant.c must be seen by fuzz or t_values, and the mutant without a bug by neither.
lib=$(realpath "${1:?usage: t_mutants.sh MUTANT FUZZ T_VALUES}") fuzz=$2 values=$3
here=$(dirname "$(realpath "$0")")
oracle=${GPULIBS:+$GPULIBS/openblas/}libopenblas.so.0
names=$(sed -n '/^enum mutant {/,/^};/p' "$here/mutant.c" | grep -o '[A-Z_0-9]*' | grep -vx -e MUTANTS -e '')
failures=0 number=0
for name in $names; do
    seen=
    MUTANT=$number "$fuzz" --lib "$lib" --oracle "$oracle" --partial --calls 3000 > /dev/null 2>&1
    status=$?
    [ $status = 77 ] && { echo "skipped: no $oracle"; exit 77; }
    [ $status = 0 ] || seen=fuzz
    [ -n "$seen" ] || MUTANT=$number bash -c '"$@" > /dev/null' _ "$values" --lib "$lib" 2> /dev/null || seen=t_values
    echo "$number $name: ${seen:-unseen}"
    if [ $number = 0 ]; then [ -z "$seen" ]; else [ -n "$seen" ]; fi || failures=$((failures + 1))
    number=$((number + 1))
done
echo "$failures of $number mutants judged wrongly"
[ "$number" -gt 20 ] && [ "$failures" = 0 ]

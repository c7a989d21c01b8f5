#!/usr/bin/env bash
# t_client.sh LIB CLIENT [LEAST] — a real program that does not know LIB (tests/clients), run without LIB and again with LIB preloaded. The results
# must agree, and the statistics must prove that at least LEAST of its products came through LIB (under GPUGEMM_MODE=gpu: that the GPU served some),
# or as many as clients/count.c saw without LIB. N is the size; with TIMED the times shown are of a run without statistics (bench/evidence.sh). The
# programs are Debian's and pip's; with GPUGEMM_NEED_CLIENTS=1 (set by tools/setup.sh where it could install them) a missing one is a failure.
. "$(dirname "$0")/lib.sh"
here=$(dirname "$(realpath "$0")")/clients
client=${2:?usage: t_client.sh LIB CLIENT [LEAST]} least=${3:-1}
unset GPUGEMM_BLAS
absent() { [ -n "${GPUGEMM_NEED_CLIENTS:-}" ] && { fail "$client cannot be had here: $*"; finish; }; skip "$client: $*"; }
python=${PYTHON:-python3}
cc=${CC:-gcc}
need() { command -v "$1" > /dev/null || absent "no $1"; }
build() { "$@" -O2 -o "$work/program" 2> "$work/log" || absent "it does not build: $(grep -m1 error "$work/log")"; program=("$work/program"); }
preload=$PRELOAD count=
tolerance=1e-9

case $client in
numpy) program=("$python" "$here/numpy_.py") && "$python" -c 'import numpy; assert numpy.__version__ >= "2"' 2> /dev/null || absent "no NumPy 2" ;;
scipy) program=("$python" "$here/scipy_.py") && "$python" -c 'import scipy' 2> /dev/null || absent "no SciPy" ;;
scikit) program=("$python" "$here/scikit.py") && tolerance=1e-6 && "$python" -c 'import sklearn' 2> /dev/null || absent "no scikit-learn" ;;
torch) # pip's or Debian's
    "$python" -c 'import torch' 2> /dev/null || python=/usr/bin/python3
    if ! "$python" -c 'import torch' 2> /dev/null; then # Ubuntu 24.04 has none
        ! command -v apt-cache > /dev/null || apt-cache show python3-torch 2> /dev/null | grep -q ^Package || skip "$client: this distribution has no PyTorch"
        absent "no PyTorch"
    fi
    program=("$python" "$here/torch_.py")
    ;;
debian_numpy)
    /usr/bin/python3 -c 'import numpy; assert "dist-packages" in numpy.__file__' 2> /dev/null || absent "no python3-numpy"
    program=(/usr/bin/python3 "$here/numpy_.py")
    ;;
octave) need octave-cli && program=(octave-cli --no-gui "$here/octave.m") && tolerance=1e-6 ;;
r) need Rscript && program=(Rscript "$here/r.R") ;;
armadillo) need g++ && build g++ "$here/armadillo.cpp" -larmadillo ;;
eigen) need g++ && build g++ -I/usr/include/eigen3 "$here/eigen.cpp" -lblas ;;
lapack) # by default Debian uses OpenBLAS's own liblapack.so.3 where that is installed, which never calls another BLAS; this is netlib's
    build "$cc" "$here/lapack.c" -llapack -lblas -lm
    "$cc" -O2 -shared -fPIC "$here/count.c" -o "$work/count.so" && count=$work/count.so || absent "count.c does not build"
    export LD_LIBRARY_PATH=$debian/lapack${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    ;;
fortran) need gfortran && build gfortran "$here/fortran.f90" -lblas ;;
cblas) build "$cc" "$here/cblas.c" -lblas -lm ;;
link_cblas) # this and the next: the same programs linked with LIB in place of a BLAS
    build "$cc" -I"$here/../../include/gpugemm" "$here/cblas.c" -L"$(dirname "$LIB")" -lgpugemm -Wl,-rpath,"$(dirname "$LIB")" -lm
    preload=
    ;;
link_fortran)
    need gfortran && build gfortran "$here/fortran.f90" -L"$(dirname "$LIB")" -lgpugemm -Wl,-rpath,"$(dirname "$LIB")"
    preload=
    ;;
hpcc)
    need hpcc
    sed "6s/^[0-9]*/${N:-500}/" "$here/hpccinf.txt" > "$work/hpccinf.txt"
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_ess_singleton_isolated=1 OMPI_MCA_btl=self OMPI_MCA_rmaps_base_oversubscribe=1
    program=(bash -c 'hpcc && sed -nE "s/^HPL_time=/time hpl /p; s/^Success=/hpl /p" hpccoutf.txt')
    ;;
*) fail "no client $client" && finish ;;
esac

cd "$work" || exit 1
GPUGEMM_MODE=cpu COUNT=count ${count:+env LD_PRELOAD="$count"} "${program[@]}" > without 2> err || { fail "it fails without LIB, too: $(tail -3 err)"; finish; }
rm -f hpccoutf.txt
GPUGEMM_STATS="$work/stats.%p.json" ${preload:+env LD_PRELOAD="$preload"} "${program[@]}" > with 2> err || { fail "with LIB: $(tail -3 err)"; finish; }
if [ -n "${TIMED:-}" ]; then # without statistics, which take some microseconds a call
    ${preload:+env LD_PRELOAD="$preload"} "${program[@]}" > with 2> err || fail "with LIB, without statistics: $(tail -3 err)"
fi

calls=0 gpu=0
for file in stats.*.json; do
    [ -e "$file" ] || continue
    calls=$((calls + $(stat_of "$file" calls))) gpu=$((gpu + $(stat_of "$file" gpu)))
done
echo "$client: LIB saw $calls calls, $gpu on the GPU"
if [ -n "$count" ]; then # the number of products depends on the version of LAPACK
    least=$(cat count)
    echo "$client: $least calls without LIB"
    [ "$least" -gt 0 ] || absent "its LAPACK calls no dgemm_ but its own"
fi
[ "$calls" -ge "$least" ] || fail "only $calls calls of at least $least came through LIB"
[ "${GPUGEMM_MODE:-}" != gpu ] || [ "$gpu" -gt 0 ] || fail "none on the GPU"

if [ "$client" = hpcc ]; then # checks its residuals itself
    grep -E 'FAILED' hpccoutf.txt && fail "an HPCC residual"
    grep -qE '[1-9][0-9]* tests completed and passed residual checks' hpccoutf.txt || fail "HPL did not run"
fi
awk -v tolerance=$tolerance -f "$here/compare.awk" without with || failures=$((failures + 1))
finish

#!/usr/bin/env bash
# setup.sh run|test — on a bare Debian 12 or Ubuntu 24.04 machine: installs what is missing, builds, and runs the main job (NumPy from pip under the
# preloaded library) or the tests. Asks no questions, installs nothing that is already there, and writes only to build/, apart from Debian's packages
# (NO_INSTALL=1: does not install these either). On two cores `run`, which installs compilers, CMake, Ninja, Python's venv and OpenBLAS, takes 1 to 9
# minutes; `test`, which also installs the programs that are tested (R, Octave, HPCC, PyTorch and others), 6 to 20. The CUDA toolkit is used if it is
# found (in PATH or /usr/local/cuda); without it the library has no GPU kernels.
set -euo pipefail
cd "$(dirname "$0")/.."
job=${1:-}
case $job in run | test) ;; *)
    echo "usage: $0 run|test" >&2
    exit 64
    ;;
esac

# program or file needed : the package that provides it
wanted="gcc:gcc g++:g++ cmake:cmake ninja:ninja-build python3:python3"
files="/usr/include/stdio.h:libc6-dev"
# where apt cannot be used (the GPU machine), tests whose programs are missing are skipped and say so
[ "$job" = test ] && wanted="$wanted gfortran:gfortran pkg-config:pkg-config strace:strace readelf:binutils"

# real programs for the client matrix, and tools to check man pages and other processors
clients="octave-cli:octave Rscript:r-base-core hpcc:hpcc mandoc:mandoc aarch64-linux-gnu-gcc:gcc-aarch64-linux-gnu qemu-aarch64:qemu-user"
client_files="/usr/include/armadillo:libarmadillo-dev /usr/include/eigen3/Eigen/Dense:libeigen3-dev
    /usr/lib/python3/dist-packages/numpy:python3-numpy /usr/aarch64-linux-gnu/include/stdio.h:libc6-dev-arm64-cross"

missing=
for pair in $wanted; do command -v "${pair%%:*}" > /dev/null || missing="$missing ${pair#*:}"; done
for pair in $files; do [ -e "${pair%%:*}" ] || missing="$missing ${pair#*:}"; done
PATH=$PATH:/usr/sbin:/sbin ldconfig -p 2> /dev/null | grep 'libopenblas\.so\.0' > /dev/null || [ -n "${GPUGEMM_BLAS:-}" ] || missing="$missing libopenblas0-pthread"
python3 -c 'import ensurepip, venv' 2> /dev/null || missing="$missing python3-venv"
if [ "$job" = test ]; then
    [ -e /usr/lib/"$(gcc -print-multiarch 2> /dev/null || echo x86_64-linux-gnu)"/blas/xblat3d ] || missing="$missing libblas-test libblas3"
fi
missing_clients=
if [ "$job" = test ]; then
    for pair in $clients; do command -v "${pair%%:*}" > /dev/null || missing_clients="$missing_clients ${pair#*:}"; done
    for pair in $client_files; do [ -e "${pair%%:*}" ] || missing_clients="$missing_clients ${pair#*:}"; done
    ls /usr/lib/*-linux-gnu/lapack/liblapack.so.3 /usr/lib/*-linux-gnu/liblapack.so > /dev/null 2>&1 || missing_clients="$missing_clients liblapack3 liblapack-dev"
fi

install_packages() { # some may not be available: continues with those that are
    [ $# -gt 0 ] || return 0
    local as_root=
    [ "$(id -u)" = 0 ] || as_root="sudo -n"
    if [ -z "${NO_INSTALL:-}" ] && command -v apt-get > /dev/null && { [ -z "$as_root" ] || command -v sudo > /dev/null; }; then
        echo "== installing: $*"
        export DEBIAN_FRONTEND=noninteractive
        [ -n "${updated:-}" ] || $as_root apt-get -qq update || echo "== no new lists of packages: those that are there must do" >&2
        updated=1
        if ! $as_root apt-get -qq -y install --no-install-recommends "$@" > build.apt.log 2>&1; then # one unknown name, and none is installed
            cat build.apt.log >&2
            for package; do
                [ $# -gt 1 ] && $as_root apt-get -qq -y install --no-install-recommends "$package" > build.apt.log 2>&1 ||
                    echo "== not installed: $package" >&2
            done
        fi
        rm -f build.apt.log
    else
        echo "== not installed: $*" >&2
    fi
}
install_packages $missing
install_packages $missing_clients
if [ "$job" = test ] && [ ! -e /usr/lib/python3/dist-packages/torch ] && ! python3 -c 'import torch' 2> /dev/null; then
    install_packages python3-torch # separately, because not every Ubuntu has it
fi

echo "== building"
[ -d /usr/local/cuda/bin ] && export PATH="$PATH:/usr/local/cuda/bin"
cmake --preset default > build.cmake.log 2>&1 || { cat build.cmake.log >&2; rm -f build.cmake.log; exit 1; }
grep -E '^-- gpugemm' build.cmake.log || true
rm -f build.cmake.log
cmake --build --preset default

# NumPy and pytest from pip: in a virtual environment of the build folder, unless this Python already has pip's NumPy. The other packages are for the
# client matrix and for pictures and are optional.
python=python3
modules='numpy, pytest, hypothesis' more='scipy scikit-learn matplotlib'
if ! python3 -c "import $modules; assert int(numpy.__version__.split('.')[0]) >= 2" 2> /dev/null; then
    python=build/venv/bin/python
    [ -x "$python" ] || python3 -m venv build/venv
    "$python" -c "import $modules" 2> /dev/null || "$python" -m pip -q install --disable-pip-version-check ${modules//,/}
    if [ "$job" = test ] && ! "$python" -c 'import scipy, sklearn, matplotlib' 2> /dev/null; then
        "$python" -m pip -q install --disable-pip-version-check $more || echo "== not installed: $more" >&2
    fi
fi

if [ "$job" = run ]; then
    echo "== $python examples/numpy_matmul.py, with libgpugemm preloaded"
    exec build/gpugemm run "$python" examples/numpy_matmul.py
fi
PYTHON=$(realpath -s "$(command -v "$python")") exec ctest --preset default

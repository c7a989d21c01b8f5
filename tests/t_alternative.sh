#!/usr/bin/env bash
# t_alternative.sh LIB — the library in place of libblas.so.3: every netlib tester (levels 1 to 3, s d c z) passes with all of its calls going through
# it, and so does Debian's NumPy over reference LAPACK, whose own error handler still takes precedence. The real BLAS is OpenBLAS, found by name.
. "$(dirname "$0")/lib.sh"
[ -x "$TESTERS/xblat1d" ] || skip "no netlib testers in $TESTERS (Debian: libblas-test)"
[ -e "$OPENBLAS_DIR/libopenblas.so.0" ] || skip "no OpenBLAS to pass calls on to"
nm -D "$LIB" | grep -q '__[at]san_' && skip "the testers cannot load a library with sanitizers"
unset GPUGEMM_BLAS
mkdir "$work/blas" "$work/run"
ln -s "$LIB" "$work/blas/libblas.so.3"
export LD_LIBRARY_PATH=$work/blas:$OPENBLAS_DIR:$RUNTIME

cd "$work/run" || exit 1
for type in s d c z; do
    for level in 1 2 3; do
        input=$TESTERS/${type}blat$level.in
        [ $level = 1 ] && input=/dev/null
        rm -f ./*
        "$TESTERS/xblat$level$type" < "$input" > stdout 2> stderr || fail "xblat$level$type: exit status $?"
        cat ./* > all
        passed=$(grep -aciE 'pass' all)
        [ "$passed" -ge 9 ] || fail "xblat$level$type: only $passed lines of PASS"
        grep -aE 'FAIL|SUSPECT|\*\*\*' all && fail "xblat$level$type"
    done
done

# A wrapper, a profiler say, that comes first and calls the library as the next one: it is not the real BLAS.
cat > wrapper.c << 'END'
#define _GNU_SOURCE
#include <dlfcn.h>
double ddot_(const int *n, const double *x, const int *incx, const double *y, const int *incy)
{
    double (*next)(const int *, const double *, const int *, const double *, const int *) = dlsym(RTLD_NEXT, "ddot_");
    return next(n, x, incx, y, incy);
}
END
if ${CC:-cc} -shared -fPIC -o "$work/wrapper.so" wrapper.c -ldl; then
    LD_PRELOAD=$work/wrapper.so timeout 60 "$TESTERS/xblat1d" > stdout 2> stderr < /dev/null || fail "xblat1d under a wrapper: exit status $?"
fi

python=/usr/bin/python3
if [ -e "$debian/lapack/liblapack.so.3" ] && "$python" -c 'import numpy; assert "/dist-packages/" in numpy.__file__' 2> /dev/null; then
    LD_LIBRARY_PATH=$work/blas:$debian/lapack "$python" - > out 2> err << 'END' || { fail "Debian's NumPy:"; cat out err; }
import numpy as np
from numpy.linalg import lapack_lite
rng = np.random.default_rng(1)
a = rng.random((200, 200))
assert abs(np.linalg.solve(a, a @ a) - a).max() < 1e-9
z = a + 1j * a.T
assert abs(np.vdot(z[0], z[1]) - (z[0].conj() * z[1]).sum()) < 1e-9
a = np.zeros((1, 1))
try:
    lapack_lite.dorgqr(1, 1, 1, a, 0, a, a, 0, 0)
    raise SystemExit("an illegal argument was not reported to NumPy")
except ValueError as report:
    assert "DORGQR parameter number 5" in str(report)
END
fi
finish

#!/usr/bin/env bash
# t_install.sh LIB BUILD — what `cmake --install` installs works from any location: the prefix is moved before it is used. t_link.c is built against
# it with the compiler alone (and so are the examples in C), as C++, through pkg-config and by a CMake project through find_package; also a Fortran
# program if there is gfortran. Each needs libgpugemm and no BLAS, and gets right results from the BLAS that the library finds. The command runs, too.
# The CMake project also finds the build folder itself. In the end the target `uninstall` leaves no file.
. "$(dirname "$0")/lib.sh"
here=$(dirname "$(realpath "$0")")
build=$(realpath "${2:?usage: t_install.sh LIB BUILD}")
cc=${CC:-gcc} cxx=${CXX:-g++}
command -v cmake "$cc" readelf > /dev/null || skip "no cmake, C compiler or binutils"
nm -D "$LIB" | grep -q '__[at]san_' && skip "a build with sanitizers is not for installing"
[ -n "${GPUGEMM_BLAS:-}" ] || [ -e "$OPENBLAS_DIR/libopenblas.so.0" ] || skip "no OpenBLAS to pass calls on to"

[ ! -e "$build/install_manifest.txt" ] || cp -p "$build/install_manifest.txt" "$work/manifest" # the list of what the user installed
trap '[ ! -e "$work/manifest" ] || mv "$work/manifest" "$build/install_manifest.txt"; rm -rf "$work"' EXIT
cmake --install "$build" --prefix "$work/staged" > "$work/log" || fail "cmake --install: $(tail -3 "$work/log")"
mv "$work/staged" "$work/prefix"
prefix=$work/prefix
libdir=$(dirname "$(find "$prefix" -name libgpugemm.so.0)")
export LD_LIBRARY_PATH=$libdir${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
for file in include/gpugemm.h include/gpugemm/cblas.h bin/gpugemm share/doc/gpugemm/LICENSE share/doc/gpugemm/docs/precision.md; do [ -e "$prefix/$file" ] || fail "not installed: $file"; done
while IFS=: read -r document link; do # links in documents lead to files that are installed, too
    [ -e "$(dirname "$document")/${link#*(}" ] || fail "$document links to ${link#*(}, which is not installed"
done < <(grep -oE '\]\([^)#]+' -r "$prefix/share/doc/gpugemm" --include=*.md | grep -v '(http')

try() { # try PROGRAM: links with the library and no BLAS, and is right
    readelf -dW "$work/$1" | grep NEEDED > "$work/needed" || { fail "$1 was not built"; return; }
    grep -q 'libgpugemm\.so\.0' "$work/needed" || fail "$1 does not need libgpugemm.so.0"
    grep -i 'blas\|cuda\|nvidia' "$work/needed" | grep -v libgpugemm && fail "$1 needs more"
    "$work/$1" > "$work/out" 2>&1 || { fail "$1:"; cat "$work/out"; }
}

flags=(-I"$prefix/include" -I"$prefix/include/gpugemm" -L"$libdir" -lgpugemm)
"$cc" -Wall -Werror "$here/t_link.c" "${flags[@]}" -o "$work/plain" && try plain
if command -v "$cxx" > /dev/null; then
    "$cxx" -Wall -Werror -x c++ "$here/t_link.c" -x none "${flags[@]}" -o "$work/cxx" && try cxx
fi
for example in link stream; do # on a machine with a GPU the second multiplies on it
    "$cc" -Wall -Werror "$here/../examples/$example.c" "${flags[@]}" -ldl -lm -o "$work/$example" && try $example && echo "$example: $(tail -1 "$work/out")"
done
if command -v pkg-config > /dev/null; then
    export PKG_CONFIG_PATH=$libdir/pkgconfig
    "$cc" "$here/t_link.c" $(pkg-config --cflags --libs gpugemm) -o "$work/pkgconfig" && try pkgconfig
    case $(pkg-config --cflags gpugemm) in *"$prefix/"*) ;; *) fail "gpugemm.pc does not follow its prefix" ;; esac
fi

mkdir "$work/project"
cat > "$work/project/CMakeLists.txt" << END
cmake_minimum_required(VERSION 3.16)
project(outside C)
find_package(gpugemm 0.1 REQUIRED)
add_executable(outside $here/t_link.c)
target_link_libraries(outside PRIVATE gpugemm::gpugemm)
END
for found in "$prefix" "$build"; do
    cmake -G Ninja -S "$work/project" -B "$work" -DCMAKE_PREFIX_PATH="$found" -Dgpugemm_DIR= -DCMAKE_C_COMPILER="$cc" > "$work/log" 2>&1 &&
        cmake --build "$work" >> "$work/log" 2>&1 || { fail "find_package in $found:"; tail "$work/log"; }
    grep -q "^gpugemm_DIR:PATH=$found" "$work/CMakeCache.txt" && try outside || fail "find_package: not the one in $found"
done

if command -v gfortran > /dev/null; then
    cat > "$work/fortran.f90" << 'END'
program link
    implicit none
    double precision :: a(2, 2), b(2, 2), c(2, 2), ddot
    complex(kind(0d0)) :: x(2), zdotc
    real :: sdot, s(2)
    logical :: lsame
    a = reshape([1d0, 2d0, 3d0, 4d0], [2, 2]); b = a; c = 1; x = [(1d0, 2d0), (0d0, 1d0)]; s = [2.0, 3.0]
    call dgemm('N', 'T', 2, 2, 2, 1d0, a, 2, b, 2, 1d0, c, 2)
    if (any(c /= matmul(a, transpose(b)) + 1)) stop 1
    if (ddot(4, a, 1, b, 1) /= 30) stop 2
    if (zdotc(2, x, 1, x, 1) /= 6) stop 3
    if (sdot(2, s, 1, s, 1) /= 13) stop 4
    if (.not. lsame('n', 'N')) stop 5
end program
END
    gfortran "$work/fortran.f90" -L"$libdir" -lgpugemm -o "$work/fortran" && try fortran
fi

"$prefix/bin/gpugemm" info > "$work/out" 2>&1 || { fail "gpugemm info:"; cat "$work/out"; }
"$prefix/bin/gpugemm" run "$work/plain" > "$work/out" 2>&1 || { fail "gpugemm run:"; cat "$work/out"; }

mv "$prefix" "$work/staged"
cmake --build "$build" --target uninstall > "$work/log" || fail "uninstall: $(tail -3 "$work/log")"
[ -z "$(find "$work/staged" ! -type d)" ] || fail "uninstall leaves $(find "$work/staged" ! -type d)"
finish

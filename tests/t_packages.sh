#!/usr/bin/env bash
# t_packages.sh LIB — the Debian packages, built by CPack: installed, used as the system's libblas.so.3 by Debian's NumPy and Octave, developed
# against, and removed, which restores the former state. Needs root. Runs on a private copy of this system (an overlay in a mount namespace) where the
# kernel permits that, else, with GPUGEMM_NEED_CLIENTS=1 (a machine used only by CI), on the system itself. The packages here have no kernels, because
# nvcc takes minutes.
. "$(dirname "$0")/lib.sh"
root=$(realpath "$(dirname "$0")/..")
if [ "${GPUGEMM_PACKAGES_INSIDE:-}" = "" ]; then
    command -v dpkg apt-get cmake cpack ninja > /dev/null || skip "not a Debian"
    [ "$(id -u)" = 0 ] || skip "only root installs packages"
    build=$(mktemp -d /tmp/gpugemm-packages-XXXXXX)
    chmod 755 "$build"
    trap 'rm -rf "$work" "$build"' EXIT
    cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX=/usr -DGPUGEMM_CUDA=OFF -DGPUGEMM_TESTS=OFF > "$work/log" 2>&1 &&
        cmake --build "$build" -j2 >> "$work/log" 2>&1 && (cd "$build" && cpack) >> "$work/log" 2>&1 || { fail "the packages:"; tail "$work/log"; finish; }
    ls "$build"/*.deb
    for package in libgpugemm0 libgpugemm-dev gpugemm; do
        dpkg-deb -c "$build/$package"_*.deb | grep -q "/usr/share/doc/$package/copyright$" || { fail "$package has no copyright file"; finish; }
    done
    for file in libgpugemm0:libgpugemm.so gpugemm:gpugemm; do
        said=$(dpkg-deb -f "$build/${file%:*}"_*.deb Depends | grep -oP 'libc6 \(>= \K[0-9.]+')
        needs=$(nm -D "$build/${file#*:}" | grep -oP '@GLIBC_\K[0-9.]+' | sort -V | tail -1)
        [ "$(printf '%s\n' "$needs" "$said" | sort -V | tail -1)" = "$said" ] || { fail "${file%:*} says libc6 $said and needs $needs"; finish; }
    done
    export GPUGEMM_PACKAGES_INSIDE=$build
    copy='mount -t tmpfs tmpfs /mnt && mkdir /mnt/upper /mnt/work /mnt/root &&
        mount -t overlay overlay -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work /mnt/root &&
        mount --rbind /proc /mnt/root/proc && mount --rbind /dev /mnt/root/dev'
    if unshare -m sh -c "$copy" 2> /dev/null; then
        unshare -m sh -c "$copy && mkdir -p /mnt/root$build && mount --bind $build /mnt/root$build && exec chroot /mnt/root '$root/tests/t_packages.sh' '$LIB'"
        exit
    fi
    [ -n "${GPUGEMM_NEED_CLIENTS:-}" ] || skip "no overlay can be mounted, and this is not a machine to install on"
fi

# ---- on the copy, or on CI's own machine -------------------------------------------------------------------------------------------------

cd "$GPUGEMM_PACKAGES_INSIDE" || exit 1
unset GPUGEMM_BLAS LD_LIBRARY_PATH LD_PRELOAD
export DEBIAN_FRONTEND=noninteractive HOME=/tmp
multiarch=$(gcc -print-multiarch)
name=libblas.so.3-$multiarch
ours=/usr/lib/$multiarch/gpugemm/libblas.so.3
state() { update-alternatives --query "$name" | grep -v '^$'; readlink -f "/usr/lib/$multiarch/libblas.so.3"; }
install() { apt-get -qq install "$@" > "$work/log" 2>&1 || { fail "installing $*:"; tail -5 "$work/log"; }; }
package() { for p in "$@"; do echo "$GPUGEMM_PACKAGES_INSIDE"/"$p"_*.deb; done; }

# The README's own lines; apt must neither ask nor fetch recommended packages.
printf 'APT::Get::Assume-Yes "true";\nAPT::Install-Recommends "false";\n' > "$work/apt.conf"
export APT_CONFIG=$work/apt.conf
readme() { # readme PATTERN : executes that line of the README
    local line
    line=$(grep -m1 -E "^    $1" "$root/README.md" | sed 's/  *#.*//')
    [ "$line" ] || fail "README: no line $1"
    bash -c "$line" > "$work/log" 2>&1 || { fail "README:$line"; tail -5 "$work/log"; }
}

state > "$work/before"
mkdir "$work/here" && ln -s "$PWD" "$work/here/build-package"
cd "$work/here" || exit 1
readme 'apt install '
grep -q "^Status: auto" <(update-alternatives --query "$name") || fail "the alternative is no longer automatic"
[ "$(readlink -f "/usr/lib/$multiarch/libblas.so.3")" = "$(tail -1 "$work/before")" ] || fail "it was chosen without being asked"
update-alternatives --list "$name" | grep -qx "$ours" || fail "it is not registered"
ldconfig -p | grep -q libgpugemm.so.0 || fail "ldconfig does not know it"

if [ "$multiarch" = x86_64-linux-gnu ]; then readme 'update-alternatives --set '; else update-alternatives --set "$name" "$ours"; fi > /dev/null
[ "$(readlink -f "/usr/lib/$multiarch/libblas.so.3")" = "$(readlink -f "$ours")" ] || fail "it cannot be chosen"
used() { # used WHAT COMMAND… : it works, with its products going through the library, without preloading
    local what=$1
    shift
    GPUGEMM_STATS=$work/stats.json "$@" > "$work/out" 2>&1 || { fail "$what:"; tail -5 "$work/out"; }
    echo "$what: $(stat_of "$work/stats.json" calls) calls through libblas.so.3"
    [ "$(stat_of "$work/stats.json" calls)" -ge 1 ] || fail "$what: no call came through"
    rm -f "$work/stats.json"
}
[ -z "${GPUGEMM_NEED_CLIENTS:-}" ] || { [ -e /usr/lib/python3/dist-packages/numpy ] && command -v octave-cli > /dev/null; } || fail "no Debian NumPy or Octave here"
if [ -e /usr/lib/python3/dist-packages/numpy ]; then
    used NumPy /usr/bin/python3 -c 'import numpy as np; a = np.arange(40000.).reshape(200, 200) % 7; assert (a @ a)[3, 5] == (a[3] * a[:, 5]).sum(); np.linalg.svd(a)'
fi
if command -v octave-cli > /dev/null; then
    used Octave octave-cli --no-gui --eval 'a = mod(reshape(1:40000, 200, 200), 7); b = a * a; assert(b(3, 5), sum(a(3, :) .* a(:, 5)'"'"')); svd(a);'
fi

install $(package libgpugemm-dev)
gpugemm check > "$work/out" 2>&1 || { fail "gpugemm check:"; cat "$work/out"; }
gpugemm run true || fail "gpugemm run"
[ "$(pkg-config --libs gpugemm)" ] && gcc "$root/tests/t_link.c" $(pkg-config --cflags --libs gpugemm) -o "$work/link" && "$work/link" > /dev/null || fail "pkg-config"
mkdir "$work/project" && cat > "$work/project/CMakeLists.txt" << END
cmake_minimum_required(VERSION 3.16)
project(outside C)
find_package(gpugemm REQUIRED)
add_executable(outside $root/tests/t_link.c)
target_link_libraries(outside PRIVATE gpugemm::gpugemm)
END
cmake -G Ninja -S "$work/project" -B "$work/project/build" > "$work/log" 2>&1 && cmake --build "$work/project/build" >> "$work/log" 2>&1 && "$work/project/build/outside" > /dev/null || fail "find_package"
for page in man1/gpugemm.1 man3/libgpugemm.3; do
    dpkg -L gpugemm libgpugemm-dev | grep -q "$page" || fail "no man page $page"
done
files=$(dpkg -L libgpugemm0 libgpugemm-dev gpugemm | while read -r f; do [ -d "$f" ] || echo "$f"; done)

dpkg --remove gpugemm libgpugemm-dev libgpugemm0 > "$work/log" 2>&1 || { fail "removing:"; cat "$work/log"; }
for f in $files; do [ ! -e "$f" ] || fail "left behind: $f"; done
# when an alternative chosen by hand is removed, the selection becomes automatic again
state | diff "$work/before" - || fail "the former state (<) is not restored (>)"
finish

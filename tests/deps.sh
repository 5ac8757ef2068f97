#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Install the Debian packages that a task needs and that are missing. Changes nothing else.
# Usage: tests/deps.sh SET...
# SET: build check fuzz model lab lint demo image bench bench-lab plot tap-numpy ranks
# llvm has the symbolizer that lets clang's sanitizers name a function in a report or suppression.
# Works as root or through sudo; without either it names the packages and exits 3.
set -euo pipefail

declare -A packages=(
    [build]="gcc libc6-dev libconfig-dev libnvme-dev libjson-c-dev libpciaccess-dev libexpat1-dev libblkid-dev zlib1g-dev libsodium-dev libibverbs-dev"
    [check]="libcriterion-dev python3 libopenmpi-dev openmpi-bin"
    [fuzz]="clang libclang-rt-dev llvm"
    [model]="spin tcc"
    [lint]="g++ git clang-format clang-tidy cppcheck universal-ctags shellcheck"
    [lab]="qemu-system-x86 busybox-static kmod pciutils util-linux binutils python3 fdisk e2fsprogs iproute2 ibverbs-providers perftest"
    [image]="grub-common grub-pc-bin grub-efi-amd64-bin xorriso mtools kmod binutils python3"
    [demo]="sqlite3 rhash python3"
    [bench]="valgrind python3"
    [bench-lab]="fio"
    [plot]="gnuplot-nox python3"
    [tap-numpy]="python3 python3-numpy"
    [ranks]="libopenmpi-dev openmpi-bin python3"
)

wanted=()
for set in "$@"; do
    [ -n "${packages[$set]:-}" ] || { echo "deps: no such set: $set (${!packages[*]})" >&2; exit 2; }
    read -ra some <<<"${packages[$set]}"
    wanted+=("${some[@]}")
done

missing=()
for package in "${wanted[@]}"; do
    # shellcheck disable=SC2016  # dpkg-query's own format, not the shell's
    status=$(dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null || true)
    grep -qx installed <<<"$status" || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || {
        echo "deps: to install as root: apt-get install ${missing[*]}" >&2
        exit 3
    }
    as_root=(sudo)
fi
echo "deps: installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get -qq -o DPkg::Lock::Timeout=300 update
"${as_root[@]}" apt-get -qq -o DPkg::Lock::Timeout=300 install -y --no-install-recommends "${missing[@]}" >/dev/null

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Properties of the binary: shared libraries, size, no paths of the build machine.
# Environment: HEADRACE, the binary under test.
set -uo pipefail
# shellcheck source=tests/cli/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"

libraries() {
    local others
    others=$(ldd "$HEADRACE" | awk '{ print $1 }' |
        grep -vE '^(linux-vdso\.so\.1|libc\.so\.6|libm\.so\.6|/lib64/ld-linux-x86-64\.so\.2)$')
    [ -z "$others" ] || { echo "linked with: $others"; return 1; }
}

# With the images for three kinds of GPU.
small() {
    local bytes
    strip -o "$SCRATCH/stripped" "$HEADRACE" || return 1
    bytes=$(stat -c %s "$SCRATCH/stripped")
    [ "$bytes" -lt $((8 << 20)) ] || { echo "$bytes bytes"; return 1; }
}

no_paths() {
    ! grep -aoF "$PWD" "$HEADRACE" | head -n 3 | grep .
}

# Sanitizer builds need their run-time libraries and are larger.
unless_sanitized() { check "$@"; }
if ldd "$HEADRACE" 2>/dev/null | grep -E 'lib(asan|tsan|ubsan)' >/dev/null; then
    unless_sanitized() { skip "sanitizer build" "$1"; }
fi
unless_sanitized "only libc, libm and the loader are linked dynamically" libraries
unless_sanitized "the binary without debug information is under 8 MiB" small
unless_sanitized "the binary carries no path of its builder" no_paths
done_testing

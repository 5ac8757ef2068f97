#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every header compiles alone, as C; a header of worker code (one that includes nvme/queue/worker.h
# itself) also as C++, because nvcc compiles it so. Include guards are named after the file.
# Environment: CUDA_FLAGS, the compiler's flags for cuda.h; without it headers that need it are left
# out.
set -euo pipefail

try() {
    local header=$1 guard
    guard=$(tr 'a-z/.-' 'A-Z___' <<<"$header")
    grep -q "^#ifndef $guard\$" "$header" || { echo "$header: no include guard $guard"; return 1; }
    # shellcheck disable=SC2086  # words of their own
    echo "#include \"$header\"" |
        gcc -std=gnu11 -march=x86-64-v2 -iquote . -D_GNU_SOURCE -Wall -Wextra -Wno-unused-parameter -Werror \
            ${CUDA_FLAGS:-} -fsyntax-only -x c - ||
        { echo "$header: does not compile alone as C"; return 1; }
    grep -q '^#include "nvme/queue/worker.h"' "$header" || return 0
    echo "#include \"$header\"" |
        g++ -std=gnu++17 -march=x86-64-v2 -iquote . -Wall -Wextra -Wno-unused-parameter -Werror -fsyntax-only -x c++ - ||
        { echo "$header: worker code, does not compile alone as C++"; return 1; }
}
export -f try

# The CUDA part of nvme/queue/worker.h compiles only with nvcc, which has its own build rule.
without=(! -path 'nvme/queue/worker_cuda.h')
[ -n "${CUDA_FLAGS:-}" ] ||
    without+=(! -path 'gpu/cuda/*' ! -path 'tests/fakes/cuda*' ! -path 'tests/gpu/*')
find -- * -name '*.h' ! -path 'build*' "${without[@]}" -print0 |
    xargs -0 -n 1 -P "$(nproc)" bash -c "try \"\$0\""

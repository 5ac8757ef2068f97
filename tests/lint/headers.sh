#!/bin/bash
# Every header compiles alone, as C; a header of worker code (one that includes gpu/worker.h itself)
# also as C++, because nvcc sees it so. Include guards are named after the file.
set -euo pipefail

try() {
    local header=$1 guard
    guard=$(tr 'a-z/.-' 'A-Z___' <<<"$header")
    grep -q "^#ifndef $guard\$" "$header" || { echo "$header: no include guard $guard"; return 1; }
    echo "#include \"$header\"" |
        gcc -std=gnu11 -march=x86-64-v2 -iquote . -D_GNU_SOURCE -Wall -Wextra -Werror -fsyntax-only -x c - ||
        { echo "$header: does not compile alone as C"; return 1; }
    grep -q '^#include "gpu/worker.h"' "$header" || return 0
    echo "#include \"$header\"" |
        g++ -std=gnu++17 -march=x86-64-v2 -iquote . -Wall -Wextra -Werror -fsyntax-only -x c++ - ||
        { echo "$header: worker code, does not compile alone as C++"; return 1; }
}
export -f try

# The CUDA side of gpu/worker.h compiles only with nvcc, which has its own build rule.
find -- * -name '*.h' ! -path 'build*' ! -path 'gpu/cuda/*' -print0 |
    xargs -0 -n 1 -P "$(nproc)" bash -c "try \"\$0\""

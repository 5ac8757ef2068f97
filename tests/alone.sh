#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Print the files of tests/unit that are linked into a program of their own. The others of a folder share one.
# A file is alone when it takes the place of a function for all that is linked with it: it, or a header of
# tests/ that it includes, defines a function that is not static or includes a .c file.
set -euo pipefail
cd "$(dirname "$0")/.."

# Fakes that replace functions without being asked.
fakes=(tests/fakes/{pciaccess,vfio}.h)

# replacing FILE...: those that define an external function or include a .c file
replacing() {
    awk 'FNR == 1 { head = "" }
        /^#include ".*\.c"/ { print FILENAME; nextfile }
        /^[A-Za-z_].*[,)]$/ && !/^(static|typedef|enum|extern|Test|ParameterizedTest)/ { head = $0; next }
        /^[ \t]/ && head != "" { next }
        /^\{/ && head != "" { print FILENAME; nextfile }
        { head = "" }' "$@"
}

# including FOLDER HEADER...: the files of the folder that include one of the headers
including() {
    printf '#include "%s"\n' "${@:2}" | grep -rlFf - --include='*.[ch]' "$1" || true
}

mapfile -t headers < <(printf '%s\n' "${fakes[@]}"; replacing tests/fakes/*.h tests/harness/*.h)
mapfile -t -O ${#headers[@]} headers < <(including tests/fakes "${headers[@]}"; including tests/harness "${headers[@]}")
mapfile -t files < <(find tests/unit -name '*.c')
{
    echo tests/unit/boot/engine/bringup/tick.c # waits by the product's clock; fakes/clock waits without ticks
    echo tests/unit/gpu/cuda/measure/cufile.c # looks for the real libcufile; fakes/cufile is found in its place
    echo tests/unit/boot/cmd/topo/cases.c # runs in one build only (check.mk)
    including tests/unit "${headers[@]}"
    replacing "${files[@]}"
} | sort -u

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Figures of `headrace topo` on a large capture: time and memory, against lspci printing the same file.
# Usage: tests/bench/topo.sh BUILD [FUNCTIONS]     (lspci is in the package pciutils)
set -euo pipefail
build=$1 functions=${2:-10000}
file=$(mktemp)
trap 'rm -f "$file" "$file.time"' EXIT

"$build/tests/bench/topo_gen" "$functions" >"$file"
echo "capture: $functions functions, $(stat -c %s "$file") bytes"
# best COMMAND...: smallest time and memory of three runs; the exit code of topo is a verdict
best() {
    for _ in 1 2 3; do
        /usr/bin/time -o "$file.time" -f '%e %M' "$@" >/dev/null 2>&1 || true
        tail -n 1 "$file.time"
    done | sort -n | head -n 1
}
read -r ours memory < <(best "$build/headrace" topo --from "$file")
echo "headrace topo: $ours s, $memory KiB"
"$build/headrace" topo --from "$file" | head -n 1 || true
if command -v lspci >/dev/null; then
    read -r theirs _ < <(best lspci -vv -F "$file")
    echo "lspci -vv -F: $theirs s; ratio $(awk "BEGIN { printf \"%.2f\", $ours / $theirs }")"
fi
read -r live _ < <(best "$build/headrace" topo)
echo "this machine: $live s"

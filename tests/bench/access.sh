#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The examples of access operators at sizes for a GPU, one line of times and ratios for each, for the table in
# tests/bench/README.md. Needs 24 GiB in FOLDER, by default /dev/shm.
# Usage: tests/bench/access.sh BUILD_FOLDER [DEVICE [FOLDER]]     DEVICE: cuda:0
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${1:?usage: tests/bench/access.sh BUILD_FOLDER [DEVICE [FOLDER]]}
device=${2:-cuda:0} folder=${3:-/dev/shm}
dir=$(mktemp -d "$folder/headrace-access-XXXXXX")
trap 'rm -rf "$dir"' EXIT

# example NAME VARIABLE=VALUE...
example() {
    local name=$1
    shift
    # in memory: otherwise the controller's system calls limit the rate
    if env "$@" DEVICE="$device" DIR="$dir/$name" SSD="soft:$dir/$name/ssd.img,threads=12,cache=0,populate=1" \
        THREADS=16 tests/demo/example.sh "$name" "$build" >"$dir/out" 2>&1; then
        printf '%s:' "$name $*"
        sed -n "s/^$name: / /p" "$dir/out" | tr -d '\n'
        echo
        awk '$1 == "p50_ns" || $1 == "teps" || $1 == "lookups_per_s" || $1 == "keys_per_s" { print "    " $0 }' \
            "$dir/$name/cached.out"
    else
        cat "$dir/out"
        exit 1
    fi
    rm -rf "${dir:?}/$name"
}

example chase SCALE=22 COUNT=20000 IO=1 COMPUTE=1
example gather SCALE=22 COUNT=20000000 ZIPF=1.0 IO=12 COMPUTE=112
example gather SCALE=22 COUNT=20000000 ZIPF=1.0 IO=12 COMPUTE=112 ISSUERS=32
example join SCALE=22 COUNT=20000000 IO=8 COMPUTE=112
example bfs SCALE=24 EDGE_FACTOR=16 IO=16 COMPUTE=112 BLOCK=256

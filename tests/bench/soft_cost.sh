#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Instructions of the software controller per command, counted by callgrind, without threads. Usage:
# tests/bench/soft_cost.sh BUILD-FOLDER. Prints "instructions per command: N (CASE), M of them copy"
# for each case; fails when N - M is over the limit of the case. The cost of copies depends on the
# machine's vector instructions.
set -euo pipefail
build=${1:?usage: $0 BUILD-FOLDER}
program=$build/tests/bench/soft_rate
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0

# count NAME LIMIT COMMANDS ARGUMENT...
count() {
    local name=$1 limit=$2 commands=$3
    shift 3
    valgrind --tool=callgrind --toggle-collect=poll_once --callgrind-out-file="$work/out" \
        "$program" --queues 4 --steps "$commands" "$@" >"$work/done" 2>"$work/log" ||
        { cat "$work/log"; exit 1; }
    callgrind_annotate --auto=no --threshold=100 "$work/out" >"$work/functions"
    awk -v commands="$(cat "$work/done")" -v limit="$limit" -v name="$name" '
        { gsub(",", "", $1) }
        /PROGRAM TOTALS/ { all = $1 / commands }
        !/=>/ && /:stream( |$)|mem(cpy|move)_/ { copied += $1 / commands }
        END {
            printf "instructions per command: %.1f (%s), %.1f of them copy\n", all, name, copied
            exit !all || all - copied > limit
        }' "$work/functions" || bad=1
}

memory=memory,size=64M
count "soft:null, 32 per doorbell" 80 20000 --depth 128
count "soft:null, 1 per doorbell" 480 20000 --depth 1 --batch 1
count "4 KiB reads, 32 per doorbell" 160 20000 --device $memory --depth 128
count "4 KiB writes, 32 per doorbell" 180 20000 --device $memory --depth 128 --access write
count "128 KiB reads, 4 per doorbell" 3500 2000 --device $memory --depth 4 --batch 4 --bytes 131072
exit $bad

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Instructions of the driver per 4 KiB read, submit and reap together, counted by callgrind.
# Usage: tests/bench/driver_cost.sh BUILD-FOLDER
# Prints "instructions per read: N (batch B)" for each batch; fails when one is over the limit.
set -euo pipefail
limit=200 reads=20000
build=${1:?usage: $0 BUILD-FOLDER}
program=$build/tests/bench/driver_cost
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0

for batch in 1 4 32; do
    valgrind --tool=callgrind --toggle-collect='work_*' --toggle-collect=complete \
        --callgrind-out-file="$work/out" "$program" $batch $reads >"$work/done" 2>"$work/log" ||
        { cat "$work/log"; exit 1; }
    awk -v batch=$batch -v reads="$(cat "$work/done")" -v limit=$limit '
        /^totals:/ {
            n = $2 / reads
            printf "instructions per read: %.1f (batch %d)\n", n, batch
            found = 1
            bad = n > limit
        }
        END { exit !found || bad }' "$work/out" || bad=1
done
exit $bad

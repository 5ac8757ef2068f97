#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Tests on the GPU of this machine: the headrace program (headrace.sh); streams between two of it
# (remote.sh); all of gpu-tests; pipelines a second time with large blocks that copy their tiles; and
# small parts under compute-sanitizer, if it is installed.
# Usage: tests/gpu/run.sh [PROGRAM]   (build/tests/gpu/gpu-tests, with its other files beside it)
# The last line counts parts: "N passed, M failed[, K not run]".
set -uo pipefail
program=${1:-build/tests/gpu/gpu-tests}
passed=0 failed=0 skipped=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# part LIMIT_SECONDS NAME COMMAND...
part() {
    local limit=$1 name=$2 status
    shift 2
    # a filter that names no test is a failure, too
    if timeout -k 5 "$limit" "$@" >"$log" 2>&1 && ! grep -q 'Tested: 0 ' "$log"; then
        passed=$((passed + 1))
        echo "ok   $name: $(grep -o 'Tested: [0-9]*' "$log" | tail -n 1)"
    else
        status=$?
        failed=$((failed + 1))
        echo "FAIL $name (exit status $status)"
        tail -n 40 "$log"
    fi
}

sanitizer=$(command -v compute-sanitizer || command -v /usr/local/cuda/bin/compute-sanitizer)

# sanitized TOOL FILTER: an error that the tool finds is a failure, too
sanitized() {
    if [ -z "$sanitizer" ]; then
        skipped=$((skipped + 1))
        echo "not run here: $1 of $2 (no compute-sanitizer)"
        return
    fi
    part 120 "$1 of $2" "$sanitizer" --tool "$1" --target-processes all --error-exitcode 9 \
        "$program" --filter "$2"
}

# script_parts SCRIPT: its parts, which it counts in its last line
script_parts() {
    timeout -k 5 300 "$(dirname "$0")/$1" "$(dirname "$program")" | tee "$log" | sed '$d'
    if [[ $(tail -n 1 "$log") =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed(,\ ([0-9]+)\ not\ run)?$ ]]; then
        passed=$((passed + BASH_REMATCH[1]))
        failed=$((failed + BASH_REMATCH[2]))
        skipped=$((skipped + ${BASH_REMATCH[4]:-0}))
    else
        failed=$((failed + 1))
        echo "FAIL $1 did not come to its end"
    fi
}

[ -x "$program" ] || { echo "run.sh: no program $program: make gpu-tests" >&2; exit 2; }
script_parts headrace.sh
script_parts remote.sh
for suite in memory launch side_by_side words life queue queue_order bench pipeline pipeline_faults; do
    part 120 "$suite" "$program" --filter "$suite/*"
done
export RIG_THREADS=128 RIG_COPY=1
part 120 "pipeline, blocks of 128 threads, copied tiles" "$program" --filter 'pipeline/*'
export RIG_THREADS=512 RIG_COPY=0
part 120 "pipeline, blocks of 512 threads" "$program" --filter 'pipeline/each*'
export RIG_THREADS=64
sanitized memcheck 'memory/an_arena*'
sanitized memcheck 'words/*'
sanitized memcheck 'pipeline/a_tile*'
sanitized memcheck 'bench/the_bench_sends*'
sanitized racecheck 'words/collective*'
sanitized racecheck 'launch/all_blocks*'
sanitized racecheck 'pipeline/a_tile*'
sanitized synccheck 'words/collective*'
sanitized synccheck 'pipeline/a_tile*'

[ $skipped -eq 0 ] && echo "$passed passed, $failed failed" ||
    echo "$passed passed, $failed failed, $skipped not run"
[ $failed -eq 0 ]

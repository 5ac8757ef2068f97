#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Count the test cases of finished runs and print "N passed, M failed[, K skipped]" as the last line,
# after a line for each test with cases that failed or were skipped.
# Usage: tests/summary.sh TEST...   TEST is a path without suffix: TEST.log is the output of the run,
# TEST.ok exists when it passed. A log is Criterion's (or tests/harness/runner.c's), TAP, or, without
# cases of its own (fuzz targets), one case. A test without these files counts as failed.
# Exit status 1 when anything failed or nothing ran.
set -euo pipefail

passed=0 failed=0 skipped=0
for name in "$@"; do
    ok=0 bad=0 skip=0
    if [ -f "$name.log" ]; then
        if synthesis=$(grep -ao 'Tested:.*Passing:.*Failing: .*' "$name.log" | tail -n 1); then
            ok=$(sed -E 's/.*Passing: *([0-9]+).*/\1/' <<<"$synthesis")
            bad=$(sed -E 's/.*Failing: *([0-9]+).*/\1/' <<<"$synthesis")
            skip=$(grep -ac '^\[SKIP\]' "$name.log" || true)
        elif grep -aqE '^1\.\.[0-9]+' "$name.log"; then
            skip=$(grep -aciE '^ok .*# *skip' "$name.log" || true)
            ok=$(($(grep -acE '^ok ' "$name.log" || true) - skip))
            bad=$(grep -acE '^not ok ' "$name.log" || true)
            plan=$(grep -aoE '^1\.\.[0-9]+' "$name.log" | head -n 1)
            missing=$((${plan#1..} - ok - bad - skip))
            [ "$missing" -le 0 ] || bad=$((bad + missing))
        elif [ -f "$name.ok" ]; then
            ok=1
        fi
    fi
    if [ ! -f "$name.ok" ] && [ "$bad" -eq 0 ]; then
        bad=1
    fi
    if [ "$bad" -gt 0 ]; then
        echo "failed: $name ($bad), see $name.log"
        awk '/^(not ok |\[FAIL\] )/ { print; notes = 1; next } notes && /^# / { print; next } { notes = 0 }' \
            "$name.log" 2>/dev/null | head -n 60 | sed 's/^/    /' || true
    fi
    if [ "$skip" -gt 0 ]; then
        why=$(sed -nE 's/^ok .*# *skip *//Ip; s/^\[SKIP\] *//p' "$name.log" | sort -u)
        echo "skipped: $name ($skip): ${why//$'\n'/; }"
    fi
    passed=$((passed + ok)) failed=$((failed + bad)) skipped=$((skipped + skip))
done
if [ "$skipped" -gt 0 ]; then
    echo "$passed passed, $failed failed, $skipped skipped"
else
    echo "$passed passed, $failed failed"
fi
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Repeat the failed tests of `make check` or `make check-all`, each alone on the machine. Its output is the standard input.
# Usage: tests/repeat.sh < LOG
# A test that passes three times alone depends on the load of the machine, which is a fault of the test
# or a race in the program: it is named, its first log is kept as NAME.first.log, and it does not stop
# the submission of a change that is not related to it. Nothing is repeated when a sanitizer has reported
# something, or when more than LIMIT programs have failed. After all repetitions each failed test is named again, with
# the failed cases of its first log, because a long log is often read at its end only. The last line is "N cases pass
# when repeated". Exit status 0 when each failed test has passed.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

limit=4 times=3
report='ERROR: (Address|Leak)Sanitizer|WARNING: ThreadSanitizer|runtime error:'
mapfile -t failed < <(sed -nE 's/^failed: ([^ ]+) \(([0-9]+)\), see .*/\1 \2/p')
cases=0 status=0 findings=()

variant() {
    case $1 in
        *-address-undefined/*) echo SAN=address,undefined ;;
        *-thread/*) echo SAN=thread ;;
        *-fuzz-quick/*) echo "FUZZ=quick FUZZ_SECONDS=3" ;;
        *) echo SAN= ;;
    esac
}

# repeat_lab NAME: the runs with a failed point, in guests of their own
repeat_lab() {
    local runs
    mapfile -t runs < <(sed -nE 's/^not ok [0-9]+ - ([^: ]+): .*/\1/p' "$1.first.log" | sort -u)
    [ ${#runs[@]} -gt 0 ] && tests/lab/run.py --build "${1%%/*}" --dynamic "${1%%-*}" \
        --cache "${1%%-*}/lab" "${runs[@]}"
}

repeat() {
    if [[ $1 == */tests/lab/lab ]]; then
        repeat_lab "$1"
        return
    fi
    # shellcheck disable=SC2046  # two words for the fuzz targets
    rm -f "$1.ok" && make --no-print-directory $(variant "$1") "$1.ok"
}

# excerpt LOG: the first failed cases with their reasons
excerpt() {
    awk -v report="$report" '$0 ~ report { rest = 8 } /^(not ok |\[FAIL\] |\[----\] )/ { rest = notes = 1 }
        rest > 0 || (notes && /^# /) { print "    " $0; rest--; next } { notes = 0 }' "$1" | head -n 25 || true
}

if [ ${#failed[@]} -eq 0 ] || [ ${#failed[@]} -gt $limit ]; then
    echo "no test is repeated: ${#failed[@]} programs have failed"
    echo "0 cases pass when repeated"
    exit 1
fi
for entry in "${failed[@]}"; do
    name=${entry% *} count=${entry#* }
    rm -f "$name.first.log"
    [ ! -f "$name.log" ] || cp "$name.log" "$name.first.log"
    if [ ! -f "$name.log" ] || grep -aqE "$report" "$name.log"; then
        findings+=("$name: not repeated: it has no log, or a report of a sanitizer")
        status=1
        continue
    fi
    passes=0
    while [ $passes -lt $times ] && repeat "$name"; do
        passes=$((passes + 1))
    done
    if [ $passes -eq $times ]; then
        why=$(grep -aom 1 -E '^(not ok|\[FAIL\]) .*' "$name.first.log")
        findings+=("$name: failed beside other tests, passed $times times alone: mend it: ${why:-no failed case}")
        cases=$((cases + count))
    else
        findings+=("$name: failed again when repeated alone")
        status=1
    fi
done
for finding in "${findings[@]}"; do
    echo "$finding"
    [ ! -f "${finding%%:*}.first.log" ] || excerpt "${finding%%:*}.first.log"
done
echo "$cases cases pass when repeated"
exit $status

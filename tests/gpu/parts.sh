# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Parts of the scripts in this folder. A script sets what is to be shown of a part that fails (files that may be missing),
# and may replace after_part().
passed=0 failed=0 skipped=0
shown_on_failure=(err)

after_part() {
    :
}

# part NAME COMMAND...: run a part whose name matches RIG_ONLY, a regular expression, or that makes data for others; the
# last line of its output is printed behind its name
part() {
    local name=$1 began
    shift
    [[ $name =~ ${RIG_ONLY:-} || $name == data* ]] || return 0
    began=$(date +%s%N)
    if "$@" >said 2>&1; then
        passed=$((passed + 1))
        echo "ok   $name ($((($(date +%s%N) - began) / 1000000)) ms): $(tail -n 1 said)"
    else
        failed=$((failed + 1))
        echo "FAIL $name"
        tail -n 20 said
        tail -n 20 "${shown_on_failure[@]}" 2>/dev/null
    fi
    after_part
}

# not_run NAME WHY
not_run() {
    skipped=$((skipped + 1))
    echo "not run here: $1 ($2)"
}

# finish: the last line, which counts the parts. The status says whether all have passed.
finish() {
    [ $skipped -eq 0 ] && echo "$passed passed, $failed failed" || echo "$passed passed, $failed failed, $skipped not run"
    [ $failed -eq 0 ]
}

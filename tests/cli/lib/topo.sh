# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Checks of the output of `headrace topo`, for scripts that have sourced tap.sh.
# Environment: HEADRACE, the binary under test.

# exits CODE ARGUMENTS...: topo ends with that exit code
exits() {
    local want=$1 got=0
    shift
    "$HEADRACE" topo "$@" || got=$?
    [ "$got" -eq "$want" ] || { echo "exit $got, expected $want"; return 1; }
}

# says PATTERN ARGUMENTS...: output has a line that matches
says() {
    local pattern=$1 said
    shift
    said=$("$HEADRACE" topo "$@" 2>&1)
    grep -qE -- "$pattern" <<<"$said" || { echo "no '$pattern' in:"; echo "$said"; return 1; }
}

# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# The store command with a time limit, and checks of commands, for scripts that have sourced tap.sh.
# Environment: HEADRACE, the binary under test.

store() { timeout -k 5 200 "$HEADRACE" store "$@"; }

# exits CODE TEXT COMMAND...: exit code, and a part of the output
exits() {
    local want=$1 text=$2 said code
    shift 2
    said=$("$@" 2>&1)
    code=$?
    [ "$code" -eq "$want" ] || { echo "exit code $code, not $want: $said"; return 1; }
    grep -qF -e "$text" <<<"$said" || { echo "'$text' is not in: $said"; return 1; }
}

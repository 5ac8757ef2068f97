#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# headrace topo --watch prints changes only; signals end the command cleanly.
# Environment: HEADRACE, the binary under test; SCRATCH, an empty folder.
# shellcheck disable=SC2317  # called through check
set -uo pipefail
# shellcheck source=tests/cli/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"

cd "$SCRATCH" || exit 1
watcher=
trap '[ -z "$watcher" ] || kill -KILL "$watcher" 2>/dev/null' EXIT

# machine WIDTH [DISKS]: one GPU and disks, each on its own root port, as text of lspci -vv
machine() {
    printf '00:00.0 Host bridge [0600]: Host [8086:1234]\n\n'
    printf '01:00.0 3D controller [0302]: NVIDIA Corporation Card [10de:20b0]\n'
    printf '\tCapabilities: [68] Express (v2) Endpoint, MSI 00\n'
    printf '\t\tLnkCap:\tPort #0, Speed 16GT/s, Width x16\n\t\tLnkSta:\tSpeed 16GT/s, Width x%s\n\n' "$1"
    for i in $(seq "${2:-1}"); do
        printf '0%d:00.0 Non-Volatile memory controller [0108]: Disk [144d:a80a]\n\n' $((i + 1))
    done
}

# begin ARGUMENTS...: a watcher over box.txt whose output is read line by line
begin() {
    rm -f said
    mkfifo said
    "$HEADRACE" topo --from box.txt --watch=1 "$@" >said 2>err.txt &
    watcher=$!
    exec 3<said
}

# expect PATTERN: wait up to a minute for a line of its output
expect() {
    local line
    while IFS= read -r -t 60 line <&3; do
        printf '%s\n' "$line" >>seen
        [[ $line =~ $1 ]] && return 0
    done
    echo "no '$1' in:"; cat seen err.txt
    return 1
}

# end SIGNAL: send the signal; $code is the exit code. Runs in this shell, the parent of the watcher.
end() {
    code=0
    kill -"$1" "$watcher"
    wait "$watcher" || code=$?
    watcher=
    exec 3<&-
}

# The new capture replaces the old one in one step.
becomes() {
    machine "$@" >box.new && mv box.new box.txt
}

becomes 16
begin
check "--watch prints the verdicts first" expect '1 pair '
check "--watch prints the whole output of the verdicts" expect '--explain GPU0 NVME0'
: >seen
becomes 8
check "a narrower link is reported" expect '01:00.0: link_width 16 -> 8'
becomes 8 2
check "a new function is reported" expect '03:00.0: new: .*Disk'
check "the changed headline is reported" expect 'GPU0 with NVME0-1: '
becomes 8
check "a removed function is reported" expect '03:00.0: gone'
check "unchanged output is not printed again" bash -c '! grep -E "functions, .* root bus|explain" seen'
printf '00:00.0 x\n00: 86 8z\n' >box.new && mv box.new box.txt
told_to_keep() {
    until grep -q 'the last reading stays valid' err.txt; do
        read -r -t 0.2 _ <&3
        [ $((++tries)) -lt 300 ] || return 1
    done
}
tries=0
check "an unreadable capture is reported, and the previous capture stays valid" told_to_keep
becomes 16
check "changes are reported after the capture is readable again" expect '01:00.0: link_width 8 -> 16'
check "the unreadable capture was reported once" test "$(grep -c stays err.txt)" -eq 1
end TERM
check "SIGTERM ends --watch with the exit code of the verdicts" test "$code" -eq 5

begin --html page.html --json
check "--watch --json prints the verdicts first" expect '"view": "verdicts"'
check "the JSON document of the verdicts is complete" expect '^}'
inode=$(stat -c %i page.html)
becomes 4
check "a change is a JSON document" expect '"view": "watch"'
check "the JSON document of a change has the value before" expect '"before": 16'
check "the JSON document of a change is complete" expect '^}'
renewed() {
    for _ in $(seq 300); do
        [ "$(stat -c %i page.html)" -eq "$inode" ] || return 0
        read -r -t 0.2 _ <&3
    done
    return 1
}
check "a change replaces the HTML page" renewed
end INT
check "SIGINT ends --watch with the exit code of the verdicts" test "$code" -eq 5
# refuses CODE ARGUMENTS...: topo ends with that code at once
refuses() {
    local want=$1 got=0
    shift
    timeout 60 "$HEADRACE" topo "$@" <box.txt || got=$?
    [ "$got" -eq "$want" ] || { echo "exit $got, expected $want"; return 1; }
}
full_output() {
    refuses 66 --from box.txt --watch=1 >/dev/full
}
check "--watch with standard input exits 64" refuses 64 --from - --watch
check "--watch=0 exits 64" refuses 64 --watch=0
check "--watch with more than a day exits 64" refuses 64 --watch=86401
check "--watch with another view exits 64" refuses 64 --watch --plan
check "a full output ends --watch with exit code 66" full_output
done_testing

#!/bin/bash
# headrace topo --watch: what changes is printed, and nothing else; signals end it in order.
# Environment: HEADRACE, the binary under test; SCRATCH, an empty folder.
# shellcheck disable=SC2317  # called through check
set -uo pipefail
# shellcheck source=tests/cli/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"

cd "$SCRATCH" || exit 1
watcher=
trap '[ -z "$watcher" ] || kill -KILL "$watcher" 2>/dev/null' EXIT

# machine WIDTH [DISKS]: one GPU and disks on root ports of their own, as text of lspci -vv
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

# expect PATTERN: a line of its output, within a minute
expect() {
    local line
    while IFS= read -r -t 60 line <&3; do
        printf '%s\n' "$line" >>seen
        [[ $line =~ $1 ]] && return 0
    done
    echo "no '$1' in:"; cat seen err.txt
    return 1
}

# end SIGNAL: send it; $code is the exit code. In this shell, whose child the watcher is.
end() {
    code=0
    kill -"$1" "$watcher"
    wait "$watcher" || code=$?
    watcher=
    exec 3<&-
}

# The new capture appears whole, under the name of the old one.
becomes() {
    machine "$@" >box.new && mv box.new box.txt
}

becomes 16
begin
check "the verdicts come first" expect '1 pair '
check "to their end" expect '--explain GPU0 NVME0'
: >seen
becomes 8
check "a link that became narrower is told" expect '01:00.0: link_width 16 -> 8'
becomes 8 2
check "so is a function that came" expect '03:00.0: new: .*Disk'
check "and the headline that is true now" expect 'GPU0 with NVME0-1: '
becomes 8
check "and one that went" expect '03:00.0: gone'
check "what did not change is not printed" bash -c '! grep -E "functions, .* root bus|explain" seen'
printf '00:00.0 x\n00: 86 8z\n' >box.new && mv box.new box.txt
told_to_keep() {
    until grep -q 'what was read before stays' err.txt; do
        read -r -t 0.2 _ <&3
        [ $((++tries)) -lt 300 ] || return 1
    done
}
tries=0
check "a capture that cannot be read is told once, and the old one stays" told_to_keep
becomes 16
check "until it can be read again" expect '01:00.0: link_width 8 -> 16'
check "the warning came once" test "$(grep -c stays err.txt)" -eq 1
end TERM
check "SIGTERM ends it with the code of the verdicts" test "$code" -eq 5

begin --html page.html --json
check "JSON begins with the verdicts" expect '"view": "verdicts"'
check "whose document ends" expect '^}'
inode=$(stat -c %i page.html)
becomes 4
check "a change is a document" expect '"view": "watch"'
check "with the fact" expect '"before": 16'
check "which ends, too" expect '^}'
renewed() {
    for _ in $(seq 300); do
        [ "$(stat -c %i page.html)" -eq "$inode" ] || return 0
        read -r -t 0.2 _ <&3
    done
    return 1
}
check "the page is written anew" renewed
end INT
check "SIGINT ends it as well" test "$code" -eq 5
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
check "standard input cannot be read again" refuses 64 --from - --watch
check "no seconds exit 64" refuses 64 --watch=0
check "too many, too" refuses 64 --watch=86401
check "--watch is a view" refuses 64 --watch --plan
check "an output that is full ends it" full_output
done_testing

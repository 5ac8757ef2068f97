# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# Functions for scenarios in a guest. `set -u` is on; devices of the machine are variables with
# their PCI addresses ($nv0, $gpu0, $rp); $INSTANCE is the running instance.
set -u
# shellcheck source=/dev/null
. /lab/env

# tell LINE: send it to the host unchanged
tell() {
    printf '%s\n' "$*" >&3
}

# check NAME COMMAND...: one TAP line; the command's output explains a failure
check() {
    check_name=$1
    shift
    if "$@" >/tmp/check.out 2>&1; then
        tell "ok - $check_name"
    else
        tell "not ok - $check_name"
        # awk, not sed: the last line may have no end
        head -n 60 /tmp/check.out | awk '{ print "# " $0 }' >&3
    fi
    cat /tmp/check.out
}

# note TEXT: a line of notes.txt on the host; notes before a power cut are confirmed data
note() {
    tell "note $*"
}

# skip NAME REASON
skip() {
    tell "ok - $1 # SKIP $2"
}

# host VERB ARGUMENTS...: make a request to the host (tests/lab/host.py); its answer is printed
host() {
    tell "do $*"
    IFS= read -r answer <&3 || return 1
    printf '%s\n' "${answer#* }"
    [ "${answer%% *}" = "done" ]
}

# peer TEXT: execute the text as a shell script in the other guest of a pair, with the functions below and its
# own devices; prints the end of the output. A program that goes on is started with `start`
peer() {
    peer_answer=$(host peer "$(printf '%s' "$*" | base64 | tr -d '\n')") || {
        echo "the other guest: $peer_answer"
        return 1
    }
    printf '%s' "${peer_answer#* }" | base64 -d
    return "${peer_answer%% *}"
}

# give NAME FILE: copy FILE of the guest to NAME in the scenario's folder on the host
give() {
    tell "file $1"
    gzip -1 -c "$2" | base64 >&3
    tell .
}

# exits CODE COMMAND...: the command ends with that exit code within a minute; its output is in
# /tmp/out and /tmp/err
exits() {
    exits_want=$1 exits_got=0
    shift
    timeout 60 "$@" >/tmp/out 2>/tmp/err </dev/null || exits_got=$?
    [ "$exits_got" = "$exits_want" ] && return 0
    echo "$*: exit code $exits_got, expected $exits_want"
    head -n 20 /tmp/out /tmp/err
    return 1
}

# nap: sleep 0.1 s. The program sleep is a new process, which takes a fifth of that time here.
[ -p /run/never ] || mkfifo /run/never
exec 9<>/run/never
nap() {
    # shellcheck disable=SC3045  # the shell of busybox has -t
    read -r -t 0.1 _ <&9
}

# uptime_seconds: seconds since the start of the guest, in $up
uptime_seconds() {
    IFS=. read -r up _ </proc/uptime
}

# soon COMMAND...: repeat the command until it succeeds, for at most two minutes by the clock of the guest
soon() {
    uptime_seconds
    soon_limit=$((up + 120))
    until "$@"; do
        uptime_seconds
        [ "$up" -lt $soon_limit ] || { echo "not within two minutes: $*"; return 1; }
        nap
    done
    return 0
}

# start NAME COMMAND...: start it in the background; its output is in /tmp/NAME.out and /tmp/NAME.err, its process in
# /tmp/NAME.pid
start() {
    start_name=$1
    shift
    rm -f "/tmp/$start_name.code"
    {
        # shellcheck disable=SC2016  # expanded by that shell
        sh -c 'echo $$ >"/tmp/$0.pid"; exec "$@"' "$start_name" "$@" \
            >"/tmp/$start_name.out" 2>"/tmp/$start_name.err" </dev/null 3>&- 9>&-
        echo $? >"/tmp/$start_name.code"
    } &
    soon test -s "/tmp/$start_name.pid"
}

# where PROCESS: what its threads do now, in user space or in which function of the kernel
where() {
    for task in "/proc/$1/task"/*; do
        echo "$(cat "$task/comm"): $(sed -n 's/^State:[[:space:]]*//p' "$task/status"), $(cat "$task/wchan")"
        sed 's/^/    /' "$task/stack"
    done 2>/dev/null
}

# ended NAME CODE: that program ends with this exit code within two minutes by the clock of the guest
ended() {
    uptime_seconds
    ended_limit=$((up + 120))
    until [ -s "/tmp/$1.code" ] || [ "$up" -ge $ended_limit ]; do
        nap
        uptime_seconds
    done
    [ "$(cat "/tmp/$1.code" 2>/dev/null)" = "$2" ] && return 0
    if [ -s "/tmp/$1.code" ]; then
        echo "$1: exit code $(cat "/tmp/$1.code"), expected $2"
    else
        echo "$1: still runs, expected exit code $2"
        where "$(cat "/tmp/$1.pid")"
    fi
    tail -n 15 "/tmp/$1.out" "/tmp/$1.err"
    return 1
}

# says TEXT / warns TEXT: the command of the last `exits` printed TEXT to stdout / stderr
says() {
    grep -qF -- "$1" /tmp/out || { echo "not on stdout: $1"; cat /tmp/out; return 1; }
}

warns() {
    grep -qF -- "$1" /tmp/err || { echo "not on stderr: $1"; cat /tmp/err; return 1; }
}

# pci ADDRESS: print the folder of the function in sysfs
pci() {
    printf '/sys/bus/pci/devices/%s' "$1"
}

# bind ADDRESS DRIVER: unbind the function from its driver and bind it to DRIVER ("": to none)
bind() {
    [ ! -e "$(pci "$1")/driver" ] || echo "$1" >"$(pci "$1")/driver/unbind"
    printf '%s\n' "$2" >"$(pci "$1")/driver_override"
    [ -z "$2" ] || echo "$1" >/sys/bus/pci/drivers_probe
}

# as_new SSD...: unbind these ssds (nv0, ...), blank their disks, and forget huge pages and kernel messages,
# for the next script of the guest
as_new() {
    for each in "$@"; do
        eval "bind \"\$$each\" ''"
        check "$each is as new" host blank "$each"
    done
    echo 0 >/proc/sys/vm/nr_hugepages
    dmesg -c >/dev/null
}

# hugepages COUNT: reserve that number of pages of 2 MiB
hugepages() {
    echo "$1" >/proc/sys/vm/nr_hugepages
    [ "$(cat /proc/sys/vm/nr_hugepages)" -ge "$1" ]
}

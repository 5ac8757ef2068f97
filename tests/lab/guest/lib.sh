# shellcheck shell=dash
# What scenarios use in a guest. `set -u` is on; devices of the machine are variables that hold their
# PCI addresses ($nv0, $gpu0, $rp); $INSTANCE is what runs.
set -u
# shellcheck source=/dev/null
. /lab/env

# tell LINE: to the host, as it is
tell() {
    printf '%s\n' "$*" >&3
}

# check NAME COMMAND...: one TAP line; what the command printed explains a failure
check() {
    check_name=$1
    shift
    if "$@" >/tmp/check.out 2>&1; then
        tell "ok - $check_name"
    else
        tell "not ok - $check_name"
        head -n 60 /tmp/check.out | sed 's/^/# /' >&3
    fi
    cat /tmp/check.out
}

# note TEXT: a line of notes.txt on the host; what was told before a power cut was promised
note() {
    tell "note $*"
}

# skip NAME WHY
skip() {
    tell "ok - $1 # SKIP $2"
}

# host VERB ARGUMENTS...: have the host do something (tests/lab/host.py); its answer is printed
host() {
    tell "do $*"
    IFS= read -r answer <&3 || return 1
    printf '%s\n' "${answer#* }"
    [ "${answer%% *}" = "done" ]
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

# soon COMMAND...: the command succeeds within 20 seconds, tried again and again
soon() {
    for _ in $(seq 200); do
        "$@" && return 0
        sleep 0.1
    done
    echo "not within 20 s: $*"
    return 1
}

# says TEXT / warns TEXT: the last `exits` printed it to stdout / stderr
says() {
    grep -qF -- "$1" /tmp/out || { echo "not on stdout: $1"; cat /tmp/out; return 1; }
}

warns() {
    grep -qF -- "$1" /tmp/err || { echo "not on stderr: $1"; cat /tmp/err; return 1; }
}

# pci ADDRESS: its folder
pci() {
    printf '/sys/bus/pci/devices/%s' "$1"
}

# bind ADDRESS DRIVER: take the function from whatever drives it and give it to DRIVER ("" leaves it)
bind() {
    [ ! -e "$(pci "$1")/driver" ] || echo "$1" >"$(pci "$1")/driver/unbind"
    printf '%s\n' "$2" >"$(pci "$1")/driver_override"
    [ -z "$2" ] || echo "$1" >/sys/bus/pci/drivers_probe
}

# hugepages COUNT: of 2 MiB
hugepages() {
    echo "$1" >/proc/sys/vm/nr_hugepages
    [ "$(cat /proc/sys/vm/nr_hugepages)" -ge "$1" ]
}

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A tap and clients that are not plain consumers: other users, forked processes, processes of other PID
# namespaces, clients without a greeting, half messages, other versions.
set -uo pipefail
# shellcheck source=tests/cli/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"

export HEADRACE_TAP_LIBRARY=${HEADRACE%/*}/libheadrace-tap.so.0
export PYTHONPATH=$PWD/gpu/tap/client PYTHONDONTWRITEBYTECODE=1
lib=$PWD/tests/cli/lib
engine='' engine_in=()

# begin [SINK_KEYS]: run 64 tiles of 64 KiB of the counting pattern beside the clients
begin() {
    cat >"$SCRATCH/x.conf" <<CONF
ssds = ( { name = "a"; device = "soft:memory,size=32M"; timeout_ms = 60000;
           objects = ( { name = "in"; bytes = "4M"; } ); } );
gpus = ( { name = "g"; device = "host:2"; } );
pipelines = ( { name = "lend"; source = { object = "in"; }; operator = "copy"; tile = "64K";
                sink = { tap = "t"; ${1-} }; } );
CONF
    rm -f "$SCRATCH"/{a,b,c}
    [ -z "$engine" ] || kill -KILL "$engine" 2>/dev/null # that of a check that has failed
    setpriv --pdeathsig KILL "${engine_in[@]}" "$HEADRACE" run "$SCRATCH/x.conf" --json \
        >"$SCRATCH/out" 2>"$SCRATCH/err" </dev/null &
    engine=$!
}

# ended: the run ends well, and says nothing on stderr
ended() {
    wait "$engine" || { echo "run: exit code $?"; return 1; }
}

# client NAME ARGUMENTS...: its output is in $SCRATCH/NAME
client() {
    local name=$1
    shift
    timeout 200 "${client_in[@]}" python3 "$lib/tap_clients.py" t "$@" >"$SCRATCH/$name" 2>&1 \
        </dev/null || { cat "$SCRATCH/$name"; return 1; }
}
client_in=()

# consumer NAME [ARGUMENTS...]: one of lib/consumer.py
consumer() {
    local name=$1
    shift
    timeout 200 "${client_in[@]}" python3 "$lib/consumer.py" t "$@" >"$SCRATCH/$name" 2>&1 \
        </dev/null || { cat "$SCRATCH/$name"; return 1; }
}

tap() {
    json "(lambda t: $1)(r['pipelines'][0]['tap'])"
}

all_tiles() {
    [ "$(sort -n "$SCRATCH/$1" | tr '\n' ' ')" = "$(seq 0 63 | tr '\n' ' ')" ] ||
        { echo "not all tiles, or more than one time:"; cat "$SCRATCH/$1"; return 1; }
}

# The mode of the socket keeps other users away.
other_user_cannot_connect() {
    begin
    client a as_user 65534 65533 && [ "$(<"$SCRATCH/a")" = "tap 't': Permission denied" ] || return 1
    consumer b && ended && silent && tap 't["clients_refused"] == 0 and t["tiles_returned"] == 64' &&
        all_tiles b
}

# So does the tap itself, when the socket has another mode.
other_user_is_refused() {
    local reason="user 65534 is neither the owner nor in the group of the tap"
    begin 'group = "65532";'
    until_true 60 test -S "$SCRATCH/run/t.tap" && chmod 0666 "$SCRATCH/run/t.tap" || return 1
    client a as_user 65534 65533 65531 && [ "$(<"$SCRATCH/a")" = "tap 't': $reason" ] || return 1
    consumer b && ended && silent && tap 't["clients_refused"] == 1 and t["tiles_returned"] == 64' &&
        all_tiles b
}

# member GROUP...: a user with these groups gets all tiles
member() {
    begin 'group = "65532";'
    client a as_user 65534 "$@" && ended && silent && tap 't["clients_refused"] == 0' && all_tiles a
}

handle_of_a_child_is_dead() {
    begin
    client a fork && ended && silent &&
        tap 't["tiles_returned"] == 64 and t["tiles_redelivered"] == 0 and t["consumers_attached"] == 1'
}

# A consumer that the engine sees under another number than its own. It is not process 1, which cannot
# kill itself.
consumer_in_a_namespace() {
    # shellcheck disable=SC2016  # for that shell
    local client_in=(unshare --pid --fork --kill-child sh -c '"$@"; exit $?' sh)
    begin
    consumer a kill-holding=3 >/dev/null
    consumer b && ended && silent && tap 't["tiles_redelivered"] >= 3' && all_tiles b
}

# A consumer that shares none of these namespaces with the engine, as one in a container to which the
# folder of the socket is mounted.
consumer_in_all_namespaces() {
    # shellcheck disable=SC2016  # for that shell
    local client_in=(unshare --pid --ipc --mount --net --uts --cgroup --fork --kill-child sh -c '"$@"; exit $?' sh)
    begin
    consumer a kill-holding=3 >/dev/null
    consumer b && ended && silent && tap 't["tiles_redelivered"] >= 3' && all_tiles b
}

# A consumer that has no number in the namespace of the engine.
engine_in_a_namespace() {
    local engine_in=(unshare --pid --fork --kill-child)
    begin
    consumer a kill-holding=3 >/dev/null
    consumer b && ended && silent && tap 't["tiles_redelivered"] >= 3' && all_tiles b
}

# The engine keeps the newest 16 of them.
hundreds_without_a_greeting() {
    local before now clients
    begin
    until_true 60 test -S "$SCRATCH/run/t.tap" || return 1
    before=$(find "/proc/$engine/fd" -mindepth 1 | wc -l)
    mkfifo "$SCRATCH/hold.$$"
    timeout 200 python3 "$lib/tap_clients.py" t silent 400 >"$SCRATCH/c" 2>&1 <"$SCRATCH/hold.$$" &
    clients=$!
    exec 9>"$SCRATCH/hold.$$"
    until_true 60 grep -qx connected "$SCRATCH/c" || return 1
    now=$(find "/proc/$engine/fd" -mindepth 1 | wc -l)
    [ "$now" -le $((before + 16)) ] || { echo "$before descriptors before, $now now"; return 1; }
    consumer b && ended && silent && all_tiles b && tap 't["clients_refused"] <= 16' || return 1
    exec 9>&-
    wait "$clients"
}

half_messages_are_refused() {
    begin
    client a halves && consumer b && ended &&
        tap 't["clients_refused"] == 5 and t["consumers_dropped"] == 1 and t["tiles_returned"] == 64' &&
        [ "$(wc -l <"$SCRATCH/err")" -eq 1 ] && warns "is dropped: it sent a message"
}

other_versions_are_refused() {
    begin
    client a versions && consumer b && ended && silent &&
        tap 't["clients_refused"] == 5 and t["consumers_dropped"] == 0' && all_tiles b
}

# as_root NAME COMMAND...: check it, or skip it for other users
as_root() {
    if [ "$(id -u)" -eq 0 ]; then check "$@"; else skip "needs root" "$1"; fi
}

# namespaces NAME COMMAND...: check it where new PID namespaces are allowed
namespaces() {
    if unshare --pid --fork true 2>/dev/null; then check "$@"; else skip "unshare is not permitted" "$1"; fi
}

as_root "another user cannot connect" other_user_cannot_connect
as_root "another user is refused and counted" other_user_is_refused
as_root "a user whose own group is the tap's attaches" member 65532
as_root "a user with the tap's group attaches" member 65533 65531 65532
check "the handle of a forked child is dead" handle_of_a_child_is_dead
namespaces "a consumer in its own PID namespace is killed" consumer_in_a_namespace
namespaces "a consumer in namespaces of its own gets all tiles" consumer_in_all_namespaces
namespaces "a consumer that the engine's PID namespace does not have is killed" engine_in_a_namespace
check "hundreds of connections without a greeting disturb no consumer" hundreds_without_a_greeting
check "half messages are refused" half_messages_are_refused
check "other versions are refused" other_versions_are_refused
done_testing

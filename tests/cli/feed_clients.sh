#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A feed and clients that are not plain producers: other users, forked processes, processes of other PID
# namespaces, clients without a greeting, half messages, other versions, random words.
set -uo pipefail
# shellcheck source=tests/cli/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"
# shellcheck source=tests/cli/lib/feed.sh
. "$(dirname "$0")/lib/feed.sh"

# client NAME ARGUMENTS...: one of lib/feed_clients.py; its output is in $SCRATCH/NAME
client() {
    local name=$1
    shift
    timeout 200 python3 "${helper%/*}/feed_clients.py" f "$@" >"$SCRATCH/$name" 2>&1 </dev/null ||
        { cat "$SCRATCH/$name"; return 1; }
}

# whole: a producer fills all tiles, and the object has them
whole() {
    producer b && ended 0 && holds $((4 << 20))
}

# The mode of the socket keeps other users away.
other_user_cannot_connect() {
    disk && conf && begin
    client a as_user 65534 65533 && [ "$(<"$SCRATCH/a")" = "feed 'f': Permission denied" ] && whole &&
        feed 'f["clients_refused"] == 0'
}

# So does the feed itself, when the socket has another mode.
other_user_is_refused() {
    local reason="user 65534 is neither the owner nor in the group of the feed"
    disk && conf 'group = "65532";' && begin
    until_true 60 test -S "$SCRATCH/run/f.feed" && chmod 0666 "$SCRATCH/run/f.feed" || return 1
    client a as_user 65534 65533 65531 && [ "$(<"$SCRATCH/a")" = "feed 'f': $reason" ] && whole &&
        feed 'f["clients_refused"] == 1'
}

# member GROUP...: a user with these groups fills all tiles
member() {
    disk && conf 'group = "65532";' && begin
    client a as_user 65534 "$@" && ended 0 && silent && holds $((4 << 20))
}

handle_of_a_child_is_dead() {
    disk && conf && begin
    client a fork && ended 0 && silent && holds $((4 << 20)) && feed 'f["producers_attached"] == 1'
}

# A producer that the engine sees under another number than its own.
producer_in_a_namespace() {
    disk && conf && begin
    # shellcheck disable=SC2016  # for that shell
    timeout 200 unshare --pid --fork --kill-child sh -c '"$@"; exit $?' sh \
        python3 "$helper" f kill-holding=3 >/dev/null 2>&1 </dev/null
    whole
}

# The engine keeps the newest 16 of them.
hundreds_without_a_greeting() {
    local before now clients
    disk && conf && begin
    until_true 60 test -S "$SCRATCH/run/f.feed" || return 1
    before=$(find "/proc/$engine/fd" -mindepth 1 | wc -l)
    rm -f "$SCRATCH/hold" && mkfifo "$SCRATCH/hold"
    timeout 200 python3 "${helper%/*}/feed_clients.py" f silent 400 >"$SCRATCH/c" 2>&1 <"$SCRATCH/hold" &
    clients=$!
    exec 9>"$SCRATCH/hold"
    until_true 60 grep -qx connected "$SCRATCH/c" || return 1
    now=$(find "/proc/$engine/fd" -mindepth 1 | wc -l)
    [ "$now" -le $((before + 16)) ] || { echo "$before descriptors before, $now now"; return 1; }
    whole || return 1
    exec 9>&-
    wait "$clients"
}

half_messages_are_refused() {
    disk && conf && begin
    client a halves && producer b && ended 0 && feed 'f["clients_refused"] == 5 and f["producers_dropped"] == 1' &&
        [ "$(wc -l <"$SCRATCH/err")" -eq 1 ] && warns "is dropped: it sent a message"
}

other_versions_are_refused() {
    disk && conf && begin
    client a versions && producer b && ended 0 && silent &&
        feed 'f["clients_refused"] == 5 and f["producers_dropped"] == 0'
}

hostile_clients_disturb_nobody() {
    disk && conf && begin
    producer h hostile && producer b && ended 0 && feed 'f["producers_dropped"] == 1 and f["clients_refused"] >= 3' &&
        holds $((4 << 20))
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
as_root "a user whose own group is the feed's attaches" member 65532
as_root "a user with the feed's group attaches" member 65533 65531 65532
check "the handle of a forked child is dead" handle_of_a_child_is_dead
namespaces "a producer in its own PID namespace is killed" producer_in_a_namespace
check "hundreds of connections without a greeting disturb no producer" hundreds_without_a_greeting
check "half messages are refused" half_messages_are_refused
check "other versions are refused" other_versions_are_refused
check "hostile clients disturb no other producer" hostile_clients_disturb_nobody
done_testing

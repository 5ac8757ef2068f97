#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What is seen of a feed: its producer in status, leases, a descriptor that can be polled, arrays by DLPack.
set -uo pipefail
# shellcheck source=tests/cli/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"

# shellcheck source=tests/cli/lib/feed.sh
. "$(dirname "$0")/lib/feed.sh"

# lingers COUNT: a producer holds so many tiles; its process is $first
lingers() {
    setpriv --pdeathsig KILL python3 "$helper" f "linger=$1" >"$SCRATCH/a" 2>&1 </dev/null & first=$!
    until_true 60 grep -q holding "$SCRATCH/a"
}

goes_on() {
    kill -USR1 "$first" && wait "$first" && ended 0
}

status_tells_what_a_producer_holds() {
    local first
    disk && conf 'credits = 7; lease = "1s";' && begin
    until_true 60 under_way '"feed" in p' && under_way 'p["feed"]["name"] == "f" and p["feed"]["attached"] == []' &&
        under_way 'p["feed"]["producers"] == 0' || return 1
    lingers 3 || return 1
    under_way '(lambda f, a: f["producers"] == 1 and f["producers_attached"] == 1 and f["tiles_committed"] == 0 and
        len(f["attached"]) == 1 and a["name"] == "producer.py" and a["pid"] > 0 and a["credits"] == 7 and
        a["tiles_held"] == 7 and a["lag_tiles"] == 7 and a["tiles_offered"] == 7 and a["tiles_committed"] == 0)(
        p["feed"], p["feed"]["attached"][0])' || { cat "$SCRATCH/.status"; return 1; }
    if ! until_true 60 under_way 'p["feed"]["attached"][0]["leases_exceeded"] == 1' ||
        ! under_way 'p["feed"]["leases_exceeded"] == 1 and p["feed"]["attached"][0]["idle_ms"] >= 1000'; then
        cat "$SCRATCH/.status"
        return 1
    fi
    cp "$SCRATCH/err" "$SCRATCH/warned"
    exits 0 status && says "feed f: 0 tiles committed, 0 discarded; producers: 1 attached now, 1 since the run began" &&
        says "producer.py (pid $first, uid $(id -u)): holds 7 of 7 tiles, lag 7, idle " || return 1
    goes_on && holds $((4 << 20)) && feed 'f["leases_exceeded"] == 1 and f["producers_attached"] == 1' &&
        grep -q "producer 'producer.py' (process .* holds 7 tiles and has committed none for " "$SCRATCH/warned"
}

a_producer_that_has_gone_is_not_told() {
    disk && conf && begin
    producer a part=10 && until_true 60 under_way 'p["feed"]["producers"] == 0 and p["feed"]["attached"] == []' &&
        under_way 'p["feed"]["tiles_committed"] == 10' && producer b && ended 0 && holds $((4 << 20))
}

# Fewer credits than slots, so that the producer waits.
a_producer_that_polls_fills_all_tiles() {
    disk && conf 'credits = 2;' && begin
    producer a poll && ended 0 && silent && holds $((4 << 20)) || return 1
    [ "$(sed 's/waits //' "$SCRATCH/a")" -ge 1 ]
}

counters_are_listed() {
    exits 0 status --counters && says "producer of a feed" && says "lag_tiles" && says "tiles_discarded"
}

dlpack_fills_tiles() {
    local python=$with_numpy
    disk && conf 'dtype = "u64"; columns = 8;' && begin
    producer a tensors && ended 0 && silent && holds $((4 << 20))
}

with_numpy=
for each in python3 /usr/bin/python3; do
    ! "$each" -c 'import numpy; numpy.from_dlpack' 2>/dev/null || { with_numpy=$each && break; }
done

check "status tells what a producer holds" status_tells_what_a_producer_holds
check "a producer that has gone is not told" a_producer_that_has_gone_is_not_told
check "a producer that polls fills all tiles" a_producer_that_polls_fills_all_tiles
check "the counters of feeds are listed" counters_are_listed
if [ "$with_numpy" ]; then
    check "arrays by DLPack fill tiles" dlpack_fills_tiles
else
    skip "there is no NumPy (python3-numpy)" "arrays by DLPack fill tiles"
fi
done_testing

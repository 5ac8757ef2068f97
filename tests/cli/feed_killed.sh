#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2119  # the arguments of conf are optional
# A feed whose producers or engines are killed: what was committed, or durable, is kept, and the output is
# exact.
set -uo pipefail
# shellcheck source=tests/cli/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"
# shellcheck source=tests/cli/lib/feed.sh
. "$(dirname "$0")/lib/feed.sh"

killed_producers_lose_half_tiles_only() {
    disk && conf && begin
    producer a die=40 && producer b && ended 0 && silent && holds $((4 << 20))
}

# descriptors: those of the engine; then the lines of its map with memory of producers
descriptors() {
    find "/proc/$engine/fd" -mindepth 1 | wc -l
    grep -c "headrace feed" "/proc/$engine/maps"
}

nothing_is_left_but() {
    [ "$(descriptors)" = "$1" ] || { echo "not '$1': $(descriptors)"; return 1; }
}

nothing_is_left_of_producers_that_die() {
    local before
    disk && conf && begin
    until_true 60 test -S "$SCRATCH/run/f.feed" || return 1
    before=$(descriptors)
    producer a die=20 && until_true 60 nothing_is_left_but "$before" && producer b && ended 0 && silent
}

# Each engine is killed while a producer fills tiles, at any time. The next run begins at a tile that is
# at least the newest durable one that its producer saw, and the object is exact in the end.
killed_engines_go_on_where_they_were_durable() {
    local i first seen=0 slow
    disk && conf && sed -i 's/"64K"/"16K"/; s/"4M"/"16M"/' "$SCRATCH/x.conf"
    for ((i = 0; i < 40 && seen < 900; i++)); do
        begin
        timeout 200 python3 "$helper" f slowly >"$SCRATCH/a" 2>&1 </dev/null & slow=$!
        until_true 60 grep -q . "$SCRATCH/a" || { cat "$SCRATCH/err"; return 1; }
        sleep "0.$(printf %03d $((RANDOM % 60)))"
        kill -KILL "$engine"
        wait "$engine" 2>/dev/null
        wait "$slow" 2>/dev/null
        first=$(awk 'NR == 1 { print $1 }' "$SCRATCH/a")
        [ "$first" -ge "$seen" ] || { echo "round $i began at $first, $seen were durable"; return 1; }
        seen=$(grep '^[0-9]' "$SCRATCH/a" | awk 'END { print $2 + 0 }')
    done
    echo "$i engines were killed, $seen tiles were durable"
    begin
    { [ "$seen" -eq 1024 ] || producer b; } && ended 0 && holds $((16 << 20))
}

check "producers killed 40 times lose half tiles only" killed_producers_lose_half_tiles_only
check "nothing is left of producers that die" nothing_is_left_of_producers_that_die
check "engines killed 40 times go on where they were durable" killed_engines_go_on_where_they_were_durable
done_testing

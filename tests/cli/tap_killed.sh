#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A thousand consumers of a tap that are killed in all states: nothing is left of them in the engine.
set -uo pipefail
# shellcheck source=tests/cli/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"

export HEADRACE_TAP_LIBRARY=${HEADRACE%/*}/libheadrace-tap.so.0
export PYTHONPATH=$PWD/gpu/tap/client PYTHONDONTWRITEBYTECODE=1
lib=$PWD/tests/cli/lib
kills=1000 heap_growth=512
# a sanitizer takes the time tenfold, and keeps freed memory to find its use
! ldd "$HEADRACE" 2>/dev/null | grep -E 'lib(asan|tsan|ubsan)' >/dev/null || kills=200 heap_growth=$((256 << 10))

cat >"$SCRATCH/x.conf" <<CONF
ssds = ( { name = "a"; device = "soft:memory,size=32M"; timeout_ms = 60000;
           objects = ( { name = "in"; bytes = "4M"; } ); } );
gpus = ( { name = "g"; device = "host:2"; } );
pipelines = ( { name = "lend"; source = { object = "in"; }; operator = "copy"; tile = "64K";
                sink = { tap = "t"; }; } );
CONF

# Descriptors, lines of the memory map, threads, and bytes of shared memory of the engine.
resources() {
    find "/proc/$engine/fd" -mindepth 1 | wc -l
    grep -c "headrace tap" "/proc/$engine/maps"
    awk '/^(Threads|RssShmem):/ { print $1, $2 }' "/proc/$engine/status"
    find "$SCRATCH/run" -mindepth 1 | sort
}

are_as_before() {
    resources >"$SCRATCH/now"
    diff "$SCRATCH/before" "$SCRATCH/now"
}

# The most kilobytes of the heap that the engine has had.
heap() {
    awk '/^RssAnon:/ { print $2 }' "/proc/$engine/status"
}

killed_consumers_leave_nothing() {
    local heap
    setpriv --pdeathsig KILL "$HEADRACE" run "$SCRATCH/x.conf" --json >"$SCRATCH/out" \
        2>"$SCRATCH/err" </dev/null &
    engine=$!
    timeout 200 python3 "$lib/tap_killed.py" t 40 || return 1
    until_true 60 settled && resources >"$SCRATCH/before" && heap=$(heap) || return 1
    timeout 280 python3 "$lib/tap_killed.py" t "$kills" || return 1
    until_true 60 are_as_before || { are_as_before; return 1; }
    [ "$(heap)" -le $((heap + heap_growth)) ] || { echo "memory: $heap KiB before, $(heap) now"; return 1; }
    timeout 200 python3 "$lib/consumer.py" t >"$SCRATCH/a" 2>&1 && wait "$engine" && silent &&
        [ "$(sort -n "$SCRATCH/a" | tr '\n' ' ')" = "$(seq 0 63 | tr '\n' ' ')" ] &&
        json "(lambda t: t['tiles_returned'] == 64 and t['consumers_dropped'] == 0 and
            t['consumers_attached'] > $kills / 2)(r['pipelines'][0]['tap'])"
}

# Only the tiles are left of the memory that consumers map.
settled() {
    [ "$(grep -c "headrace tap" "/proc/$engine/maps")" = 0 ]
}

check "$kills consumers that are killed leave nothing" killed_consumers_leave_nothing
done_testing

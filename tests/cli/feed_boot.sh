#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A feed under `headrace boot`: producers attach to the next engine, or run, and the objects are exact.
set -uo pipefail
# shellcheck source=tests/cli/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"
# shellcheck source=tests/cli/lib/feed.sh
. "$(dirname "$0")/lib/feed.sh"

boot=''

# appliance [KEYS [SINK_KEYS]]: the configuration of lib/feed.sh under a supervisor
appliance() {
    disk && conf '' "${2-}" "${1-}" &&
        echo 'boot = { post = "off"; backoff = "20ms"; };' >>"$SCRATCH/x.conf"
}

boots() {
    rm -f "$SCRATCH"/{a,b,boot.out,boot.err}
    [ -z "$boot" ] || kill -KILL "$boot" 2>/dev/null # that of a check that has failed
    setpriv --pdeathsig KILL "$HEADRACE" boot "$SCRATCH/x.conf" >"$SCRATCH/boot.out" \
        2>"$SCRATCH/boot.err" </dev/null &
    boot=$!
}

# over CODE [SIGNAL]: the appliance ends with this exit code, after the signal
over() {
    local got=0
    [ -z "${2-}" ] || kill -"$2" "$boot"
    wait "$boot" || got=$?
    boot=''
    [ "$got" = "$1" ] || { echo "boot: exit code $got, expected $1"; cat "$SCRATCH/boot.err"; return 1; }
    [ ! -e "$SCRATCH/run/f.feed" ] || { echo "the socket is left"; return 1; }
}

a_pipeline_that_runs_once() {
    appliance && boots
    producer a && over 0 && grep -q "feed f: 64 tiles committed, ended after 4194304 bytes" "$SCRATCH/boot.out" &&
        holds $((4 << 20))
}

# The second engine continues at the durable tiles of the first.
a_killed_engine_is_replaced() {
    local held
    appliance 'slots = 8; blocks = { compute = 1; writeback = 1; };' && boots
    producer a persist=1,9 & held=$!
    until_true 60 grep -qx 8 "$SCRATCH/a" && until_true 60 under_way 'p["durable_tiles"] > 0' || return 1
    kill -KILL "$(json_value "$SCRATCH/.status" r "r['engine_pid']")"
    wait "$held" && over 0 && holds $((4 << 20)) || return 1
    grep -q "again: .*the appliance is gone" "$SCRATCH/a" && [ "$(grep -c "^from" "$SCRATCH/a")" -eq 2 ] &&
        [ "$(grep "^from" "$SCRATCH/a" | tail -n 1)" != "from 0" ] && grep -q "ended by signal 9" "$SCRATCH/boot.err"
}

each_start_has_its_own_feed() {
    appliance 'forever = true;' 'keep = 3;' && boots
    producer a persist=3 && over 0 TERM || return 1
    holds $((4 << 20)) && holds $((4 << 20)) out.1 && holds $((4 << 20)) out.2 &&
        [ "$(grep -c "^from 0" "$SCRATCH/a")" -eq 3 ]
}

a_start_on_request() {
    local trigger
    appliance 'on = "request";' 'replace = true;' && boots
    until_true 60 "$HEADRACE" status || return 1
    producer b refused && grep -q "no pipeline with this feed runs" "$SCRATCH/b" || return 1
    timeout 200 "$HEADRACE" trigger take --wait >"$SCRATCH/out" 2>"$SCRATCH/err" & trigger=$!
    producer a until=2,16 && wait "$trigger" && over 0 TERM && holds $((65536 + 16))
}

check "a pipeline that runs once" a_pipeline_that_runs_once
check "a killed engine is replaced, and the feed goes on" a_killed_engine_is_replaced
check "each start has a feed of its own" each_start_has_its_own_feed
check "a start on request" a_start_on_request
done_testing

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A tap under `headrace boot`: the socket outlives engines, consumers attach to the next engine or run.
set -uo pipefail
# shellcheck source=tests/cli/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"

export HEADRACE_TAP_LIBRARY=${HEADRACE%/*}/libheadrace-tap.so.0
export PYTHONPATH=$PWD/gpu/tap/client PYTHONDONTWRITEBYTECODE=1
helper=$PWD/tests/cli/lib/consumer.py
all=$(seq 0 63 | tr '\n' ' ')

# conf KEYS [SINK [BOOT [DEVICE]]]: 64 tiles of 64 KiB of the counting pattern
conf() {
    cat >"$SCRATCH/x.conf" <<CONF
appliance = { name = "box"; };
ssds = ( { name = "a"; device = "soft:memory,size=32M${4-}"; timeout_ms = 60000;
           objects = ( { name = "in"; bytes = "4M"; } ); } );
gpus = ( { name = "g"; device = "host:2"; } );
boot = { post = "off"; backoff = "20ms"; ${3-} };
pipelines = ( { name = "lend"; source = { object = "in"; }; operator = "copy"; tile = "64K"; $1
                sink = { tap = "t"; ${2-} }; } );
CONF
}

boots() {
    rm -f "$SCRATCH"/{a,b,boot.out,boot.err}
    [ -z "${boot-}" ] || kill -KILL "$boot" 2>/dev/null # that of a check that has failed
    setpriv --pdeathsig KILL "$HEADRACE" boot "$SCRATCH/x.conf" >"$SCRATCH/boot.out" \
        2>"$SCRATCH/boot.err" </dev/null &
    boot=$!
}

# ended CODE [SIGNAL]: the appliance ends with this exit code, after the signal
ended() {
    local got=0
    [ -z "${2-}" ] || kill -"$2" "$boot"
    wait "$boot" || got=$?
    boot=''
    [ "$got" = "$1" ] || { echo "boot: exit code $got, expected $1"; return 1; }
    [ ! -e "$SCRATCH/run/t.tap" ] || [ "${2-}" = KILL ] || { echo "the socket is left"; return 1; }
}

# logs TEXT: the appliance has said it on stderr
logs() {
    grep -qF -- "$1" "$SCRATCH/boot.err" || { echo "not on stderr: $1"; cat "$SCRATCH/boot.err"; return 1; }
}

# consumer NAME ARGUMENTS...: its output is in $SCRATCH/NAME
consumer() {
    local name=$1
    shift
    timeout 200 python3 "$helper" t "$@" >"$SCRATCH/$name" 2>&1 </dev/null || {
        cat "$SCRATCH/$name"
        return 1
    }
}

engine() {
    json_value "$SCRATCH/.status" r "r['engine_pid']"
}

tiles_of() {
    grep -x "[0-9]*" "$SCRATCH/$1" | sort -n | tr '\n' ' '
}

has_all() {
    [ "$(tiles_of "$1")" = "$all" ] || { echo "not all tiles, or more:"; cat "$SCRATCH/$1"; return 1; }
}

a_pipeline_that_runs_once() {
    conf '' && boots
    consumer a && ended 0 && has_all a && grep -q "tap t: 64 tiles given back" "$SCRATCH/boot.out"
}

a_killed_engine_is_replaced() {
    local held
    conf '' && boots
    consumer a restart=3 & held=$!
    until_true 60 grep -q holding "$SCRATCH/a" && under_way 'p["tiles"]' || return 1
    kill -KILL "$(engine)"
    wait "$held" && ended 0 || return 1
    grep -q "restarted: .*the engine of the appliance has died" "$SCRATCH/a" &&
        grep -q "still readable" "$SCRATCH/a" && grep -q "another epoch" "$SCRATCH/a" && has_all a &&
        logs "ended by signal 9"
}

a_consumer_that_polls_attaches_again() {
    local polls
    printf 'on read lba 512-16383 count 1000000: delay 100ms\n' >"$SCRATCH/faults"
    conf '' '' '' ",faults=$SCRATCH/faults" && boots
    consumer a poll & polls=$!
    until_true 60 grep -qx "0" "$SCRATCH/a" && under_way 'p["tiles"]' || return 1
    kill -KILL "$(engine)"
    wait "$polls" && ended 0 && grep -qx restarted "$SCRATCH/a" || return 1
    sed '1,/^restarted$/d' "$SCRATCH/a" >"$SCRATCH/b" && has_all b
}

a_run_that_fails_is_made_again() {
    local held
    printf 'on read nth 40: status 0x006 dnr\n' >"$SCRATCH/faults"
    conf '' '' 'restarts = 3;' ",faults=$SCRATCH/faults" && boots
    consumer a restart=0 && ended 4 || return 1
    [ "$(grep -c "restarted: " "$SCRATCH/a")" -ge 1 ] && grep -q "Internal Error" "$SCRATCH/a" &&
        logs "given up after 3 restarts"
}

each_start_has_its_own_session() {
    conf 'forever = true;' && boots
    consumer a runs=4 && ended 0 TERM || return 1
    [ "$(grep -c "^run of epoch" "$SCRATCH/a")" = 4 ] &&
        [ "$(grep "^run of epoch" "$SCRATCH/a" | sort -u | wc -l)" = 4 ] &&
        [ "$(tiles_of a)" = "$(for _ in 1 2 3 4; do seq 0 63; done | sort -n | tr '\n' ' ')" ]
}

a_consumer_waits_for_a_request() {
    local waits
    conf 'on = "request";' && boots
    until_true 60 test -S "$SCRATCH/run/t.tap" || return 1
    consumer a waits & waits=$!
    until_true 60 grep -qx "waits" "$SCRATCH/a" && exits 0 trigger lend --wait && wait "$waits" &&
        has_all a && ended 0 TERM
}

a_paused_pipeline_starts_later() {
    local waits
    conf 'every = "50ms";' && boots
    until_true 60 test -S "$SCRATCH/run/t.tap" && consumer b && has_all b &&
        until_true 60 under_way 'p["outcome"] == "running" and p["starts_count"] >= 2' &&
        exits 0 pause lend && consumer b finish-after=64 || return 1 # the run that had begun
    consumer a waits & waits=$!
    until_true 60 grep -qx "waits" "$SCRATCH/a" && exits 0 resume lend && wait "$waits" && has_all a &&
        ended 0 TERM
}

a_stop_is_told() {
    local held
    conf 'forever = true;' && boots
    consumer a wait-for-end & held=$!
    until_true 60 grep -q holding "$SCRATCH/a" && exits 0 stop || return 1
    wait "$held" && ended 0 && grep -q "the run was interrupted\|appliance is gone" "$SCRATCH/a" &&
        grep -q "still readable" "$SCRATCH/a"
}

tiles_of_a_stopped_run_are_not_overwritten() {
    local held
    printf 'on read lba 832: status 0x006 dnr\n' >"$SCRATCH/faults"
    conf 'forever = true;' '' '' ",faults=$SCRATCH/faults" && boots
    consumer a hold-over-restart & held=$!
    wait "$held" && grep -q "still readable" "$SCRATCH/a" && ended 0 TERM
}

# tap EXPRESSION: it is true for the tap `t` of the first pipeline, and its first consumer `c`
tap() {
    under_way "(lambda t: (lambda c: $1)((t['attached'] + [{}])[0]))(p['tap'])"
}

status_tells_what_consumers_hold() {
    local held pid
    conf 'forever = true;' 'credits = 3; lease = "1ms";' && boots
    consumer a wait-for-end & held=$!
    until_true 60 grep -q holding "$SCRATCH/a" || return 1
    until_true 60 tap 't["name"] == "t" and t["consumers"] == 1 and c["name"] == "consumer.py" and
        c["tiles_held"] == 3 and c["credits"] == 3 and c["lag_tiles"] == 3 and t["tiles_waiting"] == 5 and
        c["oldest_held_ms"] >= 1 and c["leases_exceeded"] == 1 and t["leases_exceeded"] == 1 and
        c["tiles_returned"] == 0 and t["tiles_returned"] == 0' || { cat "$SCRATCH/.status"; return 1; }
    tap "c['uid'] == $(id -u)" || return 1
    pid=$(json_value "$SCRATCH/.status" r "r['pipelines'][0]['tap']['attached'][0]['pid']")
    tr '\0' ' ' <"/proc/$pid/cmdline" | grep "consumer.py t wait-for-end" >/dev/null || return 1
    exits 0 status && says "tap t, deliver one, lag block, share slice: 1 consumers; tiles: 5 wait" &&
        says "holds 3 of 3 tiles, lag 3" || return 1
    kill -KILL "$pid"
    until_true 60 tap 't["consumers"] == 0 and t["attached"] == [] and t["tiles_redelivered"] == 3' ||
        { cat "$SCRATCH/.status"; return 1; }
    wait "$held"
    consumer b finish-after=2 && ended 0 TERM && logs "holds tile 0 for" && logs "tiles in all"
}

a_killed_supervisor_is_gone() {
    local held
    conf '' && boots
    consumer a wait-for-end & held=$!
    until_true 60 grep -q holding "$SCRATCH/a" || return 1
    ended 137 KILL && wait "$held" && grep -q "appliance is gone" "$SCRATCH/a" &&
        grep -q "still readable" "$SCRATCH/a"
}

a_killed_consumer_of_a_repeated_pipeline() {
    conf 'forever = true;' && boots
    consumer a kill-holding=3 >/dev/null
    consumer b && has_all b && ended 0 TERM
}

a_name_in_use_is_said() {
    conf 'forever = true;' && boots
    until_true 60 test -S "$SCRATCH/run/t.tap" || return 1
    sed 's/"box"/"other"/' "$SCRATCH/x.conf" >"$SCRATCH/y.conf"
    timeout 200 "$HEADRACE" boot "$SCRATCH/y.conf" >/dev/null 2>"$SCRATCH/y.err"
    [ $? -eq 3 ] && grep -q "a tap of this name is open already" "$SCRATCH/y.err" && ended 0 TERM
}

check "a pipeline that runs once" a_pipeline_that_runs_once
check "an engine that is killed is replaced" a_killed_engine_is_replaced
check "a consumer that polls attaches to the next engine" a_consumer_that_polls_attaches_again
check "a run that fails is made again" a_run_that_fails_is_made_again
check "each start has its own session" each_start_has_its_own_session
check "a consumer waits for a request" a_consumer_waits_for_a_request
check "a paused pipeline starts later" a_paused_pipeline_starts_later
check "a stop is told" a_stop_is_told
check "tiles of a run that was broken off are not overwritten" tiles_of_a_stopped_run_are_not_overwritten
check "status tells what consumers hold" status_tells_what_consumers_hold
check "a supervisor that is killed is gone" a_killed_supervisor_is_gone
check "a consumer of a repeated pipeline is killed" a_killed_consumer_of_a_repeated_pipeline
check "the name of a tap is open once" a_name_in_use_is_said
done_testing

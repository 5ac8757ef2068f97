#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2119  # the arguments of appliance are optional
# Streams between appliances that restart by themselves (`headrace boot`): engines, and whole appliances, die and start
# again, while the stream waits or in its middle; requests of the control socket are answered meanwhile.
set -uo pipefail
# shellcheck source=tests/cli/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"
# shellcheck source=tests/cli/lib/remote.sh
. "$(dirname "$0")/lib/remote.sh"

# appliance send|take [BOOT_KEYS]: that configuration is of an appliance with this name
appliance() {
    sed -i '/^appliance = /d; /^boot = /d' "$SCRATCH/$1.conf"
    cat >>"$SCRATCH/$1.conf" <<CONF
appliance = { name = "$1"; checkpoint = "20ms"; };
boot = { post = "off"; backoff = "20ms"; ${2-} };
CONF
}

# appliances BYTES [send|take]: configurations of both, and disks. In the middle of the object the disk of that side
# gets too slow to come to the end, for an engine that starts before fast_again: that engine has to be replaced.
appliances() {
    stop_all
    fast_again
    [ "${2-}" != send ] || echo "on read nth 150 count 1000000: delay 2s" >"$SCRATCH/faults.send"
    [ "${2-}" != take ] || echo "on write lba 2600-9000 count 1000000: delay 2s" >"$SCRATCH/faults.take"
    sends "" "" ",faults=$SCRATCH/faults.send" && takes "" "" ",faults=$SCRATCH/faults.take" && appliance send &&
        appliance take && disks "$1"
}
fast_again() {
    : | tee "$SCRATCH/faults.send" >"$SCRATCH/faults.take"
}

# boots send|take
boots() {
    setpriv --pdeathsig KILL "$HEADRACE" boot "$SCRATCH/$1.conf" >"$SCRATCH/$1.out" \
        2>"$SCRATCH/$1.err" </dev/null &
    [ "$1" = send ] && sender=$! || receiver=$!
}

# is send|take EXPRESSION: true for the status r of the appliance, its pipeline p and the stream s
is() {
    "$HEADRACE" status "$1" --json >"$SCRATCH/.status" &&
        json_holds "$SCRATCH/.status" r "(lambda p: (lambda s: bool($2))(p.get('remote') or {}))(r['pipelines'][0])"
}
engine() {
    "$HEADRACE" status "$1" --json >"$SCRATCH/.status" && json_value "$SCRATCH/.status" r "r['engine_pid']"
}
kill_engine() {
    kill -KILL "$(engine "$1")"
}
in_the_middle() {
    until_true 60 is take '20 < p["durable_tiles"] and not r["restarts"]' && is send 'p["tiles_done"] > 20'
}
# both appliances are done, and the object is there
done_both() {
    ended send 0 && ended take 0 && arrived
}
waits() {
    until_true 60 is "$1" "s['connected'] == 0 and r['engine_pid'] > 0"
}

a_stream_runs_once() {
    appliances $((4 << 20)) && boots send && waits send && boots take && done_both &&
        grep -q "remote s: to 127.0.0.1:$port: 64 tiles sent, 4194304 bytes" "$SCRATCH/send.out" &&
        grep -q "remote s: at 127.0.0.1:$port: 64 tiles received" "$SCRATCH/take.out"
}

# The receiver's engine loses what is not durable, so the sender's run fails, and is made again.
a_killed_engine_is_replaced() {
    appliances $((16 << 20)) "$1" && boots take && boots send && in_the_middle && fast_again && kill_engine "$1" &&
        done_both && tells "$1" "ended by signal 9" && tells "$1" "resumes at tile"
}

both_engines_die_at_once() {
    local first second
    appliances $((16 << 20)) send && boots take && boots send && in_the_middle && fast_again &&
        first=$(engine send) && second=$(engine take) && kill -KILL "$first" "$second" && done_both &&
        tells send "ended by signal 9" && tells take "ended by signal 9" && tells take "resumes at tile"
}

# The whole appliance dies, its supervisor first.
an_appliance_dies() {
    local which=$receiver
    appliances $((16 << 20)) "$1" && boots take && boots send && in_the_middle && fast_again || return 1
    [ "$1" = take ] && which=$receiver || which=$sender
    kill -KILL "$which" && ended "$1" 137 || return 1
    boots "$1" && done_both
}

engines_that_wait_are_replaced() {
    appliances $((4 << 20)) && boots send && waits send && kill_engine send && until_true 60 is send 'r["restarts"] == 1' &&
        waits send && boots take && done_both || return 1
    appliances $((4 << 20)) && boots take && waits take && kill_engine take && until_true 60 is take 'r["restarts"] == 1' &&
        waits take && boots send && done_both
}

# stops send|take: while its stream waits, by request and by signal; no tile is written. A receiver's object is there
# since its bring-up, without contents.
stops() {
    local process
    appliances 300000 && boots "$1" && waits "$1" && exits 0 stop --appliance "$1" --wait && ended "$1" 0 &&
        exits 0 store ls "soft:$SCRATCH/b.img" --json && json 'not any(o["durable_bytes"] for o in r["objects"] if o["name"] == "out")' &&
        boots "$1" && waits "$1" || return 1
    [ "$1" = send ] && process=$sender || process=$receiver
    kill -TERM "$process" && ended "$1" 0
}

a_stop_ends_the_wait() {
    stops send && stops take
}

a_stop_in_the_middle_ends_both_and_keeps_what_is_durable() {
    appliances $((16 << 20)) send && appliance take 'restarts = 0;' && boots take && boots send && in_the_middle &&
        exits 0 stop --appliance send --wait && ended send 0 && ended take 1 &&
        tells take "the run of the sender has ended" && fast_again && boots take && boots send && done_both &&
        tells take "resumes at tile"
}

requests_are_answered_while_it_waits() {
    appliances 300000 && boots send && waits send || return 1
    exits 0 status send && says "remote s, sender, 127.0.0.1:$port, not connected" &&
        exits 1 trigger send --appliance send && warns "each runs once" && exits 1 pause send --appliance send &&
        exits 1 reload --appliance send && waits send && boots take && done_both
}

schedules_are_refused() {
    appliances 300000 && sed -i 's/operator = "copy"/every = "1h"; &/' "$SCRATCH/send.conf" "$SCRATCH/take.conf" &&
        unchanged "$SCRATCH/a.img" exits 2 boot "$SCRATCH/send.conf" && warns "send.conf:" && warns "remote" &&
        unchanged "$SCRATCH/b.img" exits 2 boot "$SCRATCH/take.conf" && warns "take.conf:" && warns "remote"
}

# A pipeline without a stream runs although the receiver never comes; after the last restart the appliance fails.
others_run_without_the_receiver() {
    appliances 300000 && sed -i 's/key = "key"/call = "200ms"; &/' "$SCRATCH/send.conf" && appliance send 'restarts = 2;' &&
        sed -i 's/^pipelines = (/& { name = "sum"; source = { object = "in"; }; operator = "crc32c"; },/' "$SCRATCH/send.conf" &&
        boots send && ended send 3 && grep -q "^sum .*done" "$SCRATCH/send.out" &&
        [ "$(grep -c "^sum .*done" "$SCRATCH/send.out")" = 1 ] && tells send "no connection for" && tells send "given up after 2 restarts"
}

another_key_is_not_tried_again() {
    appliances 300000 && key other && sed -i 's/key = "key"/key = "other"/' "$SCRATCH/send.conf" && boots take &&
        boots send && ended send 2 && tells send "it has another key" && [ "$(grep -c "it has another key" "$SCRATCH/send.err")" = 1 ] &&
        until_true 60 grep -q "refused: another key" "$SCRATCH/take.err" && is take 'r["restarts"] == 0' &&
        exits 0 stop --appliance take --wait && ended take 0
}

check "a stream runs once" a_stream_runs_once
check "an engine that sends is killed and replaced" a_killed_engine_is_replaced send
check "an engine that receives is killed and replaced" a_killed_engine_is_replaced take
check "both engines die at once" both_engines_die_at_once
check "an appliance that sends dies" an_appliance_dies send
check "an appliance that receives dies" an_appliance_dies take
check "engines that wait are replaced" engines_that_wait_are_replaced
check "a stop ends the wait" a_stop_ends_the_wait
check "a stop in the middle ends both and keeps what is durable" a_stop_in_the_middle_ends_both_and_keeps_what_is_durable
check "requests are answered while it waits" requests_are_answered_while_it_waits
check "schedules are refused" schedules_are_refused
check "other pipelines run without the receiver" others_run_without_the_receiver
check "another key is not tried again" another_key_is_not_tried_again
stop_all
done_testing

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The control socket of an appliance with real clients: users, mistakes, many of them, and an engine
# that dies meanwhile.
# shellcheck disable=SC2317  # called through check
set -uo pipefail
# shellcheck source=tests/cli/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"

clients() { python3 "$(dirname "$0")/lib/clients.py" "$RUNTIME_DIRECTORY/box.sock" "$@"; }

# conf [CONTROL [DEVICE_OPTIONS [BYTES]]]: one checksum over an object in memory, then it stays
conf() {
    cat >"$SCRATCH/x.conf" <<CONF
appliance = { name = "box"; };
ssds = ( { name = "a"; device = "soft:memory,size=64M${2-}"; timeout_ms = 600000;
  objects = ( { name = "in"; bytes = "${3-4M}"; } ); } );
gpus = ( { name = "g"; device = "host:2"; } );
boot = { post = "quick"; after = "stay"; backoff = "20ms"; };
control = { ${1-} };
pipelines = ( { name = "sum"; source = { object = "in"; }; operator = "crc32c"; tile = "64K"; } );
CONF
}

# start PHASE: boot the configuration, until `status` reports that phase
start() {
    "$HEADRACE" boot "$SCRATCH/x.conf" >"$SCRATCH/boot.out" 2>"$SCRATCH/boot.err" </dev/null &
    pid=$!
    phase "$1"
}
in_phase() { "$HEADRACE" status --json | grep "\"phase\": \"$1\"" >/dev/null; }
phase() { until_true 60 in_phase "$1"; }

# stop_it: a clean stop by request; the appliance and the command end with 0
stop_it() {
    exits 0 stop --wait && says "box: stop: done" && wait "$pid" || return 1
    [ ! -e "$RUNTIME_DIRECTORY/box.sock" ] || { echo "the socket stays"; return 1; }
}

check "without an appliance nothing can be asked" exits 3 stop
check "two arguments to stop" exits 2 stop a
check "no argument to trigger" exits 2 trigger
check "stop knows no option of another command" exits 2 stop --map
check "an option without its value" exits 2 stop --appliance

# check runs in a shell of its own, which cannot wait for this appliance
conf && start staying
named() {
    exits 0 status --json && json 'r["appliance"] == "box"' &&
        exits 0 status box && exits 3 status bax && warns "no appliance 'bax' runs here"
}
check "an appliance is asked by its name" named
# sockets NAME...: a socket file of each name whose owner is dead, from yesterday
sockets() {
    python3 - "$@" <<'PYTHON'
import os, socket, sys, time
for name in sys.argv[1:]:
    path = os.environ["RUNTIME_DIRECTORY"] + "/" + name + ".sock"
    socket.socket(socket.AF_UNIX).bind(path)
    os.utime(path, (time.time() - 86400,) * 2)
PYTHON
}
dead() {
    sockets dead gone && exits 0 status && says "box: " && exits 3 status dead &&
        warns "no appliance 'dead' runs here" && [ ! -e "$RUNTIME_DIRECTORY/dead.sock" ] &&
        [ ! -e "$RUNTIME_DIRECTORY/gone.sock" ] && [ -e "$RUNTIME_DIRECTORY/box.sock" ] || return 1
    sockets young && touch "$RUNTIME_DIRECTORY/young.sock" && exits 0 status && says "box: " &&
        [ -e "$RUNTIME_DIRECTORY/young.sock" ] && rm "$RUNTIME_DIRECTORY/young.sock"
}
check "sockets of dead programs are no appliances, and are removed unless they are new" dead
several() {
    local other code=0
    sed 's/name = "box"/name = "another"/' "$SCRATCH/x.conf" >"$SCRATCH/y.conf"
    "$HEADRACE" boot "$SCRATCH/y.conf" >/dev/null 2>&1 </dev/null &
    other=$!
    until_true 60 test -e "$RUNTIME_DIRECTORY/another.sock"
    exits 2 status && warns "2 appliances run here" && warns "give the name of one: 'another', 'box'" &&
        exits 2 stop || code=1
    until_true 60 exits 0 stop --appliance another && wait "$other" && return $code
}
check "with several appliances a request without a name lists them" several
unknown() { exits 2 trigger summ && warns "there is no pipeline 'summ'; did you mean 'sum'?" &&
    exits 2 pause / && exits 2 resume "$(printf 'n%.0s' {1..64})"; }
check "an unknown pipeline is refused with the nearest name" unknown
check "bytes that are no request are refused with the reason" clients garbage
check "a request of another version is refused" clients old
check "half a request ends at its deadline" clients half
check "a thousand silent clients keep no command from its answer" \
    clients hold 1000 "$HEADRACE" status
flood() {
    local i pids=()
    for i in {1..40}; do
        "$HEADRACE" status --json >"$SCRATCH/out.$i" & pids+=($!)
    done
    for i in "${pids[@]}"; do wait "$i" || return 1; done
    for i in {1..40}; do
        cp "$SCRATCH/out.$i" "$SCRATCH/out" && json 'r["phase"] == "staying"' || return 1
    done
}
check "commands at the same time are all answered" flood
quiet() { ! grep -iE 'warn|error' "$SCRATCH/boot.err"; }
check "refused and dropped requests cause no warning of the appliance" quiet
stop_json() {
    exits 0 stop --json && json 'r == {"schema": "headrace.answer", "version": 1, "appliance": "box", "request": "stop",
        "result": "accepted", "code": 0}'
}
check "a stop is accepted" stop_json
wait "$pid"
check "a stop ends the appliance with success" test $? = 0

# slow: each read of an object takes half a second, so that a pipeline over 48 MiB runs for most of a minute. A stop waits
# only for the reads in flight. Blocks below 256 have the object map.
slow() { printf 'on read lba 256-16383 count 1000000: delay 500ms\n' >"$SCRATCH/faults"; }
slow
running() {
    conf "" ",faults=$SCRATCH/faults" 48M && start running && exits 0 status --json &&
        json 'r["pipelines"][0]["outcome"] == "running"' && stop_it
}
check "an appliance is asked and stopped while a pipeline runs" running
# The health log is read when the ssd is used.
healthy() { exits 0 status --json && json 'r["ssds"][0].get("smart", {}).get("used_percent") == 120'; }
health() {
    conf "" ",faults=$SCRATCH/faults,kelvin=350,spare=5,used=120" 48M && start running &&
        until_true 60 healthy && json 'r["ssds"][0]["smart"]["warnings"] == ["spare", "temperature"]' &&
        exits 0 status && says "77 C, spare 5 %, used 120 %, 0 media errors; warning: spare" &&
        stop_it && grep -F "health: spare is below its threshold" "$SCRATCH/boot.err" &&
        grep -F "120 % of the endurance is used" "$SCRATCH/boot.err" &&
        [ "$(grep -cF "health: temperature" "$SCRATCH/boot.err")" = 1 ]
}
check "the health of an ssd is reported, and its warnings are logged once" health
waits_for_end() { conf "" ",faults=$SCRATCH/faults" 48M && start running && stop_it; }
check "the end of a stop is waited for" waits_for_end
killed() {
    local engine
    conf "" ",faults=$SCRATCH/faults" 48M && start running && exits 0 status --json || return 1
    engine=$(python3 -c 'import json,sys; print(json.load(open(sys.argv[1]))["engine_pid"])' \
        "$SCRATCH/out")
    kill -KILL "$engine" && until_true 60 grep -F "pipeline 'sum' is suspended" "$SCRATCH/boot.err" &&
        exits 0 status --json && json 'r["restarts"] == 1' && clients garbage && stop_it
}
check "the engine is killed, and the appliance answers on" killed
# ---- pipelines that repeat

# repeats WHEN [DEVICE_OPTIONS [BOOT [BYTES]]]: the same pipeline with a schedule
repeats() {
    conf "" "${2-}" "${4-4M}"
    sed -i "s/tile = \"64K\"; }/tile = \"64K\"; $1 }/; s/^boot = {.*/boot = { post = \"quick\"; backoff = \"20ms\"; ${3-} };/" \
        "$SCRATCH/x.conf"
}
ready() { "$HEADRACE" pause sum && "$HEADRACE" resume sum; }
# begins WHEN...: an appliance with a schedule takes requests; $extra is added to its configuration
begins() {
    repeats "$@"
    echo "${extra-}" >>"$SCRATCH/x.conf"
    "$HEADRACE" boot "$SCRATCH/x.conf" >"$SCRATCH/boot.out" 2>"$SCRATCH/boot.err" </dev/null &
    pid=$!
    until_true 60 ready
}
triggered() {
    begins 'on = \"request\";' && exits 0 trigger sum --wait && says "box: trigger 'sum', start 1: done" &&
        exits 0 trigger sum --wait --json && json 'r["start"] == 2 and r["result"] == "done"' &&
        exits 0 trigger sum && says "start 3: accepted" && stop_it
}
check "a trigger starts a pipeline, and waits for its end" triggered
paused() {
    begins 'on = \"request\";' && exits 0 pause sum && says "box: pause 'sum': done" &&
        exits 1 trigger sum && warns "pipeline 'sum' is paused" &&
        exits 0 pause sum && exits 0 resume sum && exits 0 trigger sum --wait && stop_it
}
check "a paused pipeline is not started until it is resumed" paused
fails() {
    printf 'on read lba 256-16383 count 1000000: status 0x281 dnr\n' >"$SCRATCH/bad"
    begins 'on = \"request\";' ",faults=$SCRATCH/bad" && exits 4 trigger sum --wait &&
        warns "appliance 'box': pipeline 'sum', start 1: " && stop_it
}
check "the exit code of a trigger that waits is that of the run" fails
interrupted() {
    local waiting
    begins 'on = \"request\";' ",faults=$SCRATCH/faults" "" 48M || return 1
    "$HEADRACE" trigger sum --wait >"$SCRATCH/waiting" 2>&1 &
    waiting=$!
    until_true 60 runs && stop_it && ! wait "$waiting" && grep -F "error: appliance 'box'" "$SCRATCH/waiting"
}
runs() { "$HEADRACE" status --json | grep '"outcome": "running"' >/dev/null; }
check "a stop answers the client that waits" interrupted
# No pipeline has started: the engine reads the health log while it is idle.
idle_health() {
    begins 'on = \"request\";' ",kelvin=350,used=120" && until_true 60 healthy && stop_it &&
        [ "$(grep -cF "health: temperature" "$SCRATCH/boot.err")" = 1 ]
}
check "the health of an ssd is reported while no pipeline runs" idle_health
# The start that a warning holds stays due, until the appliance is stopped.
held() {
    local waiting
    extra='health = { temperature = "pause"; };' begins 'on = \"request\";' ",kelvin=350" || return 1
    "$HEADRACE" trigger sum --wait >"$SCRATCH/waiting" 2>&1 &
    waiting=$!
    until_true 60 grep -F 'does not start: ssd' "$SCRATCH/boot.err" && stop_it && ! wait "$waiting" &&
        grep -F 'health.temperature is "pause"' "$SCRATCH/boot.err" &&
        ! grep -F "first tile submitted" "$SCRATCH/boot.err"
}
check "a warning whose action is pause holds a start" held
warned_run() {
    printf 'on read lba 256-16383 nth 8: warn 0x4\non read lba 256-16383 count 1000000: delay 500ms\n' >"$SCRATCH/worn"
    conf "" ",faults=$SCRATCH/worn" 48M && echo 'health = { reliability = "stop"; };' >>"$SCRATCH/x.conf" &&
        exits 4 run "$SCRATCH/x.conf" && warns "health: reliability is degraded" &&
        warns "pipeline 'sum' is stopped: ssd 'a' has a critical warning, and health.reliability is"
}
check "a warning whose action is stop ends a run cleanly" warned_run
none_repeats() {
    conf && start staying && exits 1 trigger sum && warns "repeats (every, at, after, on, forever)" &&
        exits 1 reload && stop_it
}
check "without a schedule a trigger is refused" none_repeats
reloads() {
    begins 'on = \"request\";' && exits 0 reload --json && json 'r["needs_restart"] == []' || return 1
    repeats 'every = \"1h\";' "" 'restarts = 7;'
    exits 0 reload --json && json 'r["needs_restart"] == ["boot"]' && exits 0 reload &&
        says "  needs a restart: boot" || return 1
    echo 'ssds = (' >"$SCRATCH/x.conf"
    exits 2 reload && warns "x.conf: nothing has changed: it has mistakes" || return 1
    exits 0 status --json && json 'r["pipelines"][0]["name"] == "sum"' && stop_it
}
check "a reload takes the schedule over, and lists the rest" reloads
hung_up() {
    begins 'on = \"request\";' && kill -HUP "$pid" &&
        until_true 60 grep -F "read again; its schedule is in force" "$SCRATCH/boot.err" && stop_it
}
check "SIGHUP is a reload" hung_up

foreground() {
    conf "" ",faults=$SCRATCH/faults" 48M
    "$HEADRACE" run --quiet "$SCRATCH/x.conf" >"$SCRATCH/boot.out" 2>"$SCRATCH/boot.err" </dev/null &
    pid=$!
    phase running && exits 1 trigger sum && warns "this appliance has no schedule" &&
        exits 0 stop --wait || return 1
    wait "$pid"
    [ $? = 1 ]
}
check "headrace run is asked and stopped, too" foreground

if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
    chmod 755 "$SCRATCH" "$(dirname "$SCRATCH")"
    cp "$HEADRACE" "$SCRATCH/headrace"
    # as UID GID CODE ARGUMENTS...: headrace as another user ends with that code
    as() {
        local want=$3 got=0
        timeout 200 setpriv --reuid "$1" --regid "$2" --clear-groups "$SCRATCH/headrace" "${@:4}" \
            >"$SCRATCH/out" 2>"$SCRATCH/err" </dev/null || got=$?
        [ "$got" = "$want" ] || { echo "exit code $got, expected $want"; return 1; }
    }
    if as 65534 65534 0 --version; then
        wrong_user() {
            conf && start staying && as 65534 65534 3 status && warns "gives user 65534 no permission" &&
                as 65534 65534 3 stop && chmod 0700 "$RUNTIME_DIRECTORY" && as 65534 65534 3 status &&
                warns "cannot be read ($RUNTIME_DIRECTORY: Permission denied)" &&
                chmod 0755 "$RUNTIME_DIRECTORY" && stop_it
        }
        check "another user may not ask" wrong_user
        group_user() {
            conf 'mode = "0640"; group = "7";' && start staying && as 65534 7 0 status &&
                says "box: staying" && as 65534 7 3 stop &&
                warns "user 65534 may not send 'stop': control.mode is \"0640\"" &&
                as 65534 65534 3 status && stop_it
        }
        check "a member of the group may ask, and not change" group_user
        group_changes() {
            conf 'mode = "0660"; group = "7";' && start staying && as 65534 7 0 stop --wait &&
                wait "$pid"
        }
        check "a member of the group may change with the mode 0660" group_changes
    else
        skip "another user cannot run programs of this folder" "users of the control socket"
    fi
else
    skip "not root, or no setpriv" "users of the control socket"
fi
done_testing

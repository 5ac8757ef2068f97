#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# headrace boot is a supervisor with an engine as a separate process. The engine dies in several ways.
# shellcheck disable=SC2016,SC2317  # an inner shell expands; called through check
set -uo pipefail
# Operators of this script die of SIGILL, as without a sanitizer.
export ASAN_OPTIONS=${ASAN_OPTIONS-}:handle_sigill=0
# shellcheck source=tests/cli/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"
export SCRATCH

# conf BOOT_SETTINGS [DEVICE_OPTIONS [OPERATOR]]: `p` copies 1024 tiles, then `sum` reads them again
conf() {
    cat >"$SCRATCH/x.conf" <<CONF
appliance = { name = "box"; checkpoint = "20ms"; };
ssds = ( { name = "a"; device = "soft:$SCRATCH/a.img${2-}"; timeout_ms = 20000; } );
gpus = ( { name = "g"; device = "host:2"; } );
operators = ( { name = "liar"; file = "$SCRATCH/liar.op"; } );
boot = { post = "off"; $1 };
pipelines = (
  { name = "p"; source = { object = "in"; }; operator = ${3-$copy};
    sink = { object = "out"; }; tile = "4K"; slots = 2; },
  { name = "sum"; source = { object = "in"; }; operator = "crc32c"; tile = "1M"; } );
CONF
}
copy='"copy"'
liar='"liar"; args = { lie = "address"; }'

prepare() {
    env -i PATH="$PATH" make NVCC= O="$SCRATCH" op OP=tests/op/liar.c >"$SCRATCH/out" 2>"$SCRATCH/err" &&
        head -c $((4 << 20)) /dev/urandom >"$SCRATCH/in" && fresh
}
fresh() {
    rm -f "$SCRATCH/a.img"
    exits 0 store format "soft:$SCRATCH/a.img,size=64M" &&
        exits 0 store put "soft:$SCRATCH/a.img" in "$SCRATCH/in"
}
copied() {
    exits 0 store get "soft:$SCRATCH/a.img" out - && cmp "$SCRATCH/in" "$SCRATCH/out"
}
slow() { echo 'on read count 1000000: delay 250ms' >"$SCRATCH/faults"; }
fast() { : >"$SCRATCH/faults"; }

service() { python3 "$(dirname "$0")/lib/service.py" "$HEADRACE" "$SCRATCH/x.conf" "$@"; }
warned() { grep -qE -- "$1" "$SCRATCH/boot.err" || { cat "$SCRATCH/boot.err"; return 1; }; }

# Called by the shell of a step: request the status of the appliance and check it.
cat >"$SCRATCH/ask" <<'ASK'
#!/bin/bash
# ask EXPRESSION: the expression is true for the status r
"$HEADRACE" status box --json >"$SCRATCH/status" || exit 1
python3 -c '
import json, sys
r = json.load(open(sys.argv[1]))
p = r["pipelines"]
v = eval(sys.argv[2])
print("" if v is True else v)
sys.exit(not v)' "$SCRATCH/status" "$1"
ASK
# The first pipeline has made some tiles durable.
cat >"$SCRATCH/wait" <<'WAIT'
#!/bin/bash
until "$SCRATCH/ask" 'p[0]["durable_tiles"] >= 4' >/dev/null; do sleep 0.05; done
"$SCRATCH/ask" 'r["engine_pid"]' >"$SCRATCH/engine"
WAIT
# The first pipeline runs in another engine than that of `wait`.
cat >"$SCRATCH/wait_again" <<'WAIT'
#!/bin/bash
other="r['engine_pid'] not in (0, $(cat "$SCRATCH/engine"))"
until "$SCRATCH/ask" "$other and p[0]['name'] == 'p' and p[0]['outcome'] == 'running'" >/dev/null; do sleep 0.05; done
"$SCRATCH/ask" 'r["engine_pid"]' >"$SCRATCH/engine"
WAIT
chmod +x "$SCRATCH/ask" "$SCRATCH/wait" "$SCRATCH/wait_again"
export HEADRACE

check "prepare an image and an operator" prepare

two_processes() {
    slow && conf 'restarts = 0;' ",faults=$SCRATCH/faults" && service until=running "sh=$SCRATCH/wait" \
        'sh=[ "$(cat "$SCRATCH/engine")" != "$PID" ]' \
        'sh=[ "$(ps -o ppid= "$(cat "$SCRATCH/engine")" | tr -d " ")" = "$PID" ]' \
        'sh=! ls -l "/proc/$PID/fd" | grep -q a.img' \
        'sh=ls -l "/proc/$(cat "$SCRATCH/engine")/fd" | grep -q a.img' \
        signal=TERM exit=0 'sh=! kill -0 "$(cat "$SCRATCH/engine")"' &&
        warned "tiles of object 'out' are durable"
}
check "the engine is a child, which alone has the disk open, and ends with the supervisor" two_processes

# The next engine reads at full speed.
killed() {
    fresh && slow && conf 'restarts = 1; backoff = "1s";' ",faults=$SCRATCH/faults" &&
        service until=running "sh=$SCRATCH/wait" "sh=: >$SCRATCH/faults" \
            "sh=$SCRATCH/ask 'r[\"restarts\"] == 0 and p[0][\"outcome\"] == \"running\"'" \
            'sh=kill -KILL "$(cat "$SCRATCH/engine")"' until=backoff \
            "sh=$SCRATCH/ask 'r[\"restarts\"] == 1 and r[\"pid\"] == int(\"'\$PID'\")'" \
            "sh=$SCRATCH/ask 'str(r[\"engine_pid\"]) != open(\"$SCRATCH/engine\").read().strip()'" \
            until=running exit=0 told=READY=1 told=STOPPING=1 &&
        warned "engine $(cat "$SCRATCH/engine"): ended by signal 9 \(Killed\); it ran: pipeline 'p'" &&
        warned "'p' resumes at tile [1-9]" && warned "pipeline 'p' is suspended for 1.0 s" && copied
}
check "kill -9 of the engine is reported, the status answers, the run resumes" killed

# Each wait is far below the 120 s of bring-up: the limit of a service is above that, and the test fails then.
stopped() {
    fresh && slow && conf 'restarts = 1; backoff = "10ms"; progress_s = 10;' ",faults=$SCRATCH/faults" &&
        service until=running "sh=$SCRATCH/wait" "sh=: >$SCRATCH/faults" \
            'sh=kill -STOP "$(cat "$SCRATCH/engine")"' \
            "sh=until $SCRATCH/ask 'r.get(\"progress_age_ms\", 0) >= 1000'; do sleep 0.1; done" \
            "sh=$HEADRACE status >$SCRATCH/text" until=bring-up until=running exit=0 &&
        grep -qE '^box: running, .*, progress [0-9.]+ s ago, 0 restarts' "$SCRATCH/text" &&
        warned "engine $(cat "$SCRATCH/engine"): no progress for 1[0-9]{4} ms; it is killed; it ran: pipeline 'p'" &&
        copied
}
check "an engine that is stopped is replaced after progress_s, and status tells the age of its progress" stopped
no_progress() { conf 'progress_s = 0;'; exits 2 boot "$SCRATCH/x.conf" && warns "boot.progress_s: is 0, expected an integer from 1 to 3600"; }
check "progress_s of 0 is a mistake" no_progress

# Each engine dies, and every second engine before any pipeline runs.
used_up() {
    fresh && slow && conf 'restarts = 1; backoff = "10ms";' ",faults=$SCRATCH/faults" &&
        service until=running "sh=$SCRATCH/wait" 'sh=kill -SEGV "$(cat "$SCRATCH/engine")"' \
            "sh=$SCRATCH/wait_again" \
            'sh=kill -ABRT "$(cat "$SCRATCH/engine")"' exit=1 &&
        warned "pipeline 'p' is given up after 1 restarts"
}
check "dying engines use up the restarts" used_up

# The third tile kills the engine; pipelines that do not use that tile are done first.
crashes() {
    fresh && conf 'restarts = 2; backoff = "10ms";' "" "$liar" && exits 1 boot "$SCRATCH/x.conf" &&
        warns "given up after 2 restarts" && says "crc32c" &&
        [ "$(grep -cE "engine [0-9]+: (ended by signal|exited with code).*it ran: pipeline 'p'" \
            "$SCRATCH/err")" = 3 ]
}
check "a crashing operator ends its engine and no other pipeline" crashes

vanishes() {
    fresh && slow && conf 'restarts = 1;' ",faults=$SCRATCH/faults" && service until=running \
        "sh=$SCRATCH/wait" signal=KILL exit=-9 &&
        for ((i = 0; i < 1200; i++)); do
            kill -0 "$(cat "$SCRATCH/engine")" 2>/dev/null || break
            sleep 0.05
        done
    fast
    exits 0 boot "$SCRATCH/x.conf" && warns "'p' resumes at tile" && copied
}
check "the engine ends with its supervisor, and the next engine resumes the run" vanishes

# The process that reads the configuration loads the operator, and the operator crashes.
crashes_early() {
    mkdir -p "$SCRATCH/early" && { cat tests/op/liar.c
        echo 'static void __attribute__((constructor)) early(void) { __builtin_trap(); }'
    } >"$SCRATCH/early/liar.c" && mv "$SCRATCH/liar.op" "$SCRATCH/late.op" &&
        env -i PATH="$PATH" make NVCC= O="$SCRATCH" op OP="$SCRATCH/early/liar.c" >"$SCRATCH/out" \
            2>"$SCRATCH/err" && conf 'restarts = 1;' && exits 2 boot "$SCRATCH/x.conf" &&
        warns "the process that reads the configuration, and loads its user operators, ended by signal"
}
check "an operator that crashes during loading does not end the supervisor" crashes_early
mv "$SCRATCH/late.op" "$SCRATCH/liar.op"

# As some supervisors of containers start it: the kernel would collect the children by itself.
childless() {
    fresh && conf 'restarts = 0;' && timeout 200 python3 -c 'import os, signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
os.execv(sys.argv[1], sys.argv[1:])' "$HEADRACE" boot "$SCRATCH/x.conf" >"$SCRATCH/out" 2>"$SCRATCH/err" \
        </dev/null && copied
}
check "a parent that ignores SIGCHLD changes nothing" childless

full() {
    local code=0
    fresh && conf 'restarts = 0;' || return 1
    "$HEADRACE" boot "$SCRATCH/x.conf" >/dev/full 2>"$SCRATCH/err" </dev/null || code=$?
    [ "$code" = 1 ] && warns "standard output: cannot write"
}
check "a failed write of the report is a failure" full

if unshare -mpf --mount-proc true 2>/dev/null; then
    last_resort() {
        fresh && conf 'restarts = 1; backoff = "10ms"; last_resort = "reboot";' "" "$liar" || return 1
        timeout 200 unshare -mpf --mount-proc "$HEADRACE" boot "$SCRATCH/x.conf" >"$SCRATCH/out" \
            2>"$SCRATCH/err" </dev/null
        warns "is the first process" && warns "given up after 1 restarts" &&
            warns "the appliance does not run (code 1); reboot in 5 s" &&
            ! warns "does not reboot" >/dev/null
    }
    check "the first process outlives its engines and obeys last_resort" last_resort
else
    skip "no PID namespaces here" "the first process after the death of its engine"
fi
done_testing

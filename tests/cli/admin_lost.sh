#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# headrace boot and run when a controller loses admin commands: I/O goes on, and the controller is reset
# as soon as no run uses it.
# shellcheck disable=SC2317  # called through check
set -uo pipefail
# shellcheck source=tests/cli/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"
export SCRATCH HEADRACE

image=$SCRATCH/a.img
make_image() {
    head -c 1000000 /dev/urandom >"$SCRATCH/in"
    rm -f "$image"
    exits 0 store format "soft:$image,size=32M" &&
        exits 0 store put "soft:$image" in "$SCRATCH/in"
}

# conf FAULTS KEYS [DEVICE_OPTIONS]: a pipeline that repeats
conf() {
    printf '%s\n' "$1" >"$SCRATCH/faults"
    cat >"$SCRATCH/x.conf" <<CONF
appliance = { name = "box"; };
ssds = ( { name = "a"; device = "soft:$image,faults=$SCRATCH/faults${3-}"; admin_timeout_ms = 300;
           timeout_ms = 20000; } );
gpus = ( { name = "g"; device = "host:2"; } );
boot = { post = "off"; restarts = 0; backoff = "20ms"; };
pipelines = ( { name = "copy"; source = { object = "in"; }; operator = "copy"; tile = "64K";
  sink = { object = "out"; keep = 2; }; $2 } );
CONF
}
service() { python3 "$(dirname "$0")/lib/service.py" "$HEADRACE" "$SCRATCH/x.conf" "$@"; }
# The JSON status r has an EXPRESSION; p is its pipeline, s its ssd.
cat >"$SCRATCH/until.py" <<'PYTHON'
import json, subprocess, sys, time
for _ in range(1200):
    out = subprocess.run([sys.argv[1], "status", "--json"], capture_output=True).stdout
    r = json.loads(out) if out else {}
    p, s = (r.get("pipelines", []) + [{}])[0], (r.get("ssds", []) + [{}])[0]
    try:
        if eval(sys.argv[2]):
            sys.exit(0)
    except KeyError:
        pass
    time.sleep(0.05)
sys.exit(f"{sys.argv[2]}: {r}")
PYTHON
until_status() { echo "sh=python3 $SCRATCH/until.py $HEADRACE '$1'"; }
warned() { grep -qE -- "$1" "$SCRATCH/boot.err" || { cat "$SCRATCH/boot.err"; return 1; }; }
warned_once() { [ "$(grep -cE -- "$1" "$SCRATCH/boot.err")" = 1 ] || { cat "$SCRATCH/boot.err"; return 1; }; }

check "prepare an image" make_image

# No restart is left, so the engine itself recovers. No start fails.
starts_go_on() {
    conf "$1" 'every = "100ms";' "${3-}"
    service "$(until_status 'p["done_count"] >= '"$((6 + before))"' and s["health"] == "up"')" \
        "$(until_status 'p["failures_count"] == 0 and s["admin_queue_failures"] >= 1')" \
        signal=TERM exit=0 || { cat "$SCRATCH/boot.err"; return 1; }
    before=$((before + 6))
    warned "error: soft:.*: admin $2 \(cid [0-9a-f]{4}\): no completion after 300 ms" &&
        warned_once "the controller was reset, because its admin queue had ended" &&
        exits 0 store get --force "soft:$image${3-}" out "$SCRATCH/copy" && cmp "$SCRATCH/in" "$SCRATCH/copy"
}
before=0
check "a lost Create I/O CQ costs no start" starts_go_on "on admin opcode 0x05 nth 4: drop" "create I/O CQ"
check "a lost Delete I/O SQ costs no start" starts_go_on "on admin opcode 0x00 nth 2: drop" "delete I/O SQ"
check "a lost reading of the health log at the start costs no start" \
    starts_go_on "on admin opcode 0x02: drop" "get log page"
broken_queue() {
    conf "on admin opcode 0x02: wrong-cid 0xffff" 'every = "100ms";'
    service "$(until_status 'p["done_count"] >= '"$((6 + before))"' and s["admin_queue_failures"] == 1')" \
        signal=TERM exit=0 || { cat "$SCRATCH/boot.err"; return 1; }
    warned "admin queue: CQE [0-9]+: CID ffff was never sent" && warned_once "the controller was reset"
}
check "a broken admin queue costs no start" broken_queue

# Each Delete I/O CQ is lost. The second reset waits for backoff, and the start with it.
resets_pause() {
    conf "on admin opcode 0x04 count 1000000: drop" 'every = "100ms";'
    sed -i 's/backoff = "20ms"/backoff = "1h"/' "$SCRATCH/x.conf"
    service "$(until_status 's["admin_queue_failures"] == 2 and s["health"] == "no_admin" and "waits_for" in p')" \
        signal=TERM exit=0 || { cat "$SCRATCH/boot.err"; return 1; }
    warned_once "the controller was reset, because its admin queue had ended"
}
check "a controller that loses each admin command is not reset without a pause" resets_pause

# The pipeline runs while a log page is lost: I/O goes on. The event comes from the first read.
in_a_run() {
    conf "on read nth 3: warn 2
on read count 1000000: delay 60ms
on admin opcode 0x02 nth $1: drop" "$2"
}
run_goes_on() {
    in_a_run 1 '' && exits 0 run "$SCRATCH/x.conf" &&
        warns "admin get log page (cid " && ! grep -q "is lost" "$SCRATCH/err" &&
        exits 0 store get --force "soft:$image" out "$SCRATCH/copy" && cmp "$SCRATCH/in" "$SCRATCH/copy"
}
check "a lost log page does not end a run" run_goes_on

appliance_goes_on() {
    in_a_run 2 'every = "100ms"; slots = 1;'
    service "$(until_status 's["health"] == "no_admin" and p["outcome"] == "running"')" \
        "sh=: >$SCRATCH/faults" \
        "$(until_status 's["admin_queue_failures"] == 1 and s["health"] == "up"')" \
        signal=TERM exit=0 || { cat "$SCRATCH/boot.err"; return 1; }
    warned "admin get log page" &&
        warned_once "the controller was reset, because its admin queue had ended"
}
check "a log page that is lost in a run leads to a reset after the run" appliance_goes_on

# The ssds share a controller: the start on `a` waits for the end of the run on `b`.
shared() {
    rm -f "$SCRATCH/two.img"
    local device="soft:$SCRATCH/two.img,size=64M,namespaces=2" nsid
    for nsid in 1 2; do
        exits 0 store format --nsid $nsid "$device" &&
            exits 0 store put --nsid $nsid "$device" in "$SCRATCH/in" || return 1
    done
    printf '%s\n' "on read count 24: delay 100ms" "on admin opcode 0x05 nth 6: drop" >"$SCRATCH/faults"
    cat >"$SCRATCH/x.conf" <<CONF
appliance = { name = "box"; parallel = 2; };
ssds = ( { name = "a"; device = "$device,faults=$SCRATCH/faults"; admin_timeout_ms = 300; },
         { name = "b"; device = "$device,faults=$SCRATCH/faults"; namespace = 2; } );
gpus = ( { name = "g"; device = "host:4"; } );
boot = { post = "off"; restarts = 0; backoff = "20ms"; };
pipelines = ( { name = "sum"; source = { object = "in"; ssd = "a"; }; operator = "crc32c"; every = "200ms"; },
  { name = "slow"; source = { object = "in"; ssd = "b"; }; operator = "crc32c"; tile = "64K"; slots = 1; every = "1h"; } );
CONF
    service "$(until_status 's["admin_queue_failures"] == 1 and s["health"] == "up"')" \
        "$(until_status 'p["done_count"] >= 3 and r["pipelines"][1]["done_count"] == 1')" \
        "$(until_status 'p["failures_count"] + r["pipelines"][1]["failures_count"] == 0')" \
        signal=TERM exit=0 || { cat "$SCRATCH/boot.err"; return 1; }
    warned_once "the controller was reset, because its admin queue had ended"
}
check "a start waits until no run uses the controller" shared

# Each engine loses Identify in its reset.
reset_fails() {
    conf "on admin opcode 0x02: drop
on admin opcode 0x06 nth 4: drop" 'every = "100ms";'
    sed -i 's/restarts = 0/restarts = 1/' "$SCRATCH/x.conf"
    exits 4 boot "$SCRATCH/x.conf" && warns "its admin queue has ended, and its reset has failed" &&
        warns "admin identify (cid " && warns "restart 1 of 1" && warns "given up after 1 restarts"
}
check "a reset that fails takes a new engine" reset_fails

reserved() {
    make_image || return 1
    conf "on admin opcode 0x05 nth 4: drop" 'every = "100ms";' ",reservations=1"
    service "$(until_status 'p["done_count"] >= 4 and s["admin_queue_failures"] == 1')" \
        signal=TERM exit=0 || { cat "$SCRATCH/boot.err"; return 1; }
    ! warned "reservation of this host is lost" >/dev/null
}
check "the reservation stays" reserved

# ---- data of events that the controller is not ready to give

late_log() {
    conf "on read nth 3: warn 2
on admin opcode 0x02 nth 2 count 6: status 0x82" 'every = "100ms";'
    service "$(until_status '"temperature" in s["smart"]["warnings"] and s["health"] == "up"')" \
        signal=TERM exit=0 || { cat "$SCRATCH/boot.err"; return 1; }
    ! warned "does not give its health log page" >/dev/null
}
check "a log page that is not ready is read later" late_log

late_namespace() {
    conf "on read nth 3: protect
on read count 1000000: delay 20ms
on admin opcode 0x06 nth 4 count 4: status 0x84" ''
    sed -i 's/operator = "copy"/operator = "crc32c"/; /sink = /d; s/tile = "64K";$/tile = "64K"; slots = 1; } );/' \
        "$SCRATCH/x.conf"
    exits 0 run "$SCRATCH/x.conf" && warns "namespace 1 is write protected now"
}
check "a namespace that has changed is identified when it is ready" late_namespace

done_testing

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Controllers that are slow, or not ready yet, and those that refuse optional commands.
set -uo pipefail
# shellcheck source=tests/cli/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"

image=$SCRATCH/ssd.img

# conf [SSD_KEYS [PIPELINE_KEYS]]: `sum` reads 64 tiles from a controller with the faults of `faults`
conf() {
    cat >"$SCRATCH/x.conf" <<CONF
ssds = ( { name = "a"; device = "soft:$image,faults=$SCRATCH/faults"; ${1-timeout_ms = 20000;} } );
gpus = ( { name = "g"; device = "host:2"; } );
pipelines = ( { name = "sum"; source = { object = "in"; }; operator = "crc32c";
  tile = "64K"; ${2-slots = 4;} } );
CONF
}
faults() { printf '%s\n' "$@" >"$SCRATCH/faults"; }

make_image() {
    head -c $((4 << 20)) /dev/urandom >"$SCRATCH/in"
    exits 0 store format "soft:$image,size=64M" && exits 0 store put "soft:$image" in "$SCRATCH/in"
}
check "prepare an image" make_image

# ---- deadlines

# More than the deadline of configurations, 5 s.
slow_flush() {
    faults "on flush: delay 6s"
    exits 0 store put --replace "soft:$image,faults=$SCRATCH/faults" slow "$SCRATCH/in"
}
check "store waits for a flush that takes 6 s" slow_flush

lost_flush() {
    faults "on flush: drop"
    exits 4 store put --timeout 500ms "soft:$image,faults=$SCRATCH/faults" lost "$SCRATCH/in" &&
        warns "flush" && warns "no completion after 500 ms"
}
check "store --timeout sets the deadline of I/O commands" lost_flush

lost_identify() {
    faults "on admin opcode 0x06: drop"
    exits 4 store ls --timeout 500ms "soft:$image,faults=$SCRATCH/faults" &&
        warns "admin identify" && warns "no completion after 500 ms"
}
check "store --timeout sets the deadline of admin commands" lost_identify

bad_timeout() {
    local text
    for text in 0 999us 601s x ""; do
        exits 2 store ls --timeout "$text" "soft:$image" || return 1
    done
}
check "store --timeout takes 1ms to 10m" bad_timeout

late_identify() {
    faults "on admin opcode 0x06: drop"
    conf 'timeout_ms = 20000; admin_timeout_ms = 300;'
    exits 4 run "$SCRATCH/x.conf" && warns "admin identify" && warns "no completion after 300 ms"
}
check "admin_timeout_ms is the deadline of admin commands" late_identify

# ---- statuses of a controller that is not ready

# ready_later FAULT...: the run waits for the controller, and its result is right
ready_later() {
    faults "$@"
    conf
    exits 0 run "$SCRATCH/x.conf" && says "$crc"
}
faults ""
conf
check "run without faults" exits 0 run "$SCRATCH/x.conf"
crc=$(grep -oE 'crc32c +0x[0-9a-f]{8}|0x[0-9a-f]{8}' "$SCRATCH/out" | head -n 1)

check "Identify Namespace is repeated until the namespace is ready" \
    ready_later "on admin opcode 0x06 nth 3 count 2: status 0x82"
check "Identify Controller is repeated until the medium is ready" \
    ready_later "on admin opcode 0x06 count 12: status 0x24"
check "Create I/O CQ is repeated until a format has ended" \
    ready_later "on admin opcode 0x05 nth 2 count 9: status 0x84"
# more repetitions than those of other temporary statuses
check "reads are repeated until a sanitize has ended" \
    ready_later "on read nth 20 count 60: status 0x1d"

never_ready() {
    faults "on admin opcode 0x06: status 0x82" "on admin opcode 0x06 count 9999: status 0x82"
    conf 'admin_timeout_ms = 1500;'
    exits 4 run "$SCRATCH/x.conf" && warns "Namespace Not Ready" &&
        warns "it is sent again for at most 1500 ms"
}
check "the deadline ends the repetitions of admin commands" never_ready

do_not_retry() {
    faults "on admin opcode 0x06 count 2: status 0x82 dnr"
    conf
    exits 4 run "$SCRATCH/x.conf" && warns "Namespace Not Ready (082)"
}
check "an admin command with Do Not Retry is not repeated" do_not_retry

endless() {
    faults "on read nth 20 count 999999: status 0x1d"
    conf 'timeout_ms = 1500;'
    exits 4 run "$SCRATCH/x.conf" && warns "Sanitize In Progress" && warns "object 'in'"
}
check "the deadline ends the repetitions of reads" endless

# Each tile has more commands than a slot can list: 32 of 8 KiB.
whole_tiles() {
    faults "on read nth 100 count 90: status 0x82" "on write nth 70 count 90: status 0x84" \
        "on flush nth 3 count 10: status 0x82"
    cat >"$SCRATCH/t.conf" <<CONF
appliance = { checkpoint = "20ms"; };
ssds = ( { name = "a"; device = "soft:$image,mdts=1,faults=$SCRATCH/faults"; timeout_ms = 60000; } );
gpus = ( { name = "g"; device = "host:2"; } );
pipelines = ( { name = "p"; source = { object = "in"; }; operator = "copy";
  sink = { object = "out"; replace = true; }; tile = "256K"; slots = 4; } );
CONF
    exits 0 run "$SCRATCH/t.conf" && exits 0 store get --force "soft:$image" out "$SCRATCH/copy" &&
        cmp "$SCRATCH/in" "$SCRATCH/copy"
}
check "tiles of many commands are repeated as a whole" whole_tiles

put_later() {
    faults "on write nth 3 count 40: status 0x84" "on flush count 20: status 0x82"
    exits 0 store put --replace "soft:$image,faults=$SCRATCH/faults" later "$SCRATCH/in" &&
        exits 0 store get --force "soft:$image" later "$SCRATCH/copy" && cmp "$SCRATCH/in" "$SCRATCH/copy"
}
check "store put waits until the disk is ready" put_later

# ---- optional commands that a controller refuses

# goes_on FAULT TEXT: the run is done, and says how
goes_on() {
    faults "$1"
    conf
    exits 0 run "$SCRATCH/x.conf" && says "$crc" && warns "$2"
}
check "a controller that does not let the number of queues be set" \
    goes_on "on admin opcode 0x09 nth 2: status 0x6" \
    "does not let the number of queues be set: Internal Error (006); it reports the number"
fixed_queues() {
    faults "on admin opcode 0x09 nth 2: status 0x6" "on admin opcode 0x0a: status 0x2"
    conf
    exits 0 run "$SCRATCH/x.conf" && says "$crc" && warns "nor does it report the number"
}
check "a controller that does not report the number of queues either" fixed_queues

# ---- locked disks

locked() {
    faults "on read count 999999: status 0x286 dnr" "on write count 999999: status 0x286 dnr"
    conf
    exits 4 boot "$SCRATCH/x.conf" && warns "Access Denied: the disk is locked" &&
        ! grep -q "restart 1 of" "$SCRATCH/err"
}
check "a locked disk is named, and the appliance does not restart over it" locked

done_testing

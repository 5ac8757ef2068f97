#!/bin/bash
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

done_testing

#!/bin/bash
# The documented exit codes of run, boot, post and store: the kind of the error that ended the command.
# shellcheck disable=SC2317  # called through check
set -uo pipefail
# shellcheck source=tests/cli/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"

image=$SCRATCH/ssd.img

# conf [DEVICE [MORE_SSDS]]: copy an object to another one of the same ssd
conf() {
    cat >"$SCRATCH/x.conf" <<CONF
ssds = ( { name = "a"; device = "${1-soft:$image}"; timeout_ms = 20000; }${2-} );
gpus = ( { name = "g"; device = "host:2"; } );
boot = { post = "off"; restarts = 0; wait_s = 0; };
pipelines = ( { name = "p"; source = { ssd = "a"; object = "in"; }; operator = "copy";
  sink = { ssd = "a"; object = "out"; }; tile = "64K"; slots = 4; } );
CONF
}

# all CODE TEXT: run, boot and post end with the code, and run and boot with the message
all() {
    exits "$1" run "$SCRATCH/x.conf" && { [ -z "$2" ] || warns "$2"; } &&
        exits "$1" boot "$SCRATCH/x.conf" && { [ -z "$2" ] || warns "$2"; } &&
        exits "$1" post "$SCRATCH/x.conf"
}

make_image() {
    rm -f "$image"
    head -c 1000000 /dev/urandom >"$SCRATCH/in"
    exits 0 store format "soft:$image,size=64M" && exits 0 store put "soft:$image" in "$SCRATCH/in"
}

done_0() {
    make_image && conf && all 0 "" && exits 0 store get "soft:$image" out - &&
        cmp -s "$SCRATCH/in" "$SCRATCH/out"
}

# damage: one byte of each superblock
damage() {
    local at
    for at in 100 4196; do
        printf '\377' | dd of="$image" bs=1 seek=$at conv=notrunc status=none || return 1
    done
}

# An object of another owner has the name of the sink; then the object store is damaged.
failed_1() {
    make_image && exits 0 store put "soft:$image" out "$SCRATCH/in" && conf &&
        exits 1 run "$SCRATCH/x.conf" && warns "object 'out' exists on ssd 'a'" &&
        exits 1 boot "$SCRATCH/x.conf" && warns "object 'out' exists on ssd 'a'" &&
        exits 1 store put "soft:$image" out "$SCRATCH/in" && warns "exists already" &&
        damage && all 1 "object store: superblock 0: CRC-32C is" && says "FAIL store" && exits 1 store ls "soft:$image"
}

# A mistake that cannot be found before the disks are open.
usage_2() {
    make_image && ln -sf "$image" "$SCRATCH/link.img" &&
        conf "soft:$image,shared=1" \
            ", { name = \"b\"; device = \"soft:$SCRATCH/link.img,shared=1\"; }" &&
        exits 2 run "$SCRATCH/x.conf" && warns "are the same disk" &&
        exits 2 post "$SCRATCH/x.conf" && says "are the same disk" &&
        exits 2 store put "soft:$image" a/b "$SCRATCH/in"
}

missing_3() {
    conf "soft:$SCRATCH/none.img" && all 3 "ssd 'a' cannot be brought up: " &&
        exits 3 store ls "soft:$SCRATCH/none.img" && warns "none.img"
}

device_4() {
    make_image && echo "on read: status 0x281 dnr" >"$SCRATCH/faults" &&
        conf "soft:$image,faults=$SCRATCH/faults" && all 4 "Unrecovered Read Error" &&
        exits 4 store get "soft:$image,faults=$SCRATCH/faults" in - && warns "Unrecovered Read Error"
}

# once CODE TEXT: the last text is on stderr in one line
once() {
    exits "$1" run "$SCRATCH/x.conf" && [ "$(grep -cF -- "$2" "$SCRATCH/err")" = 1 ]
}

check "exit code 0: done" done_0
check "exit code 1: failed" failed_1
check "exit code 2: a mistake of the user" usage_2
check "exit code 3: missing device or requirement" missing_3
check "exit code 4: a device error" device_4
check "an error is printed once" once 4 "Unrecovered Read Error"
done_testing

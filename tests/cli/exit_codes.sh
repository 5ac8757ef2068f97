#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
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
# A limit that is enough leads to 0; with too few files the loader of libc itself may end with 127. LeakSanitizer
# needs files and a process of its own.
zero_or_one() { # zero_or_one CODE WHAT
    case $1 in
        0 | 1 | 127) ;;
        *) echo "$2: exit code $1: $(cat "$SCRATCH/err")" && return 1 ;;
    esac
}

with_operator() {
    rm -f "$image" && conf && exits 0 store format "soft:$image,size=64M" &&
        exits 0 store put "soft:$image" in "$SCRATCH/in" &&
        env -i PATH="$PATH" make -s NVCC= O="$SCRATCH/op" op OP=gpu/ops/template/histogram.c >"$SCRATCH/out" &&
        echo 'operators = ( { name = "histogram"; file = "op/histogram.op"; } );' >>"$SCRATCH/x.conf"
}

files_1() {
    local n command code
    with_operator || return 1
    for command in "check $SCRATCH/x.conf" "run $SCRATCH/x.conf" "boot $SCRATCH/x.conf" "post $SCRATCH/x.conf" \
        "store ls soft:$image" "store get --force soft:$image in $SCRATCH/back"; do
        for n in 4 5 6 7 8 10 12 14 16 20; do
            # shellcheck disable=SC2086
            ASAN_OPTIONS="${ASAN_OPTIONS-}:detect_leaks=0" timeout 100 prlimit --nofile=$n "$HEADRACE" $command \
                </dev/null >"$SCRATCH/out" 2>"$SCRATCH/err"
            code=$?
            zero_or_one $code "$command with $n files" || return 1
        done
    done
}

# Only root can be another user, and root itself has no limit.
processes_1() {
    local n command code
    [ "$(id -u)" = 0 ] || return 0
    with_operator && rm -rf "$SCRATCH/own" && mkdir "$SCRATCH/own" && cp -r "$image" "$SCRATCH/op" "$SCRATCH/own" &&
        sed "s,$SCRATCH/,$SCRATCH/own/,g" "$SCRATCH/x.conf" >"$SCRATCH/own/x.conf" && chown -R 65534 "$SCRATCH/own" &&
        chmod -R go-w "$SCRATCH/own" || return 1
    for command in check run boot post; do
        for n in 1 2 3 4 6 8; do
            timeout 100 setpriv --reuid=65534 --regid=65534 --clear-groups \
                env ASAN_OPTIONS="${ASAN_OPTIONS-}:detect_leaks=0" XDG_RUNTIME_DIR="$SCRATCH/own" RUNTIME_DIRECTORY="$SCRATCH/own" \
                prlimit --nproc=$n "$HEADRACE" $command "$SCRATCH/own/x.conf" </dev/null >"$SCRATCH/out" 2>"$SCRATCH/err"
            code=$?
            zero_or_one $code "$command with $n processes" || return 1
        done
    done
}

check "exit code 2: a mistake of the user" usage_2
check "exit code 3: missing device or requirement" missing_3
check "exit code 4: a device error" device_4
check "an error is printed once" once 4 "Unrecovered Read Error"
check "a shortage of files is exit code 1, whatever it hits" files_1
check "a shortage of processes and threads is exit code 1" processes_1
done_testing

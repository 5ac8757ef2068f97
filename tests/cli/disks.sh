#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Disks that differ from the configuration's expectation: one disk under two names, another command
# set, write protection. Each is reported with its line before anything is written.
set -uo pipefail
# shellcheck source=tests/cli/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"

image=$SCRATCH/ssd.img

# conf DEVICE DEVICE [SINK]: two ssds, lines 2 and 3
conf() {
    cat >"$SCRATCH/x.conf" <<CONF
ssds = (
    { name = "a"; device = "$1"; },
    { name = "b"; device = "$2"; } );
gpus = ( { name = "g"; device = "host:2"; } );
pipelines = ( { name = "p"; source = { ssd = "a"; object = "in"; }; operator = "copy";
    sink = { ssd = "b"; object = "out"; }; } );
CONF
}

make_image() {
    head -c 300000 /dev/urandom >"$SCRATCH/in"
    exits 0 store format "soft:$image,size=64M" && exits 0 store put "soft:$image" in "$SCRATCH/in"
}

# same COMMAND: both lines are named
same() {
    exits 2 "$1" "$SCRATCH/x.conf" && warns "x.conf:3: ssd 'b'" && warns "line 2" &&
        warns "are the same disk"
}

two_paths() {
    ln -sf "$image" "$SCRATCH/link.img"
    conf "soft:$image,shared=1" "soft:$SCRATCH/link.img,shared=1"
    same check && unchanged "$image" same run && warns "the same UUID" &&
        exits 2 post "$SCRATCH/x.conf" && says "FAIL controller b" && says "are the same disk" &&
        says "x.conf:3: ssd 'b'"
}

copies() {
    cp "$image" "$SCRATCH/copy.img"
    conf "soft:$image" "soft:$SCRATCH/copy.img"
    exits 0 check "$SCRATCH/x.conf" && exits 0 run "$SCRATCH/x.conf" &&
        exits 0 store get --force "soft:$SCRATCH/copy.img" out "$SCRATCH/out.bin" &&
        cmp "$SCRATCH/in" "$SCRATCH/out.bin"
}

zoned() {
    conf "soft:$image,zoned=1" "soft:$SCRATCH/copy.img"
    unchanged "$image" exits 3 run "$SCRATCH/x.conf" && warns "command set is zoned (CSI 02h)" &&
        warns "x.conf:2: ssd 'a'"
}

zoned_store() {
    unchanged "$image" exits 3 store format "soft:$image,zoned=1" --force && warns "zoned" &&
        unchanged "$image" exits 3 store put "soft:$image,zoned=1" x "$SCRATCH/in" && warns "zoned"
}

protected() {
    conf "soft:$SCRATCH/copy.img" "soft:$image,readonly=1"
    exits 3 check "$SCRATCH/x.conf" && warns "write protected" && warns "x.conf:6:" &&
        unchanged "$image" exits 3 run "$SCRATCH/x.conf" && warns "nothing was written"
}

protected_store() {
    unchanged "$image" exits 3 store format "soft:$image,readonly=1" --force &&
        unchanged "$image" exits 3 store put "soft:$image,readonly=1" x "$SCRATCH/in" &&
        unchanged "$image" exits 3 store rm "soft:$image,readonly=1" in
}

protected_source() {
    rm -f "$SCRATCH/copy.img"
    exits 0 store format "soft:$SCRATCH/copy.img,size=64M" || return 1
    conf "soft:$image,readonly=1" "soft:$SCRATCH/copy.img"
    unchanged "$image" exits 0 run "$SCRATCH/x.conf" && exits 0 post "$SCRATCH/x.conf" &&
        exits 0 store get --force "soft:$SCRATCH/copy.img" out "$SCRATCH/out.bin" &&
        cmp "$SCRATCH/in" "$SCRATCH/out.bin"
}

no_namespace() {
    exits 3 store ls "soft:$image" --nsid 7 && warns "there is no active namespace 7" &&
        warns "the controller has 1"
}

one_controller() {
    conf "pci:0000:41:00.0" "vfio:41:00.0"
    sed -i 's/device = "vfio/namespace = 2; &/' "$SCRATCH/x.conf"
    exits 2 check "$SCRATCH/x.conf" && warns "x.conf:3:" && warns "line 2" &&
        warns "of the same controller"
}

# halves DEVICE DEVICE: namespaces 1 and 2 of them
halves() {
    conf "$1" "$2"
    sed -i '3s/device = /namespace = 2; &/' "$SCRATCH/x.conf"
}

one_namespace() {
    conf "$1" "$2"
    exits 2 check "$SCRATCH/x.conf" && warns "x.conf:3: ssd 'b'" && warns "line 2" &&
        warns "are the same disk: namespace 1 of the controller" &&
        exits 2 post "$SCRATCH/x.conf" && warns "are the same disk: namespace 1 of the controller"
}

one_namespace_twice() {
    one_namespace "pci:0000:41:00.0" "pci:41:00.0" && one_namespace "vfio:41:00.0" "pci:41:00.0" &&
        one_namespace "soft:memory,size=64M,namespaces=2" "soft:memory,size=64M,namespaces=2"
}

two_namespaces() {
    local two="soft:$SCRATCH/two.img,size=64M,namespaces=2"
    exits 0 store format "$two" && exits 0 store format "$two" --nsid 2 &&
        exits 0 store put "$two" in "$SCRATCH/in" || return 1
    halves "$two" "$two"
    exits 0 check "$SCRATCH/x.conf" && exits 0 run "$SCRATCH/x.conf" &&
        exits 0 post "$SCRATCH/x.conf" &&
        exits 0 store get --force "$two" out "$SCRATCH/out.bin" --nsid 2 &&
        cmp "$SCRATCH/in" "$SCRATCH/out.bin" && exits 1 store get "$two" out - &&
        exits 0 store verify "$two" && exits 0 store verify "$two" --nsid 2
}

no_third_namespace() {
    exits 3 store ls "soft:$SCRATCH/two.img,namespaces=2" --nsid 3 && warns "the controller has 1, 2"
}

# ---- reservations

reserve_image() {
    rm -f "$SCRATCH/r.img"
    exits 0 store format "soft:$SCRATCH/r.img,size=64M,reservations=1" &&
        exits 0 store put "soft:$SCRATCH/r.img,reservations=1" in "$SCRATCH/in"
}

# refused COMMAND...: another host holds r.img; the image does not change
refused() {
    unchanged "$SCRATCH/r.img" exits 3 "$@" && warns "reserved by another host: Write Exclusive reservation of key 0x" &&
        warns "headrace store unlock"
}

reserved() {
    local ssd=soft:$SCRATCH/r.img,reservations=2
    refused store put "$ssd" x "$SCRATCH/in" && refused store rm "$ssd" in &&
        refused store format --force "$ssd"
}

reserved_run() {
    rm -f "$SCRATCH/copy.img"
    exits 0 store format "soft:$SCRATCH/copy.img,size=64M" || return 1
    exits 0 store put "soft:$SCRATCH/copy.img" in "$SCRATCH/in" || return 1
    conf "soft:$SCRATCH/copy.img" "soft:$SCRATCH/r.img,reservations=2"
    refused run "$SCRATCH/x.conf" && warns "x.conf:3:" && exits 0 check "$SCRATCH/x.conf"
}

reserved_read() {
    local ssd=soft:$SCRATCH/r.img,reservations=2
    exits 0 store ls "$ssd" && exits 0 store verify "$ssd" &&
        exits 0 store get --force "$ssd" in "$SCRATCH/out.bin" && cmp "$SCRATCH/in" "$SCRATCH/out.bin"
}

unlocked() {
    exits 0 store unlock "soft:$SCRATCH/r.img,reservations=2" &&
        says "removed: Write Exclusive reservation of key 0x" &&
        exits 0 store unlock "soft:$SCRATCH/r.img,reservations=1" &&
        says "there is no reservation" && exits 3 store unlock "soft:$SCRATCH/r.img" &&
        warns "has no reservations"
}

reserved_whole() {
    conf "soft:$SCRATCH/copy.img,reservations=1" "soft:$SCRATCH/r.img,reservations=1"
    exits 0 post "$SCRATCH/x.conf" && exits 0 run "$SCRATCH/x.conf" &&
        exits 0 store get --force "soft:$SCRATCH/r.img" out "$SCRATCH/out.bin" &&
        cmp "$SCRATCH/in" "$SCRATCH/out.bin"
}

# The first write of data (the data area begins at block 512) finds that the reservation is lost.
taken_over() {
    echo 'on write lba 512-16383: status 0x83 dnr' >"$SCRATCH/taken"
    rm -f "$SCRATCH/r2.img"
    exits 0 store format "soft:$SCRATCH/r2.img,size=64M"
    conf "soft:$SCRATCH/copy.img" "soft:$SCRATCH/r2.img,reservations=1,faults=$SCRATCH/taken"
    exits 4 run "$SCRATCH/x.conf" && warns "Reservation Conflict: another host holds the reservation"
}

check "prepare an image" make_image
check "one disk under two names is a mistake of both lines" two_paths
check "a copy of a disk, with the same store UUID, is another disk" copies
check "a zoned namespace is refused and not changed" zoned
check "store commands refuse a zoned namespace" zoned_store
check "a sink on a write protected namespace is refused, and the disk is not changed" protected
check "changes of a write protected object store are refused" protected_store
check "sources may be write protected" protected_source
check "the error of a missing namespace lists the present namespaces" no_namespace
check "one controller by pci: and by vfio: is a mistake of both lines" one_controller
check "one namespace of one controller in two lines is a mistake of both lines" one_namespace_twice
check "a copy from one namespace of a controller to another" two_namespaces
check "a third namespace is missing" no_third_namespace
check "prepare a namespace with reservations" reserve_image
check "another host's reservation refuses store commands, and the disk is not changed" reserved
check "another host's reservation refuses a run with the line, and allows check" reserved_run
check "another host's reservation allows ls, verify and get" reserved_read
check "store unlock removes another host's reservation" unlocked
check "self-test and run reserve all ssds, and release them" reserved_whole
check "a takeover in the middle of a run is named" taken_over
done_testing

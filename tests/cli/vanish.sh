#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A device that disappears is a device error, exit code 4, at any time and for every command.
# Environment: HEADRACE, the binary under test; SCRATCH, an empty folder.
# shellcheck disable=SC2016  # an inner shell expands
set -uo pipefail
# shellcheck source=tests/cli/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"
cd "$SCRATCH" || exit 1

head -c 100000 /dev/urandom >in
conf() {
    cat >x.conf <<CONF
ssds = ( { name = "a"; device = "soft:s.img,faults=faults"; timeout_ms = 2000; } );
gpus = ( { name = "g"; device = "host:1"; } );
pipelines = ( { name = "p"; source = { object = "in"; }; operator = "copy";
  sink = { object = "out"; }; tile = "4K"; slots = 2; } );
boot = { post = "off"; restarts = 0; };
CONF
}
fresh() {
    rm -f s.img back
    "$HEADRACE" store format soft:s.img,size=16M >/dev/null && "$HEADRACE" store put soft:s.img in in >/dev/null
}

# vanishes COMMAND...: run the command repeatedly; each time the device disappears after more commands. The first
# commands are admin commands. A command that ends before the device disappears may succeed.
vanishes() {
    local at code gone=0
    fresh || return 1
    for at in admin\ {1,2,3,4,5,6,8,11,15,20} any\ {11,15,20,30,60}; do
        echo "on ${at% *} nth ${at#* }: remove" >faults
        code=0
        timeout -k 5 200 "$HEADRACE" "$@" >out 2>err </dev/null || code=$?
        [ "$code" = 4 ] && gone=$((gone + 1))
        if [ "$code" != 4 ] && ! { [ "$code" = 0 ] && [ "$at" != "admin 1" ]; }; then
            echo "$* ($at): exit code $code: $(cat err)"
            return 1
        fi
        [ "$code" = 0 ] && { fresh || return 1; }
    done
    [ "$gone" -ge 4 ] || { echo "gone $gone times only"; return 1; }
}

conf
check "run reports a device that disappears" vanishes run x.conf
check "check reports a device that disappears" vanishes check x.conf
check "boot reports a device that disappears" vanishes boot x.conf
check "post reports a device that disappears" vanishes post x.conf
check "bench reports a device that disappears" vanishes bench x.conf --seconds 0.01 --only read:random:4K
check "store ls reports a device that disappears" vanishes store ls soft:s.img,faults=faults
check "store put reports a device that disappears" vanishes store put --replace soft:s.img,faults=faults new in
check "store get reports a device that disappears" vanishes store get --force soft:s.img,faults=faults in back
check "store rm reports a device that disappears" vanishes store rm --pending soft:s.img,faults=faults
check "store verify reports a device that disappears" vanishes store verify soft:s.img,faults=faults
check "store df reports a device that disappears" vanishes store df soft:s.img,faults=faults
check "store format reports a device that disappears" vanishes store format --force soft:s.img,faults=faults
done_testing

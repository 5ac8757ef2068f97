#!/bin/bash
# Controllers that differ from the specification as whole models do: the option quirks= of the software
# controller. The driver works with each, and says nothing about most of them.
set -uo pipefail
# shellcheck source=tests/cli/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"

image=$SCRATCH/ssd.img

make_image() {
    head -c 3000000 /dev/urandom >"$SCRATCH/in"
    exits 0 store format "soft:$image,size=64M" && exits 0 store put "soft:$image" in "$SCRATCH/in"
}

# conf OPTIONS
conf() {
    cat >"$SCRATCH/x.conf" <<CONF
ssds = ( { name = "a"; device = "soft:$image,$1"; } );
gpus = ( { name = "g"; device = "host:2"; } );
pipelines = ( { name = "p"; source = { object = "in"; }; operator = "copy";
    sink = { object = "out"; replace = true; }; tile = "256K"; slots = 4; } );
CONF
}

# works OPTIONS: a run and a command have the right data and print no error and no warning
works() {
    conf "$1"
    exits 0 run "$SCRATCH/x.conf" && silent &&
        exits 0 store get --force "soft:$image,$1" out "$SCRATCH/copy" && silent &&
        cmp "$SCRATCH/in" "$SCRATCH/copy"
}

# refused TEXT OPTIONS
refused() {
    exits 2 store ls "soft:$image,$2" && warns "$1"
}

check "prepare an image" make_image
check "a shutdown that never completes is no error" works quirks=no-shutdown
check "a controller that becomes ready one unit of CAP.TO late" works quirks=late-ready
check "admin queues must fill a page" works quirks=admin-64
check "registers read all ones for a while after CC.EN = 0" works quirks=ones
check "several quirks at once" works quirks=no-shutdown+late-ready+admin-64+ones
check "an unknown quirk is refused with all names" refused "'two': expected some of these" quirks=ones+two
check "a malformed id is refused" refused "id=8086: expected VENDOR:DEVICE" id=8086
done_testing

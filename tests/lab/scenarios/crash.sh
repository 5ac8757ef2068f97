# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash disable=SC2154
# Power cuts at any moment while objects are put, replaced and removed, and pipelines write sinks,
# through the `pci:` transport. Everything confirmed to the guest before a cut exists after it:
# crash.after.py opens the image of each cut. The disk of the controller keeps only flushed data;
# each other write is kept, lost or torn.
#: run machine=powerfail boot=intel_iommu=off
#: cuts nv0 3
#: limit 150

ssd=pci:$nv0
hugepages 64

# contents N: print contents number N, at most 60 KB; crash.after.py computes the same
contents() {
    yes "object $1" | head -c $(($1 % 60 * 1000 + 1))
}

# must COMMAND...: end the script, without a note, when the command fails
must() {
    "$@" && return
    check "$*" false
    exit 1
}

put() {
    contents "$2" >/tmp/x
    note "putting $1 $2"
    must headrace store put --quiet --replace "$ssd" "$1" /tmp/x
    note "put $1 $2"
}

remove() {
    note "removing $1"
    must headrace store rm "$ssd" "$1"
    note "gone $1"
}

run() {
    cat >/tmp/run.conf <<EOT
ssds = ( { name = "ssd0"; device = "$ssd"; } );
gpus = ( { name = "gpu0"; device = "host:1"; } );
pipelines = ( { name = "copy"; source = { object = "o0"; }; operator = "copy";
                sink = { object = "$1"; }; tile = "16K"; slots = 4; } );
EOT
    note "running $1 59"
    must headrace run /tmp/run.conf
    note "put $1 59"
}

must headrace store format "$ssd"
note formatted
put o0 59
for i in $(seq 40); do
    put o$((i % 12 + 1)) "$i"
    [ $((i % 5)) != 0 ] || run "sink$i"
    [ $((i % 10)) != 0 ] || remove "sink$((i - 5))"
done
check "the guest completed all actions" headrace store ls "$ssd"

#!/bin/bash
# headrace topo on lspci's dumps of the lab's machines: the verdicts that it must give in them, which
# the lab checks live (tests/lab/scenarios/topo.expect). New dumps: tests/cli/captures/README.md.
# Environment: HEADRACE, the binary under test; SCRATCH, an empty folder.
set -uo pipefail
# shellcheck source=tests/cli/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"

here=$(dirname "$0")

# expect RUN: lines "GPU SSD VERDICT KERNEL STEPS DISTANCE" with the addresses of the dump
expect() {
    awk -v run="[$1]" '
    /^\[/ { on = $1 == run; next }
    on && NF && !/^#/ { print $1, $2, $3, $5, $6, $7 }' "$here/../lab/scenarios/topo.expect" | sort
}

iommu() {
    case $(awk -v run="[$1]" '$1 == run { print $2 }' "$here/../lab/scenarios/topo.expect") in
    off) echo off ;;
    passthrough) echo pt ;;
    translating) echo on ;;
    *) return 1 ;;
    esac
}

# cards CLASS PREFIX: "ADDRESS PREFIX<n>" of a dump, numbered in the order of the lab's machines
cards() {
    grep -E "^[0-9a-f:.]+ Class $1:" "$SCRATCH/dump" |
        awk -v prefix="$2" '{ print "0000:" $1, prefix NR - 1 }'
}

# Names of the lab for what has an address here; nv0 is not always the lowest (bus order is).
got() {
    local -a gpus
    mapfile -t gpus < <(awk '{ print $1 }' "$SCRATCH/gpus")
    "$HEADRACE" topo --from "$SCRATCH/dump" --iommu "$(iommu "$1")" "${gpus[@]/#/--gpu=}" --json |
        python3 -c '
import json, sys
name = dict(line.split() for path in sys.argv[1:] for line in open(path))
for p in json.load(sys.stdin)["pairs"]:
    print(name[p["gpu"]], name[p["nvme"]], p["verdict"], p["kernel_verdict"], p["kernel_distance"],
          p["distance"])' "$SCRATCH/gpus" "$SCRATCH/ssds" | sort
}

same() {
    zcat "$here/captures/$1.lspci.gz" >"$SCRATCH/dump"
    cards 0500 gpu >"$SCRATCH/gpus"
    cards 0108 nv >"$SCRATCH/ssds"
    diff -u <(expect "$1") <(got "$1")
}

for dump in "$here"/captures/*.lspci.gz; do
    run=$(basename "$dump" .lspci.gz)
    check "$run" same "$run"
done
done_testing

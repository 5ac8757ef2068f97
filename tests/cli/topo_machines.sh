#!/bin/bash
# headrace topo on lspci's dumps of the lab's machines: the verdicts that it must give in them, which
# the lab checks live (tests/lab/scenarios/topo.expect). New dumps: tests/cli/captures/README.md.
# Environment: HEADRACE, the binary under test; SCRATCH, an empty folder.
set -uo pipefail
# shellcheck source=tests/cli/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"

here=$(dirname "$0")

# expect RUN: the exit code, and lines "GPU SSD VERDICT KERNEL STEPS DISTANCE"
expect() {
    awk -v run="[$1]" '
    /^\[/ { on = $1 == run; if (on) print "exit", $3; next }
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
said = json.load(sys.stdin)
print("exit", said["exit_code"])
for p in said["pairs"]:
    print(name[p["gpu"]], name[p["nvme"]], p["verdict"], p["kernel_verdict"], p["kernel_distance"],
          p["distance"])' "$SCRATCH/gpus" "$SCRATCH/ssds" | sort
}

same() {
    zcat "$here/captures/$1.lspci.gz" >"$SCRATCH/dump" || return 1
    cards 0500 gpu >"$SCRATCH/gpus"
    cards 0108 nv >"$SCRATCH/ssds"
    diff -u <(expect "$1") <(got "$1")
}

# Runs whose verdict is one of the CPU's, which a dump does not know; theirs are those without it.
of_cpu() {
    [[ $1 =~ _(zen|vm)$ ]]
}

runs=$(sed -n 's/^\[\(.*\)\].*/\1/p' "$here/../lab/scenarios/topo.expect")
for run in $runs; do
    of_cpu "$run" || check "$run" same "$run"
done
for dump in "$here"/captures/*.lspci.gz; do
    run=$(basename "$dump" .lspci.gz)
    check "$run is a run of the lab" grep -qx "$run" <<<"$runs"
done
done_testing

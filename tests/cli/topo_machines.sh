#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# headrace topo on lspci dumps of the lab's machines: the expected verdicts, which the lab also
# checks live (tests/lab/scenarios/topo.expect). New dumps: tests/cli/captures/README.md.
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

# The lab's names of cards with an address here; nv0 does not always have the lowest address. The
# ports are emulated, and the lab checks the rules on them as if they were hardware.
got() {
    local -a gpus
    mapfile -t gpus < <(awk '{ print $1 }' "$SCRATCH/gpus")
    "$HEADRACE" topo --from "$SCRATCH/dump" --iommu "$(iommu "$1")" "${gpus[@]/#/--gpu=}" --ignore-vm --json >"$SCRATCH/said"
    json_value "$SCRATCH/said" said "chr(10).join(['exit %d' % said['exit_code']] + [
        ' '.join(map(str, (name[p['gpu']], name[p['nvme']], p['verdict'], p['kernel_verdict'],
                           p['kernel_distance'], p['distance'])))
        for name in [dict(line.split() for path in ('$SCRATCH/gpus', '$SCRATCH/ssds') for line in open(path))]
        for p in said['pairs']])" | sort
}

same() {
    zcat "$here/captures/$1.lspci.gz" >"$SCRATCH/dump" || return 1
    cards 0500 gpu >"$SCRATCH/gpus"
    cards 0108 nv >"$SCRATCH/ssds"
    diff -u <(expect "$1") <(got "$1")
}

# Runs whose verdict depends on the CPU, which a dump does not know; these have other expectations
# here.
of_cpu() {
    [[ $1 =~ _(zen|vm)$ ]]
}

runs=$(sed -n 's/^\[\(.*\)\].*/\1/p' "$here/../lab/scenarios/topo.expect")
for run in $runs; do
    of_cpu "$run" || check "$run" same "$run"
done
# Without the option the emulated ports show that the verdicts are not those of hardware.
is_guest() {
    local -a gpus
    zcat "$here/captures/$1.lspci.gz" >"$SCRATCH/dump" || return 1
    mapfile -t gpus < <(cards 0500 gpu | awk '{ print $1 }')
    "$HEADRACE" topo --from "$SCRATCH/dump" "${gpus[@]/#/--gpu=}" --json >"$SCRATCH/said"
    json_holds "$SCRATCH/said" said "{p['verdict'] for p in said['pairs']} == {'UNKNOWN(vm)'}"
}
for run in switch ports nested bare many; do
    check "$run is a virtual machine" is_guest "$run"
done

for dump in "$here"/captures/*.lspci.gz; do
    run=$(basename "$dump" .lspci.gz)
    check "$run is a run of the lab" grep -qx "$run" <<<"$runs"
done
done_testing

#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Model, serial number, firmware and namespaces of this machine's SSDs, from a libnvme of the test's own
# (tests/fakes/libnvme). A function of this machine stands for each SSD.
set -uo pipefail
# shellcheck source=tests/cli/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"

library=$(dirname "$HEADRACE")/tests/fakes/libnvme
export FAKE_NVME=$SCRATCH/tree

# The first functions of this machine that are no bridges
mapfile -t at < <("$HEADRACE" topo --json 2>/dev/null |
    python3 -c 'import json, sys
for f in json.load(sys.stdin)["functions"]:
    if f["facts"].get("header", {}).get("value", 0) & 127 == 0: print(f["address"])' | head -n 3)

# live CODE ARGUMENTS...: topo on this machine, with the library; the functions stand for a GPU and SSDs
live() {
    local want=$1
    shift
    exits_any "$want" topo --gpu "${at[0]}" --nvme "${at[1]}" --nvme "${at[2]}" "$@"
}

# exits_any CODE ARGUMENTS...: the exit code; with - any verdict
exits_any() {
    local want=$1 got=0
    shift
    LD_LIBRARY_PATH=$library timeout 60 "$HEADRACE" "$@" >"$SCRATCH/out" 2>"$SCRATCH/err" </dev/null || got=$?
    [ "$got" = "$want" ] || { [ "$want" = - ] && [ "$got" -le 5 ]; } || { echo "exit code $got"; return 1; }
}

# disk N EXPRESSION: function N of this machine, `f`, has the property
disk() {
    json "(lambda f: $2)([f for f in r['functions'] if f['address'] == '${at[$1]}'][0])"
}

tree() {
    printf '%s\n' "$@" >"$FAKE_NVME"
}

two_ssds() {
    tree "ctrl pcie|${at[1]}|SAMSUNG MZQL23T8HCLS-00A07              |S64HNE0RA00001      |GDC5602Q" \
        'ns nvme0n1|7501476528|512' \
        "ctrl pcie|${at[2]}|Micron_7450_MTFDKCC7T6TFR|2137A1B2C3D4|E2MU200" 'ns nvme1n1|100000|4096' 'ns nvme1n2|1000|512'
}

in_text() {
    two_ssds && live - && says "NVME0     ${at[1]} SAMSUNG MZQL23T8HCLS-00A07, serial S64HNE0RA00001, firmware GDC5602Q" &&
        says "nvme0n1 3.84 TB" && says "Micron_7450_MTFDKCC7T6TFR, serial 2137A1B2C3D4, firmware E2MU200" &&
        says "nvme1n2" && says "512 KB" && live - --peers gpu,nvme && says "serial S64HNE0RA00001" &&
        live - --explain GPU0 NVME1 && says "serial 2137A1B2C3D4"
}

in_json() {
    two_ssds && live - --json &&
        disk 1 "(f['model'], f['serial'], f['firmware']) == ('SAMSUNG MZQL23T8HCLS-00A07', 'S64HNE0RA00001', 'GDC5602Q')" &&
        disk 1 "f['namespaces'] == [{'name': 'nvme0n1', 'bytes': 3840755982336, 'block_bytes': 512}]" &&
        disk 2 "[(n['name'], n['bytes']) for n in f['namespaces']] == [('nvme1n1', 409600000), ('nvme1n2', 512000)]" &&
        disk 0 "'model' not in f and 'namespaces' not in f" &&
        live - --peers gpu,nvme --json && json "[p.get('serial') for p in r['peers']] == [None, 'S64HNE0RA00001', '2137A1B2C3D4']"
}

# A path of each controller leads to the same head, and a second path of it to the same
multipath() {
    tree "ctrl pcie|${at[1]}|M|S1|F" 'path nvme0n1|1000|4096' 'path nvme0n1|1000|4096' "path |1|512" \
        "ctrl pcie|${at[2]}|M|S2|F" 'path nvme0n1|1000|4096'
    live - --json && disk 1 "[n['name'] for n in f['namespaces']] == ['nvme0n1']" &&
        disk 2 "f['serial'] == 'S2' and [n['name'] for n in f['namespaces']] == ['nvme0n1']"
}

# What a controller or the network may report
hostile() {
    tree "ctrl tcp|traddr=1.2.3.4|Remote|R|F" 'ns nvme9n1|1|512' "ctrl pcie|0000:ff:1f.7|Gone|G|F" \
        "ctrl pcie|${at[1]}|$(printf 'a\033[31m\001b\351')|$(head -c 90 /dev/zero | tr '\0' x)|  " \
        'ns nvme0n1|0|0' 'ns nvme0n2|99999999999999999999|512' 'ns |5|512' "ctrl pcie|${at[2]}||S|F"
    for i in {1..90}; do echo "ns nvme1n$i|$i|512"; done >>"$FAKE_NVME"
    live - --json && ! grep -q -e Remote -e Gone -e nvme9n1 "$SCRATCH/out" &&
        disk 1 "f['model'] == 'a?[31m?b?' and f['serial'] == 'x' * 20 and 'firmware' not in f" &&
        disk 1 "f['namespaces'][0] == {'name': 'nvme0n1', 'bytes': 0, 'block_bytes': 0}" &&
        disk 2 "'model' not in f and len(f['namespaces']) == 64" && live - && says "and 86 more"
}

no_serial_in_captures() {
    two_ssds && live 0 --capture "$SCRATCH/box.txt" --force && ! grep -q -e S64HNE0RA00001 -e 2137A1B2C3D4 "$SCRATCH/box.txt" &&
        grep -q "headrace: model=SAMSUNG MZQL23T8HCLS-00A07" "$SCRATCH/box.txt" &&
        exits_any - topo --from "$SCRATCH/box.txt" --gpu "${at[0]}" --nvme "${at[1]}" --nvme "${at[2]}" --json &&
        disk 1 "f['model'].startswith('SAMSUNG') and 'serial' not in f and f['firmware'] == 'GDC5602Q'" &&
        disk 2 "[n['name'] for n in f['namespaces']] == ['nvme1n1', 'nvme1n2']" &&
        exits_any 0 topo --from "$SCRATCH/box.txt" --capture "$SCRATCH/again.txt" --force &&
        [ "$(grep -c 'headrace: \(model\|firmware\|namespace\)=' "$SCRATCH/again.txt")" = 7 ]
}

# A capture with a damaged line is refused, as for all facts
damaged_captures() {
    two_ssds && live 0 --capture "$SCRATCH/box.txt" --force || return 1
    for to in nvme1n1 nvme1n1,x,512 nvme1n1,1 'nvme1n1,1,512,' nvme1n1,1,99999999999; do
        sed "s/namespace=nvme1n1,.*/namespace=$to/" "$SCRATCH/box.txt" >"$SCRATCH/bad.txt"
        exits_any 65 topo --from "$SCRATCH/bad.txt" && warns "not a fact of a capture" || return 1
    done
}

no_driver() {
    tree && live - --json && json "not any('namespaces' in f for f in r['functions'])" &&
        rm "$FAKE_NVME" && live - --json && json "not any('model' in f for f in r['functions'])" &&
        (unset FAKE_NVME && live - --json) && json "not any('model' in f for f in r['functions'])"
}

if [ "${#at[@]}" -lt 3 ]; then
    skip "this machine has no three PCI functions" "disks of this machine"
else
    check "SSDs show model, serial number, firmware and block devices" in_text
    check "JSON has them as members of the function" in_json
    check "paths to one head are one namespace" multipath
    check "texts and sizes of a controller are not trusted" hostile
    check "a capture keeps no serial number, and the rest" no_serial_in_captures
    check "a damaged line of a capture is refused" damaged_captures
    check "without the driver or its disks nothing is missing" no_driver
fi

done_testing

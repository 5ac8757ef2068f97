#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# headrace topo: its output for machines whose capture lacks names, bridges, pairs or numbers.
# Environment: HEADRACE, the binary under test; SCRATCH, an empty folder.
# shellcheck disable=SC2317,SC2016  # called through check; inner shells expand
set -uo pipefail
# shellcheck source=tests/cli/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"
# shellcheck source=tests/cli/lib/topo.sh
. "$(dirname "$0")/lib/topo.sh"

# silent PATTERN ARGUMENTS...: no line matches
silent() {
    local pattern=$1 said
    shift
    said=$("$HEADRACE" topo "$@" 2>&1)
    ! grep -E -- "$pattern" <<<"$said"
}

none="SrcValid- TransBlk- ReqRedir- CmpltRedir- UpstreamFwd- EgressCtrl- DirectTrans-"
redirects="SrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-"

# port ADDRESS PRIMARY SECONDARY SUBORDINATE TYPE ACSCTL [POWER] [ABOVE]; ABOVE: gpu, disk, or both
port() {
    printf '%s PCI bridge [0604]: Switch [10b5:8796]\n' "$1"
    printf '\tControl: I/O+ Mem+ BusMaster+ SpecCycle-\n\tStatus: Cap+ 66MHz-\n'
    printf '\tBus: primary=%s, secondary=%s, subordinate=%s, sec-latency=0\n' "$2" "$3" "$4"
    local mem=e0000000-e0ffffff pref=38000000000-383ffffffff
    [ "${8:-both}" = gpu ] && mem=None
    [ "${8:-both}" = disk ] && pref=None
    printf '\tMemory behind bridge: %s\n\tPrefetchable memory behind bridge: %s\n' "$mem" "$pref"
    printf '\tCapabilities: [40] Power Management version 3\n\t\tStatus: %s NoSoftRst+\n' "${7:-D0}"
    printf '\tCapabilities: [68] Express (v2) %s, MSI 00\n' "$5"
    printf '\t\tDevCap:\tMaxPayload 512 bytes\n\t\t\tMaxPayload 256 bytes, MaxReadReq 512 bytes\n'
    printf '\tCapabilities: [100 v1] Access Control Services\n\t\tACSCap:\tSrcValid+ ReqRedir+\n'
    printf '\t\tACSCtl:\t%s\n\n' "$6"
}

# endpoint ADDRESS TITLE REGION
endpoint() {
    printf '%s %s\n\tControl: I/O+ Mem+ BusMaster+ SpecCycle-\n\tStatus: Cap+ 66MHz-\n' "$1" "$2"
    printf '\t%s\n\tCapabilities: [68] Express (v1) Endpoint, MSI 00\n' "$3"
    printf '\t\tDevCap:\tMaxPayload 512 bytes\n\t\t\tMaxPayload 256 bytes, MaxReadReq 512 bytes\n'
    printf '\tCapabilities: [100 v1] Advanced Error Reporting\n\n'
}

card='Region 1: Memory at 38000000000 (64-bit, prefetchable) [size=16G]'
gpu() {
    endpoint "$1" "${2:-3D controller [0302]: NVIDIA Corporation Card [10de:20b0]}" "$card"
}
disk() {
    endpoint "$1" "${2:-Non-Volatile memory controller [0108]: Disk [144d:a80a]}" \
        'Region 0: Memory at e0000000 (64-bit, non-prefetchable) [size=16K]'
}

cd "$SCRATCH" || exit 1

# ---- ports that no pair uses
{
    printf '00:00.0 Host bridge [0600]: Host [8086:1234]\n\n'
    port 00:01.0 00 01 01 'Root Port (Slot+)' "$redirects"
    port 00:02.0 00 02 02 'Root Port (Slot+)' "$redirects" D3
    port 00:03.0 00 03 03 'Root Port (Slot+)' "$redirects" D3
    gpu 01:00.0
} >gpu_alone.txt
{
    printf '00:00.0 Host bridge [0600]: Host [8086:1234]\n\n'
    port 00:01.0 00 01 04 'Root Port (Slot+)' "$none"
    port 01:00.0 01 02 04 'Upstream Port' "$none"
    port 02:00.0 02 03 03 'Downstream Port (Slot+)' "$redirects"
    port 02:01.0 02 04 04 'Downstream Port (Slot+)' "$redirects" D3
    disk 03:00.0
} >disk_alone.txt
{
    printf '00:00.0 Host bridge [0600]: Host [8086:1234]\n\n'
    port 00:01.0 00 01 01 'Root Port (Slot+)' "$redirects" D3
    port 00:02.0 00 02 02 'Root Port (Slot+)' "$redirects"
    endpoint 02:00.0 'Ethernet controller [0200]: Card [15b3:1017]' "$card"
} >neither.txt
for file in gpu_alone disk_alone neither; do
    check "$file: no pair exits 6" exits 6 --from $file.txt
    check "$file: ports that no pair uses have no remedy" silent 'A1-port|^R6 ' --from $file.txt
done
sed '/^00:01.0/,/^$/s/Status: D0/Status: D3/' gpu_alone.txt >gpu_asleep.txt
check "the port above the only card is evaluated" says '^R6 +0000:00:01.0' --from gpu_asleep.txt

# ---- bridges that are missing
{
    gpu 03:00.0
    disk 04:00.0
} >cut.txt
check "a cut capture exits 5" exits 5 --from cut.txt
check "a cut capture has no distance" says 'kernel UNKNOWN, distance unknown' --from cut.txt --all
check "the explanation of a cut capture has no distance" says 'distance \? \(steps unknown\)' --from cut.txt --explain GPU0 NVME0
check "a cut capture does not report a shared switch" silent 'share' --from cut.txt
check "a cut capture has no rule about the data flow" silent '^R2|^R1|^I1 ' --from cut.txt
check "the explanation of a cut capture rules no rule out" silent '^ruled out' --from cut.txt --explain GPU0 NVME0
check "JSON of a cut capture has no distance" bash -c '"$1" topo --from cut.txt --json |
    python3 -c "import json,sys; assert json.load(sys.stdin)[\"pairs\"][0][\"kernel_distance\"] is None"' \
    _ "$HEADRACE"
check "--bandwidth prints no number for an unknown rate" silent '0\.00 GB/s' --from cut.txt --bandwidth
check "a plan prints no number for an unknown rate" silent '0\.00 GB/s' --from cut.txt --plan
check "JSON has no number for an unknown rate" silent 'gb_per_s' --from cut.txt --bandwidth --json

# ---- names, numbers, bytes
{
    printf '00:00.0 Host bridge: Intel Corporation Device\n\n'
    port 00:01.0 00 01 01 'Root Port (Slot+)' "$none" D0 gpu
    port 00:02.0 00 02 02 'Root Port (Slot+)' "$none" D0 disk
    gpu 01:00.0
    disk 02:00.0 $'Non-Volatile memory controller [0108]: M\xfcller \xe2\x82 \x1b[31m \xc2\x9b1m Gr\xc3\xb6\xc3\x9fe [144d:a80a]'
} >bytes.txt
check "a root complex without a name is unknown" says 'UNKNOWN\(rc\)' --from bytes.txt
utf8() {
    "$HEADRACE" topo --from bytes.txt "$@" >out.txt
    iconv -f UTF-8 -t UTF-16 out.txt >/dev/null || return 1
    ! grep -q $'\x1b' out.txt && ! grep -q $'\xc2\x9b' out.txt && grep -q 'Größe' out.txt
}
check "JSON is UTF-8 with any bytes in a title" utf8 --json
check "the table is UTF-8 with any bytes in a title" utf8
check "the tree is UTF-8 with any bytes in a title" utf8 --format tree --ascii
check "the explanation is UTF-8 with any bytes in a title" utf8 --explain GPU0 NVME0
{
    printf '00:00.0 Host bridge [0600]: Host [8086:1234]\n\n'
    port 00:01.0 00 01 01 'Root Port (Slot+)' "$none" D0 gpu
    port 00:02.0 00 02 02 'Root Port (Slot+)' "$none" D0 disk
    gpu 01:00.0 '3D controller [0302]: NVIDIA Corporation'
    printf '02:00.0 Non-Volatile memory controller: Disk (rev ff) (prog-if ff)\n'
    printf '\t!!! Unknown header type 7f\n\tKernel driver in use: nvme\n\n'
} >gone.txt
check "\"rev ff\" in the title marks a function that is gone" says 'BLOCKED\(gone\)' --from gone.txt
sed 's/ (rev ff) (prog-if ff)//' gone.txt >type.txt
check "header type 7f marks a function that is gone" says 'BLOCKED\(gone\)' --from type.txt
sed '/Unknown header/d' gone.txt >rev.txt
check "revision ff alone marks a function that is gone" says 'BLOCKED\(gone\)' --from rev.txt
sed 's/rev ff/rev fe/; /Unknown header/d' gone.txt >there.txt
check "revision fe does not mark a function that is gone" silent 'BLOCKED\(gone\)' --from there.txt

# Numbers of a card whose title has none: a dump of lspci -xxxx.
{
    printf '00:00.0 Host bridge: Host\n00: 86 80 34 12 06 00 10 00 00 00 00 06 00 00 00 00\n\n'
    printf '01:00.0 3D controller: NVIDIA Corporation GA100\n'
    printf '00: de 10 b0 20 06 00 10 00 a1 00 02 03 00 00 00 00\n\n'
    printf '02:00.0 Non-Volatile memory controller: Disk\n'
    printf '00: 4d 14 0a a8 06 00 10 00 00 02 08 01 00 00 00 00\n\n'
} >numbers.txt
for i in 10 20 30; do
    sed -i "/^00: /a $i: 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00" numbers.txt
done
check "the table has the IDs of the card" says 'GA100 \[10de:20b0\]' --from numbers.txt
check "the tree has the IDs of the card" says 'NVME0 Disk \[144d:a80a\]' --from numbers.txt --format tree --ascii
check "the picture has the IDs of the card" says 'GA100.n\[10de:20b0\]' --from numbers.txt --format dot
check "the explanation has the IDs of the card" says 'GPU .*\[10de:20b0\]' --from numbers.txt --explain GPU0 NVME0
check "IDs in the title are not printed twice" silent '10de:20b0.*10de:20b0' --from cut.txt

# integrated GPUs
for title in 'VGA compatible controller [0300]: Advanced Micro Devices, Inc. [AMD/ATI] Cezanne [1002:1638]' \
    'VGA compatible controller: Advanced Micro Devices, Inc. [AMD/ATI] Renoir (rev c6)' \
    'Display controller [0380]: Advanced Micro Devices, Inc. [AMD/ATI] Raphael [1002:164e]'; do
    {
        printf '00:00.0 Host bridge [0600]: Host [8086:1234]\n\n'
        port 00:01.0 00 01 01 'Root Port (Slot+)' "$none"
        gpu 01:00.0 "$title"
    } >apu.txt
    check "integrated: $title" says ', integrated' --from apu.txt
done
check "a card is not integrated" silent integrated --from gpu_alone.txt

# ---- names of functions
{
    printf '00:00.0 Host bridge [0600]: Host [8086:1234]\n\n'
    port 00:01.0 00 01 04 'Root Port (Slot+)' "$none"
    port 01:00.0 01 02 04 'Upstream Port' "$none"
    port 02:00.0 02 03 03 'Downstream Port (Slot+)' "$none" D0 gpu
    port 02:01.0 02 04 04 'Downstream Port (Slot+)' "$none" D0 disk
    gpu 03:00.0
    disk 04:00.0
} >pair.txt
check "a disk named with --gpu is not a disk" exits 6 --from pair.txt --gpu 04:00.0
check "one function as --gpu and --nvme exits 64" exits 64 --from pair.txt --gpu 04:00.0 --nvme 04:00.0
check "one function as --gpu and --nvme in another form exits 64" exits 64 --from pair.txt --gpu 04:00.0 --nvme 0000:04:00.0
check "the error of one function as --gpu and --nvme names both options" says 'both --gpu and --nvme' --from pair.txt --gpu 04:00.0 --nvme 04:00.0
for form in 03:00.0 0000:03:00.0 00000000:03:00.0 00:01.0/00.0/00.0/00.0 \
    00:01.0/01:00.0/02:00.0/03:00.0 0000:00:01.0/00.0/00.0/00.0 '03:00.0 3D controller: Card'; do
    check "--explain takes $form" says '^0000:03:00.0 to 0000:04:00.0' --from pair.txt --explain \
        "$form" 04:00.0
done
for form in 03:00 03:00.0x 00:01.0/ 00:01.0/00.1 03:00.0/00.0 / 00:01.0//00.0 00:01.0/zz.z; do
    check "--explain refuses $form" exits 64 --from pair.txt --explain "$form" 04:00.0
done

# side effects of a remedy
sed '/^04:00.0/,/^$/s/MaxPayload 256 bytes, Max/MaxPayload 512 bytes, Max/' pair.txt >payload.txt
check "the remedy pcie_bus_peer2peer names its payload of 128 bytes" \
    says 'pcie_bus_peer2peer: 128 bytes for every device' --from payload.txt
done_testing

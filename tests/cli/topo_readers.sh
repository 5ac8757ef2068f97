#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# headrace topo: the same machine through every reader, and captures of captures.
# Environment: HEADRACE, the binary under test; SCRATCH, an empty folder.
set -uo pipefail
# shellcheck source=tests/cli/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"

captures=$(cd "$(dirname "$0")" && pwd)/captures
cd "$SCRATCH" || exit 1

# again FILE: a capture of FILE, and a capture of that capture, show the same machine
again() {
    "$HEADRACE" topo --from "$1" --capture once --force && "$HEADRACE" topo --from once --capture twice --force &&
        cmp once twice && "$HEADRACE" topo --from twice --baseline "$1" &&
        "$HEADRACE" topo --from "$1" --baseline "$1"
}

for dump in "$captures"/*.lspci.gz; do
    zcat "$dump" >machine
    check "a capture of $(basename "$dump" .lspci.gz) is the same machine" again machine
done

# ---- compressed: by each tool, whole, cut, too large, twice

zcat "$captures/switch.lspci.gz" >machine

# packed TOOL: the same machine, from a file and from a pipe
packed() {
    "$1" -c <machine >packed && "$HEADRACE" topo --from packed --baseline machine &&
        "$HEADRACE" topo --from - --baseline machine <packed &&
        "$HEADRACE" topo --from - --baseline machine < <(cat packed)
}

# refused PATTERN FILE: exit 65 with that message
refused() {
    local said code=0
    said=$("$HEADRACE" topo --from "$2" 2>&1) || code=$?
    if [ "$code" -ne 65 ] || ! grep -q -- "$1" <<<"$said"; then
        echo "exit $code: $said"
        return 1
    fi
}

for tool in gzip bzip2 xz zstd; do
    if ! command -v "$tool" >/dev/null; then
        skip "it is not installed" "$tool: the same machine"
        continue
    fi
    check "$tool: the same machine" packed "$tool"
    "$tool" -c <machine | head -c 900 >short
    check "$tool: a cut file is refused" refused "$tool cannot unpack it" short
    "$tool" -c <packed >twice
    check "$tool: a file that was compressed twice is refused" refused "compressed twice" twice
done
for mark in 'UTF-16LE \xff\xfe' 'UTF-16BE \xfe\xff'; do
    { printf '%b' "${mark#* }" && iconv -f UTF-8 -t "${mark% *}" machine; } >wide
    check "${mark% *} text: the same machine" "$HEADRACE" topo wide --baseline machine
done
head -c 901 wide >short
check "UTF-16 text that ends within a character is refused" refused "iconv cannot" short
head -c 300000000 /dev/zero | gzip -1 >bomb
check "a file that unpacks to more than 256 MiB is refused" refused "larger than 256 MiB" bomb
mkdir -p machine-1/sys/bus/pci/devices/0000:01:00.0
echo 0x010802 >machine-1/sys/bus/pci/devices/0000:01:00.0/class
tar czf tree.tar.gz machine-1
"$HEADRACE" topo --from tree.tar.gz --json >said 2>&1
check "an archive with a folder in front, compressed" grep -q '"NVME0"' said
# A name has at most 255 bytes.
name=$(printf 'x%.0s' {1..255})
mkdir -p "sos/$name/sos_commands/pci"
echo '01:00.0 Non-Volatile memory controller [0108]: X [144d:a80a]' >"sos/$name/sos_commands/pci/lspci_-nnvv"
"$HEADRACE" topo --from sos --json >said 2>&1
check "a report in a folder with the longest name" grep -q '"NVME0"' said
# Programs in other folders must not be run.
mkdir -p bin
printf '#!/bin/sh\ntouch ran\n' >bin/gzip
chmod +x bin/gzip
gzip -c <machine >packed
PATH=$PWD/bin:$PATH "$HEADRACE" topo --from packed >/dev/null 2>&1
check "a decompressor in another folder of PATH is not run" test ! -e ran
done_testing

# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash disable=SC2154
# Verdicts while the state of the cards changes: as left by the firmware, enabled, asleep, in reset,
# in one IOMMU group with a card on another driver, gone; and the verdicts for a user without
# privileges.
#: run machine=one_group boot="intel_iommu=on iommu=pt"
#: tools setpci

# verdict SSD MODE WORD: the pair of gpu0 and the ssd has that verdict
verdict() {
    headrace topo --ignore-vm --gpu "$gpu0" --mode "$2" --json |
        grep -A 3 "\"nvme\": *\"$1\"" | grep '"verdict"' >/tmp/verdict
    grep -qF "\"$3\"" /tmp/verdict || { echo "expected $3"; cat /tmp/verdict; return 1; }
}

as_nobody() {
    su -s /bin/sh nobody -c "headrace topo --ignore-vm --gpu $gpu0 $1 2>&1"
}

exits_as_nobody() {
    as_nobody "$2" >/tmp/out
    got=$?
    [ "$got" = "$1" ] || { echo "exit code $got"; cat /tmp/out; return 1; }
}

check "firmware leaves bus mastering off" verdict "$nv0" gpu "BLOCKED(disabled)"
for card in "$nv0" "$nv1" "$gpu0"; do
    echo 1 >"$(pci "$card")/enable"
    setpci -s "$card" COMMAND=6:6
done
check "a pair with enabled functions is direct" verdict "$nv0" gpu DIRECT

setpci -s "$nv0" CAP_PM+4.w=3:3
check "a card in D3 blocks the pair" verdict "$nv0" gpu "BLOCKED(D3)"
setpci -s "$nv0" CAP_PM+4.w=0:3
check "a card back in D0 is direct" verdict "$nv0" gpu DIRECT

setpci -s "$gpu0" COMMAND=0:4
check "a GPU that may not master cannot ring doorbells" verdict "$nv0" gpu "BLOCKED(disabled)"
check "the SSD can write to a GPU that may not master" verdict "$nv0" host DIRECT
setpci -s "$gpu0" COMMAND=4:4

check "a user without privileges" exits_as_nobody 5 --json
check "without privileges the verdict is unknown, not good" says "UNKNOWN(priv)"
check "--fix --apply without privileges is refused" exits_as_nobody 8 "--fix --apply"

setpci -s "$d1" BRIDGE_CONTROL=40:40
check "a port that holds its bus in reset blocks the pair" verdict "$nv0" gpu "BLOCKED(contained)"
check "a port that holds its bus in reset does not affect the other SSD" verdict "$nv1" gpu DIRECT
setpci -s "$d1" BRIDGE_CONTROL=0:40

host unplug nv1
check "the kernel removes the SSD" soon test ! -e "$(pci "$nv1")"
check "a removed SSD is not listed" \
    sh -c "! headrace topo --ignore-vm --gpu $gpu0 --json | grep '\"nvme\": *\"$nv1\"'"
check "the other SSD is listed" sh -c "headrace topo --ignore-vm --gpu $gpu0 --json | grep '\"nvme\": *\"$nv0\"'"

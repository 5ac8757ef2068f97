# shellcheck shell=dash disable=SC2154
# Verdicts as the state of the cards changes under the tool: as firmware leaves them, enabled, asleep,
# in reset, in one IOMMU group with a card on another driver, gone; and what a user without
# privileges learns.
#: run machine=one_group boot="intel_iommu=on iommu=pt"
#: tools setpci

# verdict SSD MODE WORD: of gpu0 and the ssd
verdict() {
    headrace topo --gpu "$gpu0" --mode "$2" --json |
        grep -A 3 "\"nvme\": *\"$1\"" | grep '"verdict"' >/tmp/verdict
    grep -qF "\"$3\"" /tmp/verdict || { echo "expected $3"; cat /tmp/verdict; return 1; }
}

as_nobody() {
    su -s /bin/sh nobody -c "headrace topo --gpu $gpu0 $1 2>&1"
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
check "enabled: direct" verdict "$nv0" gpu DIRECT

setpci -s "$nv0" CAP_PM+4.w=3:3
check "in D3" verdict "$nv0" gpu "BLOCKED(D3)"
setpci -s "$nv0" CAP_PM+4.w=0:3
check "awake again" verdict "$nv0" gpu DIRECT

setpci -s "$gpu0" COMMAND=0:4
check "a GPU that may not master cannot ring doorbells" verdict "$nv0" gpu "BLOCKED(disabled)"
check "but the SSD can write to it" verdict "$nv0" host DIRECT
setpci -s "$gpu0" COMMAND=4:4

check "a user without privileges" exits_as_nobody 5 --json
check "without privileges the verdict is unknown, not good" says "UNKNOWN(priv)"
check "without privileges nothing is changed" exits_as_nobody 8 "--fix --apply"

setpci -s "$d1" BRIDGE_CONTROL=40:40
check "a port that holds its bus in reset" verdict "$nv0" gpu "BLOCKED(contained)"
check "does not concern the other SSD" verdict "$nv1" gpu DIRECT
setpci -s "$d1" BRIDGE_CONTROL=0:40

host unplug nv1
for _ in $(seq 50); do
    [ -e "$(pci "$nv1")" ] || break
    sleep 0.1
done
check "an SSD that was pulled is no longer listed" \
    sh -c "! headrace topo --gpu $gpu0 --json | grep '\"nvme\": *\"$nv1\"'"
check "the other one still is" sh -c "headrace topo --gpu $gpu0 --json | grep '\"nvme\": *\"$nv0\"'"

# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash disable=SC2154
# topo --fix --apply changes ACS registers of a machine whose kernel turned redirect on, and reports
# its writes; setpci reads the registers back. The printed commands undo it. With a file system on
# the SSD it changes nothing.
#: run machine=switch_acs_iommu boot="intel_iommu=on iommu=pt"
#: tools lspci setpci

topo() {
    headrace topo --ignore-vm --gpu "$gpu0" "$@"
}

# acs PORT VALUE: the control register, by setpci
acs() {
    got=$(setpci -s "$1" ECAP_ACS+6.w)
    [ "$got" = "$2" ] || { echo "$1: ACSCtl $got, expected $2"; return 1; }
}

verdict_is() {
    topo --json >/tmp/json
    grep -q "\"verdict\": *\"$1\"" /tmp/json || { grep '"verdict"' /tmp/json; return 1; }
}

ports_have() {
    acs "$d1" "$1" && acs "$d2" "$1"
}

# The lines after "undo:" are commands.
undo() {
    sed -n '/^undo:/,/^[a-z]/p' /tmp/plan | grep setpci >/tmp/undo
    [ "$(wc -l </tmp/undo)" = 2 ] && sh /tmp/undo
}

echo 1 >"$(pci "$gpu0")/enable"
setpci -s "$gpu0" COMMAND=6:6
modprobe nvme

check "the kernel drives the SSD" soon test -e /dev/nvme0n1
check "the kernel turned redirect on" ports_have 001d
check "the pair is redirected" verdict_is REDIRECTED+RC_UNLISTED
# 64 MiB of BAR count as degraded: here exit code 1 means DIRECT. --fix has its own exit codes.
check "--fix without --apply prints a plan" exits 1 headrace topo --ignore-vm --gpu "$gpu0" --fix
cp /tmp/out /tmp/plan
check "--fix without --apply writes no register" ports_have 001d

mke2fs -q /dev/nvme0n1
modprobe ext4
check "a file system on the SSD is mounted" mount -t ext4 /dev/nvme0n1 /mnt
check "--apply is refused while a file system is mounted" \
    exits 8 headrace topo --ignore-vm --gpu "$gpu0" --fix --apply
check "the refusal names the mounted disk" warns "$nv0: a file system on this disk is mounted"
check "no register changes while a file system is mounted" ports_have 001d
umount /mnt

sleep 1000 4</dev/nvme0n1 &
user=$!
check "--apply is refused while a process has the disk open" \
    exits 8 headrace topo --ignore-vm --gpu "$gpu0" --fix --apply
check "the refusal names the process" warns "sleep"
check "no register changes while a process has the disk open" ports_have 001d
kill $user

check "--fix --apply" exits 1 headrace topo --ignore-vm --gpu "$gpu0" --fix --apply
check "--apply reports its writes" says "written:  $d1 ACSCtl 001d -> 0011"
check "the registers have the reported values" ports_have 0011
check "the pair is direct after --apply" verdict_is DIRECT
check "lspci agrees" sh -c "lspci -vv -s $d1 | grep 'ACSCtl:.*ReqRedir- CmpltRedir-.*EgressCtrl-'"
check "the root port is unchanged" acs "$rp" 001d
check "a second --apply has no change to make" exits 8 headrace topo --ignore-vm --gpu "$gpu0" --fix --apply
check "the undo commands succeed" undo
check "the registers have their former values" ports_have 001d
check "the pair is redirected after undo" verdict_is REDIRECTED+RC_UNLISTED

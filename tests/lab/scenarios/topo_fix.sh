# shellcheck shell=dash disable=SC2154
# topo --fix --apply changes ACS registers of a machine whose kernel turned redirect on, and says what
# it wrote; setpci reads the registers back. Undone by the lines it printed. With a file system on the
# SSD it touches nothing.
#: run machine=switch_acs_iommu boot="intel_iommu=on iommu=pt"
#: tools lspci setpci

topo() {
    headrace topo --gpu "$gpu0" "$@"
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
until [ -e /dev/nvme0n1 ]; do sleep 0.1; done

check "the kernel turned redirect on" ports_have 001d
check "so the pair is redirected" verdict_is REDIRECTED+RC_UNLISTED
# 64 MiB of BAR count as degraded: exit code 1 is DIRECT here. --fix exits as its outcome does.
check "--fix alone plans" exits 1 headrace topo --gpu "$gpu0" --fix
cp /tmp/out /tmp/plan
check "and writes nothing" ports_have 001d

mke2fs -q /dev/nvme0n1
modprobe ext4
check "a file system on the SSD is mounted" mount -t ext4 /dev/nvme0n1 /mnt
check "--apply is refused while a file system is mounted" \
    exits 8 headrace topo --gpu "$gpu0" --fix --apply
check "and says why" warns "$nv0: a file system on this disk is mounted"
check "and writes nothing then" ports_have 001d
umount /mnt

sleep 100 4</dev/nvme0n1 &
user=$!
check "--apply is refused while a process has the disk open" \
    exits 8 headrace topo --gpu "$gpu0" --fix --apply
check "and says who" warns "sleep"
check "and writes nothing then either" ports_have 001d
kill $user

check "--apply" exits 1 headrace topo --gpu "$gpu0" --fix --apply
check "it says what it wrote" says "written:  $d1 ACSCtl 001d -> 0011"
check "the registers are as it says" ports_have 0011
check "the pair is direct now" verdict_is DIRECT
check "lspci agrees" sh -c "lspci -vv -s $d1 | grep 'ACSCtl:.*ReqRedir- CmpltRedir-.*EgressCtrl-'"
check "the root port was left alone" acs "$rp" 001d
check "nothing is left to fix" exits 8 headrace topo --gpu "$gpu0" --fix --apply
check "undo" undo
check "undone" ports_have 001d
check "redirected again" verdict_is REDIRECTED+RC_UNLISTED

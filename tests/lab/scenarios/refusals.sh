# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash disable=SC2154
# An unusable device is refused with exit code 3 (2 for an invalid address) in one line that names
# the device and the remedy; drivers, configuration space and disks do not change.
#: run plain machine=two_ssds boot=intel_iommu=off
#: run iommu machine=one_group boot=intel_iommu=on
#: tools setpci

# state: print the state of all cards that a wrong refusal could change
state() {
    for card in "$nv0" "$nv1" "$gpu0"; do
        readlink "$(pci "$card")/driver"
        cat "$(pci "$card")/enable" "$(pci "$card")/driver_override"
        hexdump -C "$(pci "$card")/config"
    done
}

# refuses CODE DEVICE TEXT
refuses() {
    state >/tmp/before
    check "$2: exit code $1" exits "$1" headrace store ls "$2"
    check "$2: says '$3'" warns "$3"
    check "$2: in one line" test "$(wc -l </tmp/err)" = 1
    state >/tmp/after
    check "$2: drivers, configuration space and disk are unchanged" cmp /tmp/before /tmp/after
}

refuses_nobody() {
    check "$1 without privileges: exit code 3" exits 3 su -s /bin/sh nobody -c "headrace store ls $1"
    check "$1 without privileges: the error names root" warns "root"
    check "$1 without privileges: in one line" test "$(wc -l </tmp/err)" = 1
}

before=$(host sum nv0 0 67108864)
hugepages 16
refuses 3 pci:0000:77:00.0 "0000:77:00.0: there is no such PCI function"
refuses 2 pci:zz "'zz' is not a PCI function"
refuses 2 vfio:0000:03:00 "'0000:03:00' is not a PCI function"
refuses 3 "pci:$gpu0" "$gpu0: is not an NVMe controller: its class is 050000"
refuses 3 "vfio:$gpu0" "$gpu0: is not an NVMe controller: its class is 050000"
refuses 3 "pci:0000:00:01.0" "0000:00:01.0: is not an NVMe controller"

case $INSTANCE in
plain)
    refuses_nobody "pci:$nv0"
    refuses 3 "vfio:$nv0" "$nv0: no IOMMU is active"
    modprobe nvme
    check "the kernel drives the second disk" soon test -e /dev/nvme1n1
    refuses 3 "pci:$nv1" "the kernel driver nvme is bound to it"
    ;;
iommu)
    refuses 3 "pci:$nv0" "IOMMU group"
    refuses 3 "vfio:$nv0" "vfio"
    modprobe -a nvme vfio-pci vfio_iommu_type1
    check "the kernel drives the second disk" soon test -e /dev/nvme1n1
    refuses 3 "vfio:$nv0" "the kernel driver is nvme"
    bind "$nv0" vfio-pci
    refuses 3 "vfio:$nv0" "$nv1"
    refuses_nobody "vfio:$nv0"
    bind "$nv1" ""
    check "with the other card unbound the group can be opened" exits 1 headrace store ls "vfio:$nv0"
    check "store ls through VFIO reports a blank disk" warns "the disk is blank"
    ;;
esac
after=$(host sum nv0 0 67108864)
check "the disk is unchanged" test "$before" = "$after"

[ "$INSTANCE" = plain ] || exit 0
bind "$nv0" ""
headrace store format "pci:$nv0"
mkfifo /tmp/fifo
headrace store put --size 1M "pci:$nv0" slow - </tmp/fifo >/tmp/put.log 2>&1 &
exec 4>/tmp/fifo
echo part >&4
check "a put has enabled the controller" soon grep -q 1 "$(pci "$nv0")/enable"
check "a controller in use: exit code 3" exits 3 headrace store ls "pci:$nv0"
check "a controller in use: the error names another process" warns "another process"
exec 4>&-
wait $!
check "the put continues and fails for want of data" test $? = 1
cat /tmp/put.log
check "list the store after the failed put" exits 0 headrace store ls "pci:$nv0"
check "the failed put leaves no object" sh -c '! grep slow /tmp/out'

# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash disable=SC2154
# Refusals: each names the remedy and changes nothing. Wrong functions, drivers, disks in use, disks
# with foreign data.
#: run no_iommu machine=two_ssds memory=768
#: run iommu machine=one_group boot=intel_iommu=on memory=768
#: tools mkfs.ext4 mkswap sfdisk blkid

driver() {
    basename "$(readlink "$(pci "$1")/driver" 2>/dev/null)"
}

# refused TEXT COMMAND...: exit code 3, the text on stderr, one line
refused() {
    refused_text=$1
    shift
    exits 3 "$@" && warns "$refused_text" && [ "$(grep -c error: /tmp/err)" = 1 ]
}

disk_sum() {
    host sum nv0 0 67108864
}

# The kernel's disk of the first SSD, which appears some time after its driver.
disk_is_back() {
    soon test -b /dev/nvme0n1
}

cat >/tmp/device.conf <<'EOT'
ssds = ( { name = "ssd0"; device = "%DEVICE%"; } );
gpus = ( { name = "gpu0"; device = "host:1"; } );
EOT

hugepages 8
if [ "$INSTANCE" = iommu ]; then
    check "physical addresses behind an IOMMU are refused" \
        refused "use vfio:$nv0, or boot with iommu=pt" headrace store ls "pci:$nv0"
    check "a missing vfio-pci driver is refused" refused "modprobe vfio-pci" headrace store ls --bind "vfio:$nv0"
    modprobe -a vfio-pci vfio_iommu_type1
    check "an unbound function is refused" refused "no driver is bound to it; it has to be bound to vfio-pci" \
        headrace store ls "vfio:$nv0"
    modprobe nvme
    check "vfio: of a function bound to nvme is refused" refused "the kernel driver is nvme" headrace store ls "vfio:$nv0"
    check "a group that is not viable is refused" refused "$nv1 is in the same group and bound to nvme" \
        headrace store ls --bind "vfio:$nv0"
    check "the driver is bound again after the refusal" test "$(driver "$nv0")" = nvme
    bind "$nv1" ""
    check "format with --bind" exits 0 headrace store format --bind "vfio:$nv0"
    check "the driver is bound again after format" test "$(driver "$nv0")" = nvme
    check "driver_override is empty after format" grep -q null "$(pci "$nv0")/driver_override"
    disk_is_back
    check "the kernel sees the store" exits 0 headrace store ls kernel:/dev/nvme0n1
else
    check "a missing function is refused" refused "there is no such PCI function" headrace store ls pci:77:00.0
    check "a function that is no NVMe controller is refused" refused "is not an NVMe controller" headrace store ls "pci:$gpu0"
    check "an invalid address is refused" exits 2 headrace store ls pci:nonsense
    check "vfio: without an IOMMU is refused" refused "no IOMMU is active" headrace store ls "vfio:$nv0"
    check "a user without privileges is refused" exits 3 su -s /bin/sh nobody -c "headrace store ls pci:$nv0"
    check "the error of a user without privileges names root" warns "run as root"

    modprobe nvme
    check "a function with a kernel driver is refused without --bind" refused "the kernel driver nvme is bound to it: use --bind" \
        headrace store ls "pci:$nv0"

    disk_is_back
    mkfs.ext4 -q -L precious /dev/nvme0n1
    mkdir /mnt
    modprobe ext4
    mount -t ext4 /dev/nvme0n1 /mnt
    check "a mounted disk is refused" refused "nvme0n1 is mounted on /mnt" headrace store ls --bind "pci:$nv0"
    check "a mounted disk is refused through the kernel" refused "is mounted on /mnt" \
        headrace store ls kernel:/dev/nvme0n1
    umount /mnt
    before=$(disk_sum)
    tail -f /dev/null 4</dev/nvme0n1 &
    check "a disk open in another process is refused" refused "is open in process $!" headrace store ls --bind "pci:$nv0"
    kill $!
    check "the driver was not unbound" test "$(driver "$nv0")" = nvme
    check "a disk with a file system is refused" refused "holds ext4 'precious'; nothing was changed" \
        headrace store format --bind --force "pci:$nv0"
    disk_is_back
    check "a disk with a file system is refused through the kernel" refused "holds ext4 'precious'" \
        headrace store format --force kernel:/dev/nvme0n1
    check "the driver is bound again after the refusal of a file system" test "$(driver "$nv0")" = nvme
    check "another serial number is refused" refused "its serial number is 'nv0', but 'x' was requested" \
        headrace store format --bind --force --allow-serial x "pci:$nv0"
    disk_is_back
    check "the disk is unchanged" test "$(disk_sum)" = "$before"
    check "the file system is whole" sh -c 'mount -t ext4 /dev/nvme0n1 /mnt && umount /mnt'

    echo 'label: gpt' | sfdisk -q /dev/nvme0n1
    check "a disk with a partition table is refused" refused "partition table (gpt)" \
        headrace store format --bind --force "pci:$nv0"
    disk_is_back
    dd if=/dev/zero of=/dev/nvme0n1 bs=1M count=16 2>/dev/null
    sync
    check "a disk with a partition table at its end is refused" refused "partition table (gpt)" \
        headrace store format --bind --force "pci:$nv0"
    mkswap /dev/nvme1n1 >/dev/null
    swapon /dev/nvme1n1
    check "a disk used as swap is refused" refused "is used as swap" headrace store ls --bind "pci:$nv1"
    swapoff /dev/nvme1n1

    echo ',32M' | sfdisk -q --label gpt --wipe always /dev/nvme1n1
    soon test -b /dev/nvme1n1p1
    check "a partition is refused" refused "is a partition; a store takes a whole disk" \
        headrace store format --force kernel:/dev/nvme1n1p1
    mkfs.ext4 -q /dev/nvme1n1p1
    mount -t ext4 /dev/nvme1n1p1 /mnt
    check "a disk with a mounted partition is refused" refused "nvme1n1p1 is mounted on /mnt" \
        headrace store format --force --allow-serial nv1 --bind "pci:$nv1"
    check "a disk with a mounted partition is refused through the kernel" refused "nvme1n1p1 is mounted on /mnt" \
        headrace store format --force --allow-serial nv1 kernel:/dev/nvme1n1
    check "the partition is still mounted" grep -q "^/dev/nvme1n1p1 /mnt " /proc/mounts
    check "the driver of the mounted partition was not unbound" test "$(driver "$nv1")" = nvme
    umount /mnt

    check "format with --allow-serial" \
        exits 0 headrace store format --bind --force --allow-serial nv0 "pci:$nv0"
    check "a disk with a store is accepted" exits 0 headrace store ls --bind "pci:$nv0"
    disk_is_back
    check "put through the kernel" exits 0 headrace store put -q kernel:/dev/nvme0n1 o /lab/lib.sh
    check "get through pci: reads the object" exits 0 headrace store get -q --bind "pci:$nv0" o /tmp/o
    check "the object is exact" cmp /lab/lib.sh /tmp/o
    check "a character device is refused" refused "is not a block device" headrace store ls kernel:/dev/null
    sed 's/%DEVICE%/kernel:\/dev\/nvme0n1/' /tmp/device.conf >/tmp/kernel.conf
    check "kernel: in a configuration is refused" exits 2 headrace check /tmp/kernel.conf
    check "the error of kernel: in a configuration names headrace store" warns "'headrace store' only"
    sed "s/%DEVICE%/pci:$nv0/" /tmp/device.conf >/tmp/pci.conf
    check "pci: in a configuration is refused" exits 3 headrace check /tmp/pci.conf
    check "the error of pci: in a configuration names the driver" warns "the kernel driver nvme is bound to it"
fi

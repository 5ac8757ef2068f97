# shellcheck shell=dash disable=SC2154
# What is refused, says what to do, and changes nothing: wrong functions, drivers, disks in use,
# disks that hold something.
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

# The kernel's disk of the first SSD, which is there a while after its driver.
disk_is_back() {
    soon test -b /dev/nvme0n1
}

cat >/tmp/device.conf <<'EOT'
ssds = ( { name = "ssd0"; device = "%DEVICE%"; } );
gpus = ( { name = "gpu0"; device = "host:1"; } );
EOT

hugepages 8
if [ "$INSTANCE" = iommu ]; then
    check "physical addresses behind an IOMMU" \
        refused "use vfio:$nv0, or boot with iommu=pt" headrace store ls "pci:$nv0"
    check "no vfio driver" refused "modprobe vfio-pci" headrace store ls --bind "vfio:$nv0"
    modprobe -a vfio-pci vfio_iommu_type1
    check "not bound" refused "no driver is bound to it; it has to be bound to vfio-pci" \
        headrace store ls "vfio:$nv0"
    modprobe nvme
    check "bound to nvme" refused "the kernel driver is nvme" headrace store ls "vfio:$nv0"
    check "a group that is not viable" refused "$nv1 is in it too and bound to nvme" \
        headrace store ls --bind "vfio:$nv0"
    check "the driver is back" test "$(driver "$nv0")" = nvme
    bind "$nv1" ""
    check "with --bind" exits 0 headrace store format --bind "vfio:$nv0"
    check "the driver is back again" test "$(driver "$nv0")" = nvme
    check "and no override stays" grep -q null "$(pci "$nv0")/driver_override"
    disk_is_back
    check "the kernel sees the store" exits 0 headrace store ls kernel:/dev/nvme0n1
else
    check "no such function" refused "there is no such PCI function" headrace store ls pci:77:00.0
    check "no NVMe controller" refused "is no NVMe controller" headrace store ls "pci:$gpu0"
    check "no address" exits 2 headrace store ls pci:nonsense
    check "vfio without an IOMMU" refused "no IOMMU is active" headrace store ls "vfio:$nv0"
    check "not root" exits 3 su -s /bin/sh nobody -c "headrace store ls pci:$nv0"
    check "says so" warns "run as root"

    modprobe nvme
    check "a kernel driver" refused "the kernel driver nvme is bound to it: use --bind" \
        headrace store ls "pci:$nv0"

    disk_is_back
    mkfs.ext4 -q -L precious /dev/nvme0n1
    mkdir /mnt
    modprobe ext4
    mount -t ext4 /dev/nvme0n1 /mnt
    check "mounted" refused "nvme0n1 is mounted on /mnt" headrace store ls --bind "pci:$nv0"
    check "mounted, through the kernel" refused "is mounted on /mnt" \
        headrace store ls kernel:/dev/nvme0n1
    umount /mnt
    before=$(disk_sum)
    tail -f /dev/null 4</dev/nvme0n1 &
    check "open" refused "is open in process $!" headrace store ls --bind "pci:$nv0"
    kill $!
    check "driver was left alone" test "$(driver "$nv0")" = nvme
    check "a file system" refused "holds ext4 'precious'; nothing was changed" \
        headrace store format --bind --force "pci:$nv0"
    disk_is_back
    check "a file system, through the kernel" refused "holds ext4 'precious'" \
        headrace store format --force kernel:/dev/nvme0n1
    check "driver is back" test "$(driver "$nv0")" = nvme
    check "another serial number" refused "its serial number is 'nv0', not 'x'" \
        headrace store format --bind --force --allow-serial x "pci:$nv0"
    disk_is_back
    check "not a byte has changed" test "$(disk_sum)" = "$before"
    check "the file system is whole" sh -c 'mount -t ext4 /dev/nvme0n1 /mnt && umount /mnt'

    echo 'label: gpt' | sfdisk -q /dev/nvme0n1
    check "a partition table" refused "partition table (gpt)" \
        headrace store format --bind --force "pci:$nv0"
    disk_is_back
    dd if=/dev/zero of=/dev/nvme0n1 bs=1M count=16 2>/dev/null
    sync
    check "its copy at the end" refused "partition table (gpt)" \
        headrace store format --bind --force "pci:$nv0"
    mkswap /dev/nvme1n1 >/dev/null
    swapon /dev/nvme1n1
    check "swap" refused "is swapped on" headrace store ls --bind "pci:$nv1"
    swapoff /dev/nvme1n1

    echo ',32M' | sfdisk -q --label gpt --wipe always /dev/nvme1n1
    soon test -b /dev/nvme1n1p1
    check "a partition" refused "is a partition; a store takes a whole disk" \
        headrace store format --force kernel:/dev/nvme1n1p1
    mkfs.ext4 -q /dev/nvme1n1p1
    mount -t ext4 /dev/nvme1n1p1 /mnt
    check "a mounted partition" refused "nvme1n1p1 is mounted on /mnt" \
        headrace store format --force --allow-serial nv1 --bind "pci:$nv1"
    check "its disk, through the kernel" refused "nvme1n1p1 is mounted on /mnt" \
        headrace store format --force --allow-serial nv1 kernel:/dev/nvme1n1
    check "it is still mounted" grep -q "^/dev/nvme1n1p1 /mnt " /proc/mounts
    check "and its driver was left alone" test "$(driver "$nv1")" = nvme
    umount /mnt

    check "named by its serial number" \
        exits 0 headrace store format --bind --force --allow-serial nv0 "pci:$nv0"
    check "the store is welcome" exits 0 headrace store ls --bind "pci:$nv0"
    disk_is_back
    check "and through the kernel" exits 0 headrace store put -q kernel:/dev/nvme0n1 o /lab/lib.sh
    check "the other way reads it" exits 0 headrace store get -q --bind "pci:$nv0" o /tmp/o
    check "the same" cmp /lab/lib.sh /tmp/o
    check "no block device" refused "is no block device" headrace store ls kernel:/dev/null
    sed 's/%DEVICE%/kernel:\/dev\/nvme0n1/' /tmp/device.conf >/tmp/kernel.conf
    check "configurations have no kernel:" exits 2 headrace check /tmp/kernel.conf
    check "says so" warns "'headrace store' only"
    sed "s/%DEVICE%/pci:$nv0/" /tmp/device.conf >/tmp/pci.conf
    check "nothing else is wrong with that one" exits 3 headrace check /tmp/pci.conf
    check "but its driver" warns "the kernel driver nvme is bound to it"
fi

# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash disable=SC2154
# A namespace of the zoned command set is refused before a byte of it changes, also when the kernel
# drives it.
#: run pci machine=zoned boot=intel_iommu=off
#: run vfio machine=zoned_iommu boot=intel_iommu=on

# refused WHY COMMAND...: exit code 3, with the reason
refused() {
    refused_why=$1
    shift
    exits 3 headrace "$@" && warns "$refused_why"
}

ssd=$INSTANCE:$nv0
hugepages 32
if [ "$INSTANCE" = vfio ]; then
    modprobe -a vfio-pci vfio_iommu_type1
    bind "$nv0" vfio-pci
fi
cat >/tmp/z.conf <<EOT
ssds = ( { name = "a"; device = "$ssd"; serial = "nv0"; } );
gpus = ( { name = "g"; device = "host:1"; } );
pipelines = ( { name = "p"; source = { object = "in"; }; operator = "crc32c"; } );
EOT
why="$nv0: namespace 1: its command set is zoned (CSI 02h)"
before=$(host sum z 0 67108864)
check "format is refused" refused "$why" store format --force --allow-serial nv0 "$ssd"
check "put is refused" refused "$why" store put "$ssd" x /lab/lib.sh
check "ls is refused" refused "$why" store ls "$ssd"
check "post" exits 3 headrace post /tmp/z.conf
check "post names the reason in the step" says "$why"
for command in check run bench; do
    check "$command is refused" refused "$why" $command /tmp/z.conf
    check "$command names the line" warns "/tmp/z.conf:1: ssd 'a'"
done
if [ "$INSTANCE" = pci ]; then
    modprobe nvme
    check "the kernel drives the namespace" soon test -b /dev/nvme0n1
    check "the kernel reports zones" grep -q host-managed /sys/block/nvme0n1/queue/zoned
    check "format through the kernel is refused" refused "is a zoned disk (host-managed)" \
        store format --force --allow-serial nv0 kernel:/dev/nvme0n1
    check "put through the kernel is refused" refused "is a zoned disk" \
        store put kernel:/dev/nvme0n1 x /lab/lib.sh
fi
check "the namespace is unchanged" test "$(host sum z 0 67108864)" = "$before"

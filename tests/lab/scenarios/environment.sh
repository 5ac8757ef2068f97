# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash disable=SC2154
# A kernel or a container that keeps headrace from an ssd: exit code 3, and the message names the remedy.
#: run lockdown machine=no_gpu boot="intel_iommu=off lockdown=integrity"
#: run container machine=no_gpu boot=intel_iommu=off
#: run vfio machine=ports_iommu boot=intel_iommu=on
#: limit 240

# refused TEXT COMMAND...: exit code 3, one line, which has the text
refused() {
    text=$1
    shift
    check "$*: exit code 3" exits 3 "$@"
    check "$*: says '$text'" warns "$text"
    check "$*: in one line" test "$(grep -c error: /tmp/err)" = 1
}

case $INSTANCE in
lockdown)
    hugepages 64
    refused "locked down" headrace store format "pci:$nv0"
    mount -t securityfs none /sys/kernel/security
    refused "the kernel is locked down" headrace store ls "pci:$nv0"
    ;;
container)
    hugepages 64
    check "format" exits 0 headrace store format "pci:$nv0"
    refused "CAP_SYS_ADMIN" withhold headrace store ls "pci:$nv0"
    mount -o remount,ro /sys
    refused "mount /sys read-write" headrace store ls "pci:$nv0"
    mount -o remount,rw /sys
    check "with all rights" exits 0 headrace store ls "pci:$nv0"
    ;;
vfio)
    modprobe -a vfio-pci vfio_iommu_type1
    bind "$nv0" vfio-pci
    check "format" exits 0 headrace store format "vfio:$nv0"
    # Debian's kernel has neither no-IOMMU mode nor iommufd: only the names of their files are real.
    group=$(basename "$(readlink "$(pci "$nv0")/iommu_group")")
    mv "/dev/vfio/$group" "/dev/vfio/noiommu-$group"
    refused "no-IOMMU mode" headrace store ls "vfio:$nv0"
    mv "/dev/vfio/noiommu-$group" "/dev/vfio/$group"
    check "with its group" exits 0 headrace store ls "vfio:$nv0"
    mv /dev/vfio/vfio /tmp/away
    touch /dev/iommu
    refused "this kernel has iommufd only" headrace store ls "vfio:$nv0"
    ;;
esac

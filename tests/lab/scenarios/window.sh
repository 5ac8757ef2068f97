# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash disable=SC2154
# GPU memory through VFIO, mapped like gdrcopy and like the driver's dma-buf: fakes return a BAR of
# the lab's GPU, whose mapping has no struct pages either; the rest of the path is real. The host
# finds the SSD's data in the file of the BAR.
#: run switch machine=switch_iommu boot=intel_iommu=on
#: run ports machine=ports_iommu boot=intel_iommu=on memory=768 cpus=2
#: run one_group machine=one_group boot=intel_iommu=on
#: tests gpu/window_dma
#: restores

hugepages 16
modprobe -a vfio-pci vfio_iommu_type1
bind "$nv0" vfio-pci
export HEADRACE_CONFORM_DEVICE="vfio:$nv0" HEADRACE_WINDOW_BAR="$gpu0/2"
check "the SSD reads and writes GPU memory by gdrcopy and by dma-buf" window_dma
cp /tmp/check.out /tmp/log
check "both tests ran" grep -q '^\[====\] Synthesis: Tested: 2 | Passing: 2' /tmp/log
check "the IOMMU reports no DMA fault" sh -c '! dmesg | grep -F "DMAR: [DMA"'
lower=$(host sum gpu0 0 524288)
upper=$(host sum gpu0 524288 524288)
check "the file of the BAR holds the data of the SSD" test "$lower" = "$upper"
zeros=$(head -c 524288 /dev/zero | sha256sum | cut -d' ' -f1)
check "the data of the SSD are not zeros" test "$lower" != "$zeros"
as_new nv0

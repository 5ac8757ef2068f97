# shellcheck shell=dash disable=SC2154
# GPU memory through VFIO, as gdrcopy and as the driver's dma-buf map it: stand-ins hand out a BAR of
# the lab's GPU, whose mapping has no struct pages either; the rest of the way is the real one. The
# host finds in the BAR's file what the SSD wrote.
#: run switch machine=switch_iommu boot=intel_iommu=on
#: run ports machine=ports_iommu boot=intel_iommu=on
#: run one_group machine=one_group boot=intel_iommu=on
#: tests nvme/window_dma

hugepages 16
modprobe -a vfio-pci vfio_iommu_type1
bind "$nv0" vfio-pci
export HEADRACE_CONFORM_DEVICE="vfio:$nv0" HEADRACE_WINDOW_BAR="$gpu0/2"
check "the SSD reads and writes it both ways" window_dma
cp /tmp/check.out /tmp/log
check "both tests ran" grep -q '^\[====\] Synthesis: Tested: 2 | Passing: 2' /tmp/log
check "no DMA was refused" sh -c '! dmesg | grep -F "DMAR: [DMA"'
lower=$(host sum gpu0 0 524288)
upper=$(host sum gpu0 524288 524288)
check "the host sees in the BAR what the SSD wrote" test "$lower" = "$upper"
zeros=$(head -c 524288 /dev/zero | sha256sum | cut -d' ' -f1)
check "and it is not nothing" test "$lower" != "$zeros"

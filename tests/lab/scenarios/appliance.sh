# shellcheck shell=dash
# The appliance from power-on: the kernel starts headrace, and there is nothing else in the machine. One
# run boots what `make image` makes, from its CD, by the firmware.
# The clock of two others counts instructions, 2 ns each, so that a limit can be set to what a machine
# of that speed takes from the first process to the first tile, however busy this one is.
# appliance.before.sh puts the object on the disk, appliance.after.py reads console and disk.
#: run pci machine=no_gpu boot=intel_iommu=off icount=1
#: run vfio machine=one_group boot=intel_iommu=on icount=1
#: run broken machine=no_gpu
#: run failing machine=no_gpu
#: run image machine=one_group boot=intel_iommu=on start=image
#: appliance

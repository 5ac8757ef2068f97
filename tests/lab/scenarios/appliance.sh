# shellcheck shell=dash
# The appliance from power-on: the kernel starts headrace, and there is nothing else in the machine. One
# run boots what `make image` makes, from its CD, by the firmware.
# appliance.before.sh puts the object on the disk, appliance.after.py reads console and disk.
#: run pci machine=no_gpu boot=intel_iommu=off
#: run vfio machine=one_group boot=intel_iommu=on
#: run broken machine=no_gpu
#: run failing machine=no_gpu
#: run image machine=one_group boot=intel_iommu=on start=image
#: appliance

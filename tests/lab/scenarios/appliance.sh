# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# The appliance from power-on: the kernel starts headrace, and nothing else runs in the machine. One
# run boots the result of `make image`, from its CD, by the firmware. In two others the guest's
# clock counts instructions, 2 ns each, so that a limit for the time from the first process to the
# first tile does not depend on how busy this machine is. appliance.before.sh puts the object on the
# disk, appliance.after.py reads console and disk.
#: run pci machine=no_gpu boot="intel_iommu=off highres=on" icount=1
#: run vfio machine=one_group boot="intel_iommu=on highres=on" icount=1
#: run broken machine=no_gpu
#: run failing machine=no_gpu
#: run image machine=one_group boot=intel_iommu=on start=image
#: appliance

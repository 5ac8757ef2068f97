# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash disable=SC2154
# Virtual functions of an SSD (SR-IOV), enabled as by an administrator: the kernel's driver keeps
# the physical function, and headrace drives a virtual one, whose BAR registers read 0.
#: run pci machine=functions boot=intel_iommu=off memory=768
#: run vfio machine=functions_iommu boot=intel_iommu=on memory=768
#: tools setpci
#: limit 150

# manage ACTION RESOURCE CONTROLLER NUMBER: Virtualization Management (Base 5.28)
manage() {
    nvmeadm /dev/nvme0 0x1c $(($3 << 16 | $2 << 8 | $1)) "$4"
}

# enable CONTROLLER: the secondary controller gets a vector and eight queue pairs, and goes online
enable() {
    manage 8 1 "$1" 1 && manage 8 0 "$1" 8 && manage 9 0 "$1" 0
}

# configure: a copy on the virtual function, through memory of the card where possible
configure() {
    cat >/tmp/f.conf <<EOT
ssds = ( { name = "a"; device = "$INSTANCE:$vf0"; } );
gpus = ( { name = "g"; device = "host:2,bar=$gpu0"; } );
pipelines = ( { name = "p"; source = { object = "lib"; }; operator = "copy";
    sink = { object = "lib.copy"; }; tile = "4K"; slots = 2; } );
EOT
}

modprobe nvme
hugepages 32
check "the kernel drives the physical function" soon test -e /dev/nvme0
check "release the flexible queues of the physical function" manage 1 0 0 0
check "release the flexible vectors of the physical function" manage 1 1 0 0
check "reset the physical function" nvmeadm /dev/nvme0 reset
echo 0 >"$(pci "$nv0")/sriov_drivers_autoprobe"
check "enable two virtual functions" sh -c "echo 2 >$(pci "$nv0")/sriov_numvfs"
vf0=$(basename "$(readlink "$(pci "$nv0")/virtfn0")")
vf1=$(basename "$(readlink "$(pci "$nv0")/virtfn1")")
check "the BAR registers of the virtual function read 0" test "$(setpci -s "$vf0" 10.l)" = 00000000
if [ "$INSTANCE" = vfio ]; then
    modprobe -a vfio-pci vfio_iommu_type1
    bind "$vf0" vfio-pci
    bind "$vf1" vfio-pci
fi
check "an offline virtual function is refused" exits 3 headrace store ls "$INSTANCE:$vf1"
cat /tmp/err
check "set the first virtual function online" enable 1

check "format" exits 0 headrace store format "$INSTANCE:$vf0"
check "put" exits 0 headrace store put "$INSTANCE:$vf0" lib /lab/lib.sh
configure
check "run" exits 0 headrace run /tmp/f.conf
check "get" exits 0 headrace store get "$INSTANCE:$vf0" lib.copy /tmp/lib
check "the object is exact" cmp /lab/lib.sh /tmp/lib
check "the physical function has the same disk" \
    exits 0 headrace store get --force kernel:/dev/nvme0n1 lib.copy /tmp/lib
check "the object is exact through the physical function" cmp /lab/lib.sh /tmp/lib

# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash disable=SC2154
# A controller with namespaces 1, 2 (of 4096-byte blocks) and 5 (zoned): the named namespace is used,
# and the others do not change; a missing namespace is refused with a list of the present namespaces.
#: run pci machine=namespaces boot=intel_iommu=off
#: run vfio machine=namespaces_iommu boot=intel_iommu=on

sums() {
    for disk in "$@"; do
        host sum "$disk" 0 67108864
    done
}

# configure NAMESPACE
configure() {
    cat >/tmp/n.conf <<EOT
ssds = ( { name = "a"; device = "$ssd"; namespace = $1; } );
gpus = ( { name = "g"; device = "host:2"; } );
pipelines = ( { name = "p"; source = { object = "lib"; }; operator = "copy";
    sink = { object = "lib.copy"; }; tile = "4K"; slots = 2; } );
EOT
}

ssd=$INSTANCE:$nv0
hugepages 32
if [ "$INSTANCE" = vfio ]; then
    modprobe -a vfio-pci vfio_iommu_type1
    bind "$nv0" vfio-pci
fi

before=$(sums n1 n5)
check "format namespace 2" exits 0 headrace store format --nsid 2 "$ssd"
check "put to namespace 2" exits 0 headrace store put --nsid 2 "$ssd" lib /lab/lib.sh
configure 2
check "run on namespace 2" exits 0 headrace run /tmp/n.conf
check "get the copy from namespace 2" exits 0 headrace store get --nsid 2 "$ssd" lib.copy /tmp/lib
check "the copy is exact" cmp /lab/lib.sh /tmp/lib
check "verify namespace 2" exits 0 headrace store verify --nsid 2 "$ssd"
check "the other namespaces are unchanged" test "$(sums n1 n5)" = "$before"

check "namespace 1 is blank" exits 1 headrace store ls "$ssd"
check "format namespace 1" exits 0 headrace store format "$ssd"
check "namespace 1 has no objects of namespace 2" sh -c "! headrace store ls $ssd | grep lib"
check "get the object from namespace 2" exits 0 headrace store get --force --nsid 2 "$ssd" lib /tmp/lib
check "the object of namespace 2 is exact" cmp /lab/lib.sh /tmp/lib

before=$(sums n1 n2 n5)
configure 5
check "a run on zoned namespace 5 is refused" exits 3 headrace run /tmp/n.conf
check "the error of namespace 5 names the command set" warns "namespace 5: its command set is zoned"
for namespace in 3 6; do
    configure $namespace
    check "a run on missing namespace $namespace is refused" exits 3 headrace run /tmp/n.conf
    check "the error of namespace $namespace lists the present namespaces" \
        warns "$nv0: there is no active namespace $namespace; the controller has 1, 2, 5"
    check "the error of namespace $namespace names the line" warns "/tmp/n.conf:1: ssd 'a'"
    check "store ls of missing namespace $namespace is refused" exits 3 headrace store ls --nsid $namespace "$ssd"
    check "the error of store ls lists the present namespaces" warns "the controller has 1, 2, 5"
done
check "refused commands write no data" test "$(sums n1 n2 n5)" = "$before"

# shellcheck shell=dash disable=SC2154
# A controller with namespaces 1, 2 (of 4096-byte blocks) and 5 (zoned): the one that is named is used
# and the others are not touched; one that does not exist is refused with those that do.
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
check "format the second" exits 0 headrace store format --nsid 2 "$ssd"
check "put to it" exits 0 headrace store put --nsid 2 "$ssd" lib /lab/lib.sh
configure 2
check "run on it" exits 0 headrace run /tmp/n.conf
check "get what was copied" exits 0 headrace store get --nsid 2 "$ssd" lib.copy /tmp/lib
check "it is the same" cmp /lab/lib.sh /tmp/lib
check "verify" exits 0 headrace store verify --nsid 2 "$ssd"
check "the others are untouched" test "$(sums n1 n5)" = "$before"

check "the first is blank" exits 1 headrace store ls "$ssd"
check "and can have a store of its own" exits 0 headrace store format "$ssd"
check "without the objects of the second" sh -c "! headrace store ls $ssd | grep lib"
check "which are still there" exits 0 headrace store get --force --nsid 2 "$ssd" lib /tmp/lib
check "as they were" cmp /lab/lib.sh /tmp/lib

before=$(sums n1 n2 n5)
configure 5
check "the fifth is zoned" exits 3 headrace run /tmp/n.conf
check "says so" warns "namespace 5: its command set is zoned"
for namespace in 3 6; do
    configure $namespace
    check "there is no namespace $namespace" exits 3 headrace run /tmp/n.conf
    check "those that exist are listed" \
        warns "$nv0: there is no active namespace $namespace; the controller has 1, 2, 5"
    check "with the line" warns "/tmp/n.conf:1: ssd 'a'"
    check "the same by store" exits 3 headrace store ls --nsid $namespace "$ssd"
    check "with the list" warns "the controller has 1, 2, 5"
done
check "nothing was written by these" test "$(sums n1 n2 n5)" = "$before"

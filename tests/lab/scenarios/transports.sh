# shellcheck shell=dash disable=SC2154
# A pipeline, the self-test and the bench over an emulated controller, by physical addresses with and
# without huge pages and through VFIO; the function is as it was afterwards, also after kill -9.
#: run pci machine=ports memory=768 cpus=2
#: run pci_small_pages machine=ports memory=768 cpus=2
#: run pci_pt machine=ports_iommu boot="intel_iommu=on iommu=pt" memory=768 cpus=2
#: run vfio machine=ports_iommu boot=intel_iommu=on memory=768 cpus=2

case $INSTANCE in
vfio*)
    modprobe -a vfio-pci vfio_iommu_type1
    bind "$nv0" vfio-pci
    ssd=vfio:$nv0
    ;;
*) ssd=pci:$nv0 ;;
esac
address=${ssd#*:}
[ "$INSTANCE" = pci_small_pages ] || hugepages 32

command_register() {
    od -A n -t x2 -j 4 -N 2 "$(pci "$address")/config"
}

no_faults() {
    ! dmesg | grep "DMAR: \[DMA"
}

cat >/tmp/c.conf <<X
ssds = ( { name = "d"; device = "$ssd"; queue_entries = 64; } );
gpus = ( { name = "g"; device = "host:2"; } );
pipelines = (
    { name = "sum"; source = { object = "in"; }; operator = "crc32c"; tile = "256K"; slots = 4; },
    { name = "copy"; source = { object = "in"; }; operator = "copy";
      sink = { object = "out"; }; tile = "256K"; slots = 4; }
);
X
sed 's/queue_entries = 64/queue_entries = 1024/' /tmp/c.conf >/tmp/long.conf
dd if=/dev/urandom of=/tmp/in bs=1000 count=5000 2>/dev/null
before=$(command_register)
same_command() {
    after=$(command_register)
    [ "$after" = "$before" ] || { echo "$after, not $before"; return 1; }
}

check "a store is made" exits 0 headrace store format "$ssd"
check "an object is stored" exits 0 headrace store put -q "$ssd" in /tmp/in
check "pipelines run" exits 0 headrace run /tmp/c.conf --json
check "both are done" grep -q '"exit_code": *0' /tmp/out
check "the copy is read" exits 0 headrace store get -q --force "$ssd" out /tmp/copy
check "and is the same" cmp /tmp/in /tmp/copy
check "the store is sound" exits 0 headrace store verify -q "$ssd"
check "self-test" exits 0 headrace post /tmp/c.conf
check "without a failure" says " 0 failed"
check "bench" exits 0 headrace bench /tmp/c.conf --seconds 0.05
# vfio-pci leaves bus mastering off, whatever it was before.
case $ssd in pci:*) check "the command register is as before" same_command ;; esac
check "the function is not enabled any more" test "$(cat "$(pci "$address")/enable")" -eq 0
check "no DMA went astray" no_faults
if [ "$INSTANCE" = pci_small_pages ]; then
    check "small pages are said" warns "using pages of 4 KiB"
else
    check "queues of many entries" exits 0 headrace run /tmp/long.conf --pipeline sum
fi

# Killed while it runs: what it left must be undone by somebody else. Nothing masters the bus, and the
# next one finds a controller that it can use.
headrace bench /tmp/c.conf --seconds 20 >/dev/null 2>&1 &
masters() {
    [ $((0x$(od -A n -t x1 -j 4 -N 1 "$(pci "$address")/config" | tr -d ' ') & 4)) = 4 ]
}
silent() {
    ! masters
}
check "a bench masters the bus" soon masters
sleep 1
kill -9 $!
wait $!
check "after kill -9 nothing does" soon silent
not_enabled() {
    [ "$(cat "$(pci "$address")/enable")" -eq 0 ]
}
check "nothing has it enabled" soon not_enabled
nobody_is_left() {
    ! pgrep -f headrace
}
check "nobody is left" soon nobody_is_left
check "the next one can" exits 0 headrace run /tmp/c.conf --pipeline sum
check "and the store is sound" exits 0 headrace store verify -q "$ssd"

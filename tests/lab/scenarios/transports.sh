# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash disable=SC2154
# A pipeline, the self-test and the bench over an emulated controller, by physical addresses with
# and without huge pages and through VFIO. Afterwards the function is as before, also after kill -9.
#: run pci machine=ports memory=768 cpus=2
#: run pci_small_pages machine=ports memory=768 cpus=2
#: run pci_pt machine=ports_iommu boot="intel_iommu=on iommu=pt" memory=768 cpus=2
#: run vfio machine=ports_iommu boot=intel_iommu=on memory=768 cpus=2
#: restores

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

check "format the store" exits 0 headrace store format "$ssd"
check "put an object" exits 0 headrace store put -q "$ssd" in /tmp/in
check "pipelines run" exits 0 headrace run /tmp/c.conf --json
check "both pipelines are done" grep -q '"exit_code": *0' /tmp/out
check "get the copy" exits 0 headrace store get -q --force "$ssd" out /tmp/copy
check "the copy equals the source" cmp /tmp/in /tmp/copy
check "verify the store" exits 0 headrace store verify -q "$ssd"
check "self-test" exits 0 headrace post /tmp/c.conf
check "the self-test has no failed step" says " 0 failed"
# All measurements: without contiguous host memory, and through the IOMMU. The other two runs make one.
case $INSTANCE in
pci) check "bench" exits 0 headrace bench /tmp/c.conf --seconds 0.05 --only write:sequential:128K ;;
pci_pt) check "bench" exits 0 headrace bench /tmp/c.conf --seconds 0.05 --only misses ;;
*) check "bench" exits 0 headrace bench /tmp/c.conf --seconds 0.02 ;;
esac
# vfio-pci leaves bus mastering off, whatever its state was before.
case $ssd in pci:*) check "the command register is as before" same_command ;; esac
check "the function is not enabled any more" test "$(cat "$(pci "$address")/enable")" -eq 0
check "the IOMMU reports no DMA fault" no_faults
if [ "$INSTANCE" = pci_small_pages ]; then
    check "a warning names pages of 4 KiB" warns "using pages of 4 KiB"
else
    check "a run with queues of many entries" exits 0 headrace run /tmp/long.conf --pipeline sum
fi

# Killed during a run: the undo helper must undo its changes. No function masters the bus, and the
# next run can use the controller.
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
check "after kill -9 no function masters the bus" soon silent
not_enabled() {
    [ "$(cat "$(pci "$address")/enable")" -eq 0 ]
}
check "after kill -9 the function is not enabled" soon not_enabled
no_process_is_left() {
    ! pgrep -f headrace
}
check "after kill -9 no process is left" soon no_process_is_left
check "a run after kill -9" exits 0 headrace run /tmp/c.conf --pipeline sum
check "verify the store after kill -9" exits 0 headrace store verify -q "$ssd"
as_new nv0

# shellcheck shell=dash disable=SC2154
# The engine of an appliance dies by kill -9 while its controller works: the supervisor sees that the
# controller does not master the bus any more before it starts the next engine, which goes on where the
# sink was durable.
#: run pci machine=ports memory=768 cpus=2
#: run vfio machine=ports_iommu boot=intel_iommu=on memory=768 cpus=2
#: limit 150

case $INSTANCE in
vfio)
    modprobe -a vfio-pci vfio_iommu_type1
    bind "$nv0" vfio-pci
    ssd=vfio:$nv0
    ;;
*) ssd=pci:$nv0 ;;
esac
hugepages 32
mkdir -p /run/headrace

cat >/tmp/c.conf <<X
appliance = { name = "box"; checkpoint = "20ms"; };
ssds = ( { name = "d"; device = "$ssd"; queue_entries = 4; } );
gpus = ( { name = "g"; device = "host:1"; } );
boot = { post = "off"; restarts = 1; backoff = "3s"; };
pipelines = (
    { name = "copy"; source = { object = "in"; }; operator = "copy";
      sink = { object = "out"; }; tile = "4K"; slots = 2; } );
X
dd if=/dev/urandom of=/tmp/in bs=1000 count=12000 2>/dev/null
check "a store is made" exits 0 headrace store format "$ssd"
check "an object is stored" exits 0 headrace store put -q "$ssd" in /tmp/in

masters() {
    [ $((0x$(od -A n -t x1 -j 4 -N 1 "$(pci "$nv0")/config" | tr -d ' ') & 4)) = 4 ]
}
durable() {
    headrace status box --json >/tmp/status && grep -q '"durable_tiles": [1-9]' /tmp/status
}
# field NAME: of the newest status
field() {
    sed "s/.*\"$1\": \\([0-9]*\\).*/\\1/" /tmp/status
}
said() {
    grep -qF -- "$1" /tmp/boot.err
}
# In the pause before the restart: there is no other engine that could have made it so.
silent_in_the_pause() {
    ! masters && [ "$(grep -c ': started$' /tmp/boot.err)" = 1 ]
}

headrace boot /tmp/c.conf >/tmp/boot.out 2>/tmp/boot.err &
supervisor=$!
check "a part of the sink is durable" soon durable
engine=$(field engine_pid)
check "the engine is another process" test "$engine" -gt 0 -a "$engine" != "$supervisor"
check "the controller masters the bus" masters
check "the supervisor has no PCI function open" test -z \
    "$(find /proc/$supervisor/fd -exec readlink {} \; | grep -E 'pci|vfio')"
kill -KILL "$engine"
check "the restart is told" soon said "restart 1 of 1 in 3.0 s"
check "by then the controller is silent" silent_in_the_pause
check "what happened is told" said "engine $engine: ended by signal 9"
check "the status answers meanwhile" headrace status box --json
wait $supervisor
check "the appliance ends well" test $? -eq 0
check "it went on where the sink was durable" said "'copy' resumes at tile"
head -n 40 /tmp/boot.err
check "the copy is read" exits 0 headrace store get -q --force "$ssd" out /tmp/copy
check "and is the same" cmp /tmp/in /tmp/copy
check "the store is sound" exits 0 headrace store verify -q "$ssd"
no_faults() {
    ! dmesg | grep "DMAR: \[DMA"
}
check "no DMA went astray" no_faults

# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash disable=SC2154
# The engine of an appliance dies by kill -9 while its controller works: the supervisor checks that
# the controller no longer masters the bus before it starts the next engine, which continues after
# the durable part of the sink.
#: run pci machine=ports memory=768 cpus=2
#: run vfio machine=ports_iommu boot=intel_iommu=on memory=768 cpus=2
#: limit 400

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
dd if=/dev/urandom of=/tmp/in bs=1000 count=4000 2>/dev/null
check "format the store" exits 0 headrace store format "$ssd"
check "put an object" exits 0 headrace store put -q "$ssd" in /tmp/in

masters() {
    [ $((0x$(od -A n -t x1 -j 4 -N 1 "$(pci "$nv0")/config" | tr -d ' ') & 4)) = 4 ]
}
durable() {
    headrace status box --json >/tmp/status && grep -q '"durable_tiles": [1-9]' /tmp/status
}
# field NAME: print a field of the newest status
field() {
    sed "s/.*\"$1\": \\([0-9]*\\).*/\\1/" /tmp/status
}
said() {
    grep -qF -- "$1" /tmp/boot.err
}
# This is in the pause before the restart, when no other engine can cause this state.
silent_in_the_pause() {
    ! masters && [ "$(grep -c ': started$' /tmp/boot.err)" = 1 ]
}

# The disk is slow until the engine is dead, so that the run cannot end before.
host throttle nv0 100
headrace boot /tmp/c.conf >/tmp/boot.out 2>/tmp/boot.err &
supervisor=$!
check "a part of the sink is durable" soon durable
engine=$(field engine_pid)
check "the engine is another process" test "$engine" -gt 0 -a "$engine" != "$supervisor"
check "the controller masters the bus" masters
check "the supervisor has no PCI function open" test -z \
    "$(find /proc/$supervisor/fd -exec readlink {} \; | grep -E 'pci|vfio')"
kill -KILL "$engine"
host throttle nv0 0
check "the suspension after kill -9 is reported" soon said \
    "pipeline 'copy' is suspended for 3.0 s"
check "the controller does not master the bus in the pause after kill -9" silent_in_the_pause
check "the death by signal 9 is reported" said "engine $engine: ended by signal 9"
check "status answers in the pause" headrace status box --json
wait $supervisor
check "the appliance succeeds after kill -9" test $? -eq 0
check "the run resumes after the durable part of the sink" said "'copy' resumes at tile"
head -n 40 /tmp/boot.err

# The kernel kills the engine for want of memory: SysRq f starts the OOM killer, and oom_score_adj
# makes the kernel choose the engine.
check "remove the sink" exits 0 headrace store rm "$ssd" out
host throttle nv0 100
headrace boot /tmp/c.conf >/tmp/boot.out 2>/tmp/boot.err &
supervisor=$!
check "a part of the new sink is durable" soon durable
engine=$(field engine_pid)
echo 1000 >"/proc/$engine/oom_score_adj"
echo 1 >/proc/sys/kernel/sysrq
echo f >/proc/sysrq-trigger
host throttle nv0 0
check "the suspension after the lack of memory is reported" soon said \
    "pipeline 'copy' is suspended for 3.0 s"
check "the controller does not master the bus in the pause after the lack of memory" silent_in_the_pause
check "the lack of memory is reported" said \
    "engine $engine: ended by signal 9 (Killed), the kernel was out of memory; it ran: pipeline 'copy'"
wait $supervisor
check "the appliance succeeds after the lack of memory" test $? -eq 0
check "get the copy" exits 0 headrace store get -q --force "$ssd" out /tmp/copy
check "the copy equals the source" cmp /tmp/in /tmp/copy
check "verify the store" exits 0 headrace store verify -q "$ssd"
no_faults() {
    ! dmesg | grep "DMAR: \[DMA"
}
check "the IOMMU reports no DMA fault" no_faults

# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash disable=SC2154
# An emulated SSD writes to and reads from a BAR that stands for GPU memory: by physical addresses
# and through VFIO, with queues in host memory and in the BAR. The host checks the bytes of the BAR
# from outside. Where the topology forbids the direct path, tiles bounce, or a required direct path
# is refused.
#: run switch machine=switch memory=768 cpus=2
#: run switch_queues machine=switch memory=768 cpus=2
#: run pt machine=switch_iommu boot="intel_iommu=on iommu=pt" memory=768 cpus=2
#: run vfio machine=switch_iommu boot=intel_iommu=on cpu=EPYC,-hypervisor memory=768 cpus=2
#: run vfio_queues machine=ports_iommu boot=intel_iommu=on cpu=EPYC,-hypervisor memory=768 cpus=2
#: run two_ssds machine=nested memory=768 cpus=2
#: run ports machine=ports memory=768 cpus=2
#: restores

in=pci:$nv0 out=pci:$nv0 queues=host
case $INSTANCE in
vfio*)
    modprobe -a vfio-pci vfio_iommu_type1
    bind "$nv0" vfio-pci
    in=vfio:$nv0 out=vfio:$nv0
    ;;
two_ssds) out=pci:$nv1 ;;
esac
case $INSTANCE in *_queues) queues=gpu ;; esac
hugepages 48

# conf PATH QUEUES [DEVICE]: a sum, and a copy from the first ssd to the second
conf() {
    {
        echo 'appliance = { log = "info"; };'
        echo "ssds = ( { name = \"a\"; device = \"$in\"; queue_entries = 64; }"
        [ "$in" = "$out" ] || echo ", { name = \"b\"; device = \"$out\"; queue_entries = 64; }"
        echo ');'
        echo "gpus = ( { name = \"g\"; device = \"${3:-host:2,bar=$gpu0}\"; } );"
        echo "memory = { path = \"$1\"; queues = \"$2\"; };"
        sink=a
        [ "$in" = "$out" ] || sink=b
        cat <<X
pipelines = (
    { name = "sum"; source = { ssd = "a"; object = "in"; }; operator = "crc32c"; tile = "256K";
      slots = 4; },
    { name = "copy"; source = { ssd = "a"; object = "in"; }; operator = "copy";
      sink = { ssd = "$sink"; object = "out"; replace = true; }; tile = "256K"; slots = 4; }
);
X
    } >/tmp/c.conf
}

no_faults() {
    ! dmesg | grep "DMAR: \[DMA"
}

# The end of the last complete tile is still in its slot in the BAR, where the host reads it.
# 5,000,000 bytes are 19 tiles and 19,264 bytes; the last bytes may overwrite the start of that slot.
tile_in_bar() {
    sum=$(dd if=/tmp/in bs=65536 skip=73 count=3 2>/dev/null | sha256sum | cut -d ' ' -f 1)
    host find gpu0 "$sum" 196608 4096 2097152
}

dd if=/dev/urandom of=/tmp/in bs=1000 count=5000 2>/dev/null
check "format the store" exits 0 headrace store format "$in"
[ "$in" = "$out" ] || check "and another" exits 0 headrace store format "$out"
check "put an object" exits 0 headrace store put -q "$in" in /tmp/in

if [ "$INSTANCE" = ports ]; then
    conf auto host
    check "check accepts a root complex that is not listed" exits 0 headrace check /tmp/c.conf
    check "check names bounce and the verdict RC_UNLISTED" says "bounce, RC_UNLISTED by rule"
    check "a run over a root complex that is not listed" exits 0 headrace run /tmp/c.conf
    check "the run uses host memory" says "host memory (bounce)"
    conf direct host
    check "a required direct path is refused" exits 3 headrace run /tmp/c.conf
    check "the error of a required direct path names the remedy" warns "headrace topo --explain $gpu0 $nv0"
    conf auto gpu
    check "required queues in GPU memory are refused" exits 3 headrace run /tmp/c.conf
    check "the error of required queues names memory.queues" warns 'memory.queues is "gpu"'
else
    conf direct $queues
    check "check of a direct path" exits 0 headrace check /tmp/c.conf
    check "check names direct and the rule" says "direct, "
    check "pipelines run" exits 0 headrace run /tmp/c.conf
    check "the run uses GPU memory directly" says "direct (GPU memory)"
    check "host memory is proven by a loopback" warns "loopback through host memory of gpu 'g' proven"
    check "GPU memory is proven by a loopback" warns "loopback through gpu memory of gpu 'g' proven"
    check "get the copy" exits 0 headrace store get -q --force "$out" out /tmp/copy
    check "the copy equals the source" cmp /tmp/in /tmp/copy
    check "verify the store" exits 0 headrace store verify -q "$out"
    check "the host finds the tile in the BAR" tile_in_bar
    conf bounce host
    check "a run with the path bounce" exits 0 headrace run /tmp/c.conf
    check "the run with the path bounce uses host memory" says "host memory (bounce)"
    conf direct host "host:2,bar=$gpu0/0"
    check "a BAR that is too small" exits 3 headrace run /tmp/c.conf
    check "the error of a BAR that is too small names the BAR" warns "the BAR of $gpu0 has"
    conf direct host "host:2,bar=$gpu0/1"
    check "a missing BAR" exits 3 headrace run /tmp/c.conf
    check "the error of a missing BAR names the BAR" warns "BAR1 is missing"
    conf direct host host:2
    check "a run without GPU memory" exits 3 headrace run /tmp/c.conf
    check "the IOMMU reports no DMA fault" no_faults
fi
case $INSTANCE in
two_ssds) as_new nv0 nv1 ;;
*) as_new nv0 ;;
esac

# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash disable=SC2154
# One namespace behind two controllers of a subsystem. Both in one configuration are an error with
# two lines, detected by the EUI64 of the namespace or, without an identifier, by SUBNQN and NSID.
# Two processes, each with its own controller, lose no acknowledged data.
#: run pci machine=dual_port boot=intel_iommu=off memory=768
#: run vfio machine=dual_port_iommu boot=intel_iommu=on memory=768
#: run mixed machine=dual_port_iommu boot="intel_iommu=on iommu=pt" memory=768
#: limit 150

disk_sum() {
    host sum n1 0 67108864
}

# mistake COMMAND: both lines and the shared namespace are named, and the disk does not change
mistake() {
    mistake_before=$(disk_sum)
    exits 2 headrace "$1" /tmp/two.conf && warns "/tmp/two.conf:3: ssd 'b'" && warns "line 2" &&
        warns "are the same disk: both report the same $same of a namespace that several" &&
        [ "$(disk_sum)" = "$mistake_before" ]
}

# put_from_fifo: start a put of 1 MiB by the first controller; the object is in the map, and the put
# waits for data
put_from_fifo() {
    mkfifo /tmp/fifo
    headrace store put --size 1M "$a" slow - </tmp/fifo >/tmp/put.log 2>&1 &
    put=$!
    exec 4>/tmp/fifo
    echo part >&4
}

first_has_begun() {
    headrace store ls --json "$b" 2>/dev/null | grep -q slow
}

a=pci:$nv0 b=pci:$nv1 same="SUBNQN and NSID"
[ "$INSTANCE" != pci ] || same=EUI64
hugepages 32
if [ "$INSTANCE" != pci ]; then
    modprobe -a vfio-pci vfio_iommu_type1
    bind "$nv1" vfio-pci
    b=vfio:$nv1
fi
if [ "$INSTANCE" = vfio ]; then
    bind "$nv0" vfio-pci
    a=vfio:$nv0
fi
cat >/tmp/two.conf <<EOT
ssds = (
    { name = "a"; device = "$a"; },
    { name = "b"; device = "$b"; } );
gpus = ( { name = "g"; device = "host:2"; } );
pipelines = ( { name = "p"; source = { ssd = "a"; object = "lib"; }; operator = "copy";
    sink = { ssd = "b"; object = "lib.copy"; }; tile = "4K"; slots = 2; } );
EOT

check "format through the first controller" exits 0 headrace store format "$a"
check "put through the first controller" exits 0 headrace store put "$a" lib /lab/lib.sh
check "get through the second controller" exits 0 headrace store get "$b" lib /tmp/lib
check "the object is the same through both controllers" cmp /lab/lib.sh /tmp/lib
check "check names both lines" mistake check
check "run names both lines" mistake run
sed 's/^    { name = "b"; .*/);/; s/^    { name = "a".*},$/{ name = "a"; device = "'"$a"'"; }/; s/ssd = "b"/ssd = "a"/' \
    /tmp/two.conf >/tmp/one.conf
check "a run with one of the two controllers works" exits 0 headrace run /tmp/one.conf

put_from_fifo
check "a put through the first controller has begun" soon first_has_begun
check "meanwhile a put through the second controller" exits 0 headrace store put "$b" quick /lab/lib.sh
head -c 1048571 /dev/zero >&4 # with the line above, 1 MiB
exec 4>&-
wait $put
code=$?
cat /tmp/put.log
check "the first put ends with an error and does not overwrite the map" test $code = 1
check "the error of the first put names the other writer" grep -q "another process or machine writes to this disk" /tmp/put.log
check "get the object of the second put" exits 0 headrace store get --force "$a" quick /tmp/lib
check "the object of the second put is exact" cmp /lab/lib.sh /tmp/lib
check "get the copy of the run" exits 0 headrace store get --force "$b" lib.copy /tmp/lib
check "the copy of the run is exact" cmp /lab/lib.sh /tmp/lib
check "verify the store" exits 0 headrace store verify "$a"

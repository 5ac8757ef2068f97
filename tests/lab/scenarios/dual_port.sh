# shellcheck shell=dash disable=SC2154
# One namespace behind two controllers of a subsystem. Both in one configuration are a mistake of two
# lines, by the EUI64 of the namespace or, where it has no identifier, by SUBNQN and NSID. Two
# processes, each with a controller of its own, lose nothing that was acknowledged.
#: run pci machine=dual_port boot=intel_iommu=off memory=768
#: run vfio machine=dual_port_iommu boot=intel_iommu=on memory=768
#: run mixed machine=dual_port_iommu boot="intel_iommu=on iommu=pt" memory=768
#: limit 150

disk_sum() {
    host sum n1 0 67108864
}

# mistake COMMAND: both lines and the namespace they share are named, and the disk is as it was
mistake() {
    mistake_before=$(disk_sum)
    exits 2 headrace "$1" /tmp/two.conf && warns "/tmp/two.conf:3: ssd 'b'" && warns "line 2" &&
        warns "are the same disk: both report the same $same of a namespace that several" &&
        [ "$(disk_sum)" = "$mistake_before" ]
}

# put_from_fifo: a put of 1 MiB by the first controller that has its object in the map and waits for data
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

check "format through the first" exits 0 headrace store format "$a"
check "put through the first" exits 0 headrace store put "$a" lib /lab/lib.sh
check "get through the second" exits 0 headrace store get "$b" lib /tmp/lib
check "it is the same" cmp /lab/lib.sh /tmp/lib
check "check: both lines are named" mistake check
check "run: both lines are named" mistake run
sed 's/^    { name = "b"; .*/);/; s/^    { name = "a".*},$/{ name = "a"; device = "'"$a"'"; }/; s/ssd = "b"/ssd = "a"/' \
    /tmp/two.conf >/tmp/one.conf
check "one of the two alone works" exits 0 headrace run /tmp/one.conf

put_from_fifo
check "a put through the first has begun" soon first_has_begun
check "meanwhile a put through the second" exits 0 headrace store put "$b" quick /lab/lib.sh
head -c 1048571 /dev/zero >&4 # with the line above, 1 MiB
exec 4>&-
wait $put
code=$?
cat /tmp/put.log
check "the first ends with an error, not over the map of the second" test $code = 1
check "and says why" grep -q "another process or machine writes to this disk" /tmp/put.log
check "what the second acknowledged is there" exits 0 headrace store get --force "$a" quick /tmp/lib
check "and whole" cmp /lab/lib.sh /tmp/lib
check "so is the copy" exits 0 headrace store get --force "$b" lib.copy /tmp/lib
check "and as it was" cmp /lab/lib.sh /tmp/lib
check "the store has no faults" exits 0 headrace store verify "$a"

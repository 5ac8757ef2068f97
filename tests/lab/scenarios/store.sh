# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash disable=SC2154
# The object store on an emulated SSD, by physical addresses and through VFIO, with blocks of 512
# and 4096 bytes, with small transfers and with a controller memory buffer; store.after.py reads the
# disk images on the host with the software controller and computes the expected results.
#: run pci machine=two_ssds boot=intel_iommu=off
#: run pci_small machine=small_mdts boot=intel_iommu=off
#: run pci_cmb machine=cmb boot=intel_iommu=off
#: run vfio machine=one_group boot=intel_iommu=on
#: run pt machine=one_group boot="intel_iommu=on iommu=pt"

cat >/tmp/pipe.conf <<EOT
ssds = ( { name = "in"; device = "%IN%"; }, { name = "out"; device = "%OUT%"; } );
gpus = ( { name = "gpu0"; device = "host:2"; } );
pipelines = (
    { name = "copy"; source = { object = "numbers"; ssd = "in"; }; operator = "copy";
      sink = { object = "numbers.copy"; ssd = "out"; }; tile = "64K"; slots = 4; },
    { name = "sum"; source = { object = "numbers"; ssd = "in"; }; operator = "crc32c";
      tile = "32K"; slots = 4; },
    { name = "cast"; source = { object = "other"; ssd = "in"; }; operator = "cast_f32_bf16";
      sink = { object = "other.bf16"; ssd = "out"; }; tile = "128K"; slots = 2; } );
EOT

on() {
    transport=$1 in=$2 out=$3
    sed "s/%IN%/$transport:$in/; s/%OUT%/$transport:$out/" /tmp/pipe.conf >/tmp/run.conf
    if [ "$in" = "$out" ]; then
        sed -i 's/, { name = "out".*}/ /; s/ssd = "out"/ssd = "in"/' /tmp/run.conf
    fi
    for ssd in $in $out; do
        check "format $transport:$ssd" exits 0 headrace store format "$transport:$ssd" --force
    done
    check "put" exits 0 headrace store put "$transport:$in" numbers /data/numbers
    check "put another object" exits 0 headrace store put "$transport:$in" other /data/other
    check "get" exits 0 headrace store get --force "$transport:$in" numbers /tmp/back
    check "the object is exact" cmp /data/numbers /tmp/back
    check "put a third object" exits 0 headrace store put "$transport:$in" third /data/other
    check "remove the third object" exits 0 headrace store rm "$transport:$in" third
    check "check" exits 0 headrace check /tmp/run.conf
    check "run" exits 0 headrace run --json /tmp/run.conf
    cp /tmp/out /tmp/run.json
    check "verify" exits 0 headrace store verify "$transport:$out"
    give run.json /tmp/run.json
}

hugepages 64
case $INSTANCE in
pci) on pci "$nv0" "$nv1" ;;
pci_small) on pci "$nv0" "$nv0" ;;
pci_cmb)
    check "the controller memory buffer is BAR 2" \
        test "$(stat -c %s "$(pci "$nv0")/resource2")" = 16777216
    on pci "$nv0" "$nv0"
    ;;
vfio | pt)
    modprobe -a vfio-pci vfio_iommu_type1
    bind "$nv0" vfio-pci
    bind "$nv1" vfio-pci
    on vfio "$nv0" "$nv1"
    ;;
esac

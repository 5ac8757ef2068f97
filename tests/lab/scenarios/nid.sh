# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash disable=SC2154
# Two different disks whose controllers report the same EUI64, as about forty models do: two disks, with a
# warning. The same disk through two controllers: dual_port.sh.
#: run machine=nid boot=intel_iommu=off memory=768

hugepages 64
head -c 1000000 /dev/urandom >/tmp/d
check "format the first disk" exits 0 headrace store format "pci:$nv0"
check "put" exits 0 headrace store put "pci:$nv0" w /tmp/d
check "format the second disk" exits 0 headrace store format "pci:$nv1"
cat >/tmp/c.conf <<EOT
ssds = ( { name = "a"; device = "pci:$nv0"; }, { name = "b"; device = "pci:$nv1"; } );
gpus = ( { name = "g"; device = "host:1"; } );
pipelines = ( { name = "p"; source = { ssd = "a"; object = "w"; }; operator = "copy"; sink = { ssd = "b"; object = "out"; }; } );
EOT
check "check accepts both" exits 0 headrace check /tmp/c.conf
check "and warns of the identifier" warns "report the same EUI64, but cannot be one disk"
check "the pipeline copies from one disk to the other" exits 0 headrace run /tmp/c.conf
check "get the copy" exits 0 headrace store get "pci:$nv1" out /tmp/copy
check "the copy is exact" cmp /tmp/d /tmp/copy

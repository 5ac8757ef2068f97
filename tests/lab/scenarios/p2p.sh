# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash disable=SC2154
# Every byte of a pipeline that reads and writes through GPU memory is counted in QEMU, where the
# controller moves it: all bytes go to and from the BAR, and none through host memory, from which a
# CPU would have to copy it. p2p.after.py counts the bytes, and compares contents on the host.
#: run direct machine=switch memory=768 cpus=2
#: run bounce machine=switch memory=768 cpus=2
#: trace pci_nvme_read pci_nvme_write pci_nvme_map_addr

hugepages 48
cat >/tmp/c.conf <<X
ssds = ( { name = "a"; device = "pci:$nv0"; queue_entries = 64; } );
gpus = ( { name = "g"; device = "host:2,bar=$gpu0"; } );
memory = { path = "$INSTANCE"; };
pipelines = (
    { name = "sum"; source = { object = "in"; }; operator = "crc32c"; tile = "256K"; slots = 4; },
    { name = "copy"; source = { object = "in"; }; operator = "copy";
      sink = { object = "out"; }; tile = "256K"; slots = 4; } );
X
check "pipelines run" exits 0 headrace run /tmp/c.conf --json
give run.json /tmp/out
sed -n 3p "$(pci "$gpu0")/resource" >/tmp/bar
give bar /tmp/bar

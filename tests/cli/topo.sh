#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# headrace topo on small captures: exit codes, formats, requirements, bad input.
# Environment: HEADRACE, the binary under test; SCRATCH, an empty folder.
# shellcheck disable=SC2317,SC2016  # called through check; inner shells expand
set -uo pipefail
# shellcheck source=tests/cli/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"
# shellcheck source=tests/cli/lib/topo.sh
. "$(dirname "$0")/lib/topo.sh"

# view_holds PYTHON_CONDITION ARGUMENTS...: the JSON document d of a view satisfies it
view_holds() {
    local condition=$1
    shift
    "$HEADRACE" topo --json "$@" >"$SCRATCH/view.json"
    json_holds "$SCRATCH/view.json" d "bool($condition)" || { cat "$SCRATCH/view.json"; return 1; }
}

# port ADDRESS PRIMARY SECONDARY SUBORDINATE TYPE ACSCTL
port() {
    printf '%s PCI bridge [0604]: Switch [10b5:8796]\n' "$1"
    printf '\tControl: I/O+ Mem+ BusMaster+ SpecCycle-\n\tStatus: Cap+ 66MHz-\n'
    printf '\tBus: primary=%s, secondary=%s, subordinate=%s, sec-latency=0\n' "$2" "$3" "$4"
    printf '\tMemory behind bridge: %s\n\tPrefetchable memory behind bridge: %s\n' "$7" "$8"
    printf '\tCapabilities: [40] Power Management version 3\n\t\tStatus: D0 NoSoftRst+\n'
    printf '\tCapabilities: [68] Express (v2) %s, MSI 00\n' "$5"
    printf '\t\tDevCap:\tMaxPayload 512 bytes\n\t\t\tMaxPayload 256 bytes, MaxReadReq 512 bytes\n'
    printf '\t\tLnkCap:\tPort #0, Speed 16GT/s, Width x16\n\t\tLnkSta:\tSpeed 16GT/s (ok), Width x16 (ok)\n'
    printf '\tCapabilities: [100 v1] Access Control Services\n'
    printf '\t\tACSCap:\tSrcValid+ TransBlk+ ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans+\n'
    printf '\t\tACSCtl:\t%s\n\n' "$6"
}

# endpoint ADDRESS TITLE REGION DRIVER
endpoint() {
    printf '%s %s\n\tControl: I/O+ Mem+ BusMaster+ SpecCycle-\n\tStatus: Cap+ 66MHz-\n' "$1" "$2"
    printf '\t%s\n\tCapabilities: [40] Power Management version 3\n\t\tStatus: D0 NoSoftRst+\n' "$3"
    printf '\tCapabilities: [68] Express (v2) Endpoint, MSI 00\n'
    printf '\t\tDevCap:\tMaxPayload 512 bytes\n\t\t\tMaxPayload 256 bytes, MaxReadReq 512 bytes\n'
    printf '\t\tLnkCap:\tPort #0, Speed 16GT/s, Width x4\n\t\tLnkSta:\tSpeed 16GT/s (ok), Width x4 (ok)\n'
    printf '\tCapabilities: [100 v1] Advanced Error Reporting\n\tKernel driver in use: %s\n\n' "$4"
}

# machine ACSCTL: GPU and NVMe behind one switch
machine() {
    local none="SrcValid- TransBlk- ReqRedir- CmpltRedir- UpstreamFwd- EgressCtrl- DirectTrans-"
    local mem=e0000000-e0ffffff pref=38000000000-383ffffffff
    printf '00:00.0 Host bridge [0600]: Host [8086:1234]\n\n'
    port 00:01.0 00 01 04 'Root Port (Slot+)' "$none" $mem $pref
    port 01:00.0 01 02 04 'Upstream Port' "$none" $mem $pref
    port 02:00.0 02 03 03 'Downstream Port (Slot+)' "$1" None $pref
    port 02:01.0 02 04 04 'Downstream Port (Slot+)' "$none" $mem None
    endpoint 03:00.0 '3D controller [0302]: NVIDIA Corporation Card [10de:20b0]' \
        'Region 1: Memory at 38000000000 (64-bit, prefetchable) [size=16G]' nvidia
    endpoint 04:00.0 'Non-Volatile memory controller [0108]: Disk [144d:a80a]' \
        'Region 0: Memory at e0000000 (64-bit, non-prefetchable) [size=16K]' nvme
}

cd "$SCRATCH" || exit 1
clear="SrcValid+ TransBlk- ReqRedir- CmpltRedir- UpstreamFwd- EgressCtrl- DirectTrans-"
set="SrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-"
machine "$clear" >direct.txt
machine "$set" >redirected.txt
sed 's/Capabilities: \[40\].*/Capabilities: <access denied>/' direct.txt |
    grep -vE $'\t\t|\\[68\\]|\\[100' >denied.txt
printf '00:00.0 x\n00: 86 8z\n' >malformed.txt
printf '00:00.0 Host bridge: x\n' >lonely.txt
endpoint 04:00.0 'Non-Volatile memory controller [0108]: Disk [144d:a80a]' \
    'Region 0: Memory at e0000000 (64-bit, non-prefetchable) [size=16K]' nvme |
    sed 's/Width x4 (ok)/Width x2 (downgraded)/' >lonely_disk.txt

check "a direct pair exits 0" exits 0 --from direct.txt
check "a redirected pair exits 2" exits 2 --from redirected.txt
check "access denied exits 5" exits 5 --from denied.txt
check "access denied is reported with the advice to run as root" says "run as root" --from denied.txt
check "no pair exits 6" exits 6 --from lonely.txt
check "malformed input exits 65" exits 65 --from malformed.txt
check "malformed input names its line" says "line 2" --from malformed.txt
check "a missing file exits 65" exits 65 --from absent.txt
check "an unknown option exits 64" exits 64 --nonsense
check "an unknown format exits 64" exits 64 --from direct.txt --format png
check "standard input is a source" bash -c '"$1" topo --from - <direct.txt' _ "$HEADRACE"
check "a capture is the argument" exits 0 direct.txt
check "- as the argument is standard input" bash -c '"$1" topo - --all <direct.txt' _ "$HEADRACE"
check "the argument may stand before a view" says 'ACSCtl 0x001d' redirected.txt --explain GPU0 NVME0
check "the argument may stand after a view" says 'ACSCtl 0x001d' --explain GPU0 NVME0 redirected.txt
check "an argument beside --from exits 64" exits 64 --from direct.txt redirected.txt
check "a second argument exits 64" exits 64 direct.txt redirected.txt
check "an argument that is no file exits 65" exits 65 absent.txt
check "the first line is the answer" bash -c '"$1" topo --from direct.txt | head -n 1 |
    grep -x "1 pair shares a switch: 1 DIRECT"' _ "$HEADRACE"
check "the headline names the pair" says '^GPU0 with NVME0 \(1 pair\):$' --from direct.txt
check "the headline states the data flow and the rate" says 'share a switch: data goes direct; [0-9.]+ GB/s' --from direct.txt
check "the headline names rule, kernel verdict and distance" says 'DIRECT, rule R1, kernel BUS_ADDR, PIX' --from direct.txt
check "the headline of a redirected pair names the remedy" says '1 setpci command, or pci=disable_acs_redir=0000:02:00.0' \
    --from redirected.txt
check "--all lists each pair" says 'GPU0 to NVME0: DIRECT \(rule R1\)' --from direct.txt --all
check "the matrix shows distance and verdict" says 'PIX +DIRECT' --from direct.txt --format matrix
check "the kernel's verdict is printed beside headrace's verdict" says 'kernel NOT_SUPPORTED' --from redirected.txt
check "the explanation shows the control register" \
    says 'ACSCtl 0x001d' --from redirected.txt --explain GPU0 NVME0
check "the explanation lists rules that are ruled out" \
    says '(^ruled out:|^ ).* R3,' --from direct.txt --explain 03:00.0 04:00.0
check "an unknown function exits 64" exits 64 --from direct.txt --explain GPU1 NVME0
check "a pair of a function with itself exits 64" exits 64 --from direct.txt --explain GPU0 03:00.0
check "a bridge as the end of a pair exits 64" exits 64 --from direct.txt --explain GPU0 02:01.0
check "a single card is evaluated alone" says '^H1-width .*link is x2 of x4' --from lonely_disk.txt
check "a met requirement exits 0" \
    exits 0 --from direct.txt --require 'gpu=*,nvme=*:DIRECT'
check "an unmet requirement exits with the code of the verdict" \
    exits 2 --from redirected.txt --require 'gpu=GPU0,nvme=0000:04:00.0:DIRECT'
check "a lower requirement is met" \
    exits 0 --from redirected.txt --require 'gpu=*,nvme=*:RC_UNLISTED'
check "a requirement without a pair exits 6" \
    exits 6 --from direct.txt --require 'gpu=GPU7,nvme=*:DIRECT'
check "a malformed requirement exits 64" exits 64 --from direct.txt --require 'gpu=*:GOOD'
check "the fix names the port" says 'pci=disable_acs_redir=0000:02:00.0' --from redirected.txt --fix
check "the fix lists clearing commands under now and restoring commands under undo" bash -c '
    "$1" topo --from redirected.txt --fix | grep -A 1 -E "^(now|undo):" | grep -o "=[0-9a-f]*:[0-9a-f]*$" |
        cmp - <(printf "=0:2c\n=c:2c\n")' _ "$HEADRACE"
check "the fix lists the undo command" says 'ECAP_ACS\+6.w=c:2c' --from redirected.txt --fix
check "a fix of a capture is not applied" exits 8 --from redirected.txt --fix --apply
{ echo 'headrace: lockdown=integrity'; cat redirected.txt; } >locked.txt
check "the fix under lockdown proposes the boot parameter" \
    says 'pci=disable_acs_redir=0000:02:00.0' --from locked.txt --fix
check "the fix under lockdown reports that setpci is refused" says 'lockdown \(integrity\) refuses setpci' --from locked.txt --fix
check "the fix under lockdown proposes no setpci command" bash -c '! "$1" topo --from locked.txt --fix | grep -E "^ +setpci"' _ "$HEADRACE"
check "--apply alone is wrong usage" exits 64 --from redirected.txt --apply
check "what-if clears redirect" \
    says 'REDIRECTED\+RC_UNLISTED -> DIRECT' --from redirected.txt --what-if acs:all=clear
# A card that the user names as a GPU stays one when verdicts are computed again.
sed 's/3D controller \[0302\]/RAM memory [0500]/' redirected.txt >memory.txt
check "a memory card is not a GPU" exits 6 --from memory.txt
check "--gpu makes a memory card a GPU" exits 2 --from memory.txt --gpu 03:00.0
check "what-if keeps the cards that the user named" \
    says 'REDIRECTED\+RC_UNLISTED -> DIRECT' --from memory.txt --gpu 03:00.0 --what-if acs:all=clear
check "--fix keeps the cards that the user named" exits 0 --from memory.txt --gpu 03:00.0 --fix
check "--baseline keeps the cards that the user named" exits 7 --from memory.txt --gpu 03:00.0 --baseline direct.txt
check "what-if turns the IOMMU on" \
    says 'SILENT_LOSS' --from redirected.txt --what-if iommu=on
check "the same machine is its own baseline" exits 0 --from direct.txt --baseline direct.txt
check "a changed ACS register differs from the baseline" \
    exits 7 --from redirected.txt --baseline direct.txt
check "the baseline names register and verdict" \
    says '02:00.0: acs_ctl 0x0001 -> 0x001d' --from redirected.txt --baseline direct.txt
check "the baseline counts the differences" says '^2 differences from direct.txt' \
    --from redirected.txt --baseline direct.txt
# Linux sets ACS in a boot with an IOMMU. The registers of a machine without one, or after setpci,
# differ from those after such a boot.
{ echo 'headrace: cmdline=pci=disable_acs_redir=00:01.0'; cat direct.txt; } >open.txt
{ echo 'headrace: iommu=2'; cat direct.txt; } >cleared.txt
{ echo 'headrace: iommu=1'; cat direct.txt; } >off.txt
{ echo 'headrace: kernel=4.18.0-305.el8'; cat redirected.txt; } >old.txt
{ echo 'headrace: kernel=5.15.0-91-generic'; cat redirected.txt; } >newer.txt
check "groups name the function that keeps VFIO out" \
    says 'VFIO cannot open the predicted group because of 0000:03:00.0 \(driver' --from open.txt --groups
check "groups do not state real groups that were not read" bash -c \
    '! "$1" topo --from direct.txt --groups | grep "real group"' _ "$HEADRACE"
check "a boot with an IOMMU isolates what is direct now" \
    says 'NVME0 .*VFIO can open the predicted group' --from direct.txt --groups
check "groups report that a boot with an IOMMU redirects the pair" \
    says 'redirect is off now: direct; a boot with an IOMMU sets it' --from direct.txt --groups
check "groups report that ACS was cleared since the boot" \
    says 'isolates less now: 2 groups; such a boot sets it' --from off.txt --groups
check "what-if of an IOMMU redirects a direct pair" \
    says 'DIRECT -> REDIRECTED\+RC_UNLISTED' --from off.txt --what-if iommu=pt
check "what-if of a boot with disable_acs_redir keeps a direct pair direct" says '^0 of 1 pairs change' \
    --from off.txt --what-if 'boot=intel_iommu=on iommu=pt pci=disable_acs_redir=01:00.0;02:00.0;02:01.0'
check "what-if describes the machine after the boot" \
    says '^after that boot: IOMMU passthrough; ACS redirects at 4 functions' --from off.txt --what-if iommu=pt
check "what-if of iommu=off assumes the ACS settings of the firmware" \
    says 'acs-assumed' --from redirected.txt --iommu pt --what-if iommu=off --json
check "mode vfio reports that an IOMMU redirects the pair" says '^ *A18 .*sets ACS redirect' --from off.txt --mode vfio
check "a warning says that the next boot restores cleared registers" \
    says '^ +0000:02:00.0;0000:02:01.0;.*: the pair is redirected then' --from cleared.txt
check "the fix of cleared registers proposes the boot parameter" \
    says 'pci=disable_acs_redir=0000:02:00.0;0000:02:01.0' --from cleared.txt --fix
check "the fix reports the first kernel with the boot parameter" says 'came with 4.19' --from old.txt --fix
check "config_acs is proposed only for kernels with config_acs" bash -c \
    '! "$1" topo --from newer.txt --fix | grep "pci=config_acs"' _ "$HEADRACE"
check "the boot as JSON" view_holds 'd["boot"] == {"iommu": "passthrough", "functions_redirecting": 4}' \
    --from off.txt --what-if iommu=pt
check "a fix without changes reports that no change helps" \
    says '^no ACS change would help: no pair shares a switch' --from direct.txt --fix
check "groups report isolation by redirect" \
    says 'redirect is on: isolated' --from redirected.txt --groups
check "groups report that ACS was not read" \
    says 'ACS of the ports between them was not read' --from denied.txt --groups
check "groups report that VFIO is unknown without ACS" says 'whether VFIO can open it is not known' --from denied.txt --groups
check "the fix reports that ACS was not read" says 'ACS of their ports was not read' --from denied.txt --fix
check "the rule table as JSON" exits 0 --rules --json
check "the rule table is complete" says '^H8 .*CONFIG_PCI_P2PDMA' --rules
# Software that a path of the hardware needs: product line, drivers, file systems.
sed 's/NVIDIA Corporation Card \[10de:20b0\]/NVIDIA Corporation AD102 [GeForce RTX 4090] [10de:2684]/' direct.txt >geforce.txt
{
    printf 'headrace: %s\n' nvidia=570.86.10 nvidia_open=1 multipath=1 kernel=6.8.0 'nvidia_fs=not loaded'
    sed 's/NVIDIA Corporation Card/NVIDIA Corporation GH100 [H100 PCIe]/' direct.txt
} >hopper.txt
check "DIRECT of a consumer card is degraded" exits 1 --from geforce.txt
check "the degraded verdict of a consumer card is explained" says 'consumer card: NVIDIA supports GPUDirect' --from geforce.txt
check "software has a row per requirement" says 'nvme multipath +no +on' --from hopper.txt --software
check "software rows name the remedy" says 'options nvme_core multipath=N' --from hopper.txt --software
check "the missing requirement of cuFile is named" says 'P2PDMA mode' --from hopper.txt
check "an explanation has the software rows" says 'driver +yes +NVIDIA 570.86.10, open' --from hopper.txt --explain GPU0 NVME0
check "software as JSON" view_holds \
    '{"what": "product line", "met": "yes", "found": "data center or professional"} in
    d["gpus"][0]["requirements"] and d["nvmes"][0]["requirements"][0]["met"] == "no"' \
    --from hopper.txt --software
check "a plan assigns the disk" says 'GPU0 +NVME0 +[0-9.]+ GB/s' --from direct.txt --plan
check "a plan has rates now and after the fix" \
    says 'GPU0 +NVME0 +[0-9.]+ GB/s +after --fix +6.95 ' --from redirected.txt --plan
check "a plan has the sum of rates now and after the fix" says '^sum [0-9.]+ GB/s, after --fix 6.95 GB/s' --from redirected.txt --plan
check "a plan without a useful fix prints no rates after a fix" bash -c '! "$1" topo --from direct.txt --plan |
    grep -i "after --fix"' _ "$HEADRACE"
check "--bandwidth prints rates now and after the fix" says '^all pairs at once: [0-9.]+ GB/s, after --fix 6.95' \
    --from redirected.txt --bandwidth
check "a plan as JSON has rates now and after the fix" view_holds \
    'd["gb_per_s_after_fix"] >= d["gb_per_s"] > 1 and not d["upper_bound"] and
    d["assignment"][0]["gb_per_s_after_fix"] > 6 and d["exit_code"] == 2' --from redirected.txt --plan
# Redirect at the GPU's port affects reads by the SSD: their completions pass that port.
check "--bandwidth as JSON has rates now and after the fix" view_holds \
    'all(s["gb_per_s_after_fix"] > s["gb_per_s"] > 1 for s in d["from_gpu"]["together"])' \
    --from redirected.txt --bandwidth
check "rates name their limit" \
    says 'limited by link of 0000:0[34]:00.0' --from direct.txt --bandwidth
check "a capture is written" exits 0 --from redirected.txt --capture copy.txt
check "a capture does not overwrite an existing file" exits 66 --from redirected.txt --capture copy.txt
check "the error of an existing capture file names the cause" says 'exists already' --from redirected.txt --capture copy.txt
check "a capture with --force overwrites an existing file" exits 0 --from redirected.txt --capture copy.txt --force
check "--force without a capture exits 64" exits 64 --from redirected.txt --force
check "a written capture gives the same verdict" exits 2 --from copy.txt
check "the tree marks the path" \
    says '\* 0000:02:00.0' --from direct.txt --ascii --format tree --explain GPU0 NVME0
check "DOT has both cards" says 'label="0000:03:00.0.nGPU0' --from direct.txt --format dot
check "JSON is one object" bash -c '"$1" topo --from direct.txt --json |
    python3 -c "import json,sys; d=json.load(sys.stdin); assert (d[\"schema\"], d[\"version\"]) == (\"headrace.topo\", 1)
assert d[\"pairs\"][0][\"verdict\"] == \"DIRECT\" and d[\"exit_code\"] == 0"' _ "$HEADRACE"
check "the fix as JSON has commands, undo and prediction" view_holds \
    'd["view"] == "fix" and d["ports"] == ["0000:02:00.0"] and d["pairs_redirected"] == 1 and
    d["undo"] == ["setpci -s 0000:02:00.0 ECAP_ACS+6.w=c:2c"] and
    d["pairs"][0]["verdict"] == "DIRECT" and d["exit_code"] == 0' --from redirected.txt --fix
check "under lockdown the fix as JSON has no commands" view_holds \
    'd["lockdown"] == "integrity" and d["setpci"] == [] == d["undo"] and
    d["ports"] == ["0000:02:00.0"]' --from locked.txt --fix
check "a refused fix as JSON has exit code 8" view_holds 'd["exit_code"] == 8' \
    --from redirected.txt --fix --apply
check "a fix without changes as JSON has an empty list of ports" view_holds 'd["ports"] == []' --from direct.txt --fix
check "what-if as JSON has verdicts before and after" view_holds \
    'd["changes"] == [{"gpu": "0000:03:00.0", "nvme": "0000:04:00.0", "after": "DIRECT",
    "before": "REDIRECTED+RC_UNLISTED", "rule": "R1"}] and d["pairs_judged"] == 1' \
    --from redirected.txt --what-if acs:all=clear
check "groups as JSON name the function that keeps VFIO out" view_holds \
    'd["functions"][1]["vfio_predicted"] == {"viable": False, "kept_out_by": "0000:03:00.0",
    "driver": "nvidia"} and d["below_one_switch"][0]["one_group"]' --from open.txt --groups
check "groups as JSON omit facts that depend on unread ACS" view_holds \
    'd["below_one_switch"] == [{"gpu": "0000:03:00.0", "nvme": "0000:04:00.0"}] and
    "vfio_predicted" not in d["functions"][1]' --from denied.txt --groups
check "a fix as JSON counts pairs with an unknown verdict" \
    view_holds 'd["pairs_unread"] == 1 and d["ports"] == []' --from denied.txt --fix
check "rates as JSON name their limit" view_holds \
    'd["to_gpu"]["one_at_a_time"][0]["gb_per_s"] > 1 and
    "0000:0" in d["from_gpu"]["together"][-1]["limited_by"]' --from direct.txt --bandwidth
check "a plan as JSON assigns the disk" view_holds \
    'd["assignment"][0]["gpu"] == "0000:03:00.0" and d["gb_per_s"] > 1' --from direct.txt --plan
check "the baseline as JSON has the register and the verdict" view_holds \
    '{"address": "0000:02:00.0", "fact": "acs_ctl", "before": 1, "after": 29} in d["facts"] and
    d["verdicts"][0]["before"] == "DIRECT" and d["exit_code"] == 7' \
    --from redirected.txt --baseline direct.txt
check "JSON has the headlines of the text" view_holds \
    'd["answer"] == "1 pair shares a switch: 1 REDIRECTED+RC_UNLISTED" and
    d["headlines"][0]["members"] == "GPU0 with NVME0" and
    "pci=disable_acs_redir=0000:02:00.0" in d["headlines"][0]["remedy"] and
    d["headlines"][0]["together_least_gb_per_s"] > 1 and d["pairs"][0]["headline"] == 0 and
    d["rows"] == [{"functions": ["0000:04:00.0"]}]' --from redirected.txt
check "the exit code in JSON equals the exit code of the command" view_holds 'd["exit_code"] == 0' \
    --from redirected.txt --require 'gpu=*,nvme=*:RC_UNLISTED'
check "a view as a picture exits 64" exits 64 --from direct.txt --plan --format dot
# 25,600 pairs: their JSON is printed in pieces, so it takes no more memory than the table.
for i in $(seq 16 95); do
    for d in 0 1; do
        printf '%02x:0%u.0 3D controller [0302]: NVIDIA Card [10de:20b0]\n\n' "$i" "$d"
        printf '%02x:1%u.0 Non-Volatile memory controller [0108]: Disk [144d:a80a]\n\n' "$i" "$d"
    done
done >many.txt
check "JSON of many pairs takes little memory" env "ASAN_OPTIONS=${ASAN_OPTIONS:-}:quarantine_size_mb=8" \
    python3 -c '
import resource, subprocess, sys
with open("many.json", "wb") as out:
    subprocess.run([sys.argv[1], "topo", "--from", "many.txt", "--json"], stdout=out)
memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10
pairs = sum(b"kernel_distance" in line for line in open("many.json", "rb"))
print(memory, "MiB,", pairs, "pairs")
sys.exit(memory > 200 or pairs != 25600)' "$HEADRACE"
rm -f many.json
# A second disk on its own root port: a pair without a common switch.
{
    cat direct.txt
    port 00:02.0 00 05 05 'Root Port (Slot+)' "$clear" e1000000-e10fffff None
    endpoint 05:00.0 'Non-Volatile memory controller [0108]: Disk [144d:a80a]' \
        'Region 0: Memory at e1000000 (64-bit, non-prefetchable) [size=16K]' nvme
} >across.txt
check "all pairs decide the exit code by default" exits 2 --from across.txt
check "the answer lists pairs that share a switch first" bash -c '"$1" topo --from across.txt | head -n 1 |
    grep -x "1 pair shares a switch: 1 DIRECT; 1 pair does not share a switch: 1 RC_UNLISTED"' \
    _ "$HEADRACE"
check "--wanted same-switch restricts the exit code to pairs that share a switch" exits 0 --from across.txt --wanted same-switch
check "--wanted same-switch restricts the pairs in JSON" view_holds 'len(d["pairs"]) == 1 and d["exit_code"] == 0' \
    --from across.txt --wanted same-switch
check "--wanted same-switch restricts the fix" exits 0 --from across.txt --wanted same-switch --fix
check "--wanted same-switch without such a pair exits 6" exits 6 --from many.txt --wanted same-switch
check "--wanted same-switch without such a pair reports the lack" says 'no pair of 160 GPUs and 160 NVMe controllers shares a switch' \
    --from many.txt --wanted same-switch
check "an unknown value of --wanted exits 64" exits 64 --from direct.txt --wanted some
check "--wanted with --plan exits 64" \
    exits 64 --from direct.txt --wanted all --plan
check "a page is written, and the exit code stays the verdict" \
    exits 2 --from redirected.txt --html page.html
check "an existing page is not overwritten without --force" exits 66 --from direct.txt --html page.html
check "the page is complete" grep -q '</html>' page.html
check "--html - writes the page to standard output" bash -c \
    '"$1" topo --from redirected.txt --html - | cmp - page.html' _ "$HEADRACE"
check "a page that cannot be written exits 66" exits 66 --from direct.txt --html /dev/full
check "the error of an unwritable page names the cause" says '/dev/full: cannot write the page: No space left' \
    --from direct.txt --html /dev/full
check "--wanted same-switch restricts the page" exits 0 --from across.txt --wanted same-switch --html page.html --force
check "--html with --json exits 64" exits 64 --from direct.txt --html page.html --json
# Every option has an effect or is refused.
no_pair_says() {
    for view in "--format matrix" "--format tree" --plan --bandwidth --groups --fix --json; do
        # shellcheck disable=SC2086  # two words
        exits 6 --from lonely.txt $view >/dev/null 2>err.txt || return 1
        grep -q 'no pair to evaluate: 0 GPUs' err.txt || { echo "$view: silent"; return 1; }
    done
}
check "every view reports that no pair exists" no_pair_says
check "--bandwidth without a pair prints no rates" bash -c '! "$1" topo --from lonely.txt --bandwidth 2>&1 |
    grep "GB/s"' _ "$HEADRACE"
check "a plan gives a pair with an unknown verdict no rate and names the verdict" \
    says 'GPU0 +NVME0 +unknown +the pair is UNKNOWN\(priv\)' --from denied.txt --plan
check "an unknown link does not have width 0" bash -c '! "$1" topo --from denied.txt \
    --explain GPU0 NVME0 | grep " x0"' _ "$HEADRACE"
check "the error of an unknown function counts the functions" \
    says "no function 'GPU1': [0-9]+ functions.*, 1 GPU, 1 NVMe" --from direct.txt --explain GPU1 NVME0
check "two views at once exit 64" exits 64 --from direct.txt --plan --groups
check "the error of two views names both views" says 'one at a time: --groups, --plan' --from direct.txt --plan --groups
check "--require with a view exits 64" \
    exits 64 --from direct.txt --plan --require 'gpu=*,nvme=*:DIRECT'
check "the explanation as JSON has the exit code of the pair" exits 0 --from direct.txt --json --explain GPU0 NVME0
check "an unknown value of --color exits 64" exits 64 --from direct.txt --color blue
check "a malformed requirement prints no other output" bash -c \
    '! "$1" topo --from direct.txt --require gpu=x 2>/dev/null | grep .' _ "$HEADRACE"
check "the error of an unknown mode lists the modes" \
    says "gpu, host, vfio or kernel, not 'foo'" --from direct.txt --mode foo
check "what-if names a missing function" \
    says "there is no function '99:00.0'" --from direct.txt --what-if acs:99:00.0=clear
check "a move to an occupied slot exits 64" \
    exits 64 --from direct.txt --what-if move:04:00.0=02:00.0
check "the error of an occupied slot names the card" \
    says '02:00.0, which holds 0000:03:00.0' --from direct.txt --what-if move:04:00.0=02:00.0
check "a capture that cannot be written exits 66" exits 66 --from direct.txt --capture /dev/full
check "the error of an unwritable capture names the cause" says 'No space left on device' --from direct.txt --capture /dev/full
# 130 x 130 pairs: more flows than the model can solve together, so it computes no sum of all flows.
many() {
    local i
    printf '00:00.0 Host bridge [0600]: H [8086:1234]\n\n'
    for i in {0..129}; do
        printf '%02x:%02x.0 3D controller [0302]: G [10de:20b0]\n\n' $((1 + i / 8)) $((i % 8))
        printf '%02x:%02x.0 Non-Volatile memory controller [0108]: D [144d:a80a] (prog-if 02)\n\n' \
            $((65 + i / 8)) $((i % 8))
    done
}
many >many.txt
# 6,000 x 6,000 pairs are more than are evaluated together.
awk 'BEGIN { for (i = 0; i < 12000; i++)
    printf("%04x:%02x:%02x.%d %s\n", i / 65536, i / 256 % 256, i / 8 % 32, i % 8,
        i % 2 ? "3D controller [0302]: G [10de:20b0]" : "Non-Volatile memory controller [0108]: D [144d:a80a]") }' \
    </dev/null >huge.txt
check "too many pairs exit 64" exits 64 --from huge.txt
check "the error of too many pairs names the limit and the option for one pair" \
    says '^headrace: error: 6000 GPUs and 6000 NVMe controllers are more than 33554432 pairs.*--explain GPU0 NVME0' \
    --from huge.txt
check "too many pairs as JSON are one error" bash -c '"$1" topo --from huge.txt --json |
    python3 -c "import json, sys
d = json.load(sys.stdin)
assert d[\"schema\"] == \"headrace.error\" and d[\"exit_code\"] == 64"' _ "$HEADRACE"
check "one of too many pairs is evaluated" says '^0000:00:00.1 to 0000:00:00.0: ' --from huge.txt --explain GPU0 NVME0
check "too many peers exit 64" exits 64 --from huge.txt --peers gpu
check "the error of too many peers names the limit" says '6000 devices against each other, 1024 at most' \
    --from huge.txt --peers gpu
rm -f huge.txt
check "--bandwidth of more than 16384 pairs ends with the verdict's exit code" exits 5 --from many.txt --bandwidth
check "--bandwidth of more than 16384 pairs names the limit of the sum" \
    says '^all pairs at once: not computed, 16900 pairs are more than 16384$' --from many.txt --bandwidth
check "--bandwidth of many pairs counts the omitted pairs" \
    says '^  \.\.\. and 16836 more \(--all\)$' --from many.txt --bandwidth
check "--bandwidth of many pairs counts the omitted GPUs" says '^\.\.\. and 114 more GPUs \(--all\)$' --from many.txt --bandwidth
check "--bandwidth of many pairs as JSON has a sum for every GPU" bash -c '"$1" topo --from many.txt --bandwidth --json |
    python3 -c "import json, sys
sums = json.load(sys.stdin)[\"to_gpu\"][\"together\"]
last = dict(what=\"all pairs at once\", pairs=16900, pairs_max=16384)
sys.exit(len(sums) != 131 or sums[-1] != last)"' _ "$HEADRACE"
# One GPU and 16385 SSDs: more than a plan can have.
crowd() {
    local i
    printf '00:00.0 3D controller [0302]: G [10de:20b0]\n\n'
    for i in {0..16384}; do
        printf '%04x:%02x:%02x.0 Non-Volatile memory controller [0108]: D [144d:a80a] (prog-if 02)\n\n' \
            $((1 + i / 4096)) $((i / 32 % 128)) $((i % 32))
    done
}
crowd >crowd.txt
check "a plan for more than 16384 SSDs exits 66" exits 66 --from crowd.txt --plan
check "the error of a plan for too many SSDs names the limit" says '^headrace: error: 16385 SSDs to plan for, at most 16384$' \
    --from crowd.txt --plan
check "an old kernel refuses a pair that a new kernel allows" \
    says 'kernel NOT_SUPPORTED' --from redirected.txt --kernel 4.20
check "this machine ends in a documented code" bash -c \
    '"$1" topo >/dev/null 2>&1; case $? in 0|1|2|3|4|5|6|66) ;; *) exit 1 ;; esac' _ "$HEADRACE"
done_testing

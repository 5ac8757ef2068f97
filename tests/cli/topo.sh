#!/bin/bash
# headrace topo on small captures: exit codes, formats, requirements, bad input.
# Environment: HEADRACE, the binary under test; SCRATCH, an empty folder.
# shellcheck disable=SC2317,SC2016  # called through check; inner shells expand
set -uo pipefail
# shellcheck source=tests/cli/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"

# exits CODE ARGUMENTS...: topo ends with that exit code
exits() {
    local want=$1 got=0
    shift
    "$HEADRACE" topo "$@" || got=$?
    [ "$got" -eq "$want" ] || { echo "exit $got, expected $want"; return 1; }
}

# says PATTERN ARGUMENTS...: output has a line that matches
says() {
    local pattern=$1 said
    shift
    said=$("$HEADRACE" topo "$@" 2>&1)
    grep -qE -- "$pattern" <<<"$said" || { echo "no '$pattern' in:"; echo "$said"; return 1; }
}

# view_holds PYTHON_CONDITION ARGUMENTS...: the JSON document d of a view satisfies it
view_holds() {
    local condition=$1 said
    shift
    said=$("$HEADRACE" topo --json "$@")
    python3 -c "import json,sys; d=json.loads(sys.argv[1]); sys.exit(not ($condition))" "$said" ||
        { echo "not $condition in:"; echo "$said"; return 1; }
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
check "access denied says to run as root" says "run as root" --from denied.txt
check "no pair exits 6" exits 6 --from lonely.txt
check "malformed input exits 65" exits 65 --from malformed.txt
check "malformed input names its line" says "line 2" --from malformed.txt
check "a missing file exits 65" exits 65 --from absent.txt
check "an unknown option exits 64" exits 64 --nonsense
check "an unknown format exits 64" exits 64 --from direct.txt --format png
check "standard input is a source" bash -c '"$1" topo --from - <direct.txt' _ "$HEADRACE"
check "the answer comes first" bash -c '"$1" topo --from direct.txt | head -n 1 |
    grep -x "1 pair shares a switch: 1 DIRECT"' _ "$HEADRACE"
check "the headline names the pair" says '^GPU0 with NVME0 \(1 pair\):$' --from direct.txt
check "in words" says 'share a switch: data goes direct; [0-9.]+ GB/s' --from direct.txt
check "with the rule" says 'DIRECT, rule R1, kernel BUS_ADDR, PIX' --from direct.txt
check "and with the remedy" says '1 setpci command, or pci=disable_acs_redir=0000:02:00.0' \
    --from redirected.txt
check "--all has each pair" says 'GPU0 to NVME0: DIRECT \(rule R1\)' --from direct.txt --all
check "the matrix has both words" says 'PIX +DIRECT' --from direct.txt --format matrix
check "the kernel's verdict stands beside ours" says 'kernel NOT_SUPPORTED' --from redirected.txt
check "the explanation shows the control register" \
    says 'ACSCtl 0x001d' --from redirected.txt --explain GPU0 NVME0
check "the explanation shows what was ruled out" \
    says '^ruled out:.* R3' --from direct.txt --explain 03:00.0 04:00.0
check "an unknown function exits 64" exits 64 --from direct.txt --explain GPU1 NVME0
check "a function is no pair with itself" exits 64 --from direct.txt --explain GPU0 03:00.0
check "a bridge is no end of a path" exits 64 --from direct.txt --explain GPU0 02:01.0
check "a lonely card is judged for itself" says '^H1-width .*link is x2 of x4' --from lonely_disk.txt
check "a requirement that is met exits 0" \
    exits 0 --from direct.txt --require 'gpu=*,nvme=*:DIRECT'
check "a requirement that is not met exits as the pair" \
    exits 2 --from redirected.txt --require 'gpu=GPU0,nvme=0000:04:00.0:DIRECT'
check "a lower requirement is met" \
    exits 0 --from redirected.txt --require 'gpu=*,nvme=*:RC_UNLISTED'
check "a requirement without a pair exits 6" \
    exits 6 --from direct.txt --require 'gpu=GPU7,nvme=*:DIRECT'
check "a malformed requirement exits 64" exits 64 --from direct.txt --require 'gpu=*:GOOD'
check "the fix names the port" says 'pci=disable_acs_redir=0000:02:00.0' --from redirected.txt --fix
check "what clears stands under now, what restores under undo" bash -c '
    "$1" topo --from redirected.txt --fix | grep -A 1 -E "^(now|undo):" | grep -o "=[0-9a-f]*:[0-9a-f]*$" |
        cmp - <(printf "=0:2c\n=c:2c\n")' _ "$HEADRACE"
check "the fix can be undone" says 'ECAP_ACS\+6.w=c:2c' --from redirected.txt --fix
check "a fix of a capture is not applied" exits 8 --from redirected.txt --fix --apply
{ echo 'headrace: lockdown=integrity'; cat redirected.txt; } >locked.txt
check "lockdown leaves the boot parameter" \
    says 'pci=disable_acs_redir=0000:02:00.0' --from locked.txt --fix
check "and says that setpci is refused" says 'lockdown \(integrity\) refuses setpci' --from locked.txt --fix
check "and proposes none" bash -c '! "$1" topo --from locked.txt --fix | grep -E "^ +setpci"' _ "$HEADRACE"
check "--apply alone is wrong usage" exits 64 --from redirected.txt --apply
check "what-if clears redirect" \
    says 'REDIRECTED\+RC_UNLISTED -> DIRECT' --from redirected.txt --what-if acs:all=clear
# A card that is a GPU only because the user says so stays one when verdicts are computed again.
sed 's/3D controller \[0302\]/RAM memory [0500]/' redirected.txt >memory.txt
check "a memory card is no GPU" exits 6 --from memory.txt
check "unless the user says so" exits 2 --from memory.txt --gpu 03:00.0
check "what-if keeps the cards that the user named" \
    says 'REDIRECTED\+RC_UNLISTED -> DIRECT' --from memory.txt --gpu 03:00.0 --what-if acs:all=clear
check "--fix keeps them" exits 0 --from memory.txt --gpu 03:00.0 --fix
check "--baseline keeps them" exits 7 --from memory.txt --gpu 03:00.0 --baseline direct.txt
check "what-if turns the IOMMU on" \
    says 'SILENT_LOSS' --from redirected.txt --what-if iommu=on
check "the same machine is its own baseline" exits 0 --from direct.txt --baseline direct.txt
check "ACS that came back differs from the baseline" \
    exits 7 --from redirected.txt --baseline direct.txt
check "the baseline names register and verdict" \
    says '02:00.0: acs_ctl 0x0001 -> 0x001d' --from redirected.txt --baseline direct.txt
check "and how many there are" says '^2 differences from direct.txt' \
    --from redirected.txt --baseline direct.txt
# Linux sets ACS at a boot with an IOMMU: what stands in the registers of a machine without one, or
# after setpci, is not what a boot makes of it.
{ echo 'headrace: cmdline=pci=disable_acs_redir=00:01.0'; cat direct.txt; } >open.txt
{ echo 'headrace: iommu=2'; cat direct.txt; } >cleared.txt
{ echo 'headrace: iommu=1'; cat direct.txt; } >off.txt
{ echo 'headrace: kernel=4.18.0-305.el8'; cat redirected.txt; } >old.txt
{ echo 'headrace: kernel=5.15.0-91-generic'; cat redirected.txt; } >newer.txt
check "groups name the function that keeps VFIO out" \
    says 'kept out of the predicted group by 0000:03:00.0 \(driver nvidia\)' --from open.txt --groups
check "groups that were not read are not stated" bash -c \
    '! "$1" topo --from direct.txt --groups | grep "real group"' _ "$HEADRACE"
check "a boot with an IOMMU isolates what is direct now" \
    says 'NVME0 .*VFIO can open the predicted group' --from direct.txt --groups
check "and groups say what it costs" \
    says 'redirect is off now: direct; a boot with an IOMMU sets it' --from direct.txt --groups
check "groups say that ACS was cleared since the boot" \
    says 'isolates less: 2 groups; such a boot sets it' --from off.txt --groups
check "turning the IOMMU on is not free" \
    says 'DIRECT -> REDIRECTED\+RC_UNLISTED' --from off.txt --what-if iommu=pt
check "a boot with a parameter keeps it direct" says '^0 of 1 pairs change' \
    --from off.txt --what-if 'boot=intel_iommu=on iommu=pt pci=disable_acs_redir=01:00.0;02:00.0;02:01.0'
check "what-if says what the boot makes of the machine" \
    says '^booted so: IOMMU passthrough; ACS redirects at 4 functions' --from off.txt --what-if iommu=pt
check "what-if off rests on what the firmware leaves" \
    says 'acs-assumed' --from redirected.txt --iommu pt --what-if iommu=off --json
check "mode vfio says what an IOMMU costs" says '^ *A18 .*sets ACS redirect' --from off.txt --mode vfio
check "cleared registers do not outlive the next boot" \
    says '^ +0000:02:00.0;0000:02:01.0;.*: the pair is redirected then' --from cleared.txt
check "and the fix knows the parameter" \
    says 'pci=disable_acs_redir=0000:02:00.0;0000:02:01.0' --from cleared.txt --fix
check "an old kernel has no such parameter" says 'came with 4.19' --from old.txt --fix
check "config_acs is proposed to those that know it" bash -c \
    '! "$1" topo --from newer.txt --fix | grep "pci=config_acs"' _ "$HEADRACE"
check "the boot as JSON" view_holds 'd["boot"] == {"iommu": "passthrough", "functions_redirecting": 4}' \
    --from off.txt --what-if iommu=pt
check "a fix that has nothing to do says so" \
    says '^no ACS change would help: no pair shares a switch' --from direct.txt --fix
check "groups say which corner is given up" \
    says 'redirect is on: isolated' --from redirected.txt --groups
check "ACS that was not read gives nothing up" \
    says 'ACS of the ports between them is not known' --from denied.txt --groups
check "and VFIO's way is not known" says 'whether VFIO can open it is not known' --from denied.txt --groups
check "nor is that no change would help" says 'ACS of their ports was not read' --from denied.txt --fix
check "the rule table as JSON exits 64, instead of being text" exits 64 --rules --json
check "the rule table is complete" says '^H8 .*CONFIG_PCI_P2PDMA' --rules
# What makes a way that is there usable: product line, drivers, file systems.
sed 's/NVIDIA Corporation Card/NVIDIA Corporation AD102 [GeForce RTX 4090]/' direct.txt >geforce.txt
{
    printf 'headrace: %s\n' nvidia=570.86.10 nvidia_open=1 multipath=1 kernel=6.8.0 'nvidia_fs=not loaded'
    sed 's/NVIDIA Corporation Card/NVIDIA Corporation GH100 [H100 PCIe]/' direct.txt
} >hopper.txt
check "DIRECT of a consumer card is degraded" exits 1 --from geforce.txt
check "and says why" says 'consumer card: NVIDIA supports GPUDirect' --from geforce.txt
check "software has a row per requirement" says 'nvme multipath +no +on' --from hopper.txt --software
check "with what to do" says 'options nvme_core multipath=N' --from hopper.txt --software
check "cuFile's want is named" says 'P2PDMA mode' --from hopper.txt
check "an explanation has the rows" says 'driver +yes +NVIDIA 570.86.10, open' --from hopper.txt --explain GPU0 NVME0
check "software as JSON" view_holds \
    '{"what": "product line", "met": "yes", "found": "data center or professional"} in
    d["gpus"][0]["requirements"] and d["nvmes"][0]["requirements"][0]["met"] == "no"' \
    --from hopper.txt --software
check "a plan assigns the disk" says 'GPU0 +NVME0 +[0-9.]+ GB/s' --from direct.txt --plan
check "a plan has rates now and after the fix" \
    says 'GPU0 +NVME0 +[0-9.]+ GB/s +after --fix +6.95 ' --from redirected.txt --plan
check "and a sum of both" says '^sum [0-9.]+ GB/s, after --fix 6.95 GB/s' --from redirected.txt --plan
check "a plan that nothing mends says it once" bash -c '! "$1" topo --from direct.txt --plan |
    grep -i "after --fix"' _ "$HEADRACE"
check "rates have both, too" says '^all pairs at once: [0-9.]+ GB/s, after --fix 6.95' \
    --from redirected.txt --bandwidth
check "a plan as JSON has both" view_holds \
    'd["gb_per_s_after_fix"] >= d["gb_per_s"] > 1 and not d["upper_bound"] and
    d["assignment"][0]["gb_per_s_after_fix"] > 6 and d["exit_code"] == 2' --from redirected.txt --plan
# Redirect at the GPU's port bears on what the SSD reads: completions come that way.
check "rates as JSON have both" view_holds \
    'all(s["gb_per_s_after_fix"] > s["gb_per_s"] > 1 for s in d["from_gpu"]["together"])' \
    --from redirected.txt --bandwidth
check "rates name their limit" \
    says 'limited by link of 0000:0[34]:00.0' --from direct.txt --bandwidth
check "a capture is written" exits 0 --from redirected.txt --capture copy.txt
check "a file that exists is not overwritten" exits 66 --from redirected.txt --capture copy.txt
check "and that is said" says 'exists already' --from redirected.txt --capture copy.txt
check "by force it is" exits 0 --from redirected.txt --capture copy.txt --force
check "--force is for a capture only" exits 64 --from redirected.txt --force
check "a written capture gives the same verdict" exits 2 --from copy.txt
check "the tree marks the path" \
    says '\* 0000:02:00.0' --from direct.txt --ascii --format tree --explain GPU0 NVME0
check "DOT has both cards" says 'label="0000:03:00.0.nGPU0' --from direct.txt --format dot
check "JSON is one object" bash -c '"$1" topo --from direct.txt --json |
    python3 -c "import json,sys; d=json.load(sys.stdin); assert d[\"schema\"] == 1
assert d[\"pairs\"][0][\"verdict\"] == \"DIRECT\" and d[\"exit_code\"] == 0"' _ "$HEADRACE"
check "the fix as JSON has commands, undo and prediction" view_holds \
    'd["view"] == "fix" and d["ports"] == ["0000:02:00.0"] and d["pairs_redirected"] == 1 and
    d["undo"] == ["setpci -s 0000:02:00.0 ECAP_ACS+6.w=c:2c"] and
    d["pairs"][0]["verdict"] == "DIRECT" and d["exit_code"] == 0' --from redirected.txt --fix
check "under lockdown the fix as JSON has no commands" view_holds \
    'd["lockdown"] == "integrity" and d["setpci"] == [] == d["undo"] and
    d["ports"] == ["0000:02:00.0"]' --from locked.txt --fix
check "a refused fix as JSON says so in its code" view_holds 'd["exit_code"] == 8' \
    --from redirected.txt --fix --apply
check "nothing to fix is an empty list" view_holds 'd["ports"] == []' --from direct.txt --fix
check "what-if as JSON has verdicts before and after" view_holds \
    'd["changes"] == [{"gpu": "0000:03:00.0", "nvme": "0000:04:00.0", "after": "DIRECT",
    "before": "REDIRECTED+RC_UNLISTED", "rule": "R1"}] and d["pairs_judged"] == 1' \
    --from redirected.txt --what-if acs:all=clear
check "groups as JSON name the function that keeps VFIO out" view_holds \
    'd["functions"][1]["vfio_predicted"] == {"viable": False, "kept_out_by": "0000:03:00.0",
    "driver": "nvidia"} and d["below_one_switch"][0]["one_group"]' --from open.txt --groups
check "groups as JSON leave out what ACS would tell" view_holds \
    'd["below_one_switch"] == [{"gpu": "0000:03:00.0", "nvme": "0000:04:00.0"}] and
    "vfio_predicted" not in d["functions"][1]' --from denied.txt --groups
check "a fix as JSON counts pairs that nobody can tell" \
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
check "the code in JSON is that of the command" view_holds 'd["exit_code"] == 0' \
    --from redirected.txt --require 'gpu=*,nvme=*:RC_UNLISTED'
check "a view is no picture" exits 64 --from direct.txt --plan --format dot
# 25,600 pairs: their JSON is printed piece by piece, so it takes no more memory than the table.
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
# A second disk on a root port of its own: a pair that shares no switch.
{
    cat direct.txt
    port 00:02.0 00 05 05 'Root Port (Slot+)' "$clear" e1000000-e10fffff None
    endpoint 05:00.0 'Non-Volatile memory controller [0108]: Disk [144d:a80a]' \
        'Region 0: Memory at e1000000 (64-bit, non-prefetchable) [size=16K]' nvme
} >across.txt
check "all pairs are wanted by default" exits 2 --from across.txt
check "what shares a switch is told first" bash -c '"$1" topo --from across.txt | head -n 1 |
    grep -x "1 pair shares a switch: 1 DIRECT; 1 pair does not share a switch: 1 RC_UNLISTED"' \
    _ "$HEADRACE"
check "or all that is judged" exits 0 --from across.txt --wanted same-switch
check "in JSON as well" view_holds 'len(d["pairs"]) == 1 and d["exit_code"] == 0' \
    --from across.txt --wanted same-switch
check "the fix may be of those pairs" exits 0 --from across.txt --wanted same-switch --fix
check "no such pair exits 6" exits 6 --from many.txt --wanted same-switch
check "and says so" says 'no pair of 160 GPUs and 160 NVMe controllers shares a switch' \
    --from many.txt --wanted same-switch
check "a third kind of wanted exits 64" exits 64 --from direct.txt --wanted some
check "--wanted beside a view that has its own pairs exits 64" \
    exits 64 --from direct.txt --wanted all --plan
check "a page is written, and the exit code stays the verdict" \
    exits 2 --from redirected.txt --html page.html
check "and written over only with --force" exits 66 --from direct.txt --html page.html
check "it is one page" grep -q '</html>' page.html
check "it goes to standard output as well" bash -c \
    '"$1" topo --from redirected.txt --html - | cmp - page.html' _ "$HEADRACE"
check "a page that cannot be written exits 66" exits 66 --from direct.txt --html /dev/full
check "and says why" says '/dev/full: cannot write the page: No space left' \
    --from direct.txt --html /dev/full
check "a page of only what is wanted" exits 0 --from across.txt --wanted same-switch --html page.html --force
check "a page is no JSON" exits 64 --from direct.txt --html page.html --json
# What a user asks is answered, or refused: nothing is silent.
no_pair_says() {
    for view in "--format matrix" "--format tree" --plan --bandwidth --groups --fix --json; do
        # shellcheck disable=SC2086  # two words
        exits 6 --from lonely.txt $view >/dev/null 2>err.txt || return 1
        grep -q 'no pair to judge: 0 GPUs' err.txt || { echo "$view: silent"; return 1; }
    done
}
check "every view says that there is no pair" no_pair_says
check "no pair has no rates" bash -c '! "$1" topo --from lonely.txt --bandwidth 2>&1 |
    grep "GB/s"' _ "$HEADRACE"
check "a pair that cannot be judged has no rate, and says so" \
    says 'GPU0 +NVME0 +none +the pair is UNKNOWN\(priv\)' --from denied.txt --plan
check "a link that nobody knows is not of width 0" bash -c '! "$1" topo --from denied.txt \
    --explain GPU0 NVME0 | grep " x0"' _ "$HEADRACE"
check "a wrong name is told with what there is" \
    says "no function 'GPU1': [0-9]+ functions.*, 1 GPUs, 1 NVMe" --from direct.txt --explain GPU1 NVME0
check "two views at once exit 64" exits 64 --from direct.txt --plan --groups
check "and are named" says 'one at a time: --groups, --plan' --from direct.txt --plan --groups
check "a requirement beside a view exits 64" \
    exits 64 --from direct.txt --plan --require 'gpu=*,nvme=*:DIRECT'
check "the explanation as JSON exits 64" exits 64 --from direct.txt --json --explain GPU0 NVME0
check "a colour that is none exits 64" exits 64 --from direct.txt --color blue
check "a malformed requirement is all that is said" bash -c \
    '! "$1" topo --from direct.txt --require gpu=x 2>/dev/null | grep .' _ "$HEADRACE"
check "a wrong mode is told with the right ones" \
    says "gpu, host, vfio or kernel, not 'foo'" --from direct.txt --mode foo
check "what-if names the function that is not there" \
    says "there is no function '99:00.0'" --from direct.txt --what-if acs:99:00.0=clear
check "a card does not go into a slot that is taken" \
    exits 64 --from direct.txt --what-if move:04:00.0=02:00.0
check "and the card there is named" \
    says '02:00.0, which holds 0000:03:00.0' --from direct.txt --what-if move:04:00.0=02:00.0
check "a capture that cannot be written exits 66" exits 66 --from direct.txt --capture /dev/full
check "and says why" says 'No space left on device' --from direct.txt --capture /dev/full
# 130 x 130 pairs: more flows than the model solves together, so no sum of all of them is given.
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
check "rates of more pairs than are solved at once" exits 5 --from many.txt --bandwidth
check "leave out the sum of all" bash -c \
    '! "$1" topo --from many.txt --bandwidth | grep "all pairs at once"' _ "$HEADRACE"
check "an old kernel refuses what a new one allows" \
    says 'kernel NOT_SUPPORTED' --from redirected.txt --kernel 4.20
check "this machine ends in a documented code" bash -c \
    '"$1" topo >/dev/null 2>&1; case $? in 0|1|2|3|4|5|6|66) ;; *) exit 1 ;; esac' _ "$HEADRACE"
done_testing

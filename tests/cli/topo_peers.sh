#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# headrace topo --peers: GPUs, SSDs and network cards against each other, as text and as JSON.
# Environment: HEADRACE, the binary under test; SCRATCH, an empty folder.
set -uo pipefail
# shellcheck source=tests/cli/lib/tap.sh
. "$(dirname "$0")/lib/tap.sh"

cd "$SCRATCH" || exit 1

# facts NAME=VALUE...: in the form of a capture
facts() {
    printf '\theadrace: %s\n' command=6 caps=1 ecaps=1 exp_offset=64 mps=256 mps_supported=256 \
        ats_offset=0 devcap2=65536 devctl2=0 pm_state=0 link_speed=4 link_speed_max=4 link_width=16 \
        link_width_max=16 "$@"
    echo
}

# bridge ADDRESS TYPE SECONDARY SUBORDINATE ACSCTL FIRST LAST: FIRST and LAST are the digits of its
# windows
bridge() {
    printf '%s PCI bridge [0604]: Switch [1000:c030]\n' "$1"
    facts "port_type=$2" header=1 "secondary=$3" "subordinate=$4" acs_offset=336 acs_cap=31 \
        "acs_ctl=$5" "mem=c${6}00000-c${7}fffff" "pref=38${6}00000000-38${7}ffffffff"
}

# card ADDRESS TITLE NODE FACT...
card() {
    printf '%s %s\n' "$1" "$2"
    shift 2
    facts port_type=0 acs_offset=0 "numa_node=$1" "${@:2}"
}

# side BUS NODE ACSCTL: a root port and a switch with two GPUs, two SSDs and a network card
side() {
    local b=$1 n=$2 ctl=$3 i
    bridge "$(printf '%02x:01.0' $((b - 1)))" 4 "$b" $((b + 6)) 0 "${n}0" "${n}f"
    bridge "$(printf '%02x:00.0' "$b")" 5 $((b + 1)) $((b + 6)) 0 "${n}0" "${n}f"
    for i in 0 1 2 3 4; do
        bridge "$(printf '%02x:0%d.0' $((b + 1)) "$i")" 6 $((b + 2 + i)) $((b + 2 + i)) "$ctl" \
            "$n$i" "$n$i"
    done
    for i in 0 1; do
        card "$(printf '%02x:00.0' $((b + 2 + i)))" '3D controller [0302]: NVIDIA Card [10de:2330]' \
            "$n" "bar1=38$n${i}00000000,7" bar1_size=4294967296 driver=nvidia \
            "cpus=$((n * 32))-$((n * 32 + 31))" "nvlink=${links:-switch},18"
    done
    for i in 2 3; do
        card "$(printf '%02x:00.0' $((b + 2 + i)))" \
            'Non-Volatile memory controller [0108]: Disk [144d:a80a]' "$n" \
            "bar0=c$n${i}00000,3" bar0_size=16384 "devices=nvme$((n * 2 + i - 2))n1" driver=nvme
    done
    card "$(printf '%02x:00.0' $((b + 6)))" 'Infiniband controller [0207]: Card [15b3:1021]' "$n" \
        "devices=mlx5_$n ib$n" "bar0=c${n}400000,3" bar0_size=1048576
}

# machine ACSCTL: two sides, each below a root complex of its own
machine() {
    printf 'headrace: capture=2\nheadrace: iommu=1\nheadrace: cpu_amd=0\n\n'
    printf '10:00.0 Host bridge [0600]: Host [8086:09a2]\n\n'
    side 17 0 "$1"
    printf '40:00.0 Host bridge [0600]: Host [8086:09a2]\n\n'
    side 65 1 "$1"
}

# says PATTERN FILE [ARGUMENTS...]
says() {
    local pattern=$1 said
    shift
    said=$("$HEADRACE" topo --from "$@" 2>&1)
    grep -qE -- "$pattern" <<<"$said" || { echo "no '$pattern' in:"; echo "$said"; return 1; }
}

# holds PYTHON_CONDITION FILE: the JSON document d satisfies it; p(a, b) is the pair of two names
holds() {
    local said
    said=$("$HEADRACE" topo --from "$2" --peers gpu,nvme,nic --json)
    python3 -c '
import json, sys
d = json.loads(sys.argv[1])
at = {x["name"]: x["address"] for x in d["peers"]}
def p(a, b):
    return next(x for x in d["pairs"] if {x["a"], x["b"]} == {at[a], at[b]})
sys.exit(not eval("(" + sys.argv[2] + ")"))' "$said" "$1" || { echo "not $1 in:"; echo "$said" | head -c 3000; return 1; }
}

# ends CODE FILE ARGUMENTS...
ends() {
    local want=$1 code=0
    shift
    "$HEADRACE" topo --from "$@" >/dev/null 2>&1 || code=$?
    [ "$code" -eq "$want" ] || { echo "exit $code, expected $want"; return 1; }
}

machine 1 >direct.txt
machine 29 >redirected.txt
sed '/^40:00.0/,$d' direct.txt >half.txt
links=0000:13:00.0 machine 1 >linked.txt
cat >amd.xml <<'XML'
<system version='2'><cpu numaid='0' affinity='0000ffff'>
<pci busid='0000:10:00.0' class='0x060400'>
<pci busid='0000:11:00.0' class='0x120000'><gpu dev='0' gcn='gfx942'>
<xgmi target='0000:12:00.0' count='1' tclass='0x120000'/></gpu></pci>
<pci busid='0000:12:00.0' class='0x038000'><gpu dev='1' gcn='gfx942'/></pci>
<pci busid='0000:13:00.0' class='0x020700'><nic><net name='mlx5_0'/></nic></pci>
</pci></cpu></system>
XML

# The first card is Ethernet with an RDMA device, the second one has none.
sed 's/Infiniband controller \[0207\]/Ethernet controller [0200]/; s/headrace: devices=mlx5_0/headrace: rdma=1\n\t&/
     s/headrace: devices=mlx5_1/headrace: rdma=0\n\t&/' direct.txt >ethernet.txt

all='--peers gpu,nvme,nic'
# shellcheck disable=SC2086,SC2016  # two words; an inner shell expands
{
    check "equal peers are one row" says '^GPU0-1 .*NV18 DIRECT' direct.txt $all
    check "names of devices stand beside addresses" says 'NVME2 .*node 1, CPUs .*nvme2n1' direct.txt $all
    check "near CPUs stand beside addresses" says 'GPU2 .*node 1, CPUs 32-63,' direct.txt $all
    check "a pair without a GPU has a distance" says '^NIC0 .* PIX +(SYS|NODE|X)' direct.txt $all
    check "kinds that were not requested are omitted" says '^NIC0 ' direct.txt --peers gpu,nic
    check "network cards alone stand against GPUs and SSDs" says '^GPU0-1 ' direct.txt --peers nic
    check "network cards alone: the worst pair with a GPU decides" ends 2 redirected.txt --peers nic
    check "InfiniBand has RDMA" says 'NIC0 .*, RDMA, mlx5_0 ib0' direct.txt --peers nic
    check "Ethernet has RDMA when its driver made a device" says 'NIC0 .*, RDMA, mlx5_0 ib0' ethernet.txt --peers nic
    check "Ethernet without a device has none" says 'NIC1 .*no RDMA, mlx5_1 ib1' ethernet.txt --peers nic
    check "the deciding rule is reported" says 'GPU0-1 with NIC0: REDIRECTED\+RC_LISTED \(rule A1-listed\)' \
        redirected.txt $all
    check "a reason is printed once" bash -c '
        [ "$("$1" topo --from direct.txt --peers gpu,nvme | grep -c "move a card")" -eq 1 ]' _ "$HEADRACE"
    check "links of AMD GPUs are reported" says '^GPU0-1 +XGMI1 UNKNOWN' amd.xml $all
    check "the worst pair decides the exit code" ends 2 redirected.txt $all
    check "one switch, all direct" ends 0 half.txt $all
    check "a machine without a requested GPU exits 6" ends 6 direct.txt --peers nvme,nic
    check "an unknown kind exits 64" ends 64 direct.txt --peers gpu,tpu
    check "--peers as a picture exits 64" ends 64 direct.txt --peers gpu --format dot
    check "--peers with another view exits 64" ends 64 direct.txt --peers gpu --plan
}
check "JSON has verdicts of both directions" holds \
    'p("GPU0", "GPU1")["to_a"]["verdict"] == "DIRECT" == p("GPU0", "GPU1")["to_b"]["verdict"]' direct.txt
check "JSON has no verdict of a pair without a GPU" holds \
    '"verdict" not in p("NVME0", "NIC0") and p("NVME0", "NIC0")["distance"] == "PIX"' direct.txt
check "JSON tells the RDMA of network cards" holds \
    '[p["rdma"] for p in d["peers"][8:]] == [True, False] and "rdma" not in d["peers"][0]' ethernet.txt
check "JSON has links" holds 'p("GPU0", "GPU3")["gpu_links"] ==
    {"fabric": "nvlink", "count": 18, "through_switch": True}' direct.txt
check "a direct link is not reported as a link through a switch" holds \
    'p("GPU1", "GPU0")["gpu_links"]["through_switch"] is False and
    "gpu_links" not in p("GPU1", "GPU2")' linked.txt
check "JSON has all peers with their facts" holds 'len(d["peers"]) == 10 and len(d["pairs"]) == 45 and
    d["peers"][5]["devices"] == "nvme1n1" and d["peers"][9]["numa_node"] == 1' direct.txt
check "a network card can be explained" says '0000:17:00.0' direct.txt --explain GPU0 NIC0
"$HEADRACE" topo --from direct.txt --capture again.txt
"$HEADRACE" topo --from direct.txt --json --peers gpu,nvme,nic | grep -v '"source"' >before
"$HEADRACE" topo --from again.txt --json --peers gpu,nvme,nic | grep -v '"source"' >after
check "a capture has names, CPUs and links" diff before after
done_testing

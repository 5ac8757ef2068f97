# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash disable=SC2154
# Results of headrace topo in each machine: live, and from a capture by lspci. The guest collects
# the results; topo.after.py compares them with topo.expect. Afterwards the cards are as before, for
# the scripts that share a guest with this one; options of its run that no check depends on (memory,
# cpus) are those of that script. The ports are emulated, so the rules about hardware are checked with
# --ignore-vm; only switch_vm is evaluated as the guest that it is.
#: restores
#: tools lspci setpci
#: run switch machine=switch memory=768 cpus=2
#: run switch_zen machine=switch cpu=EPYC,-hypervisor
#: run switch_acs machine=switch_acs
#: run switch_vm machine=switch cpu=max
#: run switch_iommu machine=switch_iommu boot=intel_iommu=on
#: run switch_pt machine=switch_iommu boot="intel_iommu=on iommu=pt" memory=768 cpus=2
#: run switch_off machine=switch_iommu boot=intel_iommu=off
#: run switch_acs_on machine=switch_acs_iommu boot=intel_iommu=on
#: run switch_acs_pt machine=switch_acs_iommu boot="intel_iommu=on iommu=pt"
#: run switch_acs_pt_zen machine=switch_acs_iommu boot="intel_iommu=on iommu=pt" cpu=EPYC,-hypervisor
#: run switch_acs_redir machine=switch_acs_iommu boot="iommu=pt pci=disable_acs_redir=pci:1b36:000c"
#: run one_group machine=one_group boot="intel_iommu=on iommu=pt"
#: run ports machine=ports memory=768 cpus=2
#: run ports_zen machine=ports cpu=EPYC,-hypervisor
#: run ports_iommu machine=ports_iommu boot=intel_iommu=on memory=768 cpus=2
#: run two_switches machine=two_switches
#: run nested machine=nested memory=768 cpus=2
#: run two_roots machine=two_roots
#: run bare machine=bare
#: run no_gpu machine=no_gpu
#: run cmb machine=cmb boot=intel_iommu=off
#: run small_mdts machine=small_mdts boot=intel_iommu=off
#: run two_ssds machine=two_ssds boot=intel_iommu=off
#: run many machine=many

# Set cards as their drivers leave them: decoding and mastering on. The kernel enables the bridges
# above.
for card in /sys/bus/pci/devices/*; do
    case $(cat "$card/class") in
    0x0108* | 0x0500*)
        echo "${card##*/} $(setpci -s "${card##*/}" COMMAND)" >>/tmp/commands
        echo 1 >"$card/enable"
        setpci -s "${card##*/}" COMMAND=6:6
        ;;
    esac
done

gpus=
for card in /sys/bus/pci/devices/*; do
    case $(cat "$card/class") in
    0x0500*) gpus="$gpus --gpu ${card##*/}" ;;
    esac
done

vm=--ignore-vm
[ "$INSTANCE" = switch_vm ] && vm=

# shellcheck disable=SC2086  # options, one word each
{
    headrace topo $vm --json $gpus >/tmp/live.json
    echo $? >/tmp/live.code
    headrace topo $vm --json --mode vfio $gpus >/tmp/vfio.json
    headrace topo --capture /tmp/capture.txt
    lspci -vvvxxxx >/tmp/lspci.txt
}
for name in live.json live.code vfio.json capture.txt lspci.txt; do
    give $name /tmp/$name
done

while read -r card command; do
    echo 0 >"$(pci "$card")/enable"
    setpci -s "$card" COMMAND="$command"
done </tmp/commands

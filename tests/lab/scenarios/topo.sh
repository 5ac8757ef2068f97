# shellcheck shell=dash disable=SC2154
# What headrace topo concludes in each machine: live, and from a capture of it by lspci. The guest
# collects; topo.after.py compares with topo.expect.
#: tools lspci setpci
#: run switch machine=switch
#: run switch_zen machine=switch cpu=EPYC,-hypervisor
#: run switch_acs machine=switch_acs
#: run switch_vm machine=switch cpu=max
#: run switch_iommu machine=switch_iommu boot=intel_iommu=on
#: run switch_pt machine=switch_iommu boot="intel_iommu=on iommu=pt"
#: run switch_off machine=switch_iommu boot=intel_iommu=off
#: run switch_acs_on machine=switch_acs_iommu boot=intel_iommu=on
#: run switch_acs_pt machine=switch_acs_iommu boot="intel_iommu=on iommu=pt"
#: run switch_acs_pt_zen machine=switch_acs_iommu boot="intel_iommu=on iommu=pt" cpu=EPYC,-hypervisor
#: run switch_acs_redir machine=switch_acs_iommu boot="iommu=pt pci=disable_acs_redir=pci:1b36:000c"
#: run one_group machine=one_group boot="intel_iommu=on iommu=pt"
#: run ports machine=ports
#: run ports_zen machine=ports cpu=EPYC,-hypervisor
#: run ports_iommu machine=ports_iommu boot=intel_iommu=on
#: run two_switches machine=two_switches
#: run nested machine=nested
#: run two_roots machine=two_roots
#: run bare machine=bare
#: run no_gpu machine=no_gpu
#: run cmb machine=cmb
#: run small_mdts machine=small_mdts
#: run two_ssds machine=two_ssds
#: run many machine=many

# Cards as their drivers leave them: decoding and mastering on. The kernel enables the bridges above.
for card in /sys/bus/pci/devices/*; do
    case $(cat "$card/class") in
    0x0108* | 0x0500*)
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

# shellcheck disable=SC2086  # options, one word each
{
    headrace topo --json $gpus >/tmp/live.json
    echo $? >/tmp/live.code
    headrace topo --json --mode vfio $gpus >/tmp/vfio.json
    headrace topo --capture /tmp/capture.txt
    lspci -vvvxxxx >/tmp/lspci.txt
}
for name in live.json live.code vfio.json capture.txt lspci.txt; do
    give $name /tmp/$name
done

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rule table, one row per rule. Rows of equal rank decide in table order, so the most specific
 * row comes first. `why` is the finding, `fix` a command or action, `source` the origin of the
 * rule.
 */
#include "pci/topo/rules/explain.h"
#include "pci/topo/rules/rules.h"

#define NOTE HR_VERDICTS
#define KERNEL "Linux drivers/pci/p2pdma.c"
#define QUIRKS "Linux drivers/pci/quirks.c"
#define PCIE "PCIe Base"

#define FN(name) .on_fn = hr_fn_##name
#define SYS(name) .scope = HR_ON_MACHINE, BOTH(ALL), .on_fn = hr_sys_##name
#define NEEDS(trait) .needs = HR_TRAIT_##trait
#define PAIR(name) .scope = HR_ON_PAIR, .on_pair = hr_pair_##name
#define BOTH(flows) .gpu_flows = (flows), .ssd_flows = (flows)

#define IOVA_FIX                                                                               \
	"only bus addresses go direct: iommu=pt{with_acs}, and a mode without VFIO; and with " \
	"VFIO "                                                                                \
	"keep "                                                                                \
	"IOVAs "                                                                               \
	"outside all bridge windows of the hierarchy, or a switch claims them"
#define ASK_HOST "ask the host: run headrace topo on the machine that owns the hardware"
#define SETPCI_ACS "setpci -s {bdf} ECAP_ACS+6.w=0:2c"

/* clang-format off */
const struct hr_rule hr_rules[] = {
	/* In a virtual machine the registers of ports are not those of the hardware. */
	{ .id = "R12-vm", SYS(hypervisor), .verdict = HR_UNKNOWN, .reason = "vm",
	  .why = "the CPU runs under a hypervisor: the bridges shown here may not exist",
	  .fix = ASK_HOST, .source = "cpuid" },
	{ .id = "R12-port", SYS(emulated), .verdict = HR_UNKNOWN, .reason = "vm",
	  .why = "{emulated}: emulated, so this is a virtual machine: the bridges shown here are "
		 "not those of the hardware",
	  .fix = ASK_HOST, .source = "QEMU docs/specs/pci-ids; PCI ID list" },
	{ .id = "R12", .scope = HR_ON_ENDS, BOTH(ALL), .verdict = HR_UNKNOWN, .reason = "vm",
	  FN(virtual),
	  .why = "{bdf}: an Express endpoint on a root bus: the topology is virtual",
	  .fix = ASK_HOST, .source = PCIE " 1.3" },

	/* A missing fact can only give UNKNOWN. */
	{ .id = "U1", .scope = HR_ON_ALL | HR_ON_COMMON, BOTH(ALL), .verdict = HR_UNKNOWN,
	  .reason = "priv",
	  FN(denied),
	  .why = "{bdf}: capabilities not readable (access denied)",
	  .fix = "run as root, or capture with: sudo lspci -vvvxxxx", .source = "lspci manual" },
	{ .id = "U2", .scope = HR_ON_ALL | HR_ON_COMMON, BOTH(ALL), .verdict = HR_UNKNOWN,
	  .reason = "dump",
	  FN(unread),
	  .why = "{bdf}: the input lacks its registers{lacks}",
	  .fix = "capture with: sudo lspci -vvvxxxx", .source = "lspci manual" },
	{ .id = "U3", .scope = HR_ON_PORT | HR_ON_COMMON, BOTH(ALL), .verdict = HR_UNKNOWN,
	  .reason = "acs", .where = HR_SAME_SWITCH, FN(acs_unread),
	  .why = "{bdf}: extended capabilities missing, so ACS is not known",
	  .fix = "capture with: sudo lspci -vvvxxxx", .source = PCIE " 7.7.11" },
	{ .id = "U4", PAIR(cut), NEEDS(ORPHAN), .verdict = HR_UNKNOWN, .reason = "dump",
	  .why = "the capture does not show which bridges are above {gpu} or {ssd}",
	  .fix = "capture the whole machine: sudo lspci -vvvxxxx, or add lspci -t to the list",
	  .source = "capture" },
	{ .id = "U5", PAIR(window_unread), NEEDS(WINDOW_UNREAD),
	  .verdict = HR_UNKNOWN, .reason = "window",
	  .why = "windows of a bridge on the path are not known",
	  .fix = "capture with: sudo lspci -vvvxxxx", .source = "PCI-to-PCI Bridge 1.2" },
	{ .id = "U9", PAIR(window_kinds), NEEDS(WINDOW_UNREAD),
	  .verdict = HR_UNKNOWN, .reason = "window",
	  .why = "a BAR is outside the windows above it: its address is the CPU's, those of windows "
		 "are bus addresses, and no constant between them fits all BARs",
	  .fix = "capture the registers: sudo lspci -vvvxxxx",
	  .source = "Linux drivers/pci/host-bridge.c" },
	{ .id = "U9-overlap", PAIR(overlap_unread), NEEDS(WINDOW_UNREAD),
	  .verdict = HR_UNKNOWN, .reason = "window",
	  .why = "a window above the initiator may contain the target's BAR: the bus address of the "
		 "BAR is not known exactly",
	  .fix = "capture the registers: sudo lspci -vvvxxxx",
	  .source = "Linux drivers/pci/host-bridge.c" },
	{ .id = "U6", PAIR(mps_unread), NEEDS(MPS_UNREAD), .verdict = HR_UNKNOWN, .reason = "mps",
	  .why = "payload size of a function on the path is not known",
	  .fix = "capture with: sudo lspci -vvvxxxx", .source = PCIE " 2.2.2" },

	{ .id = "U7", .scope = HR_ON_ENDS, BOTH(ALL), .verdict = HR_UNKNOWN, .reason = "dump",
	  FN(vf_unread),
	  .why = "{bdf}: a virtual function; the SR-IOV capability of its physical function is "
		 "not in the capture",
	  .fix = "capture the whole machine: sudo lspci -vvvxxxx", .source = PCIE " 9.3.3" },

	{ .id = "U8", PAIR(rc_unread), NEEDS(ROOT_UNREAD), .verdict = HR_UNKNOWN, .reason = "rc",
	  .why = "the data passes a root complex that the capture does not identify",
	  .fix = "capture with numbers: lspci -nn, better sudo lspci -vvvxxxx; headrace topo "
		 "--capture FILE on the machine states the CPU, too", .source = KERNEL },

	/* 4.3 The worst verdict first: data is lost without an error report. */
	{ .id = "I2", PAIR(silent), NEEDS(IOMMU_ON), .verdict = HR_SILENT_LOSS,
	  .why = "the IOMMU translates, raw bus addresses reach it and are dropped without an "
		 "error",
	  .fix = "boot with iommu=pt{with_acs} (or intel_iommu=off; amd_iommu=off leaves ACS set); "
		 "without reboot: unbind all drivers of the IOMMU groups N of both, then echo identity "
		 "> /sys/kernel/iommu_groups/N/type",
	  .source = "CUDA guide, IOMMU on Linux" },
	{ .id = "A14", PAIR(root_redirect), NEEDS(IOMMU_ON), .verdict = NOTE, .doubt = 2,
	  .why = "a root port redirects (RR) into a translating IOMMU: transfers have been observed "
		 "to hang",
	  .fix = "boot with iommu=pt, then setpci -s PORT ECAP_ACS+6.w=0:2c for each root port of the "
		 "pair: Linux sets RR and CR at each boot with an IOMMU",
	  .source = "NVIDIA/nccl issue 2079" },

	/* 4.1 routing and decode */
	{ .id = "R6-gone", .scope = HR_ON_ALL | HR_ON_ABOVE, BOTH(ALL), .verdict = HR_BLOCKED,
	  .reason = "gone",
	  FN(gone),
	  .why = "{bdf}: configuration space reads all ones",
	  .fix = "echo 1 > /sys/bus/pci/devices/{bdf}/remove; echo 1 > /sys/bus/pci/rescan",
	  .source = PCIE " 2.3.2" },
	{ .id = "R6", .scope = HR_ON_ALL | HR_ON_ABOVE, BOTH(ALL), .verdict = HR_BLOCKED,
	  .reason = "D3",
	  FN(sleeping),
	  .why = "{bdf}: in power state D{pm_state}",
	  .fix = "echo on > /sys/bus/pci/devices/{bdf}/power/control; setpci -s {bdf} "
		 "CAP_PM+4.w=0:3", .source = "PCI Power Management 1.2" },
	{ .id = "R7-dpc", .scope = HR_ON_PORT | HR_ON_ABOVE, BOTH(ALL), .verdict = HR_BLOCKED,
	  .reason = "contained", FN(dpc),
	  .why = "{bdf}: containment triggered (DPC status {dpc_status})",
	  .fix = "setpci -s {bdf} ECAP_DPC+8.w=1:1; echo 1 > /sys/bus/pci/rescan",
	  .source = PCIE " 7.9.14" },
	{ .id = "R7-link", .scope = HR_ON_PORT | HR_ON_ABOVE, BOTH(ALL), .verdict = HR_BLOCKED,
	  .reason = "contained", FN(link_down),
	  .why = "{bdf}: its link is down (DLActive 0)",
	  .fix = "{seat}setpci -s {bdf} CAP_EXP+10.w=20:20 to retrain",
	  .source = PCIE " 7.5.3.8" },
	{ .id = "R7-reset", .scope = HR_ON_PORT | HR_ON_ABOVE, BOTH(ALL), .verdict = HR_BLOCKED,
	  .reason = "contained", FN(in_reset),
	  .why = "{bdf}: secondary bus reset is held (bridge control {bridge_ctl})",
	  .fix = "setpci -s {bdf} BRIDGE_CONTROL=0:40; echo 1 > /sys/bus/pci/rescan",
	  .source = "PCI-to-PCI Bridge 1.2" },
	{ .id = "R9", .scope = HR_ON_GPU, BOTH(ALL), .verdict = HR_BLOCKED, .reason = "platform",
	  FN(unified),
	  .why = "{bdf}: memory is the CPU's; the vendor does not support peers here",
	  .fix = "use memory.path = \"bounce\": host memory is GPU memory on this platform",
	  .source = "NVIDIA: GPUDirect RDMA on DGX Spark" },
	{ .id = "R10", .scope = HR_ON_SSD, .ssd_flows = ALL, .verdict = HR_BLOCKED,
	  .reason = "vmd", FN(vmd),
	  .why = "{bdf}: behind Intel VMD (domain above ffff)",
	  .fix = "turn VMD off for this slot in the firmware setup", .source = "spdk issue 480" },
	{ .id = "R3-bar", .scope = HR_ON_ENDS, .gpu_flows = F2 | F3, .ssd_flows = F1 | F4,
	  .verdict = HR_BLOCKED, .reason = "window", FN(no_bar),
	  .why = "{bdf}: its memory BAR has no address",
	  .fix = "enable Above 4G Decoding in the firmware setup; try pci=realloc",
	  .source = "PCI Local Bus 3.0 6.2.5" },
	{ .id = "R3", PAIR(window), NEEDS(WINDOW_BREAK), .verdict = HR_BLOCKED, .reason = "window",
	  .why = "a bridge above the target does not decode the target's BAR",
	  .fix = "larger MMIO window in the firmware setup, Above 4G Decoding; try pci=realloc",
	  .source = "PCI-to-PCI Bridge 1.2" },
	{ .id = "R3-ht", PAIR(ht_window), NEEDS(HT), .verdict = HR_BLOCKED, .reason = "window",
	  .why = "the target's BAR is in 0xfd00000000-0xffffffffff, which AMD's IOMMU reserves for "
		 "HyperTransport: requests to it are not mapped",
	  .fix = "another MMIO base in the firmware setup, above 1 TiB or below 1012 GiB",
	  .source = "Linux drivers/iommu/amd/iommu.c" },
	{ .id = "R4", PAIR(overlap), .verdict = HR_BLOCKED, .reason = "overlap",
	  .why = "a bridge above the initiator claims the target's address for its own side",
	  .fix = "remove and rescan the bridge, or pci=realloc, so that windows are disjoint",
	  .source = "PCI-to-PCI Bridge 1.2" },
	{ .id = "R4-sibling", .scope = HR_ON_PORT | HR_ON_CLIMB, .gpu_flows = F2 | F3,
	  .ssd_flows = F1 | F4,
	  .verdict = HR_BLOCKED, .reason = "overlap", FN(overlaps),
	  .why = "{bdf}: its window overlaps that of another port on the same bus",
	  .fix = "remove and rescan the bridge, or pci=realloc, so that windows are disjoint",
	  .source = "PCI-to-PCI Bridge 1.2" },
	{ .id = "R5-bme", .scope = HR_ON_ALL, .gpu_flows = F1 | F4, .ssd_flows = F2 | F3,
	  .verdict = HR_BLOCKED, .reason = "disabled", FN(no_bme),
	  .why = "{bdf}: bus mastering is off (COMMAND {command})",
	  .fix = "setpci -s {bdf} COMMAND=0004:0004", .source = "PCI Local Bus 3.0 6.2.2" },
	{ .id = "R5-mse", .scope = HR_ON_ALL, .gpu_flows = F2 | F3, .ssd_flows = F1 | F4,
	  .verdict = HR_BLOCKED, .reason = "disabled", FN(no_mse),
	  .why = "{bdf}: memory decode is off (COMMAND {command})",
	  .fix = "setpci -s {bdf} COMMAND=0002:0002", .source = "PCI Local Bus 3.0 6.2.2" },
	{ .id = "R5-vf", .scope = HR_ON_ENDS, .gpu_flows = F2 | F3, .ssd_flows = F1 | F4,
	  .verdict = HR_BLOCKED, .reason = "disabled", FN(vf_no_mse),
	  .why = "{bdf}: memory decode of the virtual functions of {pf} is off",
	  .fix = "in /sys/bus/pci/devices/{pf}/sriov_numvfs: write 0, then the number of virtual "
		 "functions again", .source = PCIE " 9.3.3.3" },
	{ .id = "A9", .scope = HR_ON_PORT, BOTH(ALL), .verdict = HR_BLOCKED, .reason = "rc",
	  .where = HR_ACROSS, FN(no_peer),
	  .why = "{bdf}: this root port cannot forward to another one",
	  .fix = "put both cards below one switch", .source = QUIRKS },
	{ .id = "A4", PAIR(egress), NEEDS(EGRESS), .verdict = HR_BLOCKED, .reason = "acs-violation",
	  .why = "egress control forbids the path between the two ports, and no redirect is set",
	  .fix = "setpci -s {child} ECAP_ACS+6.w=0:20", .source = PCIE " 6.12.3" },
	{ .id = "A5", PAIR(blocking), NEEDS(BLOCKING), .verdict = HR_BLOCKED, .reason = "TB",
	  .why = "translation blocking above an initiator that uses ATS",
	  .fix = "setpci -s {child} ECAP_ACS+6.w=0:02, or turn ATS off (pci=noats)",
	  .source = PCIE " 6.12.1" },
	{ .id = "M1", PAIR(mps), NEEDS(MPS_DIFFER), .verdict = HR_BLOCKED, .reason = "mps",
	  .why = "{initiator} sends payloads of {mps_from} bytes, the path takes {mps_path}: "
		 "malformed TLP",
	  .fix = "boot with pci=pcie_bus_safe (or pcie_bus_peer2peer: 128 bytes for every "
		 "device of the machine, so all links lose rate), or lower all to the smallest: "
		 "setpci -s BDF CAP_EXP+8.w={mps_code}:00e0",
	  .source = PCIE " 2.2.2; Linux drivers/pci/probe.c" },
	{ .id = "M3", PAIR(tags), NEEDS(TAGS), .verdict = HR_BLOCKED, .reason = "tags",
	  .why = "10-bit tags are enabled at a requester whose completer does not support them",
	  .fix = "setpci -s {ssd} CAP_EXP+28.w=0:1000; setpci -s {gpu} CAP_EXP+28.w=0:1000",
	  .source = PCIE " 2.2.6.2" },
	{ .id = "I7", PAIR(vfio_kept_out), NEEDS(VFIO), .verdict = HR_VFIO_CONFLICT,
	  .why = "{blocker} (driver {blocker_driver}) is in the SSD's IOMMU group {group}: VFIO "
		 "cannot open it",
	  .fix = "in this order: unbind {blocker} or bind it to vfio-pci; separate ports; "
		 "iommu=pt{with_acs}, and mode gpu without VFIO; ACS on at boot and "
		 "cleared at run time (then the group is no longer isolated)",
	  .source = "Linux drivers/vfio" },
	{ .id = "I7-unread", PAIR(vfio_unread), NEEDS(VFIO), .verdict = HR_UNKNOWN, .reason = "acs",
	  .why = "the SSD's IOMMU group is not in the capture, and ACS was not read, which would "
		 "tell whether {blocker} (driver {blocker_driver}) is in it",
	  .fix = "capture with: sudo lspci -vvvxxxx", .source = "Linux drivers/vfio" },
	{ .id = "I2-unread", PAIR(iommu_unread), NEEDS(IOMMU_UNREAD),
	  .verdict = HR_UNKNOWN, .reason = "iommu",
	  .why = "an IOMMU is on or may be, and whether it translates is not in the "
		 "capture",
	  .fix = "on that machine cat /sys/kernel/iommu_groups/*/type: for identity give "
		 "--iommu=pt, for DMA or DMA-FQ --iommu=on",
	  .source = "Linux sysfs-kernel-iommu_groups" },
	{ .id = "H3-to", PAIR(timeouts), NEEDS(TIMEOUT),
	  .verdict = HR_WRITES_ONLY, .modifier = HR_MOD_ERRORS,
	  .why = "the requester has recorded a completion timeout: the root complex may drop peer "
		 "reads",
	  .fix = "clear it (setpci -s {ssd} ECAP_AER+4.l=4000:4000), " HR_COMPARE_DATA
		 ", and read it again",
	  .source = PCIE " 7.8.4.2" },

	/* Verdicts about the path. */
	{ .id = "R2", PAIR(rc_unlisted), .verdict = HR_RC_UNLISTED,
	  .why = "different root ports of a root complex that the kernel does not trust",
	  .fix = "{move}; else " HR_COMPARE_DATA "{slots}",
	  .source = KERNEL },
	{ .id = "I5", PAIR(iova_unlisted), NEEDS(IOVA), .verdict = HR_REDIR_UNLISTED,
	  .why = "one switch, but IOVAs climb to the IOMMU, in a root complex that the kernel does "
		 "not trust",
	  .fix = IOVA_FIX "; until then " HR_COMPARE_DATA, .source = "Linux drivers/vfio" },
	{ .id = "I5-listed", PAIR(iova_listed), NEEDS(IOVA), .verdict = HR_REDIR_LISTED,
	  .why = "one switch, but IOVAs climb to the IOMMU: works through the root complex and uses "
		 "the uplink twice", .fix = IOVA_FIX, .source = "Linux drivers/vfio" },
	{ .id = "A1", PAIR(redir_unlisted), NEEDS(REDIRECT), .verdict = HR_REDIR_UNLISTED,
	  .why = "one switch, but ACS redirects to a root complex that the kernel does not trust",
	  .fix = "pci=disable_acs_redir={acs_list} at boot; now: setpci -s BDF ECAP_ACS+6.w=0:2c; "
		 "else " HR_COMPARE_DATA,
	  .source = KERNEL },
	{ .id = "A1-listed", PAIR(redir_listed), NEEDS(REDIRECT), .verdict = HR_REDIR_LISTED,
	  .why = "one switch, but ACS redirects: works through the root complex, uses the uplink "
		 "twice",
	  .fix = "pci=disable_acs_redir={acs_list} at boot; now: setpci -s BDF ECAP_ACS+6.w=0:2c",
	  .source = KERNEL },
	{ .id = "R2-listed", PAIR(rc_listed), .verdict = HR_RC_LISTED,
	  .why = "different root ports of a root complex that the kernel trusts",
	  .fix = "{move} for full rate{slots}",
	  .source = KERNEL },
	{ .id = "R1", PAIR(direct), .verdict = HR_DIRECT,
	  .why = "one switch and no redirect on the path", .source = KERNEL },

	/* Modifiers: they add to the verdict and do not change it. */
	{ .id = "I1", PAIR(iommu_assumed), NEEDS(IOMMU_ASSUMED),
	  .verdict = NOTE, .doubt = 2, .modifier = HR_MOD_ASSUMED,
	  .why = "the IOMMU's mode is not in the capture: off or passthrough is assumed",
	  .fix = "give it with --iommu=off|pt|on", .source = "capture" },
	{ .id = "H1-width", .scope = HR_ON_ALL, BOTH(ALL), .verdict = NOTE,
	  .modifier = HR_MOD_LINK, FN(narrow),
	  .why = "{bdf}: link is x{link_width} of x{link_width_max}",
	  .fix = "{width_fix}", .source = PCIE " 7.5.3.8" },
	{ .id = "H1-speed", .scope = HR_ON_ALL, BOTH(ALL), .verdict = NOTE,
	  .modifier = HR_MOD_LINK, FN(slow),
	  .why = "{bdf}: link runs at {speed} GT/s of {speed_most} GT/s, below the speed that "
		 "both ends support",
	  .fix = "{speed_fix}",
	  .source = PCIE " 7.5.3.8" },
	{ .id = "M1-rc", PAIR(mps_rc), NEEDS(MPS_DIFFER),
	  .where = HR_ACROSS, .verdict = NOTE, .doubt = 2,
	  .modifier = HR_MOD_MPS,
	  .why = "payload sizes differ across root ports: the root complex may split, or not",
	  .fix = "boot with pci=pcie_bus_peer2peer: payloads of 128 bytes for every device of the "
		 "machine, so all links lose rate", .source = PCIE " 1.3.1" },
	{ .id = "H5", PAIR(numa), NEEDS(NODE), .verdict = NOTE, .modifier = HR_MOD_NUMA,
	  .why = "GPU and SSD belong to different NUMA nodes",
	  .fix = "move a card to the other socket, or set NPS1 in the firmware",
	  .source = "sysfs" },
	{ .id = "R11", .scope = HR_ON_PORT | HR_ON_CLIMB, BOTH(ALL), .verdict = NOTE,
	  .modifier = HR_MOD_PCH, FN(pch),
	  .why = "{bdf}: chipset port, shares the chipset's uplink",
	  .fix = "use a slot that is wired to the CPU", .source = QUIRKS },
	{ .id = "R8", .scope = HR_ON_GPU, .gpu_flows = F2 | F3, .verdict = NOTE, .doubt = 2,
	  .modifier = HR_MOD_WINDOW, FN(small_bar),
	  .why = "{bdf}: only {bar_size} of its memory is visible to peers{bar_able}",
	  .fix = "{bar_fix}",
	  .source = PCIE " 7.8.6" },
	{ .id = "S1", .scope = HR_ON_GPU, .gpu_flows = ALL, .verdict = NOTE, .doubt = 1,
	  .modifier = HR_MOD_SOFTWARE, FN(consumer),
	  .why = "{bdf}: a consumer card: NVIDIA supports GPUDirect RDMA and Storage on data-center "
		 "and professional GPUs only, so its driver may not give peers its memory",
	  .fix = "memory.path = \"bounce\" in the configuration, or a data-center or professional card",
	  .source = "NVIDIA GPUDirect RDMA guide" },
	{ .id = "S2", PAIR(no_cufile), NEEDS(CUFILE), .verdict = NOTE,
	  .why = "cuFile cannot go direct: nvidia-fs is not loaded or not known, and its P2PDMA mode "
		 "misses: {cufile}",
	  .fix = "{cufile_fix}",
	  .source = "NVIDIA GPUDirect Storage guide, NVMe P2PDMA" },
	{ .id = "M4", PAIR(order), NEEDS(MODE_HOST),
	  .verdict = NOTE, .doubt = 1, .modifier = HR_MOD_ORDER,
	  .why = "data goes to the peer, the completion entry to host memory: the order of arrival "
		 "is not defined",
	  .fix = "put the completion queue into the memory that gets the data, or flush",
	  .source = PCIE " 2.4.1" },
	{ .id = "H3-ue", .scope = HR_ON_ALL, BOTH(ALL), .verdict = NOTE, .doubt = 2,
	  .modifier = HR_MOD_ERRORS, FN(ue),
	  .why = "{bdf}: uncorrectable errors are recorded ({aer_uesta}: {ue_names})",
	  .fix = "record, clear (setpci -s {bdf} ECAP_AER+4.l={aer_uesta}), run, read again",
	  .source = PCIE " 7.8.4.2" },
	{ .id = "H3-ce", .scope = HR_ON_ALL, BOTH(ALL), .verdict = NOTE, .modifier = HR_MOD_ERRORS,
	  FN(ce),
	  .why = "{bdf}: correctable link errors are recorded ({aer_cesta})",
	  .fix = "clear (setpci -s {bdf} ECAP_AER+10.l=ffffffff), run, read again",
	  .source = PCIE " 7.8.4.5" },
	{ .id = "H3-count", .scope = HR_ON_ALL, BOTH(ALL), .verdict = NOTE, .doubt = 1,
	  .modifier = HR_MOD_ERRORS, FN(counted),
	  .why = "{bdf}: since boot the kernel counted {aer_fatal} fatal, {aer_nonfatal} nonfatal "
		 "and {aer_correctable} correctable errors here",
	  .fix = "run, and read aer_dev_fatal, aer_dev_nonfatal and aer_dev_correctable in "
		 "/sys/bus/pci/devices/{bdf} again", .source = "Linux drivers/pci/pcie/aer.c" },
	{ .id = "H4", .scope = HR_ON_ALL, BOTH(ALL), .verdict = NOTE, .doubt = 2,
	  .modifier = HR_MOD_ERRORS, FN(fatal),
	  .why = "{bdf}: a fatal error is recorded (DevSta {devsta})",
	  .fix = "setpci -s {bdf} CAP_EXP+a.w=4:4 clears it", .source = PCIE " 7.5.3.5" },

	/* Notes. */
	{ .id = "H1-tunnel", .scope = HR_ON_ALL, BOTH(ALL), .verdict = NOTE, FN(tunnel),
	  .why = "{bdf}: a Thunderbolt or USB4 tunnel is above it: the link registers show 2.5 GT/s "
		 "whatever the tunnel carries; the model is 2.5 to 3 GB/s",
	  .fix = "measure the rate", .source = "reports of owners" },
	{ .id = "H1-tunnel-other", .scope = HR_ON_ALL, BOTH(ALL), .verdict = NOTE,
	  FN(tunnel_other),
	  .why = "{bdf}: a tunnel between Thunderbolt controllers of another generation than 3, 4 "
		 "and USB4 is above it: its link registers do not show the rate, and no model does",
	  .fix = "measure the rate", .source = "captures" },
	{ .id = "H1-inside", .scope = HR_ON_GPU, BOTH(ALL), .verdict = NOTE, FN(inside),
	  .why = "{bdf}: its link register describes a link inside the card ({speed} GT/s "
		 "x{link_width}), which is no limit; the link of the card is that of {card_port}",
	  .source = "captures" },
	{ .id = "H1-idle", .scope = HR_ON_GPU | HR_ON_PORT, BOTH(ALL), .verdict = NOTE, FN(idle),
	  .why = "{bdf}: idle link speed ({speed} GT/s); the target speed is full",
	  .fix = "run headrace topo again under load", .source = PCIE " 7.5.3.19" },
	{ .id = "N1", .scope = HR_ON_ENDS, BOTH(ALL), .verdict = NOTE, FN(moved),
	  .why = "BARs of host bridge {host} are CPU addresses: bus address = CPU address - "
		 "{offset}", .source = "Linux drivers/pci/host-bridge.c" },
	{ .id = "A3", .scope = HR_ON_PORT | HR_ON_COMMON, BOTH(ALL), .verdict = NOTE,
	  FN(acs_harmless),
	  .why = "{bdf}: ACSCtl {acs_ctl} redirects nothing: harmless, but gdscheck and NCCL's "
		 "manual report it", .source = PCIE " 7.7.11" },
	{ .id = "A1-port", .scope = HR_ON_PORT | HR_ON_COMMON, BOTH(ALL), .where = HR_SAME_SWITCH,
	  .verdict = NOTE, .doubt = 2, FN(redirects),
	  .why = "{bdf}: ACSCtl {acs_ctl} redirects (RR, CR or EC)", .fix = SETPCI_ACS,
	  .source = PCIE " 6.12.1" },
	{ .id = "A4-unread", PAIR(egress_unread), NEEDS(EGRESS),
	  .where = HR_SAME_SWITCH, .verdict = HR_UNKNOWN,
	  .reason = "acs",
	  .why = "egress control is on and its vector is not known",
	  .fix = "capture with: sudo lspci -vvvxxxx", .source = PCIE " 6.12.3" },
	{ .id = "A5-unread", PAIR(blocking_unread), NEEDS(BLOCKING),
	  .verdict = HR_UNKNOWN, .reason = "ats",
	  .why = "a port above an initiator blocks translated requests, and the capture does not "
		 "say whether the initiator uses ATS",
	  .fix = "capture with: sudo lspci -vvvxxxx", .source = PCIE " 6.12.1" },
	{ .id = "M3-unread", PAIR(tags_unread), NEEDS(TAGS),
	  .verdict = HR_UNKNOWN, .reason = "tags",
	  .why = "10-bit tags: one side uses or may use them, the other does not support them or "
		 "its support is not known",
	  .fix = "capture with: sudo lspci -vvvxxxx", .source = PCIE " 2.2.6.2" },
	{ .id = "M3-unsaid", PAIR(tags_unsaid), NEEDS(TAGS), .verdict = NOTE, .doubt = 1,
	  .why = "the capture does not show 10-bit tags: rule M3 may apply",
	  .fix = "capture with: sudo lspci -vvvxxxx", .source = PCIE " 2.2.6.2" },
	{ .id = "A2", PAIR(stale), NEEDS(REDIRECT), .verdict = NOTE,
	  .why = "clearing redirect at boot starts from the firmware's ACS value, so bits that "
		 "the kernel sets (SV, UF) vanish too and IOMMU groups merge",
	  .source = "Linux drivers/pci/pci.c" },
	{ .id = "A15", PAIR(stale), NEEDS(REDIRECT), .verdict = NOTE,
	  .why = "some kernels set ACS again when a driver binds: read ACSCtl after that",
	  .source = "Linux drivers/pci/pci.c" },
	{ .id = "A17", PAIR(acs_assumed), NEEDS(ACS_ASSUMED),
	  .verdict = NOTE, .doubt = 2, .modifier = HR_MOD_ACS,
	  .why = "Linux has overwritten the firmware's value in ACSCtl of {acs_assumed}: no "
		 "redirect is assumed",
	  .fix = "boot with this command line, then look: sudo lspci -vvv",
	  .source = "Linux drivers/pci/pci.c" },
	{ .id = "A18", PAIR(boot_redirects), NEEDS(BOOT_REDIRECT), .verdict = NOTE,
	  .modifier = HR_MOD_BOOT,
	  .why = "a boot with an IOMMU on, passthrough or not, sets ACS redirect at {acs_boot}: the "
		 "pair is redirected then",
	  .fix = "add pci=disable_acs_redir={acs_boot}, which merges IOMMU groups; headrace topo "
		 "--what-if iommu=pt shows the rest", .source = "Linux drivers/pci/pci.c" },
	{ .id = "A6", PAIR(translated), NEEDS(TRANSLATED),
	  .verdict = NOTE, .doubt = 1, .recalled = true,
	  .why = "direct translated P2P and ATS on both sides: translated requests go direct in "
		 "spite of redirect", .source = PCIE " 6.12.2" },
	{ .id = "A7", .scope = HR_ON_PORT | HR_ON_COMMON, BOTH(ALL), .verdict = NOTE, .doubt = 1,
	  FN(acs_wide),
	  .why = "{bdf}: its ACS registers are 32 bits wide; control is at +8, lspci shows +6",
	  .fix = "setpci -s {bdf} ECAP_ACS+8.l=0:2c", .source = QUIRKS },
	{ .id = "A8", .scope = HR_ON_PORT, BOTH(ALL), .verdict = NOTE, .doubt = 1, .recalled = true,
	  FN(pch_no_acs),
	  .why = "{bdf}: chipset port without the capability; isolates through RCBA UPDCR",
	  .source = QUIRKS },
	{ .id = "R2-link", PAIR(switch_link), NEEDS(SWITCH_LINK), .verdict = NOTE,
	  .why = "two virtual switches of one switch, which its driver reports as linked: data may "
		 "stay inside it; the mainline kernel does not use the link",
	  .source = "NVIDIA/nccl, pci_switch_link" },
	{ .id = "R11-peer", PAIR(pch_peers), NEEDS(PCH),
	  .verdict = NOTE, .doubt = 1, .recalled = true,
	  .why = "both behind chipset ports, where the kernel may have turned peer decode off",
	  .fix = "use slots that are wired to the CPU", .source = QUIRKS },
	{ .id = "A10", .scope = HR_ON_PORT | HR_ON_COMMON, BOTH(ALL), .verdict = NOTE, .doubt = 2,
	  FN(pericom),
	  .why = "{bdf}: this switch breaks redirect unless it stores and forwards",
	  .source = QUIRKS },
	{ .id = "A11", .scope = HR_ON_PORT | HR_ON_COMMON, BOTH(ALL), .verdict = NOTE, .doubt = 2,
	  FN(idt),
	  .why = "{bdf}: source validation drops completions on this switch", .source = QUIRKS },
	{ .id = "A12", .scope = HR_ON_PORT | HR_ON_COMMON, BOTH(ALL), .verdict = NOTE, .doubt = 2,
	  FN(ntb),
	  .why = "{bdf}: proxies requester identifiers; the IOMMU needs aliases",
	  .source = QUIRKS },
	{ .id = "A13", .scope = HR_ON_PORT | HR_ON_COMMON, BOTH(ALL), .verdict = NOTE,
	  FN(amd_internal),
	  .why = "{bdf}: internal AMD bridge, cannot redirect", .source = "captures" },
	{ .id = "I7-note", PAIR(group_blocked), NEEDS(GROUP), .verdict = NOTE,
	  .why = "GPU (driver {gpu_driver}) and SSD share IOMMU group {group}: VFIO cannot "
		 "isolate them", .source = "Linux drivers/vfio" },
	{ .id = "I9", .scope = HR_ON_SSD, .ssd_flows = ALL, .verdict = NOTE, FN(group_unset),
	  .why = "{bdf}: no IOMMU group: VFIO needs enable_unsafe_noiommu_mode, which taints",
	  .source = "Linux drivers/vfio/Kconfig" },
	{ .id = "M2", .scope = HR_ON_SSD, .ssd_flows = F3, .verdict = NOTE, FN(low_mrrs),
	  .why = "{bdf}: reads of {mrrs} bytes at most make F3 inefficient",
	  .fix = "setpci -s {bdf} CAP_EXP+8.w=5000:7000", .source = PCIE " 7.5.3.4" },
	{ .id = "M4-ro", .scope = HR_ON_PORT, BOTH(ALL), .verdict = NOTE, FN(no_relaxed),
	  .why = "{bdf}: the kernel keeps relaxed ordering off below this port, because of an erratum: "
		 "a path through the root complex or to host memory may reach half of the rate, and "
		 "DevCtl bit 4 must stay 0 here",
	  .source = QUIRKS },
	{ .id = "M4-off", .scope = HR_ON_ENDS, BOTH(F2 | F3), .where = HR_ACROSS, .verdict = NOTE,
	  FN(ordered),
	  .why = "{bdf}: relaxed ordering is off (DevCtl bit 4, RlxdOrd-): a root complex that keeps "
		 "all writes in order may pass half of the rate, to peers and to host memory",
	  .fix = "compare rates with the bit set: setpci -s {bdf} CAP_EXP+8.w=10:10; data may then "
		 "arrive after the completion entry, so keep it only if the driver allows that",
	  .source = PCIE " 7.5.3.4" },
	{ .id = "M5", .scope = HR_ON_GPU, BOTH(ALL), .verdict = NOTE, FN(atomics),
	  .why = "{bdf}: its PCIe atomics do not reach the CPU: {atomics}; amdkfd may refuse the GPU "
		 "(dmesg: PCI rejects atomics), and ROCm kernels cannot use atomics on host memory or "
		 "on peers; copies between peers work",
	  .fix = "{atomics_fix}", .source = "Linux drivers/pci/pci.c" },
	{ .id = "H2", .scope = HR_ON_ENDS, BOTH(ALL), .verdict = NOTE, FN(aspm),
	  .why = "{bdf}: ASPM L1 is on: wake-up adds latency to the first transfer",
	  .fix = "setpci -s {bdf} CAP_EXP+10.w=0:3", .source = PCIE " 5.4.1" },
	{ .id = "H5-unread", PAIR(numa_unread), NEEDS(NODE_UNREAD), .verdict = NOTE,
	  .why = "NUMA nodes are not known: NODE may be SYS", .source = "sysfs" },
	{ .id = "H6-disk", .scope = HR_ON_SSD, .ssd_flows = ALL, .verdict = NOTE, FN(mounted),
	  .why = "{bdf}: a file system on it is mounted: --fix changes nothing on its path",
	  .source = "/proc/self/mountinfo" },
	{ .id = "H6-driver", .scope = HR_ON_GPU, .gpu_flows = ALL, .verdict = NOTE,
	  .modifier = HR_MOD_SOFTWARE, FN(no_driver),
	  .why = "{bdf}: no driver, or nouveau, is bound: neither gives peers the GPU's memory",
	  .fix = "install and bind the GPU vendor's driver", .source = "sysfs" },
	{ .id = "R10-raid", .scope = HR_ON_SSD, .ssd_flows = ALL, .verdict = HR_BLOCKED,
	  .reason = "raid", FN(raid),
	  .why = "{bdf}: a RAID controller, not an NVMe controller: its drives are hidden",
	  .fix = "name an NVMe controller; a chipset in RAID mode can be set to AHCI in the "
		 "firmware setup", .source = "captures" },
	{ .id = "R10-vmd", SYS(vmd), .verdict = NOTE,
	  .why = "{vmd}: Intel VMD: NVMe controllers behind it are hidden",
	  .fix = "turn VMD off for their slots in the firmware setup", .source = "spdk issue 480" },
	{ .id = "R10-card", SYS(raid), .verdict = NOTE, .loose = true,
	  .why = "{raid}: chipset in RAID mode: NVMe drives behind it are hidden and cannot be "
		 "peers",
	  .fix = "set the storage controller to AHCI in the firmware setup",
	  .source = "Linux drivers/ata/ahci.c" },
	{ .id = "Z1", SYS(zen_inferred), .verdict = NOTE, .doubt = 1,
	  .why = "the CPU is inferred to be AMD Zen from its root complex; the capture does not "
		 "state it",
	  .source = KERNEL },
	{ .id = "A16", SYS(lockdown), .verdict = NOTE,
	  .why = "kernel lockdown: setpci is refused, only boot parameters work",
	  .source = "kernel_lockdown(7)" },
	{ .id = "I3", SYS(many_cpus), .verdict = NOTE,
	  .why = "more than 255 CPUs: the IOMMU cannot be switched off (interrupt remapping)",
	  .fix = "use iommu=pt; Linux then sets ACS redirect at boot: add pci=disable_acs_redir= for "
		 "switch ports between GPUs and SSDs",
	  .source = "open-gpu-kernel-modules fork, issue 6" },
	{ .id = "I4", SYS(grace), .verdict = NOTE,
	  .why = "NVIDIA CPU: GPUDirect Storage requires the IOMMU on and passthrough off here",
	  .source = "NVIDIA GPUDirect Storage guide" },
	{ .id = "H7-noacs", SYS(noacs), .verdict = NOTE,
	  .why = "pci=noacs is no option of the kernel: it does nothing",
	  .fix = "pci=disable_acs_redir=BDF;BDF", .source = "Linux kernel-parameters" },
	{ .id = "H7-unknown", SYS(no_option), .verdict = NOTE,
	  .why = "a word of pci= on the command line is no option of the kernel: it does nothing",
	  .fix = "look it up in the kernel's admin-guide/kernel-parameters",
	  .source = "Linux kernel-parameters" },
	{ .id = "H7-on-off", SYS(on_and_off), .verdict = NOTE,
	  .why = "the command line turns the IOMMU on and off: the last word counts",
	  .fix = "keep one of them", .source = "Linux kernel-parameters" },
	{ .id = "H7-override", SYS(override), .verdict = NOTE,
	  .why = "pcie_acs_override= needs a patched kernel and reports isolation that does not exist",
	  .source = "Linux kernel-parameters" },
	{ .id = "H7-vendor", SYS(wrong_iommu), .verdict = NOTE,
	  .why = "the command line configures the IOMMU of another CPU vendor",
	  .source = "Linux kernel-parameters" },
	{ .id = "H7-two", SYS(two_iommu), .verdict = NOTE,
	  .why = "the command line turns passthrough both on and off",
	  .source = "Linux kernel-parameters" },
	{ .id = "H7-perf", SYS(perf), .verdict = NOTE, .doubt = 2,
	  .why = "pci=pcie_bus_perf sets payload sizes per device: unsafe for peers",
	  .fix = "pci=pcie_bus_safe, or pci=pcie_bus_peer2peer (payloads of 128 bytes for every "
		 "device: all links lose rate)",
	  .source = "Linux drivers/pci/probe.c" },
	{ .id = "H8", SYS(no_p2pdma), .verdict = NOTE,
	  .why = "the kernel is built without CONFIG_PCI_P2PDMA", .source = KERNEL },
};
/* clang-format on */

const unsigned hr_rules_count = sizeof hr_rules / sizeof *hr_rules;

_Static_assert(sizeof hr_rules / sizeof *hr_rules <= HR_RULES_MAX, "one bit a rule");

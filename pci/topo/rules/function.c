/* SPDX-License-Identifier: Apache-2.0 */
/* Conditions on one function, and on the whole machine; the latter ignore the function. */
#include "pci/topo/rules/rules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pci/topo/boot/boot.h"
#include "pci/topo/decode.h"
#include "pci/topo/fields.h"
#include "pci/topo/log/kernel_log.h"
#include "pci/topo/tables.h"
#include "pci/topo/resize.h"
#include "pci/topo/rules/software.h"
#include "pci/topo/model.h"

static bool is_device_kind(const struct hr_fn *f, enum hr_device_kind kind)
{
	return hr_device_is(hr_get(f, HR_F_VENDOR, 0), hr_get(f, HR_F_DEVICE, 0), kind);
}

/* ---- missing facts */

bool hr_fn_denied(const struct hr_topology *e, const struct hr_fn *f)
{
	return f->denied && !hr_known(f, HR_F_CAPS);
}

/* A text from which a filter removed the lines of all BARs does not show that a card has none. */
static bool lacks_bars(const struct hr_topology *e, const struct hr_fn *f)
{
	return !e->bars && f->fact[HR_F_COMMAND].source == HR_SRC_TEXT &&
	       (hr_is_gpu(f) || hr_is_nvme(f));
}

bool hr_fn_unread(const struct hr_topology *e, const struct hr_fn *f)
{
	if (hr_get(f, HR_F_GONE, 0))
		return false;
	if (f->disputed || !hr_known(f, HR_F_COMMAND) || hr_get(f, HR_F_CAPS, 0) == 2 ||
	    lacks_bars(e, f))
		return true;
	return !f->denied && !hr_known(f, HR_F_CAPS);
}

bool hr_fn_acs_unread(const struct hr_topology *e, const struct hr_fn *f)
{
	return e->derived[f - e->m->fn].acs_unknown && !hr_fn_denied(e, f) && !hr_fn_unread(e, f);
}

/* ---- decode and power */

/* A port without a function below it is an empty slot, not a fault. */
static bool is_empty(const struct hr_fn *f)
{
	return hr_is_bridge(f) && f->child == HR_NO_FN;
}

bool hr_fn_no_bme(const struct hr_topology *e, const struct hr_fn *f)
{
	return !is_empty(f) && hr_lacks(f, HR_F_COMMAND, HR_COMMAND_BME);
}

bool hr_fn_no_mse(const struct hr_topology *e, const struct hr_fn *f)
{
	return !is_empty(f) && !f->vf && hr_lacks(f, HR_F_COMMAND, HR_COMMAND_MSE);
}

/* VF MSE in the physical function controls memory decoding of all its virtual functions. */
bool hr_fn_vf_no_mse(const struct hr_topology *e, const struct hr_fn *f)
{
	return f->vf && !hr_virtual_decodes(e->m, f);
}

/* The address and the decoding of its BARs are unknown. */
bool hr_fn_vf_unread(const struct hr_topology *e, const struct hr_fn *f)
{
	return f->vf && !hr_get(f, HR_F_GONE, 0) && !hr_fn_denied(e, f) &&
	       (f->physfn == HR_NO_FN || !hr_known(&e->m->fn[f->physfn], HR_F_VF_CTL));
}

bool hr_fn_sleeping(const struct hr_topology *e, const struct hr_fn *f)
{
	return hr_get(f, HR_F_PM, 0) != 0;
}

bool hr_fn_gone(const struct hr_topology *e, const struct hr_fn *f)
{
	return hr_get(f, HR_F_GONE, 0) != 0;
}

bool hr_fn_dpc(const struct hr_topology *e, const struct hr_fn *f)
{
	return hr_has(f, HR_F_DPC, 1);
}

/* True when a function below the port has readable registers, so the link is up. */
static bool child_answers(const struct hr_topology *e, const struct hr_fn *f)
{
	const struct hr_fn *child = &e->m->fn[f->child];

	return hr_known(child, HR_F_COMMAND) && !hr_get(child, HR_F_GONE, 0);
}

/*
 * False for a port that reports neither card nor link although the card below answers: it does not
 * implement these bits. QEMU's ports do that while ACPI handles hot plug.
 */
bool hr_fn_link_down(const struct hr_topology *e, const struct hr_fn *f)
{
	uint32_t port = hr_get(f, HR_F_PORT, HR_PORT_ENDPOINT);

	if ((port != HR_PORT_ROOT && port != HR_PORT_DOWNSTREAM) || is_empty(f))
		return false;
	if (hr_lacks(f, HR_F_PRESENT, 1) && child_answers(e, f))
		return false;
	return hr_has(f, HR_F_LLACTREP, 1) && hr_lacks(f, HR_F_DLACTIVE, 1);
}

bool hr_fn_in_reset(const struct hr_topology *e, const struct hr_fn *f)
{
	return hr_is_bridge(f) && hr_has(f, HR_F_BRIDGE_CTL, HR_BRIDGE_CTL_SBR);
}

bool hr_fn_no_bar(const struct hr_topology *e, const struct hr_fn *f)
{
	int bar = hr_peer_bar(f);

	if (hr_get(f, HR_F_GONE, 0) || !hr_known(f, HR_F_COMMAND) || lacks_bars(e, f))
		return false;
	if (bar < 0 && f->vf && (hr_fn_vf_unread(e, f) || hr_fn_denied(e, f)))
		return false;
	return bar < 0 || f->bar[bar].flags & HR_BAR_UNASSIGNED;
}

bool hr_fn_small_bar(const struct hr_topology *e, const struct hr_fn *f)
{
	int bar = hr_peer_bar(f);

	return bar >= 0 && f->bar[bar].size_source > HR_SRC_INFERRED &&
	       (f->bar[bar].size <= 256u << 20 || f->bar[bar].size < hr_resize_most(&f->bar[bar]));
}

bool hr_fn_overlaps(const struct hr_topology *e, const struct hr_fn *f)
{
	return e->derived[f - e->m->fn].overlaps;
}

/* ---- platforms */

bool hr_fn_unified(const struct hr_topology *e, const struct hr_fn *f)
{
	uint32_t device = hr_get(f, HR_F_DEVICE, 0);

	if (hr_get(f, HR_F_VENDOR, 0x10de) != 0x10de)
		return false;
	return is_device_kind(f, HR_DEV_UNIFIED_GPU) ||
	       (hr_product_by_id(device) == HR_PRODUCT_UNKNOWN && hr_name_unified(f->name));
}

bool hr_fn_vmd(const struct hr_topology *e, const struct hr_fn *f)
{
	return f->domain >= 0x10000;
}

bool hr_fn_raid(const struct hr_topology *e, const struct hr_fn *f)
{
	return hr_get(f, HR_F_CLASS, 0) >> 8 == 0x0104;
}

bool hr_fn_pch(const struct hr_topology *e, const struct hr_fn *f)
{
	if (!hr_known(f, HR_F_DEVICE))
		return hr_is_bridge(f) && hr_name_chipset(hr_get(f, HR_F_VENDOR, 0), f->name);
	return is_device_kind(f, HR_DEV_PCH_PORT) || is_device_kind(f, HR_DEV_PCH_LATER) ||
	       is_device_kind(f, HR_DEV_CHIPSET_PORT);
}

bool hr_fn_no_peer(const struct hr_topology *e, const struct hr_fn *f)
{
	return f->parent == HR_NO_FN && is_device_kind(f, HR_DEV_NO_PEER_PORT) && !hr_has_acs(f) &&
	       e;
}

/* The BAR that peers address is shown by its CPU address, which is not the bus address. */
bool hr_fn_moved(const struct hr_topology *e, const struct hr_fn *f)
{
	return e->derived[f - e->m->fn].bar_offset != 0;
}

/* An Express endpoint cannot be on a real root bus, so the topology is virtual. */
bool hr_fn_virtual(const struct hr_topology *e, const struct hr_fn *f)
{
	uint32_t port = hr_get(f, HR_F_PORT, HR_PORT_RC_ENDPOINT);

	return e->opt.vm != HR_VM_IGNORE && f->parent == HR_NO_FN && !f->orphan &&
	       (port == HR_PORT_ENDPOINT || port == HR_PORT_LEGACY);
}

/* ---- ACS */

bool hr_fn_acs_harmless(const struct hr_topology *e, const struct hr_fn *f)
{
	uint32_t ctl = hr_get(f, HR_F_ACS_CTL, 0);

	return hr_has_acs(f) && ctl & (HR_ACS_SV | HR_ACS_TB | HR_ACS_UF) &&
	       !(ctl & HR_ACS_REDIRECT);
}

bool hr_fn_redirects(const struct hr_topology *e, const struct hr_fn *f)
{
	return e->derived[f - e->m->fn].redirect && hr_acs_counts(e, f);
}

bool hr_fn_acs_wide(const struct hr_topology *e, const struct hr_fn *f)
{
	return hr_get(f, HR_F_ACS, 0) &&
	       hr_acs_is_wide(hr_get(f, HR_F_VENDOR, 0), hr_get(f, HR_F_DEVICE, 0));
}

bool hr_fn_pch_no_acs(const struct hr_topology *e, const struct hr_fn *f)
{
	return is_device_kind(f, HR_DEV_PCH_PORT) && hr_known(f, HR_F_ACS) &&
	       hr_get(f, HR_F_ACS, 0) == 0;
}

bool hr_fn_pericom(const struct hr_topology *e, const struct hr_fn *f)
{
	return is_device_kind(f, HR_DEV_PERICOM);
}

bool hr_fn_idt(const struct hr_topology *e, const struct hr_fn *f)
{
	return is_device_kind(f, HR_DEV_IDT_SV);
}

bool hr_fn_ntb(const struct hr_topology *e, const struct hr_fn *f)
{
	return is_device_kind(f, HR_DEV_NTB) && e->iommu == HR_IOMMU_ON;
}

bool hr_fn_amd_internal(const struct hr_topology *e, const struct hr_fn *f)
{
	return is_device_kind(f, HR_DEV_AMD_INTERNAL);
}

/* ---- health */

bool hr_fn_ue(const struct hr_topology *e, const struct hr_fn *f)
{
	return hr_get(f, HR_F_UESTA, 0) &
	       (HR_UE_CMPLT_TIMEOUT | HR_UE_CMPLT_ABORT | HR_UE_MALFORMED | HR_UE_UNSUPPORTED |
		HR_UE_ACS_VIOLATION);
}

bool hr_fn_ce(const struct hr_topology *e, const struct hr_fn *f)
{
	return hr_get(f, HR_F_CESTA, 0) & 0x11c1;
}

/* A few correctable errors are normal retries of the link. */
bool hr_fn_counted(const struct hr_topology *e, const struct hr_fn *f)
{
	return hr_get(f, HR_F_AER_FATAL, 0) || hr_get(f, HR_F_AER_NONFATAL, 0) ||
	       hr_get(f, HR_F_AER_COR, 0) >= 100;
}

bool hr_fn_fatal(const struct hr_topology *e, const struct hr_fn *f)
{
	return hr_has(f, HR_F_DEVSTA, 0x4);
}

bool hr_fn_mounted(const struct hr_topology *e, const struct hr_fn *f)
{
	return hr_get(f, HR_F_MOUNTED, 0) != 0;
}

bool hr_fn_no_driver(const struct hr_topology *e, const struct hr_fn *f)
{
	return f->driver && (f->driver[0] == '\0' || strcmp(f->driver, "nouveau") == 0);
}

bool hr_fn_consumer(const struct hr_topology *e, const struct hr_fn *f)
{
	return hr_product_of(f) == HR_PRODUCT_CONSUMER;
}

bool hr_fn_group_unset(const struct hr_topology *e, const struct hr_fn *f)
{
	return hr_mode_is_vfio(e->opt.mode) && e->iommu == HR_IOMMU_OFF && !hr_known(f, HR_F_GROUP);
}

/* ---- the machine */

/* True when the kernel command line has this word. */
static bool has_word(const struct hr_topology *e, const char *word)
{
	const char *at = e->m->sys.cmdline;
	size_t n = strlen(word);

	while ((at = strstr(at, word))) {
		bool begins = at == e->m->sys.cmdline || at[-1] == ' ';

		if (begins && (at[n] == ' ' || at[n] == '\0' || word[n - 1] == '='))
			return true;
		at += n;
	}
	return false;
}

/* True when an option in the comma-separated list of any pci= word passes the test. */
static bool any_pci_option(const struct hr_topology *e,
			   bool (*test)(const char *option, size_t n, const char *name),
			   const char *name)
{
	const char *at = e->m->sys.cmdline;

	for (; *at; at += strcspn(at, " "), at += strspn(at, " ")) {
		const char *end = at + strcspn(at, " ");

		if (strncmp(at, "pci=", 4) != 0)
			continue;
		for (at += 4; at < end; at += strcspn(at, ", "), at += *at == ',')
			if (test(at, strcspn(at, "=, "), name))
				return true;
	}
	return false;
}

static bool is_named(const char *option, size_t n, const char *name)
{
	return strlen(name) == n && memcmp(option, name, n) == 0;
}

static bool has_pci_option(const struct hr_topology *e, const char *option)
{
	return any_pci_option(e, is_named, option);
}

/* Options of pci= in the kernel's parameter list, for all architectures. */
static bool is_no_option(const char *option, size_t n, const char *except)
{
	static const char known[] =
		" assign-busses bfsort big_root_window bios biosirq cbiosize cbmemsize "
		"check_enable_amd_mmconf conf1 conf2 config_acs disable_acs_redir earlydump "
		"ecrc force_floating hpbussize hpiosize hpmemsize hpmmioprefsize hpmmiosize "
		"ioapicreroute irqmask lastbus no_e820 noacpi noaer noari noats nobar "
		"nobfsort nobios nocrs nodomains noearly noioapicquirk noioapicreroute "
		"nomio nommconf nomsi norid norom notph off pcie_bus_peer2peer "
		"pcie_bus_perf pcie_bus_safe pcie_bus_tune_off pcie_scan_all pirqaddr "
		"realloc resource_alignment rom routeirq skip_isa_align use_crs use_e820 "
		"usepirqmask ";
	char word[32];

	if (n == 0 || is_named(option, n, except))
		return false;
	if (n + 3 > sizeof word)
		return true;
	snprintf(word, sizeof word, " %.*s ", (int)n, option);
	return !strstr(known, word);
}

bool hr_sys_lockdown(const struct hr_topology *e, const struct hr_fn *f)
{
	return e->m->sys.lockdown[0] && strcmp(e->m->sys.lockdown, "none") != 0;
}

bool hr_sys_many_cpus(const struct hr_topology *e, const struct hr_fn *f)
{
	return e->m->sys.cpus.source && e->m->sys.cpus.value > 255;
}

#define NVIDIA_CHIPSETS_END 0x1000u /* below: nForce chipsets and Tegra 2, 3 and 4 */

/*
 * True for the first function of a root bus that is a host bridge outside of nForce chipsets, or a
 * root port of a CPU. A GPU whose bridge is missing from the capture does not count.
 */
static bool is_nvidia_host(const struct hr_fn *f)
{
	if (hr_get(f, HR_F_VENDOR, 0) != 0x10de || f->orphan || f->parent != HR_NO_FN)
		return false;
	if (hr_get(f, HR_F_CLASS, 0) >> 8 == 0x0600)
		return hr_get(f, HR_F_DEVICE, 0) >= NVIDIA_CHIPSETS_END;
	return hr_is_bridge(f) && is_device_kind(f, HR_DEV_NVIDIA_CPU);
}

bool hr_sys_grace(const struct hr_topology *e, const struct hr_fn *f)
{
	if (e->m->sys.amd.source) /* the vendor is one of x86 */
		return false;
	for (uint32_t i = 0; i < e->m->root_buses; i++)
		if (is_nvidia_host(&e->m->fn[e->m->root_bus[i].first]))
			return true;
	return false;
}

bool hr_sys_noacs(const struct hr_topology *e, const struct hr_fn *f)
{
	return has_pci_option(e, "noacs");
}

/* noacs is excluded, because it has a rule of its own. */
bool hr_sys_no_option(const struct hr_topology *e, const struct hr_fn *f)
{
	return any_pci_option(e, is_no_option, "noacs");
}

bool hr_sys_override(const struct hr_topology *e, const struct hr_fn *f)
{
	return has_word(e, "pcie_acs_override=");
}

bool hr_sys_wrong_iommu(const struct hr_topology *e, const struct hr_fn *f)
{
	const struct hr_fact *amd = &e->m->sys.amd;

	return amd->source && has_word(e, amd->value ? "intel_iommu=" : "amd_iommu=");
}

bool hr_sys_two_iommu(const struct hr_topology *e, const struct hr_fn *f)
{
	const char *first = strstr(e->m->sys.cmdline, "iommu=pt");

	return first && has_word(e, "iommu=pt") &&
	       (has_word(e, "iommu=off") || has_word(e, "iommu.passthrough=0") ||
		has_word(e, "iommu=nopt"));
}

bool hr_sys_on_and_off(const struct hr_topology *e, const struct hr_fn *f)
{
	return (has_word(e, "intel_iommu=on") && has_word(e, "intel_iommu=off")) ||
	       (has_word(e, "amd_iommu=force_enable") && has_word(e, "amd_iommu=off"));
}

bool hr_sys_no_p2pdma(const struct hr_topology *e, const struct hr_fn *f)
{
	return e->m->sys.p2pdma.source && e->m->sys.p2pdma.value == 0;
}

bool hr_sys_hypervisor(const struct hr_topology *e, const struct hr_fn *f)
{
	return e->opt.vm != HR_VM_IGNORE && e->m->sys.hypervisor.source &&
	       e->m->sys.hypervisor.value;
}

bool hr_sys_emulated(const struct hr_topology *e, const struct hr_fn *f)
{
	return e->emulated != HR_NO_FN;
}

bool hr_sys_perf(const struct hr_topology *e, const struct hr_fn *f)
{
	return has_pci_option(e, "pcie_bus_perf");
}

bool hr_sys_zen_inferred(const struct hr_topology *e, const struct hr_fn *f)
{
	return e->zen && e->zen_inferred;
}

/* True when the last word with that beginning has `value` among its comma-separated values. */
static bool last_word_lists(const char *cmdline, const char *word, const char *value)
{
	const size_t n = strlen(word), v = strlen(value);
	bool has = false;

	for (const char *at = cmdline; (at = strstr(at, word)); at += n) {
		const char *end = at + strcspn(at, " ");

		if (at != cmdline && at[-1] != ' ')
			continue;
		has = false;
		for (const char *one = at + n; one < end; one += strcspn(one, ", ") + 1)
			has |= strncmp(one, value, v) == 0 && strchr(", ", one[v]);
	}
	return has;
}

/* Not a rule: the command line turns the IOMMU on and does not select passthrough. */
bool hr_sys_iommu_wanted(const struct hr_topology *e, const struct hr_fn *f)
{
	const char *cmdline = e->m->sys.cmdline;
	const int passthrough = hr_cmdline_passthrough(cmdline);

	return passthrough != 1 && !has_word(e, "iommu=off") &&
	       (last_word_lists(cmdline, "intel_iommu=", "on") ||
		last_word_lists(cmdline, "amd_iommu=", "on") ||
		last_word_lists(cmdline, "amd_iommu=", "force_enable") ||
		has_word(e, "iommu=force") || passthrough == 0 ||
		(e->m->iommu_log && e->m->iommu_log->asked.line));
}

/* The name identifies the controller in a text without numbers. */
static bool is_vmd(const struct hr_fn *f)
{
	return is_device_kind(f, HR_DEV_VMD) ||
	       (!hr_known(f, HR_F_DEVICE) && strstr(f->name, HR_NAME_VMD));
}

int32_t hr_hidden_by(const struct hr_topology *e, bool vmd)
{
	int32_t found = HR_NO_FN;

	for (uint32_t i = 0; i < e->m->count; i++) {
		const struct hr_fn *f = &e->m->fn[i];

		/* A machine that shows such drives does not hide them. */
		if (vmd ? f->domain >= 0x10000 : hr_is_nvme(f))
			return HR_NO_FN;
		if (found == HR_NO_FN &&
		    (vmd ? is_vmd(f) : hr_fn_raid(e, f) && is_device_kind(f, HR_DEV_HIDES_NVME)))
			found = (int32_t)i;
	}
	return found;
}

bool hr_sys_vmd(const struct hr_topology *e, const struct hr_fn *f)
{
	return hr_hidden_by(e, true) != HR_NO_FN;
}

bool hr_sys_raid(const struct hr_topology *e, const struct hr_fn *f)
{
	return hr_hidden_by(e, false) != HR_NO_FN;
}

/* Not a rule: passthrough by the command line, for a mode that sysfs does not show. */
bool hr_sys_passthrough(const struct hr_topology *e, const struct hr_fn *f)
{
	return hr_cmdline_passthrough(e->m->sys.cmdline) == 1;
}

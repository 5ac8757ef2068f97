/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes facts from the text of lspci -v. The spelling has changed over twenty years of pciutils. An
 * unknown line states no fact.
 */
#include "pci/topo/lspci/text.h"

#include "pci/topo/lspci/line.h"

#include "pci/topo/decode.h"
#include "pci/topo/fields.h"

static void on_control(const struct line *l)
{
	static const struct flag_name names[] = { { " Mem", HR_COMMAND_MSE },
						  { "BusMaster", HR_COMMAND_BME },
						  { NULL, 0 } };

	set_flags(l, HR_F_COMMAND, names);
}

static void on_status(const struct line *l)
{
	static const struct flag_name names[] = { { " Cap", HR_STATUS_CAPS }, { NULL, 0 } };
	const char *state;

	if (l->state->section == SEC_NONE)
		set_flags(l, HR_F_STATUS, names);
	state = after(l->at, "Status: D");
	if (l->state->section == SEC_PM && state && *state >= '0' && *state <= '3')
		set(l, HR_F_PM, (uint32_t)(*state - '0'));
}

static void on_all_ones(const struct line *l)
{
	set(l, HR_F_GONE, 1);
}

static void on_bus(const struct line *l)
{
	set(l, HR_F_HEADER, hr_get(l->f, HR_F_HEADER, 0) | 1);
	set_number(l, "primary=", 16, HR_F_PRIMARY);
	set_number(l, "secondary=", 16, HR_F_SECONDARY);
	set_number(l, "subordinate=", 16, HR_F_SUBORDINATE);
}

/* "be000000-c01fffff [size=34M]", "None" or "[disabled]" after the colon. */
static void set_window(const struct line *l, struct hr_window *window)
{
	const char *at = strchr(l->at, ':');
	char *end;
	uint64_t base, limit;

	if (!at || window->source > HR_SRC_TEXT)
		return;
	base = strtoull(at + 1, &end, 16);
	if (*end == '-' && end != at + 1) {
		const char *from = end + 1;

		limit = strtoull(from, &end, 16);
		if (end == from)
			return;
	} else if (strstr(at, "None") || strstr(at, "disabled")) {
		base = 1;
		limit = 0;
	} else {
		return;
	}
	*window = (struct hr_window){ base, limit, HR_SRC_TEXT };
	if (strstr(at, "[disabled]"))
		*window = (struct hr_window){ 1, 0, HR_SRC_TEXT };
}

/* Versions that print "[32-bit]" also print windows that are closed. */
static void on_any_window(const struct line *l)
{
	l->state->windows = true;
	l->state->window_bits |= strstr(l->at, "-bit]") != NULL;
}

static void on_memory_window(const struct line *l)
{
	on_any_window(l);
	set_window(l, &l->f->mem);
}

static void on_prefetch_window(const struct line *l)
{
	on_any_window(l);
	set_window(l, &l->f->pref);
}

static void on_bridge_ctl(const struct line *l)
{
	static const struct flag_name names[] = { { ">Reset", HR_BRIDGE_CTL_SBR }, { NULL, 0 } };

	set_flags(l, HR_F_BRIDGE_CTL, names);
}

/* "Flags: bus master, fast devsel, latency 0, IRQ 32, NUMA node 0, IOMMU group 20" */
static void on_flags(const struct line *l)
{
	if (l->state->section != SEC_NONE || !strstr(l->at, "devsel"))
		return;
	l->state->flags = true;
	l->state->bus_master = strstr(l->at, "bus master") != NULL;
	set_number(l, "NUMA node ", 10, HR_F_NUMA);
	set_number(l, "IOMMU group ", 10, HR_F_GROUP);
}

/* "Subsystem: Red Hat, Inc. QEMU Virtual Machine [1af4:1100]", whatever device QEMU emulates */
static void on_subsystem(const struct line *l)
{
	if (strcasestr(l->at, "Qemu virtual machine") || strstr(l->at, "1af4:1100"))
		hr_fact_set(&l->m->sys.hypervisor, 1, HR_SRC_TEXT);
}

static void on_numa(const struct line *l)
{
	set_number(l, "NUMA node: ", 10, HR_F_NUMA);
}

static void on_group(const struct line *l)
{
	set_number(l, "IOMMU group: ", 10, HR_F_GROUP);
}

static void on_slot(const struct line *l)
{
	const char *at = after(l->at, "Physical Slot: ");

	if (at)
		l->f->pci_slot = hr_model_word(l->m, at, strlen(at));
}

static void on_driver(const struct line *l)
{
	const char *at = after(l->at, "Kernel driver in use: ");

	if (at)
		l->f->driver = hr_model_word(l->m, at, strlen(at));
}

/* 2.5GT/s .. 64GT/s as the register's code; 0: another text. */
static uint32_t speed_code(const char *text)
{
	static const char *const speed[] = { "2.5GT/s", "5GT/s",  "8GT/s",
					     "16GT/s",	"32GT/s", "64GT/s" };

	for (uint32_t i = 0; text && i < sizeof speed / sizeof *speed; i++)
		if (starts(text, speed[i]))
			return i + 1;
	return 0;
}

static void set_speed(const struct line *l, const char *word, enum hr_fact_id id)
{
	uint32_t code = speed_code(after(l->at, word));

	if (code)
		set(l, id, code);
}

static void on_lnkcap(const struct line *l)
{
	set_speed(l, "Speed ", HR_F_SPEED_MAX);
	set_number(l, "Width x", 10, HR_F_WIDTH_MAX);
}

static void on_lnksta(const struct line *l)
{
	set_speed(l, "Speed ", HR_F_SPEED);
	set_number(l, "Width x", 10, HR_F_WIDTH);
}

static void on_target_speed(const struct line *l)
{
	set_speed(l, "Target Link Speed: ", HR_F_SPEED_TARGET);
}

/* DevCap and DevCtl both print MaxPayload; only DevCtl prints a read request size. */
static void on_payload(const struct line *l)
{
	bool control = strstr(l->at, "MaxReadReq") != NULL;

	set_number(l, "MaxPayload ", 10, control ? HR_F_MPS : HR_F_MPSS);
	if (control)
		set_number(l, "MaxReadReq ", 10, HR_F_MRRS);
}

/* Older lspci versions print the requester's capability, but not the enable bit. */
static void on_tags(const struct line *l)
{
	static const struct flag_name able[] = { { "10BitTagComp", HR_DEVCAP2_TAG10_COMP },
						 { "10BitTagReq", HR_DEVCAP2_TAG10_REQ },
						 { NULL, 0 } };
	static const struct flag_name on[] = { { "10BitTagReq", HR_DEVCTL2_TAG10_ENABLE },
					       { NULL, 0 } };

	if (starts(l->at, "DevC") || starts(l->at, "Lnk"))
		l->state->control2 = starts(l->at, "DevCtl2:");
	if (l->state->control2)
		set_flags(l, HR_F_DEVCTL2, on);
	else
		set_flags(l, HR_F_DEVCAP2, able);
}

static void on_atomic_cap(const struct line *l)
{
	static const struct flag_name names[] = { { "Routing", HR_DEVCAP2_ATOMIC_ROUTE },
						  { "32bit", HR_DEVCAP2_ATOMIC_32 },
						  { "64bit", HR_DEVCAP2_ATOMIC_64 },
						  { "128bitCAS", HR_DEVCAP2_ATOMIC_128 },
						  { NULL, 0 } };

	set_flags(l, HR_F_ATOMIC_CAP, names);
}

static void on_atomic_ctl(const struct line *l)
{
	static const struct flag_name names[] = { { "ReqEn", HR_DEVCTL2_ATOMIC_ENABLE },
						  { "EgressBlck", HR_DEVCTL2_ATOMIC_BLOCK },
						  { NULL, 0 } };

	set_flags(l, HR_F_ATOMIC_CTL, names);
}

static void on_device_status(const struct line *l)
{
	static const struct flag_name names[] = {
		{ "CorrErr", 0x1 }, { "NonFatalErr", 0x2 }, { " FatalErr", 0x4 }, { NULL, 0 }
	};

	set_flags(l, HR_F_DEVSTA, names);
}

static void on_dlactive(const struct line *l)
{
	static const struct flag_name active[] = { { "DLActive", 1 }, { NULL, 0 } };

	set_flags(l, HR_F_DLACTIVE, active);
}

static void on_llactrep(const struct line *l)
{
	static const struct flag_name names[] = { { "LLActRep", 1 }, { NULL, 0 } };

	set_flags(l, HR_F_LLACTREP, names);
}

static void on_slot_status(const struct line *l)
{
	static const struct flag_name names[] = { { "PresDet", 1 }, { NULL, 0 } };

	set_flags(l, HR_F_PRESENT, names);
}

static void on_lnkctl(const struct line *l)
{
	const char *at = after(l->at, "ASPM ");

	if (!at)
		return;
	set(l, HR_F_ASPM,
	    starts(at, "Disabled") ? 0u
				   : (strstr(at, "L0s") ? 1u : 0u) | (strstr(at, "L1") ? 2u : 0u));
}

static void on_relaxed(const struct line *l)
{
	static const struct flag_name names[] = { { "RlxdOrd", HR_DEVCTL_RO }, { NULL, 0 } };

	set_flags(l, HR_F_DEVCTL, names);
}

static const struct flag_name acs_names[] = {
	{ "SrcValid", HR_ACS_SV },    { "TransBlk", HR_ACS_TB },
	{ "ReqRedir", HR_ACS_RR },    { "CmpltRedir", HR_ACS_CR },
	{ "UpstreamFwd", HR_ACS_UF }, { "EgressCtrl", HR_ACS_EC },
	{ "DirectTrans", HR_ACS_DT }, { NULL, 0 }
};

static void on_acscap(const struct line *l)
{
	set_flags(l, HR_F_ACS_CAP, acs_names);
}

/* For the ports of rule A7 lspci prints the wrong register, so the line states no fact. */
static void on_acsctl(const struct line *l)
{
	if (!hr_acs_is_wide(hr_get(l->f, HR_F_VENDOR, 0), hr_get(l->f, HR_F_DEVICE, 0)))
		set_flags(l, HR_F_ACS_CTL, acs_names);
}

static void on_uesta(const struct line *l)
{
	static const struct flag_name names[] = {
		{ "CmpltTO", HR_UE_CMPLT_TIMEOUT }, { "CmpltAbrt", HR_UE_CMPLT_ABORT },
		{ "MalfTLP", HR_UE_MALFORMED },	    { "UnsupReq", HR_UE_UNSUPPORTED },
		{ "ACSViol", HR_UE_ACS_VIOLATION }, { NULL, 0 }
	};

	set_flags(l, HR_F_UESTA, names);
}

static void on_cesta(const struct line *l)
{
	static const struct flag_name names[] = { { "RxErr", 0x1 },	 { "BadTLP", 0x40 },
						  { "BadDLLP", 0x80 },	 { "Rollover", 0x100 },
						  { "Timeout", 0x1000 }, { NULL, 0 } };

	set_flags(l, HR_F_CESTA, names);
}

static void on_ats(const struct line *l)
{
	static const struct flag_name names[] = { { "Enable", HR_ATS_ENABLE }, { NULL, 0 } };

	set_flags(l, HR_F_ATS_CTL, names);
}

static void on_dpc(const struct line *l)
{
	static const struct flag_name names[] = { { "Trigger", 1 }, { NULL, 0 } };

	set_flags(l, HR_F_DPC, names);
}

static void express_type(const struct line *l)
{
	static const struct {
		const char *name;
		uint32_t type;
	} types[] = { { "Root Port", HR_PORT_ROOT },
		      { "Upstream Port", HR_PORT_UPSTREAM },
		      { "Downstream Port", HR_PORT_DOWNSTREAM },
		      { "PCI/PCI-X to PCI-Express", HR_PORT_FROM_PCI },
		      { "PCI-Express to PCI", HR_PORT_TO_PCI },
		      { "Root Complex Integrated Endpoint", HR_PORT_RC_ENDPOINT },
		      { "Root Complex Event Collector", HR_PORT_RC_EVENTS },
		      { "Legacy Endpoint", HR_PORT_LEGACY },
		      { "Endpoint", HR_PORT_ENDPOINT } };

	for (unsigned i = 0; i < sizeof types / sizeof *types; i++)
		if (strstr(l->at, types[i].name)) {
			set(l, HR_F_PORT, types[i].type);
			return;
		}
}

static void on_capability(const struct line *l)
{
	static const struct {
		const char *name;
		unsigned section;
	} sections[] = { { "Express", SEC_EXP },
			 { "Power Management", SEC_PM },
			 { "Access Control Services", SEC_ACS },
			 { "Advanced Error Reporting", SEC_AER },
			 { "Address Translation Service", SEC_ATS },
			 { "Downstream Port Containment", SEC_DPC },
			 { "Virtual Resizable BAR", SEC_VF_REBAR },
			 { "Resizable BAR", SEC_REBAR },
			 { "Single Root I/O Virtualization", SEC_SRIOV } };
	uint64_t offset;

	l->state->section = SEC_OTHER;
	if (strstr(l->at, "<access denied>")) {
		l->state->denied = true;
		return;
	}
	if (!number(l->at, "Capabilities: [", 16, &offset) || offset >= HR_CFG_EXTENDED)
		return;
	l->state->saw_caps = true;
	l->state->saw_ecaps |= offset >= HR_CFG_CONV;
	for (unsigned i = 0; i < sizeof sections / sizeof *sections; i++)
		if (strstr(l->at, sections[i].name)) {
			l->state->section = sections[i].section;
			break;
		}
	if (strstr(l->at, "Vendor Specific Information: ID=1234") &&
	    hr_get(l->f, HR_F_VENDOR, 0) == 0x8086)
		set(l, HR_F_TUNNEL, 1);
	if (l->state->section == SEC_EXP && offset < HR_CFG_CONV) {
		set(l, HR_F_EXP, (uint32_t)offset);
		express_type(l);
		if (strstr(l->at, "(Slot"))
			set(l, HR_F_SLOT_IMPL, strstr(l->at, "(Slot+)") != NULL);
		/* Version 1 of the capability has no second half, so its features are off. */
		if (strstr(l->at, "(v1)")) {
			hr_fn_set(l->f, HR_F_DEVCAP2, 0, HR_SRC_INFERRED);
			hr_fn_set(l->f, HR_F_DEVCTL2, 0, HR_SRC_INFERRED);
		}
	}
	if (l->state->section == SEC_ACS)
		set(l, HR_F_ACS, (uint32_t)offset);
	if (l->state->section == SEC_ATS)
		set(l, HR_F_ATS, (uint32_t)offset);
	if (l->state->section == SEC_SRIOV)
		set(l, HR_F_SRIOV, (uint32_t)offset);
	if (l->state->section == SEC_REBAR)
		set(l, HR_F_REBAR, (uint32_t)offset);
}

static const struct {
	const char *start;
	void (*take)(const struct line *l);
} lines[] = {
	{ "!!! Unknown header type 7f", on_all_ones },
	{ "Capabilities: ", on_capability },
	{ "Control: I/O", on_control },
	{ "Status: ", on_status },
	{ "Subsystem: ", on_subsystem },
	{ "Flags: ", on_flags },
	{ "Memory at ", hr_text_memory },
	{ "[virtual] Memory at ", hr_text_memory },
	{ "I/O ports at ", hr_text_ports },
	{ "[virtual] I/O ports at ", hr_text_ports },
	{ "Bus: primary=", on_bus },
	{ "I/O behind bridge:", on_any_window },
	{ "Memory behind bridge:", on_memory_window },
	{ "Prefetchable memory behind bridge:", on_prefetch_window },
	{ "BridgeCtl:", on_bridge_ctl },
	{ "Region ", hr_text_region },
	{ "NUMA node: ", on_numa },
	{ "IOMMU group: ", on_group },
	{ "Physical Slot: ", on_slot },
	{ "Kernel driver in use: ", on_driver },
	{ "LnkCap:", on_lnkcap },
	{ "LnkSta:", on_lnksta },
	{ "LnkCtl:", on_lnkctl },
	{ "LnkCtl2:", on_target_speed },
	{ "SltSta:", on_slot_status },
	{ "DevCap:", on_payload },
	{ "MaxPayload ", on_payload },
	{ "AtomicOpsCap:", on_atomic_cap },
	{ "AtomicOpsCtl:", on_atomic_ctl },
	{ "DevSta:", on_device_status },
	{ "RlxdOrd", on_relaxed },
	{ "ACSCap:", on_acscap },
	{ "ACSCtl:", on_acsctl },
	{ "UESta:", on_uesta },
	{ "CESta:", on_cesta },
	{ "ATSCtl:", on_ats },
	{ "DpcSta:", on_dpc },
	{ "BAR ", hr_text_rebar },
};

bool hr_text_is_line(const char *line)
{
	static const char *const others[] = { "DeviceName:",	    "Latency:",
					      "Interrupt:",	    "Expansion ROM ",
					      "Kernel modules:",    "Secondary status:",
					      "I/O behind bridge:", "Region ",
					      "[virtual] Expansion" };

	for (unsigned i = 0; i < sizeof others / sizeof *others; i++)
		if (starts(line, others[i]))
			return true;
	for (unsigned i = 0; i < sizeof lines / sizeof *lines; i++)
		if (starts(line, lines[i].start))
			return true;
	return false;
}

void hr_lspci_text_line(struct hr_model *m, struct hr_fn *f, struct hr_lspci_state *state,
			const char *text, size_t length)
{
	struct line l = { m, f, state, text };

	for (unsigned i = 0; i < sizeof lines / sizeof *lines; i++)
		if (starts(text, lines[i].start)) {
			lines[i].take(&l);
			break;
		}
	if (state->section == SEC_SRIOV)
		hr_text_sriov(&l);
	if (state->section == SEC_EXP) {
		on_dlactive(&l);
		on_llactrep(&l);
		on_tags(&l);
	}
}

/*
 * The command register from lspci -v. Memory decoding shows at regions only. A bridge whose windows
 * are set decodes them: firmware and Linux turn on both together.
 */
static void end_flags(struct hr_fn *f, const struct hr_lspci_state *state)
{
	uint32_t command = state->bus_master ? HR_COMMAND_BME : 0;

	if (!state->flags)
		return;
	if (state->memory_on || (hr_is_bridge(f) && !state->memory_off))
		command |= HR_COMMAND_MSE;
	else if (!state->memory_off && !state->saw_virtual)
		return;
	hr_fn_set(f, HR_F_COMMAND, command, state->memory_on ? HR_SRC_TEXT : HR_SRC_INFERRED);
}

/* Until pciutils 3.6, -v and -vv omit windows that are closed. */
static void end_windows(struct hr_fn *f, const struct hr_lspci_state *state)
{
	const struct hr_window closed = { 1, 0, HR_SRC_INFERRED };

	if (!state->windows || state->window_bits)
		return;
	if (f->mem.source == HR_SRC_NONE)
		f->mem = closed;
	if (f->pref.source == HR_SRC_NONE)
		f->pref = closed;
}

void hr_lspci_text_end(struct hr_fn *f, const struct hr_lspci_state *state)
{
	end_flags(f, state);
	end_windows(f, state);
	f->vf_maybe = state->saw_virtual && hr_lacks(f, HR_F_COMMAND, HR_COMMAND_MSE);
	if (state->denied) {
		f->denied = true;
		return;
	}
	if (!state->saw_caps)
		return;
	hr_fn_set(f, HR_F_CAPS, 1, HR_SRC_TEXT);
	if (!hr_known(f, HR_F_EXP))
		hr_fn_set(f, HR_F_EXP, 0, HR_SRC_INFERRED);
	/*
	 * An Express function without any extended capability is rare. A text without extended
	 * capabilities may also mean that lspci could not read them, so nothing is concluded.
	 */
	if (!state->saw_ecaps && hr_get(f, HR_F_EXP, 0))
		return;
	hr_fn_set(f, HR_F_ECAPS, 1, HR_SRC_TEXT);
	if (!hr_known(f, HR_F_ACS))
		hr_fn_set(f, HR_F_ACS, 0, HR_SRC_INFERRED);
	if (!hr_known(f, HR_F_ATS))
		hr_fn_set(f, HR_F_ATS, 0, HR_SRC_INFERRED);
}

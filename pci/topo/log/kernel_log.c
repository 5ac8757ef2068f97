/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The form of kernel messages, and messages about the machine and its IOMMU
 * (pci/topo/log/kernel_log.h).
 */
#include "pci/topo/log/kernel_log.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pci/topo/merge.h"
#include "config/base/text.h"
#include "pci/topo/sysfs/parts.h"

#define HOST_MAX 100u /* bytes before "kernel: " in a journal */
#define LOG HR_SRC_LOG

static bool begins_with(const char *text, const char *word)
{
	return strncmp(text, word, strlen(word)) == 0;
}

void hr_kernel_log_init(struct hr_kernel_log *l, struct hr_model *m)
{
	memset(l, 0, sizeof *l);
	l->m = m;
}

void hr_kernel_log_fini(struct hr_kernel_log *l)
{
	if (l->open)
		hr_model_fini(&l->fns);
	l->open = false;
}

/* ---- the form of a line */

/*
 * Length of "[    1.263328]", "[Mon Oct  7 11:24:13 2024]", "[Oct 7 11:24]", "[Oct27 11:24]",
 * "[  +0.000003]" or "[    T1]"; 0: another text. Xorg's log has stamps with three digits after the
 * point: no stamp.
 */
static size_t stamp(const char *text)
{
	const size_t n = strcspn(text, "]\n");
	const char *point = memchr(text, '.', n), *at = text + 1;
	size_t digits = 0;

	if (*text != '[' || text[n] != ']' || n < 2 || n > 60)
		return 0;
	at += strspn(at, " +");
	if ((*at == 'T' || *at == 'C') &&
	    strspn(at + 1, "0123456789") + 1 == (size_t)(text + n - at))
		return n + 1;
	if (isdigit((unsigned char)*at) && point) {
		digits = strspn(point + 1, "0123456789");
		return digits >= 5 && strspn(at, "0123456789") == (size_t)(point - at) ? n + 1 : 0;
	}
	return isalpha((unsigned char)at[0]) && isalpha((unsigned char)at[1]) &&
			       isalpha((unsigned char)at[2]) &&
			       (at[3] == ' ' || isdigit((unsigned char)at[3])) &&
			       memchr(at, ':', (size_t)(text + n - at))
		       ? n + 1
		       : 0;
}

/* Length of "Oct 27 08:50:11 host kernel: " or of a date of ISO 8601, and of "host kernel: ". */
static size_t journal(const char *text, bool stamped)
{
	char head[HOST_MAX];
	const char *at;

	snprintf(head, sizeof head, "%s", text);
	at = strstr(head, "kernel: ");
	if (!at || (at != head && at[-1] != ' ') || (at == head && !stamped))
		return 0;
	if (!stamped && !isdigit((unsigned char)head[0]) &&
	    !(isalpha((unsigned char)head[0]) && isalpha((unsigned char)head[1]) &&
	      isalpha((unsigned char)head[2]) && head[3] == ' ' &&
	      (head[4] == ' ' || isdigit((unsigned char)head[4]))))
		return 0;
	return (size_t)(at - head) + 8;
}

/* Length of "<6>", of "kern  :info  : ", of "2024-10-07T11:24:13,000000+00:00 " before a message. */
static size_t level(const char *text)
{
	size_t n;

	if (*text == '<') {
		n = strspn(text + 1, "0123456789");
		return n && text[n + 1] == '>' ? n + 2 : 0;
	}
	if (begins_with(text, "kern ")) {
		n = strcspn(text, ":");
		n += text[n] ? 1 + strcspn(text + n + 1, ":") : 0;
		return n < 24 && text[n] == ':' ? n + 1 : 0;
	}
	n = strspn(text, "0123456789-T:,.+Z");
	return n >= 19 && text[4] == '-' && text[10] == 'T' && text[n] == ' ' ? n + 1 : 0;
}

/* The message behind all marks of the line; *marked: there was one. */
static const char *message(const char *line, bool *marked)
{
	const char *at = line + strspn(line, " \t>|");

	*marked = false;
	for (unsigned i = 0; i < 6; i++) {
		size_t n = level(at);

		n = n ? n : stamp(at);
		n = n ? n : journal(at, *marked);
		if (!n)
			break;
		*marked = true;
		at += n;
		at += strspn(at, " ");
	}
	return at;
}

/* ---- the machine */

static const char *release_of(const char *text, size_t *n)
{
	*n = strcspn(text, " \t");
	return isdigit((unsigned char)*text) && *n < HR_WORD_MAX ? text : NULL;
}

/* A second boot in the log: the last one counts. */
static void on_version(struct hr_kernel_log *l, const char *text, unsigned number)
{
	size_t n;
	const char *release = release_of(text, &n);

	if (!release)
		return;
	if (l->iommu.begins &&
	    (strlen(l->m->sys.kernel) != n || strncmp(l->m->sys.kernel, release, n) != 0))
		hr_model_warn(l->m,
			      "line %u: the log holds boots of two kernels; where they differ, the "
			      "last boot counts",
			      number);
	l->iommu = (struct hr_log_iommu){ .begins = true };
	snprintf(l->m->sys.kernel, sizeof l->m->sys.kernel, "%.*s", (int)n, release);
	hr_text_clean(l->m->sys.kernel, strlen(l->m->sys.kernel));
}

/* The log cuts long command lines, so the text of /proc/cmdline counts when it is there. */
static void on_cmdline(struct hr_kernel_log *l, const char *text, unsigned number)
{
	char *to = l->m->sys.cmdline;

	if (strlen(to) > strlen(text) && begins_with(to, text))
		return;
	snprintf(to, sizeof l->m->sys.cmdline, "%s", text);
	hr_text_clean(to, strlen(to));
}

/* "smpboot: CPU0: AMD EPYC 9554 64-Core Processor (family: 0x19, model: 0x11, stepping: 0x1)" */
static void on_cpu(struct hr_kernel_log *l, const char *text, unsigned number)
{
	const char *at = strstr(text, "(family: 0x");
	uint64_t family;

	if (begins_with(text, "AMD ") || begins_with(text, "Intel") || begins_with(text, "Hygon"))
		hr_fact_set(&l->m->sys.amd, begins_with(text, "AMD "), LOG);
	if (at && hr_number_parse(at + 11, 16, 0xff, &at, &family))
		hr_fact_set(&l->m->sys.family, (uint32_t)family, LOG);
}

/* "smp: Brought up 2 nodes, 256 CPUs" */
static void on_cpus(struct hr_kernel_log *l, const char *text, unsigned number)
{
	const char *at = strstr(text, ", ");
	uint64_t cpus;

	if (at && hr_number_parse(at + 2, 10, 65536, &at, &cpus) && begins_with(at, " CPU"))
		hr_fact_set(&l->m->sys.cpus, (uint32_t)cpus, LOG);
}

/* The first domain of Xen sees the hardware, and the line does not tell it from others. */
static void on_hypervisor(struct hr_kernel_log *l, const char *text, unsigned number)
{
	if (!begins_with(text, "Xen PV"))
		hr_fact_set(&l->m->sys.hypervisor, 1, LOG);
}

static void on_boot(struct hr_kernel_log *l, const char *text, unsigned number)
{
	if (!begins_with(text, "Xen") || begins_with(text, "Xen HVM"))
		hr_fact_set(&l->m->sys.hypervisor, !begins_with(text, "bare hardware"), LOG);
}

static void on_nvidia(struct hr_kernel_log *l, const char *text, unsigned number)
{
	hr_read_nvidia_version(l->m, text, LOG);
}

static void on_init(struct hr_kernel_log *l, const char *text, unsigned number)
{
	l->iommu.ends = true;
}

/* ---- the IOMMU */

static void on_type(struct hr_kernel_log *l, const char *text, unsigned number)
{
	bool pt = begins_with(text, "Passthrough");

	if (!pt && !begins_with(text, "Translated"))
		return;
	l->iommu.type_value = pt ? HR_IOMMU_PT : HR_IOMMU_ON;
	l->iommu.type = (struct hr_log_fact){ number, pt ? "Default domain type: Passthrough"
							 : "Default domain type: Translated" };
}

static void on_table(struct hr_kernel_log *l, const char *text, unsigned number)
{
	struct hr_log_fact fact = { number, "" };

	l->iommu.tables = fact;
	if (begins_with(text, "DMAR"))
		l->iommu.dmar = fact;
	if (begins_with(text, "IVRS"))
		l->iommu.ivrs = fact;
}

/* Messages about the IOMMU without a value. The kernel prints each in one state only. */
static bool iommu_message(struct hr_log_iommu *o, const char *text, unsigned number)
{
	static const char *const on[] = {
		"DMAR: Intel(R) Virtualization Technology for Directed I/O",
		"PCI-DMA: Intel(R) Virtualization Technology for Directed I/O",
		"DMAR: dmar0: Using Queued invalidation",
		"DMAR: No ATSR found",
		"AMD-Vi: Interrupt remapping enabled",
		"AMD-Vi: Found IOMMU",
		"AMD-Vi: Extended features",
		"AMD-Vi: Lazy IO/TLB flushing enabled",
		"AMD-Vi: IO/TLB flush on unmap enabled",
		"iommu: Adding device ",
	};
	static const char *const off[] = { "DMAR: IOMMU disabled", "Intel-IOMMU: disabled",
					   "AMD-Vi: AMD IOMMU disabled" };
	static const char *const asked[] = { "DMAR: IOMMU enabled", "Intel-IOMMU: enabled" };
	static const char *const pt[] = { "AMD-Vi: Initialized for Passthrough Mode" };

	for (unsigned i = 0; i < sizeof on / sizeof *on; i++)
		if (begins_with(text, on[i])) {
			if (!o->on.line)
				o->on = (struct hr_log_fact){ number, on[i] };
			return true;
		}
	for (unsigned i = 0; i < sizeof off / sizeof *off; i++)
		if (begins_with(text, off[i])) {
			o->off = (struct hr_log_fact){ number, off[i] };
			return true;
		}
	for (unsigned i = 0; i < sizeof asked / sizeof *asked; i++)
		if (begins_with(text, asked[i])) {
			o->asked = (struct hr_log_fact){ number, asked[i] };
			return true;
		}
	if (!begins_with(text, pt[0]))
		return false;
	o->pt = (struct hr_log_fact){ number, pt[0] };
	return true;
}

/* ---- buses and functions */

static struct hr_log_bus *bus_at(struct hr_kernel_log *l, uint32_t domain, uint32_t bus)
{
	for (unsigned i = 0; i < l->buses; i++)
		if (l->bus[i].domain == domain && l->bus[i].first == bus)
			return &l->bus[i];
	if (l->buses == HR_LOG_BUSES_MAX)
		return NULL;
	l->bus[l->buses] = (struct hr_log_bus){ .domain = domain, .first = bus, .last = bus };
	return &l->bus[l->buses++];
}

/* "0000:60: root bus resource [bus 60-7f]", "0000:60: on NUMA node 0" */
static void on_bus(struct hr_kernel_log *l, const char *text, unsigned number)
{
	uint64_t domain, bus, value, last;
	struct hr_log_bus *b;
	const char *at;

	if (!hr_number_parse(text, 16, 0xffffff, &at, &domain) || *at != ':' ||
	    !hr_number_parse(at + 1, 16, 0xff, &at, &bus) || !begins_with(at, ": "))
		return;
	at += 2;
	if (begins_with(at, "on NUMA node ") && hr_number_parse(at + 13, 10, 4095, &at, &value)) {
		b = bus_at(l, (uint32_t)domain, (uint32_t)bus);
		if (b) {
			b->numa = (uint32_t)value;
			b->has_numa = true;
		}
		return;
	}
	if (!begins_with(at, "root bus resource [bus ") ||
	    !hr_number_parse(at + 23, 16, 0xff, &at, &value) || value != bus || *at != '-' ||
	    !hr_number_parse(at + 1, 16, 0xff, &at, &last))
		return;
	b = bus_at(l, (uint32_t)domain, (uint32_t)bus);
	if (b)
		b->last = (uint32_t)last;
}

struct hr_fn *hr_kernel_log_at(struct hr_kernel_log *l, const char *bdf, size_t *used)
{
	uint32_t domain, bus, dev, fn;
	struct hr_fn *f;

	*used = hr_bdf_parse(bdf, &domain, &bus, &dev, &fn);
	if (!*used || dev > 31 || fn > 7 || bdf[4] == '.')
		return NULL;
	if (!l->open && hr_model_init(&l->fns) == 0)
		l->open = true;
	f = l->open ? hr_model_add(&l->fns, domain, bus, dev, fn) : NULL;
	l->full |= !f;
	return f;
}

/*
 * "pci 0000:60:05.2: TEXT", or with a driver in place of pci, which is then bound. False: another
 * message.
 */
static bool function_message(struct hr_kernel_log *l, const char *text, unsigned number)
{
	const size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_-");
	const char *at = text + n + 1;
	uint32_t domain, bus, dev, fn;
	struct hr_fn *f;
	size_t used;

	if (!n || n > 31 || text[n] != ' ' || !isxdigit((unsigned char)*at))
		return false;
	used = hr_bdf_parse(at, &domain, &bus, &dev, &fn);
	if (!used || at[used] != ':' || at[used + 1] != ' ')
		return false;
	f = hr_kernel_log_at(l, at, &used);
	if (!f)
		return true;
	if (!f->line)
		f->line = number;
	if (n != 3 || memcmp(text, "pci", 3) != 0)
		f->driver = hr_model_word(&l->fns, text, n);
	at += used + 1;
	at += strspn(at, " ");
	if (begins_with(at, "Adding to iommu group ") && !l->iommu.on.line)
		l->iommu.on = (struct hr_log_fact){ number, "Adding to iommu group" };
	if (iommu_message(&l->iommu, at, number))
		return true;
	if (strstr(at, "available PCIe bandwidth"))
		hr_kernel_log_link(l, f, at);
	else
		hr_kernel_log_function(f, at);
	return true;
}

/* "iommu: Adding device 0000:00:02.0 to group 1", until 5.2 */
static void on_old_group(struct hr_kernel_log *l, const char *text, unsigned number)
{
	size_t used;
	uint64_t group;
	struct hr_fn *f = hr_kernel_log_at(l, text, &used);
	const char *at = text + used;

	if (f && begins_with(at, " to group ") &&
	    hr_number_parse(at + 10, 10, UINT32_MAX, &at, &group))
		hr_fn_set(f, HR_F_GROUP, (uint32_t)group, LOG);
}

static void on_old_direct(struct hr_kernel_log *l, const char *text, unsigned number)
{
	size_t used;
	struct hr_fn *f = hr_kernel_log_at(l, text, &used);

	if (!l->iommu.on.line)
		l->iommu.on = (struct hr_log_fact){ number, "identity mapping of a device" };
	if (f)
		hr_fn_set(f, HR_F_GROUP_TYPE, HR_IOMMU_PT, LOG);
}

static bool machine_message(struct hr_kernel_log *l, const char *text, unsigned number)
{
	static const struct {
		const char *start;
		/* `rest` is the text behind the start. */
		void (*read)(struct hr_kernel_log *l, const char *rest, unsigned number);
	} lines[] = { { "Linux version ", on_version },
		      { "Command line: ", on_cmdline },
		      { "Kernel command line: ", on_cmdline },
		      { "smpboot: CPU0: ", on_cpu },
		      { "smp: Brought up ", on_cpus },
		      { "Hypervisor detected: ", on_hypervisor },
		      { "DMI: QEMU ", on_hypervisor },
		      { "Booting paravirtualized kernel on ", on_boot },
		      { "NVRM: loading ", on_nvidia },
		      { "Freeing unused kernel ", on_init },
		      { "Run /", on_init },
		      { "iommu: Default domain type: ", on_type },
		      { "iommu: Adding device ", on_old_group },
		      { "iommu: Using direct mapping for device ", on_old_direct },
		      { "DMAR: Hardware identity mapping for device ", on_old_direct },
		      { "DMAR: Software identity mapping for device ", on_old_direct },
		      { "IOMMU: hardware identity mapping for device ", on_old_direct },
		      { "IOMMU: software identity mapping for device ", on_old_direct },
		      { "ACPI: ", on_table },
		      { "pci_bus ", on_bus } };
	bool known = iommu_message(&l->iommu, text, number);

	for (unsigned i = 0; i < sizeof lines / sizeof *lines; i++)
		if (begins_with(text, lines[i].start)) {
			lines[i].read(l, text + strlen(lines[i].start), number);
			return true;
		}
	return known;
}

/* Messages that need no stamp to be known as the kernel's. */
static bool needs_no_mark(const char *text)
{
	static const char *const words[] = { "pci ", "pci_bus ",
					     "DMAR: ", "AMD-Vi: ", "iommu: Default domain type: " };

	for (unsigned i = 0; i < sizeof words / sizeof *words; i++)
		if (begins_with(text, words[i]))
			return true;
	return false;
}

/* lspci on a console whose lines have stamps. */
static bool is_lspci(const char *text)
{
	uint32_t domain, bus, dev, fn;
	const size_t n = hr_bdf_parse(text, &domain, &bus, &dev, &fn);

	return (n && text[n] == ' ') || *text == '-' || *text == '\t';
}

enum hr_log_line hr_kernel_log_line(struct hr_kernel_log *l, const char *line, unsigned number,
				    bool bare)
{
	bool marked;
	const char *text = message(line, &marked);

	if (!marked && !bare && !needs_no_mark(text))
		return l->open && function_message(l, text, number) ? HR_LOG_KNOWN : HR_LOG_NONE;
	if (machine_message(l, text, number) || function_message(l, text, number))
		return HR_LOG_KNOWN;
	return marked && !is_lspci(text) ? HR_LOG_MARKED : HR_LOG_NONE;
}

/* ---- the machine's model */

/* True when lspci listed a host bridge, so a function that it lacks does not exist. */
static bool lists_machine(const struct hr_model *m)
{
	for (uint32_t i = 0; i < m->count; i++)
		if (hr_get(&m->fn[i], HR_F_CLASS, 0) >> 8 == 0x0600 &&
		    m->fn[i].fact[HR_F_CLASS].source > LOG)
			return true;
	return false;
}

static void set_numa(struct hr_kernel_log *l, struct hr_fn *f)
{
	for (unsigned i = 0; i < l->buses && !hr_known(f, HR_F_NUMA); i++) {
		const struct hr_log_bus *b = &l->bus[i];

		if (b->has_numa && b->domain == f->domain && b->first <= f->bus &&
		    f->bus <= b->last)
			hr_fn_set(f, HR_F_NUMA, b->numa, LOG);
	}
}

/* Words of a function live in the memory of the log's model. */
static void merge(struct hr_model *m, struct hr_fn *to, const struct hr_fn *from)
{
	struct hr_fn more = *from;

	more.driver = to->driver || !from->driver
			      ? NULL
			      : hr_model_word(m, from->driver, strlen(from->driver));
	if (!to->line)
		to->line = from->line;
	hr_function_merge(to, &more);
}

int hr_kernel_log_end(struct hr_kernel_log *l)
{
	const bool whole = lists_machine(l->m);

	if (l->full)
		return -E2BIG;
	for (uint32_t i = 0; l->open && i < l->fns.count; i++) {
		struct hr_fn *f = &l->fns.fn[i], *to;
		int32_t at = hr_model_find(l->m, f->domain, f->bus, f->dev, f->fn);

		if (at == HR_NO_FN && (whole || !hr_known(f, HR_F_VENDOR)))
			continue;
		set_numa(l, f);
		to = hr_model_add(l->m, f->domain, f->bus, f->dev, f->fn);
		if (!to)
			return -E2BIG;
		merge(l->m, to, f);
	}
	return 0;
}

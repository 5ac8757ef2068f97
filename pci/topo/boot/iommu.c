/* SPDX-License-Identifier: Apache-2.0 */
#include "pci/topo/boot/iommu.h"

#include <stdarg.h>
#include <stdio.h>

#include "pci/topo/boot/boot.h"
#include "pci/topo/log/kernel_log.h"

/* CONFIG_IOMMU_DEFAULT_PASSTHROUGH exists since then. */
#define HR_KERNEL_DEFAULT_TYPE HR_KERNEL_VERSION(4, 18)

/* Inputs of the decision. */
struct evidence {
	struct hr_model *m;
	const struct hr_log_iommu *log;
	bool groups;	      /* of any function */
	int passthrough;      /* by the command line: 1, 0, -1 not given */
	const char *off_word; /* of the command line; NULL: none */
	bool asked;	      /* the command line turns the IOMMU on */
};

static void __attribute__((format(printf, 4, 5)))
set_iommu_mode(struct hr_model *m, enum hr_iommu mode, enum hr_src source, const char *format, ...)
{
	va_list list;

	va_start(list, format);
	vsnprintf(m->sys.iommu_reason, sizeof m->sys.iommu_reason, format, list);
	va_end(list);
	if (mode != HR_IOMMU_UNKNOWN)
		hr_fact_set(&m->sys.iommu, mode, source);
}

static void by_log(struct hr_model *m, enum hr_iommu mode, const struct hr_log_fact *fact)
{
	set_iommu_mode(m, mode, HR_SRC_LOG, "kernel log, line %u: %s", fact->line, fact->text);
}

/* An IOMMU is on; the mode is stated by the log, or by the command line. */
static void decide_on(const struct evidence *e)
{
	const struct hr_system *sys = &e->m->sys;
	const uint32_t kernel = hr_kernel_of_release(sys->kernel);

	if (e->log->pt.line)
		by_log(e->m, HR_IOMMU_PT, &e->log->pt);
	else if (e->log->type.line)
		by_log(e->m, e->log->type_value, &e->log->type);
	else if (e->passthrough >= 0)
		set_iommu_mode(e->m, e->passthrough ? HR_IOMMU_PT : HR_IOMMU_ON, HR_SRC_INFERRED,
			       "command line: %s",
			       e->passthrough ? "passthrough" : "no passthrough");
	else if (kernel && kernel < HR_KERNEL_DEFAULT_TYPE && sys->cmdline[0])
		set_iommu_mode(
			e->m, HR_IOMMU_ON, HR_SRC_INFERRED,
			"an IOMMU is on, and this kernel translates unless its command line has pt");
	else if (sys->iommu_type.source)
		set_iommu_mode(e->m, (enum hr_iommu)sys->iommu_type.value, HR_SRC_LOG,
			       "an IOMMU is on, and the kernel's default is stated");
	else if (e->log->on.line)
		set_iommu_mode(e->m, HR_IOMMU_UNKNOWN, HR_SRC_NONE,
			       "kernel log, line %u: %s; its mode is not stated", e->log->on.line,
			       e->log->on.text);
	else
		set_iommu_mode(e->m, HR_IOMMU_UNKNOWN, HR_SRC_NONE,
			       "functions have IOMMU groups; the mode is not stated");
}

/*
 * True when the whole boot is in the log, and no driver set an IOMMU up. Without ACPI tables the log
 * is that of another kind of machine, whose IOMMU may have another driver.
 */
static bool is_silent(const struct hr_log_iommu *log)
{
	return log->begins && log->ends && log->tables.line;
}

static void decide_unseen(const struct evidence *e)
{
	const struct hr_log_iommu *log = e->log;

	if (log->off.line)
		by_log(e->m, HR_IOMMU_OFF, &log->off);
	else if (e->off_word)
		set_iommu_mode(e->m, HR_IOMMU_OFF, HR_SRC_INFERRED, "command line: %s",
			       e->off_word);
	else if (is_silent(log))
		set_iommu_mode(e->m, HR_IOMMU_OFF, HR_SRC_LOG, "kernel log: %s",
			       log->dmar.line ? "a DMAR table, but no message that the IOMMU is on"
			       : log->ivrs.line
				       ? "an IVRS table, but no message that the IOMMU is on"
				       : "no DMAR or IVRS table, and no IOMMU");
	else if (e->asked && e->passthrough == 1)
		set_iommu_mode(e->m, HR_IOMMU_PT, HR_SRC_INFERRED,
			       "command line: on, with passthrough");
	else if (e->asked)
		set_iommu_mode(e->m, HR_IOMMU_UNKNOWN, HR_SRC_NONE,
			       "command line: on; whether firmware has an IOMMU, and its mode, "
			       "are not stated");
	else if (log->type.line && log->type_value == HR_IOMMU_PT)
		by_log(e->m, HR_IOMMU_PT, &log->type);
	else if (log->asked.line)
		set_iommu_mode(
			e->m, HR_IOMMU_UNKNOWN, HR_SRC_NONE,
			"kernel log, line %u: %s; whether firmware has one, and its mode, are not "
			"stated",
			log->asked.line, log->asked.text);
	else if (log->type.line)
		set_iommu_mode(e->m, HR_IOMMU_UNKNOWN, HR_SRC_NONE,
			       "kernel log, line %u: %s, if an IOMMU is on, which is not stated",
			       log->type.line, log->type.text);
}

void hr_iommu_decide(struct hr_model *m)
{
	static const struct hr_log_iommu none;
	struct evidence e = { .m = m, .log = m->iommu_log ? m->iommu_log : &none };

	if (e.log->type.line)
		hr_fact_set(&m->sys.iommu_type, e.log->type_value, HR_SRC_LOG);
	if (m->sys.iommu.source) {
		if (!m->sys.iommu_reason[0])
			set_iommu_mode(m, HR_IOMMU_UNKNOWN, HR_SRC_NONE,
				       m->sys.iommu.value == HR_IOMMU_OFF
					       ? "sysfs: no IOMMU and no groups"
					       : "sysfs: type of the IOMMU groups");
		return;
	}
	for (uint32_t i = 0; i < m->count && !e.groups; i++)
		e.groups = hr_known(&m->fn[i], HR_F_GROUP);
	hr_boot_words(m, &e.passthrough, &e.asked, &e.off_word);
	if (e.groups || e.log->on.line)
		decide_on(&e);
	else
		decide_unseen(&e);
}

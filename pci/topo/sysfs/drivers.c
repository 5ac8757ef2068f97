/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Facts that drivers add to sysfs: error counters, and links between virtual switches of one
 * switch.
 */
#include "pci/topo/sysfs/parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINKS "sys/kernel/pci_switch_link/virtual_switch_links"

/* Read a small text file; false: not readable. */
static bool text(const struct hr_files *files, const char *folder, const char *name, char *to,
		 size_t capacity)
{
	char path[512];
	long n;

	snprintf(path, sizeof path, "%.383s/%s", folder, name);
	n = files->read(files, path, to, capacity - 1);
	if (n < 0)
		return false;
	to[n] = '\0';
	return true;
}

/* Set a fact to the number after a word; with word "" the whole file is the number. */
static void set_count(const struct hr_files *files, const char *folder, const char *name,
		      const char *word, struct hr_fn *f, enum hr_fact_id id)
{
	char value[1024], *end;
	const char *at;
	unsigned long long count;

	if (!text(files, folder, name, value, sizeof value))
		return;
	at = strstr(value, word);
	if (!at)
		return;
	at += strlen(word);
	count = strtoull(at, &end, 10);
	if (end != at)
		hr_fn_set(f, id, count < UINT32_MAX ? (uint32_t)count : UINT32_MAX, HR_SRC_SYSFS);
}

void hr_read_aer_counts(const struct hr_files *files, struct hr_fn *f, const char *folder)
{
	static const struct {
		const char *file, *word;
		enum hr_fact_id id;
	} counts[] = {
		{ "aer_dev_correctable", "TOTAL_ERR_COR ", HR_F_AER_COR },
		{ "aer_dev_nonfatal", "TOTAL_ERR_NONFATAL ", HR_F_AER_NONFATAL },
		{ "aer_dev_fatal", "TOTAL_ERR_FATAL ", HR_F_AER_FATAL },
		{ "aer_rootport_total_err_cor", "", HR_F_AER_ROOT_COR },
		{ "aer_rootport_total_err_nonfatal", "", HR_F_AER_ROOT_NONFATAL },
		{ "aer_rootport_total_err_fatal", "", HR_F_AER_ROOT_FATAL },
	};

	/* When the first counter is missing, the function has none of them. */
	for (unsigned i = 0; i < sizeof counts / sizeof *counts; i++) {
		set_count(files, folder, counts[i].file, counts[i].word, f, counts[i].id);
		if (i == 0 && !hr_known(f, HR_F_AER_COR))
			return;
	}
}

/* ---- LINKS/0000:8b:00.0/0000:ad:00.0 means that these two upstream ports are linked */

struct links {
	struct hr_model *m;
	const struct hr_files *files;
	struct hr_fn *f;
};

static int one_peer(void *to, const char *name)
{
	struct links *l = to;
	uint64_t address = hr_address_parse(name);

	if (address != HR_NO_ADDRESS)
		hr_fn_add_switch_link(l->f, address);
	return 0;
}

static int one_switch(void *to, const char *name)
{
	struct links *l = to;
	uint32_t domain, bus, dev, fn;
	char path[128];
	int32_t at;

	if (!hr_bdf_parse(name, &domain, &bus, &dev, &fn) ||
	    hr_address_parse(name) == HR_NO_ADDRESS)
		return 0;
	at = hr_model_find(l->m, domain, bus, dev, fn);
	if (at == HR_NO_FN)
		return 0;
	l->f = &l->m->fn[at];
	snprintf(path, sizeof path, LINKS "/%.32s", name);
	l->files->list(l->files, path, one_peer, l);
	return 0;
}

void hr_read_switch_links(struct hr_model *m, const struct hr_files *files)
{
	struct links l = { m, files, NULL };

	files->list(files, LINKS, one_switch, &l);
}

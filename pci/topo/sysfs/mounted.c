/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the NVMe controllers with a mounted file system or swap (rule H6). */
#include "pci/topo/sysfs/parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STACK_MAX 4u /* devices on top of each other: md over dm over partition over disk */

struct search {
	struct hr_model *m;
	const struct hr_files *files;
	const char *folder; /* folder that is being listed */
	const char *type;   /* type of the file system, or "swap" */
	unsigned level;
	bool stacked; /* md or dm is between the file system and the disk */
};

static void note_type(struct hr_model *m, struct hr_fn *f, const char *type)
{
	char both[HR_WORD_MAX];

	if (f->fs && strstr(f->fs, type))
		return;
	snprintf(both, sizeof both, "%s%s%s", f->fs ? f->fs : "", f->fs ? "," : "", type);
	f->fs = hr_model_word(m, both, strlen(both));
}

/* Mark the function of the last address in ".../0000:00:01.0/0000:01:00.0/nvme/nvme0/nvme0n1". */
static bool mark_path(const struct search *s, const char *path)
{
	struct hr_model *m = s->m;
	int32_t last = HR_NO_FN;

	for (const char *at = path; at; at = strchr(at, '/')) {
		uint32_t domain, bus, dev, fn;
		int32_t found;

		at += *at == '/';
		if (!hr_bdf_parse(at, &domain, &bus, &dev, &fn))
			continue;
		found = hr_model_find(m, domain, bus, dev, fn);
		if (found != HR_NO_FN)
			last = found;
	}
	if (last == HR_NO_FN)
		return false;
	hr_fn_set(&m->fn[last], HR_F_MOUNTED, 1, HR_SRC_SYSFS);
	if (s->stacked)
		hr_fn_set(&m->fn[last], HR_F_STACKED, 1, HR_SRC_SYSFS);
	note_type(m, &m->fn[last], s->type);
	return true;
}

static void mark_block(const struct search *above, const char *folder, unsigned level);

/* The controllers of a multipath disk are links in its folder. */
static int one_path(void *to, const char *name)
{
	struct search *s = to;
	char path[512], target[512];

	if (strncmp(name, "nvme", 4) != 0)
		return 0;
	snprintf(path, sizeof path, "%.400s/%.64s", s->folder, name);
	if (s->files->link(s->files, path, target, sizeof target) == 0)
		mark_path(s, target);
	return 0;
}

static int one_slave(void *to, const char *name)
{
	struct search *s = to;
	char folder[512];

	snprintf(folder, sizeof folder, "sys/class/block/%.64s", name);
	mark_block(s, folder, s->level + 1);
	return 0;
}

static void mark_block(const struct search *above, const char *folder, unsigned level)
{
	const struct hr_files *files = above->files;
	char target[512], path[600], *parent;
	const char *devices;
	struct search s = *above;

	s.folder = path;
	s.level = level;
	if (level > STACK_MAX || files->link(files, folder, target, sizeof target))
		return;
	s.stacked |= strstr(target, "/virtual/block/md") || strstr(target, "/virtual/block/dm-");
	if (mark_path(&s, target))
		return;
	if (strstr(target, "nvme-subsystem") && (parent = strrchr(target, '/'))) {
		*parent = '\0';
		devices = strstr(target, "/devices/");
		if (!devices)
			return;
		snprintf(path, sizeof path, "sys%s", devices);
		files->list(files, path, one_path, &s);
		return;
	}
	snprintf(path, sizeof path, "%s/slaves", folder);
	files->list(files, path, one_slave, &s);
}

/* The number before `stop`; returns the text after `stop`, or NULL. */
static const char *number_before(const char *at, char stop, unsigned long *value)
{
	char *end;

	*value = strtoul(at, &end, 10);
	return end != at && *end == stop ? end + 1 : NULL;
}

/* The third column of mountinfo is major:minor of the mounted device. */
static void read_mounts(struct hr_model *m, const struct hr_files *files, char *text)
{
	struct search s = { .m = m, .files = files };
	char *save = NULL;

	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		unsigned long skipped, major, minor;
		const char *at = number_before(line, ' ', &skipped);
		const char *type = strstr(line, " - ");
		char folder[64], name[64];

		at = at ? number_before(at, ' ', &skipped) : NULL;
		at = at ? number_before(at, ':', &major) : NULL;
		if (!at || !number_before(at, ' ', &minor) || major == 0)
			continue;
		/*
		 * " - ext4 /dev/nvme0n1p2 rw,data=journal": GPUDirect Storage needs the default
		 * data mode.
		 */
		snprintf(name, sizeof name, "%.*s%s", type ? (int)strcspn(type + 3, " ") : 1,
			 type ? type + 3 : "?",
			 type && strstr(type, "data=journal")	  ? " data=journal"
			 : type && strstr(type, "data=writeback") ? " data=writeback"
								  : "");
		s.type = name;
		snprintf(folder, sizeof folder, "sys/dev/block/%lu:%lu", major, minor);
		mark_block(&s, folder, 0);
	}
}

static void read_swaps(struct hr_model *m, const struct hr_files *files, char *text)
{
	const struct search s = { .m = m, .files = files, .type = "swap" };
	char *save = NULL;

	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		char folder[128];

		if (strncmp(line, "/dev/", 5) != 0)
			continue;
		snprintf(folder, sizeof folder, "sys/class/block/%.*s",
			 (int)strcspn(line + 5, " \t"), line + 5);
		mark_block(&s, folder, 0);
	}
}

void hr_read_mounted(struct hr_model *m, const struct hr_files *files)
{
	size_t capacity = 1 << 20;
	char *text = hr_model_alloc(m, capacity);
	long n;

	if (!text)
		return;
	n = files->read(files, "proc/self/mountinfo", text, capacity - 1);
	text[n > 0 ? n : 0] = '\0';
	read_mounts(m, files, text);
	n = files->read(files, "proc/swaps", text, capacity - 1);
	text[n > 0 ? n : 0] = '\0';
	read_swaps(m, files, text);
}

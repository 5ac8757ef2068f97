/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sections of bug reports (pci/topo/log/bug_report.h). Sources: nvidia-bug-report.sh of the
 * drivers 390 to
 * 610, supportconfig of SUSE's supportutils, sos/report/plugins/pci.py and kernel.py of sos.
 */
#include "pci/topo/log/bug_report.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/text.h"
#include "pci/topo/sysfs/parts.h"

#define RULE_LEAST 20u /* underscores of a separator; the tool prints 44 */
#define FILE_MAX (32u << 20)
#define FILE_MARK "*** file "
#define PREFIX_MAX 300u

static bool begins_with(const char *text, const char *word)
{
	return strncmp(text, word, strlen(word)) == 0;
}

void hr_bug_report_init(struct hr_bug_report *r, struct hr_model *m)
{
	*r = (struct hr_bug_report){ .m = m };
	hr_kernel_log_init(&r->log, m);
}

void hr_bug_report_fini(struct hr_bug_report *r)
{
	hr_kernel_log_fini(&r->log);
}

/* ---- headings */

/* The last part of the path at the start of the text, with its length. */
static const char *base_of(const char *text, size_t *n)
{
	const char *end = text + strcspn(text, " \t:"), *at = end;

	while (at > text && at[-1] != '/')
		at--;
	*n = (size_t)(end - at);
	return at;
}

static enum hr_section of_file(const char *path)
{
	static const struct {
		const char *path;
		enum hr_section section;
	} files[] = { { "/proc/cmdline", HR_SECTION_CMDLINE },
		      { "/proc/cpuinfo", HR_SECTION_CPU },
		      { "/proc/version", HR_SECTION_UNAME },
		      { "/proc/driver/nvidia/version", HR_SECTION_NVIDIA },
		      { "/proc/driver/nvidia/params", HR_SECTION_NVIDIA },
		      { "/var/log/boot.msg", HR_SECTION_LOG },
		      { "/var/log/dmesg", HR_SECTION_LOG } };
	const size_t n = strcspn(path, " \t");

	/* "/proc/driver/nvidia/./version" */
	if (begins_with(path, "/proc/driver/nvidia/./version") ||
	    begins_with(path, "/proc/driver/nvidia/./params"))
		return HR_SECTION_NVIDIA;
	for (unsigned i = 0; i < sizeof files / sizeof *files; i++)
		if (strlen(files[i].path) == n && strncmp(path, files[i].path, n) == 0)
			return strstr(path + n, "does not exist") ? HR_SECTION_OTHER
								  : files[i].section;
	return HR_SECTION_OTHER;
}

/* Journals of an earlier boot describe another state of the machine. */
static bool is_earlier_boot(const char *command)
{
	const char *at = strstr(command, " -b ");

	at = at ? at + 4 : strstr(command, "--boot");
	at = at && begins_with(at, "--boot") ? at + 6 + strspn(at + 6, " =") : at;
	return at && *at == '-' && at[1] >= '1' && at[1] <= '9';
}

static enum hr_section of_command(const char *command)
{
	static const struct {
		const char *name;
		enum hr_section section;
	} commands[] = { { "lspci", HR_SECTION_LSPCI },
			 { "dmesg", HR_SECTION_LOG },
			 { "lscpu", HR_SECTION_CPU },
			 { "uname", HR_SECTION_UNAME } };
	size_t n;
	const char *name = base_of(command, &n), *file;

	if (begins_with(command, "PCI devices configuration space dump"))
		return HR_SECTION_LSPCI;
	for (unsigned i = 0; i < sizeof commands / sizeof *commands; i++)
		if (strlen(commands[i].name) == n && strncmp(name, commands[i].name, n) == 0)
			return commands[i].section;
	if (n == 10 && strncmp(name, "nvidia-smi", n) == 0 && strstr(command, " topo"))
		return HR_SECTION_LSPCI;
	if (n == 10 && strncmp(name, "journalctl", n) == 0)
		return strstr(command, "_COMM") || is_earlier_boot(command) ? HR_SECTION_OTHER
									    : HR_SECTION_LOG;
	file = strstr(command, " /proc/");
	if (n == 3 && strncmp(name, "cat", n) == 0 && file)
		return of_file(file + 1);
	return *command == '/' ? of_file(command) : HR_SECTION_OTHER;
}

/*
 * "*** /proc/cmdline" begins a section, "*** ls: -r--r--r-- ..." does not. FILE_MARK begins a file
 * of hr_bug_report_files().
 */
static bool starred(struct hr_bug_report *r, const char *line, unsigned number)
{
	if (begins_with(line, "*** ls:"))
		return r->known;
	if (begins_with(line, FILE_MARK)) {
		r->known = true;
		r->heading = false;
		r->base = number;
		r->section = of_command(line + strlen(FILE_MARK));
		return true;
	}
	if (!begins_with(line, "*** /"))
		return false;
	r->known = true;
	r->heading = false;
	r->section = of_file(line + 4);
	return true;
}

static bool heading(struct hr_bug_report *r, const char *line, size_t length, unsigned number)
{
	size_t n = strspn(line, "_");

	if (n >= RULE_LEAST && line[n + strspn(line + n, " ")] == '\0') {
		r->heading = true;
		r->section = r->known ? HR_SECTION_OTHER : HR_SECTION_NONE;
		return true;
	}
	if (begins_with(line, "#==[ ") && strstr(line, " ]=")) {
		r->known = r->heading = true;
		r->section = HR_SECTION_OTHER;
		return true;
	}
	if (*line == '*' && starred(r, line, number))
		return true;
	if (!r->heading || length == 0)
		return r->heading;
	r->heading = false;
	if (begins_with(line, "Start of NVIDIA bug report")) {
		r->known = true;
		r->section = HR_SECTION_UNAME;
		return true;
	}
	line += begins_with(line, "# ") ? 2 : 0;
	r->section = of_command(line);
	if (r->section != HR_SECTION_OTHER)
		r->known = true;
	if (!r->known)
		r->section = HR_SECTION_NONE;
	return r->known;
}

/* ---- lines of sections */

/* "Linux HOST 6.8.0-48-generic #48 ..." or "Linux version 6.8.0-48-generic (..." */
static bool uname_line(struct hr_bug_report *r, const char *line)
{
	const char *at = begins_with(line, "uname:") ? line + 6 : line;
	size_t n;

	at += strspn(at, " \t");
	if (!begins_with(at, "Linux "))
		return false;
	at += 6 + strcspn(at + 6, " ");
	at += strspn(at, " ");
	n = strcspn(at, " ");
	if (!isdigit((unsigned char)*at) || n >= HR_WORD_MAX || !memchr(at, '.', n) ||
	    !(begins_with(at + n, " #") || begins_with(at + n, " (")))
		return false;
	snprintf(r->m->sys.kernel, sizeof r->m->sys.kernel, "%.*s", (int)n, at);
	hr_text_clean(r->m->sys.kernel, n);
	return true;
}

/* The text behind "key<blanks>:<blanks>", or NULL. */
static const char *value_of(const char *line, const char *key)
{
	const char *at = begins_with(line, key) ? line + strlen(key) : NULL;

	if (!at)
		return NULL;
	at += strspn(at, " \t");
	return *at == ':' ? at + 1 + strspn(at + 1, " \t") : NULL;
}

static bool has_word(const char *text, const char *word)
{
	const size_t n = strlen(word);

	for (const char *at = text; (at = strstr(at, word)); at += n)
		if ((at == text || at[-1] == ' ') && (at[n] == ' ' || !at[n]))
			return true;
	return false;
}

/* Lines of /proc/cpuinfo, and the same facts of lscpu. */
static void cpu_line(struct hr_bug_report *r, const char *line)
{
	struct hr_system *sys = &r->m->sys;
	const char *at;
	uint64_t number;

	if (value_of(line, "processor"))
		r->cpus++;
	if ((at = value_of(line, "vendor_id")) || (at = value_of(line, "Vendor ID")))
		hr_fact_set(&sys->amd, begins_with(at, "AuthenticAMD"), HR_SRC_SYSFS);
	if (((at = value_of(line, "cpu family")) || (at = value_of(line, "CPU family"))) &&
	    hr_number_parse(at, 10, UINT32_MAX, &at, &number))
		hr_fact_set(&sys->family, (uint32_t)number, HR_SRC_SYSFS);
	if ((at = value_of(line, "CPU(s)")) && hr_number_parse(at, 10, 65536, &at, &number))
		hr_fact_set(&sys->cpus, (uint32_t)number, HR_SRC_SYSFS);
	if ((at = value_of(line, "flags")) || (at = value_of(line, "Flags")))
		hr_fact_set(&sys->hypervisor, has_word(at, "hypervisor"), HR_SRC_SYSFS);
}

static void cmdline_line(struct hr_bug_report *r, const char *line, size_t length)
{
	if (length == 0 || length <= strlen(r->m->sys.cmdline))
		return;
	snprintf(r->m->sys.cmdline, sizeof r->m->sys.cmdline, "%s", line);
	hr_text_clean(r->m->sys.cmdline, strlen(r->m->sys.cmdline));
}

static void nvidia_line(struct hr_bug_report *r, const char *line)
{
	if (begins_with(line, "NVRM version:"))
		hr_read_nvidia_version(r->m, line + 13, HR_SRC_SYSFS);
	else
		hr_read_nvidia_key(r->m, line);
}

/* Lines of text without sections that have a form of their own. */
static bool loose_line(struct hr_bug_report *r, const char *line, size_t length, unsigned number)
{
	if (begins_with(line, "NVRM version:")) {
		nvidia_line(r, line);
		return true;
	}
	if (begins_with(line, "BOOT_IMAGE=")) {
		cmdline_line(r, line, length);
		return true;
	}
	if (begins_with(line, "vendor_id\t") || begins_with(line, "cpu family\t")) {
		cpu_line(r, line);
		return true;
	}
	if ((*line == 'L' || *line == 'u') && uname_line(r, line))
		return true;
	return hr_kernel_log_line(&r->log, line, number, false) >=
	       (r->stamped ? HR_LOG_KNOWN : HR_LOG_MARKED);
}

bool hr_bug_report_line(struct hr_bug_report *r, const char *line, size_t length, unsigned number)
{
	if ((*line == '_' || *line == '#' || *line == '*' || r->heading) &&
	    heading(r, line, length, number))
		return true;
	number -= r->base;
	switch (r->section) {
	case HR_SECTION_LSPCI:
		return false;
	case HR_SECTION_NONE:
		/* Most lines of a dump are data, and those of lspci -v are indented. */
		return *line != '\t' && length > 8 && line[2] != ':' &&
		       loose_line(r, line, length, number);
	case HR_SECTION_LOG:
		hr_kernel_log_line(&r->log, line, number, true);
		return true;
	case HR_SECTION_CPU:
		cpu_line(r, line);
		return true;
	case HR_SECTION_CMDLINE:
		cmdline_line(r, line, length);
		return true;
	case HR_SECTION_UNAME:
		uname_line(r, line);
		return true;
	case HR_SECTION_NVIDIA:
		nvidia_line(r, line);
		return true;
	case HR_SECTION_OTHER:
		break;
	}
	return true;
}

int hr_bug_report_end(struct hr_bug_report *r)
{
	if (r->cpus)
		hr_fact_set(&r->m->sys.cpus, r->cpus, HR_SRC_SYSFS);
	return hr_kernel_log_end(&r->log);
}

/* ---- files of a report */

/* Files of sos and supportconfig, and what they hold; "": sections of their own. */
static const struct {
	const char *path, *heading;
} report_files[] = {
	{ "sos_commands/pci/lspci_-nnvv", "lspci" },
	{ "sos_commands/pci/lspci_-nvv", "lspci" },
	{ "sos_commands/pci/lspci", "lspci" },
	{ "sos_commands/pci/lspci_-tv", "lspci" },
	{ "sos_commands/kernel/dmesg", "dmesg" },
	{ "sos_commands/kernel/dmesg_-T", "dmesg" },
	{ "sos_commands/general/dmesg", "dmesg" },
	{ "sos_commands/kernel/uname_-a", "uname" },
	{ "sos_commands/processor/lscpu", "lscpu" },
	{ "proc/cmdline", "/proc/cmdline" },
	{ "proc/cpuinfo", "/proc/cpuinfo" },
	{ "proc/driver/nvidia/version", "/proc/driver/nvidia/version" },
	{ "proc/driver/nvidia/params", "/proc/driver/nvidia/params" },
	{ "basic-environment.txt", "" },
	{ "hardware.txt", "" },
	{ "boot.txt", "" },
};

/* Files of proc are also part of a sysfs tree. */
static bool is_report(const struct hr_files *files, const char *prefix)
{
	char path[PREFIX_MAX + 64], byte;

	for (unsigned i = 0; i < sizeof report_files / sizeof *report_files; i++) {
		if (begins_with(report_files[i].path, "proc/"))
			continue;
		snprintf(path, sizeof path, "%s%s", prefix, report_files[i].path);
		if (files->read(files, path, &byte, 1) > 0)
			return true;
	}
	return false;
}

struct finding {
	const struct hr_files *files;
	char prefix[PREFIX_MAX];
	bool found;
};

static int one_folder(void *to, const char *name)
{
	struct finding *f = to;

	snprintf(f->prefix, sizeof f->prefix, "%.255s/", name);
	f->found = is_report(f->files, f->prefix);
	return f->found;
}

/* Add one file as a section. False: the text is full. */
static bool add_file(const struct finding *f, unsigned i, char *text, size_t capacity, size_t *size)
{
	size_t room;
	char path[PREFIX_MAX + 64];
	size_t head;
	long n;

	snprintf(path, sizeof path, "%s%s", f->prefix, report_files[i].path);
	if (capacity - *size < 1024)
		return false;
	head = (size_t)snprintf(text + *size, capacity - *size, "\n" FILE_MARK "%s\n",
				report_files[i].heading);
	room = capacity - *size - head - 2;
	n = f->files->read(f->files, path, text + *size + head, room);
	if (n <= 0)
		return true;
	*size += head + (size_t)n;
	text[(*size)++] = '\n';
	return (size_t)n < room;
}

int hr_bug_report_files(struct hr_model *m, const struct hr_files *files, char **text, size_t *size)
{
	struct finding f = { .files = files };
	const size_t used = m->used;

	*text = NULL;
	*size = 0;
	f.found = is_report(files, "");
	if (!f.found)
		files->list(files, ".", one_folder, &f);
	if (!f.found)
		return 0;
	*text = hr_model_alloc(m, FILE_MAX + 8);
	if (!*text)
		return -ENOMEM;
	for (unsigned i = 0; i < sizeof report_files / sizeof *report_files; i++)
		if (!add_file(&f, i, *text, FILE_MAX, size)) {
			hr_model_warn(m,
				      "the report is larger than %u MiB: the rest of it is not "
				      "read",
				      FILE_MAX >> 20);
			break;
		}
	if (*size == 0) {
		*text = NULL;
		hr_model_release(m, used);
	}
	return 0;
}

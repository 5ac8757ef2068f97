/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dumps as pciutils reads them (lib/dump.c): a device line, data lines, an empty line. All other
 * lines are text, which lspci ignores and from which pci/topo/lspci/text.c takes facts.
 */
#include "pci/topo/lspci/lspci.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "pci/topo/lspci/text.h"
#include "pci/topo/merge.h"
#include "pci/topo/decode.h"
#include "pci/topo/fields.h"
#include "pci/topo/log/bug_report.h"

#define MANY_FUNCTIONS "more PCI functions than one machine can have (65536)"
#define LINE_MAX_DUMP 253u /* pciutils: 254 with the newline */

/* A sequence of functions in the order of their addresses: the output of one command. */
struct pass {
	unsigned line; /* first line */
	bool any;
	uint64_t last;		     /* address */
	uint32_t before, new, again; /* functions known before, new ones, and ones stated again */
	bool host_again; /* a host bridge is stated again: both outputs list the whole machine */
};

struct dump {
	struct hr_model *m;
	struct hr_capture_stream *s;
	struct hr_fn *f; /* NULL between devices */
	/* when f is a second statement in `again`: the function it repeats; else NULL */
	struct hr_fn *known;
	struct hr_fn again;
	struct pass pass;
	struct hr_groups_seen groups;
	struct hr_escapes_string string;
	struct hr_lspci_paste paste;
	struct hr_slot_paths paths;
	struct hr_machine machine;
	struct hr_lspci_tree tree;
	struct hr_lspci_state text;
	struct hr_smi_reader smi;
	struct hr_bug_report report;
	bool title_open; /* the last line was f's title */
	bool unindented; /* the lines of f have lost their indentation */
	struct hr_acs_reader acs;
	unsigned acs_lines; /* of f */
	bool any_data;	    /* in the file */
	unsigned long_line, cut_line;
	unsigned captures; /* captures in headrace's own format */
	uint32_t bytes;	   /* highest offset + 1 */
	uint8_t config[HR_CFG_EXTENDED];
};

static int fail_line(struct dump *d, unsigned line, const char *what)
{
	return hr_fail(&d->m->error, HR_ERROR_USAGE, -EINVAL, "line %u: %s", line, what);
}

/* Digit + 1, for speed: a dump has 8192 digits per function. 0 for every other character. */
static const int8_t digit[256] = {
	['0'] = 1,  ['1'] = 2,	['2'] = 3,  ['3'] = 4,	['4'] = 5,  ['5'] = 6,
	['6'] = 7,  ['7'] = 8,	['8'] = 9,  ['9'] = 10, ['a'] = 11, ['b'] = 12,
	['c'] = 13, ['d'] = 14, ['e'] = 15, ['f'] = 16, ['A'] = 11, ['B'] = 12,
	['C'] = 13, ['D'] = 14, ['E'] = 15, ['F'] = 16,
};

/* Value of a hexadecimal digit; -1: another character. */
static int nibble(char c)
{
	return digit[(unsigned char)c] - 1;
}

/* Compare the identifiers of a dump that is too short to decode. */
static bool other_device(const struct hr_fn *was, const uint8_t *config, uint32_t bytes)
{
	return was->config && was->config_bytes >= 12 && bytes >= 12 &&
	       (memcmp(was->config, config, 4) != 0 || memcmp(was->config + 9, config + 9, 3) != 0);
}

/* A file must show one machine at one moment; a contradiction is reported at the second capture. */
static int end_again(struct dump *d)
{
	char text[200], bdf[HR_BDF_MAX], why[120] = "device is different";

	if (hr_function_contradicts(d->known, d->f, why, sizeof why) ||
	    other_device(d->known, d->config, d->bytes)) {
		snprintf(text, sizeof text,
			 "a second capture begins here and contradicts the first: %s %s; "
			 "keep one of them",
			 hr_bdf(d->f, bdf), why);
		return fail_line(d, d->pass.line, text);
	}
	d->pass.again++;
	d->pass.host_again |= hr_get(d->f, HR_F_CLASS, 0) >> 8 == 0x0600;
	hr_function_merge(d->known, d->f);
	return 0;
}

static int end_device(struct dump *d)
{
	char title[HR_MACHINE_TITLE], bdf[HR_BDF_MAX];
	struct hr_fn *f = d->f;
	int err = 0;

	if (!f)
		return 0;
	if (d->machine.record) {
		hr_machine_title(&d->machine, title);
		hr_lspci_title(d->m, f, title, strlen(title));
	}
	hr_lspci_text_end(f, &d->text);
	if (d->bytes) {
		f->config = hr_model_alloc(d->m, d->bytes);
		if (!f->config)
			return -ENOMEM;
		memcpy(f->config, d->config, d->bytes);
		f->config_bytes = d->bytes;
		f->denied = false;
		hr_decode(f, f->config, f->config_bytes);
	}
	/* a title of no known form */
	if (!hr_known(f, HR_F_CLASS) && f->name[0]) {
		snprintf(title, sizeof title, "%s %.100s", hr_bdf(f, bdf), f->name);
		hr_skipped_add(d->m, f->line, title);
	}
	if (d->known)
		err = end_again(d);
	d->f = d->known = NULL;
	d->bytes = 0;
	return err;
}

/* Refuse two lists of the whole machine when each has a function that the other lacks. */
static int end_pass(struct dump *d)
{
	const struct pass *p = &d->pass;

	if (!p->host_again || !p->new || p->again == p->before)
		return 0;
	return fail_line(d, p->line,
			 "a second capture begins here, with other functions than the first: two "
			 "machines, or one before and after a change; keep one of them");
}

static int begin_pass(struct dump *d, uint64_t address)
{
	int err = 0;

	if (!d->pass.any || address <= d->pass.last) {
		err = end_pass(d);
		d->pass = (struct pass){ .line = d->s->line, .any = true, .before = d->m->count };
	}
	d->pass.last = address;
	return err;
}

static void begin_title(struct dump *d, const char *title, size_t length)
{
	char text[HR_MACHINE_TITLE];

	if (hr_machine_fields(&d->machine, title)) {
		hr_machine_title(&d->machine, text);
		hr_lspci_title(d->m, d->f, text, strlen(text));
	} else {
		hr_lspci_title(d->m, d->f, title, length);
	}
}

/* Begin the function of a path; `title` is the text after it, NULL: other lines have its fields. */
static int begin_device(struct dump *d, const struct hr_slot_path *path, const char *title,
			size_t length)
{
	uint32_t known = d->m->count;
	int err = end_device(d);
	struct hr_fn *f;

	if (err)
		return err;
	if (path->step[path->count - 1].dev > 31 || path->step[path->count - 1].fn > 7)
		return fail_line(d, d->s->line,
				 "no such device or function number (31 and 7 at most)");
	f = hr_slot_path_add(d->m, &d->paths, path);
	if (!f) {
		fail_line(d, d->s->line, MANY_FUNCTIONS);
		return -E2BIG;
	}
	err = begin_pass(d, hr_address(f));
	if (err)
		return err;
	d->f = f;
	d->pass.new += d->m->count != known;
	if (f->line) {
		d->known = f;
		d->again = (struct hr_fn){ f->domain, f->bus, f->dev, f->fn, .name = "" };
		d->f = &d->again;
	}
	d->f->line = d->s->line;
	d->text = (struct hr_lspci_state){ 0 };
	d->unindented = false;
	d->title_open = true;
	d->acs_lines = 0;
	d->acs = (struct hr_acs_reader){ 0 };
	d->machine = (struct hr_machine){ .record = title == NULL };
	memset(d->config, 0xff, sizeof d->config);
	hr_groups_set(&d->groups, d->m, d->f);
	if (title)
		begin_title(d, title, length);
	return 0;
}

/* Length of an address or path and the blank after it at the start of the line; 0: another line. */
static size_t device_line(const char *line, size_t length, struct hr_slot_path *path)
{
	size_t n;

	/* The shortest device line is "00:00.0 "; the stream ends every line with a NUL. */
	if (length < 8 || nibble(line[0]) < 0)
		return 0;
	/* Lines that begin with "00: " or "100: " are data lines, which are frequent. */
	if (line[2] == ':' ? line[3] == ' ' : line[3] == ':')
		return 0;
	n = hr_slot_path_parse(line, path);
	return n && line[n] == ' ' ? n + 1 : 0;
}

/* Offset of the address in the first line of a record of lspci -vmm; 0: another line. */
static size_t record_line(const char *line, struct hr_slot_path *path)
{
	size_t from = hr_machine_slot(line), n;

	if (!from)
		return 0;
	n = hr_slot_path_parse(line + from, path);
	if (n)
		n += strspn(line + from + n, " \t");
	/* the end of the line, or in a string an escaped one */
	return n && (line[from + n] == '\0' || strchr("\\\"'", line[from + n])) ? from : 0;
}

static bool begins(const char *line, size_t length)
{
	struct hr_slot_path path;

	return device_line(line, length, &path) || hr_lspci_tree_begins(line) ||
	       record_line(line, &path);
}

/* Number of offset digits before ": ", 2 to 8; 0: not a data line. */
static size_t data_line(const char *line, size_t length, uint32_t *offset)
{
	size_t n = 0;

	for (*offset = 0; n < 8 && n < length && nibble(line[n]) >= 0; n++)
		*offset = *offset << 4 | (uint32_t)nibble(line[n]);
	return n >= 2 && n + 1 < length && line[n] == ':' && line[n + 1] == ' ' ? n + 2 : 0;
}

static int parse_config_bytes(struct dump *d, const char *z, uint32_t offset)
{
	int high, low;

	while ((high = nibble(z[0])) >= 0 && (low = nibble(z[1])) >= 0 &&
	       (z[2] == '\0' || z[2] == ' ')) {
		if (offset >= HR_CFG_EXTENDED)
			return fail_line(d, d->s->line,
					 "configuration space has 4096 bytes at most");
		d->config[offset++] = (uint8_t)(high << 4 | low);
		if (offset > d->bytes)
			d->bytes = offset;
		z += 2;
		if (*z)
			z++;
	}
	return *z ? fail_line(d, d->s->line, "malformed line: not bytes in hexadecimal") : 0;
}

/* Lines of a function are indented, unless all indentation was lost. */
static bool in_block(struct dump *d, const char *line, size_t from)
{
	if (from || d->unindented)
		return true;
	if (d->title_open && hr_text_title_more(d->f, line))
		return true;
	d->unindented = hr_text_is_line(line);
	return d->unindented;
}

static int text_line(struct dump *d, char *line, size_t length)
{
	size_t from = 0;

	while (from < length && (line[from] == '\t' || line[from] == ' '))
		from++;
	if (strncmp(line + from, "headrace: ", 10) == 0) {
		if (strncmp(line + from + 10, "capture=", 8) == 0 && d->captures++ + d->m->count)
			return fail_line(d, d->s->line, "a second capture begins here; keep one");
		if (!hr_capture_line(d->m, d->f, line + from + 10, length - from - 10))
			return fail_line(d, d->s->line, "not a fact of a capture");
		return 0;
	}
	if (!d->f || !in_block(d, line, from)) {
		hr_skipped_add(d->m, d->s->line, line + from);
		return 0;
	}
	d->title_open = false;
	hr_lspci_text_line(d->m, d->f, &d->text, line + from, length - from);
	return 0;
}

static void count_acs(struct dump *d, uint32_t lines, bool redirects)
{
	struct hr_acs_lines *seen = &d->m->acs_lines;

	if (lines > HR_FUNCTIONS_MAX - seen->lines)
		return;
	seen->lines += lines;
	seen->redirecting += redirects ? lines : 0;
}

/* Some ports have registers of 32 bits, so the word at the usual offset is no control. */
static void set_acs(struct dump *d, const struct hr_acs_line *acs)
{
	const struct hr_fn *f = d->known ? d->known : d->f;

	if (hr_acs_is_wide(hr_get(f, HR_F_VENDOR, 0), hr_get(f, HR_F_DEVICE, 0)))
		return;
	if (acs->flags)
		hr_lspci_text_line(d->m, d->f, &d->text, acs->flags, strlen(acs->flags));
	else
		hr_fn_set(d->f, HR_F_ACS_CTL, acs->value, HR_SRC_TEXT);
	if (acs->offset)
		hr_fn_set(d->f, HR_F_ACS, acs->offset, HR_SRC_TEXT);
}

/* Take a control of the function at this place of the text. Two of them are a list of grep. */
static void acs_near(struct dump *d, const struct hr_acs_line *acs)
{
	const bool redirects = acs->flags && hr_acs_flags_redirect(acs->flags);

	if (d->f && !d->acs.listed && !hr_known(d->f, HR_F_ACS) && d->acs_lines++ == 1) {
		count_acs(d, 1, hr_get(d->f, HR_F_ACS_CTL, 0) & HR_ACS_REDIRECT);
		d->f->fact[HR_F_ACS_CTL].source = HR_SRC_NONE;
		d->acs.listed = true;
	}
	if (!d->f || d->acs.listed)
		count_acs(d, acs->lines, redirects);
	else
		set_acs(d, acs);
}

/* Take a control of the function at an address that the line, or one before it, states. */
static int acs_of(struct dump *d, const struct hr_acs_line *acs)
{
	const struct hr_slot_path path = { .domain = (uint32_t)(acs->address >> 16),
					   .count = 1,
					   .step[0] = { .has_bus = true,
							.bus = (uint8_t)(acs->address >> 8),
							.dev = acs->address >> 3 & 31,
							.fn = acs->address & 7 } };
	int err = begin_device(d, &path, "", 0);

	if (err)
		return err;
	set_acs(d, acs);
	return end_device(d);
}

/* 1: the line has an ACS control or names its function; 0: another line; or an error. */
static int acs_line(struct dump *d, const char *line)
{
	struct hr_acs_line acs;
	int err;

	switch (hr_acs_line(&d->acs, line + strspn(line, " \t>|"), &acs)) {
	case HR_ACS_OF:
		err = acs_of(d, &acs);
		return err ? err : 1;
	case HR_ACS_END:
		err = end_device(d);
		return err ? err : 1;
	case HR_ACS_NEAR:
		d->title_open = false;
		acs_near(d, &acs);
		return 1;
	default:
		return 0;
	}
}

/* The limits of lspci -F apply to the lines of a dump only; text may have longer lines. */
static void limit_line(struct dump *d, size_t length)
{
	if (length > LINE_MAX_DUMP && !d->long_line)
		d->long_line = d->s->line;
	if (d->s->cut)
		d->cut_line = d->s->line;
}

static int one_line(struct dump *d, char *line, size_t length)
{
	struct hr_slot_path path;
	uint32_t offset;
	size_t n;
	int tree, acs;

	d->report.stamped = d->paste.stamped;
	if (hr_bug_report_line(&d->report, line, length, d->s->line))
		return 0;
	if (hr_smi_line(&d->smi, d->m, line))
		return end_device(d);
	length = hr_paste_emphasis(begins, line, length);
	line = hr_groups_line(&d->groups, begins, line, &length);
	line = hr_lspci_paste_line(&d->paste, begins, line, &length);
	if (length == 0)
		return end_device(d);
	acs = acs_line(d, line);
	if (acs)
		return acs < 0 ? acs : 0;
	n = device_line(line, length, &path);
	if (n) {
		limit_line(d, length);
		return begin_device(d, &path, line + n, length - n);
	}
	if (record_line(line, &path))
		return begin_device(d, &path, NULL, 0);
	if (d->machine.record && d->f && hr_machine_line(&d->machine, d->m, d->f, line))
		return 0;
	n = d->f ? data_line(line, length, &offset) : 0;
	if (!n) {
		if (hr_lspci_tree_begins(line) && (tree = end_device(d)) != 0)
			return tree;
		tree = hr_lspci_tree_line(&d->tree, d->m, line, d->s->line);
		return tree ? (tree < 0 ? tree : 0) : text_line(d, line, length);
	}
	d->any_data = true;
	limit_line(d, length);
	return parse_config_bytes(d, line + n, offset);
}

/* Most lines of a large file: data of a function, and nothing else on the line. */
static bool is_plain_data(const struct dump *d, const char *line, size_t length)
{
	const enum hr_section section = d->report.section;

	if (!d->f || !d->paste.plain || d->machine.record || d->report.heading ||
	    (section != HR_SECTION_NONE && section != HR_SECTION_LSPCI) || nibble(line[0]) < 0)
		return false;
	return nibble(line[length - 1]) >= 0 && strspn(line, "0123456789abcdefABCDEF: ") == length;
}

/* A line of the file, which may be a string with several lines of lspci in it. */
static int file_line(struct dump *d, char *line, size_t length)
{
	uint32_t offset;
	size_t n;
	int err = 0;

	if (is_plain_data(d, line, length) && (n = data_line(line, length, &offset))) {
		d->any_data = true;
		limit_line(d, length);
		return parse_config_bytes(d, line + n, offset);
	}
	if (!hr_escapes_begin(&d->string, begins, line, length))
		return one_line(d, line, length);
	/* The string ends with its mark, so its last line is whole. */
	d->s->cut = false;
	d->cut_line = 0;
	while (!err && (line = hr_escapes_next(&d->string, &length)))
		err = one_line(d, line, length);
	return err;
}

static int check_limits(struct dump *d)
{
	if (!d->any_data)
		return 0;
	if (d->long_line)
		return fail_line(d, d->long_line, "line too long for a dump (254 bytes at most)");
	if (d->cut_line)
		return fail_line(d, d->cut_line, "the last line is cut off: no newline");
	return 0;
}

static int no_function(struct dump *d)
{
	struct hr_model *m = d->m;

	if (m->smi && m->smi->rows)
		snprintf(m->input, sizeof m->input, "%s", m->smi->tool);
	if (m->smi && m->smi->rows)
		return hr_fail(&m->error, HR_ERROR_USAGE, -ENODATA,
			       "a matrix of %s and no PCI function; capture with: sudo lspci "
			       "-vvvxxxx",
			       m->smi->tool);
	if (m->acs_lines.lines)
		return hr_fail(&m->error, HR_ERROR_USAGE, -ENODATA,
			       "%u lines of ACSCtl without addresses; capture with: sudo lspci "
			       "-vvvxxxx",
			       m->acs_lines.lines);
	return hr_fail(&m->error, HR_ERROR_USAGE, -ENODATA,
		       "no PCI function in %u lines; capture with: sudo lspci -vvvxxxx",
		       d->s->line);
}

/* A report has sections of any content: only those of lspci must be text of a sane form. */
static bool is_foreign(const struct dump *d)
{
	return d->report.known && d->report.section != HR_SECTION_LSPCI;
}

/* The next line; of a foreign section, a line that does not fit the buffer is read in pieces. */
static char *next_line(struct dump *d, size_t *length)
{
	struct hr_capture_stream *s = d->s;
	char *line;

	while (!(line = hr_capture_stream_line(s, length)) && s->error == -EMSGSIZE &&
	       is_foreign(d)) {
		s->error = 0;
		s->from = s->to;
	}
	return line;
}

static int read_lines(struct dump *d)
{
	struct hr_capture_stream *s = d->s;
	size_t length;
	char *line;
	int err = 0;

	while (!err && (line = next_line(d, &length))) {
		if (length && line[length - 1] == '\r')
			line[--length] = '\0';
		if (!memchr(line, 0, length))
			err = file_line(d, line, length);
		else if (!is_foreign(d))
			err = fail_line(d, s->line, "a NUL byte: not a text file");
	}
	if (!err && s->error == -EMSGSIZE)
		err = fail_line(d, s->line + 1, "line too long");
	return err ? err : s->error;
}

/* Add the facts of a report's other sections when lspci has listed all functions. */
static int end_report(struct dump *d)
{
	struct hr_model *m = d->m;
	const bool listed = m->count != 0;
	struct hr_log_iommu *log = hr_model_alloc(m, sizeof *log);
	int err = log ? hr_bug_report_end(&d->report) : -ENOMEM;

	if (err == -E2BIG)
		fail_line(d, d->s->line, MANY_FUNCTIONS);
	if (err)
		return err;
	*log = d->report.log.iommu;
	m->iommu_log = log;
	if (m->count && !d->any_data && !d->captures)
		snprintf(m->input, sizeof m->input, listed ? "lspci text" : "kernel log");
	return 0;
}

int hr_read_lspci(struct hr_model *m, struct hr_capture_stream *s)
{
	struct dump d = { .m = m, .s = s };
	int err;

	snprintf(m->input, sizeof m->input, "lspci dump");
	hr_bug_report_init(&d.report, m);
	err = read_lines(&d);
	if (!err)
		err = end_device(&d);
	if (!err)
		err = end_pass(&d);
	if (!err)
		err = check_limits(&d);
	if (!err)
		err = end_report(&d);
	hr_bug_report_fini(&d.report);
	if (!err && m->count == 0)
		err = no_function(&d);
	if (!err && d.paths.assumed)
		hr_model_warn(m,
			      "lspci -P states no bus below a bridge: the bus numbers are assumed; "
			      "lspci -PP states them");
	return err;
}

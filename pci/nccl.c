/*
 * NCCL topology files: <system><cpu numaid=..><pci busid=.. class=.. link_speed=.. link_width=..>.
 * They nest functions as the bridges do, but name no bus numbers and no registers: everything that
 * a verdict needs beyond the shape stays unknown.
 */
#include "pci/source.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pci/fields.h"

struct reader {
	struct hr_model *m;
	const char *text, *at, *end;
	struct hr_fn *open[HR_DEPTH_MAX]; /* enclosing <pci> elements */
	unsigned depth;
	unsigned inside; /* elements that are open, whatever their names */
	uint32_t numa;
	uint32_t amd, family; /* ~0u: not said */
};

static int fail(struct reader *r, const char *what)
{
	unsigned line = 1;

	for (const char *p = r->text; p < r->at; p++)
		line += *p == '\n';
	snprintf(r->m->message, sizeof r->m->message, "line %u: %s", line, what);
	return -EINVAL;
}

/* Value of an attribute of the tag that ends at `stop`; false when there is none. */
static bool attribute(const char *tag, const char *stop, const char *name, char *to,
		      size_t capacity)
{
	size_t length = strlen(name);

	for (const char *p = tag; p + length + 2 < stop; p++) {
		const char *value = p + length + 2, *quote;

		if ((*p != ' ' && *p != '\t' && *p != '\n') || strncmp(p + 1, name, length) != 0 ||
		    p[1 + length] != '=')
			continue;
		if (*value != '"' && *value != '\'')
			return false;
		quote = memchr(value + 1, *value, (size_t)(stop - value - 1));
		if (!quote || (size_t)(quote - value) > capacity)
			return false;
		memcpy(to, value + 1, (size_t)(quote - value - 1));
		to[quote - value - 1] = '\0';
		return true;
	}
	return false;
}

static void take_numbers(struct hr_fn *f, const char *tag, const char *stop)
{
	static const char *const speed[] = { "2.5", "5", "8", "16", "32", "64" };
	static const struct {
		const char *name;
		enum hr_fact_id id;
	} ids[] = { { "vendor", HR_F_VENDOR }, { "device", HR_F_DEVICE } };
	char value[64];

	for (unsigned i = 0; i < 2; i++)
		if (attribute(tag, stop, ids[i].name, value, sizeof value))
			hr_fn_set(f, ids[i].id, (uint32_t)strtoul(value, NULL, 16), HR_SRC_XML);
	if (attribute(tag, stop, "class", value, sizeof value))
		hr_fn_set(f, HR_F_CLASS, (uint32_t)strtoul(value, NULL, 16), HR_SRC_XML);
	if (attribute(tag, stop, "link_width", value, sizeof value) && strtoul(value, NULL, 10))
		hr_fn_set(f, HR_F_WIDTH_MAX, (uint32_t)strtoul(value, NULL, 10), HR_SRC_XML);
	if (!attribute(tag, stop, "link_speed", value, sizeof value))
		return;
	for (uint32_t i = 0; i < 6; i++)
		if (strtod(value, NULL) > strtod(speed[i], NULL) - 0.1 &&
		    strtod(value, NULL) < strtod(speed[i], NULL) + 0.1)
			hr_fn_set(f, HR_F_SPEED_MAX, i + 1, HR_SRC_XML);
}

/* The bridge a function hangs under is the enclosing element; switch ports are left out. */
static void nest(struct reader *r, struct hr_fn *f)
{
	struct hr_fn *up = r->depth ? r->open[r->depth - 1] : NULL;

	if (r->numa != ~0u)
		hr_fn_set(f, HR_F_NUMA, r->numa, HR_SRC_XML);
	if (!up)
		return;
	hr_fn_set(up, HR_F_HEADER, 1, HR_SRC_XML);
	f->placed = true;
	f->under = hr_address(up);
}

static int open_pci(struct reader *r, const char *tag, const char *stop)
{
	uint32_t domain, bus, dev, fn;
	char busid[64];
	struct hr_fn *f;

	if (!attribute(tag, stop, "busid", busid, sizeof busid) ||
	    hr_bdf_parse(busid, &domain, &bus, &dev, &fn) != strlen(busid))
		return fail(r, "<pci> without a busid like 0000:41:00.0");
	f = hr_model_add(r->m, domain, bus, dev, fn);
	if (!f)
		return fail(r, "no such address, or more functions than one machine can have");
	take_numbers(f, tag, stop);
	nest(r, f);
	if (stop[-1] == '/')
		return 0;
	if (r->depth == HR_DEPTH_MAX)
		return fail(r, "bridges nested too deeply");
	r->open[r->depth++] = f;
	return 0;
}

static void open_cpu(struct reader *r, const char *tag, const char *stop)
{
	char value[64];

	r->numa = ~0u;
	if (attribute(tag, stop, "numaid", value, sizeof value))
		r->numa = (uint32_t)strtol(value, NULL, 10);
	if (attribute(tag, stop, "vendor", value, sizeof value))
		hr_fact_set(&r->m->sys.amd, strcmp(value, "AuthenticAMD") == 0, HR_SRC_XML);
	if (attribute(tag, stop, "familyid", value, sizeof value))
		hr_fact_set(&r->m->sys.family, (uint32_t)strtoul(value, NULL, 10), HR_SRC_XML);
}

static bool is_tag(const char *tag, const char *name)
{
	size_t n = strlen(name);

	return strncmp(tag, name, n) == 0 && strchr(" \t\n/>", tag[n]) != NULL;
}

/* A file may be cut between elements: every one that was opened must be closed. */
static int count_tag(struct reader *r, const char *tag, const char *stop)
{
	if (*tag == '?' || *tag == '!' || stop[-1] == '/')
		return 0;
	if (*tag != '/') {
		r->inside++;
		return 0;
	}
	if (r->inside == 0)
		return fail(r, "an element ends that was not opened");
	r->inside--;
	return 0;
}

static int one_tag(struct reader *r, const char *tag, const char *stop)
{
	int err = count_tag(r, tag, stop);

	if (err)
		return err;
	if (is_tag(tag, "pci"))
		return open_pci(r, tag, stop);
	if (is_tag(tag, "cpu"))
		open_cpu(r, tag, stop);
	if (is_tag(tag, "/pci")) {
		if (r->depth == 0)
			return fail(r, "</pci> without <pci>");
		r->depth--;
	}
	return 0;
}

int hr_read_nccl(struct hr_model *m, const char *text, size_t size)
{
	struct reader r = { .m = m, .text = text, .at = text, .end = text + size, .numa = ~0u };
	int err = 0;

	snprintf(m->input, sizeof m->input, "NCCL topology");
	while (!err && (r.at = memchr(r.at, '<', (size_t)(r.end - r.at)))) {
		const char *stop = memchr(r.at, '>', (size_t)(r.end - r.at));

		if (!stop)
			return fail(&r, "a tag that does not end");
		err = one_tag(&r, r.at + 1, stop);
		r.at = stop;
	}
	if (err)
		return err;
	r.at = r.end;
	if (r.depth)
		return fail(&r, "<pci> without </pci>: the file is cut off");
	if (r.inside)
		return fail(&r, "an element is not closed: the file is cut off");
	if (m->count == 0) {
		snprintf(m->message, sizeof m->message, "no <pci> element in it");
		return -ENODATA;
	}
	return 0;
}

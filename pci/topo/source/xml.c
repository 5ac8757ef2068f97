/* SPDX-License-Identifier: Apache-2.0 */
#include "pci/topo/source/formats.h"

#include <errno.h>
#include <expat.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/text.h"

#define WORDS_MAX 256u /* of 32 CPUs */

const char *hr_xml_get(const char **attributes, const char *name)
{
	for (; attributes[0]; attributes += 2)
		if (strcmp(attributes[0], name) == 0)
			return attributes[1];
	return NULL;
}

bool hr_xml_number(const char **attributes, const char *name, int base, unsigned long *value)
{
	const char *text = hr_xml_get(attributes, name);
	uint32_t number;

	if (!text || !hr_number_parse_u32(text, base, &number))
		return false;
	*value = number;
	return true;
}

/* Words of a mask, the lowest first. Returns their number; 0: not a mask. */
static unsigned mask_words(const char *mask, uint32_t *word)
{
	unsigned n = 0;

	for (const char *at = mask + strlen(mask); at > mask && n < WORDS_MAX; n++) {
		const char *from = at, *end;
		uint64_t bits;

		while (from > mask && from[-1] != ',')
			from--;
		if (!hr_number_parse(from, 16, UINT32_MAX, &end, &bits) || end != at)
			return 0;
		word[n] = (uint32_t)bits;
		at = from > mask ? from - 1 : mask;
	}
	return n;
}

const char *hr_xml_cpus(struct hr_model *m, const char *mask)
{
	uint32_t word[WORDS_MAX];
	unsigned n = mask ? mask_words(mask, word) : 0, used = 0;
	char list[1024] = "";

	for (unsigned cpu = 0; cpu < n * 32 && used + 32 < sizeof list; cpu++) {
		unsigned last = cpu;

		if (!(word[cpu / 32] >> cpu % 32 & 1))
			continue;
		while (last + 1 < n * 32 && word[(last + 1) / 32] >> (last + 1) % 32 & 1)
			last++;
		used += (unsigned)snprintf(list + used, sizeof list - used,
					   cpu == last ? "%s%u" : "%s%u-%u", used ? "," : "", cpu,
					   last);
		cpu = last;
	}
	return hr_model_text(m, list, used);
}

void hr_xml_device(struct hr_model *m, struct hr_fn *f, const char *name)
{
	char list[1024];

	if (f->devices && strlen(f->devices) > 900)
		return;
	snprintf(list, sizeof list, "%.960s%s%.60s", f->devices ? f->devices : "",
		 f->devices ? " " : "", name);
	f->devices = hr_model_text(m, list, strlen(list));
}

void hr_xml_fail(struct hr_xml *x, const char *what)
{
	if (x->failed)
		return;
	x->failed = true;
	hr_fail(&x->m->error, HR_ERROR_USAGE, -EINVAL, "line %lu: %s",
		XML_GetCurrentLineNumber(x->parser), what);
	XML_StopParser(x->parser, XML_FALSE);
}

static void choose_xml_format(struct hr_xml *x, const char *element)
{
	static const struct hr_xml_format *const known[] = { &hr_xml_nccl, &hr_xml_hwloc };
	char text[200];

	for (unsigned i = 0; i < sizeof known / sizeof *known; i++)
		if (strcmp(known[i]->root, element) == 0)
			x->format = known[i];
	if (!x->format) {
		snprintf(text, sizeof text,
			 "<%.32s> is neither <system> of an NCCL topology (NCCL_TOPO_DUMP_FILE) "
			 "nor <topology> of hwloc (lstopo FILE.xml)",
			 element);
		hr_xml_fail(x, text);
		return;
	}
	snprintf(x->m->input, sizeof x->m->input, "%s", x->format->input);
	x->state = hr_model_alloc(x->m, x->format->state_bytes);
	if (!x->state)
		hr_xml_fail(x, "out of memory");
}

static void on_start(void *to, const char *element, const char **attributes)
{
	struct hr_xml *x = to;

	if (x->depth++ == 0)
		choose_xml_format(x, element);
	if (!x->failed && x->depth > HR_XML_DEPTH_MAX)
		hr_xml_fail(x, "elements nested too deeply");
	if (!x->failed)
		x->format->start(x, element, attributes);
}

static void on_end(void *to, const char *element)
{
	struct hr_xml *x = to;

	x->depth--;
	if (!x->failed)
		x->format->end(x, element);
}

/*
 * No topology format has entities. They are refused, because their expansion can make a small file
 * huge.
 */
static void on_entity(void *to, const XML_Char *name, int is_parameter, const XML_Char *value,
		      int length, const XML_Char *base, const XML_Char *system,
		      const XML_Char *public, const XML_Char *notation)
{
	hr_xml_fail(to, "an entity is declared: no topology has any");
}

static void malformed(struct hr_xml *x)
{
	enum XML_Error code = XML_GetErrorCode(x->parser);
	bool cut = code == XML_ERROR_NO_ELEMENTS || code == XML_ERROR_UNCLOSED_TOKEN ||
		   code == XML_ERROR_PARTIAL_CHAR || code == XML_ERROR_UNCLOSED_CDATA_SECTION;

	if (code == XML_ERROR_JUNK_AFTER_DOC_ELEMENT)
		hr_xml_fail(x, "a second file begins here, behind the end of the first");
	else if (cut)
		hr_xml_fail(x, "the file is cut off: it ends inside an element");
	else
		hr_xml_fail(x, XML_ErrorString(code));
}

int hr_read_xml(struct hr_model *m, const char *text, size_t size)
{
	struct hr_xml x = { .m = m, .parser = XML_ParserCreate(NULL) };

	if (!x.parser)
		return -ENOMEM;
	XML_SetUserData(x.parser, &x);
	XML_SetElementHandler(x.parser, on_start, on_end);
	XML_SetEntityDeclHandler(x.parser, on_entity);
	if (XML_Parse(x.parser, text, (int)size, XML_TRUE) == XML_STATUS_ERROR)
		malformed(&x);
	XML_ParserFree(x.parser);
	if (x.failed)
		return -EINVAL;
	if (m->count == 0)
		return hr_fail(&m->error, HR_ERROR_USAGE, -ENODATA, "no PCI function in it");
	return 0;
}

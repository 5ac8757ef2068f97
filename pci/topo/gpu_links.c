/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Links between GPUs that are not PCI Express, further names that the system gives a function, and
 * addresses as text.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "pci/topo/model.h"

#define TEXT_MAX 1023u

const char *hr_model_text(struct hr_model *m, const char *text, size_t bytes)
{
	size_t n = bytes < TEXT_MAX ? bytes : TEXT_MAX;
	char *copy = n ? hr_model_alloc(m, n + 1) : NULL;

	if (!copy)
		return NULL;
	memcpy(copy, text, n);
	hr_text_clean(copy, n);
	return copy;
}

/* ---- addresses as text */

char *hr_bdf(const struct hr_fn *f, char *text)
{
	snprintf(text, HR_BDF_MAX, "%04x:%02x:%02x.%x", f->domain & 0xffffff, f->bus, f->dev,
		 f->fn);
	return text;
}

/* Parse up to max hexadecimal digits at text; returns their number. */
static size_t hex_digits(const char *text, size_t max, uint32_t *value)
{
	size_t n = 0;

	for (*value = 0; n < max; n++) {
		char c = text[n];
		uint32_t digit;

		if (c >= '0' && c <= '9')
			digit = (uint32_t)(c - '0');
		else if ((c | 32) >= 'a' && (c | 32) <= 'f')
			digit = (uint32_t)((c | 32) - 'a' + 10);
		else
			break;
		*value = *value << 4 | digit;
	}
	return n;
}

size_t hr_bdf_parse(const char *text, uint32_t *domain, uint32_t *bus, uint32_t *dev, uint32_t *fn)
{
	uint32_t head;
	size_t n = hex_digits(text, 6, &head), at = n + 1;

	*domain = 0;
	*bus = head;
	if (text[n] != ':')
		return 0;
	if (n >= 4) {
		*domain = head;
		if (hex_digits(text + at, 2, bus) != 2 || text[at + 2] != ':')
			return 0;
		at += 3;
	} else if (n != 2) {
		return 0;
	}
	if (hex_digits(text + at, 2, dev) != 2 || text[at + 2] != '.' ||
	    hex_digits(text + at + 3, 1, fn) != 1)
		return 0;
	return at + 4;
}

uint64_t hr_address_parse(const char *text)
{
	uint32_t domain, bus, dev, fn;
	size_t n = hr_bdf_parse(text, &domain, &bus, &dev, &fn);

	if (!n || text[n] || dev > 31 || fn > 7)
		return HR_NO_ADDRESS;
	return (uint64_t)domain << 16 | bus << 8 | dev << 3 | fn;
}

char *hr_address_text(uint64_t address, char *text)
{
	struct hr_fn f = { .domain = (uint32_t)(address >> 16),
			   .bus = (uint8_t)(address >> 8),
			   .dev = address >> 3 & 31,
			   .fn = address & 7 };

	return hr_bdf(&f, text);
}

/* ---- links */

static bool same_ends(const struct hr_gpu_link *a, const struct hr_gpu_link *b)
{
	return a->from == b->from && a->to == b->to && a->fabric == b->fabric &&
	       a->to_switch == b->to_switch;
}

int hr_model_add_link(struct hr_model *m, const struct hr_gpu_link *link)
{
	if (!m->gpu_link)
		m->gpu_link = hr_model_alloc(m, HR_GPU_LINKS_MAX * sizeof *m->gpu_link);
	if (!m->gpu_link)
		return -ENOMEM;
	for (uint32_t i = 0; i < m->gpu_links; i++)
		if (same_ends(&m->gpu_link[i], link)) {
			if (link->source >= m->gpu_link[i].source)
				m->gpu_link[i] = *link;
			return 0;
		}
	if (m->gpu_links == HR_GPU_LINKS_MAX)
		return -E2BIG;
	m->gpu_link[m->gpu_links++] = *link;
	return 0;
}

static unsigned to_switches(const struct hr_model *m, uint64_t from)
{
	unsigned count = 0;

	for (uint32_t i = 0; i < m->gpu_links; i++)
		if (m->gpu_link[i].from == from && m->gpu_link[i].to_switch)
			count += m->gpu_link[i].count;
	return count;
}

static unsigned direct(const struct hr_model *m, uint64_t from, uint64_t to, enum hr_fabric *fabric)
{
	for (uint32_t i = 0; i < m->gpu_links; i++)
		if (m->gpu_link[i].from == from && m->gpu_link[i].to == to &&
		    !m->gpu_link[i].to_switch) {
			*fabric = (enum hr_fabric)m->gpu_link[i].fabric;
			return m->gpu_link[i].count;
		}
	return 0;
}

unsigned hr_gpu_links(const struct hr_model *m, uint64_t a, uint64_t b, enum hr_fabric *fabric,
		      bool *through)
{
	unsigned there = direct(m, a, b, fabric), back = direct(m, b, a, fabric);

	*through = false;
	if (there || back)
		return there > back ? there : back;
	there = to_switches(m, a);
	back = to_switches(m, b);
	*through = there && back;
	if (*through)
		*fabric = HR_NVLINK;
	return there < back ? there : back;
}

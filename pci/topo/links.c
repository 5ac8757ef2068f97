/*
 * Links between GPUs that are not PCI Express, and further names that the system gives a function.
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

/* SPDX-License-Identifier: Apache-2.0 */
#include "pci/topo/model.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "pci/topo/fields.h"
#include "pci/topo/tables.h"

#define HASH_BUCKETS 131072u /* a power of two, twice HR_FUNCTIONS_MAX */
/* Address space for functions, configuration space and words, and the same again for sorting. */
#define RESERVED ((size_t)768 << 20)

static const struct {
	const char *name;
	bool hex;
} facts[HR_FACTS_COUNT] = {
#define FACT_ROW(id, text, in_hex) [HR_F_##id] = { text, in_hex },
	HR_FACTS(FACT_ROW)
#undef FACT_ROW
};

const char *hr_fact_name(enum hr_fact_id id)
{
	return facts[id].name;
}

bool hr_fact_is_hex(enum hr_fact_id id)
{
	return facts[id].hex;
}

enum hr_fact_id hr_fact_by_name(const char *name, size_t bytes)
{
	for (unsigned i = 0; i < HR_FACTS_COUNT; i++)
		if (strlen(facts[i].name) == bytes && memcmp(facts[i].name, name, bytes) == 0)
			return (enum hr_fact_id)i;
	return HR_FACTS_COUNT;
}

const char *hr_src_name(enum hr_src source)
{
	static const char *const name[] = { "unknown",	  "inferred", "xml",	"kernel-log",
					    "lspci-text", "sysfs",    "config", "user" };

	return name[source];
}

void hr_fact_set(struct hr_fact *fact, uint32_t value, enum hr_src source)
{
	if (source < fact->source)
		return;
	fact->value = value;
	fact->source = (uint8_t)source;
}

void hr_fn_add_switch_link(struct hr_fn *f, uint64_t address)
{
	for (unsigned i = 0; i < f->links; i++)
		if (f->linked[i] == address)
			return;
	if (f->links < HR_SWITCH_LINKS_MAX && address != hr_address(f))
		f->linked[f->links++] = address;
}

int hr_model_init(struct hr_model *m)
{
	void *memory = mmap(NULL, RESERVED, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	memset(m, 0, sizeof *m);
	if (memory == MAP_FAILED)
		return -ENOMEM;
	m->memory = memory;
	m->reserved = RESERVED;
	hr_model_reset(m);
	return 0;
}

void hr_model_fini(struct hr_model *m)
{
	if (m->memory)
		munmap(m->memory, m->reserved);
	memset(m, 0, sizeof *m);
}

void hr_model_reset(struct hr_model *m)
{
	uint8_t *memory = m->memory;
	size_t reserved = m->reserved;

	if (m->used)
		madvise(memory, m->used, MADV_DONTNEED);
	memset(m, 0, sizeof *m);
	m->memory = memory;
	m->reserved = reserved;
	m->bucket = hr_model_alloc(m, HASH_BUCKETS * sizeof *m->bucket);
	m->fn = hr_model_alloc(m, HR_FUNCTIONS_MAX * sizeof *m->fn);
	m->root_bus = hr_model_alloc(m, HR_ROOT_BUSES_MAX * sizeof *m->root_bus);
}

void *hr_model_alloc(struct hr_model *m, size_t bytes)
{
	size_t want = (bytes + 7) & ~(size_t)7;
	void *p;

	if (want < bytes || want > m->reserved - m->used)
		return NULL;
	p = m->memory + m->used;
	m->used += want;
	return p;
}

void hr_model_release(struct hr_model *m, size_t used)
{
	memset(m->memory + used, 0, m->used - used);
	m->used = used;
}

/* Length of the printable character at text (RFC 3629); 0: not one, or a control character. */
static size_t character(const unsigned char *text, size_t left)
{
	static const struct {
		/* Limits of the first byte; of the second byte. */
		unsigned char first, last, low, high;
		size_t bytes;
	} kinds[] = { { 0x20, 0x7e, 0, 0, 1 },	     { 0xc2, 0xc2, 0xa0, 0xbf, 2 },
		      { 0xc3, 0xdf, 0x80, 0xbf, 2 }, { 0xe0, 0xe0, 0xa0, 0xbf, 3 },
		      { 0xe1, 0xec, 0x80, 0xbf, 3 }, { 0xed, 0xed, 0x80, 0x9f, 3 },
		      { 0xee, 0xef, 0x80, 0xbf, 3 }, { 0xf0, 0xf0, 0x90, 0xbf, 4 },
		      { 0xf1, 0xf3, 0x80, 0xbf, 4 }, { 0xf4, 0xf4, 0x80, 0x8f, 4 } };

	for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		size_t n = kinds[i].bytes;

		if (text[0] < kinds[i].first || text[0] > kinds[i].last)
			continue;
		if (n > left || (n > 1 && (text[1] < kinds[i].low || text[1] > kinds[i].high)))
			return 0;
		for (size_t at = 2; at < n; at++)
			if ((text[at] & 0xc0) != 0x80)
				return 0;
		return n;
	}
	return 0;
}

void hr_text_clean(char *text, size_t bytes)
{
	size_t at = 0;

	while (at < bytes) {
		size_t n = character((const unsigned char *)text + at, bytes - at);

		if (n == 0)
			text[at] = '?';
		at += n ? n : 1;
	}
}

const char *hr_model_word(struct hr_model *m, const char *text, size_t bytes)
{
	size_t n = bytes < HR_WORD_MAX - 1 ? bytes : HR_WORD_MAX - 1;
	char *copy;

	/* Do not cut a character in two. */
	for (unsigned i = 0; n < bytes && n && i < 3 && (text[n] & 0xc0) == 0x80; i++)
		n--;
	copy = hr_model_alloc(m, n + 1);
	if (!copy)
		return "";
	memcpy(copy, text, n);
	hr_text_clean(copy, n);
	return copy;
}

void hr_model_warn(struct hr_model *m, const char *format, ...)
{
	va_list args;

	if (m->warnings < HR_WARNINGS_KEPT) {
		va_start(args, format);
		vsnprintf(m->warning[m->warnings], sizeof *m->warning, format, args);
		va_end(args);
	}
	m->warnings++;
}

/* Domain, bus and devfn as one number with the same order. */
static uint64_t address(uint32_t domain, uint32_t bus, uint32_t dev, uint32_t fn)
{
	return (uint64_t)domain << 16 | bus << 8 | dev << 3 | fn;
}

uint64_t hr_address(const struct hr_fn *f)
{
	return address(f->domain, f->bus, f->dev, f->fn);
}

/* The hash bucket that holds the address, or the free bucket where it belongs. */
static uint32_t *bucket_of(const struct hr_model *m, uint64_t key)
{
	uint32_t i = (uint32_t)((key * 0x9e3779b97f4a7c15ull) >> 40) & (HASH_BUCKETS - 1);

	while (m->bucket[i] && hr_address(&m->fn[m->bucket[i] - 1]) != key)
		i = (i + 1) & (HASH_BUCKETS - 1);
	return &m->bucket[i];
}

struct hr_fn *hr_model_add(struct hr_model *m, uint32_t domain, uint32_t bus, uint32_t dev,
			   uint32_t fn)
{
	uint32_t *bucket;
	struct hr_fn *f;

	if (domain > 0xffffff || bus > 255 || dev > 31 || fn > 7)
		return NULL;
	bucket = bucket_of(m, address(domain, bus, dev, fn));
	if (*bucket)
		return &m->fn[*bucket - 1];
	if (m->count == HR_FUNCTIONS_MAX)
		return NULL;
	f = &m->fn[m->count++];
	*bucket = m->count;
	f->domain = domain;
	f->bus = (uint8_t)bus;
	f->dev = (uint8_t)dev;
	f->fn = (uint8_t)fn;
	f->name = "";
	return f;
}

int32_t hr_model_find_address(const struct hr_model *m, uint64_t key)
{
	return (int32_t)*bucket_of(m, key) - 1;
}

int32_t hr_model_find(const struct hr_model *m, uint32_t domain, uint32_t bus, uint32_t dev,
		      uint32_t fn)
{
	return hr_model_find_address(m, address(domain, bus, dev, fn));
}

static int by_address(const void *a, const void *b)
{
	uint64_t x = hr_address(a), y = hr_address(b);

	return (x > y) - (x < y);
}

void hr_model_sort(struct hr_model *m)
{
	bool sorted = true;

	for (uint32_t i = 1; i < m->count && sorted; i++)
		sorted = hr_address(&m->fn[i - 1]) < hr_address(&m->fn[i]);
	if (sorted)
		return;
	qsort(m->fn, m->count, sizeof *m->fn, by_address);
	memset(m->bucket, 0, HASH_BUCKETS * sizeof *m->bucket);
	for (uint32_t i = 0; i < m->count; i++)
		*bucket_of(m, hr_address(&m->fn[i])) = i + 1;
}

bool hr_is_bridge(const struct hr_fn *f)
{
	return hr_known(f, HR_F_HEADER) &&
	       HR_FIELD_GET(f->fact[HR_F_HEADER].value, HR_HEADER_TYPE) == 1;
}

bool hr_model_is_bare(const struct hr_model *m)
{
	for (uint32_t i = 0; i < m->count; i++)
		if (m->fn[i].name[0] || hr_known(&m->fn[i], HR_F_VENDOR))
			return false;
	return m->count > 0;
}

bool hr_is_nvme(const struct hr_fn *f)
{
	return hr_get(f, HR_F_CLASS, 0) >> 8 == 0x0108;
}

bool hr_is_gpu(const struct hr_fn *f)
{
	uint32_t class = hr_get(f, HR_F_CLASS, 0) >> 8, vendor = hr_get(f, HR_F_VENDOR, 0);

	if (hr_get(f, HR_F_GPU, 0))
		return true;
	if (class == 0x1200) /* on bus 0 of Intel: the NPU of the CPU */
		return vendor != 0x8086 || f->bus != 0;
	if (class != 0x0300 && class != 0x0302 && class != 0x0380)
		return false;
	if (vendor == 0x8086)
		return f->bus != 0;
	return vendor == 0x10de || vendor == 0x1002 || (vendor == 0 && class == 0x0302);
}

bool hr_is_nic(const struct hr_fn *f)
{
	uint32_t class = hr_get(f, HR_F_CLASS, 0) >> 8;

	return class == 0x0200 || class == 0x0207 || class == 0x0208;
}

bool hr_is_integrated(const struct hr_fn *f)
{
	uint32_t vendor = hr_get(f, HR_F_VENDOR, 0), class = hr_get(f, HR_F_CLASS, 0) >> 16;
	uint32_t device = hr_get(f, HR_F_DEVICE, 0);

	if (class != 0x03)
		return false;
	if (vendor == 0x8086)
		return f->bus == 0;
	if (hr_device_is(vendor, device, HR_DEV_INTEGRATED))
		return true;
	/* AMD's cards have higher numbers. */
	return (vendor == 0x1002 && device < 0x2000 && hr_name_integrated(f->name)) ||
	       (vendor == 0x10de && !hr_product_by_id(device) && hr_name_unified(f->name));
}

/*
 * The large prefetchable BAR. NVIDIA and AMD have fixed BAR numbers, used when sizes are unknown.
 */
int hr_peer_bar(const struct hr_fn *f)
{
	uint32_t vendor = hr_get(f, HR_F_VENDOR, 0);
	int best = -1;

	if (hr_is_nvme(f))
		return f->bar[0].flags & HR_BAR_MEM ? 0 : -1;
	if (vendor == 0x10de && f->bar[1].flags & HR_BAR_MEM)
		return 1;
	if (vendor == 0x1002 && f->bar[0].flags & HR_BAR_MEM)
		return 0;
	for (int i = 0; i < (int)HR_BARS_MAX; i++) {
		const struct hr_bar *bar = &f->bar[i];

		if (!(bar->flags & HR_BAR_MEM) || bar->flags & HR_BAR_UPPER)
			continue;
		if (best < 0 || bar->size > f->bar[best].size ||
		    (bar->size == f->bar[best].size &&
		     bar->flags & ~f->bar[best].flags & HR_BAR_PREF))
			best = i;
	}
	return best;
}

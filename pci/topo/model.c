#include "pci/topo/model.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "pci/topo/fields.h"
#include "pci/topo/names.h"
#include "pci/topo/products.h"
#include "pci/topo/tables.h"
#include "pci/topo/virtual.h"

#define HASH_BUCKETS 131072u /* a power of two, twice HR_FUNCTIONS_MAX */
#define ROOT_BUSES_MAX 4096u
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

void hr_fn_link_switch(struct hr_fn *f, uint64_t address)
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
	m->root_bus = hr_model_alloc(m, ROOT_BUSES_MAX * sizeof *m->root_bus);
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

int32_t hr_model_find(const struct hr_model *m, uint32_t domain, uint32_t bus, uint32_t dev,
		      uint32_t fn)
{
	return (int32_t)*bucket_of(m, address(domain, bus, dev, fn)) - 1;
}

static int by_address(const void *a, const void *b)
{
	uint64_t x = hr_address(a), y = hr_address(b);

	return (x > y) - (x < y);
}

static void sort(struct hr_model *m)
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

/* Bridges by their secondary bus, for the domain that is being linked. */
struct below {
	int32_t bridge[256];
	bool disputed[256];
};

/*
 * Only a bridge whose secondary number is above its own bus number becomes a parent. Enumeration
 * numbers buses depth first, and the rule keeps a hostile capture from making the tree a ring.
 */
static void note_bridge(struct hr_model *m, struct below *b, int32_t index)
{
	struct hr_fn *f = &m->fn[index];
	uint32_t secondary = hr_get(f, HR_F_SECONDARY, 0);
	char one[HR_BDF_MAX], two[HR_BDF_MAX];

	if (!hr_is_bridge(f) || secondary == 0)
		return;
	if (secondary <= f->bus || secondary > 255) {
		hr_model_warn(m,
			      "%s: secondary bus %02x is not above its own bus or over ff: ignored",
			      hr_bdf(f, one), secondary);
		return;
	}
	if (b->bridge[secondary] != HR_NO_FN) {
		b->disputed[secondary] = true;
		hr_model_warn(
			m, "%s and %s both claim bus %02x: the path to its functions stays unknown",
			hr_bdf(&m->fn[b->bridge[secondary]], one), hr_bdf(f, two), secondary);
		return;
	}
	b->bridge[secondary] = index;
}

/* Functions are sorted, so the functions of a root bus follow each other. */
static int32_t root_of(struct hr_model *m, int32_t index)
{
	const struct hr_fn *f = &m->fn[index];
	bool met = m->root_buses && m->root_bus[m->root_buses - 1].domain == f->domain &&
		   m->root_bus[m->root_buses - 1].bus == f->bus;

	if (!met && m->root_buses < ROOT_BUSES_MAX)
		m->root_bus[m->root_buses++] =
			(struct hr_root_bus){ f->domain, f->bus, index, ~0u };
	return (int32_t)m->root_buses - 1;
}

static int32_t parent_of(struct hr_model *m, const struct below *b, const struct hr_fn *f)
{
	if (f->placed)
		return (int32_t)*bucket_of(m, f->under) - 1;
	/* the bus of a virtual function may be no bridge's secondary bus */
	if (f->physfn != HR_NO_FN)
		return m->fn[f->physfn].parent;
	return b->bridge[f->bus];
}

static void find_parents(struct hr_model *m, uint32_t from, uint32_t to)
{
	struct below b = { 0 };

	for (unsigned i = 0; i < 256; i++)
		b.bridge[i] = HR_NO_FN;
	for (uint32_t i = from; i < to; i++)
		note_bridge(m, &b, (int32_t)i);
	for (uint32_t i = from; i < to; i++) {
		m->fn[i].child = m->fn[i].sibling = HR_NO_FN;
		m->fn[i].parent = parent_of(m, &b, &m->fn[i]);
		m->fn[i].disputed = b.disputed[m->fn[i].bus] && !m->fn[i].placed;
		if (m->fn[i].physfn != HR_NO_FN)
			m->fn[i].disputed = m->fn[m->fn[i].physfn].disputed;
	}
}

/* Only functions with a stated parent (`placed`) can close a ring: bus numbers grow downwards. */
static int32_t find_root(struct hr_model *m, int32_t index)
{
	int32_t top = index;
	uint32_t depth = 0;
	char bdf[HR_BDF_MAX];

	while (m->fn[top].parent != HR_NO_FN && depth <= HR_DEPTH_MAX) {
		top = m->fn[top].parent;
		depth++;
	}
	if (depth > HR_DEPTH_MAX) {
		hr_model_warn(
			m, "%s: more than %u bridges above it: treated as a function on a root bus",
			hr_bdf(&m->fn[index], bdf), HR_DEPTH_MAX);
		m->fn[index].parent = HR_NO_FN;
	}
	m->fn[index].depth = depth;
	return top;
}

static void find_hosts(struct hr_model *m)
{
	for (uint32_t i = 0; i < m->count; i++)
		find_root(m, (int32_t)i);
	for (uint32_t i = 0; i < m->count; i++)
		if (m->fn[i].parent == HR_NO_FN)
			m->fn[i].root_bus = root_of(m, (int32_t)i);
	for (uint32_t i = 0; i < m->count; i++)
		m->fn[i].root_bus = m->fn[find_root(m, (int32_t)i)].root_bus;
}

static void link_children(struct hr_model *m)
{
	for (uint32_t i = m->count; i-- > 0;) {
		struct hr_fn *f = &m->fn[i];

		if (f->parent == HR_NO_FN)
			continue;
		f->sibling = m->fn[f->parent].child;
		m->fn[f->parent].child = (int32_t)i;
	}
}

/*
 * A bus without a bridge above is a root bus if it holds a function that exists only on root buses.
 * Otherwise the capture is cut, and the path to the bus is unknown.
 */
static bool proves_root(const struct hr_fn *f)
{
	uint32_t port = hr_get(f, HR_F_PORT, HR_PORT_ENDPOINT);

	if (f->bus == 0 || hr_get(f, HR_F_CLASS, 0) >> 8 == 0x0600 || port == HR_PORT_ROOT ||
	    port == HR_PORT_RC_ENDPOINT || port == HR_PORT_RC_EVENTS)
		return true;
	/* Conventional functions live on root buses; an unread bridge may be a root port. */
	return !hr_known(f, HR_F_PORT) && (hr_is_bridge(f) || hr_lacks(f, HR_F_EXP, ~0u));
}

/* The secondary bus of a bridge must be in the range of the bridge above it. */
static void check_ranges(struct hr_model *m)
{
	char bdf[HR_BDF_MAX];

	for (uint32_t i = 0; i < m->count; i++) {
		struct hr_fn *f = &m->fn[i];
		const struct hr_fn *up = f->parent == HR_NO_FN ? NULL : &m->fn[f->parent];

		if (!up || !hr_is_bridge(f) || f->placed || !hr_known(up, HR_F_SUBORDINATE) ||
		    hr_get(f, HR_F_SECONDARY, 0) <= hr_get(up, HR_F_SUBORDINATE, 0))
			continue;
		hr_model_warn(m, "%s: bus %02x below it is outside the range of the bridge above",
			      hr_bdf(f, bdf), hr_get(f, HR_F_SECONDARY, 0));
		f->disputed = true;
	}
}

static void mark_orphans(struct hr_model *m)
{
	bool *rooted = hr_model_alloc(m, m->root_buses);

	for (uint32_t i = 0; rooted && i < m->count; i++)
		if (m->fn[i].parent == HR_NO_FN && proves_root(&m->fn[i]))
			rooted[m->fn[i].root_bus] = true;
	for (uint32_t i = 0; rooted && i < m->count; i++)
		m->fn[i].orphan = !rooted[m->fn[i].root_bus];
}

static void infer_numa(struct hr_model *m)
{
	for (uint32_t i = 0; i < m->count; i++) {
		const struct hr_fn *f = &m->fn[i];
		uint32_t node = hr_get(f, HR_F_NUMA, ~0u);

		if (node != ~0u && m->root_bus[f->root_bus].numa == ~0u)
			m->root_bus[f->root_bus].numa = node;
	}
}

/* When no source states the size of a BAR, the alignment of its base is an upper bound. */
static void infer_bar_sizes(struct hr_fn *f)
{
	for (unsigned i = 0; i < HR_BARS_MAX; i++) {
		struct hr_bar *bar = &f->bar[i];

		if (!(bar->flags & HR_BAR_MEM) || bar->size_source || !bar->base)
			continue;
		bar->size = bar->base & -bar->base;
		bar->size_source = HR_SRC_INFERRED;
	}
}

int hr_model_link(struct hr_model *m)
{
	uint32_t from = 0;

	m->root_buses = 0;
	hr_text_clean(m->sys.kernel, strlen(m->sys.kernel));
	hr_text_clean(m->sys.cmdline, strlen(m->sys.cmdline));
	hr_text_clean(m->sys.lockdown, strlen(m->sys.lockdown));
	sort(m);
	hr_virtual_find(m);
	for (uint32_t i = 1; i <= m->count; i++) {
		if (i < m->count && m->fn[i].domain == m->fn[from].domain)
			continue;
		find_parents(m, from, i);
		from = i;
	}
	find_hosts(m);
	link_children(m);
	check_ranges(m);
	mark_orphans(m);
	infer_numa(m);
	hr_virtual_complete(m);
	for (uint32_t i = 0; i < m->count; i++)
		infer_bar_sizes(&m->fn[i]);
	return 0;
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

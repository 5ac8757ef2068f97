/* SPDX-License-Identifier: Apache-2.0 */
/*
 * headrace's own capture format: an lspci dump with "headrace: key=value" lines, which lspci -F
 * ignores. Facts of the machine come before the first function, facts of a function below its
 * title.
 */
#include "pci/topo/lspci/lspci.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/base/bytes.h"
#include "pci/topo/fields.h"
#include "config/base/text.h"
#include "pci/topo/disk.h"
#include "pci/topo/gpu_peers.h"

#define ECAP_SERIAL 0x0003
#define LINE_BYTES 200u /* of a value: a line of a dump has at most 254 bytes */
#define CAPTURE_OF "capture of "

/* Prefixes of keys, by enum hr_src. Facts without a prefix are from sysfs. */
static const char *const prefix[] = { "",      "inferred.", "xml.",    "log.",
				      "text.", "sysfs.",    "config.", "user." };

/* ---- reading */

/* One line: "key=value" without the source in front of the key. */
struct fact_line {
	const char *key, *value;
	size_t length;	    /* of the key */
	enum hr_src source; /* HR_SRC_NONE: no prefix */
};

static enum hr_src source_or(const struct fact_line *l, enum hr_src unsaid)
{
	return l->source == HR_SRC_NONE ? unsaid : l->source;
}

/* Facts of the machine that are numbers. */
static struct hr_fact *system_fact(struct hr_system *sys, const struct fact_line *l)
{
	const struct {
		const char *name;
		struct hr_fact *fact;
	} row[] = { { "cpu_amd", &sys->amd },	     { "cpu_family", &sys->family },
		    { "cpus", &sys->cpus },	     { "hypervisor", &sys->hypervisor },
		    { "iommu", &sys->iommu },	     { "iommu_type", &sys->iommu_type },
		    { "p2pdma", &sys->p2pdma },	     { "nvidia_open", &sys->nvidia_open },
		    { "multipath", &sys->multipath } };

	for (unsigned i = 0; i < sizeof row / sizeof *row; i++)
		if (strlen(row[i].name) == l->length && memcmp(row[i].name, l->key, l->length) == 0)
			return row[i].fact;
	return NULL;
}

static bool is_key(const struct fact_line *l, const char *key)
{
	return strlen(key) == l->length && memcmp(l->key, key, l->length) == 0;
}

static bool system_line(struct hr_model *m, const struct fact_line *l)
{
	struct hr_fact *fact = system_fact(&m->sys, l);
	size_t used = strlen(m->sys.cmdline);
	uint32_t number;

	if (fact) {
		if (!hr_number_parse_u32(l->value, 0, &number))
			return false;
		hr_fact_set(fact, number, source_or(l, HR_SRC_SYSFS));
		return true;
	}
	if (is_key(l, "kernel"))
		snprintf(m->sys.kernel, sizeof m->sys.kernel, "%s", l->value);
	else if (is_key(l, "lockdown"))
		snprintf(m->sys.lockdown, sizeof m->sys.lockdown, "%s", l->value);
	else if (is_key(l, "iommu_reason"))
		snprintf(m->sys.iommu_reason, sizeof m->sys.iommu_reason, "%s", l->value);
	else if (is_key(l, "nvidia"))
		snprintf(m->sys.nvidia, sizeof m->sys.nvidia, "%s", l->value);
	else if (is_key(l, "nvidia_keys"))
		snprintf(m->sys.nvidia_keys, sizeof m->sys.nvidia_keys, "%s", l->value);
	else if (is_key(l, "nvidia_fs"))
		snprintf(m->sys.nvidia_fs, sizeof m->sys.nvidia_fs, "%s", l->value);
	else if (is_key(l, "cmdline")) /* split over several lines */
		snprintf(m->sys.cmdline + used, sizeof m->sys.cmdline - used, "%s", l->value);
	else if (is_key(l, "source"))
		snprintf(m->input, sizeof m->input, CAPTURE_OF "%.64s", l->value);
	else if (!is_key(l, "capture"))
		return false;
	return true;
}

/* BARs of virtual functions have the keys "vf_bar0" and "vf_bar0_size". */
static struct hr_bar *bars_of(struct hr_fn *f, struct fact_line *l)
{
	if (l->length < 3 || memcmp(l->key, "vf_", 3) != 0)
		return f->bar;
	l->key += 3;
	l->length -= 3;
	return f->vf_bar;
}

/* The number of a key of `length` bytes that begins with "bar0" to "bar5", or HR_BARS_MAX. */
static unsigned bar_index(const struct fact_line *name, size_t length)
{
	if (name->length != length || memcmp(name->key, "bar", 3) != 0 || name->key[3] < '0' ||
	    name->key[3] - '0' >= (int)HR_BARS_MAX)
		return HR_BARS_MAX;
	return (unsigned)(name->key[3] - '0');
}

/* "bar1_size=268435456", and for Resizable BAR "bar1_sizes=7fc0" as in sysfs resource1_resize */
static bool bar_size_line(struct hr_fn *f, const struct fact_line *l)
{
	struct fact_line name = *l;
	struct hr_bar *bars = bars_of(f, &name);
	const bool sizes = name.length == 10;
	const unsigned index = bar_index(&name, sizes ? 10 : 9);
	enum hr_src source = source_or(l, HR_SRC_SYSFS);
	const char *end;
	uint64_t value;

	if (index == HR_BARS_MAX || memcmp(name.key + 4, "_sizes", name.length - 4) != 0 ||
	    !hr_number_parse(l->value, sizes ? 16 : 0, sizes ? HR_BAR_SIZES : UINT64_MAX, &end,
			     &value) ||
	    *end)
		return false;
	if (sizes && bars[index].sizes_source <= source) {
		bars[index].sizes = value;
		bars[index].sizes_source = (uint8_t)source;
	}
	if (!sizes && bars[index].size_source <= source) {
		bars[index].size = value;
		bars[index].size_source = (uint8_t)source;
	}
	return true;
}

/* "mem=e0000000-e0ffffff"; base above limit: closed. */
static bool window_line(struct hr_window *w, const struct fact_line *l)
{
	enum hr_src source = source_or(l, HR_SRC_TEXT);
	const char *end;
	uint64_t base, limit;

	if (!hr_number_parse(l->value, 16, UINT64_MAX, &end, &base) || *end != '-' ||
	    !hr_number_parse(end + 1, 16, UINT64_MAX, &end, &limit) || *end)
		return false;
	if (w->source <= source)
		*w = (struct hr_window){ base, limit, (uint8_t)source };
	return true;
}

/* "bar0=e0000000,3": base and enum hr_bar_flags. */
static bool bar_base_line(struct hr_fn *f, const struct fact_line *l)
{
	struct fact_line name = *l;
	struct hr_bar *bars = bars_of(f, &name);
	const unsigned index = bar_index(&name, 4);
	enum hr_src source = source_or(l, HR_SRC_TEXT);
	const char *end;
	uint64_t base, flags;

	if (index == HR_BARS_MAX || !hr_number_parse(l->value, 16, UINT64_MAX, &end, &base) ||
	    *end != ',' || !hr_number_parse(end + 1, 16, 0x1f, &end, &flags) || *end)
		return false;
	if (bars[index].source <= source) {
		bars[index].base = base;
		bars[index].flags = (uint8_t)flags;
		bars[index].source = (uint8_t)source;
	}
	return true;
}

/* "under=0000:10:00.0": the bridge above a function whose bus number does not tell it. */
static bool under_line(struct hr_fn *f, const char *value)
{
	f->under = hr_address_parse(value);
	f->placed = f->under != HR_NO_ADDRESS;
	return f->placed;
}

/* "nvlink=0000:9b:00.0,4", to a switch "nvlink=switch,18" or "nvlink=0000:c7:00.0,2,switch" */
static bool link_line(struct hr_model *m, const struct hr_fn *f, const struct fact_line *l)
{
	struct hr_gpu_link link = { .from = hr_address(f),
				    .to = HR_NO_ADDRESS,
				    .fabric = is_key(l, "xgmi") ? HR_XGMI : HR_NVLINK,
				    .source = (uint8_t)source_or(l, HR_SRC_SYSFS) };
	const char *comma = strchr(l->value, ','), *end;
	uint64_t count;
	char to[24];

	if (!comma || (size_t)(comma - l->value) >= sizeof to)
		return false;
	snprintf(to, sizeof to, "%.*s", (int)(comma - l->value), l->value);
	if (!hr_number_parse(comma + 1, 10, 1024, &end, &count))
		return false;
	link.to_switch = strcmp(to, "switch") == 0 || strcmp(end, ",switch") == 0;
	if (strcmp(to, "switch") != 0)
		link.to = hr_address_parse(to);
	link.count = (uint16_t)count;
	if ((*end && strcmp(end, ",switch") != 0) || count == 0 ||
	    (link.to == HR_NO_ADDRESS && strcmp(to, "switch") != 0))
		return false;
	return hr_model_add_link(m, &link) == 0;
}

/* "p2p=0000:9b:00.0,r=GNS,w=GNS": answers of NVIDIA's driver about the memory of that GPU. */
static bool p2p_line(struct hr_model *m, const struct hr_fn *f, const struct fact_line *l)
{
	struct hr_p2p answer = { .from = hr_address(f),
				 .source = (uint8_t)source_or(l, HR_SRC_SYSFS) };
	const char *at = strchr(l->value, ',');
	char to[HR_BDF_MAX];

	if (!at || (size_t)(at - l->value) >= sizeof to)
		return false;
	snprintf(to, sizeof to, "%.*s", (int)(at - l->value), l->value);
	answer.to = hr_address_parse(to);
	for (; answer.to != HR_NO_ADDRESS && *at == ','; at += strcspn(at, ",")) {
		enum hr_p2p_access access = hr_p2p_access_of(*++at);

		if (access == HR_P2P_ACCESSES || at[1] != '=')
			return false;
		at += 2;
		answer.status[access] = (uint8_t)hr_p2p_status_of(at, strcspn(at, ","));
		if (!answer.status[access])
			return false;
	}
	return answer.to != HR_NO_ADDRESS && hr_p2p_add(m, &answer) == 0;
}

/* A long text is split over several lines. */
static bool append(struct hr_model *m, const char **to, const char *value)
{
	char whole[1024];
	int n;

	if (*to && strlen(*to) + strlen(value) >= sizeof whole)
		return false;
	n = snprintf(whole, sizeof whole, "%s%s", *to ? *to : "", value);

	*to = hr_model_text(m, whole, strlen(whole));
	return n < (int)sizeof whole;
}

static bool switch_line(struct hr_fn *f, const char *value)
{
	uint64_t address = hr_address_parse(value);

	if (address != HR_NO_ADDRESS)
		hr_fn_add_switch_link(f, address);
	return address != HR_NO_ADDRESS;
}

static bool function_line(struct hr_model *m, struct hr_fn *f, const struct fact_line *l)
{
	enum hr_fact_id id = hr_fact_by_name(l->key, l->length);
	uint32_t number;

	if (id < HR_FACTS_COUNT) {
		if (!hr_number_parse_u32(l->value, 0, &number))
			return false;
		hr_fn_set(f, id, number, source_or(l, HR_SRC_SYSFS));
		return true;
	}
	if (is_key(l, "driver"))
		f->driver = hr_model_word(m, l->value, strlen(l->value));
	else if (is_key(l, "switch_link"))
		return switch_line(f, l->value);
	else if (is_key(l, "slot_name"))
		f->pci_slot = hr_model_word(m, l->value, strlen(l->value));
	else if (is_key(l, "denied"))
		f->denied = true;
	else if (is_key(l, "cpus"))
		return append(m, &f->cpus, l->value);
	else if (is_key(l, "fs"))
		f->fs = hr_model_word(m, l->value, strlen(l->value));
	else if (is_key(l, "devices"))
		return append(m, &f->devices, l->value);
	else if (is_key(l, "nvlink") || is_key(l, "xgmi"))
		return link_line(m, f, l);
	else if (is_key(l, "model") || is_key(l, "firmware") || is_key(l, "namespace"))
		return hr_disk_line(m, f, l->key, l->value);
	else if (is_key(l, "p2p"))
		return p2p_line(m, f, l);
	else if (is_key(l, "under"))
		return under_line(f, l->value);
	else if (is_key(l, "mem"))
		return window_line(&f->mem, l);
	else if (is_key(l, "pref"))
		return window_line(&f->pref, l);
	else
		return bar_size_line(f, l) || bar_base_line(f, l);
	return true;
}

bool hr_capture_line(struct hr_model *m, struct hr_fn *f, const char *line, size_t length)
{
	size_t at = strcspn(line, "="), n;
	struct fact_line l = { .key = line, .value = line + at + 1, .length = at };

	if (at >= length)
		return false;
	/* A line never has the sources "config" and "user". */
	for (enum hr_src s = HR_SRC_INFERRED; s <= HR_SRC_SYSFS; s++) {
		n = strlen(prefix[s]);
		if (strncmp(line, prefix[s], n) != 0)
			continue;
		l.source = s;
		l.key += n;
		l.length -= n;
	}
	return f ? function_line(m, f, &l) : system_line(m, &l);
}

/* ---- writing */

struct out {
	int fd;
	int err;
	size_t used;
	char buffer[32768];
};

static void flush_capture(struct out *o)
{
	size_t done = 0;

	while (done < o->used && !o->err) {
		ssize_t n = write(o->fd, o->buffer + done, o->used - done);

		if (n < 0 && errno != EINTR)
			o->err = -errno;
		if (n > 0)
			done += (size_t)n;
	}
	o->used = 0;
}

static void print_capture(struct out *o, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
static void print_capture(struct out *o, const char *format, ...)
{
	va_list args;
	int n;

	if (sizeof o->buffer - o->used < 1024)
		flush_capture(o);
	va_start(args, format);
	n = vsnprintf(o->buffer + o->used, 1024, format, args);
	va_end(args);
	if (n > 0)
		o->used += (size_t)(n < 1024 ? n : 1023);
}

static void put_fact(struct out *o, const char *name, const struct hr_fact *fact)
{
	if (fact->source != HR_SRC_NONE)
		print_capture(o, "headrace: %s%s=%u\n", prefix[fact->source], name, fact->value);
}

/* Values of these kernel parameters may identify people or disks. */
static bool is_private(const char *word)
{
	static const char *const keys[] = {
		"root=",      "resume=",	   "ip=",	  "rd.luks",  "cryptdevice=",
		"hostname=",  "systemd.hostname=", "netconsole=", "nfsroot=", "ds=",
		"BOOT_IMAGE="
	};

	for (unsigned i = 0; i < sizeof keys / sizeof *keys; i++)
		if (strncmp(word, keys[i], strlen(keys[i])) == 0)
			return true;
	return false;
}

/* Bytes up to the space that ends a parameter; quotes hide spaces. */
static size_t parameter(const char *at)
{
	bool quoted = false;
	size_t n = 0;

	for (; at[n] && (quoted || at[n] != ' '); n++)
		quoted ^= at[n] == '"';
	return n;
}

/* Each parameter ends in a space; a long parameter is split over several lines. */
static void put_cmdline(struct out *o, const char *cmdline)
{
	size_t n;

	for (const char *at = cmdline; *at; at += n + (at[n] == ' ')) {
		n = parameter(at);
		if (n == 0 || is_private(at))
			continue;
		for (size_t done = 0; done < n; done += LINE_BYTES) {
			size_t piece = n - done < LINE_BYTES ? n - done : LINE_BYTES;

			print_capture(o, "headrace: cmdline=%.*s%s\n", (int)piece, at + done,
				      done + piece == n ? " " : "");
		}
	}
}

static void put_system(struct out *o, const struct hr_model *m)
{
	const struct hr_system *sys = &m->sys;
	const char *input = m->input;

	if (strncmp(input, CAPTURE_OF, strlen(CAPTURE_OF)) == 0)
		input += strlen(CAPTURE_OF);
	print_capture(o, "headrace: capture=2\nheadrace: source=%s\n", input);
	if (sys->kernel[0])
		print_capture(o, "headrace: kernel=%s\n", sys->kernel);
	if (sys->lockdown[0])
		print_capture(o, "headrace: lockdown=%s\n", sys->lockdown);
	put_cmdline(o, sys->cmdline);
	put_fact(o, "cpu_amd", &sys->amd);
	put_fact(o, "cpu_family", &sys->family);
	put_fact(o, "cpus", &sys->cpus);
	put_fact(o, "hypervisor", &sys->hypervisor);
	put_fact(o, "iommu", &sys->iommu);
	put_fact(o, "iommu_type", &sys->iommu_type);
	if (sys->iommu.source && sys->iommu_reason[0])
		print_capture(o, "headrace: iommu_reason=%s\n", sys->iommu_reason);
	put_fact(o, "p2pdma", &sys->p2pdma);
	put_fact(o, "nvidia_open", &sys->nvidia_open);
	put_fact(o, "multipath", &sys->multipath);
	if (sys->nvidia[0])
		print_capture(o, "headrace: nvidia=%s\n", sys->nvidia);
	if (sys->nvidia_keys[0])
		print_capture(o, "headrace: nvidia_keys=%.180s\n", sys->nvidia_keys);
	if (sys->nvidia_fs[0])
		print_capture(o, "headrace: nvidia_fs=%s\n", sys->nvidia_fs);
	print_capture(o, "\n");
}

/* Device Serial Number: eight bytes after the header of extended capability 3. */
static bool in_serial(const struct hr_fn *f, uint32_t offset)
{
	uint32_t cap = HR_CFG_CONV, steps = 0;

	while (cap >= HR_CFG_CONV && cap + 12 <= f->config_bytes && steps++ < 1024) {
		uint32_t id = f->config[cap] | (uint32_t)f->config[cap + 1] << 8;

		if (id == ECAP_SERIAL && offset >= cap + 4 && offset < cap + 12)
			return true;
		cap = ((uint32_t)f->config[cap + 3] << 4 | f->config[cap + 2] >> 4) & ~3u;
	}
	return false;
}

static void put_config(struct out *o, const struct hr_fn *f)
{
	uint32_t last = (f->config_bytes - 1) & ~15u;

	for (uint32_t at = 0; at < f->config_bytes; at += 16) {
		uint32_t n = f->config_bytes - at < 16 ? f->config_bytes - at : 16;

		/* Missing rows would read back as ones, so rows of zeros are written, too. */
		if (n == 16 && at != last && hr_is_zero(f->config + at, 16)) {
			print_capture(o, "%02x: 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00\n",
				      at);
			continue;
		}
		print_capture(o, "%02x:", at);
		for (uint32_t i = 0; i < n; i++)
			print_capture(o, " %02x", in_serial(f, at + i) ? 0 : f->config[at + i]);
		print_capture(o, "\n");
	}
}

static void put_window(struct out *o, const char *name, const struct hr_window *w)
{
	if (w->source != HR_SRC_NONE && w->source != HR_SRC_CONFIG)
		print_capture(o, "\theadrace: %s%s=%llx-%llx\n", prefix[w->source], name,
			      (unsigned long long)w->base, (unsigned long long)w->limit);
}

static void put_bars(struct out *o, const struct hr_bar *bars, const char *whose)
{
	for (unsigned i = 0; i < HR_BARS_MAX; i++) {
		const struct hr_bar *bar = &bars[i];

		if (bar->flags && bar->source != HR_SRC_CONFIG)
			print_capture(o, "\theadrace: %s%sbar%u=%llx,%x\n", prefix[bar->source],
				      whose, i, (unsigned long long)bar->base, bar->flags);
		if (bar->size && bar->size_source >= HR_SRC_LOG &&
		    bar->size_source != HR_SRC_CONFIG)
			print_capture(o, "\theadrace: %s%sbar%u_size=%llu\n",
				      prefix[bar->size_source], whose, i,
				      (unsigned long long)bar->size);
		if (bar->sizes && bar->sizes_source != HR_SRC_CONFIG)
			print_capture(o, "\theadrace: %s%sbar%u_sizes=%llx\n",
				      prefix[bar->sizes_source], whose, i,
				      (unsigned long long)bar->sizes);
	}
}

static void put_long(struct out *o, const char *name, const char *text)
{
	for (size_t n = text ? strlen(text) : 0, at = 0; at < n; at += LINE_BYTES)
		print_capture(o, "\theadrace: %s=%.*s\n", name, (int)LINE_BYTES, text + at);
}

static void put_links(struct out *o, const struct hr_model *m, const struct hr_fn *f)
{
	char bdf[HR_BDF_MAX];

	for (uint32_t i = 0; i < m->gpu_links; i++) {
		const struct hr_gpu_link *l = &m->gpu_link[i];
		bool named = l->to != HR_NO_ADDRESS;

		if (l->from == hr_address(f))
			print_capture(o, "\theadrace: %s%s=%s,%u%s\n", prefix[l->source],
				      l->fabric == HR_XGMI ? "xgmi" : "nvlink",
				      named ? hr_address_text(l->to, bdf) : "switch", l->count,
				      named && l->to_switch ? ",switch" : "");
	}
}

static void put_p2p(struct out *o, const struct hr_model *m, const struct hr_fn *f)
{
	char bdf[HR_BDF_MAX];

	for (uint32_t i = 0; i < m->p2ps; i++) {
		const struct hr_p2p *p = &m->p2p[i];

		if (p->from != hr_address(f))
			continue;
		print_capture(o, "\theadrace: %sp2p=%s", prefix[p->source],
			      hr_address_text(p->to, bdf));
		for (unsigned k = 0; k < HR_P2P_ACCESSES; k++)
			if (p->status[k])
				print_capture(o, ",%c=%s", hr_p2p_letter((enum hr_p2p_access)k),
					      hr_p2p_word((enum hr_p2p_status)p->status[k]));
		print_capture(o, "\n");
	}
}

static void put_function(struct out *o, const struct hr_model *m, const struct hr_fn *f)
{
	char bdf[HR_BDF_MAX], line[HR_DISK_LINE];

	print_capture(o, "%s %.180s\n", hr_bdf(f, bdf), f->name);
	for (unsigned i = 0; i < HR_FACTS_COUNT; i++)
		if (f->fact[i].source != HR_SRC_NONE && f->fact[i].source != HR_SRC_CONFIG)
			print_capture(o, "\theadrace: %s%s=%u\n", prefix[f->fact[i].source],
				      hr_fact_name((enum hr_fact_id)i), f->fact[i].value);
	if (f->placed)
		print_capture(o, "\theadrace: under=%s\n", hr_address_text(f->under, bdf));
	for (unsigned i = 0; i < f->links; i++)
		print_capture(o, "\theadrace: switch_link=%s\n",
			      hr_address_text(f->linked[i], bdf));
	put_bars(o, f->bar, "");
	put_bars(o, f->vf_bar, "vf_");
	put_window(o, "mem", &f->mem);
	put_window(o, "pref", &f->pref);
	if (f->driver)
		print_capture(o, "\theadrace: driver=%s\n", f->driver);
	if (f->pci_slot)
		print_capture(o, "\theadrace: slot_name=%s\n", f->pci_slot);
	put_long(o, "cpus", f->cpus);
	put_long(o, "devices", f->devices);
	if (f->fs)
		print_capture(o, "\theadrace: fs=%s\n", f->fs);
	for (unsigned i = 0; hr_disk_text_line(f->disk, i, line, sizeof line); i++)
		print_capture(o, "\theadrace: %s\n", line);
	put_links(o, m, f);
	put_p2p(o, m, f);
	if (f->denied)
		print_capture(o, "\theadrace: denied=1\n");
	if (f->config)
		put_config(o, f);
	print_capture(o, "\n");
}

int hr_capture_write(const struct hr_model *m, int fd)
{
	static struct out o;

	o.fd = fd;
	o.err = 0;
	o.used = 0;
	put_system(&o, m);
	for (uint32_t i = 0; i < m->count; i++)
		put_function(&o, m, &m->fn[i]);
	flush_capture(&o);
	return o.err;
}

/*
 * Our own capture: an lspci dump with "headrace: key=value" lines, which lspci -F ignores. Facts of
 * the machine come before the first function, facts of a function below its title.
 */
#include "pci/source.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pci/fields.h"

#define ECAP_SERIAL 0x0003
#define LINE_BYTES 240u /* a dump's line has 254 bytes at most */

/* ---- reading */

/* The four facts of the machine that are numbers. */
static struct hr_fact *system_fact(struct hr_system *sys, const char *key, size_t length)
{
	const struct {
		const char *name;
		struct hr_fact *fact;
	} row[] = { { "cpu_amd", &sys->amd }, { "cpu_family", &sys->family },
		    { "cpus", &sys->cpus },   { "hypervisor", &sys->hypervisor },
		    { "iommu", &sys->iommu }, { "p2pdma", &sys->p2pdma } };

	for (unsigned i = 0; i < sizeof row / sizeof *row; i++)
		if (strlen(row[i].name) == length && memcmp(row[i].name, key, length) == 0)
			return row[i].fact;
	return NULL;
}

static bool is_key(const char *line, size_t length, const char *key)
{
	return strlen(key) == length && memcmp(line, key, length) == 0;
}

static bool system_line(struct hr_model *m, const char *line, size_t key, const char *value)
{
	struct hr_fact *fact = system_fact(&m->sys, line, key);
	char *end;
	size_t used = strlen(m->sys.cmdline);

	if (fact) {
		hr_fact_set(fact, (uint32_t)strtoul(value, &end, 0), HR_SRC_SYSFS);
		return end != value && *end == '\0';
	}
	if (is_key(line, key, "kernel"))
		snprintf(m->sys.kernel, sizeof m->sys.kernel, "%s", value);
	else if (is_key(line, key, "lockdown"))
		snprintf(m->sys.lockdown, sizeof m->sys.lockdown, "%s", value);
	else if (is_key(line, key, "cmdline")) /* cut over several lines */
		snprintf(m->sys.cmdline + used, sizeof m->sys.cmdline - used, "%s", value);
	else if (!is_key(line, key, "capture"))
		return false;
	return true;
}

/* "bar1_size=268435456" */
static bool bar_line(struct hr_fn *f, const char *line, size_t key, const char *value)
{
	unsigned index = (unsigned)(line[3] - '0');
	char *end;

	if (key != 9 || memcmp(line, "bar", 3) != 0 || memcmp(line + 4, "_size", 5) != 0 ||
	    index >= HR_BARS_MAX)
		return false;
	f->bar[index].size = strtoull(value, &end, 0);
	f->bar[index].size_source = HR_SRC_SYSFS;
	return end != value && *end == '\0';
}

/* "mem=e0000000-e0ffffff", a window that came from text; base above limit: closed. */
static bool window_line(struct hr_window *w, const char *value)
{
	char *end;
	uint64_t base = strtoull(value, &end, 16), limit;

	if (end == value || *end != '-')
		return false;
	value = end + 1;
	limit = strtoull(value, &end, 16);
	if (end == value || *end)
		return false;
	if (w->source <= HR_SRC_TEXT)
		*w = (struct hr_window){ base, limit, HR_SRC_TEXT };
	return true;
}

/* "bar0=e0000000,3": base and enum hr_bar_flags, from text. */
static bool bar_base_line(struct hr_fn *f, const char *line, size_t key, const char *value)
{
	unsigned index = (unsigned)(line[3] - '0');
	char *end;
	uint64_t base = strtoull(value, &end, 16), flags;

	if (key != 4 || memcmp(line, "bar", 3) != 0 || index >= HR_BARS_MAX || *end != ',')
		return false;
	flags = strtoull(end + 1, &end, 16);
	if (*end || flags > 0x1f)
		return false;
	if (f->bar[index].source <= HR_SRC_TEXT) {
		f->bar[index].base = base;
		f->bar[index].flags = (uint8_t)flags;
		f->bar[index].source = HR_SRC_TEXT;
	}
	return true;
}

static bool function_line(struct hr_model *m, struct hr_fn *f, const char *line, size_t key,
			  const char *value)
{
	enum hr_fact_id id = hr_fact_by_name(line, key);
	char *end;

	if (id < HR_FACTS_COUNT) {
		hr_fn_set(f, id, (uint32_t)strtoul(value, &end, 0), HR_SRC_SYSFS);
		return end != value && *end == '\0';
	}
	if (is_key(line, key, "driver"))
		f->driver = hr_model_word(m, value, strlen(value));
	else if (is_key(line, key, "slot_name"))
		f->slot = hr_model_word(m, value, strlen(value));
	else if (is_key(line, key, "denied"))
		f->denied = true;
	else if (is_key(line, key, "mem"))
		return window_line(&f->mem, value);
	else if (is_key(line, key, "pref"))
		return window_line(&f->pref, value);
	else
		return bar_line(f, line, key, value) || bar_base_line(f, line, key, value);
	return true;
}

bool hr_capture_line(struct hr_model *m, struct hr_fn *f, const char *line, size_t length)
{
	size_t key = strcspn(line, "=");

	if (key >= length)
		return false;
	if (f)
		return function_line(m, f, line, key, line + key + 1);
	return system_line(m, line, key, line + key + 1);
}

/* ---- writing */

struct out {
	int fd;
	int err;
	size_t used;
	char buffer[32768];
};

static void flush(struct out *o)
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

static void put(struct out *o, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(struct out *o, const char *format, ...)
{
	va_list args;
	int n;

	if (sizeof o->buffer - o->used < 1024)
		flush(o);
	va_start(args, format);
	n = vsnprintf(o->buffer + o->used, 1024, format, args);
	va_end(args);
	if (n > 0)
		o->used += (size_t)(n < 1024 ? n : 1023);
}

static void put_fact(struct out *o, const char *name, const struct hr_fact *fact)
{
	if (fact->source != HR_SRC_NONE)
		put(o, "headrace: %s=%u\n", name, fact->value);
}

/* Values of these kernel parameters may name people or disks. */
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

static void put_cmdline(struct out *o, const char *cmdline)
{
	size_t at = 0, n;

	while (cmdline[at]) {
		n = strcspn(cmdline + at, " ");
		if (n && n < LINE_BYTES - 32 && !is_private(cmdline + at))
			put(o, "headrace: cmdline=%.*s \n", (int)n, cmdline + at);
		at += n + (cmdline[at + n] == ' ');
	}
}

static void put_system(struct out *o, const struct hr_model *m)
{
	const struct hr_system *sys = &m->sys;

	put(o, "headrace: capture=1\n");
	if (sys->kernel[0])
		put(o, "headrace: kernel=%s\n", sys->kernel);
	if (sys->lockdown[0])
		put(o, "headrace: lockdown=%s\n", sys->lockdown);
	put_cmdline(o, sys->cmdline);
	put_fact(o, "cpu_amd", &sys->amd);
	put_fact(o, "cpu_family", &sys->family);
	put_fact(o, "cpus", &sys->cpus);
	put_fact(o, "hypervisor", &sys->hypervisor);
	put_fact(o, "iommu", &sys->iommu);
	put_fact(o, "p2pdma", &sys->p2pdma);
	put(o, "\n");
}

/* Device Serial Number: eight bytes behind the header of capability 3. */
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

static bool is_quiet(const uint8_t *row)
{
	for (unsigned i = 0; i < 16; i++)
		if (row[i])
			return false;
	return true;
}

static void put_config(struct out *o, const struct hr_fn *f)
{
	uint32_t last = (f->config_bytes - 1) & ~15u;

	for (uint32_t at = 0; at < f->config_bytes; at += 16) {
		uint32_t n = f->config_bytes - at < 16 ? f->config_bytes - at : 16;

		/* Rows of zeros would read back as ones: all rows are written. */
		if (n == 16 && at != last && is_quiet(f->config + at)) {
			put(o, "%02x: 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00\n", at);
			continue;
		}
		put(o, "%02x:", at);
		for (uint32_t i = 0; i < n; i++)
			put(o, " %02x", in_serial(f, at + i) ? 0 : f->config[at + i]);
		put(o, "\n");
	}
}

static void put_window(struct out *o, const char *name, const struct hr_window *w)
{
	if (w->source != HR_SRC_NONE && w->source != HR_SRC_CONFIG)
		put(o, "\theadrace: %s=%llx-%llx\n", name, (unsigned long long)w->base,
		    (unsigned long long)w->limit);
}

static void put_bars(struct out *o, const struct hr_fn *f)
{
	for (unsigned i = 0; i < HR_BARS_MAX; i++) {
		const struct hr_bar *bar = &f->bar[i];

		if (bar->flags && bar->source != HR_SRC_CONFIG)
			put(o, "\theadrace: bar%u=%llx,%x\n", i, (unsigned long long)bar->base,
			    bar->flags);
		if (bar->size && bar->size_source >= HR_SRC_TEXT)
			put(o, "\theadrace: bar%u_size=%llu\n", i, (unsigned long long)bar->size);
	}
}

static void put_function(struct out *o, const struct hr_fn *f)
{
	char bdf[HR_BDF_MAX];

	put(o, "%s %.180s\n", hr_bdf(f, bdf), f->name);
	for (unsigned i = 0; i < HR_FACTS_COUNT; i++)
		if (f->fact[i].source != HR_SRC_NONE && f->fact[i].source != HR_SRC_CONFIG &&
		    f->fact[i].source != HR_SRC_INFERRED)
			put(o, "\theadrace: %s=%u\n", hr_fact_name((enum hr_fact_id)i),
			    f->fact[i].value);
	put_bars(o, f);
	put_window(o, "mem", &f->mem);
	put_window(o, "pref", &f->pref);
	if (f->driver)
		put(o, "\theadrace: driver=%s\n", f->driver);
	if (f->slot)
		put(o, "\theadrace: slot_name=%s\n", f->slot);
	if (f->denied)
		put(o, "\theadrace: denied=1\n");
	if (f->config)
		put_config(o, f);
	put(o, "\n");
}

int hr_capture_write(const struct hr_model *m, int fd)
{
	static struct out o;

	o.fd = fd;
	o.err = 0;
	o.used = 0;
	put_system(&o, m);
	for (uint32_t i = 0; i < m->count; i++)
		put_function(&o, &m->fn[i]);
	flush(&o);
	return o.err;
}

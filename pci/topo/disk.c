/* SPDX-License-Identifier: Apache-2.0 */
#include "pci/topo/disk.h"

#include <stdio.h>
#include <string.h>

#include "config/base/text.h"

#define NAMED 4u /* namespaces in a sentence */

struct hr_disk *hr_disk_of(struct hr_model *m, struct hr_fn *f)
{
	if (!f->disk)
		f->disk = hr_model_alloc(m, sizeof *f->disk);
	if (f->disk && !f->disk->model)
		f->disk->model = f->disk->serial = f->disk->firmware = "";
	return f->disk;
}

void hr_disk_set(struct hr_model *m, const char **to, const char *text)
{
	const char *kept = hr_model_word(m, text, strlen(text));

	*to = kept ? kept : "";
}

void hr_disk_add(struct hr_model *m, struct hr_disk *d, const char *name, uint64_t bytes,
		 uint32_t block_bytes)
{
	struct hr_namespace *to = &d->namespace[d->namespaces];

	if (d->namespaces == HR_DISK_NAMESPACES) {
		d->more++;
		return;
	}
	hr_disk_set(m, &to->name, name);
	to->bytes = bytes;
	to->block_bytes = block_bytes;
	d->namespaces++;
}

/* "nvme0n1,3840755982336,512" */
static bool namespace_line(struct hr_model *m, struct hr_disk *d, const char *value)
{
	const char *comma = strchr(value, ','), *end;
	uint64_t bytes, block;
	char name[32];

	if (!comma || (size_t)(comma - value) >= sizeof name ||
	    !hr_number_parse(comma + 1, 10, UINT64_MAX, &end, &bytes) || *end != ',' ||
	    !hr_number_parse(end + 1, 10, UINT32_MAX, &end, &block) || *end)
		return false;
	snprintf(name, sizeof name, "%.*s", (int)(comma - value), value);
	hr_disk_add(m, d, name, bytes, (uint32_t)block);
	return true;
}

bool hr_disk_line(struct hr_model *m, struct hr_fn *f, const char *key, const char *value)
{
	struct hr_disk *d = hr_disk_of(m, f);

	if (!d)
		return false;
	if (*key == 'n')
		return namespace_line(m, d, value);
	hr_disk_set(m, *key == 'm' ? &d->model : &d->firmware, value);
	return true;
}

bool hr_disk_text_line(const struct hr_disk *d, unsigned at, char *text, size_t bytes)
{
	const struct hr_namespace *n;

	if (!d || at >= 2 + d->namespaces)
		return false;
	n = at < 2 ? NULL : &d->namespace[at - 2];
	if (n)
		snprintf(text, bytes, "namespace=%s,%llu,%u", n->name, (unsigned long long)n->bytes,
			 n->block_bytes);
	else
		snprintf(text, bytes, "%s=%s", at ? "firmware" : "model",
			 at ? d->firmware : d->model);
	return true;
}

/* Append to text[bytes], which has `used` bytes. Returns the new number. */
static size_t append_label(char *text, size_t bytes, size_t used, const char *label,
			   const char *value)
{
	int n;

	if (!value[0] || used >= bytes)
		return used;
	n = snprintf(text + used, bytes - used, "%s%s%s", used ? ", " : "", label, value);
	return n > 0 ? used + (size_t)n : used;
}

/* "3.84 TB": decimal units, as disks are sold. */
static void put_size(uint64_t bytes, char text[32])
{
	static const char *const unit[] = { "KB", "MB", "GB", "TB", "PB" };
	double size = (double)bytes / 1000;
	unsigned i = 0;

	while (size >= 999.5 && i + 1 < sizeof unit / sizeof *unit) {
		size /= 1000;
		i++;
	}
	snprintf(text, 32, size < 10 ? "%.2f %s" : "%.0f %s", size, unit[i]);
}

char *hr_disk_text(const struct hr_disk *d, bool serial, char *text, size_t bytes)
{
	char item[80], size[32];
	size_t used;

	text[0] = '\0';
	if (!d)
		return text;
	used = append_label(text, bytes, 0, "", d->model);
	if (serial)
		used = append_label(text, bytes, used, "serial ", d->serial);
	used = append_label(text, bytes, used, "firmware ", d->firmware);
	for (uint32_t i = 0; i < d->namespaces && i < NAMED; i++) {
		put_size(d->namespace[i].bytes, size);
		snprintf(item, sizeof item, "%.31s %s", d->namespace[i].name, size);
		used = append_label(text, bytes, used, "", item);
	}
	if (d->namespaces + d->more > NAMED) {
		snprintf(item, sizeof item, "and %u more", d->namespaces + d->more - NAMED);
		append_label(text, bytes, used, "", item);
	}
	return text;
}

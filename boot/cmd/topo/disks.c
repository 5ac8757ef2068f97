/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/cmd/topo/disks.h"

#include "boot/cmd/topo/common.h"
#include "boot/cmd/topo/headline.h"
#include "nvme/tree.h"
#include "pci/topo/disk.h"

#define TEXT_BYTES 400u

static void set_disk_facts(void *to, const struct hr_tree_controller *c)
{
	struct hr_model *m = to;
	const int32_t at = hr_topo_address(m, c->address);
	struct hr_disk *d = at == HR_NO_FN ? NULL : hr_disk_of(m, &m->fn[at]);

	if (!d)
		return;
	hr_disk_set(m, &d->model, c->model);
	hr_disk_set(m, &d->serial, c->serial);
	hr_disk_set(m, &d->firmware, c->firmware);
	for (uint32_t i = 0; i < c->namespaces; i++)
		hr_disk_add(m, d, c->namespace[i].name, c->namespace[i].bytes,
			    c->namespace[i].block_bytes);
	d->more += c->more;
}

void hr_topo_read_disks(struct hr_model *m)
{
	hr_nvme_tree(set_disk_facts, m);
}

unsigned hr_topo_put_disk(FILE *out, const struct hr_fn *f, unsigned indent)
{
	char text[TEXT_BYTES];

	if (!hr_disk_text(f->disk, true, text, sizeof text)[0])
		return 0;
	fprintf(out, "%*s", (int)indent, "");
	hr_print_wrapped(out, indent, indent + 2, text);
	return 1;
}

static void put_namespaces(struct hr_json *o, const struct hr_disk *d)
{
	hr_json_array(o, "namespaces");
	for (uint32_t i = 0; i < d->namespaces; i++) {
		hr_json_object(o, NULL);
		hr_json_string(o, "name", d->namespace[i].name);
		hr_json_u64(o, "bytes", d->namespace[i].bytes);
		hr_json_u64(o, "block_bytes", d->namespace[i].block_bytes);
		hr_json_close(o);
	}
	hr_json_close(o);
}

void hr_topo_json_disk(struct hr_json *o, const struct hr_fn *f)
{
	const struct hr_disk *d = f->disk;

	if (!d)
		return;
	if (d->model[0])
		hr_json_string(o, "model", d->model);
	if (d->serial[0])
		hr_json_string(o, "serial", d->serial);
	if (d->firmware[0])
		hr_json_string(o, "firmware", d->firmware);
	put_namespaces(o, d);
}

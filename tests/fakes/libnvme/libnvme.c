/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A libnvme.so.1 for tests of `headrace topo`: the tree that the file in FAKE_NVME describes, a line
 * each:
 *
 *   ctrl TRANSPORT|ADDRESS|MODEL|SERIAL|FIRMWARE   a controller
 *   ns NAME|BLOCKS|BLOCK_BYTES                     a namespace of the controller above
 *   path NAME|BLOCKS|BLOCK_BYTES                   a path of that controller to the head of this name
 *
 * Two hosts, each with a subsystem, hold the controllers in turn.
 */
#include <libnvme.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CTRLS 16u
#define NAMESPACES 100u
#define TEXT 96u

struct nvme_ns {
	char name[TEXT];
	uint64_t blocks;
	int block_bytes;
	struct nvme_ns *next;
};

struct nvme_path {
	struct nvme_ns ns;
	struct nvme_path *next;
};

struct nvme_ctrl {
	char text[5][TEXT]; /* in the order of the file */
	struct nvme_ns *ns, ns_of[NAMESPACES];
	struct nvme_path *path, path_of[NAMESPACES];
	unsigned namespaces, paths;
	struct nvme_ctrl *next;
};

struct nvme_subsystem {
	struct nvme_ctrl *ctrl;
};

struct nvme_host {
	struct nvme_subsystem subsystem;
};

struct nvme_root {
	struct nvme_host host[2];
	struct nvme_ctrl ctrl[CTRLS];
	unsigned ctrls;
};

static struct nvme_root *root;

nvme_root_t nvme_create_root(FILE *fp, int log_level)
{
	root = getenv("FAKE_NVME") ? calloc(1, sizeof *root) : NULL;
	return root;
}

void nvme_free_tree(nvme_root_t r)
{
	free(r);
}

static void read_ctrl(struct nvme_ctrl *c, char *rest)
{
	for (unsigned i = 0; i < 5; i++) {
		const char *word = strsep(&rest, "|");

		snprintf(c->text[i], TEXT, "%s", word ? word : "");
	}
}

static void read_ns(struct nvme_ns *ns, char *rest)
{
	const char *name = strsep(&rest, "|"), *blocks = strsep(&rest, "|");

	snprintf(ns->name, TEXT, "%s", name);
	ns->blocks = blocks ? strtoull(blocks, NULL, 10) : 0;
	ns->block_bytes = rest ? atoi(rest) : 0;
}

static void add_ctrl(nvme_root_t r, char *rest)
{
	struct nvme_ctrl *c = &r->ctrl[r->ctrls], **last;

	last = &r->host[r->ctrls++ % 2].subsystem.ctrl;
	while (*last)
		last = &(*last)->next;
	*last = c;
	read_ctrl(c, rest);
}

static void add_ns(struct nvme_ctrl *c, char *rest)
{
	struct nvme_ns *ns = &c->ns_of[c->namespaces];

	read_ns(ns, rest);
	if (c->namespaces++)
		ns[-1].next = ns;
	c->ns = c->ns_of;
}

static void add_path(struct nvme_ctrl *c, char *rest)
{
	struct nvme_path *path = &c->path_of[c->paths];

	read_ns(&path->ns, rest);
	if (c->paths++)
		path[-1].next = path;
	c->path = c->path_of;
}

int nvme_scan_topology(nvme_root_t r, nvme_scan_filter_t f, void *f_args)
{
	FILE *in = fopen(getenv("FAKE_NVME"), "r");
	char line[512];

	while (in && fgets(line, sizeof line, in)) {
		struct nvme_ctrl *c = r->ctrls ? &r->ctrl[r->ctrls - 1] : NULL;

		line[strcspn(line, "\n")] = '\0';
		if (strncmp(line, "ctrl ", 5) == 0 && r->ctrls < CTRLS)
			add_ctrl(r, line + 5);
		else if (c && strncmp(line, "ns ", 3) == 0 && c->namespaces < NAMESPACES)
			add_ns(c, line + 3);
		else if (c && strncmp(line, "path ", 5) == 0 && c->paths < NAMESPACES)
			add_path(c, line + 5);
	}
	if (in)
		fclose(in);
	return in ? 0 : -1;
}

nvme_host_t nvme_first_host(nvme_root_t r)
{
	return r->host;
}

nvme_host_t nvme_next_host(nvme_root_t r, nvme_host_t h)
{
	return h == r->host ? h + 1 : NULL;
}

nvme_subsystem_t nvme_first_subsystem(nvme_host_t h)
{
	return &h->subsystem;
}

nvme_subsystem_t nvme_next_subsystem(nvme_host_t h, nvme_subsystem_t s)
{
	return NULL;
}

nvme_ctrl_t nvme_subsystem_first_ctrl(nvme_subsystem_t s)
{
	return s->ctrl;
}

nvme_ctrl_t nvme_subsystem_next_ctrl(nvme_subsystem_t s, nvme_ctrl_t c)
{
	return c->next;
}

nvme_ns_t nvme_ctrl_first_ns(nvme_ctrl_t c)
{
	return c->ns;
}

nvme_ns_t nvme_ctrl_next_ns(nvme_ctrl_t c, nvme_ns_t n)
{
	return n->next;
}

nvme_path_t nvme_ctrl_first_path(nvme_ctrl_t c)
{
	return c->path;
}

nvme_path_t nvme_ctrl_next_path(nvme_ctrl_t c, nvme_path_t p)
{
	return p->next;
}

/* A path without a head has none. */
nvme_ns_t nvme_path_get_ns(nvme_path_t p)
{
	return p->ns.name[0] ? &p->ns : NULL;
}

const char *nvme_ns_get_name(nvme_ns_t n)
{
	return n->name;
}

int nvme_ns_get_lba_size(nvme_ns_t n)
{
	return n->block_bytes;
}

uint64_t nvme_ns_get_lba_count(nvme_ns_t n)
{
	return n->blocks;
}

const char *nvme_ctrl_get_transport(nvme_ctrl_t c)
{
	return c->text[0];
}

const char *nvme_ctrl_get_address(nvme_ctrl_t c)
{
	return c->text[1];
}

const char *nvme_ctrl_get_model(nvme_ctrl_t c)
{
	return c->text[2][0] ? c->text[2] : NULL;
}

const char *nvme_ctrl_get_serial(nvme_ctrl_t c)
{
	return c->text[3];
}

const char *nvme_ctrl_get_firmware(nvme_ctrl_t c)
{
	return c->text[4];
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libnvme's tree needs a cryptography library, for disks behind a network. headrace needs neither, so
 * the library is loaded at run time, when it is installed (libnvme.so.1, releases 1.x).
 */
#include "nvme/tree.h"

#include <dlfcn.h>
#include <libnvme.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <syslog.h>

/* The functions of the library that are used, without "nvme_". */
#define FUNCTIONS(X)            \
	X(create_root)          \
	X(free_tree)            \
	X(scan_topology)        \
	X(first_host)           \
	X(next_host)            \
	X(first_subsystem)      \
	X(next_subsystem)       \
	X(subsystem_first_ctrl) \
	X(subsystem_next_ctrl)  \
	X(ctrl_first_ns)        \
	X(ctrl_next_ns)         \
	X(ctrl_first_path)      \
	X(ctrl_next_path)       \
	X(path_get_ns)          \
	X(ns_get_name)          \
	X(ns_get_lba_size)      \
	X(ns_get_lba_count)     \
	X(ctrl_get_transport)   \
	X(ctrl_get_address)     \
	X(ctrl_get_model)       \
	X(ctrl_get_serial)      \
	X(ctrl_get_firmware)

struct library {
#define MEMBER(name) __typeof__(nvme_##name) *(name);
	FUNCTIONS(MEMBER)
#undef MEMBER
};

/* dlsym() returns an object pointer; POSIX allows converting it to a function pointer. */
static bool find_libnvme_symbol(void *handle, const char *name, void *call)
{
	void *symbol = dlsym(handle, name);

	memcpy(call, &symbol, sizeof symbol);
	return symbol;
}

static bool load_libnvme(struct library *l, void *handle)
{
#define FIND(name) &&find_libnvme_symbol(handle, "nvme_" #name, &l->name)
	return true FUNCTIONS(FIND);
#undef FIND
}

static bool is_printable(char c)
{
	return c >= 0x20 && c < 0x7f;
}

/* Copy a text of the controller, which is padded with blanks. */
static void copy_padded_text(char *to, size_t room, const char *from)
{
	size_t n = from ? strnlen(from, room - 1) : 0;

	while (n && (from[n - 1] == ' ' || from[n - 1] == '\n'))
		n--;
	for (size_t i = 0; i < n; i++)
		to[i] = is_printable(from[i]) ? from[i] : '?';
	to[n] = '\0';
}

/* A namespace may be found more than once: below its controller, and at the end of a path. */
static bool has_namespace(const struct hr_tree_controller *c, const char *name)
{
	bool found = false;

	for (uint32_t i = 0; i < c->namespaces; i++)
		found |= strcmp(c->namespace[i].name, name) == 0;
	return found;
}

static void add_tree_namespace(const struct library *l, struct hr_tree_controller *c, nvme_ns_t ns)
{
	struct hr_tree_namespace *to = &c->namespace[c->namespaces];
	const int block_bytes = ns ? l->ns_get_lba_size(ns) : 0;
	char name[sizeof to->name];

	copy_padded_text(name, sizeof name, ns ? l->ns_get_name(ns) : NULL);
	if (!name[0] || has_namespace(c, name))
		return;
	if (c->namespaces == HR_TREE_NAMESPACES) {
		c->more++;
		return;
	}
	memcpy(to->name, name, sizeof name);
	to->block_bytes = block_bytes > 0 ? (uint32_t)block_bytes : 0;
	to->bytes = l->ns_get_lba_count(ns) * to->block_bytes;
	c->namespaces++;
}

static void add_namespaces(const struct library *l, struct hr_tree_controller *c, nvme_ctrl_t from)
{
	nvme_path_t path;
	nvme_ns_t ns;

	for (ns = l->ctrl_first_ns(from); ns; ns = l->ctrl_next_ns(from, ns))
		add_tree_namespace(l, c, ns);
	/* with multipath: the head of the paths belongs to the subsystem */
	for (path = l->ctrl_first_path(from); path; path = l->ctrl_next_path(from, path))
		add_tree_namespace(l, c, l->path_get_ns(path));
}

/* False for a controller behind a network. */
static bool describe_tree_controller(const struct library *l, struct hr_tree_controller *c,
				     nvme_ctrl_t from)
{
	const char *transport = l->ctrl_get_transport(from);

	if (!transport || strcmp(transport, "pcie") != 0)
		return false;
	memset(c, 0, sizeof *c);
	copy_padded_text(c->address, sizeof c->address, l->ctrl_get_address(from));
	copy_padded_text(c->model, sizeof c->model, l->ctrl_get_model(from));
	copy_padded_text(c->serial, sizeof c->serial, l->ctrl_get_serial(from));
	copy_padded_text(c->firmware, sizeof c->firmware, l->ctrl_get_firmware(from));
	add_namespaces(l, c, from);
	return true;
}

static unsigned walk(const struct library *l,
		     void (*found)(void *to, const struct hr_tree_controller *controller), void *to)
{
	static struct hr_tree_controller c; /* large; one caller at a time */
	nvme_root_t root = l->create_root(NULL, LOG_EMERG);
	nvme_subsystem_t subsystem;
	unsigned count = 0;
	nvme_ctrl_t ctrl;
	nvme_host_t host;

	if (!root)
		return 0;
	l->scan_topology(root, NULL, NULL); /* an error leaves the tree empty, or a part of it */
	for (host = l->first_host(root); host; host = l->next_host(root, host))
		for (subsystem = l->first_subsystem(host); subsystem;
		     subsystem = l->next_subsystem(host, subsystem))
			for (ctrl = l->subsystem_first_ctrl(subsystem); ctrl;
			     ctrl = l->subsystem_next_ctrl(subsystem, ctrl)) {
				if (!describe_tree_controller(l, &c, ctrl))
					continue;
				found(to, &c);
				count++;
			}
	l->free_tree(root);
	return count;
}

unsigned hr_nvme_tree(void (*found)(void *to, const struct hr_tree_controller *controller),
		      void *to)
{
	struct library l;
	void *handle = dlopen("libnvme.so.1", RTLD_NOW | RTLD_LOCAL);
	unsigned count = 0;

	if (handle && load_libnvme(&l, handle))
		count = walk(&l, found, to);
	if (handle)
		dlclose(handle);
	return count;
}

/*
 * boot/cmd/topo/json.h - topo --json; pci/topo/README.md documents the schema, "schema" counts
 * incompatible changes.
 */
#ifndef BOOT_CMD_TOPO_JSON_H
#define BOOT_CMD_TOPO_JSON_H

#include "boot/cmd/topo/topo.h"

/* code: what the command is going to return. 0, or what hr_json_print() says. */
int hr_topo_json(struct hr_topo *t, int code);

/* The document of a view ("plan", "fix", ...), with the machine in it. */
struct json_object *hr_topo_json_new(const struct hr_topo *t, const char *view);

/*
 * Print and free it, with functions[] and pairs[] if wanted, one by one: all pairs of a large
 * machine do not fit into memory. 0, or -EIO when stdout does not take it.
 */
int hr_topo_json_print(const struct hr_topo *t, struct json_object *root, bool functions,
		       bool pairs, int code);

/* "gpu" and "nvme" of a pair, as addresses; one function's address as member `key`. */
void hr_topo_json_ends(const struct hr_topo *t, struct json_object *o, int32_t gpu, int32_t ssd);
void hr_topo_json_address(const struct hr_topo *t, struct json_object *o, const char *key,
			  int32_t fn);

#endif

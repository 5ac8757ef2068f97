/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/cmd/topo/json.h - the parts of `topo --json` that views share. pci/topo/README.md documents the
 * schema; the member "version" counts incompatible changes.
 */
#ifndef BOOT_CMD_TOPO_JSON_H
#define BOOT_CMD_TOPO_JSON_H

#include "boot/cmd/topo/topo.h"

/* The first part of a document, from the present model. */
struct hr_topo_machine hr_topo_machine(const struct hr_topo *t);

/* Begin the document of a view ("plan", "fix", ...), with the member `machine`. */
void hr_topo_json_begin(struct hr_json *out, FILE *file, const struct hr_topo *t, const char *view,
			const struct hr_topo_machine *machine);
/*
 * Begin t->json unless it has begun. A view calls this when no usage error is possible any more, so
 * that a usage error leaves stdout empty.
 */
void hr_topo_json_start(const struct hr_topo *t);

/*
 * Print pairs[] one by one, because all pairs of a large machine do not fit into memory. s may be
 * NULL.
 */
struct hr_survey;
void hr_topo_json_pairs(const struct hr_topo *t, struct hr_json *out, const struct hr_survey *s);

/* End the document with the exit code. Returns code, or HR_TOPO_NO_ACCESS as above. */
int hr_topo_json_end(struct hr_json *out, int code);

/* Put "gpu" and "nvme" of a pair as addresses; put one function's address as member `key`. */
void hr_topo_json_ends(const struct hr_topo *t, struct hr_json *o, int32_t gpu, int32_t ssd);
void hr_topo_json_address(const struct hr_topo *t, struct hr_json *o, const char *key, int32_t fn);

/* Put a function as an object, and what is known of a pair: verdict, flows, findings. s: NULL, or the
 * survey that has the class of the pair. */
void hr_topo_json_function(const struct hr_topo *t, struct hr_json *o, int32_t index);
void hr_topo_json_verdict(const struct hr_topo *t, struct hr_json *o, const struct hr_pair *p,
			  const struct hr_survey *s);

/* Begin the document of a view without the member `machine`. */
void hr_topo_json_open(struct hr_json *out, FILE *file, const char *view);

#endif

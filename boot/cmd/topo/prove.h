/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/cmd/topo/prove.h - --prove: compares data that a GPU and an SSD of this machine exchange.
 */
#ifndef BOOT_CMD_TOPO_PROVE_H
#define BOOT_CMD_TOPO_PROVE_H

#include "boot/cmd/topo/topo.h"

/* Values of the options. */
struct hr_topo_prove {
	/* Names or addresses as of --explain, or device strings of a configuration */
	const char *gpu, *ssd;
	const char *serial; /* of --allow-serial; NULL: none */
	uint32_t nsid;
	uint64_t scratch, scratch_bytes; /* of --scratch; bytes 0: none */
};

/*
 * Compare, and show the result: text on t->out, or the view "prove" in t->json. *t is initialised;
 * its model is empty, and is read when a name or an address needs it. Returns an exit code of topo:
 * HR_TOPO_DIRECT: proven both ways; HR_TOPO_BLOCKED: the topology blocks the pair, or a command
 * failed; HR_TOPO_LOSS: data differ; HR_TOPO_UNKNOWN: a direction is not proven; HR_TOPO_NONE;
 * HR_TOPO_USAGE; HR_TOPO_NO_ACCESS: a device cannot be opened, or the SSD cannot reach the GPU's
 * memory.
 */
int hr_topo_prove(struct hr_topo *t, const struct hr_topo_prove *p);

#endif

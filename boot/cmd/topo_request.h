/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/cmd/topo_request.h - the command line of `headrace topo`.
 *
 * Values are checked here; whether the machine has the functions that they name is checked after
 * the machine was read.
 */
#ifndef BOOT_CMD_TOPO_REQUEST_H
#define BOOT_CMD_TOPO_REQUEST_H

#include "boot/cmd/topo/topo.h"

#define HR_TOPO_LIST_MAX 16u /* values of an option that may be repeated */

/* Options as given. Texts belong to argv; NULL or 0: the option is absent. */
struct hr_topo_request {
	const char *from; /* capture: --from or the argument; NULL: this machine */
	const char *format, *capture, *colour, *wanted, *html;
	const char *explain[2];
	const char *require[HR_TOPO_LIST_MAX];
	const char *gpu[HR_TOPO_LIST_MAX], *ssd[HR_TOPO_LIST_MAX];
	const char *what_if[HR_TOPO_LIST_MAX];
	const char *baseline;
	unsigned peers; /* kinds of --peers */
	unsigned requirements, gpus, ssds, what_ifs;
	unsigned watch; /* seconds; 0: no --watch */
	bool ascii, fix, apply, force, bandwidth, plan, rules, groups, software;
};

/*
 * Parse argv, whose first word is the name of the command, into *r, and options of the evaluation
 * into *t. Both are zero before. Returns 0, or HR_TOPO_USAGE, printed.
 */
int hr_topo_request_parse(struct hr_topo_request *r, struct hr_topo *t, int argc, char **argv);

/* Print "WHAT 'VALUE'" as a usage error. Returns HR_TOPO_USAGE. */
int hr_topo_bad(const char *what, const char *value);

#endif

/*
 * boot/cmd/topo/topo.h - what the files of `headrace topo` share.
 *
 * The engine is pci/topo/verdict.h; here it is only shown. All output goes to `out`.
 */
#ifndef BOOT_CMD_TOPO_TOPO_H
#define BOOT_CMD_TOPO_TOPO_H

#include <stdbool.h>
#include <stdio.h>

#include <json-c/json.h>

#include "pci/topo/verdict.h"

/* Exit codes of topo, for fleets. */
enum hr_topo_exit {
	HR_TOPO_DIRECT = 0,   /* all wanted pairs */
	HR_TOPO_DEGRADED = 1, /* direct, but slower than it could be */
	HR_TOPO_THROUGH = 2,  /* redirected, or through a root complex */
	HR_TOPO_BLOCKED = 3,
	HR_TOPO_LOSS = 4,    /* silent loss */
	HR_TOPO_UNKNOWN = 5, /* a fact is missing: run as root, better capture */
	HR_TOPO_NONE = 6,    /* no GPU or no NVMe to judge */
	HR_TOPO_CHANGED = 7, /* --baseline: something differs */
	HR_TOPO_REFUSED = 8, /* --fix --apply was refused or failed */
	HR_TOPO_USAGE = 64,
	HR_TOPO_BAD_INPUT = 65, /* the capture is malformed or cannot be read */
	HR_TOPO_NO_ACCESS = 66, /* the live machine cannot be walked, or a file cannot be written */
};

struct hr_topo {
	struct hr_model model;
	struct hr_engine engine;
	struct hr_options opt;
	const char *const *as_gpu, *const *as_ssd; /* addresses to judge whatever their class */
	unsigned as_gpus, as_ssds;
	bool colour, utf8, all;
	bool near_only; /* --wanted same-switch */
	FILE *out;
	struct json_object *json; /* of a view that computes anew, instead of text; else NULL */
	bool json_pairs;	  /* that view has pairs[], as the engine judges at its end */
};

/* One pass over all pairs. */
struct hr_topo_sum {
	uint64_t pairs, by_verdict[HR_VERDICTS], degraded;
	enum hr_topo_exit exit; /* of the worst pair; HR_TOPO_NONE: there is none */
};

/* Room for the modifiers of a pair as text. */
#define HR_MODIFIERS_TEXT 96

extern const char hr_topo_help[];

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/cmd/topo/topo.h - shared parts of the files of `headrace topo`.
 *
 * pci/topo/rules/verdict.h evaluates the topology; these files only show results. All output goes to
 * `out`.
 */
#ifndef BOOT_CMD_TOPO_TOPO_H
#define BOOT_CMD_TOPO_TOPO_H

#include <stdbool.h>
#include <stdio.h>

#include "config/base/json.h"
#include "pci/topo/rules/verdict.h"

/* Exit codes of topo. */
enum hr_topo_exit {
	HR_TOPO_DIRECT = 0,   /* all wanted pairs are DIRECT */
	HR_TOPO_DEGRADED = 1, /* direct, but slower than it could be */
	HR_TOPO_THROUGH = 2,  /* redirected, or through a root complex */
	HR_TOPO_BLOCKED = 3,
	HR_TOPO_LOSS = 4,    /* silent loss */
	HR_TOPO_UNKNOWN = 5, /* a fact is missing: run as root, or take a better capture */
	HR_TOPO_NONE = 6,    /* no GPU or no NVMe controller */
	HR_TOPO_CHANGED = 7, /* --baseline: something differs */
	HR_TOPO_REFUSED = 8, /* --fix --apply was refused or failed */
	HR_TOPO_USAGE = 64,
	HR_TOPO_BAD_INPUT = 65, /* the capture is malformed or cannot be read */
	HR_TOPO_NO_ACCESS = 66, /* no access to the live machine, or a file is not writable */
};

/* The machine in a document, before a view changed it. */
struct hr_topo_machine {
	uint32_t functions, root_buses;
	enum hr_iommu iommu;
	bool iommu_groups, zen, zen_inferred;
	char kernel[HR_WORD_MAX];
	char iommu_reason[192];
};

struct hr_topo {
	struct hr_model model;
	struct hr_topology topology;
	struct hr_topo_options opt;
	/* Addresses of functions of any class to treat as GPU or SSD. */
	const char *const *as_gpu, *const *as_ssd;
	unsigned as_gpus, as_ssds;
	bool colour, utf8, all;
	bool same_switch_only; /* --wanted same-switch */
	FILE *out;
	struct hr_json *json; /* of a view other than the verdicts, instead of text; else NULL */
	const char *view;     /* name of that view */
	bool json_pairs;      /* that view has pairs[], with final verdicts */
	struct hr_topo_machine machine; /* before that view */
};

/* Sums over all pairs. */
struct hr_topo_sum {
	uint64_t pairs, by_verdict[HR_VERDICTS], degraded;
	enum hr_topo_exit exit; /* of the worst pair; HR_TOPO_NONE: no pair */
};

/* Pairs of GPU and NVMe controller that are evaluated together: seconds, not minutes. */
#define HR_TOPO_PAIRS_MAX (1u << 25)

/* Length of a pair's modifiers as text. */
#define HR_MODIFIERS_TEXT 96

extern const char hr_topo_help[];

/* ---- values of the options that change how pairs are evaluated */

/* Parse the values of --mode, --iommu and --kernel; false: not a valid value. */
bool hr_topo_set_mode(struct hr_topo_options *opt, const char *text);
bool hr_topo_set_iommu(struct hr_topo_options *opt, const char *text);
bool hr_topo_set_kernel(struct hr_topo_options *opt, const char *text);

#endif

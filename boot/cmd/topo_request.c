/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of `headrace topo`. */
#include "boot/cmd/topo_request.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "boot/cmd/cmd.h"
#include "boot/cmd/report/output.h"
#include "boot/cmd/topo/common.h"
#include "boot/cmd/topo/topo.h"
#include "boot/cmd/topo_watch.h"
#include "pci/topo/rules/peers.h"

enum option_code {
	OPT_FIRST = 256,
	FROM,
	FORMAT,
	JSON,
	EXPLAIN,
	REQUIRE,
	MODE,
	KERNEL,
	IOMMU,
	GPU,
	NVME,
	CAPTURE,
	ASCII,
	COLOUR,
	ALL_PAIRS,
	FIX,
	APPLY,
	WHAT_IF,
	BASELINE,
	BANDWIDTH,
	PLAN,
	RULES,
	GROUPS,
	SOFTWARE,
	WANTED,
	IGNORE_VM,
	FORCE,
	HTML,
	PEERS,
	WATCH
};

static bool set_colour(struct hr_topo_request *r, const char *text)
{
	r->colour = text;
	return strcmp(text, "auto") == 0 || strcmp(text, "always") == 0 ||
	       strcmp(text, "never") == 0;
}

int hr_topo_bad(const char *what, const char *value)
{
	hr_usage_error("topo", "%s '%s'", what, value);
	return HR_TOPO_USAGE;
}

static bool append_value(const char **list, unsigned *count, const char *value)
{
	if (*count == HR_TOPO_LIST_MAX)
		return false;
	list[(*count)++] = value;
	return true;
}

/* Take an option without a value. */
static int set_topo_flag(struct hr_topo_request *r, struct hr_topo *t, int code)
{
	bool *const flag[] = {
		[ASCII - OPT_FIRST] = &r->ascii, [FIX - OPT_FIRST] = &r->fix,
		[APPLY - OPT_FIRST] = &r->apply, [BANDWIDTH - OPT_FIRST] = &r->bandwidth,
		[PLAN - OPT_FIRST] = &r->plan,	 [GROUPS - OPT_FIRST] = &r->groups,
		[RULES - OPT_FIRST] = &r->rules, [ALL_PAIRS - OPT_FIRST] = &t->all,
		[FORCE - OPT_FIRST] = &r->force, [SOFTWARE - OPT_FIRST] = &r->software,
	};
	const unsigned at = (unsigned)code - OPT_FIRST;

	if (code < OPT_FIRST || at >= sizeof flag / sizeof *flag || !flag[at])
		return HR_TOPO_USAGE;
	*flag[at] = true;
	return 0;
}

/* text NULL: the option has no value. */
static bool set_seconds(unsigned *seconds, const char *text)
{
	char *end = NULL;
	const unsigned long n = text ? strtoul(text, &end, 10) : HR_WATCH_SECONDS;

	if (text && (*text < '0' || *text > '9' || *end))
		return false;
	*seconds = (unsigned)n;
	return n >= 1 && n <= HR_WATCH_SECONDS_MAX;
}

/* Take an option that changes how pairs are evaluated. */
static int set_topo_assumption(struct hr_topo_request *r, struct hr_topo *t, int code)
{
	switch (code) {
	case MODE:
		return hr_topo_set_mode(&t->opt, optarg)
			       ? 0
			       : hr_topo_bad("--mode is gpu, host, vfio or kernel, not", optarg);
	case KERNEL:
		return hr_topo_set_kernel(&t->opt, optarg)
			       ? 0
			       : hr_topo_bad("--kernel is a version like 5.10, not", optarg);
	case IOMMU:
		return hr_topo_set_iommu(&t->opt, optarg)
			       ? 0
			       : hr_topo_bad("--iommu is off, pt or on, not", optarg);
	case IGNORE_VM:
		t->opt.vm = HR_VM_IGNORE;
		return 0;
	default:
		return set_topo_flag(r, t, code);
	}
}

static int apply_topo_option(struct hr_topo_request *r, struct hr_topo *t, int code, char **argv)
{
	switch (code) {
	case FROM:
		r->from = optarg;
		return 0;
	case FORMAT:
		r->format = optarg;
		return 0;
	case JSON:
		r->format = "json";
		return 0;
	case EXPLAIN:
		r->explain[0] = optarg;
		r->explain[1] = argv[optind] ? argv[optind++] : NULL;
		return r->explain[1]
			       ? 0
			       : hr_topo_bad("--explain takes a GPU and an NVMe, not only", optarg);
	case REQUIRE:
		if (!hr_topo_require_check(optarg))
			return hr_topo_bad(
				"--require is like 'gpu=*,nvme=*:DIRECT', its level a verdict "
				"of 'topo', not",
				optarg);
		return append_value(r->require, &r->requirements, optarg)
			       ? 0
			       : hr_topo_bad("too many", "--require");
	case GPU:
		return append_value(r->gpu, &r->gpus, optarg) ? 0
							      : hr_topo_bad("too many", "--gpu");
	case NVME:
		return append_value(r->ssd, &r->ssds, optarg) ? 0
							      : hr_topo_bad("too many", "--nvme");
	case CAPTURE:
		r->capture = optarg;
		return 0;
	case COLOUR:
		return set_colour(r, optarg)
			       ? 0
			       : hr_topo_bad("--color is auto, always or never, not", optarg);
	case WHAT_IF:
		return append_value(r->what_if, &r->what_ifs, optarg)
			       ? 0
			       : hr_topo_bad("too many", "--what-if");
	case HTML:
		r->html = optarg;
		return 0;
	case WATCH:
		return set_seconds(&r->watch, optarg)
			       ? 0
			       : hr_topo_bad("--watch is a number of seconds, 1 to 86400, not",
					     optarg);
	case BASELINE:
		r->baseline = optarg;
		return 0;
	case PEERS:
		r->peers = hr_endpoint_kinds(optarg);
		/* network cards alone: which GPUs and SSDs reach them */
		if (r->peers == 1u << HR_ENDPOINT_NIC)
			r->peers = (1u << HR_ENDPOINT_KINDS) - 1;
		return r->peers
			       ? 0
			       : hr_topo_bad("--peers is a list of gpu, nvme and nic, not", optarg);
	case WANTED:
		r->wanted = optarg;
		t->same_switch_only = strcmp(optarg, "same-switch") == 0;
		return t->same_switch_only || strcmp(optarg, "all") == 0
			       ? 0
			       : hr_topo_bad("--wanted is same-switch or all, not", optarg);
	default:
		return set_topo_assumption(r, t, code);
	}
}

static int check_format(const char *format)
{
	static const char *const known[] = { "table", "matrix", "tree", "json", "dot" };

	for (unsigned i = 0; i < sizeof known / sizeof *known; i++)
		if (strcmp(format, known[i]) == 0)
			return 0;
	return hr_topo_bad("--format is table, matrix, tree, json or dot, not", format);
}

/*
 * Each of these options selects a whole output, so only one is allowed; a second one is an error.
 */
static int check_views(const struct hr_topo_request *r)
{
	const struct {
		const char *name;
		bool wanted;
	} view[] = {
		{ "--explain", r->explain[0] },	  { "--baseline", r->baseline },
		{ "--what-if", r->what_ifs },	  { "--groups", r->groups },
		{ "--bandwidth", r->bandwidth },  { "--plan", r->plan },
		{ "--peers", r->peers },	  { "--fix", r->fix },
		{ "--capture", r->capture },	  { "--html", r->html && !r->watch },
		{ "--watch", r->watch },	  { "--rules", r->rules },
		{ "--require", r->requirements }, { "--software", r->software },
	};
	const char *first = NULL;

	for (unsigned i = 0; i < sizeof view / sizeof *view; i++) {
		if (first && view[i].wanted) {
			hr_usage_error("topo", "one at a time: %s, %s", first, view[i].name);
			return HR_TOPO_USAGE;
		}
		if (view[i].wanted)
			first = view[i].name;
	}
	if (r->wanted && first && !r->fix && !r->html && !r->watch) {
		hr_usage_error("topo", "--wanted selects pairs; not together with %s", first);
		return HR_TOPO_USAGE;
	}
	if (r->watch && r->from && strcmp(r->from, "-") == 0)
		return hr_topo_bad("--watch reads the input again, which is not possible with",
				   r->from);
	if (r->watch && strcmp(r->format, "table") != 0 && strcmp(r->format, "json") != 0)
		return hr_topo_bad("--watch prints text or json, not", r->format);
	if (r->html && !r->watch && strcmp(r->format, "table") != 0)
		return hr_topo_bad("--html is a page, not", r->format);
	if (r->rules && strcmp(r->format, "table") != 0 && strcmp(r->format, "json") != 0)
		return hr_topo_bad("--rules is shown as text or json, not as", r->format);
	return 0;
}

/* The argument, besides options: a capture. */
static int parse_capture_argument(struct hr_topo_request *r, int argc, char **argv)
{
	if (optind == argc)
		return 0;
	if (argc - optind > 1)
		return hr_topo_bad("one capture at a time; unexpected argument", argv[optind + 1]);
	if (r->from)
		return hr_topo_bad("--from names a capture already; unexpected argument",
				   argv[optind]);
	r->from = argv[optind];
	return 0;
}

int hr_topo_request_parse(struct hr_topo_request *r, struct hr_topo *t, int argc, char **argv)
{
	static const struct option options[] = {
		{ "from", required_argument, NULL, FROM },
		{ "format", required_argument, NULL, FORMAT },
		{ "json", no_argument, NULL, JSON },
		{ "explain", required_argument, NULL, EXPLAIN },
		{ "require", required_argument, NULL, REQUIRE },
		{ "mode", required_argument, NULL, MODE },
		{ "kernel", required_argument, NULL, KERNEL },
		{ "iommu", required_argument, NULL, IOMMU },
		{ "gpu", required_argument, NULL, GPU },
		{ "nvme", required_argument, NULL, NVME },
		{ "capture", required_argument, NULL, CAPTURE },
		{ "ascii", no_argument, NULL, ASCII },
		{ "color", required_argument, NULL, COLOUR },
		{ "all", no_argument, NULL, ALL_PAIRS },
		{ "bandwidth", no_argument, NULL, BANDWIDTH },
		{ "plan", no_argument, NULL, PLAN },
		{ "peers", required_argument, NULL, PEERS },
		{ "rules", no_argument, NULL, RULES },
		{ "groups", no_argument, NULL, GROUPS },
		{ "software", no_argument, NULL, SOFTWARE },
		{ "wanted", required_argument, NULL, WANTED },
		{ "ignore-vm", no_argument, NULL, IGNORE_VM },
		{ "html", required_argument, NULL, HTML },
		{ "watch", optional_argument, NULL, WATCH },
		{ "fix", no_argument, NULL, FIX },
		{ "apply", no_argument, NULL, APPLY },
		{ "force", no_argument, NULL, FORCE },
		{ "what-if", required_argument, NULL, WHAT_IF },
		{ "baseline", required_argument, NULL, BASELINE },
		{ NULL, 0, NULL, 0 },
	};
	int code, err = 0;

	r->format = "table";
	optind = 1;
	opterr = 0;
	while (!err && (code = getopt_long(argc, argv, ":", options, NULL)) != -1)
		err = code == '?'   ? (hr_option_unknown("topo", argv[optind - 1], options),
				       HR_TOPO_USAGE)
		      : code == ':' ? hr_topo_bad("a value is missing:", argv[optind - 1])
				    : apply_topo_option(r, t, code, argv);
	if (!err)
		err = parse_capture_argument(r, argc, argv);
	if (!err && r->apply && !r->fix)
		err = hr_topo_bad("only together with --fix:", "--apply");
	if (!err && r->force && !r->capture && !r->html)
		err = hr_topo_bad("only together with --capture or --html:", "--force");
	if (!err)
		err = check_format(r->format);
	return err ? err : check_views(r);
}

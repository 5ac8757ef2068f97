/*
 * headrace topo: which GPUs and NVMe controllers, of this or another machine, can do peer-to-peer
 * DMA.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "boot/cmd/cmd.h"
#include "boot/cmd/report/target.h"
#include "boot/cmd/topo/common.h"
#include "boot/cmd/topo/dot.h"
#include "boot/cmd/topo/explain.h"
#include "boot/cmd/topo/fix.h"
#include "boot/cmd/topo/groups.h"
#include "boot/cmd/topo/html.h"
#include "boot/cmd/topo/json.h"
#include "boot/cmd/topo/matrix.h"
#include "boot/cmd/options.h"
#include "boot/cmd/topo/options.h"
#include "boot/cmd/topo/peers.h"
#include "boot/cmd/topo/rates.h"
#include "boot/cmd/topo/software.h"
#include "boot/cmd/topo/table.h"
#include "boot/cmd/topo/topo.h"
#include "boot/cmd/topo/tree.h"
#include "boot/cmd/topo/whatif.h"
#include "pci/topo/capture.h"
#include "pci/topo/peers.h"
#include "boot/cmd/topo/watch.h"
#include "pci/live.h"
#include "pci/nvml.h"
#include "pci/topo/source.h"
#include "config/log.h"

#define REQUIREMENTS_MAX 16u

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
	FORCE,
	HTML,
	PEERS,
	WATCH
};

struct request {
	const char *from, *format, *capture, *colour, *wanted, *html;
	const char *explain[2];
	const char *require[REQUIREMENTS_MAX];
	const char *gpu[REQUIREMENTS_MAX], *ssd[REQUIREMENTS_MAX];
	const char *what_if[REQUIREMENTS_MAX];
	const char *baseline;
	unsigned peers; /* kinds of --peers */
	unsigned requirements, gpus, ssds, what_ifs;
	unsigned watch; /* seconds; 0: no --watch */
	bool ascii, fix, apply, force, bandwidth, plan, rules, groups, software;
};

static bool set_colour(struct request *r, const char *text)
{
	r->colour = text;
	return strcmp(text, "auto") == 0 || strcmp(text, "always") == 0 ||
	       strcmp(text, "never") == 0;
}

static int bad(const char *what, const char *value)
{
	hr_usage_error("topo", "%s '%s'", what, value);
	return HR_TOPO_USAGE;
}

static bool keep(const char **list, unsigned *count, const char *value)
{
	if (*count == REQUIREMENTS_MAX)
		return false;
	list[(*count)++] = value;
	return true;
}

/* Take an option without a value. */
static int take_flag(struct request *r, struct hr_topo *t, int code)
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

static int take_option(struct request *r, struct hr_topo *t, int code, char **argv)
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
		return r->explain[1] ? 0
				     : bad("--explain takes a GPU and an NVMe, not only", optarg);
	case REQUIRE:
		if (!hr_topo_require_check(optarg))
			return bad("--require is like 'gpu=*,nvme=*:DIRECT', its level a verdict "
				   "of 'topo', not",
				   optarg);
		return keep(r->require, &r->requirements, optarg) ? 0
								  : bad("too many", "--require");
	case GPU:
		return keep(r->gpu, &r->gpus, optarg) ? 0 : bad("too many", "--gpu");
	case NVME:
		return keep(r->ssd, &r->ssds, optarg) ? 0 : bad("too many", "--nvme");
	case MODE:
		return hr_topo_set_mode(&t->opt, optarg)
			       ? 0
			       : bad("--mode is gpu, host, vfio or kernel, not", optarg);
	case KERNEL:
		return hr_topo_set_kernel(&t->opt, optarg)
			       ? 0
			       : bad("--kernel is a version like 5.10, not", optarg);
	case IOMMU:
		return hr_topo_set_iommu(&t->opt, optarg)
			       ? 0
			       : bad("--iommu is off, pt or on, not", optarg);
	case CAPTURE:
		r->capture = optarg;
		return 0;
	case COLOUR:
		return set_colour(r, optarg) ? 0
					     : bad("--color is auto, always or never, not", optarg);
	case WHAT_IF:
		return keep(r->what_if, &r->what_ifs, optarg) ? 0 : bad("too many", "--what-if");
	case HTML:
		r->html = optarg;
		return 0;
	case WATCH:
		return set_seconds(&r->watch, optarg)
			       ? 0
			       : bad("--watch is a number of seconds, 1 to 86400, not", optarg);
	case BASELINE:
		r->baseline = optarg;
		return 0;
	case PEERS:
		r->peers = hr_peer_kinds(optarg);
		/* network cards alone: which GPUs and SSDs reach them */
		if (r->peers == 1u << HR_PEER_NIC)
			r->peers = (1u << HR_PEER_KINDS) - 1;
		return r->peers ? 0 : bad("--peers is a list of gpu, nvme and nic, not", optarg);
	case WANTED:
		r->wanted = optarg;
		t->same_switch_only = strcmp(optarg, "same-switch") == 0;
		return t->same_switch_only || strcmp(optarg, "all") == 0
			       ? 0
			       : bad("--wanted is same-switch or all, not", optarg);
	default:
		return take_flag(r, t, code);
	}
}

/*
 * Each of these options selects a whole output, so only one is allowed; a second one is an error.
 */
static int check_views(const struct request *r)
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
		return bad("--watch reads the input again, which is not possible with --from",
			   r->from);
	if (r->watch && strcmp(r->format, "table") != 0 && strcmp(r->format, "json") != 0)
		return bad("--watch prints text or json, not", r->format);
	if (r->html && !r->watch && strcmp(r->format, "table") != 0)
		return bad("--html is a page, not", r->format);
	if (r->rules && strcmp(r->format, "table") != 0 && strcmp(r->format, "json") != 0)
		return bad("--rules is shown as text or json, not as", r->format);
	return 0;
}

static int parse(struct request *r, struct hr_topo *t, int argc, char **argv)
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

	optind = 1;
	opterr = 0;
	while (!err && (code = getopt_long(argc, argv, ":", options, NULL)) != -1)
		err = code == '?'   ? (hr_option_unknown("topo", argv[optind - 1], options),
				       HR_TOPO_USAGE)
		      : code == ':' ? bad("a value is missing:", argv[optind - 1])
				    : take_option(r, t, code, argv);
	if (!err && optind < argc)
		err = bad("unexpected argument", argv[optind]);
	if (!err && r->apply && !r->fix)
		err = bad("only together with --fix:", "--apply");
	if (!err && r->force && !r->capture && !r->html)
		err = bad("only together with --capture or --html:", "--force");
	return err ? err : check_views(r);
}

static int check_format(const char *format)
{
	static const char *const known[] = { "table", "matrix", "tree", "json", "dot" };

	for (unsigned i = 0; i < sizeof known / sizeof *known; i++)
		if (strcmp(format, known[i]) == 0)
			return 0;
	return bad("--format is table, matrix, tree, json or dot, not", format);
}

static void choose_look(struct hr_topo *t, const struct request *r)
{
	const char *locale = getenv("LC_ALL");
	const char *colour = r->colour ? r->colour : "auto";

	if (!locale || !*locale)
		locale = getenv("LC_CTYPE");
	if (!locale || !*locale)
		locale = getenv("LANG");
	t->utf8 = !r->ascii && locale && (strstr(locale, "UTF-8") || strstr(locale, "utf8"));
	t->colour = strcmp(colour, "always") == 0 ||
		    (strcmp(colour, "auto") == 0 && isatty(STDOUT_FILENO) && !getenv("NO_COLOR"));
	t->out = stdout;
}

static int read_source(struct hr_topo *t, const struct request *r)
{
	int err = r->from ? hr_source_open(&t->model, r->from) : hr_source_live(&t->model);

	if (!err)
		return 0;
	hr_error_report(&t->model.error, err);
	return r->from ? HR_TOPO_BAD_INPUT : HR_TOPO_NO_ACCESS;
}

static void warn_denied(const struct hr_topo *t)
{
	unsigned denied = 0;

	for (uint32_t i = 0; i < t->model.count; i++)
		denied += t->model.fn[i].denied;
	if (denied)
		hr_warn("capabilities of %u of %u functions not readable (access denied): run as "
			"root",
			denied, t->model.count);
}

static int no_function(const struct hr_topo *t, const char *name)
{
	hr_usage_error("topo",
		       "no function '%s': %u functions like 0000:41:00.0 (--format tree lists "
		       "them), %u GPUs, %u NVMe controllers",
		       name, t->model.count, t->topology.gpus, t->topology.ssds);
	return HR_TOPO_USAGE;
}

/* Check the functions that the user names as a GPU or an SSD; they may have any class. */
static int check_endpoints(const struct hr_topo *t, const char *const *names, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (hr_topo_find(t, names[i]) == HR_NO_FN)
			return no_function(t, names[i]);
	return 0;
}

static int write_capture(const struct hr_topo *t, const struct request *r)
{
	struct hr_target target;
	int err;

	if (hr_target_open(&target, r->capture, r->force) != 0)
		return HR_TOPO_NO_ACCESS;
	err = hr_capture_write(&t->model, target.fd);
	if (err) {
		hr_error("%s: cannot write the capture: %s", target.name, strerror(-err));
		hr_target_discard(&target);
	}
	return err || hr_target_commit(&target) != 0 ? HR_TOPO_NO_ACCESS : 0;
}

static int check_requirements(const struct hr_topo *t, const struct request *r)
{
	int worst = HR_TOPO_DIRECT;

	for (unsigned i = 0; i < r->requirements; i++) {
		int code = hr_topo_require(t, r->require[i]);

		if (code >= HR_TOPO_NONE)
			return code;
		worst = (int)hr_topo_worse((enum hr_topo_exit)worst, (enum hr_topo_exit)code);
	}
	return worst;
}

static int show_pair(const struct hr_topo *t, const struct request *r)
{
	int32_t gpu = hr_topo_find(t, r->explain[0]), ssd = hr_topo_find(t, r->explain[1]);
	struct hr_pair p;

	if (gpu == HR_NO_FN || ssd == HR_NO_FN)
		return no_function(t, r->explain[gpu == HR_NO_FN ? 0 : 1]);
	if (gpu == ssd)
		return bad("the same function twice:", r->explain[0]);
	if (hr_is_bridge(&t->model.fn[gpu]) || hr_is_bridge(&t->model.fn[ssd]))
		return bad("a bridge cannot be an end of a path:",
			   r->explain[hr_is_bridge(&t->model.fn[gpu]) ? 0 : 1]);
	if (strcmp(r->format, "tree") == 0)
		hr_topo_tree(t, gpu, ssd);
	else if (strcmp(r->format, "dot") == 0)
		hr_topo_dot(t, gpu, ssd);
	else if (strcmp(r->format, "json") != 0)
		hr_topo_explain(t, gpu, ssd);
	hr_pair_evaluate(&t->topology, gpu, ssd, &p);
	return strcmp(r->format, "json") == 0 ? hr_topo_json_explain(t, &p)
					      : (int)hr_topo_exit_of(&p);
}

static int show(struct hr_topo *t, const struct request *r)
{
	int code = -1;

	if (r->explain[0])
		return show_pair(t, r);
	if (strcmp(r->format, "tree") == 0)
		hr_topo_tree(t, HR_NO_FN, HR_NO_FN);
	else if (strcmp(r->format, "dot") == 0)
		hr_topo_dot(t, HR_NO_FN, HR_NO_FN);
	else if (strcmp(r->format, "matrix") == 0)
		hr_topo_matrix(t);
	else if (strcmp(r->format, "table") == 0)
		code = (int)hr_topo_table(t);
	if (r->requirements)
		code = check_requirements(t, r);
	else if (code < 0)
		code = (int)hr_topo_exit_all(t);
	return strcmp(r->format, "json") == 0 ? hr_topo_json(t, code) : code;
}

/* Name of a view other than the verdicts in JSON; NULL: the verdicts. */
static const char *view_name(const struct request *r)
{
	if (r->baseline)
		return "baseline";
	if (r->what_ifs)
		return "what-if";
	if (r->groups)
		return "groups";
	if (r->software)
		return "software";
	if (r->bandwidth)
		return "bandwidth";
	if (r->plan)
		return "plan";
	return r->fix ? "fix" : NULL;
}

/* Explain an exit code that the printed text does not explain. */
static void explain_exit(const struct hr_topo *t, const struct request *r, int code)
{
	char text[160];

	if (code == HR_TOPO_NONE && !r->requirements &&
	    (view_name(r) || strcmp(r->format, "table") != 0))
		fprintf(stderr, "headrace topo: %s", hr_topo_no_pair(t, text));
}

static int run_view(struct hr_topo *t, const struct request *r)
{
	if (r->baseline)
		return hr_topo_baseline(t, r->baseline);
	if (r->what_ifs)
		return hr_topo_whatif(t, r->what_if, r->what_ifs);
	if (r->groups)
		return hr_topo_groups(t);
	if (r->software)
		return hr_topo_software(t);
	if (r->bandwidth)
		return hr_topo_bandwidth(t);
	return r->plan ? hr_topo_plan(t) : hr_topo_fix(t, r->apply);
}

/*
 * JSON is printed only when there is a result, or when an error occurs after its beginning; an
 * error is one line on stderr.
 */
static int show_view(struct hr_topo *t, const struct request *r)
{
	const bool json = strcmp(r->format, "json") == 0;
	static struct hr_json out; /* one view a process */
	int code;

	if (!json && strcmp(r->format, "table") != 0) {
		hr_usage_error("topo", "--%s is shown as text or json, not as %s", view_name(r),
			       r->format);
		return HR_TOPO_USAGE;
	}
	t->json = json ? &out : NULL;
	t->view = view_name(r);
	t->machine = hr_topo_machine(t);
	code = run_view(t, r);
	if (!json || (code >= HR_TOPO_USAGE && out.depth == 0))
		return code;
	hr_topo_json_start(t);
	if (t->json_pairs)
		hr_topo_json_pairs(t, &out, NULL);
	return hr_topo_json_end(&out, code);
}

static int watch(struct hr_topo *t, const struct request *r)
{
	const struct hr_topo_watch how = { .from = r->from,
					   .html = r->html,
					   .force = r->force,
					   .json = strcmp(r->format, "json") == 0,
					   .seconds = r->watch };

	return hr_topo_watch(t, &how);
}

static int evaluate(struct hr_topo *t, const struct request *r)
{
	int err = read_source(t, r), code;

	if (err)
		return err;
	if (!r->from && (r->peers || r->capture))
		hr_read_nvml(&t->model); /* without NVIDIA's driver this reads nothing */
	t->as_gpu = r->gpu;
	t->as_gpus = r->gpus;
	t->as_ssd = r->ssd;
	t->as_ssds = r->ssds;
	if (hr_topo_evaluate(t, &t->topology, &t->model)) {
		hr_error("out of memory");
		return HR_TOPO_NO_ACCESS;
	}
	err = check_endpoints(t, r->gpu, r->gpus);
	if (!err)
		err = check_endpoints(t, r->ssd, r->ssds);
	if (!err && hr_topo_both(t))
		err = bad("both --gpu and --nvme:", hr_topo_both(t));
	if (err)
		return err;
	if (!r->from)
		warn_denied(t);
	if (r->capture)
		return write_capture(t, r);
	if (r->watch)
		return watch(t, r);
	if (r->html)
		return hr_topo_html(t, r->html, r->force);
	if (r->peers)
		return hr_topo_peers(t, r->peers, r->format);
	code = view_name(r) ? show_view(t, r) : show(t, r);
	explain_exit(t, r, code);
	return code;
}

static int run(int argc, char **argv)
{
	static struct hr_topo t; /* one command per process */
	struct request r = { .format = "table" };
	int code = parse(&r, &t, argc, argv);

	if (!code)
		code = check_format(r.format);
	if (code)
		return code;
	choose_look(&t, &r);
	if (r.rules) {
		if (strcmp(r.format, "json") == 0)
			return hr_topo_json_rules(&t);
		hr_topo_rules(t.out);
		return 0;
	}
	if (hr_model_init(&t.model)) {
		hr_error("out of memory");
		return HR_TOPO_NO_ACCESS;
	}
	code = evaluate(&t, &r);
	hr_model_fini(&t.model);
	return code;
}

const struct hr_command hr_cmd_topo = {
	.name = "topo",
	.summary = "which GPUs and SSDs can do peer-to-peer DMA, and how to fix the others",
	.help = hr_topo_help,
	.fn = run,
};

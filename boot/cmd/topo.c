/* SPDX-License-Identifier: Apache-2.0 */
/*
 * headrace topo: which GPUs and NVMe controllers, of this or another machine, can do peer-to-peer
 * DMA.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "boot/cmd/cmd.h"
#include "boot/cmd/report/output.h"
#include "boot/cmd/topo/views/views.h"
#include "boot/cmd/topo/common.h"
#include "boot/cmd/topo/disks.h"
#include "boot/cmd/topo/html/html.h"
#include "boot/cmd/topo/json.h"
#include "boot/cmd/topo/topo.h"
#include "boot/cmd/topo_watch.h"
#include "boot/cmd/topo_compare.h"
#include "boot/cmd/topo_request.h"
#include "pci/topo/lspci/lspci.h"
#include "pci/machine.h"
#include "pci/topo/source/source.h"
#include "config/base/log.h"

static void choose_drawing(struct hr_topo *t, const struct hr_topo_request *r)
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

static int read_source(struct hr_topo *t, const struct hr_topo_request *r)
{
	int err = r->from ? hr_source_open(&t->model, r->from) : hr_source_live(&t->model);

	if ((!err || err == -ENODATA) && hr_topo_has_answer_without_functions(&t->model) &&
	    !r->capture && !r->html && !r->watch && !r->baseline)
		return hr_topo_without_functions(t, strcmp(r->format, "json") == 0);
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

/* Check the functions that the user names as a GPU or an SSD; they may have any class. */
static int check_endpoints(const struct hr_topo *t, const char *const *names, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (hr_topo_find(t, names[i]) == HR_NO_FN)
			return hr_topo_no_function(t, names[i]);
	return 0;
}

/* Refuse a number of pairs that needs minutes, where all pairs are evaluated. */
static int check_pairs(const struct hr_topo *t, const struct hr_topo_request *r)
{
	const struct hr_topology *e = &t->topology;

	if ((uint64_t)e->gpus * e->ssds <= HR_TOPO_PAIRS_MAX || r->explain[0] || r->capture ||
	    r->peers)
		return 0;
	hr_error("%u GPUs and %u NVMe controllers are more than %u pairs, the most that are "
		 "evaluated together: give a text with fewer functions, or --explain GPU0 NVME0 "
		 "for one pair",
		 e->gpus, e->ssds, HR_TOPO_PAIRS_MAX);
	return HR_TOPO_USAGE;
}

static int write_capture(const struct hr_topo *t, const struct hr_topo_request *r)
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

static int check_requirements(const struct hr_topo *t, const struct hr_topo_request *r)
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

static int show_pair(const struct hr_topo *t, const struct hr_topo_request *r)
{
	int32_t gpu = hr_topo_find(t, r->explain[0]), ssd = hr_topo_find(t, r->explain[1]);
	struct hr_pair p;

	if (gpu == HR_NO_FN || ssd == HR_NO_FN)
		return hr_topo_no_function(t, r->explain[gpu == HR_NO_FN ? 0 : 1]);
	if (gpu == ssd)
		return hr_topo_bad("the same function twice:", r->explain[0]);
	if (hr_is_bridge(&t->model.fn[gpu]) || hr_is_bridge(&t->model.fn[ssd]))
		return hr_topo_bad("a bridge cannot be an end of a path:",
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

static int show_topo(struct hr_topo *t, const struct hr_topo_request *r)
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
static const char *view_name(const struct hr_topo_request *r)
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
static void explain_exit(const struct hr_topo *t, const struct hr_topo_request *r, int code)
{
	char text[HR_TOPO_NO_PAIR_TEXT];

	if (code == HR_TOPO_NONE && !r->requirements &&
	    (view_name(r) || strcmp(r->format, "table") != 0))
		fprintf(stderr, "headrace topo: %s", hr_topo_no_pair(t, text));
}

static int run_view(struct hr_topo *t, const struct hr_topo_request *r)
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
static int show_view(struct hr_topo *t, const struct hr_topo_request *r)
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

static int run_watch(struct hr_topo *t, const struct hr_topo_request *r)
{
	const struct hr_topo_watch how = { .from = r->from,
					   .html = r->html,
					   .force = r->force,
					   .json = strcmp(r->format, "json") == 0,
					   .seconds = r->watch };

	return hr_topo_watch(t, &how);
}

static int evaluate(struct hr_topo *t, const struct hr_topo_request *r)
{
	int err = read_source(t, r), code;

	if (err)
		return err;
	if (!r->from && (r->peers || r->capture || r->explain[0] || r->software))
		hr_read_nvml(&t->model); /* without NVIDIA's driver this reads nothing */
	if (!r->from)
		hr_topo_read_disks(&t->model);
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
	if (!err)
		err = check_pairs(t, r);
	if (!r->from && hr_topo_has_other_pairs(t))
		hr_read_nvml(&t->model);
	if (!err && hr_topo_both(t))
		err = hr_topo_bad("both --gpu and --nvme:", hr_topo_both(t));
	if (err)
		return err;
	if (!r->from)
		warn_denied(t);
	if (r->capture)
		return write_capture(t, r);
	if (r->watch)
		return run_watch(t, r);
	if (r->html)
		return hr_topo_html(t, r->html, r->force);
	if (r->peers)
		return hr_topo_peers(t, r->peers, r->format);
	code = view_name(r) ? show_view(t, r) : show_topo(t, r);
	explain_exit(t, r, code);
	return code;
}

static int run_topo(int argc, char **argv)
{
	static struct hr_topo t; /* one command per process */
	struct hr_topo_request r = { 0 };
	int code;

	if (hr_topo_proves(argc, argv))
		return hr_topo_prove_command(&t, argc, argv);
	code = hr_topo_request_parse(&r, &t, argc, argv);

	if (code)
		return code;
	choose_drawing(&t, &r);
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
	.fn = run_topo,
};

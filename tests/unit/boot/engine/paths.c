/*
 * The choice of a path for each ssd and gpu: which pairs the topology is asked about, with which
 * modes, what the configuration demands, and the words for each result.
 */
#include "boot/engine/paths.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pci/path.h"
#include "tests/harness/error.h"

static struct hr_appliance *app;
static unsigned asked;
static enum hr_mode asked_mode;
static int answer_err;
static bool answer_direct;

/* Replaces the function that reads this machine. */
int hr_path_choose(const char *gpu, const char *ssd, enum hr_mode mode,
		   struct hr_path_choice *choice)
{
	cr_expect_str_eq(gpu, "0000:03:00.0");
	cr_expect_str_eq(ssd, "0000:04:00.0");
	asked++;
	asked_mode = mode;
	*choice = (struct hr_path_choice){ .direct = answer_direct,
					   .verdict_text = "VERDICT",
					   .rule = "R7",
					   .why = "reason",
					   .suspect = "S3",
					   .suspect_why = "doubt" };
	return answer_err;
}

/* One pipeline reads ssd 1 by gpu 1, beside an ssd and a gpu that no pipeline uses. */
static void begin(void)
{
	static const struct hr_gpu_facts facts = { .pci = "0000:03:00.0" };
	struct hr_backend *b;

	app = calloc(1, sizeof *app);
	cr_assert(app);
	b = &app->backend[1];
	app->config.ssds = app->config.gpus = 2;
	app->config.pipelines = 1;
	app->config.file = "f.conf";
	snprintf(app->config.ssd[1].name, sizeof app->config.ssd[1].name, "s");
	snprintf(app->config.gpu[1].name, sizeof app->config.gpu[1].name, "g");
	app->config.pipeline[0].gpu = 1;
	app->config.pipeline[0].sources = 1;
	app->config.pipeline[0].source[0].ssd = 1;
	app->run[0].config = &app->config.pipeline[0];
	app->run[0].selected = true;
	snprintf(app->ssd[1].transport.name, sizeof app->ssd[1].transport.name, "0000:04:00.0");
	app->ssd[1].transport.kind = HR_TRANSPORT_VFIO;
	b->facts = &facts;
	b->window = (void *)app; /* not NULL; the address is not used here */
	b->lanes = 32;
	asked = 0;
	answer_err = 0;
	answer_direct = true;
}

static void end(void)
{
	free(app);
}

TestSuite(paths, .init = begin, .fini = end, .timeout = 60);

Test(paths, only_two_pci_functions_are_a_pair)
{
	static const struct {
		enum hr_transport_kind kind;
		bool peer, facts, window;
		uint32_t lanes;
		const char *why; /* NULL: the topology is asked */
		enum hr_mode mode;
	} row[] = {
		{ HR_TRANSPORT_VFIO, false, true, true, 32, NULL, HR_MODE_VFIO },
		{ HR_TRANSPORT_VFIO, true, false, false, 1, NULL, HR_MODE_VFIO_HOST },
		{ HR_TRANSPORT_PCI, true, true, true, 1, NULL, HR_MODE_HOST },
		{ HR_TRANSPORT_PCI, false, true, true, 32,
		  "the GPU's driver does not report physical addresses: use vfio: for the ssd", 0 },
		{ HR_TRANSPORT_SOFT, true, true, true, 32,
		  "the ssd is a software controller, which is no PCI function", 0 },
		{ HR_TRANSPORT_VFIO, false, false, true, 1,
		  "worker blocks are CPU threads, which use host memory", 0 },
		{ HR_TRANSPORT_VFIO, false, true, false, 1,
		  "worker blocks are CPU threads, which use host memory", 0 },
		{ HR_TRANSPORT_VFIO, false, true, false, 2,
		  "no other device can access the memory of this GPU", 0 },
		{ HR_TRANSPORT_VFIO, false, false, true, 32,
		  "no other device can access the memory of this GPU", 0 },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct hr_backend *b;
		const struct hr_path *path;

		end();
		begin();
		b = &app->backend[1];
		path = &app->path[1][1];
		app->ssd[1].transport.kind = row[i].kind;
		if (row[i].peer)
			snprintf(b->peer, sizeof b->peer, "0000:03:00.0");
		b->facts = row[i].facts ? b->facts : NULL;
		b->window = row[i].window ? b->window : NULL;
		b->lanes = row[i].lanes;
		cr_expect_eq(hr_paths_up(app), 0, "row %zu: %s", i, app->error.text);
		cr_expect_eq(asked, row[i].why ? 0u : 1u, "row %zu", i);
		cr_expect_eq(path->pair, !row[i].why, "row %zu", i);
		cr_expect_eq(path->direct, !row[i].why, "row %zu", i);
		cr_expect_str_eq(path->why, row[i].why ? row[i].why : "reason", "row %zu", i);
		cr_expect_str_eq(path->rule, row[i].why ? "" : "R7", "row %zu", i);
		cr_expect_str_eq(path->verdict, row[i].why ? "" : "VERDICT", "row %zu", i);
		cr_expect_str_eq(path->suspect, row[i].why ? "" : "S3", "row %zu", i);
		cr_expect_str_eq(path->suspect_why, row[i].why ? "" : "doubt", "row %zu", i);
		if (!row[i].why)
			cr_expect_eq(asked_mode, row[i].mode, "row %zu", i);
		cr_expect_not(app->path[0][1].pair || app->path[1][0].pair || app->path[0][0].pair);
		cr_expect_str_eq(app->path[0][0].why, "", "no pipeline uses it");
	}
}

Test(paths, a_pair_counts_when_a_selected_pipeline_uses_both)
{
	for (uint32_t g = 0; g < 2; g++)
		for (uint32_t d = 0; d < 2; d++)
			cr_expect_eq(hr_pair_used(app, g, d), g == 1 && d == 1, "%u %u", g, d);
	app->run[0].selected = false;
	cr_expect_not(hr_pair_used(app, 1, 1));
	cr_expect_eq(hr_paths_up(app), 0);
	cr_expect_eq(asked, 0);
}

Test(paths, the_configuration_may_forbid_or_demand_a_direct_path)
{
	static const struct {
		enum hr_path_policy path;
		enum hr_queue_policy queues;
		bool direct, pair;
		int want;
		const char *text; /* of the first line */
	} row[] = {
		{ HR_PATH_AUTO, HR_QUEUES_HOST, true, true, 0, "" },
		{ HR_PATH_AUTO, HR_QUEUES_HOST, false, true, 0, "" },
		{ HR_PATH_DIRECT, HR_QUEUES_HOST, true, true, 0, "" },
		{ HR_PATH_BOUNCE, HR_QUEUES_HOST, true, true, 0, "" },
		{ HR_PATH_DIRECT, HR_QUEUES_HOST, false, true, -ENOTSUP,
		  "f.conf: memory.path is \"direct\", but ssd 's' and gpu 'g' meet in host memory: "
		  "VERDICT (R7): reason" },
		{ HR_PATH_AUTO, HR_QUEUES_GPU, false, true, -ENOTSUP,
		  "f.conf: memory.queues is \"gpu\", but ssd 's' and gpu 'g' meet in host memory: "
		  "VERDICT (R7): reason" },
		{ HR_PATH_AUTO, HR_QUEUES_GPU, true, true, 0, "" },
		{ HR_PATH_BOUNCE, HR_QUEUES_GPU, true, true, -ENOTSUP, "memory.queues is \"gpu\"" },
		{ HR_PATH_DIRECT, HR_QUEUES_HOST, true, false, -ENOTSUP,
		  "meet in host memory: the ssd is a software controller" },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		const bool bounce = row[i].path == HR_PATH_BOUNCE;

		end();
		begin();
		app->config.path = row[i].path;
		app->config.queues = row[i].queues;
		answer_direct = row[i].direct;
		app->ssd[1].transport.kind = row[i].pair ? HR_TRANSPORT_VFIO : HR_TRANSPORT_SOFT;
		cr_expect_eq(hr_paths_up(app), row[i].want, "row %zu: %s", i, app->error.text);
		cr_expect(strstr(app->error.text, row[i].text), "row %zu: %s", i, app->error.text);
		cr_expect_eq(app->path[1][1].direct, row[i].direct && row[i].pair && !bounce,
			     "row %zu", i);
		cr_expect_eq(strstr(app->error.text,
				    "headrace topo --explain 0000:03:00.0 0000:04:00.0") != NULL,
			     row[i].want && row[i].pair && !bounce, "row %zu: %s", i,
			     app->error.text);
		cr_expect(!row[i].want || app->error.kind == HR_ERROR_MISSING, "row %zu", i);
	}
}

Test(paths, a_topology_that_cannot_be_read_is_an_error)
{
	static const int row[][2] = { { -EINVAL, -ENODEV }, { -EACCES, -EACCES } };

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		end();
		begin();
		answer_err = row[i][0];
		cr_expect_eq(hr_paths_up(app), row[i][1]);
		cr_expect_eq(app->error.kind, HR_ERROR_MISSING);
		cr_expect(
			strstr(app->error.text,
			       "0000:03:00.0 and 0000:04:00.0: cannot evaluate the PCIe topology"),
			"%s", app->error.text);
	}
}

Test(paths, a_lost_path_is_replaced_only_where_the_configuration_lets_it)
{
	static const struct {
		enum hr_path_policy path;
		enum hr_queue_policy queues;
		uint32_t lost, failed; /* ssds */
		bool may;
		const char *text;
	} row[] = {
		{ HR_PATH_AUTO, HR_QUEUES_HOST, 2, 0, true,
		  "cut; tiles go through host memory instead" },
		{ HR_PATH_AUTO, HR_QUEUES_HOST, 3, 0, true, "instead" },
		{ HR_PATH_AUTO, HR_QUEUES_HOST, 2, 1, true, "instead" },
		{ HR_PATH_AUTO, HR_QUEUES_HOST, 2, 2, false,
		  "cut; memory.path = \"bounce\" does without" },
		{ HR_PATH_DIRECT, HR_QUEUES_HOST, 2, 0, false,
		  "cut; memory.path = \"bounce\" does without" },
		{ HR_PATH_AUTO, HR_QUEUES_GPU, 2, 0, false,
		  "cut; memory.queues = \"host\" does without" },
		{ HR_PATH_DIRECT, HR_QUEUES_GPU, 2, 0, false,
		  "cut; memory.path = \"bounce\" with memory.queues = \"host\" does without" },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		end();
		begin();
		app->config.path = row[i].path;
		app->config.queues = row[i].queues;
		for (uint32_t d = 0; d < 2; d++) {
			app->path[1][d].direct = true;
			snprintf(app->path[1][d].why, sizeof app->path[1][d].why, "before");
			app->ssd[d].health.state =
				row[i].failed >> d & 1 ? HR_HEALTH_FAILED : HR_HEALTH_UP;
		}
		hr_fail(test_error(), HR_ERROR_DEVICE, -EIO, "cut");
		cr_expect_eq(hr_paths_lost(app, 1, row[i].lost, &test_error_last), row[i].may,
			     "row %zu", i);
		cr_expect(strstr(test_error_text(), row[i].text), "row %zu: %s", i,
			  test_error_text());
		for (uint32_t d = 0; d < 2; d++) {
			const bool gone = row[i].may && row[i].lost >> d & 1;

			cr_expect_eq(app->path[1][d].direct, !gone, "row %zu", i);
			cr_expect_str_eq(app->path[1][d].why, gone ? "before; but cut" : "before");
		}
		cr_expect_not(app->path[0][1].direct);
	}
}

Test(paths, a_run_is_direct_when_each_of_its_pairs_is)
{
	const struct hr_run *run = &app->run[0];

	cr_expect_str_eq(hr_run_path(app, run), "host memory (bounce)");
	app->path[1][0].direct = app->path[0][1].direct = true; /* not in use */
	cr_expect_str_eq(hr_run_path(app, run), "host memory (bounce)");
	app->path[1][1].direct = true;
	cr_expect_str_eq(hr_run_path(app, run), "direct (GPU memory)");
	app->config.pipeline[0].has_sink = true; /* on ssd 0 */
	cr_expect_str_eq(hr_run_path(app, run), "direct (GPU memory)");
	app->path[1][0].direct = false;
	cr_expect_str_eq(hr_run_path(app, run), "direct and host memory (bounce)");
	app->path[1][1].direct = false;
	app->backend[1].lanes = 1;
	cr_expect_str_eq(hr_run_path(app, run), "host memory (host backend)");
	snprintf(app->backend[1].peer, sizeof app->backend[1].peer, "0000:03:00.0");
	cr_expect_str_eq(hr_run_path(app, run), "host memory (bounce)");
}

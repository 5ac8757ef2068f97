/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The choice of a path for each ssd and gpu: which pairs the topology is asked about, what the
 * configuration demands, and the words for each result.
 */
#include "boot/engine/shape/paths.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/harness/error.h"

/* No machine has these functions. */
#define GPU "0000:fe:1e.7"
#define SSD "0000:fe:1f.7"

static struct hr_engine *engine;

/* One pipeline reads ssd 1 by gpu 1, beside an ssd and a gpu that no pipeline uses. */
static void begin(void)
{
	static const struct hr_gpu_facts facts = { .pci = GPU };
	struct hr_backend *b;

	engine = calloc(1, sizeof *engine);
	cr_assert(engine);
	b = &engine->backend[1];
	engine->config.ssds = engine->config.gpus = 2;
	engine->config.pipelines = 1;
	engine->config.file = "f.conf";
	snprintf(engine->config.ssd[1].name, sizeof engine->config.ssd[1].name, "s");
	snprintf(engine->config.gpu[1].name, sizeof engine->config.gpu[1].name, "g");
	engine->config.pipeline[0].gpu = 1;
	engine->config.pipeline[0].sources = 1;
	engine->config.pipeline[0].source[0].ssd = 1;
	engine->run[0].config = &engine->config.pipeline[0];
	engine->run[0].selected = true;
	snprintf(engine->ssd[1].transport.name, sizeof engine->ssd[1].transport.name, SSD);
	engine->ssd[1].transport.kind = HR_TRANSPORT_VFIO;
	b->facts = &facts;
	b->window = (void *)engine; /* not NULL; the address is not used here */
	b->lanes = 32;
}

static void end(void)
{
	free(engine);
}

TestSuite(paths, .init = begin, .fini = end, .timeout = 60);

/* The message of the topology, which knows no such functions: tests/lab has machines that do. */
#define ASKED "0000:fe:1e.7 and 0000:fe:1f.7: cannot evaluate the PCIe topology"

Test(paths, only_two_pci_functions_are_a_pair)
{
	static const struct {
		enum hr_transport_kind kind;
		bool peer, facts, window;
		uint32_t lanes;
		const char *why; /* NULL: the topology is asked */
	} row[] = {
		{ HR_TRANSPORT_VFIO, false, true, true, 32, NULL },
		{ HR_TRANSPORT_VFIO, true, false, false, 1, NULL },
		{ HR_TRANSPORT_PCI, true, true, true, 1, NULL },
		{ HR_TRANSPORT_PCI, false, true, true, 32,
		  "the GPU's driver does not report physical addresses: use vfio: for the ssd" },
		{ HR_TRANSPORT_SOFT, true, true, true, 32,
		  "the ssd is a software controller, which is no PCI function" },
		{ HR_TRANSPORT_VFIO, false, false, true, 1,
		  "worker blocks are CPU threads, which use host memory" },
		{ HR_TRANSPORT_VFIO, false, true, false, 1,
		  "worker blocks are CPU threads, which use host memory" },
		{ HR_TRANSPORT_VFIO, false, true, false, 2,
		  "no other device can access the memory of this GPU" },
		{ HR_TRANSPORT_VFIO, false, false, true, 32,
		  "no other device can access the memory of this GPU" },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct hr_backend *b;
		const struct hr_path *path;
		int err;

		end();
		begin();
		b = &engine->backend[1];
		path = &engine->path[1][1];
		engine->ssd[1].transport.kind = row[i].kind;
		if (row[i].peer)
			snprintf(b->peer, sizeof b->peer, GPU);
		b->facts = row[i].facts ? b->facts : NULL;
		b->window = row[i].window ? b->window : NULL;
		b->lanes = row[i].lanes;
		err = hr_paths_up(engine);
		cr_expect_eq(err != 0, !row[i].why, "row %zu: %s", i, engine->error.text);
		cr_expect_eq(path->pair, !row[i].why, "row %zu", i);
		cr_expect_not(path->direct, "row %zu", i);
		cr_expect_str_eq(path->why, row[i].why ? row[i].why : "", "row %zu", i);
		cr_expect(row[i].why || strstr(engine->error.text, ASKED), "%s",
			  engine->error.text);
		cr_expect(row[i].why || engine->error.kind == HR_ERROR_MISSING);
		cr_expect_not(engine->path[0][1].pair || engine->path[1][0].pair ||
			      engine->path[0][0].pair);
		cr_expect_str_eq(engine->path[0][0].why, "", "no pipeline uses it");
	}
}

Test(paths, a_pair_counts_when_a_selected_pipeline_uses_both)
{
	for (uint32_t g = 0; g < 2; g++)
		for (uint32_t d = 0; d < 2; d++)
			cr_expect_eq(hr_pair_used(engine, g, d), g == 1 && d == 1, "%u %u", g, d);
	engine->run[0].selected = false;
	cr_expect_not(hr_pair_used(engine, 1, 1));
	cr_expect_eq(hr_paths_up(engine), 0, "the topology is not asked");
}

/* The ssd and the gpu meet in host memory, whatever the topology is. */
Test(paths, a_configuration_may_demand_a_direct_path)
{
	static const struct {
		enum hr_path_policy path;
		enum hr_queue_policy queues;
		const char *key; /* NULL: nothing is demanded */
	} row[] = {
		{ HR_PATH_AUTO, HR_QUEUES_HOST, NULL },
		{ HR_PATH_BOUNCE, HR_QUEUES_HOST, NULL },
		{ HR_PATH_DIRECT, HR_QUEUES_HOST, "path is \"direct\"" },
		{ HR_PATH_AUTO, HR_QUEUES_GPU, "queues is \"gpu\"" },
		{ HR_PATH_BOUNCE, HR_QUEUES_GPU, "queues is \"gpu\"" },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		char says[200] = "";

		end();
		begin();
		engine->config.path = row[i].path;
		engine->config.queues = row[i].queues;
		engine->ssd[1].transport.kind = HR_TRANSPORT_SOFT;
		cr_expect_eq(hr_paths_up(engine), row[i].key ? -ENOTSUP : 0, "row %zu", i);
		if (row[i].key)
			snprintf(says, sizeof says,
				 "f.conf: memory.%s, but ssd 's' and gpu 'g' meet in host memory: "
				 "the ssd is a software controller, which is no PCI function",
				 row[i].key);
		cr_expect_str_eq(engine->error.text, says);
		cr_expect(!row[i].key || engine->error.kind == HR_ERROR_MISSING, "row %zu", i);
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
		engine->config.path = row[i].path;
		engine->config.queues = row[i].queues;
		for (uint32_t d = 0; d < 2; d++) {
			engine->path[1][d].direct = true;
			snprintf(engine->path[1][d].why, sizeof engine->path[1][d].why, "before");
			engine->ssd[d].health.state =
				row[i].failed >> d & 1 ? HR_HEALTH_FAILED : HR_HEALTH_UP;
		}
		hr_fail(test_error(), HR_ERROR_DEVICE, -EIO, "cut");
		cr_expect_eq(hr_paths_lost(engine, 1, row[i].lost, &test_error_last), row[i].may,
			     "row %zu", i);
		cr_expect(strstr(test_error_text(), row[i].text), "row %zu: %s", i,
			  test_error_text());
		for (uint32_t d = 0; d < 2; d++) {
			const bool gone = row[i].may && row[i].lost >> d & 1;

			cr_expect_eq(engine->path[1][d].direct, !gone, "row %zu", i);
			cr_expect_str_eq(engine->path[1][d].why,
					 gone ? "before; but cut" : "before");
		}
		cr_expect_not(engine->path[0][1].direct);
	}
}

Test(paths, a_run_is_direct_when_each_of_its_pairs_is)
{
	const struct hr_run *run = &engine->run[0];

	cr_expect_str_eq(hr_run_path(engine, run), "host memory (bounce)");
	engine->path[1][0].direct = engine->path[0][1].direct = true; /* not in use */
	cr_expect_str_eq(hr_run_path(engine, run), "host memory (bounce)");
	engine->path[1][1].direct = true;
	cr_expect_str_eq(hr_run_path(engine, run), "direct (GPU memory)");
	engine->config.pipeline[0].has_sink = true; /* on ssd 0 */
	cr_expect_str_eq(hr_run_path(engine, run), "direct (GPU memory)");
	engine->path[1][0].direct = false;
	cr_expect_str_eq(hr_run_path(engine, run), "direct and host memory (bounce)");
	engine->path[1][1].direct = false;
	engine->backend[1].lanes = 1;
	cr_expect_str_eq(hr_run_path(engine, run), "host memory (host backend)");
	snprintf(engine->backend[1].peer, sizeof engine->backend[1].peer, GPU);
	cr_expect_str_eq(hr_run_path(engine, run), "host memory (bounce)");
}

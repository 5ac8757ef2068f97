/*
 * The stage `memory` call by call: its order, the call that fails with the text of its error, what is
 * taken down again, and the repetition without a direct path.
 */
#include "boot/engine/stage_memory.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "boot/engine/prove.h"
#include "boot/engine/run_feed.h"
#include "boot/engine/run_tap.h"
#include "boot/engine/stage_partition.h"
#include "tests/fakes/log.h"
#include "tests/harness/calls.h"

TestSuite(stage_memory, .timeout = 60);

enum { SSDS = 3, GPUS = 2, RUNS = 4 };

static struct hr_appliance *app;
static struct hr_controller controller[2]; /* of ssds 0 and 1, and of ssd 2 */
static unsigned calls, fails_at;
static int fails_with;
static bool refutes, loses, plan_fails;
static uint32_t pairs[GPUS]; /* ssds that each gpu uses */

/* Count a call, and fail in the one that the test has chosen. */
static int call(struct hr_error *e, const char *what)
{
	if (++calls != fails_at)
		return 0;
	return hr_fail(e, HR_ERROR_FAILED, fails_with, "no %s", what);
}

static uint32_t gpu_of(const struct hr_places *places)
{
	return (uint32_t)(places - app->memory);
}

int hr_places_take(struct hr_places *places, struct hr_backend *backend,
		   const uint64_t bytes[HR_PLACES], struct hr_error *e)
{
	const uint32_t g = gpu_of(places);

	calls_note("take%u ", g);
	cr_expect_eq(backend, &app->backend[g]);
	cr_expect_eq(bytes, app->partition[g].used);
	if (call(e, "memory"))
		return fails_with;
	for (int place = 0; place < HR_PLACES; place++)
		places->region[place] = (struct hr_region){ .bytes = bytes[place] };
	return 0;
}

int hr_places_attach_words(struct hr_places *places, struct hr_error *e)
{
	calls_note("words%u ", gpu_of(places));
	places->region[HR_PLACE_TAP_WORDS].worker = places;
	return call(e, "words");
}

int hr_places_open_gpu(struct hr_places *places, struct hr_error *e)
{
	calls_note("open%u ", gpu_of(places));
	places->region[HR_PLACE_GPU].bus.addr = 77;
	return call(e, "window");
}

void hr_places_give(struct hr_places *places)
{
	calls_note("give%u ", gpu_of(places));
	memset(places, 0, sizeof *places);
}

int hr_run_tap_take(struct hr_appliance *of, uint32_t i)
{
	calls_note("tap%u ", i);
	cr_expect_eq(app->partition[0].region[HR_PLACE_HOST].bytes, 2 * HR_PAGE, "bound");
	return call(&of->error, "tap");
}

int hr_run_feed_take(struct hr_appliance *of, uint32_t i)
{
	calls_note("feed%u ", i);
	return call(&of->error, "feed");
}

void hr_run_tap_give(struct hr_tap_tiles *tiles)
{
	calls_note("-tap%u ", (uint32_t)(tiles - app->tap_tiles));
}

void hr_run_feed_give(struct hr_feed_memory *memory)
{
	calls_note("-feed%u ", (uint32_t)(memory - app->feed_memory));
}

int hr_pipe_layout_check_rings(const struct hr_pipe_layout *l, struct hr_error *e)
{
	uint32_t i = 0;

	while (l != &app->run[i].layout)
		i++;
	calls_note("rings%u ", i);
	cr_expect_eq(app->partition[0].region[HR_PLACE_TAP_WORDS].worker, &app->memory[0],
		     "bound again");
	return call(e, "rings");
}

int hr_access_layout_check(const struct hr_access_layout *l, struct hr_error *e)
{
	calls_note("access1.%u ", l == &app->run[1].gpu[0].layout ? 0u : 1u);
	cr_expect(l == &app->run[1].gpu[0].layout || l == &app->run[1].gpu[1].layout);
	return call(e, "rings");
}

bool hr_pair_used(const struct hr_appliance *of, uint32_t g, uint32_t d)
{
	return pairs[g] >> d & 1;
}

int hr_prove(struct hr_appliance *of, uint32_t g, uint32_t d, enum hr_place place, bool *refuted,
	     struct hr_error *e)
{
	calls_note("prove%u.%u:%s ", g, d, hr_place_name(place));
	cr_expect_not(*refuted, "the place is mapped");
	cr_expect(place != HR_PLACE_GPU || app->partition[g].region[place].bus.addr == 77,
		  "bound when it is open");
	if (call(e, "loopback"))
		*refuted = refutes;
	return calls == fails_at ? fails_with : 0;
}

bool hr_paths_lost(struct hr_appliance *of, uint32_t g, uint32_t ssds, struct hr_error *e)
{
	calls_note("lost%u:%x ", g, ssds);
	for (uint32_t d = 0; loses && d < SSDS; d++)
		if (ssds >> d & 1)
			app->path[g][d].direct = false;
	hr_error_append(e, "; lost");
	return loses;
}

int hr_partition_plan(struct hr_appliance *of)
{
	calls_note("plan ");
	return plan_fails ? hr_fail(&of->error, HR_ERROR_USAGE, -EINVAL, "no plan") : 0;
}

static int map(struct hr_transport *t, const struct hr_region *region, struct hr_error *e)
{
	calls_note("map%s:%zu ", t->name, region->bytes / HR_PAGE);
	return call(e, "map");
}

static void unmap(struct hr_transport *t, const struct hr_region *region)
{
	calls_note("-map%s:%zu ", t->name, region->bytes / HR_PAGE);
}

static int attach(struct hr_backend *b, void *cpu, size_t bytes, bool io, void **worker,
		  struct hr_error *e)
{
	calls_note("bar%u:%zu:%zu%s ", (uint32_t)(b - app->backend), (size_t)cpu, bytes,
		   io ? "io" : "");
	*worker = (uint8_t *)cpu + 1000;
	return call(e, "bar");
}

static void detach(struct hr_backend *b, void *cpu)
{
	calls_note("-bar%u:%zu ", (uint32_t)(b - app->backend), (size_t)cpu);
}

static int share(struct hr_backend *b, const struct hr_region *region, struct hr_backend *other,
		 struct hr_error *e)
{
	calls_note("share%u:%zu:%u ", (uint32_t)(b - app->backend), region->bytes / HR_PAGE,
		   (uint32_t)(other - app->backend));
	return call(e, "path");
}

/* ---- an appliance with two gpus and three ssds, two of which are of one controller */

static void set_run(uint32_t i, uint32_t gpu, bool selected, const char *tap, const char *feed)
{
	struct hr_config_pipeline *p = &app->config.pipeline[i];

	p->gpu = gpu;
	strcpy(p->tap.name, tap);
	strcpy(p->feed.name, feed);
	app->run[i].config = p;
	app->run[i].selected = selected;
}

/* Behind the last of each kind: an ssd of the first controller, a gpu, and a pipeline of two gpus. */
static void set_decoys(const struct hr_transport_ops *transport_ops,
		       const struct hr_backend_ops *backend_ops)
{
	app->ssd[SSDS] = app->ssd[0];
	app->ssd[SSDS].transport.ops = transport_ops;
	app->gpu_up[GPUS] = true;
	app->backend[GPUS].ops = backend_ops;
	for (uint32_t g = 0; g < GPUS; g++) {
		app->bar[g][SSDS] = &app->ssd[SSDS];
		app->path[g][SSDS].direct = true;
	}
	set_run(RUNS, 0, true, "t", "f");
	app->config.pipeline[RUNS].other_gpus = 1;
	app->config.pipeline[RUNS].other_gpu[0] = 1;
}

static void up(void)
{
	static const struct hr_transport_ops transport_ops = { .map = map, .unmap = unmap };
	static const struct hr_backend_ops backend_ops = { .attach = attach,
							   .detach = detach,
							   .share = share };

	free(app);
	app = calloc(1, sizeof *app);
	cr_assert_not_null(app);
	app->config.ssds = SSDS;
	app->config.gpus = GPUS;
	app->config.pipelines = RUNS;
	for (uint32_t d = 0; d < SSDS; d++) {
		struct hr_transport *t = &app->ssd[d].transport;

		app->ssd[d].controller = &controller[d / 2];
		t->ops = &transport_ops;
		snprintf(t->name, sizeof t->name, "s%u", d);
		t->bar = (volatile uint8_t *)(uintptr_t)(100 * (d / 2 + 1));
		t->bar_bytes = 40 + d / 2;
		t->bar_is_memory = d < 2;
	}
	for (uint32_t g = 0; g < GPUS; g++) {
		struct hr_partition *p = &app->partition[g];

		app->gpu_up[g] = true;
		app->backend[g].ops = &backend_ops;
		snprintf(app->config.gpu[g].name, sizeof app->config.gpu[g].name, "g%u", g);
		for (int place = 0; place < HR_PLACES; place++)
			p->used[place] = (1 + (uint64_t)place) * HR_PAGE;
		p->count = 4; /* the third is the first of the largest */
		for (uint32_t i = 0; i < p->count; i++) {
			p->part[i].bytes = i < 2 ? 10 * i : 50;
			snprintf(p->part[i].owner, sizeof p->part[i].owner, "owner%u", i);
			strcpy(p->part[i].purpose, "tiles");
		}
	}
	/* on gpu 0, and gpus 1 and 0, as gpu 0 but complete, not selected */
	set_run(0, 0, true, "t", "f");
	set_run(1, 1, true, "", "");
	set_run(2, 0, true, "t", "");
	set_run(3, 1, false, "t", "f");
	app->config.pipeline[1].objects = 1;
	app->config.pipeline[1].other_gpus = 1;
	app->run[2].outcome = HR_RUN_COMPLETE;
	pairs[0] = 7 | 1u << SSDS;
	pairs[1] = 1 | 1u << SSDS;
	app->path[0][0].direct = app->path[0][2].direct = true;
	set_decoys(&transport_ops, &backend_ops);
	calls = fails_at = 0;
	fails_with = -EIO;
	refutes = loses = plan_fails = false;
	calls_take();
}

static void end(void)
{
	free(app);
	app = NULL;
}

#define TAKE0 "take0 tap0 feed0 tap2 words0 rings0 access1.1 open0 "
#define SSD0 \
	"maps0:2 prove0.0:host maps0:4 prove0.0:gpu bar0:100:40 " /* host, gpu: 2 and 4 pages */
#define SSD1 "prove0.1:host "
#define SSD2 "maps2:2 prove0.2:host maps2:4 prove0.2:gpu bar0:200:41io "
#define SHARE0 "share0:3:1 share0:4:1 "
#define GPU1 "take1 words1 access1.0 maps0:2 prove1.0:host bar1:100:40 share1:3:0 share1:4:0 "
#define DOWN1 "-bar1:100 -maps0:2 -tap1 -feed1 -tap3 -feed3 give1 "
#define DOWN0 \
	"-bar0:100 -bar0:200 -maps0:4 -maps2:4 -maps0:2 -maps2:2 -tap0 -feed0 -tap2 -feed2 give0 "

Test(stage_memory, all_steps_of_all_gpus_are_undone_in_reverse, .fini = end)
{
	up();
	cr_expect_eq(hr_memory_up(app), 0);
	cr_expect_str_eq(calls_take(), TAKE0 SSD0 SSD1 SSD2 SHARE0 GPU1);
	for (uint32_t d = 0; d < SSDS; d++)
		cr_expect_eq((uintptr_t)app->bar[0][d], d < 2 ? 1100u : 1200u, "%u", d);
	cr_expect_eq((uintptr_t)app->bar[1][0], 1100u);
	cr_expect_null(app->bar[1][1]);
	cr_expect_eq(app->mapped[HR_PLACE_HOST][0], 5u);
	cr_expect_eq(app->mapped[HR_PLACE_GPU][0], 5u);
	cr_expect_eq(app->mapped[HR_PLACE_HOST][1], 1u);
	cr_expect_eq(app->error.kind, HR_ERROR_NONE);
	cr_expect_eq(fake_log_count_of(HR_LOG_INFO), 2u * HR_PLACES);
	cr_expect_eq(strncmp(fake_log_last_of(HR_LOG_INFO), "gpu 'g1': place ", 16), 0, "%s",
		     fake_log_last_of(HR_LOG_INFO));
	app->mapped[HR_PLACE_HOST][0] |= 1u << SSDS;
	hr_memory_down(app);
	cr_expect_str_eq(calls_take(), DOWN1 DOWN0);
	for (uint32_t d = 0; d < SSDS; d++)
		cr_expect_null(app->bar[0][d]);
	cr_expect_eq(app->mapped[HR_PLACE_HOST][0] + app->mapped[HR_PLACE_GPU][0], 0u);
	hr_memory_down(app);
	cr_expect_str_eq(calls_take(), "-tap1 -feed1 -tap3 -feed3 give1 "
				       "-tap0 -feed0 -tap2 -feed2 give0 ");
}

/* The memory that a controller may still write to stays, but workers lose its doorbells. */
Test(stage_memory, the_memory_of_a_controller_that_does_not_stop_stays, .fini = end)
{
	up();
	cr_assert_eq(hr_memory_up(app), 0);
	app->ssd[2].health.state = HR_HEALTH_STUCK;
	calls_take();
	hr_memory_down(app);
	cr_expect_str_eq(calls_take(), "-bar1:100 -bar0:100 -bar0:200 ");
	cr_expect_eq(app->mapped[HR_PLACE_HOST][0], 5u);
}

Test(stage_memory, only_what_is_used_is_brought_up, .fini = end)
{
	up();
	app->gpu_up[0] = false;
	app->partition[1].used[HR_PLACE_HOST] = app->partition[1].used[HR_PLACE_GPU] = 0;
	app->path[1][0].direct = true;
	cr_expect_eq(hr_memory_up(app), 0);
	/* bytes of a place without memory are not mapped, and no gpu that is down is a peer */
	cr_expect(strstr(calls_text(), "take1 words1 access1.0 open1 prove1.0:host "), "%s",
		  calls_take());
	cr_expect_eq(app->mapped[HR_PLACE_HOST][1] + app->mapped[HR_PLACE_GPU][1], 0u);
	cr_expect_null(strstr(calls_take(), "share"));
	cr_expect_eq(fake_log_count_of(HR_LOG_INFO), HR_PLACES - 2u);
	up();
	app->run[1].selected = false;
	cr_expect_eq(hr_memory_up(app), 0);
	cr_expect_null(strstr(calls_text(), "share"), "no pipeline runs on both");
	cr_expect_null(strstr(calls_take(), "access"));
}

/* Each call fails once: no call follows it, but those that report a path. */
Test(stage_memory, a_call_that_fails_is_the_last_and_names_its_object, .fini = end)
{
	static const struct {
		const char *calls, *says;
	} row[] = {
		{ "take0 ", "gpu 'g0': no memory" },
		{ "take0 tap0 ", "no tap" },
		{ "take0 tap0 feed0 ", "no feed" },
		{ "take0 tap0 feed0 tap2 ", "no tap" },
		{ "take0 tap0 feed0 tap2 words0 ", "no words" },
		{ "take0 tap0 feed0 tap2 words0 rings0 ", "no rings" },
		{ "take0 tap0 feed0 tap2 words0 rings0 access1.1 ", "no rings" },
		{ TAKE0 "lost0:5 ",
		  "gpu 'g0': its memory cannot be opened for ssds: no window; lost" },
		{ TAKE0 "maps0:2 ",
		  "s0: cannot map 8192 bytes of gpu 'g0' (host) for DMA: no map" },
		{ TAKE0 "maps0:2 prove0.0:host ", "no loopback" },
		{ TAKE0 "maps0:2 prove0.0:host maps0:4 lost0:1 ",
		  "s0: cannot map 16384 bytes of gpu 'g0' (gpu) for DMA: no map; lost" },
		{ TAKE0 "maps0:2 prove0.0:host maps0:4 prove0.0:gpu ", "no loopback" },
		{ TAKE0 SSD0, "s0: gpu 'g0' cannot access its doorbells: no bar" },
		{ TAKE0 SSD0 SSD1, "no loopback" },
		{ TAKE0 SSD0 SSD1 "maps2:2 ",
		  "s2: cannot map 8192 bytes of gpu 'g0' (host) for DMA: no map" },
		{ TAKE0 SSD0 SSD1 "maps2:2 prove0.2:host ", "no loopback" },
		{ TAKE0 SSD0 SSD1 "maps2:2 prove0.2:host maps2:4 lost0:4 ",
		  "s2: cannot map 16384 bytes of gpu 'g0' (gpu) for DMA: no map; lost" },
		{ TAKE0 SSD0 SSD1 "maps2:2 prove0.2:host maps2:4 prove0.2:gpu ", "no loopback" },
		{ TAKE0 SSD0 SSD1 SSD2, "s2: gpu 'g0' cannot access its doorbells: no bar" },
		{ TAKE0 SSD0 SSD1 SSD2 "share0:3:1 ",
		  "gpu 'g1' cannot use memory of gpu 'g0': no path" },
		{ TAKE0 SSD0 SSD1 SSD2 SHARE0, "gpu 'g1' cannot use memory of gpu 'g0': no path" },
		{ TAKE0 SSD0 SSD1 SSD2 SHARE0 "take1 ", "gpu 'g1': no memory" },
	};

	for (unsigned i = 0; i < sizeof row / sizeof *row; i++) {
		up();
		fails_at = i + 1;
		cr_expect_eq(hr_memory_up(app), -EIO, "%u", i);
		cr_expect_str_eq(calls_take(), row[i].calls);
		cr_expect_str_eq(app->error.text, row[i].says);
		cr_expect_not(app->error.printed);
	}
	up();
	fails_at = 13;
	hr_memory_up(app);
	cr_expect_null(app->bar[0][0], "what a failed call has left there is no address");
}

Test(stage_memory, missing_memory_names_the_largest_part, .fini = end)
{
	up();
	fails_at = 1;
	fails_with = -ENOMEM;
	cr_expect_eq(hr_memory_up(app), -ENOMEM);
	cr_expect_str_eq(app->error.text, "gpu 'g0': owner2: tiles have 50 bytes: no memory");
	up();
	app->partition[0].count = 0;
	fails_at = 1;
	fails_with = -ENOMEM;
	cr_expect_eq(hr_memory_up(app), -ENOMEM);
	cr_expect_str_eq(app->error.text, "gpu 'g0': no memory");
}

/* A loopback that finds other data, in host memory and in that of the gpu. */
Test(stage_memory, a_place_out_of_reach_gets_the_name_of_its_ssd, .fini = end)
{
	up();
	refutes = true;
	fails_at = 10;
	cr_expect_eq(hr_memory_up(app), -EIO);
	cr_expect_str_eq(calls_take(), TAKE0 "maps0:2 prove0.0:host ");
	cr_expect_str_eq(app->error.text, "s0: no loopback");
	up();
	refutes = true;
	fails_at = 12;
	cr_expect_eq(hr_memory_up(app), -EIO);
	cr_expect_str_eq(calls_take(), TAKE0 "maps0:2 prove0.0:host maps0:4 prove0.0:gpu lost0:1 ");
	cr_expect_str_eq(app->error.text, "s0: no loopback; lost");
}

#define BOUNCE0 "maps0:2 prove0.0:host bar0:100:40 "

/* All memory is taken again, once for each path that is lost. */
Test(stage_memory, a_lost_path_is_a_warning_and_another_layout, .fini = end)
{
	up();
	loses = refutes = true;
	fails_at = 12;
	cr_expect_eq(hr_memory_up(app), 0, "%s", app->error.text);
	cr_expect_str_eq(calls_take(), TAKE0
			 "maps0:2 prove0.0:host maps0:4 prove0.0:gpu lost0:1 "
			 "-tap1 -feed1 -tap3 -feed3 give1 "
			 "-maps0:4 -maps0:2 -tap0 -feed0 -tap2 -feed2 give0 plan " TAKE0 BOUNCE0
				 SSD1 SSD2 SHARE0 GPU1);
	cr_expect_str_eq(fake_log_last_of(HR_LOG_WARN), "s0: no loopback; lost");
	cr_expect_eq(app->error.kind, HR_ERROR_NONE);
	up();
	loses = true;
	fails_at = 8; /* the memory of the gpu cannot be opened: both paths */
	cr_expect_eq(hr_memory_up(app), 0, "%s", app->error.text);
	cr_expect_eq(strncmp(calls_text(), TAKE0 "lost0:5 -tap1 ", strlen(TAKE0) + 14), 0, "%s",
		     calls_text());
	cr_expect_null(strstr(strstr(calls_take(), "plan "), "open0"));
	cr_expect_str_eq(fake_log_last_of(HR_LOG_WARN),
			 "gpu 'g0': its memory cannot be opened for ssds: no window; lost");
	cr_expect_eq(fake_log_count_of(HR_LOG_WARN), 2u);
}

Test(stage_memory, a_layout_without_the_path_may_fail, .fini = end)
{
	up();
	loses = plan_fails = true;
	fails_at = 8;
	cr_expect_eq(hr_memory_up(app), -EINVAL);
	cr_expect_str_eq(strstr(calls_take(), "plan "), "plan ", "nothing is taken");
	cr_expect_str_eq(app->error.text, "no plan");
}

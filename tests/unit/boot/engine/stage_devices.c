/* The stages `backends` and `controllers` call by call: numbers for each gpu, the order of the steps,
 * each failure, and what stays up. */
#include "boot/engine/stage_backends.h"
#include "boot/engine/stage_controllers.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "boot/engine/devices.h"
#include "boot/engine/disks.h"
#include "boot/engine/link.h"
#include "boot/engine/refuse.h"
#include "boot/engine/schedule.h"
#include "boot/engine/share.h"
#include "boot/engine/signals.h"
#include "tests/fakes/log.h"
#include "tests/harness/calls.h"

TestSuite(stage_devices, .timeout = 60);

enum { GPUS = 2, SSDS = 3, RUNS = 3 };

static struct hr_appliance *app;
static struct hr_controller controller[2]; /* of ssds 0 and 1, and of ssd 2 */
static struct hr_ctrl ctrl[2] = { { .model = "M0", .serial = "S0" },
				  { .model = "M1", .serial = "S1" } };
static unsigned calls, fails_at, interrupts_at;
static uint32_t beside, refused;
static uint64_t most;
static const char *note;
static bool peer, names_error;

static int fail(struct hr_error *e, const char *what)
{
	if (++calls != fails_at)
		return 0;
	return names_error ? hr_fail(e, HR_ERROR_MISSING, -EIO, "no %s", what) : -EIO;
}

/* ---- backends */

static int reserve(struct hr_backend *b, uint32_t launches, struct hr_error *e)
{
	calls_note("reserve%td:%u ", b - app->backend, launches);
	return fail(e, "launches");
}

static void close_backend(struct hr_backend *b)
{
	calls_note("close%td ", b - app->backend);
}

static const struct hr_backend_ops plain_ops = { .close = close_backend };
static const struct hr_backend_ops reserving_ops = { .close = close_backend, .reserve = reserve };
static const struct hr_backend_ops *ops;

int hr_backend_open(struct hr_backend *b, const char *device, uint32_t max_blocks,
		    struct hr_error *e)
{
	calls_note("open%td:%s:%u ", b - app->backend, device, max_blocks);
	b->ops = ops;
	b->lanes = b == app->backend ? 1 : 32;
	strcpy(b->name, "far");
	strcpy(b->note, note);
	strcpy(b->peer, peer ? "0000:01:00.0" : "");
	return fail(e, "device");
}

uint64_t hr_schedule_blocks(const struct hr_appliance *of, uint32_t g, const uint32_t *blocks,
			    hr_pipelines *them)
{
	calls_note("blocks%u(%u %u %u %u) ", g, blocks[0], blocks[1], blocks[2], blocks[3]);
	return most;
}

uint32_t hr_schedule_beside(const struct hr_appliance *of, uint32_t g)
{
	return beside;
}

int hr_run_share_check(struct hr_appliance *of, const struct hr_run *run)
{
	calls_note("share%td ", run - app->run);
	return fail(&app->error, "MPS");
}

int hr_operators_link(struct hr_appliance *of)
{
	calls_note("link ");
	return fail(&app->error, "operator");
}

/* ---- ssds */

int hr_disk_check_device(struct hr_appliance *of, uint32_t d)
{
	calls_note("device%u ", d);
	return fail(&app->error, "difference");
}

int hr_disk_up(struct hr_appliance *of, uint32_t d)
{
	calls_note("up%u ", d);
	app->ssd[d].controller = &controller[d == 2];
	app->ssd[d].ctrl = &ctrl[d == 2];
	app->ssd[d].ns.blocks = 1000 + d;
	app->ssd[d].ns.lba_shift = 9 + d;
	return fail(&app->error, "controller");
}

int hr_disk_check(struct hr_appliance *of, uint32_t d)
{
	calls_note("check%u ", d);
	return fail(&app->error, "other disk");
}

int hr_ssd_reserve(struct hr_ssd *ssd, struct hr_error *e)
{
	calls_note("reserve%td ", ssd - app->ssd);
	return fail(e, "reservation");
}

void hr_ssd_down(struct hr_ssd *ssd)
{
	calls_note("-%td ", ssd - app->ssd);
}

void hr_refuse_ssd(struct hr_appliance *of, uint32_t d, int err)
{
	calls_note("refuse%u(%d %s) ", d, err, app->error.text);
	app->left_out[d] = true;
	refused |= 1u << d;
	hr_error_clear(&app->error);
}

bool hr_any_selected(const struct hr_appliance *of)
{
	return refused != 7;
}

bool hr_signals_pending(void)
{
	return interrupts_at && calls + 1 == interrupts_at;
}

static void begin(void)
{
	free(app);
	app = calloc(1, sizeof *app);
	cr_assert_not_null(app);
	app->config.file = "f";
	app->config.gpus = GPUS;
	app->config.ssds = SSDS;
	app->config.pipelines = RUNS;
	for (uint32_t i = 0; i <= GPUS; i++) {
		struct hr_config_gpu *g = &app->config.gpu[i];

		snprintf(g->name, sizeof g->name, "g%u", i);
		snprintf(g->device, sizeof g->device, "dev%u", i);
		g->line = 10 + i;
		app->gpu_used[i] = true;
	}
	for (uint32_t d = 0; d < SSDS; d++) {
		snprintf(app->config.ssd[d].name, sizeof app->config.ssd[d].name, "s%u", d);
		app->config.ssd[d].line = 20 + d;
		app->ssd[d].health.state = HR_HEALTH_UP;
	}
	for (uint32_t i = 0; i <= RUNS; i++) {
		app->run[i].config = &app->config.pipeline[i];
		app->run[i].selected = i != 1;
		strcpy(app->config.pipeline[i].tap.name, i ? "t" : "");
	}
	calls = fails_at = interrupts_at = refused = 0;
	beside = 1;
	most = 0;
	note = "";
	ops = &plain_ops;
	peer = false;
	names_error = true;
	calls_take();
}

static void end(void)
{
	free(app);
	app = NULL;
}

#define BLOCKS(g) "blocks" g "(2 3 3 0) "

Test(stage_devices, a_backend_has_room_for_the_blocks_of_its_pipelines, .fini = end)
{
	struct hr_config_pipeline *c;

	begin();
	most = 5;
	app->min_blocks = 5;
	cr_expect_eq(hr_backends_up(app), 0, "%s", app->error.text);
	cr_expect_str_eq(calls_take(),
			 BLOCKS("0") "open0:dev0:5 " BLOCKS("1") "open1:dev1:5 share2 link ");
	cr_expect(app->gpu_up[0] && app->gpu_up[1] && !app->gpu_up[2]);
	cr_expect_eq(fake_log_count_of(HR_LOG_INFO), 0u);
	hr_backends_down(app);
	cr_expect_str_eq(calls_take(), "close1 close0 ");
	cr_expect_not(app->gpu_up[0] || app->gpu_up[1]);
	hr_backends_down(app);
	cr_expect_str_eq(calls_take(), "");
	begin();
	app->gpu_used[0] = false;
	app->min_blocks = 4;
	most = 7;
	note = "the CPU";
	c = app->config.pipeline;
	c[0] = (struct hr_config_pipeline){
		.compute_blocks = 3, .prefetch_blocks = 2, .writeback_blocks = 4, .has_sink = true
	};
	c[1] = (struct hr_config_pipeline){
		.objects = 1, .compute_blocks = 3, .io_blocks = 5, .prefetch_blocks = 7
	};
	c[2] = (struct hr_config_pipeline){ .compute_blocks = 1, .writeback_blocks = 4 };
	cr_expect_eq(hr_backends_up(app), 0);
	cr_expect_str_eq(calls_take(), "blocks1(9 8 2 0) open1:dev1:7 link ");
	cr_expect_str_eq(fake_log_last_of(HR_LOG_INFO), "gpu 'g1': the CPU");
	begin();
	ops = &reserving_ops;
	app->gpu_used[0] = false;
	cr_expect_eq(hr_backends_up(app), 0);
	cr_expect_null(strstr(calls_take(), "reserve"), "one launch at a time");
	begin();
	ops = &reserving_ops;
	app->gpu_used[0] = false;
	beside = 2;
	cr_expect_eq(hr_backends_up(app), 0);
	cr_expect(strstr(calls_take(), "open1:dev1:0 reserve1:2 share2 link "));
}

Test(stage_devices, a_backend_that_fails_is_named, .fini = end)
{
	static const char *const says[] = { "f:10: gpu 'g0': no device",
					    "no launches",
					    "f:11: gpu 'g1': no device",
					    "no launches",
					    "no MPS",
					    "no operator" };

	for (unsigned n = 1; n <= 6; n++) {
		begin();
		ops = &reserving_ops;
		beside = 3;
		fails_at = n;
		cr_expect_eq(hr_backends_up(app), -EIO, "%u", n);
		cr_expect_str_eq(app->error.text, says[n - 1]);
		cr_expect_eq(app->error.kind, HR_ERROR_MISSING);
		cr_expect_eq(calls, n);
		cr_expect_eq(app->gpu_up[0], n > 1, "%u", n);
		cr_expect_eq(app->gpu_up[1], n > 3, "%u", n);
	}
}

Test(stage_devices, threads_have_no_memory_for_a_direct_path, .fini = end)
{
	begin();
	app->config.path = HR_PATH_DIRECT;
	cr_expect_eq(hr_backends_up(app), -ENOTSUP);
	cr_expect_str_eq(app->error.text,
			 "f:10: memory.path is \"direct\", but gpu 'g0' is far: worker blocks are "
			 "CPU threads and there is no GPU memory for an ssd to write to; expected "
			 "\"auto\" or \"bounce\", or a device with bar=BDF");
	cr_expect_eq(app->error.kind, HR_ERROR_MISSING);
	begin();
	app->config.path = HR_PATH_DIRECT;
	peer = true;
	cr_expect_eq(hr_backends_up(app), 0, "a BAR is such memory");
	begin();
	app->config.path = HR_PATH_DIRECT;
	app->gpu_used[0] = false;
	cr_expect_eq(hr_backends_up(app), 0, "the other one is a GPU");
}

#define DEVICES "device0 device1 device2 "
#define UP(d) "up" d " check" d " reserve" d " "

Test(stage_devices, controllers_come_up_in_their_order, .fini = end)
{
	begin();
	cr_expect_eq(hr_controllers_up(app), 0);
	cr_expect_str_eq(calls_take(), DEVICES UP("0") UP("1") UP("2"));
	cr_expect_str_eq(fake_log_last_of(HR_LOG_INFO),
			 "ssd 's2': M1 S1, 1002 blocks of 2048 bytes");
	hr_controllers_down(app);
	cr_expect_str_eq(calls_take(), "-2 -1 -0 ");
	begin();
	app->left_out[1] = true;
	app->only_checks = true;
	cr_expect_eq(hr_controllers_up(app), 0);
	cr_expect_str_eq(calls_take(), DEVICES "up0 check0 up2 check2 ");
	begin();
	interrupts_at = 7; /* before the second */
	cr_expect_eq(hr_controllers_up(app), -EINTR);
	cr_expect_str_eq(calls_take(), DEVICES UP("0"));
	begin();
	app->keep_going = true;
	interrupts_at = 7;
	cr_expect_eq(hr_controllers_up(app), -EINTR);
	cr_expect_str_eq(calls_take(), DEVICES UP("0"), "no ssd is left out for a signal");
}

Test(stage_devices, a_controller_that_fails_ends_the_stage_and_is_named, .fini = end)
{
	static const struct {
		unsigned fails_at;
		bool names_error;
		const char *calls, *says;
	} row[] = {
		{ 2, true, "device0 device1 ", "no difference" },
		{ 4, true, DEVICES "up0 ", "f:20: ssd 's0' cannot be brought up: no controller" },
		{ 4, false, DEVICES "up0 ",
		  "f:20: ssd 's0' cannot be brought up: Input/output error" },
		{ 5, true, DEVICES "up0 check0 -0 ", "no other disk" },
		{ 6, true, DEVICES UP("0") "-0 ",
		  "f:20: ssd 's0' cannot be reserved: no reservation" },
		{ 8, true, DEVICES UP("0") "up1 check1 -1 ", "no other disk" },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		begin();
		fails_at = row[i].fails_at;
		names_error = row[i].names_error;
		cr_expect_eq(hr_controllers_up(app), -EIO, "%zu", i);
		cr_expect_str_eq(calls_take(), row[i].calls);
		cr_expect_str_eq(app->error.text, row[i].says);
		cr_expect_eq(app->error.kind,
			     row[i].names_error ? HR_ERROR_MISSING : HR_ERROR_DEVICE);
	}
}

#define CAUSE(d) "f:2" d ": ssd 's" d "' cannot be brought up: no controller"

Test(stage_devices, the_others_go_on_without_an_ssd_that_fails, .fini = end)
{
	begin();
	app->keep_going = true;
	fails_at = 7; /* ssd 1, whose controller works */
	cr_expect_eq(hr_controllers_up(app), 0);
	cr_expect_str_eq(calls_take(),
			 DEVICES UP("0") "up1 refuse1(-5 " CAUSE("1") ") -1 " UP("2"));
	cr_expect_str_eq(fake_log_last_of(HR_LOG_ERROR), CAUSE("1"));
	begin();
	app->keep_going = true;
	fails_at = 7;
	app->ssd[1].health.state = HR_HEALTH_LOST;
	cr_expect_eq(hr_controllers_up(app), 0);
	cr_expect_str_eq(calls_take(),
			 DEVICES UP("0") "up1 refuse0(-5 " CAUSE("1") ") -0 refuse1(-5 " CAUSE(
				 "1") ") -1 " UP("2"),
			 "the other ssd of the controller goes with it");
	begin();
	app->keep_going = true;
	fails_at = 10;
	refused = 3; /* no pipeline is left without it */
	cr_expect_eq(hr_controllers_up(app), -EIO);
	cr_expect_str_eq(calls_take(), DEVICES UP("0") UP("1") "up2 refuse2(-5 " CAUSE("2") ") ");
}

/* A signal is no failure of the ssd, and no name is put before an error that there is not. */
Test(stage_devices, only_errors_of_an_ssd_get_its_name, .fini = end)
{
	begin();
	cr_expect_eq(hr_stage_name_ssd(app, 1, 0, "fails"), 0);
	cr_expect_str_eq(app->error.text, "");
	cr_expect_eq(hr_stage_name_ssd(app, 1, -EINTR, "fails"), -EINTR);
	cr_expect_str_eq(app->error.text, "");
	cr_expect_eq(hr_stage_name_ssd(app, 1, -ENODEV, "fails"), -ENODEV);
	cr_expect_str_eq(app->error.text, "f:21: ssd 's1' fails: No such device");
}

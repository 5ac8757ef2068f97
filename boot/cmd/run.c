/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "boot/appliance/control/control.h"
#include "boot/appliance/lend/service.h"
#include "boot/appliance/store/service.h"
#include "boot/cmd/cmd.h"
#include "boot/cmd/report/output.h"
#include "boot/cmd/report/reports.h"
#include "config/base/scm.h"
#include "boot/engine/runner/runner.h"
#include "config/base/process.h"
#include "boot/ranks/merge.h"
#include "boot/ranks/plugin.h"
#include "boot/ranks/agree.h"
#include "config/base/clock.h"
#include "config/base/log.h"
#include "config/base/tick.h"
#include "nvme/transport/transport.h"

static const char help[] =
	"usage: headrace run [CONFIG] [--pipeline NAME] [--json] [--map] [--quiet]\n"
	"                    [--log FORM] [--bind]\n"
	"       mpirun -n N headrace run --mpi CONFIG [...]\n\n"
	"Bring up the appliance that CONFIG describes, and run its pipelines one after another to\n"
	"completion. Without CONFIG the built-in configuration runs, which needs no hardware.\n"
	"Progress is shown on stderr when stderr is a terminal. Results go to stdout, with the\n"
	"choice made for gpu device \"auto\" and its reason.\n\n"
	"  --pipeline NAME\n"
	"                 run only this pipeline; ssds and gpus that it does not use are left alone\n"
	"  --json         print one JSON object instead of the table; `gpus` has the backend of\n"
	"                 each gpu, and a note when it was chosen or differs from the request\n"
	"  --map          before the run, also print the partition map of `headrace check`, with\n"
	"                 the addresses of each part for workers, CPU and ssds\n"
	"  -q, --quiet    no progress line\n" HR_LOG_HELP HR_BIND_HELP
	"  --mpi          this process is one of N ranks that mpirun or srun has started; each runs\n"
	"                 a part of the tiles of pipelines with shard, or the rows that its ssds\n"
	"                 have, and rank 0 prints\n"
	"                 the result of all, which has the same bytes as that of one process\n\n"
	"After Ctrl-C (or SIGTERM) no new command is started, commands in flight end, the output\n"
	"is made durable, and its size is printed; the exit code is then 1. The next run of the\n"
	"same pipeline over the same objects continues from there. `checkpoint` in the\n"
	"configuration sets how often progress is made durable during a run. A second Ctrl-C ends\n"
	"the process at once.\n" HR_EXIT_HELP;

struct request {
	const char *file, *pipeline;
	bool json, map, quiet, mpi;
};

/* The job of this process, with --mpi. */
static struct hr_job job;
static struct hr_config_rank rank;
static struct hr_merged merged;

static int report_run(const struct hr_engine *engine, const struct request *request, int code)
{
	struct hr_json out;

	if (request->mpi && rank.rank)
		return code;
	if (!request->json) {
		hr_report_runs(engine, HR_REPORT_ALL, stdout);
		return code;
	}
	hr_report_begin(&out, "run");
	hr_report_runs_json(engine, &out);
	if (request->mpi)
		hr_json_u64(&out, "ranks", job.ranks.size);
	if (request->map)
		hr_report_map_json(engine, &out);
	hr_json_i64(&out, "exit_code", code);
	return hr_report_end(&out, code, code ? code : HR_EXIT_FAILED);
}

/* The map is printed before the last stage, because nothing may be allocated after that stage. */
static int bring_up(struct hr_engine *engine, const struct request *request)
{
	if (request->map && !request->json) {
		const int err = hr_engine_up(engine, HR_STAGE_MEMORY);

		if (err)
			return err;
		hr_report_map(engine, stdout);
		printf("\n");
		fflush(stdout);
	}
	return hr_engine_up(engine, HR_STAGE_QUEUES);
}

/* The ranks start together: after each of them is up, or not at all. The queues seal the process. */
static int bring_up_ranks(struct hr_engine *engine, const struct request *request)
{
	int err = hr_engine_up(engine, HR_STAGE_PARTITION);

	err = hr_job_agree(&job, err, &engine->error);
	if (!err)
		err = hr_ranks_same(&job, engine, &engine->error);
	if (!err)
		err = hr_ranks_sinks(&job, engine, &engine->error);
	if (err)
		return err;
	err = bring_up(engine, request);
	hr_unseal();
	err = hr_job_agree(&job, err, &engine->error);
	if (!err)
		hr_seal();
	return err;
}

/* Clients of the control socket that the service serves: from the periodic function to the
 * rounds. */
static int to_service[2] = { -1, -1 };
static struct hr_store_service service;
static struct hr_lend_service lend;
static struct hr_tap_sockets sockets;

static int pass(void *to, const struct hr_request *request, int fd, struct hr_error *e)
{
	const int err = service.engine
				? hr_scm_send(to_service[0], request, sizeof *request, &fd, 1)
				: -ENOTCONN;

	return err ? hr_fail(e, HR_ERROR_FAILED, err, "busy: the pipelines do not run now") : 0;
}

static void step_run_services(void *to)
{
	if (service.engine && job.ranks.ops && hr_job_stops(&job))
		hr_signals_stop();
	hr_store_service_step(&service);
	hr_lend_service_step(&lend);
}

static void open_service(struct hr_engine *engine)
{
	struct hr_error e = { 0 };
	int err = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, to_service);

	if (err)
		err = hr_fail(&e, HR_ERROR_MISSING, -errno, "store requests: socketpair: %s",
			      strerror(errno));
	if (!err)
		err = hr_store_service_open(&service, engine, to_service[1], &e);
	if (err)
		hr_error_log(&e, HR_LOG_WARN);
	engine->serve = step_run_services;
}

/* The sockets of taps and feeds. */
static int open_sockets(struct hr_engine *engine, struct hr_error *e)
{
	bool selected[HR_PIPELINES_MAX] = { false };
	int err;

	for (uint32_t i = 0; i < engine->config.pipelines; i++)
		selected[i] = engine->run[i].selected;
	err = hr_tap_sockets_open(&sockets, &engine->config, selected, e);
	if (err)
		return err;
	err = hr_lend_service_open(&lend, engine, &sockets, false, e);
	if (err)
		hr_tap_sockets_close(&sockets);
	return err;
}

/* While this rank waits for others. */
static void idle(void *to)
{
	hr_tick();
	if (hr_signals_pending())
		hr_job_stop(&job);
}

/* Run all pipelines. With --mpi a failure ends the other ranks, and rank 0 gets the results of all. */
static int run_all(struct hr_engine *engine, const struct request *request)
{
	struct hr_error e = { 0 }, merging = { 0 };
	int err = hr_run_all(engine, !request->quiet && !rank.rank, &e), code, failed;

	code = hr_error_report(&e, err);
	hr_store_service_close(&service);
	hr_lend_service_close(&lend);
	hr_tap_sockets_close(&sockets);
	hr_unseal();
	if (!request->mpi)
		return code;
	if (err)
		hr_job_stop(&job);
	failed = hr_ranks_merge(&job, engine, &merged, &merging);
	failed = hr_error_report(&merging, failed);
	return failed > code ? failed : code;
}

static struct hr_engine *load_pipelines(const struct request *request, int *code)
{
	struct hr_engine *engine = hr_load(request->file, request->pipeline, code);
	struct hr_error e = { 0 };

	if (!engine)
		return NULL;
	*code = HR_EXIT_DONE;
	if (engine->config.pipelines == 0)
		hr_fail(&e, HR_ERROR_USAGE, -EINVAL, "%s: there are no pipelines to run",
			engine->config.file);
	else if (request->mpi)
		hr_ranks_check(engine, &e);
	if (e.kind) {
		*code = hr_error_report(&e, -EINVAL);
		free(engine);
		return NULL;
	}
	if (request->mpi)
		hr_ranks_divide(engine, &job.ranks);
	return engine;
}

/* The configuration usually is the same file on all ranks, so rank 0 reads it first: its mistakes are
 * printed once. */
static struct hr_engine *load_ranks(const struct request *request, int *code)
{
	struct hr_engine *engine = NULL;

	*code = HR_EXIT_DONE;
	if (!rank.rank)
		engine = load_pipelines(request, code);
	*code = hr_job_code(&job, *code);
	if (!*code && rank.rank)
		engine = load_pipelines(request, code);
	*code = hr_job_code(&job, *code);
	if (!*code)
		return engine;
	free(engine);
	return NULL;
}

static int run_served(struct hr_engine *engine, const struct request *request,
		      struct hr_control *control)
{
	static struct hr_status status; /* one per process */
	int code, err;

	hr_signals_catch();
	hr_signals_announce();
	hr_status_open(&status, engine);
	hr_control_open(control, &status, NULL, pass, NULL);
	status.phase = HR_PHASE_RUNNING;
	status.engine_pid = getpid();
	hr_tick_set(hr_control_tick, control);
	open_service(engine);
	status.service = &service;
	status.lend = &lend;
	err = request->mpi ? bring_up_ranks(engine, request) : bring_up(engine, request);
	if (!err)
		err = open_sockets(engine, &engine->error);
	code = hr_error_report(&engine->error, err);
	if (!err)
		code = report_run(engine, request, run_all(engine, request));
	hr_engine_down(engine);
	hr_tick_set(NULL, NULL);
	hr_control_close(control);
	return code;
}

static int run_with_control(struct hr_engine *engine, const struct request *request)
{
	struct hr_control *control = calloc(1, sizeof *control); /* too large for a stack */
	int code = HR_EXIT_MISSING;

	if (control)
		code = run_served(engine, request, control);
	else
		hr_error("out of memory for the control socket");
	free(control);
	return code;
}

static int run_alone(const struct request *request)
{
	int code;
	struct hr_engine *engine = load_pipelines(request, &code);

	if (engine)
		code = run_with_control(engine, request);
	free(engine);
	return code;
}

/* One rank of a job. */
static int run_ranks(struct request *request)
{
	struct hr_engine *engine;
	struct hr_error e = { 0 };
	int code, err;

	if (!request->file || strcmp(request->file, "-") == 0) {
		hr_error("--mpi: name a file with the configuration, which each rank reads");
		return HR_EXIT_USAGE;
	}
	err = hr_ranks_load(&job.ranks, &e);
	if (err)
		return hr_error_report(&e, err);
	rank = (struct hr_config_rank){ job.ranks.rank, job.ranks.local_rank };
	job.ranks.idle = idle;
	request->map &= !rank.rank;
	if (rank.rank)
		hr_report_begun(); /* rank 0 prints the only document */
	hr_log_set_rank(rank.rank);
	hr_load_set_rank(&rank);
	engine = load_ranks(request, &code);
	if (engine)
		code = run_with_control(engine, request);
	hr_merged_free(&merged);
	free(engine);
	return hr_job_close(&job, code);
}

static int cmd_run(int argc, char **argv)
{
	struct request request = { 0 };
	const char *log = NULL;
	const struct hr_option options[] = { { "pipeline", .text = &request.pipeline },
					     { "bind", .call = hr_transport_allow_bind },
					     { "json", .flag = &request.json },
					     { "map", .flag = &request.map },
					     { "quiet", .flag = &request.quiet },
					     { "mpi", .flag = &request.mpi },
					     { "log", .text = &log },
					     { NULL } };
	int code = hr_options_parse(argc, argv, options, "one configuration", &request.file);

	if (!code)
		code = hr_option_log("run", log);
	if (code)
		return code;
	return request.mpi ? run_ranks(&request) : run_alone(&request);
}

const struct hr_command hr_cmd_run = {
	.name = "run",
	.summary = "run the pipelines of a configuration to completion",
	.help = help,
	.fn = cmd_run,
};

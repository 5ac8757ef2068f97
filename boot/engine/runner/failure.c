/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/engine/runner/conclude.h"

#include <errno.h>
#include <stdio.h>

#include "config/base/clock.h"
#include "config/base/log.h"
#include "config/derived.h"
#include "nvme/queue/status.h"

/* The failure of the lowest tile, and its gpu. */
static const struct hr_failure *find_first(const struct hr_run *run, uint32_t *member)
{
	const uint32_t statuses = hr_run_statuses(run);
	const struct hr_failure *first = NULL;
	uint32_t number;

	for (uint32_t i = 0; i < statuses; i++) {
		const struct hr_worker_status *status = hr_run_status(run, i);

		if (!hr_acquire_sys_u32(&status->failed) ||
		    (first && status->failure.tile >= first->tile))
			continue;
		first = &status->failure;
		*member = hr_run_status_gpu(run, i, &number);
	}
	return first;
}

const struct hr_failure *hr_failure_first(const struct hr_run *run)
{
	uint32_t member;

	return find_first(run, &member);
}

bool hr_failure_keep(struct hr_run *run)
{
	const struct hr_failure *first = find_first(run, &run->failure_gpu);

	if (first)
		run->failure = *first;
	return first != NULL;
}

const struct hr_config_object *hr_failure_object(const struct hr_run *run,
						 const struct hr_failure *failure)
{
	const uint32_t objects = run->config->objects;

	if (objects)
		return &run->config->object[failure->source < objects ? failure->source : 0];
	if (failure->role != HR_ROLE_PREFETCH && run->config->has_sink)
		return &run->config->sink;
	return &run->config->source[failure->source < run->config->sources ? failure->source : 0];
}

/* The queue pair of the failed worker, or NULL. */
static const struct hr_nvme_qp *failed_queue(const struct hr_run *run)
{
	const struct hr_run_gpu *gpu = &run->gpu[run->failure_gpu];
	const uint16_t qid = run->failure.qid;
	const uint32_t ssd = hr_failure_object(run, &run->failure)->ssd;
	const uint32_t reads = hr_run_workers(run, HR_ROLE_PREFETCH) * run->ssds;

	for (uint32_t i = 0; run->failure.role == HR_ROLE_PREFETCH && i < reads; i++)
		if (run->cpu.read_qp[i].id == qid && run->ssd[i % run->ssds] == ssd)
			return &run->cpu.read_qp[i];
	for (uint32_t i = 0; gpu->access && i < hr_run_workers(run, HR_ROLE_IO) * run->ssds; i++)
		if (gpu->cpu.qp[i].id == qid && run->ssd[i % run->ssds] == ssd)
			return &gpu->cpu.qp[i];
	for (uint32_t i = 0; run->config->has_sink && i < hr_run_workers(run, HR_ROLE_WRITEBACK);
	     i++)
		if (run->cpu.write_qp[i].id == qid)
			return &run->cpu.write_qp[i];
	return NULL;
}

/* The cause of a failure: the name of the error, or the bad CQE of the controller. */
static const char *cause(const struct hr_run *run, char *text, unsigned bytes)
{
	const struct hr_nvme_qp *qp = run->failure.error == -EPROTO ? failed_queue(run) : NULL;

	return qp ? hr_qp_error_text(qp, text, bytes)
		  : hr_error_name(run->failure.error, text, bytes);
}

/* "pipeline 'p'", with the gpu of the failure when there are several. */
static void name_part(const struct hr_engine *engine, const struct hr_run *run, char *text,
		      size_t bytes)
{
	const uint32_t g = hr_config_gpu(run->config, run->failure_gpu);

	if (hr_run_gpus(run) > 1)
		snprintf(text, bytes, "pipeline '%s' on gpu '%s'", run->config->name,
			 engine->config.gpu[g].name);
	else
		snprintf(text, bytes, "pipeline '%s'", run->config->name);
}

/* The operator is the cause, not an ssd. */
static int explain_operator(const struct hr_run *run, const char *name,
			    const struct hr_config_object *object, struct hr_error *e)
{
	const struct hr_page_cache *cache = &run->gpu[run->failure_gpu].cpu.cache;
	const struct hr_failure *f = &run->failure;
	const bool tap = hr_config_has_tap(run->config);
	char text[96];

	if (f->role == HR_ROLE_COMPUTE)
		return hr_error_add(e, HR_ERROR_FAILED, f->error,
				    "%s: operator %s made %u bytes of tile %llu for %s '%s', "
				    "expected %u",
				    name, run->config->op->name, f->out_bytes,
				    (unsigned long long)f->tile, tap ? "tap" : "object",
				    tap ? run->config->tap.name : object->object, f->out_promised);
	if (f->error == -EDEADLK && f->role == HR_ROLE_ACCESS)
		return hr_error_add(
			e, HR_ERROR_FAILED, f->error,
			"%s: operator %s: a worker has ended while others wait for it in "
			"hr_workers_sync(), which all workers call equally often",
			name, run->config->op->name);
	if (f->error == -EDEADLK)
		return hr_error_add(
			e, HR_ERROR_FAILED, f->error,
			"%s: object '%s', page %llu: no frame was free for %llu ms: "
			"operator %s keeps more pages at a time than its %llu frames can hold; use "
			"more frames, or fewer compute blocks",
			name, object->object, (unsigned long long)f->tile,
			(unsigned long long)(cache->timeout_ns / HR_NS_PER_MS),
			run->config->op->name, (unsigned long long)hr_page_frames(&cache->shape));
	if (f->error == -ERANGE && f->tile != HR_NO_TILE)
		return hr_error_add(
			e, HR_ERROR_FAILED, f->error,
			"%s: operator %s accesses element or page %llu of object '%s', "
			"beyond its %llu bytes",
			name, run->config->op->name, (unsigned long long)f->tile, object->object,
			(unsigned long long)run->object[object - run->config->object].bytes);
	if (f->error == -EBADMSG)
		return hr_error_add(e, HR_ERROR_FAILED, f->error,
				    "%s: operator %s cannot accept the value of element "
				    "%llu of object '%s'",
				    name, run->config->op->name, (unsigned long long)f->tile,
				    object->object);
	if (f->error == -EINVAL && f->tile != HR_NO_TILE)
		return hr_error_add(e, HR_ERROR_FAILED, f->error,
				    "%s: operator %s writes object '%s', which its "
				    "description says it only reads",
				    name, run->config->op->name, object->object);
	return hr_error_add(e, HR_ERROR_FAILED, f->error, "%s: operator %s: %s", name,
			    run->config->op->name, hr_error_name(f->error, text, sizeof text));
}

/* Another gpu is the cause. */
static int explain_peer(const struct hr_engine *engine, const struct hr_run *run, const char *name,
			const struct hr_config_object *object, struct hr_error *e)
{
	const struct hr_failure *f = &run->failure;
	const uint32_t peer = f->peer - 1 < hr_run_gpus(run) ? f->peer - 1 : 0;
	const char *gpu = engine->config.gpu[hr_config_gpu(run->config, peer)].name;

	return hr_error_add(e, HR_ERROR_DEVICE, f->error,
			    "%s: object '%s', page %llu: gpu '%s' does not answer (limit %llu ms)",
			    name, object->object, (unsigned long long)f->tile, gpu,
			    (unsigned long long)(run->gpu[0].cpu.cache.timeout_ns / HR_NS_PER_MS));
}

int hr_failure_explain(const struct hr_engine *engine, const struct hr_run *run, struct hr_error *e)
{
	const struct hr_failure *f = &run->failure;
	const struct hr_config_object *object = hr_failure_object(run, f);
	const struct hr_config_ssd *ssd = &engine->config.ssd[object->ssd];
	const char *unit = run->config->objects ? "page" : "tile";
	char text[96], name[3 * HR_NAME_MAX];

	name_part(engine, run, name, sizeof name);
	if (f->role == HR_ROLE_COMPUTE || f->role == HR_ROLE_ACCESS || f->error == -EDEADLK)
		return explain_operator(run, name, object, e);
	if (f->peer)
		return explain_peer(engine, run, name, object, e);
	if (f->tile == HR_NO_TILE && f->opcode == nvme_cmd_flush && f->error == -ETIMEDOUT)
		return hr_error_add(e, HR_ERROR_DEVICE, f->error,
				    "%s: ssd '%s' queue %u lost command 0x%04x (flush): no "
				    "completion within %llu ms",
				    name, ssd->name, f->qid, f->cid,
				    (unsigned long long)(ssd->timeout_ns / HR_NS_PER_MS));
	if (f->tile == HR_NO_TILE)
		return hr_error_add(e, HR_ERROR_DEVICE, f->error,
				    "%s: object '%s': ssd '%s' queue %u: %s", name, object->object,
				    ssd->name, f->qid, cause(run, text, sizeof text));
	if (f->error == -ETIMEDOUT)
		return hr_error_add(e, HR_ERROR_DEVICE, f->error,
				    "%s: object '%s', %s %llu, LBA %llu: ssd '%s' queue %u lost "
				    "command 0x%04x (%s): no completion within %llu ms",
				    name, object->object, unit, (unsigned long long)f->tile,
				    (unsigned long long)f->lba, ssd->name, f->qid, f->cid,
				    hr_opcode_name(f->opcode, false),
				    (unsigned long long)(ssd->timeout_ns / HR_NS_PER_MS));
	return hr_error_add(e, HR_ERROR_DEVICE, f->error,
			    "%s: object '%s', %s %llu, LBA %llu: ssd '%s' queue %u "
			    "command 0x%04x (%s): %s",
			    name, object->object, unit, (unsigned long long)f->tile,
			    (unsigned long long)f->lba, ssd->name, f->qid, f->cid,
			    hr_opcode_name(f->opcode, false), cause(run, text, sizeof text));
}

void hr_failure_add_loss(const struct hr_engine *engine, struct hr_run *run, uint32_t d, int err,
			 struct hr_error *e)
{
	struct hr_error *cause = &run->cause;
	char text[96];

	hr_fail(e, HR_ERROR_DEVICE, err, "%s: %s", engine->ssd[d].transport.name,
		hr_error_name(err, text, sizeof text));
	hr_error_context(e, "pipeline '%s': ssd '%s' is lost", run->config->name,
			 engine->config.ssd[d].name);
	if (err == -ENOLINK)
		hr_error_append(e, "; check slot, power and 'dmesg', and start the run again when "
				   "'headrace check' finds it");
	if (cause->printed) /* that of a checkpoint */
		hr_error("%s", e->text);
	hr_error_add(cause, HR_ERROR_DEVICE, err, "%s", e->text);
}

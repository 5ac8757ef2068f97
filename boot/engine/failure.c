#include "boot/engine/failure.h"

#include <errno.h>

#include "config/clock.h"
#include "config/log.h"
#include "nvme/status.h"

const struct hr_failure *hr_failure_first(const struct hr_run *run)
{
	const uint32_t statuses = hr_pipe_statuses(run->pipe);
	const struct hr_failure *first = NULL;

	for (uint32_t i = 0; i < statuses; i++) {
		const struct hr_worker_status *status = &run->status[i];

		if (hr_acquire_sys_u32(&status->failed) &&
		    (!first || status->failure.tile < first->tile))
			first = &status->failure;
	}
	return first;
}

const struct hr_config_object *hr_failure_object(const struct hr_run *run,
						 const struct hr_failure *failure)
{
	if (failure->role != HR_ROLE_PREFETCH && run->config->has_sink)
		return &run->config->sink;
	return &run->config->source[failure->source < run->config->sources ? failure->source : 0];
}

/* The queue pair that the failing worker owned, or NULL. */
static const struct hr_nvme_qp *failed_queue(const struct hr_run *run)
{
	const uint16_t qid = run->failure.qid;
	const uint32_t ssd = hr_failure_object(run, &run->failure)->ssd;
	const uint32_t reads = hr_run_workers(run, HR_ROLE_PREFETCH) * run->ssds;

	for (uint32_t i = 0; run->failure.role == HR_ROLE_PREFETCH && i < reads; i++)
		if (run->read_qp[i].id == qid && run->ssd[i % run->ssds] == ssd)
			return &run->read_qp[i];
	for (uint32_t i = 0; i < hr_run_workers(run, HR_ROLE_WRITEBACK); i++)
		if (run->write_qp[i].id == qid)
			return &run->write_qp[i];
	return NULL;
}

/* What ended the pipeline: an error's name, or what a controller that broke the rules has written. */
static const char *cause(const struct hr_run *run, char *text, unsigned bytes)
{
	const struct hr_nvme_qp *qp = run->failure.error == -EPROTO ? failed_queue(run) : NULL;

	return qp ? hr_qp_offence(qp, text, bytes) : hr_error_name(run->failure.error, text, bytes);
}

void hr_failure_log(const struct hr_appliance *app, const struct hr_run *run)
{
	const struct hr_failure *f = &run->failure;
	const struct hr_config_object *object = hr_failure_object(run, f);
	const struct hr_config_ssd *ssd = &app->config.ssd[object->ssd];
	char text[96];

	if (f->role == HR_ROLE_COMPUTE)
		hr_error("pipeline '%s': operator %s made %u bytes of tile %llu for object '%s', "
			 "but has promised %u",
			 run->config->name, run->config->op->name, f->out_bytes,
			 (unsigned long long)f->tile, object->object, f->out_promised);
	else if (f->error == -ETIMEDOUT)
		hr_error("pipeline '%s': object '%s', tile %llu, LBA %llu: ssd '%s' queue %u lost "
			 "command 0x%04x (%s): no completion within %llu ms",
			 run->config->name, object->object, (unsigned long long)f->tile,
			 (unsigned long long)f->lba, ssd->name, f->qid, f->cid,
			 hr_opcode_name(f->opcode, false),
			 (unsigned long long)(ssd->timeout_ns / HR_NS_PER_MS));
	else
		hr_error("pipeline '%s': object '%s', tile %llu, LBA %llu: ssd '%s' queue %u "
			 "command 0x%04x (%s): %s",
			 run->config->name, object->object, (unsigned long long)f->tile,
			 (unsigned long long)f->lba, ssd->name, f->qid, f->cid,
			 hr_opcode_name(f->opcode, false), cause(run, text, sizeof text));
}

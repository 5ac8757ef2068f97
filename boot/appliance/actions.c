#include "boot/appliance/requests.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "config/base/process.h"
#include "config/base/log.h"
#include "nvme/queue/status.h"

static const char *name_of(const struct hr_supervisor *s, uint32_t i)
{
	return s->engine->config.pipeline[i].name;
}

/* The refusals that do not depend on the pipeline. */
static int refuse(const struct hr_supervisor *s, int err, struct hr_error *e)
{
	switch (err) {
	case 0:
		return 0;
	case -ENOTSUP:
		return hr_fail(e, HR_ERROR_FAILED, err,
			       "no pipeline of %s repeats (every, at, after, on, forever): each "
			       "runs once",
			       s->engine->config.file);
	case -EBUSY:
		return hr_fail(e, HR_ERROR_FAILED, err,
			       "busy: no engine has read the earlier starts from the ssds yet");
	case -ESHUTDOWN:
		return hr_fail(e, HR_ERROR_FAILED, err, "the appliance stops");
	case -EALREADY:
		return hr_fail(e, HR_ERROR_FAILED, err,
			       "busy: the configuration is being read already");
	default:
		return hr_fail(e, HR_ERROR_FAILED, err, "%s", strerror(-err));
	}
}

static int trigger(void *to, uint32_t i, uint64_t *start, struct hr_error *e)
{
	struct hr_supervisor *s = to;
	const int err = hr_supervisor_trigger(s, i, start);

	if (err == -EAGAIN)
		return hr_fail(e, HR_ERROR_FAILED, err,
			       "pipeline '%s' is paused; 'headrace resume' permits its starts",
			       name_of(s, i));
	if (err == -EOWNERDEAD)
		return hr_fail(e, HR_ERROR_FAILED, err,
			       "pipeline '%s' is suspended, because the engine ended in its run; "
			       "'headrace resume' permits its starts",
			       name_of(s, i));
	return refuse(s, err, e);
}

/* The record has the text of the newest run only. */
static int explain_failure(const struct hr_supervisor *s, uint32_t i, int err, struct hr_error *e)
{
	const struct hr_record_error *known = &s->status.record.run[i].error;
	char text[96];

	if (known->code == err && known->kind)
		return hr_record_get_error(known, e);
	return hr_fail(e, err > 0 ? HR_ERROR_DEVICE : HR_ERROR_FAILED, err, "%s",
		       hr_error_name(err, text, sizeof text));
}

static bool ended(void *to, uint32_t i, uint64_t start, int *result, struct hr_error *e)
{
	const struct hr_supervisor *s = to;
	int err = 0;

	*result = 0;
	switch (hr_supervisor_trigger_state(s, i, start, &err)) {
	case HR_TRIGGER_QUEUED:
	case HR_TRIGGER_RUNNING:
		return false;
	case HR_TRIGGER_DONE:
		return true;
	case HR_TRIGGER_FAILED:
		*result = explain_failure(s, i, err ? err : -EIO, e);
		hr_error_context(e, "pipeline '%s', start %llu", name_of(s, i),
				 (unsigned long long)start);
		return true;
	case HR_TRIGGER_DROPPED:
		break;
	}
	*result = hr_fail(e, HR_ERROR_FAILED, -ECANCELED,
			  "pipeline '%s', start %llu: cancelled before it began, by a pause, a "
			  "reload or a stop",
			  name_of(s, i), (unsigned long long)start);
	return true;
}

static int pause_it(void *to, uint32_t i, struct hr_error *e)
{
	return refuse(to, hr_supervisor_pause(to, i), e);
}

static int resume_it(void *to, uint32_t i, struct hr_error *e)
{
	return refuse(to, hr_supervisor_resume(to, i), e);
}

static int stop(void *to, struct hr_error *e)
{
	hr_info("a request stops the appliance");
	hr_signals_stop();
	return 0;
}

static int reload(void *to, struct hr_error *e)
{
	return refuse(to, hr_supervisor_reload(to), e);
}

/* Add each line of the reason. */
static void add_lines(struct hr_error *e, int code, const char *lines)
{
	while (*lines) {
		const size_t length = strcspn(lines, "\n");

		hr_error_add(e, HR_ERROR_USAGE, code, "%.*s", (int)length, lines);
		lines += length + (lines[length] == '\n');
	}
}

static bool reloaded(void *to, bool wait, int *result, struct hr_error *e,
		     struct hr_reload_reply *reply)
{
	const struct hr_supervisor *s = to;
	struct hr_error why;

	if (!hr_supervisor_reload_result(s, wait, result, &why, reply))
		return false;
	if (*result == -ECANCELED) {
		*e = why;
	} else if (*result) {
		hr_fail(e, HR_ERROR_USAGE, *result, "%s: nothing has changed: %s",
			s->engine->config.file,
			*result == -EINVAL ? "it has mistakes" : "it cannot be read");
		add_lines(e, *result, why.kind ? why.text : strerror(-*result));
	}
	return true;
}

static int pass(void *to, const struct hr_request *request, int fd, struct hr_error *e)
{
	const struct hr_supervisor *s = to;
	const int err = hr_process_pass(&s->child.process, request, fd);

	switch (err) {
	case 0:
		return 0;
	case -EAGAIN:
		return hr_fail(e, HR_ERROR_FAILED, err,
			       "busy: the engine has not taken the earlier requests yet (%s)",
			       hr_phase_name(s->status.phase));
	case -ENOTCONN:
	case -EPIPE:
		return hr_fail(e, HR_ERROR_FAILED, err, "busy: no engine drives the ssds now (%s)",
			       hr_phase_name(s->status.phase));
	default:
		return hr_fail(e, HR_ERROR_FAILED, err, "the engine cannot be reached: %s",
			       strerror(-err));
	}
}

void hr_actions_init(struct hr_actions *actions, struct hr_supervisor *s)
{
	*actions = (struct hr_actions){ s,    trigger, ended,	 pause_it, resume_it,
					stop, reload,  reloaded, pass };
}

void hr_actions_on_signals(struct hr_supervisor *s)
{
	struct hr_error e = { 0 };

	if (!hr_signals_consume_reload())
		return;
	if (refuse(s, hr_supervisor_reload(s), &e))
		hr_warn("SIGHUP: %s", e.text);
}

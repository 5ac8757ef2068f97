/* Texts of refused requests, by error: of the schedule, of a failure, and of the engine. */
#define hr_process_pass test_pass
#include "boot/appliance/act.c"

#include <criterion/criterion.h>
#include <stdlib.h>

#include "tests/harness/error.h"

static struct hr_supervisor *s;
static struct hr_appliance *app;
static int pass_error;

int test_pass(const struct hr_process *p, const struct hr_request *request, int fd)
{
	cr_expect(p == &s->child.process && request->kind == HR_REQUEST_STORE_GET && fd == 7);
	return pass_error;
}

static void begin(void)
{
	s = calloc(1, sizeof *s);
	app = calloc(1, sizeof *app);
	cr_assert(s && app);
	s->app = app;
	app->config.file = "f";
	s->status.phase = HR_PHASE_BRING_UP;
}

static void end(void)
{
	free(s);
	free(app);
}

TestSuite(act_texts, .init = begin, .fini = end, .timeout = 60);

static void expect_error(int err, int want, enum hr_error_kind kind, const char *text)
{
	cr_expect_eq(err, want, "%d", err);
	cr_expect_eq(test_error_kind(), kind, "%s", test_error_text());
	cr_expect_str_eq(test_error_text(), text, "%s", test_error_text());
}

Test(act_texts, errors_of_the_schedule)
{
	static const struct {
		int err;
		const char *text;
	} row[] = {
		{ -ENOTSUP, "no pipeline of f repeats (every, at, after, on, forever): each runs "
			    "once" },
		{ -EBUSY, "busy: no engine has read the earlier starts from the ssds yet" },
		{ -ESHUTDOWN, "the appliance stops" },
		{ -EALREADY, "busy: the configuration is being read already" },
		{ -ENOMEM, "Cannot allocate memory" },
		{ -EAGAIN, "Resource temporarily unavailable" },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++)
		expect_error(refuse(s, row[i].err, test_error()), row[i].err, HR_ERROR_FAILED,
			     row[i].text);
	hr_error_clear(test_error());
	expect_error(refuse(s, 0, test_error()), 0, HR_ERROR_NONE, "");
}

/* The text of the record, when it is that of this error. */
Test(act_texts, failures_of_a_start)
{
	struct hr_record_error *known = &s->status.record.run[1].error;

	known->code = 0x281;
	known->kind = HR_ERROR_MISSING;
	strcpy(known->text, "of the run");
	expect_error(explain_failure(s, 1, 0x281, test_error()), 0x281, HR_ERROR_MISSING,
		     "of the run");
	hr_error_clear(test_error());
	expect_error(explain_failure(s, 1, -EIO, test_error()), -EIO, HR_ERROR_FAILED,
		     "Input/output error");
	hr_error_clear(test_error());
	expect_error(explain_failure(s, 0, 0x281, test_error()), 0x281, HR_ERROR_DEVICE,
		     "Unrecovered Read Error");
	hr_error_clear(test_error());
	known->kind = HR_ERROR_NONE;
	expect_error(explain_failure(s, 1, 0x281, test_error()), 0x281, HR_ERROR_DEVICE,
		     "Unrecovered Read Error");
}

Test(act_texts, requests_for_the_engine)
{
	static const struct {
		int err;
		const char *text;
	} row[] = {
		{ -EAGAIN, "busy: the engine has not taken the earlier requests yet (bring-up)" },
		{ -ENOTCONN, "busy: no engine drives the ssds now (bring-up)" },
		{ -EPIPE, "busy: no engine drives the ssds now (bring-up)" },
		{ -EMFILE, "the engine cannot be reached: Too many open files" },
	};
	const struct hr_request request = { .kind = HR_REQUEST_STORE_GET };

	cr_expect_eq(pass(s, &request, 7, test_error()), 0);
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		pass_error = row[i].err;
		expect_error(pass(s, &request, 7, test_error()), row[i].err, HR_ERROR_FAILED,
			     row[i].text);
	}
}

#include "boot/cmd/report/json.h"

#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/log.h"

#define SCHEMA_VERSION 1u
#define ERRORS_BYTES 16384u

static char errors[ERRORS_BYTES];
static bool begun;

bool hr_report_wants_json(int argc, char **argv)
{
	bool wants = false;

	/* getopt_long() takes a beginning of the name as well */
	for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
		wants |= strlen(argv[i]) > 2 && strncmp("--json", argv[i], strlen(argv[i])) == 0;
	if (wants)
		hr_log_keep_errors(errors, sizeof errors);
	return wants;
}

void hr_report_begun(void)
{
	begun = true;
}

void hr_report_begin(struct hr_json *report, const char *name)
{
	char schema[64];

	snprintf(schema, sizeof schema, "headrace.%s", name);
	begun = true;
	hr_json_to_file(report, HR_JSON_INDENTED, stdout);
	hr_json_schema(report, schema, SCHEMA_VERSION);
}

int hr_report_end(struct hr_json *report, int code, int unwritten)
{
	const int err = hr_json_done(report);

	if (!err)
		return code;
	hr_error("standard output: cannot write the report: %s", strerror(-err));
	__fpurge(report->out); /* so that the end of the process does not write and fail again */
	clearerr(report->out);
	return unwritten;
}

/* ---- errors */

/* "FILE:LINE: ..." names a file; an address and its port ("10.0.0.2:4791: ...") do not. */
static void place_json(struct hr_json *out, char *message)
{
	char *colon = strchr(message, ':'), *end;
	const size_t length = colon ? (size_t)(colon - message) : 0;
	unsigned long line;

	if (!length || colon[1] < '1' || colon[1] > '9' || strspn(message, "0123456789.") == length)
		return;
	line = strtoul(colon + 1, &end, 10);
	if (strncmp(end, ": ", 2) != 0)
		return;
	*colon = '\0';
	hr_json_string(out, "file", message);
	*colon = ':';
	hr_json_u64(out, "line", line);
}

static void error_json(struct hr_json *out, char *message)
{
	hr_json_string(out, "message", message);
	place_json(out, message);
}

void hr_report_failed(int code)
{
	static char none[] = "the command has not finished";
	char *rest = errors, *message = strsep(&rest, "\n");
	struct hr_json report;

	if (begun)
		return;
	if (!*message)
		message = none;
	hr_report_begin(&report, "error");
	hr_json_i64(&report, "exit_code", code);
	error_json(&report, message);
	hr_json_array(&report, "errors");
	for (; message && *message; message = strsep(&rest, "\n")) {
		hr_json_object(&report, NULL);
		error_json(&report, message);
		hr_json_close(&report);
	}
	hr_json_close(&report);
	hr_report_end(&report, code, code);
}

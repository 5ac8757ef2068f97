#include "boot/cmd/report/json.h"

#include <stdio_ext.h>
#include <string.h>

#include "config/log.h"

void hr_report_begin(struct hr_json *report)
{
	hr_json_to_file(report, HR_JSON_INDENTED, stdout);
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

/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/cmd/report/parts.h"

#include "boot/engine/objects/checksums.h"

/* The data of an access operator are not read as a whole by the run itself. */
static bool is_before(const struct hr_run *run)
{
	return run->config->objects || run->config->verify == HR_VERIFY_BEFORE;
}

void hr_report_verify_plan(const struct hr_run *run, const struct hr_run_verify *verify, FILE *out)
{
	if (verify->wanted)
		fprintf(out, "; compared with its checksum%s",
			is_before(run) ? " before the run" : "");
	else
		fprintf(out, "; not verified: %s",
			hr_source_check_reason(run, run->config->objects ? verify->check
						    : run->config->verify == HR_VERIFY_OFF
							    ? HR_SOURCE_VERIFY_OFF
							    : HR_SOURCE_NO_CHECKSUM));
}

void hr_report_verify(const struct hr_run *run, const struct hr_run_verify *verify, FILE *out)
{
	if (verify->check == HR_SOURCE_VERIFIED)
		fprintf(out, "verified, CRC-32C %08x", verify->found);
	else if (verify->check == HR_SOURCE_WRONG)
		fprintf(out, "WRONG: CRC-32C %08x, expected %08x", verify->found, verify->expected);
	else
		fprintf(out, "not verified: %s", hr_source_check_reason(run, verify->check));
}

void hr_report_crc_json(struct hr_json *out, const char *name, uint32_t crc)
{
	char text[9];

	snprintf(text, sizeof text, "%08x", crc);
	hr_json_string(out, name, text);
}

void hr_report_verify_json(const struct hr_run *run, const struct hr_run_verify *verify,
			   struct hr_json *out)
{
	const char *reason = hr_source_check_reason(run, verify->check);

	hr_json_bool(out, "verified", verify->check == HR_SOURCE_VERIFIED);
	hr_json_string(out, "check", hr_source_check_name(verify->check));
	if (reason) {
		hr_json_string(out, "reason", reason);
		return;
	}
	hr_report_crc_json(out, "crc32c", verify->found);
	hr_report_crc_json(out, "crc32c_expected", verify->expected);
}

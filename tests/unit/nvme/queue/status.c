/* SPDX-License-Identifier: Apache-2.0 */
/* Status classes and names, opcode names. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdint.h>

#include "nvme/queue/status.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))

TestSuite(status, .timeout = 60);

Test(status, each_class_follows_the_specification)
{
	static const struct {
		uint16_t status;
		enum hr_status_class class, with_dnr;
		const char *name;
	} row[] = {
		{ 0x000, HR_STATUS_OK, HR_STATUS_OK, "Successful Completion" },
		{ 0x001, HR_STATUS_NO_RETRY, HR_STATUS_NO_RETRY, "Invalid Command Opcode" },
		{ 0x002, HR_STATUS_NO_RETRY, HR_STATUS_NO_RETRY, "Invalid Field in Command" },
		{ 0x004, HR_STATUS_RETRY, HR_STATUS_NO_RETRY, "Data Transfer Error" },
		{ 0x006, HR_STATUS_RETRY, HR_STATUS_NO_RETRY, "Internal Error" },
		{ 0x007, HR_STATUS_RETRY, HR_STATUS_NO_RETRY, "Command Abort Requested" },
		{ 0x008, HR_STATUS_RETRY, HR_STATUS_NO_RETRY,
		  "Command Aborted due to SQ Deletion" },
		{ 0x013, HR_STATUS_NO_RETRY, HR_STATUS_NO_RETRY, "PRP Offset Invalid" },
		{ 0x01c, HR_STATUS_FATAL, HR_STATUS_FATAL, "Sanitize Failed" },
		{ 0x020, HR_STATUS_NO_RETRY, HR_STATUS_NO_RETRY, "Namespace is Write Protected" },
		{ 0x021, HR_STATUS_RETRY, HR_STATUS_NO_RETRY, "Command Interrupted" },
		{ 0x022, HR_STATUS_RETRY, HR_STATUS_NO_RETRY, "Transient Transport Error" },
		{ 0x080, HR_STATUS_NO_RETRY, HR_STATUS_NO_RETRY, "LBA Out of Range" },
		{ 0x082, HR_STATUS_RETRY, HR_STATUS_NO_RETRY, "Namespace Not Ready" },
		{ 0x085, HR_STATUS_NO_RETRY, HR_STATUS_NO_RETRY, "Unknown Status" },
		{ 0x101, HR_STATUS_NO_RETRY, HR_STATUS_NO_RETRY, "Invalid Queue Identifier" },
		{ 0x103, HR_STATUS_RETRY, HR_STATUS_NO_RETRY, "Abort Command Limit Exceeded" },
		{ 0x182, HR_STATUS_NO_RETRY, HR_STATUS_NO_RETRY,
		  "Attempted Write to Read Only Range" },
		{ 0x280, HR_STATUS_MEDIA, HR_STATUS_MEDIA, "Write Fault" },
		{ 0x281, HR_STATUS_MEDIA, HR_STATUS_MEDIA, "Unrecovered Read Error" },
		{ 0x285, HR_STATUS_NO_RETRY, HR_STATUS_NO_RETRY, "Compare Failure" },
		{ 0x287, HR_STATUS_NO_RETRY, HR_STATUS_NO_RETRY,
		  "Deallocated or Unwritten Logical Block" },
		{ 0x2ff, HR_STATUS_MEDIA, HR_STATUS_MEDIA, "Unknown Status" },
		{ 0x300, HR_STATUS_RETRY, HR_STATUS_NO_RETRY, "Internal Path Error" },
		{ 0x301, HR_STATUS_FATAL, HR_STATUS_FATAL, "Asymmetric Access Persistent Loss" },
		{ 0x371, HR_STATUS_RETRY, HR_STATUS_NO_RETRY, "Command Aborted By Host" },
		{ 0x400, HR_STATUS_NO_RETRY, HR_STATUS_NO_RETRY, "Unknown Status" },
		{ 0x7c0, HR_STATUS_NO_RETRY, HR_STATUS_NO_RETRY, "Vendor Specific Status" },
	};
	char text[80];

	for (size_t i = 0; i < ROWS(row); i++) {
		cr_expect_eq(hr_status_classify(row[i].status, false), row[i].class, "%03x",
			     row[i].status);
		cr_expect_eq(hr_status_classify(row[i].status, true), row[i].with_dnr, "%03x",
			     row[i].status);
		cr_expect_str_eq(hr_status_name(row[i].status, text, sizeof(text)), row[i].name,
				 "%03x: %s", row[i].status, text);
	}
}

/* Every 16-bit value of a controller has a class and a name that ends inside the buffer. */
Test(status, every_value_has_a_class_and_a_name)
{
	for (uint32_t status = 0; status <= UINT16_MAX; status++) {
		char text[12] = "???????????";

		cr_assert_leq(hr_status_classify((uint16_t)status, false), HR_STATUS_FATAL);
		cr_assert_eq(hr_status_classify((uint16_t)status, false) == HR_STATUS_OK,
			     status == 0, "%04x", status);
		cr_assert_neq(hr_status_classify((uint16_t)status, true), HR_STATUS_RETRY, "%04x",
			      status);
		hr_status_name((uint16_t)status, text, sizeof(text));
		cr_assert(text[0] && !text[11], "%04x", status);
	}
}

/* The base and the NVM command set: all statuses of which a repetition may be of use, and how many. */
Test(status, repetitions_follow_the_class)
{
	static const uint16_t transient[] = { 0x004, 0x005, 0x006, 0x007, 0x008, 0x01b, 0x01d,
					      0x021, 0x022, 0x024, 0x082, 0x084, 0x103, 0x105,
					      0x11d, 0x300, 0x303, 0x360, 0x370, 0x371 };

	for (uint16_t status = 0, at = 0; status < 0x800; status++) {
		const bool again = at < ROWS(transient) && transient[at] == status;
		const bool not_ready = status == 0x01d || status == 0x021 || status == 0x024 ||
				       status == 0x082 || status == 0x084 || status == 0x11d ||
				       status == 0x303;
		const bool media =
			status >> 8 == 2 && status != 0x285 && status != 0x286 && status != 0x287;
		const enum hr_status_class class =
			again				     ? HR_STATUS_RETRY
			: media				     ? HR_STATUS_MEDIA
			: status == 0			     ? HR_STATUS_OK
			: status == 0x019 || status == 0x01c ? HR_STATUS_FATAL
			: status == 0x301 || status == 0x302 ? HR_STATUS_FATAL
							     : HR_STATUS_NO_RETRY;

		at += again;
		cr_expect_eq(hr_status_is_transient(status), again, "%03x", status);
		cr_expect_eq(hr_status_is_media(status), media, "%03x", status);
		cr_expect_eq(hr_status_classify(status, false), class, "%03x", status);
		cr_expect_eq(hr_status_classify(status, true), again ? HR_STATUS_NO_RETRY : class,
			     "%03x", status);
		cr_expect_eq(hr_status_retries(status, false),
			     not_ready ? UINT32_MAX
			     : again   ? 8u
			     : media   ? 3u
				       : 0,
			     "%03x", status);
		cr_expect_eq(hr_status_flush_retries(status, false),
			     not_ready ? UINT32_MAX
			     : again   ? 8u
				       : 0,
			     "%03x", status);
		cr_expect_eq(hr_status_is_not_ready(status), not_ready, "%03x", status);
		cr_expect_eq(hr_status_retries(status, true), 0u, "%03x", status);
		cr_expect_eq(hr_status_flush_retries(status, true), 0u, "%03x", status);
	}
}

Test(status, errors_of_both_kinds_have_names)
{
	static const struct {
		int error;
		const char *name;
	} row[] = {
		{ 0, "Success" },
		{ -ENODEV, "No such device" },
		{ -ENOMEM, "Cannot allocate memory" },
		{ -99999, "Unknown error" },
		{ 0x281, "Unrecovered Read Error" },
		{ 0x083, "Reservation Conflict: another host holds the reservation of the "
			 "namespace" },
		{ 0x183, "Command Size Limit Exceeded" },
		/* these errors have a meaning of their own here */
		{ -ESTALE, "changed by another writer" },
		{ -ENOLINK, "the device is gone, or its function was reset" },
		{ -ECONNRESET, "the controller was reset" },
		{ ESTALE, "Unknown Status" },
	};
	char text[80];

	for (size_t i = 0; i < ROWS(row); i++) {
		cr_expect_eq(hr_error_name(row[i].error, text, sizeof(text)), text);
		cr_expect_str_eq(text, row[i].name, "%d: %s", row[i].error, text);
	}
	cr_expect_str_eq(hr_error_name(-ENODEV, text, 8), "No such");
}

Test(status, opcodes_have_names_in_their_set)
{
	static const struct {
		uint8_t opcode;
		const char *admin, *io;
	} row[] = {
		{ 0x00, "delete I/O SQ", "flush" },
		{ 0x01, "create I/O SQ", "write" },
		{ 0x02, "get log page", "read" },
		{ 0x03, NULL, NULL },
		{ 0x04, "delete I/O CQ", "write uncorrectable" },
		{ 0x05, "create I/O CQ", "compare" },
		{ 0x06, "identify", NULL },
		{ 0x08, "abort", "write zeroes" },
		{ 0x09, "set features", "dataset management" },
		{ 0x0a, "get features", NULL },
		{ 0x0c, "asynchronous event request", "verify" },
		{ 0x0d, NULL, "reservation register" },
		{ 0x0e, NULL, "reservation report" },
		{ 0x11, NULL, "reservation acquire" },
		{ 0x15, NULL, "reservation release" },
		{ 0x19, NULL, "copy" },
		{ 0x7c, "doorbell buffer config", NULL },
		{ 0x80, "format NVM", NULL },
		{ 0xc0, NULL, NULL },
		{ 0xff, NULL, NULL },
	};
	static const char unknown[] = "unknown command";

	for (size_t i = 0; i < ROWS(row); i++) {
		cr_expect_str_eq(hr_opcode_name(row[i].opcode, true),
				 row[i].admin ? row[i].admin : unknown, "%02x", row[i].opcode);
		cr_expect_str_eq(hr_opcode_name(row[i].opcode, false),
				 row[i].io ? row[i].io : unknown, "%02x", row[i].opcode);
	}
}

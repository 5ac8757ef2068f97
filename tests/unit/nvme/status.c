/* Status classes and names, opcode names. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdint.h>

#include "nvme/status.h"

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

Test(status, errors_of_both_kinds_have_names)
{
	char text[80];

	cr_expect_str_eq(hr_error_name(0x281, text, sizeof(text)), "Unrecovered Read Error");
	cr_expect_str_eq(hr_error_name(-ENODEV, text, sizeof(text)), "No such device");
	cr_expect_str_eq(hr_error_name(0, text, sizeof(text)), "Success");
	cr_expect_str_eq(hr_error_name(-99999, text, sizeof(text)), "Unknown error");
}

Test(status, opcodes_have_names_in_their_set)
{
	cr_expect_str_eq(hr_opcode_name(0x02, false), "read");
	cr_expect_str_eq(hr_opcode_name(0x02, true), "get log page");
	cr_expect_str_eq(hr_opcode_name(0x00, false), "flush");
	cr_expect_str_eq(hr_opcode_name(0x00, true), "delete I/O SQ");
	cr_expect_str_eq(hr_opcode_name(0xc0, false), "unknown command");
	cr_expect_str_eq(hr_opcode_name(0xc0, true), "unknown command");
}

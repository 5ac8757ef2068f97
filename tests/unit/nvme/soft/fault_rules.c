/* Rules of a fault script: what each becomes, what each mistake is called, which commands match. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nvme/soft/internal.h"
#include "tests/harness/error.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))
#define ANY (FAULT_ON_READ | FAULT_ON_WRITE | FAULT_ON_FLUSH | FAULT_ON_OTHER)
#define MS 1000000ull

static struct soft *soft;
static char script[] = "/tmp/headrace-rules-XXXXXX";

static void begin(void)
{
	const int fd = mkstemp(script);

	cr_assert_geq(fd, 0);
	close(fd);
	soft = aligned_alloc(SOFT_LINE, (sizeof *soft + SOFT_LINE - 1) / SOFT_LINE * SOFT_LINE);
	cr_assert_not_null(soft);
	memset(soft, 0, sizeof *soft);
}

static void end(void)
{
	unlink(script);
	free(soft);
}

TestSuite(fault_rules, .init = begin, .fini = end, .timeout = 60);

static int parse(const char *text)
{
	FILE *file = fopen(script, "w");

	cr_assert_not_null(file);
	cr_assert_geq(fputs(text, file), 0);
	cr_assert_eq(fclose(file), 0);
	soft->faults = 0;
	return soft_faults_read(soft, script, test_error());
}

/* The fields that a row does not set are 0, but for `last`. */
static const struct {
	const char *text;
	struct soft_fault want;
} rule[] = {
	{ "on read: drop", { .kind = FAULT_DROP, .on = FAULT_ON_READ } },
	{ "on write:drop", { .kind = FAULT_DROP, .on = FAULT_ON_WRITE } },
	{ "on flush :drop # a comment: more", { .kind = FAULT_DROP, .on = FAULT_ON_FLUSH } },
	{ "\ton  admin\t:  drop\r", { .kind = FAULT_DROP, .on = FAULT_ON_ADMIN } },
	{ "on any: drop", { .kind = FAULT_DROP, .on = ANY } },
	{ "on any opcode 0: drop", { .kind = FAULT_DROP, .on = ANY, .opcode = 0, .seed = 1 } },
	{ "on any opcode 0xff: drop", { .kind = FAULT_DROP, .on = ANY, .opcode = 0xff } },
	{ "on any opcode 255: drop", { .kind = FAULT_DROP, .on = ANY, .opcode = 0xff } },
	{ "on read lba 7: drop",
	  { .kind = FAULT_DROP, .on = FAULT_ON_READ, .first = 7, .last = 7 } },
	{ "on read lba 7-7: drop",
	  { .kind = FAULT_DROP, .on = FAULT_ON_READ, .first = 7, .last = 7 } },
	{ "on read lba 0x10-18446744073709551615: drop",
	  { .kind = FAULT_DROP, .on = FAULT_ON_READ, .first = 16, .last = UINT64_MAX } },
	{ "on read nth 0x12 count 3: drop",
	  { .kind = FAULT_DROP, .on = FAULT_ON_READ, .nth = 18, .times = 3 } },
	{ "on read count 18446744073709551615: drop",
	  { .kind = FAULT_DROP, .on = FAULT_ON_READ, .times = UINT64_MAX } },
	{ "on read: status 1", { .kind = FAULT_STATUS, .on = FAULT_ON_READ, .status = 1 } },
	{ "on read: status 0x7ff dnr",
	  { .kind = FAULT_STATUS, .on = FAULT_ON_READ, .status = 0x7ff, .dnr = true } },
	{ "on read: status 0x281 crd 3",
	  { .kind = FAULT_STATUS, .on = FAULT_ON_READ, .status = 0x281, .crd = 3 } },
	{ "on read: status 0x281 crd 1 dnr",
	  { .kind = FAULT_STATUS, .on = FAULT_ON_READ, .status = 0x281, .crd = 1, .dnr = true } },
	{ "on read: delay 1us", { .kind = FAULT_DELAY, .on = FAULT_ON_READ, .delay_ns = 1000 } },
	{ "on read: delay 5ms", { .kind = FAULT_DELAY, .on = FAULT_ON_READ, .delay_ns = 5 * MS } },
	{ "on read: delay 3600s",
	  { .kind = FAULT_DELAY, .on = FAULT_ON_READ, .delay_ns = 3600 * 1000 * MS } },
	{ "on read: duplicate", { .kind = FAULT_DUPLICATE, .on = FAULT_ON_READ } },
	{ "on read: reorder", { .kind = FAULT_REORDER, .on = FAULT_ON_READ } },
	{ "on read: wrong-cid 0xffff",
	  { .kind = FAULT_CID, .on = FAULT_ON_READ, .value = 0xffff } },
	{ "on read: bad-sqhd 0", { .kind = FAULT_SQHD, .on = FAULT_ON_READ, .value = 0 } },
	{ "on read: bad-sqhd 65535", { .kind = FAULT_SQHD, .on = FAULT_ON_READ, .value = 0xffff } },
	{ "on read: warn 0x1f", { .kind = FAULT_WARN, .on = FAULT_ON_READ, .value = 0x1f } },
	{ "on read: protect", { .kind = FAULT_PROTECT, .on = FAULT_ON_READ } },
	{ "on read: cfs", { .kind = FAULT_CFS, .on = FAULT_ON_READ } },
	{ "on read: remove", { .kind = FAULT_REMOVE, .on = FAULT_ON_READ } },
	{ "on read: powercut drop",
	  { .kind = FAULT_CUT, .on = FAULT_ON_READ, .policy = HR_SOFT_CUT_DROP } },
	{ "on read: powercut some",
	  { .kind = FAULT_CUT, .on = FAULT_ON_READ, .policy = HR_SOFT_CUT_SOME } },
	{ "on read: powercut torn seed 18446744073709551615",
	  { .kind = FAULT_CUT,
	    .on = FAULT_ON_READ,
	    .policy = HR_SOFT_CUT_TORN,
	    .seed = UINT64_MAX } },
};

Test(fault_rules, each_word_sets_its_field)
{
	for (size_t i = 0; i < ROWS(rule); i++) {
		const struct soft_fault *got = &soft->fault[0], *want = &rule[i].want;
		const bool opcode = strstr(rule[i].text, "opcode"),
			   lba = strstr(rule[i].text, "lba");

		cr_assert_eq(parse(rule[i].text), 0, "%s: %s", rule[i].text, test_error_text());
		cr_expect_eq(soft->faults, 1, "%s", rule[i].text);
		cr_expect_eq(got->kind, want->kind, "%s", rule[i].text);
		cr_expect_eq(got->on, want->on, "%s", rule[i].text);
		cr_expect_eq(got->opcode, opcode ? want->opcode : SOFT_ANY_OPCODE, "%s",
			     rule[i].text);
		cr_expect_eq(got->first, want->first, "%s", rule[i].text);
		cr_expect_eq(got->last, lba ? want->last : UINT64_MAX, "%s", rule[i].text);
		cr_expect_eq(got->nth, want->nth ? want->nth : 1, "%s", rule[i].text);
		cr_expect_eq(got->times, want->times ? want->times : 1, "%s", rule[i].text);
		cr_expect_eq(got->seen, 0, "%s", rule[i].text);
		cr_expect_eq(got->delay_ns, want->delay_ns, "%s", rule[i].text);
		cr_expect_eq(got->status, want->status, "%s", rule[i].text);
		cr_expect_eq(got->value, want->value, "%s", rule[i].text);
		cr_expect_eq(got->dnr, want->dnr, "%s", rule[i].text);
		cr_expect_eq(got->crd, want->crd, "%s", rule[i].text);
		cr_expect_eq(got->policy, want->policy, "%s", rule[i].text);
		if (got->kind == FAULT_CUT)
			cr_expect_eq(got->seed, want->seed, "%s", rule[i].text);
	}
}

/* The first mistake of a rule is reported, with its word. */
Test(fault_rules, each_mistake_has_its_word_and_text)
{
#define NUMBER "not a number, or too large"
#define COMMAND "expected read, write, flush, admin or any"
#define TIME "expected a time like 5ms (us, ms, s; at most 3600)"
#define ACTION                                                                                 \
	"expected status, drop, delay, duplicate, reorder, wrong-cid, bad-sqhd, cfs, remove, " \
	"powercut, warn, protect or deaf"
#define END "unexpected word at the end of the rule"
	static const struct {
		const char *rule, *word, *problem;
	} row[] = {
		{ "read: drop", "read", "expected 'on'" },
		{ "on", "end of line", COMMAND },
		{ "on reads: drop", "reads", COMMAND },
		{ "on read drop", "drop", "expected opcode, lba, nth, count or ':'" },
		{ "on read:", "end of line", ACTION },
		{ "on read: drops", "drops", ACTION },
		{ "on any opcode: drop", ":", "expected a number" },
		{ "on any opcode -1: drop", "-1", "expected a number" },
		{ "on any opcode 256: drop", "256", NUMBER },
		{ "on any opcode 1x: drop", "1x", NUMBER },
		{ "on read lba 9-3: drop", "9", "range ends before it begins" },
		{ "on read lba 3-: drop", "", "expected a number" },
		{ "on read lba 18446744073709551616: drop", "18446744073709551616", NUMBER },
		{ "on read nth 0: drop", "0", "nth counts from 1" },
		{ "on read count 0: drop", "0", "count is at least 1" },
		{ "on read: status", "end of line", "expected a number" },
		{ "on read: status 0", "0", "that status is success" },
		{ "on read: status 0x800", "0x800", NUMBER },
		{ "on read: status 1 crd 4", "4", NUMBER },
		{ "on read: status 1 ndr", "ndr", "expected 'crd N', 'dnr' or nothing" },
		{ "on read: status 1 dnr dnr", "dnr", END },
		{ "on read: delay", "end of line", TIME },
		{ "on read: delay ms", "ms", TIME },
		{ "on read: delay 5min", "5min", TIME },
		{ "on read: delay 3601s", "3601", NUMBER },
		{ "on read: wrong-cid 0x10000", "0x10000", NUMBER },
		{ "on read: bad-sqhd 65536", "65536", NUMBER },
		{ "on read: warn 0x20", "0x20", NUMBER },
		{ "on read: powercut", "end of line", "expected drop, some or torn" },
		{ "on read: powercut half", "half", "expected drop, some or torn" },
		{ "on read: powercut drop sed 1", "sed", "expected 'seed' or nothing" },
		{ "on read: powercut drop seed", "end of line", "expected a number" },
		{ "on read: drop drop", "drop", END },
		{ "on read: drop : drop", ":", END },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		char text[256], want[256];

		snprintf(text, sizeof text, "# comment\n\non write: drop\n%s\non bad\n",
			 row[i].rule);
		snprintf(want, sizeof want, "%s:4: '%s': %s", script, row[i].word, row[i].problem);
		cr_expect_eq(parse(text), -EINVAL, "%s", row[i].rule);
		cr_expect_str_eq(test_error_text(), want);
		cr_expect_eq(test_error_kind(), HR_ERROR_USAGE);
		cr_expect_eq(soft->faults, 1, "%s", row[i].rule);
	}
}

Test(fault_rules, as_many_rules_as_there_is_room_for)
{
	char text[(SOFT_FAULTS + 1) * 16] = "", want[128];

	for (uint32_t i = 0; i < SOFT_FAULTS; i++)
		strcat(text, "on read: drop\n");
	strcat(text, "# no rule\n\n");
	cr_expect_eq(parse(text), 0);
	cr_expect_eq(soft->faults, SOFT_FAULTS);
	text[strlen(text) - strlen("# no rule\n\n")] = '\0';
	strcat(text, "on read: drop\n");
	cr_expect_eq(parse(text), -EINVAL);
	snprintf(want, sizeof want, "%s:%u: more than %u rules", script, SOFT_FAULTS + 1,
		 SOFT_FAULTS);
	cr_expect_str_eq(test_error_text(), want);
}

/* A longer line would be read as two rules, or lose its end. */
Test(fault_rules, a_line_has_a_longest_length)
{
	char line[600], want[256];

	for (unsigned length = 509; length <= 513; length++) {
		memset(line, 'x', sizeof line);
		memcpy(line, "on read: drop #", 15);
		strcpy(line + length, "\n");
		cr_expect_eq(parse(line), length <= 510 ? 0 : -EINVAL, "%u", length);
		snprintf(want, sizeof want, "%s:1: line longer than 510 characters", script);
		cr_expect_str_eq(test_error_text(), length <= 510 ? "" : want);
		cr_expect_eq(soft->faults, length <= 510, "%u", length);
	}
	/* each colon becomes a word of three bytes */
	memset(line, ':', 510);
	memcpy(line, "on read", 7);
	line[510] = '\0';
	cr_expect_eq(parse(line), -EINVAL);
	snprintf(want, sizeof want, "%s:1: ':': " ACTION, script);
	cr_expect_str_eq(test_error_text(), want);
	memcpy(line, "on write lba 1", 14);
	memset(line + 14, ' ', 510 - 14);
	memcpy(line + 500, "-2: drop\n", 10);
	cr_expect_eq(parse(line), -EINVAL);
	memcpy(line + 500, ":   drop\n", 10);
	cr_expect_eq(parse(line), 0);
}

Test(fault_rules, a_script_that_cannot_be_read_is_an_error)
{
	char want[128];

	unlink(script);
	snprintf(want, sizeof want, "fault script %s: No such file or directory", script);
	cr_expect_eq(soft_faults_read(soft, script, test_error()), -ENOENT);
	cr_expect_str_eq(test_error_text(), want);
	cr_expect_eq(test_error_kind(), HR_ERROR_MISSING);
	cr_expect_eq(soft_faults_read(soft, "/tmp", test_error()), -EISDIR);
	cr_expect_str_eq(test_error_text(), "fault script /tmp: is a folder, expected a file");
	cr_expect_eq(test_error_kind(), HR_ERROR_USAGE);
	cr_expect_eq(soft_faults_read(soft, "/proc/self/mem", test_error()), -EIO);
	cr_expect_str_eq(test_error_text(), "fault script /proc/self/mem: cannot read");
	cr_expect_eq(test_error_kind(), HR_ERROR_FAILED);
}

/* The index of the rule that applies to a command; -1: none. */
static int fires(uint8_t opcode, uint64_t lba, uint16_t blocks, bool admin)
{
	const struct hr_sqe sqe = { .opcode = opcode,
				    .cdw10 = (uint32_t)lba,
				    .cdw11 = (uint32_t)(lba >> 32),
				    .cdw12 = blocks - 1u };
	const struct soft_fault *fault = soft_fault_for(soft, &sqe, admin);

	return fault ? (int)(fault - soft->fault) : -1;
}

Test(fault_rules, a_command_matches_by_kind_opcode_and_blocks)
{
	static const struct {
		const char *rule;
		uint8_t opcode;
		uint64_t lba;
		uint16_t blocks;
		bool admin, want;
	} row[] = {
		{ "on read: drop", nvme_cmd_read, 0, 1, false, true },
		{ "on read: drop", nvme_cmd_read, 0, 1, true, false },
		{ "on read: drop", nvme_cmd_write, 0, 1, false, false },
		{ "on write: drop", nvme_cmd_write, 0, 1, false, true },
		{ "on flush: drop", nvme_cmd_flush, 0, 1, false, true },
		{ "on flush: drop", nvme_cmd_write_zeroes, 0, 1, false, false },
		{ "on any: drop", nvme_cmd_write_zeroes, 0, 1, false, true },
		{ "on any: drop", nvme_cmd_flush, 0, 1, false, true },
		{ "on any: drop", nvme_cmd_flush, 0, 1, true, false },
		{ "on admin: drop", nvme_cmd_flush, 0, 1, true, true },
		{ "on admin: drop", nvme_cmd_flush, 0, 1, false, false },
		{ "on admin opcode 6: drop", 6, 0, 1, true, true },
		{ "on admin opcode 6: drop", 7, 0, 1, true, false },
		{ "on read lba 10-19: drop", nvme_cmd_read, 9, 1, false, false },
		{ "on read lba 10-19: drop", nvme_cmd_read, 9, 2, false, true },
		{ "on read lba 10-19: drop", nvme_cmd_read, 19, 8, false, true },
		{ "on read lba 10-19: drop", nvme_cmd_read, 20, 8, false, false },
		{ "on write lba 0x100000000: drop", nvme_cmd_write, 1ull << 32, 1, false, true },
		{ "on write lba 0x100000000: drop", nvme_cmd_write, 0, 1, false, false },
		{ "on write lba 65535: drop", nvme_cmd_write, 0, 0, false, true },
		{ "on write lba 65536: drop", nvme_cmd_write, 0, 0, false, false },
		/* the words of other commands are not blocks */
		{ "on flush lba 10: drop", nvme_cmd_flush, 0, 1, false, false },
		{ "on any lba 0-9: drop", nvme_cmd_flush, 0, 1, false, false },
		{ "on any lba 0-9: drop", nvme_cmd_write, 9, 1, false, true },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		cr_assert_eq(parse(row[i].rule), 0);
		cr_expect_eq(fires(row[i].opcode, row[i].lba, row[i].blocks, row[i].admin),
			     row[i].want ? 0 : -1, "row %zu: %s", i, row[i].rule);
	}
}

/* Each rule counts its matches, also those to which an earlier rule applies. */
Test(fault_rules, the_first_rule_whose_turn_it_is_applies)
{
	static const int want[] = { 1, 0, 0, 1, 2, -1 };

	cr_assert_eq(parse("on read nth 2 count 2: drop\non read count 4: cfs\n"
			   "on read nth 3 count 3: remove\n"),
		     0);
	for (size_t i = 0; i < ROWS(want); i++)
		cr_expect_eq(fires(nvme_cmd_read, i, 1, false), want[i], "command %zu", i);
	for (unsigned i = 0; i < 3; i++)
		cr_expect_eq(soft->fault[i].seen, ROWS(want));
}

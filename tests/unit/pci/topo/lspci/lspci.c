/* SPDX-License-Identifier: Apache-2.0 */
/* Dumps and text of lspci through a stream: long lines, read errors, ends of lines, and the name of
 * what was read. */
#include "pci/topo/lspci/lspci.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "pci/topo/model.h"

static struct hr_model model;
static char buffer[4096];

static void set_up(void)
{
	cr_assert_eq(hr_model_init(&model), 0);
}

static void tear_down(void)
{
	hr_model_fini(&model);
}

TestSuite(topo_lspci, .init = set_up, .fini = tear_down, .timeout = 60);

/* The text comes from a descriptor, through a buffer of that size. */
static int read_through(const char *text, size_t capacity)
{
	const int fd = memfd_create("lspci", MFD_CLOEXEC);
	struct hr_capture_stream s = { .fd = fd, .buffer = buffer, .capacity = capacity };
	int err;

	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	cr_assert_eq(lseek(fd, 0, SEEK_SET), 0);
	hr_model_reset(&model);
	hr_error_clear(&model.error);
	err = hr_read_lspci(&model, &s);
	close(fd);
	return err;
}

static const char dump[] = "00:00.0 Host bridge: x\n"
			   "00: 86 80 34 12 00 00 00 00\n"
			   "\n"
			   "00:01.0 y\n"
			   "00: de 10\n";

/* Lines of 22 and 27 characters, each with a newline, and a NUL in the buffer. */
Test(topo_lspci, a_line_longer_than_the_buffer_is_named)
{
	static const struct {
		size_t capacity;
		const char *says;
	} row[] = {
		{ 2, "line 1: line too long" },
		{ 23, "line 1: line too long" },
		{ 24, "line 2: line too long" },
		{ 28, "line 2: line too long" },
		{ 29, NULL },
		{ 30, NULL },
		{ 4096, NULL },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		const int err = read_through(dump, row[i].capacity);

		cr_expect_eq(err, row[i].says ? -EINVAL : 0, "%zu: %d", row[i].capacity, err);
		if (row[i].says) {
			cr_expect_str_eq(model.error.text, row[i].says, "%zu: %s", row[i].capacity,
					 model.error.text);
			continue;
		}
		cr_assert_eq(model.count, 2u);
		cr_expect_eq(model.fn[0].config_bytes, 8u);
		cr_expect_eq(model.fn[1].config_bytes, 2u);
	}
}

/* A file system that fails in the middle: what was read before is not taken for the whole. */
Test(topo_lspci, a_read_error_is_returned)
{
	const int folder = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct hr_capture_stream s = { .fd = folder, .buffer = buffer, .capacity = sizeof buffer };

	cr_assert_geq(folder, 0);
	cr_expect_eq(hr_read_lspci(&model, &s), -EISDIR);
	memcpy(buffer, dump, sizeof dump);
	s = (struct hr_capture_stream){
		.fd = folder, .buffer = buffer, .capacity = sizeof buffer, .to = sizeof dump - 1
	};
	cr_expect_eq(hr_read_lspci(&model, &s), -EISDIR);
	close(folder);
}

Test(topo_lspci, lines_of_other_systems_are_read_the_same)
{
	char text[2 * sizeof dump];
	size_t n = 0;

	for (const char *at = dump; *at; at++) {
		if (*at == '\n')
			text[n++] = '\r';
		text[n++] = *at;
	}
	text[n] = '\0';
	cr_assert_eq(read_through(text, 4096), 0, "%s", model.error.text);
	cr_assert_eq(model.count, 2u);
	cr_expect_str_eq(model.fn[1].name, "y");
	cr_expect_eq(model.fn[0].config_bytes, 8u);
}

Test(topo_lspci, the_input_is_named_after_its_contents)
{
	static const struct {
		const char *text, *input;
		int want;
	} row[] = {
		{ dump, "lspci dump", 0 },
		{ "00:00.0 x\n", "lspci text", 0 },
		{ "00:00.0 x\n\tControl: I/O+\n", "lspci text", 0 },
		{ "00:00.0 x\n00: 86 80\n", "lspci dump", 0 },
		{ "headrace: capture=2\n00:00.0 x\n", "lspci dump", 0 },
		{ "", "lspci dump", -ENODATA },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		const int err = read_through(row[i].text, 4096);

		cr_expect_eq(err, row[i].want, "row %zu: %d %s", i, err, model.error.text);
		cr_expect_str_eq(model.input, row[i].input, "row %zu: %s", i, model.input);
	}
}

Test(topo_lspci, input_without_a_function_says_how_long_it_is)
{
	cr_expect_eq(read_through("a\nb\nc\n", 4096), -ENODATA);
	cr_expect_str_eq(model.error.text,
			 "no PCI function in 3 lines; capture with: sudo lspci -vvvxxxx");
	cr_expect_eq(read_through("a\nb", 4096), -ENODATA);
	cr_expect_str_eq(model.error.text,
			 "no PCI function in 2 lines; capture with: sudo lspci -vvvxxxx");
}

/* Limits of dumps concern titles and data: text may have long lines, and no newline at its end. */
Test(topo_lspci, limits_of_a_dump)
{
	char text[400] = "00:00.0 ", more[400] = "00:00.0 x\n00: 86 80\n\tName: ";
	const size_t from = strlen(text), data = strlen(more);

	for (size_t length = 252; length <= 255; length++) {
		const bool fits = length <= 253;

		memset(text + from, 'n', length - from);
		strcpy(text + length, "\n");
		cr_expect_eq(read_through(text, 4096), 0, "%zu: text", length);
		strcpy(text + length, "\n00: 86 80\n");
		cr_expect_eq(read_through(text, 4096), fits ? 0 : -EINVAL, "%zu", length);
		if (!fits)
			cr_expect_str_eq(model.error.text,
					 "line 1: line too long for a dump (254 bytes at most)");
		memset(more + data, 'n', length);
		more[data + length] = '\0';
		cr_expect_eq(read_through(more, 4096), 0, "%zu: text in a dump", length);
	}
	cr_expect_eq(read_through("00:00.0 x", 4096), 0);
	cr_expect_eq(read_through("00:00.0 x\n00: 86", 4096), -EINVAL);
	cr_expect_str_eq(model.error.text, "line 2: the last line is cut off: no newline");
}

/* In sections of a report that are not lspci's, a line may have any length. */
Test(topo_lspci, a_long_line_matters_in_sections_of_lspci_only)
{
	static const char *const path[] = { "/var/log/other", "/usr/bin/lspci -nn" };
	static char text[20000];

	for (size_t i = 0; i < sizeof path / sizeof *path; i++) {
		memset(text, 'x', sizeof text);
		text[snprintf(text, 200, "#==[ Command ]==#\n# %s\n", path[i])] = 'x';
		strcpy(text + 15000, "\n#==[ Command ]==#\n# /sbin/lspci\n00:00.0 x\n");
		cr_expect_eq(read_through(text, 4096), i ? -EINVAL : 0, "%s: %s", path[i],
			     model.error.text);
		if (i)
			cr_expect_str_eq(model.error.text, "line 3: line too long");
		else
			cr_expect_eq(model.count, 1u);
	}
}

/* ---- digits, and several captures in one text */

Test(topo_lspci, each_hexadecimal_digit_has_its_value)
{
	static const uint8_t want[] = { 0x01, 0x23, 0x45, 0x67, 0x89, 0xab,
					0xcd, 0xef, 0xAB, 0xCD, 0xEF, 0xFE };

	cr_assert_eq(read_through("00:00.0 x\n00: 01 23 45 67 89 ab\n6: zz\n"
				  "06: cd ef AB CD EF FE\n",
				  4096),
		     0, "%s", model.error.text);
	cr_assert_eq(model.fn[0].config_bytes, sizeof want);
	cr_expect_arr_eq(model.fn[0].config, want, sizeof want);
	/* Lines in another order; what is not in the dump reads as ones. */
	cr_assert_eq(read_through("00:00.0 x\n10: 12\n00: 34\n", 4096), 0);
	cr_assert_eq(model.fn[0].config_bytes, 17u);
	for (unsigned i = 0; i < 17; i++)
		cr_expect_eq(model.fn[0].config[i], i == 16 ? 0x12 : i == 0 ? 0x34 : 0xff);
}

#define HOST(id) "00:00.0 Host bridge\n00: 86 80 " id " 12 00 00 00 00 00 00 00 06\n\n"
#define CARD(at, id) at " x\n00: 86 80 " id " 12 00 00 00 00 00 00 00 02\n\n"
#define OTHERS                                                                                       \
	": a second capture begins here, with other functions than the first: two machines, or one " \
	"before and after a change; keep one of them"
#define DIFFERS(at, what)                                                                    \
	": a second capture begins here and contradicts the first: 0000:" at " " what " is " \
	"different; keep one of them"

Test(topo_lspci, two_captures_of_one_text_show_one_machine)
{
	static const struct {
		const char *text, *want; /* "": it is read */
		uint32_t count;
	} row[] = {
		{ HOST("01") CARD("00:01.0", "01") HOST("01") CARD("00:01.0", "01"), "", 2 },
		{ HOST("01") CARD("00:01.0", "01") HOST("01"), "", 2 },
		{ HOST("01") HOST("01") CARD("00:01.0", "01"), "", 2 },
		{ HOST("01") CARD("00:01.0", "01") HOST("01") CARD("00:02.0", "01"),
		  "line 7" OTHERS, 0 },
		{ HOST("01") CARD("00:01.0", "01") HOST("01") CARD("00:01.0", "01")
			  CARD("00:02.0", "01"),
		  "", 3 },
		/* Without a host bridge the second list need not be whole. */
		{ HOST("01") CARD("00:01.0", "01") CARD("00:01.0", "01") CARD("00:02.0", "01"), "",
		  3 },
		{ CARD("00:02.0", "01") CARD("00:01.0", "01") CARD("00:03.0", "01"), "", 3 },
		/* The third list is the one that differs; then the second, before another one. */
		{ HOST("01") CARD("00:01.0", "01") HOST("01") HOST("01") CARD("00:02.0", "01"),
		  "line 10" OTHERS, 0 },
		{ HOST("01") CARD("00:01.0", "01") HOST("01") CARD("00:02.0", "01") HOST("01"),
		  "line 7" OTHERS, 0 },
		{ HOST("01") HOST("02"), "line 4" DIFFERS("00:00.0", "device"), 0 },
		{ HOST("01") CARD("00:01.0", "01") HOST("01") CARD("00:01.0", "02"),
		  "line 7" DIFFERS("00:01.0", "device"), 0 },
		{ "00:00.0 x\n00: 86 80 01 12 00 00 00 00 00 00 00\n\n"
		  "00:00.0 x\n00: 86 80 02 12 00 00 00 00 00 00 00\n",
		  "", 1 },
		{ "00:00.0 x\n00: 86 80 01 12 00 00 00 00 00 00 00 06\n\n"
		  "00:00.0 x\n00: 86 80 01 12 00 00 00 00 00 00 01 06\n",
		  "line 4" DIFFERS("00:00.0", "device"), 0 },
		{ "00:00.0 x\n00: 86 80 01 12 00 00 00 00 00 01 00 06\n\n"
		  "00:00.0 x\n00: 86 80 01 12 00 00 00 00 01 01 00 06\n",
		  "", 1 },
		{ "headrace: capture=2\n00:00.0 x\n", "", 1 },
		{ "headrace: capture=2\n00:00.0 x\nheadrace: capture=2\n",
		  "line 3: a second capture begins here; keep one", 0 },
		{ "headrace: capture=2\nheadrace: capture=2\n00:00.0 x\n",
		  "line 2: a second capture begins here; keep one", 0 },
		{ "00:00.0 x\nheadrace: capture=2\n",
		  "line 2: a second capture begins here; keep one", 0 },
		{ "00:00.0 x\nheadrace: captures=2\n", "line 2: not a fact of a capture", 0 },
		{ "00:00.0 x\n\theadrace: colour=red\n", "line 2: not a fact of a capture", 0 },
		{ "00:00.0 x\n\t headrace: numa_node=1\n", "", 1 },
		{ "00:1f.7 x\n", "", 1 },
		{ "00:20.0 x\n", "line 1: no such device or function number (31 and 7 at most)",
		  0 },
		{ "00:1f.8 x\n", "line 1: no such device or function number (31 and 7 at most)",
		  0 },
		{ "00:00.0 x\nfff: 00\n", "", 1 },
		{ "00:00.0 x\nfff: 00 00\n", "line 2: configuration space has 4096 bytes at most",
		  0 },
		{ "00:00.0 x\n00: 0g\n", "line 2: malformed line: not bytes in hexadecimal", 0 },
		{ "00:00.0 x\n00: 001\n", "line 2: malformed line: not bytes in hexadecimal", 0 },
		{ "00:00.0 x\n00: 00 \n", "", 1 },
		{ "00:00.0 x\n0: 0g\n", "", 1 },
		{ "00:00.0 x\n00:0g\n", "", 1 },
		{ "00:00.0 x\n000000000: 0g\n", "", 1 },
		{ "00:00.0 x\n00000000: 0g\n", "line 2: malformed line: not bytes in hexadecimal",
		  0 },
		{ "-[00]---00.0\n\n00:00.0 x\n", "", 1 },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		const int err = read_through(row[i].text, 4096);

		cr_expect_eq(err, row[i].want[0] ? -EINVAL : 0, "row %zu: %d", i, err);
		cr_expect_str_eq(model.error.text, row[i].want, "row %zu: %s", i, model.error.text);
		if (!err)
			cr_expect_eq(model.count, row[i].count, "row %zu: %u", i, model.count);
	}
}

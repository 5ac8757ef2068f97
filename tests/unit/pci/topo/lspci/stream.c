/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captures from a descriptor whose reads are short, interrupted or fail: this test is read() of that
 * descriptor.
 */
#include "pci/topo/source/source.h"
#include "pci/topo/lspci/stream.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ROWS(table) (sizeof(table) / sizeof(*(table)))
#define STEPS_MAX 6

/* Results of read(), one after the other; then 0, the end of the file. */
struct step {
	const char *text;
	int err;
};

static struct hr_model model;
static const struct step *step;
static unsigned left;
static int descriptor = -1;
static char asked[200]; /* room that each read() had */

ssize_t read(int fd, void *to, size_t room)
{
	const struct step *s = step;
	size_t n = 0;

	if (fd != descriptor)
		return syscall(SYS_read, fd, to, room);
	snprintf(asked + strlen(asked), sizeof asked - strlen(asked), " %zu", room);
	if (left) {
		step++;
		left--;
		n = strlen(s->text ? s->text : "");
		errno = s->err;
		if (s->err)
			return -1;
		cr_assert_leq(n, room);
		memcpy(to, s->text, n);
	}
	return (ssize_t)n;
}

#define NUMBER 1000 /* of the descriptor: an empty file, because its type is tested */

static void up(void)
{
	const int file = memfd_create("empty", MFD_CLOEXEC);

	cr_assert_eq(dup2(file, NUMBER), NUMBER);
	syscall(SYS_close, file);
	cr_assert_eq(hr_model_init(&model), 0);
}

static void down(void)
{
	hr_model_fini(&model);
	syscall(SYS_close, NUMBER);
}

TestSuite(topo_stream, .init = up, .fini = down, .timeout = 60);

static void begin(const struct step *steps)
{
	descriptor = NUMBER;
	step = steps;
	for (left = 0; left < STEPS_MAX && (steps[left].text || steps[left].err);)
		left++;
	asked[0] = '\0';
}

/* ---- lines */

Test(topo_stream, each_line_has_its_number_and_length)
{
	static const struct {
		const char *ahead; /* in the buffer of 12 bytes before the first read */
		struct step step[STEPS_MAX];
		const char *want; /* lines; "~": without a newline */
		int error;
		const char *asked;
	} row[] = {
		{ "", { { NULL, 0 } }, "", 0, " 11" },
		{ "", { { "\n\n", 0 } }, "1:0: 2:0: ", 0, " 11 11" },
		{ "a\nbcd", { { NULL, 0 } }, "1:1:a 2:3:bcd~ ", 0, " 8" },
		{ "a\nbc",
		  { { "d\ne", 0 }, { "f", 0 }, { "\n", 0 } },
		  "1:1:a 2:3:bcd 3:2:ef ",
		  0,
		  " 9 10 9 11" },
		{ "",
		  { { NULL, EINTR }, { "x\n", 0 }, { NULL, EINTR } },
		  "1:1:x ",
		  0,
		  " 11 11 11 11" },
		{ "a\nb", { { NULL, EIO } }, "1:1:a 2:1:b~ ", -EIO, " 10" },
		{ "a\n", { { NULL, EIO } }, "1:1:a ", -EIO, " 11" },
		{ "0123456789\n", { { "0123456789a", 0 } }, "1:10:0123456789 ", -EMSGSIZE, " 11" },
		{ "0123456789a", { { NULL, 0 } }, "", -EMSGSIZE, "" },
		{ "a\n012345678", { { "9a", 0 }, { "b\n", 0 } }, "1:1:a ", -EMSGSIZE, " 2" },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		char buffer[12], got[200] = "", *line;
		struct hr_capture_stream s = { .fd = 1000, .buffer = buffer, .capacity = 12 };
		size_t length;

		begin(row[i].step);
		s.to = strlen(row[i].ahead);
		memcpy(buffer, row[i].ahead, s.to);
		while ((line = hr_capture_stream_line(&s, &length))) {
			snprintf(got + strlen(got), sizeof got - strlen(got), "%u:%zu:%s%s ",
				 s.line, length, line, s.cut ? "~" : "");
			cr_assert_eq(strlen(line), length);
		}
		cr_expect_str_eq(got, row[i].want, "row %zu: %s", i, got);
		cr_expect_str_eq(asked, row[i].asked, "row %zu: %s", i, asked);
		cr_expect_eq(s.error, row[i].error, "row %zu: %d", i, s.error);
	}
}

Test(topo_stream, without_a_descriptor_the_buffer_is_all)
{
	static const struct step unread[STEPS_MAX] = { { "x", 0 } };
	char buffer[] = "a\nbc";
	struct hr_capture_stream s = { .fd = -1, .buffer = buffer, .capacity = 5, .to = 4 };
	size_t length;

	begin(unread);
	cr_expect_str_eq(hr_capture_stream_line(&s, &length), "a");
	cr_expect_not(s.cut);
	cr_expect_str_eq(hr_capture_stream_line(&s, &length), "bc");
	cr_expect_eq(length, 2u);
	cr_expect(s.cut);
	cr_expect_eq(s.line, 2u);
	cr_expect_null(hr_capture_stream_line(&s, &length));
	cr_expect_eq(s.error, 0);
	cr_expect_str_eq(asked, "");
}

/* ---- whole files */

int open(const char *path, int flags, ...)
{
	return strcmp(path, "fake") == 0 ? descriptor
					 : (int)syscall(SYS_openat, AT_FDCWD, path, flags, 0);
}

int close(int fd)
{
	return fd == descriptor ? 0 : (int)syscall(SYS_close, fd);
}

#define HEAD "<?xml version=\"1.0\"?>\n<system version=\"1\">"
#define REST                                                                 \
	"<cpu numaid=\"0\"><pci busid=\"0000:03:00.0\" class=\"0x030200\"/>" \
	"</cpu></system>"

Test(topo_stream, a_file_is_read_to_its_end_or_its_error)
{
	/* The head of a file has up to 4096 bytes, so it takes the first steps. */
	static char spaces[4200];
	static const struct {
		struct step step[STEPS_MAX];
		int err;
		const char *text;
	} row[] = {
		{ { { HEAD, 0 }, { spaces, 0 }, { REST, 0 } }, 0, "" },
		{ { { HEAD, 0 }, { NULL, EINTR }, { spaces, 0 }, { NULL, EINTR }, { REST, 0 } },
		  0,
		  "" },
		{ { { HEAD, 0 }, { NULL, EIO }, { spaces, 0 }, { REST, 0 } },
		  -EIO,
		  "fake: Input/output error" },
		{ { { HEAD, 0 }, { spaces, 0 }, { NULL, EIO }, { REST, 0 } },
		  -EIO,
		  "fake: Input/output error" },
		{ { { HEAD, 0 }, { spaces, 0 }, { REST, 0 }, { NULL, EIO } },
		  -EIO,
		  "fake: Input/output error" },
		{ { { HEAD, 0 }, { spaces, 0 } }, -EINVAL, NULL },
		{ { { "00:00.0 x\n", 0 }, { NULL, EIO } }, -EIO, "fake: Input/output error" },
		{ { { "00:00.0 x\n", 0 } }, 0, "" },
		{ { { "", 0 } },
		  -ENODATA,
		  "fake: no PCI function in 0 lines; capture with: sudo lspci -vvvxxxx" },
		{ { { "\x1f\x8b", 0 }, { NULL, EIO } }, -EIO, "fake: Input/output error" },
	};

	memset(spaces, ' ', sizeof spaces - 1);
	for (size_t i = 0; i < ROWS(row); i++) {
		int err;

		hr_model_reset(&model);
		hr_error_clear(&model.error);
		begin(row[i].step);
		err = hr_source_open(&model, "fake");
		descriptor = -1;
		cr_expect_eq(err, row[i].err, "row %zu: %d %s", i, err, model.error.text);
		if (row[i].text)
			cr_expect_str_eq(model.error.text, row[i].text, "row %zu: %s", i,
					 model.error.text);
		cr_expect_eq(model.count, err ? model.count : 1u, "row %zu", i);
	}
}

/* Standard input has the descriptor 0. */
Test(topo_stream, standard_input_is_read_like_a_file)
{
	static const struct step list[STEPS_MAX] = { { "00:00.0 x\n", 0 }, { "00:01.0 y\n", 0 } },
				 xml[STEPS_MAX] = { { HEAD, 0 }, { REST, 0 } },
				 none[STEPS_MAX] = { { "x", 0 } };

	begin(list);
	descriptor = 0;
	cr_expect_eq(hr_source_open(&model, "-"), 0, "%s", model.error.text);
	cr_expect_eq(model.count, 2u);
	hr_model_reset(&model);
	begin(xml);
	descriptor = 0;
	cr_expect_eq(hr_source_open(&model, "-"), 0, "%s", model.error.text);
	cr_expect_eq(model.count, 1u);
	hr_model_reset(&model);
	begin(none);
	descriptor = 0;
	cr_expect_eq(hr_source_open(&model, "-"), -ENODATA);
	cr_expect_str_eq(
		model.error.text,
		"standard input: no PCI function in 1 lines; capture with: sudo lspci -vvvxxxx");
	descriptor = -1;
}

/* A text that is longer than the buffer of a stream has memory of its own; one in memory has not. */
Test(topo_stream, a_long_text_is_read_into_memory_of_its_own)
{
	static char some[4097], spaces[100000]; /* the head has up to 4096 bytes */
	static const struct step xml[STEPS_MAX] = {
		{ HEAD, 0 }, { some, 0 }, { spaces, 0 }, { REST, 0 }
	};
	static const char *const path[] = { "fake", "-" };
	size_t used;

	memset(some, ' ', sizeof some - 1);
	memset(spaces, ' ', sizeof spaces - 1);
	used = model.used;
	cr_expect_eq(hr_source_parse(&model, "a", HEAD REST, sizeof HEAD REST - 1), 0);
	cr_expect_lt(model.used - used, 1u << 20);
	for (int i = 0; i < 2; i++) {
		hr_model_reset(&model);
		used = model.used;
		begin(xml);
		descriptor = i ? 0 : NUMBER;
		cr_expect_eq(hr_source_open(&model, path[i]), 0, "%s", model.error.text);
		descriptor = -1;
		cr_expect_eq(model.count, 1u);
		cr_expect_geq(model.used - used, 16u << 20, "%s: %zu", path[i], model.used - used);
	}
}

/* The name of the format stands at byte 257 of a header of 512 bytes. */
Test(topo_stream, an_archive_is_known_by_its_header)
{
	static const struct {
		const char *magic;
		size_t bytes;
		bool archive;
	} row[] = {
		{ "ustar", 512, true },	 { "ustar", 511, false }, { "ustax", 512, false },
		{ "xstar", 512, false }, { "ustar", 1024, true },
	};
	char text[1024];

	for (size_t i = 0; i < ROWS(row); i++) {
		memset(text, 'x', sizeof text);
		memcpy(text + 257, row[i].magic, 5);
		hr_model_reset(&model);
		hr_error_clear(&model.error);
		cr_expect_neq(hr_source_parse(&model, "a", text, row[i].bytes), 0);
		cr_expect_eq(
			strcmp(model.error.text,
			       "a: no PCI function in 1 lines; capture with: sudo lspci -vvvxxxx") !=
				0,
			row[i].archive, "row %zu: %s", i, model.error.text);
	}
}

/* Dumps and text of lspci through a stream: long lines, read errors, ends of lines, and the name of
 * what was read. */
#include "pci/topo/lspci.h"

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
	cr_expect_str_eq(model.error.text, "no PCI function in 3 lines");
	cr_expect_eq(read_through("a\nb", 4096), -ENODATA);
	cr_expect_str_eq(model.error.text, "no PCI function in 2 lines");
}

/* Limits of dumps concern dumps: text may have long lines, and no newline at its end. */
Test(topo_lspci, limits_of_a_dump)
{
	char text[400] = "00:00.0 x\n\tName: ";
	const size_t from = strlen(text) - strlen("\tName: ");

	for (size_t length = 252; length <= 255; length++) {
		const bool fits = length <= 253;

		memset(text + from + 7, 'n', length - 7);
		strcpy(text + from + length, "\n");
		cr_expect_eq(read_through(text, 4096), 0, "%zu: text", length);
		strcpy(text + from + length, "\n00: 86 80\n");
		cr_expect_eq(read_through(text, 4096), fits ? 0 : -EINVAL, "%zu", length);
		if (!fits)
			cr_expect_str_eq(model.error.text,
					 "line 2: line too long for a dump (254 bytes at most)");
	}
	cr_expect_eq(read_through("00:00.0 x", 4096), 0);
	cr_expect_eq(read_through("00:00.0 x\n00: 86", 4096), -EINVAL);
	cr_expect_str_eq(model.error.text, "line 2: the last line is cut off: no newline");
}

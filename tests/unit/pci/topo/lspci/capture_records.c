/* SPDX-License-Identifier: Apache-2.0 */
/* Whole captures: each line that is written, each way in which the write can go, and reading back. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "pci/topo/lspci/lspci.h"
#include "pci/topo/decode.h"
#include "pci/topo/fields.h"
#include "tests/harness/described.h"

static struct hr_model model;

/* ---- a file that takes a few bytes at a time, is interrupted, or fails */

static int slow = -1;
static size_t piece;	 /* most bytes of one write */
static unsigned writes;	 /* every third one is interrupted */
static unsigned failing; /* this write fails; 0: none */

ssize_t write(int fd, const void *bytes, size_t size)
{
	if (fd == slow && ++writes == failing) {
		errno = ENOSPC;
		return -1;
	}
	if (fd == slow && writes % 3 == 0) {
		errno = EINTR;
		return -1;
	}
	return syscall(SYS_write, fd, bytes, fd == slow && piece && size > piece ? piece : size);
}

static void set_up(void)
{
	cr_assert_eq(hr_model_init(&model), 0);
	slow = memfd_create("capture", MFD_CLOEXEC);
	cr_assert_geq(slow, 0);
}

static void tear_down(void)
{
	close(slow);
	hr_model_fini(&model);
}

TestSuite(topo_capture_records, .init = set_up, .fini = tear_down, .timeout = 60);

static char text[1 << 20];

static const char *capture(void)
{
	ssize_t size;

	cr_assert_eq(ftruncate(slow, 0), 0);
	lseek(slow, 0, SEEK_SET);
	cr_assert_eq(hr_capture_write(&model, slow), 0);
	size = pread(slow, text, sizeof text - 1, 0);
	cr_assert(size > 0 && (size_t)size < sizeof text - 1);
	text[size] = '\0';
	return text;
}

/* ---- the machine */

static void set(struct hr_fact *fact, uint32_t value, enum hr_src source)
{
	*fact = (struct hr_fact){ value, (uint8_t)source };
}

#define HEAD "headrace: capture=2\nheadrace: source="

Test(topo_capture_records, each_private_parameter_stays_out)
{
	static const char *const word[] = {
		"root=a",
		"resume=a",
		"ip=a",
		"rd.luks.uuid=a",
		"cryptdevice=a",
		"hostname=a",
		"systemd.hostname=a",
		"netconsole=a",
		"nfsroot=a",
		"ds=a",
		"BOOT_IMAGE=a",
	};
	char want[1024], *line = model.sys.cmdline;

	for (size_t i = 0; i < sizeof word / sizeof *word; i++) {
		snprintf(line, 64, "%s b", word[i]);
		cr_expect_str_eq(capture(), HEAD "\nheadrace: cmdline=b \n\n", "%s", word[i]);
	}
	strcpy(line, " x=\"a b\"c  roots=1 \"root=2 3\" y");
	cr_expect_str_eq(capture(),
			 HEAD "\nheadrace: cmdline=x=\"a b\"c \nheadrace: cmdline=roots=1 \n"
			      "headrace: cmdline=\"root=2 3\" \nheadrace: cmdline=y \n\n");
	/* A long parameter is split after each 200 bytes. */
	for (unsigned n = 199; n <= 401; n += n == 201 ? 198 : 1) {
		memset(line, 'p', n);
		strcpy(line + n, " q");
		snprintf(want, sizeof want,
			 HEAD "\nheadrace: cmdline=%.*s%s\n%s%.*s%s%s%.*s%s"
			      "headrace: cmdline=q \n\n",
			 n < 200 ? (int)n : 200, line, n <= 200 ? " " : "",
			 n > 200 ? "headrace: cmdline=" : "",
			 n <= 200  ? 0
			 : n < 400 ? (int)n - 200
				   : 200,
			 line,
			 n <= 200   ? ""
			 : n <= 400 ? " \n"
				    : "\n",
			 n > 400 ? "headrace: cmdline=" : "", n > 400 ? (int)n - 400 : 0, line,
			 n > 400 ? " \n" : "");
		cr_expect_str_eq(capture(), want, "%u bytes", n);
	}
}

/* ---- functions */

#define FUNCTION HEAD "\n\n0001:41:02.3 Maker Card\n"

#define ZEROS " 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00\n"

Test(topo_capture_records, registers_are_rows_of_sixteen)
{
	static const struct {
		uint32_t bytes;
		uint8_t at, value; /* one byte that is not zero; value 0: none */
		const char *want;
	} row[] = {
		{ 1, 0, 0x5a, "00: 5a\n" },
		{ 15, 14, 0xff, "00: 00 00 00 00 00 00 00 00 00 00 00 00 00 00 ff\n" },
		{ 16, 0, 0, "00:" ZEROS },
		{ 17, 0, 0, "00:" ZEROS "10: 00\n" },
		{ 32, 15, 1, "00: 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 01\n10:" ZEROS },
		{ 33, 16, 1,
		  "00:" ZEROS "10: 01 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00\n20: 00\n" },
	};
	uint8_t config[64];
	char want[512];

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct hr_fn *f;

		hr_model_reset(&model);
		f = hr_model_add(&model, 1, 0x41, 2, 3);
		f->name = "Maker Card";
		memset(config, 0, sizeof config);
		config[row[i].at] = row[i].value;
		f->config = config;
		f->config_bytes = row[i].bytes;
		snprintf(want, sizeof want, FUNCTION "%s\n", row[i].want);
		cr_expect_str_eq(capture(), want, "row %zu", i);
	}
}

/* Serial numbers: the list of capabilities as it is, in a loop, and cut off. */
Test(topo_capture_records, serial_numbers_are_zero)
{
	static const struct {
		uint32_t first, second, third, bytes; /* offsets of capabilities, 0: none */
		uint16_t id[3];
		bool hidden[3];
	} row[] = {
		{ 0x100, 0, 0, 0x300, { 3 }, { true } },
		{ 0x100, 0x140, 0x180, 0x300, { 1, 3, 3 }, { false, true, true } },
		{ 0x100, 0x148, 0x18c, 0x300, { 2, 4, 0x103 }, { false, false, false } },
		{ 0x100, 0x140, 0x100, 0x300, { 3, 1, 3 }, { true, false, true } },
		{ 0x100, 0x140, 0, 0x14c, { 1, 3 }, { false, true } },
		{ 0x100, 0x140, 0, 0x14b, { 1, 3 }, { false, false } },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		const uint32_t at[] = { row[i].first, row[i].second, row[i].third };
		uint8_t config[0x300];
		char want[64];
		struct hr_fn *f;

		hr_model_reset(&model);
		f = hr_model_add(&model, 1, 0x41, 2, 3);
		f->name = "x";
		memset(config, 0xa5, sizeof config);
		for (unsigned k = 0; k < 3 && at[k]; k++) {
			const uint32_t next = k < 2 ? at[k + 1] : 0;

			/* The low two bits of a pointer do not count. */
			config[at[k]] = (uint8_t)row[i].id[k];
			config[at[k] + 1] = (uint8_t)(row[i].id[k] >> 8);
			config[at[k] + 2] = (uint8_t)((next & 15) << 4 | 0x31);
			config[at[k] + 3] = (uint8_t)(next >> 4);
		}
		f->config = config;
		f->config_bytes = row[i].bytes;
		capture();
		for (unsigned k = 0; k < 3 && at[k]; k++) {
			const char *line, *byte;

			for (uint32_t b = at[k] + 3; b <= at[k] + 12 && b < row[i].bytes; b++) {
				const bool inside = b >= at[k] + 4 && b < at[k] + 12;

				snprintf(want, sizeof want, "\n%02x:", b & ~15u);
				line = strstr(text, want);
				cr_assert_not_null(line, "row %zu", i);
				byte = line + strlen(want) + 3 * (b & 15) + 1;
				snprintf(want, sizeof want, "%02x",
					 inside && row[i].hidden[k] ? 0 : config[b]);
				cr_expect(strncmp(byte, want, 2) == 0, "row %zu, byte %x: %.2s", i,
					  b, byte);
			}
		}
	}
}

/* ---- the write */

Test(topo_capture_records, a_slow_file_gets_the_same_bytes)
{
	static char whole[sizeof text];

	for (unsigned i = 0; i < 600; i++) {
		struct hr_fn *f = hr_model_add(&model, 2, i / 32, i % 32, 0);

		f->name = i % 2 ? "A function with a name" : "another";
		set(&f->fact[HR_F_DEVICE], i, HR_SRC_SYSFS);
	}
	strcpy(whole, capture());
	cr_expect_gt(strlen(whole), 2 * 32768u / 2);
	piece = 1000;
	writes = 0;
	cr_expect_str_eq(capture(), whole);
	cr_expect_gt(writes, 30u);
	piece = 0;
	for (failing = 1; failing <= 2; failing++) {
		writes = 0;
		cr_expect_eq(hr_capture_write(&model, slow), -ENOSPC, "write %u", failing);
		cr_expect_eq(writes, failing, "none follows");
	}
}

/* ---- reading back */

/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of headrace's own captures: each is kept as it is, or refused. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "pci/topo/lspci/lspci.h"
#include "pci/topo/fields.h"
#include "tests/harness/evaluate.h"

TestSuite(topo_capture, .init = fake_evaluate_up, .fini = fake_evaluate_down, .timeout = 60);

static char text[1 << 20];

/* The capture of the model, in `text`. */
static void capture(void)
{
	const int fd = memfd_create("capture", 0);
	ssize_t size;

	cr_assert_eq(hr_capture_write(&model, fd), 0);
	size = pread(fd, text, sizeof text - 1, 0);
	cr_assert(size > 0 && (size_t)size < sizeof text - 1);
	text[size] = '\0';
	close(fd);
}

/* A machine whose functions have no registers, so that captures hold lines only. */
static struct hr_fn *load_without_registers(void)
{
	for (unsigned i = 0; i < machine.count; i++)
		machine.fn[i].bytes = 0;
	cr_assert_eq(fake_load(&machine, &model), 0, "%s", model.error.text);
	return &model.fn[fake_at(SIBLING)];
}

static bool take(struct hr_fn *f, const char *line)
{
	char copy[512];

	snprintf(copy, sizeof copy, "%s", line);
	return hr_capture_line(&model, f, copy, strlen(copy));
}

/* A text that is longer than a line is split, and joined again. */
Test(topo_capture, long_texts_are_split_and_joined)
{
	struct hr_fn *f = load_without_registers();
	char piece[201 + 16] = "devices=", joined[402];

	memset(piece + 8, 'a', 200);
	cr_assert(take(f, piece));
	memset(piece + 8, 'b', 200);
	cr_assert(take(f, piece) && take(f, "devices=c"));
	memset(joined, 'a', 200);
	memset(joined + 200, 'b', 200);
	memcpy(joined + 400, "c", 2);
	cr_expect_str_eq(f->devices, joined);
	capture();
	cr_expect_not_null(strstr(text, "b\n\theadrace: devices=c\n"));
	/* A joined text has at most 1023 bytes. */
	for (unsigned i = 0; i < 3; i++)
		cr_assert(take(f, piece));
	memset(piece + 8, 'd', 22);
	piece[8 + 22] = '\0';
	cr_assert(take(f, piece), "1023 bytes");
	cr_expect_eq(strlen(f->devices), 1023u);
	cr_expect_not(take(f, "devices=e"), "1024 bytes");
}

Test(topo_capture, private_parameters_and_serial_numbers_stay_out)
{
	struct fake_fn *disk = fake_find(&machine, SIBLING);
	static const uint8_t serial[8] = { 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8 };

	/* The list goes on to a serial number, and behind it; the dwords around it are kept. */
	fake_put(disk, FAKE_ATS, 4, HR_ECAP_ATS | 1 << 16 | 0x300u << 20);
	fake_put(disk, 0x300, 4, 3 | 1 << 16 | 0x500u << 20);
	memcpy(disk->config + 0x304, serial, sizeof serial);
	disk->config[0x30c] = 0xb1;
	/* Bytes like those of a serial number that no list leads to. */
	fake_put(disk, HR_CFG_DEVICE, 2, 0x4000);
	fake_put(disk, 0x400, 4, 3 | 1 << 16);
	fake_put(disk, 0x404, 4, 0xc4c3c2c1);
	cr_assert_eq(fake_load(&machine, &model), 0, "%s", model.error.text);
	snprintf(model.sys.cmdline, sizeof model.sys.cmdline, "%s",
		 "root=UUID=1 quiet systemd.hostname=me dyndbg=\"a b\" ip=1.2.3.4 last");
	capture();
	cr_expect_not_null(
		strstr(text, "\n300: 03 00 01 50 00 00 00 00 00 00 00 00 b1 00 00 00\n"));
	cr_expect_not_null(
		strstr(text, "\n400: 03 00 01 00 c1 c2 c3 c4 00 00 00 00 00 00 00 00\n"));
	/* Sizes that the registers state are not written again; one of the text is. */
	cr_expect_null(strstr(text, "bar1_size"));
	cr_expect_not_null(strstr(text, "\theadrace: text.bar0_size=16384\n"));
	cr_expect_null(strstr(text, "UUID"));
	cr_expect_null(strstr(text, "hostname"));
	cr_expect_null(strstr(text, "1.2.3.4"));
	cr_expect_not_null(strstr(text,
				  "headrace: cmdline=quiet \nheadrace: cmdline=dyndbg=\"a b\" \n"
				  "headrace: cmdline=last \n"));
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Compressed captures: recognized by their first bytes, unpacked by the tools that are installed. */
#include "pci/topo/source/formats.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pci/topo/source/source.h"

static struct hr_model model;

/* ---- files that take and give a few bytes at a time, or a file without an end */

static bool slow, endless; /* each third call of a slow one is interrupted */
static unsigned reads, writes;

ssize_t read(int fd, void *to, size_t size)
{
	reads++;
	if (endless)
		return (ssize_t)size;
	if (slow && reads % 3 == 1) {
		errno = EINTR;
		return -1;
	}
	return syscall(SYS_read, fd, to, slow && size > 7000 ? 7000 : size);
}

ssize_t write(int fd, const void *from, size_t size)
{
	writes++;
	if (endless)
		return (ssize_t)size;
	if (slow && writes % 3 == 1) {
		errno = EINTR;
		return -1;
	}
	return syscall(SYS_write, fd, from, slow && size > 5000 ? 5000 : size);
}

static void set_up(void)
{
	cr_assert_eq(hr_model_init(&model), 0);
}

static void tear_down(void)
{
	hr_model_fini(&model);
}

TestSuite(topo_unpack, .init = set_up, .fini = tear_down, .timeout = 60);

/* The text "00:00.0 x\n", packed by each tool. */
#define TEXT "00:00.0 x\n"

static const uint8_t gzip[] = { 0x1f, 0x8b, 0x08, 0x00, 0xe9, 0xd2, 0x04, 0x6b, 0x00, 0x03,
				0x33, 0x30, 0xb0, 0x32, 0x30, 0xd0, 0x33, 0x50, 0xa8, 0xe0,
				0x02, 0x00, 0x12, 0xf2, 0xf8, 0xac, 0x0a, 0x00, 0x00, 0x00 };
static const uint8_t bzip2[] = { 0x42, 0x5a, 0x68, 0x39, 0x31, 0x41, 0x59, 0x26, 0x53, 0x59,
				 0x54, 0x10, 0x73, 0xca, 0x00, 0x00, 0x03, 0x58, 0x80, 0x00,
				 0x10, 0x40, 0x01, 0x40, 0x10, 0x00, 0x40, 0x20, 0x00, 0x30,
				 0xc0, 0x06, 0x9a, 0x3c, 0xa2, 0x42, 0xa6, 0xc7, 0xc5, 0xdc,
				 0x91, 0x4e, 0x14, 0x24, 0x15, 0x04, 0x1c, 0xf2, 0x80 };
static const uint8_t xz[] = { 0xfd, 0x37, 0x7a, 0x58, 0x5a, 0x00, 0x00, 0x04, 0xe6, 0xd6,
			      0xb4, 0x46, 0x02, 0x00, 0x21, 0x01, 0x16, 0x00, 0x00, 0x00,
			      0x74, 0x2f, 0xe5, 0xa3, 0x01, 0x00, 0x09, 0x30, 0x30, 0x3a,
			      0x30, 0x30, 0x2e, 0x30, 0x20, 0x78, 0x0a, 0x00, 0x00, 0x00,
			      0xea, 0xf2, 0x18, 0xf2, 0x27, 0x46, 0x58, 0xd4, 0x00, 0x01,
			      0x22, 0x0a, 0x15, 0x1a, 0xe1, 0x67, 0x1f, 0xb6, 0xf3, 0x7d,
			      0x01, 0x00, 0x00, 0x00, 0x00, 0x04, 0x59, 0x5a };
static const uint8_t zstd[] = { 0x28, 0xb5, 0x2f, 0xfd, 0x04, 0x58, 0x51, 0x00,
				0x00, 0x30, 0x30, 0x3a, 0x30, 0x30, 0x2e, 0x30,
				0x20, 0x78, 0x0a, 0x1b, 0x46, 0x4d, 0x01 };

static const struct packed {
	const char *tool;
	const uint8_t *bytes;
	size_t size, magic;
} packed[] = {
	{ "gzip", gzip, sizeof gzip, 2 },
	{ "bzip2", bzip2, sizeof bzip2, 3 },
	{ "xz", xz, sizeof xz, 5 },
	{ "zstd", zstd, sizeof zstd, 4 },
};
#define TOOLS (sizeof packed / sizeof *packed)

static bool is_installed(const char *tool)
{
	static const char *const folders[] = { "/usr/bin", "/bin", "/usr/local/bin" };
	char path[64];

	for (unsigned i = 0; i < 3; i++) {
		snprintf(path, sizeof path, "%s/%s", folders[i], tool);
		if (access(path, X_OK) == 0)
			return true;
	}
	return false;
}

Test(topo_unpack, the_first_bytes_tell_the_tool)
{
	for (size_t i = 0; i < TOOLS; i++) {
		uint8_t head[8] = { 0 };

		memcpy(head, packed[i].bytes, packed[i].magic);
		for (size_t n = 0; n <= sizeof head; n++)
			cr_expect_eq(hr_packed_by((char *)head, n) != NULL, n >= packed[i].magic,
				     "%s, %zu bytes", packed[i].tool, n);
		for (size_t k = 0; k < packed[i].magic; k++) {
			head[k] ^= 1;
			cr_expect_null(hr_packed_by((char *)head, sizeof head), "%s, byte %zu",
				       packed[i].tool, k);
			head[k] ^= 1;
		}
		for (size_t k = 0; k < i; k++)
			cr_expect_neq(hr_packed_by((const char *)packed[k].bytes, 8),
				      hr_packed_by((char *)head, 8));
	}
}

static int file_of(const void *bytes, size_t size)
{
	const int fd = memfd_create("packed", MFD_CLOEXEC);

	cr_assert_eq(write(fd, bytes, size), (ssize_t)size);
	lseek(fd, 0, SEEK_SET);
	return fd;
}

static int next_fd(void)
{
	const int fd = dup(0);

	close(fd);
	return fd;
}

/* The first bytes are read ahead, the rest comes from the file; nothing is left open or running. */
Test(topo_unpack, a_head_and_the_rest_of_a_file_are_one_input)
{
	for (size_t i = 0; i < TOOLS; i++) {
		const struct packed *p = &packed[i];
		const char *head = (const char *)p->bytes;

		if (!is_installed(p->tool))
			continue;
		for (size_t have = p->magic; have <= p->size; have += p->size - p->magic) {
			const int fd = have == p->size ? -1 : file_of(head + have, p->size - have);
			const int before = next_fd();
			char *out = NULL;
			size_t size = 0;

			cr_expect_eq(hr_unpack(&model, hr_packed_by(head, have), head, have, fd,
					       &out, &size),
				     0, "%s: %s", p->tool, model.error.text);
			cr_assert_eq(size, sizeof TEXT - 1, "%s", p->tool);
			cr_expect_str_eq(out, TEXT, "%s", p->tool);
			cr_expect_eq(next_fd(), before, "%s", p->tool);
			cr_expect(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD, "%s",
				  p->tool);
			hr_model_reset(&model);
			if (fd >= 0)
				close(fd);
		}
	}
}

Test(topo_unpack, a_cut_or_damaged_file_is_refused)
{
	for (size_t i = 0; i < TOOLS; i++) {
		const struct packed *p = &packed[i];
		uint8_t bytes[80];
		char want[80];

		if (!is_installed(p->tool))
			continue;
		snprintf(want, sizeof want, "x: %s cannot unpack it: damaged or cut off", p->tool);
		for (unsigned damaged = 0; damaged < 2; damaged++) {
			const int before = next_fd();

			memcpy(bytes, p->bytes, p->size);
			bytes[p->size / 2] ^= (uint8_t)(damaged ? 0x55 : 0);
			hr_model_reset(&model);
			cr_expect_eq(hr_source_parse(&model, "x", bytes,
						     damaged ? p->size : p->size - 5),
				     -EINVAL, "%s", p->tool);
			cr_expect_str_eq(model.error.text, want);
			cr_expect_eq(model.error.kind, HR_ERROR_USAGE);
			cr_expect_eq(model.count, 0u);
			cr_expect_eq(next_fd(), before);
			cr_expect(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
		}
	}
}

/* ---- larger input: a gzip file whose blocks are stored as they are */

static uint32_t sum_of(const char *text, size_t size)
{
	uint32_t sum = ~0u;

	for (size_t i = 0; i < size; i++) {
		sum ^= (uint8_t)text[i];
		for (unsigned bit = 0; bit < 8; bit++)
			sum = sum >> 1 ^ (sum & 1 ? 0xedb88320u : 0);
	}
	return ~sum;
}

static char *stored(const char *text, size_t size, size_t *bytes)
{
	static const uint8_t head[] = { 0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3 };
	const uint32_t end[] = { sum_of(text, size), (uint32_t)size };
	char *to = malloc(size + size / 60000 * 5 + 64), *at = to;

	cr_assert_not_null(to);
	memcpy(at, head, sizeof head);
	at += sizeof head;
	for (size_t done = 0; done < size;) {
		const uint16_t n = size - done < 60000 ? (uint16_t)(size - done) : 60000;
		const uint16_t length[] = { n, (uint16_t)~n };

		*at++ = done + n == size; /* the last block */
		memcpy(at, length, 4);
		memcpy(at + 4, text + done, n);
		at += 4 + n;
		done += n;
	}
	memcpy(at, end, 8);
	*bytes = (size_t)(at + 8 - to);
	return to;
}

static void expect_functions(int err, const char *path, uint32_t count)
{
	cr_expect_eq(err, 0, "%s: %s", path, model.error.text);
	cr_expect_eq(model.count, count, "%s: %u", path, model.count);
}

Test(topo_unpack, a_file_of_many_blocks_is_read_to_its_end)
{
	enum { FUNCTIONS = 3000, LINE = 100 };
	static char text[FUNCTIONS * LINE + 1];
	const int before = next_fd();
	size_t size = 0, bytes;
	char *gz, path[64];
	int fd;

	if (!is_installed("gzip"))
		cr_skip_test("gzip is not installed");
	for (unsigned i = 0; i < FUNCTIONS; i++)
		size += (size_t)snprintf(text + size, sizeof text - size, "%02x:%02x.%x %0*u\n",
					 i >> 8, i >> 3 & 31, i & 7, LINE - 9, i);
	cr_assert_eq(size, (size_t)FUNCTIONS * LINE);
	gz = stored(text, size, &bytes);
	expect_functions(hr_source_parse(&model, "x", gz, bytes), "memory", FUNCTIONS);
	fd = file_of(gz, bytes);
	free(gz);
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	for (unsigned again = 0; again < 2; again++) {
		hr_model_reset(&model);
		slow = again;
		expect_functions(hr_source_open(&model, path), path, FUNCTIONS);
	}
	slow = false;
	close(fd);
	cr_expect_eq(next_fd(), before);
}

Test(topo_unpack, a_file_that_is_packed_twice_is_refused)
{
	size_t bytes;
	char *gz;

	if (!is_installed("gzip"))
		cr_skip_test("gzip is not installed");
	gz = stored((const char *)gzip, sizeof gzip, &bytes);
	cr_expect_eq(hr_source_parse(&model, "x", gz, bytes), -EINVAL);
	cr_expect_str_eq(model.error.text, "x: compressed twice: unpack it first");
	cr_expect_eq(model.error.kind, HR_ERROR_USAGE);
	free(gz);
}

/* An archive, which is not read line by line, ends where the unpacked bytes end. */
Test(topo_unpack, an_unpacked_text_may_be_of_each_format)
{
	static const char xml[] = " \t\r\n<system version=\"1\"><cpu numaid=\"0\"></cpu></system>",
			  list[] = "00:00.0 a\n00:01.0 b"; /* no newline at its end */
	size_t bytes;
	char *gz;

	if (!is_installed("gzip"))
		cr_skip_test("gzip is not installed");
	gz = stored(list, sizeof list - 1, &bytes);
	expect_functions(hr_source_parse(&model, "x", gz, bytes), "list", 2);
	free(gz);
	hr_model_reset(&model);
	gz = stored("00:00.0 a", 9, &bytes); /* one line, which has no newline */
	expect_functions(hr_source_parse(&model, "x", gz, bytes), "line", 1);
	free(gz);
	hr_model_reset(&model);
	gz = stored(xml, sizeof xml - 1, &bytes);
	cr_expect_eq(hr_source_parse(&model, "x", gz, bytes), -ENODATA, "%s", model.error.text);
	free(gz);
}

/* A folder cannot be read like a file. */
Test(topo_unpack, errors_of_reading_are_returned)
{
	const int folder = open("/", O_RDONLY | O_CLOEXEC), before = next_fd();
	const char *head = (const char *)gzip;
	char *out;
	size_t size;

	cr_expect_eq(hr_unpack(&model, hr_packed_by(head, 2), head, 2, folder, &out, &size),
		     -EISDIR);
	cr_expect_eq(next_fd(), before);
	close(folder);
}

/* More than 256 MiB of packed bytes: the reading ends with the piece that is too much. */
Test(topo_unpack, packed_input_has_a_limit)
{
	const char *head = (const char *)gzip;
	const int before = next_fd();

	for (unsigned have = 0; have < 3; have++) {
		const struct hr_packer *packer = hr_packed_by(head, 2);
		char *out;
		size_t size;
		int err;

		hr_error_clear(&model.error);
		reads = 0;
		endless = true;
		err = hr_unpack(&model, packer, head, have, 0, &out, &size);
		endless = false;
		cr_expect_eq(err, -EINVAL);
		cr_expect_str_eq(model.error.text, "larger than 256 MiB");
		cr_expect_eq(model.error.kind, HR_ERROR_USAGE);
		cr_expect_eq(reads, have ? 4096u : 4097u, "%u: %u", have, reads);
	}
	cr_expect_eq(next_fd(), before);
}

Test(topo_unpack, memory_of_the_model_is_needed)
{
	const size_t reserved = model.reserved;
	const char *head = (const char *)gzip;
	char *out;
	size_t size;

	model.reserved = model.used + HR_UNPACKED_MAX;
	cr_expect_eq(hr_unpack(&model, hr_packed_by(head, 2), head, sizeof gzip, -1, &out, &size),
		     -ENOMEM);
	model.reserved = reserved;
}

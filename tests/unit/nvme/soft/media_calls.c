/*
 * Media without a controller: how an image is opened, the text of each refusal, and transfers of
 * several pieces to memory, to a file, and to both.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "config/limits.h"
#include "nvme/soft/internal.h"
#include "tests/harness/error.h"

#define ROWS(a) (sizeof(a) / sizeof((a)[0]))
#define KIB ((size_t)1 << 10)

static char folder[32], path[64];
static struct {
	bool on;
	int open_error, size_error, stat_error; /* 0: the call works */
	int flags, mode, lock;			/* of the calls */
	unsigned holes;				/* calls of fallocate() */
	bool no_holes;
} kernel;

int open(const char *at, int flags, ...)
{
	va_list list;
	int mode;

	va_start(list, flags);
	mode = flags & O_CREAT ? va_arg(list, int) : 0;
	va_end(list);
	if (kernel.on) {
		kernel.flags = flags;
		kernel.mode = mode;
		errno = kernel.open_error;
		if (errno)
			return -1;
	}
	return (int)syscall(SYS_openat, AT_FDCWD, at, flags, mode);
}

int ftruncate(int fd, off_t bytes)
{
	if (kernel.on && kernel.size_error) {
		errno = kernel.size_error;
		return -1;
	}
	return (int)syscall(SYS_ftruncate, fd, bytes);
}

int flock(int fd, int operation)
{
	kernel.lock = operation;
	return (int)syscall(SYS_flock, fd, operation);
}

int fstat(int fd, struct stat *st)
{
	if (kernel.on && kernel.stat_error) {
		errno = kernel.stat_error;
		return -1;
	}
	return fstatat(fd, "", st, AT_EMPTY_PATH);
}

int fallocate(int fd, int mode, off_t offset, off_t bytes)
{
	kernel.holes++;
	if (kernel.no_holes) {
		errno = EOPNOTSUPP;
		return -1;
	}
	return (int)syscall(SYS_fallocate, fd, mode, offset, bytes);
}

static size_t most; /* bytes that one transfer moves; 0: all */

static struct iovec first_of(const struct iovec *vec)
{
	return (struct iovec){ vec->iov_base, vec->iov_len < most ? vec->iov_len : most };
}

ssize_t preadv(int fd, const struct iovec *vec, int count, off_t offset)
{
	const struct iovec part = first_of(vec);

	return syscall(SYS_preadv, fd, most ? &part : vec, most ? 1 : count, offset, 0);
}

ssize_t pwritev(int fd, const struct iovec *vec, int count, off_t offset)
{
	const struct iovec part = first_of(vec);

	return syscall(SYS_pwritev, fd, most ? &part : vec, most ? 1 : count, offset, 0);
}

static void setup(void)
{
	snprintf(folder, sizeof folder, "/tmp/headrace-calls-XXXXXX");
	cr_assert_not_null(mkdtemp(folder));
	snprintf(path, sizeof path, "%s/image", folder);
	memset(&kernel, 0, sizeof kernel);
}

static void teardown(void)
{
	kernel.on = false;
	unlink(path);
	rmdir(folder);
}

TestSuite(media_calls, .init = setup, .fini = teardown, .timeout = 60);

static void make_file(size_t bytes)
{
	const int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	cr_assert(fd >= 0 && ftruncate(fd, (off_t)bytes) == 0);
	close(fd);
}

static unsigned open_files(void)
{
	unsigned count = 0;

	for (int fd = 0; fd < 256; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

#define ABSENT SIZE_MAX
#define NO_FILE \
	"cannot open ('headrace store format' with size= makes one): No such file or directory"

/* The image has `file` bytes, or is absent. Blocks are of 4 KiB. */
Test(media_calls, an_image_is_opened_as_the_options_say)
{
	static const struct {
		size_t file;
		uint64_t bytes; /* size= */
		bool existing, read_only, shared;
		int want;
		enum hr_error_kind kind;
		int flags, lock;
		uint64_t got; /* size of the media */
		const char *says;
	} row[] = {
		{ ABSENT, 8192, false, false, false, 0, 0, O_RDWR | O_CREAT | O_EXCL, LOCK_EX, 8192,
		  "" },
		{ 0, 8192, false, false, true, 0, 0, O_RDWR, LOCK_SH, 8192, "" },
		{ 8192, 8192, false, false, false, 0, 0, O_RDWR, LOCK_EX, 8192, "" },
		{ 8192, 0, false, false, false, 0, 0, O_RDWR, LOCK_EX, 8192, "" },
		{ 8192, 8192, true, false, false, 0, 0, O_RDWR, LOCK_EX, 8192, "" },
		{ 8192, 8192, false, true, false, 0, 0, O_RDONLY, LOCK_SH, 8192, "" },
		{ 8192, 0, true, true, true, 0, 0, O_RDONLY, LOCK_SH, 8192, "" },
		{ ABSENT, 0, false, false, false, -ENOENT, HR_ERROR_MISSING, O_RDWR, 0, 0,
		  "cannot open (size= makes one): No such file or directory" },
		{ ABSENT, 8192, false, true, false, -ENOENT, HR_ERROR_MISSING, O_RDONLY, 0, 0,
		  "cannot open (size= makes one): No such file or directory" },
		{ ABSENT, 8192, true, false, false, -ENOENT, HR_ERROR_MISSING, O_RDWR, 0, 0,
		  NO_FILE },
		{ 0, 8192, true, false, false, -EINVAL, HR_ERROR_USAGE, O_RDWR, LOCK_EX, 0,
		  "the image is empty" },
		{ 0, 8192, false, true, false, -EINVAL, HR_ERROR_USAGE, O_RDONLY, LOCK_SH, 0,
		  "the image is empty" },
		{ 4096, 8192, false, false, false, -EINVAL, HR_ERROR_USAGE, O_RDWR, LOCK_EX, 0,
		  "the image has 4096 bytes, but size= is 8192" },
		{ 0, 0, false, false, false, -EINVAL, HR_ERROR_USAGE, O_RDWR, LOCK_EX, 0,
		  "0 bytes are not whole blocks of 4096 (or none)" },
		{ 4608, 0, false, false, false, -EINVAL, HR_ERROR_USAGE, O_RDWR, LOCK_EX, 0,
		  "4608 bytes are not whole blocks of 4096 (or none)" },
		{ 4096, 0, false, false, false, -EINVAL, HR_ERROR_USAGE, O_RDWR, LOCK_EX, 0,
		  "4096 bytes are less than a block of 4096 for each of 2 namespaces" },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		static struct hr_soft_options options;
		const unsigned before = open_files();
		struct soft_media media;
		char says[256] = "";

		unlink(path);
		if (row[i].file != ABSENT)
			make_file(row[i].file);
		memset(&options, 0, sizeof options);
		memcpy(options.path, path, sizeof path);
		options.bytes = row[i].bytes;
		options.block_bytes = 4096;
		options.namespaces = 2;
		options.existing = row[i].existing;
		options.read_only = row[i].read_only;
		options.shared = row[i].shared;
		kernel.lock = 0;
		kernel.on = true;
		cr_expect_eq(soft_media_open(&media, &options, test_error()), row[i].want,
			     "row %zu: %s", i, test_error_text());
		kernel.on = false;
		if (row[i].want)
			snprintf(says, sizeof says, "soft:%s: %s", path, row[i].says);
		cr_expect_str_eq(test_error_text(), says, "row %zu: %s", i, test_error_text());
		cr_expect_eq(test_error_kind(), row[i].kind, "row %zu", i);
		cr_expect_eq(kernel.flags, row[i].flags | O_CLOEXEC | O_NOCTTY | O_NONBLOCK,
			     "row %zu", i);
		cr_expect_eq(kernel.mode, row[i].flags & O_CREAT ? 0600 : 0, "row %zu", i);
		cr_expect_eq(kernel.lock, row[i].lock ? row[i].lock | LOCK_NB : 0, "row %zu", i);
		if (!row[i].want) {
			cr_expect_eq(media.bytes, row[i].got, "row %zu", i);
			cr_expect_null(media.memory);
			soft_media_close(&media);
		}
		cr_expect_eq(media.fd, -1);
		cr_expect_eq(open_files(), before, "row %zu: the file is left open", i);
	}
}

Test(media_calls, each_call_that_fails_is_named)
{
	static const struct {
		int open_error, size_error, stat_error;
		bool read_only, taken;
		int want;
		enum hr_error_kind kind;
		const char *says;
	} row[] = {
		{ EACCES, 0, 0, false, false, -EACCES, HR_ERROR_MISSING,
		  "cannot open for reading and writing: Permission denied" },
		{ EACCES, 0, 0, true, false, -EACCES, HR_ERROR_MISSING,
		  "cannot open for reading: Permission denied" },
		{ ENOENT, 0, 0, false, false, -ENOENT, HR_ERROR_MISSING,
		  "cannot open for reading and writing: No such file or directory" },
		{ 0, ENOSPC, 0, false, false, -ENOSPC, HR_ERROR_FAILED,
		  "cannot set the size: No space left on device" },
		{ 0, 0, EIO, false, false, -EIO, HR_ERROR_MISSING,
		  "cannot open for reading and writing: Input/output error" },
		{ 0, 0, 0, false, true, -EBUSY, HR_ERROR_MISSING, "in use by another controller" },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		static struct hr_soft_options options;
		struct soft_media media;
		char says[256];
		int other;

		make_file(0);
		other = open(path, O_RDWR | O_CLOEXEC);
		if (row[i].taken)
			flock(other, LOCK_SH);
		memset(&options, 0, sizeof options);
		memcpy(options.path, path, sizeof path);
		options.bytes = 8192;
		options.block_bytes = 4096;
		options.namespaces = 1;
		options.read_only = row[i].read_only;
		kernel.open_error = row[i].open_error;
		kernel.size_error = row[i].size_error;
		kernel.stat_error = row[i].stat_error;
		kernel.on = true;
		cr_expect_eq(soft_media_open(&media, &options, test_error()), row[i].want,
			     "row %zu", i);
		kernel.on = false;
		snprintf(says, sizeof says, "soft:%s: %s", path, row[i].says);
		cr_expect_str_eq(test_error_text(), says, "row %zu: %s", i, test_error_text());
		cr_expect_eq(test_error_kind(), row[i].kind, "row %zu", i);
		cr_expect_eq(media.fd, -1);
		close(other);
	}
}

Test(media_calls, what_is_no_file_is_refused)
{
	static struct hr_soft_options options = { .block_bytes = 4096, .namespaces = 1 };
	struct soft_media media;

	memcpy(options.path, folder, sizeof folder);
	options.read_only = true; /* a folder can be opened for reading */
	cr_expect_eq(soft_media_open(&media, &options, test_error()), -EISDIR);
	cr_expect_eq(test_error_kind(), HR_ERROR_USAGE);
	cr_expect(strstr(test_error_text(), ": is a folder, expected a file"));
	snprintf(options.path, sizeof options.path, "/dev/null");
	cr_expect_eq(soft_media_open(&media, &options, test_error()), -EINVAL);
	cr_expect_str_eq(test_error_text(), "soft:/dev/null: is a device, expected a file");
	cr_expect_eq(test_error_kind(), HR_ERROR_USAGE);
	/* memory: the same checks of its size */
	options = (struct hr_soft_options){ .block_bytes = 4096, .namespaces = 3, .bytes = 8192 };
	cr_expect_eq(soft_media_open(&media, &options, test_error()), -EINVAL);
	cr_expect_str_eq(test_error_text(), "soft:memory: 8192 bytes are less than a block of 4096 "
					    "for each of 3 namespaces");
	options.bytes = 8192 + 512;
	cr_expect_eq(soft_media_open(&media, &options, test_error()), -EINVAL);
	cr_expect_str_eq(test_error_text(),
			 "soft:memory: 8704 bytes are not whole blocks of 4096 (or none)");
	options.namespaces = 2;
	options.bytes = 8192;
	cr_expect_eq(soft_media_open(&media, &options, test_error()), 0);
	cr_expect_not_null(media.memory);
	soft_media_close(&media);
	options.null = true;
	cr_expect_eq(soft_media_open(&media, &options, test_error()), 0);
	cr_expect_null(media.memory);
	soft_media_close(&media);
}

/* ---- transfers */

#define MEDIA (512 * KIB)
#define MAX_PIECES 130u /* more than two system calls take */

enum kind { IN_MEMORY, IN_FILE, IN_BOTH, KINDS };

static void open_kind(struct soft_media *media, enum kind kind)
{
	static struct hr_soft_options options;

	memset(&options, 0, sizeof options);
	if (kind != IN_MEMORY)
		memcpy(options.path, path, sizeof path);
	options.bytes = MEDIA;
	options.block_bytes = 512;
	options.namespaces = 1;
	options.populate = kind == IN_BOTH;
	unlink(path);
	cr_assert_eq(soft_media_open(media, &options, test_error()), 0, "%s", test_error_text());
	cr_assert_eq(media->memory != NULL, kind != IN_FILE);
}

/* Pieces of unequal size, with gaps between them. Returns their bytes. */
static size_t make_pieces(struct iovec *vec, unsigned count, uint8_t *at)
{
	size_t bytes = 0;

	for (unsigned i = 0; i < count; i++) {
		vec[i] = (struct iovec){ at, 512 * (1 + i % 3) };
		at += vec[i].iov_len + 64;
		bytes += vec[i].iov_len;
	}
	return bytes;
}

static void expect_file(const struct soft_media *media, const uint8_t *want, size_t row)
{
	static uint8_t data[MEDIA];

	if (media->fd < 0)
		return;
	cr_assert_eq(pread(media->fd, data, sizeof data, 0), (ssize_t)sizeof data);
	cr_expect_eq(memcmp(data, want, sizeof data), 0, "row %zu: the file differs", row);
}

Test(media_calls, pieces_go_to_consecutive_bytes)
{
	static const struct {
		uint64_t offset;
		unsigned count;
	} row[] = {
		{ 0, 1 }, { 512, 2 }, { 4096, 3 }, { 3072, 64 }, { 0, 65 }, { 512, MAX_PIECES }
	};
	static uint8_t host[MAX_PIECES * 2048], back[sizeof host], want[MEDIA];
	struct iovec vec[MAX_PIECES];

	for (size_t i = 0; i < sizeof host; i++)
		host[i] = (uint8_t)(i % 253 + 1);
	for (unsigned pass = 0; pass < 2 * KINDS; pass++) {
		const enum kind kind = (enum kind)(pass % KINDS);
		struct soft_media media;

		most = pass < KINDS ? 0 : 300; /* a part of a piece */
		open_kind(&media, kind);
		memset(want, 0, sizeof want);
		for (size_t i = 0; i < ROWS(row); i++) {
			size_t at = row[i].offset;

			make_pieces(vec, row[i].count, host + i);
			cr_expect_eq(soft_media_write(&media, row[i].offset, vec, row[i].count), 0);
			for (unsigned k = 0; k < row[i].count; at += vec[k++].iov_len)
				memcpy(want + at, vec[k].iov_base, vec[k].iov_len);
			expect_file(&media, want, i);
			if (media.memory)
				cr_expect_eq(memcmp(media.memory, want, MEDIA), 0, "row %zu", i);
			memset(back, 0, sizeof back);
			make_pieces(vec, row[i].count, back + i);
			cr_expect_eq(soft_media_read(&media, row[i].offset, vec, row[i].count), 0);
			at = row[i].offset;
			for (unsigned k = 0; k < row[i].count; at += vec[k++].iov_len)
				cr_expect_eq(memcmp(want + at, vec[k].iov_base, vec[k].iov_len), 0,
					     "kind %d, row %zu, piece %u", (int)kind, i, k);
			cr_expect_eq(back[i + vec[0].iov_len], 0, "a gap is written");
		}
		cr_expect_eq(soft_media_sync(&media), 0);
		soft_media_close(&media);
	}
	most = 0;
}

/* Whether or not the file system has holes. */
Test(media_calls, a_discard_zeroes_its_bytes)
{
	static const struct {
		uint64_t offset, bytes;
	} row[] = {
		{ 0, 512 }, { 512, 4096 }, { 4096, 0 }, { 1024, 64 * KIB }, { 512, 200 * KIB }
	};
	static uint8_t data[MEDIA], want[MEDIA];

	for (unsigned i = 0; i < 2 * KINDS; i++) {
		const struct iovec vec = { data, sizeof data };
		struct soft_media media;

		kernel.no_holes = i >= KINDS;
		open_kind(&media, (enum kind)(i % KINDS));
		for (size_t k = 0; k < ROWS(row); k++) {
			memset(data, 0x99, sizeof data);
			cr_expect_eq(soft_media_write(&media, 0, &vec, 1), 0);
			kernel.holes = 0;
			cr_expect_eq(soft_media_discard(&media, row[k].offset, row[k].bytes), 0);
			cr_expect_eq(kernel.holes, media.fd >= 0 && row[k].bytes);
			memset(want, 0x99, sizeof want);
			memset(want + row[k].offset, 0, row[k].bytes);
			expect_file(&media, want, k);
			cr_expect_eq(soft_media_read(&media, 0, &vec, 1), 0);
			cr_expect_eq(memcmp(data, want, sizeof want), 0, "kind %u, row %zu", i, k);
		}
		soft_media_close(&media);
	}
}

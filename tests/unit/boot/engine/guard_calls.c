/* The contents of a disk with a libblkid that the test plays: the parts that are read, each failure,
 * and each text. */
#include "boot/engine/guard.h"

#include <blkid/blkid.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "boot/engine/signals.h"
#include "cache/store/objmap.h"
#include "tests/harness/calls.h"
#include "tests/harness/error.h"

TestSuite(guard_calls, .timeout = 60);

#define PIECE (256u << 10)

static unsigned calls, fails_at;
static int result, reserved_err; /* of the probe; of the look for a store */
static uint64_t reserved;	 /* bytes before the objects of a store; 0: there is none */
static const char *type, *table, *label;
static bool interrupted, short_write, none;
static unsigned probes;

static int fail(void)
{
	return ++calls == fails_at ? -1 : 0;
}

int hr_store_reserved(struct hr_blk *blk, uint64_t *bytes, uint8_t page[HR_PAGE],
		      struct hr_error *e)
{
	*bytes = reserved;
	return reserved_err;
}

bool hr_signals_pending(void)
{
	return interrupted;
}

static int read_disk(struct hr_blk *blk, uint64_t offset, void *data, size_t bytes,
		     struct hr_error *e)
{
	calls_note("%llu+%zu ", (unsigned long long)offset, bytes);
	memset(data, 1, bytes);
	return ++calls == fails_at ? 0x281 : 0;
}

ssize_t pwrite(int fd, const void *data, size_t bytes, off_t offset)
{
	calls_note("w%lld+%zu ", (long long)offset, bytes);
	return short_write ? (ssize_t)bytes - 1 : (ssize_t)bytes;
}

blkid_probe blkid_new_probe(void)
{
	static int it;

	if (none)
		return NULL;
	probes++;
	return (blkid_probe)(void *)&it;
}

void blkid_free_probe(blkid_probe probe)
{
	probes--;
}

int blkid_probe_set_device(blkid_probe probe, int fd, blkid_loff_t offset, blkid_loff_t size)
{
	calls_note("size%lld ", (long long)lseek(fd, 0, SEEK_END));
	cr_expect(offset == 0 && size == 0);
	return fail();
}

int blkid_probe_set_sectorsize(blkid_probe probe, unsigned bytes)
{
	calls_note("sector%u ", bytes);
	return fail();
}

int blkid_probe_enable_superblocks(blkid_probe probe, int enable)
{
	cr_expect_eq(enable, 1);
	return fail();
}

int blkid_probe_set_superblocks_flags(blkid_probe probe, int flags)
{
	cr_expect_eq(flags, BLKID_SUBLKS_TYPE | BLKID_SUBLKS_LABEL | BLKID_SUBLKS_BADCSUM);
	return fail();
}

int blkid_probe_enable_partitions(blkid_probe probe, int enable)
{
	cr_expect_eq(enable, 1);
	return fail();
}

int blkid_probe_set_partitions_flags(blkid_probe probe, int flags)
{
	cr_expect_eq(flags, BLKID_PARTS_FORCE_GPT);
	return fail();
}

int blkid_do_safeprobe(blkid_probe probe)
{
	calls_note("probe ");
	return result;
}

int blkid_probe_lookup_value(blkid_probe probe, const char *name, const char **data, size_t *len)
{
	const char *found = strcmp(name, "TYPE") == 0	  ? type
			    : strcmp(name, "PTTYPE") == 0 ? table
			    : strcmp(name, "LABEL") == 0  ? label
							  : NULL;

	if (!found)
		return -1;
	*data = found;
	return 0;
}

static char text[HR_GUARD_TEXT];

static int look(uint64_t bytes, uint32_t block_bytes)
{
	static const struct hr_blk_ops ops = { .read = read_disk };
	struct hr_blk blk = {
		.ops = &ops, .name = "d", .bytes = bytes, .block_bytes = block_bytes
	};
	int next = dup(0), after, err;

	close(next);
	calls = 0;
	calls_take();
	memset(text, 'x', sizeof text - 1);
	err = hr_guard_look(&blk, text, test_error());
	after = dup(0);
	close(after);
	cr_expect_eq(after, next, "no descriptor is left");
	cr_expect_eq(probes, 0u, "no probe is left");
	return err;
}

/* Reads and writes of [from, to) by pieces. */
static size_t expect(char *to_text, size_t at, uint64_t from, uint64_t to)
{
	for (; from < to; from += PIECE) {
		const uint64_t n = to - from < PIECE ? to - from : PIECE;

		at += (size_t)sprintf(to_text + at, "%llu+%llu w%llu+%llu ",
				      (unsigned long long)from, (unsigned long long)n,
				      (unsigned long long)from, (unsigned long long)n);
	}
	return at;
}

Test(guard_calls, both_ends_of_a_disk_or_what_a_store_reserves_are_read)
{
	static const struct {
		uint64_t bytes;
		uint32_t block;
		uint64_t reserved, head, tail;
	} row[] = {
		{ HR_GUARD_HEAD + HR_GUARD_TAIL + 4096, 4096, 0, HR_GUARD_HEAD,
		  HR_GUARD_HEAD + 4096 },
		{ HR_GUARD_HEAD + HR_GUARD_TAIL, 512, 0, HR_GUARD_HEAD, HR_GUARD_HEAD },
		{ HR_GUARD_HEAD + HR_GUARD_TAIL - 512, 512, 0, HR_GUARD_HEAD, HR_GUARD_HEAD },
		{ HR_GUARD_HEAD, 512, 0, HR_GUARD_HEAD, HR_GUARD_HEAD },
		{ 4096, 512, 0, 4096, 4096 },
		{ HR_GUARD_HEAD + HR_GUARD_TAIL + 4096 + 512, 4096, 0, HR_GUARD_HEAD,
		  HR_GUARD_HEAD + 4096 },
		{ HR_GUARD_HEAD + HR_GUARD_TAIL + 4096, 4096, 8192, 8192, UINT64_MAX },
		{ 4096, 4096, 8192, 4096, UINT64_MAX },
	};
	static char want[8192];

	result = 1;
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		size_t at = expect(want, 0, 0, row[i].head);

		at = expect(want, at, row[i].tail, row[i].bytes);
		sprintf(want + at, "size%llu sector%u probe ", (unsigned long long)row[i].bytes,
			row[i].block);
		reserved = row[i].reserved;
		cr_expect_eq(look(row[i].bytes, row[i].block), 0, "%zu", i);
		cr_expect_str_eq(calls_take(), want);
		cr_expect_str_eq(text, "");
		cr_expect_str_eq(test_error_text(), "");
	}
}

Test(guard_calls, what_is_found_is_described)
{
	static const struct {
		int result, want;
		const char *type, *table, *label, *text;
	} row[] = {
		{ 1, 0, "ext4", NULL, NULL, "" },
		{ 0, -EEXIST, "ext4", NULL, NULL, "ext4" },
		{ 0, -EEXIST, "ext4", NULL, "a~ \x1f\x7f\xffz",
		  "ext4 'a~ ??"
		  "?z'" },
		{ 0, -EEXIST, "ext4", "gpt", "x", "ext4 and a partition table (gpt)" },
		{ 0, -EEXIST, NULL, "gpt", "x", "a partition table (gpt)" },
		{ 0, -EEXIST, NULL, NULL, NULL, "a partition table (?)" },
		{ -2, -EEXIST, NULL, NULL, NULL, "signatures of several file systems" },
		{ -1, -EIO, NULL, NULL, NULL, "" },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		result = row[i].result;
		type = row[i].type;
		table = row[i].table;
		label = row[i].label;
		cr_expect_eq(look(4096, 512), row[i].want, "%zu", i);
		cr_expect_str_eq(text, row[i].text);
		cr_expect_str_eq(test_error_text(),
				 row[i].want == -EIO ? "d: cannot identify the contents of the "
						       "disk: libblkid fails"
						     : "");
		cr_expect_eq(test_error_kind(),
			     row[i].want == -EIO ? HR_ERROR_FAILED : HR_ERROR_NONE);
	}
}

#define NO_MEMORY "d: out of memory while identifying the contents of the disk"

Test(guard_calls, each_failure_is_an_error_and_leaves_nothing)
{
	result = 1;
	fails_at = 2; /* of two pieces */
	cr_expect_eq(look(PIECE + 512, 512), 0x281);
	cr_expect_str_eq(test_error_text(), "");
	cr_expect_null(strstr(calls_take(), "size"));
	for (fails_at = 2; fails_at <= 7; fails_at++) { /* each step of the probe */
		cr_expect_eq(look(4096, 512), -ENOMEM, "%u", fails_at);
		cr_expect_str_eq(test_error_text(), NO_MEMORY);
		cr_expect_eq(test_error_kind(), HR_ERROR_MISSING);
		cr_expect_null(strstr(calls_take(), "probe"));
	}
	fails_at = 0;
	short_write = true;
	cr_expect_eq(look(PIECE + 512, 512), -ENOMEM);
	cr_expect_str_eq(test_error_text(), NO_MEMORY);
	cr_expect_str_eq(calls_take(), "0+262144 w0+262144 ");
	short_write = false;
	interrupted = true;
	cr_expect_eq(look(4096, 512), -EINTR);
	cr_expect_str_eq(calls_take(), "");
	interrupted = false;
	reserved_err = 0x281;
	cr_expect_eq(look(4096, 512), 0x281);
	cr_expect_str_eq(calls_take(), "");
	reserved_err = 0;
	none = true;
	cr_expect_eq(look(4096, 512), -ENOMEM);
	cr_expect_str_eq(test_error_text(), NO_MEMORY);
	none = false;
}

/* Descriptor 0 is as good as any other. */
Test(guard_calls, the_first_descriptor_may_be_the_file)
{
	static const struct hr_blk_ops ops = { .read = read_disk };
	struct hr_blk blk = { .ops = &ops, .name = "d", .bytes = 4096, .block_bytes = 512 };
	const int kept = dup(0);
	int err, closed;

	result = 1;
	close(0);
	err = hr_guard_look(&blk, text, test_error());
	closed = fcntl(0, F_GETFD);
	dup2(kept, 0);
	close(kept);
	cr_expect_eq(err, 0, "%s", test_error_text());
	cr_expect_eq(closed, -1);
}

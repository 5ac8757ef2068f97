/*
 * `headrace store put` and `get`: a file in or out of an object, in constant memory.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/clock.h"
#include "boot/cmd/report/usage.h"
#include "boot/engine/exit.h"
#include "config/log.h"
#include "boot/engine/progress.h"
#include "boot/engine/signals.h"
#include "boot/cmd/store/store.h"
#include "boot/cmd/report/target.h"
#include "cache/crc32c.h"

#define BUFFER_BYTES (4u << 20) /* two rounds of the disk's bounce buffers */

/* One transfer between a file and an object. */
struct copy {
	struct hr_ssd *ssd;
	const char *file; /* for messages */
	int fd;
	uint64_t bytes;
	uint8_t *buffer;
	uint32_t crc;
	uint64_t began_ns;
	struct hr_progress progress;
	struct hr_target target; /* of get */
};

/* Extents end at HR_STORE_ALIGN, so the last piece is moved rounded up to that. */
static size_t padded(size_t bytes)
{
	return (bytes + HR_STORE_ALIGN - 1) & ~((size_t)HR_STORE_ALIGN - 1);
}

static size_t piece(const struct copy *copy, uint64_t at)
{
	const uint64_t left = copy->bytes - at;

	return left < BUFFER_BYTES ? (size_t)left : BUFFER_BYTES;
}

static int file_error(const struct copy *copy, const char *what)
{
	const int err = errno;

	hr_error("%s: %s: %s", copy->file, what, strerror(err));
	return HR_EXIT_FAILED;
}

static int interrupted(const char *object)
{
	hr_error("'%s': interrupted", object);
	return HR_EXIT_FAILED;
}

static int begin(struct copy *copy, struct hr_ssd *ssd, const struct hr_store_wishes *wishes)
{
	*copy = (struct copy){ .ssd = ssd, .file = wishes->arg[1], .fd = -1 };
	copy->buffer = aligned_alloc(HR_PAGE, BUFFER_BYTES);
	if (!copy->buffer)
		return hr_store_failed(ssd, wishes->arg[0], -ENOMEM);
	return 0;
}

static void start(struct copy *copy, const struct hr_store_wishes *wishes)
{
	copy->began_ns = hr_now_ns();
	hr_progress_begin(&copy->progress, !wishes->quiet, wishes->arg[0], 0, copy->bytes,
			  copy->began_ns);
}

static void end(struct copy *copy)
{
	if (copy->fd > STDERR_FILENO)
		close(copy->fd);
	free(copy->buffer);
}

static void print_result(const struct copy *copy, const char *object)
{
	const double seconds = (double)(hr_now_ns() - copy->began_ns) / 1e9;
	char rate[24];

	hr_rate_format(rate, sizeof rate, seconds > 0 ? (double)copy->bytes / seconds : 0);
	printf("%s: %" PRIu64 " bytes, CRC-32C %08x, %s\n", object, copy->bytes, copy->crc, rate);
}

/* ---- put */

static int open_source(struct copy *copy, const struct hr_store_wishes *wishes)
{
	struct stat st;

	copy->fd = strcmp(copy->file, "-") == 0 ? STDIN_FILENO
						: open(copy->file, O_RDONLY | O_CLOEXEC);
	if (copy->fd == STDIN_FILENO)
		copy->file = "standard input";
	if (copy->fd < 0 || fstat(copy->fd, &st) != 0)
		return file_error(copy, "cannot open");
	if (S_ISDIR(st.st_mode)) {
		errno = EISDIR;
		return file_error(copy, "cannot store");
	}
	if (hr_target_is_ours(copy->fd, &st)) {
		hr_error("%s: is, or holds, the store that is written; expected another file",
			 copy->file);
		return HR_EXIT_USAGE;
	}
	if (!wishes->has_size && !S_ISREG(st.st_mode))
		return hr_usage_error("store put", "%s: how long it is must be said with --size",
				      copy->file);
	copy->bytes = wishes->has_size ? wishes->size : (uint64_t)st.st_size;
	if (S_ISREG(st.st_mode))
		(void)posix_fadvise(copy->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
	return 0;
}

/* Read exactly `bytes`. 0, or an exit code. */
static int read_piece(struct copy *copy, const char *object, uint64_t at, size_t bytes)
{
	size_t have = 0;

	while (have < bytes) {
		const ssize_t n = read(copy->fd, copy->buffer + have, bytes - have);

		if (hr_signals_pending())
			return interrupted(object);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return file_error(copy, "cannot read");
		if (n == 0) {
			hr_error("%s: ended after %" PRIu64 " of %" PRIu64 " bytes", copy->file,
				 at + have, copy->bytes);
			return HR_EXIT_FAILED;
		}
		have += (size_t)n;
	}
	return 0;
}

/* Nothing may be left: a file that grew, or a stream longer than --size, is not what was asked. */
static int expect_end(struct copy *copy)
{
	char more;
	ssize_t n;

	do
		n = read(copy->fd, &more, 1);
	while (n < 0 && errno == EINTR && !hr_signals_pending());
	if (n < 0)
		return file_error(copy, "cannot read");
	if (n > 0) {
		hr_error("%s: is longer than %" PRIu64 " bytes", copy->file, copy->bytes);
		return HR_EXIT_FAILED;
	}
	return 0;
}

static int put_data(struct copy *copy, const struct hr_object *object)
{
	struct hr_blk *blk = copy->ssd->blk;

	for (uint64_t at = 0; at < copy->bytes; at += BUFFER_BYTES) {
		const size_t bytes = piece(copy, at), whole = padded(bytes);
		int err = read_piece(copy, object->name, at, bytes);

		if (err)
			return err;
		memset(copy->buffer + bytes, 0, whole - bytes);
		copy->crc = hr_crc32c(copy->crc, copy->buffer, bytes);
		err = blk->ops->write(blk, object->offset + at, copy->buffer, whole, false);
		if (err)
			return hr_store_failed(copy->ssd, object->name, err);
		hr_progress_update(&copy->progress, at + bytes, hr_now_ns());
	}
	return expect_end(copy);
}

/* What was begun goes away again, if the disk still can. */
static void undo(struct copy *copy, const char *object, uint64_t id)
{
	if (copy->ssd->disk.dead || hr_store_remove(&copy->ssd->store, id) != 0)
		hr_error("%s: '%s' stays as an incomplete object; 'rm --pending' removes it",
			 copy->ssd->transport.name, object);
}

static int put_object(struct copy *copy, const struct hr_store_wishes *wishes)
{
	struct hr_store *store = &copy->ssd->store;
	const char *name = wishes->arg[0];
	struct hr_object *object;
	uint64_t id;
	int code, err = hr_store_create(store, name, copy->bytes, 0, wishes->replace, &object);

	if (err)
		return hr_store_failed(copy->ssd, name, err);
	id = object->id;
	start(copy, wishes);
	code = put_data(copy, object);
	hr_progress_end(&copy->progress);
	if (!code && hr_signals_pending())
		code = interrupted(name);
	if (!code) {
		err = hr_store_finish(store, id, true, copy->crc);
		code = err ? hr_store_failed(copy->ssd, name, err) : 0;
	}
	if (code)
		undo(copy, name, id);
	else
		print_result(copy, name);
	return code;
}

int hr_store_cmd_put(struct hr_ssd *ssd, const struct hr_store_wishes *wishes)
{
	struct copy copy;
	int code = begin(&copy, ssd, wishes);

	if (!code)
		code = open_source(&copy, wishes);
	if (!code)
		code = put_object(&copy, wishes);
	end(&copy);
	return code;
}

/* ---- get */

static int write_piece(struct copy *copy, const char *object, size_t bytes)
{
	size_t done = 0;

	while (done < bytes) {
		const ssize_t n = write(copy->fd, copy->buffer + done, bytes - done);

		if (hr_signals_pending())
			return interrupted(object);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return file_error(copy, "cannot write");
		done += (size_t)n;
	}
	return 0;
}

static int get_data(struct copy *copy, const struct hr_object *object)
{
	struct hr_blk *blk = copy->ssd->blk;

	for (uint64_t at = 0; at < copy->bytes; at += BUFFER_BYTES) {
		const size_t bytes = piece(copy, at);
		int err = blk->ops->read(blk, object->offset + at, copy->buffer, padded(bytes));

		if (err)
			return hr_store_failed(copy->ssd, object->name, err);
		copy->crc = hr_crc32c(copy->crc, copy->buffer, bytes);
		err = write_piece(copy, object->name, bytes);
		if (err)
			return err;
		hr_progress_update(&copy->progress, at + bytes, hr_now_ns());
	}
	return 0;
}

static int check_crc(const struct copy *copy, const struct hr_object *object)
{
	if (!(object->flags & HR_OBJECT_HAS_CRC) || object->crc == copy->crc)
		return 0;
	hr_error("%s: '%s': CRC-32C of what was read is %08x, should be %08x: %s",
		 copy->ssd->transport.name, object->name, copy->crc, object->crc,
		 copy->target.temporary[0]
			 ? "no file is made; FILE '-' writes the damaged data to standard output"
			 : "damaged data was written");
	return HR_EXIT_DEVICE;
}

/* Only after the object is known to exist, so that a wrong name leaves FILE alone. */
static int get_object(struct copy *copy, const struct hr_object *object,
		      const struct hr_store_wishes *wishes)
{
	int code = hr_target_open(&copy->target, copy->file, wishes->force);

	if (code)
		return code;
	copy->file = copy->target.name;
	copy->fd = copy->target.fd;
	copy->bytes = object->bytes;
	start(copy, wishes);
	code = get_data(copy, object);
	hr_progress_end(&copy->progress);
	if (!code)
		code = check_crc(copy, object);
	if (code)
		hr_target_discard(&copy->target);
	else
		code = hr_target_commit(&copy->target);
	if (!code && copy->fd != STDOUT_FILENO)
		print_result(copy, object->name);
	copy->fd = -1;
	return code;
}

int hr_store_cmd_get(struct hr_ssd *ssd, const struct hr_store_wishes *wishes)
{
	const struct hr_object *object = hr_store_wanted(ssd, wishes->arg[0]);
	struct copy copy;
	int code;

	if (!object)
		return HR_EXIT_FAILED;
	code = begin(&copy, ssd, wishes);
	if (!code)
		code = get_object(&copy, object, wishes);
	end(&copy);
	return code;
}

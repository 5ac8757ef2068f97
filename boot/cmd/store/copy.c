/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `headrace store put` and `get`: copy a file to or from an object, in constant memory.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/base/clock.h"
#include "boot/cmd/report/output.h"
#include "config/base/error.h"
#include "config/base/process.h"
#include "config/base/log.h"
#include "config/base/files.h"
#include "boot/engine/runner/progress.h"
#include "boot/cmd/store/store.h"
#include "cache/crc32c.h"

#define BUFFER_BYTES (4u << 20) /* two rounds of the disk's bounce buffers */
#define ALIVE_MS 5000

/* One transfer between a file and an object. */
struct copy {
	struct hr_store_backend *access;
	const char *file; /* for messages */
	int fd;
	uint64_t bytes;
	uint8_t *buffer;
	uint32_t crc;
	/* put: the object has bytes from..to - 1 of the file, and the file has this checksum */
	uint64_t from, to;
	uint32_t file_crc;
	uint64_t began_ns;
	struct hr_progress progress;
	struct hr_target target; /* for get */
};

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

static int open_copy(struct copy *copy, struct hr_store_backend *access,
		     const struct hr_store_request *request)
{
	*copy = (struct copy){ .access = access, .file = request->arg[1], .fd = -1 };
	copy->buffer = hr_not_dumped(aligned_alloc(HR_PAGE, BUFFER_BYTES), BUFFER_BYTES);
	if (copy->buffer)
		return 0;
	hr_error("%s: '%s': out of memory for a buffer of %u bytes", access->disk, request->arg[0],
		 BUFFER_BYTES);
	return HR_EXIT_MISSING;
}

/* Wait until the file can be read or written; meanwhile tell the appliance that this process
 * lives. 0, or an exit code. */
static int wait_for_file(struct copy *copy, short events)
{
	struct pollfd wanted[2] = { { .fd = copy->fd, .events = events }, { .events = POLLIN } };
	int code = 0;

	if (!copy->access->alive)
		return 0;
	wanted[1].fd = copy->access->watched(copy->access->to);
	while (!code && !hr_signals_pending() && poll(wanted, 2, ALIVE_MS) >= 0) {
		if (wanted[0].revents && !wanted[1].revents)
			break;
		code = copy->access->alive(copy->access->to);
	}
	return code;
}

/* True when FILE is the image of the store, which another process has open. */
static bool is_image(const struct copy *copy, const struct stat *st)
{
	char text[64];

	snprintf(text, sizeof text, "image:%llx:%llx/", (unsigned long long)st->st_dev,
		 (unsigned long long)st->st_ino);
	return strncmp(copy->access->identity, text, strlen(text)) == 0;
}

static int refuse_image(const struct copy *copy)
{
	hr_error("%s: is the image of the store; expected another file", copy->file);
	return HR_EXIT_USAGE;
}

static void start_progress(struct copy *copy, const struct hr_store_request *request)
{
	copy->began_ns = hr_now_ns();
	hr_progress_begin(&copy->progress, !request->quiet, request->arg[0], 0, copy->bytes,
			  copy->began_ns);
}

static void close_copy(struct copy *copy)
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

static int unknown_length(const struct copy *copy)
{
	return hr_usage_error("store put", "%s: its length is unknown; give it with --size",
			      copy->file);
}

static int open_source(struct copy *copy, const struct hr_store_request *request)
{
	/* with a length, the file may also be a device, or a FIFO whose writer comes later */
	const unsigned types = request->has_size ? HR_OPEN_ANY : HR_OPEN_FILE;
	const char *why;
	struct stat st;

	copy->fd = STDIN_FILENO;
	if (strcmp(copy->file, "-") != 0)
		copy->fd = hr_open(copy->file, O_RDONLY, types, &why);
	else
		copy->file = "standard input";
	if (copy->fd == -EINVAL)
		return unknown_length(copy);
	errno = copy->fd < 0 ? -copy->fd : 0;
	if (copy->fd < 0 || fstat(copy->fd, &st) != 0)
		return file_error(copy, errno == EISDIR ? "cannot store" : "cannot open");
	if (S_ISDIR(st.st_mode)) {
		errno = EISDIR;
		return file_error(copy, "cannot store");
	}
	if (is_image(copy, &st))
		return refuse_image(copy);
	if (hr_target_is_ours(copy->fd, &st)) {
		hr_error(
			"%s: is or contains the store that this command writes; expected another file",
			copy->file);
		return HR_EXIT_USAGE;
	}
	if (!request->has_size && !S_ISREG(st.st_mode))
		return unknown_length(copy);
	copy->bytes = request->has_size ? request->size : (uint64_t)st.st_size;
	if (S_ISREG(st.st_mode))
		(void)posix_fadvise(copy->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
	return 0;
}

#define NPY_MAGIC "\x93NUMPY"
#define NPY_HEADER_MAX 65536u

static int refuse_npy(const struct copy *copy, const char *why)
{
	hr_error("%s: %s; expected a file of numpy.save() with an array of numbers in C order and "
		 "little-endian",
		 copy->file, why);
	return HR_EXIT_USAGE;
}

/* Go to the numbers of a file of NumPy (numpy.lib.format, versions 1 to 3). 0, or an exit code. */
static int skip_header(struct copy *copy)
{
	uint8_t head[NPY_HEADER_MAX];
	const ssize_t n = pread(copy->fd, head, sizeof head - 1, 0);
	const char *text = (const char *)head, *descr;
	size_t first, length;

	if (n < 12 || memcmp(head, NPY_MAGIC, 6) != 0)
		return refuse_npy(copy, "is no file of NumPy");
	first = head[6] == 1 ? 10 : 12;
	length = head[8] | (size_t)head[9] << 8;
	if (first == 12)
		length |= (size_t)head[10] << 16 | (size_t)head[11] << 24;
	if (head[6] < 1 || head[6] > 3 || length > (size_t)n - first)
		return refuse_npy(copy, "has no header of NumPy that is known");
	head[first + length] = '\0';
	descr = strstr(text + first, "'descr': '");
	if (!descr || !strchr("<|", descr[10]) || strncmp(descr + 10, "|O", 2) == 0)
		return refuse_npy(copy, "its elements are no little-endian numbers");
	if (!strstr(text + first, "'fortran_order': False"))
		return refuse_npy(copy, "its array is in column order");
	if (lseek(copy->fd, (off_t)(first + length), SEEK_SET) < 0)
		return file_error(copy, "cannot read");
	copy->bytes -= first + length;
	return 0;
}

/* The first bytes of the file: operators would read those of a container as numbers. */
static void warn_of_container(const struct copy *copy, const struct hr_store_request *request,
			      size_t bytes)
{
	const uint8_t *head = copy->buffer;
	const char *kind = bytes < 6			     ? NULL
			   : memcmp(head, "PAR1", 4) == 0    ? "a Parquet file"
			   : memcmp(head, "ARROW1", 6) == 0  ? "an Arrow file"
			   : memcmp(head, NPY_MAGIC, 6) == 0 ? ""
							     : NULL;

	if (kind && !*kind)
		hr_warn("%s: is a file of NumPy, stored with its header, which operators read as "
			"numbers; --npy stores the numbers only",
			copy->file);
	else if (kind)
		hr_warn("%s: is %s, stored as it is: operators do not read its columns as numbers; "
			"in Python, headrace.store('%s').put('%s', COLUMN.to_numpy()) stores the "
			"numbers of one column",
			copy->file, kind, request->ssd, request->arg[0]);
}

/* Read (POLLIN) or write (POLLOUT) `bytes` bytes of the file, which are byte `at` of the object and
 * following. 0, or an exit code. */
static int move_piece(struct copy *copy, const char *object, short direction, uint64_t at,
		      size_t bytes)
{
	const bool in = direction == POLLIN;
	size_t done = 0;

	while (done < bytes) {
		const int code = wait_for_file(copy, direction);
		uint8_t *data = copy->buffer + done;
		ssize_t n;

		if (code)
			return code;
		n = in ? read(copy->fd, data, bytes - done) : write(copy->fd, data, bytes - done);
		if (hr_signals_pending())
			return interrupted(object);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return file_error(copy, in ? "cannot read" : "cannot write");
		if (in && n == 0) {
			hr_error("%s: ended after %" PRIu64 " of %" PRIu64 " bytes", copy->file,
				 at + done, copy->bytes);
			return HR_EXIT_FAILED;
		}
		done += (size_t)n;
	}
	return 0;
}

/* The source must end here. A file that grew, or a stream longer than --size, is an error. */
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

/* The length of the next piece at byte `at` of the file, which ends where the shard begins and ends. */
static size_t put_piece(const struct copy *copy, uint64_t at)
{
	const uint64_t end = at < copy->from ? copy->from : at < copy->to ? copy->to : copy->bytes;

	return end - at < BUFFER_BYTES ? (size_t)(end - at) : BUFFER_BYTES;
}

/* All of the file is read, because shards of one file have its checksum in common. */
static int put_data(struct copy *copy, const struct hr_store_request *request)
{
	const char *object = request->arg[0];
	uint64_t at = 0;

	while (at < copy->bytes) {
		const size_t bytes = put_piece(copy, at);
		int code = move_piece(copy, object, POLLIN, at, bytes);

		if (code)
			return code;
		if (!at && !request->npy)
			warn_of_container(copy, request, bytes);
		copy->file_crc = hr_crc32c(copy->file_crc, copy->buffer, bytes);
		if (at >= copy->from && at < copy->to) {
			copy->crc = hr_crc32c(copy->crc, copy->buffer, bytes);
			code = copy->access->write(copy->access->to, copy->buffer, bytes);
		}
		if (code)
			return code;
		at += bytes;
		hr_progress_update(&copy->progress, at, hr_now_ns());
	}
	return expect_end(copy);
}

static uint64_t first_row(const struct hr_store_request *request, uint64_t rows, uint64_t shard)
{
	const uint64_t unit = request->tile_rows;
	const uint64_t units = rows / unit + (rows % unit != 0);
	const uint64_t begin =
		(uint64_t)((unsigned __int128)units * shard / request->shards) * unit;

	return begin < rows ? begin : rows;
}

/* The rows of the shard. 0, or an exit code. */
static int choose_rows(struct copy *copy, const struct hr_store_request *request,
		       struct hr_store_shard *shard)
{
	const uint64_t rows = copy->bytes / request->row_bytes;

	if (copy->bytes % request->row_bytes) {
		hr_error("%s: %" PRIu64 " bytes are not whole rows of %u bytes", copy->file,
			 copy->bytes, request->row_bytes);
		return HR_EXIT_USAGE;
	}
	if (strlen(request->arg[0]) >= HR_SHARD_NAME_MAX) {
		hr_error("'%s': the name of a shard has at most %u characters", request->arg[0],
			 HR_SHARD_NAME_MAX - 1);
		return HR_EXIT_USAGE;
	}
	*shard = (struct hr_store_shard){ .first_row = first_row(request, rows, request->shard),
					  .rows = rows,
					  .row_bytes = request->row_bytes,
					  .index = (uint16_t)request->shard,
					  .last = (uint16_t)(request->shards - 1) };
	copy->from = shard->first_row * request->row_bytes;
	copy->to = first_row(request, rows, request->shard + 1ull) * request->row_bytes;
	return 0;
}

static void print_put(const struct copy *copy, const struct hr_store_request *request,
		      const struct hr_store_shard *shard)
{
	struct copy of_shard = *copy;

	if (request->shards <= 1) {
		print_result(copy, request->arg[0]);
		return;
	}
	printf("shard %u/%u, %" PRIu64 " of %" PRIu64 " rows from row %" PRIu64 ": ",
	       request->shard, request->shards, (copy->to - copy->from) / request->row_bytes,
	       shard->rows, shard->first_row);
	of_shard.bytes = copy->to - copy->from;
	print_result(&of_shard, request->arg[0]);
}

static int put_object(struct copy *copy, const struct hr_store_request *request)
{
	const bool parts = request->shards > 1;
	struct hr_store_backend *access = copy->access;
	const char *name = request->arg[0];
	struct hr_store_shard shard = { 0 };
	int code;

	copy->to = copy->bytes;
	code = parts ? choose_rows(copy, request, &shard) : 0;
	if (code)
		return code;
	code = access->put(access->to, name, copy->to - copy->from, request->replace,
			   parts ? &shard : NULL);
	if (code)
		return code;
	start_progress(copy, request);
	code = put_data(copy, request);
	hr_progress_end(&copy->progress);
	if (!code && hr_signals_pending())
		code = interrupted(name);
	if (!code)
		code = access->finish(access->to, copy->crc, 1ull << 32 | copy->file_crc);
	if (code)
		access->undo(access->to);
	else
		print_put(copy, request, &shard);
	return code;
}

int hr_store_cmd_put(struct hr_store_backend *access, const struct hr_store_request *request)
{
	struct copy copy;
	int code = open_copy(&copy, access, request);

	if (!code)
		code = open_source(&copy, request);
	if (!code && request->npy)
		code = skip_header(&copy);
	if (!code)
		code = put_object(&copy, request);
	close_copy(&copy);
	return code;
}

/* ---- get */

static int get_data(struct copy *copy, const struct hr_store_object *object)
{
	for (uint64_t at = 0; at < copy->bytes; at += BUFFER_BYTES) {
		const size_t bytes = piece(copy, at);
		int code = copy->access->read(copy->access->to, copy->buffer, bytes);

		if (code)
			return code;
		copy->crc = hr_crc32c(copy->crc, copy->buffer, bytes);
		code = move_piece(copy, object->name, POLLOUT, at, bytes);
		if (code)
			return code;
		hr_progress_update(&copy->progress, at + bytes, hr_now_ns());
	}
	return 0;
}

static int check_crc(const struct copy *copy, const struct hr_store_object *object)
{
	if (!(object->flags & HR_OBJECT_HAS_CRC) || object->crc == copy->crc)
		return 0;
	hr_error("%s: '%s': CRC-32C of the read data is %08x, expected %08x: %s",
		 copy->access->disk, object->name, copy->crc, object->crc,
		 copy->target.temporary[0]
			 ? "no file is made; FILE '-' writes the damaged data to standard output"
			 : "damaged data was written");
	return HR_EXIT_DEVICE;
}

/* The object is looked up first, so that a wrong object name does not change FILE. */
static int get_object(struct copy *copy, const struct hr_store_object *object,
		      const struct hr_store_request *request)
{
	struct stat st;
	int code;

	if (stat(copy->file, &st) == 0 && is_image(copy, &st))
		return refuse_image(copy);
	code = hr_target_open(&copy->target, copy->file, request->force);
	if (code)
		return code;
	copy->file = copy->target.name;
	copy->fd = copy->target.fd;
	copy->bytes = object->bytes;
	start_progress(copy, request);
	code = get_data(copy, object);
	hr_progress_end(&copy->progress);
	if (!code)
		code = check_crc(copy, object);
	if (!code)
		code = copy->access->got(copy->access->to);
	if (code)
		hr_target_discard(&copy->target);
	else
		code = hr_target_commit(&copy->target);
	if (!code && copy->fd != STDOUT_FILENO)
		print_result(copy, object->name);
	copy->fd = -1;
	return code;
}

int hr_store_cmd_get(struct hr_store_backend *access, const struct hr_store_request *request)
{
	struct hr_store_object object;
	struct copy copy;
	int code = access->get(access->to, request->arg[0], &object);

	if (code)
		return code;
	code = open_copy(&copy, access, request);
	if (!code)
		code = get_object(&copy, &object, request);
	close_copy(&copy);
	return code;
}

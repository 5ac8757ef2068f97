/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/base/log.h"
#include "config/base/files.h"
#include "nvme/soft/internal.h"

static int fail_media(struct hr_error *e, enum hr_error_kind kind, int err, const char *path,
		      const char *what)
{
	return hr_fail(e, kind, err, "soft:%s: %s", *path ? path : "memory", what);
}

static int fail_media_errno(struct hr_error *e, enum hr_error_kind kind, const char *path,
			    const char *what)
{
	const int err = -errno;

	return hr_fail(e, kind, err, "soft:%s: %s: %s", *path ? path : "memory", what,
		       strerror(-err));
}

/* Set the size of a new image; check the size of an existing one. */
static int fit(struct soft_media *m, const struct hr_soft_options *options, struct hr_error *e)
{
	const char *path = options->path;
	struct stat st;

	if (fstat(m->fd, &st) != 0)
		return fail_media_errno(e, HR_ERROR_FAILED, path, "stat");
	m->bytes = (uint64_t)st.st_size;
	if (options->bytes == 0 || m->bytes == options->bytes)
		return 0;
	if (m->bytes != 0)
		return hr_fail(e, HR_ERROR_USAGE, -EINVAL,
			       "soft:%s: the image has %llu bytes, but size= is %llu", path,
			       (unsigned long long)m->bytes, (unsigned long long)options->bytes);
	if (options->existing || options->read_only)
		return fail_media(e, HR_ERROR_USAGE, -EINVAL, path, "the image is empty");
	if (ftruncate(m->fd, (off_t)options->bytes) != 0)
		return fail_media_errno(e, HR_ERROR_FAILED, path, "cannot set the size");
	m->bytes = options->bytes;
	return 0;
}

/* With `make` a file that does not exist is made, and so is the target of a dangling link. */
static int open_image(struct soft_media *m, const char *path, bool rw, bool make, const char **why)
{
	int fd = make ? hr_open(path, O_RDWR | O_CREAT | O_EXCL, HR_OPEN_FILE, why) : -EEXIST;

	m->made = fd >= 0;
	if (fd == -EEXIST)
		fd = hr_open(path, rw ? O_RDWR : O_RDONLY, HR_OPEN_FILE, why);
	if (fd == -ENOENT && make)
		fd = hr_open(path, O_RDWR | O_CREAT, HR_OPEN_FILE, why);
	return fd;
}

static int open_file(struct soft_media *m, const struct hr_soft_options *options,
		     struct hr_error *e)
{
	const bool rw = !options->read_only;
	const bool make = rw && options->bytes && !options->existing;
	const char *why;

	m->path = options->path;
	m->fd = open_image(m, options->path, rw, make, &why);
	if (m->fd == -EISDIR || m->fd == -EINVAL)
		return fail_media(e, HR_ERROR_USAGE, m->fd, options->path, why);
	if (m->fd < 0)
		return hr_fail(
			e, HR_ERROR_MISSING, m->fd, "soft:%s: %s: %s", options->path,
			m->fd == -ENOENT && options->existing
				? "cannot open ('headrace store format' with size= makes one)"
			: m->fd == -ENOENT && !make ? "cannot open (size= makes one)"
			: rw			    ? "cannot open for reading and writing"
						    : "cannot open for reading",
			why);
	if (flock(m->fd, (options->shared || !rw ? LOCK_SH : LOCK_EX) | LOCK_NB) != 0)
		return fail_media(e, HR_ERROR_MISSING, -EBUSY, options->path,
				  "in use by another controller");
	return fit(m, options, e);
}

int soft_media_open(struct soft_media *m, const struct hr_soft_options *options, struct hr_error *e)
{
	int err = 0;

	memset(m, 0, sizeof(*m));
	m->fd = -1;
	m->bytes = options->bytes;
	if (*options->path)
		err = open_file(m, options, e);
	if (!err && (*options->path ? options->populate : !options->null))
		err = soft_memory_open(m, m->bytes, options->populate, e);
	if (!err && (m->bytes == 0 || m->bytes % options->block_bytes)) {
		err = hr_fail(e, HR_ERROR_USAGE, -EINVAL,
			      "soft:%s: %llu bytes are not whole blocks of %u (or none)",
			      *options->path ? options->path : "memory",
			      (unsigned long long)m->bytes, options->block_bytes);
	}
	if (!err && m->bytes / options->block_bytes < options->namespaces) {
		err = hr_fail(e, HR_ERROR_USAGE, -EINVAL,
			      "soft:%s: %llu bytes are less than a block of %u for each of %u "
			      "namespaces",
			      *options->path ? options->path : "memory",
			      (unsigned long long)m->bytes, options->block_bytes,
			      options->namespaces);
	}
	if (err) {
		soft_media_unmake(m);
		soft_media_close(m);
	}
	return err;
}

void soft_media_unmake(struct soft_media *m)
{
	if (m->made && unlink(m->path) != 0)
		hr_warn("soft:%s: cannot be removed: %s", m->path, strerror(errno));
	m->made = false;
}

void soft_media_close(struct soft_media *m)
{
	soft_memory_close(m);
	if (m->fd >= 0)
		close(m->fd);
	m->fd = -1;
}

#define PIECES 64u /* maximum pieces of one system call */

/* Position of a transfer in its caller's vector, which is not changed. */
struct cursor {
	const struct iovec *vec;
	unsigned count;
	size_t at; /* in vec[0] */
};

static void advance(struct cursor *p, size_t done)
{
	p->at += done;
	while (p->count && p->at >= p->vec->iov_len) {
		p->at -= p->vec->iov_len;
		p->vec++;
		p->count--;
	}
}

static ssize_t transfer_some(int fd, bool write, const struct cursor *p, uint64_t offset)
{
	struct iovec piece[PIECES];
	const int n = (int)(p->count < PIECES ? p->count : PIECES);

	memcpy(piece, p->vec, (size_t)n * sizeof(piece[0]));
	piece[0].iov_base = (uint8_t *)piece[0].iov_base + p->at;
	piece[0].iov_len -= p->at;
	return write ? hr_file_write(fd, piece, n, offset, 0) : hr_file_read(fd, piece, n, offset);
}

/* The NVMe status does not distinguish a full disk from a broken one, so log the errno. */
static int report_media_error(struct soft_media *m, const char *what, int why)
{
	if (!__atomic_exchange_n(&m->told, true, __ATOMIC_RELAXED))
		hr_error("soft:%s: cannot %s the file: %s", m->path, what,
			 why ? strerror(why) : "the file has been truncated");
	return -EIO;
}

static int transfer_file(struct soft_media *m, bool write, uint64_t offset, const struct iovec *vec,
			 unsigned count)
{
	struct cursor p = { vec, count, 0 };

	while (p.count) {
		const ssize_t n = transfer_some(m->fd, write, &p, offset);

		if (n == -EINTR)
			continue;
		if (n <= 0) /* 0: another process has truncated the file */
			return report_media_error(m, write ? "write" : "read", (int)-n);
		offset += (uint64_t)n;
		advance(&p, (size_t)n);
	}
	return 0;
}

int soft_media_read(struct soft_media *m, uint64_t offset, const struct iovec *vec, unsigned count)
{
	if (m->fd >= 0 && !m->memory)
		return transfer_file(m, false, offset, vec, count);
	for (unsigned i = 0; m->memory && i < count; offset += vec[i++].iov_len)
		soft_memory_read(m, offset, vec[i].iov_base, vec[i].iov_len);
	return 0;
}

/* An image that is held in memory: one write at a time, so that file and memory have one order. */
static int write_both(struct soft_media *m, uint64_t offset, const struct iovec *vec,
		      unsigned count)
{
	int err;

	hr_mutex_lock(&m->wide);
	err = transfer_file(m, true, offset, vec, count);
	for (unsigned i = 0; !err && i < count; offset += vec[i++].iov_len)
		soft_memory_write(m, offset, vec[i].iov_base, vec[i].iov_len);
	pthread_mutex_unlock(&m->wide);
	return err;
}

int soft_media_write(struct soft_media *m, uint64_t offset, const struct iovec *vec, unsigned count)
{
	if (m->fd >= 0 && m->memory)
		return write_both(m, offset, vec, count);
	if (m->fd >= 0)
		return transfer_file(m, true, offset, vec, count);
	for (unsigned i = 0; m->memory && i < count; offset += vec[i++].iov_len)
		soft_memory_write(m, offset, vec[i].iov_base, vec[i].iov_len);
	return 0;
}

int soft_media_sync(struct soft_media *m)
{
	const int err = m->fd >= 0 ? hr_file_sync(m->fd) : 0;

	return err ? report_media_error(m, "flush", -err) : 0;
}

static int write_zeroes(struct soft_media *m, uint64_t offset, uint64_t bytes)
{
	static const uint8_t zeroes[64 << 10];

	while (bytes) {
		const size_t n = bytes < sizeof(zeroes) ? bytes : sizeof(zeroes);
		struct iovec vec = { (void *)(uintptr_t)zeroes, n };

		if (soft_media_write(m, offset, &vec, 1) != 0)
			return -EIO;
		offset += n;
		bytes -= n;
	}
	return 0;
}

static int discard_file(struct soft_media *m, uint64_t offset, uint64_t bytes)
{
	if (bytes == 0 || fallocate(m->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				    (off_t)offset, (off_t)bytes) == 0)
		return 0;
	return write_zeroes(m, offset, bytes);
}

int soft_media_discard(struct soft_media *m, uint64_t offset, uint64_t bytes)
{
	const int err = m->fd >= 0 ? discard_file(m, offset, bytes) : 0;

	if (!err && m->memory && bytes)
		soft_memory_discard(m, offset, bytes);
	return err;
}

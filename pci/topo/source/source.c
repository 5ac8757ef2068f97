/* SPDX-License-Identifier: Apache-2.0 */
#include "pci/topo/source/source.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/base/files.h"
#include "pci/topo/sysfs/files.h"
#include "pci/topo/boot/iommu.h"
#include "pci/topo/lspci/lspci.h"
#include "pci/topo/log/bug_report.h"
#include "pci/topo/lspci/text.h"
#include "pci/topo/lspci/stream.h"
#include "pci/topo/sysfs/sysfs.h"
#include "pci/topo/source/formats.h"

/* The longest line: a string of JSON with the text of a whole machine. Only used pages cost memory. */
#define STREAM_BYTES (4u << 20)
#define XML_MAX (16u << 20)
#define TAR_MAX HR_UNPACKED_MAX

static bool is_tar(const char *head, size_t size)
{
	return size >= 512 && memcmp(head + 257, "ustar", 5) == 0;
}

static bool is_xml(const char *head, size_t size)
{
	size_t i = 0;

	while (i < size &&
	       (head[i] == ' ' || head[i] == '\t' || head[i] == '\n' || head[i] == '\r'))
		i++;
	/* "<6>[    0.512345] pci ..": a level of the kernel's log is no tag */
	if (i + 1 < size && head[i] == '<' && isdigit((unsigned char)head[i + 1]))
		return false;
	return i < size && head[i] == '<' && !hr_paste_is_html(head, size);
}

static int any_name(void *to, const char *name)
{
	return 1;
}

/* A report that also has a sysfs tree is read as a tree, which states more. */
static int read_files(struct hr_model *m, const struct hr_files *files)
{
	struct hr_capture_stream text = { .fd = -1 };
	int err;

	if (files->list(files, "sys/bus/pci/devices", any_name, NULL) == 0)
		return hr_read_sysfs(m, files);
	err = hr_bug_report_files(m, files, &text.buffer, &text.to);
	if (err)
		return err;
	if (!text.buffer)
		return hr_read_sysfs(m, files);
	text.capacity = text.to + 2;
	return hr_read_lspci(m, &text);
}

static int read_tree(struct hr_model *m, const uint8_t *bytes, size_t size)
{
	struct hr_files files;
	int err = hr_files_tar(&files, m, bytes, size);

	return err ? err : read_files(m, &files);
}

/*
 * Read the whole file, for formats that are not read line by line. *whole has a NUL at its end.
 * -ENOMEM; -errno of read(); -EFBIG: as large as the limit, or larger.
 */
static int read_whole(struct hr_model *m, struct hr_capture_stream *s, size_t limit, char **whole,
		      size_t *size)
{
	ssize_t n = 1;

	*size = s->to;
	*whole = s->buffer;
	if (s->fd >= 0) {
		*whole = hr_model_alloc(m, limit + 1);
		if (!*whole)
			return -ENOMEM;
		memcpy(*whole, s->buffer, *size);
	}
	while (s->fd >= 0 && n != 0 && *size < limit) {
		n = read(s->fd, *whole + *size, limit - *size);
		if (n < 0 && errno != EINTR)
			return -errno;
		*size += n > 0 ? (size_t)n : 0;
	}
	(*whole)[*size] = '\0';
	return *size < limit ? 0 : -EFBIG;
}

/* Here and below, nothing of the stream was taken yet: its buffer is the begin of the input. */
static int read_plain(struct hr_model *m, struct hr_capture_stream *s)
{
	const char *head = s->buffer;
	const size_t have = s->to, limit = is_tar(head, have) ? TAR_MAX : XML_MAX;
	size_t size;
	char *whole;
	int err;

	if (!is_tar(head, have) && !is_xml(head, have))
		return hr_read_lspci(m, s);
	err = read_whole(m, s, limit, &whole, &size);
	if (err == -EFBIG)
		return hr_fail(&m->error, HR_ERROR_USAGE, -EINVAL, "larger than %zu MiB",
			       limit >> 20);
	if (err)
		return err;
	if (is_tar(whole, size))
		return read_tree(m, (const uint8_t *)whole, size);
	return hr_read_xml(m, whole, size);
}

static int read_formats(struct hr_model *m, struct hr_capture_stream *s)
{
	struct hr_capture_stream plain = { .fd = -1 };
	const struct hr_packer *packer = hr_packed_by(s->buffer, s->to);
	int err;

	if (!packer)
		return read_plain(m, s);
	err = hr_unpack(m, packer, s->buffer, s->to, s->fd, &plain.buffer, &plain.to);
	if (err)
		return err;
	/* A line that fills all of the capacity but one byte counts as too long. */
	plain.capacity = plain.to + 2;
	if (hr_packed_by(plain.buffer, plain.to))
		return hr_fail(&m->error, HR_ERROR_USAGE, -EINVAL,
			       "compressed twice: unpack it first");
	return read_plain(m, &plain);
}

static int complete_model(struct hr_model *m, const char *path, int err)
{
	if (!err)
		err = hr_model_connect(m);
	if (!err)
		err = hr_smi_attach(m);
	if (!err) {
		hr_iommu_decide(m);
		return 0;
	}
	hr_fail(&m->error, HR_ERROR_MISSING, err, "%s", strerror(-err));
	hr_error_context(&m->error, "%.200s", path);
	return err;
}

static int read_fd(struct hr_model *m, int fd)
{
	struct hr_capture_stream s = { .fd = fd, .capacity = STREAM_BYTES };

	s.buffer = hr_model_alloc(m, STREAM_BYTES);
	if (!s.buffer)
		return -ENOMEM;
	while (!s.ended && s.to < 4096)
		hr_capture_stream_fill(&s);
	return s.error ? s.error : read_formats(m, &s);
}

int hr_source_open(struct hr_model *m, const char *path)
{
	bool standard_input = strcmp(path, "-") == 0;
	struct hr_files files;
	const char *why = NULL;
	struct stat st;
	int fd = STDIN_FILENO, err;

	if (!standard_input)
		fd = hr_open(path, O_RDONLY, HR_OPEN_FILE | HR_OPEN_FOLDER | HR_OPEN_PIPE, &why);
	if (fd == -EINVAL || fd == -ETIMEDOUT)
		hr_fail(&m->error, HR_ERROR_USAGE, fd, "%s", why);
	if (fd < 0)
		return complete_model(m, path, fd);
	if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode)) {
		err = hr_files_tree(&files, m, path);
		if (!err)
			err = read_files(m, &files);
	} else {
		err = read_fd(m, fd);
	}
	if (!standard_input)
		close(fd);
	return complete_model(m, standard_input ? "standard input" : path, err);
}

int hr_source_parse(struct hr_model *m, const char *path, const void *bytes, size_t size)
{
	struct hr_capture_stream s = { .fd = -1, .capacity = size + 2, .to = size };

	s.buffer = hr_model_alloc(m, size + 2);
	if (!s.buffer)
		return complete_model(m, path, -ENOMEM);
	memcpy(s.buffer, bytes, size);
	return complete_model(m, path, read_formats(m, &s));
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Reads files of a sysfs tree from a directory, or from a tar archive in memory. */
#include "pci/topo/sysfs/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/base/bytes.h"
#include "config/base/files.h"

/* ---- a directory */

static int full_path(const struct hr_files *files, const char *path, char *to)
{
	bool in_sys = files->sys && strncmp(path, "sys", 3) == 0 && (path[3] == '/' || !path[3]);
	int n = in_sys ? snprintf(to, PATH_MAX, "%s%s", files->sys, path + 3)
		       : snprintf(to, PATH_MAX, "%s/%s", (const char *)files->impl, path);

	return n < PATH_MAX ? 0 : -ENAMETOOLONG;
}

static long folder_read(const struct hr_files *files, const char *path, void *to, size_t capacity)
{
	char full[PATH_MAX];
	size_t have = 0;
	ssize_t n = 1;
	const char *why;
	int fd;

	if (full_path(files, path, full))
		return -ENAMETOOLONG;
	fd = hr_open(full, O_RDONLY, HR_OPEN_FILE, &why);
	if (fd < 0)
		return fd;
	while (have < capacity && n > 0) {
		n = read(fd, (char *)to + have, capacity - have);
		if (n > 0)
			have += (size_t)n;
	}
	close(fd);
	return n < 0 && have == 0 ? -EIO : (long)have;
}

static int folder_link(const struct hr_files *files, const char *path, char *to, size_t capacity)
{
	char full[PATH_MAX];
	ssize_t n;

	if (full_path(files, path, full))
		return -ENAMETOOLONG;
	n = readlink(full, to, capacity - 1);
	if (n < 0)
		return -errno;
	to[n] = '\0';
	return 0;
}

static int folder_list(const struct hr_files *files, const char *path,
		       int (*each)(void *to, const char *name), void *to)
{
	char full[PATH_MAX];
	struct dirent *entry;
	DIR *dir;

	if (full_path(files, path, full))
		return -ENAMETOOLONG;
	dir = opendir(full);
	if (!dir)
		return -errno;
	while ((entry = readdir(dir)))
		if (entry->d_name[0] != '.' && each(to, entry->d_name))
			break;
	closedir(dir);
	return 0;
}

void hr_files_folder(struct hr_files *files, const char *root)
{
	*files = (struct hr_files){ folder_read, folder_link, folder_list, NULL, NULL };
	/*
	 * The root is only read, but struct hr_files has one non-const pointer for all kinds of
	 * trees.
	 */
	files->impl = (void *)(uintptr_t)(strcmp(root, "/") == 0 ? "" : root);
}

static bool has_devices(const char *path, const char *sys)
{
	char full[PATH_MAX];
	struct stat st;

	return snprintf(full, sizeof full, "%s%s/bus/pci/devices", path, sys) < PATH_MAX &&
	       stat(full, &st) == 0 && S_ISDIR(st.st_mode);
}

static const char *join_path(struct hr_model *m, const char *path, const char *rest)
{
	size_t a = strlen(path), b = strlen(rest);
	char *to = hr_model_alloc(m, a + b + 1);

	if (!to)
		return NULL;
	snprintf(to, a + b + 1, "%s%s", path, rest);
	return to;
}

/* Find the only folder in a folder that holds a tree; a second tree is an error. */
static int find_inside(struct hr_model *m, const char *path, const char **root)
{
	char inside[300], first[256] = "";
	struct dirent *entry;
	DIR *dir = opendir(path);
	int err = 0;

	while (dir && !err && (entry = readdir(dir))) {
		snprintf(inside, sizeof inside, "/%.255s/sys", entry->d_name);
		if (entry->d_name[0] == '.' || !has_devices(path, inside))
			continue;
		if (first[0]) {
			err = hr_fail(
				&m->error, HR_ERROR_USAGE, -EINVAL,
				"it holds two trees, %.100s and %.100s: give the path of one of "
				"them",
				first, entry->d_name);
		}
		snprintf(first, sizeof first, "%.255s", entry->d_name);
	}
	if (dir)
		closedir(dir);
	if (err || !first[0])
		return err;
	snprintf(inside, sizeof inside, "/%s", first);
	*root = join_path(m, path, inside);
	return *root ? 0 : -ENOMEM;
}

int hr_files_tree(struct hr_files *files, struct hr_model *m, const char *path)
{
	static const char *const above[] = { "", "/..", "/../..", "/../../.." };
	const char *root = strcmp(path, "/") == 0 ? "" : path;
	int err = 0;

	hr_files_folder(files, root);
	if (has_devices(root, "/sys"))
		return 0;
	for (unsigned i = 0; i < sizeof above / sizeof *above && !files->sys; i++)
		if (has_devices(root, above[i]))
			files->sys = join_path(m, root, above[i]);
	if (files->sys)
		root = join_path(m, files->sys, "/..");
	else
		err = find_inside(m, path, &root);
	files->impl = (void *)(uintptr_t)root;
	return err ? err : root ? 0 : -ENOMEM;
}

/* ---- a tar archive (POSIX ustar, with GNU and pax long names) */

#define BLOCK 512u

struct entry {
	const char *path; /* without leading "./" or "/" */
	const char *link; /* symbolic link, or NULL */
	const uint8_t *bytes;
	size_t size;
};

struct tar {
	struct entry *entry; /* sorted by path */
	size_t count;
	struct hr_model *m;
	const char *long_path, *long_link; /* from the preceding header, or NULL */
};

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct entry *)a)->path, ((const struct entry *)b)->path);
}

static const struct entry *find_tar_entry(const struct tar *t, const char *path)
{
	struct entry key = { .path = path };

	return bsearch(&key, t->entry, t->count, sizeof key, by_path);
}

static long tar_read(const struct hr_files *files, const char *path, void *to, size_t capacity)
{
	const struct entry *e = find_tar_entry(files->impl, path);
	size_t n;

	if (!e || e->link)
		return -ENOENT;
	n = e->size < capacity ? e->size : capacity;
	memcpy(to, e->bytes, n);
	return (long)n;
}

static int tar_link(const struct hr_files *files, const char *path, char *to, size_t capacity)
{
	const struct entry *e = find_tar_entry(files->impl, path);

	if (!e || !e->link)
		return -ENOENT;
	snprintf(to, capacity, "%s", e->link);
	return 0;
}

/* Paths are sorted, so the entries of a directory are contiguous. */
static int tar_list(const struct hr_files *files, const char *path,
		    int (*each)(void *to, const char *name), void *to)
{
	const struct tar *t = files->impl;
	const bool top = strcmp(path, ".") == 0;
	size_t length = top ? 0 : strlen(path), low = 0, high = t->count;
	char last[256] = "";
	bool any = false;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (!top && strcmp(t->entry[middle].path, path) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < t->count && strncmp(t->entry[low].path, path, length) == 0; low++) {
		const char *rest = t->entry[low].path + length;
		char name[256];

		if (!top && *rest++ != '/')
			continue;
		if (*rest == '\0')
			continue;
		snprintf(name, sizeof name, "%.*s", (int)strcspn(rest, "/"), rest);
		any = true;
		if (strcmp(name, last) != 0 && each(to, name))
			break;
		memcpy(last, name, sizeof last);
	}
	return any ? 0 : -ENOENT;
}

static uint64_t octal(const uint8_t *text, size_t digits)
{
	uint64_t value = 0;

	for (size_t i = 0; i < digits && text[i]; i++)
		if (text[i] >= '0' && text[i] <= '7')
			value = value << 3 | (uint64_t)(text[i] - '0');
	return value;
}

static const char *copy_tar_text(struct tar *t, const void *text, size_t bytes)
{
	char *to = hr_model_alloc(t->m, bytes + 1);

	if (!to)
		return NULL;
	memcpy(to, text, bytes);
	return to;
}

static const char *header_path(struct tar *t, const uint8_t *h)
{
	char path[BLOCK];
	size_t prefix = strnlen((const char *)h + 345, 155);

	if (t->long_path)
		return t->long_path;
	snprintf(path, sizeof path, "%.*s%s%.*s", (int)prefix, (const char *)h + 345,
		 prefix ? "/" : "", (int)strnlen((const char *)h, 100), (const char *)h);
	return copy_tar_text(t, path, strlen(path));
}

/* A record "path=sys/...\n" of `size` bytes: set *to to its value when it has this key. */
static int parse_pax_record(struct tar *t, const char *text, size_t size, const char *key,
			    const char **to)
{
	const size_t length = strlen(key);

	if (size <= length || strncmp(text, key, length) != 0)
		return 0;
	*to = copy_tar_text(t, text + length, size - length - 1);
	return *to ? 0 : -ENOMEM;
}

/* Parse records like "27 path=sys/...\n" of a pax header. */
static int parse_pax_header(struct tar *t, const char *text, size_t size)
{
	size_t at = 0;
	int err = 0;

	while (!err && at < size) {
		char *end;
		size_t record = strtoul(text + at, &end, 10),
		       head = (size_t)(end - (text + at)) + 1;

		if (record <= head || record > size - at)
			return 0;
		err = parse_pax_record(t, text + at + head, record - head, "path=", &t->long_path);
		if (!err)
			err = parse_pax_record(t, text + at + head, record - head,
					       "linkpath=", &t->long_link);
		at += record;
	}
	return err;
}

static int add_entry(struct tar *t, const uint8_t *h, const uint8_t *bytes, size_t size)
{
	const char *path = header_path(t, h);
	struct entry *e;

	if (!path)
		return -ENOMEM;
	while (strncmp(path, "./", 2) == 0 || *path == '/')
		path += *path == '/' ? 1 : 2;
	e = &t->entry[t->count++];
	*e = (struct entry){ .path = path, .bytes = bytes, .size = size };
	if (h[156] == '2' && !(e->link = t->long_link))
		e->link = copy_tar_text(t, h + 157, strnlen((const char *)h + 157, 100));
	if (h[156] == '2' && !e->link)
		return -ENOMEM;
	t->long_path = t->long_link = NULL;
	return 0;
}

static int read_tar_member(struct tar *t, const uint8_t *at, size_t size)
{
	const char *text;

	switch (at[156]) {
	case 'L':
		t->long_path =
			copy_tar_text(t, at + BLOCK, strnlen((const char *)at + BLOCK, size));
		return t->long_path ? 0 : -ENOMEM;
	case 'K':
		t->long_link =
			copy_tar_text(t, at + BLOCK, strnlen((const char *)at + BLOCK, size));
		return t->long_link ? 0 : -ENOMEM;
	case 'x':
		text = copy_tar_text(t, at + BLOCK, size);
		if (!text)
			return -ENOMEM;
		return parse_pax_header(t, text, size);
	case '0':
	case '\0':
	case '2':
		return add_entry(t, at, at + BLOCK, size);
	}
	return 0;
}

/* Check the sum of a header's bytes, with its own field counted as spaces. */
static bool sum_fits(const uint8_t *header)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < BLOCK; i++)
		sum += i >= 148 && i < 156 ? ' ' : header[i];
	return sum == octal(header + 148, 8);
}

static int refuse_archive(struct tar *t, size_t at, const char *what)
{
	return hr_fail(&t->m->error, HR_ERROR_USAGE, -EINVAL,
		       "archive, byte %zu: %s; take it again", at, what);
}

/*
 * A truncated archive is refused: missing files would look like facts that the machine does not
 * have.
 */
static int read_tar_members(struct tar *t, const uint8_t *bytes, size_t size)
{
	size_t at = 0, length, padded;
	int err;

	for (;; at += BLOCK + padded) {
		if (size - at < BLOCK)
			return refuse_archive(t, at, "cut off: it ends without its last block");
		if (hr_is_zero(bytes + at, BLOCK))
			return 0;
		if (!sum_fits(bytes + at))
			return refuse_archive(t, at, "damaged: the checksum of a header is wrong");
		length = (size_t)octal(bytes + at + 124, 12);
		padded = (length + BLOCK - 1) / BLOCK * BLOCK;
		if (padded > size - at - BLOCK)
			return refuse_archive(
				t, at, "cut off: a file is longer than the rest of the archive");
		err = read_tar_member(t, bytes + at, length);
		if (err)
			return err;
	}
}

/* Offset of "sys/bus/pci/devices/.." in a path; SIZE_MAX: the path does not contain it. */
static size_t before_tree(const char *path)
{
	const char *at = path;

	while ((at = strstr(at, "sys/bus/pci/devices/")) && at != path && at[-1] != '/')
		at++;
	return at ? (size_t)(at - path) : SIZE_MAX;
}

/* Remove the leading folders of the tree from all paths; other entries are dropped. */
static int strip_folders(struct tar *t)
{
	const char *folders = NULL;
	size_t length = 0, kept = 0, n;

	for (size_t i = 0; i < t->count; i++) {
		n = before_tree(t->entry[i].path);
		if (n == SIZE_MAX)
			continue;
		if (folders && (n != length || memcmp(folders, t->entry[i].path, n) != 0))
			return hr_fail(
				&t->m->error, HR_ERROR_USAGE, -EINVAL,
				"the archive holds two trees, '%.*s' and '%.*s': keep one of them",
				(int)(length < 100 ? length : 100), folders,
				(int)(n < 100 ? n : 100), t->entry[i].path);
		folders = t->entry[i].path;
		length = n;
	}
	if (!folders)
		return 0;
	for (size_t i = 0; i < t->count; i++) {
		struct entry e = t->entry[i];

		if (!e.path || strncmp(e.path, folders, length) != 0)
			continue;
		e.path += length;
		t->entry[kept++] = e;
	}
	t->count = kept;
	return 0;
}

int hr_files_tar(struct hr_files *files, struct hr_model *m, const uint8_t *bytes, size_t size)
{
	struct tar *t = hr_model_alloc(m, sizeof *t);
	int err;

	if (!t)
		return -ENOMEM;
	*t = (struct tar){ .m = m };
	t->entry = hr_model_alloc(m, size / BLOCK * sizeof *t->entry);
	if (!t->entry)
		return -ENOMEM;
	err = read_tar_members(t, bytes, size);
	if (err)
		return err;
	if (t->count == 0)
		return hr_fail(&m->error, HR_ERROR_USAGE, -EINVAL, "the archive holds no files");
	qsort(t->entry, t->count, sizeof *t->entry, by_path);
	err = strip_folders(t);
	if (err)
		return err;
	*files = (struct hr_files){ tar_read, tar_link, tar_list, t, NULL };
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fakes/files.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const struct fake_file *find(const struct hr_files *files, const char *path)
{
	const struct fake_files *list = files->impl;

	for (unsigned i = 0; i < list->count; i++)
		if (strcmp(list->file[i].path, path) == 0)
			return &list->file[i];
	return NULL;
}

static long read_file(const struct hr_files *files, const char *path, void *to, size_t capacity)
{
	const struct fake_file *f = find(files, path);
	size_t size;

	/* A caller that uses the buffer in spite of the error finds a number there. */
	memset(to, '7', capacity);
	if (!f || f->link)
		return -ENOENT;
	size = f->bytes ? f->size : strlen(f->text);
	if (size > capacity)
		size = capacity;
	memcpy(to, f->bytes ? (const void *)f->bytes : f->text, size);
	return (long)size;
}

static int read_link(const struct hr_files *files, const char *path, char *to, size_t capacity)
{
	const struct fake_file *f = find(files, path);

	snprintf(to, capacity, "../7");
	if (!f || !f->link)
		return -ENOENT;
	snprintf(to, capacity, "%s", f->link);
	return 0;
}

/* Names between the folder's slash and the next slash, each once. */
static int list_folder(const struct hr_files *files, const char *path,
		       int (*each)(void *to, const char *name), void *to)
{
	const struct fake_files *list = files->impl;
	size_t n = strlen(path), shown = 0;
	char name[128], last[128] = "";

	for (unsigned i = 0; i < list->count; i++) {
		const char *at = list->file[i].path;

		if (strncmp(at, path, n) != 0 || at[n] != '/')
			continue;
		snprintf(name, sizeof name, "%.*s", (int)strcspn(at + n + 1, "/"), at + n + 1);
		shown++;
		if (strcmp(name, last) == 0) /* also for an empty folder */
			continue;
		memcpy(last, name, sizeof last);
		if (each(to, name))
			return 0;
	}
	return shown ? 0 : -ENOENT;
}

void fake_files(struct hr_files *to, const struct fake_files *list)
{
	*to = (struct hr_files){ .read = read_file,
				 .link = read_link,
				 .list = list_folder,
				 .impl = (void *)(uintptr_t)list };
}

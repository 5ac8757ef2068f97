/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/fakes/files.h - the files of a sysfs tree, as a list in memory.
 */
#ifndef TESTS_FAKES_FILES_H
#define TESTS_FAKES_FILES_H

#include <stddef.h>
#include <stdint.h>

#include "pci/topo/sysfs/files.h"

/*
 * A file with text or bytes, or a symbolic link. Folders exist when they contain files; a path that
 * ends with a slash is an empty folder.
 */
struct fake_file {
	const char *path, *text, *link;
	const uint8_t *bytes;
	size_t size;
};

struct fake_files {
	const struct fake_file *file;
	unsigned count;
};

/* `list` must live as long as *to. */
void fake_files(struct hr_files *to, const struct fake_files *list);

#endif

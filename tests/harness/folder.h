/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/harness/folder.h - files of a folder that a test makes, and its end. Static, because each test
 * is one file.
 */
#ifndef TESTS_HARNESS_FOLDER_H
#define TESTS_HARNESS_FOLDER_H

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Write a file below `root`, and make its folders. */
static inline void folder_put(const char *root, const char *path, const char *text)
{
	char full[512];
	FILE *out;

	snprintf(full, sizeof full, "%s/%s", root, path);
	for (char *slash = full + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
		*slash = '\0';
		mkdir(full, 0755);
		*slash = '/';
	}
	out = fopen(full, "w");
	cr_assert_not_null(out, "%s", full);
	fputs(text, out);
	fclose(out);
}

/* Remove the folder with all that is in it. */
static inline void folder_remove(const char *root)
{
	char command[300];

	snprintf(command, sizeof command, "rm -rf %s", root);
	cr_expect_eq(system(command), 0);
}

#endif

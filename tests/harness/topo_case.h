/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/harness/topo_case.h - runs `headrace topo` on a capture in memory and makes short text of what
 * it prints: an item for each member of the JSON document or each fact of a capture.
 */
#ifndef TESTS_HARNESS_TOPO_CASE_H
#define TESTS_HARNESS_TOPO_CASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct topo_item {
	char *path; /* "02:00.0", "03:00.0 04:00.0 findings A1 02:00.0": of the object */
	char *text; /* "acs_ctl=4/c": a member; false is left out */
};

struct topo_items {
	struct topo_item *item;
	size_t count;
};

/*
 * Run `headrace topo --from - ARGS` in a child process and append what it prints to *to: members of
 * JSON, facts of a capture, else lines; messages and the exit code. sentences: also members that
 * are sentences. Returns whether it printed to standard output.
 */
bool topo_case_run(const char *input, size_t size, const char *args, bool sentences,
		   struct topo_items *to);
void topo_items_free(struct topo_items *list);

/* A function of the machine that is a copy of another one. */
struct topo_likeness {
	char address[16], of[16];
};

/*
 * Print the items that are not in `base`; items of one path share a line, "> PATH ITEM ITEM". What
 * `base` has of a function, its copies are expected to have as well. "-ITEM" is missing, "-*" all
 * that is not printed, "gone" the object; what follows from a function that is gone is not printed.
 */
void topo_items_print(const struct topo_items *list, const struct topo_items *base,
		      const struct topo_likeness *like, size_t likes, FILE *out);

#endif

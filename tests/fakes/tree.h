/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/fakes/tree.h - PCI functions made of files: a machine's sysfs in its own mount namespace,
 * in which libpciaccess and headrace read and write plain files.
 *
 * A test builds a tree and runs code inside it: in a child process, which sees the tree in place of
 * /sys/bus/pci/devices and /sys/kernel/iommu_groups, and an empty /run. Data that the child wrote
 * stay in the files until fake_tree_remove().
 */
#ifndef TESTS_FAKES_TREE_H
#define TESTS_FAKES_TREE_H

#include <stddef.h>
#include <stdint.h>

#define FAKE_TREE_SKIPPED 77 /* this process may not create a mount namespace */
#define FAKE_TREE_BAR 0x10000u

struct fake_tree {
	char root[64];
};

/* An empty machine. */
void fake_tree_make(struct fake_tree *tree);
void fake_tree_remove(struct fake_tree *tree);

/* Properties of a function; driver NULL: none bound. group -1: no IOMMU. */
struct fake_tree_fn {
	const char *bdf;
	uint32_t class;
	const char *driver;
	int group;
	uint64_t bar_bytes; /* of BAR0, 64-bit memory at bar_address; 0: no BAR */
	uint64_t bar_address;
	uint16_t command;
};

void fake_tree_add(struct fake_tree *tree, const struct fake_tree_fn *fn);

/* Turn a function into a virtual function of SR-IOV: its BARs read 0, and `resource` has them. */
void fake_tree_virtual(struct fake_tree *tree, const char *bdf);

/* Set the type of a group: "DMA-FQ", "identity". */
void fake_tree_group(struct fake_tree *tree, int group, const char *type);

/*
 * Write or read a file of a function, `size` bytes at an offset: "config", "enable", "resource0",
 * ...
 */
void fake_tree_write(struct fake_tree *tree, const char *bdf, const char *file, size_t offset,
		     const void *bytes, size_t size);
void fake_tree_read(const struct fake_tree *tree, const char *bdf, const char *file, size_t offset,
		    void *bytes, size_t size);
uint16_t fake_tree_command(const struct fake_tree *tree, const char *bdf);

/*
 * Run inside(arg) in the tree; inside() returns 0, or the number of the failed step. Returns that
 * number, or FAKE_TREE_SKIPPED.
 */
int fake_tree_run(struct fake_tree *tree, int (*inside)(void *arg), void *arg);

/*
 * Check the result of fake_tree_run(): expect 0, else print the given format and values. When no
 * tree can be entered, the test removes the tree and is skipped with the reason.
 */
#define fake_tree_expect(tree, step, ...)                                                      \
	do {                                                                                   \
		if ((step) == FAKE_TREE_SKIPPED) {                                             \
			fake_tree_remove(tree);                                                \
			cr_skip_test("no right to make a mount namespace and to mount in it"); \
		}                                                                              \
		cr_expect_eq((step), 0, __VA_ARGS__);                                          \
	} while (0)

#endif

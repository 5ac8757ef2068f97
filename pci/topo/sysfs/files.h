/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pci/topo/sysfs/files.h - files of a sysfs tree: a directory, or a tar archive in memory.
 */
#ifndef PCI_TOPO_SYSFS_FILES_H
#define PCI_TOPO_SYSFS_FILES_H

#include "pci/topo/model.h"

/* Files of a sysfs tree, in a directory or in an archive. Paths have no leading slash. */
struct hr_files {
	/* Contents of a file, at most `capacity` bytes; bytes read or -errno. */
	long (*read)(const struct hr_files *files, const char *path, void *to, size_t capacity);
	/* Target of a symbolic link with its NUL; 0 or -errno. */
	int (*link)(const struct hr_files *files, const char *path, char *to, size_t capacity);
	/* Names in a directory, one call each; stops when `each` returns nonzero. 0 or -errno. */
	int (*list)(const struct hr_files *files, const char *path,
		    int (*each)(void *to, const char *name), void *to);
	void *impl;
	const char *sys; /* for a folder: path of the folder that replaces "sys"; NULL: "sys" */
};

/* A directory as files. `root` is put in front of all paths ("" or "/": this machine). */
void hr_files_folder(struct hr_files *files, const char *root);

/*
 * The folder of a capture: the root of a tree, any part of its sys, or a folder that holds one
 * tree. Memory comes from the model. 0; -EINVAL: several trees; -ENOMEM, -ENAMETOOLONG.
 */
int hr_files_tree(struct hr_files *files, struct hr_model *m, const char *path);

/* An archive in memory as files; memory comes from the model. 0, -EINVAL or -ENOMEM. */
int hr_files_tar(struct hr_files *files, struct hr_model *m, const uint8_t *bytes, size_t size);

#endif

/*
 * pci/topo/source.h - where a topology comes from. One seam: every reader fills a model.
 *
 * Readers set facts and never judge. They end in hr_model_link(). Errors leave one sentence in
 * model->message, with the line of the capture where there is one.
 */
#ifndef PCI_TOPO_SOURCE_H
#define PCI_TOPO_SOURCE_H

#include "pci/topo/model.h"

/*
 * Read a capture and link the model. The format is detected:
 *   directory            sysfs tree: its root (holds sys/), any part of sys, or a folder around it
 *   tar                  the same, as an archive
 *   XML                  topology of NCCL or RCCL (<system>) or of hwloc (<topology>)
 *   anything else        lspci -x|-xxx|-xxxx dump, -vv[nn] text, -t[v] tree, several of them, or our
 *                        own capture; quoted or indented lines are read like others
 * A file may be compressed by gzip, bzip2, xz or zstd, if that tool is installed.
 * "-" is standard input (not for directories).
 * Returns 0; -EINVAL: malformed, truncated or contradictory; -ENODATA: no PCI function in it;
 * -E2BIG: more than HR_FUNCTIONS_MAX functions; -ENOENT, -EACCES, -EIO, -ENOMEM.
 */
int hr_source_open(struct hr_model *m, const char *path);

/* The same for bytes in memory (not for directories); `path` is used in messages. */
int hr_source_parse(struct hr_model *m, const char *path, const void *bytes, size_t size);

/*
 * Write what is known as a capture: an lspci -xxxx dump that lspci -F reads, with further facts on
 * lines that it ignores. Serial numbers are overwritten with zeros. 0, or the negative errno of
 * write().
 */
int hr_capture_write(const struct hr_model *m, int fd);

/* ---- readers, for hr_source_open() and tests ---- */

/* A stream of bytes: what was read ahead, then a file descriptor (-1: none). */
struct hr_stream {
	int fd;
	char *buffer;
	size_t capacity, from, to;
	bool ended;
	int error;     /* -errno of read */
	unsigned line; /* number of the line that hr_stream_line() returned last */
	bool cut;      /* that line had no newline */
};

/*
 * Next line without its newline, valid until the next call; NULL at the end, at an error, or when
 * the line does not fit the buffer (error -EMSGSIZE).
 */
char *hr_stream_line(struct hr_stream *s, size_t *length);

int hr_read_lspci(struct hr_model *m, struct hr_stream *s);

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
	const char *sys; /* of a folder: in place of its "sys"; NULL: that */
};

int hr_read_sysfs(struct hr_model *m, const struct hr_files *files);
/* What sysfs and proc know beside configuration space, for functions that are in the model. */
void hr_read_sysfs_system(struct hr_model *m, const struct hr_files *files);
void hr_read_sysfs_function(struct hr_model *m, const struct hr_files *files, struct hr_fn *f,
			    const char *folder);
/* Names, near CPUs; links between AMD's GPUs: part of the two above. */
void hr_read_sysfs_peer(struct hr_model *m, const struct hr_files *files, struct hr_fn *f,
			const char *folder);
void hr_read_sysfs_links(struct hr_model *m, const struct hr_files *files);
/* Parts of the two above: what the kernel counted of errors (Documentation/ABI/testing/
 * sysfs-bus-pci-devices-aer_stats); virtual switches that the switch's driver says are linked. */
void hr_read_aer_counts(const struct hr_files *files, struct hr_fn *f, const char *folder);
void hr_read_switch_links(struct hr_model *m, const struct hr_files *files);
/* Drivers, modules and what else pci/topo/software.h asks for. */
void hr_read_sysfs_software(struct hr_model *m, const struct hr_files *files);
/*
 * Set HR_F_MOUNTED of NVMe controllers whose disks are mounted or swapped on, HR_F_STACKED where md
 * or dm stand between, and the type of the file systems.
 */
void hr_read_mounted(struct hr_model *m, const struct hr_files *files);
/* A directory as files: root is the path in front of all others ("" or "/": this machine). */
void hr_files_folder(struct hr_files *files, const char *root);
/*
 * The folder of a capture: the root of a tree, any part of its sys, or a folder with one tree in it.
 * Memory comes from the model. 0; -EINVAL: several trees; -ENOMEM, -ENAMETOOLONG.
 */
int hr_files_tree(struct hr_files *files, struct hr_model *m, const char *path);
/* An archive in memory as files; memory comes from the model. 0, -EINVAL or -ENOMEM. */
int hr_files_tar(struct hr_files *files, struct hr_model *m, const uint8_t *bytes, size_t size);

/* Text facts of one trimmed line of lspci -v output; `state` starts zeroed at each function. */
struct hr_text_state {
	unsigned section;      /* capability that the line belongs to */
	bool saw_virtual;      /* memory that is [virtual] */
	unsigned virtual_bars; /* lines that say [virtual] behind the address */
	bool control2;	       /* a line of DevCtl2, which names fields like DevCap2 does */
	bool denied;
	bool saw_caps;
	bool saw_ecaps;
};
void hr_text_line(struct hr_model *m, struct hr_fn *f, struct hr_text_state *state,
		  const char *line, size_t length);
/* The title after the address: class, identifiers, name. */
void hr_text_title(struct hr_model *m, struct hr_fn *f, const char *title, size_t length);
/*
 * Whether two statements about one function cannot be of one moment of one machine; then `text`
 * names the fact, both values and nothing else. Facts that change by themselves do not count.
 */
bool hr_fn_contradicts(const struct hr_fn *was, const struct hr_fn *is, char *text,
		       size_t capacity);
/* Add what `more` states to f, fact by fact: a better source wins, an equal one replaces. */
void hr_fn_merge(struct hr_fn *f, const struct hr_fn *more);
/* The same for lspci -tv, which prints no class: names tell SSDs and GPUs. */
void hr_text_tree_title(struct hr_model *m, struct hr_fn *f, const char *title, size_t length);
/* At the end of a function: what the text would have shown if it existed, does not. */
void hr_text_end(struct hr_fn *f, const struct hr_text_state *state);
/* One "headrace: key=value" line; f is NULL before the first function. false: not understood. */
bool hr_capture_line(struct hr_model *m, struct hr_fn *f, const char *line, size_t length);

#endif

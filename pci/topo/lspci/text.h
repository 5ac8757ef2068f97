/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pci/topo/lspci/text.h - parts of the reader of lspci output. Private.
 */
#ifndef PCI_TOPO_LSPCI_TEXT_H
#define PCI_TOPO_LSPCI_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pci/topo/model.h"
#include "pci/topo/gpu_peers.h"

/* ---- facts in the text of lspci -v. */

/* State from earlier lines of a function; zeroed at the start of each function. */
struct hr_lspci_state {
	unsigned section;      /* capability that the line belongs to */
	bool saw_virtual;      /* a memory region is marked [virtual] */
	unsigned virtual_bars; /* lines with [virtual] after the address */
	bool control2;	       /* the line is DevCtl2, whose fields have the names of DevCap2 */
	bool denied;
	bool saw_caps;
	bool saw_ecaps;
	/* lspci -v, which prints no Control line */
	bool flags, bus_master;	    /* the line Flags; it says bus master */
	bool memory_on, memory_off; /* regions are not [disabled]; are [disabled] */
	unsigned regions;	    /* number of the next region */
	bool windows, window_bits;  /* lines of windows; they end with "[32-bit]" */
};
/*
 * True for a trimmed line that only a function's block has. Where indentation was lost, it begins a
 * block without indentation.
 */
bool hr_text_is_line(const char *line);

/* Facts of one trimmed line of lspci -v output. */
void hr_lspci_text_line(struct hr_model *m, struct hr_fn *f, struct hr_lspci_state *state,
			const char *line, size_t length);

/* At the end of a function: capabilities that the text does not show are absent. */
void hr_lspci_text_end(struct hr_fn *f, const struct hr_lspci_state *state);

/* ---- the first line of a function in lspci output */

/* The title after the address: class, identifiers, name. */
void hr_lspci_title(struct hr_model *m, struct hr_fn *f, const char *title, size_t length);

/*
 * A line after the title that may be its end, because a terminal or mail has wrapped it. False: it
 * has neither identifiers nor a revision.
 */
bool hr_text_title_more(struct hr_fn *f, const char *line);

/* The same for lspci -tv, which prints no class: names tell SSDs and GPUs. */
void hr_lspci_tree_title(struct hr_model *m, struct hr_fn *f, const char *title, size_t length);

/* ---- the tree that lspci -t prints: bridges, the buses below them, names of cards */

/* at least seven columns per level: more than HR_DEPTH_MAX levels fit */
#define HR_TREE_COLUMNS 512u

struct hr_lspci_tree_bus {
	uint32_t domain, bus;
	bool root; /* the root of the tree: its branches are root buses */
	bool lost; /* the line above that states the bus is missing, as after grep */
};

/* Starts zeroed. */
struct hr_lspci_tree {
	bool on;       /* the preceding line was part of the tree */
	unsigned line; /* first line of the tree */
	bool used[HR_TREE_COLUMNS];
	struct hr_lspci_tree_bus column[HR_TREE_COLUMNS]; /* bus of the branches in each column */
};

bool hr_lspci_tree_begins(const char *line);
/* 1: the line is part of a tree; 0: it is not; -EINVAL: it contradicts known facts. */
int hr_lspci_tree_line(struct hr_lspci_tree *t, struct hr_model *m, const char *line,
		       unsigned number);

/* ---- ACS controls outside the listing of a function.
 *
 *   0000:c8:00.0 ACSCtl: SrcValid+ ..               address and flags in one line
 *   04:08.0                                         a loop that prints an address before each line
 *   # lspci -s 04:08.0 -vvv | grep ACSCtl           a command that names its port
 *   # setpci -s 04:08.0 ECAP_ACS+6.w                the same; the next line is the value
 *   0000:04:08.0 (ecap 000d @148) @14e = 001d       setpci -v
 *   0000:04:08.0: 001d                              a loop of setpci
 *   ACSCtl: SrcValid+ ..                            no address: it can only be counted
 *   12 ACSCtl: SrcValid+ ..                         the same 12 times: uniq -c
 */

/* State of the reader; starts zeroed. */
struct hr_acs_reader {
	uint64_t address; /* of the next control, if `named` */
	bool named;
	bool awaited; /* a setpci command asked for it: the next line is a value */
	bool listed;  /* the output of grep without addresses goes on */
};

enum hr_acs_kind {
	HR_ACS_NOTHING, /* the line is of another kind */
	HR_ACS_END,	/* a command or an address: the function before it has ended */
	HR_ACS_OF,	/* a control of the function at .address */
	HR_ACS_NEAR,	/* a control of the function that the text lists at this place, if any */
};

struct hr_acs_line {
	enum hr_acs_kind kind;
	uint64_t address;
	const char *flags; /* from "ACSCtl:" on; NULL: .value holds the register */
	uint32_t value;
	uint32_t offset; /* of the capability, 0: not stated */
	uint32_t lines;	 /* number of equal controls */
};

/* Read a line, without blanks at its start. */
enum hr_acs_kind hr_acs_line(struct hr_acs_reader *r, const char *line, struct hr_acs_line *found);

/* True for flags of a control that redirects: ReqRedir+, CmpltRedir+ or EgressCtrl+. */
bool hr_acs_flags_redirect(const char *flags);

/* ---- lists of IOMMU groups, as scripts print them from
 * /sys/kernel/iommu_groups and lspci:
 *
 *   IOMMU Group 1:                                      a heading, then indented functions
 *           00:01.0 PCI bridge [0604]: ...
 *   IOMMU Group 1 00:01.0 PCI bridge [0604]: ...        or the group in front of each function
 *   IOMMU Group 1: 00:01.0 PCI bridge [0604]: ...
 *   Group:  1  0000:00:01.0 PCI bridge [0604]: ...   Driver: pcieport
 */

struct hr_fn;
struct hr_model;

/* What the lines before state. Starts zeroed. */
struct hr_groups_seen {
	bool any;     /* the next function is in `group` */
	bool heading; /* and so are the functions below it with the same indentation */
	uint32_t group;
	const char *driver; /* of the function in the last line; NULL: not stated */
	size_t indent;	    /* of the functions below the heading; 0: no function yet */
};

/*
 * Remove the group in front of a function, in place; *length is updated. A heading becomes an empty
 * line, which ends the function before it. `begins` is true for the start of a function.
 */
char *hr_groups_line(struct hr_groups_seen *g, bool (*begins)(const char *line, size_t length),
		     char *line, size_t *length);

/* Set the group and the driver of a function whose line hr_groups_line() returned last. */
void hr_groups_set(const struct hr_groups_seen *g, struct hr_model *m, struct hr_fn *f);

/* ---- the output of lspci for programs: lines of option -mm, and
 * records of
 * -vmm. Their fields become a title as lspci -nn prints it, which pci/topo/lspci/text.h reads.
 *
 *   00:00.0 "Host bridge" "Intel Corporation" "Device 09a2" -r04 "" ""          -mm
 *
 *   Slot:	00:00.0                                                              -vmm
 *   Class:	Host bridge [0600]                                                   (and -nn)
 *   Vendor:	Intel Corporation [8086]
 *   Device:	Ice Lake Memory Map/VT-d [09a2]
 */

#define HR_MACHINE_FIELD 160u
#define HR_MACHINE_TITLE 512u

/* Fields of a function; starts zeroed. A longer field is cut. */
struct hr_machine {
	bool record; /* lines of the function are those of -vmm */
	char class[HR_MACHINE_FIELD], vendor[HR_MACHINE_FIELD], device[HR_MACHINE_FIELD];
	char revision[8];
};

/* Read the fields of -mm after the address; false: text does not begin with a quoted field. */
bool hr_machine_fields(struct hr_machine *r, const char *text);

/*
 * Offset of the address in the first line of a record, "Slot:" or in older versions "Device:"; 0:
 * another line.
 */
size_t hr_machine_slot(const char *line);

/* Read a line of a record; false: not one of its fields. */
bool hr_machine_line(struct hr_machine *r, struct hr_model *m, struct hr_fn *f, const char *line);

/* Write "CLASS: VENDOR DEVICE [vvvv:dddd] (rev rr)" to title[HR_MACHINE_TITLE]; returns title. */
char *hr_machine_title(const struct hr_machine *r, char *title);

/* ---- the address at the start of a function in lspci output, which
 * options -P and -PP print as a path through the bridges above:
 *
 *   0000:02:00.0                         plain
 *   0000:00:01.1/01:00.0/02:00.0         -PP
 *   0000:00:01.1/00.0/00.0               -P: without the buses below the first bridge
 */

#define HR_SLOT_PATH_MAX 32u /* functions of a path */

struct hr_slot_path {
	uint32_t domain;
	unsigned count;
	struct {
		bool has_bus;
		uint8_t bus, dev, fn;
	} step[HR_SLOT_PATH_MAX];
};

/* What earlier paths state; starts zeroed. */
struct hr_slot_paths {
	uint32_t domain, top_bus; /* of the last path, and the highest bus of that domain */
	bool any;
	bool assumed; /* a bus number of -P is assumed */
};

/*
 * Read the path at the start of text. Returns its length; 0: not a path. A device above 31 or a
 * function above 7 is read, but hr_slot_path_add() refuses it.
 */
size_t hr_slot_path_parse(const char *text, struct hr_slot_path *path);

/*
 * Add the function at the end of the path and the bridges above it. The path states the secondary
 * bus of each bridge. When neither the path nor the bridge states it, the next bus number is
 * assumed, because lspci sorts functions by bus. NULL: more functions than the model can have, or
 * no such device or bus.
 */
struct hr_fn *hr_slot_path_add(struct hr_model *m, struct hr_slot_paths *paths,
			       const struct hr_slot_path *path);

/* ---- numbers for the names of classes and vendors in the list of PCI identifiers */

#define HR_NAME_UNKNOWN 0xffffffffu

/*
 * Class and subclass (16 bits) of the name at the begin of text, or HR_NAME_UNKNOWN. *length is the
 * length of the name.
 */
uint32_t hr_name_class(const char *text, size_t *length);

/*
 * Vendor of the name at the begin of text, or HR_NAME_UNKNOWN: an unknown name, or one of several
 * vendors.
 */
uint32_t hr_name_vendor(const char *text);

/* ---- characters that the way of a text has changed: entities of HTML,
 * Markdown's backslashes, colours of a terminal, blanks of a web page, strings of JSON.
 */

/*
 * Decode the line in place and return its new length. An escaped escape (&amp;gt;) is decoded, too.
 * A blank that is not a space becomes one; marks without a width and colours are removed.
 */
size_t hr_escapes_clean(char *line, size_t length);

#define HR_ESCAPES_PREFIX 40u

/* Lines inside a string of JSON or Python, where "\n" is two characters; starts zeroed. */
struct hr_escapes_string {
	/* Before the string in the line where it began: lines of a log begin with it, too. */
	char prefix[HR_ESCAPES_PREFIX];
	char *at, *end; /* what is left of the line that holds the string */
	char quote;	/* the mark at its end */
	bool inside;	/* a newline precedes, in the same string */
};

/*
 * Begin with the string of a line that holds several lines of which one begins a function, or that
 * has the same text before its string as an earlier such line. False: another line, unchanged. The
 * line stays in use until hr_escapes_next() returns NULL.
 */
bool hr_escapes_begin(struct hr_escapes_string *s, bool (*begins)(const char *line, size_t length),
		      char *line, size_t length);

/*
 * The next line of the string, decoded in place; NULL: the end. Other strings of the same line
 * follow; those without a newline are left out.
 */
char *hr_escapes_next(struct hr_escapes_string *s, size_t *length);

/* Decode \t \" \\ and others of a line that is a string of its own, in place; the new length. */
size_t hr_escapes_decode(char *line, size_t length);

/* ---- lines of a capture that state nothing, counted so that a reader
 * of the answer knows how much of a text was not understood.
 */

/*
 * False for lines that surround lspci in ordinary text: the command and other commands at a prompt,
 * headings, tags, rules, marks of code, messages of lspci itself, the ends of a string.
 */
bool hr_skipped_matters(const char *line);

/* Count a line in m->skipped if it matters, and keep the first one. */
void hr_skipped_add(struct hr_model *m, unsigned number, const char *line);

/*
 * "12 lines skipped, the first is line 3: TEXT" in text[size]; false: none.
 */
bool hr_skipped_text(const struct hr_model *m, char *text, size_t size);

/* ---- matrices that vendors' tools print: nvidia-smi topo -m, -mp and -p2p, rocm-smi
 * --showtopo, amd-smi topology.
 *
 * The devices of a matrix have names like GPU0 and no PCI address (except amd-smi's), so they are
 * no functions of the model. A text that has a matrix and no PCI function is a text without
 * functions: hr_source_open() fails with -ENODATA, and model->smi holds what the matrix states.
 * In a text that has both, hr_smi_attach() gives the GPUs of the model the facts of the matrix.
 */

#define HR_SMI_MAX 64u	   /* devices; more are counted and not read */
#define HR_SMI_NAME 32u	   /* "GPU0", "NIC1", "0000:03:00.0", "mlx5_bond_0"; with NUL */
#define HR_SMI_TOKENS 160u /* words of a line that are read */

enum hr_smi_distance { HR_SMI_NONE, HR_SMI_PIX, HR_SMI_PXB, HR_SMI_PHB, HR_SMI_NODE, HR_SMI_SYS };
enum hr_smi_type { HR_SMI_UNTYPED, HR_SMI_PCIE, HR_SMI_XGMI };

/* What the tables state about two devices; 0 is "not stated" in each member. */
struct hr_smi_cell {
	uint8_t distance;		  /* enum hr_smi_distance */
	uint8_t type;			  /* enum hr_smi_type: link type of rocm-smi and amd-smi */
	uint16_t nvlinks;		  /* NV#: number of NVLinks */
	uint16_t weight, hops;		  /* of rocm-smi and amd-smi */
	uint8_t p2p[HR_P2P_ACCESSES + 1]; /* enum hr_p2p_status; the last: access not stated */
	bool refused;			  /* the access table says False or DISABLED */
};

struct hr_smi_device {
	char name[HR_SMI_NAME];
	char device[HR_SMI_NAME]; /* the system's name, "mlx5_0"; "" unknown */
	char cpus[HR_WORD_MAX];	  /* CPU affinity; "" unknown */
	char numa[16];		  /* "" unknown */
	bool gpu;
};

struct hr_smi {
	const char *tool; /* "nvidia-smi topo", "rocm-smi --showtopo", "amd-smi topology" */
	uint32_t devices, left_out, rows; /* rows: lines with cells */
	struct hr_smi_device device[HR_SMI_MAX];
	struct hr_smi_cell cell[HR_SMI_MAX][HR_SMI_MAX];
};

/* State of the reader; starts zeroed. */
struct hr_smi_reader {
	uint8_t table;	  /* private: enum table */
	uint8_t accesses; /* bits of the last -p2p in the text; 0: none */
	bool amd;	  /* a table of amd-smi may begin: lines with addresses belong to it */
	uint32_t columns;
	uint8_t column[HR_SMI_TOKENS]; /* device of each column, HR_SMI_MAX: left out */
};

/*
 * Read a line. True when it is part of a matrix or of its legend. Other lines are unchanged.
 * Memory comes from the model; when it is full, the matrix is not read.
 */
bool hr_smi_line(struct hr_smi_reader *r, struct hr_model *m, const char *line);

/*
 * After hr_model_connect(): when the model has as many GPUs of NVIDIA as the matrix of nvidia-smi,
 * both are in the order of their addresses, so NVLinks and answers about peer access become facts
 * of the model. 0, -ENOMEM or -E2BIG.
 */
int hr_smi_attach(struct hr_model *m);

/* "PIX"; "" for HR_SMI_NONE. */
const char *hr_smi_distance_word(enum hr_smi_distance distance);

#endif

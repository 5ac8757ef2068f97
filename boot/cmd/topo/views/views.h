/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/cmd/topo/views/views.h - the views of `headrace topo` as text and JSON, one function for
 * each.
 */
#ifndef BOOT_CMD_TOPO_VIEWS_VIEWS_H
#define BOOT_CMD_TOPO_VIEWS_VIEWS_H

#include "boot/cmd/topo/topo.h"
#include "boot/cmd/topo/common.h"
#include "pci/topo/forecast/change.h"
#include "boot/cmd/topo/headline.h"
#include "boot/cmd/topo/survey.h"
#include "pci/topo/rules/peers.h"

/* ---- the default output: the answer in sentences, the matrix, notes, names. */

/* Print the output to t->out. Returns the exit code, which it computes on the way. */
enum hr_topo_exit hr_topo_table(struct hr_topo *t);

/* ---- the tree of bridges, with the path of one pair marked */

/* Print the tree to t->out; the path of the pair is marked unless gpu is HR_NO_FN. */
void hr_topo_tree(const struct hr_topo *t, int32_t gpu, int32_t ssd);

/* ---- one pair, hop by hop, with the deciding rule and the rules that were excluded */

/* Explain one pair on t->out. */
void hr_topo_explain(const struct hr_topo *t, int32_t gpu, int32_t ssd);

/* Print the rule table; {words} are filled in when a rule matches. */
void hr_topo_rules(FILE *out);

/* ---- --groups: predicted and real IOMMU groups, and what VFIO can open */

/* Show the groups: text, or members of t->json. Returns an exit code of topo. */
int hr_topo_groups(struct hr_topo *t);

/* ---- --software: a row of requirements per GPU and SSD, with the answer to each */

/* Show the requirements: text, or members of t->json. Returns an exit code of topo. */
int hr_topo_software(struct hr_topo *t);

/* Print the rows of both ends, as part of an explanation. */
void hr_topo_software_pair(const struct hr_topo *t, const struct hr_pair *p);

/* ---- --bandwidth and --plan: rates from the model, now and after the change
 * that --fix proposes.
 */

/* Show a view: text, or members of t->json. Return an exit code of topo. */
int hr_topo_bandwidth(struct hr_topo *t);
int hr_topo_plan(struct hr_topo *t);

/* ---- --what-if and --baseline: verdicts before and after, and other differences */

/*
 * Apply n changes (pci/topo/forecast/change.h) and show the result: text, or members of
 * t->json. Returns an exit code of topo.
 */
int hr_topo_whatif(struct hr_topo *t, const char *const *changes, unsigned n);
/* Compare with a capture: text, or members of t->json. Returns an exit code of topo. */
int hr_topo_baseline(const struct hr_topo *t, const char *file);

/*
 * Show the differences from an older model or its verdicts, on t->out or in t->json; returns their
 * number.
 */
unsigned hr_topo_compare_facts(const struct hr_topo *t, const struct hr_model *old);
unsigned hr_topo_compare_verdicts(const struct hr_topo *t, const struct hr_topology *old);

/* ---- --fix: the smallest ACS change, the commands for it, its side
 * effects, and the commands that undo it.
 */

/*
 * Show the fix: text, or members of t->json. apply: also write the registers of this machine.
 * Returns an exit code of topo.
 */
int hr_topo_fix(struct hr_topo *t, bool apply);

/* The command line of one write, or of the command that undoes it. Returns text. */
const char *hr_topo_setpci(const struct hr_topo *t, const struct hr_fix_write *w, bool undo,
			   char *text, size_t bytes);

/* ---- graphviz: bridges as boxes, links as edges; the path of a pair in colour */

/* Print the machine as a graph to t->out; the path of the pair is marked unless gpu is HR_NO_FN. */
void hr_topo_dot(const struct hr_topo *t, int32_t gpu, int32_t ssd);

/* ---- a matrix like that of nvidia-smi topo -m, with equal rows and columns merged */

/* Print the matrix of all pairs to t->out. */
void hr_topo_matrix(const struct hr_topo *t);

/*
 * Print the matrix in HR_TEXT_COLUMNS, with equal rows and equal columns merged. Cells are
 * shortened when they do not fit; then columns are printed in several sections, one below the
 * other. A large matrix is left out unless it is asked for. False: nothing was printed.
 */
bool hr_matrix_print(const struct hr_topo *t, const struct hr_survey *s, bool asked);

/* Print the meaning of its words. */
void hr_matrix_legend(const struct hr_topo *t, const struct hr_survey *s);

/* A verdict in at most 7 columns: "REDIR?". */
const char *hr_matrix_word(enum hr_verdict verdict);

/* Name of a row or a column: "NVME0-5"; returns text. */
char *hr_matrix_name(const struct hr_topo *t, const struct hr_survey *s, bool row, uint32_t at,
		     char *text, size_t capacity);

/* ---- equal GPUs, SSDs and network cards of --peers, for text and for pages.
 *
 * Two peers of a kind are equal when their cells against all other peers have the same text. Then
 * they share one row and one column.
 */

#define HR_PEERS_SHOWN 1024u   /* beyond this number --peers shows nothing */
#define HR_PEERS_COMPARED 512u /* beyond this number no peers are compared; each has its own row */

/* A set of equal peers. */
struct hr_topo_peer_set {
	enum hr_endpoint_kind kind;
	uint32_t first; /* index in peers->peer */
	/* Another member, for the cell of the set with itself; equal to first: none. */
	uint32_t second;
	struct hr_set set; /* numbers within their kind */
};

/*
 * The sets in the order of their first peers; *count is their number. The caller frees them. NULL:
 * out of memory.
 */
struct hr_topo_peer_set *hr_peer_sets(const struct hr_endpoints *peers, uint32_t *count);
/* Name of a set: "NVME0-5". Returns text. */
char *hr_peer_set_name(const struct hr_topo_peer_set *s, char *text, size_t capacity);
/* Text of a cell: "NV18 DIRECT", "PIX REDIR*", "PHB RC GNS", without a GPU "PHB". text[48]. */
char *hr_peer_cell(const struct hr_endpoints *peers, const struct hr_endpoint_pair *p, char *text);
/*
 * The sentence about two GPUs whose peer access NVIDIA's driver refuses; `verdict` is that of PCI
 * Express. Returns text.
 */
char *hr_peer_refusal(enum hr_p2p_status driver, enum hr_verdict verdict, char *text,
		      size_t capacity);
/* The direction that decided. */
const struct hr_pair *hr_peer_worst(const struct hr_endpoint_pair *p);

/*
 * Show GPUs, SSDs and network cards of these kinds (1 << enum hr_endpoint_kind) against each other, in
 * format "table" or "json"; another format is a usage error.
 */
int hr_topo_peers(struct hr_topo *t, unsigned kinds, const char *format);

/* The same as a part of another output: text, or members "peers" and "peer_pairs" of *o. */
void hr_topo_peers_text(struct hr_topo *t, unsigned kinds);
void hr_topo_peers_json(struct hr_topo *t, unsigned kinds, struct hr_json *o);

/* ---- the answer for a machine without a pair of GPU and NVMe
 * controller: what is missing, which functions are no GPU or no NVMe controller and why, and
 * the pairs that exist instead.
 */

/* Print the reason, and these pairs as --peers gpu,nic does. */
void hr_topo_alone(struct hr_topo *t);

/* ---- every port whose ACS control redirects, with the command that
 * clears it.
 *
 * --fix names the ports of pairs that share a switch. A capture without such a pair, such as lines
 * of ACSCtl, still tells which ports redirect. Which of them are between the two devices of a pair
 * follows from the tree of bridges, when the capture has it.
 */

/* True when a port redirects, or lines of ACSCtl name no port; false in a virtual machine. */
bool hr_topo_ports_matter(const struct hr_topo *t);
/* Print these ports as text. */
void hr_topo_ports(const struct hr_topo *t);
/* Put member "redirecting" into t->json. */
void hr_topo_ports_json(const struct hr_topo *t);

/* ---- the answer to a text that has no PCI function: a matrix of nvidia-smi,
 * rocm-smi or amd-smi, or lines of ACSCtl without addresses.
 *
 * The devices of a matrix have no PCI addresses, so no view of topo applies to them. The answer
 * tells what the text states, what it does not state, and the command that shows the rest.
 */

/*
 * True when the model has no function or none whose class or name the text states, and the text has
 * a matrix or lines of ACSCtl.
 */
bool hr_topo_has_answer_without_functions(const struct hr_model *m);

/* Print that answer as text, or as the document of view "matrix". Returns HR_TOPO_UNKNOWN. */
int hr_topo_without_functions(struct hr_topo *t, bool json);

/* ---- the documents of `topo --json` */

/*
 * Print the document of the verdicts. code: the exit code of the command. Returns code, or
 * HR_TOPO_NO_ACCESS with the reason printed.
 */
int hr_topo_json(struct hr_topo *t, int code);

/* The same for --explain of one pair, and for the table of rules. The exit code is that of the pair, or
 * 0. */
int hr_topo_json_explain(const struct hr_topo *t, const struct hr_pair *p);
int hr_topo_json_rules(const struct hr_topo *t);

#endif

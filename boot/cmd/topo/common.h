/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/cmd/topo/common.h - names, sums, colours and conditions that the views of topo share.
 */
#ifndef BOOT_CMD_TOPO_COMMON_H
#define BOOT_CMD_TOPO_COMMON_H

#include "boot/cmd/topo/topo.h"

/*
 * Call hr_topology_init() with the options of *t and the functions that the user names as GPUs and
 * SSDs; names that m does not have are left out. 0 or -ENOMEM.
 */
int hr_topo_evaluate(const struct hr_topo *t, struct hr_topology *e, struct hr_model *m);

/* The first function that the user names both as a GPU and, in any form, as an SSD; NULL: none. */
const char *hr_topo_both(const struct hr_topo *t);

/* "GPU0" or "NVME3": the name of an evaluated function in tables; text[16]. */
char *hr_topo_name(const struct hr_topo *t, int32_t fn, char *text);

/* The function that a user names: GPU0, NVME0 or an address. HR_NO_FN: none. */
int32_t hr_topo_find(const struct hr_topo *t, const char *name);

/*
 * The function with an address in any form that lspci prints: 03:00.0, 0000:03:00.0, the paths of
 * -P (00:01.0/00.0) and -PP (00:01.0/03:00.0), a line that begins with one of them; and
 * 00000000:03:00.0 of nvidia-smi. HR_NO_FN: no such function, or not an address.
 */
int32_t hr_topo_address(const struct hr_model *m, const char *text);

/* Exit code of one pair; the worse of two codes. */
enum hr_topo_exit hr_topo_exit_of(const struct hr_pair *p);
enum hr_topo_exit hr_topo_worse(enum hr_topo_exit a, enum hr_topo_exit b);
/* Sum up all pairs of the machine; add one pair. */
void hr_topo_sum_up(const struct hr_topo *t, struct hr_topo_sum *sum);
void hr_topo_sum_add(struct hr_topo_sum *sum, const struct hr_pair *p);

/* True when --wanted includes this evaluated pair. */
bool hr_topo_wants(const struct hr_topo *t, const struct hr_pair *p);
/* Exit code of all wanted pairs. */
enum hr_topo_exit hr_topo_exit_all(const struct hr_topo *t);

#define HR_TOPO_NO_PAIR_TEXT 320u
/* The line that explains HR_TOPO_NONE; text[HR_TOPO_NO_PAIR_TEXT]; returns text. */
const char *hr_topo_no_pair(const struct hr_topo *t, char *text);

/* ANSI colour of a verdict, or "" without colours; and the reset sequence. */
const char *hr_topo_colour(const struct hr_topo *t, enum hr_verdict verdict);
const char *hr_topo_reset(const struct hr_topo *t);
/* "LINK,NUMA" of modifiers; text[HR_MODIFIERS_TEXT]; returns text. */
char *hr_topo_modifiers(uint16_t modifiers, char *text);

/* The IOMMU's mode in force: "passthrough", "active, mode unknown". */
const char *hr_topo_iommu_word(const struct hr_topology *e);

/* What states that mode, or what is known when the mode is unknown; "": nothing. */
const char *hr_topo_iommu_reason(const struct hr_topology *e);

/* Title without the class. */
const char *hr_topo_title(const struct hr_fn *f);

/*
 * Describe the function: its title (at most 100 bytes of whole words), the numbers [vvvv:dddd]
 * unless the title has them, "integrated" GPU, "VF of" another function. Returns text.
 */
char *hr_topo_describe(const struct hr_topo *t, const struct hr_fn *f, char *text, size_t bytes);

/* "[10de:20b0]"; "" when the title has it or it is unknown; text[16]; returns text. */
const char *hr_topo_ids(const struct hr_fn *f, char *text);

/* Number of bytes of text to print in at most `most` bytes, without cutting a character in two. */
int hr_topo_fit(const char *text, int most);

/* Report that no function has that name. HR_TOPO_USAGE. */
int hr_topo_no_function(const struct hr_topo *t, const char *name);

/*
 * 'gpu=*,nvme=*:DIRECT': every matching pair must be at least as good as the level.
 * hr_topo_require_check() tells whether a text has that form. hr_topo_require() returns 0 when the
 * requirement is met; the exit code of the worst failing pair (each failing pair is reported on
 * stderr); HR_TOPO_NONE: no pair matches, which is reported, too; or HR_TOPO_USAGE: the text does
 * not have that form.
 */
bool hr_topo_require_check(const char *text);
int hr_topo_require(const struct hr_topo *t, const char *text);

#define HR_TOPO_FINDINGS_MAX 64u /* of a pair */

/* A rule with a verdict that was tried for this pair and did not match. */
bool hr_topo_ruled_out(const struct hr_topo *t, const struct hr_pair *p, unsigned rule);

/* Verdict or modifiers of a rule, or "note". */
const char *hr_topo_rule_verdict(unsigned rule, char text[HR_MODIFIERS_TEXT]);

#endif

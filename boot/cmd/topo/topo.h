/*
 * boot/cmd/topo/topo.h - what the files of `headrace topo` share.
 *
 * The engine is pci/topo/verdict.h; here it is only shown. All output goes to `out`.
 */
#ifndef BOOT_CMD_TOPO_TOPO_H
#define BOOT_CMD_TOPO_TOPO_H

#include <stdbool.h>
#include <stdio.h>

#include <json-c/json.h>

#include "pci/topo/verdict.h"

/* Exit codes of topo, for fleets. */
enum hr_topo_exit {
	HR_TOPO_DIRECT = 0,   /* all wanted pairs */
	HR_TOPO_DEGRADED = 1, /* direct, but slower than it could be */
	HR_TOPO_THROUGH = 2,  /* redirected, or through a root complex */
	HR_TOPO_BLOCKED = 3,
	HR_TOPO_LOSS = 4,    /* silent loss */
	HR_TOPO_UNKNOWN = 5, /* a fact is missing: run as root, better capture */
	HR_TOPO_NONE = 6,    /* no GPU or no NVMe to judge */
	HR_TOPO_CHANGED = 7, /* --baseline: something differs */
	HR_TOPO_REFUSED = 8, /* --fix --apply was refused or failed */
	HR_TOPO_USAGE = 64,
	HR_TOPO_BAD_INPUT = 65, /* the capture is malformed or cannot be read */
	HR_TOPO_NO_ACCESS = 66, /* the live machine cannot be walked, or a file cannot be written */
};

struct hr_topo {
	struct hr_model model;
	struct hr_engine engine;
	struct hr_options opt;
	const char *const *as_gpu, *const *as_ssd; /* addresses to judge whatever their class */
	unsigned as_gpus, as_ssds;
	bool colour, utf8, all;
	bool near_only; /* --wanted same-switch */
	FILE *out;
	struct json_object *json; /* of a view that computes anew, instead of text; else NULL */
	bool json_pairs;	  /* that view has pairs[], as the engine judges at its end */
};

/*
 * hr_engine_init() with the options of *t, and the functions that the user calls a GPU or an SSD;
 * those that m does not have are left out. 0 or -ENOMEM.
 */
int hr_topo_engine(const struct hr_topo *t, struct hr_engine *e, struct hr_model *m);

/* Values of --mode, --iommu and --kernel; false: the text is none. */
bool hr_topo_set_mode(struct hr_options *opt, const char *text);
bool hr_topo_set_iommu(struct hr_options *opt, const char *text);
bool hr_topo_set_kernel(struct hr_options *opt, const char *text);
/* The first name that the user gives as a GPU and, in any form, as an SSD too; NULL: none. */
const char *hr_topo_both(const struct hr_topo *t);

/* "GPU0" or "NVME3": the name of a judged function in tables; text[16]. */
char *hr_topo_name(const struct hr_topo *t, int32_t fn, char *text);
/* The function that a user names: GPU0, NVME0 or an address. HR_NO_FN: none. */
int32_t hr_topo_find(const struct hr_topo *t, const char *name);
/*
 * The function with that address, in any form that lspci prints: 03:00.0, 0000:03:00.0, the paths of
 * -P (00:01.0/00.0) and -PP (00:01.0/03:00.0), a line that begins so; and 00000000:03:00.0 of
 * nvidia-smi. HR_NO_FN: none, or no address.
 */
int32_t hr_topo_address(const struct hr_model *m, const char *text);
/* Exit code that one pair earns; the worse of two codes. */
enum hr_topo_exit hr_topo_exit_of(const struct hr_pair *p);
enum hr_topo_exit hr_topo_worse(enum hr_topo_exit a, enum hr_topo_exit b);
/* One pass over all pairs. */
struct hr_topo_sum {
	uint64_t pairs, by_verdict[HR_VERDICTS], degraded;
	enum hr_topo_exit exit; /* of the worst pair; HR_TOPO_NONE: there is none */
};
void hr_topo_sum_up(const struct hr_topo *t, struct hr_topo_sum *sum);
void hr_topo_sum_add(struct hr_topo_sum *sum, const struct hr_pair *p);
/* --wanted: does the user ask for this pair, which was judged? */
bool hr_topo_wants(const struct hr_topo *t, const struct hr_pair *p);
enum hr_topo_exit hr_topo_exit_all(const struct hr_topo *t);
/* The line that says why HR_TOPO_NONE; text[160]; returns text. */
const char *hr_topo_no_pair(const struct hr_topo *t, char *text);

/* ANSI colour of a verdict, or "" without colours; and the reset. */
const char *hr_topo_colour(const struct hr_topo *t, enum hr_verdict verdict);
const char *hr_topo_reset(const struct hr_topo *t);
/* "LINK,NUMA" of modifiers; text[HR_MODIFIERS_TEXT]. */
#define HR_MODIFIERS_TEXT 96
char *hr_topo_modifiers(uint16_t modifiers, char *text);
/* "passthrough", "active, mode unknown": the IOMMU in force. */
const char *hr_topo_iommu_word(const struct hr_engine *e);
/* Title without class. */
const char *hr_topo_title(const struct hr_fn *f);
/*
 * What the function is: its title, cut at 100 bytes, the numbers [vvvv:dddd] unless the title has
 * them, "integrated" GPU, "VF of" another function. Returns text.
 */
char *hr_topo_what(const struct hr_topo *t, const struct hr_fn *f, char *text, size_t bytes);
/* "[10de:20b0]", or "" where the title has it or it is not known; text[16]; returns text. */
const char *hr_topo_ids(const struct hr_fn *f, char *text);
/* Bytes of text to print where at most `most` fit: no character is cut in two. */
int hr_topo_fit(const char *text, int most);

/* Returns the exit code, which it knows anyway. */
enum hr_topo_exit hr_topo_table(struct hr_topo *t);
void hr_topo_matrix(const struct hr_topo *t);
/* Pair highlighted when gpu is not HR_NO_FN. */
void hr_topo_tree(const struct hr_topo *t, int32_t gpu, int32_t ssd);
void hr_topo_explain(const struct hr_topo *t, int32_t gpu, int32_t ssd);
/* code: what the command is going to return. 0, or what hr_json_print() says. */
int hr_topo_json(struct hr_topo *t, int code);
/* The document of a view ("plan", "fix", ...), with the machine in it. */
struct json_object *hr_topo_json_new(const struct hr_topo *t, const char *view);
/*
 * Print and free it, with functions[] and pairs[] if wanted, one by one: all pairs of a large
 * machine do not fit into memory. 0, or -EIO when stdout does not take it.
 */
int hr_topo_json_print(const struct hr_topo *t, struct json_object *root, bool functions,
		       bool pairs, int code);
/* "gpu" and "nvme" of a pair, as addresses; one function's address as member `key`. */
void hr_topo_json_ends(const struct hr_topo *t, struct json_object *o, int32_t gpu, int32_t ssd);
void hr_topo_json_address(const struct hr_topo *t, struct json_object *o, const char *key,
			  int32_t fn);
/*
 * Write the page of --html to a file ("-": standard output), which appears under its name when it is
 * whole; one that exists needs `force`. Returns the exit code of the verdicts, or HR_TOPO_NO_ACCESS,
 * which is told on stderr.
 */
int hr_topo_html(struct hr_topo *t, const char *path, bool force);
void hr_topo_dot(const struct hr_topo *t, int32_t gpu, int32_t ssd);

/*
 * 'gpu=*,nvme=*:DIRECT': every pair that matches must be at least as good as the level.
 * hr_topo_require_check() says whether a text has that form; hr_topo_require() takes one that has,
 * and returns 0 when met, the exit code of the worst pair that fails (each is told on stderr), or
 * HR_TOPO_NONE: no pair matches, which is told too. HR_TOPO_USAGE: the text has not that form.
 */
bool hr_topo_require_check(const char *text);
int hr_topo_require(const struct hr_topo *t, const char *text);

extern const char hr_topo_help[];
/* The rule table as text; {words} are filled in when a rule hits. */
void hr_topo_rules(FILE *out);
/* Those that compute anew print what they find, or add it to t->json, and return an exit code of
 * topo. */
int hr_topo_fix(struct hr_topo *t, bool apply);
int hr_topo_whatif(struct hr_topo *t, const char *const *changes, unsigned n);
int hr_topo_bandwidth(struct hr_topo *t);
int hr_topo_plan(struct hr_topo *t);
int hr_topo_groups(struct hr_topo *t);
/*
 * GPUs, SSDs and network cards of these kinds (1 << enum hr_peer_kind) against each other, as "table"
 * or "json"; another format is wrong usage.
 */
int hr_topo_peers(struct hr_topo *t, unsigned kinds, const char *format);
int hr_topo_software(struct hr_topo *t);
/* The rows of both ends, as part of an explanation. */
void hr_topo_software_pair(const struct hr_topo *t, const struct hr_pair *p);
int hr_topo_baseline(const struct hr_topo *t, const char *file);
/* What differs from an older model or its verdicts: to t->out or t->json; returns how much. */
unsigned hr_topo_compare_facts(const struct hr_topo *t, const struct hr_model *old);
unsigned hr_topo_compare_verdicts(const struct hr_topo *t, const struct hr_engine *old);

#endif

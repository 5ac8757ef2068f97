/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `headrace topo` prints for the machines and texts of the folder cases; its README.md describes
 * them.
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "tests/harness/machine.h"
#include "tests/harness/topo_case.h"

#define FOLDER "tests/unit/boot/cmd/topo/cases/"

TestSuite(topo_cases, .timeout = 900);

/* ---- a case */

struct text {
	char *at;
	size_t size;
	FILE *stream;
};

static void begin(struct text *t)
{
	t->stream = open_memstream(&t->at, &t->size);
	cr_assert_not_null(t->stream);
}

static void end(struct text *t)
{
	fclose(t->stream);
	t->stream = NULL;
}

struct topo_case {
	char *file;
	unsigned line; /* of its name */
	char name[128];
	struct text input;  /* lines "| ..." */
	struct text wanted; /* lines "> ..." */
	char run[48][128];  /* arguments of each command */
	bool sentences[48];
	unsigned runs;
	struct topo_likeness like[64]; /* functions that are copies */
	unsigned likes;
};

static struct topo_case now;

/* ---- the machine of a case */

static struct fake_machine machine;

/* Offset of "ACS+6": a capability and a hexadecimal number, or a number alone. */
static uint32_t offset_of(const char *text)
{
	static const struct {
		const char *name;
		uint32_t at;
	} capability[] = { { "EXP", FAKE_EXP },	    { "PM", FAKE_PM },	    { "AER", FAKE_AER },
			   { "ACS", FAKE_ACS },	    { "ATS", FAKE_ATS },    { "DPC", FAKE_DPC },
			   { "REBAR", FAKE_REBAR }, { "SRIOV", FAKE_SRIOV } };
	size_t length = strcspn(text, "+.");

	for (size_t i = 0; i < sizeof capability / sizeof *capability; i++)
		if (strlen(capability[i].name) == length &&
		    strncmp(text, capability[i].name, length) == 0)
			return capability[i].at + (uint32_t)strtoul(text + length, NULL, 16);
	return (uint32_t)strtoul(text, NULL, 16);
}

static struct fake_fn *new_function(const char *address, const char *like)
{
	struct fake_fn *f = &machine.fn[machine.count++], *from = fake_find(&machine, like);

	cr_assert_not_null(from, "%s", like);
	*f = *from;
	snprintf(f->address, sizeof f->address, "%s", address);
	return f;
}

static void remove_function(struct fake_fn *f)
{
	machine.count--;
	memmove(f, f + 1, (size_t)(&machine.fn[machine.count] - f) * sizeof *f);
}

/* Registers "ACS+6.w=4"; widths as in setpci, and N: bytes up to that offset. */
static void set_registers(struct fake_fn *f, char *words)
{
	char *save = NULL;

	for (char *word = strtok_r(words, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
		const char *width = strchr(word, '.'), *value = strchr(word, '=');
		uint32_t at = offset_of(word), number;

		cr_assert(width && value, "%s", word);
		number = (uint32_t)strtoul(value + 1, NULL, 16);
		if (width[1] == 'f')
			memset(f->config + at, (int)number, sizeof f->config - at);
		else
			fake_put(f, at, width[1] == 'b' ? 1 : width[1] == 'w' ? 2 : 4, number);
	}
}

static void append(char *text, const char *line)
{
	size_t used = strlen(text);

	snprintf(text + used, FAKE_TEXT_MAX - used, "%s\n", line);
}

static void note_copy(const char *address, const char *of)
{
	struct topo_likeness *like = &now.like[now.likes++];

	cr_assert_lt(now.likes, 64u);
	snprintf(like->address, sizeof like->address, "%s", address);
	snprintf(like->of, sizeof like->of, "%s", of);
}

/* "ADDRESS like ADDRESS", "... gone", "... bytes N", "... title T", "... text T", "... blank" */
static void change(char *line)
{
	char *rest = line + strcspn(line, " ");
	struct fake_fn *f;

	*rest++ = '\0';
	if (strcmp(line, "head") == 0) {
		append(machine.head, rest);
		return;
	}
	f = strncmp(rest, "like ", 5) == 0 ? new_function(line, rest + 5)
					   : fake_find(&machine, line);
	cr_assert_not_null(f, "%s", line);
	if (strncmp(rest, "like ", 5) == 0) {
		note_copy(line, rest + 5);
		return;
	}
	if (strcmp(rest, "gone") == 0)
		remove_function(f);
	else if (strncmp(rest, "bytes ", 6) == 0)
		f->bytes = (uint32_t)atoi(rest + 6);
	else if (strncmp(rest, "title ", 6) == 0)
		snprintf(f->title, sizeof f->title, "%s", rest + 6);
	else if (strcmp(rest, "blank") == 0)
		f->text[0] = '\0';
	else if (strncmp(rest, "text ", 5) == 0)
		append(f->text, rest + 5);
	else
		set_registers(f, rest);
}

/* ---- the output of a case */

/* A machine that cases change: at the start fake_two_ports(), then those of cases with `keep`. */
struct kept {
	char name[128];
	struct fake_machine machine;
	struct {
		char args[128];
		bool sentences;
		struct topo_items items;
	} output[128];
	unsigned outputs;
};

static struct kept *kept[32], *on; /* on: the one that the present case changes */
static unsigned kept_count;

/* Without the functions that it does not have: most of its bytes. */
static void copy_machine(struct fake_machine *to, const struct fake_machine *from)
{
	memcpy(to, from, offsetof(struct fake_machine, fn) + from->count * sizeof *from->fn);
}

static void keep(const char *name)
{
	struct kept *k = kept[kept_count++] = calloc(1, sizeof *k);

	cr_assert(k && kept_count < 32);
	snprintf(k->name, sizeof k->name, "%s", name);
	copy_machine(&k->machine, &machine);
}

static void change_kept(const char *name)
{
	unsigned i = 0;

	while (i < kept_count && strcmp(kept[i]->name, name) != 0)
		i++;
	cr_assert_lt(i, kept_count, "%s:%u: no machine '%s'", now.file, now.line, name);
	on = kept[i];
	copy_machine(&machine, &on->machine);
}

/* Output of the machine that the case changes. */
static const struct topo_items *unchanged(const char *args, bool sentences)
{
	struct topo_items *items;
	size_t size;
	char *text;

	for (unsigned i = 0; i < on->outputs; i++)
		if (strcmp(on->output[i].args, args) == 0 && on->output[i].sentences == sentences)
			return &on->output[i].items;
	cr_assert_lt(on->outputs, 128u);
	snprintf(on->output[on->outputs].args, sizeof on->output->args, "%s", args);
	on->output[on->outputs].sentences = sentences;
	items = &on->output[on->outputs++].items;
	text = fake_render(&on->machine, &size);
	topo_case_run(text, size, args, sentences, items);
	free(text);
	return items;
}

static bool changed; /* the machine of the case */

/*
 * What a command prints about the case's text; about a machine, what differs from the unchanged one,
 * and for that with further options what differs from the output without them. The prediction of a
 * change is short, and is printed whole.
 */
static void run_one(const char *input, size_t size, const char *args, bool sentences, FILE *out)
{
	static const char verdicts[] = "--json";
	struct topo_items got = { 0 }, none = { 0 };
	const struct topo_items *base = &none;

	if (now.input.size || strstr(args, "--what-if"))
		base = &none;
	else if (changed)
		base = unchanged(args, sentences);
	else if (strncmp(args, "--json ", 7) == 0)
		base = unchanged(verdicts, sentences);
	if (!topo_case_run(input, size, args, sentences, &got))
		base = &none;
	topo_items_print(&got, base, now.like, base->count ? now.likes : 0, out);
	topo_items_free(&got);
}

static void run(FILE *out)
{
	char *input = now.input.at;
	size_t size = now.input.size;

	if (!size)
		input = fake_render(&machine, &size);
	for (unsigned i = 0; i < now.runs; i++)
		run_one(input, size, now.run[i], now.sentences[i], out);
	if (!now.input.size)
		free(input);
}

static unsigned differences;

/* The first line that differs. */
static void expect_same(const char *got, const char *want)
{
	const char *a = got, *b = want;

	while (*a && *a == *b)
		a++, b++;
	while (a > got && a[-1] != '\n')
		a--, b--;
	if (strcmp(got, want) == 0)
		return;
	cr_assert_lt(differences++, 20u, "more differences are not shown");
	cr_expect(false, "%s:%u: %s\n  got:      %.*s\n  expected: %.*s", now.file, now.line,
		  now.name, (int)strcspn(a, "\n"), a, (int)strcspn(b, "\n"), b);
}

static void finish(void)
{
	struct text got;

	if (!now.line)
		return;
	end(&now.input);
	end(&now.wanted);
	if (!now.runs)
		strcpy(now.run[now.runs++], "--json");
	begin(&got);
	run(got.stream);
	end(&got);
	expect_same(got.at, now.wanted.at);
	free(got.at);
	free(now.input.at);
	free(now.wanted.at);
}

/* Without a name it is a further case of the rule before it. */
static void start(char *file, unsigned number, const char *name)
{
	struct topo_case next = { .file = file, .line = number };

	snprintf(next.name, sizeof next.name, "%s", name ? name : now.name);
	now = next;
	begin(&now.input);
	begin(&now.wanted);
	change_kept("two ports");
	changed = false;
}

static void take(char *file, unsigned number, char *line)
{
	if (strncmp(line, "==", 2) == 0) {
		finish();
		start(file, number, line[2] ? line + 3 : NULL);
	}
	if (line[0] == '>') {
		fprintf(now.wanted.stream, "%s\n", line);
		return;
	}
	if (line[0] == '\0') {
		finish();
		now.line = 0;
	}
	if (line[0] == '|')
		fprintf(now.input.stream, "%s\n", line[1] ? line + 2 : "");
	else if (strncmp(line, "run ", 4) == 0 || strncmp(line, "tell ", 5) == 0) {
		cr_assert_lt(now.runs, 48u, "%s:%u", file, number);
		now.sentences[now.runs] = line[0] == 't';
		snprintf(now.run[now.runs++], 128, "%s", strchr(line, ' ') + 1);
	} else if (strcmp(line, "keep") == 0)
		keep(now.name);
	else if (strncmp(line, "on ", 3) == 0)
		change_kept(line + 3);
	else if (line[0] && line[0] != '#' && line[0] != '=') {
		changed = true;
		change(line);
	}
}

static void check(char *name)
{
	char path[512], *text = NULL;
	size_t capacity = 0;
	unsigned number = 0;
	FILE *file;

	snprintf(path, sizeof path, FOLDER "%s", name);
	file = fopen(path, "r");
	cr_assert_not_null(file, "%s", path);
	now.line = 0;
	/* A child process that ends would move the position in a file. */
	cr_assert_gt(getdelim(&text, &capacity, '\0', file), 0, "%s", path);
	fclose(file);
	for (char *line = text, *next; *line; line = next) {
		next = line + strcspn(line, "\n");
		if (*next)
			*next++ = '\0';
		take(name, ++number, line);
	}
	finish();
	free(text);
}

Test(topo_cases, the_output_is_as_stated)
{
	struct dirent **entry;
	int n = scandir(FOLDER, &entry, NULL, alphasort), files = 0;

	cr_assert_gt(n, 0);
	fake_two_ports(&machine);
	keep("two ports");
	for (int i = 0; i < n; i++) {
		const char *end_of = strrchr(entry[i]->d_name, '.');

		if (end_of && strcmp(end_of, ".txt") == 0) {
			check(entry[i]->d_name);
			files++;
		}
		free(entry[i]);
	}
	free(entry);
	cr_assert_gt(files, 0);
}

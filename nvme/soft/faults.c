/* SPDX-License-Identifier: Apache-2.0 */
/* Fault scripts, in the format of FAULTS.md. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/base/clock.h"
#include "config/base/log.h"
#include "config/base/files.h"
#include "nvme/soft/internal.h"

#define LINE_MAX_BYTES 512u
#define BLANKS " \t\r\n"

/* A line that is parsed word by word. */
struct reader {
	struct soft_fault *fault;
	char *rest;
	const char *problem; /* error text; NULL: none */
	const char *word;    /* word that caused the error */
};

static char *next_word(struct reader *r)
{
	char *word;

	do
		word = strsep(&r->rest, BLANKS);
	while (word && !*word);
	return word;
}

static void note_problem(struct reader *r, const char *word, const char *problem)
{
	if (r->problem)
		return;
	r->problem = problem;
	r->word = word ? word : "end of line";
}

static uint64_t read_number(struct reader *r, const char *word, uint64_t max)
{
	char *end;
	unsigned long long v;

	if (!word || *word < '0' || *word > '9') {
		note_problem(r, word, "expected a number");
		return 0;
	}
	errno = 0;
	v = strtoull(word, &end, word[0] == '0' && (word[1] | 0x20) == 'x' ? 16 : 10);
	if (*end || errno || v > max)
		note_problem(r, word, "not a number, or too large");
	return v;
}

static uint64_t read_duration(struct reader *r, char *word)
{
	static const struct {
		const char *unit;
		uint64_t ns;
	} unit[] = { { "us", 1000 }, { "ms", HR_NS_PER_MS }, { "s", HR_NS_PER_S } };
	const size_t digits = word ? strspn(word, "0123456789") : 0;

	for (size_t i = 0; digits && i < sizeof(unit) / sizeof(unit[0]); i++) {
		if (strcmp(word + digits, unit[i].unit) != 0)
			continue;
		word[digits] = '\0';
		return read_number(r, word, 3600) * unit[i].ns;
	}
	note_problem(r, word, "expected a time like 5ms (us, ms, s; at most 3600)");
	return 0;
}

static uint32_t read_command(struct reader *r, const char *word)
{
	static const struct {
		const char *name;
		uint32_t on;
	} command[] = {
		{ "read", FAULT_ON_READ },
		{ "write", FAULT_ON_WRITE },
		{ "flush", FAULT_ON_FLUSH },
		{ "admin", FAULT_ON_ADMIN },
		{ "any", FAULT_ON_READ | FAULT_ON_WRITE | FAULT_ON_FLUSH | FAULT_ON_OTHER },
	};

	for (size_t i = 0; word && i < sizeof(command) / sizeof(command[0]); i++)
		if (strcmp(word, command[i].name) == 0)
			return command[i].on;
	note_problem(r, word, "expected read, write, flush, admin or any");
	return 0;
}

static void read_lbas(struct reader *r, char *word)
{
	char *dash = word ? strchr(word, '-') : NULL;

	if (dash)
		*dash++ = '\0';
	r->fault->first = read_number(r, word, UINT64_MAX);
	r->fault->last = dash ? read_number(r, dash, UINT64_MAX) : r->fault->first;
	if (r->fault->last < r->fault->first)
		note_problem(r, word, "range ends before it begins");
}

/* Parse [opcode N] [lba A[-B]] [nth N] [count M], up to the colon. */
static void read_match(struct reader *r)
{
	char *word = next_word(r);

	if (!word || strcmp(word, "on") != 0)
		note_problem(r, word, "expected 'on'");
	r->fault->on = read_command(r, next_word(r));
	while (!r->problem && (word = next_word(r)) && strcmp(word, ":") != 0) {
		if (strcmp(word, "opcode") == 0)
			r->fault->opcode = (uint32_t)read_number(r, next_word(r), UINT8_MAX);
		else if (strcmp(word, "lba") == 0)
			read_lbas(r, next_word(r));
		else if (strcmp(word, "nth") == 0)
			r->fault->nth = read_number(r, next_word(r), UINT64_MAX);
		else if (strcmp(word, "count") == 0)
			r->fault->times = read_number(r, next_word(r), UINT64_MAX);
		else
			note_problem(r, word, "expected opcode, lba, nth, count or ':'");
	}
	if (r->fault->nth == 0)
		note_problem(r, "0", "nth counts from 1");
	if (r->fault->times == 0)
		note_problem(r, "0", "count is at least 1");
}

static void read_status(struct reader *r)
{
	char *word;

	r->fault->status = (uint16_t)read_number(r, next_word(r), 0x7ff);
	if (r->fault->status == 0)
		note_problem(r, "0", "that status is success");
	word = next_word(r);
	if (word && strcmp(word, "crd") == 0) {
		r->fault->crd = (uint8_t)read_number(r, next_word(r), 3);
		word = next_word(r);
	}
	r->fault->dnr = word && strcmp(word, "dnr") == 0;
	if (word && !r->fault->dnr)
		note_problem(r, word, "expected 'crd N', 'dnr' or nothing");
}

static void read_cut(struct reader *r)
{
	const char *word = next_word(r), *seed;

	if (word && strcmp(word, "some") == 0)
		r->fault->policy = HR_SOFT_CUT_SOME;
	else if (word && strcmp(word, "torn") == 0)
		r->fault->policy = HR_SOFT_CUT_TORN;
	else if (!word || strcmp(word, "drop") != 0)
		note_problem(r, word, "expected drop, some or torn");
	seed = next_word(r);
	if (seed && strcmp(seed, "seed") == 0)
		r->fault->seed = read_number(r, next_word(r), UINT64_MAX);
	else if (seed)
		note_problem(r, seed, "expected 'seed' or nothing");
}

static void read_action(struct reader *r)
{
	static const char *const name[] = {
		[FAULT_STATUS] = "status",   [FAULT_DROP] = "drop",
		[FAULT_DELAY] = "delay",     [FAULT_DUPLICATE] = "duplicate",
		[FAULT_REORDER] = "reorder", [FAULT_CID] = "wrong-cid",
		[FAULT_SQHD] = "bad-sqhd",   [FAULT_CFS] = "cfs",
		[FAULT_REMOVE] = "remove",   [FAULT_CUT] = "powercut",
		[FAULT_WARN] = "warn",	     [FAULT_PROTECT] = "protect",
		[FAULT_DEAF] = "deaf",
	};
	char *word = next_word(r);
	unsigned kind = FAULT_STATUS;

	while (word && kind < FAULT_KINDS && strcmp(word, name[kind]) != 0)
		kind++;
	if (!word || kind == FAULT_KINDS) {
		note_problem(
			r, word,
			"expected status, drop, delay, duplicate, reorder, wrong-cid, bad-sqhd, cfs, "
			"remove, powercut, warn, protect or deaf");
		return;
	}
	r->fault->kind = (enum soft_fault_kind)kind;
	if (kind == FAULT_STATUS)
		read_status(r);
	else if (kind == FAULT_DELAY)
		r->fault->delay_ns = read_duration(r, next_word(r));
	else if (kind == FAULT_CID || kind == FAULT_SQHD)
		r->fault->value = (uint16_t)read_number(r, next_word(r), 0xffff);
	else if (kind == FAULT_WARN)
		r->fault->value = (uint16_t)read_number(r, next_word(r), 0x1f);
	else if (kind == FAULT_CUT)
		read_cut(r);
	word = next_word(r);
	if (word)
		note_problem(r, word, "unexpected word at the end of the rule");
}

/* Put blanks around ':', so that it is a word of its own: at most three bytes for each of `from`. */
static void space_colon(char *to, const char *from)
{
	size_t n = 0;

	for (; *from && *from != '#'; from++) {
		if (*from == ':') {
			to[n++] = ' ';
			to[n++] = ':';
			to[n++] = ' ';
		} else {
			to[n++] = *from;
		}
	}
	to[n] = '\0';
}

static int read_line(struct soft *soft, const char *line, const char *file, unsigned number,
		     struct hr_error *e)
{
	char text[3 * LINE_MAX_BYTES];
	struct reader r = { 0 };

	space_colon(text, line);
	if (text[strspn(text, BLANKS)] == '\0')
		return 0;
	if (soft->faults == SOFT_FAULTS)
		return hr_fail(e, HR_ERROR_USAGE, -EINVAL, "%s:%u: more than %u rules", file,
			       number, SOFT_FAULTS);
	r.rest = text;
	r.fault = &soft->fault[soft->faults];
	*r.fault = (struct soft_fault){
		.opcode = SOFT_ANY_OPCODE, .nth = 1, .times = 1, .last = UINT64_MAX
	};
	read_match(&r);
	if (!r.problem)
		read_action(&r);
	if (r.problem)
		return hr_fail(e, HR_ERROR_USAGE, -EINVAL, "%s:%u: '%s': %s", file, number, r.word,
			       r.problem);
	soft->faults++;
	return 0;
}

static int open_script(const char *file, FILE **in, struct hr_error *e)
{
	const char *why;
	const int fd = hr_open(file, O_RDONLY, HR_OPEN_FILE, &why);

	if (fd < 0)
		return hr_fail(e,
			       fd == -EISDIR || fd == -EINVAL ? HR_ERROR_USAGE : HR_ERROR_MISSING,
			       fd, "fault script %s: %s", file, why);
	*in = fdopen(fd, "r");
	if (*in)
		return 0;
	close(fd);
	return hr_fail(e, HR_ERROR_FAILED, -ENOMEM, "fault script %s: out of memory", file);
}

int soft_faults_read(struct soft *soft, const char *file, struct hr_error *e)
{
	char line[LINE_MAX_BYTES];
	unsigned number = 0;
	FILE *in = NULL;
	int err = open_script(file, &in, e);

	if (err)
		return err;
	while (!err && fgets(line, sizeof(line), in)) {
		number++;
		if (strlen(line) == sizeof(line) - 1 && line[sizeof(line) - 2] != '\n')
			err = hr_fail(e, HR_ERROR_USAGE, -EINVAL,
				      "%s:%u: line longer than %u characters", file, number,
				      LINE_MAX_BYTES - 2);
		else
			err = read_line(soft, line, file, number, e);
	}
	if (!err && ferror(in)) {
		err = hr_fail(e, HR_ERROR_FAILED, -EIO, "fault script %s: cannot read", file);
	}
	fclose(in);
	return err;
}

static uint32_t kind_of(const struct hr_sqe *sqe, bool admin)
{
	if (admin)
		return FAULT_ON_ADMIN;
	switch (sqe->opcode) {
	case nvme_cmd_read:
		return FAULT_ON_READ;
	case nvme_cmd_write:
		return FAULT_ON_WRITE;
	case nvme_cmd_flush:
		return FAULT_ON_FLUSH;
	default:
		return FAULT_ON_OTHER;
	}
}

static bool fault_matches(const struct soft_fault *fault, const struct hr_sqe *sqe, uint32_t kind)
{
	const uint64_t first = (uint64_t)sqe->cdw11 << 32 | sqe->cdw10;

	if (!(fault->on & kind))
		return false;
	if (fault->opcode != SOFT_ANY_OPCODE && fault->opcode != sqe->opcode)
		return false;
	if (!(kind &
	      (FAULT_ON_READ | FAULT_ON_WRITE))) /* other commands touch no blocks of `lba` */
		return fault->first == 0 && fault->last == UINT64_MAX;
	return first <= fault->last && first + (sqe->cdw12 & 0xffff) >= fault->first;
}

const struct soft_fault *soft_fault_for(struct soft *soft, const struct hr_sqe *sqe, bool admin)
{
	const uint32_t kind = kind_of(sqe, admin);
	const struct soft_fault *fires = NULL;

	/* each rule counts its matches, also when an earlier rule applies */
	for (uint32_t i = 0; i < soft->faults; i++) {
		struct soft_fault *fault = &soft->fault[i];
		uint64_t n;

		if (!fault_matches(fault, sqe, kind))
			continue;
		n = __atomic_add_fetch(&fault->seen, 1, __ATOMIC_RELAXED);
		if (!fires && n >= fault->nth && n - fault->nth < fault->times)
			fires = fault;
	}
	return fires;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/ops/user.h"

#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/base/log.h"
#include "config/base/files.h"
#include "cache/crc32c.h"
#include "gpu/ops/operators.h"

/* A loaded operator file. */
struct loaded {
	const struct hr_operator *op;
	uint32_t checksum;
	dev_t device;
	ino_t inode;
};

static struct loaded loaded[HR_OPERATORS_MAX];
static uint32_t count;

static bool name_is_good(const char *name)
{
	const size_t length = name ? strnlen(name, HR_NAME_MAX) : 0;

	return length && length < HR_NAME_MAX && name[0] >= 'a' && name[0] <= 'z' &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") == length;
}

static bool help_is_good(const char *help)
{
	const size_t length = help ? strnlen(help, HR_OP_HELP_MAX) : 0;

	for (size_t i = 0; i < length; i++)
		if ((uint8_t)help[i] < ' ' && help[i] != '\n')
			return false;
	return length && length < HR_OP_HELP_MAX;
}

static int judge_stream(const struct hr_operator *op, struct hr_error *e)
{
	if (!op->init || !op->tile || !op->finish)
		return hr_fail(e, HR_ERROR_USAGE, -EINVAL,
			       "operator '%s' lacks init, tile or finish", op->name);
	if (op->run || op->object || op->check || op->scratch_bytes || op->several_gpus ||
	    op->several_ranks)
		return hr_fail(e, HR_ERROR_USAGE, -EINVAL,
			       "operator '%s' has parts of an access operator (run, object, check, "
			       "scratch_bytes, several_gpus or several_ranks), but no objects",
			       op->name);
	if (op->sources_min > op->sources_max || op->sources_max > HR_SOURCES_MAX ||
	    (op->sources_min == 0 && op->sources_max != 0))
		return hr_fail(e, HR_ERROR_USAGE, -EINVAL,
			       "operator '%s' takes %u to %u sources, expected 1 to %u", op->name,
			       op->sources_min, op->sources_max, HR_SOURCES_MAX);
	if (op->output != HR_OUT_NONE && op->output != HR_OUT_DATA)
		return hr_fail(e, HR_ERROR_USAGE, -EINVAL,
			       "operator '%s' has output %d, expected HR_OUT_NONE or HR_OUT_DATA",
			       op->name, (int)op->output);
	if (op->output == HR_OUT_DATA && (op->out_num < 1 || op->out_num > HR_OP_RATIO_MAX ||
					  op->out_den < 1 || op->out_den > HR_OP_RATIO_MAX))
		return hr_fail(e, HR_ERROR_USAGE, -EINVAL,
			       "operator '%s' makes %u bytes of output from %u of input, "
			       "expected 1 to %u of each",
			       op->name, op->out_num, op->out_den, HR_OP_RATIO_MAX);
	if (op->tile_record_bytes > HR_OP_RECORD_MAX)
		return hr_fail(e, HR_ERROR_USAGE, -EINVAL,
			       "operator '%s' has records of %u bytes, expected at most %u",
			       op->name, op->tile_record_bytes, HR_OP_RECORD_MAX);
	return 0;
}

/* Object i has a name that no earlier one has, and a help text. */
static int judge_object(const struct hr_operator *op, uint32_t i, struct hr_error *e)
{
	const struct hr_op_object *object = &op->object[i];

	if (!name_is_good(object->name))
		return hr_fail(e, HR_ERROR_USAGE, -EINVAL,
			       "object %u of operator '%s' has an invalid name: expected a-z, then "
			       "up to %u of a-z, 0-9 and _",
			       i, op->name, HR_NAME_MAX - 2);
	if (!help_is_good(object->help))
		return hr_fail(e, HR_ERROR_USAGE, -EINVAL,
			       "object '%s' of operator '%s' has an invalid help text: expected 1 "
			       "to %u characters",
			       object->name, op->name, HR_OP_HELP_MAX - 1);
	if (object->columns && !op->several_ranks)
		return hr_fail(e, HR_ERROR_USAGE, -EINVAL,
			       "ranks may divide object '%s' of operator '%s' (columns), but the "
			       "operator has no several_ranks",
			       object->name, op->name);
	for (uint32_t j = 0; j < i; j++)
		if (strcmp(op->object[j].name, object->name) == 0)
			return hr_fail(e, HR_ERROR_USAGE, -EINVAL,
				       "operator '%s' has two objects '%s'", op->name,
				       object->name);
	return 0;
}

static int judge_access(const struct hr_operator *op, struct hr_error *e)
{
	int err = 0;

	if (!op->run || !op->finish)
		return hr_fail(e, HR_ERROR_USAGE, -EINVAL, "operator '%s' lacks run or finish",
			       op->name);
	if (op->init || op->tile || op->sources_min || op->sources_max ||
	    op->output != HR_OUT_NONE || op->out_num || op->out_den || op->tile_record_bytes ||
	    op->reads_once || op->records_checksum)
		return hr_fail(e, HR_ERROR_USAGE, -EINVAL,
			       "operator '%s' has objects and also parts of a stream operator "
			       "(init, tile, sources, output or records)",
			       op->name);
	if (!op->object || op->objects > HR_OBJECTS_MAX)
		return hr_fail(e, HR_ERROR_USAGE, -EINVAL,
			       "operator '%s' describes %u objects, expected 1 to %u", op->name,
			       op->object ? op->objects : 0, HR_OBJECTS_MAX);
	for (uint32_t i = 0; !err && i < op->objects; i++)
		err = judge_object(op, i, e);
	return err;
}

int hr_op_user_check(const struct hr_operator *op, struct hr_error *e)
{
	if (op->abi != HR_OP_ABI || op->bytes != sizeof *op)
		return hr_fail(e, HR_ERROR_USAGE, -EINVAL,
			       "its description is of version %u and %u bytes, expected "
			       "version %u and %zu bytes",
			       op->abi, op->bytes, HR_OP_ABI, sizeof *op);
	if (!name_is_good(op->name))
		return hr_fail(e, HR_ERROR_USAGE, -EINVAL,
			       "its operator has an invalid name: expected a-z, then up to %u "
			       "of a-z, 0-9 and _",
			       HR_NAME_MAX - 2);
	if (hr_op_find(op->name))
		return hr_fail(
			e, HR_ERROR_USAGE, -EINVAL,
			"operator '%s' has the name of a built-in operator, expected another",
			op->name);
	if (!help_is_good(op->help))
		return hr_fail(
			e, HR_ERROR_USAGE, -EINVAL,
			"operator '%s' has an invalid help text: expected 1 to %u characters",
			op->name, HR_OP_HELP_MAX - 1);
	if (!op->gpu || op->gpu_end < op->gpu || (size_t)(op->gpu_end - op->gpu) > HR_OP_FILE_MAX)
		return hr_fail(e, HR_ERROR_USAGE, -EINVAL, "operator '%s' has an invalid GPU part",
			       op->name);
	if (!op->block_memory)
		return hr_fail(e, HR_ERROR_USAGE, -EINVAL,
			       "operator '%s' lacks block_memory, which HR_OPERATOR() describes",
			       op->name);
	return hr_op_accesses(op) ? judge_access(op, e) : judge_stream(op, e);
}

/* Open the file, if only this user and root can change it, and copy it: checks and loader see the
 * same bytes, whatever happens to the file. Returns the descriptor of the copy. */
static int take_file(const char *path, struct stat *st, size_t *bytes, struct hr_error *e)
{
	const char *slash = strrchr(path, '/');
	const int fd = hr_trust_open(path, HR_TRUST_CODE, e);
	char name[HR_NAME_MAX];
	int copy;

	if (fd < 0)
		return fd;
	snprintf(name, sizeof name, "%s", slash ? slash + 1 : path);
	if (fstat(fd, st) != 0)
		copy = hr_fail(e, HR_ERROR_MISSING, -errno, "cannot be examined: %s",
			       strerror(errno));
	else
		copy = hr_trust_copy(fd, name, HR_OP_FILE_MAX, bytes, e);
	close(fd);
	return copy;
}

static int check_copy(int copy, size_t bytes, uint32_t *checksum, struct hr_error *e)
{
	static const uint8_t nothing[1];
	const uint8_t *file = nothing;
	int err;

	if (bytes)
		file = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, copy, 0);
	if (file == MAP_FAILED)
		return hr_fail(e, HR_ERROR_MISSING, -errno, "cannot be mapped: %s",
			       strerror(errno));
	err = hr_op_file_check(file, bytes, e);
	*checksum = hr_crc32c(0, file, bytes);
	if (bytes)
		munmap((void *)(uintptr_t)file, bytes);
	return err;
}

static int load_new(int copy, const struct stat *st, uint32_t checksum, struct hr_error *e)
{
	struct loaded *into = &loaded[count];
	void *handle;
	int err;

	if (count == HR_OPERATORS_MAX)
		return hr_fail(e, HR_ERROR_MISSING, -ENOSPC,
			       "exceeds the %u operators that a process can load",
			       HR_OPERATORS_MAX);
	err = hr_op_user_open(copy, &handle, &into->op, e);
	if (err)
		return err;
	err = hr_op_user_check(into->op, e);
	if (err) {
		hr_op_user_close(handle);
		return err;
	}
	*into->op->block_memory = hr_host_block_memory;
	into->checksum = checksum;
	into->device = st->st_dev;
	into->inode = st->st_ino;
	count++;
	return 0;
}

static struct loaded *find_loaded(const struct stat *st)
{
	for (uint32_t i = 0; i < count; i++)
		if (loaded[i].device == st->st_dev && loaded[i].inode == st->st_ino)
			return &loaded[i];
	return NULL;
}

int hr_op_user_load(const char *path, const struct hr_operator **op, struct hr_error *e)
{
	struct stat st = { 0 };
	uint32_t checksum = 0;
	size_t bytes = 0;
	const int copy = take_file(path, &st, &bytes, e);
	const struct loaded *l = find_loaded(&st);
	int err = copy < 0 ? copy : check_copy(copy, bytes, &checksum, e);

	if (!err && l && l->checksum != checksum)
		err = hr_fail(e, HR_ERROR_USAGE, -EINVAL,
			      "has changed since this process has loaded it");
	if (!err && !l)
		err = load_new(copy, &st, checksum, e);
	if (copy >= 0 && (err || l)) /* the loader needs the copy of a file that it has loaded */
		close(copy);
	if (!err)
		*op = l ? l->op : loaded[count - 1].op;
	return err;
}

const struct hr_operator *hr_op_user_get(uint32_t i)
{
	return i < count ? loaded[i].op : NULL;
}

uint32_t hr_op_user_checksum(const struct hr_operator *op)
{
	for (uint32_t i = 0; i < count; i++)
		if (loaded[i].op == op)
			return loaded[i].checksum;
	return 0;
}

/*
 * Checks of an operator file before it is loaded. The loader of libc trusts the contents of an ELF
 * file: a truncated file would cause SIGBUS, and the constructors of any shared object would run.
 */

#define HEADERS_MAX 64u /* maximum program headers; linkers make about ten */

/* True when a part of the file, at an offset from the file itself, lies within the file. */
static bool within(size_t bytes, uint64_t offset, uint64_t length)
{
	return offset <= bytes && length <= bytes - offset;
}

static bool is_shared_object(const Elf64_Ehdr *e)
{
	return memcmp(e->e_ident, ELFMAG, SELFMAG) == 0 && e->e_ident[EI_CLASS] == ELFCLASS64 &&
	       e->e_ident[EI_DATA] == ELFDATA2LSB && e->e_machine == EM_X86_64 &&
	       e->e_type == ET_DYN && e->e_phentsize == sizeof(Elf64_Phdr) && e->e_phnum &&
	       e->e_phnum <= HEADERS_MAX;
}

static uint64_t padded(uint64_t bytes)
{
	return (bytes + 3) & ~(uint64_t)3;
}

/* Find the note of an operator among the notes of a segment. */
static bool find_note(const uint8_t *at, uint64_t left, struct hr_op_note *note)
{
	Elf64_Nhdr head;

	while (left >= sizeof head) {
		uint64_t all;

		memcpy(&head, at, sizeof head);
		all = sizeof head + padded(head.n_namesz) + padded(head.n_descsz);
		if (all > left)
			return false;
		if (head.n_type == HR_OP_NOTE_TYPE && head.n_namesz == sizeof HR_OP_NOTE_NAME &&
		    memcmp(at + sizeof head, HR_OP_NOTE_NAME, sizeof HR_OP_NOTE_NAME) == 0 &&
		    head.n_descsz >= sizeof note->abi) {
			memset(note, 0, sizeof *note);
			memcpy(note, at, all < sizeof *note ? all : sizeof *note);
			return true;
		}
		at += all;
		left -= all;
	}
	return false;
}

static int check_note(const struct hr_op_note *note, struct hr_error *e)
{
	static const uint32_t size[HR_OP_NOTE_SIZES] = HR_OP_SIZES;

	if (note->abi != HR_OP_ABI)
		return hr_fail(
			e, HR_ERROR_USAGE, -EINVAL,
			"is built for version %u of the operator interface, but this headrace "
			"has %u; build it again with 'make op OP=SOURCE'",
			note->abi, HR_OP_ABI);
	if (note->desc_bytes != sizeof note->abi + sizeof note->size ||
	    memcmp(note->size, size, sizeof size) != 0)
		return hr_fail(e, HR_ERROR_USAGE, -EINVAL,
			       "is built with other headers than this headrace: the structs of the "
			       "operator interface differ in size; build it again with 'make op "
			       "OP=SOURCE'");
	return 0;
}

int hr_op_file_check(const uint8_t *file, size_t bytes, struct hr_error *e)
{
	struct hr_op_note note;
	bool found = false;
	Elf64_Ehdr head;

	if (bytes < sizeof head)
		return hr_fail(e, HR_ERROR_USAGE, -EINVAL,
			       "has %zu bytes and is not an operator file", bytes);
	memcpy(&head, file, sizeof head);
	if (!is_shared_object(&head))
		return hr_fail(e, HR_ERROR_USAGE, -EINVAL,
			       "is not an operator file (not an x86-64 shared object)");
	/* The section headers are at the end. */
	if (!within(bytes, head.e_phoff, (uint64_t)head.e_phnum * sizeof(Elf64_Phdr)) ||
	    !within(bytes, head.e_shoff, (uint64_t)head.e_shnum * head.e_shentsize))
		return hr_fail(e, HR_ERROR_USAGE, -EINVAL,
			       "is cut off: it has %zu bytes and its headers describe more", bytes);
	for (unsigned i = 0; i < head.e_phnum; i++) {
		Elf64_Phdr p;

		memcpy(&p, file + head.e_phoff + i * sizeof p, sizeof p);
		if (!within(bytes, p.p_offset, p.p_filesz))
			return hr_fail(e, HR_ERROR_USAGE, -EINVAL,
				       "is cut off: it has %zu bytes and its headers describe more",
				       bytes);
		if (p.p_type == PT_NOTE && !found)
			found = find_note(file + p.p_offset, p.p_filesz, &note);
	}
	if (!found)
		return hr_fail(e, HR_ERROR_USAGE, -EINVAL,
			       "is a shared object, but not an operator: it has no note of '%s'",
			       HR_OP_NOTE_NAME);
	return check_note(&note, e);
}

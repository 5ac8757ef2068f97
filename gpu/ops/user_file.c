/*
 * An operator file before it is loaded. The loader of libc trusts what an ELF file says of itself: a
 * cut one would end in SIGBUS, and the constructors of any shared object would run.
 */
#include <elf.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "config/log.h"
#include "gpu/ops/user.h"

#define HEADERS_MAX 64u /* program headers; linkers make about ten */

static int refuse(char *message, const char *format, ...) __attribute__((format(printf, 2, 3)));

static int refuse(char *message, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(message, HR_LOG_LINE_MAX, format, args);
	va_end(args);
	return -EINVAL;
}

/* A part of the file at an offset that the file itself names. */
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

/* The note of an operator among those of a segment. */
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

static int judge_note(const struct hr_op_note *note, char *message)
{
	static const uint32_t size[HR_OP_NOTE_SIZES] = HR_OP_SIZES;

	if (note->abi != HR_OP_ABI)
		return refuse(
			message,
			"is built for version %u of the operator interface, but this headrace "
			"has %u; build it again with 'make op OP=SOURCE'",
			note->abi, HR_OP_ABI);
	if (note->desc_bytes != sizeof note->abi + sizeof note->size ||
	    memcmp(note->size, size, sizeof size) != 0)
		return refuse(message,
			      "is built with other headers than this headrace: the structs of the "
			      "operator interface differ in size; build it again with 'make op "
			      "OP=SOURCE'");
	return 0;
}

int hr_op_file_judge(const uint8_t *file, size_t bytes, char *message)
{
	struct hr_op_note note;
	bool found = false;
	Elf64_Ehdr e;

	if (bytes < sizeof e)
		return refuse(message, "has %zu bytes and is no operator file", bytes);
	memcpy(&e, file, sizeof e);
	if (!is_shared_object(&e))
		return refuse(message, "is no operator file (no x86-64 shared object)");
	/* The section headers come last. */
	if (!within(bytes, e.e_phoff, (uint64_t)e.e_phnum * sizeof(Elf64_Phdr)) ||
	    !within(bytes, e.e_shoff, (uint64_t)e.e_shnum * e.e_shentsize))
		return refuse(message, "is cut off: it has %zu bytes and says that it has more",
			      bytes);
	for (unsigned i = 0; i < e.e_phnum; i++) {
		Elf64_Phdr p;

		memcpy(&p, file + e.e_phoff + i * sizeof p, sizeof p);
		if (!within(bytes, p.p_offset, p.p_filesz))
			return refuse(message,
				      "is cut off: it has %zu bytes and says that it has more",
				      bytes);
		if (p.p_type == PT_NOTE && !found)
			found = find_note(file + p.p_offset, p.p_filesz, &note);
	}
	if (!found)
		return refuse(message,
			      "is a shared object, but no operator: it has no note of '%s'",
			      HR_OP_NOTE_NAME);
	return judge_note(&note, message);
}

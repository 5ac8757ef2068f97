/*
 * Checks of an operator file before it is loaded. The loader of libc trusts the contents of an ELF
 * file: a truncated file would cause SIGBUS, and the constructors of any shared object would run.
 */
#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "config/base/log.h"
#include "gpu/ops/user.h"
#include "gpu/ops/user_file.h"

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

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * User operators: files are checked before they are loaded, descriptions are checked before they
 * are used; and the configuration of user operators.
 */
#include <criterion/criterion.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "boot/cmd/report/result.h"
#include "config/base/log.h"
#include "config/config.h"
#include "gpu/ops/operators.h"
#include "gpu/ops/user.h"
#include "tests/harness/error.h"

#define ROWS(table) (sizeof(table) / sizeof(*(table)))
#define LIAR TEST_OPS "/liar.op"

TestSuite(op_user, .timeout = 60);

/* The smallest file that counts as an operator: headers, one note, no sections. */
struct file {
	Elf64_Ehdr e;
	Elf64_Phdr load, notes;
	struct hr_op_note note;
	uint8_t behind[8];
};

static const struct file good_file = {
	.e = { .e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
			    EV_CURRENT },
	       .e_type = ET_DYN,
	       .e_machine = EM_X86_64,
	       .e_phoff = offsetof(struct file, load),
	       .e_phentsize = sizeof(Elf64_Phdr),
	       .e_phnum = 2,
	       .e_shoff = sizeof(struct file),
	       .e_shentsize = sizeof(Elf64_Shdr) },
	.load = { .p_type = PT_LOAD, .p_filesz = sizeof(struct file) },
	.notes = { .p_type = PT_NOTE,
		   .p_offset = offsetof(struct file, note),
		   .p_filesz = sizeof(struct hr_op_note) },
	.note = { sizeof HR_OP_NOTE_NAME, 4 * (1 + HR_OP_NOTE_SIZES), HR_OP_NOTE_TYPE,
		  HR_OP_NOTE_NAME, HR_OP_ABI, HR_OP_SIZES },
};

static int check_in_copy(const void *file, size_t bytes)
{
	/* A copy of exactly that length, so that the sanitizer sees reads beyond its end. */
	uint8_t *copy = malloc(bytes ? bytes : 1);
	int err;

	cr_assert_not_null(copy);
	memcpy(copy, file, bytes);
	err = hr_op_file_check(copy, bytes, test_error());
	free(copy);
	return err;
}

#define EXPECT_REFUSED(file, bytes, text)                                                    \
	do {                                                                                 \
		cr_expect_eq(check_in_copy(file, bytes), -EINVAL, "%s", #text);              \
		cr_expect(strstr(test_error_text(), text) != NULL, "%s", test_error_text()); \
	} while (0)

Test(op_user, a_file_with_the_right_note_is_an_operator)
{
	cr_expect_eq(check_in_copy(&good_file, sizeof good_file), 0, "%s", test_error_text());
}

Test(op_user, a_file_cut_anywhere_is_refused)
{
	for (size_t bytes = 0; bytes < sizeof good_file; bytes++)
		cr_expect_eq(check_in_copy(&good_file, bytes), -EINVAL, "%zu bytes", bytes);
	EXPECT_REFUSED(&good_file, 3, "has 3 bytes and is not an operator file");
	EXPECT_REFUSED(&good_file, sizeof good_file - 1, "is cut off");
}

Test(op_user, offsets_beyond_all_bounds_are_refused)
{
	struct file f;

	for (unsigned shift = 0; shift < 64; shift++) {
		const uint64_t far = UINT64_MAX - (((uint64_t)1 << shift) - 1);

		f = good_file;
		f.e.e_phoff = far;
		EXPECT_REFUSED(&f, sizeof f, "is cut off");
		f = good_file;
		f.e.e_shoff = far;
		EXPECT_REFUSED(&f, sizeof f, "is cut off");
		f = good_file;
		f.notes.p_offset = far;
		EXPECT_REFUSED(&f, sizeof f, "is cut off");
		f = good_file;
		f.load.p_filesz = far;
		EXPECT_REFUSED(&f, sizeof f, "is cut off");
	}
	f = good_file;
	f.e.e_shnum = 1;
	EXPECT_REFUSED(&f, sizeof f, "is cut off");
}

Test(op_user, other_kinds_of_files_are_refused)
{
	struct file f = good_file;

	f.e.e_ident[0] = '#';
	EXPECT_REFUSED(&f, sizeof f, "is not an operator file (not an x86-64 shared object)");
	f = good_file;
	f.e.e_ident[EI_CLASS] = ELFCLASS32;
	EXPECT_REFUSED(&f, sizeof f, "is not an operator file");
	f = good_file;
	f.e.e_machine = EM_AARCH64;
	EXPECT_REFUSED(&f, sizeof f, "is not an operator file");
	f = good_file;
	f.e.e_type = ET_EXEC;
	EXPECT_REFUSED(&f, sizeof f, "is not an operator file");
	f = good_file;
	f.e.e_phnum = 0;
	EXPECT_REFUSED(&f, sizeof f, "is not an operator file");
	f = good_file;
	f.e.e_phnum = 65;
	EXPECT_REFUSED(&f, sizeof f, "is not an operator file");
	f = good_file;
	f.e.e_phentsize = 8;
	EXPECT_REFUSED(&f, sizeof f, "is not an operator file");
}

Test(op_user, a_shared_object_without_the_note_is_refused)
{
	struct file f = good_file;

	f.notes.p_type = PT_NULL;
	EXPECT_REFUSED(&f, sizeof f, "but not an operator");
	f = good_file;
	f.note.name[0] = 'H';
	EXPECT_REFUSED(&f, sizeof f, "but not an operator");
	f = good_file;
	f.note.type = 2;
	EXPECT_REFUSED(&f, sizeof f, "but not an operator");
	f = good_file;
	f.note.desc_bytes = 0;
	EXPECT_REFUSED(&f, sizeof f, "but not an operator");
	f = good_file;
	f.note.desc_bytes = UINT32_MAX;
	EXPECT_REFUSED(&f, sizeof f, "but not an operator");
	f = good_file;
	f.note.name_bytes = UINT32_MAX - 2;
	EXPECT_REFUSED(&f, sizeof f, "but not an operator");
}

Test(op_user, another_version_of_the_interface_is_refused)
{
	struct file f = good_file;
	char version[64];

	snprintf(version, sizeof version, "is built for version %u of the operator interface",
		 HR_OP_ABI + 1);
	f.note.abi = HR_OP_ABI + 1;
	EXPECT_REFUSED(&f, sizeof f, version);
	cr_expect(strstr(test_error_text(), "make op") != NULL, "%s", test_error_text());
	/* A shorter note still gives its version. */
	f.note.desc_bytes = 4;
	f.notes.p_filesz = offsetof(struct hr_op_note, size);
	EXPECT_REFUSED(&f, sizeof f, version);
	f.note.abi = HR_OP_ABI;
	EXPECT_REFUSED(&f, sizeof f, "is built with other headers");
	for (unsigned i = 0; i < HR_OP_NOTE_SIZES; i++) {
		f = good_file;
		f.note.size[i]++;
		EXPECT_REFUSED(&f, sizeof f, "is built with other headers");
	}
}

/* ---- descriptions */

static void no_init(const void *args, void *state)
{
}

static uint32_t no_tile(const void *args, void *state, const struct hr_op_tile *tile)
{
	return 0;
}

static void no_finish(const struct hr_op_all *all)
{
}

static void *(*block_memory)(void);
static const uint8_t image[4];
static char long_help[HR_OP_HELP_MAX + 1];

static const struct hr_operator good_user = { .abi = HR_OP_ABI,
					      .bytes = sizeof good_user,
					      .init = no_init,
					      .tile = no_tile,
					      .finish = no_finish,
					      .gpu = image,
					      .gpu_end = image + 4,
					      .block_memory = &block_memory,
					      .name = "good",
					      .help = "Good.",
					      .output = HR_OUT_DATA,
					      .out_num = 1,
					      .out_den = HR_OP_RATIO_MAX,
					      .tile_record_bytes = HR_OP_RECORD_MAX };

static void expect_user_refused(const struct hr_operator *user, const char *text)
{
	cr_expect_eq(hr_op_user_check(user, test_error()), -EINVAL, "%s", text);
	cr_expect(strstr(test_error_text(), text) != NULL, "%s: %s", text, test_error_text());
}

#define EXPECT_LIE(member, value, text)           \
	do {                                      \
		struct hr_operator u = good_user; \
                                                  \
		u.member = value;                 \
		expect_user_refused(&u, text);    \
	} while (0)

Test(op_user, a_good_description_is_believed)
{
	cr_expect_eq(hr_op_user_check(&good_user, test_error()), 0, "%s", test_error_text());
}

Test(op_user, a_description_of_another_version_is_refused)
{
	EXPECT_LIE(abi, 1, "its description is of version 1");
	EXPECT_LIE(bytes, 8, "and 8 bytes");
}

Test(op_user, names_have_a_limited_length_allowed_characters_and_are_unique)
{
	EXPECT_LIE(name, NULL, "invalid name");
	EXPECT_LIE(name, "", "invalid name");
	EXPECT_LIE(name, "Copy", "invalid name");
	EXPECT_LIE(name, "9copy", "invalid name");
	EXPECT_LIE(name, "a b", "invalid name");
	EXPECT_LIE(name, "a\033", "invalid name");
	EXPECT_LIE(name, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
		   "invalid name");
	EXPECT_LIE(name, "topk_dot", "operator 'topk_dot' has the name of a built-in operator");
}

Test(op_user, help_is_required_and_has_only_allowed_characters)
{
	memset(long_help, 'x', sizeof long_help - 1);
	EXPECT_LIE(help, NULL, "invalid help");
	EXPECT_LIE(help, "", "invalid help");
	EXPECT_LIE(help, "a\033[31m", "invalid help");
	EXPECT_LIE(help, "\033[31m", "invalid help");
	EXPECT_LIE(help, long_help, "invalid help");
	long_help[HR_OP_HELP_MAX - 1] = '\0';
	{
		struct hr_operator u = good_user;

		u.help = long_help;
		cr_expect_eq(hr_op_user_check(&u, test_error()), 0, "%s", test_error_text());
	}
}

Test(op_user, functions_and_a_valid_gpu_part_are_required)
{
	const uint8_t *after = (const uint8_t *)((uintptr_t)image + 8);
	const uint8_t *far = (const uint8_t *)((uintptr_t)image + HR_OP_FILE_MAX + 1);

	EXPECT_LIE(init, NULL, "lacks init, tile or finish");
	EXPECT_LIE(tile, NULL, "lacks init, tile or finish");
	EXPECT_LIE(finish, NULL, "lacks init, tile or finish");
	EXPECT_LIE(gpu, NULL, "invalid GPU part");
	EXPECT_LIE(gpu, after, "invalid GPU part");
	EXPECT_LIE(gpu_end, far, "invalid GPU part");
	EXPECT_LIE(block_memory, NULL, "lacks block_memory");
}

Test(op_user, shapes_are_possible)
{
	EXPECT_LIE(sources_min, 1, "takes 1 to 0 sources");
	EXPECT_LIE(sources_max, 1, "takes 0 to 1 sources");
	{
		struct hr_operator u = good_user;

		u.sources_min = 1;
		u.sources_max = HR_SOURCES_MAX + 1;
		expect_user_refused(&u, "takes 1 to 9 sources, expected 1 to 8");
	}
	EXPECT_LIE(output, (enum hr_op_output)7, "has output 7");
	EXPECT_LIE(out_num, 0, "makes 0 bytes of output from 4096");
	EXPECT_LIE(out_num, HR_OP_RATIO_MAX + 1, "makes 4097 bytes of output");
	EXPECT_LIE(out_den, 0, "from 0 of input");
	EXPECT_LIE(out_den, UINT32_MAX, "from 4294967295 of input");
	EXPECT_LIE(tile_record_bytes, HR_OP_RECORD_MAX + 1, "has records of 65537 bytes");
}

static void no_run(const void *args, void *state, struct hr_objects *objects)
{
}

static int no_check(const void *args, const uint64_t *object_bytes,
		    void (*complain)(void *to, unsigned object, const char *text), void *to)
{
	return 0;
}

static const struct hr_op_object objects[HR_OBJECTS_MAX + 1] = {
	{ .name = "in", .help = "What is read." },
	{ .name = "out", .help = "What is written.", .writes = true, .optional = true },
	{ .name = "In", .help = "Its name is invalid." },
	{ .name = "mute", .help = NULL },
	{ .name = "again", .help = "Its name comes twice." },
	{ .name = "again", .help = "Its name comes twice." },
};

static const struct hr_operator good_access = { .abi = HR_OP_ABI,
						.bytes = sizeof good_access,
						.run = no_run,
						.finish = no_finish,
						.check = no_check,
						.gpu = image,
						.gpu_end = image + 4,
						.block_memory = &block_memory,
						.name = "good",
						.help = "Good.",
						.object = objects,
						.objects = 2 };

static const struct hr_op_object divided = { .name = "in", .help = "What is read.", .columns = 1 };

#define EXPECT_ACCESS_LIE(member, value, text)      \
	do {                                        \
		struct hr_operator u = good_access; \
                                                    \
		u.member = value;                   \
		expect_user_refused(&u, text);      \
	} while (0)

Test(op_user, an_access_operator_has_objects_and_run)
{
	cr_expect_eq(hr_op_user_check(&good_access, test_error()), 0, "%s", test_error_text());
	EXPECT_ACCESS_LIE(run, NULL, "lacks run or finish");
	EXPECT_ACCESS_LIE(finish, NULL, "lacks run or finish");
	EXPECT_ACCESS_LIE(object, NULL, "describes 0 objects, expected 1 to 16");
	EXPECT_ACCESS_LIE(objects, HR_OBJECTS_MAX + 1, "describes 17 objects, expected 1 to 16");
	EXPECT_ACCESS_LIE(objects, 3, "object 2 of operator 'good' has an invalid name");
	EXPECT_ACCESS_LIE(object, objects + 2, "object 0 of operator 'good' has an invalid name");
	EXPECT_ACCESS_LIE(object, objects + 3,
			  "object 'mute' of operator 'good' has an invalid "
			  "help text");
	EXPECT_ACCESS_LIE(object, objects + 4, "operator 'good' has two objects 'again'");
	EXPECT_ACCESS_LIE(object, &divided,
			  "ranks may divide object 'in' of operator 'good' (columns), but");
	EXPECT_ACCESS_LIE(gpu, NULL, "invalid GPU part");
	EXPECT_ACCESS_LIE(help, NULL, "invalid help text");
}

Test(op_user, no_operator_has_parts_of_both_shapes)
{
	static const char both[] = "has objects and also parts of a stream operator";
	static const char neither[] = "has parts of an access operator";

	EXPECT_ACCESS_LIE(init, no_init, both);
	EXPECT_ACCESS_LIE(tile, no_tile, both);
	EXPECT_ACCESS_LIE(sources_max, 1, both);
	EXPECT_ACCESS_LIE(output, HR_OUT_DATA, both);
	EXPECT_ACCESS_LIE(out_num, 1, both);
	EXPECT_ACCESS_LIE(tile_record_bytes, 8, both);
	EXPECT_ACCESS_LIE(reads_once, true, both);
	EXPECT_LIE(run, no_run, neither);
	EXPECT_LIE(object, objects, neither);
	EXPECT_LIE(check, no_check, neither);
	EXPECT_LIE(several_ranks, true, neither);
}

/* ---- files on disk */

static char folder[] = "/tmp/op_user.XXXXXX";

static void make_folder(void)
{
	cr_assert_not_null(mkdtemp(folder));
}

static void remove_folder(void)
{
	char command[64];

	snprintf(command, sizeof command, "rm -rf %s", folder);
	cr_assert_eq(system(command), 0); /* NOLINT(cert-env33-c,bugprone-command-processor) */
}

TestSuite(op_file, .timeout = 60, .init = make_folder, .fini = remove_folder);

static const char *path_of(const char *name)
{
	static char path[128];

	snprintf(path, sizeof path, "%s/%s", folder, name);
	return path;
}

static void write_file(const char *name, const void *data, size_t bytes, mode_t mode)
{
	const char *path = path_of(name);
	FILE *out = fopen(path, "w");

	cr_assert_not_null(out);
	cr_assert_eq(fwrite(data, 1, bytes, out), bytes);
	cr_assert_eq(fclose(out), 0);
	cr_assert_eq(chmod(path, mode), 0);
}

static uint8_t *read_liar(size_t *bytes)
{
	FILE *in = fopen(LIAR, "r");
	uint8_t *data = malloc(HR_OP_FILE_MAX);

	cr_assert(in && data, "%s", LIAR);
	*bytes = fread(data, 1, HR_OP_FILE_MAX, in);
	fclose(in);
	return data;
}

/* The lowest descriptor that is free: the same again when nothing was left open. */
static int free_descriptor(void)
{
	const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	cr_assert_geq(fd, 0);
	close(fd);
	return fd;
}

static void expect_not_loaded(const char *name, int err, const char *text)
{
	const struct hr_operator *op = NULL;
	const int before = free_descriptor();
	int got = hr_op_user_load(path_of(name), &op, test_error());

	cr_expect_eq(free_descriptor(), before, "%s", name);

	cr_expect_eq(got, err, "%s: %d", name, got);
	cr_expect(strstr(test_error_text(), text) != NULL, "%s: %s", name, test_error_text());
	cr_expect_null(op);
}

Test(op_file, files_that_cannot_be_operators)
{
	write_file("empty", "", 0, 0644);
	write_file("text", "#!/bin/sh\n", 10, 0755);
	write_file("public", &good_file, sizeof good_file, 0646);
	write_file("huge", "", 0, 0644);
	cr_assert_eq(truncate(path_of("huge"), (off_t)HR_OP_FILE_MAX + 1), 0);
	cr_assert_eq(mkfifo(path_of("pipe"), 0600), 0);
	expect_not_loaded("none", -ENOENT, "cannot be opened: No such file or directory");
	expect_not_loaded(".", -EISDIR, "is a folder, expected a file");
	expect_not_loaded("pipe", -EINVAL, "is a FIFO, expected a file");
	expect_not_loaded("empty", -EINVAL, "has 0 bytes and is not an operator file");
	expect_not_loaded("text", -EINVAL, "is not an operator file");
	expect_not_loaded("public", -EACCES, "may be written by every user (mode 0646)");
	write_file("group", &good_file, sizeof good_file, 0664);
	expect_not_loaded("group", -EACCES, "may be written by its group (mode 0664)");
	if (geteuid() == 0) { /* only root can give a file to another user */
		write_file("foreign", &good_file, sizeof good_file, 0644);
		cr_assert_eq(chown(path_of("foreign"), 12345, 0), 0);
		expect_not_loaded("foreign", -EACCES, "belongs to user 12345");
	}
	expect_not_loaded("huge", -EFBIG, "has more than 67108864 bytes");
}

Test(op_file, a_refusal_of_the_loader_is_reported_with_its_text)
{
	write_file("note", &good_file, sizeof good_file, 0644);
	expect_not_loaded("note", -EINVAL, "cannot be loaded: ");
	cr_expect(strstr(test_error_text(), folder) == NULL, "the path twice: %s",
		  test_error_text());
}

Test(op_file, cut_files_do_not_reach_the_loader)
{
	size_t bytes;
	uint8_t *liar = read_liar(&bytes);

	for (size_t cut = 1; cut < bytes; cut = cut * 2 + 1) {
		write_file("cut", liar, bytes - cut, 0644);
		expect_not_loaded("cut", -EINVAL, " has ");
	}
	free(liar);
}

Test(op_file, a_file_is_loaded_once_and_refused_after_a_change)
{
	const struct hr_operator *first = NULL, *again = NULL;
	size_t bytes;
	uint8_t *liar = read_liar(&bytes);
	FILE *out;

	write_file("a.op", liar, bytes, 0644);
	cr_assert_eq(hr_op_user_load(path_of("a.op"), &first, test_error()), 0, "%s",
		     test_error_text());
	cr_assert_eq(hr_op_user_load(path_of("a.op"), &again, test_error()), 0, "%s",
		     test_error_text());
	cr_expect_eq(first, again);
	cr_assert_eq(truncate(path_of("a.op"), 0), 0); /* its copy stays as it is */
	cr_expect_str_eq(first->name, "liar");
	cr_expect_eq(hr_op_id_of(first), HR_OP_COUNT);
	cr_expect_eq(hr_op_get(HR_OP_COUNT), first);
	cr_expect_null(hr_op_find("liar"), "only built-in ones are found by name");
	cr_expect_null(hr_op_get(HR_OP_COUNT + 1));
	cr_expect_eq(hr_op_sources_min(first), 1u);
	cr_expect_eq(hr_op_sources_max(first), 1u);
	write_file("a.op", liar, bytes, 0644);
	out = fopen(path_of("a.op"), "a");
	cr_assert(out && fputc('x', out) == 'x' && fclose(out) == 0);
	expect_not_loaded("a.op", -EINVAL, "has changed since this process has loaded it");
	free(liar);
}

Test(op_file, operators_beyond_the_limit_are_refused)
{
	const struct hr_operator *op;
	size_t bytes;
	uint8_t *liar = read_liar(&bytes);
	char name[16];

	for (unsigned i = 0; i < HR_OPERATORS_MAX; i++) {
		snprintf(name, sizeof name, "%u.op", i);
		write_file(name, liar, bytes, 0644);
		cr_assert_eq(hr_op_user_load(path_of(name), &op, test_error()), 0, "%s",
			     test_error_text());
		cr_expect_eq(hr_op_id_of(op), HR_OP_COUNT + i);
	}
	write_file("more.op", liar, bytes, 0644);
	expect_not_loaded("more.op", -ENOSPC, "exceeds the 16 operators");
	free(liar);
}

/* ---- results */

Test(op_user, a_result_is_printed_as_lines_and_as_a_json_object)
{
	uint64_t result[HR_OP_RESULT_MAX / 8] = { 7 };
	const struct hr_op_all all = { .result = result };
	const struct hr_operator *op = NULL;
	struct hr_json json;
	char text[512] = "";
	FILE *out = fmemopen(text, sizeof text, "w");

	cr_assert(out);
	cr_assert_eq(hr_op_user_load(LIAR, &op, test_error()), 0, "%s", test_error_text());
	hr_result_print(op, &all, out);
	fclose(out);
	cr_expect_str_eq(text,
			 "tiles 7\nleast -9223372036854775808\nhalf 0.5\ninfinity inf\n"
			 "text a?[31m?b\nmany 1 2 3 4 5 6 7 8\n"
			 "  18446744073709551615\nreals 0.5 -inf nan\n"
			 "numbers\n  0\n  1\n"
			 "rows\n  row 0 of a?b items\n  row 1 of a?b items\n  0",
			 "%s", text);
	hr_json_to_text(&json, HR_JSON_LINE, text, sizeof text);
	hr_result_json(op, &all, true, &json);
	cr_assert_eq(hr_json_done(&json), 0);
	cr_expect_str_eq(text,
			 "{\"tiles\": 7, \"least\": -9223372036854775808, \"half\": 0.5, "
			 "\"infinity\": \"inf\", \"text\": \"a\\u001b[31m\\nb\", "
			 "\"many\": [1, 2, 3, 4, 5, 6, 7, 8, 18446744073709551615], "
			 "\"reals\": [0.5, \"-inf\", \"nan\"], \"numbers\": [0, 1], "
			 "\"rows\": [{\"row\": 0, \"of\": \"a\\nb\", \"items\": []}, "
			 "{\"row\": 1, \"of\": \"a\\nb\", \"items\": [0]}]}\n",
			 "%s", text);
}

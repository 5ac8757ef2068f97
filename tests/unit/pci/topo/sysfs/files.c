/* SPDX-License-Identifier: Apache-2.0 */
/* Files of a tree: in a folder, and in an archive, whose headers are written here byte by byte. */
#include "pci/topo/sysfs/files.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/harness/folder.h"

static struct hr_model model;
static struct hr_files files;

static void up(void)
{
	cr_assert_eq(hr_model_init(&model), 0);
}

static void down(void)
{
	hr_model_fini(&model);
}

TestSuite(topo_files, .init = up, .fini = down, .timeout = 60);

/* Names that list() gives, with a space behind each; it stops at the name `stop`. */
struct names {
	char text[512];
	const char *stop;
};

static int add_name(void *to, const char *name)
{
	struct names *names = to;

	strcat(strcat(names->text, name), " ");
	return names->stop && strcmp(name, names->stop) == 0;
}

/* ---- archives */

#define BLOCK 512u

static struct {
	uint8_t bytes[64 * BLOCK];
	size_t size;
} tar;

struct member {
	const char *prefix, *name, *link;
	const char *text;
	char type;
};

/* Write text without its NUL, as tar does where a field is full. */
static void put(uint8_t *to, size_t room, const char *text)
{
	const size_t n = strlen(text);

	memcpy(to, text, n < room ? n : room);
}

static void sign(uint8_t *header)
{
	unsigned sum = 0;
	char text[9];

	memset(header + 148, ' ', 8);
	for (unsigned i = 0; i < BLOCK; i++)
		sum += header[i];
	snprintf(text, sizeof text, "%06o", sum);
	memcpy(header + 148, text, 7);
}

static uint8_t *add(const struct member *m)
{
	uint8_t *header = tar.bytes + tar.size;
	const size_t n = m->text ? strlen(m->text) : 0;
	char size[13];

	put(header, 100, m->name);
	snprintf(size, sizeof size, "%011o", (unsigned)n);
	put(header + 124, 12, size);
	header[156] = (uint8_t)m->type;
	put(header + 157, 100, m->link ? m->link : "");
	put(header + 345, 155, m->prefix ? m->prefix : "");
	sign(header);
	memcpy(header + BLOCK, m->text ? m->text : "", n);
	tar.size += BLOCK + (n + BLOCK - 1) / BLOCK * BLOCK;
	return header;
}

static int read_bytes(size_t size)
{
	hr_error_clear(&model.error);
	return hr_files_tar(&files, &model, tar.bytes, size);
}

/* Read the archive with its last blocks. */
static int read_tar(void)
{
	return read_bytes(tar.size + 2 * BLOCK);
}

static void begin(void)
{
	memset(&tar, 0, sizeof tar);
	hr_model_reset(&model);
}

#define TREE "sys/bus/pci/devices/"

static void expect_file(const char *path, const char *text)
{
	char got[64] = "";

	cr_expect_eq(files.read(&files, path, got, sizeof got - 1), (long)strlen(text), "%s", path);
	cr_expect_str_eq(got, text, "%s", path);
	cr_expect_eq(files.link(&files, path, got, sizeof got), -ENOENT, "%s is a file", path);
}

static void expect_link(const char *path, const char *target)
{
	char got[300];

	cr_expect_eq(files.link(&files, path, got, sizeof got), 0, "%s", path);
	cr_expect_str_eq(got, target, "%s", path);
	cr_expect_eq(files.read(&files, path, got, sizeof got), -ENOENT, "%s is a link", path);
}

/* Names and links that fill their fields have no NUL. */
Test(topo_files, fields_of_a_header_have_their_full_length)
{
	char name[101], prefix[156], link[101], path[300];

	begin();
	memset(name, 'n', 100);
	memset(prefix, 'p', 155);
	memset(link, 'l', 100);
	name[100] = prefix[155] = link[100] = '\0';
	memcpy(prefix, TREE, strlen(TREE));
	add(&(struct member){ .prefix = prefix, .name = name, .link = link, .type = '2' });
	add(&(struct member){ .prefix = prefix, .name = "file", .text = "x", .type = '0' });
	add(&(struct member){ .name = TREE "alone", .text = "1234567", .type = '\0' });
	add(&(struct member){ .name = "/./" TREE "rooted", .text = "r", .type = '0' });
	add(&(struct member){ .name = ".//" TREE "dotted", .text = "d", .type = '0' });
	cr_assert_eq(read_tar(), 0, "%s", model.error.text);
	snprintf(path, sizeof path, "%s/%s", prefix, name);
	expect_link(path, link);
	snprintf(path, sizeof path, "%s/file", prefix);
	expect_file(path, "x");
	expect_file(TREE "alone", "1234567");
	expect_file(TREE "rooted", "r");
	expect_file(TREE "dotted", "d");
	/* A buffer that is shorter has the beginning. */
	memset(path, '-', sizeof path);
	cr_expect_eq(files.read(&files, TREE "alone", path, 3), 3);
	cr_expect_eq(memcmp(path, "123-", 4), 0);
	cr_expect_eq(files.read(&files, TREE "none", path, 3), -ENOENT);
	cr_expect_eq(files.link(&files, TREE "none", path, 3), -ENOENT);
}

Test(topo_files, only_files_and_links_are_members)
{
	static const char types[] = "0123456789gx";

	begin();
	for (const char *type = types; *type; type++) {
		char name[40];

		snprintf(name, sizeof name, TREE "%c", *type);
		add(&(struct member){ .name = name, .link = "to", .text = "x", .type = *type });
	}
	cr_assert_eq(read_tar(), 0, "%s", model.error.text);
	for (const char *type = types; *type; type++) {
		char name[40], got[8];

		snprintf(name, sizeof name, TREE "%c", *type);
		cr_expect_eq(files.read(&files, name, got, sizeof got), *type == '0' ? 1 : -ENOENT,
			     "%s", name);
		cr_expect_eq(files.link(&files, name, got, sizeof got), *type == '2' ? 0 : -ENOENT,
			     "%s", name);
	}
}

Test(topo_files, long_names_are_for_the_next_member_only)
{
	begin();
	add(&(struct member){ .name = "L", .text = TREE "long", .type = 'L' });
	add(&(struct member){ .name = "K", .text = "target", .type = 'K' });
	add(&(struct member){ .name = "short", .link = "no", .type = '2' });
	add(&(struct member){ .name = TREE "next", .link = "own", .type = '2' });
	add(&(struct member){ .name = "x",
			      .text = "30 path=" TREE "p\n20 linkpath=a/b/c/d\n11 other=1\n",
			      .type = 'x' });
	add(&(struct member){ .name = "short", .link = "no", .type = '2' });
	add(&(struct member){ .name = TREE "last", .text = "z", .type = '0' });
	cr_assert_eq(read_tar(), 0, "%s", model.error.text);
	expect_link(TREE "long", "target");
	expect_link(TREE "next", "own");
	expect_link(TREE "p", "a/b/c/d");
	expect_file(TREE "last", "z");
}

Test(topo_files, a_folder_of_an_archive_lists_each_name_once)
{
	static const struct {
		const char *folder, *stop, *want;
		int err;
	} row[] = {
		{ TREE "a", NULL, "b c ", 0 },	    { TREE "a/b", NULL, "1 2 ", 0 },
		{ TREE "a", "b", "b ", 0 },	    { TREE "a/c", NULL, "", -ENOENT },
		{ TREE "ab", NULL, "x ", 0 },	    { "sys/bus/pci/devices", NULL, "a! a ab ", 0 },
		{ TREE "none", NULL, "", -ENOENT }, { TREE "z", NULL, "", -ENOENT },
		{ "", NULL, "", -ENOENT },
	};
	static const char *const path[] = { TREE "ab/x", TREE "a/b/2", TREE "a/b/1",
					    TREE "a/c",	 TREE "a!/q",  TREE "a/" };

	begin();
	for (size_t i = 0; i < sizeof path / sizeof *path; i++)
		add(&(struct member){ .name = path[i], .text = "x", .type = '0' });
	cr_assert_eq(read_tar(), 0, "%s", model.error.text);
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct names names = { .stop = row[i].stop };

		cr_expect_eq(files.list(&files, row[i].folder, add_name, &names), row[i].err,
			     "row %zu", i);
		cr_expect_str_eq(names.text, row[i].want, "row %zu", i);
	}
}

Test(topo_files, folders_in_front_of_the_tree_are_removed)
{
	begin();
	add(&(struct member){ .name = "a/b/" TREE "41", .text = "x", .type = '0' });
	add(&(struct member){ .name = "a/b/proc/version", .text = "v", .type = '0' });
	add(&(struct member){ .name = "a/bsys/bus/pci/devices/1", .text = "w", .type = '0' });
	add(&(struct member){ .name = "a/other", .text = "o", .type = '0' });
	add(&(struct member){ .name = "b", .text = "b", .type = '0' });
	cr_assert_eq(read_tar(), 0, "%s", model.error.text);
	expect_file(TREE "41", "x");
	expect_file("proc/version", "v");
	cr_expect_eq(files.read(&files, "b", (char[4]){ 0 }, 4), -ENOENT);
	cr_expect_eq(files.read(&files, "other", (char[4]){ 0 }, 4), -ENOENT);
	/* Without a tree nothing is removed. */
	begin();
	add(&(struct member){ .name = "a/b", .text = "x", .type = '0' });
	cr_assert_eq(read_tar(), 0, "%s", model.error.text);
	expect_file("a/b", "x");
}

Test(topo_files, a_second_tree_in_an_archive_is_named)
{
	char folder[120], name[2][200];

	begin();
	add(&(struct member){ .name = "one/" TREE "41", .text = "x", .type = '0' });
	add(&(struct member){ .name = "two/" TREE "41", .text = "x", .type = '0' });
	cr_expect_eq(read_tar(), -EINVAL);
	cr_expect_str_eq(model.error.text,
			 "the archive holds two trees, 'one/' and 'two/': keep one of them");
	begin();
	add(&(struct member){ .name = TREE "41", .text = "x", .type = '0' });
	add(&(struct member){ .name = "x/" TREE "41", .text = "x", .type = '0' });
	cr_expect_eq(read_tar(), -EINVAL);
	cr_expect_str_eq(model.error.text,
			 "the archive holds two trees, '' and 'x/': keep one of them");
	/* Of a long name the first 100 bytes. */
	memset(folder, 'f', sizeof folder);
	folder[119] = '\0';
	for (unsigned i = 0; i < 2; i++) {
		begin();
		snprintf(name[0], sizeof name[0], "%s/sys/bus/pci/devices", i ? "g" : folder);
		snprintf(name[1], sizeof name[1], "%s/sys/bus/pci/devices", i ? folder : "g");
		for (unsigned k = 0; k < 2; k++)
			add(&(struct member){ name[k], "41", NULL, "x", '0' });
		cr_expect_eq(read_tar(), -EINVAL);
		snprintf(name[0], sizeof name[0],
			 "the archive holds two trees, '%.100s' and 'g/': keep one of them",
			 folder);
		cr_expect_str_eq(model.error.text, name[0]);
	}
}

Test(topo_files, each_damage_of_an_archive_is_named)
{
	uint8_t *header;

	begin();
	cr_expect_eq(read_tar(), -EINVAL);
	cr_expect_str_eq(model.error.text, "the archive holds no files");
	add(&(struct member){ .name = TREE "41", .text = "x", .type = '0' });
	header = add(&(struct member){ .name = TREE "42", .text = "x", .type = '0' });
	cr_expect_eq(read_bytes(tar.size), -EINVAL);
	cr_expect_str_eq(model.error.text, "archive, byte 2048: cut off: it ends without its last "
					   "block; take it again");
	cr_expect_eq(read_bytes(tar.size + BLOCK - 1), -EINVAL);
	cr_expect_eq(read_bytes(tar.size + BLOCK), 0);
	cr_expect_eq(read_bytes(1024 + BLOCK), -EINVAL);
	cr_expect_str_eq(model.error.text, "archive, byte 1024: cut off: a file is longer than the "
					   "rest of the archive; take it again");
	for (unsigned i = 0; i < BLOCK; i++) {
		if (i == 154 || i == 155) /* behind the digits of the sum */
			continue;
		header[i] ^= 0x02;
		cr_assert_eq(read_tar(), -EINVAL, "byte %u", i);
		cr_assert_str_eq(model.error.text, "archive, byte 1024: damaged: the checksum of a "
						   "header is wrong; take it again");
		header[i] ^= 0x02;
	}
	cr_expect_eq(read_tar(), 0);
}

Test(topo_files, an_archive_that_does_not_fit_in_memory_is_refused)
{
	size_t used;
	int err = -ENOMEM;

	begin();
	add(&(struct member){ .name = "L", .text = TREE "long", .type = 'L' });
	add(&(struct member){ .name = "K", .text = "target", .type = 'K' });
	add(&(struct member){ .name = "short", .link = "no", .type = '2' });
	add(&(struct member){ .name = "x", .text = "30 path=" TREE "p\n", .type = 'x' });
	add(&(struct member){ .name = TREE "next", .link = "own", .type = '2' });
	used = model.used;
	for (size_t spare = 0; err && spare < 4096; spare += 8) {
		cr_assert_not_null(hr_model_alloc(&model, model.reserved - used - spare));
		err = read_tar();
		cr_assert(err == 0 || err == -ENOMEM, "%d with %zu bytes", err, spare);
		if (err) /* new memory is zero */
			memset(model.memory + model.reserved - spare, 0, spare);
		model.used = used;
	}
	cr_expect_eq(err, 0);
	expect_link(TREE "long", "target");
	expect_link(TREE "p", "own");
}

/* ---- folders */

static char root[64];

static void make_root(void)
{
	snprintf(root, sizeof root, "/tmp/topo_files.XXXXXX");
	cr_assert_not_null(mkdtemp(root));
}

Test(topo_files, a_folder_gives_files_links_and_names)
{
	struct names names = { .stop = NULL };
	char got[16], path[PATH_MAX];

	make_root();
	folder_put(root, "d/file", "0123456789");
	folder_put(root, "d/.hidden", "");
	folder_put(root, "d/empty", "");
	snprintf(path, sizeof path, "%s/d/link", root);
	cr_assert_eq(symlink("to", path), 0);
	hr_files_folder(&files, root);
	memset(got, '-', sizeof got);
	cr_expect_eq(files.read(&files, "d/file", got, 4), 4);
	cr_expect_eq(memcmp(got, "0123-", 5), 0);
	cr_expect_eq(files.read(&files, "d/file", got, sizeof got), 10);
	cr_expect_eq(memcmp(got, "0123456789------", 16), 0);
	cr_expect_eq(files.read(&files, "d/empty", got, sizeof got), 0);
	cr_expect_eq(files.read(&files, "d/none", got, sizeof got), -ENOENT);
	cr_expect_eq(files.read(&files, "d", got, sizeof got), -EISDIR, "a folder is no file");
	cr_expect_eq(files.link(&files, "d/link", got, sizeof got), 0);
	cr_expect_str_eq(got, "to");
	cr_expect_eq(files.link(&files, "d/link", got, 2), 0);
	cr_expect_str_eq(got, "t", "with its NUL");
	cr_expect_eq(files.link(&files, "d/file", got, sizeof got), -EINVAL);
	cr_expect_eq(files.list(&files, "d", add_name, &names), 0);
	cr_expect(strstr(names.text, "file ") && strstr(names.text, "empty ") &&
			  strstr(names.text, "link ") && strlen(names.text) == 16,
		  "%s", names.text);
	cr_expect_eq(files.list(&files, "none", add_name, &names), -ENOENT);
	names = (struct names){ .stop = "only" };
	folder_put(root, "e/only", "");
	cr_expect_eq(files.list(&files, "e", add_name, &names), 0);
	cr_expect_str_eq(names.text, "only ");
	folder_remove(root);
}

Test(topo_files, a_path_that_is_too_long_is_refused)
{
	static char path[PATH_MAX + 1];
	char got[8];

	hr_files_folder(&files, "/");
	for (size_t n = PATH_MAX - 3; n < PATH_MAX; n++) {
		const bool fits = n + 1 < PATH_MAX;
		struct names names = { .stop = NULL };

		memset(path, 'x', n);
		for (size_t i = 0; i < n; i += 2)
			path[i] = '/';
		path[n] = '\0';
		cr_expect_eq(files.read(&files, path, got, 8), fits ? -ENOENT : -ENAMETOOLONG);
		cr_expect_eq(files.link(&files, path, got, 8), fits ? -ENOENT : -ENAMETOOLONG);
		cr_expect_eq(files.list(&files, path, add_name, &names),
			     fits ? -ENOENT : -ENAMETOOLONG);
	}
}

/* A part of sys has no "sys" in its path, so the folder that stands for it is found above. */
Test(topo_files, a_part_of_sys_stands_for_the_tree)
{
	static const char *const part[] = { "", "/box", "/box/bus", "/box/bus/pci",
					    "/box/bus/pci/devices" };
	char path[128], got[8];

	make_root();
	folder_put(root, "box/bus/pci/devices/x", "x");
	folder_put(root, "box/sysfs", "s");
	folder_put(root, "proc", "p");
	folder_put(root, "sysfs", "other");
	for (size_t i = 1; i < sizeof part / sizeof *part; i++) {
		hr_model_reset(&model);
		snprintf(path, sizeof path, "%s%s", root, part[i]);
		cr_expect_eq(hr_files_tree(&files, &model, path), 0, "%s", part[i]);
		cr_expect_eq(files.read(&files, "sys/bus/pci/devices/x", got, 8), 1, "%s", part[i]);
		cr_expect_eq(files.read(&files, "proc", got, 8), 1, "%s", part[i]);
		cr_expect_eq(files.read(&files, "sysfs", got, 8), 5, "no part of sys: %s", part[i]);
		cr_expect_eq(files.read(&files, "sys", got, 8), -EISDIR, "a folder: %s", part[i]);
	}
	/* A folder that holds one tree, or none. */
	hr_model_reset(&model);
	cr_expect_eq(hr_files_tree(&files, &model, root), 0);
	cr_expect_null(files.sys);
	cr_expect_eq(files.read(&files, "proc", got, 8), 1, "the folder itself");
	folder_put(root, "one/sys/bus/pci/devices/x", "x");
	folder_put(root, "one/proc", "one");
	cr_expect_eq(hr_files_tree(&files, &model, root), 0);
	cr_expect_eq(files.read(&files, "proc", got, 8), 3, "the tree inside");
	cr_expect_eq(hr_files_tree(&files, &model, "/nowhere/at/all"), 0);
	cr_expect_eq(files.read(&files, "proc", got, 8), -ENOENT);
	folder_remove(root);
}

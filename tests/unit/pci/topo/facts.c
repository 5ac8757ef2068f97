/* Facts that drivers add in sysfs: error counters, links inside a switch. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "pci/topo/capture.h"
#include "pci/topo/fields.h"
#include "pci/topo/source.h"
#include "pci/topo/sysfs.h"
#include "pci/topo/sysfs_drivers.h"
#include "pci/topo/verdict.h"
#include "tests/fakes/files.h"
#include "tests/harness/evaluate.h"

TestSuite(topo_facts, .init = fake_evaluate_up, .fini = fake_evaluate_down, .timeout = 60);

static const struct hr_options plain;

/* ---- error counters */

#define DISK "sys/bus/pci/devices/0000:04:00.0"
#define COUNTS(word, n) "RxErr 0\nBadTLP 0\nTOTAL_ERR_" word " " n "\n"

static void read_counts(const struct fake_file *file, unsigned count)
{
	struct fake_files list = { file, count };
	struct hr_files files;
	struct hr_pair p;

	fake_evaluate(SIBLING, &plain, &p);
	fake_files(&files, &list);
	hr_read_sysfs_function(&model, &files, &model.fn[fake_at(SIBLING)], DISK);
	cr_assert_eq(hr_topology_init(&topology, &model, &plain), 0);
}

Test(topo_facts, counted_errors_are_facts_and_are_reported)
{
	static const struct {
		const char *correctable, *nonfatal, *fatal;
		uint32_t want[3];
		bool told;
	} row[] = {
		{ COUNTS("COR", "0"),
		  COUNTS("NONFATAL", "0"),
		  COUNTS("FATAL", "0"),
		  { 0, 0, 0 },
		  false },
		{ COUNTS("COR", "7"),
		  COUNTS("NONFATAL", "0"),
		  COUNTS("FATAL", "0"),
		  { 7, 0, 0 },
		  false },
		{ COUNTS("COR", "4711"),
		  COUNTS("NONFATAL", "0"),
		  COUNTS("FATAL", "0"),
		  { 4711, 0, 0 },
		  true },
		{ COUNTS("COR", "0"),
		  COUNTS("NONFATAL", "2"),
		  COUNTS("FATAL", "0"),
		  { 0, 2, 0 },
		  true },
		{ COUNTS("COR", "0"),
		  COUNTS("NONFATAL", "0"),
		  COUNTS("FATAL", "1"),
		  { 0, 0, 1 },
		  true },
		{ COUNTS("COR", "99999999999"), "", "junk\n", { UINT32_MAX, ~1u, ~1u }, true },
	};
	static const enum hr_fact_id ids[] = { HR_F_AER_COR, HR_F_AER_NONFATAL, HR_F_AER_FATAL };
	struct hr_pair p;

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		const struct fake_file file[] = {
			{ .path = DISK "/aer_dev_correctable", .text = row[i].correctable },
			{ .path = DISK "/aer_dev_nonfatal", .text = row[i].nonfatal },
			{ .path = DISK "/aer_dev_fatal", .text = row[i].fatal },
		};

		read_counts(file, 3);
		for (unsigned j = 0; j < 3; j++)
			cr_expect_eq(hr_get(&model.fn[fake_at(SIBLING)], ids[j], ~1u),
				     row[i].want[j], "row %zu, %s", i, hr_fact_name(ids[j]));
		hr_pair_evaluate(&topology, fake_at(GPU), fake_at(SIBLING), &p);
		cr_expect_eq(fake_found(&p, "H3-count"), row[i].told, "row %zu", i);
		cr_expect_eq(!!(p.modifiers & HR_MOD_ERRORS), row[i].told, "row %zu", i);
		cr_expect_eq(p.verdict, HR_DIRECT);
	}
}

Test(topo_facts, a_root_port_counts_reported_errors)
{
	static const struct fake_file file[] = {
		{ .path = DISK "/aer_dev_correctable", .text = COUNTS("COR", "0") },
		{ .path = DISK "/aer_rootport_total_err_cor", .text = "12\n" },
		{ .path = DISK "/aer_rootport_total_err_nonfatal", .text = "3\n" },
		{ .path = DISK "/aer_rootport_total_err_fatal", .text = "0\n" },
	};
	const struct hr_fn *f;

	read_counts(file, 4);
	f = &model.fn[fake_at(SIBLING)];
	cr_expect_eq(hr_get(f, HR_F_AER_ROOT_COR, 0), 12u);
	cr_expect_eq(hr_get(f, HR_F_AER_ROOT_NONFATAL, 0), 3u);
	cr_expect(hr_known(f, HR_F_AER_ROOT_FATAL));
	cr_expect_not(hr_known(f, HR_F_AER_NONFATAL));
}

/* ---- virtual switches of one switch */

/* A second switch below 00:02.0 replaces the SSD there, which is last in the list. */
static void two_switches(void)
{
	struct fake_fn *f = fake_find(&machine, "00:02.0");

	fake_put(f, HR_CFG_SUBORDINATE, 1, 7);
	machine.count--;
	f = fake_bridge(&machine, "05:00.0", 0x1000, 0xc030, HR_PORT_UPSTREAM, 6, 7);
	fake_windows(f, 0xe4000000, 0xe4ffffff, 0xfff00000, 0);
	f = fake_bridge(&machine, "06:00.0", 0x1000, 0xc030, HR_PORT_DOWNSTREAM, 7, 7);
	fake_windows(f, 0xe4000000, 0xe4ffffff, 0xfff00000, 0);
	fake_nvme(&machine, "07:00.0", 0xe4000000);
}

#define LINKS "sys/kernel/pci_switch_link/virtual_switch_links"

static void read_links(const struct fake_file *file, unsigned count)
{
	struct fake_files list = { file, count };
	struct hr_files files;
	struct hr_pair p;

	fake_evaluate("07:00.0", &plain, &p);
	fake_files(&files, &list);
	hr_read_switch_links(&model, &files);
	cr_assert_eq(hr_topology_init(&topology, &model, &plain), 0);
}

static bool linked(const char *ssd)
{
	struct hr_pair p;

	hr_pair_evaluate(&topology, fake_at(GPU), fake_at(ssd), &p);
	return fake_found(&p, "R2-link");
}

Test(topo_facts, links_inside_a_switch_are_reported_for_pairs_across_the_switch)
{
	static const struct fake_file both[] = {
		{ .path = LINKS "/0000:01:00.0/0000:05:00.0", .link = "../0000:05:00.0" },
		{ .path = LINKS "/0000:05:00.0/0000:01:00.0", .link = "../0000:01:00.0" },
	};
	static const struct fake_file other[] = {
		{ .path = LINKS "/0000:01:00.0/0000:99:00.0", .link = "../0000:99:00.0" },
		{ .path = LINKS "/junk/0000:05:00.0", .link = "x" },
		{ .path = LINKS "/0000:77:00.0/0000:05:00.0", .link = "x" },
		{ .path = LINKS "/0000:01:00.0/0000:01:00.0", .link = "x" },
	};

	two_switches();
	read_links(both, 2);
	cr_expect(linked("07:00.0"));
	cr_expect_not(linked(SIBLING));
	read_links(other, 4);
	cr_expect_not(linked("07:00.0"));
	read_links(NULL, 0);
	cr_expect_not(linked("07:00.0"));
}

Test(topo_facts, a_capture_keeps_links_and_error_counts)
{
	static const struct fake_file both[] = {
		{ .path = LINKS "/0000:01:00.0/0000:05:00.0", .link = "../0000:05:00.0" },
	};
	static char text[1 << 20];
	struct hr_fn *f;
	ssize_t size;
	int fd;

	two_switches();
	read_links(both, 1);
	hr_fn_set(&model.fn[fake_at(SIBLING)], HR_F_AER_FATAL, 9, HR_SRC_SYSFS);
	fd = memfd_create("capture", 0);
	cr_assert_eq(hr_capture_write(&model, fd), 0);
	size = pread(fd, text, sizeof text, 0);
	close(fd);
	hr_model_reset(&model);
	cr_assert_eq(hr_source_parse(&model, "capture", text, (size_t)size), 0, "%s",
		     model.error.text);
	f = &model.fn[fake_at("01:00.0")];
	cr_assert_eq(f->links, 1u);
	cr_expect_eq(f->linked[0], hr_address(&model.fn[fake_at("05:00.0")]));
	cr_expect_eq(hr_get(&model.fn[fake_at(SIBLING)], HR_F_AER_FATAL, 0), 9u);
}

/* A value that does not fit is refused, not changed to another number. */
Test(topo_facts, a_capture_with_a_number_out_of_range_is_refused)
{
	static const struct {
		const char *line;
		bool system, good;
	} row[] = {
		{ "cpus=4294967295", true, true },
		{ "cpus=4294967296", true, false },
		{ "cpus=18446744073709551617", true, false },
		{ "cpus=-1", true, false },
		{ "cpus= 1", true, false },
		{ "cpus=1x", true, false },
		{ "cpus=", true, false },
		{ "numa_node=4294967295", false, true },
		{ "numa_node=4294967297", false, false },
		{ "numa_node=-4294967295", false, false },
		{ "bar1_size=268435456", false, true },
		{ "bar1_size=18446744073709551616", false, false },
		{ "bar1_size=-4096", false, false },
		{ "bar0=e0000000,3", false, true },
		{ "bar0=1e0000000e0000000,3", false, false },
		{ "bar0=,3", false, false },
		{ "bar0=e0000000,", false, false },
		{ "bar0=e0000000,10000000000000003", false, false },
		{ "mem=e0000000-e0ffffff", false, true },
		{ "mem=e0000000-1ffffffffffffffff", false, false },
		{ "mem=-1-2", false, false },
		{ "nvlink=0000:03:00.0,4", false, true },
		{ "nvlink=0000:03:00.0,65540", false, false },
		{ "nvlink=0000:03:00.0,18446744073709551620", false, false },
		{ "nvlink=0000:03:00.0,-18446744073709551612", false, false },
	};
	static char text[1 << 20], with[(1 << 20) + 100];
	struct hr_pair p;
	ssize_t size;
	int fd;

	fake_evaluate(SIBLING, &plain, &p);
	fd = memfd_create("capture", 0);
	cr_assert_eq(hr_capture_write(&model, fd), 0);
	size = pread(fd, text, sizeof text - 1, 0);
	close(fd);
	cr_assert_gt(size, 0);
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		const char *from = row[i].system ? text : strstr(text, "04:00.0 ");
		const int first = (int)(strchr(from, '\n') + 1 - text);
		const int n = snprintf(with, sizeof with, "%.*sheadrace: %s\n%s", first, text,
				       row[i].line, text + first);
		int err;

		hr_model_reset(&model);
		err = hr_source_parse(&model, "capture", with, (size_t)n);
		cr_expect_eq(err, row[i].good ? 0 : -EINVAL, "%s: %d (%s)", row[i].line, err,
			     model.error.text);
		cr_expect(row[i].good || strstr(model.error.text, "not a fact of a capture"),
			  "%s: %s", row[i].line, model.error.text);
	}
}

Test(topo_facts, a_number_of_sysfs_out_of_range_is_not_read)
{
	static const struct {
		const char *node, *group;
		uint32_t want_node, want_group;
	} row[] = {
		{ "1\n", "../../7", 1, 7 },
		{ "-1\n", "../../0", UINT32_MAX, 0 },
		{ "4294967297\n", "../../4294967297", 77, 77 },
		{ "-4294967295\n", "../../-1", 77, 77 },
		{ "18446744073709551617\n", "../../18446744073709551617", 77, 77 },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		const struct fake_file file[] = {
			{ .path = DISK "/numa_node", .text = row[i].node },
			{ .path = DISK "/iommu_group", .link = row[i].group },
		};
		const struct hr_fn *f;

		read_counts(file, 2);
		f = &model.fn[fake_at(SIBLING)];
		cr_expect_eq(hr_get(f, HR_F_NUMA, 77), row[i].want_node, "row %zu: %u", i,
			     hr_get(f, HR_F_NUMA, 77));
		cr_expect_eq(hr_get(f, HR_F_GROUP, 77), row[i].want_group, "row %zu: %u", i,
			     hr_get(f, HR_F_GROUP, 77));
	}
}

Test(topo_facts, nccl_writes_the_same_links)
{
	static const char xml[] =
		"<system version=\"1\"><cpu numaid=\"0\">"
		"<pci busid=\"0000:01:00.0\" class=\"0x060400\">"
		"<pcilink target=\"0000:05:00.0\"/><pcilink target=\"junk\"/>"
		"<pci busid=\"0000:03:00.0\" class=\"0x030200\"/></pci>"
		"<pci busid=\"0000:05:00.0\" class=\"0x060400\">"
		"<pci busid=\"0000:07:00.0\" class=\"0x010802\"/></pci></cpu></system>";

	hr_model_reset(&model);
	cr_assert_eq(hr_source_parse(&model, "x.xml", xml, strlen(xml)), 0, "%s", model.error.text);
	cr_assert_eq(hr_topology_init(&topology, &model, &plain), 0);
	cr_expect(linked("07:00.0"));
	cr_expect_eq(model.fn[fake_at("01:00.0")].links, 1u);
}

/* ---- text */

/* UTF-8 of a code point (RFC 3629). */
static size_t encode(uint32_t point, char *to)
{
	const size_t n = point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
	static const uint8_t lead[] = { 0, 0, 0xc0, 0xe0, 0xf0 };

	for (size_t i = n; i-- > 1; point >>= 6)
		to[i] = (char)(0x80 | (point & 0x3f));
	to[0] = (char)(lead[n] | point);
	return n;
}

/* Surrogates have no UTF-8; a terminal may act on control characters. */
static bool is_printable(uint32_t point)
{
	return point >= 0x20 && (point < 0x7f || point >= 0xa0) && point < 0x110000 &&
	       (point < 0xd800 || point > 0xdfff);
}

Test(topo_facts, each_character_that_can_be_printed_stays)
{
	char text[4], was[4];

	for (uint32_t point = 0; point < 0x120000; point++) {
		const size_t n = encode(point, text);

		memcpy(was, text, n);
		hr_text_clean(text, n);
		cr_assert_eq(memcmp(text, was, n) == 0, is_printable(point), "U+%04X", point);
		cr_assert(is_printable(point) || text[0] == '?', "U+%04X", point);
	}
	/* Overlong forms, and a byte that is no continuation byte. */
	for (unsigned first = 0x80; first < 0x100; first++)
		for (unsigned other = 0; other < 0x300; other++) {
			const size_t n = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4, at = other >> 8;
			uint32_t point = first & (0x7fu >> n);
			bool good = first >= 0xc0 && first < 0xf8;
			char back[4];

			memset(text, 0x80 | 0x20, sizeof text);
			text[0] = (char)first;
			text[1 + at] = (char)other;
			for (size_t i = 1; i < n; i++) {
				point = point << 6 | (text[i] & 0x3f);
				good &= (text[i] & 0xc0) == 0x80;
			}
			good = good && encode(point, back) == n && is_printable(point);
			hr_text_clean(text, n);
			cr_assert_eq((uint8_t)text[0] == first, good, "%02x %zu %02x", first, at,
				     other & 0xff);
		}
}

Test(topo_facts, words_of_captures_are_utf_8)
{
	static const struct {
		const char *text, *want;
	} row[] = {
		{ "Gr\xc3\xb6\xc3\x9f"
		  "e",
		  "Gr\xc3\xb6\xc3\x9f"
		  "e" },
		{ "M\xfcller", "M?ller" },
		{ "\xe2\x82\xac", "\xe2\x82\xac" },
		{ "\xe2\x82", "??" },
		{ "\xc2\x9b"
		  "1m",
		  "??1m" },
		{ "\xc0\xaf", "??" },
		{ "\xed\xa0\x80", "???" },
		{ "\xf4\x90\x80\x80", "????" },
		{ "\xf0\x9f\x92\xbe", "\xf0\x9f\x92\xbe" },
		{ "\x1b[31m\x7f", "?[31m?" },
	};
	char text[HR_WORD_MAX + 8];
	const char *word;

	for (size_t i = 0; i < sizeof row / sizeof *row; i++)
		cr_expect_str_eq(hr_model_word(&model, row[i].text, strlen(row[i].text)),
				 row[i].want, "row %zu", i);
	/* A character at the end of the buffer is kept complete or left out. */
	for (size_t before = HR_WORD_MAX - 5; before < HR_WORD_MAX; before++) {
		memset(text, 'x', before);
		memcpy(text + before, "\xf0\x9f\x92\xbe", 4);
		word = hr_model_word(&model, text, before + 4);
		cr_expect_eq(strlen(word), before + 4 < HR_WORD_MAX ? before + 4 : before, "%zu",
			     before);
		cr_expect_null(strchr(word, '?'));
	}
	/*
	 * A sequence of bytes that is not UTF-8 may be cut at any place beyond the length of the
	 * longest character.
	 */
	memset(text, 0x80, sizeof text);
	cr_expect_eq(strlen(hr_model_word(&model, text, sizeof text)), HR_WORD_MAX - 4);
}

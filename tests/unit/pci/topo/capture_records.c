/* Whole captures: each line that is written, each way in which the write can go, and reading back. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "pci/topo/capture.h"
#include "pci/topo/decode.h"
#include "pci/topo/fields.h"
#include "tests/harness/described.h"

static struct hr_model model;

/* ---- a file that takes a few bytes at a time, is interrupted, or fails */

static int slow = -1;
static size_t piece;	 /* most bytes of one write */
static unsigned writes;	 /* every third one is interrupted */
static unsigned failing; /* this write fails; 0: none */

ssize_t write(int fd, const void *bytes, size_t size)
{
	if (fd == slow && ++writes == failing) {
		errno = ENOSPC;
		return -1;
	}
	if (fd == slow && writes % 3 == 0) {
		errno = EINTR;
		return -1;
	}
	return syscall(SYS_write, fd, bytes, fd == slow && piece && size > piece ? piece : size);
}

static void set_up(void)
{
	cr_assert_eq(hr_model_init(&model), 0);
	slow = memfd_create("capture", MFD_CLOEXEC);
	cr_assert_geq(slow, 0);
}

static void tear_down(void)
{
	close(slow);
	hr_model_fini(&model);
}

TestSuite(topo_capture_records, .init = set_up, .fini = tear_down, .timeout = 60);

static char text[1 << 20];

static const char *capture(void)
{
	ssize_t size;

	cr_assert_eq(ftruncate(slow, 0), 0);
	lseek(slow, 0, SEEK_SET);
	cr_assert_eq(hr_capture_write(&model, slow), 0);
	size = pread(slow, text, sizeof text - 1, 0);
	cr_assert(size > 0 && (size_t)size < sizeof text - 1);
	text[size] = '\0';
	return text;
}

/* ---- the machine */

static void set(struct hr_fact *fact, uint32_t value, enum hr_src source)
{
	*fact = (struct hr_fact){ value, (uint8_t)source };
}

#define K38 "0123456789abcdefghi0123456789abcdefghi"
#define K190 K38 K38 K38 K38 K38
#define HEAD "headrace: capture=2\nheadrace: source="

Test(topo_capture_records, every_fact_of_the_machine_is_a_line)
{
	struct hr_system *sys = &model.sys;

	cr_expect_str_eq(capture(), HEAD "\n\n");
	strcpy(model.input, "capture of lspci dump");
	cr_expect_str_eq(capture(), HEAD "lspci dump\n\n");
	strcpy(model.input, "a capture of x");
	strcpy(sys->kernel, "6.1");
	strcpy(sys->lockdown, "none");
	strcpy(sys->nvidia, "550.1");
	strcpy(sys->nvidia_keys, K190);
	strcpy(sys->nvidia_fs, "2.17");
	set(&sys->amd, 1, HR_SRC_SYSFS);
	set(&sys->family, 25, HR_SRC_TEXT);
	set(&sys->cpus, 64, HR_SRC_XML);
	set(&sys->hypervisor, 2, HR_SRC_INFERRED);
	set(&sys->iommu, 3, HR_SRC_SYSFS);
	set(&sys->p2pdma, 4, HR_SRC_SYSFS);
	set(&sys->nvidia_open, 5, HR_SRC_SYSFS);
	set(&sys->multipath, 6, HR_SRC_SYSFS);
	capture();
	cr_expect_str_eq(
		text, HEAD
		"a capture of x\nheadrace: kernel=6.1\nheadrace: lockdown=none\n"
		"headrace: sysfs.cpu_amd=1\nheadrace: text.cpu_family=25\n"
		"headrace: xml.cpus=64\nheadrace: inferred.hypervisor=2\n"
		"headrace: sysfs.iommu=3\nheadrace: sysfs.p2pdma=4\n"
		"headrace: sysfs.nvidia_open=5\nheadrace: sysfs.multipath=6\n"
		"headrace: nvidia=550.1\n"
		"headrace: nvidia_keys=0123456789abcdefghi0123456789abcdefghi0123456789abcdefghi"
		"0123456789abcdefghi0123456789abcdefghi0123456789abcdefghi0123456789abcdefghi"
		"0123456789abcdefghi0123456789abcdefghi012345678\nheadrace: nvidia_fs=2.17\n\n");
}

Test(topo_capture_records, each_private_parameter_stays_out)
{
	static const char *const word[] = {
		"root=a",
		"resume=a",
		"ip=a",
		"rd.luks.uuid=a",
		"cryptdevice=a",
		"hostname=a",
		"systemd.hostname=a",
		"netconsole=a",
		"nfsroot=a",
		"ds=a",
		"BOOT_IMAGE=a",
	};
	char want[1024], *line = model.sys.cmdline;

	for (size_t i = 0; i < sizeof word / sizeof *word; i++) {
		snprintf(line, 64, "%s b", word[i]);
		cr_expect_str_eq(capture(), HEAD "\nheadrace: cmdline=b \n\n", "%s", word[i]);
	}
	strcpy(line, " x=\"a b\"c  roots=1 \"root=2 3\" y");
	cr_expect_str_eq(capture(),
			 HEAD "\nheadrace: cmdline=x=\"a b\"c \nheadrace: cmdline=roots=1 \n"
			      "headrace: cmdline=\"root=2 3\" \nheadrace: cmdline=y \n\n");
	/* A long parameter is split after each 200 bytes. */
	for (unsigned n = 199; n <= 401; n += n == 201 ? 198 : 1) {
		memset(line, 'p', n);
		strcpy(line + n, " q");
		snprintf(want, sizeof want,
			 HEAD "\nheadrace: cmdline=%.*s%s\n%s%.*s%s%s%.*s%s"
			      "headrace: cmdline=q \n\n",
			 n < 200 ? (int)n : 200, line, n <= 200 ? " " : "",
			 n > 200 ? "headrace: cmdline=" : "",
			 n <= 200  ? 0
			 : n < 400 ? (int)n - 200
				   : 200,
			 line,
			 n <= 200   ? ""
			 : n <= 400 ? " \n"
				    : "\n",
			 n > 400 ? "headrace: cmdline=" : "", n > 400 ? (int)n - 400 : 0, line,
			 n > 400 ? " \n" : "");
		cr_expect_str_eq(capture(), want, "%u bytes", n);
	}
}

/* ---- functions */

static struct hr_fn *add_function(void)
{
	struct hr_fn *f = hr_model_add(&model, 1, 0x41, 2, 3);

	f->name = "Maker Card";
	set(&f->fact[HR_F_VENDOR], 0x10de, HR_SRC_CONFIG);
	set(&f->fact[HR_F_DEVICE], 7, HR_SRC_SYSFS);
	set(&f->fact[HR_F_CLASS], 0x30200, HR_SRC_TEXT);
	set(&f->fact[HR_F_MPS], 128, HR_SRC_INFERRED);
	set(&f->fact[HR_F_RDMA], 1, HR_SRC_USER);
	return f;
}

#define FUNCTION HEAD "\n\n0001:41:02.3 Maker Card\n"
#define FACTS                                                         \
	"\theadrace: sysfs.device=7\n\theadrace: text.class=197120\n" \
	"\theadrace: inferred.mps=128\n\theadrace: user.rdma=1\n"

Test(topo_capture_records, every_fact_of_a_function_is_a_line)
{
	struct hr_fn *f = add_function();
	const struct hr_gpu_link links[] = {
		{ hr_address(f), HR_NO_ADDRESS, 18, HR_NVLINK, true, HR_SRC_SYSFS },
		{ hr_address(f), 0x14200, 2, HR_NVLINK, true, HR_SRC_XML },
		{ hr_address(f), 0x14300, 3, HR_XGMI, false, HR_SRC_SYSFS },
		{ 0x14300, hr_address(f), 4, HR_XGMI, false, HR_SRC_SYSFS },
	};

	cr_expect_str_eq(capture(), FUNCTION FACTS "\n");
	f->placed = true;
	f->under = 0x14001;
	f->links = 2;
	f->linked[0] = 0x100;
	f->linked[1] = 0x200;
	f->bar[0] = (struct hr_bar){ 0x1000, 0x100, HR_BAR_MEM, HR_SRC_TEXT, HR_SRC_TEXT, 0, 0 };
	f->bar[1] = (struct hr_bar){ 0x2000, 0x200, HR_BAR_MEM, HR_SRC_CONFIG, HR_SRC_SYSFS, 0, 0 };
	f->bar[2] = (struct hr_bar){ 0x3000, 0x300, HR_BAR_64, HR_SRC_SYSFS, HR_SRC_CONFIG, 0, 0 };
	f->bar[3] = (struct hr_bar){ 0x4000, 0x400, 0, HR_SRC_SYSFS, HR_SRC_XML, 0, 0 };
	f->bar[5] = (struct hr_bar){ 0, 0, HR_BAR_UPPER, HR_SRC_SYSFS, HR_SRC_SYSFS, 0, 0 };
	f->vf_bar[5] = (struct hr_bar){ 0x5000, 0x500, 31, HR_SRC_XML, HR_SRC_SYSFS, 0, 0 };
	f->mem = (struct hr_window){ 0xe0000000, 0xe00fffff, HR_SRC_TEXT };
	f->pref = (struct hr_window){ 1, 0, HR_SRC_SYSFS };
	f->driver = "";
	f->pci_slot = "12";
	f->cpus = "0-3";
	f->devices = "card0";
	f->fs = "ext4";
	f->denied = true;
	for (unsigned i = 0; i < 4; i++)
		cr_assert_eq(hr_model_add_link(&model, &links[i]), 0);
	capture();
	cr_expect_str_eq(
		text, FUNCTION FACTS
		"\theadrace: under=0001:40:00.1\n"
		"\theadrace: switch_link=0000:01:00.0\n\theadrace: switch_link=0000:02:00.0\n"
		"\theadrace: text.bar0=1000,1\n\theadrace: text.bar0_size=256\n"
		"\theadrace: sysfs.bar1_size=512\n\theadrace: sysfs.bar2=3000,2\n"
		"\theadrace: sysfs.bar5=0,10\n"
		"\theadrace: xml.vf_bar5=5000,1f\n\theadrace: sysfs.vf_bar5_size=1280\n"
		"\theadrace: text.mem=e0000000-e00fffff\n\theadrace: sysfs.pref=1-0\n"
		"\theadrace: driver=\n\theadrace: slot_name=12\n\theadrace: cpus=0-3\n"
		"\theadrace: devices=card0\n\theadrace: fs=ext4\n"
		"\theadrace: sysfs.nvlink=switch,18\n"
		"\theadrace: xml.nvlink=0001:42:00.0,2,switch\n"
		"\theadrace: sysfs.xgmi=0001:43:00.0,3\n\theadrace: denied=1\n\n");
	f->mem.source = f->pref.source = HR_SRC_CONFIG;
	f->driver = f->pci_slot = f->cpus = f->devices = f->fs = NULL;
	f->denied = f->placed = false;
	f->links = model.gpu_links = 0;
	memset(f->bar, 0, sizeof f->bar);
	memset(f->vf_bar, 0, sizeof f->vf_bar);
	cr_expect_str_eq(capture(), FUNCTION FACTS "\n");
}

#define ZEROS " 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00\n"

Test(topo_capture_records, registers_are_rows_of_sixteen)
{
	static const struct {
		uint32_t bytes;
		uint8_t at, value; /* one byte that is not zero; value 0: none */
		const char *want;
	} row[] = {
		{ 1, 0, 0x5a, "00: 5a\n" },
		{ 15, 14, 0xff, "00: 00 00 00 00 00 00 00 00 00 00 00 00 00 00 ff\n" },
		{ 16, 0, 0, "00:" ZEROS },
		{ 17, 0, 0, "00:" ZEROS "10: 00\n" },
		{ 32, 15, 1, "00: 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 01\n10:" ZEROS },
		{ 33, 16, 1,
		  "00:" ZEROS "10: 01 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00\n20: 00\n" },
	};
	uint8_t config[64];
	char want[512];

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct hr_fn *f;

		hr_model_reset(&model);
		f = hr_model_add(&model, 1, 0x41, 2, 3);
		f->name = "Maker Card";
		memset(config, 0, sizeof config);
		config[row[i].at] = row[i].value;
		f->config = config;
		f->config_bytes = row[i].bytes;
		snprintf(want, sizeof want, FUNCTION "%s\n", row[i].want);
		cr_expect_str_eq(capture(), want, "row %zu", i);
	}
}

/* Serial numbers: the list of capabilities as it is, in a loop, and cut off. */
Test(topo_capture_records, serial_numbers_are_zero)
{
	static const struct {
		uint32_t first, second, third, bytes; /* offsets of capabilities, 0: none */
		uint16_t id[3];
		bool hidden[3];
	} row[] = {
		{ 0x100, 0, 0, 0x300, { 3 }, { true } },
		{ 0x100, 0x140, 0x180, 0x300, { 1, 3, 3 }, { false, true, true } },
		{ 0x100, 0x148, 0x18c, 0x300, { 2, 4, 0x103 }, { false, false, false } },
		{ 0x100, 0x140, 0x100, 0x300, { 3, 1, 3 }, { true, false, true } },
		{ 0x100, 0x140, 0, 0x14c, { 1, 3 }, { false, true } },
		{ 0x100, 0x140, 0, 0x14b, { 1, 3 }, { false, false } },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		const uint32_t at[] = { row[i].first, row[i].second, row[i].third };
		uint8_t config[0x300];
		char want[64];
		struct hr_fn *f;

		hr_model_reset(&model);
		f = hr_model_add(&model, 1, 0x41, 2, 3);
		f->name = "x";
		memset(config, 0xa5, sizeof config);
		for (unsigned k = 0; k < 3 && at[k]; k++) {
			const uint32_t next = k < 2 ? at[k + 1] : 0;

			/* The low two bits of a pointer do not count. */
			config[at[k]] = (uint8_t)row[i].id[k];
			config[at[k] + 1] = (uint8_t)(row[i].id[k] >> 8);
			config[at[k] + 2] = (uint8_t)((next & 15) << 4 | 0x31);
			config[at[k] + 3] = (uint8_t)(next >> 4);
		}
		f->config = config;
		f->config_bytes = row[i].bytes;
		capture();
		for (unsigned k = 0; k < 3 && at[k]; k++) {
			const char *line, *byte;

			for (uint32_t b = at[k] + 3; b <= at[k] + 12 && b < row[i].bytes; b++) {
				const bool inside = b >= at[k] + 4 && b < at[k] + 12;

				snprintf(want, sizeof want, "\n%02x:", b & ~15u);
				line = strstr(text, want);
				cr_assert_not_null(line, "row %zu", i);
				byte = line + strlen(want) + 3 * (b & 15) + 1;
				snprintf(want, sizeof want, "%02x",
					 inside && row[i].hidden[k] ? 0 : config[b]);
				cr_expect(strncmp(byte, want, 2) == 0, "row %zu, byte %x: %.2s", i,
					  b, byte);
			}
		}
	}
}

/* ---- the write */

Test(topo_capture_records, a_slow_file_gets_the_same_bytes)
{
	static char whole[sizeof text];

	for (unsigned i = 0; i < 600; i++) {
		struct hr_fn *f = hr_model_add(&model, 2, i / 32, i % 32, 0);

		f->name = i % 2 ? "A function with a name" : "another";
		set(&f->fact[HR_F_DEVICE], i, HR_SRC_SYSFS);
	}
	strcpy(whole, capture());
	cr_expect_gt(strlen(whole), 2 * 32768u / 2);
	piece = 1000;
	writes = 0;
	cr_expect_str_eq(capture(), whole);
	cr_expect_gt(writes, 30u);
	piece = 0;
	for (failing = 1; failing <= 2; failing++) {
		writes = 0;
		cr_expect_eq(hr_capture_write(&model, slow), -ENOSPC, "write %u", failing);
		cr_expect_eq(writes, failing, "none follows");
	}
}

/* ---- reading back */

Test(topo_capture_records, a_capture_is_read_back_as_it_was_written)
{
	static char first[sizeof text];
	struct hr_fn *f = add_function();

	f->fact[HR_F_RDMA].source = HR_SRC_TEXT;
	f->fact[HR_F_VENDOR].source = HR_SRC_SYSFS;
	f->bar[5] = (struct hr_bar){ 0x1000, 0x100, HR_BAR_MEM, HR_SRC_XML, HR_SRC_TEXT, 0, 0 };
	f->mem = (struct hr_window){ 0xe0000000, 0xe00fffff, HR_SRC_SYSFS };
	f->driver = "vfio-pci";
	f->cpus = "0-3";
	f->links = 1;
	f->linked[0] = 0x100;
	strcpy(model.input, "sysfs tree");
	strcpy(model.sys.cmdline, "quiet splash ");
	strcpy(model.sys.kernel, "6.1");
	set(&model.sys.amd, 1, HR_SRC_TEXT);
	strcpy(first, capture());
	hr_model_reset(&model);
	cr_assert_eq(hr_source_parse(&model, "x", first, strlen(first)), 0, "%s", model.error.text);
	cr_expect_str_eq(model.input, "capture of sysfs tree");
	cr_expect_str_eq(
		fake_described(&model.fn[0]),
		"vendor=10de/4 device=7/4 class=30200/3 mps=80/1 rdma=1/3 bar5=1000+100 f1 2,3 "
		"mem=e0000000-e00fffff/4 linked=0000:01:00.0 name='Maker Card' "
		"driver='vfio-pci' cpus='0-3'");
	cr_expect_str_eq(fake_described_system(&model.sys),
			 "amd=1/3 kernel='6.1' cmdline='quiet splash '");
	cr_expect_str_eq(capture(), first);
}

/* All lines of facts, of both kinds, with the record that they make. */
Test(topo_capture_records, lines_make_a_record)
{
	static const struct {
		const char *line, *want; /* NULL: refused */
	} row[] = {
		{ "inferred.vendor=0x10", "vendor=10/1" },
		{ "xml.vendor=9", "vendor=9/2" },
		{ "text.vendor=4294967295", "vendor=ffffffff/3" },
		{ "vendor=4294967296", NULL },
		{ "sysfs.vendor=0", "vendor=0/4" },
		{ "bar0=a,1f", "bar0=a+0 f1f 3,0" },
		{ "xml.bar5=a,0", "bar5=a+0 f0 2,0" },
		{ "vf_bar1=10,1", "vf_bar1=10+0 f1 3,0" },
		{ "sysfs.vf_bar5=10,1", "vf_bar5=10+0 f1 4,0" },
		{ "bar1_size=16", "bar1=0+10 f0 0,4" },
		{ "text.vf_bar2_size=0x10", "vf_bar2=0+10 f0 0,3" },
		{ "mem=1-2", "mem=1-2/3" },
		{ "sysfs.pref=ffffffffffffffff-0", "pref=ffffffffffffffff-0/4" },
		{ "mem=10000000000000000-1", NULL },
		{ "driver=a\x01z", "driver='a?z'" },
		{ "slot_name=5", "pci_slot='5'" },
		{ "cpus=1", "cpus='1'" },
		{ "devices=d", "devices='d'" },
		{ "fs=xfs", "fs='xfs'" },
		{ "denied=0", "denied" },
		{ "switch_link=0000:02:00.0", "linked=0000:02:00.0" },
		{ "under=0000:02:00.0", "" },
		{ "under=02:00.0.", NULL },
		{ "ba=1", NULL },
		{ "vf_=1", NULL },
		{ "=1", NULL },
		{ "bar/=1,1", NULL },
		{ "bar6_size=1", NULL },
		{ "bar5_size=1", "bar5=0+1 f0 0,4" },
	};
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct hr_fn *f;

		hr_model_reset(&model);
		f = hr_model_add(&model, 0, 1, 0, 0);
		cr_expect_eq(hr_capture_line(&model, f, row[i].line, strlen(row[i].line)),
			     row[i].want != NULL, "%s", row[i].line);
		cr_expect_str_eq(fake_described(f), row[i].want ? row[i].want : "", "%s: %s",
				 row[i].line, fake_described(f));
		cr_expect_eq(f->placed, strcmp(row[i].line, "under=0000:02:00.0") == 0);
		cr_expect(!f->placed || f->under == 0x200);
	}
}

Test(topo_capture_records, lines_make_links_of_gpus)
{
	static const struct {
		const char *line;
		struct hr_gpu_link want; /* count 0: refused */
	} row[] = {
		{ "nvlink=0000:03:00.0,4", { 0x100, 0x300, 4, HR_NVLINK, false, HR_SRC_SYSFS } },
		{ "xml.xgmi=fffff:03:1f.7,1024",
		  { 0x100, 0xfffff03ff, 1024, HR_XGMI, false, HR_SRC_XML } },
		{ "text.nvlink=switch,18",
		  { 0x100, HR_NO_ADDRESS, 18, HR_NVLINK, true, HR_SRC_TEXT } },
		{ "nvlink=switch,1,switch",
		  { 0x100, HR_NO_ADDRESS, 1, HR_NVLINK, true, HR_SRC_SYSFS } },
		{ "nvlink=0000:03:00.0,2,switch",
		  { 0x100, 0x300, 2, HR_NVLINK, true, HR_SRC_SYSFS } },
		{ .line = "nvlink=0000:03:00.0,2,swit" },
		{ .line = "nvlink=0000:03:00.0,a" },
		{ .line = "nvlink=switches,1" },
		{ .line = "xgmi=,1" },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct hr_fn *f;

		hr_model_reset(&model);
		f = hr_model_add(&model, 0, 1, 0, 0);
		cr_expect_eq(hr_capture_line(&model, f, row[i].line, strlen(row[i].line)),
			     row[i].want.count > 0, "%s", row[i].line);
		cr_assert_eq(model.gpu_links, row[i].want.count ? 1u : 0u, "%s", row[i].line);
		if (row[i].want.count) {
			const struct hr_gpu_link *l = model.gpu_link;

			cr_expect(l->from == row[i].want.from && l->to == row[i].want.to, "row %zu",
				  i);
			cr_expect(l->count == row[i].want.count &&
					  l->fabric == row[i].want.fabric &&
					  l->to_switch == row[i].want.to_switch &&
					  l->source == row[i].want.source,
				  "row %zu", i);
		}
	}
}

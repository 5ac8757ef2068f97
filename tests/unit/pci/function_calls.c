/*
 * One PCI function: all calls of libpciaccess and of the undo helper, in their order, when one of
 * them fails, and the BARs of a device that this test describes.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "pci/function.h"
#include "pci/undo.h"
#include "tests/fakes/pciaccess.h"
#include "tests/fakes/tree.h"
#include "tests/harness/error.h"

TestSuite(function_calls, .timeout = 60);

#define SSD "0000:03:00.0"
#define FOLDER "/sys/bus/pci/devices/" SSD
#define CONFIG FOLDER "/config"
#define ENABLE FOLDER "/enable"

/* ---- the undo helper */

static unsigned undo_ids, undo_order; /* order 1: 1 0 3 2 */

int hr_undo_add(enum hr_undo_when when, const char *path, uint64_t offset, const void *bytes,
		size_t size)
{
	const int err = fake_pci_result("add");

	cr_assert_eq(when, HR_UNDO_BEFORE_CLOSE);
	cr_assert_eq(strncmp(path, FOLDER "/", strlen(FOLDER "/")), 0);
	fake_pci_say("add %s@%u=", path + strlen(FOLDER "/"), (unsigned)offset);
	for (size_t i = 0; i < size; i++)
		fake_pci_say("%02x", ((const uint8_t *)bytes)[i]);
	fake_pci_say(" ");
	return err ? err : (int)(undo_ids++ ^ undo_order);
}

void hr_undo_drop(int id)
{
	fake_pci_say("drop %d ", id);
}

int hr_undo_keep_fd(int fd)
{
	fake_pci_say("keep%s ", fcntl(fd, F_GETFD) >= 0 ? "" : " a closed one");
	return fake_pci_result("keep");
}

void hr_undo_release_fd(int fd)
{
	fake_pci_say("release%s ", fcntl(fd, F_GETFD) >= 0 ? "" : " a closed one");
}

/* ---- opening, changing, closing: in a tree of files */

/* Text of an error, or "ok", and the number of the result; no descriptor may be left open. */
static void told(int err)
{
	fake_pci_say("[%d %d %s]\n", err, (int)(err ? test_error_kind() : HR_ERROR_NONE),
		     err ? test_error_text() : "ok");
}

struct life_row {
	const char *call; /* that fails, or NULL */
	unsigned at;
	int with;
	uint16_t stuck;
	bool virtual;
	const char *want;
};

static char enabled(void)
{
	const int fd = open(ENABLE, O_RDONLY | O_CLOEXEC);
	char value = '-';

	if (fd >= 0 && read(fd, &value, 1) != 1)
		value = '?';
	if (fd >= 0)
		close(fd);
	return value;
}

static int next_fd(void)
{
	const int fd = dup(0);

	close(fd);
	return fd;
}

static int live(void *arg)
{
	const struct life_row *row = arg;
	static const uint8_t zero[sizeof(struct hr_function)];
	struct hr_function f;
	const int before = next_fd();
	int err;

	fake_pci.failing = row->call;
	fake_pci.failing_at = row->at;
	fake_pci.failing_with = row->with;
	fake_pci.stuck = row->stuck;
	undo_order = row->virtual;
	fake_pci_set_command(0x0100);
	if (row->virtual && symlink(".", FOLDER "/physfn"))
		return 1;
	memset(&f, 0xa5, sizeof f);
	err = hr_function_open(&f, SSD, test_error());
	told(err);
	if (!err) {
		fake_pci_say("%s %d ", f.bdf, f.virtual);
		err = hr_function_enable(&f, HR_COMMAND_MSE, test_error());
		told(err);
		err = hr_function_enable(&f, HR_COMMAND_MSE | HR_COMMAND_BME, test_error());
		told(err);
		err = hr_function_enable(&f, HR_COMMAND_BME, test_error());
		told(err);
		fake_pci_say("%c %04x ", enabled(), fake_pci_command());
		hr_function_stop_dma(&f, true);
		told(0);
		hr_function_close(&f);
		fake_pci_say("%c %04x ", enabled(), fake_pci_command());
	}
	hr_function_close(&f);
	return memcmp(&f, zero, sizeof f) != 0 ? 2 : next_fd() != before ? 3 : 0;
}

#define FOUND "init find 0:3:0.0 probe read "
#define AS_ROOT                                                                                   \
	": run as root, in a container with CAP_SYS_ADMIN; a kernel that is locked down permits " \
	"vfio:BDF only"
#define OPENED FOUND "[0 0 ok]\n" SSD " 0 "
#define MEMORY "read write 0102 read [0 0 ok]\n"
#define UNDONE "add config@4=0001 add enable@0=30 keep "
#define MASTER UNDONE "read write 0506 read [0 0 ok]\n"
#define AGAIN "read write 0506 read [0 0 ok]\n"
#define STOPPED "1 0506 read write 0502 read [0 0 ok]\n"
#define DROPPED "release drop 0 drop 1 "
#define CLOSED "write 0100 " DROPPED "cleanup 0 0100 "
#define GONE \
	"cleanup [-19 3 " SSD ": its configuration space is not readable: the device is gone]\n"
#define NO_UNDO                                                                           \
	"[-5 1 " SSD                                                                      \
	": cannot start the undo helper, which stops it if headrace dies: No space left " \
	"on device]\n"

static const struct life_row lives[] = {
	{ .want = OPENED MEMORY MASTER AGAIN STOPPED CLOSED },
	{ .virtual = true,
	  .want = FOUND "[0 0 ok]\n" SSD " 1 read write 0100 read [0 0 ok]\n" UNDONE
			"read write 0504 read [0 0 ok]\nread write 0504 read [0 0 ok]\n"
			"1 0504 read write 0500 read [0 0 ok]\n"
			"write 0100 release drop 1 drop 0 cleanup 0 0100 " },
	{ "init", 1, 2, .want = "init [-19 3 " SSD ": this machine has no accessible PCI bus]\n" },
	{ "find", 1, 1, .want = "init find 0:3:0.0 " GONE },
	{ "probe", 1, 5, .want = "init find 0:3:0.0 probe " GONE },
	{ "read", 1, 5, .want = FOUND GONE },
	{ "read", 1, -1, .want = FOUND GONE },
	/* The undo helper: the function does not become a master, and the next call tries again. */
	{ "add", 1, -ENOSPC,
	  .want = OPENED MEMORY "add config@4=0001 release drop -28 drop -1 " NO_UNDO
				"add config@4=0001 add enable@0=30 keep " AGAIN
				"1 0506 read write 0502 read [0 0 ok]\n" CLOSED },
	{ "add", 2, -ENOSPC,
	  .want = OPENED MEMORY
	  "add config@4=0001 add enable@0=30 release drop 0 drop -28 " NO_UNDO
	  "add config@4=0001 add enable@0=30 keep " AGAIN
	  "1 0506 read write 0502 read [0 0 ok]\nwrite 0100 release drop 1 drop 2 cleanup "
	  "0 0100 " },
	{ "keep", 1, -ENOSPC,
	  .want = OPENED MEMORY UNDONE DROPPED NO_UNDO UNDONE AGAIN
	  "1 0506 read write 0502 read [0 0 ok]\nwrite 0100 release drop 2 drop 3 cleanup "
	  "0 0100 " },
	/* The register: at the opening, then twice for each call. */
	{ "read", 2, 5,
	  .want = OPENED "read [-19 3 " SSD ": the device is gone]\n" UNDONE
			 "read write 0506 read [0 0 ok]\n" AGAIN STOPPED CLOSED },
	{ "read", 2, -1,
	  .want = OPENED "read [-19 3 " SSD ": the device is gone]\n" UNDONE
			 "read write 0506 read [0 0 ok]\n" AGAIN STOPPED CLOSED },
	{ "read", 3, 5,
	  .want = OPENED "read write 0102 read [-5 4 " SSD
			 ": the command register reads 0100 after 0102 was written]\n" MASTER AGAIN
				 STOPPED CLOSED },
	{ "write", 1, 5,
	  .want = OPENED "read write 0102 [-5 4 " SSD
			 ": the command register reads 0100 after 0102 was written]\n" MASTER AGAIN
				 STOPPED CLOSED },
	{ "write", 1, EPERM,
	  .want = OPENED "read write 0102 [-1 3 " SSD
			 ": the kernel refuses to change its command register" AS_ROOT
			 "]\n" MASTER AGAIN STOPPED CLOSED },
	{ "read", 8, 5,
	  .want = OPENED MEMORY MASTER AGAIN "1 0506 read [0 0 ok]\nwrite 0100 " DROPPED
					     "cleanup 0 0100 " },
	/* INTx may stay on, bus mastering may not stay off. */
	{ .stuck = 0x400,
	  .want = OPENED MEMORY UNDONE
	  "read write 0506 read [0 0 ok]\nread write 0506 read [0 0 ok]\n"
	  "1 0106 read write 0102 read [0 0 ok]\n" CLOSED },
	{ .stuck = 0x004,
	  .want = OPENED MEMORY UNDONE "read write 0506 read [-5 4 " SSD
				       ": the command register reads 0502 after 0506 "
				       "was written]\nread write 0506 read [-5 4 " SSD
				       ": the command register reads 0502 after 0506 was written]\n"
				       "1 0502 read write 0502 read [0 0 ok]\n" CLOSED },
};

static struct fake_tree tree;

static void make_tree(void)
{
	fake_tree_make(&tree);
	fake_tree_add(&tree, &(struct fake_tree_fn){ SSD, HR_CLASS_NVME, NULL, -1, 0, 0, 0x100 });
}

Test(function_calls, a_failing_call_undoes_those_before_it, .init = fake_pci_start)
{
	for (size_t i = 0; i < sizeof lives / sizeof *lives; i++) {
		struct life_row row = lives[i];
		char what[32];
		int step;

		snprintf(what, sizeof what, "row %zu", i);
		make_tree();
		step = fake_tree_run(&tree, live, &row);
		fake_tree_expect(&tree, step, "%s: step %d", what, step);
		fake_tree_remove(&tree);
		fake_pci_expect(row.want, what);
	}
}

/* The kernel's enable count. */
static int cannot_enable(void *arg)
{
	struct hr_function f;
	int err;

	fake_pci_set_command(0x0100);
	if (hr_function_open(&f, SSD, test_error()) || unlink(ENABLE))
		return 1;
	err = hr_function_enable(&f, HR_COMMAND_MSE, test_error());
	told(err);
	if (symlink("/dev/full", ENABLE))
		return 2;
	err = hr_function_enable(&f, HR_COMMAND_MSE, test_error());
	told(err);
	hr_function_close(&f);
	if (unlink(ENABLE) || hr_function_open(&f, SSD, test_error()))
		return 3;
	fake_pci_say("%c ", enabled());
	hr_function_close(&f); /* nothing was changed, so nothing is written */
	return access(ENABLE, F_OK) == 0 ? 4 : 0;
}

Test(function_calls, the_kernel_refuses_to_enable, .init = fake_pci_start)
{
	int step;

	make_tree();
	step = fake_tree_run(&tree, cannot_enable, NULL);
	fake_tree_expect(&tree, step, "step %d", step);
	fake_tree_remove(&tree);
	fake_pci_expect(FOUND
			"[-19 3 " SSD ": the kernel does not enable it (No such file or directory)]"
			"\n[-19 3 " SSD ": the kernel does not enable it (No space left on device)"
			"]\nrelease drop -1 drop -1 cleanup " FOUND
			"- release drop -1 drop -1 cleanup ",
			"enable");
}

/* ---- BARs */

Test(function_calls, peers_use_the_largest_prefetchable_bar)
{
	static const struct {
		struct {
			uint64_t size;
			bool prefetchable, io;
		} bar[6];
		unsigned want;
	} row[] = {
		{ .want = 0 },
		{ { [0] = { 1 } }, 0 },
		{ { [1] = { 1 } }, 1 },
		{ { [5] = { 1 } }, 5 },
		{ { [0] = { 64, .io = true }, [2] = { 16 } }, 2 },
		{ { [0] = { 64, .prefetchable = true, .io = true }, [2] = { 16 } }, 2 },
		{ { [0] = { 64 }, [2] = { 16, true } }, 2 },
		{ { [0] = { 16, true }, [2] = { 64 } }, 0 },
		{ { [0] = { 16, true }, [2] = { 64, true }, [4] = { 32, true } }, 2 },
		{ { [0] = { 16 }, [1] = { 32 }, [5] = { 64 } }, 5 },
		{ { [0] = { 16 }, [3] = { 16 } }, 0 }, /* the first of equal ones */
		{ { [1] = { 0, true }, [3] = { 16 } }, 3 },
	};
	struct hr_function f = { .dev = &fake_pci.device[0] };

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		memset(&fake_pci.device[0], 0, sizeof fake_pci.device[0]);
		for (unsigned k = 0; k < 6; k++) {
			fake_pci.device[0].regions[k].size = row[i].bar[k].size;
			fake_pci.device[0].regions[k].is_prefetchable = row[i].bar[k].prefetchable;
			fake_pci.device[0].regions[k].is_IO = row[i].bar[k].io;
		}
		cr_expect_eq(hr_function_peer_bar(&f), row[i].want, "row %zu: %u", i,
			     hr_function_peer_bar(&f));
	}
}

#define MISSING(n)                                                                        \
	"x: BAR" #n                                                                       \
	" is missing or has no address; if the device has it, enable 64-bit BARs (above " \
	"4G decoding) in the firmware"
#define OWNED " (a kernel driver owns it: unbind the driver)"

Test(function_calls, bars_are_mapped_at_their_address, .init = fake_pci_start)
{
	static const struct {
		unsigned bar;
		uint32_t bars[6];
		bool virtual;
		unsigned at; /* read of a BAR that fails */
		int map;     /* errno of the mapping */
		int want;
		uint64_t bus;
		const char *calls, *text;
	} row[] = {
		{ 0,
		  { 0x8000000c, 9 },
		  .bus = 0x980000000,
		  .calls = "read32 10 read32 14 map 1000+100 1 unmap 100 " },
		{ 0,
		  { 0x80000008, 9 },
		  .bus = 0x80000000,
		  .calls = "read32 10 map 1000+100 1 unmap 100 " },
		{ 4,
		  { [4] = 0xc, [5] = 3 },
		  .bus = 0x300000000,
		  .calls = "read32 20 read32 24 map 1004+104 1 unmap 104 " },
		{ 5,
		  { [5] = 0x7000000c },
		  .bus = 0x70000000,
		  .calls = "read32 24 map 1005+105 1 unmap 105 " },
		{ 2,
		  { [1] = 0x10, [3] = 0x10 },
		  .want = -ENXIO,
		  .calls = "read32 18 ",
		  .text = MISSING(2) },
		{ 6, { 0x10 }, .want = -ENXIO, .calls = "", .text = MISSING(6) },
		{ 0,
		  { 0x8000000c, 9 },
		  .at = 1,
		  .want = -ENXIO,
		  .calls = "read32 10 ",
		  .text = MISSING(0) },
		{ 0,
		  { 0x8000000c, 9 },
		  .at = 2,
		  .want = -ENXIO,
		  .calls = "read32 10 read32 14 ",
		  .text = MISSING(0) },
		{ 1, { 0 }, true, .bus = 0x1001, .calls = "map 1001+101 1 unmap 101 " },
		{ 0,
		  { 0x10 },
		  .map = ENOMEM,
		  .want = -ENOMEM,
		  .bus = 0x10,
		  .calls = "read32 10 map 1000+100 1 ",
		  .text = "x: BAR0 of 256 bytes cannot be mapped: Cannot allocate memory" },
		{ 0,
		  { 0x10 },
		  .map = EINVAL,
		  .want = -EBUSY,
		  .bus = 0x10,
		  .calls = "read32 10 map 1000+100 1 ",
		  .text = "x: BAR0 of 256 bytes cannot be mapped: Invalid argument" OWNED },
		{ 0,
		  { 0x10 },
		  .map = EBUSY,
		  .want = -EBUSY,
		  .bus = 0x10,
		  .calls = "read32 10 map 1000+100 1 ",
		  .text = "x: BAR0 of 256 bytes cannot be mapped: Device or resource busy" OWNED },
		{ 0,
		  { 0x10 },
		  .map = EPERM,
		  .want = -EBUSY,
		  .bus = 0x10,
		  .calls = "read32 10 map 1000+100 1 ",
		  .text = "x: BAR0 of 256 bytes cannot be mapped: Operation not permitted" AS_ROOT },
	};
	static const struct hr_bar_map none;

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct hr_function f = { .bdf = "x",
					 .dev = &fake_pci.device[0],
					 .virtual = row[i].virtual };
		struct hr_bar_map map;
		char what[16];

		snprintf(what, sizeof what, "row %zu", i);
		memset(&fake_pci.device[0], 0, sizeof fake_pci.device[0]);
		for (unsigned k = 0; k < 6; k++) {
			fake_pci.device[0].regions[k].base_addr = 0x1000 + k;
			fake_pci.device[0].regions[k].size = 0x100 + k;
		}
		memcpy(fake_pci.config + 0x10, row[i].bars, sizeof row[i].bars);
		fake_pci.failing = row[i].at ? "read32" : row[i].map ? "map" : NULL;
		fake_pci.failing_at = row[i].at ? row[i].at : 1;
		fake_pci.failing_with = row[i].map ? row[i].map : EIO;
		memset(&map, 0xa5, sizeof map);
		cr_expect_eq(hr_function_map(&f, row[i].bar, &map, test_error()), row[i].want, "%s",
			     what);
		cr_expect_str_eq(test_error_text(), row[i].text ? row[i].text : "", "%s", what);
		cr_expect_eq(test_error_kind(), row[i].want ? HR_ERROR_MISSING : HR_ERROR_NONE);
		cr_expect_eq(map.bus, row[i].bus, "%s", what);
		cr_expect_eq(map.cpu != NULL, row[i].want == 0, "%s", what);
		cr_expect_eq(map.bytes, 0x100u + (row[i].bar < 6 ? row[i].bar : 0), "%s", what);
		hr_function_unmap(&f, &map);
		cr_expect(memcmp(&map, &none, sizeof map) == 0, "%s", what);
		fake_pci_expect(row[i].calls, what);
	}
}

Test(function_calls, bars_of_input_and_output_are_no_memory, .init = fake_pci_start)
{
	struct hr_function f = { .bdf = "x", .dev = &fake_pci.device[0] };
	struct hr_bar_map map;

	memset(&fake_pci.device[0], 0, sizeof fake_pci.device[0]);
	fake_pci.device[0].regions[0] = (struct pci_mem_region){ .size = 64, .is_IO = 1 };
	fake_pci.config[0x10] = 1;
	fake_pci.config[0x11] = 0x10;
	cr_expect_eq(hr_function_map(&f, 0, &map, test_error()), -ENXIO);
	cr_expect_str_eq(test_error_text(), "x: BAR0 is an I/O BAR, not memory");
	/* An invalid number is not the first BAR, and a BAR without a size is none. */
	cr_expect_eq(hr_function_map(&f, 6, &map, test_error()), -ENXIO);
	cr_expect_str_eq(test_error_text(), MISSING(6));
	fake_pci.device[0].regions[0] = (struct pci_mem_region){ .base_addr = 0x1000 };
	cr_expect_eq(hr_function_map(&f, 0, &map, test_error()), -ENXIO);
	cr_expect_str_eq(test_error_text(), MISSING(0));
	fake_pci_expect("read32 10 read32 10 ", "calls");
}

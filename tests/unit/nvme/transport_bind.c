/* Drivers of a controller's function, and its registers: the test plays pci/ and nvme/inuse.c. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "config/bytes.h"
#include "nvme/inuse.h"
#include "nvme/transports.h"
#include "nvme/ctrl.h"
#include "tests/harness/error.h"

#define ROWS(a) (sizeof(a) / sizeof((a)[0]))
#define BDF "0000:03:00.0"

TestSuite(transport_bind, .timeout = 60);

static struct {
	int look, unused, bind; /* results of the calls */
	uint32_t class;
	char calls[128];
} fake;

static void say(const char *call, const char *of)
{
	const size_t n = strlen(fake.calls);

	snprintf(fake.calls + n, sizeof fake.calls - n, "%s %s; ", call, of ? of : "(none)");
}

int hr_function_look(const char *address, struct hr_function_state *state, struct hr_error *e)
{
	say("look", address);
	if (fake.look)
		return hr_fail(e, HR_ERROR_MISSING, fake.look, "no function");
	*state = (struct hr_function_state){ .bdf = BDF, .class = fake.class, .driver = "seen" };
	return 0;
}

int hr_controller_unused(const char *bdf, struct hr_error *e)
{
	say("unused", bdf);
	return fake.unused ? hr_fail(e, HR_ERROR_MISSING, fake.unused, "sda is mounted") : 0;
}

int hr_bind(struct hr_binding *b, const struct hr_function_state *state, const char *driver,
	    struct hr_error *e)
{
	cr_expect(hr_is_zero(b, sizeof *b), "nothing was changed before");
	say("bind", driver);
	snprintf(b->bdf, sizeof b->bdf, "%s", state->bdf);
	return fake.bind ? hr_fail(e, HR_ERROR_MISSING, fake.bind, "cannot bind") : 0;
}

Test(transport_bind, only_an_nvme_controller_is_taken)
{
	static const struct {
		int look;
		uint32_t class;
		int want;
		const char *says;
	} row[] = {
		{ 0, HR_CLASS_NVME, 0, "" },
		{ -ENOENT, HR_CLASS_NVME, -ENOENT, "no function" },
		{ 0, 0x030200, -ENODEV,
		  BDF
		  ": is not an NVMe controller: its class is 030200, not 010802; 'headrace topo' "
		  "lists NVMe controllers" },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		struct hr_function_state state;

		memset(&fake, 0, sizeof fake);
		fake.look = row[i].look;
		fake.class = row[i].class;
		cr_expect_eq(hr_nvme_function("3:0.0", &state, test_error()), row[i].want);
		cr_expect_str_eq(test_error_text(), row[i].says, "%s", test_error_text());
		cr_expect_str_eq(fake.calls, "look 3:0.0; ");
	}
}

/* The first rows are without --bind. */
Test(transport_bind, a_driver_is_changed_when_that_is_allowed_and_nothing_uses_the_disk)
{
	static const struct {
		bool allowed;
		const char *has, *wanted; /* drivers; wanted NULL: none */
		int unused, bind, look, want;
		const char *calls, *says;
	} row[] = {
		{ false, "", NULL, 0, 0, 0, 0, "", "" },
		{ false, "vfio-pci", "vfio-pci", 0, 0, 0, 0, "", "" },
		{ false, "nvgrace-gpu-vfio-pci", "vfio-pci", 0, 0, 0, 0, "", "" },
		{ false, "nvme", NULL, 0, 0, 0, -EBUSY, "",
		  BDF ": the kernel driver nvme is bound to it: use --bind, or: echo " BDF
		      " > /sys/bus/pci/drivers/nvme/unbind" },
		{ false, "nvme", "vfio-pci", 0, 0, 0, -EBUSY, "",
		  BDF
		  ": the kernel driver is nvme; it has to be bound to vfio-pci: use --bind, or: "
		  "driverctl set-override " BDF " vfio-pci" },
		{ false, "", "vfio-pci", 0, 0, 0, -EBUSY, "",
		  BDF ": no driver is bound to it; it has to be bound to vfio-pci: use --bind, or: "
		      "driverctl set-override " BDF " vfio-pci" },
		{ true, "vfio-pci", "vfio-pci", 0, 0, 0, 0, "", "" },
		{ true, "nvme", "vfio-pci", 0, 0, 0, 0,
		  "unused " BDF "; bind vfio-pci; look " BDF "; ", "" },
		{ true, "nvme", NULL, 0, 0, 0, 0, "unused " BDF "; bind (none); look " BDF "; ",
		  "" },
		{ true, "", "vfio-pci", 0, 0, 0, 0, "unused " BDF "; bind vfio-pci; look " BDF "; ",
		  "" },
		{ true, "nvme2", NULL, 0, 0, 0, -EBUSY, "",
		  BDF ": the driver nvme2 is bound to it, and the users of that driver cannot be "
		      "listed; end them, then: echo " BDF " > /sys/bus/pci/drivers/nvme2/unbind" },
		{ true, "nvme", NULL, -EACCES, 0, 0, -EACCES, "unused " BDF "; ",
		  BDF ": its disk is in use: sda is mounted" },
		{ true, "nvme", NULL, 0, -ENODEV, 0, -ENODEV, "unused " BDF "; bind (none); ",
		  "cannot bind" },
		{ true, "nvme", NULL, 0, 0, -ENOENT, -ENOENT,
		  "unused " BDF "; bind (none); look " BDF "; ", "no function" },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		struct hr_function_state state = { .bdf = BDF };
		struct hr_binding binding;

		memset(&fake, 0, sizeof fake);
		memset(&binding, 0xff, sizeof binding);
		fake.unused = row[i].unused;
		fake.bind = row[i].bind;
		fake.look = row[i].look;
		snprintf(state.driver, sizeof state.driver, "%s", row[i].has);
		if (row[i].allowed)
			hr_transport_allow_bind();
		cr_expect_eq(hr_nvme_bind(&binding, &state, row[i].wanted, test_error()),
			     row[i].want, "row %zu", i);
		cr_expect_str_eq(fake.calls, row[i].calls, "row %zu: %s", i, fake.calls);
		cr_expect_str_eq(test_error_text(), row[i].says, "row %zu: %s", i,
				 test_error_text());
		cr_expect_str_eq(binding.bdf, strstr(row[i].calls, "bind") ? BDF : "");
		if (row[i].calls[0] && !row[i].want)
			cr_expect_str_eq(state.driver, "seen", "it is looked at again");
	}
}

Test(transport_bind, registers_are_there_when_vs_can_be_read)
{
	static const struct {
		size_t bytes;
		uint32_t vs;
		int want;
		const char *says;
	} row[] = {
		{ 0x2000, 0x10400, 0, "" },
		{ 0x4000, 1, 0, "" },
		{ 0x1fff, 0x10400, -ENODEV,
		  "dev: BAR0 of 8191 bytes has no room for the registers and doorbells of NVMe; look "
		  "at it with lspci -vvs dev: update its firmware, or use another ssd" },
		{ 0x2000, 0, -ENODEV,
		  "dev: VS reads 00000000: the device is gone, asleep, or its bridge does not pass "
		  "memory on; reset it: echo 1 > /sys/bus/pci/devices/dev/reset, or find it again: "
		  "echo 1 > /sys/bus/pci/devices/dev/remove; echo 1 > /sys/bus/pci/rescan" },
		{ 0x2000, UINT32_MAX, -ENODEV,
		  "dev: VS reads ffffffff: the device is gone, asleep, or its bridge does not pass "
		  "memory on; reset it: echo 1 > /sys/bus/pci/devices/dev/reset, or find it again: "
		  "echo 1 > /sys/bus/pci/devices/dev/remove; echo 1 > /sys/bus/pci/rescan" },
	};
	static uint8_t bar[64] __attribute__((aligned(8)));

	for (size_t i = 0; i < ROWS(row); i++) {
		struct hr_transport t = { .name = "dev", .bar = bar, .bar_bytes = row[i].bytes };

		memcpy(bar + NVME_REG_VS, &row[i].vs, sizeof row[i].vs);
		cr_expect_eq(hr_nvme_registers(&t, test_error()), row[i].want, "row %zu", i);
		cr_expect_str_eq(test_error_text(), row[i].says, "row %zu: %s", i,
				 test_error_text());
	}
}

Test(transport_bind, the_access_that_is_wanted_is_kept)
{
	const enum hr_transport_access first = hr_transport_access();

	hr_transport_set_access((enum hr_transport_access)(first + 1));
	cr_expect_eq((int)hr_transport_access(), (int)first + 1);
	hr_transport_set_access(first);
	cr_expect_eq(hr_transport_access(), first);
}

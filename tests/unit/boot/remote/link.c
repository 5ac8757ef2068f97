/* SPDX-License-Identifier: Apache-2.0 */
/* What hr_link_open() and the calls of an owner refuse. */
#include "boot/remote/link.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "boot/remote/internal.h"
#include "tests/harness/link_rig.h"
#include "tests/harness/mapped.h"

#define S HR_LINK_SENDER
#define R HR_LINK_RECEIVER

static struct link_rig rig;
static struct hr_error error;

static void init(void)
{
	link_rig_init(&rig);
}

static void fini(void)
{
	link_rig_fini(&rig);
}

TestSuite(link, .init = init, .fini = fini, .timeout = 300);

static int try_open(enum hr_link_side side)
{
	struct hr_link *link = NULL;
	int err;

	hr_error_clear(&error);
	err = hr_link_open(&link, &rig.setup[side], &error);
	if (!err)
		hr_link_close(link);
	return err;
}

Test(link, setups_out_of_range_are_refused)
{
	const struct hr_link_setup good = rig.setup[R];
	struct hr_link_setup *s = &rig.setup[R];

#define REFUSED(change)                                            \
	do {                                                       \
		*s = good;                                         \
		change;                                            \
		cr_expect_eq(try_open(R), -EINVAL, #change);       \
		cr_expect_eq(error.kind, HR_ERROR_USAGE, #change); \
	} while (0)
	REFUSED(s->memory.slots = 0);
	REFUSED(s->memory.slots = HR_LINK_SLOTS_MAX + 1);
	REFUSED(s->memory.bytes = RIG_SLOTS * RIG_STRIDE - 1);
	REFUSED(s->memory.stride = RIG_TILE - 1);
	REFUSED(s->memory.base = NULL);
	REFUSED(s->memory.dmabuf = 0); /* without functions that access it */
	REFUSED(s->tile_bytes = 0);
	REFUSED(s->tile_bytes = HR_TILE_MAX + 1);
	REFUSED(s->tiles = 0);
	REFUSED(s->depth = HR_LINK_SLOTS_MAX + 1);
	REFUSED(s->name = "");
	REFUSED(s->name = "a-name-that-is-longer-than-any-name-in-a-configuration-may-be-at-all");
	REFUSED(s->address = "127.0.0.1");
	REFUSED(s->address = "127.0.0.1:");
	REFUSED(s->address = "127.0.0.1:65536");
	REFUSED(s->address = "127.0.0.1:-1");
	REFUSED(s->address = "0.0.0.0:7000");
	REFUSED(s->address = "host:7000");
	REFUSED(s->address = "127.0.0.1.2.3.4.5.6.7:7000");
	*s = good;
	cr_expect_eq(try_open(R), 0);
}

Test(link, an_address_of_another_machine_cannot_be_listened_at)
{
	setenv("FAKE_IBVERBS_DEVICES", "fake0=192.0.2.1", 1);
	rig.setup[R].address = "192.0.2.1:7000";
	cr_expect_eq(try_open(R), -EADDRNOTAVAIL, "%s", error.text);
	cr_expect_eq(error.kind, HR_ERROR_MISSING);
}

Test(link, a_port_in_use_is_named)
{
	link_rig_open(&rig, R);
	rig.setup[R].address = rig.address;
	cr_expect_eq(try_open(R), -EADDRINUSE);
	cr_expect(strstr(error.text, "Address already in use"), "%s", error.text);
}

Test(link, without_the_address_there_is_no_device)
{
	setenv("FAKE_IBVERBS_DEVICES", "fake0=192.0.2.1", 1);
	cr_expect_eq(try_open(R), -ENODEV);
	cr_expect_str_eq(error.text, "no RDMA device has the address 127.0.0.1 (RoCE v2); there "
				     "are: fake0");
	cr_expect_eq(error.kind, HR_ERROR_MISSING);
}

Test(link, a_machine_without_devices_says_so)
{
	setenv("FAKE_IBVERBS_DEVICES", "", 1);
	cr_expect_eq(try_open(R), -ENODEV);
	cr_expect_str_eq(error.text, "this machine has no RDMA device");
}

Test(link, calls_out_of_range_are_refused)
{
	struct hr_link *s, *r;

	rig.setup[R].tiles = 10000;
	rig.setup[S].tiles = 9999;
	link_rig_up(&rig);
	s = rig.link[S];
	r = rig.link[R];
	cr_expect_eq(hr_link_offer(s, 0, 0), -EINVAL);
	cr_expect_eq(hr_link_offer(r, RIG_SLOTS, 0), -EINVAL);
	cr_expect_eq(hr_link_offer(r, 0, 10000), -EINVAL);
	cr_expect_eq(hr_link_offer(r, 0, 4096), -ERANGE);
	cr_expect_eq(hr_link_offer(r, 0, 4095), 0);
	cr_expect_eq(hr_link_offer(r, 0, 1), -EALREADY);
	cr_expect_eq(hr_link_offer(r, 1, 4095), -EALREADY);
	cr_expect_eq(hr_link_send(r, 0, 0, 1), -EINVAL);
	cr_expect_eq(hr_link_send(s, RIG_SLOTS, 0, 1), -EINVAL);
	cr_expect_eq(hr_link_send(s, 0, 9999, 1), -EINVAL);
	cr_expect_eq(hr_link_send(s, 0, 0, 0), -EINVAL);
	cr_expect_eq(hr_link_send(s, 0, 0, RIG_TILE + 1), -EINVAL);
	cr_expect_eq(hr_link_send(s, 0, 0, 1), -EAGAIN);
	hr_link_set_durable(r, 5);
	cr_expect_eq(hr_link_offer(r, 2, 4), -EALREADY);
}

Test(link, no_more_than_depth_tiles_are_in_flight)
{
	link_rig_up(&rig);
	for (uint32_t t = 0; t < RIG_SLOTS; t++)
		cr_assert_eq(hr_link_offer(rig.link[R], t, t), 0);
	for (uint32_t t = 0; t < RIG_SLOTS; t++)
		link_rig_until(&rig, S, HR_LINK_OFFERED);
	for (uint32_t t = 0; t < RIG_SLOTS; t++)
		cr_expect_eq(hr_link_send(rig.link[S], t, t, 10), t < 4 ? 0 : -EAGAIN);
	cr_expect_eq(hr_link_send(rig.link[S], 0, 5, 10), -EINVAL); /* the slot is in flight */
}

static int flushes;

static int flush(void *to)
{
	*(int *)to += 1;
	return flushes > 1 ? -EIO : 0;
}

Test(link, writes_to_gpu_memory_are_flushed_before_a_tile_is_an_event)
{
	rig.setup[R].memory.flush = flush;
	rig.setup[R].memory.to = &flushes;
	link_rig_up(&rig);
	for (uint32_t t = 0; t < 2; t++) {
		cr_assert_eq(hr_link_offer(rig.link[R], t, t), 0);
		link_rig_until(&rig, S, HR_LINK_OFFERED);
		cr_assert_eq(hr_link_send(rig.link[S], t, t, 10), 0);
		if (t == 0)
			link_rig_until(&rig, R, HR_LINK_RECEIVED);
	}
	cr_expect_str_eq(link_rig_until(&rig, R, HR_LINK_DOWN).text,
			 "cannot flush writes to GPU memory: Input/output error");
	cr_expect_geq(hr_link_read_counters(rig.link[R]).flushes, 2);
}

Test(link, the_descriptor_is_readable_when_a_step_has_work)
{
	struct pollfd wait = { .events = POLLIN };

	link_rig_up(&rig);
	link_rig_until(&rig, S, HR_LINK_UP);
	link_rig_idle(&rig, 100);
	wait.fd = hr_link_fd(rig.link[S]);
	while (link_rig_step(&rig, S))
		;
	cr_expect_eq(poll(&wait, 1, 0), 0);
	cr_assert_eq(hr_link_offer(rig.link[R], 0, 0), 0);
	link_rig_step(&rig, R);
	cr_expect_eq(poll(&wait, 1, 60000), 1);
	link_rig_until(&rig, S, HR_LINK_OFFERED);
}

Test(link, it_describes_itself)
{
	char want[128];

	link_rig_up(&rig);
	snprintf(want, sizeof(want), "fake0 port 1, 127.0.0.1 -> %s, flow", rig.address);
	cr_expect_str_eq(hr_link_describe(rig.link[S]), want);
	link_rig_close(&rig, R);
	link_rig_until(&rig, S, HR_LINK_DOWN);
	cr_expect(strstr(hr_link_describe(rig.link[S]), "no device port 0, 127.0.0.1"));
}

Test(link, the_key_is_no_part_of_a_core_dump)
{
	link_rig_open(&rig, R);
	cr_expect_not(is_dumped(rig.link[R]->key));
	cr_expect_not(is_dumped(&rig.link[R]->tcp));
}

/*
 * The transport of controllers through VFIO: the order of its calls when all succeed, and when each
 * of them fails. The test plays nvme/vfio.h, the binding of drivers and the look at the function.
 */
#include "nvme/transport_vfio.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "config/bytes.h"
#include "nvme/transports.h"
#include "nvme/vfio.h"
#include "tests/harness/error.h"
#include "tests/harness/heap.h"

#define BDF "0000:41:00.0"

TestSuite(transport_vfio, .timeout = 60);

static char calls[256];
static int fails_at, call_number;
static uint8_t registers[64];

/* Note a call; the one with the number fails_at fails. */
static int note(struct hr_error *e, const char *what)
{
	const size_t n = strlen(calls);

	snprintf(calls + n, sizeof calls - n, "%s; ", what);
	return ++call_number == fails_at ? hr_fail(e, HR_ERROR_MISSING, -EXDEV, "no %s", what) : 0;
}

int hr_nvme_function(const char *address, struct hr_function_state *state, struct hr_error *e)
{
	cr_expect_str_eq(address, "41:0.0");
	*state = (struct hr_function_state){ .bdf = BDF, .group = 7 };
	return note(e, "look");
}

int hr_vfio_possible(const struct hr_function_state *state, struct hr_error *e)
{
	cr_expect_eq(state->group, 7);
	return note(e, "possible");
}

int hr_nvme_bind(struct hr_binding *binding, struct hr_function_state *state, const char *driver,
		 struct hr_error *e)
{
	cr_expect_str_eq(driver, "vfio-pci");
	cr_expect_str_eq(state->bdf, BDF);
	cr_expect(hr_is_zero(binding, sizeof *binding));
	snprintf(binding->bdf, sizeof binding->bdf, "%s", state->bdf);
	return note(e, "bind");
}

void hr_bind_undo(struct hr_binding *b)
{
	note(NULL, b->bdf[0] ? "undo" : "undo nothing");
}

int hr_vfio_device_open(struct hr_vfio_device *d, const struct hr_function_state *state,
			struct hr_error *e)
{
	cr_expect_str_eq(state->bdf, BDF);
	cr_expect(hr_is_zero(d, sizeof *d));
	d->fd = 5;
	return note(e, "open");
}

void hr_vfio_device_close(struct hr_vfio_device *d)
{
	note(NULL, d->fd == 5 ? "close" : "close nothing");
}

int hr_vfio_device_enable(struct hr_vfio_device *d, uint16_t bits, struct hr_error *e)
{
	cr_expect_eq(d->fd, 5);
	return note(e, bits == HR_COMMAND_MSE ? "memory" : bits == HR_COMMAND_BME ? "master" : "?");
}

int hr_vfio_device_stop_dma(struct hr_vfio_device *d)
{
	cr_expect_eq(d->fd, 5);
	return note(NULL, "silence");
}

int hr_vfio_device_map(struct hr_vfio_device *d, unsigned bar, struct hr_bar_map *map,
		       struct hr_error *e)
{
	cr_expect(d->fd == 5 && bar == 0 && hr_is_zero(map, sizeof *map));
	map->cpu = registers;
	map->bytes = 0x5000;
	return note(e, "map");
}

void hr_vfio_device_unmap(struct hr_bar_map *map)
{
	note(NULL, map->cpu ? "unmap" : "unmap nothing");
}

int hr_nvme_registers(const struct hr_transport *t, struct hr_error *e)
{
	cr_expect_str_eq(t->name, BDF);
	cr_expect(t->bar == registers && t->bar_bytes == 0x5000);
	return note(e, "registers");
}

static const struct hr_region *seen;

int hr_vfio_map(const struct hr_region *region, struct hr_error *e)
{
	seen = region;
	return note(e, "window");
}

void hr_vfio_unmap(const struct hr_region *region)
{
	seen = region;
	note(NULL, "no window");
}

static int open_failing(struct hr_transport *t, int at)
{
	calls[0] = '\0';
	call_number = 0;
	fails_at = at;
	return hr_vfio_open(t, "41:0.0", test_error());
}

#define TAKEN "look; possible; bind; open; memory; map; registers; master; "
#define GIVEN "unmap; close; undo; "

Test(transport_vfio, a_controller_is_taken_and_given_back_in_this_order)
{
	const struct hr_region region = { .name = "r" };
	struct hr_transport t;

	memset(&t, 0xee, sizeof t);
	cr_assert_eq(open_failing(&t, 0), 0, "%s", test_error_text());
	cr_expect_str_eq(calls, TAKEN, "%s", calls);
	cr_expect_eq(t.kind, HR_TRANSPORT_VFIO);
	cr_expect_str_eq(t.name, BDF);
	cr_expect(t.bar == registers && t.bar_bytes == 0x5000);
	cr_expect(!t.bar_is_memory && !t.keeps_no_data);
	cr_expect_null(t.ops->rest);
	calls[0] = '\0';
	cr_expect_eq(t.ops->map(&t, &region, test_error()), 0);
	cr_expect_eq(seen, &region);
	seen = NULL;
	t.ops->unmap(&t, &region);
	cr_expect_eq(seen, &region);
	fails_at = call_number + 1;
	cr_expect_eq(t.ops->map(&t, &region, test_error()), -EXDEV);
	cr_expect_str_eq(test_error_text(), "no window");
	cr_expect_eq(t.ops->silence(&t, true), 0);
	cr_expect_str_eq(calls, "window; no window; window; silence; ");
	calls[0] = '\0';
	t.ops->close(&t);
	cr_expect_str_eq(calls, GIVEN, "%s", calls);
	cr_expect(hr_is_zero(&t, sizeof t));
}

Test(transport_vfio, a_failure_gives_back_what_was_taken)
{
	static const char *const want[] = {
		"look; ",
		"look; possible; unmap nothing; close nothing; undo nothing; ",
		"look; possible; bind; unmap nothing; close nothing; undo; ",
		"look; possible; bind; open; unmap nothing; close; undo; ",
		"look; possible; bind; open; memory; unmap nothing; close; undo; ",
		"look; possible; bind; open; memory; map; " GIVEN,
		"look; possible; bind; open; memory; map; registers; " GIVEN,
		TAKEN GIVEN,
	};
	static const char *const call[] = { "look",   "possible", "bind",      "open",
					    "memory", "map",	  "registers", "master" };

	for (int at = 1; at <= 8; at++) {
		struct hr_transport t;
		char text[32];

		memset(&t, 0xee, sizeof t);
		cr_expect_eq(open_failing(&t, at), -EXDEV, "call %d", at);
		snprintf(text, sizeof text, "no %s", call[at - 1]);
		cr_expect_str_eq(test_error_text(), text);
		cr_expect_str_eq(calls, want[at - 1], "call %d: %s", at, calls);
		cr_expect(at == 1 || hr_is_zero(&t, sizeof t), "call %d", at);
	}
}

static void once(void)
{
	struct hr_transport t;

	cr_assert_eq(open_failing(&t, 0), 0);
	t.ops->close(&t);
	cr_assert_neq(open_failing(&t, 8), 0);
}

Test(transport_vfio, its_memory_is_given_back)
{
	cr_expect_eq(heap_kept_by(once), 0u);
}

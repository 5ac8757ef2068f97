/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/harness/box.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "boot/cmd/topo/common.h"
#include "pci/topo/fields.h"

#define GPU_SPACE (1ull << 38) /* addresses of one switch */
#define GPU_BYTES_LOG2 34u

static void address(char *text, unsigned bus, unsigned dev)
{
	snprintf(text, 16, "%02x:%02x.0", bus, dev);
}

static unsigned first_bus(unsigned on_switch, unsigned cards)
{
	return 1 + on_switch * (cards + 2);
}

static void add_card(struct fake_machine *m, unsigned bus, unsigned at, bool gpu, uint32_t mem,
		     uint64_t pref)
{
	const uint64_t bar = pref + ((uint64_t)at << GPU_BYTES_LOG2);
	const uint32_t registers = mem + (at << 20);
	struct fake_fn *f;
	char text[16];

	address(text, bus + 1, at);
	f = fake_bridge(m, text, 0x10b5, 0x8796, HR_PORT_DOWNSTREAM, bus + 2 + at, bus + 2 + at);
	fake_windows(f, registers, registers + 0xfffff, gpu ? bar : 0xfff00000,
		     gpu ? bar + (1ull << GPU_BYTES_LOG2) - 1 : 0);
	fake_put(f, FAKE_EXP + HR_EXP_LNKCAP + 3, 1, at);
	address(text, bus + 2 + at, 0);
	if (gpu) {
		f = fake_gpu(m, text, bar, GPU_BYTES_LOG2);
		fake_put(f, HR_CFG_BAR0, 4, registers);
	} else {
		fake_nvme(m, text, registers);
	}
}

void fake_box(struct fake_machine *m, unsigned switches, unsigned gpus, unsigned ssds)
{
	const unsigned cards = gpus + ssds;
	struct fake_fn *f;
	char text[16];

	memset(m, 0, sizeof *m);
	fake_function(m, "00:00.0", 0x060000, 0x8086, 0x1234, HR_PORT_RC_ENDPOINT);
	for (unsigned i = 0; i < switches; i++) {
		const unsigned bus = first_bus(i, cards);
		const uint32_t mem = 0x90000000u + i * 0x2000000u;
		const uint64_t pref = (i + 1) * GPU_SPACE;

		address(text, 0, i + 1);
		f = fake_bridge(m, text, 0x8086, 0x1901, HR_PORT_ROOT, bus, bus + 1 + cards);
		fake_windows(f, mem, mem + 0x1ffffff, pref, pref + GPU_SPACE - 1);
		address(text, bus, 0);
		f = fake_bridge(m, text, 0x10b5, 0x8796, HR_PORT_UPSTREAM, bus + 1,
				bus + 1 + cards);
		fake_windows(f, mem, mem + 0x1ffffff, pref, pref + GPU_SPACE - 1);
		for (unsigned at = 0; at < cards; at++)
			add_card(m, bus, at, at < gpus, mem, pref);
	}
}

static struct fake_fn *of_switch(struct fake_machine *m, unsigned on_switch, unsigned at,
				 unsigned beyond)
{
	unsigned seen = 0;

	for (unsigned i = 0; i < m->count; i++) {
		const uint32_t port = fake_get(&m->fn[i], FAKE_EXP + HR_EXP_FLAGS, 2) >> 4 & 15;

		if (port == HR_PORT_UPSTREAM && seen++ == on_switch)
			return &m->fn[i + 1 + 2 * at + beyond];
	}
	abort();
}

struct fake_fn *fake_box_card(struct fake_machine *m, unsigned on_switch, unsigned at)
{
	return of_switch(m, on_switch, at, 1);
}

struct fake_fn *fake_box_port(struct fake_machine *m, unsigned on_switch, unsigned at)
{
	return of_switch(m, on_switch, at, 0);
}

void fake_box_evaluate(const struct fake_machine *m, struct hr_topo *t)
{
	if (!t->model.memory)
		cr_assert_eq(hr_model_init(&t->model), 0);
	cr_assert_eq(fake_load(m, &t->model), 0, "%s", t->model.error.text);
	cr_assert_eq(hr_topo_evaluate(t, &t->topology, &t->model), 0);
}

char *fake_box_print(struct hr_topo *t, void (*view)(struct hr_topo *t))
{
	char *text = NULL;
	size_t size;

	t->out = open_memstream(&text, &size);
	cr_assert_not_null(t->out);
	view(t);
	cr_assert_eq(fclose(t->out), 0);
	return text;
}

/* Evaluation: assumed controls, first functions of root buses, memory that runs out. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "pci/topo/fields.h"
#include "pci/topo/slots.h"
#include "tests/harness/evaluate.h"
#include "tests/harness/evaluated.h"

TestSuite(topo_edges, .init = fake_evaluate_up, .fini = fake_evaluate_down, .timeout = 60);

#define ROWS(table) (sizeof(table) / sizeof(*(table)))

static void load(const struct hr_options *opt)
{
	cr_assert_eq(fake_load(&machine, &model), 0, "%s", model.error.text);
	cr_assert_eq(hr_topology_init(&topology, &model, opt), 0);
}

/* A redirect that depends on a value which a what-if assumes. */
Test(topo_edges, an_assumed_control_is_told_of_its_pairs)
{
	static const char *const port[] = { "02:00.0", "02:01.0", "01:00.0", "00:01.0" };
	struct hr_pair p;

	for (size_t i = 0; i < ROWS(port); i++) {
		fake_two_ports(&machine);
		cr_assert_eq(fake_load(&machine, &model), 0);
		model.fn[fake_at(port[i])].acs_assumed = true;
		cr_assert_eq(hr_topology_init(&topology, &model, &(struct hr_options){ 0 }), 0);
		hr_pair_evaluate(&topology, fake_at(GPU), fake_at(SIBLING), &p);
		cr_expect_eq(p.acs_assumed, i < 3, "%s", port[i]);
		hr_pair_evaluate(&topology, fake_at(GPU), fake_at(OTHER), &p);
		cr_expect_eq(p.acs_assumed, i != 1, "%s", port[i]);
	}
}

Test(topo_edges, a_root_bus_is_known_by_its_first_function)
{
	static const struct {
		const char *at;
		uint32_t type;
		uint16_t device;
		bool zero; /* there is a 00:00.0 */
		const char *want;
	} row[] = {
		{ "00:00.0", HR_PORT_RC_ENDPOINT, 0x2030, false, " root0=2" },
		{ "00:00.0", HR_PORT_RC_ENDPOINT, 0x3c00, false, " root0=1" },
		{ "00:00.0", HR_PORT_RC_ENDPOINT, 0x1234, false, " root0=0" },
		{ "00:00.0", HR_PORT_ROOT, 0x2030, false, " root0=2" },
		{ "00:00.1", HR_PORT_RC_ENDPOINT, 0x2030, false, " root0=0?" },
		{ "00:00.1", HR_PORT_ROOT, 0x2030, false, " root0=2" },
		{ "00:01.0", HR_PORT_RC_ENDPOINT, 0x2030, false, " root0=0?" },
		{ "00:01.0", HR_PORT_ROOT, 0x2030, false, " root0=2" },
		{ "00:01.0", HR_PORT_ROOT, 0x1234, false, " root0=0?" },
		{ "80:00.0", HR_PORT_RC_ENDPOINT, 0x2030, true, " root0=0 root1=2" },
		{ "80:00.0", HR_PORT_RC_ENDPOINT, 0x1234, true, " root0=0 root1=0" },
		{ "80:01.0", HR_PORT_ROOT, 0x1234, true, " root0=0 root1=0" },
		{ "80:01.0", HR_PORT_ROOT, 0x1234, false, " root0=0?" },
		{ "80:00.1", HR_PORT_ROOT, 0x1234, false, " root0=0?" },
		{ "80:00.0", HR_PORT_ROOT, 0x1234, false, " root0=0" },
		{ "0001:00:01.0", HR_PORT_ROOT, 0x1234, true, " root0=0 root1=0?" },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		memset(&machine, 0, sizeof machine);
		if (row[i].zero)
			fake_function(&machine, "00:00.0", 0x060000, 0x8086, 0x1234,
				      HR_PORT_RC_ENDPOINT);
		fake_function(&machine, row[i].at, 0x060000, 0x8086, row[i].device, row[i].type);
		load(&(struct hr_options){ 0 });
		cr_expect_str_eq(strstr(fake_evaluated_machine(), " root0"), row[i].want,
				 "row %zu: %s", i, fake_evaluated_machine());
	}
}

/* The bridge above one of both is missing from the capture. */
Test(topo_edges, one_end_that_is_cut_off_cuts_the_pair)
{
	struct hr_pair p;

	fake_nvme(&machine, "40:00.0", 0xe4800000);
	load(&(struct hr_options){ 0 });
	for (unsigned swap = 0; swap < 2; swap++) {
		hr_pair_evaluate(&topology, fake_at(swap ? "40:00.0" : GPU),
				 fake_at(swap ? GPU : "40:00.0"), &p);
		cr_expect(p.cut);
		cr_expect_eq(p.common, HR_NO_FN);
		cr_expect_eq(p.climbs | p.redirected | p.up, 0);
		cr_expect_eq(p.kernel, HR_KERNEL_UNKNOWN);
		cr_expect_eq(p.verdict, HR_UNKNOWN);
		hr_pair_evaluate(&topology, fake_at(GPU), fake_at(OTHER), &p);
		cr_expect_not(p.cut);
	}
}

Test(topo_edges, functions_below_a_bridge_are_listed_from_the_endpoint_on)
{
	int32_t list[4] = { -7, -7, -7, -7 };

	load(&(struct hr_options){ 0 });
	cr_expect_eq(hr_functions_below(&model, fake_at(GPU), fake_at("01:00.0"), list, 4), 2u);
	cr_expect_eq(list[0], fake_at(GPU));
	cr_expect_eq(list[1], fake_at("02:00.0"));
	cr_expect_eq(list[2], -7);
	cr_expect_eq(hr_functions_below(&model, fake_at(GPU), HR_NO_FN, list, 4), 4u);
	cr_expect_eq(list[2], fake_at("01:00.0"));
	cr_expect_eq(list[3], fake_at("00:01.0"));
	list[2] = -7;
	cr_expect_eq(hr_functions_below(&model, fake_at(GPU), HR_NO_FN, list, 2), 2u);
	cr_expect_eq(list[2], -7);
	cr_expect_eq(hr_functions_below(&model, fake_at(GPU), fake_at(GPU), list, 4), 0u);
	cr_expect_eq(hr_functions_below(&model, fake_at(OTHER), fake_at(GPU), list, 4), 2u);
}

/* Each allocation fails once, the last one first. */
Test(topo_edges, without_memory_nothing_is_evaluated)
{
	const struct hr_options opt = { .mode = HR_MODE_VFIO };
	const size_t reserved = model.reserved;
	size_t used, enough;

	load(&opt);
	used = model.used;
	cr_assert_eq(hr_topology_init(&topology, &model, &opt), 0);
	enough = model.used;
	for (model.reserved = used; model.reserved < enough; model.reserved += 8) {
		model.used = used;
		cr_expect_eq(hr_topology_init(&topology, &model, &opt), -ENOMEM, "%zu bytes",
			     model.reserved - used);
	}
	model.used = used;
	cr_expect_eq(hr_topology_init(&topology, &model, &opt), 0);
	model.reserved = reserved;
}

Test(topo_edges, each_rule_is_tried_on_what_it_is_about)
{
	uint32_t on_fn = 0, on_pair = 0, on_machine = 0;

	load(&(struct hr_options){ 0 });
	for (uint32_t i = 0; i < hr_rules_count; i++) {
		const struct hr_rule *r = &hr_rules[i];

		if (on_pair < topology.pair_rules && topology.pair_rule[on_pair] == i) {
			cr_expect_not_null(r->on_pair, "%s", r->id);
			on_pair++;
		}
		if (r->on_pair)
			continue;
		if (r->scope == HR_ON_MACHINE)
			cr_expect_eq(topology.machine_rule[on_machine++], i, "%s", r->id);
		else
			cr_expect_eq(topology.fn_rule[on_fn++], i, "%s", r->id);
	}
	cr_expect_eq(topology.fn_rules, on_fn, "%u and not %u", topology.fn_rules, on_fn);
	cr_expect_eq(topology.pair_rules, on_pair);
	cr_expect_eq(topology.machine_rules, on_machine);
}

/* The low byte of the control word; what-if values are not in registers. */
Test(topo_edges, the_kernel_reads_another_word_of_wide_registers_only)
{
	static const struct {
		uint32_t id; /* of the port */
		uint32_t bytes;
		bool want;
	} row[] = {
		{ 0x9d108086, 4096, true },
		{ 0x9d108086, FAKE_ACS + HR_ACS_CTL + 2, true },
		{ 0x9d108086, FAKE_ACS + HR_ACS_CTL + 1, false }, /* half of the word */
		{ 0x879610b5, 4096, false },
	};

	for (size_t i = 0; i < ROWS(row); i++) {
		struct hr_fn *f;

		fake_two_ports(&machine);
		fake_put(fake_find(&machine, "02:00.0"), HR_CFG_VENDOR, 4, row[i].id);
		fake_put(fake_find(&machine, "02:00.0"), ACS, 2, HR_ACS_RR);
		cr_assert_eq(fake_load(&machine, &model), 0);
		f = &model.fn[fake_at("02:00.0")];
		f->config_bytes = row[i].bytes;
		hr_fn_set(f, HR_F_ACS_CTL, 0, HR_SRC_USER);
		cr_assert_eq(hr_topology_init(&topology, &model, &(struct hr_options){ 0 }), 0);
		cr_expect_not(topology.derived[f - model.fn].redirect, "row %zu", i);
		cr_expect_eq(topology.derived[f - model.fn].kernel_redirect, row[i].want, "row %zu",
			     i);
	}
}

Test(topo_edges, payloads_that_are_not_known_are_counted_up_to_the_root)
{
	static const struct {
		const char *at;
		uint32_t want;
	} row[] = { { "00:01.0", 0 }, { "01:00.0", 1 }, { "02:00.0", 2 }, { GPU, 2 },
		    { "02:01.0", 1 }, { SIBLING, 1 },	{ OTHER, 0 } };

	cr_assert_eq(fake_load(&machine, &model), 0);
	model.fn[fake_at("01:00.0")].fact[HR_F_MPS].source = HR_SRC_NONE;
	model.fn[fake_at("02:00.0")].fact[HR_F_MPS].source = HR_SRC_NONE;
	cr_assert_eq(hr_topology_init(&topology, &model, &(struct hr_options){ 0 }), 0);
	for (size_t i = 0; i < ROWS(row); i++)
		cr_expect_eq(topology.derived[fake_at(row[i].at)].mps_missing, row[i].want, "%s",
			     row[i].at);
}

/* The common bridge redirects no flow of this pair, but the kernel refuses the pair. */
Test(topo_edges, a_refused_pair_below_an_unread_root_has_the_rule_of_that_root)
{
	struct hr_pair p;

	machine.count--; /* without the host bridge */
	memmove(machine.fn, machine.fn + 1, machine.count * sizeof *machine.fn);
	fake_put(fake_find(&machine, "01:00.0"), ACS, 2, HR_ACS_RR);
	fake_evaluate(SIBLING, &(struct hr_options){ 0 }, &p);
	cr_expect(p.any_redirect);
	cr_expect(p.root_unread);
	for (unsigned i = 0; i < HR_FLOWS; i++)
		cr_expect_eq(p.flow[i], HR_DIRECT);
	cr_expect_eq(p.verdict, HR_UNKNOWN);
	cr_expect_str_eq(hr_rules[p.rule].id, "U8", "%s", hr_rules[p.rule].id);
}

Test(topo_edges, free_slots_need_two_lists_of_all_functions)
{
	const size_t reserved = model.reserved;
	size_t used, list;

	load(&(struct hr_options){ 0 });
	used = model.used;
	list = (model.count * sizeof *topology.free_first + 7) & ~(size_t)7;
	for (size_t bytes = 0; bytes < 2 * list; bytes += 8) {
		model.used = used;
		model.reserved = used + bytes;
		cr_expect_eq(hr_pci_slots_find(&topology, &model), -ENOMEM, "%zu bytes", bytes);
	}
	model.used = used;
	model.reserved = reserved;
	memset(model.memory + used, 0x55, 4 * list);
	cr_expect_eq(hr_pci_slots_find(&topology, &model), 0);
	cr_expect_geq((char *)topology.free_next, (char *)topology.free_first + list);
	cr_expect_geq((char *)model.memory + model.used, (char *)topology.free_next + list);
	for (size_t i = 0; i < 2 * list; i++)
		cr_expect_eq(((char *)model.memory)[used + 2 * list + i], 0x55, "byte %zu", i);
}

/* Free ports below the GPU's switch; the text of each length is the begin of the whole. */
Test(topo_edges, free_slots_are_named_and_counted)
{
	static const char *const want[] = {
		"",
		"; free slots of the GPU's switch: 0000:02:02.0",
		"; free slots of the GPU's switch: 0000:02:02.0 0000:02:03.0",
		"; free slots of the GPU's switch: 0000:02:02.0 0000:02:03.0 0000:02:04.0",
		"; free slots of the GPU's switch: 0000:02:02.0 0000:02:03.0 0000:02:04.0 "
		"0000:02:05.0",
		"; free slots of the GPU's switch: 0000:02:02.0 0000:02:03.0 0000:02:04.0 "
		"0000:02:05.0 and 1 more",
		"; free slots of the GPU's switch: 0000:02:02.0 0000:02:03.0 0000:02:04.0 "
		"0000:02:05.0 and 2 more",
	};

	for (unsigned ports = 0; ports < ROWS(want); ports++) {
		char text[160], address[16];

		fake_two_ports(&machine);
		for (unsigned i = 0; i < ports; i++) {
			snprintf(address, sizeof address, "02:%02x.0", 2 + i);
			fake_slot(fake_bridge(&machine, address, 0x10b5, 0x8796, HR_PORT_DOWNSTREAM,
					      0x20 + i, 0x20 + i));
		}
		load(&(struct hr_options){ 0 });
		text[0] = '\0';
		hr_pci_slots_text(&topology, fake_at(OTHER), fake_at(GPU), "SSD", text,
				  sizeof text);
		cr_expect_str_eq(text, "", "it is behind no switch");
		for (size_t capacity = sizeof text; capacity > 0; capacity--) {
			const size_t whole = strlen(want[ports]);
			size_t used;

			memset(text, 0, sizeof text);
			used = hr_pci_slots_text(&topology, fake_at(GPU), fake_at(OTHER), "GPU",
						 text, capacity);
			cr_expect_eq(used, whole < capacity ? whole : capacity - 1, "%u, %zu: %zu",
				     ports, capacity, used);
			cr_expect_eq(strlen(text), used, "%u, %zu: %s", ports, capacity, text);
			cr_expect_eq(strncmp(text, want[ports], used), 0, "%u, %zu: %s", ports,
				     capacity, text);
		}
	}
}

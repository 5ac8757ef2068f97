/* Rates of pairs alone and together, and the plan derived from them. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "pci/topo/change.h"
#include "tests/harness/rates_rig.h"

TestSuite(topo_rates, .init = fake_evaluate_up, .fini = fake_evaluate_down, .timeout = 60);

static void set_acs(const char *address, uint32_t value)
{
	fake_put(fake_find(&machine, address), ACS, 2, value);
}

Test(topo_rates, link_rates_follow_the_line_code)
{
	cr_expect(near(hr_link_gbs(1, 4), 1.0));
	cr_expect(near(hr_link_gbs(3, 4), 3.938));
	cr_expect(near(hr_link_gbs(4, 4), 7.877));
	cr_expect(near(hr_link_gbs(5, 16), 63.015));
	cr_expect(near(hr_link_gbs(6, 1), 7.375));
	cr_expect_eq(hr_link_gbs(9, 4), 0.0);
	cr_expect(near(hr_tlp_efficiency(256, HR_TO_GPU), 0.914));
	cr_expect(near(hr_tlp_efficiency(256, HR_FROM_GPU), 0.9275));
}

Test(topo_rates, one_pair_is_limited_by_its_narrowest_edge)
{
	uint32_t edge;
	double direct, through;
	char text[96];

	load();
	direct = rate("04:00.0", HR_TO_GPU, &edge);
	cr_expect(near(direct, 7.877 * 256 / 280 * 0.965), "%f", direct);
	cr_expect_eq(edge, 2u * (uint32_t)fake_at("04:00.0"), "the SSD's link, up");
	cr_expect(strstr(hr_edge_text(&topology, edge, text), "04:00.0 up") != NULL, "%s", text);
	rate("04:00.0", HR_FROM_GPU, &edge);
	cr_expect_eq(edge, 2u * (uint32_t)fake_at("04:00.0") + 1, "the SSD's link, down");
	through = rate("05:00.0", HR_TO_GPU, &edge);
	cr_expect(near(through, 7.877 * 64 / 88 * 0.965), "%f: Intel, in cache lines", through);
	fake_put(fake_find(&machine, "00:00.0"), HR_CFG_VENDOR, 4, 0x14801022);
	load();
	through = rate("05:00.0", HR_TO_GPU, &edge);
	cr_expect_eq(through, direct);
	/* A blocked pair has rate 0. */
	fake_put(fake_find(&machine, "03:00.0"), HR_CFG_COMMAND, 2, HR_COMMAND_BME);
	load();
	cr_expect_eq(rate("04:00.0", HR_TO_GPU, &edge), 0.0);
}

/*
 * Two wide SSDs and one GPU: direct flows share the GPU's link, redirected flows also the uplink.
 */
Test(topo_rates, shares_are_fair_and_redirected_flows_share_the_uplink)
{
	struct hr_rate r[2];
	uint32_t uplink;

	for (unsigned i = 0; i < machine.count; i++)
		if (fake_get(&machine.fn[i], HR_CFG_CLASS, 3) == 0x010802)
			fake_put(&machine.fn[i], FAKE_EXP + HR_EXP_LNKSTA, 2, 16 << 4 | 4);
	fake_put(fake_find(&machine, "04:00.0"), FAKE_EXP + HR_EXP_LNKCAP, 4, 16 << 4 | 4);
	load();
	cr_assert_eq(hr_change_apply(&model, &opt, "move:05:00.0=02:01.0", NULL), 0);
	cr_assert_eq(hr_model_link(&model), 0);
	cr_assert_eq(hr_topology_init(&topology, &model, &opt), 0);
	r[0] = (struct hr_rate){ .gpu = fake_at("03:00.0"), .ssd = fake_at("04:00.0") };
	r[1] = (struct hr_rate){ .gpu = fake_at("03:00.0"), .ssd = fake_at("05:00.0") };
	cr_assert_eq(hr_band_solve(&topology, &model, HR_TO_GPU, r, 2), 0);
	cr_expect(near(r[0].gbs, r[1].gbs));
	cr_expect(near(r[0].gbs + r[1].gbs, 31.508 * 256 / 280 * 0.965), "%f", r[0].gbs);
	cr_expect_eq(r[0].edge, 2u * (uint32_t)fake_at("03:00.0") + 1, "the GPU's link, down");
	/*
	 * The uplink is at a quarter of its rate: this matters only for traffic through the uplink.
	 */
	uplink = (uint32_t)fake_at("01:00.0");
	model.fn[uplink].fact[HR_F_WIDTH].value = 1;
	cr_assert_eq(hr_band_solve(&topology, &model, HR_TO_GPU, r, 2), 0);
	cr_expect_eq(r[0].edge, 2u * (uint32_t)fake_at("03:00.0") + 1);
	cr_assert_eq(hr_change_apply(&model, &opt, "acs:02:01.0=set", NULL), 0);
	cr_assert_eq(hr_topology_init(&topology, &model, &opt), 0);
	cr_assert_eq(hr_band_solve(&topology, &model, HR_TO_GPU, r, 2), 0);
	cr_expect_eq(r[0].edge / 2, uplink, "edge %u", r[0].edge);
	cr_expect(near(r[0].gbs + r[1].gbs, 1.969 * 64 / 88 * 0.965), "%f", r[0].gbs);
}

/* A redirected flow also goes down the uplink and shares that edge with other traffic. */
Test(topo_rates, redirected_flows_use_the_uplink_in_both_directions)
{
	struct hr_rate r[2];

	set_acs("02:01.0", HR_ACS_RR);
	fake_put(fake_find(&machine, "01:00.0"), FAKE_EXP + HR_EXP_LNKSTA, 2, 1 << 4 | 4);
	load();
	r[0] = (struct hr_rate){ .gpu = fake_at("03:00.0"), .ssd = fake_at("04:00.0") };
	r[1] = (struct hr_rate){ .gpu = fake_at("03:00.0"), .ssd = fake_at("05:00.0") };
	cr_assert_eq(hr_band_solve(&topology, &model, HR_TO_GPU, r, 2), 0);
	cr_expect_eq(r[0].edge, 2u * (uint32_t)fake_at("01:00.0") + 1, "the uplink, down");
	cr_expect(near(r[0].gbs + r[1].gbs, 1.969 * 64 / 88 * 0.965), "%f %f", r[0].gbs, r[1].gbs);
}

Test(topo_rates, the_plan_prefers_the_better_verdict)
{
	struct hr_rate r[2];

	fake_windows(fake_bridge(&machine, "00:03.0", 0x8086, 0x1909, HR_PORT_ROOT, 6, 6),
		     0xe6000000, 0xe6ffffff, 0x3c000000000ull, 0x3c3ffffffffull);
	fake_gpu(&machine, "06:00.0", 0x3c000000000ull, 34);
	load();
	cr_assert_eq(topology.gpus, 2u);
	cr_assert_eq(hr_band_plan(&topology, &model, HR_TO_GPU, r), 0);
	cr_expect_eq(r[0].ssd, fake_at("04:00.0"));
	cr_expect_eq(r[0].gpu, fake_at("03:00.0"), "the one behind the same switch");
	cr_expect_eq(r[1].gpu, fake_at("06:00.0"), "the one that has none yet");
}

/* ---- one flow, and a whole root complex */

#define GENOA 0x14a4

/*
 * Root ports from 00:10.0, each with a GPU (even ports) or a wide SSD (odd ports) on its own bus.
 */
static void genoa(unsigned ports)
{
	char address[16];

	memset(&machine, 0, sizeof machine);
	fake_function(&machine, "00:00.0", 0x060000, 0x1022, GENOA, HR_PORT_RC_ENDPOINT);
	for (unsigned i = 0; i < ports; i++) {
		uint64_t base = PREF + ((uint64_t)i << 36);
		struct fake_fn *port, *card;

		snprintf(address, sizeof address, "00:%02x.0", 0x10 + i);
		port = fake_bridge(&machine, address, 0x1022, 0x14ab, HR_PORT_ROOT, 0x10 + i,
				   0x10 + i);
		fake_windows(port, 0xe0000000 + (i << 24), 0xe0ffffff + (i << 24), base,
			     base + (1ull << 36) - 1);
		snprintf(address, sizeof address, "%02x:00.0", 0x10 + i);
		card = i % 2 ? fake_nvme(&machine, address, 0xe0000000 + (i << 24))
			     : fake_gpu(&machine, address, base, 34);
		for (unsigned k = 0; k < 2; k++) { /* link of 32 GT/s x16 */
			struct fake_fn *f = k ? port : card;

			fake_put(f, FAKE_EXP + HR_EXP_LNKCAP, 2, 16 << 4 | 5);
			fake_put(f, FAKE_EXP + HR_EXP_LNKSTA, 2, 0x2000 | 16 << 4 | 5);
			fake_put(f, FAKE_EXP + HR_EXP_LNKCTL2, 2, 5);
		}
	}
	load();
}

Test(topo_rates, more_flows_than_the_solver_has_are_refused)
{
	struct hr_rate r = { .gbs = 7 };

	load();
	cr_expect_eq(hr_band_solve(&topology, &model, HR_TO_GPU, &r, HR_FLOWS_MAX + 1), -E2BIG);
	cr_expect_eq(r.gbs, 7.0, "nothing is written");
}

Test(topo_rates, the_rate_of_one_flow_does_not_limit_a_root_complex)
{
	double one;
	char text[96];

	genoa(8);
	{
		struct hr_rate r[1] = { FLOW("10:00.0", "11:00.0") };

		solve(r, 1);
		one = r[0].gbs;
		cr_expect(one > 20 && one < 30, "%f", one);
		cr_expect(strstr(hr_edge_text(&topology, r[0].edge, text), "root port") &&
				  strstr(text, "prior"),
			  "%s", text);
	}
	{
		struct hr_rate r[4] = { FLOW("10:00.0", "11:00.0"), FLOW("12:00.0", "13:00.0"),
					FLOW("14:00.0", "15:00.0"), FLOW("16:00.0", "17:00.0") };

		solve(r, 4);
		for (unsigned i = 0; i < 4; i++)
			cr_expect(near(r[i].gbs, one), "flow %u: %f", i, r[i].gbs);
	}
	{
		/* Two SSDs to one GPU, one SSD to two GPUs: the flows share a port at one end. */
		struct hr_rate in[2] = { FLOW("10:00.0", "11:00.0"), FLOW("10:00.0", "13:00.0") };
		struct hr_rate out[2] = { FLOW("10:00.0", "11:00.0"), FLOW("12:00.0", "11:00.0") };

		solve(in, 2);
		solve(out, 2);
		cr_expect(near(in[0].gbs + in[1].gbs, one), "%f", in[0].gbs + in[1].gbs);
		cr_expect(near(out[0].gbs + out[1].gbs, one), "%f", out[0].gbs + out[1].gbs);
	}
}

Test(topo_rates, sums_through_one_root_complex_are_upper_bounds)
{
	genoa(8);
	{
		struct hr_rate r[2] = { FLOW("10:00.0", "11:00.0"), FLOW("12:00.0", "13:00.0") };

		solve(r, 2);
		cr_expect(hr_band_bound(&topology, r, 2));
		cr_expect_not(hr_band_bound(&topology, r, 1), "one flow was measured");
	}
	fake_two_ports(&machine);
	load();
	{
		struct hr_rate r[2] = { FLOW("03:00.0", "04:00.0"), FLOW("03:00.0", "05:00.0") };

		solve(r, 2);
		cr_expect_not(hr_band_bound(&topology, r, 2), "one of them goes through it");
	}
}

/* ---- the plan */

/* Two switches with a GPU and three SSDs each; their root ports are on one bus. */
static void two_switches(uint16_t vendor, uint16_t device, uint32_t acs)
{
	char address[16];

	memset(&machine, 0, sizeof machine);
	fake_function(&machine, "00:00.0", 0x060000, vendor, device, HR_PORT_RC_ENDPOINT);
	for (unsigned s = 0; s < 2; s++) {
		unsigned bus = 0x10 + 0x10 * s;
		uint32_t mem = 0xe0000000 + (s << 24);
		uint64_t pref = PREF + ((uint64_t)s << 36);
		struct fake_fn *f;

		snprintf(address, sizeof address, "00:%02x.0", 1 + s);
		f = fake_bridge(&machine, address, vendor, 0x1901, HR_PORT_ROOT, bus, bus + 6);
		fake_windows(f, mem, mem + 0xffffff, pref, pref + (1ull << 36) - 1);
		snprintf(address, sizeof address, "%02x:00.0", bus);
		f = fake_bridge(&machine, address, 0x10b5, 0x8796, HR_PORT_UPSTREAM, bus + 1,
				bus + 6);
		fake_windows(f, mem, mem + 0xffffff, pref, pref + (1ull << 36) - 1);
		fake_put(f, FAKE_AER + 2, 2, 1);
		for (unsigned i = 0; i < 4; i++) {
			snprintf(address, sizeof address, "%02x:%02x.0", bus + 1, i);
			f = fake_bridge(&machine, address, 0x10b5, 0x8796, HR_PORT_DOWNSTREAM,
					bus + 2 + i, bus + 2 + i);
			fake_put(f, ACS, 2, acs);
			fake_windows(f, mem + (i << 20), mem + (i << 20) + 0xfffff,
				     i ? 0xfff00000 : pref, i ? 0 : pref + (1ull << 36) - 1);
			snprintf(address, sizeof address, "%02x:00.0", bus + 2 + i);
			if (i)
				fake_nvme(&machine, address, mem + (i << 20));
			else
				fake_gpu(&machine, address, pref, 34);
		}
	}
	load();
}

Test(topo_rates, the_plan_keeps_to_the_switch_even_when_acs_redirects)
{
	static const struct {
		uint16_t vendor, device;
		uint32_t acs;
		enum hr_verdict near;
	} row[] = {
		{ 0x8086, 0x1234, 0, HR_DIRECT },
		{ 0x8086, 0x1234, 0x1d, HR_REDIR_UNLISTED },
		{ 0x8086, 0x09a2, 0x1d, HR_REDIR_LISTED },
		{ 0x1022, GENOA, 0x1d, HR_REDIR_LISTED },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct hr_rate r[6];

		two_switches(row[i].vendor, row[i].device, row[i].acs);
		cr_assert_eq(topology.gpus, 2u);
		cr_assert_eq(topology.ssds, 6u);
		cr_assert_eq(hr_band_plan(&topology, &model, HR_TO_GPU, r), 0);
		for (unsigned k = 0; k < 6; k++) {
			struct hr_pair p;

			hr_pair_evaluate(&topology, r[k].gpu, r[k].ssd, &p);
			cr_expect_neq(p.common, HR_NO_FN,
				      "row %zu, SSD %u goes to the other switch", i, k);
			cr_expect_eq(p.verdict, row[i].near, "row %zu: %u", i, p.verdict);
		}
	}
}

/* Without switches: the same root bus and node first, then the GPU with fewer SSDs. */
Test(topo_rates, the_plan_spreads_ssds_over_equally_distant_gpus)
{
	struct hr_rate r[4];
	unsigned taken[4] = { 0 };

	genoa(8);
	cr_assert_eq(hr_band_plan(&topology, &model, HR_TO_GPU, r), 0);
	for (unsigned k = 0; k < 4; k++)
		for (unsigned g = 0; g < 4; g++)
			taken[g] += r[k].gpu == topology.gpu[g];
	for (unsigned g = 0; g < 4; g++)
		cr_expect_eq(taken[g], 1u, "GPU %u has %u", g, taken[g]);
}

Test(topo_rates, solving_releases_its_memory)
{
	struct hr_rate r = { 0 };
	size_t used;

	load();
	r = (struct hr_rate)FLOW("03:00.0", "04:00.0");
	used = model.used;
	for (unsigned i = 0; i < 1000; i++)
		cr_assert_eq(hr_band_solve(&topology, &model, HR_TO_GPU, &r, 1), 0);
	cr_expect_eq(model.used, used);
	cr_expect_eq(*(uint64_t *)hr_model_alloc(&model, 8), 0u, "memory is zeroed");
}

/* A flow that its own narrow link stops leaves the rest of the shared link to the other flow. */
Test(topo_rates, what_a_narrow_flow_leaves_is_for_the_others)
{
	static const struct {
		uint32_t gpu_speed, gpu_width, narrow_speed;
		double want[2];
	} row[] = {
		{ 4, 16, 4, { 1.969, 29.539 } },
		{ 1, 4, 1, { 0.25, 0.75 } }, /* less than 1 GB/s is left */
	};
	struct hr_rate r[2];

	two_switches(0x8086, 0x1234, 0);
	for (size_t i = 0; i < sizeof row / sizeof *row; i++)
		for (unsigned swap = 0; swap < 2; swap++) {
			r[swap] = (struct hr_rate)FLOW("12:00.0", "13:00.0");
			r[!swap] = (struct hr_rate)FLOW("12:00.0", "14:00.0");
			link_is("12:00.0", row[i].gpu_speed, row[i].gpu_width);
			hr_fn_set(&model.fn[fake_at("12:00.0")], HR_F_SPEED_TARGET, 0, HR_SRC_USER);
			link_is("13:00.0", row[i].narrow_speed, 1);
			link_is("14:00.0", 5, 16);
			solve(r, 2);
			for (unsigned k = 0; k < 2; k++)
				cr_expect(near(r[k != swap].gbs, row[i].want[k] * PAYLOAD),
					  "row %zu: %f", i, r[k != swap].gbs);
			cr_expect_eq(r[swap].edge, up_of("13:00.0"), "row %zu", i);
			cr_expect_eq(r[!swap].edge, up_of("12:00.0") + 1, "row %zu", i);
		}
}

/* The first plan gives each GPU one SSD; the narrow link of one GPU is a reason to move its SSD. */
Test(topo_rates, an_ssd_moves_to_the_gpu_with_the_higher_rate)
{
	static const char *const gpu[] = { "10:00.0", "12:00.0" };

	for (unsigned narrow = 0; narrow < 2; narrow++) {
		struct hr_rate r[2];

		genoa(4);
		link_is(gpu[narrow], 1, 1);
		hr_fn_set(&model.fn[fake_at(gpu[narrow])], HR_F_SPEED_TARGET, 0, HR_SRC_USER);
		link_is("11:00.0", 5, 1);
		link_is("13:00.0", 5, 1);
		cr_assert_eq(hr_band_plan(&topology, &model, HR_TO_GPU, r), 0);
		for (unsigned k = 0; k < 2; k++) {
			cr_expect_eq(r[k].gpu, fake_at(gpu[!narrow]), "GPU %u, SSD %u", narrow, k);
			cr_expect(near(r[k].gbs, 3.938 * PAYLOAD), "%f", r[k].gbs);
		}
	}
}

Test(topo_rates, a_plan_that_does_not_fit_in_memory_is_refused)
{
	struct hr_rate r[2];
	size_t used, least = 0;

	load();
	used = model.used;
	for (size_t spare = 0; spare < 8192; spare += 8) {
		int err;

		cr_assert_not_null(hr_model_alloc(&model, model.reserved - used - spare));
		r[0] = (struct hr_rate)FLOW(GPU, SIBLING);
		err = hr_band_solve(&topology, &model, HR_TO_GPU, r, 1);
		cr_assert(err == 0 || err == -ENOMEM, "%d with %zu bytes", err, spare);
		cr_assert(err == 0 || !least, "%zu bytes are enough, %zu are not", least, spare);
		least = err || least ? least : spare;
		err = hr_band_plan(&topology, &model, HR_TO_GPU, r);
		cr_assert(err == 0 || err == -ENOMEM, "%d with %zu bytes", err, spare);
		cr_assert_eq(model.used, model.reserved - spare);
		model.used = used; /* the memory behind was not written */
		if (err == 0)
			return;
	}
	cr_assert_fail("8 KiB are not enough");
}

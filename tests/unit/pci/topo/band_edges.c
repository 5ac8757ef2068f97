/* Edges of the model of rates: links, root complexes, and the connection between them. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "tests/harness/rates_rig.h"

TestSuite(topo_edges, .init = fake_evaluate_up, .fini = fake_evaluate_down, .timeout = 60);

Test(topo_edges, a_link_has_its_speed_under_load)
{
	static const struct {
		uint32_t speed, target, most, above; /* 0: not known */
		uint32_t want;			     /* the speed that counts */
	} row[] = {
		{ 4, 0, 0, 0, 4 }, { 0, 0, 3, 4, 3 },
		{ 1, 1, 5, 5, 1 }, /* the target is no higher */
		{ 1, 2, 5, 4, 4 }, /* idle: the slower of both ends */
		{ 1, 2, 3, 5, 3 }, { 1, 2, 3, 0, 3 },
		{ 1, 2, 0, 5, 1 }, /* the fastest speed is not known */
		{ 2, 3, 4, 1, 1 },
	};
	static const enum hr_fact_id ids[] = { HR_F_SPEED, HR_F_SPEED_TARGET, HR_F_SPEED_MAX };
	uint32_t edge;

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		const uint32_t value[] = { row[i].speed, row[i].target, row[i].most };
		struct hr_fn *gpu, *above;
		double want = hr_link_gbs(row[i].want, 1) * PAYLOAD;

		load();
		gpu = &model.fn[fake_at(GPU)];
		above = &model.fn[gpu->parent];
		link_is(SIBLING, 5, 16);
		link_is(GPU, 0, 1);
		for (unsigned j = 0; j < 3; j++)
			gpu->fact[ids[j]] =
				(struct hr_fact){ value[j], value[j] ? HR_SRC_CONFIG : 0 };
		above->fact[HR_F_SPEED_MAX] =
			(struct hr_fact){ row[i].above, row[i].above ? HR_SRC_CONFIG : 0 };
		cr_expect(near(rate(SIBLING, HR_TO_GPU, &edge), want), "row %zu: %f, not %f", i,
			  rate(SIBLING, HR_TO_GPU, &edge), want);
		cr_expect_eq(edge, up_of(GPU) + 1, "row %zu", i);
	}
	/* The width of a link that does not state it is the widest; an SSD is never idle. */
	load();
	link_is(GPU, 5, 16);
	model.fn[fake_at(SIBLING)].fact[HR_F_WIDTH].source = HR_SRC_NONE;
	hr_fn_set(&model.fn[fake_at(SIBLING)], HR_F_WIDTH_MAX, 2, HR_SRC_USER);
	hr_fn_set(&model.fn[fake_at(SIBLING)], HR_F_SPEED, 1, HR_SRC_USER);
	hr_fn_set(&model.fn[fake_at(SIBLING)], HR_F_SPEED_TARGET, 4, HR_SRC_USER);
	cr_expect(near(rate(SIBLING, HR_TO_GPU, &edge), 0.5 * PAYLOAD));
}

Test(topo_edges, a_link_of_an_unknown_rate_is_no_limit)
{
	uint32_t edge;

	load();
	for (uint32_t i = 0; i < model.count; i++)
		model.fn[i].fact[HR_F_SPEED] = model.fn[i].fact[HR_F_SPEED_MAX] =
			(struct hr_fact){ 0 };
	cr_expect_eq(rate(SIBLING, HR_TO_GPU, &edge), 0.0);
	cr_expect_eq(edge, HR_NO_EDGE);
	link_is(SIBLING, 3, 1);
	cr_expect(near(rate(SIBLING, HR_TO_GPU, &edge), 0.985 * PAYLOAD));
	cr_expect_eq(edge, up_of(SIBLING));
}

/* Payloads of the SSD, of the GPU, and of the ports between; 0: not known. */
Test(topo_edges, the_smallest_payload_on_the_route_counts)
{
	static const struct {
		uint32_t ssd, gpu, ports;
		double to_gpu, from_gpu;
	} row[] = {
		{ 256, 256, 256, 256, 256 }, { 128, 256, 256, 128, 256 },
		{ 256, 128, 256, 256, 128 }, { 512, 256, 128, 128, 128 },
		{ 0, 256, 512, 512, 256 },   { 256, 0, 512, 256, 512 },
		{ 512, 256, 0, 512, 256 },   { 0, 0, 0, 128, 128 },
	};
	uint32_t edge;

	load();
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		for (uint32_t k = 0; k < model.count; k++)
			topology.derived[k].mps = topology.derived[k].above_mps = row[i].ports;
		topology.derived[fake_at(SIBLING)].mps = row[i].ssd;
		topology.derived[fake_at(GPU)].mps = row[i].gpu;
		cr_expect(near(rate(SIBLING, HR_TO_GPU, &edge),
			       7.877 * row[i].to_gpu / (row[i].to_gpu + 24) * 0.965),
			  "row %zu: %f", i, rate(SIBLING, HR_TO_GPU, &edge));
		cr_expect(near(rate(SIBLING, HR_FROM_GPU, &edge),
			       7.877 * row[i].from_gpu / (row[i].from_gpu + 20) * 0.965),
			  "row %zu: %f", i, rate(SIBLING, HR_FROM_GPU, &edge));
	}
}

Test(topo_edges, reads_that_time_out_have_no_rate_and_writes_have_one)
{
	uint32_t edge;

	fake_put(fake_find(&machine, OTHER), FAKE_AER + HR_AER_UESTA, 4, HR_UE_CMPLT_TIMEOUT);
	load();
	cr_expect_eq(rate(OTHER, HR_FROM_GPU, &edge), 0.0);
	cr_expect_eq(edge, HR_NO_EDGE);
	cr_expect_gt(rate(OTHER, HR_TO_GPU, &edge), 1.0);
}

/* ---- root complexes */

/* Host bridges of two root buses, with two GPUs on the first and two SSDs on the second. */
static void two_sockets(uint32_t first, uint32_t second)
{
	static const char *const port[] = { "00:01.0", "00:02.0", "80:01.0", "80:02.0" };
	static const char *const card[] = { "10:00.0", "20:00.0", "90:00.0", "a0:00.0" };

	memset(&machine, 0, sizeof machine);
	fake_function(&machine, "00:00.0", 0x060000, (uint16_t)first, (uint16_t)(first >> 16),
		      HR_PORT_RC_ENDPOINT);
	fake_function(&machine, "80:00.0", 0x060000, (uint16_t)second, (uint16_t)(second >> 16),
		      HR_PORT_RC_ENDPOINT);
	for (unsigned i = 0; i < 4; i++) {
		const uint32_t mem = 0xe0000000 + (i << 24);
		const uint64_t pref = PREF + ((uint64_t)i << 36);
		unsigned bus;
		struct fake_fn *f;

		sscanf(card[i], "%x", &bus);
		f = fake_bridge(&machine, port[i], (uint16_t)(i < 2 ? first : second), 0x1901,
				HR_PORT_ROOT, bus, bus);
		fake_windows(f, mem, mem + 0xffffff, pref, pref + (1ull << 36) - 1);
		if (i < 2)
			fake_gpu(&machine, card[i], pref, 34);
		else
			fake_nvme(&machine, card[i], mem);
	}
	load();
	for (unsigned i = 0; i < 4; i++)
		link_is(card[i], 6, 32);
}

Test(topo_edges, root_complexes_have_the_rates_that_were_measured)
{
	static const struct {
		uint32_t host; /* device << 16 | vendor */
		double flow, between;
	} row[] = {
		{ 0x09a28086, 22, 22 }, { 0x20208086, 10, 10 }, { 0x20308086, 10, 10 },
		{ 0x6f008086, 6, 6 },	{ 0x2f008086, 6, 6 },	{ 0x3c008086, 6, 6 },
		{ 0x14a41022, 24, 0 },	{ 0x14508086, 10, 10 }, { 0x14101022, 10, 10 },
		{ 0x14501022, 16, 16 }, { 0x96001022, 10, 10 }, { 0x14a48086, 10, 10 },
	};
	char text[96];

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct hr_rate r[2];
		const double between = row[i].between;

		two_sockets(row[i].host, row[i].host);
		cr_expect_eq(hr_band_prior(&topology, 0), row[i].flow, "row %zu", i);
		r[0] = (struct hr_rate)FLOW("10:00.0", "90:00.0");
		r[1] = (struct hr_rate)FLOW("20:00.0", "a0:00.0");
		solve(r, 1);
		cr_expect(near(r[0].gbs, row[i].flow), "row %zu: %f alone", i, r[0].gbs);
		solve(r, 2);
		for (unsigned k = 0; k < 2; k++)
			cr_expect(near(r[k].gbs, between > 0 ? between / 2 : row[i].flow),
				  "row %zu: %f", i, r[k].gbs);
		if (between > 0)
			cr_expect_str_eq(hr_edge_text(&topology, r[0].edge, text),
					 "link between root complexes (prior)");
	}
}

Test(topo_edges, the_slowest_root_complex_limits_the_connection_of_all)
{
	static const uint32_t host[][2] = { { 0x09a28086, 0x20208086 },
					    { 0x20208086, 0x09a28086 },
					    { 0x20208086, 0x14a41022 },
					    { 0x14a41022, 0x20208086 } };

	for (size_t i = 0; i < sizeof host / sizeof *host; i++) {
		struct hr_rate r[2];

		two_sockets(host[i][0], host[i][1]);
		r[0] = (struct hr_rate)FLOW("10:00.0", "90:00.0");
		r[1] = (struct hr_rate)FLOW("20:00.0", "a0:00.0");
		solve(r, 2);
		cr_expect(near(r[0].gbs + r[1].gbs, 10), "row %zu: %f", i, r[0].gbs + r[1].gbs);
	}
}

Test(topo_edges, each_edge_has_a_text)
{
	uint32_t links, port;
	char text[96];

	load();
	links = 2 * model.count;
	port = up_of("00:02.0");
	cr_expect_str_eq(hr_edge_text(&topology, up_of(SIBLING), text),
			 "link of 0000:04:00.0 up, now 16 GT/s x4");
	link_is(SIBLING, 1, 16);
	cr_expect_str_eq(hr_edge_text(&topology, up_of(SIBLING) + 1, text),
			 "link of 0000:04:00.0 down, now 2.5 GT/s x16");
	link_is(SIBLING, 6, 1);
	cr_expect_str_eq(hr_edge_text(&topology, up_of(SIBLING), text),
			 "link of 0000:04:00.0 up, now 64 GT/s x1");
	link_is(SIBLING, 7, 1);
	cr_expect_str_eq(hr_edge_text(&topology, up_of(SIBLING), text),
			 "link of 0000:04:00.0 up, now ? GT/s x1");
	cr_expect_str_eq(hr_edge_text(&topology, links + port, text),
			 "root port 0000:00:02.0 into the root complex (prior: one x16 flow)");
	cr_expect_str_eq(hr_edge_text(&topology, links + port + 1, text),
			 "root port 0000:00:02.0 out of the root complex (prior: one x16 flow)");
	cr_expect_str_eq(hr_edge_text(&topology, 2 * links - 1, text) + 23,
			 "out of the root complex (prior: one x16 flow)", "the last port");
	cr_expect_str_eq(hr_edge_text(&topology, 2 * links, text),
			 "link between root complexes (prior)");
	cr_expect_str_eq(hr_edge_text(&topology, HR_NO_EDGE, text), "nothing known");
}

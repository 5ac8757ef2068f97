/* Rates of pairs alone and together, and the plan that follows from them. */
#include <criterion/criterion.h>
#include <string.h>

#include "pci/band.h"
#include "pci/change.h"
#include "tests/fake/judge.h"

TestSuite(topo_rates, .init = fake_judge_up, .fini = fake_judge_down, .timeout = 60);

static struct hr_options opt;

static void load(void)
{
	cr_assert_eq(fake_load(&machine, &model), 0, "%s", model.message);
	cr_assert_eq(hr_engine_init(&engine, &model, &opt), 0);
}

static void set_acs(const char *address, uint32_t value)
{
	fake_put(fake_find(&machine, address), ACS, 2, value);
}

static double rate(const char *ssd, enum hr_direction direction, uint32_t *edge)
{
	struct hr_rate r = { .gpu = fake_at("03:00.0"), .ssd = fake_at(ssd) };

	cr_assert_eq(hr_band_solve(&engine, &model, direction, &r, 1), 0);
	*edge = r.edge;
	return r.gbs;
}

static bool near(double a, double b)
{
	return a > b * 0.999 && a < b * 1.001;
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
	cr_expect(strstr(hr_edge_text(&engine, edge, text), "04:00.0 up") != NULL, "%s", text);
	rate("04:00.0", HR_FROM_GPU, &edge);
	cr_expect_eq(edge, 2u * (uint32_t)fake_at("04:00.0") + 1, "the SSD's link, down");
	through = rate("05:00.0", HR_TO_GPU, &edge);
	cr_expect(near(through, 7.877 * 64 / 88 * 0.965), "%f: Intel, in cache lines", through);
	fake_put(fake_find(&machine, "00:00.0"), HR_CFG_VENDOR, 2, 0x1022);
	load();
	through = rate("05:00.0", HR_TO_GPU, &edge);
	cr_expect_eq(through, direct);
	/* A blocked pair carries nothing. */
	fake_put(fake_find(&machine, "03:00.0"), HR_CFG_COMMAND, 2, HR_COMMAND_BME);
	load();
	cr_expect_eq(rate("04:00.0", HR_TO_GPU, &edge), 0.0);
}

/* Two wide SSDs into one GPU: direct they share the GPU's link, redirected the uplink both ways. */
Test(topo_rates, shares_are_fair_and_redirected_flows_share_the_uplink)
{
	struct hr_rate r[2];
	uint32_t uplink;

	for (unsigned i = 0; i < machine.count; i++)
		if (fake_get(&machine.fn[i], HR_CFG_CLASS, 3) == 0x010802)
			fake_put(&machine.fn[i], FAKE_EXP + HR_EXP_LNKSTA, 2, 16 << 4 | 4);
	fake_put(fake_find(&machine, "04:00.0"), FAKE_EXP + HR_EXP_LNKCAP, 4, 16 << 4 | 4);
	load();
	cr_assert_eq(hr_change_apply(&model, &opt, "move:05:00.0=02:01.0", (char[160]){ 0 }), 0);
	cr_assert_eq(hr_model_link(&model), 0);
	cr_assert_eq(hr_engine_init(&engine, &model, &opt), 0);
	r[0] = (struct hr_rate){ .gpu = fake_at("03:00.0"), .ssd = fake_at("04:00.0") };
	r[1] = (struct hr_rate){ .gpu = fake_at("03:00.0"), .ssd = fake_at("05:00.0") };
	cr_assert_eq(hr_band_solve(&engine, &model, HR_TO_GPU, r, 2), 0);
	cr_expect(near(r[0].gbs, r[1].gbs));
	cr_expect(near(r[0].gbs + r[1].gbs, 31.508 * 256 / 280 * 0.965), "%f", r[0].gbs);
	cr_expect_eq(r[0].edge, 2u * (uint32_t)fake_at("03:00.0") + 1, "the GPU's link, down");
	/* The uplink trained to a quarter: nothing changes until traffic is sent through it. */
	uplink = (uint32_t)fake_at("01:00.0");
	model.fn[uplink].fact[HR_F_WIDTH].value = 1;
	cr_assert_eq(hr_band_solve(&engine, &model, HR_TO_GPU, r, 2), 0);
	cr_expect_eq(r[0].edge, 2u * (uint32_t)fake_at("03:00.0") + 1);
	cr_assert_eq(hr_change_apply(&model, &opt, "acs:02:01.0=set", (char[160]){ 0 }), 0);
	cr_assert_eq(hr_engine_init(&engine, &model, &opt), 0);
	cr_assert_eq(hr_band_solve(&engine, &model, HR_TO_GPU, r, 2), 0);
	cr_expect_eq(r[0].edge / 2, uplink, "edge %u", r[0].edge);
	cr_expect(near(r[0].gbs + r[1].gbs, 1.969 * 64 / 88 * 0.965), "%f", r[0].gbs);
}

/* A redirected flow comes down the uplink again, where it meets traffic from elsewhere. */
Test(topo_rates, redirected_flows_pay_the_way_down_too)
{
	struct hr_rate r[2];

	set_acs("02:01.0", HR_ACS_RR);
	fake_put(fake_find(&machine, "01:00.0"), FAKE_EXP + HR_EXP_LNKSTA, 2, 1 << 4 | 4);
	load();
	r[0] = (struct hr_rate){ .gpu = fake_at("03:00.0"), .ssd = fake_at("04:00.0") };
	r[1] = (struct hr_rate){ .gpu = fake_at("03:00.0"), .ssd = fake_at("05:00.0") };
	cr_assert_eq(hr_band_solve(&engine, &model, HR_TO_GPU, r, 2), 0);
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
	cr_assert_eq(engine.gpus, 2u);
	cr_assert_eq(hr_band_plan(&engine, &model, HR_TO_GPU, r), 0);
	cr_expect_eq(r[0].ssd, fake_at("04:00.0"));
	cr_expect_eq(r[0].gpu, fake_at("03:00.0"), "the one behind the same switch");
	cr_expect_eq(r[1].gpu, fake_at("06:00.0"), "the one that has none yet");
}

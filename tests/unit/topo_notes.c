/* Rules that only note something, or that need more changed than a row of topo_rules.c holds. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "pci/fields.h"
#include "pci/tables.h"
#include "pci/verdict.h"
#include "tests/fake/machine.h"

#define GPU "03:00.0"
#define NEAR "04:00.0" /* behind the GPU's switch */
#define FAR "05:00.0"  /* behind another root port */

static struct fake_machine machine;
static struct hr_model model;
static struct hr_engine engine;

static void set_up(void)
{
	cr_assert_eq(hr_model_init(&model), 0);
	fake_two_ports(&machine);
}

static void tear_down(void)
{
	hr_model_fini(&model);
}

TestSuite(topo_notes, .init = set_up, .fini = tear_down, .timeout = 60);

static void poke(const char *at, uint32_t offset, unsigned width, uint32_t value)
{
	fake_put(fake_find(&machine, at), offset, width, value);
}

static int32_t at(const char *address)
{
	uint32_t domain, bus, dev, fn;

	cr_assert_neq(hr_bdf_parse(address, &domain, &bus, &dev, &fn), 0);
	return hr_model_find(&model, domain, bus, dev, fn);
}

static enum hr_verdict judge(const char *ssd, struct hr_pair *p)
{
	static const struct hr_options opt;

	cr_assert_eq(fake_load(&machine, &model), 0, "%s", model.message);
	cr_assert_eq(hr_engine_init(&engine, &model, &opt), 0);
	hr_judge(&engine, at(GPU), at(ssd), p);
	return p->verdict;
}

static bool notes(const char *rule, const char *ssd)
{
	struct hr_finding list[64];
	struct hr_pair p;
	unsigned n;

	judge(ssd, &p);
	n = hr_findings(&engine, &p, list, 64);
	for (unsigned i = 0; i < n && i < 64; i++)
		if (strcmp(hr_rules[list[i].rule].id, rule) == 0 && list[i].flows)
			return true;
	return false;
}

Test(topo_notes, a_controller_in_raid_mode_hides_its_drives)
{
	struct hr_pair p;

	cr_expect_not(notes("R10-raid", NEAR));
	poke(NEAR, HR_CFG_CLASS, 3, 0x010400);
	cr_expect_eq(judge(NEAR, &p), HR_BLOCKED);
	cr_expect_str_eq(hr_rules[p.rule].id, "R10-raid");
}

Test(topo_notes, both_cards_behind_chipset_ports_may_have_peer_decode_off)
{
	poke("00:02.0", HR_CFG_DEVICE, 2, 0xa330);
	cr_expect_not(notes("R11-peer", FAR));
	poke("00:01.0", HR_CFG_DEVICE, 2, 0xa330);
	cr_expect(notes("R11-peer", FAR));
	cr_expect_not(notes("R11-peer", NEAR));
}

Test(topo_notes, translated_requests_go_direct_when_ports_and_cards_all_allow_it)
{
	struct hr_pair p;

	poke("02:00.0", FAKE_ACS + HR_ACS_CTL, 2, HR_ACS_DT | HR_ACS_RR);
	poke("02:01.0", FAKE_ACS + HR_ACS_CTL, 2, HR_ACS_DT | HR_ACS_RR);
	poke(GPU, FAKE_ATS + HR_ATS_CTL, 2, HR_ATS_ENABLE);
	cr_expect_not(notes("A6", NEAR));
	poke(NEAR, FAKE_ATS + HR_ATS_CTL, 2, HR_ATS_ENABLE);
	cr_expect(notes("A6", NEAR));
	cr_expect_not(notes("A6", FAR));
	/* A note that is recalled, not verified: the verdict stays what ACS says. */
	cr_expect_eq(judge(NEAR, &p), HR_REDIR_UNLISTED);
}

Test(topo_notes, a_chipset_port_without_acs_isolates_by_a_register_of_its_own)
{
	poke("00:02.0", HR_CFG_DEVICE, 2, 0xa330);
	cr_expect_not(notes("A8", FAR), "it has the capability");
	poke("00:02.0", FAKE_AER, 4, HR_ECAP_AER | 1 << 16);
	cr_expect(notes("A8", FAR));
}

Test(topo_notes, relaxed_ordering_stays_off_below_ports_that_the_kernel_lists)
{
	struct hr_pair p;

	cr_expect_not(notes("M4-ro", FAR));
	poke("00:02.0", HR_CFG_DEVICE, 2, 0x6f02);
	cr_expect(notes("M4-ro", FAR));
	cr_expect_neq(judge(FAR, &p), HR_UNKNOWN);
}

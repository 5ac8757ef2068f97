/* Values that a change sets, and their limits. */
#include "pci/topo/change.h"

#include <criterion/criterion.h>
#include <errno.h>

#include "tests/harness/error.h"
#include "tests/harness/evaluate.h"

TestSuite(topo_values, .init = fake_evaluate_up, .fini = fake_evaluate_down, .timeout = 60);

static struct hr_options opt;

static void load(void)
{
	cr_assert_eq(fake_load(&machine, &model), 0, "%s", model.error.text);
	cr_assert_eq(hr_topology_init(&topology, &model, &opt), 0);
}

/* A capture may have the capability and not the control register. */
Test(topo_values, acs_is_set_and_cleared_when_its_state_is_unknown)
{
	static const struct {
		const char *change;
		uint32_t want;
	} row[] = { { "acs:02:00.0=set", HR_ACS_ISOLATION & 0x5f }, { "acs:02:00.0=clear", 0 } };

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		load();
		model.fn[fake_at("02:00.0")].fact[HR_F_ACS_CTL].source = HR_SRC_NONE;
		cr_expect_eq(hr_change_apply(&model, &opt, row[i].change, test_error()), 0, "%s",
			     test_error_text());
		cr_expect_eq(hr_get(&model.fn[fake_at("02:00.0")], HR_F_ACS_CTL, ~0u), row[i].want,
			     "%s", row[i].change);
	}
}

/* The seven bits of the ACS control register; sizes of payloads up to what the function supports. */
Test(topo_values, values_have_limits)
{
	static const struct {
		const char *change;
		enum hr_fact_id fact;
		uint32_t value; /* UNCHANGED: it is refused */
	} row[] = {
#define UNCHANGED 0xffffffffu
		{ "acs:02:00.0=0", HR_F_ACS_CTL, 0 },
		{ "acs:02:00.0=1d", HR_F_ACS_CTL, 0x1d },
		{ "acs:02:00.0=7f", HR_F_ACS_CTL, 0x7f },
		{ "acs:02:00.0=80", HR_F_ACS_CTL, UNCHANGED },
		{ "acs:02:00.0=7g", HR_F_ACS_CTL, UNCHANGED },
		{ "mps:02:00.0=128", HR_F_MPS, 128 },
		{ "mps:02:00.0=64", HR_F_MPS, UNCHANGED },
		{ "mps:02:00.0=8192", HR_F_MPS, UNCHANGED },
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		const struct hr_fn *f;
		uint32_t before;
		int err;

		fake_two_ports(&machine);
		load();
		f = &model.fn[fake_at("02:00.0")];
		before = hr_get(f, row[i].fact, UNCHANGED);
		err = hr_change_apply(&model, &opt, row[i].change, test_error());
		cr_expect_eq(err, row[i].value == UNCHANGED ? -EINVAL : 0, "%s: %d, %s",
			     row[i].change, err, test_error_text());
		cr_expect_eq(hr_get(f, row[i].fact, UNCHANGED),
			     row[i].value == UNCHANGED ? before : row[i].value, "%s",
			     row[i].change);
	}
}

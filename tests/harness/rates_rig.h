/*
 * tests/harness/rates_rig.h - expected data rates of a synthetic machine (tests/harness/evaluate.h).
 */
#ifndef TESTS_HARNESS_RATES_RIG_H
#define TESTS_HARNESS_RATES_RIG_H

#include <criterion/criterion.h>

#include "pci/topo/band.h"
#include "tests/harness/evaluate.h"

#define PREF 0x3c000000000ull

/* Share of a link that is payload, for TLPs of 256 bytes to the GPU. */
#define PAYLOAD (256.0 / 280 * 0.965)

static struct hr_options opt; /* of the evaluation */

static inline void load(void)
{
	cr_assert_eq(fake_load(&machine, &model), 0, "%s", model.error.text);
	cr_assert_eq(hr_topology_init(&topology, &model, &opt), 0);
}

static inline double rate(const char *ssd, enum hr_direction direction, uint32_t *edge)
{
	struct hr_rate r = { .gpu = fake_at("03:00.0"), .ssd = fake_at(ssd) };

	cr_assert_eq(hr_band_solve(&topology, &model, direction, &r, 1), 0);
	*edge = r.edge;
	return r.gbs;
}

static inline bool near(double a, double b)
{
	return a > b * 0.999 && a < b * 1.001;
}

static inline void solve(struct hr_rate *r, unsigned n)
{
	cr_assert_eq(hr_band_solve(&topology, &model, HR_TO_GPU, r, n), 0);
}

#define FLOW(gpu_at, ssd_at)                                   \
	{                                                      \
		.gpu = fake_at(gpu_at), .ssd = fake_at(ssd_at) \
	}

static inline uint32_t up_of(const char *address)
{
	return 2 * (uint32_t)fake_at(address);
}

/* State the link of a function in the model. */
static inline void link_is(const char *address, uint32_t speed, uint32_t width)
{
	struct hr_fn *f = &model.fn[fake_at(address)];

	hr_fn_set(f, HR_F_SPEED, speed, HR_SRC_USER);
	hr_fn_set(f, HR_F_WIDTH, width, HR_SRC_USER);
}

#endif

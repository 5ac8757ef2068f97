/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/appliance/lend/consumer.h"

#define RATE_UNIT 256u
#define AVERAGE 4u /* of so many times */

static uint32_t least(uint64_t a, uint32_t b)
{
	return a < b ? (uint32_t)a : b;
}

/* At least 1, at most what the consumer may have. */
static void set(struct hr_tap_allotment *share, uint64_t credits)
{
	share->credits = share->asked ? share->most : least(credits ? credits : 1, share->most);
}

void hr_tap_allot_begin(struct hr_tap_allotment *share, uint32_t slots, uint32_t count)
{
	share->credits = 0;
	share->seen = share->rate = share->returned = 0;
	share->rated = false;
	set(share, (slots + count - 1) / count);
}

static void measure(struct hr_tap_allotment *share)
{
	const uint64_t now = (share->returned - share->seen) * RATE_UNIT;

	share->rate = share->rated ? (share->rate * (AVERAGE - 1) + now) / AVERAGE : now;
	share->rated = true;
	share->seen = share->returned;
}

/* Rounded up, so that no slot is left over. */
void hr_tap_allot(struct hr_tap_allotment *const *share, uint32_t count, uint32_t slots)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < count; i++) {
		measure(share[i]);
		sum += share[i]->rate;
	}
	for (uint32_t i = 0; i < count; i++)
		if (sum)
			set(share[i], (share[i]->rate * slots + sum - 1) / sum);
}

void hr_tap_allot_more(struct hr_tap_allotment *share, uint64_t held)
{
	if (held >= share->credits && held)
		set(share, share->credits + 1ull);
}

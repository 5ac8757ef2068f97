/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/engine/exchange/blocks.h"

#include <string.h>

#include "config/base/tick.h"

#define CANDIDATES 16u /* ranges of existing blocks that are looked at */

void hr_exchange_pattern(uint8_t *data, size_t bytes, uint64_t seed, uint64_t at)
{
	for (size_t i = 0; i < bytes; i += 8) {
		const uint64_t word = (seed + at + i) * 0x9e3779b97f4a7c15u;

		memcpy(data + i, &word, sizeof word);
	}
}

bool hr_exchange_constant(const uint8_t page[HR_PAGE])
{
	return memcmp(page, page + 8, HR_PAGE - 8) == 0;
}

/*
 * Look at sample pages of the range at `from`. *good: those that are not constant and differ from
 * one another. Small transfers have only the first pages, so the first one must be good.
 */
static int sample(struct hr_exchange_blocks *b, uint64_t from, unsigned samples, uint8_t *page,
		  unsigned *good, struct hr_error *e)
{
	*good = 0;
	for (unsigned i = 0; i < samples; i++) {
		const uint64_t nth = samples > 1 ? (b->most / HR_PAGE - 1) * i / (samples - 1) : 0;
		uint8_t *at = page + (size_t)*good * HR_PAGE;
		const int err = b->blk->ops->read(b->blk, from + nth * HR_PAGE, at, HR_PAGE, e);
		bool same = false;

		if (err)
			return err;
		for (unsigned k = 0; k < *good; k++)
			same |= memcmp(page + (size_t)k * HR_PAGE, at, HR_PAGE) == 0;
		*good += !same && !hr_exchange_constant(at);
		if (!*good)
			break;
	}
	return 0;
}

int hr_exchange_blocks_choose(struct hr_exchange_blocks *b, uint8_t *page, struct hr_error *e)
{
	const uint64_t room = b->blk->bytes - b->most, pages = b->most / HR_PAGE;
	const unsigned samples =
		pages < HR_EXCHANGE_SAMPLES ? (unsigned)pages : HR_EXCHANGE_SAMPLES;
	unsigned best = 0;

	for (unsigned i = 0; i < CANDIDATES && best < samples; i++) {
		const uint64_t from = room / CANDIDATES * i / HR_PAGE * HR_PAGE;
		unsigned good;
		const int err = sample(b, from, samples, page, &good, e);

		hr_tick();
		if (err < 0)
			return err;
		if (err)
			hr_error_clear(e);
		else if (good > best) {
			best = good;
			b->range = from;
		}
	}
	b->good = best == samples;
	return 0;
}

int hr_exchange_blocks_write(struct hr_exchange_blocks *b, uint64_t seed, struct hr_error *e)
{
	hr_exchange_pattern(b->pattern, b->scratch_bytes, seed, 0);
	return b->blk->ops->write(b->blk, b->scratch, b->pattern, b->scratch_bytes, false, e);
}

/* Page of the scratch area that page p of a transfer gets: other neighbours in each lap. */
static uint64_t scratch_page(const struct hr_exchange_blocks *b, uint64_t p)
{
	const uint64_t pages = b->scratch_bytes / HR_PAGE;

	return (p + p / pages) % pages;
}

uint64_t hr_exchange_blocks_at(const struct hr_exchange_blocks *b, uint64_t at, uint64_t bytes,
			       uint64_t *offset)
{
	const uint64_t first = at / HR_PAGE, pages = bytes / HR_PAGE;
	uint64_t n = 1;

	if (!hr_exchange_blocks_scratch(b)) {
		*offset = b->range + at;
		return bytes;
	}
	*offset = b->scratch + scratch_page(b, first) * HR_PAGE;
	while (n < pages && scratch_page(b, first + n) == scratch_page(b, first) + n)
		n++;
	return n * HR_PAGE;
}

int hr_exchange_blocks_expect(struct hr_exchange_blocks *b, uint64_t at, uint8_t *data,
			      size_t bytes, struct hr_error *e)
{
	int err = 0;

	if (!hr_exchange_blocks_scratch(b))
		err = b->blk->ops->read(b->blk, b->range + at, data, bytes, e);
	for (size_t i = 0; !err && i < bytes; i += HR_PAGE) {
		if (hr_exchange_blocks_scratch(b))
			memcpy(data + i, b->pattern + scratch_page(b, (at + i) / HR_PAGE) * HR_PAGE,
			       HR_PAGE);
		b->constant += hr_exchange_constant(data + i);
	}
	return err;
}

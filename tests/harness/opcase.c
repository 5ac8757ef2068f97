/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/harness/opcase.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static void *pages(uint64_t bytes)
{
	void *memory = NULL;

	/* Not rounded up: the sanitizer must see accesses after the tile. */
	cr_assert_eq(posix_memalign(&memory, HR_PAGE, bytes ? bytes : 1), 0);
	return memory;
}

static void run_tile(struct opcase *c, uint64_t t, uint32_t capacity)
{
	struct hr_op_tile tile = { .index = t, .out_capacity = capacity };
	uint8_t *copy[HR_SOURCES_MAX] = { NULL };
	void *state = c->all.state_bytes ? (uint8_t *)(uintptr_t)c->all.states +
						   t % c->workers * c->all.state_bytes
					 : NULL;

	for (uint32_t s = 0; s < c->sources; s++) {
		const uint64_t at = t * c->tile_bytes[s], left = c->bytes[s] - at;

		tile.in_bytes[s] = left < c->tile_bytes[s] ? (uint32_t)left : c->tile_bytes[s];
		copy[s] = pages(tile.in_bytes[s]);
		memcpy(copy[s], (const uint8_t *)c->in[s] + at, tile.in_bytes[s]);
		tile.in[s] = copy[s];
	}
	if (c->all.record_bytes)
		tile.record = (uint8_t *)(uintptr_t)c->all.records + t * c->all.record_bytes;
	if (capacity) {
		tile.out = pages(capacity);
		memset(tile.out, 0xa5, capacity);
	}
	const uint32_t got = hr_op_get(c->op)->tile(c->args, state, &tile);

	cr_assert_leq(got, capacity);
	if (capacity) {
		memcpy(c->out + t * capacity, tile.out, got);
		c->out_bytes += got;
	}
	free(tile.out);
	for (uint32_t s = 0; s < c->sources; s++)
		free(copy[s]);
}

void opcase_run(struct opcase *c)
{
	const struct hr_operator *op = hr_op_get(c->op);
	struct hr_op_all *all = &c->all;
	uint32_t capacity = 0;

	memset(all, 0, sizeof *all);
	all->args = c->args;
	all->bytes = c->bytes[0];
	all->tile_bytes = c->tile_bytes[0];
	all->tiles = (c->bytes[0] + c->tile_bytes[0] - 1) / c->tile_bytes[0];
	all->workers = c->workers;
	all->state_bytes = hr_op_state_bytes(op, c->args);
	all->record_bytes = op->tile_record_bytes;
	all->states = calloc(c->workers, all->state_bytes + 1);
	all->records = calloc(all->tiles + 1, all->record_bytes + 1);
	all->result = calloc(1, HR_OP_RESULT_MAX);
	if (op->output == HR_OUT_DATA)
		capacity = c->tile_bytes[0] / op->out_den * op->out_num;
	c->out = calloc(all->tiles + 1, capacity + 1);
	c->out_bytes = 0;
	cr_assert(all->states && all->records && all->result && c->out);
	for (uint32_t w = 0; w < c->workers; w++)
		op->init(c->args, (uint8_t *)(uintptr_t)all->states + (size_t)w * all->state_bytes);
	for (uint64_t i = 0; i < all->tiles; i++)
		run_tile(c, c->backwards ? all->tiles - 1 - i : i, capacity);
	op->finish(all);
}

void opcase_free(struct opcase *c)
{
	free((void *)(uintptr_t)c->all.states);
	free((void *)(uintptr_t)c->all.records);
	free(c->all.result);
	free(c->out);
}

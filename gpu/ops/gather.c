/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gather: sums rows of f32 vectors, embeddings, at random or given indices.
 *
 * Each computing worker has lookups worker, worker + computers, ... Rows that a cache has are summed
 * in place, the rows of all lanes after one look-up. The others are a software pipeline: while one is
 * summed, the reads of the next `ahead` are in flight. With issuers the requests come from other
 * workers, which only request rows, do not wait for reads, and pass the ids of requests in a ring for
 * each computing worker.
 *
 * Numbers are summed in fixed point, so the sum depends on no order.
 *
 * With several ranks a rank has a part of the lookups; or, when ranks divide the table, all lookups, of
 * which it sums those whose rows it has.
 */
#include "gpu/ops/access_op.h"
#include "gpu/ops/operator.h"
#include "gpu/ops/random.h"

enum { GATHER_TABLE, GATHER_INDICES, GATHER_ROWS, GATHER_OBJECTS };

#define GATHER_AHEAD_MAX 32u
#define GATHER_ROW_MAX 65536u
#define GATHER_ENTRIES 65536u  /* of all rings: above GATHER_AHEAD_MAX for 2048 computing workers */
#define GATHER_LOADS 8u	       /* that a lane has in flight: 4 KiB of a warp */
#define GATHER_FRACTION 20u    /* bits after the point of a sum */
#define GATHER_NUMBER_BITS 16u /* a number is below 2^GATHER_NUMBER_BITS, or not counted */
#define GATHER_ELSEWHERE INT64_MAX /* in place of an id: another rank has the row */

struct hr_gather_args {
	uint64_t seed, lookups;
	uint32_t row_bytes;
	uint32_t ahead, issuers, warm;
	struct hr_zipf zipf;
};

HR_STATIC_ASSERT(sizeof(struct hr_gather_args) <= HR_OP_ARGS_MAX, "arguments have room");

/* State of a worker, and the sum of all, the result. The row of a worker follows. */
struct hr_gather {
	uint64_t sum; /* two's complement, GATHER_FRACTION bits after the point */
	uint64_t lookups;
	uint64_t skipped; /* numbers that are not finite or too large */
	uint64_t run_ns;
};

#define GATHER_WORDS (sizeof(struct hr_gather) / sizeof(uint64_t))

/* An entry of a ring: the id of a request. The issuer writes the id of lap n when `taken` is n. */
struct gather_entry {
	int64_t id;
	uint64_t full;	/* by the issuer (release): n + 1, id is that of lap n */
	uint64_t taken; /* by the computing worker (release): n + 1, it has read that id */
	uint64_t unused;
};

/* A run of one worker; each lane has a copy. */
struct gather_run {
	const struct hr_gather_args *args;
	struct hr_objects *objects;
	const struct hr_object *table, *indices, *rows;
	uint64_t table_rows;	 /* of all ranks */
	uint64_t first_row;	 /* the rows from here on are in the table of this rank, */
	uint64_t held_rows;	 /* that many */
	uint64_t first, lookups; /* of this rank: lookups first .. first + lookups - 1 */
	uint32_t computers;	 /* workers that sum */
	uint32_t entries;	 /* of a ring */
	struct hr_gather *state;
	uint8_t *row; /* memory for one row */
	uint64_t sum, summed, skipped;
};

/* Per lane: the row of lookup number `lookup` of this rank; HR_NO_INDEX for HR_NO_INDEX, or after an
 * error. Collective. */
HR_WORKER uint64_t gather_row_of(struct gather_run *run, uint64_t lookup)
{
	const bool active = lookup != HR_NO_INDEX;
	const uint64_t all = run->first + lookup;
	uint64_t row = HR_NO_INDEX, at;

	if (run->indices) {
		at = active ? all - run->indices->at / sizeof(uint32_t) : HR_NO_INDEX;
		row = hr_get_u32(run->objects, run->indices, at);
		if (hr_access_refuse(run->objects, run->indices,
				     active && row >= run->table_rows ? at : HR_NO_INDEX))
			return HR_NO_INDEX;
	} else if (active) {
		row = hr_zipf_row(
			hr_zipf_rank(&run->args->zipf, run->table_rows, run->args->seed, all),
			run->table_rows);
	}
	return active ? row : HR_NO_INDEX;
}

/* Request a row, the same in all lanes: an id, GATHER_ELSEWHERE, or an error. Collective. */
HR_WORKER int64_t gather_request(struct gather_run *run, uint64_t row)
{
	const uint64_t here = row - run->first_row;

	if (here >= run->held_rows)
		return GATHER_ELSEWHERE;
	return hr_pread_prefetch(run->objects, run->table, here * run->args->row_bytes,
				 run->args->row_bytes);
}

/* A number in fixed point; numbers below 2^-GATHER_FRACTION are 0. Without branches, and without shifts
 * of 64 bits, of which a GPU makes several instructions. */
HR_BOTH int64_t gather_fixed(uint32_t bits, bool *skipped)
{
	const uint32_t exponent = bits >> 23 & 255;
	const int32_t shift = (int32_t)exponent - 150 + (int32_t)GATHER_FRACTION;
	const uint32_t down = shift < 0 ? (uint32_t)-shift : 0;
	const uint32_t mantissa = ((bits & 0x7fffffu) | 0x800000u) >> (down < 31 ? down : 31);
	uint64_t value;

	*skipped = exponent >= 127 + GATHER_NUMBER_BITS;
	value = (uint64_t)mantissa * (*skipped ? 0 : (uint32_t)1 << (shift > 0 ? shift : 0));
	return bits >> 31 ? -(int64_t)value : (int64_t)value;
}

/* Numbers that a lane loads together: state_bytes() keeps rows aligned. */
struct gather_numbers {
	uint32_t bits[4];
} __attribute__((aligned(16)));

HR_WORKER void gather_add(struct gather_run *run, uint32_t bits)
{
	bool skipped;

	run->sum += (uint64_t)gather_fixed(bits, &skipped);
	run->skipped += skipped;
}

HR_WORKER void gather_add_some(struct gather_run *run, const struct gather_numbers *some)
{
	uint32_t k;

	for (k = 0; k < 4; k++)
		gather_add(run, some->bits[k]);
}

/* Add the numbers of a row; each lane adds a part. */
HR_WORKER void gather_sum(struct gather_run *run, const uint8_t *row)
{
	const struct gather_numbers *numbers = (const struct gather_numbers *)(const void *)row;
	const uint32_t *word = (const uint32_t *)(const void *)row;
	const uint32_t words = run->args->row_bytes / (uint32_t)sizeof(*word);
	const uint32_t whole = (uintptr_t)row % sizeof(*numbers) ? 0 : words / 4;
	struct gather_numbers some[GATHER_LOADS];
	uint32_t i, k;

	for (i = hr_lane(); i + (GATHER_LOADS - 1) * HR_LANES < whole;
	     i += GATHER_LOADS * HR_LANES) {
		for (k = 0; k < GATHER_LOADS; k++)
			some[k] = numbers[i + k * HR_LANES];
		for (k = 0; k < GATHER_LOADS; k++)
			gather_add_some(run, &some[k]);
	}
	for (; i < whole; i += HR_LANES)
		gather_add_some(run, &numbers[i]);
	for (i = whole * 4 + hr_lane(); i < words; i += HR_LANES)
		gather_add(run, word[i]);
}

/* Sum those rows of the lanes that are in one page and that a cache has, in place. Returns their lanes.
 * Collective. */
HR_WORKER hr_mask gather_in_place(struct gather_run *run, uint64_t row)
{
	const uint64_t at = (row - run->first_row) * run->args->row_bytes;
	const uint32_t page_bytes = hr_page_bytes(run->objects);
	const uint32_t in_page = (uint32_t)at % page_bytes;
	const bool fits = row - run->first_row < run->held_rows &&
			  in_page + run->args->row_bytes <= page_bytes;
	const uint8_t *page = (const uint8_t *)hr_page_try(run->objects, run->table,
							   fits ? at / page_bytes : HR_NO_INDEX);
	const hr_mask found = hr_ballot(page != NULL);
	hr_mask left;

	for (left = found; left; left &= left - 1) {
		gather_sum(run, (const uint8_t *)(uintptr_t)hr_shfl_u64((uintptr_t)page + in_page,
									hr_lowest_bit(left)));
		run->summed++;
	}
	hr_quiescent(run->objects);
	return found;
}

/* Write the row of lookup `lookup` of this rank. False after an error. Collective. */
HR_WORKER bool gather_store(struct gather_run *run, uint64_t lookup)
{
	const uint32_t bytes = run->args->row_bytes;

	return hr_pwrite(run->objects, run->rows, (run->first + lookup) * bytes - run->rows->at,
			 run->row, bytes) >= 0;
}

/* Consume a request of lookup `lookup`: sum the row, and keep it. False after an error.
 * Collective. */
HR_WORKER bool gather_consume(struct gather_run *run, int64_t id, uint64_t lookup)
{
	const uint32_t bytes = run->args->row_bytes;

	if (id == GATHER_ELSEWHERE)
		return true;
	if (hr_consume_prefetch_pread(run->objects, id, run->row, bytes) < 0)
		return false;
	hr_lanes_sync();
	gather_sum(run, run->row);
	run->summed++;
	hr_lanes_sync();
	return !run->rows || gather_store(run, lookup);
}

/* Number of lookups of one of the computing workers. */
HR_WORKER uint64_t gather_share(const struct gather_run *run, uint32_t computer)
{
	const uint64_t lookups = run->lookups;

	return computer < lookups ? (lookups - computer - 1) / run->computers + 1 : 0;
}

/* A request that is not consumed yet. */
struct gather_pending {
	int64_t id;
	uint64_t lookup;
};

/* The software pipeline of one worker without issuers. Rows are drawn and looked up for all lanes at
 * once; those that no cache has are requested, `ahead` of them before the one that is consumed next.
 * Collective. */
HR_WORKER void gather_pipeline(struct gather_run *run)
{
	const uint32_t worker = run->objects->worker, ahead = run->args->ahead;
	const uint64_t share = gather_share(run, worker);
	struct gather_pending pending[GATHER_AHEAD_MAX + 1];
	uint64_t next = 0, row = 0, asked = 0, q;
	hr_mask found = 0;

	for (q = 0; q < asked || next < share; q++) {
		for (; next < share && asked <= q + ahead; next++) {
			struct gather_pending *last = &pending[asked % (ahead + 1)];
			const uint64_t mine = next + hr_lane();

			if (next % HR_LANES == 0) {
				row = gather_row_of(run, mine < share
								 ? mine * run->computers + worker
								 : HR_NO_INDEX);
				found = run->rows ? 0 : gather_in_place(run, row);
			}
			if (hr_access_failed(run->objects))
				return;
			if (found >> next % HR_LANES & 1)
				continue;
			last->id = gather_request(run, hr_shfl_u64(row, next % HR_LANES));
			last->lookup = next * run->computers + worker;
			asked += last->id != GATHER_ELSEWHERE;
		}
		if (q < asked && !gather_consume(run, pending[q % (ahead + 1)].id,
						 pending[q % (ahead + 1)].lookup))
			return;
	}
}

HR_WORKER struct gather_entry *gather_entry_of(const struct gather_run *run, uint32_t computer,
					       uint64_t q)
{
	struct gather_entry *entry = (struct gather_entry *)(void *)run->objects->scratch;

	return &entry[(uint64_t)computer * run->entries + q % run->entries];
}

/* Wait until the word has that value. False when the run ends meanwhile. Collective. */
HR_WORKER bool gather_await(struct gather_run *run, const uint64_t *word, uint64_t value)
{
	uint32_t spins = 0;

	while (hr_shfl_u64(hr_poll_u64(word), 0) != value)
		if (hr_access_wait(run->objects, &spins))
			return false;
	hr_polled(word);
	return true;
}

/* Issuer: request a row for a computing worker. False when the run ends. Collective. */
HR_WORKER bool gather_hand_over(struct gather_run *run, uint32_t computer, uint64_t q, uint64_t row)
{
	struct gather_entry *entry = gather_entry_of(run, computer, q);
	int64_t id;

	if (!gather_await(run, &entry->taken, q / run->entries))
		return false;
	id = gather_request(run, row);
	if (id < 0)
		return false;
	if (hr_lane() == 0) {
		entry->id = id;
		hr_release_u64(&entry->full, q / run->entries + 1);
	}
	hr_lanes_sync();
	return true;
}

/* An issuer. It serves its computing workers in groups of HR_LANES, one group after another, so
 * that each worker has its next requests. Collective. */
HR_WORKER void gather_issue(struct gather_run *run)
{
	const uint64_t lookups = run->lookups;
	const uint32_t step = run->args->issuers * HR_LANES;
	uint64_t q;
	uint32_t first, i;

	for (q = 0; q * run->computers < lookups; q++)
		for (first = run->objects->worker * HR_LANES; first < run->computers;
		     first += step) {
			const uint64_t mine = q * run->computers + first + hr_lane();
			const bool active = first + hr_lane() < run->computers && mine < lookups;
			const uint64_t row = gather_row_of(run, active ? mine : HR_NO_INDEX);

			if (hr_access_failed(run->objects))
				return;
			for (i = 0; i < HR_LANES; i++) {
				const uint64_t its = hr_shfl_u64(row, i);

				if (its != HR_NO_INDEX && !gather_hand_over(run, first + i, q, its))
					return;
			}
		}
}

/* A computing worker with issuers. Collective. */
HR_WORKER void gather_compute(struct gather_run *run)
{
	const uint32_t computer = run->objects->worker - run->args->issuers;
	const uint64_t share = gather_share(run, computer);
	uint64_t q;

	for (q = 0; q < share; q++) {
		struct gather_entry *entry = gather_entry_of(run, computer, q);
		int64_t id;

		if (!gather_await(run, &entry->full, q / run->entries + 1))
			return;
		id = (int64_t)hr_shfl_u64(hr_lane() == 0 ? (uint64_t)entry->id : 0, 0);
		if (hr_lane() == 0)
			hr_release_u64(&entry->taken, q / run->entries + 1);
		hr_lanes_sync();
		if (!gather_consume(run, id, q * run->computers + computer))
			return;
	}
}

/* The lookups and the rows of this rank. */
HR_WORKER void gather_set_ranks(struct gather_run *run)
{
	const struct hr_gather_args *args = run->args;
	struct hr_items items;

	run->table_rows = hr_all_bytes(run->table) / args->row_bytes;
	run->first_row = run->table->at / args->row_bytes;
	run->held_rows = run->table->bytes / args->row_bytes;
	if (run->indices && run->indices->divided)
		items = hr_rank_items(run->objects, run->indices, sizeof(uint32_t), args->lookups);
	else
		items = hr_rank_items(run->objects, run->rows, args->row_bytes, args->lookups);
	run->first = run->table->divided ? 0 : items.first;
	run->lookups = run->table->divided ? args->lookups : items.end - items.first;
}

/* False: there are not enough workers for the issuers. */
HR_WORKER bool gather_set(struct gather_run *run, const struct hr_gather_args *args, void *state,
			  struct hr_objects *objects)
{
	run->args = args;
	run->objects = objects;
	run->table = hr_get_object_map(objects, GATHER_TABLE);
	run->indices = hr_get_object_map(objects, GATHER_INDICES);
	run->rows = hr_get_object_map(objects, GATHER_ROWS);
	gather_set_ranks(run);
	run->state = (struct hr_gather *)state;
	run->row = (uint8_t *)(run->state + 1);
	run->sum = run->summed = run->skipped = 0;
	if (args->issuers >= objects->workers) {
		objects->error = -EINVAL;
		return false;
	}
	run->computers = objects->workers - args->issuers;
	run->entries = GATHER_ENTRIES / run->computers;
	run->entries = args->ahead < run->entries ? args->ahead : run->entries;
	return true;
}

/* Add the parts of the lanes to the state. Collective. */
HR_WORKER void gather_keep(struct gather_run *run, uint64_t run_ns)
{
	const uint64_t sum = hr_lanes_sum_u64(run->sum);
	const uint64_t skipped = hr_lanes_sum_u64(run->skipped);

	if (hr_lane() != 0)
		return;
	run->state->sum = sum;
	run->state->lookups = run->summed;
	run->state->skipped = skipped;
	run->state->run_ns = run_ns;
}

HR_OP_CODE void hr_operator_run(const void *args, void *state, struct hr_objects *objects)
{
	const struct hr_gather_args *a = (const struct hr_gather_args *)args;
	struct gather_run run;
	uint64_t start;

	if (!gather_set(&run, a, state, objects))
		return;
	if (a->warm)
		hr_access_warm(objects, run.table);
	start = hr_access_begin(objects);
	if (a->issuers == 0)
		gather_pipeline(&run);
	else if (objects->worker < a->issuers)
		gather_issue(&run);
	else
		gather_compute(&run);
	gather_keep(&run, hr_access_end(objects, start));
}

HR_OP_CODE void hr_operator_finish(const struct hr_op_all *all)
{
	hr_access_sum(all, GATHER_WORDS);
	hr_access_longest(all, offsetof(struct hr_gather, run_ns) / sizeof(uint64_t));
}

#ifdef HR_OP_CPU /* the rest is the description, for the CPU */

#include <errno.h>
#include <math.h>
#include <stdio.h>

#include "gpu/ops/args.h"

/* What ranks divide: rows of the table, or lookups. */
enum { GATHER_OF_TABLE = 1, GATHER_OF_LOOKUPS };

static const struct hr_op_object object[GATHER_OBJECTS] = {
	[GATHER_TABLE] = { .name = "table",
			   .help = "f32: rows of `row` bytes",
			   .columns = GATHER_OF_TABLE },
	[GATHER_INDICES] = { .name = "indices",
			     .help = "u32: element i is the row of lookup i",
			     .optional = true,
			     .columns = GATHER_OF_LOOKUPS },
	[GATHER_ROWS] = { .name = "rows",
			  .help = "f32: receives the row of each lookup, in their order",
			  .writes = true,
			  .optional = true,
			  .columns = GATHER_OF_LOOKUPS },
};

static uint32_t row_bytes(const void *args, uint32_t i)
{
	return i == GATHER_INDICES ? sizeof(uint32_t)
				   : ((const struct hr_gather_args *)args)->row_bytes;
}

static int parse(const struct hr_op_arg *arg, uint32_t count, void *args,
		 void (*complain)(void *to, unsigned line, const char *text), void *to)
{
	static const char *const names[] = { "row",   "lookups", "zipf", "seed",
					     "ahead", "issuers", "warm" };
	struct hr_args given = { arg, count, complain, to, false };
	struct hr_gather_args *gather = args;

	hr_args_known(&given, names, sizeof names / sizeof *names);
	gather->row_bytes = (uint32_t)hr_args_int(&given, "row", 4, GATHER_ROW_MAX);
	gather->lookups = (uint64_t)hr_args_int(&given, "lookups", 1, INT32_MAX);
	gather->seed = (uint64_t)hr_args_int_or(&given, "seed", 0, INT32_MAX, 1);
	gather->ahead = (uint32_t)hr_args_int_or(&given, "ahead", 1, GATHER_AHEAD_MAX, 2);
	gather->issuers = (uint32_t)hr_args_int_or(&given, "issuers", 0, INT16_MAX, 0);
	gather->warm = (uint32_t)hr_args_int_or(&given, "warm", 0, 1, 0);
	hr_zipf_init(&gather->zipf, hr_args_real_or(&given, "zipf", 0, 8, 0));
	if (gather->row_bytes % sizeof(float))
		hr_args_error(&given, 0, "row: %u is not a multiple of 4 bytes", gather->row_bytes);
	return given.bad ? -EINVAL : (int)sizeof *gather;
}

/* Check the length of an object; bytes: the required length. */
static int check_length(const uint64_t *object_bytes, uint32_t i, uint64_t bytes,
			void (*complain)(void *to, unsigned object, const char *text), void *to)
{
	char text[128];

	if (!object_bytes[i] || object_bytes[i] >= bytes)
		return 0;
	snprintf(text, sizeof text, "has %llu bytes, expected at least %llu for these lookups",
		 (unsigned long long)object_bytes[i], (unsigned long long)bytes);
	complain(to, i, text);
	return -EINVAL;
}

static int check(const void *args, const uint64_t *object_bytes,
		 void (*complain)(void *to, unsigned object, const char *text), void *to)
{
	const struct hr_gather_args *gather = args;
	const uint64_t rows = object_bytes[GATHER_TABLE] / gather->row_bytes;
	int err = 0;

	if (rows == 0 || rows > UINT32_MAX || object_bytes[GATHER_TABLE] % gather->row_bytes ||
	    rows % HR_ZIPF_SPREAD == 0) {
		complain(to, GATHER_TABLE, "expected 1 to 4294967295 rows of the length 'row'");
		err = -EINVAL;
	}
	if (check_length(object_bytes, GATHER_INDICES, gather->lookups * sizeof(uint32_t), complain,
			 to))
		err = -EINVAL;
	if (check_length(object_bytes, GATHER_ROWS, gather->lookups * gather->row_bytes, complain,
			 to))
		err = -EINVAL;
	return err;
}

static uint64_t scratch_bytes(const void *args, const uint64_t *object_bytes)
{
	return ((const struct hr_gather_args *)args)->issuers
		       ? GATHER_ENTRIES * sizeof(struct gather_entry)
		       : 0;
}

static uint32_t state_bytes(const void *args)
{
	const uint32_t row = ((const struct hr_gather_args *)args)->row_bytes;

	return (uint32_t)sizeof(struct hr_gather) + (row + 15) / 16 * 16;
}

static void report(const struct hr_op_all *all, const struct hr_op_report *to)
{
	const struct hr_gather *gather = all->result;

	to->u64(to, "lookups", gather->lookups);
	to->real(to, "sum", ldexp((double)(int64_t)gather->sum, -(int)GATHER_FRACTION));
	to->i64(to, "sum_fixed", (int64_t)gather->sum);
	to->u64(to, "skipped", gather->skipped);
	to->u64(to, "run_ns", gather->run_ns);
	to->real(to, "lookups_per_s",
		 gather->run_ns ? (double)gather->lookups * 1e9 / (double)gather->run_ns : 0);
}

HR_ACCESS_OPERATOR(.name = "gather",
		   .help = "Sum of rows of f32 (embeddings). Objects: table (rows of `row` "
			   "bytes); indices (u32, optional: row\n  of each lookup); rows "
			   "(optional: receives the row of each lookup). Arguments: row (bytes, a"
			   "\n  multiple of 4), lookups, zipf (exponent of the distribution of "
			   "rows without indices, 0 to 8; 0:\n  all rows alike), seed (1), ahead "
			   "(rows that a worker requests before it needs them, 1 to 32; 2),\n  "
			   "issuers (workers that only request rows, for all others, fewer than "
			   "all; 0), warm (1: read the\n  table into the cache before the time is "
			   "taken; 0). Result: the sum of all numbers, exact to 2^-20\n  each "
			   "(also as a whole number of these, modulo 2^64), and how many were "
			   "skipped: not finite, or\n  65536 and more.",
		   .output = HR_OUT_NONE, .parse = parse, .state_bytes = state_bytes,
		   .several_gpus = true, .several_ranks = true, .row_bytes = row_bytes,
		   .object = object, .objects = GATHER_OBJECTS, .check = check,
		   .scratch_bytes = scratch_bytes, .report = report);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * join: the probe of a hash join. The build side is a hash table in an object: buckets of key and
 * payload, open addressing, linear probing. A key starts at the bucket of its hash; a bucket with key 0
 * ends the search. Several buckets may hold the same key: each is a match.
 *
 * A lane takes its next key when a search ends, so lanes do not wait for the longest search.
 */
#include "gpu/ops/access_op.h"
#include "gpu/ops/operator.h"
#include "gpu/ops/random.h"

enum { JOIN_TABLE, JOIN_KEYS, JOIN_OBJECTS };

struct hr_join_args {
	uint32_t warm;
};

/* In the object: little-endian. */
struct hr_join_bucket {
	uint64_t key, payload; /* key 0: empty */
};

/* State of a worker, and the sum of all, the result. */
struct hr_join {
	uint64_t keys, matches;
	uint64_t payload_sum; /* of all matches, modulo 2^64 */
	uint64_t buckets;     /* buckets read */
	uint64_t run_ns;
};

#define JOIN_WORDS (sizeof(struct hr_join) / sizeof(uint64_t))

/* The search of one lane. */
struct join_lane {
	uint64_t next;	 /* the next of its keys, */
	uint64_t end;	 /* before this one */
	uint64_t key;	 /* 0: none */
	uint64_t bucket; /* to look at */
	uint64_t looked; /* buckets for this key */
	struct hr_join sum;
};

/* The bucket where the search for a key starts. */
HR_BOTH uint64_t hr_join_first_bucket(uint64_t key, uint64_t buckets)
{
	return hr_high_u64(hr_mix_u64(key), buckets);
}

/* Lanes without a key take their next ones. Key 0 matches nothing. Collective. */
HR_WORKER void join_take(struct hr_objects *objects, const struct hr_object *keys, uint64_t buckets,
			 struct join_lane *lane)
{
	const bool wants = lane->key == 0 && lane->next < lane->end;
	uint64_t key;

	if (!hr_ballot(wants))
		return;
	key = hr_get_u64(objects, keys, wants ? lane->next : HR_NO_INDEX);
	if (!wants)
		return;
	lane->next += (uint64_t)objects->workers * HR_LANES;
	lane->key = key;
	lane->bucket = hr_join_first_bucket(key, buckets);
	lane->looked = 0;
	lane->sum.keys++;
}

/* Each lane with a key reads one bucket. False after an error. Collective. */
HR_WORKER bool join_look(struct hr_objects *objects, const struct hr_object *table,
			 uint64_t buckets, struct join_lane *lane)
{
	const bool busy = lane->key != 0;
	const uint64_t found = hr_get_u64(objects, table, busy ? 2 * lane->bucket : HR_NO_INDEX);
	const bool match = busy && found == lane->key;
	const bool endless = busy && found != 0 && lane->looked + 1 >= buckets;
	uint64_t payload;

	if (hr_access_refuse(objects, table, endless ? 2 * lane->bucket : HR_NO_INDEX))
		return false;
	if (hr_ballot(match)) {
		payload = hr_get_u64(objects, table, match ? 2 * lane->bucket + 1 : HR_NO_INDEX);
		lane->sum.payload_sum += match ? payload : 0;
		lane->sum.matches += match;
	}
	lane->sum.buckets += busy;
	lane->looked++;
	lane->bucket = lane->bucket + 1 < buckets ? lane->bucket + 1 : 0;
	if (found == 0)
		lane->key = 0;
	return !hr_access_failed(objects);
}

/* Probe the keys of this worker, of those of this rank. Collective. */
HR_WORKER void join_probe(struct hr_objects *objects, struct hr_join *sum)
{
	const struct hr_object *table = hr_get_object_map(objects, JOIN_TABLE);
	const struct hr_object *keys = hr_get_object_map(objects, JOIN_KEYS);
	const uint64_t buckets = table->bytes / sizeof(struct hr_join_bucket);
	const uint64_t at = keys->at / sizeof(uint64_t);
	const struct hr_items items = hr_rank_items(objects, keys, sizeof(uint64_t),
						    hr_all_bytes(keys) / sizeof(uint64_t));
	struct join_lane lane;

	hr_zero_bytes(&lane, sizeof(lane));
	lane.next = items.first - at + (uint64_t)objects->worker * HR_LANES + hr_lane();
	lane.end = items.end - at;
	while (hr_ballot(lane.key != 0 || lane.next < lane.end)) {
		join_take(objects, keys, buckets, &lane);
		if (!join_look(objects, table, buckets, &lane))
			break;
	}
	*sum = lane.sum;
}

HR_OP_CODE void hr_operator_run(const void *args, void *state, struct hr_objects *objects)
{
	const struct hr_join_args *a = (const struct hr_join_args *)args;
	uint64_t *word = (uint64_t *)state;
	struct hr_join sum;
	uint64_t *part = (uint64_t *)(void *)&sum;
	uint64_t start;
	uint32_t i;

	if (a->warm) {
		hr_access_warm(objects, hr_get_object_map(objects, JOIN_TABLE));
		hr_access_warm(objects, hr_get_object_map(objects, JOIN_KEYS));
	}
	start = hr_access_begin(objects);
	join_probe(objects, &sum);
	sum.run_ns = hr_access_end(objects, start);
	sum.run_ns = hr_lane() == 0 ? sum.run_ns : 0;
	for (i = 0; i < JOIN_WORDS; i++) {
		const uint64_t all = hr_lanes_sum_u64(part[i]);

		if (hr_lane() == 0)
			word[i] = all;
	}
}

HR_OP_CODE void hr_operator_finish(const struct hr_op_all *all)
{
	hr_access_sum(all, JOIN_WORDS);
	hr_access_longest(all, offsetof(struct hr_join, run_ns) / sizeof(uint64_t));
}

#ifdef HR_OP_CPU /* the rest is the description, for the CPU */

#include <errno.h>

#include "gpu/ops/args.h"

static const struct hr_op_object object[JOIN_OBJECTS] = {
	[JOIN_TABLE] = { .name = "table",
			 .help = "build side, a hash table: buckets of key and payload, u64 each" },
	[JOIN_KEYS] = { .name = "keys", .help = "probe side: u64, none of them 0", .columns = 1 },
};

static uint32_t row_bytes(const void *args, uint32_t i)
{
	return sizeof(uint64_t);
}

static int parse(const struct hr_op_arg *arg, uint32_t count, void *args,
		 void (*complain)(void *to, unsigned line, const char *text), void *to)
{
	static const char *const names[] = { "warm" };
	struct hr_args given = { arg, count, complain, to, false };
	struct hr_join_args *join = args;

	hr_args_known(&given, names, sizeof names / sizeof *names);
	join->warm = (uint32_t)hr_args_int_or(&given, "warm", 0, 1, 0);
	return given.bad ? -EINVAL : (int)sizeof *join;
}

static int check(const void *args, const uint64_t *object_bytes,
		 void (*complain)(void *to, unsigned object, const char *text), void *to)
{
	int err = 0;

	if (object_bytes[JOIN_TABLE] == 0 ||
	    object_bytes[JOIN_TABLE] % sizeof(struct hr_join_bucket)) {
		complain(to, JOIN_TABLE, "expected one bucket or more: a multiple of 16 bytes");
		err = -EINVAL;
	}
	if (object_bytes[JOIN_KEYS] % sizeof(uint64_t)) {
		complain(to, JOIN_KEYS, "expected u64: a multiple of 8 bytes");
		err = -EINVAL;
	}
	return err;
}

static uint32_t state_bytes(const void *args)
{
	return sizeof(struct hr_join);
}

static void report(const struct hr_op_all *all, const struct hr_op_report *to)
{
	const struct hr_join *join = all->result;

	to->u64(to, "keys", join->keys);
	to->u64(to, "matches", join->matches);
	to->u64(to, "payload_sum", join->payload_sum);
	to->u64(to, "buckets", join->buckets);
	to->u64(to, "run_ns", join->run_ns);
	to->real(to, "keys_per_s",
		 join->run_ns ? (double)join->keys * 1e9 / (double)join->run_ns : 0);
}

HR_ACCESS_OPERATOR(
		.name = "join",
		.help = "Probe of a hash join. Objects: table (build side: buckets of key and "
			"payload, u64 each; key 0 is an\n  empty bucket; a key is in the buckets "
			"from mix(key) * buckets / 2^64 on, without an empty bucket between;\n  "
			"gpu/ops/random.h defines mix), keys (probe side: u64, not 0). "
			"Argument: warm (1: read both objects\n  into the cache before the "
			"time is taken; 0). Result: number of keys, of matches and of buckets "
			"that\n  were looked at, and the sum of the payloads of all matches, "
			"modulo 2^64.",
		.output = HR_OUT_NONE, .parse = parse, .state_bytes = state_bytes,
		.several_gpus = true, .several_ranks = true, .row_bytes = row_bytes,
		.object = object, .objects = JOIN_OBJECTS, .check = check, .report = report);

#endif

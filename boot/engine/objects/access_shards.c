/* SPDX-License-Identifier: Apache-2.0 */
#include "boot/engine/objects/shards.h"

#include <errno.h>

#include "boot/engine/objects/new_objects.h"

#define REFUSE(engine, run, k, format, ...)                                                        \
	hr_error_add(&(engine)->error, HR_ERROR_USAGE, -EINVAL,                                    \
		     "%s:%u: object '%s', as '%s' of operator %s, " format, (engine)->config.file, \
		     (run)->config->object[k].line, (run)->config->object[k].object,               \
		     (run)->config->op->object[k].name, (run)->config->op->name, __VA_ARGS__)

void hr_run_object_set(struct hr_run_object *to, const struct hr_store_object *object)
{
	to->bytes = object->bytes;
	to->is_shard = object->flags & HR_OBJECT_SHARD;
	if (to->is_shard)
		to->shard = object->shard;
}

void hr_run_object_set_of(struct hr_run_object *to, const struct hr_run *maker,
			  const struct hr_config_object *object)
{
	to->bytes = hr_new_object_bytes(maker, object);
	to->is_shard = hr_new_object_shard(maker, object, &to->shard);
}

/* ---- what a rank has of the rows of the operator */

/* Rows first .. end - 1 of `all` rows. */
struct rows {
	uint64_t first, end, all;
};

static uint32_t row_bytes(const struct hr_run *run, uint32_t k)
{
	return hr_op_row_bytes(run->config->op, run->config->op_args, k);
}

static struct rows rows_of(const struct hr_run *run, uint32_t k)
{
	const struct hr_run_object *object = &run->object[k];
	const uint64_t row = row_bytes(run, k);

	return (struct rows){ hr_run_object_at(object) / row,
			      (hr_run_object_at(object) + object->bytes) / row,
			      hr_run_object_all(object) / row };
}

/* Object k is a shard, and a rank has whole rows of it. */
static int check_shard(struct hr_engine *engine, const struct hr_run *run, uint32_t k)
{
	const struct hr_run_object *object = &run->object[k];
	const uint32_t row = row_bytes(run, k);

	if (!run->config->op->object[k].columns)
		return REFUSE(
			engine, run, k,
			"is shard %u of %u of a data set; expected the whole object on every rank, "
			"because the operator cannot divide it",
			object->shard.index, object->shard.last + 1u);
	if (hr_run_object_at(object) % row || object->bytes % row ||
	    hr_run_object_all(object) % row)
		return REFUSE(
			engine, run, k,
			"is a shard of %llu bytes from byte %llu on, of %llu bytes; expected whole "
			"rows of %u bytes",
			(unsigned long long)object->bytes,
			(unsigned long long)hr_run_object_at(object),
			(unsigned long long)hr_run_object_all(object), row);
	return 0;
}

/* Objects j and k are divided; *j < 0: j is the first of them. */
static int check_pair(struct hr_engine *engine, const struct hr_run *run, int j, uint32_t k)
{
	const struct hr_operator *op = run->config->op;
	struct rows a, b;

	if (j < 0)
		return 0;
	if (op->object[j].columns != op->object[k].columns)
		return REFUSE(engine, run, k,
			      "is divided over ranks, and '%s' is, too; the operator can divide "
			      "one of them",
			      op->object[j].name);
	a = rows_of(run, (uint32_t)j);
	b = rows_of(run, k);
	if (a.first == b.first && a.end == b.end && a.all == b.all)
		return 0;
	return REFUSE(
		engine, run, k,
		"has %llu rows from row %llu on, of %llu rows, but '%s' has %llu from row %llu "
		"on, of %llu; expected the same rows",
		(unsigned long long)(b.end - b.first), (unsigned long long)b.first,
		(unsigned long long)b.all, op->object[j].name,
		(unsigned long long)(a.end - a.first), (unsigned long long)a.first,
		(unsigned long long)a.all);
}

/* ---- new objects */

/* A share of the rows, of about equal size on all ranks. */
static struct rows share(const struct hr_run *run, uint64_t all)
{
	const unsigned __int128 rows = all;

	return (struct rows){ (uint64_t)(rows * run->part / run->parts),
			      (uint64_t)(rows * (run->part + 1ull) / run->parts), all };
}

/* Object k becomes a shard: with the same rows as object j, or, with j < 0, a share. */
static int divide_new(struct hr_engine *engine, struct hr_run *run, int j, uint32_t k)
{
	struct hr_run_object *object = &run->object[k];
	const uint32_t row = row_bytes(run, k);
	const uint64_t all = run->config->object[k].bytes / row;
	struct rows rows;

	if (!run->config->op->object[k].columns)
		return REFUSE(engine, run, k, "is written, and %u ranks cannot divide it",
			      run->parts);
	if (run->config->object[k].bytes % row)
		return REFUSE(engine, run, k, "has %llu bytes, expected whole rows of %u bytes",
			      (unsigned long long)run->config->object[k].bytes, row);
	rows = j < 0 ? share(run, all) : rows_of(run, (uint32_t)j);
	if (rows.all != all)
		rows = (struct rows){ 0, all, all }; /* check_pair() names the difference */
	object->bytes = (rows.end - rows.first) * row;
	object->is_shard = true;
	object->shard = (struct hr_store_shard){ .first_row = rows.first,
						 .rows = all,
						 .row_bytes = row,
						 .index = (uint16_t)run->part,
						 .last = (uint16_t)(run->parts - 1) };
	return 0;
}

static int divide(struct hr_engine *engine, struct hr_run *run, uint32_t k, bool created,
		  int *first)
{
	const struct hr_config_object *config = &run->config->object[k];
	int err = 0;

	if (!run->object[k].used || (config->bytes > 0) != created)
		return 0;
	if (created)
		err = divide_new(engine, run, *first, k);
	else if (run->object[k].is_shard)
		err = check_shard(engine, run, k);
	else if (config->writes)
		err = REFUSE(engine, run, k,
			     "is whole on each of %u ranks, which would change copies of it; "
			     "expected a shard, or a new object",
			     run->parts);
	if (!err && run->object[k].is_shard)
		err = check_pair(engine, run, *first, k);
	if (!err && run->object[k].is_shard && *first < 0)
		*first = (int)k;
	return err;
}

int hr_access_divide(struct hr_engine *engine, struct hr_run *run)
{
	int err = 0, first = -1;

	for (uint32_t k = 0; !hr_run_is_divided(run) && k < run->config->objects; k++)
		if (run->object[k].is_shard)
			err = hr_shard_refuse(engine, &run->config->object[k],
					      &run->object[k].shard, run->object[k].bytes);
	/* new objects get the rows of those that exist */
	for (int created = 0; hr_run_is_divided(run) && created < 2; created++)
		for (uint32_t k = 0; !err && k < run->config->objects; k++)
			err = divide(engine, run, k, created, &first);
	return err;
}

uint64_t hr_run_object_data_set(const struct hr_engine *engine, const struct hr_run *run,
				uint32_t k)
{
	const struct hr_run_object *object = &run->object[k];
	const struct hr_store_object *stored;

	if (!object->used || run->config->object[k].bytes)
		return 0;
	if (object->writer >= 0 && engine->run[object->writer].selected)
		return engine->run[object->writer].data_set;
	if (object->is_shard)
		return object->shard.set;
	stored = hr_store_find_id(&engine->ssd[run->config->object[k].ssd].store, object->id);
	return stored && stored->flags & HR_OBJECT_HAS_CRC ? stored->crc : 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/objects.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/sim/command.h"

void sim_objects_open(struct sim_objects *objects, const struct sim_plan *plan)
{
	memset(objects, 0, sizeof *objects);
	objects->plan = plan;
	for (unsigned i = 0; i < SIM_OBJECTS; i++)
		objects->versions[i].acknowledged = SIM_VERSIONS;
}

static uint32_t number_of(uint64_t seed, size_t i)
{
	struct fake_random random = { .state = (seed ^ i * 0x9e3779b97f4a7c15ull) | 1 };

	fake_random_u64(&random);
	return (uint32_t)(fake_random_u64(&random) >> 32);
}

/* Small whole numbers, which are exact as f32. */
static void fill_table(uint8_t *data, uint64_t seed, size_t bytes)
{
	for (size_t i = 0; i < bytes / sizeof(float); i++) {
		const float number = (float)(number_of(seed, i) % 60000);

		memcpy(data + i * sizeof number, &number, sizeof number);
	}
}

static void fill_indices(uint8_t *data, uint64_t seed, size_t bytes, uint32_t rows)
{
	for (size_t i = 0; i < bytes / sizeof(uint32_t); i++) {
		const uint32_t row = number_of(seed, i) % rows;

		memcpy(data + i * sizeof row, &row, sizeof row);
	}
}

void sim_objects_fill(const struct sim_plan *plan, unsigned object, uint8_t *data, uint64_t seed,
		      size_t bytes)
{
	struct fake_random random = { .state = seed | 1 };
	const struct sim_object *o = &plan->object[object];

	if (o->content == SIM_TABLE)
		fill_table(data, seed, bytes);
	else if (o->content == SIM_INDICES)
		fill_indices(data, seed, bytes, plan->pipeline[o->gather].table_rows);
	else if (o->content == SIM_ROWS)
		memset(data, 0, bytes);
	else
		fake_random_fill(&random, data, bytes);
}

void sim_objects_feed(struct sim_objects *objects, unsigned object, uint64_t number)
{
	struct sim_versions *v = &objects->versions[object];

	v->seed[0] = number;
	v->bytes[0] = sim_plan_length(objects->plan, object, number);
	v->count = 1;
	v->acknowledged = 0;
}

void sim_objects_begin(struct sim_objects *objects, unsigned object, uint64_t number,
		       const char *file)
{
	struct sim_versions *v = &objects->versions[object];
	static uint8_t data[SIM_BYTES_MAX + 8];
	int fd;

	if (v->count == SIM_VERSIONS)
		sim_fault("too many versions of object %u", object);
	v->seed[v->count] = number;
	v->bytes[v->count] = sim_plan_length(objects->plan, object, number);
	sim_objects_fill(objects->plan, object, data, number, v->bytes[v->count]);
	fd = open(file, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (fd < 0 || write(fd, data, v->bytes[v->count]) != (ssize_t)v->bytes[v->count])
		sim_fault("cannot write %s", file);
	close(fd);
	v->count++;
}

void sim_objects_acknowledge(struct sim_objects *objects, unsigned object)
{
	objects->versions[object].acknowledged = objects->versions[object].count - 1;
}

unsigned sim_objects_source(const struct sim_plan *plan, unsigned object)
{
	unsigned i = 0;

	if (plan->object[object].is_source)
		return object;
	while (plan->pipeline[i].to != object)
		i++;
	return sim_objects_source(plan, plan->pipeline[i].from);
}

static ssize_t read_file(const char *file, uint8_t *data, size_t bytes)
{
	const int fd = open(file, O_RDONLY);
	const ssize_t n = fd < 0 ? -1 : read(fd, data, bytes);

	if (fd >= 0)
		close(fd);
	return n;
}

bool sim_objects_begins(const struct sim_objects *objects, unsigned object, const void *data,
			size_t bytes)
{
	const unsigned source = sim_objects_source(objects->plan, object);
	const struct sim_versions *v = &objects->versions[source];
	static uint8_t want[SIM_BYTES_MAX + 8];

	if (objects->plan->object[object].content == SIM_ROWS || bytes == 0)
		return true;
	for (unsigned i = v->count; i-- > 0;) {
		if (bytes > v->bytes[i])
			continue;
		sim_objects_fill(objects->plan, source, want, v->seed[i], v->bytes[i]);
		if (memcmp(data, want, bytes) == 0)
			return true;
	}
	return false;
}

unsigned sim_objects_check_data(const struct sim_objects *objects, unsigned object,
				const void *data, size_t bytes, unsigned least)
{
	const struct sim_object *of = &objects->plan->object[object];
	const unsigned source = sim_objects_source(objects->plan, object);
	const struct sim_versions *v = &objects->versions[source];
	static uint8_t want[SIM_BYTES_MAX + 8];
	unsigned i = v->count;

	/* a run that was broken off leaves any of its rows */
	if (of->content == SIM_ROWS)
		return 0;
	while (i-- > 0) {
		if (bytes != v->bytes[i])
			continue;
		sim_objects_fill(objects->plan, source, want, v->seed[i], v->bytes[i]);
		if (memcmp(data, want, v->bytes[i]) == 0)
			break;
	}
	if (i == UINT32_MAX)
		sim_fault("object %s has %zu bytes that are none of its %u versions", of->name,
			  bytes, v->count);
	if (least != SIM_VERSIONS && i < least)
		sim_fault("object %s has version %u, but version %u was acknowledged", of->name, i,
			  least);
	return i;
}

unsigned sim_objects_least(const struct sim_objects *objects, unsigned object)
{
	return objects->plan->object[object].is_source ? objects->versions[object].acknowledged
						       : SIM_VERSIONS;
}

unsigned sim_objects_check(const struct sim_objects *objects, unsigned object, const char *file,
			   unsigned least)
{
	static uint8_t got[SIM_BYTES_MAX + 8];
	const ssize_t n = read_file(file, got, sizeof got);

	if (n < 0)
		sim_fault("object %s: no file %s", objects->plan->object[object].name, file);
	return sim_objects_check_data(objects, object, got, (size_t)n, least);
}

void sim_objects_check_rows(const struct sim_objects *objects, unsigned pipeline, const char *file)
{
	const struct sim_pipeline *p = &objects->plan->pipeline[pipeline];
	const uint64_t table = objects->versions[p->from].seed[0];
	const uint64_t indices = objects->versions[p->indices].seed[0];
	static uint8_t got[SIM_BYTES_MAX + 8], want[SIM_BYTES_MAX + 8];
	const size_t bytes = (size_t)p->lookups * p->row_bytes;
	const ssize_t n = read_file(file, got, sizeof got);

	for (size_t i = 0; i < bytes / sizeof(float); i++) {
		const size_t lookup = i * sizeof(float) / p->row_bytes;
		const size_t row = number_of(indices, lookup) % p->table_rows;
		const size_t at = (row - lookup) * (p->row_bytes / sizeof(float)) + i;
		const float number = (float)(number_of(table, at) % 60000);

		memcpy(want + i * sizeof number, &number, sizeof number);
	}
	if (n != (ssize_t)bytes || memcmp(got, want, bytes) != 0)
		sim_fault("%s has not made its rows: %zd bytes", p->name, n);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/life.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/base/seam.h"
#include "tests/sim/command.h"
#include "tests/sim/disk.h"
#include "tests/sim/schedule.h"

#define TWICE_S 0.05 /* equal messages within that time are one message, printed twice */

/* ---- what the disks hold */

/* Get an object into the file `got`: the exit code. */
int sim_get(struct sim_life *l, unsigned object)
{
	const struct sim_object *o = &l->plan->object[object];
	char device[160];

	sim_plan_device(l->plan, o->ssd, device, sizeof device);
	unlink("got");
	return sim_command(NULL, "store get %s %s got", device, o->name);
}

/* The version that an object has. */
unsigned sim_fetch(struct sim_life *l, unsigned object)
{
	const struct sim_object *o = &l->plan->object[object];
	int code = 0;

	if (o->content == SIM_FED)
		return 0;
	for (unsigned tries = 0; tries < 100; tries++) {
		code = sim_get(l, object);
		if (code == 0 || o->content != SIM_ROWS)
			break;
		hr_wait_ns(SIM_LOOK_NS); /* busy: a run changes it now */
	}
	if (code != 0)
		sim_fault("peace: get of %s: exit code %d", o->name, code);
	return sim_objects_check(l->objects, object, "got", sim_objects_least(l->objects, object));
}

void sim_check_sinks(struct sim_life *l)
{
	const uint32_t rot = sim_world->rot, bad_writes = sim_world->bad_writes;

	sim_world->rot = sim_world->bad_writes = 0;
	for (unsigned i = 0; l->done && i < l->plan->objects; i++) {
		const struct sim_object *o = &l->plan->object[i];

		/* the versions of what a disk has are checked already */
		if (o->content != SIM_FED && !sim_disk_has(l->objects, i))
			sim_fault("boot: exit code 0, but there is no %s", o->name);
		if (o->content != SIM_ROWS || rot)
			continue;
		sim_fetch(l, i);
		sim_objects_check_rows(l->objects, o->gather, "got");
	}
	l->done = false;
	sim_world->rot = rot;
	sim_world->bad_writes = bad_writes;
}

void sim_check_disks(struct sim_life *l)
{
	for (unsigned i = 0; i < l->plan->ssds; i++)
		sim_disk_check(l->objects, i, l->plan->rot);
}

/* ---- messages */

/* The seconds in "[ 1000.042946 +0.041945] headrace: ", before the text. */
static double second_of(const char *line, const char *text)
{
	while (text > line && text[-1] != '[')
		text--;
	return strtod(text, NULL);
}

bool sim_is_told(const char *part)
{
	static char line[8192];
	FILE *file = fopen("err", "re");
	bool found = false;

	while (file && !found && fgets(line, sizeof line, file))
		found = strstr(line, part) != NULL;
	if (file)
		fclose(file);
	return found;
}

/* No warning or error follows an equal one at once, and no engine is started again without a reason. */
static void check_messages(const struct sim_life *l)
{
	static char line[8192], last[8192];
	double second = 0;
	bool used = false; /* a command of a client had an ssd, so an engine could not have it */
	FILE *file = fopen("err", "re");

	while (file && fgets(line, sizeof line, file)) {
		const char *text = strstr(line, "] headrace: ");
		const double before = second;

		if (strstr(line, "Sanitizer") || strstr(line, "runtime error:"))
			sim_fault("err: %.400s", line);
		second = text ? second_of(line, text) : 0;
		if (text && (strstr(text, "error: ") || strstr(text, "warning: ")) &&
		    strcmp(text, last) == 0 && second - before < TWICE_S &&
		    !l->plan->pair) /* both appliances may have the same reason */
			sim_fault("a message is printed twice: %.400s", text + 12);
		used |= strstr(line, "in use by another controller") != NULL;
		if (text && l->calm && !used && strstr(text, "warning: restart "))
			sim_fault("without a fault: %.400s", text + 12);
		snprintf(last, sizeof last, "%s", text ? text : "");
	}
	if (file)
		fclose(file);
}

/* A bit of an object changes on the disk: readers notice, and all is well again when it is restored. */
static void rot(struct sim_life *l)
{
	const unsigned objects = l->plan->objects;
	const unsigned object = objects ? (unsigned)(l->plan->seed / 4) % objects : 0;
	const struct sim_object *o = &l->plan->object[object];
	uint64_t offset, bytes;
	char device[160];

	/* the rows of a gather have no checksum while they are only a begin */
	if (o->content == SIM_FED || o->content == SIM_ROWS ||
	    !sim_disk_find(l->objects, object, &offset, &bytes))
		return;
	offset += l->plan->seed * 7919 % bytes;
	sim_plan_device(l->plan, o->ssd, device, sizeof device);
	sim_disk_flip(o->ssd, offset);
	if (sim_command(NULL, "store verify %s %s", device, o->name) == 0)
		sim_fault("store verify does not find a changed bit of %s", o->name);
	if (sim_get(l, object) == 0)
		sim_fault("store get does not find a changed bit of %s", o->name);
	sim_disk_flip(o->ssd, offset);
	sim_fetch(l, object);
}

void sim_check_all(struct sim_life *l)
{
	sim_check_disks(l);
	check_messages(l);
	for (unsigned i = 0; i < l->plan->ssds; i++) {
		char device[160];

		sim_plan_device(l->plan, i, device, sizeof device);
		if (sim_command(NULL, "store verify %s", device) != 0)
			sim_fault("store verify of ssd %u finds faults", i);
	}
	for (unsigned i = 0; i < l->plan->objects; i++)
		sim_fetch(l, i);
	if (l->plan->seed % 4 == 0)
		rot(l);
}

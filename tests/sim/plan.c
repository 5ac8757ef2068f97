/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/clock.h"

#define TILE_KB_MAX 128u

/* ---- drawing */

static uint32_t below(struct fake_random *r, uint32_t n)
{
	return fake_random_below(r, n);
}

static bool chance(struct fake_random *r, uint32_t percent)
{
	return below(r, 100) < percent;
}

static void draw_ssd(struct sim_ssd *ssd, struct fake_random *r)
{
	static const char *const quirks[] = { "sqhd-back", "list-end", "no-shutdown", "late-ready",
					      "ones" };

	ssd->lba = chance(r, 30) ? 512 : 4096;
	ssd->threads = 1 + below(r, 2);
	ssd->cache_mb = chance(r, 50) ? 0 : 1 + below(r, 4);
	ssd->timeout_ms = 50 + below(r, 1000);
	ssd->entries = 4 + below(r, 60);
	ssd->mdts = 1 + below(r, 6);
	while ((TILE_KB_MAX >> ssd->mdts) / 4 >= ssd->entries) /* all commands of a tile fit */
		ssd->mdts++;
	ssd->quirk = chance(r, 15) ? quirks[below(r, 5)] : NULL;
	ssd->slow_ms = chance(r, 15) ? 1 + below(r, 3) : 0;
	ssd->slow_writes = chance(r, 70);
}

static unsigned add_object(struct sim_plan *plan, struct fake_random *r, bool is_source)
{
	struct sim_object *object = &plan->object[plan->objects];

	object->is_source = is_source;
	object->ssd = below(r, plan->ssds);
	snprintf(object->name, sizeof object->name, "%s%u", is_source ? "in" : "out",
		 plan->objects);
	return plan->objects++;
}

static unsigned add_content(struct sim_plan *plan, struct fake_random *r, unsigned pipeline,
			    enum sim_content content)
{
	const unsigned i = add_object(plan, r, true);

	plan->object[i].content = content;
	plan->object[i].gather = pipeline;
	return i;
}

/* An earlier object that a stream can read, or a new one. */
static unsigned any_input(struct sim_plan *plan, struct fake_random *r)
{
	const unsigned i = plan->objects && chance(r, 40) ? below(r, plan->objects) : SIM_OBJECTS;

	return i < SIM_OBJECTS && plan->object[i].content == SIM_BYTES ? i
								       : add_object(plan, r, true);
}

static void draw_gather(struct sim_plan *plan, unsigned i, struct fake_random *r)
{
	static const char *const policies[] = { "clock", "lru", "stream", "count" };
	struct sim_pipeline *p = &plan->pipeline[i];

	p->gather = true;
	p->row_bytes = 16u << below(r, 7);
	p->table_rows = 2 + below(r, (1u << 20) / p->row_bytes);
	p->lookups = 1 + below(r, 1000);
	p->frames = 16 + below(r, 200);
	p->io = 1 + below(r, 2);
	p->policy = policies[below(r, 4)];
	p->from = add_content(plan, r, i, SIM_TABLE);
	p->indices = add_content(plan, r, i, SIM_INDICES);
	p->to = add_content(plan, r, i, SIM_ROWS);
}

static void draw_schedule(struct sim_pipeline *p, unsigned i, struct fake_random *r)
{
	static const enum sim_schedule kinds[] = { SIM_ONCE,	   SIM_EVERY, SIM_ON_OBJECT,
						   SIM_ON_REQUEST, SIM_AFTER, SIM_ON_OBJECT };

	p->schedule = kinds[below(r, 6)];
	p->every_ms = 200 + below(r, 20000);
	p->after = i ? below(r, i) : 0;
	if (p->schedule == SIM_AFTER && i == 0)
		p->schedule = SIM_ON_REQUEST;
	p->keep = chance(r, 30) ? 1 + below(r, 3) : 0;
}

static void draw_pipeline(struct sim_plan *plan, unsigned i, struct fake_random *r)
{
	struct sim_pipeline *p = &plan->pipeline[i];

	snprintf(p->name, sizeof p->name, "p%u", i);
	if (chance(r, 20)) {
		draw_gather(plan, i, r);
	} else {
		p->feed = chance(r, 12);
		p->from = p->feed ? add_content(plan, r, i, SIM_FED) : any_input(plan, r);
		p->tap = !p->feed && chance(r, 15);
		p->to = p->tap || chance(r, 20) ? SIM_OBJECTS : add_object(plan, r, false);
	}
	p->tile_kb = TILE_KB_MAX >> below(r, 6);
	p->slots = 2 + below(r, 7);
	p->prefetch = 1 + below(r, 2);
	p->compute = 1 + below(r, 2);
	p->writeback = 1 + below(r, 2);
	p->credits = 1 + below(r, p->slots);
	if (plan->repeats)
		draw_schedule(p, i, r);
	if (p->feed && p->schedule == SIM_ON_OBJECT)
		p->schedule = SIM_ON_REQUEST;
}

/* The first three are mild; `%u` is a number below `numbers`. */
static const struct {
	const char *text;
	uint32_t numbers;
} action[] = { { "status 0x82", 0 },
	       { "delay 30ms", 0 },
	       { "duplicate", 0 },
	       { "reorder", 0 },
	       { "drop", 0 },
	       { "delay 2s", 0 },
	       { "status 0x281", 0 },
	       { "cfs", 0 },
	       { "bad-sqhd 9", 0 },
	       { "powercut some seed %u", 1000 },
	       { "wrong-cid %u", 64 },
	       { "powercut torn seed %u", 1000 },
	       { "powercut drop", 0 },
	       { "remove", 0 },
	       { "deaf", 0 },
	       { "protect", 0 },
	       { "warn %u", 32 },
	       { "status 0x280 dnr", 0 },
	       { "status 0x82 crd 1", 0 },
	       { "status 0x6", 0 } };
#define MILD 3u
#define ACTIONS (sizeof action / sizeof *action)

static void draw_rule(struct sim_plan *plan, struct sim_rule *rule, struct fake_random *r)
{
	static const char *const command[] = { "read", "write", "any", "flush", "admin" };
	const char *what = command[below(r, 5)];
	const uint32_t which = below(r, chance(r, 40) ? 5 : ACTIONS);
	const bool admin = strcmp(what, "admin") == 0;
	int at;

	rule->ssd = below(r, plan->ssds);
	rule->mild = which < MILD && !admin;
	at = snprintf(rule->text, sizeof rule->text, "on %s nth %u", what,
		      1 + below(r, admin	   ? 40
				   : chance(r, 50) ? 24
						   : 600));
	if (chance(r, 15))
		at += snprintf(rule->text + at, sizeof rule->text - (size_t)at, " count %u",
			       2 + below(r, 6));
	at += snprintf(rule->text + at, sizeof rule->text - (size_t)at, ": ");
	snprintf(rule->text + at, sizeof rule->text - (size_t)at, action[which].text,
		 action[which].numbers ? below(r, action[which].numbers) : 0);
}

bool sim_plan_is_mild(const struct sim_plan *plan)
{
	bool mild = !plan->rot && !plan->bad_writes;

	for (unsigned i = 0; i < plan->rules; i++)
		mild &= plan->rule[i].mild;
	return mild;
}

bool sim_plan_is_clean(const struct sim_plan *plan)
{
	return plan->rules == 0 && !plan->rot && !plan->bad_writes;
}

static void draw_event(struct sim_plan *plan, struct sim_event *event, struct fake_random *r)
{
	/* of 100 */
	static const struct {
		enum sim_event_kind kind;
		uint32_t share;
	} row[] = { { SIM_KILL_ENGINE, 11 }, { SIM_KILL_BOOT, 5 }, { SIM_STOP, 5 },
		    { SIM_CUT, 7 },	     { SIM_JUMP, 5 },	   { SIM_STATUS, 10 },
		    { SIM_TRIGGER, 10 },     { SIM_PAUSE, 4 },	   { SIM_RESUME, 5 },
		    { SIM_RELOAD, 3 },	     { SIM_PUT, 11 },	   { SIM_GET, 4 },
		    { SIM_GARBAGE, 5 },	     { SIM_LEAVE, 4 },	   { SIM_STALL, 4 },
		    { SIM_CHANGE, 4 },	     { SIM_FILL, 2 },	   { SIM_EMPTY, 1 } };
	uint32_t drawn = below(r, 100);
	unsigned i = 0;

	while (i < sizeof row / sizeof *row - 1 && drawn >= row[i].share)
		drawn -= row[i++].share;
	event->kind = row[i].kind;
	event->after_ns =
		(uint64_t)below(r, chance(r, 60) ? 20 : 3000) * HR_NS_PER_MS + below(r, 1000000);
	event->number = fake_random_u64(r);
}

/* One object, which the pipeline of the one sends to the other one. */
static void make_pair(struct sim_plan *plan)
{
	memset(plan->object, 0, sizeof plan->object);
	memset(plan->pipeline, 0, sizeof plan->pipeline);
	plan->pair = true;
	plan->repeats = false;
	plan->pipelines = 1;
	plan->objects = plan->ssds = 2;
	plan->object[0] = (struct sim_object){ .name = "in0", .is_source = true };
	plan->object[1] = (struct sim_object){ .name = "out1", .ssd = 1 };
	plan->pipeline[0] = (struct sim_pipeline){ .name = "p0", .from = 0, .to = 1 };
}

void sim_plan_draw(struct sim_plan *plan, uint64_t seed)
{
	struct fake_random random = { .state = seed * 2 + 1 };

	for (int i = 0; i < 16; i++)
		fake_random_u64(&random);
	*plan = (struct sim_plan){ .seed = seed };
	plan->ssds = 1 + below(&random, SIM_SSDS);
	plan->pipelines = 1 + below(&random, SIM_PIPELINES);
	plan->gpus = 1 + below(&random, 2);
	plan->workers = 1 + below(&random, 3);
	plan->parallel = 1 + below(&random, 4);
	plan->checkpoint_ms = 1 + below(&random, chance(&random, 60) ? 6 : 500);
	plan->post = chance(&random, 8);
	plan->repeats = chance(&random, 50);
	for (unsigned i = 0; i < SIM_SSDS; i++)
		draw_ssd(&plan->ssd[i], &random);
	for (unsigned i = 0; i < plan->pipelines; i++)
		draw_pipeline(plan, i, &random);
	if (plan->repeats && plan->pipeline[0].schedule == SIM_ONCE)
		plan->pipeline[0].schedule = SIM_ON_REQUEST;
	if (chance(&random, 12))
		make_pair(plan);
	plan->rules = plan->pair || chance(&random, 30) ? 0 : below(&random, SIM_RULES + 1);
	for (unsigned i = 0; i < plan->rules; i++)
		draw_rule(plan, &plan->rule[i], &random);
	plan->rot = chance(&random, 20) ? 1 + below(&random, chance(&random, 50) ? 10 : 200) : 0;
	/* The other side of a pair has the data before they are compared; a gather reads its rows
	 * back for their checksum, which then is that of the bits that differ. */
	for (unsigned i = 0; i < plan->pipelines; i++)
		if (plan->pair || plan->pipeline[i].gather)
			plan->rot = 0;
	plan->bad_writes = chance(&random, 8) ? 2 + below(&random, 300) : 0;
	plan->fragments = chance(&random, 30) ? 1 + below(&random, 255) : 0;
	plan->events = below(&random, SIM_EVENTS + 1);
	for (unsigned i = 0; i < plan->events; i++)
		draw_event(plan, &plan->event[i], &random);
}

const char *sim_event_name(enum sim_event_kind kind)
{
	static const char *const name[] = { "kill the engine",
					    "kill the supervisor",
					    "stop",
					    "power cut",
					    "clock jumps",
					    "status",
					    "trigger",
					    "pause",
					    "resume",
					    "reload",
					    "put",
					    "get",
					    "garbage",
					    "client leaves",
					    "stall",
					    "change",
					    "fill",
					    "empty" };

	return name[kind];
}

/* ---- contents */

uint64_t sim_plan_number(const struct sim_plan *plan, unsigned object)
{
	return plan->seed * 1000003 + object * 8191 + (object << 20);
}

size_t sim_plan_length(const struct sim_plan *plan, unsigned object, uint64_t number)
{
	const struct sim_object *o = &plan->object[object];
	const struct sim_pipeline *p = &plan->pipeline[o->gather];

	switch (o->content) {
	case SIM_TABLE:
		return (size_t)p->table_rows * p->row_bytes;
	case SIM_INDICES:
		return p->lookups * sizeof(uint32_t);
	case SIM_ROWS:
		return (size_t)p->lookups * p->row_bytes;
	default: /* some versions are as long as the first one */
		if (number >> 12 & 1)
			number = sim_plan_number(plan, object);
		return 1 + (size_t)(number >> 13) % SIM_BYTES_MAX;
	}
}

/* ---- writing */

void sim_plan_device(const struct sim_plan *plan, unsigned ssd, char *text, size_t bytes)
{
	const struct sim_ssd *s = &plan->ssd[ssd];

	snprintf(text, bytes, "soft:%c.img,size=48M,lba=%u,threads=%u,cache=%uM,mdts=%u%s%s",
		 'a' + (int)ssd, s->lba, s->threads, s->cache_mb, s->mdts,
		 s->quirk ? ",quirks=" : "", s->quirk ? s->quirk : "");
}

static void write_faults(const struct sim_plan *plan, unsigned ssd, bool faults)
{
	char name[32];
	FILE *file;

	snprintf(name, sizeof name, "faults%u", ssd);
	file = fopen(name, "w");
	if (!file)
		abort();
	for (unsigned i = 0; faults && i < plan->rules; i++)
		if (plan->rule[i].ssd == ssd)
			fprintf(file, "%s\n", plan->rule[i].text);
	if (faults && plan->ssd[ssd].slow_ms) /* runs last, so that events come in their middle */
		fprintf(file, "on %s count 1000000: delay %ums\n",
			plan->ssd[ssd].slow_writes ? "write" : "read", plan->ssd[ssd].slow_ms);
	fclose(file);
}

static void write_schedule(FILE *file, const struct sim_plan *plan, const struct sim_pipeline *p)
{
	switch (p->schedule) {
	case SIM_EVERY:
		fprintf(file, " every = \"%ums\";", p->every_ms);
		break;
	case SIM_AFTER:
		fprintf(file, " after = \"%s\";", plan->pipeline[p->after].name);
		break;
	case SIM_ON_OBJECT:
		fprintf(file, " on = \"object %s\";", plan->object[p->from].name);
		break;
	case SIM_ON_REQUEST:
		fprintf(file, " on = \"request\";");
		break;
	case SIM_FOREVER:
		fprintf(file, " forever = true;");
		break;
	case SIM_ONCE:
		break;
	}
}

static unsigned gpu_of(const struct sim_plan *plan, unsigned pipeline)
{
	return plan->gpus > 1 ? pipeline % plan->gpus : 0;
}

/* What comes before a pipeline in the list. */
static const char *separator(const struct sim_plan *plan, unsigned pipeline)
{
	for (unsigned i = 0; i < pipeline; i++)
		if (!(plan->hidden >> i & 1))
			return ",\n  ";
	return "  ";
}

static void write_gather(FILE *file, const struct sim_plan *plan, unsigned i)
{
	const struct sim_pipeline *p = &plan->pipeline[i];
	const struct sim_object *table = &plan->object[p->from];
	const struct sim_object *indices = &plan->object[p->indices], *rows = &plan->object[p->to];

	fprintf(file,
		"%s{ name = \"%s\"; gpu = \"g%u\"; operator = \"gather\"; objects = {\n"
		"    table = { ssd = \"s%u\"; object = \"%s\"; }; indices = { ssd = \"s%u\"; object = "
		"\"%s\"; };\n    rows = { ssd = \"s%u\"; object = \"%s\"; }; };",
		separator(plan, i), p->name, gpu_of(plan, i), table->ssd, table->name, indices->ssd,
		indices->name, rows->ssd, rows->name);
	write_schedule(file, plan, p);
	fprintf(file,
		"\n    args = { row = %u; lookups = %u; ahead = %u; };\n    cache = { frames = %u; "
		"page = \"4K\"; policy = \"%s\"; }; io = %u; compute = %u; }",
		p->row_bytes, p->lookups, 1 + p->slots, p->frames, p->policy, p->io, p->compute);
}

static void write_pipeline(FILE *file, const struct sim_plan *plan, unsigned i)
{
	const struct sim_pipeline *p = &plan->pipeline[i];
	const struct sim_object *from = &plan->object[p->from];
	const struct sim_object *to = &plan->object[p->to % SIM_OBJECTS];

	fprintf(file, "%s{ name = \"%s\"; gpu = \"g%u\";", separator(plan, i), p->name,
		gpu_of(plan, i));
	if (p->feed)
		fprintf(file, " source = { feed = \"f%u\"; bytes = \"%zu\"; };", i,
			sim_plan_length(plan, p->from, sim_plan_number(plan, p->from)));
	else
		fprintf(file, " source = { ssd = \"s%u\"; object = \"%s\"; };", from->ssd,
			from->name);
	fprintf(file, " operator = \"%s\";", p->to == SIM_OBJECTS && !p->tap ? "crc32c" : "copy");
	if (p->tap)
		fprintf(file, " sink = { tap = \"t%u\"; credits = %u; };", i, p->credits);
	else if (p->to != SIM_OBJECTS && p->keep)
		fprintf(file, " sink = { ssd = \"s%u\"; object = \"%s\"; keep = %u; };", to->ssd,
			to->name, p->keep);
	else if (p->to != SIM_OBJECTS)
		fprintf(file, " sink = { ssd = \"s%u\"; object = \"%s\"; %s};", to->ssd, to->name,
			plan->repeats ? "replace = true; " : "");
	write_schedule(file, plan, p);
	if (plan->rot && !p->feed)
		fprintf(file, " verify = \"on\";");
	fprintf(file, "\n    tile = \"%uK\"; slots = %u; blocks = {",
		plan->variant >> i & 1 && p->tile_kb > 4 ? p->tile_kb / 2 : p->tile_kb,
		p->slots + plan->variant % 3);
	if (!p->feed)
		fprintf(file, " prefetch = %u;", p->prefetch);
	fprintf(file, " compute = %u;", p->compute);
	if (p->to != SIM_OBJECTS)
		fprintf(file, " writeback = %u;", p->writeback);
	fprintf(file, " }; }");
}

void sim_plan_write(const struct sim_plan *plan, bool faults)
{
	FILE *file = fopen("world.conf", "w");
	char device[160];

	if (!file)
		abort();
	fprintf(file, "appliance = { parallel = %u; checkpoint = \"%ums\"; };\n", plan->parallel,
		plan->checkpoint_ms);
	fprintf(file, "boot = { backoff = \"100ms\"; restarts = 4; post = \"%s\"; };\n",
		plan->post ? "full" : "off");
	fprintf(file, "ssds = (\n");
	for (unsigned i = 0; i < plan->ssds; i++) {
		sim_plan_device(plan, i, device, sizeof device);
		write_faults(plan, i, faults);
		fprintf(file,
			"%s  { name = \"s%u\"; device = \"%s,faults=faults%u\";\n    timeout_ms = "
			"%u; queue_entries = %u; }",
			i ? ",\n" : "", i, device, i, plan->ssd[i].timeout_ms,
			plan->ssd[i].entries);
	}
	fprintf(file, " );\ngpus = (");
	for (unsigned i = 0; i < plan->gpus; i++)
		fprintf(file, "%s { name = \"g%u\"; device = \"host:%u\"; }", i ? "," : "", i,
			plan->workers);
	fprintf(file, " );\npipelines = (\n");
	for (unsigned i = 0; i < plan->pipelines; i++)
		if (plan->hidden >> i & 1)
			continue;
		else if (plan->pipeline[i].gather)
			write_gather(file, plan, i);
		else
			write_pipeline(file, plan, i);
	fprintf(file, " );\n%s", plan->mistaken ? "pipelines = 7;\n" : "");
	fclose(file);
}

/*
 * A year of ten pipelines on a fake clock: kills, power cuts, deaths of the engine, clocks that jump
 * or are not set, requests, failures, starts that need a new plan. The timetable says when a
 * pipeline is due, and boot/engine/admit.h when its start begins beside those that run. The starts
 * are saved to a store on a disk with a volatile cache, and read back after each cut. HR_TEST_SEED
 * repeats a year.
 */
#include "boot/appliance/timetable.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "boot/appliance/local_time.h"
#include "boot/engine/admit.h"
#include "config/clock.h"
#include "tests/harness/random.h"
#include "tests/harness/store.h"

#define S HR_NS_PER_S
#define MINUTE (60 * S)
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)
#define BEGIN (1767225600 * S) /* 2026-01-01 */

enum { FAST, HOURLY, NIGHTLY, WEEKLY, AFTER, OBJECT, REQUEST, FOREVER, FLAKY, BROKEN, PIPELINES };

static struct hr_config config;
static struct hr_timetable t;
static struct hr_moment at;
static uint64_t true_ns; /* the time that a correct wall clock shows */
static struct fake_random random_;
static struct fake_store f;
static struct hr_starts durable; /* the content of the newest completed save */
static uint64_t version = 100;

/* The engine: starts that were dispatched, and those that have begun. */
static struct hr_admit engine;

static struct {
	uint64_t dispatches, dispatched_ns[PIPELINES], ends_ns[PIPELINES];
	uint64_t clock_at_ns; /* monotonic: when the clock will be set; 0: the clock is set */
	uint64_t cuts, kills, deaths, stops, plans, idles, jumps, beside, begun;
	uint64_t longest_wait_ns,
		longest_start_ns; /* of FAST: due to begun, and between two starts */
	uint64_t last_fast_ns;	  /* monotonic: the last start of FAST; 0: none since boot */
	bool after_owed;
} sim;

static uint32_t below(uint32_t n)
{
	return fake_random_below(&random_, n);
}

static struct hr_config_when *pipeline(uint32_t i, const char *name, enum hr_when_kind kind)
{
	struct hr_config_pipeline *p = &config.pipeline[i];

	strcpy(p->name, name);
	p->when = (struct hr_config_when){ .kind = kind, .at_day = -1 };
	return &p->when;
}

static void configure(void)
{
	config.pipelines = PIPELINES;
	config.parallel = 4;
	engine.config = &config;
	config.boot.backoff_ns = S;
	pipeline(FAST, "fast", HR_WHEN_EVERY)->every_ns = 10 * MINUTE;
	pipeline(HOURLY, "hourly", HR_WHEN_EVERY)->every_ns = HOUR;
	config.pipeline[HOURLY].when.skip = true;
	pipeline(NIGHTLY, "nightly", HR_WHEN_AT)->at_minute = 180;
	pipeline(WEEKLY, "weekly", HR_WHEN_AT)->at_minute = 150;
	config.pipeline[WEEKLY].when.at_day = 0;
	config.pipeline[WEEKLY].when.skip = true;
	pipeline(AFTER, "after", HR_WHEN_AFTER)->after = HOURLY;
	pipeline(OBJECT, "object", HR_WHEN_OBJECT);
	pipeline(REQUEST, "request", HR_WHEN_REQUEST);
	pipeline(FOREVER, "forever", HR_WHEN_FOREVER);
	pipeline(FLAKY, "flaky", HR_WHEN_EVERY)->every_ns = 30 * MINUTE;
	pipeline(BROKEN, "broken", HR_WHEN_EVERY)->every_ns = 5 * MINUTE;
	/* `nightly` reads what `hourly` makes: one waits for the end of the other */
	config.pipeline[HOURLY].has_sink = true;
	strcpy(config.pipeline[HOURLY].sink.object, "x");
	config.pipeline[NIGHTLY].sources = 1;
	strcpy(config.pipeline[NIGHTLY].source[0].object, "x");
}

/* An engine without starts; its plan has all pipelines. */
static void new_engine(hr_pipelines suspects)
{
	engine.waiting = engine.running = 0;
	engine.suspects = suspects;
	engine.planned = (1u << PIPELINES) - 1;
}

static void pass(uint64_t ns)
{
	at.now_ns += ns;
	at.wall_ns += ns;
	true_ns += ns;
	if (sim.clock_at_ns && at.now_ns >= sim.clock_at_ns) {
		at.wall_ns = true_ns;
		sim.clock_at_ns = 0;
	}
}

/* The supervisor begins with the content of the disk. */
static void boot(void)
{
	struct hr_starts found;
	int err;

	cr_assert_eq(fake_store_reopen(&f), 0);
	err = hr_starts_load(&f.store, &found, NULL);
	cr_assert(err == 0 || (err == -ENOENT && durable.sequence == 0));
	if (err == 0)
		cr_assert(found.sequence == durable.sequence ||
				  found.sequence == durable.sequence + 1,
			  "a durable page is lost");
	hr_timetable_begin(&t, &config, err ? NULL : &found, &at);
	durable = t.starts;
	hr_timetable_object(&t, OBJECT, version, &at);
	new_engine(0);
	sim.last_fast_ns = 0;
	sim.after_owed = false;
}

static void save(void)
{
	struct hr_starts starts = t.starts;

	starts.sequence = durable.sequence;
	cr_assert_null(hr_starts_check(&starts), "%s", hr_starts_check(&starts));
	if (hr_starts_save(&f.store, &starts, NULL) == 0)
		durable = starts;
	t.changed = false;
}

/*
 * SIGKILL of the supervisor, or a power cut, after which the clock of the machine may not be set.
 */
static void interrupt(void)
{
	const bool cut = below(3) == 0;

	if (cut && below(2)) { /* during a save */
		f.disk.seed = fake_random_u64(&random_);
		f.disk.cut_at = f.disk.writes + f.disk.flushes + 1;
		save();
	}
	sim.cuts += cut;
	sim.kills += !cut;
	if (cut) {
		const uint64_t off = below(20) ? below(600) * S : below(4) * DAY + below(86400) * S;

		true_ns += off;
		at.wall_ns = true_ns;
		at.now_ns = (1 + below(20)) * S;
		sim.clock_at_ns = 0;
		if (below(4) == 0) {
			at.wall_ns = at.now_ns;
			sim.clock_at_ns = at.now_ns + (1 + below(7200)) * S;
		}
	} else {
		pass(S);
	}
	boot();
}

static uint64_t duration_of(uint32_t i)
{
	static const uint64_t most[PIPELINES] = {
		[FAST] = 20 * S,  [HOURLY] = 50 * S, [NIGHTLY] = HOUR,	[WEEKLY] = 10 * MINUTE,
		[AFTER] = 30 * S, [OBJECT] = 20 * S, [REQUEST] = 5 * S, [FOREVER] = 20 * MINUTE,
		[FLAKY] = 20 * S, [BROKEN] = S
	};

	return 1 + fake_random_u64(&random_) % most[i];
}

static int result_of(uint32_t i)
{
	if (i == BROKEN)
		return -EIO;
	if (i == FLAKY && below(3) == 0)
		return below(2) ? -EIO : -EINVAL;
	return below(1000) ? 0 : -EINTR;
}

static void check_begin(uint32_t i)
{
	const uint64_t waited = at.now_ns - sim.dispatched_ns[i];

	cr_assert_not(engine.running & engine.suspects, "beside a suspect");
	cr_assert(!engine.running || engine.planned >> i & 1, "a new plan while others run");
	cr_assert_not((engine.running >> HOURLY & 1 && i == NIGHTLY) ||
			      (engine.running >> NIGHTLY & 1 && i == HOURLY),
		      "a reader beside its writer");
	cr_assert_lt((unsigned)__builtin_popcount(engine.running), config.parallel);
	sim.beside += engine.running != 0;
	/* one run of each pipeline takes an hour and a half at most */
	cr_assert_leq(waited, 8 * HOUR, "'%s' starves", config.pipeline[i].name);
	if (i != FAST)
		return;
	sim.longest_wait_ns = waited > sim.longest_wait_ns ? waited : sim.longest_wait_ns;
	if (sim.last_fast_ns && at.now_ns - sim.last_fast_ns > sim.longest_start_ns)
		sim.longest_start_ns = at.now_ns - sim.last_fast_ns;
	sim.last_fast_ns = at.now_ns;
}

/* Of 200 starts one finds that its object has outgrown the plan. */
static void begin_starts(void)
{
	uint32_t i;

	while ((i = hr_admit_next(&engine)) < HR_PIPELINES_MAX) {
		if (engine.planned >> i & 1 && below(200) == 0) {
			engine.planned &= ~(1u << i);
			continue;
		}
		check_begin(i);
		sim.plans += !(engine.planned >> i & 1);
		engine.planned |= 1u << i;
		engine.waiting &= ~(1u << i);
		engine.running |= 1u << i;
		sim.ends_ns[i] = at.now_ns + duration_of(i);
		sim.begun++;
	}
}

/* The supervisor dispatches each start as soon as it is due. */
static void dispatch(hr_timetable_set due)
{
	if (!due)
		return;
	for (uint32_t i = 0; i < PIPELINES; i++) {
		const struct hr_start *start = &t.starts.start[i];

		cr_assert(!(due >> i & 1) || !(start->flags & HR_START_PAUSED));
		cr_assert(start->done + start->failures <= start->starts, "%s", start->name);
		if (!(due >> i & 1))
			continue;
		cr_assert_not((engine.waiting | engine.running) >> i & 1, "two starts of one");
		engine.request[i] = sim.dispatches + 1;
		sim.dispatched_ns[i] = at.now_ns;
	}
	sim.dispatches++;
	hr_timetable_started(&t, due, &at);
	engine.waiting |= due;
	sim.after_owed &= !(due >> AFTER & 1);
}

static void end_one(uint32_t i, int err)
{
	engine.running &= ~(1u << i);
	engine.waiting &= ~(1u << i);
	engine.suspects &= ~(1u << i);
	hr_timetable_ended(&t, i, err, &at);
	sim.after_owed |= i == HOURLY && !err;
}

static void end_starts(void)
{
	hr_pipelines ended = 0;

	for (uint32_t i = 0; i < PIPELINES; i++)
		if (engine.running >> i & 1 && sim.ends_ns[i] <= at.now_ns)
			ended |= 1u << i;
	for (uint32_t i = 0; i < PIPELINES; i++)
		if (ended >> i & 1)
			end_one(i, result_of(i));
}

/* The engine dies: runs in progress have failed, and each runs alone the next time; starts that
 * waited have not begun. */
static void lose_engine(void)
{
	const hr_pipelines ran = engine.running, waited = engine.waiting;

	for (uint32_t i = 0; i < PIPELINES; i++)
		if ((ran | waited) >> i & 1)
			end_one(i, ran >> i & 1 ? -EOWNERDEAD : -EINTR);
	new_engine(ran);
	save();
	sim.deaths++;
}

/* A clean stop, and the next boot, a second later. */
static void stop_in_order(void)
{
	const hr_pipelines all = engine.running | engine.waiting;

	for (uint32_t i = 0; i < PIPELINES; i++)
		if (all >> i & 1)
			end_one(i, -EINTR);
	save();
	for (uint32_t i = 0; i < PIPELINES; i++)
		cr_assert_neq(durable.start[i].outcome, HR_START_RUNNING,
			      "the end of a start is lost");
	pass(S);
	boot();
	sim.stops++;
}

/* All due starts have been dispatched, so each pipeline has had all its starts. */
static void check_due(void)
{
	const struct hr_start *nightly = &t.starts.start[NIGHTLY];

	if (!engine.running && sim.clock_at_ns == 0 && nightly->planned_ns &&
	    !(nightly->flags & HR_START_DUE))
		cr_assert_gt(hr_local_next_ns(nightly->planned_ns, 180, -1), at.wall_ns,
			     "a night is forgotten");
	cr_assert(!sim.after_owed || t.timed[AFTER].running ||
			  at.now_ns < t.timed[AFTER].not_before_ns,
		  "the end of another pipeline is forgotten");
	cr_assert(t.starts.start[OBJECT].version == version ||
			  (t.starts.start[OBJECT].flags & HR_START_DUE) || t.timed[OBJECT].running,
		  "a version is forgotten");
}

static void disturb(void)
{
	switch (below(14)) {
	case 0:
		interrupt();
		break;
	case 12:
		lose_engine();
		break;
	case 13:
		stop_in_order();
		break;
	case 1: /* a leap second, or the clock is set */
		if (sim.clock_at_ns)
			break;
		sim.jumps++;
		at.wall_ns += below(2) ? 0 - S : (below(3600) * S) - 1800 * S;
		break;
	case 2:
		at.wall_ns = sim.clock_at_ns ? at.wall_ns : true_ns;
		break;
	case 3:
		hr_timetable_request(&t, REQUEST, &at);
		break;
	case 4:
		hr_timetable_object(&t, OBJECT, ++version, &at);
		break;
	case 5:
		hr_timetable_pause(&t, WEEKLY);
		hr_timetable_resume(&t, WEEKLY, &at);
		break;
	case 6: /* without it the engine is idle at times */
	case 7:
		hr_timetable_pause(&t, FOREVER);
		break;
	case 8:
		hr_timetable_resume(&t, FOREVER, &at);
		break;
	default:
		break;
	}
}

/* The next end of a run. */
static uint64_t next_end_ns(void)
{
	uint64_t next = UINT64_MAX;

	for (uint32_t i = 0; i < PIPELINES; i++)
		if (engine.running >> i & 1 && sim.ends_ns[i] < next)
			next = sim.ends_ns[i];
	return next;
}

/* One step: to the next time, event or end, as the supervisor sleeps. */
static void live(void)
{
	uint64_t next, end;

	end_starts();
	dispatch(hr_timetable_due(&t, &at));
	if (t.changed) /* one dispatch has the ends and the starts */
		save();
	begin_starts();
	check_due();
	sim.idles += !engine.running;
	next = hr_timetable_next_ns(&t, &at);
	cr_assert_gt(next, at.now_ns, "a busy loop");
	end = next_end_ns();
	pass((end < next ? end : next) - at.now_ns);
	if (below(1000) == 0)
		disturb();
}

TestSuite(year, .timeout = 100);

Test(year, ten_pipelines_with_kills_and_power_cuts)
{
	const struct hr_start *start = t.starts.start;

	random_.state = fake_random_seed("year");
	setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3", 1);
	configure();
	fake_store_init(&f, 4096);
	true_ns = BEGIN;
	at = (struct hr_moment){ 5 * S, BEGIN };
	boot();
	while (true_ns < BEGIN + 365 * DAY)
		live();
	fprintf(stderr,
		"year: %llu starts, %llu beside others, %llu new plans, idle %llu times, %llu cuts, "
		"%llu kills, %llu deaths, %llu stops, %llu jumps; fast %llu, at most %llu s late; "
		"nightly %llu, weekly %llu, after %llu, broken %llu\n",
		(unsigned long long)sim.begun, (unsigned long long)sim.beside,
		(unsigned long long)sim.plans, (unsigned long long)sim.idles,
		(unsigned long long)sim.cuts, (unsigned long long)sim.kills,
		(unsigned long long)sim.deaths, (unsigned long long)sim.stops,
		(unsigned long long)sim.jumps, (unsigned long long)start[FAST].starts,
		(unsigned long long)(sim.longest_wait_ns / S),
		(unsigned long long)start[NIGHTLY].done, (unsigned long long)start[WEEKLY].done,
		(unsigned long long)start[AFTER].done, (unsigned long long)start[BROKEN].starts);
	cr_expect_gt(sim.cuts, 2u);
	cr_expect_gt(sim.kills, 5u);
	cr_expect_gt(sim.deaths, 5u);
	cr_expect_gt(sim.stops, 5u);
	cr_expect_gt(sim.jumps, 2u);
	cr_expect_gt(sim.idles, 100u);
	cr_expect_gt(sim.plans, 100u);
	cr_expect_gt(sim.beside, 10000u);
	cr_expect_gt(start[FAST].done, 365u * 100);
	cr_expect_gt(start[NIGHTLY].done, 250u);
	cr_expect_leq(start[NIGHTLY].done, 366u);
	cr_expect_leq(start[WEEKLY].done, 53u);
	cr_expect_gt(start[WEEKLY].done, 20u);
	cr_expect_gt(start[AFTER].done, 365u * 12);
	cr_expect_eq(start[BROKEN].done, 0u);
	cr_expect_gt(start[BROKEN].starts, 365u * 15);
	fake_store_fini(&f);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/engine/runner/counters.h - the counters of pipelines, ssds and measurements, one row each.
 *
 * `status`, the results of `run` and `bench`, and the record that an engine shares with its
 * supervisor use these rows; none has a list of its own. To add a counter, add its row here, and
 * count it in hr_counters_snapshot().
 */
#ifndef BOOT_ENGINE_RUNNER_COUNTERS_H
#define BOOT_ENGINE_RUNNER_COUNTERS_H

#include <stddef.h>
#include <stdint.h>

#include "boot/engine/engine.h"
#include "config/base/json.h"

/* Places and conditions for the output of a counter. */
enum {
	HR_IN_STATUS = 1 << 0,
	HR_IN_RUN = 1 << 1,  /* the result of a run */
	HR_IN_SINK = 1 << 2, /* `sink` of that result */
	HR_IN_BENCH = 1 << 3,
	HR_IF_QUEUES = 1 << 4,	 /* the role drives queue pairs */
	HR_IF_CYCLES = 1 << 5,	 /* workers count cycles */
	HR_IF_GPU = 1 << 6,	 /* they run on a GPU */
	HR_IF_COPIED = 1 << 7,	 /* tiles were also copied to GPU memory first */
	HR_IF_IO = 1 << 8,	 /* commands of one size */
	HR_IF_BASELINE = 1 << 9, /* a program without headrace was measured, too */
	HR_IN_ANY = HR_IF_QUEUES - 1
};

enum hr_counter_type {
	HR_COUNTER_U64,
	HR_COUNTER_U32,
	HR_COUNTER_NS, /* uint64_t of nanoseconds, printed in milliseconds */
	HR_COUNTER_REAL
};

struct hr_counter {
	const char *name; /* name in JSON, with its unit */
	const char *unit; /* "" for a plain number */
	const char *help; /* description for users */
	uint16_t at;	  /* offset in the struct of the rows */
	uint16_t in;	  /* HR_IN_..., HR_IF_... */
	uint8_t type;	  /* enum hr_counter_type */
	uint8_t decimals; /* decimals of a real number */
};

/* COUNTER(field, name, unit, type, in, help), in the order of output. */
#define HR_PIPELINE_COUNTERS(COUNTER)                                                           \
	COUNTER(tiles, "tiles", "tiles", U64, HR_IN_STATUS | HR_IN_RUN, "all of the pipeline")  \
	COUNTER(first_tile, "first_tile", "tiles", U64, HR_IN_STATUS | HR_IN_RUN,               \
		"durable from an earlier run: this one begins behind them")                     \
	COUNTER(tiles_done, "tiles_done", "tiles", U64, HR_IN_STATUS, "through since it began") \
	COUNTER(durable_tiles, "durable_tiles", "tiles", U64, HR_IN_STATUS | HR_IN_SINK,        \
		"of the sink, that stay when power fails")                                      \
	COUNTER(durable_bytes, "durable_bytes", "bytes", U64, HR_IN_SINK, "the same")           \
	COUNTER(read_bytes, "read_bytes", "bytes", U64, HR_IN_STATUS | HR_IN_RUN,               \
		"of all sources or objects, read since it began")                               \
	COUNTER(duration_ns, "duration_ms", "ms", NS, HR_IN_STATUS | HR_IN_RUN,                 \
		"from its launch until now, or until its end")                                  \
	COUNTER(read_bytes_per_s, "read_bytes_per_s", "bytes/s", U64, HR_IN_STATUS | HR_IN_RUN, \
		"read_bytes in duration_ms")

#define HR_ROLE_COUNTERS(COUNTER)                                                                  \
	COUNTER(blocks, "blocks", "blocks", U64, HR_IN_STATUS | HR_IN_RUN, "worker blocks")        \
	COUNTER(workers, "workers", "workers", U64, HR_IN_STATUS | HR_IN_RUN, "in all blocks")     \
	COUNTER(ended, "ended", "workers", U64, HR_IN_STATUS, "that have ended")                   \
	COUNTER(failed, "failed", "workers", U64, HR_IN_STATUS, "that have met an error")          \
	COUNTER(heartbeat, "heartbeat", "", U64, HR_IN_STATUS, "changes while they make progress") \
	COUNTER(tiles, "tiles", "tiles", U64, HR_IN_STATUS, "completed; for io: pages")            \
	COUNTER(bytes, "bytes", "bytes", U64, HR_IN_STATUS, "read from sources, or written")       \
	COUNTER(rounds, "rounds", "rounds", U64, HR_IN_RUN, "of the loops of workers")             \
	COUNTER(busy_rounds, "busy_rounds", "rounds", U64, HR_IN_RUN,                              \
		"in which a worker had work")                                                      \
	COUNTER(cycles, "cycles", "cycles", U64, HR_IN_RUN | HR_IF_CYCLES,                         \
		"of workers, where they are counted")                                              \
	COUNTER(busy_cycles, "busy_cycles", "cycles", U64, HR_IN_RUN | HR_IF_CYCLES,               \
		"of busy rounds")                                                                  \
	COUNTER(commands, "commands", "commands", U64, HR_IN_RUN | HR_IF_QUEUES, "sent to ssds")   \
	COUNTER(batches, "batches", "batches", U64, HR_IN_RUN | HR_IF_QUEUES,                      \
		"that commands were sent in")                                                      \
	COUNTER(fences, "fences", "fences", U64, HR_IN_RUN | HR_IF_QUEUES,                         \
		"of the system, for batches")                                                      \
	COUNTER(doorbells, "doorbells", "writes", U64, HR_IN_RUN | HR_IF_QUEUES,                   \
		"to doorbell registers")                                                           \
	COUNTER(odd_heads, "odd_heads", "completions", U64, HR_IN_RUN | HR_IF_QUEUES,              \
		"with an SQHD that the commands in flight do not explain")

/* Of the page cache of an access operator. */
#define HR_CACHE_COUNTERS(COUNTER)                                                                 \
	COUNTER(accesses, "accesses", "pages", U64, HR_IN_RUN, "looked up by compute workers")     \
	COUNTER(misses, "misses", "pages", U64, HR_IN_RUN, "accesses to pages not in the cache")   \
	COUNTER(hits_ppm, "hits_ppm", "ppm", U64, HR_IN_RUN, "share of accesses without a miss")   \
	COUNTER(peer_reads, "peer_reads", "pages", U64, HR_IN_RUN,                                 \
		"of these, read in the memory of another gpu")                                     \
	COUNTER(waits_ns, "waits_ms", "ms", NS, HR_IN_RUN, "of compute workers for pages")         \
	COUNTER(requests, "requests", "requests", U64, HR_IN_STATUS | HR_IN_RUN,                   \
		"for pages, taken by I/O workers")                                                 \
	COUNTER(merges, "merges", "requests", U64, HR_IN_STATUS | HR_IN_RUN,                       \
		"for pages that were present or in flight")                                        \
	COUNTER(pages_read, "pages_read", "pages", U64, HR_IN_STATUS | HR_IN_RUN, "from ssds")     \
	COUNTER(read_commands, "read_commands", "commands", U64, HR_IN_STATUS | HR_IN_RUN,         \
		"for pages read; neighbours share one")                                            \
	COUNTER(pages_whole, "pages_written_whole", "pages", U64, HR_IN_STATUS | HR_IN_RUN,        \
		"not read, because a worker wrote all of them")                                    \
	COUNTER(evictions, "evictions", "pages", U64, HR_IN_STATUS | HR_IN_RUN,                    \
		"removed to make room")                                                            \
	COUNTER(pages_written, "pages_written", "pages", U64, HR_IN_STATUS | HR_IN_RUN, "to ssds") \
	COUNTER(write_commands, "write_commands", "commands", U64, HR_IN_STATUS | HR_IN_RUN,       \
		"for pages written")                                                               \
	COUNTER(copies, "pages_copied", "pages", U64, HR_IN_STATUS | HR_IN_RUN,                    \
		"from the memory of another gpu")                                                  \
	COUNTER(invalidations, "invalidations", "pages", U64, HR_IN_STATUS | HR_IN_RUN,            \
		"removed because another gpu wrote to them")                                       \
	COUNTER(page_errors, "page_errors", "pages", U64, HR_IN_STATUS | HR_IN_RUN,                \
		"that could not be read")

/* Of the tap of a pipeline, in its newest run. */
#define HR_TAP_COUNTERS(COUNTER)                                                            \
	COUNTER(returned, "tiles_returned", "tiles", U64, HR_IN_STATUS | HR_IN_RUN,         \
		"given back by all their consumers")                                        \
	COUNTER(dropped, "tiles_dropped", "tiles", U64, HR_IN_STATUS | HR_IN_RUN,           \
		"for which no consumer had a credit (lag = \"drop\")")                      \
	COUNTER(failed, "tiles_failed", "tiles", U64, HR_IN_STATUS | HR_IN_RUN,             \
		"dropped after `tries` returns as failed")                                  \
	COUNTER(redelivered, "tiles_redelivered", "tiles", U64, HR_IN_STATUS | HR_IN_RUN,   \
		"lent again after a consumer failed or was lost")                           \
	COUNTER(waiting, "tiles_waiting", "tiles", U64, HR_IN_STATUS,                       \
		"computed, and waiting for a credit")                                       \
	COUNTER(present, "consumers", "consumers", U64, HR_IN_STATUS, "attached now")       \
	COUNTER(attached, "consumers_attached", "consumers", U64, HR_IN_STATUS | HR_IN_RUN, \
		"since the run began")                                                      \
	COUNTER(revoked, "consumers_dropped", "consumers", U64, HR_IN_STATUS | HR_IN_RUN,   \
		"because they broke the protocol")                                          \
	COUNTER(refused, "clients_refused", "clients", U64, HR_IN_STATUS | HR_IN_RUN,       \
		"that could not attach")                                                    \
	COUNTER(late, "leases_exceeded", "times", U64, HR_IN_STATUS | HR_IN_RUN,            \
		"a tile was held longer than `lease`")

/* Of the stream of a pipeline to or from another appliance. */
#define HR_REMOTE_COUNTERS(COUNTER)                                                             \
	COUNTER(up, "connected", "", U64, HR_IN_STATUS, "1: the connection is up")              \
	COUNTER(tiles, "tiles", "tiles", U64, HR_IN_STATUS | HR_IN_RUN,                         \
		"that have arrived at the receiver")                                            \
	COUNTER(bytes, "bytes", "bytes", U64, HR_IN_STATUS | HR_IN_RUN, "of these tiles")       \
	COUNTER(copies, "tiles_copied", "tiles", U64, HR_IN_STATUS | HR_IN_RUN,                 \
		"that a CPU has copied between ssd and network (bounce = \"copy\")")            \
	COUNTER(connections, "connections", "times", U64, HR_IN_STATUS | HR_IN_RUN,             \
		"the connection came up")                                                       \
	COUNTER(broken, "broken", "times", U64, HR_IN_STATUS | HR_IN_RUN, "it broke")           \
	COUNTER(again, "tiles_again", "tiles", U64, HR_IN_STATUS | HR_IN_RUN,                   \
		"sent a second time, or dropped because they were known")                       \
	COUNTER(not_ready, "not_ready", "times", U64, HR_IN_STATUS | HR_IN_RUN,                 \
		"the receiver had no receive request: a defect, if not 0")                      \
	COUNTER(refused, "connections_refused", "times", U64, HR_IN_STATUS | HR_IN_RUN,         \
		"a peer had another key, version, name or tile size")                           \
	COUNTER(flushes, "flushes", "times", U64, HR_IN_STATUS | HR_IN_RUN,                     \
		"writes to GPU memory were flushed")                                            \
	COUNTER(up_ns, "up_ms", "ms", NS, HR_IN_STATUS | HR_IN_RUN, "with a connection")        \
	COUNTER(down_ns, "down_ms", "ms", NS, HR_IN_STATUS | HR_IN_RUN, "without a connection") \
	COUNTER(recovery_ns, "last_recovery_ms", "ms", NS, HR_IN_STATUS | HR_IN_RUN,            \
		"from the last break to the next connection")

/* Of the feed of a pipeline, in its newest run. */
#define HR_FEED_COUNTERS(COUNTER)                                                           \
	COUNTER(next, "tiles_committed", "tiles", U64, HR_IN_STATUS | HR_IN_RUN,            \
		"from the first on, without a gap")                                         \
	COUNTER(discarded, "tiles_discarded", "tiles", U64, HR_IN_STATUS | HR_IN_RUN,       \
		"that producers held without a commit when they went")                      \
	COUNTER(present, "producers", "producers", U64, HR_IN_STATUS, "attached now")       \
	COUNTER(attached, "producers_attached", "producers", U64, HR_IN_STATUS | HR_IN_RUN, \
		"since the run began")                                                      \
	COUNTER(revoked, "producers_dropped", "producers", U64, HR_IN_STATUS | HR_IN_RUN,   \
		"because they broke the protocol")                                          \
	COUNTER(refused, "clients_refused", "clients", U64, HR_IN_STATUS | HR_IN_RUN,       \
		"that could not attach")                                                    \
	COUNTER(late, "leases_exceeded", "times", U64, HR_IN_STATUS | HR_IN_RUN,            \
		"a producer held tiles and committed none for longer than `lease`")

/* Of the producer that is attached to a feed. */
#define HR_PRODUCER_COUNTERS(COUNTER)                                                          \
	COUNTER(credits, "credits", "tiles", U64, HR_IN_STATUS, "that it may hold")            \
	COUNTER(held, "tiles_held", "tiles", U64, HR_IN_STATUS, "offered and not committed")   \
	COUNTER(lag, "lag_tiles", "tiles", U64, HR_IN_STATUS,                                  \
		"from the first tile without a commit to the newest offered one")              \
	COUNTER(idle_ns, "idle_ms", "ms", NS, HR_IN_STATUS,                                    \
		"since it committed a tile, or got one after it had none")                     \
	COUNTER(offered, "tiles_offered", "tiles", U64, HR_IN_STATUS, "since it attached")     \
	COUNTER(committed, "tiles_committed", "tiles", U64, HR_IN_STATUS, "since it attached") \
	COUNTER(late, "leases_exceeded", "times", U64, HR_IN_STATUS,                           \
		"it held tiles and committed none for longer than `lease`")

/* Of a consumer that is attached to a tap. */
#define HR_CONSUMER_COUNTERS(COUNTER)                                                           \
	COUNTER(credits, "credits", "tiles", U64, HR_IN_STATUS, "that it may hold now")         \
	COUNTER(held, "tiles_held", "tiles", U64, HR_IN_STATUS, "lent and not given back")      \
	COUNTER(lag, "lag_tiles", "tiles", U64, HR_IN_STATUS,                                   \
		"from the oldest tile that it holds to the newest lent one")                    \
	COUNTER(oldest_ns, "oldest_held_ms", "ms", NS, HR_IN_STATUS,                            \
		"since the oldest tile that it holds was lent")                                 \
	COUNTER(hold_ns, "hold_ms", "ms", NS, HR_IN_STATUS, "mean time from lending to return") \
	COUNTER(hold_max_ns, "hold_max_ms", "ms", NS, HR_IN_STATUS, "maximum of these times")   \
	COUNTER(lent, "tiles_lent", "tiles", U64, HR_IN_STATUS, "since it attached")            \
	COUNTER(returned, "tiles_returned", "tiles", U64, HR_IN_STATUS, "given back")           \
	COUNTER(failed, "tiles_failed", "tiles", U64, HR_IN_STATUS, "given back as failed")     \
	COUNTER(redelivered, "tiles_redelivered", "tiles", U64, HR_IN_STATUS,                   \
		"lent to it after another consumer")                                            \
	COUNTER(late, "leases_exceeded", "times", U64, HR_IN_STATUS,                            \
		"it held a tile longer than `lease`")

/* COUNTER(fault, name, help): faults of an ssd since the engine started, in the order of enum
 * hr_fault. */
#define HR_SSD_COUNTERS(COUNTER)                                                                   \
	COUNTER(LOST_COMMAND, "lost_commands",                                                     \
		"commands without a completion before their deadline")                             \
	COUNTER(BROKEN_QUEUE, "broken_queues", "queue pairs on which the controller broke a rule") \
	COUNTER(KEPT_QUEUE, "kept_queues", "queue pairs that the controller did not delete")       \
	COUNTER(UNKNOWN_QUEUES, "unknown_queues", "failures of a gpu that used queue pairs")       \
	COUNTER(NAMESPACE, "changed_namespaces", "changes of the namespace while it was open")     \
	COUNTER(DOORBELL, "wrong_doorbells", "doorbell writes that the controller refused")        \
	COUNTER(ADMIN_QUEUE, "admin_queue_failures", "ends of the admin queue")                    \
	COUNTER(FATAL, "fatal_statuses", "internal failures that the controller reported")         \
	COUNTER(GONE, "removals", "losses of the registers: the device was gone")                  \
	COUNTER(RESET, "foreign_resets", "resets by another process or driver")

#define HR_COUNTER_FIELD(field, name, unit, type, in, help) uint64_t field;

/* Sums over the workers of one role. All 0: the pipeline has no such role, or is not wired. */
struct hr_role_counters {
	HR_ROLE_COUNTERS(HR_COUNTER_FIELD)
};

/* All 0: a stream operator, or the pipeline is not wired. */
struct hr_cache_counters {
	HR_CACHE_COUNTERS(HR_COUNTER_FIELD)
};

/* All 0: the pipeline has no tap, or is not wired. */
struct hr_tap_counters {
	HR_TAP_COUNTERS(HR_COUNTER_FIELD)
};

/* All 0: the pipeline has no stream, or its link is not open. */
struct hr_remote_counters {
	HR_REMOTE_COUNTERS(HR_COUNTER_FIELD)
};

/* All 0: the pipeline has no feed, or is not wired. */
struct hr_feed_counters {
	HR_FEED_COUNTERS(HR_COUNTER_FIELD)
};

struct hr_producer_counters {
	HR_PRODUCER_COUNTERS(HR_COUNTER_FIELD)
};

struct hr_consumer_counters {
	HR_CONSUMER_COUNTERS(HR_COUNTER_FIELD)
};

/* Counters of one pipeline; words of 8 bytes only. */
struct hr_counters {
	HR_PIPELINE_COUNTERS(HR_COUNTER_FIELD)
	struct hr_role_counters role[HR_RUN_ROLES];
	struct hr_cache_counters cache;
	struct hr_tap_counters tap;
	struct hr_remote_counters remote;
	struct hr_feed_counters feed;
};

/* The rows of those structs, and of count[HR_FAULTS] of an ssd; the last row has no name. */
extern const struct hr_counter hr_pipeline_counters[], hr_role_counters[], hr_cache_counters[],
	hr_tap_counters[], hr_remote_counters[], hr_consumer_counters[], hr_feed_counters[],
	hr_producer_counters[], hr_ssd_counters[];

/* A row of another struct, for a measurement. */
#define HR_COUNTER_ROW(of, field, text, of_unit, kind, digits, where, what)                   \
	{                                                                                     \
		.name = (text), .unit = (of_unit), .help = (what), .at = offsetof(of, field), \
		.in = (where), .type = HR_COUNTER_##kind, .decimals = (digits)                \
	}

/* Count, at any time; costs of roles (from `rounds` on) only after the run has settled.
 * hr_counters_time() computes durations and rates, also when no engine runs. */
void hr_counters_snapshot(struct hr_counters *c, const struct hr_engine *engine,
			  const struct hr_run *run);
/* The consumer in a seat of the run's tap; `credits` and `late` stay. The run is wired. */
void hr_counters_snapshot_consumer(struct hr_consumer_counters *c, const struct hr_run *run,
				   uint32_t seat);
/* The producer of the run's feed; `credits`, `idle_ns` and `late` stay. The run is wired. */
void hr_counters_snapshot_producer(struct hr_producer_counters *c, const struct hr_run *run);
/* started_ns 0: not started. ended_ns 0: still running, so the time until now_ns counts. */
void hr_counters_time(struct hr_counters *c, uint64_t started_ns, uint64_t ended_ns,
		      uint64_t now_ns);

/* Write members for the rows that belong to one output: HR_IN_..., with the conditions that hold
 * there. */
void hr_counters_json(struct hr_json *out, const struct hr_counter *row, const void *of,
		      unsigned in);

/* Write a member for each role of the pipeline: "prefetch", "compute", "writeback"; for an access
 * operator "io", "compute", and "cache" for its page cache. */
void hr_role_counters_json(struct hr_json *out, const struct hr_counters *c, unsigned in);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/engine/remote/remote.h - streams of tiles to and from other appliances: the service of
 * the engine between the link to the other side (boot/remote/link.h) and the tap or the feed of a run.
 *
 *   sender:    tap role -> entries -> this service -> link;  page <- tiles that have arrived
 *   receiver:  feed role -> entries (offers) -> this service -> link;  page <- tiles that have come
 *
 * The worker code is that of taps and feeds: the service is the only consumer, or the only producer,
 * and uses the same words, entries and page as another process does. A thread of its own for each
 * stream posts and polls. It moves words only: the network device reads and writes the tiles where
 * the workers have them.
 *
 * Numbers of tiles are those of the pipelines, on both sides. The receiver says at the hello which
 * tiles it has, so bring-up of a sender waits for the receiver, and its run starts at the first tile
 * that the receiver does not have. The sender keeps the last tile of the stream until the receiver's
 * run has ended: so a sender's run is done after the receiver's.
 */
#ifndef BOOT_ENGINE_REMOTE_REMOTE_H
#define BOOT_ENGINE_REMOTE_REMOTE_H

#include "boot/engine/engine.h"
#include "boot/remote/link.h"

/* What a stream has done, for results and `status`. */
struct hr_remote_report {
	bool open; /* the rest is valid */
	bool up;   /* connected */
	struct hr_link_counters link;
	uint64_t copies;     /* tiles that a CPU has copied between ssd and network */
	char described[256]; /* device, port and addresses */
};

/*
 * Open the links of all selected pipelines that have one: read the key file, prove that the device
 * reaches the tiles, listen. Memory is up, and nothing has been written yet. 0; -EACCES, -EPERM,
 * -EMSGSIZE: the key file; errors of hr_link_open(); in engine->error, with file and line. With
 * engine->keep_going only the pipeline is left out.
 */
int hr_remote_open(struct hr_engine *engine);

/*
 * The sinks are known: start the threads, and wait until the receivers of all senders have said which
 * tiles they have: first_tile of their runs. -EINTR: a signal; or the error of the stream, in
 * engine->error. keep_going: as above.
 */
int hr_remote_start(struct hr_engine *engine);

/*
 * For `check`: read the key file of each selected pipeline with a stream, and prove that its network
 * device reaches memory as large as its tiles (boot/remote/link.h); hr_remote_snapshot() has the
 * description then. The partition is planned. Errors as hr_remote_open().
 */
int hr_remote_probe_all(struct hr_engine *engine);

/* For `post`: the same for one pipeline of a configuration, with two small slots. */
int hr_remote_probe_one(const struct hr_config *config, const struct hr_config_pipeline *pipeline,
			char *text, size_t bytes, struct hr_error *e);

/* The run is about to be launched: its words are there. No effect on a run without a stream, as in
 * all calls below. */
void hr_remote_begin(struct hr_engine *engine, struct hr_run *run);

/* 0; or an error of the stream that ends the run, in *e. */
int hr_remote_check(struct hr_engine *engine, struct hr_run *run, struct hr_error *e);

/* The run has ended, with its outcome: the other side gets to know it. */
void hr_remote_end(struct hr_engine *engine, const struct hr_run *run);

/* Close all links, after the other sides know how the runs have ended. */
void hr_remote_down(struct hr_engine *engine);

void hr_remote_snapshot(const struct hr_engine *engine, const struct hr_run *run,
			struct hr_remote_report *report);

#endif

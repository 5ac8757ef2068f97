/*
 * boot/engine/stages.h - the appliance as one struct, brought up stage by stage and down in reverse.
 *
 *   backends -> controllers -> stores -> objects -> partition -> memory -> sinks -> queues
 *
 * Nothing is written to a disk before the partition is known to fit. (On a memory-backed ssd, which
 * is blank each time, `stores` makes a store and the objects that the configuration names.) After
 * the last stage the appliance is sealed: nothing is allocated until it is unsealed for the way
 * down; a test build traps malloc.
 */
#ifndef BOOT_ENGINE_STAGES_H
#define BOOT_ENGINE_STAGES_H

#include <stdbool.h>
#include <stdint.h>

#include "config/log.h"
#include "boot/engine/ssd.h"
#include "config/config.h"
#include "gpu/arena.h"
#include "gpu/backend.h"
#include "gpu/worker/pipeline.h"
#include "gpu/places.h"

/* How far bring-up goes. */
enum hr_stage {
	HR_STAGE_NONE,
	HR_STAGE_BACKENDS,
	HR_STAGE_CONTROLLERS,
	HR_STAGE_STORES,    /* open where there is one */
	HR_STAGE_OBJECTS,   /* sources found, sizes and tiles known */
	HR_STAGE_PARTITION, /* laid out and checked, nothing allocated: `headrace check`, which also
			     * judges the sinks */
	HR_STAGE_MEMORY,    /* allocated, mapped into the controllers */
	HR_STAGE_SINKS,	    /* sink objects created, or found to be resumed */
	HR_STAGE_QUEUES,    /* queue pairs created, pipelines ready to launch */
	HR_STAGES,
};

/* What becomes of the comparison of a source with its checksum, and why it is not made. */
enum hr_source_check {
	HR_SOURCE_UNREAD, /* it is to be compared once all of it has been read */
	HR_SOURCE_VERIFIED,
	HR_SOURCE_WRONG,
	HR_SOURCE_VERIFY_OFF,
	HR_SOURCE_NO_CHECKSUM,
	HR_SOURCE_RESUMED, /* what an earlier run has read of it is not read again */
};

/* A source as it was found. */
struct hr_run_source {
	uint64_t id; /* of the object; 0 while it is the sink of an earlier pipeline not yet made */
	uint64_t bytes;
	int from;	/* index of the run whose sink it is, or -1 */
	uint32_t queue; /* index in hr_run.ssd: which queue pair of a worker reaches it */
	uint32_t tile_bytes;
	bool verifiable; /* it has a checksum, or will have, and the pipeline wants it compared */
	/* From `partition`: where the words of its tiles begin in the part `checksums`. */
	uint64_t words_at;
	/* From `sinks`, then from running it. */
	enum hr_source_check check;
	uint32_t crc_expected, crc_found; /* when it was compared */
};

enum hr_outcome {
	HR_RUN_WAITING,
	HR_RUN_DONE,
	HR_RUN_COMPLETE, /* the sink was there already, whole, from this very pipeline */
	HR_RUN_INTERRUPTED,
	HR_RUN_FAILED,
};

/* What bring-up does about the sink of a run. */
enum hr_sink_plan {
	HR_SINK_NONE, /* it has none */
	HR_SINK_CREATE,
	HR_SINK_REPLACE,  /* an object of the name is there; it goes when the run has finished */
	HR_SINK_RESUME,	  /* this very run was cut short */
	HR_SINK_COMPLETE, /* this very run has made it: nothing to do */
};

/* Part indices in the gpu's partition; -1: not needed. */
struct hr_run_parts {
	int pipe, slots, copy, args, states, records, result, control, status, written, checksums,
		read_qps, write_qps, read_tables, write_tables, chunks, prps, sink_rings,
		sink_tiles;
	int source_rings[HR_SOURCES_MAX]; /* per distinct ssd */
	int source_tiles[HR_SOURCES_MAX];
};

/* How an ssd and a gpu meet. */
struct hr_path {
	bool pair;		    /* two PCI functions: the topology was asked */
	bool direct;		    /* tiles lie in GPU memory, and the ssd reaches them there */
	char verdict[48], rule[16]; /* of the topology, "" without a pair */
	char suspect[16];	    /* rule to blame when it does not work all the same, or "" */
	char suspect_why[256];	    /* one sentence */
	char why[768];		    /* one sentence: the topology's, and what was found since */
};

/* Why an ssd does not reach a place of memory, for a message. */
struct hr_obstacle {
	char what[320];	   /* "": the way is not to blame, and what is has been logged */
	char suspect[448]; /* what most likely stands in the way, or "" */
};

/* A pipeline between configuration and worker code. */
struct hr_run {
	const struct hr_config_pipeline *config;
	bool selected;
	bool suspect; /* it failed in an earlier attempt: others run before it */
	/* From `backends`. */
	enum hr_kernel kernel;	 /* what runs it: its gpu's worker code, or one linked for it */
	uint32_t kernel_threads; /* of a block, at most; 0: what the backend has */
	/* From `objects`. */
	struct hr_run_source source[HR_SOURCES_MAX];
	uint32_t ssd[HR_SOURCES_MAX]; /* distinct ssds of the sources */
	uint32_t ssds;
	uint64_t tiles;
	uint64_t sink_bytes;
	uint32_t sink_tile_bytes;
	/* From `partition`. */
	uint32_t slots;
	uint32_t blocks[HR_ROLES], workers[HR_ROLES]; /* of each role; workers (warps) per block */
	uint32_t threads;			      /* of every block */
	bool copies; /* compute blocks copy tiles to GPU memory before they work on them */
	bool stages; /* they make the output in GPU memory and copy it to host memory */
	uint32_t shared_bytes;	/* of each block at launch */
	uint64_t sink_words_at; /* where the words of the sink's tiles begin in `checksums` */
	struct hr_run_parts part;
	/* From `sinks`. */
	enum hr_sink_plan sink_plan;
	bool sink_made; /* by this bring-up, and nothing is written to it yet */
	uint64_t sink_id;
	uint64_t fingerprint; /* of what is written */
	uint64_t first_tile;
	uint64_t sink_summed_tiles; /* sink_crc is that of so many tiles from the first one on */
	uint32_t sink_crc;
	bool sink_unsummed; /* ... which has to be read for it first */
	/* From `queues`, as the CPU sees it: pipe and queue pairs as of the launch, then of the
	 * end; the others all the time. */
	struct hr_pipe *pipe;
	struct hr_qp *read_qp, *write_qp;
	struct hr_pipe_control *control;
	struct hr_worker_status *status;
	uint64_t *written;
	/* From running it. */
	enum hr_outcome outcome;
	int error;
	struct hr_failure failure; /* with HR_RUN_FAILED, when a worker reported it */
	uint64_t started_ns, ended_ns;
	/* At the end: hr_run_tiles_done(), hr_run_bytes_read(). */
	uint64_t through_tiles, read_bytes;
	bool settled; /* workers have ended: slots and descriptor are what they have left */
	uint64_t first_submit_ns; /* 0: no tile was submitted */
	uint64_t durable_tiles;	  /* of the sink */
};

struct hr_appliance {
	struct hr_config config;
	struct hr_ssd ssd[HR_SSDS_MAX];
	struct hr_backend backend[HR_GPUS_MAX];
	struct hr_partition partition[HR_GPUS_MAX];    /* one per gpu */
	struct hr_path path[HR_GPUS_MAX][HR_SSDS_MAX]; /* of pairs that a pipeline uses */
	struct hr_places memory[HR_GPUS_MAX];
	uint32_t mapped[HR_PLACES]
		       [HR_GPUS_MAX];	     /* bit per ssd: that place is mapped into it; of the
						  * ssds of a controller the first has it */
	void *bar[HR_GPUS_MAX][HR_SSDS_MAX]; /* of an ssd that the gpu uses, as workers see it */
	bool gpu_used[HR_GPUS_MAX], gpu_up[HR_GPUS_MAX];
	char gpu_note[HR_GPUS_MAX][HR_LOG_LINE_MAX]; /* what its backend is not as asked, or "" */
	struct hr_run run[HR_PIPELINES_MAX];
	/*
	 * A pipeline, or an ssd of some of them, that does not work is left out, and the others run
	 * (`headrace boot`); false: it fails the stage. To be set behind hr_appliance_init().
	 */
	bool keep_going;
	bool only_checks; /* nothing is written, so no disk is reserved; set behind init as well */
	bool left_out[HR_SSDS_MAX];   /* not brought up; no selected pipeline uses it */
	bool gpu_failed[HR_GPUS_MAX]; /* while a pipeline ran on it */
	uint64_t patience_ns; /* with workers that do not move; 0: as in boot/engine/watch.h */
	uint32_t min_blocks;  /* that backends must offer, besides what pipelines need */
	uint64_t collect_ns;  /* incomplete objects older than that are removed; 0: none */
	bool refused;	      /* bring-up failed for a reason that is the same the next time */
	bool stuck; /* a controller does not stop: memory it may still write to is never freed */
	enum hr_stage up; /* last stage that is up */
};

/*
 * An appliance for a configuration that has been read into app->config: all else zeroed, all
 * pipelines selected, or the one of that name; and the kind of host memory that its ssds need, from
 * now on for the whole process. -ENOENT, with a message, when there is no such pipeline; -EBUSY:
 * memory of another kind is in use.
 */
int hr_appliance_init(struct hr_appliance *app, const char *pipeline);

/*
 * Up to and including stage `last`. On error everything is down again, the reason is logged, and
 * the value says what kind it is: -EINTR: a signal asked to stop (not logged); -EINVAL: a mistake in
 * the configuration that only devices could show (file and line logged); -ENOTSUP: a device or
 * backend cannot do what is asked; -EIO: also a device that was up and is gone; others as the parts
 * return them.
 */
int hr_appliance_up(struct hr_appliance *app, enum hr_stage last);

/* Everything that is up, down, in reverse order. Unseals. */
void hr_appliance_down(struct hr_appliance *app);

/* The stages above `last` only: those up to it stay as they are, and more can come up again, for
 * runs whose outcome is set back to HR_RUN_WAITING before. */
void hr_appliance_down_to(struct hr_appliance *app, enum hr_stage last);

/* The pipeline reads or writes that ssd; reads the sink of the other. Of the configuration alone. */
bool hr_run_uses_ssd(const struct hr_run *run, uint32_t d);
bool hr_run_reads_sink(const struct hr_run *reader, const struct hr_run *writer);

/*
 * Go on without a selected pipeline, which fails with err, and without those that read its sink; or
 * without an ssd that is down, and all pipelines that use it.
 */
void hr_refuse_run(struct hr_appliance *app, uint32_t i, int err);
void hr_refuse_ssd(struct hr_appliance *app, uint32_t d, int err);

/* Before bring-up: leave out an ssd and the pipelines that cannot run without it; none has failed. */
void hr_leave_out_ssd(struct hr_appliance *app, uint32_t d);

/* Some pipeline is left to run. */
bool hr_any_selected(const struct hr_appliance *app);

/* "queues" and the like. */
const char *hr_stage_name(enum hr_stage stage);

/* "in place", "copied to the GPU", or NULL where tiles and workers share a memory. */
const char *hr_run_bounce(const struct hr_appliance *app, const struct hr_run *run);

/* "host memory (host backend)": where tiles of that gpu lie that are not direct, and why. */
const char *hr_gpu_path(const struct hr_appliance *app, uint32_t gpu);

/* "direct (GPU memory)" and the like: where the tiles of a pipeline lie. */
const char *hr_run_path(const struct hr_appliance *app, const struct hr_run *run);

/* PCI address of the function whose memory is the gpu's, "" when no ssd can reach it. */
const char *hr_gpu_address(const struct hr_backend *b);

/* Both are one ssd, or up on one controller. */
static inline bool hr_one_controller(const struct hr_appliance *app, uint32_t a, uint32_t b)
{
	return a == b || hr_ssd_share(&app->ssd[a], &app->ssd[b]);
}

/* The first ssd of the controller that ssd d is up on: what is done once a controller is its. */
static inline uint32_t hr_first_of_controller(const struct hr_appliance *app, uint32_t d)
{
	uint32_t first = 0;

	while (!hr_one_controller(app, first, d))
		first++;
	return first;
}

/* A selected pipeline of that gpu uses that ssd. */
bool hr_pair_used(const struct hr_appliance *app, uint32_t g, uint32_t d);

/* Where tiles to and from that ssd lie, and the rings of its queue pairs. */
static inline enum hr_place hr_tile_place(const struct hr_appliance *app, uint32_t g, uint32_t d)
{
	return app->path[g][d].direct ? HR_PLACE_GPU : HR_PLACE_HOST;
}
static inline enum hr_place hr_ring_place(const struct hr_appliance *app, uint32_t g, uint32_t d)
{
	return app->config.queues == HR_QUEUES_GPU ? hr_tile_place(app, g, d) : HR_PLACE_HOST;
}

/* Workers of a role, in all blocks. */
static inline uint32_t hr_run_workers(const struct hr_run *run, enum hr_role role)
{
	return run->blocks[role] * run->workers[role];
}

/* A compute block's copies of the tiles of all sources. */
uint64_t hr_run_copy_bytes(const struct hr_run *run);

/* What determines the contents of a run's sink: operator, arguments, sources, tiles. */
uint64_t hr_run_fingerprint(const struct hr_appliance *app, const struct hr_run *run);

/*
 * Tag of the sink of a run with this fingerprint: not 0, and with `checksum` another than without. With
 * it, crc of the incomplete object is that of its durable prefix. Versions that keep no such checksum
 * write the tag without, so they do not go on with what they would leave with a stale one.
 */
uint64_t hr_sink_tag(uint64_t fingerprint, bool checksum);

/* A run that was cut short goes on after what is durable of its sink when it is called again. */
bool hr_run_resumes(const struct hr_run *run);

/* A mistake with its place: "FILE:LINE: ...", to stderr. Returns -EINVAL. */
int hr_mistake_at(const struct hr_appliance *app, unsigned line, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/*
 * From hr_seal() to hr_unseal() nothing of this process allocates memory. hr_sealed() is for the
 * test that traps malloc.
 */
void hr_seal(void);
void hr_unseal(void);
bool hr_sealed(void);

/* The stages that have files of their own, for boot/engine/stages.c. Each is one pair of up and
 * down. */
int hr_operators_link(struct hr_appliance *app); /* a part of `backends` */
/* What a stage returns after ssd d has failed with err: 0 where the appliance keeps going without. */
int hr_stage_without(struct hr_appliance *app, uint32_t d, int err);
int hr_stores_up(struct hr_appliance *app);
int hr_store_stage(struct hr_appliance *app, uint32_t d); /* of one ssd, for the self-test */
int hr_objects_up(struct hr_appliance *app);
int hr_paths_up(struct hr_appliance *app);			/* the first part of partition */
int hr_shape_run(struct hr_appliance *app, struct hr_run *run); /* slots, blocks, threads */
int hr_partition_plan(struct hr_appliance *app); /* the rest, over paths as they are */
int hr_partition_up(struct hr_appliance *app);
/* Where GPU memory turns out to be out of an ssd's reach, and nobody demands that it is not, paths
 * become bounce, the partition is planned anew, and all memory taken again. */
int hr_memory_up(struct hr_appliance *app);
/*
 * A place that is mapped into ssd d, tried: a part of memory. 0, also where there is nothing to be
 * tried. -EIO: what arrived is something else; a status: the ssd could not move the data; both are
 * told in *obstacle and not logged. Other errors of the disk or the backend are, without an obstacle.
 * When a command was lost the controller is disabled, or app->stuck is set.
 */
int hr_prove(struct hr_appliance *app, uint32_t g, uint32_t d, enum hr_place place,
	     struct hr_obstacle *obstacle);
/*
 * The direct paths between gpu g and these ssds (a bit each) do not work; `object` is whose message
 * that is. With memory.path = "auto" and queues in host memory they become bounce, with a warning:
 * true. Otherwise an error is logged.
 */
bool hr_paths_lost(struct hr_appliance *app, uint32_t g, uint32_t ssds, const char *object,
		   const struct hr_obstacle *obstacle);
int hr_attach_bar(struct hr_appliance *app, uint32_t g, uint32_t d); /* sets bar[g][d] */
void hr_detach_bar(struct hr_appliance *app, uint32_t g, uint32_t d);
void hr_memory_down(struct hr_appliance *app);
/*
 * Judge all sinks and their space without a change on any disk, by the same steps that hr_sinks_up()
 * takes: sets sink_plan of each run. After `objects`. 0, or what hr_sinks_up() would fail with; all
 * mistakes are logged, with file and line, and app->refused is set where it will not change by
 * itself.
 */
int hr_sinks_judge(struct hr_appliance *app);
/* Judge them, then create or find them; on error those that were made are removed again. */
int hr_sinks_up(struct hr_appliance *app);
/* Remove those that this bring-up has made and whose runs were never launched. */
void hr_sinks_down(struct hr_appliance *app);
/* What is going to be done about a sink of this name that is there: "; ...", or "" when none is.
 * After hr_sinks_judge(). */
const char *hr_sink_prospect(const struct hr_run *run);
int hr_queues_up(struct hr_appliance *app);
void hr_queues_down(struct hr_appliance *app);

#endif

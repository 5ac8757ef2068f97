/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config/config.h - the configuration file as one validated struct. The only user of libconfig.
 *
 * The file is read completely, then checked completely. Every mistake is reported as "FILE:LINE:
 * path: mistake, expected value". config/default.conf documents the format; it is embedded in the
 * binary and used when the command line names no file. README.md explains a first configuration
 * line by line. Sizes are integers or strings like "64M" (K, M, G, T = powers of 1024). @include is
 * refused: an appliance has one file.
 *
 * Bring-up checks later whether objects exist and whether tiles fit the disk's blocks. It reports
 * mistakes with the same file and line.
 */
#ifndef CONFIG_CONFIG_H
#define CONFIG_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/base/log.h"
#include "config/base/limits.h"
#include "config/operator.h"
#include "config/base/error.h"

/* ---- questions of the configuration to layers above it: is a device string correct,
 * which operator has this name or lies in this file, and what is the number of this process.
 * boot/engine/devices/devices.h answers them.
 */

/* The number of this process among those of an MPI job: among all, and among those of its machine. */
struct hr_config_rank {
	uint32_t rank, local_rank;
};

struct hr_config_lookup {
	/* Check the form of an ssd's or a gpu's device string. 0, or -EINVAL. */
	int (*ssd_check)(const char *device, struct hr_error *e);
	int (*gpu_check)(const char *device, struct hr_error *e);
	/*
	 * Number of namespaces of the controller that the string describes; 0: the string does not
	 * tell.
	 */
	uint32_t (*ssd_namespaces)(const char *device);
	/* Built-in operator i, i below HR_OPERATORS_BUILT_IN_MAX; NULL: no such operator. */
	const struct hr_operator *(*operator_at)(uint32_t i);
	/*
	 * Load the user operator in a file; the process owns the description. 0, or an error such
	 * as -EINVAL with a text that the caller prints after the path.
	 */
	int (*operator_load)(const char *path, const struct hr_operator **op, struct hr_error *e);
	/* CRC-32C of the file of a loaded user operator. */
	uint32_t (*operator_checksum)(const struct hr_operator *op);
	/* Values of ${rank} and ${local_rank} in device strings; NULL: they have none, because the
	 * process is not started with `headrace run --mpi`. */
	const struct hr_config_rank *rank;
};
/* How a GPU reads tiles in host memory: in place, or from a copy in GPU memory. */
enum hr_bounce_policy { HR_BOUNCE_AUTO, HR_BOUNCE_IN_PLACE, HR_BOUNCE_COPY };

/* Slots of a pipeline whose configuration gives none; a GPU may get more. */
#define HR_SLOTS_DEFAULT 8u

/*
 * When a run compares sources with their checksums. AUTO: when it reads the whole source and the
 * source has a checksum. ON: always; a source without a checksum is a mistake, and an interrupted
 * run starts over. OFF: never. BEFORE: each source that has a checksum is read and compared before the
 * workers start. Objects of access operators are compared only before: with AUTO those that are not
 * long, with BEFORE all that have a checksum, with ON all.
 */
enum hr_verify_policy { HR_VERIFY_AUTO, HR_VERIFY_ON, HR_VERIFY_OFF, HR_VERIFY_BEFORE };

/*
 * How `headrace run --mpi` divides a pipeline among the processes of the job (ranks). TILES: every
 * rank has the whole sources, and processes a part of their tiles. OBJECTS: every rank has other rows
 * of the sources, shards, and processes those. A process alone processes all, of whole objects.
 */
enum hr_shard_policy { HR_SHARD_NONE, HR_SHARD_TILES, HR_SHARD_OBJECTS };

enum hr_path_policy { HR_PATH_AUTO, HR_PATH_DIRECT, HR_PATH_BOUNCE };

/* Memory that holds the rings of workers' queue pairs. */
enum hr_queue_policy { HR_QUEUES_HOST, HR_QUEUES_GPU };

/*
 * An object that bring-up makes on a memory-backed ssd, which is empty after each start. Its
 * content is a counting pattern: 64-bit word i (little-endian) of the object is i.
 */
struct hr_config_prepared {
	char object[HR_NAME_MAX];
	uint64_t bytes;
	unsigned line;
};

struct hr_config_ssd {
	char name[HR_NAME_MAX];
	char device[HR_DEVICE_MAX];
	char serial[HR_SERIAL_MAX]; /* required serial number of the disk; "": any disk */
	uint32_t nsid;		    /* default 1 */
	uint32_t queue_entries;	    /* of each I/O queue; default 256 */
	uint64_t timeout_ns;	    /* deadline of an I/O command; default 5 s */
	uint64_t admin_timeout_ns;  /* of an admin command; default HR_ADMIN_TIMEOUT_NS */
	bool in_memory;		    /* device is soft:memory: formatted at bring-up */
	/* set by a command that writes no block of the disk: foreign data are no obstacle */
	bool reads_only;
	uint32_t prepared_count;
	struct hr_config_prepared prepared[HR_PREPARED_MAX];
	unsigned line;
};

struct hr_config_gpu {
	char name[HR_NAME_MAX];
	char device[HR_DEVICE_MAX];
	uint32_t blocks; /* limit for all pipelines at the same time; 0: the limit of the gpu */
	unsigned line;
};

struct hr_config_object {
	uint32_t ssd; /* index in ssd[] */
	char object[HR_NAME_MAX];
	/* sinks, and new objects of access operators: an existing object is replaced when the run
	 * has finished */
	bool replace;
	bool checksum; /* sinks, and written objects of access operators: it gets one; default true */
	/* sinks: whole versions that the ssd holds after a run: NAME, NAME.1, NAME.2 ...; 0: one.
	 * With it `replace` is set. */
	uint32_t keep;
	bool writes;	/* objects of access operators: the operator writes it */
	uint64_t bytes; /* of those: the run creates it with this length; 0: it exists */
	unsigned line;
};

/* A sink that hands tiles to other processes (gpu/tap/role.h). */
enum hr_tap_deliver { HR_TAP_ONE, HR_TAP_EACH }; /* each tile to one consumer, or to each */
enum hr_tap_lag { HR_TAP_BLOCK, HR_TAP_DROP };	 /* without a credit a tile waits, or is dropped */
/* How the pipeline and consumers on the same GPU share it. */
enum hr_tap_sharing { HR_SHARE_AUTO, HR_SHARE_MPS, HR_SHARE_PARK, HR_SHARE_SLICE };

struct hr_config_tap {
	char name[HR_NAME_MAX]; /* unique in the configuration; "": the pipeline has no tap */
	enum hr_tap_deliver deliver;
	enum hr_tap_lag lag;
	enum hr_tap_sharing share;
	uint32_t credits;   /* limit of tiles that one consumer holds; 0: that of the slots */
	uint32_t consumers; /* least number before the first tile; default 1 */
	uint32_t tries;	   /* a tile that consumers have given back as failed so often is dropped */
	uint64_t lease_ns; /* a consumer that gives back nothing for so long is named; 0: none is */
	/* besides root and the user of the appliance, members may attach; or HR_CONTROL_NO_GROUP */
	uint32_t group;
	char dtype[8];	  /* type of the elements, such as "bf16"; "": not configured */
	uint32_t columns; /* elements of a row; 0: not configured */
	unsigned line;
};

/* A source whose tiles another process fills (gpu/tap/feed.h). */
struct hr_config_feed {
	char name[HR_NAME_MAX]; /* unique in the configuration; "": the pipeline has no feed */
	uint64_t bytes;		/* of the whole feed at most; a producer may end it earlier */
	uint32_t credits;	/* limit of tiles that a producer holds; 0: that of the slots */
	uint64_t lease_ns; /* a producer that commits nothing for so long is named; 0: none is */
	/* besides root and the user of the appliance, members may attach; or HR_CONTROL_NO_GROUP */
	uint32_t group;
	char dtype[8];	  /* type of the elements, such as "bf16"; "": not configured */
	uint32_t columns; /* elements of a row; 0: not configured */
	unsigned line;
};

/* The other end of a stream of tiles to or from another appliance (boot/remote/link.h). The stream has
 * the name of the tap, or of the feed. */
struct hr_config_remote {
	/* "A.B.C.D:PORT": a sink connects there, a source listens there; "": the tap or feed is for
	 * processes of this machine */
	char address[HR_DEVICE_MAX];
	uint32_t depth; /* tiles in flight; 0: the default of the link */
	unsigned line;
};

/* What all streams of the configuration share. */
struct hr_config_remotes {
	char key[HR_FILE_MAX];	  /* file, resolved against the folder of the configuration */
	char device[HR_NAME_MAX]; /* RDMA device; "": the one that has the address */
	uint64_t call_ns;	  /* longest time without a connection; 0: for ever */
	/* addresses that may connect; none: each one that has the key */
	uint32_t allowed_count;
	char allowed[HR_REMOTE_ALLOWED_MAX][HR_NAME_MAX];
	unsigned line; /* 0: the file has no such group */
};

/* The page cache of an access operator. */
#define HR_CACHE_PAGE_MIN 4096u
#define HR_CACHE_PAGE_MAX 65536u
#define HR_CACHE_FRAMES_MIN 7u /* one set of the page table */

enum hr_cache_policy { HR_CACHE_CLOCK, HR_CACHE_LRU, HR_CACHE_STREAM, HR_CACHE_COUNT };

struct hr_config_cache {
	uint64_t frames;      /* pages; 0: as many as frame_bytes holds */
	uint64_t frame_bytes; /* both 0: bring-up chooses */
	uint32_t page_bytes;  /* a power of two, HR_CACHE_PAGE_MIN to _MAX; default 4 KiB */
	enum hr_cache_policy policy;
};

/* A user operator. Its description belongs to the process (gpu/ops/user.h). */
struct hr_config_operator {
	char name[HR_NAME_MAX];
	char file[HR_FILE_MAX]; /* resolved against the folder of the configuration */
	const struct hr_operator *op;
	uint32_t checksum; /* CRC-32C of the file */
	unsigned line;
};

/* When a pipeline starts. boot/appliance/schedule/timetable.h computes its starts. */
enum hr_when_kind {
	HR_WHEN_ONCE, /* at boot */
	HR_WHEN_EVERY,
	HR_WHEN_AT,
	HR_WHEN_AFTER,
	HR_WHEN_OBJECT, /* on = "object NAME": a new version of an object that it reads */
	HR_WHEN_REQUEST,
	HR_WHEN_FOREVER,
};

#define HR_EVERY_MIN_NS 10000000ull		  /* 10 ms: shorter than a start takes */
#define HR_EVERY_MAX_NS (366ull * 86400000000000) /* a year */

struct hr_config_when {
	enum hr_when_kind kind;
	uint64_t every_ns;
	uint32_t at_minute;	/* of the day, local time */
	int32_t at_day;		/* 0: Sunday ... 6: Saturday; -1: each day */
	uint32_t after;		/* index in pipeline[] */
	uint32_t object_ssd;	/* index in ssd[]; the object's name is `text` */
	char text[HR_NAME_MAX]; /* name of the other pipeline, or of the object */
	bool skip;		/* missed = "skip" */
	unsigned line;		/* of the key; 0: none */
};

struct hr_config_pipeline {
	char name[HR_NAME_MAX];
	uint32_t gpu; /* index in gpu[]; the first of several */
	/* The other gpus of a pipeline with an access operator; 0: it runs on one. */
	uint32_t other_gpus, other_gpu[HR_GPUS_MAX - 1];
	/* 1 with a feed, whose source[] has no object: hr_config_source_objects() */
	uint32_t sources;
	struct hr_config_object source[HR_SOURCES_MAX];
	struct hr_config_feed feed;
	struct hr_config_remote from; /* with a feed */
	bool has_sink;		      /* an object; a pipeline with a tap has none */
	struct hr_config_object sink;
	struct hr_config_tap tap;
	struct hr_config_remote to; /* with a tap */
	/* An access operator has objects in place of sources and sink, in the order of its
	 * description; one that is left out has no name. 0: a stream operator. */
	uint32_t objects;
	struct hr_config_object object[HR_OBJECTS_MAX];
	struct hr_config_cache cache;
	const struct hr_operator *op;
	uint32_t user_op; /* index in op[] + 1; 0: built in */
	uint32_t op_args_bytes;
	uint8_t op_args[HR_OP_ARGS_MAX]; /* in the form that the worker code reads */
	uint32_t tile_bytes; /* of the source with the longest rows; default: about 1 MiB */
	bool tile_chosen; /* the file gives no tile; bring-up shrinks this one to fit small queues */
	/* 0: bring-up chooses a value for the gpu (boot/engine/shape/shape.c). */
	uint32_t slots;
	uint32_t prefetch_blocks, compute_blocks, writeback_blocks, io_blocks;
	uint32_t threads; /* of a block on a GPU: whole warps */
	enum hr_bounce_policy bounce;
	enum hr_verify_policy verify;
	uint32_t operator_s;	    /* longest time of the operator for a tile; 0: HR_OPERATOR_S */
	enum hr_shard_policy shard; /* of a pipeline without tap and feed */
	struct hr_config_when when; /* only `headrace boot` obeys it */
	unsigned line, tile_line;
};

/* A kernel module that `headrace boot` loads when it is the first process. */
struct hr_config_module {
	char name[HR_DEVICE_MAX]; /* module name as modprobe takes it, or an absolute path */
	char options[HR_DEVICE_MAX];
	unsigned line;
};

enum hr_boot_post { HR_BOOT_POST_FULL, HR_BOOT_POST_QUICK, HR_BOOT_POST_OFF };

/* Last action of the first process. */
enum hr_boot_end {
	HR_BOOT_POWEROFF,
	HR_BOOT_REBOOT,
	HR_BOOT_HALT,
	HR_BOOT_STAY,  /* answer `headrace status` until a signal comes */
	HR_BOOT_SHELL, /* /bin/sh on the console; powers off when it ends */
};

/* Settings that only `headrace boot` uses. */
struct hr_config_boot {
	uint32_t modules;
	struct hr_config_module module[HR_MODULES_MAX];
	uint64_t hugepage_bytes; /* reserved before bring-up; 0: no change */
	enum hr_boot_post post;	 /* default full */
	/* limit of restarts after failures, then comes last_resort; default 3 */
	uint32_t restarts;
	uint64_t backoff_ns; /* before the first restart, then doubled up to a minute; 1 s */
	uint64_t collect_ns; /* age at which incomplete objects are removed; 0: never */
	/* so much run time without a failure resets restarts and backoff; 0: never; 10 min */
	uint64_t heal_ns;
	uint32_t wait_s; /* longest wait for absent ssds, in seconds; default 60 */
	/* longest time in which an engine whose pipelines run publishes nothing, in seconds; default
	 * 30 */
	uint32_t progress_s;
	uint64_t watchdog_ns;	      /* of /dev/watchdog; 0: not used */
	bool results;		      /* each start of a pipeline that repeats prints its result */
	enum hr_boot_end after;	      /* when all pipelines are done; default poweroff */
	enum hr_boot_end last_resort; /* when the pipelines cannot be done; default poweroff */
};

#define HR_OPERATOR_S 120u

#define HR_CONTROL_NO_GROUP UINT32_MAX

/* Users that may send requests to the appliance while it runs (boot/appliance/control/control.h). */
struct hr_config_control {
	/* As of a file: `r` may ask for the status, `w` may also change; default 0600. */
	uint32_t mode;
	uint32_t group; /* number of the group of mode; or HR_CONTROL_NO_GROUP */
	/* Of the time while a pipeline runs, for requests of `headrace store`: 1..100; default
	 * 15. */
	uint32_t store_percent;
};

/* What a critical warning of an ssd does to the pipelines that use it. */
enum hr_warning_action {
	HR_WARNING_LOG,	  /* nothing; it is logged in any case */
	HR_WARNING_PAUSE, /* no start of a pipeline that repeats, while the warning lasts */
	HR_WARNING_STOP,  /* the same, and a run ends cleanly: its progress is durable */
};

#define HR_WARNINGS 5u /* in the order of the bits of the critical warning (nvme/smart.h) */

struct hr_config_health {
	enum hr_warning_action action[HR_WARNINGS];
};

struct hr_config {
	const struct hr_config_lookup *names; /* the caller's */
	const char *file;		      /* as given; the caller's */
	uint32_t folder;	/* length of the folder part of `file`, with its '/' */
	char name[HR_NAME_MAX]; /* of the appliance; default: of the file, without its ending */
	enum hr_log_level log;	/* default HR_LOG_WARN */
	bool log_chosen;	/* the file has it */
	/* interval between durable records of progress; default 5 s; 0: never */
	uint64_t checkpoint_ns;
	uint32_t parallel; /* limit of pipelines that run at the same time; default 1 */
	uint64_t memory_host,
		memory_gpu; /* limits of the partition in bytes; 0: as much as needed */
	enum hr_path_policy path;
	enum hr_queue_policy queues;
	struct hr_config_boot boot;
	struct hr_config_control control;
	struct hr_config_health health;
	struct hr_config_remotes remotes;
	uint32_t ssds, gpus, ops, pipelines;
	struct hr_config_ssd ssd[HR_SSDS_MAX];
	struct hr_config_gpu gpu[HR_GPUS_MAX];
	struct hr_config_operator op[HR_OPERATORS_MAX];
	struct hr_config_pipeline pipeline[HR_PIPELINES_MAX];
};

#endif

/*
 * config/config.h - the configuration file as one validated struct. The only user of libconfig.
 *
 * A file is read whole, then checked whole: every mistake is reported as "FILE:LINE: path: what is
 * wrong, what was expected". config/default.conf, which is embedded in the binary and used when no
 * file is named, documents the format; README.md explains one line by line. Sizes are integers or
 * strings like "64M" (K, M, G, T = powers of 1024). @include is refused: an appliance has one file.
 *
 * Whether objects exist and tiles fit the disk's blocks is known only after bring-up and reported
 * then, with the same file and line.
 */
#ifndef CONFIG_CONFIG_H
#define CONFIG_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/log.h"
#include "config/limits.h"
#include "config/names.h"
#include "config/operator.h"

/* How a GPU reads tiles that lie in host memory: where they are, or from a copy in its own. */
enum hr_bounce_policy { HR_BOUNCE_AUTO, HR_BOUNCE_IN_PLACE, HR_BOUNCE_COPY };

/* Slots of a pipeline that leaves them open: so many, or more on a GPU. */
#define HR_SLOTS_DEFAULT 8u

/* Whether sources that have a checksum are compared with it: where a run reads all of them, always (or
 * the run is refused, or starts over), never. */
enum hr_verify_policy { HR_VERIFY_AUTO, HR_VERIFY_ON, HR_VERIFY_OFF };

enum hr_path_policy { HR_PATH_AUTO, HR_PATH_DIRECT, HR_PATH_BOUNCE };

/* Where the rings of workers' queue pairs lie. */
enum hr_queue_policy { HR_QUEUES_HOST, HR_QUEUES_GPU };

/* An object that bring-up makes on a memory-backed ssd, which is blank each time: a counting
 * pattern, 64-bit word i (little-endian) of the object is i. */
struct hr_config_prepared {
	char object[HR_NAME_MAX];
	uint64_t bytes;
	unsigned line;
};

struct hr_config_ssd {
	char name[HR_NAME_MAX];
	char device[HR_DEVICE_MAX];
	char serial[HR_SERIAL_MAX]; /* of the disk that is meant, whatever is on it; "": any */
	uint32_t nsid;		    /* default 1 */
	uint32_t queue_entries;	    /* of each I/O queue; default 256 */
	uint64_t timeout_ns;	    /* deadline of an I/O command; default 5 s */
	bool in_memory;		    /* device is soft:memory: formatted at bring-up */
	uint32_t prepared_count;
	struct hr_config_prepared prepared[HR_PREPARED_MAX];
	unsigned line;
};

struct hr_config_gpu {
	char name[HR_NAME_MAX];
	char device[HR_DEVICE_MAX];
	unsigned line;
};

struct hr_config_object {
	uint32_t ssd; /* index in ssd[] */
	char object[HR_NAME_MAX];
	bool replace;  /* sinks: an existing object is replaced when the run has finished */
	bool checksum; /* sinks: it gets one; default true */
	unsigned line;
};

/* A user operator. Its description belongs to the process (gpu/ops/user.h). */
struct hr_config_operator {
	char name[HR_NAME_MAX];
	char file[HR_FILE_MAX]; /* as it is opened: behind the folder of the configuration */
	const struct hr_operator *op;
	unsigned line;
};

struct hr_config_pipeline {
	char name[HR_NAME_MAX];
	uint32_t gpu; /* index in gpu[] */
	uint32_t sources;
	struct hr_config_object source[HR_SOURCES_MAX];
	bool has_sink;
	struct hr_config_object sink;
	const struct hr_operator *op;
	uint32_t op_args_bytes;
	uint8_t op_args[HR_OP_ARGS_MAX]; /* as the worker code wants them */
	uint32_t tile_bytes; /* of the source with the longest rows; default: about 1 MiB */
	bool tile_chosen; /* the file leaves it open: bring-up makes it smaller for small queues */
	/* 0: chosen for the gpu at bring-up (boot/engine/shape.c). */
	uint32_t slots;
	uint32_t prefetch_blocks, compute_blocks, writeback_blocks;
	uint32_t threads; /* of a block on a GPU: whole warps */
	enum hr_bounce_policy bounce;
	enum hr_verify_policy verify;
	unsigned line, tile_line;
};

/* A kernel module that `headrace boot` loads when it is the first process. */
struct hr_config_module {
	char name[HR_DEVICE_MAX]; /* as modprobe takes it, or an absolute path */
	char options[HR_DEVICE_MAX];
	unsigned line;
};

enum hr_boot_post { HR_BOOT_POST_FULL, HR_BOOT_POST_QUICK, HR_BOOT_POST_OFF };

/* What the first process does with the machine in the end. */
enum hr_boot_end {
	HR_BOOT_POWEROFF,
	HR_BOOT_REBOOT,
	HR_BOOT_HALT,
	HR_BOOT_STAY,  /* answer `headrace status` until a signal comes */
	HR_BOOT_SHELL, /* /bin/sh on the console; powers off when it ends */
};

/* Of `headrace boot` only. */
struct hr_config_boot {
	uint32_t modules;
	struct hr_config_module module[HR_MODULES_MAX];
	uint64_t hugepage_bytes; /* reserved before bring-up; 0: leave as it is */
	enum hr_boot_post post;	 /* default full */
	uint32_t restarts;	 /* after failures, before the last resort; default 3 */
	uint64_t backoff_ns;	 /* before the first restart, then doubled up to a minute; 1 s */
	uint64_t collect_ns;	 /* age at which incomplete objects are removed; 0: never */
	uint64_t heal_ns; /* so long without a failure gives all restarts back; 0: never; 10 min */
	uint32_t wait_s;  /* for ssds that are absent; default 60 */
	uint64_t watchdog_ns;	      /* of /dev/watchdog; 0: not used */
	enum hr_boot_end after;	      /* when all pipelines are done; default poweroff */
	enum hr_boot_end last_resort; /* when they cannot be; default poweroff */
};

struct hr_config {
	const struct hr_config_names *names; /* the caller's */
	const char *file;		     /* as given; the caller's */
	uint32_t folder;	/* bytes of it that are the folder of files, with its '/' */
	char name[HR_NAME_MAX]; /* of the appliance; default: of the file, without its ending */
	enum hr_log_level log;	/* default HR_LOG_WARN */
	uint64_t checkpoint_ns; /* how often progress is made durable; default 5 s; 0: never */
	uint64_t memory_host, memory_gpu; /* limits of the partition; 0: what is needed */
	enum hr_path_policy path;
	enum hr_queue_policy queues;
	struct hr_config_boot boot;
	uint32_t ssds, gpus, ops, pipelines;
	struct hr_config_ssd ssd[HR_SSDS_MAX];
	struct hr_config_gpu gpu[HR_GPUS_MAX];
	struct hr_config_operator op[HR_OPERATORS_MAX];
	struct hr_config_pipeline pipeline[HR_PIPELINES_MAX];
};

/*
 * Read and check a file, or with "-" standard input; `names` says which devices and operators there
 * are. Files that it names (images, operators, fault
 * scripts) are found from its folder; of a pipe, or standard input, from the working folder. Mistakes
 * go to `report`, one line each without newline, in file order.
 * Returns 0; -EINVAL after at least one mistake; -ENOENT, -EACCES, -EISDIR, -EFBIG with a report.
 * After an error nothing of *config is to be used but boot.last_resort: what the file says of it
 * when that could be read, whatever is wrong beside it, else the default.
 */
int hr_config_read(struct hr_config *config, const struct hr_config_names *names, const char *file,
		   void (*report)(void *to, const char *line), void *to);

/* The same for text in memory (bytes long, need not end in NUL); `file` is used in reports. */
int hr_config_parse(struct hr_config *config, const struct hr_config_names *names, const char *file,
		    const char *text, size_t bytes, void (*report)(void *to, const char *line),
		    void *to);

/* The embedded configuration, and the name under which mistakes in it are reported. */
#define HR_CONFIG_DEFAULT_NAME "(built-in configuration)"
extern const char hr_config_default[];
extern const uint32_t hr_config_default_bytes;

/* Rows of a full tile of this pipeline, and its bytes in source s: tile_bytes is exact only for
 * the source with the longest rows. */
uint32_t hr_config_tile_rows(const struct hr_config_pipeline *pipeline);
uint32_t hr_config_tile_bytes(const struct hr_config_pipeline *pipeline, uint32_t s);

/* Least tile, of which others are multiples: whole rows in whole blocks of any size that we drive. */
uint64_t hr_config_tile_step(const struct hr_config_pipeline *pipeline);

/* Bytes written to the sink for a full tile; 0 when the operator produces none. */
uint32_t hr_config_sink_tile_bytes(const struct hr_config_pipeline *pipeline);

/* "64M" -> 67108864. 0, or -EINVAL: not a size, -ERANGE: over 2^63. */
int hr_size_parse(const char *text, uint64_t *bytes);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvme/soft/internal.h - internals of the software controller; only for its own files and tests. These
 * call one another in circles, as parts of one device, so that this header declares functions of all.
 *
 * One allocation at open holds everything. Ownership:
 *
 *   registers, admin queue, features, logs    poller 0
 *   I/O CQ and the SQs that complete to it    one poller, chosen when the CQ is created; it holds
 *                                             its own lock while it polls, and poller 0 takes that
 *                                             lock to create or delete queues
 *   windows                                   added and removed by the driver's thread while all
 *                                             pollers are stopped
 *   media and cache                           any poller
 */
#ifndef NVME_SOFT_INTERNAL_H
#define NVME_SOFT_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "config/base/seam.h"
#include "nvme/soft/soft.h"
#include "nvme/queue/wire.h"

#define SOFT_DOORBELLS 0x1000u
#define SOFT_CIDS 1024u	   /* power of 2; CIDs at this distance have the same index */
#define SOFT_BATCH 64u	   /* maximum commands of one queue before the next is served */
#define SOFT_AERL 3u	   /* zero-based: 4 asynchronous event requests */
#define SOFT_ERROR_LOG 64u /* entries of the error log */
#define SOFT_FAULTS 64u	   /* rules of a script */
#define SOFT_HELD 256u	   /* delayed or reordered completions, per poller */
#define SOFT_LINE 64u	   /* data written by two threads lies in different cache lines */
#define SOFT_SERIAL "HR%018llx"

/* ---- media.c: persistent storage */

struct soft_media {
	uint64_t bytes;
	/* NULL: a file, or null media. With fd: the contents of the file, which are read here and
	 * written to both. */
	uint8_t *memory;
	int fd;		  /* file descriptor, or -1 */
	const char *path; /* path of the file; points into the options */
	bool made;	  /* soft_media_open() has made the file */
	bool told;	  /* an I/O error has been logged; once; atomic */

	/* memory.c */
	uint32_t *version;    /* versions of the memory's stripes; atomic */
	uint64_t grain;	      /* size of the pages that can be returned to the system */
	pthread_mutex_t wide; /* held by a thread that locks several stripes */
};

int soft_media_open(struct soft_media *m, const struct hr_soft_options *options,
		    struct hr_error *e);
/* Remove the file, if soft_media_open() has made it. */
void soft_media_unmake(struct soft_media *m);
void soft_media_close(struct soft_media *m);

/* Copy [offset, offset + sum of vec) to or from memory. 0 or -EIO. */
int soft_media_read(struct soft_media *m, uint64_t offset, const struct iovec *vec, unsigned count);
int soft_media_write(struct soft_media *m, uint64_t offset, const struct iovec *vec,
		     unsigned count);
/* Make all writes durable. */
int soft_media_sync(struct soft_media *m);
/* Release the space; later reads return zeros. */
int soft_media_discard(struct soft_media *m, uint64_t offset, uint64_t bytes);

/* ---- memory.c: media in memory. Reads and writes of a block are atomic, with any number of
 * pollers. */

/*
 * Map `bytes` of zeroed memory. populate: prefer huge pages; the caller then calls
 * soft_memory_populate(). 0, or -ENOMEM.
 */
int soft_memory_open(struct soft_media *m, uint64_t bytes, bool populate, struct hr_error *e);
void soft_memory_close(struct soft_media *m);
/* Allocate the pages of part `part` of `parts`. Ends early when *stop (atomic) is set. 0, or
 * -errno when memory is short. */
int soft_memory_populate(struct soft_media *m, uint32_t part, uint32_t parts, const uint32_t *stop);
void soft_memory_read(const struct soft_media *m, uint64_t offset, void *to, size_t bytes);
void soft_memory_write(struct soft_media *m, uint64_t offset, const void *from, size_t bytes);
/* Write zeros; bytes above 0. */
void soft_memory_discard(struct soft_media *m, uint64_t offset, uint64_t bytes);

/* ---- write_cache.c: the volatile write cache, block by block, oldest destaged first */

struct soft_cache {
	pthread_rwlock_t lock;
	struct soft_media *media;
	uint32_t block_bytes;
	uint32_t capacity; /* blocks; 0: no cache */
	/* dirty blocks; atomic, so that readers need no lock for an empty cache */
	uint32_t count;
	uint32_t oldest;      /* ring index of the oldest block */
	uint32_t buckets;     /* power of two */
	uint8_t *data;	      /* [capacity][block_bytes] */
	uint64_t *lba;	      /* [capacity] */
	uint32_t *next;	      /* [capacity]: chain of a bucket, index + 1 */
	uint32_t *bucket;     /* [buckets]: index + 1 */
	bool *live;	      /* [capacity]; false: a discarded block that is still in the ring */
	bool enabled;	      /* Set Features: volatile write cache */
	const uint32_t *dead; /* atomic: power is cut, no write may reach the media */
};

/* True when the cache and its lock can be skipped, because memory media keep blocks whole
 * without them: for reads when no block is cached, for writes when no block can be cached. */
static inline bool soft_cache_is_bare(const struct soft_cache *c, bool write)
{
	return (c->media->fd < 0 || (!write && c->media->memory)) &&
	       (write ? c->capacity : __atomic_load_n(&c->count, __ATOMIC_ACQUIRE)) == 0;
}

int soft_cache_open(struct soft_cache *c, struct soft_media *media, uint64_t bytes,
		    uint32_t block_bytes, const uint32_t *dead);
void soft_cache_close(struct soft_cache *c);
int soft_cache_read(struct soft_cache *c, uint64_t lba, uint32_t blocks, const struct iovec *vec,
		    unsigned count);
/* through: write to the media, durable when this returns (FUA). */
int soft_cache_write(struct soft_cache *c, uint64_t lba, uint32_t blocks, const struct iovec *vec,
		     unsigned count, bool through);
/* Write zeros to the media; through: durable when this returns. */
int soft_cache_discard(struct soft_cache *c, uint64_t lba, uint64_t blocks, bool through);
int soft_cache_flush(struct soft_cache *c);
/* Blocks that the volatile cache holds when the power is cut. */
enum hr_soft_cut {
	HR_SOFT_CUT_DROP, /* no unflushed block reaches the media */
	HR_SOFT_CUT_SOME, /* a random selection of the unflushed blocks reaches the media */
	HR_SOFT_CUT_TORN, /* as SOME, and 512-byte sectors within 4 KiB blocks are torn */
};
/* Power is cut: handle the dirty blocks. */
void soft_cache_cut(struct soft_cache *c, enum hr_soft_cut policy, uint64_t seed);

/* ---- dma.c: memory that the controller can access */

struct soft_window {
	uint64_t bus, bytes; /* bytes 0: closed */
	uint8_t *cpu;
	bool peer; /* memory of a GPU, or a BAR */
};

struct soft;

/* Host address of [bus, bus + bytes), bytes above 0, when it lies in this window; otherwise
 * NULL. */
static inline void *soft_window_at(const struct soft_window *w, uint64_t bus, uint64_t bytes)
{
	const uint64_t at = bus - w->bus;

	return at < w->bytes && bytes <= w->bytes - at ? w->cpu + at : NULL;
}

/* The same in any window. *hint is set to that window. */
void *soft_dma_search(const struct soft *soft, const struct soft_window **hint, uint64_t bus,
		      uint64_t bytes);

/* The same. Tries *hint, the window of the last access, first. NULL: outside of all windows. */
static inline void *soft_dma(const struct soft *soft, const struct soft_window **hint, uint64_t bus,
			     uint64_t bytes)
{
	void *cpu = soft_window_at(*hint, bus, bytes);

	return cpu ? cpu : soft_dma_search(soft, hint, bus, bytes);
}

/*
 * Collect the memory that PRP1 and PRP2 describe for `bytes` (Base 4.1.1) into vec[max], merging
 * contiguous pages. *count is the number of pieces. Returns 0 or the NVMe status.
 */
uint16_t soft_prp(const struct soft *soft, const struct soft_window **hint,
		  const struct hr_sqe *sqe, uint64_t bytes, struct iovec *vec, unsigned max,
		  unsigned *count);

/* Copy the contents of a vector into data. */
void soft_gather(void *data, const struct iovec *vec, unsigned count);

/* Copy at most a page of data to the host, for admin commands. NVMe status. */
uint16_t soft_copy_out(const struct soft *soft, const struct hr_sqe *sqe, const void *data,
		       uint32_t bytes);

/* ---- faults.c: scripted faults */

enum soft_fault_kind {
	FAULT_NONE,
	FAULT_STATUS,
	FAULT_DROP,
	FAULT_DELAY,
	FAULT_DUPLICATE,
	FAULT_REORDER,
	FAULT_CID,
	FAULT_SQHD,
	FAULT_CFS,
	FAULT_REMOVE,
	FAULT_CUT,
	FAULT_WARN,
	FAULT_PROTECT,
	FAULT_DEAF,
	FAULT_KINDS,
};

enum {
	FAULT_ON_READ = 1,
	FAULT_ON_WRITE = 2,
	FAULT_ON_FLUSH = 4,
	FAULT_ON_OTHER = 8,
	FAULT_ON_ADMIN = 16
};

#define SOFT_ANY_OPCODE UINT32_MAX

struct soft_fault { /* one line of nvme/soft/FAULTS.md */
	enum soft_fault_kind kind;
	uint32_t on;	      /* FAULT_ON_* */
	uint32_t opcode;      /* or SOFT_ANY_OPCODE */
	uint64_t first, last; /* LBAs; commands without an LBA always match */
	/* applies to `times` commands from the nth match on (UINT64_MAX: no limit) */
	uint64_t nth, times;
	uint64_t seen; /* matches so far; atomic */
	uint64_t delay_ns, seed;
	uint16_t status, value;
	bool dnr;
	uint8_t crd;
	enum hr_soft_cut policy;
};

/* Read a script. 0, -EINVAL, -ENOENT ... */
int soft_faults_read(struct soft *soft, const char *file, struct hr_error *e);

/* Count the command; returns the rule that applies to it, or NULL. */
const struct soft_fault *soft_fault_for(struct soft *soft, const struct hr_sqe *sqe, bool admin);

/* ---- doorbells.c: doorbells */

/* A doorbell: its location and its last value. */
struct soft_doorbell {
	const uint32_t *reg;
	uint32_t seen;
};

struct soft_cq {
	struct hr_cqe *ring;		      /* NULL: no such queue */
	uint32_t entries, tail, phase, users; /* users: SQs that complete to this CQ */
	uint32_t head;			      /* newest valid doorbell value */
	uint16_t id;
	uint32_t poller; /* index of the poller that serves it */
	struct soft_doorbell bell;
} __attribute__((aligned(SOFT_LINE)));

struct soft_sq {
	const struct hr_sqe *ring; /* NULL: no such queue */
	struct soft_cq *cq;
	const struct soft_window *hint; /* window of the last data transfer, never NULL */
	uint32_t entries, head, tail;
	uint16_t id, cqid;
	struct soft_doorbell bell;
} __attribute__((aligned(SOFT_LINE)));

/* Start queue `id` over ring and clear its doorbells. The CQ must exist before its SQs. */
void soft_init_cq_doorbell(struct soft *soft, uint16_t id, struct hr_cqe *ring, uint32_t entries);
void soft_init_sq_doorbell(struct soft *soft, uint16_t id, uint16_t cqid, const struct hr_sqe *ring,
			   uint32_t entries);
/* Clear the doorbell of a queue when it is created and when it is deleted. */
void soft_clear_doorbell(const struct soft *soft, uint16_t qid, bool cq);
/* Read both doorbells of a queue. Returns the number of commands that can be executed now:
 * published, and with room in the CQ for their completions. */
uint32_t soft_ready(struct soft *soft, struct soft_sq *sq);
/* Free entries of the CQ. */
uint32_t soft_cq_room(struct soft *soft, struct soft_cq *cq);
/* Set all doorbells to 0. */
void soft_clear_doorbells(struct soft *soft);
/* Report doorbells of queues that do not exist: a value other than 0 is an event (Base 5.2,
 * 00h). */
void soft_scan_doorbells(struct soft *soft);

/* ---- queues.c */

struct soft_completion {
	uint64_t due_ns;
	uint16_t sqid, cid, field; /* field: status field without P */
	uint32_t dw0;
	bool reorder, used;
};

struct soft_poller {
	struct soft *soft;
	struct iovec *vec; /* [soft->vec_max] */
	uint32_t index;
	uint32_t rounds; /* used by poller 0 */
	uint32_t cqs;	 /* number of CQs that it serves; used by poller 0 */
	uint32_t held_count;
	uint32_t queues;	 /* number of entries in sq[] */
	bool io;		 /* this round has served an I/O queue */
	bool dense;		 /* I/O follows I/O within DENSE_NS; threads.c */
	uint64_t busy_ns, io_ns; /* time of the last work, and of the last I/O */
	uint32_t look;		 /* number of the last poll of a queue's doorbell; fast_path.c */
	/* per CID modulo SOFT_CIDS: the last poll that found one */
	uint32_t seen[SOFT_CIDS];
	struct soft_sq *sq[HR_SOFT_QUEUES];
	/* atomic, because other threads read it */
	struct hr_soft_stats stats __attribute__((aligned(SOFT_LINE)));
	struct soft_completion held[SOFT_HELD];
	struct soft_late *late; /* peer_faults.c: data that have not arrived yet, in their order */
	uint8_t *before;	/* and data of the last command that read from a peer */
	uint64_t before_bytes;
	struct hr_cpu_thread thread;
	pthread_mutex_t lock __attribute__((aligned(SOFT_LINE)));
	uint32_t wanted; /* another thread waits for lock; atomic */
} __attribute__((aligned(SOFT_LINE)));

struct soft_reservations; /* reservations.c */
struct soft_late;	  /* peer_faults.c */

struct soft {
	/* Set at open. */
	struct soft_reservations *reservations; /* of the namespace; NULL: no support */
	struct hr_soft_options options;
	uint8_t *bar;
	size_t bar_bytes;
	struct soft_media media;
	uint64_t blocks;     /* blocks of each namespace */
	uint32_t namespaces; /* of equal size, consecutive on the media */
	uint32_t lba_shift;
	uint64_t max_bytes; /* maximum bytes of one command */
	unsigned vec_max;
	struct soft_fault fault[SOFT_FAULTS];
	uint32_t faults;
	uint32_t threads;
	struct soft_poller *poller; /* [threads] */
	uint64_t opened_ns;
	/* identifies the namespace: equal for all controllers of an image */
	uint64_t identity;

	/* Rarely written, read by all pollers. */
	bool running __attribute__((
		/* EN and RDY set, not shut down: pollers process queues. Written under their
		 * locks. */
		aligned(SOFT_LINE)));
	uint32_t dead;	 /* power is cut, or the device is removed or deaf; atomic */
	uint32_t deaf;	 /* of these: only the registers do not answer; atomic */
	uint32_t ending; /* threads must end; atomic */
	/* threads that have populated their part of the memory; atomic */
	uint32_t populated;
	int populate_error; /* error of a thread that failed to populate; atomic */
	uint32_t rest;	    /* odd: threads without work sleep until it changes; atomic */
	struct soft_window window[HR_SOFT_WINDOWS];

	/* The sleep of threads during a rest. */
	pthread_mutex_t rest_lock __attribute__((aligned(SOFT_LINE)));
	pthread_cond_t rest_end;
	uint32_t asleep; /* threads that sleep in this rest; under the lock */

	struct soft_sq sq[HR_SOFT_QUEUES + 1]; /* [0]: admin queue */
	struct soft_cq cq[HR_SOFT_QUEUES + 1];
	struct soft_cache cache;

	/* Register values, which writes of the host to the BAR do not change; features and events:
	 * poller 0. */
	uint64_t cap __attribute__((aligned(SOFT_LINE)));
	uint32_t vs, cc, csts;
	uint32_t interrupt_mask; /* set by INTMS, cleared by INTMC */
	bool vanished;		 /* registers read all ones */
	uint64_t ready_ns;	 /* when CSTS.RDY becomes 1; 0: not awaited */
	uint64_t blind_ns;	 /* until then registers read all ones; 0: they do not */
	uint64_t busy_ns;	 /* CC.EN set before this fails */
	uint32_t feature[256];
	uint32_t under_kelvin; /* under temperature threshold */
	bool retry_delays;     /* Host Behavior Support: ACRE */
	uint8_t host_id[16];   /* zero: not set. Written under the lock of reservations */
	bool long_host_id;     /* set with 16 bytes */
	bool failing;	       /* a fault has requested CSTS.CFS; atomic */
	uint16_t granted;      /* I/O queue pairs granted */
	uint16_t aer[SOFT_AERL + 1];
	uint32_t aers;
	uint32_t events; /* one bit per enum soft_event: pending; atomic */
	/* one bit per event type: sent, and its log page not read since; none is sent meanwhile */
	uint32_t masked;
	uint32_t critical;  /* critical warnings of the SMART log; atomic */
	uint32_t protected; /* the namespaces are write protected; atomic */
	/* all namespaces changed since the Changed Namespace List was read */
	bool namespace_changed;

	/* Error log; protected by errors_lock. */
	pthread_mutex_t errors_lock __attribute__((aligned(SOFT_LINE)));
	uint64_t errors; /* entries since the start */
	struct nvme_error_log_page error[SOFT_ERROR_LOG];
	uint64_t media_errors;
};

/* Priority order: earlier events are sent first. */
enum soft_event {
	EVENT_BAD_REGISTER,
	EVENT_BAD_VALUE,
	EVENT_RELIABILITY,
	EVENT_TEMPERATURE,
	EVENT_SPARE,
	EVENT_NAMESPACE,
	SOFT_EVENTS
};

static inline bool soft_has_quirk(const struct soft *soft, enum hr_soft_quirk quirk)
{
	return soft->options.quirks & (uint32_t)quirk;
}

/* True when there is a Compare command: null media have no data to compare. */
static inline bool soft_compares(const struct soft *soft)
{
	return !soft_has_quirk(soft, HR_SOFT_NO_COMPARE) && !soft->options.null;
}

/* True when the namespace exists and is active. */
static inline bool soft_has_namespace(const struct soft *soft, uint32_t nsid)
{
	return nsid >= 1 && nsid <= soft->namespaces;
}

static inline bool soft_is_protected(const struct soft *soft)
{
	return __atomic_load_n(&soft->protected, __ATOMIC_ACQUIRE) != 0;
}

/* Make a controller without threads; the fuzz target steps it. Ends with soft_delete(). */
int soft_new(struct soft **out, const struct hr_soft_options *options, struct hr_error *e);
void soft_delete(struct soft *soft);

/* ---- threads.c */

/* Start the threads, bound to their CPUs; populate memory when requested. 0, or -errno. */
int soft_start(struct soft *soft, struct hr_error *e);
/* End the first `threads` threads. */
void soft_join(struct soft *soft, uint32_t threads);

/* As hr_transport_set_idle(). */
void soft_set_idle(struct soft *soft, bool resting);

/* One round of a poller: registers (poller 0), then its queues. True when it found work. */
bool soft_poll(struct soft_poller *p);

/* Stop and continue all pollers except the caller (poller 0); all pollers for any other caller. */
void soft_quiesce(struct soft *soft, uint32_t first);
void soft_resume(struct soft *soft, uint32_t first);

/* Serve the queues of this poller. */
bool soft_queues_poll(struct soft_poller *p);
/* Add to a counter with one writer and several readers. */
static inline void soft_add(uint64_t *counter, uint64_t n)
{
	__atomic_store_n(counter, *counter + n, __ATOMIC_RELAXED);
}

/* Words of a command, for access to any of its types. */
typedef uint32_t soft_word32 __attribute__((may_alias));
typedef uint64_t soft_word64 __attribute__((may_alias));

/* A copy of the command. The checked values are then the executed values, even when the host
 * changes the sqe meanwhile. */
static inline struct hr_sqe soft_fetch(const struct hr_sqe *sqe)
{
	const soft_word64 *from = (const soft_word64 *)(const void *)sqe;
	union {
		uint64_t word[HR_SQE_BYTES / 8];
		struct hr_sqe sqe;
	} copy;

	for (unsigned i = 0; i < HR_SQE_BYTES / 8; i++)
		copy.word[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
	return copy.sqe;
}

/* Serve an I/O queue when no faults are scripted (fast_path.c). True when it had commands. */
bool soft_serve_fast(struct soft_poller *p, struct soft_sq *sq);
bool soft_admin_poll(struct soft_poller *p);
void soft_queues_clear(struct soft *soft);
uint16_t soft_create_cq(struct soft *soft, const struct hr_sqe *sqe);
uint16_t soft_create_sq(struct soft *soft, const struct hr_sqe *sqe);
uint16_t soft_delete_cq(struct soft *soft, const struct hr_sqe *sqe);
uint16_t soft_delete_sq(struct soft *soft, const struct hr_sqe *sqe);
/* Complete delayed completions of a queue (of one CID, or all: cid < 0) with a status. True when
 * there were any. */
bool soft_end_held(struct soft_poller *p, uint16_t sqid, int cid, uint16_t field);
/* Drop the queues whose rings lie in a window that is being closed. All pollers are stopped. */
void soft_drop_queues(struct soft *soft, const struct soft_window *w);
/* Write the CQE, its phase last. The caller has checked that the CQ has room. */
void soft_post(struct soft_sq *sq, uint16_t cid, uint32_t dw0, uint16_t field);

/* ---- registers.c */
void soft_regs_reset(struct soft *soft);
bool soft_regs_poll(struct soft *soft);
void soft_fail(struct soft *soft);   /* set CSTS.CFS */
void soft_vanish(struct soft *soft); /* let registers read all ones */

/* ---- commands. Return NVMe status | DNR << 14, which is bits 15:1 of the CQE's status field. */
#define SOFT_DNR 0x4000u
#define SOFT_CRD_SHIFT 11u    /* position of CRD in that value */
#define SOFT_NO_REPLY 0xffffu /* asynchronous event request: completes later, or never */
uint16_t soft_admin(struct soft *soft, const struct hr_sqe *sqe, uint32_t *dw0);
uint16_t soft_io(struct soft_poller *p, struct soft_sq *sq, const struct hr_sqe *sqe);
void soft_make_identity(struct soft *soft);
uint16_t soft_identify(struct soft *soft, const struct hr_sqe *sqe);
uint16_t soft_set_feature(struct soft *soft, const struct hr_sqe *sqe, uint32_t *dw0);
uint16_t soft_get_feature(struct soft *soft, const struct hr_sqe *sqe, uint32_t *dw0);
uint16_t soft_get_log(struct soft *soft, const struct hr_sqe *sqe);
/* zoned.c: Identify and I/O commands of a zoned namespace. */
uint16_t soft_zoned_identify(struct soft *soft, const struct hr_sqe *sqe);
uint16_t soft_zoned_io(struct soft_poller *p, struct soft_sq *sq, const struct hr_sqe *sqe);
/* reservations.c: reservations of the namespace, when the option enables them. */
int soft_reservations_open(struct soft *soft); /* 0 or -errno */
void soft_reservations_close(struct soft *soft);
void soft_reservations_reset(struct soft *soft); /* controller reset */
uint16_t soft_reservation_io(struct soft_poller *p, struct soft_sq *sq, const struct hr_sqe *sqe);
/* True when another host's reservation forbids this read, write, or other I/O command. */
bool soft_reservation_refuses(struct soft *soft, const struct hr_sqe *sqe);
/* peer_faults.c: transfers to and from memory of peers, with the quirks peer-*. */
#define SOFT_PEER_QUIRKS                                                        \
	((uint32_t)(HR_SOFT_PEER_ONES | HR_SOFT_PEER_DROP | HR_SOFT_PEER_SWAP | \
		    HR_SOFT_PEER_LATE | HR_SOFT_PEER_STRAY))
/* True when these quirks apply to the transfer whose memory was collected last. */
bool soft_is_faulty_peer(const struct soft *soft, const struct soft_sq *sq);
/* Move data[bytes] to p->vec[pieces], or the contents of p->vec to data, as the quirks have it. */
void soft_peer_write(struct soft_poller *p, uint8_t *data, uint64_t bytes, unsigned pieces);
void soft_peer_read(struct soft_poller *p, uint8_t *data, uint64_t bytes, unsigned pieces);
/* Write the data that arrive late and are due; forget all that have not arrived, before a window is
 * closed and at the end. All pollers are stopped. */
void soft_peer_deliver(struct soft_poller *p);
void soft_peer_forget(struct soft *soft);
uint16_t soft_set_host_id(struct soft *soft, const struct hr_sqe *sqe);
uint16_t soft_get_host_id(struct soft *soft, const struct hr_sqe *sqe, bool current);
uint16_t soft_read(struct soft_poller *p, struct soft_sq *sq, const struct hr_sqe *sqe);
void soft_features_reset(struct soft *soft);
void soft_event(struct soft *soft, enum soft_event event);
/* Set critical warnings of the SMART log; new ones raise events. */
void soft_warn(struct soft *soft, uint32_t critical);
/* Compare the temperature with the current thresholds. */
void soft_compare_temperature(struct soft *soft);

/* Set the critical warning of the spare when the option gives less than the threshold. */
void soft_check_spare(struct soft *soft);
/* Set the namespaces to write protected. */
void soft_protect(struct soft *soft);
/* Report an invalid doorbell value: a warning, an entry of the error log, an event. entries 0:
 * the queue does not exist. Called by any poller. */
void soft_bad_doorbell(struct soft *soft, uint16_t qid, bool cq, uint32_t value, uint32_t entries);
void soft_events_send(struct soft *soft);
void soft_log_error(struct soft *soft, uint16_t sqid, const struct hr_sqe *sqe, uint16_t field);

#endif

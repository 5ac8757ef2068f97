/*
 * nvme/soft/internal.h - the software controller from inside; for its own files and tests only.
 *
 * One allocation at open holds everything. Who touches what:
 *
 *   registers, admin queue, features, logs    poller 0
 *   I/O CQ and the SQs that complete to it    one poller, chosen when the CQ is created, which holds
 *                                             its own lock while it polls; poller 0 takes that lock
 *                                             to create or delete
 *   windows                                   added and removed by the driver's thread while all
 *                                             pollers hold still
 *   media and cache                           any poller
 */
#ifndef NVME_SOFT_INTERNAL_H
#define NVME_SOFT_INTERNAL_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "nvme/soft/soft.h"
#include "nvme/wire.h"

#define SOFT_DOORBELLS 0x1000u
#define SOFT_BATCH 64u	   /* commands of one queue in a row, before the next queue's turn */
#define SOFT_AERL 3u	   /* zero-based: four asynchronous event requests */
#define SOFT_ERROR_LOG 64u /* entries */
#define SOFT_FAULTS 64u	   /* rules of a script */
#define SOFT_HELD 256u	   /* completions delayed or held back, per poller */
#define SOFT_LINE 64u	   /* what two threads write lies in different cache lines */
#define SOFT_SERIAL "HR%018llx"

/* ---- media.c: what keeps data without power */

struct soft_media {
	uint64_t bytes;
	uint8_t *memory;  /* NULL: a file, or nothing */
	int fd;		  /* of the file, or -1 */
	const char *path; /* of the file, for messages: the options' */
	bool told;	  /* why it could not be read or written; once, atomic */

	/* memory.c */
	uint32_t *version;    /* of stripes of the memory; atomic */
	uint64_t grain;	      /* pages given back to the system: their size */
	pthread_mutex_t wide; /* one thread at a time takes several stripes */
};

int soft_media_open(struct soft_media *m, const struct hr_soft_options *options, char *message);
void soft_media_close(struct soft_media *m);

/* [offset, offset + sum of vec) to or from memory. 0 or -EIO. */
int soft_media_read(struct soft_media *m, uint64_t offset, const struct iovec *vec, unsigned count);
int soft_media_write(struct soft_media *m, uint64_t offset, const struct iovec *vec,
		     unsigned count);
/* Durable. */
int soft_media_sync(struct soft_media *m);
/* Give the space back; reads return zeros from then on. */
int soft_media_discard(struct soft_media *m, uint64_t offset, uint64_t bytes);

/* ---- memory.c: media in memory. Blocks are read and written whole, by any number of pollers. */

/*
 * `bytes` of zeroed memory; populate: in huge pages where there are some, and soft_memory_populate()
 * follows. 0, or -ENOMEM with message.
 */
int soft_memory_open(struct soft_media *m, uint64_t bytes, bool populate, char *message);
void soft_memory_close(struct soft_media *m);
/* Take the pages of this part of it, one of `parts`; ends early once *stop (atomic) is set. 0, or
 * -errno: there is not enough memory. */
int soft_memory_populate(struct soft_media *m, uint32_t part, uint32_t parts, const uint32_t *stop);
void soft_memory_read(const struct soft_media *m, uint64_t offset, void *to, size_t bytes);
void soft_memory_write(struct soft_media *m, uint64_t offset, const void *from, size_t bytes);
/* Zeroes; bytes above 0. */
void soft_memory_discard(struct soft_media *m, uint64_t offset, uint64_t bytes);

/* ---- cache.c: the volatile write cache, block by block, oldest destaged first */

struct soft_cache {
	pthread_rwlock_t lock;
	struct soft_media *media;
	uint32_t block_bytes;
	uint32_t capacity; /* blocks; 0: no cache */
	uint32_t count;	   /* dirty blocks; atomic, so that an empty cache costs readers nothing */
	uint32_t oldest;   /* index in ring order */
	uint32_t buckets;  /* power of two */
	uint8_t *data;	   /* [capacity][block_bytes] */
	uint64_t *lba;	   /* [capacity] */
	uint32_t *next;	   /* [capacity]: chain of a bucket, index + 1 */
	uint32_t *bucket;  /* [buckets]: index + 1 */
	bool *live;	   /* [capacity]: false for a dropped block that waits for its turn to go */
	bool enabled;	   /* Set Features: volatile write cache */
	const uint32_t *dead; /* atomic: no power, nothing may reach the media any more */
};

/* Memory keeps its blocks whole by itself: where nothing is cached it is read, and where nothing
 * can be, written, without the cache and its lock. */
static inline bool soft_cache_is_bare(const struct soft_cache *c, bool write)
{
	return c->media->fd < 0 &&
	       (write ? c->capacity : __atomic_load_n(&c->count, __ATOMIC_ACQUIRE)) == 0;
}

int soft_cache_open(struct soft_cache *c, struct soft_media *media, uint64_t bytes,
		    uint32_t block_bytes, const uint32_t *dead);
void soft_cache_close(struct soft_cache *c);
int soft_cache_read(struct soft_cache *c, uint64_t lba, uint32_t blocks, const struct iovec *vec,
		    unsigned count);
/* through: straight to the media, durable when this returns (FUA). */
int soft_cache_write(struct soft_cache *c, uint64_t lba, uint32_t blocks, const struct iovec *vec,
		     unsigned count, bool through);
/* Zeroes, straight on the media; through: durable when this returns. */
int soft_cache_discard(struct soft_cache *c, uint64_t lba, uint64_t blocks, bool through);
int soft_cache_flush(struct soft_cache *c);
/* The power fails: what happens to the dirty blocks (enum hr_soft_cut). */
void soft_cache_cut(struct soft_cache *c, enum hr_soft_cut policy, uint64_t seed);

/* ---- dma.c: what the controller may reach */

struct soft_window {
	uint64_t bus, bytes; /* bytes 0: closed */
	uint8_t *cpu;
};

struct soft;

/* Host address of [bus, bus + bytes), bytes above 0, when it lies in this window; else NULL. */
static inline void *soft_window_at(const struct soft_window *w, uint64_t bus, uint64_t bytes)
{
	const uint64_t at = bus - w->bus;

	return at < w->bytes && bytes <= w->bytes - at ? w->cpu + at : NULL;
}

/* The same in any window. *near becomes the one where it was. */
void *soft_dma_far(const struct soft *soft, const struct soft_window **near, uint64_t bus,
		   uint64_t bytes);

/* The same, with *near, where things were last, tried first. NULL: outside of all windows. */
static inline void *soft_dma(const struct soft *soft, const struct soft_window **near, uint64_t bus,
			     uint64_t bytes)
{
	void *cpu = soft_window_at(*near, bus, bytes);

	return cpu ? cpu : soft_dma_far(soft, near, bus, bytes);
}

/*
 * The memory that PRP1, PRP2 describe for `bytes` (Base 4.1.1), merged where it is contiguous, into
 * vec[max]. Returns the number of pieces (in *count) and 0, or the NVMe status.
 */
uint16_t soft_prp(const struct soft *soft, const struct soft_window **near,
		  const struct hr_sqe *sqe, uint64_t bytes, struct iovec *vec, unsigned max,
		  unsigned *count);

/* Copy what a vector describes into data. */
void soft_gather(void *data, const struct iovec *vec, unsigned count);

/* Copy a page or less of data to the host, as admin commands do. NVMe status. */
uint16_t soft_copy_out(const struct soft *soft, const struct hr_sqe *sqe, const void *data,
		       uint32_t bytes);

/* ---- faults.c: scripted misbehaviour */

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
};

enum {
	FAULT_ON_READ = 1,
	FAULT_ON_WRITE = 2,
	FAULT_ON_FLUSH = 4,
	FAULT_ON_OTHER = 8,
	FAULT_ON_ADMIN = 16
};

struct soft_fault { /* one line of nvme/soft/FAULTS.md */
	enum soft_fault_kind kind;
	uint32_t on;	      /* FAULT_ON_* */
	uint64_t first, last; /* LBAs; commands without any match always */
	uint64_t nth, times;  /* from the nth match on, so many times (UINT64_MAX: for ever) */
	uint64_t seen;	      /* matches so far; atomic */
	uint64_t delay_ns, seed;
	uint16_t status, value;
	bool dnr;
	uint8_t crd;
	enum hr_soft_cut policy;
};

/* Read a script. 0, -EINVAL, -ENOENT ... with message. */
int soft_faults_read(struct soft *soft, const char *file, char *message);

/* The rule that applies to this command, or NULL; counts it. */
const struct soft_fault *soft_fault_for(struct soft *soft, const struct hr_sqe *sqe, bool admin);

/* ---- bells.c: doorbells */

/* A doorbell: where it is, and as last looked at. */
struct soft_bell {
	const uint32_t *reg, *mirror; /* register; shadow, or NULL */
	uint32_t reg_seen, mirror_seen;
	bool shadowed; /* its shadow moved: the register is only a bell from then on */
};

struct soft_cq {
	struct hr_cqe *ring;		      /* NULL: does not exist */
	uint32_t entries, tail, phase, users; /* users: SQs that complete here */
	uint32_t head;			      /* newest valid doorbell value */
	uint16_t id;
	uint32_t poller; /* index of the one that serves it */
	struct soft_bell bell;
} __attribute__((aligned(SOFT_LINE)));

struct soft_sq {
	const struct hr_sqe *ring; /* NULL: does not exist */
	struct soft_cq *cq;
	const struct soft_window *near; /* where its commands' data were last, never NULL */
	uint32_t *event;		/* EventIdx of the tail, or NULL */
	uint32_t entries, head, tail;
	uint16_t id, cqid;
	struct soft_bell bell;
} __attribute__((aligned(SOFT_LINE)));

/* Queue `id` over ring; its doorbells are cleared. The CQ must exist before its SQs. */
void soft_start_cq(struct soft *soft, uint16_t id, struct hr_cqe *ring, uint32_t entries);
void soft_start_sq(struct soft *soft, uint16_t id, uint16_t cqid, const struct hr_sqe *ring,
		   uint32_t entries);
/* A queue starts empty, whatever its predecessor's doorbell says, and leaves none behind. */
void soft_clear_bell(const struct soft *soft, uint16_t qid, bool cq);
/* Look at both doorbells of a queue. Returns how many of its commands can be executed: fetched, and
 * completed with the room there is. */
uint32_t soft_ready(struct soft *soft, struct soft_sq *sq);
/* Completions that the host has room for. */
uint32_t soft_cq_room(struct soft *soft, struct soft_cq *cq);
/* Use the doorbell buffers soft->shadow and soft->event, or none, for all I/O queues. Those that
 * exist go on by register until their shadow moves. */
void soft_aim_shadow(struct soft *soft);
/* All doorbells 0. */
void soft_clear_doorbells(struct soft *soft);
/* Doorbells of queues that do not exist stay 0; anything else is an event (Base 5.2, 00h). */
void soft_scan_doorbells(struct soft *soft);

/* ---- queues.c */

struct soft_completion {
	uint64_t due_ns;
	uint16_t sqid, cid, field; /* field: status without P */
	uint32_t dw0;
	bool reorder, used;
};

struct soft_poller {
	struct soft *soft;
	struct iovec *vec; /* [soft->vec_max] */
	uint32_t index;
	uint32_t rounds; /* of poller 0 */
	uint32_t cqs;	 /* it serves; poller 0 */
	uint32_t held_count;
	uint32_t queues; /* of sq[] */
	struct soft_sq *sq[HR_SOFT_QUEUES];
	struct hr_soft_stats stats __attribute__((aligned(SOFT_LINE))); /* atomic: read by others */
	struct soft_completion held[SOFT_HELD];
	pthread_t thread;
	pthread_mutex_t lock __attribute__((aligned(SOFT_LINE)));
	uint32_t wanted; /* somebody waits for lock; atomic */
} __attribute__((aligned(SOFT_LINE)));

struct soft_reservations; /* reserve.c */

struct soft {
	/* Set at open. */
	struct soft_reservations *reservations; /* of the namespace; NULL: it has none */
	struct hr_soft_options options;
	uint8_t *bar;
	size_t bar_bytes;
	struct soft_media media;
	uint64_t blocks;     /* of each namespace */
	uint32_t namespaces; /* of equal size, one behind the other on the media */
	uint32_t lba_shift;
	uint64_t max_bytes; /* of one command */
	unsigned vec_max;
	struct soft_fault fault[SOFT_FAULTS];
	uint32_t faults;
	uint32_t threads;
	struct soft_poller *poller; /* [threads] */
	uint64_t opened_ns;
	uint64_t identity; /* of the namespace: the same for all controllers of an image */

	/* Changes rarely, and all pollers look at it. */
	bool running __attribute__((
		aligned(SOFT_LINE))); /* EN and RDY and not shut down; pollers process queues.
				       * Under their locks. */
	uint32_t dead;		      /* power is cut or the device removed; atomic */
	uint32_t ending;	      /* threads leave; atomic */
	uint32_t populated;	      /* threads that have taken their part of the memory; atomic */
	int populate_error;	      /* of one that could not; atomic */
	uint32_t *shadow, *event;     /* doorbell buffers, or NULL */
	struct soft_window window[HR_SOFT_WINDOWS];

	struct soft_sq sq[HR_SOFT_QUEUES + 1]; /* 0: admin */
	struct soft_cq cq[HR_SOFT_QUEUES + 1];
	struct soft_cache cache;

	/* Registers as they are, whatever the host wrote over them; features, events: poller 0. */
	uint64_t cap __attribute__((aligned(SOFT_LINE)));
	uint32_t vs, cc, csts;
	uint32_t interrupt_mask; /* INTMS, INTMC */
	bool vanished;		 /* registers read all ones */
	uint32_t feature[256];
	uint32_t under_kelvin; /* the second temperature threshold */
	bool retry_delays;     /* Host Behavior Support: ACRE */
	uint8_t host_id[16];   /* zero: none. Written under the lock of reservations */
	bool long_host_id;     /* it was set with 16 bytes */
	bool failing;	       /* a fault asked for CSTS.CFS; atomic */
	uint16_t granted;      /* I/O queue pairs */
	uint16_t aer[SOFT_AERL + 1];
	uint32_t aers;
	uint32_t events;    /* bit per enum soft_event: waiting; atomic */
	uint32_t masked;    /* bit per type of event: one was sent, and its log not read since */
	uint32_t critical;  /* critical warnings of the SMART log; atomic */
	uint32_t protected; /* the namespaces are write protected; atomic */
	bool namespace_changed; /* all of them, since the list of changed ones was read */

	/* Logs: errors_lock. */
	pthread_mutex_t errors_lock __attribute__((aligned(SOFT_LINE)));
	uint64_t errors; /* error log entries ever */
	struct nvme_error_log_page error[SOFT_ERROR_LOG];
	uint64_t media_errors;
};

/* In the order in which they are sent. */
enum soft_event {
	EVENT_BAD_REGISTER,
	EVENT_BAD_VALUE,
	EVENT_RELIABILITY,
	EVENT_TEMPERATURE,
	EVENT_SPARE,
	EVENT_NAMESPACE,
	SOFT_EVENTS
};

/* There is such a namespace, and it is active. */
static inline bool soft_has_namespace(const struct soft *soft, uint32_t nsid)
{
	return nsid >= 1 && nsid <= soft->namespaces;
}

static inline bool soft_is_protected(const struct soft *soft)
{
	return __atomic_load_n(&soft->protected, __ATOMIC_ACQUIRE) != 0;
}

/* A controller without threads, as the fuzz target steps it; soft_delete() ends it. */
int soft_new(struct soft **out, const struct hr_soft_options *options, char *message);
void soft_delete(struct soft *soft);

/* ---- threads.c */

/* Start them: bound to their CPUs, memory populated if asked for. 0, or -errno with message. */
int soft_start(struct soft *soft, char *message);
/* End the first `threads` of them. */
void soft_join(struct soft *soft, uint32_t threads);

/* One round of a poller: registers (poller 0), then its queues. True when there was work. */
bool soft_poll(struct soft_poller *p);

/* Stop and continue all pollers but the caller's (poller 0), or all when called from outside. */
void soft_quiesce(struct soft *soft, uint32_t first);
void soft_resume(struct soft *soft, uint32_t first);

/* Look at the queues of this poller. */
bool soft_queues_poll(struct soft_poller *p);
/* A counter with one writer, that others read. */
static inline void soft_add(uint64_t *counter, uint64_t n)
{
	__atomic_store_n(counter, *counter + n, __ATOMIC_RELAXED);
}

/* Words of a command, whatever they are made of. */
typedef uint32_t soft_word32 __attribute__((may_alias));
typedef uint64_t soft_word64 __attribute__((may_alias));

/* A command as it is now: what is checked is what is executed, whatever the host does meanwhile. */
static inline struct hr_sqe soft_fetch(const struct hr_sqe *slot)
{
	const soft_word64 *from = (const soft_word64 *)(const void *)slot;
	union {
		uint64_t word[HR_SQE_BYTES / 8];
		struct hr_sqe sqe;
	} copy;

	for (unsigned i = 0; i < HR_SQE_BYTES / 8; i++)
		copy.word[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
	return copy.sqe;
}

/* Serve an I/O queue when no faults are scripted (serve.c). True when there was work. */
bool soft_serve_straight(struct soft_poller *p, struct soft_sq *sq);
bool soft_admin_poll(struct soft_poller *p);
void soft_queues_clear(struct soft *soft);
uint16_t soft_create_cq(struct soft *soft, const struct hr_sqe *sqe);
uint16_t soft_create_sq(struct soft *soft, const struct hr_sqe *sqe);
uint16_t soft_delete_cq(struct soft *soft, const struct hr_sqe *sqe);
uint16_t soft_delete_sq(struct soft *soft, const struct hr_sqe *sqe);
/* End held-back completions of a queue (one CID, or all: cid < 0) with a status. Any? */
bool soft_end_held(struct soft_poller *p, uint16_t sqid, int cid, uint16_t field);
/* Queues whose rings lie in memory that goes away. All pollers hold still. */
void soft_drop_queues(struct soft *soft, const struct soft_window *w);
/* The CQE, its phase last. The caller has made sure that there is room. */
void soft_post(struct soft_sq *sq, uint16_t cid, uint32_t dw0, uint16_t field);

/* ---- regs.c */
void soft_regs_reset(struct soft *soft);
bool soft_regs_poll(struct soft *soft);
void soft_fail(struct soft *soft);   /* CSTS.CFS */
void soft_vanish(struct soft *soft); /* registers read all ones */

/* ---- commands. Return NVMe status | DNR << 14, as bits 15:1 of the CQE's status field >> 1. */
#define SOFT_DNR 0x4000u
#define SOFT_CRD_SHIFT 11u    /* of CRD in that field */
#define SOFT_NO_REPLY 0xffffu /* asynchronous event request: completes later, or never */
/* Shadow doorbells of all queues lie in one page: not with a wide stride; then OACS has no DBBUF. */
bool soft_shadow_fits(const struct soft *soft);
uint16_t soft_admin(struct soft *soft, const struct hr_sqe *sqe, uint32_t *dw0);
uint16_t soft_io(struct soft_poller *p, struct soft_sq *sq, const struct hr_sqe *sqe);
void soft_make_identity(struct soft *soft);
uint16_t soft_identify(struct soft *soft, const struct hr_sqe *sqe);
uint16_t soft_set_feature(struct soft *soft, const struct hr_sqe *sqe, uint32_t *dw0);
uint16_t soft_get_feature(struct soft *soft, const struct hr_sqe *sqe, uint32_t *dw0);
uint16_t soft_get_log(struct soft *soft, const struct hr_sqe *sqe);
/* zoned.c: what Identify and I/O commands of a namespace of the zoned command set are. */
uint16_t soft_zoned_identify(struct soft *soft, const struct hr_sqe *sqe);
uint16_t soft_zoned_io(struct soft_poller *p, struct soft_sq *sq, const struct hr_sqe *sqe);
/* reserve.c: reservations of the namespace, where the option asks for them. */
int soft_reservations_open(struct soft *soft); /* 0 or -errno */
void soft_reservations_close(struct soft *soft);
void soft_reservations_reset(struct soft *soft); /* of the controller */
uint16_t soft_reservation_io(struct soft_poller *p, struct soft_sq *sq, const struct hr_sqe *sqe);
/* Whether another host's reservation forbids this read, write, or other I/O command. */
bool soft_reservation_refuses(struct soft *soft, const struct hr_sqe *sqe);
uint16_t soft_set_host_id(struct soft *soft, const struct hr_sqe *sqe);
uint16_t soft_get_host_id(struct soft *soft, const struct hr_sqe *sqe, bool current);
uint16_t soft_read(struct soft_poller *p, struct soft_sq *sq, const struct hr_sqe *sqe);
void soft_features_reset(struct soft *soft);
void soft_event(struct soft *soft, enum soft_event event);
/* Critical warnings of the SMART log that are on from now on; events where they are new. */
void soft_warn(struct soft *soft, uint32_t critical);
/* The temperature, as the thresholds are now. */
void soft_compare_temperature(struct soft *soft);
/* From now on the namespaces are write protected. */
void soft_protect(struct soft *soft);
/* A doorbell that no driver may write so: a warning, an entry of the error log, an event. entries 0:
 * the queue does not exist. Any poller. */
void soft_bad_bell(struct soft *soft, uint16_t qid, bool cq, uint32_t value, uint32_t entries);
void soft_events_send(struct soft *soft);
void soft_log_error(struct soft *soft, uint16_t sqid, const struct hr_sqe *sqe, uint16_t field);

#endif

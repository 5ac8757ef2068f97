/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/engine/remote/stream.h - the state of one stream of tiles, its sender and its receiver.
 * For files of this folder.
 */
#ifndef BOOT_ENGINE_REMOTE_STREAM_H
#define BOOT_ENGINE_REMOTE_STREAM_H

#include <pthread.h>

#include "boot/engine/remote/remote.h"
#include "config/base/seam.h"
#include "gpu/places.h"
#include "boot/remote/link.h"

/* ---- the state of one stream. For boot/engine/remote/remote.c,
 * sender.c and receiver.c.
 */

/* ---- tiles of a stream in the memory of a GPU: the dma-buf with
 * which the network device accesses them, and accesses of the GPU for the loopback. For
 * boot/engine/remote/remote.c, sender.c and receiver.c.
 */

/* All zero: not open. */
struct hr_remote_gpu_tiles {
	struct hr_backend *backend;
	uint8_t *tiles;		 /* for workers */
	struct hr_region region; /* of hr_remote_gpu_take() */
	int dmabuf;
};

/* True when the tiles of a stream on this backend lie in GPU memory. */
static inline bool hr_remote_is_gpu(const struct hr_backend *b)
{
	return b->ops->export_shared != NULL;
}

/*
 * Describe a memory object of HR_PLACE_TAP, which begins at `offset`, in *memory: address, dma-buf and
 * functions; `bytes` and slots are the caller's. No worker runs until the link is open. *gpu outlives
 * the link. -ENOTSUP: the network device cannot access it, or as export_shared of the backend.
 */
int hr_remote_gpu_open(struct hr_remote_gpu_tiles *gpu, struct hr_backend *backend,
		       const struct hr_region *tap, uint64_t offset, struct hr_rdma_memory *memory,
		       struct hr_error *e);

/* The same with memory that is allocated for it: so many slots. Errors of the backend. */
int hr_remote_gpu_take(struct hr_remote_gpu_tiles *gpu, struct hr_backend *backend, uint32_t slots,
		       uint32_t slot_bytes, struct hr_rdma_memory *memory, struct hr_error *e);

/* Close the dma-buf, and free what was allocated; the link is closed. Does nothing when all zero. */
void hr_remote_gpu_close(struct hr_remote_gpu_tiles *gpu);
/* Where a slot is. A sender: lent to this service, and sent. A receiver: offered by the feed. */
enum hr_remote_slot_state {
	HR_REMOTE_NONE,
	HR_REMOTE_READY,   /* sender: to be sent; receiver: offered to the link */
	HR_REMOTE_SENDING, /* sender: the link sends it */
	HR_REMOTE_SHORT, /* receiver: a tile that is committed when the end shows that it is the last */
	HR_REMOTE_KEPT, /* sender: arrived, and kept until the receiver's run has ended */
};

struct hr_remote_slot {
	enum hr_remote_slot_state state;
	uint32_t gen, bytes;
	uint64_t tile;
};

struct hr_remote {
	struct hr_run *run;
	bool sends;
	struct hr_link *link;		/* NULL: no stream */
	struct hr_remote_gpu_tiles gpu; /* when the tiles lie in its memory */
	bool own; /* entries and page, and on the host backend a receiver's tiles, are its own */
	struct hr_cpu_thread thread;
	bool started;
	pthread_mutex_t lock;
	/* Under the lock, by the owner of the appliance. */
	bool begun, ended;
	uint64_t durable; /* receiver */
	int code;	  /* with `ended` */
	char why[512];
	/* Under the lock, by the thread. */
	bool was_connected;    /* was connected */
	uint64_t receiver_has; /* sender: tiles that the receiver had at the first hello */
	int err;	       /* of the stream, or 0 */
	struct hr_error error; /* with err */
	bool thread_ended;     /* the thread has ended */
	struct hr_remote_report report;
	/* Of the thread. */
	bool up, runs, end_told, remote_ended, failed;
	bool dead;	   /* the link has failed */
	bool end_fed;	   /* receiver: the feed knows its end */
	uint64_t quiet_ns; /* when the thread ends at the latest, once `told` */
	uint64_t taken;	   /* entries */
	uint64_t back;	   /* sender: tiles that were given back */
	uint64_t durable_told;
	uint64_t tiles, bytes; /* of the stream; HR_NO_TILE: not known yet */
	struct hr_remote_slot slot[HR_SLOTS_MAX];
};

/* Settings of the other side, and the name of the tap or the feed of a run with a stream. */
const struct hr_config_remote *hr_remote_config(const struct hr_run *run);
const char *hr_remote_name(const struct hr_run *run);

void hr_remote_lock(struct hr_remote *r);
void hr_remote_unlock(struct hr_remote *r);

/* The stream has failed: the run ends. The first error counts. */
void hr_remote_fail(struct hr_remote *r, enum hr_error_kind kind, int err, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* ---- the sender of a stream: the only consumer of the tap of
 * its run. It gives the tiles that the tap lends to the link. For boot/engine/remote/remote.c.
 */

/* Make the memory of the consumer, before the link is open, and describe the tiles. On a GPU all
 * memory is there. -ENOMEM, -EMFILE, -ENOSYS; errors of hr_remote_gpu_open(); in *e. */
int hr_remote_sender_memory(struct hr_engine *engine, struct hr_remote *r,
			    struct hr_rdma_memory *memory, struct hr_error *e);

/* Give it back; the link is closed. */
void hr_remote_sender_free(struct hr_remote *r);

/* The run is about to be launched: give the worker its order. */
void hr_remote_sender_begin(struct hr_remote *r);

/* In the thread, while the run runs: move what can be moved. True: something was done. */
bool hr_remote_sender_step(struct hr_remote *r);

/* In the thread: an event of the link. */
void hr_remote_sender_event(struct hr_remote *r, const struct hr_link_event *event);

/* ---- the receiver of a stream: the only producer of the
 * feed of its run. It commits the tiles that come over the link. For boot/engine/remote/remote.c.
 */

/* Make the memory of the producer, before the link is open, and describe the tiles. On a GPU all
 * memory is there. -ENOMEM, -EMFILE, -ENOSYS; errors of hr_remote_gpu_open(); in *e. */
int hr_remote_receiver_memory(struct hr_engine *engine, struct hr_remote *r,
			      struct hr_rdma_memory *memory, struct hr_error *e);

/* Give it back; the link is closed. */
void hr_remote_receiver_free(struct hr_remote *r);

/* The run is about to be launched: give the worker its order. */
void hr_remote_receiver_begin(struct hr_remote *r);

/* In the thread, while the run runs: move what can be moved. True: something was done. */
bool hr_remote_receiver_step(struct hr_remote *r);

/* In the thread: an event of the link. */
void hr_remote_receiver_event(struct hr_remote *r, const struct hr_link_event *event);

#endif

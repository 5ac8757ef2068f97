/*
 * boot/engine/remote/stream.h - the state of one stream. For boot/engine/remote/remote.c,
 * sender.c and receiver.c.
 */
#ifndef BOOT_ENGINE_REMOTE_STREAM_H
#define BOOT_ENGINE_REMOTE_STREAM_H

#include <pthread.h>

#include "boot/engine/remote/remote.h"
#include "boot/engine/remote/remote_gpu.h"
#include "config/base/seam.h"

/* Where a slot is. A sender: lent to this service, and sent. A receiver: offered by the feed. */
enum hr_remote_slot_state {
	HR_REMOTE_NONE,
	HR_REMOTE_HELD,	 /* sender: to be sent; receiver: offered to the link */
	HR_REMOTE_MOVES, /* sender: the link sends it */
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
	struct hr_link *link;	  /* NULL: no stream */
	struct hr_remote_gpu gpu; /* when the tiles lie in its memory */
	bool own; /* entries and page, and on the host backend a receiver's tiles, are its own */
	struct hr_thread thread;
	bool started;
	pthread_mutex_t lock;
	/* Under the lock, by the owner of the appliance. */
	bool begun, ended;
	uint64_t durable; /* receiver */
	int code;	  /* with `ended` */
	char why[512];
	/* Under the lock, by the thread. */
	bool met;	       /* was connected */
	uint64_t have;	       /* sender: tiles that the receiver had at the first hello */
	int err;	       /* of the stream, or 0 */
	struct hr_error error; /* with err */
	bool over;	       /* the thread has ended */
	struct hr_remote_report report;
	/* Of the thread. */
	bool up, runs, told, peer_done, failed;
	bool dead;	   /* the link has failed */
	bool fed;	   /* receiver: the feed knows its end */
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

#endif

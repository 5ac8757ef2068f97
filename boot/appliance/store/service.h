/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/appliance/store/service.h - the engine's side of requests that concern an ssd (`headrace
 * store` on an ssd that a running appliance drives).
 *
 * The control socket passes the connected client on (hr_control_pass), and the service serves
 * it in the engine's thread, with the host's own queue pair of the ssd. hr_store_service_step() never
 * waits: sockets do not block, and hr_nvme_blk_begin() moves the data. Only changes of the object
 * map (two for a put or a copy) and the check of the map wait for the ssd, as a checkpoint does.
 *
 * Whole versions: a reader pins its object (cache/store/store.h). A put creates an incomplete
 * object, and one commit makes it the version, after the client has announced the end of its data
 * with their checksum. A put that ends in another way is removed. An object that a run still reads
 * keeps its space after a put has replaced it.
 *
 * Rate: while a pipeline runs, the service works at most control.store_percent of the time, counted
 * as time of the engine's thread and time of commands in flight. Otherwise there is no limit.
 *
 * Hostile clients: the service has HR_STORE_CLIENTS jobs, each with a fixed buffer. It drops a client
 * that neither sends nor receives a byte for HR_STORE_CLIENT_SILENT_NS. When all jobs are in use, a new
 * client replaces the client for which the service has waited longest, and at least
 * HR_STORE_CLIENT_PATIENCE_NS.
 */
#ifndef BOOT_APPLIANCE_STORE_SERVICE_H
#define BOOT_APPLIANCE_STORE_SERVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "boot/appliance/protocol/message.h"
#include "boot/appliance/protocol/record.h"
#include "boot/engine/engine.h"
#include "config/base/clock.h"

#define HR_STORE_CLIENTS HR_RECORD_STORE_JOBS
#define HR_STORE_CLIENT_SILENT_NS (30 * HR_NS_PER_S)
#define HR_STORE_CLIENT_PATIENCE_NS HR_NS_PER_S
#define HR_STORE_SERVICE_PAUSE_NS HR_NS_PER_S /* longest hr_store_service_pause_ns() */

enum hr_store_job_state {
	HR_STORE_JOB_FREE,
	HR_STORE_JOB_BEGINS,   /* the request is not checked yet */
	HR_STORE_JOB_SENDS,    /* the buffer to the client */
	HR_STORE_JOB_RECEIVES, /* the next item of a put */
	HR_STORE_JOB_READY,    /* for the next command to the ssd */
	HR_STORE_JOB_ON_DISK,
	HR_STORE_JOB_FINISHES, /* a put, with the commit of its object */
};

/* One request that is served. */
struct hr_store_job {
	enum hr_store_job_state state;
	int fd;
	uint32_t events; /* of fd, for which the service waits; 0: none */
	struct hr_request request;
	uint32_t ssd;
	uint64_t user, process; /* of the client, as in struct hr_record_store_job */
	uint64_t waits_ns;	/* since when it waits for its client, without progress */
	uint64_t heard_ns;	/* newest sign of life of the client */
	bool absent;		/* the ssd is not one of this appliance */
	bool last;		/* the buffer ends with the reply: then the connection is closed */
	/* The buffer: `length` bytes to send, of which `sent` are; or of a put, `length` bytes. */
	uint8_t *buffer;
	size_t length, sent;
	/* The object that is read or made; id 0: none. A copy reads another one, `from`. */
	struct hr_store_object object, from;
	uint32_t pin;
	uint64_t pinned_id; /* the object that is pinned */
	bool pinned;
	bool write;	/* a copy: the next command writes the piece that was read */
	bool changed;	/* a run has written to it in place since it was pinned */
	uint64_t at;	/* bytes that the ssd has read or written */
	uint32_t piece; /* bytes of the command, or the next one */
	uint32_t crc;
	/* A put: the item that is being received, and the bytes of all items. */
	uint8_t head[HR_MESSAGE_HEADER];
	uint32_t head_got, item_left;
	uint64_t received;
	bool ends;
	/* A verification. A removal of incomplete objects: their number and bytes. */
	uint32_t faults, left_out;
	uint64_t checked, total;
	struct hr_error e;
};

struct hr_store_service {
	struct hr_engine *engine; /* the caller's; its stores are up. NULL: closed */
	int clients;		  /* where clients come from */
	int wake; /* readable when there is work that hr_store_service_step() does at once */
	/* Called after an object was made or replaced; NULL: nothing is called. */
	void (*changed)(void *to);
	void *to;
	/* Gets clients whose request is not one of the store, and then owns fd; NULL: they are
	 * refused. */
	void (*other)(void *other_to, const struct hr_request *request, int fd);
	void *other_to;
	char identity[HR_SSDS_MAX][HR_MESSAGE_DISK_MAX];
	uint8_t *memory; /* of all buffers */
	/* Extents that a put has replaced while a run reads them. */
	struct {
		uint32_t ssd, pin;
		uint64_t id; /* 0: free */
	} kept[HR_STORE_CLIENTS];
	bool limited;			     /* a pipeline runs */
	int64_t credit_ns;		     /* time that it may work while it is limited */
	uint64_t at_ns;			     /* end of the newest step */
	uint32_t next;			     /* job that is looked at first */
	uint64_t requests, refused, dropped; /* as in struct hr_record_store */
	struct hr_store_job job[HR_STORE_CLIENTS];
};

/*
 * Serve the clients that come from the socket `clients` (-1: none come). Allocates; the other
 * functions do not. 0; -ENOMEM, -EMFILE, as a text in *e.
 */
int hr_store_service_open(struct hr_store_service *service, struct hr_engine *engine, int clients,
			  struct hr_error *e);

/* `wake` is readable also when fd is; a negative one is skipped. */
void hr_store_service_wake_by(const struct hr_store_service *service, int fd);

/* Do what can be done now. In the thread that owns the appliance, between two other uses of its
 * stores. Does nothing when the service is closed. */
void hr_store_service_step(struct hr_store_service *service);

/* The requests that are served, for the status; all zero when the service is closed. Neither waits nor
 * allocates. */
void hr_store_service_snapshot(const struct hr_store_service *service,
			       struct hr_record_store *store);

/* Longest time until the next step, when `wake` does not end the wait before. */
uint64_t hr_store_service_pause_ns(const struct hr_store_service *service);

/* Tell all clients that the engine ends, and remove the objects of puts. Before the stores go
 * down. */
void hr_store_service_close(struct hr_store_service *service);

/* ---- for boot/appliance/store/job.c */

#endif

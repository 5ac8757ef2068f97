/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/engine/devices/ssd.h - one ssd from its device string: transport, controller,
 * namespace, queues, the host's own disk over one queue pair, and the object store.
 *
 * Several ssds may be namespaces of one controller: they share its transport, admin queue and I/O
 * queue ids (struct hr_ssd_controller). Each has its own disk, store, chunk size, queue depth and
 * deadline.
 *
 * The controller can access one block of memory per ssd (the disk's rings and bounce buffers; for
 * the first ssd of a controller also the admin queues). The object map has separate memory.
 * hr_ssd_up() and hr_ssd_open_store() (boot/engine/devices/ssd_store.h) allocate all of it, later calls
 * allocate nothing.
 */
#ifndef BOOT_ENGINE_DEVICES_SSD_H
#define BOOT_ENGINE_DEVICES_SSD_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cache/store/store.h"
#include "config/config.h"
#include "config/base/error.h"
#include "nvme/blk.h"
#include "nvme/blk_kernel.h"
#include "nvme/ctrl.h"
#include "nvme/reservation.h"
#include "nvme/transport/transport.h"

/* I/O queue pairs requested; a controller may grant fewer */
#define HR_SSD_QUEUES_WANTED 256u

/* Error of a call on a device that was found before: -EIO in place of "no such device", which
 * means a device that was never found. */
static inline int hr_vanished_error(int err)
{
	return err == -ENODEV || err == -ENXIO ? -EIO : err;
}

/*
 * One controller, of one ssd or of several. The first ssd that comes up on it creates it; the last
 * one that goes down ends it.
 */
struct hr_ssd_controller {
	struct hr_transport transport;
	struct hr_ctrl ctrl;
	/* memory of the admin queues, and of the first ssd's disk */
	struct hr_region region;
	struct hr_ssd *ssd[HR_SSDS_MAX]; /* ssds on this controller; NULL: none */
	uint32_t users;			 /* number of ssds in user[] */
	/* I/O queue pairs: granted, or those that it has created when it refuses to create more */
	uint32_t queues;
	uint32_t queues_used; /* number of those in use */
	/* owner by queue id; NULL: free */
	const struct hr_ssd *queue[HR_SSD_QUEUES_WANTED + 1];
	const void *queue_for[HR_SSD_QUEUES_WANTED + 1]; /* hr_ssd_qp_memory.owner */
	size_t kept; /* bytes that it may still write to, and that are never freed */
	/* hr_ssd_reset(): number, and hr_now_ns() of the last one */
	uint32_t resets;
	uint64_t reset_ns;
	unsigned bringup_steps; /* completed steps of bring-up */
};

struct hr_stand_in;

struct hr_ssd {
	char device[HR_DEVICE_MAX]; /* as in the configuration or on the command line */
	/* A copy of the controller's, so that the name is also valid for "kernel:PATH" and for
	 * an ssd that is down; for all uses but close(). */
	struct hr_transport transport;
	struct hr_ssd_controller *controller; /* NULL: down, or "kernel:PATH" */
	struct hr_ctrl *ctrl;		      /* of the controller; NULL in the same cases */
	struct hr_ns ns;
	/* the host's own queue pair: object map, flush, self-tests */
	struct hr_nvme_blk disk;
	struct hr_reservation reservation; /* of the namespace; hr_ssd_reserve() */
	struct hr_kernel_blk kernel;	   /* in place of all above, for "kernel:PATH" */
	struct hr_blk *blk;		   /* the disk of either kind */
	struct hr_store store;		   /* valid when has_store */
	bool has_store;
	struct hr_health health; /* outlives hr_ssd_down(): down, or stuck */
	/* memory of the disk; empty when it is part of the controller's */
	struct hr_region region;
	void *store_memory;	/* objects and io of the store */
	char disk_name[64];	/* name of a disk other than namespace 1, for messages */
	uint32_t queue_entries; /* of each I/O queue: as requested, at most CAP.MQES + 1 */
	uint32_t chunk_bytes;	/* largest command: power of two, HR_PAGE..HR_CHUNK_MAX */
	uint64_t timeout_ns;	/* deadline of an I/O command */
	/* completed steps of bring-up; hr_ssd_down() undoes them in reverse */
	unsigned bringup_steps;
	/* Another process drives it (boot/engine/devices/stand_in.h); NULL: it is up in this
	 * process. */
	struct hr_stand_in *stand_in;
};

/*
 * Bring up the ssd that a configuration describes (device, nsid, queue_entries, timeout_ns,
 * admin_timeout_ns, serial), up to the open disk. "kernel:PATH" is taken as well and gives a disk and
 * no queues. *ssd is all zero, or was taken down.
 *
 * A hardware disk is refused, and not written, when its serial number differs from `serial` (""
 * allows any). It is also refused when it holds foreign data
 * (boot/engine/devices/foreign_data.h), unless `serial` names it. On error everything is down again.
 * 0; -EBUSY: it holds foreign data; -ENODEV: another serial number; -EIO: the device vanished
 * meanwhile; or as hr_transport_open(), hr_kernel_blk_open(), hr_ctrl_open(),
 * hr_ctrl_identify_ns(); -ENOMEM.
 */
int hr_ssd_up(struct hr_ssd *ssd, const struct hr_config_ssd *config, struct hr_error *e);

/*
 * The same for another namespace of the controller that `peer` is up on. Both device strings name
 * that controller. Also -EIO: the controller has failed.
 */
int hr_ssd_up_on(struct hr_ssd *ssd, const struct hr_config_ssd *config, struct hr_ssd *peer,
		 struct hr_error *e);

/* True when the host has a queue pair of its own on the controller: bring-up is done. */
static inline bool hr_ssd_has_disk(const struct hr_ssd *ssd)
{
	return ssd->controller && ssd->controller->queue[ssd->disk.qp.id] == ssd;
}

/* True when both are up on one controller. */
static inline bool hr_ssd_same_controller(const struct hr_ssd *a, const struct hr_ssd *b)
{
	return a->controller && a->controller == b->controller;
}

/* Remove the image of the ssd, if hr_ssd_up() has made it. Before hr_ssd_down(). */
void hr_ssd_discard(const struct hr_ssd *ssd);

/* I/O queue pairs that the controller has for all its ssds (hr_ssd_controller.queues); number of free
 * ones. */
static inline uint32_t hr_ssd_queues(const struct hr_ssd *ssd)
{
	return ssd->controller ? ssd->controller->queues : 0;
}
static inline uint32_t hr_ssd_queues_left(const struct hr_ssd *ssd)
{
	return ssd->controller ? ssd->controller->queues - ssd->controller->queues_used : 0;
}

/*
 * Take the ssd down. Errors are logged here, as those of hr_ssd_delete_qps() and hr_ssd_disable():
 * clean-up has no caller that prints them. The last ssd of a controller ends the controller:
 * orderly shutdown, or disable when its health allows no commands, before its memory is freed. When
 * the controller does not stop, that memory stays allocated and the health stays HR_HEALTH_STUCK.
 * Does nothing to an ssd that is all zero.
 */
void hr_ssd_down(struct hr_ssd *ssd);

/*
 * Before the first write: reserve the namespace, so that no other host or process can write to it
 * until hr_ssd_down() (nvme/reservation.h). Does nothing for a disk of kernel:, a write protected
 * namespace, and a controller or namespace without reservations. Errors of hr_resv_acquire(); -EBUSY:
 * another host or process holds the namespace, and nothing is changed.
 */
int hr_ssd_reserve(struct hr_ssd *ssd, struct hr_error *e);

/* After a reset of the controller: take a reservation that is held again. Errors of
 * hr_ssd_reserve(). */
int hr_ssd_renew(struct hr_ssd *ssd, struct hr_error *e);

/* Remove another host's reservation, *holder, because the administrator requests it. As
 * hr_resv_clear(). */
int hr_ssd_unlock(struct hr_ssd *ssd, struct hr_resv_holder *holder, struct hr_error *e);

/* True when the admin queue of the controller has ended: I/O goes on, and no queue pair can be created
 * or deleted before hr_ssd_reset(). */
static inline bool hr_ssd_wants_reset(const struct hr_ssd *ssd)
{
	const struct hr_health_rule *rule = hr_health_rule(ssd->health.state);

	return ssd->controller && rule->commands && !rule->admin;
}

/*
 * Reset the controller, and restore the host's own queue pairs, the events and the reservations of all
 * its ssds. No worker may use the controller; their queue pairs are gone. A success is logged.
 * 0; -EBUSY: an ssd has failed, or a transfer of the host has begun, and nothing was done (no text);
 * or the error of a step: the health of the ssds allows no commands any more.
 */
int hr_ssd_reset(struct hr_ssd *ssd, struct hr_error *e);

/* Memory of a worker's queue pair. */
struct hr_ssd_qp_memory {
	const struct hr_region *rings; /* SQ and CQ: hr_layout_ring_bytes(), zeroed, mapped */
	size_t ring_at;
	const struct hr_region *tables; /* hr_layout_table_bytes(); cpu may be a copy */
	size_t table_at;
	void *bar;	   /* BAR of the transport, at its address for the worker */
	const void *owner; /* for hr_ssd_delete_qps_of() */
};

/*
 * Before any queue pair is created: check that its rings may lie there. 0; -ENOTSUP: a ring is not
 * contiguous on the bus.
 */
int hr_ssd_check_rings(const struct hr_ssd *ssd, const struct hr_region *rings, size_t ring_at,
		       struct hr_error *e);

/*
 * Create the next I/O queue pair, of queue_entries, for a worker; its pointers are addresses for
 * the worker. As hr_ctrl_create_qp(); -ENOTSUP: no free id, or a ring is not contiguous on the bus.
 * When the controller refuses it although it has granted more (hr_ctrl_has_no_more()), hr_ssd_queues()
 * is then the number that exist.
 */
int hr_ssd_create_qp(struct hr_ssd *ssd, struct hr_nvme_qp *qp,
		     const struct hr_ssd_qp_memory *memory, struct hr_error *e);

/* Delete all I/O queue pairs of this ssd, or disable the controller when that fails or the
 * health allows no commands. 0, or an error: the controller may still use their memory. */
int hr_ssd_delete_qps(struct hr_ssd *ssd);

/* The same for the queue pairs of one owner, which has ended. Also -EBUSY: they stay until
 * hr_ssd_reset(), and their memory with them. */
int hr_ssd_delete_qps_of(struct hr_ssd *ssd, const void *owner);

/* Disable the controller at once, unless that was done or tried before. When this returns 0, no
 * command is in flight, and the health of its ssds allows no commands. On error the health is
 * HR_HEALTH_STUCK, and hr_ssd_down() keeps the memory. */
int hr_ssd_disable(struct hr_ssd *ssd);

/* Bytes of host memory of the ssd: for the controller, and for the object map. */
size_t hr_ssd_dma_bytes(const struct hr_ssd *ssd);
size_t hr_ssd_map_bytes(const struct hr_ssd *ssd);

#endif

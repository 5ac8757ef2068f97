/*
 * boot/engine/ssd.h - one ssd from its device string: transport, controller, namespace, queues, the
 * host's own disk over one queue pair, and the object store on it.
 *
 * Several ssds may be namespaces of one controller: they share its transport, admin queue and I/O
 * queue identifiers (struct hr_controller). Each has its own disk, store, chunk size, queue depth and
 * deadline.
 *
 * What the controller may reach is one block of memory per ssd (the disk's rings and bounce buffers;
 * that of the first ssd of a controller also holds the admin queues); the object map lies beside it.
 * All of it is taken in hr_ssd_up() and hr_ssd_open_store(), nothing later.
 */
#ifndef BOOT_ENGINE_SSD_H
#define BOOT_ENGINE_SSD_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cache/store/objmap.h"
#include "config/config.h"
#include "nvme/blk.h"
#include "nvme/blk_kernel.h"
#include "nvme/ctrl.h"
#include "nvme/reservation.h"
#include "nvme/transport.h"

#define HR_SSD_QUEUES_WANTED 256u /* I/O queue pairs asked for; a controller may grant fewer */

/* What a call on a device that was there returns: -EIO in place of "no such device", which is for
 * those that have never been found. */
static inline int hr_gone(int err)
{
	return err == -ENODEV || err == -ENXIO ? -EIO : err;
}

/*
 * One controller, of one ssd or of several. The first ssd that comes up on it makes it; the last one
 * that goes down ends it.
 */
struct hr_controller {
	struct hr_transport transport;
	struct hr_ctrl ctrl;
	struct hr_region region;	  /* of the admin queues, and of the first ssd's disk */
	struct hr_ssd *user[HR_SSDS_MAX]; /* NULL: none */
	uint32_t users;			  /* of user[] */
	uint32_t queues;		  /* I/O queue pairs granted */
	uint32_t queues_used;		  /* of them */
	const struct hr_ssd *queue[HR_SSD_QUEUES_WANTED + 1]; /* by identifier; NULL: free */
	int running;	/* why it could not be disabled; 0: it was not tried, or it could */
	size_t kept;	/* bytes that it may still write to, and that are never freed */
	unsigned steps; /* of bring-up, done */
};

struct hr_ssd {
	char device[HR_DEVICE_MAX]; /* as the configuration or the command line has it */
	/* A copy of the controller's, so that there is a name, also of "kernel:PATH" and of an ssd
	 * that is down; for all but close(). */
	struct hr_transport transport;
	struct hr_controller *controller; /* NULL: it is down, or "kernel:PATH" */
	struct hr_ctrl *ctrl;		  /* the controller's; NULL likewise */
	struct hr_ns ns;
	struct hr_nvme_blk disk; /* the host's own queue pair: object map, flush, self-tests */
	struct hr_reservation reservation; /* of the namespace; hr_ssd_reserve() */
	struct hr_kernel_blk kernel;	   /* instead of all above, for "kernel:PATH" */
	struct hr_blk *blk;		   /* the disk, whichever of the two it is */
	struct hr_store store;		   /* valid when has_store */
	bool has_store;
	bool failed; /* a command was lost or a queue broke: disable before freeing; hr_ssd_fail() */
	struct hr_region region; /* memory of the disk; empty when it lies in the controller's */
	void *store_memory;	 /* objects and io of the store */
	char disk_name[64];	 /* of a disk that is not namespace 1, for messages */
	uint32_t queue_entries;	 /* of each I/O queue: as asked for, at most CAP.MQES + 1 */
	uint32_t chunk_bytes;	 /* largest command: power of two, HR_PAGE..HR_CHUNK_MAX */
	uint64_t timeout_ns;	 /* deadline of an I/O command */
	unsigned steps;		 /* of bring-up, done; hr_ssd_down() undoes them in reverse */
};

/*
 * Bring up the ssd that a configuration describes (device, nsid, queue_entries, timeout_ns, serial),
 * up to the open disk. "kernel:PATH" is taken as well and gives a disk and no queues.
 *
 * A disk of hardware is refused, untouched, when its serial number is not `serial` ("" leaves that
 * open), or, unless `serial` names it, when something is on it that its owner would miss.
 * On error everything is down again and the reason is logged. 0; -EBUSY: something is on it;
 * -ENODEV: another serial number; -EIO: the device vanished meanwhile; or as hr_transport_open(),
 * hr_kernel_blk_open(), hr_ctrl_open(), hr_ctrl_identify_ns(); -ENOMEM.
 */
int hr_ssd_up(struct hr_ssd *ssd, const struct hr_config_ssd *config);

/*
 * The same for another namespace of the controller that `peer` is up on, whose device string names
 * the same controller. Also -EIO: the controller has failed.
 */
int hr_ssd_up_beside(struct hr_ssd *ssd, const struct hr_config_ssd *config, struct hr_ssd *peer);

/* Both are up on one controller. */
static inline bool hr_ssd_share(const struct hr_ssd *a, const struct hr_ssd *b)
{
	return a->controller && a->controller == b->controller;
}

/* I/O queue pairs that its controller has granted, to all its ssds; and those that are free. */
static inline uint32_t hr_ssd_queues(const struct hr_ssd *ssd)
{
	return ssd->controller ? ssd->controller->queues : 0;
}
static inline uint32_t hr_ssd_queues_left(const struct hr_ssd *ssd)
{
	return ssd->controller ? ssd->controller->queues - ssd->controller->queues_used : 0;
}

/* A command was lost, or a queue broke: all ssds of the controller have failed, because it has to be
 * disabled before its memory is freed. */
void hr_ssd_fail(struct hr_ssd *ssd);

/*
 * Take it down. The last ssd of a controller ends the controller: orderly shutdown, or when it has
 * failed, disable, before its memory is freed. Does nothing to an ssd that is all zero.
 */
void hr_ssd_down(struct hr_ssd *ssd);

/*
 * Before the first write: reserve the namespace, so that no other host or process can write to it
 * until hr_ssd_down() (nvme/reservation.h). Does nothing to a disk of kernel:, a write protected
 * namespace, and a controller or namespace without reservations. What is wrong is logged, with the
 * remedy. Errors of hr_resv_take(); -EBUSY: another host or process has the namespace, and nothing is
 * changed.
 */
int hr_ssd_reserve(struct hr_ssd *ssd);

/* An operator's order: take another host's reservation away, *holder. As hr_resv_clear(), and what is
 * wrong is logged. */
int hr_ssd_unlock(struct hr_ssd *ssd, struct hr_resv_holder *holder);

/* Open the object store. As hr_store_open(); -ENOTSUP: the ssd keeps no data. What is wrong is
 * logged. */
int hr_ssd_open_store(struct hr_ssd *ssd);

/* Write an empty store for `capacity` objects; force as in hr_store_format(). Leaves it closed.
 * -ENOTSUP: the ssd keeps no data. */
int hr_ssd_format_store(struct hr_ssd *ssd, uint32_t capacity, bool force);

/* Where a worker's queue pair lies. */
struct hr_ssd_qp_place {
	const struct hr_region *rings; /* SQ and CQ: hr_plan_ring_bytes(), zeroed, mapped */
	size_t ring_at;
	const struct hr_region *tables; /* hr_plan_table_bytes(); cpu may be a copy */
	size_t table_at;
	void *bar; /* the transport's BAR as the worker sees it */
};

/*
 * Before any is created: whether a queue pair whose rings begin there can be. 0; -ENOTSUP, which is
 * logged with the remedy: a ring is not in one piece on the bus.
 */
int hr_ssd_check_rings(const struct hr_ssd *ssd, const struct hr_region *rings, size_t ring_at);

/*
 * Create the next I/O queue pair, of queue_entries, for a worker; its pointers are as that worker
 * sees them. As hr_ctrl_create_qp(); -ENOTSUP: no identifier left, or a ring is not in one piece on
 * the bus. What is wrong is logged.
 */
int hr_ssd_create_qp(struct hr_ssd *ssd, struct hr_nvme_qp *qp,
		     const struct hr_ssd_qp_place *place);

/* Delete all of this ssd, or disable the controller when that fails or the ssd has failed. 0, or an
 * error: the controller may still use their memory. */
int hr_ssd_delete_qps(struct hr_ssd *ssd);

/* Stop the controller at once: nothing of it is in flight when this returns 0, and the disks of all
 * its ssds are dead. Errors of hr_ctrl_disable(), which stay: it is not tried again. hr_ssd_down()
 * only frees from here on. */
int hr_ssd_disable(struct hr_ssd *ssd);

/* Bytes of host memory it holds: for the controller, and for the object map. */
size_t hr_ssd_dma_bytes(const struct hr_ssd *ssd);
size_t hr_ssd_map_bytes(const struct hr_ssd *ssd);

#endif

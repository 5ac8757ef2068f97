/*
 * nvme/ctrl.h - one controller: bring-up, I/O queue pairs, shutdown, synchronous admin commands.
 *
 * Spec: NVMe Base 2.0, 3.5 (initialization), 3.6 (shutdown), 5 (admin commands); NVMe over PCIe
 * Transport 1.0, 3.1 (registers). Host side only; one thread at a time per controller. Every wait
 * is bounded: register waits by CAP.TO (or CRTO), shutdown by RTD3E, commands by
 * HR_ADMIN_TIMEOUT_NS. An admin command that times out takes the admin queue with it: everything
 * that needs it returns -ETIMEDOUT from then on.
 *
 * Errors everywhere: 0; -ENOLINK: a register reads all ones, or VS reads 0: the device is gone;
 * -ETIMEDOUT: CAP.TO or a deadline passed; -EIO: CSTS.CFS; -EPROTO: the controller broke a rule
 * (said in the log); > 0: the NVMe status of the command that failed. What went wrong is logged
 * where it is found.
 */
#ifndef NVME_CTRL_H
#define NVME_CTRL_H

#include <stdbool.h>
#include <stdint.h>

#include "nvme/queue.h"
#include "nvme/region.h"
#include "nvme/transport.h"

/* Memory for the admin queues, a page for data and one for events: so many bytes of a mapped region. */
#define HR_CTRL_ADMIN_BYTES (4u * HR_PAGE)
#define HR_CTRL_EVENTS 4u    /* asynchronous event requests outstanding, at most */
#define HR_CTRL_EVENT_NS 16u /* namespaces in use, at most */

/* Doorbells begin here in BAR0 (PCIe Transport 3.1.2). */
#define HR_DOORBELLS 0x1000u

#define HR_SHUTDOWN_TIMEOUT_MIN_NS (5ull * 1000 * 1000 * 1000)
#define HR_SHUTDOWN_TIMEOUT_MAX_NS (60ull * 1000 * 1000 * 1000)

#define HR_NQN_BYTES 256u

/* One namespace, from its identify data. An identifier of zeros is one that it does not report. */
struct hr_ns {
	uint32_t nsid;
	uint32_t lba_shift; /* 9 or 12 */
	uint64_t blocks;    /* NSZE */
	bool read_only;	    /* NSATTR: write protected */
	bool shared;	    /* NMIC: other controllers may reach it */
	uint8_t rescap;	    /* RESCAP: types of reservations that it supports */
	uint8_t eui64[8], nguid[16], uuid[16];
	/* NVM subsystem, where several controllers of it may reach the namespace (CMIC bit 1, NMIC):
	 * SUBNQN and serial number, as reported; else zeros. */
	char subnqn[HR_NQN_BYTES], serial[21];
};

struct hr_ctrl {
	struct hr_transport *transport;
	uint64_t cap;	    /* CAP, as read before enabling */
	uint32_t vs;	    /* VS */
	uint32_t cc, intms; /* as they are while nobody else touches them */
	uint64_t asq;
	bool told;		      /* what became of the controller is logged */
	uint32_t doorbell_step;	      /* bytes between doorbells: 4 << CAP.DSTRD */
	uint32_t max_entries;	      /* CAP.MQES + 1, at most HR_QUEUE_ENTRIES_MAX */
	uint64_t ready_timeout_ns;    /* CAP.TO, CRTO.CRWMT where the controller has it */
	uint64_t shutdown_timeout_ns; /* RTD3E within HR_SHUTDOWN_TIMEOUT_MIN_NS..MAX_NS */
	uint32_t max_transfer;	      /* bytes of one command: MDTS, at most HR_CHUNK_MAX */
	uint32_t namespaces;	      /* NN */
	uint32_t io_queues; /* granted by Number of Queues; 0 before hr_ctrl_set_queues() */
	uint16_t oncs;
	bool shared_subsystem; /* CMIC bit 1: the NVM subsystem may have several controllers */
	char subnqn[HR_NQN_BYTES];
	bool long_host_id; /* CTRATT.HIDS: takes a Host Identifier of 128 bits */
	bool has_host_id;  /* it has this machine's since it was enabled: nvme/reservation.h */
	uint16_t awupf;	   /* zero-based, in blocks */
	uint16_t
		crdt[4]; /* [1..3]: delays before a repetition, in units of 100 ms; 0: not in use */
	bool volatile_cache;			 /* VWC present: durable only after flush or FUA */
	char serial[21], model[41], firmware[9]; /* trailing blanks removed, unprintables as '?' */
	struct hr_nvme_qp admin;
	void *admin_data; /* one page for identify and log pages */
	struct hr_bus admin_data_bus;
	/* nvme/events.c */
	uint8_t aerl;			/* zero-based: event requests that it takes */
	uint32_t oaes;			/* events that it offers */
	bool events_on, events_refused; /* they are asked for; the controller has none */
	struct {
		const struct hr_ns *ns; /* a namespace in use; NULL: none */
		bool changed, lost;	/* an event has said so */
	} event_ns[HR_CTRL_EVENT_NS];
	uint32_t event_asked; /* of which of them the data structure is read */
	uint32_t requests, requests_wanted;
	uint32_t event[HR_CTRL_EVENTS], events; /* DW0 of those not yet acted on */
	uint32_t event_read; /* what is there of the first: a log page or the namespace; or 0 */
	bool event_busy;     /* it is being read */
	void *event_data;    /* one page */
	struct hr_bus event_data_bus;
	uint64_t admin_table[(HR_ADMIN_ENTRIES * (sizeof(struct hr_inflight) + 8)) / 8];
};

/*
 * Bring the controller up: disable, wait, AQA/ASQ/ACQ, enable, wait, identify controller.
 * transport stays the caller's. [offset, offset + HR_CTRL_ADMIN_BYTES) of region, page aligned and
 * already mapped, belongs to the controller until hr_ctrl_close().
 * Also -ENOTSUP: the controller cannot do what we need (NVM command set, 4 KiB pages, entries).
 */
int hr_ctrl_open(struct hr_ctrl *ctrl, struct hr_transport *transport,
		 const struct hr_region *region, size_t offset);

/* Orderly shutdown (CC.SHN normal, CSTS.SHST complete), then disable. The struct is dead after. */
int hr_ctrl_close(struct hr_ctrl *ctrl);

/* Disable without shutdown: everything in flight is gone when this returns. */
int hr_ctrl_disable(struct hr_ctrl *ctrl);

#endif

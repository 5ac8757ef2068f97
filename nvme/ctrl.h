/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvme/ctrl.h - one controller: bring-up and shutdown.
 *
 * Spec: NVMe Base 2.0, 3.5 (initialization), 3.6 (shutdown); NVMe over PCIe Transport 1.0, 3.1
 * (registers). Host side only; one thread at a time per controller. Every wait is bounded: register
 * waits by CAP.TO (or CRTO) and one more unit of 500 ms, because some controllers become ready just
 * after it, shutdown by RTD3E, commands by admin_timeout_ns. An admin command that times out ends the
 * admin queue: every later admin command returns -ETIMEDOUT, until hr_ctrl_reset().
 *
 * Errors everywhere: 0; -ENOLINK: a register reads all ones, or VS reads 0: the device is gone;
 * -ETIMEDOUT: CAP.TO or a deadline passed; -EIO: CSTS.CFS; -EPROTO: the controller violated the
 * specification (the text names the rule); > 0: the NVMe status of the command that failed. The
 * function that detects an error fills e; -EINVAL, an error of the caller, has no text.
 */
#ifndef NVME_CTRL_H
#define NVME_CTRL_H

#include <stdbool.h>
#include <stdint.h>

#include "nvme/health.h"
#include "nvme/queue/queue.h"
#include "nvme/dma/region.h"
#include "nvme/smart.h"
#include "nvme/transport/transport.h"

/* Bytes of a mapped region for the admin queues, a page for data and a page for events. */
#define HR_CTRL_ADMIN_BYTES (4u * HR_PAGE)
#define HR_CTRL_EVENTS 4u    /* maximum asynchronous event requests outstanding */
#define HR_CTRL_EVENT_NS 16u /* maximum namespaces in use */
#define HR_CTRL_SMART_NS (60ull * 1000 * 1000 * 1000) /* interval of readings of the health log */

#define HR_SHUTDOWN_TIMEOUT_MIN_NS (1ull * 1000 * 1000 * 1000) /* 3.6.1: when RTD3E is 0 */
#define HR_SHUTDOWN_TIMEOUT_MAX_NS (60ull * 1000 * 1000 * 1000)

#define HR_NQN_BYTES 256u

/* One namespace, from its identify data. An identifier of all zeros is not reported. */
struct hr_ns {
	uint32_t nsid;
	uint32_t lba_shift; /* 9 or 12 */
	uint64_t blocks;    /* NSZE */
	bool read_only;	    /* NSATTR: write protected */
	bool shared;	    /* NMIC: other controllers may reach it */
	uint8_t rescap;	    /* RESCAP: types of reservations that the namespace supports */
	uint8_t eui64[8], nguid[16], uuid[16];
	bool not_unique; /* other disks of this model report the same identifiers (nvme/quirks.h) */
	/* Of its NVM subsystem: SUBNQN and serial number, as reported; it may have several
	 * controllers (CMIC bit 1). */
	char subnqn[HR_NQN_BYTES], serial[21];
	bool shared_subsystem;
};

struct hr_ctrl {
	struct hr_transport *transport;
	uint32_t quirks;    /* enum hr_quirk (nvme/quirks.h) */
	uint64_t cap;	    /* CAP, read before enabling */
	uint32_t vs;	    /* VS */
	uint32_t cc, intms; /* values of CC and INTMS after bring-up */
	uint64_t asq;
	struct hr_health health;      /* of the controller; the words of its ssds join it */
	uint32_t doorbell_step;	      /* bytes between doorbells: 4 << CAP.DSTRD */
	uint32_t max_entries;	      /* CAP.MQES + 1, at most HR_QUEUE_ENTRIES_MAX */
	uint64_t ready_timeout_ns;    /* CAP.TO, CRTO.CRWMT where the controller has it, + 1 unit */
	uint64_t shutdown_timeout_ns; /* RTD3E within HR_SHUTDOWN_TIMEOUT_MIN_NS..MAX_NS */
	uint32_t max_transfer;	      /* maximum bytes of one command: MDTS, at most HR_CHUNK_MAX */
	uint32_t namespaces;	      /* NN */
	uint32_t io_queues; /* granted by Number of Queues; 0 before hr_ctrl_set_queues() */
	uint16_t oncs;
	bool shared_subsystem; /* CMIC bit 1: the NVM subsystem may have several controllers */
	char subnqn[HR_NQN_BYTES];
	bool long_host_id; /* CTRATT.HIDS: accepts a Host Identifier of 128 bits */
	bool has_host_id; /* this machine's Host Identifier is set since CC.EN: nvme/reservation.h */
	uint16_t awupf;	  /* zero-based, in blocks */
	uint16_t
		crdt[4]; /* [1..3]: delays before a repetition, in units of 100 ms; 0: not in use */
	bool volatile_cache; /* VWC present: data is durable only after a flush or with FUA */
	char serial[21], model[41], firmware[9]; /* trailing blanks removed, unprintables as '?' */
	struct hr_nvme_qp admin;
	const struct hr_region *admin_region; /* of the caller of hr_ctrl_open(), with its offset */
	size_t admin_offset;
	uint64_t admin_timeout_ns;
	void *admin_data; /* one page for identify and log pages */
	struct hr_bus admin_data_bus;
	/* nvme/events.c */
	uint8_t aerl;  /* AERL, zero-based: event requests that the controller accepts */
	uint32_t oaes; /* OAES: events that the controller supports */
	bool events_on, events_refused; /* events are enabled; the controller refuses them */
	struct {
		const struct hr_ns *ns; /* a namespace in use; NULL: none */
		bool changed, lost;	/* reported by an event */
	} event_ns[HR_CTRL_EVENT_NS];
	uint32_t event_asked; /* index of the namespace that is being identified */
	uint32_t requests, requests_wanted;
	/* DW0 of events not yet handled; one entry is for a reading of the health log that is due */
	uint32_t event[HR_CTRL_EVENTS + 1], events;
	/* data read for event[0], as enum hr_admin_token: log page or namespace; or 0 */
	uint32_t event_read;
	bool event_busy;       /* that data is being read */
	uint16_t event_status; /* with which the controller has not given that data; 0: it has */
	/* The command for that data, to send it again when the controller was not ready. */
	struct hr_sqe event_sqe;
	uint32_t event_token, event_tries;
	uint64_t event_first_ns; /* time of its first failure */
	uint64_t event_again_ns; /* time of its next attempt; 0: none is due */
	void *event_data;	 /* one page */
	struct hr_bus event_data_bus;
	struct hr_smart smart;	/* the health log as it was read last */
	uint64_t smart_next_ns; /* time of the next reading; 0: at once */
	bool smart_refused;	/* the controller does not give the health log */
	uint64_t admin_table[(HR_ADMIN_ENTRIES * (sizeof(struct hr_nvme_command) + 8)) / 8];
};

/*
 * Bring the controller up: disable, wait, AQA/ASQ/ACQ, enable, wait, identify controller. The
 * caller owns transport. [offset, offset + HR_CTRL_ADMIN_BYTES) of region, page aligned and already
 * mapped, belongs to the controller until hr_ctrl_close(). admin_timeout_ns is the deadline of each
 * admin command. On error the controller is disabled
 * again; when that fails, its health is HR_HEALTH_STUCK and it may write to the region at any time.
 * Also -ENOTSUP: the controller lacks a required feature (NVM command set, 4 KiB pages, queue
 * entries).
 */
int hr_ctrl_open(struct hr_ctrl *ctrl, struct hr_transport *transport,
		 const struct hr_region *region, size_t offset, uint64_t admin_timeout_ns,
		 struct hr_error *e);

/*
 * Reset a controller that is up, and bring it up again over the same memory: only this helps when its
 * admin queue has ended. No command may be in flight. Its I/O queue pairs are gone, and no event is
 * requested; namespaces, reservations and cached data stay. Errors of hr_ctrl_open(); -ESTALE: another
 * serial number. After an error the health is HR_HEALTH_STOPPED or HR_HEALTH_STUCK.
 */
int hr_ctrl_reset(struct hr_ctrl *ctrl, struct hr_error *e);

/*
 * Orderly shutdown (CC.SHN normal, CSTS.SHST complete), then disable. A controller that does not
 * complete its shutdown within its limit is disabled all the same, which is no error: its caller has
 * flushed what it wrote. The health is HR_HEALTH_STOPPED afterwards, or HR_HEALTH_STUCK when
 * disabling fails.
 */
int hr_ctrl_close(struct hr_ctrl *ctrl, struct hr_error *e);

/*
 * Disable without shutdown, and turn bus mastering off. HR_HEALTH_STOPPED: the controller is disabled,
 * or the function is gone (its configuration space does not answer), so it accesses no memory; else
 * HR_HEALTH_STUCK.
 */
int hr_ctrl_disable(struct hr_ctrl *ctrl, struct hr_error *e);

/* ---- the state of a running controller, from its registers. Also used by
 * nvme/ctrl.c. Each fault passes through the controller's health, hr_health_fault(), with e.
 *
 * Spec: NVMe Base 2.0, 3.1.3.6 (CSTS), 3.7.2 (controller level reset); PCIe Transport 1.0, 3.1.1.
 */

#define HR_REG_GONE UINT32_MAX /* value of a read when the device has left the bus */

/* A register reads all ones: HR_FAULT_GONE; returns -ENOLINK. */
int hr_ctrl_fault_gone(struct hr_ctrl *ctrl, const char *reg, struct hr_error *e);

/* True when no device answers: CSTS is all ones, or CSTS and VS are 0. */
bool hr_ctrl_reads_absent(const struct hr_ctrl *ctrl, uint32_t csts);

/* 0, or HR_FAULT_GONE and -ENOLINK when no device answers. */
int hr_ctrl_check_present(struct hr_ctrl *ctrl, uint32_t csts, struct hr_error *e);

/* CSTS.CFS is set: HR_FAULT_FATAL; returns -EIO. */
int hr_ctrl_fault_cfs(struct hr_ctrl *ctrl, uint32_t csts, struct hr_error *e);

/*
 * Call when the controller is ready: its health is up, and its registers are recorded for
 * hr_ctrl_check(). All interrupts are masked (none is used). The mask also marks the controller: a
 * reset clears INTMS (3.7.2), so hr_ctrl_check() detects a controller that was reset and enabled
 * again since the last call.
 */
void hr_ctrl_remember_state(struct hr_ctrl *ctrl);

/*
 * 0 while the controller works and has the state that hr_ctrl_open() has set; -ENOLINK: gone; -EIO:
 * CSTS.CFS; -ECONNRESET: reset, or reset and enabled again, by another process or driver. Cost:
 * three register reads.
 */
int hr_ctrl_check(struct hr_ctrl *ctrl, struct hr_error *e);

/*
 * A command was lost: report the state of the registers, unless hr_ctrl_check() has reported it.
 * Reports nothing when the registers show no failure, and nothing when the device is gone, because
 * hr_ctrl_disable() reports that.
 */
void hr_ctrl_explain(struct hr_ctrl *ctrl, struct hr_error *e);

#endif

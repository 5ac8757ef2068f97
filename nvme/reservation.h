/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvme/reservation.h - keep other hosts and processes from writing to a namespace.
 *
 * Spec: NVMe Base 2.0, 8.19 (reservations), 7.2 to 7.5 (Acquire, Register, Release, Report),
 * 5.27.1.27 (Host Identifier, feature 81h), ONCS bit 5, RESCAP of Identify Namespace.
 *
 * Type: Write Exclusive, or Exclusive Access when RESCAP lacks Write Exclusive. Only the holder can
 * write; the "Registrants Only" types would let every registered host write.
 *
 * Host Identifier and key are derived from the machine (/etc/machine-id; else the kernel's
 * boot_id). So a machine takes its own reservation back after a crash, through any controller. The
 * controller therefore sees the processes of one machine as one host; a lock named after the
 * namespace keeps them apart (config/base/lock.h). It covers the processes of one user that
 * have the same folder /run.
 *
 * The reservation does not persist through a loss of power (CPTPL 10b): no host writes to a disk
 * that has just been switched on, and a disk that moves to another machine is not locked.
 */
#ifndef NVME_RESERVATION_H
#define NVME_RESERVATION_H

#include <stdbool.h>
#include <stdint.h>

#include "nvme/blk.h"

/* Identity of a host. */
struct hr_resv_host {
	/* Host Identifier; a controller without CTRATT.HIDS stores its first 8 bytes */
	uint8_t id[16];
	uint64_t key; /* never 0 */
};

/* The reservation as Reservation Report shows it. */
struct hr_resv_holder {
	uint8_t type; /* RTYPE; 0: no reservation */
	uint64_t key;
	uint8_t id[16];
	uint8_t id_bytes; /* 8 or 16 */
};

struct hr_reservation {
	bool held;
	uint8_t type; /* RTYPE */
	uint64_t key;
	int lock; /* descriptor, valid when held */
};

/* The identity of this machine. Never fails: without machine-id and boot_id the numbers are
 * random. */
void hr_resv_self(struct hr_resv_host *self);

/* True when the controller and the namespace support a type of reservation that hr_resv_acquire()
 * uses. */
bool hr_resv_supported(const struct hr_nvme_blk *disk);

/*
 * Take the namespace of disk for this host: machine lock, Host Identifier, Register, Acquire. A
 * reservation or registration of the same Host Identifier with any key is taken over. When
 * hr_resv_supported() is false, this sends nothing and returns 0, with r->held false.
 *
 * 0; -EBUSY: another host holds it (*holder), or another process or controller of this machine
 * (holder->type 0); nothing is changed then, and e is not filled. > 0: status of the command that
 * failed; -errno: as hr_nvme_blk_command().
 */
int hr_resv_acquire(struct hr_reservation *r, struct hr_nvme_blk *disk,
		    const struct hr_resv_host *self, struct hr_resv_holder *holder,
		    struct hr_error *e);

/* After a reset of the controller, which has forgotten the Host Identifier: take a reservation that is
 * held again, without the lock. As hr_resv_acquire(). */
int hr_resv_renew(struct hr_reservation *r, struct hr_nvme_blk *disk,
		  const struct hr_resv_host *self, struct hr_resv_holder *holder,
		  struct hr_error *e);

/*
 * Release the reservation and unregister. Does nothing when it is not held. When another host has
 * taken the reservation meanwhile, it stays, and a warning names its key. send: false when no
 * command can be sent any more; then only the machine lock is released, and the next hr_resv_acquire()
 * takes the reservation back.
 */
void hr_resv_release(struct hr_reservation *r, struct hr_nvme_blk *disk, bool send,
		     struct hr_error *e);

/*
 * Remove the reservation of any holder, because the administrator requests it, and leave the
 * namespace without one. *holder: the former reservation; type 0: there was none, and nothing is
 * changed. Errors as hr_resv_acquire(); -ENOTSUP: no reservations, which does not fill e.
 */
int hr_resv_clear(struct hr_nvme_blk *disk, const struct hr_resv_host *self,
		  struct hr_resv_holder *holder, struct hr_error *e);

/* Name of an RTYPE, such as "Write Exclusive". Static text. */
const char *hr_resv_type_name(uint8_t type);

/* "Write Exclusive reservation of key 0x..., host 0a1b..." in text. Returns text. */
#define HR_RESV_TEXT 128u
const char *hr_resv_text(const struct hr_resv_holder *holder, char text[HR_RESV_TEXT]);

/*
 * Find the holder in a Reservation Status data structure (Base 2.0, 7.5, figures 408 to 410) of
 * `bytes`; extended: its entries have Host Identifiers of 128 bits. For the All Registrants types,
 * *holder is the first registrant other than `self`. *mine: host `self` is registered. The data is
 * untrusted: nothing outside of `bytes` is read. 0; -EPROTO: the holder is not in the list.
 */
int hr_resv_parse(const uint8_t *report, uint32_t bytes, bool extended, const uint8_t self[16],
		  struct hr_resv_holder *holder, bool *mine);

#endif

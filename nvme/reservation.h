/*
 * nvme/reservation.h - keep other hosts and processes from writing to a namespace.
 *
 * Spec: NVMe Base 2.0, 8.19 (reservations), 7.2 to 7.5 (Acquire, Register, Release, Report),
 * 5.27.1.27 (Host Identifier, feature 81h), ONCS bit 5, RESCAP of Identify Namespace.
 *
 * Type: Write Exclusive, or Exclusive Access where RESCAP has no Write Exclusive. Only the holder
 * writes; the "Registrants Only" types would let each host write that has registered a key.
 *
 * Host Identifier and key follow from the machine (/etc/machine-id; else the kernel's boot_id), so
 * that a machine takes its own reservation back after a crash, by whatever controller. Processes of
 * one machine therefore look like one host to the controller; a lock of the machine, an abstract Unix
 * socket named after the namespace, keeps them apart. It covers one network namespace of the kernel.
 *
 * The reservation does not persist through a loss of power (CPTPL 10b): nothing writes to a disk that
 * has just been switched on, and a disk that moves to another machine is not locked.
 */
#ifndef NVME_RESERVATION_H
#define NVME_RESERVATION_H

#include <stdbool.h>
#include <stdint.h>

#include "nvme/blk.h"

/* How a host names itself. */
struct hr_resv_host {
	uint8_t id
		[16]; /* Host Identifier; a controller without CTRATT.HIDS has its first 8 bytes */
	uint64_t key; /* never 0 */
};

/* The reservation as Reservation Report has it. */
struct hr_resv_holder {
	uint8_t type; /* RTYPE; 0: there is none */
	uint64_t key;
	uint8_t id[16];
	uint8_t id_bytes; /* 8 or 16 */
};

struct hr_reservation {
	bool held;
	uint8_t type; /* RTYPE */
	uint64_t key;
	int lock; /* socket, valid when held */
};

/* This machine. Always succeeds: without machine-id and boot_id the numbers are random. */
void hr_resv_self(struct hr_resv_host *self);

/* Whether the controller and the namespace have reservations of a type that hr_resv_take() uses. */
bool hr_resv_supported(const struct hr_nvme_blk *disk);

/*
 * Take the namespace of disk for this host: machine lock, Host Identifier, Register, Acquire. A
 * reservation or registration of the same Host Identifier is taken back, whatever its key. Sends
 * nothing and returns 0, with r->held false, when hr_resv_supported() says no.
 *
 * 0; -EBUSY: another host holds it (*holder), or another process or controller of this machine
 * (holder->type 0); nothing is changed then. > 0: status of the command that failed, -errno: as
 * hr_nvme_blk_command(); these are logged.
 */
int hr_resv_take(struct hr_reservation *r, struct hr_nvme_blk *disk,
		 const struct hr_resv_host *self, struct hr_resv_holder *holder);

/*
 * Release it, and unregister. Nothing when it is not held. A reservation that another host has taken
 * meanwhile is a warning with its key, and stays. send: false when no command can be sent any more;
 * then only the lock of the machine is released, and the next hr_resv_take() takes it back.
 */
void hr_resv_release(struct hr_reservation *r, struct hr_nvme_blk *disk, bool send);

/*
 * An operator's order: take the reservation away from its holder, and leave the namespace without
 * one. *holder: which it was; type 0: there was none, and nothing is changed. Errors as
 * hr_resv_take(); -ENOTSUP: no reservations.
 */
int hr_resv_clear(struct hr_nvme_blk *disk, const struct hr_resv_host *self,
		  struct hr_resv_holder *holder);

/* "Write Exclusive" and so on. Static text. */
const char *hr_resv_type_name(uint8_t type);

/* "Write Exclusive reservation of key 0x..., host identifier 0a1b..." in text, which is returned. */
#define HR_RESV_TEXT 128u
const char *hr_resv_text(const struct hr_resv_holder *holder, char text[HR_RESV_TEXT]);

/*
 * The holder out of a Reservation Status data structure (Base 2.0, 7.5, figures 408 to 410) of `bytes`;
 * extended: its entries have Host Identifiers of 128 bits. For a type of all registrants, the first
 * that is not `self`. *mine: host `self` is registered. Whatever the controller has written, nothing
 * is read outside of `bytes`. 0; -EPROTO: a holder is named that is not in the list.
 */
int hr_resv_parse(const uint8_t *report, uint32_t bytes, bool extended, const uint8_t self[16],
		  struct hr_resv_holder *holder, bool *mine);

#endif

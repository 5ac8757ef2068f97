/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reservations (Base 2.0, 8.19; 7.2 to 7.5). Their state belongs to the namespaces. All controllers
 * of one image in this process share it, identified by the file. It ends with the last controller,
 * as after a loss of power (PTPL 0).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "config/base/bytes.h"

#include "nvme/soft/internal.h"

#define REGISTRANTS 16u
#define CONFLICT (NVME_SC_RESERVATION_CONFLICT | SOFT_DNR)
#define INVALID (NVME_SC_INVALID_FIELD | SOFT_DNR)
#define IEKEY(sqe) ((sqe)->cdw10 >> 3 & 1)
#define ACTION(sqe) ((sqe)->cdw10 & 7)
#define RTYPE(sqe) ((sqe)->cdw10 >> 8 & 0xff)
#define EXTENDED 1u
#define HOST_ID_INCONSISTENT 0x18u	/* Host Identifier Inconsistent Format */
#define FOREIGN_KEY 0x666f726569676eull /* "foreign" in ASCII */

struct registrant {
	bool used;
	uint8_t id[16];
	/* without a Host Identifier each controller is a host of its own */
	const struct soft *zero;
	uint64_t key;
};

struct reservations { /* state of one namespace */
	uint32_t generation;
	uint8_t type; /* 0: no reservation */
	uint32_t holder;
	struct registrant registrant[REGISTRANTS];
};

struct soft_reservations {
	pthread_mutex_t lock;
	struct soft_reservations *next;
	dev_t dev;
	ino_t ino;
	bool is_file;
	uint32_t users; /* number of controllers */
	struct reservations of[HR_SOFT_NAMESPACES_MAX];
};

static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER;
static struct soft_reservations *all;

/* ---- state of a namespace */

static void hold_by_another(struct reservations *r)
{
	r->registrant[0] = (struct registrant){ .used = true, .key = FOREIGN_KEY };
	memset(r->registrant[0].id, 0xfe, sizeof(r->registrant[0].id));
	r->type = NVME_RESERVATION_RTYPE_WE;
}

static struct soft_reservations *find_reservations(const struct stat *st)
{
	struct soft_reservations *r = all;

	while (r && !(r->is_file && r->dev == st->st_dev && r->ino == st->st_ino))
		r = r->next;
	return r;
}

int soft_reservations_open(struct soft *soft)
{
	const bool is_file = soft->media.fd >= 0;
	struct soft_reservations *r;
	struct stat st = { 0 };

	if (!soft->options.reservations)
		return 0;
	if (is_file && fstat(soft->media.fd, &st) != 0)
		return -errno;
	hr_mutex_lock(&all_lock);
	r = is_file ? find_reservations(&st) : NULL;
	if (!r) {
		r = calloc(1, sizeof(*r));
		if (!r) {
			pthread_mutex_unlock(&all_lock);
			return -ENOMEM;
		}
		pthread_mutex_init(&r->lock, NULL);
		r->is_file = is_file;
		r->dev = st.st_dev;
		r->ino = st.st_ino;
		r->next = all;
		all = r;
		for (uint32_t i = 0; i < HR_SOFT_NAMESPACES_MAX; i++)
			if (soft->options.reservations == HR_SOFT_RESERVED)
				hold_by_another(&r->of[i]);
	}
	r->users++;
	pthread_mutex_unlock(&all_lock);
	soft->reservations = r;
	return 0;
}

static void end_registration(struct reservations *r, uint32_t i);

static void end_registrations(struct reservations *r, const struct soft *zero)
{
	for (uint32_t i = 0; i < REGISTRANTS; i++)
		if (r->registrant[i].used && r->registrant[i].zero == zero)
			end_registration(r, i);
}

/* Base 2.0, 5.27.1.27: a reset ends the registrations of a host without an identifier. */
void soft_reservations_reset(struct soft *soft)
{
	struct soft_reservations *r = soft->reservations;

	memset(soft->host_id, 0, sizeof(soft->host_id));
	soft->long_host_id = false;
	if (!r)
		return;
	hr_mutex_lock(&r->lock);
	for (uint32_t i = 0; i < HR_SOFT_NAMESPACES_MAX; i++)
		end_registrations(&r->of[i], soft);
	pthread_mutex_unlock(&r->lock);
}

void soft_reservations_close(struct soft *soft)
{
	struct soft_reservations *r = soft->reservations, **at = &all;

	if (!r)
		return;
	soft_reservations_reset(soft);
	hr_mutex_lock(&all_lock);
	if (--r->users == 0) {
		while (*at != r)
			at = &(*at)->next;
		*at = r->next;
		pthread_mutex_destroy(&r->lock);
		free(r);
	}
	pthread_mutex_unlock(&all_lock);
	soft->reservations = NULL;
}

/* ---- registrants of a namespace, under the lock of soft_reservations */

static bool is_of_all(const struct reservations *r)
{
	return r->type == NVME_RESERVATION_RTYPE_WEAR || r->type == NVME_RESERVATION_RTYPE_EAAR;
}

/* Index of the registrant of this controller's host, or REGISTRANTS. */
static uint32_t self(const struct soft *soft, const struct reservations *r)
{
	const struct soft *zero = hr_is_zero(soft->host_id, sizeof(soft->host_id)) ? soft : NULL;
	uint32_t i = 0;

	while (i < REGISTRANTS &&
	       !(r->registrant[i].used && r->registrant[i].zero == zero &&
		 memcmp(r->registrant[i].id, soft->host_id, sizeof(soft->host_id)) == 0))
		i++;
	return i;
}

static uint32_t registrants(const struct reservations *r)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < REGISTRANTS; i++)
		count += r->registrant[i].used;
	return count;
}

static bool holds(const struct reservations *r, uint32_t i)
{
	return r->type && r->registrant[i].used && (is_of_all(r) || r->holder == i);
}

static void end_registration(struct reservations *r, uint32_t i)
{
	if (holds(r, i) && (!is_of_all(r) || registrants(r) == 1))
		r->type = 0;
	r->registrant[i].used = false;
	r->generation++;
}

/* True for a registrant with its current key. */
static bool is_allowed(const struct reservations *r, uint32_t i, uint64_t key)
{
	return i < REGISTRANTS && r->registrant[i].key == key;
}

static uint16_t enroll(struct soft *soft, struct reservations *r, uint64_t key)
{
	uint32_t i = self(soft, r);

	if (i < REGISTRANTS)
		return r->registrant[i].key == key ? 0 : CONFLICT;
	for (i = 0; i < REGISTRANTS && r->registrant[i].used;)
		i++;
	if (i == REGISTRANTS)
		return NVME_SC_INTERNAL | SOFT_DNR;
	r->registrant[i] = (struct registrant){ .used = true, .key = key };
	r->registrant[i].zero = hr_is_zero(soft->host_id, sizeof(soft->host_id)) ? soft : NULL;
	memcpy(r->registrant[i].id, soft->host_id, sizeof(soft->host_id));
	r->generation++;
	return 0;
}

static uint16_t do_register(struct soft *soft, struct reservations *r, const struct hr_sqe *sqe,
			    const uint64_t key[2])
{
	const uint32_t i = self(soft, r), ptpl = sqe->cdw10 >> 30, action = ACTION(sqe);
	const bool allowed = i < REGISTRANTS && (IEKEY(sqe) || r->registrant[i].key == key[0]);

	if (ptpl == 1 || ptpl == NVME_RESERVATION_CPTPL_PERSIST || /* RESCAP: no PTPL */
	    action > NVME_RESERVATION_RREGA_REPLACE_KEY)
		return INVALID;
	if (action != NVME_RESERVATION_RREGA_UNREGISTER_KEY && !key[1])
		return INVALID;
	if (action == NVME_RESERVATION_RREGA_REGISTER_KEY)
		return enroll(soft, r, key[1]);
	if (!allowed)
		return CONFLICT;
	if (action == NVME_RESERVATION_RREGA_UNREGISTER_KEY) {
		end_registration(r, i);
	} else {
		r->registrant[i].key = key[1];
		r->generation++;
	}
	return 0;
}

/* Remove all registrants with that key except one. Returns their number. */
static uint32_t evict(struct reservations *r, uint64_t key, bool any, uint32_t but)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < REGISTRANTS; i++) {
		if (!r->registrant[i].used || (!any && r->registrant[i].key != key))
			continue;
		count++;
		if (i != but)
			end_registration(r, i);
	}
	return count;
}

/* Base 2.0, 8.19.7 */
static uint16_t preempt(struct reservations *r, uint32_t me, uint64_t victim, uint8_t type)
{
	const bool all_of = is_of_all(r) && victim == 0;
	const bool holder = r->type && !is_of_all(r) && r->registrant[r->holder].key == victim;

	if (!victim && !all_of)
		return INVALID;
	if (evict(r, victim, all_of, me) == 0)
		return CONFLICT;
	if (holder || all_of) {
		r->type = type;
		r->holder = me;
		r->generation++;
	}
	return 0;
}

static uint16_t acquire(struct soft *soft, struct reservations *r, const struct hr_sqe *sqe,
			const uint64_t key[2])
{
	const uint32_t i = self(soft, r), type = RTYPE(sqe);

	if (IEKEY(sqe) || !type || type > NVME_RESERVATION_RTYPE_EAAR ||
	    ACTION(sqe) > NVME_RESERVATION_RACQA_PREEMPT_AND_ABORT)
		return INVALID;
	if (!is_allowed(r, i, key[0]))
		return CONFLICT;
	if (ACTION(sqe) != NVME_RESERVATION_RACQA_ACQUIRE)
		return preempt(r, i, key[1], (uint8_t)type);
	if (r->type)
		return holds(r, i) && r->type == type ? 0 : CONFLICT;
	r->type = (uint8_t)type;
	r->holder = i;
	return 0;
}

static uint16_t soft_release(struct soft *soft, struct reservations *r, const struct hr_sqe *sqe,
			     uint64_t key)
{
	const uint32_t i = self(soft, r);

	if (IEKEY(sqe) || ACTION(sqe) > NVME_RESERVATION_RRELA_CLEAR)
		return INVALID;
	if (!is_allowed(r, i, key))
		return CONFLICT;
	if (ACTION(sqe) == NVME_RESERVATION_RRELA_CLEAR) {
		(void)evict(r, 0, true, REGISTRANTS);
		r->type = 0;
		return 0;
	}
	if (!holds(r, i))
		return 0;
	if (r->type != RTYPE(sqe))
		return INVALID;
	r->type = 0;
	return 0;
}

/* ---- commands. soft_io() has checked the NSID. */

static struct reservations *of_namespace(const struct soft *soft, const struct hr_sqe *sqe)
{
	return &soft->reservations->of[sqe->nsid - 1];
}

static uint16_t with_keys(struct soft_poller *p, struct soft_sq *sq, const struct hr_sqe *sqe)
{
	const size_t bytes = sqe->opcode == nvme_cmd_resv_release ? 8 : 16;
	struct soft *soft = p->soft;
	struct reservations *r = of_namespace(soft, sqe);
	uint64_t key[2] = { 0, 0 };
	struct iovec vec[2];
	unsigned pieces;
	uint16_t status = soft_prp(soft, &sq->hint, sqe, bytes, vec, 2, &pieces);

	if (status)
		return (uint16_t)(status | SOFT_DNR);
	soft_gather(key, vec, pieces);
	hr_mutex_lock(&soft->reservations->lock);
	if (sqe->opcode == nvme_cmd_resv_register)
		status = do_register(soft, r, sqe, key);
	else if (sqe->opcode == nvme_cmd_resv_acquire)
		status = acquire(soft, r, sqe, key);
	else
		status = soft_release(soft, r, sqe, key[0]);
	pthread_mutex_unlock(&soft->reservations->lock);
	return status;
}

static void describe_reservations(const struct reservations *r, bool extended, uint8_t *data)
{
	const uint32_t each = extended ? sizeof(struct nvme_registered_ctrl_ext)
				       : sizeof(struct nvme_registered_ctrl);
	uint8_t *at = data + each; /* the header has the same length */

	memcpy(data, &r->generation, sizeof(r->generation));
	data[4] = r->type;
	data[5] = (uint8_t)registrants(r);
	for (uint32_t i = 0; i < REGISTRANTS; i++) {
		const struct registrant *e = &r->registrant[i];

		if (!e->used)
			continue;
		at[offsetof(struct nvme_registered_ctrl, rcsts)] = holds(r, i);
		memcpy(at + (extended ? offsetof(struct nvme_registered_ctrl_ext, rkey)
				      : offsetof(struct nvme_registered_ctrl, rkey)),
		       &e->key, sizeof(e->key));
		memcpy(at + (extended ? offsetof(struct nvme_registered_ctrl_ext, hostid)
				      : offsetof(struct nvme_registered_ctrl, hostid)),
		       e->id, extended ? 16 : 8);
		at += each;
	}
}

static uint16_t soft_report(struct soft_poller *p, struct soft_sq *sq, const struct hr_sqe *sqe)
{
	const uint64_t bytes = ((uint64_t)sqe->cdw10 + 1) * 4;
	const bool extended = sqe->cdw11 & EXTENDED;
	struct soft *soft = p->soft;
	uint8_t data[HR_PAGE] = { 0 };
	const uint8_t *from = data;
	unsigned pieces;
	uint16_t status;

	if (extended != soft->long_host_id && !hr_is_zero(soft->host_id, sizeof(soft->host_id)))
		return HOST_ID_INCONSISTENT | SOFT_DNR;
	if (bytes > sizeof(data))
		return INVALID;
	status = soft_prp(soft, &sq->hint, sqe, bytes, p->vec, soft->vec_max, &pieces);
	if (status)
		return (uint16_t)(status | SOFT_DNR);
	hr_mutex_lock(&soft->reservations->lock);
	describe_reservations(of_namespace(soft, sqe), extended, data);
	pthread_mutex_unlock(&soft->reservations->lock);
	for (unsigned i = 0; i < pieces; i++) {
		memcpy(p->vec[i].iov_base, from, p->vec[i].iov_len);
		from += p->vec[i].iov_len;
	}
	return 0;
}

uint16_t soft_reservation_io(struct soft_poller *p, struct soft_sq *sq, const struct hr_sqe *sqe)
{
	if (!p->soft->reservations)
		return NVME_SC_INVALID_OPCODE | SOFT_DNR;
	return sqe->opcode == nvme_cmd_resv_report ? soft_report(p, sq, sqe)
						   : with_keys(p, sq, sqe);
}

/* Figure "Command Behavior in the Presence of a Reservation". A flush counts as a write. */
static bool refuses(const struct soft *soft, const struct reservations *r, bool is_read)
{
	const uint32_t i = self(soft, r);

	switch (r->type) {
	case 0:
		return false;
	case NVME_RESERVATION_RTYPE_WE:
		return !is_read && i != r->holder;
	case NVME_RESERVATION_RTYPE_EA:
		return i != r->holder;
	case NVME_RESERVATION_RTYPE_WERO:
	case NVME_RESERVATION_RTYPE_WEAR:
		return !is_read && i == REGISTRANTS;
	default:
		return i == REGISTRANTS;
	}
}

bool soft_reservation_refuses(struct soft *soft, const struct hr_sqe *sqe)
{
	struct soft_reservations *all_of = soft->reservations;
	const bool each = sqe->nsid == NVME_NSID_ALL; /* flush of all namespaces */
	bool refused = false;

	if (!all_of)
		return false;
	hr_mutex_lock(&all_of->lock);
	for (uint32_t i = 0; i < soft->namespaces; i++)
		if (each || sqe->nsid == i + 1)
			refused |= refuses(soft, &all_of->of[i],
					   sqe->opcode == nvme_cmd_read ||
						   sqe->opcode == nvme_cmd_compare);
	pthread_mutex_unlock(&all_of->lock);
	return refused;
}

/* ---- Host Identifier (5.27.1.27) */

uint16_t soft_set_host_id(struct soft *soft, const struct hr_sqe *sqe)
{
	const struct soft_window *hint = soft->window;
	const bool wide = sqe->cdw11 & EXTENDED;
	uint8_t id[16] = { 0 };
	struct iovec vec[2];
	unsigned pieces;
	const uint16_t status = soft_prp(soft, &hint, sqe, wide ? 16 : 8, vec, 2, &pieces);

	if (status)
		return (uint16_t)(status | SOFT_DNR);
	soft_gather(id, vec, pieces);
	/* I/O pollers read it */
	hr_mutex_lock(&soft->reservations->lock);
	memcpy(soft->host_id, id, sizeof(id));
	soft->long_host_id = wide;
	pthread_mutex_unlock(&soft->reservations->lock);
	return 0;
}

uint16_t soft_get_host_id(struct soft *soft, const struct hr_sqe *sqe, bool current)
{
	static const uint8_t none[16];

	return soft_copy_out(soft, sqe, current ? soft->host_id : none,
			     sqe->cdw11 & EXTENDED ? 16 : 8);
}

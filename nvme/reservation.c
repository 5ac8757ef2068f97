/* SPDX-License-Identifier: Apache-2.0 */
#include "nvme/reservation.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "config/base/bytes.h"
#include "config/base/lock.h"
#include "config/base/log.h"
#include "config/base/seam.h"
#include "nvme/admin.h"
#include "nvme/identify.h"
#include "nvme/queue/status.h"

#define IEKEY (1u << 3)
#define CPTPL_SHIFT 30
#define RTYPE_SHIFT 8
#define EXTENDED 1u /* EXHID of Host Identifier, EDS of Reservation Report */
#define RCSTS_HOLDER 1u
#define ALL_REGISTRANTS(type) ((type) == 5 || (type) == 6)

/* ---- this machine */

static bool read_text(const char *file, char *text, size_t bytes)
{
	FILE *f = fopen(file, "re");
	const bool good = f && fgets(text, (int)bytes, f) && text[0] > ' ';

	if (f)
		fclose(f);
	return good;
}

/* FNV-1a with a final mix, so that the machine-id itself is not written to disks. */
static uint64_t hash_host_key(const char *salt, const char *text)
{
	uint64_t h = hr_hash(HR_HASH_BEGIN, salt, strlen(salt));

	h = hr_hash(h, text, strlen(text));
	h = (h ^ h >> 30) * 0xbf58476d1ce4e5b9ull;
	h = (h ^ h >> 27) * 0x94d049bb133111ebull;
	return (h ^ h >> 31) | 1; /* never 0 */
}

void hr_resv_self(struct hr_resv_host *self)
{
	char text[64] = "";
	uint64_t half[2], random = 0;

	if (!read_text("/etc/machine-id", text, sizeof(text)) &&
	    !read_text("/proc/sys/kernel/random/boot_id", text, sizeof(text))) {
		if (hr_random(&random, sizeof(random)) != 0)
			random = (uint64_t)getpid();
		snprintf(text, sizeof(text), "%016" PRIx64, random);
	}
	half[0] = hash_host_key("headrace host identifier", text);
	half[1] = hash_host_key("headrace host identifier, second half", text);
	memcpy(self->id, half, sizeof(half));
	self->key = hash_host_key("headrace reservation key", text);
}

/* The lock is named after the namespace. */
static void name_lock(const struct hr_nvme_blk *disk, char name[HR_LOCK_NAME])
{
	static const uint8_t none[16];
	const struct hr_ns *ns = &disk->ns;
	const bool nguid = memcmp(ns->nguid, none, 16) != 0, uuid = memcmp(ns->uuid, none, 16) != 0;
	const uint8_t *id = nguid ? ns->nguid : uuid ? ns->uuid : ns->eui64;
	const unsigned bytes = nguid || uuid ? 16 : 8;
	int at = snprintf(name, HR_LOCK_NAME, "ns-%u-", ns->nsid);

	for (unsigned i = 0; i < bytes; i++)
		at += snprintf(name + at, HR_LOCK_NAME - (unsigned)at, "%02x", id[i]);
	/* the namespace has no identifier, or perhaps one that other disks have, too */
	if ((bytes == 8 && !memcmp(id, none, 8)) || ns->not_unique || !hr_ns_can_share(ns))
		snprintf(name + at, HR_LOCK_NAME - (unsigned)at, "-%s", disk->ctrl->serial);
}

/* Returns the descriptor of the lock. */
static int lock(const struct hr_nvme_blk *disk, struct hr_error *e)
{
	char name[HR_LOCK_NAME];
	int fd;

	name_lock(disk, name);
	fd = hr_lock(name, e);
	if (fd < 0 && fd != -EBUSY)
		hr_error_context(e, "%s: namespace %u: lock of this machine", disk->blk.name,
				 disk->ns.nsid);
	return fd;
}

/* ---- commands */

/* Returns err. A status fills e; another error has filled it. */
static int fail_reservation(const struct hr_nvme_blk *disk, const char *what, int err,
			    struct hr_error *e)
{
	char name[96];

	if (err > 0)
		hr_fail(e, HR_ERROR_DEVICE, err, "%s: namespace %u: %s: %s (%03x)", disk->blk.name,
			disk->ns.nsid, what, hr_error_name(err, name, sizeof(name)), (unsigned)err);
	return err;
}

/*
 * A controller that refuses Set Features may already have that identifier: some controllers do not
 * accept one twice between resets.
 */
static int send_host_id(const struct hr_nvme_blk *disk, const uint8_t id[16], struct hr_error *e)
{
	struct hr_ctrl *ctrl = disk->ctrl;
	const size_t bytes = ctrl->long_host_id ? 16 : 8;
	struct hr_sqe sqe = {
		.opcode = nvme_admin_set_features,
		.prp1 = ctrl->admin_data_bus.addr,
		.cdw10 = NVME_FEAT_FID_HOST_ID,
		.cdw11 = ctrl->long_host_id ? EXTENDED : 0,
	};
	int err, refused;

	memset(ctrl->admin_data, 0, HR_PAGE);
	memcpy(ctrl->admin_data, id, bytes);
	refused = hr_admin(ctrl, &sqe, NULL, e);
	if (refused <= 0)
		return refused;
	memset(ctrl->admin_data, 0, HR_PAGE);
	sqe.opcode = nvme_admin_get_features;
	err = hr_admin(ctrl, &sqe, NULL, e);
	if (err < 0)
		return err;
	if (err == 0 && memcmp(ctrl->admin_data, id, bytes) == 0)
		return 0;
	return fail_reservation(disk, "set features, Host Identifier", refused, e);
}

/* Set once for all namespaces of a controller: a controller with registrations may refuse
 * another identifier. */
static int set_host_id(const struct hr_nvme_blk *disk, const uint8_t id[16], struct hr_error *e)
{
	int err;

	if (disk->ctrl->has_host_id)
		return 0;
	err = send_host_id(disk, id, e);
	disk->ctrl->has_host_id = err == 0;
	return err;
}

static int read_reservation_report(struct hr_nvme_blk *disk, const uint8_t self[16],
				   struct hr_resv_holder *holder, bool *mine, struct hr_error *e)
{
	static const uint32_t dwords = HR_BLK_COMMAND_MAX / 4;
	const bool extended = disk->ctrl->long_host_id;
	const struct hr_sqe sqe = { .opcode = nvme_cmd_resv_report,
				    .cdw10 = dwords - 1,
				    .cdw11 = extended ? EXTENDED : 0 };
	uint8_t data[HR_BLK_COMMAND_MAX] = { 0 };
	int err = hr_nvme_blk_command(disk, &sqe, data, sizeof(data), true, e);

	if (err)
		return fail_reservation(disk, "reservation report", err, e);
	err = hr_resv_parse(data, sizeof(data), extended, self, holder, mine);
	if (err)
		hr_fail(e, HR_ERROR_DEVICE, err,
			"%s: namespace %u: reservation report: type %u and no holder in the list",
			disk->blk.name, disk->ns.nsid, data[4]);
	return err;
}

/* Register, Acquire and Release carry one or two keys. */
static int send_keys(struct hr_nvme_blk *disk, uint8_t opcode, uint32_t cdw10, uint64_t first,
		     uint64_t second, struct hr_error *e)
{
	const struct hr_sqe sqe = { .opcode = opcode, .cdw10 = cdw10 };
	uint64_t key[2] = { first, second };

	return hr_nvme_blk_command(disk, &sqe, key,
				   opcode == nvme_cmd_resv_release ? sizeof(key[0]) : sizeof(key),
				   false, e);
}

static int enroll(struct hr_nvme_blk *disk, uint64_t key, bool again, struct hr_error *e)
{
	const uint32_t action = again ? NVME_RESERVATION_RREGA_REPLACE_KEY | IEKEY
				      : NVME_RESERVATION_RREGA_REGISTER_KEY;

	return send_keys(disk, nvme_cmd_resv_register,
			 action | (uint32_t)NVME_RESERVATION_CPTPL_CLEAR << CPTPL_SHIFT, 0, key, e);
}

static int unregister_key(struct hr_nvme_blk *disk, uint64_t key, struct hr_error *e)
{
	return send_keys(disk, nvme_cmd_resv_register, NVME_RESERVATION_RREGA_UNREGISTER_KEY, key,
			 0, e);
}

static int acquire(struct hr_nvme_blk *disk, uint8_t type, uint64_t key, struct hr_error *e)
{
	return send_keys(disk, nvme_cmd_resv_acquire,
			 NVME_RESERVATION_RACQA_ACQUIRE | (uint32_t)type << RTYPE_SHIFT, key, 0, e);
}

static int release_reservation(struct hr_nvme_blk *disk, uint8_t type, uint64_t key,
			       struct hr_error *e)
{
	return send_keys(disk, nvme_cmd_resv_release,
			 NVME_RESERVATION_RRELA_RELEASE | (uint32_t)type << RTYPE_SHIFT, key, 0, e);
}

/* ---- contents of a report */

struct entry {
	uint8_t status;
	uint64_t key;
	uint8_t id[16];
};

static struct entry entry_at(const uint8_t *at, bool extended)
{
	const struct nvme_registered_ctrl_ext *wide = (const void *)at;
	const struct nvme_registered_ctrl *narrow = (const void *)at;
	struct entry e = { .status = at[offsetof(struct nvme_registered_ctrl, rcsts)] };

	if (extended) {
		memcpy(&e.key, &wide->rkey, sizeof(e.key));
		memcpy(e.id, wide->hostid, sizeof(wide->hostid));
	} else {
		memcpy(&e.key, &narrow->rkey, sizeof(e.key));
		memcpy(e.id, &narrow->hostid, sizeof(narrow->hostid));
	}
	return e;
}

int hr_resv_parse(const uint8_t *report, uint32_t bytes, bool extended, const uint8_t self[16],
		  struct hr_resv_holder *holder, bool *mine)
{
	const uint32_t head = extended ? 64 : 24, each = head;
	const uint8_t id_bytes = extended ? 16 : 8;
	const uint32_t count = report[5] | (uint32_t)report[6] << 8;
	bool found = false;

	memset(holder, 0, sizeof(*holder));
	*mine = false;
	for (uint32_t i = 0; i < count && head + (i + 1) * each <= bytes; i++) {
		const struct entry e = entry_at(report + head + i * each, extended);
		const bool own = memcmp(e.id, self, id_bytes) == 0;

		*mine |= own;
		if (!report[4] || (!ALL_REGISTRANTS(report[4]) && !(e.status & RCSTS_HOLDER)))
			continue;
		if (found && (own || memcmp(holder->id, self, id_bytes) != 0))
			continue;
		*holder = (struct hr_resv_holder){ report[4], e.key, { 0 }, id_bytes };
		memcpy(holder->id, e.id, id_bytes);
		found = true;
	}
	return report[4] && !found ? -EPROTO : 0;
}

const char *hr_resv_type_name(uint8_t type)
{
	static const char *const name[] = { "no",
					    "Write Exclusive",
					    "Exclusive Access",
					    "Write Exclusive - Registrants Only",
					    "Exclusive Access - Registrants Only",
					    "Write Exclusive - All Registrants",
					    "Exclusive Access - All Registrants" };

	return type < sizeof(name) / sizeof(name[0]) ? name[type] : "unknown";
}

const char *hr_resv_text(const struct hr_resv_holder *holder, char text[HR_RESV_TEXT])
{
	int n = snprintf(text, HR_RESV_TEXT, "%s reservation of key 0x%016" PRIx64 ", host ",
			 hr_resv_type_name(holder->type), holder->key);

	for (unsigned i = 0; i < holder->id_bytes && n > 0 && (unsigned)n < HR_RESV_TEXT; i++)
		n += snprintf(text + n, HR_RESV_TEXT - (unsigned)n, "%02x", holder->id[i]);
	return text;
}

/* ---- take, release, clear */

static uint8_t type_of(const struct hr_ns *ns)
{
	if (ns->rescap & NVME_NS_RESCAP_WE)
		return NVME_RESERVATION_RTYPE_WE;
	return ns->rescap & NVME_NS_RESCAP_EA ? NVME_RESERVATION_RTYPE_EA : 0;
}

bool hr_resv_supported(const struct hr_nvme_blk *disk)
{
	return disk->ctrl->oncs & NVME_CTRL_ONCS_RESERVATIONS && type_of(&disk->ns);
}

static bool is_mine(const struct hr_resv_holder *holder, const struct hr_resv_host *self)
{
	return memcmp(holder->id, self->id, holder->id_bytes) == 0;
}

/* Another host acquired the reservation between the report and the command. */
static int overtaken(struct hr_nvme_blk *disk, const struct hr_resv_host *self,
		     struct hr_resv_holder *holder, struct hr_error *e)
{
	bool mine = false;
	int err = read_reservation_report(disk, self->id, holder, &mine, e);

	if (mine)
		(void)unregister_key(disk, self->key, e);
	if (err)
		return err;
	return holder->type && !is_mine(holder, self)
		       ? -EBUSY
		       : fail_reservation(disk, "reservation acquire", NVME_SC_RESERVATION_CONFLICT,
					  e);
}

static int acquire_reservation(struct hr_reservation *r, struct hr_nvme_blk *disk,
			       const struct hr_resv_host *self, struct hr_resv_holder *holder,
			       struct hr_error *e)
{
	bool mine;
	int err = set_host_id(disk, self->id, e);

	if (!err)
		err = read_reservation_report(disk, self->id, holder, &mine, e);
	if (err)
		return err;
	if (holder->type && !is_mine(holder, self))
		return -EBUSY;
	err = enroll(disk, self->key, mine, e);
	if (err)
		return fail_reservation(disk, "reservation register", err, e);
	if (holder->type && holder->type != r->type)
		err = release_reservation(disk, holder->type, self->key, e);
	if (!err)
		err = acquire(disk, r->type, self->key, e);
	if (err == NVME_SC_RESERVATION_CONFLICT)
		return overtaken(disk, self, holder, e);
	fail_reservation(disk, "reservation acquire", err, e);
	if (err > 0)
		(void)unregister_key(disk, self->key, e);
	return err;
}

int hr_resv_acquire(struct hr_reservation *r, struct hr_nvme_blk *disk,
		    const struct hr_resv_host *self, struct hr_resv_holder *holder,
		    struct hr_error *e)
{
	int err, fd;

	memset(holder, 0, sizeof(*holder));
	*r = (struct hr_reservation){ .lock = -1, .key = self->key, .type = type_of(&disk->ns) };
	if (!hr_resv_supported(disk))
		return 0;
	fd = lock(disk, e);
	if (fd < 0)
		return fd;
	err = acquire_reservation(r, disk, self, holder, e);
	if (err)
		close(fd);
	else
		r->lock = fd;
	r->held = err == 0;
	return err;
}

int hr_resv_renew(struct hr_reservation *r, struct hr_nvme_blk *disk,
		  const struct hr_resv_host *self, struct hr_resv_holder *holder,
		  struct hr_error *e)
{
	memset(holder, 0, sizeof(*holder));
	return r->held ? acquire_reservation(r, disk, self, holder, e) : 0;
}

void hr_resv_release(struct hr_reservation *r, struct hr_nvme_blk *disk, bool send,
		     struct hr_error *e)
{
	const struct hr_resv_host self = { .key = r->key };
	struct hr_resv_holder holder;
	char text[HR_RESV_TEXT];
	bool mine;
	int err;

	if (!r->held)
		return;
	err = send ? release_reservation(disk, r->type, r->key, e) : 0;
	if (send && !err)
		err = unregister_key(disk, r->key, e);
	if (err == NVME_SC_RESERVATION_CONFLICT &&
	    read_reservation_report(disk, self.id, &holder, &mine, e) == 0)
		hr_warn("%s: namespace %u: the reservation of this host is lost: %s",
			disk->blk.name, disk->ns.nsid,
			holder.type ? hr_resv_text(&holder, text) : "another host has removed it");
	else
		(void)fail_reservation(disk, "reservation release", err, e);
	close(r->lock);
	r->held = false;
}

static int clear(struct hr_nvme_blk *disk, const struct hr_resv_host *self,
		 struct hr_resv_holder *holder, struct hr_error *e)
{
	bool mine;
	uint64_t victim;
	int err = set_host_id(disk, self->id, e);

	if (!err)
		err = read_reservation_report(disk, self->id, holder, &mine, e);
	if (err || !holder->type)
		return err;
	err = enroll(disk, self->key, mine, e);
	if (err)
		return fail_reservation(disk, "reservation register", err, e);
	/* Base 2.0, 8.19.7: for the All Registrants types, key 0 means all other registrants. */
	victim = ALL_REGISTRANTS(holder->type) ? 0 : holder->key;
	if (!is_mine(holder, self))
		err = send_keys(disk, nvme_cmd_resv_acquire,
				NVME_RESERVATION_RACQA_PREEMPT | (uint32_t)type_of(&disk->ns)
									 << RTYPE_SHIFT,
				self->key, victim, e);
	fail_reservation(disk, "reservation acquire (preempt)", err, e);
	if (err > 0)
		(void)unregister_key(disk, self->key, e);
	if (err)
		return err;
	return fail_reservation(disk, "reservation register (unregister)",
				unregister_key(disk, self->key, e), e);
}

int hr_resv_clear(struct hr_nvme_blk *disk, const struct hr_resv_host *self,
		  struct hr_resv_holder *holder, struct hr_error *e)
{
	int err, fd;

	memset(holder, 0, sizeof(*holder));
	if (!hr_resv_supported(disk))
		return -ENOTSUP;
	fd = lock(disk, e);
	if (fd < 0)
		return fd;
	err = clear(disk, self, holder, e);
	close(fd);
	return err;
}

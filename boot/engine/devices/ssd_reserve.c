/* SPDX-License-Identifier: Apache-2.0 */
/* Reservations of the namespace of an ssd. */
#include <errno.h>
#include <string.h>

#include "boot/engine/devices/ssd.h"
#include "config/base/log.h"
#include "config/base/text.h"

static int held_by_another(const struct hr_ssd *ssd, const struct hr_resv_holder *holder,
			   struct hr_error *e)
{
	char text[HR_RESV_TEXT], word[HR_QUOTE_BYTES];

	if (holder->type)
		return hr_fail(
			e, HR_ERROR_MISSING, -EBUSY,
			"%s: namespace %u is reserved by another host: %s; nothing was changed. "
			"If that host does not use the disk any more: headrace store unlock --nsid "
			"%u %s",
			ssd->transport.name, ssd->ns.nsid, hr_resv_text(holder, text), ssd->ns.nsid,
			hr_quote(ssd->device, word));
	return hr_fail(e, HR_ERROR_MISSING, -EBUSY,
		       "%s: namespace %u is in use by another process or controller of this "
		       "machine; nothing was changed",
		       ssd->transport.name, ssd->ns.nsid);
}

int hr_ssd_reserve(struct hr_ssd *ssd, struct hr_error *e)
{
	struct hr_resv_holder holder;
	struct hr_resv_host self;
	int err;

	if (!hr_ssd_has_disk(ssd) || ssd->ns.read_only || ssd->reservation.held)
		return 0;
	hr_resv_self(&self);
	err = hr_resv_acquire(&ssd->reservation, &ssd->disk, &self, &holder, e);
	if (err == -EBUSY)
		return held_by_another(ssd, &holder, e);
	if (!err && ssd->reservation.held)
		hr_info("%s: namespace %u: %s reservation, key 0x%016llx", ssd->transport.name,
			ssd->ns.nsid, hr_resv_type_name(ssd->reservation.type),
			(unsigned long long)ssd->reservation.key);
	return err;
}

int hr_ssd_unlock(struct hr_ssd *ssd, struct hr_resv_holder *holder, struct hr_error *e)
{
	struct hr_resv_host self;
	int err = -ENOTSUP;

	memset(holder, 0, sizeof *holder);
	hr_resv_self(&self);
	if (hr_ssd_has_disk(ssd))
		err = hr_resv_clear(&ssd->disk, &self, holder, e);
	if (ssd->blk == &ssd->kernel.blk)
		return hr_fail(e, HR_ERROR_MISSING, err,
			       "%s: a reservation is removed through pci:BDF or vfio:BDF, not "
			       "through the kernel",
			       ssd->transport.name);
	if (err == -ENOTSUP)
		return hr_fail(e, HR_ERROR_MISSING, err,
			       "%s: namespace %u has no reservations (ONCS bit 5, RESCAP)",
			       ssd->transport.name, ssd->ns.nsid);
	return err == -EBUSY ? held_by_another(ssd, holder, e) : err;
}

int hr_ssd_renew(struct hr_ssd *ssd, struct hr_error *e)
{
	struct hr_resv_holder holder;
	struct hr_resv_host self;
	int err;

	hr_resv_self(&self);
	err = hr_resv_renew(&ssd->reservation, &ssd->disk, &self, &holder, e);
	return err == -EBUSY ? held_by_another(ssd, &holder, e) : err;
}

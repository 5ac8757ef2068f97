/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "nvme/soft/internal.h"

#define PRP_BYTES 8u

void *soft_dma_search(const struct soft *soft, const struct soft_window **hint, uint64_t bus,
		      uint64_t bytes)
{
	void *cpu = NULL;

	for (uint32_t i = 0; !cpu && i < HR_SOFT_WINDOWS; i++) {
		cpu = soft_window_at(&soft->window[i], bus, bytes);
		if (cpu)
			*hint = &soft->window[i];
	}
	return cpu;
}

/* A vector being filled with the pages of a transfer. */
struct filler {
	const struct soft *soft;
	const struct soft_window **hint;
	struct iovec *vec;
	unsigned max, count;
	uint64_t left;
};

/* Add the next piece: up to the end of its page, or of the transfer. */
static uint16_t add_dma_piece(struct filler *f, uint64_t bus)
{
	const uint64_t room = HR_PAGE - (bus & (HR_PAGE - 1));
	const uint64_t bytes = f->left < room ? f->left : room;
	uint8_t *cpu = soft_dma(f->soft, f->hint, bus, bytes);
	struct iovec *last = f->count ? &f->vec[f->count - 1] : NULL;

	if (!cpu)
		return NVME_SC_DATA_XFER_ERROR;
	f->left -= bytes;
	if (last && (uint8_t *)last->iov_base + last->iov_len == cpu) {
		last->iov_len += bytes;
		return 0;
	}
	if (f->count == f->max)
		return NVME_SC_INTERNAL;
	f->vec[f->count].iov_base = cpu;
	f->vec[f->count++].iov_len = bytes;
	return 0;
}

/*
 * Add the entries of the PRP list at `list`. The last entry of a full page points to the next list.
 * Only the first list may start inside a page, so only the first can consist of that pointer alone.
 */
static uint16_t fill_from_list(struct filler *f, uint64_t list)
{
	while (f->left) {
		const uint64_t room = (HR_PAGE - (list & (HR_PAGE - 1))) / PRP_BYTES;
		const uint64_t pages = (f->left + HR_PAGE - 1) / HR_PAGE;
		const bool chained =
			soft_has_quirk(f->soft, HR_SOFT_LIST_END) ? pages >= room : pages > room;
		const uint64_t entries = chained ? room - 1 : pages;
		const uint64_t *entry =
			soft_dma(f->soft, f->hint, list, (entries + chained) * PRP_BYTES);

		if (!entry)
			return NVME_SC_DATA_XFER_ERROR;
		for (uint64_t i = 0; i < entries; i++) {
			/* Load once: the host may change the entry between check and use. */
			const uint64_t bus = __atomic_load_n(&entry[i], __ATOMIC_RELAXED);
			uint16_t status = bus & (HR_PAGE - 1) ? NVME_SC_PRP_INVALID_OFFSET
							      : add_dma_piece(f, bus);

			if (status)
				return status;
		}
		if (chained) {
			list = __atomic_load_n(&entry[entries], __ATOMIC_RELAXED);
			if (list & (HR_PAGE - 1))
				return NVME_SC_PRP_INVALID_OFFSET;
		}
	}
	return 0;
}

uint16_t soft_prp(const struct soft *soft, const struct soft_window **hint,
		  const struct hr_sqe *sqe, uint64_t bytes, struct iovec *vec, unsigned max,
		  unsigned *count)
{
	struct filler f = { soft, hint, vec, max, 0, bytes };
	uint16_t status;

	if (sqe->prp1 & 3)
		return NVME_SC_PRP_INVALID_OFFSET;
	status = add_dma_piece(&f, sqe->prp1);
	if (!status && f.left && f.left <= HR_PAGE)
		status = sqe->prp2 & (HR_PAGE - 1) ? NVME_SC_PRP_INVALID_OFFSET
						   : add_dma_piece(&f, sqe->prp2);
	else if (!status && f.left)
		status = sqe->prp2 & (PRP_BYTES - 1) ? NVME_SC_PRP_INVALID_OFFSET
						     : fill_from_list(&f, sqe->prp2);
	*count = f.count;
	return status;
}

uint16_t soft_copy_out(const struct soft *soft, const struct hr_sqe *sqe, const void *data,
		       uint32_t bytes)
{
	const struct soft_window *hint = soft->window;
	const uint8_t *from = data;
	struct iovec vec[2];
	unsigned count;
	const uint16_t status = soft_prp(soft, &hint, sqe, bytes, vec, 2, &count);

	for (unsigned i = 0; !status && i < count; i++) {
		memcpy(vec[i].iov_base, from, vec[i].iov_len);
		from += vec[i].iov_len;
	}
	return status;
}

void soft_gather(void *data, const struct iovec *vec, unsigned count)
{
	uint8_t *to = data;

	for (unsigned i = 0; i < count; i++) {
		memcpy(to, vec[i].iov_base, vec[i].iov_len);
		to += vec[i].iov_len;
	}
}

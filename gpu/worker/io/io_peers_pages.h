/*
 * gpu/worker/io/io_peers_pages.h - pages of the own gpu that other gpus have or want:
 * gpu/worker/io/peers.h. Worker code.
 */
#ifndef GPU_WORKER_IO_IO_PEERS_PAGES_H
#define GPU_WORKER_IO_IO_PEERS_PAGES_H

#include "gpu/worker/io/peers.h"

/* Messages of homes: take them from a gpu, and act. True when there were any. Collective. */
HR_DEVICE bool hr_peer_pages_take(struct hr_io_worker *w, uint32_t gpu);

/* Go on with pending sets. True when something was done. Collective. */
HR_DEVICE bool hr_peer_pages_pending(struct hr_io_worker *w);

/* An answer that is late for a way of a set; *gpu HR_IO_NONE: the epoch is. For one lane. */
HR_DEVICE bool hr_peer_pages_late(const struct hr_io_worker *w, uint32_t set, uint32_t *gpu,
				  uint32_t *page);

/* Put a set into the list of pending sets. One lane. */
HR_DEVICE_SLOW void hr_io_peers_list(const struct hr_io_worker *w, uint32_t set);

/* The number of pages, at most `room`, for which GET or UPGRADE fits into the mailboxes. Collective. */
HR_DEVICE_SLOW uint32_t hr_io_peers_room(const struct hr_io_worker *w, uint32_t room);

/* Send GET for a page of a batch that got a frame. One lane. */
HR_DEVICE_SLOW void hr_io_peers_get(const struct hr_io_worker *w, const struct hr_io_batch *b,
				    uint32_t s);

/* A request to write to a page in a way: true when it has to wait, and UPGRADE is sent. One lane. */
HR_DEVICE_SLOW bool hr_io_peers_upgrade(const struct hr_io_worker *w, uint32_t page, uint32_t set,
					uint32_t way, uint32_t word);

/* The ways of a set, as a mask, that no message is on its way for. One lane. */
HR_DEVICE_SLOW uint32_t hr_io_peers_idle(const struct hr_io_worker *w, uint32_t set);

/* The frame of a way has its page (READY), or the read has failed (ERROR): set the state, and tell the
 * home. One lane. */
HR_DEVICE_SLOW void hr_io_peers_filled(const struct hr_io_worker *w, uint32_t set, uint32_t way,
				       enum hr_page_state state);

#endif

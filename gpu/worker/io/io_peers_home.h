/*
 * gpu/worker/io/io_peers_home.h - an I/O worker as the home of rows: gpu/worker/io/peers.h.
 * Worker code.
 */
#ifndef GPU_WORKER_IO_IO_PEERS_HOME_H
#define GPU_WORKER_IO_IO_PEERS_HOME_H

#include "gpu/worker/io/peers.h"

/* Messages to the home of this gpu: take them from a gpu, and act. True when there were any.
 * Collective. */
HR_DEVICE bool hr_peer_home_take(struct hr_io_worker *w, uint32_t gpu);

/* The first entry of a set of this home that is late, in *entry. For one lane. False: none. */
HR_DEVICE bool hr_peer_home_late(const struct hr_io_worker *w, uint32_t set, uint32_t *gpu,
				 uint32_t *page);

#endif

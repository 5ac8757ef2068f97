/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu/tap/client/mapping.h - what came with WELCOME of a tap or feed, as this process has it mapped:
 * tiles, entries, and its page. For gpu/tap/client/.
 *
 * The content of tiles and entries is written by the other side, which is not trusted: the sizes are
 * checked here, entries by those that take them.
 */
#ifndef GPU_TAP_CLIENT_MAPPING_H
#define GPU_TAP_CLIENT_MAPPING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/tap/client/tap_cuda.h"
#include "gpu/tap/protocol.h"

struct hr_tap_mapping {
	uint8_t *
		tiles; /* an address on the GPU, when `cuda` is not NULL; a consumer's: read only */
	struct hr_tap_cuda *cuda; /* the tiles are on a GPU, with this number here; NULL: -1 */
	int gpu;
	size_t tiles_bytes, ring_bytes, page_bytes;
	const void *head;		  /* struct hr_tap_head or hr_feed_head; read only */
	const struct hr_tap_entry *entry; /* [ring], behind the head */
	void *page;			  /* struct hr_tap_returns or hr_feed_commits */
	uint32_t *held; /* [slots]: generation of the tile in hand; 0: none; the caller's */
	uint32_t slots, ring, stride;
};

/*
 * Map it; the caller closes the descriptors. feed: for a producer, which writes to the tiles. gpu: as
 * in hr_tap_options. 0; -EPROTO: the sizes cannot be, or the memory is none of a tap or feed;
 * -ENOMEM: it cannot be mapped; as hr_tap_cuda_open(): nothing is mapped, and `why` has one line of
 * text.
 */
int hr_tap_mapping_open(struct hr_tap_mapping *map, const struct hr_tap_message *welcome,
			const int fds[HR_TAP_FDS], bool feed, int gpu, char *why, size_t why_bytes);

/* All zero: does nothing. forked: this is a child of the process that has opened it. */
void hr_tap_mapping_close(struct hr_tap_mapping *map, bool forked);

/* A word with 1, which the kernel clears in a child of fork(). NULL: no memory. */
uint32_t *hr_tap_alive_open(void);

/* NULL: does nothing. */
void hr_tap_alive_close(uint32_t *alive);

#endif

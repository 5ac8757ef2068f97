/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu/tap/poison.h - overwrite memory that no process may read any more; for gpu/tap/{role,feed}.c.
 * Worker code.
 *
 * A consumer that reads a tile after it has given it back sees whatever comes next into the slot, often
 * the same bytes for a long time. In builds with the address sanitizer it sees the pattern at once: a
 * tile that is given back, or a slot that is offered to a producer, is overwritten. Other builds do
 * nothing.
 */
#ifndef GPU_TAP_POISON_H
#define GPU_TAP_POISON_H

#include "gpu/worker/pipeline.h"

#define HR_TAP_POISON 0xdbu

HR_WORKER void tap_poison(const struct hr_buffer *buffer)
{
#ifdef __SANITIZE_ADDRESS__
	uint8_t *data = (uint8_t *)buffer->data;
	uint32_t i;

	/* tests of the roles alone have no tiles */
	for (i = 0; data && i < buffer->bytes; i++)
		data[i] = HR_TAP_POISON;
#endif
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boot/engine/exchange/exchange.h - compares the data that an ssd and the memory of a gpu
 * exchange, both ways.
 *
 * A root complex may move data between two devices at full rate, report no error, and deliver
 * ffffffff in each word. So neither a rate nor the success of a command proves a path. For each size
 * from 4 KiB to 64 MiB:
 *
 *   to the gpu    the ssd writes GPU memory. The contents of that memory are compared with the same
 *                 blocks, read through host memory; memory before and behind the transfer must not
 *                 change. Existing blocks are read; when they are constant, those of the scratch
 *                 area, which then hold a pattern.
 *   from the gpu  the ssd reads GPU memory: it writes a pattern to the scratch area, which is read
 *                 back through host memory; without a scratch area its Compare command (ONCS bit 0)
 *                 compares GPU memory with existing blocks; else this way is not proven.
 *
 * Only the scratch area is written: the one that the caller names, or that of the ssd's store. It is
 * written by pieces; a larger size uses it several times.
 */
#ifndef BOOT_ENGINE_EXCHANGE_EXCHANGE_H
#define BOOT_ENGINE_EXCHANGE_EXCHANGE_H

#include <stdint.h>

#include "boot/engine/exchange/difference.h"
#include "boot/engine/devices/ssd.h"
#include "gpu/backend.h"

#define HR_EXCHANGE_LEAST HR_PAGE
#define HR_EXCHANGE_MOST (64ull << 20)

enum hr_exchange_way { HR_EXCHANGE_TO_GPU, HR_EXCHANGE_FROM_GPU, HR_EXCHANGE_WAYS };

/* Best first. */
enum hr_exchange_outcome {
	HR_EXCHANGE_EQUAL,    /* proven */
	HR_EXCHANGE_WEAK,     /* equal, but the blocks are constant: pages may be swapped */
	HR_EXCHANGE_UNPROVEN, /* nothing was compared */
	HR_EXCHANGE_FAILED,   /* a command failed with a status */
	HR_EXCHANGE_DIFFERS,
	HR_EXCHANGE_OUTCOMES
};

struct hr_exchange_row {
	enum hr_exchange_way way;
	uint64_t bytes; /* size of the transfer; 0: nothing was compared */
	enum hr_exchange_outcome outcome;
	const char *by; /* "existing blocks", "scratch area", "Compare", "" */
	uint64_t ns;	/* time of the transfer; 0: it was not done */
	struct hr_difference difference;
	char text[640]; /* what was found, or why nothing was compared */
};

struct hr_exchange {
	struct hr_ssd *ssd; /* up, reserved if it has a store; its store is open if it has one */
	struct hr_backend *backend;
	/* A range of the namespace that may be overwritten; bytes 0: none. Whole pages. */
	uint64_t scratch, scratch_bytes;
	uint64_t budget_ns; /* no further size after this time; 0: no limit */
	/* Called for each size of each way, and for a way that is not compared. */
	void (*show)(void *to, const struct hr_exchange_row *row);
	void *to;
};

/* The worst row of each way, and the largest size that was equal. */
struct hr_exchange_result {
	struct hr_exchange_row worst[HR_EXCHANGE_WAYS];
	uint64_t most[HR_EXCHANGE_WAYS];
	bool cut; /* the budget, or the memory, ended the sizes early */
};

/*
 * Compare. A way ends with the first size that is not equal. 0: see the result; -ENOTSUP: the ssd
 * cannot reach memory of this gpu; -EINTR: a signal requests a stop; or an error of the disk or the
 * backend. After a lost command the controller is disabled, or its health is HR_HEALTH_STUCK.
 */
int hr_exchange_run(const struct hr_exchange *x, struct hr_exchange_result *result,
		    struct hr_error *e);

const char *hr_exchange_way_text(enum hr_exchange_way way);	/* "SSD writes GPU memory" */
const char *hr_exchange_word(enum hr_exchange_outcome outcome); /* "equal", "weak", ... */

#endif

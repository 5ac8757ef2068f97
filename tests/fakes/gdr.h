/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/fakes/gdr.h - libgdrapi and the dma-buf part of a GPU driver, without a GPU: "GPU memory"
 * is any mapping of this process that the test provides, for example a BAR of another device.
 *
 * GPU address FAKE_GDR_BASE + n is byte n of that mapping. Calls are checked like in the library:
 * memory is not unpinned while mapped, the library is not closed while memory is pinned, and
 * nothing is used after it was closed.
 */
#ifndef TESTS_FAKES_GDR_H
#define TESTS_FAKES_GDR_H

#include "gpu/window.h"

#define FAKE_GDR_BASE (0x7f0000000000ull)

enum fake_gdr_call { FAKE_GDR_OPEN = 1, FAKE_GDR_PIN, FAKE_GDR_MAP, FAKE_GDR_INFO };

struct fake_gdr {
	uint8_t *memory; /* memory at FAKE_GDR_BASE */
	size_t bytes;
	int memory_fd;		 /* descriptor of the memory, for dma-buf; -1: none */
	enum fake_gdr_call fail; /* this call fails with `error`; 0: none */
	int error;
	size_t skew;	/* the mapping begins that many bytes before the requested address */
	bool unaligned; /* info returns an impossible address */
	unsigned opened, pinned, mapped; /* number of open, pinned and mapped resources */
	unsigned wrong;			 /* calls in an order that the library forbids */
	int major;			 /* reported version; 2 after fake_gdr_set() */
};

/* One at a time: the library has no context before gdr_open(). */
void fake_gdr_set(struct fake_gdr *fake, void *memory, size_t bytes, int memory_fd);

/* Tables of functions that use the fake. */
struct hr_gdr fake_gdr_table(void);
struct hr_window_driver fake_gdr_driver(struct fake_gdr *fake);

#endif

/*
 * tests/fakes/gdr.h - libgdrapi and the dma-buf half of a GPU driver, without a GPU: "GPU memory" is
 * any mapping of this process that the test hands over, a BAR of another device for example.
 *
 * GPU address FAKE_GDR_BASE + n is byte n of that mapping. Calls are checked as the library checks
 * them: nothing is unpinned while mapped, closed while pinned, or used after it was closed.
 */
#ifndef TESTS_FAKES_GDR_H
#define TESTS_FAKES_GDR_H

#include "gpu/window.h"

#define FAKE_GDR_BASE (0x7f0000000000ull)

enum fake_gdr_call { FAKE_GDR_OPEN = 1, FAKE_GDR_PIN, FAKE_GDR_MAP, FAKE_GDR_INFO };

struct fake_gdr {
	uint8_t *memory; /* behind FAKE_GDR_BASE */
	size_t bytes;
	int memory_fd;		 /* of it, for dma-buf; -1: none */
	enum fake_gdr_call fail; /* this call fails with error; 0: none */
	int error;
	size_t skew;	/* the mapping begins that many bytes before what was asked for */
	bool unaligned; /* info says an address that cannot be */
	unsigned opened, pinned, mapped; /* at present */
	unsigned wrong;			 /* calls in an order that the library forbids */
	int major;			 /* version that it says; 2 after fake_gdr_set() */
};

/* One at a time: the library has no context before gdr_open(). */
void fake_gdr_set(struct fake_gdr *fake, void *memory, size_t bytes, int memory_fd);

/* Tables that lead to it. */
struct hr_gdr fake_gdr_table(void);
struct hr_window_driver fake_gdr_driver(struct fake_gdr *fake);

#endif
